"""Arrays of the Python numbers that operators meet again, such as 0.9 in `0.9 * x`.

To convert a number is a third of what an eager operation costs. A number that comes a second time is held on the
default device as an array of a weak type, which is what an operation makes of it anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jax._src import config, util
from jax._src.array_impl import ArrayImpl, array_from_numpy
from jax._src.core import eval_trace, trace_ctx


class HeldNumbers(dict[Any, Any]):
    """What to give an operation for a number: itself, or an array of it, which is the same to the operation.

    A lookup of one that is held is a native one. When there are too many, all are forgotten.

    Args:
      dtype: that of the arrays.
      least: the least number that may be held.
      most: the largest. Others have conversions of their own: numbers that overflow, and NaNs.
    """

    _capacity = 256

    def __init__(self, dtype: Any, least: Any, most: Any):
        super().__init__()
        self._dtype = np.dtype(dtype)
        self._least = least
        self._most = most
        self._seen: set[Any] = set()
        util.register_cache(self, "numbers as operands of operators")

    def __missing__(self, number: Any) -> Any:
        # Zeros of both signs are equal, so that one would be taken for the other.
        if not self._least <= number <= self._most or (number == 0 and type(number) is float):
            return number
        if number not in self._seen:
            if len(self._seen) >= self._capacity:
                self._seen.clear()
            self._seen.add(number)
            return number
        if len(self) >= self._capacity:
            self.clear()
        array = self[number] = array_from_numpy(np.array(number, self._dtype), weak_type=True)
        return array

    def cache_clear(self) -> None:
        """Forget all numbers and their arrays."""
        self.clear()
        self._seen.clear()


_float32, _int32 = np.finfo(np.float32), np.iinfo(np.int32)
_held = {
    float: HeldNumbers(np.float32, float(_float32.min), float(_float32.max)),
    int: HeldNumbers(np.int32, _int32.min, _int32.max),
}
held_numbers = _held.get
_UNGUARDED = (None, "allow")
_x64 = config.enable_x64
_guard = config.transfer_guard_host_to_device
_default_device = config.default_device


def may_hold(x: ArrayImpl) -> bool:
    """Whether an operation of `x` and a number may be given an array of the number.

    Not while something is traced, where numbers are literals, nor while their type or device are others or their
    transfer is logged or refused, nor if `x` is committed to a device, to which the array had to be copied.
    """
    return (
        trace_ctx.trace is eval_trace
        and not x._committed
        and not _x64.value
        and _guard.value in _UNGUARDED
        and _default_device.value is None
    )


def without_held(arrays: Iterable[Any]) -> list[Any]:
    """The arrays, but for those of held numbers, of which programs know nothing."""
    held = {id(a) for numbers in _held.values() for a in tuple(numbers.values())}
    return [a for a in arrays if id(a) not in held]
