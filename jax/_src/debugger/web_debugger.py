"""The debugger in a browser, by means of the package `web-pdb`."""

from __future__ import annotations

import atexit
import inspect
import linecache
import os
import weakref
from collections.abc import Sequence
from typing import Any

from jax._src.debugger.cli_debugger import CliDebugger
from jax._src.debugger.frames import DebuggerFrame, safe_repr

_consoles: dict[tuple[str, int], Any] = {}


class WebDebugger(CliDebugger):
    """Shows the source, the variables and a console for commands in a browser.

    Args:
      frames: the stack, innermost function first.
      thread_id: the thread that was stopped.
      completekey: not used by a browser.
      host, port: where the page is served; each address has one page for all breakpoints.

    Raises:
      ImportError: the package `web-pdb` is not installed.
    """

    def __init__(
        self,
        frames: Sequence[DebuggerFrame],
        thread_id: int,
        completekey: str = "tab",
        host: str = "",
        port: int = 5555,
    ):
        console = self._console(host, port)
        super().__init__(frames, thread_id, completekey, console, console)
        self._address = f"http://{host or 'localhost'}:{port}"

    def _console(self, host: str, port: int) -> Any:
        console_class = web_console_class()
        console = _consoles.get((host, port))
        if console is None or console.closed:
            console = _consoles[host, port] = console_class(host, port, self)
            atexit.register(console.close)
        console._debugger = weakref.proxy(self)
        return console

    def run(self) -> None:
        print(f"The debugger waits for commands at {self._address}.", flush=True)
        super().run()

    def get_current_frame_data(self) -> dict[str, Any]:
        """What the page shows: it asks for it whenever something is printed."""
        frame = self.frames[self.frame_index]
        # Decoded as the file says, and also what was typed into a shell.
        listing = "".join(linecache.getlines(frame.filename)) or "\n".join(frame.source)
        return {
            "dirname": os.path.dirname(os.path.abspath(frame.filename)) + os.path.sep,
            "filename": os.path.basename(frame.filename),
            "file_listing": listing,
            "current_line": frame.lineno,
            "breakpoints": [],
            "globals": self.get_globals(),
            "locals": self.get_locals(),
        }

    def get_globals(self) -> str:
        """The variables of the module, a line each."""
        return _listing(self.frames[self.frame_index].globals)

    def get_locals(self) -> str:
        """The variables of the function, a line each."""
        return _listing(self.frames[self.frame_index].locals)


def _listing(variables: dict[str, Any]) -> str:
    return "\n".join(
        f"{name} = {safe_repr(value)}"
        for name, value in sorted(variables.items())
        if not (name.startswith("__") or inspect.ismodule(value))
    )


def web_console_class() -> Any:
    """The class of `web-pdb` that serves the page.

    Raises:
      ImportError: the package is not installed.
    """
    try:
        import web_pdb  # an optional dependency
    except ImportError:
        raise ImportError(
            'breakpoint: backend="web" needs the package web-pdb, which is not installed: run'
            ' `pip install web-pdb`, or use backend="cli".'
        ) from None
    return web_pdb.WebConsole
