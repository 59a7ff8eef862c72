"""The vocabulary of tests itself: counters, references, environment."""

import dataclasses
import os
import subprocess
import sys
import threading
import time
import unittest
import warnings

import numpy as np
import pytest
from absl.testing import parameterized

import jax
import jax.numpy as jnp
from jax import export, lax
from jax._src import lax_reference, test_util as jtu, test_warning_util
from jax._src.internal_test_util import (
    export_back_compat_test_util,
    lax_test_util,
    test_harnesses,
)
from jax._src.interpreters import mlir
from jax._src.lib import _jax


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
    with jtu.count_primitive_compiles() as compiled:
        jax.lax.neg(x), jax.lax.neg(np.ones(2, np.float32)), jax.lax.neg(x)
        jax.lax.broadcast(x, (2,)), jax.lax.broadcast(x, (3,))
    assert compiled() == 3
    with jtu.assert_num_jit_and_pmap_compilations(0):
        f(x)
    with pytest.raises(AssertionError, match="exactly 2 XLA compilations, but executed 1"):
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
    assert jtu.parameterized is parameterized


def test_runtime_environment(monkeypatch):
    """The results are those of the reference, also where pytest does not run."""
    found = {}
    for executable in (None, "", "/usr/bin/python", "/bazel/python", "/x/bazel-out/y/python"):
        monkeypatch.setattr(sys, "executable", executable)
        found[executable] = jtu.runtime_environment()
    other = dict.fromkeys(["", "/usr/bin/python", "/bazel/python"], "pytest")
    assert found == {None: None, **other, "/x/bazel-out/y/python": "bazel"}


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


def test_random_complex_scalars_with_nans():
    for dtype in ("float32", "complex64", "complex128"):
        drawn = jtu.rand_some_nan(np.random.RandomState(2))((), np.dtype(dtype))
        assert drawn.dtype == dtype
        assert isinstance(drawn, np.ndarray if dtype == "float32" else np.complexfloating)


# The same cases, names and inputs as the reference's: a suite that is written on them runs the same tests.


def test_sampled_cases():
    assert jtu.sample_product_testcases([{"s": 1}, {"s": 2}], b=[1, 2], a=[3, 4])[:3] == [
        {"s": 2, "b": 1, "a": 3},
        {"s": 2, "b": 1, "a": 4},
        {"s": 1, "b": 1, "a": 3},
    ]
    chosen = [case["a"] for case in jtu.sample_product_testcases(a=range(20))]
    assert chosen == [0, 17, 15, 1, 8, 5, 11, 3, 18, 16]
    assert jtu.sample_product_testcases([{"s": 1}], s=[2]) == [{"s": 2}]
    assert jtu._choice(40, 5).tolist() == [19, 16, 15, 26, 4]
    names = [name for name, *_ in jtu.cases_from_gens(lambda size: size)]
    assert names[:5] == ["_1_0", "_1_1", "_1_2", "_1_3", "_3_0"] and len(names) == 12

    def generate(sample):
        for a in sample(range(10)):
            for b in sample("abcdef"):
                yield {"testcase_name": f"_{a}_{b}"}

    named = [case["testcase_name"] for case in jtu.named_cases_from_sampler(generate)]
    assert named == "_6_d _7_e _4_b _2_c _3_c _5_e _1_d _5_b _4_a _9_f".split()


def names_of_cases(test="test_it", **kwargs):
    cases = {test: jtu.parameterized_filterable(**kwargs)(lambda self, **_: None)}
    return [n for n in dir(type("Cases", (jtu.JaxTestCase,), cases)) if n.startswith("test")]


def test_names_of_cases():
    cases = [{"a": 4, "b": "x[1, 2]"}, {"a": np.float32, "b": None}]
    assert names_of_cases(kwargs=cases) == [
        "test_it_a_4_b_x_1_2_",
        "test_it_a_class_numpy_float32_b_None",
    ]
    assert names_of_cases(kwargs=[{"a": 1, "testcase_name": "hello (1)"}]) == ["test_it_hello_1_"]
    numbered = {"testcase_name": lambda k: f"n {k['a']}", "kwargs": [{"a": 1}, {"a": 2}]}
    assert names_of_cases(**numbered) == ["test_it_n_1", "test_it_n_2"]
    assert names_of_cases(**numbered, one_containing="2") == ["test_it"]
    with pytest.raises(AssertionError, match="n_1\n  n_2"):
        names_of_cases(**numbered, one_containing="3")
    # Names that a suite selects cases by: nothing is put before the name of a case.
    assert names_of_cases("testIt", kwargs=[{"b": 1, "a": 2}]) == ["testIta_2_b_1"]
    assert names_of_cases("testIt", kwargs=[{"a": 1, "testcase_name": "_x y"}]) == ["testIt_x_y"]
    assert names_of_cases("testIt", **numbered) == ["testItn_1", "testItn_2"]
    assert names_of_cases("testIt", kwargs=[{}]) == ["testIt"]


def test_random_inputs():
    def draw(factory, shape=(3,), dtype=np.float32, seed=3, **kwargs):
        return factory(np.random.RandomState(seed), **kwargs)(shape, dtype)

    np.testing.assert_array_equal(draw(jtu.rand_int, low=-5, high=9, dtype=np.int32), [5, 3, 4])
    unique = jtu.rand_indices_unique_along_axis(np.random.RandomState(3))
    assert unique(dim=5, shape=(2, 3), axis=-1).tolist() == [[-2, -1, 1], [-3, -4, -2]]
    assert type(draw(jtu.rand_default, jtu.PYTHON_SCALAR_SHAPE)) is float
    assert type(draw(jtu.rand_default, jtu.NUMPY_SCALAR_SHAPE)) is np.float32
    rng = np.random.RandomState(3)
    assert jtu.rand_like(rng, 3) == 1 and jtu.rand_like(rng, True) is True
    with pytest.raises(AssertionError, match="shape"):
        jtu._cast_to_shape(np.ones(2), (3,), np.float32)


def test_tolerances():
    assert jtu.default_tolerance()[np.dtype(jnp.bfloat16)] == 1e-2
    assert jtu.default_gradient_tolerance[np.dtype(np.float32)] == 2e-3
    assert jtu.tolerance(np.dtype(np.float64)) == 1e-6 and jtu.tolerance(np.dtype(int), 0.5) == 0.5
    assert jtu.tolerance(np.dtype(np.float32), {np.float64: 0.1}) == 1e-6
    joined = jtu.join_tolerance({np.float32: 0.1}, 1e-3)
    assert joined[np.dtype(np.float32)] == 0.1 and joined[np.dtype(np.float64)] == 1e-3


def run_case(method, **attributes):
    case = type("Case", (jtu.JaxTestCase,), {"test_it": method, **attributes})("test_it")
    result = unittest.TestResult()
    case.run(result)
    return result


def test_what_cases_accept():
    def scalars(self):
        self._CompileAndCheck(lambda x: (3, 2.5, [True], {"a": x}), lambda: [jnp.arange(3.0)])
        self._CheckAgainstNumpy(lambda x: 3, lambda x: 3.0, lambda: [1.0], False)
        self.assertAllClose({"a": [1.0, np.float32(2)]}, {"a": (1.0, jnp.float32(2 + 1e-6))})
        with self.assertRaisesRegex(AssertionError, "Expected sequence, got 1"):
            self.assertAllClose([1], 1)
        with self.assertRaisesRegex(AssertionError, "Expected array-like"):
            self.assertAllClose(1, [1])
        with self.assertRaisesRegex(TypeError, "NoneType"):
            self.assertAllClose(None, 1)

    assert run_case(scalars).wasSuccessful()

    def retraced(self):
        sizes = iter([2, 3])
        self._CompileAndCheck(jnp.sin, lambda: [jnp.ones(next(sizes))])

    assert len(run_case(retraced).failures) == 1

    def retraced_where_compilations_are_not_checked(self):
        sizes = iter([2, 3])
        inputs = lambda: [jnp.ones(next(sizes))]
        self._CompileAndCheck(jnp.sin, inputs, check_cache_misses=False)

    assert len(run_case(retraced_where_compilations_are_not_checked).failures) == 1

    def other_operations_at_each_call(self, **kwargs):
        sizes = iter(range(50, 60))
        fun = lambda x: x + lax.broadcast(x[0], (next(sizes),))[0]
        self._CompileAndCheck(fun, lambda: [jnp.ones(3)], **kwargs)

    result = run_case(other_operations_at_each_call)
    assert "Compilation detected during second call" in result.failures[0][1]
    unchecked = lambda self: other_operations_at_each_call(self, check_cache_misses=False)
    assert run_case(unchecked).wasSuccessful()


def test_defaults_of_cases():
    def strict(self):
        assert jax.config.jax_numpy_rank_promotion == "raise"
        assert jax.config.jax_numpy_dtype_promotion == "strict"
        assert self.rng().randint(1000) == 142

    program = "import jax; from jax._src.test_util import JaxTestCase as C;"
    program += "print(sorted(C._default_thread_local_config.values(), key=str))"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert out.stdout.decode().strip() == "[True, 'error', 'off', 'raise', 'strict']"
    promotion = {"jax_numpy_rank_promotion": "raise", "jax_numpy_dtype_promotion": "strict"}
    result = run_case(strict, _default_thread_local_config=promotion)
    assert result.wasSuccessful(), result.failures + result.errors

    def leaves_option(self):
        jax.config.update("jax_debug_nans", True)

    result = run_case(leaves_option)
    jax.config.update("jax_debug_nans", False)
    assert len(result.failures) == 1


def test_caches():
    f = jax.jit(lambda x: x * 3 + 41)

    def misses(self):
        once = dict(cpp=1, tracing=1, lowering=1, compilation_after_persistent_cache_miss=1)
        self.assertCacheMisses(lambda: f(1.0), **once, aot_call=0)
        self.assertCacheMisses(lambda: f(1.0), **dict.fromkeys(once, 0))
        compiled = f.lower(1.0).compile()
        self.assertCacheMisses(lambda: compiled(1.0), aot_call=1)
        self.assertCacheMisses(lambda: compiled(1.0), aot_call=0)
        with self.assertRaisesRegex(AssertionError, "1 != 0"):
            self.assertCacheMisses(lambda: f(2.0), cpp=1)

    result = run_case(misses)
    assert result.wasSuccessful(), result.failures + result.errors
    with jtu.collect_lowered_jaxprs() as lowered:
        f.lower(np.float32(1))
    [(jaxpr, module)] = lowered
    assert len(jaxpr.eqns) == 2 and "stablehlo" in str(module)
    mesh = jax.make_mesh((4,), ("x",))
    spread = jax.device_put(np.ones(8), jax.NamedSharding(mesh, jax.P("x")))
    with (
        jtu.count_jax_array_shard_arg_calls() as moved,
        jtu.count_device_put_fast_path_hit() as hits,
        jtu.count_internal_device_puts() as internal,
    ):
        jax.device_put(spread, jax.NamedSharding(mesh, jax.P()))
    assert moved() == hits() == 1 and internal()["device_put_with_sharding"] == 1


def test_warnings():
    def warnings_of_a_case(self):
        with self.assertWarns(UserWarning):
            warnings.warn("some text", stacklevel=1)
        with self.assertWarnsRegex(UserWarning, "me te"):
            warnings.warn("some text", stacklevel=1)
        with self.assertRaisesRegex(AssertionError, "got .'UserWarning: some"):
            with self.assertWarns(DeprecationWarning):
                warnings.warn("some text", stacklevel=1)
        with self.assertRaisesRegex(UserWarning, "some text"), self.assertNoWarnings():
            warnings.warn("some text", stacklevel=1)
        with self.assertNoWarnings(), jtu.ignore_warning(message="so", category=UserWarning):
            warnings.warn("some text", stacklevel=1)
        with self.assertRaisesRegex(ValueError, "not registered"):
            with self.assertDeprecationWarnsOrRaises("jax-nothing", "text"):
                pass

    result = run_case(warnings_of_a_case)
    assert result.wasSuccessful(), result.failures + result.errors
    with test_warning_util.record_warnings() as found:
        with jtu.ignore_warning(message="a"):
            warnings.warn("xa", stacklevel=1)
            warnings.warn("ax", stacklevel=1)
    assert [str(w.message) for w in found] == ["xa"]


def test_loader():
    order = []

    class Cases(unittest.TestCase):
        def test_a(self):
            order.append(threading.current_thread().name)

        def test_b(self):
            self.fail("as expected")

        def test_c(self):
            self.skipTest("not now")

        @unittest.expectedFailure
        def test_d(self):
            pass

        def test_e(self):
            for i in range(3):
                with self.subTest(i=i):
                    self.assertEqual(i, 1)

    @jtu.thread_unsafe_test_class()
    class Alone(Cases):
        @jtu.thread_unsafe_test()
        def test_a(self):
            super().test_a()

    class Misnamed(unittest.TestCase):
        def TestIt(self):
            pass

    load = jtu.JaxTestLoader().loadTestsFromTestCase
    for threads in (0, 3):
        jax.config.update("jax_test_num_threads", threads)
        for cases in (Cases, Alone):
            result = unittest.TestResult()
            load(cases).run(result)
            counts = result.testsRun, len(result.failures), len(result.skipped)
            assert counts == (5, 3, 1) and len(result.unexpectedSuccesses) == 1
            assert not result.errors
    jax.config.update("jax_test_num_threads", 0)
    assert order[:2] == ["MainThread"] * 2 and "MainThread" not in order[2:]
    with pytest.raises(TypeError, match="TestIt"):
        jtu.JaxTestLoader().getTestCaseNames(Misnamed)
    try:
        jax.config.update("test_targets", "Cases.*_[ab]$")
        jax.config.update("exclude_test_targets", "_a")
        assert jtu.JaxTestLoader().getTestCaseNames(Cases) == ["test_b"]
    finally:
        jax.config.update("test_targets", "")
        jax.config.update("exclude_test_targets", "")


def test_warnings_of_threads():
    """The end of one test's assertion does not remove the handler of another's."""
    first, second = threading.Event(), threading.Event()

    class Cases(jtu.JaxTestCase):
        def test_first(self):
            with self.assertWarns(UserWarning):
                first.set()
                assert second.wait(10)
                warnings.warn("first", stacklevel=1)
            first.clear()
            second.clear()

        def test_second(self):
            assert first.wait(10)
            with self.assertWarns(UserWarning):
                second.set()
                while second.is_set():
                    time.sleep(0.001)
                warnings.warn("second", stacklevel=1)

    show = warnings.showwarning
    jax.config.update("jax_test_num_threads", 2)
    try:
        result = unittest.TestResult()
        jtu.JaxTestLoader().loadTestsFromTestCase(Cases).run(result)
    finally:
        jax.config.update("jax_test_num_threads", 0)
    assert result.testsRun == 2 and result.wasSuccessful(), result.failures + result.errors
    assert warnings.showwarning is show


def test_devices_of_cases():
    def skipped(decorate):
        result = run_case(decorate(lambda self: None))
        return result.skipped[0][1] if result.skipped else None

    if jax.devices()[0].platform != "cpu":
        pytest.skip("about tests on the CPU")
    assert skipped(jtu.skip_on_devices("cpu")) == "Skipped on devices with tags: cpu"
    assert skipped(jtu.run_on_devices("gpu")) == "Skipped unless running on devices with tags: gpu"
    assert skipped(jtu.skip_on_devices("cpu", skip_reason="since")) == "since"
    assert skipped(jtu.device_supports_buffer_donation()) is None
    assert skipped(jtu._device_filter(lambda: False)).startswith("test_it not supported")
    with pytest.raises(TypeError, match="list of names"):
        jtu.test_device_matches("cpu")


def test_native_output(capfd):
    with capfd.disabled(), jtu.capture_stdout() as text:
        os.system("echo native")
    assert text() == "native\n"


def test_bits_that_agree():
    agreed = jtu.numpy_with_mpmath.normalize
    numbers = [(1, 1, 1.1), (1, 1.25, 1.5), (100, 101, 103), (8, 7.5, 9.25), (0, 3, 4)]
    exact, reference, value = np.array([*numbers, (np.inf, 1, 2)], np.float32).T
    reference, value = agreed(None, exact, reference, value)
    np.testing.assert_array_equal(reference, np.float32([0.5, 0.5, 0.78125, 0, 0, 1]))
    np.testing.assert_allclose(value, np.float32([0.55, 0.75, 0.796875, 0, 0.5, 2]), rtol=1e-6)


# Modules for suites of vendors


def test_reference_of_lax():
    """NumPy's lax has the results of lax."""
    rng = np.random.RandomState(0)
    records = [r for r in lax_test_util.lax_ops() if r.op != "erf_inv"][::3]
    inputs = [[r.rng_factory(rng)((2, 3), r.dtypes[-1]) for _ in range(r.nargs)] for r in records]
    ops = [getattr(lax, r.op) for r in records]
    found = jax.jit(lambda inputs: [op(*args) for op, args in zip(ops, inputs)])(inputs)
    for record, result, args in zip(records, found, inputs):
        with np.errstate(all="ignore"):
            want = getattr(lax_reference, record.op)(*args)
        assert result.dtype == want.dtype, record.op
        np.testing.assert_allclose(result, want, rtol=2e-5, atol=1e-5, err_msg=record.op)
    x, k = rng.randn(2, 8, 9, 3).astype(np.float32), rng.randn(3, 2, 3, 4).astype(np.float32)
    layout = ("NHWC", "HWIO", "NHWC")
    for padding in ("SAME", "VALID", [(1, -1), (2, 0)]):
        for dilations in ((None, None), ((2, 1), (1, 2))):
            args = (x, k, (2, 1), padding, *dilations)
            if isinstance(padding, str) and dilations[0]:
                continue  # lax does not combine them
            want = lax_reference.conv_general_dilated(*args, layout)
            found = lax.conv_general_dilated(*args, layout)
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
    config = [(1, -1, 2), (-2, 0, 0), (0, 1, 1), (0, 0, 0)]
    np.testing.assert_array_equal(
        lax.pad(x, np.float32(7), config), lax_reference.pad(x, np.float32(7), config)
    )
    window = (x, np.float32(0), (1, 2, 3, 1), (1, 2, 1, 1), "SAME")
    summed = lax_reference.reduce_window(*window[:2], np.add, *window[2:], None)
    found = lax.reduce_window(*window[:2], lax.add, *window[2:])
    np.testing.assert_allclose(found, summed, rtol=1e-4, atol=1e-5)
    for found, want in zip(lax.top_k(x[0, 0], 2), lax_reference.top_k(x[0, 0], 2)):
        np.testing.assert_array_equal(found, want)
    high = lax_reference.mulhi(np.int32(2**30), np.int32(-(2**20)))
    assert high == lax.mulhi(np.int32(2**30), np.int32(-(2**20))) and high.dtype == np.int32
    bits = lax_reference.bitcast_convert_type(np.arange(4, dtype=np.uint16), jnp.uint4)
    np.testing.assert_array_equal(
        bits, lax.bitcast_convert_type(np.arange(4, dtype=np.uint16), jnp.uint4)
    )


def test_batches_of_cases():
    bdims = list(lax_test_util.all_bdims((2, 3), (4,)))
    assert bdims[0] == (None, 0) and (None, None) not in bdims and len(bdims) == 11
    assert lax_test_util.add_bdim(5, 1, (2, 3)) == (2, 5, 3)
    x = np.arange(6).reshape(2, 3)
    first, second = lax_test_util.args_slicer((x, x), (1, None))(2)
    assert first.tolist() == [2, 5] and second is x


def test_what_harnesses_are_made_of():
    tpu = test_harnesses.Limitation("not there", devices="tpu", dtypes=[np.float32])
    harness = test_harnesses.Harness(
        "sin",
        "x=(1, 2)",
        lambda *args: args,
        [
            1.5,
            test_harnesses.StaticArg("axis"),
            test_harnesses.RandArg((3,), np.float32),
            test_harnesses.CustomArg(lambda rng: rng.randint(9)),
        ],
        dtype=np.float32,
        jax_unimplemented=[tpu],
        axis=0,
    )
    assert str(harness) == "sin_x_1_2_" and harness.params == {"axis": 0}
    number, static, array, custom = harness.args_maker(np.random.RandomState(0))
    assert (number, static, custom) == (1.5, "axis", 3) and array.shape == (3,)
    assert harness.dyn_fun(1, 2, 3) == (1, "axis", 2, 3)
    with pytest.raises(ValueError, match="3 arguments"):
        harness.dyn_fun(1)
    assert harness.filter("cpu") and not harness.filter("tpu")
    assert harness.filter("tpu", include_jax_unimpl=True, one_containing="x_1")

    class Cases(jtu.JaxTestCase):
        @test_harnesses.parameterized([harness])
        def test_it(self, harness):
            pass

    assert hasattr(Cases, "test_it_sin_x_1_2_")
    assert test_harnesses.requires_xla_for_reduce("min", np.uint8)
    assert not test_harnesses.requires_xla_for_reduce("max", np.uint8)
    types = test_harnesses.preferred_type_combinations
    assert len(set(types)) == 33 and types[7:9] == [(np.float32, np.float64), (np.float64,) * 2]
    np.testing.assert_array_equal(  # what the reference draws
        test_harnesses.wrap_and_split(), [[1832780943, 270669613], [64467757, 2916123636]]
    )
    assert test_harnesses.dtypes_to_str([np.complex64, np.complex128, np.int8]) == "complex, int8"


def test_programs_exported_earlier():
    """A program in the form of 2024, which is not that of programs exported now."""

    def f(x):
        return jnp.sin(x) * 2

    x = np.arange(3, dtype=np.float32)
    exported = export.export(jax.jit(f), platforms=("cpu",))(x)
    with mlir.make_ir_context():
        module = exported.mlir_module(serialized=False)
        old = _jax.mlir.serialize_portable_artifact(mlir.module_to_bytecode(module), "0.9.0")
    assert old.startswith(b"ML\xefR\x01StableHLO_v0.9.0")
    stored = dataclasses.replace(exported, mlir_module_serialized=old).serialize()
    with pytest.raises(ValueError, match="'f' has a form of 2024 or before"):
        export.deserialize(stored)

    def stored_program_runs(self):
        data = self.load_testdata(
            dict(
                dataclasses.asdict(self.starter_data([x])),
                expected_outputs=[np.sin(x) * 2],
                mlir_module_serialized=old,
                xla_call_module_version=9,
            )
        )
        [nested] = self.load_testdata_nested({"a": [dataclasses.asdict(data)]})
        self.run_one_test(f, nested)
        with self.assertRaisesRegex(AssertionError, "tolerance"):
            self.run_one_test(jnp.cos, data)
        with self.assertRaisesRegex(AssertionError, "no stored program"):
            self.run_one_test(f, self.starter_data([x]))
        with self.assertRaisesRegex(NotImplementedError, "testdata_version 0"):
            self.load_testdata({"testdata_version": 0})

    base = (export_back_compat_test_util.CompatTestBase,)
    case = type("Case", base, {"test_it": stored_program_runs})("test_it")
    result = unittest.TestResult()
    case.run(result)
    assert result.wasSuccessful(), result.failures + result.errors
