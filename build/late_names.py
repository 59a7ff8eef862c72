"""What a test needs of `jax` when it runs, besides what is imported at once.

Packages load many of their names when these are first used (`jax/_src/lazy_names.py`). They repeat the imports for type
checkers, which is where they are read from here. A test needs the module of a late name if the test, or anything else that
it needs, mentions the name: as an attribute of its package, where that is imported under a name that has no other meaning in
the file, or else as an attribute of anything. That is more than is used, since other things have the same names, and never
less, unless names are put together as the program runs, or it starts programs in other files: such tests have
`//jax:everything`, marked `# keep`.
"""

import ast
import dataclasses
import functools
import itertools
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator

# Packages whose attributes are no late names, though some have the names of ours.
OTHER_PACKAGES = sys.stdlib_module_names | {
    "absl",
    "hypothesis",
    "ml_dtypes",
    "numpy",
    "pytest",
    "scipy",
}


@dataclasses.dataclass
class Source:
    """What a Python file mentions.

    Attributes:
      late: what it imports on first use of a name, dotted, by name.
      is_late: whether it has such names.
      dotted: the names that it imports, and the attributes of imported names, with the module that they are imported from.
      words: the other attributes in it, but for those of other packages and of `self`, and what its strings name; of a file
        that has late names, without these.
      texts: the words of its strings, if it has late names, in whose tables they are then.
      programs: the dotted names that programs in its strings import of `jax`.
      uses: what `dotted` is once `resolve` knows the modules: names, each with its module.
      handed_on: the names that late names have in the modules that they come from, with these, by late name.
    """

    late: dict[str, set[str]]
    is_late: bool
    dotted: set[str]
    words: set[str]
    texts: set[str]
    programs: set[str]
    uses: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    handed_on: dict[str, set[tuple[str, str]]] = dataclasses.field(default_factory=dict)

    def resolve(self, modules: Container[str]) -> None:
        """Finds out which parts of dotted names are modules."""
        for dotted in self.dotted:
            self.words |= self._resolve(dotted, modules)
        for name, imported in self.late.items():
            origins = (full.rpartition(".") for full in imported)
            self.handed_on[name] = {(module, last) for module, _, last in origins}

    def _resolve(self, dotted: str, modules: Container[str]) -> set[str]:
        """Adds what a dotted name uses of modules to `uses`; returns the rest, which are attributes of anything."""
        module, *names = dotted.split(".")
        while names and module in modules:
            self.uses.add((module, names[0]))
            module = f"{module}.{names.pop(0)}"
        return set(names)


def read_source(tree: ast.Module, texts: bool = False) -> Source:
    """Reads a file; with `texts`, the words of its strings are words too, which may be programs or names for `getattr`."""
    is_late = any("__getattr__" in _defined(node) for node in tree.body)
    late: dict[str, set[str]] = {}
    nodes = list(walk(tree))
    # what type checkers alone read
    typing = [node for test in nodes if _is_type_checking(test) for node in test.body]
    others = {"self", "cls"}.union(*map(_other_packages, [*nodes, *typing]))
    imported = _imported_names(nodes)
    dotted = set().union(*imported.values())
    words: set[str] = set()
    strings: set[str] = set()
    programs: set[str] = set()
    for node in typing if is_late else ():
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                late.setdefault(alias.asname or alias.name, set()).add(full)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings |= _words_of_text(node.value, texts)
            programs |= _imports_of_text(node.value) if texts else set()
        elif texts and isinstance(node, (ast.List, ast.Tuple)):
            programs |= _module_run(node)
        elif isinstance(node, ast.Attribute) and (first := _outermost(node)) not in others:
            if first in imported:
                dotted |= {f"{full}.{_after_first(node)}" for full in imported[first]}
            else:
                words.add(node.attr)
    if not is_late:
        return Source({}, False, dotted, words | strings, set(), programs)
    return Source(late, True, dotted, words - late.keys(), strings, programs)


def _module_run(command: ast.List | ast.Tuple) -> set[str]:
    """The module that a command runs, written `"-m", "jax.doctor"`."""
    words = [getattr(word, "value", None) for word in command.elts]
    return {
        module
        for option, module in itertools.pairwise(words)
        if option == "-m" and isinstance(module, str) and module.split(".")[0] == "jax"
    }


def walk(tree: ast.AST, skipped: Callable[[ast.AST], bool] | None = None) -> Iterator[ast.AST]:
    """The nodes of what runs, without those skipped and what is below them, nor what is below a test for type checkers."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if skipped is not None and skipped(node):
            continue
        yield node
        if _is_type_checking(node):
            pending += node.orelse
            continue
        for field in _fields(type(node)):
            value = getattr(node, field, None)
            if type(value) is list:
                pending += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                pending.append(value)


@functools.cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of nodes of a class that may hold nodes; operators and the like are none."""
    if kind is ast.Constant:
        return ()
    none = ("ctx", "op", "ops", "id", "attr", "arg", "kind", "type_comment")
    return tuple(field for field in kind._fields if field not in none)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and name_of(node.test).endswith("TYPE_CHECKING")


def name_of(node: ast.AST) -> str:
    """The last part of a dotted name, or an empty text."""
    return getattr(node, "attr", None) or getattr(node, "id", "")


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        names = [n for t in node.targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
        return {name_of(n) for n in names}
    return set()


def _other_packages(node: ast.AST) -> set[str]:
    """The names that an import of one of `OTHER_PACKAGES` gives to it, or to what is in it."""
    if isinstance(node, ast.Import):
        return {a.asname or a.name.split(".")[0] for a in node.names if _is_other(a.name)}
    if isinstance(node, ast.ImportFrom) and not node.level and _is_other(node.module or ""):
        return {a.asname or a.name for a in node.names}
    return set()


def _is_other(name: str) -> bool:
    return name.split(".")[0] in OTHER_PACKAGES


def _imported_names(nodes: Iterable[ast.AST]) -> dict[str, set[str]]:
    """What imports give names to, dotted, by these names.

    A name that is given to something else too, such as an argument, has a star in front, which no name in the program has.
    """
    found: dict[str, set[str]] = {}
    others: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                full = alias.name if alias.asname else alias.name.split(".")[0]
                found.setdefault(alias.asname or full, set()).add(full)
                found.setdefault(f"*{alias.name}", set()).add(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, set()).add(f"{base}.{alias.name}")
        elif isinstance(node, ast.arg):
            others.add(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            others.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler):
            others.add(node.name or "")
    return {f"*{name}" if name in others else name: full for name, full in found.items()}


def _after_first(node: ast.AST) -> str:
    """A dotted name without its first part."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join(reversed(names))


def _outermost(node: ast.AST) -> str:
    """The name at the start of a dotted name, or an empty text."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _words_of_text(text: str, anywhere: bool) -> set[str]:
    """What a string names, as a whole or, with `anywhere`, as a program in it does."""
    if re.fullmatch(r"\w+(\.\w+)*", text):
        return set(text.split("."))
    if not anywhere:
        return set()
    if re.fullmatch(r"[\w\s]+", text):  # names in a row
        return set(text.split())
    return set(re.findall(r"\.(\w+)", text))


def _imports_of_text(text: str) -> set[str]:
    found = set(re.findall(r"\bimport (jax[\w.]*)", text))
    for module, names in re.findall(r"\bfrom (jax[\w.]*) import ([\w, ]+)", text):
        found |= {f"{module}.{name.split()[0]}" for name in names.split(",") if name.split()}
    return found


def closure(
    roots: Iterable[str],
    program: Iterable[Source],
    imports: dict[str, set[str]],
    sources: dict[str, Source],
    is_inner: Callable[[str], bool],
) -> set[str]:
    """The modules that a program loads.

    Args:
      roots: the modules that it imports.
      program: its files.
      imports: the modules that each module imports.
      sources: of all modules; the values of `late` are names of modules.
      is_inner: whether an attribute of anything is a late name of such modules only, in a module. In others, and in the
        program, it may be one of all modules.
    """
    found: set[str] = set()
    # By whether the late names are of inner modules
    words = set().union(*(source.words for source in program))
    mentioned = {True: words, False: set(words)}
    waiting: dict[bool, dict[str, set[tuple[str, str]]]] = {True: {}, False: {}}
    uses = set().union(*(source.uses for source in program))
    done: set[tuple[str, str]] = set()
    pending = list(roots)
    while pending:
        while pending:
            module = pending.pop()
            if module in found:
                continue
            found.add(module)
            pending += filter(None, [module.rpartition(".")[0], *imports[module]])
            source, inner = sources[module], is_inner(module)
            uses |= source.uses
            for of_inner in (True,) if inner else (True, False):
                mentioned[of_inner] |= source.words
            for name in source.late:
                waiting[inner].setdefault(name, set()).add((module, name))
        for inner, late in waiting.items():
            for name in late.keys() & mentioned[inner]:
                uses |= late.pop(name)
        for module, name in [use for use in uses - done if use[0] in found]:
            done.add((module, name))
            pending += sources[module].late.get(name, ())
            uses |= sources[module].handed_on.get(name, set())
    return found
