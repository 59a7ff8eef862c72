"""Initializers: functions `(key, shape, dtype, out_sharding) -> array` for initial parameters."""

import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from jax._src import dtypes
from jax._src.lax import lax
from jax._src.lax.resharding import bind_reshard
from jax._src.numpy import array_constructors
from jax._src.numpy.util import broadcast_to
from jax._src.random import continuous, keys, uniform as uniform_numbers
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.typing import Array, ArrayLike


@runtime_checkable
class Initializer(Protocol):
    """A function that makes an array from a key, a shape, and optionally a dtype and a sharding."""

    def __call__(self, key, shape, dtype=None, out_sharding=None) -> Array: ...


def _dtype_of(dtype: Any, default: Any = None) -> np.dtype:
    """Returns the given dtype, or the initializer's default, or the default float."""
    if dtype is None:
        dtype = default
    if dtype is None:
        return dtypes.default_float_dtype()
    return dtypes.check_and_canonicalize_user_dtype(dtype, "initializer")


def zeros(key, shape, dtype: Any = None, out_sharding=None) -> Array:
    """Makes an array of zeros; the key is not used.

    >>> jax.nn.initializers.zeros(None, (2,))
    Array([0., 0.], dtype=float32)
    """
    return _filled(0, shape, _dtype_of(dtype), out_sharding)


def ones(key, shape, dtype: Any = None, out_sharding=None) -> Array:
    """Makes an array of ones; the key is not used."""
    return _filled(1, shape, _dtype_of(dtype), out_sharding)


def _filled(value, shape, dtype, out_sharding):
    if out_sharding is None:
        return lax.full(uniform_numbers.shape_of("initializer", shape), value, dtype)
    return _placed("initializer", _filled(value, shape, dtype, None), out_sharding)


def _placed(name: str, x: Any, out_sharding: Any) -> Any:
    return x if out_sharding is None else bind_reshard(x, canonicalize_sharding(out_sharding, name))


def constant(value: ArrayLike, dtype: Any = None) -> Initializer:
    """Returns an initializer that fills arrays with a constant.

    Args:
      value: scalar, or array that broadcasts to the shape.
      dtype: default dtype of the arrays.

    >>> jax.nn.initializers.constant(-7)(None, (2,))
    Array([-7., -7.], dtype=float32)
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        x = array_constructors.asarray(value, dtype=_dtype_of(dtype))
        return _placed("constant", broadcast_to(x, shape), out_sharding)

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Returns an initializer that samples uniformly from [0, scale).

    Args:
      scale: upper bound.
      dtype: default dtype of the arrays.

    >>> jax.nn.initializers.uniform(10.0)(jax.random.key(42), (2,)).shape
    (2,)
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _dtype_of(dtype)
        x = uniform_numbers.uniform(key, shape, dtype, out_sharding=out_sharding)
        return lax.mul(x, _scalar(scale, dtype))

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Returns an initializer that samples from a normal distribution with zero mean.

    Args:
      stddev: standard deviation.
      dtype: default dtype of the arrays.
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _dtype_of(dtype)
        x = continuous.normal(key, shape, dtype, out_sharding=out_sharding)
        return lax.mul(x, _scalar(stddev, dtype))

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """Returns an initializer that samples from a truncated normal distribution with zero mean.

    Args:
      stddev: standard deviation before truncation.
      dtype: default dtype of the arrays.
      lower, upper: bounds, in units of `stddev`.
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _dtype_of(dtype)
        shape = uniform_numbers.shape_of("truncated_normal", shape)
        x = continuous.truncated_normal(key, lower, upper, shape, dtype, out_sharding=out_sharding)
        return lax.mul(x, _scalar(stddev, dtype))

    return init


def _scalar(x: Any, dtype: np.dtype) -> Any:
    if isinstance(x, (int, float)):
        return np.array(x, dtype)
    return lax.convert_element_type(x, dtype)


# Initializers scaled by the numbers of inputs and outputs

_Axes = int | Sequence[int]


def _axis_size(shape: tuple[int, ...], axes: _Axes) -> int:
    if isinstance(axes, int):
        return shape[axes]
    return math.prod([shape[a] for a in axes])


def _fans(shape, in_axis: _Axes, out_axis: _Axes, batch_axis: _Axes) -> tuple[float, float]:
    if len(shape) <= 1:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor with "
            "default in_axis. Must be at least 2D or specify in_axis explicitly."
        )
    in_size, out_size = _axis_size(shape, in_axis), _axis_size(shape, out_axis)
    receptive = math.prod(shape) / in_size / out_size / _axis_size(shape, batch_axis)
    return in_size * receptive, out_size * receptive


def variance_scaling(
    scale: Any,
    mode: Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"],
    distribution: Literal["truncated_normal", "normal", "uniform"],
    in_axis: _Axes = -2,
    out_axis: _Axes = -1,
    batch_axis: _Axes = (),
    dtype: Any = None,
) -> Initializer:
    """Returns an initializer whose samples have variance `scale / n`, where n depends on `mode`.

    Args:
      scale: factor of the variance.
      mode: n: 'fan_in' for the number of inputs of a unit, 'fan_out' for that of outputs, 'fan_avg'
        for their mean, 'fan_geo_avg' for their geometric mean.
      distribution: 'truncated_normal' (at two standard deviations), 'normal' or 'uniform'.
      in_axis, out_axis: axis or axes of inputs and outputs. Axes that are none of these three are
        the receptive field, which multiplies both numbers.
      batch_axis: axis or axes to ignore.
      dtype: default dtype of the arrays, floating-point or complex.

    Raises:
      ValueError: if `mode` or `distribution` is unknown, or the shape has fewer than two
        dimensions.
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _dtype_of(dtype)
        shape = uniform_numbers.shape_of("initializer", shape)
        if in_axis == -2 and len(shape) <= 1:
            raise ValueError(
                f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor "
                "with default in_axis. Must be at least 2D or specify in_axis explicitly."
            )
        fan_in, fan_out = _fans(shape, in_axis, out_axis, batch_axis)
        if mode == "fan_in":
            fan = fan_in
        elif mode == "fan_out":
            fan = fan_out
        elif mode == "fan_avg":
            fan = (fan_in + fan_out) / 2
        elif mode == "fan_geo_avg":
            fan = (fan_in * fan_out) ** 0.5
        else:
            raise ValueError(f"invalid mode for variance scaling initializer: {mode}")
        if distribution not in _DRAWS:
            raise ValueError(
                f"invalid distribution for variance scaling initializer: {distribution}"
            )
        if not dtypes.issubdtype(dtype, np.inexact):
            raise ValueError(
                "variance scaling initializers need a float or complex dtype, got "
                f"{dtypes.dtype_name(dtype)}"
            )
        variance = _scalar(scale / fan, dtype)
        is_complex = dtypes.issubdtype(dtype, np.complexfloating)
        draw, root = _DRAWS[distribution][is_complex]
        return draw(key, shape, dtype, out_sharding) * root(variance)

    return init


def _complex_uniform(key, shape, dtype, out_sharding):
    """Samples uniformly from the unit disk, scaled to unit variance."""
    real_dtype = np.array(0, dtype).real.dtype
    key_r, key_theta = keys.split(key)
    r = lax.sqrt(2 * uniform_numbers.uniform(key_r, shape, real_dtype, out_sharding=out_sharding))
    return lax.convert_element_type(r, dtype) * _phase(key_theta, shape, dtype, out_sharding)


def _phase(key, shape, dtype, out_sharding):
    real_dtype = np.array(0, dtype).real.dtype
    u = uniform_numbers.uniform(key, shape, real_dtype, out_sharding=out_sharding)
    theta = np.array(2 * np.pi, dtype) * lax.convert_element_type(u, dtype)
    return lax.exp(np.array(1j, dtype) * theta)


def _complex_truncated_normal(key, shape, dtype, out_sharding):
    """Samples complex normal numbers of magnitude less than two."""
    real_dtype = np.array(0, dtype).real.dtype
    key_r, key_theta = keys.split(key)
    u = uniform_numbers.uniform(key_r, shape, real_dtype, out_sharding=out_sharding)
    # The magnitude has a Rayleigh distribution; `inside` is the probability that it is less than
    # two.
    inside = 1 - lax.exp(np.array(-4, dtype))
    r = lax.sqrt(-lax.log(1 - inside * lax.convert_element_type(u, dtype)))
    return r * _phase(key_theta, shape, dtype, out_sharding)


def _real_uniform(key, shape, dtype, out_sharding):
    return uniform_numbers.uniform(key, shape, dtype, -1, out_sharding=out_sharding)


def _real_truncated_normal(key, shape, dtype, out_sharding):
    return continuous.truncated_normal(key, -2, 2, shape, dtype, out_sharding=out_sharding)


def _normal(key, shape, dtype, out_sharding):
    return continuous.normal(key, shape, dtype, out_sharding=out_sharding)


def _untruncated(stddev: float):
    """Compensates for truncation, after which the standard deviation is `stddev`."""
    return lambda variance: _sqrt(variance) / np.array(stddev, variance.dtype)


def _sqrt(x):
    return np.sqrt(x) if isinstance(x, np.ndarray) else lax.sqrt(x)


_uniform_bound = lambda variance: _sqrt(np.array(3, variance.dtype) * variance)
# For each distribution: samplers of real and of complex numbers, each with the factor for a
# variance.
_DRAWS = {
    "truncated_normal": (
        (_real_truncated_normal, _untruncated(0.87962566103423978)),
        (_complex_truncated_normal, _untruncated(0.95311164380491208)),
    ),
    "normal": ((_normal, _sqrt), (_normal, _sqrt)),
    "uniform": ((_real_uniform, _uniform_bound), (_complex_uniform, _sqrt)),
}


def glorot_uniform(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: Any = None
) -> Initializer:
    """Samples uniformly with variance 1 / mean(fan_in, fan_out); see `variance_scaling`."""
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: Any = None
) -> Initializer:
    """Samples truncated normals with variance 1 / mean(fan_in, fan_out); see `variance_scaling`."""
    return variance_scaling(
        1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


def lecun_uniform(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: Any = None
) -> Initializer:
    """Samples uniformly with variance 1 / fan_in; see `variance_scaling`."""
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: Any = None
) -> Initializer:
    """Samples a truncated normal with variance 1 / fan_in; see `variance_scaling`."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: Any = None
) -> Initializer:
    """Samples uniformly with variance 2 / fan_in; see `variance_scaling`."""
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: Any = None
) -> Initializer:
    """Samples a truncated normal with variance 2 / fan_in; see `variance_scaling`."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal


# Orthogonal initializers


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Returns an initializer that samples uniformly from orthogonal matrices.

    Args:
      scale: factor of the matrices.
      column_axis: axis of the columns; the other axes together form the rows. The columns are
        orthonormal, or the rows if they are fewer.
      dtype: default dtype of the arrays.

    Raises:
      ValueError: if the shape has fewer than two dimensions.
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _dtype_of(dtype)
        shape = tuple(shape)
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        axis = column_axis % len(shape)
        n_cols = shape[axis]
        rest = (*shape[:axis], *shape[axis + 1 :])
        n_rows = math.prod(rest)
        q = continuous.orthogonal(key, n_rows, (), dtype, n_cols)
        q = lax.reshape(q, (*rest, n_cols))
        last = len(shape) - 1
        order = (*range(axis), last, *range(axis, last))
        q = lax.mul(_scalar(scale, dtype), lax.transpose(q, order))
        return _placed("orthogonal", q, out_sharding)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Returns an initializer of convolution kernels with an orthogonal matrix at the center.

    All other elements are zero.

    Args:
      scale: factor of the matrix.
      column_axis: as for `orthogonal`, which makes the matrix of the last two axes.
      dtype: default dtype of the arrays.

    Raises:
      ValueError: if the shape does not have 3 to 5 dimensions, or has more inputs than outputs.
    """
    init_matrix = orthogonal(scale, column_axis, dtype)

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _dtype_of(dtype)
        shape = tuple(shape)
        if len(shape) not in (3, 4, 5):
            raise ValueError("Delta orthogonal initializer requires a 3D, 4D or 5D shape.")
        if shape[-1] < shape[-2]:
            raise ValueError(
                f"delta_orthogonal: fan_in (shape[-2]) must be at most fan_out (shape[-1]), got {shape}"
            )
        matrix = init_matrix(key, shape[-2:], dtype)
        middle = tuple([(k - 1) // 2 for k in shape[:-2]])
        kernel = lax.full(shape, 0, dtype).at[middle].set(matrix)
        return _placed("delta_orthogonal", kernel, out_sharding)

    return init
