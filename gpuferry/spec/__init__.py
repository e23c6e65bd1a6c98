"""The stack's configuration, parsed once into one typed :class:`~gpuferry.spec.model.Spec`."""

from gpuferry.spec.load import parse_spec
from gpuferry.spec.model import Spec

__all__ = ["Spec", "parse_spec"]
