"""Functions for kernels that several cores of a TPU run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import traceback_util
from jax._src.lax import lax
from jax._src.lax.parallel import axis_index, axis_size
from jax._src.pallas.helpers import when
from jax._src.pallas.semaphores import semaphore_signal, semaphore_wait

traceback_util.register_exclusion(__file__)


def run_on_first_core(core_axis_name: str) -> Callable[[Callable[[], None]], None]:
    """Return a decorator that calls a function at once, on the first core only.

    Args:
      core_axis_name: the axis of the kernel's mesh of cores.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    >>> @pl.kernel(out_type=jax.ShapeDtypeStruct((2,), jnp.int32), mesh=mesh, interpret=True)
    ... def kernel(o_ref):
    ...   i = jax.lax.axis_index("core")
    ...   o_ref[i] = 1
    ...   @pltpu.run_on_first_core("core")
    ...   def _():
    ...     o_ref[i] = 2
    >>> kernel()
    Array([2, 1], dtype=int32)
    """
    if axis_size(core_axis_name) == 1:
        return when(True)
    return when(lax.eq(axis_index(core_axis_name), np.int32(0)))


def core_barrier(sem: Any, *, core_axis_name: str) -> None:
    """Wait until all cores along an axis have come here.

    Args:
      sem: a regular semaphore, that nothing else counts.
      core_axis_name: the axis of the kernel's mesh of cores.
    """
    count = axis_size(core_axis_name)
    if count == 1:
        return
    for core in range(count):
        semaphore_signal(sem, 1, core_index=core)
    semaphore_wait(sem, count)
