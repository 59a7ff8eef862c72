"""Derivatives of loops over constants, a carry and slices: shared by `scan` and `bounded_scan`."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax._src import core
from jax._src.ad_util import Zero
from jax._src.core import ClosedJaxpr, no_effects
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.interpreters.splitting import divide_eqn, has_any_effect, split_by_unknown
from jax._src.lax.control_flow.common import rearranged, run_compiled, split_at, spread_marks


def jvp_loop(
    jaxpr: ClosedJaxpr, primals: Sequence[Any], tangents: Sequence[Any], num_consts: int,
    num_carry: int, run: Callable,
):  # fmt: skip
    """Differentiate a loop over (consts, initial carry, xs), with results (carry, ys), as one loop.

    Args:
      jaxpr: the body.
      primals, tangents: the operands.
      num_consts, num_carry: numbers of constants and carried values.
      run: applies the loop to other operands with parameters jaxpr, num_consts, num_carry.

    Returns:
      The results, and their tangents.
    """
    nonzeros = [type(t) is not Zero for t in tangents]
    nz_consts, nz_init, nz_xs = split_at(nonzeros, num_consts, num_carry)
    num_ys = len(jaxpr.out_avals) - num_carry
    no_ys = [False] * num_ys
    nz_carry, _ = spread_marks(
        nz_init, lambda nz: ad.jvp_jaxpr(jaxpr, (*nz_consts, *nz, *nz_xs), [*nz, *no_ys])[1]
    )
    nz_all = [*nz_consts, *nz_carry, *nz_xs]
    jvp, nz_out = ad.jvp_jaxpr(jaxpr, nz_all, [*nz_carry, *no_ys])
    t_consts, t_carry, t_xs = _nonzero_tangents(tangents, nz_all, num_consts, num_carry)
    consts, carry, xs = split_at(primals, num_consts, num_carry)
    # The jvp jaxpr takes all primals, then all tangents; the loop needs consts, carries, xs in order.
    order_in = interleaved(
        [len(consts), len(carry), len(xs)], [len(t_consts), len(t_carry), len(t_xs)]
    )
    order_out = interleaved([num_carry, num_ys], [len(t_carry), sum(nz_out[num_carry:])])
    outs = run(
        *consts, *t_consts, *carry, *t_carry, *xs, *t_xs,
        jaxpr=rearranged(jvp, tuple(order_in), tuple(order_out)),
        num_consts=len(consts) + len(t_consts), num_carry=num_carry + len(t_carry),
    )  # fmt: skip
    carry, t_carry, ys, t_ys = split_at(outs, num_carry, len(t_carry), num_ys)
    t_outs = iter([*t_carry, *t_ys])
    outs = [*carry, *ys]
    return outs, [next(t_outs) if nz else ad.zero_of(x) for x, nz in zip(outs, nz_out)]


def _nonzero_tangents(tangents: Sequence[Any], nonzeros: Sequence[bool], *counts: int):
    """Return those of each part, some of which are zeros that become arrays."""
    arrays = [ad.instantiate_zeros(t) if nz else t for t, nz in zip(tangents, nonzeros)]
    return [[t for t in ts if type(t) is not Zero] for ts in split_at(arrays, *counts)]


def interleaved(first: list[int], second: list[int]) -> list[int]:
    """Return the permutation of [f0 f1 ..., s0 s1 ...] to [f0, s0, f1, s1, ...]."""
    out, a, b = [], 0, sum(first)
    for n, m in zip(first, second):
        out.extend(range(a, a + n))
        out.extend(range(b, b + m))
        a, b = a + n, b + m
    return out


def linearize_loop(
    linearize: Callable, jaxpr: ClosedJaxpr, primals: Sequence[Any], tangents: Sequence[Any],
    num_consts: int, num_carry: int, run_primal: Callable, run_linear: Callable, static: tuple | None = None,
):  # fmt: skip
    """Linearize a loop over (consts, initial carry, xs), with results (carry, ys).

    Args:
      linearize: linearizes the body, like `ad.linearize_jaxpr`.
      jaxpr: the body.
      primals, tangents: the operands.
      num_consts, num_carry: numbers of constants and carried values.
      run_primal: applies the loop to other operands with parameters jaxpr, num_consts, num_carry.
      run_linear: the same for the linear part, which runs after it.
      static: identifies `run_primal`, so that in eager mode the primal part can be compiled as one
        program and kept; None if it cannot.

    Returns:
      The results, and their tangents.
    """
    nonzeros = [type(t) is not Zero for t in tangents]
    nz_consts, nz_init, nz_xs = split_at(nonzeros, num_consts, num_carry)
    num_ys = len(jaxpr.out_avals) - num_carry
    no_ys = (False,) * num_ys
    nz_carry, _ = spread_marks(
        nz_init,
        lambda nz: linearize(jaxpr, (*nz_consts, *nz, *nz_xs), (*nz, *no_ys)).nonzero_outs,
    )
    nz_all = (*nz_consts, *nz_carry, *nz_xs)
    lin = linearize(jaxpr, nz_all, (*nz_carry, *no_ys))
    nz_out = lin.nonzero_outs

    # Residuals: loop constants stay constants, slices of xs are scanned again, and ys exist
    # already. Values that depend only on constants are computed once. All others, carries included,
    # are stacked.
    parts = primal_parts(lin, num_consts, num_carry)
    once, outs = _run_primal(parts, num_consts, num_carry, primals, run_primal, static)
    consts, _, xs = split_at(primals, num_consts, num_carry)
    const_res, stacked_res = [], []
    for i, (kind, j) in enumerate(lin.residual_sources):
        is_const = i in parts.once or kind == "in" and j < num_consts
        (const_res if is_const else stacked_res).append(i)

    def residual(i):
        kind, j = lin.residual_sources[i]
        if i in parts.once:
            return once[parts.once[i]]
        if kind == "in" and j < num_consts:
            return consts[j]
        if kind == "in" and j >= num_consts + num_carry:
            return xs[j - num_consts - num_carry]
        if kind == "out" and j >= num_carry:
            return outs[j]
        return outs[parts.where[i]]

    primal_outs = outs[: num_carry + num_ys]
    if not any(nz_out):
        return primal_outs, [ad.zero_of(x) for x in primal_outs]

    t_consts, t_carry, t_xs = _nonzero_tangents(tangents, nz_all, num_consts, num_carry)
    of_consts, of_carry, of_xs = split_at(
        range(lin.num_residuals, len(lin.tangent.in_avals)), len(t_consts), len(t_carry)
    )
    order_in = (*const_res, *of_consts, *of_carry, *stacked_res, *of_xs)
    t_outs = run_linear(
        *[residual(i) for i in const_res], *t_consts, *t_carry,
        *[residual(i) for i in stacked_res], *t_xs,
        jaxpr=rearranged(lin.tangent, order_in, tuple(range(sum(nz_out)))),
        num_consts=len(const_res) + len(t_consts), num_carry=len(t_carry),
    )  # fmt: skip
    t_outs = iter(t_outs)
    return primal_outs, [
        next(t_outs) if nz else ad.zero_of(x) for x, nz in zip(primal_outs, nz_out)
    ]


def _run_primal(parts, num_consts: int, num_carry: int, primals, run_loop: Callable, static):
    """Compute what is hoisted out of the loop, and run the loop."""

    def run(*args):
        consts, rest = args[:num_consts], args[num_consts:]
        once = core.eval_jaxpr(parts.hoisted.jaxpr, parts.hoisted.consts, *consts)
        consts = [
            *once[: parts.num_used], *[x for x, kept in zip(consts, parts.used_consts) if kept]
        ]  # fmt: skip
        outs = run_loop(
            *consts, *rest, jaxpr=parts.body, num_consts=len(consts), num_carry=num_carry
        )
        return [*once, *outs]

    eager = getattr(core.trace_ctx.trace, "parent", None) is core.eval_trace
    fits = static is not None and not any(type(x) is core.Ref for x in primals)
    if eager and fits and parts.hoisted.eqns:
        key = ("scan primal", num_carry, static)
        outs = run_compiled(parts.body, key, run, primals, "scan")
    else:
        outs = run(*primals)
    n = len(parts.hoisted.jaxpr.outvars)
    return outs[:n], outs[n:]


class PrimalParts(NamedTuple):
    """The parts of a linearized loop's primal computation.

    Attributes:
      hoisted: jaxpr from the loop's constants to the values that depend only on them.
      body: body of the loop. It takes some of these values before its other arguments, and returns
        the values to stack for residuals after its other results.
      num_used: number of these values that the body takes, which are the first ones.
      used_consts: which of the loop's constants the body takes.
      once: maps residuals that are computed once to their positions among the hoisted values.
      where: maps residuals that are stacked to their positions among the results.
    """

    hoisted: ClosedJaxpr
    body: ClosedJaxpr
    num_used: int
    used_consts: list[bool]
    once: dict[int, int]
    where: dict[int, int]


def primal_parts(lin, num_consts: int, num_carry: int) -> PrimalParts:
    key = ("scan primal parts", num_consts, num_carry)
    parts = lin.primal._cache.get(key)
    if parts is None:
        parts = lin.primal._cache[key] = _split_primal(lin, num_consts, num_carry)
    return parts


def _split_primal(lin, num_consts: int, num_carry: int) -> PrimalParts:
    jaxpr = lin.primal.jaxpr
    n_out = len(lin.nonzero_outs)
    consts = jaxpr.invars[:num_consts]
    steps = set(jaxpr.invars[num_consts:])
    first, rest = split_by_unknown(jaxpr.eqns, steps, divide_eqn, has_any_effect)
    producers = {v: eqn for eqn in first for v in eqn.outvars}

    outvars = list(jaxpr.outvars[:n_out])
    once_vars: dict[int, core.Var] = {}
    where: dict[int, int] = {}
    for i, (kind, j) in enumerate(lin.residual_sources):
        if kind == "in" and (j < num_consts or j >= num_consts + num_carry):
            continue
        if kind == "out" and j >= num_carry:
            continue
        source = {"in": jaxpr.invars, "out": jaxpr.outvars}.get(kind)
        v = jaxpr.outvars[n_out + j] if source is None else source[j]
        if kind != "in" and v in producers:
            once_vars[i] = v
        else:
            where[i] = len(outvars)
            outvars.append(v)

    # Pass hoisted values to the body, except results of equations without operands, such as filled
    # arrays, which are cheaper to recompute than to read.
    wanted = [v for eqn in rest for v in eqn.invars] + outvars
    used, cheap = {}, {}
    for v in wanted:
        if type(v) is not core.Literal and v in producers:
            eqn = producers[v]
            if any(type(u) is not core.Literal for u in eqn.invars) or len(eqn.outvars) > 1:
                used[v] = None
            else:
                cheap[id(eqn)] = eqn
    computed = list(dict.fromkeys([*used, *once_vars.values()]))
    info = jaxpr.debug_info.with_unknown_names()
    hoisted, _ = pe.dce_jaxpr(
        jaxpr.replace(
            invars=consts, outvars=computed, eqns=first, effects=no_effects, debug_info=info
        ),
        [True] * len(computed), True,
    )  # fmt: skip
    body, kept = pe.dce_jaxpr(
        jaxpr.replace(
            invars=[*used, *jaxpr.invars], outvars=outvars, eqns=[*cheap.values(), *rest],
            effects=core.effects_of_eqns(jaxpr.constvars, [*used, *jaxpr.invars], rest),
            debug_info=info,
        ),
        [True] * len(outvars),
        [False] * (len(used) + num_consts) + [True] * (len(jaxpr.invars) - num_consts),
    )  # fmt: skip
    place = {v: k for k, v in enumerate(computed)}
    return PrimalParts(
        ClosedJaxpr(hoisted, lin.primal.consts),
        ClosedJaxpr(body, lin.primal.consts),
        len(used),
        kept[len(used) : len(used) + num_consts],
        {i: place[v] for i, v in once_vars.items()},
        where,
    )
