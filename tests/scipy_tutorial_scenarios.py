"""Programs that do what the pages of SciPy's user guide show, one a topic."""

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax.experimental import sparse
from jax.experimental.ode import odeint
from jax.experimental.sparse.linalg import lobpcg_standard, spsolve
from jax.scipy import fft, integrate, linalg, signal, special, stats
from jax.scipy.cluster.vq import vq
from jax.scipy.interpolate import RegularGridInterpolator
from jax.scipy.ndimage import map_coordinates
from jax.scipy.optimize import minimize
from jax.scipy.sparse.linalg import bicgstab, cg, gmres
from jax.scipy.spatial.transform import Rotation, Slerp

CASES, ALONE = Programs(), Programs()
define = CASES.define
# Compared with SciPy only: the reference's `bessel_jn` is NaN at zero, its minimization gives up early, and its
# `gumbel_r` has no derivatives.
alone = ALONE.define

RNG = np.random.RandomState(5)
RADII, ANGLES = np.linspace(0, 1, 6, dtype=np.float32), np.linspace(0, 6, 5, dtype=np.float32)
DRUM_ZERO = 3.8317059702075125  # the first positive zero of J1
HEIGHTS = RNG.gamma(3.0, 2.0, 120).astype(np.float32)
OTHERS = (RNG.randn(40) * 1.3 + 6).astype(np.float32)
COUNTS = np.float32([16, 18, 16, 14, 12, 12])
FACE = RNG.rand(12, 10).astype(np.float32)
TIME = np.arange(256, dtype=np.float32) / 64
TONE = np.sin(2 * np.pi * 9 * TIME) + 0.3 * TIME + RNG.randn(256).astype(np.float32) / 8
ECHO = np.roll(TONE, 17)
GRID = tuple(np.linspace(0, 1, n, dtype=np.float32) for n in (9, 7))
SURFACE = np.sin(3 * GRID[0])[:, None] * np.cos(2 * GRID[1])
SITES = RNG.rand(11, 2).astype(np.float32)
MATRIX = (RNG.randn(5, 5) + 4 * np.eye(5)).astype(np.float32)
SYMMETRIC = MATRIX @ MATRIX.T
SIDE = RNG.randn(5, 2).astype(np.float32)
OBSERVED = np.concatenate([RNG.randn(20, 2) + c for c in ([0, 0], [6, 1], [-3, 7])]).astype(
    np.float32
)
CODES = np.float32([[1, 1], [5, 2], [-2, 5]])
VECTORS = np.float32([[1, 0, 0], [0.2, -0.5, 2]])
HARMONICS = [(0, 0), (1, 0), (2, 1), (3, -2), (4, 4)]
TABLE = np.float32([[20, 15, 9], [7, 12, 18], [11, 10, 8]])
P, Q = np.float32([[0.36, 0.48, 0.1, 0.06], [0.3, 0.2, 0.4, 0.1]])
CROSS = np.float32([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
GRID_EDGES = np.array(
    [(i, i + 1) for i in range(12) if i % 4 < 3] + [(i, i + 4) for i in range(8)], np.int32
)
LINKS = (RNG.rand(24, 24) < 0.2) | np.eye(24, k=1, dtype=bool) | np.eye(24, k=-23, dtype=bool)
LINKS = (LINKS & ~np.eye(24, dtype=bool)).astype(np.float32)
LINK_COUNT = int(LINKS.sum())


def assembled(edges, n):
    """The Laplacian of a graph: each edge adds four entries, and those of the same place are summed."""
    (i, j), shares = edges.T, np.repeat(np.float32([1, 1, -1, -1]), len(edges))
    places = np.concatenate([[i, i], [j, j], [i, j], [j, i]], 1).T
    entries = sparse.BCOO((jnp.asarray(shares), jnp.asarray(places, jnp.int32)), shape=(n, n))
    return entries.sum_duplicates(nse=n + 2 * len(edges))


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


@define(tol=3e-5)
def filters():
    kernel = np.outer([1, 4, 1], [1, 0, -1]).astype(np.float32)
    return {
        "edges": signal.convolve2d(FACE, kernel, mode="same", boundary="fill"),
        "blurred": signal.fftconvolve(FACE, np.ones((3, 3), np.float32) / 9, mode="valid"),
        "smoothed": signal.convolve(TONE, np.ones(5, np.float32) / 5, mode="same"),
        "delay": jnp.argmax(signal.correlate(ECHO, TONE, mode="full")) - (len(TONE) - 1),
    }


@define(tol=3e-5)
def spectra():
    flat = signal.detrend(TONE)
    frequencies, power = signal.welch(flat, fs=64, nperseg=64)
    _, cross = signal.csd(flat, ECHO, fs=64, nperseg=64)
    _, _, short = signal.stft(flat, fs=64, nperseg=32)
    _, again = signal.istft(short, fs=64, nperseg=32)
    return {
        "flat": flat,
        "peak": frequencies[jnp.argmax(power)],
        "power": power,
        "cross": cross,
        "short": short,
        "again": again[:256],
    }


@define(tol=1e-5)
def interpolation():
    return {
        "linear": RegularGridInterpolator(GRID, SURFACE)(SITES),
        "nearest": RegularGridInterpolator(GRID, SURFACE, method="nearest")(SITES),
        "pixels": map_coordinates(SURFACE, (SITES * np.float32([8, 6])).T, order=1),
        "polynomial": jnp.polyfit(GRID[0], SURFACE[:, 0], 3),
    }


@define(tol=1e-5)
def cosine_transform():
    coefficients = fft.dct(TONE, norm="ortho")
    kept = jnp.where(jnp.abs(coefficients) > 1, coefficients, 0)
    return {
        "coefficients": coefficients,
        "compressed": fft.idct(kept, norm="ortho"),
        "plane": fft.idctn(fft.dctn(FACE)),
    }


@define(tol=1e-5)
def integration():
    area = integrate.trapezoid(integrate.trapezoid(SURFACE, GRID[1]), GRID[0])
    return area, integrate.trapezoid(TONE, dx=1 / 64)


@alone(tol=5e-3)
def rosenbrock():
    """The valley is flat: float32 finds the minimum to three digits."""
    rosen = lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    start = np.float32([1.3, 0.7, 0.8, 1.9, 1.2])
    found = minimize(rosen, start, method="BFGS", tol=1e-4)
    return found.x, jax.grad(rosen)(start) / 1e3, jax.hessian(rosen)(start) / 1e3


@define(tol=1e-4)
def linear_algebra():
    factor = linalg.lu_factor(MATRIX)
    q, r = linalg.qr(SIDE, mode="economic")
    values, _ = linalg.eigh(SYMMETRIC)
    return {
        "solve": linalg.solve(MATRIX, SIDE),
        "lu": linalg.lu_solve(factor, SIDE),
        "cholesky": linalg.cho_solve(linalg.cho_factor(SYMMETRIC), SIDE),
        "triangular": linalg.solve_triangular(r, q.T @ SIDE),
        "inverse": linalg.inv(MATRIX) * linalg.det(MATRIX) / 1e3,
        "eigenvalues": values,
        "singular": linalg.svd(SIDE, compute_uv=False),
        "exponential": linalg.expm(MATRIX / 8),
        "root": linalg.sqrtm(SYMMETRIC).real,
        "toeplitz": linalg.toeplitz(SIDE[:, 0]),
    }


@define(tol=1e-4)
def krylov_methods():
    laplacian = lambda x: 2.5 * x - jnp.pad(x[1:], (0, 1)) - jnp.pad(x[:-1], (1, 0))
    advected = lambda x: laplacian(x) + 0.3 * jnp.pad(x[1:], (0, 1))
    b = TONE[:32]
    return {
        "cg": cg(laplacian, b, tol=1e-6)[0],
        "gmres": gmres(advected, b, tol=1e-6)[0],
        "bicgstab": bicgstab(advected, b, tol=1e-6)[0],
    }


@define(tol=1e-5)
def rotations():
    turn = Rotation.from_euler("zyx", np.float32([[90, 45, 30], [10, -20, 70]]), degrees=True)
    slerp = Slerp.init(np.float32([0, 1]), turn)
    return {
        "matrix": turn.as_matrix(),
        "vector": turn.as_rotvec(),
        "applied": turn.apply(VECTORS),
        "back": (turn * turn.inv()).magnitude(),
        "between": slerp(np.float32([0.25, 0.5])).as_quat(),
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


@define(tol=5e-4)
@jax.jit
def curve_fit():
    """Gauss and Newton's method for a decay, and the covariance of its parameters."""
    t = np.linspace(0, 4, 40, dtype=np.float32)
    y = 2.5 * np.exp(-np.float32(1.3) * t) + 0.5 + (OTHERS - 6) / 40

    def residual(p):
        return p[0] * jnp.exp(-p[1] * t) + p[2] - y

    def step(p, _):
        slopes = jax.jacfwd(residual)(p)
        return p - jnp.linalg.lstsq(slopes, residual(p))[0], None

    p, _ = jax.lax.scan(step, jnp.float32([2, 1, 0]), length=7)
    slopes = jax.jacfwd(residual)(p)
    variance = (residual(p) ** 2).sum() / (len(t) - 3)
    return p, linalg.inv(slopes.T @ slopes) * variance


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


@define(tol=1e-5)
@jax.jit
def low_pass():
    """A windowed sinc: its taps, its response, the filtered signal and the derivative of its energy by the cutoff."""

    def taps(cutoff):
        n = np.arange(31) - np.float32(15)
        h = cutoff * jnp.sinc(cutoff * n) * np.hamming(31).astype(np.float32)
        return h / h.sum()

    h = taps(np.float32(0.3))
    output = lambda cutoff: signal.convolve(TONE, taps(cutoff), mode="valid")
    return {
        "taps": h,
        "response": jnp.abs(jnp.fft.rfft(h, 128)),
        "filtered": output(np.float32(0.3)),
        "slope": jax.jvp(output, (np.float32(0.3),), (np.float32(1),))[1],
    }


@define(tol=1e-5)
@jax.jit
def image_filters():
    template = FACE[3:7, 2:6] - FACE[3:7, 2:6].mean()
    response = signal.correlate2d(FACE - FACE.mean(), template, mode="same")
    bell = np.exp(-((np.arange(5) - np.float32(2)) ** 2) / 2)
    padded = jnp.pad(FACE, 1, mode="wrap")
    return {
        "match": jnp.stack(jnp.unravel_index(jnp.argmax(response), response.shape)),
        "response": response,
        "laplacian": signal.convolve2d(padded, CROSS, mode="valid"),
        "gaussian": signal.fftconvolve(FACE, jnp.outer(bell, bell) / bell.sum() ** 2, mode="same"),
        "rows": signal.fftconvolve(FACE, FACE[:, ::-1], axes=1),
    }


@define(tol=2e-4)
@jax.jit
def coherence():
    frequencies, cross = signal.csd(TONE, ECHO, fs=64, nperseg=32)
    own, other = (signal.welch(x, fs=64, nperseg=32)[1] for x in (TONE, ECHO))
    _, middle = signal.welch(
        TONE, fs=64, nperseg=64, window="boxcar", average="median", scaling="spectrum"
    )
    return frequencies, jnp.abs(cross) ** 2 / (own * other), middle


@define(tol=2e-5)
@jax.jit
def denoise_by_stft():
    _, times, short = signal.stft(TONE, fs=64, window="hamming", nperseg=32, noverlap=24)
    kept = jnp.where(jnp.abs(short) > 0.2, short, 0)
    _, clean = signal.istft(kept, fs=64, window="hamming", nperseg=32, noverlap=24)
    pieces = signal.detrend(TONE, bp=[100, 180])
    return times, clean, pieces, signal.detrend(FACE, axis=0, type="constant")


@define(tol=1e-5)
@jax.jit
def interpolation_in_space():
    """Volumes and lines, outside of the grid too, and the derivative of the interpolant."""
    axes = [np.linspace(0, 2, n, dtype=np.float32) for n in (4, 5, 6)]
    x, y, z = np.meshgrid(*axes, indexing="ij")
    volume = np.sin(x) * y + z**2
    sites = np.concatenate([SITES, SITES[:, :1]], 1) * 2
    inside = RegularGridInterpolator(axes, volume)
    outside = dict(bounds_error=False, fill_value=None)
    beyond = np.float32([[-0.5], [0.3], [1.25]])
    return {
        "linear": inside(sites),
        "nearest": RegularGridInterpolator(axes, volume, "nearest")(sites),
        "slopes": jax.vmap(jax.grad(lambda p: inside(p[None])[0]))(sites),
        "line": RegularGridInterpolator(GRID[:1], SURFACE[:, 0], **outside)(beyond),
        "filled": RegularGridInterpolator(
            GRID[:1], SURFACE[:, 0], bounds_error=False, fill_value=-1
        )(beyond),
    }


@define(tol=1e-5)
@jax.jit
def turned_image():
    """An image turned and sampled by its own coordinates; the modes at the border."""
    rows, columns = np.meshgrid(np.arange(12) - 5.5, np.arange(10) - 4.5, indexing="ij")
    turned = 0.8 * rows - 0.6 * columns + 5.5, 0.6 * rows + 0.8 * columns + 4.5
    turned = np.stack(turned).astype(np.float32)
    modes = ("constant", "nearest", "mirror", "reflect")
    line = np.linspace(-7.9, 16.9, 26, dtype=np.float32)
    return {
        "turned": map_coordinates(FACE, turned, order=1, cval=0.5),
        "nearest": map_coordinates(FACE, turned, order=0, mode="mirror"),
        "modes": {m: map_coordinates(FACE[0], [line], order=1, mode=m) for m in modes},
    }


@define(tol=1e-5)
@jax.jit
def poisson_by_transforms():
    """Poisson's equation: on a torus by FFT, and with reflecting walls by the cosine transform."""
    source = FACE - FACE.mean()
    wave = lambda n, period: 2 * jnp.cos(2 * np.pi * np.arange(n, dtype=np.float32) / period) - 2
    solve = lambda values, symbol: jnp.where(
        symbol < -1e-6, values / jnp.where(symbol < -1e-6, symbol, 1), 0
    )
    torus = wave(12, 12)[:, None] + wave(10, 10)
    walls = wave(12, 24)[:, None] + wave(10, 20)
    return {
        "torus": jnp.fft.ifftn(solve(jnp.fft.fftn(source), torus)).real,
        "walls": fft.idctn(solve(fft.dctn(source, norm="ortho"), walls), norm="ortho"),
    }


@define(tol=1e-5)
@jax.jit
def fourier_transforms():
    """The spectrum of a windowed tone, a derivative, a convolution, and a shifted image."""
    window = np.blackman(256).astype(np.float32)
    round_ = np.linspace(0, 2 * np.pi, 32, endpoint=False, dtype=np.float32)
    waves = jnp.fft.fftfreq(32, 1 / 32)
    cyclic = jnp.fft.irfft(jnp.fft.rfft(TONE) * jnp.fft.rfft(ECHO), 256)
    return {
        "spectrum": jnp.abs(jnp.fft.rfft(TONE * window)) / 128,
        "frequencies": jnp.fft.fftshift(jnp.fft.fftfreq(9, 0.5)),
        "derivative": jnp.fft.ifft(1j * waves * jnp.fft.fft(np.exp(np.sin(round_)))).real,
        "cyclic": cyclic / 256,
        "image": jnp.fft.fftshift(jnp.fft.fft2(FACE)),
        "blocks": fft.dct(FACE, axis=0, n=16, norm="ortho"),
    }


@define(tol=5e-5)
@jax.jit
def predator_and_prey():
    """An orbit, what it preserves, and how its end depends on a rate."""

    def slope(state, t, rate):
        prey, predators = state
        return jnp.stack([rate * prey - prey * predators, prey * predators - predators])

    times = np.linspace(0, 3, 6, dtype=np.float32)
    orbit = lambda rate: odeint(slope, np.float32([1.5, 1]), times, rate, rtol=1e-6, atol=1e-6)
    states = orbit(np.float32(1.5))
    return states, jax.grad(lambda rate: orbit(rate)[-1, 0])(np.float32(1.5))


@define(tol=1e-5)
@jax.jit
def roots_of_a_system():
    """Newton's method, with the derivatives of the root by a parameter through the implicit function."""

    def system(x, a):
        return jnp.stack([x[0] * jnp.cos(x[1]) - a, x[1] * x[0] - x[1] - 5])

    a = np.float32(4)
    step = lambda x, _: (x - linalg.solve(jax.jacfwd(system)(x, a), system(x, a)), None)
    root, _ = jax.lax.scan(step, jnp.float32([6, 1]), length=8)
    by_a = -linalg.solve(jax.jacfwd(system)(root, a), jax.jacfwd(system, 1)(root, a))
    return root, by_a


@alone(tol=2e-3)
def minimizers():
    """The same minimum of a function of six variables by two methods, and by Newton steps with line search."""
    weights = np.arange(1, 7, dtype=np.float32)

    def loss(x):
        return jnp.sum(weights * (x - 1) ** 2) / 10 + jnp.log(jnp.cosh(x - weights)).sum()

    def newton(x, _):
        slope = jax.grad(loss)(x)
        way = -linalg.solve(jax.hessian(loss)(x), slope, assume_a="pos")
        sizes = jnp.float32(0.5) ** np.arange(6)
        enough = jax.vmap(loss)(x + sizes[:, None] * way) <= loss(x) + 1e-4 * sizes * (slope @ way)
        return x + sizes[jnp.argmax(enough)] * way, None

    start = jnp.zeros(6)
    return {
        "bfgs": minimize(loss, start, method="BFGS").x,
        "lbfgs": minimize(loss, start, method="l-bfgs-experimental-do-not-rely-on-this").x,
        "newton": jax.jit(lambda: jax.lax.scan(newton, start, length=8)[0])(),
    }


@define(tol=5e-4)
@jax.jit
def matrix_functions():
    turn, stretch = linalg.polar(MATRIX)
    value, change = linalg.expm_frechet(MATRIX / 8, SYMMETRIC / 80)
    triangle, unitary = linalg.schur(SYMMETRIC)
    return {
        "polar": (turn, stretch),
        "frechet": (value, change),
        "schur": unitary @ triangle @ unitary.T,
        "sylvester": linalg.solve_sylvester(
            MATRIX, SYMMETRIC[:2, :2] + np.eye(2, dtype=np.float32), SIDE
        ),
        "determinant": jnp.stack(jnp.linalg.slogdet(MATRIX)),
        "power": jnp.linalg.matrix_power(MATRIX / 4, 5),
    }


@define(tol=1e-4)
@jax.jit
def least_squares():
    """A polynomial by QR, by the pseudoinverse and with a small weight of its size; a null space; the best approximation."""
    t = np.linspace(-1, 1, 20, dtype=np.float32)
    powers, y = np.vander(t, 4), OTHERS[:20]
    solution, rest, _, singular = jnp.linalg.lstsq(powers, y)
    by_qr, r = linalg.qr_multiply(powers, y)
    u, s, v = linalg.svd(FACE, full_matrices=False)
    _, _, rows = linalg.svd(SIDE.T)
    return {
        "solution": solution,
        "rest": rest,
        "singular": singular,
        "qr": linalg.solve_triangular(r, by_qr),
        "pseudoinverse": jnp.linalg.pinv(powers) @ y,
        "ridge": linalg.solve(
            powers.T @ powers + 0.1 * np.eye(4, dtype=np.float32), powers.T @ y, assume_a="pos"
        ),
        "null": rows[2:].T @ rows[2:],
        "rank_two": (u[:, :2] * s[:2]) @ v[:2],
    }


@define(tol=1e-4)
@jax.jit
def vibrations():
    """The frequencies of a chain of masses, as a tridiagonal matrix and as a dense one, and their derivatives by a spring."""
    diagonal, off = np.full(8, 2, np.float32), np.full(7, -1, np.float32)

    def squares(spring):
        stiff = jnp.diag(diagonal) + jnp.diag(off, 1) + jnp.diag(off, -1)
        return linalg.eigh(stiff.at[0, 0].add(spring), eigvals_only=True)

    p, low, up = linalg.lu(MATRIX)
    upper, q = linalg.hessenberg(SYMMETRIC, calc_q=True)
    return {
        "tridiagonal": linalg.eigh_tridiagonal(diagonal, off, eigvals_only=True),
        "slopes": jax.jacfwd(squares)(np.float32(0)),
        "lu": (p, low, up),
        "hessenberg": q @ upper @ q.T,
    }


@define(tol=2e-6)
@jax.jit
def special_matrices():
    return {
        "blocks": linalg.block_diag(SIDE, CODES),
        "convolution": linalg.convolution_matrix(SIDE[:, 0], 4, mode="same"),
        "hankel": linalg.hankel(SIDE[:, 0], SIDE[:, 1]),
        "circulant": linalg.circulant(SIDE[:, 0]),
        "companion": linalg.companion(SIDE[:, 0]),
        "hilbert": linalg.hilbert(4),
        "pascal": linalg.pascal(5),
        "hadamard": linalg.hadamard(4),
        "leslie": linalg.leslie(np.float32([0.1, 2, 1]), np.float32([0.2, 0.8])),
        "helmert": linalg.helmert(4),
        "dft": linalg.dft(6, scale="sqrtn"),
    }


@define(tol=1e-4)
@jax.jit
def sparse_laplacian():
    """The Laplacian of a grid of points, assembled from the shares of its edges, and solved in four ways."""
    matrix = assembled(GRID_EDGES, 12)
    rows = sparse.BCSR.from_bcoo(matrix.sort_indices())
    b, shifted = TONE[:12], lambda x: matrix @ x + x / 2
    buffers = rows.data, rows.indices, rows.indptr
    diagonal = sparse.eye(12, dtype=np.float32) / 2
    dense = (matrix + diagonal).todense()
    again = sparse.BCSR.fromdense(dense, nse=46)
    return {
        "dense": rows.todense(),
        "triples": matrix.sort_indices().indices,
        "sums": sparse.sparsify(jnp.sum)(matrix, axis=1).todense(),
        "buffers": buffers,
        "cg": cg(shifted, b, tol=1e-6)[0],
        "gmres": gmres(again, b, tol=1e-6, restart=12)[0],
        "bicgstab": bicgstab(shifted, b, tol=1e-6, M=lambda x: x / dense.diagonal())[0],
        "direct": spsolve(again.data, again.indices, again.indptr, b),
    }


@define(tol=1e-4)
@jax.jit
def sparse_graph():
    """Ranks of the vertices of a graph by powers of a matrix, its greatest eigenvalues, and a cut."""
    links = sparse.CSR.fromdense(LINKS, nse=LINK_COUNT)
    degree = links @ np.ones(24, np.float32)
    step = lambda rank, _: (0.15 / 24 + 0.85 * (links.T @ (rank / degree)), None)
    rank, _ = jax.lax.scan(step, np.full(24, 1 / 24, np.float32), length=40)
    laplacian = assembled(np.argwhere(np.triu(LINKS + LINKS.T)), 24)
    start = np.float32(np.random.RandomState(3).randn(24, 2))
    values, vectors, _ = lobpcg_standard(lambda x: laplacian @ x, start, m=60)
    return {
        "degree": degree,
        "rank": rank,
        "eigenvalues": values,
        "solved": jnp.abs(laplacian @ vectors - vectors * values).max() < 1e-3,
        "paths": (sparse.BCOO.fromdense(LINKS, nse=LINK_COUNT) @ links.todense())[0],
    }


@define(tol=1e-5)
@jax.jit
def sparse_derivatives():
    """The derivative of a quadratic form by the entries that are stored, and products of two sparse arrays."""
    matrix = assembled(GRID_EDGES, 12)
    x = TONE[:12]
    form = lambda m: (m @ x) @ x / 2
    value, slope = sparse.value_and_grad(form)(matrix)
    square = matrix @ matrix
    return {
        "value": value,
        "slope": slope.todense(),
        "square": square.todense(),
        "scaled": (matrix * np.arange(12, dtype=np.float32)).todense(),
        "corner": matrix[:3, 1:4].todense(),
        "transposed": (matrix * np.arange(12, dtype=np.float32)).T @ x,
    }


@define(tol=1e-5)
@jax.jit
def attitudes():
    """The mean of rotations, their other parameters, and the one that takes vectors nearest to others."""
    turns = Rotation.from_rotvec(VECTORS[:, ::-1] / 3)
    nodes, seen = OBSERVED[:12].reshape(4, 6)[:, :3], OBSERVED[3:15].reshape(4, 6)[:, :3]
    u, _, v = linalg.svd(nodes.T @ seen)
    sign = jnp.sign(linalg.det(u) * linalg.det(v))
    nearest = Rotation.from_matrix((u * jnp.stack([jnp.float32(1), jnp.float32(1), sign])) @ v)
    return {
        "mean": turns.mean().as_matrix(),
        "parameters": turns.as_mrp(),
        "angles": turns.as_euler("xyz", degrees=True) / 90,
        "nearest": nearest.as_matrix(),
        "turned": turns.apply(VECTORS[0], inverse=True),
    }
