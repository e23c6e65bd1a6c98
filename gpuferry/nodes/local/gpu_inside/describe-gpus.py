#!/usr/bin/python3
"""Runs on a local server in the place of `nvidia-ctk cdi generate`: a CDI specification.

nvidia-ctk itself writes it; it is only told where the simulated library is, since it looks in the
distribution's folders alone, and every container is given the scenario, too.
"""

import json
import os
import shutil
import subprocess
import sys

LIBRARIES = "/opt/gpusim/lib"
FOLDERS = ("/var/lib/gpusim", "/run/gpusim")


def name_library():
    """nvidia-ctk finds a driver's libraries by the version at the end of their names."""
    with open("/var/lib/gpusim/driver", encoding="utf-8") as handle:
        version = handle.read().split()[0]
    wanted = f"libnvidia-ml.so.{version}"
    for name in os.listdir(LIBRARIES):
        if name not in ("libnvidia-ml.so.1", wanted):
            os.unlink(f"{LIBRARIES}/{name}")
    shutil.copy(f"{LIBRARIES}/libnvidia-ml.so.1", f"{LIBRARIES}/{wanted}.draft")
    os.rename(f"{LIBRARIES}/{wanted}.draft", f"{LIBRARIES}/{wanted}")


def with_folders(path):
    """The specification with the scenario and the marks of busy processes mounted."""
    with open(path, encoding="utf-8") as handle:
        specification = json.load(handle)
    mounts = specification.setdefault("containerEdits", {}).setdefault("mounts", [])
    options = ["rbind", "rprivate"]
    mounts += [{"hostPath": f, "containerPath": f, "options": options} for f in FOLDERS]
    return json.dumps(specification, separators=(",", ":"))


def main(path):
    """Write the specification, or leave the old one where nvidia-ctk fails."""
    name_library()
    fresh = "/run/gpusim/cdi.json"
    command = ["nvidia-ctk", "cdi", "generate", "--format=json", f"--output={fresh}"]
    command += ["--device-name-strategy=uuid", "--device-name-strategy=index"]
    done = subprocess.run([*command, f"--library-search-path={LIBRARIES}"], check=False)
    if done.returncode == 0:
        with open(f"{path}.draft", "w", encoding="utf-8") as handle:
            handle.write(with_folders(fresh))
        os.rename(f"{path}.draft", path)
    return done.returncode


sys.exit(main(sys.argv[1]))
