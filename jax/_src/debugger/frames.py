"""Call stacks whose local variables get their values later, when the program runs."""

from __future__ import annotations

import inspect
import itertools
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jax._src import core, traceback_util
from jax._src.interpreters.ad import TapeTracer
from jax._src.tree_util import tree_flatten, tree_unflatten


class DebuggerFrame(NamedTuple):
    """A function call on the stack.

    Attributes:
      filename: the file of its code.
      locals: its local variables.
      globals: the variables of its module.
      code_context: the text of the current line.
      source: the lines of the function.
      lineno: the current line in its file.
      offset: the index of the current line in `source`; None if there is no source.
      end_offset: the index of the last line of the current statement.
      arguments: the names of the function's arguments.
    """

    filename: str
    locals: dict[str, Any]
    globals: dict[str, Any]
    code_context: str
    source: list[str]
    lineno: int
    offset: int | None
    end_offset: int | None
    arguments: tuple[str, ...] = ()


class CapturedStack:
    """The innermost functions of a stack, without the tracers among their variables.

    `with_values(values of the tracers)` returns the frames, innermost first.
    """

    __slots__ = ("_frames", "_variables")

    def __init__(self, frames: list[DebuggerFrame], variables: list[Any]):
        self._frames = frames
        self._variables = variables

    def with_values(self, values: Sequence[Any]) -> list[DebuggerFrame]:
        def value_of(leaves, tree):
            leaves = [values[x.position] if type(x) is _Operand else x for x in leaves]
            return leaves[0] if tree is None else tree_unflatten(tree, leaves)

        return [
            frame
            if variables is None
            else frame._replace(locals={name: value_of(*x) for name, x in variables.items()})
            for frame, variables in zip(self._frames, self._variables)
        ]


class _Operand(NamedTuple):
    position: int


class _Unknown(NamedTuple):
    """Stands for a tracer without a value, since the tracer must not outlive its trace."""

    text: str

    def __repr__(self) -> str:
        return self.text


def capture_stack(
    frame: types.FrameType, filter_frames: bool, num_frames: int | None
) -> tuple[CapturedStack, list[core.Tracer]]:
    """The stack from `frame` outwards, and the tracers whose values it needs."""
    tracers: list[core.Tracer] = []
    positions: dict[int, int] = {}

    def replaced(x):
        if not isinstance(x, core.Tracer):
            return x
        if not _has_value(x):
            return _Unknown(repr(x))
        position = positions.setdefault(id(x), len(tracers))
        if position == len(tracers):
            tracers.append(x)
        return _Operand(position)

    def capture(value):
        leaves, tree = _flatten(value)
        return [replaced(x) for x in leaves], tree

    frames = list(itertools.islice(_visible(frame, filter_frames), num_frames)) or [frame]
    # Variables of a module are read when the debugger looks at them.
    variables = [
        None if f.f_locals is f.f_globals else {name: capture(x) for name, x in f.f_locals.items()}
        for f in frames
    ]
    return CapturedStack([_describe(f) for f in frames], variables), tracers


def _flatten(value: Any) -> tuple[list[Any], Any]:
    """Like tree_flatten; a value that is not a tree is a leaf, with structure None."""
    try:
        if not _is_cyclic(value, ()):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # iterators are leaves
                return tree_flatten(value)
    except Exception:
        pass  # for example a dict whose keys cannot be sorted
    return [value], None


def _is_cyclic(x: Any, above: tuple[int, ...]) -> bool:
    # Checked before tree_flatten, whose error for cyclic values is not reliable.
    if type(x) not in (list, tuple, dict):
        return False
    if id(x) in above:
        return True
    children = x.values() if type(x) is dict else x
    return any(_is_cyclic(child, (*above, id(x))) for child in children)


def _has_value(x: core.Tracer) -> bool:
    # These have no value: references, tracers that have outlived their trace, and tangents that
    # only reverse mode uses. It would transpose the breakpoint away together with them.
    return (
        isinstance(x.aval, core.ShapedArray)
        and x._trace.is_valid()
        and not isinstance(x, TapeTracer)
    )


def _visible(frame: types.FrameType | None, filter_frames: bool) -> Iterator[types.FrameType]:
    while frame is not None:
        if not filter_frames or traceback_util.include_frame(frame):
            yield frame
        frame = frame.f_back


def _describe(frame: types.FrameType) -> DebuggerFrame:
    info = inspect.getframeinfo(frame, context=1)
    try:
        source, first = inspect.getsourcelines(frame)
    except (OSError, TypeError, IndexError):
        source, offset, end_offset = [], None, None
    else:
        first = max(first, 1)  # 0 for a module
        end = info.positions.end_lineno if info.positions else None
        offset = info.lineno - first
        end_offset = (info.lineno if end is None else max(end, info.lineno)) - first
    return DebuggerFrame(
        filename=info.filename,
        locals=frame.f_globals,
        globals=frame.f_globals,
        code_context="".join(info.code_context or ()).strip() or "<no source>",
        source=[line.rstrip("\n") for line in source],
        lineno=info.lineno,
        offset=offset,
        end_offset=end_offset,
        arguments=_argument_names(frame.f_code),
    )


def _argument_names(code: types.CodeType) -> tuple[str, ...]:
    n = code.co_argcount + code.co_kwonlyargcount
    n += sum(bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS))
    return code.co_varnames[:n]


def safe_repr(x: Any) -> str:
    """The repr of a variable, or what kind of error it raises."""
    try:
        return repr(x)
    except Exception as err:  # what the user's __repr__ raises
        return f"<{type(err).__name__}: {err}>"
