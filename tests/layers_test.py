"""The rules of the code base that a tool can check: layers, style, what `import jax` may load, what is installed."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAZY = (
    "scipy",
    "rich",
    "matplotlib",
    "opt_einsum",
    "hashlib",
    "json",
    "jaxlib.mlir.dialects",
    "jax.export",
    "jax.experimental",
    "jax.profiler",
    "jax.distributed",
    "jax._src.distributed",
    "jax._src.tree_util.flat_tree",
    "jax._src.ad_checkpoint",
    "jax._src.clusters",
    "jax._src.debugging",
    "jax._src.interpreters.mlir.module",
    "jax._src.interpreters.pxla.lowering",
    "jax._src.lax.control_flow.scans",
    "jax._src.lax.convolution",
    "jax._src.lax.parallel.gathers",
    "jax._src.lax.special",
    "jax._src.lax.windowed_reductions",
    "jax._src.launch",
    "jax._src.multihost_utils",
    "jax._src.pallas",
)


def call(*command):
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def test_imports_go_down_the_layers():
    status, output = call(str(Path(sys.executable).parent / "lint-imports"), "--no-cache")
    assert status == 0, output[output.find("Contracts") :]


@pytest.mark.parametrize("command", [("check",), ("format", "--check")])
def test_ruff(command):
    status, output = call(sys.executable, "-m", "ruff", *command, "--no-cache", ".")
    assert status == 0, output


def test_types_of_core_and_interpreters(tmp_path):
    status, output = call(sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path))
    assert status == 0, output


def test_import_loads_only_what_most_programs_use():
    program = "import sys, jax, jax.numpy; print(*sorted(sys.modules))"
    status, output = call(sys.executable, "-c", program)
    assert status == 0, output
    loaded = output.split()
    assert [
        name for name in LAZY if any(m == name or m.startswith(f"{name}.") for m in loaded)
    ] == []
    # array_api_compat takes arrays for JAX's by types of modules that it finds loaded.
    assert {"jax", "jax.core", "jax.numpy"} <= set(loaded)


LATE_NAMES = """
import importlib, pkgutil, sys
import jax
package = importlib.import_module(sys.argv[1])
late = set(dir(package)) - set(vars(package))
modules = {m.name for m in pkgutil.iter_modules(package.__path__)} | getattr(package, "_lazy_modules", set())
for name in sorted(late - modules):
    value = getattr(package, name)
    assert vars(package)[name] is value, f"{name} is loaded again at each use"
    print(name)
"""


@pytest.mark.parametrize(
    "package",
    [
        "jax",
        "jax.lax",
        "jax.numpy",
        "jax._src.custom_derivatives",
        "jax._src.interpreters.mlir",
        "jax._src.interpreters.pxla",
        "jax._src.lax.control_flow",
        "jax._src.lax.parallel",
    ],
)
def test_tools_see_the_names_that_are_loaded_late(package):
    """The imports under TYPE_CHECKING are those that `__getattr__` makes."""
    status, output = call(sys.executable, "-c", LATE_NAMES, package)
    assert status == 0, output
    tree = ast.parse((ROOT / package.replace(".", "/") / "__init__.py").read_text())
    blocks = [
        node.body
        for node in tree.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    imported = [
        f"{node.module}.{alias.name}" for block in blocks for node in block for alias in node.names
    ]
    names = {name.rpartition(".")[2] for name in imported} - {"debug"}  # a module
    assert names == set(output.split())
    folder = ROOT / package.replace(".", "/")
    assert not [name for name in names if (folder / f"{name}.py").exists()]
    late = importlib.import_module(package)
    for name in imported:
        module, _, attribute = name.rpartition(".")
        if attribute in names:
            value = getattr(importlib.import_module(module), attribute)
            assert getattr(late, attribute) is value, name


MISSING_NAMES = """
import ast, importlib, pathlib, types, warnings
warnings.simplefilter("ignore")
import jax
root = pathlib.Path(jax.__path__[0])
for path in sorted((root / "_src").rglob("*.py")):
    parts = path.relative_to(root.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            value = vars(module).get(node.value.id)
            ours = isinstance(value, types.ModuleType) and value.__name__.startswith("jax.")
            if ours and not hasattr(value, node.attr):
                print(f"{path}:{node.lineno}: {node.value.id}.{node.attr}")
"""


def test_modules_have_the_names_that_others_take_from_them():
    """Two changes that merge without a conflict may take away and use the same function."""
    status, output = call(sys.executable, "-c", MISSING_NAMES)
    assert status == 0 and output == "", output


@pytest.mark.parametrize("package", ["jax.lax", "jax.numpy"])
def test_star_imports_have_the_names_that_are_loaded_late(package):
    namespace = {}
    exec(f"from {package} import *", namespace)
    public = {n for n in dir(importlib.import_module(package)) if not n.startswith("_")}
    assert public <= set(namespace)


def test_stored_results_are_of_the_tables_as_they_are():
    status, output = call(sys.executable, "tests/oracle_results.py", "--check")
    assert status == 0, f"{output}python3 build/build.py oracle --update makes them anew"


def test_nothing_shadows_the_packages_of_others():
    for folder in ("jaxlib", "jax_plugins"):
        assert (ROOT / folder / "README.md").exists()
        assert not (ROOT / folder / "__init__.py").exists()


def test_one_version():
    version = re.search(r'^__version__ = "(.*)"', (ROOT / "jax/version.py").read_text(), re.M)[1]
    assert f'version = "{version}"' in (ROOT / "MODULE.bazel").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "jaxlib>=0.10.2,<0.13" in project["dependencies"]
    assert project["requires-python"] == ">=3.11"


def test_every_option_has_a_reader_or_says_that_it_has_no_effect():
    from jax._src import config

    folder = ROOT / "jax"
    sources = {p: p.read_text() for p in folder.rglob("*.py")}
    flags = sources.pop(folder / "_src" / "config" / "_flags.py")
    sources.pop(folder / "__init__.py")
    variables = dict(re.findall(r'^(\w+) = \w+\(\n?\s*"(\w+)"', flags, re.MULTILINE))
    text = "\n".join(sources.values())
    assert 'f"jax_{plugin_name}_visible_devices"' in text
    used = {"jax_cuda_visible_devices", "jax_rocm_visible_devices"}
    used.update(re.findall(r"config\.(\w+)", text), re.findall(r'"(\w+)(?=")', text))
    ignored = []
    for name, holder in config.config._value_holders.items():
        hook = getattr(holder, "_update_global_hook", None)
        names = {name, *(v for v, n in variables.items() if n == name)}
        if hook is None and not names & used and holder._no_effect is None:
            ignored.append(name)
    assert not ignored
