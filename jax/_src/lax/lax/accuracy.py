"""Options of elementwise functions: their accuracy, and the rounding of halves."""

from __future__ import annotations

import enum
from typing import Any

from jax._src import core
from jax._src.interpreters import mlir
from jax._src.lib.mlir.dialects import hlo


class RoundingMethod(enum.IntEnum):
    """How `lax.round` rounds numbers halfway between two integers.

    >>> lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN)
    Array(2., dtype=float32, weak_type=True)
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class AccuracyMode(enum.Enum):
    """The implementation of an elementary function to use.

    `HIGHEST` requests the most accurate one, `DEFAULT` the usual one, which may be faster.
    """

    HIGHEST = 1
    DEFAULT = 2


class Tolerance:
    """Maximum errors of results; the compiler selects an implementation that satisfies them.

    Args:
      atol: maximum absolute error.
      rtol: maximum relative error.
      ulps: maximum error in units in the last place.

    Raises:
      ValueError: if none is set, or one is negative.

    >>> lax.exp(1.0, accuracy=lax.Tolerance(rtol=1e-3))
    Array(2.7182817, dtype=float32, weak_type=True)
    """

    __slots__ = ("atol", "rtol", "ulps")

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0):
        if atol < 0.0 or rtol < 0.0 or ulps < 0:
            raise ValueError(
                f"Tolerances must be non-negative, got atol={atol}, rtol={rtol}, ulps={ulps}."
            )
        if not (atol or rtol or ulps):
            raise ValueError("At least one of atol, rtol, or ulps must be set.")
        self.atol = atol
        self.rtol = rtol
        self.ulps = ulps

    def _key(self) -> tuple[float, float, int]:
        return self.atol, self.rtol, self.ulps

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tolerance) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps})"


Accuracy = AccuracyMode | Tolerance | None


def accuracy_attr(accuracy: Accuracy) -> Any:
    """Return the StableHLO attribute for `accuracy`; None for the default."""
    if accuracy is None or accuracy is AccuracyMode.DEFAULT:
        return None
    if accuracy is AccuracyMode.HIGHEST:
        return hlo.ResultAccuracyAttr.get(0.0, 0.0, 0, "HIGHEST")
    return hlo.ResultAccuracyAttr.get(
        float(accuracy.atol), float(accuracy.rtol), int(accuracy.ulps), "TOLERANCE"
    )


def check_accuracy(name: str, accuracy: Any) -> None:
    """Raise TypeError unless `accuracy` is a valid option."""
    if accuracy is not None and not isinstance(accuracy, (AccuracyMode, Tolerance)):
        raise TypeError(
            f"{name}: accuracy must be a lax.AccuracyMode, a lax.Tolerance or None, got {accuracy!r}."
        )


def accuracy_attrs(ctx: mlir.LoweringRuleContext, *, accuracy: Accuracy) -> dict[str, Any]:
    """Return the keyword arguments of a StableHLO builder that takes a `result_accuracy`."""
    attr = accuracy_attr(accuracy)
    return {} if attr is None else {"result_accuracy": attr}


def pp_accuracy(eqn, context, settings):
    """Print an equation, omitting `accuracy` if it is None."""
    shown = None if eqn.params["accuracy"] is not None else ()
    return core.default_pp_eqn(eqn, context, settings, shown)
