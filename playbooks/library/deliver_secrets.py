#!/usr/bin/python
"""Make a server's secrets exactly the given ones."""

from __future__ import annotations

from ansible.module_utils import secret_store
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: deliver_secrets
short_description: Make a server's secrets exactly the given ones
description:
  - Files in memory below C(/run/gpuferry/secrets), and encrypted copies that bring them back after
    a boot. Others are removed. Answers hold names and never values.
options:
  secrets:
    description: Each has a C(name), a C(value) and a C(uid).
    type: list
    elements: dict
author: [gpuferry]
"""


def main():
    """Deliver; a trouble is an answer, since the task that calls this hides its failures."""
    each = {
        "name": {"type": "str", "required": True},
        "value": {"type": "str", "required": True, "no_log": True},
        "uid": {"type": "int", "default": 0},
    }
    module = AnsibleModule(
        argument_spec={
            "secrets": {
                "type": "list",
                "elements": "dict",
                "options": each,
                "required": True,
            }
        },
        supports_check_mode=True,
    )
    try:
        done = secret_store.deliver(module.params["secrets"], module.check_mode)
    except (OSError, secret_store.Trouble) as trouble:
        module.exit_json(changed=False, trouble=str(trouble), done=[])
    module.exit_json(changed=bool(done), done=done, trouble="")


if __name__ == "__main__":
    main()
