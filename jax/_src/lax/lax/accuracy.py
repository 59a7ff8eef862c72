"""How accurate an elementary function has to be, and how numbers are rounded: options of operations."""

from __future__ import annotations

import enum
from typing import Any

from jax._src import core
from jax._src.interpreters import mlir
from jax._src.lib.mlir.dialects import hlo


class RoundingMethod(enum.IntEnum):
    """Where `lax.round` puts numbers halfway between two integers.

    >>> lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN)
    Array(2., dtype=float32, weak_type=True)
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class AccuracyMode(enum.Enum):
    """Which implementation of an elementary function to use.

    `HIGHEST` asks for the most accurate one, `DEFAULT` for the usual one, which may be faster.
    """

    HIGHEST = 1
    DEFAULT = 2


class Tolerance:
    """How far results may be from the exact ones: the compiler chooses an implementation that fits.

    Args:
      atol: absolute error.
      rtol: relative error.
      ulps: error in units of the last place.

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
    """The StableHLO attribute that says `accuracy`; None for the default."""
    if accuracy is None or accuracy is AccuracyMode.DEFAULT:
        return None
    if accuracy is AccuracyMode.HIGHEST:
        return hlo.ResultAccuracyAttr.get(0.0, 0.0, 0, "HIGHEST")
    return hlo.ResultAccuracyAttr.get(
        float(accuracy.atol), float(accuracy.rtol), int(accuracy.ulps), "TOLERANCE"
    )


def check_accuracy(name: str, accuracy: Any) -> None:
    """Raises TypeError unless `accuracy` is one of the kinds there are."""
    if accuracy is not None and not isinstance(accuracy, (AccuracyMode, Tolerance)):
        raise TypeError(
            f"{name}: accuracy must be a lax.AccuracyMode, a lax.Tolerance or None, got {accuracy!r}."
        )


def accuracy_attrs(ctx: mlir.LoweringRuleContext, *, accuracy: Accuracy) -> dict[str, Any]:
    """Keyword arguments of a StableHLO builder that takes a `result_accuracy`."""
    attr = accuracy_attr(accuracy)
    return {} if attr is None else {"result_accuracy": attr}


def pp_accuracy(eqn, context, settings):
    """Prints an equation without `accuracy` where it is None, as it nearly always is."""
    shown = None if eqn.params["accuracy"] is not None else ()
    return core.default_pp_eqn(eqn, context, settings, shown)
