"""Random programs of sparse arrays for sparse_programs_scenarios.py: operations on random layouts, indices and types.

A program is a function and its operands. Which one it is depends on the name of the operation and a number only.
"""

import math
import zlib

import ml_dtypes
import numpy as np

import jax
import jax.numpy as jnp
from jax.experimental import sparse
from jax.experimental.sparse import bcoo, bcsr

OPERATIONS = {}
FLAVORS = ("clean", "unsorted", "duplicates", "padded")
DTYPES = ("float32", "float32", "float32", "int32", "complex64", "bfloat16", "int8", "float16")


def operation(fun):
    OPERATIONS[fun.__name__] = fun
    return fun


class Random:
    """Random choices."""

    def __init__(self, name, number, float32=False):
        self.rng = np.random.RandomState(zlib.crc32(f"{name} {number}".encode()) % 2**31)
        self.float32 = float32

    def number(self, low, high):
        return int(self.rng.randint(low, high + 1))

    def pick(self, xs):
        return xs[self.rng.randint(len(xs))]

    def often(self, probability):
        return self.rng.rand() < probability

    def permutation(self, n):
        return [int(i) for i in self.rng.permutation(n)]

    def dtype(self):
        return "float32" if self.float32 else self.pick(DTYPES)

    def shape(self, n):
        return tuple(self.pick([1, 2, 3, 3, 4]) for _ in range(n))

    def values(self, shape, dtype="float32"):
        x = self.rng.randint(-4, 5, shape)
        if dtype == "complex64":
            x = x + 1j * self.rng.randint(-4, 5, shape)
        return np.asarray(x).astype(getattr(ml_dtypes, dtype, dtype))

    def bcoo(self, shape=None, n_batch=None, n_dense=None, dtype=None):
        """The buffers of a BCOO array, and the function that makes it of them."""
        shape = self.shape(self.number(1, 4)) if shape is None else shape
        ndim = len(shape)
        if n_batch is None:
            n_batch = min(self.pick([0, 0, 0, 1, 1, 2]), ndim)
        if n_dense is None:
            n_dense = min(self.pick([0, 0, 0, 1]), ndim - n_batch)
        end = ndim - n_dense
        batch, sizes, dense = shape[:n_batch], shape[n_batch:end], shape[end:]
        flavor = self.pick(FLAVORS)
        distinct = flavor in FLAVORS[:2]
        size = math.prod(sizes)
        nse = min(self.number(0, 5), size) if distinct else self.number(0, 5)
        indices = np.zeros((*batch, nse, len(sizes)), np.int64)
        for b in np.ndindex(*batch):
            if distinct and sizes:
                at = self.rng.permutation(size)[:nse]
                at = np.sort(at) if flavor == "clean" else at
                indices[b] = np.stack(np.unravel_index(at, sizes), -1)
            elif not distinct:
                indices[b] = self.rng.randint(0, np.maximum(sizes, 1), (nse, len(sizes)))
            if flavor == "padded":
                indices[b][self.rng.rand(nse) < 0.4] = sizes
        flags = dict(indices_sorted=flavor == "clean", unique_indices=distinct)
        indices = indices.astype(self.pick(["int32"] * 4 + ["int8", "uint8"]))
        data = self.values((*batch, nse, *dense), dtype or self.dtype())

        def build(data, indices):
            return sparse.BCOO((data, indices), shape=shape, **flags)

        build.shape, build.n_batch, build.n_dense = shape, n_batch, n_dense
        build.dtype, build.nse = data.dtype.name, nse
        return [data, indices], build

    def numbers(self, shape):
        """Dimension numbers of a product with an array of this shape, and the other's shape."""
        dims = self.permutation(len(shape))
        contract = dims[: self.number(0, 2)]
        batch = sorted(dims[len(contract) :][: self.number(0, 2)])
        pairs = len(contract) + len(batch)
        ndim = pairs + self.number(0, 1)
        at = self.permutation(ndim)
        if self.often(0.5):
            at = list(range(ndim))
        sizes = [self.number(1, 3) for _ in range(ndim)]
        at_batch, at_contract = at[: len(batch)], at[len(batch) : pairs]
        for d, e in zip((*batch, *contract), (*at_batch, *at_contract)):
            sizes[e] = shape[d]
        numbers = (
            (tuple(contract), tuple(at_contract)),
            (tuple(batch), tuple(at_batch)),
        )
        return numbers, tuple(sizes)


def unary(r, fun, **layout):
    buffers, build = r.bcoo(**layout)
    return (lambda data, indices: fun(build(data, indices))), buffers


@operation
def todense(r):
    return unary(r, lambda m: m.todense())


@operation
def sort_indices(r):
    return unary(r, sparse.bcoo_sort_indices)


@operation
def sum_duplicates(r):
    nse = r.pick([0, 1, 2, 3, 5, 8])
    fun = r.pick([sparse.bcoo_sum_duplicates, bcoo.bcoo_eliminate_zeros])
    return unary(r, lambda m: fun(m, nse=nse))


@operation
def fromdense(r):
    ndim = r.number(0, 4)
    n_batch = r.number(0, ndim)
    n_dense = r.number(0, ndim - n_batch)
    options = dict(
        nse=r.pick([0, 1, 3, 6, 30]), n_batch=n_batch, n_dense=n_dense,
        index_dtype=np.dtype(r.pick(["int32", "int8", "uint32"])),
    )  # fmt: skip
    x = r.values(r.shape(ndim), r.dtype())
    return (lambda x: sparse.bcoo_fromdense(x, **options)), [x]


@operation
def extract(r):
    buffers, build = r.bcoo()
    unique = r.often(0.5)
    x = r.values(build.shape, r.dtype())
    return (
        lambda d, i, x: sparse.bcoo_extract(build(d, i), x, assume_unique=unique),
        [*buffers, x],
    )


@operation
def transpose(r):
    buffers, build = r.bcoo()
    ndim, n_batch, n_dense = len(build.shape), build.n_batch, build.n_dense
    groups = np.split(np.arange(ndim), [n_batch, ndim - n_dense])
    order = [int(d) for dims in groups for d in r.rng.permutation(dims)]
    order = r.permutation(ndim) if r.often(0.2) else order
    return (lambda d, i: sparse.bcoo_transpose(build(d, i), permutation=order)), buffers


@operation
def reduce_sum(r):
    buffers, build = r.bcoo()
    axes = [d for d in range(len(build.shape)) if r.often(0.5)]
    return (lambda d, i: sparse.bcoo_reduce_sum(build(d, i), axes=axes)), buffers


@operation
def dot_general(r):
    buffers, build = r.bcoo()
    numbers, shape = r.numbers(build.shape)
    y = r.values(shape, build.dtype)
    swap = r.often(0.3)
    options = dict(
        dimension_numbers=tuple(n[::-1] for n in numbers) if swap else numbers,
        preferred_element_type=np.float32 if r.often(0.2) else None,
    )

    def fun(d, i, y):
        lhs, rhs = (y, build(d, i)) if swap else (build(d, i), y)
        return sparse.bcoo_dot_general(lhs, rhs, **options)

    return fun, [*buffers, y]


@operation
def spdot_general(r):
    lhs, build = r.bcoo(n_dense=0)
    numbers, shape = r.numbers(build.shape)
    rhs, build_rhs = r.bcoo(shape, len(numbers[1][1]), 0, build.dtype)
    rhs[1] = rhs[1].astype(lhs[1].dtype)

    def fun(d, i, e, j):
        return sparse.bcoo_dot_general(build(d, i), build_rhs(e, j), dimension_numbers=numbers)

    return fun, [*lhs, *rhs]


@operation
def dot_general_sampled(r):
    shape = r.shape(r.number(1, 3))
    numbers, other = r.numbers(shape)
    (a_contract, b_contract), (a_batch, b_batch) = numbers
    out = [shape[d] for d in a_batch]
    out += [s for d, s in enumerate(shape) if d not in (*a_batch, *a_contract)]
    out += [s for d, s in enumerate(other) if d not in (*b_batch, *b_contract)]
    (_, indices), _ = r.bcoo(tuple(out), n_dense=0)
    dtype = r.dtype()

    def fun(indices, a, b):
        return sparse.bcoo_dot_general_sampled(a, b, indices, dimension_numbers=numbers)

    return fun, [indices, r.values(shape, dtype), r.values(other, dtype)]


@operation
def multiply_dense(r):
    buffers, build = r.bcoo()
    shape = tuple(1 if r.often(0.3) else s for s in build.shape)
    shape = shape[r.number(0, len(shape)) :] if r.often(0.4) else shape
    y = r.values(shape, build.dtype)
    return (lambda d, i, y: sparse.bcoo_multiply_dense(build(d, i), y)), [*buffers, y]


@operation
def multiply_sparse(r):
    lhs, build = r.bcoo()
    shape = tuple(1 if r.often(0.2) else s for s in build.shape)
    rhs, build_rhs = r.bcoo(shape, build.n_batch, build.n_dense)
    return (
        lambda d, i, e, j: sparse.bcoo_multiply_sparse(build(d, i), build_rhs(e, j)),
        [*lhs, *rhs],
    )


@operation
def operators(r):
    lhs, build = r.bcoo()
    rhs, build_rhs = r.bcoo(build.shape, build.n_batch, build.n_dense)
    rhs[1] = rhs[1].astype(lhs[1].dtype)
    axis = r.pick([None, *range(len(build.shape))])
    fun = r.pick(
        [
            lambda m, n: m + n,
            lambda m, n: m - n,
            lambda m, n: m * n,
            lambda m, n: -m,
            lambda m, n: 2 * m,
            lambda m, n: m * 2.5,
            lambda m, n: m / 2,
            lambda m, n: abs(m),
            lambda m, n: m.T,
            lambda m, n: m.sum(axis),
            lambda m, n: m.astype("complex64"),
        ]
    )
    return (lambda d, i, e, j: fun(build(d, i), build_rhs(e, j))), [*lhs, *rhs]


@operation
def slice_(r):
    buffers, build = r.bcoo()
    start = [r.number(0, s - 1) for s in build.shape]
    limit = [r.number(a, s) for a, s in zip(start, build.shape)]
    strides = [r.number(1, 2) for _ in start] if r.often(0.5) else None
    options = dict(start_indices=start, limit_indices=limit, strides=strides)
    return (lambda d, i: sparse.bcoo_slice(build(d, i), **options)), buffers


@operation
def dynamic_slice(r):
    buffers, build = r.bcoo()
    starts = np.array([r.number(-2, s + 1) for s in build.shape], np.int32)
    sizes = [r.number(0, s) for s in build.shape]
    return (
        lambda d, i, starts: sparse.bcoo_dynamic_slice(build(d, i), list(starts), sizes),
        [*buffers, starts],
    )


@operation
def reshape(r):
    buffers, build = r.bcoo(n_dense=0)

    def split(sizes):
        n = math.prod(sizes)
        found = [sizes[::-1], (n,), (n, 1), (1, n)]
        return r.pick([*found, (2, n // 2)] if n % 2 == 0 else found)

    new = (*split(build.shape[: build.n_batch]), *split(build.shape[build.n_batch :]))
    return (lambda d, i: sparse.bcoo_reshape(build(d, i), new_sizes=new)), buffers


@operation
def squeeze(r):
    buffers, build = r.bcoo(tuple(r.pick([1, 1, 2, 3]) for _ in range(r.number(1, 4))))
    dims = [d for d, s in enumerate(build.shape) if s == 1 and r.often(0.7)]
    return (lambda d, i: sparse.bcoo_squeeze(build(d, i), dimensions=dims)), buffers


@operation
def rev(r):
    buffers, build = r.bcoo()
    dims = tuple(d for d in range(len(build.shape)) if r.often(0.5))
    return (lambda d, i: sparse.bcoo_rev(build(d, i), dims)), buffers


@operation
def concatenate(r):
    lhs, build = r.bcoo()
    axis = r.number(0, max(len(build.shape) - build.n_dense - 1, 0))
    shape = list(build.shape)
    shape[axis] = r.number(1, 3)
    rhs, build_rhs = r.bcoo(tuple(shape), build.n_batch, build.n_dense, build.dtype)
    rhs[1] = rhs[1].astype(lhs[1].dtype)
    return (
        lambda d, i, e, j: sparse.bcoo_concatenate([build(d, i), build_rhs(e, j)], dimension=axis),
        [*lhs, *rhs],
    )


@operation
def broadcast_in_dim(r):
    buffers, build = r.bcoo()
    ndim = len(build.shape) + r.number(0, 2)
    dims = sorted(r.permutation(ndim)[: len(build.shape)])
    shape = [r.number(1, 3) for _ in range(ndim)]
    for d, s in zip(dims, build.shape):
        shape[d] = s
    options = dict(shape=shape, broadcast_dimensions=dims)
    return (lambda d, i: sparse.bcoo_broadcast_in_dim(build(d, i), **options)), buffers


@operation
def update_layout(r):
    buffers, build = r.bcoo()
    choices = [None, *range(len(build.shape) + 1)]
    options = dict(n_batch=r.pick(choices), n_dense=r.pick(choices), on_inefficient=None)
    return (lambda d, i: sparse.bcoo_update_layout(build(d, i), **options)), buffers


@operation
def getitem(r):
    buffers, build = r.bcoo(n_dense=0)
    choices = [slice(None), slice(1, None), slice(None, None, 2), slice(-1, None), 0, -1]
    item = tuple(r.pick(choices) for _ in build.shape)
    item = (*item, None) if r.often(0.2) else item
    return (lambda d, i: build(d, i)[item]), buffers


@operation
def conv(r):
    buffers, build = r.bcoo((1, 1, r.number(1, 6)), r.pick([0, 1, 2]), 0, "float32")
    options = dict(window_strides=(1,), padding=r.pick([[(0, 0)], [(1, 2)], "SAME", "VALID"]))
    y = r.values((1, 1, r.number(1, 3)))
    return (
        lambda d, i, y: sparse.bcoo_conv_general_dilated(build(d, i), y, **options),
        [*buffers, y],
    )


def compressed(r):
    ndim = r.number(2, 4)
    n_batch = r.number(0, ndim - 2)
    buffers, build = r.bcoo(r.shape(ndim), n_batch, ndim - 2 - n_batch)
    return buffers, build


@operation
def bcsr_functions(r):
    buffers, build = compressed(r)
    nse = r.pick([0, 1, 3, 6])
    fun = r.pick(
        [
            lambda m: m,
            lambda m: m.todense(),
            lambda m: m.to_bcoo(),
            lambda m: sparse.bcsr_sum_duplicates(m, nse),
            lambda m: bcsr.bcsr_eliminate_zeros(m, nse),
        ]
    )
    return (lambda d, i: fun(sparse.BCSR.from_bcoo(build(d, i)))), buffers


@operation
def bcsr_dot_general(r):
    buffers, build = compressed(r)
    numbers, shape = r.numbers(build.shape)
    y = r.values(shape, build.dtype)

    def fun(d, i, y):
        m = sparse.BCSR.from_bcoo(build(d, i))
        return sparse.bcsr_dot_general(m, y, dimension_numbers=numbers)

    return fun, [*buffers, y]


@operation
def sparsified(r):
    buffers, build = r.bcoo()
    fun = r.pick(
        [
            jnp.sin, jnp.sign, jnp.sqrt, jnp.tanh, jnp.abs, jnp.square, jnp.ravel, jnp.exp, jnp.cos,
            lambda x: x**3, lambda x: x.sum(0), lambda x: x.T, lambda x: 2 * x - x, lambda x: x[None],
            lambda x: jnp.stack([x, x]), lambda x: jnp.concatenate([x, x]), jax.nn.relu,
            lambda x: jax.jit(lambda y: jnp.sin(y) * 3)(x), lambda x: x > 1, lambda x: x.max(),
            lambda x: jax.lax.scan(lambda c, _: (c * 2, None), x, length=3)[0],
            lambda x: jax.lax.cond(True, lambda y: y * 2, lambda y: y * 3, x), lambda x: 1 / x,
        ]
    )  # fmt: skip
    return (lambda d, i: sparse.sparsify(fun)(build(d, i))), buffers


@operation
def derivatives(r):
    buffers, build = r.bcoo(r.shape(r.number(1, 3)), None, 0, "float32")
    y = r.values(build.shape[-1:])
    scalar = lambda m, y: jnp.sin(m @ y).sum()
    vector = lambda m, y: jnp.sin(m @ y)
    fun = r.pick(
        [
            sparse.grad(scalar), sparse.value_and_grad(scalar), sparse.jacfwd(vector),
            sparse.jacrev(vector), sparse.grad(scalar, argnums=(0, 1)),
        ]
    )  # fmt: skip
    return (lambda d, i, y: fun(build(d, i), y)), [*buffers, y]
