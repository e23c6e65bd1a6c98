#!/usr/bin/python
"""What a driver plan is decided on, as Ansible facts."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gpu_facts import SIMULATED_ROOT, gather

DOCUMENTATION = r"""
module: gpu_facts
short_description: What a driver plan is decided on, read without changing anything
description:
  - Returns C(ansible_facts.gpu) with NVIDIA's PCI devices, kernel, secure boot, packages, driver,
    and who uses the GPUs. Every command it runs has a deadline.
options:
  simulate:
    description: Lists of apt arguments to try with C(apt-get -s).
    type: list
    elements: list
author: [gpuferry]
"""


def main():
    module = AnsibleModule(
        argument_spec={"simulate": {"type": "list", "elements": "list", "default": []}},
        supports_check_mode=True,
    )
    pci_root = SIMULATED_ROOT if os.path.isdir(SIMULATED_ROOT) else None
    facts = gather(pci_root=pci_root, simulate=module.params["simulate"])
    module.exit_json(changed=False, ansible_facts={"gpu": facts})


if __name__ == "__main__":
    main()
