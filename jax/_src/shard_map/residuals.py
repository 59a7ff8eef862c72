"""Residuals: values that the body of one shard_map stores for the body of another.

Each device keeps its own value, so the devices' values are concatenated along the first dimension. A
scalar that differs between devices gets a dimension for this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import core
from jax._src.core import ClosedJaxpr, ShapedArray, cached_on_jaxpr
from jax._src.interpreters import partial_eval as pe
from jax._src.interpreters.split_rules import Params
from jax._src.lax import lax
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map.specs import residual_spec, unshard_aval


def has_new_dimension(aval: Any, params: Params) -> bool:
    """Whether a residual of this type is stored with an additional leading dimension."""
    return isinstance(aval, ShapedArray) and not aval.shape and bool(spec_of(aval, params))


def spec_of(aval: Any, params: Params) -> PartitionSpec:
    """The spec of a residual whose shards have this type."""
    manual, check = params["newly_manual_axes"], params["check_vma"]
    return residual_spec(params["mesh"], manual, check, aval)


def stored_aval(aval: Any, params: Params) -> Any:
    """The type of a residual outside of the bodies."""
    spec = spec_of(aval, params)
    if has_new_dimension(aval, params):
        aval = aval.update(shape=(1,), sharding=_one_more(aval))
    return unshard_aval(params["mesh"], params["newly_manual_axes"], spec, aval)


def with_dimension(x: Any, params: Params) -> Any:
    """A residual as it leaves the body."""
    return lax.broadcast(x, (1,)) if has_new_dimension(x.aval, params) else x


def _one_more(aval: Any) -> Any:
    return None if aval._sharding is None else aval._sharding.update(spec=PartitionSpec(None))


def returning_residuals(closed: ClosedJaxpr, start: int, params: Params) -> ClosedJaxpr:
    """A body whose results from `start` on are residuals: scalars get a dimension."""
    marks = [i >= start and has_new_dimension(a, params) for i, a in enumerate(closed.out_avals)]
    if not any(marks):
        return closed
    return _reshaped(closed, (), tuple(marks))


def taking_residuals(closed: ClosedJaxpr, which: Sequence[bool], params: Params) -> ClosedJaxpr:
    """A body whose first arguments are residuals, where `which` says so."""
    which = (*which, *[False] * (len(closed.in_avals) - len(which)))
    marks = [r and has_new_dimension(a, params) for r, a in zip(which, closed.in_avals)]
    if not any(marks):
        return closed
    return _reshaped(closed, tuple(marks), ())


@cached_on_jaxpr
def _reshaped(closed: ClosedJaxpr, ins: Sequence[bool], outs: Sequence[bool]) -> ClosedJaxpr:
    def run(*args: Any) -> Any:
        args = [lax.squeeze(x, (0,)) if m else x for x, m in zip(args, ins or (False,) * len(args))]
        results = core.eval_jaxpr(closed.jaxpr, closed.consts, *args)
        marks = outs or (False,) * len(results)
        return [lax.broadcast(x, (1,)) if m else x for x, m in zip(results, marks)]

    avals = [
        a.update(shape=(1,), sharding=_one_more(a)) if m else a
        for a, m in zip(closed.in_avals, ins or (False,) * len(closed.in_avals))
    ]
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, avals, closed.debug_info.with_unknown_names())
    return ClosedJaxpr(jaxpr, consts)
