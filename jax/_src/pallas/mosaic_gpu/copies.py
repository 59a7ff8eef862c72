"""Copies between memories, and the barriers by which threads wait for them and for each other."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Literal

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import ShapedArray, typeof
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.operations import (
    apply,
    axes_of,
    barrier_view,
    operation,
    same_type,
    view,
)
from jax._src.state.types import view_type

traceback_util.register_exclusion(__file__)
GMEM, SMEM = MemorySpace.GMEM, MemorySpace.SMEM
_bool = ShapedArray((), np.dtype(bool))


@dataclasses.dataclass(frozen=True)
class _Partitioned:
    axis: int


@dataclasses.dataclass(frozen=True)
class _Replicated:
    pass


class CopyPartition:
    """What the blocks of a cluster get of a collective copy of which only the first keeps count.

    Attributes:
      PARTITIONED: function of an axis: a part each, along this axis.
      REPLICATED: the whole each.
    """

    PARTITIONED = _Partitioned
    REPLICATED = _Replicated()


class OOBFillMode(enum.IntEnum):
    """What a copy has in place of elements beyond the array."""

    UNDEFINED = 0
    PROMISE_IN_BOUNDS = 1
    ZEROS = 2


REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")

copy_gmem_to_smem_p = operation("copy_gmem_to_smem")
copy_smem_to_gmem_p = operation("copy_smem_to_gmem")
async_prefetch_p = operation("async_prefetch")
barrier_arrive_p = operation("barrier_arrive")
barrier_wait_p = operation("barrier_wait")
barrier_test_p = operation("barrier_test", lambda operands: _bool)
commit_smem_p = operation("commit_smem")
commit_group_p = operation("commit_group")
wait_smem_to_gmem_p = operation("wait_smem_to_gmem")
async_store_smem_p = operation("async_store_smem")


def copy_gmem_to_smem(
    src: Any, dst: Any, barrier: Any, *, collective_axes: Any = None, leader_tracked: Any = None,
    oob_mode: OOBFillMode = OOBFillMode.ZEROS,
) -> None:  # fmt: skip
    """Start to copy from global to shared memory.

    Args:
      src: reference in global memory.
      dst: reference in shared memory, of the same shape and dtype.
      barrier: the barrier at which the copy arrives when it is complete.
      collective_axes: axes of the cluster: all blocks along them get the copy.
      leader_tracked: if only the first block along the axes is to keep count, what the blocks get: of
        `CopyPartition`.
      oob_mode: what is copied in place of elements beyond the array.

    Raises:
      ValueError: if the references are in other memories, their types differ, or `leader_tracked` is
        given without `collective_axes`.
    """
    source = view(src, "copy_gmem_to_smem", "src", (GMEM,))
    target = view(dst, "copy_gmem_to_smem", "dst", (SMEM,))
    axes = axes_of(collective_axes)
    _check_tracking(axes, leader_tracked)
    if isinstance(leader_tracked, _Partitioned):
        if not 0 <= leader_tracked.axis < source.ndim:
            raise ValueError(
                f"A partitioned copy along axis {leader_tracked.axis} of a reference of shape {source.shape}."
            )
        _check_dtypes(source, target)
    else:
        same_type(source, target, "copy_gmem_to_smem")
    apply(
        copy_gmem_to_smem_p, source, target, barrier_view(barrier, "copy_gmem_to_smem"),
        collective_axes=axes, leader_tracked=leader_tracked, oob_mode=OOBFillMode(oob_mode),
    )  # fmt: skip


def _check_tracking(axes: Any, leader_tracked: Any) -> None:
    if leader_tracked is None:
        return
    if axes is None:
        raise ValueError("`collective_axes` must be specified when `leader_tracked` is set")
    if not isinstance(leader_tracked, (_Partitioned, _Replicated)):
        raise ValueError(
            "leader_tracked must be plgpu.CopyPartition.REPLICATED or plgpu.CopyPartition.PARTITIONED(axis), got "
            f"{leader_tracked!r}."
        )


def _check_dtypes(x: Any, y: Any) -> None:
    if x.dtype != y.dtype:
        raise ValueError(f"A copy takes references of one dtype, got {x.dtype} and {y.dtype}.")


def copy_smem_to_gmem(
    src: Any, dst: Any, predicate: Any = None, *, commit_group: bool = True,
    reduction_op: Literal["add", "min", "max", "inc", "dec", "and", "or", "xor"] | None = None,
) -> None:  # fmt: skip
    """Start to copy from shared to global memory; `wait_smem_to_gmem` waits for the end.

    What the kernel has written to shared memory is only seen by the copy after `commit_smem`.

    Args:
      src: reference in shared memory.
      dst: reference in global memory, of the same shape and dtype.
      predicate: a boolean: whether to copy at all.
      commit_group: whether this copy and those before it that are in no group become one.
      reduction_op: how the copy is combined with what is in global memory; None to replace it.

    Raises:
      ValueError: if the references are in other memories, their types differ, or there is no such
        reduction.
    """
    source = view(src, "copy_smem_to_gmem", "src", (SMEM,))
    target = view(dst, "copy_smem_to_gmem", "dst", (GMEM,))
    same_type(source, target, "copy_smem_to_gmem")
    if reduction_op is not None and reduction_op not in REDUCTIONS:
        raise ValueError(
            f"reduction_op must be one of {', '.join(REDUCTIONS)}, got {reduction_op}."
        )
    if predicate is not None:
        aval: Any = typeof(predicate)
        if aval.shape or aval.dtype != np.dtype(bool):
            raise ValueError(f"predicate must be a boolean scalar, got {aval.str_short()}.")
    apply(
        copy_smem_to_gmem_p, source, target, predicate,
        commit_group=bool(commit_group), reduction_op=reduction_op,
    )  # fmt: skip


def async_prefetch(ref: Any, *, collective_axes: Any = None, leader_tracked: Any = None) -> None:
    """Start to fetch from global memory into the cache.

    Args:
      ref: reference in global memory.
      collective_axes: axes of the cluster whose blocks fetch a part each.
      leader_tracked: as for the copy that follows, which can then use the same descriptor.
    """
    axes = axes_of(collective_axes)
    _check_tracking(axes, leader_tracked)
    source = view(ref, "async_prefetch", "ref", (GMEM,))
    apply(async_prefetch_p, source, collective_axes=axes, leader_tracked=leader_tracked)


def commit_smem() -> None:
    """Make what was written to shared memory visible to copies and to the tensor core."""
    apply(commit_smem_p)


def commit_smem_to_gmem_group() -> None:
    """Make one group of all copies from shared to global memory that are in none."""
    apply(commit_group_p)


def wait_smem_to_gmem(n: Any, wait_read_only: bool = False) -> None:
    """Wait until at most the last `n` groups of copies from shared to global memory are under way.

    Args:
      n: the number of groups, of those that this thread has started.
      wait_read_only: whether to wait only until they have read shared memory.

    Raises:
      ValueError: if `n` is negative.
    """
    check_count(n, "wait_smem_to_gmem")
    apply(wait_smem_to_gmem_p, np.int32(n), wait_read_only=bool(wait_read_only))


def check_count(n: Any, name: str) -> None:
    """Check that a number is one of things to wait for."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0:
        raise ValueError(f"{name} takes an integer that is not negative, got {n!r}.")


def barrier_arrive(barrier: Any) -> None:
    """Arrive at a barrier.

    Args:
      barrier: reference to one barrier; at barriers of clusters all blocks along their axes see it.

    Raises:
      ValueError: if it is a reference to several barriers.
      TypeError: if it is none to barriers.
    """
    apply(barrier_arrive_p, barrier_view(barrier, "barrier_arrive"))


def barrier_wait(barrier: Any) -> None:
    """Wait until a barrier's phase is complete: until all its arrivals have come.

    Args:
      barrier: reference to one barrier.
    """
    apply(barrier_wait_p, barrier_view(barrier, "barrier_wait"))


def barrier_test(barrier: Any) -> Any:
    """Return whether a barrier's phase is complete, without waiting.

    If it is, that counts as a wait. Only for functions of single warps: `warp_map`.

    Args:
      barrier: reference to one barrier.
    """
    return apply(barrier_test_p, barrier_view(barrier, "barrier_test"))


ATOMICS = ("add", "max", "min", "and", "or", "xor")


def async_store_smem(
    src: Any, ref: Any, barrier: Any, *, cluster_idx: Any, cluster_dim: Any,
    optimized: bool = True,
    atomic: Literal["add", "max", "min", "and", "or", "xor"] | None = None,
) -> None:  # fmt: skip
    """Start to store an array in the shared memory of a block of the cluster.

    Args:
      src: the array.
      ref: reference in shared memory, of the same shape and dtype.
      barrier: the barrier, of that block, at which the store arrives when it is complete.
      cluster_idx: the position of the block along `cluster_dim`.
      cluster_dim: an axis of the cluster.
      optimized: whether stores that conflict are errors.
      atomic: how the array is combined with what is there; None to replace it.
    """
    target = view(ref, "async_store_smem", "ref", (SMEM,))
    check_value(src, view_type(target), "async_store_smem")
    if atomic is not None:
        check_atomic(atomic, view_type(target).dtype)
    apply(
        async_store_smem_p, src, target, barrier_view(barrier, "async_store_smem"), cluster_idx,
        cluster_dim=cluster_dim, optimized=bool(optimized), atomic=atomic,
    )  # fmt: skip


def check_atomic(op: str, dtype: Any) -> None:
    """Check that there is an atomic operation on a dtype."""
    if op not in ATOMICS:
        raise ValueError(f"An atomic operation is one of {', '.join(ATOMICS)}, got {op}.")
    if op in ("and", "or", "xor") and not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(f"atomic_{op} is for integers, got {dtypes.dtype_name(dtype)}.")


def check_value(value: Any, aval: Any, name: str) -> None:
    """Check that a value can be stored in an array of a type."""
    got: Any = typeof(value)
    if tuple(got.shape) != tuple(aval.shape):
        raise ValueError(
            f"Invalid shape for `{name}`. Ref shape: {tuple(aval.shape)}. Value shape: {tuple(got.shape)}."
        )
    if got.dtype != aval.dtype and not got.weak_type:
        raise ValueError(
            f"Invalid dtype for `{name}`. Ref dtype: {aval.dtype}. Value dtype: {got.dtype}."
        )
