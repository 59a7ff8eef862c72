"""Where functions of `jax.numpy` look for errors, if they are asked to: see jax._src.numpy.error.

That module, and references, are not loaded before somebody turns checks on.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import config
from jax._src.numpy.util import to_array

_nan = config.error_checking_behavior_nan
_divide = config.error_checking_behavior_divide
_oob = config.error_checking_behavior_oob


@functools.cache
def _error() -> Any:
    return importlib.import_module("jax._src.numpy.error")


def checked(fun: Callable[..., Any], *, divides: bool = False) -> Callable[..., Any]:
    """Makes a function look for NaN in its results, and for zeros in its second operand.

    The options are part of the keys of caches: once compiled, a function pays nothing for checks that
    are off.

    Args:
      fun: function of arrays with an array or a tuple of arrays as result.
      divides: whether the second operand is a divisor.
    """

    @functools.wraps(fun)
    def with_checks(*args: Any, **kwargs: Any) -> Any:
        out = fun(*args, **kwargs)
        if divides:
            check_divisor(args[1])
        check_nan(out)
        return out

    return with_checks


def check_nan(out: Any) -> None:
    """Records an error if an array, or one of a tuple, has a NaN."""
    if _nan.value == "raise":
        for x in out if isinstance(out, tuple) else (out,):
            _error().set_error_if_nan(x)


def check_divisor(x: Any) -> None:
    """Records an error if a divisor is zero."""
    if _divide.value == "raise":
        _error().set_error_if_divide_by_zero(to_array(x))


def checks_bounds() -> bool:
    """Whether indices out of bounds are to be recorded."""
    return _oob.value == "raise"


def check_bounds(indices: Sequence[tuple[Any, bool, int]]) -> None:
    """Records an error if an index of `(index, wrap, size)` is out of bounds."""
    for index in indices:
        _error().set_error_if_out_of_bounds(*index)
