"""The comparison of speeds on the CPU: its programs and its table."""

import io
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

import jax

sys.path.insert(0, str(Path(__file__).absolute().parent.parent / "benchmarks"))
import cpu_speed
from cpu import worker


@pytest.mark.parametrize("name", worker.PROGRAMS)
def test_programs_can_be_traced(name):
    program = worker.PROGRAMS[name]
    inputs = program.inputs(np.random.default_rng(0))
    with jax.enable_x64(program.x64):
        out = jax.eval_shape(lambda *inputs: program.jax(*inputs), *inputs)
    assert jax.tree.leaves(out)
    assert program.flop is None or program.byte is None


def test_lists_what_it_runs_beside_jax():
    found = {p["name"]: p["beside"] for p in worker.Worker().list()["programs"]}
    assert found["LSTM, train step"] == "PyTorch"
    assert found["Kalman filter, 1,000 steps of 3x3"] == "NumPy"


def test_table():
    rows = [
        cpu_speed.Row(
            "a", "PyTorch", {"ours": 2.0, "oracle": 1.0, "other": 4.0}, {"ours": 1.0, "oracle": 4.0}, 0.5
        ),
        cpu_speed.Row("b", None, {"ours": 1.0, "oracle": 2.0}, {"ours": 1.0, "oracle": 1.0}, None),
    ]  # fmt: skip
    with redirect_stdout(io.StringIO()) as printed:
        cpu_speed.print_table(rows)
    lines = [[c.strip() for c in line.split("|")[1:-1]] for line in printed.getvalue().splitlines()]
    assert lines[0] == list(cpu_speed.HEADINGS)
    assert lines[2] == ["a", "2 s", "1 s", "2.00", "4 s (PyTorch)", "0.50", "50 %", "1 s", "4 s", "0.25"]  # fmt: skip
    assert lines[3][4:7] == ["", "", ""]
    assert lines[4] == ["geometric mean", "", "", "1.00", "", "0.50", "", "", "", "0.50"]


class Side:
    """A side each of whose calls takes half a second more than the last one."""

    def __init__(self, name):
        self.name, self.asked = name, []

    def ask(self, do, **request):
        self.asked.append(do)
        seconds = 0.5 * len(self.asked)
        return {"first": seconds} if do == "prepare" else {"seconds": seconds}


def test_sides_take_turns_and_the_fastest_counts():
    sides = [Side(name) for name in ("ours", "oracle", "other")]
    program = {"name": "a", "beside": None, "flop": 3.0, "byte": None}
    arguments = type("Arguments", (), {"rounds": 3, "seconds": 0.1})
    row = cpu_speed.measure(program, sides, arguments, {"flop": 4.0, "byte": 1.0})
    assert sides[0].asked == ["prepare"] * 2 + ["fastest"] * 3 + ["forget"]
    assert not sides[2].asked
    assert row.seconds == {"ours": 1.5, "oracle": 1.5}
    assert row.first == {"ours": 0.5, "oracle": 0.5}
    assert row.peak == 0.5
