"""Random sparse arrays, and a test case that compares functions of them with dense ones."""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import jax
from jax import lax
from jax._src.sparse.api import todense
from jax._src.sparse.base import JAXSparse
from jax._src.sparse.bcoo.array import BCOO
from jax._src.sparse.bcoo.shapes import bcoo_broadcast_in_dim, bcoo_concatenate
from jax._src.sparse.bcsr import BCSR, bcsr_broadcast_in_dim, bcsr_concatenate
from jax._src.test_util.testing import JaxTestCase
from jax._src.test_util.values import rand_default
from jax._src.tree_util import tree_flatten, tree_map, tree_unflatten
from jax._src.typing import DTypeLike

MATMUL_TOL = {np.float32: 1e-5, np.float64: 1e-10, np.complex64: 1e-5, np.complex128: 1e-10}

DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


class BatchedDotGeneralProperties(NamedTuple):
    """A case of a test of products: shapes, layout of the left side, dimension numbers."""

    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    n_batch: int
    n_dense: int
    dimension_numbers: DotDimensionNumbers


class SparseLayout(NamedTuple):
    """How many dimensions of a sparse array are of batches, dense and sparse."""

    n_batch: int
    n_dense: int
    n_sparse: int


def is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def iter_subsets(s: Sequence) -> Iterable[tuple]:
    """All subsets of a sequence, as tuples, the small ones first."""
    sizes = range(len(s) + 1)
    return itertools.chain.from_iterable(itertools.combinations(s, n) for n in sizes)


def iter_sparse_layouts(shape: Sequence[int], min_n_batch: int = 0) -> Iterator[SparseLayout]:
    """The layouts that a BCOO array of a shape may have."""
    for n_batch in range(min_n_batch, len(shape) + 1):
        for n_dense in range(len(shape) + 1 - n_batch):
            yield SparseLayout(n_batch, n_dense, len(shape) - n_batch - n_dense)


def iter_bcsr_layouts(shape: Sequence[int], min_n_batch: int = 0) -> Iterator[SparseLayout]:
    """The layouts that a BCSR array of a shape may have: those with two sparse dimensions."""
    for n_batch in range(min_n_batch, len(shape) - 1):
        yield SparseLayout(n_batch, len(shape) - 2 - n_batch, 2)


def _rand_sparse(
    shape: Sequence[int],
    dtype: DTypeLike,
    *,
    rng: np.random.RandomState,
    rand_method: Callable[..., Any],
    nse: int | float,
    n_batch: int,
    n_dense: int,
    sparse_format: str,
) -> BCOO | BCSR:
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_sparse, n_batch, n_dense) < 0:
        raise ValueError(f"Invalid parameters: {shape=} {n_batch=} {n_sparse=}")
    if sparse_format not in ("bcoo", "bcsr"):
        raise ValueError(f"Sparse format {sparse_format} not supported.")
    if sparse_format == "bcsr" and n_sparse != 2:
        raise ValueError(f"bcsr array must have 2 sparse dimensions; {n_sparse} is given.")
    end = n_batch + n_sparse
    batch, sizes, dense = tuple(shape[:n_batch]), shape[n_batch:end], tuple(shape[end:])
    nse = math.ceil(nse * math.prod(sizes)) if 0 < nse < 1 else int(nse)
    # The order of the draws is that of the original, so that a seed gives the same arrays.
    data = jax.numpy.array(rand_method(rng)((*batch, nse, *dense), dtype))

    def draw(high: Any, *size: int) -> np.ndarray:
        return rng.randint(0, high, size=(*batch, *size), dtype=np.int32)

    if sparse_format == "bcoo":
        indices = jax.numpy.array(draw(sizes, nse, n_sparse))
        return BCOO((data, indices), shape=tuple(shape))
    columns = jax.numpy.array(draw(sizes[1], nse))
    starts = np.sort(draw(nse + 1, sizes[0] + 1), axis=-1)
    starts[..., 0] = 0
    return BCSR((data, columns, jax.numpy.array(starts)), shape=tuple(shape))


def _rand(sparse_format: str, *args: Any) -> Callable[..., Any]:
    names = ("rng", "rand_method", "nse", "n_batch", "n_dense")
    return functools.partial(_rand_sparse, **dict(zip(names, args)), sparse_format=sparse_format)


def rand_bcoo(
    rng: np.random.RandomState,
    rand_method: Callable[..., Any] = rand_default,
    nse: int | float = 0.5,
    n_batch: int = 0,
    n_dense: int = 0,
) -> Callable[..., Any]:
    """A function of shape and dtype that makes random BCOO arrays.

    Args:
      rng: generator of random numbers.
      rand_method: function of `rng` that returns a function of shape and dtype for the elements.
      nse: number of stored elements of each batch, or the fraction of all, rounded up.
      n_batch: number of batch dimensions.
      n_dense: number of dense dimensions.

    Returns:
      Function `(shape, dtype) -> BCOO`; its indices are neither sorted nor unique.
    """
    return _rand("bcoo", rng, rand_method, nse, n_batch, n_dense)


def rand_bcsr(
    rng: np.random.RandomState,
    rand_method: Callable[..., Any] = rand_default,
    nse: int | float = 0.5,
    n_batch: int = 0,
    n_dense: int = 0,
) -> Callable[..., Any]:
    """A function of shape and dtype that makes random BCSR arrays; arguments as for `rand_bcoo`."""
    return _rand("bcsr", rng, rand_method, nse, n_batch, n_dense)


def rand_sparse(
    rng: np.random.RandomState,
    nse: int | float = 0.5,
    post: Callable = lambda x: x,
    rand_method: Callable[..., Any] = rand_default,
) -> Callable[..., Any]:
    """A function of shape and dtype that makes random dense arrays with many zeros.

    Args:
      rng: generator of random numbers.
      nse: number of elements that are not set to zero, or the fraction of all, rounded down.
      post: function that is applied to the result.
      rand_method: function of `rng` that returns a function of shape and dtype for the elements.

    Returns:
      Function `(shape, dtype, nse=nse)`.
    """

    def rand(shape, dtype, nse=nse):
        values = rand_method(rng)(shape, dtype)
        kept = int(nse * values.size) if 0 < nse < 1 else int(nse)
        zeros = rng.choice(values.size, max(0, values.size - kept), replace=False)
        values.flat[zeros] = 0
        return post(values)

    return rand


def _todense(tree: Any) -> Any:
    return tree_map(todense, tree, is_leaf=is_sparse)


def _stack(args: Sequence[Any], bdim: int | None) -> Any:
    """Stack arrays, dense or sparse of one layout, along a new axis; without one, take the first."""
    first = args[0]
    if bdim is None:
        return first
    if not is_sparse(first):
        return lax.concatenate([jax.numpy.expand_dims(x, bdim) for x in args], bdim)
    if isinstance(first, BCSR):
        broadcast, concatenate = bcsr_broadcast_in_dim, bcsr_concatenate
    else:
        broadcast, concatenate = bcoo_broadcast_in_dim, bcoo_concatenate
    kept = [i for i in range(first.ndim + 1) if i != bdim]

    def expand(x):
        shape = (*x.shape[:bdim], 1, *x.shape[bdim:])
        return broadcast(x, shape=shape, broadcast_dimensions=kept)

    return concatenate([expand(x) for x in args], dimension=bdim)


class SparseTestCase(JaxTestCase):
    """Base class of tests of functions of sparse arrays."""

    def assertSparseArraysEquivalent(
        self, x, y, *, check_dtypes=True, atol=None, rtol=None, canonicalize_dtypes=True, err_msg=""
    ):
        """Assert that sparse arrays, or trees of them, have one structure and close buffers."""
        x_leaves, x_tree = tree_flatten(x)
        y_leaves, y_tree = tree_flatten(y)
        self.assertEqual(x_tree, y_tree)
        self.assertAllClose(
            x_leaves,
            y_leaves,
            check_dtypes=check_dtypes,
            atol=atol,
            rtol=rtol,
            canonicalize_dtypes=canonicalize_dtypes,
            err_msg=err_msg,
        )

    def _CheckAgainstDense(
        self,
        dense_op,
        sparse_op,
        args_maker,
        check_jit=True,
        check_dtypes=True,
        tol=None,
        atol=None,
        rtol=None,
        canonicalize_dtypes=True,
    ):
        """Assert that a function of sparse arrays gives the results of one of dense arrays."""
        args = args_maker()
        atol, rtol = atol or tol, rtol or tol
        sparse_ans = sparse_op(*args)
        self.assertAllClose(
            dense_op(*_todense(args)),
            _todense(sparse_ans),
            check_dtypes=check_dtypes,
            atol=atol,
            rtol=rtol,
            canonicalize_dtypes=canonicalize_dtypes,
        )
        if check_jit:
            jit_ans = jax.jit(sparse_op)(*args)
            self.assertSparseArraysEquivalent(sparse_ans, jit_ans, atol=atol, rtol=rtol)

    def _CheckGradsSparse(
        self,
        dense_fun,
        sparse_fun,
        args_maker,
        *,
        argnums=None,
        modes=("fwd", "rev"),
        atol=None,
        rtol=None,
    ):
        """Assert that derivatives by the stored elements are those of a function of dense arrays."""
        modes = set(modes)
        assert modes <= {"fwd", "rev"}, f"modes: {sorted(modes)}, expected of 'fwd' and 'rev'"
        args = args_maker()
        leaves, tree = tree_flatten(args)
        # The elements are the first leaf of a sparse array.
        counts = [len(tree_flatten(x)[0]) for x in args]
        starts = [0, *itertools.accumulate(counts)]
        flat_argnums = [starts[i] for i in (range(len(args)) if argnums is None else argnums)]

        def dense_fun_flat(*leaves):
            return dense_fun(*_todense(tree_unflatten(tree, leaves)))

        def sparse_fun_flat(*leaves):
            return _todense(sparse_fun(*tree_unflatten(tree, leaves)))

        for mode, jac in [("rev", jax.jacrev), ("fwd", jax.jacfwd)]:
            if mode in modes:
                dense_jac = jac(dense_fun_flat, argnums=flat_argnums)(*leaves)
                sparse_jac = jac(sparse_fun_flat, argnums=flat_argnums)(*leaves)
                self.assertAllClose(dense_jac, sparse_jac, atol=atol, rtol=rtol)

    def _random_bdims(self, *args):
        """For each number, an axis of a batch between 0 and it."""
        rng = self.rng()
        return [rng.randint(0, n + 1) for n in args]

    def _CheckBatchingSparse(
        self,
        dense_fun,
        sparse_fun,
        args_maker,
        *,
        batch_size=3,
        bdims=None,
        check_jit=False,
        check_dtypes=True,
        tol=None,
        atol=None,
        rtol=None,
        canonicalize_dtypes=True,
    ):
        """Assert that a function under `vmap` gives the results of one of dense arrays.

        `bdims` holds the axis of the batch of each argument, or None; by default axes are drawn.
        """
        if bdims is None:
            bdims = self._random_bdims(
                *(x.n_batch if is_sparse(x) else x.ndim for x in args_maker())
            )

        def batched_args_maker():
            batch = [args_maker() for _ in range(batch_size)]
            return [_stack(args, bdim) for args, bdim in zip(zip(*batch), bdims, strict=True)]

        self._CheckAgainstDense(
            jax.vmap(dense_fun, bdims),
            jax.vmap(sparse_fun, bdims),
            batched_args_maker,
            check_dtypes=check_dtypes,
            tol=tol,
            atol=atol,
            rtol=rtol,
            check_jit=check_jit,
            canonicalize_dtypes=canonicalize_dtypes,
        )
