"""`jax_cpu_compile_profile`: which options programs for CPUs are compiled with."""

import contextlib

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import compiler, cpu_profile

FUSIONS = "xla_cpu_experimental_ynn_fusion_type"
CONVOLUTIONS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"

has_library = pytest.mark.skipif(
    cpu_profile._without_convolutions() is None,
    reason="this jaxlib has no library for convolutions",
)


@pytest.fixture
def profile():
    yield lambda name: jax.config.update("jax_cpu_compile_profile", name)
    jax.config.update("jax_cpu_compile_profile", "default")


def module(f, *args):
    return jax.jit(f).lower(*args).compiler_ir()


def convolve(x, w):
    return lax.scan(lambda x, _: (lax.conv(x, w, (1, 1), "SAME"), None), x, None, length=2)[0]


ARGS = np.linspace(-1, 1, 256, dtype=np.float32).reshape(1, 1, 16, 16), np.ones((1, 1, 3, 3), "f4")


@has_library
def test_options_of_convolutions(profile, monkeypatch):
    conv, other = module(convolve, *ARGS), module(jnp.sin, 1.0)
    (chosen,) = cpu_profile.options(conv, {}).items()
    assert chosen[0] == FUSIONS
    assert chosen[1] and CONVOLUTIONS not in chosen[1]
    assert cpu_profile.options(other, {"a": 1}) == {"a": 1}
    assert cpu_profile.options(conv, {FUSIONS: ""}) == {FUSIONS: ""}  # the user's wins
    profile("fast")
    assert cpu_profile.options(other, {}) == {"xla_cpu_enable_fast_math": True}
    assert cpu_profile.options(conv, {}).keys() == {FUSIONS, "xla_cpu_enable_fast_math"}
    profile("original")
    assert cpu_profile.options(conv, {}) == {}
    profile("default")
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to=a --{FUSIONS}={CONVOLUTIONS}")
    assert cpu_profile.options(conv, {}) == {}


@has_library
def test_each_profile_compiles_once_and_gives_the_same(profile):
    used = []
    listen = lambda name, executable: used.append(name)
    compiler.executable_listeners.append(listen)
    try:
        f, results = jax.jit(convolve), []
        for name in ("default", "original", "fast", "default"):
            profile(name)
            results.append(f(*ARGS))
    finally:
        compiler.executable_listeners.remove(listen)
    assert len([n for n in used if "convolve" in n]) == 3  # the last one is the first one
    for result in results[1:]:
        np.testing.assert_allclose(results[0], result, rtol=1e-5, atol=1e-5)


@has_library
def test_options_are_part_of_the_cache_key(profile, tmp_path):
    f = jax.jit(convolve)
    with enable_cache(tmp_path):
        for name, entries in (("default", 1), ("original", 2), ("default", 2)):
            profile(name)
            jax.clear_caches()
            f(*ARGS)
            assert len(list(tmp_path.iterdir())) == entries


@contextlib.contextmanager
def enable_cache(folder):
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0,
    }
    before = {name: jax.config.values[name] for name in settings}
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


def test_wrong_profile():
    with pytest.raises(ValueError, match="jax_cpu_compile_profile"):
        jax.config.update("jax_cpu_compile_profile", "slow")
