"""Products of groups of rows with a matrix each on Blackwell GPUs.

A tile of rows in which several groups meet is multiplied once for each of them, as in MegaBlocks (Gale et al., 2022,
arXiv:2211.15841); which groups have rows in which tiles is computed before the kernel.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import ShapedArray
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.control_flow import cond
from jax._src.lax.parallel import axis_index
from jax._src.pallas.helpers import when
from jax._src.pallas.mosaic_gpu.copies import (
    barrier_arrive,
    barrier_wait,
    wait_smem_to_gmem,
)
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.helpers import (
    dynamic_scheduling_loop,
    planar_snake,
)
from jax._src.pallas.mosaic_gpu.kernel import kernel
from jax._src.pallas.mosaic_gpu.layouts import Layout
from jax._src.pallas.mosaic_gpu.memory_operations import layout_cast
from jax._src.pallas.mosaic_gpu.mma import async_load_tmem, wait_load_tmem
from jax._src.pallas.ops.differentiable import linear, turned
from jax._src.pallas.ops.gpu import blackwell_matmul
from jax._src.pallas.ops.gpu.blackwell_matmul import (
    RESULTS,
    MatmulDimension,
    Plan,
    divided,
    multiply_tile,
    plan_tiles,
    store_parts,
)
from jax._src.pallas.ops.gpu.blackwell_transposed_ragged_dot import transposed_ragged_dot
from jax._src.pallas.ops.gpu.warpgroups import store_rows
from jax._src.random.discrete import multinomial
from jax._src.random.gamma import dirichlet
from jax._src.random.keys import split

traceback_util.register_exclusion(__file__)


@dataclasses.dataclass(frozen=True)
class TuningConfig:
    """How a product of groups of rows is divided.

    Args:
      tile_m, tile_n, tile_k: the sizes of what a block multiplies in one step. Of a pair of blocks results
        have twice as many rows and columns.
      max_concurrent_steps: how many steps are under way at a time.
      collective: whether two blocks multiply together.
      grid_tile_width: how many results come after each other along `grid_minor_dim` before the other
        dimension's.
      grid_minor_dim: the dimension along which results come after each other first.
      epilogue_tile_n: how many columns of a result are stored at a time.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    max_concurrent_steps: int
    collective: bool
    grid_tile_width: int
    grid_minor_dim: MatmulDimension
    epilogue_tile_n: int = 64


def ragged_dot_kernel(
    a: Any, b: Any, group_sizes: Any, config: TuningConfig, *, interpret: Any = None
) -> Any:
    """Return the product of groups of rows of a matrix with a matrix each, on a Blackwell GPU: `jax.lax.ragged_dot`.

    Args:
      a: array of shape (m, k), of bfloat16, float16 or float8.
      b: array of shape (groups, k, n), of the same dtype.
      group_sizes: array of shape (groups,): how many rows each group has. Their sum is at most m.
      config: how the product is divided.
      interpret: `plgpu.InterpretParams()` to run it without a GPU.

    Returns:
      An array of shape (m, n) of the same dtype; products are added in float32. Rows beyond all groups are
      zero. Derivatives are such products, and products of groups of rows of two matrices, which are copied before, so that
      each group begins with a step.

    Raises:
      ValueError: if shapes, dtypes and tiles do not match.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> from jax.experimental.pallas.ops.gpu.blackwell_matmul_mgpu import MatmulDimension
    >>> from jax.experimental.pallas.ops.gpu.blackwell_ragged_dot_mgpu import TuningConfig, ragged_dot_kernel
    >>> config = TuningConfig(128, 64, 64, 2, False, 1, MatmulDimension.N)
    >>> x, y = jnp.ones((128, 64), jnp.float16), jnp.stack([jnp.eye(64), 2 * jnp.eye(64)]).astype(jnp.float16)
    >>> sizes = jnp.array([10, 118])
    >>> ragged_dot_kernel(x, y, sizes, config, interpret=plgpu.InterpretParams())[9:11, 0].tolist()
    [1.0, 2.0]
    """
    if len(a.shape) != 2 or len(b.shape) != 3:
        raise ValueError(
            f"ragged_dot_kernel takes arrays of shape (m, k) and (groups, k, n), got {a.shape} and {b.shape}."
        )
    groups = b.shape[0]
    if tuple(group_sizes.shape) != (groups,) or not dtypes.issubdtype(
        group_sizes.dtype, np.integer
    ):
        raise ValueError(
            f"ragged_dot_kernel of {groups} matrices takes group_sizes of shape ({groups},) and an integer dtype, got shape "
            f"{tuple(group_sizes.shape)} of {dtypes.dtype_name(group_sizes.dtype)}."
        )
    config = blackwell_matmul.TuningConfig(**dataclasses.asdict(config))
    plan_tiles(a, b, config, "ragged_dot_kernel")  # checks sizes and tiles
    return _ragged_dot(a, b, group_sizes, config, False, interpret)


def _ragged_dot(
    a: Any, b: Any, group_sizes: Any, config: Any, is_transposed: bool, interpret: Any
) -> Any:
    """Return `ragged_dot_kernel`, with derivatives, with matrices of `b` that may be transposed before."""
    (m, k), n = a.shape, turned(b.shape[1:], is_transposed)[1]

    def by_a(g: Any, b: Any, sizes: Any) -> Any:
        of_g = divided(config, (m, k, n), a.dtype)
        return _ragged_dot(g, b, sizes, of_g, not is_transposed, interpret)

    def by_b(g: Any, a: Any, sizes: Any) -> Any:
        pair = (g, a) if is_transposed else (a, g)
        again = functools.partial(_ragged_dot, interpret=interpret)
        return transposed_ragged_dot(*pair, sizes, config, again, interpret)

    run = functools.partial(
        _multiply_groups, config=config, is_transposed=is_transposed, interpret=interpret
    )
    return linear(run, (by_a, by_b), a, b, group_sizes)


def _multiply_groups(
    a: Any, b: Any, group_sizes: Any, config: Any, is_transposed: bool, interpret: Any
) -> Any:
    plan = plan_tiles(a, b, config, "ragged_dot_kernel", (False, is_transposed))
    (m, n), groups = (a.shape[0], turned(b.shape[1:], is_transposed)[1]), b.shape[0]
    # Each tile of rows ends a part of a group, and each group but the last one another: what is left of the rows is one more.
    parts = plan.shape[0] + groups
    # Copies of any number of rows have none that are swizzled.
    out = MemorySpace.SMEM((RESULTS, config.tile_m, config.epilogue_tile_n), plan.dtype)
    run = kernel(
        _body(plan, groups, parts), out_type=ShapedArray((m, n), plan.dtype),
        scratch_types=plan.scratch() | dict(out=out), grid=(parts * plan.shape[1],), grid_names=("tile",),
        num_threads=2, thread_name="thread", interpret=interpret, **plan.cluster(),
    )  # fmt: skip
    return run(a, b, _parts(group_sizes, m, plan.rows, parts))


def _parts(group_sizes: Any, m: int, rows: int, parts: int) -> Any:
    """Return the parts of groups in tiles of some rows, in the order of rows.

    Returns:
      An int32 array of shape (parts, 4): the group of a part, its tile, the first of its rows in the tile, and
      how many there are. What is left of the rows is of one more group. Beyond the last part there are no rows.
    """
    zero, one = np.int32(0), np.int32(1)
    ends = lax.cumsum(lax.convert_element_type(group_sizes, np.int32))
    ends = lax.pad(ends, np.int32(m), ((0, 1, 0),))
    starts = lax.pad(ends[:-1], zero, ((1, 0, 0),))
    tile = lambda x: lax.div(x, lax.full_like(x, rows))
    some = lax.gt(ends, starts)
    counts = lax.add(lax.sub(tile(lax.sub(ends, one)), tile(starts)), one)
    counts = lax.select(some, counts, lax.full_like(counts, 0))
    after = lax.cumsum(counts)  # the parts of a group and of those before it
    shape = (parts, ends.shape[0])
    number = lax.iota(np.int32, parts)
    along = lambda x, d: lax.broadcast_in_dim(x, shape, (d,))
    before = lax.convert_element_type(lax.le(along(after, 1), along(number, 0)), np.int32)
    group = lax.reduce_sum(before, (1,))
    own = lax.eq(lax.broadcasted_iota(np.int32, shape, 1), along(group, 0))
    of_group = lambda x: lax.reduce_sum(
        lax.select(own, along(x, 1), lax.full(shape, 0, np.int32)), (1,)
    )
    start, end = of_group(starts), of_group(ends)
    at = lax.add(tile(start), lax.sub(number, of_group(lax.sub(after, counts))))
    first_row = lax.mul(at, lax.full_like(at, rows))
    first = lax.max(start, first_row)
    last = lax.min(end, lax.add(first_row, lax.full_like(at, rows)))
    size = lax.max(lax.sub(last, first), lax.full_like(at, 0))
    columns = [group, at, lax.sub(first, first_row), size]
    return lax.concatenate([lax.reshape(x, (parts, 1)) for x in columns], 1)


def _body(plan: Plan, groups: int, parts: int) -> Any:
    config = plan.config

    def body(
        a_ref: Any, b_ref: Any, parts_ref: Any, out_ref: Any, *, acc: Any, **scratch: Any
    ) -> None:
        thread = axis_index("thread")

        @dynamic_scheduling_loop(
            ("tile",), thread_axis="thread",
            cluster_axes=() if plan.axis is None else (plan.axis,), init_carry=np.int32(0),
        )  # fmt: skip
        def computed(info: Any, carry: Any) -> Any:  # how many tiles have been multiplied
            number, column = planar_snake(
                info.index[0], (parts, plan.shape[1]), config.grid_minor_dim, config.grid_tile_width
            )
            group, tile, first, size = [parts_ref[number, np.int32(i)] for i in range(4)]
            slot = lax.rem(carry, np.int32(RESULTS))
            mine = acc.at[:, ds(lax.mul(slot, np.int32(plan.columns)), plan.columns)]
            some = lax.gt(size, np.int32(0))
            multiplies = lax.bitwise_and(some, lax.lt(group, np.int32(groups)))
            at = (tile, column)

            @when(lax.bitwise_and(lax.eq(thread, np.int32(0)), multiplies))
            def _() -> None:
                multiply_tile(plan, a_ref, b_ref.at[group], mine, at, carry, slot, scratch)

            @when(lax.bitwise_and(lax.eq(thread, np.int32(1)), some))
            def _() -> None:
                _store(plan, out_ref, mine, at, slot, (first, size), multiplies, scratch)

            return lax.add(carry, lax.convert_element_type(multiplies, np.int32))

        @when(lax.eq(thread, np.int32(1)))
        def _() -> None:
            wait_smem_to_gmem(0)

    return body


def _store(
    plan: Plan, out_ref: Any, acc: Any, at: Any, slot: Any, rows: Any, multiplies: Any, scratch: Any
) -> None:
    """Store some rows of a tile, or zeros."""
    height, (first, size) = plan.config.tile_m, rows
    own = plan.own_row()
    row = lax.add(lax.mul(at[0], np.int32(plan.rows)), own)
    last = lax.min(lax.sub(lax.add(first, size), own), np.int32(height))
    first = lax.max(lax.sub(first, own), np.int32(0))

    def read(columns: Any) -> Any:
        return cond(
            multiplies,
            lambda: async_load_tmem(acc.at[:, columns]),
            lambda: layout_cast(lax.full((height, columns.size), 0, np.float32), Layout.TCGEN05),
        )

    def store(buffer: Any, ref: Any) -> None:
        store_rows(buffer, ref, first, lax.add(row, first), lax.sub(last, first))

    @when(multiplies)
    def _() -> None:
        barrier_wait(scratch["multiplied"].at[slot])

    store_parts(plan, out_ref, at[1], scratch["out"], read, store)

    @when(multiplies)
    def _() -> None:
        wait_load_tmem()
        barrier_arrive(scratch["stored"].at[slot])


def ragged_dot_reference(a: Any, b: Any, g: Any) -> Any:
    """Return what `ragged_dot_kernel` does, in float16, by XLA.

    Args:
      a: array of shape (m, k).
      b: array of shape (groups, k, n).
      g: array of shape (groups,): how many rows each group has.
    """
    return lax.ragged_dot(a, b, g, preferred_element_type=np.dtype(np.float16))


def sample_group_sizes(key: Any, num_groups: int, num_elements: int, alpha: float = 10.0) -> Any:
    """Return random sizes of groups: multinomial, with probabilities of a Dirichlet distribution.

    Args:
      key: a random key.
      num_groups: how many groups there are.
      num_elements: the sum of the sizes.
      alpha: the larger, the closer the sizes are to each other.

    Returns:
      An int32 array of shape (num_groups,).

    >>> from jax.experimental.pallas.ops.gpu.blackwell_ragged_dot_mgpu import sample_group_sizes
    >>> int(sample_group_sizes(jax.random.key(0), 4, 100).sum())
    100
    """
    first, second = split(key)
    p = dirichlet(first, lax.full((num_groups,), alpha, np.float32))
    return lax.convert_element_type(multinomial(second, num_elements, p), np.int32)
