"""Broadcasts in gradients on CPU share no memory with those of the forward pass."""

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config
from jax.sharding import NamedSharding, PartitionSpec as P

if not jax._src.xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

pytestmark = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="a form of programs for CPUs"
)


@pytest.fixture(autouse=True)
def default_profile():
    with config.cpu_compile_profile("default"):
        yield


def normalized(x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5)


def derivative(f):
    return jax.grad(lambda x: jnp.sum(jnp.sin(f(x)), dtype=x.dtype))


def rows(*shape, dtype="float32"):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), dtype)


def barriers(f, *args):
    return jax.jit(f).lower(*args).as_text().count("optimization_barrier")


def test_results_are_those_of_the_profile_original():
    x = rows(256, 512)
    out = jax.jit(derivative(normalized))(x)
    with config.cpu_compile_profile("original"):
        assert barriers(derivative(normalized), x) == 0
        expected = jax.jit(derivative(normalized))(x)
    assert barriers(derivative(normalized), x) > 0
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=2e-6)


def test_the_gradient_of_a_normalization_needs_less_memory():
    def loss(x, scale):
        return jnp.sum(normalized(x) * scale * cotangent)

    def memory():
        program = jax.jit(jax.grad(loss, (0, 1))).lower(x, x[0]).compile()
        return program.memory_analysis().temp_size_in_bytes

    x, cotangent = rows(2, 1024, 512)
    ours = memory()
    with config.cpu_compile_profile("original"):
        assert ours <= memory() - 0.9 * x.nbytes


def scaled(x):
    return x / jnp.sqrt(jnp.square(x).mean(-1, keepdims=True) + 1)


def repeated(x):
    return lax.scan(lambda x, _: (normalized(x), None), x, length=3)[0]


@pytest.mark.parametrize(
    "f",
    [
        derivative(scaled),
        derivative(repeated),
        derivative(jax.checkpoint(normalized)),
        jax.vmap(derivative(normalized)),
        lambda x: jax.jvp(derivative(normalized), (x,), (x,)),
    ],
    ids=["quotient", "loop", "checkpoint", "batch", "second_order"],
)
def test_where_gradients_are_taken(f):
    x = rows(8, 64, 256)
    assert barriers(f, x) > 0
    out = jax.jit(f)(x)
    with config.cpu_compile_profile("original"):
        expected = jax.jit(f)(x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), out, expected)


@pytest.mark.parametrize(
    "f, x",
    [
        (derivative(normalized), rows(16, 64)),
        (derivative(normalized), rows(1 << 14, 4)),
        (derivative(scaled), rows(256, 512, dtype="bfloat16")),
        (normalized, rows(256, 512)),
    ],
    ids=["small", "short_rows", "bfloat16", "forward"],
)
def test_other_broadcasts_are_left_alone(f, x):
    assert barriers(f, x) == 0


def test_a_product_of_matrices_is_left_alone():
    f = lambda s, x, y: jax.linear_transpose(lambda z: (z * s) @ y, x)(x)
    x = rows(512, 512)
    assert barriers(f, x[:, :1], x, x) == 0


def test_exported_and_partitioned_programs_are_left_alone():
    x = rows(256, 512)
    exported = jax.export.export(jax.jit(derivative(normalized)), platforms=["cpu"])(x)
    assert "optimization_barrier" not in exported.mlir_module()
    if len(jax.devices()) == 8:
        mesh = jax.make_mesh((8,), ("x",))
        assert barriers(derivative(normalized), jax.device_put(x, NamedSharding(mesh, P("x")))) == 0
