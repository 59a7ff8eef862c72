"""cuDNN's attention, compiled for two hosts of eight GPUs."""

import re

import aot_programs
import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src.cudnn.fused_attention_stablehlo import paged_attention
from jax.sharding import NamedSharding, PartitionSpec as P

pytestmark = pytest.mark.aot("cuda")


def struct(shape, sharding):
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding)


def gradient(*args):
    def total(*args):
        out = jax.nn.dot_product_attention(*args, implementation="cudnn")
        return out.astype(jnp.float32).sum()

    return jax.grad(total, tuple(range(len(args))))(*args)


@pytest.mark.parametrize(
    "spec, key_heads, shard, gathers",
    [
        (P("x", None, "y"), 8, "8,64,1,32", 0),
        (P(("x", "y")), 8, "1,64,8,32", 0),
        (P("x", None, "y"), 2, "8,64,8,32", 1),  # fewer heads of keys than shards
        (P("x", "y"), 8, "8,64,8,32", 1),
    ],
)  # fmt: skip
def test_partitioned(spec, key_heads, shard, gathers):
    """Shards along batch and heads are computed where they are."""
    mesh = aot_programs.mesh_of("h100")
    query = struct((16, 64, 8, 32), NamedSharding(mesh, spec))
    key_spec = spec if key_heads == 8 else P(spec[0])
    key = struct((16, 64, key_heads, 32), NamedSharding(mesh, key_spec))
    bias = struct((1, 8, 64, 64), NamedSharding(mesh, P()))
    compiled = jax.jit(gradient).lower(query, key, key, bias).compile()
    text = compiled.as_text()
    lines = re.findall(r".* custom-call\(.*__cudnn\$fmha.*", text)
    assert len(lines) == 2
    assert all(f"operand_layout_constraints={{bf16[{shard}]" in line for line in lines)
    assert bool(re.search(r"all-gather", text)) == bool(gathers)
    # The shards' gradients of the bias are added up.
    assert re.search(r"all-reduce", text)
    assert np.shape(compiled.output_shardings) == (4,)


@pytest.mark.parametrize("spec", [P(None, None, "y"), P("x", None, "y")])
def test_pages_are_partitioned_along_heads(spec):
    mesh = aot_programs.mesh_of("h100")
    replicated = NamedSharding(mesh, P())
    query = struct((4, 64, 8, 32), NamedSharding(mesh, spec))
    pages = struct((16, 16, 8, 32), NamedSharding(mesh, P(None, None, "y")))
    lengths = jax.ShapeDtypeStruct((4,), jnp.int32, sharding=replicated)
    table = jax.ShapeDtypeStruct((4, 1, 4, 1), jnp.int32, sharding=replicated)
    arguments = query, pages, pages, lengths, lengths, table, table
    text = jax.jit(paged_attention).lower(*arguments).compile().as_text()
    (call,) = re.findall(r".* custom-call\(.*__cudnn\$fmha.*", text)
    assert "operand_layout_constraints={bf16[4,64,1,32]{3,2,1,0}, bf16[16,16,1,32]" in call
    assert bool(re.search("all-gather", text)) == (spec[0] is not None)
