"""Packs files into a wheel or a source archive, reproducibly: equal files give equal bytes.

    pack_wheel.py --output FILE --pyproject FILE --license FILE --version V (--tag TAG | --sdist) @ENTRIES

ENTRIES has a line `path in the archive<tab>file` for each file. Uses only the standard library.
"""

import argparse
import base64
import gzip
import hashlib
import io
import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

MOMENT = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can store
STRAY = re.compile(r"(^|/)(BUILD(\.bazel)?|__pycache__|\..*|.*\.py[co]|.*~)(/|$)")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(fromfile_prefix_chars="@")
    parser.add_argument("--output", required=True)
    parser.add_argument("--pyproject", type=Path, required=True)
    parser.add_argument("--license", type=Path, required=True)
    parser.add_argument("--readme", type=Path, action="append", default=[])
    parser.add_argument("--version", required=True)
    parser.add_argument("--tag")
    parser.add_argument("--notice", action="append", default=[], help="name<tab>file")
    parser.add_argument("--sdist", action="store_true")
    parser.add_argument("--top-level", action="append", default=[])
    parser.add_argument("entries", nargs="*")
    options = parser.parse_args(arguments)
    files = {}
    for entry in options.entries:
        path, _, source = entry.partition("\t")
        files[path] = Path(source).read_bytes()
    check(files, options.top_level)
    project = tomllib.loads(options.pyproject.read_text())["project"]
    if project.get("version", options.version) != options.version:
        sys.exit(
            f"{options.pyproject} says version {project['version']}, MODULE.bazel {options.version}"
        )
    readme = readme_of(project, options.readme)
    licences = {"LICENSE": options.license.read_bytes()}
    for notice in options.notice:
        name, _, source = notice.partition("\t")
        licences[f"LICENSE.{name}"] = Path(source).read_bytes()
    text = metadata(project, options.version, readme, list(licences))
    if options.sdist:
        own = {
            "pyproject.toml": options.pyproject.read_bytes(),
            "README.md": readme.encode(),
            "PKG-INFO": text.encode(),
        }
        files = own | licences | files
        content = source_archive(f"{stem(project['name'])}-{options.version}", files)
    else:
        content = wheel(project, options.version, options.tag, text, licences, files)
    Path(options.output).write_bytes(content)


def check(files: dict[str, bytes], top_level: list[str]) -> None:
    """Raises SystemExit if a file does not belong into the wheel."""
    if not files:
        sys.exit("there is nothing to pack")
    for path in sorted(files):
        if STRAY.search(path):
            sys.exit(f"{path} has no place in a wheel")
        if not any(path == top or path.startswith(f"{top}/") for top in top_level):
            sys.exit(f"{path} is not under {' or '.join(top_level)}")


def stem(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def readme_of(project: dict, candidates: list[Path]) -> str:
    readme = project.get("readme", "")
    if isinstance(readme, dict):
        return readme["text"]
    for path in candidates:
        if readme and path.name == Path(readme).name:
            return path.read_text()
    if readme:
        sys.exit(f"the readme {readme} is not among {', '.join(map(str, candidates))}")
    return ""


def metadata(project: dict, version: str, readme: str, licences: Iterable[str]) -> str:
    """Returns the core metadata (version 2.4) for the `[project]` table of a pyproject.toml."""
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}"]
    lines += [f"Summary: {project['description']}"]
    lines += [f"Project-URL: {name}, {url}" for name, url in project.get("urls", {}).items()]
    lines += [f"License-Expression: {project['license']}"]
    lines += [f"License-File: {name}" for name in licences]
    lines += [f"Classifier: {c}" for c in project.get("classifiers", [])]
    if "keywords" in project:
        lines += [f"Keywords: {','.join(project['keywords'])}"]
    lines += [f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {d}" for d in project.get("dependencies", [])]
    for extra, wanted in project.get("optional-dependencies", {}).items():
        lines += [f"Provides-Extra: {extra}"]
        for requirement in wanted:
            name, _, marker = (part.strip() for part in requirement.partition(";"))
            marker = f'({marker}) and extra == "{extra}"' if marker else f'extra == "{extra}"'
            lines += [f"Requires-Dist: {name}; {marker}"]
    if readme:
        lines += ["Description-Content-Type: text/markdown", "", readme.rstrip("\n")]
    return "\n".join(lines) + "\n"


def wheel(
    project: dict,
    version: str,
    tag: str,
    text: str,
    licences: dict[str, bytes],
    files: dict[str, bytes],
) -> bytes:
    info = f"{stem(project['name'])}-{version}.dist-info"
    pure = "true" if tag.endswith("-none-any") else "false"
    about = f"Wheel-Version: 1.0\nGenerator: jax build/bazel/pack_wheel.py\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
    entry_points = "".join(
        f"[{group}]\n"
        + "".join(f"{name} = {value}\n" for name, value in sorted(points.items()))
        + "\n"
        for group, points in sorted(_entry_points(project).items())
    )
    extra = {
        f"{info}/METADATA": text.encode(),
        f"{info}/WHEEL": about.encode(),
    }
    extra |= {f"{info}/licenses/{name}": content for name, content in licences.items()}
    if entry_points:
        extra[f"{info}/entry_points.txt"] = entry_points.encode()
    everything = dict(sorted(files.items())) | dict(sorted(extra.items()))
    record = "".join(
        f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in everything.items()
    )
    everything[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in everything.items():
            entry = zipfile.ZipInfo(path, MOMENT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whatever system this runs on
            entry.external_attr = (0o100755 if path.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, content, compresslevel=6)
    return buffer.getvalue()


def _entry_points(project: dict) -> dict[str, dict[str, str]]:
    groups = dict(project.get("entry-points", {}))
    if "scripts" in project:
        groups["console_scripts"] = project["scripts"]
    return groups


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def source_archive(top: str, files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{path}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


if __name__ == "__main__":
    main(sys.argv[1:])
