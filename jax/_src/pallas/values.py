"""What arrays hold that nothing was written to, and elements beyond the end of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.core import AbstractRef, typeof
from jax._src.lax import lax
from jax._src.random import prng
from jax._src.state.types import stored_aval


def uninitialized_scalar(dtype: Any) -> Any:
    """Return the value of elements without one: NaN, the least integer, or False.

    Args:
      dtype: the type of the elements.
    """
    if isinstance(dtype, dtypes.ExtendedDType):
        raise NotImplementedError(f"arrays of type {dtype} in kernels that are interpreted")
    if dtype == np.bool_:
        return np.zeros((), np.bool_)
    if dtypes.issubdtype(dtype, np.integer):
        return np.asarray(dtypes.iinfo(dtype).min, dtype)
    if dtypes.issubdtype(dtype, np.complexfloating):
        return np.asarray(complex(np.nan, np.nan), dtype)
    return np.asarray(np.nan).astype(dtype)


def uninitialized(aval: Any) -> Any:
    """Return an array of elements without a value."""
    return lax.full(aval.shape, uninitialized_scalar(aval.dtype), aval.dtype)


def initial_value(ref_aval: AbstractRef) -> Any:
    """Return what a new reference is discharged to: elements without a value, or a semaphore's zero."""
    if isinstance(ref_aval.dtype, dtypes.ExtendedDType):
        stored = stored_aval(ref_aval)
        return lax.full(stored.shape, 0, stored.dtype)
    return uninitialized(ref_aval.inner_aval)


def as_array(x: Any) -> Any:
    """Return an array, NumPy array or number as an array that is not weakly typed."""
    dtype = typeof(x).dtype
    return x if isinstance(dtype, dtypes.ExtendedDType) else lax.convert_element_type(x, dtype)


def is_key(dtype: Any) -> bool:
    """Whether a dtype is one of keys."""
    return isinstance(dtype, prng.KeyTy)


def words_of(keys: Any) -> Any:
    """Return the words of keys; other arrays as they are."""
    return prng.random_unwrap(keys) if is_key(getattr(keys, "dtype", None)) else keys


def as_typed(words: Any, aval: Any) -> Any:
    """Return words as keys, where that is the type of an array; other arrays as they are."""
    dtype = getattr(aval, "dtype", None)
    return prng.random_wrap(words, impl=dtype._impl) if is_key(dtype) else words
