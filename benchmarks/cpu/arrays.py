"""Programs on arrays that memory bounds: sums, transforms, histograms, stencils and sparse matrices."""

import numpy as np
from cpu.frameworks import compiled, jax, jnp, lax, scipy_sparse, torch
from cpu.programs import normal, program

MILLION = 1 << 20


@program("spectral layer, gradient", byte=4 * 8 * 128 * 128 * 16 * 8)
class Spectral:
    """Multiplies the low frequencies of 8 images of 128x128 with 16 channels."""

    def inputs(rng):
        return normal(rng, 8, 16, 128, 128), normal(rng, 16, 128, 65)

    def jax(x, w):
        def loss(x, w):
            return jnp.sum(jnp.fft.irfft2(jnp.fft.rfft2(x) * w) ** 2)

        return jax.grad(loss, (0, 1))(x, w)

    def torch(x, w):
        x, w = x.requires_grad_(), w.requires_grad_()
        loss = lambda: (torch.fft.irfft2(torch.fft.rfft2(x) * w) ** 2).sum()
        return lambda: torch.autograd.grad(loss(), (x, w))


@program("cumulative sum of a million", byte=8 * MILLION)
class CumulativeSum:
    def inputs(rng):
        return (normal(rng, MILLION),)

    def jax(x):
        return jnp.cumsum(x)

    def torch(x):
        return lambda: torch.cumsum(x, 0)


@compiled
def recurrence_of(a, b):
    out = np.empty_like(b)
    state = np.zeros(b.shape[1], b.dtype)
    for i in range(len(b)):
        state = a[i] * state + b[i]
        out[i] = state
    return out


@program("associative scan of a recurrence", byte=4 * 3 * 4096 * 64)
class Recurrence:
    def inputs(rng):
        return rng.random((4096, 64), dtype="float32"), normal(rng, 4096, 64)

    def jax(a, b):
        combine = lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1])
        return lax.associative_scan(combine, (a, b))[1]

    def numpy(a, b):
        return lambda: recurrence_of(a, b)


@program("histogram of a million", byte=4 * MILLION)
class Histogram:
    def inputs(rng):
        return (rng.random(MILLION, dtype="float32"),)

    def jax(x):
        return jnp.histogram(x, bins=256, range=(0.0, 1.0))[0]

    def torch(x):
        return lambda: torch.histc(x, 256, 0.0, 1.0)


@compiled
def diffused(grid, steps):
    grid = grid.copy()
    other = grid.copy()
    rows, columns = grid.shape
    for _ in range(steps):
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                around = grid[i - 1, j] + grid[i + 1, j] + grid[i, j - 1] + grid[i, j + 1]
                other[i, j] = grid[i, j] + np.float32(0.1) * (around - np.float32(4) * grid[i, j])
        grid, other = other, grid
    return grid


@program("stencil, 50 steps of 512x512", byte=50 * 8 * 512 * 512)
class Stencil:
    def inputs(rng):
        return (normal(rng, 512, 512),)

    def jax(grid):
        def step(_, grid):
            inner = grid[1:-1, 1:-1]
            around = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
            return grid.at[1:-1, 1:-1].set(inner + 0.1 * (around - 4 * inner))

        return lax.fori_loop(0, 50, step, grid)

    def numpy(grid):
        return lambda: diffused(grid, 50)


@program("sparse matrix by vector", byte=12 * 500_000)
class SparseMatrix:
    """500,000 entries in 50,000 rows."""

    def inputs(rng):
        rows = np.sort(rng.integers(0, 50_000, 500_000)).astype("int32")
        columns = rng.integers(0, 50_000, 500_000).astype("int32")
        return normal(rng, 500_000), rows, columns, normal(rng, 50_000)

    def jax(data, rows, columns, x):
        return jax.ops.segment_sum(data * x[columns], rows, 50_000, indices_are_sorted=True)

    def numpy(data, rows, columns, x):
        matrix = scipy_sparse.coo_array((data, (rows, columns)), (50_000, 50_000)).tocsr()
        return lambda: matrix @ x
