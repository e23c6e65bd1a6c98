"""Providers by name. Each turns declared nouns into things, all with the same outputs."""

from __future__ import annotations

import pulumi

from gpuferry.spec import Spec
from infra.providers.base import Provider
from infra.providers.local import LocalProvider
from infra.providers.ssh import SshProvider

PROVIDERS: dict[str, type[Provider]] = {"local": LocalProvider, "ssh": SshProvider}


def create(stack: str, spec: Spec, keys: pulumi.Output[dict[str, str]]) -> Provider:
    """The provider that the stack names."""
    return PROVIDERS[spec.provider](stack, spec, keys)
