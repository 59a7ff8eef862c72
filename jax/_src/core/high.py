"""High types: types of values that arrays of other types represent, and data that changes with them.

A jaxpr may have operations on values of high types. Before it is compiled, it is replaced by one of
arrays (`jax._src.interpreters.lojax`). The types themselves are in `jax._src.hijax`.

Some of these values are mutable. How many arrays represent one, and of which types, may change while
a function runs: that is its quasi-dynamic data (qdd), which is known while the function is traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax._src.core.avals import AbstractValue
from jax._src.core.trace import trace_ctx
from jax._src.partition_spec import PartitionSpec


class MappingSpec:
    """The base class of axis specs of `vmap` for values of high types.

    A subclass says which axes of the arrays that represent a value are mapped. It must be hashable;
    only the methods `dec_rank` and `inc_rank` of the type read it.
    """


class HiPspec:
    """The base class of specs of `shard_map` for values of high types."""

    def to_lo(self) -> tuple[PartitionSpec, ...]:
        """One `PartitionSpec` for each of the arrays that represent a value."""
        raise NotImplementedError(f"{type(self).__name__} must define `to_lo`: specs of arrays")

    def to_tangent_spec(self) -> Any:
        """The spec of tangents of values with this spec."""
        raise NotImplementedError(f"{type(self).__name__} must define `to_tangent_spec`")

    def to_ct_spec(self) -> Any:
        """The spec of cotangents of values with this spec."""
        raise NotImplementedError(f"{type(self).__name__} must define `to_ct_spec`")


class QuasiDynamicData:
    """What is known, while a function is traced, of the present state of a mutable value."""

    def to_tangent_qdd(self) -> QuasiDynamicData:
        """The data of a tangent of the value."""
        raise NotImplementedError(f"{type(self).__name__} has no `to_tangent_qdd`")

    def normalize(self) -> QuasiDynamicData:
        """The data without weak types."""
        return self


class MutableQuasiDynamicData:
    """The quasi-dynamic data of a value while a function is traced, which operations change.

    Args:
      val: the data at first.

    Attributes:
      init_val: the data at first.
      cur_val: the data now.
    """

    __slots__ = ("init_val", "cur_val")

    def __init__(self, val: Any):
        self.init_val = val
        self.cur_val = val

    def update(self, val: Any) -> None:
        """Set the data."""
        self.cur_val = val

    def __repr__(self) -> str:
        return f"MutableQuasiDynamicData(init_val={self.init_val}, cur_val={self.cur_val})"


@dataclass(frozen=True, slots=True)
class AvalQDD:
    """The type of a mutable value, and its quasi-dynamic data.

    Args:
      aval: the type, a `MutableHiType`.
      qdd: the data.
    """

    aval: Any
    qdd: Any

    has_qdd = True
    is_high = True

    @property
    def is_writer(self) -> bool:
        """Whether values are only written to, so that a function need not be given their state."""
        return bool(self.aval.is_writer)

    def lo_ty(self) -> list[AbstractValue]:
        """The types of the arrays that represent the value."""
        types: list[AbstractValue] = self.aval.lo_ty_qdd(self.qdd)
        return types

    def read_loval(self, val: object) -> list[Any]:
        """The arrays that represent the value."""
        arrays: list[Any] = self.aval.read_loval(self.qdd, val)
        return arrays

    def read_loval_in(self, val: object) -> list[Any]:
        """The arrays that a function is given for the value."""
        arrays: list[Any] = self.aval.read_loval_in(self.qdd, val)
        return arrays

    def read_loval_out(self, val: object) -> Any:
        """The arrays that a function returns for the value, as a `FlatTree`."""
        return self.aval.read_loval_out(self.qdd, val)

    def new_from_loval(self, *lovals: object) -> Any:
        """A value that these arrays represent."""
        return self.aval.new_from_loval(self.qdd, *lovals)

    def to_tangent_aval(self) -> AvalQDD:
        """The type and data of a tangent."""
        return AvalQDD(self.aval.to_tangent_aval(), self.qdd and self.qdd.to_tangent_qdd())


@dataclass(frozen=True, slots=True)
class AvalMutableQDD:
    """The type of a mutable operand, as the abstract evaluation of a `HiPrimitive` gets it.

    Args:
      aval: the type, a `MutableHiType`.
      mutable_qdd: the data, which abstract evaluation may update.
    """

    aval: Any
    mutable_qdd: MutableQuasiDynamicData


def cur_qdd(x: Any) -> Any:
    """The present quasi-dynamic data of a mutable value of a high type, or of a tracer of one.

    >>> from jax.experimental import cur_qdd
    >>> from jax._src.hijax import Box
    >>> print(cur_qdd(Box(1)).leaf_avals)
    (ShapedArray(int32[], weak_type=True),)
    """
    return trace_ctx.trace.cur_qdd(x)


def with_qdds(avals: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """Types of values, with the quasi-dynamic data of those that have some."""
    return tuple([AvalQDD(a, cur_qdd(x)) if a.has_qdd else a for a, x in zip(avals, values)])


class _InUse:
    """Whether there may be high types at all: `jax._src.hijax` has been imported."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = False


high_types_in_use = _InUse()
