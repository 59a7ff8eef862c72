"""Taylor-mode rules of primitives that contain jaxprs: `jit`, `checkpoint`, control flow."""

from collections.abc import Sequence

from jax._src import core, dtypes, traceback_util
from jax._src.ad_checkpoint import remat_p
from jax._src.core import ClosedJaxpr, typeof
from jax._src.interpreters import partial_eval as pe
from jax._src.jet.trace import instantiate as instantiate_terms, jet_flat, rule_for, zero_series
from jax._src.jit import primitive as jit_primitive
from jax._src.lax.control_flow.common import rearranged, split_at
from jax._src.lax.control_flow.conditionals import cond_p
from jax._src.lax.control_flow.scan_primal import interleaved
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.lax.control_flow.while_primitive import while_p, with_unused_carry

traceback_util.register_exclusion(__file__)


def _jet_jaxpr(
    closed: ClosedJaxpr,
    order: int,
    varies: Sequence[bool],
    instantiate: bool | Sequence[bool] = False,
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """Transforms a jaxpr to one that also propagates series.

    Returns:
      A jaxpr from (arguments, terms of those that vary) to (results, terms of those that vary), and
      a tuple of which results vary.
    """
    if type(instantiate) is bool:
        instantiate = (instantiate,) * len(closed.out_avals)
    return _cached_jet_jaxpr(closed, order, tuple(varies), tuple(instantiate))


@core.cached_on_jaxpr
def _cached_jet_jaxpr(closed: ClosedJaxpr, order: int, varies: tuple, instantiate: tuple):
    out_varies: list[bool] = []

    def run(*args):
        n = len(varies)
        given = iter(_groups(args[n:], order))
        series = [next(given) if v else zero_series for v in varies]
        outs, out_series = jet_flat(core.jaxpr_as_fun(closed), args[:n], series, order)
        out_varies[:] = [s is not zero_series or i for s, i in zip(out_series, instantiate)]
        terms = [
            t
            for x, s, v in zip(outs, out_series, out_varies)
            if v
            for t in instantiate_terms(x, s, order)
        ]
        return [*outs, *terms]

    in_avals = list(closed.in_avals)
    term_avals = [a for a, v in zip(in_avals, varies) if v for _ in range(order)]
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        run, in_avals + term_avals, closed.debug_info.with_unknown_names()
    )
    return ClosedJaxpr(jaxpr, consts), tuple(out_varies)


def _groups(xs, size: int) -> list[list]:
    return [list(xs[i : i + size]) for i in range(0, len(xs), size)]


def _flat_terms(primals, series, varies, order: int) -> list:
    """Returns the terms of all values that vary in one list."""
    return [
        t
        for x, terms, v in zip(primals, series, varies)
        if v
        for t in instantiate_terms(x, terms, order)
    ]


def _varying(series) -> tuple[tuple[bool, ...], int]:
    varies = tuple([terms is not zero_series for terms in series])
    return varies, len(next(terms for terms in series if terms is not zero_series))


def _paired(outs, n: int, out_varies, order: int):
    given = iter(_groups(outs[n:], order))
    return outs[:n], [next(given) if v else zero_series for v in out_varies]


@rule_for(jit_primitive.jit_p)
def _jit(primals, series, **params):
    closed = params["jaxpr"]
    varies, order = _varying(series)
    jaxpr, out_varies = _jet_jaxpr(closed, order, varies)
    n = len(closed.out_avals)
    ins = [*range(len(primals)), *[i for i, v in enumerate(varies) if v for _ in range(order)]]
    outs = [*range(n), *[i for i, v in enumerate(out_varies) if v for _ in range(order)]]
    params = jit_primitive.with_jaxpr(params, jaxpr, ins, outs)
    terms = _flat_terms(primals, series, varies, order)
    results = jit_primitive.jit_p.bind(*primals, *terms, **params)
    return _paired(results, n, out_varies, order)


@rule_for(remat_p)
def _remat(primals, series, *, jaxpr, **params):
    varies, order = _varying(series)
    jet_jaxpr, out_varies = _jet_jaxpr(jaxpr, order, varies)
    terms = _flat_terms(primals, series, varies, order)
    results = remat_p.bind(*primals, *terms, jaxpr=jet_jaxpr, **params)
    return _paired(results, len(jaxpr.out_avals), out_varies, order)


@rule_for(cond_p)
def _cond(primals, series, *, branches, **params):
    (index, *ops), series = primals, series[1:]
    varies, order = _varying(series)
    # A result that varies in any branch needs terms from all of them.
    flags = [_jet_jaxpr(b, order, varies)[1] for b in branches]
    out_varies = [any(column) for column in zip(*flags)]
    jets = tuple([_jet_jaxpr(b, order, varies, out_varies)[0] for b in branches])
    terms = _flat_terms(ops, series, varies, order)
    results = cond_p.bind(index, *ops, *terms, branches=jets, **params)
    return _paired(results, len(branches[0].out_avals), out_varies, order)


def _varying_carries(body: ClosedJaxpr, consts, carry, xs) -> tuple[bool, ...]:
    """Returns which carried values vary after any number of iterations: a fixpoint."""
    avals = body.out_avals[: len(carry)]
    carry = tuple(carry)
    while True:
        outs = pe.dependent_outs(body, (*consts, *carry, *xs))
        new = tuple(
            [
                old or (out and a.to_tangent_aval().dtype != dtypes.float0)
                for old, out, a in zip(carry, outs, avals)
            ]
        )
        if new == carry:
            return carry
        carry = new


@rule_for(scan_p)
def _scan(primals, series, *, jaxpr, num_consts, num_carry, **params):
    all_varies, order = _varying(series)
    v_consts, v_carry, v_xs = split_at(all_varies, num_consts, num_carry)
    v_carry = _varying_carries(jaxpr, v_consts, v_carry, v_xs)
    varies = (*v_consts, *v_carry, *v_xs)
    num_ys = len(jaxpr.out_avals) - num_carry
    body, out_varies = _jet_jaxpr(jaxpr, order, varies, [*v_carry, *[False] * num_ys])
    parts = [split_at(xs, num_consts, num_carry) for xs in (primals, series, varies)]
    (consts, t_consts), (carry, t_carry), (xs, t_xs) = [
        (x, _flat_terms(x, s, v, order)) for x, s, v in zip(*parts)
    ]
    num_ty = order * sum(out_varies[num_carry:])
    # scan takes each group of operands followed by its terms, so reorder the body's arguments and
    # results, which have all terms at the end.
    order_in = interleaved(
        [len(consts), len(carry), len(xs)], [len(t_consts), len(t_carry), len(t_xs)]
    )
    order_out = interleaved([num_carry, num_ys], [len(t_carry), num_ty])
    results = scan_p.bind(
        *consts, *t_consts, *carry, *t_carry, *xs, *t_xs,
        jaxpr=rearranged(body, tuple(order_in), tuple(order_out)),
        num_consts=len(consts) + len(t_consts), num_carry=num_carry + len(t_carry), **params,
    )  # fmt: skip
    carry, t_carry, ys, t_ys = split_at(results, num_carry, len(t_carry), num_ys)
    return _paired([*carry, *ys, *t_carry, *t_ys], num_carry + num_ys, out_varies, order)


@rule_for(while_p)
def _while(primals, series, *, cond_nconsts, cond_jaxpr, body_nconsts, body_jaxpr, **bound):
    all_varies, order = _varying(series)
    _, v_consts, v_init = split_at(all_varies, cond_nconsts, body_nconsts)
    v_carry = _varying_carries(body_jaxpr, v_consts, v_init, ())
    body, _ = _jet_jaxpr(body_jaxpr, order, (*v_consts, *v_carry), v_carry)
    cond_consts, consts, init = split_at(primals, cond_nconsts, body_nconsts)
    _, s_consts, s_init = split_at(series, cond_nconsts, body_nconsts)
    t_consts = _flat_terms(consts, s_consts, v_consts, order)
    t_init = _flat_terms(init, s_init, v_carry, order)
    order_in = interleaved([len(consts), len(init)], [len(t_consts), len(t_init)])
    results = while_p.bind(
        *cond_consts, *consts, *t_consts, *init, *t_init, cond_nconsts=cond_nconsts,
        cond_jaxpr=with_unused_carry(cond_jaxpr, [typeof(t) for t in t_init]),
        body_nconsts=len(consts) + len(t_consts), body_jaxpr=rearranged(body, tuple(order_in)),
        **bound,
    )  # fmt: skip
    return _paired(results, len(init), v_carry, order)
