"""What build_files.py reads from Python files, kept between runs for files that have not changed.

Reading all files takes a quarter of a minute; the facts of a file depend on its content and its name alone. They are kept in
one JSON file in the user's cache folder, which another version of this program does not take. A file that cannot be read or
written is like none.
"""

import ast
import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import late_names

Facts = tuple[late_names.Source, set[str]]

# Programs whose change may change facts.
_PROGRAMS = ("source_facts.py", "late_names.py", "build_files.py")


def cache_file() -> Path:
    """Where the facts are kept."""
    folder = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(folder).expanduser() / "jax-build" / "source_facts.json"


class SourceFacts:
    """The facts of files: what they mention, and what they import.

    Args:
      imports_of: the function that lists the imports of a syntax tree.
    """

    def __init__(self, imports_of: Callable[..., set[str]]):
        self._imports_of = imports_of
        self._version = _version()
        self._kept = self._load()
        self._used: dict[str, Any] = {}

    def read(self, path: Path, name: str, is_package: bool = False, texts: bool = False) -> Facts:
        """Returns the facts of a file.

        Args:
          path: the file.
          name: the name of its module.
          is_package: whether it is the `__init__.py` of a package.
          texts: whether its strings may be programs, or names for `getattr`, as in tests.
        """
        content = path.read_bytes()
        key = f"{name} {is_package} {texts} {hashlib.sha256(content).hexdigest()}"
        facts = self._used.get(key) or self._kept.get(key)
        if not _is_well_formed(facts):
            tree = ast.parse(content, str(path))
            source = late_names.read_source(tree, texts=texts)
            late = texts or not source.is_late
            facts = _as_lists(source, self._imports_of(tree, name, is_package, late=late))
        self._used[key] = facts
        return _from_lists(facts)

    def save(self) -> None:
        """Keeps the facts that were asked for, if any of them is new."""
        if self._used.items() <= self._kept.items():
            return
        # Facts of other branches stay, as long as they are few.
        facts = {**self._kept, **self._used} if len(self._kept) < 20_000 else self._used
        file = cache_file()
        text = json.dumps({"version": self._version, "facts": facts})
        unfinished = file.with_name(f"{file.name}.{os.getpid()}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(text)
            os.replace(unfinished, file)
        except OSError:
            unfinished.unlink(missing_ok=True)

    def _load(self) -> dict[str, Any]:
        try:
            kept = json.loads(cache_file().read_bytes())
            return dict(kept["facts"]) if kept["version"] == self._version else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}


def _version() -> str:
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for program in _PROGRAMS:
        digest.update((Path(__file__).parent / program).read_bytes())
    return digest.hexdigest()


def _is_well_formed(facts: Any) -> bool:
    """Whether kept facts can be read; another program may have damaged the file."""
    match facts:
        case [dict(late), bool(), *lists] if len(lists) == 5:
            return all(isinstance(names, list) for names in (*late.values(), *lists))
    return False


def _as_lists(source: late_names.Source, imports: set[str]) -> list[Any]:
    late = {name: sorted(modules) for name, modules in source.late.items()}
    sets = (source.dotted, source.words, source.texts, source.programs, imports)
    return [late, source.is_late, *map(sorted, sets)]


def _from_lists(facts: list[Any]) -> Facts:
    late, is_late, *lists = facts
    dotted, words, texts, programs, imports = map(set, lists)
    late = {name: set(modules) for name, modules in late.items()}
    return late_names.Source(late, is_late, dotted, words, texts, programs), imports
