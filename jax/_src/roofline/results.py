"""The types of `jax.experimental.roofline`: costs, shapes, and what a rule knows of an equation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from jax._src import core, source_info_util
from jax._src.mesh import AbstractMesh, Mesh
from jax._src.random.prng import KeyTy

ValidRooflineDtype = np.dtype | KeyTy


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineShape:
    """The shape and dtype of an operand, for rules."""

    shape: tuple[int, ...]
    dtype: ValidRooflineDtype

    @classmethod
    def from_aval(cls, aval: core.AbstractValue) -> RooflineShape:
        """The shape of an array type; ValueError for other types."""
        if not isinstance(aval, core.ShapedArray):
            raise ValueError(f"roofline: a value of type {aval} is not an array.")
        return cls(shape=aval.shape, dtype=aval.dtype)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return self.size * self.dtype.itemsize

    @classmethod
    def total_bytes(cls, avals: Sequence[core.AbstractValue]) -> int:
        """The sum over several types."""
        return sum(cls.from_aval(aval).bytes for aval in avals)


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineResult:
    """What a function costs, on one device.

    Attributes:
      flops: floating-point operations of matrix products, which cannot be fused with others.
      unfused_flops: all floating-point operations.
      ici_bytes: bytes that go through the links of each mesh axis.
      ici_latency: hops along each mesh axis.
      hbm_bytes: bytes that matrix products read and write in the device's memory.
      peak_hbm_bytes: the most bytes in use at a time.
      unfused_hbm_bytes: bytes read and written if nothing is fused.
    """

    flops: int = 0
    unfused_flops: int = 0
    ici_bytes: dict[str, int] = field(default_factory=dict)
    ici_latency: dict[str, int] = field(default_factory=dict)
    hbm_bytes: int = 0
    peak_hbm_bytes: int = 0
    unfused_hbm_bytes: int = 0

    @classmethod
    def zeros(cls) -> RooflineResult:
        """No costs."""
        return cls()

    def __add__(self, other: RooflineResult) -> RooflineResult:
        """The costs of one after the other."""
        return RooflineResult(
            flops=self.flops + other.flops,
            unfused_flops=self.unfused_flops + other.unfused_flops,
            ici_bytes=_sums(self.ici_bytes, other.ici_bytes),
            ici_latency=_sums(self.ici_latency, other.ici_latency),
            hbm_bytes=self.hbm_bytes + other.hbm_bytes,
            peak_hbm_bytes=max(self.peak_hbm_bytes, other.peak_hbm_bytes),
            unfused_hbm_bytes=self.unfused_hbm_bytes + other.unfused_hbm_bytes,
        )


def _sums(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    axes: Iterable[str] = dict.fromkeys((*a, *b))
    return {axis: a.get(axis, 0) + b.get(axis, 0) for axis in axes}


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineRuleContext:
    """What a rule knows of an equation besides operands and parameters.

    Attributes:
      name_stack: the names around it.
      primitive: its primitive.
      avals_in, avals_out: the types of its operands and results.
      jaxpr_eqn_ctx: the context that it was traced in.
      mesh: the mesh of the `shard_map` around it, or that given to `roofline`.
      pin_lhs_in_vmem, pin_rhs_in_vmem: whether operands of matrix products need not be read.
    """

    name_stack: source_info_util.NameStack
    primitive: core.Primitive
    avals_in: Sequence[core.AbstractValue]
    avals_out: Sequence[core.AbstractValue]
    jaxpr_eqn_ctx: core.JaxprEqnContext
    mesh: Mesh | AbstractMesh | None
    pin_lhs_in_vmem: bool
    pin_rhs_in_vmem: bool


class RooflineRule(Protocol):
    """A rule: the costs of an equation."""

    def __call__(
        self, ctx: RooflineRuleContext, *args: RooflineShape, **kw: Any
    ) -> RooflineResult: ...
