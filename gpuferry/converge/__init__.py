"""Bring servers to their declared state: probe what still holds, play the rest, record proof."""
