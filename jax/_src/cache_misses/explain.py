"""Explanations of why a function was traced or compiled again, for `jax_explain_cache_misses`.

A miss is explained by the key that is closest to that of the call: what differs, old and new, and what the user
can do about it. It is logged, recorded by `jax.debug.explain_cache_miss`, or counted for `JAX_LOG_COMPILES=summary`.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jax._src import compile_summary, config, source_info_util
from jax._src.cache_misses import recordings
from jax._src.cache_misses.causes import (
    Change,
    captured,
    key_changes,
    placement_changes,
    remedy_for,
    staging_changes,
)
from jax._src.core import trace_ctx
from jax._src.core.jaxpr import fun_source_info
from jax._src.util import fun_name, set_module

logger = logging.getLogger("jax._src.interpreters.partial_eval")  # that of PyPI's jax
export = set_module("jax.debug")

_KINDS = {
    "first": "was traced for the first time",
    "new function": "is another function than the one that was traced before",
    "cleared": "was traced again, since the caches had been cleared",
    "traced": "was traced again",
    "compiled": "was compiled again",
}


class CacheMiss(NamedTuple):
    """Why one call had to be traced or compiled.

    Attributes:
      kind: "first", "new function" (one that is defined at the line of an earlier one), "cleared", "traced" or
        "compiled" (only compiled again: the trace was there).
      name: the function's name.
      defined_at: file and line of its definition.
      called_at: file and line of the call.
      changes: what differs from the closest earlier call: tuples `(kind, path, old, new)`.
      remedy: what avoids the miss; None if nothing has to.
      is_within: whether another function was being traced, of whose trace this one is a part. Then it is often a
        consequence of that one's miss.
    """

    kind: str
    name: str
    defined_at: str
    called_at: str
    changes: tuple[Change, ...]
    remedy: str | None
    is_within: bool = False

    def __str__(self) -> str:
        within = ", as part of the trace of another function" if self.is_within else ""
        lines = [f"{self.called_at}: {self.name} {_KINDS[self.kind]}{within}"]
        lines += [f"  {change}" for change in self.changes]
        lines.append(f"  it is defined at {self.defined_at}")
        if self.remedy is not None:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)

    @property
    def cause(self) -> str:
        """The cause in few words, such as `shape of x`."""
        if self.changes and self.kind in ("traced", "compiled", "new function"):
            return self.changes[0].cause
        return self.kind


class CacheMisses(list):
    """The misses of a block, in order; printed, it also counts them by function and cause."""

    @property
    def counts(self) -> dict[str, collections.Counter[str]]:
        """How often each cause made each function miss: `{"f": {"first": 1, "shape of x": 3}}`."""
        found: dict[str, collections.Counter[str]] = {}
        for miss in self:
            found.setdefault(miss.name, collections.Counter())[miss.cause] += 1
        return found

    def __str__(self) -> str:
        if not self:
            return "no cache misses"
        lines = [str(miss) for miss in self]
        for name, causes in self.counts.items():
            text = ", ".join(f"{cause}: {n}" for cause, n in causes.most_common())
            lines.append(f"{name}: {causes.total()} cache misses ({text})")
        return "\n".join(lines)


class _Recording(NamedTuple):
    misses: CacheMisses
    printed: bool


@export
@contextlib.contextmanager
def explain_cache_miss(*, quiet: bool = False) -> Iterator[CacheMisses]:
    """Context manager or decorator: says of each call in its block that has to be traced or compiled why, and what to do.

    An explanation names the argument that differs from the closest earlier call, old and new, the user's line, and
    a remedy. It is printed to stderr when the miss happens, in whichever thread. Of the library's functions, first traces are left out.
    Calls of compiled programs cost what they cost otherwise. The option `jax_explain_cache_misses` logs the same for a
    whole program.

    Args:
      quiet: whether to print nothing; the value of the `with` statement has the explanations.

    Returns:
      A context manager whose value is the list of the block's misses, which `print` shows with counts.

    >>> @jax.jit
    ... def double(x):
    ...     return 2 * x
    >>> with jax.debug.explain_cache_miss(quiet=True) as misses:
    ...     for n in (3, 3, 4):
    ...         y = double(jnp.ones(n))
    >>> [miss.kind for miss in misses if miss.name == "double"]
    ['first', 'traced']
    >>> misses[-1].changes[0]
    Change(kind='shape', path='x', old='f32[3]', new='f32[4]')
    """
    misses = CacheMisses()
    recording = _Recording(misses, not quiet)
    recordings.append(recording)
    try:
        yield misses
    finally:
        with _lock:
            recordings[:] = [r for r in recordings if r is not recording]


# Functions that were traced, and what functions that a line defines had captured

_seen_functions: weakref.WeakSet[Any] = weakref.WeakSet()
_seen_definitions: dict[Any, tuple[str, dict[str, str]]] = {}  # by the code, or else by the line
_lock = threading.Lock()


class _Told(threading.local):
    """The function, and the call of it, whose last miss was told to be due to options of `jit`."""

    options_of: tuple[str, str, str] | None = None


_told = _Told()
_MOST_KEYS = 256  # that a call is compared with: the latest ones


def explain_trace(
    fun: Callable,
    key: tuple,
    keys: Iterable[Any],
    arg_names: Callable[[], Sequence[str | None]],
) -> None:
    if getattr(fun, "_apply_primitive", False):  # internal; it would mean nothing to users
        return
    keys = list(keys)  # at once: other threads can add some
    previous = [k for k in keys if type(k[0]) is type(key[0])]
    if not previous:  # the traces of `make_jaxpr`, which `jit` uses too
        previous = [(k[1], k[2], key[2], k[4]) for k in keys if k[0] == "traced"]
        if key in previous:
            return
    arg_names = functools.cache(arg_names)
    _explain(fun, previous, lambda old: key_changes(fun, key, old, arg_names))


def explain_staging(
    fun: Callable, key: tuple, keys: Iterable[Any], arg_names: Callable[[], Sequence[str | None]]
) -> None:
    fun = getattr(fun, "_of_function", lambda: fun)()  # of a function of ours that calls a user's
    _, _, where = fun_source_info(fun).partition(" at ")
    if not is_users(where):
        return
    previous = [k for k in list(keys) if k[0] == key[0]]
    arg_names = functools.cache(arg_names)
    _explain(fun, previous, lambda old: staging_changes(key, old, arg_names))


def _explain(fun: Callable, previous: list[tuple], changes_from: Callable) -> None:
    """Tell how a call of a function differs from the closest of earlier ones, given by their keys."""
    name, _, where = fun_source_info(fun).partition(" at ")
    name, where = name or fun_name(fun), where or "<unknown>"
    previous = previous[-_MOST_KEYS:]
    previous.reverse()  # of several equally close keys, `min` takes the first: the latest one
    is_new, before = _remember(fun, name, where)
    changes: list[Change] = []
    if previous:
        kind = "traced"
        _, changes = min(map(changes_from, previous), key=lambda d: d[0])
    elif not is_new:
        kind = "cleared"
    elif before is None:
        kind = "first"
    else:
        kind = "new function"
        now = captured(fun)
        changes = [
            Change("closure", path, before.get(path, "nothing"), now.get(path, "nothing"))
            for path in {**before, **now}
            if before.get(path) != now.get(path)
        ]
    _tell(kind, name, where, changes, fun)


def is_users(where: str) -> bool:
    """Whether a place, `file:line`, is not in the library."""
    return source_info_util.is_user_filename(where.rpartition(":")[0])


def _remember(fun: Callable, name: str, where: str) -> tuple[bool, dict[str, str] | None]:
    """Whether a function is new, and what an earlier one had captured that was defined by the same code."""
    plain = fun
    while isinstance(plain, functools.partial):
        plain = plain.func
    definition = getattr(inspect.unwrap(plain), "__code__", where)
    with _lock:
        try:
            is_new = fun not in _seen_functions
            _seen_functions.add(fun)
        except TypeError:  # not hashable, or does not support weak references
            is_new = True
        seen_name, before = _seen_definitions.get(definition, (None, None))
        _seen_definitions[definition] = name, captured(fun)
    return is_new, before if seen_name == name else None


def explain_compilation(params: dict, key: tuple, keys: Iterable[Any]) -> None:
    previous = [k for k in keys if isinstance(k, tuple) and k[:1] == key[:1] and k != key]
    previous = previous[-_MOST_KEYS:]
    info = params["jaxpr"].jaxpr.debug_info
    name, _, where = info.func_src_info.partition(" at ")
    if not previous or not is_users(where):
        return
    names = info.safe_arg_names(len(params["jaxpr"].in_avals))
    found = [placement_changes(params, key, old, names) for old in reversed(previous)]
    changes = min(found, key=len)
    if all(change.kind == "options" for change in changes):
        if _told.options_of == (name, where, _called_at()):  # other options are another trace, too
            return
    _tell("compiled", name, where, changes)


def _tell(
    kind: str, name: str, where: str, changes: list[Change], fun: Callable | None = None
) -> None:
    called_at = _called_at()
    by_options = kind == "traced" and changes[0].kind == "options"
    _told.options_of = (name, where, called_at) if by_options else None
    remedy = remedy_for(kind, name, changes, inspect.ismethod(fun))
    is_within = kind != "compiled" and _is_staging()
    miss = CacheMiss(kind, name, where, called_at, tuple(changes), remedy, is_within)
    of_user = is_users(where)
    if of_user or kind != "first":
        for recording in list(recordings):
            recording.misses.append(miss)
            if recording.printed:
                print(miss, file=sys.stderr)
    if config.log_compiles.value == "summary":
        compile_summary.count_cause(name, where if of_user else None, miss.cause)
    if config.explain_cache_misses.value:
        logger.warning("\n".join(_log_lines(miss, id(fun))))


def _called_at() -> str:
    return source_info_util.summarize(source_info_util.current()) or "<unknown>"


def _is_staging() -> bool:
    """Whether a function is being traced to a jaxpr."""
    trace: Any = trace_ctx.trace
    while trace is not None:
        if hasattr(trace, "add_eqn"):
            return True
        trace = getattr(trace, "parent", None)
    return False


_HEADINGS = {
    "static argument": "different static arguments:",
    "structure": "different input pytree:",
    "call": "different input pytree:",
    "options": "different options of jit:",
    "configuration": "Tracing context doesn't match, e.g. due to config or context manager.",
    "mesh": "Tracing context doesn't match, e.g. due to config or context manager.",
}


def _log_lines(miss: CacheMiss, identity: int) -> list[str]:
    """The text of the log, which begins as that of PyPI's jax."""
    lines = [f"TRACING CACHE MISS at {miss.called_at}:"]
    if miss.kind == "compiled":
        lines = [f"COMPILATION CACHE MISS at {miss.called_at}:"]
    if miss.kind in ("traced", "compiled"):
        lines.append(f"  for {miss.name} defined at {miss.defined_at}")
        lines.append("  all previously seen cache keys differ. For the closest previous key:")
        kind = miss.changes[0].kind if miss.changes else ""
        default = "different input types:" if miss.kind == "traced" else "different placement:"
        lines.append(f"  {_HEADINGS.get(kind, default)}")
        lines += [f"  {change.logged}" for change in miss.changes]
    else:
        lines.append(
            f"  never seen function:\n    {miss.name} id={identity} defined at {miss.defined_at}"
        )
        if miss.kind == "new function":
            lines.append(
                "  but seen another function defined on the same line; maybe the function is\n"
                "  being re-defined repeatedly, preventing caching?"
            )
            lines += [f"  {change.logged}" for change in miss.changes]
    if miss.remedy is not None:
        lines.append(f"  remedy: {miss.remedy}")
    return lines
