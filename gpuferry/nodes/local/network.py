"""One private network per stack, IPv4 and IPv6, and the addresses on it."""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuferry.errors import StepFailed
from gpuferry.nodes.local.docker import LABEL_ROOT, LABEL_STACK, docker, inspect, labelled
from gpuferry.paths import data_dir, local_dir

# A corner of 10/8 that neither Docker's defaults nor common office networks use.
_POOL = ipaddress.IPv4Network("10.213.0.0/16")
OBJECT_STORE_HOST = 2
_FIRST_SERVER_HOST = 11


def name(stack: str) -> str:
    """The Docker network of a stack."""
    return f"gpuferry-{stack}"


def create(stack: str) -> dict[str, str]:
    """Make the network, or return the one that is there: subnet4, subnet6, gateway4, gateway6."""
    found = inspect("network", name(stack))
    if found is None:
        _create_free(stack)
        found = inspect("network", name(stack))
    if found is None:
        raise StepFailed(f"The network {name(stack)} vanished while it was being made.")
    owner = found["Labels"].get(LABEL_ROOT)
    if owner != str(data_dir()):
        raise StepFailed(
            f"The Docker network {name(stack)} belongs to another gpuferry ({owner or 'unknown'}). "
            "Choose another stack name: copy the stack file to Pulumi.NAME.yaml, and give "
            "--stack NAME."
        )
    subnets = [ipaddress.ip_network(entry["Subnet"]) for entry in found["IPAM"]["Config"]]
    facts = {}
    for subnet in subnets:
        facts[f"subnet{subnet.version}"] = str(subnet)
        facts[f"gateway{subnet.version}"] = str(subnet[1])
    return facts


def _create_free(stack: str) -> None:
    digest = hashlib.sha256(f"{data_dir()}/{stack}".encode()).digest()
    subnet6 = f"fd{digest[0]:02x}:{digest[1:3].hex()}:{digest[3:5].hex()}::/64"
    candidates: list[ipaddress.IPv4Network] = list(_POOL.subnets(new_prefix=24))
    start = digest[5]
    for subnet4 in candidates[start:] + candidates[:start]:
        try:
            docker(
                *("network", "create", "--driver", "bridge", "--ipv6"),
                *("--subnet", str(subnet4), "--gateway", str(subnet4[1])),
                *("--subnet", subnet6, "--gateway", str(ipaddress.ip_network(subnet6)[1])),
                *("--label", f"{LABEL_STACK}={stack}", "--label", f"{LABEL_ROOT}={data_dir()}"),
                name(stack),
            )
            return
        except StepFailed as error:
            if "overlap" not in str(error).lower():
                raise
    raise StepFailed(f"No free /24 network is left in {_POOL}; remove unused Docker networks.")


def delete(stack: str) -> None:
    """Remove the network; nothing happens when it is gone already.

    Containers that are still on it were half-made by an interrupted run, so no record of them
    exists elsewhere: whatever was recorded has been removed before its network.
    """
    if inspect("network", name(stack)) is not None:
        for container in labelled("container", stack):
            docker("container", "rm", "--force", container)
        docker("network", "rm", name(stack))


@contextmanager
def _ledger(stack: str) -> Iterator[dict[str, int]]:
    """The stack's host numbers by server name, locked while it is changed."""
    folder = local_dir(stack)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "addresses.json"
    with open(folder / "addresses.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ledger: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        before = dict(ledger)
        yield ledger
        if ledger != before:
            _write_beside(path, json.dumps(ledger, indent=1, sort_keys=True))


def _write_beside(path: Path, text: str) -> None:
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(text)
    draft.replace(path)


def reserve_address(stack: str, server: str) -> int:
    """The server's host number on the network; the same for ever, also after a rebuild."""
    with _ledger(stack) as ledger:
        if server not in ledger:
            taken = set(ledger.values())
            free = (n for n in range(_FIRST_SERVER_HOST, 255) if n not in taken)
            number = next(free, None)
            if number is None:
                raise StepFailed(f"The stack {stack} has no free address left (243 servers).")
            ledger[server] = number
        return ledger[server]


def release_address(stack: str, server: str) -> None:
    """Give the server's address back."""
    with _ledger(stack) as ledger:
        ledger.pop(server, None)
