"""Eager execution of primitives.

`apply_primitive` is the default `impl` of primitives: it runs one compiled program for each
primitive and parameters. The module also has the logger of compilations.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from jax._src import api_util, config, core
from jax._src.compiler import (
    BACKEND_COMPILE_EVENT as BACKEND_COMPILE_EVENT,
    JAXPR_TO_MLIR_MODULE_EVENT as JAXPR_TO_MLIR_MODULE_EVENT,
    JAXPR_TRACE_EVENT as JAXPR_TRACE_EVENT,
    log_elapsed_time as log_elapsed_time,
)
from jax._src.core import Primitive, eval_trace, trace_ctx
from jax._src.device_put.primitive import device_put_p as device_put_p
from jax._src.errors import InternalFloatingPointError as InternalFloatingPointError
from jax._src.late_binding import late
from jax._src.runtime_tokens import (
    RuntimeTokenSet as RuntimeTokenSet,
    runtime_tokens as runtime_tokens,
    wait_for_tokens as wait_for_tokens,
)
from jax._src.special_values import (
    check_special as check_special,
    check_special_array as check_special_array,
    needs_check_special as needs_check_special,
)
from jax._src.util import register_cache, test_event

# Primitives

_MAX_PROGRAMS = 4096  # per primitive, one for each set of parameters
_compiled_primitives: weakref.WeakSet[Primitive] = weakref.WeakSet()


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """Compute the results of a primitive on concrete arguments with a compiled program."""
    call = prim.eager_program(params)
    if call is None:
        call = _compile_primitive(prim, params)
    return call(*args)


def _compile_primitive(primitive: Primitive, params: dict[str, Any]) -> Callable:
    def run(*args):
        if (
            trace_ctx.trace is eval_trace
        ):  # jax_disable_jit does not apply to single primitives, so compile this one
            with config.disable_jit(False):
                return call(*args)
        return primitive.bind(*args, **params)

    run.__name__ = run.__qualname__ = primitive.name
    owner = next(iter(core.jaxprs_in_params(params)), None)
    if owner is not None:  # cache the program on the jaxpr, so that both are freed together
        key = (apply_primitive, primitive, tuple(params.items()))
        call = owner._cache.get(key) or compile_on_jaxpr(owner, key, run, primitive.name)
        return call
    run._apply_primitive = True  # type: ignore[attr-defined]
    test_event("operation_compiled")
    call = late.compile_eager(run, primitive.name)
    cache = primitive.eager_cache
    if len(cache) >= _MAX_PROGRAMS:
        cache.pop(next(iter(cache)), None)
    cache[tuple(params.items())] = call
    _compiled_primitives.add(primitive)
    return call


def compile_on_jaxpr(
    owner: core.Jaxpr | core.ClosedJaxpr, key: Hashable, run: Callable, name: str
) -> Callable:
    """A native callable for a function of arrays, in the cache of a jaxpr: both are freed together."""
    call = owner._cache[key] = compile_alone(run, name)
    return call


def compile_alone(run: Callable, name: str) -> Callable:
    """A native callable for a function of arrays, which is freed with what the caller keeps it on."""
    run = api_util.with_own_traces(run)
    run._apply_primitive = True  # type: ignore[attr-defined]
    return late.compile_eager(run, name)


class EagerPrograms:
    """The programs of all primitives, as one cache."""

    @staticmethod
    def cache_clear() -> None:
        for primitive in list(_compiled_primitives):
            primitive.eager_cache.clear()
        _compiled_primitives.clear()


register_cache(EagerPrograms, "eager primitives")

late.apply_primitive = apply_primitive


# Logs

logger = logging.getLogger(__name__)


def jaxpr_has_primitive(jaxpr: Any, prim_name: str) -> bool:
    """Whether a primitive of this name occurs in a jaxpr or in jaxprs inside its equations."""
    if any(prim_name in eqn.primitive.name for eqn in jaxpr.eqns):
        return True
    return any(jaxpr_has_primitive(sub, prim_name) for sub in core.subjaxprs(jaxpr))
