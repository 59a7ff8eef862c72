"""Warnings in tests that run in several threads: handlers that belong to the current thread."""

import contextlib
import re
import threading
import warnings
from collections.abc import Callable, Iterator

Handler = Callable[..., bool]


class _WarningContext(threading.local):
    """The handlers of this thread, innermost last: each says whether it has dealt with a warning."""

    def __init__(self) -> None:
        self.handlers: list[Handler] = []


_context = _WarningContext()
_show_unhandled = warnings.showwarning


def _showwarning(message, category, filename, lineno, file=None, line=None) -> None:
    for handler in reversed(_context.handlers):
        if handler(message, category, filename, lineno, file, line):
            return
    _show_unhandled(message, category, filename, lineno, file, line)


def install_threadsafe_warning_handlers() -> None:
    """Give every warning to the handlers of the thread that it is raised in.

    `warnings.catch_warnings` is not used, since it changes the filters of all threads.
    """
    global _show_unhandled
    if warnings.showwarning is not _showwarning:
        _show_unhandled = warnings.showwarning
        warnings.showwarning = _showwarning
    # A warning that Python's own filters drop would not reach a handler.
    warnings.simplefilter("always")


@contextlib.contextmanager
def _handled_by(handler: Handler) -> Iterator[None]:
    install = warnings.showwarning is not _showwarning
    with contextlib.ExitStack() as stack:
        if install:  # in this context only
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("always")
            warnings.showwarning = _showwarning
        _context.handlers.append(handler)
        try:
            yield
        finally:
            _context.handlers.remove(handler)


@contextlib.contextmanager
def raise_on_warnings() -> Iterator[None]:
    """Context manager: raise warnings as errors."""

    def handler(message, category, *_) -> bool:
        raise message if isinstance(message, Warning) else category(message)

    with _handled_by(handler):
        yield


@contextlib.contextmanager
def record_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Context manager: gather warnings in a list, as `warnings.WarningMessage`."""
    record: list[warnings.WarningMessage] = []

    def handler(*described) -> bool:
        record.append(warnings.WarningMessage(*described))
        return True

    with _handled_by(handler):
        yield record


@contextlib.contextmanager
def ignore_warning(*, message: str | None = None, category: type = Warning) -> Iterator[None]:
    """Context manager and decorator: ignore warnings of a category whose text starts like a pattern.

    Args:
      message: a regular expression, which must match at the start of the text; None for any text.
      category: a class of warnings, of which subclasses are ignored as well.
    """
    pattern = re.compile(message) if message is not None else None

    def handler(text, raised, *_) -> bool:
        return issubclass(raised, category) and (pattern is None or bool(pattern.match(str(text))))

    with _handled_by(handler):
        yield
