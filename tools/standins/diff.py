"""Which inputs differ, at the depth at which the engine shows them."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tools.standins.wire import SIGNATURE, Properties

ADDED = "added"
DELETED = "deleted"
UPDATED = "updated"

PLAIN_KEY = re.compile(r"[A-Za-z_$][\w$]*")


def changes(old: Properties, new: Properties, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the kind of each change; paths as in `environment.NAME`, `triggers[0]`."""
    for key in sorted(old.keys() | new.keys()):
        path = _join(prefix, key)
        if key not in new:
            yield path, DELETED
        elif key not in old:
            yield path, ADDED
        else:
            yield from _value_changes(old[key], new[key], path)


def _value_changes(old: Any, new: Any, path: str) -> Iterator[tuple[str, str]]:
    if _is_plain_map(old) and _is_plain_map(new):
        yield from changes(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            item = f"{path}[{index}]"
            if index >= len(new):
                yield item, DELETED
            elif index >= len(old):
                yield item, ADDED
            else:
                yield from _value_changes(old[index], new[index], item)
    # As text, for Python holds 1 and true to be equal.
    elif json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True):
        yield path, UPDATED


def _is_plain_map(value: Any) -> bool:
    return isinstance(value, dict) and SIGNATURE not in value


def _join(prefix: str, key: str) -> str:
    if not PLAIN_KEY.fullmatch(key):
        return f"{prefix}[{json.dumps(key)}]"
    return f"{prefix}.{key}" if prefix else key
