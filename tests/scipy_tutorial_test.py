"""Programs of the topics of SciPy's user guide, compared with the reference build and with SciPy."""

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.special
import scipy.stats
import scipy_tutorial_scenarios as programs
from op_testing import case_tests
from scipy.spatial.transform import Rotation, Slerp

import jax

reference, test_reference, _ = case_tests(__file__)

WIDE = {
    name: value.astype(np.float64)
    for name, value in vars(programs).items()
    if isinstance(value, np.ndarray)
}
HEIGHTS, OTHERS, TONE, ECHO = (WIDE[name] for name in ("HEIGHTS", "OTHERS", "TONE", "ECHO"))
FACE, SURFACE, SITES = (WIDE[name] for name in ("FACE", "SURFACE", "SITES"))
GRID = [x.astype(np.float64) for x in programs.GRID]


def bessel_drum():
    radial = scipy.special.jv(1, programs.DRUM_ZERO * WIDE["RADII"])
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


def filters():
    kernel = np.outer([1, 4, 1], [1, 0, -1])
    lags = scipy.signal.correlation_lags(len(ECHO), len(TONE))
    return {
        "edges": scipy.signal.convolve2d(FACE, kernel, mode="same"),
        "blurred": scipy.signal.fftconvolve(FACE, np.ones((3, 3)) / 9, mode="valid"),
        "smoothed": scipy.signal.convolve(TONE, np.ones(5) / 5, mode="same"),
        "delay": lags[np.argmax(scipy.signal.correlate(ECHO, TONE))],
    }


def spectra():
    flat = scipy.signal.detrend(TONE)
    frequencies, power = scipy.signal.welch(flat, fs=64, nperseg=64)
    return {
        "flat": flat,
        "peak": frequencies[np.argmax(power)],
        "power": power,
        "cross": scipy.signal.csd(flat, ECHO, fs=64, nperseg=64)[1],
        "short": scipy.signal.stft(flat, fs=64, nperseg=32)[2],
        "again": flat,
    }


def interpolation():
    make = scipy.interpolate.RegularGridInterpolator
    return {
        "linear": make(GRID, SURFACE)(SITES),
        "nearest": make(GRID, SURFACE, method="nearest")(SITES),
        "pixels": scipy.ndimage.map_coordinates(SURFACE, (SITES * [8, 6]).T, order=1),
        "polynomial": np.polyfit(GRID[0], SURFACE[:, 0], 3),
    }


def cosine_transform():
    coefficients = scipy.fft.dct(TONE, norm="ortho")
    kept = np.where(np.abs(coefficients) > 1, coefficients, 0)
    return {
        "coefficients": coefficients,
        "compressed": scipy.fft.idct(kept, norm="ortho"),
        "plane": FACE,
    }


def integration():
    trapezoid = scipy.integrate.trapezoid
    return trapezoid(trapezoid(SURFACE, GRID[1]), GRID[0]), trapezoid(TONE, dx=1 / 64)


def rosenbrock():
    start, optimize = np.array([1.3, 0.7, 0.8, 1.9, 1.2]), scipy.optimize
    found = optimize.minimize(optimize.rosen, start, method="BFGS", jac=optimize.rosen_der)
    return found.x, optimize.rosen_der(start) / 1e3, optimize.rosen_hess(start) / 1e3


def linear_algebra():
    linalg, matrix, side = scipy.linalg, WIDE["MATRIX"], WIDE["SIDE"]
    symmetric = WIDE["SYMMETRIC"]
    return {
        "solve": linalg.solve(matrix, side),
        "lu": linalg.solve(matrix, side),
        "cholesky": linalg.solve(symmetric, side, assume_a="pos"),
        "triangular": np.eye(2),
        "inverse": linalg.inv(matrix) * linalg.det(matrix) / 1e3,
        "eigenvalues": linalg.eigvalsh(symmetric),
        "singular": linalg.svdvals(side),
        "exponential": linalg.expm(matrix / 8),
        "root": linalg.sqrtm(symmetric),
        "toeplitz": linalg.toeplitz(side[:, 0]),
    }


def krylov_methods():
    above, below = np.eye(32, k=1), np.eye(32, k=-1)
    laplacian = 2.5 * np.eye(32) - above - below
    advected = np.linalg.solve(laplacian + 0.3 * above, TONE[:32])
    return {
        "cg": np.linalg.solve(laplacian, TONE[:32]),
        "gmres": advected,
        "bicgstab": advected,
    }


def rotations():
    turn = Rotation.from_euler("zyx", [[90, 45, 30], [10, -20, 70]], degrees=True)
    return {
        "matrix": turn.as_matrix(),
        "vector": turn.as_rotvec(),
        "applied": turn.apply(WIDE["VECTORS"]),
        "back": np.zeros(2),
        "between": Slerp([0, 1], turn)([0.25, 0.5]).as_quat(),
    }


def clusters():
    codes, _ = scipy.cluster.vq.kmeans2(WIDE["OBSERVED"], WIDE["CODES"], iter=6, minit="matrix")
    return codes, *scipy.cluster.vq.vq(WIDE["OBSERVED"], codes)


@pytest.mark.parametrize("case", [*programs.CASES, *programs.ALONE], ids=lambda case: case.name)
def test_scipy(case):
    """SciPy's answers, in float64, to the program of the same name."""
    ours, want = case.fun(), globals()[case.name]()
    assert jax.tree.structure(ours) == jax.tree.structure(want)
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(want)):
        np.testing.assert_allclose(x, y, rtol=case.tol, atol=case.tol)
