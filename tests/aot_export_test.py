"""Exported modules for four platforms at once, compiled for a TPU and a GPU that are not there."""

import numpy as np
import pytest
from aot_programs import topology
from export_programs import GROUPS, arguments as program_arguments, exported, gradient
from export_rows import PLATFORMS, arguments, is_refused
from primitive_rows import ROWS

import jax
import jax.numpy as jnp
from jax import export
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

pytestmark = pytest.mark.aot


def device(platform):
    return topology("v5e:2x2" if platform == "tpu" else "h100").devices[0]


def compiled(program, args, platform):
    """The text of a compiled call."""
    sharding = SingleDeviceSharding(device(platform))
    types = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in args]
    return jax.jit(program.call).lower(*types).compile().as_text()


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
@pytest.mark.parametrize("name", [n for n in GROUPS["platforms"] if n != "two"])
def test_programs(name, platform):
    fun, args, options = GROUPS["platforms"][name]
    program = export.deserialize(exported(fun, args, options).serialize())
    text = compiled(program, program_arguments(args), platform)
    assert "ENTRY" in text
    if name == "platform":
        assert "cosine" in text and "sine(" not in text.replace("cosine(", "")


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
@pytest.mark.parametrize("platform", ["tpu", "cuda"])
@pytest.mark.parametrize(
    "row", [r for r in ROWS if not is_refused(r, PLATFORMS)], ids=lambda r: r.name
)
def test_primitives(row, platform):
    if platform == "tpu" and row.name.startswith("select_and_scatter"):
        pytest.skip("the TPU's compiler has no windows over the last two dimensions")
    args = arguments(row)
    program = export.export(jax.jit(row.call), platforms=PLATFORMS)(*args)
    compiled(program, args, platform)


# Groups whose programs are compiled together, with their derivatives. Those of the other two are above.
TOGETHER = [g for g in GROUPS if g not in ("platforms", "primitives", "sharded")]


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
@pytest.mark.parametrize("group", TOGETHER)
def test_groups(group, platform):
    programs = {}
    for name, (fun, args, options) in GROUPS[group].items():
        if options.get("x64") or (group, name) == ABSENT:
            continue
        program = exported(fun, args, options | {"platforms": PLATFORMS})
        data = program.serialize(options.get("vjp_order", 0))
        programs[name] = export.deserialize(data), program_arguments(args), options

    def all_of_them(values):
        outs = {}
        for name, (program, _, options) in programs.items():
            outs[name] = [program.call(*values[name])]
            if options.get("vjp_order"):
                outs[name].append(gradient(program, values[name]))
        return outs

    sharding = SingleDeviceSharding(device(platform))
    typed = lambda a: jax.ShapeDtypeStruct(jnp.shape(a), jnp.result_type(a), sharding=sharding)
    types = jax.tree.map(typed, {name: args for name, (_, args, _) in programs.items()})
    text = jax.jit(all_of_them).lower(types).compile().as_text()
    assert programs and "ENTRY" in text


# TPUs have no rule for it, and programs are exported for all platforms.
ABSENT = ("linalg", "eigvals")


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
@pytest.mark.parametrize("name", [n for n, (*_, o) in GROUPS["dtypes"].items() if o.get("x64")])
def test_types_of_64_bits(name, platform):
    fun, args, options = GROUPS["dtypes"][name]
    with jax.enable_x64(True):
        program = exported(fun, args, options | {"platforms": PLATFORMS})
        assert compiled(program, args, platform)


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
@pytest.mark.parametrize("name", GROUPS["sharded"])
def test_sharded_programs(name, platform):
    fun, args, options = GROUPS["sharded"][name]
    program = export.deserialize(
        exported(fun, args, options | {"platforms": PLATFORMS}).serialize()
    )
    devices = topology("v5e:2x4" if platform == "tpu" else "h100").devices[:8]
    mesh = Mesh(np.array(devices).reshape(4, 2), ("x", "y"))
    types = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=NamedSharding(mesh, spec))
        for a, spec in zip(args, options["shardings"])
    ]
    assert "ENTRY" in jax.jit(program.call).lower(*types).compile().as_text()
