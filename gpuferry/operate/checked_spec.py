"""The stack file on this machine: what only it can refuse is refused before anything is made."""

from __future__ import annotations

import os
from pathlib import Path

from gpuferry.engine.project import Project
from gpuferry.errors import SpecError
from gpuferry.operate.console import say_on_stderr
from gpuferry.paths import local_dir
from gpuferry.spec import Spec, policy


def checked_spec(project: Project) -> Spec:
    """The stack's configuration, with what only this machine can refuse refused as well."""
    spec = project.spec()
    check_capacity(project, spec)
    for ruling in policy.evaluate(spec):
        if ruling.status == "not_evaluated":
            say_on_stderr(f"note: {ruling.rule} could not be evaluated: {ruling.why}")
    return spec


def check_capacity(project: Project, spec: Spec) -> None:
    """Refuse local servers that this machine cannot carry.

    Raises:
        SpecError: names the key, what it asks for and what there is.
    """
    if spec.provider != "local":
        _check_key_files(project, spec)
        return
    from gpuferry.nodes.local import capacity

    folder = local_dir(project.local_name)
    refusal = capacity.refusal(
        spec.servers, capacity.measure(folder), capacity.existing_disks_gib(folder)
    )
    if refusal:
        raise SpecError(f"{project.stack_file.name}: {refusal}")
    _check_gpus(project, spec)


def _check_gpus(project: Project, spec: Spec) -> None:
    """Here the model is known before there is a server; elsewhere the server itself is asked."""
    from gpuferry.driver import mig
    from gpuferry.simulation import profiles

    for index, server in enumerate(spec.servers):
        if server.gpu is None:
            continue
        where = f"{project.stack_file.name}: gpuferry:servers[{index}].gpu"
        try:
            device = profiles.find(server.gpu.model).pci_device
        except SpecError as error:
            raise SpecError(f"{where}.model: {error}") from None
        for parts in (server.gpu.mig_layout or {}).values():
            if problem := mig.problem(device, parts):
                raise SpecError(f"{where}.mig: {problem}.")


def _check_key_files(project: Project, spec: Spec) -> None:
    for index, server in enumerate(spec.servers):
        key_file = server.ssh.key_file if server.ssh else None
        if key_file and not os.access(Path(key_file).expanduser(), os.R_OK):
            raise SpecError(
                f"{project.stack_file.name}: gpuferry:servers[{index}].ssh.key_file: {key_file} "
                "cannot be read."
            )
