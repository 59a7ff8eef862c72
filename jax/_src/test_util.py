"""The vocabulary of the test suites, ours and third parties': `JaxTestCase`, random inputs, counters."""

import collections
import contextlib
import functools
import inspect
import itertools
import math
import os
import re
import threading
import unittest
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from absl.testing import absltest, parameterized

import jax
from jax._src import config, core, dtypes, util, xla_bridge
from jax._src.interpreters import partial_eval as pe
from jax._src.public_test_util import (
    EPS,
    _assert_numpy_allclose,
    _default_tolerance,
    check_close,
    check_eq,
    check_grads,
    check_jvp,
    check_vjp,
    default_gradient_tolerance,
    default_tolerance,
    inner_prod,
    numerical_jvp,
    rand_like,
    tolerance,
)
from jax._src.tree_util import tree_all, tree_map


def num_generated_cases() -> int:
    """How many of the combinations of `sample_product` are tried."""
    return int(os.getenv("JAX_NUM_GENERATED_CASES", "10"))


# Devices


def device_under_test() -> str:
    """The platform tests run on: cpu, gpu or tpu."""
    return os.getenv("JAX_TEST_DUT") or jax.devices()[0].platform


def test_device_matches(device_types: Iterable[str]) -> bool:
    """Whether the tested platform is one of these (`gpu` stands for cuda and rocm)."""
    platform = device_under_test()
    for t in device_types:
        if t == platform or (platform == "gpu" and t in ("cuda", "rocm") and is_device(t)):
            return True
    return False


test_device_matches.__test__ = False  # type: ignore[attr-defined]  (not a test, for pytest)


def is_device(kind: str) -> bool:
    version = getattr(jax.devices()[0].client, "platform_version", "")
    return kind in version


def is_device_cuda() -> bool:
    return device_under_test() == "gpu" and is_device("cuda")


def is_device_rocm() -> bool:
    return device_under_test() == "gpu" and is_device("rocm")


def device_supports_buffer_donation() -> bool:
    return True


def supported_dtypes() -> set:
    """Scalar types that arrays can have here."""
    types = {
        np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, dtypes.bfloat16,
        np.float16, np.float32, np.complex64,
    }  # fmt: skip
    if config.enable_x64.value:
        types |= {np.int64, np.uint64, np.float64, np.complex128}
    return types


def is_optimized_build() -> bool:
    return True


def get_xla_flag(name: str, default: Any = None) -> Any:
    match = re.search(rf"--{name}=(\S+)", os.environ.get("XLA_FLAGS", ""))
    return match.group(1) if match else default


def _device_filter(predicate: Callable[[], bool], reason: Callable[[str], str]):
    def skip(test_method):
        @functools.wraps(test_method)
        def wrapper(self, *args, **kwargs):
            if not predicate():
                self.skipTest(reason(getattr(self, "_testMethodName", test_method.__name__)))
            return test_method(self, *args, **kwargs)

        return wrapper

    return skip


def skip_on_devices(*disabled_devices: str, skip_reason: str | None = None):
    """Decorator: skip a test on these platforms."""
    return _device_filter(
        lambda: not test_device_matches(disabled_devices),
        lambda name: skip_reason or f"{name} not supported on {device_under_test()}",
    )


def run_on_devices(*enabled_devices: str, skip_reason: str | None = None):
    """Decorator: run a test on these platforms only."""
    return _device_filter(
        lambda: test_device_matches(enabled_devices),
        lambda name: skip_reason or f"{name} runs on {enabled_devices} only",
    )


def skip_on_flag(flag_name: str, skip_value: Any):
    """Decorator: skip a test where a flag has a value."""
    return _device_filter(
        lambda: getattr(config.config, flag_name) != skip_value,
        lambda name: f"{name} not supported with {flag_name}={skip_value}",
    )


def set_host_platform_device_count(nr_devices: int) -> Callable[[], None]:
    """Ask for `nr_devices` CPU devices; returns the function that undoes it."""
    flag = "--xla_force_host_platform_device_count"
    previous = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = re.sub(rf"{flag}=\S+", "", previous or "") + f" {flag}={nr_devices}"
    xla_bridge._clear_backends()

    def undo():
        if previous is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = previous
        xla_bridge._clear_backends()

    return undo


def request_cpu_devices(nr_devices: int) -> None:
    """Ask for CPU devices at the start of a test module, before any is used."""
    if xla_bridge.backends_are_initialized():
        xla_bridge._clear_backends()
    config.update("jax_num_cpu_devices", nr_devices)


# Counting what the machinery does


class EventCounter:
    """Counts events of one kind, as `count()` after the block."""

    def __init__(self) -> None:
        self.value = 0
        self.keys: collections.Counter = collections.Counter()

    def __call__(self) -> int:
        return self.value

    def __getitem__(self, key) -> int:
        return self.keys[key]


@contextlib.contextmanager
def count_events(name: str) -> Iterator[EventCounter]:
    """Count the events `name` that `util.test_event` reports in this thread."""
    counter, thread = EventCounter(), threading.get_ident()
    previous = util.test_event_listener

    def listen(event, *args):
        if event == name and threading.get_ident() == thread:
            counter.value += 1
            if args:
                counter.keys[args[0]] += 1
        if previous is not None:
            previous(event, *args)

    util.test_event_listener = listen
    try:
        yield counter
    finally:
        util.test_event_listener = previous


@contextlib.contextmanager
def _count_calls(owner: Any, name: str) -> Iterator[EventCounter]:
    original = getattr(owner, name)
    counter = EventCounter()

    @functools.wraps(original)
    def counting(*args, **kwargs):
        counter.value += 1
        return original(*args, **kwargs)

    setattr(owner, name, counting)
    try:
        yield counter
    finally:
        setattr(owner, name, original)


def count_jit_tracing_cache_miss():
    """Count functions traced to jaxprs by `jit`, and by whatever stages functions."""
    return _count_calls(pe, "trace_to_jaxpr_dynamic")


def count_jit_and_pmap_lowerings():
    """Count programs lowered."""
    from_pxla = jax._src.interpreters.pxla
    return _count_calls(from_pxla, "lower")


def count_jit_compilation_cache_miss():
    """Count programs compiled."""
    return _count_calls(jax._src.compiler, "backend_compile_and_load")


count_primitive_compiles = count_jit_compilation_cache_miss


def count_device_put():
    """Count explicit transfers to devices."""
    return _count_calls(jax._src.device_transfer, "device_put")


# Random inputs: each maker takes a RandomState and gives rand(shape, dtype)


class ScalarShape:
    """Stands for a 0-dimensional array given as a NumPy scalar."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, i):
        raise IndexError(f"index {i} out of range.")


class _NumpyScalar(ScalarShape):
    pass


class _PythonScalar(ScalarShape):
    pass


NUMPY_SCALAR_SHAPE = _NumpyScalar()
PYTHON_SCALAR_SHAPE = _PythonScalar()


def _shape_of(shape) -> tuple:
    return () if isinstance(shape, ScalarShape) else tuple(shape)


def _cast_to_shape(value: np.ndarray, shape, dtype) -> Any:
    """An array, a NumPy scalar or a Python scalar, as `shape` says."""
    if shape is NUMPY_SCALAR_SHAPE:
        return np.dtype(dtype).type(value) if np.ndim(value) == 0 else value
    if shape is PYTHON_SCALAR_SHAPE:
        return dtypes.scalar_type_of(np.asarray(value))(np.asarray(value))
    return np.asarray(value, dtype=dtype)


def _rand_dtype(rand: Callable, shape, dtype, scale=1.0, post=lambda x: x):
    def draw():
        return np.asarray(scale * rand(*_shape_of(shape)))

    if dtypes.issubdtype(dtype, np.unsignedinteger):
        values = np.abs(draw())
    elif dtypes.issubdtype(dtype, np.complexfloating):
        values = draw() + 1j * draw()
    elif dtype == np.bool_:
        values = draw() > 0
    else:
        values = draw()
    return _cast_to_shape(post(np.asarray(values).astype(dtype)), shape, dtype)


def rand_fullrange(rng, standardize_nans: bool = False):
    """Bit patterns of any kind."""

    def rand(shape, dtype, post=lambda x: x):
        dtype = np.dtype(dtype)
        size = math.prod(_shape_of(shape)) * dtype.itemsize
        vals = rng.randint(0, np.iinfo(np.uint8).max + 1, size=size, dtype=np.uint8)
        vals = post(vals).view(dtype)
        if np.shape(vals) != _shape_of(shape):
            vals = vals.reshape(_shape_of(shape))
        if standardize_nans and dtypes.issubdtype(dtype, np.floating):
            vals[np.isnan(vals)] = np.nan
        return _cast_to_shape(vals, shape, dtype)

    return rand


def rand_default(rng, scale: float = 3.0):
    """Normal numbers times `scale`."""
    return functools.partial(_rand_dtype, rng.randn, scale=scale)


def rand_nonzero(rng):
    """Numbers that are not zero."""
    return functools.partial(
        _rand_dtype, rng.randn, scale=3, post=lambda x: np.where(x == 0, np.array(1, x.dtype), x)
    )


def rand_positive(rng):
    return functools.partial(
        _rand_dtype, rng.rand, scale=2, post=lambda x: np.where(x <= 0, np.array(1, x.dtype), x)
    )


def rand_small(rng):
    return functools.partial(_rand_dtype, rng.randn, scale=1e-3)


def rand_not_small(rng, offset: float = 10.0):
    return functools.partial(
        _rand_dtype,
        rng.randn,
        scale=3,
        post=lambda x: x + np.where(x > 0, offset, -offset).astype(x.dtype),
    )


def rand_small_positive(rng):
    return functools.partial(_rand_dtype, rng.rand, scale=2e-5)


def rand_uniform(rng, low: float = 0.0, high: float = 1.0):
    """Numbers of [low, high)."""

    def rand(shape, dtype):
        return _cast_to_shape(
            np.asarray(rng.uniform(low, high, _shape_of(shape))).astype(dtype), shape, dtype
        )

    return rand


def rand_int(rng, low: int = 0, high: int | None = None):
    """Integers of [low, high)."""

    def rand(shape, dtype):
        top = high
        if top is None:
            top = min(np.iinfo(dtype).max, np.iinfo(np.int64).max) if low == 0 else None
        return _cast_to_shape(
            np.asarray(rng.randint(low, top, size=_shape_of(shape))).astype(dtype), shape, dtype
        )

    return rand


def rand_bool(rng):
    def rand(shape, dtype):
        return _cast_to_shape(np.asarray(rng.rand(*_shape_of(shape)) < 0.5), shape, np.bool_)

    return rand


def rand_some_equal(rng):
    """Numbers of which some are equal."""

    def post(x):
        ravel = x.ravel()
        if ravel.size == 0:
            return x
        flips = np.asarray(rng.rand(*x.shape) < 0.5)
        return np.where(flips, ravel[0], x)

    return functools.partial(_rand_dtype, rng.randn, scale=100.0, post=post)


def _with_values(rng, base_scale, values):
    base = functools.partial(_rand_dtype, rng.randn, scale=base_scale)

    def rand(shape, dtype):
        out = np.array(base(_shape_of(shape), dtype))
        if dtypes.issubdtype(dtype, np.inexact):
            for value, fraction in values:
                where = rng.rand(*_shape_of(shape)) < fraction
                out = np.where(where, np.array(value, dtype), out).astype(dtype)
        return _cast_to_shape(out, shape, dtype)

    return rand


def rand_some_inf(rng):
    return _with_values(rng, 3, [(np.inf, 0.1), (-np.inf, 0.1)])


def rand_some_nan(rng):
    return _with_values(rng, 3, [(np.nan, 0.1)])


def rand_some_inf_and_nan(rng):
    return _with_values(rng, 3, [(np.inf, 0.1), (-np.inf, 0.1), (np.nan, 0.1)])


def rand_some_zero(rng):
    """Numbers of which some are zero."""
    return functools.partial(
        _rand_dtype,
        rng.randn,
        scale=3,
        post=lambda x: np.where(rng.rand(*x.shape) < 0.5, x, np.array(0, x.dtype)),
    )


def rand_unique_int(rng, high: int | None = None):
    def rand(shape, dtype):
        n = math.prod(_shape_of(shape))
        return np.asarray(
            rng.choice(np.arange(high or n, dtype=dtype), size=_shape_of(shape), replace=False)
        )

    return rand


def rand_indices_unique_along_axis(rng):
    """Indices that are unique along an axis: `rand(dim, shape, axis)`."""

    def rand(dim, shape, axis):
        axis = axis + len(shape) if axis < 0 else axis
        other = [s for i, s in enumerate(shape) if i != axis]
        cols = [rng.choice(dim, shape[axis], replace=False) for _ in range(math.prod(other))]
        idx = np.reshape(cols, [*other, shape[axis]])
        return np.moveaxis(idx, -1, axis)

    return rand


def rand_int_scalar(rng, low=0, high=None):
    return rand_int(rng, low, high)


def format_shape_dtype_string(shape, dtype) -> str:
    """`float32[2,3]`, for names of tests."""
    if isinstance(shape, np.ndarray):
        return f"{_dtype_name(dtype)}[{shape}]"
    if isinstance(shape, list):
        shape = tuple(shape)
    if shape is NUMPY_SCALAR_SHAPE:
        return _dtype_name(dtype)
    if shape is PYTHON_SCALAR_SHAPE:
        return "py" + _dtype_name(dtype)
    if isinstance(shape, tuple):
        return f"{_dtype_name(dtype)}[{','.join(map(str, shape))}]"
    if isinstance(shape, int):
        return f"{_dtype_name(dtype)}[{shape},]"
    raise TypeError(type(shape))


def _dtype_name(dtype) -> str:
    return np.dtype(dtype).name if dtype is not None else "None"


def dtype_str(dtype) -> str:
    return str(np.dtype(dtype))


def join_tolerance(tol1: Any, tol2: Any) -> Any:
    """The larger of two tolerances, dtype by dtype."""
    if tol1 is None:
        return tol2
    if tol2 is None:
        return tol1
    out = _normalize_tolerance(tol1)
    for k, v in _normalize_tolerance(tol2).items():
        out[k] = max(v, tolerance(k, tol1))
    return out


def _normalize_tolerance(tol: Any) -> dict:
    if isinstance(tol, dict):
        return {np.dtype(k): v for k, v in tol.items()}
    return {
        np.dtype(getattr(np, k)) if hasattr(np, k) else k: tol
        for k in _default_tolerance
        if hasattr(np, k)
    }


# Generating cases


def _choice(n: int, m: int, seed: int) -> list[int]:
    if n <= m:
        return list(range(n))
    rng = np.random.RandomState(seed)
    return sorted(rng.choice(n, size=m, replace=False).tolist())


def sample_product_testcases(*args: Sequence[dict], **kwargs: Sequence[Any]) -> list[dict]:
    """Some of the combinations: one dictionary of each positional list, one value of each keyword."""
    named = [[{k: v} for v in vs] for k, vs in kwargs.items()]
    groups = [list(a) for a in args] + named
    sizes = [len(g) for g in groups]
    total = math.prod(sizes)
    seed = zlib.adler32(repr(sorted(kwargs)).encode())
    cases = []
    for flat in _choice(total, num_generated_cases(), seed):
        case: dict = {}
        for group, size in zip(groups, sizes):
            flat, i = divmod(flat, size)
            case.update(group[i])
        cases.append(case)
    return cases


def sample_product(*args, **kwargs):
    """Decorator: run a test on some of the combinations of parameters (see `sample_product_testcases`)."""
    return parameterized.parameters(*sample_product_testcases(*args, **kwargs))


def parameterized_filterable(
    *,
    kwargs: Sequence[dict],
    testcase_name: Callable | None = None,
    one_containing: str | None = None,
):
    """Decorator: named parameters, whose names tests can be chosen by."""
    if testcase_name is None:
        testcase_name = lambda kw: "_".join(f"{k}={v}" for k, v in kw.items())
    named = [
        dict(
            kw,
            testcase_name=f"_{i}_{re.sub(r'[^A-Za-z0-9_.=-]', '_', str(kw.get('testcase_name') or testcase_name(kw)))}",
        )
        for i, kw in enumerate(kwargs)
    ]
    if one_containing is not None:
        named = [kw for kw in named if one_containing in kw["testcase_name"]][:1]
    return parameterized.named_parameters(*named)


def cases_from_list(xs):
    """Some of the elements of a list."""
    xs = list(xs)
    return [xs[i] for i in _choice(len(xs), num_generated_cases(), 42)]


def cases_from_gens(*gens):
    sizes = [1, 3, 10]
    for size in itertools.islice(itertools.cycle(sizes), num_generated_cases()):
        yield (f"_{size}", *(g() for g in gens))


def named_cases_from_sampler(gen):
    """Cases from a generator function that is given `sample(list) -> list of one`."""
    seen: set = set()
    retries = 0
    rng = np.random.RandomState(42)

    def sample(x):
        x = list(x)
        return [x[rng.randint(len(x))]] if x else []

    while len(seen) < num_generated_cases() and retries < 1000:
        retries += 1
        for case in gen(sample):
            if case["testcase_name"] in seen:
                continue
            retries = 0
            seen.add(case["testcase_name"])
            yield case


class JaxTestLoader(absltest.TestLoader):
    """Finds the tests; honours JAX_TEST_TARGETS and JAX_EXCLUDE_TEST_TARGETS (regular expressions)."""

    def getTestCaseNames(self, testCaseClass):
        names = list(super().getTestCaseNames(testCaseClass))
        targets = os.getenv("JAX_TEST_TARGETS", "")
        if targets:
            names = [n for n in names if re.search(targets, f"{testCaseClass.__name__}.{n}")]
        excluded = os.getenv("JAX_EXCLUDE_TEST_TARGETS", "")
        if excluded:
            names = [n for n in names if not re.search(excluded, f"{testCaseClass.__name__}.{n}")]
        return names


# The test case


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
    """Context manager: global config values, put back at the end."""
    previous = {name: getattr(config.config, name) for name in kwargs}
    try:
        for name, value in kwargs.items():
            config.update(name, value)
        yield
    finally:
        for name, value in previous.items():
            config.update(name, value)


class JaxTestCase(parameterized.TestCase):
    """Base class of tests: comparison of arrays, checks against NumPy and of compiled functions."""

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
        # Each test has its own seed, the same in every run.
        self._rng = np.random.RandomState(zlib.adler32(self._testMethodName.encode()))

    def tearDown(self):
        assert core.reset_trace_state(), "a test left a trace current"
        super().tearDown()

    def rng(self) -> np.random.RandomState:
        """The test's random numbers."""
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
        """Assert that two arrays are close, by tolerances that depend on the dtype."""
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
        """Assert that two texts are equal up to blanks at line ends and leading indentation."""

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
        """Assert that a function gives the same result eagerly and under `jit`, compiled once."""
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
        """Assert that a function gives what NumPy's gives."""
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
        """Assert that `eval_shape` gives the types of the result."""
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
    """Context manager (and decorator): let some warnings pass in silence."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=message, category=category, **kw)
        yield


class _LazyDtypes:
    """Lists of dtypes that depend on the platform and on x64: `dtypes.floating`, `.all_integer`, ..."""

    def supported(self, names):
        return [d for d in names if d in supported_dtypes()]

    @property
    def custom_floats(self):
        return self.supported([dtypes.bfloat16])

    @property
    def floating(self):
        return self.supported([np.float32, np.float64])

    @property
    def all_floating(self):
        return self.supported([dtypes.bfloat16, np.float16, np.float32, np.float64])

    @property
    def integer(self):
        return self.supported([np.int32, np.int64])

    @property
    def all_integer(self):
        return self.supported([np.int8, np.int16, np.int32, np.int64])

    @property
    def unsigned(self):
        return self.supported([np.uint32, np.uint64])

    @property
    def all_unsigned(self):
        return self.supported([np.uint8, np.uint16, np.uint32, np.uint64])

    @property
    def complex(self):
        return self.supported([np.complex64, np.complex128])

    @property
    def boolean(self):
        return self.supported([np.bool_])

    @property
    def inexact(self):
        return self.floating + self.complex

    @property
    def all_inexact(self):
        return self.all_floating + self.complex

    @property
    def numeric(self):
        return self.floating + self.integer + self.unsigned + self.complex

    @property
    def all(self):
        return (
            self.all_floating + self.all_integer + self.all_unsigned + self.complex + self.boolean
        )


dtypes_under_test = _LazyDtypes()


def with_mesh(named_shape: Sequence[tuple[str, int]]):
    """Context manager: a mesh of the first devices, with these names and sizes of axes."""
    names, sizes = zip(*named_shape) if named_shape else ((), ())
    return create_mesh(sizes, names)


def create_mesh(
    mesh_shape: Sequence[int], axis_names: Sequence[str], iota_order: bool = False, axis_types=None
):
    """A mesh of the first devices; the test is skipped if there are too few."""
    size = math.prod(mesh_shape)
    if len(jax.devices()) < size:
        raise unittest.SkipTest(
            f"Test requires {size} global devices and found {len(jax.devices())}."
        )
    devices = sorted(jax.devices(), key=lambda d: d.id)[:size]
    return jax.sharding.Mesh(
        np.array(devices).reshape(mesh_shape),
        axis_names,
        **({} if axis_types is None else {"axis_types": axis_types}),
    )


def strict_promotion_if_dtypes_match(dtypes_list):
    """Strict promotion if all dtypes are equal, standard promotion otherwise."""
    mode = "strict" if all(d == dtypes_list[0] for d in dtypes_list) else "standard"
    return jax.numpy_dtype_promotion(mode)


def is_sanitized() -> bool:
    return False


def jaxpr_eqn_count(jaxpr: core.Jaxpr | core.ClosedJaxpr) -> int:
    """How many equations a jaxpr has, nested ones included."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    return len(jaxpr.eqns) + sum(jaxpr_eqn_count(sub) for sub in core.subjaxprs(jaxpr))
