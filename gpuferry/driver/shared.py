"""Moved: see :mod:`gpuferry.shared`."""

from gpuferry.shared import shared

__all__ = ["shared"]
