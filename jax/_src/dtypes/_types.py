"""The valid dtypes: their kinds, sizes, names, and the classes they belong to."""

from __future__ import annotations

import abc
import functools
from typing import Any

import ml_dtypes
import numpy as np

from jax._src.typing import DType, DTypeLike
from jax._src.util import set_module

export = set_module("jax.dtypes")

finfo = ml_dtypes.finfo
iinfo = ml_dtypes.iinfo


# Extended dtypes, whose arrays have elements of a special kind (random keys)


@export
class extended(np.generic):
    """Scalar class of the dtypes that are neither numbers nor booleans, such as random keys.

    An abstract class, for use in `jnp.issubdtype` only.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> jnp.issubdtype(jax.random.key(0).dtype, jax.dtypes.extended)
      True
    """


@export
class prng_key(extended):
    """Scalar class of the dtypes of random keys.

    An abstract class, for use in `jnp.issubdtype` only. The dtypes of two keys differ if their
    generators do.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> jnp.issubdtype(jax.random.key(0).dtype, jax.dtypes.prng_key)
      True
    """


class ExtendedDType(abc.ABC):
    """Base class of extended dtypes, which can be used in place of an `np.dtype`."""

    _rules: Any  # functions that represent, print and place arrays, ...

    @property
    @abc.abstractmethod
    def type(self) -> type: ...

    @property
    @abc.abstractmethod
    def name(self) -> str: ...


# The valid dtypes

# The dtype of tangents of integers and booleans. Its elements have no bytes; they are all zero.
float0: np.dtype = np.dtype([("float0", np.void, 0)])

bfloat16: type = ml_dtypes.bfloat16
float4_e2m1fn: type = ml_dtypes.float4_e2m1fn
float6_e2m3fn: type = ml_dtypes.float6_e2m3fn
float6_e3m2fn: type = ml_dtypes.float6_e3m2fn
float8_e3m4: type = ml_dtypes.float8_e3m4
float8_e4m3: type = ml_dtypes.float8_e4m3
float8_e8m0fnu: type = ml_dtypes.float8_e8m0fnu
float8_e4m3b11fnuz: type = ml_dtypes.float8_e4m3b11fnuz
float8_e4m3fn: type = ml_dtypes.float8_e4m3fn
float8_e4m3fnuz: type = ml_dtypes.float8_e4m3fnuz
float8_e5m2: type = ml_dtypes.float8_e5m2
float8_e5m2fnuz: type = ml_dtypes.float8_e5m2fnuz
int2: type = ml_dtypes.int2
int4: type = ml_dtypes.int4
uint2: type = ml_dtypes.uint2
uint4: type = ml_dtypes.uint4


def _dtypes_of(*scalar_types: Any) -> list[np.dtype]:
    return [np.dtype(t) for t in scalar_types]


float4_dtypes = _dtypes_of(float4_e2m1fn)
float6_dtypes = _dtypes_of(float6_e2m3fn, float6_e3m2fn)
float8_dtypes = _dtypes_of(
    float8_e3m4,
    float8_e4m3,
    float8_e8m0fnu,
    float8_e4m3b11fnuz,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
)
mini_float_dtypes = [*float4_dtypes, *float6_dtypes, *float8_dtypes]
bfloat16_dtype = np.dtype(bfloat16)
intn_dtypes = _dtypes_of(int2, uint2, int4, uint4)
signed_types = _dtypes_of(int2, int4, np.int8, np.int16, np.int32, np.int64)
unsigned_types = _dtypes_of(uint2, uint4, np.uint8, np.uint16, np.uint32, np.uint64)
ml_dtypes_has_int1 = hasattr(ml_dtypes, "int1")  # 0.6 and above
if ml_dtypes_has_int1:
    int1: type = ml_dtypes.int1
    uint1: type = ml_dtypes.uint1
    intn_dtypes += _dtypes_of(int1, uint1)
    signed_types.insert(0, np.dtype(int1))
    unsigned_types.insert(0, np.dtype(uint1))

custom_float_dtypes = [*mini_float_dtypes, bfloat16_dtype]
custom_float_scalar_types = [d.type for d in custom_float_dtypes]
bool_types = _dtypes_of(np.bool_)
int_types = [*unsigned_types, *signed_types]
float_types = [*custom_float_dtypes, *_dtypes_of(np.float16, np.float32, np.float64)]
complex_types = _dtypes_of(np.complex64, np.complex128)
jax_types = [*bool_types, *int_types, *float_types, *complex_types]
weak_types: list[Any] = [int, float, complex]

string_dtype: Any = np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else None
jax_dtype_set = {float0, *jax_types} | ({string_dtype} if string_dtype is not None else set())

dtype_kinds: dict[str, set[DType]] = {
    "bool": set(bool_types),
    "signed integer": set(signed_types),
    "unsigned integer": set(unsigned_types),
    "integral": set(int_types),
    "real floating": set(float_types),
    "complex floating": set(complex_types),
    "numeric": {*int_types, *float_types, *complex_types},
}

# Every valid dtype, and the one it becomes unless jax_enable_x64 is set.
dtype_to_32bit_dtype: dict[DType, DType] = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
    np.dtype("complex128"): np.dtype("complex64"),
}
to_32bit: dict[DType, DType] = {d: dtype_to_32bit_dtype.get(d, d) for d in jax_dtype_set}

float32_dtype = np.dtype("float32")
float64_dtype = np.dtype("float64")
bool_dtype = np.dtype("bool")


def supports_inf(dtype: DTypeLike) -> bool:
    """Whether a floating-point dtype has infinities."""
    return np.dtype(dtype) in _types_with_inf


_types_with_inf = frozenset(
    d
    for d in [*float_types, *complex_types]
    if d not in mini_float_dtypes or d in _dtypes_of(float8_e3m4, float8_e4m3, float8_e5m2)
)


@export
def itemsize_bits(dtype: DTypeLike) -> int:
    """The number of bits of one element of a dtype.

    Raises:
      ValueError: `dtype` is not a dtype of numbers or booleans.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> jax.dtypes.itemsize_bits(jnp.int4), jax.dtypes.itemsize_bits("float32")
      (4, 32)
    """
    if isinstance(dtype, ExtendedDType):
        bits = None
    else:
        bits = bits_of.get(np.dtype(dtype))
    if bits is None:
        raise ValueError(f"itemsize_bits takes a type of numbers or booleans, got {dtype!r}")
    return bits


bit_width = itemsize_bits
bits_of: dict[DType, int] = {d: 8 * d.itemsize for d in jax_types}
bits_of.update({d: int(d.name.removeprefix("u").removeprefix("int")) for d in intn_dtypes})
bits_of.update({d: 4 for d in float4_dtypes} | {d: 6 for d in float6_dtypes})


# Names


def short_dtype_name(dtype: Any) -> str:
    """The name of a dtype in jaxprs: f32, i32, bf16, c64, bool, key<fry>, …"""
    if isinstance(dtype, ExtendedDType):
        return str(dtype)
    name = _short_names.get(dtype)
    return dtype.name if name is None else name


dtype_to_string = short_dtype_name


def dtype_name(dtype: Any) -> str:
    """The name of a dtype in the types of arrays: float32, bfloat16, key<fry>, …"""
    return str(dtype) if isinstance(dtype, ExtendedDType) else _long_names.get(dtype, dtype.name)


_long_names: dict[DType, str] = {d: d.name for d in jax_types} | {float0: "float0"}


def _shorten(name: str) -> str:
    for long, short in (("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        name = name.replace(long, short)
    return name


_short_names: dict[DType, str] = {d: _shorten(d.name) for d in jax_types} | {float0: "float0"}
if string_dtype is not None:
    _short_names[string_dtype] = "str"


# Relations between dtypes


def is_subclass(a: Any, b: Any) -> bool:
    try:
        return issubclass(a, b)
    except TypeError:  # not classes
        return False


_types_for_issubdtype = (type, np.dtype, ExtendedDType)


@export
def issubdtype(a: Any, b: Any) -> bool:
    """Whether the dtype `a` is, or belongs to, the dtype or class of dtypes `b`.

    Like `numpy.issubdtype`, with support for small floats and integers and extended dtypes.

    Args:
      a, b: dtypes, scalar classes such as `jnp.floating`, or names of them.

    Example:
      >>> import jax.numpy as jnp
      >>> jnp.issubdtype(jnp.bfloat16, jnp.floating), jnp.issubdtype(jnp.int4, jnp.unsignedinteger)
      (True, False)
    """
    return _issubdtype_cached(
        a if isinstance(a, _types_for_issubdtype) else np.dtype(a),
        b if isinstance(b, _types_for_issubdtype) else np.dtype(b),
    )


@functools.lru_cache(512)
def _issubdtype_cached(a: Any, b: Any) -> bool:
    a_is_extended = isinstance(a, ExtendedDType)
    b_is_extended = isinstance(b, ExtendedDType)
    if is_subclass(a, extended) or is_subclass(b, extended) or a_is_extended or b_is_extended:
        if b_is_extended:
            return bool(a_is_extended and a == b)
        return is_subclass(a.type if a_is_extended else a, b)

    a_class = a if is_subclass(a, np.generic) else np.dtype(a).type
    b_class = b if is_subclass(b, np.generic) else np.dtype(b).type
    above = _classes_above.get(a_class)
    if above is not None:
        return b_class is a_class or b_class in above
    return bool(np.issubdtype(a_class, b_class))


# NumPy does not know that the scalar classes of ml_dtypes are numbers.
_FLOATING = (np.floating, np.inexact, np.number, np.generic)
_SIGNED = (np.signedinteger, np.integer, np.number, np.generic)
_UNSIGNED = (np.unsignedinteger, np.integer, np.number, np.generic)
_classes_above: dict[type, tuple[type, ...]] = {
    **{d.type: _FLOATING for d in custom_float_dtypes},
    **{d.type: _SIGNED if d in signed_types else _UNSIGNED for d in intn_dtypes},
}

abstract_types: tuple[Any, ...] = (
    np.generic,
    np.number,
    np.inexact,
    np.floating,
    np.complexfloating,
    np.integer,
    np.signedinteger,
    np.unsignedinteger,
    np.flexible,
    np.character,
    extended,
    prng_key,
)
