"""The kernels of jaxlib-ext: the same results as without them, bit for bit; calls that do not fit are errors."""

import importlib.machinery
import sys
import threading
import time
import types
import warnings

import ml_dtypes
import native
import numpy as np
import pytest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, lib
from jax._src.interpreters import mlir
from jax._src.lax.lax import sort_kernels
from jax._src.lib import native_kernels
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

if not jax._src.xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)


@pytest.fixture(scope="module", autouse=True)
def extension():
    yield from native.extension_in_use()


# The tests of sorting, once more with kernels.
reference, test_reference, test_numpy = case_tests(str(native.HERE / "lax_sort_test.py"))

FLOATS = ["float16", "bfloat16", "float32", "float64", *(
    f"float8_{x}" for x in ("e3m4", "e4m3", "e4m3fn", "e4m3b11fnuz", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
)]  # fmt: skip
INTEGERS = [f"{sign}int{bits}" for bits in (2, 4, 8, 16, 32, 64) for sign in ("", "u")]
REAL = ["bool", *INTEGERS, *FLOATS]


def draw(dtype, shape, seed=0):
    """Random bits, among which are NaNs and subnormal numbers, with zeros of both signs and ties."""
    random = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(bool)
    if dtype.name.startswith(("int", "uint")) and dtype.name[-1] in "24" and dtype.itemsize == 1:
        info = ml_dtypes.iinfo(dtype)
        return random.integers(int(info.min), int(info.max), shape, endpoint=True).astype(dtype)
    if dtype.kind == "c":
        part = np.finfo(dtype).dtype
        parts = [draw(part, shape, seed + i) for i in (1, 2)]
        out = np.empty(shape, dtype)
        out.real, out.imag = np.where(random.random(shape) < 0.5, parts[0], 1), parts[1]
        return out
    size = int(np.prod(shape))
    bits = random.integers(0, 256, size * dtype.itemsize, np.uint8).view(f"u{dtype.itemsize}")
    special = random.integers(0, 4, size)
    bits[special == 0] = random.choice(bits[:7], (special == 0).sum()) if size else 0
    x = bits.view(dtype)
    if dtype.kind not in "iu" and dtype.name != "float8_e8m0fnu":
        zeros = special == 1
        x[zeros] = random.choice(np.array([0.0, -0.0, 1.0, np.nan], dtype), zeros.sum())
    return x.reshape(shape)


def bits(x):
    """As unsigned integers; where XLA converts numbers to sort them, it loses the bits of NaNs."""
    x = np.ravel(np.asarray(x))
    raw = x.view(np.uint8).reshape(len(x), x.itemsize).copy()
    if x.dtype.name.startswith(("bfloat", "float8")):
        with np.errstate(invalid="ignore"):
            raw[np.isnan(x)] = 1
    return raw


def compare(f, *args):
    """Checks that `f` gives the same bits with and without kernels, and that it is made of kernels."""
    with config.enable_x64(True):
        args = [jnp.asarray(x) for x in args]
        text = jax.jit(f).lower(*args).as_text()
        assert "jaxlib_ext_" in text
        ours = jax.jit(f)(*args)
        with config.native_kernels(False):
            assert "jaxlib_ext_" not in jax.jit(f).lower(*args).as_text()
            expected = jax.jit(f)(*args)
    assert_same_bits(ours, expected)


def assert_same_bits(ours, expected):
    ours, expected = jax.tree.leaves(ours), jax.tree.leaves(expected)
    assert len(ours) == len(expected) > 0
    for x, y in zip(ours, expected):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_array_equal(bits(x), bits(y))


# Values


@pytest.mark.usefixtures("fusion_emitters")
@pytest.mark.parametrize("dtype", [*REAL, "complex64", "complex128"])
def test_dtypes(dtype):
    size = 500
    x = draw(getattr(ml_dtypes, dtype, dtype), (2, size))
    places = np.broadcast_to(np.arange(size, dtype=np.int32), x.shape)

    def f(x, places):
        return lax.sort(x), lax.sort((x, places)), lax.sort((places // 100, x, places), num_keys=2)

    compare(f, x, places)


@pytest.mark.usefixtures("fusion_emitters")
@pytest.mark.parametrize("dtype", REAL)
def test_top_k_of_dtypes(dtype):
    x = draw(getattr(ml_dtypes, dtype, dtype), (2, 600))
    if dtype == "float8_e5m2fnuz":  # whose smallest numbers XLA takes for zero there
        x = np.where(np.abs(x.astype(np.float32)) < 2**-14, 1, x.astype(np.float32)).astype(x.dtype)
    f = lambda x: [lax.top_k(x, k) for k in (1, 10, 599)]
    if dtype == "bfloat16" and lib.version >= sort_kernels.TELLS_NANS_APART:
        assert "jaxlib_ext_" not in jax.jit(f).lower(x).as_text()
    else:
        compare(f, x)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes(axis):
    shape = (5, 70, 33)
    x, y = draw("float32", shape), draw("int32", shape, 1) % 3
    compare(lambda x, y: (lax.sort(x, axis), lax.sort((y, x), axis)), x, y)


@pytest.mark.parametrize("shape", [(0,), (1,), (2,), (0, 3), (3, 0), (4, 1), (1, 17)])
def test_small_shapes(shape):
    x = draw("float32", shape)
    compare(lambda x: [lax.sort(x, 0), lax.sort((x, x)), lax.top_k(x, min(2, shape[-1]))], x)


def test_many_keys():
    # More bits than are sorted by in one step.
    random = np.random.default_rng(0)
    keys = [random.integers(0, 2, 3000).astype(d) for d in ("f8", "i8", "f8", "c16", "f4", "i1")]
    compare(lambda *keys: lax.sort((*keys, jnp.arange(3000)), num_keys=6), *keys)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "bfloat16", "int32", "float32", "float64"])
def test_large(dtype):
    """By several threads, and by every way of sorting."""
    size = 150_001
    x = draw(getattr(ml_dtypes, dtype, dtype), size)
    places = np.arange(size, dtype=np.int32)
    compare(
        lambda x, places: (lax.sort(x), lax.sort((x, places)), lax.sort((x[::-1], x, places))),
        x,
        places,
    )


def draw_evenly(dtype, differing_bits, shape):
    """Elements that are spread evenly: sorting distributes them among buckets first."""
    bits = np.random.default_rng(0).integers(0, 2**32, shape, np.uint32)
    return (bits & (2**differing_bits - 1) | (0 if differing_bits == 32 else 0x3F800000)).view(
        dtype
    )


@pytest.mark.parametrize("differing_bits", [32, 23])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
def test_large_and_even(dtype, differing_bits):
    """Through the buckets of all threads, and of one."""
    x = draw_evenly(dtype, differing_bits, 180_001)
    rows = draw_evenly(dtype, differing_bits, (8, 70_001))

    def f(x, rows):
        places = jnp.arange(x.size, dtype=np.int32)
        return (
            lax.sort(x),
            jnp.argsort(x),
            lax.sort((x, places)),
            lax.sort((places // 9, x)),
            lax.sort(rows),
        )

    compare(f, x, rows)


def test_large_permutation():
    x = draw_evenly("float32", 32, 180_001)
    key = jax.random.key(3)
    compare(lambda x: (jax.random.permutation(key, x), jax.random.permutation(key, x.size)), x)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
def test_large_unique(dtype):
    x = draw_evenly(dtype, 23, 180_001)  # among which are some twice

    def f(x):
        return jnp.unique(x), jnp.unique(
            x, return_index=True, return_inverse=True, return_counts=True
        )

    ours = f(x)
    with config.native_kernels(False):
        assert_same_bits(ours, f(x))
    np.testing.assert_array_equal(ours[0], np.unique(x))


@pytest.mark.parametrize("kind", ["random", "ascending", "descending", "equal"])
def test_large_top_k(kind):
    size = 600_000
    x = np.random.default_rng(0).integers(0, 10**6, size).astype(np.float32)
    x = {"ascending": np.sort(x), "descending": -np.sort(x), "equal": np.ones_like(x)}.get(kind, x)
    for k in (1, 300, 100_000):
        values, indices = jax.jit(lambda x: lax.top_k(x, k))(x)
        order = np.argsort(-x, kind="stable")[:k]
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(values, x[order])


def test_long_columns():
    x = np.random.default_rng(0).random((40_000, 3), np.float32)
    np.testing.assert_array_equal(jnp.sort(x, 0), np.sort(x, 0))
    np.testing.assert_array_equal(jnp.argsort(x, 0), np.argsort(x, 0, kind="stable"))


# Functions


FUNCTIONS = {
    "argsort": lambda x: jnp.argsort(x, descending=True),
    "lexsort": lambda x: jnp.lexsort((x, jnp.round(x))),
    "median": lambda x: jnp.median(x, axis=0),
    "quantile": lambda x: jnp.quantile(x, jnp.array([0.1, 0.7])),
    "percentile": lambda x: jnp.percentile(x, 30, axis=1, method="lower"),
    "nanmedian": lambda x: jnp.nanmedian(x),
    "partition": lambda x: jnp.partition(x, 3),
    "unique": lambda x: jnp.unique(jnp.round(x, 1), True, True, True, size=600),
    "searchsorted": lambda x: jnp.searchsorted(jnp.sort(x[0]), x, method="sort"),
    "permutation": lambda x: jax.random.permutation(jax.random.key(3), x, axis=1),
    "vmap": lambda x: jax.vmap(lambda row: lax.sort((row, row[::-1])), 1, 1)(x),
    "vmap of top_k": lambda x: jax.vmap(lambda row: lax.top_k(row, 3), 1)(x),
    "jvp": lambda x: jax.jvp(lambda x: lax.sort((x, x * 2), 0), (x,), (x * 3,)),
    "grad": lambda x: jax.grad(lambda x: (jnp.sort(x) * x + lax.top_k(x, 20)[0]).sum())(x),
    "scan": lambda x: lax.scan(lambda c, row: (jnp.sort(c + row), c), x[0], x),
    "while": lambda x: lax.fori_loop(0, 3, lambda i, x: jnp.sort(x, 0)[::-1] + i, x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    x = np.random.default_rng(0).normal(size=(30, 20)).astype(np.float32)
    compare(FUNCTIONS[name], x)


# Shardings


@pytest.mark.parametrize("types", [AxisType.Auto, AxisType.Explicit])
def test_sharded_batches(types):
    """Every device sorts its part of the batch: nothing is sent."""
    if jax.device_count() < 8:
        pytest.skip("needs 8 CPU devices")
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(types, types))
    x = np.random.default_rng(0).random((8, 6, 4), np.float32)
    for spec, axis in ((P("x", None, "y"), 1), (P("x", "y"), 2), (P(None, "x"), 0)):
        sharding = NamedSharding(mesh, spec if axis else P(None, None, "x"))
        placed = jax.device_put(x, sharding)
        f = jax.jit(lambda x, axis=axis: lax.sort(x, axis))
        compiled = f.lower(placed).compile()
        assert "all-" not in compiled.as_text() and "jaxlib_ext_sort" in compiled.as_text()
        out = f(placed)
        assert out.sharding.is_equivalent_to(sharding, 3)
        np.testing.assert_array_equal(out, np.sort(x, axis))
    rows = jax.device_put(x, NamedSharding(mesh, P("x")))
    f = jax.jit(lambda x: lax.top_k(x, 2))
    assert "all-" not in f.lower(rows).compile().as_text()
    np.testing.assert_array_equal(f(rows)[0], -np.sort(-x)[..., :2])


def test_sharded_sorting_dimension():
    if jax.device_count() < 8:
        pytest.skip("needs 8 CPU devices")
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    x = np.random.default_rng(0).random((16, 8), np.float32)
    placed = jax.device_put(x, NamedSharding(mesh, P(None, "x")))
    np.testing.assert_array_equal(jax.jit(lax.sort)(placed), np.sort(x))
    np.testing.assert_array_equal(jax.jit(lambda x: lax.top_k(x, 8)[0])(placed), -np.sort(-x))


# Errors


def sort_call(*operands, results=None, **attributes):
    attributes = {"dimension": np.int64(0), "num_keys": np.int64(1), **attributes}
    results = operands if results is None else results
    results = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in results)
    return jax.ffi.ffi_call("jaxlib_ext_sort", results)(*operands, **attributes)


F, I = np.ones((2, 3), np.float32), np.ones((2, 3), np.int32)
BAD_SORTS = {
    "there must be an operand": lambda: sort_call(results=(F,)),
    "as many results as operands, got 2 operands and 1 results": lambda: sort_call(F, F, results=[F]),
    "num_keys must be between 1 and the number of operands, 1, got 2": lambda: sort_call(F, num_keys=np.int64(2)),
    "num_keys must .* got 0": lambda: sort_call(F, num_keys=np.int64(0)),
    "dimension must be one of the 2 of the operands, got 2": lambda: sort_call(F, dimension=np.int64(2)),
    "dimension must .* got -1": lambda: sort_call(F, dimension=np.int64(-1)),
    r"operand 0 is F32\[2,3\] and operand 1 is F32\[3,2\]": lambda: sort_call(F, F.T),
    r"operand 0 is F32\[2,3\], but result 0 is S32\[2,3\]": lambda: sort_call(F, results=[I]),
    r"operand 0 has a type that is not supported: .*\[2,3\]": lambda: sort_call(I.astype(ml_dtypes.int4)),
    "dimension must be one of the 0": lambda: sort_call(np.float32(1)),
    "expected S64 but got F32": lambda: sort_call(F, num_keys=np.float32(1)),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD_SORTS)
def test_bad_sorts(message):
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(BAD_SORTS[message]())


def top_k_call(x, *results):
    results = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results)
    return jax.ffi.ffi_call("jaxlib_ext_top_k", results)(x)


BAD_TOP_KS = {
    "must have a dimension": lambda: top_k_call(np.float32(1), ((), "f4"), ((), "i4")),
    "not supported: C64": lambda: top_k_call(F.astype("c8"), ((2, 1), "c8"), ((2, 1), "i4")),
    r"of one shape, got F32\[2,1\] and S32\[2,2\]": lambda: top_k_call(F, ((2, 1), "f4"), ((2, 2), "i4")),
    "got S32.*and S32": lambda: top_k_call(F, ((2, 1), "i4"), ((2, 1), "i4")),
    "S32, and of one shape, got F32.* and U32": lambda: top_k_call(F, ((2, 1), "f4"), ((2, 1), "u4")),
    r"got F32\[2,3\] and F32\[2,4\]": lambda: top_k_call(F, ((2, 4), "f4"), ((2, 4), "i4")),
    r"got F32\[2,3\] and F32\[3,1\]": lambda: top_k_call(F, ((3, 1), "f4"), ((3, 1), "i4")),
    r"got F32\[2,3\] and F32\[1\]": lambda: top_k_call(F, ((1,), "f4"), ((1,), "i4")),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD_TOP_KS)
def test_bad_top_ks(message):
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(BAD_TOP_KS[message]())


# What is installed


def test_environment_info():
    text = jax.print_environment_info(return_string=True)
    assert f"jaxlib-ext: {native.extension().__version__}" in text
    assert f"vectors: {native.extension().vector_target()}" in text


def test_exported_programs_need_no_kernels():
    jaxpr = jax.make_jaxpr(lambda x: (lax.sort(x), lax.top_k(x, 2)))(np.ones(3, np.float32))
    for for_export in (False, True):
        parameters = mlir.LoweringParameters(for_export=for_export)
        module = mlir.lower_jaxpr_to_module(
            "f", jaxpr, num_const_args=0, in_avals=None, ordered_effects=(), platforms=["cpu"],
            backend=None, axis_context=None, donated_args=None, lowering_parameters=parameters,
        ).module  # fmt: skip
        assert ("jaxlib_ext_" in str(module)) != for_export


# What does not work


@pytest.fixture
def anew(monkeypatch):
    """Has the extension looked for once more in the test, and after it."""
    native.extension()
    for name in ("jaxlib_ext", "jaxlib_ext._kernels"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    native_kernels._load_once.cache_clear()
    yield
    native_kernels._load_once.cache_clear()


def extension_like(**changed):
    module = native.extension()
    names = ("__version__", "INTERFACE_VERSION", "handlers", "batch_partitionable_targets")
    return types.SimpleNamespace(**{name: getattr(module, name) for name in names} | changed)


def swapped_handlers():
    """The first is accepted, the second is not: there is another one of its name."""
    handlers = native.extension().handlers()
    return {
        "jaxlib_ext_of_a_test": handlers["jaxlib_ext_top_k"],
        "jaxlib_ext_top_k": handlers["jaxlib_ext_sort"],
    }


LIBRARY = "_kernels" + importlib.machinery.EXTENSION_SUFFIXES[0]
BROKEN = {
    "truncated": ({LIBRARY: b"\x7fELF"}, f"{LIBRARY} cannot be used .ImportError: .*too short"),
    "missing": ({}, "jaxlib_ext/__init__.py cannot be used .ModuleNotFoundError: .*_kernels"),
    "rejected": (dict(handlers=swapped_handlers), "cannot be used .JaxRuntimeError: .*jaxlib_ext_top_k"),
    "older": (dict(INTERFACE_VERSION=-1), "does not fit this version of jax"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_jax_goes_on_without_an_extension_that_does_not_work(kind, anew, tmp_path, monkeypatch):
    what, message = BROKEN[kind]
    if kind in ("truncated", "missing"):
        package = tmp_path / "jaxlib_ext"
        package.mkdir()
        init = native.ROOT / "jaxlib" / "jaxlib_ext" / "__init__.py"
        for name, content in {"__init__.py": init.read_bytes(), **what}.items():
            (package / name).write_bytes(content)
        monkeypatch.syspath_prepend(tmp_path)
    else:
        monkeypatch.setitem(sys.modules, "jaxlib_ext", extension_like(**what))
    with pytest.warns(UserWarning, match=message) as caught:
        text = jax.jit(lambda x: lax.sort(x * 2)).lower(F).as_text()
    assert "jaxlib_ext_" not in text
    (warning,) = caught
    assert "pip install" in str(warning.message)
    assert "jax_native_kernels=False" in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        np.testing.assert_array_equal(jax.jit(lambda x: lax.sort(-x))(F), -F)
        info = jax.print_environment_info(return_string=True)
    assert f"jaxlib-ext: not used ({native_kernels.problem()})" in info


def test_an_extension_that_is_off_is_not_looked_for(anew, monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxlib_ext", extension_like(INTERFACE_VERSION=-1))
    with warnings.catch_warnings(), config.native_kernels(False):
        warnings.simplefilter("error")
        jax.jit(lambda x: lax.sort(x * 3)).lower(F)
        info = jax.print_environment_info(return_string=True)
    assert "jaxlib-ext: not used (jax_native_kernels is False)" in info


def test_threads_load_one_extension(anew, monkeypatch):
    loads, found = [], []

    def handlers():
        loads.append(1)
        time.sleep(0.05)  # for the other threads to come
        return native.extension().handlers()

    module = extension_like(handlers=handlers)
    monkeypatch.setitem(sys.modules, "jaxlib_ext", module)
    threads = [
        threading.Thread(target=lambda: found.append(native_kernels.extension())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1 and found == [module] * 4
