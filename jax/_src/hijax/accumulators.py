"""Accumulators of cotangents, for `VJPHiPrimitive.vjp_bwd` and `transpose`."""

from typing import Any

from jax._src.ad_util import Zero, add_tangents
from jax._src.core import AbstractValue


class GradAccum:
    """Where the cotangents of a value are added up.

    Args:
      aval: the type of the cotangents.
    """

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    def accum(self, ct: Any) -> None:
        """Add a cotangent; None and `Zero` add nothing."""
        raise NotImplementedError

    def freeze(self) -> Any:
        """The sum; `Zero` if nothing was added."""
        return Zero(self.aval)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval.str_short(short_dtypes=True)})"


class ValAccum(GradAccum):
    """Adds cotangents up as a value."""

    def __init__(self, aval: AbstractValue, val: Any = None):
        super().__init__(aval)
        self.val = Zero(aval) if val is None else val

    def accum(self, ct: Any) -> None:
        if ct is not None and type(ct) is not Zero:
            self.val = add_tangents(self.val, ct)

    def freeze(self) -> Any:
        return self.val


class NullAccum(GradAccum):
    """Stands for a value that is not differentiated: cotangents are dropped."""

    def accum(self, ct: Any) -> None:
        pass
