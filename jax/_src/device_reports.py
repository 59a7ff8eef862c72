"""Checks whose errors compiled programs report by calling the host."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import dispatch, traceback_util
from jax._src.core import Primitive, typeof
from jax._src.effects import Effect
from jax._src.errors import JaxRuntimeError
from jax._src.interpreters import batching
from jax._src.runtime_tokens import runtime_tokens


class _Entered(threading.local):
    """The contexts that a thread is in: their states, and the number of the first report after their start."""

    def __init__(self) -> None:
        self.contexts: list[tuple[contextlib.ExitStack, int]] = []


class Reports:
    """Errors found by compiled programs, which themselves raise a JaxRuntimeError.

    Programs report from threads of the runtime. Which thread of Python called them is known by the text of
    their JaxRuntimeError, which has that of the report.

    Args:
      error: the class of the error that `raised` raises in its place.
    """

    def __init__(self, error: type[Exception]):
        self.error = error
        self._lock = threading.Lock()
        # By numbers that count up; they are kept until no thread is in a context.
        self._texts: dict[int, str] = {}
        self._count = 0
        self._open: set[int] = set()  # the numbers of those that no context has raised
        self._num_threads = 0  # in contexts
        self._entered = _Entered()

    def add(self, text: str) -> Exception:
        """Store a report, and return the error that is to stop the program."""
        with self._lock:
            self._texts[self._count] = text
            self._open.add(self._count)
            self._count += 1
        return self.error(text)

    def raised(self, *states: Callable[[], Any]) -> RaisedReports:
        """Context manager or decorator: raises the first error that is reported inside.

        Args:
          *states: functions that return context managers, which are entered before.
        """
        return RaisedReports(self, states)

    def enter(self, states: contextlib.ExitStack) -> None:
        """Start a context of this thread, which has the states."""
        with self._lock:
            self._num_threads += not self._entered.contexts
            self._entered.contexts.append((states, self._count))

    def leave(self, failure: BaseException | None) -> str | None:
        """End the newest context of this thread, which had the failure; return the report to raise."""
        states, first = self._entered.contexts.pop()
        states.close()
        message = str(failure) if isinstance(failure, JaxRuntimeError) else ""
        with self._lock:
            own = [n for n, text in self._texts.items() if message and text in message]
            # Without a failure, because it was handled or a later program hid it, a report can be of
            # any thread: the last one raises it.
            rest = [n for n in sorted(self._open) if n >= first]
            found = own or (rest if message or self._num_threads == 1 else [])
            text = self._texts[found[0]] if found else None
            self._open.difference_update(rest if self._num_threads == 1 else found)
            if not self._entered.contexts:
                self._num_threads -= 1
                if self._num_threads == 0:
                    self._texts.clear()
                    self._open.clear()
        return text


class RaisedReports(contextlib.ContextDecorator):
    """See `Reports.raised`. The error has the traceback of the call, without the runtime's own error."""

    def __init__(self, reports: Reports, states: Sequence[Callable[[], Any]]):
        self._reports = reports
        self._states = states

    def __enter__(self) -> None:
        with contextlib.ExitStack() as entered:
            for state in self._states:
                entered.enter_context(state())
            self._reports.enter(entered.pop_all())

    @traceback_util.api_boundary
    def __exit__(self, kind: Any, error: BaseException | None, tb: Any) -> bool:
        failure = error
        try:
            # If a program has failed, the part of each of its devices has.
            if error is None or isinstance(error, JaxRuntimeError):
                runtime_tokens.block_until_ready()
        except JaxRuntimeError as err:
            failure = error or err
        finally:  # also if the user interrupts it
            text = self._reports.leave(failure)
        if text is not None and (failure is None or isinstance(failure, JaxRuntimeError)):
            raise self._reports.error(text).with_traceback(tb) from None
        if failure is not error:
            raise failure
        return False


class Report(NamedTuple):
    """The function that compiled programs call when a check fails.

    Attributes:
      reports: where the error is stored.
      problem: returns the text of the error for NumPy arrays and parameters, or None.
      params: the parameters.
    """

    reports: Reports
    problem: Callable[..., str | None]
    params: tuple[tuple[str, Any], ...]

    def __call__(self, *args: Any) -> Sequence[Any]:
        text = self.problem(*map(np.asarray, args), **dict(self.params))
        if text is not None:
            raise self.reports.add(text)
        return ()


def define_check(
    primitive: Primitive, effect: Effect, reports: Reports, problem: Callable[..., str | None]
) -> None:
    """Define the rules of a primitive without results that looks for errors, but its lowering.

    Args:
      primitive: the primitive. Its operands have dimensions of a batch before their own.
      effect: its effect.
      reports, problem: see `Report`. Eagerly, the error is raised at once.
    """

    def impl(*args: Any, **params: Any) -> Any:
        if not all(getattr(x, "is_fully_addressable", True) for x in args):
            # Other processes have a part: as in compiled programs.
            return dispatch.apply_primitive(primitive, *args, **params)
        text = problem(*[np.asarray(x, typeof(x).dtype) for x in args], **params)
        if text is not None:
            raise reports.error(text)
        return []

    def batch(axis_data: Any, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        args = [x if d is None else batching.moveaxis(x, d, 0) for x, d in zip(args, dims)]
        return primitive.bind(*args, **params), []

    primitive.def_impl(impl)
    primitive.def_effectful_abstract_eval(lambda *_, **__: ([], {effect}))
    primitive.jvp = lambda primals, _, **params: (primitive.bind(*primals, **params), [])
    primitive.transpose = lambda _, *args, **__: [None] * len(args)
    primitive.axis_batch = batch
