"""Pulumi's own protection for what holds data, where the team's rules ask for it."""

from __future__ import annotations

import pulumi

from gpuferry.rules import HOLDING_DATA


def protect_data() -> None:
    """From here on, resources that hold data get `protect`, so that no command removes them."""
    pulumi.runtime.register_stack_transformation(_protected)


def _protected(
    args: pulumi.ResourceTransformationArgs,
) -> pulumi.ResourceTransformationResult | None:
    if not args.name.endswith(HOLDING_DATA):
        return None
    protect = pulumi.ResourceOptions(protect=True)
    return pulumi.ResourceTransformationResult(
        args.props, pulumi.ResourceOptions.merge(args.opts, protect)
    )
