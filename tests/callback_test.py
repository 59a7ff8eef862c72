"""Callbacks and debugging output beside the reference; and where this library does more."""

import gc
import logging
import subprocess
import sys
import weakref

import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import compiler, config, test_util as jtu, xla_bridge as xb
from jax.experimental import io_callback
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

if not xb.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

reference, test_reference, _ = case_tests(__file__)

F = np.float32
S = jax.ShapeDtypeStruct
X = np.arange(8, dtype=F)


@pytest.fixture
def mesh():
    devices = xb.devices("cpu")
    if len(devices) < 4:
        pytest.skip("needs 4 CPU devices")
    return Mesh(np.array(devices[:4]), "x", (AxisType.Auto,))


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    jax.effects_barrier()


def test_errors_have_the_traceback_of_the_callback():
    def fails_here(x):
        raise KeyError("what went wrong")

    for run in (jax.jit, lambda f: f):
        f = run(lambda x: jax.pure_callback(fails_here, S((), F), x))
        with pytest.raises(jax.errors.JaxRuntimeError, match="(?s)in fails_here.*what went wrong"):
            np.asarray(f(F(1)))


def test_an_error_does_not_stop_later_ordered_callbacks():
    seen = []
    fails = jax.jit(lambda x: io_callback(lambda v: 1 / 0, None, x, ordered=True))
    works = jax.jit(lambda x: io_callback(lambda v: seen.append(int(v)), None, x, ordered=True))
    with pytest.raises(jax.errors.JaxRuntimeError):
        fails(1)
        jax.effects_barrier()
    works(2)
    jax.effects_barrier()
    assert seen == [2]


def test_arguments_may_be_kept():
    kept = []
    f = jax.jit(lambda x: io_callback(lambda v: kept.append(v), None, x + 1, ordered=True))
    for i in range(3):
        f(np.full(100, i, F))
    jax.effects_barrier()
    assert [int(v[99]) for v in kept] == [1, 2, 3]


@pytest.mark.parametrize("ordered", [False, True])
def test_loops_of_a_batch_that_would_call_for_finished_elements(ordered):
    def body(c):
        io_callback(lambda c: None, None, 0.0, ordered=ordered)
        return c + 1

    f = lambda v: lax.while_loop(lambda c: c < v, body, F(0))
    with pytest.raises(NotImplementedError, match="while_loop with a mapped predicate.*lax.map"):
        jax.vmap(f)(X)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_effects_of_conditions_of_a_batch(capsys, wrap):
    def f(v):
        @wrap
        def cond(c):
            jax.debug.print("{}", c, ordered=True)
            return c < v

        def body(c):
            jax.debug.print("b", ordered=True)
            return c + 1

        return lax.while_loop(cond, body, 0)

    assert jax.vmap(f)(np.array([0, 1])).tolist() == [0, 1]
    jax.effects_barrier()
    # The condition is computed again with each step, to see which elements go on, but not printed.
    assert capsys.readouterr().out.split() == list("00b01")
    seen = []
    f = lambda v: lax.cond(True, lambda: io_callback(seen.append, None, v), lambda: None)
    jax.vmap(f)(X)
    jax.effects_barrier()
    assert len(seen) == len(X)


def test_eager_calls_compile_nothing():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "compile_or_get_cached", None)
        out = jax.pure_callback(lambda x: 2 * np.asarray(x), S((3,), F), np.ones(3, F))
    np.testing.assert_array_equal(out, np.full(3, 2))
    device = xb.devices("cpu")[-1]
    out = jax.pure_callback(lambda x: x, S((), F), jax.device_put(F(1), device))
    assert out.devices() == {device}


def test_callbacks_do_not_outlive_their_programs():
    class Callback:
        def __call__(self, x):
            return x

    def make():
        callback = Callback()
        f = jax.jit(lambda x: jax.pure_callback(callback, S((), F), x))
        assert f(F(1)) == 1
        jax.pure_callback(callback, S((), F), F(1))
        return weakref.ref(callback)

    ref = make()
    gc.collect()
    assert ref() is None


def test_callbacks_run_where_nothing_is_traced():
    seen = []

    def callback(x):
        seen.append(type(jnp.sum(x)).__name__)
        return x

    jax.grad(lambda y: y * jax.pure_callback(callback, S((), F), lax.stop_gradient(y)))(F(2))
    jax.make_jaxpr(lambda y: y + jax.pure_callback(callback, S((), F), F(1)))(F(1))
    assert seen == ["ArrayImpl"]


def test_64_bit_results():
    with jax.enable_x64(True):
        f = jax.jit(lambda x: jax.pure_callback(lambda v: v * 2, S((), np.float64), x))
        assert f(np.float64(0.1)).dtype == np.float64
        with pytest.raises(jax.errors.JaxRuntimeError, match="float32, Actual: float64"):
            jax.jit(lambda x: jax.pure_callback(lambda v: np.float64(v), S((), F), x))(F(1))


def test_sharded_arguments(mesh):
    x = jax.device_put(X, NamedSharding(mesh, P("x")))
    f = jax.jit(lambda x: jax.pure_callback(lambda v: v * 2, S((8,), F), x))
    for out in (f(x), jax.pure_callback(lambda v: v * 2, S((8,), F), x)):
        for shard in out.addressable_shards:  # all devices have the result
            np.testing.assert_array_equal(shard.data, 2 * X[shard.index])
        np.testing.assert_array_equal(jax.jit(lambda y: y + 1)(out), 2 * X + 1)
    seen = []
    g = jax.jit(lambda x: io_callback(lambda v: seen.append(v.shape), None, x, ordered=True))
    g(x)
    jax.effects_barrier()
    assert seen == [(8,)]
    at = SingleDeviceSharding(mesh.devices[2])
    text = jax.jit(
        lambda x: jax.pure_callback(np.sin, S((8,), F), x, sharding=at)
    ).lower(x).as_text()  # fmt: skip
    assert "device_ids=[2]" in text
    with pytest.raises(NotImplementedError, match="SingleDeviceSharding"):
        jax.pure_callback(np.sin, S((8,), F), x, sharding=x.sharding)


def test_partitioned_output(mesh, capfd):
    x = jax.device_put(X, NamedSharding(mesh, P("x")))
    seen = []
    jax.jit(lambda x: jax.debug.callback(lambda v: seen.append(v.shape), x, partitioned=True))(x)
    jax.effects_barrier()
    assert seen == [(2,)] * 4
    with pytest.raises(ValueError, match="not supported for more than 1 device"):
        jax.jit(lambda x: jax.debug.print("{}", x, ordered=True))(x)


def test_chosen_shardings(mesh):
    x = jax.device_put(X, NamedSharding(mesh, P("x")))
    seen = []
    jax.jit(lambda x: (jax.debug.inspect_array_sharding(x * 2, callback=seen.append), x * 2)[1])(x)
    assert seen == [NamedSharding(mesh, P("x"))]


def test_lowering():
    f = jax.jit(lambda x: io_callback(np.sin, S((8,), F), x, ordered=True))
    text = f.lower(X).as_text()
    assert "@xla_ffi_python_cpu_callback" in text and "has_side_effect = true" in text
    text = f.trace(X).lower(lowering_platforms=("tpu",)).as_text()
    assert "stablehlo.send" in text and "stablehlo.recv" in text and "python" not in text
    with pytest.raises(NotImplementedError, match="for tpu, cpu"):
        f.trace(X).lower(lowering_platforms=("tpu", "cpu"))


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="callback must be callable"):
        jax.pure_callback(3, S((), F))
    with pytest.raises(TypeError, match="arguments of the callback must be arrays"):
        io_callback(print, None, "text")
    with pytest.raises(TypeError, match="result_shape_dtypes must be a tree of objects with shape"):
        jax.pure_callback(print, 3.0)


def test_print_options_are_those_of_the_program(capfd):
    with np.printoptions(precision=2):
        f = jax.jit(lambda x: jax.debug.print("{} {{}}", x))
        f(np.array([1.23456], F))
    jax.effects_barrier()
    assert capfd.readouterr().out == "[1.23] {}\n"


def test_log(caplog):
    logging.disable(logging.NOTSET)
    with caplog.at_level(logging.INFO):
        jax.jit(lambda x: jax.debug.log("x is {}", x))(1.0)
        jax.effects_barrier()
    (entry,) = [r for r in caplog.records if "x is" in r.getMessage()]
    assert (entry.getMessage(), entry.pathname) == ("x is 1.0", __file__)


def test_programs_with_pure_functions_are_called_natively():
    shape = jax.ShapeDtypeStruct((3,), np.float32)
    pure = jax.jit(lambda x: jax.pure_callback(np.sin, shape, x))
    impure = jax.jit(lambda x: io_callback(np.sin, shape, x))
    x = jnp.ones(3)
    for function, expected in ((pure, 0), (impure, 1)):
        function(x)
        with jtu.count_pjit_cpp_cache_miss() as misses:
            np.testing.assert_allclose(function(x), np.sin(x), rtol=1e-6)
        assert misses() == expected


@pytest.mark.parametrize("result", ["kept = ", ""])
def test_the_end_of_a_process_waits_for_pure_functions(result):
    """Also if nobody has the result, which is computed after another program's."""
    program = f"""
import threading, time
import jax, jax.numpy as jnp

def second(x):
    begun.set()
    time.sleep(0.5)
    print("ended", flush=True)
    return x

begun = threading.Event()
x = jnp.ones(3)
slow = jax.jit(lambda a: a @ a @ a @ a)
run = jax.jit(lambda x: jax.pure_callback(second, x, x)).lower(x).compile()
{result}run(slow(jnp.ones((1500, 1500)))[0, :3])
begun.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


def test_the_end_of_a_process_waits_until_threads_leave_python():
    """A thread of the runtime drops what a function raised, with its objects, after it has ended."""
    program = """
import threading, time
import jax, jax.numpy as jnp

class Late:
    def __del__(self):
        time.sleep(0.5)
        print("dropped", flush=True)

def fail(x):
    late = Late()
    begun.set()
    raise ValueError("no result")

begun = threading.Event()
x = jnp.ones(3)
slow = jax.jit(lambda a: a @ a @ a @ a)
run = jax.jit(lambda x: jax.pure_callback(fail, x, x)).lower(x).compile()
run(slow(jnp.ones((1500, 1500)))[0, :3])
begun.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "dropped\n"), done.stderr
