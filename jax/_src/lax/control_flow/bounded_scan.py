"""The `bounded_scan` primitive: a `scan` whose number of steps is found while it runs.

The operands are (limit, consts, initial carry, xs), and the results (number of steps, final carry,
ys), where the first one is present only if `stops`. The body takes (consts, carry, one slice of
each of xs) and returns (carry, one slice of each of ys). Parameters:

- `length`: size of the leading axis of xs and ys. The operand `limit` bounds the number of steps; it
  is not greater.
- `stops`: the first value of the carry is a boolean, and the loop ends once it is false.
- `reverse`: steps go from `limit - 1` to 0; requires that the loop does not stop earlier.
- `recompute`: linearization stores the carries, and its linear part computes the residuals of a step
  from them. Otherwise it stores residuals of all steps.

Slices of ys for which there is no step are zero. Users do not bind this primitive: derivatives of
bounded `while` loops consist of it.
"""

import numpy as np

from jax._src import ad_util, core, traceback_util
from jax._src.ad_util import Zero
from jax._src.core import ClosedJaxpr, Primitive, typeof
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.interpreters.ad.linearize import LinearizedJaxpr
from jax._src.interpreters.split_rules import Flow, JaxprSplitRules
from jax._src.lax import lax
from jax._src.lax.control_flow.common import (
    check_maskable,
    def_compiled_impl,
    split_at,
    spread_marks,
    without_output,
    without_results,
)
from jax._src.lax.control_flow.scan_primal import jvp_loop, linearize_loop
from jax._src.lax.control_flow.scan_primitive import (
    empty_stack,
    slice_at,
    transposed_body,
    update_at,
)
from jax._src.lax.control_flow.while_primitive import ANY_OF_BATCH, stage_while

traceback_util.register_exclusion(__file__)

bounded_scan_p = Primitive("bounded_scan", multiple_results=True)


def _types(limit, *avals, jaxpr, length, num_consts, num_carry, stops, **_):
    carry, ys = split_at(jaxpr.out_avals, num_carry)
    steps = []
    if stops:
        vary = limit.vma | carry[0].vma
        steps = [_count_aval(carry[0]).update(vma=vary)]
    return [*steps, *carry, *[core.unmapped_aval(length, 0, a) for a in ys]], jaxpr.effects


def _abstract_eval(limit, *avals, **params):
    outs, effects = _types(limit, *avals, **params)
    if effects:
        effects = core.reindexed_effects(effects, [1 + i for i in range(len(avals))])
    return outs, effects


bounded_scan_p.def_effectful_abstract_eval(_abstract_eval)


def _typecheck(_, *atoms, jaxpr, length, num_consts, num_carry, **params):
    limit, *avals = [a.aval for a in atoms]
    consts, carry, xs = split_at(avals, num_consts, num_carry)
    got = [*consts, *carry, *[core.mapped_aval(length, 0, a) for a in xs]]
    if len(got) != len(jaxpr.in_avals) or not all(map(core.typecompat, jaxpr.in_avals, got)):
        raise core.JaxprTypeError(f"bounded_scan jaxpr takes {jaxpr.in_avals}, called with {got}")
    if not all(map(core.typematch, carry, jaxpr.out_avals)):
        raise core.JaxprTypeError(
            f"bounded_scan carry input and output types differ: {carry} and {jaxpr.out_avals}"
        )
    return _abstract_eval(
        limit, *avals, jaxpr=jaxpr, length=length, num_consts=num_consts, num_carry=num_carry,
        **params,
    )  # fmt: skip


bounded_scan_p.typecheck = _typecheck


def _hoist(args, params):
    closed, tracers = pe.hoist_tracers(params["jaxpr"])
    if tracers:
        args = (args[0], *tracers, *args[1:])
        params = dict(params, jaxpr=closed, num_consts=params["num_consts"] + len(tracers))
    return args, params


pe.def_hoisting(bounded_scan_p, _hoist)


def _run_from(limit, **params):
    """Return a function that applies the loop to (consts, carry, xs), and a list for its steps."""
    steps = []

    def run(*args, **others):
        outs = bounded_scan_p.bind(limit, *args, **params, **others)
        steps[:], outs = split_at(outs, int(params["stops"]))
        return outs

    return run, steps


def _jvp(primals, tangents, *, jaxpr, num_consts, num_carry, **params):
    limit, *primals = primals
    run, steps = _run_from(limit, **params)
    outs, t_outs = jvp_loop(jaxpr, primals, tangents[1:], num_consts, num_carry, run)
    return [*steps, *outs], [*map(ad.zero_of, steps), *t_outs]


bounded_scan_p.jvp = _jvp


def _linearize(primals, tangents, *, jaxpr, num_consts, num_carry, **params):
    limit, *primals = primals
    run, steps = _run_from(limit, **params)

    def run_linear(*args, **others):
        limit_linear = steps[0] if params["stops"] else limit
        return bounded_scan_p.bind(limit_linear, *args, **dict(params, stops=False), **others)

    linearize = _recomputing if params["recompute"] else ad.linearize_jaxpr
    outs, t_outs = linearize_loop(
        linearize, jaxpr, primals, tangents[1:], num_consts, num_carry, run, run_linear
    )
    return [*steps, *outs], [*map(ad.zero_of, steps), *t_outs]


bounded_scan_p.linearize = _linearize


@core.cached_on_jaxpr
def _recomputing(closed: ClosedJaxpr, nonzeros: tuple, instantiate: tuple) -> LinearizedJaxpr:
    """Linearize a body; its residuals are arguments, from which the linear part computes the others."""
    lin = ad.linearize_jaxpr(closed, nonzeros, instantiate)
    n = len(closed.in_avals)
    tangent_avals = lin.tangent.in_avals[lin.num_residuals :]

    def run(*args):
        args, tangents = split_at(args, n)
        outs = core.jaxpr_as_fun(lin.primal)(*args)
        return core.jaxpr_as_fun(lin.tangent)(*lin.residuals(args, outs), *tangents)

    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        run, [*closed.in_avals, *tangent_avals], closed.debug_info.with_unknown_names()
    )
    # The forward pass has printed what the body prints.
    jaxpr, used = pe.dce_jaxpr(
        without_output(jaxpr, lambda _: True), [True] * len(jaxpr.outvars),
        [False] * n + [True] * len(tangent_avals),
    )  # fmt: skip
    primal = ClosedJaxpr(closed.jaxpr.replace(), closed.consts)  # with a cache of its own
    sources = [("in", i) for i in range(n) if used[i]]
    return LinearizedJaxpr(
        primal, ClosedJaxpr(jaxpr, consts), sources, lin.num_outs, lin.nonzero_outs
    )


def _transpose(
    cts, limit, *args, length, jaxpr, num_consts, num_carry, stops, reverse, recompute
):  # fmt: skip
    linear = [ad.is_undefined_primal(x) for x in args]
    common = dict(length=length, recompute=recompute)
    cts = cts[int(stops) :]
    rules = bounded_scan_p.split
    flows = rules.dependent_carries(linear, jaxpr, num_consts, num_carry, stops)
    if not all(flows):
        # Run the carries that are known first, and stack their values.
        known_body, keep, kept_ins = _known_part(jaxpr, num_consts, num_carry, tuple(flows))
        known = [x for x, u in zip(args, kept_ins) if u]
        outs = bounded_scan_p.bind(
            limit, *known, jaxpr=known_body, num_consts=sum(kept_ins[:num_consts]),
            num_carry=num_carry - sum(flows), stops=stops, reverse=reverse, **common,
        )  # fmt: skip
        steps, outs = split_at(outs, int(stops))
        history = outs[num_carry - sum(flows) :]
        consts, carry, xs = split_at(args, num_consts, num_carry)
        limit = steps[0] if stops else limit
        cts_in = _transpose(
            [*[ct for ct, f in zip(cts, flows) if f], *cts[num_carry:]], limit, *consts,
            *[x for x, f in zip(carry, flows) if f], *history, *xs, jaxpr=keep,
            num_consts=num_consts, num_carry=sum(flows), stops=False, reverse=reverse, **common,
        )[1:]  # fmt: skip
        ct_consts, ct_carry, _, ct_xs = split_at(cts_in, num_consts, sum(flows), len(history))
        ct_carry = iter(ct_carry)
        return [None, *ct_consts, *[next(ct_carry) if f else None for f in flows], *ct_xs]

    lin_consts, lin_carry, lin_xs = split_at(linear, num_consts, num_carry)
    ct_carry, ct_ys = split_at(cts, num_carry)
    ys_nonzero = tuple([type(ct) is not Zero for ct in ct_ys])
    body, nz_xs, used = transposed_body(
        jaxpr, tuple(lin_consts), num_carry, tuple(lin_xs), ys_nonzero
    )
    consts, _, xs = split_at(args, num_consts, num_carry)
    known_consts = [x for x, lin in zip(consts, lin_consts) if not lin]
    known_xs = [x for x, lin in zip(xs, lin_xs) if not lin]
    first = [x for x, u in zip(known_consts, used) if u]
    last = [x for x, u in zip(known_xs, used[len(used) - len(known_xs) :]) if u]
    sums = [
        ad_util.zeros_like_aval(x.aval.to_ct_aval()) for x, lin in zip(consts, lin_consts) if lin
    ]
    outs = bounded_scan_p.bind(
        limit, *first, *sums, *map(ad.instantiate_zeros, ct_carry),
        *[ct for ct in ct_ys if type(ct) is not Zero], *last, jaxpr=body, num_consts=len(first),
        num_carry=len(sums) + num_carry, stops=False, reverse=not reverse, **common,
    )  # fmt: skip
    ct_consts, ct_init, ct_xs = map(iter, split_at(outs, len(sums), num_carry))
    nz = iter(nz_xs)
    return [
        None,
        *[next(ct_consts) if lin else None for lin in lin_consts],
        *[ct if lin else None for ct, lin in zip(ct_init, lin_carry)],
        *[
            (next(ct_xs) if next(nz) else Zero(x.aval.to_ct_aval())) if lin else None
            for x, lin in zip(xs, lin_xs)
        ],
    ]


bounded_scan_p.transpose = _transpose


@core.cached_on_jaxpr
def _known_part(closed: ClosedJaxpr, num_consts: int, num_carry: int, flows: tuple):
    """Divide a body by which of its carries are linear (`flows`).

    Returns:
      A body for the known carries that stacks their values before each step, a body for the others
      that takes these values as leading slices, and which arguments the first body takes.
    """
    jaxpr = closed.jaxpr
    consts, carry, xs = split_at(jaxpr.invars, num_consts, num_carry)
    known_carry = [v for v, f in zip(carry, flows) if not f]
    used = [not f for f in flows] + [False] * (len(jaxpr.outvars) - num_carry)
    kept = [False] * num_consts + [not f for f in flows] + [False] * len(xs)
    known, kept_ins = pe.dce_jaxpr(jaxpr, used, kept)
    at = sum(kept_ins[:num_consts])
    history = known.invars[at : at + len(known_carry)]
    info = jaxpr.debug_info.with_unknown_names()
    known = known.replace(outvars=[*known.outvars, *history], debug_info=info)
    rest = jaxpr.replace(
        invars=[*consts, *[v for v, f in zip(carry, flows) if f], *known_carry, *xs],
        outvars=[
            *[v for v, f in zip(jaxpr.outvars, flows) if f], *jaxpr.outvars[num_carry:]
        ],
        debug_info=info,
    )  # fmt: skip
    return ClosedJaxpr(known, closed.consts), ClosedJaxpr(rest, closed.consts), kept_ins


def _batch(
    axis_data, args, dims, *, length, jaxpr, num_consts, num_carry, stops, reverse, recompute
):
    size = axis_data.size
    limit, *args = args
    limit_d, *dims = dims
    batched = [d is not None for d in dims]
    const_b, init_b, xs_b = split_at(batched, num_consts, num_carry)
    num_ys = len(jaxpr.out_avals) - num_carry
    carry_b, out_b = spread_marks(
        init_b,
        lambda b: batching.batch_jaxpr(
            jaxpr, axis_data, (*const_b, *b, *xs_b), (*b, *[False] * num_ys)
        )[1],
    )
    masked = limit_d is not None or stops and carry_b[0]
    if masked:
        carry_b, out_b = [True] * num_carry, [True] * (num_carry + num_ys)
    body, _ = batching.batch_jaxpr(jaxpr, axis_data, (*const_b, *carry_b, *xs_b), tuple(out_b))
    consts, init, xs = split_at(args, num_consts, num_carry)
    const_d, init_d, xs_d = split_at(dims, num_consts, num_carry)
    consts = [batching.moveaxis(x, d, 0) if d is not None else x for x, d in zip(consts, const_d)]
    init = [
        batching.bdim_at_front(x, d, size) if b else x for x, d, b in zip(init, init_d, carry_b)
    ]
    xs = [batching.moveaxis(x, d, 1) if d is not None else x for x, d in zip(xs, xs_d)]
    params = dict(length=length, reverse=reverse, recompute=recompute, stops=stops)
    out_dims = [*[0 if b else None for b in out_b[:num_carry]]]
    out_dims += [1 if b else None for b in out_b[num_carry:]]
    if not masked:
        outs = bounded_scan_p.bind(
            limit,
            *consts,
            *init,
            *xs,
            jaxpr=body,
            num_consts=num_consts,
            num_carry=num_carry,
            **params,
        )
        return outs, [None] * stops + out_dims

    # The loop goes on while an element of the batch does; finished elements keep their values.
    check_maskable("while_loop", jaxpr)
    limits = batching.bdim_at_front(limit, limit_d, size)
    body = _masked(body, num_consts, num_carry, stops, typeof(limits))
    at = lax.iota(np.int32, length)
    if stops:
        done = ad_util.zeros_like_aval(_count_aval(typeof(init[0])))
        init = [lax.reduce_or(init[0], (0,)), done, *init]
    outs = bounded_scan_p.bind(
        lax.reduce_max(limits, (0,)), limits, *consts, *init, at, *xs, jaxpr=body,
        num_consts=1 + num_consts, num_carry=len(init), **params,
    )  # fmt: skip
    return (outs[2:], [0, *out_dims]) if stops else (outs, out_dims)


bounded_scan_p.axis_batch = _batch


def _count_aval(pred):
    """The type of numbers of steps, given that of predicates."""
    return pred.update(dtype=np.dtype(np.int32), weak_type=False)


@core.cached_on_jaxpr
def _masked(body: ClosedJaxpr, num_consts: int, num_carry: int, stops: bool, limits) -> ClosedJaxpr:
    """Mask a batched body: elements past their limits, or whose predicate is false, do nothing.

    The body takes the elements' limits before its constants and the number of the step before its
    slices. If `stops`, it carries whether any element goes on, and the elements' numbers of steps.
    """
    consts, carry, xs = split_at(body.in_avals, num_consts, num_carry)

    def run(*args):
        (limits,), consts, extra, carry, (at,), xs = split_at(
            args, 1, num_consts, 2 * stops, num_carry, 1
        )
        active = lax.lt(lax.broadcast_in_dim(at, limits.shape, ()), limits)
        if stops:
            active = lax.bitwise_and(active, carry[0])
        outs = core.jaxpr_as_fun(body)(*consts, *carry, *xs)

        def keep(new, old):
            aval = typeof(new)
            mask = lax.broadcast_in_dim(active, aval.shape, (0,), out_sharding=aval._sharding)
            return lax.select(mask, new, old)

        zeros = [ad_util.zeros_like_aval(typeof(y)) for y in outs[num_carry:]]
        outs = [keep(new, old) for new, old in zip(outs, [*carry, *zeros])]
        if stops:
            count = lax.add(extra[1], lax.convert_element_type(active, np.int32))
            return [lax.reduce_or(outs[0], (0,)), count, *outs]
        return outs

    at = core.ShapedArray((), np.dtype(np.int32))
    extra = []
    if stops:
        extra = [core.mapped_aval(limits.shape[0], 0, carry[0]), _count_aval(carry[0])]
    jaxpr, _, jaxpr_consts = pe.trace_to_jaxpr_dynamic(
        run, [limits, *consts, *extra, *carry, at, *xs], ANY_OF_BATCH.with_unknown_names()
    )
    return ClosedJaxpr(jaxpr, jaxpr_consts)


class _SplitRules(JaxprSplitRules):
    def flow(self, params):
        jaxpr, num_consts, stops = params["jaxpr"], params["num_consts"], int(params["stops"])
        n, m = len(jaxpr.in_avals), len(jaxpr.out_avals)
        operands = range(1, 1 + n)
        carried = [(stops + i, 1 + num_consts + i) for i in range(params["num_carry"])]
        results = range(stops, stops + m)
        if not stops:
            return Flow((jaxpr,), m, (operands,), (results,), carried, (0,))
        # The number of steps and whether to go on are always computed.
        pred = _predicate(jaxpr)
        return Flow(
            (jaxpr, pred), 1 + m, (operands, operands), (results, (None,)), [(0, 0), *carried],
            (0, 1 + num_consts),
        )  # fmt: skip

    def with_jaxprs(self, params, jaxprs, ins, outs):
        num_consts, num_carry = params["num_consts"], params["num_carry"]
        stops = int(params["stops"])
        return dict(
            params,
            jaxpr=jaxprs[0],
            num_consts=sum(1 <= i < 1 + num_consts for i in ins),
            num_carry=sum(stops <= i < stops + num_carry for i in outs),
        )

    def dependent_carries(self, marked, jaxpr, num_consts, num_carry, stops):
        """Return which carries depend on marked operands after any number of iterations."""
        params = dict(jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry, stops=stops)
        return self.dependence([False, *marked], params)[int(stops) :][:num_carry]


bounded_scan_p.split = _SplitRules()


@core.cached_on_jaxpr
def _predicate(closed: ClosedJaxpr) -> ClosedJaxpr:
    return without_results(closed, range(1, len(closed.out_avals)))


def _impl(
    limit, *args, length, jaxpr, num_consts, num_carry, stops, reverse, recompute
):  # fmt: skip
    """Implement the loop by `while`; this is also its lowering."""
    consts, carry, xs = split_at(args, num_consts, num_carry)
    ys = [empty_stack(length, a) for a in jaxpr.out_avals[num_carry:]]
    if length == 0:
        return [*[np.int32(0)] * stops, *carry, *ys]
    one = np.int32(1)

    def cond(k, limit, *state):
        more = lax.lt(k, limit)
        return [lax.bitwise_and(more, state[0]) if stops else more]

    def body(k, limit, *state):
        carry, ys = split_at(state, num_carry)
        at = lax.sub(lax.sub(limit, one), k) if reverse else k
        outs = core.eval_jaxpr(
            jaxpr.jaxpr, jaxpr.consts, *consts, *carry, *[slice_at(x, at) for x in xs]
        )
        carry, new = split_at(outs, num_carry)
        return [
            lax.add(k, one), limit, *carry, *[update_at(stack, y, at) for stack, y in zip(ys, new)]
        ]  # fmt: skip

    first = lax.full_like(limit, 0)
    k, _, *outs = stage_while(cond, body, [first, limit, *carry, *ys])
    return [*[k] * stops, *outs]


def_compiled_impl(bounded_scan_p, "jaxpr", _impl)
mlir.register_lowering(bounded_scan_p, mlir.lower_fun(_impl, multiple_results=True))
