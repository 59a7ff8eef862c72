"""Runs the files of tests/filecheck: lit starts each, and FileCheck compares what it prints with its comments."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jax

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


# The primitives that modules define, by family: a folder of jax/_src, or a module where there are several families.
FIND = """
import ast, contextlib, importlib, io, json, os, runpy, sys
from pathlib import Path
from jax._src import core
import printing

folder, source = map(Path, sys.argv[1:])
with contextlib.redirect_stdout(io.StringIO()):
    for file in sorted(folder.glob("*.filecheck.py")):
        runpy.run_path(str(file))
families = {}
for file in sorted(source.rglob("*.py")):
    path = file.relative_to(source)
    statements = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.Assign)]
    targets = [target for node in statements for target in node.targets]
    names = [t.id for t in targets if isinstance(t, ast.Name) and t.id.endswith("_p")]
    if names:
        module = importlib.import_module(".".join(["jax._src", *path.with_suffix("").parts]))
        found = [getattr(module, name, None) for name in names]
        family = path.parent if str(path.parent) not in (".", "lax") else path.with_suffix("")
        primitives = {p.name for p in found if isinstance(p, core.Primitive)}
        families.setdefault(str(family), set()).update(primitives)
covered = [family for family, names in families.items() if names & printing.seen]
print(json.dumps([sorted(families.keys() - covered), covered]))
"""


KERNELS = "operations of one vendor's kernels: aot_*_test.py compile them"
LIBRARY = "calls of one vendor's library: nn_*_test.py, rnn_test.py and the like compare them with the reference's"
OWN_TRACE = "bound by interpreters and checks, not by functions that are traced here"
WITHOUT_FILE = {
    "backward_nans": OWN_TRACE,
    "buffer_callback": "an experiment whose operands are buffers: buffer_callback_test.py",
    "call_primitives": OWN_TRACE,
    "compute_on": "of a function that is not traced before: calls.filecheck.py has the operations that are marked",
    "cudnn": LIBRARY,
    "export/shape_poly": "of symbolic sizes, which no text of printing.py describes",
    "fused": OWN_TRACE,
    "hijax": "users' own primitives: hijax_test.py",
    "host_local_arrays": "of several processes",
    "interpreters/ad": OWN_TRACE,
    "key_reuse": OWN_TRACE,
    "lax/scaled_dot": LIBRARY,
    "numpy": OWN_TRACE,
    "pallas/fuser": "rewritten before a program is lowered: pallas_fuser_test.py",
    "pallas/mosaic/interpret": OWN_TRACE,
    "pallas/mosaic/sparse_core": KERNELS,
    "pallas/mosaic_gpu/lowering": KERNELS,
    "pallas/threaded": OWN_TRACE,
    "rnn": LIBRARY,
    "xla_metadata": "of functions that are called: calls.filecheck.py has an operation that is marked",
}


def test_every_family_of_primitives_is_in_a_file():
    source = Path(jax.__file__).parent / "_src"
    paths = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", FIND, str(FOLDER), str(source)],
        env=os.environ | {"PYTHONPATH": paths, "JAX_NUM_CPU_DEVICES": "8"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lacking, covered = map(set, json.loads(done.stdout.splitlines()[-1]))
    assert not lacking - WITHOUT_FILE.keys(), "these need lines in a file of tests/filecheck"
    assert not covered & WITHOUT_FILE.keys(), "these have lines now"


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
