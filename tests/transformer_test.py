"""The example that trains a transformer on many devices: alone, restarted, and as several processes."""

import csv
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import process_testing
import pytest

PROGRAM = Path(__file__).absolute().parent.parent / "examples" / "transformer.py"
SMALL = [
    "--steps",
    "24",
    "--save-every",
    "4",
    "--width",
    "32",
    "--layers",
    "1",
    "--batch-size",
    "8",
]
TIME_LIMIT = 120


def command(*arguments, launcher=()):
    start = ["-m", "jax.distributed.launch", *launcher] if launcher else []
    more = ["--processes"] if launcher else []
    return [sys.executable, *start, str(PROGRAM), *more, *map(str, arguments)]


def environment():
    # The program chooses its devices.
    return {k: v for k, v in os.environ.items() if k != "JAX_NUM_CPU_DEVICES"} | {
        "JAX_PLATFORMS": "cpu"
    }


def call(*arguments, launcher=()):
    return subprocess.run(
        command(*arguments, launcher=launcher),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
    )


def losses_in(folder):
    with open(folder / "losses.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == list(range(1, len(rows) + 1))
    return [float(row["loss"]) for row in rows]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The losses of a run from beginning to end, on 8 devices."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    done = call(*SMALL, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert "step/s" not in done.stderr  # no progress bar in a file
    assert re.search(r"^loss after 24 steps: \d\.\d{4}$", done.stdout, re.M)
    picture = (folder / "losses.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 5000
    return losses_in(folder)


def test_it_learns(uninterrupted):
    assert len(uninterrupted) == 24
    assert uninterrupted[0] == pytest.approx(np.log(128), abs=0.1)
    assert uninterrupted[-1] < uninterrupted[0] - 0.5


def wait_for_checkpoint(folder):
    deadline = time.monotonic() + TIME_LIMIT
    while not (folder / "checkpoint").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_goes_on_after_it_was_killed(tmp_path, uninterrupted):
    """Killed as soon as there is a checkpoint, and restarted with other shardings."""
    arguments = [*SMALL, "--out", tmp_path]
    with subprocess.Popen(command(*arguments), env=environment(), stdout=subprocess.DEVNULL) as run:
        wait_for_checkpoint(tmp_path)
        run.kill()
    done = call(*arguments, "--model-parallel", 4)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^goes on after step (4|8|12|16|20|24)$", done.stdout, re.M)
    np.testing.assert_allclose(losses_in(tmp_path), uninterrupted, rtol=1e-4)


def test_several_processes(tmp_path, uninterrupted):
    """One of two processes is killed, which ends the other; four processes go on."""
    program = f"""
import runpy, sys
sys.argv = {["transformer.py", "--processes", *SMALL, "--steps", "10000", "--out", str(tmp_path)]}
runpy.run_path({str(PROGRAM)!r}, run_name="__main__")
"""
    with process_testing.start(program, 2, devices=4) as run:
        wait_for_checkpoint(tmp_path)
        run[1].kill()
        survivor, killed = run.finish()
    assert killed.status == -9
    assert survivor.status > 0
    assert "process 1" in survivor.stderr
    done = call(*SMALL, "--out", tmp_path, launcher=["-n", "4", "--devices-per-process", "2"])
    assert done.returncode == 0, done.stdout + done.stderr
    losses = losses_in(tmp_path)
    assert len(losses) >= 24
    np.testing.assert_allclose(losses[:24], uninterrupted, rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "--steps: must be a whole number, 1 or more; got '0'"),
        (["--batch-size", "6"], "--batch-size: must be a multiple of 4"),
        (["--model-parallel", "3"], "--model-parallel: 3 does not divide 4 heads"),
        (["--width", "20"], "--width: must be a multiple of 16; got 20"),
    ],
)
def test_bad_arguments(tmp_path, arguments, message):
    done = call(*arguments, "--out", tmp_path / "new")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "new").exists()
