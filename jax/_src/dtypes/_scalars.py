"""The dtypes of values and requested dtypes; defaults for Python scalars, and x64 mode."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import config, traceback_util
from jax._src.config import ExplicitX64Mode
from jax._src.dtypes._types import (
    ExtendedDType,
    abstract_types,
    bool_dtype,
    complex_types,
    custom_float_dtypes,
    dtype_kinds,
    dtype_to_32bit_dtype,
    export,
    finfo,
    float32_dtype,
    float64_dtype,
    iinfo,
    int_types,
    intn_dtypes,
    jax_dtype_set,
    to_32bit,
)
from jax._src.errors import InvalidInputException as InvalidInputException
from jax._src.lib import _jax
from jax._src.typing import Array, DType, DTypeLike
from jax._src.util import set_module

# Python scalars


def _default_bool_dtype() -> DType:
    return bool_dtype


def default_int_dtype() -> DType:
    """The dtype of Python's `int`: int64 if jax_enable_x64 is set, otherwise int32."""
    return _int_defaults[config.enable_x64.value]


def default_uint_dtype() -> DType:
    return _uint_defaults[config.enable_x64.value]


def default_float_dtype() -> DType:
    """The dtype of Python's `float`: float64 if jax_enable_x64 is set, otherwise float32."""
    return _float_defaults[config.enable_x64.value]


def default_complex_dtype() -> DType:
    """The dtype of Python's `complex`: complex128 if jax_enable_x64 is set, otherwise complex64."""
    return _complex_defaults[config.enable_x64.value]


_int_defaults = np.dtype("int32"), np.dtype("int64")
_uint_defaults = np.dtype("uint32"), np.dtype("uint64")
_float_defaults = np.dtype("float32"), np.dtype("float64")
_complex_defaults = np.dtype("complex64"), np.dtype("complex128")

default_types: dict[str, Callable[[], DType]] = {
    "b": _default_bool_dtype,
    "i": default_int_dtype,
    "u": default_uint_dtype,
    "f": default_float_dtype,
    "c": default_complex_dtype,
}
_python_defaults: dict[Any, Callable[[], DType]] = {
    bool: _default_bool_dtype,
    int: default_int_dtype,
    float: default_float_dtype,
    complex: default_complex_dtype,
}
# The defaults by Python type: (x64 disabled, x64 enabled).
scalar_dtypes: dict[Any, tuple[DType, DType]] = {
    bool: (bool_dtype, bool_dtype),
    int: _int_defaults,
    float: _float_defaults,
    complex: _complex_defaults,
}
python_scalar_types: set[type] = {bool, int, float, complex}
python_scalar_types_to_dtypes: dict[type, DType] = {
    bool: bool_dtype,
    int: np.dtype("int64"),
    float: np.dtype("float64"),
    complex: np.dtype("complex128"),
}
python_scalar_dtypes = python_scalar_types_to_dtypes

registered_weak_types: set[type] = {int, float, complex}


def register_weak_scalar_type(typ: type) -> None:
    """Makes instances of `typ` weakly typed, like Python scalars."""
    registered_weak_types.add(typ)


def register_python_scalar_type(typ: type, like: type) -> None:
    """Makes instances of `typ` scalars with the same dtype as instances of `like`."""
    python_scalar_types.add(typ)
    python_scalar_types_to_dtypes[typ] = python_scalar_types_to_dtypes[like]
    scalar_dtypes[typ] = scalar_dtypes[like]
    _python_defaults[typ] = _python_defaults[like]
    register_weak_scalar_type(typ)


def default_scalar_dtype(value: Any) -> DType:
    """The default dtype of the Python scalar `value`, whatever the size of an int."""
    return scalar_dtypes[type(value)][config.enable_x64.value]


def scalar_type_to_dtype(typ: type, value: Any = None) -> DType:
    """The dtype that Python scalars of the class `typ` have in arrays.

    Raises:
      OverflowError: the int `value` does not fit into that dtype.
    """
    dtype = scalar_dtypes[typ][config.enable_x64.value]
    if typ is int and value is not None:
        info = iinfo(dtype)
        if not info.min <= value <= info.max:
            raise OverflowError(f"Python int {value} too large to convert to {dtype.name}")
    return dtype


@export
def scalar_type_of(x: Any) -> type:
    """The Python scalar class for the elements of `x`: bool, int, float or complex.

    Args:
      x: an array, a scalar or a dtype.

    Raises:
      TypeError: the elements are not numbers or booleans.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> jax.dtypes.scalar_type_of(jnp.bfloat16)
      <class 'float'>
    """
    typ = dtype(x)
    if not isinstance(typ, ExtendedDType):
        if typ in custom_float_dtypes or np.issubdtype(typ, np.floating):
            return float
        if typ in intn_dtypes or np.issubdtype(typ, np.integer):
            return int
        if np.issubdtype(typ, np.bool_):
            return bool
        if np.issubdtype(typ, np.complexfloating):
            return complex
    raise TypeError(f"{x!r} with elements of the type {typ} has no Python scalar class")


def is_weakly_typed(x: Any) -> bool:
    """Whether `x` is weakly typed, like Python scalars and values computed from them alone."""
    return type(x) in registered_weak_types or getattr(getattr(x, "aval", None), "weak_type", False)


def is_weakly_typed_scalar(x: Any) -> bool:
    """Whether `x` is weakly typed and has no dimensions."""
    return is_weakly_typed(x) and not getattr(x, "ndim", 0)


# Dtypes as users specify them


@export
def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> DType | ExtendedDType:
    """The dtype of arrays for which `dtype` is requested: 64-bit dtypes need jax_enable_x64.

    Args:
      dtype: a dtype or a name of one; None for the default floating-point dtype.
      allow_extended_dtype: whether an extended dtype is returned, or raises an error.

    Returns:
      An `np.dtype`, or the extended dtype.

    Raises:
      TypeError: `dtype` is not the name of a dtype.
      ValueError: it is an extended dtype, which is not allowed.

    Example:
      >>> import jax
      >>> jax.dtypes.canonicalize_dtype("bfloat16")
      dtype(bfloat16)
    """
    return canonical_dtype_for(config.enable_x64.value, allow_extended_dtype, dtype)


@functools.cache
def canonical_dtype_for(x64: bool, allow_extended: bool, dtype: Any) -> DType | ExtendedDType:
    if isinstance(dtype, ExtendedDType):
        if not allow_extended:
            raise ValueError(f"the extended type {dtype} cannot be used here")
        return dtype
    try:
        out = np.dtype(dtype)
    except TypeError as err:
        raise TypeError(f"dtype {dtype!r} not understood") from err
    if dtype in scalar_dtypes:
        return scalar_dtypes[dtype][x64]
    if dtype is None:
        return _float_defaults[x64]
    return out if x64 else dtype_to_32bit_dtype.get(out, out)


def jax_dtype(obj: DTypeLike | None, *, align: bool = False, copy: bool = False) -> DType:
    """Like `np.dtype(obj)`, but None and Python's scalar classes give JAX's default dtypes."""
    if obj is None:
        return default_float_dtype()
    if isinstance(obj, ExtendedDType):
        return obj  # type: ignore[return-value]
    default = _python_defaults.get(obj) if isinstance(obj, type) else None
    if default is not None:
        return default()
    if isinstance(obj, type):
        _refuse_abstract_type(obj)
    elif isinstance(obj, _jax.Array):
        return obj.dtype  # type: ignore[attr-defined]
    return np.dtype(obj, align=align, copy=copy)


def check_and_canonicalize_user_dtype(dtype: Any, fun_name: str | None = None) -> DType:
    """The dtype that a user of the function `fun_name` requested by the argument `dtype`.

    An explicit 64-bit dtype while jax_enable_x64 is not set is truncated with a warning, or an
    error, or allowed, according to `jax_explicit_x64_dtypes`.

    Raises:
      ValueError: `dtype` is None or an array, or a 64-bit dtype that is not allowed.
      TypeError: `dtype` is not the name of a dtype, or is one that arrays cannot have.
    """
    if isinstance(dtype, type):
        default = _python_defaults.get(dtype)
        if default is not None:
            return default()
        _refuse_abstract_type(dtype)
    elif dtype is None:
        raise ValueError("dtype must be given, got None")
    elif isinstance(dtype, ExtendedDType):
        return dtype  # type: ignore[return-value]
    elif isinstance(dtype, _jax.Array):
        raise ValueError(
            "an array cannot stand for a type: in place of dtype=arr write dtype=arr.dtype"
        )
    np_dtype = np.dtype(dtype)
    canonical = to_32bit.get(np_dtype)
    if canonical is None:
        raise TypeError(
            f"JAX only supports number, bool, and string dtypes, got dtype {dtype}"
            f"{_in_fun(fun_name)}"
        )
    if canonical is np_dtype or config.enable_x64.value:
        return np_dtype
    return _check_explicit_x64_dtype(np_dtype, canonical, fun_name)


check_user_dtype_supported = check_and_canonicalize_user_dtype


def _check_explicit_x64_dtype(np_dtype: DType, canonical: DType, fun_name: str | None) -> DType:
    mode = config.explicit_x64_dtypes.value
    if mode == ExplicitX64Mode.ALLOW:
        return np_dtype
    asked = f"Explicitly requested dtype {np_dtype.name}{_in_fun(fun_name, 'requested ')}"
    if mode == ExplicitX64Mode.ERROR:
        raise ValueError(
            f"{asked} is not available: turn on jax_enable_x64, or set jax_explicit_x64_dtypes to"
            " 'allow'"
        )
    warnings.warn(
        f"{asked} is not available, and will be truncated to dtype {canonical.name}. To enable"
        " 64-bit types, set the jax_enable_x64 option or the environment variable"
        " JAX_ENABLE_X64.",
        stacklevel=traceback_util.user_stacklevel(),
    )
    return canonical


def _in_fun(fun_name: str | None, verb: str = "") -> str:
    return f" {verb}in {fun_name}" if fun_name else ""


def _refuse_abstract_type(dtype: type) -> None:
    # NumPy interprets these as float64 or void, with a warning.
    if dtype in abstract_types:
        raise TypeError(
            f"{dtype.__name__} is an abstract class of types: name one of its types, such as"
            " float32"
        )


@set_module("jax.numpy")
def isdtype(dtype: DTypeLike, kind: str | DTypeLike | tuple[str | DTypeLike, ...]) -> bool:
    """Whether a dtype is of the given kind (array API).

    Args:
      dtype: a dtype.
      kind: 'bool', 'signed integer', 'unsigned integer', 'integral', 'real floating',
        'complex floating', 'numeric', a dtype, or a tuple of these.

    Raises:
      ValueError: `kind` is an unknown name.

    Example:
      >>> import jax.numpy as jnp
      >>> jnp.isdtype(jnp.float32, "real floating"), jnp.isdtype(jnp.int8, ("bool", jnp.int16))
      (True, False)
    """
    the_dtype = jax_dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    options: set[DType] = set()
    for one in kinds:
        if isinstance(one, str) and one in dtype_kinds:
            options |= dtype_kinds[one]
            continue
        try:
            options.add(jax_dtype(one))
        except TypeError as err:
            raise ValueError(
                f"kind must be a type, one of {sorted(dtype_kinds)}, or a tuple of these; got"
                f" {one!r}"
            ) from err
    return the_dtype in options


def check_valid_dtype(dtype: DType) -> None:
    """Raises TypeError unless arrays can have the dtype."""
    if dtype not in jax_dtype_set and not isinstance(dtype, ExtendedDType):
        raise TypeError(
            f"Dtype {dtype} is not a valid JAX array type. Only arrays of numeric types are"
            " supported by JAX."
        )


def dtype(x: Any) -> DType:
    """The dtype that `x` has, or names, as a JAX array.

    Args:
      x: an array, a scalar, a dtype, or the name of one.

    Raises:
      TypeError: `x` is none of these, or arrays cannot have that dtype.
    """
    scalar = scalar_dtypes.get(type(x))
    if scalar is not None:
        return scalar[config.enable_x64.value]
    out = None if isinstance(x, type) else getattr(x, "dtype", None)
    if out is None:
        return _dtype_named(x)
    canonical = to_32bit.get(out)
    if canonical is None:
        if isinstance(out, ExtendedDType):
            return out  # type: ignore[return-value]
        return _dtype_named(x)
    if canonical is out or config.enable_x64.value or _keeps_its_dtype(x):
        return out
    return canonical


def _dtype_named(x: Any) -> DType:
    if x is None:
        raise ValueError("None names no type of array elements")
    if isinstance(x, type):
        default = _python_defaults.get(x)
        if default is not None:
            return default()
        _refuse_abstract_type(x)
        of_class = x.__dict__.get("dtype")
        if isinstance(of_class, np.dtype):  # scalar types like jnp.float32
            return of_class if config.enable_x64.value else to_32bit[of_class]
        if issubclass(x, np.generic):
            out = np.dtype(x)
            return _asked_for(out) if out in jax_dtype_set else out
        out = getattr(x, "dtype", None)
        if not isinstance(out, np.dtype):
            out = np.dtype(x)
    elif isinstance(x, str):
        out = np.dtype(x)
        if out in jax_dtype_set:
            return _asked_for(out)
    elif isinstance(x, np.dtype):
        out = x
        if out in jax_dtype_set:
            return _asked_for(out)
    else:
        for base in type(x).__mro__:  # subclasses of Python's scalars, such as IntEnum
            if base in scalar_dtypes:
                return scalar_dtypes[base][config.enable_x64.value]
        out = getattr(x, "dtype", None)
        if out is None:
            raise TypeError(f"Cannot determine dtype of {x!r}")
        if not isinstance(out, np.dtype):
            out = np.dtype(out)
            if out in jax_dtype_set:
                return out if config.enable_x64.value else to_32bit[out]
    raise TypeError(
        f"Value {x!r} with dtype {out} is not a valid JAX array type. Only arrays of numeric types"
        " are supported by JAX."
    )


def _asked_for(out: DType) -> DType:
    canonical = to_32bit[out]
    if canonical is out or config.enable_x64.value:
        return out
    return _check_explicit_x64_dtype(out, canonical, "dtype")


_types_whose_dtype_should_not_be_canonicalized: tuple[type, ...] = (Array,)


def register_type_whose_dtype_should_not_be_canonicalized(typ: type) -> None:
    """Lets values of `typ` have 64-bit types while jax_enable_x64 is off, as arrays can."""
    global _types_whose_dtype_should_not_be_canonicalized
    _types_whose_dtype_should_not_be_canonicalized += (typ,)


def _keeps_its_dtype(x: Any) -> bool:
    return isinstance(x, _types_whose_dtype_should_not_be_canonicalized)


def coerce_to_array(x: Any, dtype: DTypeLike | None = None) -> np.ndarray:
    """Like `np.asarray(x, dtype)`, with JAX's default dtypes for Python scalars."""
    if dtype is None and type(x) in scalar_dtypes:
        dtype = scalar_type_to_dtype(type(x), x)
    return np.asarray(x, dtype)


# The dtypes that operations compute in


def to_inexact_dtype(dtype: DTypeLike) -> DType:
    """The inexact dtype for values of `dtype`; integers and booleans become floating point."""
    out = np.dtype(dtype)
    return _to_inexact.get(out, out)


_to_inexact: dict[DType, DType] = {
    d: (float64_dtype if d.itemsize == 8 else float32_dtype) for d in [bool_dtype, *int_types]
}


def to_numeric_dtype(dtype: DTypeLike) -> DType:
    """The numeric dtype for values of `dtype`: int32 for booleans."""
    out = np.dtype(dtype)
    return np.dtype("int32") if out == bool_dtype else out


def to_floating_dtype(dtype: DTypeLike) -> DType:
    """The real floating-point dtype for values of `dtype`, or for their parts if complex."""
    return finfo(to_inexact_dtype(dtype)).dtype


def to_complex_dtype(dtype: DTypeLike) -> DType:
    """The complex dtype for values of `dtype`."""
    out = to_inexact_dtype(dtype)
    if out in complex_types:
        return out
    return complex_types[out == float64_dtype]


# Registrations with jaxlib


_jax.set_valid_dtypes(jax_dtype_set)
_jax.set_invalid_input_exception(InvalidInputException)

_handlers: dict[type, Callable[[Any], Any]] = {}


class _CanonicalizeValueHandlers:
    """A mapping from types to functions that convert their values to arrays; kept by jaxlib."""

    def __setitem__(self, typ: type, handler: Callable[[Any], Any]) -> None:
        _jax.register_canonicalize_value_handler(typ, handler)
        _handlers[typ] = handler

    def __getitem__(self, typ: type) -> Callable[[Any], Any]:
        # The extension handles arrays and scalars itself; libraries borrow these handlers for types
        # that are converted by `__array__`.
        return _handlers.get(typ) or (
            _canonicalize_array if typ is np.ndarray else canonicalize_value
        )

    def __contains__(self, typ: Any) -> bool:
        return typ in _handlers

    def get(self, typ: type, default: Any = None) -> Any:
        return _handlers.get(typ, default)


canonicalize_value_handlers = _CanonicalizeValueHandlers()
canonicalize_value = _jax.canonicalize_value


def _canonicalize_array(x: Any) -> Any:
    return canonicalize_value(np.asarray(x))
