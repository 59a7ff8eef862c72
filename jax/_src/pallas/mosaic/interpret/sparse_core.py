"""What operations of SparseCores do where kernels for TPUs are interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.core import JaxprEqn
from jax._src.pallas.mosaic.interpret.machine import RULES as rule, Core, Machine
from jax._src.pallas.mosaic.interpret.semaphores import signal, wait
from jax._src.pallas.mosaic.sparse_core.memory import (
    fetch_and_add_p,
    load_at_p,
    loaded,
    store_at_p,
    stored,
    subcore_barrier_p,
)
from jax._src.pallas.threaded.threads import Run
from jax._src.pallas.threaded.views import int_of
from jax._src.tree_util import tree_unflatten


@rule(load_at_p)
def _load_at(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    buffer, *flat = values
    transforms, indices, _, mask = tree_unflatten(eqn.params["tree"], flat)
    part = machine.memory.read(core, buffer, transforms, eqn.source_info)
    found = np.asarray(loaded(part, indices, mask))
    if mask is not None:
        found = np.where(mask, found, machine.memory.empty((), found.dtype))
    return [found]


@rule(store_at_p)
def _store_at(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    buffer, *flat = values
    transforms, indices, x, mask = tree_unflatten(eqn.params["tree"], flat)
    part = machine.memory.read(core, buffer, transforms, eqn.source_info)
    new = np.asarray(stored(part, indices, x, mask, eqn.params["add"]))
    machine.memory.write(core, buffer, transforms, new, eqn.source_info)
    return []


@rule(fetch_and_add_p)
def _fetch_and_add(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    buffer, value, subcore, *flat = values
    transforms = tree_unflatten(eqn.params["tree"], flat)
    subcores = machine.subcores_of(core)
    if not 0 <= int_of(subcore) < len(subcores):
        raise ValueError(f"subcore_id is {int_of(subcore)}, there are {len(subcores)} subcores.")
    other = yield from machine.same_buffer(buffer, subcores[int_of(subcore)])
    # Atomic: no race with others of its kind.
    old = machine.memory.read(core, other, transforms, eqn.source_info)
    machine.memory.write(core, other, transforms, old + value, eqn.source_info)
    return [old]


@rule(subcore_barrier_p)
def _barrier(machine: Machine, core: Core, eqn: JaxprEqn, values: list[Any]) -> Run:
    subcores = machine.subcores_of(core)
    for other in subcores:
        signal(machine, core, other.arrivals, 1)
    yield from wait(machine, core, core.arrivals, len(subcores))
    return []
