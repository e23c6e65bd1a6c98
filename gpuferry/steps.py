"""What Pulumi's commands run: `python3 -m gpuferry.steps NOUN VERB`.

Inputs come as JSON on stdin, outputs leave as JSON on stdout, progress goes to stderr line by
line. No secret is ever an argument. Keys, whose update has to answer what their creation did, find
that answer in their own environment, where Pulumi puts it; nothing else does. Every `create` is
idempotent and serves as `update` too.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from gpuferry import keys
from gpuferry.errors import FerryError

Inputs = dict[str, Any]
Step = Callable[[Inputs], dict[str, Any] | None]


def say(text: str) -> None:
    """Report progress; Pulumi shows it beside the resource."""
    print(text, file=sys.stderr, flush=True)


def _previous(_: Inputs) -> dict[str, Any]:
    """Keys are never made twice: an update gives back what `create` made."""
    return dict(json.loads(os.environ["PULUMI_COMMAND_STDOUT"]))


def _stack_keys(inputs: Inputs) -> dict[str, Any]:
    stack = inputs["stack"]
    return {
        "deploy": keys.ssh_key_pair(f"gpuferry-{stack}"),
        "store": keys.access_key(),
        **keys.certificate_authority(stack),
    }


def _log_key(_: Inputs) -> dict[str, Any]:
    from gpuferry.logs import seal

    return seal.key_pair(say)


def _network_create(inputs: Inputs) -> dict[str, Any]:
    from gpuferry.nodes.local import network

    return dict(network.create(inputs["stack"]))


def _network_delete(inputs: Inputs) -> None:
    from gpuferry.nodes.local import network

    network.delete(inputs["stack"])


def _disk_create(inputs: Inputs) -> dict[str, Any]:
    from gpuferry.nodes.local import disk

    extra = inputs.get("extra_disks_gib", [])
    return dict(disk.create(inputs["stack"], inputs["server"], inputs["size_gib"], extra))


def _disk_delete(inputs: Inputs) -> None:
    from gpuferry.nodes.local import disk

    disk.delete(inputs["stack"], inputs["server"])


def _machine_create(inputs: Inputs) -> dict[str, Any]:
    from gpuferry.nodes.local import machine

    return machine.create(machine.MachineArgs.model_validate(inputs), say)


def _machine_delete(inputs: Inputs) -> None:
    from gpuferry.nodes.local import machine

    machine.delete(inputs["stack"], inputs["name"])


def _object_store_create(inputs: Inputs) -> dict[str, Any]:
    from gpuferry.nodes.local import object_store

    return object_store.create(object_store.ObjectStoreArgs.model_validate(inputs), say)


def _object_store_delete(inputs: Inputs) -> None:
    from gpuferry.nodes.local import object_store

    object_store.delete(inputs["stack"])


def _bucket_create(inputs: Inputs) -> dict[str, Any]:
    from gpuferry.nodes.local import bucket

    return bucket.create(bucket.BucketArgs.model_validate(inputs))


def _bucket_delete(inputs: Inputs) -> None:
    from gpuferry.nodes.local import bucket

    bucket.delete(bucket.BucketArgs.model_validate(inputs))


def _rented_create(inputs: Inputs) -> dict[str, Any]:
    from gpuferry.nodes import rented

    return rented.adopt(inputs, say)


def _converge(inputs: Inputs) -> dict[str, Any]:
    from gpuferry.converge import step

    return step.run(inputs, say)


def _verify(inputs: Inputs) -> dict[str, Any]:
    from gpuferry import verify

    return verify.run(inputs, say)


STEPS: dict[tuple[str, str], Step] = {
    ("stack-keys", "create"): _stack_keys,
    ("stack-keys", "update"): _previous,
    ("host-key", "create"): lambda _: keys.ssh_key_pair(""),
    ("host-key", "update"): _previous,
    ("access-key", "create"): lambda _: keys.access_key(),
    ("access-key", "update"): _previous,
    ("volume-key", "create"): lambda _: keys.volume_key(),
    ("volume-key", "update"): _previous,
    ("data-key", "create"): lambda _: keys.volume_key(),
    ("data-key", "update"): _previous,
    ("log-key", "create"): _log_key,
    ("log-key", "update"): _previous,
    ("scrape-token", "create"): lambda _: keys.volume_key(),
    ("scrape-token", "update"): _previous,
    ("network", "create"): _network_create,
    ("network", "delete"): _network_delete,
    ("disk", "create"): _disk_create,
    ("disk", "delete"): _disk_delete,
    ("machine", "create"): _machine_create,
    ("machine", "delete"): _machine_delete,
    ("object-store", "create"): _object_store_create,
    ("object-store", "delete"): _object_store_delete,
    ("bucket", "create"): _bucket_create,
    ("bucket", "delete"): _bucket_delete,
    ("rented", "create"): _rented_create,
    ("converge", "create"): _converge,
    ("verify", "create"): _verify,
}


def main(arguments: list[str]) -> int:
    """Run one step; return its exit code."""
    # Pulumi cancels with SIGTERM; as an exception it lets every `with` block clean up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    step = STEPS.get((arguments[0], arguments[1])) if len(arguments) == 2 else None
    if step is None:
        known = ", ".join(" ".join(key) for key in STEPS)
        say(f"usage: python3 -m gpuferry.steps NOUN VERB; known: {known}")
        return 2
    try:
        output = step(json.load(sys.stdin))
    except FerryError as error:
        say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    print(json.dumps(output or {}, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
