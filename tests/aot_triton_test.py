"""Kernels compiled by Triton for two generations of GPUs."""

from pathlib import Path

import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl, topologies
from jax.experimental.pallas import triton as plgpu

pytestmark = pytest.mark.aot("cuda")


def like(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def functions(x_ref, o_ref):
    x = x_ref[...]
    o_ref[...] = jnp.tanh(x) + lax.erf(x) / lax.exp(x) + x.astype(jnp.int32).astype(x.dtype)


def product(x_ref, y_ref, o_ref):
    def step(k, total):
        at = pl.ds(k * 32, 32)
        return total + jnp.dot(x_ref[:, at], y_ref[at, :], preferred_element_type=jnp.float32)

    total = lax.fori_loop(0, 2, step, jnp.zeros((32, 32)))
    o_ref[...] = jax.nn.softmax(total).astype(o_ref.dtype)


def atomics(x_ref, o_ref):
    inside = jnp.arange(16) < x_ref[0]
    old = plgpu.atomic_max(o_ref, (pl.ds(0, 16),), x_ref[...], mask=inside)
    plgpu.debug_barrier()
    plgpu.atomic_add(o_ref, (3,), jnp.cumsum(old).max())


def scoped(x_ref, o_ref):
    def add_up(sum_ref):
        sum_ref[...] = jnp.zeros_like(sum_ref)

        @pl.loop(0, x_ref[0].astype(jnp.int32))
        def _(i):
            sum_ref[...] += x_ref[pl.ds(i * 16, 16)]

        o_ref[...] = sum_ref[...]

    pl.run_scoped(add_up, pl.ANY((16,), jnp.float32))


KERNELS = {
    "functions": (functions, like(128, dtype=jnp.bfloat16), like(128, dtype=jnp.bfloat16)),
    "product": (product, like(32, 32, dtype=jnp.bfloat16), *[like(32, 64, dtype=jnp.bfloat16), like(64, 32, dtype=jnp.bfloat16)]),
    "atomics": (atomics, like(16), like(16)),
    "scoped": (scoped, like(16), like(64)),
}  # fmt: skip


@pytest.mark.parametrize("device", ["a100", "h100"])
@pytest.mark.parametrize("name", KERNELS)
def test_compiles(name, device):
    config = (Path(__file__).parent / "testdata" / f"{device}.textproto").read_text()
    topology = topologies.get_topology_desc(device, "cuda", target_config=config, topology="1x1x1")
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
    kernel, out, *args = KERNELS[name]
    args = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in args]
    compiled = jax.jit(pl.pallas_call(kernel, out, name=name)).lower(*args).compile()
    assert name in compiled.as_text()
