"""The command of build.py that tells which tests a change can affect, from Bazel's graph."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from bazel_commands import ROOT, Parser, add_bazel_arguments, find_bazel, output_of, python_settings
from environment import UsageError, say
from processes import call

# What every target depends on without an edge in the graph.
OF_EVERYTHING = ("MODULE.bazel", "WORKSPACE", ".bazelrc", ".bazelversion")
# The tags of tests, and the configurations of .bazelrc that these take.
CONFIGURATIONS = {
    "cpu": ["cpu"],
    "aot": ["aot"],
    "tpu_compile": ["aot"],
    "cuda_compile": ["aot"],
    "gpu": ["cuda"],
    "tpu": ["tpu"],
    "wheel": [],
    "fuzz": [],
}


def affected(arguments: list[str]) -> int:
    """Runs the tests that depend on what has changed since a revision, and on files that are not committed."""
    parser = Parser(prog="build.py affected", description=affected.__doc__)
    parser.add_argument(
        "--since", default="HEAD", metavar="REVISION",
        help="compare with this revision; HEAD, the default, is what is not committed",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="print the tests, and do not run them")
    parser.add_argument(
        "--tag",
        default="cpu",
        choices=CONFIGURATIONS,
        help="only tests with this tag; default: cpu",
    )
    parser.add_argument(
        "--bazel_options",
        action="append",
        default=[],
        help="an option of bazel test; may be repeated",
    )
    add_bazel_arguments(parser)
    options = parser.parse_args(arguments)
    files = changed_files(options.since)
    if not files:
        say(f"nothing has changed since {options.since}")
        return 0
    bazel, variables = find_bazel(options.bazel_path, options.python_version)
    # An offline root has stand-ins for what Bazel's own tools need, which the query would miss.
    query = [*bazel, "query", "--noshow_progress", "--ui_event_filters=-error", "--keep_going"]
    query += ["--noimplicit_deps", "--notool_deps", "--output=label"]
    tests = output_of([*query, tests_of(files, options.tag)], variables, partial=True).split()
    say(f"{len(files)} changed files can affect {len(tests)} tests")
    if options.list or not tests:
        print(*tests, sep="\n")
        return 0
    sys.stdout.flush()
    settings = [
        *(f"--config={name}" for name in CONFIGURATIONS[options.tag]),
        *python_settings(bazel, variables),
        *options.bazel_options,
    ]
    command = [*bazel, "test", *settings, "--", *tests]
    return call(command, variables, ROOT)


def changed_files(since: str) -> list[str]:
    """The paths of files that differ from those of a revision or are new, from the checkout's root."""
    commands = [
        ["diff", "--name-only", "--no-renames", "-z", since, "--"],
        ["ls-files", "--others", "--exclude-standard", "-z"],
    ]
    found: set[str] = set()
    for command in commands:
        done = subprocess.run(
            ["git", *command], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise UsageError(f"affected: git says: {done.stderr.strip().splitlines()[0]}")
        found.update(filter(None, done.stdout.split("\0")))
    return sorted(found)


def tests_of(files: Iterable[str], tag: str) -> str:
    """The query for the tests with a tag that depend on any of the files.

    Suites depend on all their tests: `tests` would give all of them, if one is affected.
    """
    changed = sorted({pattern for file in files if (pattern := _changed_targets(file))})
    quoted = " + ".join(f'"{pattern}"' for pattern in changed)  # names may have spaces
    dependents = "//..." if "//..." in changed else f"rdeps(//..., {quoted or 'set()'})"
    tests = f"attr(tags, '[\\[ ]{tag}[,\\]]', kind('_test rule$', {dependents}))"
    # Some run only where somebody asks for them, in surroundings of their own.
    return f"let tests = {tests} in $tests except attr(tags, '[\\[ ]manual[,\\]]', $tests)"


def _changed_targets(file: str) -> str | None:
    """The targets that are another if a file is: itself, or those of its package, or all; None if it is in no package."""
    path = Path(file)
    if file in OF_EVERYTHING or path.suffix == ".bzl" or path.is_relative_to("build/requirements"):
        return "//..."
    package = next((p for p in path.parents if (ROOT / p / "BUILD.bazel").exists()), None)
    if package is None:
        return None
    name = "" if package == Path() else package.as_posix()
    if path.name == "BUILD.bazel" or not (ROOT / path).exists():
        return f"//{name}:all"
    return f"//{name}:{path.relative_to(package).as_posix()}"
