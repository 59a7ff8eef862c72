"""Rules of control flow, in interpreters of threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.core import JaxprEqn
from jax._src.jit.primitive import jit_p
from jax._src.lax.control_flow.common import split_at
from jax._src.lax.control_flow.conditionals import cond_p
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.lax.control_flow.while_primitive import while_p
from jax._src.pallas.threaded.programs import Rules, run_jaxpr
from jax._src.pallas.threaded.threads import Run
from jax._src.pallas.threaded.views import int_of


def register_control_flow(rules: Rules) -> None:
    """Give an interpreter the rules of loops, branches and nested functions."""
    rules(jit_p)(_jit)
    rules(cond_p)(_cond)
    rules(while_p)(_while)
    rules(scan_p)(_scan)


def _jit(machine: Any, thread: Any, eqn: JaxprEqn, values: list[Any]) -> Run:
    closed = eqn.params["jaxpr"]
    return (yield from run_jaxpr(machine, thread, closed.jaxpr, closed.consts, values))


def _cond(machine: Any, thread: Any, eqn: JaxprEqn, values: list[Any]) -> Run:
    index, *args = values
    branches = eqn.params["branches"]
    closed = branches[min(max(int_of(index), 0), len(branches) - 1)]
    return (yield from run_jaxpr(machine, thread, closed.jaxpr, closed.consts, args))


def _while(machine: Any, thread: Any, eqn: JaxprEqn, values: list[Any]) -> Run:
    p = eqn.params
    cond_consts, body_consts, carry = split_at(values, p["cond_nconsts"], p["body_nconsts"])
    test, body = p["cond_jaxpr"], p["body_jaxpr"]
    while True:
        (again,) = yield from run_jaxpr(
            machine, thread, test.jaxpr, test.consts, [*cond_consts, *carry]
        )
        if not np.asarray(again):
            return carry
        carry = yield from run_jaxpr(
            machine, thread, body.jaxpr, body.consts, [*body_consts, *carry]
        )


def _scan(machine: Any, thread: Any, eqn: JaxprEqn, values: list[Any]) -> Run:
    p = eqn.params
    consts, carry, xs = split_at(values, p["num_consts"], p["num_carry"])
    closed, length = p["jaxpr"], p["length"]
    ys: list[list[Any]] = [[] for _ in range(len(eqn.outvars) - len(carry))]
    xs = [np.asarray(x) for x in xs]
    for i in reversed(range(length)) if p["reverse"] else range(length):
        outs = yield from run_jaxpr(
            machine, thread, closed.jaxpr, closed.consts, [*consts, *carry, *[x[i] for x in xs]]
        )
        carry = outs[: len(carry)]
        for y, new in zip(ys, outs[len(carry) :]):
            y.append(np.asarray(new))
    stacked = []
    for y, v in zip(ys, eqn.outvars[len(carry) :]):
        out = np.empty(v.aval.shape, v.aval.dtype)
        for i, part in enumerate(reversed(y) if p["reverse"] else y):
            out[i] = part
        stacked.append(out)
    return [*carry, *stacked]
