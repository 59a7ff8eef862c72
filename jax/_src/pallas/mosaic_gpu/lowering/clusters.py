"""The blocks of a cluster, and the groups of them along some of its axes."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from jax._src.core import Jaxpr, subjaxprs
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith
from jax._src.pallas.mosaic_gpu.copies import (
    async_store_smem_p,
    barrier_arrive_p,
    copy_gmem_to_smem_p,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer
from jax._src.pallas.mosaic_gpu.lowering.views import row_major
from jax._src.pallas.mosaic_gpu.memory_operations import try_cluster_cancel_p
from jax._src.pallas.mosaic_gpu.transforms import ClusterRef, refers_through


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The cluster that a block is in. Its blocks are numbered in row-major order.

    Attributes:
      sizes: how many blocks it has along each axis, by name.
      at: the block's position along each axis.
    """

    sizes: Mapping[Hashable, int]
    at: Mapping[Hashable, Index]

    @property
    def size(self) -> int:
        return math.prod(self.sizes.values())

    def _strides(self) -> dict[Hashable, int]:
        return dict(zip(self.sizes, row_major(list(self.sizes.values()))))

    def numbers(self, axes: Sequence[Hashable]) -> list[int]:
        """Return the numbers of the blocks along some axes, in row-major order of these, less the first one's.

        Raises:
          ValueError: if the cluster has no such axes.
        """
        unknown = [a for a in axes if a not in self.sizes]
        if unknown:
            raise ValueError(
                f"{unknown} are no axes of the cluster, which has {list(self.sizes)}: name them by cluster_names of plgpu.kernel."
            )
        strides = self._strides()
        ranges = [range(self.sizes[a]) for a in axes]
        return [
            sum([i * strides[a] for i, a in zip(at, axes)]) for at in itertools.product(*ranges)
        ]

    def first(self, axes: Sequence[Hashable]) -> Index:
        """Return the number of the first of the blocks that are in one line with this one along some axes."""
        out = Index()
        for name, stride in self._strides().items():
            if name not in axes:
                out += self.at[name] * stride
        return out

    def position(self, axes: Sequence[Hashable]) -> Index:
        """Return which of the blocks along some axes this one is."""
        out = Index()
        for name in axes:
            out = out * self.sizes[name] + self.at[name]
        return out

    def number(self, at: Mapping[Hashable, Index]) -> Index:
        """Return the number of the block at positions along some axes, and that of this one along others.

        Raises:
          ValueError: if the cluster has no such axes.
        """
        self.numbers(list(at))  # checks the axes
        out = Index()
        for name, stride in self._strides().items():
            out += at.get(name, self.at[name]) * stride
        return out

    def pair(self, axes: Sequence[Hashable]) -> Index:
        """Return which of the two blocks along some axes this one is.

        Raises:
          ValueError: if these are not two blocks beside each other.
        """
        if self.numbers(axes) != [0, 1]:
            raise ValueError(
                f"Blocks copy or multiply in pairs, of blocks beside each other: the axis {list(axes)} must be the last of the cluster's axes "
                f"{list(self.sizes)}, and of size 2."
            )
        return self.position(axes)

    def mask(self, groups: Sequence[Sequence[Hashable]], only_first: bool = False) -> Any:
        """Emit the set of blocks that are in one line with this one along any of several groups of axes.

        Args:
          groups: the groups of axes.
          only_first: whether only the first block of each line is meant.

        Returns:
          A value with a bit for each block of the cluster.
        """
        out: Any = None
        for axes in groups:
            numbers = self.numbers(axes)[:1] if only_first else self.numbers(axes)
            bits = integer(sum([1 << n for n in numbers]))
            part = arith.shli(bits, self.first(axes).value(bits.type))
            out = part if out is None else arith.ori(out, part)
        return out

    def count(self, groups: Sequence[Sequence[Hashable]]) -> int:
        """Return how many blocks are in one line with any one block along any of several groups of axes."""
        return len({n for axes in groups for n in self.numbers(axes)})


def groups_of(collective_axes: Sequence[Any]) -> list[tuple[Hashable, ...]]:
    """Return the groups of axes of a barrier: each of its axes, or tuple of axes, is one."""
    return [a if isinstance(a, tuple) else (a,) for a in collective_axes]


def reaches_other_blocks(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr copies to the shared memory of other blocks of the cluster, or arrives at their barriers."""
    for eqn in jaxpr.eqns:
        if eqn.primitive is copy_gmem_to_smem_p and eqn.params["collective_axes"] is not None:
            return True
        if eqn.params.get("collective_axis") is not None:  # of products and their arrivals
            return True
        if eqn.primitive in (try_cluster_cancel_p, async_store_smem_p) or refers_through(
            eqn, ClusterRef
        ):
            return True
        if eqn.primitive is barrier_arrive_p:
            dtype = eqn.invars[0].aval.dtype
            if dtype.collective_axes is not None:
                return True
    return any(map(reaches_other_blocks, subjaxprs(jaxpr)))


def narrow(mask: Any) -> Any:
    """Return a set of blocks as copies take it."""
    return arith.trunci(ir.IntegerType.get_signless(16), mask)
