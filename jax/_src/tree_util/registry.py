"""The registry of node types: how instances are flattened and unflattened."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from jax._src.lib import pytree
from jax._src.util import set_module

export = set_module("jax.tree_util")

PyTreeDef = pytree.PyTreeDef
PyTreeRegistry = pytree.PyTreeRegistry

default_registry = pytree.default_registry()
# Treats None as a leaf, for trees of optional values (axes, shardings).
none_leaf_registry = PyTreeRegistry(
    enable_none=False, enable_tuple=True, enable_namedtuple=True, enable_list=True, enable_dict=True
)
# The registry of jit's native argument processing. It also flattens array wrappers (typed PRNG
# keys) that are leaves everywhere else.
dispatch_registry = PyTreeRegistry(
    enable_none=True, enable_tuple=True, enable_namedtuple=True, enable_list=True, enable_dict=True
)
_registries = (default_registry, none_leaf_registry, dispatch_registry)
# A PyTreeDef refers to its registry, which is pickled by name.
for _name in ("default_registry", "none_leaf_registry", "dispatch_registry"):
    globals()[_name].__module__ = "jax._src.tree_util"
    globals()[_name].__name__ = _name

KeysOfNode = Callable[[Any, int], tuple[Any, ...]]
# For each registered class, a function of a node's auxiliary data and number of children that
# returns the keys of the children; None if only an instance has the keys.
keys_by_type: dict[type, KeysOfNode | None] = {}
keyed_by_instances: set[type] = set()  # the classes for which the value is None


def indices_as_keys(_, n: int) -> tuple[Any, ...]:
    """The keys of children of a class without keys: their indices."""
    return tuple(map(pytree.FlattenedIndexKey, range(n)))


@export
def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]]
    | None = None,
) -> None:
    """Makes instances of a class nodes of pytrees.

    Args:
      nodetype: the class. Subclasses are not included; they have to be registered too.
      flatten_func: takes an instance, returns ``(children, aux_data)``; ``aux_data`` must be
        hashable and comparable, since it becomes part of the tree structure.
      unflatten_func: takes ``(aux_data, children)`` and returns an instance. It must not inspect
        the children, which can be any objects.
      flatten_with_keys_func: like ``flatten_func``, with ``(key, child)`` pairs as children.

    Raises:
      ValueError: ``nodetype`` is already registered.

    Example:
      >>> from jax import tree_util
      >>> class Pair:
      ...   def __init__(self, a, b): self.a, self.b = a, b
      >>> tree_util.register_pytree_node(
      ...     Pair, lambda p: ((p.a, p.b), None), lambda _, children: Pair(*children))
      >>> tree_util.tree_leaves([Pair(1, 2), 3])
      [1, 2, 3]
    """
    _check_type("register_pytree_node", nodetype)
    for registry in _registries:
        registry.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)
    if flatten_with_keys_func is None:
        keys_by_type[nodetype] = indices_as_keys
    else:
        keys_by_type[nodetype] = None
        keyed_by_instances.add(nodetype)


@export
def register_pytree_node_class(cls: type) -> type:
    """Class decorator: registers a class with ``tree_flatten`` and ``tree_unflatten`` methods.

    ``tree_flatten(self)`` returns ``(children, aux_data)``; ``tree_unflatten(cls, aux_data, children)``
    is a class method. Returns the class. See :func:`register_pytree_node`.

    Example:
      >>> from jax import tree_util
      >>> @tree_util.register_pytree_node_class
      ... class Point:
      ...   def __init__(self, x, y): self.x, self.y = x, y
      ...   def tree_flatten(self): return (self.x, self.y), None
      ...   @classmethod
      ...   def tree_unflatten(cls, aux_data, children): return cls(*children)
      >>> tree_util.tree_leaves(Point(1, 2))
      [1, 2]
    """
    register_pytree_node(cls, cls.tree_flatten, cls.tree_unflatten)
    return cls


@export
def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]] | None = None,
) -> None:
    """Makes instances of a class nodes of pytrees whose children have keys, for key paths.

    Args:
      nodetype: the class.
      flatten_with_keys: takes an instance, returns ``(((key, child), ...), aux_data)``.
      unflatten_func: takes ``(aux_data, children)``, returns an instance.
      flatten_func: like ``flatten_with_keys`` but without keys, for speed; by default derived from
        it.

    Raises:
      ValueError: ``nodetype`` is already registered.

    Example:
      >>> from jax import tree_util as tu
      >>> class Box:
      ...   def __init__(self, item): self.item = item
      >>> tu.register_pytree_with_keys(
      ...     Box, lambda b: (((tu.GetAttrKey("item"), b.item),), None), lambda _, xs: Box(*xs))
      >>> tu.keystr(tu.tree_leaves_with_path(Box([7]))[0][0])
      '.item[0]'
    """
    if flatten_func is None:

        def flatten_func(tree):
            pairs, aux_data = flatten_with_keys(tree)
            return [child for _, child in pairs], aux_data

    register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)


@export
def register_pytree_with_keys_class(cls: type) -> type:
    """Class decorator: like :func:`register_pytree_node_class`, for children that have keys.

    The class has ``tree_flatten_with_keys(self)``, returning ``(((key, child), ...), aux_data)``, the
    class method ``tree_unflatten(cls, aux_data, children)`` and optionally ``tree_flatten(self)``.

    Example:
      >>> from jax import tree_util as tu
      >>> @tu.register_pytree_with_keys_class
      ... class Line:
      ...   def __init__(self, start, end): self.start, self.end = start, end
      ...   def tree_flatten_with_keys(self):
      ...     return ((tu.GetAttrKey("start"), self.start), (tu.GetAttrKey("end"), self.end)), None
      ...   @classmethod
      ...   def tree_unflatten(cls, aux_data, children): return cls(*children)
      >>> [tu.keystr(path) for path, _ in tu.tree_leaves_with_path(Line(0, 1))]
      ['.start', '.end']
    """
    register_pytree_with_keys(
        cls, cls.tree_flatten_with_keys, cls.tree_unflatten, getattr(cls, "tree_flatten", None)
    )
    return cls


@export
def register_dataclass(
    nodetype: type,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> type:
    """Makes instances of a dataclass, or of a class built by keyword arguments, nodes of pytrees.

    Args:
      nodetype: the class; ``nodetype(**fields)`` builds an instance.
      data_fields: names of the fields that hold children.
      meta_fields: names of the static fields: hashable, part of the tree structure.
      drop_fields: names of other fields, which get their default values in unflattening.

    If neither ``data_fields`` nor ``meta_fields`` is given, they are derived from the fields of the
    dataclass: a field with ``metadata=dict(static=True)`` (see :func:`jax.tree.static`) is static,
      every
    other field with ``init=True`` holds a child.

    Returns:
      ``nodetype``, so that it can be used as a decorator.

    Raises:
      TypeError: the fields are not given and ``nodetype`` is not a dataclass.
      ValueError: fields overlap, are missing or unknown, or ``nodetype`` is already registered.

    Example:
      >>> import dataclasses, jax
      >>> @jax.tree_util.register_dataclass
      ... @dataclasses.dataclass
      ... class Layer:
      ...   weight: float
      ...   name: str = dataclasses.field(metadata=dict(static=True))
      >>> jax.tree.map(lambda w: w + 1, Layer(1.0, "first"))
      Layer(weight=2.0, name='first')
    """
    _check_type("register_dataclass", nodetype)
    if data_fields is None and meta_fields is None:
        if not dataclasses.is_dataclass(nodetype):
            raise TypeError(
                "register_dataclass: data_fields and meta_fields are required when nodetype is not a"
                f" dataclass. Got nodetype={nodetype}."
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
    elif data_fields is None or meta_fields is None:
        raise TypeError(
            "register_dataclass: give both data_fields and meta_fields, or neither."
            f" Got data_fields={data_fields} and meta_fields={meta_fields}."
        )
    for name, fields in (("data_fields", data_fields), ("meta_fields", meta_fields)):
        if isinstance(fields, str):
            raise TypeError(
                f"register_dataclass: {name} must be a sequence of names, got {fields!r}."
            )
    data_fields, meta_fields = tuple(data_fields), tuple(meta_fields)
    _check_dataclass_fields(nodetype, data_fields, meta_fields, drop_fields)
    for registry in _registries:
        registry.register_dataclass_node(nodetype, data_fields, meta_fields)
    keys = tuple(map(pytree.GetAttrKey, data_fields))
    keys_by_type[nodetype] = lambda *_: keys
    return nodetype


@export
def register_static(cls: type) -> type:
    """Class decorator: instances become nodes without leaves, a static part of the tree structure.

    Instances must be hashable and comparable: :func:`jax.jit` compiles once for each distinct one.

    Example:
      >>> import jax
      >>> @jax.tree_util.register_static
      ... class Name(str): pass
      >>> jax.tree.leaves([Name("a"), 1])
      [1]
    """
    register_pytree_node(cls, lambda obj: ((), obj), lambda obj, _: obj)
    return cls


@export
def is_tree_node(typ: type) -> bool:
    """Whether instances of a type are nodes of pytrees, not leaves.

    Example:
      >>> import jax
      >>> jax.tree_util.is_tree_node(dict), jax.tree_util.is_tree_node(int)
      (True, False)
    """
    return default_registry.is_node(typ)


@export
def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Hashable]:
    """Flattens the root node of a tree.

    Returns:
      ``(children, aux_data)``.

    Raises:
      ValueError: ``tree`` is a leaf.

    Example:
      >>> import jax
      >>> jax.tree_util.flatten_one_level({"a": 1, "b": [2, 3]})
      ((1, [2, 3]), ('a', 'b'))
    """
    out = default_registry.flatten_one_level(tree)
    if out is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    return out


@export
def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Hashable]:
    """Flattens the root node of a tree, with the keys of the children.

    Returns:
      ``(((key, child), ...), aux_data)``.

    Raises:
      ValueError: ``tree`` is a leaf.

    Example:
      >>> import jax
      >>> jax.tree_util.flatten_one_level_with_keys(["x"])
      (((SequenceKey(idx=0), 'x'),), None)
    """
    out = default_registry.flatten_one_level_with_keys(tree)
    if out is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    if out[1] is type(tree) and isinstance(tree, tuple):
        # jaxlib gives all elements of a named tuple the name of the first one.
        keys = map(pytree.GetAttrKey, tree._fields)
        return tuple((key, child) for key, child in zip(keys, tree)), out[1]
    return out


@export
class Partial(functools.partial):
    """A :func:`functools.partial` that is a pytree: bound arguments are children.

    The function is static, so objects with different functions have different tree structures.
    Traced functions can accept and return these objects.

    Example:
      >>> import jax, operator
      >>> add_two = jax.tree_util.Partial(operator.add, 2)
      >>> add_two(3), jax.tree.leaves(add_two)
      (5, [2])
    """

    def __new__(cls, func, *args, **kw):
        # functools.partial merges nested partials. That would make the (possibly static,
        # unhashable) arguments of the inner one children of this one.
        if isinstance(func, functools.partial):
            func = _PartialAsFunction(func)
        return super().__new__(cls, func, *args, **kw)


class _PartialAsFunction:
    """Hides from functools.partial that a callable is a partial itself."""

    def __init__(self, fun):
        self.fun = fun

    def __call__(self, *args, **kw):
        return self.fun(*args, **kw)

    def __hash__(self):
        return hash(self.fun)

    def __eq__(self, other):
        return self.fun == (other.fun if isinstance(other, _PartialAsFunction) else other)

    def __repr__(self):
        return repr(self.fun)


def _check_type(what, nodetype):
    if not isinstance(nodetype, type):
        raise TypeError(f"{what}: nodetype must be a class, got {nodetype!r}.")


def _check_dataclass_fields(nodetype, data_fields, meta_fields, drop_fields):
    data, meta = set(data_fields), set(meta_fields)
    if overlap := data & meta:
        raise ValueError(
            "data_fields and meta_fields must not overlap."
            f" Overlapping fields of {nodetype}: {_names(overlap)}."
        )
    if len(data) + len(meta) != len(data_fields) + len(meta_fields):
        raise ValueError(f"data_fields={data_fields} or meta_fields={meta_fields} has duplicates.")
    if not dataclasses.is_dataclass(nodetype):
        return
    declared = {f.name for f in dataclasses.fields(nodetype) if f.init}
    missing = declared - data - meta - set(drop_fields)
    unexpected = (data | meta) - (declared - set(drop_fields))
    if missing or unexpected:
        message = (
            "data_fields and meta_fields must include all dataclass fields with ``init=True`` and"
            f" only them ({nodetype})."
        )
        if missing:
            message += (
                f" Missing fields: {_names(missing)}."
                " Add them to drop_fields if they are to be left out on purpose."
            )
        if unexpected:
            message += f" Unexpected fields: {_names(unexpected)}."
        raise ValueError(message)


def _names(names):
    return "{" + ", ".join(map(repr, sorted(names))) + "}"


def _register_standard_containers():
    ordered, dict_key = collections.OrderedDict, pytree.DictKey
    register_pytree_node(
        ordered,
        lambda d: (tuple(d.values()), tuple(d)),
        lambda keys, values: ordered(zip(keys, values, strict=True)),
        lambda d: (tuple((dict_key(k), v) for k, v in d.items()), tuple(d)),
    )

    def sorted_items(d):
        try:
            return sorted(d.items(), key=lambda item: item[0])
        except TypeError as e:
            raise ValueError(
                f"The keys of a defaultdict in a pytree must be comparable, got {list(d)!r}."
            ) from e

    def flatten_defaultdict(d):
        items = sorted_items(d)
        keys = tuple(k for k, _ in items)
        return tuple(v for _, v in items), (d.default_factory, keys)

    def flatten_defaultdict_with_keys(d):
        items = sorted_items(d)
        keys = tuple(k for k, _ in items)
        return tuple((dict_key(k), v) for k, v in items), (d.default_factory, keys)

    register_pytree_node(
        collections.defaultdict,
        flatten_defaultdict,
        lambda aux, values: collections.defaultdict(aux[0], zip(aux[1], values, strict=True)),
        flatten_defaultdict_with_keys,
    )
    register_pytree_node(
        Partial,
        lambda p: ((p.args, p.keywords), p.func),
        lambda func, children: Partial(func, *children[0], **children[1]),
    )
    keys_by_type[ordered] = lambda keys, _: tuple(map(dict_key, keys))
    keys_by_type[collections.defaultdict] = lambda aux, _: tuple(map(dict_key, aux[1]))
    keyed_by_instances.clear()


_register_standard_containers()


class _Node(NamedTuple):
    to_iter: Callable[[Any], tuple[Iterable[Any], Hashable]]
    from_iter: Callable[[Any, Iterable[Any]], Any]


class _NodeTypes:
    """Node types, with the interface that libraries use: ``typ in``, ``[typ].to_iter(node)``."""

    def __contains__(self, typ: type) -> bool:
        return default_registry.is_node(typ) and not _is_namedtuple(typ)

    def __getitem__(self, typ: type) -> _Node:
        if typ not in self:
            raise KeyError(typ)
        return _Node(flatten_one_level, functools.partial(_make_node, typ))

    def get(self, typ: type, default: Any = None) -> Any:
        return self[typ] if typ in self else default


def _make_node(typ: type, aux_data: Hashable, children: Iterable[Any]) -> Any:
    if typ is type(None):
        return None
    children = list(children)
    leaves = [_leaf] * len(children)
    tree = PyTreeDef.from_node_data_and_children(default_registry, (typ, aux_data), leaves)
    return tree.unflatten(children)


def _is_namedtuple(typ: type) -> bool:
    return issubclass(typ, tuple) and typ is not tuple and hasattr(typ, "_fields")


_leaf = default_registry.flatten(0)[1]
_registry = _NodeTypes()
