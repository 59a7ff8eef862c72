"""On CPUs, sums of many bfloat16 numbers are added up in float32."""

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config

pytestmark = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="a form of programs for CPUs"
)


@pytest.fixture(autouse=True)
def default_profile():
    with config.cpu_compile_profile("default"):
        yield


def numbers(*shape, dtype="bfloat16"):
    return jnp.asarray(np.random.default_rng(0).uniform(size=shape), dtype)


def is_in_float32(f, *args):
    return "f32" in jax.jit(f).lower(*args).as_text()


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_sums_are_rounded_once(axes):
    x = numbers(128, 512)
    out = jax.jit(lambda x: lax.reduce_sum(x, axes))(x)
    assert out.dtype == jnp.bfloat16
    exact = np.sum(np.asarray(x, "float64"), axes)
    np.testing.assert_allclose(np.asarray(out, "float64"), exact, rtol=2**-8)


def test_gradients_of_broadcasts_are_rounded_once():
    x = numbers(512, 128)
    out = jax.jit(jax.grad(lambda b: jnp.sum((x * b).astype("float32"))))(x[0])
    exact = np.sum(np.asarray(x, "float64"), 0)
    np.testing.assert_allclose(np.asarray(out, "float64"), exact, rtol=2**-8)


def test_batches_loops_and_derivatives():
    x = numbers(4, 64, 256)
    f = lambda x: lax.reduce_sum(x, (0,))
    exact = np.sum(np.asarray(x, "float64"), 1)
    for out in (jax.jit(jax.vmap(f))(x), jax.jit(lambda x: lax.map(f, x))(x)):
        np.testing.assert_allclose(np.asarray(out, "float64"), exact, rtol=2**-8)
    out, tangent = jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(x[0])
    np.testing.assert_array_equal(out, tangent)
    gradient = jax.jit(jax.grad(lambda x: f(x).astype("float32").sum()))(x[0])
    np.testing.assert_array_equal(gradient, np.ones_like(gradient))


def test_infinities_and_nans():
    x = numbers(64, 128).at[0, 0].set(jnp.inf).at[0, 1].set(jnp.nan)
    out = jax.jit(lambda x: lax.reduce_sum(x, (0,)))(x)
    assert out[0] == jnp.inf and jnp.isnan(out[1]) and jnp.isfinite(out[2:]).all()


def test_other_sums_are_left_alone():
    f = lambda x: lax.reduce_sum(x, (0,))
    assert is_in_float32(f, numbers(64, 128))
    assert not is_in_float32(f, numbers(8, 128))
    assert not is_in_float32(f, numbers(64, 128, dtype="float16"))
    assert not is_in_float32(lambda x: lax.reduce_max(x, (0,)), numbers(64, 128))
    exported = jax.export.export(jax.jit(f), platforms=["cpu"])(numbers(64, 128))
    assert "f32" not in exported.mlir_module()
    with config.cpu_compile_profile("original"):
        assert not is_in_float32(f, numbers(64, 128))
