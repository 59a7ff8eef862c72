"""Programs of the topics of SciPy's user guide, compared with the reference build and with SciPy."""

import comparison
import numpy as np
import op_cases
import oracle_results
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse.csgraph
import scipy.sparse.linalg
import scipy.spatial.distance
import scipy.special
import scipy.stats
import scipy_tutorial_scenarios as programs
from scipy.spatial.transform import Rotation, Slerp

import jax

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
    modes = [scipy.special.sph_harm_y(n, m, theta, phi) for n, m in programs.HARMONICS]
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


def curve_fit():
    t = np.linspace(0, 4, 40)
    y = 2.5 * np.exp(-1.3 * t) + 0.5 + (OTHERS - 6) / 40
    decay = lambda t, a, b, c: a * np.exp(-b * t) + c
    return scipy.optimize.curve_fit(decay, t, y, [2, 1, 0])


def density_in_the_plane():
    observed, covariance = WIDE["OBSERVED"], np.array([[2, 0.5], [0.5, 1]])
    kde = scipy.stats.gaussian_kde(observed.T, 0.4)
    return {
        "normal": kde.integrate_gaussian([1, 2], covariance),
        "square": kde.integrate_kde(kde),
        "points": kde(WIDE["CODES"].T),
        "joint": scipy.stats.multivariate_normal.logpdf(observed[:5], WIDE["CODES"][0], covariance),
    }


def low_pass():
    taps = lambda cutoff: scipy.signal.firwin(31, cutoff)
    output = lambda cutoff: scipy.signal.lfilter(taps(cutoff), 1, TONE)[30:]
    _, response = scipy.signal.freqz(taps(0.3), worN=65, include_nyquist=True)
    return {
        "taps": taps(0.3),
        "response": np.abs(response),
        "filtered": output(0.3),
        "slope": (output(0.3 + 1e-5) - output(0.3 - 1e-5)) / 2e-5,
    }


def image_filters():
    ndimage = scipy.ndimage
    template = FACE[3:7, 2:6] - FACE[3:7, 2:6].mean()
    response = scipy.signal.correlate2d(FACE - FACE.mean(), template, mode="same")
    return {
        "match": np.array(np.unravel_index(np.argmax(response), response.shape)),
        "response": response,
        "laplacian": ndimage.laplace(FACE, mode="wrap"),
        "gaussian": ndimage.gaussian_filter(FACE, 1, mode="constant", radius=2),
        "rows": scipy.signal.fftconvolve(FACE, FACE[:, ::-1], axes=1),
    }


def coherence():
    frequencies, values = scipy.signal.coherence(TONE, ECHO, fs=64, nperseg=32)
    _, middle = scipy.signal.welch(
        TONE, fs=64, nperseg=64, window="boxcar", average="median", scaling="spectrum"
    )
    return frequencies, values, middle


def denoise_by_stft():
    options = dict(fs=64, window="hamming", nperseg=32, noverlap=24)
    _, times, short = scipy.signal.stft(TONE, **options)
    _, clean = scipy.signal.istft(np.where(np.abs(short) > 0.2, short, 0), **options)
    detrend = scipy.signal.detrend
    return times, clean, detrend(TONE, bp=[100, 180]), detrend(FACE, axis=0, type="constant")


def interpolation_in_space():
    make = scipy.interpolate.RegularGridInterpolator
    axes = [np.linspace(0, 2, n) for n in (4, 5, 6)]
    x, y, z = np.meshgrid(*axes, indexing="ij")
    volume = np.sin(x) * y + z**2
    sites = np.concatenate([SITES, SITES[:, :1]], 1) * 2
    inside = make(axes, volume)
    line = lambda fill: make(GRID[:1], SURFACE[:, 0], bounds_error=False, fill_value=fill)
    steps = 1e-6 * np.eye(3)
    return {
        "linear": inside(sites),
        "nearest": make(axes, volume, "nearest")(sites),
        "slopes": np.stack([inside(sites + h) - inside(sites - h) for h in steps], 1) / 2e-6,
        "line": line(None)([-0.5, 0.3, 1.25]),
        "filled": line(-1)([-0.5, 0.3, 1.25]),
    }


def turned_image():
    """What is outside is interpolated with the constant: SciPy calls this mode grid-constant."""
    sample = scipy.ndimage.map_coordinates
    turn, center = np.array([[0.8, -0.6], [0.6, 0.8]]), np.array([5.5, 4.5])
    offset = center - turn @ center
    turned = lambda **options: scipy.ndimage.affine_transform(FACE, turn, offset, **options)
    modes, line = ("nearest", "mirror", "reflect"), np.linspace(-7.9, 16.9, 26)
    return {
        "turned": turned(order=1, mode="grid-constant", cval=0.5),
        "nearest": turned(order=0, mode="mirror"),
        "modes": {m: sample(FACE[0], [line], order=1, mode=m) for m in modes}
        | {"constant": sample(FACE[0], [line], order=1, mode="grid-constant")},
    }


def poisson_by_transforms():
    """By the matrices of second differences, whose null space are the constants."""
    source = FACE - FACE.mean()

    def solve(torus):
        def difference(n):
            matrix = np.eye(n, k=1) + np.eye(n, k=-1) - 2 * np.eye(n)
            matrix[0, -1 if torus else 0] += 1
            matrix[-1, 0 if torus else -1] += 1
            return matrix

        matrix = np.kron(difference(12), np.eye(10)) + np.kron(np.eye(12), difference(10))
        solution = scipy.linalg.lstsq(matrix, source.ravel())[0].reshape(12, 10)
        return solution - solution.mean()

    return {"torus": solve(True), "walls": solve(False)}


def fourier_transforms():
    fft, circle = scipy.fft, np.linspace(0, 2 * np.pi, 32, endpoint=False)
    window = scipy.signal.windows.blackman(256)
    return {
        "spectrum": np.abs(fft.rfft(TONE * window)) / 128,
        "frequencies": fft.fftshift(fft.fftfreq(9, 0.5)),
        "derivative": np.cos(circle) * np.exp(np.sin(circle)),
        "cyclic": scipy.ndimage.convolve(TONE, ECHO, mode="wrap", origin=-128) / 256,
        "image": fft.fftshift(fft.fft2(FACE)),
        "blocks": fft.dct(FACE, axis=0, n=16, norm="ortho"),
    }


def predator_and_prey():
    def orbit(rate):
        slope = lambda t, y: [rate * y[0] - y[0] * y[1], y[0] * y[1] - y[1]]
        times = np.linspace(0, 3, 6)
        return scipy.integrate.solve_ivp(
            slope, (0, 3), [1.5, 1], t_eval=times, rtol=1e-10, atol=1e-10
        ).y.T

    return orbit(1.5), (orbit(1.5 + 1e-4) - orbit(1.5 - 1e-4))[-1, 0] / 2e-4


def roots_of_a_system():
    def root(a):
        system = lambda x: [x[0] * np.cos(x[1]) - a, x[1] * x[0] - x[1] - 5]
        return scipy.optimize.root(system, [6, 1], tol=1e-13).x

    return root(4), (root(4 + 1e-5) - root(4 - 1e-5)) / 2e-5


def minimizers():
    weights = np.arange(1, 7)
    loss = lambda x: np.sum(weights * (x - 1) ** 2) / 10 + np.log(np.cosh(x - weights)).sum()
    found = scipy.optimize.minimize(loss, np.zeros(6), method="BFGS").x
    return {"bfgs": found, "lbfgs": found, "newton": found}


def matrix_functions():
    linalg, matrix, symmetric = scipy.linalg, WIDE["MATRIX"], WIDE["SYMMETRIC"]
    return {
        "polar": linalg.polar(matrix),
        "frechet": linalg.expm_frechet(matrix / 8, symmetric / 80),
        "schur": symmetric,
        "sylvester": linalg.solve_sylvester(matrix, symmetric[:2, :2] + np.eye(2), WIDE["SIDE"]),
        "determinant": np.array([1, np.log(linalg.det(matrix))]),
        "power": linalg.fractional_matrix_power(matrix / 4, 5),
    }


def least_squares():
    t, y, linalg = np.linspace(-1, 1, 20), OTHERS[:20], scipy.linalg
    powers = np.vander(t, 4)
    solution, rest, _, singular = linalg.lstsq(powers, y)
    null = linalg.null_space(WIDE["SIDE"].T)
    u, s, v = linalg.svd(FACE, full_matrices=False)
    return {
        "solution": solution,
        "rest": np.atleast_1d(rest),
        "singular": singular,
        "qr": solution,
        "pseudoinverse": solution,
        "ridge": linalg.lstsq(np.vstack([powers, 0.1**0.5 * np.eye(4)]), np.append(y, [0] * 4))[0],
        "null": null @ null.T,
        "rank_two": u[:, :2] @ np.diag(s[:2]) @ v[:2],
    }


def vibrations():
    """A spring at the end moves a frequency by the square of the vector's first component."""
    values, vectors = scipy.linalg.eigh_tridiagonal(np.full(8, 2), np.full(7, -1))
    return {
        "tridiagonal": values,
        "slopes": vectors[0] ** 2,
        "lu": scipy.linalg.lu(WIDE["MATRIX"]),
        "hessenberg": WIDE["SYMMETRIC"],
    }


def special_matrices():
    linalg, side = scipy.linalg, WIDE["SIDE"]
    return {
        "blocks": linalg.block_diag(side, WIDE["CODES"]),
        "convolution": linalg.convolution_matrix(side[:, 0], 4, mode="same"),
        "hankel": linalg.hankel(side[:, 0], side[:, 1]),
        "circulant": linalg.circulant(side[:, 0]),
        "companion": linalg.companion(side[:, 0]),
        "hilbert": linalg.hilbert(4),
        "pascal": linalg.pascal(5),
        "hadamard": linalg.hadamard(4),
        "leslie": linalg.leslie([0.1, 2, 1], [0.2, 0.8]),
        "helmert": linalg.helmert(4),
        "dft": linalg.dft(6, scale="sqrtn"),
    }


def laplacian_of_grid():
    i, j = programs.GRID_EDGES.T
    links = scipy.sparse.coo_array((np.ones(len(i)), (i, j)), shape=(12, 12))
    return scipy.sparse.csr_array(scipy.sparse.csgraph.laplacian(links + links.T))


def sparse_laplacian():
    matrix = laplacian_of_grid()
    matrix.sort_indices()
    shifted = scipy.sparse.csc_array(matrix + scipy.sparse.eye_array(12) / 2)
    solution = scipy.sparse.linalg.spsolve(shifted, TONE[:12])
    return {
        "dense": matrix.toarray(),
        "triples": np.stack(matrix.nonzero(), 1),
        "sums": matrix.sum(axis=1),
        "buffers": (matrix.data, matrix.indices, matrix.indptr),
        "cg": solution,
        "gmres": solution,
        "bicgstab": solution,
        "direct": solution,
    }


def sparse_graph():
    """The ranks are the stationary ones of the whole matrix."""
    links = scipy.sparse.csr_array(WIDE["LINKS"])
    degree = links.sum(axis=1)
    steps = 0.15 / 24 + 0.85 * (links.toarray() / degree[:, None]).T
    rank = np.linalg.matrix_power(steps, 100)[:, 0]
    both = (links + links.T).astype(bool).astype(float)
    laplacian = scipy.sparse.csgraph.laplacian(both)
    values = scipy.sparse.linalg.eigsh(laplacian, 2, return_eigenvectors=False)
    return {
        "degree": degree,
        "rank": rank,
        "eigenvalues": np.sort(values)[::-1],
        "solved": True,
        "paths": (links @ links).toarray()[0],
    }


def sparse_derivatives():
    matrix, x = laplacian_of_grid(), TONE[:12]
    scaled = matrix * np.arange(12)
    return {
        "value": x @ (matrix @ x) / 2,
        "slope": np.where(matrix.toarray() != 0, np.outer(x, x) / 2, 0),
        "square": (matrix @ matrix).toarray(),
        "scaled": scaled.toarray(),
        "corner": matrix.toarray()[:3, 1:4],
        "transposed": scaled.T @ x,
    }


def attitudes():
    observed = WIDE["OBSERVED"]
    turns = Rotation.from_rotvec(WIDE["VECTORS"][:, ::-1] / 3)
    nodes, seen = observed[:12].reshape(4, 6)[:, :3], observed[3:15].reshape(4, 6)[:, :3]
    return {
        "mean": turns.mean().as_matrix(),
        "parameters": turns.as_mrp(),
        "angles": turns.as_euler("xyz", degrees=True) / 90,
        "nearest": Rotation.align_vectors(nodes, seen)[0].as_matrix(),
        "turned": turns.apply(WIDE["VECTORS"][0], inverse=True),
    }


@pytest.fixture(scope="module")
def reference():
    return oracle_results.read(programs.__file__)


# These are the functions of test_scipy, which then need no second compilation; `case_tests` loads its own.
@pytest.mark.parametrize("case", programs.CASES, ids=lambda case: case.name)
def test_reference(case, reference):
    comparison.assert_same_results(case, op_cases.evaluate(case), reference[case.name])


@pytest.mark.parametrize("case", [*programs.CASES, *programs.ALONE], ids=lambda case: case.name)
def test_scipy(case):
    """SciPy's answers, in float64, to the program of the same name."""
    ours, want = case.fun(), globals()[case.name]()
    assert jax.tree.structure(ours) == jax.tree.structure(want)
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(want)):
        np.testing.assert_allclose(x, y, rtol=case.tol, atol=case.tol)
