"""`jax.scipy.stats`: `mode`, `rankdata`, `sem` and `gaussian_kde`, against SciPy."""

import functools

import numpy as np
import pytest
import scipy.stats

import jax
import jax.numpy as jnp
import jax.scipy.stats as stats

NAN = np.nan
RNG = np.random.RandomState(0)
LINE = RNG.randn(6).astype(np.float32)
PLANE = RNG.randn(2, 7).astype(np.float32)
WEIGHTS = np.arange(1.0, 8).astype(np.float32)
ARRAYS = {
    "integers": RNG.randint(0, 4, (5, 6)).astype(np.int32),
    "floats": RNG.randint(-2, 3, (2, 7, 3)).astype(np.float32),
    "bytes": np.array([3, 255, 3, 0], np.uint8),
    "booleans": np.array([[True, False, True], [False, False, True]]),
    "nan": np.array([[1, NAN, 2, NAN], [3, 3, 1, 1], [np.inf, -np.inf, 0.0, -0.0]], np.float32),
    "one": np.array([[5.0]], np.float32),
}
AXES = {k: (None, *range(-1, x.ndim)) for k, x in ARRAYS.items()}


@pytest.mark.parametrize("name", ARRAYS)
def test_mode(name):
    x = ARRAYS[name]
    for axis in AXES[name]:
        got = stats.mode(x, axis=axis)
        want = scipy.stats.mode(np.nan_to_num(x, nan=1e9), axis=axis) if x.dtype != bool else None
        if want is None:
            want = scipy.stats.mode(x.astype(int), axis=axis)
        np.testing.assert_array_equal(np.nan_to_num(np.asarray(got.mode), nan=1e9), want.mode)
        np.testing.assert_array_equal(got.count, want.count)
        assert got.mode.dtype == x.dtype and got.count.dtype == np.int32
        kept = stats.mode(x, axis=axis, keepdims=True).count
        assert kept.shape == np.max(x, axis=axis, keepdims=True).shape


def test_mode_of_nothing_and_of_scalars():
    got = stats.mode(np.zeros((3, 0), np.int32), axis=1)
    assert got.mode.dtype == got.count.dtype == np.float32
    np.testing.assert_array_equal(got.mode, [NAN] * 3)
    np.testing.assert_array_equal(got.count, [0.0] * 3)
    assert stats.mode(np.zeros((3, 0), np.int32)).mode.dtype == np.int32
    assert stats.mode(3).mode == 3 and stats.mode(3, keepdims=True).count.shape == (1,)


@pytest.mark.parametrize("name", ARRAYS)
def test_rankdata(name):
    x = ARRAYS[name]
    for axis in AXES[name]:
        for method in ("average", "min", "max", "dense", "ordinal"):
            got = stats.rankdata(x, method, axis=axis)
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got, scipy.stats.rankdata(x, method, axis=axis))


@pytest.mark.parametrize("name", ARRAYS)
def test_sem(name):
    x = ARRAYS[name]
    for axis in AXES[name]:
        for policy in ("propagate", "omit"):
            got = stats.sem(x[:2], axis, nan_policy=policy)
            with np.errstate(all="ignore"):
                y = x[:2].astype(float)
                count = (y == y).sum(axis) if policy == "omit" else np.ones_like(y).sum(axis)
                deviation = np.nanstd if policy == "omit" else np.std
                many = count > 1
                want = np.where(
                    many,
                    deviation(y, axis) * np.sqrt(count / np.maximum(count - 1, 1)) / np.sqrt(count),
                    NAN,
                )
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)
            assert stats.sem(x, axis, keepdims=True).ndim == x.ndim
    np.testing.assert_allclose(stats.sem(LINE, ddof=2), scipy.stats.sem(LINE, ddof=2), rtol=1e-6)


def test_dtypes():
    many = jnp.tile(jnp.array([0, 1], jnp.float16), 40_000)
    assert stats.sem(many).dtype == np.float16
    np.testing.assert_allclose(np.float32(stats.sem(many)), 0.5 / np.sqrt(80_000), rtol=1e-3)
    with jax.enable_x64(True):
        assert stats.rankdata(LINE).dtype == np.float64 and stats.sem(LINE).dtype == np.float32
        assert stats.mode(LINE).count.dtype == np.int64
        kde = stats.gaussian_kde(LINE.astype(float))
        want = scipy.stats.gaussian_kde(LINE.astype(float))
        np.testing.assert_allclose(
            kde.logpdf(np.array([0.0, 3.0])), want.logpdf([0.0, 3.0]), rtol=1e-12
        )


def test_transformations_of_summaries():
    x = ARRAYS["integers"].astype(np.float32)
    for f in (stats.mode, stats.rankdata, stats.sem):
        for got in (jax.vmap(f)(x), jax.jit(jax.vmap(f))(x)):
            want = [f(row) for row in x]
            jax.tree.map(lambda g, *w: np.testing.assert_allclose(g, w, rtol=1e-6), got, *want)
    point = jnp.array([1.0, 3.0, 2.0, 2.0])
    np.testing.assert_array_equal(jax.jacfwd(stats.mode)(point).mode.sum(), 1)
    np.testing.assert_array_equal(jax.jacrev(stats.rankdata)(point), np.zeros((4, 4)))
    np.testing.assert_allclose(jax.grad(stats.sem)(point), [-0.204124, 0.204124, 0, 0], atol=1e-6)


def test_errors_of_summaries():
    for f in (stats.mode, stats.rankdata):
        with pytest.raises(NotImplementedError, match="omit"):
            f(LINE, nan_policy="omit")
        with pytest.raises(ValueError, match="'x'"):
            f(LINE, nan_policy="x")
    with pytest.raises(ValueError, match="raise"):
        stats.sem(LINE, nan_policy="raise")
    with pytest.raises(ValueError, match="'first'.*'dense'"):
        stats.rankdata(LINE, "first")
    for f in (stats.mode, stats.rankdata, stats.sem):
        with pytest.raises(ValueError, match="out of bounds"):
            f(LINE, axis=1)
        with pytest.raises(TypeError, match="list"):
            f([1, 2])


# ---------------------------------------------------------------------------------------------------
# gaussian_kde


@functools.cache
def _pair(which):
    data, arguments = {
        "line": (LINE, {}),
        "plane": (PLANE, {"weights": WEIGHTS}),
        "silverman": (PLANE, {"bw_method": "silverman"}),
        "number": (PLANE, {"bw_method": 0.4}),
        "function": (PLANE, {"bw_method": lambda k: 3 / k.n}),
    }[which]
    return stats.gaussian_kde(data, **arguments), scipy.stats.gaussian_kde(
        data.astype(float), **arguments
    )


@pytest.mark.parametrize("which", ["line", "plane", "silverman", "number", "function"])
def test_kde(which):
    got, want = _pair(which)
    assert (got.n, got.d) == (want.n, want.d)
    for name in ("neff", "dataset", "weights", "covariance", "inv_cov"):
        np.testing.assert_allclose(getattr(got, name), getattr(want, name), rtol=1e-5)
    x = np.linspace(-1, 2, 3 * got.d).reshape(got.d, 3).astype(np.float32)
    for name in ("evaluate", "pdf", "logpdf", "__call__"):
        np.testing.assert_allclose(getattr(got, name)(x), getattr(want, name)(x), rtol=2e-5)
    far = np.full(got.d, 40.0, np.float32)
    np.testing.assert_allclose(got.logpdf(far), want.logpdf(far), rtol=1e-5)
    mean, matrix = np.full(got.d, 0.3, np.float32), np.eye(got.d, dtype=np.float32) + 0.2
    np.testing.assert_allclose(
        got.integrate_gaussian(mean, matrix), want.integrate_gaussian(mean, matrix), rtol=1e-5
    )
    if got.d == 1:
        for low, high in ((0, 1), (1, 0), (-np.inf, np.inf), (6, 7)):
            np.testing.assert_allclose(
                got.integrate_box_1d(low, high), want.integrate_box_1d(low, high), rtol=1e-5
            )
    else:
        others = _pair("plane")
        np.testing.assert_allclose(
            got.integrate_kde(others[0]), want.integrate_kde(others[1]), rtol=1e-5
        )


def test_kde_of_data_far_from_zero():
    moved = stats.gaussian_kde(PLANE.round(1) + 1000)
    x = np.array([[1000.5], [1000.25]], np.float32)
    want = scipy.stats.gaussian_kde(np.asarray(moved.dataset, float))(x)
    np.testing.assert_allclose(moved(x), want, rtol=1e-4)


def test_kde_is_a_tree():
    kde = _pair("line")[0]
    x = np.array([0.0, 0.5], np.float32)
    np.testing.assert_allclose(jax.jit(lambda k, x: k(x))(kde, x), kde(x), rtol=1e-6)
    both = jax.vmap(stats.gaussian_kde)(jnp.stack([LINE, 2 * LINE]))
    want = [kde(x), stats.gaussian_kde(2 * LINE)(x)]
    np.testing.assert_allclose(jax.vmap(lambda k: k(x))(both), want, rtol=1e-5)
    slopes = jax.grad(lambda data: stats.gaussian_kde(data)(0.3)[0])(LINE)
    want = [-0.03299283, -0.01402412, -0.05602828, -0.00994599, -0.0273479, 0.0369647]
    np.testing.assert_allclose(slopes, want, rtol=2e-5)
    leaves, structure = jax.tree.flatten(kde)
    assert repr(jax.tree.unflatten(structure, leaves)) == repr(kde)


def test_samples_of_kde():
    """Against numbers of PyPI's build."""
    got = _pair("plane")[0].resample(jax.random.key(3), (3,))
    want = [[-0.12431264, 0.73935544, 1.3152943], [-0.6498808, -0.66477954, -0.32165113]]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    got = _pair("line")[0].resample(jax.random.key(3), (2, 2))
    np.testing.assert_allclose(got, [[[-2.599319, -1.0170017], [1.9550499, 2.1229758]]], rtol=1e-5)
    assert _pair("plane")[0].resample(jax.random.key(3), (2, 3)).shape == (2, 2, 3)
    assert _pair("plane")[0].resample(jax.random.key(3)).shape == (2,)


def test_errors_of_kde():
    make, plane, line = stats.gaussian_kde, _pair("plane")[0], _pair("line")[0]
    for call, error, match in [
        (lambda: make(np.ones(1)), ValueError, r"\(1,\)"),
        (lambda: make(np.ones((2, 3, 4))), ValueError, r"\(2, 3, 4\)"),
        (lambda: make(LINE + 1j), NotImplementedError, "complex"),
        (lambda: make([1.0, 2.0]), TypeError, "list"),
        (lambda: make(PLANE, "x"), ValueError, "bw_method"),
        (lambda: make(PLANE, np.ones(2)), ValueError, "bw_method"),
        (lambda: make(PLANE, weights=np.ones(6)), ValueError, r"\(7,\).*\(6,\)"),
        (lambda: plane(np.zeros((3, 2))), ValueError, r"\(3, 2\).*\(2, 7\)"),
        (lambda: plane.integrate_gaussian(np.zeros(3), np.eye(2)), ValueError, r"\(3,\)"),
        (lambda: plane.integrate_gaussian(np.zeros(2), np.eye(3)), ValueError, r"\(3, 3\)"),
        (lambda: plane.integrate_kde(line), ValueError, r"\(2, 7\).*\(1, 6\)"),
        (lambda: plane.integrate_kde(3), TypeError, "int"),
        (lambda: plane.integrate_box_1d(0, 1), ValueError, r"\(2, 7\)"),
        (lambda: line.integrate_box_1d(np.zeros(2), 1), ValueError, r"\(2,\)"),
        (lambda: plane.integrate_box([0, 0], [1, 1]), NotImplementedError, "integrate_box_1d"),
        (lambda: plane.set_bandwidth(0.3), NotImplementedError, "bw_method"),
        (lambda: setattr(plane, "neff", 3), AttributeError, "neff"),
    ]:
        with pytest.raises(error, match=match):
            call()
