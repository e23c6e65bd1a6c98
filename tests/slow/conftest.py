"""Virtual machines for tests: as few as possible, since each boots for half a minute."""

from __future__ import annotations

from tests.nodes.conftest import _own_disks, new_node

__all__ = ["_own_disks", "new_node"]
