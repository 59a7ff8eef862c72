"""`jax.debug.breakpoint`, and the debuggers it can start."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.callback import pure_callback
from jax._src.custom_derivatives import custom_jvp
from jax._src.debugger.frames import capture_stack
from jax._src.debugging import debug_callback
from jax._src.tree_util import tree_flatten, tree_unflatten

Debugger = Callable[..., Any]

_debuggers: dict[str, tuple[int, Debugger]] = {}


def register_debugger(name: str, debugger: Debugger, priority: int) -> None:
    """Makes a debugger available to `jax.debug.breakpoint(backend=name)`.

    Args:
      debugger: called with the frames (`DebuggerFrame`s, innermost first), the id of the thread,
        and the extra arguments of `breakpoint`; the program continues when it returns.
      priority: the debugger with the highest priority is the default.

    Raises:
      ValueError: the name is already registered.
    """
    if name in _debuggers:
        raise ValueError(f"There is a debugger of the name {name!r} already.")
    _debuggers[name] = (priority, debugger)


def get_debugger(backend: str | None = None) -> Debugger:
    """The debugger with a name, or else the one with the highest priority."""
    if backend is None:
        return max(_debuggers.values(), key=lambda x: x[0])[1]
    if backend not in _debuggers:
        raise ValueError(
            f"breakpoint: unknown debugger backend {backend!r}; there are {sorted(_debuggers)}."
        )
    return _debuggers[backend][1]


def _cli(frames, thread_id, completekey="tab", stdin=None, stdout=None):
    # Imported here, so that only programs that reach a breakpoint load the debugger.
    from jax._src.debugger.cli_debugger import CliDebugger

    CliDebugger(frames, thread_id, completekey, stdin, stdout).run()


register_debugger("cli", _cli, -1)


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> Any:
    """Stops a program, also a compiled one, to inspect variables of the calling functions.

    Commands of the command-line debugger: `p` and `pp` (print an expression), `l` (list the
    source), `u` and `d` (go up and down the stack), `bt` (print the stack), `c` (continue), `q`
    (quit), `help`; other input is evaluated and printed. Under `vmap` the program stops once per
    element.

    Args:
      backend: the name of the debugger; `"cli"` is built in, others may be registered.
      filter_frames: whether to hide functions of JAX (and of libraries that ask for it).
      num_frames: the number of innermost functions to show; all by default.
      ordered: whether it stops after earlier ordered breakpoints and prints.
      token: a tree of arrays, instead of `ordered`: the program stops when they have been computed.
        Use the result in their place; if it is not used, the program does not stop.
      **kwargs: arguments of the debugger. Those of `"cli"` are the files `stdin` and `stdout`.

    Returns:
      `token`. Derivatives pass through it (the original loses them).

    Raises:
      ValueError: the backend does not exist, both `token` and `ordered` are given, or `num_frames`
        is below 1.
      TypeError: the debugger does not have an argument, or `token` contains random keys.
      SystemExit: after `q`; in a compiled program, a JaxRuntimeError that mentions it.

    >>> import io
    >>> @jax.jit
    ... def f(x):
    ...   y = x + 1
    ...   jax.debug.breakpoint(stdin=io.StringIO("p y * 2\\nc\\n"))
    ...   return y
    >>> f(jnp.float32(3)), jax.effects_barrier()
    Entering jdb:
    (jdb) Array(8., dtype=float32)
    (jdb) (Array(4., dtype=float32), None)
    """
    if ordered and token is not None:
        raise ValueError("breakpoint: `ordered` and `token` are mutually exclusive arguments.")
    if num_frames is not None and num_frames < 1:
        raise ValueError(f"breakpoint: num_frames must be at least 1, got {num_frames}.")
    debugger = get_debugger(backend)
    try:
        inspect.signature(debugger).bind((), 0, **kwargs)
    except TypeError as e:
        raise TypeError(f"breakpoint: the debugger (backend={backend!r}) {e}.") from None
    stack, tracers = capture_stack(sys._getframe(1), filter_frames, num_frames)

    def stop(*values):
        debugger(stack.with_values(values), threading.get_ident(), **kwargs)

    if token is None:
        debug_callback(stop, *tracers, ordered=ordered)
        return None
    return _stop_at_token(stop, token, tracers)


def _stop_at_token(stop: Callable[..., None], token: Any, operands: Sequence[core.Tracer]) -> Any:
    leaves, tree = tree_flatten(token)
    avals = [core.typeof(x) for x in leaves]

    def stop_and_return(leaves, operands):
        stop(*operands)
        return leaves

    @custom_jvp
    def through(leaves, operands):
        return pure_callback(stop_and_return, avals, leaves, operands, vmap_method="sequential")

    @through.defjvp
    def _through_jvp(primals, tangents):
        return through(*primals), tangents[0]

    return tree_unflatten(tree, through(leaves, list(operands)))
