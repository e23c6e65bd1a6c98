"""List GPUs from inside a container, on a server that may reach no registry.

The image is the few libraries that nvidia-smi is linked with, taken from the server itself, so that
everything about the GPUs has to come from the container toolkit.
"""

from __future__ import annotations

from typing import TypedDict

from gpuferry.checking.node import Node


class GpuContainer(TypedDict):
    """What `nvidia-smi -L` said in a container; `trouble` names the step that failed."""

    trouble: str
    output: str


# How GPUs are asked for. The second way also works before Docker 25, which knows no CDI.
WAYS = {
    "device": ["--device", "nvidia.com/gpu=all"],
    "runtime": ["--runtime=nvidia", "-e", "NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=all"],
}
_PROGRAM = """
import concurrent.futures, io, os, re, shutil, signal, subprocess, tarfile, time
ATTEMPTS = (1, 2)
# An emulated server needs ten for what others do in one.
SECONDS = 25
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
name = "gpuferry-check-" + os.urandom(6).hex()
answer = {way: {"trouble": "", "output": ""} for way in payload}
def docker(*words, data=None, into=None):
    try:
        done = subprocess.run(["docker", *words], input=data, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"docker {words[0]} did not end within {SECONDS} s") from None
    if into is not None:
        into["output"] = done.stdout.decode(errors="replace")
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        first = next((s for s in said if "rror" in s), (said or ["no output"])[0])
        raise RuntimeError("docker %s: exit code %d: %s" % (words[0], done.returncode, first))
def list_in_container(way, options):
    # Twice: Docker reads a specification that was just renewed a moment later.
    for attempt in ATTEMPTS:
        try:
            docker("run", "--rm", "--name", f"{name}-{way}-{attempt}", "--label",
                   "gpuferry.check=1", "--network=none", *options, name, "nvidia-smi", "-L",
                   into=answer[way])
            answer[way]["trouble"] = ""
            return
        except RuntimeError as error:
            answer[way]["trouble"] = str(error)
            time.sleep(1)
        except OSError as error:
            answer[way]["trouble"] = str(error)
            return
def image():
    linked = subprocess.run(["ldd", "/usr/bin/nvidia-smi"], capture_output=True, text=True).stdout
    paths = re.findall(r"(/\\S+) \\(0x", linked)
    if not paths:
        raise RuntimeError("nvidia-smi is not installed")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in paths:
            tar.add(os.path.realpath(path), path)
        for folder in ("etc", "tmp", "proc", "sys", "dev", "run", "var"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    return buffer.getvalue()
try:
    if not shutil.which("docker"):
        raise RuntimeError("docker is not installed")
    docker("import", "-", name, data=image())
    with concurrent.futures.ThreadPoolExecutor(len(payload)) as pool:
        list(pool.map(list_in_container, payload, payload.values()))
except (RuntimeError, OSError) as error:
    for way in answer:
        answer[way]["trouble"] = str(error)
finally:
    if shutil.which("docker"):
        for way in payload:
            both = [f"{name}-{way}-{attempt}" for attempt in ATTEMPTS]
            subprocess.run(["docker", "rm", "-fv", *both], capture_output=True)
        subprocess.run(["docker", "image", "rm", name], capture_output=True)
"""


def list_gpus(node: Node) -> dict[str, GpuContainer]:
    """Run one container for each way to ask for GPUs, and remove them again."""
    result: dict[str, GpuContainer] = node.python(_PROGRAM, WAYS, 40)
    return result
