"""The rules of `shard_map`: derivatives, transposition, batching, division and dead code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jax._src import core
from jax._src.core import ClosedJaxpr, JaxprEqn, ShapedArray, Var, cached_on_jaxpr
from jax._src.interpreters import ad, batching, lojax, partial_eval as pe
from jax._src.interpreters.split_rules import (
    CallSplitRules,
    Params,
    Planner,
    Positions,
    TwoEqns,
    positions,
)
from jax._src.interpreters.splitting import Divided, Marks, TwoHalves, divide_jaxpr
from jax._src.lax import lax, parallel
from jax._src.lax.utils import const
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map import checks
from jax._src.shard_map.primitive import body_effects, context_of, shard_map_p
from jax._src.shard_map.residuals import (
    returning_residuals,
    spec_of,
    stored_aval,
    taking_residuals,
)
from jax._src.shard_map.specs import (
    insert_entry,
    lo_specs,
    spec_axes,
    unmentioned,
    unshard_aval,
)
from jax._src.shard_map.spmd import vary_over, varying_body
from jax._src.state.discharge import discharge_written

# Jaxprs of bodies have no constants, and the shard_map passes on no constants of its own: arrays
# that a rule creates become replicated operands.


def apply(
    params: Params, closed: ClosedJaxpr, args: Sequence[Any], in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec],
) -> list[Any]:  # fmt: skip
    """Map another body, with these specs; its constants become replicated operands."""
    jaxpr, consts = closed.jaxpr, closed.consts
    if consts:
        jaxpr = pe.convert_constvars_jaxpr(jaxpr)
        args = (*consts, *args)
        in_specs = (*[PartitionSpec()] * len(consts), *in_specs)
    params = dict(params, jaxpr=jaxpr, in_specs=tuple(in_specs), out_specs=tuple(out_specs))
    results: list[Any] = shard_map_p.bind(*args, **params)
    return results


def select(xs: Sequence[Any], marks: Marks) -> list[Any]:
    """The elements that are marked."""
    return [x for x, m in zip(xs, marks) if m]


# Derivatives


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    closed = core.close_jaxpr(params["jaxpr"])
    in_specs, out_specs = params["in_specs"], params["out_specs"]
    nonzeros = tuple([type(t) is not ad.Zero for t in tangents])
    with context_of(params):
        jvp, nonzero_outs = ad.jvp_jaxpr(closed, nonzeros)
    n = len(closed.out_avals)
    results = apply(
        params, jvp, [*primals, *select(tangents, nonzeros)],
        [*in_specs, *map(tangent_spec, select(in_specs, nonzeros))],
        [*out_specs, *map(tangent_spec, select(out_specs, nonzero_outs))],
    )  # fmt: skip
    return results[:n], with_outer_zeros(results[n:], nonzero_outs, results[:n])


def with_outer_zeros(tangents: Sequence[Any], nonzero: Marks, results: Sequence[Any]) -> list[Any]:
    """The tangents of all results, given those that are not zero."""
    live = iter(tangents)
    return [next(live) if nz else ad.zero_of(x) for x, nz in zip(results, nonzero)]


def _linearize(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    jaxpr = params["jaxpr"]
    in_specs, out_specs = params["in_specs"], params["out_specs"]
    nonzeros = tuple([type(t) is not ad.Zero for t in tangents])
    n = len(jaxpr.outvars)
    with context_of(params):
        lin = ad.linearize_jaxpr(core.close_jaxpr(jaxpr), nonzeros)
        primal, made = _with_all_residuals(lin, n)
        primal = returning_residuals(primal, n, params)
        tangent = taking_residuals(lin.tangent, [kind == "res" for kind, _ in made], params)
    res_specs = [spec_of(a, params) for a in lin.residual_avals]
    new_specs = [s for s, (kind, _) in zip(res_specs, made) if kind == "res"]
    # A residual that is an argument enters the second body like the first one.
    given = [in_specs[i] if kind == "in" else s for s, (kind, i) in zip(res_specs, made)]
    results = apply(params, primal, primals, in_specs, [*out_specs, *new_specs])
    out_tangents: list[Any] = []
    if any(lin.nonzero_outs):
        residuals = [primals[i] if kind == "in" else results[n + i] for kind, i in made]
        out_tangents = apply(
            params, tangent, [*residuals, *select(tangents, nonzeros)],
            [*given, *map(tangent_spec, select(in_specs, nonzeros))],
            [*map(tangent_spec, select(out_specs, lin.nonzero_outs))],
        )  # fmt: skip
    return results[:n], with_outer_zeros(out_tangents, lin.nonzero_outs, results[:n])


def _with_all_residuals(lin: Any, n: int) -> tuple[ClosedJaxpr, list[tuple[str, int]]]:
    """The primal body with results that are residuals returned once more, and the sources.

    A result leaves the body by its own spec, by which another value could enter the second body: a
    result may differ between devices although its spec does not say so.
    """
    primal = lin.primal
    extra = [primal.jaxpr.outvars[i] for kind, i in lin.residual_sources if kind == "out"]
    if not extra:
        return primal, lin.residual_sources
    outvars = [*primal.jaxpr.outvars, *extra]
    where = iter(range(len(outvars) - len(extra) - n, len(outvars) - n))
    made = [("res", next(where)) if k == "out" else (k, i) for k, i in lin.residual_sources]
    info = primal.debug_info.with_unknown_names()
    jaxpr = primal.jaxpr.replace(outvars=outvars, debug_info=info)
    # Residuals are in the order of the results.
    return ClosedJaxpr(jaxpr, primal.consts), made


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    mesh, manual, check = params["mesh"], params["newly_manual_axes"], params["check_vma"]
    in_specs, out_specs = params["in_specs"], params["out_specs"]
    closed = core.close_jaxpr(params["jaxpr"])
    linear = tuple([ad.is_undefined_primal(x) for x in args])
    ct_nonzero = tuple([type(ct) is not ad.Zero for ct in cts])
    specs = [ct_spec(s) for s in select(in_specs, linear)]
    summed = varying = None
    if check:
        hi = core.HiPspec
        varying = tuple([frozenset(() if isinstance(s, hi) else spec_axes(s)) for s in specs])
    else:
        summed = tuple([unmentioned(mesh, manual, s) for s in specs])
    with context_of(params):
        transposed, nonzero_outs = _transposed_body(closed, linear, ct_nonzero, summed, varying)
    ct_specs = [ct_spec(s) for s in select(out_specs, ct_nonzero)]
    live = select(cts, ct_nonzero)
    if not check:
        # Each device gets the whole cotangent of a replicated result: their sum must be the whole.
        live = [
            _divided(ct, math.prod([mesh.shape[n] for n in unmentioned(mesh, manual, s)]))
            for ct, s in zip(live, ct_specs)
        ]
    known = [not m for m in linear]
    results = iter(
        apply(
            params,
            transposed,
            [*select(args, known), *live],
            [*select(in_specs, known), *ct_specs],
            select(specs, nonzero_outs),
        )  # fmt: skip
    )
    nonzero = iter(nonzero_outs)
    return [
        (next(results) if next(nonzero) else ad.Zero(x.aval.to_ct_aval())) if lin else None
        for x, lin in zip(args, linear)
    ]


def tangent_spec(spec: Any) -> Any:
    """The spec of a tangent."""
    return spec.to_tangent_spec() if isinstance(spec, core.HiPspec) else spec


def ct_spec(spec: Any) -> Any:
    """The spec of a cotangent."""
    if isinstance(spec, core.HiPspec):
        return spec.to_ct_spec()
    return spec.to_ct_spec() if spec.unreduced or spec.reduced else spec


def _divided(ct: Any, n: int) -> Any:
    return ct if n == 1 else lax.div(ct, const(ct, n))


@cached_on_jaxpr
def _transposed_body(
    closed: ClosedJaxpr, linear: tuple[bool, ...], ct_nonzero: tuple[bool, ...],
    summed: tuple[Any, ...] | None, varying: tuple[Any, ...] | None,
) -> Any:  # fmt: skip
    """The transpose of a body; cotangents are summed, or marked varying, as their specs need."""
    transposed, nonzero_outs = ad.transpose_jaxpr(closed, linear, ct_nonzero)

    def run(*args: Any) -> Any:
        outs = core.eval_jaxpr(transposed.jaxpr, transposed.consts, *args)
        if summed is not None:
            axes = select(summed, nonzero_outs)
            return [parallel.psum(x, n) if n else x for x, n in zip(outs, axes)]
        assert varying is not None
        return [vary_over(x, n) for x, n in zip(outs, select(varying, nonzero_outs))]

    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        run, transposed.in_avals, closed.debug_info.with_unknown_names()
    )
    return ClosedJaxpr(jaxpr, consts), nonzero_outs


shard_map_p.jvp = _jvp
shard_map_p.linearize = _linearize
shard_map_p.transpose = _transpose


# Batching


def _batch(
    axis_data: batching.AxisData, args: Sequence[Any], dims: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    closed, spmd = core.close_jaxpr(params["jaxpr"]), axis_data.spmd_name
    if spmd is not None:
        names = spmd if isinstance(spmd, tuple) else (spmd,)
        checks.check_spmd_axes(names, params, axis_data.size)
        if params["newly_manual_axes"].issuperset(names):
            return _batch_over_mesh(names, axis_data, args, dims, params)
        # The compiler shards the axis.
    with context_of(params):
        batched, out_dims = batching.batch_jaxpr2(closed, axis_data, dims)
    in_specs = _with_entries(params["in_specs"], dims, None)
    out_specs = _with_entries(params["out_specs"], out_dims, None)
    return apply(params, batched, args, in_specs, out_specs), list(out_dims)


def _with_entries(specs: Sequence[Any], dims: Sequence[Any], entry: Any) -> list[PartitionSpec]:
    return [s if d is None else insert_entry(s, d, entry) for s, d in zip(specs, dims)]


def _batch_over_mesh(
    names: tuple[Any, ...], axis_data: batching.AxisData, args: Sequence[Any], dims: Sequence[Any],
    params: Params,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Batch over an axis that is sharded over mesh axes: each device has some elements of it."""
    closed, spmd = core.close_jaxpr(params["jaxpr"]), axis_data.spmd_name
    parts = math.prod([params["mesh"].shape[n] for n in names])
    inner = batching.AxisData(axis_data.name, axis_data.size // parts, manual_axes=names)
    with context_of(params):
        if params["check_vma"]:
            batched, out_dims = _varying_batched(closed, inner, tuple(dims), frozenset(names))
        else:
            batched, out_dims = batching.batch_jaxpr2(closed, inner, dims)
    in_specs = _with_entries(params["in_specs"], dims, spmd)
    out_specs = _with_entries(params["out_specs"], out_dims, spmd)
    return apply(params, batched, args, in_specs, out_specs), list(out_dims)


def _varying_batched(
    closed: ClosedJaxpr, axis_data: batching.AxisData, dims: tuple[Any, ...], axes: frozenset[Any]
) -> tuple[ClosedJaxpr, Sequence[Any]]:
    """A batched body, in which what is batched varies over `axes`, and the results' dimensions."""
    batched, out_dims = batching.batch_jaxpr2(closed, axis_data, dims)
    is_batched = lambda ds: tuple([d is not None for d in ds])
    new = varying_body(batched, is_batched(dims), is_batched(out_dims), axes)
    varies = [isinstance(a, ShapedArray) and axes <= a.vma for a in new.out_avals]
    # A result that varies according to its type is batched, though its elements are equal.
    dests = [0 if v and d is None else d for v, d in zip(varies, out_dims)]
    if dests != list(out_dims):
        batched, out_dims = batching.batch_jaxpr_axes(closed, axis_data, dims, dests)
        new = varying_body(batched, is_batched(dims), is_batched(out_dims), axes)
    return new, out_dims


shard_map_p.axis_batch = _batch


# References


def _discharge(
    should: Sequence[bool], in_avals: Any, out_avals: Any, *args: Any, lower: bool, aliases: Any,
    **params: Any,
) -> Any:  # fmt: skip
    with context_of(params):
        closed = core.close_jaxpr(params["jaxpr"])
        new, finals = discharge_written(closed, should, lower, keeps_types=True)
    in_specs, n = params["in_specs"], len(out_avals)
    outs = apply(
        params, new, args, in_specs, [*params["out_specs"], *[in_specs[i] for i in finals]]
    )
    values: list[Any] = [None] * len(args)
    for i, x in zip(finals, outs[n:]):
        values[i] = x
    return values, outs[:n]


shard_map_p.discharge = _discharge
shard_map_p.ref_boundary = True


# Division and dead code


class _SplitRules(CallSplitRules):
    depends_on_use = True  # arrays that the body does not use are not sent to the devices

    def params_for(
        self, params: Params, closed: ClosedJaxpr, ins: Positions, outs: Positions
    ) -> Params:
        jaxpr = closed.jaxpr
        in_specs = tuple([
            spec_of(a, params) if i is None else params["in_specs"][i]
            for i, a in zip(ins, jaxpr.in_avals)
        ])  # fmt: skip
        out_specs = tuple([
            spec_of(a, params) if i is None else params["out_specs"][i]
            for i, a in zip(outs, jaxpr.out_avals)
        ])  # fmt: skip
        return dict(params, jaxpr=jaxpr, in_specs=in_specs, out_specs=out_specs)

    def divide(self, eqn: JaxprEqn, marked: Marks, hoisting: bool) -> TwoHalves:
        known = tuple([not m for m in marked])
        with context_of(eqn.params):
            parts = _divided_body(self.closed_jaxpr(eqn.params), known, hoisting)
            if parts is None:
                return None, eqn
            known_outs = positions(parts.known_outs)
            avals = parts.known.out_avals[len(known_outs) :]
            now = returning_residuals(parts.known, len(known_outs), eqn.params)
            later = taking_residuals(parts.rest, [True] * len(avals), eqn.params)
        rest_outs = positions([not k for k in parts.known_outs])
        stored = [Var(stored_aval(a, eqn.params)) for a in avals]
        outs = [*[eqn.outvars[i] for i in known_outs], *stored]
        first = rest = None
        if outs or now.effects:
            first = self._call(eqn, now, positions(known), known_outs, (), outs)
        if rest_outs or later.effects:
            outs = [eqn.outvars[i] for i in rest_outs]
            rest = self._call(eqn, later, positions(parts.rest_ins), rest_outs, stored, outs)
        return first, rest

    def is_whole(self, marked: Marks, params: Params) -> bool:
        known = tuple([not m for m in marked])
        with context_of(params):
            return _divided_body(self.closed_jaxpr(params), known, False) is None

    def in_two(self, eqn: JaxprEqn, plan: Planner) -> TwoEqns | None:
        params = eqn.params
        n = len(eqn.outvars)
        with context_of(params):
            first, again, avals = _planned_body(self.closed_jaxpr(params), plan)
            first = returning_residuals(first, n, params)
            again = taking_residuals(again, [True] * len(avals), params)
        stored = [Var(stored_aval(a, params)) for a in avals]
        ins, outs = range(len(eqn.invars)), range(n)
        eqn_first = self._call(eqn, first, ins, outs, (), [*eqn.outvars, *stored])
        eqn_again = self._call(eqn, again, ins, outs, stored, eqn.outvars)
        return TwoEqns([eqn_first], eqn_again, stored)

    def _call(
        self, eqn: JaxprEqn, closed: ClosedJaxpr, ins: Sequence[int], outs: Sequence[int],
        stored: Sequence[Var], outvars: Sequence[Var],
    ) -> JaxprEqn:  # fmt: skip
        new_eqn = super()._call(eqn, closed, ins, outs, stored, outvars)
        return new_eqn.replace(effects=self.effects(eqn, new_eqn.params, ()))

    def effects(self, eqn: Any, params: Params, operands: Sequence[Any]) -> core.Effects:
        return body_effects(params["jaxpr"], params["newly_manual_axes"])


# What a body does with the residuals that it takes, before it computes anything.
_RESHAPING = (lax.squeeze_p, lax.broadcast_in_dim_p, parallel.pvary_p)


@cached_on_jaxpr
def _divided_body(closed: ClosedJaxpr, known: tuple[bool, ...], hoisting: bool) -> Divided | None:
    """`divide_jaxpr`, unless the first part would only reshape residuals."""
    parts = divide_jaxpr(closed, known, hoisting)
    if parts is None or not any(parts.known_outs):
        eqns = () if parts is None else parts.known.eqns
        if all(eqn.primitive in _RESHAPING for eqn in eqns):
            return None
    return parts


@cached_on_jaxpr
def _planned_body(closed: ClosedJaxpr, planner: Planner) -> Any:
    plan = planner(closed)
    first = plan.first_jaxpr(closed, plan.saved)
    return first, plan.again_jaxpr(closed, plan.arrived), [v.aval for v in plan.saved]


shard_map_p.split = _SplitRules("jaxpr")


# High types


def _lojax(*args: Any, **params: Any) -> list[Any]:
    mesh, manual, check = params["mesh"], params["newly_manual_axes"], params["check_vma"]
    checks.check_not_mutable(params["jaxpr"].in_avals)
    with context_of(params):
        low = lojax.lower_jaxpr(core.close_jaxpr(params["jaxpr"]))
    arrays = lojax.lower_values([core.typeof(x) for x in args], args)
    in_specs, out_specs = params["in_specs"], params["out_specs"]
    outs = apply(params, low.closed, arrays, lo_specs(in_specs), lo_specs(out_specs))
    types = [unshard_aval(mesh, manual, s, a, check) for s, a in zip(out_specs, low.out_types)]
    return lojax.raise_values(types, outs)


shard_map_p.to_lojax = _lojax  # type: ignore[method-assign]
