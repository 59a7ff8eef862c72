"""Cases of jax.experimental.sparse for sparse_test.py."""

import numpy as np
from op_cases import Case, values

import jax
from jax.experimental import sparse

F = np.float32


def parts(mat):
    """The buffers of a sparse array, what it promises about them, and the dense array."""
    if isinstance(mat, sparse.JAXSparse):
        promises = mat.tree_flatten()[1]
        return jax.tree.leaves(mat), np.array([bool(v) for v in promises.values()]), mat.todense()
    return mat


# Random arrays


def random(shape, **options):
    options = dict(dtype=F) | options
    return lambda key: parts(sparse.random_bcoo(jax.random.wrap_key_data(key), shape, **options))


KEY = np.array([3, 8], np.uint32)
NORMAL, RANDINT = jax.random.normal, jax.random.randint
CASES = [
    Case(f"random_{name}", random(shape, **options), [KEY], vmap=name in {"matrix", "batched"})
    for name, shape, options in [
        ("matrix", (4, 5), {}),
        ("number", (4, 5), dict(nse=7)),
        ("fraction_rounded_up", (100,), dict(nse=0.07)),
        ("fraction_of_numpy", (100,), dict(nse=F(0.07))),
        ("none", (4, 5), dict(nse=0)),
        ("scalar", (), {}),
        ("sorted", (2, 3, 4), dict(n_batch=1, nse=5, sorted_indices=True)),
        ("duplicates", (3, 2), dict(nse=5, unique_indices=False)),
        ("duplicates_sorted", (2, 3), dict(nse=5, unique_indices=False, sorted_indices=True)),
        ("batched", (2, 3, 4, 5), dict(n_batch=2, nse=2)),
        ("batched_dense", (2, 3, 4, 5), dict(n_batch=1, n_dense=1, nse=2, indices_dtype=np.int8)),
        ("no_sparse", (2, 3), dict(n_batch=1, n_dense=1)),
        ("empty_batch", (0, 2, 3), dict(n_batch=1)),
        ("empty_dense", (2, 3, 0), dict(n_dense=1)),
        ("normal", (4, 5), dict(generator=NORMAL, dtype=np.complex64)),
        ("keywords", (4, 5), dict(generator=RANDINT, dtype=np.int32, minval=3, maxval=9)),
        ("interval", (4, 5), dict(minval=3, maxval=4.0)),
        ("bfloat16", (4, 5), dict(dtype="bfloat16", indices_dtype=np.uint8)),
        ("error_nse", (4, 5), dict(nse=21)),
        ("error_negative", (4, 5), dict(nse=-0.5)),
        ("error_empty", (0, 5), {}),
        ("error_layout", (4, 5), dict(n_batch=2, n_dense=1)),
        ("error_indices", (200,), dict(indices_dtype=np.int8)),
        ("error_indices_dtype", (4, 5), dict(indices_dtype=float)),
        ("error_keyword", (4, 5), dict(foo=1)),
        ("error_shape", (4.0,), {}),
    ]
] + [Case("random_x64", random((4, 5), dtype=np.float64), [KEY], x64=True)]  # fmt: skip


# Products: batch dimensions of size 1 are broadcast


def product(kind, n_batch, nse):
    return lambda x, y: kind.fromdense(x, n_batch=n_batch, nse=nse) @ y


CASES += [
    Case(
        f"matmul_{kind.__name__}{n_batch}_{left}_{right}",
        product(kind, n_batch, 12),
        [values(left, "float32", "left", ties=True), values(right, "float32", "right", ties=True)],
        # The reference cannot map `fromdense` over the last axis.
        ignore=("vmap1",),
        vmap=kind is sparse.BCOO and left == (2, 3, 4),
    )
    for kind, n_batch, left, right in [
        (sparse.BCOO, 1, (2, 3, 4), (1, 4, 5)),
        (sparse.BCOO, 1, (1, 3, 4), (2, 4, 5)),
        (sparse.BCOO, 2, (2, 1, 3, 4), (1, 5, 4, 2)),
        (sparse.BCOO, 0, (1, 3, 4), (2, 4, 5)),
        (sparse.BCOO, 1, (1, 3, 4), (0, 4, 2)),
        (sparse.BCOO, 1, (2, 3, 4), (7, 1, 4, 5)),
        (sparse.BCOO, 1, (2, 3, 4), (3, 4, 5)),
        (sparse.BCSR, 1, (2, 3, 4), (1, 4, 5)),
        (sparse.BCSR, 1, (2, 3, 4), (7, 1, 4, 5)),
    ]
]


def of_dense(kind, **options):
    return lambda x: parts(kind.fromdense(x, **options))


CASES += [
    Case(
        f"empty_batch_{kind.__name__}",
        of_dense(kind, n_batch=1, nse=3),
        [np.ones((0, 4, 2), F)],
        vmap=False,
    )
    for kind in (sparse.BCOO,)
]
