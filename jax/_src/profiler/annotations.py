"""Marks of the program's own in traces."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from jax._src import lib
from jax._src.util import set_module

export = set_module("jax.profiler")
F = TypeVar("F", bound=Callable[..., Any])


@export
class TraceAnnotation(lib.profiler.TraceMe):
    """Context manager: a bar on the time line of the host, as long as its block takes.

    Args:
      name: what the bar is called.
      kwargs: what it shows besides, when it is selected.

    >>> x = jnp.ones((100, 100))
    >>> with jax.profiler.TraceAnnotation("product", size=100):
    ...     y = jnp.dot(x, x.T).block_until_ready()
    """


@export
class StepTraceAnnotation(TraceAnnotation):
    """Context manager: one step of the program, such as of training, for which tools show a summary.

    Args:
      name: what the step is called.
      kwargs: its number as `step_num`, and what the step shows besides.

    >>> for step in range(3):
    ...     with jax.profiler.StepTraceAnnotation("train", step_num=step):
    ...         y = jnp.ones(3) + step
    """

    def __init__(self, name: str, **kwargs: Any):
        super().__init__(name, _r=1, **kwargs)  # `_r`: it is the root of what happens in it


@export
def annotate_function(func: F, name: str | None = None, **decorator_kwargs: Any) -> F:
    """Decorator: marks each call of a function in traces.

    Args:
      func: the function.
      name: what the calls are called; by default as the function.
      decorator_kwargs: see :class:`TraceAnnotation`.

    >>> @jax.profiler.annotate_function
    ... def f(x):
    ...     return jnp.dot(x, x.T).block_until_ready()
    >>> f(jnp.ones((2, 2)))
    Array([[2., 2.],
           [2., 2.]], dtype=float32)
    >>> g = jax.profiler.annotate_function(lambda x: jnp.dot(x, x.T), name="product")
    """
    shown = getattr(func, "__qualname__", None) or getattr(func, "__name__", None) or repr(func)
    name = name or shown

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(name, **decorator_kwargs):
            return func(*args, **kwargs)

    return wrapper  # type: ignore[return-value]
