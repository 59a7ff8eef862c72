"""Programs in terms of a namespace `xp` of the Python array API standard, 2024.12: results with `jax.numpy` and with NumPy.

The programs of a section are compiled together.
"""

import numpy as np
import pytest

import jax
import jax.numpy as jnp

# Programs that raise an error begin with "!".
SECTIONS = {
    "creation": """
xp.arange(5) | xp.arange(2, 10, 3) | xp.arange(10, 2, -3) | xp.arange(0.5, 3, 0.75) | xp.arange(5, 2) | xp.arange(1, stop=4)
xp.eye(3) | xp.eye(2, 3, k=1) | xp.eye(3, 2, k=-1, dtype=xp.int8) | xp.eye(0) | xp.eye(2, k=5) | xp.eye(3, None)
xp.full((2, 2), 3) | xp.full(3, True) | xp.full((), 2.5) | xp.full((2, 0), 1) | xp.full_like(i, 7) | xp.full_like(i, 1, dtype=xp.float32)
xp.linspace(0, 1, 5) | xp.linspace(0, 1, 5, endpoint=False) | xp.linspace(1, -1, 3, dtype=xp.float32) | xp.linspace(0, 1, 0)
xp.linspace(0, 1, 1) | xp.linspace(0, 1j, 3) | xp.linspace(2, 2, 3) | xp.zeros((2, 0)) | xp.zeros(()) | xp.ones((2, 3), dtype=xp.uint8)
xp.zeros_like(a, dtype=xp.int16) | xp.ones_like(b) | xp.empty_like(a).shape | xp.tril(m) | xp.triu(m, k=1) | xp.tril(a, k=-1)
xp.triu(i) | xp.tril(i, k=9) | xp.triu(i, k=-9) | xp.meshgrid(v, w) | xp.meshgrid(v, w, w, indexing="ij") | xp.meshgrid(v) | xp.meshgrid()
xp.asarray([[1, 2], [3, 4.0]]) | xp.asarray(True) | xp.asarray([]) | xp.asarray([[]]) | xp.asarray(w, dtype=xp.float32)
!xp.asarray([[1], [2, 3]]) | !xp.meshgrid(v, w, indexing="ab") | !xp.linspace(0, 1, -1) | !xp.asarray(-1, dtype=xp.uint8)
!xp.asarray("a") | !xp.asarray([300], dtype=xp.uint8)
""",
    "manipulation": """
xp.broadcast_to(w, (2, 6)) | xp.broadcast_arrays(xp.arange(3), xp.ones((2, 1))) | xp.concat([i, i], axis=1) | xp.concat([i, w], axis=None)
xp.concat([a, a], axis=-1) | xp.concat((i, xp.ones((2, 4)))) | xp.expand_dims(i, axis=0) | xp.expand_dims(i, axis=-1) | xp.expand_dims(i, axis=2)
xp.flip(i) | xp.flip(i, axis=1) | xp.flip(a, axis=(0, -1)) | xp.flip(a, axis=()) | xp.flip(s) | xp.moveaxis(a, 0, -1)
xp.moveaxis(a, (0, 1), (1, 0)) | xp.permute_dims(a, (2, 0, 1)) | xp.permute_dims(a, axes=(-1, 0, 1)) | xp.repeat(i, 2)
xp.repeat(i, 2, axis=1) | xp.repeat(w, 0) | xp.reshape(i, (4, 3)) | xp.reshape(i, (-1, 2)) | xp.reshape(i, (12,), copy=True)
xp.reshape(s, ()) | xp.reshape(e, (0, 7)) | xp.reshape(e, (-1, 3)) | xp.roll(i, 1) | xp.roll(i, 2, axis=1) | xp.roll(i, (1, -1), axis=(0, 1))
xp.roll(i, 1, axis=(0, 1)) | xp.roll(i, 100, axis=-1) | xp.roll(i, (1, 2), axis=(0, 0)) | xp.roll(e, 3) | xp.roll(i, (1, 2))
xp.squeeze(xp.ones((1, 2, 1)), axis=0) | xp.squeeze(xp.ones((1, 2, 1)), axis=(0, 2)) | xp.squeeze(xp.ones((1, 2, 1)), axis=-1)
xp.stack([i, i]) | xp.stack([i, i], axis=1) | xp.stack([i, i], axis=-1) | xp.tile(i, (2, 1)) | xp.tile(i, (2,)) | xp.tile(i, (2, 1, 3))
xp.tile(i, ()) | xp.tile(i, (0,)) | xp.unstack(i) | xp.unstack(i, axis=1) | xp.unstack(a, axis=-1) | xp.unstack(e) | a.mT | i.T
!xp.broadcast_to(w, (6, 2)) | !xp.concat([i, i], axis=5) | !xp.concat([]) | !xp.concat([i, w]) | !xp.expand_dims(i, axis=3)
!xp.flip(a, axis=4) | !xp.moveaxis(a, (0, 1), (1,)) | !xp.moveaxis(a, (0, 0), (1, 0)) | !xp.permute_dims(a, (2, 0))
!xp.permute_dims(a, (2, 0, 0)) | !xp.repeat(i, xp.asarray([1, 2]), axis=0) | !xp.reshape(i, (5, -1)) | !xp.reshape(i, (-1, -1))
!xp.reshape(e, (0, -1)) | !xp.squeeze(xp.ones((1, 2, 1)), axis=1) | !xp.squeeze(w, axis=3) | !xp.stack([i, i], axis=3) | !xp.stack([])
!xp.stack([i, w]) | !xp.unstack(s) | !v.mT
""",
    "indexing": """
i[0] | i[-1] | i[1, 2] | i[...] | i[..., 0] | i[None] | i[0, None] | i[None, ...] | i[1:] | i[::-1] | i[:, 1:3] | i[::2, ::-2] | i[5:2]
i[-3:-1] | i[1:100] | i[()] | i[0,] | i[slice(None, None, 2)] | i[1:2, None, :] | s[()] | s[...] | s[None] | e[:0] | a[0, ..., 1]
a[..., 1:, 0] | a[1, :, None, 2] | i[xp.asarray(1)] | i[xp.asarray([0, 2])] | i[xp.asarray([2, -1]), xp.asarray([0, 1])]
i[xp.asarray([[0], [1]]), xp.asarray([0, 3])] | i[0, xp.asarray([0, 3])] | i[xp.asarray([0, 2]), 1] | i[:, xp.asarray([1, 1])]
i[xp.asarray([0, 2]), ...] | i[..., xp.asarray([0, 1])] | i[xp.asarray([0, 1]), 0:2] | xp.take(i, xp.asarray([2, 0]), axis=1)
xp.take(w, xp.asarray([2, 0])) | xp.take(i, xp.asarray([[2, 0], [1, 1]]), axis=0) | xp.take_along_axis(w, xp.asarray([0, 1]))
xp.take_along_axis(i, xp.asarray([[0], [1], [2]]), axis=1) | xp.take_along_axis(m, xp.argsort(m, axis=1), axis=1)
!i[0, 1, 2] | !i[..., ...] | !i[1.0] | !i["a"] | !i[xp.asarray([1.0])] | !i[::0] | !s[0] | !i[xp.asarray([0, 1]), xp.asarray([0, 1, 2])]
""",
    "searching and statistics": " | ".join(
        f"xp.{f}({x}{options})"
        for f, choices in {
            "argmax argmin": ["", ", axis=0", ", axis=-1, keepdims=True", ", keepdims=True"],
            "max min": ["", ", axis=0", ", axis=-1, keepdims=True"],
            "count_nonzero sum prod": ["", ", axis=0", ", axis=-1, keepdims=True", ", axis=()"],
            "mean": ["", ", axis=0", ", axis=-1, keepdims=True"],
            "std var": ["", ", axis=0, correction=1", ", axis=-1, correction=0.5, keepdims=True"],
            "all any": ["", ", axis=0", ", axis=(), keepdims=True", ", axis=-1, keepdims=True"],
            "sort": ["", ", axis=0", ", stable=True"],
            "cumulative_sum": [", axis=0", ", axis=-1, include_initial=True"],
            "cumulative_prod": [", axis=0", ", axis=-1, dtype=xp.float32"],
            "diff": ["", ", axis=0", ", n=2", ", n=0", ", n=100", ", prepend=x0, append=x0"],
        }.items()
        for f in f.split()
        for x in ("v", "i", "a", "n")
        for options in choices
        if not (x == "n" and (f == "prod" or "100" in options or "correction=0.5" in options))
        if "x0" not in options or x == "v"
    ).replace("x0", "v[:2]")
    + """
xp.sum(a, axis=(0, 1)) | xp.max(a, axis=(-1, 0), keepdims=True) | xp.mean(a, axis=(0, 2)) | xp.argsort(v, stable=True) | xp.argsort(m, axis=0)
xp.searchsorted(xp.sort(v), v) | xp.searchsorted(xp.sort(v), v, side="right") | xp.searchsorted(v, s, sorter=xp.argsort(v))
xp.clip(v, 0, 2) | xp.clip(v, min=0) | xp.clip(v, max=xp.asarray(2.0)) | xp.clip(v) | xp.clip(i, xp.asarray([[1], [5], [9]]), 10)
xp.clip(v, 3, 1) | xp.where(i > 5, i, 0) | xp.where(b, 1, 2) | xp.where(b, 1.0, s) | xp.where(i, 1, 0) | xp.sum(e) | xp.prod(e, axis=0)
xp.all(e) | xp.any(e, axis=1) | xp.std(v, correction=2.5)
!xp.max(e) | !xp.argmin(e) | !xp.sum(i, axis=9) | !xp.sum(i, axis=(0, 0)) | !xp.argmax(i, axis=7) | !xp.sort(i, axis=5)
!xp.cumulative_sum(i) | !xp.cumulative_prod(s) | !xp.diff(v, n=-1) | !xp.searchsorted(i, v) | !xp.searchsorted(v, v, side="x")
!xp.mean(i, axis=2) | !xp.var(v, axis=1) | !xp.diff(s)
""",
    "linear algebra": """
xp.linalg.cholesky(m) | xp.linalg.cholesky(m, upper=True) | xp.linalg.cross(m, m[0]) | xp.linalg.cross(m, 2 + m, axis=0) | xp.linalg.det(m)
xp.linalg.det(xp.stack([m, 2 * m])) | xp.linalg.diagonal(i) | xp.linalg.diagonal(i, offset=1) | xp.linalg.diagonal(a, offset=-1)
xp.linalg.diagonal(i, offset=9) | xp.linalg.eigvalsh(m) | xp.linalg.inv(m) | xp.linalg.matmul(m, m) | xp.matmul(m, m[0]) | m[0] @ m
xp.matmul(a, xp.ones((4, 2))) | xp.matmul(m[0], m[1]) | xp.linalg.matrix_norm(m) | xp.linalg.matrix_norm(m, ord="nuc")
xp.linalg.matrix_norm(a, ord=1) | xp.linalg.matrix_norm(a, ord=-1) | xp.linalg.matrix_norm(m, ord=2) | xp.linalg.matrix_norm(m, ord=-2)
xp.linalg.matrix_norm(m, ord=xp.inf) | xp.linalg.matrix_norm(a, ord=-xp.inf, keepdims=True) | xp.linalg.matrix_power(m, 3)
xp.linalg.matrix_power(m, 0) | xp.linalg.matrix_power(m, -2) | xp.linalg.matrix_rank(m) | xp.linalg.matrix_rank(xp.ones((2, 3)))
xp.linalg.matrix_rank(m, rtol=0.6) | xp.linalg.matrix_transpose(a) | xp.linalg.outer(v, w) | xp.linalg.pinv(m) | xp.linalg.pinv(m, rtol=0.6)
xp.linalg.slogdet(m) | xp.linalg.slogdet(-m) | xp.linalg.solve(m, m[0]) | xp.linalg.solve(m, m + 1) | xp.linalg.solve(xp.stack([m, 2 * m]), m[0])
xp.linalg.svdvals(a) | xp.linalg.svd(a).S | xp.linalg.svd(a, full_matrices=False).Vh.shape | xp.linalg.qr(a, mode="complete").Q.shape
xp.tensordot(m, m) | xp.tensordot(m, m, axes=1) | xp.tensordot(m, v, axes=0) | xp.linalg.tensordot(m, m, axes=((0, 1), (1, 0)))
xp.linalg.trace(i) | xp.linalg.trace(a, offset=1) | xp.linalg.trace(i, offset=-9) | xp.vecdot(m, m) | xp.vecdot(a, a, axis=-2)
xp.vecdot(c, c) | xp.linalg.vecdot(m, m[0]) | xp.linalg.vector_norm(a) | xp.linalg.vector_norm(c, axis=-1, ord=1, keepdims=True)
xp.linalg.vector_norm(a, axis=(0, 1), ord=3) | xp.linalg.vector_norm(a, ord=xp.inf, keepdims=True) | xp.linalg.vector_norm(v, ord=0)
xp.linalg.vector_norm(c, ord=-xp.inf) | xp.linalg.vector_norm(a + 1, ord=0.5, axis=1) | xp.linalg.vector_norm(e, axis=1)
!xp.linalg.cross(xp.ones((2, 2)), xp.ones((2, 2))) | !xp.linalg.diagonal(v) | !xp.linalg.inv(xp.ones((2, 3))) | !xp.matmul(s, s)
!xp.matmul(xp.ones((2, 3)), xp.ones((2, 3))) | !xp.linalg.matrix_norm(m, ord=3) | !xp.linalg.matrix_norm(v) | !xp.linalg.outer(i, w)
!xp.matrix_transpose(v) | !xp.linalg.qr(m, mode="x") | !xp.tensordot(m, m, axes=3) | !xp.vecdot(xp.ones((2, 3)), xp.ones(2)) | !xp.vecdot(m, m, axis=5)
""",
    "Fourier transforms": " | ".join(
        f"xp.fft.{f}({x}{options}, norm={norm!r})"
        for norm in ("backward", "ortho", "forward")
        for x, names, choices in [
            ("c", "fft ifft hfft", ["", ", n=3, axis=0", ", n=8"]),
            ("a", "rfft ihfft", ["", ", n=3, axis=0", ", n=9"]),
            ("c", "irfft", ["", ", n=5", ", n=3, axis=0"]),
            ("c", "fftn ifftn irfftn", ["", ", s=(3, 4), axes=(0, 1)", ", axes=(0,)"]),
            ("a", "rfftn", ["", ", s=(3, 4), axes=(0, 1)", ", axes=(1, 0)"]),
        ]
        for f in names.split()
        for options in choices
    )
    + """
xp.fft.fftfreq(1) | xp.fft.fftfreq(8, d=0.1) | xp.fft.rfftfreq(5) | xp.fft.rfftfreq(8, d=2) | xp.fft.fftshift(a) | xp.fft.fftshift(i, axes=1)
xp.fft.ifftshift(a, axes=(0, 2)) | xp.fft.ifftshift(i)
!xp.fft.fft(c, n=0) | !xp.fft.fft(c, axis=3) | !xp.fft.fft(s) | !xp.fft.rfft(c) | !xp.fft.fft(v, norm="x") | !xp.fft.fftn(c, s=(2,), axes=(0, 1))
""",
}  # fmt: skip
ARRAYS = {
    "a": np.arange(24.0).reshape(2, 3, 4),
    "b": np.array([[True, False, True], [False, False, True]]),
    "c": np.array([[1 + 2j, 2 - 1j, 3], [0.5j, 3, -1]]),
    "e": np.zeros((0, 3)),
    "i": np.arange(12).reshape(3, 4),
    "m": np.array([[4, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 2]]),
    "n": np.array([[1.0, np.nan, 3], [4, 5, np.inf]]),
    "s": np.array(2.5),
    "v": np.array([3.0, 1, 2, 3, 1, -1]),
    "w": np.array([3, 1, 2, 3, 1, -1]),
}


def programs(section):
    return [p.strip() for p in SECTIONS[section].replace("\n", "|").split("|") if p.strip()]


def run(texts, xp, arrays):
    return [eval(text, {"xp": xp, **arrays}) for text in texts]


@pytest.mark.parametrize("section", SECTIONS)
def test_values(section):
    texts = [p for p in programs(section) if p[0] != "!"]
    with jax.enable_x64(True):
        with np.errstate(all="ignore"):
            wanted = run(texts, np, ARRAYS)
        found = jax.jit(lambda arrays: run(texts, jnp, arrays))(ARRAYS)
    for text, out, want in zip(texts, found, wanted, strict=True):
        for x, y in zip(jax.tree.leaves(out), jax.tree.leaves(want), strict=True):
            # Indices are of the default integer type, except those of `searchsorted`.
            assert isinstance(y, int) or "searchsorted" in text or x.dtype == y.dtype, text
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-13, err_msg=text)


@pytest.mark.parametrize("section", SECTIONS)
def test_errors(section):
    arrays = {name: jnp.asarray(x) for name, x in ARRAYS.items()}
    for text in programs(section):
        if text[0] == "!":
            with pytest.raises((ValueError, TypeError, IndexError, OverflowError)):
                run([text[1:]], jnp, arrays)
                pytest.fail(f"no error: {text}")
