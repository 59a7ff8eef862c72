"""Commands in the documentation of building and testing: programs, options, targets and files that they name are there."""

import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent
PAGES = [
    *(ROOT / "docs" / f"{name}.md" for name in ("accelerators", "building", "cpu_speed", "libraries", "releases", "remote_execution", "rocm", "testing")),
    *(ROOT / name for name in ("CONTRIBUTING.md", "README.md", "ci/README.md", "ci/containers/README.md", "tests/README.md")),
]  # fmt: skip
START = re.compile(
    r"(?:^|`)((?:[A-Z_]+=\S* )*(?:python3 )?(?:build/|ci/)[\w/]+\.(?:py|sh)\b[^`\n#]*)", re.M
)

sys.path.insert(0, str(ROOT / "build"))
import front_door  # noqa: E402 (it is found through the line above)
import new  # noqa: E402


def commands(text: str) -> list[list[str]]:
    """The commands of a page, without what is set in front of them: in blocks and between backquotes."""
    found = []
    for match in START.finditer(text):
        words = [word for word in shlex.split(match[1].split(" | ")[0]) if word != "..."]
        while words and (words[0] == "python3" or re.match(r"[A-Z_]+=", words[0])):
            words.pop(0)
        found.append(words)
    return found


CASES = sorted({(page, tuple(words)) for page in PAGES for words in commands(page.read_text())})


def test_pages_have_commands():
    assert len(CASES) > 80
    assert {page.stem for page, _ in CASES} >= {
        "building",
        "testing",
        "accelerators",
        "rocm",
        "releases",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_commands(page):
    for _, (program, *arguments) in (case for case in CASES if case[0] == page):
        assert (ROOT / program).is_file(), program
        for argument in arguments:
            check_argument(argument)
        if program == "build/build.py" and arguments:
            check_command(*arguments)


def check_argument(argument: str) -> None:
    """Paths, targets and configurations exist, wherever they are in a command."""
    if re.match(r"(tests|examples|docs|benchmarks)/[\w/]+\.py", argument):
        assert (ROOT / argument.split("::")[0]).is_file(), argument
    if argument.startswith("//") and "..." not in argument:
        package, _, name = argument[2:].partition(":")
        assert name in {*targets(package), "all"}, argument
    if argument.startswith("--config="):
        settings = (ROOT / ".bazelrc").read_text()
        assert f":{argument.removeprefix('--config=')} " in settings, argument


@functools.cache
def targets(package: str) -> set[str]:
    """The names of a BUILD file's targets, with those that the macro for tests makes of one."""
    text = (ROOT / package / "BUILD.bazel").read_text()
    names = set(re.findall(r'^    name = "([\w.-]+)"', text, re.M))
    names |= {f"{name}_{kind}" for name in names for kind in ("cpu", "gpu", "tpu", "test")}
    if package == "tests":
        suites = re.search(r'name = backend \+ "_tests".*?in \[(.*?)\]', text, re.S)[1]
        names |= {f"{backend}_tests" for backend in re.findall(r'"(\w+)"', suites)}
    return names


def check_command(command: str, *arguments: str) -> None:
    assert command in front_door.COMMANDS, command
    if command == "new" and arguments:
        assert set(arguments[0].split("|")) <= set(new.KINDS), arguments
        return
    if "--" in arguments:
        arguments = arguments[: arguments.index("--")]
    options = {a.split("=")[0] for a in arguments if a.startswith("--")}
    known = options_of(command)
    if known is not None:
        assert options <= known, (command, options - known)


@functools.cache
def options_of(command: str) -> set[str] | None:
    """The options that a command's help, or that of build.py, names; None of commands that hand theirs on."""
    if command == "bazel":
        return None
    program = [sys.executable, str(ROOT / "build" / "build.py")]
    if command in ("build", "affected", "matrix", "release", "requirements_update"):
        program.append(command)
    done = subprocess.run([*program, "--help"], capture_output=True, text=True, check=True)
    own = set(re.findall(r"(?<![\w-])(--[\w-]+)", done.stdout))
    if command == "test":
        runner = [sys.executable, str(ROOT / "ci" / "run_on_devices.py"), "--help"]
        done = subprocess.run(runner, capture_output=True, text=True, check=True)
        own |= set(re.findall(r"(?<![\w-])(--[\w-]+)", done.stdout))
    programs = {"bench": "benchmarks/run.py", "oracle": "tests/oracle_results.py"}
    if command in programs:
        text = (ROOT / programs[command]).read_text() + (
            ROOT / "build" / "front_door.py"
        ).read_text()
        own |= set(re.findall(r"(?<![\w-])(--[\w-]+)", text))
    return own | {"--help"}


def test_every_command_of_build_py_is_documented():
    text = "".join(page.read_text() for page in PAGES)
    for command in front_door.COMMANDS:
        assert f"build.py {command}" in text, command
    for path in (ROOT / "ci").glob("*.sh"):
        assert path.name in text or path.name == "common.sh", path.name


def test_wrong_commands_are_seen():
    """The checks above find what they are for."""
    (found,) = commands("```\nA=1 python3 build/build.py frob --x   # text\n```")
    assert found == ["build/build.py", "frob", "--x"]
    for wrong in ("//tests:no_such_cpu", "--config=none", "tests/no_such_test.py"):
        with pytest.raises(AssertionError):
            check_argument(wrong)
    for wrong in (["frob"], ["build", "--wheel=jax"], ["new", "thing", "x"]):
        with pytest.raises(AssertionError):
            check_command(*wrong)
    assert "lax_sort_cpu" in targets("tests") and "tpu_compile_tests" in targets("tests")
