"""Copies between the memories of a core, of its device, and of other devices."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes, source_info_util
from jax._src.core import JaxprEqn
from jax._src.pallas.mosaic.copies import dma_start_p, dma_wait_p
from jax._src.pallas.mosaic.interpret.clocks import Actor
from jax._src.pallas.mosaic.interpret.machine import RULES as rule, Core, Machine
from jax._src.pallas.mosaic.interpret.memory import Buffer
from jax._src.pallas.mosaic.interpret.semaphores import Semaphore, semaphore_in, signal, wait
from jax._src.pallas.mosaic.sparse_core.indices import with_arrays
from jax._src.pallas.threaded.threads import Run
from jax._src.pallas.threaded.views import int_of
from jax._src.state.types import transform_type
from jax._src.tree_util import tree_unflatten

# A buffer, and the transforms of a view of it.
View = tuple[Buffer, Sequence[Any]]


class Copy(Actor):
    """A copy that has been started.

    Args:
      machine: the machine.
      by: the core that started it.
      source, target: what is copied where.
      sent: counts what was read; None for copies on a device.
      arrived: counts what was written.
      add: whether to add to what the target holds.
      copied: booleans that broadcast to the source: what is copied of it; None for all.
      source_info: where in the kernel it was started.
    """

    def __init__(
        self, machine: Machine, by: Core, source: View, target: View, sent: Semaphore | None,
        arrived: Semaphore, add: bool, copied: Any, source_info: Any,
    ):  # fmt: skip
        super().__init__(f"a copy that {by.name} started")
        self.machine = machine
        self.source, self.target = source, target
        self.sent, self.arrived = sent, arrived
        self.add = add
        self.copied = copied
        self.source_info = source_info
        self.data: np.ndarray | None = None
        if machine.races is not None:
            machine.races.start_copy(self, by)

    def read(self) -> None:
        """Read the source, unless that is done."""
        if self.data is None:
            with _at(self):
                self.data = self.machine.memory.read(self, *self.source, self.source_info)
            if self.sent is not None:
                signal(self.machine, self, self.sent, bytes_of(self.data.shape, self.data.dtype))

    def finish(self) -> None:
        """Write to the target."""
        self.read()
        data, memory = self.data, self.machine.memory
        assert data is not None
        with _at(self):
            if self.add:
                memory.note(self, self.target[0], self.target[0].array, False, self.source_info)
            if self.copied is not None:
                old = 0 if self.add else memory.read(self, *self.target, self.source_info)
                data = np.where(self.copied, data, old).astype(data.dtype)
            memory.write(self, *self.target, data, self.source_info, self.add)
        signal(self.machine, self, self.arrived, bytes_of(data.shape, data.dtype))
        if self.machine.races is not None:
            self.machine.races.end_copy(self)


class _at:
    """Adds to an error in a copy where it was started; it may be made where another core waits."""

    def __init__(self, copy: Copy):
        self.copy = copy

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is not None:
            line = source_info_util.summarize(self.copy.source_info)
            error.add_note(f"In {self.copy.machine.where}: {self.copy.name}, at {line}.")


def bytes_of(shape: Sequence[int], dtype: Any) -> int:
    """Return what a copy of an array of this shape and dtype counts."""
    return -(-math.prod(shape) * int(dtypes.itemsize_bits(dtype)) // 8)


def _positions(machine: Machine, core: Core, eqn: JaxprEqn, x: Any) -> Any:
    """Return the array of positions that an entry of an index stands for; other entries as they are."""
    return machine.memory.read(core, x, (), eqn.source_info) if isinstance(x, Buffer) else x


@rule(dma_start_p)
def _start(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    params = eqn.params
    source, target, sem, send, device_id = tree_unflatten(params["tree"], values)
    read = functools.partial(_positions, machine, core, eqn)
    transforms, copied = with_arrays(source[1], read)
    source, target = (source[0], transforms), (target[0], with_arrays(target[1], read)[0])
    if device_id is not None:
        other = machine.core_at(core, device_id, params["device_id_type"])
        target = (yield from machine.same_buffer(target[0], other)), target[1]
        sem = (yield from machine.same_buffer(sem[0], other)), sem[1]
    sent = None if send is None else semaphore_in(*send)
    arrived = semaphore_in(*sem)
    copy = Copy(
        machine, core, source, target, sent, arrived, params["add"], copied, eqn.source_info
    )
    if machine.params.dma_execution_mode == "eager":
        copy.finish()
    else:
        if sent is not None:
            sent.pending.append(copy.read)
        arrived.pending.append(copy.finish)
    return []


@rule(dma_wait_p)
def _wait(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    _, dst, sem, _, _ = tree_unflatten(eqn.params["tree"], values)
    _, (ref, *_), *_ = tree_unflatten(eqn.params["tree"], eqn.invars)
    transforms, _ = with_arrays(dst[1], lambda x: x.array if isinstance(x, Buffer) else x)
    aval = transform_type(transforms, ref.aval.inner_aval)
    shape = [d if isinstance(d, int) else int_of(d) for d in aval.shape]
    yield from wait(machine, core, semaphore_in(*sem), bytes_of(shape, aval.dtype))
    return []
