"""cuDNN's attention, compiled for two hosts of eight GPUs."""

import re

import aot_programs
import numpy as np
import pytest

import jax
import jax.numpy as jnp
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
