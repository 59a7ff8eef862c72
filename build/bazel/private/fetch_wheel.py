"""Downloads one wheel by its hash and unpacks it, for the repositories of pip.bzl.

    python fetch_wheel.py NAME==VERSION --hash=sha256:... --python-version 3.11 --machine x86_64
        [--platform TAG] [--known NAME ...]

Writes into the current folder: the wheel itself (`wheel/`), its files (`site-packages/`), and
`requirements.json` with its file name and its dependencies on the target among the `--known`
packages.
"""

import argparse
import email.parser
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path


def find_pip() -> str:
    """Returns the path of pip, which may be in the wheel of `ensurepip`; Python can import that."""
    try:
        import pip

        return str(Path(pip.__file__).parent)
    except ImportError:
        import ensurepip

        folders = [Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels")]
        wheels = [wheel for folder in folders for wheel in sorted(folder.glob("pip-*.whl"))]
        if not wheels:
            sys.exit(f"{sys.executable} has no pip (Debian: apt-get install python3-venv)")
        sys.path.insert(0, str(wheels[-1]))
        return str(wheels[-1] / "pip")


PIP = [sys.executable, find_pip()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("requirement")
    parser.add_argument("--hash", action="append", required=True)
    parser.add_argument("--python-version", required=True)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--platform", help="a platform tag instead of the machine's Linux")
    parser.add_argument("--known", action="append", default=[])
    arguments = parser.parse_args()
    wheel = download(arguments)
    names = unpack(wheel, Path("site-packages"))
    if arguments.python_version == "{}.{}".format(*sys.version_info):
        compile_all("site-packages")
    metadata = next(n for n in names if re.fullmatch(r"[^/]+\.dist-info/METADATA", n))
    needs = requirements(Path("site-packages", metadata), arguments)
    needs = sorted(
        set(needs) & set(arguments.known) - {canonical(arguments.requirement.split("==")[0])}
    )
    Path("requirements.json").write_text(json.dumps({"wheel": wheel.name, "needs": needs}))


def download(arguments: argparse.Namespace) -> Path:
    folder = Path("wheel")
    folder.mkdir()
    lines = [arguments.requirement, *(f"--hash={h}" for h in arguments.hash)]
    Path("requirement.txt").write_text(" ".join(lines) + "\n")
    short = arguments.python_version.replace(".", "")
    machine = arguments.machine
    platforms = [f"manylinux_2_{n}_{machine}" for n in range(28, 4, -1)]
    platforms += [
        f"{name}_{machine}" for name in ("manylinux2014", "manylinux2010", "manylinux1", "linux")
    ]
    # Last, since workers may have an older glibc; libtpu has no other wheel.
    platforms += [f"manylinux_2_{n}_{machine}" for n in range(29, 40)]
    platforms = [arguments.platform] if arguments.platform else platforms
    command = [*PIP, "download", "--no-deps", "--only-binary=:all:"]
    command += ["--require-hashes", "-r", "requirement.txt", "-d", str(folder), "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    command += ["--implementation", "cp", "--python-version", arguments.python_version]
    command += [x for abi in (f"cp{short}", "abi3", "none") for x in ("--abi", abi)]
    command += [x for name in [*platforms, "any"] for x in ("--platform", name)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(
            f"{arguments.requirement} cannot be fetched from the package index with "
            f"{sys.executable} -m pip:\n{result.stdout}{result.stderr}"
        )
    (wheel,) = folder.iterdir()
    return wheel


def unpack(wheel: Path, folder: Path) -> list[str]:
    """Unpacks the files for site-packages, including those in the wheel's `.data` folder."""
    with zipfile.ZipFile(wheel) as file:
        for info in file.infolist():
            name = re.sub(r"^[^/]+\.data/(purelib|platlib)/", "", info.filename)
            target = folder / name
            if info.is_dir():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read(info))
            if info.external_attr >> 16 & 0o111:
                os.chmod(target, 0o755)
        return file.namelist()


def compile_all(folder: str) -> None:
    """Writes bytecode that is valid wherever the files are moved, so that tests start faster."""
    modes = ["--invalidation-mode", "unchecked-hash", "-s", folder, "-q"]
    # Ignore errors, since a package may have a file that this Python cannot parse.
    subprocess.run(
        [sys.executable, "-I", "-m", "compileall", *modes, folder], capture_output=True, check=False
    )


def requirements(metadata: Path, arguments: argparse.Namespace) -> list[str]:
    """Returns the names of the package's dependencies on the target, without extras."""
    from pip._vendor.packaging.requirements import Requirement

    target = {
        "extra": "",
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": arguments.machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{arguments.python_version}.0",
        "python_version": arguments.python_version,
        "sys_platform": "linux",
    }
    message = email.parser.Parser().parsestr(metadata.read_text(encoding="utf-8"), headersonly=True)
    wanted = map(Requirement, message.get_all("Requires-Dist", []))
    return [canonical(r.name) for r in wanted if r.marker is None or r.marker.evaluate(target)]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
