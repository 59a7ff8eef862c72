"""`shard_alike`: two arrays that the compiler shards in the same way."""

from __future__ import annotations

from typing import Any

from jax._src import config, core, dispatch, lib
from jax._src.core import Primitive, typeof
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lib.mlir.dialects import sdy
from jax._src.traceback_util import api_boundary, register_exclusion
from jax._src.tree_util import tree_flatten, tree_unflatten

register_exclusion(__file__)


@api_boundary
def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Make the compiler shard two arrays in the same way, without saying in which.

    Args:
      x, y: pytrees of arrays with equal structures and shapes.

    Returns:
      The same values.

    Raises:
      ValueError: the structures or the shapes differ.

    Example:
      >>> from jax.experimental.shard_alike import shard_alike
      >>> @jax.jit
      ... def f(x):
      ...   x, noise = shard_alike(x, jnp.ones_like(x))
      ...   return x + noise
      >>> print(f(jnp.arange(3.)))
      [1. 2. 3.]
    """
    x_leaves, x_tree = tree_flatten(x)
    y_leaves, y_tree = tree_flatten(y)
    if x_tree != y_tree:
        raise ValueError(
            f"Trees should be equal. Got x_tree: {x_tree}, y_tree: {y_tree}: call shard_alike on"
            " pytrees with the same structure."
        )
    for a, b in zip(x_leaves, y_leaves):
        for leaf in (a, b):
            if not core.valid_jaxtype(leaf):
                raise TypeError(f"shard_alike takes arrays, got {leaf!r} of type {type(leaf)}.")
        a_shape, b_shape = typeof(a).shape, typeof(b).shape
        if a_shape != b_shape:
            raise ValueError(
                "The leaves shapes of `x` and `y` should match. Got `x` leaf shape:"
                f" {a_shape} and `y` leaf shape: {b_shape}."
            )
    pairs = [shard_alike_p.bind(a, b) for a, b in zip(x_leaves, y_leaves)]
    return (
        tree_unflatten(x_tree, [a for a, _ in pairs]),
        tree_unflatten(y_tree, [b for _, b in pairs]),
    )


shard_alike_p = Primitive("shard_alike", multiple_results=True)
shard_alike_p.def_abstract_eval(lambda x, y: (x, y))


@shard_alike_p.def_impl
def _impl(x: Any, y: Any) -> Any:
    return dispatch.apply_primitive(shard_alike_p, late.to_array(x), late.to_array(y))


def _jvp(primals: Any, tangents: Any) -> Any:
    outs = shard_alike_p.bind(*primals)
    if all(type(t) is ad.Zero for t in tangents):
        return outs, list(tangents)
    return outs, shard_alike_p.bind(*[ad.instantiate_zeros(t) for t in tangents])


def _transpose(cts: Any, x: Any, y: Any) -> Any:
    if all(type(ct) is not ad.Zero for ct in cts):
        cts = shard_alike_p.bind(*cts)
    return [ct if ad.is_undefined_primal(v) else None for ct, v in zip(cts, (x, y))]


def _batch(axis_data: Any, args: Any, dims: Any) -> Any:
    dim = dims[1] if dims[0] is None else dims[0]
    matched = [batching.match_axis(axis_data, x, d, dim) for x, d in zip(args, dims)]
    return shard_alike_p.bind(*matched), [dim, dim]


def _lowering(ctx: Any, x: Any, y: Any) -> Any:
    group = ctx.module_context.new_channel()  # a number that no other group of the module has
    return [_in_group(ctx, v, aval, group) for v, aval in zip((x, y), ctx.avals_in)]


def _in_group(ctx: Any, x: Any, aval: Any, group: int) -> Any:
    if config.use_shardy_partitioner.value:
        sdy.sharding_group(x, group)
        return x
    unknown = lib.hlo.OpSharding()
    unknown.type = lib.hlo.OpSharding.Type.UNKNOWN
    unknown.is_shard_group = True
    unknown.shard_group_id = group
    unknown.shard_group_type = lib.hlo.OpSharding.ShardGroupType.AS
    return mlir.wrap_with_sharding_op(ctx, x, aval, unknown, has_side_effect=True)


shard_alike_p.jvp = _jvp
shard_alike_p.transpose = _transpose
shard_alike_p.axis_batch = _batch
mlir.register_lowering(shard_alike_p, _lowering)
