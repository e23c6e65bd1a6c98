"""Filters over packages of a plan."""

from __future__ import annotations

from collections.abc import Callable


def package_argument(package: dict[str, str]) -> str:
    """`name=version` as apt takes it; `name` where any version will do."""
    return f"{package['name']}={package['version']}" if package["version"] else package["name"]


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Name to function."""
        return {"package_argument": package_argument}
