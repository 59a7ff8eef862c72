"""The rules of the code base that a tool can check: layers, style, what `import jax` may load, what is installed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAZY = (
    "scipy",
    "rich",
    "matplotlib",
    "opt_einsum",
    "jaxlib.mlir.dialects",
    "jax.export",
    "jax.experimental",
    "jax.profiler",
    "jax.distributed",
    "jax._src.pallas",
)


def call(*command):
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def test_imports_go_down_the_layers():
    status, output = call(str(Path(sys.executable).parent / "lint-imports"), "--no-cache")
    assert status == 0, output[output.find("Contracts") :]


@pytest.mark.parametrize("command", [("check",), ("format", "--check")])
def test_ruff(command):
    status, output = call(sys.executable, "-m", "ruff", *command, "--no-cache", ".")
    assert status == 0, output


def test_types_of_core_and_interpreters(tmp_path):
    status, output = call(sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path))
    assert status == 0, output


def test_import_loads_only_what_most_programs_use():
    program = "import sys, jax, jax.numpy; print(*sorted(sys.modules))"
    status, output = call(sys.executable, "-c", program)
    assert status == 0, output
    loaded = output.split()
    assert [
        name for name in LAZY if any(m == name or m.startswith(f"{name}.") for m in loaded)
    ] == []


def test_stored_results_are_of_the_tables_as_they_are():
    status, output = call(sys.executable, "tests/oracle_results.py", "--check")
    assert status == 0, f"{output}python3 build/build.py oracle --update makes them anew"


def test_nothing_shadows_the_packages_of_others():
    for folder in ("jaxlib", "jax_plugins"):
        assert (ROOT / folder / "README.md").exists()
        assert not (ROOT / folder / "__init__.py").exists()


def test_one_version():
    version = re.search(r'^__version__ = "(.*)"', (ROOT / "jax/version.py").read_text(), re.M)[1]
    assert f'version = "{version}"' in (ROOT / "MODULE.bazel").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "jaxlib>=0.10.2,<0.13" in project["dependencies"]
    assert project["requires-python"] == ">=3.11"
