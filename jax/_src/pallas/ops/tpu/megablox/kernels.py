"""Products of the rows of groups with a matrix for each group, and products over the rows of groups."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.api import jit
from jax._src.core import ShapeDtypeStruct
from jax._src.lax import lax
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.array_creation import arange, zeros
from jax._src.numpy.selecting import where
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.cost_estimate import CostEstimate
from jax._src.pallas.helpers import cdiv, when
from jax._src.pallas.mosaic.core import CompilerParams, MemorySpace, PrefetchScalarGridSpec
from jax._src.pallas.ops.tpu.megablox import common
from jax._src.pallas.ops.tpu.megablox.metadata import (
    GroupMetadata,
    group_offsets,
    make_group_metadata,
    rows_of_group,
)
from jax._src.pallas.ops.tpu.tiles import before_end, product
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.primitives import num_programs, program_id

Tiling = tuple[int, int, int] | Callable[[int, int, int], tuple[int, int, int] | None] | None

_STATIC = ("preferred_element_type", "tiling", "interpret")


def _check(lhs: Any, rhs: Any, group_sizes: Any, rhs_dims: int) -> None:
    if lhs.ndim != 2:
        raise ValueError(f"Expected 2-tensor for 'lhs' but got {lhs.ndim}-tensor.")
    if rhs.ndim != rhs_dims:
        raise ValueError(f"Expected {rhs_dims}-tensor for 'rhs' but got {rhs.ndim}-tensor.")
    common.assert_is_supported_dtype(lhs.dtype)
    common.assert_is_supported_dtype(rhs.dtype)
    if group_sizes.dtype != np.int32:
        raise ValueError(f"Expected 32-bit integer 'group_sizes' but got {group_sizes.dtype}.")
    if group_sizes.ndim != 1 or group_sizes.size == 0:
        raise ValueError(
            f"Expected a vector of at least one size for 'group_sizes' but got the shape {group_sizes.shape}."
        )


def _tile_sizes(tiling: Tiling, m: int, k: int, n: int) -> tuple[int, int, int]:
    sizes = tiling(m, k, n) if callable(tiling) else tiling
    if sizes is None:
        raise ValueError(f"No tuned tiling found for (m, k, n) = ({m}, {k}, {n})")
    if m % sizes[0]:
        raise ValueError(f"{m} must be divisible by x-dimension tile size ({sizes[0]}).")
    return sizes


def _first_group(group_offset: Any) -> Any:
    if group_offset is None:
        return np.int32(0)
    group_offset = asarray(group_offset)
    if group_offset.shape:
        raise ValueError(f"group_offset must be a ()-shaped array. Got: {group_offset.shape}.")
    if not dtypes.issubdtype(group_offset.dtype, np.integer):
        raise ValueError(f"group_offset must be an integer. Got: {group_offset.dtype}.")
    return group_offset.astype(np.int32)


def _check_existing(existing_out: Any, shape: tuple[int, ...], dtype: Any) -> None:
    if existing_out is None:
        return
    if existing_out.dtype != dtype:
        raise ValueError("Existing output dtype must match preferred_element_type.")
    if existing_out.shape != shape:
        raise ValueError(
            f"Existing output should have the shape {shape}, but has {existing_out.shape}."
        )


def _scalars(metadata: GroupMetadata, start: Any) -> tuple[Any, ...]:
    return *metadata, lax.reshape(asarray(start), (1,))


def _bytes(*arrays: Any) -> int:
    return sum(x.size * x.dtype.itemsize for x in arrays)


def _call(
    kernel: Any, grid: tuple[Any, ...], scalars: tuple[Any, ...], arrays: list[Any], in_specs: list[BlockSpec],
    existing_out: Any, out: ShapeDtypeStruct, out_spec: BlockSpec, scratch: tuple[int, int],
    semantics: tuple[str, ...], cost: CostEstimate, interpret: bool, name: str,
) -> Any:  # fmt: skip
    """Apply a kernel of (metadata, first group, operands, existing results or None, result, scratch)."""
    aliases = {}
    if existing_out is not None:
        aliases = {len(scalars) + len(arrays): 0}
        arrays, in_specs = [*arrays, existing_out], [*in_specs, out_spec]
    n = len(scalars)

    def run(*refs: Any) -> None:
        *operands, out_ref, acc_ref = refs[n:]
        existing = operands.pop() if existing_out is not None else None
        kernel(GroupMetadata(*refs[: n - 1]), *operands, existing, out_ref, acc_ref)

    spec = PrefetchScalarGridSpec(
        n, grid, in_specs, out_spec, [MemorySpace.VMEM(scratch, np.float32)]
    )
    call = pallas_call(
        run, out, grid_spec=spec, input_output_aliases=aliases, interpret=interpret, name=name,
        compiler_params=CompilerParams(dimension_semantics=semantics), cost_estimate=cost,
    )  # fmt: skip
    return call(*scalars, *arrays)


@functools.partial(jit, static_argnames=(*_STATIC, "transpose_rhs"))
def gmm(
    lhs: Any, rhs: Any, group_sizes: Any, preferred_element_type: Any = np.float32,
    tiling: Tiling = (128, 128, 128), group_offset: Any = None, existing_out: Any = None,
    transpose_rhs: bool = False, interpret: bool = False,
) -> Any:  # fmt: skip
    """Multiply the rows of each group by the matrix of the group.

    The algorithm is that of Gale et al., "MegaBlocks" (2022, arXiv:2211.15841): a tile of rows is visited once
    for each group that has rows in it.

    Args:
      lhs: the rows, [m, k], of which the first group_sizes[0] are the first group, and so on.
      rhs: the matrices, [groups, k, n].
      group_sizes: numbers of rows, [groups], int32.
      preferred_element_type: the dtype of the results.
      tiling: sizes of tiles along m, k and n, or a function of m, k and n that returns them. The first divides m.
      group_offset: the group of the first matrix, where rhs has matrices of some of the groups.
      existing_out: results for rows of other groups; without it they are 0.
      transpose_rhs: whether rhs is [groups, n, k].
      interpret: whether to run the kernel as a program of XLA, which any device can.

    Returns:
      [m, n].

    Raises:
      ValueError: if arrays do not fit, or the tile does not divide m.
    """
    _check(lhs, rhs, group_sizes, 3)
    dtype = np.dtype(preferred_element_type)
    m, k = lhs.shape
    num_matrices = rhs.shape[0]
    n, rhs_k = rhs.shape[1:] if transpose_rhs else rhs.shape[:0:-1]
    if rhs_k != k:
        raise ValueError(f"lhs has {k} columns, but the matrices of rhs have {rhs_k} rows.")
    _check_existing(existing_out, (m, n), dtype)
    tm, tk, tn = _tile_sizes(tiling, m, k, n)
    tiles_k, tiles_n = cdiv(k, tk), cdiv(n, tn)
    start = _first_group(group_offset)
    if 0 in (m, k, n):
        # No step of the grid would write the results.
        out = zeros((m, n), dtype)
        if existing_out is None:
            return out
        return where(rows_computed(group_sizes, start, num_matrices, m), out, existing_out)
    metadata, count = make_group_metadata(
        group_sizes=group_sizes, m=m, tm=tm, start_group=start, num_nonzero_groups=num_matrices,
        visit_empty_groups=False,
    )  # fmt: skip
    end = metadata.group_offsets[-1]
    # All groups are here: tiles that no group has rows in follow in the list, and become 0.
    is_whole = group_offset is None and num_matrices == group_sizes.shape[0]
    if is_whole and existing_out is None:
        count = count + m // tm - (end + tm - 1) // tm
    input_dtype = common.select_input_dtype(lhs, rhs)

    def kernel(
        groups: GroupMetadata,
        lhs_ref: Any,
        rhs_ref: Any,
        existing_ref: Any,
        out_ref: Any,
        acc_ref: Any,
    ) -> None:
        at, k_i = program_id(1), program_id(2)

        @when(k_i == 0)
        def _() -> None:
            acc_ref[...] = zeros(acc_ref.shape, np.float32)

        x, y = lhs_ref[...], rhs_ref[...]
        if k % tk:
            x = before_end(x, k - k_i * tk, 1)
            y = before_end(y, k - k_i * tk, int(transpose_rhs))
        axes = (1, int(transpose_rhs))
        acc_ref[...] += product(x.astype(input_dtype), y.astype(input_dtype), axes)

        @when(k_i == tiles_k - 1)
        def _() -> None:
            ids = groups.m_tile_ids
            is_first = (at == 0) | (ids[lax.max(at - 1, np.int32(0))] != ids[at])

            @when(is_first)
            def _() -> None:
                other = zeros(out_ref.shape, dtype) if existing_ref is None else existing_ref[...]
                out_ref[...] = other

            mine = rows_of_group(groups, at, tm, tn)
            old = out_ref[...].astype(np.float32)
            out_ref[...] = where(mine, acc_ref[...], old).astype(dtype)

    tile = lambda ids, at: ids[at]
    in_specs = [BlockSpec((tm, tk), lambda j, at, i, _, __, tiles, ___: (tile(tiles, at), i))]
    if transpose_rhs:
        of_rhs = lambda j, at, i, _, ids, __, start: (ids[at] - start[0], j, i)
        in_specs.append(BlockSpec((None, tn, tk), of_rhs))
    else:
        of_rhs = lambda j, at, i, _, ids, __, start: (ids[at] - start[0], i, j)
        in_specs.append(BlockSpec((None, tk, tn), of_rhs))
    out_spec = BlockSpec((tm, tn), lambda j, at, i, _, __, tiles, ___: (tile(tiles, at), j))
    out = ShapeDtypeStruct((m, n), dtype)
    visits = m // tm + group_sizes.shape[0] - 1
    moved = _bytes(lhs) * tiles_n + k * n * rhs.dtype.itemsize * visits + _bytes(out)
    result = _call(
        kernel, (tiles_n, count, tiles_k), _scalars(metadata, start), [lhs, rhs], in_specs, existing_out, out,
        out_spec, (tm, tn), ("parallel", "arbitrary", "arbitrary"), CostEstimate(2 * m * k * n, 0, moved),
        interpret, "gmm",
    )  # fmt: skip
    if is_whole or existing_out is not None:
        return result
    return where(rows_computed(group_sizes, start, num_matrices, m), result, zeros((), dtype))


def rows_computed(group_sizes: Any, start: Any, num_groups: int, m: int) -> Any:
    """Return which rows are in some groups, [m, 1]."""
    row = lax.expand_dims(arange(m, dtype=np.int32), (1,))
    offsets = group_offsets(group_sizes)
    return (row >= offsets[start]) & (row < offsets[start + num_groups])


@functools.partial(jit, static_argnames=(*_STATIC, "num_actual_groups"))
def tgmm(
    lhs: Any, rhs: Any, group_sizes: Any, preferred_element_type: Any = np.float32,
    tiling: Tiling = (128, 128, 128), group_offset: Any = None, num_actual_groups: int | None = None,
    existing_out: Any = None, interpret: bool = False,
) -> Any:  # fmt: skip
    """Multiply two matrices over the rows of each group: the derivative of `gmm` by the matrices.

    Args:
      lhs: [k, m].
      rhs: [m, n].
      group_sizes, preferred_element_type, tiling, interpret: as in `gmm`.
      group_offset, num_actual_groups: the first group, and how many are computed; by default all.
      existing_out: what is added to the results.

    Returns:
      [groups, k, n].

    Raises:
      ValueError: if arrays do not fit, or the tile does not divide m.
    """
    _check(lhs, rhs, group_sizes, 2)
    dtype = np.dtype(preferred_element_type)
    k, m = lhs.shape
    n = rhs.shape[1]
    if rhs.shape[0] != m:
        raise ValueError(f"lhs has {m} columns, but rhs has {rhs.shape[0]} rows.")
    num_groups = group_sizes.shape[0] if num_actual_groups is None else num_actual_groups
    if not 0 < num_groups <= group_sizes.shape[0]:
        raise ValueError(
            f"{num_actual_groups=} must be in range (0, {group_sizes.shape[0]}], the number of groups."
        )
    _check_existing(existing_out, (num_groups, k, n), dtype)
    tm, tk, tn = _tile_sizes(tiling, m, k, n)
    start = _first_group(group_offset)
    if 0 in (m, k, n):
        return zeros((num_groups, k, n), dtype) if existing_out is None else existing_out
    metadata, count = make_group_metadata(
        group_sizes=group_sizes, m=m, tm=tm, start_group=start, num_nonzero_groups=num_groups,
    )  # fmt: skip
    input_dtype = common.select_input_dtype(lhs, rhs)

    def kernel(
        groups: GroupMetadata,
        lhs_ref: Any,
        rhs_ref: Any,
        existing_ref: Any,
        out_ref: Any,
        acc_ref: Any,
    ) -> None:
        at, last = program_id(2), num_programs(2) - 1
        ids = groups.group_ids
        group = ids[at]
        final = np.int32(ids.shape[0] - 1)
        is_first = (at == 0) | (ids[lax.max(at - 1, np.int32(0))] != group)
        is_last = (at == last) | (ids[lax.min(at + 1, final)] != group)

        @when(is_first)
        def _() -> None:
            acc_ref[...] = zeros(acc_ref.shape, np.float32)

        @when(groups.group_offsets[group + 1] > groups.group_offsets[group])
        def _() -> None:
            # Both are masked: rows of other groups may have infinities.
            parts = [
                where(rows_of_group(groups, at, tm, ref.shape[1]), ref[...], zeros((), ref.dtype))
                for ref in (lhs_ref, rhs_ref)
            ]
            acc_ref[...] += product(*[x.astype(input_dtype) for x in parts], (0, 0))

        @when(is_last)
        def _() -> None:
            acc = acc_ref[...]
            if existing_ref is not None:
                acc = acc + existing_ref[...].astype(np.float32)
            out_ref[...] = acc.astype(dtype)

    in_specs = [
        BlockSpec((tm, tk), lambda j, i, at, _, __, tiles, ___: (tiles[at], i)),
        BlockSpec((tm, tn), lambda j, i, at, _, __, tiles, ___: (tiles[at], j)),
    ]
    of_group = lambda j, i, at, _, ids, __, start: (ids[at] - start[0], i, j)
    out = ShapeDtypeStruct((num_groups, k, n), dtype)
    moved = _bytes(lhs) * cdiv(n, tn) + _bytes(rhs) * cdiv(k, tk) + _bytes(out)
    if existing_out is not None:
        moved += _bytes(out)
    return _call(
        kernel, (cdiv(n, tn), cdiv(k, tk), count), _scalars(metadata, start), [lhs.T, rhs], in_specs,
        existing_out, out, BlockSpec((None, tk, tn), of_group), (tk, tn),
        ("parallel", "parallel", "arbitrary"), CostEstimate(2 * m * k * n, 0, moved), interpret, "tgmm",
    )  # fmt: skip
