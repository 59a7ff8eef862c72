"""Scalar types such as `jnp.float32`: they name a dtype, and calling one makes an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.numpy.array_constructors import asarray

_DOC = """The type {name} of array elements, and a constructor of arrays of that type.

`jnp.{name}(x)` is `jnp.asarray(x, dtype=jnp.{name})`: a scalar is an array without dimensions.
"""


class _ScalarMeta(type):
    """Metaclass of the scalar types, which equal and hash like the NumPy type of the same dtype."""

    dtype: np.dtype

    def __hash__(self) -> int:
        return hash(self.dtype.type)

    def __eq__(self, other: Any) -> bool:
        return self is other or self.dtype.type == other

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __call__(self, x: Any) -> Array:
        if isinstance(x, str):
            x = self.dtype.type(x)
        return asarray(x, dtype=self.dtype)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self.dtype.type)

    @property
    def __numpy_dtype__(self) -> np.dtype:
        return self.dtype


def _scalar_type(scalar_class: type) -> _ScalarMeta:
    dtype = np.dtype(scalar_class)
    name = dtype.name
    return _ScalarMeta(
        name,
        (object,),
        {"dtype": dtype, "__module__": "jax.numpy", "__doc__": _DOC.format(name=name)},
    )


bool_ = _scalar_type(np.bool_)
uint2 = _scalar_type(dtypes.uint2)
uint4 = _scalar_type(dtypes.uint4)
uint8 = _scalar_type(np.uint8)
uint16 = _scalar_type(np.uint16)
uint32 = _scalar_type(np.uint32)
uint64 = _scalar_type(np.uint64)
int2 = _scalar_type(dtypes.int2)
int4 = _scalar_type(dtypes.int4)
int8 = _scalar_type(np.int8)
int16 = _scalar_type(np.int16)
int32 = _scalar_type(np.int32)
int64 = _scalar_type(np.int64)
float4_e2m1fn = _scalar_type(dtypes.float4_e2m1fn)
float6_e2m3fn = _scalar_type(dtypes.float6_e2m3fn)
float6_e3m2fn = _scalar_type(dtypes.float6_e3m2fn)
float8_e3m4 = _scalar_type(dtypes.float8_e3m4)
float8_e4m3 = _scalar_type(dtypes.float8_e4m3)
float8_e8m0fnu = _scalar_type(dtypes.float8_e8m0fnu)
float8_e4m3fn = _scalar_type(dtypes.float8_e4m3fn)
float8_e4m3fnuz = _scalar_type(dtypes.float8_e4m3fnuz)
float8_e5m2 = _scalar_type(dtypes.float8_e5m2)
float8_e5m2fnuz = _scalar_type(dtypes.float8_e5m2fnuz)
float8_e4m3b11fnuz = _scalar_type(dtypes.float8_e4m3b11fnuz)
bfloat16 = _scalar_type(dtypes.bfloat16)
float16 = _scalar_type(np.float16)
float32 = single = _scalar_type(np.float32)
float64 = double = _scalar_type(np.float64)
complex64 = csingle = _scalar_type(np.complex64)
complex128 = cdouble = _scalar_type(np.complex128)
if dtypes.ml_dtypes_has_int1:
    int1 = _scalar_type(dtypes.int1)
    uint1 = _scalar_type(dtypes.uint1)

# These names stand for the 64-bit types, whatever the default precision.
int_ = int64
uint = uint64
float_ = float64
complex_ = complex128
