"""The commands of build.py."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from affected import affected
from bazel_commands import bazel, build, requirements_update
from environment import (
    Environment,
    SetupError,
    UsageError,
    aot_environment,
    libraries_environment,
    oracle_environment,
    packages,
    plugins_environment,
    prepare,
    project_environment,
    remote_environment,
    say,
    torch_environment,
)
from matrix import matrix
from new import new
from processes import call
from release import release

ROOT = Path(__file__).absolute().parent.parent

USAGE = """\
usage: python3 build/build.py COMMAND [ARGS]

  run PROGRAM [ARGS]   run a Python program (a file, or -m MODULE) with this checkout's jax
  test [ARGS]          run the tests; ARGS go to pytest (tests/jit_test.py, -k NAME, -x, -n 0, ...)
  test --quick         run a selection of all files' tests, in three minutes
  test --aot [ARGS]    the tests that compile for TPUs and GPUs without having one
  test --devices=KIND [FILES]  files on the GPUs or TPUs here, each on its own (cuda, rocm, tpu)
  test --libraries [ARGS]  the programs that use published libraries (flax, numpyro, ...)
  bench [ARGS]         time this jax beside PyPI's, alternately (bench --help)
  bench --aot [ARGS]   the same, with benchmarks that compile for absent TPUs
  bench --libraries [ARGS]  the same, with benchmarks of published libraries
  bench --cpu [ARGS]   time programs on the CPU by this jax, PyPI's, PyTorch or NumPy (bench --cpu --help)
  torch                make the environment with PyTorch for bench --cpu, and print its Python
  environments         make those of all tests: .venv, .oracle, .aot and .libraries
  oracle               make the environment with PyPI's jax, and print its Python
  oracle --update [TABLES]  store what PyPI's jax answers to tests/*_cases.py that have changed
  oracle --aot ...     the same with the compilers for TPUs and GPUs, for tests/aot_*_scenarios.py
  oracle --libraries ...    the same with published libraries, for tests/libraries/ and harnesses_scenarios.py
  build --wheels=...   build wheels with Bazel (build --help)
  bazel ARGS           run Bazel: bazel test //tests:cpu_tests; --bazel_path=, --python_version= first
  affected [ARGS]      run the tests that a change can affect, by Bazel's graph (affected --help)
  matrix [CELLS]       list the versions of Python and jaxlib, or run tests with some (matrix --help)
  new KIND NAME        write the skeleton of a primitive, function or distribution, with its test
  release --version X  build all wheels and check what a release has to be; uploads nothing
  remote               make the environment of ci/remote.sh, and print its Python
  requirements_update  resolve the pinned requirements anew

The first call makes .venv (and .oracle, .aot, .libraries, .torch or .remote where a command needs it) from
build/requirements; later calls find them ready. Needs Python 3.11 or newer, and nothing besides it.
"""


def main(arguments: list[str]) -> int:
    """Runs a command; returns its exit status, or 2 for wrong usage, 1 for environment problems."""
    if arguments and arguments[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    # Turn a plain kill into an exception, which stops pip and removes incomplete folders like
    # Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if not arguments:
            raise UsageError("say which command")
        command, *rest = arguments
        if command not in COMMANDS:
            raise UsageError(f"there is no command {command!r}")
        return COMMANDS[command](rest)
    except UsageError as error:
        print(f"build.py: error: {error}\n\n{_usage_of(arguments[:1])}", file=sys.stderr, end="")
        return 2
    except SetupError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        say("stopped; the same command goes on from here")
        return 130


def run(arguments: list[str]) -> int:
    program = _program(arguments)
    python = prepare(project_environment(ROOT))
    sys.stdout.flush()
    os.execve(python, [str(python), *program], _variables())


def test(arguments: list[str]) -> int:
    aot, arguments = _without(arguments, "--aot")
    libraries, arguments = _without(arguments, "--libraries")
    if kind := next((a for a in arguments if a.startswith("--devices=")), None):
        return _test_on_devices(
            kind.removeprefix("--devices="), [a for a in arguments if a != kind]
        )
    python = prepare(project_environment(ROOT))
    variables = _variables(JAX_ORACLE_PYTHON=prepare(oracle_environment(ROOT)))
    command = [str(python), "-m", "pytest"]
    if libraries:
        variables = _with_packages(variables, libraries_environment(ROOT))
        if not any(".py" in argument for argument in arguments):
            command.append(str(ROOT / "tests" / "libraries"))
    if aot:
        variables = _with_packages(variables, aot_environment(ROOT))
        command += ["-m", "aot"]
        if not any(".py" in argument for argument in arguments):
            names = [*sorted((ROOT / "tests").glob("aot_*_test.py")), ROOT / "tests/docs_test.py"]
            command += map(str, names)
    if not _chooses_workers(arguments):
        command += ["-n", "2", "--dist", "loadfile"]
    start = time.monotonic()
    status = call([*command, *map(_from_here, arguments)], variables, ROOT)
    outcome = "passed" if status == 0 else f"failed (exit status {status})"
    say(f"tests {outcome} in {time.monotonic() - start:.0f} s")
    return status


def _usage_of(command: list[str]) -> str:
    """What is said of a command, and how one learns of the others; of all for one that there is not."""
    first, *lines = USAGE.splitlines(keepends=True)
    own = [line for line in lines if line.startswith("  ") and line.split()[:1] == command]
    others = "\npython3 build/build.py --help lists the other commands\n"
    return "".join([first, "\n", *own, others]) if own else USAGE


def _test_on_devices(kind: str, arguments: list[str]) -> int:
    if kind not in ("cuda", "rocm", "tpu"):
        raise UsageError(f"test: --devices={kind}: it is one of cuda, rocm and tpu")
    python = prepare(project_environment(ROOT))
    prepare(plugins_environment(ROOT))
    own = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}  # compiled as users' programs are
    paths = [_variables()["PYTHONPATH"], str(packages(plugins_environment(ROOT)))]
    variables = _variables(PYTHONPATH=os.pathsep.join(paths)) | own
    program = [str(python), str(ROOT / "ci" / "run_on_devices.py"), kind]
    return call([*program, *arguments], variables, os.getcwd())


def bench(arguments: list[str]) -> int:
    cpu, arguments = _without(arguments, "--cpu")
    aot, arguments = _without(arguments, "--aot")
    libraries, arguments = _without(arguments, "--libraries")
    python = prepare(project_environment(ROOT))
    variables = _variables(JAX_ORACLE_PYTHON=prepare(oracle_environment(ROOT)))
    if aot:
        prepare(aot_environment(ROOT))
        variables |= {"JAX_AOT_PACKAGES": str(packages(aot_environment(ROOT)))}
        variables |= {"JAX_PLATFORMS": "cpu"}
    if libraries:
        prepare(libraries_environment(ROOT))
        variables |= {"JAX_LIBRARIES_PACKAGES": str(packages(libraries_environment(ROOT)))}
    program = ROOT / "benchmarks" / ("cpu_speed.py" if cpu else "run.py")
    return call([str(python), str(program), *arguments], variables, os.getcwd())


def oracle(arguments: list[str]) -> int:
    aot, arguments = _without(arguments, "--aot")
    libraries, arguments = _without(arguments, "--libraries")
    if arguments and arguments[0] not in ("--update", "--verify", "--check"):
        raise UsageError(f"oracle takes --update, --verify or --check, got {arguments[0]}")
    python = prepare(oracle_environment(ROOT))
    if not arguments:
        print(python)
        return 0
    program = [str(python), str(ROOT / "tests" / "oracle_results.py")]
    variables = dict(os.environ)
    if aot:
        variables = _with_packages(variables, aot_environment(ROOT))
    if libraries:
        variables = _with_packages(variables, libraries_environment(ROOT))
    return call([*program, *arguments], variables, ROOT)


def remote(arguments: list[str]) -> int:
    if arguments:
        raise UsageError(f"remote takes no arguments, got {arguments[0]}")
    print(prepare(remote_environment(ROOT)))
    return 0


def torch(arguments: list[str]) -> int:
    if arguments:
        raise UsageError(f"torch takes no arguments, got {arguments[0]}")
    print(prepare(torch_environment(ROOT)))
    return 0


def environments(arguments: list[str]) -> int:
    if arguments:
        raise UsageError(f"environments takes no arguments, got {arguments[0]}")
    makers = project_environment, oracle_environment, aot_environment, libraries_environment
    for environment in [make(ROOT) for make in makers]:
        if environment.lock_file.exists():  # some have packages for Python 3.11 only
            prepare(environment)
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "run": run,
    "test": test,
    "bench": bench,
    "oracle": oracle,
    "build": build,
    "bazel": bazel,
    "affected": affected,
    "matrix": matrix,
    "new": new,
    "release": release,
    "remote": remote,
    "torch": torch,
    "environments": environments,
    "requirements_update": requirements_update,
}


def _program(arguments: list[str]) -> list[str]:
    if not arguments:
        raise UsageError("run: say which program")
    name, *rest = arguments
    if name == "-m":
        if not rest:
            raise UsageError("run -m: say which module")
        return arguments
    if name.startswith("-"):
        raise UsageError(f"run: the program comes before its flags, got {name}")
    for folder in (Path.cwd(), ROOT):
        path = folder / name
        if path.is_file():
            return [str(path), *rest]
        if path.is_dir():
            raise UsageError(f"run: {name} is a folder, not a program")
    raise UsageError(f"run: there is no program {name}")


def _variables(**more: object) -> dict[str, str]:
    # Python must write bytecode, or every process would compile jax again.
    unwanted = ("PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
    variables = {key: value for key, value in os.environ.items() if key not in unwanted}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return variables | {"PYTHONPATH": os.pathsep.join(paths)} | {k: str(v) for k, v in more.items()}


def _with_packages(variables: dict[str, str], environment: Environment) -> dict[str, str]:
    """The variables with the packages of `environment` on Python's path, for the CPU."""
    prepare(environment)
    paths = [*filter(None, [variables.get("PYTHONPATH")]), str(packages(environment))]
    # The devices that compilers are for are absent, which is no reason for warnings.
    platforms = variables.get("JAX_PLATFORMS", "cpu")
    return variables | {"PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": platforms}


def _without(arguments: list[str], flag: str) -> tuple[bool, list[str]]:
    return flag in arguments, [a for a in arguments if a != flag]


def _chooses_workers(arguments: list[str]) -> bool:
    return any(
        argument.startswith(("-n", "--numprocesses", "--dist", "--pdb", "--trace"))
        or argument == "no:xdist"
        for argument in arguments
    )


def _from_here(argument: str) -> str:
    """Makes a path relative to the current folder absolute, since pytest runs in the checkout."""
    path = argument.split("::")[0]
    if argument.startswith("-") or not path or not os.path.exists(path):
        return argument
    return os.path.abspath(path) + argument[len(path) :]
