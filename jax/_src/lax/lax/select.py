"""Elementwise selection: `select_n` and `clamp`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.ad_util import Zero, instantiate
from jax._src.basearray import Array
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax.lax.convert import convert_element_type
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.logical import bitwise_and, eq, gt, lt
from jax._src.lax.lax.shape import broadcast_in_dim
from jax._src.lax.rules import (
    ANY,
    check_dtypes,
    check_same_dtypes,
    common_mesh,
    dtype_name,
    standard_primitive,
    with_sharding,
)
from jax._src.lax.utils import const
from jax._src.lib.mlir.dialects import hlo
from jax._src.typing import ArrayLike


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Select elements of one of two arrays by a boolean array.

    Args:
      pred: boolean array, scalar or of the cases' shape.
      on_true: array whose elements are taken where `pred` is true.
      on_false: array of the same shape and dtype, whose elements are taken elsewhere.

    Returns:
      An array of the cases' shape and dtype.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.select(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([3, 4]))
    Array([1, 4], dtype=int32)
    """
    return select_n(pred, on_false, on_true)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Select elements of one of several arrays.

    Args:
      which: integer array, or boolean for two cases; scalar or of the cases' shape. An element `i`
        selects the element of `cases[i]`; values out of range select the first or the last case.
      *cases: one or more arrays of the same shape and dtype.

    Returns:
      An array of the cases' shape and dtype.

    Raises:
      ValueError: if there are no cases.
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.select_n(jnp.array([0, 2]), *jnp.array([[1, 2], [3, 4], [5, 6]]))
    Array([1, 6], dtype=int32)
    """
    if not cases:
        raise ValueError("select_n() must have at least one case")
    return select_n_p.bind(which, *cases)


def _select_shape(which, *cases):
    shape = cases[0].shape
    for case in cases:
        if case.shape != shape:
            raise TypeError(
                f"select cases must have the same shapes, got [{', '.join(str(c.shape) for c in cases)}]."
            )
    if which.shape and which.shape != shape:
        raise TypeError(
            "select `which` must be scalar or have the same shape as cases, got `which` shape "
            f"{which.shape} but case shape {shape}."
        )
    return shape


def _select_dtype(which, *cases):
    check_same_dtypes("select", *[c.dtype for c in cases])
    if not (dtypes.issubdtype(which.dtype, np.bool_) or dtypes.issubdtype(which.dtype, np.integer)):
        raise TypeError(
            f"select `which` must be boolean or integer type, got {dtype_name(which.dtype)}."
        )
    if dtypes.issubdtype(which.dtype, np.bool_) and len(cases) > 2:
        raise TypeError("select with boolean `which` cannot have > 2 cases.")
    return cases[0].dtype


def _select_sharding(which, *cases):
    sharded = [a._sharding for a in (which, *cases) if a._sharding is not None]
    mesh = common_mesh("select", sharded)
    on_mesh = [case for case in cases if case._sharding is not None]
    spec = (on_mesh or cases)[0].sharding.spec
    for case in on_mesh:
        if case.sharding.spec != spec:
            raise core.ShardingTypeError(
                f"select cases must have the same shardings, got {[c.sharding for c in cases]}. Make "
                "them agree with `jax.sharding.reshard`."
            )
    if (
        which.shape
        and on_mesh
        and which._sharding is not None
        and which._sharding.spec.partitions != spec.partitions
    ):
        raise core.ShardingTypeError(
            "select `which` must be scalar or have the same sharding as cases, got `which` sharding "
            f"{which.sharding} but case sharding {cases[0].sharding}. Make them agree with "
            "`jax.sharding.reshard`."
        )
    return sharded[0].update(mesh=mesh, spec=spec)


def _select_unreduced(pairs, which, *cases):
    # Treat it as reduced like the cases.
    if which._sharding is None or not (which.shape or any(pairs[0])):
        pairs = [(frozenset(), pairs[1][1]), *pairs[1:]]
    on_mesh = [p for p, case in zip(pairs[1:], cases) if case._sharding is not None] or pairs[1:]
    if pairs[0][0] or any(pair != on_mesh[0] for pair in on_mesh):
        raise core.ShardingTypeError(
            "select takes a reduced `which`, and cases unreduced and reduced over the same mesh axes, "
            f"got {pairs}."
        )
    return on_mesh[0]


def _select_jvp(primals, tangents):
    which, *cases = primals
    case_tangents = tangents[1:]
    out = select_n_p.bind(which, *cases)
    if all(type(t) is Zero for t in case_tangents):
        return out, Zero.from_primal_value(out)
    return out, select_n(which, *map(instantiate, case_tangents))


def _select_transpose(ct, which, *cases):
    if type(ct) is Zero:
        return [None] + [Zero(c.aval) if ad.is_undefined_primal(c) else None for c in cases]
    zeros = filled(ct, 0)
    if len(cases) <= 2:
        return [None] + [
            select_n(which, *[ct if i == j else zeros for j in range(len(cases))])
            if ad.is_undefined_primal(case)
            else None
            for i, case in enumerate(cases)
        ]
    which = convert_element_type(which, np.int32)
    which = clamp(np.int32(0), which, np.int32(len(cases) - 1))
    return [None] + [
        select(eq(which, np.int32(i)), ct, zeros) if ad.is_undefined_primal(case) else None
        for i, case in enumerate(cases)
    ]


def _select_batch(args, dims):
    which, *cases = args
    which_dim, *case_dims = dims
    d = next((d for d in case_dims if d is not None), None)
    if d is None:
        d = 0 if which_dim is None or core.typeof(which).ndim == 1 else which_dim
    size = next(core.typeof(x).shape[b] for x, b in zip(args, dims) if b is not None)
    cases = [_at_dim(x, b, d, size) for x, b in zip(cases, case_dims)]
    ndim = core.typeof(cases[0]).ndim
    if which_dim is None:
        if core.typeof(which).ndim:
            which = batching.broadcast(which, size, d, None)
    elif core.typeof(which).ndim == ndim:
        which = batching.moveaxis(which, which_dim, d)
    else:  # a batch of scalars
        aval = core.typeof(cases[0])
        which = broadcast_in_dim(which, aval.shape, (d,), out_sharding=aval._sharding)
    return select_n_p.bind(which, *cases), d


def _at_dim(x, bdim, d, size):
    return batching.broadcast(x, size, d, None) if bdim is None else batching.moveaxis(x, bdim, d)


def _select_lower(ctx, which, *cases):
    which_aval, aval, *_ = ctx.avals_in
    (aval_out,) = ctx.avals_out
    if isinstance(aval_out.dtype, dtypes.ExtendedDType):
        aval = core.physical_aval(aval)
        if which_aval.shape:
            # Select all parts of an element's physical representation together.
            target = aval.update(dtype=which_aval.dtype)
            which = mlir.broadcast_in_dim(
                ctx, which, target, broadcast_dimensions=list(range(which_aval.ndim))
            )
            which_aval = target
    if which_aval.dtype == np.bool_:
        if len(cases) == 1:
            return cases
        return [
            with_sharding(ctx, mlir.emit("stablehlo.select", [which, cases[1], cases[0]]), aval_out)
        ]

    kind = "SIGNED" if dtypes.issubdtype(which_aval.dtype, np.signedinteger) else "UNSIGNED"

    def choose(offset, cases):
        if len(cases) == 1:
            return cases[0]
        mid = len(cases) // 2
        limit = mlir.full_like_aval(ctx, offset + mid, which_aval)
        return hlo.select(
            mlir.compare_hlo(which, limit, "LT", kind),
            choose(offset, cases[:mid]),
            choose(offset + mid, cases[mid:]),
        )

    return [with_sharding(ctx, choose(0, cases), aval_out)]


def _select_weak_type(which, *cases):
    return all(c.weak_type for c in cases)


select_n_p = standard_primitive(
    "select_n",
    shape=_select_shape,
    dtype=_select_dtype,
    weak_type=_select_weak_type,
    sharding=_select_sharding,
    unreduced=_select_unreduced,
    lower=_select_lower,
    jvp=_select_jvp,
    transpose=_select_transpose,
    batch=_select_batch,
)


def filled(x: ArrayLike, value: Any) -> Any:
    """Fill the shape and dtype of `x` with `value`; return a scalar if `x` is one."""
    return full_like(x, value) if core.typeof(x).shape else const(x, value)


def replace_zero(x: ArrayLike) -> Array:
    """Replace the zeros of `x` by ones."""
    return select(eq(x, const(x, 0)), filled(x, 1), x)


# ---------------------------------------------------------------------------------------------------
# clamp


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    r"""Elementwise clamp: `min` where `x < min`, `max` where `x > max`, else `x`.

    Args:
      min: lower bound, a scalar or of the shape of `x`.
      x: array.
      max: upper bound, a scalar or of the shape of `x`.

    Raises:
      TypeError: if dtypes or shapes are incompatible.

    >>> lax.clamp(0, jnp.array([-1, 5, 12]), 9)
    Array([0, 5, 9], dtype=int32)
    """
    return clamp_p.bind(min, x, max)


def _clamp_shape(min, x, max):
    for name, bound in (("min", min), ("max", max)):
        if bound.shape and bound.shape != x.shape:
            raise TypeError(
                f"clamp requires {name}.shape == operand.shape or {name}.shape == (), got "
                f"{name}.shape={bound.shape}, operand.shape={x.shape}."
            )
    return x.shape


def _clamp_dtype(min, x, max):
    in_dtypes = (min.dtype, x.dtype, max.dtype)
    check_dtypes("clamp", (ANY, ANY, ANY), in_dtypes)
    return x.dtype


def _clamp_sharding(min, x, max):
    common_mesh("clamp", [a._sharding for a in (min, x, max) if a._sharding is not None])
    return x._sharding


def _clamp_jvp_min(g, out, min, x, max):
    return _where_active(bitwise_and(gt(min, x), lt(min, max)), g)


def _clamp_jvp_x(g, out, min, x, max):
    return _where_active(bitwise_and(gt(x, min), lt(x, max)), g)


def _clamp_jvp_max(g, out, min, x, max):
    return _where_active(lt(max, x), g)


def _where_active(mask, g):
    """Return `g` where `mask` holds and zero elsewhere; either may be scalar."""
    shape = core.typeof(mask).shape
    if core.typeof(g).shape != shape and shape:
        g = broadcast_in_dim(g, shape, ())
    return select(mask, g, filled(g, 0))


def _clamp_batch(args, dims):
    min, x, max = args
    min_dim, x_dim, max_dim = dims
    d = x_dim
    if d is None:
        d = 0
        size = next(core.typeof(a).shape[b] for a, b in zip(args, dims) if b is not None)
        x = batching.broadcast(x, size, d, None)
    shape = core.typeof(x).shape
    bounds = []
    for bound, bdim in ((min, min_dim), (max, max_dim)):
        ndim = core.typeof(bound).ndim
        if bdim is None:
            if ndim:
                bound = batching.broadcast(bound, shape[d], d, None)
        elif ndim == len(shape):
            bound = batching.moveaxis(bound, bdim, d)
        else:  # a batch of scalars
            sharding = core.typeof(x)._sharding
            bound = broadcast_in_dim(bound, shape, (d,), out_sharding=sharding)
        bounds.append(bound)
    return clamp_p.bind(bounds[0], x, bounds[1]), d


def _clamp_lower(ctx, min, x, max):
    return [with_sharding(ctx, hlo.clamp(min, x, max), ctx.avals_out[0])]


clamp_p = standard_primitive(
    "clamp",
    shape=_clamp_shape,
    dtype=_clamp_dtype,
    sharding=_clamp_sharding,
    lower=_clamp_lower,
    jvp=(_clamp_jvp_min, _clamp_jvp_x, _clamp_jvp_max),
    batch=_clamp_batch,
)
