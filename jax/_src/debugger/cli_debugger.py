"""The command-line debugger."""

from __future__ import annotations

import cmd
import pprint
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from jax._src.debugger.frames import DebuggerFrame

_LINES_AROUND = 3


class CliDebugger(cmd.Cmd):
    """Reads and executes commands until one continues the program.

    Args:
      frames: the stack, innermost function first.
      thread_id: the thread that was stopped.
      completekey: the key that completes names of commands, if `stdin` is None.
      stdin, stdout: files; by default those of the process.
    """

    prompt = "(jdb) "

    def __init__(
        self,
        frames: Sequence[DebuggerFrame],
        thread_id: int,
        completekey: str = "tab",
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
    ):
        super().__init__(completekey, stdin, stdout)
        self.use_rawinput = stdin is None
        self.frames = frames
        self.thread_id = thread_id
        self.frame_index = 0

    def run(self) -> None:
        self._print("Entering jdb:")
        self.cmdloop()

    def _print(self, text: str) -> None:
        print(text, file=self.stdout, flush=True)

    def do_help(self, arg: str) -> None:
        """h(elp) [command]
        Lists the commands, or says what one does."""
        command = getattr(self, f"do_{arg}", None) if arg else None
        if command is None:
            super().do_help(arg)
        else:
            usage, *rest = command.__doc__.splitlines()
            self._print("\n".join([usage, *(f"    {line.strip()}" for line in rest)]))

    # Printing values

    def do_p(self, arg: str) -> None:
        """p expression
        Evaluates an expression and prints its value."""
        self._show(arg, repr)

    def do_pp(self, arg: str) -> None:
        """pp expression
        Evaluates an expression and prints its value on several lines if it is long."""
        self._show(arg, pprint.pformat)

    def default(self, line: str) -> None:
        """Anything that is not a command is an expression."""
        self._show(line, repr)

    def _show(self, expression: str, to_text: Callable[[Any], str]) -> None:
        frame = self.frames[self.frame_index]
        # Functions inside the expression look up names in the globals only.
        names = {**frame.globals, **frame.locals}
        try:
            text = to_text(eval(expression.strip(), names, dict(frame.locals)))
        except Exception as e:
            text = f"*** {type(e).__name__}: {_message(e)}"
        self._print(text)

    def do_args(self, _: str = "") -> None:
        """a(rgs)
        Prints the arguments of the current function."""
        frame = self.frames[self.frame_index]
        for name in frame.arguments:
            self._show(name, lambda x, name=name: f"{name} = {x!r}")

    # These letters are likely names of variables, so that they are commands only where they are not.
    def do_a(self, arg: str) -> None:
        self._command_or_variable("a", arg, self.do_args)

    def do_h(self, arg: str) -> None:
        self._command_or_variable("h", arg, self.do_help)

    do_a.__doc__ = do_args.__doc__
    do_h.__doc__ = do_help.__doc__

    def _command_or_variable(self, name: str, arg: str, command: Callable[[str], None]) -> None:
        frame = self.frames[self.frame_index]
        if name in frame.locals or name in frame.globals:
            self.default(f"{name} {arg}" if arg else name)
        else:
            command(arg)

    # The stack

    def do_list(self, _: str = "") -> None:
        """l(ist)
        Lists the source around the current line."""
        self._list(_LINES_AROUND)

    do_l = do_list

    def do_longlist(self, _: str = "") -> None:
        """ll, longlist
        Lists the source of the whole function."""
        self._list(None)

    do_ll = do_longlist

    def _list(self, around: int | None) -> None:
        frame = self.frames[self.frame_index]
        self._print(f"> {frame.filename}({frame.lineno})")
        if frame.offset is None or frame.end_offset is None:
            return
        start, end = 0, len(frame.source)
        if around is not None:
            start, end = max(0, frame.offset - around), frame.end_offset + around
        for i, line in enumerate(frame.source[start:end], start):
            self._print(f"{'->' if i == frame.offset else '  ':4}{line}".rstrip())

    def do_up(self, _: str) -> None:
        """u(p)
        Goes to the function that called the current one."""
        self._move(1, "At topmost frame.")

    do_u = do_up

    def do_down(self, _: str) -> None:
        """d(own)
        Goes to the function that the current one called."""
        self._move(-1, "At bottommost frame.")

    do_d = do_down

    def _move(self, step: int, at_end: str) -> None:
        if 0 <= self.frame_index + step < len(self.frames):
            self.frame_index += step
        else:
            self._print(at_end)
        self.do_list()

    def do_where(self, _: str) -> None:
        """w(here)
        Prints the stack, the innermost function last. bt is the same."""
        self._print("Traceback:")
        for frame in reversed(self.frames):
            self._print(f'  File "{frame.filename}", line {frame.lineno}')
            self._print(f"    {frame.code_context}")

    do_w = do_bt = do_where

    # Leaving the debugger

    def do_continue(self, _: str) -> bool:
        """c(ont(inue))
        Goes on with the program."""
        return True

    do_c = do_cont = do_continue

    def do_quit(self, _: str) -> None:
        """q(uit), exit
        Ends the program by SystemExit. So does the end of the input."""
        sys.exit(0)

    do_q = do_exit = do_EOF = do_quit


def _message(e: BaseException) -> str:
    return e.msg if isinstance(e, SyntaxError) else str(e)
