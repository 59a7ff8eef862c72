"""`jax_cpu_tiered_compilation`: quick programs first, good ones later, with the same results."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import compiler, test_util as jtu
from jax._src.config import config
from jax._src.interpreters.pxla import tiers
from jax.experimental.cpu import wait_for_optimized_programs

jax.config.parse_flags_with_absl()

pytestmark = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="only programs for CPUs are compiled twice"
)


@pytest.fixture
def levels(monkeypatch):
    """Turns tiers on, and lists with which level each program is compiled; None for the default."""
    before = {
        name: config.read(name)
        for name in ("jax_cpu_tiered_compilation", "jax_disable_most_optimizations")
    }
    config.update("jax_cpu_tiered_compilation", True)
    config.update("jax_disable_most_optimizations", False)
    monkeypatch.setattr(tiers, "MIN_OPERATIONS", 2)
    found = []
    compile_module = compiler.backend_compile_and_load

    def record(backend, module, devices, options, callbacks):
        found.append(dict(options.env_option_overrides).get("xla_backend_optimization_level"))
        return compile_module(backend, module, devices, options, callbacks)

    monkeypatch.setattr(compiler, "backend_compile_and_load", record)
    yield found
    assert wait_for_optimized_programs()
    for name, value in before.items():
        config.update(name, value)


@pytest.fixture
def gate(monkeypatch):
    """Holds the background up until it is set."""
    opened = threading.Event()
    replace = tiers._replace

    def wait(*args):
        opened.wait()
        replace(*args)

    monkeypatch.setattr(tiers, "_replace", wait)
    yield opened
    opened.set()
    assert wait_for_optimized_programs()


def test_a_program_is_replaced(levels, gate):
    f = jax.jit(lambda x: jnp.cumsum(jnp.sin(x)) @ x)
    x = np.linspace(0, 1, 40, dtype=np.float32)
    first = f(x)
    assert levels == [0] and not wait_for_optimized_programs(0.01)
    for _ in range(3):  # without native calls, and without compiling
        with jtu.count_pjit_cpp_cache_miss() as misses:
            np.testing.assert_array_equal(f(x), first)
        assert misses() == 1
    gate.set()
    assert wait_for_optimized_programs()
    assert levels == [0, None]
    f(x)
    with jtu.count_pjit_cpp_cache_miss() as misses:
        np.testing.assert_allclose(f(x), first, rtol=1e-5)
    assert misses() == 0 and levels == [0, None]


def test_derivatives_batches_and_donation(levels):
    def loss(w, x):
        return jnp.sum(jnp.tanh(x @ w) ** 2)

    step = jax.jit(lambda w, x: w - 0.1 * jax.grad(loss)(w, x), donate_argnums=0)
    batched = jax.jit(jax.vmap(loss, in_axes=(None, 0)))
    x, w = jnp.ones((5, 3)), jnp.full((3, 2), 0.1)
    config.update("jax_cpu_tiered_compilation", False)
    plain = jax.jit(lambda w, x: w - 0.1 * jax.grad(loss)(w, x))
    want_w = plain(plain(w, x), x)
    want = jax.vmap(loss, in_axes=(None, 0))(w, x[:, None])
    config.update("jax_cpu_tiered_compilation", True)
    got = batched(w, x[:, None])
    w = step(w, x)
    wait_for_optimized_programs()
    np.testing.assert_allclose(batched(w * 0 + 0.1, x[:, None]), want, rtol=1e-6)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_allclose(step(w, x), want_w, rtol=1e-6)
    assert levels.count(0) >= 2


def test_programs_compiled_ahead_of_time_are_good_ones(levels, gate):
    f = jax.jit(lambda x: x * 3 - 1)
    f(2.0)
    compiled = f.lower(2.0).compile()
    assert levels == [0, None] and compiled(2.0) == 5
    gate.set()


def test_other_programs_are_compiled_once(levels, monkeypatch):
    jax.jit(lambda x: x + 17, compiler_options={"xla_backend_optimization_level": 2})(1.0)
    two = jax.sharding.Mesh(np.array(jax.devices()[:2]), "x")
    shards = jax.NamedSharding(two, jax.P("x"))
    jax.jit(lambda x: x + 18)(jax.device_put(np.ones(2, np.float32), shards))
    monkeypatch.setattr(tiers, "MIN_OPERATIONS", 50)
    jax.jit(lambda x: jnp.sin(x) + 19)(1.0)
    assert levels == [2, None, None]


def test_programs_that_call_python(levels):
    seen = []
    f = jax.jit(lambda x: (jax.debug.callback(seen.append, x), jax.pure_callback(np.sin, x, x))[1])
    x = np.float32(0.5)
    first = f(x)
    wait_for_optimized_programs()
    np.testing.assert_allclose([first, f(x)], [np.sin(x)] * 2, rtol=1e-6)
    jax.effects_barrier()
    assert len(seen) == 2


def test_nobody_waits_for_functions_that_are_gone(levels, gate):
    f = jax.jit(lambda x: x * 5)
    f(1.0)
    f = weakref.ref(f)
    jax.clear_caches()
    gc.collect()
    gate.set()
    wait_for_optimized_programs()
    assert levels == [0]


def test_no_thread_leaves_the_quick_program(levels, monkeypatch):
    """As at the end of a process."""

    def fail(_):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", fail)
    f = jax.jit(lambda x: x * 11)
    assert float(f(1.0)) == 11 and wait_for_optimized_programs(0)
    f(2.0)
    with jtu.count_pjit_cpp_cache_miss() as misses:
        y = f(2.0)
    assert misses() == 0 and float(y) == 22 and levels == [0]


def test_the_background_has_modules_of_its_own(levels, monkeypatch):
    """For which there are no locks."""
    contexts = []
    compile_module = compiler.backend_compile_and_load

    def record(backend, module, *args):
        contexts.append((threading.current_thread().name, module.context))
        return compile_module(backend, module, *args)

    monkeypatch.setattr(compiler, "backend_compile_and_load", record)
    jax.jit(lambda x: jnp.sin(x) * 13)(1.0)
    wait_for_optimized_programs()
    (_, first), (name, second) = contexts
    assert name == "jax-tiers" and first is not second and first != second


def test_a_failure_leaves_the_quick_program(levels, gate, monkeypatch, caplog):
    f = jax.jit(lambda x: x * 7)
    assert f(1.0) == 7

    def fail(*_):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(compiler, "backend_compile_and_load", fail)
    gate.set()
    wait_for_optimized_programs()
    assert f(2.0) == 14 and "stays as it was compiled quickly: out of luck" in caplog.text
    with jtu.count_pjit_cpp_cache_miss() as misses:
        f(2.0)
    assert misses() == 0


def test_the_cache_keeps_good_programs_only(levels, tmp_path):
    options = dict(
        jax_compilation_cache_dir=str(tmp_path), jax_persistent_cache_min_compile_time_secs=0
    )
    with jtu.global_config_context(**options):
        assert float(jax.jit(lambda x: x * 9)(1.0)) == 9
        wait_for_optimized_programs()
        assert levels == [0, None]
        assert len([p for p in tmp_path.iterdir() if p.name.endswith("-cache")]) == 1
        jax.clear_caches()
        assert float(jax.jit(lambda x: x * 9)(1.0)) == 9  # found, so not compiled at all
        assert levels == [0, None]


def test_a_cache_that_cannot_be_used(levels, tmp_path):
    (tmp_path / "file").write_text("")
    with jtu.global_config_context(
        jax_compilation_cache_dir=str(tmp_path / "file" / "folder"),
        jax_persistent_cache_enable_xla_caches="none",
    ):
        with pytest.warns(UserWarning, match="Error reading the persistent compilation cache"):
            assert float(jax.jit(lambda x: x * 15)(1.0)) == 15
        wait_for_optimized_programs()
    assert levels == [0, None]


@pytest.mark.parametrize("fork", [False, True])
def test_the_end_of_a_process(fork):
    program = f"""
import os, sys
import jax, jax.numpy as jnp
from jax.experimental.cpu import wait_for_optimized_programs
fs = [jax.jit(lambda x, n=n: jnp.sort(jnp.linalg.inv(x + n))) for n in range(3)]
print(sum(int(f(jnp.eye(3)).shape[0]) for f in fs), flush=True)
if {fork} and os.fork() == 0:
    assert wait_for_optimized_programs(5)
    os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env=os.environ | {"JAX_CPU_TIERED_COMPILATION": "1", "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "9\n"), done.stderr
