"""Memory spaces, and types of the references that a kernel is given to work with."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.core import AbstractRef, AbstractValue, ShapedArray, ShapeDtypeStruct
from jax._src.lax import lax
from jax._src.memory import MemorySpace as ArraySpace
from jax._src.state.primitives import new_ref_p
from jax._src.tree_util import PyTreeDef, tree_flatten


class MemorySpace(enum.Enum):
    """Memory spaces that every back end knows. Calling one makes the type of a reference in it."""

    ANY = "any"  # where the array is: the kernel copies what it needs
    DEFAULT = "default"  # where the back end puts blocks
    ERROR = "error"
    INDEX = "index"  # operands of index maps
    KEY = "key"
    HOST = "host"

    def __str__(self) -> str:
        return str(self.value)

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        """Return the type of a reference to an array of this shape and dtype."""
        return memory_ref(shape, dtype, self)


@dataclasses.dataclass(frozen=True)
class MemoryRef:
    """The type of a reference to be made for a kernel: that of its array, and the memory space.

    Args:
      inner_aval: the type of the array.
      memory_space: where it is.
    """

    inner_aval: AbstractValue
    memory_space: Any

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.inner_aval.shape

    @property
    def dtype(self) -> Any:
        return self.inner_aval.dtype

    def get_array_aval(self) -> AbstractValue:
        """Return the type of the array."""
        return self.inner_aval

    def get_ref_aval(self) -> AbstractRef:
        """Return the type of the reference."""
        return AbstractRef(self.inner_aval, self.memory_space)


def memory_ref(shape: Sequence[int], dtype: Any, space: Any) -> MemoryRef:
    if isinstance(shape, int):
        shape = (shape,)
    check_not_negative(shape, "A type of references")
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "MemoryRef")
    return MemoryRef(ShapedArray(tuple(shape), dtype), space)


def check_not_negative(shape: Sequence[Any], what: str) -> None:
    """Raise a ValueError if a shape has a size that is known to be negative."""
    for i, d in enumerate(shape):
        if isinstance(d, (int, np.integer)) and d < 0:
            raise ValueError(
                f"{what} has the shape {tuple(shape)}, whose dimension {i} has a negative size. Sizes are 0 or more."
            )


def in_device_memory(aval: Any) -> Any:
    """Return the type of an array without the memory space of a back end."""
    if getattr(aval, "memory_space", ArraySpace.Device) in (ArraySpace.Device, ArraySpace.Host):
        return aval
    return aval.update(memory_space=ArraySpace.Device)


def ref_avals_of(types: Any, where: str) -> tuple[list[AbstractRef], PyTreeDef]:
    """Flatten a tree of types of references.

    Raises:
      TypeError: if a leaf is none.
    """
    is_type = lambda x: x is None or hasattr(x, "get_ref_aval") or isinstance(x, AbstractRef)
    flat, tree = tree_flatten(types, is_leaf=is_type)
    return [_ref_aval_of(t, where) for t in flat], tree


def _ref_aval_of(what: Any, where: str) -> AbstractRef:
    if isinstance(what, AbstractRef):
        return what
    make = getattr(what, "get_ref_aval", None)
    if make is None:
        raise TypeError(
            f"{where} must be types of references, such as pltpu.VMEM((8, 128), jnp.float32), got {what!r} of "
            f"type {type(what)}."
        )
    return make()


def empty_ref_like(x: Any) -> Any:
    """Make a reference to an array without values, outside of kernels.

    Args:
      x: the type of the reference, such as `pltpu.VMEM((8, 128), jnp.float32)`, or a
        `jax.ShapeDtypeStruct`, for `pl.ANY`.

    Raises:
      ValueError: if it is something else.

    >>> pl.empty_ref_like(jax.ShapeDtypeStruct((2, 3), jnp.float32)).shape
    (2, 3)
    """
    if isinstance(x, ShapeDtypeStruct):
        x = memory_ref(x.shape, x.dtype, MemorySpace.ANY)
    if not hasattr(x, "get_ref_aval"):
        raise ValueError(
            f"empty_ref_like does not support {type(x)}: give it the type of a reference, such as "
            "pltpu.VMEM((8, 128), jnp.float32), or a jax.ShapeDtypeStruct."
        )
    aval = x.get_ref_aval()
    value = lax.empty(aval.shape, aval.dtype)
    return new_ref_p.bind(value, memory_space=aval.memory_space, kind=None)
