"""Detectors: pure functions of a window of samples and of thresholds."""

from agent.detect.state import State
from agent.detect.states import judge
from agent.detect.thresholds import Thresholds

__all__ = ["State", "Thresholds", "judge"]
