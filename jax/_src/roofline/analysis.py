"""`roofline`: the costs of a function, as sums over the equations of its jaxpr."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jax._src import core, dtypes, source_info_util
from jax._src.api import make_jaxpr
from jax._src.core import ClosedJaxpr, DropVar, Jaxpr, ShapeDtypeStruct, Var
from jax._src.core.jaxpr import JaxprEqn, last_used
from jax._src.interpreters import partial_eval as pe
from jax._src.lax import lax
from jax._src.mesh import AbstractMesh, Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.roofline.results import RooflineResult, RooflineRuleContext, RooflineShape
from jax._src.roofline.rules import rule_of
from jax._src.shard_map import shard_map, shard_map_p
from jax._src.transforms.derivatives import vjp as make_vjp
from jax._src.tree_util import broadcast_prefix, tree_map, tree_structure, tree_unflatten

logger = logging.getLogger(__name__)


def roofline(
    f: Callable[..., Any],
    mesh: Mesh | AbstractMesh | None = None,
    in_specs: Any = None,
    out_specs: Any = None,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    vjp: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult]]:
    """Estimates the costs of a function on one device, without compiling it.

    The costs are sums over the operations that the results depend on. The body of a `scan` counts
    once, and `while_loop` and `cond` count as nothing. Operations without a rule count as nothing,
    with a warning; see `register_roofline`.

    Args:
      f: the function.
      mesh, in_specs, out_specs: if the specs are given, it is a function of shards, as in
        `jax.shard_map`, and the costs are those of one shard.
      pin_lhs_in_vmem, pin_rhs_in_vmem: whether the left operands of matrix products, and their
        results, or the right operands stay in fast memory, so that they count as no bytes.
      vjp: whether to estimate the function that computes the results and the gradient of its
        arguments.
      print_jaxpr: whether to print the jaxpr.

    Returns:
      A function of the arguments of `f`, arrays or `jax.ShapeDtypeStruct`s, that returns the types of
      its results (of the gradients, with `vjp`) and a `RooflineResult`.

    >>> from jax.experimental.roofline import roofline
    >>> x = jax.ShapeDtypeStruct((8, 16), jnp.float32)
    >>> out, costs = roofline(lambda x: jnp.tanh(x @ x.T))(x)
    >>> out.shape, costs.flops, costs.hbm_bytes
    ((8, 8), 2048, 1280)
    """
    sharded = in_specs is not None

    def wrapped(*args: Any) -> tuple[Any, RooflineResult]:
        fun = f
        if sharded:
            fun = shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
        if vjp:
            fun = _with_vjp(fun)
        closed, out_shapes = make_jaxpr(fun, return_shape=True)(*args)
        if print_jaxpr:
            print(closed.jaxpr)
        analysis = _Analysis(
            source_info_util.new_name_stack(f"roofline({_name(f)})"),
            pin_lhs_in_vmem,
            pin_rhs_in_vmem,
        )
        jaxpr = closed.jaxpr
        if sharded or not vjp:  # with `vjp`, the costs of the results count as well
            jaxpr, _ = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
        if not sharded:
            return out_shapes, analysis.of_jaxpr(jaxpr, mesh)
        if not vjp:
            out_shapes = _placed(out_shapes, mesh, out_specs)
        shards = [eqn for eqn in jaxpr.eqns if eqn.primitive is shard_map_p]
        result = RooflineResult.zeros()
        for eqn in shards:
            result += analysis.of_jaxpr(eqn.params["jaxpr"], eqn.params["mesh"])
        return out_shapes, result

    return wrapped


def roofline_and_grad(
    f: Callable[..., Any],
    mesh: Mesh | AbstractMesh,
    in_specs: Any,
    out_specs: Any,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult, RooflineResult]]:
    """Estimates the costs of a function of shards, and those of its gradient.

    Args:
      f, mesh, in_specs, out_specs, pin_lhs_in_vmem, pin_rhs_in_vmem, print_jaxpr: see `roofline`.

    Returns:
      A function that returns the types of the results of `f`, its costs and those of the gradient.
    """
    options = dict(
        pin_lhs_in_vmem=pin_lhs_in_vmem, pin_rhs_in_vmem=pin_rhs_in_vmem, print_jaxpr=print_jaxpr
    )

    def wrapped(*args: Any) -> tuple[Any, RooflineResult, RooflineResult]:
        shapes, result = roofline(f, mesh, in_specs, out_specs, **options)(*args)
        _, of_gradient = roofline(f, mesh, in_specs, out_specs, vjp=True, **options)(*args)
        return shapes, result, of_gradient

    return wrapped


def _name(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _with_vjp(fun: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(*args: Any) -> Any:
        outs, pull_back = make_vjp(fun, *args)
        return pull_back(tree_map(_one, outs))

    return gradient


def _one(x: Any) -> Any:
    aval = core.typeof(x).to_ct_aval()
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, aval.dtype)
    return lax.full_like(x, 1)


def _placed(shapes: Any, mesh: Any, specs: Any) -> Any:
    """The types with their shardings."""
    flat = broadcast_prefix(specs, shapes, is_leaf=lambda x: x is None)
    tree = tree_structure(shapes)
    shardings = tree_unflatten(tree, [NamedSharding(mesh, s) for s in flat])
    return tree_map(lambda x, s: ShapeDtypeStruct(x.shape, x.dtype, sharding=s), shapes, shardings)


class _Analysis:
    """Adds up the costs of equations."""

    def __init__(self, name_stack: Any, pin_lhs_in_vmem: bool, pin_rhs_in_vmem: bool):
        self.name_stack = name_stack
        self.pins = dict(pin_lhs_in_vmem=pin_lhs_in_vmem, pin_rhs_in_vmem=pin_rhs_in_vmem)

    def of_jaxpr(self, jaxpr: Jaxpr, mesh: Any) -> RooflineResult:
        """The costs of the equations, and the peak of the bytes of variables that are still used."""
        last = last_used(jaxpr)
        current = sum(_nbytes(v) for v in {*jaxpr.constvars, *jaxpr.invars} if v in last)
        total = RooflineResult(peak_hbm_bytes=current)
        for eqn in jaxpr.eqns:
            total += self.of_eqn(eqn, mesh)
            current += sum(_nbytes(v) for v in eqn.outvars if v in last)
            current -= sum(_nbytes(v) for v in _variables(eqn.invars) if last[v] is eqn)
            total += RooflineResult(peak_hbm_bytes=current)
        return total

    def of_eqn(self, eqn: JaxprEqn, mesh: Any) -> RooflineResult:
        inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        if isinstance(inner, (ClosedJaxpr, Jaxpr)):
            jaxpr = inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner
            return self.of_jaxpr(
                jaxpr, eqn.params["mesh"] if eqn.primitive is shard_map_p else mesh
            )
        rule = rule_of(eqn.primitive)
        if rule is None:
            logger.warning(
                "roofline: no rule for the primitive %s, which counts as nothing; see"
                " register_roofline.",
                eqn.primitive,
            )
            return RooflineResult.zeros()
        avals = [v.aval for v in eqn.invars]
        ctx = RooflineRuleContext(
            name_stack=self.name_stack + eqn.source_info.name_stack,
            primitive=eqn.primitive,
            avals_in=avals,
            avals_out=[v.aval for v in eqn.outvars],
            jaxpr_eqn_ctx=eqn.ctx,
            mesh=mesh,
            **self.pins,
        )
        shapes = [RooflineShape.from_aval(a) if _is_array(a) else a for a in avals]
        return rule(ctx, *shapes, **eqn.params)


def _is_array(aval: Any) -> bool:
    return isinstance(aval, core.ShapedArray)


def _variables(atoms: Iterable[Any]) -> set[Var]:
    return {v for v in atoms if isinstance(v, Var)}


def _nbytes(v: Var) -> int:
    if isinstance(v, DropVar) or not _is_array(v.aval):
        return 0
    return RooflineShape.from_aval(v.aval).bytes
