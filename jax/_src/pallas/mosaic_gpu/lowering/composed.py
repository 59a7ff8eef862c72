"""Rules of primitives that others compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src.lax import lax, slicing
from jax._src.pallas.element_types import is_float
from jax._src.pallas.kernel_rules import lower_fun
from jax._src.pallas.mosaic_gpu.lowering.kernel import TABLE


def _sign(x: Any) -> Any:
    positive = lax.convert_element_type(x > 0, x.dtype)
    sign = positive - lax.convert_element_type(x < 0, x.dtype)
    return lax.select(x != x, x, sign) if is_float(x.dtype) else sign


def _position_of(best: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that finds the first of the elements that a reduction finds; of NaNs the first one."""

    def position(x: Any, *, axes: Sequence[int], index_dtype: Any) -> Any:
        (axis,) = axes
        n = x.shape[axis]
        kept = [d for d in range(x.ndim) if d != axis]
        found = lax.broadcast_in_dim(best(x, axes), x.shape, kept)
        chosen = x == found
        if is_float(x.dtype):
            chosen = lax.bitwise_or(chosen, x != x)
        at = lax.broadcasted_iota(np.int32, x.shape, axis)
        first = lax.reduce_min(lax.select(chosen, at, lax.full_like(at, n)), axes)
        return lax.convert_element_type(first, index_dtype)

    return position


def _stack(*xs: Any, axis: int) -> Any:
    return lax.concatenate([lax.expand_dims(x, [axis]) for x in xs], axis)


def _unstack(x: Any, *, axis: int, **_: Any) -> list[Any]:
    parts = [slicing.slice_in_dim(x, i, i + 1, axis=axis) for i in range(x.shape[axis])]
    return [lax.squeeze(p, [axis]) for p in parts]


def _tile(x: Any, *, reps: Sequence[int]) -> Any:
    x = lax.reshape(x, (*[1] * (len(reps) - x.ndim), *x.shape))
    for axis, n in enumerate(reps):
        if n > 1:
            x = lax.concatenate([x] * n, axis)
    return x


for _p, _function in {
    lax.sign_p: _sign,
    lax.argmax_p: _position_of(lax.reduce_max),
    lax.argmin_p: _position_of(lax.reduce_min),
    lax.stack_p: _stack,
    lax.tile_p: _tile,
}.items():
    TABLE.rule(_p)(lower_fun(_function, multiple_results=False))
TABLE.rule(lax.unstack_p)(lower_fun(_unstack))
