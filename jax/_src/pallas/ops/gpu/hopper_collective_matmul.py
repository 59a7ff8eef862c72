"""Products on Hopper GPUs of a left matrix whose rows are divided among devices, over NVLink.

Rows go around the devices as in a ring: while a device multiplies those that it has, it copies them, from shared memory where
they are for the tensor core, to the next device (Wang et al., "Overlap Communication with Dependent Computation via
Decomposition", 2023).
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Hashable
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import ShapedArray
from jax._src.lax import lax
from jax._src.lax.parallel import axis_index, axis_size
from jax._src.pallas.global_refs import get_global
from jax._src.pallas.helpers import loop, when
from jax._src.pallas.mosaic_gpu.copies import copy_smem_to_gmem, wait_smem_to_gmem
from jax._src.pallas.mosaic_gpu.core import SemaphoreType
from jax._src.pallas.mosaic_gpu.kernel import kernel as mosaic_gpu_kernel
from jax._src.pallas.mosaic_gpu.memory_operations import semaphore_wait
from jax._src.pallas.mosaic_gpu.transforms import remote_ref
from jax._src.pallas.ops.differentiable import linear, product
from jax._src.pallas.ops.gpu.collectives import all_gather, reduce_scatter
from jax._src.pallas.ops.gpu.hopper_matmul import (
    CLUSTER,
    GRID,
    THREAD,
    Plan,
    TuningConfig,
    check_matrices,
    compute_tiles,
    copy_tiles,
    multiply_by,
    tiles_of_block,
)
from jax._src.pallas.ops.gpu.warpgroups import (
    COMPUTING,
    copy_or_compute,
    part,
    persistent_blocks,
)
from jax._src.pallas.primitives import run_scoped
from jax._src.pallas.semaphores import DeviceIdType, semaphore_signal

traceback_util.register_exclusion(__file__)
_DTYPES = ("float16", "bfloat16")
_NVSHMEM = "--xla_gpu_experimental_enable_nvshmem"


def is_nvshmem_used() -> bool:
    """Return whether XLA allocates memory that other devices reach by NVSHMEM: whether `XLA_FLAGS` says so."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    values = [f.partition("=")[2].lower() for f in flags if f.partition("=")[0] == _NVSHMEM]
    return bool(values) and values[-1] not in ("false", "0")


def all_gather_lhs_matmul(
    lhs: Any, rhs: Any, axis_name: Hashable, *, config: TuningConfig, dtype: Any = np.float16,
    interpret: Any = None,
) -> Any:  # fmt: skip
    """Return the product of a matrix whose rows are divided among devices, and of this device's right matrix.

    Args:
      lhs: array of shape (m, k), this device's rows, in `jax.shard_map`.
      rhs: array of shape (k, n), of the same dtype.
      axis_name: the axes of the mesh, all of them; rows are in the order of the devices.
      config: how products are divided, with at least two concurrent steps and no clusters.
      dtype: the dtype of all matrices: float16 or bfloat16.
      interpret: `plgpu.InterpretParams()` to run it without GPUs.

    Returns:
      An array of shape (devices * m, n); products are added in float32. Derivatives are products of `hopper_matmul_mgpu`, then
      reduced over devices, and of rows that are gathered.

    Raises:
      ValueError: if shapes, dtypes and tiles do not match.
      NotImplementedError: with clusters, or for other dtypes.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> from jax.experimental.pallas.ops.gpu.collective_matmul_mgpu import all_gather_lhs_matmul
    >>> from jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu import TuningConfig
    >>> config = TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=2)
    >>> mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    >>> run = lambda a, b: all_gather_lhs_matmul(a, b, "x", config=config, interpret=plgpu.InterpretParams())
    >>> P = jax.sharding.PartitionSpec
    >>> f = jax.shard_map(run, mesh=mesh, in_specs=(P("x"), P()), out_specs=P(), check_vma=False)
    >>> float(f(jnp.ones((64, 64), jnp.float16), jnp.ones((64, 128), jnp.float16))[0, 0])
    64.0
    """
    check_matrices(lhs, rhs, "all_gather_lhs_matmul")
    dtype = np.dtype(dtype)
    name = dtypes.dtype_name(dtype)
    if name not in _DTYPES:
        raise NotImplementedError(
            f"all_gather_lhs_matmul is for dtype float16 or bfloat16, got {name}."
        )
    if lhs.dtype != dtype or rhs.dtype != dtype:
        raise ValueError(
            f"all_gather_lhs_matmul takes matrices of dtype={name}, got {dtypes.dtype_name(lhs.dtype)} and {dtypes.dtype_name(rhs.dtype)}: give dtype."
        )
    if config.cluster_dimension is not None:
        raise NotImplementedError(
            "all_gather_lhs_matmul has no clusters: leave cluster_dimension out of config."
        )
    if config.max_concurrent_steps < 2:
        raise ValueError(
            f"all_gather_lhs_matmul takes max_concurrent_steps of at least 2, got {config.max_concurrent_steps}: while a step is sent, others are copied."
        )
    axes = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    multiply = functools.partial(multiply_by, config=config, interpret=interpret)
    of_devices = dict(axis_name=axes, interpret=interpret)

    def by_lhs(g: Any, rhs: Any) -> Any:
        of_all = product(multiply, g, rhs, (False, True), dtype)
        return reduce_scatter(of_all, **of_devices)

    def by_rhs(g: Any, lhs: Any) -> Any:
        return product(multiply, all_gather(lhs, **of_devices), g, (True, False), dtype)

    run = functools.partial(_multiply_ring, axes=axes, config=config, interpret=interpret)
    return linear(run, (by_lhs, by_rhs), lhs, rhs)


def _multiply_ring(
    lhs: Any, rhs: Any, axes: tuple[Hashable, ...], config: TuningConfig, interpret: Any
) -> Any:
    dtype = lhs.dtype
    plan = Plan.of(lhs, rhs, dtype, config, 1)
    ring = _Ring(plan, axes, lhs.shape[0])

    def body(lhs_ref: Any, rhs_ref: Any, out_ref: Any, *received: Any) -> None:
        arrived = get_global(SemaphoreType.REGULAR)
        run = lambda refs: ring.run(lhs_ref, rhs_ref, out_ref, received, arrived, refs)
        run_scoped(run, plan.scratch(), collective_axes=(THREAD,))

    count = ring.count
    out = [ShapedArray((count * lhs.shape[0], rhs.shape[1]), dtype)]
    out += [ShapedArray((count - 1, *lhs.shape), dtype)] * (count > 1)
    run = mosaic_gpu_kernel(
        body, out_type=out, grid=(persistent_blocks(plan.tiles[0] * plan.tiles[1]),), grid_names=(GRID,),
        cluster=(1,), cluster_names=(CLUSTER,), num_threads=COMPUTING + 1, thread_name=THREAD, interpret=interpret,
    )  # fmt: skip
    return run(lhs, rhs)[0]


@dataclasses.dataclass(frozen=True)
class _Ring:
    """The devices around which rows go, each to the one before it.

    Attributes:
      plan: how each product is divided.
      axes: the axes of the mesh.
      rows: how many rows of the left matrix a device has.
    """

    plan: Plan
    axes: tuple[Hashable, ...]
    rows: int

    @property
    def count(self) -> int:
        return axis_size(self.axes)

    def _number(self, away: Any) -> Any:
        """Return the number of the device that is some places after this one."""
        return lax.rem(lax.add(axis_index(self.axes), away), np.int32(self.count))

    def run(
        self, lhs: Any, rhs: Any, out: Any, received: tuple[Any, ...], arrived: Any, refs: dict[str, Any]
    ) -> None:  # fmt: skip
        """Run a thread.

        Args:
          lhs, rhs, out: references to the matrices and the result.
          received: reference to what other devices send, one after the other, if there are others.
          arrived: semaphore that counts blocks of another device that have sent their parts.
          refs: the references of the plan.
        """
        thread = axis_index(THREAD)
        of_turn = tiles_of_block(self.plan)
        blocks = np.int32(axis_size(GRID))

        def copy() -> None:
            copy_tiles(self.plan, lhs, rhs, refs)
            if not received:
                return

            @loop(np.int32(1), np.int32(self.count))
            def _(turn: Any) -> None:
                semaphore_wait(arrived, lax.mul(turn, blocks), decrement=False)
                source = received[0].at[lax.sub(turn, np.int32(1))]
                copy_tiles(self.plan, source, rhs, refs, lax.mul(turn, of_turn))

        def compute() -> None:
            @loop(np.int32(0), np.int32(self.count))
            def _(turn: Any) -> None:
                plan = self.plan
                if received:
                    send = lambda *step: self._send(received[0], turn, thread, *step)
                    plan = dataclasses.replace(plan, callback=send)
                target = out.at[part(self._number(turn), self.rows)]
                compute_tiles(plan, None, target, thread, refs, lax.mul(turn, of_turn))
                if received:
                    self._say_that_all_is_sent(turn, thread, arrived)

            wait_smem_to_gmem(0)

        copy_or_compute(thread, copy, compute)

    def _sends(self, turn: Any, thread: Any) -> Any:
        """Whether the thread sends rows: what is multiplied last has been everywhere."""
        is_first = lax.eq(thread, np.int32(0))
        return lax.bitwise_and(is_first, lax.lt(turn, np.int32(self.count - 1)))

    def _send(
        self, received: Any, turn: Any, thread: Any, row: Any, column: Any, step: Any, a: Any, _: Any
    ) -> None:  # fmt: skip
        """Send what is multiplied at a step, if this thread is the one that sends these rows."""
        config = self.plan.config
        height = config.of_block[0]
        first_column = lax.eq(column, np.int32(0))

        @when(lax.bitwise_and(self._sends(turn, thread), first_column))
        def _() -> None:
            there = remote_ref(
                received, self._number(np.int32(self.count - 1)), DeviceIdType.LOGICAL
            )
            where = (turn, part(row, height), part(step, config.tile_k))
            copy_smem_to_gmem(a, there.at[where])
            is_last = lax.eq(step, np.int32(self.plan.steps - 1))

            # Before the memory of the step before is used again, or of this one after the last, it has been read.
            @when(is_last)
            def _() -> None:
                wait_smem_to_gmem(0, wait_read_only=True)

            @when(lax.bitwise_not(is_last))
            def _() -> None:
                wait_smem_to_gmem(1, wait_read_only=True)

    def _say_that_all_is_sent(self, turn: Any, thread: Any, arrived: Any) -> None:
        @when(self._sends(turn, thread))
        def _() -> None:
            wait_smem_to_gmem(0)
            before = self._number(np.int32(self.count - 1))
            semaphore_signal(arrived, device_id=before, device_id_type=DeviceIdType.LOGICAL)
