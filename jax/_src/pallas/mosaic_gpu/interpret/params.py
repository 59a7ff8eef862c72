"""Options of the interpreter of kernels for GPUs."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, Literal

from jax._src.pallas.mosaic_gpu.core import later


@dataclasses.dataclass(frozen=True, kw_only=True)
class InterpretParams:
    """Options with which kernels for GPUs are run without one, given as `interpret`.

    All threads of a block and all blocks are run, each until it has to wait: for a barrier, or for a
    semaphore. Where none can go on, an error says what each waits for.

    Args:
      detect_races: whether to look for reads and writes that no barrier orders; not available.
      out_of_bounds_reads: what reads beyond an array do: raise an error, or give values that are
        uninitialized.
      skip_floating_point_ops: whether products on the tensor core are left out, and give zero.
      uninitialized_memory: what memory holds before it is written: NaN, or the least integer; or zero.
      num_cores_or_threads, vector_clock_size, logging_mode, num_tma_threads_per_device: options of
        detecting races and of logging, which do not change results.

    Raises:
      NotImplementedError: with `detect_races`.
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

    detect_races: bool = False
    out_of_bounds_reads: Literal["raise", "uninitialized"] = "raise"
    skip_floating_point_ops: bool = False
    uninitialized_memory: Literal["nan", "zero"] = "nan"
    num_cores_or_threads: int = 1
    vector_clock_size: int | None = None
    logging_mode: Any = None
    num_tma_threads_per_device: int = 1

    def __post_init__(self) -> None:
        if self.detect_races:
            raise NotImplementedError(
                "InterpretParams of GPUs cannot detect races: give detect_races=False. Deadlocks and reads of "
                "uninitialized memory are seen without it."
            )
        if self.out_of_bounds_reads not in ("raise", "uninitialized"):
            raise ValueError(
                f"out_of_bounds_reads must be 'raise' or 'uninitialized', got {self.out_of_bounds_reads!r}."
            )
        if self.uninitialized_memory not in ("nan", "zero"):
            raise ValueError(
                f"uninitialized_memory must be 'nan' or 'zero', got {self.uninitialized_memory!r}."
            )

    def run_call(self, *args: Any, **params: Any) -> list[Any]:
        """Run a kernel: what `pallas_call` does with these options."""
        run = importlib.import_module("jax._src.pallas.mosaic_gpu.interpret.calls").run_call
        return run(self, *args, **params)


later.interpret = lambda *args, **params: InterpretParams().run_call(*args, **params)
