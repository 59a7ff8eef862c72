"""Products of matrices on Hopper GPUs: two warpgroups multiply, and a third one copies.

The blocks of threads stay, and take tiles of the result in turn; while they store one, the matrices of the next one are
copied. This is the persistent, warp-specialized product of CUTLASS 3 (Thakkar et al., 2023).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.ad_util import SymbolicZero
from jax._src.core import ShapedArray
from jax._src.custom_derivatives.jvp import custom_jvp
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.parallel import axis_index, axis_size
from jax._src.pallas.helpers import loop, when
from jax._src.pallas.mosaic_gpu.copies import (
    barrier_arrive,
    barrier_wait,
    copy_gmem_to_smem,
    wait_smem_to_gmem,
)
from jax._src.pallas.mosaic_gpu.core import ACC, Barrier, ClusterBarrier
from jax._src.pallas.mosaic_gpu.helpers import nd_loop, planar_snake
from jax._src.pallas.mosaic_gpu.kernel import kernel as mosaic_gpu_kernel
from jax._src.pallas.mosaic_gpu.layouts import Layout
from jax._src.pallas.mosaic_gpu.memory_operations import (
    layout_cast,
    load,
)
from jax._src.pallas.mosaic_gpu.mma import wgmma, wgmma_wait
from jax._src.pallas.mosaic_gpu.transforms import transpose_ref
from jax._src.pallas.ops.differentiable import product, tangent, transposes, turned
from jax._src.pallas.ops.gpu.warpgroups import (
    COMPUTING,
    MatmulDimension,
    check_divides,
    check_product,
    copy_or_compute,
    int32,
    part,
    persistent_blocks,
    start_store,
    swizzled,
    with_rows_of,
)
from jax._src.pallas.primitives import run_scoped
from jax._src.state.types import view_type

traceback_util.register_exclusion(__file__)
# The axes of clusters, of blocks of a cluster, and of threads.
GRID, CLUSTER, THREAD = "cluster_grid", "cluster", "wg"
# The tensor core reads right matrices of other dtypes only if they are transposed.
_DTYPES = ("bfloat16", "float16")
_OUT = ("bfloat16", "float16", "float32")  # dtypes of results
_ROWS, _COLUMNS = 64, 32  # the least of a block, if each warpgroup has columns of its own
_RESULTS = 2  # buffers of results, of each warpgroup that computes


@dataclasses.dataclass(frozen=True)
class TuningConfig:
    """How a product is divided.

    Args:
      tile_m, tile_n, tile_k: the sizes of what a warpgroup multiplies in one step.
      max_concurrent_steps: how many steps are under way at a time.
      epi_tile_n, epi_tile_m: how many columns and rows of a result are stored at a time; None for all of a tile.
      grid_minor_dim: the dimension along which results come after each other first.
      grid_tile_width: along it, how many before the other dimension's.
      wg_dimension: along which dimension the tiles of the two warpgroups of a block are beside each other.
      cluster_dimension: along which dimension those of two blocks are, which then share the other matrix; None for
        blocks that share nothing.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    max_concurrent_steps: int
    epi_tile_n: int | None = 64
    epi_tile_m: int | None = 64
    grid_minor_dim: MatmulDimension = MatmulDimension.N
    grid_tile_width: int = 1
    wg_dimension: MatmulDimension = MatmulDimension.N
    cluster_dimension: MatmulDimension | None = None

    @property
    def of_block(self) -> tuple[int, int]:
        """The rows and columns of the result of a block."""
        return self._doubled((self.tile_m, self.tile_n), self.wg_dimension)

    @property
    def of_cluster(self) -> tuple[int, int]:
        """The rows and columns of the result of a cluster."""
        return self._doubled(self.of_block, self.cluster_dimension)

    @property
    def of_store(self) -> tuple[int, int]:
        """The rows and columns of a result that are stored at a time."""
        return (self.epi_tile_m or self.tile_m, self.epi_tile_n or self.tile_n)

    @property
    def cluster_size(self) -> int:
        return 1 if self.cluster_dimension is None else 2

    @staticmethod
    def _doubled(shape: tuple[int, int], dimension: int | None) -> tuple[int, int]:
        rows, columns = [2 * n if i == dimension else n for i, n in enumerate(shape)]
        return rows, columns


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the kernel is made from.

    Attributes:
      config: the options.
      a, b: the dtypes of the matrices. If they differ, `a` is converted to that of `b`.
      out: the dtype of the result.
      tiles: the numbers of rows and columns of tiles of clusters.
      steps: the number of steps of a tile.
      delay: after how many more steps a buffer is used again.
      callback: what is called at each step besides: see `kernel`.
      transposed: whether each matrix is transposed before.
    """

    config: TuningConfig
    a: Any
    b: Any
    out: Any
    tiles: tuple[int, int]
    steps: int
    delay: int
    callback: Callable[..., None] | None = None
    transposed: tuple[bool, bool] = (False, False)

    @classmethod
    def of(
        cls, a: Any, b: Any, out: Any, config: TuningConfig, delay: int, callback: Any = None,
        transposed: tuple[bool, bool] = (False, False),
    ) -> Plan:  # fmt: skip
        """Return the plan for matrices of known shapes and dtypes.

        Raises:
          ValueError: if they and the tiles do not match.
        """
        m, k = turned(a.shape, transposed[0])
        n = turned(b.shape, transposed[1])[1]
        _check_config(config, m, n, k, delay)
        rows, columns = config.of_cluster
        tiles = (m // rows, n // columns)
        steps = k // config.tile_k
        return cls(config, a.dtype, b.dtype, out, tiles, steps, delay, callback, transposed)

    def scratch(self) -> dict[str, Any]:
        """Return the types of references."""
        c = self.config
        rows, columns = c.of_block
        buffers = c.max_concurrent_steps
        consumed: Any = Barrier(num_arrivals=COMPUTING, num_barriers=buffers)
        if c.cluster_size > 1:
            consumed = ClusterBarrier(
                collective_axes=(CLUSTER,), num_arrivals=COMPUTING, num_barriers=buffers
            )
        return dict(
            a=swizzled((buffers, *turned((rows, c.tile_k), self.transposed[0])), self.a),
            b=swizzled((buffers, *turned((c.tile_k, columns), self.transposed[1])), self.b),
            out=swizzled((COMPUTING, _RESULTS, *c.of_store), self.out),
            copied=Barrier(num_arrivals=2, num_barriers=buffers),
            consumed=consumed,
            added=Barrier(num_barriers=COMPUTING),
        )


def _check_config(config: TuningConfig, m: int, n: int, k: int, delay: int) -> None:
    c = config
    warpgroups = ("M", "N")[c.wg_dimension]
    of_cluster = (
        ""
        if c.cluster_dimension is None
        else f", of two blocks along {('M', 'N')[c.cluster_dimension]}"
    )
    check_product(("tile_m", c.tile_m), ("tile_n", c.tile_n))
    rows, columns = c.of_cluster
    for size, tile, what, of in ((m, rows, "m", "rows"), (n, columns, "n", "columns")):
        if size % tile:
            raise ValueError(
                f"{what}={size} must be divisible by {tile}, the {of} of two warpgroups along {warpgroups}{of_cluster}."
            )
    epi_m, epi_n = c.of_store
    check_divides(
        ("k", k, "tile_k", c.tile_k), ("tile_m", c.tile_m, "epi_tile_m", epi_m),
        ("tile_n", c.tile_n, "epi_tile_n", epi_n),
    )  # fmt: skip
    if epi_m % 64:
        raise ValueError(f"epi_tile_m={epi_m} must be a multiple of 64, the rows of a product.")
    if c.grid_tile_width < 1:
        raise ValueError(f"grid_tile_width={c.grid_tile_width} must be positive.")
    if not 0 <= delay < c.max_concurrent_steps:
        raise ValueError(
            f"max_concurrent_steps must be greater than delay_release, got {c.max_concurrent_steps} and {delay}."
        )


def matmul(a: Any, b: Any, c: Any, config: TuningConfig, *, interpret: Any = None) -> Any:
    """Return the product of two matrices, and what is added to it, on a Hopper GPU.

    Args:
      a: array of shape (m, k), of bfloat16 or float16.
      b: array of shape (k, n), of the same dtype.
      c: array of shape (m, n) that is added to the product; None for nothing.
      config: how the product is divided.
      interpret: `plgpu.InterpretParams()` to run it without a GPU.

    Returns:
      An array of shape (m, n), of the dtype of `c`, or of `a`; products are added in float32. Derivatives are products by the
      same kernel, of cotangents in the dtype of `a`.

    Raises:
      ValueError: if shapes, dtypes and tiles do not match.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> from jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu import TuningConfig, matmul
    >>> config = TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=2)
    >>> x = jnp.ones((128, 128), jnp.bfloat16)
    >>> float(matmul(x, x, None, config, interpret=plgpu.InterpretParams())[0, 0])
    128.0
    """
    check_matrices(a, b, "matmul")
    name = dtypes.dtype_name(a.dtype)
    if a.dtype != b.dtype or name not in _DTYPES:
        raise ValueError(
            f"matmul takes matrices of one dtype, {' or '.join(_DTYPES)}, got {name} and {dtypes.dtype_name(b.dtype)}."
        )
    shape = (a.shape[0], b.shape[1])
    if c is not None and tuple(c.shape) != shape:
        raise ValueError(
            f"matmul adds c of shape {shape} to the product, got shape {tuple(c.shape)}."
        )
    out = a.dtype if c is None else c.dtype
    Plan.of(a, b, out, config, _delay(config))  # checks sizes and tiles
    multiply = functools.partial(multiply_by, config=config, interpret=interpret)
    as_product = lambda a, b: product(multiply, a, b, (False, False), out)
    if c is None:
        return as_product(a, b)

    @custom_jvp
    def added(a: Any, b: Any, c: Any) -> Any:
        return run_product(Plan.of(a, b, out, config, _delay(config)), a, b, c, interpret)

    @functools.partial(added.defjvp, symbolic_zeros=True)
    def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        by = transposes(multiply, a, b, (False, False))
        t = tangent(as_product, by, primals[:2], tangents[:2])
        more = tangents[2]
        return added(*primals), t if type(more) is SymbolicZero else lax.add(t, more)

    return added(a, b, c)


def _delay(config: TuningConfig) -> int:
    return max(min(1, config.max_concurrent_steps - 1), 0)


def multiply_by(
    a: Any, b: Any, transposed: tuple[bool, bool], dtype: Any, *, config: TuningConfig, interpret: Any
) -> Any:  # fmt: skip
    """Return a product of matrices, which derivatives take with each of them transposed.

    Args:
      a, b, transposed, dtype: as of `jax._src.pallas.ops.differentiable.product`. Cotangents, of wider dtypes, are rounded.
      config: how the first product is divided. Derivatives have other sizes, and are divided as much as that.
      interpret: options of the interpreter.
    """
    narrow = min(a.dtype, b.dtype, key=dtypes.itemsize_bits)
    a, b = [lax.convert_element_type(x, narrow) for x in (a, b)]
    out = dtype if dtypes.dtype_name(dtype) in _OUT else narrow
    if not any(transposed):
        plan = Plan.of(a, b, out, config, _delay(config))
        return lax.convert_element_type(run_product(plan, a, b, None, interpret), dtype)
    m, k = turned(a.shape, transposed[0])
    n = turned(b.shape, transposed[1])[1]
    # Two warpgroups have rows of their own, or columns of their own.
    a = with_rows_of(a, _ROWS if n % _COLUMNS == 0 else 2 * _ROWS, transposed[0])
    rows = turned(a.shape, transposed[0])[0]
    plan = Plan.of(a, b, out, _divided(config, rows, n, k), _delay(config), transposed=transposed)
    x = run_product(plan, a, b, None, interpret)
    return lax.convert_element_type(x if rows == m else x[:m], dtype)


def _divided(config: TuningConfig, m: int, n: int, k: int) -> TuningConfig:
    """Return how a product of other sizes is divided: into results as large as can be, but not larger than before."""
    chosen = config
    size = 0
    for wg in MatmulDimension:
        for tile_m in range(64, 257, 64):
            for tile_n in range(16, 257, 16):
                of_block = TuningConfig._doubled((tile_m, tile_n), wg)
                fits = m % of_block[0] == 0 and n % of_block[1] == 0
                allowed = tile_m * tile_n <= max(config.tile_m * config.tile_n, 64 * 16)
                # Of as many elements, those of the most even sides have the fewest copies.
                even = tile_m * tile_n * 1024 - sum(of_block)
                if fits and allowed and even > size:
                    size, chosen = (
                        even,
                        dataclasses.replace(config, tile_m=tile_m, tile_n=tile_n, wg_dimension=wg),
                    )
    tile_k = max(t for t in range(16, config.tile_k + 1, 16) if k % t == 0)
    return dataclasses.replace(
        chosen, tile_k=tile_k, epi_tile_m=64, epi_tile_n=math.gcd(chosen.tile_n, 64), cluster_dimension=None
    )  # fmt: skip


def run_product(plan: Plan, a: Any, b: Any, c: Any, interpret: Any) -> Any:
    """Return the product of two matrices, and what is added to it."""

    def body(a_ref: Any, b_ref: Any, *rest: Any) -> None:
        _run(plan, a_ref, b_ref, rest[0] if c is not None else None, rest[-1])

    size = plan.config.cluster_size
    shape = turned(a.shape, plan.transposed[0])[0], turned(b.shape, plan.transposed[1])[1]
    run = mosaic_gpu_kernel(
        body, out_type=ShapedArray(shape, plan.out),
        grid=(persistent_blocks(plan.tiles[0] * plan.tiles[1], size),), grid_names=(GRID,), cluster=(size,),
        cluster_names=(CLUSTER,), num_threads=COMPUTING + 1, thread_name=THREAD, interpret=interpret,
    )  # fmt: skip
    return run(a, b) if c is None else run(a, b, c)


def check_matrices(a: Any, b: Any, name: str) -> None:
    """Check that two matrices can be multiplied."""
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(
            f"{name} takes matrices (m, k) and (k, n), got shapes {tuple(a.shape)} and {tuple(b.shape)}."
        )


def kernel(
    a_gmem: Any, b_gmem: Any, c_gmem: Any, out_gmem: Any, config: TuningConfig,
    pipeline_callback: Callable[..., None] | None = None, delay_release: int = 0,
) -> None:  # fmt: skip
    """Compute the product of two matrices in a kernel of Mosaic GPU.

    The kernel has three threads along the axis `"wg"`, a cluster of one block, or two with `cluster_dimension`,
    along `"cluster"`, and any grid of them along `"cluster_grid"`.

    Args:
      a_gmem, b_gmem: references to the matrices, in global memory.
      c_gmem: reference to what is added to the product; None for nothing.
      out_gmem: reference to the result.
      config: how the product is divided.
      pipeline_callback: function that each multiplying thread calls at each step, when it has started the
        product: with the numbers of the block's tile along rows and columns, of the step, and with references
        to the parts of both matrices in shared memory.
      delay_release: after how many more steps the memory of a step is used again.

    Raises:
      ValueError: if shapes, tiles and the cluster do not match.
    """
    a, b = view_type(a_gmem), view_type(b_gmem)
    check_matrices(a, b, "kernel")
    plan = Plan.of(a, b, view_type(out_gmem).dtype, config, delay_release, pipeline_callback)
    if axis_size(CLUSTER) != config.cluster_size:
        raise ValueError(
            f"cluster_dimension={config.cluster_dimension} takes clusters of {config.cluster_size} blocks along {CLUSTER!r}, got "
            f"{axis_size(CLUSTER)}."
        )
    _run(plan, a_gmem, b_gmem, c_gmem, out_gmem)


def _run(plan: Plan, a: Any, b: Any, c: Any, out: Any) -> None:
    def run(refs: dict[str, Any]) -> None:
        thread = axis_index(THREAD)

        def compute() -> None:
            compute_tiles(plan, c, out, thread, refs)
            wait_smem_to_gmem(0)

        copy_or_compute(thread, lambda: copy_tiles(plan, a, b, refs), compute)

    run_scoped(run, plan.scratch(), collective_axes=(THREAD,))


def tiles_of_block(plan: Plan) -> Any:
    """Return how many tiles this block has."""
    total, count = plan.tiles[0] * plan.tiles[1], axis_size(GRID)
    more = lax.lt(axis_index(GRID), np.int32(total % count))
    return lax.add(np.int32(total // count), int32(more))


def _for_tiles(plan: Plan, before: Any) -> Any:
    """Return a decorator that calls a function for each tile of this block, with its number and the position.

    Args:
      plan: the plan.
      before: how many tiles come before the first one.
    """
    config, shape = plan.config, plan.tiles
    in_cluster = axis_index(CLUSTER)

    def decorate(body: Any) -> None:
        @nd_loop((shape[0] * shape[1],), collective_axes=GRID)
        def tile(info: Any) -> None:
            at = list(
                planar_snake(info.index[0], shape, config.grid_minor_dim, config.grid_tile_width)
            )
            d = config.cluster_dimension
            if d is not None:
                at[d] = lax.add(lax.mul(at[d], np.int32(2)), in_cluster)
            body(lax.add(int32(before), info.local_index), at)

    return decorate


def copy_tiles(plan: Plan, a_ref: Any, b_ref: Any, refs: dict[str, Any], before: Any = 0) -> None:
    """Copy what the other threads of the block multiply.

    Args:
      plan: the plan.
      a_ref, b_ref: references to the matrices, in global memory.
      refs: the references of `plan.scratch()`.
      before: how many tiles the block has copied before, of products with the same plan.
    """
    config, buffers = plan.config, np.int32(plan.config.max_concurrent_steps)
    rows, columns = config.of_block
    shared: list[Any] = [None, None]
    if config.cluster_dimension is not None:
        # blocks with other rows have the same columns of the right matrix, and the other way round
        shared[1 - config.cluster_dimension] = CLUSTER

    @_for_tiles(plan, before)
    def _(number: Any, at: Any) -> None:
        first = lax.mul(number, np.int32(plan.steps))

        @loop(np.int32(0), np.int32(plan.steps))
        def _(k: Any) -> None:
            step = lax.add(first, k)
            i = lax.rem(step, buffers)

            @when(lax.ge(step, buffers))
            def _() -> None:
                barrier_wait(refs["consumed"].at[i])

            inner = part(k, config.tile_k)
            parts = ((part(at[0], rows), inner), (inner, part(at[1], columns)))
            of_a, of_b = [turned(p, t) for p, t in zip(parts, plan.transposed)]
            for source, name, axes in (
                (a_ref.at[of_a], "a", shared[0]), (b_ref.at[of_b], "b", shared[1])
            ):  # fmt: skip
                copy_gmem_to_smem(
                    source, refs[name].at[i], refs["copied"].at[i], collective_axes=axes
                )


def compute_tiles(
    plan: Plan, c_ref: Any, out_ref: Any, thread: Any, refs: dict[str, Any], before: Any = 0
) -> None:
    """Multiply what is copied, and start to store the result.

    Args:
      plan: the plan.
      c_ref: reference to what is added, in global memory; None for nothing.
      out_ref: reference to the result.
      thread: the number of this thread.
      refs: the references of `plan.scratch()`.
      before: how many tiles the block has multiplied before, of products with the same plan.
    """
    config = plan.config

    @_for_tiles(plan, before)
    def _(number: Any, at: Any) -> None:
        first = lax.mul(number, np.int32(plan.steps))
        multiply = lambda acc: _multiply(plan, acc, first, at, thread, refs)
        x = run_scoped(multiply, ACC((config.tile_m, config.tile_n)))
        start = [lax.mul(i, np.int32(n)) for i, n in zip(at, config.of_block)]
        d = config.wg_dimension
        size = (config.tile_m, config.tile_n)[d]
        start[d] = lax.add(start[d], lax.mul(thread, np.int32(size)))
        _store(plan, x, c_ref, out_ref, start, thread, refs)


def _multiply(plan: Plan, acc: Any, first: Any, at: Any, thread: Any, refs: dict[str, Any]) -> Any:
    config, buffers = plan.config, np.int32(plan.config.max_concurrent_steps)
    release = lambda step: barrier_arrive(refs["consumed"].at[lax.rem(step, buffers)])
    of_rows = config.wg_dimension == MatmulDimension.M
    mixed = plan.a != plan.b
    delay = plan.delay

    @loop(np.int32(0), np.int32(plan.steps))
    def _(k: Any) -> None:
        step = lax.add(first, k)
        i = lax.rem(step, buffers)
        barrier_wait(refs["copied"].at[i])
        a, b = refs["a"].at[i], refs["b"].at[i]
        whole = slice(None)
        rows = (part(thread, config.tile_m), whole) if of_rows else None
        columns = None if of_rows else (whole, part(thread, config.tile_n))
        left, right = [_matrix(*x) for x in zip((a, b), (rows, columns), plan.transposed)]
        if mixed:
            x = load(left, (), layout=Layout.WGMMA, optimized=False)
            left = layout_cast(lax.convert_element_type(x, plan.b), Layout.WGMMA)
        wgmma(acc, left, right)
        if plan.callback is not None:
            plan.callback(at[0], at[1], k, a, b)
        wgmma_wait(delay)

        @when(lax.ge(k, np.int32(delay)))
        def _() -> None:
            release(lax.sub(step, np.int32(delay)))

    x = acc[...]
    for i in reversed(range(min(delay, plan.steps))):
        release(lax.add(first, np.int32(plan.steps - 1 - i)))
    return x


def _matrix(ref: Any, own: Any, is_transposed: bool) -> Any:
    """Return a reference to a matrix, or to some of its rows and columns, that may be transposed in memory."""
    if own is not None:
        ref = ref.at[turned(own, is_transposed)]
    return transpose_ref(ref, (1, 0)) if is_transposed else ref


def _store(
    plan: Plan, x: Any, c_ref: Any, out_ref: Any, start: Any, thread: Any, refs: dict[str, Any]
) -> None:  # fmt: skip
    """Store a tile, in parts of some rows and columns each."""
    config, added = plan.config, refs["added"].at[thread]
    rows, columns = config.of_store
    parts = [
        (i, j) for i in range(0, config.tile_m, rows) for j in range(0, config.tile_n, columns)
    ]
    for number, (i, j) in enumerate(parts):
        buffer = refs["out"].at[thread, number % _RESULTS]
        where = (
            ds(lax.add(start[0], np.int32(i)), rows),
            ds(lax.add(start[1], np.int32(j)), columns),
        )
        value = x[i : i + rows, j : j + columns]
        # Where parts are odd in number, the first buffer of the next tile is the last one of this.
        wait_smem_to_gmem(_RESULTS - 1 if len(parts) % _RESULTS == 0 else 0, wait_read_only=True)
        if c_ref is not None:
            copy_gmem_to_smem(c_ref.at[where], buffer, added)
            barrier_wait(added)
            more = load(buffer, (), layout=Layout.WGMMA, optimized=False)
            value = value + lax.convert_element_type(more, np.float32)
        start_store(value, buffer, out_ref.at[where])
