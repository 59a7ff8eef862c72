"""The base class of test cases, with its assertions."""

import contextlib
import inspect
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from absl.testing import parameterized

import jax
from jax._src import config, core, dtypes
from jax._src.public_test_util import (
    _assert_numpy_allclose,
    tolerance,
)
from jax._src.test_util.counting import (
    count_jit_and_pmap_lowerings,
    count_jit_tracing_cache_miss,
)
from jax._src.tree_util import tree_all, tree_map


def with_config(**kwargs):
    """Class decorator: run the tests with these config values."""

    def wrap(cls):
        assert inspect.isclass(cls) and issubclass(cls, JaxTestCase), (
            "@with_config is for JaxTestCase classes"
        )
        cls._default_thread_local_config = {
            **getattr(cls, "_default_thread_local_config", {}),
            **kwargs,
        }
        return cls

    return wrap


def with_global_config(**kwargs):
    """Class decorator: run the tests with these global config values."""

    def wrap(cls):
        cls._default_global_config = {**getattr(cls, "_default_global_config", {}), **kwargs}
        return cls

    return wrap


@contextlib.contextmanager
def global_config_context(**kwargs) -> Iterator[None]:
    """Context manager: sets global config values, and restores them at exit."""
    previous = {name: getattr(config.config, name) for name in kwargs}
    try:
        for name, value in kwargs.items():
            config.update(name, value)
        yield
    finally:
        for name, value in previous.items():
            config.update(name, value)


class JaxTestCase(parameterized.TestCase):
    """Base class of tests, with comparisons of arrays, with NumPy, and of compiled functions."""

    _default_global_config: dict[str, Any] = {}
    _default_thread_local_config: dict[str, Any] = {"jax_enable_checks": True}

    def setUp(self):
        super().setUp()
        self.enterContext(global_config_context(**self._default_global_config))
        for name, value in self._default_thread_local_config.items():
            state = getattr(config, name.removeprefix("jax_"), None)
            if callable(state):
                self.enterContext(state(value))
            else:
                self.enterContext(global_config_context(**{name: value}))
        # Each test has its own seed, which is the same in every run.
        self._rng = np.random.RandomState(zlib.adler32(self._testMethodName.encode()))

    def tearDown(self):
        assert core.reset_trace_state(), "a test left a trace current"
        super().tearDown()

    def rng(self) -> np.random.RandomState:
        """The test's random number generator."""
        return self._rng

    def assertArraysEqual(
        self, x, y, *, check_dtypes=True, err_msg="", allow_object_dtype=False, verbose=True
    ):
        """Assert that two arrays are exactly equal."""
        if check_dtypes:
            self.assertDtypesMatch(x, y)
        x, y = np.asarray(x), np.asarray(y)
        if not allow_object_dtype and (x.dtype == object or y.dtype == object):
            raise TypeError(
                "assertArraysEqual may be poorly behaved when np.asarray casts to dtype object."
            )
        np.testing.assert_array_equal(x, y, err_msg=err_msg, verbose=verbose)

    def assertArraysAllClose(self, x, y, *, check_dtypes=True, atol=None, rtol=None, err_msg=""):
        """Assert that two arrays are close, with tolerances that depend on the dtype."""
        self.assertEqual(np.shape(x), np.shape(y))
        atol = max(tolerance(_dtype(x), atol), tolerance(_dtype(y), atol))
        rtol = max(tolerance(_dtype(x), rtol), tolerance(_dtype(y), rtol))
        _assert_numpy_allclose(x, y, atol=atol, rtol=rtol, err_msg=err_msg)
        if check_dtypes:
            self.assertDtypesMatch(x, y)

    def assertDtypesMatch(self, x, y, *, canonicalize_dtypes=True):
        if not config.enable_x64.value and canonicalize_dtypes:
            self.assertEqual(
                dtypes.canonicalize_dtype(_dtype(x), allow_extended_dtype=True),
                dtypes.canonicalize_dtype(_dtype(y), allow_extended_dtype=True),
            )
        else:
            self.assertEqual(_dtype(x), _dtype(y))

    def assertAllClose(
        self, x, y, *, check_dtypes=True, atol=None, rtol=None, canonicalize_dtypes=True, err_msg=""
    ):
        """Assert that two trees are equal in structure and close in values."""
        if isinstance(x, dict):
            self.assertIsInstance(y, dict)
            self.assertEqual(set(x), set(y))
            for k in x:
                self.assertAllClose(
                    x[k],
                    y[k],
                    check_dtypes=check_dtypes,
                    atol=atol,
                    rtol=rtol,
                    canonicalize_dtypes=canonicalize_dtypes,
                    err_msg=err_msg,
                )
        elif _is_sequence(x) and not hasattr(x, "__array__"):
            self.assertTrue(_is_sequence(y) and not hasattr(y, "__array__"))
            self.assertEqual(len(x), len(y))
            for a, b in zip(x, y):
                self.assertAllClose(
                    a,
                    b,
                    check_dtypes=check_dtypes,
                    atol=atol,
                    rtol=rtol,
                    canonicalize_dtypes=canonicalize_dtypes,
                    err_msg=err_msg,
                )
        elif hasattr(x, "__array__") or np.isscalar(x):
            self.assertTrue(hasattr(y, "__array__") or np.isscalar(y))
            if check_dtypes:
                self.assertDtypesMatch(x, y, canonicalize_dtypes=canonicalize_dtypes)
            self.assertArraysAllClose(
                np.asarray(x),
                np.asarray(y),
                check_dtypes=False,
                atol=atol,
                rtol=rtol,
                err_msg=err_msg,
            )
        elif x == y:
            return
        else:
            raise TypeError((type(x), type(y)))

    def assertMultiLineStrippedEqual(self, expected: str, what: str) -> None:
        """Assert that two texts are equal up to leading and trailing whitespace of lines."""

        def strip(s):
            return "\n".join(line.strip() for line in s.split("\n")).strip()

        self.assertMultiLineEqual(
            strip(expected), strip(what), msg=f"Found\n{what}\nExpecting\n{expected}"
        )

    @contextlib.contextmanager
    def assertNoWarnings(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield

    @contextlib.contextmanager
    def assertDeprecationWarnsOrRaises(self, deprecation_id: str, message: str):
        with self.assertWarnsRegex(DeprecationWarning, message):
            yield

    def assertCacheMisses(
        self,
        func,
        *,
        cpp=None,
        tracing=None,
        lowering=None,
        compilation_after_persistent_cache_miss=None,
    ):
        """Assert how often `func()` misses each level of caching."""
        with contextlib.ExitStack() as stack:
            trace = (
                stack.enter_context(count_jit_tracing_cache_miss()) if tracing is not None else None
            )
            lower = (
                stack.enter_context(count_jit_and_pmap_lowerings())
                if lowering is not None
                else None
            )
            func()
            if trace is not None:
                self.assertEqual(trace(), tracing)
            if lower is not None:
                self.assertEqual(lower(), lowering)

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
        """Assert that a function gives the same results eagerly and under `jit`, compiled once."""
        args = args_maker()

        def wrapped_fun(*args):
            self.assertTrue(python_should_be_executing)
            return fun(*args)

        python_should_be_executing = True
        python_ans = fun(*args)
        tree_map(lambda x: self.assertEqual(np.shape(x), x.shape), python_ans)
        cfun = jax.jit(wrapped_fun)
        python_should_be_executing = True
        monitored_ans = cfun(*args)
        if check_cache_misses:
            python_should_be_executing = False
        compiled_ans = cfun(*args)
        self.assertAllClose(
            python_ans, monitored_ans, check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol
        )
        self.assertAllClose(
            python_ans, compiled_ans, check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol
        )
        args = args_maker()
        python_should_be_executing = True
        python_ans = fun(*args)
        python_should_be_executing = not check_cache_misses
        compiled_ans = cfun(*args)
        self.assertAllClose(
            python_ans, compiled_ans, check_dtypes=check_dtypes, atol=atol or tol, rtol=rtol or tol
        )

    def _CheckAgainstNumpy(
        self,
        numpy_reference_op,
        lax_op,
        args_maker,
        *,
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
            numpy_ans,
            lax_ans,
            check_dtypes=check_dtypes,
            atol=atol or tol,
            rtol=rtol or tol,
            canonicalize_dtypes=canonicalize_dtypes,
        )

    def assertEvalShapeMatches(self, fun, *args):
        """Assert that `eval_shape` returns the types of the result."""
        expected = jax.eval_shape(fun, *args)
        got = fun(*args)
        self.assertTrue(
            tree_all(
                tree_map(
                    lambda a, b: a.shape == np.shape(b) and a.dtype == _dtype(b), expected, got
                )
            )
        )


def _is_sequence(x) -> bool:
    try:
        iter(x)
    except TypeError:
        return False
    return not isinstance(x, (str, bytes))


def _dtype(x) -> Any:
    return getattr(x, "dtype", None) or np.dtype(
        dtypes.python_scalar_dtypes.get(type(x), np.asarray(x).dtype)
    )


class BufferDonationTestCase(JaxTestCase):
    """Tests of donation."""

    def assertDeleted(self, x):
        self.assertTrue(x.is_deleted())

    def assertNotDeleted(self, x):
        self.assertFalse(x.is_deleted())


@contextlib.contextmanager
def ignore_warning(*, message: str = "", category: type[Warning] = Warning, **kw) -> Iterator[None]:
    """Context manager (and decorator): ignore matching warnings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=message, category=category, **kw)
        yield


def strict_promotion_if_dtypes_match(dtypes_list):
    """Strict promotion if all dtypes are equal, standard promotion otherwise."""
    mode = "strict" if all(d == dtypes_list[0] for d in dtypes_list) else "standard"
    return jax.numpy_dtype_promotion(mode)
