"""Errors of jax.experimental.sparse: they name the function, the argument, shapes and types, and the remedy."""

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax.experimental import sparse
from jax.experimental.sparse import bcoo

DENSE = np.array([[0, 2, 0, 1], [1, 0, 0, 0], [0, 3, 4, 0]], np.float32)
BCOO, BCSR, COO, CSR = (
    kind.fromdense(DENSE) for kind in (sparse.BCOO, sparse.BCSR, sparse.COO, sparse.CSR)
)
GATHER = jax.lax.GatherDimensionNumbers((1,), (0,), (0,))
NUMBERS = (((1,), (0,)), ((), ()))

# Functions of arrays in one format, and what they call the argument.
OF_BCOO = {
    "bcoo_todense": (sparse.bcoo_todense, "mat"),
    "bcoo_sort_indices": (sparse.bcoo_sort_indices, "mat"),
    "bcoo_sum_duplicates": (sparse.bcoo_sum_duplicates, "mat"),
    "bcoo_eliminate_zeros": (bcoo.bcoo_eliminate_zeros, "mat"),
    "bcoo_update_layout": (lambda m: sparse.bcoo_update_layout(m, n_batch=1), "mat"),
    "bcoo_transpose": (lambda m: sparse.bcoo_transpose(m, permutation=(1, 0)), "mat"),
    "bcoo_reduce_sum": (lambda m: sparse.bcoo_reduce_sum(m, axes=(0,)), "mat"),
    "bcoo_reshape": (lambda m: sparse.bcoo_reshape(m, new_sizes=(4, 3)), "mat"),
    "bcoo_squeeze": (lambda m: sparse.bcoo_squeeze(m, dimensions=()), "arr"),
    "bcoo_rev": (lambda m: sparse.bcoo_rev(m, (0,)), "operand"),
    "bcoo_slice": (
        lambda m: sparse.bcoo_slice(m, start_indices=(0, 0), limit_indices=(1, 2)),
        "mat",
    ),
    "bcoo_dynamic_slice": (lambda m: sparse.bcoo_dynamic_slice(m, (0, 0), (1, 2)), "mat"),
    "bcoo_gather": (lambda m: sparse.bcoo_gather(m, np.array([[0]]), GATHER, (1, 4)), "operand"),
    "bcoo_broadcast_in_dim": (
        lambda m: sparse.bcoo_broadcast_in_dim(m, shape=(2, 3, 4), broadcast_dimensions=(1, 2)),
        "mat",
    ),
    "bcoo_extract": (lambda m: sparse.bcoo_extract(m, DENSE), "sparr"),
    "bcoo_multiply_dense": (lambda m: sparse.bcoo_multiply_dense(m, DENSE), "sp_mat"),
    "bcoo_multiply_sparse": (lambda m: sparse.bcoo_multiply_sparse(BCOO, m), "rhs"),
    "BCSR.from_bcoo": (sparse.BCSR.from_bcoo, "arr"),
}
OF_BCSR = {
    "bcsr_todense": (sparse.bcsr_todense, "mat"),
    "bcsr_sum_duplicates": (sparse.bcsr_sum_duplicates, "mat"),
    "bcsr_broadcast_in_dim": (
        lambda m: sparse.bcsr_broadcast_in_dim(m, shape=(2, 3, 4), broadcast_dimensions=(1, 2)),
        "mat",
    ),
    "bcsr_concatenate": (lambda m: sparse.bcsr_concatenate([BCSR, m], dimension=0), "operands[1]"),
}
OF_COO = {
    "coo_todense": (sparse.coo_todense, "mat"),
    "coo_matvec": (lambda m: sparse.coo_matvec(m, np.ones(4)), "mat"),
    "coo_matmat": (lambda m: sparse.coo_matmat(m, np.ones((4, 2))), "mat"),
}
OF_CSR = {
    "csr_todense": (sparse.csr_todense, "mat"),
    "csr_matvec": (lambda m: sparse.csr_matvec(m, np.ones(4)), "mat"),
    "csr_matmat": (lambda m: sparse.csr_matmat(m, np.ones((4, 2))), "mat"),
}
FUNCTIONS = [
    (kind, name, *row)
    for kind, rows in [("BCOO", OF_BCOO), ("BCSR", OF_BCSR), ("COO", OF_COO), ("CSR", OF_CSR)]
    for name, row in rows.items()
]


@pytest.mark.parametrize(
    "kind, name, fun, argument", FUNCTIONS, ids=[name for _, name, *_ in FUNCTIONS]
)
def test_other_formats(kind, name, fun, argument):
    for x in (BCOO, BCSR, COO, CSR, DENSE, None):
        found = type(x).__name__
        if found == kind:
            continue
        with pytest.raises(TypeError) as error:
            fun(x)
        message = str(error.value)
        shape = "" if x is None else "[3, 4]"
        assert message.startswith(
            f"{name}: {argument} must be a {kind} array, got {found}{shape}; convert"
        )


def test_remedies():
    with pytest.raises(TypeError, match=r"convert it: mat\.to_bcoo\(\)"):
        sparse.bcoo_todense(BCSR)
    with pytest.raises(TypeError, match=r"convert it: BCSR\.from_bcoo\(mat\)"):
        sparse.bcsr_todense(BCOO)
    with pytest.raises(TypeError, match=r"convert it: CSR\.fromdense\(mat\.todense\(\)\)"):
        sparse.csr_todense(COO)
    with pytest.raises(NotImplementedError, match=r"CSR arrays have no __add__.*BCOO arrays have"):
        _ = CSR + CSR


@pytest.mark.parametrize("name", ["bcoo", "bcsr", "coo", "csr"])
def test_fromdense(name):
    fromdense = getattr(sparse, f"{name}_fromdense")
    with pytest.raises(TypeError, match=rf"{name}_fromdense: mat must be a dense array, got BCOO"):
        fromdense(BCOO)
    with pytest.raises(ValueError, match=f"{name}_fromdense: nse must be non-negative, got -2"):
        fromdense(DENSE, nse=-2)
    with pytest.raises(TypeError, match=f"{name}_fromdense: index_dtype must be an integer type"):
        fromdense(DENSE, index_dtype=np.float32)
    with pytest.raises(ValueError, match=f"{name}_fromdense: indices of type int8 cannot"):
        fromdense(np.ones((2, 200), np.float32), index_dtype=np.int8)
    with pytest.raises(jax.errors.ConcretizationTypeError, match="give the number of elements"):
        jax.jit(fromdense)(DENSE)


def test_index_types_that_are_too_narrow():
    M = sparse.BCOO.fromdense(jnp.eye(20), index_dtype=np.int8)
    with pytest.raises(ValueError, match="bcoo_reshape: indices of type int8 cannot represent 399"):
        M.reshape(400)
    with pytest.raises(ValueError, match="bcoo_concatenate: indices of type int8 cannot"):
        sparse.bcoo_concatenate([M] * 7, dimension=0)


ONES, AT = np.ones(2, np.float32), np.zeros((2, 2), np.int32)


@pytest.mark.parametrize(
    "error, match, make",
    [
        (ValueError, "takes the buffers .data, indices., got 1", lambda: sparse.BCOO((ONES,), shape=(3, 4))),
        (ValueError, r"must have the shape \(\*batch, nse", lambda: sparse.BCOO((ONES, AT[0]), shape=(3, 4))),
        (ValueError, r"data.shape=\(2,\).*must end in \(2, 4\)", lambda: sparse.BCOO((ONES, AT[:, :1]), shape=(3, 4))),
        (TypeError, "integers, got float32", lambda: sparse.BCOO((ONES, AT * 1.0), shape=(3, 4))),
        (ValueError, r"indptr.shape=\(2,\) for 3 rows", lambda: sparse.BCSR((ONES, AT[0], AT[0]), shape=(3, 4))),
        (ValueError, "takes the buffers .data, row, col.", lambda: sparse.COO((ONES, AT), shape=(3, 4))),
        (ValueError, "CSC takes the buffers", lambda: sparse.CSC((ONES, AT), shape=(3, 4))),
        (TypeError, "same shape", lambda: BCSR @ BCSR),
        (TypeError, "slice_sizes must have a size for each", lambda: sparse.bcoo_gather(BCOO, np.array([[0]]), GATHER, (1,))),
        (TypeError, "must not be narrower", lambda: sparse.bcoo_dot_general(
            sparse.BCOO.fromdense(DENSE.astype(np.int32)), np.ones(4, np.int32), dimension_numbers=NUMBERS,
            preferred_element_type=np.int8)),
        (ValueError, "zip", lambda: sparse.BCOO.tree_unflatten(BCOO.tree_flatten()[1], (1,))),
    ],
)  # fmt: skip
def test_buffers(error, match, make):
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize("kind", [sparse.COO, sparse.CSR])
def test_matrices_have_no_axis_to_map_over(kind):
    """The leading axis of their buffers is that of elements."""
    M = kind.fromdense(DENSE, nse=4)
    with pytest.raises(ValueError, match="buffers with one dimension"):
        jax.vmap(lambda m: m.todense())(M)


def test_sizes_of_mapped_axes():
    M = sparse.BCOO.fromdense(np.stack([DENSE, DENSE]), n_batch=1)
    with pytest.raises(ValueError, match=r"inconsistent sizes.*(?s:.)*BCOO\(float32\[2, 3, 4\]"):
        jax.vmap(lambda m, v: m @ v)(M, np.ones((3, 4), np.float32))
