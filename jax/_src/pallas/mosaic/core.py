"""What kernels for TPUs have besides: memory spaces, compiler parameters, prefetched operands."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from jax._src.core import AbstractRef, ShapedArray
from jax._src.pallas.blocks import no_block_spec
from jax._src.pallas.grids import GridSpec
from jax._src.pallas.memory import MemoryRef, memory_ref


class LoweringException(Exception):
    """Mosaic refuses the module of a kernel."""


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


class GridDimensionSemantics(enum.Enum):
    """In which order, and where, the points along a dimension of the grid are run."""

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


DimensionSemantics = (
    Literal["parallel", "core_parallel", "subcore_parallel", "arbitrary"] | GridDimensionSemantics
)


class SideEffectType(enum.Enum):
    """Which other uses of a kernel the compiler may drop, or take for the same."""

    PURE = "pure"
    DATAFLOW_SIDE_EFFECTING = "dataflow_side_effecting"
    SIDE_EFFECTING = "side_effecting"


@dataclasses.dataclass(frozen=True)
class CompilerParams:
    """Options for Mosaic's compiler. Interpreted kernels run the same with any of them.

    Args:
      dimension_semantics: for each dimension of the grid, whether its points can be run in any order
        (`"parallel"`) or one after the other (`"arbitrary"`).
      allow_input_fusion: for each argument, whether what computes it may become part of the kernel.
      vmem_limit_bytes: how much vector memory the kernel may use.
      collective_id: which barrier semaphore it uses.
      has_side_effects: whether it must not be dropped or shared.
      flags: flags of the compiler.
      internal_scratch_in_bytes: scratch memory for the compiler.
      serialization_format: the version of the format of the kernel's module.
      disable_bounds_checks, disable_semaphore_checks: whether to leave out checks.
      skip_device_barrier: whether not to wait for other devices before.
      allow_collective_id_without_custom_barrier: whether collective_id is allowed without a barrier.
      shape_invariant_numerics: whether results do not depend on sizes of blocks.
      use_tc_tiling_on_sc: whether SparseCores tile as TensorCores.
      needs_layout_passes: whether layouts of vectors are inferred.
      fuse_transposed_lhs_in_matmul: whether transposes become part of products.
    """

    BACKEND: ClassVar[str] = "mosaic_tpu"

    dimension_semantics: Sequence[DimensionSemantics] | None = None
    allow_input_fusion: Sequence[bool] | None = None
    vmem_limit_bytes: int | None = None
    collective_id: int | None = None
    has_side_effects: bool | SideEffectType = False
    flags: Mapping[str, Any] | None = None
    internal_scratch_in_bytes: int | None = None
    serialization_format: int = 1
    disable_bounds_checks: bool = False
    disable_semaphore_checks: bool = False
    skip_device_barrier: bool = False
    allow_collective_id_without_custom_barrier: bool = False
    shape_invariant_numerics: bool = True
    use_tc_tiling_on_sc: bool | None = None
    needs_layout_passes: bool = True
    fuse_transposed_lhs_in_matmul: bool = False

    def __post_init__(self) -> None:
        # Options are parameters of a primitive, and so must be hashable.
        for name in ("dimension_semantics", "allow_input_fusion"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, tuple(value))
        if self.flags is not None and not isinstance(self.flags, Flags):
            object.__setattr__(self, "flags", Flags(self.flags))

    def replace(self, **changes: Any) -> CompilerParams:
        """Return these options with some changed."""
        return dataclasses.replace(self, **changes)


class Flags(Mapping[str, Any]):
    """A mapping that is hashable."""

    def __init__(self, items: Mapping[str, Any]):
        self._items = dict(items)

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __iter__(self) -> Any:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"Flags({self._items})"
