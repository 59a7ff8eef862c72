"""Options of the interpreter of kernels for TPUs."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

from jax._src.pallas.forced import forced_interpret
from jax._src.pallas.threaded.params import CommonInterpretParams

# The numbers of copies that are told apart by default, where races are looked for.
_COPIES = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class InterpretParams(CommonInterpretParams):
    """Options with which kernels for TPUs are run without one, given as `interpret`.

    The memories of all devices and cores are simulated, copies between them, and semaphores. All cores run, each
    until it has to wait; where none can go on, an error says what each waits for.

    Args:
      detect_races: whether to look for reads and writes that no semaphore orders; what is found is printed.
      out_of_bounds_reads: what reads beyond a buffer do: raise an error, or give values that are uninitialized.
        Writes raise an error.
      skip_floating_point_ops: whether operations whose results are floating-point numbers are left out, and give
        infinity.
      uninitialized_memory: what memory holds before it is written: NaN, or the greatest integer; or zero.
      num_cores_or_threads: the number of cores of a device, among which the points of a grid are divided along its
        parallel dimensions. Kernels over a mesh run on as many cores as the mesh has.
      vector_clock_size: how many cores and copies are told apart where races are looked for, more than there are cores.
        With fewer, races of copies may be missed.
      logging_mode: what is printed of the run.
      dma_execution_mode: whether copies are made when they are started ("eager"), or when a semaphore that
        they count on is waited for ("on_wait").
      random_seed: seed of the order of the points of a grid along its parallel dimensions; None for the same
        as 0 where there are several cores, and their own order where there is one.
      grid_point_recorder: function that is called for each point of the grid before it is run, with an
        integer that has no meaning, the point, and the number of the core.
      allow_hbm_allocation_in_run_scoped: whether `run_scoped` can make references in HBM, which TPUs cannot.
      buffer_bounds: whether accesses are out of bounds beyond a buffer's shape ("logical"), or beyond the tiles that a TPU
        stores it in ("padded"). What is between is uninitialized when it is read, and writes to it are dropped.

    Raises:
      ValueError: if an option has another value.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> def kernel(x_ref, o_ref, buffer, sem):
    ...   copy = pltpu.make_async_copy(x_ref, buffer, sem)
    ...   copy.start()
    ...   copy.wait()
    ...   o_ref[...] = buffer[...] + 1.
    >>> x = jnp.arange(4.)
    >>> scratch = [pltpu.VMEM((4,), jnp.float32), pltpu.SemaphoreType.DMA]
    >>> in_specs = [pl.BlockSpec(memory_space=pl.ANY)]
    >>> interpret = pltpu.InterpretParams(detect_races=True)
    >>> pl.pallas_call(kernel, x, in_specs=in_specs, scratch_shapes=scratch, interpret=interpret)(x)
    Array([1., 2., 3., 4.], dtype=float32)
    """

    _CHOICES: ClassVar[dict[str, tuple[str, str]]] = {
        **CommonInterpretParams._CHOICES,
        "dma_execution_mode": ("eager", "on_wait"),
        "buffer_bounds": ("logical", "padded"),
    }
    _RUNS_IN: ClassVar[str] = "jax._src.pallas.mosaic.interpret.run"

    dma_execution_mode: Literal["eager", "on_wait"] = "on_wait"
    random_seed: int | None = None
    grid_point_recorder: Callable[[Any, tuple[Any, ...], Any], Any] | None = None
    allow_hbm_allocation_in_run_scoped: bool = False
    buffer_bounds: Literal["logical", "padded"] = "logical"

    @property
    def num_cores_per_device(self) -> int:
        return self.num_cores_or_threads

    def get_vector_clock_size(self, num_devices: int) -> int:
        """Return how many cores and copies are told apart at least, on a number of devices.

        Raises:
          ValueError: if vector_clock_size is not greater than the number of cores.
        """
        total = num_devices * self.num_cores_or_threads
        if self.vector_clock_size is None:
            return 2 * total
        if self.vector_clock_size <= total:
            raise ValueError(
                f"Vector clock size ({self.vector_clock_size}) must be greater than the total number of "
                f"cores/threads ({total})."
            )
        return self.vector_clock_size

    def num_clocks(self, num_devices: int, num_cores: int) -> int:
        """Return how many cores and copies are told apart, where a device has this number of cores."""
        size = self.get_vector_clock_size(num_devices)
        total = num_devices * num_cores
        return max(size, total + 1) if self.vector_clock_size is not None else total + _COPIES


_DEFAULT = InterpretParams()


@contextlib.contextmanager
def force_tpu_interpret_mode(params: InterpretParams = _DEFAULT) -> Iterator[None]:
    """Return a context in which all kernels that are staged are interpreted as those of a TPU.

    Args:
      params: the options, in place of the kernels' own.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> def double(x_ref, o_ref):
    ...   o_ref[...] = x_ref[...] * 2.
    >>> with pltpu.force_tpu_interpret_mode():
    ...   pl.pallas_call(double, jnp.zeros(2))(jnp.arange(2.))
    Array([0., 2.], dtype=float32)
    """
    before = forced_interpret.swap_local(params)
    try:
        yield
    finally:
        forced_interpret.swap_local(before)


def set_tpu_interpret_mode(params: InterpretParams | None = _DEFAULT) -> None:
    """Make all kernels that are staged from now on be interpreted as those of a TPU.

    Args:
      params: the options, in place of the kernels' own; None to run kernels as they say again.
    """
    forced_interpret.set_global(params)


def reset_tpu_interpret_mode_state() -> None:
    """Forget devices that wait for others to come to a kernel, after an error kept these from it."""
    importlib.import_module("jax._src.pallas.threaded.devices").forget_waiting()
