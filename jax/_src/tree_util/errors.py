"""Where and how two trees differ, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jax._src.tree_util.paths import DictKey, KeyPath, keystr
from jax._src.tree_util.registry import PyTreeDef, default_registry, flatten_one_level_with_keys


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[Callable[[str], ValueError]]:
    """Why a tree is no prefix of another: one entry for each subtree where they part.

    Args:
      prefix_tree: a tree with leaves where ``full_tree`` may have subtrees.
      full_tree: a pytree.
      is_leaf: what counts as a leaf of ``prefix_tree``.

    Returns:
      A list of functions: each takes the name of the argument and returns a ValueError which names
      the place and the difference. Empty if it is a prefix.
    """
    return list(_prefix_errors((), prefix_tree, full_tree, is_leaf))


def _prefix_errors(path, prefix, full, is_leaf) -> Iterator[Callable[[str], ValueError]]:
    if _is_leaf(prefix, is_leaf):
        return

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

    kind = type(prefix)
    if kind is not type(full):
        details = [
            f"There {{prefix}} has a {_escape(kind)}, while {{full}} has a {_escape(type(full))}."
        ]
        if prefix is None:
            details.append("None is a pytree without leaves, it matches nothing but None.")
        elif {kind, type(full)} == {list, tuple}:
            details.append(
                "A list does not match a tuple: convert one of them to the other's type."
            )
        yield error("types", *details)
        return

    prefix_pairs, prefix_aux = _one_level(prefix)
    full_pairs, full_aux = _one_level(full)
    n, m = len(prefix_pairs), len(full_pairs)
    if n != m and kind in (list, tuple):
        yield error(
            f"lengths of {kind.__name__}",
            f"There {{prefix}} has a {kind.__name__} of length {n},"
            f" while {{full}} has a {kind.__name__} of length {m}.",
        )
        return
    prefix_keys = [key for key, _ in prefix_pairs]
    full_keys = [key for key, _ in full_pairs]
    if n != m:
        yield error(
            "numbers of pytree children",
            f"There both have a {_escape(kind)}: {{prefix}} with {n} children,",
            f"    {_escape(_show_keys(prefix_keys))}",
            f"and {{full}} with {m} children,",
            f"    {_escape(_show_keys(full_keys))}",
            "so the symmetric difference on key sets is",
            f"    {_escape(_show_keys(_key_difference(prefix_keys, full_keys)))}",
        )
        return
    if kind is dict and prefix_keys != full_keys or prefix_aux != full_aux:
        yield error(
            "pytree metadata",
            f"There both have a {_escape(kind)}, but their metadata (static fields, or keys) differ:"
            " {prefix} has",
            f"    {_escape(prefix_aux)}",
            "and {full} has",
            f"    {_escape(full_aux)}",
            "so the diff in the metadata at these pytree nodes is",
            _escape(_diff(prefix_aux, full_aux)),
        )
        return
    for (key, child), (_, full_child) in zip(prefix_pairs, full_pairs):
        yield from _prefix_errors((*path, key), child, full_child, is_leaf)


def equality_errors(
    tree1: Any, tree2: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Iterable[tuple[KeyPath, str, str, str]]:
    """How the structures of two trees differ.

    Yields:
      For each subtree where they differ: its key path, what the first and what the second tree has
      there, and an explanation.
    """
    return _equality_errors((), tree1, tree2, is_leaf)


def equality_errors_pytreedef(
    tree1: PyTreeDef, tree2: PyTreeDef
) -> Iterable[tuple[KeyPath, str, str, str]]:
    """Like :func:`equality_errors`, on structures."""
    try:
        dummy1 = tree1.unflatten([_Leaf()] * tree1.num_leaves)
        dummy2 = tree2.unflatten([_Leaf()] * tree2.num_leaves)
    except Exception:  # a class that cannot be built from dummies: no path to give
        if tree1 == tree2:
            return []
        return [((), str(tree1), str(tree2), "the tree structures do not match")]
    return equality_errors(dummy1, dummy2)


class _Leaf:
    """Stands for a leaf of unknown type."""


def _type_text(x) -> str:
    return "pytree leaf" if type(x) is _Leaf else str(type(x))


def _equality_errors(path, t1, t2, is_leaf):
    leaf1, leaf2 = _is_leaf(t1, is_leaf), _is_leaf(t2, is_leaf)
    if leaf1 and leaf2:
        return
    kind = type(t1)
    if kind is not type(t2):
        yield path, _type_text(t1), _type_text(t2), "their Python types differ"
        return
    if leaf1 or leaf2:
        names = ("a leaf", "a subtree") if leaf1 else ("a subtree", "a leaf")
        yield path, f"{kind}, {names[0]}", f"{kind}, {names[1]}", "only one of them is a leaf"
        return

    pairs1, aux1 = _one_level(t1)
    pairs2, aux2 = _one_level(t2)
    n, m = len(pairs1), len(pairs2)
    if n != m and kind in (list, tuple):
        name = kind.__name__
        yield path, f"{name} of length {n}", f"{name} of length {m}", "the lengths do not match"
        return
    keys1, keys2 = [key for key, _ in pairs1], [key for key, _ in pairs2]
    if n != m:
        difference = " ".join([repr(getattr(k, "key", k)) for k in _key_difference(keys1, keys2)])
        yield (
            path,
            f"{kind} with {n} child{'ren' * (n != 1)}",
            f"{kind} with {m} child{'ren' * (m != 1)}",
            "the numbers of children do not match"
            + f", with the symmetric difference of key sets: {{{difference}}}" * bool(difference),
        )
        return
    if kind is dict and keys1 != keys2 or aux1 != aux2:
        yield (
            path,
            f"{kind} with pytree metadata {aux1}",
            f"{kind} with pytree metadata {aux2}",
            "the pytree node metadata does not match",
        )
        return
    for (key, child1), (_, child2) in zip(pairs1, pairs2):
        yield from _equality_errors((*path, key), child1, child2, is_leaf)


def _is_leaf(tree, is_leaf):
    if is_leaf is not None and is_leaf(tree):
        return True
    return not default_registry.is_node(type(tree))


def _one_level(tree):
    pairs, aux_data = flatten_one_level_with_keys(tree)
    return list(pairs), aux_data


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
