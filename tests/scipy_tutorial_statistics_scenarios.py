"""Programs of the pages of SciPy's user guide on special functions and statistics, one a topic."""

import numpy as np
from op_cases import Programs
from scipy_tutorial_data import (
    ANGLES,
    CODES,
    COUNTS,
    DRUM_ZERO,
    HARMONICS,
    HEIGHTS,
    OBSERVED,
    OTHERS,
    RADII,
    TABLE,
    P,
    Q,
)

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax.scipy import integrate, linalg, special, stats
from jax.scipy.cluster.vq import vq
from jax.scipy.optimize import minimize

CASES, ALONE = Programs(), Programs()
define = CASES.define
# Compared with SciPy only: the reference's `bessel_jn` is NaN at zero, its minimization gives up early, and its
# `gumbel_r` has no derivatives.
alone = ALONE.define


@alone(tol=2e-6)
def bessel_drum():
    orders = special.bessel_jn(np.float32(DRUM_ZERO) * RADII, v=1)
    return orders[1][:, None] * jnp.cos(ANGLES)


@define(tol=2e-6)
def special_functions():
    p = np.linspace(0.05, 0.95, 7, dtype=np.float32)
    return {
        "logistic": special.expit(special.logit(p)),
        "entropy": special.entr(p).sum(),
        "divergence": special.rel_entr(p, p[::-1]).sum(),
        "logsumexp": special.logsumexp(special.logit(p), b=p),
        "softmax": special.softmax(4 * p),
        "erf": special.erf(p) + special.erfc(p),
        "incomplete": special.gammainc(2 * p, p) - special.betainc(p, 2 * p, p),
    }


@define(tol=2e-5)
def distributions():
    x = np.linspace(0.1, 6, 9, dtype=np.float32)
    return {
        "norm": stats.norm.cdf(x, 3, 2),
        "quantiles": stats.norm.ppf(stats.norm.cdf(x, 3, 2), 3, 2),
        "t": stats.t.pdf(x, 10),
        "gamma": stats.gamma.sf(x, 1.99, 0, 2),
        "poisson": stats.poisson.pmf(np.arange(9), 3.5),
        "beta": stats.beta.cdf(x / 7, 2.3, 0.6),
    }


@alone(tol=2e-3)
def maximum_likelihood():
    """The curvature at the maximum is small, so that float32 finds the parameters to a few digits."""

    def loss(p):
        shape, scale = jnp.exp(p)
        return -jnp.mean(stats.gamma.logpdf(HEIGHTS, shape, 0, scale))

    found = minimize(loss, np.float32([0, 0]), method="BFGS")
    return jnp.exp(found.x)


@define(tol=2e-5)
def hypothesis_tests():
    n, m = len(HEIGHTS), len(OTHERS)
    pooled = ((n - 1) * HEIGHTS.var(ddof=1) + (m - 1) * OTHERS.var(ddof=1)) / (n + m - 2)
    t = (HEIGHTS.mean() - OTHERS.mean()) / np.sqrt(pooled * (1 / n + 1 / m))
    df = np.float32(n + m - 2)
    chi2 = ((COUNTS - COUNTS.mean()) ** 2 / COUNTS.mean()).sum()
    ranks = stats.rankdata(np.concatenate([HEIGHTS, OTHERS]))
    return {
        "t": (t, special.betainc(df / 2, 0.5, df / (df + t * t))),
        "chi2": (chi2, stats.chi2.sf(chi2, len(COUNTS) - 1)),
        "u": ranks[:n].sum() - n * (n + 1) / 2,
        "sem": stats.sem(HEIGHTS),
    }


@define(tol=1e-5)
def density_estimation():
    kde = stats.gaussian_kde(HEIGHTS, bw_method="silverman")
    weighted = stats.gaussian_kde(OBSERVED.T, weights=np.arange(1, 61, dtype=np.float32))
    points = np.linspace(0, 12, 7, dtype=np.float32)
    return {
        "density": kde(points),
        "mass": kde.integrate_box_1d(2, 7),
        "product": kde.integrate_kde(stats.gaussian_kde(OTHERS)),
        "plane": weighted.logpdf(OBSERVED[::9].T),
    }


@define(tol=1e-5)
def clusters():
    def step(codes, _):
        code, distance = vq(OBSERVED, codes)
        chosen = code[:, None] == np.arange(3)
        means = (chosen.T @ OBSERVED) / chosen.sum(0)[:, None]
        return means, distance.mean()

    codes, _ = jax.lax.scan(step, CODES, length=6)
    code, distance = jsp.cluster.vq.vq(OBSERVED, codes)
    return codes, code, distance


@define(tol=1e-5)
@jax.jit
def gamma_functions():
    x, n = np.linspace(0.3, 5.4, 8, dtype=np.float32), np.arange(8)
    return {
        "reflection": special.gamma(x) * special.gamma(1 - x),
        "signs": special.gammasgn(-x),
        "digamma": jax.vmap(jax.grad(special.gammaln))(x),
        "derivatives": special.polygamma(np.arange(1, 4)[:, None], x),
        "rising": special.poch(x, 3),
        "beta": special.beta(x, x[::-1]),
        "log_beta": special.betaln(10 * x, x[::-1]),
        "binomial": special.comb(7, n),
        "factorial": special.factorial(n),
        "hurwitz": special.zeta(x + 1, 2.5),
        "bernoulli": special.bernoulli(7),
        "wishart": special.multigammaln(x + 2, 3),
    }


@define(tol=5e-6)
@jax.jit
def error_functions():
    x = jnp.linspace(-1, 2.5, 8)
    return {
        "scaled": special.erfcx(x),
        "slopes": jax.vmap(jax.grad(special.dawsn))(x),
        "voigt": special.wofz((x + 0.3j) / np.float32(2**0.5)).real
        / np.float32((2 * np.pi) ** 0.5),
        "quantiles": special.erfinv(special.erf(x / 2)),
        "tail": special.log_ndtr(-8 * x),
        "deviates": special.ndtri(special.ndtr(x)),
        "cornu": special.fresnel(x),
        "owen": special.owens_t(x, 0.7),
    }


@define(tol=5e-6)
@jax.jit
def exponential_integrals():
    x = np.linspace(0.2, 4, 8, dtype=np.float32)
    return {
        "ei": special.expi(x),
        "e1": special.exp1(x),
        "en": special.expn(3, x),
        "sine_and_cosine": special.sici(3 * x),
        "dilogarithm": special.spence(x),
        "kummer": special.hyp1f1(1.5, 2.5, x),
        "gauss": special.hyp2f1(0.5, 1.5, 2.5, x / 5),
    }


@define(tol=5e-6)
@jax.jit
def modified_bessel():
    """A Kaiser window; and i1 as the derivative of i0."""
    x = np.linspace(-1, 1, 20, dtype=np.float32)
    beta = np.float32(6.5)
    return {
        "window": special.i0(beta * jnp.sqrt(1 - x * x)) / special.i0(beta),
        "slope": jax.vmap(jax.grad(special.i0))(3 * x) - special.i1(3 * x),
        "scaled": (special.i0e(30 * x), special.i1e(30 * x)),
    }


@define(tol=5e-6)
@jax.jit
def spherical_harmonics():
    """Values, and the scalar products of some of them by Gauss's rule and by equal steps round the axis."""
    node, weight = np.polynomial.legendre.leggauss(6)
    polar = np.arccos(node).astype(np.float32)
    round_ = np.linspace(0, 2 * np.pi, 10, endpoint=False, dtype=np.float32)
    theta, phi = (g.ravel() for g in np.meshgrid(polar, round_, indexing="ij"))
    weights = np.repeat(weight * 2 * np.pi / 10, 10).astype(np.float32)
    at = lambda n, m: special.sph_harm_y(np.full(60, n), np.full(60, m), theta, phi, n_max=4)
    modes = jnp.stack([at(n, m) for n, m in HARMONICS])
    return {"modes": modes, "products": (modes * weights) @ modes.conj().T}


@define(tol=5e-6)
@jax.jit
def legendre_series():
    """The projection of a function on Legendre polynomials, which their recurrence gives."""
    node, weight = (a.astype(np.float32) for a in np.polynomial.legendre.leggauss(12))

    def step(state, n):
        below, now = state
        return (now, ((2 * n + 1) * node * now - n * below) / (n + 1)), now

    start = jnp.ones_like(node), jnp.asarray(node)
    _, rest = jax.lax.scan(step, start, np.arange(1, 6, dtype=np.float32))
    polynomials = jnp.concatenate([jnp.ones((1, 12)), rest])
    norms = (2 * np.arange(6) + 1) / np.float32(2)
    return polynomials, norms * (polynomials @ (weight * jnp.exp(node)))


@define(tol=2e-6)
@jax.jit
def information_theory():
    joint = TABLE / TABLE.sum()
    rows, columns = joint.sum(1), joint.sum(0)
    middle = (P + Q) / 2
    return {
        "entropy": special.entr(P).sum(),
        "mutual": special.rel_entr(joint, rows[:, None] * columns).sum(),
        "conditional": special.entr(joint).sum() - special.entr(columns).sum(),
        "jensen_shannon": jnp.sqrt(
            (special.kl_div(P, middle) + special.kl_div(Q, middle)).sum() / 2
        ),
        "cross": -special.xlogy(P, Q).sum(),
        "odds": special.log_softmax(special.logit(P[:3])),
    }


@define(tol=1e-5)
@jax.jit
def power_transforms():
    x = HEIGHTS[:16]
    at = lambda power: special.boxcox(x, power)
    likelihood = lambda power: (
        (power - 1) * jnp.log(x).sum() - len(x) / 2 * jnp.log(jnp.var(at(power)))
    )
    powers = np.float32([-0.5, 0, 0.5, 2])
    return {
        "values": jax.vmap(at)(powers),
        "likelihood": jax.vmap(likelihood)(powers),
        "near_zero": special.boxcox1p(x / 1000, 0.3),
    }


@define(tol=2e-5)
@jax.jit
def moments_and_ranks():
    centred = HEIGHTS - HEIGHTS.mean()
    moment = lambda k: jnp.mean(centred**k)
    grades = np.round(HEIGHTS[:40])
    ranks = {
        m: stats.rankdata(grades, method=m) for m in ("average", "min", "max", "dense", "ordinal")
    }
    pair = jnp.stack([stats.rankdata(a[:40]) for a in (HEIGHTS, OTHERS)])
    mode = stats.mode(grades)
    return {
        "skewness": moment(3) / moment(2) ** 1.5,
        "kurtosis": moment(4) / moment(2) ** 2 - 3,
        "ranks": ranks,
        "spearman": jnp.corrcoef(pair)[0, 1],
        "mode": (mode.mode, mode.count),
        "error": stats.sem(HEIGHTS.reshape(4, 30), axis=1, ddof=0),
    }


@define(tol=2e-5)
@jax.jit
def analysis_of_variance():
    groups = HEIGHTS.reshape(3, 40) + np.float32([[0], [0.5], [1]])
    between = 40 * jnp.var(groups.mean(1)) * 3 / 2
    within = jnp.var(groups, axis=1, ddof=1).mean()
    f = between / within
    expected = TABLE.sum(1)[:, None] * TABLE.sum(0) / TABLE.sum()
    chi2 = ((TABLE - expected) ** 2 / expected).sum()
    ordered = np.sort(OTHERS)
    below = stats.norm.cdf(ordered, 6, 1.3)
    steps = np.arange(41, dtype=np.float32) / 40
    return {
        "f": (f, special.betainc(117 / 2, 2 / 2, 117 / (117 + 2 * f))),
        "contingency": (chi2, stats.chi2.sf(chi2, 4)),
        "kolmogorov": jnp.maximum((steps[1:] - below).max(), (below - steps[:-1]).max()),
        "binomial": 1 - stats.binom.pmf(np.arange(4), 12, 0.4).sum(),
    }


@define(tol=2e-5)
@jax.jit
def counting_distributions():
    k = np.arange(8)
    bins = np.int32([[3, 1, 2], [0, 6, 0], [2, 2, 2]])
    shares = np.float32([0.2, 0.5, 0.3])
    return {
        "binom": stats.binom.pmf(k, 7, 0.3),
        "nbinom": stats.nbinom.pmf(k, 2.5, 0.4),
        "geom": stats.geom.pmf(k + 1, 0.35),
        "betabinom": stats.betabinom.pmf(k, 7, 2.0, 1.5),
        "bernoulli": stats.bernoulli.pmf(np.arange(2), 0.3),
        "poisson": stats.poisson.cdf(k, 3.5),
        "multinomial": jax.vmap(lambda x: stats.multinomial.pmf(x, 6, shares))(bins),
        "dirichlet": stats.dirichlet.pdf(shares, np.float32([2, 3, 1.5])),
    }


@define(tol=5e-6)
@jax.jit
def truncated_distribution():
    """The mean and the variance of a truncated normal distribution by quadrature of its density."""
    x = np.linspace(-0.5, 1.5, 401, dtype=np.float32)
    density = stats.truncnorm.pdf(x, -1.5, 0.5, 1, 1)
    mean = integrate.trapezoid(x * density, x)
    return {
        "mean": mean,
        "variance": integrate.trapezoid((x - mean) ** 2 * density, x),
        "survival": stats.truncnorm.sf(x[::100], -1.5, 0.5, 1, 1),
        "far": stats.truncnorm.logcdf(np.float32([8.1, 8.5, 9]), 8, 10),
    }


@define(tol=2e-4)
@jax.jit
def mixture_model():
    """Expectation and maximization of two normal distributions."""
    data = np.concatenate([OTHERS, OTHERS / 2 - 6])

    def step(state, _):
        share, mean, deviation = state
        parts = jnp.log(share)[:, None] + stats.norm.logpdf(data, mean[:, None], deviation[:, None])
        total = special.logsumexp(parts, axis=0)
        belongs = jnp.exp(parts - total)
        mass = belongs.sum(1)
        mean = belongs @ data / mass
        spread = (belongs * (data - mean[:, None]) ** 2).sum(1) / mass
        return (mass / len(data), mean, jnp.sqrt(spread)), total.mean()

    start = jnp.float32([0.5, 0.5]), jnp.float32([-1, 3]), jnp.float32([2, 2])
    return jax.lax.scan(step, start, length=8)


@alone(tol=1e-4)
@jax.jit
def newton_for_likelihood():
    """Newton's method for Gumbel's distribution, of the gradient and the Hessian of the log likelihood."""
    loss = lambda p: -stats.gumbel_r.logpdf(HEIGHTS, p[0], jnp.exp(p[1])).mean()
    step = lambda p, _: (p - linalg.solve(jax.hessian(loss)(p), jax.grad(loss)(p)), loss(p))
    p, losses = jax.lax.scan(step, jnp.float32([5, 1]), length=8)
    return p[0], jnp.exp(p[1]), losses[-1]


@define(tol=1e-5)
@jax.jit
def density_in_the_plane():
    kde = stats.gaussian_kde(OBSERVED.T, bw_method=0.4)
    return {
        "normal": kde.integrate_gaussian(np.float32([1, 2]), np.float32([[2, 0.5], [0.5, 1]])),
        "square": kde.integrate_kde(kde),
        "points": kde(CODES.T),
        "joint": stats.multivariate_normal.logpdf(
            OBSERVED[:5], CODES[0], np.float32([[2, 0.5], [0.5, 1]])
        ),
    }
