"""The command of build.py that runs the tests with other versions of Python and jaxlib, with the extension or without.

A cell is a Python, a jaxlib (the oldest and the newest that this package takes), a machine, and whether the extension is
there. Its packages are pinned: those of the newest jaxlib by the lock files of the project, those of the oldest by
`matrix-oldest-*.txt`. A cell of another machine than this one is installed into a folder, and its machine code looked at.
"""

import dataclasses
import itertools
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import interpreters
from bazel_commands import Parser, build
from environment import LOCKS, SetupError, UsageError, say
from processes import call

ROOT = Path(__file__).absolute().parent.parent
FOLDER = ROOT / ".matrix"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
# Of every part of the package a little, in a minute.
SMOKE = ("array_protocol", "core", "export", "grad", "jit", "shard_map_programs", "tree_util", "vmap", "xla_bridge")  # fmt: skip
NATIVE = ("kernels",)
# The first bytes of an ELF file, and where it says which machine it is for.
ELF, MACHINE_AT, ELF_MACHINES = b"\x7fELF", 18, {62: "x86_64", 183: "aarch64"}


@dataclasses.dataclass(frozen=True)
class Cell:
    python: str
    jaxlib: str  # "oldest" or "newest"
    machine: str
    extension: bool

    @property
    def name(self) -> str:
        parts = [self.python, self.jaxlib, *(["extension"] if self.extension else [])]
        return "-".join([*parts, *([] if self.machine == platform.machine() else [self.machine])])

    @property
    def lock(self) -> Path:
        """The file that pins its packages."""
        own = ROOT / LOCKS / f"matrix-{self.jaxlib}-{self.python}.txt"
        return own if own.exists() else ROOT / LOCKS / f"lock-{self.python}.txt"

    @property
    def jaxlib_version(self) -> str:
        return re.search(r"^jaxlib==(\S+)", self.lock.read_text(), re.M)[1]

    @property
    def is_here(self) -> bool:
        return self.machine == platform.machine()


def cells() -> list[Cell]:
    """All of them; where the oldest jaxlib is the newest, there is one for both, the newest."""
    found = []
    for python, jaxlib, machine, extension in itertools.product(
        PYTHONS, ("newest", "oldest"), MACHINES, (False, True)
    ):
        cell = Cell(python, jaxlib, machine, extension)
        newest = dataclasses.replace(cell, jaxlib="newest")
        if jaxlib == "newest" or cell.lock != newest.lock:
            found.append(cell)
    return found


def matrix(arguments: list[str]) -> int:
    """Lists the cells, or runs tests in some. What follows `--` goes to pytest."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = Parser(prog="build.py matrix", description=matrix.__doc__)
    parser.add_argument("cells", nargs="*", help="names of cells, or `all`; none lists them")
    parser.add_argument(
        "--full", action="store_true", help="the whole suite, not a selection of it"
    )
    parser.add_argument(
        "--wheels", type=Path, metavar="FOLDER",
        help="where wheels of the extension are; by default they are built, with Bazel",
    )  # fmt: skip
    options = parser.parse_intermixed_args(arguments[:split])
    known = {cell.name: cell for cell in cells()}
    if unknown := [name for name in options.cells if name not in {*known, "all"}]:
        raise UsageError(f"matrix: there is no cell {unknown[0]}; build.py matrix lists them")
    if not options.cells:
        print_cells(known.values())
        return 0
    chosen = known if "all" in options.cells else options.cells
    check_wheels([known[name] for name in chosen], options.wheels)
    results = {}
    for name in chosen:
        start = time.monotonic()
        try:
            outcome = run_cell(known[name], options, arguments[split + 1 :])
        except SetupError as error:
            say(f"{name}: {error}")
            outcome = "cannot be made"
        results[name] = f"{outcome} in {time.monotonic() - start:.0f} s"
    print("\n".join(f"{name:32} {result}" for name, result in results.items()))
    return int(any(not r.startswith(("passed", "installed")) for r in results.values()))


def print_cells(listed) -> None:
    print(f"{'cell':32} {'jaxlib':8} interpreter")
    for cell in listed:
        if cell.is_here:
            place = interpreters.find(cell.python) or "none here: uv fetches one, if it can"
        else:
            place = "of another machine: installed and looked at, not run"
        print(f"{cell.name:32} {cell.jaxlib_version:8} {place}")


def run_cell(cell: Cell, options, more: list[str]) -> str:
    uv = interpreters.pinned_uv()
    wheel = extension_wheel(cell, options.wheels) if cell.extension else None
    if not cell.is_here:
        return install_elsewhere(cell, uv, wheel)
    python = make(cell, uv, wheel)
    status = call(test_command(cell, python, options.full, more), variables(python), ROOT)
    return "passed" if status == 0 else f"failed (exit status {status})"


def make(cell: Cell, uv: Path, wheel: Path | None) -> Path:
    """Makes the environment of a cell; files are shared with uv's cache, so another one takes little space."""
    folder = FOLDER / cell.name
    interpreter = interpreters.get(cell.python, uv)
    interpreters.run([str(uv), "venv", "--quiet", "--clear", "--python", interpreter, str(folder)])
    python = folder / "bin" / "python"
    install = [str(uv), "pip", "install", "--quiet", "--python", str(python)]
    interpreters.run([*install, *PINNED, "-r", str(cell.lock)])
    if wheel:
        interpreters.run([*install, "--no-deps", str(wheel)])
    return python


PINNED = ("--require-hashes", "--no-deps", "--only-binary=:all:")


def install_elsewhere(cell: Cell, uv: Path, wheel: Path | None) -> str:
    """Installs what the package needs on another machine, and checks that all machine code is for it."""
    folder = FOLDER / cell.name
    shutil.rmtree(folder, ignore_errors=True)
    needed = FOLDER / f"{cell.name}.txt"
    FOLDER.mkdir(exist_ok=True)
    needed.write_text(pins(cell.lock, ("jaxlib", "ml-dtypes", "numpy", "opt-einsum", "scipy")))
    target = [
        "--python-version",
        cell.python,
        "--python-platform",
        f"{cell.machine}-manylinux_2_28",
    ]
    install = [str(uv), "pip", "install", "--quiet", "--target", str(folder), *target]
    interpreters.run([*install, *PINNED, "-r", str(needed)])
    if wheel:
        interpreters.run([*install, "--no-deps", str(wheel)])
    wrong = [path for path, machine in machine_code(folder) if machine != cell.machine]
    found = sum(1 for _ in machine_code(folder))
    shutil.rmtree(folder)
    needed.unlink()
    if wrong or not found:
        raise SetupError(f"not for {cell.machine}: {', '.join(map(str, wrong[:3])) or 'nothing'}")
    return f"installed, {found} libraries for {cell.machine},"


def pins(lock: Path, names: tuple[str, ...]) -> str:
    """The lines of a lock file for some packages, with their hashes."""
    return pins_of(lock.read_text(), names)


def pins_of(text: str, names: tuple[str, ...]) -> str:
    blocks = re.findall(r"^[\w.-]+==.*(?:\n    .*)*\n", text, re.M)
    return "".join(block for block in blocks if block.split("==")[0] in names)


def machine_code(folder: Path) -> Iterator[tuple[Path, str]]:
    """The ELF files under a folder, and the machines that they are for."""
    for path in folder.rglob("*"):
        if path.is_file() and (path.suffix == ".so" or ".so." in path.name):
            with open(path, "rb") as file:
                head = file.read(MACHINE_AT + 2)
            if head.startswith(ELF):
                number = int.from_bytes(head[MACHINE_AT:], "little")
                yield path.relative_to(folder), ELF_MACHINES.get(number, f"machine {number}")


def check_wheels(chosen: list[Cell], folder: Path | None) -> None:
    """Raises SetupError, before a cell runs, if `folder` is none or lacks a wheel that a cell takes."""
    if folder is None:
        return
    if not folder.is_dir():
        raise SetupError(f"matrix: --wheels={folder}: there is no such folder")
    wanted = {wheel_tags(cell): cell.name for cell in reversed(chosen) if cell.extension}
    if lacking := [name for tags, name in wanted.items() if not find_wheel(folder, *tags)]:
        raise SetupError(
            f"matrix: {folder} has no wheel of the extension for {', '.join(sorted(lacking))}; "
            "without --wheels it is built"
        )


def wheel_tags(cell: Cell) -> tuple[str, str]:
    """The Python and the machine of a cell's wheel. From 3.12 on it is one for all."""
    return "3.11" if cell.python == "3.11" else "3.12", cell.machine


def extension_wheel(cell: Cell, folder: Path | None) -> Path:
    """The wheel of the extension for a cell, built if no folder of wheels is given."""
    version, machine = wheel_tags(cell)
    if folder is None:
        folder = FOLDER / "wheels"
    if not (found := find_wheel(folder, version, machine)):
        settings = ["--wheels=jaxlib-ext", f"--output_path={folder}", f"--python_version={version}"]
        if build([*settings, f"--config={machine}"]):
            raise SetupError("the extension cannot be built (see above)")
        found = find_wheel(folder, version, machine)
    return found


def find_wheel(folder: Path, version: str, machine: str) -> Path | None:
    tag = "cp" + version.replace(".", "")
    return next(iter(sorted(folder.glob(f"jaxlib_ext-*-{tag}-*_{machine}.whl"))), None)


def test_command(cell: Cell, python: Path, full: bool, more: list[str]) -> list[str]:
    command = [str(python), "-m", "pytest", "-n", "2", "--dist", "loadfile", "-q"]
    if full:
        names = []
    else:
        names = [f"tests/{n}_test.py" for n in (*SMOKE, *(NATIVE if cell.extension else ()))]
    if cell.extension:
        command += ["-p", "require_kernels"]
    return [*command, *names, *more]


def variables(python: Path) -> dict[str, str]:
    unwanted = ("PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")
    kept = {key: value for key, value in os.environ.items() if key not in unwanted}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return kept | {
        "PYTHONPATH": paths,
        "JAX_PLATFORMS": "cpu",
        "PATH": f"{python.parent}{os.pathsep}{kept.get('PATH', '')}",
    }


if __name__ == "__main__":
    sys.exit(matrix(sys.argv[1:]))
