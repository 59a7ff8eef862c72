"""The base class of test cases, with its assertions."""

import contextlib
import inspect
import os
import re
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl.testing import parameterized

import jax
from jax._src import compilation_cache, config, core, deprecations, dtypes, test_warning_util
from jax._src.public_test_util import (
    _assert_numpy_allclose,
    _dtype,
    tolerance,
)
from jax._src.test_util import counting
from jax._src.test_util.counting import assert_global_configs_unchanged
from jax._src.test_util.environment import (
    is_running_under_bazel,
    thread_local_config_context,
)

TEST_WITH_PERSISTENT_COMPILATION_CACHE = config.bool_flag(
    "jax_test_with_persistent_compilation_cache",
    config.bool_env("JAX_TEST_WITH_PERSISTENT_COMPILATION_CACHE", False),
    "Whether each test class compiles through a persistent cache of its own.",
)
_bazel_subprocess_env_patched = False


def with_config(**kwds):
    """Class decorator: run the tests with these config values."""

    def wrap(cls):
        assert inspect.isclass(cls) and issubclass(cls, JaxTestCase), (
            "@with_config is for JaxTestCase classes"
        )
        cls._default_thread_local_config = {
            **getattr(cls, "_default_thread_local_config", {}),
            **kwds,
        }
        return cls

    return wrap


def with_global_config(**kwds):
    """Class decorator: run the tests with these global config values."""

    def wrap(cls):
        cls._default_global_config = {**getattr(cls, "_default_global_config", {}), **kwds}
        return cls

    return wrap


@contextlib.contextmanager
def global_config_context(**kwds) -> Iterator[None]:
    """Context manager: sets global config values, and restores them at exit."""
    previous = {name: getattr(config.config, name) for name in kwds}
    try:
        for name, value in kwds.items():
            config.update(name, value)
        yield
    finally:
        for name, value in previous.items():
            config.update(name, value)


class JaxTestCase(parameterized.TestCase):
    """Base class of tests, with comparisons of arrays, with NumPy, and of compiled functions."""

    _default_global_config: dict[str, Any] = {}
    _default_thread_local_config: dict[str, Any] = {
        "jax_enable_checks": True,
        "jax_numpy_dtype_promotion": "strict",
        "jax_numpy_rank_promotion": "raise",
        "jax_traceback_filtering": "off",
        "jax_legacy_prng_key": "error",
    }

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if TEST_WITH_PERSISTENT_COMPILATION_CACHE.value:
            cls.enterClassContext(_persistent_compilation_cache())

    def setUp(self):
        super().setUp()
        self.enterContext(assert_global_configs_unchanged())
        self.enterContext(global_config_context(**self._default_global_config))
        self.enterContext(thread_local_config_context(**self._default_thread_local_config))
        # Each test has its own seed, which is the same in every run.
        self._rng = np.random.RandomState(zlib.adler32(self._testMethodName.encode()))

    def _configure_subprocess_env(self) -> None:
        """Called before tests that start other Python processes: Bazel's get this one's search path."""
        global _bazel_subprocess_env_patched
        if is_running_under_bazel() and not _bazel_subprocess_env_patched:
            os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
            _bazel_subprocess_env_patched = True

    def tearDown(self) -> None:
        assert core.reset_trace_state(), "a test left a trace current"
        super().tearDown()

    def rng(self) -> np.random.RandomState:
        """The test's random number generator."""
        return self._rng

    @contextlib.contextmanager
    def assertDeprecationWarnsOrRaises(
        self,
        deprecation_id: str,
        message: str,
        *,
        error_class: type[Exception] = ValueError,
    ) -> Iterator[None]:
        """Assert that something deprecated gives a warning, or an error if it is accelerated."""
        if deprecations.is_accelerated(deprecation_id):
            with self.assertRaisesRegex(error_class, message):
                yield
        else:
            with self.assertWarnsRegex(DeprecationWarning, message):
                yield

    def assertArraysEqual(
        self,
        actual,
        desired,
        *,
        check_dtypes=True,
        err_msg="",
        allow_object_dtype=False,
        verbose=True,
    ):
        """Assert that two arrays are exactly equal."""
        if check_dtypes:
            self.assertDtypesMatch(actual, desired)
        actual, desired = np.asarray(actual), np.asarray(desired)
        if not allow_object_dtype and (actual.dtype == object or desired.dtype == object):
            raise TypeError(
                "assertArraysEqual may be poorly behaved when np.asarray casts to dtype object."
            )
        np.testing.assert_array_equal(actual, desired, err_msg=err_msg, verbose=verbose)

    def assertArraysAllClose(
        self, actual, desired, *, check_dtypes=True, atol=None, rtol=None, err_msg=""
    ):
        """Assert that two arrays are close, with tolerances that depend on the dtype."""
        self.assertEqual(actual.shape, desired.shape)
        atol = max(tolerance(_dtype(actual), atol), tolerance(_dtype(desired), atol))
        rtol = max(tolerance(_dtype(actual), rtol), tolerance(_dtype(desired), rtol))
        _assert_numpy_allclose(actual, desired, atol=atol, rtol=rtol, err_msg=err_msg)
        if check_dtypes:
            self.assertDtypesMatch(actual, desired)

    def assertDtypesMatch(self, actual, desired, *, canonicalize_dtypes=True):
        """Assert that two values have one dtype, by default as the types of arrays are."""
        found = [_dtype(actual), _dtype(desired)]
        if canonicalize_dtypes and not config.enable_x64.value:
            found = [dtypes.canonicalize_dtype(d, allow_extended_dtype=True) for d in found]
        self.assertEqual(*found)

    def assertAllClose(
        self,
        actual,
        desired,
        *,
        check_dtypes=True,
        atol=None,
        rtol=None,
        canonicalize_dtypes=True,
        err_msg="",
    ):
        """Assert that two dictionaries, sequences, arrays or scalars are close."""
        options: dict[str, Any] = {
            "check_dtypes": check_dtypes,
            "atol": atol,
            "rtol": rtol,
            "canonicalize_dtypes": canonicalize_dtypes,
            "err_msg": err_msg,
        }
        if isinstance(actual, dict):
            self.assertIsInstance(desired, dict)
            self.assertEqual(set(actual), set(desired))
            for key in actual:
                self.assertAllClose(actual[key], desired[key], **options)
        elif is_sequence(actual) and not hasattr(actual, "__array__"):
            if not is_sequence(desired) or hasattr(desired, "__array__"):
                self.fail(f"Expected sequence, got {desired}")
            self.assertEqual(len(actual), len(desired))
            for x, y in zip(actual, desired):
                self.assertAllClose(x, y, **options)
        elif hasattr(actual, "__array__") or np.isscalar(actual):
            if not (hasattr(desired, "__array__") or np.isscalar(desired)):
                self.fail(f"Expected array-like, got {desired}")
            if check_dtypes:
                self.assertDtypesMatch(actual, desired, canonicalize_dtypes=canonicalize_dtypes)
            self.assertArraysAllClose(
                np.asarray(actual),
                np.asarray(desired),
                check_dtypes=False,
                atol=atol,
                rtol=rtol,
                err_msg=err_msg,
            )
        elif actual != desired:
            raise TypeError((type(actual), type(desired)))

    def assertMultiLineStrippedEqual(self, expected: str, what: str) -> None:
        """Assert that two texts are equal up to leading and trailing whitespace of lines."""

        def strip(s):
            return "\n".join(line.strip() for line in s.split("\n")).strip()

        self.assertMultiLineEqual(
            strip(expected), strip(what), msg=f"Found\n{what}\nExpecting\n{expected}"
        )

    @contextlib.contextmanager
    def assertNoWarnings(self):
        """Context manager: a warning is an error."""
        with test_warning_util.raise_on_warnings():
            yield

    # unittest's own are not for tests in several threads.

    @contextlib.contextmanager
    def assertWarns(self, warning, *, msg=None):  # type: ignore[override]
        """Context manager: assert that there is a warning of a class."""
        with test_warning_util.record_warnings() as found:
            yield
        if not any(issubclass(w.category, warning) for w in found):
            self.fail(f"Expected warning not found {warning}:{msg!r}, got {_texts(found)}")

    @contextlib.contextmanager
    def assertWarnsRegex(self, warning, regex):  # type: ignore[override]
        """Context manager: assert that there is a warning of a class whose text has a pattern."""
        if regex is not None and not isinstance(regex, re.Pattern):
            regex = re.compile(regex)
        with test_warning_util.record_warnings() as found:
            yield
        for w in found:
            if issubclass(w.category, warning):
                if regex is None or regex.search(str(w.message)):
                    return
        self.fail(f"Expected warning not found {warning}:{regex!r}, got {_texts(found)}")

    def assertCacheMisses(
        self,
        func: Callable[[], Any],
        *,
        cpp: int | None = None,
        aot_call: int | None = None,
        tracing: int | None = None,
        lowering: int | None = None,
        compilation_after_persistent_cache_miss: int | None = None,
    ):
        """Assert how often `func()` misses each cache, of those whose number is given.

        Args:
          func: function without arguments.
          cpp: calls of jitted functions that the native cache has no program for.
          aot_call: calls of compiled stages that Python has to prepare.
          tracing, lowering: functions that are traced, and programs that are lowered.
          compilation_after_persistent_cache_miss: programs that are compiled.
        """
        counters = {
            "cpp": (counting.count_pjit_cpp_cache_miss, cpp),
            "aot_call": (counting.count_aot_jit_cpp_cache_miss, aot_call),
            "tracing": (counting.count_jit_tracing_cache_miss, tracing),
            "lowering": (counting.count_jit_and_pmap_lowerings, lowering),
            "compilation_after_persistent_cache_miss": (
                counting.count_compilation_after_persistent_cache_miss,
                compilation_after_persistent_cache_miss,
            ),
        }
        with contextlib.ExitStack() as stack:
            counts = {
                name: (stack.enter_context(counter()), expected)
                for name, (counter, expected) in counters.items()
                if expected is not None
            }
            func()
        for name, (count, expected) in counts.items():
            self.assertEqual(expected, count(), f"cache misses: {name}")

    def _CompileAndCheck(
        self,
        fun,
        args_maker,
        *,
        check_dtypes=True,
        tol=None,
        rtol=None,
        atol=None,
        check_cache_misses=True,
    ):
        """Assert that a function gives the same results eagerly and under `jit`, traced once.

        With `check_cache_misses` a second eager call may not run operations with other parameters.
        """
        args = args_maker()

        def wrapped_fun(*args):
            self.assertTrue(python_should_be_executing)
            return fun(*args)

        def check(expected, found):
            self.assertAllClose(
                expected, found, check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol
            )

        python_should_be_executing = True
        python_ans = fun(*args)
        cfun = jax.jit(wrapped_fun)
        monitored_ans = cfun(*args)
        if check_cache_misses:
            with counting.count_events("operation_compiled")() as compiled:
                fun(*args)
            message = f"Compilation detected during second call of {fun} in op-by-op mode."
            self.assertEqual(compiled(), 0, message)
        python_should_be_executing = False
        compiled_ans = cfun(*args)
        check(python_ans, monitored_ans)
        check(python_ans, compiled_ans)
        args = args_maker()
        python_should_be_executing = True
        python_ans = fun(*args)
        python_should_be_executing = False
        check(python_ans, cfun(*args))

    def _CheckAgainstNumpy(
        self,
        numpy_reference_op,
        lax_op,
        args_maker,
        check_dtypes=True,
        tol=None,
        atol=None,
        rtol=None,
        canonicalize_dtypes=True,
    ):
        """Assert that a function gives the same results as its NumPy reference."""
        args = args_maker()
        lax_ans = lax_op(*args)
        numpy_ans = numpy_reference_op(*args)
        self.assertAllClose(
            lax_ans,
            numpy_ans,
            check_dtypes=check_dtypes,
            atol=atol or tol,
            rtol=rtol or tol,
            canonicalize_dtypes=canonicalize_dtypes,
        )


@contextlib.contextmanager
def _persistent_compilation_cache() -> Iterator[None]:
    """Context manager: keep every compiled program in a new directory."""
    options = {
        "jax_enable_compilation_cache": True,
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    with tempfile.TemporaryDirectory() as path:
        with global_config_context(jax_compilation_cache_dir=path, **options):
            compilation_cache.reset_cache()
            yield
    compilation_cache.reset_cache()


def _texts(found: list[warnings.WarningMessage]) -> list[str]:
    return [f"{w.category.__name__}: {w.message}" for w in found]


def is_sequence(x: Any) -> bool:
    """Whether `x` can be iterated over."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


class BufferDonationTestCase(JaxTestCase):
    """Tests of donation."""

    def assertDeleted(self, x):
        self.assertTrue(x.is_deleted())

    def assertNotDeleted(self, x):
        self.assertFalse(x.is_deleted())


def check_raises(thunk: Callable[[], Any], err_type: type[Exception], msg: str) -> None:
    """Check that `thunk()` raises an error whose text starts with `msg`."""
    _check_raised(thunk, err_type, lambda text: text.startswith(msg), msg)


def check_raises_regexp(thunk: Callable[[], Any], err_type: type[Exception], pattern: str) -> None:
    """Check that `thunk()` raises an error whose text starts like `pattern`."""
    _check_raised(thunk, err_type, lambda text: re.match(pattern, text) is not None, pattern)


def _check_raised(
    thunk: Callable[[], Any], err_type: type[Exception], matches: Callable[[str], bool], want: str
) -> None:
    try:
        thunk()
    except err_type as err:
        if not matches(str(err)):
            raise AssertionError(f"expected an error like {want!r}, got: {err}") from err
    else:
        raise AssertionError(f"no {err_type.__name__} was raised")


def strict_promotion_if_dtypes_match(dtypes):
    """Strict promotion if all dtypes are equal, standard promotion otherwise."""
    mode = "strict" if all(d == dtypes[0] for d in dtypes) else "standard"
    return jax.numpy_dtype_promotion(mode)
