"""Programs of the topics of SciPy's user guide, compared with the reference build and with SciPy."""

import numpy as np
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse.csgraph
import scipy.sparse.linalg
import scipy_tutorial_data as data
import scipy_tutorial_numerics_scenarios as programs
from scipy.spatial.transform import Rotation, Slerp
from scipy_tutorial_testing import guide_tests

WIDE = {
    name: value.astype(np.float64)
    for name, value in vars(data).items()
    if isinstance(value, np.ndarray)
}
HEIGHTS, OTHERS, TONE, ECHO = (WIDE[name] for name in ("HEIGHTS", "OTHERS", "TONE", "ECHO"))
FACE, SURFACE, SITES = (WIDE[name] for name in ("FACE", "SURFACE", "SITES"))
GRID = [x.astype(np.float64) for x in data.GRID]


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


def curve_fit():
    t = np.linspace(0, 4, 40)
    y = 2.5 * np.exp(-1.3 * t) + 0.5 + (OTHERS - 6) / 40
    decay = lambda t, a, b, c: a * np.exp(-b * t) + c
    return scipy.optimize.curve_fit(decay, t, y, [2, 1, 0])


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
    i, j = data.GRID_EDGES.T
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


reference, test_reference, test_scipy = guide_tests(programs, globals())
