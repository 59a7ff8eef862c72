"""What kernels for GPUs have besides: memory spaces, barriers, accumulators, options and meshes."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from jax._src import dtypes
from jax._src.core import AbstractRef, ShapedArray, aval_method, extend_axis_env_nd
from jax._src.core.effects import Effect
from jax._src.debugging import debug_effect
from jax._src.pallas.blocks import BlockMapping as AnyBlockMapping, BlockSpec as AnyBlockSpec
from jax._src.pallas.memory import MemoryRef, MemorySpace as AnySpace
from jax._src.pallas.mosaic_gpu.layouts import (
    ParameterizedLayout,
    TMEMLayout,
    TMEMTiledLayout,
    default_tmem_layout,
)
from jax._src.pallas.mosaic_gpu.transforms import ExtractAliasedRef, nbytes, stored_type
from jax._src.pallas.semaphores import BARRIER_SEMAPHORE, SEMAPHORE, SemaphoreTy
from jax._src.state.types import Transform, TransformedRef, _ref_type_aval_mappings
from jax._src.tree_util import tree_flatten, tree_unflatten

# Memory spaces


class MemorySpace(enum.Enum):
    """The memory spaces of a GPU. Calling one makes the type of a reference in it.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> plgpu.SMEM((8, 128), jnp.float16).shape
    (8, 128)
    """

    GMEM = "gmem"  # global memory, of the device
    SMEM = "smem"  # shared memory, of a block
    TMEM = "tmem"  # tensor memory, of a block, from the Blackwell generation on
    REGS = "regs"  # registers, of a thread

    def __str__(self) -> str:
        return str(self.value)

    def __call__(
        self, shape: Sequence[int], dtype: Any, *, transforms: Sequence[Transform] = (),
        packed: bool | None = None, collective: bool | None = None, layout: Any = None,
    ) -> GPUMemoryRef:  # fmt: skip
        """Return the type of a reference to an array.

        Args:
          shape: the array's shape.
          dtype: the type of its elements.
          transforms: how it is arranged in shared memory: tiled, then swizzled.
          packed: in tensor memory, whether elements of less than 32 bits share columns.
          collective: in tensor memory, whether two blocks of a cluster work on it together.
          layout: how it is arranged in tensor memory, a `TMEMLayout`.

        Raises:
          ValueError: if the memory space has no such arguments, or they do not fit the array.
        """
        shape = tuple(shape)
        if self is not MemorySpace.TMEM:
            if packed is not None or collective is not None or layout is not None:
                raise ValueError(
                    "packed, collective and layout arguments are only supported for TMEM."
                )
            return GPUMemoryRef(_array_aval(shape, dtype), self, transforms)
        if transforms:
            raise ValueError("transforms are not supported for TMEM")
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "TMEM")
        if layout is not None:
            if packed is not None:
                raise ValueError("packed cannot be specified if layout is specified.")
            if isinstance(layout, (TMEMLayout, ParameterizedLayout)):
                layout = layout.to_mgpu()
        else:
            # Leading dimensions are columns beside each other.
            layout = default_tmem_layout(shape[-2:], dtype, packed, collective)
        return GPUMemoryRef(_array_aval(shape, dtype), self, (), layout, bool(collective))

    def like(self, shape_dtype_like: Any) -> GPUMemoryRef:
        """Return the type of a reference to an array of the same shape and dtype."""
        return self(shape_dtype_like.shape, shape_dtype_like.dtype)


def _array_aval(shape: tuple[int, ...], dtype: Any) -> ShapedArray:
    if not isinstance(dtype, dtypes.ExtendedDType):
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "the type of a reference")
    return ShapedArray(shape, dtype)


class GPUAbstractRef(AbstractRef):
    """The type of a reference with an arrangement in memory.

    Attributes:
      transforms: how it is stored in shared memory.
      layout: how it is arranged in tensor memory.
      collective: whether two blocks work on it together.
    """

    __slots__ = ("transforms", "layout", "collective")

    def __init__(
        self, inner_aval: Any, memory_space: Any, kind: Any = None, transforms: Any = (),
        layout: Any = None, collective: bool | None = None,
    ):  # fmt: skip
        super().__init__(inner_aval, memory_space, kind)
        self.transforms = tuple(transforms)
        self.layout = layout
        self.collective = collective

    def _more(self) -> tuple[Any, ...]:
        return (self.transforms, self.layout, self.collective)

    def update(  # type: ignore[override]
        self, inner_aval: Any = None, memory_space: Any = None, kind: Any = None
    ) -> AbstractRef:
        return type(self)(
            self.inner_aval if inner_aval is None else inner_aval,
            self.memory_space if memory_space is None else memory_space,
            self.kind if kind is None else kind,
            *self._more(),
        )

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is type(self)
            and self._key() == other._key()  # type: ignore[attr-defined]
            and self._more() == other._more()  # type: ignore[attr-defined]
        )

    def __hash__(self) -> int:
        return hash((type(self), *self._key(), self.layout, self.collective))


@dataclasses.dataclass(frozen=True)
class GPUMemoryRef(MemoryRef):
    """The type of a reference to be made for a kernel: see `MemorySpace`."""

    transforms: Sequence[Transform] = ()
    layout: TMEMTiledLayout | None = dataclasses.field(default=None, kw_only=False)
    collective: bool | None = dataclasses.field(default=None, kw_only=False)

    def get_ref_aval(self) -> AbstractRef:
        stored_type(self.shape, self.dtype, self.transforms)
        return GPUAbstractRef(
            self.inner_aval, self.memory_space, None, self.transforms, self.layout, self.collective
        )


# References that share memory


class AbstractRefUnion(GPUAbstractRef):
    """The type of a reference to memory that references of several types share."""

    __slots__ = ("groups",)

    def __init__(self, *args: Any):
        *fields, self.groups = args
        super().__init__(*fields)

    def _more(self) -> tuple[Any, ...]:
        return (self.transforms, self.layout, self.collective, self.groups)

    def _getitem(self, tracer: Any, idx: Any) -> Any:
        return _views_of_union(tracer, self.groups)[idx]

    def _iter(self, tracer: Any) -> Iterator[Any]:
        return iter(_views_of_union(tracer, self.groups))


def _views_of_union(ref: Any, groups: Sequence[Any]) -> list[Any]:
    out = []
    for group in groups:
        flat, tree = tree_flatten(group, is_leaf=_is_memory_ref)
        views: list[Any] = []
        for member, offset in zip(flat, _offsets(flat)):
            extract = ExtractAliasedRef(
                member.shape, member.dtype, offset, member.layout, member.transforms
            )
            view = TransformedRef(ref, (extract,))
            nested = isinstance(member, RefUnion)
            views.append(_views_of_union(view, member.refs) if nested else view)
        out.append(tree_unflatten(tree, views))
    return out


def _is_memory_ref(x: Any) -> bool:
    return isinstance(x, GPUMemoryRef)


_SMEM_ALIGNMENT = 1024


def _size(ref: GPUMemoryRef) -> int:
    """Return the bytes of a reference in shared memory, or its columns in tensor memory."""
    if ref.memory_space is MemorySpace.TMEM:
        if isinstance(ref, RefUnion):
            return ref.shape[1]
        assert ref.layout is not None
        return math.prod(ref.shape[:-2]) * ref.layout.columns(ref.shape[-2:])
    return nbytes(ref.shape, ref.dtype)


def _offsets(refs: Sequence[GPUMemoryRef]) -> list[int]:
    """Return where each of several references begins that are beside each other."""
    at, out = 0, []
    for ref in refs:
        if ref.memory_space is MemorySpace.SMEM:
            at = -(-at // _SMEM_ALIGNMENT) * _SMEM_ALIGNMENT
        out.append(at)
        at += _size(ref)
    return out


@dataclasses.dataclass(frozen=True, init=False)
class RefUnion(GPUMemoryRef):
    """The type of memory that several references, or trees of references, share.

    Iterating over a reference of this type gives what it was made of. What is written to one of the
    references must be read from the same one.

    Args:
      *refs: types of references, or trees of types, all in shared or all in tensor memory. Those of a
        tree are beside each other.

    Raises:
      ValueError: without any reference.
      NotImplementedError: if they are in other memory spaces, or in several.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> plgpu.RefUnion(plgpu.SMEM((8,), jnp.float32), plgpu.SMEM((8,), jnp.float16)).shape
    (32,)
    """

    refs: tuple[Any, ...] = ()

    def __init__(self, *refs: Any):
        if not refs:
            raise ValueError("RefUnion needs at least one reference.")
        groups = [tree_flatten(r, is_leaf=_is_memory_ref)[0] for r in refs]
        flat = list(itertools.chain(*groups))
        for ref in flat:
            if not isinstance(ref, GPUMemoryRef):
                raise TypeError(
                    f"RefUnion takes types of references such as plgpu.SMEM(...), got {ref!r}."
                )
        spaces = {ref.memory_space for ref in flat}
        if len(spaces) != 1 or not spaces <= {MemorySpace.SMEM, MemorySpace.TMEM}:
            raise NotImplementedError(
                "All aliased Refs must have the same memory space (SMEM or TMEM). Got "
                f"{tuple([ref.memory_space for ref in flat])}."
            )
        (space,) = spaces
        size = max([_offsets(g)[-1] + _size(g[-1]) for g in groups if g])
        if space is MemorySpace.TMEM:
            aval = ShapedArray((128, size), np.dtype(np.int32))
            layout = default_tmem_layout(aval.shape, aval.dtype, None, None)
            collective = any([bool(ref.collective) for ref in flat])
        else:
            aval, layout, collective = ShapedArray((size,), np.dtype(np.int8)), None, None
        values = dict(inner_aval=aval, memory_space=space, transforms=(), layout=layout)
        values |= dict(collective=collective, refs=refs)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def get_ref_aval(self) -> AbstractRef:
        return AbstractRefUnion(
            self.inner_aval, self.memory_space, None, (), self.layout, self.collective, self.refs
        )


def TryClusterCancelResult(num_buffers: int | None = None) -> GPUMemoryRef:
    """Return the type of a reference to answers of `try_cluster_cancel`, of 16 bytes each.

    Args:
      num_buffers: how many answers; None for one without a dimension of its own.
    """
    shape = (16,) if num_buffers is None else (num_buffers, 16)
    return MemorySpace.SMEM(shape, np.dtype(np.int8))


# Semaphores and barriers


class SemaphoreType(enum.Enum):
    """The kinds of semaphores, which are in global memory.

    A kind is the type of one semaphore; calling it gives that of an array.
    """

    REGULAR = "regular"
    BARRIER = "barrier"

    def __call__(self, shape: int | Sequence[int]) -> MemoryRef:
        """Return the type of a reference to an array of semaphores."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        dtype = BARRIER_SEMAPHORE if self is SemaphoreType.BARRIER else SEMAPHORE
        return MemoryRef(ShapedArray(shape, dtype), MemorySpace.GMEM)

    def get_array_aval(self) -> Any:
        """Return the type of the semaphore."""
        return self(()).get_array_aval()

    def get_ref_aval(self) -> AbstractRef:
        """Return the type of a reference to one semaphore."""
        return self(()).get_ref_aval()


class barrier_scalar(dtypes.extended):
    """Scalar class of barriers in shared memory."""


class BarrierType(SemaphoreTy):
    """The dtype of barriers.

    Attributes:
      num_arrivals: how many arrivals complete a phase.
      orders_tensor_core: whether a wait orders operations of the tensor core.
      collective_axes: axes of the cluster whose blocks arrive together; None if the barrier is a block's.
      leader_tracked: whether only the first block along them keeps count.
    """

    __slots__ = ("num_arrivals", "orders_tensor_core", "collective_axes", "leader_tracked")

    def __init__(
        self, num_arrivals: int, orders_tensor_core: bool, collective_axes: Any = None,
        leader_tracked: bool = False,
    ):  # fmt: skip
        super().__init__(
            barrier_scalar, "barrier" if collective_axes is None else "cluster_barrier"
        )
        self.num_arrivals = num_arrivals
        self.orders_tensor_core = orders_tensor_core
        self.collective_axes = collective_axes
        self.leader_tracked = leader_tracked

    def _fields(self) -> tuple[Any, ...]:
        axes = self.collective_axes
        return (self.num_arrivals, self.orders_tensor_core, axes, self.leader_tracked)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BarrierType) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((BarrierType, self._fields()))


def _counts(num_barriers: int | Sequence[int]) -> tuple[int, ...]:
    return (num_barriers,) if isinstance(num_barriers, int) else tuple(num_barriers)


def _check_arrivals(num_arrivals: int) -> None:
    if num_arrivals < 1:
        raise ValueError(f"Num arrivals must be at least 1, but got {num_arrivals}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Barrier:
    """The type of a reference to barriers of a block, in shared memory.

    Args:
      num_arrivals: how many arrivals, of threads and of copies that complete, end a wait.
      num_barriers: how many barriers there are; they are chosen by indexing the reference.
      orders_tensor_core: whether a wait also orders what the tensor core does, of all threads that have
        arrived.

    Raises:
      ValueError: without arrivals.
    """

    num_arrivals: int = 1
    num_barriers: int | Sequence[int] = 1
    orders_tensor_core: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_barriers", _counts(self.num_barriers))
        _check_arrivals(self.num_arrivals)

    def get_array_aval(self) -> ShapedArray:
        """Raise a ValueError: barriers are no values."""
        raise ValueError("Barriers are not arrays")

    def get_ref_aval(self) -> AbstractRef:
        """Return the type of the reference."""
        dtype = BarrierType(self.num_arrivals, self.orders_tensor_core)
        return AbstractRef(ShapedArray(_counts(self.num_barriers), dtype), MemorySpace.SMEM)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterBarrier:
    """The type of a reference to barriers at which blocks of a cluster arrive together.

    Args:
      collective_axes: the axes of the cluster along which blocks arrive at each other's barriers.
      num_barriers, orders_tensor_core: as for `Barrier`.
      num_arrivals: how many arrivals of each block end a wait.
      leader_tracked: whether only the first block along the axes keeps count.

    Raises:
      ValueError: without arrivals.
    """

    collective_axes: tuple[str | tuple[str, ...], ...]
    num_barriers: int | Sequence[int] = 1
    num_arrivals: int = 1
    orders_tensor_core: bool = False
    leader_tracked: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_barriers", _counts(self.num_barriers))
        _check_arrivals(self.num_arrivals)

    def get_array_aval(self) -> ShapedArray:
        """Raise a ValueError: barriers are no values."""
        raise ValueError("Cluster barriers are not arrays")

    def get_ref_aval(self) -> AbstractRef:
        """Return the type of the reference."""
        axes = self.collective_axes
        axes = (axes,) if isinstance(axes, str) else tuple(axes)
        dtype = BarrierType(
            self.num_arrivals, self.orders_tensor_core, axes, self.leader_tracked
        )  # fmt: skip
        return AbstractRef(ShapedArray(_counts(self.num_barriers), dtype), MemorySpace.SMEM)


# Accumulators of the tensor core


class WGMMAAbstractAccumulatorRef(GPUAbstractRef):
    """The type of a reference to an accumulator in registers: reading it waits for the tensor core."""

    __slots__ = ()

    def _getitem(self, tracer: Any, idx: Any) -> Any:
        from_whole = later.load_accumulator(tracer)
        whole = idx is ... or (isinstance(idx, tuple) and idx in ((), (...,)))
        return from_whole if whole else from_whole[idx]

    def _setitem(self, tracer: Any, idx: Any, value: Any) -> None:
        raise ValueError(
            "An accumulator is only written by plgpu.wgmma: give it a first value by "
            "pl.run_state(...)(plgpu.ACC.init(value))."
        )

    get = aval_method(lambda tracer, idx=(): tracer.aval._getitem(tracer, idx))


class _Later:
    """What types do by primitives: set by the modules that have these."""

    load_accumulator: Any = None
    run_on_warps: Any = None
    interpret: Any = None


later = _Later()


class _Uninitialized:
    def __repr__(self) -> str:
        return "uninitialized"


_uninitialized = _Uninitialized()


@dataclasses.dataclass(frozen=True)
class WGMMAAccumulatorRef:
    """The type of a reference to an accumulator of `wgmma`, which starts at zero.

    Args:
      shape: its shape.
      dtype: the type of its elements.
    """

    shape: tuple[int, int]
    dtype: Any = np.float32
    _init: Any = _uninitialized

    def get_ref_aval(self) -> AbstractRef:
        """Return the type of the reference.

        Raises:
          ValueError: if it has a first value, which only `pl.run_state` can give it.
        """
        if self._init is not _uninitialized:
            raise ValueError("Preinitialized WGMMAAccumulatorRef only supported in pl.run_state.")
        return self._aval()

    def _aval(self) -> AbstractRef:
        return WGMMAAbstractAccumulatorRef(
            _array_aval(tuple(self.shape), self.dtype), MemorySpace.REGS
        )

    @staticmethod
    def init(array: Any) -> WGMMAAccumulatorRef:
        """Return the type of an accumulator that starts with a value, for `pl.run_state`."""
        return WGMMAAccumulatorRef(array.shape, array.dtype, _init=array)


_ref_type_aval_mappings[WGMMAAccumulatorRef] = lambda x: (
    x._aval(),
    np.zeros(x.shape, x.dtype) if x._init is _uninitialized else x._init,
)
ACC = WGMMAAccumulatorRef

# Blocks and options


@dataclasses.dataclass
class BlockSpec(AnyBlockSpec):
    """A `pl.BlockSpec` for pipelines on GPUs.

    Args:
      block_shape, index_map, pipeline_mode, memory_space: as for `pl.BlockSpec`.
      transforms: how blocks are arranged in shared memory.
      delay_release: after how many more steps of a pipeline a block's buffer is used again.
      collective_axes: axes of the cluster whose blocks all take the same block of the array, which is
        then copied to all of them at once.
    """

    transforms: Sequence[Transform] = ()
    delay_release: int = 0
    collective_axes: tuple[Hashable, ...] = ()

    def mapping(self, block: ShapedArray, **fields: Any) -> BlockMapping:
        """Return a block mapping that also says what this spec does of pipelines."""
        space = AnySpace.DEFAULT if self.memory_space is None else self.memory_space
        transforms = tuple(self.transforms)
        stored_type(block.shape, block.dtype, transforms)
        return BlockMapping(
            block_aval=GPUAbstractRef(block, space, None, transforms),
            pipeline_mode=self.pipeline_mode, delay_release=self.delay_release,
            collective_axes=tuple(self.collective_axes), **fields,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, repr=False)
class BlockMapping(AnyBlockMapping):
    """A `BlockSpec` of an array of known type.

    Attributes:
      delay_release, collective_axes: those of the spec.
    """

    delay_release: int = 0
    collective_axes: tuple[Hashable, ...] = ()


class LoweringSemantics(enum.Enum):
    """How a kernel is read: as the program of each lane of a warp, or of a warpgroup."""

    Lane = enum.auto()
    Warpgroup = enum.auto()


class TraceScope(enum.Enum):
    """What the profiler traces: each warpgroup, or each warp."""

    WARPGROUP = "warpgroup"
    WARP = "warp"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompilerParams:
    """Options of kernels for GPUs (Mosaic GPU).

    Args:
      approx_math: whether functions such as exp may be approximate.
      dimension_semantics: for each dimension of a grid `"parallel"` or `"sequential"`.
      max_concurrent_steps: how many steps of the pipeline over sequential dimensions are under way at a
        time.
      unsafe_no_auto_barriers: whether barriers between writes and reads of shared memory are left to the
        kernel.
      reduction_scratch_bytes: how much shared memory reductions between warps may use.
      profile_space: how many scopes of `jax.named_scope` each thread of a block can enter, of which the profiler records the times, in
        shared memory. 0 for no profile. Interpreted kernels have none.
      profile_dir: the directory where each run of the kernel writes a trace, for Perfetto or Chrome's viewer.
      profile_trace_scope: whether each thread is recorded, which is a warpgroup, or each of its warps.
      lowering_semantics: how the kernel is read.

    Raises:
      ValueError: if only one of profile_space and profile_dir is given, or one of the profiler's options cannot be.
    """

    BACKEND: ClassVar[str] = "mosaic_gpu"
    approx_math: bool = False
    dimension_semantics: Sequence[Literal["parallel", "sequential"]] | None = None
    max_concurrent_steps: int = 1
    unsafe_no_auto_barriers: bool = False
    reduction_scratch_bytes: int = 2048
    profile_space: int = 0
    profile_dir: str = ""
    profile_trace_scope: TraceScope = TraceScope.WARPGROUP
    lowering_semantics: LoweringSemantics = LoweringSemantics.Lane

    def __post_init__(self) -> None:
        if self.dimension_semantics is not None:
            object.__setattr__(self, "dimension_semantics", tuple(self.dimension_semantics))
        if bool(self.profile_space) != bool(self.profile_dir):
            raise ValueError("Either both profile_space and profile_dir must be set, or neither.")
        if self.profile_space < 0:
            raise ValueError(f"profile_space must be at least 0, but got {self.profile_space}.")
        if not isinstance(self.profile_trace_scope, TraceScope):
            raise ValueError(
                f"profile_trace_scope must be a plgpu.TraceScope, but got {self.profile_trace_scope!r}."
            )

    @property
    def call_effects(self) -> frozenset[Effect]:
        """The effects of the application of a kernel, besides those of the kernel: a trace is written."""
        return frozenset([debug_effect] if self.profile_space else [])

    def replace(self, /, **changes: Any) -> CompilerParams:
        """Return a copy with some options replaced."""
        return dataclasses.replace(self, **changes)


# Meshes


class _GPUMesh:
    core_type = "gpu"

    @property
    def axis_names(self) -> tuple[Hashable, ...]:
        return tuple(self.shape)

    @property
    def shape(self) -> collections.OrderedDict[Any, int]:
        raise NotImplementedError

    def discharges_effect(self, effect: Any) -> bool:
        """Whether an effect of a kernel on the mesh ends with it."""
        return False

    def check_is_compatible_with(self, other_mesh: Any) -> None:
        """Raise a ValueError: no kernel for GPUs runs as part of another one."""
        raise ValueError(f"Mesh {self} is not compatible with {other_mesh}.")

    @contextlib.contextmanager
    def tracing_context(self) -> Iterator[None]:
        """Context manager in which the names of the mesh's axes are known."""
        with extend_axis_env_nd(tuple(self.shape.items())):
            yield


_MAX_THREADS = 16  # 2048 CUDA threads of a multiprocessor, in warpgroups


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mesh(_GPUMesh):
    """The threads that run a kernel: clusters of blocks, over a grid, each with some warpgroups.

    Args:
      grid, grid_names: how many clusters there are along each axis, and the axes' names.
      cluster, cluster_names: how many blocks a cluster has along each axis.
      num_threads, thread_name: how many threads, each of them a warpgroup, a block has.
      kernel_name: the kernel's name in place of the function's.

    Raises:
      ValueError: if sizes and names do not match, or there are too many threads.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> plgpu.Mesh(grid=(4,), grid_names=("x",), num_threads=2, thread_name="wg").shape
    OrderedDict([('x', 4), ('wg', 2)])
    """

    grid: Sequence[int] = ()
    grid_names: Sequence[str] = ()
    cluster: Sequence[int] = ()
    cluster_names: Sequence[str] = ()
    num_threads: int | None = None
    thread_name: str | None = None
    kernel_name: str | None = None

    def __post_init__(self) -> None:
        if len(self.cluster) != len(self.cluster_names):
            raise ValueError(f"cluster_names must have the same length as cluster, got {self}.")
        if len(self.grid) != len(self.grid_names):
            raise ValueError(f"grid_names must have the same length as grid, got {self}.")
        if (self.thread_name is None) != (self.num_threads is None):
            raise ValueError(
                f"num_threads and thread_name must be either both set or both None, got {self}"
            )
        if self.num_threads is not None and self.num_threads > _MAX_THREADS:
            raise ValueError(
                "Requested too many CUDA threads per block. Each Mosaic thread corresponds to 128 CUDA threads. At "
                f"most {_MAX_THREADS} are supported, got {self}"
            )
        for name in ("grid", "grid_names", "cluster", "cluster_names"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    default_memory_space = MemorySpace.GMEM
    supported_memory_spaces = list(MemorySpace)

    def run_call(self, *args: Any, **params: Any) -> list[Any]:
        """Run a kernel without a GPU: what `interpret=True` means on this mesh."""
        return later.interpret(*args, **params)

    @property
    def shape(self) -> collections.OrderedDict[Any, int]:
        """The sizes of the axes by name: of the grid, of a cluster, and of the threads of a block."""
        pairs = [*zip(self.grid_names, self.grid), *zip(self.cluster_names, self.cluster)]
        if self.thread_name is not None:
            pairs.append((self.thread_name, self.num_threads))
        return collections.OrderedDict(pairs)


NUM_WARPS = 4  # of a warpgroup


@dataclasses.dataclass(frozen=True, kw_only=True)
class WarpMesh(_GPUMesh):
    """The four warps of a warpgroup, for `pl.core_map` in a kernel.

    Args:
      axis_name: the name of the axis whose index is the number of the warp.
    """

    axis_name: Any

    supported_memory_spaces = [MemorySpace.GMEM, MemorySpace.SMEM, MemorySpace.TMEM]

    def run_on_cores(self, f: Any) -> None:
        """Run a function on each warp."""
        later.run_on_warps(self, f)

    @property
    def default_memory_space(self) -> Any:
        """No array is given to the function of a warp."""
        raise NotImplementedError("Functions of warps take no arrays: they use references.")

    @property
    def shape(self) -> collections.OrderedDict[Any, int]:
        """The number of warps by the axis's name."""
        return collections.OrderedDict([(self.axis_name, NUM_WARPS)])
