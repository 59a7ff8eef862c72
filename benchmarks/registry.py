"""The registry of benchmarks, each with the mark that its ratio ours/oracle should not exceed.

A timed benchmark is a function that prepares data and returns the call to be timed. A measured
benchmark returns a number. With `mark=None` its ratio is shown but not judged. A benchmark with
`numpy` is compared with NumPy or SciPy, which the other process runs instead of PyPI's jax. The
modules that add benchmarks are imported by worker.py.
"""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """One row of the table.

    Attributes:
      name: what is timed or measured.
      group: the group that it is listed under.
      mark: the greatest acceptable ratio ours/oracle, or None.
      unit: "s" for a time, or the unit of the number that `make` returns.
      make: prepares data, and returns the call to be timed (or the number).
      numpy: for a comparison with NumPy, prepares NumPy's fastest equivalent and returns that call.
      new_workers: whether each round runs in new processes, since calls leave much memory behind.
    """

    name: str
    group: str
    mark: float | None
    unit: str
    make: Callable[[], Any]
    numpy: Callable[[], Any] | None = None
    new_workers: bool = False

    @property
    def beside(self) -> str:
        """The other side of the comparison: "oracle" or "NumPy"."""
        return "oracle" if self.numpy is None else "NumPy"


BENCHMARKS: dict[str, Benchmark] = {}


def timed(group: str, name: str, mark: float | None = None, *, new_workers: bool = False):
    def register(make):
        BENCHMARKS[name] = Benchmark(name, group, mark, "s", make, new_workers=new_workers)
        return make

    return register


def measured(group: str, name: str, unit: str, mark: float | None = None):
    def register(make):
        BENCHMARKS[name] = Benchmark(name, group, mark, unit, make)
        return make

    return register
