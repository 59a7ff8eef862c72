"""The vocabulary of tests itself: counters, references, environment."""

import os

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import test_util as jtu


def test_counters():
    x = jnp.float32(1)
    f = jax.jit(lambda x: x * 3.25 + 7)
    with (
        jtu.count_jit_tracing_cache_miss() as traced,
        jtu.count_jit_and_pmap_lowerings() as lowered,
    ):
        with jtu.count_jit_compilation_cache_miss() as compiled:
            f(x), f(x)
    assert (traced(), lowered(), compiled()) == (1, 1, 1)
    with jtu.count_device_put() as puts:
        jax.device_put(np.float32(2))
    assert puts() == 1
    with jtu.assert_num_jit_and_pmap_compilations(0):
        f(x)
    with pytest.raises(AssertionError, match="expected 2 compilations, got 1"):
        with jtu.assert_num_jit_and_pmap_compilations(2):
            jax.jit(lambda x: x - 3)(x)


def test_equations():
    jaxpr = jax.make_jaxpr(lambda x: jax.jit(jnp.sin)(x) * 2)(1.0)
    assert [e.primitive.name for e in jtu.iter_eqns(jaxpr.jaxpr)] == ["jit", "sin", "mul"]
    forward, backward = jtu.fwd_bwd_jaxprs(jnp.sin, 1.0)
    assert [e.primitive.name for e in forward.eqns] == ["sin", "cos"]
    assert [e.primitive.name for e in backward.eqns] == ["mul"]
    jtu.assert_dot_precision(None, jnp.dot, np.ones(3), np.ones(3))
    with pytest.raises(AssertionError, match="precision"):
        jtu.assert_dot_precision(jax.lax.Precision.HIGH, jnp.dot, np.ones(3), np.ones(3))


def test_references():
    add = jtu.promote_like_jnp(np.add)
    assert add(np.int8(1), np.float16(1)).dtype == np.float16
    assert jtu.to_default_dtype(np.arange(3)).dtype == np.int32
    mean = jtu.with_jax_dtype_defaults(lambda x: (x.sum(), x.mean()), (True, False))
    total, average = mean(np.arange(3))
    assert (total.dtype, average.dtype) == (np.int32, np.float64)
    plane = jtu.complex_plane_sample(np.complex64, 3, 2)
    assert plane.shape == (7, 9) and np.isinf(plane[0, 0]) and plane[3, 4] == 0
    assert plane.real[0, -2] == np.finfo(np.float32).max


def test_environment():
    assert jtu.numpy_version() >= (1, 26) and jtu.jaxlib_version() >= (0, 10)
    assert jtu.parse_version("1.2.3rc1") == (1, 2, 3)
    with jtu.set_env(JAX_SOME_VARIABLE="1"):
        assert os.environ["JAX_SOME_VARIABLE"] == "1"
    assert "JAX_SOME_VARIABLE" not in os.environ
    with jtu.capture_stdout() as text:
        print("hello")
    assert text() == "hello\n"
    with jtu.thread_local_config_context(jax_numpy_rank_promotion="raise"):
        assert jax.config.jax_numpy_rank_promotion == "raise"
    with pytest.raises(AssertionError, match="jax_debug_nans"):
        with jtu.assert_global_configs_unchanged():
            jax.config.update("jax_debug_nans", True)
    jax.config.update("jax_debug_nans", False)
    assert not jtu.is_device_tpu() or jtu.get_tpu_version() > 1
    assert jtu.runtime_environment() in ("pytest", "bazel")


@pytest.mark.parametrize("name", ["floating", "all_integer", "complex", "boolean"])
def test_dtypes(name):
    assert all(np.dtype(d) for d in getattr(jtu.dtypes, name))


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("name", "dtype", "values"),
    [
        ("rand_default", "float32", [-1.2502736, -0.16880049, -6.4085884, 4.9208126, -5.3803067]),
        ("rand_default", "bool", [True] * 5),
        ("rand_some_zero", "float32", [0, 0, -4.5030208, 0, 0]),
        ("rand_some_zero", "uint8", [0, 0, 4, 0, 0]),
        ("rand_some_nan", "float32", [-3.2233665, NAN, -4.5030208, 2.6807694, 2.218637]),
        ("rand_some_inf", "float32", [1.6543621, INF, 0.12461818, -3.3537762, 1.617175]),
        ("rand_positive", "float32", [1.8719897, 1.0518525, 2.0993249, 1.8706448, 1.8407357]),
        ("rand_positive", "int32", [1, 1, 2, 1, 1]),
        ("rand_int", "uint8", [168, 92, 157, 111, 15]),
        ("rand_bool", "int32", [1, 1, 0, 1, 1]),
        ("rand_uniform", "float32", [0.43599489, 0.025926232, 0.54966247, 0.4353224, 0.42036781]),
        ("rand_fullrange", "uint8", [168, 92, 157, 111, 15]),
    ],
)
def test_random_values(name, dtype, values):
    """A seed gives the values that the reference draws."""
    drawn = getattr(jtu, name)(np.random.RandomState(2))((5,), np.dtype(dtype))
    np.testing.assert_allclose(drawn, values, rtol=1e-6)
    assert drawn.dtype == dtype
