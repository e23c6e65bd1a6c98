"""The same state as our roles', declared in pyinfra: packages, files, units.

`state.json` beside the inventory was read from a converged node, so both sides own the same.
"""

import json
import os
from pathlib import Path

from pyinfra.operations import apt, files, systemd

folder = Path(os.environ["BENCH_STATE"])
state = json.loads((folder / "state.json").read_text())

apt.packages(name="packages", packages=state["packages"], _sudo=True)
for file in state["files"]:
    files.put(
        name=file["path"],
        src=str(folder / file["source"]),
        dest=file["path"],
        mode=file["mode"],
        user=file["user"],
        group=file["group"],
        _sudo=True,
    )
for unit in state["units"]:
    systemd.service(name=unit, service=unit, running=True, enabled=True, _sudo=True)
