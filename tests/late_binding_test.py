"""Late binding: one object of slots, each filled in once, and used only where an import would not do."""

import ast
import functools
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

from jax._src.late_binding import LateBound, late

ROOT = Path(__file__).resolve().parent.parent
SLOTS = LateBound.__slots__
BINDING_MODULE = "jax._src.late_binding"


@functools.cache
def sources():
    """The text of each module of `jax._src`. What it is parsed into is millions of objects, which are not kept."""
    found = {}
    for path in sorted((ROOT / "jax" / "_src").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text()
    return found


@functools.cache
def uses():
    """(module, slot, whether it is filled in) for each mention of `late.slot`."""
    found = []
    for module, text in sources().items():
        if not re.search(r"\blate\s*\.", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == "late" and module != BINDING_MODULE:
                    found.append((module, node.attr, isinstance(node.ctx, ast.Store)))
    return found


@functools.cache
def layer_of():
    """From the name of a part of `jax._src` to its layer; 0 is the lowest."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c for c in contracts["contracts"] if c["name"] == "Layers")["layers"]
    return {
        part: height
        for height, layer in enumerate(reversed(layers))
        for part in re.findall(r"\w+", layer)
    }


def height(module):
    return layer_of()[module.split(".")[2]]


@functools.cache
def import_graph():
    return grimp.build_graph("jax", exclude_type_checking_imports=True, cache_dir=None)


def loaded_with(owner, reader):
    """What importing `owner` loads, with the packages it is in; the reader's own are there already."""
    parents = [".".join(owner.split(".")[:n]) for n in range(3, owner.count(".") + 1)]
    loaded = {owner, *[p for p in parents if not reader.startswith(f"{p}.")]}
    return loaded.union(*map(import_graph().find_upstream_modules, loaded))


@functools.cache
def owners():
    return {slot: module for module, slot, stored in uses() if stored}


@pytest.mark.parametrize("slot", SLOTS)
def test_each_slot_is_filled_in_once_and_used(slot):
    assert [module for module, s, stored in uses() if s == slot and stored] == [owners()[slot]]
    assert [module for module, s, stored in uses() if s == slot and not stored]
    assert slot in LateBound.__annotations__
    importlib.import_module(owners()[slot])  # some modules are loaded on first use
    assert getattr(late, slot) is not None
    assert slot in re.findall(r"\w+", LateBound.__doc__)


def test_import_jax_fills_in_all_but_the_slots_of_modules_that_it_does_not_load():
    """Only functions of these modules make use of the slots necessary."""
    program = (
        "import jax\n"
        "from jax._src.late_binding import LateBound, late\n"
        "print(*[slot for slot in LateBound.__slots__ if not hasattr(late, slot)])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    modules = (
        "jax._src.state.",
        "jax._src.random.",
        "jax._src.backward_nans",
        "jax._src.shard_map",
    )
    late_ones = [s for s in SLOTS if owners()[s].startswith(modules)]
    assert run.stdout.split() == late_ones


def test_only_slots_are_used():
    assert {slot for _, slot, _ in uses()} == set(SLOTS)


@pytest.mark.parametrize("module", sorted({m for m, _, stored in uses() if not stored}))
def test_an_import_would_not_do(module):
    """The owner is on a higher layer, or imports the module that uses the slot."""
    importable = []
    for slot in {s for m, s, stored in uses() if m == module and not stored}:
        owner = owners()[slot]
        if height(owner) < height(module):
            importable.append(f"{owner}.{slot}")
        elif height(owner) == height(module) and module not in loaded_with(owner, module):
            importable.append(f"{owner}.{slot}")
    assert importable == []


def test_nothing_else_is_bound_late():
    """No module fills in a name of another module, or a list made for one value to come."""
    found = []
    for module, text in sources().items():
        tree = ast.parse(text)
        imported = {
            (alias.asname or alias.name).split(".")[0]
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jax._src")
            for alias in node.names
            if f"{node.module}.{alias.name}" in sources()
        }
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                    if isinstance(target.value, ast.Name) and target.slice.value == 0:
                        found.append((module, node.lineno))
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    if target.value.id in imported:
                        found.append((module, node.lineno))
    # Libraries look for the first in `ad_util`, where there are no primitives of `lax` otherwise. The second is told
    # of events, which nobody asks for but tests.
    assert [m for m, _ in found] == ["jax._src.lax.lax.convert", "jax._src.test_util.counting"]


def test_a_slot_is_filled_in_only_once():
    binding = LateBound()
    binding.add_any = max
    assert binding.add_any(1, 2) == 2
    with pytest.raises(AttributeError, match="'add_any' has been filled in already"):
        binding.add_any = min


def test_an_empty_slot_says_so():
    with pytest.raises(AttributeError, match="'add_any' is not filled in yet"):
        LateBound().add_any(1, 2)


def test_unknown_names():
    with pytest.raises(AttributeError, match="no late-bound operation 'add_all'"):
        _ = LateBound().add_all
    with pytest.raises(AttributeError):
        LateBound().add_all = max
