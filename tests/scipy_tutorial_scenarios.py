"""Programs that do what the pages of SciPy's user guide show, one a topic."""

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax.scipy import fft, integrate, linalg, signal, special, stats
from jax.scipy.cluster.vq import vq
from jax.scipy.interpolate import RegularGridInterpolator
from jax.scipy.ndimage import map_coordinates
from jax.scipy.optimize import minimize
from jax.scipy.sparse.linalg import bicgstab, cg, gmres
from jax.scipy.spatial.transform import Rotation, Slerp

CASES, ALONE = Programs(), Programs()
define = CASES.define
# Compared with SciPy only: the reference's `bessel_jn` is NaN at zero and its minimization gives up early.
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
