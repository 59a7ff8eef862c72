"""Virtual environments made from hash-pinned lock files, checked on every use.

An environment is built in a temporary folder and moved into place when it is complete, so that an
interrupted build leaves no environment that looks finished. A stamp in the folder (`STAMP`) records
the lock file and the Python that it was made from.
"""

import contextlib
import csv
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

STAMP = "jax-environment.json"
LOCKS = "build/requirements"
GIGABYTE = 1 << 30
_PIP_PACKAGE = r"(?:Collecting|Processing|Requirement already satisfied:) (?:\S*/)?([A-Za-z0-9_.]+)"


class SetupError(Exception):
    """Raised for problems outside this program; the message says what to do."""


class UsageError(Exception):
    """Raised if the command line is wrong."""


@dataclasses.dataclass(frozen=True)
class Environment:
    """A virtual environment of the checkout `root`.

    Attributes:
      root: the checkout.
      name: its folder under `root`.
      lock_prefix: its lock files are `build/requirements/<lock_prefix>-<Python version>.txt`.
      gigabytes: the disk space needed to make it.
    """

    root: Path
    name: str
    lock_prefix: str
    gigabytes: float

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def lock_file(self) -> Path:
        return self.root / LOCKS / f"{self.lock_prefix}-{python_version()}.txt"


def project_environment(root: Path) -> Environment:
    return Environment(root, ".venv", "lock", gigabytes=1.5)


def oracle_environment(root: Path) -> Environment:
    return Environment(root, ".oracle", "oracle", gigabytes=1.0)


def aot_environment(root: Path) -> Environment:
    """The vendors' compilers, whose packages are added to the paths of other environments."""
    return Environment(root, ".aot", "aot", gigabytes=4.0)


def plugins_environment(root: Path) -> Environment:
    """The vendors' libraries for devices, whose packages are added to the paths of other environments."""
    return Environment(root, ".plugins", "plugins", gigabytes=8.0)


def libraries_environment(root: Path) -> Environment:
    """Published libraries without a jax, whose packages are added to the paths of other environments."""
    return Environment(root, ".libraries", "libraries", gigabytes=2.0)


def torch_environment(root: Path) -> Environment:
    """PyTorch, SciPy and Numba, which `bench --cpu` runs beside jax."""
    return Environment(root, ".torch", "torch", gigabytes=8.0)


def remote_environment(root: Path) -> Environment:
    """The server of remote execution, with what our worker and its tests need (ci/remote)."""
    return Environment(root, ".remote", "remote", gigabytes=0.6)


def release_environment(root: Path) -> Environment:
    """What checks the files of a release (build/release_checks.py)."""
    return Environment(root, ".release", "release", gigabytes=0.3)


def packages(environment: Environment) -> Path:
    """The folder where the packages of an environment are."""
    return environment.folder / "lib" / f"python{python_version()}" / "site-packages"


def prepare(environment: Environment) -> Path:
    """Makes sure that `environment` exists, is complete and up to date; returns its Python.

    Raises:
      SetupError: if this is not possible.
    """
    wanted = _wanted_stamp(environment)
    if problem(environment, wanted) is None:
        return environment.python
    try:
        lock = environment.root / f"{environment.name}.lock"
        with locked(lock, f"making {environment.name}"):
            _remove_leftovers(environment)
            trouble = problem(environment, wanted)
            if trouble is None:
                return environment.python
            if _made_by_hand(environment):
                _adopt(environment, wanted)
            else:
                say(f"{environment.name}: {trouble}")
                _make(environment, wanted)
            trouble = problem(environment, wanted)
    except OSError as error:
        raise SetupError(_explain_os_error(error, environment)) from error
    if trouble is not None:
        raise SetupError(
            f"{environment.folder} was just made and yet {trouble}.\n"
            "  Is the disk sound, and does another program change files there?"
        )
    return environment.python


def problem(environment: Environment, wanted: dict | None = None) -> str | None:
    """Returns why `environment` cannot be used, or None if it can."""
    wanted = _wanted_stamp(environment) if wanted is None else wanted
    if not environment.folder.is_dir():
        return "not there yet"
    try:
        stamp = json.loads((environment.folder / STAMP).read_text())
    except FileNotFoundError:
        return "has no stamp"
    except (OSError, ValueError):
        return "its stamp cannot be read"
    if not isinstance(stamp, dict):
        return "its stamp cannot be read"
    for key, name in (("python", "Python"), ("lock", "lock file"), ("folder", "place")):
        if stamp.get(key) != wanted[key]:
            return f"made for another {name}"
    if not os.access(environment.python, os.X_OK):
        return f"damaged: {environment.name}/bin/python cannot be run"
    damaged = damaged_file(environment)
    return None if damaged is None else f"damaged: {damaged}"


def damaged_file(environment: Environment) -> str | None:
    """Returns the first installed file that is missing or has the wrong size, or None."""
    folder = packages(environment)
    records = sorted(folder.glob("*.dist-info/RECORD"))
    if not records:
        return f"{environment.name} has no packages"
    prefix = f"{folder}/"
    lstat = os.lstat
    changed = {}  # by path, its size
    for record in records:
        try:
            with open(record, newline="") as file:
                for path, _, size in csv.reader(file):
                    # Skip scripts, which pip rewrites, and bytecode, which Python rewrites.
                    if path.startswith("..") or path.endswith((".pyc", "/direct_url.json")):
                        continue
                    if size and (found := lstat(prefix + path).st_size) != int(size):
                        changed[path] = found
        except FileNotFoundError as error:
            return f"{os.path.relpath(error.filename, folder)} is missing"
        except (OSError, ValueError) as error:
            return f"{record.relative_to(folder)} cannot be read ({error})"
    for path, found in changed.items():
        # Several packages may bring the same file (docs/conf.py); the last one's is there.
        listed = re.compile(rf"^{re.escape(path)},[^,]*,{found}$", re.MULTILINE)
        if not any(listed.search(record.read_text()) for record in records):
            return f"{path} has changed its size"
    missing = _lock_names(environment.lock_file) - {
        _canonical(r.parent.name.split("-")[0]) for r in records
    }
    return f"{min(missing)} is missing" if missing else None


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def say(message: str) -> None:
    print(f"build.py: {message}", file=sys.stderr, flush=True)


def _wanted_stamp(environment: Environment) -> dict:
    try:
        lock = environment.lock_file.read_bytes()
    except FileNotFoundError:
        folder = environment.lock_file.parent
        pattern = f"{environment.lock_prefix}-3.*.txt"
        known = sorted((path.stem.split("-")[1] for path in folder.glob(pattern)), key=_version_key)
        if not known:
            raise SetupError(
                f"{environment.lock_file} is missing: is this a whole checkout?"
            ) from None
        raise SetupError(
            f"there is no {environment.lock_file.name} in {LOCKS}: this is Python {python_version()}, and the "
            f"pinned packages are for {', '.join(known)}.\n  Run build.py with one of those."
        ) from None
    return {
        "python": f"{sys.implementation.name} {python_version()}",
        "lock": hashlib.sha256(lock).hexdigest(),
        "folder": str(environment.folder),
    }


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _lock_names(lock_file: Path) -> set[str]:
    return {_canonical(name) for name in re.findall(r"^([\w.-]+)==", lock_file.read_text(), re.M)}


@contextlib.contextmanager
def locked(path: Path, work: str) -> Iterator[None]:
    """Takes a lock against concurrent changes, which the system releases even after a crash."""
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build.py that is {work}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_leftovers(environment: Environment) -> None:
    for kind in ("partial", "old"):
        for folder in environment.root.glob(f"{environment.name}.{kind}-*"):
            shutil.rmtree(folder, ignore_errors=True)


def _made_by_hand(environment: Environment) -> bool:
    return environment.folder.is_dir() and not (environment.folder / STAMP).exists()


def _make(environment: Environment, wanted: dict) -> None:
    _check_space(environment)
    partial = environment.root / f"{environment.name}.partial-{os.getpid()}"
    say(
        f"making {environment.name} from {environment.lock_file.relative_to(environment.root)} "
        f"(Python {python_version()}, {len(_lock_names(environment.lock_file))} packages)"
    )
    start = time.monotonic()
    try:
        _make_venv(partial)
        _install(environment, partial)
        _compile(environment, partial)
        _rename_in_scripts(partial, environment.folder)
        (partial / STAMP).write_text(json.dumps(wanted))
        if environment.folder.exists():
            old = environment.root / f"{environment.name}.old-{os.getpid()}"
            environment.folder.rename(old)
            partial.rename(environment.folder)
            shutil.rmtree(old, ignore_errors=True)
        else:
            partial.rename(environment.folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    say(f"{environment.name} made in {time.monotonic() - start:.0f} s")


def _adopt(environment: Environment, wanted: dict) -> None:
    """Installs the pinned versions into an environment made by hand, keeping other packages."""
    probe = "import sys, pip; print(sys.implementation.name, '%d.%d' % sys.version_info[:2])"
    try:
        result = subprocess.run(
            [environment.python, "-I", "-c", probe], capture_output=True, text=True, check=False
        )
        found = result.stdout.strip() or (result.stderr.strip().splitlines() or ["it fails"])[-1]
    except OSError as error:
        found = str(error)
    if found != wanted["python"]:
        raise SetupError(
            f"{environment.folder} was not made by build.py and cannot be used: its Python should be "
            f"{wanted['python']} with pip, and says: {found}\n"
            f"  Delete that folder, or move it away, and run this again."
        )
    _check_space(environment)
    say(f"{environment.name} was not made by build.py: bringing it to the pinned versions")
    _install(environment, environment.folder)
    _compile(environment, environment.folder)
    damaged = damaged_file(environment)
    if damaged is not None:
        raise SetupError(
            f"{environment.folder} was not made by build.py and is damaged: {damaged}.\n"
            "  Delete that folder, or move it away, and run this again."
        )
    (environment.folder / STAMP).write_text(json.dumps(wanted))


def _check_space(environment: Environment) -> None:
    for folder in (environment.root, Path(tempfile.gettempdir())):
        free = shutil.disk_usage(folder).free
        needed = environment.gigabytes if folder == environment.root else environment.gigabytes / 3
        if free < needed * GIGABYTE:
            raise SetupError(
                f"the disk is too full to make {environment.name}: {folder} has {free / GIGABYTE:.1f} GB "
                f"left and this takes {needed:.1f} GB.\n  Free some space and run this again."
            )


def _make_venv(folder: Path) -> None:
    try:
        import ensurepip  # noqa: F401 (Debian takes this one out of the standard library)
    except ImportError:
        raise SetupError(
            f"{sys.executable} has no ensurepip, which making an environment needs.\n"
            f"  Debian and Ubuntu: apt-get install python{python_version()}-venv"
        ) from None
    command = [sys.executable, "-I", "-m", "venv", "--prompt", "jax", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        output = result.stdout + result.stderr
        raise SetupError(_explain_failure("python -m venv", output))


def _install(environment: Environment, folder: Path) -> None:
    command = [
        *(str(folder / "bin" / "python"), "-I", "-m", "pip", "install"),
        *("--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile"),
        *("--disable-pip-version-check", "--no-input", "--progress-bar=off", "--retries=3"),
        *("-r", str(environment.lock_file)),
    ]
    # The user's own pip settings must not change where packages are installed.
    elsewhere = {"PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON"}
    variables = {key: value for key, value in os.environ.items() if key not in elsewhere}
    total = len(_lock_names(environment.lock_file))
    done, output = 0, []
    with (
        _Progress() as progress,
        subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as pip,
    ):
        try:
            for line in pip.stdout:
                output.append(line)
                if match := re.match(_PIP_PACKAGE, line):
                    done += 1
                    progress.show(f"{done}/{total} {match[1]}")
                elif line.startswith("Installing"):
                    progress.show("unpacking the packages")
        except BaseException:
            pip.kill()
            raise
    if pip.returncode:
        raise SetupError(_explain_failure("pip install", "".join(output)))


def _compile(environment: Environment, folder: Path) -> None:
    """Writes bytecode, on all cores, so that the first import is fast even in read-only folders."""
    say("  compiling the packages")
    packages = folder / "lib" / f"python{python_version()}" / "site-packages"
    command = [
        *(str(folder / "bin" / "python"), "-I", "-m", "compileall", "-q", "-j", "0"),
        *("-s", str(folder), "-p", str(environment.folder), str(packages)),
    ]
    # Ignore status 1: a package may have a file that this Python cannot parse.
    result = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    if result.stderr:
        raise SetupError(_explain_failure("python -m compileall", result.stderr))


class _Progress:
    """Shows progress in one changing line on a terminal; elsewhere as a line every ten seconds."""

    def __init__(self):
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + 10

    def __enter__(self):
        return self

    def show(self, text: str) -> None:
        if self._terminal:
            print(f"\r\033[Kbuild.py:   {text}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + 10
            say(f"  {text}")

    def __exit__(self, *_):
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _rename_in_scripts(partial: Path, final: Path) -> None:
    old, new = os.fsencode(partial), os.fsencode(final)
    for path in (partial / "pyvenv.cfg", *(partial / "bin").iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        # ELF programs in wheels (ruff) do not contain the path, and must not be changed.
        if old in content and not content.startswith(b"\x7fELF"):
            path.write_bytes(content.replace(old, new))


def _explain_failure(step: str, output: str) -> str:
    known = (
        (
            r"No space left on device|Disk quota exceeded",
            "the disk is full. Free some space and run this again.",
        ),
        (
            r"DO NOT MATCH THE HASHES",
            "a downloaded package is not the one that is pinned. If a proxy or mirror stands between this machine "
            "and PyPI, it changed the file; otherwise clear pip's cache (python3 -m pip cache purge).",
        ),
        (
            r"Failed to establish a new connection|NameResolutionError|Temporary failure in name resolution"
            r"|Network is unreachable|ProxyError|ConnectTimeout|Read timed out|Connection refused|SSLError"
            r"|Connection (aborted|reset)|ConnectionError|Max retries exceeded",
            "PyPI cannot be reached. Check the network (and pip's proxy or index settings) and run this again: "
            "what was downloaded so far is kept in pip's cache.",
        ),
        (
            r"No matching distribution found",
            f"a pinned package has no build for this machine ({sys.platform}, Python {python_version()}).",
        ),
        (r"Permission denied|Read-only file system", "a file or folder cannot be written."),
    )
    lines = [
        line
        for line in output.strip().splitlines()
        if not line.startswith(("WARNING: Location", "[notice]"))
    ]
    tail = "\n".join(f"    {line}" for line in lines[-8:])
    for pattern, meaning in known:
        if re.search(pattern, output):
            return f"{meaning}\n  {step} said:\n{tail}"
    return f"{step} failed:\n{tail}"


def _explain_os_error(error: OSError, environment: Environment) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {environment.name} cannot be made. Free some space and run this again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.filename or environment.root} cannot be written: {error.strerror}."
    return f"{environment.name} cannot be made: {error}"
