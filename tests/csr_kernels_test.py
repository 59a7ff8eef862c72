"""The kernel for products of CSR matrices: the same results as XLA's code, for every index."""

import native
import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import config
from jax.experimental import sparse

TYPES = [
    *(f"{sign}int{bits}" for bits in (8, 16, 32) for sign in ("", "u")),
    "float32",
    "complex64",
    "float16",
]


@pytest.fixture(scope="module", autouse=True)
def extension():
    yield from native.extension_in_use()


def products(data, indices, indptr, v, B, *, shape):
    mat = sparse.CSR((data, indices, indptr), shape=shape)
    rows, columns = shape
    return mat @ v[:columns], mat @ B[:columns], mat.T @ v[:rows], mat.T @ B[:rows]


def both(*args, shape):
    """Results with the kernel and without."""
    results = []
    for kernels in (True, False):
        with config.native_kernels(kernels):
            run = jax.jit(lambda *args: products(*args, shape=shape))
            lowered = run.lower(*args)
            called = "jaxlib_ext_csr_product" in lowered.as_text()
            results.append((called, lowered.compile()(*args)))
    return results


def draw(dtype, nse, shape, valid, index_dtype="int32", seed=0):
    """Small integers, with which products are exact in any order."""
    random = np.random.default_rng(seed)
    rows, columns = shape
    number = lambda *size: random.integers(-3, 4, size).astype(dtype)
    if valid:
        indices = random.integers(0, columns, nse) if columns else np.zeros(nse)
        inner = np.sort(random.integers(0, nse + 1, rows))
        indptr = np.concatenate([[0], inner])
    else:
        limit = columns + rows + nse
        indices = random.integers(-limit, limit, nse)
        indptr = random.integers(-limit, limit, rows + 1)
    size = max(shape)
    buffers = number(nse), indices.astype(index_dtype), indptr.astype(index_dtype)
    return *buffers, number(size), number(size, 11)


def check(args, shape, called=True):
    (with_kernel, ours), (without, theirs) = both(*args, shape=shape)
    assert (with_kernel, without) == (called, False)
    for x, y in zip(ours, theirs):
        np.testing.assert_array_equal(x, y)
        assert x.dtype == y.dtype


@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype):
    check(draw(dtype, 60, (9, 13), True), (9, 13), called=dtype != "float16")


def test_64_bits():
    with jax.enable_x64(True):
        for dtype, index_dtype in (
            ("float64", "int64"),
            ("complex128", "int32"),
            ("int64", "int64"),
        ):
            check(draw(dtype, 60, (9, 13), True, index_dtype), (9, 13))
            check(draw(dtype, 60, (9, 13), False, index_dtype), (9, 13))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (2, 700), (700, 2)])
@pytest.mark.parametrize("nse", [0, 1, 30000])
def test_shapes(nse, shape):
    check(draw("float32", nse, shape, True), shape)


@pytest.mark.parametrize("seed", range(4))
def test_indices_out_of_range(seed):
    check(draw("float32", 12, (5, 4), False, seed=seed), (5, 4))


def test_derivatives():
    data, indices, indptr, v, _ = draw("float32", 60, (9, 13), True)

    def product(data, v):
        return sparse.CSR((data, indices, indptr), shape=(9, 13)) @ v

    def everything():
        jvp = jax.jvp(product, (data, v), (data + 1, v - 2))
        return jvp, jax.vjp(product, data, v)[1](jnp.arange(9.0))

    run = jax.jit(everything)
    text = run.lower().as_text()
    assert text.count("jaxlib_ext_csr_product") >= 4
    with config.native_kernels(False):
        wanted = everything()
    jax.tree.map(np.testing.assert_array_equal, run(), wanted)


def test_small_indices_do_without():
    data, indices, indptr, v, _ = draw("float32", 60, (9, 13), True)
    mat = sparse.CSR((data, indices, indptr), shape=(9, 13))
    run = jax.jit(lambda mat, v: mat @ v)
    wanted = run(mat, v)
    small = sparse.CSR((data, indices.astype("int16"), indptr.astype("int16")), shape=(9, 13))
    assert "jaxlib_ext" not in run.lower(small, v).as_text()
    np.testing.assert_array_equal(run(small, v), wanted)


def bcsr_products(buffers, v, w, B, shape):
    """Products of a BCSR array: with vectors and arrays on both sides of it, mapped and not."""
    mat = sparse.BCSR(buffers, shape=shape)
    dot = lambda x, axis, at: sparse.bcsr_dot_general(
        mat, x, dimension_numbers=(((axis,), (at,)), ((), ()))
    )
    return (
        mat @ v, mat @ B, dot(w, 0, 0), dot(jnp.outer(w, w[:3]), 0, 0), dot(B.T, 1, 1),
        dot(jnp.stack([B, 2 * B]), 1, 1), jax.vmap(lambda x: mat @ x, 1)(B),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "complex64", "uint8", "bfloat16"])
def test_bcsr_products(dtype):
    """Also of padding, in places that exist and in others, and of columns beyond the last."""
    rows, columns = shape = (9, 13)
    data, indices, indptr, v, B = draw(dtype, 60, shape, True)
    indices = np.where(np.arange(60) % 7 == 3, columns + 2, indices).astype(np.int32)
    args = (data, indices, np.minimum(indptr, 50)), v[:columns], v[:rows], B[:columns]
    args = jax.tree.map(jnp.asarray, args)

    def everything(buffers, *dense):
        fun = lambda data, *dense: bcsr_products((data, *buffers[1:]), *dense, shape)
        floats = buffers[0], *dense
        outs = fun(*floats)
        if not jnp.issubdtype(dtype, jnp.inexact):
            return outs
        tangents = tuple(x + 1 for x in floats)
        return outs, jax.jvp(fun, floats, tangents)[1], jax.vjp(fun, *floats)[1](outs)

    results = []
    for kernels in (True, False):
        with config.native_kernels(kernels):
            lowered = jax.jit(everything).lower(*args)
            count = lowered.as_text().count("jaxlib_ext_csr_product")
            assert (count >= 7) == (kernels and dtype != "bfloat16")
            results.append(lowered.compile()(*args))
    jax.tree.map(np.testing.assert_array_equal, *results)
