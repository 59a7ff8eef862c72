"""Call stacks whose local variables get their values later, when a program runs."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import types
from collections.abc import Iterator, Sequence
from typing import Any

from jax._src import core, traceback_util
from jax._src.tree_util import tree_flatten, tree_unflatten


@dataclasses.dataclass(frozen=True)
class DebuggerFrame:
    """A function call on the stack.

    Attributes:
      filename: of its code.
      locals: its variables.
      globals: those of its module.
      code_context: the text of the line it is at.
      source: the lines of the function.
      lineno: the line it is at, in its file.
      offset: the same in `source`; None if there is no source.
      end_offset: the last line of the statement there.
    """

    filename: str
    locals: dict[str, Any]
    globals: dict[str, Any]
    code_context: str
    source: list[str]
    lineno: int
    offset: int | None
    end_offset: int | None


class CapturedStack:
    """The innermost functions on a stack, with `operands`: the tracers among their variables.

    `with_values(values of the operands)` are the frames, the innermost first.
    """

    __slots__ = ("operands", "_frames", "_variables", "_positions")

    def __init__(self, frame: types.FrameType, filter_frames: bool, num_frames: int | None):
        self.operands: list[core.Tracer] = []
        self._positions: dict[int, int] = {}
        frames = list(itertools.islice(_visible(frame, filter_frames), num_frames)) or [frame]
        self._frames = [_describe(f) for f in frames]
        # At the top of a module the variables are what they are when somebody looks.
        self._variables = [
            None
            if f.f_locals is f.f_globals
            else {name: self._capture(x) for name, x in f.f_locals.items()}
            for f in frames
        ]

    def _capture(self, value: Any) -> tuple[list[Any], Any]:
        try:
            leaves, tree = tree_flatten(value)
        except Exception:
            return [value], None
        return [self._operand(x) if _is_staged(x) else x for x in leaves], tree

    def _operand(self, tracer: core.Tracer) -> _Operand:
        position = self._positions.setdefault(id(tracer), len(self.operands))
        if position == len(self.operands):
            self.operands.append(tracer)
        return _Operand(position)

    def with_values(self, values: Sequence[Any]) -> list[DebuggerFrame]:
        def value_of(leaves, tree):
            leaves = [values[x.position] if type(x) is _Operand else x for x in leaves]
            return leaves[0] if tree is None else tree_unflatten(tree, leaves)

        return [
            frame
            if variables is None
            else dataclasses.replace(
                frame, locals={name: value_of(*x) for name, x in variables.items()}
            )
            for frame, variables in zip(self._frames, self._variables)
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class _Operand:
    position: int


def _is_staged(x: Any) -> bool:
    # A tracer that has outlived its trace has no value any more; references are no operands.
    return (
        isinstance(x, core.Tracer) and isinstance(x.aval, core.ShapedArray) and x._trace.is_valid()
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
        locals=frame.f_locals,
        globals=frame.f_globals,
        code_context="".join(info.code_context or ()).strip() or "<no source>",
        source=[line.rstrip("\n") for line in source],
        lineno=info.lineno,
        offset=offset,
        end_offset=end_offset,
    )
