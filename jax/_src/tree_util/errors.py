"""Descriptions of where and how two trees differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from jax._src.tree_util.paths import DictKey, KeyPath, keystr
from jax._src.tree_util.registry import PyTreeDef, default_registry, flatten_one_level_with_keys
from jax._src.tree_util.structures import child_keys, probed_keys


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[Callable[[str], ValueError]]:
    """Explains why a tree is not a prefix of another; one entry for each differing subtree.

    Args:
      prefix_tree: a tree that may have leaves where ``full_tree`` has subtrees.
      full_tree: a pytree.
      is_leaf: whether a node of ``prefix_tree`` counts as a leaf.

    Returns:
      A list of functions: each takes the name of the argument and returns a ValueError that names
      the place and the difference. The list is empty if the tree is a prefix.
    """
    return list(_prefix_errors((), prefix_tree, full_tree, is_leaf, _node_of_tree))


def prefix_errors_pytreedef(
    prefix_tree: Any, full_treedef: PyTreeDef, is_leaf: Callable[[Any], bool] | None = None
) -> list[Callable[[str], ValueError]]:
    """Like :func:`prefix_errors`, with a tree structure in place of the full tree."""
    return list(_prefix_errors((), prefix_tree, full_treedef, is_leaf, _node_of_structure))


class _Node(NamedTuple):
    """The root node of a tree or structure."""

    kind: type | None  # None: a leaf of a structure
    keys: list[Any]
    children: list[Any]
    aux: Any


def _node_of_tree(tree: Any) -> _Node:
    if not default_registry.is_node(type(tree)):
        return _Node(type(tree), [], [], None)
    pairs, aux = flatten_one_level_with_keys(tree)
    pairs = list(pairs)
    return _Node(type(tree), [key for key, _ in pairs], [child for _, child in pairs], aux)


def _node_of_structure(treedef: PyTreeDef) -> _Node:
    data = treedef.node_data()
    if data is None:
        return _Node(None, [], [], None)
    kind, aux = data
    children = treedef.children()
    keys = child_keys(treedef, len(children))
    if keys is None:
        keys = probed_keys(treedef, len(children))
    if kind is dict:
        aux = tuple(aux)
    elif aux is None and issubclass(kind, tuple) and kind is not tuple:
        aux = kind  # like the auxiliary data of an instance of a named tuple
    return _Node(kind, list(keys), children, aux)


def _prefix_errors(path, prefix, full, is_leaf, node_of) -> Iterator[Callable[[str], ValueError]]:
    if _is_leaf(prefix, is_leaf):
        return
    prefix, full = _node_of_tree(prefix), node_of(full)

    def error(what, *details):
        def make(name):
            lines = [
                f"pytree structure error: different {what} at key path",
                f"    {name}{keystr(path)}",
                *(
                    line.format(prefix=f"the prefix pytree {name}", full="the full pytree")
                    for line in details
                ),
            ]
            return ValueError("\n".join(lines))

        return make

    kind = prefix.kind
    if kind is not full.kind:
        details = [
            f"There {{prefix}} has a {_escape(kind)}, while {{full}} has a {_kind_text(full)}."
        ]
        if kind is type(None):
            details.append("None is a pytree without leaves, it matches nothing but None.")
        elif {kind, full.kind} == {list, tuple}:
            details.append(
                "A list does not match a tuple: convert one of them to the other's type."
            )
        yield error("types", *details)
        return

    n, m = len(prefix.children), len(full.children)
    if n != m and kind in (list, tuple):
        yield error(
            f"lengths of {kind.__name__}",
            f"There {{prefix}} has a {kind.__name__} of length {n},"
            f" while {{full}} has a {kind.__name__} of length {m}.",
        )
        return
    if n != m:
        yield error(
            "numbers of pytree children",
            f"There both have a {_escape(kind)}: {{prefix}} with {n} children,",
            f"    {_escape(_show_keys(prefix.keys))}",
            f"and {{full}} with {m} children,",
            f"    {_escape(_show_keys(full.keys))}",
            "so the symmetric difference on key sets is",
            f"    {_escape(_show_keys(_key_difference(prefix.keys, full.keys)))}",
        )
        return
    if kind is dict and prefix.keys != full.keys or prefix.aux != full.aux:
        yield error(
            "pytree metadata",
            f"There both have a {_escape(kind)}, but their metadata (static fields, or keys) differ:"
            " {prefix} has",
            f"    {_escape(prefix.aux)}",
            "and {full} has",
            f"    {_escape(full.aux)}",
            "so the diff in the metadata at these pytree nodes is",
            _escape(_diff(prefix.aux, full.aux)),
        )
        return
    for key, child, full_child in zip(prefix.keys, prefix.children, full.children):
        yield from _prefix_errors((*path, key), child, full_child, is_leaf, node_of)


def _kind_text(node: _Node) -> str:
    return "leaf" if node.kind is None else _escape(node.kind)


def equality_errors(
    tree1: Any, tree2: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Iterable[tuple[KeyPath, str, str, str]]:
    """Compares the structures of two trees.

    Yields:
      For each subtree where they differ: its key path, descriptions of the first and of the second
      tree's node, and an explanation.
    """
    return _equality_errors((), tree1, tree2, is_leaf, _node_of_tree)


def equality_errors_pytreedef(
    tree1: PyTreeDef, tree2: PyTreeDef
) -> Iterable[tuple[KeyPath, str, str, str]]:
    """Like :func:`equality_errors`, for structures."""
    return _equality_errors((), tree1, tree2, None, _node_of_structure)


def _equality_errors(path, t1, t2, is_leaf, node_of):
    node1, node2 = node_of(t1), node_of(t2)
    if node_of is _node_of_structure:
        leaf1, leaf2 = node1.kind is None, node2.kind is None
    else:
        leaf1, leaf2 = _is_leaf(t1, is_leaf), _is_leaf(t2, is_leaf)
    if leaf1 and leaf2:
        return
    kind = node1.kind
    if kind is not node2.kind:
        texts = ["pytree leaf" if n.kind is None else str(n.kind) for n in (node1, node2)]
        yield path, *texts, "their Python types differ"
        return
    if leaf1 or leaf2:
        names = ("a leaf", "a subtree") if leaf1 else ("a subtree", "a leaf")
        yield path, f"{kind}, {names[0]}", f"{kind}, {names[1]}", "only one of them is a leaf"
        return

    n, m = len(node1.children), len(node2.children)
    if n != m and kind in (list, tuple):
        name = kind.__name__
        yield path, f"{name} of length {n}", f"{name} of length {m}", "the lengths do not match"
        return
    if n != m:
        different = _key_difference(node1.keys, node2.keys)
        difference = " ".join([repr(getattr(k, "key", k)) for k in different])
        yield (
            path,
            f"{kind} with {n} child{'ren' * (n != 1)}",
            f"{kind} with {m} child{'ren' * (m != 1)}",
            "the numbers of children do not match"
            + f", with the symmetric difference of key sets: {{{difference}}}" * bool(difference),
        )
        return
    if kind is dict and node1.keys != node2.keys or node1.aux != node2.aux:
        yield (
            path,
            f"{kind} with pytree metadata {node1.aux}",
            f"{kind} with pytree metadata {node2.aux}",
            "the pytree node metadata does not match",
        )
        return
    for key, child1, child2 in zip(node1.keys, node1.children, node2.children):
        yield from _equality_errors((*path, key), child1, child2, is_leaf, node_of)


def _is_leaf(tree, is_leaf):
    if is_leaf is not None and is_leaf(tree):
        return True
    return not default_registry.is_node(type(tree))


def _show_keys(keys):
    return " ".join(str(k.key) if isinstance(k, DictKey) else str(k) for k in keys)


def _key_difference(keys1, keys2):
    only1 = [k for k in keys1 if k not in keys2]
    only2 = [k for k in keys2 if k not in keys1]
    return only1 + only2


def _diff(aux1, aux2):
    import difflib  # slow to import, and only errors need it

    lines = difflib.ndiff(str(aux1).splitlines(), str(aux2).splitlines())
    return "\n".join(f"    {line}" for line in lines)


def _escape(text):
    return str(text).replace("{", "{{").replace("}", "}}")
