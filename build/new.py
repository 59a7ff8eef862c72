"""The command of build.py that writes the skeleton of a primitive, a function or a distribution."""

import ast
import contextlib
import functools
import keyword
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path

import build_files
from environment import SetupError, UsageError, locked, say

ROOT = Path(__file__).absolute().parent.parent
SKELETONS = ROOT / "build" / "skeletons"
PLACEHOLDER = "a_name_that_nothing_has"
LIMIT = 100  # columns, as for ruff
Texts = dict[str, str]  # of files by their paths in the checkout


def new(arguments: list[str]) -> int:
    """Writes an operation that works, with its test, its documentation and its BUILD entries, to be filled in."""
    if len(arguments) != 2 or arguments[0] not in KINDS:
        raise UsageError(f"new takes two words: {', '.join(KINDS)}, and a name")
    kind, name = arguments
    check_name(name)
    with locked(ROOT / ".new.lock", "writing a skeleton"):
        texts = _write_all(kind, name)
    for path in _written:
        say(f"wrote {path.relative_to(ROOT)}")
    test = next(
        (p for p in texts if p.endswith("_test.py") and name in p), "tests/primitives_test.py"
    )
    say(f"replace what is marked TODO, then: python3 build/build.py test {test} -k {name}")
    return 0


def _write_all(kind: str, name: str) -> Texts:
    texts = KINDS[kind](name)
    with all_or_nothing():
        for path, text in texts.items():
            _write(ROOT / path, text)
        for file, text in build_files.build_files(ROOT).items():
            if not file.exists() or file.read_text() != text:
                _write(file, text)
    return texts


def check_name(name: str) -> None:
    """Raises UsageError if a name cannot be that of an operation here."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UsageError(
            f"new: {name!r} is no name here: small letters, digits and _, a letter first"
        )
    if keyword.iskeyword(name):
        raise UsageError(f"new: {name} is a word of Python's own")
    if name.endswith(("_p", "_test", "_")) or len(name) > 40:
        raise UsageError(
            f"new: {name}: names have up to 40 letters and end neither in _p, _test nor _"
        )


def primitive(name: str) -> Texts:
    module, names = f"jax._src.lax.lax.{name}", (name, f"{name}_p")
    package, public = "jax/_src/lax/lax/__init__.py", "jax/lax/__init__.py"
    rows, checks = "tests/primitive_rows.py", "tests/filecheck/elementwise.filecheck.py"
    _refuse(name, names, package, public)
    _refuse_words(name, "primitive")
    _refuse_primitive(name)
    _free(f"jax/lax/{name}.py")
    return {
        _free(f"jax/_src/lax/lax/{name}.py"): _skeleton("primitive", name),
        package: _with_import(_read(package), module, names),
        public: functools.reduce(
            functools.partial(_with_name, "from jax._src.lax.lax import ("), names, _read(public)
        ),
        rows: _before(_read(rows), "    # Elementwise, of several operands\n", f'    unary("{name}"),\n'),
        checks: _read(checks) + "\n" + _skeleton("primitive_filecheck", name),
        "CHANGELOG.md": _with_change(f"`jax.lax.{name}`: TODO."),
    }  # fmt: skip


def function(name: str) -> Texts:
    module, public = f"jax._src.numpy.{name}", "jax/numpy/__init__.py"
    _refuse(name, (name,), public)
    _refuse_words(name, "function")
    text = _read(public)
    imports = f"    from {module} import (\n        {name} as {name},\n    )\n"
    start = text.index("if _TYPE_CHECKING:\n")
    text = text[:start] + _sorted_in(
        text[start:], r"    from (jax\._src\.numpy\.\w+) import \([^)]*\)\n", module, imports
    )
    start = text.index("_LAZY = {\n")
    text = text[:start] + _sorted_in(
        text[start:], r'    "(\w+)": "\w+",\n', name, f'    "{name}": "{name}",\n'
    )
    return {
        _free(f"jax/_src/numpy/{name}.py"): _skeleton("function", name),
        _free(f"tests/numpy_{name}_test.py"): _skeleton("function_test", name),
        public: text,
        "CHANGELOG.md": _with_change(f"`jax.numpy.{name}`: TODO."),
    }  # fmt: skip


def distribution(name: str) -> Texts:
    public, documented = "jax/scipy/stats/__init__.py", "tests/docstrings_scipy_test.py"
    _refuse(name, (name,), public, "jax/_src/scipy/stats/__init__.py")
    _refuse_words(name, "distribution_test")
    return {
        _free(f"jax/_src/scipy/stats/{name}.py"): _skeleton("distribution", name),
        _free(f"jax/scipy/stats/{name}.py"): _skeleton("distribution_public", name),
        _free(f"tests/scipy_stats_{name}_test.py"): _skeleton("distribution_test", name),
        public: _with_name("from jax.scipy.stats import (", _read(public), name),
        documented: _before(_read(documented), "]  # fmt: skip\nMODULES +=", f'    "{name}",\n'),
        "CHANGELOG.md": _with_change(f"`jax.scipy.stats.{name}`: TODO."),
    }


KINDS: dict[str, Callable[[str], Texts]] = {
    "primitive": primitive,
    "function": function,
    "distribution": distribution,
}

# Files


_written: dict[Path, bytes | None] = {}  # what was there before, by path


@contextlib.contextmanager
def all_or_nothing() -> Iterator[None]:
    """Puts back what `_write` has replaced if anything goes wrong."""
    _written.clear()
    try:
        yield
    except BaseException as error:
        for path, before in _written.items():
            path.unlink() if before is None else path.write_bytes(before)
        if isinstance(error, OSError | build_files.BuildError):
            raise SetupError(f"new: {error}; nothing was written") from error
        raise


def _write(path: Path, text: str) -> None:
    _written.setdefault(path, path.read_bytes() if path.exists() else None)
    path.write_text(text)


def _read(path: str) -> str:
    return (ROOT / path).read_text()


def _free(path: str) -> str:
    if (ROOT / path).exists():
        raise UsageError(f"new: there is a file {path} already")
    if (ROOT / path).with_suffix("").is_dir():
        raise UsageError(f"new: there is a package {path.removesuffix('.py')} already")
    return path


def _refuse(name: str, names: tuple[str, ...], *paths: str) -> None:
    """Raises UsageError if one of the files has one of the names, or uses it as Python's own."""
    for path in paths:
        taken: set[str] = set()
        used: set[str] = set()
        for node in ast.walk(ast.parse(_read(path))):
            if isinstance(node, ast.alias):
                taken.add(node.asname or node.name)
            elif isinstance(node, ast.Dict | ast.Tuple | ast.Set):
                # tables of names that are imported on first use
                listed = node.keys if isinstance(node, ast.Dict) else node.elts
                taken |= {each.value for each in listed if isinstance(each, ast.Constant)}
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                taken.add(node.name)
            elif isinstance(node, ast.Name):
                used.add(node.id)
        if found := taken.intersection(names):
            raise UsageError(f"new: there is a {min(found)} already, in {path}")
        if found := used.intersection(names):
            raise UsageError(f"new: {path} uses the name {min(found)} itself")


def _refuse_words(name: str, skeleton: str) -> None:
    """Raises UsageError if a skeleton, which binds the name, uses it for something else."""
    used: set[str] = set()
    for node in ast.walk(ast.parse(_skeleton(skeleton, PLACEHOLDER))):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.alias):
            used.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            used.add(node.arg)
    if name in used - {PLACEHOLDER}:
        raise UsageError(f"new: {name} is a name that what is written uses itself; take another")


def _refuse_primitive(name: str) -> None:
    pattern = re.compile(rf"""(?:Primitive|_primitive)\(\s*["']{name}["']""")
    for path in sorted((ROOT / "jax").rglob("*.py")):
        if pattern.search(path.read_text()):
            raise UsageError(
                f"new: there is a primitive {name} already, in {path.relative_to(ROOT)}"
            )


# Texts


def _skeleton(kind: str, name: str) -> str:
    return string.Template((SKELETONS / f"{kind}.txt").read_text()).substitute(name=name)


def _before(text: str, mark: str, line: str) -> str:
    head, found, tail = text.partition(mark)
    if not found:
        raise SetupError(f"new: {mark.strip()!r} is not where it was: build/new.py is out of date")
    return head + line + found + tail


def _sorted_in(text: str, pattern: str, key: str, line: str) -> str:
    """Puts `line` in front of the first match of `pattern` whose group is greater than `key`."""
    end = 0
    for match in re.finditer(f"^{pattern}", text, re.MULTILINE):
        if match[1] > key:
            return text[: match.start()] + line + text[match.start() :]
        end = match.end()
    return text[:end] + line + text[end:]


def _with_import(text: str, module: str, names: tuple[str, ...]) -> str:
    """A package's `__init__` with one more import of names that it hands on, where it belongs."""
    listed = [f"{name} as {name}" for name in names]
    line = f"from {module} import {', '.join(listed)}\n"
    if len(line) > LIMIT + 1:
        line = f"from {module} import (\n" + "".join(f"    {each},\n" for each in listed) + ")\n"
    return _sorted_in(text, r"from (jax\.[\w.]+) import ", module, line)


def _with_name(opening: str, text: str, name: str) -> str:
    """The text with one more name in the list of an import, which begins with `opening`."""
    start = text.index(opening) + len(opening)
    end = text.index(")", start)
    lines = text[start:end].strip("\n").splitlines(keepends=True)
    lines[-1] = lines[-1].rstrip("\n") + "\n"
    lines.append(f"    {name} as {name},\n")
    # as ruff sorts: constants, classes, then variables, each without regard to case
    lines.sort(key=lambda line: _order(line.split()[0]))
    return text[:start] + "\n" + "".join(lines) + text[end:]


def _order(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name


def _with_change(line: str) -> str:
    """The list of changes with one more at the end of what is added to the version at its top."""
    head, mark, tail = _read("CHANGELOG.md").partition("### Added\n")
    if not mark:
        raise SetupError("new: CHANGELOG.md has no heading `### Added`")
    end = match.start() if (match := re.search(r"\n+(?=##)", tail)) else len(tail.rstrip("\n"))
    return f"{head}{mark}{tail[:end]}\n- {line}{tail[end:]}"
