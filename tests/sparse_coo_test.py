"""COO, CSR and CSC matrices: conversions, products and their derivatives, compared with NumPy."""

import numpy as np
import pytest
import scipy.sparse

import jax
import jax.numpy as jnp
from jax.experimental import sparse
from jax.experimental.sparse import _lowerings, coo, csr

FORMATS = [sparse.COO, sparse.CSR, sparse.CSC]
DTYPES = ["int8", "bfloat16", "float32", "complex64"]
formats = pytest.mark.parametrize("cls", FORMATS)


def draw(shape, dtype="float32", seed=0):
    """Small integers, with which products are exact; about half of them are zero."""
    random = np.random.default_rng(seed)
    x = (random.integers(-4, 5, shape) * (random.random(shape) < 0.5)).astype(jnp.dtype(dtype))
    return x * (1 + 2j) if dtype == "complex64" else x


def like(mat, data):
    return jax.tree.unflatten(jax.tree.structure(mat), [data, *jax.tree.leaves(mat)[1:]])


def equal(x, y):
    np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    assert x.dtype == y.dtype


@formats
@pytest.mark.parametrize("dtype", DTYPES)
def test_products(cls, dtype):
    dense, v, B = draw((5, 7), dtype), draw(7, dtype, 1), draw((7, 3), dtype, 2)
    mat = cls.fromdense(dense)
    run = jax.jit(lambda m, v, B: (m.todense(), m @ v, m @ B, m.T @ v[:5], m.T @ B[:5]))
    wanted = (dense, dense @ v, dense @ B, dense.T @ v[:5], dense.T @ B[:5])
    # NumPy's products of bfloat16 are float32.
    wanted = [x.astype(dense.dtype) for x in wanted]
    jax.tree.map(equal, list(run(mat, v, B)), wanted)
    assert (mat.nse, mat.dtype, mat.shape) == ((dense != 0).sum(), dense.dtype, (5, 7))
    assert isinstance(mat.T, {sparse.CSR: sparse.CSC, sparse.CSC: sparse.CSR}.get(cls, cls))
    assert mat.T.shape == (7, 5)


@formats
@pytest.mark.parametrize("shape", [(0, 3), (4, 6)])
@pytest.mark.parametrize("more", [-2, 0, 3])
def test_number_of_elements(cls, shape, more):
    dense = draw(shape, seed=3)
    nse = max(0, (dense != 0).sum() + more)
    mat = jax.jit(lambda x: cls.fromdense(x, nse=int(nse), index_dtype="int16"))(dense)
    assert mat.nse == nse and all(i.dtype == "int16" for i in jax.tree.leaves(mat)[1:])
    ordered = dense.T if cls is sparse.CSC else dense
    kept = np.where(np.cumsum(ordered != 0).reshape(ordered.shape) <= nse, ordered, 0)
    wanted = kept.T if cls is sparse.CSC else kept
    equal(mat.todense(), wanted)
    equal(mat @ np.ones(shape[1], "float32"), wanted.sum(1))
    equal(mat.T @ np.ones(shape[0], "float32"), wanted.sum(0))


def test_buffers_are_those_of_scipy():
    dense = draw((9, 8), seed=4)
    for cls, other in (
        (sparse.CSR, scipy.sparse.csr_matrix),
        (sparse.CSC, scipy.sparse.csc_matrix),
    ):
        mine, scipys = cls.fromdense(dense), other(dense)
        for name in ("data", "indices", "indptr"):
            equal(getattr(mine, name), getattr(scipys, name))
        equal(cls((scipys.data, scipys.indices, scipys.indptr), shape=dense.shape).todense(), dense)
    mine, scipys = sparse.COO.fromdense(dense), scipy.sparse.coo_matrix(dense)
    for name in ("data", "row", "col"):
        equal(getattr(mine, name), getattr(scipys, name))
    ordered = mine.T._sort_indices()
    equal(ordered.todense(), dense.T)
    assert (np.diff(ordered.row) >= 0).all() and ordered._rows_sorted
    assert mine._sort_indices() is mine


@formats
@pytest.mark.parametrize("width", [None, 3])
@pytest.mark.parametrize("swap", [False, True])
def test_derivatives_of_products(cls, width, swap):
    dense = draw((4, 6), seed=5)
    mat = cls.fromdense(dense)
    mat = mat.T if swap else mat
    x = draw((mat.shape[1], *([width] if width else [])), seed=6)
    product = lambda data, x: like(mat, data) @ x
    with_dense = lambda data, x: like(mat, data).todense() @ x
    primals, tangents = (mat.data, x), (mat.data * 3 - 1, x + 2)
    ct = draw(product(*primals).shape, seed=7) + 1

    def everything(f):
        jvp = jax.jvp(f, primals, tangents)
        return jvp, jax.vjp(f, *primals)[1](ct), jax.linearize(f, *primals)[1](*tangents)

    jax.tree.map(equal, jax.jit(lambda: everything(product))(), everything(with_dense))


@formats
def test_derivatives_of_conversions(cls):
    dense = draw((4, 6), seed=8)
    nse = int((dense != 0).sum()) + 2
    back = lambda x: cls.fromdense(x, nse=nse).todense()
    mask = (dense != 0).astype("float32")
    # Padding depends on no element.
    out, tangent = jax.jvp(back, (dense,), (dense + 5,))
    equal(out, dense)
    equal(tangent, (dense + 5) * mask)
    ct = draw(dense.shape, seed=9) + 1
    equal(jax.vjp(back, dense)[1](ct)[0], ct * mask)
    assert jax.grad(lambda x: cls.fromdense(x, nse=nse).data[-1])(dense).sum() == 0


@formats
def test_vmap(cls):
    dense, B = draw((3, 4, 6), seed=10), draw((3, 6, 2), seed=11)
    store = lambda x: cls.fromdense(x, nse=14)
    mats = jax.vmap(store)(dense)
    equal(jax.vmap(lambda m: m.todense())(mats), dense)
    equal(jax.vmap(lambda m, b: m @ b)(mats, B), dense @ B)
    equal(jax.vmap(lambda m, b: m @ b, (0, None))(mats, B[0, :, 0]), dense @ B[0, :, 0])
    equal(jax.vmap(lambda b: store(dense[0]) @ b, 1, 1)(B[0]), dense[0] @ B[0])


@formats
def test_empty_and_eye(cls):
    for n, m, k in ((3, 4, 1), (4, 3, -2), (3, 4, 9)):
        eye = cls._eye(n, m, k, dtype="int32", index_dtype="int16")
        equal(eye.todense(), np.eye(n, m, k, "int32"))
        assert all(i.dtype == "int16" for i in jax.tree.leaves(eye)[1:])
        assert eye.nse == np.eye(n, m, k).sum()
    assert cls._eye(2, 2, 0).dtype == jnp.ones(1).dtype
    empty = cls._empty((3, 4), dtype="float16", index_dtype="int8")
    equal(empty.todense(), np.zeros((3, 4), "float16"))
    assert empty.nse == 0
    with pytest.raises(ValueError, match=f"{cls.__name__} must have ndim=2"):
        cls._empty((3,))


# Stored answers of the original: what is read is clamped, what is written beyond the end is dropped.
DATA, INDICES = jnp.array([1.0, 2, 3, 4]), jnp.array([0, 7, -1, 1])


@pytest.mark.parametrize(
    "indices, indptr, product",
    [
        ([0, 7, -1, 1], [0, 2, 3], [201, 300]),
        ([0, 7, -1, 1], [0, 2, 4], [201, 340]),
        ([0, 1, 2, 1], [1, 2, 4], [20, 341]),
        ([0, 1, 2, 1], [0, 2, 9], [21, 340]),
        ([0, 1, 2, 1], [0, -2, 3], [21, 300]),
        ([0, 1, 2, 1], [0, 3, 2], [21, 300]),
        ([0, 1, 2, 1], [3, 1, 2], [20, 301]),
    ],
)
def test_csr_indices_out_of_range(indices, indptr, product):
    mat = sparse.CSR((DATA, jnp.array(indices), jnp.array(indptr)), shape=(2, 3))
    equal(mat @ jnp.array([1.0, 10, 100]), np.array(product, "float32"))


def test_indices_out_of_range():
    mat = sparse.CSR((DATA, INDICES, jnp.array([0, 2, 4])), shape=(2, 3))
    equal(mat.T @ jnp.array([1.0, 10]), np.array([1, 40, 30], "float32"))
    equal(mat.todense(), np.array([[1, 0, 0], [0, 4, 3]], "float32"))
    mat = sparse.COO((DATA, INDICES, jnp.array([0, 2, 1, -3])), shape=(2, 3))
    equal(mat.todense(), np.array([[1, 0, 0], [4, 3, 0]], "float32"))
    mat = sparse.COO((DATA, INDICES, jnp.array([0, 2, 1, 5])), shape=(2, 3))
    equal(mat @ jnp.array([1.0, 10, 100]), np.array([1, 430], "float32"))


@formats
def test_promotion(cls):
    dense = draw((3, 4), "int32", 12)
    assert (cls.fromdense(dense) @ np.ones(4, "float32")).dtype == "float32"
    assert (cls.fromdense(dense).T @ np.ones((3, 2), "complex64")).dtype == "complex64"
    assert (cls.fromdense(dense.astype("bfloat16")) @ jnp.ones(4, "float16")).dtype == "float32"


def test_functions():
    dense, v, B = draw((3, 4), seed=13), draw(3, seed=14), draw((3, 2), seed=15)
    for name, of in (("coo", coo), ("csr", csr)):
        call = lambda f, *args, **kwargs: getattr(of, f"{name}_{f}")(*args, **kwargs)
        mat = call("fromdense", dense)
        equal(call("todense", mat), dense)
        equal(call("matvec", mat, v, transpose=True), dense.T @ v)
        equal(call("matmat", mat, B, transpose=True), dense.T @ B)
        equal(call("matvec", mat, dense[0]), dense @ dense[0])
        with pytest.raises(
            ValueError, match=r"shape \(4, 3\) needs a dense operand of shape \(3,\)"
        ):
            call("matvec", mat, np.ones(4, "float32"), transpose=True)
        with pytest.raises(ValueError, match=r"dense operand of shape \(4, k\), got \(4,\)"):
            call("matmat", mat, dense[0])


@formats
def test_errors(cls):
    mat = cls.fromdense(draw((3, 4), seed=16))
    for operation in (
        lambda: mat @ mat,
        lambda: mat @ np.ones((1, 4, 2)),
        lambda: mat @ 2.0,
        lambda: mat + mat,
        lambda: mat * 2,
        lambda: mat.sum(),
        lambda: mat.transpose((1, 0)),
    ):
        with pytest.raises(NotImplementedError):
            operation()
    with pytest.raises(ValueError, match="needs a dense operand"):
        mat @ np.ones(3, "float32")
    with pytest.raises(ValueError, match="must have a matrix"):
        cls.fromdense(np.ones(3))
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(cls.fromdense)(np.ones((2, 2)))
    data, first, second = jax.tree.leaves(mat)
    with pytest.raises(ValueError, match="must be as many indices as elements"):
        cls((data[1:], first, second), shape=(3, 4)).todense()
    with pytest.raises(TypeError, match="indices must be integers"):
        cls((data, first * 1.0, second), shape=(3, 4)).todense()
    with pytest.raises(ValueError, match="rows as columns|index pointers"):
        cls((data, first, second[1:]), shape=(3, 4)) @ np.ones(4, "float32")
    with pytest.raises(ValueError, match="invalid aux_data"):
        cls.tree_unflatten({}, (1, 2, 3))


def test_representation():
    mat = sparse.CSR.fromdense(jnp.eye(3))
    assert repr(mat) == "CSR(float32[3, 3], nse=3)"
    assert repr(jax.tree.unflatten(jax.tree.structure(mat), [None] * 3)) == "CSR(<invalid>)"
    assert str(jax.make_jaxpr(lambda m, v: m @ v)(mat, jnp.ones(3))).split("\n")[1].strip() == (
        "e:f32[3] = csr_matvec[shape=(3, 3) transpose=False] a b c d"
    )


@pytest.mark.parametrize("name", ["COO", "CSR", "CSC"])
def test_constructors_by_format(name):
    for k in (-9, -1, 0, 1):
        mat = sparse.eye(3, 4, k=k, sparse_format=name.lower())
        assert type(mat).__name__ == name
        np.testing.assert_array_equal(mat.todense(), np.eye(3, 4, k))
    mat = sparse.empty((2, 3), np.int16, sparse_format=name.lower())
    assert type(mat).__name__ == name and mat.dtype == np.int16
    np.testing.assert_array_equal(mat.todense(), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="not recognized"):
        sparse.empty((2, 3), sparse_format="no")


@pytest.mark.parametrize("cls", [sparse.COO, sparse.CSR])
def test_todense_of_any_format_under_vmap(cls):
    mats = [np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[3.0, 0.0], [0.0, 4.0]])]
    leaves = [jax.tree.leaves(cls.fromdense(m)) for m in mats]
    tree = jax.tree.structure(cls.fromdense(mats[0]))
    out = jax.vmap(lambda *x: sparse.todense(jax.tree.unflatten(tree, x)))(
        *map(jnp.stack, zip(*leaves, strict=True))
    )
    np.testing.assert_array_equal(out, mats)


@pytest.mark.parametrize("transpose", [False, True])
def test_products_of_buffers(transpose):
    dense, B = draw((5, 7)), draw((5 if transpose else 7, 3), seed=2)
    c, r = sparse.COO.fromdense(dense), sparse.CSR.fromdense(dense)
    params = dict(transpose=transpose, shape=(5, 7))
    wanted = (dense.T if transpose else dense) @ B
    for buffers, matvec, matmat in (
        ((c.data, c.row, c.col), _lowerings.coo_spmv_p, _lowerings.coo_spmm_p),
        ((r.data, r.indices, r.indptr), _lowerings.csr_spmv_p, _lowerings.csr_spmm_p),
    ):
        equal(matmat.bind(*buffers, B, **params), wanted)
        equal(matvec.bind(*buffers, B[:, 0], **params), wanted[:, 0])
        mapped = jax.jit(jax.vmap(lambda v: matvec.bind(*buffers, v, **params), 1, 1))
        equal(mapped(B), wanted)
        pull = jax.vjp(lambda v: matvec.bind(*buffers, v, **params), B[:, 0])[1]
        equal(pull(wanted[:, 0])[0], (dense if transpose else dense.T) @ wanted[:, 0])
