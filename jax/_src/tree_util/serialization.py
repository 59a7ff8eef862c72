"""Tree structures as bytes, in the flatbuffers format of exported programs and checkpoints.

Only classes that were registered here are written and read: reading runs no code but the
functions of these registrations.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from jax._src.flatbuffer_tables import Buffer, Table
from jax._src.tree_util.registry import PyTreeDef, default_registry

T = TypeVar("T")

# The kinds of nodes and the slots of a node's fields, in the order of their declarations.
LEAF, NONE, TUPLE, LIST, DICT, CUSTOM = range(6)
_KIND, _CHILDREN, _KEYS, _NAME, _AUX_DATA = range(5)
_KIND_OF_TYPE = {type(None): NONE, tuple: TUPLE, list: LIST, dict: DICT}

_leaf = default_registry.flatten(0)[1]
_HOW_TO_REGISTER = (
    "Use `register_pytree_node_serialization` or `register_namedtuple_serialization` of jax.export."
)


class _Registration(NamedTuple):
    nodetype: type
    serialized_name: str
    serialize_auxdata: Callable[[Any], bytes]
    deserialize_auxdata: Callable[[bytes], Any]
    from_children: Callable[[Any, Sequence[Any]], Any] | None


_by_type: dict[type, _Registration] = {}
_by_name: dict[str, _Registration] = {}


def register_pytree_node_serialization(
    nodetype: type[T],
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> type[T]:
    """Lets nodes of a class be part of serialized tree structures.

    Args:
      nodetype: the class, a node of pytrees already (`jax.tree_util.register_pytree_node`).
      serialized_name: what stands for the class in the bytes.
      serialize_auxdata: turns the node's auxiliary data into bytes.
      deserialize_auxdata: its inverse. It sees bytes of files: it must not trust them.
      from_children: takes auxiliary data and children and returns an instance of `nodetype`, of
        which only the structure is used. By default, the class's unflatten function.

    Returns:
      `nodetype`.

    Raises:
      ValueError: the class or the name is registered already, or the class is not a node.

    Example:
      >>> from jax import export
      >>> class Scaled:
      ...   def __init__(self, x, scale): self.x, self.scale = x, scale
      >>> jax.tree_util.register_pytree_node(
      ...     Scaled, lambda s: ((s.x,), s.scale), lambda scale, xs: Scaled(*xs, scale))
      >>> _ = export.register_pytree_node_serialization(
      ...     Scaled, serialized_name='example.Scaled',
      ...     serialize_auxdata=lambda scale: str(scale).encode(),
      ...     deserialize_auxdata=lambda data: int(data))
      >>> blob = export.export(jax.jit(lambda x: Scaled(x, 3)))(1.).serialize()
      >>> export.deserialize(blob).call(2.).scale
      3
    """
    if from_children is None and not (
        isinstance(nodetype, type) and default_registry.is_node(nodetype)
    ):
        raise ValueError(
            "If `from_children` is not present, you must call first "
            f"`jax.tree_util.register_pytree_node` for `{nodetype}`"
        )
    if nodetype in _by_type:
        raise ValueError(
            f"Duplicate serialization registration for type `{nodetype}`. Previous registration was"
            f" with serialized_name `{_by_type[nodetype].serialized_name}`."
        )
    if serialized_name in _by_name:
        raise ValueError(
            f"Duplicate serialization registration for serialized_name `{serialized_name}`."
            f" Previous registration was for type `{_by_name[serialized_name].nodetype}`."
        )
    registration = _Registration(
        nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children
    )
    _by_type[nodetype] = _by_name[serialized_name] = registration
    return nodetype


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Lets a class made by `collections.namedtuple` be part of serialized tree structures.

    Args:
      nodetype: the class. A reader's class must have the same fields, in the same order.
      serialized_name: what stands for the class in the bytes.

    Returns:
      `nodetype`.

    Raises:
      ValueError: it is not a namedtuple, or the class or the name is registered already.
    """
    fields = getattr(nodetype, "_fields", None)
    if not (isinstance(nodetype, type) and issubclass(nodetype, tuple)) or fields is None:
        raise ValueError(
            "Use `register_pytree_node_serialization` for types other than"
            f" `collections.namedtuple`. Got {nodetype}."
        )

    def from_children(names: Any, children: Sequence[Any]) -> Any:
        if names != list(fields) or len(names) != len(children):
            raise ValueError(
                f"`{serialized_name}` was serialized with the fields {names}, but"
                f" {nodetype} has {list(fields)}."
            )
        return nodetype(*children)

    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: json.dumps(fields).encode(),
        deserialize_auxdata=_names_from_json,
        from_children=from_children,
    )


def _names_from_json(data: bytes) -> list[str]:
    names = json.loads(data)
    if not (isinstance(names, list) and all(isinstance(n, str) for n in names)):
        raise ValueError(f"expected a JSON list of names, got {data[:100]!r}")
    return names


register_pytree_node_serialization(
    collections.OrderedDict,
    serialized_name="collections.OrderedDict",
    serialize_auxdata=lambda keys: json.dumps(list(keys)).encode(),
    deserialize_auxdata=lambda data: tuple(_names_from_json(data)),
)


def write(builder: Any, tree: PyTreeDef) -> int:
    """Adds a tree structure to a `flatbuffers.Builder`; returns its offset there.

    Raises:
      TypeError: a dictionary has keys that are not strings.
      ValueError: a node's class is not registered for serialization.
    """
    data = tree.node_data()
    parts = [write(builder, child) for child in tree.children()]
    children = _offsets(builder, parts) if parts else None
    if data is None:
        return _finish_node(builder, LEAF)
    nodetype, aux_data = data
    kind = _KIND_OF_TYPE.get(nodetype, CUSTOM)
    if kind == DICT:
        for key in aux_data:
            if not isinstance(key, str):
                raise TypeError(
                    "Serialization is supported only for dictionaries with string keys. Found key"
                    f" {key} of type {type(key)}."
                )
        keys = _offsets(builder, [builder.CreateString(key) for key in aux_data])
        return _finish_node(builder, DICT, children, keys)
    if kind != CUSTOM:
        return _finish_node(builder, kind, children)
    registration = _by_type.get(nodetype)
    if registration is None:
        raise ValueError(
            f"Cannot serialize PyTreeDef containing an unregistered type `{nodetype}`."
            f" {_HOW_TO_REGISTER}"
        )
    aux_bytes = registration.serialize_auxdata(aux_data)
    if not isinstance(aux_bytes, (bytes, bytearray)):
        raise ValueError(
            f"The custom serialization function for `{nodetype}` must return a `bytes` object. It"
            f" returned a {type(aux_bytes)}."
        )
    name = builder.CreateString(registration.serialized_name)
    return _finish_node(builder, CUSTOM, children, None, name, builder.CreateByteVector(aux_bytes))


def _offsets(builder: Any, offsets: list[int]) -> int:
    """Adds a vector of offsets."""
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def _finish_node(builder: Any, kind: int, *offsets: int | None) -> int:
    builder.StartObject(5)
    builder.PrependInt8Slot(_KIND, kind, 0)
    for slot, offset in enumerate(offsets, _CHILDREN):
        if offset is not None:
            builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    return builder.EndObject()


def read(node: Table) -> PyTreeDef:
    """The tree structure that `write` has written.

    Raises:
      ValueError: the bytes are damaged, or a node's class is not registered for serialization.
    """
    kind = node.byte(_KIND)
    children = [read(child) for child in node.tables(_CHILDREN)]
    make = PyTreeDef.from_node_data_and_children
    if kind in (LEAF, NONE):
        if children:
            raise ValueError("damaged tree structure: a leaf has children")
        return _leaf if kind == LEAF else make(default_registry, (type(None), None), [])
    if kind in (TUPLE, LIST):
        return make(default_registry, (tuple if kind == TUPLE else list, None), children)
    if kind == DICT:
        keys = node.strings(_KEYS)
        if len(keys) != len(children) or len(set(keys)) < len(keys):
            raise ValueError(
                f"damaged tree structure: a dictionary has the keys {keys} and {len(children)} values"
            )
        return make(default_registry, (dict, keys), children)
    if kind != CUSTOM:
        raise ValueError(f"damaged tree structure: a node of the unknown kind {kind}")
    return _read_custom(node, children)


def _read_custom(node: Table, children: list[PyTreeDef]) -> PyTreeDef:
    name = node.string(_NAME)
    registration = _by_name.get(name) if name is not None else None
    if registration is None:
        raise ValueError(
            f"Cannot deserialize a PyTreeDef containing an unregistered type `{name}`."
            f" {_HOW_TO_REGISTER}"
        )
    deserialize_auxdata, from_children = (
        registration.deserialize_auxdata,
        registration.from_children,
    )
    data_bytes = node.bytes(_AUX_DATA) or b""
    aux_data = _call_registered(name, "deserialize_auxdata", deserialize_auxdata, data_bytes)
    data = registration.nodetype, aux_data
    if from_children is not None:
        leaves = [0.0] * len(children)
        instance = _call_registered(name, "from_children", from_children, aux_data, leaves)
        tree = default_registry.flatten(instance)[1]
        if len(tree.children()) != len(children):
            raise ValueError(
                f"`{name}` was serialized with {len(children)} children, but from_children makes"
                f" {len(tree.children())} of them."
            )
        data = tree.node_data()
    return PyTreeDef.from_node_data_and_children(default_registry, data, children)


def _call_registered(name: Any, what: str, function: Callable[..., T], *args: Any) -> T:
    """Calls a user's function, which sees bytes of files; ValueError if it raises."""
    try:
        return function(*args)
    except MemoryError:
        raise
    except Exception as err:
        raise ValueError(
            f"The function `{what}` that is registered for `{name}` raised {type(err).__name__}: {err}. It"
            f" was called with {', '.join(repr(a)[:200] for a in args)}."
        ) from err


def to_bytes(tree: PyTreeDef) -> bytes:
    """The flatbuffer of a tree structure."""
    import flatbuffers  # only writers need it

    builder = flatbuffers.Builder(1024)
    builder.Finish(write(builder, tree))
    return bytes(builder.Output())


def from_bytes(data: bytes) -> PyTreeDef:
    """The inverse of `to_bytes`; raises ValueError if the bytes are damaged."""
    return read(Buffer(data).root())
