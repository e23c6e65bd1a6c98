"""Whether anything uses a GPU of this server, looked at only where a change would disturb it.

Runs on the server as root; standard library only, Python 3.9 or newer. Unknown is in use.
"""

from __future__ import annotations

import json
import os

from ansible.module_utils import disturb
from ansible.module_utils.gpu_facts import nvidia_smi
from ansible.module_utils.gpu_host import Host
from ansible.module_utils.gpu_work import use


class Disturbs(Exception):
    """The change would interrupt GPU work and may not; the message says whose."""


def here(root="/"):
    """Whether this server can have GPU work at all; costs nothing where it cannot."""
    at = [os.path.join(root, path) for path in ("usr/bin/nvidia-smi", "usr/local/bin/nvidia-smi")]
    folder = os.path.join(root, "dev")
    nodes = os.listdir(folder) if os.path.isdir(folder) else []
    return any(map(os.path.exists, at)) or any(name.startswith("nvidia") for name in nodes)


def users(host=None):
    """Who works with GPUs now, in words; each look is a fresh one."""
    host = host or Host()
    if not here(host.root):
        return []
    return disturb.work(use(host, nvidia_smi(host)))


def guard(effects, *, allowed=False, check_mode=False, look=users):
    """Refuse what would interrupt GPU work; return what will be interrupted, for the plan.

    In check mode nothing is refused, since nothing is done.

    Raises:
        Disturbs: somebody works with a GPU, and disturbing was not allowed.
    """
    effects = [effect for effect in effects if effect]
    working = look() if effects else []
    if working and not (allowed or check_mode):
        raise Disturbs(disturb.refusal(effects, working))
    return [f"{effect} while used by {', '.join(working)}" for effect in effects if working]


def main(request):
    """Print who works, as one line of JSON."""
    json.loads(request)
    print(json.dumps({"users": users()}))  # noqa: T201
