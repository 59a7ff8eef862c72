"""Abstract values of inputs that are not `jax.Array`: Python scalars, NumPy scalars and arrays."""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from jax._src import config, dtypes, literals
from jax._src.core.avals import ShapedArray, Token, abstract_token, pytype_aval_mappings

_x64 = config.enable_x64

# The canonical dtype of each valid dtype: with 64-bit types disabled, then enabled.
_canonical_dtypes: tuple[dict[Any, Any], dict[Any, Any]] = tuple(
    {d: dtypes.canonical_dtype_for(x64, False, d) for d in dtypes.jax_dtype_set}
    for x64 in (False, True)
)  # type: ignore[assignment]

numpy_scalar_types: set[type] = {d.type for d in dtypes.jax_types} | {np.longlong}
array_types: set[type] = numpy_scalar_types | {np.ndarray, literals.TypedNdArray}


def canonical_dtype(dtype: Any) -> Any:
    """The dtype that values of type `dtype` get in arrays; TypeError if arrays cannot hold them."""
    canonical = _canonical_dtypes[_x64.value].get(dtype)
    if canonical is None:
        dtypes.check_valid_dtype(dtype)
        return dtype
    return canonical


def _ndarray_aval(x: np.ndarray) -> ShapedArray:
    if type(x) is not np.ndarray and is_masked_array(x):
        masked_array_error(x)
    return ShapedArray(x.shape, canonical_dtype(x.dtype))


def _numpy_scalar_aval(x: np.generic) -> ShapedArray:
    return ShapedArray((), canonical_dtype(x.dtype))


# Types of Python scalars: with 64-bit types disabled, then enabled.
_bool_aval = ShapedArray((), np.bool_)
_int_avals = tuple(ShapedArray((), d, True) for d in (np.int32, np.int64))
_float_avals = tuple(ShapedArray((), d, True) for d in (np.float32, np.float64))
_complex_avals = tuple(ShapedArray((), d, True) for d in (np.complex64, np.complex128))


def _int_aval(x: int) -> ShapedArray:
    if _x64.value:
        if -0x8000000000000000 <= x <= 0x7FFFFFFFFFFFFFFF:
            return _int_avals[1]
    elif -0x80000000 <= x <= 0x7FFFFFFF:
        return _int_avals[0]
    hint = "" if _x64.value else "; jax.config.update('jax_enable_x64', True) gives 64-bit types"
    raise OverflowError(
        f"Python int {x} too large to convert to {_int_avals[_x64.value].dtype}{hint}"
    )


def _typed_scalar_aval(x: Any) -> ShapedArray:
    return ShapedArray((), x.dtype, True)


pytype_aval_mappings.update(
    {
        bool: lambda x: _bool_aval,
        int: _int_aval,
        float: lambda x: _float_avals[_x64.value],
        complex: lambda x: _complex_avals[_x64.value],
        np.ndarray: _ndarray_aval,
        literals.TypedNdArray: operator.attrgetter("aval"),
        literals.TypedInt: _typed_scalar_aval,
        literals.TypedFloat: _typed_scalar_aval,
        literals.TypedComplex: _typed_scalar_aval,
        Token: lambda x: abstract_token,
    }
)
for _t in numpy_scalar_types:
    pytype_aval_mappings[_t] = _numpy_scalar_aval

dtypes.canonicalize_value_handlers[Token] = lambda x: x


# Masked arrays are ndarrays, but conversion would silently drop the mask, so they are refused.


def is_masked_array(x: Any) -> bool:
    """Whether `x` is a masked array, without the cost of importing numpy.ma."""
    ma = sys.modules.get("numpy.ma")
    return ma is not None and isinstance(x, ma.MaskedArray)


def masked_array_error(x: Any) -> Any:
    raise ValueError(
        "numpy masked arrays are not supported as direct inputs to JAX functions. Use arr.filled() to"
        " convert the value to a standard numpy array."
    )
