"""What each operation does where kernels for TPUs are interpreted; `dma.py` has those of copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.core import DropVar, JaxprEqn
from jax._src.pallas.global_refs import get_global_p
from jax._src.pallas.mosaic.copies import get_barrier_semaphore_p
from jax._src.pallas.mosaic.hints import touch_p
from jax._src.pallas.mosaic.interpret.machine import RULES as rule, Core, Machine
from jax._src.pallas.mosaic.interpret.memory import Buffer
from jax._src.pallas.mosaic.interpret.semaphores import semaphore_in, signal, wait
from jax._src.pallas.mosaic.packing import masked_load_p, masked_store_p
from jax._src.pallas.primitives import delay_p, run_scoped_p
from jax._src.pallas.semaphores import semaphore_read_p, semaphore_signal_p, semaphore_wait_p
from jax._src.pallas.threaded.control_flow import register_control_flow, register_positions
from jax._src.pallas.threaded.programs import run_jaxpr
from jax._src.pallas.threaded.threads import Run
from jax._src.pallas.threaded.views import int_of, read
from jax._src.state.primitives import addupdate_p, get_p, swap_p
from jax._src.tree_util import tree_unflatten

register_control_flow(rule, Buffer)
register_positions(rule)

# Reads and writes


@rule(get_p)
def _get(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    buffer, *idx = values
    rest = tree_unflatten(eqn.params["tree"], idx)
    return [_read(machine, core, buffer, rest, eqn.source_info)]


def _read(machine: Any, core: Any, buffer: Buffer, transforms: Any, source_info: Any) -> Any:
    # In index maps, operands are read only, and no core reads them.
    memory = getattr(machine, "memory", None)
    if memory is None:
        return read(buffer.array, transforms, buffer.name)
    return memory.read(core, buffer, transforms, source_info)


@rule(swap_p)
def _swap(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    buffer, value, *idx = values
    rest = tree_unflatten(eqn.params["tree"], idx)
    (out,) = eqn.outvars
    old: Any = np.zeros(out.aval.shape, out.aval.dtype)
    if not isinstance(out, DropVar):
        old = machine.memory.read(core, buffer, rest, eqn.source_info)
    machine.memory.write(core, buffer, rest, value, eqn.source_info)
    return [old]


@rule(addupdate_p)
def _addupdate(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    buffer, value, *idx = values
    rest = tree_unflatten(eqn.params["tree"], idx)
    machine.memory.write(core, buffer, rest, value, eqn.source_info, add=True)
    return []


@rule(masked_load_p)
def _masked_load(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    buffer, mask, *flat = values
    rest = tree_unflatten(eqn.params["tree"], flat)
    value = machine.memory.read(core, buffer, rest, eqn.source_info)
    return [np.where(mask, value, machine.memory.empty((), value.dtype))]


@rule(masked_store_p)
def _masked_store(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    buffer, value, mask, *flat = values
    rest = tree_unflatten(eqn.params["tree"], flat)
    old = machine.memory.read(core, buffer, rest, eqn.source_info)
    machine.memory.write(core, buffer, rest, np.where(mask, value, old), eqn.source_info)
    return []


# Semaphores


@rule(semaphore_signal_p)
def _signal(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    params = eqn.params
    buffer, transforms, inc, device_id, core_index = tree_unflatten(params["args_tree"], values)
    if device_id is not None or core_index is not None:
        index = None if core_index is None else int_of(core_index)
        other = machine.core_at(core, device_id, params["device_id_type"], index)
        buffer = yield from machine.same_buffer(buffer, other)
    signal(machine, core, semaphore_in(buffer, transforms), int_of(inc))
    return []


@rule(semaphore_wait_p)
def _wait(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    buffer, transforms, value = tree_unflatten(eqn.params["args_tree"], values)
    sem = semaphore_in(buffer, transforms)
    yield from wait(machine, core, sem, int_of(value), eqn.params["decrement"])
    return []


@rule(semaphore_read_p)
def _semaphore_read(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    buffer, transforms = tree_unflatten(eqn.params["args_tree"], values)
    return [np.int32(semaphore_in(buffer, transforms).count)]


@rule(get_barrier_semaphore_p)
def _barrier(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    return [core.buffers["barrier"]]


# What takes time only, or is for the compiler


@rule(delay_p, touch_p)
def _delay(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    return []


# Functions with references of their own


@rule(run_scoped_p)
def _run_scoped(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    closed = eqn.params["jaxpr"]
    names = closed.jaxpr.debug_info.arg_names
    times = core.count(eqn)
    shared = bool(set(eqn.params["collective_axes"]) & set(core.coordinates))
    buffers = []
    for k, aval in enumerate(closed.in_avals[len(values) :]):
        name = (names[len(values) + k] if names else None) or f"scratch {k}"
        buffers.append(machine.allocate(core, aval, name, (eqn, times, k), shared))
    outs = yield from run_jaxpr(machine, core, closed.jaxpr, closed.consts, [*values, *buffers])
    for b in buffers:
        machine.free(core, b)
    return outs


@rule(get_global_p)
def _get_global(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    # The same in all runs of the kernel.
    return [machine.allocate(core, eqn.params["what"], "a global reference", eqn, False)]
