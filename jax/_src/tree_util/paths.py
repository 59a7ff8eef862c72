"""Key paths: the positions of leaves in a tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jax._src.lib import pytree
from jax._src.tree_util.registry import (
    PyTreeDef,
    default_registry,
    export,
    flatten_one_level_with_keys,
)

SequenceKey = pytree.SequenceKey
DictKey = pytree.DictKey
GetAttrKey = pytree.GetAttrKey
FlattenedIndexKey = pytree.FlattenedIndexKey

# Any hashable object with a readable str() can be a key of a custom node.
KeyEntry = TypeVar("KeyEntry")
KeyPath = tuple[KeyEntry, ...]

_flatten_with_path = default_registry.flatten_with_path


@export
def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Writes a key path as a string.

    Args:
      keys: a key path, as from :func:`tree_flatten_with_path`.
      simple: whether to write bare names and indices instead of a Python expression.
      separator: text between the parts.

    Example:
      >>> import jax
      >>> path, _ = jax.tree.leaves_with_path({"layers": [{"w": 1.0}]})[0]
      >>> jax.tree_util.keystr(path)
      "['layers'][0]['w']"
      >>> jax.tree_util.keystr(path, simple=True, separator="/")
      'layers/0/w'
    """
    return separator.join(map(_simple_entrystr if simple else str, keys))


def _simple_entrystr(key: Any) -> str:
    match key:
        case SequenceKey(idx=name) | GetAttrKey(name=name):
            return str(name)
        case DictKey(key=name) | FlattenedIndexKey(key=name):
            return str(name)
        case _:
            return str(key)


@export
def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Like :func:`tree_flatten`, with the key path of each leaf.

    Args:
      tree: a pytree.
      is_leaf: see :func:`tree_flatten`.
      is_leaf_takes_path: whether ``is_leaf`` takes two arguments, the key path and the node.

    Returns:
      ``([(path, leaf), ...], treedef)``.

    Example:
      >>> import jax
      >>> jax.tree.flatten_with_path({"a": [1]})
      ([((DictKey(key='a'), SequenceKey(idx=0)), 1)], PyTreeDef({'a': [*]}))
    """
    if is_leaf is None or is_leaf_takes_path:
        return _flatten_with_path(tree, is_leaf)
    return _flatten_with_path(tree, lambda _, node: is_leaf(node))


@export
def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree with their key paths. Arguments: see :func:`tree_flatten_with_path`.

    Example:
      >>> import jax
      >>> jax.tree.leaves_with_path([1, (2,)])
      [((SequenceKey(idx=0),), 1), ((SequenceKey(idx=1), SequenceKey(idx=0)), 2)]
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


generate_key_paths = tree_leaves_with_path


def _child_keys(tree: Any) -> KeyPath:
    """The keys of a node's children."""
    return tuple(key for key, _ in flatten_one_level_with_keys(tree)[0])
