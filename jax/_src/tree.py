"""`jax.tree`: pytree functions under short names."""

from __future__ import annotations

import dataclasses
from typing import Any

from jax._src.tree_util import (
    tree_all as all,
    tree_broadcast as broadcast,
    tree_flatten as flatten,
    tree_flatten_with_path as flatten_with_path,
    tree_leaves as leaves,
    tree_leaves_with_path as leaves_with_path,
    tree_map as map,
    tree_map_with_path as map_with_path,
    tree_reduce as reduce,
    tree_reduce_associative as reduce_associative,
    tree_structure as structure,
    tree_transpose as transpose,
    tree_unflatten as unflatten,
)


def static(**kwargs: Any) -> Any:
    """Declares a static field of a dataclass that is registered as a pytree.

    Args:
      **kwargs: arguments for :func:`dataclasses.field`.

    Returns:
      A field whose metadata has ``static=True``, which :func:`jax.tree_util.register_dataclass` reads.

    Example:
      >>> import dataclasses, jax
      >>> @jax.tree_util.register_dataclass
      ... @dataclasses.dataclass
      ... class Op:
      ...   x: float
      ...   name: str = jax.tree.static(default="add")
      >>> jax.tree.structure(Op(1.0))
      PyTreeDef(CustomNode(Op[('add',)], [*]))
    """
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **kwargs)


__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
