"""Profile-guided latency estimation: programs are compiled again with latencies of their first runs."""

import warnings

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import compilation_cache, compiler, config, lib
from jax._src.profiler import PGLEProfiler, latencies

MEASURED = b"latencies"


@pytest.fixture
def measured(monkeypatch):
    """CPUs report no latencies: stand-ins for them; a profile is what the aggregation returns."""
    monkeypatch.setattr(lib.profiler, "get_fdo_profile", lambda data: MEASURED)
    asked = []

    def aggregate(profiles, percentile):
        asked.append((len(profiles), percentile))
        return b"%d runs" % len(profiles)

    monkeypatch.setattr(lib.profiler, "aggregate_profiled_instructions", aggregate)
    return asked


@pytest.fixture
def profiles(monkeypatch):
    """The profiles that programs are compiled with, in order."""
    found = []
    original = compiler.backend_compile_and_load

    def compile_and_load(backend, module, devices, options, callbacks):
        found.append(options.executable_build_options.fdo_profile)
        # XLA's compiler for CPUs has no use for a profile
        options.executable_build_options.fdo_profile = b""
        return original(backend, module, devices, options, callbacks)

    monkeypatch.setattr(compiler, "backend_compile_and_load", compile_and_load)
    return found


@pytest.fixture
def pgle():
    with config.enable_pgle(True), config.pgle_profiling_runs(2):
        yield


X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def function():
    return jax.jit(lambda x: {"y": jnp.sin(x).sum(), "n": 2 * x})


def test_compiled_again_after_the_runs(measured, profiles, pgle):
    f = function()
    sizes = []
    with config.pgle_aggregation_percentile(75):
        for _ in range(5):
            np.testing.assert_allclose(f(X)["y"], np.sin(X).sum(), rtol=1e-6)
            sizes.append(f._cache_size())
    assert profiles == [b"", b"2 runs"]
    assert measured == [(2, 75)]
    assert sizes == [0, 0, 1, 1, 1]  # then calls are native
    f(X[:1])  # another program
    assert profiles == [b"", b"2 runs", b""]


def test_gradients_and_operations_are_measured_too(measured, profiles, pgle):
    g = jax.jit(jax.grad(lambda x: jnp.sin(x).sum()))
    for _ in range(4):
        np.testing.assert_allclose(g(X), np.cos(X), rtol=1e-6)
    assert profiles == [b"", b"2 runs"]
    x = np.ones((1, 7, 1, 13), np.float32)  # a shape for which no other test compiles the operation
    for _ in range(4):
        jax.lax.tan(x)
    assert profiles[2:] == [b"", b"2 runs"]


def test_without_latencies(profiles, pgle):
    f = function()
    with pytest.warns(RuntimeWarning, match="PGLE collected an empty trace.*CPUs report no"):
        f(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        f(X)
        f(X)
    assert profiles == [b""]  # there is nothing to compile with
    assert f._cache_size() == 1


def test_no_runs_to_measure(measured, profiles, pgle):
    with config.pgle_profiling_runs(0):
        f = function()
        f(X)
        assert f._cache_size() == 1
    assert profiles == [b""]


def test_runs_during_a_trace_do_not_count(measured, profiles, pgle, tmp_path):
    f = function()
    with jax.profiler.trace(tmp_path):
        for _ in range(4):
            f(X)
    assert profiles == [b""] and list(tmp_path.glob("plugins/profile/*"))
    for _ in range(3):
        f(X)
    assert profiles == [b"", b"2 runs"]


def test_failing_run(measured, profiles, pgle):
    f = jax.jit(lambda x: jax.pure_callback(fail, x, x))
    with pytest.raises(jax.errors.JaxRuntimeError, match="on purpose"):
        f(X)
    assert not latencies.tracing._lock.locked()


def fail(x):
    raise ValueError("on purpose")


def test_persistent_cache(measured, profiles, tmp_path, monkeypatch):
    settings = dict(
        jax_compilation_cache_dir=str(tmp_path),
        jax_persistent_cache_min_compile_time_secs=0.0,
        jax_persistent_cache_min_entry_size_bytes=-1,
    )
    before = {name: jax.config.read(name) for name in settings}
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        with config.compilation_cache_expect_pgle(True):
            function()(X)  # an empty folder: no warning
            jax.clear_caches()
            with pytest.warns(UserWarning, match="PERSISTENT CACHE MISS for PGLE-optimized jit_"):
                function()(X)
        with config.enable_pgle(True), config.pgle_profiling_runs(1):
            jax.clear_caches()
            f = function()
            for _ in range(3):
                f(X)
            assert profiles == [b"", b"1 runs"]
            assert len(list(tmp_path.glob("*-cache"))) == 2
            jax.clear_caches()
            f = function()  # the optimized program is there: nothing is measured
            f(X)
            assert f._cache_size() == 1
        with config.compilation_cache_expect_pgle(True), warnings.catch_warnings():
            warnings.simplefilter("error")
            jax.clear_caches()
            function()(X)
        assert len(profiles) == 2 and len(measured) == 1
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


def test_profiler_by_hand(measured):
    profiler = PGLEProfiler(2, 90)
    state = lambda: (profiler.is_enabled(), profiler.is_running(), profiler.is_fdo_consumed())
    assert profiler.consume_fdo_profile() is None
    for _ in range(2):
        with PGLEProfiler.trace(profiler):
            assert state() == (True, True, False)
        assert state() == (True, False, False)
    assert profiler.consume_fdo_profile() == b"2 runs"
    assert state() == (True, False, True)
    with PGLEProfiler.trace(profiler):
        assert state() == (True, False, True)
    assert profiler.consume_fdo_profile() == b"2 runs"
    profiler.disable()
    assert not profiler.is_enabled()
    with PGLEProfiler.trace(None):
        pass


def test_processes_share_latencies(monkeypatch):
    store = {}

    class Client:
        key_value_set_bytes = staticmethod(store.__setitem__)
        blocking_key_value_get_bytes = staticmethod(lambda key, wait: store[key])

    class Device:
        def __init__(self, process_index):
            self.process_index = process_index

    state = latencies.distributed_state
    monkeypatch.setattr(state, "client", Client)
    devices = [Device(0), Device(1)]
    monkeypatch.setattr(latencies, "_times_shared", latencies.Counter())
    assert latencies.shared_profile(b"own", "f", devices) == b"own"
    assert latencies.shared_profile(b"", "f", devices) == b""
    monkeypatch.setattr(state, "process_id", 1)
    monkeypatch.setattr(latencies, "_times_shared", latencies.Counter())
    assert latencies.shared_profile(b"other", "f", devices) == b"own"
    assert latencies.shared_profile(b"other", "f", devices) == b""
    assert latencies.shared_profile(b"alone", "g", devices[1:]) == b"alone"
