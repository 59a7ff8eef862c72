"""The `scan` primitive and its rules.

The operands are (consts, initial carry, xs), and the results (final carry, ys). The body jaxpr
takes (consts, carry, one slice of each of xs) and returns (carry, one slice of each of ys).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jax._src import ad_util, core, dtypes, source_info_util, traceback_util
from jax._src.ad_util import Zero
from jax._src.core import ClosedJaxpr, Primitive, no_effects, typeof
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.interpreters.split_rules import (
    Flow,
    JaxprSplitRules,
    TwoEqns,
    not_results,
    result_positions,
    stored_outs,
)
from jax._src.interpreters.splitting import (
    has_any_effect,
    inlined_eqns,
    split_by_need,
    split_by_unknown,
    whole_if_used,
    with_eqns,
)
from jax._src.lax import lax, slicing
from jax._src.lax.control_flow.common import (
    def_compiled_impl,
    split_at,
    spread_marks,
)
from jax._src.lax.control_flow.scan_primal import jvp_loop, linearize_loop
from jax._src.lax.control_flow.while_primitive import stage_while
from jax._src.memory import MemorySpace

traceback_util.register_exclusion(__file__)

scan_p = Primitive("scan", multiple_results=True)


def _scan_one_by_one(*args, **params):
    return _scan_impl(*args, **dict(params, unroll=params["length"]))


def_compiled_impl(scan_p, "jaxpr", _scan_one_by_one)


def _scan_types(*avals, jaxpr, length, num_carry, **_):
    out = jaxpr.out_avals
    carry, ys = out[:num_carry], out[num_carry:]
    effects = frozenset(e for e in jaxpr.effects)
    return [*carry, *[core.unmapped_aval(length, 0, a) for a in ys]], effects


scan_p.def_effectful_abstract_eval(_scan_types)


def _hoist(args, params):
    closed, tracers = pe.hoist_tracers(params["jaxpr"])
    if tracers:
        args = (*tracers, *args)
        params = dict(params, jaxpr=closed, num_consts=params["num_consts"] + len(tracers))
    return args, params


pe.def_hoisting(scan_p, _hoist)


def _scan_typecheck(_, *atoms, jaxpr, length, num_consts, num_carry, **params):
    avals = [a.aval for a in atoms]
    consts, carry, xs = split_at(avals, num_consts, num_carry)
    want_consts, want_carry, want_xs = split_at(jaxpr.in_avals, num_consts, num_carry)
    for name, want, got in (
        ("constant", want_consts, consts),
        ("carry", want_carry, carry),
        ("sequence", [core.unmapped_aval(length, 0, a) for a in want_xs], xs),
    ):
        if len(want) != len(got) or not all(core.typecompat(a, b) for a, b in zip(want, got)):
            raise core.JaxprTypeError(f"scan jaxpr takes {name} inputs {want}, called with {got}")
    for a, b in zip(want_carry, jaxpr.out_avals):
        if not core.typematch(a, b):
            raise core.JaxprTypeError(
                f"scan jaxpr carry input and output types differ: {a} and {b}"
            )
    return _scan_types(*avals, jaxpr=jaxpr, length=length, num_carry=num_carry)


scan_p.typecheck = _scan_typecheck


def _scan_jvp(primals, tangents, *, reverse, length, jaxpr, num_consts, num_carry, **params):
    run = functools.partial(scan_p.bind, reverse=reverse, length=length, **params)
    return jvp_loop(jaxpr, primals, tangents, num_consts, num_carry, run)


scan_p.jvp = _scan_jvp


def _scan_linearize(primals, tangents, *, reverse, length, jaxpr, num_consts, num_carry, **params):
    run = functools.partial(scan_p.bind, reverse=reverse, length=length, **params)
    static = (reverse, length, *params.items())
    return linearize_loop(
        ad.linearize_jaxpr, jaxpr, primals, tangents, num_consts, num_carry, run, run, static
    )


scan_p.linearize = _scan_linearize


def _scan_transpose(
    cts, *args, reverse, length, jaxpr, num_consts, num_carry, unroll, _split_transpose
):
    linear = [ad.is_undefined_primal(x) for x in args]
    consts_lin, carry_lin, xs_lin = split_at(linear, num_consts, num_carry)
    ct_carry, ct_ys = cts[:num_carry], cts[num_carry:]
    # A known initial carry may become linear in the loop; its value, a zero tangent, is then
    # unused. Carries that stay known are computed first.
    flows = scan_p.split.dependent_carries(linear, jaxpr, num_consts, num_carry)
    if not all(flows):
        return _scan_transpose_mixed(
            cts, args, linear, flows, reverse, length, jaxpr, num_consts, num_carry, unroll,
            _split_transpose,
        )  # fmt: skip
    ct_carry = [ad.instantiate_zeros(ct) for ct in ct_carry]
    ys_nonzero = tuple([type(ct) is not Zero for ct in ct_ys])
    known_consts = [x for x, lin in zip(args[:num_consts], consts_lin) if not lin]
    known_xs = [x for x, lin in zip(args[num_consts + num_carry :], xs_lin) if not lin]
    lin_const_avals = [x.aval for x, lin in zip(args[:num_consts], consts_lin) if lin]
    body, nz_xs, used = transposed_body(
        jaxpr, tuple(consts_lin), num_carry, tuple(xs_lin), ys_nonzero
    )
    known_consts = [x for x, u in zip(known_consts, used) if u]
    known_xs = [x for x, u in zip(known_xs, used[len(used) - len(known_xs) :]) if u]
    ct_consts = [ad_util.zeros_like_aval(a.to_ct_aval()) for a in lin_const_avals]
    ct_ys = [ct for ct in ct_ys if type(ct) is not Zero]
    run = _transposed_in_two if _split_transpose else _transposed_in_one
    outs = run(
        body, known_consts, ct_consts, ct_carry, [*ct_ys, *known_xs],
        dict(reverse=not reverse, length=length, unroll=unroll, _split_transpose=_split_transpose),
    )  # fmt: skip
    ct_consts, ct_init, ct_xs = split_at(outs, len(ct_consts), num_carry)
    ct_consts, ct_xs = iter(ct_consts), iter(ct_xs)
    nz_iter = iter(nz_xs)
    xs_args = args[num_consts + num_carry :]
    return [
        *[next(ct_consts) if lin else None for lin in consts_lin],
        *[ct if lin else None for ct, lin in zip(ct_init, carry_lin)],
        *[
            (next(ct_xs) if next(nz_iter) else Zero(x.aval.to_ct_aval())) if lin else None
            for x, lin in zip(xs_args, xs_lin)
        ],
    ]


scan_p.transpose = _scan_transpose


def _transposed_in_one(body, consts, ct_consts, ct_carry, xs, params):
    return scan_p.bind(
        *consts, *ct_consts, *ct_carry, *xs, jaxpr=body, num_consts=len(consts),
        num_carry=len(ct_consts) + len(ct_carry), **params,
    )  # fmt: skip


def _transposed_in_two(body, consts, ct_consts, ct_carry, xs, params):
    """Run one loop for the carry's cotangent, and another for what does not feed into it."""
    first, rest = _split_body(body, len(consts), len(ct_consts), len(ct_carry))
    if rest is None:
        return _transposed_in_one(body, consts, ct_consts, ct_carry, xs, params)
    outs = scan_p.bind(
        *consts,
        *ct_carry,
        *xs,
        jaxpr=first,
        num_consts=len(consts),
        num_carry=len(ct_carry),
        **params,
    )
    ct_carry, stacked = outs[: len(ct_carry)], outs[len(ct_carry) :]
    outs = scan_p.bind(
        *consts, *ct_consts, *stacked, *xs, jaxpr=rest, num_consts=len(consts),
        num_carry=len(ct_consts), **params,
    )  # fmt: skip
    return [*outs[: len(ct_consts)], *ct_carry, *outs[len(ct_consts) :]]


@core.cached_on_jaxpr
def _split_body(body: ClosedJaxpr, num_consts: int, num_sums: int, num_carry: int):
    """Split the body of a transposed loop: what the carry's cotangent needs, and the rest.

    Returns:
      A body (consts, carry, slices) -> (carry, values for the rest), and a body (consts, sums,
      these values, slices) -> (sums, results), or None if nothing is left.
    """
    jaxpr = body.jaxpr
    consts, sums, carry, xs = split_at(jaxpr.invars, num_consts, num_sums, num_carry)
    new_sums, new_carry, results = split_at(jaxpr.outvars, num_sums, num_carry)
    live = {v for v in new_carry if type(v) is core.Var}
    first, rest = split_by_need(jaxpr.eqns, live, whole_if_used)
    if not rest or not live.isdisjoint(sums):
        return body, None
    made = {*carry, *[v for eqn in first for v in eqn.outvars]}
    wanted = [*[v for eqn in rest for v in eqn.invars], *new_sums, *results]
    stacked = list(dict.fromkeys([v for v in wanted if type(v) is core.Var and v in made]))
    info = jaxpr.debug_info.with_unknown_names()
    one = jaxpr.replace(
        invars=[*consts, *carry, *xs], outvars=[*new_carry, *stacked], eqns=first, debug_info=info,
        effects=core.effects_of_eqns(jaxpr.constvars, [*consts, *carry, *xs], first),
    )  # fmt: skip
    two = jaxpr.replace(
        invars=[*consts, *sums, *stacked, *xs], outvars=[*new_sums, *results], eqns=rest,
        debug_info=info, effects=no_effects,
    )  # fmt: skip
    return ClosedJaxpr(one, body.consts), ClosedJaxpr(two, body.consts)


@core.cached_on_jaxpr
def transposed_body(
    jaxpr: ClosedJaxpr, consts_lin: tuple, num_carry: int, xs_lin: tuple, ys_nonzero: tuple
):
    """Build the body of the transposed loop.

    It takes (known consts, accumulated cotangents of linear consts, cotangent of the carry,
    cotangents of ys, known slices) and returns (cotangents of consts, of the carry, of linear
    slices).

    Returns:
      The body, which linear slices have a cotangent, and which of the arguments the body uses.
    """
    num_consts = len(consts_lin)
    nk, nl = num_consts - sum(consts_lin), sum(consts_lin)
    n_ys = sum(ys_nonzero)
    linear = (*consts_lin, *(True,) * num_carry, *xs_lin)
    nz_xs: list[bool] = []
    in_avals = jaxpr.in_avals
    out_avals = jaxpr.out_avals
    lin_xs = [a for a, lin in zip(in_avals[num_consts + num_carry :], xs_lin) if lin]

    def run(*args):
        known_consts, ct_consts, ct_carry, ct_ys, known_xs = split_at(args, nk, nl, num_carry, n_ys)
        kc, kx, cy = iter(known_consts), iter(known_xs), iter(ct_ys)
        primals = [
            ad.UndefinedPrimal(a) if lin else next(kc) if i < num_consts else next(kx)
            for i, (a, lin) in enumerate(zip(in_avals, linear))
        ]
        cts = [
            *ct_carry,
            *[
                next(cy) if nz else Zero(a.to_ct_aval())
                for a, nz in zip(out_avals[num_carry:], ys_nonzero)
            ],
        ]
        cts_in = ad.backward_pass(jaxpr.jaxpr, False, jaxpr.consts, primals, cts)
        cts_in = [ct for ct, lin in zip(cts_in, linear) if lin]
        new_consts, new_carry, new_xs = split_at(cts_in, nl, num_carry)
        new_consts = [
            ad.instantiate_zeros(ad.add_cotangents(a, b)) for a, b in zip(ct_consts, new_consts)
        ]
        nz_xs[:] = [type(ct) is not Zero for ct in new_xs]
        return [
            *new_consts,
            *[_as_strong(ad.instantiate_zeros(ct), a) for ct, a in zip(new_carry, out_avals)],
            *[_as_strong(ct, a) for ct, a in zip(new_xs, lin_xs) if type(ct) is not Zero],
        ]

    consts_avals, carry_avals, xs_avals = split_at(in_avals, num_consts, num_carry)
    avals = [
        *[a for a, lin in zip(consts_avals, consts_lin) if not lin],
        *[a.to_ct_aval() for a, lin in zip(consts_avals, consts_lin) if lin],
        *[a.to_ct_aval() for a in carry_avals],
        *[a.to_ct_aval() for a, nz in zip(out_avals[num_carry:], ys_nonzero) if nz],
        *[a for a, lin in zip(xs_avals, xs_lin) if not lin],
    ]
    new, _, consts = pe.trace_to_jaxpr_dynamic(run, avals, jaxpr.debug_info.with_unknown_names())
    # Known values may be unused if some results have no cotangents.
    num_kx = len(xs_lin) - sum(xs_lin)
    kept = [False] * nk + [True] * (len(avals) - nk - num_kx) + [False] * num_kx
    new, used = pe.dce_jaxpr(new, [True] * len(new.outvars), kept)
    return ClosedJaxpr(new, consts), tuple(nz_xs), used


def _as_strong(ct: Any, aval: Any) -> Any:
    """Make a cotangent strongly typed, if `aval` is. The body may make a weakly typed carry strong."""
    is_weak = lambda a: getattr(a, "weak_type", False)  # high types are not
    if is_weak(typeof(ct)) and not is_weak(aval):
        return lax.convert_type(ct, weak_type=False)
    return ct


def _scan_transpose_mixed(
    cts,
    args,
    linear,
    flows,
    reverse,
    length,
    jaxpr,
    num_consts,
    num_carry,
    unroll,
    _split_transpose,
):
    """Transpose a loop with known carries: run these first, and stack their history."""
    carry_lin = flows
    xs_lin = linear[num_consts + num_carry :]
    used = [not lin for lin in carry_lin] + [False] * (len(jaxpr.out_avals) - num_carry)
    known_body, used_ins = pe.dce_jaxpr(
        jaxpr.jaxpr, used,
        [False] * num_consts + [not lin for lin in carry_lin] + [False] * len(xs_lin),
    )  # fmt: skip
    n_known = sum(not lin for lin in carry_lin)
    kc = [x for x, u in zip(args[:num_consts], used_ins[:num_consts]) if u]
    k_init = [x for x, lin in zip(args[num_consts : num_consts + num_carry], carry_lin) if not lin]
    kx = [
        x for x, u in zip(args[num_consts + num_carry :], used_ins[num_consts + num_carry :]) if u
    ]
    carry_vars = known_body.invars[len(kc) : len(kc) + n_known]
    stacking = known_body.replace(outvars=[*known_body.outvars, *carry_vars])
    outs = scan_p.bind(
        *kc, *k_init, *kx, reverse=reverse, length=length, jaxpr=ClosedJaxpr(stacking, jaxpr.consts),
        num_consts=len(kc), num_carry=n_known, unroll=unroll, _split_transpose=False,
    )  # fmt: skip
    history = outs[n_known:]
    # The same loop, with the known carries as xs.
    invars = jaxpr.jaxpr.invars
    c_vars, v_vars, x_vars = split_at(invars, num_consts, num_carry)
    outvars = [
        v for v, lin in zip(jaxpr.jaxpr.outvars[:num_carry], carry_lin) if lin
    ] + jaxpr.jaxpr.outvars[num_carry:]
    new = jaxpr.jaxpr.replace(
        invars=[
            *c_vars,
            *[v for v, lin in zip(v_vars, carry_lin) if lin],
            *[v for v, lin in zip(v_vars, carry_lin) if not lin],
            *x_vars,
        ],
        outvars=outvars,
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )
    new_args = [
        *args[:num_consts],
        *[x for x, lin in zip(args[num_consts : num_consts + num_carry], carry_lin) if lin],
        *history,
        *args[num_consts + num_carry :],
    ]
    new_cts = [ct for ct, lin in zip(cts[:num_carry], carry_lin) if lin] + list(cts[num_carry:])
    cts_in = _scan_transpose(
        new_cts, *new_args, reverse=reverse, length=length, jaxpr=ClosedJaxpr(new, jaxpr.consts),
        num_consts=num_consts, num_carry=num_carry - n_known, unroll=unroll,
        _split_transpose=_split_transpose,
    )  # fmt: skip
    ct_consts, ct_carry, _, ct_xs = split_at(cts_in, num_consts, num_carry - n_known, n_known)
    ct_carry = iter(ct_carry)
    return [*ct_consts, *[next(ct_carry) if lin else None for lin in carry_lin], *ct_xs]


def _scan_batch(axis_data, args, dims, *, reverse, length, jaxpr, num_consts, num_carry, **params):
    batched = [d is not None for d in dims]
    const_b, init_b, xs_b = split_at(batched, num_consts, num_carry)
    no_ys = [False] * (len(jaxpr.out_avals) - num_carry)
    carry_b, _ = spread_marks(
        init_b,
        lambda b: batching.batch_jaxpr(jaxpr, axis_data, (*const_b, *b, *xs_b), (*b, *no_ys))[1],
    )
    body, out_b = batching.batch_jaxpr(
        jaxpr, axis_data, (*const_b, *carry_b, *xs_b), (*carry_b, *no_ys)
    )
    consts, init, xs = split_at(args, num_consts, num_carry)
    const_d, init_d, xs_d = split_at(dims, num_consts, num_carry)
    size = axis_data.size
    consts = [batching.moveaxis(x, d, 0) if d is not None else x for x, d in zip(consts, const_d)]
    init = [
        batching.bdim_at_front(x, d, size) if b else x for x, d, b in zip(init, init_d, carry_b)
    ]
    xs = [batching.moveaxis(x, d, 1) if d is not None else x for x, d in zip(xs, xs_d)]
    outs = scan_p.bind(
        *consts, *init, *xs, reverse=reverse, length=length, jaxpr=body, num_consts=num_consts,
        num_carry=num_carry, **params,
    )  # fmt: skip
    out_dims = [0 if b else None for b in carry_b] + [1 if b else None for b in out_b[num_carry:]]
    return outs, out_dims


scan_p.axis_batch = _scan_batch


class _ScanSplitRules(JaxprSplitRules):
    def flow(self, params):
        jaxpr, num_consts, num_carry = params["jaxpr"], params["num_consts"], params["num_carry"]
        n, m = len(jaxpr.in_avals), len(jaxpr.out_avals)
        carried = [(i, num_consts + i) for i in range(num_carry)]
        return Flow((jaxpr,), m, (range(n),), (range(m),), carried)

    def with_jaxprs(self, params, jaxprs, ins, outs):
        num_consts = sum(i < params["num_consts"] for i in ins)
        num_carry = sum(i < params["num_carry"] for i in outs)
        return dict(params, jaxpr=jaxprs[0], num_consts=num_consts, num_carry=num_carry)

    def dependent_carries(self, marked, jaxpr, num_consts, num_carry):
        """Return which carries depend on marked operands after any number of iterations."""
        params = dict(jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry)
        return self.dependence(marked, params)[:num_carry]

    def in_two(self, eqn, plan):
        num_consts, num_carry = eqn.params["num_consts"], eqn.params["num_carry"]
        parts = _scan_parts(eqn.params["jaxpr"], plan, num_consts, num_carry)
        stacked_avals = [core.unmapped_aval(eqn.params["length"], 0, a) for a in parts.avals]
        stacked, first_outs, again_outs = stored_outs(eqn, stacked_avals, parts.results)
        consts, rest = eqn.invars[:num_consts], eqn.invars[num_consts:]
        before, once = inlined_eqns(parts.once, consts)
        eqn_first = eqn.replace(
            outvars=first_outs,
            params=dict(eqn.params, jaxpr=parts.first),
            effects=parts.first.effects,
        )
        eqn_again = eqn.replace(
            invars=[*consts, *once, *rest, *stacked],
            outvars=again_outs,
            params=dict(eqn.params, jaxpr=parts.again, num_consts=num_consts + len(once)),
            effects=parts.again.effects,
        )
        return TwoEqns([*before, eqn_first], eqn_again, [*once, *stacked])


scan_p.split = _ScanSplitRules()


class _ScanParts(NamedTuple):
    """The body of a split loop for both parts, and the values stored in between.

    Attributes:
      once: a jaxpr that computes from the loop's constants the values that are stored once.
      first, again: the bodies of the first and the second part.
      avals: avals of the values that are stored for each step.
      results: for each of these values, the result of the body that it is, or None.
    """

    once: core.Jaxpr
    first: ClosedJaxpr
    again: ClosedJaxpr
    avals: list
    results: list[int | None]


@core.cached_on_jaxpr
def _scan_parts(closed: ClosedJaxpr, planner, num_consts: int, num_carry: int) -> _ScanParts:
    plan, body = planner(closed), closed.jaxpr
    # Find the values that are the same in all steps.
    differ = {*body.constvars, *body.invars[num_consts:]}
    known, _ = split_by_unknown(plan.first, differ, lambda eqn, _: (None, eqn), has_any_effect)
    same = {*body.invars[:num_consts], *[v for eqn in known for v in eqn.outvars]}
    once = [v for v in plan.saved if v in same]
    each = [v for v in plan.saved if v not in same]
    results = result_positions(each, body.outvars, num_carry)
    before, _ = pe.dce_jaxpr(
        with_eqns(body, known, outvars=once),  # no effects: they belong to the steps
        [True] * len(once),
        [True] * num_consts + [False] * (len(body.invars) - num_consts),
    )
    arrived_once = [w for v, w in zip(plan.saved, plan.arrived) if v in same]
    arrived_each = [w for v, w in zip(plan.saved, plan.arrived) if v not in same]
    invars = [
        *body.invars[:num_consts], *arrived_once, *body.invars[num_consts:], *arrived_each
    ]  # fmt: skip
    again = ClosedJaxpr(with_eqns(body, plan.again, invars=invars), closed.consts)
    first = plan.first_jaxpr(closed, not_results(each, results))
    return _ScanParts(before, first, again, [v.aval for v in each], results)


def _scan_impl(*args, reverse, length, jaxpr, num_consts, num_carry, unroll, _split_transpose):
    """Implement the loop by `while`, or unrolled; this is also its lowering."""
    consts, carry, xs = split_at(args, num_consts, num_carry)
    y_avals = jaxpr.out_avals[num_carry:]

    def step(carry, x_slices):
        with source_info_util.extend_name_stack("closed_call"):
            outs = core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *consts, *carry, *x_slices)
        return outs[:num_carry], outs[num_carry:]

    if length == 0:
        return [*carry, *[empty_stack(0, a) for a in y_avals]]
    if core.is_constant_dim(length) and length <= unroll:
        order = range(length - 1, -1, -1) if reverse else range(length)
        ys: list = [None] * length
        for i in order:
            carry, ys[i] = step(carry, [slicing.index_in_dim(x, i, keepdims=False) for x in xs])
        stacked = [
            lax.concatenate([lax.expand_dims(y, (0,)) for y in column], 0)
            if length > 1
            else lax.expand_dims(column[0], (0,))
            for column in zip(*ys)
        ]
        return [*carry, *stacked]

    if not core.is_constant_dim(length) and length % unroll != 0:
        unroll = 1  # how many steps would remain is not known
    steps, rest = divmod(length, unroll)
    # Whole groups of `unroll` steps run first; the remaining steps run last, unrolled.
    if rest:
        main = length - rest
        split = (rest, length) if reverse else (0, main)
        first_xs = [slicing.slice_in_dim(x, *split) for x in xs]
        rest_xs = [
            slicing.slice_in_dim(x, 0, rest) if reverse else slicing.slice_in_dim(x, main, length)
            for x in xs
        ]
        common = dict(
            reverse=reverse, jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry, unroll=unroll,
            _split_transpose=_split_transpose,
        )  # fmt: skip
        outs = _scan_impl(*consts, *carry, *first_xs, length=main, **common)
        carry, ys_main = outs[:num_carry], outs[num_carry:]
        outs = _scan_impl(*consts, *carry, *rest_xs, length=rest, **common)
        carry, ys_rest = outs[:num_carry], outs[num_carry:]
        pairs = zip(ys_rest, ys_main) if reverse else zip(ys_main, ys_rest)
        return [*carry, *[lax.concatenate(list(p), 0) for p in pairs]]

    ys = [empty_stack(length, a) for a in y_avals]

    def body(i, state):
        carry, ys = state[:num_carry], state[num_carry:]
        for k in range(unroll):
            at = lax.add(lax.mul(i, lax.const(i, unroll)), lax.const(i, k)) if unroll > 1 else i
            if reverse:
                at = lax.sub(lax.const(i, length - 1), at)
            slices = [slice_at(x, at) for x in xs]
            carry, y = step(carry, slices)
            ys = [update_at(stack, v, at) for stack, v in zip(ys, y)]
        return [*carry, *ys]

    return _counted_loop(steps, body, [*carry, *ys])


def empty_stack(length: int, aval):
    """Create an array for `length` values of type `aval`."""
    shape = (length, *aval.shape)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return lax.empty(shape, aval.dtype)
    sharding = None if aval._sharding is None else core.unmapped_aval(length, 0, aval).sharding
    if aval.memory_space is MemorySpace.Host:
        # not moved there, which would copy it: the updates tell where it is
        zero = lax.empty2_p.bind(dtype=aval.dtype, memory_space=aval.memory_space)
        return lax.broadcast_in_dim(zero, shape, (), out_sharding=sharding)
    return lax.full(shape, 0, aval.dtype, sharding=sharding)


def slice_at(x, i):
    """Return `x[i]` for an `i` that is in bounds."""
    with source_info_util.extend_name_stack("jit(dynamic_index_in_dim)"):
        return slicing.dynamic_index_in_dim(x, i, keepdims=False, allow_negative_indices=False)


def update_at(stack, value, i):
    with source_info_util.extend_name_stack("jit(dynamic_update_index_in_dim)"):
        return slicing.dynamic_update_index_in_dim(stack, value, i, 0, allow_negative_indices=False)


def _counted_loop(steps: int, body: Callable, state: list) -> list:
    """Bind `while` with a counter, and stage its functions."""
    from_zero = np.int32(0)

    def cond(i, *_):
        return [lax.lt(i, lax.const(from_zero, steps))]

    def run(i, *state):
        return [lax.add(i, np.int32(1)), *body(i, list(state))]

    return stage_while(cond, run, [from_zero, *state])[1:]


mlir.register_lowering(scan_p, mlir.lower_fun(_scan_impl, multiple_results=True))


def _scan_pp(eqn, context, settings):
    params = dict(eqn.params)
    if not params["_split_transpose"]:
        del params["_split_transpose"]
    return core.default_pp_eqn(eqn, context, settings, sorted(params))


scan_p.pp = _scan_pp
