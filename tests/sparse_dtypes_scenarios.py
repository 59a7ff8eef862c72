"""Operations of sparse arrays of all types of elements and indices: see op_cases.py."""

import functools

import numpy as np
from op_cases import Programs, values
from quickly import QUICKLY

import jax
import jax.numpy as jnp
from jax.experimental import sparse

CASES = Programs()
ELEMENTS = (
    "int8 uint8 int16 uint16 int32 uint32 int64 uint64 "
    "bfloat16 float16 float32 float64 complex64 complex128"
).split()
INDICES = "int32 int64 uint32 uint64 int8 uint8".split()
PLACES = np.array(
    [[0, 1], [2, 0], [0, 3], [2, 0], [1, 4], [3, 5], [2, 4]]
)  # one twice, one outside
SHAPE = (3, 5)


def elements(dtype, shape, key):
    return values(shape, dtype, f"sparse {key}", ties=True)


def operands(dtype, index):
    """Elements, indices, and dense arrays to multiply with."""
    return [
        elements(dtype, (len(PLACES),), "data"),
        PLACES.astype(index),
        elements(dtype, (5,), "vector"),
        elements(dtype, (5, 2), "matrix"),
        elements(dtype, SHAPE, "dense"),
    ]


def compressed(data, indices):
    """The buffers of CSR without the element outside."""
    order = np.lexsort(PLACES[:5].T[::-1])
    pointers = np.searchsorted(PLACES[order, 0], np.arange(4)).astype(indices.dtype)
    return data[order], indices[order, 1], jnp.asarray(pointers)


def bcsr(d, i):
    return sparse.BCSR(compressed(d, i), shape=SHAPE)


def csr(d, i):
    return sparse.CSR(compressed(d, i), shape=SHAPE)


def coo(d, i):
    return sparse.COO((d[:5], i[:5, 0], i[:5, 1]), shape=SHAPE)


def bcoo(d, i):
    return sparse.BCOO((d, i), shape=SHAPE)


OPERATIONS = {
    "todense": lambda d, i, v, m, x: bcoo(d, i).todense(),
    "vector": lambda d, i, v, m, x: bcoo(d, i) @ v,
    "matrix": lambda d, i, v, m, x: bcoo(d, i) @ m,
    "times_dense": lambda d, i, v, m, x: (bcoo(d, i) * x).data,
    "times_sparse": lambda d, i, v, m, x: (bcoo(d, i) * bcoo(d, i)).todense(),
    "sum": lambda d, i, v, m, x: (bcoo(d, i).sum(0).todense(), bcoo(d, i).sum()),
    "sum_duplicates": lambda d, i, v, m, x: bcoo(d, i).sum_duplicates(nse=6).todense(),
    "slice": lambda d, i, v, m, x: bcoo(d, i)[1:, ::2].todense(),
    "reshape": lambda d, i, v, m, x: bcoo(d, i).reshape(5, 3).todense(),
    "fromdense": lambda d, i, v, m, x: sparse.BCOO.fromdense(x, nse=9, index_dtype=i.dtype)._bufs,
    "bcsr": lambda d, i, v, m, x: (bcsr(d, i).todense(), bcsr(d, i) @ v, bcsr(d, i) @ m),
    "bcsr_fromdense": lambda d, i, v, m, x: sparse.BCSR.fromdense(x, nse=9, index_dtype=i.dtype)._bufs,
    "csr": lambda d, i, v, m, x: (csr(d, i).todense(), csr(d, i) @ v, csr(d, i).T @ x),
    "coo": lambda d, i, v, m, x: (coo(d, i).todense(), coo(d, i) @ m, coo(d, i).T @ v[:3]),
    "sparsify": lambda d, i, v, m, x: sparse.sparsify(lambda m: (m + m) @ v)(bcoo(d, i)),
}  # fmt: skip


def failure(fun, args):
    """The class of the error, if there is one."""
    try:
        jax.eval_shape(fun, *args)
    except Exception as error:
        return type(error).__name__


def results(dtype, index):
    """The results of all operations, compiled at once; and errors."""
    with jax.enable_x64(True):
        args = operands(dtype, index)
        failures = {name: failure(fun, args) for name, fun in OPERATIONS.items()}
        able = {name: fun for name, fun in OPERATIONS.items() if failures[name] is None}

        @functools.partial(jax.jit, compiler_options=QUICKLY)
        def run(args):
            return {name: fun(*args) for name, fun in able.items()}

        return run(args), {name: error for name, error in failures.items() if error}


for _i, _dtype in enumerate(ELEMENTS):
    _index = INDICES[_i % len(INDICES)]
    CASES.add(f"{_dtype}_{_index}", functools.partial(results, _dtype, _index))
