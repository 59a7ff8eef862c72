"""Why functions are traced and compiled again. What explains it is loaded when somebody wants to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jax._src import config

# What the blocks of `jax.debug.explain_cache_miss` of all threads record; see `explain`.
recordings: list[Any] = []


def are_wanted() -> bool:
    """Whether somebody wants to know why calls are traced and compiled."""
    return (
        bool(recordings)
        or config.explain_cache_misses.value
        or config.log_compiles.value == "summary"
    )


def explain_trace(
    fun: Callable, key: tuple, keys: Iterable[Any], arg_names: Callable[[], Sequence[str | None]]
) -> None:
    """Tell why a call of a jitted function is not in its cache of traces.

    Args:
      fun: the function.
      key: the key of the call: signature, types of the arguments, options, tracing context.
      keys: those in the function's table of traces.
      arg_names: returns the names of the flat dynamic arguments.
    """
    from jax._src.cache_misses import explain

    explain.explain_trace(fun, key, keys, arg_names)


def explain_staging(
    fun: Callable, key: tuple, keys: Iterable[Any], arg_names: Callable[[], Sequence[str | None]]
) -> None:
    """Tell why a function has to be traced that another one calls: the body of a loop, a branch, ...

    Args:
      fun: the function.
      key: the key of the call: purpose, tree of the arguments, their types, static values, tracing context.
      keys: those in the function's table of traces.
      arg_names: returns the names of the flat dynamic arguments.
    """
    from jax._src.cache_misses import explain

    explain.explain_staging(fun, key, keys, arg_names)


def explain_compilation(params: dict, key: tuple, keys: Iterable[Any]) -> None:
    """Tell why a program has to be compiled although its trace was compiled before.

    Args:
      params: those of the call of `jit_p`.
      key: the key of the program in the cache of the jaxpr.
      keys: those in that cache, of programs and of other things.
    """
    from jax._src.cache_misses import explain

    explain.explain_compilation(params, key, keys)
