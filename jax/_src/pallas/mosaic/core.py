"""What kernels for TPUs have besides: memory spaces, compiler parameters, prefetched operands."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from jax._src.core import AbstractRef, ShapedArray
from jax._src.pallas.blocks import no_block_spec
from jax._src.pallas.grids import GridSpec
from jax._src.pallas.memory import MemoryRef, memory_ref


class MemorySpace(enum.Enum):
    """The memory spaces of a TPU. Calling one makes the type of a reference in it."""

    VMEM = "vmem"
    VMEM_SHARED = "vmem_shared"
    SMEM = "smem"
    CMEM = "cmem"
    SEMAPHORE = "semaphore_mem"
    HBM = "hbm"

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return self.name

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        """Return the type of a reference to an array of this shape and dtype."""
        return memory_ref(shape, dtype, self)


@dataclasses.dataclass(init=False)
class PrefetchScalarGridSpec(GridSpec):
    """A grid whose index maps take operands: the first arguments, which are in scalar memory.

    Args:
      num_scalar_prefetch: the number of those arguments.
      grid, in_specs, out_specs, scratch_shapes: as for `pl.GridSpec`; in_specs are those of the other
        arguments.
    """

    num_scalar_prefetch: int = 0

    def __init__(
        self,
        num_scalar_prefetch: int,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ):
        super().__init__(grid, in_specs, out_specs, scratch_shapes)
        self.num_scalar_prefetch = num_scalar_prefetch

    def scalar_ref_aval(self, aval: Any) -> AbstractRef:
        return AbstractRef(ShapedArray(aval.shape, aval.dtype), MemorySpace.SMEM)
