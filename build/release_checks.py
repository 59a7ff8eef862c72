"""What `build.py release` checks in an environment with twine, auditwheel and cyclonedx-python-lib.

release_checks.py FOLDER --version X --sbom FILE    prints a list of [check, subject, problem or null, detail] as JSON
"""

import argparse
import contextlib
import email.parser
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import uuid
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version
from trove_classifiers import classifiers as CLASSIFIERS, deprecated_classifiers as DEPRECATED

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT / "build" / "bazel"))
import wheel_test  # noqa: E402 (it is found through the line above)


class Problem(Exception):
    """Raised by a check; the message says what is wrong."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--sbom", type=Path, required=True)
    options = parser.parse_args(arguments)
    rows = [[name, subject, *outcome(check)] for name, subject, check in checks(options)]
    print(json.dumps(rows))
    return 0


def outcome(check: Callable[[], str]) -> tuple[str | None, str]:
    """What is wrong, or None, and a remark."""
    try:
        return None, check()
    except (Problem, AssertionError) as error:
        return str(error) or "an assertion of wheel_test.py failed", ""
    except SystemExit as error:  # of wheel_test.py
        return str(error.code), ""
    except Exception as error:  # what is broken may break a check, and other rows are wanted too
        return f"{type(error).__name__}: {error}", ""


def checks(options) -> Iterator[tuple[str, str, Callable[[], str]]]:
    wheels = sorted(options.folder.glob("*.whl"))
    archives = [*wheels, *sorted(options.folder.glob("*.tar.gz"))]
    for path in archives:
        yield "metadata", path.name, lambda path=path: metadata(path, options.version)
    for path in wheels:
        if not path.name.endswith("-none-any.whl"):
            yield "platform", path.name, lambda path=path: platform_policy(path)
    for path in wheels:
        yield "licences", path.name, lambda path=path: licences(path)
    yield "SBOM", options.sbom.name, lambda: software_bill(wheels, options.version, options.sbom)


def metadata(path: Path, version: str) -> str:
    """Names, record and fields (wheel_test.py), the version, and what PyPI would say of it (twine, trove-classifiers)."""
    if path.suffix == ".whl":
        wheel_test.check_content(path)
        found = parse_wheel_filename(path.name)[1]
    else:
        found = parse_sdist_filename(path.name)[1]
    if found != Version(version):
        raise Problem(f"its version is {found}")
    done = subprocess.run(
        [sys.executable, "-m", "twine", "--no-color", "check", "--strict", str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Problem(done.stdout.strip().splitlines()[-1])
    return f"twine, {check_classifiers(path)} classifiers"


def check_classifiers(path: Path) -> int:
    """Raises Problem if PyPI refuses a classifier; returns how many there are."""
    text = fields(path)
    found = text.get_all("Classifier", [])
    for each in found:
        if each in DEPRECATED:
            instead = ", ".join(DEPRECATED[each]) or "nothing"
            raise Problem(f"PyPI refuses the classifier {each}: it has been replaced by {instead}")
        if each not in CLASSIFIERS:
            raise Problem(f"PyPI refuses the classifier {each}: it is none of trove-classifiers'")
        if each.startswith("License ::") and text["License-Expression"]:
            raise Problem(f"PyPI refuses the classifier {each} beside License-Expression")
    if len(set(found)) < len(found):
        raise Problem("a classifier is there twice")
    return len(found)


def platform_policy(path: Path) -> str:
    with contextlib.redirect_stdout(io.StringIO()):
        wheel_test.check_platform(path)
    return re.search(r"manylinux_\d+_\d+_\w+", path.name)[0]


def licences(path: Path) -> str:
    """That the expression is one of SPDX's, the texts are there, and those of what is linked in (wheel_test.py)."""
    expression = fields(path)["License-Expression"]
    if unknown := get_spdx_licensing().validate(expression).invalid_symbols:
        raise Problem(f"{expression} is no expression of SPDX: {', '.join(unknown)}")
    if not path.name.endswith("-none-any.whl"):
        wheel_test.check_machine_code(path, content(path))
    bundled = [n for n in content(path) if n.endswith((".so", ".dll", ".dylib"))]
    if bundled and path.name.endswith("-none-any.whl"):
        raise Problem(f"it has machine code, which its tag does not say: {bundled[0]}")
    return expression


def content(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def fields(path: Path):
    """What stands in the metadata of a wheel or a source archive."""
    if path.suffix == ".whl":
        (text,) = (t for n, t in content(path).items() if n.endswith(".dist-info/METADATA"))
    else:
        with tarfile.open(path) as archive:
            text = archive.extractfile(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO").read()
    return email.parser.BytesParser().parsebytes(text)


# The software bill of materials


def software_bill(wheels: list[Path], version: str, file: Path) -> str:
    """Writes the bill in CycloneDX's format, and checks that it follows the schema."""
    file.write_text(bill(wheels, version))
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read_text())
    if error:
        raise Problem(f"not what CycloneDX asks for: {error}")
    listed = json.loads(file.read_text())["components"]
    return f"{len(listed)} components"


def bill(wheels: list[Path], version: str) -> str:
    root = Component(
        name="jax", version=version, type=ComponentType.LIBRARY, bom_ref=f"jax-{version}",
        supplier=OrganizationalEntity(name="The authors of this package"),
    )  # fmt: skip
    bom = Bom(serial_number=_serial(wheels))
    bom.metadata.component = root
    # the moment that archives have: the same wheels give the same bill
    bom.metadata.timestamp = datetime(*wheel_moment(), tzinfo=UTC)
    known: dict[str, Component] = {}
    for path in wheels:
        ours = _wheel_component(path)
        bom.components.add(ours)
        depends = [_requirement(r, known) for r in _required(path)]
        depends += [_linked(name, version_, known) for name, version_ in _linked_into(path)]
        for each in depends:
            bom.components.add(each)
        bom.register_dependency(ours, depends)
        bom.register_dependency(root, [ours])
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def wheel_moment() -> tuple[int, ...]:
    source = (ROOT / "build" / "bazel" / "pack_wheel.py").read_text()
    return tuple(map(int, re.search(r"^MOMENT = \(([\d, ]+)\)", source, re.M)[1].split(",")))


def _serial(wheels: list[Path]):
    digests = "".join(_digest(path) for path in wheels)
    return uuid.uuid5(uuid.NAMESPACE_OID, digests)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _wheel_component(path: Path) -> Component:
    name, version, _, _ = parse_wheel_filename(path.name)
    return Component(
        name=name, version=str(version), type=ComponentType.LIBRARY, bom_ref=path.name,
        purl=PackageURL("pypi", None, name, str(version), {"file_name": path.name}),
        licenses=[_licence(fields(path)["License-Expression"])],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=_digest(path))],
    )  # fmt: skip


def _licence(expression: str):
    return LicenseExpression(expression)


def _required(path: Path) -> list[Requirement]:
    """What a wheel always needs, but for wheels of this release."""
    found = [Requirement(text) for text in fields(path).get_all("Requires-Dist", [])]
    return [r for r in found if r.marker is None or r.marker.evaluate({"extra": ""})]


def _requirement(requirement: Requirement, known: dict[str, Component]) -> Component:
    name = canonicalize_name(requirement.name)
    if name not in known:
        properties = [Property(name="jax:accepted-versions", value=str(requirement.specifier))]
        known[name] = Component(
            name=name, type=ComponentType.LIBRARY, bom_ref=f"requires-{name}",
            purl=PackageURL("pypi", None, name), properties=properties,
        )  # fmt: skip
    return known[name]


def _linked_into(path: Path) -> list[tuple[str, str]]:
    """The libraries whose machine code is in a wheel, with their versions."""
    texts = [n for n in content(path) if "/licenses/LICENSE." in n]
    return [(name, linked_version(name)) for name in sorted(t.rsplit(".", 1)[1] for t in texts)]


def linked_version(name: str) -> str:
    """Of a library that is linked in: that of MODULE.bazel, or of the package that brings it along."""
    module = (ROOT / "MODULE.bazel").read_text()
    if found := re.search(rf'bazel_dep\(name = "{name}", version = "([^"]+)"\)', module):
        return found[1]
    brings = {"libcxx": "ziglang", "robin_map": "nanobind"}.get(name, name)
    lock = (ROOT / "build" / "requirements" / "bazel-3.12.txt").read_text()
    version = re.search(rf"^{brings}==(\S+)", lock, re.M)
    if version is None:
        raise Problem(
            f"there is no version of {name}: neither MODULE.bazel nor bazel-3.12.txt has it"
        )
    return version[1] if brings == name else f"of {brings} {version[1]}"


def _linked(name: str, version: str, known: dict[str, Component]) -> Component:
    key = f"linked-{name}"
    if key not in known:
        known[key] = Component(
            name=name, version=version, type=ComponentType.LIBRARY, bom_ref=key,
            licenses=[_licence(wheel_test.LINKED[name][0])],
        )  # fmt: skip
    return known[key]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
