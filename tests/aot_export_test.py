"""Exported modules for four platforms at once, compiled for a TPU and a GPU that are not there."""

import re

import pytest
from aot_programs import topology
from export_programs import GROUPS, arguments as program_arguments, exported
from export_rows import PLATFORMS, arguments, is_refused
from primitive_rows import ROWS

import jax
from jax import export
from jax.sharding import SingleDeviceSharding

pytestmark = pytest.mark.aot


def device(platform):
    return topology("v5e:2x2" if platform == "tpu" else "h100").devices[0]


def compiled(program, args, platform):
    """The text of a compiled call; None if it needs the vendor's package of native functions."""
    sharding = SingleDeviceSharding(device(platform))
    types = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in args]
    try:
        return jax.jit(program.call).lower(*types).compile().as_text()
    except jax.errors.JaxRuntimeError as err:
        if platform == "cuda" and re.search("No FFI handler registered for cu[a-z]*_", str(err)):
            return None
        raise


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
@pytest.mark.parametrize("name", [n for n in GROUPS["platforms"] if n != "two"])
def test_programs(name, platform):
    fun, args, options = GROUPS["platforms"][name]
    program = export.deserialize(exported(fun, args, options).serialize())
    text = compiled(program, program_arguments(args), platform)
    assert (text is None) == (name == "cholesky" and platform == "cuda")
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
