"""What pages say of how many tests a changed file runs again, against the BUILD files, which are read without Bazel."""

import builtins
import collections
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent
TESTS = ("jax_multiplatform_test", "jax_py_test")


class _Names(dict):
    """The names in a BUILD file: what is not told is a macro or a rule, a call of which is noted."""

    def __init__(self, folder: Path):
        super().__init__(glob=self._glob, select=lambda cases, **_: sum(cases.values(), []))
        self.folder = folder
        self.calls: list[tuple[str, dict]] = []

    def __missing__(self, name: str):
        if hasattr(builtins, name):
            raise KeyError(name)
        return lambda *_, **arguments: self.calls.append((name, arguments))

    def _glob(self, include, exclude=(), **_):
        packages = {file.parent for file in self.folder.rglob("BUILD.bazel")} - {self.folder}
        found = {path for pattern in include for path in self.folder.glob(pattern)}
        found -= {path for pattern in exclude for path in self.folder.glob(pattern)}
        own = [path for path in found if packages.isdisjoint(path.parents)]
        return sorted(path.relative_to(self.folder).as_posix() for path in own)


@pytest.fixture(scope="module")
def graph():
    """The targets that depend on a file or target, by its label, and how many rules each test on the CPU makes."""
    dependents: dict[str, set[str]] = collections.defaultdict(set)
    rules: dict[str, int] = {}
    for file in [*(ROOT / "jax").rglob("BUILD.bazel"), ROOT / "tests" / "BUILD.bazel"]:
        package = "//" + file.parent.relative_to(ROOT).as_posix()
        names = _Names(file.parent)
        exec(compile(file.read_text(), str(file), "exec"), names)
        for kind, arguments in names.calls:
            if "name" not in arguments or kind == "test_suite":
                continue
            name, inputs = f"{package}:{arguments['name']}", []
            for key in ("srcs", "data", "deps", "actual"):
                value = arguments.get(key) or []
                inputs += [value] if isinstance(value, str) else value
            if kind in TESTS:
                if not arguments.get("srcs"):
                    inputs.append(f"{arguments['name']}_test.py")
                name += " on the CPU"  # a library may have the name of its test
                if count := _rules(kind, arguments):
                    rules[name] = count
            for label in inputs:
                dependents[_whole(label, package)].add(name)
    return dependents, rules


def _rules(kind: str, arguments: dict) -> int:
    if kind == "jax_py_test":
        return int("manual" not in (arguments.get("tags") or []))
    if "cpu" not in (arguments.get("backends") or ["cpu"]):
        return 0
    return len(arguments.get("cpu_devices") or [8]) + (arguments.get("with_kernels") is not None)


def _whole(label: str, package: str) -> str:
    if not label.startswith(("//", "@")):
        label = package + ":" + label.removeprefix(":")
    return label if ":" in label else f"{label}:{label.rpartition('/')[2]}"


def _share(graph, label: str) -> float:
    """How many of all test rules depend on a file, in per cent."""
    dependents, rules = graph
    assert label in dependents, f"no target has {label}"
    seen, pending = {label}, [label]
    while pending:
        for name in dependents.get(pending.pop(), ()):
            if name not in seen:
                seen.add(name)
                pending.append(name)
    return 100 * sum(rules.get(name, 0) for name in seen) / sum(rules.values())


@pytest.mark.parametrize("page", ["remote_execution", "testing"])
def test_shares_of_tests_that_run_again(graph, page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    said = re.findall(r"`(?:jax/_src/)?(\w+(?:/\w+)*)/(\w+\.py)` runs (?:again )?(\d+) %", text)
    assert len(said) >= 2
    for folder, file, share in said:
        found = _share(graph, f"//jax/_src/{folder}:{file}")
        assert abs(found - int(share)) <= 3, f"{folder}/{file}: {found:.1f} % of the tests"


def test_a_module_of_numpy_is_not_of_the_core(graph):
    """A change in it must not run again what tests the core."""
    dependents, _ = graph
    (core,) = [name for name in dependents["//tests:core_test.py"] if name.endswith("on the CPU")]
    seen, pending = set(), ["//jax/_src/numpy:setops.py"]
    while pending:
        label = pending.pop()
        if label not in seen:
            seen.add(label)
            pending += dependents.get(label, ())
    assert core not in seen
