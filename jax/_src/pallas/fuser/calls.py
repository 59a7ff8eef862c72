"""Primitives that are calls: without the fuser they are what their jaxpr says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import core
from jax._src.api import jvp as api_jvp, vmap
from jax._src.core import Primitive
from jax._src.interpreters import ad, batching, mlir
from jax._src.pallas.fuser.staging import Staged
from jax._src.tree_util import tree_unflatten


def call_primitive(name: str) -> Primitive:
    """Make a primitive with a parameter `jaxpr`, a closed jaxpr of its operands."""
    p = Primitive(name, multiple_results=True)

    def run(*args: Any, jaxpr: core.ClosedJaxpr, **_: Any) -> list[Any]:
        return core.jaxpr_as_fun(jaxpr)(*args)

    def types(*_: Any, jaxpr: core.ClosedJaxpr, **__: Any) -> Any:
        return list(jaxpr.out_avals), jaxpr.effects

    def forward(primals: Any, tangents: Any, **params: Any) -> Any:
        tangents = [ad.instantiate_zeros(t) for t in tangents]
        return api_jvp(lambda *xs: run(*xs, **params), tuple(primals), tuple(tangents))

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        outs = vmap(lambda *xs: run(*xs, **params), tuple(dims))(*args)
        return outs, [0] * len(outs)

    p.def_impl(run)
    p.def_effectful_abstract_eval(types)
    mlir.register_lowering(p, mlir.lower_fun(run, multiple_results=True))
    ad.primitive_jvps[p] = forward
    batching.primitive_batchers[p] = batch
    return p


def bind_call(p: Primitive, staged: Staged, args: Sequence[Any], **params: Any) -> Any:
    """Apply a primitive that is a call to a staged function and the leaves of its arguments.

    Args:
      p: the primitive.
      staged: the function.
      args: the leaves.
      **params: more parameters of the primitive.
    """
    outs = p.bind(
        *staged.consts,
        *args,
        jaxpr=core.ClosedJaxpr(staged.jaxpr, ()),
        num_consts=len(staged.consts),
        in_tree=staged.in_tree,
        out_tree=staged.out_tree,
        **params,
    )
    return tree_unflatten(staged.out_tree, outs)
