"""Products of groups of rows of two matrices on Blackwell GPUs: the derivative of products of groups by their matrices.

The rows of both matrices are copied before, so that each group begins with a step and zeros are between groups: no warp hides
rows of other groups.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import traceback_util
from jax._src.core import ShapedArray
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.control_flow import cond
from jax._src.lax.parallel import axis_index
from jax._src.numpy.indexing import take
from jax._src.pallas.helpers import when
from jax._src.pallas.mosaic_gpu.copies import (
    barrier_arrive,
    barrier_wait,
    copy_smem_to_gmem,
    wait_smem_to_gmem,
)
from jax._src.pallas.mosaic_gpu.helpers import (
    dynamic_scheduling_loop,
    planar_snake,
)
from jax._src.pallas.mosaic_gpu.kernel import kernel
from jax._src.pallas.mosaic_gpu.layouts import Layout
from jax._src.pallas.mosaic_gpu.memory_operations import layout_cast
from jax._src.pallas.mosaic_gpu.mma import async_load_tmem, wait_load_tmem
from jax._src.pallas.ops.differentiable import linear
from jax._src.pallas.ops.gpu.blackwell_matmul import (
    RESULTS,
    Plan,
    Steps,
    divided,
    multiply_tile,
    plan_tiles,
    store_parts,
)
from jax._src.pallas.ops.gpu.warpgroups import with_rows_of

traceback_util.register_exclusion(__file__)


def transposed_ragged_dot(
    a: Any, b: Any, group_sizes: Any, config: Any, ragged_dot: Callable[..., Any], interpret: Any
) -> Any:
    """Return the product of each group of rows of a matrix, transposed, with the same rows of another one.

    Args:
      a, b: arrays of shape (rows, m) and (rows, n), of one dtype.
      group_sizes: array of shape (groups,): how many rows each group has. Their sum is at most `rows`, which 128 divides.
      config: how products of groups are divided.
      ragged_dot: the function, with derivatives, of an array of rows, of matrices, of sizes, of how the product is
        divided, and of whether the matrices are transposed, that multiplies groups with a matrix each.
      interpret: options of the interpreter.

    Returns:
      An array of shape (groups, m, n) and the same dtype.
    """
    (rows, m), n = a.shape, b.shape[1]

    def by_a(g: Any, b: Any, sizes: Any) -> Any:
        return ragged_dot(b, g, sizes, divided(config, (rows, m, n), a.dtype), True)

    def by_b(g: Any, a: Any, sizes: Any) -> Any:
        return ragged_dot(a, g, sizes, divided(config, (rows, n, m), a.dtype), False)

    run = functools.partial(_multiply, config=config, interpret=interpret)
    return linear(run, (by_a, by_b), a, b, group_sizes)


def _multiply(a: Any, b: Any, group_sizes: Any, config: Any, interpret: Any) -> Any:
    m, groups = a.shape[1], group_sizes.shape[0]
    a, b, parts = _aligned(with_rows_of(a, config.tile_m, True), b, group_sizes, config.tile_k)
    rows, n = a.shape[1], b.shape[1]
    config = divided(config, (rows, n, config.tile_k), a.dtype)
    plan = plan_tiles(a, b, config, "transposed_ragged_dot", (True, False))
    run = kernel(
        _body(plan), out_type=ShapedArray((groups, rows, n), plan.dtype), scratch_types=plan.scratch(),
        grid=(groups * plan.shape[0] * plan.shape[1],), grid_names=("tile",), num_threads=2, thread_name="thread",
        interpret=interpret, **plan.cluster(),
    )  # fmt: skip
    return run(a, b, parts)[:, :m]


def _aligned(a: Any, b: Any, group_sizes: Any, size: int) -> tuple[Any, Any, Any]:
    """Return matrices whose groups begin with steps of some rows, and the first step and the number of steps of each."""
    rows, groups = a.shape[0], group_sizes.shape[0]
    sizes = lax.convert_element_type(group_sizes, np.int32)
    ends = lax.cumsum(sizes)
    steps = lax.div(lax.add(sizes, np.int32(size - 1)), np.int32(size))
    after = lax.cumsum(steps)
    first = lax.sub(after, steps)
    total = rows // size + groups
    shape = (total, groups)
    along = lambda x, d: lax.broadcast_in_dim(x, shape, (d,))
    step = lax.iota(np.int32, total)
    inside = lax.bitwise_and(
        lax.ge(along(step, 0), along(first, 1)), lax.lt(along(step, 0), along(after, 1))
    )
    of_group = lambda x: lax.reduce_sum(
        lax.select(inside, along(x, 1), lax.full(shape, 0, np.int32)), (1,)
    )
    start = lax.add(
        of_group(lax.sub(ends, sizes)), lax.mul(lax.sub(step, of_group(first)), np.int32(size))
    )
    wide = (total, size)
    row = lax.add(lax.broadcast_in_dim(start, wide, (0,)), lax.broadcasted_iota(np.int32, wide, 1))
    # Beyond groups rows are zero.
    row = lax.select(
        lax.lt(row, lax.broadcast_in_dim(of_group(ends), wide, (0,))),
        row,
        lax.full(wide, rows, np.int32),
    )
    row = lax.reshape(row, (total * size,))
    a, b = [take(x, row, axis=0, mode="fill", fill_value=0) for x in (a, b)]
    parts = [lax.reshape(x, (groups, 1)) for x in (first, steps)]
    return a, b, lax.concatenate(parts, 1)


def _body(plan: Plan) -> Any:
    config, tiles = plan.config, plan.shape[0] * plan.shape[1]

    def body(
        a_ref: Any, b_ref: Any, parts_ref: Any, out_ref: Any, *, acc: Any, **scratch: Any
    ) -> None:
        thread = axis_index("thread")
        zero = np.int32(0)

        @dynamic_scheduling_loop(
            ("tile",), thread_axis="thread",
            cluster_axes=() if plan.axis is None else (plan.axis,), init_carry=(zero, zero),
        )  # fmt: skip
        def computed(
            info: Any, carry: Any
        ) -> Any:  # how many tiles, and steps, have been multiplied
            group = lax.div(info.index[0], np.int32(tiles))
            at = planar_snake(
                lax.rem(info.index[0], np.int32(tiles)), plan.shape, config.grid_minor_dim,
                config.grid_tile_width,
            )  # fmt: skip
            number, before = carry
            start, count = [parts_ref[group, np.int32(i)] for i in range(2)]
            some = lax.gt(count, zero)
            slot = lax.rem(number, np.int32(RESULTS))
            mine = acc.at[:, ds(lax.mul(slot, np.int32(plan.columns)), plan.columns)]

            @when(lax.bitwise_and(lax.eq(thread, zero), some))
            def _() -> None:
                steps = Steps(before, start, count)
                multiply_tile(plan, a_ref, b_ref, mine, at, number, slot, scratch, steps)

            @when(lax.eq(thread, np.int32(1)))
            def _() -> None:
                _store(plan, out_ref.at[group], mine, at, slot, some, scratch)

            return lax.add(number, lax.convert_element_type(some, np.int32)), lax.add(before, count)

        @when(lax.eq(thread, np.int32(1)))
        def _() -> None:
            wait_smem_to_gmem(0)

    return body


def _store(plan: Plan, out_ref: Any, acc: Any, at: Any, slot: Any, some: Any, scratch: Any) -> None:
    """Store a tile, or zeros."""
    height = plan.config.tile_m
    row = lax.add(lax.mul(at[0], np.int32(plan.rows)), plan.own_row())

    def read(columns: Any) -> Any:
        return cond(
            some,
            lambda: async_load_tmem(acc.at[:, columns]),
            lambda: layout_cast(lax.full((height, columns.size), 0, np.float32), Layout.TCGEN05),
        )

    @when(some)
    def _() -> None:
        barrier_wait(scratch["multiplied"].at[slot])

    store_parts(
        plan, out_ref, at[1], scratch["out"], read,
        lambda buffer, ref: copy_smem_to_gmem(buffer, ref.at[ds(row, height)]),
    )  # fmt: skip

    @when(some)
    def _() -> None:
        wait_load_tmem()
        barrier_arrive(scratch["stored"].at[slot])
