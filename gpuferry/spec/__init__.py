"""The stack's configuration, parsed once into one typed :class:`~gpuferry.spec.model.Spec`."""

from gpuferry.spec.load import load_spec, parse_spec
from gpuferry.spec.model import Spec

__all__ = ["Spec", "load_spec", "parse_spec"]
