"""Discharge rules of the primitives with jaxpr parameters.

The values of references that a jaxpr writes become additional results, or loop carries. Each rule
takes two extra parameters: `lower` says that the result is compiled and not differentiated any
more, and `aliases` has for each operand the position of the first operand that is identical to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import ad_util, core
from jax._src.ad_checkpoint import remat_p
from jax._src.ad_util import SymbolicZero
from jax._src.core import ClosedJaxpr, Primitive, typeof
from jax._src.custom_batching import custom_vmap_p
from jax._src.custom_derivatives.jvp import custom_jvp_call_p
from jax._src.custom_derivatives.remat_opt import remat_opt_p
from jax._src.custom_derivatives.vjp import custom_vjp_call_p
from jax._src.interpreters import partial_eval as pe
from jax._src.jit.primitive import jit_p, with_jaxpr
from jax._src.lax import lax
from jax._src.lax.composite import composite_p
from jax._src.lax.control_flow.common import hoist, split_at
from jax._src.lax.control_flow.conditionals import cond_p
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.lax.control_flow.solves import custom_root_p, linear_solve_p, solve_operands
from jax._src.lax.control_flow.while_primitive import while_p
from jax._src.state.discharge import (
    check_finals,
    discharge_written,
    discharged_jaxpr,
    eval_discharged,
    written,
)
from jax._src.state.primitives import freeze, new_ref
from jax._src.transforms.linear_call import linear_call_p


def _new_values(n: int, positions: Sequence[int], values: Sequence[Any]) -> list[Any]:
    new: list[Any] = [None] * n
    for i, x in zip(positions, values):
        new[i] = x
    return new


def _jit(should, in_avals, out_avals, *args, lower, aliases, jaxpr, **params):
    new, finals = discharge_written(jaxpr, should, lower)
    n = len(out_avals)
    kept = [*range(n), *[None] * len(finals)]
    outs = jit_p.bind(*args, **with_jaxpr(params, new, range(len(args)), kept))
    return _new_values(len(args), finals, outs[n:]), outs[:n]


def _remat(should, in_avals, out_avals, *args, lower, aliases, jaxpr, **params):
    new, finals = discharge_written(jaxpr, should, lower)
    outs = remat_p.bind(*args, jaxpr=new, **params)
    n = len(out_avals)
    return _new_values(len(args), finals, outs[n:]), outs[:n]


def _composite(should, in_avals, out_avals, *args, lower, aliases, jaxpr, **params):
    if any(should):
        raise NotImplementedError(
            f"composite op '{params['name']}': mutable array references cannot be arguments"
        )
    new, _ = discharge_written(jaxpr, should, lower)
    return (None,) * len(args), composite_p.bind(*args, jaxpr=new, **params)


def _inlined(jaxpr_name: str):
    """Return a rule that inlines the function: its custom rules are not needed for lowering."""

    def rule(should, args, params):
        closed = params[jaxpr_name]
        outs, env = eval_discharged(closed.jaxpr, closed.consts, args, should, True)
        found = sorted(i for i in written(closed) if should[i])
        return _new_values(len(args), found, [env[closed.jaxpr.invars[i]] for i in found]), outs

    return rule


def _custom(p: Primitive, jaxpr_name: str, with_refs: Callable | None = None):
    """Return the rule of a primitive for functions with custom rules.

    `with_refs(funs, refs, symbolic_zeros)` converts the functions that `p` is bound to: the new
    ones take arrays for the arguments at positions `refs`, which are references, and return the
    final values of these as additional results.
    """
    inlined = _inlined(jaxpr_name)

    def rule(should, in_avals, out_avals, *args, lower, aliases, **params):
        if lower:
            return inlined(should, args, params)
        refs = tuple([i for i, s in enumerate(should) if s])
        if refs and with_refs is None:
            raise NotImplementedError(
                f"a function with custom rules ({p.name}) takes a mutable array reference that is "
                "differentiated: pass it the value of the reference, and write the result to the reference."
            )
        bind_params = dict(p.get_bind_params(params))
        funs = bind_params.pop("subfuns", ())
        if refs:
            funs = with_refs(funs, refs, bind_params["symbolic_zeros"])
        outs = p.bind(*funs, *args, **bind_params)
        n = len(out_avals)
        return _new_values(len(args), refs, outs[n:]), outs[:n]

    return rule


class _OnRefs:
    """Wraps a function of references: takes arrays instead, and also returns their final values."""

    def __init__(self, fun: Callable, refs: Sequence[int]):
        self.fun, self.refs = fun, refs

    def __getattr__(self, name):
        return getattr(self.__dict__["fun"], name)

    def call(self, args: Sequence[Any], refs: Sequence[int]) -> tuple[list[Any], list[Any]]:
        args = list(args)
        for i in refs:
            x = args[i]
            args[i] = new_ref(ad_util.zeros_like_aval(x.aval) if type(x) is SymbolicZero else x)
        outs = list(self.fun(*args))
        return outs, [freeze(args[i]) for i in refs]

    def __call__(self, *args):
        outs, finals = self.call(args, self.refs)
        return [*outs, *finals]


class _JvpOnRefs(_OnRefs):
    """Like `_OnRefs`, for a jvp rule, whose arguments are primals and then tangents."""

    def __call__(self, *args):
        n, k = len(args) // 2, len(self.refs)
        outs, finals = self.call(args, [*self.refs, *[n + i for i in self.refs]])
        m = len(outs) // 2
        return [*outs[:m], *finals[:k], *outs[m:], *finals[k:]]


class _FwdOnRefs(_OnRefs):
    """Like `_OnRefs`, for a forward rule; its residuals must not be references."""

    def __init__(self, fun: Callable, refs: Sequence[int], symbolic_zeros: bool):
        super().__init__(fun, refs)
        self.symbolic_zeros = symbolic_zeros

    def __call__(self, *args):
        # With symbolic zeros, one flag for each operand comes before the operands.
        first = len(args) // 2 if self.symbolic_zeros else 0
        outs, finals = self.call(args, [first + i for i in self.refs])
        for x in outs:
            if type(typeof(x)) is core.AbstractRef:
                raise NotImplementedError(
                    f"the forward rule {self.fwd_name} of a custom_vjp function returns a mutable array "
                    f"reference of type {typeof(x)} as a residual, though the reference is differentiated: "
                    "make it with jax.new_ref(..., kind='no_grad_no_remat'), or outside of the "
                    "differentiated function."
                )
        return [*outs, *finals]


class _BwdOnRefs(_OnRefs):
    """Wraps a backward rule: it also takes cotangents of the references' final values.

    The writes of a custom function have no derivative, so these are returned as the cotangents of
    the initial values.
    """

    def __call__(self, trees, *args):
        n = len(args) - len(self.refs)
        cts = list(self.fun(trees, *args[:n]))
        for i, ct in zip(self.refs, args[n:]):
            cts[i] = ct
        return cts


def _custom_jvp_with_refs(funs, refs, symbolic_zeros):
    fun, jvp = funs
    return _OnRefs(fun, refs), _JvpOnRefs(jvp, refs)


def _custom_vjp_with_refs(funs, refs, symbolic_zeros):
    fun, fwd, bwd = funs
    fwd = _FwdOnRefs(fwd, refs, symbolic_zeros)
    return _OnRefs(fun, refs), fwd, _BwdOnRefs(bwd, refs)


def _remat_opt(should, in_avals, out_avals, *args, lower, aliases, **params):
    closed = params["fwd_jaxpr"]
    outs, env = eval_discharged(closed.jaxpr, closed.consts, args, should, lower)
    found = sorted(i for i in written(closed) if should[i])
    return _new_values(len(args), found, [env[closed.jaxpr.invars[i]] for i in found]), outs


def _read_only(what: str, closed: ClosedJaxpr, should: Sequence[bool]) -> ClosedJaxpr:
    """Discharge a jaxpr that may be differentiated, and so must not write to its references."""
    which = [*should, *[False] * (len(closed.in_avals) - len(should))]
    new, finals = discharge_written(closed, which, False)
    if finals:
        raise NotImplementedError(
            f"a function given to {what} writes to a mutable array reference that it closes over, which is "
            "differentiated: it can only read it, and write to references that it makes."
        )
    return new


def _solve(p: Primitive):
    """Return the rule of `custom_root` or `custom_linear_solve`, which close over references."""
    run_solve = _inlined("solve")

    def rule(should, in_avals, out_avals, *args, lower, aliases, const_lengths, jaxprs):
        if lower:
            used = solve_operands(const_lengths, len(args))
            new, outs = run_solve(
                [should[i] for i in used], [args[i] for i in used], jaxprs._asdict()
            )
            return _new_values(len(args), used, new), outs
        parts = split_at(should, *const_lengths)
        new = type(jaxprs)(
            *[
                None if j is None else _read_only(f"lax.{p.name}", j, part)
                for j, part in zip(jaxprs, parts)
            ]
        )
        outs = p.bind(*args, const_lengths=const_lengths, jaxprs=new)
        return (None,) * len(args), outs

    return rule


def _linear_call(should, in_avals, out_avals, *args, lower, aliases, **params):
    if lower:
        return _inlined("callee")(should, args, params)
    callee, thunk = params["callee"], params["transpose_thunk"]
    consts = should[: params["num_callee_consts"] + params["num_res"]]
    arrays = lambda closed: _read_only("linear_call", closed, consts)
    params.update(callee=arrays(callee), transpose_thunk=lambda: arrays(thunk()))
    return (None,) * len(args), linear_call_p.bind(*args, **params)


def _fills_or_keeps(branch: ClosedJaxpr) -> bool:
    """Return whether the results of a branch are its operands, or arrays of one number."""
    return not branch.effects and all(
        [
            e.primitive is lax.broadcast_in_dim_p and type(e.invars[0]) is core.Literal
            for e in branch.jaxpr.eqns
        ]
    )


def _cond(should, in_avals, out_avals, index, *ops, lower, aliases, branches, **params):
    which = tuple(should[1:])
    finals = sorted({i for b in branches for i in written(b) if which[i]})
    new = tuple(discharged_jaxpr(b, which, tuple(finals), lower) for b in branches)
    for branch, discharged in zip(branches, new):
        check_finals(branch, discharged, finals)
    if lower and len(new) == 2 and not out_avals and all(map(_fills_or_keeps, new)):
        # As a selection, it is a part of what reads the reference next.
        cases = [core.eval_jaxpr(b.jaxpr, b.consts, *ops) for b in new]
        outs = [lax.select_n(lax.gt(index, lax.full_like(index, 0)), *xs) for xs in zip(*cases)]
    else:
        outs = cond_p.bind(index, *ops, branches=new, **params)
    n = len(out_avals)
    return [None, *_new_values(len(ops), finals, outs[n:])], outs[:n]


def _scan(
    should, in_avals, out_avals, *args, lower, aliases, jaxpr, num_consts, num_carry, **params
):
    which = tuple(should)
    body, finals = discharge_written(jaxpr, which, lower, keeps_types=True)
    as_carry = [i for i in finals if i < num_consts]
    stays = [i for i in range(num_consts) if i not in as_carry]
    start = num_consts + num_carry
    n = len(jaxpr.out_avals)
    order_in = [*stays, *as_carry, *range(num_consts, len(args))]
    # Written consts become carries. Results of the body: carry, stacked results, final values.
    carry_finals = range(n, n + len(as_carry))
    other_finals = range(n + len(as_carry), n + len(finals))
    order_out = [*carry_finals, *range(n), *other_finals]
    permuted = body.jaxpr.replace(
        invars=[body.jaxpr.invars[i] for i in order_in],
        outvars=[body.jaxpr.outvars[i] for i in order_out],
        debug_info=body.jaxpr.debug_info.with_unknown_names(),
    )
    outs = scan_p.bind(
        *[args[i] for i in order_in],
        jaxpr=ClosedJaxpr(permuted, body.consts),
        num_consts=len(stays),
        num_carry=len(as_carry) + num_carry,
        **params,
    )
    carried, results, stacked = split_at(outs, len(as_carry), n)
    new = _new_values(len(args), as_carry, carried)
    for i, x in zip([i for i in finals if i >= start], stacked):
        new[i] = x
    return new, results


def _while(
    should, in_avals, out_avals, *args, lower, aliases, cond_jaxpr, body_jaxpr, cond_nconsts,
    body_nconsts, **bound,
):  # fmt: skip
    num_consts = cond_nconsts + body_nconsts
    cond_which = (*should[:cond_nconsts], *[False] * len(out_avals))
    body_which = (*should[cond_nconsts:num_consts], *[False] * len(out_avals))
    cond, cond_finals = discharge_written(cond_jaxpr, cond_which, lower, keeps_types=True)
    body, body_finals = discharge_written(body_jaxpr, body_which, lower, keeps_types=True)
    # Operands that change, each listed once; `slot[i]` is the index of operand i in `changing`.
    changing = sorted(
        {aliases[i] for i in [*cond_finals, *[cond_nconsts + i for i in body_finals]]}
    )
    slot = {i: changing.index(aliases[i]) for i in range(num_consts) if aliases[i] in changing}
    fixed = [i for i in range(num_consts) if i not in slot]
    k = len(changing)

    def consts_of(start, stop, known, state):
        known = dict(zip(fixed, known))
        return [state[slot[i]] if i in slot else known[i] for i in range(start, stop)]

    def run_cond(known, state, carry):
        consts = consts_of(0, cond_nconsts, known, state)
        (pred,), changed = split_at(core.eval_jaxpr(cond.jaxpr, cond.consts, *consts, *carry), 1)
        state = list(state)
        for i, x in zip(cond_finals, changed):
            state[slot[i]] = x
        return pred, state

    def run_body(known, state, carry):
        consts = consts_of(cond_nconsts, num_consts, known, state)
        outs = core.eval_jaxpr(body.jaxpr, body.consts, *consts, *carry)
        carry, changed = split_at(outs, len(out_avals))
        state = list(state)
        for i, x in zip(body_finals, changed):
            state[slot[cond_nconsts + i]] = x
        return state, carry

    known = [args[i] for i in fixed]
    state = [args[i] for i in changing]
    carry = list(args[num_consts:])
    nf = len(fixed)
    if not cond_finals:

        def new_cond(*xs):
            known, state, carry = split_at(xs, nf, k)
            return [run_cond(known, state, carry)[0]]

        def new_body(*xs):
            known, state, carry = split_at(xs, nf, k)
            state, carry = run_body(known, state, carry)
            return [*state, *carry]

        init = [*state, *carry]
    else:  # the condition writes, so compute it before the loop and at the end of the body

        def new_cond(*xs):
            return [xs[nf]]

        def new_body(*xs):
            known, _, state, carry = split_at(xs, nf, 1, k)
            state, carry = run_body(known, state, carry)
            pred, state = run_cond(known, state, carry)
            return [pred, *state, *carry]

        pred, state = run_cond(known, state, carry)
        init = [pred, *state, *carry]
    avals = [typeof(x) for x in (*known, *init)]
    # The carry has the avals of the jaxpr: the initial values may be weakly typed.
    avals[len(avals) - len(carry) :] = body_jaxpr.in_avals[body_nconsts:]
    cj, _, cc = pe.trace_to_jaxpr_dynamic(new_cond, avals)
    bj, _, bc = pe.trace_to_jaxpr_dynamic(new_body, avals)
    outs = while_p.bind(
        *cc, *known, *bc, *known, *init,
        cond_nconsts=len(cc) + nf, cond_jaxpr=hoist(cj),
        body_nconsts=len(bc) + nf, body_jaxpr=hoist(bj), **bound,
    )  # fmt: skip
    rest = outs[1:] if cond_finals else outs
    new = _new_values(len(args), changing, rest[:k])
    for i, s in slot.items():
        new[i] = rest[s]
    return new, rest[k:]


for _primitive, _rule in [
    (jit_p, _jit),
    (remat_p, _remat),
    (composite_p, _composite),
    (custom_jvp_call_p, _custom(custom_jvp_call_p, "call_jaxpr", _custom_jvp_with_refs)),
    (custom_vjp_call_p, _custom(custom_vjp_call_p, "call_jaxpr", _custom_vjp_with_refs)),
    (remat_opt_p, _remat_opt),
    (custom_vmap_p, _custom(custom_vmap_p, "call")),
    (cond_p, _cond),
    (scan_p, _scan),
    (while_p, _while),
    (custom_root_p, _solve(custom_root_p)),
    (linear_solve_p, _solve(linear_solve_p)),
    (linear_call_p, _linear_call),
]:
    _primitive.discharge = _rule
    _primitive.ref_boundary = True
custom_jvp_call_p.ref_opaque = True
custom_vjp_call_p.ref_opaque = True
