"""Helpers of the transformations: arguments, axis trees, names of arguments and results."""

from __future__ import annotations

import inspect
import operator
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.core.jaxpr import DebugInfo, fun_source_info, initial_result_paths
from jax._src.tree_util import (
    FlattenedIndexKey,
    KeyPath,
    PyTreeDef,
    broadcast_flattened_prefix_with_treedef,
    leaf_key_paths,
    paths_of,
    prefix_errors_pytreedef,
    tree_flatten,
    tree_map,
    tree_structure,
    tree_unflatten,
    treedef_children,
)


def check_callable(fun: Any) -> None:
    """Raise TypeError if `fun` is not a function that can be transformed."""
    if isinstance(fun, staticmethod):
        raise TypeError(f"staticmethod arguments are not supported, got {fun}")
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    if inspect.isgeneratorfunction(fun):
        raise TypeError(f"Expected a function, got a generator function: {fun}")


def ensure_index(x: Any) -> int | tuple[int, ...]:
    """`x` as an int if it is an index, otherwise as a tuple of ints."""
    try:
        return operator.index(x)
    except TypeError:
        return tuple(map(operator.index, x))


def ensure_index_tuple(x: Any) -> tuple[int, ...]:
    try:
        return (operator.index(x),)
    except TypeError:
        return tuple(map(operator.index, x))


def ensure_str_tuple(x: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(x, str):
        return (x,)
    x = tuple(x)
    for name in x:
        if not isinstance(name, str):
            raise TypeError(f"argument is not a string: {name!r}, a name of type {type(name)}")
    return x


def fun_signature(fun: Callable) -> inspect.Signature | None:
    """The signature of `fun`, or None if Python cannot determine it."""
    try:
        return inspect.signature(fun)
    except (ValueError, TypeError):
        return None


def resolve_kwargs(fun: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple:
    """Convert the arguments of a call to positional arguments, with defaults applied.

    Raises:
      TypeError: if an argument can only be passed by keyword.
    """
    return resolve_by_signature(fun_signature(fun), args, kwargs)


def resolve_by_signature(sig: inspect.Signature | None, args, kwargs) -> tuple:
    """`resolve_kwargs` of a function with the signature `sig`, which may be unknown."""
    if sig is None:
        if kwargs:
            raise TypeError(
                f"keyword arguments {sorted(kwargs)} could not be resolved to positions"
            )
        return tuple(args)
    bound = sig.bind(*args, **kwargs)
    bound.apply_defaults()
    if by_keyword := sorted(k for k in bound.kwargs if k in kwargs):
        raise TypeError(f"keyword arguments {by_keyword} could not be resolved to positions")
    return bound.args


def infer_argnums_and_argnames(sig, argnums, argnames) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Static or donated arguments by position and by name, each completed from the other."""
    if argnums is None and argnames is None:
        return (), ()
    given_nums, given_names = argnums is not None, argnames is not None
    argnums = ensure_index_tuple(argnums) if given_nums else ()
    argnames = ensure_str_tuple(argnames) if given_names else ()
    if sig is None:
        return argnums, argnames
    params = list(sig.parameters.values())
    positional = [p for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not given_nums:
        argnums = tuple(i for i, p in enumerate(positional) if p.name in argnames)
    elif not given_names:
        argnames = tuple(
            positional[i].name
            for i in argnums  # a negative position depends on the number of arguments of a call
            if 0 <= i < len(positional)
            and positional[i].kind == inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
    return argnums, argnames


def check_argnums_names(fun, sig, argnums, argnames, kind: str) -> None:
    """Raise ValueError for positions or names that `fun` does not have."""
    if sig is None:
        return
    params = list(sig.parameters.values())
    n_positional = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in params)
    if not any(p.kind == p.VAR_POSITIONAL for p in params):
        for i in argnums:
            if not -n_positional <= i < n_positional:
                raise ValueError(
                    f"Jitted function has {kind}_argnums={argnums}, but only accepts {n_positional} "
                    "positional arguments."
                )
    names = set(argnames)
    by_position = {p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
    if wrong := names & by_position:
        raise ValueError(
            f"Jitted function has invalid argnames {_names_text(wrong)} in {kind}_argnames. These are "
            f"positional-only: give their positions in {kind}_argnums."
        )
    if any(p.kind == p.VAR_KEYWORD for p in params):
        return
    valid = {p.name for p in params} - by_position
    if wrong := names - valid:
        raise ValueError(
            f"Jitted function has invalid argnames {_names_text(wrong)} in {kind}_argnames. Function "
            f"does not take these args. Valid names are {sorted(valid)}."
        )


def _names_text(names: set[str]) -> str:
    return f"{{{', '.join(map(repr, sorted(names)))}}}"


def resolve_argnums(fun, sig, donate_argnums, donate_argnames, static_argnums, static_argnames):
    """Static and donated arguments of `jit`, checked against the signature and each other.

    Raises:
      ValueError: for arguments that `fun` does not have or that are both static and donated, and
        for names of donated arguments if the signature of `fun` is not known.
    """
    if sig is None and donate_argnames is not None:
        raise ValueError(
            f"Getting the signature of function {fun} failed. Pass donate_argnums instead of "
            "donate_argnames."
        )
    static_argnums, static_argnames = infer_argnums_and_argnames(
        sig, static_argnums, static_argnames
    )
    donate_argnums, donate_argnames = infer_argnums_and_argnames(
        sig, donate_argnums, donate_argnames
    )
    check_argnums_names(fun, sig, static_argnums, static_argnames, "static")
    check_argnums_names(fun, sig, donate_argnums, donate_argnames, "donate")
    if both := set(static_argnames) & set(donate_argnames):
        raise ValueError(
            "static_argnames and donate_argnames cannot intersect. Argument names "
            f"{_names_text(both)} appear in both static_argnames and donate_argnames"
        )
    return donate_argnums, donate_argnames, static_argnums, static_argnames


def normalize_argnums(nums: Iterable[int], num_args: int) -> tuple[int, ...]:
    """Convert positions to nonnegative ones, for a call with `num_args` positional arguments.

    Raises:
      ValueError: for a negative position before the first argument of the call.
    """
    for i in nums:
        if i < -num_args:
            raise ValueError(
                "Positional argument indices, e.g. for `static_argnums`, must have value greater than "
                f"or equal to -len(args) and less than len(args), but got value {i} for len(args) == "
                f"{num_args}."
            )
    return tuple([i + num_args if i < 0 else i for i in nums])


def check_hashable_static(static_args: Sequence[Any]) -> None:
    for val in static_args:
        try:
            hash(val)
        except TypeError as err:
            raise ValueError(
                "Non-hashable static arguments are not supported. An error occurred while trying to "
                f"hash an object of type {type(val)}, {val}. The error was:\n{err}\nMake it hashable "
                "(a tuple instead of a list), or pass it as a traced argument."
            ) from None


def rebase_donate_argnums(donate_argnums, static_argnums) -> tuple[int, ...]:
    """Positions of the donated arguments among the arguments that are not static.

    >>> rebase_donate_argnums((3, 4), (0, 1))
    (1, 2)
    """
    if both := sorted(set(donate_argnums) & set(static_argnums)):
        raise ValueError(f"arguments {both} cannot be both static and donated")
    return tuple(sorted({i - sum(s < i for s in static_argnums) for i in donate_argnums}))


def donation_vector(
    donate_argnums, donate_argnames, in_tree: PyTreeDef, kws: bool = True
) -> tuple[bool, ...]:
    """Whether each flat argument is donated.

    Args:
      donate_argnums, donate_argnames: the donated arguments, by position and by name.
      in_tree: the tree of (args, kwargs), or of args alone if `kws` is False.
    """
    if not kws:
        args_tree = in_tree
        kwargs_tree = tree_structure({})
    else:
        args_tree, kwargs_tree = treedef_children(in_tree)
    res: list[bool] = []
    children = treedef_children(args_tree)
    nums = {i + len(children) if i < 0 else i for i in donate_argnums}
    for i, child in enumerate(children):
        res.extend([i in nums] * child.num_leaves)
    names = (
        kwargs_tree.node_data()[1] if kwargs_tree.num_nodes > 0 and kwargs_tree.node_data() else ()
    )
    for name, child in zip(names, treedef_children(kwargs_tree)):
        res.extend([name in donate_argnames] * child.num_leaves)
    return tuple(res)


def _is_none(x: Any) -> bool:
    return x is None


def flatten_axes(
    name: str, treedef: PyTreeDef, axis_tree: Any, *, kws: bool = False, tupled_args=False
):
    """Broadcast a prefix tree: a list with one entry for each leaf of `treedef`; None is an entry.

    Raises:
      ValueError: if `axis_tree` is not a tree prefix; the message names the place.
    """
    if axis_tree is None or type(axis_tree) is int:
        return [axis_tree] * treedef.num_leaves
    leaves, prefix = tree_flatten(axis_tree, _is_none)
    if prefix == treedef:
        return leaves
    try:
        return broadcast_flattened_prefix_with_treedef(leaves, prefix, treedef)
    except ValueError:
        pass
    if kws:  # describe the mismatch in the positional arguments
        axis_tree, treedef = axis_tree[0], treedef_children(treedef)[0]
    hint = ""
    if tupled_args and not isinstance(axis_tree, tuple):
        hint = f" For a function of one argument, give ({axis_tree},)."
    errors = prefix_errors_pytreedef(axis_tree, treedef, _is_none)
    details = "\n".join(str(e(name)) for e in errors).replace("\n", "\n  ")
    raise ValueError(
        f"{name} specification must be a tree prefix of the corresponding value.{hint}\n"
        f"  Mismatch details ({len(errors)} found):\n  {details}"
    )


def argnums_partial(fun: Callable, dyn_argnums, args: Sequence[Any]) -> tuple[Callable, tuple]:
    """`fun` as a function of the arguments `dyn_argnums` only, with the others fixed."""
    argnums = tuple(i + len(args) if i < 0 else i for i in ensure_index_tuple(dyn_argnums))
    for i, given in zip(argnums, ensure_index_tuple(dyn_argnums)):
        if not 0 <= i < len(args):
            raise ValueError(
                f"argnums={given} is out of range for a call with {len(args)} positional arguments"
            )
    if len(set(argnums)) != len(argnums):
        raise ValueError(f"argnums={tuple(dyn_argnums)} names an argument more than once")
    fixed = list(args)

    def partial_fun(*dyn_args):
        full = list(fixed)
        for i, x in zip(argnums, dyn_args):
            full[i] = x
        return fun(*full)

    return partial_fun, tuple(args[i] for i in argnums)


def arg_names_thunk(
    fun: Callable, in_tree: PyTreeDef, static_argnums=(), signature=None,
    paths: Callable[[], Sequence[KeyPath]] | None = None,
):  # fmt: skip
    """A function that returns the path strings of the flat arguments (None for unknown names).

    Args:
      fun: the function; only a weak reference to it is kept.
      in_tree: the tree of (dynamic args, dynamic kwargs).
      static_argnums: positions of static arguments.
      signature: the signature to use in place of that of `fun`.
      paths: returns the key paths of the arguments, as from `paths_of`; by default those of
        `in_tree`.
    """
    try:
        ref: Callable = weakref.ref(fun)
    except TypeError:
        ref = lambda: fun

    code = None
    if type(fun) is types.FunctionType and not hasattr(fun, "__wrapped__"):
        code = fun.__code__

    def names():
        f = ref()
        sig = signature
        if sig is None and f is not None:
            sig = fun_signature(f)
        total = len(treedef_children(treedef_children(in_tree)[0])) + len(static_argnums)
        positional, named, var, var_keyword = [], set(), None, None
        if sig is not None:
            for p in sig.parameters.values():
                if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                    positional.append(p.name)
                elif p.kind == p.VAR_POSITIONAL:
                    var = p.name
                elif p.kind == p.VAR_KEYWORD:
                    var_keyword = p.name
                if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                    named.add(p.name)
        elif code is not None:  # the function has been collected; its code is enough
            positional = list(code.co_varnames[: code.co_argcount])
            end = code.co_argcount + code.co_kwonlyargcount
            named = {*code.co_varnames[code.co_posonlyargcount : end]}
            if code.co_flags & inspect.CO_VARARGS:
                var = code.co_varnames[end]
            if code.co_flags & inspect.CO_VARKEYWORDS:
                var_keyword = code.co_varnames[end + (var is not None)]
        statics = {i + total if i < 0 else i for i in static_argnums}
        slots = [i for i in range(total) if i not in statics]
        out: list[str | None] = []
        for path in leaf_key_paths(in_tree) if paths is None else paths():
            (kind, key), rest = path[:2], path[2:]
            if kind.idx == 1:
                name = str(key.key)
                if var_keyword is not None and name not in named:
                    name = f"{var_keyword}[{name!r}]"
            elif (i := slots[key.idx]) < len(positional):
                name = positional[i]
            elif var is not None:
                name = f"{var}[{i - len(positional)}]"
            else:
                name = f"args[{i}]"
            out.append(name + _path_in_name(rest))
        return tuple(out)

    return names


def _path_in_name(path: KeyPath) -> str:
    """A key path as part of an argument's or result's name; children without keys are numbered."""
    return "".join([f"[{k.key}]" if type(k) is FlattenedIndexKey else str(k) for k in path])


def debug_info(
    traced_for: str, fun: Callable, args: Sequence[Any], kwargs: dict, *,
    static_argnums=(), static_argnames=(), result_paths_thunk: Any = initial_result_paths,
    sourceinfo: str | None = None, signature: inspect.Signature | None = None,
) -> DebugInfo:  # fmt: skip
    """The `DebugInfo` of a function to trace; names of arguments are computed when first needed.

    Args:
      traced_for: the transformation.
      fun: the function.
      args, kwargs: the arguments it is called with.
      static_argnums, static_argnames: which of them are static.
      result_paths_thunk: returns the path strings of the flat results, once they are known.
      sourceinfo: the source of `fun`, in place of what is found from `fun`.
      signature: the signature to use in place of that of `fun`.
    """
    statics = {i + len(args) if i < 0 else i for i in static_argnums}
    dyn = tuple(a for i, a in enumerate(args) if i not in statics)
    kw = {k: v for k, v in kwargs.items() if k not in static_argnames}
    in_tree = tree_structure((dyn, kw))
    paths = paths_of((dyn, kw), in_tree)
    return DebugInfo(
        traced_for,
        fun_source_info(fun) if sourceinfo is None else sourceinfo,
        arg_names_thunk(fun, in_tree, static_argnums, signature, paths),
        None if result_paths_thunk is initial_result_paths else result_paths_thunk,
    )


class FlatResult:
    """The tree of the result of a flattened function; calling the object returns the tree.

    Attributes:
      named: whether key paths of the result are needed too. They are taken from the result itself,
        since some classes define keys for instances only.
    """

    __slots__ = ("tree", "paths", "named")

    def __init__(self):
        self.tree: PyTreeDef | None = None
        self.paths: Callable[[], Sequence[KeyPath]] | None = None
        self.named = False

    def flatten(self, result: Any) -> list:
        """The leaves of a result; its tree is kept."""
        leaves, tree = tree_flatten(result)
        self.tree = tree
        if self.named:
            self.paths = paths_of(result, tree)
        return leaves

    def __call__(self) -> PyTreeDef:
        assert self.tree is not None, "the function has not run"
        return self.tree


def result_paths_thunk(result: FlatResult) -> Callable:
    """A function that returns the path strings of flat results, like `result['a'][0]`.

    It is created before the function runs, and called afterwards.
    """
    result.named = True

    def paths():
        return tuple(["result" + _path_in_name(path) for path in result.paths()])

    return paths


def flatten_fun(fun: Callable, in_tree: PyTreeDef) -> tuple[Callable, FlatResult]:
    """Flatten arguments and result of `fun`; the `FlatResult` returns the tree of the result."""
    result = FlatResult()

    def flat(*leaves):
        args, kwargs = tree_unflatten(in_tree, leaves)
        return result.flatten(fun(*args, **kwargs))

    return flat, result


def flatten_fun_nokwargs(fun: Callable, in_tree: PyTreeDef) -> tuple[Callable, FlatResult]:
    """Like `flatten_fun`, for functions that take positional arguments only."""
    result = FlatResult()

    def flat(*leaves):
        return result.flatten(fun(*tree_unflatten(in_tree, leaves)))

    return flat, result


def flatten_fun_aux(fun: Callable, in_tree: PyTreeDef) -> tuple[Callable, FlatResult, Callable]:
    """Flatten a function that returns (result, aux); the flat function returns the result's leaves.

    The other two functions return the tree of the result, and the auxiliary data. That is a tree of
    any objects, in which tracers are replaced by their primal values.
    """
    result, store = FlatResult(), []

    def flat(*leaves):
        res = fun(*tree_unflatten(in_tree, leaves))
        if not isinstance(res, (tuple, list)) or len(res) != 2:
            raise TypeError(
                "expected function with aux output to return a two-element tuple, but got type "
                f"{type(res)} with value {res!r}"
            )
        primal = core.trace_ctx.trace.to_primal_tangent_pair
        aux = tree_map(lambda x: primal(x)[0] if isinstance(x, core.Tracer) else x, res[1])
        store[:] = [aux]
        return result.flatten(res[0])

    return flat, result, lambda: store[0]


def shaped_abstractify(x: Any) -> core.AbstractValue:
    """The type of a value, or of an object that only has `shape` and `dtype`.

    Raises:
      TypeError: if `x` is neither.
    """
    try:
        return core.typeof(x)
    except TypeError:
        if isinstance(x, core.AbstractValue) and (x.is_high or x._sharding is not None):
            return x
        if isinstance(x, (np.ndarray, np.generic)) or not (
            hasattr(x, "shape") and hasattr(x, "dtype")
        ):
            raise
    dtype = dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True)
    weak_type = getattr(x, "weak_type", False)
    return core.ShapedArray(core.canonicalize_shape(x.shape), dtype, weak_type)


# Caches of traces, by function: they are freed together with the function

_traces_by_function: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()
_other_traces: weakref.WeakSet[TraceTable] = weakref.WeakSet()
_lock = threading.RLock()  # re-entrant: hashing a user's object can run anything


class TraceTable(dict):
    """Traces of one function, by the types of its arguments."""

    __slots__ = ("__weakref__", "owner")
    owner: weakref.ref[Any]  # the function, if the table is stored as its attribute
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def trace_table(fun: Callable) -> TraceTable:
    """The traces of `fun`, which are freed with it; therefore they must not refer to it.

    If the traces of a function do refer to it, the table is an attribute of the function, so that
    the garbage collector can free both (see `with_own_traces`).
    """
    attributes = getattr(fun, "__dict__", None)
    if attributes and (own := attributes.get("_own_traces")) is not None:
        if own.owner() is fun:  # `functools.wraps` copies attributes to other functions
            return own
    if getattr(type(fun), "_holds_traces", False):
        return with_own_traces(fun)._own_traces
    try:
        with _lock:
            table = _traces_by_function.get(fun)
            if table is None:
                table = _traces_by_function[fun] = TraceTable()
            return table
    except TypeError:  # not hashable, or does not support weak references
        table = TraceTable()
        _other_traces.add(table)
        return table


def with_own_traces(fun: Callable) -> Callable:
    """Store the traces of `fun`, one of our own callables, on it: both are freed together."""
    table = fun._own_traces = TraceTable()
    table.owner = weakref.ref(fun)
    _other_traces.add(table)
    return fun


def clear_trace_tables() -> None:
    """Forget all traces."""
    with _lock:
        for table in list(_traces_by_function.values()) + list(_other_traces):
            table.clear()


def check_can_be_key(fun: Callable) -> None:
    """Raise TypeError unless `fun` can be a weak key: hashable, and with weak references."""
    hash(fun)
    weakref.ref(fun)


def check_may_trace(fun: Callable, kind: str) -> None:
    """Raise RuntimeError if the option `jax_no_tracing` forbids tracing."""
    if config.no_tracing.value:
        raise RuntimeError(
            f"re-tracing function {fun_source_info(fun)} for `{kind}`, but 'no_tracing' is set"
        )


def all_valid(consts: Iterable[Any]) -> bool:
    """Whether a trace that closes over these values can be used again.

    The traces of all tracers among them must be in progress; and there must be no mutable value of a
    high type, whose state may be another one now.
    """
    for c in consts:
        if isinstance(c, core.Tracer):
            if not c._trace.is_valid() or c.aval.has_qdd:
                return False
        elif hasattr(type(c), "cur_qdd"):
            return False
    return True


# Names that outside code imports


def flatten_axis_resources(what: str, tree: PyTreeDef, shardings: Any, tupled_args: bool) -> tuple:
    """The shardings of all leaves of `tree`, given a tree prefix of them, as `flatten_axes`."""
    return tuple(flatten_axes(what, tree, shardings, tupled_args=tupled_args))
