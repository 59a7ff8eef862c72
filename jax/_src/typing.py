"""Types for annotations."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Protocol, Union, runtime_checkable

import numpy as np

from jax._src.lib import _jax

DType = np.dtype


@runtime_checkable
class SupportsDType(Protocol):
    """Has a `dtype`."""

    @property
    def dtype(self) -> DType: ...


class DuckTypedArray(Protocol):
    """Has a `shape` and a `dtype`: arrays, avals, `jax.ShapeDtypeStruct`."""

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


# Anything that stands for a dtype: "float32", float, np.float32, np.dtype("float32"), an array, …
DTypeLike = Union[str, type[Any], np.dtype, SupportsDType]  # noqa: UP007
ExtendedDType = Any

DimSize = Any  # an int, or a symbolic dimension of jax.export
Shape = Sequence[DimSize]

Array = _jax.Array
ArrayLike = Union[Array, np.ndarray, np.bool_, np.number, bool, int, float, complex]  # noqa: UP007
StaticScalar = Union[np.bool_, np.number, bool, int, float, complex]  # noqa: UP007


class DLDeviceType(enum.IntEnum):
    """Device types of the DLPack protocol."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLROCM = 10
