"""Agreement of the processes of a program about the steps of a checkpoint."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import xla_bridge as xb
from jax._src.distributed import ProcessesError, global_state
from jax._src.errors import JaxRuntimeError

_NOT_INITIALIZED = (
    "Please initialize the distributed system via `jax.distributed.initialize()` at the start of"
    " your program."
)
_ADVICE = (
    "\nSuggestions for possible fixes:\n"
    "* Check the logs to see if one or more processes failed.\n"
    "* Make sure that all processes save and load the same arrays, in the same order.\n"
    "* Try increasing the timeout: `timeout_secs` of GlobalAsyncCheckpointManager."
)


class BarrierTimeoutError(Exception):
    """A process did not finish its part of a checkpoint in time."""


class Agreement:
    """What processes tell each other while they write or read one checkpoint.

    All of them make the same agreements in the same order, so that these have the same names.

    Args:
      name: of the checkpoints that are counted together.
      timeout_secs: how long a process waits for the others.
      processes: those that take part, in ascending order; by default all. If this process is not
        one of them, or the only one, there is nothing to agree about.

    Raises:
      ValueError: there are several processes, but no coordination service.
    """

    _counts: dict[str, itertools.count] = {}

    def __init__(self, name: str, timeout_secs: float, processes: Sequence[int] | None = None):
        if processes is None:
            processes = range(xb.process_count())
        elif len(processes) < xb.process_count():
            name += "/" + hashlib.sha256(repr(list(processes)).encode()).hexdigest()[:32]
        number = next(self._counts.setdefault(name, itertools.count()))
        self._key = f"jax_checkpoint/{name}/{number}"
        self._timeout_secs = timeout_secs
        self._steps = itertools.count()
        self._processes = processes
        self._is_first = len(processes) < 2 or xb.process_index() == processes[0]
        self._client = None
        if len(processes) > 1 and xb.process_index() in processes:
            self._client = coordination_client()

    def run(self, step: Callable[[], Any], what: str) -> Any:
        """Runs a part of this process and waits until all processes have run theirs.

        Returns:
          What `step` returns in the first process, a value for JSON.

        Raises:
          Exception: what `step` has raised in this process.
          RuntimeError: it has raised an error in another process.
          BarrierTimeoutError: another process did not finish in time.
        """
        if self._client is None:
            return step()
        result = error = None
        try:
            result = step()
        except BaseException as err:
            error = err
        report = None if error is None else f"{type(error).__name__}: {error}"
        verdict = self._verdict(report, result=result)
        if error is not None:
            raise error
        self._check_all_reported(verdict, what)
        if verdict["errors"]:
            errors = "\n".join(f"process {p}: {e}" for p, e in verdict["errors"].items())
            raise RuntimeError(f"{what} failed in another process:\n{errors}")
        return verdict["result"]

    def run_in_first(self, step: Callable[[], Any], what: str) -> Any:
        """Runs a step in the first process only, usually 0; the others wait for its result."""
        return self.run(step if self._is_first else lambda: None, what)

    def same_everywhere(self, text: str, what: str) -> bool:
        """Whether all processes pass the same text."""
        if self._client is None:
            return True
        verdict = self._verdict(text, lambda given: given != text)
        self._check_all_reported(verdict, what)
        return not verdict["errors"]

    def anywhere(self, flag: bool, what: str) -> bool:
        """Whether any of the processes passes True."""
        if self._client is None:
            return flag
        verdict = self._verdict("yes" if flag else None)
        self._check_all_reported(verdict, what)
        return bool(verdict["errors"])

    def _check_all_reported(self, verdict: dict[str, Any], what: str) -> None:
        if verdict["late"]:
            raise BarrierTimeoutError(
                f"{what}: no word from process(es) {verdict['late']} within"
                f" {self._timeout_secs} seconds.{_ADVICE}"
            )

    def _verdict(
        self,
        report: str | None,
        is_error: Callable[[str], bool] = lambda _: True,
        result: Any = None,
    ) -> dict[str, Any]:
        """The first process collects reports, and tells all which are errors, and who sent none."""
        try:
            return self._exchange(report, is_error, result)
        except JaxRuntimeError as err:
            if "UNAVAILABLE" not in str(err):
                raise
            # The watch of `jax.distributed` notices it as well, but may do so later.
            raise ProcessesError(
                "The processes cannot agree about a checkpoint: the coordinator (process 0, at"
                f" {global_state.coordinator_address}) has ended, or cannot be reached. See the output"
                " of that process for the first error, and start the program again: a checkpoint"
                " that was being replaced is whole."
            ) from err

    def _exchange(
        self, report: str | None, is_error: Callable[[str], bool], result: Any
    ) -> dict[str, Any]:
        client = self._client
        deadline = time.monotonic() + self._timeout_secs
        step = next(self._steps)
        key = f"{self._key}/{step}"

        def wait_for(name: str) -> Any:
            left = max(0.001, deadline - time.monotonic())
            return json.loads(client.blocking_key_value_get(f"{key}/{name}", int(left * 1000)))

        first, *others = self._processes
        if not self._is_first:
            client.key_value_set(f"{key}/{xb.process_index()}", json.dumps(report))
            try:
                return wait_for("verdict")
            except JaxRuntimeError as err:
                if "DEADLINE_EXCEEDED" not in str(err):
                    raise
                return {"late": [first], "errors": {}, "result": None}
        reports = {first: report}
        missing = []
        for process in others:
            try:
                reports[process] = wait_for(str(process))
            except JaxRuntimeError as err:
                if "DEADLINE_EXCEEDED" not in str(err):
                    raise
                missing.append(process)
        errors = {p: r for p, r in reports.items() if r is not None and is_error(r)}
        verdict = {"late": missing, "errors": errors, "result": result}
        client.key_value_set(f"{key}/verdict", json.dumps(verdict))
        if step and not missing:  # all have read the previous verdict
            client.key_value_delete(f"{self._key}/{step - 1}/")
        return verdict


def coordination_client() -> Any:
    """The client of the coordination service."""
    if global_state.client is None:
        raise ValueError(_NOT_INITIALIZED)
    return global_state.client
