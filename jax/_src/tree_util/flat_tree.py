"""`FlatTree`: the leaves of a pytree together with its structure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from jax._src.tree_util.registry import (
    PyTreeDef,
    PyTreeRegistry,
    default_registry,
    register_pytree_node,
)
from jax._src.tree_util.structures import leaf_key_paths
from jax._src.tree_util.traversal import treedef_tuple


class _Static:
    """A node without children: a value that is a part of the structure."""

    __slots__ = ("val",)

    def __init__(self, val: Any):
        self.val = val


register_pytree_node(_Static, lambda s: ((), s.val), lambda val, _: val)
_leaf = default_registry.flatten(0)[1]


class FlatTree:
    """The leaves of a pytree together with its structure.

    Leaves can be mapped to any values, pytrees too: the structure stays, and the functions of the
    user's classes are called only by `flatten` and `unflatten`.

    Args:
      vals: the leaves.
      tree: the structure.
      registry: the classes that are nodes.

    >>> from jax.experimental.scheduling_groups import FlatTree
    >>> pairs = FlatTree.flatten({"a": 1, "b": [2]}).map(lambda x: (x, -x))
    >>> [t.unflatten() for t in pairs.unzip2()]
    [{'a': 1, 'b': [2]}, {'a': -1, 'b': [-2]}]
    """

    __slots__ = ("vals", "tree", "registry")

    def __init__(
        self, vals: Iterable[Any], tree: PyTreeDef, registry: PyTreeRegistry = default_registry
    ):
        self.vals = tuple(vals)
        self.tree = tree
        self.registry = registry
        if len(self.vals) != tree.num_leaves:
            raise ValueError(
                f"FlatTree got {len(self.vals)} leaves for a structure with {tree.num_leaves}: {tree}."
            )

    def __eq__(self, other: object) -> bool:
        return type(other) is FlatTree and (self.tree, self.vals) == (other.tree, other.vals)

    def __hash__(self) -> int:
        return hash((self.vals, self.tree))

    def __repr__(self) -> str:
        return f"FlatTree({self.vals})"

    def __len__(self) -> int:
        return len(self.vals)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.vals)

    def __getitem__(self, i: Any) -> Any:
        return self.vals[i]

    len = property(__len__, doc="The number of leaves.")

    # Pytrees

    @staticmethod
    def flatten(
        tree: Any, is_leaf: Callable | None = None, registry: PyTreeRegistry = default_registry
    ) -> FlatTree:
        """The leaves and the structure of a pytree."""
        vals, treedef = registry.flatten(tree, is_leaf)
        return FlatTree(vals, treedef, registry)

    @staticmethod
    def singleton(x: Any) -> FlatTree:
        """A tree that is one leaf, whatever it is."""
        return FlatTree((x,), _leaf)

    @staticmethod
    def flatten_list(xs: Iterable[Any]) -> FlatTree:
        """A tuple of leaves, whatever they are."""
        vals = tuple(xs)
        return FlatTree(vals, treedef_tuple([_leaf] * len(vals)))

    @staticmethod
    def flatten_args(*arg_trees: Any, registry: PyTreeRegistry = default_registry) -> FlatTree:
        """The positional arguments of a call, as the pair (arguments, keyword arguments)."""
        return FlatTree.flatten((arg_trees, {}), None, registry)

    @staticmethod
    def flatten_static_argnums(
        args: Sequence[Any], static_argnums: Sequence[int],
        registry: PyTreeRegistry = default_registry,
    ) -> FlatTree:  # fmt: skip
        """A tuple of arguments; those at some positions are parts of the structure."""
        return FlatTree.flatten(_with_static_args(args, static_argnums), None, registry)

    @staticmethod
    def flatten_static_argnames(
        kwargs: dict[str, Any], static_argnames: Sequence[str],
        registry: PyTreeRegistry = default_registry,
    ) -> FlatTree:  # fmt: skip
        """A dictionary of arguments; those of some names are parts of the structure."""
        return FlatTree.flatten(_with_static_kwargs(kwargs, static_argnames), None, registry)

    @staticmethod
    def flatten_static_argnums_argnames(
        args: Sequence[Any], kwargs: dict[str, Any], static_argnums: Sequence[int],
        static_argnames: Sequence[str], registry: PyTreeRegistry = default_registry,
    ) -> FlatTree:  # fmt: skip
        """The pair (arguments, keyword arguments); some are parts of the structure."""
        statics = (
            _with_static_args(args, static_argnums),
            _with_static_kwargs(kwargs, static_argnames),
        )
        return FlatTree.flatten(statics, None, registry)

    def unflatten(self) -> Any:
        """The pytree."""
        return self.tree.unflatten(self.vals)

    @property
    def tree_without_statics(self) -> PyTreeDef:
        """The structure without the arguments that are parts of it."""
        return _without_statics(self.tree, self.registry)

    @property
    def paths(self) -> FlatTree:
        """The key path of each leaf."""
        return self.update(leaf_key_paths(self.tree))

    # Leaves

    def update(self, new_vals: Iterable[Any]) -> FlatTree:
        """A tree of the same structure with other leaves; raises ValueError for another number."""
        return FlatTree(new_vals, self.tree, self.registry)

    def map(self, f: Callable) -> FlatTree:
        """A tree with the values of a function of each leaf."""
        return self.update([f(x) for x in self.vals])

    def map2(self, f: Callable, t2: Sequence[Any]) -> FlatTree:
        """A tree with the values of a function of each leaf and the one at its place in `t2`."""
        return self.update([f(x, y) for x, y in zip(self, self.update(t2))])

    def map3(self, f: Callable, t2: Sequence[Any], t3: Sequence[Any]) -> FlatTree:
        """Like `map2`, for a function of three leaves."""
        return self.update([f(*xs) for xs in zip(self, self.update(t2), self.update(t3))])

    def enumerate(self) -> FlatTree:
        """A tree with the pairs (position, leaf)."""
        return self.update(enumerate(self.vals))

    def unzip2(self) -> tuple[FlatTree, FlatTree]:
        """Two trees, of the first and of the second elements of leaves that are pairs."""
        pairs = [(a, b) for a, b in self.vals]
        return self.update([a for a, _ in pairs]), self.update([b for _, b in pairs])

    def filter(self, f: Callable) -> FlatTree:
        """A tuple of the leaves for which a function is true; `unfilter` puts back the others."""
        return self.filter_with_mask([f(x) for x in self.vals])

    def filter_with_mask(self, mask: Iterable[Any]) -> FlatTree:
        """A tuple of the leaves that `mask` marks; `unfilter` puts back the others."""
        mask = self.update(map(bool, mask)).vals
        pairs = list(zip(self.vals, mask))
        others = tuple([x for x, m in pairs if not m])
        kept = FlatTree.flatten_list([x for x, m in pairs if m])
        return kept.with_aux((self.tree, self.registry, mask, others))

    def unfilter(self) -> FlatTree:
        """The tree that was filtered, with what has become of its leaves."""
        kept, (tree, registry, mask, others) = self.unpack_aux()
        new, old = iter(kept), iter(others)
        return FlatTree([next(new) if m else next(old) for m in mask], tree, registry)

    # Trees of trees

    @staticmethod
    def pack(tree: Any, registry: PyTreeRegistry = default_registry) -> FlatTree:
        """One tree of tuples and dictionaries of them.

        Raises:
          TypeError: there is something else.
        """
        if type(tree) is FlatTree:
            return tree
        if type(tree) is tuple:
            data, parts = (tuple, None), list(tree)
        elif type(tree) is dict:
            data, parts = (dict, sorted(tree)), [tree[k] for k in sorted(tree)]
        else:
            raise TypeError(
                f"FlatTree.pack takes tuples and dictionaries of FlatTrees, got {tree!r} of type"
                f" {type(tree)}: flatten it with `FlatTree.flatten`."
            )
        packed = [FlatTree.pack(part, registry) for part in parts]
        structure = PyTreeDef.from_node_data_and_children(registry, data, [t.tree for t in packed])
        return FlatTree([x for t in packed for x in t.vals], structure, registry)

    @staticmethod
    def pack_args(*args: Any, **kwargs: Any) -> FlatTree:
        """One tree of those of the arguments of a call."""
        return FlatTree.pack((args, kwargs))

    def unpack(self) -> tuple[FlatTree, ...]:
        """The children of the root, as trees."""
        parts, start = [], 0
        for child in self.tree.children():
            end = start + child.num_leaves
            parts.append(FlatTree(self.vals[start:end], child, self.registry))
            start = end
        return tuple(parts)

    def with_aux(self, aux: Any) -> FlatTree:
        """The pair of the tree and a value that is a part of the structure."""
        return FlatTree.pack((self, FlatTree.flatten(_Static(aux))), self.registry)

    def unpack_aux(self) -> tuple[FlatTree, Any]:
        """The tree and the value from which `with_aux` has made this one.

        Raises:
          ValueError: `with_aux` has not made it.
        """
        parts = self.unpack()
        data = parts[1].tree.node_data() if len(parts) == 2 else None
        if data is None or data[0] is not _Static:
            raise ValueError(f"{self} was not made by `with_aux`, `filter` or `filter_with_mask`.")
        return parts[0], data[1]


def _with_static_args(args: Sequence[Any], static_argnums: Sequence[int]) -> tuple[Any, ...]:
    n = len(args)
    statics = {i + n if i < 0 else i for i in static_argnums}
    return tuple([_Static(x) if i in statics else x for i, x in enumerate(args)])


def _with_static_kwargs(kwargs: dict[str, Any], static_argnames: Sequence[str]) -> dict[str, Any]:
    return {k: _Static(x) if k in static_argnames else x for k, x in kwargs.items()}


def _without_statics(tree: PyTreeDef, registry: PyTreeRegistry) -> PyTreeDef:
    data = tree.node_data()
    if data is None or data[0] not in (tuple, dict):
        return tree
    children = [(i, c) for i, c in enumerate(tree.children()) if not _is_static(c)]
    if data[0] is dict:
        data = (dict, [data[1][i] for i, _ in children])
    return PyTreeDef.from_node_data_and_children(
        registry, data, [_without_statics(c, registry) for _, c in children]
    )


def _is_static(tree: PyTreeDef) -> bool:
    data = tree.node_data()
    return data is not None and data[0] is _Static
