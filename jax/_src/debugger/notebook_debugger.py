"""The debugger in a notebook: the source and the variables as HTML, commands in its input field."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from typing import Any

from jax._src.debugger.cli_debugger import CliDebugger
from jax._src.debugger.frames import DebuggerFrame, safe_repr

_STYLE = (
    "font-family:monospace;white-space:pre;overflow:auto;max-height:24em;padding:.5em;"
    "border:1px solid #bbb"
)


class NotebookDebugger(CliDebugger):
    """Shows the current function as HTML whenever the debugger stops or moves.

    Args:
      frames: the stack, innermost function first.
      thread_id: the thread that was stopped.
      completekey: not used by a notebook.

    Raises:
      ImportError: IPython is not installed.
    """

    def __init__(
        self, frames: Sequence[DebuggerFrame], thread_id: int, completekey: str = "tab"
    ):  # fmt: skip
        self._display = display_function()
        super().__init__(frames, thread_id, completekey)
        self.stdout = sys.stdout  # the notebook's, which is not that of the process

    def run(self) -> None:
        self._show_frame()
        super().run()

    def do_list(self, _: str = "") -> None:
        """l(ist)
        Shows the source, the current line and the variables."""
        self._show_frame()

    do_l = do_list

    def _show_frame(self) -> None:
        self._display({"text/html": self._repr_html_(), "text/plain": self.text()}, raw=True)

    def text(self) -> str:
        """The current place, for notebooks that show no HTML."""
        frame = self.frames[self.frame_index]
        return f"> {frame.filename}({frame.lineno})\n-> {frame.code_context}"

    def _repr_html_(self) -> str:
        frame = self.frames[self.frame_index]
        first = frame.lineno - (frame.offset or 0)
        lines = []
        for i, line in enumerate(frame.source or [frame.code_context]):
            text = f"{first + i:5}  {html.escape(line)}"
            current = i == (frame.offset or 0)
            lines.append(f"<mark>{text}</mark>" if current else text)
        variables = [] if frame.locals is frame.globals else sorted(frame.locals.items())
        rows = "".join(
            f"<tr><td><b>{html.escape(name)}</b></td><td><pre>{html.escape(safe_repr(x))}</pre></td></tr>"
            for name, x in variables
        )
        place = f"{frame.filename}:{frame.lineno}"
        depth = f"frame {self.frame_index + 1} of {len(self.frames)}"
        return (
            f"<div><b>{html.escape(place)}</b> ({depth})</div>"
            f'<div style="{_STYLE}">' + "\n".join(lines) + f"</div><table>{rows}</table>"
        )


def display_function() -> Any:
    """IPython's function that shows a value.

    Raises:
      ImportError: IPython is not installed.
    """
    try:
        from IPython.display import display  # an optional dependency
    except ImportError:
        raise ImportError(
            "breakpoint: the notebook's debugger needs IPython, which is not installed: run"
            ' `pip install ipython`, or use backend="cli".'
        ) from None
    return display
