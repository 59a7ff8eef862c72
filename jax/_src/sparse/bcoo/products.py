"""Products of BCOO arrays with dense ones and with each other."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import partial_eval as pe
from jax._src.lax import convolution, lax
from jax._src.lax.convolution.shapes import conv_dimension_numbers
from jax._src.lax.lax.precision import canonicalize_precision
from jax._src.lax.lax.windows import padtype_to_pads
from jax._src.numpy import ufuncs
from jax._src.numpy.util import broadcast_to, promote_dtypes, to_array
from jax._src.sparse.base import JAXSparse, check_dense
from jax._src.sparse.bcoo import contraction, convert, places
from jax._src.sparse.bcoo.array import BCOO, MODULE, check_bcoo
from jax._src.sparse.bcoo.functions import bcoo_update_layout, full_buffers
from jax._src.sparse.bcoo.shapes import sparse_sizes
from jax._src.sparse.util import remaining, replicated, with_out_sharding
from jax._src.tree_util import tree_map
from jax._src.util import set_module


def static_numbers(dimension_numbers: Any) -> Any:
    """Dimension numbers as tuples of ints."""
    (lc, rc), (lb, rb) = dimension_numbers
    as_tuple = lambda ds: tuple(operator.index(d) for d in ds)
    return (as_tuple(lc), as_tuple(rc)), (as_tuple(lb), as_tuple(rb))


def check_dot(lhs: Any, rhs: Any, dimension_numbers: Any, preferred: Any = None) -> None:
    """Raise the error of `lax.dot_general` for such operands, if there is one."""
    dtype = np.dtype(np.float32)
    if preferred is not None:
        dtype = dtypes.result_type(lhs.dtype, rhs.dtype)
        dtype = np.dtype(np.int32) if dtype.kind == "b" else dtype
        if dtype.kind == "c" and np.dtype(preferred).kind == "f":
            # Then the result is the real part.
            preferred = np.result_type(preferred, np.complex64)
    avals = [core.ShapedArray(x.shape, dtype) for x in (lhs, rhs)]
    dot = lambda x, y: [lax.dot_general(x, y, dimension_numbers, preferred_element_type=preferred)]
    pe.abstract_eval_fun(dot, *avals)


def canonical_type(preferred: Any) -> Any:
    """The type that results have where `preferred` is wanted; None stays None."""
    return None if preferred is None else lax.full((), 0, preferred).dtype


@set_module(MODULE)
def bcoo_dot_general(
    lhs: BCOO | Array,
    rhs: BCOO | Array,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> BCOO | Array:
    """Contract dimensions of two arrays, of which any may be sparse.

    Args:
      lhs, rhs: BCOO or dense arrays.
      dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`, as for
        `jax.lax.dot_general`. Batch dimensions of sparse operands must be so in their layout too.
      precision: of products of dense parts, as for `jax.lax.dot_general`.
      preferred_element_type: the type of the result; sums are accumulated in it, or in the type of
        the operands if that is wider.
      out_sharding: sharding of a dense result over Explicit axes of a mesh. Of a product with a sparse
        array, the operands are first copied to all devices; without it they must not be sharded in
        dimensions that are gathered or added up.

    Returns:
      BCOO array if both operands are sparse, else a dense one.

    Raises:
      TypeError: if shapes do not fit together.
      NotImplementedError: if the layout of a sparse operand does not allow it.

    >>> from jax.experimental import sparse
    >>> numbers = (((1,), (0,)), ((), ()))
    >>> sparse.bcoo_dot_general(sparse.eye(2), jnp.arange(2.), dimension_numbers=numbers).tolist()
    [0.0, 1.0]
    """
    numbers = static_numbers(dimension_numbers)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    for name, x in (("lhs", lhs), ("rhs", rhs)):
        if isinstance(x, JAXSparse):
            check_bcoo("bcoo_dot_general", x, name)
    sparse = isinstance(lhs, BCOO), isinstance(rhs, BCOO)
    if not any(sparse):
        return lax.dot_general(
            lhs, rhs, numbers, precision=precision,
            preferred_element_type=preferred_element_type, out_sharding=out_sharding,
        )  # fmt: skip
    preferred = canonical_type(preferred_element_type)
    if all(sparse):
        if out_sharding is not None:
            raise NotImplementedError(
                "bcoo_dot_general: the product of two sparse arrays is sparse, so that it takes no "
                "out_sharding; shard its buffers by jax.sharding.reshard."
            )
        return _spdot_general(lhs, rhs, numbers, preferred)
    if out_sharding is not None:
        lhs, rhs = tree_map(replicated, (lhs, rhs))
    if sparse[0]:
        rhs = to_array(rhs)
        check_dot(lhs, rhs, numbers, preferred)
        out = _dense_product(lhs, rhs, numbers, precision, preferred)
        return with_out_sharding(out, out_sharding)
    lhs = to_array(lhs)
    check_dot(lhs, rhs, numbers, preferred)
    swapped = (rhs_contract, lhs_contract), (rhs_batch, lhs_batch)
    out = _dense_product(rhs, lhs, swapped, precision, preferred)
    n_batch = len(lhs_batch)
    n_rhs = rhs.ndim - n_batch - len(rhs_contract)
    order = [*range(n_batch), *range(n_batch + n_rhs, out.ndim), *range(n_batch, n_batch + n_rhs)]
    return with_out_sharding(lax.transpose(out, order), out_sharding)


def _dense_product(mat: BCOO, dense: Any, numbers: Any, precision: Any, preferred: Any) -> Any:
    check_layout("bcoo_dot_general", mat, numbers)
    return contraction.bcoo_dot_general_p.bind(
        mat.data,
        mat.indices,
        dense,
        dimension_numbers=numbers,
        lhs_spinfo=mat._info,
        preferred_element_type=preferred,
        precision=canonicalize_precision(precision),
    )


def check_layout(name: str, mat: Any, numbers: Any) -> None:
    """Raise NotImplementedError unless the layout of `mat` allows a product with a dense array."""
    (contract, _), (batch, _) = numbers
    n_batch = mat.n_batch
    if any(d >= n_batch for d in batch):
        raise NotImplementedError(
            f"{name} batch dimensions must be among the batch dimensions in the sparse "
            f"representation.\ngot lhs_batch={batch}, {n_batch=}"
        )
    if any(d >= n_batch + mat.n_sparse for d in contract):
        raise NotImplementedError(f"{name}: contracting over dense dimensions.")


def _spdot_general(lhs: BCOO, rhs: BCOO, numbers: Any, preferred: Any) -> BCOO:
    check_dot(lhs, rhs, numbers, preferred)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    if lhs.n_dense or rhs.n_dense:
        raise NotImplementedError("bcoo_spdot_general: dense dimensions of sparse operands")
    if any(d >= lhs.n_batch for d in lhs_batch) or any(d >= rhs.n_batch for d in rhs_batch):
        raise NotImplementedError(
            "bcoo_spdot_general: batch_dims must correspond to batch dimensions of the sparse "
            "representation."
        )
    if any(d < lhs.n_batch for d in lhs_contract) or any(d < rhs.n_batch for d in rhs_contract):
        raise NotImplementedError("bcoo_spdot_general only supports contraction of sparse indices.")
    if rhs.n_batch > len(rhs_batch) and lhs.n_sparse > len(lhs_contract):
        raise ValueError(
            "bcoo_spdot_general: cannot have unused batch dims on rhs with unused sparse dims on lhs."
        )
    buffers = contraction.bcoo_spdot_general_p.bind(
        *lhs._bufs,
        *rhs._bufs,
        lhs_spinfo=lhs._info,
        rhs_spinfo=rhs._info,
        dimension_numbers=numbers,
        preferred_element_type=preferred,
    )
    shape = [lhs.shape[d] for d in lhs_batch]
    shape += [lhs.shape[d] for d in remaining(range(lhs.ndim), lhs_contract, lhs_batch)]
    shape += [rhs.shape[d] for d in remaining(range(rhs.ndim), rhs_contract, rhs_batch)]
    return BCOO(buffers, shape=shape)


@set_module(MODULE)
def bcoo_dot_general_sampled(
    A: Array, B: Array, indices: Array, *, dimension_numbers: Any
) -> Array:
    """Contract dimensions of two dense arrays, and compute some elements of the result only.

    Args:
      A, B: dense arrays.
      indices: indices of a BCOO array of the shape of the result, `(*batch, nse, n_sparse)`.
      dimension_numbers: as for `jax.lax.dot_general`.

    Returns:
      Data of that BCOO array, `(*batch, nse, *dense)`.

    Raises:
      TypeError: if shapes do not fit together, or indices are not integers.
      ValueError: if the result has fewer dimensions than the indices are for.

    >>> from jax.experimental import sparse
    >>> x, at = jnp.arange(4.).reshape(2, 2), jnp.array([[0, 0], [1, 1]])
    >>> numbers = (((1,), (0,)), ((), ()))
    >>> sparse.bcoo_dot_general_sampled(x, x, at, dimension_numbers=numbers).tolist()
    [2.0, 11.0]
    """
    A, B, indices = to_array(A), to_array(B), to_array(indices)
    numbers = static_numbers(dimension_numbers)
    check_dot(A, B, numbers)
    if indices.ndim < 2:
        raise ValueError(f"indices must have at least 2 dimensions, got shape {indices.shape}")
    if not np.issubdtype(indices.dtype, np.integer):
        raise TypeError(f"indices must be integers, got {indices.dtype}")
    (contract, _), (batch, _) = numbers
    ndim = A.ndim + B.ndim - 2 * len(contract) - len(batch)
    if ndim < indices.ndim - 2 + indices.shape[-1]:
        raise ValueError(
            f"indices of shape {indices.shape} are for more dimensions than the {ndim} of the result"
        )
    return contraction.bcoo_dot_general_sampled_p.bind(A, B, indices, dimension_numbers=numbers)


@set_module(MODULE)
def bcoo_multiply_dense(sp_mat: BCOO, v: Array) -> Array:
    """Multiply a BCOO array by a dense one, element by element.

    Args:
      sp_mat: BCOO array.
      v: dense array that can be broadcast to the shape of `sp_mat`.

    Returns:
      The data of a BCOO array with the indices of `sp_mat`.

    Raises:
      NotImplementedError: if the product would have another shape.

    >>> from jax.experimental import sparse
    >>> sparse.bcoo_multiply_dense(sparse.eye(3), jnp.arange(3.)).tolist()
    [0.0, 1.0, 2.0]
    """
    check_bcoo("bcoo_multiply_dense", sp_mat, "sp_mat")
    check_dense("bcoo_multiply_dense", "v", v)
    v = to_array(v)
    shape, ndim = sp_mat.shape, sp_mat.ndim
    if v.ndim > ndim or any(s == 1 and n != 1 for s, n in zip(shape[::-1], v.shape[::-1])):
        raise NotImplementedError(
            "multiplication between sparse and dense is only implemented for cases where the "
            f"output shape matches the sparse matrix shape. Got shape={shape}, v.shape={v.shape}"
        )
    if any(n not in (1, s) for s, n in zip(shape[::-1], v.shape[::-1])):
        raise ValueError(f"Incompatible shapes for broadcasting: shapes={[v.shape, shape]}")
    data = sp_mat.data
    if v.ndim == 0:
        return ufuncs.multiply(data, v)
    n_batch, n_sparse = sp_mat.n_batch, sp_mat.n_sparse
    v = lax.reshape(v, (1,) * (ndim - v.ndim) + v.shape)
    # Only dimensions that vary are read at indices; the others are broadcast afterwards.
    columns = [c for c in range(n_sparse) if v.shape[n_batch + c] != 1]
    v = lax.squeeze(v, [n_batch + c for c in range(n_sparse) if c not in columns])
    if not columns:
        factor = lax.expand_dims(v, (n_batch,))
    else:
        batch = shape[:n_batch]
        wide = (*batch, *v.shape[n_batch:])
        v = lax.broadcast_in_dim(v, wide, tuple(range(v.ndim)))
        at = places.columns_of(sp_mat.indices, columns)
        factor = convert.bcoo_extract_p.bind(at, v, assume_unique=True)
    size = (
        tuple(max(a, b) for a, b in zip(data.shape, factor.shape))
        if 0 not in data.shape
        else data.shape
    )
    return ufuncs.multiply(broadcast_to(data, size), broadcast_to(factor, size))


@set_module(MODULE)
def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """Multiply two BCOO arrays, element by element.

    Args:
      lhs, rhs: BCOO arrays whose shapes can be broadcast together, with equal layouts.

    Returns:
      BCOO array that stores `lhs.nse * rhs.nse` elements: the products first, and then padding.

    Raises:
      TypeError: if the numbers of dimensions differ.
      NotImplementedError: if the numbers of batch or dense dimensions differ.

    >>> from jax.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([0., 2., 3.]))
    >>> sparse.bcoo_multiply_sparse(x, x).todense().tolist()
    [0.0, 4.0, 9.0]
    """
    check_bcoo("bcoo_multiply_sparse", lhs, "lhs")
    check_bcoo("bcoo_multiply_sparse", rhs, "rhs")
    if lhs.ndim != rhs.ndim:
        raise TypeError(
            "bcoo_multiply_sparse: arrays must have same number of dimensions, got "
            f"{lhs.shape}, {rhs.shape}"
        )
    if lhs.n_dense != rhs.n_dense:
        raise NotImplementedError(
            f"bcoo_multiply_sparse: arrays with differing numbers of dense dimensions: {lhs}, {rhs}"
        )
    n_batch = min(lhs.n_batch, rhs.n_batch)
    lhs, rhs = (bcoo_update_layout(x, n_batch=n_batch) for x in (lhs, rhs))
    if any(a != b and 1 not in (a, b) for a, b in zip(lhs.shape, rhs.shape)):
        raise ValueError(
            f"bcoo_multiply_sparse: shapes {lhs.shape} and {rhs.shape} cannot be broadcast together"
        )
    shape = tuple(b if a == 1 else a for a, b in zip(lhs.shape, rhs.shape))
    batch = shape[:n_batch]
    (lhs_data, lhs_indices), (rhs_data, rhs_indices) = full_buffers(lhs), full_buffers(rhs)
    lhs_data, rhs_data = contraction.pairs(*promote_dtypes(lhs_data, rhs_data), batch)
    lhs_indices, rhs_indices = contraction.pairs(*promote_dtypes(lhs_indices, rhs_indices), batch)
    # Along dimensions of size 1, one array has its only element everywhere.
    both = [c for c, (a, b) in enumerate(zip(sparse_sizes(lhs), sparse_sizes(rhs))) if a == b]
    meet = contraction.equal_rows(
        places.columns_of(lhs_indices, both), places.columns_of(rhs_indices, both)
    )
    padding = lax.bitwise_or(
        places.out_of_bounds(lhs_indices, sparse_sizes(lhs)),
        places.out_of_bounds(rhs_indices, sparse_sizes(rhs)),
    )
    valid = lax.bitwise_and(meet, lax.bitwise_not(padding))
    n_dense = lhs.n_dense
    data = lax.mul(
        *(
            broadcast_to(x, (*x.shape[: n_batch + 1], *shape[len(shape) - n_dense :]))
            for x in (lhs_data, rhs_data)
        )
    )
    indices = lax.max(lhs_indices, rhs_indices)
    sizes = shape[n_batch : len(shape) - n_dense]
    invalid = lax.bitwise_not(valid)
    data = places.masked_rows(invalid, data, 0)
    if sizes:
        indices = places.masked_rows(invalid, indices, places.fill_row(sizes, indices))
    # A stable sort by validity puts the products first.
    key = lax.convert_element_type(invalid, np.int32)
    sharding = core.typeof(key)._sharding
    position = lax.broadcasted_iota(np.int32, key.shape, n_batch, out_sharding=sharding)
    _, position = lax.sort((key, position), dimension=n_batch, num_keys=1, is_stable=True)
    along = {d: d for d in range(n_batch)}
    at = lax.expand_dims(position, (n_batch + 1,))
    data, indices = (places.gather_at(x, at, along, {n_batch: 0}) for x in (data, indices))
    return BCOO((data, indices), shape=shape)


@set_module(MODULE)
def bcoo_conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> BCOO:
    """Convolve two arrays of one spatial dimension, with one batch and one feature.

    Args:
      lhs: BCOO or dense array.
      rhs: BCOO or dense array.
      window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
        batch_group_count, precision, preferred_element_type: as for
        `jax.lax.conv_general_dilated`. Strides and dilations must be 1.
      out_sharding: not supported, must be None.

    Returns:
      BCOO array with two batch dimensions, which stores `lhs.nse * rhs.nse` elements.

    Raises:
      NotImplementedError: for other convolutions.

    >>> from jax.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[[1., 0., 0., 2.]]]))
    >>> y = sparse.BCOO.fromdense(jnp.array([[[1., 3.]]]))
    >>> sparse.bcoo_conv_general_dilated(x, y, window_strides=(1,), padding="VALID").todense().tolist()
    [[[1.0, 0.0, 6.0]]]
    """
    if out_sharding is not None:
        raise NotImplementedError("bcoo convolution with out_sharding.")
    options = dict(
        window_strides=window_strides, padding=padding, lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation, dimension_numbers=dimension_numbers,
        feature_group_count=feature_group_count, batch_group_count=batch_group_count,
        precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip
    avals = [core.ShapedArray(x.shape, x.dtype) for x in (lhs, rhs)]
    conv = lambda x, y: [convolution.conv_general_dilated(x, y, **options)]
    (out,) = pe.abstract_eval_fun(conv, *avals)
    if lhs.ndim != 3:
        raise NotImplementedError("bcoo convolution with other than one spatial dimension.")
    if any(d != 1 for d in lhs_dilation or ()):
        raise NotImplementedError("bcoo convolution with lhs_dilation.")
    if any(d != 1 for d in rhs_dilation or ()):
        raise NotImplementedError("bcoo convolution with rhs_dilation.")
    if any(s != 1 for s in window_strides):
        raise NotImplementedError("bcoo convolution with non-unit window_strides.")
    if feature_group_count != 1 or batch_group_count != 1:
        raise NotImplementedError("bcoo convolution with groups.")
    numbers = conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    if (numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec) != ((0, 1, 2),) * 3:
        raise NotImplementedError("bcoo convolution with non-default dimension_numbers.")
    if (*lhs.shape[:2], *rhs.shape[:2]) != (1, 1, 1, 1):
        raise NotImplementedError(
            "bcoo convolution with leading dimensions other than 1, got shapes "
            f"{lhs.shape} and {rhs.shape}"
        )
    width, window = lhs.shape[2], rhs.shape[2]
    if isinstance(padding, str):
        ((before, _),) = padtype_to_pads((width,), (window,), (1,), padding)
    else:
        before = padding[0][0]
    lhs, rhs = _stored_line(lhs, rhs), _stored_line(rhs, lhs)
    (lhs_data, lhs_at), (rhs_data, rhs_at) = lhs._bufs, rhs._bufs
    lhs_data, rhs_data = contraction.pairs(lhs_data, rhs_data, ())
    lhs_at, rhs_at = contraction.pairs(*promote_dtypes(lhs_at, rhs_at), ())
    place = lhs_at - rhs_at + before
    padding_rows = lax.bitwise_or(
        places.out_of_bounds(lhs_at, lhs.shape), places.out_of_bounds(rhs_at, rhs.shape)
    )
    negative = lax.reduce_or(lhs_at + before < rhs_at, (1,))
    data = lax.convert_element_type(lax.mul(lhs_data, rhs_data), out.dtype)
    # Elements beyond the end are padding by their index.
    data = places.masked_rows(lax.bitwise_or(padding_rows, negative), data, 0)
    place = places.masked_rows(negative, place, 0)
    return BCOO((lax.expand_dims(data, (0, 1)), lax.expand_dims(place, (0, 1))), shape=out.shape)


def _stored_line(x: Any, other: Any) -> BCOO:
    """The last dimension of an array of shape `(1, 1, n)`, as a BCOO array of one dimension.

    The indices of a dense one have the type of those of the other, sparse one.
    """
    if not isinstance(x, BCOO):
        n = x.shape[2]
        at = lax.expand_dims(lax.iota(other.indices.dtype, n), (1,))
        return BCOO((lax.reshape(x, (n,)), at), shape=(n,))
    x = bcoo_update_layout(bcoo_update_layout(x, n_dense=0), n_batch=0, on_inefficient=None)
    return BCOO((x.data, places.columns_of(x.indices, [2])), shape=x.shape[2:])
