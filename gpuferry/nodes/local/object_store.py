"""A real S3 server (versitygw) for one stack, with TLS, on the stack's private network only."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3
from pydantic import BaseModel, ConfigDict

from gpuferry import keys
from gpuferry.errors import StepFailed
from gpuferry.nodes.local import image, network
from gpuferry.nodes.local.docker import (
    LABEL_ROOT,
    LABEL_SPEC,
    LABEL_STACK,
    ContainerFile,
    docker,
    inspect,
    put_files,
)
from gpuferry.paths import data_dir, local_dir
from gpuferry.prepare import binaries

PORT = 443
REGION = "us-east-1"
_START_DEADLINE_SECONDS = 30

# Secrets reach the server in a file, since arguments and `docker inspect` are open to read.
_START = (
    "set -a; . /etc/objectstore/root.env; set +a; "
    "mkdir -p /store/objects /store/versions /store/iam; "
    "exec /usr/local/bin/versitygw --quiet --region {region} "
    "--port {address}:{port} --port [{address6}]:{port} "
    "--cert /etc/objectstore/cert.pem --key /etc/objectstore/key.pem --iam-dir /store/iam "
    "--health /healthy posix --versioning-dir /store/versions /store/objects"
)


class ObjectStoreArgs(BaseModel):
    """What the stack's S3 server is made from."""

    model_config = ConfigDict(extra="forbid")

    stack: str
    subnet4: str
    subnet6: str
    ca_pem: str
    ca_key: str
    access_key: str
    secret_key: str

    @property
    def address4(self) -> str:
        """IPv4 address on the stack's network."""
        return str(ipaddress.ip_network(self.subnet4)[network.OBJECT_STORE_HOST])

    @property
    def address6(self) -> str:
        """IPv6 address on the stack's network."""
        return str(ipaddress.ip_network(self.subnet6)[network.OBJECT_STORE_HOST])

    @property
    def endpoint(self) -> str:
        """Where the S3 API answers (port 443)."""
        # Without the default port: clients leave it out of the signed Host header.
        return f"https://{self.address4}"


def container_name(stack: str) -> str:
    """The container of a stack's S3 server; servers cannot have this name."""
    return f"gpuferry-{stack}_objectstore"


def data_path(stack: str) -> Path:
    """Where buckets live on this machine."""
    return local_dir(stack) / "objects"


def create(args: ObjectStoreArgs, say: Callable[[str], None]) -> dict[str, Any]:
    """Start the S3 server as declared; a leftover that differs is replaced, its data kept."""
    name = container_name(args.stack)
    binary = binaries.ensure("versitygw", say)
    tag = image.ensure("debian-13", say)
    inputs = [args.model_dump(), tag, binary.name, _START]
    identity = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    found = inspect("container", name)
    if found is not None and found["Config"]["Labels"].get(LABEL_SPEC) != identity:
        docker("container", "rm", "--force", name)
        found = None
    if found is None:
        data_path(args.stack).mkdir(parents=True, exist_ok=True)
        docker(*_create_command(args, name, tag, identity))
        docker("cp", str(binary), f"{name}:/usr/local/bin/versitygw")
        put_files(name, _files(args))
    docker("start", name)
    _wait(args)
    return {"endpoint": args.endpoint, "region": REGION}


def _create_command(args: ObjectStoreArgs, name: str, tag: str, identity: str) -> list[str]:
    labels = {LABEL_STACK: args.stack, LABEL_ROOT: str(data_dir()), LABEL_SPEC: identity}
    start = _START.format(address=args.address4, address6=args.address6, port=PORT, region=REGION)
    return [
        *("container", "create", "--name", name, "--hostname", "objectstore", "--init"),
        *("--network", network.name(args.stack), "--ip", args.address4, "--ip6", args.address6),
        *("-v", f"{data_path(args.stack)}:/store", "--memory", "512m"),
        *(part for key, value in labels.items() for part in ("--label", f"{key}={value}")),
        *("--entrypoint", "/bin/sh", tag, "-c", start),
    ]


def _files(args: ObjectStoreArgs) -> list[ContainerFile]:
    pair = keys.server_certificate(args.ca_pem, args.ca_key, [args.address4, args.address6])
    secrets = f"ROOT_ACCESS_KEY='{args.access_key}'\nROOT_SECRET_KEY='{args.secret_key}'\n"
    return [
        ContainerFile("etc/objectstore/root.env", secrets),
        ContainerFile("etc/objectstore/cert.pem", pair["cert_pem"]),
        ContainerFile("etc/objectstore/key.pem", pair["key_pem"]),
    ]


def _wait(args: ObjectStoreArgs) -> None:
    deadline = time.monotonic() + _START_DEADLINE_SECONDS
    problem = "no answer"
    pool = urllib3.PoolManager(ca_cert_data=args.ca_pem, retries=False, timeout=2)
    while time.monotonic() < deadline:
        try:
            if pool.request("GET", f"{args.endpoint}/healthy").status == 200:
                return
        except urllib3.exceptions.HTTPError as error:
            problem = str(error)
        found = inspect("container", container_name(args.stack))
        if found is None or not found["State"]["Running"]:
            problem = "it stopped"
            break
        time.sleep(0.1)
    logs = docker("logs", "--tail", "3", container_name(args.stack)).strip()
    raise StepFailed(
        f"The object store at {args.endpoint} does not answer ({problem}; waited up to "
        f"{_START_DEADLINE_SECONDS} s). Its log ends with: {logs}"
    )


def wait_until_it_listens(stack: str) -> None:
    """Wait until a server that was started again takes connections.

    Raises:
        StepFailed: it did not by the deadline.
    """
    found = inspect("container", container_name(stack))
    networks = found["NetworkSettings"]["Networks"] if found else {}
    address = networks.get(network.name(stack), {}).get("IPAddress", "")
    deadline = time.monotonic() + _START_DEADLINE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((address, PORT), timeout=2):
            return
        time.sleep(0.1)
    raise StepFailed(f"The object store at {address} does not take connections.")


def delete(stack: str) -> None:
    """Remove the S3 server; its data stays, and a server made again takes it over.

    Data goes bucket by bucket, and the stack's folder with the stack.
    """
    if inspect("container", container_name(stack)) is not None:
        docker("container", "rm", "--force", container_name(stack))
