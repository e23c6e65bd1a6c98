"""Simulated GPUs: models, scenarios, faults, and the library that pretends them."""

from gpuferry.simulation.files import NodeFiles, node_files
from gpuferry.simulation.library import build

__all__ = ["NodeFiles", "build", "node_files"]
