"""Collectives: operations along a named axis, which an enclosing `vmap(..., axis_name=...)` binds.

Under `vmap` a collective becomes an ordinary operation along the batch dimension; the `axis_batch`
rules below implement this. It is an error to run a collective whose axis is unbound.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src.ad_util import Zero
from jax._src.core import NamedAxisEffect, Primitive, ShapedArray, get_axis_env, typeof
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lax import lax, slicing
from jax._src.tree_util import tree_flatten, tree_map, tree_unflatten


def _axes(axis_name: Any) -> tuple:
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def _named(axes: Sequence[Any]) -> tuple:
    return tuple(a for a in axes if not isinstance(a, int))


def axis_size(axis_name: Any) -> int:
    """Return the size of a named axis, or the product of the sizes of several.

    Raises:
      NameError: if the axis is not bound.

    >>> print(jax.vmap(lambda x: x / jax.lax.axis_size("i"), axis_name="i")(jnp.ones(4)))
    [0.25 0.25 0.25 0.25]
    """
    size = 1
    for name in _axes(axis_name):
        size *= get_axis_env().axis_size(name)
    return size


def _check_groups(axis_index_groups: Any, axes: Sequence[Any]) -> tuple | None:
    if axis_index_groups is None:
        return None
    size = axis_size(_named(axes))
    groups = tuple(map(tuple, axis_index_groups))
    flat = sorted(i for g in groups for i in g)
    if flat != list(range(size)):
        raise ValueError(
            f"axis_index_groups must cover all indices of an axis of size {size} exactly once, got {groups}"
        )
    if len({len(g) for g in groups}) > 1:
        raise ValueError(f"axis_index_groups must all have the same size, got {groups}")
    return groups


# Reductions


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Sum over a named axis.

    Args:
      x: array or pytree of arrays; Python numbers are multiplied by the axis size at trace time.
      axis_name: name of the axis, or a tuple of names and positions of dimensions.
      axis_index_groups: groups of axis indices to sum within; lists of equal length.

    Returns:
      A pytree like `x`, equal for all indices of the axis.

    >>> print(jax.vmap(lambda x: x / jax.lax.psum(x, "i"), axis_name="i")(jnp.array([1., 3.])))
    [0.25 0.75]
    """
    axes = _axes(axis_name)
    groups = _check_groups(axis_index_groups, axes)
    if any(isinstance(a, int) for a in axes) and groups is not None:
        raise ValueError("axis_index_groups only supported for sums over just named axes")
    leaves, tree = tree_flatten(x)
    named, positional = _named(axes), tuple(a for a in axes if isinstance(a, int))
    if (
        all(isinstance(v, (int, float, complex)) and not isinstance(v, bool) for v in leaves)
        and leaves
    ):
        n = len(groups[0]) if groups is not None else axis_size(named)
        return tree_unflatten(tree, [v * n for v in leaves])
    if positional:
        leaves = [lax.reduce_sum(v, tuple(a % np.ndim(v) for a in positional)) for v in leaves]
    leaves = [
        lax.convert_element_type(v, np.int32) if typeof(v).dtype == np.bool_ else v for v in leaves
    ]
    if named:
        leaves = psum_p.bind(*leaves, axes=named, axis_index_groups=groups)
    return tree_unflatten(tree, leaves)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Average over a named axis; the arguments are those of `psum`."""
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    n = psum(1, axis_name, axis_index_groups=axis_index_groups)
    return tree_map(lambda v: v / n, total)


def _reduce(
    primitive: Primitive, x: Any, axis_name: Any, axis_index_groups: Any, positional: Callable
):
    axes = _axes(axis_name)
    groups = _check_groups(axis_index_groups, axes)
    leaves, tree = tree_flatten(x)
    dims = tuple(a for a in axes if isinstance(a, int))
    if dims:
        leaves = [positional(v, tuple(a % np.ndim(v) for a in dims)) for v in leaves]
    if _named(axes):
        leaves = primitive.bind(*leaves, axes=_named(axes), axis_index_groups=groups)
    return tree_unflatten(tree, leaves)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Take the maximum over a named axis; the arguments are those of `psum`."""
    return _reduce(pmax_p, x, axis_name, axis_index_groups, lax.reduce_max)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Take the minimum over a named axis; the arguments are those of `psum`."""
    return _reduce(pmin_p, x, axis_name, axis_index_groups, lax.reduce_min)


def _unbound(primitive: Primitive) -> Callable:
    """Return the `impl` of a collective, which raises because its axis is unbound."""

    def impl(*args, **params):
        names = params.get("axes") or params.get("axis_name")
        axis_size(names)
        raise NameError(
            f"unbound axis name: {names}. '{primitive.name}' needs an enclosing vmap or shard_map"
        )

    return impl


def _collective(name: str, types: Callable, multiple_results: bool = False) -> Primitive:
    p = Primitive(name, multiple_results)
    p.def_effectful_abstract_eval(types)
    p.def_impl(_unbound(p))
    return p


def _effects(axes) -> frozenset:
    return frozenset(NamedAxisEffect(a) for a in axes)


def _reduction_types(*avals, axes, axis_index_groups):
    axis_size(axes)
    outs = [a.strip_weak_type() for a in avals]
    if axis_index_groups is None:
        outs = [a.update(vma=a.vma.difference(axes)) if a.vma else a for a in outs]
    return outs, _effects(axes)


def _grouped(reduce: Callable, x, d: int, groups):
    """Reduce within groups of indices along `d`; each index gets the result of its group."""
    x = batching.moveaxis(x, d, 0)
    order = np.array([i for g in groups for i in g])
    parts = lax.reshape(_gather_rows(x, order), (len(groups), len(groups[0]), *x.shape[1:]))
    reduced = reduce(parts, (1,))
    where = np.empty(len(order), np.int32)
    for i, g in enumerate(groups):
        where[list(g)] = i
    return _gather_rows(reduced, where)


def _gather_rows(x, rows: np.ndarray):
    dnums = slicing.GatherDimensionNumbers(
        offset_dims=tuple(range(1, x.ndim)), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    return slicing.gather(
        x, np.asarray(rows, np.int32)[:, None], dnums, (1, *x.shape[1:]),
        mode=slicing.GatherScatterMode.PROMISE_IN_BOUNDS,
    )  # fmt: skip


def _reduction_batch(primitive: Primitive, reduce: Callable, unbatched: Callable) -> Callable:
    def rule(axis_data, args, dims, *, axes, axis_index_groups):
        if axis_data.name not in axes:
            return primitive.bind(*args, axes=axes, axis_index_groups=axis_index_groups), list(dims)
        rest = tuple(a for a in axes if a != axis_data.name)
        if axis_index_groups is not None:
            if rest:
                raise NotImplementedError(
                    "axis_index_groups not supported over several axes in vmap"
                )
            outs = [
                unbatched(x, len(axis_index_groups[0])) if d is None
                else _grouped(reduce, x, d, axis_index_groups)
                for x, d in zip(args, dims)
            ]  # fmt: skip
            return outs, [None if d is None else 0 for d in dims]
        outs = [
            unbatched(x, axis_data.size) if d is None else reduce(x, (d,))
            for x, d in zip(args, dims)
        ]
        if rest:
            outs = primitive.bind(*outs, axes=rest, axis_index_groups=None)
        return outs, [None] * len(outs)

    return rule


psum_p = _collective("psum", _reduction_types, multiple_results=True)
psum_p.axis_batch = _reduction_batch(
    psum_p, lax.reduce_sum, lambda x, n: lax.mul(x, lax.const(x, n))
)


def _psum_jvp(primals, tangents, **params):
    out = psum_p.bind(*primals, **params)
    nonzero = [type(t) is not Zero for t in tangents]
    if not any(nonzero):
        return out, [ad.zero_of(x) for x in out]
    t_out = iter(psum_p.bind(*[t for t in tangents if type(t) is not Zero], **params))
    return out, [next(t_out) if nz else ad.zero_of(x) for x, nz in zip(out, nonzero)]


def _psum_transpose(cts, *args, **params):
    nonzero = [type(ct) is not Zero for ct in cts]
    summed = iter(psum_p.bind(*[ct for ct in cts if type(ct) is not Zero], **params))
    return [next(summed) if nz else Zero(x.aval.to_ct_aval()) for x, nz in zip(args, nonzero)]


psum_p.jvp = _psum_jvp
psum_p.transpose = _psum_transpose


def pvary(x: Any, axes: Sequence[Any]) -> Any:
    """Mark `x` as varying over the manual mesh axes `axes`."""
    axes = tuple(a for a in axes if a not in typeof(x).vma)
    return pvary_p.bind(x, axes=axes) if axes else x


pvary_p = Primitive("pvary")
pvary_p.def_impl(lambda x, *, axes: x)
pvary_p.def_abstract_eval(lambda x, *, axes: x.update(vma=x.vma.union(axes)))
# Each device uses its replica of the value, so the cotangents of all devices are summed.
ad.deflinear2(pvary_p, lambda ct, x, *, axes: psum_p.bind(ct, axes=axes, axis_index_groups=None))
batching.defvectorized(pvary_p)
mlir.register_lowering(pvary_p, lambda ctx, x, *, axes: [x])
late.pvary = pvary

pmax_p = _collective("pmax", _reduction_types, multiple_results=True)
pmax_p.axis_batch = _reduction_batch(pmax_p, lax.reduce_max, lambda x, n: x)
pmin_p = _collective("pmin", _reduction_types, multiple_results=True)
pmin_p.axis_batch = _reduction_batch(pmin_p, lax.reduce_min, lambda x, n: x)


# Moving values between indices


def axis_index(axis_name: Any) -> Any:
    """Return the index along a named axis, or the row-major index along several.

    >>> print(jax.vmap(lambda x: jax.lax.axis_index("i"), axis_name="i")(jnp.ones(3)))
    [0 1 2]
    """
    if not isinstance(axis_name, (tuple, list)):
        return axis_index_p.bind(axis_name=axis_name)
    index = np.int32(0)
    for name in axis_name:
        index = lax.add(
            lax.mul(index, np.int32(axis_size(name))), axis_index_p.bind(axis_name=name)
        )
    return index


def _axis_index_types(*, axis_name):
    axis_size(axis_name)
    return ShapedArray((), np.dtype(np.int32)), _effects((axis_name,))


axis_index_p = _collective("axis_index", _axis_index_types)


def _axis_index_batch(axis_data, args, dims, *, axis_name):
    if axis_name != axis_data.name:
        return axis_index_p.bind(axis_name=axis_name), None
    return lax.iota(np.int32, axis_data.size), 0


axis_index_p.axis_batch = _axis_index_batch


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values between the indices of a named axis.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis.
      perm: pairs (source, destination); indices that are not a destination receive zeros.

    Returns:
      A pytree like `x`.
    """
    axes = _axes(axis_name)
    n = axis_size(axes)
    perm = tuple((int(s), int(d)) for s, d in perm)
    sources, targets = [s for s, _ in perm], [d for _, d in perm]
    if len(set(sources)) != len(perm) or len(set(targets)) != len(perm):
        raise ValueError(f"ppermute sources and destinations must be unique, got {perm}")
    if any(not 0 <= i < n for i in sources + targets):
        raise ValueError(f"ppermute indices must be in range of an axis of size {n}, got {perm}")
    return tree_map(lambda v: ppermute_p.bind(v, axis_name=axes, perm=perm), x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Permute the values along a named axis: index i receives the value of index perm[i]."""
    n = axis_size(_axes(axis_name))
    if set(perm) != set(range(n)):
        raise ValueError(f"`perm` does not represent a permutation of an axis of size {n}: {perm}")
    return ppermute(x, axis_name, list(zip(perm, range(n))))


def _ppermute_types(x, *, axis_name, perm):
    axis_size(axis_name)
    return x, _effects(axis_name)


ppermute_p = _collective("ppermute", _ppermute_types)


def _ppermute_batch(axis_data, args, dims, *, axis_name, perm):
    (x,), (d,) = args, dims
    if axis_data.name not in axis_name:
        return ppermute_p.bind(x, axis_name=axis_name, perm=perm), d
    if len(axis_name) > 1:
        raise NotImplementedError("ppermute over several axes is not supported in vmap")
    x = batching.bdim_at_front(x, d, axis_data.size)
    source = np.zeros(axis_data.size, np.int32)
    receives = np.zeros(axis_data.size, np.bool_)
    for s, t in perm:
        source[t], receives[t] = s, True
    out = _gather_rows(x, source)
    if not receives.all():
        mask = lax.broadcast_in_dim(receives, out.shape, (0,))
        out = lax.select(mask, out, lax.full_like(out, 0))
    return out, 0


ppermute_p.axis_batch = _ppermute_batch
ad.deflinear2(
    ppermute_p,
    lambda ct, x, *, axis_name, perm: [
        ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((d, s) for s, d in perm))
    ],
)


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False,
    to: str = "varying",
) -> Any:  # fmt: skip
    """Gather the values of all indices of a named axis.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis, or a tuple of names.
      axis_index_groups: lists of axis indices to gather within, of equal sizes.
      axis: dimension of the result along which values are gathered.
      tiled: whether to concatenate along an existing dimension instead of stacking along a new one.
      to: 'varying' or 'reduced': the type of the result over a manual mesh axis.

    Returns:
      A pytree like `x`, of larger arrays.
    """
    if to not in ("varying", "reduced"):
        raise ValueError(f"Got unexpected value for `to`: {to}. Allowed: 'varying' and 'reduced'.")
    axes = _axes(axis_name)
    groups = _check_groups(axis_index_groups, axes)
    n = len(groups[0]) if groups is not None else axis_size(axes)

    def gather(v):
        ndim = np.ndim(v) + (not tiled)
        if not -ndim <= axis < ndim:
            raise ValueError(
                f"all_gather: axis {axis} is out of bounds for a result of {ndim} dimensions"
            )
        return all_gather_p.bind(
            v, all_gather_dimension=axis % ndim, axis_name=axes, axis_index_groups=groups,
            axis_size=n, tiled=bool(tiled),
        )  # fmt: skip

    return tree_map(gather, x)


def _all_gather_types(x, *, all_gather_dimension, axis_name, axis_index_groups, axis_size, tiled):
    shape = list(x.shape)
    if tiled:
        shape[all_gather_dimension] *= axis_size
    else:
        shape.insert(all_gather_dimension, axis_size)
    return x.update(shape=tuple(shape)), _effects(axis_name)


all_gather_p = _collective("all_gather", _all_gather_types)


def _all_gather_batch(
    axis_data, args, dims, *, all_gather_dimension, axis_name, axis_index_groups, axis_size, tiled
):
    (x,), (d,) = args, dims
    if axis_data.name not in axis_name:
        dim = all_gather_dimension + (d <= all_gather_dimension)
        out_dim = d if tiled or d <= all_gather_dimension else d + 1
        out = all_gather_p.bind(
            x, all_gather_dimension=dim, axis_name=axis_name, axis_index_groups=axis_index_groups,
            axis_size=axis_size, tiled=tiled,
        )  # fmt: skip
        return out, out_dim
    if len(axis_name) > 1:
        raise NotImplementedError("all_gather over several axes is not supported in vmap")
    x = batching.bdim_at_front(x, d, axis_data.size)
    if axis_index_groups is not None:
        # Row i of the result holds the values of the group that contains i.
        rows = np.empty((axis_data.size, axis_size), np.int32)
        for g in axis_index_groups:
            rows[list(g)] = g
        x = lax.reshape(
            _gather_rows(x, rows.reshape(-1)), (axis_data.size, axis_size, *x.shape[1:])
        )
        out = batching.moveaxis(x, 1, all_gather_dimension + 1)
        return (_merge(out, all_gather_dimension + 1) if tiled else out), 0
    out = batching.moveaxis(x, 0, all_gather_dimension)
    return (_merge(out, all_gather_dimension) if tiled else out), None


def _merge(x, dim: int):
    """Merge dimension `dim` with the next one."""
    shape = x.shape
    return lax.reshape(x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))


all_gather_p.axis_batch = _all_gather_batch


def _all_gather_transpose(
    ct, x, *, all_gather_dimension, axis_name, axis_index_groups, axis_size, tiled
):
    return [
        reduce_scatter_p.bind(
            ct, scatter_dimension=all_gather_dimension, axis_name=axis_name,
            axis_index_groups=axis_index_groups, axis_size=axis_size, tiled=tiled,
        )
    ]  # fmt: skip


ad.deflinear2(all_gather_p, _all_gather_transpose)


def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:  # fmt: skip
    """Sum over a named axis, and scatter the result over the axis.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis, or a tuple of names.
      scatter_dimension: dimension of the sum to split over the axis.
      axis_index_groups: lists of axis indices to sum within, of equal sizes.
      tiled: whether to keep the dimension, divided by the axis size, instead of removing it.

    Returns:
      A pytree like `x`, of smaller arrays.
    """
    axes = _axes(axis_name)
    groups = _check_groups(axis_index_groups, axes)
    n = len(groups[0]) if groups is not None else axis_size(axes)

    def scatter(v):
        size = np.shape(v)[scatter_dimension]
        if (size % n) if tiled else (size != n):
            raise ValueError(
                f"psum_scatter: dimension {scatter_dimension} of size {size} cannot be split over an axis "
                f"of size {n}"
            )
        return reduce_scatter_p.bind(
            v, scatter_dimension=scatter_dimension % np.ndim(v), axis_name=axes,
            axis_index_groups=groups, axis_size=n, tiled=bool(tiled),
        )  # fmt: skip

    return tree_map(scatter, x)


def _reduce_scatter_types(x, *, scatter_dimension, axis_name, axis_index_groups, axis_size, tiled):
    shape = list(x.shape)
    if tiled:
        shape[scatter_dimension] //= axis_size
    else:
        del shape[scatter_dimension]
    return x.update(shape=tuple(shape)), _effects(axis_name)


reduce_scatter_p = _collective("reduce_scatter", _reduce_scatter_types)


def _reduce_scatter_batch(
    axis_data, args, dims, *, scatter_dimension, axis_name, axis_index_groups, axis_size, tiled
):
    (x,), (d,) = args, dims
    if axis_data.name not in axis_name:
        dim = scatter_dimension + (d <= scatter_dimension)
        out = reduce_scatter_p.bind(
            x, scatter_dimension=dim, axis_name=axis_name, axis_index_groups=axis_index_groups,
            axis_size=axis_size, tiled=tiled,
        )  # fmt: skip
        return out, d if tiled or d < dim else d - 1
    if len(axis_name) > 1:
        raise NotImplementedError("psum_scatter over several axes is not supported in vmap")
    x = batching.bdim_at_front(x, d, axis_data.size)
    if axis_index_groups is not None:
        x = _grouped(lax.reduce_sum, x, 0, axis_index_groups)
        position = np.empty(axis_data.size, np.int32)
        for g in axis_index_groups:
            position[list(g)] = range(len(g))
    else:
        x = lax.reduce_sum(x, (0,))
    dim = scatter_dimension + (axis_index_groups is not None)
    shape = x.shape
    parts = lax.reshape(x, (*shape[:dim], axis_size, shape[dim] // axis_size, *shape[dim + 1 :]))
    if not tiled:
        parts = lax.squeeze(parts, (dim + 1,))
    if axis_index_groups is None:
        return parts, dim
    parts = batching.moveaxis(parts, dim, 1)
    rows = lax.reshape(parts, (axis_data.size * axis_size, *parts.shape[2:]))
    return _gather_rows(rows, np.arange(axis_data.size) * axis_size + position), 0


reduce_scatter_p.axis_batch = _reduce_scatter_batch
ad.deflinear2(
    reduce_scatter_p,
    lambda ct, x, *, scatter_dimension, axis_name, axis_index_groups, axis_size, tiled: [
        all_gather_p.bind(
            ct, all_gather_dimension=scatter_dimension, axis_name=axis_name,
            axis_index_groups=axis_index_groups, axis_size=axis_size, tiled=tiled,
        )
    ],
)  # fmt: skip


def all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:  # fmt: skip
    """Split a dimension over a named axis, and gather the values received along another dimension.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis.
      split_axis: dimension to split; its size is the axis size, unless `tiled`.
      concat_axis: dimension of the result along which the received values are joined.
      axis_index_groups: must be None under `vmap`.
      tiled: whether to exchange blocks of the dimension, instead of single slices.

    Returns:
      A pytree like `x`.
    """
    axes = _axes(axis_name)
    groups = _check_groups(axis_index_groups, axes)
    n = len(groups[0]) if groups is not None else axis_size(axes)

    def exchange(v):
        size = np.shape(v)[split_axis]
        if (size % n) if tiled else (size != n):
            raise ValueError(
                "all_to_all requires the size of the mapped axis axis_name to equal x.shape[split_axis], "
                f"but they are {n} and {size} respectively."
            )
        ndim = np.ndim(v)
        return all_to_all_p.bind(
            v, axis_name=axis_name if len(axes) > 1 else axes[0], split_axis=split_axis % ndim,
            concat_axis=concat_axis % ndim, axis_index_groups=groups, tiled=bool(tiled),
        )  # fmt: skip

    return tree_map(exchange, x)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swap a named axis with a dimension of the same size."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def _all_to_all_types(x, *, axis_name, split_axis, concat_axis, axis_index_groups, tiled):
    shape = list(x.shape)
    if tiled:
        n = len(axis_index_groups[0]) if axis_index_groups else axis_size(axis_name)
        shape[split_axis] //= n
        shape[concat_axis] *= n
    else:
        n = shape.pop(split_axis)
        shape.insert(concat_axis, n)
    return x.update(shape=tuple(shape)), _effects(_axes(axis_name))


all_to_all_p = _collective("all_to_all", _all_to_all_types)


def _all_to_all_batch(
    axis_data, args, dims, *, axis_name, split_axis, concat_axis, axis_index_groups, tiled
):
    (x,), (d,) = args, dims
    if axis_data.name not in _axes(axis_name):
        x = batching.moveaxis(x, d, 0)
        out = all_to_all_p.bind(
            x, axis_name=axis_name, split_axis=split_axis + 1, concat_axis=concat_axis + 1,
            axis_index_groups=axis_index_groups, tiled=tiled,
        )  # fmt: skip
        return out, 0
    if axis_index_groups is not None or len(_axes(axis_name)) > 1:
        raise NotImplementedError("all_to_all with groups or several axes is not supported in vmap")
    n = axis_data.size
    x = batching.bdim_at_front(x, d, n)
    shape = x.shape
    s = split_axis + 1
    x = lax.reshape(x, (*shape[:s], n, shape[s] // n, *shape[s + 1 :]))
    x = batching.moveaxis(x, s, 0)  # (receiver, sender, ...)
    if tiled:
        return _merge(batching.moveaxis(x, 1, concat_axis + 1), concat_axis + 1), 0
    x = lax.squeeze(x, (s + 1,))
    return batching.moveaxis(x, 1, concat_axis + 1), 0


all_to_all_p.axis_batch = _all_to_all_batch
ad.deflinear2(
    all_to_all_p,
    lambda ct, x, *, axis_name, split_axis, concat_axis, axis_index_groups, tiled: [
        all_to_all_p.bind(
            ct, axis_name=axis_name, split_axis=concat_axis, concat_axis=split_axis,
            axis_index_groups=axis_index_groups, tiled=tiled,
        )
    ],
)  # fmt: skip


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """Broadcast the value of one index of a named axis to all its indices.

    Args:
      x: array or pytree of arrays.
      axis_name: name of the axis.
      source: index whose value is broadcast.

    Returns:
      A pytree like `x`.
    """
    n = axis_size(axis_name)
    if not 0 <= source < n:
        raise ValueError(f"pbroadcast: source {source} is out of range for an axis of size {n}")

    def one(v):
        mine = lax.eq(axis_index(axis_name), np.int32(source))
        zero = lax.full_like(v, 0)
        return psum(lax.select(lax.broadcast_in_dim(mine, np.shape(v), ()), v, zero), axis_name)

    return tree_map(one, x)
