"""NumPy functions as references, and inputs that cover the range of a dtype."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import jax
from jax._src import dtypes
from jax._src.test_util.values import PYTHON_SCALAR_SHAPE
from jax._src.tree_util import tree_map


def promote_like_jnp(fun: Callable, inexact: bool = False) -> Callable:
    """A function of NumPy arrays, with arguments promoted like those of jax.numpy functions.

    Args:
      fun: the function.
      inexact: whether integers are converted to floating point.
    """

    @functools.wraps(fun)
    def promoted(*args, **kwargs):
        flat, tree = jax.tree.flatten(args)
        dtype = dtypes.result_type(*flat)
        if inexact and not dtypes.issubdtype(dtype, np.inexact):
            dtype = dtypes.to_inexact_dtype(dtype)
        arrays = [np.asarray(x).astype(dtype) for x in flat]
        return fun(*jax.tree.unflatten(tree, arrays), **kwargs)

    return promoted


def to_default_dtype(arr: Any) -> np.ndarray:
    """Convert an array to JAX's default dtype of the same kind."""
    arr = np.asarray(arr)
    default = {
        "b": lambda: np.dtype(bool),
        "i": dtypes.default_int_dtype,
        "u": dtypes.default_uint_dtype,
        "f": dtypes.default_float_dtype,
        "c": dtypes.default_complex_dtype,
    }.get(arr.dtype.kind)
    return arr.astype(default()) if default else arr


def with_jax_dtype_defaults(func: Callable, use_defaults: Any = True) -> Callable:
    """`func` with results converted to JAX's default dtypes.

    Args:
      func: a NumPy function.
      use_defaults: whether to convert; or a tree of booleans like the result.
    """

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        result = func(*args, **kwargs)
        if isinstance(use_defaults, bool):
            return tree_map(to_default_dtype, result) if use_defaults else result
        return tree_map(lambda x, use: to_default_dtype(x) if use else x, result, use_defaults)

    return wrapped


def is_valid_shape(shape: Any, dtype: Any) -> bool:
    """Whether values of a dtype can have the shape: Python scalars have only some dtypes."""
    if shape is PYTHON_SCALAR_SHAPE:
        return np.dtype(dtype) == np.dtype(type(np.array(0, dtype).item()))
    return True


def num_float_bits(dtype: Any) -> int:
    """The number of bits of a floating-point dtype, or of the parts of a complex dtype."""
    return dtypes.finfo(dtypes.canonicalize_dtype(dtype)).bits


def complex_plane_sample(dtype: Any, size_re: int = 10, size_im: int | None = None) -> np.ndarray:
    """Complex numbers on a grid that includes zeros, infinities and the extremes of the dtype.

    Args:
      dtype: a complex dtype.
      size_re, size_im: the number of values of each sign along an axis; `size_im` defaults to
        `size_re`.

    Returns:
      An array of shape (3 + 2 * size_im, 3 + 2 * size_re).
    """
    dtype = np.dtype(dtype)
    if dtype.kind != "c":
        raise TypeError(f"complex_plane_sample takes a complex dtype, got {dtype}")
    part = np.finfo(dtype).dtype
    re, im = (_line(n, part) for n in (size_re, size_re if size_im is None else size_im))
    grid = np.empty((len(im), len(re)), dtype)
    grid.real, grid.imag = re[None, :], im[:, None]
    return grid


def _line(n: int, dtype: np.dtype) -> np.ndarray:
    """`n` numbers of each sign from the smallest to the largest, with zero and the infinities."""
    info = np.finfo(dtype)
    with np.errstate(over="ignore"):  # the last value may round up to infinity; it is replaced
        positive = np.logspace(np.log10(info.tiny), np.log10(info.max), n, dtype=dtype)
    if n:
        positive[-1] = info.max
        positive[0] = info.tiny
    inf = np.array([np.inf], dtype)
    zero = np.zeros(1, dtype)
    return np.concatenate([-inf, -positive[::-1], zero, positive, inf])
