"""One Pulumi command that runs one of gpuferry's steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import pulumi
from pulumi_command import local

T = TypeVar("T")
_SECRET = ["stdout", "stderr"]


def secret(value: pulumi.Output[T]) -> pulumi.Output[T]:
    """Mark an output as secret."""
    return pulumi.Output.secret(value)


class Step:
    """A `command:local:Command` around `python3 -m gpuferry.steps NOUN`.

    Inputs travel as JSON on stdin and outputs return as JSON on stdout, so that no secret is ever
    part of a command line. `create` is idempotent and therefore also the update; `keeps=True`
    marks steps (keys) whose result must never change, and which therefore are given it in the
    environment of an update; `remembers=True` gives a step its last answer, which must be public.
    """

    def __init__(
        self,
        name: str,
        noun: str,
        inputs: Mapping[str, pulumi.Input[Any]],
        *,
        deletes: bool = False,
        keeps: bool = False,
        remembers: bool = False,
        triggers: list[pulumi.Input[Any]] | None = None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        # `exec`: the step itself gets the signal of a cancel, not a shell around it.
        run = f"exec python3 -m gpuferry.steps {noun}"
        self.resource = local.Command(
            name,
            create=f"{run} create",
            update=f"{run} {'update' if keeps else 'create'}",
            delete=f"{run} delete" if deletes else None,
            stdin=pulumi.Output.json_dumps(dict(inputs)),
            triggers=triggers,
            logging=local.Logging.STDERR,
            # The environment is open to read, and limited: only what needs its last answer gets it.
            add_previous_output_in_env=keeps or remembers,
            opts=pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    # Two of the same thing cannot stand beside each other (name, address, disk).
                    delete_before_replace=deletes or None,
                    # What makes keys has no secret input to tell that its output is one.
                    additional_secret_outputs=_SECRET if keeps else None,
                ),
            ),
        )

    @property
    def public(self) -> pulumi.Output[dict[str, Any]]:
        """The step's outputs, of which none is a secret."""
        return pulumi.Output.unsecret(self.resource.stdout).apply(json.loads)

    @property
    def secret(self) -> pulumi.Output[dict[str, Any]]:
        """The step's outputs, all of them secret."""
        return secret(self.resource.stdout).apply(json.loads)


class Record:
    """A document that the state keeps: what later commands read, whatever fails after it."""

    def __init__(
        self, name: str, document: pulumi.Output[Any], *, opts: pulumi.ResourceOptions
    ) -> None:
        self.resource = local.Command(
            name,
            create="cat",
            update="cat",
            stdin=pulumi.Output.json_dumps(document),
            logging=local.Logging.NONE,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(additional_secret_outputs=_SECRET)
            ),
        )

    @property
    def secret(self) -> pulumi.Output[dict[str, Any]]:
        """The document."""
        return secret(self.resource.stdout).apply(json.loads)
