"""Sources of operations: call stacks, and the names of scopes and transformations.

`current()` is called for every traced equation, so it only takes jaxlib's cheap snapshot of the
stack; frames are decoded when they are needed.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import threading
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from jax._src import config, traceback_util
from jax._src.lib import _jax

Traceback = _jax.Traceback
_get_traceback = Traceback.get_traceback

_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_exclude_paths: list[str] = [
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    _STDLIB,
]
# Installed packages count as user code, although they may lie inside the standard library's folder.
_include_paths: list[str] = [
    os.path.join(_STDLIB, "site-packages") + os.sep,
    os.path.join(_STDLIB, "dist-packages") + os.sep,
]
_jax.add_exclude_path(_exclude_paths[0])


class Frame(NamedTuple):
    """One decoded entry of a call stack."""

    file_name: str
    function_name: str
    start_line: int
    start_column: int
    end_line: int
    end_column: int


def register_exclusion(path: str) -> None:
    """Marks files whose paths start with `path` as library code, which is not the user's."""
    _exclude_paths.append(path)
    _jax.add_exclude_path(path)
    is_user_filename.cache_clear()


def register_inclusion(path: str) -> None:
    """Marks files whose paths start with `path` as user code, even inside an excluded folder."""
    _include_paths.append(path)
    is_user_filename.cache_clear()


@functools.lru_cache(maxsize=4096)
def is_user_filename(filename: str) -> bool:
    """Whether the code in `filename` is the user's; test files always are."""
    if filename.endswith("_test.py"):
        return True
    if filename.startswith("<frozen"):
        return False
    # The longest path decides, as excluded and included folders can contain each other.
    excluded = max((len(p) for p in _exclude_paths if filename.startswith(p)), default=0)
    included = max((len(p) for p in _include_paths if filename.startswith(p)), default=0)
    return included >= excluded


# Names of the scopes and transformations of an operation


class Scope(NamedTuple):
    """A name that the user gave to a part of the program."""

    name: str

    def wrap(self, stack: list[str]) -> None:
        stack.append(self.name)


class Transform(NamedTuple):
    """A transformation of a part of the program: printed around the next name."""

    name: str

    def wrap(self, stack: list[str]) -> None:
        if stack:
            stack[-1] = f"{self.name}({stack[-1]})"
        else:
            stack.append(f"{self.name}()")


class NameStack:
    """Scopes and transformations, from the outermost to the innermost; immutable.

    A stack is made for each call of a transformation, and stacks are concatenated often. So this is
    a plain class, and it caches the stacks made by `transform`.

    Example:
      >>> str(NameStack().extend("layer").transform("jvp").extend("dot"))
      'layer/jvp(dot)'
    """

    __slots__ = ("stack", "_transformed")

    def __init__(self, stack: tuple[Scope | Transform, ...] = ()):
        self.stack = stack
        self._transformed: dict[str, NameStack] | None = None

    def extend(self, name: str) -> NameStack:
        return NameStack((*self.stack, Scope(name)))

    def transform(self, transform_name: str) -> NameStack:
        if self._transformed is None:
            self._transformed = {}
        made = self._transformed.get(transform_name)
        if made is None:
            made = NameStack((*self.stack, Transform(transform_name)))
            self._transformed[transform_name] = made
        return made

    def relative_to(self, base: NameStack) -> NameStack:
        """The entries that this stack adds to `base`, which must be its prefix."""
        return NameStack(self.stack[len(base.stack) :]) if base.stack else self

    def within(self, name: str = "") -> NameStack:
        """The stack for the body of an operation: merges all entries and `name` into one scope.

        Transformations of the operation are then not printed around each name inside.

        Example:
          >>> str(NameStack().transform("vmap").within("while/body").extend("dot"))
          'vmap()/while/body/dot'
        """
        text = "/".join(filter(None, (str(self), name)))
        return NameStack((Scope(text),)) if text else self

    def __getitem__(self, idx: slice) -> NameStack:
        return NameStack(self.stack[idx])

    def __len__(self) -> int:
        return len(self.stack)

    def __add__(self, other: NameStack) -> NameStack:
        if not other.stack:
            return self
        return NameStack(self.stack + other.stack) if self.stack else other

    def __radd__(self, other: NameStack) -> NameStack:
        return other + self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NameStack) and self.stack == other.stack

    def __hash__(self) -> int:
        return hash(self.stack)

    def __repr__(self) -> str:
        return f"NameStack(stack={self.stack!r})"

    def __str__(self) -> str:
        names: list[str] = []
        for entry in reversed(self.stack):
            entry.wrap(names)
        return "/".join(reversed(names))


_empty_name_stack = NameStack()


def new_name_stack(name: str = "") -> NameStack:
    return NameStack((Scope(name),)) if name else _empty_name_stack


class SourceInfo:
    """The call stack and the names around one operation."""

    __slots__ = ("traceback", "name_stack")

    def __init__(self, traceback: Traceback | None, name_stack: NameStack):
        self.traceback = traceback
        self.name_stack = name_stack

    def replace(self, *, traceback: Any = ..., name_stack: Any = ...) -> SourceInfo:
        return SourceInfo(
            self.traceback if traceback is ... else traceback,
            self.name_stack if name_stack is ... else name_stack,
        )

    def __repr__(self) -> str:
        return f"SourceInfo({summarize(self)}, {str(self.name_stack)!r})"


def new_source_info() -> SourceInfo:
    """Source information without a call stack and names."""
    return SourceInfo(None, _empty_name_stack)


class _SourceInfoContext(threading.local):
    # `traceback`, if set, replaces the current stack while code is transformed or replayed.
    def __init__(self) -> None:
        self.traceback: Traceback | None = None
        self.name_stack: NameStack = _empty_name_stack


_source_info_context = _SourceInfoContext()


def current() -> SourceInfo:
    """The source information of an operation that is traced now."""
    context = _source_info_context
    traceback = context.traceback
    return SourceInfo(_get_traceback() if traceback is None else traceback, context.name_stack)


def current_traceback() -> Traceback:
    """The call stack of an operation that is traced now."""
    traceback = _source_info_context.traceback
    return _get_traceback() if traceback is None else traceback


def replaced_traceback() -> Traceback | None:
    """The call stack that replaces the current one while code is transformed or replayed."""
    return _source_info_context.traceback


def current_name_stack() -> NameStack:
    return _source_info_context.name_stack


class JaxStackTraceBeforeTransformation(Exception):
    """The cause of an error in transformed code; its traceback shows where the code was written."""


_MESSAGE = (
    "{}\n\nThe call stack above is where the operation was written whose transformation raised"
    " the exception below.\n\n--------------------"
)


def has_user_context(e: BaseException | None) -> bool:
    """Whether the error, or one of its causes, already names the user's code."""
    while e is not None:
        if isinstance(e, JaxStackTraceBeforeTransformation):
            return True
        e = e.__cause__ or e.__context__
    return False


class UserContextManager:
    """Context manager: operations inside have the given stack, and errors show it."""

    __slots__ = ("traceback", "name_stack", "prev")

    def __init__(self, traceback: Traceback | None, *, name_stack: NameStack | None = None):
        self.traceback = traceback
        self.name_stack = name_stack

    def __enter__(self) -> None:
        context = _source_info_context
        self.prev = context.traceback, context.name_stack
        context.traceback = self.traceback
        if self.name_stack is not None:
            context.name_stack = self.name_stack

    def __exit__(self, exc_type: Any, exc: BaseException | None, exc_tb: Any) -> None:
        _source_info_context.traceback, _source_info_context.name_stack = self.prev
        if exc is None or self.traceback is None or not isinstance(exc, Exception):
            return
        if has_user_context(exc):
            return
        filtered_tb = traceback_util.filter_traceback(self.traceback.as_python_traceback())
        if filtered_tb is not None:
            cause = JaxStackTraceBeforeTransformation(
                _MESSAGE.format(traceback_util.format_exception_only(exc))
            )
            # Earlier causes of the error are shown first.
            cause.__cause__ = exc.__cause__
            cause.__context__ = exc.__context__
            cause.__suppress_context__ = exc.__suppress_context__
            exc.__cause__ = cause.with_traceback(filtered_tb)


user_context = UserContextManager


class _NameStackContextManager:
    """Context manager: sets the name stack."""

    __slots__ = ("name_stack", "prev")

    def __init__(self, name_stack: NameStack):
        self.name_stack = name_stack

    def __enter__(self) -> NameStack:
        context = _source_info_context
        self.prev = context.name_stack
        context.name_stack = self.name_stack
        return self.name_stack

    def __exit__(self, *exc_info: Any) -> None:
        _source_info_context.name_stack = self.prev


set_name_stack = _NameStackContextManager


class ExtendNameStackContextManager:
    """Context manager: adds the scope `name` to the name stack."""

    __slots__ = ("name", "prev")

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> NameStack:
        context = _source_info_context
        self.prev = context.name_stack
        context.name_stack = name_stack = self.prev.extend(self.name)
        return name_stack

    def __exit__(self, *exc_info: Any) -> None:
        _source_info_context.name_stack = self.prev


extend_name_stack = ExtendNameStackContextManager


class TransformNameStackContextManager:
    """Context manager: adds the transformation `name` to the name stack."""

    __slots__ = ("name", "prev")

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> NameStack:
        context = _source_info_context
        self.prev = context.name_stack
        context.name_stack = name_stack = self.prev.transform(self.name)
        return name_stack

    def __exit__(self, *exc_info: Any) -> None:
        _source_info_context.name_stack = self.prev


transform_name_stack = TransformNameStackContextManager


def reset_name_stack() -> _NameStackContextManager:
    """Context manager: starts an empty name stack."""
    return _NameStackContextManager(_empty_name_stack)


# Frames


def raw_frame_to_frame(code: types.CodeType, lasti: int) -> Frame:
    line, column, end_line, end_column = Traceback.code_addr2location(code, lasti)
    return Frame(
        file_name=code.co_filename,
        function_name=code.co_qualname,
        start_line=line,
        start_column=column,
        end_line=end_line,
        end_column=end_column,
    )


def user_frames(traceback: Traceback | None) -> Iterator[Frame]:
    """The user's frames of the call stack, innermost first."""
    if traceback is None:
        return
    for code, lasti in zip(*traceback.raw_frames()):
        if is_user_filename(code.co_filename):
            yield raw_frame_to_frame(code, lasti)


def user_frame(traceback: Traceback | None) -> Frame | None:
    """The user's innermost frame of the call stack, or None."""
    return next(user_frames(traceback), None)


def summarize(source_info: SourceInfo, num_frames: int | None = 1) -> str:
    """The user's innermost frames (None: all) as text, like `/home/me/model.py:12:4 (loss)`."""
    frames = itertools.islice(user_frames(source_info.traceback), num_frames)
    return "\n".join(map(_summarize_frame, frames))


def _summarize_frame(frame: Frame) -> str:
    column = f":{frame.start_column}" if frame.start_column else ""
    return (
        f"{canonical_file_name(frame.file_name)}:{frame.start_line}{column} ({frame.function_name})"
    )


def canonical_file_name(file_name: str) -> str:
    """`file_name` without the text that `jax_hlo_source_file_canonicalization_regex` matches."""
    pattern = config.hlo_source_file_canonicalization_regex.value
    return re.sub(pattern, "", file_name) if pattern else file_name
