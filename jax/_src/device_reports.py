"""Errors that compiled programs report by calling the host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from jax._src.errors import JaxRuntimeError
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

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Raise the first error that is reported inside, at the end at the latest."""
        first = len(self._texts)
        failure = None
        try:
            yield
            runtime_tokens.block_until_ready()
        except JaxRuntimeError as err:
            failure = err
        found = self._texts[first:]
        del self._texts[first:]
        if found:
            raise self.error(found[0])
        if failure is not None:
            raise failure
