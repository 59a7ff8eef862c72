"""Programs of the topics of SciPy's user guide, compared with the reference build and with SciPy."""

import numpy as np
import scipy.cluster.vq
import scipy.integrate
import scipy.signal
import scipy.spatial.distance
import scipy.special
import scipy.stats
import scipy_tutorial_data as data
import scipy_tutorial_statistics_scenarios as programs
from scipy_tutorial_testing import guide_tests

WIDE = {
    name: value.astype(np.float64)
    for name, value in vars(data).items()
    if isinstance(value, np.ndarray)
}
HEIGHTS, OTHERS, TONE, ECHO = (WIDE[name] for name in ("HEIGHTS", "OTHERS", "TONE", "ECHO"))
FACE, SURFACE, SITES = (WIDE[name] for name in ("FACE", "SURFACE", "SITES"))
GRID = [x.astype(np.float64) for x in data.GRID]


def bessel_drum():
    radial = scipy.special.jv(1, data.DRUM_ZERO * WIDE["RADII"])
    return radial[:, None] * np.cos(WIDE["ANGLES"])


def special_functions():
    p = np.linspace(0.05, 0.95, 7)
    logits = scipy.special.logit(p)
    return {
        "logistic": p,
        "entropy": scipy.stats.entropy(p) * p.sum() - p.sum() * np.log(p.sum()),
        "divergence": scipy.special.rel_entr(p, p[::-1]).sum(),
        "logsumexp": scipy.special.logsumexp(logits, b=p),
        "softmax": scipy.special.softmax(4 * p),
        "erf": np.ones(7),
        "incomplete": scipy.special.gammainc(2 * p, p) - scipy.special.betainc(p, 2 * p, p),
    }


def distributions():
    x = np.linspace(0.1, 6, 9)
    return {
        "norm": scipy.stats.norm(3, 2).cdf(x),
        "quantiles": x,
        "t": scipy.stats.t.pdf(x, 10),
        "gamma": scipy.stats.gamma.sf(x, 1.99, scale=2),
        "poisson": scipy.stats.poisson.pmf(np.arange(9), 3.5),
        "beta": scipy.stats.beta.cdf(x / 7, 2.3, 0.6),
    }


def maximum_likelihood():
    shape, _, scale = scipy.stats.gamma.fit(HEIGHTS, floc=0)
    return np.array([shape, scale])


def hypothesis_tests():
    return {
        "t": tuple(scipy.stats.ttest_ind(HEIGHTS, OTHERS)),
        "chi2": tuple(scipy.stats.chisquare(WIDE["COUNTS"])),
        "u": scipy.stats.mannwhitneyu(HEIGHTS, OTHERS).statistic,
        "sem": scipy.stats.sem(HEIGHTS),
    }


def density_estimation():
    kde = scipy.stats.gaussian_kde(HEIGHTS, "silverman")
    observed = WIDE["OBSERVED"]
    return {
        "density": kde(np.linspace(0, 12, 7)),
        "mass": kde.integrate_box_1d(2, 7),
        "product": kde.integrate_kde(scipy.stats.gaussian_kde(OTHERS)),
        "plane": scipy.stats.gaussian_kde(observed.T, weights=np.arange(1, 61)).logpdf(
            observed[::9].T
        ),
    }


def clusters():
    codes, _ = scipy.cluster.vq.kmeans2(WIDE["OBSERVED"], WIDE["CODES"], iter=6, minit="matrix")
    return codes, *scipy.cluster.vq.vq(WIDE["OBSERVED"], codes)


def gamma_functions():
    x, n, special = np.linspace(0.3, 5.4, 8), np.arange(8), scipy.special
    return {
        "reflection": np.pi / np.sin(np.pi * x),
        "signs": special.gammasgn(-x),
        "digamma": special.digamma(x),
        "derivatives": special.polygamma(np.arange(1, 4)[:, None], x),
        "rising": x * (x + 1) * (x + 2),
        "beta": special.beta(x, x[::-1]),
        "log_beta": special.betaln(10 * x, x[::-1]),
        "binomial": special.comb(7, n),
        "factorial": special.factorial(n),
        "hurwitz": special.zeta(x + 1, 2.5),
        "bernoulli": special.bernoulli(7),
        "wishart": np.array([special.multigammaln(a, 3) for a in x + 2]),
    }


def error_functions():
    x, special = np.linspace(-1, 2.5, 8), scipy.special
    return {
        "scaled": special.erfcx(x),
        "slopes": 1 - 2 * x * special.dawsn(x),
        "voigt": special.voigt_profile(x, 1, 0.3),
        "quantiles": x / 2,
        "tail": special.log_ndtr(-8 * x),
        "deviates": x,
        "cornu": special.fresnel(x),
        "owen": special.owens_t(x, 0.7),
    }


def exponential_integrals():
    x, special = np.linspace(0.2, 4, 8), scipy.special
    return {
        "ei": special.expi(x),
        "e1": special.exp1(x),
        "en": special.expn(3, x),
        "sine_and_cosine": special.sici(3 * x),
        "dilogarithm": special.spence(x),
        "kummer": special.hyp1f1(1.5, 2.5, x),
        "gauss": special.hyp2f1(0.5, 1.5, 2.5, x / 5),
    }


def modified_bessel():
    x = np.linspace(-1, 1, 20)
    return {
        "window": scipy.signal.windows.kaiser(20, 6.5),
        "slope": np.zeros(20),
        "scaled": (scipy.special.i0e(30 * x), scipy.special.i1e(30 * x)),
    }


def spherical_harmonics():
    theta = np.repeat(np.arccos(np.polynomial.legendre.leggauss(6)[0]), 10)
    phi = np.tile(np.linspace(0, 2 * np.pi, 10, endpoint=False), 6)
    modes = [scipy.special.sph_harm_y(n, m, theta, phi) for n, m in data.HARMONICS]
    return {"modes": np.stack(modes), "products": np.eye(5)}


def legendre_series():
    node, weight = np.polynomial.legendre.leggauss(12)
    polynomials = np.stack([scipy.special.eval_legendre(n, node) for n in range(6)])
    inner = lambda n: scipy.integrate.quad(
        lambda x: scipy.special.eval_legendre(n, x) * np.exp(x), -1, 1
    )
    return polynomials, np.array([(n + 0.5) * inner(n)[0] for n in range(6)])


def information_theory():
    p, q = WIDE["P"], WIDE["Q"]
    joint = WIDE["TABLE"] / WIDE["TABLE"].sum()
    entropy = scipy.stats.entropy
    rows, columns = joint.sum(1), joint.sum(0)
    return {
        "entropy": entropy(p),
        "mutual": entropy(rows) + entropy(columns) - entropy(joint.ravel()),
        "conditional": entropy(joint.ravel()) - entropy(columns),
        "jensen_shannon": scipy.spatial.distance.jensenshannon(p, q),
        "cross": entropy(p) + entropy(p, q),
        "odds": scipy.special.log_softmax(scipy.special.logit(p[:3])),
    }


def power_transforms():
    x, powers = HEIGHTS[:16], np.array([-0.5, 0, 0.5, 2])
    return {
        "values": np.stack([scipy.stats.boxcox(x, p) for p in powers]),
        "likelihood": np.array([scipy.stats.boxcox_llf(p, x) for p in powers]),
        "near_zero": scipy.special.boxcox1p(x / 1000, 0.3),
    }


def moments_and_ranks():
    grades = np.round(HEIGHTS[:40])
    methods = "average", "min", "max", "dense", "ordinal"
    return {
        "skewness": scipy.stats.skew(HEIGHTS),
        "kurtosis": scipy.stats.kurtosis(HEIGHTS),
        "ranks": {m: scipy.stats.rankdata(grades, m) for m in methods},
        "spearman": scipy.stats.spearmanr(HEIGHTS[:40], OTHERS).statistic,
        "mode": tuple(scipy.stats.mode(grades)),
        "error": scipy.stats.sem(HEIGHTS.reshape(4, 30), axis=1, ddof=0),
    }


def analysis_of_variance():
    groups = HEIGHTS.reshape(3, 40) + np.array([[0], [0.5], [1]])
    return {
        "f": tuple(scipy.stats.f_oneway(*groups)),
        "contingency": tuple(scipy.stats.chi2_contingency(WIDE["TABLE"]))[:2],
        "kolmogorov": scipy.stats.kstest(OTHERS, scipy.stats.norm(6, 1.3).cdf).statistic,
        "binomial": scipy.stats.binomtest(4, 12, 0.4, alternative="greater").pvalue,
    }


def counting_distributions():
    k, stats = np.arange(8), scipy.stats
    bins, shares = [[3, 1, 2], [0, 6, 0], [2, 2, 2]], np.array([0.2, 0.5, 0.3])
    return {
        "binom": stats.binom.pmf(k, 7, 0.3),
        "nbinom": stats.nbinom.pmf(k, 2.5, 0.4),
        "geom": stats.geom.pmf(k + 1, 0.35),
        "betabinom": stats.betabinom.pmf(k, 7, 2, 1.5),
        "bernoulli": np.array([0.7, 0.3]),
        "poisson": stats.poisson.cdf(k, 3.5),
        "multinomial": stats.multinomial.pmf(bins, 6, shares),
        "dirichlet": stats.dirichlet.pdf(shares, [2, 3, 1.5]),
    }


def truncated_distribution():
    distribution = scipy.stats.truncnorm(-1.5, 0.5, 1, 1)
    return {
        "mean": distribution.mean(),
        "variance": distribution.var(),
        "survival": distribution.sf(np.linspace(-0.5, 1.5, 5)),
        "far": scipy.stats.truncnorm.logcdf(np.float32([8.1, 8.5, 9]).astype(float), 8, 10),
    }


def mixture_model():
    """In float64, with the densities themselves."""
    data = np.concatenate([OTHERS, OTHERS / 2 - 6])
    share, mean, deviation = np.array([0.5, 0.5]), np.array([-1.0, 3]), np.array([2.0, 2])
    likelihoods = []
    for _ in range(8):
        parts = share * scipy.stats.norm.pdf(data[:, None], mean, deviation)
        likelihoods.append(np.log(parts.sum(1)).mean())
        belongs = parts / parts.sum(1, keepdims=True)
        share = belongs.mean(0)
        mean = np.average(np.stack([data] * 2, 1), axis=0, weights=belongs)
        deviation = np.sqrt(np.average((data[:, None] - mean) ** 2, axis=0, weights=belongs))
    return (share, mean, deviation), np.array(likelihoods)


def newton_for_likelihood():
    loc, scale = scipy.stats.gumbel_r.fit(HEIGHTS)
    return loc, scale, -scipy.stats.gumbel_r.logpdf(HEIGHTS, loc, scale).mean()


def density_in_the_plane():
    observed, covariance = WIDE["OBSERVED"], np.array([[2, 0.5], [0.5, 1]])
    kde = scipy.stats.gaussian_kde(observed.T, 0.4)
    return {
        "normal": kde.integrate_gaussian([1, 2], covariance),
        "square": kde.integrate_kde(kde),
        "points": kde(WIDE["CODES"].T),
        "joint": scipy.stats.multivariate_normal.logpdf(observed[:5], WIDE["CODES"][0], covariance),
    }


reference, test_reference, test_scipy = guide_tests(programs, globals())
