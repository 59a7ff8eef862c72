"""The table of harnesses: names, types, parameters and arguments of all cases, and results of some. See op_cases.py."""

import importlib
import sys
import zlib

import numpy as np
from op_cases import Programs

import jax
from jax._src.internal_test_util import test_harnesses
from jax.extend.core import Primitive

CASES = Programs()


def is_redrawn(harness):
    """Whether the reference draws an operand anew in each process."""
    return harness.group_name == "sort" and harness.params["num_arrays"] > 1


def table_for_wide_types():
    """The table as a process with 64-bit types has it."""
    # Lists of types, which the reference caches.
    vars(test_harnesses.jtu.dtypes).clear()
    package = "jax._src.internal_test_util"
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(package)}
    try:
        module = importlib.import_module(f"{package}.test_harnesses")
        return module.all_harnesses
    finally:
        sys.modules.update(kept)
        vars(test_harnesses.jtu.dtypes).clear()


def text(value):
    """What says which parameter or argument it is."""
    match type(value).__name__:  # of which a process may have several that are equal
        case "CustomArg":
            return "drawn"
        case "Limitation":
            names = value.description, value.enabled, value.devices, value.skip_run
            return f"{names} {text(value.dtypes)}"
    match value:
        case dict():
            return str({key: text(item) for key, item in value.items()})
        case tuple() | list():
            return f"{type(value).__name__}({', '.join(map(text, value))})"
        case np.ndarray():
            return f"{value.dtype}{value.shape}{value.tolist()}"
        case np.dtype() | type():
            return np.dtype(value).name
        case Primitive() | str() | int() | float() | None | np.generic():
            return str(value)
    return "function" if callable(value) else repr(value)


def description(harness):
    arguments = harness.arg_descriptors[is_redrawn(harness) :]
    parts = harness.dtype, arguments, harness.params, list(harness.jax_unimplemented)
    return f"{harness.fullname} {harness.rng_factory.__name__} {text(parts)}"


def by_group(harnesses):
    """By group the number of cases, and a digest of their descriptions in any order."""
    groups = {}
    for harness in harnesses:
        groups.setdefault(harness.group_name, []).append(description(harness))
    return {
        name: f"{len(texts)} {zlib.crc32(chr(10).join(sorted(texts)).encode()):08x}"
        for name, texts in groups.items()
    }


@CASES.define
def cases():
    return by_group(test_harnesses.all_harnesses)


@CASES.define(x64=True)
def cases_of_wide_types():
    return by_group(table_for_wide_types())


def drawn(harness):
    return harness.dyn_args_maker(np.random.RandomState(42))


def some(harnesses, number):
    """Some of the harnesses, which are the same however they are ordered."""
    return sorted(harnesses, key=lambda h: zlib.crc32(h.fullname.encode()))[:number]


@CASES.define
def drawn_arguments():
    digests = {}
    for harness in some(test_harnesses.all_harnesses, 500):
        if not is_redrawn(harness):
            arrays = [np.asarray(x) for x in jax.tree.leaves(drawn(harness))]
            data = b"".join(array.tobytes() for array in arrays)
            shapes = [(array.dtype.name, array.shape) for array in arrays]
            digests[harness.fullname] = f"{shapes} {zlib.crc32(data):08x}"
    return digests


def usable(harness):
    if is_redrawn(harness) or not harness.filter("cpu"):
        return False
    sizes = [np.prod(a.shape) for a in harness.arg_descriptors if hasattr(a, "shape")]
    return "64" not in np.dtype(harness.dtype).name.replace("complex64", "") and sum(sizes) < 1500


def results(part):
    """By name the results of one case of each group, of two if it has many."""
    groups = {}
    for harness in test_harnesses.all_harnesses:
        if usable(harness):
            groups.setdefault(harness.group_name, []).append(harness)
    chosen = []
    for name in sorted(groups)[part::4]:
        chosen += some(groups[name], 1 + (len(groups[name]) > 30))

    @jax.jit
    def run(arguments):
        outputs = [h.dyn_fun(*args) for h, args in zip(chosen, arguments, strict=True)]
        return {h.fullname: jax.tree.leaves(out) for h, out in zip(chosen, outputs, strict=True)}

    return run([drawn(h) for h in chosen])


for part in range(4):
    CASES.add(f"results_{part}", lambda part=part: results(part))
