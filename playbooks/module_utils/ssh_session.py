"""The SSH connection that a run came in by."""

from __future__ import annotations

import os


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""


def ssh_session():
    """Both ends of the SSH connection above this process, and who logged in; empty without one.

    sudo drops the variable that says so, hence the ancestors are asked.
    """
    process = os.getpid()
    while process > 1:
        entries = _read(f"/proc/{process}/environ").split("\0")
        values = dict(entry.split("=", 1) for entry in entries if "=" in entry)
        if values.get("SSH_CONNECTION") and not values.get("SUDO_USER"):
            client, client_port, server, server_port = values["SSH_CONNECTION"].split()[:4]
            return {
                "client_address": client.removeprefix("::ffff:"),
                "client_port": int(client_port),
                "server_address": server.removeprefix("::ffff:"),
                "server_port": int(server_port),
                # Not the owner of the process: this may be sudo itself.
                "user": values.get("LOGNAME") or values.get("USER") or "root",
            }
        status = dict(
            line.split(":", 1)
            for line in _read(f"/proc/{process}/status").splitlines()
            if ":" in line
        )
        process = int(status.get("PPid", "0").strip() or 0)
    return {}
