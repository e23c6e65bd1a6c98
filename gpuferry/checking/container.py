"""Run a real container on a server that may reach no registry.

The image is a few links; the container borrows the server's own /usr, read-only, and so has a
complete user land without a download. It answers one connection on a published port and ends.
"""

from __future__ import annotations

from typing import TypedDict

from gpuferry.checking.node import Node

GREETING = "hello from the container"


class ContainerRun(TypedDict):
    """What became of the container; `trouble` names the step that failed, empty when none did."""

    trouble: str
    greeting: str
    exit_code: int
    log_driver: str
    log_options: dict[str, str]
    seconds: float


# Removes what it made on every way out; the SIGTERM handler serves the check's deadline.
_PROGRAM = """
import io, os, shutil, signal, socket, subprocess, tarfile, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
name = "gpuferry-check-" + os.urandom(6).hex()
answer = {"trouble": "", "greeting": "", "exit_code": -1, "log_driver": "", "log_options": {}}
serve = (
    "import socket; s = socket.create_server(('', 8000)); s.settimeout(15); c = s.accept()[0]; "
    "c.sendall(%r); c.close(); print(%r.decode())" % (payload.encode(), payload.encode())
)
def docker(*words, data=None):
    done = subprocess.run(["docker", *words], input=data, capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no output"]
        raise RuntimeError("docker %s: %s" % (words[0], said[-1]))
    return done.stdout.decode().strip()
def image():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for link in ("bin", "sbin", "lib", "lib64"):
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, "usr/" + link
            tar.addfile(entry)
    return buffer.getvalue()
def greeting(port, until):
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2) as s:
                text = s.makefile().read()
            if text or time.monotonic() > until:
                return text
        except OSError:
            if time.monotonic() > until:
                raise RuntimeError("the published port does not answer on loopback")
        time.sleep(0.05)
started = time.monotonic()
try:
    if not shutil.which("docker"):
        raise RuntimeError("docker is not installed")
    docker("import", "-", name, data=image())
    docker("run", "-d", "--name", name, "--label", "gpuferry.check=1", "-p", "127.0.0.1::8000",
           "--read-only", "-v", "/usr:/usr:ro", name, "/usr/bin/python3", "-c", serve)
    details = json.loads(docker("inspect", name))[0]
    log = details["HostConfig"]["LogConfig"]
    answer["log_driver"], answer["log_options"] = log["Type"], log["Config"] or {}
    port = int(docker("port", name, "8000/tcp").rsplit(":", 1)[1])
    answer["greeting"] = greeting(port, time.monotonic() + 10)
    answer["exit_code"] = int(docker("wait", name))
except (RuntimeError, OSError) as error:
    answer["trouble"] = str(error)
finally:
    if shutil.which("docker"):
        subprocess.run(["docker", "rm", "-fv", name], capture_output=True)
        subprocess.run(["docker", "image", "rm", name], capture_output=True)
answer["seconds"] = time.monotonic() - started
"""


def run_container(node: Node) -> ContainerRun:
    """Run the container on the server and remove it again."""
    result: ContainerRun = node.python(_PROGRAM, GREETING, 60)
    return result


def is_bounded_log(driver: str, options: dict[str, str]) -> bool:
    """Whether a container's log cannot fill the disk.

    json-file, Docker's default, grows without an end unless max-size is set; `local` rotates at
    100 MB by itself; the others keep nothing in Docker's own folder.
    """
    return driver != "json-file" or bool(options.get("max-size"))
