"""The engine's gRPC messages and services, without the SDK around them.

They live in `pulumi.runtime.proto`, but `import pulumi` also loads everything that programs need.
Every update starts a plugin three times, so that this would cost 0.3 s of an update of 1 s.
"""

import importlib.util
import sys
from types import ModuleType


def _enter_package(name: str) -> None:
    """Make a package importable from without running its `__init__`."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        sys.exit(f"{sys.executable} has no package {name}; load the project's environment first")
    package = ModuleType(name)
    package.__path__ = spec.submodule_search_locations
    sys.modules[name] = package


for _name in ("pulumi", "pulumi.runtime"):
    _enter_package(_name)

from pulumi.runtime.proto import (  # noqa: E402
    engine_pb2,
    engine_pb2_grpc,
    language_pb2,
    language_pb2_grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
)

__all__ = [
    "engine_pb2",
    "engine_pb2_grpc",
    "language_pb2",
    "language_pb2_grpc",
    "plugin_pb2",
    "provider_pb2",
    "provider_pb2_grpc",
]
