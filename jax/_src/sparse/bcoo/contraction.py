"""Primitives of products: sparse with dense, dense with dense at given places, sparse with sparse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.errors import TypePromotionError
from jax._src.lax import lax
from jax._src.numpy.util import promote_dtypes
from jax._src.sparse.base import SparseInfo
from jax._src.sparse.bcoo import matrices, ordering, places
from jax._src.sparse.primitive import buffer_primitive, to_front, with_batch
from jax._src.sparse.util import remaining
from jax._src.transforms.derivatives import linear_transpose

# Sparse and dense: gather what every stored element meets, multiply, add to its place in the result


def _dot_general(
    data: Any, indices: Any, rhs: Any, *, dimension_numbers: Any, lhs_spinfo: SparseInfo,
    preferred_element_type: Any, precision: Any,
) -> Any:  # fmt: skip
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    shape = lhs_spinfo.shape
    data, indices = (places.full_batch(x, shape[:n_batch]) for x in (data, indices))
    data, rhs = promote_dtypes(data, rhs)
    out_dtype = data.dtype if preferred_element_type is None else preferred_element_type
    data, rhs = countable(data), countable(rhs)
    first_dense = n_batch + n_sparse

    partner = dict(zip((*lhs_contract, *lhs_batch), (*rhs_contract, *rhs_batch)))
    along = {r: l for l, r in partner.items() if l < n_batch}
    columns = {r: l - n_batch for l, r in partner.items() if n_batch <= l < first_dense}
    met = places.gather_at(rhs, indices, along, columns)

    rest = remaining(range(rhs.ndim), along, columns)
    of_data = lambda l: l - n_sparse + 1
    of_met = lambda r: n_batch + 1 + rest.index(r)
    dense_batch = [l for l in lhs_batch if l >= first_dense]
    dense_contract = [l for l in lhs_contract if l >= first_dense]
    each = range(n_batch + 1)
    products = lax.dot_general(
        data,
        met,
        (
            (
                [of_data(l) for l in dense_contract],
                [of_met(partner[l]) for l in dense_contract],
            ),
            (
                [*each, *map(of_data, dense_batch)],
                [*each, *(of_met(partner[l]) for l in dense_batch)],
            ),
        ),
        precision=precision,
        preferred_element_type=_wider(data.dtype, out_dtype),
    )
    kept = [d for d in range(n_batch) if d not in lhs_contract]
    sparse = [d for d in range(n_batch, first_dense) if d not in lhs_contract]
    out = places.scatter_at(
        products, indices, kept, [d - n_batch for d in sparse], [shape[d] for d in sparse]
    )
    dense_free = remaining(range(first_dense, len(shape)), partner)
    labels = [*kept, *sparse, *dense_batch, *dense_free]
    order = [*lhs_batch, *remaining(range(len(shape)), partner)]
    permutation = [labels.index(d) for d in order] + list(range(len(labels), out.ndim))
    out = lax.transpose(out, permutation)
    if out.dtype.kind == "c" and np.dtype(out_dtype).kind == "f":
        out = lax.real(out)
    return lax.convert_element_type(out, out_dtype)


def countable(x: Any) -> Any:
    """Booleans as integers, which can be summed."""
    return lax.convert_element_type(x, np.int32) if x.dtype == bool else x


def _wider(dtype: Any, preferred: Any) -> Any:
    """The type to accumulate in: sums of few products at a time would round too often."""
    dtype, preferred = np.dtype(dtype), np.dtype(preferred)
    if preferred == dtype:
        return dtype
    try:
        return dtypes.promote_types(dtype, preferred)
    except TypePromotionError:
        # Types of at most 8 bits, which have no implicit promotions.
        return preferred


def dot_general_batch(
    size: int, args: Any, dims: Any, *, dimension_numbers: Any, lhs_spinfo: SparseInfo, **params: Any
) -> Any:  # fmt: skip
    """The `batch` of products of the buffers of a sparse array and a dense one, the last operand."""
    *buffers, rhs = args
    sparse_mapped = any(d is not None for d in dims[:-1])
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    at = 0
    if sparse_mapped:
        buffers = list(map(to_front, buffers, dims))
        lhs_spinfo = with_batch(lhs_spinfo, size)
        lhs_contract, lhs_batch = ([d + 1 for d in ds] for ds in (lhs_contract, lhs_batch))
        at = len(lhs_batch)
    if dims[-1] is not None:
        rhs = to_front(rhs, dims[-1])
        rhs_contract, rhs_batch = ([d + 1 for d in ds] for ds in (rhs_contract, rhs_batch))
        if sparse_mapped:
            lhs_batch, rhs_batch, at = [0, *lhs_batch], [0, *rhs_batch], 0
        else:
            at = len(lhs_spinfo.shape) - len(lhs_contract)
    contract, batch = (
        (tuple(lhs_contract), tuple(rhs_contract)),
        (tuple(lhs_batch), tuple(rhs_batch)),
    )
    params.update(dimension_numbers=(contract, batch), lhs_spinfo=lhs_spinfo)
    return (*buffers, rhs), params, at


def transposed(definition: Callable[..., Any], position: int) -> Callable[..., Any]:
    """The cotangent of an operand, by the transpose of the definition."""

    def cotangent(ct: Any, *args: Any, **params: Any) -> Any:
        fun = lambda x: definition(*args[:position], x, *args[position + 1 :], **params)
        return linear_transpose(fun, args[position].aval)(ct)[0]

    return cotangent


def _dense_cotangent(
    ct: Any, data: Any, indices: Any, rhs: Any, *, dimension_numbers: Any, **params: Any
) -> Any:
    same = data.dtype == rhs.aval.dtype == ct.dtype
    if not matrices.is_product(data, indices.shape[-1], dimension_numbers) or not same:
        params["dimension_numbers"] = dimension_numbers
        return transposed(_dot_general, 2)(ct, data, indices, rhs, **params)

    def product(dense: Any, numbers: Any) -> Any:
        return bcoo_dot_general_p.bind(data, indices, dense, dimension_numbers=numbers, **params)

    return matrices.dense_cotangent(product, ct, dimension_numbers)


bcoo_dot_general_p = buffer_primitive(
    "bcoo_dot_general",
    _dot_general,
    linear={0: transposed(_dot_general, 0), 2: _dense_cotangent},
    batch=dot_general_batch,
    lower={"cpu": matrices.lower_cpu(_dot_general)},
)


# Dense and dense, at given places of the result


def _sampled(a: Any, b: Any, indices: Any, *, dimension_numbers: Any, precision: Any = None) -> Any:
    (a_contract, b_contract), (a_batch, b_batch) = dimension_numbers
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    a, b = promote_dtypes(a, b)
    a_free = remaining(range(a.ndim), a_contract, a_batch)
    b_free = remaining(range(b.ndim), b_contract, b_batch)
    out_of_a = {d: i for i, d in enumerate((*a_batch, *a_free))}
    out_of_b = {d: i for i, d in enumerate(b_batch)}
    out_of_b |= {d: len(out_of_a) + i for i, d in enumerate(b_free)}
    sizes = {i: a.shape[d] for d, i in out_of_a.items()} | {
        i: b.shape[d] for d, i in out_of_b.items()
    }
    indices = places.full_batch(indices, [sizes[i] for i in range(n_batch)])

    def gathered(x: Any, out: dict[int, int]) -> tuple[Any, list[int]]:
        along = {d: i for d, i in out.items() if i < n_batch}
        columns = {d: i - n_batch for d, i in out.items() if n_batch <= i < n_batch + n_sparse}
        rest = remaining(range(x.ndim), along, columns)
        return places.gather_at(x, indices, along, columns), rest

    (a, a_rest), (b, b_rest) = gathered(a, out_of_a), gathered(b, out_of_b)
    of_a, of_b = (
        (lambda d: n_batch + 1 + a_rest.index(d)),
        (lambda d: n_batch + 1 + b_rest.index(d)),
    )
    both = [(of_a(d), of_b(e)) for d, e in zip(a_batch, b_batch) if d in a_rest]
    each = list(range(n_batch + 1))
    contract = [of_a(d) for d in a_contract], [of_b(d) for d in b_contract]
    batch = each + [d for d, _ in both], each + [e for _, e in both]
    return lax.dot_general(a, b, (contract, batch), precision=precision)


def _sampled_batch(
    size: int, args: Any, dims: Any, *, dimension_numbers: Any, **params: Any
) -> Any:
    (a_contract, b_contract), (a_batch, b_batch) = dimension_numbers
    a, b, indices = args
    # The new dimension of the result is in front: it is a batch dimension of both operands.
    a, b = (places.full_batch(to_front(x, d), (size,)) for x, d in zip((a, b), dims))
    shift = lambda ds: tuple(d + 1 for d in ds)
    numbers = (
        (shift(a_contract), shift(b_contract)),
        ((0, *shift(a_batch)), (0, *shift(b_batch))),
    )
    return (a, b, to_front(indices, dims[2])), dict(params, dimension_numbers=numbers)


bcoo_dot_general_sampled_p = buffer_primitive(
    "bcoo_dot_general_sampled", _sampled, linear=(0, 1), batch=_sampled_batch
)


# Sparse and sparse: every pair of stored elements


def _aligned(x: Any, lead: list[int], new_axes: list[int]) -> Any:
    """`x` with its batch dimensions in the order `lead`, and new ones of size 1."""
    x = lax.transpose(x, (*lead, *range(len(lead), x.ndim)))
    return lax.expand_dims(x, new_axes) if new_axes else x


def pairs(lhs: Any, rhs: Any, batch: Any) -> tuple[Any, Any]:
    """Rows of shape `(*batch, n1 * n2, …)`: the left and right ones of all pairs of rows."""
    n_batch = len(batch)
    n1, n2 = lhs.shape[n_batch], rhs.shape[n_batch]
    out = []
    for x, axis in ((lhs, n_batch), (rhs, n_batch + 1)):
        x = places.full_batch(x, batch)
        rest = x.shape[n_batch + 1 :]
        dims = (*range(n_batch), axis, *range(n_batch + 2, n_batch + 2 + len(rest)))
        x = lax.broadcast_in_dim(x, (*batch, n1, n2, *rest), dims)
        out.append(lax.reshape(x, (*batch, n1 * n2, *rest)))
    return out[0], out[1]


def equal_rows(lhs: Any, rhs: Any) -> Any:
    """Which rows of indices are equal, as bools."""
    return lax.reduce_and(lax.eq(lhs, rhs), (lhs.ndim - 1,))


def _spdot_general(
    lhs_data: Any, lhs_indices: Any, rhs_data: Any, rhs_indices: Any, *, lhs_spinfo: SparseInfo,
    rhs_spinfo: SparseInfo, dimension_numbers: Any, preferred_element_type: Any,
) -> Any:  # fmt: skip
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    lhs_nb, rhs_nb = lhs_indices.ndim - 2, rhs_indices.ndim - 2
    lhs_data, rhs_data = promote_dtypes(countable(lhs_data), countable(rhs_data))
    lhs_indices, rhs_indices = promote_dtypes(lhs_indices, rhs_indices)
    out_dtype = lhs_data.dtype if preferred_element_type is None else preferred_element_type
    lhs_free = remaining(range(lhs_nb), lhs_batch)
    rhs_free = remaining(range(rhs_nb), rhs_batch)
    common = len(lhs_batch)
    full = lambda x, info, n: places.full_batch(x, info.shape[:n])
    middle = common + len(lhs_free)
    lhs = [
        _aligned(full(x, lhs_spinfo, lhs_nb), [*lhs_batch, *lhs_free],
                 list(range(middle, middle + len(rhs_free))))
        for x in (lhs_data, lhs_indices)
    ]  # fmt: skip
    rhs = [
        _aligned(full(x, rhs_spinfo, rhs_nb), [*rhs_batch, *rhs_free], list(range(common, middle)))
        for x in (rhs_data, rhs_indices)
    ]
    batch = tuple(lhs_spinfo.shape[d] for d in (*lhs_batch, *lhs_free))
    batch += tuple(rhs_spinfo.shape[d] for d in rhs_free)
    lhs_nse, rhs_nse = lhs_indices.shape[-2], rhs_indices.shape[-2]
    lhs_data, rhs_data = pairs(lhs[0], rhs[0], batch)
    lhs_indices, rhs_indices = pairs(lhs[1], rhs[1], batch)

    lhs_columns = [d - lhs_nb for d in lhs_contract]
    rhs_columns = [d - rhs_nb for d in rhs_contract]
    padding = lax.bitwise_or(
        places.out_of_bounds(lhs_indices, lhs_spinfo.shape[lhs_nb:]),
        places.out_of_bounds(rhs_indices, rhs_spinfo.shape[rhs_nb:]),
    )
    meet = equal_rows(
        places.columns_of(lhs_indices, lhs_columns), places.columns_of(rhs_indices, rhs_columns)
    )
    products = lax.mul(lhs_data, rhs_data)
    if products.dtype != out_dtype:
        wide = _wider(products.dtype, out_dtype)
        products = lax.mul(*(lax.convert_element_type(x, wide) for x in (lhs_data, rhs_data)))
    nothing = lax.bitwise_or(padding, lax.bitwise_not(meet))
    products = lax.select(nothing, lax.full_like(products, 0), products)
    left = remaining(range(lhs_indices.shape[-1]), lhs_columns)
    right = remaining(range(rhs_indices.shape[-1]), rhs_columns)
    indices = lax.concatenate(
        [places.columns_of(lhs_indices, left), places.columns_of(rhs_indices, right)],
        lhs_indices.ndim - 1,
    )
    sizes = [lhs_spinfo.shape[lhs_nb + c] for c in left]
    sizes += [rhs_spinfo.shape[rhs_nb + c] for c in right]
    if sizes:
        indices = places.masked_rows(padding, indices, places.fill_row(sizes, indices))
    info = SparseInfo((*batch, *sizes))
    # Where nothing is left of an operand's indices, its elements end in the same places.
    nse = min((lhs_nse if left else 1) * (rhs_nse if right else 1), math.prod(sizes))
    data, indices = ordering.sum_duplicates(products, indices, spinfo=info, nse=nse)
    return lax.convert_element_type(data, out_dtype), indices


def _spdot_batch(
    size: int, args: Any, dims: Any, *, lhs_spinfo: SparseInfo, rhs_spinfo: SparseInfo,
    dimension_numbers: Any, preferred_element_type: Any,
) -> Any:  # fmt: skip
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    shift = lambda ds: tuple(d + 1 for d in ds)
    params = dict(
        lhs_spinfo=with_batch(lhs_spinfo, size),
        rhs_spinfo=with_batch(rhs_spinfo, size),
        dimension_numbers=(
            (shift(lhs_contract), shift(rhs_contract)),
            ((0, *shift(lhs_batch)), (0, *shift(rhs_batch))),
        ),
        preferred_element_type=preferred_element_type,
    )
    return map(to_front, args, dims), params


bcoo_spdot_general_p = buffer_primitive(
    "bcoo_spdot_general", _spdot_general, linear=(0, 2), batch=_spdot_batch, multiple_results=True
)
