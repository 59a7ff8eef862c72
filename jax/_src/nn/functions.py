"""Activation functions, normalizations and `one_hot`."""

import math
import warnings
from functools import partial
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.custom_derivatives import custom_jvp
from jax._src.jit.library import eager_jit, inline_jit, nested_jit
from jax._src.lax import lax, parallel, special as lax_special
from jax._src.lax.special.doubled import two_product
from jax._src.numpy import reductions, ufuncs
from jax._src.numpy.selecting import clip
from jax._src.numpy.util import (
    arraylike,
    check_arraylike,
    lower_jax_array,
    promote_dtypes_inexact,
    select_where,
    to_array,
)
from jax._src.typing import Array, ArrayLike
from jax._src.util import canonicalize_axis, listed_axes, set_module

export = set_module("jax.nn")


@export
@nested_jit
def identity(x: ArrayLike) -> Array:
    """Returns the argument, as an array.

    Args:
      x: array or scalar.
    """
    check_arraylike("identity", x)
    return to_array(x)


# Rectifiers


@export
@custom_jvp
@inline_jit
def relu(x: ArrayLike) -> Array:
    """Rectified linear unit max(x, 0); the derivative at zero is zero.

    Args:
      x: array.

    >>> print(jax.nn.relu(jax.numpy.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])))
    [0.  0.  0.  0.  0.5 1.  2. ]
    """
    return ufuncs.maximum(x, 0)


relu.defjvps(lambda g, ans, x: lax.select(x > 0, g, lax.full_like(g, 0)))


@export
@custom_jvp
@inline_jit
def relu6(x: ArrayLike) -> Array:
    """Rectified linear unit limited to six: min(max(x, 0), 6); the derivatives at 0 and 6 are zero.

    Args:
      x: array.

    >>> print(jax.nn.relu6(jax.numpy.array([-1.0, 3.0, 7.0])))
    [0. 3. 6.]
    """
    return ufuncs.minimum(ufuncs.maximum(x, 0), 6.0)


relu6.defjvps(lambda g, ans, x: lax.select((x > 0) & (x < 6), g, lax.full_like(g, 0)))


@export
@nested_jit
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """Leaky rectified linear unit: x where x >= 0, negative_slope * x elsewhere.

    Args:
      x: array.
      negative_slope: array or scalar.
    """
    check_arraylike("leaky_relu", x)
    x = to_array(x)
    return select_where(x >= 0, x, negative_slope * x)


@export
@nested_jit
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Exponential linear unit: x where x > 0, alpha * (exp(x) - 1) elsewhere.

    Args:
      x: array.
      alpha: array or scalar.
    """
    check_arraylike("elu", x)
    return _elu(to_array(x), alpha)


def _elu(x, alpha):
    positive = x > 0
    # Large positive x would overflow in the branch that is not selected, and make the derivative
    # NaN.
    return select_where(positive, x, alpha * ufuncs.expm1(select_where(positive, 0.0, x)))


@export
@nested_jit
def selu(x: ArrayLike) -> Array:
    """Scaled ELU: scale * elu(x, alpha) with constants that preserve zero mean and unit variance.

    Args:
      x: array.
    """
    check_arraylike("selu", x)
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return scale * _elu(to_array(x), alpha)


@export
@nested_jit
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Continuously differentiable ELU: max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1).

    Args:
      x: array.
      alpha: array or scalar.
    """
    return ufuncs.maximum(x, 0.0) + alpha * ufuncs.expm1(ufuncs.minimum(x, 0.0) / alpha)


# Sigmoids


@export
def sigmoid(x: ArrayLike) -> Array:
    """Logistic sigmoid 1 / (1 + exp(-x)).

    Args:
      x: floating-point array.
    """
    return lax.logistic(x)


@export
def tanh(x: ArrayLike, /) -> Array:
    """Hyperbolic tangent; the same function as `jax.numpy.tanh`.

    Args:
      x: array or scalar.
    """
    return ufuncs.tanh(x)


@export
@nested_jit
def silu(x: ArrayLike) -> Array:
    """Sigmoid linear unit x * sigmoid(x), also known as swish.

    Args:
      x: floating-point array.
    """
    x = lower_jax_array(x)
    return lax.mul(x, lax.logistic(x))


swish = silu


@export
@nested_jit
def softplus(x: ArrayLike) -> Array:
    """Smooth rectifier log(1 + exp(x)).

    Args:
      x: array.
    """
    check_arraylike("softplus", x)
    return ufuncs.logaddexp(x, 0)


@export
@nested_jit
def log_sigmoid(x: ArrayLike) -> Array:
    """Logarithm of the sigmoid, log(sigmoid(x)).

    Args:
      x: array.
    """
    check_arraylike("log_sigmoid", x)
    return -softplus(-to_array(x))


@export
@nested_jit
def mish(x: ArrayLike) -> Array:
    """Mish activation x * tanh(softplus(x)).

    Args:
      x: array.
    """
    check_arraylike("mish", x)
    x = to_array(x)
    return x * ufuncs.tanh(softplus(x))


@export
@nested_jit
def soft_sign(x: ArrayLike) -> Array:
    """Soft sign x / (abs(x) + 1).

    Args:
      x: array.
    """
    check_arraylike("soft_sign", x)
    x = to_array(x)
    return x / (ufuncs.abs(x) + 1)


@export
@nested_jit
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """Smooth rectifier (x + sqrt(x ** 2 + b)) / 2, without cancellation and overflow of real numbers.

    Args:
      x: array.
      b: smoothness, an array or scalar.
    """
    check_arraylike("squareplus", x, b)
    x = to_array(x)
    dtype = dtypes.to_inexact_dtype(dtypes.result_type(x, b))
    if dtypes.issubdtype(dtype, np.complexfloating):
        return (x + ufuncs.sqrt(ufuncs.square(x) + b)) / 2
    x = x if x.dtype == dtype else x.astype(dtype)
    size = ufuncs.abs(x)
    # The square of larger numbers overflows; the root is the number itself then.
    large = size > math.sqrt(float(dtypes.finfo(dtype).max)) / 2
    root = ufuncs.sqrt(ufuncs.square(select_where(large, 0, x)) + b)
    upper = select_where(large, size, 0.5 * (size + root))
    return select_where(x >= 0, upper, 0.25 * b / upper)


@eager_jit("approximate")
def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """Gaussian error linear unit: x times the cumulative normal distribution at x.

    Args:
      x: array.
      approximate: whether to use the approximation with tanh instead of the exact formula with erf.
    """
    check_arraylike("gelu", x)
    (x,) = promote_dtypes_inexact(to_array(x))
    return (_gelu_tanh if approximate else _gelu_erf)(x)


gelu = export(gelu)


@inline_jit
def _gelu_tanh(x):
    # The logistic function would keep the tail's digits, but XLA's epilogues of matrix products look for this formula.
    inner = np.array(np.sqrt(2 / np.pi), x.dtype) * (x + 0.044715 * (x**3))
    return x * (0.5 * (1 + ufuncs.tanh(inner)))


# What the square root of 1/2 has below its float32 and float64 numbers, by bytes of the dtype
_SQRT_HALF_REST = {4: 1.210161710447897e-08, 8: -4.833646656726457e-17}


@inline_jit
def _gelu_erf(x):
    scale = np.array(np.sqrt(0.5), x.dtype)
    out = 0.5 * x * lax_special.erfc(-x * scale)
    if x.dtype.itemsize < 4:
        return out
    # The argument's rounding error, in the tail: there the slope of log(erfc(z)) is about -2 z.
    y = -lax.stop_gradient(x)
    y = lax.select((y > 1) & (y < 40), y, lax.full_like(y, 0))
    z, rest = two_product(y, lax.full_like(y, scale))
    rest = rest + y * np.array(_SQRT_HALF_REST[x.dtype.itemsize], x.dtype)
    return out * (1 - 2 * z * rest)


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Gated linear unit: the first half along an axis times the sigmoid of the second.

    Args:
      x: floating-point array of even size along the axis.
      axis: axis to split.

    Raises:
      ValueError: if the size along `axis` is odd.
    """
    check_arraylike("glu", x)
    x = to_array(x)
    axis = canonicalize_axis(axis, x.ndim)
    if x.shape[axis] % 2:
        raise ValueError(
            f"glu: the size along axis {axis} must be even, got an array of shape {x.shape}"
        )
    return _glu(x, axis=axis)


def _glu_impl(x, *, axis):
    half = x.shape[axis] // 2
    first, second = lax.split(x, (half, half), axis=axis)
    return lax.mul(first, lax.logistic(second))


_glu_impl.__name__ = "glu"
_glu = nested_jit(_glu_impl, static_argnames=("axis",))
glu = export(glu)


# Piecewise functions


@export
@nested_jit
def hard_tanh(x: ArrayLike) -> Array:
    """Hard tanh: x limited to [-1, 1].

    Args:
      x: array.
    """
    check_arraylike("hard_tanh", x)
    x = to_array(x)
    return select_where(x > 1, 1, select_where(x < -1, -1, x))


@export
@nested_jit
def hard_sigmoid(x: ArrayLike) -> Array:
    """Hard sigmoid relu6(x + 3) / 6.

    Args:
      x: array.
    """
    return relu6(ufuncs.add(x, 3.0)) / 6.0


@export
@nested_jit
def hard_silu(x: ArrayLike) -> Array:
    """Hard SiLU x * hard_sigmoid(x), also known as hard swish.

    Args:
      x: array.
    """
    return ufuncs.multiply(x, relu6(ufuncs.add(x, 3.0)) / 6.0)


hard_swish = hard_silu


@export
@nested_jit
def sparse_plus(x: ArrayLike) -> Array:
    """Sparse plus: 0 where x <= -1, x where x >= 1, and (x + 1) ** 2 / 4 in between.

    Args:
      x: array.
    """
    check_arraylike("sparse_plus", x)
    x = to_array(x)
    return select_where(x <= -1.0, 0.0, select_where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@export
@nested_jit
def sparse_sigmoid(x: ArrayLike) -> Array:
    """Sparse sigmoid: (x + 1) / 2 limited to [0, 1], which is the derivative of `sparse_plus`.

    Args:
      x: array.
    """
    return 0.5 * clip(ufuncs.add(x, 1.0), 0.0, 2.0)


@export
@custom_jvp
@inline_jit
def log1mexp(x: ArrayLike) -> Array:
    """Computes log(1 - exp(-x)) accurately for small and large x; NaN for negative x.

    Args:
      x: array.
    """
    (x,) = promote_dtypes_inexact(*arraylike("log1mexp", x))
    x = to_array(x)
    threshold = np.array(np.log(2), x.dtype)
    return select_where(x < threshold, lax.log(-lax.expm1(-x)), lax.log1p(-lax.exp(-x)))


log1mexp.defjvps(lambda g, ans, x: g / ufuncs.expm1(x))


# Normalizations


@export
@eager_jit("axis")
def softmax(x: ArrayLike, axis: Any = -1, where: ArrayLike | None = None) -> Array:
    """Softmax exp(x) / sum(exp(x)), without overflow.

    Args:
      x: array of any shape.
      axis: axis or axes to sum over; None for all.
      where: boolean mask: which elements to include; the others become zero.

    Returns:
      Array of the shape of `x`.

    >>> print(jax.nn.softmax(jax.numpy.array([0.0, 0.0])))
    [0.5 0.5]
    """
    (x,) = arraylike("softmax", x)
    axes = reductions.canonical_axes(listed_axes(axis), np.ndim(x))
    if config.softmax_custom_jvp.value:
        return _softmax_with_jvp(x, where, axes)
    return _softmax(x, where, axes=axes)


def _shifted(x, where, axes):
    """Returns `x` minus its maximum, and the exponentials of that."""
    x = to_array(x)
    if x.dtype == np.bool_:
        if where is None:
            raise TypeError(
                f"softmax and log_softmax take numbers, got bool[{','.join(map(str, x.shape))}]: convert "
                "it with `astype(float)`"
            )
    if not dtypes.issubdtype(x.dtype, np.inexact):
        # Differences of integers might wrap around.
        dtype = dtypes.to_inexact_dtype(x.dtype)
        x = x.astype(dtype if where is None else dtypes.default_float_dtype())
    largest = reductions.max(
        lax.stop_gradient(x), axes, keepdims=True, initial=-np.inf, where=where
    )
    shifted = (x if where is None else select_where(where, x, -np.inf)) - largest
    return shifted, ufuncs.exp(shifted)


def softmax_impl(x, where, *, axes):
    _, exps = _shifted(x, where, axes)
    out = exps / reductions.sum(exps, axes, keepdims=True, where=where)
    return out if where is None else select_where(where, out, 0)


_softmax = inline_jit(softmax_impl, static_argnames=("axes",))


@partial(custom_jvp, nondiff_argnums=(2,))
def _softmax_with_jvp(x, where, axes):
    return _softmax(x, where, axes=axes)


@_softmax_with_jvp.defjvp
def _softmax_jvp(axes, primals, tangents):
    (x, where), (t, _) = primals, tangents
    y = _softmax_with_jvp(x, where, axes)
    return y, y * (t - reductions.sum(y * t, axes, keepdims=True, where=where))


@export
@eager_jit("axis")
def log_softmax(x: ArrayLike, axis: Any = -1, where: ArrayLike | None = None) -> Array:
    """Logarithm of the softmax, accurate where the softmax is tiny.

    Args:
      x: array.
      axis: axis or axes to sum over; None for all.
      where: boolean mask: which elements to include; the others become -inf.

    Returns:
      Array of the shape of `x`.
    """
    (x,) = arraylike("log_softmax", x)
    return _log_softmax(x, where, axes=reductions.canonical_axes(listed_axes(axis), np.ndim(x)))


def _log_softmax_impl(x, where, *, axes):
    shifted, exps = _shifted(x, where, axes)
    out = shifted - ufuncs.log(reductions.sum(exps, axes, keepdims=True, where=where))
    return out if where is None else select_where(where, out, -np.inf)


_log_softmax_impl.__name__ = "log_softmax"
_log_softmax = nested_jit(_log_softmax_impl, static_argnames=("axes",))


@export
def standardize(
    x: ArrayLike,
    axis: Any = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """Standardizes x: subtracts its mean and divides by its standard deviation.

    Args:
      x: array.
      axis: axis or axes of the statistics; None for all.
      mean, variance: the statistics, if known.
      epsilon: added to the variance.
      where: boolean mask: which elements to include in the statistics.
      algorithm: how to compute the variance: 'fast' as mean(x ** 2) - mean(x) ** 2, which may
        suffer from cancellation, or 'stable' as mean((x - mean(x)) ** 2).

    Returns:
      Array of the shape of `x`.

    Raises:
      ValueError: if `algorithm` is unknown.
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"Unknown algorithm {algorithm!r}. Expected 'fast' or 'stable'.")
    x, epsilon = arraylike("standardize", x, epsilon)
    axes = reductions.canonical_axes(listed_axes(axis), np.ndim(x))
    return _standardize(x, mean, variance, epsilon, where, axes=axes, algorithm=algorithm)


def _standardize_impl(x, mean, variance, epsilon, where, *, axes, algorithm):
    if mean is None:
        mean = reductions.mean(x, axes, keepdims=True, where=where)
    if variance is None and algorithm == "fast":
        squares = reductions.mean(ufuncs.square(x), axes, keepdims=True, where=where)
        # Rounding must not make the variance negative.
        variance = clip(squares - ufuncs.square(mean), 0)
    elif variance is None:
        variance = reductions.mean(ufuncs.square(x - mean), axes, keepdims=True, where=where)
    return ufuncs.subtract(x, mean) * lax.rsqrt(ufuncs.add(variance, epsilon))


_standardize_impl.__name__ = "standardize"
_standardize = nested_jit(_standardize_impl, static_argnames=("axes", "algorithm"))


@export
def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Array:
    """Encodes indices as vectors that are one at the index and zero elsewhere.

    Args:
      x: array of indices; out-of-range ones give zeros.
      num_classes: size of the vectors.
      dtype: dtype of the result; by default the default float.
      axis: position of the new axis in the result; or the name of a mapped axis, along which the
        classes are distributed.

    Returns:
      Array with one more dimension than `x`; of the shape of `x` for a mapped axis.

    Raises:
      ValueError: if `axis` is out of range, or the mapped axis does not have size `num_classes`.

    >>> print(jax.nn.one_hot(jax.numpy.array([0, 2]), 3))
    [[1. 0. 0.]
     [0. 0. 1.]]
    """
    num_classes = core.concrete_or_error(
        core.canonicalize_dim,
        num_classes,
        "The error arose in jax.nn.one_hot argument `num_classes`.",
    )
    if isinstance(num_classes, int) and num_classes < 0:
        raise ValueError(f"one_hot: num_classes must not be negative, got {num_classes}")
    if dtype is None:
        dtype = dtypes.default_float_dtype()
    else:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "one_hot")
    x = to_array(x) if not isinstance(x, (list, tuple)) else to_array(np.asarray(x))
    if not dtypes.issubdtype(x.dtype, np.integer) and x.dtype != np.bool_:
        warnings.warn(
            f"one_hot: indices should be integers, got dtype {x.dtype}. Convert them, `x.astype(int)`.",
            DeprecationWarning,
            stacklevel=2,
        )
    if not isinstance(axis, (int, np.integer)):
        size = parallel.axis_size(axis)
        if num_classes != size:
            raise ValueError(
                f"Expected num_classes to match the size of axis {axis}, but {num_classes} != {size}"
            )
        return lax.convert_element_type(ufuncs.equal(x, parallel.axis_index(axis)), dtype)
    axis = canonicalize_axis(int(axis), x.ndim + 1)
    return _one_hot(x, num_classes=num_classes, dtype=dtype, axis=axis)


def _one_hot_impl(x, *, num_classes, dtype, axis):
    shape = [1] * (x.ndim + 1)
    shape[axis] = num_classes
    classes = lax.broadcasted_iota(x.dtype, tuple(shape), axis)
    return lax.convert_element_type(ufuncs.equal(lax.expand_dims(x, (axis,)), classes), dtype)


_one_hot_impl.__name__ = "_one_hot"
_one_hot = nested_jit(_one_hot_impl, static_argnames=("num_classes", "dtype", "axis"))
