"""Options that the interpreters of kernels have in common."""

from __future__ import annotations

import dataclasses
import enum
import importlib
from typing import Any, ClassVar, Literal


class LoggingMode(enum.Flag):
    """What interpreted kernels print while they run: uses of barriers, of semaphores, of memory.

    Kernels for TPUs have no other barriers than semaphores, so that `BARRIER` alone prints nothing of them.
    """

    BARRIER = enum.auto()
    SEMAPHORE = enum.auto()
    SHARED_MEMORY = enum.auto()


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommonInterpretParams:
    """Options of all interpreters, each of which says what they mean there.

    Raises:
      ValueError: if an option has another value.
    """

    # The values that options can have, and the module whose `run_call` runs kernels.
    _CHOICES: ClassVar[dict[str, tuple[str, str]]] = {
        "out_of_bounds_reads": ("raise", "uninitialized"),
        "uninitialized_memory": ("nan", "zero"),
    }
    _RUNS_IN: ClassVar[str]

    detect_races: bool = False
    out_of_bounds_reads: Literal["raise", "uninitialized"] = "raise"
    skip_floating_point_ops: bool = False
    uninitialized_memory: Literal["nan", "zero"] = "nan"
    num_cores_or_threads: int = 1
    vector_clock_size: int | None = None
    logging_mode: LoggingMode | None = None

    def __post_init__(self) -> None:
        if self.num_cores_or_threads < 1:
            raise ValueError(
                f"Number of cores or threads must be at least 1, but got {self.num_cores_or_threads}."
            )
        for name, allowed in self._CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} must be {allowed[0]!r} or {allowed[1]!r}, got {getattr(self, name)!r}."
                )

    def run_call(self, *args: Any, **params: Any) -> list[Any]:
        """Run a kernel: what `pallas_call` does with these options."""
        return importlib.import_module(self._RUNS_IN).run_call(self, *args, **params)
