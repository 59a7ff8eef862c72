"""The kernels for products of sparse matrices: the same results as XLA's code, for every index."""

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


def products(kind, buffers, v, B, *, shape):
    mat = getattr(sparse, kind)(buffers, shape=shape)
    rows, columns = shape
    return mat @ v[:columns], mat @ B[:columns], mat.T @ v[:rows], mat.T @ B[:rows]


def both(kind, *args, shape):
    """Results with the kernel and without."""
    results = []
    for kernels in (True, False):
        with config.native_kernels(kernels):
            run = jax.jit(lambda *args: products(kind, *args, shape=shape))
            lowered = run.lower(*args)
            called = f"jaxlib_ext_{kind.lower()}_product" in lowered.as_text()
            results.append((called, lowered.compile()(*args)))
    return results


def draw(kind, dtype, nse, shape, valid, index_dtype="int32", seed=0):
    """Small integers, with which products are exact in any order: buffers, a vector and a matrix."""
    random = np.random.default_rng(seed)
    rows, columns = shape
    number = lambda *size: random.integers(-3, 4, size).astype(dtype)
    limit = columns + rows + nse
    if not valid:
        indices = random.integers(-limit, limit, nse)
    else:
        indices = random.integers(0, columns, nse) if columns else np.zeros(nse)
    if kind == "COO":
        # some beyond the last row
        others = random.integers(*(0, rows + 2) if valid else (-limit, limit), nse)
        others.sort()
        others = others[:: 1 if seed % 2 == 0 else -1]
        order = (others, indices)
    else:
        inner = np.sort(random.integers(0, nse + 1, rows))
        others = np.concatenate([[0], inner]) if valid else random.integers(-limit, limit, rows + 1)
        order = (indices, others)
    size = max(shape)
    buffers = number(nse), *(x.astype(index_dtype) for x in order)
    return buffers, number(size), number(size, 11)


def check(kind, args, shape, called=True):
    (with_kernel, ours), (without, theirs) = both(kind, *args, shape=shape)
    assert (with_kernel, without) == (called, False)
    for x, y in zip(ours, theirs):
        np.testing.assert_array_equal(x, y)
        assert x.dtype == y.dtype


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("CSR", t) for t in TYPES] + [("COO", t) for t in ("float32", "complex64", "int8", "float16")],
)
def test_types(kind, dtype):
    check(kind, draw(kind, dtype, 60, (9, 13), True), (9, 13), called=dtype != "float16")


@pytest.mark.parametrize("kind", ["COO", "CSR"])
def test_64_bits(kind):
    with jax.enable_x64(True):
        for dtype, index_dtype in (
            ("float64", "int64"),
            ("complex128", "int32"),
            ("int64", "int64"),
        ):
            check(kind, draw(kind, dtype, 60, (9, 13), True, index_dtype), (9, 13))
            check(kind, draw(kind, dtype, 60, (9, 13), False, index_dtype), (9, 13))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (2, 700), (700, 2)])
@pytest.mark.parametrize("nse", [0, 1, 30000])
@pytest.mark.parametrize("kind", ["COO", "CSR"])
def test_shapes(kind, nse, shape):
    check(kind, draw(kind, "float32", nse, shape, True), shape)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["COO", "CSR"])
def test_indices_out_of_range(kind, seed):
    check(kind, draw(kind, "float32", 12, (5, 4), False, seed=seed), (5, 4))


@pytest.mark.parametrize("kind", ["COO", "CSR"])
def test_derivatives(kind):
    (data, *indices), v, _ = draw(kind, "float32", 60, (9, 13), True)

    def product(data, v):
        return getattr(sparse, kind)((data, *indices), shape=(9, 13)) @ v

    def everything():
        jvp = jax.jvp(product, (data, v), (data + 1, v - 2))
        return jvp, jax.vjp(product, data, v)[1](jnp.arange(9.0))

    run = jax.jit(everything)
    text = run.lower().as_text()
    assert text.count(f"jaxlib_ext_{kind.lower()}_product") >= 4
    with config.native_kernels(False):
        wanted = everything()
    jax.tree.map(np.testing.assert_array_equal, run(), wanted)


@pytest.mark.parametrize("kind", ["COO", "CSR"])
def test_vmap_of_dense_operands_makes_one_product(kind):
    shape = (9, 13)
    buffers, v, B = draw(kind, "float32", 60, shape, True)
    mat = getattr(sparse, kind)(buffers, shape=shape)
    run = jax.jit(
        lambda V, S: (
            jax.vmap(lambda v: mat @ v, 1, 1)(V),
            jax.vmap(lambda B: mat @ B)(S),
            jax.vmap(jax.grad(lambda v: ((mat @ v) ** 2).sum()))(V.T),
        )
    )
    V, S = B[:13], np.stack([B[:13], 2 * B[:13]])
    text = run.lower(V, S).as_text()
    assert text.count(f"jaxlib_ext_{kind.lower()}_product") == 4 and "scatter" not in text
    dense = mat.todense()
    wanted = dense @ V, dense @ S, (2 * dense.T @ dense @ V).T
    jax.tree.map(np.testing.assert_array_equal, run(V, S), wanted)
    for args in ((V[:5], S), (V, S[:, :5])):
        with pytest.raises(ValueError, match=r"matrix of shape \(9, 13\) needs a dense operand of"):
            run(*args)
    # What else is mapped has no single product.
    out = jax.vmap(lambda d, v: getattr(sparse, kind)((d, *buffers[1:]), shape=shape) @ v)(
        np.stack([buffers[0], 3 * buffers[0]]), np.stack([v, v])
    )
    np.testing.assert_array_equal(out, np.stack([dense @ v, 3 * dense @ v]))


@pytest.mark.parametrize("kind", ["COO", "CSR"])
def test_small_indices_do_without(kind):
    (data, *indices), v, _ = draw(kind, "float32", 60, (9, 13), True)
    mat = getattr(sparse, kind)((data, *indices), shape=(9, 13))
    run = jax.jit(lambda mat, v: mat @ v)
    wanted = run(mat, v)
    narrow = (x.astype("int16") for x in indices)
    small = getattr(sparse, kind)((data, *narrow), shape=(9, 13))
    assert "jaxlib_ext" not in run.lower(small, v).as_text()
    np.testing.assert_array_equal(run(small, v), wanted)


def batched_products(mat, v, w, B):
    """Products of a BCSR or BCOO matrix: with vectors and arrays on both sides, mapped and not."""
    dot_general = (
        sparse.bcsr_dot_general if isinstance(mat, sparse.BCSR) else sparse.bcoo_dot_general
    )
    dot = lambda x, axis, at: dot_general(mat, x, dimension_numbers=(((axis,), (at,)), ((), ())))
    return (
        mat @ v, mat @ B, dot(w, 0, 0), dot(jnp.outer(w, w[:3]), 0, 0), dot(B.T, 1, 1),
        dot(jnp.stack([B, 2 * B]), 1, 1), jax.vmap(lambda x: mat @ x, 1)(B),
    )  # fmt: skip


def check_batched(kind, kernel, dtype, buffers, shape, v, B):
    rows, columns = shape
    args = jax.tree.map(jnp.asarray, (buffers, v[:columns], v[:rows], B[:columns]))

    def everything(buffers, *dense):
        fun = lambda data, *dense: batched_products(kind((data, *buffers[1:]), shape=shape), *dense)
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
            count = lowered.as_text().count(kernel)
            assert (count >= 7) == (kernels and dtype != "bfloat16")
            results.append(lowered.compile()(*args))
    jax.tree.map(np.testing.assert_array_equal, *results)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "uint8", "bfloat16"])
def test_bcsr_products(dtype):
    """Also of padding, in places that exist and in others, and of columns beyond the last."""
    rows, columns = shape = (9, 13)
    (data, indices, indptr), v, B = draw("CSR", dtype, 60, shape, True)
    indices = np.where(np.arange(60) % 7 == 3, columns + 2, indices).astype(np.int32)
    buffers = data, indices, np.minimum(indptr, 50)
    check_batched(sparse.BCSR, "jaxlib_ext_csr_product", dtype, buffers, shape, v, B)


@pytest.mark.parametrize(
    ("dtype", "order"),
    [("float32", "rows"), ("float32", "columns"), ("complex64", "none"), ("bfloat16", "none")],
)
def test_bcoo_products(dtype, order):
    """Also of padding behind the last row and column, and of indices that count from the end."""
    rows, columns = shape = (9, 13)
    (data, *_), v, B = draw("CSR", dtype, 60, shape, True)
    pairs = np.random.default_rng(1).integers(
        -2 if order == "none" else 0, [rows + 2, columns + 2], (60, 2)
    )
    if order != "none":
        pairs = pairs[np.argsort(pairs[:, 0 if order == "rows" else 1], kind="stable")]
    buffers = data, pairs.astype(np.int32)
    check_batched(sparse.BCOO, "jaxlib_ext_bcoo_product", dtype, buffers, shape, v, B)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_large_bcoo_products(is_sorted):
    """So many elements that threads share them."""
    shape = (300, 200)
    (data, *_), v, B = draw("CSR", "float32", 70000, shape, True)
    pairs = np.random.default_rng(2).integers(0, [302, 200], (70000, 2), np.int32)
    if is_sorted:
        pairs = pairs[np.argsort(pairs[:, 0])]
    run = lambda data, v, B: (lambda m: (m @ v[:200], m @ B[:200], v @ m))(
        sparse.BCOO((data, pairs), shape=shape)
    )
    results = []
    for kernels in (True, False):
        with config.native_kernels(kernels):
            lowered = jax.jit(lambda *args: run(*args)).lower(data, v, B)
            assert ("jaxlib_ext_bcoo_product" in lowered.as_text()) == kernels
            results.append(lowered.compile()(data, v, B))
    jax.tree.map(np.testing.assert_array_equal, *results)


def test_small_or_large_indices_of_bcoo_do_without():
    run = jax.jit(lambda mat, v: mat @ v)
    pairs = np.array([[0, 1], [2, 3]])
    for dtype, called in (("int32", True), ("int16", False), ("uint32", False)):
        mat = sparse.BCOO((np.ones(2, np.float32), pairs.astype(dtype)), shape=(3, 4))
        assert ("jaxlib_ext" in run.lower(mat, np.ones(4, np.float32)).as_text()) == called
