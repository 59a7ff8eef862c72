"""How the jaxpr of a kernel is run: operations on memory one by one, what is between them as programs of XLA."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, source_info_util
from jax._src.api import jit
from jax._src.core import Jaxpr, JaxprEqn, Literal, Primitive
from jax._src.pallas.mosaic_gpu.interpret.machine import Machine, Run, Thread

# Rules are generators of (machine, thread, eqn, operands): they return a list of results.
Rule = Callable[[Machine, Thread, JaxprEqn, list[Any]], Run]
rules: dict[Primitive, Rule] = {}


def rule(*primitives: Primitive) -> Callable[[Rule], Rule]:
    """Return a decorator that makes a generator function the rule of primitives."""

    def register(f: Rule) -> Rule:
        for p in primitives:
            rules[p] = f
        return f

    return register


class _Step:
    """An equation with a rule, or a program of several equations without."""

    __slots__ = ("eqn", "program", "reads", "writes")

    def __init__(self, eqn: JaxprEqn | None, program: Any, reads: Any, writes: Any):
        self.eqn = eqn
        self.program = program
        self.reads = reads
        self.writes = writes


_steps: weakref.WeakKeyDictionary[Jaxpr, list[_Step]] = weakref.WeakKeyDictionary()
_needs: weakref.WeakKeyDictionary[Jaxpr, bool] = weakref.WeakKeyDictionary()


def needs_rules(jaxpr: Jaxpr) -> bool:
    """Whether an equation of a jaxpr, or of a nested one, has a rule."""
    if jaxpr not in _needs:
        _needs[jaxpr] = any(map(_needs_rule, jaxpr.eqns))
    return _needs[jaxpr]


# Operations with rules that have nested jaxprs need them only where these do.
_CONTAINERS = frozenset("jit closed_call cond while scan".split())


def _needs_rule(eqn: JaxprEqn) -> bool:
    if eqn.primitive in rules and eqn.primitive.name not in _CONTAINERS:
        return True
    return any([needs_rules(_open(j)) for j in core.jaxprs_in_params(eqn.params)])


def _open(j: Any) -> Jaxpr:
    return getattr(j, "jaxpr", j)


def _divided(jaxpr: Jaxpr) -> list[_Step]:
    steps, group = [], []  # type: ignore[var-annotated]
    last_read: dict[Any, int] = {}
    for k, eqn in enumerate(jaxpr.eqns):
        for v in eqn.invars:
            if type(v) is not Literal:
                last_read[v] = k
    for v in jaxpr.outvars:
        if type(v) is not Literal:
            last_read[v] = len(jaxpr.eqns)

    def flush(end: int) -> None:
        if group:
            steps.append(_program(jaxpr, list(group), last_read, end))
            group.clear()

    for k, eqn in enumerate(jaxpr.eqns):
        if _needs_rule(eqn):
            flush(k)
            steps.append(_Step(eqn, None, eqn.invars, eqn.outvars))
        else:
            group.append(eqn)
    flush(len(jaxpr.eqns))
    return steps


def _program(jaxpr: Jaxpr, eqns: list[JaxprEqn], last_read: dict[Any, int], end: int) -> _Step:
    made = {v for e in eqns for v in e.outvars}
    reads: dict[Any, None] = {}
    for e in eqns:
        for v in e.invars:
            if type(v) is not Literal and v not in made:
                reads[v] = None
    writes = [v for e in eqns for v in e.outvars if last_read.get(v, -1) >= end]
    part = jaxpr.replace(
        constvars=(), invars=list(reads), outvars=writes, eqns=eqns,
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )  # fmt: skip
    program = jit(lambda *args: core.eval_jaxpr(part, (), *args))
    return _Step(None, program, list(reads), writes)


def run_jaxpr(machine: Machine, thread: Thread, jaxpr: Jaxpr, consts: Any, args: Any) -> Run:
    """Run a jaxpr on a thread. Its references are `Buffer` objects."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    if jaxpr not in _steps:
        _steps[jaxpr] = _divided(jaxpr)
    for step in _steps[jaxpr]:
        values = [v.val if type(v) is Literal else env[v] for v in step.reads]
        if step.eqn is None:
            outs = step.program(*values)
        else:
            outs = yield from _run_eqn(machine, thread, step.eqn, values)
        env.update(zip(step.writes, outs))
    return [np.asarray(v.val) if type(v) is Literal else env[v] for v in jaxpr.outvars]


def _run_eqn(machine: Machine, thread: Thread, eqn: JaxprEqn, values: list[Any]) -> Run:
    found = rules.get(eqn.primitive)
    line = source_info_util.summarize(eqn.source_info)
    if found is None:
        raise NotImplementedError(
            f"Kernels that are interpreted as those of a GPU cannot have {eqn.primitive.name} of functions that "
            f"use references, at {line}, in {machine.where}."
        )
    try:
        return (yield from found(machine, thread, eqn, values))
    except Exception as e:
        if not getattr(e, "__notes__", None):
            e.add_note(f"In {machine.where}: {eqn.primitive.name} at {line}, on {thread.name}.")
        raise
