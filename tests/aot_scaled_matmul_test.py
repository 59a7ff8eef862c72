"""Products of block-scaled matrices, compiled for two hosts of eight GPUs."""

import re
from pathlib import Path

import pytest

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec as P

pytestmark = pytest.mark.aot("cuda")
MXFP8, NVFP4 = (
    (jnp.float8_e4m3fn, jnp.float8_e8m0fnu, 32),
    (jnp.float4_e2m1fn, jnp.float8_e4m3fn, 16),
)


def compiled(name, lhs=P(), rhs=P(), out=None, formats=MXFP8):
    config = (Path(__file__).parent / "testdata" / f"{name}.textproto").read_text()
    options = dict(target_config=config, topology="1x2x8")
    topology = topologies.get_topology_desc(name, "cuda", **options)
    mesh = topologies.make_mesh(topology, (2, 8), ("x", "y"))
    dtype, scale, block = formats

    def struct(rows, spec, size, dtype):
        return jax.ShapeDtypeStruct((16, rows, size), dtype, sharding=NamedSharding(mesh, spec))

    args = [
        struct(rows, spec, *kind)
        for kind in ((512, dtype), (512 // block, scale))
        for rows, spec in ((128, lhs), (256, rhs))
    ]
    fun = lambda *args: jax.nn.scaled_matmul(*args, jnp.bfloat16)
    options = {} if out is None else dict(out_shardings=NamedSharding(mesh, out))
    return jax.jit(fun, **options).lower(*args).compile()


@pytest.mark.parametrize("formats", [MXFP8, NVFP4])
def test_kernels(formats):
    """Blackwell has units for these formats; for Hopper, the compiler scales the operands up."""
    assert "__cudnn$blockScaledDot" in compiled("b200", formats=formats).as_text()
    text = compiled("h100", formats=formats).as_text()
    assert "__cudnn$blockScaledDot" not in text and "__op$block_scaled_dot" not in text


@pytest.mark.parametrize(
    "lhs, rhs, out, shard, collectives",
    [
        (P("y"), P("y"), None, "2,128,256", set()),
        (P("y"), P(), None, "2,128,256", set()),  # the reference fails here
        (P("x", "y"), P("x"), None, "8,16,256", set()),
        (P(None, "x"), P(None, "y"), None, "16,64,32", set()),
        (P(None, None, "y"), P(None, None, "y"), None, "16,128,256", {"all-reduce"}),
        (P(None, None, "y"), P(), None, "16,128,256", {"all-gather"}),
        (P(), P(), P("x", None, "y"), "8,128,32", set()),
        (P("x", "y"), P("x", "y"), None, "8,128,32", {"all-gather"}),
        (P("x", "y"), P("x", "y"), P("x", "y"), "8,16,256", {"all-gather"}),
    ],
)  # fmt: skip
def test_partitioned(lhs, rhs, out, shard, collectives):
    """Shards of the batch, rows, columns and blocks are multiplied where they are."""
    text = compiled("b200", lhs, rhs, out).as_text()
    # cuDNN's kernel pads rows and columns to multiples of 128.
    padded = [int(d) for d in shard.split(",")]
    padded[1:] = [-(-d // 128) * 128 for d in padded[1:]]
    ((batch, rows, columns),) = re.findall(
        r"= \(bf16\[(\d+),(\d+),(\d+)\].*__cudnn\$blockScaledDot", text
    )
    assert [int(batch), int(rows), int(columns)] == padded
    found = re.findall(r" (all-gather|all-reduce|all-to-all|collective-permute)(?:-start)?\(", text)
    assert set(found) == collectives
