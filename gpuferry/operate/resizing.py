"""resize: change sizes in the stack file, then deploy."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuferry.engine.project import Project
from gpuferry.errors import SpecError
from gpuferry.operate import deployment
from gpuferry.operate.checked_spec import check_capacity
from gpuferry.operate.console import confirm, say_on_stderr
from gpuferry.operate.drafts import stack_file_draft
from gpuferry.spec import Spec
from gpuferry.spec.file import load_spec


@dataclass(frozen=True)
class Sizes:
    """What may change in place."""

    cpus: float | None = None
    memory_gib: float | None = None
    data_disk_gib: int | None = None

    def given(self) -> dict[str, str]:
        """Only the sizes that were asked for, as configuration values."""
        return {key: f"{value:g}" for key, value in vars(self).items() if value is not None}


def resize(
    project: Project,
    name: str | None,
    wanted: Sizes,
    *,
    servers: int | None,
    yes: bool,
    as_json: bool,
    take_over: bool,
) -> None:
    """Write the sizes into the stack file and deploy."""
    spec = project.spec()
    changes, removed = plan(spec, name, wanted, servers)
    if removed:
        confirm(f"{', '.join(removed)} and the data on their disks will be removed.", yes)
    pulumi = deployment.open_stack(project, spec.provider, take_over)
    pulumi.ensure_stack()
    with stack_file_draft(project) as draft:
        for path, value in changes:
            pulumi.set_config(draft, path, value)
        check_capacity(project, load_spec(draft))
    say_on_stderr(f"{project.stack_file.name}: {len(changes)} values changed")
    deployment.up(project, as_json=as_json, take_over=take_over, yes=bool(removed))


def plan(
    spec: Spec, name: str | None, wanted: Sizes, servers: int | None
) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Configuration changes (path, value; None removes) and the servers that would go.

    Raises:
        SpecError: nothing to change, an unknown server, a disk that would shrink.
    """
    changes: list[tuple[str, str | None]] = []
    sizes = wanted.given()
    if sizes:
        changes += _size_changes(spec, name, wanted, sizes)
    removed: list[str] = []
    if servers is not None:
        if servers < 1:
            raise SpecError("--servers: at least 1; use `./ferry down` to remove the stack.")
        for index in range(len(spec.servers) - 1, servers - 1, -1):
            changes.append((f"servers[{index}]", None))
            removed.append(spec.servers[index].name)
        for index in range(len(spec.servers), servers):
            changes += _copy_of_last(spec, index)
    if not changes:
        raise SpecError(
            "Nothing to resize: give --cpus, --memory-gib, --data-disk-gib (with a server's name) "
            "or --servers, with a value that differs from the present one."
        )
    return changes, removed


def _size_changes(
    spec: Spec, name: str | None, wanted: Sizes, sizes: dict[str, str]
) -> list[tuple[str, str | None]]:
    names = [server.name for server in spec.servers]
    if name not in names:
        asked = "name a server" if name is None else f"there is no server {name!r}"
        raise SpecError(f"resize: {asked}; this stack declares {', '.join(names)}.")
    index = names.index(name)
    server = spec.servers[index]
    if server.ssh is not None:
        raise SpecError(f"{name} is a rented server: its size is changed with its provider.")
    if wanted.data_disk_gib is not None and wanted.data_disk_gib < server.data_disk_gib:
        raise SpecError(
            f"{name}: the data disk has {server.data_disk_gib} GiB and can only grow; "
            f"--data-disk-gib {wanted.data_disk_gib} is smaller."
        )
    return [
        (f"servers[{index}].{key}", value)
        for key, value in sizes.items()
        if f"{getattr(server, key):g}" != value
    ]


def _copy_of_last(spec: Spec, index: int) -> list[tuple[str, str | None]]:
    last = spec.servers[-1]
    if last.ssh is not None:
        raise SpecError("--servers: rented servers are declared one by one, with their host keys.")
    stem = re.sub(r"-?\d+$", "", last.name)
    taken = {server.name for server in spec.servers}
    number = index + 1
    while f"{stem}-{number}" in taken:
        number += 1
    copied = last.model_dump(
        include={"kind", "image", "cpus", "memory_gib", "data_disk_gib", "workload"},
        exclude_defaults=True,
    )
    if last.secure_boot:
        copied["secure_boot"] = "true"
    for position, gib in enumerate(last.extra_disks_gib):
        copied[f"extra_disks_gib[{position}]"] = gib
    values = {"name": f"{stem}-{number}", **copied}
    return [
        (f"servers[{index}].{key}", f"{value:g}" if isinstance(value, int | float) else value)
        for key, value in values.items()
    ]
