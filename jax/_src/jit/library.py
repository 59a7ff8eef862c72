"""`jit` for library functions: cheap to create, and a single native call in eager execution.

A library function of several operations should run as one compiled program when it is called on
arrays. Inside a transformation there are two choices. `inline_jit` runs the function as if it were
not decorated, so that its operations are traced one by one. `nested_jit` traces it once and
stages a call, like `jax.jit`, which is cheaper for functions of many operations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from jax._src import traceback_util
from jax._src.array import ArrayImpl
from jax._src.core import eval_trace, is_symbolic_dim, trace_ctx
from jax._src.device_put.held_numbers import held_numbers, may_hold
from jax._src.dtypes import float0
from jax._src.interpreters.operand_meshes import operands
from jax._src.interpreters.partial_eval import DynamicJaxprTrace
from jax._src.jit import jitted
from jax._src.late_binding import late
from jax._src.lib import _jax
from jax._src.tree_util import dispatch_registry, tree_map

F = TypeVar("F", bound=Callable[..., Any])


def inline_jit(fun: F, *, static_argnames: tuple[str, ...] = ()) -> F:
    """Compiles `fun` for calls on arrays; inside a transformation it is not compiled separately.

    Args:
      fun: function of arrays. Other arguments are keyword-only and listed in `static_argnames`.
      static_argnames: names of hashable keyword arguments.

    Returns:
      A native callable with the same signature.
    """
    return _native(_InlineJit(fun, _options(static_argnames)))


def nested_jit(fun: F, *, static_argnames: tuple[str, ...] = ()) -> F:
    """Compiles `fun` like `jax.jit`: inside a transformation, a call is one equation.

    Arguments and result are as for `inline_jit`. `fun` gets arrays also while `jax_disable_jit` is set.
    """
    state = _LibraryJit(fun, _options(static_argnames))
    state.uncompiled = _of_arrays(fun, frozenset(static_argnames))
    return _native(state)


class Programs(dict[Any, Callable[..., Any]]):
    """Compiled functions by what they are made for; when there are too many, all are forgotten.

    A lookup of one that is there is a native one, and so costs an eager call little.

    Args:
      make: returns the function of arrays for a key.
    """

    _most = 4096

    def __init__(self, make: Callable[[Any], Callable[..., Any]]):
        super().__init__()
        self._make = make

    def __missing__(self, key: Any) -> Callable[..., Any]:
        fun = self._make(key)
        if len(self) >= self._most:
            self.clear()
        program = self[key] = inline_jit(fun)
        return program


def eager_jit(*static_argnames: str, direct: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Returns a decorator of public functions, which compiles eager calls whose first argument is an array.

    Such a call is one native call of one program, whatever the function consists of. Other calls run
    the function itself: inside a transformation, of NumPy arrays and numbers, and with static
    arguments that have no hash, such as lists. The function must not warn, and must give the same for
    static arguments that are equal.

    Args:
      *static_argnames: names of the arguments that are not arrays.
      direct: names of arguments with which the function itself is called, such as dtypes, of which it
        may warn.
    """
    exceptions = frozenset(direct)

    def decorate(fun: F) -> F:
        program: Any = None

        @functools.wraps(fun)
        def call(*args, **kwargs):
            nonlocal program
            if (
                args
                and type(args[0]) is ArrayImpl
                and trace_ctx.trace is eval_trace
                and (not kwargs or exceptions.isdisjoint(kwargs))
            ):
                if program is None:  # made late: most of a program's imports are never called
                    program = jitted.make_jit(fun, _LibraryJit, static_argnames=static_argnames)
                try:
                    return program(*args, **kwargs)
                except (TypeError, ValueError, IndexError, NotImplementedError):
                    pass  # there is no such program, or the call is an error, of which this tells more
            return fun(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


class _LibraryJit(jitted.Jitted):
    """Unlike `jax.jit`, functions of the library accept objects with `__jax_array__`."""

    is_prompt = True

    @traceback_util.api_boundary
    def cache_miss(self, *args, **kwargs):
        for x in (*args, *kwargs.values()):
            if hasattr(type(x), "__jax_array__") and not is_symbolic_dim(x):
                args = [_converted(a) for a in args]
                kwargs = {k: _converted(a) for k, a in kwargs.items()}
                # Without a program for the fast path, which would get other leaves.
                return super().cache_miss(*args, **kwargs)[0], None, False
        return super().cache_miss(*args, **kwargs)


def _converted(x: Any) -> Any:
    if is_symbolic_dim(x):  # may be a static argument; others are converted when they are traced
        return x
    return x.__jax_array__() if hasattr(type(x), "__jax_array__") else x


def _of_arrays(fun: Callable[..., Any], static: frozenset[str]) -> Callable[..., Any]:
    """The function whose numbers and NumPy arrays are converted as calls of a program convert them."""

    @functools.wraps(fun)
    def call(*args, **kwargs):
        args = tree_map(_array, args)
        kwargs = {k: a if k in static else tree_map(_array, a) for k, a in kwargs.items()}
        return fun(*args, **kwargs)

    return call


def _array(x: Any) -> Any:
    x = _converted(x)
    if isinstance(x, (bool, int, float, complex, np.generic, np.ndarray)):
        return x if getattr(x, "dtype", None) == float0 else late.to_array(x)
    return x


class _InlineJit(_LibraryJit):
    @traceback_util.api_boundary
    def cache_miss(self, *args, **kwargs):
        if trace_ctx.trace is eval_trace:
            return super().cache_miss(*args, **kwargs)
        if type(trace_ctx.trace) is DynamicJaxprTrace:  # nothing runs
            return self.fun(*args, **kwargs), None, False
        with operands((args, kwargs)):
            return self.fun(*args, **kwargs), None, False


class BinaryMethod(_InlineJit):
    """A function of two arrays as a method: returns NotImplemented for operands of other types."""

    def __init__(self, fun: Callable, prepare: Callable[[Any], Any]):
        super().__init__(fun, _options(()))
        self.prepare = prepare

    @traceback_util.api_boundary
    def cache_miss(self, x, other):
        other = self.prepare(other)
        if other is NotImplemented:
            return NotImplemented, None, False
        out, fastpath, _ = super().cache_miss(x, other)
        return out, fastpath, False


def binary_method(fun: Callable, prepare: Callable[[Any], Any]) -> Callable:
    """A method `x.__op__(other)`, which is a single native call if both are arrays.

    Args:
      fun: function of two arrays.
      prepare: converts any object to the operand to use, or returns NotImplemented, or raises.
    """
    program = _native(BinaryMethod(fun, prepare))

    @functools.wraps(program)
    def method(self, other):
        if type(other) is ArrayImpl:
            return program(self, other)
        numbers = held_numbers(type(other))
        if numbers is None or not may_hold(self):
            return program(self, other)
        held = numbers[other]
        try:
            return program(self, held)
        except RuntimeError:
            if held is other or not held.is_deleted():
                raise
            # Somebody has deleted all arrays of the device's client.
            numbers.cache_clear()
            return program(self, other)

    return method


@functools.cache
def _options(static_argnames: tuple[str, ...]):
    opts = jitted.make_options(None)
    if static_argnames:
        opts.static_argnames = static_argnames
        opts.key = opts.key._replace(static_argnames=static_argnames)
    return opts


def _native(state: jitted.Jitted) -> Any:
    fun = state.fun
    opts = state.options
    call = _jax.pjit(
        state.name,
        state.uncompiled,
        state.cache_miss,
        [],
        list(opts.static_argnames),
        (),
        dispatch_registry,
        jitted.pxla.shard_arg_fallback,
    )
    call.__name__ = state.name
    call.__qualname__ = fun.__qualname__
    call.__module__ = fun.__module__
    call.__doc__ = fun.__doc__
    call.__wrapped__ = fun
    jitted.give_methods(call, state)
    return call
