#!/usr/bin/env python3
"""Keeps the BUILD files' dependencies equal to what the sources import.

    python3 build/build_files.py           reports differences, and fails if there are any
    python3 build/build_files.py --write   corrects the files

The BUILD files of `jax/` are generated completely. In `tests/BUILD.bazel` and the others in
`HANDWRITTEN`, whose targets are written by hand, only the lists `deps` are checked and corrected;
entries marked `# keep` are kept. They depend on what they load of `jax` (late_names.py). The layers are those for import-linter in pyproject.toml. A
dependency on a higher layer is an error, which `--write` does not correct.
"""

import argparse
import ast
import dataclasses
import gc
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import late_names
from late_names import name_of
from source_facts import SourceFacts

ROOT = Path(__file__).absolute().parent.parent
# Packages in which each module is a target; any other folder is one target.
FLAT = (
    "jax",
    "jax.experimental",
    "jax.lax",
    "jax.numpy",
    "jax.scipy",
    "jax._src",
    "jax._src.numpy",
)
HANDWRITTEN = (
    "tests",
    "benchmarks",
    "examples",
    "jax_plugins/cuda",
    "jax_plugins/rocm",
    "jax_plugins/tpu",
    "jaxlib/pjrt_runner/tests",
)
# Tests of the checkout as a whole, which have no Bazel target.
OF_THE_CHECKOUT = (
    "affected",
    "bazel",
    "containers",
    "devices",
    "docs_commands",
    "docs_shares",
    "late_binding",
    "layers",
    "matrix",
    "new",
    "release",
)
EVERYTHING = "//jax:everything"
PROGRAMS = ("tests", "build", "build/bazel", "benchmarks", "examples")
TEST_MACROS = ("jax_multiplatform_test", "jax_py_library", "jax_py_test")
# Packages on PyPI whose import names are different.
DISTRIBUTIONS = {
    "absl": "absl-py",
    "google": "protobuf",
    "importlinter": "import-linter",
    "ml_dtypes": "ml-dtypes",
    "opt_einsum": "opt-einsum",
    "sklearn": "scikit-learn",
}
# Parts of jax._src for tests, which use the public API.
TEST_UTILITIES = ("test_util", "public_test_util", "internal_test_util")
# Packages that `jax` uses if they are installed. Targets that need them list them explicitly.
OPTIONAL = {
    "jaxlib_ext",
    "libtpu",
    "jax_plugins",
    "IPython",
    "web_pdb",
    "portpicker",
    "etils",
    "xprof",
    # clients of clusters, imported where a process finds itself in one
    "kubernetes",
    "mpi4py",
    "cupy",
    "torch",
    # of the benchmarks
    "numba",
}
HEADER = """\
load("//build/bazel:defs.bzl", "jax_py_library")

package(default_visibility = ["//visibility:public"])

licenses(["notice"])
"""


class BuildError(Exception):
    """Raised if there are no valid BUILD files for the sources; the message says why."""


@dataclasses.dataclass
class Module:
    """A Python file.

    Attributes:
      name: its dotted name.
      path: where it is.
      imports: the dotted names of the modules that it imports.
      source: what it mentions, and the modules that it loads on first use of a name.
    """

    name: str
    path: Path
    imports: set[str]
    source: late_names.Source

    @property
    def all_imports(self) -> set[str]:
        return self.imports.union(*self.source.late.values())

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


@dataclasses.dataclass
class Target:
    """A library of modules that are built together.

    Attributes:
      name: the dotted name of its module or folder; the outermost one if several folders import each other.
      folders: the dotted names of its folders; empty for a single module.
      modules: all its modules.
    """

    name: str
    folders: list[str]
    modules: list[Module]

    @property
    def label(self) -> str:
        folder, _, last = self.name.rpartition(".")
        if self.name == "jax" or self.folders or self.modules[0].is_package:
            return "//" + self.name.replace(".", "/")
        return f"//{folder.replace('.', '/')}:{last}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the files")
    options = parser.parse_args(arguments)
    try:
        wanted = build_files(ROOT)
    except BuildError as error:
        print(f"build_files.py: error: {error}", file=sys.stderr)
        return 1
    wrong = [path for path, content in wanted.items() if _content(path) != content]
    stale = sorted(set(_generated(ROOT)) - set(wanted))
    for path in wrong:
        if options.write:
            path.write_text(wanted[path])
    for path in stale:
        if options.write:
            path.unlink()
    verb = "written" if options.write else "not what the sources import"
    for path in [*wrong, *stale]:
        print(f"{path.relative_to(ROOT)}: {'removed' if options.write and path in stale else verb}")
    if (wrong or stale) and not options.write:
        print("python3 build/build_files.py --write mends this", file=sys.stderr)
        return 1
    return 0


def build_files(root: Path) -> dict[Path, str]:
    """Returns the BUILD files for the sources under `root`, by path.

    Raises:
      BuildError: if a target depends on a higher layer, or targets depend on each other in a
        circle.
    """
    collects = gc.isenabled()
    gc.disable()  # it takes as long as the rest, and syntax trees have no cycles
    facts = SourceFacts(imports_of)
    try:
        return _build_files(root, facts)
    finally:
        facts.save()
        if collects:
            gc.enable()


def _build_files(root: Path, facts: SourceFacts) -> dict[Path, str]:
    modules = read_modules(root, "jax", facts)
    targets = group(modules)
    owner = {m.name: target for target in targets for m in target.modules}
    depends = {t.name: _dependencies(t, owner) for t in targets}
    check_layers(root, {t.name: _dependencies(t, owner, late=True) for t in targets})
    check_circles(depends)
    by_name = {t.name: t for t in targets}
    files: dict[Path, list[str]] = {}
    for folder in sorted({m.path.parent for m in modules.values() if m.is_package}):
        files[folder / "BUILD.bazel"] = [HEADER]
    for target in sorted(targets, key=lambda t: t.name):
        deps = [_external(d) for d in _external_imports(target, modules)]
        deps += [by_name[d].label for d in depends[target.name]]
        _render(root, target, deps, files)
    used = {d for others in depends.values() for d in others}
    everything = [
        t.label.removeprefix("//jax") if t.label.startswith("//jax:") else t.label
        for t in targets
        if t.name not in used
    ]
    files[root / "jax" / "BUILD.bazel"].append(
        "# All of it: what a wheel has.\n"
        f'jax_py_library(\n    name = "everything",\n    deps = {_list(everything)},\n)\n'
    )
    out = {path: "\n".join(parts) for path, parts in files.items()}
    for folder in HANDWRITTEN:
        path = root / folder / "BUILD.bazel"
        if path.exists():
            needs = _Needs(modules, owner, depends, facts)
            out[path] = with_dependencies(root, path, facts, needs)
    return out


def read_modules(root: Path, package: str, facts: SourceFacts) -> dict[str, Module]:
    """Returns the modules of a package under `root`, by name."""
    modules = {}
    for path in sorted((root / package).rglob("*.py")):
        if any(part.startswith(".") for part in path.relative_to(root).parts):
            continue
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        source, names = facts.read(path, name, path.name == "__init__.py")
        modules[name] = Module(name, path, names, source)
    for module in modules.values():
        source = module.source
        source.resolve(modules.keys())
        module.imports = {_module_of(n, modules) for n in module.imports}
        source.late = {
            name: {m for i in imported if (m := _module_of(i, modules)) in modules}
            for name, imported in source.late.items()
        }
    for name in modules:  # packages load some of what is below them
        package, _, last = name.rpartition(".")
        if package and last in modules[package].source.texts:
            modules[package].source.late.setdefault(last, set()).add(name)
            modules[package].source.words.discard(last)
    return modules


def imports_of(tree: ast.Module, name: str, is_package: bool, late: bool = True) -> set[str]:
    """Returns the names that a file imports, but not those only for type checkers; with `late`, also those in strings."""
    package = name.split(".") if is_package else name.split(".")[:-1]
    names: set[str] = set()
    for node in late_names.walk(tree, _names_no_import):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *filter(None, [node.module])]
            names |= {".".join([*base, alias.name]) for alias in node.names}
        elif not late:
            pass
        elif isinstance(node, ast.Call) and name_of(node.func).endswith("import_module"):
            names |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # Modules that are loaded on first use are named in strings.
            if re.fullmatch(r"jax\._src(\.\w+)+", node.value):
                names.add(node.value)
    return names


def _names_no_import(node: ast.AST) -> bool:
    """Whether the strings of a node may be names of modules that are not imported there."""
    if isinstance(node, ast.Call):
        return name_of(node.func) == "getLogger"
    return isinstance(node, ast.Assign) and name_of(node.targets[0]) == "__module__"


def _module_of(name: str, modules: dict[str, Module]) -> str:
    """Returns the module that defines the dotted `name`, or the name of an external package."""
    if name.split(".")[0] not in modules:
        return name.split(".")[0]
    while name not in modules:
        if "." not in name:
            raise BuildError(f"nothing here is called {name}")
        name = name.rpartition(".")[0]
    return name


def group(modules: dict[str, Module]) -> list[Target]:
    """Makes a target per module in flat packages, and per folder elsewhere.

    Folders that import each other become one target.
    """

    def folder_of(name: str) -> str:
        if modules[name].is_package:
            return name
        parent = name.rpartition(".")[0]
        return name if parent in FLAT else parent

    members: dict[str, list[Module]] = {}
    for module in modules.values():
        members.setdefault(folder_of(module.name), []).append(module)
    edges: dict[str, set[str]] = {name: set() for name in members}
    for name, its in members.items():
        for module in its:
            edges[name] |= {folder_of(i) for i in module.imports if i in modules} - {name}
    targets = []
    for component in components(edges):
        names = sorted(component, key=lambda n: (n.count("."), n))
        outer = names[0]
        if any(not n.startswith(f"{outer}.") for n in names[1:]):
            raise BuildError(f"these import each other in a circle: {', '.join(names)}")
        its = [m for n in names for m in members[n]]
        folders = [] if outer not in modules or not modules[outer].is_package else names
        targets.append(Target(outer, [] if outer in FLAT else folders, its))
    return targets


def components(edges: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of a graph (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = set()
            while node not in component:
                component.add(stack.pop())
            found.append(component)

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def _dependencies(target: Target, owner: dict[str, Target], late: bool = False) -> set[str]:
    imported = [m.all_imports if late else m.imports for m in target.modules]
    return {owner[i].name for i in set().union(*imported) if i in owner} - {target.name}


def check_layers(root: Path, depends: dict[str, set[str]]) -> None:
    """Raises BuildError if a target of `jax._src` needs a higher layer or the public API."""
    rank = layers(root)
    for name, others in depends.items():
        if not name.startswith("jax._src."):
            continue
        unit = name.split(".")[2]
        for other in sorted(others):
            if other.split(".")[:2] != ["jax", "_src"]:
                if unit not in TEST_UTILITIES and other != "jax.version":
                    raise BuildError(
                        f"{name} depends on the public {other}: use what is under jax/_src"
                    )
            elif other.count(".") > 1 and rank[other.split(".")[2]] > rank[unit]:
                raise BuildError(
                    f"{name} depends on {other}, which is on a higher layer (pyproject.toml)"
                )


def layers(root: Path) -> dict[str, int]:
    """Returns the layer of each part of `jax._src`, starting at 0, from pyproject.toml."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    (contract,) = [c for c in contracts if c["type"] == "layers"]
    return {
        name: height
        for height, layer in enumerate(reversed(contract["layers"]))
        for name in re.findall(r"\w+", layer)
    }


def check_circles(depends: dict[str, set[str]]) -> None:
    for component in components(depends):
        if len(component) > 1:
            raise BuildError(
                f"these depend on each other in a circle: {', '.join(sorted(component))}"
            )


def _external_imports(target: Target, modules: dict[str, Module]) -> set[str]:
    found = {i for m in target.modules for i in m.imports if i not in modules}
    return found - sys.stdlib_module_names - OPTIONAL - {"__future__"}


def _external(name: str) -> str:
    return f"@pypi//{DISTRIBUTIONS.get(name, name.replace('_', '-'))}"


def _render(root: Path, target: Target, deps: list[str], files: dict[Path, list[str]]) -> None:
    home = root / Path(*target.name.split("."))
    if target.name in FLAT:
        sources = '["__init__.py"]'
    elif not target.folders:
        home = home.parent
        sources = f'["{target.modules[0].path.name}"]'
    else:
        sources = 'glob(["*.py"])'
        inner_sources = [f"//{inner.replace('.', '/')}:sources" for inner in target.folders[1:]]
        sources += f" + {_list(inner_sources)}" if inner_sources else ""
        for inner in target.folders[1:]:
            folder = root / Path(*inner.split("."))
            files[folder / "BUILD.bazel"] = [
                HEADER.partition("\n\n")[2],
                'filegroup(\n    name = "sources",\n    srcs = glob(["*.py"]),\n)\n',
                f'alias(\n    name = "{folder.name}",\n    actual = "{target.label}",\n)\n',
            ]
    here = f"//{home.relative_to(root)}"
    deps = [d.removeprefix(here) if d.startswith(f"{here}:") else d for d in deps]
    text = (
        f'jax_py_library(\n    name = "{target.name.rpartition(".")[2]}",\n    srcs = {sources},\n'
    )
    read = (".pyi", ".html")
    data = sorted(p.name for p in home.iterdir() if p.name == "py.typed" or p.suffix in read)
    if data and target.name in (".".join(home.relative_to(root).parts),):
        text += f"    data = {_list(data)},\n"
    if deps:
        text += f"    deps = {_list(deps)},\n"
    files[home / "BUILD.bazel"].append(text + ")\n")


def _list(items: Iterable[str], kept: Iterable[str] = ()) -> str:
    # The order of buildifier: the same package first, then this repository, then external ones.
    def key(item: str) -> tuple:
        kind = (
            1
            if item.startswith(":")
            else 2
            if item.startswith("//")
            else 4
            if item.startswith("@")
            else 0
        )
        return kind, item.replace(":", ".").split(".")

    items = sorted(set(items), key=key)
    if len(items) == 1 and not kept:
        return f'["{items[0]}"]'
    lines = (f'        "{item}",{"  # keep" if item in kept else ""}\n' for item in items)
    return "[\n" + "".join(lines) + "    ]"


def _is_inner(module: str) -> bool:
    """Whether a module is not of the public API, and so does not use it."""
    parts = module.split(".")
    return parts[:2] == ["jax", "_src"] and not (len(parts) > 2 and parts[2] in TEST_UTILITIES)


class _Needs:
    """The labels of what tests load of `jax`, and no more."""

    def __init__(
        self, modules: dict[str, Module], owner: dict[str, Target], depends: dict[str, set[str]],
        facts: SourceFacts,
    ):  # fmt: skip
        self._modules = modules
        self._owner = owner
        self._depends = depends
        self._facts = facts
        self._sources = {name: module.source for name, module in modules.items()}
        self._imports = {name: module.imports & modules.keys() for name, module in modules.items()}
        self._reached: dict[str, set[str]] = {}
        self._files: dict[Path, tuple[late_names.Source, set[str]]] = {}

    def labels(self, files: Iterable[Path]) -> set[str]:
        """Of a test or a library of tests, given the files that it consists of."""
        roots: set[str] = set()
        sources: list[late_names.Source] = []
        pending, seen = list(files), set()
        while pending:
            file = pending.pop()
            if file in seen or not file.exists():
                continue
            seen.add(file)
            source, imported = self._read(file)
            sources.append(source)
            roots |= {_module_of(name, self._modules) for name in source.programs}
            for name in imported:
                if name.split(".")[0] == "jax":
                    roots.add(_module_of(name, self._modules))
                else:  # what tests share
                    pending.append(file.parent / f"{name.split('.')[0]}.py")
        if not roots:
            return set()
        loaded = late_names.closure(roots, sources, self._imports, self._sources, _is_inner)
        needed = {self._owner[m].name: self._owner[m].label for m in loaded}
        inner = set().union(*(self._reach(name) for name in needed))
        return {label for name, label in needed.items() if name not in inner}

    def _read(self, file: Path) -> tuple[late_names.Source, set[str]]:
        """What a file mentions, and what it imports."""
        if file not in self._files:
            source, imported = self._facts.read(file, file.stem, texts=True)
            source.dotted |= source.programs
            source.resolve(self._modules.keys())
            self._files[file] = source, imported
        return self._files[file]

    def _reach(self, target: str) -> set[str]:
        """The targets that a target depends on."""
        if target not in self._reached:
            direct = self._depends[target]
            self._reached[target] = direct.union(*(self._reach(d) for d in direct))
        return self._reached[target]


def with_dependencies(root: Path, path: Path, facts: SourceFacts, needs: _Needs) -> str:
    """Returns the content of a handwritten BUILD file, with the `deps` that its sources need."""
    text = path.read_text()
    if path.parent == root / "tests":
        text += "".join(_new_test(file) for file in unlisted_tests(path.parent, text))
        text += "".join(_new_library(file) for file in unlisted_libraries(path.parent, text, facts))
    lines = text.splitlines(keepends=True)
    calls = _calls(text)
    own = _libraries(calls)
    for call in sorted(calls, key=lambda c: -c.lineno):
        values = {k.arg: k.value for k in call.keywords}
        wanted = set()
        sources = _sources(call)
        for source in sources:
            wanted |= set(_test_dependencies(path.parent / source, own, facts))
        if call.func.id == "jax_py_library":
            wanted.discard(f":{ast.literal_eval(values['name'])}")
        else:
            wanted -= {own.get(Path(s).stem, "") for s in sources}
        kept = [
            v for v in getattr(values.get("deps"), "elts", []) if "# keep" in lines[v.lineno - 1]
        ]
        kept = [ast.literal_eval(v) for v in kept]
        if EVERYTHING not in kept:
            wanted |= needs.labels(path.parent / source for source in sources)
        block = f"    deps = {_list([*wanted, *kept], kept)},\n" if wanted or kept else ""
        if "deps" in values:
            lines[values["deps"].lineno - 1 : values["deps"].end_lineno] = [block]
        else:
            lines.insert(call.end_lineno - 1, block)
    return "".join(lines)


def _calls(text: str) -> list[ast.Call]:
    """The targets of a BUILD file's `text` whose dependencies are kept."""
    calls = [n.value for n in ast.parse(text).body if isinstance(n, ast.Expr)]
    return [
        c for c in calls if isinstance(c, ast.Call) and getattr(c.func, "id", "") in TEST_MACROS
    ]


def _sources(call: ast.Call) -> list[str]:
    """The files of a target: those of a library or a test, and the table of its cases."""
    values = {
        k.arg: ast.literal_eval(k.value)
        for k in call.keywords
        if k.arg in ("name", "srcs", "cases")
    }
    sources = values.get("srcs") or [f"{values['name']}_test.py"]
    return sources + ([values["cases"]] if "cases" in values else [])


def _libraries(calls: list[ast.Call]) -> dict[str, str]:
    """The labels of the libraries of modules that tests share, by the names of the modules."""
    labels = {}
    for call in calls:
        if call.func.id == "jax_py_library":
            (name,) = [ast.literal_eval(k.value) for k in call.keywords if k.arg == "name"]
            labels.update({Path(s).stem: f":{name}" for s in _sources(call) if "/" not in s})
    return labels


def unlisted_libraries(folder: Path, text: str, facts: SourceFacts) -> list[Path]:
    """Returns the modules that tests share and that have no target in a BUILD file's `text`."""
    calls = _calls(text)
    listed = _libraries(calls)
    found: set[Path] = set()
    pending = [[folder / source for source in _sources(call)] for call in calls]
    while pending:
        sources = pending.pop()
        names = set().union(*(facts.read(file, file.stem, texts=True)[1] for file in sources))
        for first in {name.split(".")[0] for name in names} - listed.keys():
            shared = folder / f"{first}.py"
            if shared.exists() and shared not in found and shared not in sources:
                found.add(shared)
                pending.append([shared])
    return sorted(found)


def _new_library(file: Path) -> str:
    # buildifier sees the macros' names; the test's target has a suffix.
    is_tested = file.with_name(f"{file.stem}_test.py").exists()
    comment = "# buildifier: disable=duplicated-name\n" if is_tested else ""
    return (
        f'\n{comment}jax_py_library(\n    name = "{file.stem}",\n    testonly = True,\n'
        f'    srcs = ["{file.name}"],\n    imports = ["."],\n)\n'
    )


def unlisted_tests(folder: Path, text: str) -> list[Path]:
    """Returns the test files that have no target in a BUILD file's `text`."""
    names = {file: file.name.removesuffix("_test.py") for file in sorted(folder.glob("*_test.py"))}
    return [
        file
        for file, name in names.items()
        if name not in OF_THE_CHECKOUT and f'    name = "{name}",' not in text
    ]


def _new_test(file: Path) -> str:
    name = file.name.removesuffix("_test.py")
    lines = ["", "jax_multiplatform_test(", f'    name = "{name}",']
    aot = name.startswith("aot_")  # compiles for absent devices
    marks = re.findall(r'pytest\.mark\.aot\("(tpu|cuda)"', file.read_text())
    kinds = sorted({f"{mark}_compile" for mark in marks} or {"cuda_compile", "tpu_compile"})
    if aot or marks:
        kinds = kinds if aot else ["cpu", "gpu", "tpu", *kinds]
        lines += ["    backends = [", *(f'        "{kind}",' for kind in kinds), "    ],"]
    for kind in ("cases", "scenarios"):
        if (file.parent / f"{name}_{kind}.py").exists():
            lines.append(f'    cases = "{name}_{kind}.py",')
    if aot:
        lines.append('    data = glob(["testdata/*.textproto"]),')
    return "\n".join([*lines, ")", ""])


def _test_dependencies(path: Path, own: dict[str, str], facts: SourceFacts) -> Iterator[str]:
    """The targets that a file needs besides those of `jax`, which `_Needs` finds."""
    if "native.extension" in path.read_text():  # else it would be compiled in the test
        yield "//jaxlib:jaxlib_ext"
    _, names = facts.read(path, path.stem, texts=True)
    for name in names:
        first = name.split(".")[0]
        if first in own:
            yield own[first]
        elif first not in sys.stdlib_module_names and first not in OPTIONAL | {"__future__", "jax"}:
            # Skip programs of the checkout, which tests find by their folder.
            places = [ROOT / folder / first for folder in PROGRAMS]
            if not any(p.is_dir() or p.with_suffix(".py").exists() for p in places):
                yield _external(first)


def _generated(root: Path) -> Iterator[Path]:
    for path in (root / "jax").rglob("BUILD.bazel"):
        if not any(part.startswith(".") for part in path.relative_to(root).parts):
            yield path


def _content(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
