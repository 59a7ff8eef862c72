"""Where this project's version stands, and that of a nightly build.

A nightly build of the version X is `X.devYYYYMMDD`, which sorts before X and after what came before it: it is made of a copy
of a revision, in which the version is another one.
"""

import re
from datetime import date
from pathlib import Path

from environment import UsageError

# Files, and what stands around the version there; each has all of them.
PLACES = (
    ("MODULE.bazel", r'module\(\n    name = "jax",\n    version = "()"'),
    ("jax/version.py", r'^__version__ = "()"'),
    ("jaxlib/jaxlib_ext/__init__.py", r'^__version__ = "()"'),
    *(
        (f"jax_plugins/{kind}/pyproject.toml", r'^version = "()"')
        for kind in ("cuda", "rocm", "tpu")
    ),
    ("pyproject.toml", r'"jax-\w+-plugin(?:\[[\w-]+\])?==()"'),
    ("pyproject.toml", r'"jaxlib-ext==()"'),
)
# The oldest jax that plugins take: a nightly plugin takes the nightly jax.
OLDEST = tuple((f"jax_plugins/{kind}/pyproject.toml", r'^  "jax>=()[,"]') for kind in ("cuda", "rocm", "tpu"))  # fmt: skip
VERSION = r"[0-9][\w.]*"


def found(root: Path) -> list[tuple[str, str]]:
    """The files with the version in them, and the version that each has; a file several times where it has several."""
    pairs = []
    for file, pattern in PLACES:
        texts = re.findall(pattern.replace("()", f"({VERSION})"), (root / file).read_text(), re.M)
        pairs += [(file, text) for text in texts] or [(file, "none")]
    return pairs


def project_version(root: Path) -> str:
    return found(root)[0][1]


def rewrite(root: Path, version: str) -> None:
    """Gives a checkout another version."""
    for file, pattern in (*PLACES, *OLDEST):
        before, after = pattern.split("()")
        path = root / file
        text = re.sub(f"({before}){VERSION}({after})", rf"\g<1>{version}\g<2>", path.read_text(), flags=re.M)  # fmt: skip
        path.write_text(text)


def nightly(version: str, day: date) -> str:
    return f"{version}.dev{day:%Y%m%d}"


def check(version: str) -> None:
    """Raises UsageError if this is no version that a release or a nightly build has."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d{8}|rc\d+|\.post\d+)?", version):
        raise UsageError(
            f"release: {version!r} is no version: 0.10.2, 0.10.2rc1, 0.10.2.post1, or 0.10.2.dev20260131 of a nightly build"
        )


def change_heading(text: str, version: str) -> tuple[str, str] | None:
    """The heading of a version in the list of changes, and what is under it."""
    release = re.sub(r"\.dev\d{8}$", "", version)
    parts = re.split(r"^## +(.+)$", text, flags=re.M)
    for heading, body in zip(parts[1::2], parts[2::2]):
        if re.match(rf"\[?{re.escape(release)}\]?(?![\w.])", heading):
            return heading, body
    return None
