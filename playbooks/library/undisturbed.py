#!/usr/bin/python
"""Refuse to go on while anything uses a GPU."""

from __future__ import annotations

from ansible.module_utils import gpu_use
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: undisturbed
short_description: Refuse to go on while anything uses a GPU
description:
  - For changes that no other module guards, such as a reboot.
options:
  effects:
    description: What would be done to GPU work, such as C(reboot the server).
    type: list
    elements: str
  disturb:
    description: Go on nevertheless.
    type: bool
author: [gpuferry]
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "effects": {"type": "list", "elements": "str", "required": True},
            "disturb": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        found = gpu_use.guard(
            asked["effects"], allowed=asked["disturb"], check_mode=module.check_mode
        )
    except gpu_use.Disturbs as reason:
        module.fail_json(msg=str(reason))
    module.exit_json(changed=False, disturbs=found)


if __name__ == "__main__":
    main()
