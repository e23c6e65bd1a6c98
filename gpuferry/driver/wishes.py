"""From the stack file to a wish."""

from __future__ import annotations

import difflib

from gpuferry import desired
from gpuferry.driver.wish import Wish
from gpuferry.errors import SpecError
from gpuferry.spec.model import Spec


def of_server(spec: Spec, name: str) -> Wish:
    """What one server's `driver` block says, or the stack's where it has none, and its GPUs.

    Raises:
        SpecError: the stack has no such server.
    """
    servers = {server.name: server for server in spec.servers}
    if name not in servers:
        near = difflib.get_close_matches(name, servers, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise SpecError(
            f"The stack file has no server {name!r}; it has: {', '.join(servers)}.{hint}"
        )
    return Wish.model_validate(desired.driver_wish(spec, servers[name]))
