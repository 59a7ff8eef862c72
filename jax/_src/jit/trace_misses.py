"""Explanations of why `jit` traced a function again, for `jax_explain_cache_misses`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jax._src import config, source_info_util
from jax._src.core.jaxpr import fun_source_info
from jax._src.tree_util import equality_errors_pytreedef, keystr
from jax._src.util import fun_name

logger = logging.getLogger(__name__)

_seen_lines: dict[str, str] = {}  # names of functions, by the line that defines them
_lock = threading.Lock()


def explain_miss(
    fun: Callable, key: tuple, previous: Iterable[tuple], arg_names: Callable[[], Sequence[str]]
) -> None:
    """Log why a call of a jitted function is not in its cache of traces.

    Args:
      fun: the function.
      key: the key of the call: signature, types of the arguments, options, tracing context.
      previous: the keys that are in the cache.
      arg_names: returns the names of the arguments.
    """
    if getattr(fun, "_apply_primitive", False):  # internal; it would mean nothing to users
        return
    frame = source_info_util.summarize(source_info_util.current())
    lines = [f"TRACING CACHE MISS at {frame or '<unknown>'}:"]
    name, _, where = fun_source_info(fun).partition(" at ")
    name, where = name or fun_name(fun), where or "<unknown>"
    previous = list(previous)
    previous.reverse()  # of several equally close keys, `min` takes the first: the latest one
    if previous:
        _, differences = min(
            [_differences(key, old, arg_names) for old in previous], key=lambda d: d[0]
        )
        lines.append(f"  for {name} defined at {where}")
        lines.append("  all previously seen cache keys differ. For the closest previous key:")
        lines += [f"  {line}" for line in differences]
    else:
        lines.append(f"  never seen function:\n    {name} id={id(fun)} defined at {where}")
        with _lock:
            again = _seen_lines.get(where) == name
            _seen_lines[where] = name
        if again:
            lines.append(
                "  but seen another function defined on the same line; maybe the function is\n"
                "  being re-defined repeatedly, preventing caching?"
            )
    logger.warning("\n".join(lines))


def _differences(key: tuple, old: tuple, arg_names: Callable) -> tuple[tuple[int, int], list[str]]:
    """The distance of two keys, and a description of their differences."""
    signature, avals, options, context = key
    old_signature, old_avals, old_options, old_context = old
    if lines := _signature_differences(signature, old_signature):
        return (4, len(lines)), lines
    if options != old_options:
        return (3, 0), ["different options of jit"]
    if avals != old_avals:
        lines = ["different input types:"]
        names = arg_names()
        distance = 0
        for i, (now, before) in enumerate(zip(avals, old_avals)):
            if now != before:
                name = names[i] if i < len(names) and names[i] else f"argument {i}"
                lines.append(f"* at {name}, now {_type_text(now)} and before {_type_text(before)}")
                distance += _distance(now, before)
        return (2, distance), lines
    lines = ["Tracing context doesn't match, e.g. due to config or context manager."]
    for name, now, before in zip(config.trace_context_names(), context, old_context):
        if now != before:
            lines.append(f"* {name} differs: now {now} and before {before}")
    return (1, len(lines)), lines


def _distance(now: Any, before: Any) -> int:
    """The number of attributes in which two types differ."""
    names = ("shape", "dtype", "weak_type", "sharding")
    return sum(getattr(now, name, None) != getattr(before, name, None) for name in names)


def _type_text(aval: Any) -> str:
    text = aval.str_short(short_dtypes=True)
    return f"{text} (weakly typed)" if getattr(aval, "weak_type", False) else text


def _signature_differences(now: Any, before: Any) -> list[str]:
    trees, old_trees = now.dynamic_arg_treedefs, before.dynamic_arg_treedefs
    names, old_names = now.dynamic_arg_names, before.dynamic_arg_names
    n, n_old = len(trees) - len(names), len(old_trees) - len(old_names)
    lines = []
    if n != n_old:
        lines.append(f"* now {n} and before {n_old} positional arguments")
    if names != old_names:
        lines.append(f"* now the keyword arguments {names} and before {old_names}")
    if not lines:
        paths = [f"[{i}]" for i in range(n)] + [f"[{name!r}]" for name in names]
        for path, tree, old in zip(paths, trees, old_trees):
            for where, new_text, old_text, why in equality_errors_pytreedef(tree, old):
                lines.append(
                    f"* at input path {path}{keystr(tuple(where))}, now {new_text} and before"
                    f" {old_text}, so {why}"
                )
    if lines:
        return ["different input pytree:", *lines]
    if now.static_arg_names != before.static_arg_names:
        return [
            f"different static arguments: now {now.static_arg_names} and before"
            f" {before.static_arg_names}"
        ]
    if now.static_args != before.static_args:
        if len(now.static_args) != len(before.static_args):
            given, old_given = list(now.static_args), list(before.static_args)
            return [f"different static arguments: now {given} and before {old_given}"]
        names = [f" for {name!r}" for name in now.static_arg_names]
        names = [""] * (len(now.static_args) - len(names)) + names
        changed = [
            f"* now {new!r} and before {old!r}{name}"
            for new, old, name in zip(now.static_args, before.static_args, names)
            if new != old
        ]
        return ["different static arguments:", *changed]
    return [] if now == before else ["different signatures"]
