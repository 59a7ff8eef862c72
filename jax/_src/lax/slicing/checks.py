"""Checks of the dimension numbers of gather and scatter, and their result shapes."""

from __future__ import annotations

from collections.abc import Sequence


def gather_shape(shape, index_shape, dimension_numbers, slice_sizes) -> tuple[int, ...]:
    """Return the shape of a gather's result.

    Raises:
      TypeError: if shapes, sizes and dimension numbers are inconsistent.
    """
    offset_dims, collapsed, index_map, batching_dims, index_batching_dims = dimension_numbers
    if not index_shape:
        raise TypeError(
            "Gather indices must have a last dimension that holds the index vectors, got a scalar."
        )
    ndim, out_ndim = len(shape), len(offset_dims) + len(index_shape) - 1
    check_sorted("gather", "offset_dims", offset_dims)
    check_distinct("gather", "offset_dims", offset_dims)
    for i, d in enumerate(offset_dims):
        if not 0 <= d < out_ndim:
            raise TypeError(
                f"Offset dimension {i} in gather op is out of bounds; got {d}, but should have been in "
                f"[0, {out_ndim})"
            )
    check_index_map("Gather", "start_index_map", index_map, index_shape, ndim)
    check_dims("gather", "collapsed_slice_dims", collapsed, ndim)
    check_batching(
        "gather",
        shape,
        batching_dims,
        index_shape,
        index_batching_dims,
        index_map,
        collapsed,
        ("start_indices_batching_dims", "start_index_map", "collapsed_slice_dims"),
    )
    if len(slice_sizes) != ndim:
        raise TypeError(
            "Gather op must have one slice size for every input dimension; got: "
            f"len(slice_sizes)={len(slice_sizes)}, input_shape.rank={ndim}"
        )
    if ndim != len(offset_dims) + len(collapsed) + len(batching_dims):
        raise TypeError(
            "All components of the offset index in a gather op must either be a offset dimension or "
            f"explicitly collapsed/batching; got len(slice_sizes)={ndim}, "
            f"output_slice_sizes={tuple(offset_dims)}, collapsed_slice_dims={collapsed}, "
            f"operand_batching_dims={batching_dims}."
        )
    for i, (n, size) in enumerate(zip(slice_sizes, shape)):
        if not 0 <= n <= size:
            raise TypeError(
                f"Slice size at index {i} in gather op is out of range, must be within [0, {size} + 1), "
                f"got {n}."
            )
    for i, d in enumerate(collapsed):
        if slice_sizes[d] != 1:
            raise TypeError(
                f"Gather op can only collapse slice dims with bound 1, but bound is {slice_sizes[d]} for "
                f"index {d} at position {i}."
            )
    for i, d in enumerate(batching_dims):
        if slice_sizes[d] > 1:
            raise TypeError(
                "Gather op can only have operand batching dims with bound 0/1, but bound is "
                f"{slice_sizes[d]} for index {d} at position {i}."
            )
    dropped = {*collapsed, *batching_dims}
    window = iter([n for d, n in enumerate(slice_sizes) if d not in dropped])
    batch = iter(index_shape[:-1])
    at = set(offset_dims)
    return tuple([next(window) if i in at else next(batch) for i in range(out_ndim)])


def scatter_shape(shape, index_shape, update_shape, dimension_numbers) -> tuple[int, ...]:
    """Return the shape of a scatter's result, which is the operand's.

    Raises:
      TypeError: if shapes and dimension numbers are inconsistent.
    """
    window_dims, inserted, index_map, batching_dims, index_batching_dims = dimension_numbers
    if not index_shape:
        raise TypeError(
            "Scatter indices must have a last dimension that holds the index vectors, got a scalar."
        )
    ndim, n_update = len(shape), len(index_shape) - 1 + len(window_dims)
    if len(update_shape) != n_update:
        raise TypeError(f"Updates tensor must be of rank {n_update}; got {len(update_shape)}.")
    check_dims("scatter", "update_window_dims", window_dims, n_update)
    check_dims("scatter", "inserted_window_dims", inserted, ndim)
    if ndim != len(window_dims) + len(inserted) + len(batching_dims):
        raise TypeError(
            f"Scatter op has window of size {len(window_dims) + len(inserted) + len(batching_dims)}; "
            f"doesn't match operand of rank {ndim}."
        )
    check_index_map("Scatter", "scatter_dims_to_operand_dims", index_map, index_shape, ndim)
    check_batching(
        "scatter",
        shape,
        batching_dims,
        index_shape,
        index_batching_dims,
        index_map,
        inserted,
        ("scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "inserted_window_dims"),
    )
    dropped = {*inserted, *batching_dims}
    bounds = [n for d, n in enumerate(shape) if d not in dropped]
    for d, bound in zip(window_dims, bounds):
        if update_shape[d] > bound:
            raise TypeError(
                "Bounds of the window dimensions of updates must not exceed the bounds of the corresponding "
                f"dimensions of operand. For dimension {d}, updates bound is {update_shape[d]}, operand "
                f"bound is {bound}."
            )
    scatter_dims = [d for d in range(n_update) if d not in window_dims]
    for i, (d, n) in enumerate(zip(scatter_dims, index_shape)):
        if update_shape[d] != n:
            raise TypeError(
                "Bounds of the scatter dimensions of updates must be the same as the bounds of the "
                f"corresponding dimensions of scatter indices. For scatter dimension {i}, updates bound is "
                f"{update_shape[d]}, indices bound is {n}."
            )
    return shape


def check_sorted(op: str, what: str, dims: Sequence[int]) -> None:
    if any(a > b for a, b in zip(dims, dims[1:])):
        raise TypeError(f"{what} in {op} op must be sorted; got {tuple(dims)}")


def check_distinct(op: str, what: str, dims: Sequence[int]) -> None:
    if len(set(dims)) != len(dims):
        raise TypeError(f"{what} in {op} op must not repeat; got: {tuple(dims)}.")


def check_range(op: str, what: str, dims: Sequence[int], bound: int) -> None:
    for d in dims:
        if not 0 <= d < bound:
            raise TypeError(
                f"Invalid {what} set in {op} op; valid range is [0, {bound}); got: {d}."
            )


def check_dims(op: str, what: str, dims: Sequence[int], bound: int) -> None:
    check_sorted(op, what, dims)
    check_range(op, what, dims, bound)
    check_distinct(op, what, dims)


def check_disjoint(op: str, what: str, dims: Sequence[int], batching_dims: Sequence[int]) -> None:
    if set(dims) & set(batching_dims):
        raise TypeError(
            f"{what} and operand_batching_dims in {op} op must be disjoint; got: {tuple(dims)} and "
            f"{tuple(batching_dims)}."
        )


def check_index_map(op: str, what: str, dims, index_shape, ndim: int) -> None:
    n = len(index_shape) - 1
    if len(dims) != index_shape[-1]:
        raise TypeError(
            f"{op} op has {len(dims)} elements in {what} and the bound of dimension "
            f"index_vector_dim={n} of indices is {index_shape[-1]}. These two numbers must be equal."
        )
    for i, d in enumerate(dims):
        if not 0 <= d < ndim:
            raise TypeError(f"Invalid {what} mapping; domain is [0, {ndim}), got: {i}->{d}.")
    check_distinct(op.lower(), what, dims)


def check_batching(
    op, shape, batching_dims, index_shape, index_batching_dims, index_map, dropped, names
) -> None:
    index_name, map_name, dropped_name = names
    check_dims(op, "operand_batching_dims", batching_dims, len(shape))
    check_range(op, index_name, index_batching_dims, len(index_shape) - 1)
    check_distinct(op, index_name, index_batching_dims)
    check_disjoint(op, dropped_name, dropped, batching_dims)
    check_disjoint(op, map_name, index_map, batching_dims)
    sizes = tuple([shape[d] for d in batching_dims])
    index_sizes = tuple([index_shape[d] for d in index_batching_dims])
    if sizes != index_sizes:
        raise TypeError(
            f"{op.capitalize()} op requires operand batching dimensions and indices batching dimensions to "
            f"have the same shape, got {sizes} and {index_sizes}."
        )
