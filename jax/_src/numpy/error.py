"""Checks of `jax.numpy` for NaN, division by zero and indices out of bounds."""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import numpy as np

from jax._src import config, dtypes
from jax._src.error_check import set_error_if
from jax._src.lax import lax
from jax._src.lax.slicing.bounds import outside

Category = Literal["nan", "divide", "oob"]
Behavior = Literal["ignore", "raise"]

_OPTIONS = {
    "nan": config.error_checking_behavior_nan,
    "divide": config.error_checking_behavior_divide,
    "oob": config.error_checking_behavior_oob,
}


def set_error_if_nan(x: Any) -> None:
    """Records an error if an array has a NaN."""
    if dtypes.issubdtype(x.dtype, np.inexact):
        set_error_if(lax.ne(x, x), "NaN encountered")


def set_error_if_divide_by_zero(divisor: Any) -> None:
    """Records an error if a divisor has a zero."""
    set_error_if(lax.eq(divisor, lax.full_like(divisor, 0)), "Division by zero encountered")


def set_error_if_out_of_bounds(index: Any, wrap: bool, size: int) -> None:
    """Records an error if an index is outside a dimension.

    Args:
      index: integer array.
      wrap: whether it may be negative, and then counts from the end.
      size: of the dimension.
    """
    bad = outside(index, -size if wrap else 0, size - 1)
    set_error_if(bad, "Out of bounds index encountered")


# Names that outside code imports; `jax.numpy` looks at the options itself.


def _is_category_disabled(category: Category | None) -> bool:
    if category in ("nan", "divide"):
        checks = {"nan": "_set_error_if_nan", "divide": "_set_error_if_divide_by_zero"}
        raise ValueError(f"{category} is not a category of messages: use `{checks[category]}`.")
    if category not in ("oob", None):
        raise ValueError(f"Invalid category: {category}")
    return category is not None and _OPTIONS[category].value == "ignore"


def _set_error_if_with_category(pred: Any, /, msg: str, category: Category | None = None) -> None:
    if not _is_category_disabled(category):
        set_error_if(pred, msg)


def _set_error_if_nan(pred: Any, /) -> None:
    if _OPTIONS["nan"].value != "ignore":
        set_error_if_nan(pred)


def _set_error_if_divide_by_zero(pred: Any, /) -> None:
    if _OPTIONS["divide"].value != "ignore":
        set_error_if_divide_by_zero(pred)


def _check_precondition_oob_gather(shape: tuple[int, ...], gather_indices: Any) -> None:
    """Records an error if an index is outside the smallest dimension, as with PyPI's jax."""
    if shape and not _is_category_disabled("oob"):
        bad = outside(gather_indices, -min(shape), min(shape) - 1)
        set_error_if(bad, "Out of bounds encountered before calling `lax.gather`")


class error_checking_behavior:
    """Context manager that chooses which errors of `jax.numpy` are recorded for `raise_if_error`.

    Args:
      all: 'ignore' or 'raise' for all categories.
      nan, divide, oob: the same for one category (NaN as a result, division by zero, index out of
        bounds), before `all`. None leaves it as it is.

    Raises:
      ValueError: for another value.

    >>> from jax._src.error_check import raise_if_error
    >>> from jax._src.numpy.error import error_checking_behavior
    >>> with error_checking_behavior(nan="raise"):
    ...     y = jnp.log(-1.0)
    >>> try:
    ...     raise_if_error()
    ... except ValueError as e:
    ...     print(e)
    NaN encountered
    """

    def __init__(
        self,
        *,
        all: Behavior | None = None,
        nan: Behavior | None = None,
        divide: Behavior | None = None,
        oob: Behavior | None = None,
    ) -> None:
        chosen = {"nan": nan, "divide": divide, "oob": oob}
        self._chosen = {k: all if v is None else v for k, v in chosen.items()}
        self._entered: list[contextlib.ExitStack] = []

    def __enter__(self) -> error_checking_behavior:
        with contextlib.ExitStack() as stack:
            for category, behavior in self._chosen.items():
                if behavior is not None:
                    stack.enter_context(_OPTIONS[category](behavior))
            self._entered.append(stack.pop_all())
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self._entered.pop().__exit__(*exc_info)
