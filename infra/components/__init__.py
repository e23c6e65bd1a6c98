"""The nouns of a stack, and what is declared about them."""

from infra.components.declaration import Declaration
from infra.components.firewall import Firewall
from infra.components.gpu_server import GpuServer
from infra.components.logs import Logs
from infra.components.object_store import ObjectStore

__all__ = ["Declaration", "Firewall", "GpuServer", "Logs", "ObjectStore"]
