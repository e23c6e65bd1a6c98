"""The three nouns of a stack."""

from infra.components.firewall import Firewall
from infra.components.gpu_server import GpuServer
from infra.components.object_store import ObjectStore

__all__ = ["Firewall", "GpuServer", "ObjectStore"]
