"""`build.py new`: what it writes works at once, what cannot be is refused, and a failure leaves nothing."""

import ast
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent

sys.path.insert(0, str(ROOT / "build"))
import build_files  # noqa: E402 (it is found through the line above)
import environment  # noqa: E402
import new  # noqa: E402

COPIED = ("CHANGELOG.md", "conftest.py", "pyproject.toml", "build/skeletons", "tests/filecheck")
TESTS = (
    "primitive_rows.py",
    "primitives_test.py",
    "docstring_examples.py",
    "docstrings_scipy_test.py",
)
NAMES = {"primitive": "wiggle", "function": "long_root_sum", "distribution": "bell"}
EXAMPLES = """
import doctest
import jax
import jax.numpy as jnp
import jax.scipy.stats
from jax import lax

def test_examples():
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for name, value in (("f", lax.wiggle), ("g", jnp.long_root_sum), ("h", jax.scipy.stats.bell.cdf)):
        for test in finder.find(value, name, globs=globals()):
            runner.run(test)
    assert runner.summarize() == (0, 3)
"""
LOADS = 'load("//build/bazel:defs.bzl", "jax_multiplatform_test")\n'


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what an operation belongs to."""
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "jax", root / "jax", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for name in (*COPIED, *(f"tests/{test}" for test in TESTS)):
        (root / name).parent.mkdir(exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, root / name)
    (root / "tests/BUILD.bazel").write_text(LOADS)
    return root


@pytest.fixture
def there(checkout, monkeypatch):
    """The commands of the copy."""
    monkeypatch.setattr(new, "ROOT", checkout)
    monkeypatch.setattr(new, "SKELETONS", checkout / "build" / "skeletons")
    return checkout


def content(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "new takes two words: primitive, function, distribution, and a name"),
        (["primitive"], "new takes two words"),
        (["operator", "wiggle"], "new takes two words"),
        (["function", "2d"], "'2d' is no name here"),
        (["function", "Sum"], "'Sum' is no name here"),
        (["function", "a-b"], "'a-b' is no name here"),
        (["function", "lambda"], "lambda is a word of Python's own"),
        (["primitive", "sin_p"], "names have up to 40 letters and end neither in _p"),
        (["primitive", "x" * 41], "names have up to 40 letters"),
        (["primitive", "sin"], "there is a sin already, in jax/_src/lax/lax/__init__.py"),
        (["primitive", "cond"], "there is a cond already, in jax/lax/__init__.py"),
        (["primitive", "eigh"], "there is a primitive eigh already, in jax/_src/lax/linalg"),
        (["primitive", "linalg"], "there is a linalg already, in jax/lax/__init__.py"),
        (["primitive", "hlo"], "hlo is a name that what is written uses itself; take another"),
        (["primitive", "unary_primitive"], "there is a unary_primitive already"),
        (["primitive", "with_sharding"], "with_sharding is a name that what is written uses"),
        (["primitive", "rules"], None),
        (["primitive", "lax"], None),
        (["primitive", "print"], None),
        (["function", "unique"], "there is a unique already, in jax/numpy/__init__.py"),
        (["function", "exp2"], "there is a exp2 already"),
        (["function", "padding"], "there is a file jax/_src/numpy/padding.py already"),
        (["function", "lax"], "lax is a name that what is written uses itself; take another"),
        (["function", "export"], "export is a name that what is written uses itself"),
        (["function", "sorted"], "jax/numpy/__init__.py uses the name sorted itself"),
        (["function", "jnp"], None),
        (["function", "test"], None),
        (["distribution", "jnp"], "jnp is a name that what is written uses itself"),
        (["distribution", "getattr"], "getattr is a name that what is written uses itself"),
        (["distribution", "export"], None),
        (["distribution", "test"], None),
        (["distribution", "rankdata"], "there is a rankdata already"),
        (["distribution", "norm"], "there is a norm already, in jax/scipy/stats/__init__.py"),
        (["distribution", "common"], "there is a file jax/_src/scipy/stats/common.py already"),
    ],
)
def test_what_cannot_be_is_refused(there, monkeypatch, arguments, message):
    written = []
    monkeypatch.setattr(new, "_write", lambda path, text: written.append(path))
    monkeypatch.setattr(build_files, "build_files", lambda root: {})
    if message is None:  # another package's module of this name is none of its concern
        assert new.new(arguments) == 0
        return
    with pytest.raises(environment.UsageError) as caught:
        new.new(arguments)
    assert message in str(caught.value)
    assert not written


@pytest.mark.parametrize("name", ["aa", "m", "zz"])
def test_functions_are_imported_wherever_their_names_belong(there, name):
    ast.parse(new.function(name)["jax/numpy/__init__.py"])


@pytest.mark.parametrize("error", [OSError("disk full"), build_files.BuildError("a circle")])
def test_a_failure_leaves_nothing(there, monkeypatch, error):
    def fail(root):
        raise error

    monkeypatch.setattr(build_files, "build_files", fail)
    before = content(there)
    with pytest.raises(environment.SetupError, match=f"{error}; nothing was written"):
        new.new(["distribution", "bell"])
    assert content(there) == before


def test_two_at_once_lose_nothing(there, monkeypatch):
    monkeypatch.setattr(build_files, "build_files", lambda root: {})
    monkeypatch.setattr(new, "_write", lambda path, text: written.update({path.name: text}))
    written, changes = {}, there / "CHANGELOG.md"
    waits = threading.Event()
    monkeypatch.setattr(environment, "say", lambda text: waits.set())
    thread = threading.Thread(target=new.new, args=(["distribution", "gong"],))
    before = changes.read_text()
    with environment.locked(there / ".new.lock", "writing a skeleton"):
        thread.start()
        assert waits.wait(60) and not written
        changes.write_text(before.replace("### Added\n", "### Added\n\n- Another's.\n", 1))
    thread.join(60)
    changes.write_text(before)
    assert "- Another's.\n" in written["CHANGELOG.md"]
    assert "- `jax.scipy.stats.gong`: TODO.\n" in written["CHANGELOG.md"]


def test_what_is_written_works(there, monkeypatch):
    with monkeypatch.context() as patch:  # once for all of them is enough
        patch.setattr(build_files, "build_files", lambda root: {})
        for kind in ("primitive", "function"):
            assert new.new([kind, NAMES[kind]]) == 0
    assert new.new(["distribution", NAMES["distribution"]]) == 0
    for path in new._written:
        text = path.read_text()
        assert "wiggle" in text or "long_root_sum" in text or "bell" in text, path
    assert 'name = "long_root_sum"' in (there / "jax/_src/numpy/BUILD.bazel").read_text()
    for test in ("numpy_long_root_sum", "scipy_stats_bell"):
        assert f'name = "{test}"' in (there / "tests/BUILD.bazel").read_text()
    changes = (there / "CHANGELOG.md").read_text()
    for name in ("jax.lax.wiggle", "jax.numpy.long_root_sum", "jax.scipy.stats.bell"):
        assert f"- `{name}`: TODO." in changes
    run(there, "-m", "ruff", "check", "--no-cache", ".")
    run(there, "-m", "ruff", "format", "--no-cache", "--check", ".")
    tests = ["numpy_long_root_sum_test.py", "scipy_stats_bell_test.py", *TESTS[1:]]
    tests = ["numpy_long_root_sum_test.py", "scipy_stats_bell_test.py", "primitives_test.py"]
    (there / "tests" / "examples_test.py").write_text(EXAMPLES)
    command = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["-k", "wiggle or long_root_sum or bell or examples"]
    output = run(there, *command, *(f"tests/{test}" for test in [*tests, "examples_test.py"]))
    assert "passed" in output


def run(root: Path, *command: str) -> str:
    variables = os.environ | {"PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, *command], cwd=root, env=variables, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
