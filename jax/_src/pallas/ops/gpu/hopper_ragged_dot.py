"""Products of matrices whose rows, or inner dimension, are divided into groups, on Hopper GPUs.

A block of rows in which several groups meet is multiplied once for each of them, as in MegaBlocks (Gale et al., 2022,
arXiv:2211.15841).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import ShapedArray
from jax._src.lax import lax
from jax._src.lax.control_flow import cond, fori_loop
from jax._src.lax.parallel import axis_index
from jax._src.pallas.helpers import when
from jax._src.pallas.mosaic_gpu.copies import (
    commit_smem,
    wait_smem_to_gmem,
)
from jax._src.pallas.mosaic_gpu.core import ACC, BlockSpec, MemorySpace
from jax._src.pallas.mosaic_gpu.helpers import nd_loop, planar_snake
from jax._src.pallas.mosaic_gpu.kernel import kernel
from jax._src.pallas.mosaic_gpu.mma import wgmma, wgmma_wait
from jax._src.pallas.mosaic_gpu.pipeline import emit_pipeline
from jax._src.pallas.mosaic_gpu.transforms import transpose_ref
from jax._src.pallas.ops.differentiable import linear
from jax._src.pallas.ops.gpu.warpgroups import (
    check_divides,
    check_product,
    int32,
    part,
    persistent_blocks,
    start_store,
    store_rows,
    swizzled,
    swizzling,
    zeros,
)
from jax._src.pallas.primitives import run_scoped
from jax._src.tree_util import register_dataclass

traceback_util.register_exclusion(__file__)
_DTYPES = ("bfloat16", "float16")


@register_dataclass
@dataclasses.dataclass(frozen=True)
class GroupInfo:
    """The rows of a group in a block of rows.

    Attributes:
      group_id: the number of the group.
      block: the number of the block.
      block_start: the block's first row.
      actual_start, actual_end: the first of the group's rows in the block, and the end of them.
      start_within_block: the first one, counted from the block's.
      actual_size: how many there are.
    """

    group_id: Any
    block: Any
    block_start: Any
    actual_start: Any
    actual_end: Any
    start_within_block: Any
    actual_size: Any

    @classmethod
    def create(cls, group_lengths: Any, tile: int, tid: Any) -> GroupInfo:
        """Return the `tid`-th pair of a group and a block in which it has rows, or ends.

        There are as many pairs as blocks and groups together, or fewer.

        Args:
          group_lengths: the sizes of the groups: an array or a reference to one, or a sequence of integers, for which no
            loop is made.
          tile: how many rows a block has.
          tid: the number of the pair. If a group ends with the block before, and beyond the last pair, all is zero.
        """
        tid, size = int32(tid), np.int32(tile)
        zero = np.int32(0)

        def step(i: Any, carry: Any) -> Any:
            """Carry the first row of a group and the number of its first pair, and what was found."""
            start, first, *found = carry
            length = int32(group_lengths[i])
            end = lax.add(start, length)
            block = lax.div(start, size)
            after = lax.add(first, lax.sub(lax.add(lax.div(end, size), np.int32(1)), block))
            mine = lax.add(block, lax.sub(tid, first))
            here = lax.bitwise_and(
                lax.ge(tid, first), lax.lt(lax.mul(mine, size), lax.max(end, np.int32(1)))
            )
            new = (int32(i), mine, start, end)
            found = [lax.select(here, a, b) for a, b in zip(new, found)]
            return (end, after, *found)

        carry: Any = tuple([lax.mul(tid, zero)] * 6)
        if isinstance(group_lengths, Sequence):
            for i in range(len(group_lengths)):
                carry = step(np.int32(i), carry)
        else:
            carry = fori_loop(zero, np.int32(group_lengths.shape[0]), step, carry)
        group, block, start, end = carry[2:]
        block_start = lax.mul(block, size)
        first = lax.max(start, block_start)
        last = lax.min(end, lax.add(block_start, size))
        return cls(
            group,
            block,
            block_start,
            first,
            last,
            lax.sub(first, block_start),
            lax.sub(last, first),
        )


def _check_groups(lhs: Any, rhs: Any, group_sizes: Any, name: str) -> None:
    left, right = dtypes.dtype_name(lhs.dtype), dtypes.dtype_name(rhs.dtype)
    if left != right or left not in _DTYPES:
        raise ValueError(
            f"{name} takes arrays of one dtype, {' or '.join(_DTYPES)}, got {left} and {right}."
        )
    if len(group_sizes.shape) != 1 or not dtypes.issubdtype(group_sizes.dtype, np.integer):
        raise ValueError(
            f"{name} takes group_sizes of shape (groups,) and an integer dtype, got shape {tuple(group_sizes.shape)} of "
            f"{dtypes.dtype_name(group_sizes.dtype)}."
        )


def _check_blocks(block_m: int, block_n: int, max_concurrent_steps: int, grid_block_n: int) -> None:
    check_product(("block_m", block_m), ("block_n", block_n))
    for name, value in (
        ("max_concurrent_steps", max_concurrent_steps),
        ("grid_block_n", grid_block_n),
    ):
        if value < 1:
            raise ValueError(f"{name}={value} must be positive.")


def ragged_dot(
    lhs: Any, rhs: Any, *, group_sizes: Any, block_m: int, block_n: int, block_k: int,
    max_concurrent_steps: int, grid_block_n: int, transpose_rhs: bool = False,
    load_group_sizes_to_register: bool = True, interpret: Any = None,
) -> Any:  # fmt: skip
    """Return the product of groups of rows of a matrix with a matrix each, on a Hopper GPU: `jax.lax.ragged_dot`.

    Args:
      lhs: array of shape (m, k), bfloat16 or float16.
      rhs: array of shape (groups, k, n) and the same dtype; with `transpose_rhs` (groups, n, k).
      group_sizes: array of shape (groups,): how many rows each group has. Their sum is at most m.
      block_m, block_n, block_k: the sizes of what is multiplied in one step.
      max_concurrent_steps: how many steps are under way at a time.
      grid_block_n: how many blocks of columns come after each other before the next rows.
      transpose_rhs: whether the matrices of `rhs` are transposed.
      load_group_sizes_to_register: whether each block of threads reads all sizes before it looks for its group; otherwise it
        reads them in a loop, which is less code.
      interpret: `plgpu.InterpretParams()` to run it without a GPU.

    Returns:
      An array of shape (m, n) and the same dtype; products are added in float32. Rows beyond all groups are zero.
      Derivatives are such products, and `transposed_ragged_dot`.

    Raises:
      ValueError: if shapes, dtypes and blocks do not match.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> from jax.experimental.pallas.ops.gpu.ragged_dot_mgpu import ragged_dot
    >>> x, y = jnp.ones((64, 64), jnp.float16), jnp.stack([jnp.eye(64), 2 * jnp.eye(64)]).astype(jnp.float16)
    >>> blocks = dict(block_m=64, block_n=64, block_k=64, max_concurrent_steps=2, grid_block_n=1)
    >>> out = ragged_dot(x, y, group_sizes=jnp.array([10, 54]), interpret=plgpu.InterpretParams(), **blocks)
    >>> out[9:11, 0].tolist()
    [1.0, 2.0]
    """
    _check_groups(lhs, rhs, group_sizes, "ragged_dot")
    if len(lhs.shape) != 2 or len(rhs.shape) != 3:
        raise ValueError(
            f"ragged_dot takes arrays of shape (m, k) and (groups, k, n), got {tuple(lhs.shape)} and {tuple(rhs.shape)}."
        )
    m, k = lhs.shape
    groups, n, inner = rhs.shape if transpose_rhs else (rhs.shape[0], rhs.shape[2], rhs.shape[1])
    if inner != k or group_sizes.shape[0] != groups:
        raise ValueError(
            f"ragged_dot of shapes {tuple(lhs.shape)} and {tuple(rhs.shape)}{' (transposed)' if transpose_rhs else ''} with "
            f"{group_sizes.shape[0]} groups: inner dimensions and numbers of groups must agree."
        )
    _check_blocks(block_m, block_n, max_concurrent_steps, grid_block_n)
    check_divides(("k", k, "block_k", block_k))
    for name, size, block in (("m", m, block_m), ("n", n, block_n)):
        if size < block:
            raise ValueError(f"{name}={size} must be at least block_{name}={block}.")
    if n % 8:
        raise ValueError(f"n={n} must be a multiple of 8, as rows of 16 bytes are copied.")
    blocks = Blocks(
        block_m, block_n, block_k, max_concurrent_steps, grid_block_n, load_group_sizes_to_register, interpret
    )  # fmt: skip
    return _ragged_dot(lhs, rhs, group_sizes, blocks, transpose_rhs)


@dataclasses.dataclass(frozen=True)
class Blocks:
    """How products of groups are divided, and run: see `ragged_dot`."""

    m: int
    n: int
    k: int
    max_concurrent_steps: int
    grid_n: int
    load_group_sizes_to_register: bool
    interpret: Any

    def of_sizes(self, m: int, n: int, k: int) -> Blocks:
        """Return blocks with at most some rows, columns and inner size, as far as products have so few."""
        rows = max(min(m, self.m) // 64 * 64, 64)
        inner = max(min(k, self.k) // 16 * 16, 16)
        return dataclasses.replace(self, m=rows, n=_columns(min(n, self.n)), k=inner)


def _columns(n: int) -> int:
    """Return how many columns, at most `n`, a product has whose rows are swizzled."""
    return n // 256 * 256 if n > 256 else max(n // 16 * 16, 16)


def _at_least(x: Any, shape: Sequence[int]) -> Any:
    """Return an array with zeros after its ends, so that it has at least a shape."""
    more = [(0, max(size - have, 0), 0) for have, size in zip(x.shape, shape)]
    return lax.pad(x, np.zeros((), x.dtype), more) if any(m for _, m, _ in more) else x


def _ragged_dot(lhs: Any, rhs: Any, group_sizes: Any, blocks: Blocks, transpose_rhs: bool) -> Any:
    """Return `ragged_dot`, with derivatives. Blocks need not divide any size: what is copied beyond arrays is zero."""
    (m, k), n = lhs.shape, rhs.shape[1 if transpose_rhs else 2]
    if m < blocks.m or n < blocks.n or k < blocks.k:  # no block begins and ends in arrays
        lhs = _at_least(lhs, (blocks.m, blocks.k))
        rhs = _at_least(rhs, (0, blocks.n, blocks.k) if transpose_rhs else (0, blocks.k, blocks.n))
        return _ragged_dot(lhs, rhs, group_sizes, blocks, transpose_rhs)[:m, :n]

    def by_lhs(g: Any, rhs: Any, sizes: Any) -> Any:
        return _ragged_dot(g, rhs, sizes, blocks.of_sizes(m, k, n), not transpose_rhs)

    def by_rhs(g: Any, lhs: Any, sizes: Any) -> Any:
        pair = (g, lhs) if transpose_rhs else (lhs, g)
        shape = (n, k, m) if transpose_rhs else (k, n, m)
        return _transposed_ragged_dot(*pair, sizes, blocks.of_sizes(*shape))

    fun = functools.partial(_multiply_groups, blocks=blocks, transpose_rhs=transpose_rhs)
    return linear(fun, (by_lhs, by_rhs), lhs, rhs, group_sizes)


def _multiply_groups(
    lhs: Any, rhs: Any, group_sizes: Any, blocks: Blocks, transpose_rhs: bool
) -> Any:
    (m, k), groups = lhs.shape, rhs.shape[0]
    n = rhs.shape[1 if transpose_rhs else 2]
    block_m, block_n, block_k = blocks.m, blocks.n, blocks.k
    max_concurrent_steps, grid_block_n = blocks.max_concurrent_steps, blocks.grid_n
    delay = min(1, max_concurrent_steps - 1)
    columns = -(-n // block_n)

    def multiply(x_ref: Any, y_ref: Any, info: GroupInfo, column: Any) -> Any:
        group = info.group_id
        shape, index = (block_k, block_n), lambda i: (group, i, column)
        if transpose_rhs:
            shape, index = (block_n, block_k), lambda i: (group, column, i)
        specs = [
            _spec((block_m, block_k), lambda i: (info.block, i), lhs.dtype, delay),
            _spec((None, *shape), index, lhs.dtype, delay),
        ]

        def run(acc: Any) -> Any:
            def step(_: Any, x: Any, y: Any) -> None:
                wgmma(acc, x, transpose_ref(y, (1, 0)) if transpose_rhs else y)
                wgmma_wait(delay)

            emit_pipeline(
                step, grid=(-(-k // block_k),), in_specs=specs, max_concurrent_steps=max_concurrent_steps
            )(x_ref, y_ref)  # fmt: skip
            return acc[...]

        return run_scoped(run, ACC((block_m, block_n)))

    def body(x_ref: Any, y_ref: Any, sizes_ref: Any, out_ref: Any, buffer: Any) -> None:
        lengths = sizes_ref
        if blocks.load_group_sizes_to_register:
            lengths = [sizes_ref[i] for i in range(groups + 1)]
        info = GroupInfo.create(lengths, block_m, axis_index("rows"))
        column = lax.add(lax.mul(axis_index("tile"), np.int32(grid_block_n)), axis_index("column"))
        some = lax.gt(info.actual_size, np.int32(0))

        @when(lax.bitwise_and(some, lax.lt(column, np.int32(columns))))
        def _() -> None:
            is_group = lax.lt(info.group_id, np.int32(groups))
            x = cond(
                is_group,
                lambda: multiply(x_ref, y_ref, info, column),
                lambda: zeros(block_m, block_n),
            )
            buffer[...] = lax.convert_element_type(x, lhs.dtype)
            commit_smem()
            columns_ref = out_ref.at[:, part(column, block_n)]
            store_rows(
                buffer, columns_ref, info.start_within_block, info.actual_start, info.actual_size
            )
            wait_smem_to_gmem(0)

    # What is left of the rows is one more group.
    sizes = lax.convert_element_type(group_sizes, np.int32)
    rest = lax.sub(np.int32(m), lax.reduce_sum(sizes, (0,)))
    sizes = lax.concatenate([sizes, lax.reshape(rest, (1,))], 0)
    call = kernel(
        body, out_type=ShapedArray((m, n), lhs.dtype), scratch_types=[MemorySpace.SMEM((block_m, block_n), lhs.dtype)],
        grid=(-(-columns // grid_block_n), -(-m // block_m) + groups, grid_block_n), grid_names=("tile", "rows", "column"),
        interpret=blocks.interpret,
    )  # fmt: skip
    return call(lhs, rhs, sizes)


def _spec(shape: tuple[int, int], index_map: Any, dtype: Any, delay: int) -> BlockSpec:
    return BlockSpec(shape, index_map, transforms=swizzling(shape[-1], dtype), delay_release=delay)


def transposed_ragged_dot(
    lhs: Any, rhs: Any, *, group_sizes: Any, block_m: int, block_n: int, block_k: int,
    max_concurrent_steps: int, grid_block_n: int, interpret: Any = None,
) -> Any:  # fmt: skip
    """Return the product of each group of rows of a matrix, transposed, with the same rows of another one, on a Hopper GPU.

    It is what the derivative of `ragged_dot` by `rhs` takes.

    Args:
      lhs: array of shape (k, m), bfloat16 or float16.
      rhs: array of shape (k, n) and the same dtype.
      group_sizes: array of shape (groups,): how many rows each group has. Their sum is at most k.
      block_m, block_n, block_k: the sizes of what is multiplied in one step.
      max_concurrent_steps: how many steps are under way at a time.
      grid_block_n: how many blocks of columns come after each other before the next rows.
      interpret: `plgpu.InterpretParams()` to run it without a GPU.

    Returns:
      An array of shape (groups, m, n) and the same dtype; products are added in float32. For groups without rows it is zero.

    Raises:
      ValueError: if shapes, dtypes and blocks do not match.
    """
    _check_groups(lhs, rhs, group_sizes, "transposed_ragged_dot")
    if len(lhs.shape) != 2 or len(rhs.shape) != 2 or lhs.shape[0] != rhs.shape[0]:
        raise ValueError(
            f"transposed_ragged_dot takes arrays of shape (k, m) and (k, n), got {tuple(lhs.shape)} and {tuple(rhs.shape)}."
        )
    (_, m), n = lhs.shape, rhs.shape[1]
    _check_blocks(block_m, block_n, max_concurrent_steps, grid_block_n)
    check_divides(("m", m, "block_m", block_m), ("n", n, "block_n", block_n))
    if block_k < 16 or block_k % 16:
        raise ValueError(
            f"block_k={block_k} must be a multiple of 16, the inner size of a product."
        )
    blocks = Blocks(block_m, block_n, block_k, max_concurrent_steps, grid_block_n, False, interpret)
    return _transposed_ragged_dot(lhs, rhs, group_sizes, blocks)


def _transposed_ragged_dot(lhs: Any, rhs: Any, group_sizes: Any, blocks: Blocks) -> Any:
    """Return `transposed_ragged_dot`, with derivatives, of blocks that need not divide any size."""
    (rows, m), n = lhs.shape, rhs.shape[1]
    if rows < blocks.k or m < blocks.m or n < blocks.n:
        lhs, rhs = _at_least(lhs, (blocks.k, blocks.m)), _at_least(rhs, (blocks.k, blocks.n))
        return _transposed_ragged_dot(lhs, rhs, group_sizes, blocks)[:, :m, :n]

    def by_lhs(g: Any, rhs: Any, sizes: Any) -> Any:
        return _ragged_dot(rhs, g, sizes, blocks.of_sizes(rows, m, n), True)

    def by_rhs(g: Any, lhs: Any, sizes: Any) -> Any:
        return _ragged_dot(lhs, g, sizes, blocks.of_sizes(rows, n, m), False)

    fun = functools.partial(_multiply_transposed, blocks=blocks)
    return linear(fun, (by_lhs, by_rhs), lhs, rhs, group_sizes)


def _multiply_transposed(lhs: Any, rhs: Any, group_sizes: Any, blocks: Blocks) -> Any:
    (_, m), n, groups = lhs.shape, rhs.shape[1], group_sizes.shape[0]
    block_m, block_n, block_k = blocks.m, blocks.n, blocks.k
    max_concurrent_steps, grid_block_n = blocks.max_concurrent_steps, blocks.grid_n
    shape = (-(-m // block_m), -(-n // block_n))
    tiles = shape[0] * shape[1]

    def multiply(x_ref: Any, y_ref: Any, start: Any, end: Any, at: Any) -> Any:
        first = lax.div(start, np.int32(block_k))
        steps = lax.sub(lax.div(lax.add(end, np.int32(block_k - 1)), np.int32(block_k)), first)
        steps = lax.select(lax.gt(end, start), steps, np.int32(0))

        def hide_other_groups(refs: Any, row: Any) -> None:
            """Make rows of other groups zero in parts of both matrices that begin with a row."""
            last = lax.add(row, np.int32(block_k))
            whole = lax.bitwise_and(lax.ge(row, start), lax.le(last, end))

            @when(lax.bitwise_not(whole))
            def _() -> None:
                for ref in refs:
                    ref[...] = _rows_between(ref[...], lax.sub(start, row), lax.sub(end, row))
                commit_smem()

        def run(acc: Any) -> Any:
            def step(indices: Any, x: Any, y: Any) -> None:
                row = lax.mul(lax.add(indices[0], first), np.int32(block_k))
                hide_other_groups((x, y), row)
                wgmma(acc, transpose_ref(x, (1, 0)), y)
                wgmma_wait(0)

            emit_pipeline(
                step, grid=(steps,), max_concurrent_steps=max_concurrent_steps,
                in_specs=[
                    _spec((block_k, block), lambda i, j=j: (lax.add(int32(i), first), j), lhs.dtype, 0)
                    for block, j in ((block_m, at[0]), (block_n, at[1]))
                ],
            )(x_ref, y_ref)  # fmt: skip
            return acc[...]

        return run_scoped(run, ACC((block_m, block_n)))

    def body(x_ref: Any, y_ref: Any, ends_ref: Any, out_ref: Any, buffer: Any) -> None:
        @nd_loop((groups, tiles), collective_axes="sm")
        def _(info: Any) -> None:
            group, number = info.index
            at = planar_snake(number, shape, 1, grid_block_n)
            start, end = ends_ref[group], ends_ref[lax.add(group, np.int32(1))]
            out = multiply(x_ref, y_ref, start, end, at)
            wait_smem_to_gmem(0, wait_read_only=True)
            start_store(out, buffer, out_ref.at[group, part(at[0], block_m), part(at[1], block_n)])

        wait_smem_to_gmem(0)

    call = kernel(
        body, out_type=ShapedArray((groups, m, n), lhs.dtype), scratch_types=[swizzled((block_m, block_n), lhs.dtype)],
        grid=(persistent_blocks(groups * tiles),), grid_names=("sm",), interpret=blocks.interpret,
    )  # fmt: skip
    return call(lhs, rhs, _ends(group_sizes))


def _rows_between(x: Any, start: Any, end: Any) -> Any:
    row = lax.broadcasted_iota(np.int32, x.shape, 0)
    inside = lax.bitwise_and(lax.ge(row, start), lax.lt(row, end))
    return lax.select(inside, x, lax.full_like(x, 0))


def _ends(group_sizes: Any) -> Any:
    """Return where groups end, after a zero."""
    ends = lax.cumsum(lax.convert_element_type(group_sizes, np.int32))
    return lax.pad(ends, np.int32(0), ((1, 0, 0),))


def ref_transposed_ragged_dot(lhs: Any, rhs: Any, group_sizes: Any) -> Any:
    """Return what `transposed_ragged_dot` does, by XLA."""
    ends = _ends(group_sizes)
    shape = (group_sizes.shape[0], lhs.shape[0])
    row = lax.broadcasted_iota(np.int32, shape, 1)
    along = lambda x: lax.broadcast_in_dim(x, shape, (0,))
    inside = lax.bitwise_and(lax.ge(row, along(ends[:-1])), lax.lt(row, along(ends[1:])))
    wide = (*shape, lhs.shape[1])
    rows = lax.broadcast_in_dim(lhs, wide, (1, 2))
    rows = lax.select(lax.broadcast_in_dim(inside, wide, (0, 1)), rows, lax.full_like(rows, 0))
    dims = (((1,), (0,)), ((), ()))
    out = lax.dot_general(rows, rhs, dims, preferred_element_type=np.float32)
    return lax.convert_element_type(out, lhs.dtype)
