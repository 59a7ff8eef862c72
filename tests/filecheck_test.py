"""Runs the files of tests/filecheck: lit starts each, and FileCheck compares what it prints with its comments."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "filecheck"
LIT = [
    sys.executable,
    "-c",
    "from lit.main import main; main()",
    "-v",
    "-j1",
    "--skip-test-time-recording",
]


def run(*arguments):
    return subprocess.run([*LIT, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.filecheck.py")))
def test_file(name):
    done = run(FOLDER / name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"PASS: filecheck :: {name} (1 of 1)" in done.stdout


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("CHECK: stablehlo.cosine", 'Couldn\'t match "stablehlo.cosine"'),
        ("CHECK-NOT: stablehlo.sine", "stablehlo.sine"),
    ],
)
def test_a_program_that_its_comments_do_not_describe(tmp_path, comment, message):
    for name in ("lit.cfg.py", "printing.py"):
        shutil.copy(FOLDER / name, tmp_path)
    file = tmp_path / "wrong.filecheck.py"
    file.write_text(
        f"# RUN: %python %s | %filecheck %s\nimport jax\nfrom printing import print_ir\n# {comment}\n"
        'print_ir("float32[3]")(jax.lax.sin)\n'
    )
    done = run(tmp_path)
    assert done.returncode == 1
    assert "wrong.filecheck.py:4: error: " in done.stdout and message in done.stdout
