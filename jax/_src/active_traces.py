"""Queries about the transformations in progress, for the few libraries that depend on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core
from jax._src.core import Trace, trace_ctx
from jax._src.interpreters.batching import BatchTrace
from jax._src.interpreters.partial_eval import DynamicJaxprTrace
from jax._src.literals import TypedNdArray

# Types of arrays and scalars other than `jax.Array` that operations accept.
array_types: set[type] = {
    t
    for t in core.pytype_aval_mappings
    if issubclass(t, np.generic) or t in (np.ndarray, TypedNdArray)
}


def _in_progress(kind: type[Trace]) -> bool:
    trace = trace_ctx.trace
    while trace is not None:
        if isinstance(trace, kind):
            return True
        trace = getattr(trace, "parent", None)
    return False


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether the calling code is being staged out, by `jit` or another transformation."""
    return _in_progress(DynamicJaxprTrace)


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether the calling code is being mapped by `vmap`."""
    return _in_progress(BatchTrace)


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether an axis is being mapped over, named or not."""
    return core.nonempty_axis_env() or _in_progress(BatchTrace)


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """The names of the axes in scope, outermost first."""
    return core.unsafe_get_axis_names()
