"""Removal of internal frames from the tracebacks that users see (`jax_traceback_filtering`)."""

from __future__ import annotations

import functools
import os.path
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any, TypeVar

from jax._src import config

C = TypeVar("C", bound=Callable[..., Any])

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_exclude_paths: list[str] = [_PACKAGE]
_include_paths: list[str] = [os.path.join(_PACKAGE, "example_libraries") + os.sep]

_UNFILTERED_MESSAGE = (
    "The call stack above is complete; the one below leaves out the frames inside JAX."
    "\n\n--------------------"
)
_FILTERED_NOTE = (
    "--------------------\nFor simplicity, JAX has left its internal frames out of the traceback"
    " above. Set JAX_TRACEBACK_FILTERING=off to see them."
)


class UnfilteredStackTrace(Exception):
    """The cause of an error with a filtered traceback; it has the complete traceback."""


def register_exclusion(path: str) -> None:
    """Removes frames of files whose paths start with `path` from filtered tracebacks."""
    _exclude_paths.append(path)


def include_filename(filename: str) -> bool:
    """Whether filtered tracebacks keep frames of the file."""
    if filename.startswith(tuple(_exclude_paths)):
        return filename.endswith("_test.py") or filename.startswith(tuple(_include_paths))
    return not filename.startswith("<frozen")


def include_frame(f: types.FrameType) -> bool:
    return include_filename(f.f_code.co_filename)


def filter_traceback(tb: types.TracebackType | None) -> types.TracebackType | None:
    """`tb` without internal frames; None if no frame is left."""
    kept = [t for t in _walk(tb) if include_frame(t.tb_frame)]
    out: types.TracebackType | None = None
    for t in reversed(kept):
        out = types.TracebackType(out, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return out


def format_exception_only(e: BaseException) -> str:
    return "".join(traceback.format_exception_only(type(e), e)).strip()


def api_boundary(fun: C, *, repro_api_name: str | None = None, repro_user_func: bool = False) -> C:
    """Decorator of public functions: errors leave them with filtered tracebacks.

    Only the outermost decorated function on the stack filters, and only after an error was raised.
    The keywords name calls for a recorder of calls, which is a debugging aid of the original only:
    they are accepted from libraries that decorate their own functions, and change nothing.
    """

    @functools.wraps(fun)
    def reraise_with_filtered_traceback(*args, **kwargs):
        __tracebackhide__ = True
        try:
            return fun(*args, **kwargs)
        except Exception as e:
            mode = _filtering_mode()
            if mode != "off" and not _is_under_boundary(e):
                _filter_exception(e, mode)
            # A bare `raise` does not add this frame to the traceback again.
            raise

    return reraise_with_filtered_traceback  # type: ignore[return-value]


_boundary_code = next(
    const for const in api_boundary.__code__.co_consts if isinstance(const, types.CodeType)
)


def _is_under_boundary(e: BaseException) -> bool:
    frame = e.__traceback__.tb_frame.f_back  # type: ignore[union-attr]
    while frame is not None:
        if frame.f_code is _boundary_code:
            return True
        frame = frame.f_back
    return False


def _filter_exception(e: BaseException, mode: str) -> None:
    tb = e.__traceback__
    if mode == "tracebackhide":
        for t in _walk(tb):
            if not include_frame(t.tb_frame):
                t.tb_frame.f_locals["__tracebackhide__"] = True
        return
    filtered = filter_traceback(tb)
    if mode == "quiet_remove_frames":
        if _FILTERED_NOTE not in getattr(e, "__notes__", ()):
            e.add_note(_FILTERED_NOTE)
    else:
        unfiltered = UnfilteredStackTrace(f"{format_exception_only(e)}\n\n{_UNFILTERED_MESSAGE}")
        unfiltered.__context__ = e.__context__
        unfiltered.__cause__ = e.__cause__
        unfiltered.__suppress_context__ = e.__suppress_context__
        e.__context__ = None
        e.__cause__ = unfiltered.with_traceback(_with_callers(tb))
    e.__traceback__ = filtered


def _with_callers(tb: types.TracebackType | None) -> types.TracebackType | None:
    """`tb` preceded by the frames of its callers, which the exception has not unwound yet."""
    if tb is None:
        return None
    out = tb
    frame = tb.tb_frame.f_back
    while frame is not None:
        out = types.TracebackType(out, frame, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return out


def _walk(tb: types.TracebackType | None):
    while tb is not None:
        yield tb
        tb = tb.tb_next


def _filtering_mode() -> str:
    mode = config.traceback_filtering.value
    if mode == "auto":
        return "tracebackhide" if _ipython_hides_frames() else "quiet_remove_frames"
    return mode


def _ipython_hides_frames() -> bool:
    ipython = sys.modules.get("IPython")
    if ipython is None or getattr(ipython, "get_ipython", lambda: None)() is None:
        return False
    return ipython.version_info[:2] >= (7, 17)


def user_stacklevel() -> int:
    """The `stacklevel` with which a `warnings.warn` in the caller names the user's line."""
    frame: types.FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None:
        if include_frame(frame):
            return level
        frame = frame.f_back
        level += 1
    return 2
