"""Checks whose errors compiled programs report by calling the host."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import dispatch, traceback_util
from jax._src.core import Primitive, typeof
from jax._src.effects import Effect
from jax._src.errors import JaxRuntimeError
from jax._src.interpreters import batching
from jax._src.runtime_tokens import runtime_tokens


class Reports:
    """Errors found by compiled programs, which themselves raise a JaxRuntimeError.

    Args:
      error: the class of the error that `raised` raises in its place.
    """

    def __init__(self, error: type[Exception]):
        self.error = error
        self._texts: list[str] = []

    def add(self, text: str) -> Exception:
        """Store a report, and return the error that is to stop the program."""
        self._texts.append(text)
        return self.error(text)

    def raised(self, *states: Callable[[], Any]) -> RaisedReports:
        """Context manager or decorator: raises the first error that is reported inside.

        Args:
          *states: functions that return context managers, which are entered before.
        """
        return RaisedReports(self, states)

    def take(self, first: int) -> list[str]:
        """Return the texts from one of a given number on, and forget them."""
        texts = self._texts[first:]
        del self._texts[first:]
        return texts

    def __len__(self) -> int:
        return len(self._texts)


class RaisedReports(contextlib.ContextDecorator):
    """See `Reports.raised`. The error has the traceback of the call, without the runtime's own error."""

    def __init__(self, reports: Reports, states: Sequence[Callable[[], Any]]):
        self._reports = reports
        self._states = states
        self._entered = contextlib.ExitStack()
        self._first = 0

    def _recreate_cm(self) -> RaisedReports:  # of each call of a decorated function
        return RaisedReports(self._reports, self._states)

    def __enter__(self) -> None:
        for state in self._states:
            self._entered.enter_context(state())
        self._first = len(self._reports)

    @traceback_util.api_boundary
    def __exit__(self, kind: Any, error: BaseException | None, tb: Any) -> bool:
        failure = error
        if error is None:
            try:
                runtime_tokens.block_until_ready()
            except JaxRuntimeError as err:
                failure = err
        self._entered.close()
        found = self._reports.take(self._first)
        if found and (failure is None or isinstance(failure, JaxRuntimeError)):
            raise self._reports.error(found[0]).with_traceback(tb) from None
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
