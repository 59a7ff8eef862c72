"""The predefined ufunc objects, such as `jnp.add`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.numpy import cumulative, reductions, ufuncs, util
from jax._src.numpy.ufunc_api import (
    at_method,
    bitwise_reductions,
    reduction_method,
    ufunc,
)


def _binary(name: str, identity: Any, **methods: Any) -> ufunc:
    call = getattr(ufuncs, name)
    return ufunc(call.__wrapped__, 2, 1, name=name, identity=identity, call=call, **methods)


_xor = reduction_method(bitwise_reductions["bitwise_xor"])


def _sum(a, *, axis, dtype, keepdims, initial, where):
    return reductions.sum(a, axis, dtype, None, keepdims, initial, where)


def _prod(a, *, axis, dtype, keepdims, initial, where):
    return reductions.prod(a, axis, dtype, None, keepdims, initial, where)


def _converted(reduction):
    def reduce(a, *, axis, dtype, keepdims, initial, where):
        if dtype is not None:
            a = lax.convert_element_type(a, dtype)
        return reduction(a, axis, None, keepdims, initial, where)

    return reduce


def _logical(reduction):
    def reduce(a, *, axis, dtype, keepdims, initial, where):
        out = reduction(a, axis, None, keepdims, where=where)
        if initial is not None:
            combine = ufuncs.logical_and if reduction is reductions.all else ufuncs.logical_or
            out = combine(initial, out)
        return out if dtype is None else lax.convert_element_type(out, dtype)

    return reduce


def _parity(a, *, axis, dtype, keepdims, initial, where):
    first = None if initial is None else ufuncs.logical_or(initial, False)
    out = _xor(
        ufuncs.logical_or(a, False),
        axis=axis,
        dtype=None,
        keepdims=keepdims,
        initial=first,
        where=where,
    )
    return out if dtype is None else lax.convert_element_type(out, dtype)


def _inexact(a, dtype):
    """Converts to `dtype`, or what is inexact instead of it: logarithms have no other types."""
    a = util.to_array(a)
    if dtype is None:
        dtype = a.dtype
    return lax.convert_element_type(a, dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(dtype)))


def _log_sum(combine, exp, log):
    """Makes the `reduce` method of a `logaddexp`: shifting by the maximum prevents overflow."""

    def reduce(a, *, axis, dtype, keepdims, initial, where):
        a = _inexact(a, dtype)
        minus_inf = np.asarray(-np.inf, a.dtype)[()]
        if where is not None:
            a = util.select_where(where, a, minus_inf)
        top = reductions.max(ufuncs.real(a), axis, keepdims=True, initial=-np.inf)
        top = lax.stop_gradient(
            util.select_where(ufuncs.isfinite(top), top, np.zeros((), top.dtype)[()])
        )
        out = log(reductions.sum(exp(ufuncs.subtract(a, top)), axis, keepdims=keepdims))
        out = ufuncs.add(out, top if keepdims else lax.reshape(top, out.shape))
        if initial is not None:
            out = combine(lax.convert_element_type(initial, out.dtype), out)
        return out

    return reduce


def _cumulative_log_sum(a, *, axis, dtype):
    a = _inexact(a, dtype)
    if axis is None:
        a, axis = lax.reshape(a, (a.size,)), 0
    return lax.cumlogsumexp(a, axis=axis % a.ndim)


add = _binary("add", 0, reduce=_sum, accumulate=cumulative.cumsum, at=at_method("add"))
multiply = _binary(
    "multiply", 1, reduce=_prod, accumulate=cumulative.cumprod, at=at_method("multiply")
)
subtract = _binary("subtract", None, at=at_method("subtract"))
maximum = _binary("maximum", None, reduce=_converted(reductions.max), at=at_method("max"))
minimum = _binary("minimum", None, reduce=_converted(reductions.min), at=at_method("min"))
bitwise_and = _binary("bitwise_and", -1, reduce=reduction_method(bitwise_reductions["bitwise_and"]))
bitwise_or = _binary("bitwise_or", 0, reduce=reduction_method(bitwise_reductions["bitwise_or"]))
bitwise_xor = _binary("bitwise_xor", 0, reduce=_xor)
logical_and = _binary("logical_and", True, reduce=_logical(reductions.all))
logical_or = _binary("logical_or", False, reduce=_logical(reductions.any))
logical_xor = _binary("logical_xor", False, reduce=_parity)
logaddexp = _binary(
    "logaddexp",
    -np.inf,
    reduce=_log_sum(ufuncs.logaddexp, ufuncs.exp, ufuncs.log),
    accumulate=_cumulative_log_sum,
)
logaddexp2 = _binary(
    "logaddexp2", -np.inf, reduce=_log_sum(ufuncs.logaddexp2, ufuncs.exp2, ufuncs.log2)
)
negative = ufunc(ufuncs.negative.__wrapped__, 1, 1, name="negative", call=ufuncs.negative)
