"""Operations of the tensor core: of Hopper GPUs on accumulators in registers, of Blackwell on tensor memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import AbstractRef, typeof
from jax._src.lax import lax
from jax._src.pallas.mosaic_gpu.copies import check_count, check_value
from jax._src.pallas.mosaic_gpu.core import (
    MemorySpace,
    WGMMAAbstractAccumulatorRef,
    later,
)
from jax._src.pallas.mosaic_gpu.layouts import SomeLayout, TMEMLayout
from jax._src.pallas.mosaic_gpu.memory_operations import layout_cast
from jax._src.pallas.mosaic_gpu.mma_formats import (
    POSITIONS,
    ROWS,
    SCALES,
    arrangement_of,
    block_size,
)
from jax._src.pallas.mosaic_gpu.operations import (
    apply,
    barrier_view,
    first_view_type,
    operation,
    view,
)
from jax._src.pallas.mosaic_gpu.transforms import ExtractAliasedRef
from jax._src.state.types import TransformedRef, view_type

traceback_util.register_exclusion(__file__)
GMEM, SMEM, TMEM = MemorySpace.GMEM, MemorySpace.SMEM, MemorySpace.TMEM

# Hopper


wgmma_p = operation("wgmma")
wgmma_wait_p = operation("wgmma_wait")
wgmma_accumulator_load_p = operation("wgmma_accumulator_load", first_view_type)


def wgmma(acc: Any, a: Any, b: Any) -> None:
    """Start to add the product of two matrices to an accumulator.

    Args:
      acc: the accumulator, of a type `plgpu.ACC((m, n), dtype)`.
      a: the left matrix of shape (m, k): reference in shared memory, or array in registers.
      b: the right matrix of shape (k, n): reference in shared memory.

    Raises:
      TypeError: if `acc` is no accumulator.
      ValueError: if shapes or dtypes do not match.
    """
    accumulator = _accumulator(acc, "wgmma")
    right = view(b, "wgmma", "b", (SMEM,))
    is_ref = isinstance(a, TransformedRef) or isinstance(typeof(a), AbstractRef)
    left = view(a, "wgmma", "a", (SMEM,)) if is_ref else a
    types = [view_type(left) if is_ref else typeof(left), view_type(right), view_type(accumulator)]
    _check_product(*types)
    apply(wgmma_p, accumulator, left, right)


def _accumulator(acc: Any, name: str) -> TransformedRef:
    aval = typeof(acc.ref if isinstance(acc, TransformedRef) else acc)
    if not isinstance(aval, WGMMAAbstractAccumulatorRef):
        raise TypeError(
            f"{name} takes an accumulator, a reference of a type plgpu.ACC((m, n), dtype), got {aval}."
        )
    return view(acc, name)


_PRODUCTS = {
    "float16": ("float16", "float32"),
    "bfloat16": ("float32",),
    "float32": ("float32",),  # as tf32
    "float8_e4m3fn": ("float16", "float32"),
    "float8_e5m2": ("float16", "float32"),
    "int8": ("int32",),
    "uint8": ("int32",),
}


def _check_product(a: Any, b: Any, acc: Any) -> None:
    shapes = [tuple(t.shape) for t in (a, b, acc)]
    ranks_differ = any([len(s) != 2 for s in shapes])
    if ranks_differ or (a.shape[0], b.shape[1]) != tuple(acc.shape) or a.shape[1] != b.shape[0]:
        raise ValueError(
            f"Incompatible shapes for matrix multiplication: lhs={shapes[0]}, rhs={shapes[1]}, acc={shapes[2]}"
        )
    left, right, out = [dtypes.dtype_name(t.dtype) for t in (a, b, acc)]
    if left != right:
        raise ValueError(f"A matrix multiplication of {left} and {right}: their dtypes must agree.")
    if out not in _PRODUCTS.get(left, ()):
        known = "; ".join([f"{k} in {' or '.join(v)}" for k, v in _PRODUCTS.items()])
        raise ValueError(
            f"No tensor core accumulates products of {left} in {out}. There are products of {known}."
        )
    m, n = acc.shape
    if m % 64 or n % 8:
        raise ValueError(
            f"An accumulator of wgmma has a multiple of 64 rows and of 8 columns, got shape {(m, n)}."
        )


def wgmma_wait(n: int) -> None:
    """Wait until at most the last `n` products of this thread are under way.

    Args:
      n: the number of products.
    """
    check_count(n, "wgmma_wait")
    apply(wgmma_wait_p, np.int32(n))


def wgmma_accumulator_load(acc: Any, *, wait_n: int | None = 0) -> Any:
    """Return what an accumulator holds.

    Args:
      acc: the accumulator.
      wait_n: how many products may be under way; None not to wait.
    """
    return apply(
        wgmma_accumulator_load_p, _accumulator(acc, "wgmma_accumulator_load"), wait_n=wait_n
    )  # fmt: skip


later.load_accumulator = wgmma_accumulator_load

# Blackwell

async_load_tmem_p = operation("async_load_tmem", first_view_type)
async_store_tmem_p = operation("async_store_tmem")
wait_load_tmem_p = operation("wait_load_tmem")
commit_tmem_p = operation("commit_tmem")
async_copy_to_tmem_p = operation("async_copy_smem_to_tmem")
tcgen05_mma_p = operation("tcgen05_mma")
tcgen05_commit_arrive_p = operation("tcgen05_commit_arrive")


def async_load_tmem(src: Any, *, layout: SomeLayout | None = None) -> Any:
    """Return what a reference in tensor memory holds.

    The array can be used at once. Before the memory is written again, call `wait_load_tmem`.

    Args:
      src: reference in tensor memory.
      layout: the array's layout; None for any.
    """
    out = apply(async_load_tmem_p, _in_tmem(src, "async_load_tmem", "Async load"))
    return out if layout is None else layout_cast(out, layout)


def _in_tmem(ref: Any, name: str, what: str) -> TransformedRef:
    out = view(ref, name)
    if typeof(out.ref).memory_space is not TMEM:  # type: ignore[attr-defined]
        raise ValueError(f"{what} only supports TMEM refs")
    return out


def async_store_tmem(ref: Any, value: Any) -> None:
    """Start to write to tensor memory; `commit_tmem` waits for the end.

    Args:
      ref: reference in tensor memory.
      value: array of its shape and dtype.
    """
    target = _in_tmem(ref, "async_store_tmem", "Async store")
    aval = view_type(target)
    if not hasattr(value, "dtype"):
        value = lax.full(aval.shape, value, aval.dtype)
    check_value(value, aval, "async_store_tmem")
    apply(async_store_tmem_p, target, value)


def wait_load_tmem() -> None:
    """Wait until all loads from tensor memory of this thread are complete."""
    apply(wait_load_tmem_p)


def commit_tmem() -> None:
    """Wait until all that this thread has written to tensor memory can be seen."""
    apply(commit_tmem_p)


def tmem_layout(aval: Any, transforms: Sequence[Any]) -> Any:
    """Return how an array is arranged in tensor memory, given the type of the reference, and the transforms of a view."""
    layouts = [t.layout for t in transforms if isinstance(t, ExtractAliasedRef)]
    return layouts[-1] if layouts else aval.layout


def _layout_of(ref: TransformedRef) -> Any:
    return tmem_layout(typeof(ref.ref), ref.transforms)


def _copy_to_tmem(name: str, smem_ref: Any, tmem_ref: Any, axis: Any, kind: str) -> None:
    source = view(smem_ref, name, "smem_ref", (SMEM,))
    target = view(tmem_ref, name, "tmem_ref", (TMEM,))
    a, b = view_type(source), view_type(target)
    wanted = tuple(b.shape)
    if kind != "values" and len(wanted) == 2:
        wanted = arrangement_of(kind, _layout_of(target)).in_shared_memory(wanted)
    if a.dtype != b.dtype or tuple(a.shape) != wanted:
        what = "one shape and dtype" if kind == "values" else f"shape {wanted} and {b.str_short()}"
        raise ValueError(
            f"{name} takes references of {what}, got {a.str_short()} and {b.str_short()}."
        )
    apply(async_copy_to_tmem_p, source, target, collective_axis=axis, kind=kind)


def async_copy_smem_to_tmem(smem_ref: Any, tmem_ref: Any, collective_axis: Any = None) -> None:
    """Start to copy from shared to tensor memory; `tcgen05_commit_arrive` says when it is complete.

    Args:
      smem_ref: reference in shared memory.
      tmem_ref: reference in tensor memory, of the same shape and dtype.
      collective_axis: an axis of the cluster, of size 2, whose blocks copy together.
    """
    _copy_to_tmem("async_copy_smem_to_tmem", smem_ref, tmem_ref, collective_axis, "values")


def async_copy_scales_to_tmem(smem_ref: Any, tmem_ref: Any, collective_axis: Any = None) -> None:
    """Start to copy scales of a product from shared to tensor memory.

    A product that the same thread starts then needs no waiting for.

    Args:
      smem_ref: reference in shared memory, of shape (m // 128, k // 4, 32, 16): the scale of row i and block j
        is at (i // 128, j // 4, i % 32, i % 128 // 32 * 4 + j % 4).
      tmem_ref: reference in tensor memory, of shape (m, k) and in the layout `plgpu.TMEMLayout.SCALES_LAYOUT`.
      collective_axis: an axis of the cluster, of size 2, whose blocks copy together.
    """
    _copy_to_tmem("async_copy_scales_to_tmem", smem_ref, tmem_ref, collective_axis, "scales")


def async_copy_sparse_metadata_to_tmem(
    smem_ref: Any, tmem_ref: Any, collective_axis: Any = None
) -> None:
    """Start to copy which elements of a sparse matrix are there from shared to tensor memory.

    Args:
      smem_ref: reference in shared memory to what `format_tcgen05_sparse_metadata` returns, of shape
        (m // 128, k // 128, 128, 64).
      tmem_ref: reference in tensor memory, of shape (m, k // 2) and in the layout
        `plgpu.TMEMLayout.SPARSE_METADATA_LAYOUT`.
      collective_axis: an axis of the cluster, of size 2, whose blocks copy together.
    """
    name = "async_copy_sparse_metadata_to_tmem"
    _copy_to_tmem(name, smem_ref, tmem_ref, collective_axis, "sparse_metadata")


def tcgen05_mma(
    acc: Any, a: Any, b: Any, barrier: Any = None, *, a_scale: Any = None, b_scale: Any = None,
    a_sparse_metadata: Any = None, accumulate: Any = True, collective_axis: str | None = None,
) -> None:  # fmt: skip
    """Start to add the product of two matrices to an accumulator in tensor memory.

    With `collective_axis`, two blocks multiply together: each has half of the rows of `acc` and `a`, and half
    of the columns of `b`.

    Args:
      acc: the accumulator of shape (m, n), in tensor memory.
      a: the left matrix of shape (m, k), in tensor or shared memory.
      b: the right matrix of shape (k, n), in shared memory.
      barrier: the barrier, which orders the tensor core, at which the product arrives; None to call
        `tcgen05_commit_arrive`.
      a_scale, b_scale: scales of blocks of elements of both matrices along k, in tensor memory, of shapes
        (m, k // block) and (n, k // block), with n rounded up to a multiple of 128: blocks of 32 elements of
        float8_e4m3fn, float8_e5m2 or float4_e2m1fn have scales of float8_e8m0fnu, those of 16 elements of
        float4_e2m1fn scales of float8_e4m3fn. If `a` is sparse, blocks are twice as long.
      a_sparse_metadata: which two of four elements of a row of `a` are there, in tensor memory, of shape
        (m, k // 2); `a` then has shape (m, k // 2).
      accumulate: a boolean: whether to add to the accumulator, or to replace it.
      collective_axis: an axis of the cluster, of size 2.

    Raises:
      ValueError: if references are in other memories, or shapes, dtypes and options do not match.
    """
    accumulator = view(acc, "tcgen05_mma")
    if typeof(accumulator.ref).memory_space is not TMEM:  # type: ignore[attr-defined]
        raise ValueError("Accumulator must be a TMEM Ref.")
    left = view(a, "tcgen05_mma", "LHS", (TMEM, SMEM))
    right = view(b, "tcgen05_mma", "RHS", (SMEM,))
    if (a_scale is None) != (b_scale is None):
        raise ValueError("a_scale and b_scale must be both given or both None.")
    more = [
        None if x is None else view(x, "tcgen05_mma", name, (TMEM,))
        for x, name in ((a_scale, "a_scale"), (b_scale, "b_scale"), (a_sparse_metadata, "a_sparse_metadata"))
    ]  # fmt: skip
    collective = 1 if collective_axis is None else 2
    _check_mma(accumulator, left, right, collective, 1 if a_sparse_metadata is None else 2)
    _check_scales(accumulator, left, right, *more[:2])
    if more[2] is not None:
        _check_metadata(left, more[2])
    at = None if barrier is None else _ordering_barrier(barrier, "tcgen05_mma")
    if isinstance(accumulate, bool):
        accumulate = np.bool_(accumulate)
    apply(
        tcgen05_mma_p, accumulator, left, right, at, *more, accumulate,
        collective_axis=collective_axis,
    )  # fmt: skip


def _ordering_barrier(barrier: Any, name: str) -> TransformedRef:
    out = barrier_view(barrier, name)
    if not view_type(out).dtype.orders_tensor_core:
        raise ValueError("MMA barrier must have orders_tensor_core set to True.")
    return out


def _check_mma(acc: Any, a: Any, b: Any, collective: int, sparsity: int) -> None:
    shapes = [tuple(x.shape) for x in (acc, a, b)]
    if any([len(s) != 2 for s in shapes]):
        raise ValueError(f"tcgen05_mma takes matrices, got shapes {shapes}.")
    (m, n), (rows, k), (depth, columns) = shapes
    if rows != m:
        raise ValueError(
            "Accumulator and LHS have incompatible shapes. Expected LHS to have shape (m, k) and accumulator to have "
            f"shape (m, n). Accumulator: {shapes[0]}. LHS: {shapes[1]}."
        )
    if columns * collective != n:
        raise ValueError(
            "Accumulator and RHS have incompatible shapes. Expected RHS to have shape (k, n) and accumulator to have "
            f"shape (m, n). Accumulator: {shapes[0]}. RHS: {shapes[2]}."
        )
    if k * sparsity != depth:
        raise ValueError(
            f"LHS and RHS have incompatible shapes. LHS: {shapes[1]}. RHS: {shapes[2]}."
        )
    if a.dtype != b.dtype and dtypes.itemsize_bits(a.dtype) > 8:
        raise ValueError(f"LHS and RHS must have one dtype, got {a.dtype} and {b.dtype}.")


def _check_scales(acc: Any, a: Any, b: Any, a_scale: Any, b_scale: Any) -> None:
    if a_scale is None:
        return
    block = block_size(a.dtype, a_scale.dtype)
    if block_size(b.dtype, b_scale.dtype) != block or a_scale.dtype != b_scale.dtype:
        raise ValueError(
            f"Scales of both matrices have one dtype and blocks of as many elements, got {a_scale.dtype} for {a.dtype} and {b_scale.dtype} for "
            f"{b.dtype}."
        )
    if dtypes.itemsize_bits(a.dtype) != dtypes.itemsize_bits(b.dtype):
        raise ValueError(
            f"A product with scales is one of dtypes of as many bits, not of {a.dtype} and {b.dtype}."
        )
    if acc.dtype != np.float32:
        raise ValueError(f"A product with scales is accumulated in float32, not in {acc.dtype}.")
    (m, n), k = acc.shape, a.shape[1]
    if m != ROWS or n > 2 * ROWS or k % (SCALES * block):
        raise ValueError(
            f"A product with scales of {m} rows, {n} columns and {k} elements of a row of the left matrix: there are products of {ROWS} rows of each "
            f"block, at most {2 * ROWS} columns, and a multiple of {SCALES * block} elements, as {SCALES} scales are read at once."
        )
    for what, ref, rows in (("a_scale", a_scale, m), ("b_scale", b_scale, -(-n // ROWS) * ROWS)):
        layout = _layout_of(ref)
        if layout != TMEMLayout.SCALES_LAYOUT.to_mgpu():
            raise ValueError(
                f"{what} is in the layout {layout}: give its plgpu.TMEM(...) layout=plgpu.TMEMLayout.SCALES_LAYOUT."
            )
        if tuple(ref.shape) != (rows, k // block):
            raise ValueError(
                f"{what} has shape {tuple(ref.shape)}, but for an accumulator of shape {(m, n)} and {k} elements of each row of the left matrix, in "
                f"blocks of {block}, it is {(rows, k // block)}."
            )


def _check_metadata(a: Any, metadata: Any) -> None:
    layout = _layout_of(metadata)
    if (
        layout != TMEMLayout.SPARSE_METADATA_LAYOUT.to_mgpu()
        or dtypes.dtype_name(metadata.dtype) != "uint2"
    ):
        raise ValueError(
            f"a_sparse_metadata is of uint2 and in a layout of its own, not of {metadata.dtype} in {layout}: give its plgpu.TMEM(...) "
            "layout=plgpu.TMEMLayout.SPARSE_METADATA_LAYOUT."
        )
    bits = dtypes.itemsize_bits(a.dtype)
    if bits not in (8, 16):
        raise ValueError(f"There are sparse matrices of 8 and 16 bits, not of {a.dtype}.")
    m, k = a.shape
    if m != ROWS or k % POSITIONS or tuple(metadata.shape) != (m, k):
        raise ValueError(
            f"a_sparse_metadata of shape {tuple(metadata.shape)} for a sparse matrix of shape {(m, k)}: both have one shape, of {ROWS} rows and a "
            f"multiple of {POSITIONS} columns."
        )


def tcgen05_commit_arrive(barrier: Any, collective_axis: str | None = None) -> None:
    """Arrive at a barrier when all products and copies to tensor memory that were started are complete.

    Args:
      barrier: the barrier, which orders the tensor core.
      collective_axis: the axis of the cluster along which they were collective.
    """
    at = _ordering_barrier(barrier, "tcgen05_commit_arrive")
    apply(tcgen05_commit_arrive_p, at, collective_axis=collective_axis)
