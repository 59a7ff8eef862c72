"""`logsumexp` and `logmeanexp`."""

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.jit.library import eager_jit, inline_jit
from jax._src.lax import lax
from jax._src.numpy import reductions
from jax._src.numpy.util import (
    arraylike,
    promote_args_inexact,
    promote_dtypes_inexact,
    select_where,
    to_array,
)
from jax._src.typing import Array, ArrayLike
from jax._src.util import listed_axes, set_module


@set_module("jax.scipy.special")
@eager_jit("axis", "keepdims", "return_sign")
def logsumexp(
    a: ArrayLike,
    axis: Any = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """Computes log(sum(b * exp(a))) without overflow.

    Args:
      a: array.
      axis: axis or axes to sum over; None for all.
      b: factors of the exponentials, an array that broadcasts with `a`.
      keepdims: whether the result keeps the summed axes with size 1.
      return_sign: whether to return the logarithm of the sum's absolute value together with its
        sign.
      where: boolean mask: which elements to include.

    Returns:
      An array; NaN where the sum is negative. With `return_sign` a pair of arrays, where the sign
      of a complex sum is its phase.

    >>> print(jax.nn.logsumexp(jax.numpy.array([1000.0, 1000.0])))
    1000.6932
    """
    if b is None:
        (a,) = promote_dtypes_inexact(to_array(*arraylike("logsumexp", a)))
    else:
        a, b = promote_args_inexact("logsumexp", *arraylike("logsumexp", a, b))
    ndim = np.ndim(a) if b is None else max(np.ndim(a), np.ndim(b))
    axes = reductions.canonical_axes(listed_axes(axis), ndim)
    out, sign = _logsumexp(
        a, b, where, axes=axes, keepdims=bool(keepdims), return_sign=bool(return_sign)
    )
    return (out, sign) if return_sign else out


def logsumexp_impl(a, b, where, *, axes, keepdims, return_sign):
    if where is not None:
        a = select_where(where, a, 0)
    if b is not None:
        a = select_where(b != 0, a, -np.inf)
    is_complex = dtypes.issubdtype(a.dtype, np.complexfloating)
    real = lax.stop_gradient(lax.real(a) if is_complex else a)
    largest = reductions.max(real, axes, keepdims=True, initial=-np.inf, where=where)
    largest = lax.select(lax.is_finite(largest), largest, lax.full_like(largest, 0))
    # `real` is under stop_gradient because the shift cancels.
    largest = lax.convert_element_type(largest, a.dtype)
    exps = lax.exp(a - largest)
    if b is not None:
        exps = exps * b
    total = reductions.sum(exps, axes, keepdims=keepdims, where=where)
    if not keepdims:
        largest = lax.squeeze(largest, reductions.split_axes(axes)[0])
    sign = lax.sign(total)
    if is_complex and not return_sign:
        return lax.log(total) + largest, None
    out = lax.log(abs(total)) + lax.real(largest) if is_complex else lax.log(abs(total)) + largest
    if return_sign:
        return out, sign
    if b is not None:
        out = lax.select(sign < 0, lax.full_like(out, np.nan), out)
    return out, None


_logsumexp = inline_jit(logsumexp_impl, static_argnames=("axes", "keepdims", "return_sign"))


@set_module("jax.nn")
def logmeanexp(
    x: ArrayLike, axis: Any = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """Computes log(mean(exp(x))) without overflow.

    Args:
      x: array.
      axis: axis or axes to average over; None for all.
      where: boolean mask: which elements to include.
      keepdims: whether the result keeps the averaged axes with size 1.

    >>> print(jax.nn.logmeanexp(jax.numpy.array([1000.0, 1000.0])))
    1000.0
    """
    (x,) = promote_dtypes_inexact(to_array(*arraylike("logmeanexp", x)))
    axes = reductions.canonical_axes(axis, np.ndim(x))
    return _logmeanexp(x, where, axes=axes, keepdims=bool(keepdims))


def _logmeanexp_impl(x, where, *, axes, keepdims):
    total, _ = logsumexp_impl(x, None, where, axes=axes, keepdims=keepdims, return_sign=False)
    if where is None:
        return total - lax.log(reductions.element_count(x.shape, axes, total.dtype))
    where = lax.broadcast_to(where, core.broadcast_shapes(np.shape(where), x.shape))
    return total - lax.log(reductions.sum(where, axes, keepdims=keepdims, dtype=total.dtype))


_logmeanexp = inline_jit(_logmeanexp_impl, static_argnames=("axes", "keepdims"))
