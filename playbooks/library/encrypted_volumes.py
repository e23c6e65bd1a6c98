#!/usr/bin/python
"""Plan and make a server's encrypted volumes."""

from __future__ import annotations

import json
import os

from ansible.module_utils import secret_store, volume_plan, volumes
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: encrypted_volumes
short_description: Plan and make a server's encrypted volumes
description:
  - Refuses, before anything is touched, where one of them cannot be had safely.
  - Makes what is missing and keeps its key for the next boot, sealed. A unit opens them.
options:
  volumes:
    description: Each has C(name), C(path), C(device), C(scratch) and C(key).
    type: list
    elements: dict
  plan_only:
    description: Only say what would be done.
    type: bool
author: [gpuferry]
"""


def main():
    """A trouble is an answer, since the task that calls this hides its failures."""
    each = {
        "name": {"type": "str", "required": True},
        "path": {"type": "str", "required": True},
        "device": {"type": "str", "default": ""},
        "scratch": {"type": "bool", "default": False},
        "key": {"type": "str", "default": "", "no_log": True},
    }
    module = AnsibleModule(
        argument_spec={
            "volumes": {"type": "list", "elements": "dict", "options": each, "required": True},
            "plan_only": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    asked = module.params["volumes"]
    try:
        facts = volumes.gather(asked)
        plan = [(wish, volume_plan.decide(wish, facts)) for wish in asked]
        refused = [f"{w['path']}: {p['why']}" for w, p in plan if p["action"] == "refuse"]
        if refused or module.params["plan_only"]:
            module.exit_json(changed=False, trouble="; ".join(refused), done=[])
        module.exit_json(**apply(plan, module.check_mode))
    except (OSError, volumes.Trouble, secret_store.Trouble) as trouble:
        module.exit_json(changed=False, trouble=str(trouble), done=[])


def apply(plan, check_only):
    """Make what is missing; the answer of the module."""
    done = [f"{w['path']}: {p['action']} ({p['how']})" for w, p in plan if p["action"] != "keep"]
    keys = [w for w, _ in plan if not w["scratch"] and not volumes.has_key(w)]
    done += [f"{wish['path']}: its key for the next boot" for wish in keys]
    open_now = [w for w, p in plan if p["action"] == "keep"]
    larger = [wish for wish in open_now if volumes.can_grow(wish)]
    done += [f"{wish['path']}: grown to the size of its disk" for wish in larger]
    if not check_only:
        for wish in keys:
            volumes.keep_key(wish)
        for wish in larger:
            volumes.grow(wish)
        for wish, planned in plan:
            if planned["action"] == "create":
                volumes.create(wish)
        record = [
            {**{k: v for k, v in wish.items() if k != "key"}, "uuid": volumes.uuid_of(wish)}
            for wish, _ in plan
        ]
        if record != volumes.recorded():
            done.append("the record of the volumes")
            os.makedirs(os.path.dirname(volumes.RECORD), mode=0o755, exist_ok=True)
            secret_store.write(volumes.RECORD, json.dumps(record).encode(), 0, 0o600)
    return {"changed": bool(done), "done": done, "trouble": ""}


if __name__ == "__main__":
    main()
