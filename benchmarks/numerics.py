"""Benchmarks of the numerical libraries: beside PyPI's jax, and beside NumPy or SciPy.

Where jaxlib-ext is installed, its kernels are part of what is timed.
"""

import functools

import numpy as np
import scipy.signal
import scipy.sparse
import scipy.special
from registry import BENCHMARKS, Benchmark, timed

import jax
import jax.numpy as jnp
import jax.scipy.signal
import jax.scipy.special
from jax.experimental import sparse
from jax.experimental.sparse.linalg import spsolve

MILLION = 1_000_000


def row(name, f, mark, make, *, numpy=None, numpy_mark=1.1, beside="NumPy"):
    """Adds a benchmark beside the oracle, and one beside NumPy if `numpy` does the same as `f`."""

    def prepare():
        args, compiled = tuple(map(jnp.asarray, make())), jax.jit(f)
        return lambda: compiled(*args)

    timed("numerics", name, mark=mark)(prepare)
    if numpy is None:
        return

    def prepare_numpy():
        args = make()
        return lambda: numpy(*args)

    name = f"{name}, beside {beside}"
    BENCHMARKS[name] = Benchmark(name, "numerics", numpy_mark, "s", prepare, prepare_numpy)


def random():
    return np.random.default_rng(0)


def million():
    return (random().standard_normal(MILLION, np.float32),)


def near_one():
    return (random().uniform(0.9, 1.1, MILLION).astype(np.float32),)


def square():
    return (random().standard_normal((MILLION // 1000, 1000), np.float32),)


def integers(high):
    return lambda: (random().integers(0, high, MILLION, np.int32),)


def sorted_and_queries():
    (x,) = million()
    return np.sort(x), random().standard_normal(MILLION, np.float32)


def points_and_samples():
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    return (*million(), x, np.sin(x))


def signals():
    r = random()
    size = MILLION // 10
    return r.standard_normal(size, np.float32), r.standard_normal(size // 10, np.float32)


def one_of(make, i):
    return lambda: (make()[i],)


def key():
    return (np.array([0, 42], np.uint32),)


def drawing(sample):
    return lambda data: sample(jax.random.wrap_key_data(data))


# Partial sums, products and maxima

row("cumsum", jnp.cumsum, 0.5, million, numpy=lambda x: np.cumsum(x))
row("cumprod", jnp.cumprod, 0.5, near_one, numpy=lambda x: np.cumprod(x))
row("cummax", jax.lax.cummax, 0.5, million, numpy=np.maximum.accumulate)
row("cumsum, int32", jnp.cumsum, 0.5, integers(100), numpy=lambda x: np.cumsum(x, dtype=np.int32))
row(
    "cumsum, rows of 1000x1000",
    lambda x: jnp.cumsum(x, axis=1),
    0.5,
    square,
    numpy=lambda x: np.cumsum(x, axis=1),
)
row(
    "cumsum, columns of 1000x1000",
    lambda x: jnp.cumsum(x, axis=0),
    0.5,
    square,
    numpy=lambda x: np.cumsum(x, axis=0),
)
row("gradient of cumsum", jax.grad(lambda x: jnp.sum(jnp.cumsum(x) ** 2)), 0.5, million)

# Counting, searching and interpolating

row(
    "bincount, 1000 bins",
    lambda x: jnp.bincount(x, length=1000),
    0.3,
    integers(1000),
    numpy=lambda x: np.bincount(x, minlength=1000),
)
row(
    "bincount with weights",
    lambda x, w: jnp.bincount(x, w, length=1000),
    0.3,
    lambda: integers(1000)() + million(),
    numpy=lambda x, w: np.bincount(x, w, minlength=1000),
)
row(
    "histogram, 100 bins",
    lambda x: jnp.histogram(x, bins=100, range=(-4, 4)),
    0.3,
    million,
    numpy=lambda x: np.histogram(x, bins=100, range=(-4, 4)),
)
row("searchsorted", jnp.searchsorted, 0.5, sorted_and_queries)
row(
    "searchsorted in 1000",
    lambda a, x: jnp.searchsorted(a[:1000], x),
    0.5,
    sorted_and_queries,
)
row("digitize, 100 bins", lambda x: jnp.digitize(x, jnp.linspace(-3, 3, 100)), 0.5, million)
row("interp, 1000 samples", jnp.interp, 0.5, points_and_samples)

# Special functions, beside SciPy's of float32


def uniform(*ranges):
    def make():
        r = random()
        return tuple(r.uniform(low, high, MILLION).astype(np.float32) for low, high in ranges)

    return make


def special(name, mark, *ranges):
    """Adds the rows of a function of jax.scipy.special for numbers in ranges."""
    ours, theirs = getattr(jax.scipy.special, name), getattr(scipy.special, name)
    make = uniform(*ranges)
    row(f"special.{name}", ours, mark, make, numpy=theirs, numpy_mark=1.0, beside="SciPy")


special("betainc", 0.3, (0.1, 20), (0.1, 20), (0, 1))
special("gammainc", 0.3, (0.1, 20), (0.1, 20))
special("gammaincc", 0.3, (0.1, 20), (0.1, 20))
special("gammaln", 0.3, (0.1, 30))
special("digamma", 0.3, (0.1, 30))
special("erfinv", 0.3, (-1, 1))
special("beta", 1.05, (0.1, 10), (0.1, 10))
special("erf", 1.05, (-3, 3))
special("erfc", 1.05, (-3, 8))
special("erfcx", 1.05, (-3, 20))
special("gamma", 1.05, (-10, 30))
special("i0", 1.05, (0, 30))
special("i1", 1.05, (0, 30))
special("log_ndtr", 1.05, (-5, 5))
special("ndtr", 1.05, (-5, 5))
special("ndtri", 1.05, (0, 1))
special("xlogy", 1.05, (0, 5), (0, 5))
special("zeta", 1.05, (1.1, 20), (0.1, 20))

# Signals

row(
    "signal.convolve of 100k by 10k",
    jax.scipy.signal.convolve,
    0.03,
    signals,
    numpy=scipy.signal.convolve,
    numpy_mark=1.2,
    beside="SciPy",
)
# Without a mark: it computes sums of products, as PyPI's and NumPy's do. Fourier transforms would spread a NaN to the
# whole result, and errors relative to the largest sum.
row("jnp.convolve of 100k by 10k", jnp.convolve, None, signals)


def median_filter(x, width):
    """The medians of windows, as programs write them: jax has no function for it."""
    places = jnp.arange(x.size - width + 1)[:, None] + jnp.arange(width)
    return jnp.median(x[places], axis=1)


row("median filter of width 5", lambda x: median_filter(x, 5), 0.2, million)
row("median filter of width 25", lambda x: median_filter(x, 25), 0.2, one_of(signals, 0))

# Random numbers

row(
    "random.normal of 10M",
    drawing(lambda key: jax.random.normal(key, (10 * MILLION,))),
    0.5,
    key,
)
row(
    "random.uniform of 10M",
    drawing(lambda key: jax.random.uniform(key, (10 * MILLION,))),
    0.5,
    key,
)
row(
    "random.choice without replacement, 1000 of 1M",
    drawing(lambda key: jax.random.choice(key, MILLION, (1000,), replace=False)),
    0.05,
    key,
)
# PyPI's does not sort here either: both take the largest of a million random scores, most of the time in drawing these.
row(
    "random.choice without replacement, with probabilities",
    lambda data, p: jax.random.choice(
        jax.random.wrap_key_data(data), MILLION, (1000,), replace=False, p=p
    ),
    1.0,
    lambda: key() + (near_one()[0] / MILLION,),
)

# Linear algebra


def small_matrices():
    r = random()
    count = MILLION // 10
    matrices = r.standard_normal((count, 3, 3), np.float32) + 3 * np.eye(3, dtype=np.float32)
    return matrices, r.standard_normal((count, 3, 1), np.float32)


row("solve of 100k 3x3", jnp.linalg.solve, 0.7, small_matrices)
row("inv of 100k 3x3", jnp.linalg.inv, 0.7, one_of(small_matrices, 0))
row("det of 100k 3x3", jnp.linalg.det, 0.7, one_of(small_matrices, 0))


def large_matrices():
    a = random().standard_normal((300, 300), np.float32)
    return a, a @ a.T + 300 * np.eye(300, dtype=np.float32)


for name, f, which in (
    ("cholesky", jnp.linalg.cholesky, 1),
    ("det", jnp.linalg.det, 0),
    ("eig", jnp.linalg.eig, 0),
    ("eigh", jnp.linalg.eigh, 1),
    ("inv", jnp.linalg.inv, 0),
    ("lstsq", lambda a: jnp.linalg.lstsq(a, a[:, 0])[0], 0),
    ("matrix_power 5", lambda a: jnp.linalg.matrix_power(a, 5), 0),
    ("pinv", jnp.linalg.pinv, 0),
    ("qr", jnp.linalg.qr, 0),
    ("slogdet", jnp.linalg.slogdet, 0),
    ("solve", lambda a: jnp.linalg.solve(a, a[:, 0]), 0),
    ("svd", jnp.linalg.svd, 0),
):
    row(f"linalg.{name} of 300x300", f, 1.0, one_of(large_matrices, which))

# Indexing

# The same program as PyPI's.
row("gather of 1M", lambda x, i: x[i], 1.0, lambda: million() + integers(MILLION)())
row(
    "segment_sum of 1M in 1000",
    lambda x, i: jax.ops.segment_sum(x, i, num_segments=1000),
    1.0,
    lambda: million() + integers(1000)(),
)
row(
    "segment_sum of 1Mx8 in 1000",
    lambda x, i: jax.ops.segment_sum(x, i, num_segments=1000),
    1.0,
    lambda: (random().standard_normal((MILLION, 8), np.float32), *integers(1000)()),
)

# Products of a sparse matrix of 100k rows and columns, with ten elements in a row on average

SIDE = MILLION // 10


@functools.cache
def scipy_matrix():
    r = random()
    rows, columns = r.integers(0, SIDE, (2, MILLION), np.int32)
    coo = (r.standard_normal(MILLION, np.float32), (rows, columns))
    return scipy.sparse.csr_matrix(coo, shape=(SIDE, SIDE))


def sparse_product(name, multiply, columns, mark):
    def make():
        m = scipy_matrix()
        shape = (SIDE, *columns)
        return m.data, m.indices, m.indptr, random().standard_normal(shape, np.float32)

    def f(data, indices, indptr, x):
        return multiply(sparse.CSR((data, indices, indptr), shape=(SIDE, SIDE)), x)

    def beside(data, indices, indptr, x):
        return multiply(scipy_matrix(), x)

    row(name, f, mark, make, numpy=beside, numpy_mark=1.2, beside="SciPy")


sparse_product("CSR matrix by vector", lambda m, v: m @ v, (), 0.3)
sparse_product("transposed CSR matrix by vector", lambda m, v: m.T @ v, (), 0.3)
sparse_product("CSR matrix by 100k x 8", lambda m, b: m @ b, (8,), 0.3)


def coo_buffers():
    m = scipy_matrix().tocoo()
    return m.data, m.row, m.col, random().standard_normal(SIDE, np.float32)


row(
    "COO matrix by vector",
    lambda data, row, col, v: sparse.COO((data, row, col), shape=(SIDE, SIDE)) @ v,
    0.3,
    coo_buffers,
)


# The batched formats, with the same matrix; a dense one of 1000 x 1000 of which a tenth is not zero


def batched_matrix(kind):
    """The buffers of the matrix above, and the function that makes it of them."""
    options = dict(shape=(SIDE, SIDE), indices_sorted=True, unique_indices=True)
    if kind is sparse.BCSR:
        m = scipy_matrix()
        return (m.data, m.indices, m.indptr), lambda *buffers: kind(buffers, **options)
    m = scipy_matrix().tocoo()
    buffers = m.data, np.stack([m.row, m.col], 1)
    return buffers, lambda *buffers: kind(buffers, **options)


def tenth(*shape):
    r = random()
    return np.where(r.random(shape) < 0.1, r.standard_normal(shape), 0).astype(np.float32)


def laplacian():
    """Of a grid of 60 x 60 points, with five elements in most rows."""
    line = scipy.sparse.diags_array([2.5, -1, -1], offsets=[0, 1, -1], shape=(60, 60))
    unit = scipy.sparse.eye_array(60)
    m = scipy.sparse.csr_array(scipy.sparse.kron(line, unit) + scipy.sparse.kron(unit, line))
    b = random().standard_normal(3600, np.float32)
    return m.data.astype(np.float32), m.indices.astype(np.int32), m.indptr.astype(np.int32), b


for _kind in (sparse.BCOO, sparse.BCSR):
    _name = _kind.__name__
    for _what, _columns in (("vector", ()), ("100k x 8", (8,))):
        row(
            f"{_name} matrix by {_what}",
            lambda *args, kind=_kind: batched_matrix(kind)[1](*args[:-1]) @ args[-1],
            1.0,
            lambda kind=_kind, columns=_columns: (
                *batched_matrix(kind)[0],
                random().standard_normal((SIDE, *columns), np.float32),
            ),
        )
    row(
        f"{_name} of a dense matrix",
        lambda x, kind=_kind: kind.fromdense(x, nse=120_000),
        1.0,
        lambda: (tenth(1000, 1000),),
    )
    row(
        f"{_name} to a dense matrix",
        lambda *buffers, kind=_kind: kind(buffers, shape=(1000, 1000)).todense(),
        1.0,
        lambda kind=_kind: kind.fromdense(tenth(1000, 1000)).tree_flatten()[0],
    )
row(
    "gradient of BCSR matrix by vector",
    lambda data, indices, indptr, v: jax.grad(
        lambda data, v: jnp.sum((batched_matrix(sparse.BCSR)[1](data, indices, indptr) @ v) ** 2),
        (0, 1),
    )(data, v),
    1.0,
    lambda: (*batched_matrix(sparse.BCSR)[0], random().standard_normal(SIDE, np.float32)),
)
row(
    "sum_duplicates of 1M elements",
    lambda data, at: sparse.BCOO((data, at), shape=(1000, 1000)).sum_duplicates(nse=MILLION)._bufs,
    1.0,
    lambda: (*million(), random().integers(0, 1000, (MILLION, 2), np.int32)),
)
row("spsolve of 3600 unknowns", spsolve, 1.0, laplacian)
