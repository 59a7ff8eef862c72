"""Python scalars and NumPy arrays that carry the dtype they have in computations.

jaxlib makes them when it canonicalizes arguments. They are subclasses of int, float, complex and
ndarray, so code that does not know them works unchanged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.late_binding import late
from jax._src.lib import _jax


class TypedInt(int):
    """An int with a dtype: int32 or int64."""

    dtype: np.dtype

    def __new__(cls, value: int, dtype: np.dtype) -> TypedInt:
        self = super().__new__(cls, value)
        self.dtype = dtype
        return self

    @property
    def aval(self) -> Any:
        return late.make_aval((), self.dtype, True)

    def __repr__(self) -> str:
        return f"TypedInt({int(self)}, dtype={self.dtype.name})"

    def __str__(self) -> str:
        return str(int(self))

    def __getnewargs__(self) -> tuple[int, np.dtype]:
        return int(self), self.dtype


class TypedFloat(float):
    """A float with a dtype: float32 or float64."""

    __slots__ = ("dtype",)

    def __new__(cls, value: float, dtype: np.dtype) -> TypedFloat:
        self = super().__new__(cls, value)
        self.dtype = dtype
        return self

    @property
    def aval(self) -> Any:
        return late.make_aval((), self.dtype, True)

    def __repr__(self) -> str:
        return f"TypedFloat({float(self)}, dtype={self.dtype.name})"

    def __str__(self) -> str:
        return str(float(self))

    def __getnewargs__(self) -> tuple[float, np.dtype]:
        return float(self), self.dtype


class TypedComplex(complex):
    """A complex number with a dtype: complex64 or complex128."""

    __slots__ = ("dtype",)

    def __new__(cls, value: complex, dtype: np.dtype) -> TypedComplex:
        self = super().__new__(cls, value)
        self.dtype = dtype
        return self

    @property
    def aval(self) -> Any:
        return late.make_aval((), self.dtype, True)

    def __repr__(self) -> str:
        return f"TypedComplex({complex(self)}, dtype={self.dtype.name})"

    def __str__(self) -> str:
        return str(complex(self))

    def __getnewargs__(self) -> tuple[complex, np.dtype]:  # type: ignore[override]
        return complex(self), self.dtype


class TypedNdArray(np.ndarray):
    """An ndarray of a canonical dtype, possibly weak. Operations on it return plain ndarrays."""

    _aval: Any

    def __new__(cls, val: np.ndarray, aval: Any = None) -> TypedNdArray:
        self = np.asarray(val).view(cls)
        self._aval = aval
        return self

    def __array_finalize__(self, obj: Any) -> None:
        self._aval = None

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        array = np.asarray(array)
        return array[()] if return_scalar else array

    @property
    def val(self) -> np.ndarray:
        """The same data as a plain ndarray."""
        return self.view(np.ndarray)

    @property
    def aval(self) -> Any:
        if self._aval is None:
            self._aval = late.make_aval(self.shape, self.dtype, False)
        return self._aval

    @property
    def weak_type(self) -> bool:
        return self._aval is not None and self._aval.weak_type

    def __repr__(self) -> str:
        text = np.array2string(self.val, separator=", ", prefix="TypedNdArray(")
        return f"TypedNdArray({text}, dtype={self.dtype.name})"

    def __str__(self) -> str:
        return str(self.val)

    def __reduce__(self) -> Any:
        return TypedNdArray, (self.val, self._aval)


typed_scalar_types: set[type] = {TypedInt, TypedFloat, TypedComplex}


def plain_scalar(x: Any) -> Any:
    """The Python number that a typed scalar was made of; other values as they are."""
    return x.__getnewargs__()[0] if type(x) in typed_scalar_types else x


for _typ in typed_scalar_types:
    dtypes.register_weak_scalar_type(_typ)
    dtypes.register_type_whose_dtype_should_not_be_canonicalized(_typ)
dtypes.register_type_whose_dtype_should_not_be_canonicalized(TypedNdArray)

_jax.set_typed_int_type(TypedInt)
_jax.set_typed_float_type(TypedFloat)
_jax.set_typed_complex_type(TypedComplex)
_jax.set_typed_ndarray_type(TypedNdArray)
