"""Array creation: constants, ranges and grids."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.api import vmap
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.jit.library import Programs, nested_jit
from jax._src.lax import lax
from jax._src.lax.resharding import place
from jax._src.numpy import util
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.placing import placed, placed_constant
from jax._src.numpy.ufuncs_binary import power
from jax._src.numpy.ufuncs_unary import log10, sign
from jax._src.numpy.util import (
    check_arraylike,
    ensure_arraylike,
    export,
)
from jax._src.typing import ArrayLike, DTypeLike, DuckTypedArray
from jax._src.util import canonicalize_axis

# Constants


def canonicalize_shape(shape: Any, context: str = "") -> tuple:
    """Converts a size or a sequence of sizes to a shape.

    Raises:
      TypeError: if a size is not a static integer.
    """
    if type(shape) is tuple:
        for d in shape:
            if type(d) is not int:
                break
        else:
            return shape
    if isinstance(shape, (int, np.integer)) or core.is_symbolic_dim(shape):
        return core.canonicalize_shape((shape,), context)
    if getattr(shape, "ndim", None) == 0 or isinstance(shape, str):
        shape = (shape,)
    return core.canonicalize_shape(shape, context)


def user_dtype(dtype: Any, name: str) -> Any:
    if dtype is None:
        return dtypes.default_float_dtype()
    return dtypes.check_and_canonicalize_user_dtype(dtype, name)


@export
def zeros(
    shape: Any, dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Creates an array of zeros.

    Args:
      shape: a size or a sequence of sizes.
      dtype: dtype of the result; by default the default float.
      device: device or sharding of the result; None for the default device. In a traced function, a
        sharding over several devices is a constraint for the compiler; one device has no effect.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of the given shape and dtype.

    Raises:
      TypeError: if a size is negative or not a static integer.

    >>> jnp.zeros((2, 3), dtype=int).tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    return _filled("zeros", shape, 0, dtype, device, out_sharding)


@export
def ones(
    shape: Any, dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Creates an array of ones; takes the arguments of `zeros`.

    >>> jnp.ones(3)
    Array([1., 1., 1.], dtype=float32)
    """
    return _filled("ones", shape, 1, dtype, device, out_sharding)


@export
def empty(
    shape: Any, dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Creates an array of unspecified contents, which are zeros; takes the arguments of `zeros`.

    >>> jnp.empty((2, 3)).shape
    (2, 3)
    """
    return _filled("empty", shape, 0, dtype, device, out_sharding)


def _filled(name, shape, value, dtype, device, out_sharding):
    shape = canonicalize_shape(shape)
    dtype = user_dtype(dtype, name)
    if device is None and out_sharding is None:
        if isinstance(dtype, np.dtype) and _is_free():
            return _constants[shape, value, dtype]()
        return lax.full(shape, value, dtype)
    if device is not None and core.trace_ctx.trace is not core.eval_trace:
        return placed_constant(name, lax.full(shape, value, dtype), device, out_sharding)
    return lax.full(shape, value, dtype, sharding=util.placement(name, device, out_sharding))


def _constant_of(key: tuple[Any, int, Any]) -> Callable[[], Array]:
    shape, value, dtype = key

    def make():
        return lax.full(shape, value, dtype)

    make.__name__ = make.__qualname__ = "ones" if value else "zeros"
    make._apply_primitive = True  # type: ignore[attr-defined]  # as an operation
    return make


# Eager zeros and ones, by shape, value and dtype: the results of programs without operands.
_constants = Programs(_constant_of)


def _is_free() -> bool:
    """Whether eager constants may be made without a transfer: a guard of transfers is told of them as JAX does."""
    guard = config.transfer_guard_host_to_device.value
    return core.trace_ctx.trace is core.eval_trace and (guard is None or guard == "allow")


@export
def full(
    shape: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Creates an array with all elements equal to a value.

    Args:
      shape: a size or a sequence of sizes.
      fill_value: scalar, or an array that broadcasts to `shape`.
      dtype: dtype of the result; by default that of `fill_value`.
      device, out_sharding: as for `zeros`.

    Returns:
      An array of the given shape.

    Raises:
      TypeError: if `fill_value` is not an array, or a size is not a static integer.

    >>> jnp.full((2, 2), jnp.array([1, 2])).tolist()
    [[1, 2], [1, 2]]
    """
    check_arraylike("full", fill_value)
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "full")
    shape = canonicalize_shape(shape)
    if np.ndim(util.lower_jax_array(fill_value)) == 0:
        fill_value = util.lower_jax_array(fill_value)
        if device is not None and (
            core.trace_ctx.trace is not core.eval_trace or isinstance(fill_value, core.Tracer)
        ):
            out = lax.full(shape, fill_value, dtype)
            return placed_constant("full", out, device, out_sharding)
        sharding = util.placement("full", device, out_sharding)
        return lax.full(shape, fill_value, dtype, sharding=sharding)
    out = util.broadcast_to(asarray(fill_value, dtype=dtype), shape)
    return placed("full", out, device, out_sharding)


@export
def zeros_like(
    a: ArrayLike | DuckTypedArray,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Creates an array of zeros with the shape and dtype of another.

    Args:
      a: array, scalar, or any object with shape and dtype.
      dtype: dtype of the result; by default that of `a`.
      shape: shape of the result; by default that of `a`.
      device, out_sharding: as for `zeros`.

    Returns:
      An array of the shape and dtype of `a`, unless others are given.

    >>> jnp.zeros_like(jnp.arange(3))
    Array([0, 0, 0], dtype=int32)
    """
    return _filled_like("zeros_like", a, 0, dtype, shape, device, out_sharding)


@export
def ones_like(
    a: ArrayLike | DuckTypedArray,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Creates an array of ones with the shape and dtype of another; see `zeros_like`.

    >>> jnp.ones_like(jnp.arange(3))
    Array([1, 1, 1], dtype=int32)
    """
    return _filled_like("ones_like", a, 1, dtype, shape, device, out_sharding)


@export
def empty_like(
    prototype: ArrayLike | DuckTypedArray,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: Any = None,
) -> Array:
    """Creates an array of unspecified contents, which are zeros; see `zeros_like`.

    >>> jnp.empty_like(jnp.arange(3)).shape
    (3,)
    """
    return _filled_like("empty_like", prototype, 0, dtype, shape, device, None)


@export
def full_like(
    a: ArrayLike | DuckTypedArray,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Creates an array with the shape and dtype of another, filled with a value.

    Args:
      a: array, scalar, or any object with shape and dtype.
      fill_value: scalar, or an array that broadcasts to the shape.
      dtype, shape, device, out_sharding: as for `zeros_like`.

    Returns:
      An array of the shape and dtype of `a`, unless others are given.

    >>> jnp.full_like(jnp.arange(3), 7)
    Array([7, 7, 7], dtype=int32)
    """
    return _filled_like("full_like", a, fill_value, dtype, shape, device, out_sharding)


def _filled_like(name, a, value, dtype, shape, device, out_sharding):
    if (
        type(a) is ArrayImpl
        and dtype is None
        and shape is None
        and device is None
        and out_sharding is None
        and type(value) is int
        and 0 <= value <= 1
        and _is_free()
        and not (a.committed or a.weak_type)
        and isinstance(a.dtype, np.dtype)
    ):
        return _constants[a.shape, value, a.dtype]()
    if not (hasattr(a, "dtype") and hasattr(a, "shape")):
        check_arraylike(name, a)
        a = util.lower_jax_array(a)
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, name)
    if shape is not None:
        shape = canonicalize_shape(shape)
    if device is not None and core.trace_ctx.trace is not core.eval_trace:
        out = _filled_like(name, a, value, dtype, shape, None, None)
        place_now = placed if np.ndim(util.lower_jax_array(value)) else placed_constant
        return place_now(name, out, device, out_sharding)
    sharding = util.placement(name, device, out_sharding)
    if type(value) in (int, float, complex, bool):
        return lax.full_like(a, value, dtype, shape, sharding=sharding)
    if not util.is_arraylike(value):
        raise TypeError(
            f"{name} requires ndarray or scalar arguments, got {type(value)} at position 1."
        )
    value = util.lower_jax_array(value)
    if np.ndim(value) == 0:
        return lax.full_like(a, value, dtype, shape, sharding=sharding)
    out = util.broadcast_to(
        asarray(value, dtype=dtypes.dtype(a) if dtype is None else dtype),
        np.shape(a) if shape is None else shape,
    )
    return placed(name, out, device, out_sharding)


@export
def eye(
    N: int, M: int | None = None, k: Any = 0, dtype: DTypeLike | None = None, *, device: Any = None
) -> Array:
    """Creates a matrix with ones on a diagonal and zeros elsewhere.

    Args:
      N: number of rows.
      M: number of columns; None for N.
      k: which diagonal: positive for one above the main diagonal, negative below.
      dtype: dtype of the result; by default the default float.
      device: as for `zeros`.

    Returns:
      An array of shape `(N, M)`.

    Raises:
      ValueError: if a size is negative.

    >>> jnp.eye(2, 3, k=1, dtype=int).tolist()
    [[0, 1, 0], [0, 0, 1]]
    """
    dtype = user_dtype(dtype, "eye")
    rows = _size(N, "'N' argument of jnp.eye()")
    columns = rows if M is None else _size(M, "'M' argument of jnp.eye()")
    if _negative(rows) or _negative(columns):
        raise ValueError(f"negative dimensions are not allowed, got {N} and {M}")
    k = util.lower_jax_array(k)
    if isinstance(k, (int, np.integer)):
        offset = min(max(int(k), -(2**30)), 2**30)  # far outside of any matrix, and fits int32
        # Eager calls run one compiled program; when tracing, the operations are recorded directly.
        make = _eye_program if core.trace_ctx.trace is core.eval_trace else _eye
        out = make(rows=rows, columns=columns, offset=offset, dtype=dtype)
    else:
        if np.ndim(k) or not dtypes.issubdtype(dtypes.dtype(k), np.integer):
            raise TypeError(f"jnp.eye: the argument `k` must be an integer, got {k!r}")
        row = lax.broadcasted_iota(np.int32, (rows, columns), 0)
        column = lax.broadcasted_iota(np.int32, (rows, columns), 1)
        shifted = lax.add(row, lax.convert_element_type(k, np.int32))
        out = lax.convert_element_type(lax.eq(shifted, column), dtype)
    return placed("eye", out, device, None)


def _negative(d):
    return isinstance(d, int) and d < 0


def _size(n: Any, context: str) -> Any:
    return core.canonicalize_shape((n,), context)[0]


def _eye(*, rows, columns, offset, dtype):
    return lax.eye(dtype, (rows, columns), offset)


_eye.__name__ = "eye"
_eye_program = nested_jit(_eye, static_argnames=("rows", "columns", "offset", "dtype"))


@export
def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """Creates the identity matrix with `n` rows and columns; see `eye`.

    >>> jnp.identity(2, dtype=int).tolist()
    [[1, 0], [0, 1]]
    """
    return eye(_size(n, "'n' argument of jnp.identity()"), dtype=dtype)


# Ranges


@export
def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Creates a vector of evenly spaced numbers from `start` up to, but excluding, `stop`.

    Args:
      start: first number; if it is the only argument, it is `stop`, and the first number is 0.
      stop: end of the range.
      step: difference of adjacent numbers; by default 1. All three must be static.
      dtype: dtype of the result; by default the common dtype of the arguments.
      device, out_sharding: as for `zeros`.

    Returns:
      An array of shape `(n,)` with `n = max(0, ceil((stop - start) / step))`.

    Raises:
      ValueError: if an argument is complex or not a scalar.
      ConcretizationTypeError: if an argument is traced.

    >>> jnp.arange(1, 10, 3)
    Array([1, 4, 7], dtype=int32)
    """
    sharding = util.placement("arange", device, out_sharding)
    if sharding is not None and device is not None:
        return placed("arange", _arange(start, stop, step, dtype), sharding, None)
    return _arange(start, stop, step, dtype, sharding)


def _arange(start, stop, step, dtype, sharding=None):
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "arange")
    given = [("start", start), ("stop", stop), ("step", step)]
    if type(start) is int and stop is None and step is None:
        dtype = dtypes.default_int_dtype() if dtype is None else dtype
        return lax.broadcasted_iota(dtype, (max(start, 0),), 0, out_sharding=sharding)
    if stop is None and step is None:
        given = [("stop", start)]
    start, stop, step = _range_bounds(start, stop, step)
    for name, value in given:
        if np.ndim(value):
            raise ValueError(f"jax.numpy.arange: arguments must be scalars; got {name}={value}")
        if value is not None and dtypes.issubdtype(dtypes.dtype(value), np.complexfloating):
            raise ValueError(f"jax.numpy.arange does not take complex numbers, got {name}={value}.")
    if dtype is None:
        dtype = dtypes.result_type(*[v for v in (start, stop, step) if v is not None])
    if stop is None:
        return lax.broadcasted_iota(dtype, (_count(0, start, 1),), 0, out_sharding=sharding)
    if step is None:
        if core.is_symbolic_dim(start) or core.is_symbolic_dim(stop):
            size = core.max_dim(stop - start, 0)
        else:
            size = _count(start, stop, 1)
        out = lax.broadcasted_iota(dtype, (size,), 0, out_sharding=sharding)
        return out if type(start) is int and start == 0 else lax.add(_scalar(start, dtype), out)
    size = _count(start, stop, step)
    out = lax.broadcasted_iota(dtype, (size,), 0, out_sharding=sharding)
    return lax.add(_scalar(start, dtype), lax.mul(_scalar(step, dtype), out))


def _range_bounds(start, stop, step):
    if core.is_symbolic_dim(start) or core.is_symbolic_dim(stop) or core.is_symbolic_dim(step):
        return start, stop, step
    names = ("start", "stop", "step") if stop is not None or step is not None else ("stop", "", "")
    return tuple(
        None
        if value is None and (name != "stop" or step is None)
        else core.concrete_or_error(None, value, f"It arose in the jnp.arange argument '{name}'")
        for name, value in zip(names, (start, stop, step))
    )


def _count(start, stop, step):
    """Returns the number of elements of a range."""
    if core.is_symbolic_dim(start) or core.is_symbolic_dim(stop):
        up = step - 1 if core.definitely_greater(step, 0) else step + 1
        return core.max_dim((stop - start + up) // step, 0)
    start, stop, step = map(_host_number, (start, stop, step))
    if type(start) is type(stop) is type(step) is int:
        return max(0, -((start - stop) // step))
    return max(0, math.ceil((stop - start) / step))


def _host_number(v):
    if type(v) is int or type(v) is float:
        return v
    return int(v) if dtypes.issubdtype(dtypes.dtype(v), np.integer) else float(v)


def _scalar(value, dtype):
    if core.is_symbolic_dim(value):
        return lax.convert_element_type(value, dtype)
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


@export
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Creates evenly spaced numbers from `start` to `stop`.

    Args:
      start, stop: scalars, or arrays of bounds that broadcast.
      num: number of elements.
      endpoint: whether `stop` is the last element.
      retstep: whether to return the spacing as well.
      dtype: dtype of the result; by default floating point. With an integer dtype elements are
        rounded down.
      axis: axis of the result along which to place the numbers, if the bounds are arrays.
      device: as for `zeros`.

    Returns:
      An array, or `(array, spacing)`.

    Raises:
      ValueError: if `num` is negative.

    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "linspace")
    num = core.concrete_dim_or_error(operator.index, num, "'num' argument of jnp.linspace")
    axis = core.concrete_or_error(operator.index, axis, "'axis' argument of jnp.linspace")
    start, stop = util.arraylike("linspace", start, stop)
    out = _linspace(
        start,
        stop,
        num=num,
        endpoint=bool(endpoint),
        retstep=bool(retstep),
        dtype=dtype,
        axis=axis,
    )
    if device is None:
        return out
    return place(out, device, "jnp.linspace")


def _linspace_impl(start, stop, *, num, endpoint, retstep, dtype, axis):
    if core.definitely_greater(0, num):
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    if dtype is None:
        dtype = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    compute_dtype = _compute_dtype(dtype)
    start, stop = ensure_arraylike("linspace", start, stop)
    start = lax.convert_element_type(start, compute_dtype)
    stop = lax.convert_element_type(stop, compute_dtype)
    shape = list(lax.broadcast_shapes(start.shape, stop.shape))
    start, stop = util.broadcast_to(start, shape), util.broadcast_to(stop, shape)
    axis = canonicalize_axis(axis, len(shape) + 1) if len(shape) + 1 > 0 else axis
    with_axis = [*shape[:axis], 1, *shape[axis:]]
    div = num - 1 if endpoint else num
    if core.is_symbolic_dim(num) and not core.definitely_greater(num, 1):
        out, delta = _interpolated(start, stop, num, div, endpoint, axis)
    elif core.definitely_greater(num, 1):
        delta = lax.div(lax.sub(stop, start), _scalar(div, compute_dtype))
        iota_shape = [1] * len(with_axis)
        iota_shape[axis] = div
        real_dtype = dtypes.finfo(compute_dtype).dtype
        step = lax.reshape(lax.iota(real_dtype, div), iota_shape)
        step = lax.convert_element_type(lax.div(step, _scalar(div, real_dtype)), compute_dtype)
        first = lax.reshape(start, with_axis)
        last = lax.reshape(stop, with_axis)
        # Interpolate between the bounds instead of adding up steps, so that rounding errors do not
        # grow.
        out = lax.add(lax.mul(first, lax.sub(lax.one(step), step)), lax.mul(last, step))
        if endpoint:
            out = lax.concatenate([out, lax.expand_dims(stop, (axis,))], axis)
    elif num == 1:
        # NumPy's spacing of a single element: NaN, or without `endpoint` the whole interval.
        delta = lax.full(shape, np.nan, compute_dtype) if endpoint else lax.sub(stop, start)
        out = lax.reshape(start, with_axis)
    else:
        with_axis[axis] = 0
        delta = lax.full(shape, np.nan, compute_dtype)
        out = lax.full(with_axis, 0, compute_dtype)
    if dtypes.issubdtype(dtype, np.integer) and not dtypes.issubdtype(out.dtype, np.integer):
        out = lax.floor(out)
    out = lax.convert_element_type(out, dtype)
    return (out, delta) if retstep else out


def _interpolated(start, stop, num, div, endpoint, axis):
    """The elements of `linspace` and their spacing, for a size that may turn out to be 0 or 1."""
    dtype, real_dtype = start.dtype, dtypes.finfo(start.dtype).dtype
    div = core.max_dim(div, 1)
    step = lax.div(lax.iota(real_dtype, num), _scalar(div, real_dtype))
    shape = (*start.shape[:axis], num, *start.shape[axis:])
    step = lax.broadcast_in_dim(lax.convert_element_type(step, dtype), shape, (axis,))
    kept = [d for d in range(len(shape)) if d != axis]
    first, last = (lax.broadcast_in_dim(x, shape, kept) for x in (start, stop))
    out = lax.add(lax.mul(first, lax.sub(lax.one(step), step)), lax.mul(last, step))
    if endpoint:
        out = lax.select(lax.eq(step, lax.one(step)), last, out)
    delta = lax.div(lax.sub(stop, start), _scalar(div, dtype))
    several = lax.gt(_scalar(num, real_dtype), np.array(1 if endpoint else 0, real_dtype))
    return out, util.select_where(several, delta, lax.full_like(delta, np.nan))


def _compute_dtype(dtype):
    """Returns the inexact dtype in which to compute numbers that are then converted to `dtype`."""
    return dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(dtype))


_linspace_impl.__name__ = "_linspace"
_linspace = nested_jit(
    _linspace_impl, static_argnames=("num", "endpoint", "retstep", "dtype", "axis")
)


@export
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Creates numbers of constant ratio from `base ** start` to `base ** stop`.

    Args:
      start, stop: scalars, or arrays of exponents that broadcast.
      base: scalar or array.
      num, endpoint, dtype, axis: as for `linspace`.

    Returns:
      An array of the broadcast shape of the bounds, with an axis of size `num` inserted.

    >>> jnp.logspace(0, 3, 4, base=2)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    num = core.concrete_dim_or_error(operator.index, num, "'num' argument of jnp.logspace")
    axis = core.concrete_or_error(operator.index, axis, "'axis' argument of jnp.logspace")
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "logspace")
    check_arraylike("logspace", start, stop, base)
    return _logspace(start, stop, base, num=num, endpoint=bool(endpoint), dtype=dtype, axis=axis)


def _logspace_impl(start, stop, base, *, num, endpoint, dtype, axis):
    if dtype is None:
        dtype = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    compute_dtype = _compute_dtype(dtype)
    start, stop, base = ensure_arraylike("logspace", start, stop, base)
    start = lax.convert_element_type(start, compute_dtype)
    stop = lax.convert_element_type(stop, compute_dtype)
    exponents = linspace(start, stop, num, endpoint=endpoint, retstep=False, dtype=None, axis=axis)
    return lax.convert_element_type(power(base, exponents), dtype)


_logspace_impl.__name__ = "_logspace"
_logspace = nested_jit(_logspace_impl, static_argnames=("num", "endpoint", "dtype", "axis"))


@export
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Creates numbers of constant ratio from `start` to `stop`.

    Args:
      start, stop: scalars, or arrays of bounds that broadcast; of the same sign.
      num, endpoint, dtype, axis: as for `linspace`.

    Returns:
      An array of the broadcast shape of the bounds, with an axis of size `num` inserted.

    >>> jnp.geomspace(1, 8, 4)
    Array([1.       , 2.       , 4.0000005, 8.       ], dtype=float32)
    """
    num = core.concrete_dim_or_error(operator.index, num, "'num' argument of jnp.geomspace")
    axis = core.concrete_or_error(operator.index, axis, "'axis' argument of jnp.geomspace")
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "geomspace")
    check_arraylike("geomspace", start, stop)
    return _geomspace(start, stop, num=num, endpoint=bool(endpoint), dtype=dtype, axis=axis)


def _geomspace_impl(start, stop, *, num, endpoint, dtype, axis):
    if dtype is None:
        dtype = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    compute_dtype = _compute_dtype(dtype)
    start, stop = ensure_arraylike("geomspace", start, stop)
    start = lax.convert_element_type(start, compute_dtype)
    stop = lax.convert_element_type(stop, compute_dtype)
    # Divide both bounds by the sign (or phase) of the first, which makes it positive and real.
    turn = sign(start)
    exponents = _logspace(
        log10(_divide(start, turn)),
        log10(_divide(stop, turn)),
        10.0,
        num=num,
        endpoint=endpoint,
        dtype=compute_dtype,
        axis=0,
    )
    out = lax.mul(*util.promote_shapes("geomspace", turn, exponents))
    # Use the exact bounds in place of the rounded ones.
    place = lax.broadcasted_iota(np.int32, out.shape, 0)
    for bound, k in ((stop, num - 1), (start, 0)) if endpoint else ((start, 0),):
        bound = lax.broadcast_in_dim(bound, out.shape, _trailing(bound, out))
        out = lax.select(lax.eq(place, lax.full_like(place, k)), bound, out)
    if axis != 0:
        axis = canonicalize_axis(axis, out.ndim)
        out = lax.transpose(out, [*range(1, axis + 1), 0, *range(axis + 1, out.ndim)])
    return lax.convert_element_type(out, dtype)


def _divide(x, y):
    return lax.div(*util.promote_shapes("geomspace", x, y))


def _trailing(x, out):
    return tuple(range(out.ndim - x.ndim, out.ndim))


_geomspace_impl.__name__ = "_geomspace"
_geomspace = nested_jit(_geomspace_impl, static_argnames=("num", "endpoint", "dtype", "axis"))


# Grids


@export
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Creates coordinate arrays of a grid from the coordinates along each axis.

    Args:
      *xi: one-dimensional arrays.
      copy: must be True, since there are no views.
      sparse: whether each result has size 1 along the axes on which it does not depend.
      indexing: "ij" if axis i belongs to argument i; "xy" if the first two axes are exchanged.

    Returns:
      A list with one array for each argument.

    Raises:
      ValueError: if an option is invalid, or an argument is not one-dimensional.

    >>> [x.tolist() for x in jnp.meshgrid(jnp.array([1, 2]), jnp.array([3, 4]))]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    args = list(util.ensure_arraylike_tuple("meshgrid", xi))
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    if any(a.ndim != 1 for a in args):
        raise ValueError(
            f"Arguments to jax.numpy.meshgrid must be 1D, got shapes {[a.shape for a in args]}"
        )
    swap = indexing == "xy" and len(args) >= 2
    if swap:
        args[0], args[1] = args[1], args[0]
    shape = [1 if sparse else a.shape[0] for a in args]
    out = [
        lax.broadcast_in_dim(a, (*shape[:i], a.shape[0], *shape[i + 1 :]), (i,))
        for i, a in enumerate(args)
    ]
    if swap:
        out[0], out[1] = out[1], out[0]
    return out


@export
def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """Returns the index of each element of an array along each dimension.

    Args:
      dimensions: shape of the array.
      dtype: dtype of the result; by default the default integer.
      sparse: whether to return a tuple of arrays that broadcast against each other instead.

    Returns:
      An array of shape `(len(dimensions), *dimensions)`.

    >>> jnp.indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    dtype = dtypes.check_and_canonicalize_user_dtype(int if dtype is None else dtype, "indices")
    dimensions = core.canonicalize_shape(dimensions, "`dimensions` argument of jnp.indices")
    n = len(dimensions)
    out = []
    for i, size in enumerate(dimensions):
        index = lax.iota(dtype, size)
        shape = [1] * n if sparse else list(dimensions)
        shape[i] = size
        out.append(lax.broadcast_in_dim(index, shape, (i,)))
    if sparse:
        return tuple(out)
    return lax.stack(out) if out else lax.full((0,), 0, dtype)


@export
def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: DTypeLike = float, **kwargs: Any
) -> Any:
    """Creates an array from a function of its indices.

    Args:
      function: function of one scalar index per dimension; it is vectorized.
      shape: shape of the array.
      dtype: dtype of the indices.
      **kwargs: keyword arguments of the function.

    Returns:
      The results of `function`, with `shape` as leading dimensions.

    Differs from NumPy, which calls the function once, with arrays.

    >>> jnp.fromfunction(lambda i, j: 10 * i + j, (2, 2), dtype=int).tolist()
    [[0, 1], [10, 11]]
    """
    shape = core.canonicalize_shape(shape, context="shape argument of jnp.fromfunction()")
    for i in range(len(shape)):
        in_axes = [0 if i == j else None for j in range(len(shape))]
        function = vmap(function, in_axes=tuple(in_axes[::-1]))
    return function(*[arange(s, dtype=dtype) for s in shape], **kwargs)
