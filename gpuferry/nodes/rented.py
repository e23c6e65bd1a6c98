"""Servers that somebody already rents: log in, look, change nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gpuferry.errors import StepFailed
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession, wait_for_ssh

_SUPPORTED = {("debian", "12"), ("debian", "13"), ("ubuntu", "22.04"), ("ubuntu", "24.04")}

_LOOK = r"""
. /etc/os-release
printf '{"id":"%s","version":"%s","machine_id":"%s","arch":"%s",' "$ID" "$VERSION_ID" \
  "$(cat /etc/machine-id)" "$(uname -m)"
printf '"container":"%s",' "$(systemd-detect-virt --container 2>/dev/null || true)"
printf '"cpus":"%s","memory_kib":"%s","sudo":"%s"}' "$(nproc)" \
  "$(awk '/MemTotal/{print $2}' /proc/meminfo)" \
  "$(sudo -n true 2>/dev/null && echo yes || echo no)"
"""


def adopt(inputs: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    """Reach a rented server with its pinned host key and return the outputs of a provider.

    Raises:
        ServerUnreachable: no answer by the deadline, a wrong host key, a refused login.
        StepFailed: the server is not one that can be converged; the message says why.
    """
    server = _server(inputs)
    wait_for_ssh(server, inputs["ssh_wait_seconds"], on_progress=say)
    with SshSession([server]) as session:
        done = session.run(server, _LOOK)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise StepFailed(f"{server.name}: its facts could not be read: {said[-300:]}")
    # The last line: a login shell may print a greeting first.
    facts = json.loads(done.stdout.decode(errors="replace").strip().splitlines()[-1])
    problem = refusal(server, facts)
    if problem:
        raise StepFailed(f"{server.name}: {problem}")
    return {
        **server.model_dump(include={"address", "port", "user", "host_key", "private_address"}),
        "instance_id": facts["machine_id"][:12],
        "provider_facts": {
            "provider": "ssh",
            "kind": "server" if facts["container"] in ("", "none") else "container",
            "image": f"{facts['id']}-{facts['version']}",
            "architecture": facts["arch"],
            "cpus": facts["cpus"],
            "memory_gib": f"{int(facts['memory_kib']) / 1048576:.1f}",
        },
    }


def refusal(server: Server, facts: dict[str, str]) -> str | None:
    """Why a server with these facts cannot be converged, or None."""
    if (facts["id"], facts["version"]) not in _SUPPORTED:
        known = ", ".join(f"{name} {version}" for name, version in sorted(_SUPPORTED))
        return f"it runs {facts['id']} {facts['version'] or '(no version)'}; supported: {known}."
    if facts["sudo"] != "yes":
        return server.sudo_advice
    return None


def _server(inputs: dict[str, Any]) -> Server:
    from gpuferry import inventory

    wanted = {"name", "address", "port", "user", "host_key", "key_file", "private_key"}
    raw = {key: value for key, value in inputs.items() if key in wanted}
    raw |= {"private_address": inputs["address"], "instance_id": "unknown"}
    entry: dict[str, Any] = {
        "server": raw,
        "ssh_wait_seconds": 0,
        "variables": {},
        "expectations": {},
    }
    return inventory.parse(entry).server
