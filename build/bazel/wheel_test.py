"""Checks a wheel, installs it into an empty environment, and runs a program; see `jax_wheel`."""

import argparse
import base64
import csv
import email.parser
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

QUICK = ("--no-index", "--no-deps", "--no-compile")
NEWEST_GLIBC = (2, 28)  # that of Debian 10, also supported by pip 20.3
# Libraries linked into the machine code: the license, and words of its text.
LINKED = {
    "highway": ("Apache-2.0", b"Apache License"),
    "libcxx": ("Apache-2.0 WITH LLVM-exception", b"LLVM Exceptions to the Apache 2.0 License"),
    "nanobind": ("BSD-3-Clause", b"Neither the name of the copyright holder"),
    "robin_map": ("MIT", b"Thibaut Goetghebuer-Planchon"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--requires", type=Path, action="append", default=[])
    parser.add_argument("--sdist", type=Path)
    parser.add_argument("--setuptools", type=Path)
    parser.add_argument("--smoke", type=Path)
    parser.add_argument("--absent", action="append", default=[])
    options = parser.parse_args()
    wheel = options.wheel.resolve()
    content = check_content(wheel)
    if not wheel.name.endswith("-none-any.whl"):
        check_platform(wheel)
        check_machine_code(wheel, content)
        if not wheel.stem.endswith(platform.machine()):
            print(f"{wheel.name}: not for this machine, so not installed")
            return
    check_installable(wheel)
    scratch = Path(os.environ["TEST_TMPDIR"])
    python = make_environment(scratch / "environment")
    others = [path.resolve() for path in options.requires]
    call(sys.executable, "-m", "pip", "--python", python, "install", *QUICK, *others, wheel)
    check_requirements(python, options.absent)
    if options.smoke:
        empty = scratch / "empty"
        empty.mkdir()
        variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        call(python, "-I", options.smoke.resolve(), cwd=empty, env=variables)
    if options.sdist:
        check_sdist(
            options.sdist.resolve(), wheel, options.setuptools.resolve(), scratch / "from_sdist"
        )
    print(f"{wheel.name}: fit for use")


def check_requirements(python: Path, absent: list[str]) -> None:
    """Checks that all requirements are installed in compatible versions, except the absent ones."""
    command = [sys.executable, "-m", "pip", "--python", python, "check"]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    known = [f"requires {name}, which is not installed" for name in absent]
    lines = [line for line in output.splitlines() if line != "No broken requirements found."]
    for text in known:
        assert any(text in line for line in lines), f"nothing {text}: it need not be named"
    wrong = [line for line in lines if not any(text in line for text in known)]
    assert not wrong, "\n".join(wrong)


def check_installable(wheel: Path) -> None:
    tags = parse_wheel_filename(wheel.name)[-1]
    assert tags & set(sys_tags()), f"{wheel.name} cannot be installed here"


def check_content(wheel: Path) -> dict[str, bytes]:
    """Checks the record, the names and the metadata, and that there are no unexpected files."""
    name, version, *_ = parse_wheel_filename(wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (info,) = {n.split("/")[0] for n in names if ".dist-info/" in n}
        content = {n: archive.read(n) for n in names}
    assert len(content) == len(names), "a file is there twice"
    record = {
        row[0]: row[1:] for row in csv.reader(io.StringIO(content[f"{info}/RECORD"].decode()))
    }
    assert set(record) == set(names), f"RECORD and files differ: {set(record) ^ set(names)}"
    for path, (digest, size) in record.items():
        if path != f"{info}/RECORD":
            actual = base64.urlsafe_b64encode(hashlib.sha256(content[path]).digest()).rstrip(b"=")
            assert (digest, size) == (f"sha256={actual.decode()}", str(len(content[path]))), path
    metadata = email.parser.BytesParser().parsebytes(content[f"{info}/METADATA"])
    found = {key: metadata[key] or "" for key in ("Name", "Version", "License-Expression")}
    assert re.sub(r"[-_.]+", "-", found["Name"]).lower() == name, f"its Name is {found['Name']!r}"
    assert found["Version"] == str(version), f"its Version is {found['Version']!r}"
    expression = found["License-Expression"]
    assert re.match(r"Apache-2\.0\b", expression), f"its License-Expression is {expression!r}"
    for licence in {"LICENSE", *metadata.get_all("License-File", [])}:
        assert content.get(f"{info}/licenses/{licence}"), f"the text of {licence} is missing"
    assert b"Apache License" in content[f"{info}/licenses/LICENSE"], "LICENSE is another licence"
    assert metadata["Summary"], "it has no Summary"
    assert metadata["Requires-Python"] == ">=3.11", f"{metadata['Requires-Python']=}"
    return content


def check_machine_code(wheel: Path, content: dict[str, bytes]) -> None:
    """Checks the machine, the exported symbols, and the licenses of the linked libraries."""
    for path in (path for path in content if path.endswith(".so")):
        elf = ELFFile(io.BytesIO(content[path]))
        machine = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}[elf["e_machine"]]
        assert wheel.stem.endswith(machine), f"{path} is for {machine}"
        defined = {
            symbol.name
            for symbol in elf.get_section_by_name(".dynsym").iter_symbols()
            if symbol["st_shndx"] != "SHN_UNDEF"
        }
        assert defined == {"PyInit_" + Path(path).name.split(".")[0]}, f"{path} exports {defined}"
    metadata = next(text for path, text in content.items() if path.endswith("/METADATA"))
    expression = re.search(rb"^License-Expression: (.*)$", metadata, re.MULTILINE)[1].decode()
    linked = {licence for licence, _ in LINKED.values()}
    assert set(expression.split(" AND ")) == linked, f"{expression} is not that of what is linked"
    for name, (_, words) in LINKED.items():
        texts = [t for path, t in content.items() if path.endswith(f"/licenses/LICENSE.{name}")]
        assert len(texts) == 1, f"the text of LICENSE.{name} is there {len(texts)} times"
        assert words in texts[0], f"LICENSE.{name} is another licence"


def check_platform(wheel: Path) -> None:
    """Checks with auditwheel that libraries and symbols exist on the oldest supported system."""
    output = call(sys.executable, "-m", "auditwheel", "show", "--json", wheel)
    found = json.loads(output)
    tag = re.search(r"manylinux_(\d+)_(\d+)_(\w+)\.whl", wheel.name)
    assert tag, f"{wheel.name} has machine code and no manylinux tag"
    policy = re.search(
        rf"manylinux_(\d+)_(\d+)_{tag[3]}", json.dumps(found.get("overall_tag", found))
    )
    assert policy, f"auditwheel says {found}"
    versions = [tuple(map(int, match.group(1, 2))) for match in (policy, tag)]
    assert versions[0] <= versions[1] <= NEWEST_GLIBC, (
        f"the tag is for {versions[1]}, auditwheel finds {versions[0]}"
    )


def check_sdist(sdist: Path, wheel: Path, setuptools: Path, folder: Path) -> None:
    """Checks that a wheel built by setuptools from the sources has the same files."""
    with tarfile.open(sdist) as archive:
        # Python 3.11.2 of Debian 12 does not have extraction filters.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(folder, **safely)
    (source,) = folder.iterdir()
    python = make_environment(folder / "environment")
    pip = [sys.executable, "-m", "pip", "--python", python]
    call(*pip, "install", *QUICK, setuptools)
    command = ["wheel", "--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    call(*pip, *command, "--wheel-dir", folder / "dist", source)
    (built,) = (folder / "dist").iterdir()
    with zipfile.ZipFile(built) as ours, zipfile.ZipFile(wheel) as theirs:
        content = [
            {n for n in archive.namelist() if ".dist-info" not in n} for archive in (ours, theirs)
        ]
    assert content[0] == content[1], f"only in one: {content[0] ^ content[1]}"


def make_environment(folder: Path) -> Path:
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    return folder / "bin" / "python"


def call(*command, **options) -> str:
    result = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    if result.returncode:
        sys.exit(
            f"{' '.join(map(str, command))}\nfailed with status {result.returncode}:\n{result.stdout}"
        )
    return result.stdout


if __name__ == "__main__":
    main()
