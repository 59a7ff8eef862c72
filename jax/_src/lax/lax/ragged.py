"""Ragged dot products: one dimension of the lhs is split into groups of traced sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import rules
from jax._src.lax.lax import sharding as shardings
from jax._src.lax.lax.arithmetic import add, sub
from jax._src.lax.lax.convert import convert_element_type
from jax._src.lax.lax.create import broadcasted_iota, full_like
from jax._src.lax.lax.cumulative import cumsum
from jax._src.lax.lax.dot import (
    aval_of,
    check_dot_dimensions,
    check_preferred_element_type,
    dot_general_p,
    others,
    product_dtype,
    transpose_to,
)
from jax._src.lax.lax.joining import concatenate
from jax._src.lax.lax.logical import bitwise_and, eq, ge, lt
from jax._src.lax.lax.precision import PrecisionLike, canonicalize_precision
from jax._src.lax.lax.reductions import reduce_sum
from jax._src.lax.lax.select import clamp, select
from jax._src.lax.lax.shape import broadcast_in_dim, transpose
from jax._src.lax.rules import standard_primitive
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.typing import DTypeLike


class RaggedDotDimensionNumbers:
    """The contracting, batch, ragged and group dimensions of a ragged dot product.

    Args:
      dot_dimension_numbers: contracting and batch dimensions, see `dot_general`.
      lhs_ragged_dimensions: the one dimension of `lhs` that is split into consecutive groups.
      rhs_group_dimensions: if the ragged dimension is neither contracting nor batch, the dimension
        of `rhs` with one element for each group; otherwise empty.
    """

    __slots__ = ("dot_dimension_numbers", "lhs_ragged_dimensions", "rhs_group_dimensions")

    def __init__(self, dot_dimension_numbers, lhs_ragged_dimensions, rhs_group_dimensions):
        (lc, rc), (lb, rb) = dot_dimension_numbers
        pairs = ((_ints(lc), _ints(rc)), (_ints(lb), _ints(rb)))
        object.__setattr__(self, "dot_dimension_numbers", pairs)
        object.__setattr__(self, "lhs_ragged_dimensions", _ints(lhs_ragged_dimensions))
        object.__setattr__(self, "rhs_group_dimensions", _ints(rhs_group_dimensions))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("RaggedDotDimensionNumbers cannot be changed")

    def _key(self):
        return (self.dot_dimension_numbers, self.lhs_ragged_dimensions, self.rhs_group_dimensions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedDotDimensionNumbers) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self):
        return RaggedDotDimensionNumbers, self._key()

    def __repr__(self) -> str:
        return (
            f"RaggedDotDimensionNumbers(dot_dimension_numbers={self.dot_dimension_numbers}, "
            f"lhs_ragged_dimensions={self.lhs_ragged_dimensions}, "
            f"rhs_group_dimensions={self.rhs_group_dimensions})"
        )


def _ints(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple([int(d) for d in dims])


_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: Array,
    rhs: Array,
    group_sizes: Array,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: Array | None = None,
    out_sharding=None,
) -> Array:
    """Multiply groups of rows, each by the matrix of its group.

    Args:
      lhs: array of shape `(m, k)`: the first `group_sizes[0]` rows are group 0, and so on.
      rhs: array of shape `(g, k, n)`.
      group_sizes: integer array of shape `(g,)`.
      precision, preferred_element_type, out_sharding: see `dot_general`.
      group_offset: integer array of shape `(1,)`: the group that `rhs[0]` belongs to. `group_sizes`
        may then be longer than `rhs`; rows of groups without a matrix yield zeros.

    Returns:
      An array of shape `(m, n)`; rows beyond the last group are zero.

    Raises:
      TypeError: if shapes or dtypes are invalid.

    >>> x, w = jnp.ones((4, 2)), jnp.arange(1., 4.)[:, None, None] * jnp.ones((3, 2, 1))
    >>> lax.ragged_dot(x, w, jnp.array([1, 0, 2]))[:, 0].tolist()
    [2.0, 6.0, 6.0, 0.0]
    """
    return ragged_dot_general(
        lhs,
        rhs,
        group_sizes,
        _ROWS,
        precision,
        preferred_element_type,
        group_offset,
        out_sharding,
    )


def ragged_dot_general(
    lhs: Array,
    rhs: Array,
    group_sizes: Array,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: Array | None = None,
    out_sharding=None,
) -> Array:
    """Compute a `dot_general` in which one dimension of `lhs` is split into groups.

    - If the ragged dimension is neither contracting nor batch, `rhs` has a group dimension, and
      each group is multiplied by its own slice: `(m, k), (g, k, n) -> (m, n)`.
    - If it is contracting, each group is summed separately: `(m, k), (k, n) -> (g, m, n)`.
    - If it is a batch dimension, the result is that of `dot_general`.

    Args:
      lhs, rhs: arrays.
      group_sizes: integer array of shape `(g,)`; or of shape `(*prefix, g)` if the group sizes vary
        along the dimensions before the ragged one: batch dimensions and those of its kind.
      ragged_dot_dimension_numbers: a `RaggedDotDimensionNumbers`.
      precision, preferred_element_type, out_sharding: see `dot_general`.
      group_offset: see `ragged_dot`; only if there is a group dimension.

    Returns:
      An array of the shape described above.

    Raises:
      TypeError: if shapes or dtypes are invalid.

    >>> dims = lax.RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), [1], [])
    >>> lhs, rhs, group_sizes = jnp.ones((1, 5)), jnp.ones((5, 1)), jnp.array([2, 3])
    >>> lax.ragged_dot_general(lhs, rhs, group_sizes, dims).ravel().tolist()
    [2.0, 3.0]
    """
    dims = ragged_dot_dimension_numbers
    if group_offset is not None:
        rhs, group_sizes = _apply_group_offset(rhs, group_sizes, group_offset, dims)
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_and_canonicalize_user_dtype(
            preferred_element_type, "ragged_dot_general"
        )
    return ragged_dot_general_p.bind(
        lhs,
        rhs,
        group_sizes,
        ragged_dot_dimension_numbers=dims,
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred_element_type,
        group_offset=None,
        out_sharding=canonicalize_sharding(out_sharding, "ragged_dot_general"),
    )


def _apply_group_offset(rhs, sizes, offset, dims):
    """Surround the groups of `rhs` by zero groups, which stand for the groups before and after."""
    if len(dims.rhs_group_dimensions) != 1:
        raise TypeError(
            "ragged_dot_general takes a group_offset only where the rhs has a group dimension"
        )
    if np.ndim(sizes) != 1 or np.shape(offset) != (1,):
        raise TypeError(
            "ragged_dot_general with a group_offset takes group_sizes of shape (g,) and a group_offset of "
            f"shape (1,), got {np.shape(sizes)} and {np.shape(offset)}"
        )
    d = dims.rhs_group_dimensions[0]
    n, (total,) = np.shape(rhs)[d], np.shape(sizes)
    shape = list(np.shape(rhs))
    shape[d] = 1
    zeros = full_like(rhs, 0, shape=tuple(shape))
    rhs = concatenate([zeros, rhs, zeros], d)
    # Group j is moved to index `j - offset + 1`, clamped so that other groups count as zero groups.
    shape = (n + 2, total)
    offset = broadcast_in_dim(convert_element_type(offset, np.int32), shape, (1,))
    row = add(sub(broadcasted_iota(np.int32, shape, 1), offset), full_like(offset, 1))
    row = clamp(np.int32(0), row, np.int32(n + 1))
    sizes = broadcast_in_dim(sizes, shape, (1,))
    mine = eq(row, broadcasted_iota(np.int32, shape, 0))
    return rhs, reduce_sum(select(mine, sizes, full_like(sizes, 0)), (1,))


# ---------------------------------------------------------------------------------------------------
# Shape, dtype and sharding rules


_FREE, _CONTRACTING, _BATCH = "noncontracting", "contracting", "batch"


def _mode(lhs_ndim: int, dims: RaggedDotDimensionNumbers) -> str:
    if len(dims.lhs_ragged_dimensions) != 1:
        raise TypeError("ragged_dot_general expects exactly one lhs ragged dimension.")
    (d,) = dims.lhs_ragged_dimensions
    (lc, _), (lb, _) = dims.dot_dimension_numbers
    if not 0 <= d < lhs_ndim:
        raise TypeError(
            "ragged_dot_general requires lhs ragged dimension numbers to be nonnegative and less than the "
            f"number of axes of the lhs value, got {d} for lhs of rank {lhs_ndim}"
        )
    return _CONTRACTING if d in lc else _BATCH if d in lb else _FREE


def _prefix_dims(lhs_ndim: int, dims: RaggedDotDimensionNumbers) -> list[int]:
    """Return the lhs dimensions along which group sizes may vary."""
    (lc, _), (lb, _) = dims.dot_dimension_numbers
    (d,) = dims.lhs_ragged_dimensions
    if d in lb:
        return list(lb[: lb.index(d)])
    kind = list(lc) if d in lc else others(lhs_ndim, lc, lb)
    return [*lb, *kind[: kind.index(d)]]


def _ragged_shape(lhs, rhs, group_sizes, *, ragged_dot_dimension_numbers, **params):
    dims = ragged_dot_dimension_numbers
    mode = _mode(lhs.ndim, dims)
    (lc, rc), (lb, rb) = dims.dot_dimension_numbers
    check_dot_dimensions("dot_general", lhs.shape, rhs.shape, dims.dot_dimension_numbers)
    groups = dims.rhs_group_dimensions
    if not all(0 <= d < rhs.ndim for d in groups):
        raise TypeError(
            "ragged_dot_general requires rhs group dimension numbers to be nonnegative and less than the "
            f"number of axes of the rhs value, got {groups} for rhs of rank {rhs.ndim}"
        )
    if set(groups) & {*rc, *rb}:
        raise TypeError(
            "ragged_dot_general requires rhs group dimension numbers to be distinct from contracting and "
            "batch dimensions."
        )
    if mode is _FREE and len(groups) != 1:
        raise TypeError(
            "ragged_dot_general requires exactly one rhs group dimension when lhs ragged dimension is "
            "noncontracting."
        )
    if mode is not _FREE and groups:
        raise TypeError(
            "ragged_dot_general requires zero group dimensions in the rhs when lhs ragged dimension is "
            "contracting or batch."
        )
    if not group_sizes.shape:
        raise TypeError("expected rank of group_sizes to be >=1.")
    n = group_sizes.shape[-1]
    prefix = tuple([lhs.shape[d] for d in _prefix_dims(lhs.ndim, dims)])
    if group_sizes.ndim > 1 and group_sizes.shape[:-1] != prefix:
        raise TypeError(
            f"expected group_sizes to have shape {(*prefix, n)}, got {group_sizes.shape}."
        )
    if groups and rhs.shape[groups[0]] != n:
        raise TypeError(f"expected rhs group dimension size to be {n}, got {rhs.shape[groups[0]]}.")
    out = (
        *[lhs.shape[d] for d in lb],
        *[lhs.shape[d] for d in others(lhs.ndim, lc, lb)],
        *[rhs.shape[d] for d in others(rhs.ndim, rc, rb, groups)],
    )
    return (n, *out) if mode is _CONTRACTING else out


def _ragged_dtype(lhs, rhs, group_sizes, *, preferred_element_type, **params):
    if not dtypes.issubdtype(group_sizes.dtype, np.integer):
        raise TypeError(
            "ragged_dot_general requires that group_sizes.dtype is subtype of np.integer, got "
            f"{group_sizes.dtype.name}."
        )
    dtype = product_dtype("ragged_dot_general", lhs.dtype, rhs.dtype)
    if preferred_element_type is None or preferred_element_type == dtype:
        return dtype
    check_preferred_element_type(dtype, preferred_element_type)
    return preferred_element_type


def _ragged_sharding(lhs, rhs, group_sizes, *, out_sharding, **params):
    if out_sharding is not None:
        return out_sharding
    for a in (lhs, rhs, group_sizes):
        if a._sharding is not None and any(e is not None for e in shardings.entries(a)):
            raise core.ShardingTypeError(
                "ragged_dot_general cannot tell the sharding of its result: give it as `out_sharding`. Got "
                f"{lhs.str_short()}, {rhs.str_short()} and {group_sizes.str_short()}."
            )
    shape = _ragged_shape(lhs, rhs, group_sizes, **params)
    sharded = next(a for a in (lhs, rhs, group_sizes) if a._sharding is not None)
    return shardings.with_entries(sharded, [None] * len(shape))


# ---------------------------------------------------------------------------------------------------
# Differentiation and batching


def _ragged_jvp(primals, tangents, **params):
    lhs, rhs, sizes = primals
    dl, dr, _ = tangents
    out = ragged_dot_general_p.bind(lhs, rhs, sizes, **params)
    parts = []
    if type(dl) is not ad.Zero:
        parts.append(ragged_dot_general_p.bind(dl, rhs, sizes, **params))
    if type(dr) is not ad.Zero:
        parts.append(ragged_dot_general_p.bind(lhs, dr, sizes, **params))
    if not parts:
        return out, ad.Zero.from_primal_value(out)
    return out, parts[0] if len(parts) == 1 else ad.add_tangents(*parts)


def _ragged_transpose(ct, lhs, rhs, sizes, *, ragged_dot_dimension_numbers, **params):
    dims = ragged_dot_dimension_numbers
    (lc, rc), (lb, rb) = dims.dot_dimension_numbers
    lhs_aval, rhs_aval = aval_of(lhs), aval_of(rhs)
    mode, groups = _mode(lhs_aval.ndim, dims), dims.rhs_group_dimensions
    lhs_free = others(lhs_aval.ndim, lc, lb)
    rhs_free = others(rhs_aval.ndim, rc, rb, groups)
    (r,) = dims.lhs_ragged_dimensions
    first = 1 if mode is _CONTRACTING else 0
    ct_batch = list(range(first, first + len(lb)))
    ct_lhs = list(range(first + len(lb), first + len(lb) + len(lhs_free)))
    ct_rhs = list(range(ct_lhs[-1] + 1 if ct_lhs else first + len(lb), np.ndim(ct)))
    if mode is _CONTRACTING and np.ndim(sizes) > 1 and len(lc) > 1:
        raise NotImplementedError(
            "the transpose of ragged_dot_general with several contracting dimensions takes group_sizes of "
            "one dimension"
        )

    def product(x, y, contracting, batch, ragged, group):
        return ragged_dot_general_p.bind(
            x,
            y,
            sizes,
            ragged_dot_dimension_numbers=RaggedDotDimensionNumbers(
                (contracting, batch), (ragged,), group
            ),
            **params,
        )

    def ordered(dims_, other):
        """Order contracting dimensions as the product has them, by those of the other operand."""
        return [d for _, d in sorted(zip(other, dims_))]

    lhs_ct = rhs_ct = None
    if ad.is_undefined_primal(lhs):
        if mode is _FREE:
            g = product(
                ct, rhs, (ct_rhs, rhs_free), (ct_batch, rb), ct_lhs[lhs_free.index(r)], groups
            )
            at = [*lb, *lhs_free, *ordered(lc, rc)]
        elif mode is _CONTRACTING:
            g = product(rhs, ct, (rhs_free, ct_rhs), (rb, ct_batch), rc[lc.index(r)], (0,))
            at = [*lb, *ordered(lc, rc), *lhs_free]
        else:
            g = product(ct, rhs, (ct_rhs, rhs_free), (ct_batch, rb), ct_batch[lb.index(r)], ())
            at = [*lb, *lhs_free, *ordered(lc, rc)]
        lhs_ct = _as(transpose_to(g, at), lhs_aval)
    if ad.is_undefined_primal(rhs):
        if mode is _FREE:
            g = product(lhs, ct, (lhs_free, ct_lhs), (lb, ct_batch), r, ())
            at = [*groups, *rb, *ordered(rc, lc), *rhs_free]
        elif mode is _CONTRACTING:
            g = product(lhs, ct, (lhs_free, ct_lhs), (lb, ct_batch), r, (0,))
            at = [*rb, *ordered(rc, lc), *rhs_free]
        else:
            g = product(lhs, ct, (lhs_free, ct_lhs), (lb, ct_batch), r, ())
            at = [*rb, *ordered(rc, lc), *rhs_free]
        rhs_ct = _as(transpose_to(g, at), rhs_aval)
    return [lhs_ct, rhs_ct, None]


def _as(x, aval):
    return x if core.typeof(x).dtype == aval.dtype else convert_element_type(x, aval.dtype)


def _ragged_batch(args, bdims, *, ragged_dot_dimension_numbers, **params):
    size = next(x.shape[d] for x, d in zip(args, bdims) if d is not None)
    lhs, rhs, sizes = args
    dims = ragged_dot_dimension_numbers
    lhs_ndim = np.ndim(lhs) - (bdims[0] is not None)
    lhs = batching.bdim_at_front(lhs, bdims[0], size)
    rhs = batching.bdim_at_front(rhs, bdims[1], size)
    if bdims[2] is not None:
        sizes = batching.moveaxis(sizes, bdims[2], 0)
        if sizes.ndim == 2:
            prefix = [lhs.shape[d + 1] for d in _prefix_dims(lhs_ndim, dims)]
            sizes = broadcast_in_dim(sizes, (size, *prefix, sizes.shape[1]), (0, len(prefix) + 1))
    elif sizes.ndim > 1:
        sizes = batching.bdim_at_front(sizes, None, size)
    (lc, rc), (lb, rb) = dims.dot_dimension_numbers

    def up(ds):
        return [d + 1 for d in ds]

    new_dims = RaggedDotDimensionNumbers(
        ((up(lc), up(rc)), ([0, *up(lb)], [0, *up(rb)])),
        up(dims.lhs_ragged_dimensions),
        up(dims.rhs_group_dimensions),
    )
    out = ragged_dot_general_p.bind(
        lhs, rhs, sizes, ragged_dot_dimension_numbers=new_dims, **params
    )
    return out, 1 if _mode(lhs_ndim, dims) is _CONTRACTING else 0


# ---------------------------------------------------------------------------------------------------
# Lowering


def _as_dense(lhs, rhs, sizes, *, ragged_dot_dimension_numbers, group_offset, **params):
    """Repeat `lhs` for each group, masked to the group, and compute a dense product."""
    dims = ragged_dot_dimension_numbers
    mode = _mode(lhs.ndim, dims)
    (lc, rc), (lb, rb) = dims.dot_dimension_numbers
    if mode is _BATCH:
        return dot_general_p.bind(lhs, rhs, dimension_numbers=dims.dot_dimension_numbers, **params)
    (r,) = dims.lhs_ragged_dimensions
    n = sizes.shape[-1]
    shape = (n, *lhs.shape)
    prefix = [d + 1 for d in _prefix_dims(lhs.ndim, dims)] if sizes.ndim > 1 else []
    ends = cumsum(sizes, sizes.ndim - 1)
    at = (*prefix, 0)
    if list(at) != sorted(at):
        ends, sizes = (transpose(x, (len(prefix), *range(len(prefix)))) for x in (ends, sizes))
        at = (0, *prefix)
    starts = broadcast_in_dim(sub(ends, sizes), shape, at)
    ends = broadcast_in_dim(ends, shape, at)
    position = broadcasted_iota(sizes.dtype, shape, r + 1)
    mask = bitwise_and(ge(position, starts), lt(position, ends))
    repeated = broadcast_in_dim(lhs, shape, range(1, lhs.ndim + 1))
    masked = select(mask, repeated, full_like(repeated, 0))
    lhs_c, lhs_b = [d + 1 for d in lc], tuple([d + 1 for d in lb])
    if mode is _FREE:
        dense = ((*lhs_c, 0), (*rc, *dims.rhs_group_dimensions)), (lhs_b, rb)
        return dot_general_p.bind(masked, rhs, dimension_numbers=dense, **params)
    out = dot_general_p.bind(
        masked, rhs, dimension_numbers=((tuple(lhs_c), rc), (lhs_b, rb)), **params
    )
    return transpose_to(out, [*range(1, len(lb) + 1), 0, *range(len(lb) + 1, out.ndim)])


def _ragged_lower(ctx, *args, **params):
    (aval_out,) = ctx.avals_out
    (out,) = _lower_as_dense(ctx, *args, **{**params, "out_sharding": None})
    return [rules.with_sharding(ctx, out, aval_out)]


_lower_as_dense = mlir.lower_fun(_as_dense, multiple_results=False)

ragged_dot_general_p = standard_primitive(
    "ragged_dot_general",
    shape=_ragged_shape,
    dtype=_ragged_dtype,
    sharding=_ragged_sharding,
    lower=_ragged_lower,
    jvp=_ragged_jvp,
    transpose=_ragged_transpose,
    batch=_ragged_batch,
)
