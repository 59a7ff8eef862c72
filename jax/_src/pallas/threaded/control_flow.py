"""Rules of control flow and of positions, in interpreters of threads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src.core import AbstractRef, JaxprEqn
from jax._src.jit.primitive import jit_p
from jax._src.lax.control_flow.common import split_at
from jax._src.lax.control_flow.conditionals import cond_p
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.lax.control_flow.while_primitive import while_p
from jax._src.lax.parallel import axis_index_p
from jax._src.pallas.primitives import num_programs_p, program_id_p
from jax._src.pallas.threaded.programs import Rules, run_jaxpr
from jax._src.pallas.threaded.threads import Run
from jax._src.pallas.threaded.views import Buffer, int_of
from jax._src.state.discharge import run_state_p


def register_control_flow(
    rules: Rules, new_buffer: Callable[[np.ndarray, str, Any], Buffer]
) -> None:
    """Give an interpreter the rules of loops, branches and nested functions.

    Args:
      rules: those of the interpreter.
      new_buffer: makes what the reference to a state refers to, of an array, a name and a key.
    """
    rules(jit_p)(_jit)
    rules(cond_p)(_cond)
    rules(while_p)(_while)
    rules(scan_p)(_scan)
    rules(run_state_p)(functools.partial(_run_state, new_buffer))


def register_positions(rules: Rules) -> None:
    """Give an interpreter the rules of positions: what threads have as `positions`."""
    rules(axis_index_p)(_axis_index)
    rules(program_id_p, num_programs_p)(_grid_position)


def _axis_index(machine: Any, thread: Any, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    return [np.int32(thread.positions[eqn.params["axis_name"]])]


def _grid_position(machine: Any, thread: Any, eqn: JaxprEqn, values: list[Any]) -> Run:
    yield from ()
    return [np.int32(thread.positions[eqn.primitive.name, eqn.params["axis"]])]


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


def _run_state(new_buffer: Any, machine: Any, thread: Any, eqn: JaxprEqn, values: list[Any]) -> Run:
    closed = eqn.params["jaxpr"]
    args = []
    for value, aval in zip(values, closed.in_avals):
        if isinstance(aval, AbstractRef) and not isinstance(value, Buffer):
            key = (eqn, thread.count(eqn), len(args))
            value = new_buffer(np.array(value, aval.dtype), f"a state of {thread.name}", key)
        args.append(value)
    yield from run_jaxpr(machine, thread, closed.jaxpr, closed.consts, args)
    # The final values of all operands.
    made = [isinstance(a, Buffer) and not isinstance(v, Buffer) for a, v in zip(args, values)]
    return [a.array if m else v for a, v, m in zip(args, values, made)]
