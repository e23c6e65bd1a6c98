"""Simulated GPUs: models, scenarios, faults, and the library that pretends them."""

from gpuferry.simulation.files import NodeFiles, device_nodes, node_files, program_files
from gpuferry.simulation.library import build

__all__ = ["NodeFiles", "build", "device_nodes", "node_files", "program_files"]
