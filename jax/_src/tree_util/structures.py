"""Information from a tree structure alone: its nodes, key paths of leaves, matching prefixes.

Nothing here creates instances of users' classes, whose constructors may inspect their children. The
only exception is `probed_keys`, which is used for error messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jax._src.lib import pytree
from jax._src.tree_util.paths import KeyPath
from jax._src.tree_util.registry import (
    PyTreeDef,
    default_registry,
    flatten_one_level_with_keys,
    indices_as_keys,
    keyed_by_instances,
    keys_by_type,
)


def child_keys(treedef: PyTreeDef, n: int) -> KeyPath | None:
    """The keys of a node's `n` children; None if only an instance of its class has them."""
    kind, aux = treedef.node_data()
    if kind in keys_by_type:
        keys = keys_by_type[kind]
        return keys(aux, n) if keys is not None else None if n else ()
    if kind is dict:
        return tuple(map(pytree.DictKey, aux))
    if kind is not tuple and issubclass(kind, tuple):
        return tuple(map(pytree.GetAttrKey, kind._fields))
    return tuple(map(pytree.SequenceKey, range(n)))


def probed_keys(treedef: PyTreeDef, n: int) -> KeyPath:
    """The keys of a node's `n` children, from an instance whose children are placeholders.

    For error messages only. A class may reject placeholders; its children are then numbered.
    """
    kind, aux = treedef.node_data()
    node = PyTreeDef.from_node_data_and_children(default_registry, (kind, aux), [_leaf] * n)
    try:
        pairs, _ = flatten_one_level_with_keys(node.unflatten([object()] * n))
        keys = tuple([key for key, _ in pairs])
    except Exception:  # whatever a class raises if it expects arrays
        return indices_as_keys(aux, n)
    return keys if len(keys) == n else indices_as_keys(aux, n)


_leaf = default_registry.flatten(0)[1]


def needs_instance(treedef: PyTreeDef) -> bool:
    """Whether a structure has nodes whose keys are only known to instances."""
    if not keyed_by_instances:
        return False
    data = treedef.node_data()
    if data is None or treedef.num_leaves == 0:
        return False
    if data[0] in keyed_by_instances:
        return True
    return any([needs_instance(child) for child in treedef.children() if child.num_nodes > 1])


def leaf_key_paths(treedef: PyTreeDef) -> list[KeyPath]:
    """The key path of each leaf of a structure."""
    paths: list[KeyPath] = []

    def walk(tree: PyTreeDef, path: KeyPath) -> None:
        n = tree.num_leaves
        only_leaves = tree.num_nodes == n + 1
        children = () if only_leaves else tree.children()
        count = n if only_leaves else len(children)
        keys = child_keys(tree, count)
        if keys is None:
            keys = probed_keys(tree, count)
        if only_leaves:
            paths.extend([(*path, key) for key in keys])
            return
        for key, child in zip(keys, children):
            if child.num_nodes > 1:
                walk(child, (*path, key))
            elif child.num_leaves:
                paths.append((*path, key))

    if treedef.num_nodes > 1:
        walk(treedef, ())
    elif treedef.num_leaves:
        paths.append(())
    return paths


def paths_of(tree: Any, treedef: PyTreeDef) -> Callable[[], Sequence[KeyPath]]:
    """A function that returns the key paths of a tree's leaves, without keeping the leaves alive.

    The paths are usually computed when they are needed, from the structure. They are computed
    immediately if they require instances of the classes.
    """
    if needs_instance(treedef):
        paths = [path for path, _ in default_registry.flatten_with_path(tree)[0]]
        return lambda: paths
    return lambda: leaf_key_paths(treedef)


def structure_text(treedef: PyTreeDef, texts: Iterable[str]) -> str:
    """Describe a structure with a text for each leaf, like `{'a': f32[3]}`."""
    remaining = iter(texts)

    def walk(tree: PyTreeDef) -> str:
        data = tree.node_data()
        if data is None:
            return next(remaining)
        kind, aux = data
        children = [walk(child) for child in tree.children()]
        if kind is type(None):
            return "None"
        if kind is tuple:
            return f"({', '.join(children)}{',' * (len(children) == 1)})"
        if kind is list:
            return f"[{', '.join(children)}]"
        if kind is dict:
            return f"{{{', '.join([f'{k!r}: {c}' for k, c in zip(aux, children)])}}}"
        keys = child_keys(tree, len(children)) or indices_as_keys(aux, len(children))
        named = [
            f"{key.name}={c}" if isinstance(key, pytree.GetAttrKey) else c
            for key, c in zip(keys, children)
        ]
        return f"{kind.__name__}({', '.join(named)})"

    return walk(treedef)


def broadcast_flattened_prefix_with_treedef(
    prefix_leaves: Sequence[Any], prefix_treedef: PyTreeDef, full_treedef: PyTreeDef
) -> list[Any]:
    """Like `broadcast_prefix`, for leaves and structures.

    Raises:
      ValueError: the first structure is not a prefix of the second.
    """
    out: list[Any] = []
    remaining = iter(prefix_leaves)

    def walk(prefix: PyTreeDef, full: PyTreeDef) -> None:
        data = prefix.node_data()
        if data is None:
            n = full.num_leaves
            out.extend([next(remaining)] * n)
            return
        prefix_children, full_children = prefix.children(), full.children()
        if data != full.node_data() or len(prefix_children) != len(full_children):
            raise ValueError(f"{prefix_treedef} is not a prefix of {full_treedef}.")
        for p, f in zip(prefix_children, full_children):
            walk(p, f)

    walk(prefix_treedef, full_treedef)
    return out
