"""Exchange of slices of different sizes between the indices of a named axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.ad_util import Zero
from jax._src.core import typeof
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import lax, slicing
from jax._src.lax.parallel import lowering
from jax._src.lax.parallel.axes import (
    at_front,
    axes_and_groups,
    axis_size,
    check_elements,
    check_operand,
    collective,
    effects,
    gather_rows,
    group_size,
    manual_axes,
    merge_dims,
    places,
    same_variation,
    show_axes,
    varying_over,
    with_mesh_axes,
)
from jax._src.lax.parallel.exchanges import all_to_all
from jax._src.lax.parallel.gathers import all_gather, all_rows, own_rows
from jax._src.lax.parallel.index import axis_index
from jax._src.lax.utils import insert_pvary

_NAMES = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")


def ragged_all_to_all(
    operand: Any, output: Any, input_offsets: Any, send_sizes: Any, output_offsets: Any,
    recv_sizes: Any, *, axis_name: Any, axis_index_groups: Any = None,
) -> Any:  # fmt: skip
    """Exchange slices of different sizes along the leading dimension over a named axis.

    Of the K slices, those from `i * K / n` on, as many as K / n, belong to index i of the axis of
    size n. Index d sends slice k of `operand` to the index that it belongs to, which writes it into
    its `output` at the offset that the sender gives.

    Args:
      operand: array of shape (N, ...): the slices to send, and possibly padding.
      output: array of shape (M, ...), whose values are kept where nothing is received.
      input_offsets: integers of shape (K,): where each slice begins in this index's `operand`.
      send_sizes: integers of shape (K,): the length of each slice.
      output_offsets: integers of shape (K,): where each slice is written in the receiver's `output`.
      recv_sizes: integers of shape (K,): the length of the slices received, ordered by sender; those
        that the senders give in `send_sizes`. For derivatives, neither the slices of `operand` nor
        those written into an `output` may overlap.
      axis_name: name of the axis, or a tuple of names.
      axis_index_groups: lists of axis indices to exchange within, of equal sizes.

    Returns:
      An array of the shape and dtype of `output`.

    Raises:
      NameError: if the axis is not bound.
      ValueError: for offsets and sizes that are not integer vectors of one length, a multiple of n;
        for operand and output with different dtypes or trailing dimensions.

    >>> def f(x, sizes):  # both indices send one number to index 0, and the others to index 1
    ...     offsets = jnp.array([0, 1])
    ...     written = jnp.array([0, 0]) + jax.lax.axis_index("i") * jnp.array([1, 2])
    ...     received = jax.lax.all_to_all(sizes, "i", 0, 0)
    ...     return jax.lax.ragged_all_to_all(
    ...         x, jnp.zeros(4), offsets, sizes, written, received, axis_name="i")
    >>> x = jnp.array([[1., 2., 3.], [4., 5., 0.]])
    >>> print(jax.vmap(f, axis_name="i")(x, jnp.array([[1, 2], [1, 1]])))
    [[1. 4. 0. 0.]
     [2. 3. 5. 0.]]
    """
    axes, groups, _ = axes_and_groups("ragged_all_to_all", axis_name, axis_index_groups)
    args = (operand, output, input_offsets, send_sizes, output_offsets, recv_sizes)
    _check([typeof(x) for x in args], axes, groups)
    if manual_axes(axes):
        args = insert_pvary(*[varying_over("ragged_all_to_all", x, axes) for x in args])
    return ragged_all_to_all_p.bind(*args, axis_name=axes, axis_index_groups=groups)


def _check(avals, axes, groups) -> None:
    operand, output = avals[:2]
    n = group_size(axes, groups)
    if not operand.shape or not output.shape or operand.shape[1:] != output.shape[1:]:
        raise ValueError(
            "ragged_all_to_all operand and output must have a leading dimension and be equal in the "
            f"others, got shapes {operand.shape} and {output.shape}"
        )
    if operand.dtype != output.dtype:
        raise ValueError(
            "ragged_all_to_all operand and output must have the same dtype, got "
            f"{operand.str_short()} and {output.str_short()}"
        )
    for name, x in zip(_NAMES, avals[2:]):
        if not dtypes.issubdtype(x.dtype, np.integer):
            raise ValueError(f"ragged_all_to_all {name} must be integer type, got {x.str_short()}.")
        if len(x.shape) != 1 or x.shape[0] < 1:
            raise ValueError(
                f"ragged_all_to_all {name} must be rank 1 with positive dimension size, but got "
                f"shape {x.shape}"
            )
        if x.shape != avals[2].shape:
            raise ValueError(
                f"ragged_all_to_all {name} must have the length of input_offsets, "
                f"{avals[2].shape[0]}, got shape {x.shape}"
            )
    if avals[2].shape[0] % n:
        raise ValueError(
            f"ragged_all_to_all takes the same number of slices for each of the {n} indices of axis "
            f"{show_axes(axes)}, got {avals[2].shape[0]} slices"
        )


def _types(operand, output, *indices, axis_name, axis_index_groups):
    avals = (operand, output, *indices)
    for x in avals:
        check_operand("ragged_all_to_all", x, axis_name)
        same_variation("ragged_all_to_all", x, axis_name)
    _check(avals, axis_name, axis_index_groups)
    return output.strip_weak_type(), effects(axis_name)


def _lower(ctx, *args, axis_name, axis_index_groups):
    groups = lowering.replica_groups(ctx, axis_name, axis_index_groups)
    config = {"channel_id": mlir.i64_attr(mlir.COLLECTIVE_CHANNEL_ID), "replica_groups": groups}
    op = mlir.custom_call(
        "ragged_all_to_all", result_types=[lowering.result_type(ctx)], operands=args,
        backend_config=config, api_version=4,
    )  # fmt: skip
    return [op.results[0]]


# ---------------------------------------------------------------------------------------------------
# By operations on one device, where all senders' values are


def _received(operand, output, offsets, sizes, positions):
    """Write slices into one index's `output`.

    Args:
      operand: (senders, N, ...), the senders' operands.
      output: (M, ...).
      offsets, sizes, positions: (senders, slices), of the slices that are sent to this index.
    """
    m, n = output.shape[0], operand.shape[1]
    if not m or not n:
        return output
    offsets, sizes, positions = (
        lax.convert_element_type(a, np.int32) for a in (offsets, sizes, positions)
    )
    senders = lax.broadcasted_iota(np.int32, offsets.shape, 0)
    source = lax.add(offsets, lax.mul(senders, lax.full_like(senders, n)))
    k = offsets.size
    source, sizes, positions = (
        lax.broadcast_in_dim(lax.reshape(a, (k,)), (k, m), (0,)) for a in (source, sizes, positions)
    )
    rows = lax.broadcasted_iota(np.int32, (k, m), 1)
    inside = lax.bitwise_and(lax.ge(rows, positions), lax.lt(rows, lax.add(positions, sizes)))
    at = lax.select(inside, lax.add(source, lax.sub(rows, positions)), lax.full_like(source, -1))
    at = lax.reduce_max(at, (0,))
    found = lax.ge(at, lax.full_like(at, 0))
    dnums = slicing.GatherDimensionNumbers(
        offset_dims=tuple(range(1, output.ndim)), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    taken = slicing.gather(
        merge_dims(operand, 0), lax.expand_dims(at, (1,)), dnums, (1, *output.shape[1:]),
        mode=slicing.GatherScatterMode.CLIP,
    )  # fmt: skip
    return lax.select(lax.broadcast_in_dim(found, output.shape, (0,)), taken, output)


def _by_gathering(
    operand, output, input_offsets, send_sizes, output_offsets, recv_sizes, *, axis_name,
    axis_index_groups,
):  # fmt: skip
    """Exchange on platforms without an op for it: gather all operands, and take the slices."""
    operand, *slices = (
        all_gather(x, axis_name, axis_index_groups=axis_index_groups)
        for x in (operand, input_offsets, send_sizes, output_offsets)
    )
    mine = axis_index(axis_name)
    if axis_index_groups is not None:
        _, position = places(axis_index_groups)
        mine = slicing.dynamic_index_in_dim(position, mine, 0, keepdims=False)
    n, k = slices[0].shape
    start = lax.mul(mine, np.int32(k // n))
    slices = [slicing.dynamic_slice_in_dim(a, start, k // n, 1) for a in slices]
    return _received(operand, output, *slices)


# ---------------------------------------------------------------------------------------------------
# Derivatives


def _jvp(primals, tangents, **params):
    operand, output, *indices = primals
    out = ragged_all_to_all_p.bind(*primals, **params)
    t_operand, t_output = tangents[:2]
    if type(t_operand) is Zero and type(t_output) is Zero:
        return out, ad.zero_of(out)
    t_operand, t_output = ad.instantiate_zeros(t_operand), ad.instantiate_zeros(t_output)
    return out, ragged_all_to_all_p.bind(t_operand, t_output, *indices, **params)


def _transpose(
    ct, operand, output, input_offsets, send_sizes, output_offsets, recv_sizes, *, axis_name,
    axis_index_groups,
):  # fmt: skip
    """Send the slices of the cotangent back; what was received does not depend on `output`."""
    exchange = dict(axis_name=axis_name, axis_index_groups=axis_index_groups)
    written = all_to_all(output_offsets, split_axis=0, concat_axis=0, tiled=True, **exchange)
    ct_operand = ct_output = None
    if ad.is_undefined_primal(operand):
        zeros = ad.instantiate_zeros(Zero(operand.aval.to_ct_aval()))
        read = all_to_all(input_offsets, split_axis=0, concat_axis=0, tiled=True, **exchange)
        ct_operand = ragged_all_to_all_p.bind(
            ct, zeros, written, recv_sizes, read, send_sizes, **exchange
        )
    if ad.is_undefined_primal(output):
        mask = _rows_within(written, recv_sizes, output.aval.shape[0])
        mask = lax.broadcast_in_dim(mask, output.aval.shape, (0,))
        ct_output = lax.select(mask, lax.full_like(ct, 0), ct)
    return [ct_operand, ct_output, None, None, None, None]


def _rows_within(starts, sizes, m: int):
    """Return which of m rows are in one of the ranges `[start, start + size)`."""
    starts, sizes = (lax.convert_element_type(a, np.int32) for a in (starts, sizes))
    dnums = slicing.ScatterDimensionNumbers(
        update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )
    counts = lax.full((m,), 0, np.int32)
    for at, change in ((starts, 1), (lax.add(starts, sizes), -1)):
        counts = slicing.scatter_add(
            counts, lax.expand_dims(at, (1,)), lax.full_like(at, change), dnums,
            mode=slicing.GatherScatterMode.FILL_OR_DROP,
        )  # fmt: skip
    inside = lax.cumsum(counts)
    return lax.gt(inside, lax.full_like(inside, 0))


# ---------------------------------------------------------------------------------------------------
# Batches


def _batch(axis_data, args, dims, *, axis_name, axis_index_groups):
    params = dict(axis_name=axis_name, axis_index_groups=axis_index_groups)
    if axis_data.name in axis_name:
        return _batch_along(axis_data, args, dims, **params), 0
    batched = [d for d in dims if d is not None]
    if not batched:
        return ragged_all_to_all_p.bind(*args, **params), None
    check_elements("ragged_all_to_all", axis_data, axis_name, batched[0])
    operand, output, *indices = args
    if all(d is None for d in dims[2:]):
        data = [
            batching.moveaxis(at_front(axis_data, x, d), 0, 1)
            for x, d in zip((operand, output), dims)
        ]
        return ragged_all_to_all_p.bind(*data, *indices, **params), 1
    # Concatenate the elements of the batch: each has rows and slices of its own.
    b, n = axis_data.size, group_size(axis_name, axis_index_groups)
    operand, output, *indices = (at_front(axis_data, x, d) for x, d in zip(args, dims))
    shifts = (operand.shape[1], None, output.shape[1], None)
    flat = []
    for x, rows in zip(indices, shifts):
        if rows is not None:
            if x.dtype.itemsize < 4:  # it may be too small for the rows of all elements
                x = lax.convert_element_type(x, np.int32)
            x = lax.add(
                x, lax.mul(lax.broadcasted_iota(x.dtype, x.shape, 0), lax.full_like(x, rows))
            )
        k = x.shape[1]
        x = batching.moveaxis(lax.reshape(x, (b, n, k // n)), 0, 1)
        flat.append(lax.reshape(x, (b * k,)))
    out = ragged_all_to_all_p.bind(merge_dims(operand, 0), merge_dims(output, 0), *flat, **params)
    return lax.reshape(out, output.shape), 0


def _batch_along(axis_data, args, dims, *, axis_name, axis_index_groups):
    """Exchange along the batch dimension, from the operands of all indices along the axes."""
    axes = with_mesh_axes(axis_data, axis_name)
    groups = axis_index_groups or (tuple(range(axis_size(axes))),)
    group, position = places(groups)
    sent = [all_rows(axis_data, axes, args[i], dims[i]) for i in (0, 2, 3, 4)]
    output = at_front(axis_data, args[1], dims[1])
    senders = own_rows(axis_data, axes, np.array(groups, np.int32)[group])
    positions = own_rows(axis_data, axes, position)
    count = sent[1].shape[1] // len(groups[0])
    rows = []
    for i in range(axis_data.size):
        whole, *slices = [gather_rows(x, senders[i]) for x in sent]
        start = positions[i] * np.int32(count)
        mine = [slicing.dynamic_slice_in_dim(x, start, count, 1) for x in slices]
        out = slicing.index_in_dim(output, i, 0, keepdims=False)
        rows.append(lax.expand_dims(_received(whole, out, *mine), (0,)))
    return lax.concatenate(rows, 0)


ragged_all_to_all_p = collective("ragged_all_to_all", _types)
ragged_all_to_all_p.jvp = _jvp
ragged_all_to_all_p.transpose = _transpose
ragged_all_to_all_p.axis_batch = _batch
mlir.register_lowering(ragged_all_to_all_p, _lower)
mlir.register_lowering(ragged_all_to_all_p, lowering.lower_fun(_by_gathering), platform="cpu")
