"""Softmax and its kin, normalization, one-hot encoding."""

import functools
from typing import Any

import numpy as np

import jax.numpy as jnp
from jax._src import config, core, dtypes
from jax._src.api import jit
from jax._src.custom_derivatives import custom_jvp
from jax._src.lax import lax
from jax._src.lax.parallel import axis_index, axis_size
from jax._src.numpy import util
from jax._src.util import canonicalize_axis


def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
):
    """log(sum(b * exp(a))), without overflow.

    Args:
      a: array.
      axis: axis or axes to sum over; all by default.
      b: factors, of a shape that broadcasts to that of `a`.
      keepdims: whether the axes stay, of size one.
      return_sign: whether to return the sign of the sum too.
      where: which elements to include.

    Returns:
      An array, or with `return_sign` a pair of the logarithm of the absolute value and the sign.

    >>> print(jax.nn.logsumexp(jnp.array([0., 0.])))
    0.6931472
    """
    if b is not None:
        a, b = util.promote_args_inexact("logsumexp", a, b)
        a = jnp.where(b != 0, a, -jnp.inf)
    else:
        (a,) = util.promote_args_inexact("logsumexp", a)
    dims = _axes(a, axis)
    amax = jnp.max(a.real, axis=dims, keepdims=keepdims, where=where, initial=-jnp.inf)
    amax = lax.stop_gradient(lax.select(jnp.isfinite(amax), amax, lax.full_like(amax, 0)))
    amax_wide = amax if keepdims else lax.expand_dims(amax, dims)
    exp_a = lax.exp(lax.sub(a, amax_wide.astype(a.dtype)))
    if b is not None:
        exp_a = lax.mul(exp_a, jnp.broadcast_to(b, exp_a.shape))
    sumexp = exp_a.sum(axis=dims, keepdims=keepdims, where=where)
    sign = lax.sign(sumexp)
    if return_sign or not np.issubdtype(a.dtype, np.complexfloating):
        sumexp = abs(sumexp)
    out = lax.add(lax.log(sumexp), amax.astype(sumexp.dtype))
    if return_sign:
        return out, sign
    if b is not None and not np.issubdtype(out.dtype, np.complexfloating):
        with config.debug_nans(False):
            out = jnp.where(sign < 0, jnp.array(np.nan, dtype=out.dtype), out)
    return out


def _axes(x, axis) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(canonicalize_axis(a, x.ndim) for a in axes)


@functools.partial(jit, static_argnames=("axis", "keepdims"))
def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False):
    """log(mean(exp(x))), without overflow.

    Args:
      x: array.
      axis: axis or axes to average over; all by default.
      where: which elements to include.
      keepdims: whether the axes stay, of size one.

    >>> print(jax.nn.logmeanexp(jnp.array([1., 1.])))
    1.0
    """
    (x,) = util.promote_args_inexact("logmeanexp", x)
    lse = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    if where is None:
        count = int(np.prod([x.shape[a] for a in _axes(x, axis)], dtype=np.int64))
    else:
        count = jnp.sum(
            jnp.broadcast_to(where, x.shape), axis=axis, keepdims=keepdims, dtype=lse.dtype
        )
    return lse - jnp.log(jnp.asarray(count, dtype=lse.dtype) if where is None else count)


@functools.partial(jit, static_argnames=("axis",))
def log_softmax(x: Any, axis: Any = -1, where: Any = None):
    """The logarithm of `softmax`.

    Args:
      x: array.
      axis: axis or axes whose exponentials sum to one.
      where: which elements to include; the others give -inf.

    >>> print(jax.nn.log_softmax(jnp.array([0., 0.])))
    [-0.6931472 -0.6931472]
    """
    util.check_arraylike("log_softmax", x)
    x = jnp.asarray(x)
    x_max = jnp.max(x, axis, where=where, initial=-jnp.inf, keepdims=True)
    x_safe = x if where is None else jnp.where(where, x, -jnp.inf)
    shifted = x_safe - lax.stop_gradient(x_max)
    shifted_logsumexp = jnp.log(jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True))
    result = shifted - shifted_logsumexp
    return result if where is None else jnp.where(where, result, -jnp.inf)


def softmax(x: Any, axis: Any = -1, where: Any = None):
    """exp(x) / sum(exp(x)).

    Args:
      x: array.
      axis: axis or axes to normalize over.
      where: which elements to include; the others give zero.

    >>> print(jax.nn.softmax(jnp.array([0., 0.])))
    [0.5 0.5]
    """
    if config.softmax_custom_jvp.value:
        # The derivative in terms of the result, which then need not be computed again.
        return _softmax(x, axis, where, -jnp.inf)
    return _softmax_forward(jnp.asarray(x), axis, where, -jnp.inf)


@functools.partial(jit, static_argnames=("axis",), inline=True)
def _softmax_forward(x, axis, where, initial):
    x_max = jnp.max(x, axis, where=where, initial=initial, keepdims=True)
    x_safe = x if where is None else jnp.where(where, x, initial)
    unnormalized = jnp.exp(x_safe - lax.stop_gradient(x_max))
    result = unnormalized / jnp.sum(unnormalized, axis, where=where, keepdims=True)
    return result if where is None else jnp.where(where, result, 0)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _softmax(x, axis, where, initial):
    return _softmax_forward(jnp.asarray(x), axis, where, initial)


def _softmax_jvp(axis, primals, tangents):
    (x, where, initial), (x_dot, _, _) = primals, tangents
    y = _softmax(x, axis, where, initial)
    return y, y * (x_dot - (y * x_dot).sum(axis, where=where, keepdims=True))


_softmax.defjvp(_softmax_jvp)


@functools.partial(jit, static_argnames=("axis", "algorithm"))
def standardize(
    x: Any, axis: Any = -1, mean: Any = None, variance: Any = None, epsilon: Any = 1e-5, where: Any = None,
    *, algorithm: str = "fast",
):  # fmt: skip
    """(x - mean) / sqrt(variance + epsilon).

    Args:
      x: array.
      axis: axis or axes to normalize over.
      mean: the mean; computed if None.
      variance: the variance; computed if None.
      epsilon: added to the variance.
      where: which elements to include in mean and variance.
      algorithm: 'fast' for one pass over the data, 'stable' for two.

    >>> print(jax.nn.standardize(jnp.array([1., 3.])))
    [-0.999995  0.999995]
    """
    util.check_arraylike("standardize", x)
    x = jnp.asarray(x)
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        if algorithm == "fast":
            # The difference of two close numbers can be negative.
            variance = jnp.mean(jnp.square(x), axis, keepdims=True, where=where) - jnp.square(mean)
            variance = jnp.clip(variance, 0)
        elif algorithm == "stable":
            variance = jnp.var(x, axis, keepdims=True, where=where, mean=mean)
        else:
            raise ValueError(
                f"standardize: algorithm must be 'fast' or 'stable', got {algorithm!r}"
            )
    return jnp.subtract(x, mean) * lax.rsqrt(jnp.asarray(variance) + epsilon)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1):
    """A one at the position each index names, zeros elsewhere.

    Args:
      x: integer array.
      num_classes: number of positions; an index outside gives zeros only.
      dtype: dtype of the result; float by default.
      axis: where the new axis is (or the name of a mapped axis).

    Returns:
      Array with one more axis.

    >>> print(jax.nn.one_hot(jnp.array([0, 2]), 3))
    [[1. 0. 0.]
     [0. 0. 1.]]
    """
    num_classes = core.concrete_dim_or_error(
        int, num_classes, "The error arose in jax.nn.one_hot argument `num_classes`."
    )
    util.check_arraylike("one_hot", x)
    x = jnp.asarray(x)
    if not dtypes.issubdtype(x.dtype, np.integer) and x.dtype != np.bool_:
        raise TypeError(
            f"one_hot requires integer or boolean indices, got {dtypes.dtype_name(x.dtype)}: convert with x.astype(int)"
        )
    dtype = (
        dtypes.default_float_dtype()
        if dtype is None
        else dtypes.check_and_canonicalize_user_dtype(dtype, "one_hot")
    )
    return _one_hot(x, num_classes=num_classes, dtype=dtype, axis=axis)


@functools.partial(jit, static_argnames=("num_classes", "dtype", "axis"))
def _one_hot(x, *, num_classes, dtype, axis):
    try:
        out_axis = canonicalize_axis(axis, x.ndim + 1)
    except TypeError:
        if axis_size(axis) != num_classes:
            raise ValueError(
                f"Expected num_classes to match the size of axis {axis}, but {num_classes} != {axis_size(axis)}"
            ) from None
        return (x == axis_index(axis)).astype(dtype)
    lhs = lax.expand_dims(x, (out_axis,))
    shape = [1] * x.ndim
    shape.insert(out_axis, num_classes)
    rhs = lax.broadcasted_iota(x.dtype if x.dtype != np.bool_ else np.int32, tuple(shape), out_axis)
    return (lhs == rhs).astype(dtype)
