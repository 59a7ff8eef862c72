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
