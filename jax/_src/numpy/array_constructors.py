"""Array constructors: `array`, `asarray`, and conversion from buffers, strings and DLPack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import config, dlpack, dtypes, special_values
from jax._src.abstract_arrays import is_masked_array
from jax._src.array import array_from_numpy
from jax._src.basearray import Array
from jax._src.core import trace_ctx
from jax._src.device_put.functions import device_put
from jax._src.interpreters.partial_eval import DynamicJaxprTrace
from jax._src.jit.library import inline_jit
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.lax.resharding import place
from jax._src.named_sharding import NamedSharding
from jax._src.numpy import util
from jax._src.numpy.util import export, lower_jax_array, user_warning
from jax._src.partition_spec import PartitionSpec
from jax._src.typing import DTypeLike

_NUMBERS = frozenset({bool, int, float, complex})


@export
def array(
    object: Any,
    dtype: DTypeLike | None = None,
    *args: Any,
    copy: bool | None = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Creates an array from numbers, nested sequences, a NumPy array or an object with `__array__`.

    Args:
      object: the value to convert.
      dtype: dtype of the result; by default the elements' dtypes are promoted to a common one.
      copy: whether to copy `object` even if it already is a suitable array.
      order: only "K" and None are supported.
      ndmin: minimum number of dimensions; dimensions of size 1 are prepended as needed.
      device: device or sharding of the result; None for the default device.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array. It is weakly typed if `object` is a Python number and `dtype` is None.

    Raises:
      TypeError: if an element is not a number.
      OverflowError: if an integer is out of range for the dtype.

    >>> jnp.array([[1, 2], [3, 4]], dtype=float)
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if args:
        copy, order, ndmin = _positional(args, copy, order, ndmin)
    _check_order(order)
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "array")
    return _placed_array("array", object, dtype, copy, ndmin, device, out_sharding)


def _placed_array(name, x, dtype, copy, ndmin, device, out_sharding):
    if device is None and out_sharding is None:
        return _array(x, dtype, copy, ndmin)
    util.check_one_placement(name, device, out_sharding)
    out = _array(x, dtype, False, ndmin)
    if out is x and copy:
        out = lax.copy_p.bind(out)
    if out_sharding is not None:
        device = util.target_of_type(f"jnp.{name}", out_sharding, out.ndim)
    return place(out, device, f"jnp.{name}")


def _positional(args, *defaults):
    if len(args) > len(defaults):
        raise TypeError(
            f"array() takes from 1 to {2 + len(defaults)} positional arguments but {2 + len(args)} were"
            " given"
        )
    user_warning(
        "jnp.array: pass the arguments copy, order and ndmin by keyword, not by position.",
        DeprecationWarning,
    )
    return (*args, *defaults[len(args) :])


@export
def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Converts a value to an array like `array`, without copying an array that already matches.

    Args:
      a: the value to convert; see `array`.
      dtype, order, copy, device, out_sharding: as for `array`.

    Returns:
      `a` itself if it is an array of the requested dtype, else a new array.

    >>> x = jnp.arange(3)
    >>> jnp.asarray(x) is x
    True
    """
    if isinstance(a, Array) and not copy and order is None:
        if device is None and out_sharding is None:
            if dtype is None or a.dtype == dtype and not a.weak_type:
                return a
    _check_order(order)
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "asarray")
    return _placed_array("asarray", a, dtype, bool(copy), 0, device, out_sharding)


def _check_order(order):
    if order is not None and order != "K":
        raise NotImplementedError(
            f"jnp.array and jnp.asarray: order={order!r} is not implemented, as the layout of an array"
            " is the compiler's choice. Leave it out, or pass order='K'."
        )


def _array(x: Any, dtype: Any, copy: bool | None, ndmin: int) -> Any:
    kind = type(x)
    if kind in _NUMBERS or isinstance(x, Array):
        pass
    elif hasattr(x, "__jax_array__"):
        x = x.__jax_array__()
    elif dtypes.is_weakly_typed(x):  # subclasses of Python numbers
        kind = dtypes.scalar_type_of(x)
        x = kind(x)
    if kind in _NUMBERS:
        out = _number(x, kind, dtype)
    elif isinstance(x, Array):
        out = _from_array(x, dtype, copy)
    else:
        out = _from_object(x, dtype)
    if ndmin > np.ndim(out):
        out = lax.expand_dims(out, tuple(range(ndmin - np.ndim(out))))
    return out


def _number(x, kind, dtype):
    if dtype is None:
        value_dtype = dtypes.scalar_type_to_dtype(kind, x)
        return constant(np.array(x, value_dtype), weak_type=kind is not bool)
    if isinstance(dtype, dtypes.ExtendedDType):
        return lax.convert_element_type(x, dtype)
    return constant(np.array(x, dtype))


def _from_array(x, dtype, copy):
    if dtype is None or x.dtype == dtype and not x.weak_type:
        return lax.copy_p.bind(x) if copy else x
    return lax.convert_element_type(x, dtype)


def _from_object(x, dtype):
    if type(x) is np.ndarray or isinstance(x, np.generic):
        return _from_numpy(x, dtype)
    if isinstance(x, (list, tuple)):
        return _from_sequence(x, dtype)
    if x is None:
        raise ValueError("None is not a valid value for jnp.array")
    return _from_numpy(_to_numpy(x), dtype, x)


def _to_numpy(x):
    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is not None and not hasattr(x, "__array__"):
        return np.asarray(dlpack.from_dlpack(x))
    return np.asarray(x)


def _from_numpy(x, dtype, original=None):
    if is_masked_array(x):
        x = x.data
    if dtype is None:
        if x.dtype == dtypes.float0:
            return x
        dtype = _valid_dtype(x, x if original is None else original)
    elif isinstance(dtype, dtypes.ExtendedDType):
        return lax.convert_element_type(x, dtype)
    else:
        _valid_dtype(x, x if original is None else original)
    with np.errstate(all="ignore"):
        return constant(np.asarray(x, dtype), may_alias=x.dtype == dtype)


def _valid_dtype(x, original):
    try:
        return dtypes.dtype(x)
    except TypeError:
        raise TypeError(
            f"Value '{original}' with dtype {x.dtype} is not a valid JAX array type. Only arrays of numeric "
            "types are supported by JAX."
        ) from None


def _from_sequence(x, dtype):
    examples: dict[Any, Any] = {}
    if _collect(x, examples):
        return _stack_nested(x, dtype, examples)
    if dtype is None:
        if not examples:
            dtype = dtypes.default_float_dtype()
        else:
            try:
                dtype = dtypes.lattice_result_type(*examples.values())[0]
            except TypeError:  # NumPy may be able to convert elements that have no JAX dtype.
                return _from_numpy(np.array(x), None, x)
    elif isinstance(dtype, dtypes.ExtendedDType):
        raise TypeError(f"Cannot make an array of dtype {dtype} of numbers: {x}")
    return constant(_checked(np.array(x, dtype), x))


def _checked(out, original):
    if out.dtype.hasobject:
        _valid_dtype(out, original)
    return out


def _collect(x: Sequence[Any], examples: dict[Any, Any]) -> bool:
    """Adds an example of each element type to `examples`; returns whether any has to become a JAX array."""
    kinds = set(map(type, x))
    if kinds <= _NUMBERS:
        examples.update({k: k for k in kinds})
        return False
    found = False
    for element in x:
        if isinstance(element, (list, tuple)):
            found |= _collect(element, examples)
        elif element is None:
            raise ValueError("None is not a valid value for jnp.array")
        elif type(element) in _NUMBERS:
            examples[type(element)] = type(element)
        else:
            lowered = lower_jax_array(element)
            is_array = isinstance(lowered, Array)
            found |= is_array or lowered is not element  # NumPy cannot convert such an object
            element = lowered
            weak = is_array and element.weak_type
            key = getattr(element, "dtype", type(element)), weak
            if key not in examples:
                examples[key] = _example(element)
    return found


def _example(element):
    if hasattr(element, "dtype") or not hasattr(element, "__array__"):
        return element
    return np.asarray(element)


def _stack_nested(x, dtype, examples):
    if dtype is None:
        dtype = dtypes.lattice_result_type(*examples.values())[0]
    rows = [_from_array(_array(element, None, False, 0), dtype, False) for element in x]
    if len(rows) <= _MOST_AT_ONCE:
        return _stack(*rows)
    starts = range(0, len(rows), _MOST_AT_ONCE)
    return lax.concatenate([_stack(*rows[i : i + _MOST_AT_ONCE]) for i in starts], 0)


_MOST_AT_ONCE = 256  # The most operands that one compiled `_stack` program takes.


@inline_jit
def _stack(*rows):
    return lax.concatenate([lax.expand_dims(row, (0,)) for row in rows], 0)


def constant(x: np.ndarray, weak_type: bool = False, may_alias: bool = False) -> Any:
    """Converts a NumPy array of a valid dtype to an array; while staging, to a jaxpr constant.

    Args:
      x: NumPy array.
      weak_type: whether the result is weakly typed.
      may_alias: whether `x` may be the user's own array, which has to be copied because the user
        can still modify it.
    """
    trace = trace_ctx.trace
    if type(trace) is not DynamicJaxprTrace:
        out = array_from_numpy(x, x.dtype, weak_type)
        special_values.check_results("array", [], [out])
        mesh = config.device_context.value
        return out if mesh is None else device_put(out, NamedSharding(mesh, PartitionSpec()))
    if weak_type:
        value = x.item()
        if type(value) in _NUMBERS and dtypes.scalar_type_to_dtype(type(value)) == x.dtype:
            return trace.new_const(value)
        return trace.new_const(array_from_numpy(x, x.dtype, True))
    if not x.ndim:
        return trace.new_const(x[()])
    return trace.new_const(x.copy() if may_alias else x)


def _to_array(x: Any) -> Any:
    return _array(x, None, False, 0)


late.to_array = _to_array


@export
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Imports an array from another library, sharing its memory where possible.

    Args:
      x: an object with the methods `__dlpack__` and `__dlpack_device__`.
      device: device of the result; None keeps the data where it is.
      copy: True always copies, False raises an error if a copy is needed, None copies only if
        needed.

    Returns:
      A JAX array of the shape and dtype of `x`.

    >>> jnp.from_dlpack(np.arange(3, dtype=np.float32))
    Array([0., 1., 2.], dtype=float32)
    """
    return dlpack.from_dlpack(x, device=device, copy=copy)


@export
def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """Interprets the bytes of an object as a one-dimensional array.

    Args:
      buffer: bytes, or an object with the buffer protocol.
      dtype: dtype of the elements.
      count: number of elements to read; -1 for all.
      offset: number of bytes to skip at the start.

    Returns:
      An array of shape `(count,)`, or as many elements as the buffer holds.

    >>> jnp.frombuffer(b"abc", dtype=jnp.uint8)
    Array([97, 98, 99], dtype=uint8)
    """
    return asarray(
        np.frombuffer(buffer=buffer, dtype=_host_dtype(dtype), count=count, offset=offset)
    )


@export
def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """Parses a string of numbers into a one-dimensional array.

    Args:
      string: the text to parse.
      dtype: dtype of the elements.
      count: number of elements to read; -1 for all.
      sep: the separator between numbers.

    Returns:
      An array of shape `(count,)`, or as many elements as the string holds.

    >>> jnp.fromstring("1 2 3", dtype=int, sep=" ")
    Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string=string, dtype=_host_dtype(dtype), count=count, sep=sep))


def _host_dtype(dtype):
    # jnp.float32 and the other scalar types carry a dtype; on NumPy's types `dtype` is a
    # descriptor.
    own = getattr(dtype, "dtype", None)
    return own if isinstance(own, np.dtype) else np.dtype(dtype)


def _impure(name: str, effect: str):
    def fun(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"jnp.{name}() is not implemented because it may be non-pure and thus unsafe for use with JIT"
            f" and other JAX transformations. Consider using jnp.asarray(np.{name}(...)) instead, although"
            f" care should be taken if np.{name} is used within jax transformations because of its"
            f" potential side-effect of {effect}; for more information see"
            " https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html#pure-functions"
        )

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"""Not implemented: use `jnp.asarray(np.{name}(...))`.

    Raises:
      NotImplementedError: always.
    """
    return export(fun)


fromfile = _impure("fromfile", "consuming the file object")
fromiter = _impure("fromiter", "consuming the iterator")
