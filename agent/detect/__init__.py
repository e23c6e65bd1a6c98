"""Detectors: pure functions of a window of samples and of thresholds."""
