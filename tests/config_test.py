"""Options: their values, defaults, contexts, threads, environment variables, keys and errors."""

import json
import os
import pathlib
import subprocess
import sys
import threading

import op_cases
import oracle_results
from absl.testing import absltest, parameterized

from jax._src import (
    config,
    literals as literals,  # tells jaxlib what typed scalars are
)
from jax._src.lib import _jax, guard_lib

ROOT = pathlib.Path(__file__).absolute().parents[1]


def run_python(code, **env):
    """Runs `code` with this project's jax; returns (exit status, stdout, stderr)."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


class ConfigTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        self._values = {
            name: holder.get_global()
            for name, holder in config.config._value_holders.items()
            if isinstance(holder, config.State)
        }

    def tearDown(self):
        for name, value in self._values.items():
            if config.config._value_holders[name].get_global() != value:
                config.config.update(name, value)
        super().tearDown()

    def test_update_and_read(self):
        self.assertFalse(config.config.jax_enable_x64)
        config.config.update("jax_enable_x64", True)
        self.assertTrue(config.config.jax_enable_x64)
        self.assertTrue(config.enable_x64.value)
        self.assertTrue(config.config.read("jax_enable_x64"))
        self.assertTrue(config.config.values["jax_enable_x64"])
        self.assertTrue(config.config.x64_enabled)

    def test_context_manager(self):
        with config.enable_x64(True):
            self.assertTrue(config.enable_x64.value)
            with config.enable_x64(False):
                self.assertFalse(config.enable_x64.value)
            self.assertTrue(config.enable_x64.value)
        self.assertFalse(config.enable_x64.value)

    def test_context_manager_defaults_to_true_for_truth_values(self):
        with config.debug_nans():
            self.assertTrue(config.debug_nans.value)

    def test_context_manager_needs_a_value(self):
        with self.assertRaisesRegex(TypeError, "default_matmul_precision.*needs an argument"):
            config.default_matmul_precision()

    def test_context_wins_over_global_value(self):
        with config.enable_x64(True):
            config.config.update("jax_enable_x64", False)
            self.assertTrue(config.enable_x64.value)

    def test_context_manager_is_reusable_and_reentrant(self):
        context = config.enable_x64(True)
        for _ in range(2):
            with context:
                with context:
                    self.assertTrue(config.enable_x64.value)
                self.assertTrue(config.enable_x64.value)
            self.assertFalse(config.enable_x64.value)

    def test_context_is_left_on_error(self):
        with self.assertRaises(KeyError):
            with config.enable_x64(True):
                raise KeyError
        self.assertFalse(config.enable_x64.value)

    def test_decorator(self):
        @config.enable_x64(True)
        def read(depth):
            """Reads."""
            return config.enable_x64.value and (depth == 0 or read(depth - 1))

        self.assertTrue(read(2))
        self.assertFalse(config.enable_x64.value)
        self.assertEqual(read.__name__, "read")
        self.assertEqual(read.__doc__, "Reads.")

    def test_contexts_are_local_to_threads(self):
        seen = []
        with config.enable_x64(True):
            thread = threading.Thread(target=lambda: seen.append(config.enable_x64.value))
            thread.start()
            thread.join()
        self.assertEqual(seen, [False])

    def test_update_reaches_other_threads(self):
        seen = []
        config.config.update("jax_enable_x64", True)
        thread = threading.Thread(target=lambda: seen.append(config.enable_x64.value))
        thread.start()
        thread.join()
        self.assertEqual(seen, [True])

    def test_a_decorated_function_in_many_threads(self):
        barrier = threading.Barrier(4)
        bad = []

        @config.numpy_rank_promotion("raise")
        def check():
            barrier.wait()
            if config.numpy_rank_promotion.value != "raise":
                bad.append(threading.get_ident())

        def work():
            for _ in range(20):
                check()
                if config.numpy_rank_promotion.value != "allow":
                    bad.append("after")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEmpty(bad)

    def test_unknown_name(self):
        for call in (
            lambda: config.config.update("jax_enable_x65", True),
            lambda: config.config.read("jax_enable_x65"),
            lambda: config.config.jax_enable_x65,
        ):
            with self.assertRaisesRegex(
                AttributeError, "Unrecognized config option: jax_enable_x65.*jax_enable_x64"
            ):
                call()
        with self.assertRaisesRegex(AttributeError, "Did you mean jax_enable_x64"):
            config.config.update("enable_x64", True)
        with self.assertRaisesRegex(AttributeError, "Unrecognized config option: zzzz$"):
            config.config.update("zzzz", True)
        self.assertFalse(hasattr(config.config, "jax_nothing"))

    def test_assignment_is_refused(self):
        with self.assertRaisesRegex(AttributeError, r"jax.config.update\('jax_enable_x64', True\)"):
            config.config.jax_enable_x64 = True

    @parameterized.parameters(
        ("jax_enable_x64", "maybe"),
        ("jax_enable_x64", 2),
        ("jax_enable_x64", 1.5),
        ("jax_numpy_rank_promotion", "foo"),
        ("jax_numpy_rank_promotion", None),
        ("jax_numpy_dtype_promotion", "foo"),
        ("jax_default_matmul_precision", "foo"),
        ("jax_default_matmul_precision", 3),
        ("jax_logging_level", "LOUD"),
        ("jax_default_device", "abacus"),
        ("jax_default_device", 3),
        ("jax_traceback_in_locations_limit", "10"),
        ("jax_traceback_in_locations_limit", 1.5),
        ("jax_compilation_cache_dir", 3),
        ("jax_persistent_cache_min_compile_time_secs", "soon"),
        ("jax_transfer_guard", "foo"),
        ("jax_default_prng_impl", "dice"),
        ("jax_optimization_level", "O9"),
        ("jax_legacy_prng_key", "foo"),
        ("jax_explicit_x64_dtypes", "foo"),
        ("jax_send_traceback_to_runtime", "foo"),
        ("jax_array_garbage_collection_guard", "foo"),
        ("jax_traceback_filtering", "foo"),
        ("jax_debug_log_modules", None),
    )
    def test_bad_value(self, name, value):
        before = config.config.read(name)
        with self.assertRaisesRegex(ValueError, name.removeprefix("jax_")):
            config.config.update(name, value)
        self.assertEqual(config.config.read(name), before)

    def test_bad_value_in_a_context(self):
        with self.assertRaisesRegex(ValueError, "numpy_dtype_promotion"):
            config.numpy_dtype_promotion("foo")
        with self.assertRaisesRegex(ValueError, "jax_enable_x64 takes True or False"):
            config.enable_x64("maybe")

    @parameterized.parameters(
        ("jax_enable_x64", "true", True),
        ("jax_enable_x64", "0", False),
        ("jax_enable_x64", 1, True),
        ("jax_enable_x64", None, False),
        ("jax_numpy_dtype_promotion", "strict", config.NumpyDtypePromotion.STRICT),
        ("jax_explicit_x64_dtypes", "allow", config.ExplicitX64Mode.ALLOW),
        ("jax_persistent_cache_min_compile_time_secs", 2, 2.0),
        ("jax_default_device", "cpu", "cpu"),
        ("jax_default_matmul_precision", None, None),
        ("jax_optimization_level", "O3", "O3"),
    )
    def test_good_value(self, name, value, kept):
        config.config.update(name, value)
        self.assertEqual(config.config.read(name), kept)

    def test_value_without_effect(self):
        with self.assertWarnsRegex(UserWarning, "jax_refs_to_pins has no effect"):
            config.config.update("jax_refs_to_pins", True)
        self.assertEqual(config.config.read("jax_refs_to_pins"), True)

    def test_truth_of_the_holder_is_refused(self):
        with self.assertRaisesRegex(TypeError, "value"):
            bool(config.enable_x64)
        with self.assertRaisesRegex(TypeError, "value"):
            bool(config.platform_name)

    def test_trace_context(self):
        before = config.trace_context()
        self.assertEqual(before, config.trace_context())
        for state, value in (
            (config.enable_x64, True),
            (config.numpy_dtype_promotion, "strict"),
            (config.default_matmul_precision, "high"),
            (config.disable_jit, True),
            (config.default_device, "cpu"),
        ):
            with state(value):
                self.assertNotEqual(config.trace_context(), before)
            self.assertEqual(config.trace_context(), before)
        with config.log_compiles(True):
            self.assertEqual(config.trace_context(), before)

    def test_user_context(self):
        context = config.make_user_context("outside")
        other = config.make_user_context()
        before = config.trace_context()
        self.assertEqual(context.value, "outside")
        self.assertIsNone(other.value)
        with context("inside"):
            self.assertEqual(context.value, "inside")
            self.assertIsNone(other.value)
            self.assertNotEqual(config.trace_context(), before)
        self.assertEqual(context.value, "outside")

    def test_transfer_guards(self):
        level = guard_lib.TransferGuardLevel
        with config.transfer_guard("disallow"):
            state = guard_lib.thread_local_state()
            self.assertEqual(state.host_to_device, level.DISALLOW)
            self.assertEqual(state.device_to_host, level.DISALLOW)
            with config.transfer_guard_host_to_device("log"):
                self.assertEqual(state.host_to_device, level.LOG)
                self.assertEqual(state.device_to_device, level.DISALLOW)
            self.assertEqual(state.host_to_device, level.DISALLOW)
        self.assertIsNone(guard_lib.thread_local_state().host_to_device)
        with self.assertRaisesRegex(ValueError, "transfer_guard"):
            with config.transfer_guard("perhaps"):
                pass
        with config.array_garbage_collection_guard("log"):
            self.assertEqual(
                guard_lib.thread_local_state().garbage_collect_array,
                guard_lib.GarbageCollectionGuardLevel.LOG,
            )
        with config.explicit_device_put_scope():
            self.assertTrue(guard_lib.thread_local_state().explicit_device_put)
        self.assertFalse(guard_lib.thread_local_state().explicit_device_put)

    def test_hooks(self):
        seen = []
        state = config.int_state(
            "jax_test_option_with_hook", 1, "For this test.",
            update_global_hook=lambda v: seen.append(("global", v)),
            update_thread_local_hook=lambda v: seen.append(("local", v)),
        )  # fmt: skip
        config.config.update("jax_test_option_with_hook", 2)
        with state(3):
            pass
        self.assertEqual(seen, [("global", 1), ("global", 2), ("local", 3), ("local", None)])
        with self.assertRaisesRegex(ValueError, "already defined"):
            config.int_state("jax_test_option_with_hook", 1, "For this test.")
        del config.config._value_holders["jax_test_option_with_hook"]
        del config.config.meta["jax_test_option_with_hook"]

    @parameterized.parameters(
        ({"JAX_ENABLE_X64": "1"}, "jax_enable_x64", "True"),
        ({"JAX_ENABLE_X64": "off"}, "jax_enable_x64", "False"),
        ({"JAX_NUMPY_DTYPE_PROMOTION": "strict"}, "jax_numpy_dtype_promotion.value", "strict"),
        ({"JAX_EXPLICIT_X64_DTYPES": "error"}, "jax_explicit_x64_dtypes.name", "ERROR"),
        ({"JAX_PLATFORMS": "cpu"}, "jax_platforms", "cpu"),
        ({"JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "7"}, "jax_traceback_in_locations_limit", "7"),
        (
            {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.5"},
            "jax_persistent_cache_min_compile_time_secs",
            "0.5",
        ),
        ({"JAX_DEFAULT_MATMUL_PRECISION": "high"}, "jax_default_matmul_precision", "high"),
    )
    def test_environment(self, env, name, value):
        code = f"from jax._src.config import config; print(config.{name})"
        self.assertEqual(run_python(code, **env)[1], value)

    @parameterized.parameters(
        ("JAX_ENABLE_X64", "perhaps"),
        ("JAX_NUMPY_RANK_PROMOTION", "foo"),
        ("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "many"),
        ("JAX_DEFAULT_MATMUL_PRECISION", "foo"),
        ("JAX_LEGACY_PRNG_KEY", "foo"),
    )
    def test_bad_environment(self, name, value):
        status, _, stderr = run_python("import jax._src.config", **{name: value})
        self.assertNotEqual(status, 0)
        last = stderr.splitlines()[-1]
        self.assertIn("ValueError", last)
        self.assertIn(name, last)
        self.assertIn(value, last)

    def test_absl_flags(self):
        code = (
            "import sys; sys.argv = ['prog', '--jax_enable_x64', '--other=1',"
            " '--jax_numpy_rank_promotion=warn', '--jax_numpy_dtype_promotion=strict', '--',"
            " '--jax_debug_nans']\n"
            "from jax._src.config import config\n"
            "config.parse_flags_with_absl()\n"
            "print(config.jax_enable_x64, config.jax_numpy_rank_promotion, config.jax_debug_nans,"
            " config.jax_numpy_dtype_promotion.name)"
        )
        status, out, err = run_python(code)
        self.assertEqual((status, out), (0, "True warn False STRICT"), err)

    def test_logging(self):
        code = (
            "import logging\n"
            "from jax._src import config\n"
            "log = logging.getLogger('jax._src.config')\n"
            "log.debug('quiet')\n"
            "config.update('jax_debug_log_modules', 'jax._src.config')\n"
            "log.debug('loud')\n"
            "config.update('jax_debug_log_modules', '')\n"
            "log.debug('quiet again')\n"
            "config.update('jax_logging_level', 'INFO')\n"
            "log.info('informed')\n"
            "config.update('jax_logging_level', 'ERROR')\n"
            "log.warning('quiet for good')\n"
        )
        status, _, err = run_python(code)
        self.assertEqual(status, 0, err)
        self.assertIn("loud", err)
        self.assertIn("informed", err)
        self.assertNotIn("quiet", err)

    def test_documentation_of_every_option(self):
        for name, holder in config.config._value_holders.items():
            self.assertNotEmpty(holder.__doc__, name)
            self.assertIn(name, dir(config.config))

    def test_cpp_reads_the_state(self):
        signature = _jax.jax_jit._ArgSignatureOfValue
        self.assertEqual(str(signature(1.0, False).dtype), "float32")
        with config.enable_x64(True):
            self.assertEqual(str(signature(1.0, True).dtype), "float64")
            self.assertEqual(str(_jax.canonicalize_value(1.0).dtype), "float64")
        self.assertEqual(str(_jax.canonicalize_value(1.0).dtype), "float32")

    def test_same_options_and_defaults_as_the_oracle(self):
        table = pathlib.Path(__file__).with_name("config_scenarios.py")
        ((theirs,), *_) = oracle_results.read(table)["options"]["call"]
        (case,) = op_cases.load(table)
        values, traced = map(json.loads, case.fun().splitlines())
        their_values, their_traced = map(json.loads, theirs.splitlines())
        own = {
            "jax_native_kernels",
            "debug_backward_nans",
            "debug_bounds",
            "jax_cpu_compile_profile",
        }
        self.assertEmpty(own & their_values.keys())  # else this jax was the oracle
        self.assertEqual({n: values.get(n) for n in their_values}, their_values)
        self.assertEqual(sorted({*traced} - own), their_traced)


if __name__ == "__main__":
    absltest.main()
