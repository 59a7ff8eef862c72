"""The command of build.py that makes the files of a release and checks them. It uploads nothing."""

import fnmatch
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import interpreters
import versions
from bazel_commands import WHEELS, Parser, output_of
from environment import SetupError, UsageError, prepare, release_environment, say
from matrix import PINNED, PYTHONS, pins
from processes import call

ROOT = Path(__file__).absolute().parent.parent
SMOKE = {"jax": "jax", "jaxlib-ext": "jaxlib_ext", "jax-cuda-plugin": "plugin", "jax-rocm-plugin": "plugin", "jax-tpu-plugin": "plugin"}  # fmt: skip
NEEDED = ("jaxlib", "ml-dtypes", "numpy", "opt-einsum", "scipy")
CHECKS = ("versions", "changelog", "tag", "reproducible", "files", "installs")
# What is built: wheels, Python, machine. From Python 3.12 on an extension is for all later ones. Packages
# are fetched for each Python, so builds for one follow each other.
BUILDS = (
    ("all", "3.11", "x86_64"),
    ("jaxlib-ext", "3.11", "aarch64"),
    ("jaxlib-ext", "3.12", "x86_64"),
    ("jaxlib-ext", "3.12", "aarch64"),
)
EXTENSION_TAGS = {"3.11": "cp311-cp311", "3.12": "cp312-abi3"}
Row = tuple[str, str, str | None, str]  # check, subject, what is wrong or None, remark


def release(arguments: list[str]) -> int:
    """Builds all wheels and the source archive of a version, and checks all that a release has to be."""
    parser = Parser(prog="build.py release", description=release.__doc__)
    parser.add_argument(
        "--version", required=True, help="0.10.2, or 0.10.2.dev20260131, or `nightly`: today's"
    )
    parser.add_argument("--output_path", type=Path, default=Path("dist"), help="default: dist")
    parser.add_argument(
        "--wheels", type=Path, metavar="FOLDER", help="take what was built already, from here"
    )
    parser.add_argument(
        "--python", action="append", help="install with these; default: all that are here"
    )
    parser.add_argument("--skip", action="append", default=[], choices=CHECKS)
    parser.add_argument("--bazel_options", action="append", default=[], help="of bazel build")
    options = parser.parse_args(arguments)
    version, root = options.version, ROOT
    if version == "nightly":
        version = versions.nightly(versions.project_version(ROOT), date.today())
    versions.check(version)
    for python in options.python or ():
        if python not in PYTHONS or not interpreters.find(python):
            raise UsageError(f"release: there is no python{python} here, of {', '.join(PYTHONS)}")
    with tempfile.TemporaryDirectory(prefix="jax-release-") as scratch:
        if version != versions.project_version(ROOT) and ".dev" in version:
            root = nightly_copy(Path(scratch) / "nightly", version)
        rows = list(run_checks(version, root, Path(scratch), options))
    print_table(rows)
    failed = sum(1 for row in rows if row[2])
    say(
        f"{version}: {f'{failed} checks failed' if failed else 'all checks passed'}; nothing was uploaded"
    )
    return int(bool(failed))


def nightly_copy(folder: Path, version: str) -> Path:
    """A copy of the last commit with another version."""
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    versions.rewrite(folder, version)
    return folder


def run_checks(version: str, root: Path, scratch: Path, options) -> Iterator[Row]:
    wanted = [name for name in CHECKS if name not in options.skip]
    if "versions" in wanted:
        (row,) = check_versions(root, version)
        yield row
        if row[2] and options.wheels is None:
            return  # what would be built is another version
    if "changelog" in wanted:
        yield check_changelog((root / "CHANGELOG.md").read_text(), version, tag_commit(version))
    if "tag" in wanted:
        yield check_tag(version)
    output = (options.wheels or options.output_path).absolute()
    if options.wheels is None:
        make(root, output, options.bazel_options, scratch / "first")
    elif not any(output.glob("*.whl")):
        raise SetupError(f"{output} has no wheels")
    files = release_files(output, version)
    if "reproducible" in wanted:
        again = scratch / "again"
        make(root, again, options.bazel_options, scratch / "second", of=files)
        yield from same_bytes(files, again)
    if "files" in wanted:
        yield check_complete(files)
        yield from check_files(output, version)
    if "installs" in wanted:
        yield from check_installs(files, version, scratch, options.python)


def release_files(folder: Path, version: str) -> list[Path]:
    found = sorted(p for p in folder.iterdir() if f"-{version}-" in p.name or p.name.endswith(f"-{version}.tar.gz"))  # fmt: skip
    if not found:
        raise SetupError(f"{folder} has nothing of version {version}")
    return found


# What stands in the sources


def check_versions(root: Path, version: str) -> Iterator[Row]:
    wrong = [f"{file} has {text}" for file, text in versions.found(root) if text != version]
    yield "versions", f"{len(versions.found(root))} places", "; ".join(wrong) or None, version


def check_changelog(text: str, version: str, tagged: str | None) -> Row:
    found = versions.change_heading(text, version)
    if found is None:
        return "changelog", "CHANGELOG.md", f"it has no heading ## {version}", ""
    heading, body = found
    entries = len(re.findall(r"^- ", body, re.M))
    problem = None
    if not entries:
        problem = f"there is nothing under ## {heading}"
    elif todo := re.findall(r"^- .*\bTODO\b.*$", body, re.M):
        problem = f"an entry is to be written: {todo[0]}"
    elif tagged and ".dev" not in version and not re.search(r"\d{4}-\d\d-\d\d", heading):
        problem = f"{version} has a tag, and its heading no date: ## {heading}"
    return "changelog", heading, problem, f"{entries} entries"


def tag_commit(version: str) -> str | None:
    done = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"refs/tags/jax-v{version}^{{commit}}"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or None


def check_tag(version: str) -> Row:
    """A tag, where there is one, is that of what is built, and what is built is committed."""
    name = f"jax-v{version}"
    tagged, head = tag_commit(version), output_of(["git", "rev-parse", "HEAD"]).strip()
    changed = output_of(["git", "status", "--porcelain", "--untracked-files=no"]).splitlines()
    if tagged and tagged != head:
        return "tag", name, f"it is {tagged[:9]}, and this is {head[:9]}", ""
    if tagged and changed:
        return "tag", name, f"files differ from it: {changed[0].strip()}", ""
    remark = "is this commit" if tagged else "not there yet"
    return "tag", name, None, remark + (", with changes" if changed else "")


# What is built


def make(
    root: Path, output: Path, settings: list[str], scratch: Path, of: list[Path] | None = None
) -> None:
    """Builds with Bazel; with `of` from nothing (no cache, another output folder), what these files come from."""
    options = [f"--bazel_options={option}" for option in settings]
    program = [sys.executable, str(root / "build" / "build.py")]
    if of is not None:
        options = [o for o in options if "cache" not in o]
        options.append(f"--bazel_startup_options=--output_base={scratch}")
    try:
        for wheels, python, machine in BUILDS if of is None else builds_of(of):
            command = [*program, "build", f"--wheels={wheels}", f"--output_path={output}"]
            command += [f"--python_version={python}", f"--config={machine}", *options]
            command += ["--sdist"] if {"all", "jax"} & set(wheels.split(",")) else []
            if call(command, folder=root):
                raise SetupError(
                    f"{wheels} cannot be built for Python {python} and {machine} (see above)"
                )
    finally:
        if scratch.exists():
            call([*program, "bazel", f"--output_base={scratch}", "shutdown"], folder=root)
            make_writable(scratch)


def check_complete(files: list[Path]) -> Row:
    """All that `BUILDS` make is there: pure wheels, the extension for each Python and machine, the source archive."""
    names = [path.name for path in files]
    pure = [f"{name.replace('-', '_')}-*-none-any.whl" for name in WHEELS if name != "jaxlib-ext"]
    native = [
        f"jaxlib_ext-*-{EXTENSION_TAGS[python]}-*_{machine}.whl" for _, python, machine in BUILDS
    ]
    wanted = [*pure, *native, "jax-*.tar.gz"]
    missing = [pattern for pattern in wanted if not fnmatch.filter(names, pattern)]
    problem = f"there is no {', no '.join(missing)}" if missing else None
    return "complete", f"{len(wanted)} files", problem, f"{len(names)} are there"


def builds_of(files: list[Path]) -> Iterator[tuple[str, str, str]]:
    """What of `BUILDS` some files come from."""
    for wheels, python, machine in BUILDS:
        tag = f"-cp{python.replace('.', '')}-"
        here = [p.name for p in files if p.name.endswith("-none-any.whl")]
        here += [p.name for p in files if tag in p.name and p.stem.endswith(machine)]
        stems = {name.partition("-")[0] for name in here}
        names = WHEELS if wheels == "all" else [wheels]
        if found := [name for name in names if name.replace("-", "_") in stems]:
            yield ",".join(found), python, machine


def make_writable(folder: Path) -> None:
    """Bazel's output is read-only, and so could not be deleted."""
    subprocess.run(["chmod", "-R", "u+w", str(folder)], check=False)


def same_bytes(files: list[Path], again: Path) -> Iterator[Row]:
    for path in files:
        other = again / path.name
        digests = [digest(p) if p.exists() else None for p in (path, other)]
        problem = None
        if digests[1] is None:
            problem = "the second build has no such file"
        elif digests[0] != digests[1]:
            problem = f"the second build has other bytes: {digests[0][:12]} and {digests[1][:12]}"
        yield "reproducible", path.name, problem, f"sha256 {digests[0][:16]}"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_files(folder: Path, version: str) -> list[Row]:
    """Metadata, platforms, licences and the bill of materials, by published programs in `.release`."""
    python = prepare(release_environment(ROOT))
    program = [str(python), str(ROOT / "build" / "release_checks.py"), str(folder)]
    output = interpreters.run([*program, "--version", version, "--sbom", str(folder / f"jax-{version}.cdx.json")])  # fmt: skip
    return [tuple(row) for row in json.loads(output.splitlines()[-1])]


# What is installed


def check_installs(
    files: list[Path], version: str, scratch: Path, pythons: list[str] | None
) -> Iterator[Row]:
    """Each wheel with each Python, in an environment that has nothing but what jax needs: smoke tests and the API."""
    uv = interpreters.pinned_uv()
    for python in pythons or [v for v in PYTHONS if interpreters.find(v)]:
        if not (interpreter := interpreters.find(python)):
            raise UsageError(f"release: there is no python{python} here")
        base = wheel_of("jax", python, files)
        for name, smoke in SMOKE.items():
            wheel = wheel_of(name, python, files)
            subject = f"{name} with Python {python}"
            if wheel is None or base is None:
                yield "installs", subject, "there is no wheel for it", ""
                continue
            folder = scratch / f"{name}-{python}"
            try:
                install(uv, interpreter, python, folder, dict.fromkeys([base, wheel]))
                if smoke != "plugin":  # whose vendors' libraries are left out
                    interpreters.run([str(uv), "pip", "check", "--quiet", "--python", str(folder)])
                yield "installs", subject, None, smoke_test(folder, smoke)
                if name == "jax":
                    yield "API", f"jax with Python {python}", *api(folder)
            except SetupError as error:
                yield "installs", subject, str(error), ""
            shutil.rmtree(folder, ignore_errors=True)


def wheel_of(name: str, python: str, files: list[Path]) -> Path | None:
    """The wheel of a distribution for a Python, on this machine."""
    stem = name.replace("-", "_")
    tag = EXTENSION_TAGS.get(python, EXTENSION_TAGS["3.12"])
    for path in files:
        if path.name.startswith(f"{stem}-") and path.suffix == ".whl":
            pure = path.name.endswith("-none-any.whl")
            if pure or (tag in path.name and path.stem.endswith("x86_64")):
                return path
    return None


def install(uv: Path, interpreter: str, python: str, folder: Path, wheels) -> None:
    interpreters.run([str(uv), "venv", "--quiet", "--python", interpreter, str(folder)])
    locks = (
        ROOT / "build" / "requirements" / f"{n}-{python}.txt" for n in ("lock", "matrix-newest")
    )
    lock = next(path for path in locks if path.exists())
    needed = folder / "needed.txt"
    needed.write_text(pins(lock, NEEDED))
    command = [str(uv), "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    interpreters.run([*command, *PINNED, "-r", str(needed)])
    # the vendors' libraries, which plugins need, are of no use without a device
    interpreters.run([*command, "--no-deps", *map(str, wheels)])


def smoke_test(folder: Path, smoke: str) -> str:
    program = ROOT / "build" / "wheels" / f"{smoke}_smoke.py"
    interpreters.run([str(folder / "bin" / "python"), "-I", str(program)])
    return program.name


def api(folder: Path) -> tuple[str | None, str]:
    check = [ROOT / "build" / "wheels" / name for name in ("api_check.py", "api_names.json")]
    done = subprocess.run(
        [folder / "bin" / "python", "-I", *check], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines() or done.stderr.splitlines()[-1:]
    return ("; ".join(line.strip() for line in lines[:4]) if done.returncode else None), lines[0]


def print_table(rows: list[Row]) -> None:
    """One table, a row for each thing that was checked."""
    cells = [("check", "of", "", "")]
    cells += [(check, subject, "failed" if problem else "ok", problem or remark) for check, subject, problem, remark in rows]  # fmt: skip
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    previous = None
    for row in cells:
        first = row[0] if row[0] != previous else ""
        previous = row[0]
        print("  ".join(t.ljust(w) for t, w in zip((first, *row[1:3]), widths)) + f"  {row[3]}")
