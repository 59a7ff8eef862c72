"""The commands of build.py that run Bazel or update its requirements."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import interpreters
from environment import LOCKS, SetupError, UsageError, python_version, say
from processes import call

ROOT = Path(__file__).absolute().parent.parent
OFFLINE = ROOT / "ci" / "offline_bazel.sh"
# The version for which rules_python downloads an interpreter, given ordinary internet access.
HERMETIC_PYTHON = "3.11"
# Pythons that jaxlib and the tests' packages have wheels for, beside those that the project is developed with.
ONLY_IN_THE_MATRIX = ("3.14",)
WHEELS = {
    "jax": "//build/wheels:jax",
    "jaxlib-ext": "//build/wheels:jaxlib_ext",
    "jax-cuda-plugin": "//build/wheels:jax_cuda_plugin",
    "jax-rocm-plugin": "//build/wheels:jax_rocm_plugin",
    "jax-tpu-plugin": "//build/wheels:jax_tpu_plugin",
}
# What .venv and .oracle have in common, and jax, of which each has its own.
PACKAGES_OF_EVERY_JAX = (
    *("jax", "jaxlib", "flatbuffers", "ml-dtypes", "numpy", "opt-einsum", "scipy", "tensorstore"),
)
HOW_TO_GET_BAZEL = """\
  - With ordinary internet access: Bazelisk (https://github.com/bazelbuild/bazelisk; npm: @bazel/bazelisk) as
    `bazelisk` or `bazel` on PATH. It fetches the version in .bazelversion.
  - On Debian or Ubuntu with Debian's packages in reach: ci/offline_bazel.sh prepare.
  - A Bazel {version} elsewhere: --bazel_path=FILE, or JAX_BAZEL=FILE."""


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors as build.py does."""

    def error(self, message: str):
        raise UsageError(f"{self.prog.split()[-1]}: {message}")


def add_bazel_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bazel_path", help="the Bazel to use; otherwise one is looked for")
    parser.add_argument(
        "--python_version",
        help="of the interpreter that the build is for, as 3.11; default: this one's",
    )


def build(arguments: list[str]) -> int:
    """Builds wheels and copies them into a folder."""
    parser = Parser(prog="build.py build", description=build.__doc__)
    parser.add_argument(
        "--wheels",
        required=True,
        help=f"names with commas between them, of {', '.join(WHEELS)}; or all",
    )
    parser.add_argument("--output_path", default="dist", help="where they go; default: dist")
    parser.add_argument("--sdist", action="store_true", help="jax's source archive too")
    parser.add_argument("--config", action="append", default=[], help="a configuration of .bazelrc")
    parser.add_argument(
        "--bazel_options",
        action="append",
        default=[],
        help="an option of bazel build; may be repeated",
    )
    parser.add_argument(
        "--bazel_startup_options", action="append", default=[], help="an option of bazel itself"
    )
    add_bazel_arguments(parser)
    options = parser.parse_args(arguments)
    names = list(WHEELS) if options.wheels == "all" else options.wheels.split(",")
    if unknown := [name for name in names if name not in WHEELS]:
        raise UsageError(f"build: there is no wheel {unknown[0]!r}; there are {', '.join(WHEELS)}")
    targets = [WHEELS[name] for name in dict.fromkeys(names)]
    targets += ["//build/wheels:jax_sdist"] if options.sdist else []
    output = Path(options.output_path).absolute()
    output.mkdir(parents=True, exist_ok=True)
    bazel, variables = find_bazel(options.bazel_path, options.python_version)
    bazel += options.bazel_startup_options
    settings = [f"--config={name}" for name in options.config] + options.bazel_options
    settings += python_settings(bazel, variables)
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder, "events")
        command = [*bazel, "build", *settings, f"--build_event_json_file={events}", *targets]
        if status := call(command, variables, ROOT):
            return status
        files = built_files(events.read_text(), targets)
    for file in files:
        made = output / file.name
        # Bazel's files are read-only, and so are copies of them: remove an old copy first.
        made.unlink(missing_ok=True)
        shutil.copyfile(file, made)
        say(f"made {os.path.relpath(made)}")
    return 0


def built_files(events: str, targets: list[str]) -> list[Path]:
    """The files of targets, from what `--build_event_json_file` has written about a build of them."""
    base = Path()
    sets: dict[str, list[Path]] = {}
    of_target: dict[str, list[str]] = {}
    for event in map(json.loads, events.splitlines()):
        identity = event["id"]
        if "workspaceInfo" in event:
            base = Path(event["workspaceInfo"]["localExecRoot"])
        elif "namedSet" in identity:
            found = event["namedSetOfFiles"].get("files", [])
            sets[identity["namedSet"]["id"]] = [Path(*f["pathPrefix"], f["name"]) for f in found]
        elif "targetCompleted" in identity and "completed" in event:
            groups = event["completed"].get("outputGroup", [])
            ids = [
                s["id"] for group in groups if group["name"] == "default" for s in group["fileSets"]
            ]
            of_target[identity["targetCompleted"]["label"]] = ids
    return [base / file for target in targets for i in of_target[target] for file in sets[i]]


def bazel(arguments: list[str]) -> int:
    """Runs Bazel with the given arguments."""
    path = version = None
    while arguments and (
        match := re.fullmatch(r"--(bazel_path|python_version)=(.+)", arguments[0])
    ):
        path, version = (match[2], version) if match[1] == "bazel_path" else (path, match[2])
        arguments = arguments[1:]
    if not arguments:
        raise UsageError("bazel: say what Bazel is to do")
    command, variables = find_bazel(path, version)
    first = next((i for i, a in enumerate(arguments) if not a.startswith("-")), len(arguments)) + 1
    if arguments[first - 1 : first] not in (["version"], ["shutdown"], ["help"], ["clean"], []):
        arguments = [*arguments[:first], *python_settings(command, variables), *arguments[first:]]
    sys.stdout.flush()
    return call([*command, *arguments], variables)


# The names of the .in files that every version of Python has a lock file of.
LOCKED = ("lock", "oracle", "bazel", "plugins", "aot", "libraries", "torch", "remote", "release")


def requirements_update(arguments: list[str]) -> int:
    """Resolves build/requirements/*.in anew and writes the lock files, with hashes."""
    parser = Parser(prog="build.py requirements_update", description=requirements_update.__doc__)
    parser.add_argument(
        "--python_version", action="append", help="only for these; default: 3.11, 3.12 and 3.13"
    )
    parser.add_argument(
        "--upgrade_package", action="append", default=[], help="only this package moves"
    )
    options = parser.parse_args(arguments)
    folder = ROOT / LOCKS
    versions = options.python_version or ["3.11", "3.12", "3.13"]
    files = [
        (f"{name}.in", f"{name}-{version}.txt", ["--python-version", version])
        for version in versions
        for name in LOCKED
    ]
    files += [  # of build.py matrix: what differs from the project's own
        ("lock.in", f"matrix-oldest-{version}.txt", [*_of(version), "--override=matrix-oldest.in"])
        for version in [*versions, *ONLY_IN_THE_MATRIX]
        if version != "3.11" and version in (options.python_version or [version])
    ]
    if not options.python_version:
        files += [("lock.in", f"matrix-newest-{v}.txt", _of(v)) for v in ONLY_IN_THE_MATRIX]
        files.append(("uv.in", "uv.txt", ["--universal", "--python-version", versions[0]]))
    with tempfile.TemporaryDirectory() as tools:
        install = ["install", "--quiet", "--require-hashes", "--requirement", "uv.txt"]
        _checked([sys.executable, "-m", "venv", tools], folder)
        _checked([f"{tools}/bin/python", "-m", "pip", *install], folder)
        command = [f"{tools}/bin/uv", "pip", "compile", "--quiet", "--generate-hashes"]
        command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
        command += [f"--upgrade-package={p}" for p in options.upgrade_package] or ["--upgrade"]
        for wanted, output, settings in files:
            # The packages in bazel.in must be compatible with those in lock.in.
            if wanted == "bazel.in":
                settings += ["--constraint", output.replace("bazel", "lock")]
            # Those in libraries.in are used beside both jax and the oracle's, whose packages they take.
            if wanted == "libraries.in":
                settings += ["--constraint", output.replace("libraries", "oracle")]
                settings += [f"--no-emit-package={name}" for name in PACKAGES_OF_EVERY_JAX]
            say(f"resolving {output}")
            _checked([*command, *settings, wanted, "--output-file", output], folder)
    return 0


def _of(version: str) -> list[str]:
    return ["--python-version", version, "--only-binary=:all:"]


def find_bazel(
    path: str | None = None, version: str | None = None
) -> tuple[list[str], dict[str, str]]:
    """Returns the command that runs Bazel, and its environment.

    This is the Bazel in `path` or JAX_BAZEL, if given. Otherwise it is the first `bazelisk` or
    `bazel` on PATH that has the project's version, or else Debian's Bazel, which
    ci/offline_bazel.sh prepares if possible.

    Raises:
      SetupError: if there is no Bazel, the given one has another version, or there is no
        interpreter of the wanted version.
    """
    variables = dict(os.environ)
    variables["JAX_BAZEL_PYTHON_VERSION"] = version or python_version()
    variables["JAX_BAZEL_PYTHON"] = find_python(version)
    wanted = (ROOT / ".bazelversion").read_text().strip()
    how_to_get_one = "Ways to get one:\n" + HOW_TO_GET_BAZEL.format(version=wanted)
    named = path or os.environ.get("JAX_BAZEL")
    if named:
        file = shutil.which(named)
        if file is None:
            raise SetupError(
                f"{named} cannot be run: --bazel_path and JAX_BAZEL name a Bazel {wanted}"
            )
        if trouble := _trouble_with(file, wanted):
            raise SetupError(f"{trouble}. {how_to_get_one}")
        return [os.path.abspath(file)], variables
    for file in _bazels_on_path():
        trouble = _trouble_with(file, wanted)
        if trouble is None:
            return [file], variables
        say(f"{trouble}: it is left out")
    if reason := _no_offline_root():
        raise SetupError(f"there is no Bazel here that will do, and {reason}. {how_to_get_one}")
    status = subprocess.run([OFFLINE, "prepare"], env=variables, check=False).returncode
    if status:
        raise SetupError(f"Debian's Bazel cannot be had (see above). {how_to_get_one}")
    return [str(OFFLINE), "bazel"], variables


def _bazels_on_path() -> list[str]:
    found: dict[str, str] = {}  # by resolved path, since one file may have several names
    for name in ("bazelisk", "bazel"):
        for folder in filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep)):
            if file := shutil.which(name, path=folder):
                found.setdefault(os.path.realpath(file), file)
    return list(found.values())


def find_python(version: str | None) -> str:
    """Returns the interpreter that a build is for: this one, or one of `version`."""
    if version is None:
        version = python_version()
    if not re.fullmatch(r"3\.\d+", version):
        raise UsageError(f"--python_version is {version!r}: it should be like 3.11")
    if not (ROOT / LOCKS / f"lock-{version}.txt").exists():
        raise SetupError(
            f"there is no lock-{version}.txt in {LOCKS}: no packages are pinned for Python {version}"
        )
    if (file := interpreters.find(version)) is None:
        raise SetupError(
            f"there is no python{version} on PATH nor of pyenv, and --python_version={version} needs one"
        )
    return file


def python_settings(bazel: list[str], variables: dict[str, str]) -> list[str]:
    if bazel[0] == str(OFFLINE) or variables["JAX_BAZEL_PYTHON_VERSION"] == HERMETIC_PYTHON:
        return []
    return ["--config=local_python"]


def _trouble_with(file: str, wanted: str) -> str | None:
    """Returns why a Bazel cannot be used, or None."""
    try:
        result = subprocess.run(
            [file, "--version"], capture_output=True, text=True, check=False, cwd=ROOT
        )
    except OSError as error:
        return f"{file} cannot be run ({error.strerror})"
    found = re.search(r"(\d+\.\d+\.\d+)", result.stdout)
    if result.returncode or not found:
        lines = (result.stdout + result.stderr).strip().splitlines()[-5:]
        said = "".join(f"\n    {line}" for line in lines)
        return f"{file} --version fails (if it is Bazelisk, can it reach its downloads?){said}"
    if found[1] != wanted:
        return (
            f"{file} is Bazel {found[1]}, and this project is built with {wanted} (.bazelversion)"
        )
    return None


def _no_offline_root() -> str | None:
    """Returns why ci/offline_bazel.sh cannot work here, or None."""
    if not sys.platform.startswith("linux"):
        return "Debian's Bazel runs on Linux only"
    if missing := [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]:
        return f"Debian's Bazel cannot be fetched without {missing[0]}"
    return None


def output_of(
    command: list[str], variables: dict[str, str] | None = None, partial: bool = False
) -> str:
    """What a command prints; with `partial` also if it says, as `--keep_going` does, that it has left something out."""
    result = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env=variables, cwd=ROOT, check=False
    )
    if result.returncode and not (partial and result.returncode == 3):
        raise SetupError(f"{' '.join(command[:3])} ... failed with exit status {result.returncode}")
    return result.stdout


def _checked(command: list[str], folder: Path) -> None:
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if result.returncode:
        lines = (result.stdout + result.stderr).strip().splitlines()[-12:]
        raise SetupError(
            f"{' '.join(command[:4])} ... failed:\n" + "\n".join(f"    {line}" for line in lines)
        )
