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
      debugger: is called with the frames (`DebuggerFrame`, the innermost first), the number of the
        thread, and the further arguments of `breakpoint`; the program goes on when it returns.
      priority: the one of the highest priority is the default.

    Raises:
      ValueError: there is one of this name.
    """
    if name in _debuggers:
        raise ValueError(f"There is a debugger of the name {name!r} already.")
    _debuggers[name] = (priority, debugger)


def get_debugger(backend: str | None = None) -> Debugger:
    """The debugger of a name; without one, that of the highest priority."""
    if backend is None:
        return max(_debuggers.values(), key=lambda x: x[0])[1]
    if backend not in _debuggers:
        raise ValueError(
            f"breakpoint: unknown debugger backend {backend!r}; there are {sorted(_debuggers)}."
        )
    return _debuggers[backend][1]


def _cli(frames, thread_id, completekey="tab", stdin=None, stdout=None):
    # Only who reaches a breakpoint pays for the import of a debugger.
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
    """Stops a program, also a compiled one, for a look at the variables of the functions around.

    Commands of the debugger on the command line: `p` and `pp` (print an expression), `l` (list the
    source), `u` and `d` (up and down the stack), `bt` (the stack), `c` (go on), `q` (quit), `help`;
    anything else is evaluated and printed. Under `vmap` the program stops once per element.

    Args:
      backend: name of the debugger; `"cli"` is there, others may be registered.
      filter_frames: whether functions inside JAX are left out (and of libraries that asked for it).
      num_frames: how many functions it shows, the innermost ones; by default all.
      ordered: whether it stops after the ordered breakpoints and prints before it.
      token: a tree of arrays, instead of `ordered`: the program stops when they are computed. Pass on
        the result in their place; if nothing needs it the program does not stop.
      **kwargs: for the debugger. `"cli"` has `stdin` and `stdout`, files it reads and writes.

    Returns:
      `token`. Derivatives pass through (in the reference they are lost).

    Raises:
      ValueError: there is no such backend, both `token` and `ordered`, or `num_frames` below 1.
      TypeError: the debugger has no such argument, or `token` has random keys.
      SystemExit: by `q`; a JaxRuntimeError that names it where a compiled program is stopped.

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
