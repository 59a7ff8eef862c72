"""Random inputs, shapes, dtypes and tolerances for tests."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.public_test_util import (
    _default_tolerance,
)
from jax._src.test_util.devices import supported_dtypes


class ScalarShape:
    """Stands for the shape of a 0-dimensional array that is passed as a scalar."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, i):
        raise IndexError(f"index {i} out of range.")


class _NumpyScalar(ScalarShape):
    pass


class _PythonScalar(ScalarShape):
    pass


NUMPY_SCALAR_SHAPE = _NumpyScalar()
PYTHON_SCALAR_SHAPE = _PythonScalar()


def _dims_of_shape(shape) -> Sequence[int]:
    """The dimensions of a shape, of one number, or of what stands for a scalar."""
    if isinstance(shape, ScalarShape):
        return ()
    return shape if isinstance(shape, (tuple, list)) else (shape,)


def _cast_to_shape(value: Any, shape, dtype) -> Any:
    """An array, a NumPy scalar or a Python scalar, according to `shape`."""
    if shape is NUMPY_SCALAR_SHAPE:
        return np.dtype(dtype).type(value)
    if shape is PYTHON_SCALAR_SHAPE:
        return np.asarray(value).item()
    expected = tuple(_dims_of_shape(shape))
    if np.shape(value) != expected:
        raise AssertionError(f"a value of shape {np.shape(value)} is no array of shape {expected}")
    return value


def _rand_dtype(rand: Callable, shape, dtype, scale=1.0, post=lambda x: x):
    def draw():
        return np.asarray(scale * rand(*_dims_of_shape(shape)))

    if dtypes.issubdtype(dtype, np.unsignedinteger):
        values = np.abs(draw())
    elif dtypes.issubdtype(dtype, np.complexfloating):
        values = draw() + 1j * draw()
    else:
        values = draw()
    values = np.asarray(post(np.asarray(values).astype(dtype)))
    return _cast_to_shape(values.astype(dtype), shape, dtype)


def rand_fullrange(rng, standardize_nans: bool = False):
    """Values with arbitrary bit patterns, of bytes other than 255, as the original draws them."""

    def rand(shape, dtype, post=lambda x: x):
        dtype = np.dtype(dtype)
        size = math.prod(_dims_of_shape(shape)) * dtype.itemsize
        vals = rng.randint(0, np.iinfo(np.uint8).max, size=size, dtype=np.uint8)
        vals = post(vals).view(dtype)
        if np.shape(vals) != tuple(_dims_of_shape(shape)):
            vals = vals.reshape(_dims_of_shape(shape))
        if standardize_nans and dtypes.issubdtype(dtype, np.floating):
            vals[np.isnan(vals)] = np.nan
        return _cast_to_shape(vals, shape, dtype)

    return rand


def rand_default(rng, scale: float = 3):
    """Normally distributed numbers times `scale`."""
    return functools.partial(_rand_dtype, rng.randn, scale=scale)


def rand_nonzero(rng):
    """Numbers that are not zero."""
    return functools.partial(
        _rand_dtype, rng.randn, scale=3, post=lambda x: np.where(x == 0, np.array(1, x.dtype), x)
    )


def rand_positive(rng):
    return functools.partial(_rand_dtype, rng.rand, scale=2, post=lambda x: x + 1)


def rand_small(rng):
    return functools.partial(_rand_dtype, rng.randn, scale=1e-3)


def rand_not_small(rng, offset: float = 10.0):
    return functools.partial(
        _rand_dtype,
        rng.randn,
        scale=3,
        post=lambda x: x + np.where(x > 0, offset, -offset).astype(x.dtype),
    )


def rand_small_positive(rng):
    return functools.partial(_rand_dtype, rng.rand, scale=2e-5)


def rand_uniform(rng, low: float = 0.0, high: float = 1.0):
    """Uniformly distributed numbers in [low, high)."""
    return functools.partial(_rand_dtype, rng.rand, post=lambda x: x * (high - low) + low)


def rand_int(rng, low: int = 0, high: int | None = None):
    """Integers in [low, high); without `high`, below the greatest of the dtype."""

    def rand(shape, dtype):
        is_integer = np.issubdtype(dtype, np.integer)  # NumPy's own, which it can draw
        top = high
        if top is None and low == 0:
            if not is_integer:
                raise ValueError(
                    "rand_int requires an explicit `high` value for non-integer types."
                )
            top = np.iinfo(dtype).max
        drawn = np.dtype(dtype) if is_integer else np.dtype(np.int64)
        values = rng.randint(low, high=top, size=tuple(_dims_of_shape(shape)), dtype=drawn)
        return np.asarray(values).astype(dtype)

    return rand


def rand_bool(rng):
    """Zeros and ones."""

    def rand(shape, dtype):
        values = np.asarray(rng.rand(*_dims_of_shape(shape)) < 0.5)
        return _cast_to_shape(values.astype(dtype), shape, dtype)

    return rand


def rand_some_equal(rng):
    """Numbers of which some are equal to each other."""

    def post(x):
        ravel = x.ravel()
        if ravel.size == 0:
            return x
        flips = np.asarray(rng.rand(*x.shape) < 0.5)
        return np.where(flips, ravel[0], x)

    return functools.partial(_rand_dtype, rng.randn, scale=100.0, post=post)


def _rand_with_values(rng, values, kind):
    """Normally distributed numbers, of which a tenth is each of `values` if the dtype is of a kind."""

    def randn_with_values(*shape):
        masks = [rng.rand(*shape) < 0.1 for _ in values]  # drawn first, like the original's
        return np.select(masks[::-1], values[::-1], rng.randn(*shape))

    def rand(shape, dtype):
        draw = randn_with_values if dtypes.issubdtype(dtype, kind) else rng.randn
        return _rand_dtype(draw, shape, dtype, scale=3)

    return rand


def rand_some_inf(rng):
    """Numbers of which some, if they are real, are infinite."""
    return _rand_with_values(rng, [np.inf, -np.inf], np.floating)


def rand_some_nan(rng):
    """Numbers of which some are NaN; a complex one alone is a NumPy scalar, like the original's."""
    draw = _rand_with_values(rng, [np.nan], np.inexact)

    def rand(shape, dtype):
        values = draw(shape, dtype)
        is_complex = dtypes.issubdtype(dtype, np.complexfloating)
        return values[()] if shape == () and is_complex else values

    return rand


def rand_some_inf_and_nan(rng):
    """Numbers of which some, if they are real, are infinite or NaN."""
    return _rand_with_values(rng, [np.inf, -np.inf, np.nan], np.floating)


def rand_some_zero(rng):
    """Numbers of which some are zero."""

    def rand(shape, dtype):
        zeros = rng.rand(*_dims_of_shape(shape)) < 0.5  # drawn first, like the original's
        return _rand_dtype(
            rng.randn, shape, dtype, 3, lambda x: np.where(zeros, np.array(0, x.dtype), x)
        )

    return rand


def rand_unique_int(rng, high: int | None = None):
    def rand(shape, dtype):
        n = math.prod(_dims_of_shape(shape))
        return np.asarray(
            rng.choice(
                np.arange(high or n, dtype=dtype), size=tuple(_dims_of_shape(shape)), replace=False
            )
        )

    return rand


def rand_indices_unique_along_axis(rng):
    """Indices, some of them negative, that are unique along an axis: `rand(dim, shape, axis)`."""

    def rand(dim, shape, axis):
        axis = axis + len(shape) if axis < 0 else axis
        other = [s for i, s in enumerate(shape) if i != axis]
        cols = [rng.choice(dim, shape[axis], replace=False) for _ in range(math.prod(other))]
        indices = np.moveaxis(np.reshape(cols, [*other, shape[axis]]), -1, axis)
        return indices - dim * rng.randint(0, 2, size=shape)  # some count from the end

    return rand


@functools.cache
def _format_shape_dtype_string(shape, dtype) -> str:
    name = dtype_str(dtype)
    if shape is NUMPY_SCALAR_SHAPE:
        return name
    if shape is PYTHON_SCALAR_SHAPE:
        return "py" + name
    if isinstance(shape, tuple):
        return f"{name}[{','.join(map(str, shape))}]"
    if isinstance(shape, int):
        return f"{name}[{shape},]"
    raise TypeError(type(shape))


def format_shape_dtype_string(shape, dtype) -> str:
    """`float32[2,3]`, for names of tests."""
    if isinstance(shape, np.ndarray):
        return f"{dtype_str(dtype)}[{shape}]"
    return _format_shape_dtype_string(tuple(shape) if isinstance(shape, list) else shape, dtype)


def dtype_str(dtype) -> str:
    return np.dtype(dtype).name


def join_tolerance(tol1: Any, tol2: Any) -> dict:
    """The larger of two tolerances, dtype by dtype; those not given are zero."""
    out = _normalize_tolerance(tol1)
    for dtype, tol in _normalize_tolerance(tol2).items():
        out[dtype] = max(tol, out.get(dtype, 0))
    return out


def _normalize_tolerance(tol: Any) -> dict:
    """A tolerance as a dictionary by dtype."""
    if isinstance(tol, dict):
        return {np.dtype(dtype): value for dtype, value in tol.items()}
    return dict.fromkeys(_default_tolerance, 0 if tol is None else tol)


class _LazyDtypes:
    """Lists of dtypes supported by the platform and the x64 mode: `dtypes.floating`, ..."""

    def supported(self, dtypes):
        return [d for d in dtypes if d in supported_dtypes()]

    @property
    def custom_floats(self):
        return self.supported([dtypes.bfloat16])

    @property
    def floating(self):
        return self.supported([np.float32, np.float64])

    @property
    def all_floating(self):
        return self.supported([dtypes.bfloat16, np.float16, np.float32, np.float64])

    @property
    def integer(self):
        return self.supported([np.int32, np.int64])

    @property
    def all_integer(self):
        return self.supported([np.int8, np.int16, np.int32, np.int64])

    @property
    def unsigned(self):
        return self.supported([np.uint32, np.uint64])

    @property
    def all_unsigned(self):
        return self.supported([np.uint8, np.uint16, np.uint32, np.uint64])

    @property
    def complex(self):
        return self.supported([np.complex64, np.complex128])

    @property
    def boolean(self):
        return self.supported([np.bool_])

    @property
    def inexact(self):
        return self.floating + self.complex

    @property
    def all_inexact(self):
        return self.all_floating + self.complex

    @property
    def numeric(self):
        return self.floating + self.integer + self.unsigned + self.complex

    @property
    def all(self):
        return (
            self.all_floating + self.all_integer + self.all_unsigned + self.complex + self.boolean
        )


dtypes_under_test = _LazyDtypes()
