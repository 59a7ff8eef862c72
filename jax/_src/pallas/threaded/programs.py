"""How the jaxpr of a kernel is run: operations on memory one by one, what is between them as programs of XLA."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, dtypes, source_info_util
from jax._src.api import jit
from jax._src.core import Jaxpr, JaxprEqn, Literal, Primitive
from jax._src.pallas.threaded.threads import Run
from jax._src.pallas.values import as_typed, words_of

# Rules are generators of (machine, thread, eqn, operands): they return a list of results.
Rule = Callable[[Any, Any, JaxprEqn, list[Any]], Run]

# Operations with rules that have nested jaxprs need them only where these do.
_CONTAINERS = frozenset("jit closed_call cond while scan".split())


class Rules:
    """What each operation does in one interpreter.

    Args:
      whose: whose kernels they are, for errors, such as `"of a GPU"`.
    """

    def __init__(self, whose: str):
        self.whose = whose
        self._of: dict[Primitive, Rule] = {}
        self._needs: weakref.WeakKeyDictionary[Jaxpr, bool] = weakref.WeakKeyDictionary()
        self._steps: weakref.WeakKeyDictionary[Jaxpr, dict[bool, list[_Step]]] = (
            weakref.WeakKeyDictionary()
        )

    def __call__(self, *primitives: Primitive) -> Callable[[Rule], Rule]:
        """Return a decorator that makes a generator function the rule of primitives."""

        def register(f: Rule) -> Rule:
            for p in primitives:
                self._of[p] = f
            return f

        return register

    def get(self, p: Primitive) -> Rule | None:
        """Return the rule of a primitive; None if it has none."""
        return self._of.get(p)

    def are_needed_by(self, eqn: JaxprEqn) -> bool:
        """Whether an equation, or one of a jaxpr nested in it, has a rule."""
        if eqn.primitive in self._of and eqn.primitive.name not in _CONTAINERS:
            return True
        return any([self._are_needed_in(_open(j)) for j in core.jaxprs_in_params(eqn.params)])

    def _are_needed_in(self, jaxpr: Jaxpr) -> bool:
        if jaxpr not in self._needs:
            self._needs[jaxpr] = any(map(self.are_needed_by, jaxpr.eqns))
        return self._needs[jaxpr]

    def steps(self, jaxpr: Jaxpr, skips_floats: bool) -> list[_Step]:
        """Return a jaxpr divided into equations with rules, and programs of those without."""
        found = self._steps.setdefault(jaxpr, {})
        if skips_floats not in found:
            found[skips_floats] = _divided(jaxpr, self, skips_floats)
        return found[skips_floats]


class _Step:
    """An equation with a rule, or a program of several equations without."""

    __slots__ = ("eqn", "program", "reads", "writes")

    def __init__(self, eqn: JaxprEqn | None, program: Any, reads: Any, writes: Any):
        self.eqn = eqn
        self.program = program
        self.reads = reads
        self.writes = writes


def _open(j: Any) -> Jaxpr:
    return getattr(j, "jaxpr", j)


def _divided(jaxpr: Jaxpr, rules: Rules, skips_floats: bool) -> list[_Step]:
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
            steps.append(_program(jaxpr, list(group), last_read, end, skips_floats))
            group.clear()

    for k, eqn in enumerate(jaxpr.eqns):
        if rules.are_needed_by(eqn):
            flush(k)
            steps.append(_Step(eqn, None, eqn.invars, eqn.outvars))
        else:
            group.append(eqn)
    flush(len(jaxpr.eqns))
    return steps


def _program(
    jaxpr: Jaxpr, eqns: list[JaxprEqn], last_read: dict[Any, int], end: int, skips_floats: bool
) -> _Step:
    made = {v for e in eqns for v in e.outvars}
    reads: dict[Any, None] = {}
    for e in eqns:
        for v in e.invars:
            if type(v) is not Literal and v not in made:
                reads[v] = None
    writes = [v for e in eqns for v in e.outvars if last_read.get(v, -1) >= end]
    given = list(reads)
    if skips_floats:
        skipped = [e for e in eqns if e.outvars and all([_is_float(v) for v in e.outvars])]
        infinite = [v for e in skipped for v in e.outvars]
        eqns = [e for e in eqns if e not in skipped]
        given += infinite
    else:
        infinite = []
    part = jaxpr.replace(
        constvars=(), invars=given, outvars=writes, eqns=eqns,
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )  # fmt: skip

    @jit
    def program(*args: Any) -> Any:
        values = [np.full(v.aval.shape, np.inf, v.aval.dtype) for v in infinite]
        args = tuple([as_typed(x, v.aval) for x, v in zip(args, reads)])
        return [words_of(x) for x in core.eval_jaxpr(part, (), *args, *values)]

    return _Step(None, program, list(reads), writes)


def _is_float(v: Any) -> bool:
    return dtypes.issubdtype(getattr(v.aval, "dtype", np.int32), np.floating)


def run_jaxpr(machine: Any, thread: Any, jaxpr: Jaxpr, consts: Any, args: Any) -> Run:
    """Run a jaxpr on a thread.

    Args:
      machine: runs the thread. Of it, this module needs `rules`, the kernel's name and line as `where`, and
        `skips_floats`: whether operations whose results are floating-point numbers are left out, and give
        infinity.
      thread: the thread, which has a `name`; the rules of `control_flow.py` need its `positions` and `count`.
      jaxpr, consts: what is run.
      args: arrays, and what stands for references in the rules.
    """
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    for step in machine.rules.steps(jaxpr, machine.skips_floats):
        values = [v.val if type(v) is Literal else env[v] for v in step.reads]
        if step.eqn is None:
            outs = step.program(*values)
        else:
            outs = yield from _run_eqn(machine, thread, step.eqn, values)
        env.update(zip(step.writes, outs))
    return [np.asarray(v.val) if type(v) is Literal else env[v] for v in jaxpr.outvars]


def _run_eqn(machine: Any, thread: Any, eqn: JaxprEqn, values: list[Any]) -> Run:
    found = machine.rules.get(eqn.primitive)
    line = source_info_util.summarize(eqn.source_info)
    if found is None:
        raise NotImplementedError(
            f"Kernels that are interpreted as those {machine.rules.whose} cannot have {eqn.primitive.name} of functions "
            f"that use references, at {line}, in {machine.where}."
        )
    try:
        return (yield from found(machine, thread, eqn, values))
    except Exception as e:
        if not getattr(e, "__notes__", None):
            e.add_note(f"In {machine.where}: {eqn.primitive.name} at {line}, on {thread.name}.")
        raise


class _OfIndexMaps:
    """Stands for a machine where index maps are run."""

    where = "an index map"
    skips_floats = False

    def __init__(self, rules: Rules):
        self.rules = rules


def run_index_map(rules: Rules, jaxpr: Jaxpr, consts: Any, args: Any) -> list[np.ndarray]:
    """Run a jaxpr that has no thread and does not wait, and return its results.

    Args:
      rules: those of the operations on references.
      jaxpr, consts, args: as for `run_jaxpr`.
    """
    run = run_jaxpr(_OfIndexMaps(rules), None, jaxpr, consts, args)
    try:
        while True:
            next(run)
    except StopIteration as end:
        return [np.asarray(x) for x in end.value]
