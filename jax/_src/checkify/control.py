"""Checks in functions that primitives call: control flow, calls, custom rules, `shard_map`.

The jaxprs in the parameters of an equation return the errors that they find as additional results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core, source_info_util, traceback_util
from jax._src.ad_checkpoint import remat_p
from jax._src.ad_util import SymbolicZero
from jax._src.call_primitives import call_p, closed_call_p
from jax._src.checkify.exceptions import ErrorEffect
from jax._src.checkify.operations import check_nan, floating
from jax._src.checkify.record import (
    Found,
    Record,
    first_of,
    initial,
    staged,
    vary_over,
)
from jax._src.checkify.transform import bind, checked_jaxpr, interpret
from jax._src.core import ClosedJaxpr, JaxprEqn, Primitive, cached_on_jaxpr, typeof
from jax._src.custom_batching import custom_vmap_p
from jax._src.custom_derivatives.jvp import custom_jvp_call_p
from jax._src.custom_derivatives.remat_opt import remat_opt_p
from jax._src.custom_derivatives.vjp import custom_vjp_call_p
from jax._src.interpreters import partial_eval as pe
from jax._src.jit.primitive import jit_p, with_jaxpr
from jax._src.lax import lax
from jax._src.lax.composite import composite_p
from jax._src.lax.control_flow.bounded_scan import bounded_scan_p
from jax._src.lax.control_flow.common import split_at
from jax._src.lax.control_flow.conditionals import cond_p
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.lax.control_flow.solves import custom_root_p, linear_solve_p
from jax._src.lax.control_flow.while_primitive import is_any_of_batch, while_p
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map.primitive import context_of, shard_map_p
from jax._src.state.discharge import apply_run_state, run_state_p

traceback_util.register_exclusion(__file__)


def _finds_errors(eqn: JaxprEqn) -> bool:
    """Whether an equation calls `check`."""
    return any(isinstance(e, ErrorEffect) for e in eqn.effects)


def _is_unchanged(eqn: JaxprEqn, found: Found) -> bool:
    """Whether nothing is found, and no check that is not enabled has to be left out."""
    return not found.effects and not _finds_errors(eqn)


# Calls


def _jit(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    new, found = checked_jaxpr(eqn.params["jaxpr"], record.enabled)
    if _is_unchanged(eqn, found):
        return bind(eqn, args)
    n = len(eqn.outvars)
    kept = [*range(n), *[None] * len(found.avals)]
    outs = jit_p.bind(*args, **with_jaxpr(eqn.params, new, range(len(args)), kept))
    record.add_found(found, outs[n:])
    return outs[:n]


def _remat(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    new, found = checked_jaxpr(eqn.params["jaxpr"], record.enabled)
    outs = remat_p.bind(*args, **dict(eqn.params, jaxpr=new))
    n = len(eqn.outvars)
    record.add_found(found, outs[n:])
    return outs[:n]


def _inlined(name: str) -> Callable[..., Any]:
    """The rule of a primitive whose function, in the parameter `name`, is evaluated in its place."""

    def rule(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
        closed = eqn.params[name]
        if isinstance(closed, core.Jaxpr):
            closed = pe.close_jaxpr(closed)
        return interpret(record, closed.jaxpr, closed.consts, args)

    return rule


def _inlined_with_check(name: str) -> Callable[..., Any]:
    """Like `_inlined`, but only for functions that call `check`: others stay as they are."""
    inlined = _inlined(name)

    def rule(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
        return inlined(record, eqn, args) if _finds_errors(eqn) else bind(eqn, args)

    return rule


def _run_state(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    closed = staged(lambda *xs: apply_run_state(*xs, **eqn.params), [typeof(x) for x in args])
    return interpret(record, closed.jaxpr, closed.consts, args)


# Functions with custom derivatives: the function returns errors, and its rules have none


class _Wrapped:
    """A function that is called by another one, and has its attributes."""

    def __init__(self, fun: Callable[..., Any], found: Found):
        self.fun, self.found = fun, found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["fun"], name)


class _Jvp(_Wrapped):
    """A rule of a function that also returns errors; these have no derivatives.

    Args:
      fun: the rule.
      found: the errors.
      checked: the function that returns results and errors.
    """

    def __init__(self, fun: Callable[..., Any], found: Found, checked: ClosedJaxpr):
        super().__init__(fun, found)
        self.checked = checked

    def __call__(self, *args: Any) -> list[Any]:
        outs = self.fun(*args)
        n = len(outs) // 2
        errors = core.jaxpr_as_fun(self.checked)(*args[: len(args) // 2])[n:]
        zeros = [SymbolicZero(a.to_tangent_aval()) for a in self.found.avals]
        return [*outs[:n], *errors, *outs[n:], *zeros]


class _Fwd(_Wrapped):
    """A forward rule of a function that also returns errors."""

    def __init__(
        self, fun: Callable[..., Any], found: Found, checked: ClosedJaxpr, symbolic_zeros: bool
    ):
        super().__init__(fun, found)
        self.checked, self.symbolic_zeros = checked, symbolic_zeros

    def __call__(self, *args: Any) -> list[Any]:
        outs = self.fun(*args)
        # With symbolic zeros, one flag for each operand comes before the operands.
        primals = args[len(args) // 2 :] if self.symbolic_zeros else args
        results = core.jaxpr_as_fun(self.checked)(*primals)
        return [*outs, *results[len(results) - len(self.found.avals) :]]


class _Bwd(_Wrapped):
    """A backward rule that ignores the cotangents of errors."""

    def __call__(self, trees: Any, *args: Any) -> Any:
        return self.fun(trees, *args[: len(args) - len(self.found.avals)])


def _custom_jvp(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    checked, found = checked_jaxpr(eqn.params["call_jaxpr"], record.enabled)
    if _is_unchanged(eqn, found):
        return bind(eqn, args)
    params = dict(custom_jvp_call_p.get_bind_params(eqn.params))
    _, jvp = params.pop("subfuns")
    funs = core.jaxpr_as_fun(checked), _Jvp(jvp, found, checked)
    outs = custom_jvp_call_p.bind(*funs, *args, **params)
    n = len(eqn.outvars)
    record.add_found(found, outs[n:])
    return outs[:n]


def _custom_vjp(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    checked, found = checked_jaxpr(eqn.params["call_jaxpr"], record.enabled)
    if _is_unchanged(eqn, found):
        return bind(eqn, args)
    params = dict(custom_vjp_call_p.get_bind_params(eqn.params))
    _, fwd, bwd = params.pop("subfuns")
    fwd = _Fwd(fwd, found, checked, params["symbolic_zeros"])
    outs = custom_vjp_call_p.bind(
        core.jaxpr_as_fun(checked), fwd, _Bwd(bwd, found), *args, **params
    )
    n = len(eqn.outvars)
    record.add_found(found, outs[n:])
    return outs[:n]


def _solve(p: Primitive, checks_result: bool) -> Callable[..., Any]:
    """The rule of an implicit function: errors of `solve` are auxiliary results."""

    def rule(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
        jaxprs = eqn.params["jaxprs"]
        if checks_result and not _finds_errors(eqn):
            return floating(record, eqn, args)
        solve, found = checked_jaxpr(jaxprs.solve, record.enabled)
        params = dict(eqn.params, jaxprs=jaxprs._replace(solve=solve))
        outs = p.bind(*args, **params)
        n = len(eqn.outvars)
        record.add_found(found, outs[n:])
        if checks_result:
            check_nan(record, eqn, outs[:n])
        return outs[:n]

    return rule


# Control flow


def _cond(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    branches = eqn.params["branches"]
    checked = [checked_jaxpr(b, record.enabled) for b in branches]
    founds = tuple([found for _, found in checked])
    union = _union(founds)
    if _is_unchanged(eqn, union):
        return bind(eqn, args)
    n = len(eqn.outvars)
    new = tuple([_returning(b, n, founds, i) for i, (b, _) in enumerate(checked)])
    outs = cond_p.bind(*args, **dict(eqn.params, branches=new))
    record.add_found(union, outs[n:])
    return outs[:n]


def _union(founds: Sequence[Found]) -> Found:
    """The errors of any of several programs; the codes of each one follow those of the one before."""
    avals: dict[ErrorEffect, Sequence[Any]] = {}
    for found in founds:
        for effect, own in found.groups(found.avals):
            known = avals.get(effect, own)
            avals[effect] = [_joined(a, b) for a, b in zip(known, own)]
    metadata = tuple([tree for found in founds for tree in found.metadata])
    return Found(tuple(avals), tuple([a for group in avals.values() for a in group]), metadata)


def _joined(a: Any, b: Any) -> Any:
    """The type of values that vary over the manual axes over which one of two types varies."""
    return a if b.vma <= a.vma else a.update(vma=a.vma | b.vma)


@cached_on_jaxpr
def _returning(branch: ClosedJaxpr, n: int, founds: tuple[Found, ...], i: int) -> ClosedJaxpr:
    """A branch that returns errors of all kinds that any of the branches finds."""
    union = _union(founds)
    start = sum(len(found.metadata) for found in founds[:i])

    def run(*args: Any) -> list[Any]:
        outs = core.jaxpr_as_fun(branch)(*args)
        own = Record(frozenset())
        own.metadata = [None] * start  # type: ignore[list-item]
        own.add_found(founds[i], outs[n:])
        found = []
        zeros = dict(union.groups(initial(union)))
        for effect, avals in union.groups(union.avals):
            group = own.found.get(effect, zeros[effect])
            found += [vary_over(x, a.vma) for x, a in zip(group, avals)]
        return [*outs[:n], *found]

    return staged(run, branch.in_avals, branch.jaxpr.debug_info)


def _merged(found: Found, old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """The errors of a loop, given those of earlier iterations and of one iteration."""
    return [
        x for (_, a), (_, b) in zip(found.groups(old), found.groups(new)) for x in first_of(a, b)
    ]


def _scan(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    """The errors are carried, after the predicate of a `bounded_scan` that stops."""
    params = eqn.params
    num_consts, num_carry = params["num_consts"], params["num_carry"]
    body, found = checked_jaxpr(params["jaxpr"], record.enabled)
    if _is_unchanged(eqn, found):
        return bind(eqn, args)
    if found.effects and is_any_of_batch(params["jaxpr"]):
        raise _batched_loop_error(eqn)
    k, first = len(found.avals), int(params.get("stops", False))
    limit, consts, pred, rest = split_at(args, len(args) - len(body.in_avals), num_consts, first)
    outs = eqn.primitive.bind(
        *limit, *consts, *pred, *initial(found), *rest, **dict(
            params, jaxpr=_scan_body(body, found, num_consts, first), num_carry=k + num_carry
        ),
    )  # fmt: skip
    before, errors, outs = split_at(outs, 2 * first, k)
    record.add_found(found, errors)
    return [*before, *outs]


@cached_on_jaxpr
def _scan_body(body: ClosedJaxpr, found: Found, num_consts: int, first: int) -> ClosedJaxpr:
    k = len(found.avals)

    def run(*args: Any) -> list[Any]:
        consts, pred, errors, rest = split_at(args, num_consts, first, k)
        outs = core.jaxpr_as_fun(body)(*consts, *pred, *rest)
        n = len(outs) - k
        return [*outs[:first], *_merged(found, errors, outs[n:]), *outs[first:n]]

    consts, pred, rest = split_at(body.in_avals, num_consts, first)
    info = body.jaxpr.debug_info.with_unknown_names()
    return staged(run, [*consts, *pred, *found.avals, *rest], info)


def _batched_loop_error(eqn: JaxprEqn) -> ValueError:
    return ValueError(
        "Checkify does not support batched while-loops (checkify-of-vmap-of-while), at "
        f"{source_info_util.summarize(eqn.source_info)}: elements of the batch that are finished "
        "still take part in the iterations of others. \nHint: if possible, move the vmap to the "
        "outer level to get vmap-of-checkify-of-while."
    )


def _while(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    params = eqn.params
    cond, in_cond = checked_jaxpr(params["cond_jaxpr"], record.enabled)
    body, in_body = checked_jaxpr(params["body_jaxpr"], record.enabled)
    both = _union([in_cond, in_body])
    if _is_unchanged(eqn, both):
        return bind(eqn, args)
    if both.effects and is_any_of_batch(params["cond_jaxpr"]):
        raise _batched_loop_error(eqn)
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    consts, carry = split_at(args, nc + nb)
    k = len(both.avals)
    founds = (in_cond, in_body)
    n = len(carry)
    body = _returning(body, n, founds, 1)
    if in_cond.effects:
        cond = _returning(cond, 1, founds, 0)
        pred, *errors = core.jaxpr_as_fun(cond)(*consts[:nc], *carry)
        new_cond, new_body = _carried_condition(cond, body, both, nc, nb)
        outs = while_p.bind(
            *consts, pred, *errors, *carry, **dict(
                params, cond_nconsts=0, cond_jaxpr=new_cond, body_nconsts=nc + nb, body_jaxpr=new_body
            ),
        )[1:]  # fmt: skip
    else:
        new_cond, new_body = _plain_condition(cond, body, both, nc, nb)
        outs = while_p.bind(
            *consts, *initial(both), *carry, **dict(
                params, cond_jaxpr=new_cond, body_jaxpr=new_body
            ),
        )  # fmt: skip
    record.add_found(both, outs[:k])
    return outs[k:]


@cached_on_jaxpr
def _plain_condition(
    cond: ClosedJaxpr, body: ClosedJaxpr, found: Found, nc: int, nb: int
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Condition and body of a loop in whose body errors are found."""
    k, n = len(found.avals), len(body.in_avals) - nb

    def run_cond(*args: Any) -> list[Any]:
        return core.jaxpr_as_fun(cond)(*args[:nc], *args[nc + k :])

    def run_body(*args: Any) -> list[Any]:
        consts, errors, carry = split_at(args, nb, k)
        outs = core.jaxpr_as_fun(body)(*consts, *carry)
        return [*_merged(found, errors, outs[n:]), *outs[:n]]

    consts, carry = split_at(cond.in_avals, nc)
    new_cond = staged(run_cond, [*consts, *found.avals, *carry])
    consts, carry = split_at(body.in_avals, nb)
    return new_cond, staged(run_body, [*consts, *found.avals, *carry])


@cached_on_jaxpr
def _carried_condition(
    cond: ClosedJaxpr, body: ClosedJaxpr, found: Found, nc: int, nb: int
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """The same, if errors are found in the condition: it is computed at the end of the body."""
    k, n = len(found.avals), len(body.in_avals) - nb

    def run_body(*args: Any) -> list[Any]:
        cond_consts, consts, _, errors, carry = split_at(args, nc, nb, 1, k)
        outs = core.jaxpr_as_fun(body)(*consts, *carry)
        errors = _merged(found, errors, outs[n:])
        pred, *in_cond = core.jaxpr_as_fun(cond)(*cond_consts, *outs[:n])
        return [pred, *_merged(found, errors, in_cond), *outs[:n]]

    consts, carry = split_at(body.in_avals, nb)
    avals = [cond.out_avals[0], *found.avals, *carry]
    new_body = staged(run_body, [*cond.in_avals[:nc], *consts, *avals])
    return staged(lambda pred, *_: [pred], avals), new_body


# shard_map: each device has an error of its own


def _shard_map(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    params = eqn.params
    mesh, manual = params["mesh"], params["newly_manual_axes"]
    axes = tuple([name for name in mesh.axis_names if name in manual])
    n = len(eqn.outvars)
    with context_of(params):
        checked, found = checked_jaxpr(pe.close_jaxpr(params["jaxpr"]), record.enabled)
        if not _is_unchanged(eqn, found):
            body = _stacking(checked, n, axes, params["check_vma"])
    if _is_unchanged(eqn, found):
        return bind(eqn, args)
    # The errors of all devices, along a new first dimension. All devices have the same constants.
    specs = (PartitionSpec(axes),) * len(found.avals)
    of_consts = (PartitionSpec(),) * len(body.consts)
    new = dict(
        params, jaxpr=pe.convert_constvars_jaxpr(body.jaxpr),
        in_specs=(*of_consts, *params["in_specs"]), out_specs=(*params["out_specs"], *specs),
    )  # fmt: skip
    outs = shard_map_p.bind(*body.consts, *args, **new)
    record.add_found(found, outs[n:])
    return outs[:n]


@cached_on_jaxpr
def _stacking(checked: ClosedJaxpr, n: int, axes: tuple[Any, ...], check_vma: bool) -> ClosedJaxpr:
    def run(*args: Any) -> list[Any]:
        outs = core.jaxpr_as_fun(checked)(*args)
        errors = [lax.broadcast(x, (1,)) for x in outs[n:]]
        if check_vma:
            errors = [vary_over(x, frozenset(axes)) for x in errors]
        return [*outs[:n], *errors]

    return staged(run, checked.in_avals, checked.jaxpr.debug_info)


for _primitive, _rule in [
    (jit_p, _jit),
    (remat_p, _remat),
    (call_p, _inlined("call_jaxpr")),
    (closed_call_p, _inlined("call_jaxpr")),
    (composite_p, _inlined_with_check("jaxpr")),
    (custom_vmap_p, _inlined_with_check("call")),
    (remat_opt_p, _inlined("fwd_jaxpr")),
    (run_state_p, _run_state),
    (custom_jvp_call_p, _custom_jvp),
    (custom_vjp_call_p, _custom_vjp),
    (custom_root_p, _solve(custom_root_p, False)),
    (linear_solve_p, _solve(linear_solve_p, True)),
    (cond_p, _cond),
    (scan_p, _scan),
    (bounded_scan_p, _scan),
    (while_p, _while),
    (shard_map_p, _shard_map),
]:
    _primitive.error_check = _rule
