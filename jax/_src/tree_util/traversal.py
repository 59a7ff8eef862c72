"""Functions that process whole trees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from jax._src.lib import pytree
from jax._src.tree_util.errors import equality_errors_pytreedef, prefix_errors
from jax._src.tree_util.paths import keystr, tree_flatten_with_path
from jax._src.tree_util.registry import PyTreeDef, default_registry, export

_flatten = default_registry.flatten


class Unspecified:
    """The type of a default value, for arguments that can be None."""

    def __repr__(self):
        return "<unspecified>"


_UNSPECIFIED = Unspecified()


@export
def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None):
    """Flattens a tree into its leaves and its structure.

    Args:
      tree: a pytree.
      is_leaf: called on each node; a node for which it returns true counts as a leaf.

    Returns:
      ``(leaves, treedef)``: a list, and the structure for :func:`tree_unflatten`.

    Example:
      >>> import jax
      >>> jax.tree.flatten([1, {"a": 2, "b": (3, 4)}])
      ([1, 2, 3, 4], PyTreeDef([*, {'a': *, 'b': (*, *)}]))
    """
    return _flatten(tree, is_leaf)


@export
def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Builds a tree from a structure and leaves: the inverse of :func:`tree_flatten`.

    Raises:
      ValueError: the number of leaves is not ``treedef.num_leaves``.

    Example:
      >>> import jax
      >>> leaves, treedef = jax.tree.flatten([1, (2, 3)])
      >>> jax.tree.unflatten(treedef, [x * 10 for x in leaves])
      [10, (20, 30)]
    """
    return treedef.unflatten(leaves)


@export
def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The list of a tree's leaves. Arguments: see :func:`tree_flatten`.

    Example:
      >>> import jax
      >>> jax.tree.leaves([1, (2, 3), None])
      [1, 2, 3]
    """
    return _flatten(tree, is_leaf)[0]


@export
def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> PyTreeDef:
    """A tree's structure, a ``PyTreeDef``. Arguments: see :func:`tree_flatten`.

    Example:
      >>> import jax
      >>> jax.tree.structure([1, (2, None)])
      PyTreeDef([*, (*, None)])
    """
    return _flatten(tree, is_leaf)[1]


@export
def tree_map(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Applies a function to every leaf, or to corresponding leaves of several trees.

    Args:
      f: takes ``1 + len(rest)`` arguments.
      tree: its leaves are the first arguments; the result has its structure.
      *rest: trees of the same structure, or with subtrees where ``tree`` has leaves.
      is_leaf: see :func:`tree_flatten`; applied to ``tree``.

    Returns:
      A tree of ``tree``'s structure with the results.

    Raises:
      ValueError: a tree of ``rest`` does not have ``tree``'s structure; the message names the path.

    Example:
      >>> import jax
      >>> jax.tree.map(lambda x, y: x + y, [1, {"a": 2}], [10, {"a": 20}])
      [11, {'a': 22}]
    """
    leaves, treedef = _flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(x) for x in leaves])
    flat = [_flatten_rest(treedef, tree, r, i, "tree_map", is_leaf) for i, r in enumerate(rest)]
    return treedef.unflatten([f(*xs) for xs in zip(leaves, *flat)])


@export
def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Like :func:`tree_map`, with a key path as the function's first argument.

    Args:
      f: takes a key path and ``1 + len(rest)`` leaves.
      tree, *rest: see :func:`tree_map`.
      is_leaf: see :func:`tree_flatten`.
      is_leaf_takes_path: whether ``is_leaf`` takes two arguments, the key path and the node.

    Example:
      >>> import jax
      >>> jax.tree.map_with_path(lambda p, x: jax.tree_util.keystr(p) + str(x), {"a": [1]})
      {'a': ["['a'][0]1"]}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    if not rest:
        return treedef.unflatten([f(path, x) for path, x in pairs])
    flat = [
        _flatten_rest(
            treedef, tree, r, i, "tree_map_with_path", None if is_leaf_takes_path else is_leaf
        )
        for i, r in enumerate(rest)
    ]
    return treedef.unflatten([f(path, x, *xs) for (path, x), *xs in zip(pairs, *flat)])


@export
def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _UNSPECIFIED,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Folds a function of two arguments over a tree's leaves, from the left.

    Args:
      function: takes the value so far and a leaf.
      tree: a pytree.
      initializer: the initial value; by default the first leaf.
      is_leaf: see :func:`tree_flatten`.

    Raises:
      TypeError: there are no leaves and no ``initializer``.

    Example:
      >>> import jax, operator
      >>> jax.tree.reduce(operator.add, [1, (2, 3)], 10)
      16
    """
    leaves = _flatten(tree, is_leaf)[0]
    if initializer is not _UNSPECIFIED:
        return functools.reduce(function, leaves, initializer)
    if not leaves:
        raise TypeError(
            "tree_reduce of a tree without leaves: reduce() of empty iterable with no initial value."
            " Pass initializer."
        )
    return functools.reduce(function, leaves)


@export
def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _UNSPECIFIED,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Combines the leaves of a tree with an associative function, in a balanced order.

    The depth of the computation is logarithmic in the number of leaves. This gives smaller rounding
    errors than :func:`tree_reduce`, and more parallelism.

    Args:
      operation: an associative function of two leaves.
      tree: a pytree.
      identity: the result for a tree without leaves.
      is_leaf: see :func:`tree_flatten`.

    Raises:
      TypeError: there are no leaves and no ``identity``.

    Example:
      >>> import jax
      >>> jax.tree.reduce_associative(lambda a, b: f"({a}{b})", list("abcd"))
      '((ab)(cd))'
    """
    leaves = _flatten(tree, is_leaf)[0]

    def reduce(start, stop):
        if stop - start == 1:
            return leaves[start]
        middle = start + (stop - start) // 2
        return operation(reduce(start, middle), reduce(middle, stop))

    if leaves:
        return reduce(0, len(leaves))
    if identity is _UNSPECIFIED:
        raise TypeError("tree_reduce_associative: must specify identity for a tree without leaves.")
    return identity


@export
def tree_all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all leaves of a tree are true. Arguments: see :func:`tree_flatten`.

    Example:
      >>> import jax
      >>> jax.tree.all([True, {"a": True, "b": False}]), jax.tree.all([])
      (False, True)
    """
    return all(_flatten(tree, is_leaf)[0])


@export
def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Transposes a tree of trees: for example, a list of pairs becomes a pair of lists.

    Args:
      outer_treedef: the structure of the outer tree.
      inner_treedef: the structure of each of its subtrees; None for that of the first subtree.
      pytree_to_transpose: a tree of structure ``outer_treedef.compose(inner_treedef)``.

    Returns:
      A tree of structure ``inner_treedef.compose(outer_treedef)``.

    Raises:
      TypeError: the tree does not have that structure.

    Example:
      >>> import jax
      >>> pairs = [(1, 2), (3, 4), (5, 6)]
      >>> jax.tree.transpose(jax.tree.structure([0] * 3), jax.tree.structure((0, 0)), pairs)
      ([1, 3, 5], [2, 4, 6])
    """
    if inner_treedef is None:
        subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
        if not subtrees:
            raise TypeError(
                "tree_transpose: inner_treedef cannot be inferred when outer_treedef has no leaves."
            )
        inner_treedef = _flatten(subtrees[0])[1]
    leaves, treedef = _flatten(pytree_to_transpose)
    expected = outer_treedef.compose(inner_treedef)
    if treedef != expected:
        raise TypeError(
            "tree_transpose: pytree_to_transpose must have the structure of inner_treedef within"
            f" outer_treedef. Mismatch\n{treedef}\n != \n{expected}"
            + _first_difference(treedef, expected)
        )
    n = inner_treedef.num_leaves
    return inner_treedef.unflatten([outer_treedef.unflatten(leaves[i::n]) for i in range(n)])


@export
def tree_broadcast(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Repeats each leaf of a tree prefix for all leaves of the corresponding subtree.

    Args:
      prefix_tree: a tree that may have leaves where ``full_tree`` has subtrees.
      full_tree: a pytree.
      is_leaf: see :func:`tree_flatten`; applied to ``prefix_tree``.

    Returns:
      A tree with the structure of ``full_tree`` and leaves from ``prefix_tree``.

    Raises:
      ValueError: ``prefix_tree`` is not a prefix of ``full_tree``; the message names the path.

    Example:
      >>> import jax
      >>> jax.tree.broadcast((1, 2), ({"a": 0, "b": 0}, 0))
      ({'a': 1, 'b': 1}, 2)
    """
    return _flatten(full_tree)[1].unflatten(broadcast_prefix(prefix_tree, full_tree, is_leaf))


@export
def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether each of the elements is a leaf.

    Args:
      iterable: the elements.
      is_leaf: an element for which it returns true counts as a leaf.

    Example:
      >>> import jax
      >>> jax.tree_util.all_leaves([1, 2]), jax.tree_util.all_leaves([1, (2, 3)])
      (True, False)
    """
    if is_leaf is None:
        return pytree.all_leaves(default_registry, iterable)
    elements = list(iterable)
    leaves = _flatten(elements, lambda x: x is not elements and is_leaf(x))[0]
    return len(leaves) == len(elements) and all(a is b for a, b in zip(leaves, elements))


@export
def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children of the root node.

    Example:
      >>> import jax
      >>> jax.tree_util.treedef_children(jax.tree.structure([1, (2, 3)]))
      [PyTreeDef(*), PyTreeDef((*, *))]
    """
    return treedef.children()


@export
def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is a single node: a leaf, or a node without children.

    Example:
      >>> import jax
      >>> jax.tree_util.treedef_is_leaf(jax.tree.structure(1))
      True
    """
    return treedef.num_nodes == 1


def treedef_is_strict_leaf(treedef: PyTreeDef) -> bool:
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


@export
def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple whose elements have the given structures.

    Example:
      >>> import jax
      >>> leaf = jax.tree.structure(0)
      >>> jax.tree_util.treedef_tuple([leaf, leaf])
      PyTreeDef((*, *))
    """
    return pytree.treedef_tuple(default_registry, list(treedefs))


def tree_leaves_checked(treedef_expected: PyTreeDef, tree: Any) -> list[Any]:
    """The leaves of a tree that must have a given structure."""
    leaves, treedef = _flatten(tree)
    if treedef != treedef_expected:
        raise TypeError(
            f"Expected a tree of structure {treedef_expected}, got {treedef}."
            + _first_difference(treedef_expected, treedef)
        )
    return leaves


def broadcast_prefix(
    prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[Any]:
    """The leaves of a tree prefix, each repeated for every leaf of the corresponding subtree."""
    leaves, treedef = _flatten(prefix_tree, is_leaf)
    subtrees = _flatten_rest(treedef, prefix_tree, full_tree, None, "broadcast_prefix", is_leaf)
    out = []
    for leaf, subtree in zip(leaves, subtrees):
        out += [leaf] * _flatten(subtree)[1].num_leaves
    return out


def _flatten_rest(treedef, tree, other, index, what, is_leaf):
    """Flattens `other` up to the leaves of `tree`, whose structure is `treedef`."""
    try:
        return treedef.flatten_up_to(other)
    except (ValueError, TypeError):
        # Computed only for errors, since it walks over both trees in Python.
        if not (errors := prefix_errors(tree, other, is_leaf)):
            raise
        name = "broadcast_prefix prefix_tree" if index is None else f"{what} tree"
        error = errors[0](name)
        if index:
            error = ValueError(f"{error}\nThe full pytree is argument {index} of `rest`.")
    raise error


def _first_difference(treedef1, treedef2):
    for path, thing1, thing2, why in equality_errors_pytreedef(treedef1, treedef2):
        where = f"at key path {keystr(path)}" if path else "at the root"
        return f"\nThe first difference is {where}: {thing1} against {thing2}, {why}."
    return ""
