"""Eigendecomposition of large Hermitian matrices by spectral divide and conquer.

Nakatsukasa and Higham, "Stable and efficient spectral divide and conquer algorithms for the
symmetric eigenvalue decomposition and the SVD" (2013): the polar factor U of H - sI has the
eigenvalues 1 and -1 on the invariant subspaces of H for eigenvalues above and below s. In an
orthonormal basis of these subspaces H is block-diagonal. Its blocks are split recursively until
they are small.

The sizes of the blocks are known only at run time. A block is therefore padded with zeros to the
next larger of a few static sizes (`_bucket_sizes`), for each of which there is a compiled branch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jax._src import dtypes
from jax._src.basearray import Array
from jax._src.lax import lax, slicing
from jax._src.lax.control_flow import switch, while_loop
from jax._src.lax.linalg.common import (
    along_columns,
    columns,
    diagonal,
    eye,
    matmul,
    mH,
    permute_columns,
    real,
    real_dtype,
    symmetrize,
)
from jax._src.lax.linalg.qdwh import qdwh
from jax._src.lax.linalg.qr import qr
from jax._src.lax.linalg.stack import Stack

# Decomposes one small matrix into (eigenvectors, ascending eigenvalues).
SmallEigh = Callable[[Any], tuple[Any, Any]]
Product = Callable[[Any, Any], Any]

# Number of split points to try. If none splits a block, it has one eigenvalue up to rounding.
_ATTEMPTS = 3


class _Block(NamedTuple):
    """A Hermitian block still to be decomposed: its offset, size, and number of failed splits."""

    offset: Any
    size: Any
    attempt: Any


class _State(NamedTuple):
    """The carry of the loop.

    Attributes:
      agenda: `Stack` of blocks.
      blocks: (n, n); a block is stored in the rows starting at its `offset` and in the first
        columns.
      vectors: (n, n); the columns starting at `offset` map the block's coordinates to the input's.
      values: (n,); the eigenvalues found so far.
    """

    agenda: Stack
    blocks: Any
    vectors: Any
    values: Any


def spectral_eigh(
    h: Any,
    small_eigh: SmallEigh,
    *,
    termination_size: int,
    size: Any = None,
    subset: tuple[int, int] | None = None,
    precision: Any = lax.Precision.HIGHEST,
) -> tuple[Array, Array]:
    """Compute the eigenvalues and eigenvectors of a Hermitian matrix.

    Args:
      h: matrix of shape (n, n); both triangles are read.
      small_eigh: function that decomposes matrices of up to `termination_size` rows.
      termination_size: size up to which blocks are not split further.
      size: size of the leading block of `h` to decompose, which may be traced; None for all of `h`.
      subset: indices (start, stop) of the eigenvalues to compute; None for all.
      precision: precision of products, except in the polar decomposition.

    Returns:
      The eigenvalues (n,), and the eigenvectors as the columns of an (n, n) array. They are in
      ascending order up to rounding; see `sorted_by_value`. Those outside of `subset` are
      undefined. Those at `size` and beyond are NaN and zero.
    """
    n = h.shape[-1]
    size = np.int32(n) if size is None else lax.convert_element_type(size, np.int32)
    h = _masked(h, size, size)
    # Scale, so that norms of squares neither overflow nor underflow.
    scale = lax.reduce_max(lax.abs(h), (0, 1))
    scale = lax.select(lax.gt(scale, lax.full_like(scale, 0)), scale, lax.full_like(scale, 1))
    h = lax.div(h, lax.broadcast(scale.astype(h.dtype), h.shape))
    buckets = _bucket_sizes(n, termination_size)
    first, last = (0, n) if subset is None else subset
    state = _State(
        Stack.create(n + 1, _Block(np.int32(0), np.int32(0), np.int32(0))),
        h,
        _masked(eye(h.dtype, n), size, size),
        lax.full((n,), np.nan, real_dtype(h.dtype)),
    )
    state = state._replace(agenda=state.agenda.push(_Block(np.int32(0), size, np.int32(0))))

    def leave(block, state):
        return state

    product = functools.partial(matmul, precision=precision)
    branches = [leave] + [
        _solver(width, small_eigh, product)
        if width <= termination_size
        else _splitter(width, product)
        for width in buckets
    ]

    def step(state):
        block, agenda = state.agenda.pop()
        wanted = lax.bitwise_and(
            lax.lt(block.offset, np.int32(last)),
            lax.gt(lax.add(block.offset, block.size), np.int32(first)),
        )
        # Select the first bucket that is large enough; 0 skips the block.
        fits = [
            lax.convert_element_type(lax.gt(block.size, np.int32(w)), np.int32) for w in buckets
        ]
        which = lax.add(sum(fits[1:], fits[0]), np.int32(1))
        which = lax.select(wanted, which, lax.full_like(which, 0))
        return switch(which, branches, block, state._replace(agenda=agenda))

    state = while_loop(lambda s: lax.bitwise_not(s.agenda.empty()), step, state)
    return lax.mul(state.values, lax.broadcast(scale, (n,))), state.vectors


def sorted_by_value(values: Any, vectors: Any) -> tuple[Array, Array]:
    """Sort eigenvalues in ascending order, NaN last, along with their eigenvectors."""
    position = lax.iota(np.int32, values.shape[0])
    values, order = lax.sort((values, position), num_keys=1, is_stable=True)
    return values, permute_columns(vectors, order)


def _bucket_sizes(n: int, termination_size: int) -> list[int]:
    """Return ascending sizes up to n; half of a block fits the next smaller size."""
    sizes = [n]
    while sizes[-1] > termination_size:
        sizes.append(max(int(sizes[-1] * 0.6), termination_size))
    return sizes[::-1]


# Branches for a block in a matrix of static width


def _solver(
    width: int, small_eigh: SmallEigh, matmul: Product
) -> Callable[[_Block, _State], _State]:
    """Return the branch that decomposes a small block."""

    def solve(block: _Block, state: _State) -> _State:
        h, v = _load(block, state, width)
        # Make the eigenvalues of the padding larger than all others, so that they come last.
        bound = lax.reduce_max(lax.reduce_sum(lax.abs(h), (1,)), (0,))
        bound = lax.select(lax.gt(bound, lax.full_like(bound, 0)), bound, lax.full_like(bound, 1))
        outside = lax.ge(lax.iota(np.int32, width), lax.broadcast(block.size, (width,)))
        padding = lax.select(
            outside,
            lax.broadcast(lax.mul(bound, np.array(2, bound.dtype)), (width,)),
            lax.full((width,), 0, bound.dtype),
        )
        padding = lax.mul(eye(h.dtype, width), along_columns(padding, h.shape).astype(h.dtype))
        u, w = small_eigh(lax.add(h, padding))
        return _finish(block, state, w, matmul(v, _masked(u, block.size, block.size)))

    return solve


def _splitter(width: int, matmul: Product) -> Callable[[_Block, _State], _State]:
    """Return the branch that splits a block in two, unless it is diagonal already."""
    divide = functools.partial(_divide, matmul)

    def split(block: _Block, state: _State) -> _State:
        h, v = _load(block, state, width)
        d = _where_inside(real(diagonal(h)), block.size)
        rest = _norm(lax.sub(h, _diagonal_matrix(d, h)))
        eps = np.array(dtypes.finfo(d.dtype).eps, d.dtype)
        is_diagonal = lax.le(rest, lax.mul(eps, _norm(h)))
        is_done = lax.bitwise_or(is_diagonal, lax.ge(block.attempt, np.int32(_ATTEMPTS)))
        return switch(
            lax.convert_element_type(is_done, np.int32),
            [divide, lambda block, state, h, v, d: _finish(block, state, d, v)],
            block,
            state,
            h,
            v,
            d,
        )

    return split


def _divide(matmul: Product, block: _Block, state: _State, h: Any, v: Any, d: Any) -> _State:
    size = block.size
    shifted = lax.sub(
        h, _diagonal_matrix(_where_inside(_split_point(block, h, d), size, d.shape[0]), h)
    )
    u, _, _, _ = qdwh(shifted, is_hermitian=True)
    inside = _masked(eye(h.dtype, h.shape[0]), size, size)
    # Projector on the eigenvalues below the split point.
    below = lax.mul(np.array(0.5, h.dtype), lax.sub(inside, u))
    trace = lax.reduce_sum(real(diagonal(below)), (0,))
    rank = lax.convert_element_type(lax.round(trace), np.int32)
    progress = lax.bitwise_and(lax.gt(rank, np.int32(0)), lax.lt(rank, size))
    q = _range_and_complement(matmul, below, size)
    split = symmetrize(matmul(mH(q), matmul(h, q)))
    other = lax.sub(size, rank)
    lower = _Block(block.offset, rank, np.int32(0))
    upper = _Block(lax.add(block.offset, rank), other, np.int32(0))
    blocks = _store_rows(state.blocks, _masked(split, rank, rank), lower)
    corner = _shifted(_shifted(split, rank, 0), rank, 1)
    blocks = _store_rows(blocks, _masked(corner, other, other), upper)
    vectors = _store_columns(state.vectors, matmul(v, q), block)
    again = block._replace(attempt=lax.add(block.attempt, np.int32(1)))

    def advance() -> _State:
        return _State(state.agenda.push(upper).push(lower), blocks, vectors, state.values)

    def retry() -> _State:
        return state._replace(agenda=state.agenda.push(again))

    return switch(lax.convert_element_type(progress, np.int32), [retry, advance])


def _split_point(block: _Block, h: Any, d: Any) -> Any:
    """Choose a split point: near the median of the diagonal first, then near its mean.

    The median tends to halve the block; the mean lies between eigenvalues. At an eigenvalue the
    polar factor is undefined, and common matrices have eigenvalues such as 0 or 1 there, so the
    point is shifted by a small fraction of the eigenvalues' spread.
    """
    width = d.shape[0]
    position = lax.iota(np.int32, width)
    inside = lax.lt(position, lax.broadcast(block.size, (width,)))
    ordered = lax.sort(lax.select(inside, d, lax.full_like(d, np.inf)))
    median = slicing.dynamic_index_in_dim(
        ordered, lax.div(block.size, np.int32(2)), 0, keepdims=False
    )
    count = lax.convert_element_type(block.size, d.dtype)
    mean = lax.div(lax.reduce_sum(d, (0,)), count)
    centered = lax.sub(h, _diagonal_matrix(_where_inside(mean, block.size, width), h))
    spread = lax.div(_norm(centered), lax.sqrt(count))
    moves = np.array([1.7e-3, -2.3e-3, 0.0], d.dtype)
    move = slicing.dynamic_index_in_dim(
        lax.convert_element_type(moves, d.dtype), block.attempt, 0, keepdims=False
    )
    start = lax.select(lax.eq(block.attempt, np.int32(0)), median, mean)
    return lax.add(start, lax.mul(move, spread))


def _range_and_complement(matmul: Product, projector: Any, size: Any) -> Any:
    """Return orthonormal bases of the range of a projector and of its complement, as columns.

    The range is that of the projector times an unstructured matrix. A second multiplication by the
    projector removes rounding errors.
    """
    width = projector.shape[0]
    i, j = (lax.broadcasted_iota(np.float32, (width, width), k) for k in (0, 1))
    angle = lax.add(lax.mul(i, np.float32(12.9898)), lax.mul(j, np.float32(78.233)))
    mixed = lax.mul(lax.sin(angle), np.float32(43758.5453))
    mixed = lax.sub(lax.sub(mixed, lax.floor(mixed)), np.float32(0.5))
    mixed = _masked(lax.convert_element_type(mixed, projector.dtype), size, size)
    for _ in range(2):
        mixed, _ = qr(matmul(projector, mixed), full_matrices=False)
        mixed = _masked(mixed, size, size)
    return mixed


# Access to parts of the state


def _load(block: _Block, state: _State, width: int) -> tuple[Any, Any]:
    """Return the block (width, width), and its columns of the vectors (n, width)."""
    h = columns(_window(state.blocks, block.offset, width, 0), 0, width)
    v = _window(state.vectors, block.offset, width, 1)
    return _masked(h, block.size, block.size), _masked(v, np.int32(v.shape[0]), block.size)


def _finish(block: _Block, state: _State, values: Any, vectors: Any) -> _State:
    return state._replace(
        values=_store(state.values, values, block, 0),
        vectors=_store_columns(state.vectors, vectors, block),
    )


def _store_rows(blocks: Any, h: Any, block: _Block) -> Any:
    n, width = blocks.shape[-1], h.shape[-1]
    h = lax.pad(h, np.zeros((), h.dtype), [(0, 0, 0), (0, n - width, 0)])
    return _store(blocks, h, block, 0)


def _store_columns(vectors: Any, v: Any, block: _Block) -> Any:
    return _store(vectors, v, block, 1)


def _window(x: Any, offset: Any, width: int, axis: int) -> Any:
    """Return `width` elements along an axis starting at `offset`, wrapping around the end."""
    start = lax.min(offset, np.int32(x.shape[axis] - width))
    out = slicing.dynamic_slice_in_dim(x, start, width, axis)
    return _shifted(out, lax.sub(offset, start), axis)


def _store(x: Any, new: Any, block: _Block, axis: int) -> Any:
    """Replace the elements of a block by the leading elements of `new`."""
    width = new.shape[axis]
    start = lax.min(block.offset, np.int32(x.shape[axis] - width))
    before = lax.sub(block.offset, start)
    old = slicing.dynamic_slice_in_dim(x, start, width, axis)
    new = _shifted(new, lax.sub(np.int32(width), before), axis)
    position = lax.broadcasted_iota(np.int32, new.shape, axis)
    end = lax.add(before, block.size)
    inside = lax.bitwise_and(
        lax.ge(position, lax.broadcast(before, new.shape)),
        lax.lt(position, lax.broadcast(end, new.shape)),
    )
    return slicing.dynamic_update_slice_in_dim(x, lax.select(inside, new, old), start, axis)


def _shifted(x: Any, by: Any, axis: int) -> Any:
    """Rotate `x` such that element `by` comes first."""
    twice = lax.concatenate([x, x], axis)
    return slicing.dynamic_slice_in_dim(twice, by, x.shape[axis], axis)


def _masked(x: Any, height: Any, width: Any) -> Any:
    """Zero a matrix outside of its leading block."""
    for axis, size in enumerate((height, width)):
        inside = lax.lt(
            lax.broadcasted_iota(np.int32, x.shape, axis),
            lax.broadcast(lax.convert_element_type(size, np.int32), x.shape),
        )
        x = lax.select(inside, x, lax.full_like(x, 0))
    return x


def _where_inside(x: Any, size: Any, width: int | None = None) -> Any:
    """Zero a vector from `size` on; a scalar is broadcast to a vector first."""
    if x.ndim == 0:
        x = lax.broadcast(x, (width,))
    inside = lax.lt(lax.iota(np.int32, x.shape[0]), lax.broadcast(size, x.shape))
    return lax.select(inside, x, lax.full_like(x, 0))


def _diagonal_matrix(d: Any, like: Any) -> Any:
    return lax.mul(eye(like.dtype, d.shape[0]), along_columns(d, like.shape).astype(like.dtype))


def _norm(x: Any) -> Any:
    return lax.sqrt(lax.reduce_sum(lax.square(lax.abs(x)), (0, 1)))
