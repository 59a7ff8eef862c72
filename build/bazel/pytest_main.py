"""Runs the tests of one file under Bazel, with its sharding, filter and report.

    pytest_main.py FILE [ARGUMENTS OF PYTEST]

The tests run in a virtual environment with the target's dependencies, so that programs which a test
starts with `sys.executable` have them too.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

NO_TESTS = 5
INSIDE = "JAX_PYTEST_ENVIRONMENT"


class Shard:
    """Keeps the tests of one shard: every n-th selected test, to spread slow neighbors."""

    def __init__(self, index: int, total: int):
        self.index, self.total = index, total
        self.collected = 0

    def pytest_collection_modifyitems(self, config, items):
        self.collected = len(items)
        kept = items[self.index :: self.total]
        config.hook.pytest_deselected(
            items=[i for k, i in enumerate(items) if k % self.total != self.index]
        )
        items[:] = kept


def run_in_environment(arguments: list[str]) -> int:
    """Runs this program again in a virtual environment with the folders in Bazel's `sys.path`."""
    folder = Path(os.environ["TEST_TMPDIR"], "environment")
    packages = (
        folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    )
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    executable = Path(sys._base_executable).resolve()
    (folder / "bin" / "python").symlink_to(executable)
    (folder / "pyvenv.cfg").write_text(
        f"home = {executable.parent}\ninclude-system-site-packages = false\n"
    )
    standard = sysconfig.get_path(
        "stdlib"
    )  # has the interpreter's own packages too, which are not declared dependencies
    here = os.path.dirname(os.path.realpath(__file__))
    added = [os.path.abspath(path) for path in sys.path if path and os.path.isdir(path)]
    added = [p for p in added if p not in (standard, here) and not p.startswith(f"{standard}/")]
    (packages / "bazel.pth").write_text("\n".join(dict.fromkeys(added)) + "\n")
    variables = {
        k: v
        for k, v in os.environ.items()
        if k not in ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH")
    }
    python = str(folder / "bin" / "python")
    # The file exists while tests run. Bazel sets the variable, but only some versions check the
    # file.
    variables.setdefault("TEST_PREMATURE_EXIT_FILE", str(folder / "running"))
    variables[INSIDE] = str(folder)
    sys.stdout.flush()
    # Both processes keep the file descriptor that locks an accelerator's slot.
    status = subprocess.run(
        [python, "-P", __file__, *arguments], env=variables, close_fds=False, check=False
    ).returncode
    if status == 0 and os.path.exists(variables["TEST_PREMATURE_EXIT_FILE"]):
        print("A test ended the whole process, and no test after it ran.", flush=True)
        return 1
    return 128 - status if status < 0 else status


def main(arguments: list[str]) -> int:
    if INSIDE not in os.environ:
        return run_in_environment(arguments)
    running = Path(os.environ["TEST_PREMATURE_EXIT_FILE"])
    running.touch()
    status = run(arguments)
    running.unlink(missing_ok=True)
    return status


def run(arguments: list[str]) -> int:
    import pytest  # not available in the outer interpreter

    # Run after pytest's own hook, which applies the filter (-k).
    pytest.hookimpl(trylast=True)(Shard.pytest_collection_modifyitems)
    shard = Shard(
        int(os.environ.get("TEST_SHARD_INDEX", 0)), int(os.environ.get("TEST_TOTAL_SHARDS", 1))
    )
    if "TEST_SHARD_STATUS_FILE" in os.environ:
        Path(os.environ["TEST_SHARD_STATUS_FILE"]).touch()  # tells Bazel that sharding is supported
    file, *others = arguments
    arguments = [
        os.path.abspath(file),
        *others,
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--rootdir",
        os.getcwd(),
    ]
    arguments += ["-c", "pyproject.toml"]
    if report := os.environ.get("XML_OUTPUT_FILE"):
        arguments += ["--junit-xml", report]
    if names := os.environ.get("TESTBRIDGE_TEST_ONLY"):
        arguments += ["-k", names]
    if os.environ.get("TESTBRIDGE_TEST_RUNNER_FAIL_FAST") == "1":
        arguments += ["-x"]
    scratch = os.environ.get("TEST_TMPDIR", "/tmp")
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(scratch, "hypothesis"))
    os.environ.setdefault("HOME", scratch)
    if "CXX" in os.environ:
        os.environ["CXX"] = os.path.abspath(os.environ["CXX"])
    status = int(pytest.main(arguments, plugins=[shard]))
    # An empty shard is fine, but an empty file or selection is an error.
    if status == NO_TESTS and shard.collected:
        return 0
    if status == NO_TESTS and names:
        print(f"No test of {file} has a name that the filter {names!r} chooses.")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
