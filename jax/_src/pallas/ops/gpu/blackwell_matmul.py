"""Products of matrices on Blackwell GPUs: warps that copy, that multiply, and that store results at the same time."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import ShapedArray
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.parallel import axis_index
from jax._src.pallas.helpers import loop, when
from jax._src.pallas.mosaic_gpu.copies import (
    CopyPartition,
    barrier_arrive,
    barrier_wait,
    commit_smem,
    copy_gmem_to_smem,
    copy_smem_to_gmem,
    wait_smem_to_gmem,
)
from jax._src.pallas.mosaic_gpu.core import Barrier, ClusterBarrier, MemorySpace
from jax._src.pallas.mosaic_gpu.helpers import (
    dynamic_scheduling_loop,
    planar_snake,
)
from jax._src.pallas.mosaic_gpu.kernel import kernel
from jax._src.pallas.mosaic_gpu.mma import (
    async_load_tmem,
    tcgen05_commit_arrive,
    tcgen05_mma,
    wait_load_tmem,
)
from jax._src.pallas.mosaic_gpu.transforms import transpose_ref
from jax._src.pallas.mosaic_gpu.warps import warp_map
from jax._src.pallas.ops.differentiable import product, turned
from jax._src.pallas.ops.gpu.warpgroups import MatmulDimension, part, swizzled, with_rows_of

traceback_util.register_exclusion(__file__)
TMEM = MemorySpace.TMEM
_DTYPES = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
RESULTS = 2  # accumulators, and buffers of results
_COPIES, _MULTIPLIES = 0, 1  # warps


@dataclasses.dataclass(frozen=True)
class TuningConfig:
    """How a product is divided.

    Args:
      tile_m, tile_n, tile_k: the sizes of what a block multiplies in one step. Of a pair of blocks results
        have twice as many rows and columns.
      max_concurrent_steps: how many steps are under way at a time.
      collective: whether two blocks multiply together.
      epilogue_tile_n: how many columns of a result are stored at a time.
      grid_minor_dim: the dimension along which results come after each other first.
      grid_tile_width: along it, how many before the other dimension's.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    max_concurrent_steps: int
    collective: bool
    epilogue_tile_n: int = 64
    grid_minor_dim: MatmulDimension = MatmulDimension.N
    grid_tile_width: int = 1


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the kernel is made from.

    Attributes:
      config: the options.
      dtype: that of all arrays.
      shape: the numbers of tiles of the result.
      steps: the number of steps of a tile.
      rows, columns: of a tile.
      transposed: whether each matrix is transposed before.
    """

    config: TuningConfig
    dtype: Any
    shape: tuple[int, int]
    steps: int
    rows: int
    columns: int
    transposed: tuple[bool, bool] = (False, False)

    @property
    def axis(self) -> str | None:
        return "x" if self.config.collective else None

    def cluster(self) -> dict[str, Any]:
        """Return the options of the kernel for blocks that multiply together."""
        return {} if self.axis is None else dict(cluster=(2,), cluster_names=(self.axis,))

    def own_row(self) -> Any:
        """Return the first row of this block in a tile."""
        if self.axis is None:
            return np.int32(0)
        return lax.mul(axis_index(self.axis), np.int32(self.config.tile_m))

    def scratch(self) -> dict[str, Any]:
        """Return the types of references."""
        c = self.config
        buffers = (c.max_concurrent_steps,)
        ordered = Barrier(num_barriers=RESULTS, orders_tensor_core=True)
        stored: Any = ordered
        if self.axis is not None:
            stored = ClusterBarrier(
                collective_axes=(self.axis,), num_barriers=RESULTS, orders_tensor_core=True
            )
        return dict(
            a=swizzled((*buffers, *turned((c.tile_m, c.tile_k), self.transposed[0])), self.dtype),
            b=swizzled((*buffers, *turned((c.tile_k, c.tile_n), self.transposed[1])), self.dtype),
            out=swizzled((RESULTS, c.tile_m, c.epilogue_tile_n), self.dtype),
            acc=TMEM((c.tile_m, RESULTS * self.columns), np.float32, collective=c.collective),
            copied=Barrier(num_arrivals=2, num_barriers=c.max_concurrent_steps),
            consumed=Barrier(num_barriers=c.max_concurrent_steps, orders_tensor_core=True),
            multiplied=ordered,
            stored=stored,
        )


def matmul_kernel(a: Any, b: Any, config: TuningConfig, *, interpret: Any = None) -> Any:
    """Return the product of two matrices, on a Blackwell GPU.

    Args:
      a: array of shape (m, k), of bfloat16, float16 or float8.
      b: array of shape (k, n), of the same dtype.
      config: how the product is divided.
      interpret: `plgpu.InterpretParams()` to run it without a GPU.

    Returns:
      An array of shape (m, n) of the same dtype; products are added in float32. Derivatives are such products.

    Raises:
      ValueError: if shapes, dtypes and tiles do not match.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> from jax.experimental.pallas.ops.gpu.blackwell_matmul_mgpu import TuningConfig, matmul_kernel
    >>> config = TuningConfig(tile_m=128, tile_n=64, tile_k=64, max_concurrent_steps=2, collective=False)
    >>> x = jnp.ones((128, 128), jnp.bfloat16)
    >>> float(matmul_kernel(x, x, config, interpret=plgpu.InterpretParams())[0, 0])
    128.0
    """
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ValueError(
            f"matmul_kernel takes matrices (m, k) and (k, n), got {a.shape} and {b.shape}."
        )
    plan_tiles(a, b, config, "matmul_kernel")  # checks sizes and tiles
    multiply = functools.partial(_multiply, config=config, interpret=interpret)
    return product(multiply, a, b, (False, False), a.dtype)


def _multiply(
    a: Any, b: Any, transposed: tuple[bool, bool], dtype: Any, *, config: TuningConfig, interpret: Any
) -> Any:  # fmt: skip
    """Return a product of matrices of one dtype, each of which may be transposed before.

    Args:
      a, b, transposed, dtype: as of `jax._src.pallas.ops.differentiable.product`.
      config: how the first product is divided.
      interpret: options of the interpreter.
    """
    m, k = turned(a.shape, transposed[0])
    n = turned(b.shape, transposed[1])[1]
    if any(transposed):
        a = with_rows_of(a, config.tile_m, transposed[0])
        config = divided(config, (turned(a.shape, transposed[0])[0], n, k), dtype)
    plan = plan_tiles(a, b, config, "matmul_kernel", transposed)
    rows = turned(a.shape, transposed[0])[0]
    run = kernel(
        _body(plan), out_type=ShapedArray((rows, n), plan.dtype), scratch_types=plan.scratch(),
        grid=(plan.shape[0] * plan.shape[1],), grid_names=("tile",), num_threads=2, thread_name="thread",
        interpret=interpret, **plan.cluster(),
    )  # fmt: skip
    out = run(a, b)
    return out if rows == m else out[:m]


def divided(config: Any, sizes: tuple[int, int, int], dtype: Any) -> Any:
    """Return how a product of other sizes is divided: into tiles as large as can be, but not larger than before.

    Args:
      config: how a product of matrices of the dtype is divided.
      sizes: m, which is a multiple of 128, n and k.
      dtype: the dtype.
    """
    (m, n, k), unit = sizes, 32 * 8 // dtypes.itemsize_bits(dtype)  # rows in memory of 32 bytes

    def largest(size: int, most: int) -> int:
        return max([t for t in range(unit, most + 1, unit) if size % t == 0], default=0)

    tile_n = largest(n, 2 * config.tile_n) // 2 // unit * unit if config.collective else 0
    is_collective = m % 256 == 0 and tile_n > 0 and n % (2 * tile_n) == 0
    if not is_collective:
        tile_n = largest(n, config.tile_n)
    columns = 2 * tile_n if is_collective else tile_n
    return dataclasses.replace(
        config, tile_n=tile_n, tile_k=largest(k, config.tile_k), collective=is_collective,
        epilogue_tile_n=math.gcd(columns, config.epilogue_tile_n),
    )  # fmt: skip


def plan_tiles(
    a: Any, b: Any, config: TuningConfig, name: str, transposed: tuple[bool, bool] = (False, False)
) -> Plan:
    """Return how the product of two matrices is divided; of `b` with more dimensions, that with each of its matrices.

    Args:
      a, b: arrays of shape (m, k) and (..., k, n), or their types.
      config: the options.
      name: the operation's, for errors.
      transposed: whether each matrix is transposed before.

    Raises:
      ValueError: if shapes, dtypes and tiles do not match.
    """
    m, k = turned(a.shape, transposed[0])
    inner, n = turned(b.shape[-2:], transposed[1])
    if k != inner:
        raise ValueError(
            f"{name} takes matrices (m, k) and (k, n), got {a.shape} and {b.shape}: k={k} is not {inner}."
        )
    left, right = dtypes.dtype_name(a.dtype), dtypes.dtype_name(b.dtype)
    if left != right or left not in _DTYPES:
        raise ValueError(
            f"{name} takes matrices of one dtype of {', '.join(_DTYPES)}, got {left} and {right}."
        )
    blocks = 2 if config.collective else 1
    if config.tile_m != 128:
        raise ValueError(f"tile_m={config.tile_m} must be 128, the rows of tensor memory.")
    rows, columns = blocks * config.tile_m, blocks * config.tile_n
    twice = " of each of two blocks" if config.collective else ""
    for size, tile, what in (
        (m, rows, f"m={m} must be divisible by tile_m={config.tile_m}{twice}"),
        (n, columns, f"n={n} must be divisible by tile_n={config.tile_n}{twice}"),
        (k, config.tile_k, f"k={k} must be divisible by tile_k={config.tile_k}"),
        (
            columns, config.epilogue_tile_n,
            f"tile_n={config.tile_n}{twice} must be divisible by epilogue_tile_n={config.epilogue_tile_n}",
        ),
    ):  # fmt: skip
        if size % tile:
            raise ValueError(f"{what}.")
    if columns > 256:
        raise ValueError(
            f"tile_n={config.tile_n}{twice} is more than 256 columns, of which two results fill tensor memory."
        )
    shape, steps = (m // rows, n // columns), k // config.tile_k
    return Plan(config, a.dtype, shape, steps, rows, columns, transposed)


def _body(plan: Plan) -> Any:
    config = plan.config

    def body(a_ref: Any, b_ref: Any, out_ref: Any, *, acc: Any, **scratch: Any) -> None:
        thread = axis_index("thread")

        @dynamic_scheduling_loop(
            ("tile",), thread_axis="thread", cluster_axes=() if plan.axis is None else (plan.axis,)
        )
        def tile(info: Any) -> None:
            at = planar_snake(
                info.index[0], plan.shape, config.grid_minor_dim, config.grid_tile_width
            )
            slot = lax.rem(info.local_index, np.int32(RESULTS))
            mine = acc.at[:, ds(lax.mul(slot, np.int32(plan.columns)), plan.columns)]

            @when(lax.eq(thread, np.int32(0)))
            def _() -> None:
                multiply_tile(plan, a_ref, b_ref, mine, at, info.local_index, slot, scratch)

            @when(lax.eq(thread, np.int32(1)))
            def _() -> None:
                _store(plan, out_ref, mine, at, slot, scratch)

        @when(lax.eq(thread, np.int32(1)))
        def _() -> None:
            wait_smem_to_gmem(0)

    return body


class Steps(NamedTuple):
    """The steps of a tile.

    Attributes:
      before: how many steps of other tiles the block has computed.
      start: the first one, along the inner dimension.
      count: how many there are.
    """

    before: Any
    start: Any
    count: Any


def multiply_tile(
    plan: Plan, a_ref: Any, b_ref: Any, acc: Any, at: Any, number: Any, slot: Any, scratch: Any,
    steps: Steps | None = None,
) -> None:  # fmt: skip
    """Compute a tile: one warp copies, another one multiplies.

    Args:
      plan: the plan.
      a_ref, b_ref: the matrices, in global memory.
      acc: the accumulator, in tensor memory.
      at: which tile of the rows of `a_ref`, and of the columns of `b_ref`.
      number: how many tiles the block has computed before.
      slot: the number of the accumulator.
      scratch: references by their names in `plan.scratch()`.
      steps: the steps of the tile; None for those of the plan.
    """
    config, buffers = plan.config, np.int32(plan.config.max_concurrent_steps)
    a, b, copied, consumed = [scratch[n] for n in ("a", "b", "copied", "consumed")]
    if steps is None:
        steps = Steps(lax.mul(number, np.int32(plan.steps)), None, np.int32(plan.steps))

    def copy(k: Any) -> None:
        step = lax.add(steps.before, k)
        i = lax.rem(step, buffers)

        @when(lax.ge(step, buffers))
        def _() -> None:
            barrier_wait(consumed.at[i])

        inner = part(k if steps.start is None else lax.add(steps.start, k), config.tile_k)
        (left, right), parts = plan.transposed, (part(at[0], plan.rows), part(at[1], plan.columns))
        for source, target, axis in (
            (a_ref.at[turned((parts[0], inner), left)], a, int(left)),
            (b_ref.at[turned((inner, parts[1]), right)], b, int(not right)),
        ):
            options: Any = {}
            if plan.axis is not None:
                options = dict(
                    collective_axes=plan.axis, leader_tracked=CopyPartition.PARTITIONED(axis)
                )
            copy_gmem_to_smem(source, target.at[i], copied.at[i], **options)

    def multiply(k: Any) -> None:
        i = lax.rem(lax.add(steps.before, k), buffers)
        barrier_wait(copied.at[i])
        left, right = [
            transpose_ref(ref.at[i], (1, 0)) if t else ref.at[i]
            for ref, t in zip((a, b), plan.transposed)
        ]
        tcgen05_mma(
            acc, left, right, consumed.at[i],
            accumulate=lax.gt(k, np.int32(0)), collective_axis=plan.axis,
        )  # fmt: skip

    @warp_map
    def _(warp: Any) -> None:
        @when(lax.eq(warp, np.int32(_COPIES)))
        def _() -> None:
            loop(np.int32(0), steps.count)(copy)

        starts = lax.eq(warp, np.int32(_MULTIPLIES))
        if plan.axis is not None:  # for both blocks
            starts = lax.bitwise_and(starts, lax.eq(axis_index(plan.axis), np.int32(0)))

        @when(starts)
        def _() -> None:
            @when(lax.ge(number, np.int32(RESULTS)))
            def _() -> None:
                barrier_wait(scratch["stored"].at[slot])

            loop(np.int32(0), steps.count)(multiply)
            tcgen05_commit_arrive(scratch["multiplied"].at[slot], plan.axis)


def _store(plan: Plan, out_ref: Any, acc: Any, at: Any, slot: Any, scratch: Any) -> None:
    """Store a tile."""
    row = lax.add(lax.mul(at[0], np.int32(plan.rows)), plan.own_row())
    barrier_wait(scratch["multiplied"].at[slot])
    store_parts(
        plan, out_ref, at[1], scratch["out"], lambda columns: async_load_tmem(acc.at[:, columns]),
        lambda buffer, ref: copy_smem_to_gmem(buffer, ref.at[ds(row, plan.config.tile_m)]),
    )  # fmt: skip
    wait_load_tmem()
    barrier_arrive(scratch["stored"].at[slot])


def store_parts(
    plan: Plan, out_ref: Any, tile: Any, out: Any, read: Callable[..., Any], store: Callable[..., None]
) -> None:  # fmt: skip
    """Store a tile, in parts of some columns each.

    Args:
      plan: the plan.
      out_ref: the result, in global memory.
      tile: which tile of its columns.
      out: buffers of parts, in shared memory.
      read: function that returns some columns of the tile, given their slice.
      store: function that starts to copy a buffer, given that and a reference to the columns of the result.
    """
    first, width = lax.mul(tile, np.int32(plan.columns)), plan.config.epilogue_tile_n
    for i in range(plan.columns // width):
        x = read(ds(i * width, width))
        buffer = out.at[i % RESULTS]
        wait_smem_to_gmem(RESULTS - 1, wait_read_only=True)
        buffer[...] = lax.convert_element_type(x, plan.dtype)
        commit_smem()
        store(buffer, out_ref.at[:, ds(lax.add(first, np.int32(i * width)), width)])
