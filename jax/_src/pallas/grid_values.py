"""The position in a grid: who asks for it, and jaxprs with values in place of the primitives that do."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from jax._src import core
from jax._src.core import ClosedJaxpr, Jaxpr, Primitive
from jax._src.lax.parallel import axis_index_p
from jax._src.pallas.grids import GridMapping
from jax._src.pallas.primitives import num_programs_p, program_id_p

# A primitive without operands whose value the grid says, and its axis: a number or a name.
GridValue = tuple[Primitive, Any]


def _grid_value(eqn: Any) -> GridValue | None:
    p = eqn.primitive
    if p is program_id_p or p is num_programs_p:
        return p, eqn.params["axis"]
    return (p, eqn.params["axis_name"]) if p is axis_index_p else None


def with_grid_values(closed: ClosedJaxpr, known: dict[GridValue, Any]) -> ClosedJaxpr:
    """Put values in place of `program_id`, `num_programs` and `axis_index`, also in nested jaxprs.

    The values are constants of the new jaxprs. Where a primitive with a jaxpr is applied, those that
    are tracers become its operands.

    Args:
      closed: the jaxpr.
      known: the values, integers or int32 scalars, by primitive and axis.
    """
    if not _asks_for_grid(closed.jaxpr):
        return closed
    constants: dict[Any, Any] = {}
    eqns = []
    for eqn in closed.jaxpr.eqns:
        if (asked := _grid_value(eqn)) in known:
            (out,) = eqn.outvars
            constants[out] = np.int32(value) if isinstance(value := known[asked], int) else value
            continue
        if any(map(_asks_for_grid, core.jaxprs_in_params(eqn.params))):
            eqn = eqn.replace(params={k: _in_param(v, known) for k, v in eqn.params.items()})
        eqns.append(eqn)
    jaxpr = closed.jaxpr.replace(
        constvars=[*closed.jaxpr.constvars, *constants],
        eqns=eqns,
        debug_info=closed.jaxpr.debug_info.with_unknown_names(),
    )
    return ClosedJaxpr(jaxpr, [*closed.consts, *constants.values()])


def _in_param(value: Any, known: dict[GridValue, Any]) -> Any:
    if isinstance(value, ClosedJaxpr):
        return with_grid_values(value, known)
    if isinstance(value, (tuple, list)) and any(isinstance(v, ClosedJaxpr) for v in value):
        items = [_in_param(v, known) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


@core.cached_on_jaxpr
def _asks_for_grid(jaxpr: Jaxpr) -> bool:
    return any(
        _grid_value(eqn) is not None or any(map(_asks_for_grid, core.jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )


def axes_asked_for(jaxpr: Jaxpr) -> set[Any]:
    """Return the names of the axes whose index a kernel asks for, but for those that it binds."""
    out = set()
    for eqn in jaxpr.eqns:
        if eqn.primitive is axis_index_p:
            out.add(eqn.params["axis_name"])
        bound = {eqn.params["mesh"].axis_name} if eqn.primitive.name == "warp_map" else set()
        for j in core.jaxprs_in_params(eqn.params):
            out |= axes_asked_for(j) - bound
    return out


def axes_from_outside(
    jaxpr: Jaxpr, mapping: GridMapping, mesh: Any, devices: Iterable[Hashable]
) -> list[Any]:
    """Return the names of the axes whose index a kernel asks for, but for those of its grid, its mesh and of devices."""
    own = {*(mapping.grid_names or ()), *(() if mesh is None else mesh.shape), *devices}
    return sorted(axes_asked_for(jaxpr) - own, key=str)
