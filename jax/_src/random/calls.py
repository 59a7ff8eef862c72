"""Helpers of the functions of `jax.random`: checks of their arguments, and their compilation."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.core import typeof
from jax._src.jit.library import nested_jit
from jax._src.lax.resharding import bind_reshard
from jax._src.lax.utils import broadcast_shapes
from jax._src.numpy.util import check_arraylike
from jax._src.random.keys import check_prng_key
from jax._src.random.prng import PRNGKeyArray
from jax._src.sharding_impls import canonicalize_sharding, sharding_of_shape


def keyed_jit(fun: Callable, static_argnames: tuple[str, ...] = ()) -> Callable:
    """Compile `fun(key, *arrays, **static)`.

    Args:
      fun: function of a key, arrays, and keyword-only static arguments.
      static_argnames: names of the static arguments.

    Returns:
      `call(name, key, *arrays, out_sharding=None, **static)`, where `name` is the public function,
      for error messages, and `key` is typed or raw.
    """
    jitted = nested_jit(fun, static_argnames=static_argnames)

    def call(name: str, key, *args, out_sharding: Any = None, **static):
        if type(key) is not PRNGKeyArray or key._base_array.ndim != key._rank:
            key, _ = check_prng_key(name, key)
        if out_sharding is None:
            return jitted(key, *args, **static)
        return with_sharding(name, lambda k: jitted(k, *args, **static), key, out_sharding)

    return call


def with_sharding(name: str, fun: Callable, key, out_sharding: Any):
    """Call `fun(key)` and reshard the result as the caller of the public function `name` asks."""
    if out_sharding is None:
        return fun(key)
    sharding = canonicalize_sharding(out_sharding, name)
    out = fun(key)
    return bind_reshard(out, sharding_of_shape(sharding, out.shape))


def shape_of(name: str, shape: Any) -> tuple[int, ...]:
    """Convert `shape` to a tuple; an int means one dimension."""
    if type(shape) is tuple:
        for d in shape:
            if type(d) is not int or d < 0:
                break
        else:
            return shape
    elif np.ndim(shape) == 0 and not isinstance(shape, (list, tuple)):
        shape = tuple(shape) if isinstance(shape, Iterator) else (shape,)
    shape = core.canonicalize_shape(shape)
    for d in shape:
        if isinstance(d, int) and d < 0:
            raise TypeError(f"{name}: shape must not have negative sizes, got {shape}")
    return shape


def param_shape(name: str, shape: Any, *params: Any) -> tuple[int, ...]:
    """Return the result's shape: `shape`, or by default the parameters' broadcast shape.

    Raises:
      ValueError: if the parameters do not broadcast to exactly `shape`.
    """
    shapes = [np.shape(p) for p in params]
    if shape is None:
        return broadcast_shapes(*shapes)
    shape = shape_of(name, shape)
    for s in shapes:
        if s:
            check_broadcast(name, shape, *shapes)
            break
    return shape


def check_params(name: str, dtype: np.dtype, *params: Any) -> None:
    """Check that the parameters are arrays or scalars that promote to `dtype`.

    Raises:
      TypeError: if one is not an array.
      TypePromotionError: if the promotion of one with `dtype` is another dtype.
    """
    check_arraylike(name, *params)
    for x in params:
        if type(x) is not float and dtypes.lattice_result_type(dtype, x)[0] != dtype:
            raise dtypes.TypePromotionError(
                f"In arguments to {name}, cannot safely cast argument of type "
                f"{dtypes.dtype_name(typeof(x).dtype)} to {dtypes.dtype_name(dtype)}: give another dtype, "
                "or convert the argument"
            )


def check_broadcast(name: str, shape: tuple[int, ...], *param_shapes: tuple[int, ...]) -> None:
    """Raise ValueError unless the parameters broadcast to exactly `shape`."""
    full = broadcast_shapes(shape, *param_shapes)
    if full != tuple(shape):
        raise ValueError(
            f"{name} parameter shapes must be broadcast-compatible with shape argument, and the result "
            f"of broadcasting the shapes must equal the shape argument, but got result {full} for shape "
            f"argument {shape}."
        )


def float_dtype(name: str, dtype: Any) -> np.dtype:
    """Check that `dtype` is real floating; None means the default float dtype."""
    if dtype is None:
        return dtypes.default_float_dtype()
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, name)
    if not dtypes.issubdtype(dtype, np.floating):
        raise ValueError(
            f"dtype argument to `{name}` must be a float dtype, got {dtypes.dtype_name(dtype)}"
        )
    return dtype


def inexact_dtype(name: str, dtype: Any) -> np.dtype:
    """Check that `dtype` is floating or complex; None means the default float dtype."""
    if dtype is None:
        return dtypes.default_float_dtype()
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, name)
    if not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(
            f"dtype argument to `{name}` must be a float or complex dtype, got {dtypes.dtype_name(dtype)}"
        )
    return dtype


def any_dtype(name: str, dtype: Any, default: Any) -> np.dtype:
    """Canonicalize `dtype`, or `default` if it is None."""
    return dtypes.check_and_canonicalize_user_dtype(default if dtype is None else dtype, name)
