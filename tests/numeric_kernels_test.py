"""The kernels of jaxlib-ext for numerical functions, compared with the same programs without them."""

import native
import numpy as np
import pytest

import jax
import jax.numpy as jnp
import jax.scipy.special
from jax import lax
from jax._src import config
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

if not jax._src.xla_bridge.backends_are_initialized():
    config.update("jax_num_cpu_devices", 8)

NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
CUMULATIVE = {"sum": lax.cumsum, "prod": lax.cumprod, "max": lax.cummax, "min": lax.cummin}


@pytest.fixture(scope="module", autouse=True)
def extension():
    yield from native.extension_in_use()


def both(f, *args, target):
    """The results with the kernel, which must be called, and without any."""
    with config.enable_x64(True):
        assert target in jax.jit(f).lower(*args).as_text()
        ours = jax.jit(f)(*args)
        with config.native_kernels(False):
            assert "jaxlib_ext_" not in jax.jit(f).lower(*args).as_text()
            expected = jax.jit(f)(*args)
    return jax.tree.map(np.asarray, (ours, expected))


def assert_same(f, *args, target):
    ours, expected = both(f, *args, target=target)
    jax.tree.map(np.testing.assert_array_equal, ours, expected)
    assert jax.tree.map(lambda x: x.dtype, ours) == jax.tree.map(lambda x: x.dtype, expected)
    return ours


def draw(dtype, shape, seed=0):
    random = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, shape, dtype, endpoint=True)
    return random.standard_normal(shape).astype(dtype)


def every_scan(x, names=tuple(CUMULATIVE)):
    return [
        CUMULATIVE[name](x, axis, reverse=reverse)
        for name in names
        for axis in range(x.ndim)
        for reverse in (False, True)
    ]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_scans_of_integers(dtype):
    assert_same(every_scan, draw(dtype, (3, 70, 4)), target="jaxlib_ext_cumulative")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", jnp.bfloat16])
def test_scans_of_floats(dtype):
    x = draw(np.float32, (3, 70, 4)).astype(dtype)
    x[0, 7], x[1, 8] = -0.0, np.inf
    x[2, 40, 1] = np.nan
    extrema = lambda x: every_scan(x, ("max", "min"))
    ours, expected = both(extrema, x, target="jaxlib_ext_cumulative")
    for a, b in zip(ours, expected, strict=True):
        a, b = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_array_equal(a, b)
        number = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a[number]), np.signbit(b[number]))
    # Each of 70 roundings, of a partial sum or product, is at most half an ULP of the sum of magnitudes.
    sums = lambda x: every_scan(x, ("sum",))
    products = lambda x: every_scan(x, ("prod",))
    eps = float(jnp.finfo(dtype).eps)
    ours, expected = both(sums, x, target="jaxlib_ext_cumulative")
    size = [np.nan_to_num(y, posinf=0) for y in every_scan(np.abs(x.astype(np.float32)), ("sum",))]
    for a, b, scale in zip(ours, expected, size, strict=True):
        a, b = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        finite = np.isfinite(a)
        np.testing.assert_array_equal(a[~finite], b[~finite])
        assert np.all(np.abs(a[finite] - b[finite]) <= (35 * eps * scale + eps)[finite])
    ours, expected = both(products, 0.9 + 0.2 * np.abs(x[0]), target="jaxlib_ext_cumulative")
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=70 * eps)


def test_sums_are_rounded_once():
    x = np.full(100_000, 0.1, np.float32)
    ours = jax.jit(jnp.cumsum)(x)
    exact = np.cumsum(x.astype(np.float64))
    np.testing.assert_array_equal(ours, exact.astype(np.float32))


def test_derivatives_and_batches_of_scans():
    x, t = draw(np.float32, (6, 300)), draw(np.float32, (6, 300), 1)

    def f(x):
        def g(x):
            return jnp.cumsum(x) * lax.cummax(x) + jnp.cumprod(1 + 0.01 * x)

        return jax.jvp(jax.vmap(g), (x,), (t,)), jax.grad(lambda x: jnp.sum(jax.vmap(g)(x) * t))(x)

    ours, expected = both(f, x, target="jaxlib_ext_cumulative")
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-3), ours, expected
    )


def mesh(kind):
    return jax.make_mesh((8,), ("x",), axis_types=(kind,))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_sharded(kind):
    x = draw(np.int32, (64, 16))
    with jax.set_mesh(mesh(kind)):
        y = jax.device_put(x, NamedSharding(mesh(kind), P("x")))
        z = jax.device_put(x.ravel() % 50, NamedSharding(mesh(kind), P()))
        cumulative = jax.jit(lambda x: lax.cumsum(x, 1))(y)
        assert cumulative.sharding.spec[0] == "x"
        counts = jax.jit(lambda z: jnp.bincount(z, length=50))(z)
    np.testing.assert_array_equal(cumulative, np.cumsum(x, 1, dtype=np.int32))
    np.testing.assert_array_equal(counts, np.bincount(x.ravel() % 50, minlength=50))


def test_in_shard_map():
    x = draw(np.float32, (8, 512))

    def f(x):
        counts = jnp.zeros(9).at[jnp.arange(512) % 9].add(x[0])
        return jnp.cumsum(x[0])[None], counts[None]

    ours = jax.jit(jax.shard_map(f, mesh=mesh(AxisType.Auto), in_specs=P("x"), out_specs=P("x")))(x)
    expected = [np.concatenate(y) for y in zip(*(f(x[i : i + 1]) for i in range(8)), strict=True)]
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_random_bits(width):
    dtype = f"uint{width}"

    def f(data):
        draw_ = lambda key: jax.random.bits(key, (7, 61), dtype)
        keys = jax.random.wrap_key_data(data)
        return draw_(keys[0]), jax.vmap(draw_)(keys), jax.vmap(jax.vmap(draw_))(keys[None])

    assert_same(f, draw(np.uint32, (3, 2)), target="jaxlib_ext_threefry_bits")


def test_random_numbers():
    def f(data):
        key = jax.random.wrap_key_data(data)
        return (
            jax.random.uniform(key, (20_000,)),
            jax.random.normal(key, (20_000,), np.float64),
            jax.random.randint(key, (300,), 0, 1000),
            jax.random.choice(key, 1000, (300,), replace=False),
        )

    assert_same(f, np.array([0, 42], np.uint32), target="jaxlib_ext_threefry_bits")


@pytest.mark.parametrize("sample", [jax.random.uniform, jax.random.normal])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_numbers_take_the_place_of_their_bits(sample, dtype):
    f = lambda data: sample(jax.random.wrap_key_data(data), (100, 200), dtype)
    data = np.array([0, 42], np.uint32)
    out = assert_same(f, data, target="jaxlib_ext_threefry_bits_of_floats")
    with config.enable_x64(True):
        memory = jax.jit(f).lower(data).compile().memory_analysis()
    assert memory.temp_size_in_bytes < out.nbytes / 2


@pytest.mark.parametrize("dtype", [*NUMBERS, "float32", "float64"])
@pytest.mark.parametrize("mode", ["drop", "clip", "promise_in_bounds"])
def test_scatter_add(dtype, mode):
    random = np.random.default_rng(0)
    low, high = (0, 40) if mode == "promise_in_bounds" else (-90, 90)
    indices = random.integers(low, high, (20, 30))
    x, rows = draw(dtype, (40, 3)), draw(dtype, (20, 30, 3), 1)

    def f(x, indices, rows):
        wide = x.at[indices].add(rows, mode=mode)
        narrow = x[:, 0].at[indices.astype(np.int32)].add(rows[..., 0], mode=mode)
        return wide, narrow, x.at[indices.ravel()].add(rows[0, 0], mode=mode)

    assert_same(f, x, indices, rows, target="jaxlib_ext_scatter_add")


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_many_updates_of_few_rows(dtype, mode):
    """They are added in chunks; the sums of integers are the same, those of floats about as exact."""
    indices = np.random.default_rng(0).integers(-9, 60, 70_000)
    x, rows = draw(dtype, (40, 3)), draw(dtype, (70_000, 3), 1)

    def f(x, indices, rows):
        wide = x.at[indices].add(rows, mode=mode)
        narrow = x[:, 0].at[indices.astype(np.int32)].add(rows[..., 0], mode=mode)
        return wide, narrow, x.at[indices].add(1, mode=mode)

    if dtype != "float32":
        assert_same(f, x, indices, rows, target="jaxlib_ext_scatter_add")
        return
    ours, expected = both(f, x, indices, rows, target="jaxlib_ext_scatter_add")
    with config.enable_x64(True):
        exact = jax.jit(f)(x.astype(np.float64), indices, rows.astype(np.float64))
    exact = [np.asarray(x) for x in exact]
    for a, b, c in zip(ours, expected, exact, strict=True):
        for x in (a, b):
            np.testing.assert_allclose(x, c, rtol=1e-5, atol=1e-3)


def test_counting():
    x = np.random.default_rng(0).integers(-9, 120, 70_000)

    def f(x):
        counts = [jnp.bincount(x.astype(t), length=100) for t in ("int8", "int32", "int64")]
        return *counts, jnp.bincount(x > 5, length=3), jnp.bincount(x[:300], length=7)

    ours = assert_same(f, x, target="jaxlib_ext_scatter_add")
    np.testing.assert_array_equal(ours[1], np.bincount(np.maximum(x, 0), minlength=120)[:100])


@pytest.mark.parametrize("dtype", [*NUMBERS, "float32", "float64"])
def test_searchsorted(dtype):
    a, v = np.sort(draw(dtype, 300)), draw(dtype, (3, 1000), 1)
    v[0, :300] = a
    if not np.issubdtype(dtype, np.integer):
        tiny = np.finfo(dtype).tiny
        special = np.array([0, -0.0, tiny / 2, tiny / 4, -tiny / 4, np.inf, np.nan], dtype)
        a[-1], v[1, :7], v[2, 2:9] = np.inf, special, special
        a[140:145] = 0, -0.0, 0, tiny / 4, tiny / 2
        a.sort()

    def f(a, v):
        search = lambda a, v, **kw: [
            jnp.searchsorted(a, v, side=s, **kw) for s in ("left", "right")
        ]
        first = v[0]
        return (
            search(a, v),
            search(a, v, method="scan_unrolled"),
            search(a[::-1], v),  # not sorted, and bisected all the same
            search(jnp.concatenate([a, a[:0], a[-1:], a[-1:]]), v),
            jax.vmap(search, (None, 0))(a, v),
            jax.vmap(search, (None, 1))(a, v),
            jax.vmap(search, (0, None))(jnp.stack([a, a]), first),
            jax.vmap(search)(jnp.stack([a, a[:1].repeat(300)]), v[:2]),
            jnp.digitize(v, a),
        )

    assert_same(f, a, v, target="jaxlib_ext_search_sorted")
    few = lambda a, v: jnp.searchsorted(a, v[0, :260])
    assert_same(few, a, v, target="jaxlib_ext_search_sorted")


def test_histograms_and_interpolation():
    x, w = draw(np.float32, 30_000), draw(np.float32, 30_000, 1)
    x[:3] = np.nan, np.inf, -np.inf
    edges = np.array([-2, -1.5, 0, 0, 0.1, 2], np.float32)

    def f(x, w):
        return (
            jnp.histogram(x, 50, range=(-2, 2)),
            jnp.histogram(x, edges, density=True),
            jnp.histogram2d(x, w, bins=[9, 11], range=[(-2, 2), (-1, 3)])[0],
            jnp.interp(x, jnp.linspace(-1, 1, 30), jnp.linspace(0, 3, 30) ** 2),
            jax.jvp(lambda x: jnp.interp(x, edges[1:3], edges[:2]), (x,), (w,))[1],
        )

    ours = assert_same(f, x, w, target="jaxlib_ext_search_sorted")
    counts, ends = ours[0]
    np.testing.assert_array_equal(counts, np.histogram(x, ends)[0])
    weighted = lambda x, w: jnp.histogram(x, 20, range=(-2, 2), weights=w)[0]
    grad = jax.grad(lambda w: jnp.sum(weighted(x, w) ** 2))
    for a, b in zip(*both(lambda x, w: (weighted(x, w), grad(w)), x, w, target="jaxlib_ext_")):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-3)


def test_searchsorted_where_the_kernel_does_not_fit():
    x = draw(np.float32, (8, 512))
    edges = np.linspace(-2, 2, 9, dtype=np.float32)
    expected = np.searchsorted(edges, x)
    f = lambda x: jnp.searchsorted(edges, x)
    y = jax.jit(f)(jax.device_put(x, NamedSharding(mesh(AxisType.Auto), P("x"))))
    assert y.sharding.spec[0] == "x"
    np.testing.assert_array_equal(y, expected)
    mapped = jax.shard_map(f, mesh=mesh(AxisType.Auto), in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(jax.jit(mapped)(x), expected)


def test_derivatives_of_scatter_add_and_gather():
    i = np.random.default_rng(0).integers(0, 50, 600)
    x, w = draw(np.float32, (50, 4)), draw(np.float32, (600, 4))

    def f(x, w):
        def loss(x, w):
            return jnp.sum(x[i] * w) + jnp.sum(jax.ops.segment_sum(jnp.sin(w), i, 50) ** 2)

        return jax.value_and_grad(loss, (0, 1))(x, w), jax.jvp(loss, (x, w), (x, w))

    assert_same(f, x, w, target="jaxlib_ext_scatter_add")


def test_scatter_add_in_place_of_a_loop():
    """The operand is updated in place only where nothing else reads it."""
    i = np.arange(600) % 7

    def f(x):
        def step(x, _):
            return x.at[i].add(1.0), x

        return lax.scan(step, x, None, length=3), x

    (last, before), x = assert_same(f, np.zeros(7, np.float32), target="jaxlib_ext_scatter_add")
    assert x.sum() == 0 and before[0].sum() == 0 and last.sum() == 1800


def test_inverse_error_function():
    x = np.random.default_rng(0).uniform(-1, 1, (50, 100)).astype(np.float32)
    x[0, :8] = 0, -0.0, 1, -1, 2, -np.inf, np.nan, 0.875
    x[1] = 1 - np.float32(2) ** -np.linspace(1, 24, 100, dtype=np.float32)
    erfinv = jax.scipy.special.erfinv
    ours, expected = both(erfinv, x, target="jaxlib_ext_erf_inv")
    np.testing.assert_array_max_ulp(ours, expected, 8)
    np.testing.assert_array_equal(np.signbit(ours[:, 7:]), np.signbit(x[:, 7:]))
    # The derivatives are of the kernel's results, also of rows and under other transformations.
    grad = lambda x: jax.vmap(jax.grad(lambda row: erfinv(row).sum()))(x)
    ours, expected = both(grad, x, target="jaxlib_ext_erf_inv")
    np.testing.assert_allclose(ours, expected, rtol=2e-5)
    with config.enable_x64(True):
        for other in (x.astype(np.float64), x[:, :10]):
            assert "jaxlib_ext_erf_inv" not in jax.jit(erfinv).lower(other).as_text()


def test_inverse_error_function_on_several_devices():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    x = np.linspace(-1, 1, 1 << 13, dtype=np.float32)
    placed = jax.device_put(x, NamedSharding(mesh, P("x")))
    out = jax.jit(jax.scipy.special.erfinv)(placed)
    assert out.sharding == placed.sharding
    np.testing.assert_array_max_ulp(np.asarray(out), np.asarray(jax.scipy.special.erfinv(x)), 8)


def test_determinants():
    a = np.random.default_rng(0).standard_normal((7, 100, 3, 3)).astype(np.float32)
    a[0, 0, 0] = np.inf, 0, np.nan
    det = jnp.linalg.det
    ours, expected = both(det, a, target="jaxlib_ext_determinants_3x3")
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    np.testing.assert_allclose(ours[1:], np.linalg.det(a[1:]), atol=1e-5)
    # The derivatives are formulas of their own; matrices along other axes are moved.
    f = lambda a: (
        det(a),
        jax.grad(lambda a: det(a).sum())(a),
        jax.vmap(det, 2)(jnp.moveaxis(a, 1, 2)),
    )
    for x, y in zip(*both(f, a[1:], target="jaxlib_ext_determinants_3x3")):
        np.testing.assert_allclose(x, y, atol=1e-5)
    with config.enable_x64(True):
        for other in (a.astype(np.float64), a[:2]):
            assert "jaxlib_ext" not in jax.jit(det).lower(other).as_text()


def test_determinants_on_several_devices():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    a = np.random.default_rng(0).standard_normal((1 << 12, 3, 3)).astype(np.float32)
    placed = jax.device_put(a, NamedSharding(mesh, P("x")))
    out = jax.jit(jnp.linalg.det)(placed)
    assert out.sharding.spec == P("x")
    np.testing.assert_allclose(np.asarray(out), np.linalg.det(a), atol=1e-5)
