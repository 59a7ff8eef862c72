"""All-gather of arrays with explicitly sharded types, outside of `shard_map`."""

from __future__ import annotations

from typing import Any

from jax._src import api_util
from jax._src.api import jit
from jax._src.core import typeof
from jax._src.lax import parallel
from jax._src.mesh import get_abstract_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.shard_map.api import shard_map
from jax._src.shard_map.specs import entry_axes, explicit_spec, part_over
from jax._src.tree_util import tree_flatten, tree_unflatten


def top_level_all_gather(xs: Any, out_sharding: Any, *, multi_dim: bool = False) -> Any:
    """Replicate arrays over some of the mesh axes that they are sharded over.

    Args:
      xs: a pytree of arrays, sharded over Explicit axes of the mesh in context.
      out_sharding: a tree prefix of :class:`jax.P` or :class:`jax.NamedSharding`. Each entry of a
        spec is a prefix of the entry of the array's sharding. Axes in `reduced` are gathered so
        that cotangents are unreduced over them.
      multi_dim: whether several dimensions of an array can be gathered.

    Returns:
      Arrays with the same elements and these shardings.

    Raises:
      ValueError: the mesh has axes that are not Explicit, or a sharding does not fit its array.
    """
    mesh = get_abstract_mesh()
    if not mesh.are_all_axes_explicit:
        raise ValueError(
            "top_level_all_gather works when all mesh axes of context mesh are explicit. Got "
            f"{mesh}: set one with `jax.set_mesh`."
        )
    leaves, tree = tree_flatten(xs)
    shardings = api_util.flatten_axes("top_level_all_gather out_sharding", tree, out_sharding)
    return tree_unflatten(tree, [_gather(x, s, mesh, multi_dim) for x, s in zip(leaves, shardings)])


def _gather(x: Any, sharding: Any, mesh: Any, multi_dim: bool) -> Any:
    spec = sharding.spec if isinstance(sharding, NamedSharding) else sharding
    aval = typeof(x)
    axes = frozenset(mesh.axis_names)
    before, after = explicit_spec(aval, axes), part_over(spec, axes, aval.ndim)
    gathered: list[tuple[int, tuple[Any, ...]]] = []
    for dim, (has, asked) in enumerate(zip(before.partitions, after.partitions)):
        has, asked = entry_axes(has), entry_axes(asked)
        if has[: len(asked)] != asked:
            raise ValueError(
                f"top_level_all_gather only gathers: entry {dim} of the sharding {after} must be a "
                f"prefix of that of the array's, {before}, of type {aval.str_short()}. Use "
                "`jax.sharding.reshard` for other changes."
            )
        if len(asked) < len(has):
            gathered.append((dim, has[len(asked) :]))
    if len(gathered) > 1 and not multi_dim:
        raise ValueError(
            f"top_level_all_gather of {aval.str_short()} to {after} gathers dimensions "
            f"{[d for d, _ in gathered]}: pass multi_dim=True to gather several."
        )

    def all_gather(x: Any) -> Any:
        for dim, names in gathered:
            to = "reduced" if spec.reduced.issuperset(names) else "invarying"
            x = parallel.all_gather(x, names, axis=dim, tiled=True, to=to)
        return x

    return jit(shard_map(all_gather, in_specs=before, out_specs=after))(x)
