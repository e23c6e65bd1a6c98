"""Runs on the server as root: `open NAME` and `close NAME` a volume, `verify` what is open."""

from __future__ import annotations

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from ansible.module_utils import secret_store, volumes


def main(words):
    """Run one verb; no key is ever printed."""
    known = {volume["name"]: volume for volume in volumes.recorded()}
    if words == ["verify"]:
        found = {name: volumes.state(volume) for name, volume in known.items()}
        print(json.dumps({"volumes": found, "in_clear": volumes.in_clear()}, sort_keys=True))
        return 0
    verbs = {"open": volumes.open_volume, "close": volumes.close_volume}
    if len(words) != 2 or words[0] not in verbs or words[1] not in known:
        print(f"usage: open NAME, close NAME, verify; known: {', '.join(known)}", file=sys.stderr)
        return 2
    verbs[words[0]](known[words[1]])
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError, volumes.Trouble, secret_store.Trouble) as trouble:
        sys.exit(str(trouble))
