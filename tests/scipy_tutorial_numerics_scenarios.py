"""Programs of the pages of SciPy's user guide on signals, interpolation, optimization and matrices, one a topic."""

import numpy as np
from op_cases import Programs
from scipy_tutorial_data import (
    CODES,
    CROSS,
    ECHO,
    FACE,
    GRID,
    GRID_EDGES,
    LINK_COUNT,
    LINKS,
    MATRIX,
    OBSERVED,
    OTHERS,
    SIDE,
    SITES,
    SURFACE,
    SYMMETRIC,
    TONE,
    VECTORS,
)

import jax
import jax.numpy as jnp
from jax.experimental import sparse
from jax.experimental.ode import odeint
from jax.experimental.sparse.linalg import lobpcg_standard, spsolve
from jax.scipy import fft, integrate, linalg, signal
from jax.scipy.interpolate import RegularGridInterpolator
from jax.scipy.ndimage import map_coordinates
from jax.scipy.optimize import minimize
from jax.scipy.sparse.linalg import bicgstab, cg, gmres
from jax.scipy.spatial.transform import Rotation, Slerp

CASES, ALONE = Programs(), Programs()
define = CASES.define
# Compared with SciPy only: the reference's minimization gives up early.
alone = ALONE.define


def assembled(edges, n):
    """The Laplacian of a graph: each edge adds four entries, and those of the same place are summed."""
    (i, j), shares = edges.T, np.repeat(np.float32([1, 1, -1, -1]), len(edges))
    places = np.concatenate([[i, i], [j, j], [i, j], [j, i]], 1).T
    entries = sparse.BCOO((jnp.asarray(shares), jnp.asarray(places, jnp.int32)), shape=(n, n))
    return entries.sum_duplicates(nse=n + 2 * len(edges))


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
