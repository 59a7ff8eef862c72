"""Python interpreters of a wanted version: those of this machine, and those that the pinned uv can fetch."""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from environment import LOCKS, SetupError, python_version, say

ROOT = Path(__file__).absolute().parent.parent
PROBE = (
    "import os, sys; print('%d.%d' % sys.version_info[:2], os.path.realpath(sys._base_executable))"
)


@functools.cache
def find(version: str) -> str | None:
    """The path of an interpreter of a version, as "3.12", or None: this one, then those on PATH, of pyenv and of uv."""
    if version == python_version():
        return os.path.realpath(sys._base_executable)
    for candidate in _candidates(version):
        try:
            done = subprocess.run(
                [candidate, "-I", "-c", PROBE], capture_output=True, text=True, check=False
            )
        except OSError:
            continue
        # a shim (pyenv's, say) of another version is there and fails
        found, _, path = done.stdout.strip().partition(" ")
        if done.returncode == 0 and found == version:
            return path
    return None


def _candidates(version: str) -> Iterator[str]:
    for folder in filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep)):
        if file := shutil.which(f"python{version}", path=folder):
            yield file
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions", _uv_folder()]
    for root in roots:
        folders = [
            p for p in root.glob("*") if re.search(rf"(^|-){re.escape(version)}\.\d+", p.name)
        ]
        for folder in sorted(folders, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)]):
            yield str(folder / "bin" / f"python{version}")


def _uv_folder() -> Path:
    data = os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")
    return Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path(data) / "uv" / "python"))


def get(version: str, uv: Path) -> str:
    """Finds an interpreter, or has uv fetch it, which knows the digests of those that it knows.

    Raises:
      SetupError: if there is none.
    """
    if found := find(version):
        return found
    say(f"fetching Python {version}")
    done = subprocess.run(
        [uv, "python", "install", "--no-bin", version], capture_output=True, text=True, check=False
    )
    find.cache_clear()
    if done.returncode == 0 and (found := find(version)):
        return found
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    raise SetupError(
        f"there is no python{version} on PATH nor among pyenv's, and uv cannot fetch one:\n"
        + "\n".join(f"    {line}" for line in lines[-4:])
    )


def pinned_uv() -> Path:
    """The uv of build/requirements/uv.txt, in an environment of its own."""
    lock = ROOT / LOCKS / "uv.txt"
    version = re.match(r"uv==(\S+)", lock.read_text())[1]
    folder = ROOT / ".matrix" / f"uv-{version}-{python_version()}"
    if not (folder / "bin" / "uv").exists():
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as partial:
            run([sys.executable, "-m", "venv", partial])
            pip = [f"{partial}/bin/python", "-m", "pip", "install", "--quiet"]
            run([*pip, "--require-hashes", "--disable-pip-version-check", "-r", str(lock)])
            made = folder.with_suffix(".partial")
            shutil.rmtree(made, ignore_errors=True)
            shutil.copytree(partial, made, symlinks=True)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    return folder / "bin" / "uv"


def run(command: list[str], variables: dict[str, str] | None = None) -> str:
    """What a program prints; SetupError with its last lines if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()[-12:]
        shown = " ".join(Path(part).name for part in command[:4])
        how = f"failed with exit status {done.returncode}"  # negative: ended by a signal, with no lines
        raise SetupError("\n".join([f"{shown} ... {how}", *(f"    {line}" for line in lines)]))
    return done.stdout
