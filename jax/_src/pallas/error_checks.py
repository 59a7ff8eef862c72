"""What checkify does with kernels. It is loaded where checkify meets one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import core
from jax._src.checkify.exceptions import ErrorEffect, user_checks
from jax._src.checkify.record import Record, staged
from jax._src.checkify.transform import bind, checked_jaxpr
from jax._src.core import JaxprEqn, typeof
from jax._src.pallas.interpret import run_over_grid


def record_errors(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    """Apply a kernel, and record which of its checks fail first.

    Only calls of `check` are looked at: elements without a value may be NaN in any operation.

    Raises:
      NotImplementedError: if the kernel is compiled, or has an interpreter of its own.
    """
    if not any([isinstance(e, ErrorEffect) for e in eqn.effects]):
        return bind(eqn, args)
    params = eqn.params
    kernel, mapping = params["jaxpr"], params["grid_mapping"]
    if not params["interpret"] or hasattr(params["interpret"], "run_call"):
        raise NotImplementedError(
            "checkify does not support `check` in kernels that are compiled, or that threads and cores run: give pallas_call interpret=True, in the "
            f"call of {kernel.debug_info.func_src_info}."
        )

    def run(*xs: Any) -> list[Any]:
        return run_over_grid(kernel, mapping, params["input_output_aliases"], xs)

    closed = staged(run, [typeof(x) for x in args])
    new, found = checked_jaxpr(closed, record.enabled & user_checks)
    outs = core.eval_jaxpr(new.jaxpr, new.consts, *args)
    n = len(eqn.outvars)
    record.add_found(found, outs[n:])
    return outs[:n]
