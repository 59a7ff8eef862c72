"""The runner of the benchmarks: how rounds become ratios, and ratios a table."""

import functools
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from tqdm import tqdm

ROOT = Path(__file__).absolute().parent.parent
RUN = ROOT / "benchmarks" / "run.py"

sys.path.insert(0, str(RUN.parent))
import numerics  # noqa: E402 (they are found through the line above)
import run as bench  # noqa: E402
import suite  # noqa: E402
import worker  # noqa: E402

ROW = {
    "name": "x + x",
    "group": "eager",
    "unit": "s",
    "mark": 1.05,
    "beside": "oracle",
    "new_workers": False,
}


def call(*arguments, **variables):
    command = [sys.executable, str(RUN), *arguments]
    return subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=False
    )


def test_ratio_is_the_median_of_the_rounds():
    row = bench.compare(ROW, [1.0, 2.0, 9.0, 2.0, 1.0], [2.0, 2.0, 3.0, 1.0, 1.0])
    assert row.ratio == 1.0
    assert row.spread == (1.0, 2.0)
    assert (row.ours, row.oracle) == (2.0, 2.0)
    assert row.verdict == "met"
    assert bench.compare(ROW, [3.0], [2.0]).verdict == "missed"
    assert bench.compare(ROW | {"mark": None}, [3.0], [2.0]).verdict == ""
    assert bench.compare(ROW, [0.0], [0.0]).ratio == 1.0
    assert bench.failed(ROW, "no").verdict == "failed"


def test_sides_take_turns():
    assert list(bench.alternate(["a", "b"], 3)) == ["a", "b", "b", "a", "a", "b"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.234, "s", "1.23 s"),
        (0.0456, "s", "45.6 ms"),
        (5e-6, "s", "5 µs"),
        (2e-8, "s", "0.02 µs"),
        (3.9e7, "FLOP", "39 MFLOP"),
        (171.2e6, "B", "171.2 MB"),
        (0, "B", "0 B"),
    ],
)
def test_quantities(value, unit, text):
    assert bench.format_quantity(value, unit) == text


def test_tables():
    rows = [bench.compare(ROW, [2.0, 2.0], [2.0, 2.0]), bench.failed(ROW | {"name": "x[3]"}, "no")]
    rows.append(bench.compare(ROW | {"name": "lower it"}, [3.0, 3.0], [2.0, 2.0]))
    with redirect_stdout(io.StringIO()) as plain:
        bench.print_plain(rows)
    lines = plain.getvalue().splitlines()
    assert lines[0].split() == ["benchmark", "ours", "oracle", "ratio", "middle", "half", "mark"]
    assert lines[1].split() == "x + x 2 s 2 s 1.00 1.00 – 1.00 ≤ 1.05 met".split()
    assert "failed" in lines[2]
    with redirect_stdout(io.StringIO()) as markdown:
        bench.print_markdown(rows)
    lines = markdown.getvalue().splitlines()
    assert lines[2] == "| `x + x` | 2 s | 2 s | 1.00 | 1.00 – 1.00 | ≤ 1.05 |"
    assert "| **1.50** |" in lines[4]


def test_rows_beside_numpy_are_a_table_of_their_own():
    rows = [bench.compare(ROW | {"beside": side}, [3.0], [2.0]) for side in ("NumPy", "oracle")]
    for print_rows, header in ((bench.print_plain, "benchmark"), (bench.print_markdown, "| bench")):
        with redirect_stdout(io.StringIO()) as printed:
            print_rows(rows)
        tables = printed.getvalue().split("\n\n")
        assert [t.startswith(header) for t in tables] == [True, True]
        assert ["oracle" in t for t in tables] == [True, False]
        assert ["NumPy" in t for t in tables] == [False, True]
    with redirect_stdout(io.StringIO()) as printed:
        bench.print_plain(rows[:1])
    assert "oracle" not in printed.getvalue()


def sides(name):
    """What the two sides of a benchmark compute."""
    results = []
    for as_oracle in (False, True):
        side = worker.Worker()
        side.prepare(name, as_oracle)
        results.append(side._calls[name]())
    return results


@pytest.mark.parametrize("name", [n for n, b in suite.BENCHMARKS.items() if b.numpy])
def test_numpy_does_the_same(name, monkeypatch):
    monkeypatch.setattr(suite, "MILLION", 3000)
    monkeypatch.setattr(numerics, "MILLION", 4000)
    monkeypatch.setattr(worker.Worker, "time", lambda *args: {})
    ours, theirs = sides(name)
    if "permutation" in name:
        ours, theirs = np.sort(ours), np.sort(theirs)
    for x, y in zip(*(r if isinstance(r, (tuple, list)) else [r] for r in (ours, theirs))):
        assert not isinstance(y, suite.jax.Array)
        # SciPy's float32 results of special functions are not precise, nor are there subnormal numbers here.
        rtol, tiny = (1e-4, 1e-37) if name.startswith("special.") else (1e-6, 0)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=tolerance(name, y) + tiny)
    (row,) = [r for r in worker.Worker().list()["benchmarks"] if r["name"] == name]
    assert row["beside"] == "NumPy"
    assert suite.BENCHMARKS[name.rpartition(", beside ")[0]].numpy is None


def tolerance(name, exact):
    """The absolute tolerance: rounding errors of a sum are relative to its terms, not to it."""
    is_sum = any(word in name for word in ("cum", "convolve", "weights", "bincount"))
    return 1e-5 * np.max(np.abs(exact)) if is_sum else 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--filter", "["], 2, "is no regular expression"),
        (["--rounds", "0"], 2, "must be a whole number, 1 or more"),
        (["--json", "/no/such/folder/x.json"], 2, "cannot write to /no/such/folder/x.json"),
        (["--filter", "x"], 1, "there is no oracle at /no/python"),
    ],
)
def test_bad_arguments(arguments, status, message):
    result = call(*arguments, JAX_ORACLE_PYTHON="/no/python")
    assert result.returncode == status
    assert message in result.stderr


@pytest.mark.skipif("JAX_ORACLE_PYTHON" not in os.environ, reason="needs the oracle")
def test_one_benchmark(tmp_path):
    out = tmp_path / "out.json"
    result = call("--filter", r"x \+ x", "--rounds", "2", "--json", str(out))
    assert result.returncode == 0, result.stderr
    record = json.loads(out.read_text())
    (row,) = record["rows"]
    assert row["name"] == "x + x"
    assert len(row["ratios"]) == 2
    assert 0 < row["ratio"] < 100
    nothing = call("--filter", "no such benchmark")
    assert nothing.returncode == 1
    assert "no benchmark matches" in nothing.stderr


class CountingSide:
    """A side whose workers count their calls, and of which only one may work at a time."""

    working = set()
    is_oracle = False

    def __init__(self, name):
        self.name, self.calls = name, 0

    def ask(self, do, **request):
        assert self.working <= {self}
        self.working.add(self)
        self.calls += 1
        return {"seconds": float(self.calls)}

    def close(self):
        self.working.discard(self)
        self.calls = 0


def test_new_workers_for_each_round():
    both = [CountingSide("ours"), CountingSide("oracle")]
    row = bench.measure(ROW | {"new_workers": True}, both, 3)
    assert row.ratios == [1.0, 1.0, 1.0]
    assert row.ours == 2.0  # the second call of a worker, after its preparation
    assert not CountingSide.working


def test_fastest_calls():
    both = [CountingSide("ours"), CountingSide("oracle")]
    for side in both:
        side.close = lambda: None
        side.working = set()
    row = bench.measure(ROW, both, 3, fastest=True)
    # Of calls after that which prepares, each slower than the one before.
    assert (row.ours, row.oracle, row.ratios) == (2.0, 2.0, [1.0])
    assert row.spread is None


def test_fastest_start():
    both = [CountingSide("ours"), CountingSide("oracle")]
    for fastest, expected in ((True, [2.0, 4.0]), (False, [2.5, 4.5])):
        for side in both:
            starts = iter([(9.0, 9.0), (3.0, 4.0), (2.0, 5.0)])
            side.startup = functools.partial(next, starts)
        rows = bench.measure_startup(both, 2, fastest, tqdm(disable=True))
        assert [row.ours for row in rows] == [row.oracle for row in rows] == expected


def test_fastest_of_a_worker(monkeypatch):
    now, durations = [0.0], iter([3.0, 1.0, 2.0, 5.0, 0.5])
    monkeypatch.setattr(worker.time, "perf_counter", lambda: now[0])
    side = worker.Worker()
    side._calls["work"] = lambda: now.__setitem__(0, now[0] + next(durations))
    assert side.fastest("work", 7.0) == {"seconds": 1.0}  # the fourth call ends later than that
    assert list(durations) == [0.5]


def test_worker_that_cannot_prepare_is_closed():
    side = CountingSide("ours")
    side.ask = lambda *arguments, **request: side.working.add(side) or {"error": "no"}
    row = bench.measure(ROW | {"new_workers": True}, [side, side], 3)
    assert row.error == "ours: no"
    assert not CountingSide.working
