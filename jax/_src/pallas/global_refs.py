"""References that belong to a kernel, and not to one of its runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from jax._src import core, traceback_util
from jax._src.core import AbstractRef, Jaxpr, Primitive, Trace
from jax._src.pallas.memory import ref_avals_of

traceback_util.register_exclusion(__file__)

# Applied in the outermost function of a kernel only, to no operands; `what` is the result's type.
get_global_p = Primitive("get_global")


@get_global_p.def_effectful_abstract_eval
def _types(*, what: AbstractRef) -> Any:
    return what, {core.internal_mutable_array_effect}


class _Kernels(threading.local):
    def __init__(self) -> None:
        self.traces: list[Trace] = []


_kernels = _Kernels()


@contextlib.contextmanager
def kernel_in_scope(trace: Trace) -> Iterator[None]:
    """Make a trace the one that references of the kernel are made in, in whatever is nested in it."""
    _kernels.traces.append(trace)
    try:
        yield
    finally:
        _kernels.traces.pop()


def get_global(what: Any) -> Any:
    """Return a reference that keeps what is written to it in all runs of the kernel.

    Each call returns another reference.

    Args:
      what: its type, such as `pltpu.SemaphoreType.REGULAR` or `pltpu.VMEM((8, 128), jnp.float32)`.

    Raises:
      ValueError: outside of a kernel.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> def kernel(o_ref):
    ...   sem = pl.get_global(pltpu.SemaphoreType.REGULAR)
    ...   pl.semaphore_signal(sem)
    ...   o_ref[...] = pl.semaphore_read(sem)
    >>> pl.pallas_call(kernel, jax.ShapeDtypeStruct((), jnp.int32), grid=3, interpret=True)()
    Array(3, dtype=int32)
    """
    ((aval,), _) = ref_avals_of(what, "what get_global is given")
    if not _kernels.traces:
        raise ValueError("pl.get_global makes references of a kernel: call it in one.")
    with core.set_current_trace(_kernels.traces[-1]):
        return get_global_p.bind(what=aval)


def with_global_refs_as_arguments(jaxpr: Jaxpr) -> tuple[Jaxpr, list[AbstractRef]]:
    """Make the global references of a kernel its last arguments.

    Returns:
      The new jaxpr, and the types of these arguments.
    """
    found = [eqn for eqn in jaxpr.eqns if eqn.primitive is get_global_p]
    if not found:
        return jaxpr, []
    refs = [eqn.outvars[0] for eqn in found]
    others = [eqn for eqn in jaxpr.eqns if eqn.primitive is not get_global_p]
    n = len(jaxpr.invars)
    effects = set(jaxpr.effects)
    for eqn in others:
        for e in eqn.effects:
            if isinstance(e, core.RefEffect) and eqn.invars[e.input_index] in refs:
                effects.add(type(e)(n + refs.index(eqn.invars[e.input_index])))
    new = jaxpr.replace(
        invars=[*jaxpr.invars, *refs],
        eqns=others,
        effects=frozenset(effects),
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )
    return new, [eqn.params["what"] for eqn in found]
