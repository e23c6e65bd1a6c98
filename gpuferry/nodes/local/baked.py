"""Baked images: a local server that was converged once, kept as the image that others start from.

What belongs to one server alone (keys, machine id, logs, leases) is taken out by the playbook that
would prepare an image at a cloud provider, too. Proofs stay, so that a server from the image
converges only what differs: its own addresses, certificates and host name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gpuferry import keys
from gpuferry.converge.play import run_playbook
from gpuferry.converge.proof import probe
from gpuferry.nodes.local import baked_image, disk, image, machine, network, survey
from gpuferry.nodes.local.docker import docker
from gpuferry.nodes.server import Server
from gpuferry.nodes.session import SshSession, wait_for_ssh

Say = Callable[[str], None]
_SSH_SECONDS = 60
# Docker's image layers are a volume of the container and stay out of the image by themselves.
_CHANGES = ('CMD ["/sbin/init"]',)


def build(
    name: str,
    source: str,
    gpu: Mapping[str, Any],
    variables: Mapping[str, Any],
    key: str,
    say: Say,
) -> str:
    """Make a server, converge it, take out what is its own, keep it as an image; return the tag.

    `source` is debian-13 or debian-12. Nothing but the image is left, whatever happens.

    Raises:
        StepFailed: converging failed; the message names the task.
    """
    for killed in left_by_killed(survey.stacks()):
        survey.sweep(killed)
    stack = f"bake-{os.getpid()}"
    tag = baked_image.reference(image.ensure(source, say), key)
    try:
        facts = network.create(stack)
        server = _server(stack, name, source, gpu, facts, say)
        networks = [facts["subnet4"], facts["subnet6"]]
        mine = {**variables, "firewall_ssh_from": networks}
        with SshSession([server]) as session:
            say("converging")
            run_playbook("site.yml", [server], {name: mine}, session, say=say)
            probe(session, server, list(variables["ferry_roles"]), mine, "record")
            say("taking out what belongs to one server alone")
            run_playbook("generalize.yml", [server], {name: mine}, session, say=say)
        machine.stop(stack, name)
        say("keeping the image")
        container = machine.container_name(stack, name)
        changes = [part for change in _CHANGES for part in ("--change", change)]
        docker("commit", *changes, container, tag, timeout_seconds=300)
    finally:
        survey.sweep(stack)
    return tag


def left_by_killed(stacks: Iterable[str]) -> list[str]:
    """Those of the stacks that a bake made whose process is there no more."""
    owners = {stack: re.fullmatch(r"bake-(\d+)", stack) for stack in stacks}
    return [s for s, owner in owners.items() if owner and not Path(f"/proc/{owner[1]}").exists()]


def _server(
    stack: str, name: str, source: str, gpu: Mapping[str, Any], facts: dict[str, str], say: Say
) -> Server:
    host, deploy = keys.ssh_key_pair(""), keys.ssh_key_pair("bake")
    args = machine.MachineArgs(
        stack=stack,
        name=name,
        image=source,
        cpus=os.cpu_count() or 1,
        memory_gib=2,
        host_number=disk.create(stack, name, 1)["host_number"],
        subnet4=facts["subnet4"],
        subnet6=facts["subnet6"],
        host_private_key=host["private"],
        host_public_key=host["public"],
        authorized_key=deploy["public"],
        gpu_model=gpu.get("model", ""),
        gpu_count=gpu.get("count", 0),
    )
    made = machine.create(args, say)
    server = Server(name=name, private_key=SecretStr(deploy["private"]), **made)
    wait_for_ssh(server, _SSH_SECONDS)
    return server
