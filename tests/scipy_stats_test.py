"""`jax.scipy.stats`: values, dtypes and derivatives of the distributions, against SciPy."""

import functools
import importlib
import math

import numpy as np
import pytest
import scipy.stats
from op_testing import case_tests
from quickly import QUICKLY

import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
from jax._src import test_util as jtu

reference, test_reference, _ = case_tests(__file__)
INF, NAN = np.inf, np.nan
LINE = [
    -INF,
    -100,
    -30,
    -5,
    -1.3,
    -0.5,
    -1e-3,
    0,
    1e-10,
    0.01,
    0.3,
    0.5,
    1,
    1.7,
    2,
    5,
    30,
    100,
    INF,
    NAN,
]
UNIT = [-0.1, 0, 1e-10, 0.01, 0.3, 0.5, 0.7, 0.99, 1, 1.1, NAN]
COUNTS = [-3, -1, 0, 1, 2, 5, 17, 100, 101, 1000, NAN]
SCALES = [(0, 1), (0.5, 2), (-1, 0.25)]
BAD_SCALES = [(0, 0), (0, -1), (NAN, 1), (0, NAN)]
DENSITIES = ("pdf", "logpdf")
TAILS = ("cdf", "logcdf", "sf", "logsf")

# name: (functions, first argument, parameters); those of `FIXED` take no location and scale.
CONTINUOUS = {
    "norm": ((*DENSITIES, *TAILS), LINE, [()]),
    "expon": ((*DENSITIES, *TAILS), LINE, [()]),
    "cauchy": ((*DENSITIES, *TAILS), LINE, [()]),
    "laplace": ((*DENSITIES, "cdf"), LINE, [()]),
    "logistic": ((*DENSITIES, "cdf", "sf"), LINE, [()]),
    "uniform": ((*DENSITIES, "cdf"), LINE, [()]),
    "gumbel_l": ((*DENSITIES, *TAILS), LINE[1:-2] + [NAN], [()]),
    "gumbel_r": ((*DENSITIES, *TAILS), LINE[1:-2] + [NAN], [()]),
    "t": (DENSITIES, LINE, [(0.5,), (1,), (5.5,), (1e3,), (INF,), (0,), (NAN,)]),
    "chi2": ((*DENSITIES, *TAILS), LINE[:-2] + [NAN], [(0.1,), (1,), (2,), (30,), (1e3,), (0,), (-1,)]),
    "gamma": ((*DENSITIES, *TAILS), LINE[:-2] + [NAN], [(0.05,), (1,), (1.5,), (10,), (100,), (0,), (NAN,)]),
    "pareto": ((*DENSITIES, *TAILS), LINE, [(0.3,), (2,), (7.5,), (0,), (-1,)]),
    "beta": (
        (*DENSITIES, *TAILS),
        LINE,
        [(0.05, 0.5), (1, 1), (2, 0.3), (1.5, 7.5), (10, 50), (1e3, 2e3), (0, 1), (1, -1), (NAN, 1)],
    ),
    "truncnorm": (
        (*DENSITIES, *TAILS),
        LINE,
        [(-1, 1), (-2, 3), (0, INF), (-INF, 0.1), (5, 8), (-8, -5), (30, 31), (0.001, 0.002), (1, -1)],
    ),
}  # fmt: skip
FIXED = {
    "gennorm": ((*DENSITIES, "cdf"), LINE, [(0.5,), (1,), (2,), (5,), (0,), (-1,)]),
    "vonmises": (DENSITIES, LINE[1:-2], [(0.01,), (1,), (50,), (-1,)]),
    "wrapcauchy": (DENSITIES, LINE, [(0.01,), (0.5,), (0.9,), (0,), (1,), (NAN,)]),
}
QUANTILES = {
    "norm": (("ppf", "isf"), [()]),
    "expon": (("ppf",), [()]),
    "cauchy": (("ppf", "isf"), [()]),
    "logistic": (("ppf", "isf"), [()]),
    "uniform": (("ppf",), [()]),
    "gumbel_l": (("ppf",), [()]),
    "gumbel_r": (("ppf",), [()]),
    "pareto": (("ppf",), [(0.3,), (2,), (7.5,), (0,)]),
}
MASSES = ("pmf", "logpmf")
DISCRETE = {
    "bernoulli": (MASSES, [(0.3,), (0,), (1,), (0.999,), (-0.1,), (NAN,)]),
    "binom": (MASSES, [(5, 0.3), (0, 0.5), (100, 0.01), (1000, 0.5), (20, 0), (20, 1), (-1, 0.5), (5, 1.1)]),
    "nbinom": (MASSES, [(1, 0.3), (2.5, 0.9), (20, 0.01), (1000, 0.5), (3, 1), (0, 0.5), (3, 1.1)]),
    "geom": (MASSES, [(0.3,), (0.01,), (1,), (0,), (1.1,)]),
    "poisson": ((*MASSES, "cdf"), [(0,), (0.1,), (3.7,), (20,), (1000,), (-1,), (NAN,)]),
    "betabinom": (MASSES, [(5, 2.3, 0.5), (20, 10, 50), (1, 0.1, 50), (1000, 1, 2), (5, 0, 1), (-1, 1, 1)]),
}  # fmt: skip


def rows():
    """Distributions, functions, and their arguments as columns of a table."""
    for name, (funs, first, parameters) in CONTINUOUS.items():
        table = [(x, *p, *s) for p in parameters for s in SCALES for x in first]
        table += [(0.3, *parameters[0], *s) for s in BAD_SCALES]
        yield from ((name, fun, table) for fun in funs)
    for name, (funs, first, parameters) in FIXED.items():
        table = [(x, *p) for p in parameters for x in first]
        yield from ((name, fun, table) for fun in funs)
    for name, (funs, parameters) in QUANTILES.items():
        table = [(q, *p, *s) for p in parameters for s in SCALES + BAD_SCALES for q in UNIT]
        yield from ((name, fun, table) for fun in funs)
    for name, (funs, parameters) in DISCRETE.items():
        table = [(k, *p, loc) for p in parameters for loc in (0, 2) for k in COUNTS]
        yield from ((name, fun, table) for fun in funs)
    table = [(k, p) for p in UNIT for k in (*COUNTS, 0.5)]
    yield "bernoulli", "cdf", table


ROWS = {f"{name}.{fun}": np.array(table).T for name, fun, table in rows()}


def function(path):
    name, fun = path.split(".")
    return getattr(getattr(stats, name), fun)


@functools.cache
def results(name):
    """All functions of a distribution, of float32, by one program."""
    paths = [path for path in ROWS if path.split(".")[0] == name]

    @functools.partial(jax.jit, compiler_options=QUICKLY)
    def program(tables):
        return {path: function(path)(*args) for path, args in tables.items()}

    return jax.device_get(program({path: ROWS[path].astype(np.float32) for path in paths}))


def log_tail(distribution, fun, *args):
    """SciPy takes the logarithm of the tail itself, also of one next to 1 or that underflows."""
    lower, upper = distribution.cdf(*args), distribution.sf(*args)
    tail, other = (lower, upper) if fun == "logcdf" else (upper, lower)
    return np.where(tail < 0.5, np.log(tail), np.log1p(-other))


def expected(path, table):
    name, fun = path.split(".")
    with np.errstate(all="ignore"):
        distribution = getattr(scipy.stats, name)
        want = (
            log_tail(distribution, fun, *table)
            if name in ("gamma", "chi2", "beta") and fun in ("logcdf", "logsf")
            else getattr(distribution, fun)(*table)
        )
        single = want.astype(np.float32).astype(np.float64)
    return np.where(np.isinf(single), single, want)


@pytest.mark.parametrize("path", ROWS)
def test_values(path):
    table = ROWS[path].astype(np.float32).astype(np.float64)
    ours, want = results(path.split(".")[0])[path].astype(np.float64), expected(path, table)
    if path == "bernoulli.ppf":
        want = np.maximum(want, 0)
    # Arguments of exponentials are rounded.
    rtol = 3e-5 if "log" in path else 1e-4
    # Smaller numbers are flushed to zero; quantiles are sums.
    tiny = 1e-6 if path.endswith(("ppf", "isf")) else float(np.finfo(np.float32).tiny)
    tiny = 3e-7 if path == "betabinom.logpmf" else tiny  # a sum of larger terms
    keep = ~((want == -INF) & np.isfinite(ours) & (ours < -700))  # SciPy's tails underflow, too
    np.testing.assert_allclose(ours[keep], want[keep], rtol=rtol, atol=tiny)


# A point inside the support of each density or mass function
INSIDE = {
    "norm": (0.3, 0.1, 1.5), "expon": (0.7, 0.1, 1.5), "cauchy": (0.3, 0.1, 1.5), "laplace": (0.3, 0.1, 1.5),
    "logistic": (0.3, 0.1, 1.5), "uniform": (0.3, 0.1, 1.5), "gumbel_l": (0.3, 0.1, 1.5),
    "gumbel_r": (0.3, 0.1, 1.5), "t": (0.3, 4.2, 0.1, 1.5), "chi2": (2.5, 7.3, 0.1, 1.5),
    "gamma": (2.5, 3.3, 0.1, 1.5), "pareto": (3.5, 2.5, 0.1, 1.5), "beta": (0.5, 3.3, 5.2, 0.1, 1.5),
    "truncnorm": (0.3, -1.2, 2.5, 0.1, 1.5), "gennorm": (0.7, 1.5), "vonmises": (0.7, 2.5), "wrapcauchy": (0.7, 0.4),
    "bernoulli": (1, 0.3), "binom": (3, 7, 0.3), "nbinom": (3, 7.5, 0.3), "geom": (3, 0.3), "poisson": (3, 2.5),
    "betabinom": (3, 7, 2.5, 4.5),
}  # fmt: skip
DISCRETE_ARGUMENTS = {name: 2 if name in ("binom", "betabinom") else 1 for name in DISCRETE}


@pytest.mark.parametrize("name", INSIDE)
def test_gradients(name):
    """The gradient of the logarithm by differences inside of the support; outside of it, it is zero."""
    kind = "logpmf" if name in DISCRETE else "logpdf"
    first = DISCRETE_ARGUMENTS.get(name, 0)
    point = np.array(INSIDE[name], float)
    gradient = jax.grad(getattr(getattr(stats, name), kind), range(first, len(point)))
    program = jax.jit(jax.vmap(gradient), compiler_options=QUICKLY)
    with jax.enable_x64(True):
        places = np.array([point, point])
        places[1, 0] = -1.0 if name in DISCRETE else -0.75
        slopes, outside = np.array(program(*places.T)).T
    fun, step = getattr(getattr(scipy.stats, name), kind), 1e-5
    for i, slope in enumerate(slopes, first):
        near = [np.where(np.arange(len(point)) == i, point + h, point) for h in (step, -step)]
        want = (fun(*near[0]) - fun(*near[1])) / (2 * step)
        np.testing.assert_allclose(slope, want, rtol=1e-6, atol=1e-8)
    if np.isneginf(fun(*places[1])):
        np.testing.assert_array_equal(outside, 0)
    else:
        assert np.isfinite(outside).all()


@pytest.mark.parametrize("fun", ["logcdf", "logsf"])
def test_gradients_of_tails_of_pareto_outside_of_the_support(fun):
    slopes = jax.grad(getattr(stats.pareto, fun), range(4))(0.5, 2.0, 0.5, 2.0)
    np.testing.assert_array_equal(slopes, 0)


def test_logarithms_of_tails_that_underflow():
    """By the closed forms of the exponential and of powers, and by recurrences in the shape."""
    x, y, z = (
        np.float32([100, 1e3, 1e20]),
        np.float32([1e-30, 1e-9, 0.01]),
        np.float32([0.5, 0.9, 0.999]),
    )
    one, log_y = np.ones(3, np.float32), np.log(y.astype(float))
    power = 50 * log_y - math.lgamma(51) - y * (50 / 51)
    # One program for each function, whose rows are calls.
    calls = [
        (stats.gamma.logsf, [(x, one), (x, 2 * one)], [-x, np.log1p(x) - x]),
        (stats.gamma.logcdf, [(y, 50 * one)], [power]),
        (stats.chi2.logsf, [(x, 2 * one)], [-x / 2]),
        (stats.chi2.logcdf, [(2 * y, 100 * one)], [power]),
        (
            stats.beta.logcdf, [(y, 50 * one, one), (y, 50 * one, 2 * one)],
            [50 * log_y, 50 * log_y + np.log(51 - 50 * y.astype(float))],
        ),
        (stats.beta.logsf, [(z, one, 200 * one)], [200 * np.log1p(-z.astype(float))]),
    ]  # fmt: skip
    for fun, rows, want in calls:
        out = jax.jit(fun, compiler_options=QUICKLY)(*np.stack(rows, 1))
        np.testing.assert_allclose(out, want, rtol=1e-6)


@pytest.mark.parametrize("tail", [stats.gamma.logcdf, stats.gamma.logsf])
def test_gradients_of_logarithms_of_tails(tail):
    """First and second derivatives by differences, also where the tails underflow."""
    x = np.array([0.3, 20.0, 1.0, 650.0, 1e-3, 900.0])
    a = np.array([2.5, 2.5, 200.0, 600.0, 40.0, 1.5])
    if tail is stats.gamma.logcdf:
        x[-1] = 30.0  # beyond it is zero
    else:
        x[[2, 4]] = 150.0, 20.0
    functions = (tail, jax.grad(tail), jax.grad(tail, 1))
    with jax.enable_x64(True):

        @functools.partial(jax.jit, compiler_options=QUICKLY)  # one program, whose loops are shared
        def program(x, a):
            pairs = [jax.vmap(jax.value_and_grad(f, (0, 1)))(x, a) for f in functions]
            return list(zip(*pairs))

        got = np.swapaxes(program(x, a)[1], 0, 1)
        for i, h in enumerate((1e-5 * x, 1e-5 * a)):
            step = (h, 0) if i == 0 else (0, h)
            above, below = (
                program(x + step[0], a + step[1])[0],
                program(x - step[0], a - step[1])[0],
            )
            difference = np.subtract(above, below) / (2 * h)
            np.testing.assert_allclose(got[i], difference, rtol=3e-5, atol=1e-10)


def test_gradients_of_logarithms_of_tails_of_beta():
    x = np.float32([1e-30, 0.25, 0.5, -1, 0, 1, 2])

    @functools.partial(jax.jit, compiler_options=QUICKLY)
    def program(x):
        slopes = jax.vmap(jax.grad(stats.beta.logcdf), (0, None, None))(x, 50, 1)
        return slopes, jax.vmap(jax.grad(stats.beta.logsf), (0, None, None))(1 - x, 1, 50)

    slopes, mirrored = map(np.asarray, program(x))
    np.testing.assert_allclose(slopes[:3], 50 / x[:3], rtol=1e-5)
    np.testing.assert_allclose(mirrored[1:3], -50 / x[1:3], rtol=1e-5)
    np.testing.assert_array_equal(slopes[3:], np.zeros(4))
    with pytest.raises(ValueError, match="gradient with respect to a and b"):
        jax.grad(stats.beta.logcdf, 1)(0.5, 2.0, 3.0)


def test_gradient_of_the_smallest_normal_densities():
    x = np.float32([12.95, 12.9, -13.0, 9.77])
    want = scipy.stats.norm.pdf(x.astype(float))
    out, pull = jax.vjp(stats.norm.pdf, x)
    np.testing.assert_allclose(out, want, rtol=3e-7)
    np.testing.assert_allclose(pull(np.ones_like(x))[0], -x * want, rtol=4e-7)


def test_tails_of_huge_numbers():
    x = np.float32([-np.inf, -1e38, -1e4, 1e4, 1e38, np.inf])
    steps = np.float32([0, 0, 0, 1, 1, 1])
    for distribution in (stats.norm, stats.laplace, stats.logistic):
        np.testing.assert_array_equal(distribution.cdf(x, 0.5, 2.0), steps)
        np.testing.assert_array_equal(distribution.pdf(x, 0.5, 2.0), 0)
    np.testing.assert_array_equal(stats.norm.sf(x, 0.5, 2.0), 1 - steps)


@pytest.mark.parametrize(
    "fun, ulps",
    [("expon.pdf", 4), ("expon.sf", 4), ("laplace.pdf", 4), ("laplace.cdf", 4), ("norm.pdf", 4), ("norm.sf", 6), ("logistic.pdf", 4), ("gumbel_l.pdf", 160), ("gumbel_r.pdf", 160)],
)  # fmt: skip
def test_exponentials_of_rounded_quotients(fun, ulps):
    """The density of Gumbel has an exponential of an exponential of up to 88, which is rounded."""
    rng = np.random.RandomState(0)
    z = rng.uniform(0 if "expon" in fun else -4, 80, 5000) * (-1 if "gumbel_l" in fun else 1)
    loc, scale = rng.randn(5000), np.exp(rng.randn(5000))
    x, loc, scale = np.float32(z * scale + loc), np.float32(loc), np.float32(scale)
    want = expected(fun, [v.astype(float) for v in (x, loc, scale)])
    keep = (want > 1e-36) & (x > loc) if "expon" in fun else want > 1e-36
    ours = np.asarray(function(fun)(x, loc, scale), float)
    error = np.abs(ours - want)[keep] / np.spacing(want[keep].astype(np.float32))
    assert error.max() < ulps


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes(dtype):
    with jax.enable_x64(dtype == "float64"):
        x = jnp.array([0.25, 0.75, 2.0], dtype)
        for out in (
            stats.norm.cdf(x),
            stats.gamma.logpdf(x, 1.5),
            stats.expon.ppf(x),
            stats.binom.pmf(x, 3, 0.5),
        ):
            assert out.dtype == dtype
        want = scipy.stats.gamma.logpdf(np.array([0.25, 0.75, 2.0]), 1.5)
        ours = np.asarray(stats.gamma.logpdf(x, 1.5), np.float64)
    np.testing.assert_allclose(ours, want, rtol=float(jnp.finfo(dtype).eps) * 4)


def test_promotion_and_broadcasting():
    out = stats.norm.pdf(np.int32([[0], [1]]), np.float32([0, 1, 2]), scale=2)
    assert out.shape == (2, 3) and out.dtype == np.float32
    assert stats.norm.logpdf(1).aval.weak_type and not stats.norm.cdf(1).aval.weak_type
    np.testing.assert_allclose(stats.norm.pdf(x=1.0, loc=1.0), 0.3989423, rtol=1e-6)
    np.testing.assert_allclose(
        jax.vmap(stats.t.pdf, (0, None))(np.float32([0, 1]), 3.0), [0.3675526, 0.2067483], rtol=1e-6
    )
    z = np.complex64([0.5 + 1j])
    np.testing.assert_allclose(jnp.exp(stats.norm.logpdf(z)), stats.norm.pdf(z), rtol=1e-6)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: stats.norm.pdf(), "norm.pdf: missing a required argument: 'x'"),
        (lambda: stats.norm.pdf([1.0]), "requires ndarray or scalar arguments"),
        (
            lambda: stats.norm.pdf(np.ones(2), np.ones(3)),
            r"incompatible shapes for broadcasting: \(2,\), \(3,\)",
        ),
        (
            lambda: stats.gamma.pdf(np.complex64([1]), 2.0),
            "gamma.pdf does not accept dtype complex64",
        ),
    ],
)
def test_errors(call, text):
    with pytest.raises(TypeError, match=text):
        call()


def test_entropy_of_poisson():
    mu = np.array([0, 1e-3, 0.5, 3, 19.9, 20.1, 99, 101, 1e5])
    with jax.enable_x64(True):
        ours = stats.poisson.entropy(mu)
        slope = jax.grad(stats.poisson.entropy)(3.0)
    mean = np.array([*mu[:8], 3 + 1e-5, 3 - 1e-5])
    mass = scipy.stats.poisson.pmf(np.arange(400), mean[:, None])
    *want, above, below = -np.sum(
        np.where(mass > 0, mass * np.log(np.where(mass > 0, mass, 1)), 0), 1
    )
    np.testing.assert_allclose(ours[:8], want, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(ours[8], 0.5 * np.log(2 * np.pi * np.e * 1e5), rtol=1e-6)
    np.testing.assert_allclose(
        stats.poisson.entropy(mu.astype(np.float32))[1:], ours[1:], rtol=2e-6
    )
    np.testing.assert_allclose(slope, (above - below) / 2e-5, rtol=1e-6)


def test_modules():
    for name in (*CONTINUOUS, *FIXED, *DISCRETE):
        assert importlib.import_module(f"jax.scipy.stats.{name}") is getattr(stats, name)


def test_multivariate_normal():
    cov, mean = np.float32([[2, 0.5], [0.5, 1]]), np.float32([0.1, -0.3])
    x = np.float32([[1, 2], [0, 0], [-3, 0.5]])
    want = scipy.stats.multivariate_normal.logpdf(x, mean, cov)
    normal = stats.multivariate_normal
    np.testing.assert_allclose(normal.logpdf(x, mean, cov), want, rtol=2e-6)
    np.testing.assert_allclose(normal.pdf(x, mean, np.stack([cov] * 3)), np.exp(want), rtol=1e-5)
    want = scipy.stats.multivariate_normal.logpdf(x, mean, 2)
    np.testing.assert_allclose(normal.logpdf(x, mean, np.float32(2)), want, rtol=2e-6)
    np.testing.assert_allclose(
        normal.logpdf(1.0, 0.5, 2.0), scipy.stats.norm.logpdf(1, 0.5, 2**0.5), rtol=1e-6
    )
    slope = jax.grad(normal.logpdf, 1)(x[0], mean, cov)
    np.testing.assert_allclose(slope, np.linalg.solve(cov, x[0] - mean), rtol=1e-5)
    assert np.isnan(normal.logpdf(x[0], mean, -cov))
    with pytest.raises(ValueError, match="got incompatible shapes"):
        normal.logpdf(x, mean, np.ones((3, 3), np.float32))
    with pytest.raises(NotImplementedError, match="allow_singular"):
        normal.logpdf(x, mean, cov, allow_singular=True)


def test_dirichlet():
    x, alpha = np.float32([[0.25, 0.5], [0.25, 0.375], [0.5, 0.125]]), np.float32([1, 2, 3.5])
    want = scipy.stats.dirichlet.logpdf(x, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(x, alpha), want, rtol=2e-6)
    np.testing.assert_allclose(stats.dirichlet.pdf(x[:2], alpha), np.exp(want), rtol=1e-5)
    assert stats.dirichlet.logpdf(np.float32([0.5, 0.5, 0.5]), alpha) == -INF
    with pytest.raises(ValueError, match="`alpha` must be one-dimensional"):
        stats.dirichlet.logpdf(x, np.ones((3, 2), np.float32))
    with pytest.raises(ValueError, match="one entry fewer"):
        stats.dirichlet.logpdf(np.ones(5, np.float32), alpha)


def test_multinomial():
    x, p = np.int32([[1, 2, 3], [6, 0, 0], [2, 2, 1], [-1, 4, 3]]), np.float32([0.25, 0.25, 0.5])
    want = scipy.stats.multinomial.logpmf(x[:2], 6, p)
    ours = stats.multinomial.logpmf(x, 6, p)
    np.testing.assert_allclose(ours, [*want, -INF, -INF], rtol=2e-6)
    np.testing.assert_allclose(stats.multinomial.pmf(x[:2], 6, p), np.exp(want), rtol=1e-5)
    with pytest.raises(ValueError, match="must be of integer type"):
        stats.multinomial.logpmf(p, 6, p)


# Derivatives at the ends of the support, beyond them, and where a formula for the derivative would not be defined.
EDGES = {
    "gamma.cdf": ([0, -1], [1, 0.5], [1, 0]),
    "gamma.sf": ([0, -1], [1, 1], [-1, 0]),
    "chi2.cdf": ([0, -0.5], [2, 1], [0.5, 0]),
    "gennorm.cdf": ([0, 0, -1e-6, 1e-6], [1, 7, 0.5, 7], [0.5, 0.53450924, 0.2497501, 0.53450924]),
}


def test_derivatives_at_the_edge():
    @functools.partial(jax.jit, compiler_options=QUICKLY)
    def program(points):
        out = {}
        for tail, (x, parameter) in points.items():
            fun = functools.reduce(getattr, tail.split("."), stats)
            moving = lambda x, f=fun, p=parameter: f(x, p)
            steps = jax.jvp(moving, [x], [jnp.ones_like(x)])[1]
            out[tail] = steps, jax.grad(lambda x, f=moving: f(x).sum())(x)
        return out

    points = {tail: np.float32(columns[:2]) for tail, columns in EDGES.items()}
    for tail, found in program(points).items():
        for derivatives in found:
            np.testing.assert_allclose(derivatives, EDGES[tail][2], rtol=1e-6, err_msg=tail)


def test_derivatives_of_the_generalized_normal_distribution_by_the_exponent():
    x, beta = np.float32([2, -0.3, 0, 1e-6, 0.99]), np.float32([0.5, 7, 2, 7, 20])
    want = [0.79277941, 1.18526971e-3, 0, -3.9704244e-9, 2.94976243e-4]  # computed by mpmath
    found = jax.grad(lambda beta: stats.gennorm.cdf(x, beta).sum())(beta)
    np.testing.assert_allclose(found, want, rtol=2e-5)


def test_masses_of_huge_counts():
    """Neither corrections of powers nor quotients by counts leave the range of float32."""
    stats = jax.scipy.stats
    mass = stats.geom.pmf(np.float32([2e9, 1.5e9]), np.float32([0.3, 3.1e-8]))
    np.testing.assert_allclose(mass, [0, 1.9800156e-28], rtol=1e-5)
    mass = stats.nbinom.pmf(np.float32(1e10), np.float32(0.5), np.float32(1e-30))
    np.testing.assert_allclose(mass, 5.6418958e-21, rtol=1e-5)


def test_densities_at_tiny_numbers():
    """Parts of products below the normal numbers count for nothing."""
    x = np.float32([1e-35, 1e-37])
    found = jax.scipy.stats.beta.logpdf(x, np.float32(0.5), np.float32(2))
    want = scipy.stats.beta.logpdf(np.float64(x), 0.5, 2)
    np.testing.assert_allclose(found, want, rtol=3e-7)
    found = jax.scipy.stats.beta.pdf(x, np.float32(0.5), np.float32(2))
    np.testing.assert_allclose(found, np.exp(want), rtol=1e-6)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.scipy.stats.binom.pmf(0, 5, 1e-300), 1, rtol=1e-14)


def test_arguments_of_several_shapes_are_broadcast_by_the_program():
    x, loc = jnp.linspace(-1, 1, 5).reshape(5, 1), jnp.array([[0.0, 0.5, -2]])
    with jtu.count_jit_compilation_cache_miss() as count:
        out = stats.norm.logcdf(x, loc, jnp.float32(2))
    assert count() == 1
    np.testing.assert_allclose(out, scipy.stats.norm.logcdf(x, loc, 2), rtol=1e-5)


def test_logcdf_takes_the_quotient_that_users_compute():
    """A program that divides by one row may multiply by its reciprocals; so does this one."""
    x, loc = jnp.linspace(-5, 5, 100).reshape(-1, 1), jnp.array([[0.0, -10.0, 20.0]])
    scale = jnp.array([[1, 5, 7]])
    z = (x - loc) / scale
    logcdf = stats.norm.logcdf(x, loc, scale)
    np.testing.assert_allclose(jnp.exp(logcdf), jax.scipy.special.ndtr(z), rtol=1e-6)
    assert np.isnan(stats.norm.logcdf(x, loc, -scale)).all()
    # other orders of the shapes
    args = jnp.float32(0.5), jnp.ones((3, 1)), jnp.arange(1.0, 5)
    want = scipy.stats.norm.logcdf(*map(np.asarray, args))
    np.testing.assert_allclose(stats.norm.logcdf(*args), want, rtol=1e-6)
