"""The action `ssh_clients`: refuse key exchanges that a client of this machine cannot speak."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

# Ansible loads plugins by file; the decisions are the package's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gpuferry.nodes import ssh_clients


class ActionModule(ActionBase):
    """Compare what `offered` names with what ssh, paramiko and the command plugin speak."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        """Fail with the clients that could not connect any more."""
        result = super().run(tmp, task_vars)
        clients = ssh_clients.here()
        left_out = ssh_clients.without_common(clients, self._task.args["offered"])
        if left_out:
            return {
                **result,
                "failed": True,
                "msg": f"With these key exchanges {', '.join(left_out)} could not log in any more. "
                "Update it, or use ssh.key_exchange: compatible.",
            }
        return {**result, "changed": False, "clients": list(clients)}
