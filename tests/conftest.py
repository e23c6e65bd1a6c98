"""All tests: what the person who runs them has chosen for their own stacks is not theirs."""

from __future__ import annotations

import os

for _name in ("GPUFERRY_STACK", "GPUFERRY_DIRECTORY"):
    os.environ.pop(_name, None)
