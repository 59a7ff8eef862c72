"""Initializers: functions `init(key, shape, dtype)` that make the parameters of neural networks."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

import jax.numpy as jnp
from jax import random
from jax._src import core, dtypes
from jax._src.util import set_module


@set_module("jax.nn.initializers")
class Initializer(Protocol):
    """A function that makes an array of a shape and dtype from a key."""

    def __call__(self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None):
        raise NotImplementedError


def zeros(key, shape, dtype: Any = None, out_sharding: Any = None):
    """An initializer: zeros.

    >>> print(jax.nn.initializers.zeros(jax.random.key(0), (2,)))
    [0. 0.]
    """
    return jnp.zeros(shape, _canonical(dtype), out_sharding=out_sharding)


def ones(key, shape, dtype: Any = None, out_sharding: Any = None):
    """An initializer: ones.

    >>> print(jax.nn.initializers.ones(jax.random.key(0), (2,)))
    [1. 1.]
    """
    return jnp.ones(shape, _canonical(dtype), out_sharding=out_sharding)


def _canonical(dtype):
    return dtypes.default_float_dtype() if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """An initializer that gives `value`.

    Args:
      value: scalar, or array that broadcasts to the shape.
      dtype: default dtype.

    >>> print(jax.nn.initializers.constant(-7)(jax.random.key(0), (2,)))
    [-7. -7.]
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        return jnp.full(shape, value, dtype=_canonical(dtype), out_sharding=out_sharding)

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer of uniform numbers of [0, scale).

    Args:
      scale: upper bound.
      dtype: default dtype.
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _canonical(dtype)
        return random.uniform(key, shape, dtype, out_sharding=out_sharding) * jnp.array(scale, dtype)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """An initializer of normal numbers.

    Args:
      stddev: standard deviation.
      dtype: default dtype.
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _canonical(dtype)
        return random.normal(key, shape, dtype, out_sharding=out_sharding) * jnp.array(stddev, dtype)

    return init


def truncated_normal(stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """An initializer of truncated normal numbers.

    Args:
      stddev: standard deviation before truncation.
      dtype: default dtype.
      lower, upper: bounds, in standard deviations.
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _canonical(dtype)
        out = random.truncated_normal(key, lower, upper, shape, dtype, out_sharding=out_sharding)
        return out * jnp.array(stddev, dtype)

    return init


def _fans(shape, in_axis, out_axis, batch_axis) -> tuple[float, float]:
    """How many inputs and outputs a unit has."""
    if len(shape) <= 1:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor. Must be at "
            "least 2D."
        )

    def size(axes):
        return math.prod(shape[a] for a in (axes if isinstance(axes, Sequence) else (axes,)))

    in_size, out_size, batch_size = size(in_axis), size(out_axis), size(batch_axis)
    receptive_field = math.prod(shape) / in_size / out_size / batch_size
    return in_size * receptive_field, out_size * receptive_field


def _complex_uniform(key, shape, dtype):
    """Uniform numbers of the unit disk."""
    key_r, key_theta = random.split(key)
    real_dtype = np.array(0, dtype).real.dtype
    r = jnp.sqrt(random.uniform(key_r, shape, real_dtype)).astype(dtype)
    theta = (2 * jnp.pi * random.uniform(key_theta, shape, real_dtype)).astype(dtype)
    return r * jnp.exp(1j * theta)


def _complex_truncated_normal(key, upper, shape, dtype):
    """Normal numbers of a disk."""
    key_r, key_theta = random.split(key)
    real_dtype = np.array(0, dtype).real.dtype
    t = (1 - jnp.exp(jnp.array(-(upper**2), dtype))) * random.uniform(key_r, shape, real_dtype).astype(dtype)
    r = jnp.sqrt(-jnp.log(1 - t))
    theta = (2 * jnp.pi * random.uniform(key_theta, shape, real_dtype)).astype(dtype)
    return r * jnp.exp(1j * theta)


def variance_scaling(
    scale: Any, mode: str, distribution: str, in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (),
    dtype: Any = None,
) -> Initializer:  # fmt: skip
    """An initializer whose variance is `scale` over the number of inputs or outputs of a unit.

    Args:
      scale: positive factor.
      mode: 'fan_in', 'fan_out', 'fan_avg' or 'fan_geo_avg'.
      distribution: 'truncated_normal', 'normal' or 'uniform'.
      in_axis, out_axis: axis or axes of inputs and of outputs.
      batch_axis: axis or axes that are neither.
      dtype: default dtype.
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _canonical(dtype)
        shape = core.canonicalize_shape(shape)
        fan_in, fan_out = _fans(shape, in_axis, out_axis, batch_axis)
        if mode == "fan_in":
            denominator = fan_in
        elif mode == "fan_out":
            denominator = fan_out
        elif mode == "fan_avg":
            denominator = (fan_in + fan_out) / 2
        elif mode == "fan_geo_avg":
            denominator = (fan_in * fan_out) ** 0.5
        else:
            raise ValueError(f"invalid mode for variance scaling initializer: {mode}")
        variance = jnp.array(scale / denominator, dtype=dtype)
        if distribution == "normal":
            return random.normal(key, shape, dtype, out_sharding=out_sharding) * jnp.sqrt(variance)
        if distribution == "uniform":
            if dtypes.issubdtype(dtype, np.floating):
                out = random.uniform(key, shape, dtype, -1, out_sharding=out_sharding)
                return out * jnp.sqrt(3 * variance)
            return _complex_uniform(key, shape, dtype) * jnp.sqrt(variance)
        if distribution == "truncated_normal":
            if dtypes.issubdtype(dtype, np.floating):
                # The standard deviation of a normal number within two of them.
                stddev = jnp.sqrt(variance) / jnp.array(0.87962566103423978, dtype)
                out = random.truncated_normal(key, -2, 2, shape, dtype, out_sharding=out_sharding)
                return out * stddev
            stddev = jnp.sqrt(variance) / jnp.array(0.95311164380491208, dtype)
            return _complex_truncated_normal(key, 2, shape, dtype) * stddev
        raise ValueError(f"invalid distribution for variance scaling initializer: {distribution}")

    return init


def _scaled(name: str, scale: float, mode: str, distribution: str, source: str):
    def make(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = None) -> Initializer:
        return variance_scaling(
            scale, mode, distribution, in_axis=in_axis, out_axis=out_axis, batch_axis=batch_axis, dtype=dtype
        )

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""`variance_scaling({scale}, {mode!r}, {distribution!r})`. {source}.

    Args:
      in_axis, out_axis: axis or axes of inputs and of outputs.
      batch_axis: axis or axes that are neither.
      dtype: default dtype.

    >>> init = jax.nn.initializers.{name}()
    >>> init(jax.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return make


_GLOROT = "Glorot and Bengio, 2010"
_LECUN = "LeCun et al., 1998"
_HE = "He et al., 2015"
glorot_uniform = xavier_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform", _GLOROT)
glorot_normal = xavier_normal = _scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal", _GLOROT)
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", _LECUN)
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal", _LECUN)
he_uniform = kaiming_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", _HE)
he_normal = kaiming_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal", _HE)


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of orthogonal matrices times `scale`. Saxe, McClelland and Ganguli, 2013.

    Args:
      scale: factor.
      column_axis: axis of the columns; the others together are the rows.
      dtype: default dtype.
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _canonical(dtype)
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        n_rows, n_cols = math.prod(shape) // shape[column_axis], shape[column_axis]
        q = random.orthogonal(key, n_rows, (), dtype, n_cols)
        q = jnp.reshape(q, (*np.delete(shape, column_axis).tolist(), shape[column_axis]))
        return jnp.array(scale, dtype) * jnp.moveaxis(q, -1, column_axis)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of convolution kernels that are orthogonal at their center, zero elsewhere.

    Source: Xiao et al., 2018.

    Args:
      scale: factor.
      column_axis: axis of the columns of the orthogonal matrix.
      dtype: default dtype.
    """

    def init(key, shape, dtype=dtype, out_sharding=None):
        dtype = _canonical(dtype)
        if len(shape) not in (3, 4, 5):
            raise ValueError("Delta orthogonal initializer requires a 3D, 4D, or 5D shape.")
        if shape[-1] < shape[-2]:
            raise ValueError("`fan_in` must be less or equal than `fan_out`. ")
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        center = tuple((k - 1) // 2 for k in shape[:-2])
        return jnp.zeros(shape, dtype).at[center].set(matrix)

    return init
