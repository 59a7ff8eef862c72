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
    """The debugger with a name, or else that of the notebook or the one with the highest priority."""
    if backend is None:
        if "google.colab" in sys.modules:
            return _notebook
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


def _web(frames, thread_id, completekey="tab", host="", port=5555):
    from jax._src.debugger.web_debugger import WebDebugger

    WebDebugger(frames, thread_id, completekey, host, port).run()


def _notebook(frames, thread_id, completekey="tab"):
    from jax._src.debugger.notebook_debugger import NotebookDebugger

    NotebookDebugger(frames, thread_id, completekey).run()


register_debugger("cli", _cli, -1)
register_debugger("web", _web, -2)
register_debugger("notebook", _notebook, -3)
register_debugger("colab", _notebook, -3)


def _check_installed(debugger: Debugger) -> None:
    """Raise ImportError if a debugger needs a package that is not there, before the program runs."""
    if debugger is _web:
        from jax._src.debugger.web_debugger import web_console_class

        web_console_class()
    elif debugger is _notebook:
        from jax._src.debugger.notebook_debugger import display_function

        display_function()


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

    Commands of the command-line debugger: `p` and `pp` (print an expression), `l` and `ll` (list the
    source around the line, or all of the function), `a` (print the arguments), `u` and `d` (go up
    and down the stack), `bt` (print the stack), `c` (continue), `q` (quit), `h` (help); other input
    is evaluated and printed. Under `vmap` the program stops once per element.

    Args:
      backend: the name of the debugger: `"cli"`, the default; `"web"`, in a browser (needs the
        package web-pdb); `"notebook"` or `"colab"`, in a notebook (the default in Google Colab).
      filter_frames: whether to hide functions of JAX (and of libraries that ask for it).
      num_frames: the number of innermost functions to show; all by default.
      ordered: whether it stops after earlier ordered breakpoints and prints.
      token: a tree of arrays, instead of `ordered`: the program stops when they have been computed.
        Use the result in their place; if it is not used, the program does not stop.
      **kwargs: arguments of the debugger: of `"cli"` the files `stdin` and `stdout`, of `"web"` the
        `host` and `port` of the page.

    Returns:
      `token`. Derivatives pass through it (the original loses them).

    Raises:
      ValueError: the backend does not exist, both `token` and `ordered` are given, or `num_frames`
        is below 1.
      ImportError: the package that the backend needs is not installed.
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
    _check_installed(debugger)
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
