"""Options of the interpreter of kernels for GPUs."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from jax._src.pallas.mosaic_gpu.core import later
from jax._src.pallas.threaded.params import CommonInterpretParams


@dataclasses.dataclass(frozen=True, kw_only=True)
class InterpretParams(CommonInterpretParams):
    """Options with which kernels for GPUs are run without one, given as `interpret`.

    All threads of a block and all blocks are run, each until it has to wait: for a barrier, or for a
    semaphore. Where none can go on, an error says what each waits for.

    Args:
      detect_races: whether to look for reads and writes that no barrier orders; not available.
      out_of_bounds_reads: what reads beyond an array do: raise an error, or give values that are
        uninitialized.
      skip_floating_point_ops: whether products on the tensor core are left out, and give zero.
      uninitialized_memory: what memory holds before it is written: NaN, or the least integer; or zero.
      logging_mode: what is printed of the run; not available.
      num_cores_or_threads, vector_clock_size, num_tma_threads_per_device: options of detecting races, without
        effect. The kernel says how many threads there are.

    Raises:
      NotImplementedError: with `detect_races`, or a `logging_mode`.
      ValueError: if an option has another value.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> def kernel(x_ref, o_ref, buffer, barrier):
    ...   plgpu.copy_gmem_to_smem(x_ref, buffer, barrier)
    ...   plgpu.barrier_wait(barrier)
    ...   o_ref[...] = buffer[...] + 1.
    >>> x = jnp.arange(4.)
    >>> scratch = [plgpu.SMEM((4,), jnp.float32), plgpu.Barrier()]
    >>> run = plgpu.kernel(kernel, out_type=x, scratch_types=scratch, interpret=plgpu.InterpretParams())
    >>> run(x)
    Array([1., 2., 3., 4.], dtype=float32)
    """

    _RUNS_IN: ClassVar[str] = "jax._src.pallas.mosaic_gpu.interpret.calls"

    num_tma_threads_per_device: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.detect_races:
            raise NotImplementedError(
                "InterpretParams of GPUs cannot detect races: give detect_races=False. Deadlocks and reads of "
                "uninitialized memory are seen without it."
            )
        if self.logging_mode is not None:
            raise NotImplementedError(
                "InterpretParams of GPUs cannot print what a kernel does: give logging_mode=None, and print in the "
                "kernel by jax.debug.print."
            )


later.interpret = lambda *args, **params: InterpretParams().run_call(*args, **params)
