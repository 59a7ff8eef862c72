"""Helpers that do not depend on arrays: sequences, caches, names, axes."""

from __future__ import annotations

import abc
import functools
import inspect
import itertools
import logging
import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial as partial
from math import prod as prod
from typing import Any, Protocol, SupportsIndex, TypeVar, overload

import numpy as np

from jax._src import config
from jax._src.lib import (
    pytree,
    utils as _jaxlib_utils,
    weakref_lru_cache as _jaxlib_weakref_lru_cache,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
F = TypeVar("F", bound=Callable)

# Like `map`, `zip` and a loop, but sequences of different lengths raise ValueError.
safe_map = _jaxlib_utils.safe_map
safe_zip = _jaxlib_utils.safe_zip
foreach = _jaxlib_utils.foreach
_topological_sort = _jaxlib_utils.topological_sort

# Names that outside code imports
Mutex = _jaxlib_utils.Mutex
install_failure_signal_handler = _jaxlib_utils.install_failure_signal_handler


# Sequences


def toposort(end_nodes: Iterable[Any]) -> list[Any]:
    """All ancestors of `end_nodes` (by the attribute `parents`), each after its parents."""
    return _topological_sort("parents", list(end_nodes))


def check_toposort(nodes: Iterable[Any]) -> None:
    """Raises ValueError unless each of `nodes` comes after its parents."""
    visited: set[int] = set()
    for node in nodes:
        if not all(id(parent) in visited for parent in node.parents):
            raise ValueError(f"{node} comes before one of its parents")
        visited.add(id(node))


def unzip2(xys: Iterable[tuple[T1, T2]]) -> tuple[tuple[T1, ...], tuple[T2, ...]]:
    """Turn a sequence of pairs into a pair of tuples, also if it is empty."""
    pairs = tuple(zip(*xys, strict=True))
    return pairs if pairs else ((), ())  # type: ignore[return-value]


def unzip3(
    xyzs: Iterable[tuple[T1, T2, T3]],
) -> tuple[tuple[T1, ...], tuple[T2, ...], tuple[T3, ...]]:
    """Turn a sequence of triples into a triple of tuples, also if it is empty."""
    triples = tuple(zip(*xyzs, strict=True))
    return triples if triples else ((), (), ())  # type: ignore[return-value]


def subvals(lst: Sequence[T], replace: Iterable[tuple[int, T]]) -> tuple[T, ...]:
    """`lst` as a tuple, after the (index, value) pairs of `replace` are assigned."""
    out = list(lst)
    for i, v in replace:
        out[i] = v
    return tuple(out)


def split_list(args: Sequence[T], ns: Sequence[int]) -> list[list[T]]:
    """Split `args` into lists of the lengths `ns`, and a list of the rest."""
    args = list(args)
    lists, start = [], 0
    for n in ns:
        lists.append(args[start : start + n])
        start += n
    lists.append(args[start:])
    return lists


def split_list_checked(args: Sequence[T], ns: Sequence[int]) -> list[list[T]]:
    """Split `args` into lists of the lengths `ns`, which must add up to all of it."""
    if sum(ns) != len(args):
        raise ValueError(f"cannot split {len(args)} values into lists of the lengths {list(ns)}")
    return split_list(args, ns)[:-1]


def partition_list(bs: Sequence[bool], l: Sequence[T]) -> tuple[list[T], list[T]]:
    """The values where `bs` is false, and those where it is true."""
    lists: tuple[list[T], list[T]] = ([], [])
    for b, x in zip(bs, l, strict=True):
        lists[bool(b)].append(x)
    return lists


def merge_lists(bs: Sequence[bool], l0: Sequence[T1], l1: Sequence[T2]) -> list[T1 | T2]:
    """Inverse of `partition_list`: takes from `l1` where `bs` is true, else from `l0`."""
    if sum(map(bool, bs)) != len(l1) or len(bs) != len(l0) + len(l1):
        raise ValueError(f"cannot merge lists of lengths {len(l0)} and {len(l1)} by {list(bs)}")
    its = iter(l0), iter(l1)
    return [next(its[bool(b)]) for b in bs]


def subs_list(subs: Sequence[int | None], src: Sequence[T], base: Sequence[T]) -> list[T]:
    """`src[i]` for each `i` of `subs`, or the next value of `base` where it is None."""
    base_ = iter(base)
    out = [src[i] if i is not None else next(base_) for i in subs]
    if next(base_, unique_sentinel) is not unique_sentinel:
        raise ValueError("subs_list: base has more values than subs has None")
    return out


def subs_list2(
    subs1: Sequence[int | None],
    subs2: Sequence[int | None],
    src1: Sequence[T],
    src2: Sequence[T],
    base: Sequence[T],
) -> list[T]:
    """Like `subs_list` with two sources, of which the first takes precedence."""
    base_ = iter(base)
    out = [
        src1[f1] if f1 is not None else src2[f2] if f2 is not None else next(base_)
        for f1, f2 in zip(subs1, subs2, strict=True)
    ]
    if next(base_, unique_sentinel) is not unique_sentinel:
        raise ValueError("subs_list2: base has more values than needed")
    return out


def concatenate(xs: Iterable[Sequence[T]]) -> list[T]:
    """One list of all values of the sequences `xs`."""
    return list(itertools.chain.from_iterable(xs))


flatten = concatenate
_unflatten_done = object()
unique_sentinel = object()


def unflatten(xs: Iterable[T], ns: Sequence[int]) -> list[list[T]]:
    """Splits `xs` into lists of the lengths `ns`, which must add up to all of it."""
    it = iter(xs)
    out = [list(itertools.islice(it, n)) for n in ns]
    if [len(part) for part in out] != list(ns) or next(it, _unflatten_done) is not _unflatten_done:
        raise ValueError(f"unflatten: the lengths {list(ns)} do not sum up to the values given")
    return out


def tuple_insert(t: tuple[T, ...], idx: int, val: T) -> tuple[T, ...]:
    if not 0 <= idx <= len(t):
        raise ValueError(f"index {idx} is outside 0 … {len(t)}")
    return t[:idx] + (val,) + t[idx:]


def tuple_delete(t: tuple[T, ...], idx: int) -> tuple[T, ...]:
    if not 0 <= idx < len(t):
        raise ValueError(f"index {idx} is outside 0 … {len(t) - 1}")
    return t[:idx] + t[idx + 1 :]


def tuple_update(t: tuple[T, ...], idx: int, val: T) -> tuple[T, ...]:
    if not 0 <= idx < len(t):
        raise ValueError(f"index {idx} is outside 0 … {len(t) - 1}")
    return t[:idx] + (val,) + t[idx + 1 :]


def stable_unique(it: Iterable[T]) -> Iterable[T]:
    """The distinct values of `it`, in order of first appearance."""
    return dict.fromkeys(it).keys()


def ceil_of_ratio(x: int, y: int) -> int:
    return -(-x // y)


class OrderedSet:
    """A set that iterates in order of insertion."""

    __slots__ = ("_elts",)

    def __init__(self, iterable: Iterable[Any] = ()):
        self._elts = dict.fromkeys(iterable)

    def add(self, elt: Any) -> None:
        self._elts[elt] = None

    def update(self, elts: Iterable[Any]) -> None:
        for elt in elts:
            self._elts[elt] = None

    def discard(self, elt: Any) -> None:
        self._elts.pop(elt, None)

    def __iter__(self):
        return iter(self._elts)

    def __len__(self) -> int:
        return len(self._elts)

    def __contains__(self, elt: Any) -> bool:
        return elt in self._elts

    def __repr__(self) -> str:
        return f"OrderedSet({list(self._elts)})"


# Axes


def canonicalize_axis(axis: SupportsIndex, num_dims: int) -> int:
    """Convert a possibly negative axis to one between 0 and `num_dims`."""
    axis = operator.index(axis)
    if 0 <= axis < num_dims:
        return axis
    if -num_dims <= axis < 0:
        return axis + num_dims
    raise ValueError(f"axis {axis} is out of bounds for array of dimension {num_dims}")


def canonicalize_axis_tuple(
    axis: int | Sequence[int] | None, ndim: int, allow_duplicate: bool = False
) -> tuple[int, ...]:
    """Convert an axis, several axes, or None for all, to a tuple of nonnegative axes."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, (list, tuple)) or getattr(axis, "ndim", 0):
        out = tuple(canonicalize_axis(i, ndim) for i in axis)
        if not allow_duplicate and len(set(out)) != len(out):
            raise ValueError(f"repeated axis: {tuple(axis)}")
        return out
    return (canonicalize_axis(axis, ndim),)  # type: ignore[arg-type]


def listed_axes(axis: Any) -> Any:
    """Axes in a one-dimensional array as a tuple; anything else as it is."""
    return tuple(axis) if getattr(axis, "ndim", 0) == 1 else axis


def moveaxis_permutation(
    src: int | Sequence[int], dst: int | Sequence[int], ndim: int
) -> tuple[int, ...]:
    """The permutation for `transpose` that moves the axes `src` to the places `dst`."""
    sources = canonicalize_axis_tuple(src, ndim)
    destinations = canonicalize_axis_tuple(dst, ndim)
    if len(sources) != len(destinations):
        raise ValueError(
            f"moveaxis: source has {len(sources)} axes and destination {len(destinations)}"
        )
    perm = [i for i in range(ndim) if i not in sources]
    for d, s in sorted(zip(destinations, sources)):
        perm.insert(d, s)
    return tuple(perm)


def maybe_named_axis(axis: Any, if_pos: Callable[[int], T], if_named: Callable[[Any], T]) -> T:
    """Calls `if_pos` if `axis` is an integer, otherwise `if_named` with the axis name."""
    try:
        pos = operator.index(axis)
    except TypeError:
        return if_named(axis)
    return if_pos(pos)


# Functions and their names


def wraps(
    wrapped: Callable, namestr: str | None = None, docstr: str | None = None, **kwargs: Any
) -> Callable[[T], T]:
    """Like `functools.wraps`, with patterns for the name and the docstring.

    `namestr` may contain `{fun}`, the wrapped function's name; `docstr` also `{doc}` and `kwargs`.
    """

    def wrapper(fun: T) -> T:
        try:
            name = fun_name(wrapped)
            doc = getattr(wrapped, "__doc__", "") or ""
            fun.__dict__.update(getattr(wrapped, "__dict__", {}))
            fun.__annotations__ = getattr(wrapped, "__annotations__", {})
            fun.__name__ = name if namestr is None else namestr.format(fun=name)  # type: ignore
            fun.__module__ = getattr(wrapped, "__module__", "<unknown module>")
            fun.__doc__ = doc if docstr is None else docstr.format(fun=name, doc=doc, **kwargs)
            qualname = getattr(wrapped, "__qualname__", name)
            fun.__qualname__ = (  # type: ignore[attr-defined]
                qualname if namestr is None else namestr.format(fun=qualname)
            )
            fun.__wrapped__ = wrapped  # type: ignore[attr-defined]
        except (AttributeError, TypeError):  # a callable whose attributes cannot be set
            pass
        return fun

    return wrapper


def without_keywords(*names: str) -> Callable[[T], T]:
    """Leave keyword arguments that the original does not have out of a function's signature.

    Tools that compare signatures, or pass on what they find there, then see those of the original.
    """

    def decorate(fun: T) -> T:
        signature = inspect.signature(fun)  # type: ignore[arg-type]
        kept = [p for name, p in signature.parameters.items() if name not in names]
        fun.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return fun

    return decorate


def fun_name(fun: Callable, default_name: str = "<unnamed function>") -> str:
    """The function's name, through any `functools.partial`s."""
    name = getattr(fun, "__name__", None)
    if name is not None:
        return name
    if isinstance(fun, partial):
        return fun_name(fun.func)
    return default_name


def fun_qual_name(fun: Callable) -> str:
    """The function's qualified name, through any `functools.partial`s."""
    name = getattr(fun, "__qualname__", None)
    if name is not None:
        return name
    if isinstance(fun, partial):
        return fun_qual_name(fun.func)
    return fun_name(fun)


def wrap_name(transform_name: str, name: str) -> str:
    return f"{transform_name}({name})"


JITTED_METHODS = ("trace", "lower", "eval_shape", "clear_cache")


def wrapped_attribute(wrapper: Any, name: str) -> Any:
    """An attribute of the function `wrapper.fun`, for `__getattr__` of its wrapper.

    The methods of a jitted function are not handed on: they would lower it without its wrapper.
    """
    # There is no `fun` before an unpickled wrapper is initialized.
    if name in JITTED_METHODS or name == "fun":
        raise AttributeError(f"{type(wrapper).__name__!r} object has no attribute {name!r}")
    return getattr(wrapper.fun, name)


def set_module(module: str) -> Callable[[T], T]:
    """A decorator that makes `module` the public module of a function or class."""

    def wrapper(fun: T) -> T:
        if module is not None:
            fun.__module__ = module
        return fun

    return wrapper


class HashableFunction:
    """A function equal to those with the same code and the same `closure`."""

    __slots__ = ("f", "closure")

    def __init__(self, f: Callable, closure: Any):
        self.f = f
        self.closure = closure

    def __eq__(self, other: Any) -> bool:
        return (
            type(other) is HashableFunction
            and self.f.__code__ == other.f.__code__
            and self.closure == other.closure
        )

    def __hash__(self) -> int:
        return hash((self.f.__code__, self.closure))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<hashable {self.f.__name__} with closure={self.closure}>"


class HashablePartial:
    """A partial application; equal if the code and the arguments are equal."""

    __slots__ = ("f", "args", "kwargs")

    def __init__(self, f: Callable, *args: Any, **kwargs: Any):
        self.f = f
        self.args = args
        self.kwargs = kwargs

    def __eq__(self, other: Any) -> bool:
        return (
            type(other) is HashablePartial
            and self.f.__code__ == other.f.__code__
            and self.args == other.args
            and self.kwargs == other.kwargs
        )

    def __hash__(self) -> int:
        return hash((self.f.__code__, self.args, tuple(sorted(self.kwargs.items()))))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*self.args, *args, **self.kwargs, **kwargs)


class Hashable:
    """A value hashed and compared by its own hash and equality."""

    __slots__ = ("val",)

    def __init__(self, val: Any):
        self.val = val

    def __hash__(self) -> int:
        return hash(self.val)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Hashable) and self.val == other.val


class HashableArray:
    """A NumPy array hashed and compared by its type, shape and elements."""

    __slots__ = ("val",)

    def __init__(self, val: np.ndarray):
        self.val = val

    def __repr__(self) -> str:
        return f"HashableArray({self.val!r})"

    def __hash__(self) -> int:
        return hash((self.val.shape, self.val.dtype, self.val.tobytes()))

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, HashableArray)
            and self.val.dtype == other.val.dtype
            and self.val.shape == other.val.shape
            and self.val.tobytes() == other.val.tobytes()
        )


class HashableDict:
    """A dict of hashable values, hashed and compared by its items."""

    __slots__ = ("val",)

    def __init__(self, val: dict[str, Any]):
        self.val = val

    def __repr__(self) -> str:
        return repr(self.val)

    def __hash__(self) -> int:
        return hash(frozenset(self.val.items()))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, HashableDict) and self.val == other.val


class Unhashable:
    """A value compared and hashed by identity."""

    __slots__ = ("val",)

    def __init__(self, val: Any):
        self.val = val

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Unhashable) and self.val is other.val

    def __hash__(self) -> int:
        return id(self.val)


class HashableWrapper:
    """A value hashed by its own hash if it has one, otherwise by identity."""

    __slots__ = ("x", "hash")

    def __init__(self, x: Any):
        self.x = x
        try:
            self.hash = hash(x)
        except TypeError:
            self.hash = id(x)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, HashableWrapper):
            return False
        if self.hash == id(self.x) or other.hash == id(other.x):
            return self.x is other.x
        return self.x == other.x


def WrapHashably(x: Any) -> Hashable | Unhashable:
    """Wrap `x` in a hashable object: with its own hash if it has one, otherwise by identity."""
    try:
        hash(x)
    except TypeError:
        return Unhashable(x)
    return Hashable(x)


class StrictABCMeta(abc.ABCMeta):
    """Metaclass without virtual subclasses, so that `isinstance` checks are fast."""

    def register(cls, subclass: type) -> type:
        raise NotImplementedError(f"{cls} does not support virtual subclasses")

    __instancecheck__ = type.__instancecheck__  # type: ignore[assignment]


class StrictABC(metaclass=StrictABCMeta):
    __slots__ = ()


# Caches. All are registered, so that `jax.clear_caches` clears them. Unless stated otherwise, their
# keys contain the trace context: the options and context managers that tracing depends on.

_caches: dict[int, tuple[weakref.ref, str]] = {}  # by identity: caches may be unhashable


def register_cache(cache: Any, for_what: str) -> None:
    """Makes `clear_all_caches` call `cache.cache_clear()`, for as long as the cache is alive."""
    key = id(cache)
    _caches[key] = weakref.ref(cache, lambda _: _caches.pop(key, None)), for_what


def clear_all_caches() -> None:
    """Calls `cache_clear()` of every registered cache."""
    for ref, _ in list(_caches.values()):
        cache = ref()
        if cache is not None:
            cache.cache_clear()


def cache(
    max_size: int | None = 4096, trace_context_in_key: bool | Callable[[], Any] = True
) -> Callable[[F], F]:
    """A decorator that memoizes a function of hashable arguments.

    Args:
      max_size: the maximal number of entries; None for no limit.
      trace_context_in_key: whether the trace context is part of the key, or a function whose
        result is part of it.

    The decorated function has `cache_clear()` and `cache_info()`.
    """

    def wrap(f: F) -> F:
        if not trace_context_in_key:
            wrapper: Any = functools.lru_cache(max_size)(f)
            register_cache(wrapper, fun_name(f))
            return wrapper

        context = trace_context_in_key if callable(trace_context_in_key) else config.trace_context
        check_leaks = config.check_tracer_leaks

        @functools.lru_cache(max_size)
        def cached(_, *args, **kwargs):
            return f(*args, **kwargs)

        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            if check_leaks.value:  # a cache would keep leaked tracers alive
                return f(*args, **kwargs)
            return cached(context(), *args, **kwargs)

        wrapper.cache_clear = cached.cache_clear
        wrapper.cache_info = cached.cache_info
        register_cache(wrapper, fun_name(f))
        return wrapper

    return wrap


class WeakrefCachedFunc(Protocol):
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def cache_clear(self) -> None: ...
    def cache_info(self) -> Any: ...
    def cache_keys(self) -> list[Any]: ...
    def evict_weakref(self, arg: Any) -> None: ...


def _no_context() -> None:
    return None


@overload
def weakref_lru_cache(f: Callable, **kwargs: Any) -> WeakrefCachedFunc: ...
@overload
def weakref_lru_cache(**kwargs: Any) -> Callable[[Callable], WeakrefCachedFunc]: ...
def weakref_lru_cache(
    f: Callable | None = None,
    *,
    maxsize: int | None = 2048,
    trace_context_in_key: bool = True,
    explain: Callable | None = None,
) -> Any:
    """A cache with a weak reference to the first argument, whose entries are freed with it.

    All arguments must be hashable. `explain` is called at a cache miss if
    `jax_explain_cache_misses` is set; see jaxlib.
    """
    if f is None:
        return partial(
            weakref_lru_cache,
            maxsize=maxsize,
            trace_context_in_key=trace_context_in_key,
            explain=explain,
        )
    context = config.trace_context if trace_context_in_key else _no_context
    cached = _jaxlib_weakref_lru_cache.weakref_lru_cache(context, f, maxsize, explain)
    register_cache(cached, fun_name(f))
    return cached


# Types to which `multi_weakref_lru_cache` keeps weak references.
weakref_cache_key_types: set[type] = set()


def multi_weakref_lru_cache(
    call: Callable, *, maxsize: int | None = 2048, trace_context_in_key: bool = True
) -> Any:
    """Like `weakref_lru_cache`, with weak references to several objects.

    These are the leaves of the arguments whose types are in `weakref_cache_key_types`.
    """
    context = config.trace_context if trace_context_in_key else _no_context
    cached = _jaxlib_weakref_lru_cache.multi_weakref_lru_cache(
        context,
        call,
        maxsize=maxsize,
        registry=pytree.default_registry(),
        weak_types=weakref_cache_key_types,
    )
    register_cache(cached, fun_name(call))
    return cached


# Events that tests count


test_event_listener: Callable | None = None


def test_event(name: str, *args: Any) -> None:
    """Notifies the listener of `jax._src.test_util`, if there is one, of an event."""
    if test_event_listener is not None:
        test_event_listener(name, *args)


def distributed_debug_log(*pairs: tuple[str, Any]) -> None:
    """Logs (name, value) pairs if `jax_distributed_debug` is set."""
    if config.distributed_debug.value:
        lines = ["\nDISTRIBUTED_DEBUG_BEGIN", *(f"{k}: {v}" for k, v in pairs)]
        lines.append("DISTRIBUTED_DEBUG_END")
        logger.warning("\n".join(lines))


def pprint_bytes(num_bytes: int | float) -> str:
    """`num_bytes` with a readable unit: `pprint_bytes(2048) == "2.00KB"`."""
    prefixes = ("", "K", "M", "G", "T")
    if num_bytes <= 0:
        return "0.00B"
    exponent = min(int(np.log(num_bytes) / np.log(1024)), len(prefixes) - 1)
    return f"{num_bytes / 1024**exponent:.2f}{prefixes[exponent]}B"
