"""What equations cost: operations, as XLA counts them before it optimizes, and bytes that are read and written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from jax._src.core import ClosedJaxpr, Jaxpr, ShapedArray, Var, jaxprs_in_params
from jax._src.core.jaxpr import JaxprEqn, Literal, new_jaxpr_eqn
from jax._src.jit.primitive import call_params, lower

# Equations that run their jaxprs once. Of several jaxprs (those of derivatives), the first one is what runs.
_CALLS = frozenset({
    "jit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call",
    "shard_map", "pmap", "custom_lin", "run_state", "custom_vmap_call",
})  # fmt: skip
# Equations that move data between devices. They count as no operations.
MOVES = frozenset({
    "sharding_constraint", "reshard", "psum", "psum_invariant", "all_gather", "all_gather_invariant",
    "all_gather_reduced", "all_to_all", "ragged_all_to_all", "ppermute", "reduce_scatter", "pmax", "pmin",
    "unreduced_psum", "unreduced_reduce_scatter", "psend", "precv", "pbroadcast", "device_put",
})  # fmt: skip
# Parameters that say where results are, not what they cost.
_PLACEMENTS = ("sharding", "out_sharding")

_counted: dict[Any, float | None] = {}


def nbytes(avals: Iterable[Any]) -> int:
    """The bytes of arrays of these types; values of other types count as none."""
    return sum(
        math.prod(a.shape) * getattr(a.dtype, "itemsize", 0)
        for a in avals
        if isinstance(a, ShapedArray) and all(isinstance(n, int) for n in a.shape)
    )


def traffic(eqn: JaxprEqn) -> int:
    """Bytes of the operands and results of an equation, or of those that it runs; of loops and branches see `flops`."""
    inner = [sum(map(traffic, jaxpr.eqns)) for jaxpr in jaxprs_in_params(eqn.params)]
    runs = _runs(eqn)
    if runs is None or not inner:
        return nbytes(v.aval for v in {*variables(eqn.invars), *variables(eqn.outvars)})
    return round(runs(inner))


def _runs(eqn: JaxprEqn) -> Callable[[list[Any]], Any] | None:
    """From costs of the jaxprs of an equation to what it costs; None if XLA has an operation for it."""
    name = eqn.primitive.name
    if name in _CALLS:
        return lambda costs: costs[0]
    if name == "scan":
        return lambda costs: costs[0] * eqn.params["length"]
    if name in ("while", "bounded_scan"):  # the latter is part of derivatives of the former
        return sum
    return max if name == "cond" else None


def variables(atoms: Iterable[Any]) -> list[Var]:
    return [v for v in atoms if type(v) is not Literal]


def flops(eqn: JaxprEqn) -> float | None:
    """Floating-point operations of an equation, transcendental ones included; None if they are not known.

    A `while` loop, whose number of iterations is not known, counts as one iteration, and `cond` as its most
    expensive branch.
    """
    inner = [jaxpr_flops(jaxpr) for jaxpr in jaxprs_in_params(eqn.params)]
    runs = _runs(eqn)
    if runs is not None and inner:
        known: list[float] = [count for count in inner if count is not None]
        return runs(known) if len(known) == len(inner) else None
    if eqn.primitive.name in MOVES:
        return 0.0
    try:
        key = eqn.primitive, tuple(v.aval for v in eqn.invars), tuple(eqn.params.items())
        if key not in _counted:
            _counted[key] = _count(eqn)
        return _counted[key]
    except TypeError:  # parameters that cannot be keys
        return _count(eqn)


def jaxpr_flops(jaxpr: Jaxpr) -> float | None:
    """The sum over the equations; None if one of them is not known."""
    return _total(flops(eqn) for eqn in jaxpr.eqns)


def _total(counts: Iterable[float | None]) -> float | None:
    known = list(counts)
    return None if None in known else sum(filter(None, known))


def _count(eqn: JaxprEqn) -> float | None:
    """Asks XLA about the equation alone, without shardings."""
    ins = [Var(_unplaced(v.aval)) for v in eqn.invars]
    outs = [Var(_unplaced(v.aval)) for v in eqn.outvars]
    params = {k: None if k in _PLACEMENTS else v for k, v in eqn.params.items()}
    alone = new_jaxpr_eqn(ins, outs, eqn.primitive, params, eqn.effects, eqn.source_info, eqn.ctx)
    closed = ClosedJaxpr(Jaxpr([], ins, outs, [alone], eqn.effects), [])
    try:
        costs = lower(call_params(closed, eqn.primitive.name), [v.aval for v in ins])
        found = costs.cost_analysis() or {}
    except Exception:  # not a program on its own: collectives without their mesh, references, ...
        return None
    return max(found.get("flops", 0.0), 0.0) + max(found.get("transcendentals", 0.0), 0.0)


def _unplaced(aval: Any) -> Any:
    if isinstance(aval, ShapedArray):
        return ShapedArray(aval.shape, aval.dtype, aval.weak_type)
    return aval
