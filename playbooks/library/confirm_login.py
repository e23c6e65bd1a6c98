#!/usr/bin/python
"""Stop the timers that would undo a change, once a new login has succeeded."""

from __future__ import annotations

import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.rollback import forget, undone
from ansible.module_utils.ssh_session import ssh_session

DOCUMENTATION = r"""
module: confirm_login
short_description: Stop the timers that would undo a change, once a new login has succeeded
description:
  - The counterpart of C(rollback) in C(apply_files). Fails if this run still uses the connection
    it had before the change, which proves nothing, or if a timer has fired already.
options:
  old_client_port:
    description: The client port of the connection that made the change; 0 if it was not SSH.
    type: int
  since:
    description: When this run read the server's facts, in seconds of the epoch.
    type: float
author: [gpuferry]
"""

TIMERS = "gpuferry-rollback-*.timer"


def main():
    """Prove, then stop."""
    module = AnsibleModule(
        argument_spec={
            "old_client_port": {"type": "int", "required": True},
            "since": {"type": "float", "required": True},
        },
        supports_check_mode=True,
    )
    session = ssh_session()
    if session and session["client_port"] == module.params["old_client_port"]:
        module.fail_json(
            msg="No new SSH connection was made, so the timer of this change will undo it."
        )
    listed = subprocess.run(
        ["systemctl", "list-units", "--plain", "--no-legend", "--state=active", TIMERS],
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    timers = [line.split()[0] for line in listed.splitlines()]
    late = undone(module.params["since"])
    if late or not timers:
        what = ", ".join(late) or "its timer"
        module.fail_json(
            msg=f"The change has been undone by {what}, because the new login took too long."
        )
    subprocess.run(["systemctl", "stop", *timers], check=True)
    for timer in timers:
        forget(timer.removesuffix(".timer"))
    module.exit_json(changed=False, stopped=timers)


if __name__ == "__main__":
    main()
