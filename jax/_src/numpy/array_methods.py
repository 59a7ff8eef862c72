"""Array operators and methods; importing this module installs them on `ArrayImpl` and `Tracer`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.core import Tracer
from jax._src.device_put.functions import device_put
from jax._src.jit.library import binary_method
from jax._src.lax import lax
from jax._src.numpy import (
    cumulative,
    indexing,
    manipulation,
    matrices,
    reductions,
    searching,
    selecting,
    sorting,
    tensor_products,
    ufuncs,
)
from jax._src.numpy.ufuncs_binary import integer_powers
from jax._src.numpy.util import check_arraylike

_ACCEPTED = (int, float, complex, np.generic, np.ndarray, Array)
_REJECTED = (list, tuple, set, dict)
_PLAIN = frozenset([int, float, complex, bool, np.ndarray, ArrayImpl])

# Operators


def _operand(symbol: str) -> Callable[[Any], Any]:
    """Makes a function that converts the other operand, returns NotImplemented, or raises."""

    def prepare(other: Any) -> Any:
        if type(other) in _PLAIN or isinstance(other, _ACCEPTED):
            return other
        if hasattr(other, "__jax_array__"):
            return other.__jax_array__()
        if isinstance(other, _REJECTED):
            raise TypeError(
                f"unsupported operand type(s) for {symbol}: 'ArrayImpl' and {type(other).__name__!r}"
            )
        return NotImplemented

    return prepare


def _install_binary(name: str, symbol: str, fun: Callable, reflected: bool = True) -> None:
    fun = getattr(fun, "__wrapped__", fun)
    prepare = _operand(symbol)

    def method(self, other):
        other = prepare(other)
        return NotImplemented if other is NotImplemented else fun(self, other)

    def reflected_fun(x, y):
        return fun(y, x)

    def reflected_method(self, other):
        other = prepare(other)
        return NotImplemented if other is NotImplemented else fun(other, self)

    reflected_fun.__name__ = reflected_fun.__qualname__ = fun.__name__
    _install(f"__{name}__", method, binary_method(fun, prepare))
    if reflected:
        _install(f"__r{name}__", reflected_method, binary_method(reflected_fun, prepare))


def _install(name: str, on_tracers: Any, on_arrays: Any = None) -> None:
    """Installs a method or property on all array classes; `ArrayImpl` may get one of its own."""
    if on_arrays is not None:
        on_tracers.__name__ = name
        on_tracers.__qualname__ = f"Array.{name}"
        setattr(ArrayImpl, name, on_arrays)
    setattr(Tracer, name, on_tracers)
    setattr(Array, name, on_tracers)


for _name, _symbol, _fun in [
    ("add", "+", ufuncs.add),
    ("sub", "-", ufuncs.subtract),
    ("mul", "*", ufuncs.multiply),
    ("truediv", "/", ufuncs.true_divide),
    ("floordiv", "//", ufuncs.floor_divide),
    ("mod", "%", ufuncs.remainder),
    ("divmod", "divmod", ufuncs.divmod),
    ("and", "&", ufuncs.bitwise_and),
    ("or", "|", ufuncs.bitwise_or),
    ("xor", "^", ufuncs.bitwise_xor),
    ("lshift", "<<", ufuncs.left_shift),
    ("rshift", ">>", ufuncs.right_shift),
    ("matmul", "@", tensor_products.matmul),
]:
    _install_binary(_name, _symbol, _fun)

for _name, _symbol, _fun in [
    ("eq", "==", ufuncs.equal),
    ("ne", "!=", ufuncs.not_equal),
    ("lt", "<", ufuncs.less),
    ("le", "<=", ufuncs.less_equal),
    ("gt", ">", ufuncs.greater),
    ("ge", ">=", ufuncs.greater_equal),
]:
    _install_binary(_name, _symbol, _fun, reflected=False)

for _name, _fun in [
    ("neg", ufuncs.negative),
    ("abs", ufuncs.absolute),
    ("invert", ufuncs.invert),
]:
    # Tracers call the Python function directly instead of the jitted one.
    _install(f"__{_name}__", lambda self, fun=_fun.__wrapped__: fun(self), _fun)

_prepare_power = _operand("** or pow()")


def _pow(self, other):
    if type(other) is int:
        if type(self) is ArrayImpl:
            if other == 1 and self.dtype != bool:
                return self  # as of +x, there is nothing to compute
            return integer_powers[other](self)
        return ufuncs.power(self, other)
    other = _prepare_power(other)
    return NotImplemented if other is NotImplemented else ufuncs.power(self, other)


def _rpow(self, other):
    other = _prepare_power(other)
    return NotImplemented if other is NotImplemented else ufuncs.power(other, self)


_install("__pow__", _pow)
_install("__rpow__", _rpow)
_install("__pos__", ufuncs.positive)


def _round(self, ndigits=None):
    out = ufuncs.round(self, 0 if ndigits is None else ndigits)
    return out.astype(int) if ndigits is None else out  # like Python's floats


_install("__round__", _round)

# Item access


def _setitem(self, i, x):
    raise TypeError(
        "JAX arrays are immutable and do not support in-place item assignment. Instead of x[idx] = y, use"
        " x = x.at[idx].set(y) or another .at[] method:"
        " https://docs.jax.dev/en/latest/_autosummary/jax.numpy.ndarray.at.html"
    )


def _contains(self, x):
    if x is None or isinstance(x, str):
        raise TypeError(f"Array.__contains__: unsupported operand type {type(x)}.")
    check_arraylike("Array.__contains__", x)
    if np.ndim(x):
        raise ValueError(
            f"Array.__contains__: query value must be a scalar, got query.shape={np.shape(x)}"
        )
    if self.ndim != 1:
        raise ValueError(
            "Array.__contains__: search array must be one-dimensional, got arr.shape="
            f"{self.shape}. Use jnp.isin, or (arr == value).any()."
        )
    return bool(reductions.any(ufuncs.equal(self, x)))


def _tracer_iter(self):
    if not self.aval.shape:
        raise TypeError("iteration over a 0-d array")
    if isinstance(self.aval, core.AbstractRef):
        return self.aval._iter(self)
    return iter(manipulation.unstack(self))


def _tracer_getitem(self, index):
    if isinstance(self.aval, core.AbstractRef):
        return self.aval._getitem(self, index)
    return indexing.getitem(self, index)


def _tracer_setitem(self, index, value):
    if isinstance(self.aval, core.AbstractRef):
        self.aval._setitem(self, index, value)
    else:
        _setitem(self, index, value)


_install("__getitem__", indexing.getitem)
_install("__setitem__", _setitem)
Tracer.__getitem__ = _tracer_getitem  # type: ignore[attr-defined]
Tracer.__setitem__ = _tracer_setitem  # type: ignore[attr-defined]
_install("__contains__", _contains)
Tracer.__iter__ = _tracer_iter  # type: ignore[attr-defined]
Tracer.__reversed__ = lambda self: iter(manipulation.unstack(self)[::-1])  # type: ignore[attr-defined]


def _unsupported_flat(self):
    """Not available: use `x.flatten()`."""
    raise NotImplementedError(
        "JAX Arrays do not implement the arr.flat property: consider arr.flatten() instead."
    )


_install("at", property(indexing._IndexUpdateHelper, doc=indexing._IndexUpdateHelper.__doc__))
_install("flat", property(_unsupported_flat))
_install("T", property(manipulation.transpose, doc="The array with its axes in reverse order."))
_install(
    "mT",
    property(manipulation.matrix_transpose, doc="The array with its last two axes exchanged."),
)
_install("real", property(ufuncs.real, doc="The real parts of the elements."))
_install("imag", property(ufuncs.imag, doc="The imaginary parts of the elements."))

# Methods that correspond to functions


def _reshape(self, *args: Any, order: str = "C", out_sharding: Any = None) -> Array:
    """Returns the elements in a new shape, given as ints or a sequence; see `jax.numpy.reshape`."""
    shape = args[0] if len(args) == 1 else args
    return manipulation.reshape(self, shape, order, out_sharding=out_sharding)


def _transpose(self, *args: Any) -> Array:
    """Permutes the axes, given as ints or one sequence; see `jax.numpy.transpose`."""
    if not args:
        return manipulation.transpose(self)
    return manipulation.transpose(self, args[0] if len(args) == 1 else args)


def _flatten(self, order: str = "C", *, out_sharding: Any = None) -> Array:
    """Returns the elements as a vector; see `jax.numpy.ravel`."""
    return manipulation.ravel(self, order=order, out_sharding=out_sharding)


def _astype(self, dtype: Any, copy: bool = False, device: Any = None) -> Array:
    """Converts the elements to another dtype; see `jax.numpy.astype`."""
    return manipulation.astype(self, dtype, copy=copy, device=device)


def _copy(self) -> Array:
    """Copies the array; see `jax.numpy.copy`."""
    return lax.copy_p.bind(self)


def _clip(self, min: Any = None, max: Any = None) -> Array:
    """Limits the elements to an interval; see `jax.numpy.clip`."""
    return selecting.clip(self, min=min, max=max)


def _byteswap(self) -> Array:
    """Reverses the bytes of each element, or of each part of a complex element.

    >>> jnp.array([1, 256], dtype="int16").byteswap().tolist()
    [256, 1]
    """
    if dtypes.issubdtype(self.dtype, np.complexfloating):
        return lax.complex(_byteswap(lax.real(self)), _byteswap(lax.imag(self)))
    if dtypes.itemsize_bits(self.dtype) <= 8:
        return _copy(self)
    # The bytes of each element become a last dimension.
    reverse = lax.rev(lax.bitcast_convert_type(self, np.uint8), (self.ndim,))
    return lax.bitcast_convert_type(reverse, self.dtype)


def _view(self, dtype: Any = None, type: None = None) -> Array:
    """Reinterprets the bytes of the elements as another dtype.

    Args:
      dtype: the new dtype. If its size differs, the last dimension grows or shrinks accordingly.
      type: must be None.

    Raises:
      ValueError: if the size of the last dimension is not divisible as needed.

    >>> jnp.float32(1).view(jnp.int32)
    Array(1065353216, dtype=int32)
    """
    if type is not None:
        raise NotImplementedError("`type` argument of array.view() is not supported.")
    return _view_as(self, dtype)


def _view_as(x, dtype):
    if dtype is None:
        return x
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "view")
    if x.dtype == dtype:
        return x
    old_bits, new_bits = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(dtype)
    if x.ndim == 0 and old_bits != new_bits:
        raise ValueError("view() of a 0d array is only supported if the itemsize is unchanged.")
    if x.ndim and (x.shape[-1] * old_bits) % new_bits:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the"
            " last axis of the array."
        )
    # Booleans and complex numbers have no bitcast; use the integers or floats they consist of.
    if x.dtype == np.bool_:
        return _view_as(lax.convert_element_type(x, np.uint8), dtype)
    if x.dtype.kind == "c":
        parts = np.finfo(x.dtype).dtype
        out = lax.concatenate(
            [lax.expand_dims(v, (x.ndim,)) for v in (lax.real(x), lax.imag(x))], x.ndim
        )
        if x.ndim == 0:
            return (
                _view_as(lax.bitcast_convert_type(out, np.uint64), dtype)
                if new_bits == 64
                else (_view_as(out, dtype))
            )
        return _view_as(lax.reshape(out, (*x.shape[:-1], 2 * x.shape[-1])).astype(parts), dtype)
    if dtype == np.bool_:
        bytes_ = _view_as(x, np.uint8)
        return lax.ne(bytes_, np.uint8(0))
    if dtype.kind == "c":
        parts = _view_as(x, np.finfo(dtype).dtype)
        pairs = lax.reshape(parts, (*parts.shape[:-1], parts.shape[-1] // 2, 2))
        return lax.complex(pairs[..., 0], pairs[..., 1])
    if old_bits < new_bits:
        factor = new_bits // old_bits
        x = lax.reshape(x, (*x.shape[:-1], x.shape[-1] // factor, factor))
        return lax.bitcast_convert_type(x, dtype)
    out = lax.bitcast_convert_type(x, dtype)
    if old_bits == new_bits or x.ndim == 0:
        return out
    return lax.reshape(out, (*out.shape[:-2], out.shape[-2] * out.shape[-1]))


_install("reshape", _reshape)
_install("transpose", _transpose)


def _of_array_or_ref(name: str) -> None:
    """Makes an attribute of tracers dispatch to `AbstractRef`'s version for tracers of refs."""
    of_array = getattr(Tracer, name)
    of_ref = getattr(core.AbstractRef, name)

    if isinstance(of_array, property):

        def get(self):
            return (of_ref if isinstance(self.aval, core.AbstractRef) else of_array).fget(self)

        setattr(Tracer, name, property(get, doc=of_array.__doc__))
        return

    def call(self, *args, **kwargs):
        if isinstance(self.aval, core.AbstractRef):
            return of_ref.fun(self, *args, **kwargs)
        return of_array(self, *args, **kwargs)

    call.__name__, call.__qualname__, call.__doc__ = name, f"Array.{name}", of_array.__doc__
    setattr(Tracer, name, call)


for _name in ("at", "T", "reshape", "transpose"):
    _of_array_or_ref(_name)
_install("flatten", _flatten)
_install("astype", _astype)
_install("copy", _copy)
_install("clip", _clip)
_install("byteswap", _byteswap)
_install("view", _view)

for _module, _names in [
    (ufuncs, "conj conjugate round"),
    (reductions, "all any max mean min prod ptp std sum var"),
    (cumulative, "cumprod cumsum"),
    (matrices, "diagonal trace"),
    (manipulation, "ravel repeat squeeze swapaxes"),
    (indexing, "take"),
    (searching, "searchsorted"),
    (selecting, "choose nonzero"),
    (sorting, "argmax argmin argpartition argsort sort"),
    (tensor_products, "dot"),
]:
    for _name in _names.split():
        _install(_name, getattr(_module, _name))


def _compress(
    self, condition: Any, axis: int | None = None, *, out: None = None, size: int | None = None,
    fill_value: Any = 0,
) -> Array:  # fmt: skip
    """Returns the slices along an axis where a condition is true; see `jax.numpy.compress`."""
    return selecting.compress(condition, self, axis, size=size, fill_value=fill_value, out=out)


_install("compress", _compress)

# Properties and methods of tracers


def _nbytes(self) -> int:
    """Total number of bytes of the elements."""
    return self.size * self.dtype.itemsize


def _itemsize(self) -> int:
    """Number of bytes of one element."""
    return self.dtype.itemsize


Tracer.nbytes = property(_nbytes)  # type: ignore[attr-defined]
Tracer.itemsize = property(_itemsize)  # type: ignore[attr-defined]


def _to_device(self, device: Any, *, stream: Any = None) -> Array:
    """Moves the array to another device or sharding."""
    if stream is not None:
        raise NotImplementedError("stream argument of array.to_device()")
    return device_put(self, device)


Tracer.to_device = _to_device  # type: ignore[attr-defined]

for _name in ("item", "itemsize", "nbytes", "to_device"):
    if not hasattr(Array, _name):
        setattr(Array, _name, getattr(Tracer, _name))


def _array_namespace(self, /, *, api_version: None | str = None) -> Any:
    """Returns `jax.numpy`, the namespace of the Array API."""
    if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(
            f"api_version={api_version!r} is not available: jax.numpy implements 2024.12."
        )
    return sys.modules["jax.numpy"]


_install("__array_namespace__", _array_namespace)


# Outside code looks up on the type of arrays what tracers of this type have.
_OF_TYPES = """
    T all any argmax argmin argpartition argsort astype at byteswap choose clip compress conj conjugate
    copy cumprod cumsum diagonal dot flat flatten imag item mT max mean min nonzero prod ptp ravel real
    repeat reshape round searchsorted sort squeeze std sum swapaxes take to_device trace transpose var
    view
""".split()

for _name in _OF_TYPES:
    _attribute = vars(Tracer)[_name]
    setattr(
        core.ShapedArray,
        _name,
        core.aval_property(_attribute.fget)
        if isinstance(_attribute, property)
        else core.aval_method(_attribute),
    )
core.ShapedArray.broadcast = core.aval_method(lax.broadcast)  # type: ignore[attr-defined]
