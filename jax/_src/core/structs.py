"""`ShapeDtypeStruct`: a stand-in for an array, with its type but no data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src import dtypes
from jax._src.core.avals import (
    ManualAxisType,
    ShapedArray,
    canonicalize_shape,
    empty_mat,
    pytype_aval_mappings,
)
from jax._src.layout import Format, Layout
from jax._src.memory import SPACE_OF_KIND, MemorySpace
from jax._src.mesh import get_abstract_mesh
from jax._src.named_sharding import NamedSharding, explicit_part
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import Sharding

if TYPE_CHECKING:
    from collections.abc import Sequence


def _canonical_sizes(shape: Any) -> tuple[Any, ...]:
    """The shape; None stands for a size that `jax.export.symbolic_args_specs` is to fill in."""
    if isinstance(shape, (tuple, list)) and any([d is None for d in shape]):
        return tuple([d if d is None else canonicalize_shape((d,))[0] for d in shape])
    return canonicalize_shape(shape)


class ShapeDtypeStruct:
    """Shape, dtype and other static attributes of an array.

    Args:
      shape: a sequence of integers.
      dtype: a dtype.
      sharding: a `Sharding` or `Format`; or a `PartitionSpec` for the mesh in context.
      weak_type: whether the dtype is weak.
      manual_axis_type: how the array varies over manual mesh axes.
      is_ref: whether it stands for a mutable reference.

    >>> jax.eval_shape(jnp.sum, jax.ShapeDtypeStruct((2, 3), jnp.float32))
    ShapeDtypeStruct(shape=(), dtype=float32)
    """

    __slots__ = (
        "shape",
        "dtype",
        "_sharding",
        "_layout",
        "weak_type",
        "manual_axis_type",
        "is_ref",
    )

    def __init__(
        self,
        shape: Any,
        dtype: Any,
        *,
        sharding: Sharding = None,
        weak_type: bool = False,
        manual_axis_type: Any = None,
        is_ref: bool = False,
    ) -> None:
        if shape is None:
            raise ValueError("ShapeDtypeStruct: shape must be specified, got None.")
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified, got None.")
        if manual_axis_type is not None and not isinstance(manual_axis_type, ManualAxisType):
            raise TypeError(
                "ShapeDtypeStruct: manual_axis_type must be a jax.sharding.ManualAxisType, got "
                f"{manual_axis_type!r} of type {type(manual_axis_type)}."
            )
        self.shape = _canonical_sizes(shape)
        self.dtype = dtype if isinstance(dtype, dtypes.ExtendedDType) else np.dtype(dtype)
        self._layout = None
        if hasattr(sharding, "layout") and hasattr(sharding, "sharding"):
            self._layout, sharding = sharding.layout, sharding.sharding
            if self._layout is Layout.AUTO:
                raise TypeError(
                    "ShapeDtypeStruct stands for an array, whose layout is known: Layout.AUTO cannot be"
                    " its layout. Pass a Format with Layout.AUTO to the in_shardings or out_shardings of"
                    " jax.jit."
                )
        if isinstance(sharding, PartitionSpec):
            mesh = get_abstract_mesh()
            if mesh.empty:
                raise TypeError(
                    "When specifying PartitionSpec to `ShapeDtypeStruct`, the context mesh cannot be "
                    f"empty: set one with jax.set_mesh. Got sharding {sharding}."
                )
            sharding._check_compatible_wrt_shape(self.shape)
            sharding = NamedSharding(mesh, sharding)
        elif sharding is not None:
            if not isinstance(sharding, Sharding):
                raise ValueError(
                    "ShapeDtypeStruct: sharding must be a jax.sharding.Sharding, a "
                    "jax.sharding.PartitionSpec or a jax.experimental.layout.Format, got "
                    f"{sharding!r} of type {type(sharding)}."
                )
            sharding.check_compatible_aval(self.shape)
        self._sharding = sharding
        self.weak_type = weak_type
        self.manual_axis_type = manual_axis_type
        self.is_ref = is_ref

    @classmethod
    def from_aval(cls, aval: Any) -> Any:
        """The struct of an array type; a high type stands for itself."""
        if aval.is_high and not hasattr(aval, "inner_aval"):  # references have shapes
            return aval
        return cls(
            aval.shape,
            aval.dtype,
            sharding=aval._sharding,
            weak_type=aval.weak_type,
            manual_axis_type=aval.manual_axis_type or None,
        )

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The struct of an array, or of any object with a shape and a dtype, with its layout."""
        return cls(
            x.shape,
            x.dtype,
            sharding=getattr(x, "format", None) or getattr(x, "sharding", None),
            weak_type=getattr(x, "weak_type", False),
        )

    @property
    def sharding(self) -> Any:
        return self._sharding

    @property
    def format(self) -> Any:
        return Format(self._layout, self._sharding)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def update(self, **kwargs: Any) -> ShapeDtypeStruct:
        """A copy with some attributes replaced."""
        sharding = kwargs.pop("sharding", self._sharding)
        fields = dict(
            weak_type=self.weak_type, manual_axis_type=self.manual_axis_type, is_ref=self.is_ref
        )
        shape, dtype = kwargs.pop("shape", self.shape), kwargs.pop("dtype", self.dtype)
        return ShapeDtypeStruct(shape, dtype, sharding=sharding, **{**fields, **kwargs})

    def _key(self) -> tuple[Any, ...]:
        return (
            self.shape, self.dtype, self._sharding, self._layout, self.weak_type,
            self.manual_axis_type, self.is_ref,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name) and name in ("shape", "dtype", "weak_type"):
            raise AttributeError(
                f"Cannot set attribute {name!r}: ShapeDtypeStruct is immutable. Use "
                f"x.update({name}=...) for a copy."
            )
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        placed = self._sharding if self._layout is None else self.format
        kwargs = dict(
            sharding=placed,
            weak_type=self.weak_type,
            manual_axis_type=self.manual_axis_type,
            is_ref=self.is_ref,
        )
        return (_rebuild, (self.shape, self.dtype, kwargs))

    def __repr__(self) -> str:
        parts = [f"shape={self.shape}", f"dtype={_dtype_text(self.dtype)}"]
        if self._sharding is not None:
            parts.append(f"sharding={self._sharding}")
        if self._layout is not None:
            parts.append(f"format={self._layout}")
        if self.weak_type:
            parts.append("weak_type=True")
        if self.manual_axis_type:
            parts.append(f"manual_axis_type={self.manual_axis_type}")
        if self.is_ref:
            parts.append("is_ref=True")
        return f"ShapeDtypeStruct({', '.join(parts)})"

    __str__ = __repr__


def _dtype_text(dtype: object) -> str:
    return dtype.name if isinstance(dtype, np.dtype) else str(dtype)


def _rebuild(shape: Sequence[Any], dtype: np.dtype[Any], kwargs: dict[str, Any]) -> Any:
    return ShapeDtypeStruct(shape, dtype, **kwargs)


def _struct_aval(x: ShapeDtypeStruct) -> ShapedArray:
    mat = x.manual_axis_type
    space = MemorySpace.Device
    sharding = x._sharding if isinstance(x._sharding, NamedSharding) else None
    if sharding is not None:
        mesh = sharding.mesh
        space = SPACE_OF_KIND.get(sharding.memory_kind, space)
        sharding = explicit_part(mesh, sharding.spec) if mesh._any_axis_explicit else None
    return ShapedArray(
        x.shape,
        dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True),
        x.weak_type,
        sharding=sharding,
        manual_axis_type=mat if isinstance(mat, ManualAxisType) and mat else empty_mat,
        memory_space=space,
    )


pytype_aval_mappings[ShapeDtypeStruct] = _struct_aval
