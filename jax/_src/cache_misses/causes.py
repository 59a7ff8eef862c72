"""What differs between two calls of a function, and what the user can do about it."""

from __future__ import annotations

import enum
import functools
import inspect
import re
import reprlib
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import config
from jax._src.core import ShapedArray, typeof
from jax._src.named_sharding import NamedSharding
from jax._src.sharding_impls import UnspecifiedValue
from jax._src.tree_util import equality_errors_pytreedef, keystr
from jax._src.util import fun_name


class Change(NamedTuple):
    """One difference between a call and an earlier one.

    Attributes:
      kind: "shape", "dtype", "weak type", "sharding", "type", "structure", "call" (how arguments are passed), "static argument",
        "closure", "options", "configuration", "mesh" or "placement".
      path: the argument's path such as `params['w']`, or the name of what differs.
      old, new: texts of both.
      why: of a structure, what the difference is.
    """

    kind: str
    path: str
    old: str
    new: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.old} -> {self.new} ({self.why or self.kind})"

    def __repr__(self) -> str:
        return f"Change(kind={self.kind!r}, path={self.path!r}, old={self.old!r}, new={self.new!r})"

    @property
    def cause(self) -> str:
        return f"{self.kind} of {self.path}"

    @property
    def logged(self) -> str:
        if self.kind in ("configuration", "mesh"):
            return f"* {self.path} differs: now {self.new} and before {self.old}"
        if self.kind == "structure":
            return (
                f"* at input path {self.path}, now {self.new} and before {self.old}, so {self.why}"
            )
        if self.kind == "call":
            return f"* now {self.new} and before {self.old} {self.path}"
        if self.kind == "static argument":
            return f"* now {self.new} and before {self.old} for {self.path!r}"
        return f"* at {self.path}, now {self.new} and before {self.old}"


# Differences of keys of traces


def key_changes(
    fun: Callable, key: tuple, old: tuple, arg_names: Callable[[], Sequence[str | None]]
) -> tuple[tuple[int, int], list[Change]]:
    """The distance of two keys of the cache of traces, and how they differ."""
    signature, avals, options, context = key
    old_signature, old_avals, old_options, old_context = old
    if options != old_options:  # first, as they also decide which arguments the signature has
        changes = _option_changes(options, old_options)
        return (5, len(changes)), changes
    if signature != old_signature:
        distance, changes = _signature_changes(
            fun, signature, old_signature, options.static_argnums
        )
        return (4, distance), changes
    return _differences_of_types(avals, old_avals, context, old_context, arg_names)


def _option_changes(now: Any, before: Any) -> list[Change]:
    now, before = now._asdict(), before._asdict()
    differ = [name for name, value in now.items() if value != before[name]]
    # `jit` infers numbers and names of arguments from each other: the names say enough.
    inferred = {name.replace("names", "nums") for name in differ if name.endswith("names")}
    return [
        Change("options", _OPTION_NAMES.get(name, name), text(before[name]), text(now[name]))
        for name in differ
        if name not in inferred
        for text in [_OPTION_TEXTS.get(name, short)]
    ]


def _shardings(option: tuple[tuple, str]) -> str:
    """The text of `in_shardings` or `out_shardings`, which keys have as leaves and tree."""
    leaves, tree = option
    texts = ["None" if leaf is None else _place(leaf) for leaf in leaves]
    return texts[0] if tree == "PyTreeDef(*)" else f"({', '.join(texts)})"


_OPTION_NAMES = {"of_transform": "transformation"}
_OPTION_TEXTS: dict[str, Callable[[Any], str]] = {
    "in_shardings": _shardings,
    "out_shardings": _shardings,
    "compiler_options": lambda options: short(dict(options)),
}


def staging_changes(
    key: tuple, old: tuple, arg_names: Callable[[], Sequence[str | None]]
) -> tuple[tuple[int, int], list[Change]]:
    """The distance of two keys of functions that others call, and how they differ."""
    _, tree, avals, *statics, context = key
    _, old_tree, old_avals, *old_statics, old_context = old
    if tree != old_tree:
        changes = _tree_changes("arguments", tree, old_tree)
        return (4, len(changes)), changes
    if statics != old_statics:
        return (3, 0), [Change("static argument", "all", short(old_statics), short(statics))]
    return _differences_of_types(avals, old_avals, context, old_context, arg_names)


def _differences_of_types(
    avals: Sequence[Any], old_avals: Sequence[Any], context: tuple, old_context: tuple,
    arg_names: Callable[[], Sequence[str | None]],
) -> tuple[tuple[int, int], list[Change]]:  # fmt: skip
    if avals == old_avals:
        changes = context_changes(context, old_context)
        return (1, len(changes)), changes
    names = arg_names()
    changes, distance = [], 0
    for i, (now, before) in enumerate(zip(avals, old_avals)):
        if now != before:
            name = names[i] if i < len(names) else None
            kinds = _type_changes(now, before)
            changes.append(Change(kinds[0], name or f"argument {i}", _text(before), _text(now)))
            distance += len(kinds)
    return (2, distance), changes


def _tree_changes(path: str, tree: Any, old: Any) -> list[Change]:
    return [
        Change("structure", f"{path}{keystr(tuple(where))}", old_text, new_text, why)
        for where, new_text, old_text, why in equality_errors_pytreedef(tree, old)
    ]


def _type_changes(now: Any, before: Any) -> list[str]:
    """The attributes in which two types differ, the most important one first."""
    names = dict(shape="shape", dtype="dtype", weak_type="weak type", sharding="sharding")
    kinds = [k for n, k in names.items() if getattr(now, n, None) != getattr(before, n, None)]
    return kinds or ["type"]


def _text(aval: Any) -> str:
    text: str = aval.str_short(short_dtypes=True)
    return f"{text} (weakly typed)" if getattr(aval, "weak_type", False) else text


def context_changes(context: tuple, old: tuple) -> list[Change]:
    """How two tracing contexts differ."""
    meshes = ("abstract_mesh_context_manager", "device_context")
    return [
        Change("mesh" if name in meshes else "configuration", name, str(before), str(now))
        for name, now, before in zip(config.trace_context_names(), context, old)
        if now != before
    ]


def _signature_changes(
    fun: Callable, now: Any, before: Any, static_argnums: Sequence[int]
) -> tuple[int, list[Change]]:
    """In how many arguments two ways of calling differ, and how; static arguments come last."""
    trees, old_trees = now.dynamic_arg_treedefs, before.dynamic_arg_treedefs
    names, old_names = list(now.dynamic_arg_names), list(before.dynamic_arg_names)
    n, n_old = len(trees) - len(names), len(old_trees) - len(old_names)
    distance = abs(n - n_old) + len({*names} ^ {*old_names})
    changes = []
    if n != n_old:
        changes.append(Change("call", "positional arguments", str(n_old), str(n)))
    if names != old_names:
        changes.append(
            Change("call", "keyword arguments", f"({_list(old_names)})", f"({_list(names)})")
        )
    if not changes:
        positional, _ = _parameters(fun, now, static_argnums)
        paths = [*positional, *names]
        for path, tree, old in zip(paths, trees, old_trees):
            changes += _tree_changes(path, tree, old)
        distance = len(changes)
    of_statics = _static_changes(fun, now, before, static_argnums)
    if not changes and not of_statics:
        of_statics = [Change("call", "signature", "another one", "this one")]
    return distance + len(of_statics), changes or of_statics


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _parameters(
    fun: Callable, signature: Any, static_argnums: Sequence[int]
) -> tuple[list[str], list[str]]:
    """Names of the positional arguments: of the dynamic and of the static ones."""
    n_dynamic = len(signature.dynamic_arg_treedefs) - len(signature.dynamic_arg_names)
    n = n_dynamic + len(signature.static_args) - len(signature.static_arg_names)
    statics = sorted({i + n if i < 0 else i for i in static_argnums if -n <= i < n})
    dynamic = [i for i in range(n) if i not in statics]
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = dict(enumerate(p.name for p in parameters if p.kind in kinds))
    return tuple([names.get(i, f"argument {i}") for i in group] for group in (dynamic, statics))


def _static_changes(
    fun: Callable, now: Any, before: Any, static_argnums: Sequence[int]
) -> list[Change]:
    new, old = (_static_arguments(fun, call, static_argnums) for call in (now, before))
    if new.keys() != old.keys():
        defaults = _defaults(fun)
        new, old = defaults | new, defaults | old
    changes = [
        _static_change(name, value, old[name])
        for name, value in new.items()
        if name in old and _is_another(value, old[name])
    ]
    in_one_way = now.static_arg_names == before.static_arg_names
    if new.keys() != old.keys() or (not changes and not in_one_way):
        given, given_before = short([*now.static_args]), short([*before.static_args])
        changes.append(Change("call", "static arguments", given_before, given))
    return changes


def _is_another(value: Any, earlier: Any) -> bool:
    """Whether two values differ; those of different types, such as arrays, may refuse to be compared."""
    return value is not earlier and (type(value) is not type(earlier) or value != earlier)


def _static_arguments(fun: Callable, call: Any, static_argnums: Sequence[int]) -> dict[str, Any]:
    """The static arguments of a call by their names."""
    _, positional = _parameters(fun, call, static_argnums)
    return dict(zip([*positional, *map(str, call.static_arg_names)], call.static_args))


_OF_NANS = "nan does not equal nan"


def _static_change(name: str, value: Any, earlier: Any) -> Change:
    why = ""
    if (
        isinstance(value, float)
        and isinstance(earlier, float)
        and value != value
        and earlier != earlier
    ):
        why = _OF_NANS
    elif type(value) is type(earlier) and type(value).__eq__ is object.__eq__:
        is_function = isinstance(value, (types.FunctionType, functools.partial))
        why = "another function object" if is_function else "another object without __eq__"
    return Change("static argument", name, short(earlier), short(value), why)


def _defaults(fun: Callable) -> dict[str, Any]:
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


# Differences of programs of one trace


def placement_changes(params: dict, key: tuple, old: tuple, names: Sequence) -> list[Change]:
    """How two keys of compiled programs of one trace differ."""
    _, (places, *meshes), options, context = key
    _, (old_places, *old_meshes), old_options, old_context = old
    changes = []
    for i, (now, before) in enumerate(zip(places, old_places)):
        if now != before:
            name = names[i] if i < len(names) else None
            old_text, new_text = _place(before), _place(now)
            changes.append(Change("placement", name or f"argument {i}", old_text, new_text))
    option_names = [name for name in params if name != "jaxpr"]
    for name, now, before in zip(option_names, options, old_options):
        if now != before:
            changes.append(Change("options", name, _option(before), _option(now)))
    if meshes != old_meshes:
        changes.append(Change("mesh", "mesh", short(old_meshes[0]), short(meshes[0])))
    return changes or context_changes(context, old_context)


def _option(value: Any) -> str:
    """The text of an option; those about arguments and results have a value for each of them."""
    unspecified = isinstance(value, tuple) and any(isinstance(x, UnspecifiedValue) for x in value)
    return f"({', '.join(map(_place, value))})" if unspecified else short(value)


def _place(entry: Any) -> str:
    sharding, layout = entry if isinstance(entry, tuple) else (entry, None)
    if sharding is None:
        return "not committed to a device"
    if isinstance(sharding, UnspecifiedValue):
        return "unspecified"
    if isinstance(sharding, NamedSharding):
        text = f"{sharding.spec} on mesh {dict(sharding.mesh.shape)}"
    else:
        text = short(sharding)
    kind = getattr(sharding, "memory_kind", None)
    if kind not in (None, "device", "unpinned_host"):
        text += f" in {kind}"
    return text if layout is None else f"{text}, {short(layout)}"


# Texts of values


class _Repr(reprlib.Repr):
    """Short texts. Arrays are shown by their types, as their values may be on other devices."""

    def __init__(self, of_objects: Callable[[Any], str]):
        super().__init__()
        self.maxstring = self.maxother = 80
        self._of_objects = of_objects

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(x, (np.ndarray, np.generic)) or hasattr(x, "aval"):
            aval = typeof(x)
            return aval.str_short(short_dtypes=True) if isinstance(aval, ShapedArray) else str(aval)
        if isinstance(x, (bool, float, complex, bytes, types.NoneType)):
            return repr(x)
        if isinstance(x, (types.FunctionType, type)):
            return f"{'class' if isinstance(x, type) else 'function'} {fun_name(x)}"
        text = self._of_objects(x)
        return text if len(text) <= self.maxother else f"{text[: self.maxother - 3]}..."


_of_values = _Repr(repr)
# of what a function captures, which is looked at each time it is traced: a model's repr may be long and slow
_of_captured = _Repr(lambda x: repr(x) if isinstance(x, enum.Enum) else f"a {type(x).__name__}")


def short(value: Any) -> str:
    """A short text of a value: its type if it is an array, its name if it is a function."""
    return _text_by(_of_values, value)


def _text_by(reprs: _Repr, value: Any) -> str:
    try:
        return reprs.repr(value)
    except Exception:  # a user's __repr__ may fail
        return f"a {type(value).__name__}"


def captured(fun: Callable) -> dict[str, str]:
    """Texts of what a function captures: variables of enclosing functions, and arguments of a `partial`."""
    values: dict[str, Any] = {}
    while isinstance(fun, functools.partial):
        values |= {f"argument {i} of partial": x for i, x in enumerate(fun.args)}
        values |= {f"argument {k} of partial": x for k, x in fun.keywords.items()}
        fun = fun.func
    fun = inspect.unwrap(fun)
    if (owner := getattr(fun, "__self__", None)) is not None:
        values["self"] = owner
    code = getattr(fun, "__code__", None)
    for name, cell in zip(
        getattr(code, "co_freevars", ()), getattr(fun, "__closure__", None) or ()
    ):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    return {name: _text_by(_of_captured, x) for name, x in values.items()}


# Remedies


def remedy_for(
    kind: str, name: str, changes: Sequence[Change], is_method: bool = False
) -> str | None:
    """What avoids a miss of a function or a bound method, as a sentence."""
    if kind == "first":
        return None
    if kind == "cleared":
        return (
            "call jax.clear_caches or clear_cache less often: all programs are made anew after it"
        )
    if not changes and is_method:
        return (
            f"each access to the method {name} makes a new object: keep the jitted one, such as self.{name} ="
            f" jax.jit(self.{name}) in __init__"
        )
    if not changes:
        return f"define {name} once, outside of the loop or function that calls it: jit finds traces by the function object"
    change = changes[0]
    return _REMEDIES[change.kind](name, change)


def _shape_remedy(name: str, change: Change) -> str:
    x = change.path
    old, new = _sizes(change.old), _sizes(change.new)
    if old is None or new is None or len(old) != len(new):
        return f"pass {x} always with the same number of axes"
    axes = [i for i, sizes in enumerate(zip(old, new)) if sizes[0] != sizes[1]]
    which = f"axis {axes[0]}" if len(axes) == 1 else "the axes"
    return (
        f"each size of {which} of {x} is a program of its own: pad {x} to few sizes (jnp.pad), or split it into"
        " parts of one size"
    )


def _sizes(text: str) -> list[str] | None:
    _, bracket, rest = text.partition("[")
    return [s for s in rest.partition("]")[0].split(",") if s] if bracket else None


def _static_remedy(name: str, change: Change) -> str:
    x = change.path
    if change.why == _OF_NANS:
        return f"pass something else for {x} in place of nan, such as None: each nan is a program of its own"
    if change.why == "another function object":
        return f"pass the same function for {x}: one that is defined once, not a new lambda or partial for each call"
    if change.why:
        return f"give the class of {x} the methods __eq__ and __hash__ (@dataclasses.dataclass(frozen=True)), so that equal objects share a program"
    return f"each value of {x} is a program of its own: do not mark it as static if {name} only calculates with it"


def _call_remedy(name: str, change: Change) -> str:
    return f"pass the arguments of {name} in one way: by position or by name, with or without those that have defaults"


def _dtype_remedy(name: str, change: Change) -> str:
    x, dtype = change.path, _dtype(change.old)
    if dtype is None or _dtype(change.new) is None:  # no number can be converted to a key
        return f"pass {x} always with one dtype"
    return f"convert {x} to one type before the call: jnp.asarray({x}, {dtype})"


def _weak_remedy(name: str, change: Change) -> str:
    return (
        f"{change.path} is a Python number in one call and an array in the other: pass"
        f" jnp.asarray({change.path}, {_dtype(change.old)}) in both"
    )


_LONG = dict(f="float", bf="bfloat", i="int", u="uint", c="complex")


def _dtype(text: str) -> str | None:
    """How a program writes the dtype of a type that is given as a short text; None of keys."""
    short_name = text.partition("[")[0]
    if short_name == "bool":
        return "bool"
    match = re.fullmatch(r"([a-z]+)(\d\w*)", short_name)
    return f'"{_LONG[match[1]]}{match[2]}"' if match and match[1] in _LONG else None


_REMEDIES: dict[str, Callable[[str, Change], str]] = {
    "shape": _shape_remedy,
    "dtype": _dtype_remedy,
    "weak type": _weak_remedy,
    "sharding": lambda name, c: (
        f"give {c.path} one sharding before the call: jax.reshard or jax.device_put"
    ),
    "type": lambda name, c: f"pass {c.path} with one type",
    "structure": lambda name, c: (
        f"pass {c.path} with one structure: the same keys, lengths and classes, and None either always or never"
    ),
    "call": _call_remedy,
    "static argument": _static_remedy,
    "closure": lambda name, c: (
        f"make {c.path} an argument of {name} (a static one if it is not an array), and define {name} once"
    ),
    "options": lambda name, c: f"jit {name} once, with one set of options",
    "configuration": lambda name, c: f"set {c.path} once, at the start of the program",
    "mesh": lambda name, c: (
        f"call {name} in the context of one mesh: jax.set_mesh once, at the start of the program"
    ),
    "placement": lambda name, c: (
        f"put {c.path} on the same devices in the same way before each call (jax.device_put), or give jit in_shardings"
    ),
}
