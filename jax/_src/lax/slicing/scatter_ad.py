"""Derivative rules of the scatter primitives."""

from __future__ import annotations

import math

import numpy as np

from jax._src import core, dtypes
from jax._src.ad_util import Zero
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.lax import lax
from jax._src.lax.slicing import gathers, scatters
from jax._src.lax.slicing.types import GatherDimensionNumbers, GatherScatterMode


def window_sizes(operand_shape, update_shape, dnums):
    """Return the slice sizes of the gather that reads a scatter's windows."""
    dropped = {*dnums.inserted_window_dims, *dnums.operand_batching_dims}
    sizes = iter([update_shape[d] for d in dnums.update_window_dims])
    one = lambda n: 1 if core.is_symbolic_dim(n) else min(n, 1)
    return tuple([one(n) if d in dropped else next(sizes) for d, n in enumerate(operand_shape)])


def _gather_at(x, indices, update_shape, dnums, mode, **params):
    """Gather the windows of `x` that a scatter updates."""
    return gathers.gather(
        x,
        indices,
        GatherDimensionNumbers(*dnums),
        window_sizes(np.shape(x), update_shape, dnums),
        mode=mode,
        **params,
    )


def scatter_add_jvp(primitive):
    def rule(primals, tangents, **params):
        operand, indices, updates = primals
        out = primitive.bind(*primals, **params)
        t, _, u = tangents
        if type(t) is Zero and type(u) is Zero:
            return out, Zero.from_primal_value(out)
        if type(u) is Zero:
            return out, t
        return out, primitive.bind(ad.instantiate_zeros(t), indices, u, **params)

    return rule


def scatter_add_transpose(sign):
    def rule(
        ct,
        operand,
        indices,
        updates,
        *,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
        update_jaxpr,
        update_consts,
    ):
        operand_ct = ct if ad.is_undefined_primal(operand) else None
        update_ct = None
        if ad.is_undefined_primal(updates):
            update_ct = _gather_at(
                ct,
                indices,
                updates.aval.shape,
                dimension_numbers,
                mode,
                fill_value=0,
                unique_indices=unique_indices,
                indices_are_sorted=indices_are_sorted,
            )
            if sign < 0:
                update_ct = lax.neg(update_ct)
        return [operand_ct, None, update_ct]

    return rule


def scatter_mul_jvp(primals, tangents, *, update_jaxpr, update_consts, **params):
    operand, indices, updates = primals
    t, _, u = tangents
    out = scatters.scatter_mul(operand, indices, updates, **as_arguments(params))
    parts = []
    if type(t) is not Zero:
        parts.append(scatters.scatter_mul(t, indices, updates, **as_arguments(params)))
    if type(u) is not Zero:
        zeros = lax.full_like(operand, 0)
        # Multiplied by `operand` below, this makes the product of all other factors of each update.
        if not params["unique_indices"]:
            u = lax.mul(u, _product_of_others(np.shape(operand), indices, updates, params))
        parts.append(
            lax.mul(operand, scatters.scatter_add(zeros, indices, u, **as_arguments(params)))
        )
    if not parts:
        return out, Zero.from_primal_value(out)
    return out, parts[0] if len(parts) == 1 else ad.add_tangents(*parts)


def as_arguments(params):
    return {
        "dimension_numbers": params["dimension_numbers"],
        "indices_are_sorted": params["indices_are_sorted"],
        "unique_indices": params["unique_indices"],
        "mode": params["mode"],
    }


def _product_of_others(shape, indices, updates, params):
    """Return for each update the product of all other updates of its element, which may be zero."""
    args = as_arguments(params)
    dnums, mode, dtype = params["dimension_numbers"], params["mode"], dtypes.dtype(updates)
    is_zero = lax.eq(updates, lax.full_like(updates, 0))
    one = lax.full_like(updates, 1)
    nonzero = lax.select(is_zero, one, updates)
    product = scatters.scatter_mul(lax.full(shape, 1, dtype), indices, nonzero, **args)
    n_zeros = scatters.scatter_add(
        lax.full(shape, 0, np.int32), indices, lax.convert_element_type(is_zero, np.int32), **args
    )
    product = _gather_at(product, indices, np.shape(updates), dnums, mode, fill_value=1)
    n_zeros = _gather_at(n_zeros, indices, np.shape(updates), dnums, mode, fill_value=0)
    others_zero = lax.sub(n_zeros, lax.convert_element_type(is_zero, np.int32))
    others = lax.div(product, nonzero)
    return lax.select(
        lax.gt(others_zero, lax.full_like(others_zero, 0)), lax.full_like(updates, 0), others
    )


def scatter_mul_transpose(
    ct,
    operand,
    indices,
    updates,
    *,
    update_jaxpr,
    update_consts,
    **params,
):
    if ad.is_undefined_primal(operand):
        return [scatters.scatter_mul(ct, indices, updates, **as_arguments(params)), None, None]
    if not params["unique_indices"]:
        raise NotImplementedError(
            "scatter_mul is linear in its updates only if `unique_indices=True`"
        )
    update_ct = _gather_at(
        lax.mul(ct, operand),
        indices,
        updates.aval.shape,
        params["dimension_numbers"],
        params["mode"],
        fill_value=0,
        unique_indices=True,
        indices_are_sorted=params["indices_are_sorted"],
    )
    return [None, None, update_ct]


def scatter_extremal_jvp(primitive):
    """Return a jvp rule: the tangent of an extremum is the mean over all values that attain it."""

    def rule(primals, tangents, **params):
        operand, indices, updates = primals
        t, _, u = tangents
        out = primitive.bind(operand, indices, updates, **params)
        if type(t) is Zero and type(u) is Zero:
            return out, Zero.from_primal_value(out)
        t, u = ad.instantiate_zeros(t), ad.instantiate_zeros(u)
        dtype = core.typeof(t).dtype
        args = {**as_arguments(params), "unique_indices": False}
        dnums, shape, update_shape = (
            params["dimension_numbers"],
            np.shape(operand),
            np.shape(updates),
        )

        def at(x):
            return _gather_at(x, indices, update_shape, dnums, GatherScatterMode.PROMISE_IN_BOUNDS)

        one, zero = lax.full(update_shape, 1, dtype), lax.full(update_shape, 0, dtype)
        best = at(out)
        wins = lax.eq(updates, best)
        stays = lax.eq(at(operand), best)
        counts = scatters.scatter_add(
            lax.full(shape, 0, dtype), indices, lax.select(wins, one, zero), **args
        )
        refs = scatters.scatter_add(lax.full(shape, 0, dtype), indices, one, **args)
        n_wins = lax.max(at(counts), lax.select(stays, zero, one))
        share = lax.div(one, lax.add(n_wins, lax.select(stays, one, zero)))
        update_share = lax.select(wins, share, zero)
        # Each update of an element takes away an equal part of the operand's tangent.
        lost = lax.sub(lax.select(stays, share, zero), one)
        operand_share = lax.div(lost, lax.max(at(refs), one))
        change = lax.add(lax.mul(at(t), operand_share), lax.mul(u, update_share))
        return out, scatters.scatter_add(t, indices, change, **as_arguments(params))

    return rule


def scatter_jvp(primals, tangents, *, update_jaxpr, update_consts, **params):
    operand, indices, updates = primals
    t, _, u = tangents
    args = as_arguments(params)
    if update_jaxpr is not None:
        return _scatter_apply_jvp(primals, t, update_jaxpr, args)
    if type(t) is Zero and type(u) is Zero:
        out = scatters.scatter(operand, indices, updates, **args)
        return out, Zero.from_primal_value(out)
    t, u = ad.instantiate_zeros(t), ad.instantiate_zeros(u)
    if params["unique_indices"]:
        return (
            scatters.scatter(operand, indices, updates, **args),
            scatters.scatter(t, indices, u, **args),
        )
    # Which of several updates of an element is kept is undefined. To find out, scatter the numbers
    # of the updates, from 1, and read them back. The primal result must come from the same choice.
    dnums = params["dimension_numbers"]
    scatter_dims = [d for d in range(np.ndim(updates)) if d not in dnums.update_window_dims]
    batch = [np.shape(updates)[d] for d in scatter_dims]
    ids = lax.add(lax.iota(np.uint32, math.prod(batch)), np.uint32(1))
    ids = lax.broadcast_in_dim(lax.reshape(ids, batch), np.shape(updates), scatter_dims)
    winners = scatters.scatter(lax.full(np.shape(operand), 0, np.uint32), indices, ids, **args)
    at = _gather_at(winners, indices, np.shape(updates), dnums, GatherScatterMode.PROMISE_IN_BOUNDS)
    untouched = lax.eq(winners, lax.full_like(winners, 0))
    wins = lax.eq(ids, at)

    def masked(x, y):
        x = lax.select(untouched, x, lax.full_like(x, 0))
        y = lax.select(wins, y, lax.full_like(y, 0))
        return scatters.scatter_add(x, indices, y, **args)

    return masked(operand, updates), masked(t, u)


def _scatter_apply_jvp(primals, t, update_jaxpr, args):
    operand, indices, updates = primals
    out = scatters.scatter_p.bind(
        operand, indices, updates, update_jaxpr=update_jaxpr, update_consts=(), **args
    )
    if type(t) is Zero:
        return out, Zero.from_primal_value(out)
    if not args["unique_indices"]:
        raise NotImplementedError(
            "The derivative of scatter_apply, `x.at[i].apply(f)`, is implemented only for "
            "`unique_indices=True`: pass it if no element is indexed twice."
        )
    closed = close(update_jaxpr)
    derivative, _ = ad.jvp_jaxpr(closed, [True, False], True)

    def slope(x):
        one = np.array(1, dtypes.dtype(x))[()]
        return [core.jaxpr_as_fun(derivative)(x, x, one)[1]]

    aval = closed.in_avals[0]
    jaxpr, _, consts = pe.trace_to_jaxpr(lambda x, _: slope(x), [aval, aval])
    slope_jaxpr = core.ClosedJaxpr(jaxpr, consts) if consts else jaxpr
    # Scatter f'(x). Untouched elements keep their values, so set their slopes to 1.
    slopes = scatters.scatter_p.bind(
        operand, indices, updates, update_jaxpr=slope_jaxpr, update_consts=(), **args
    )
    touched = scatters.scatter(
        lax.full(np.shape(operand), False, np.bool_),
        indices,
        lax.full(np.shape(updates), True, np.bool_),
        **args,
    )
    slopes = lax.select(touched, slopes, lax.full_like(slopes, 1))
    return out, lax.mul(t, slopes)


def close(jaxpr):
    return jaxpr if isinstance(jaxpr, core.ClosedJaxpr) else core.ClosedJaxpr(jaxpr, ())


def scatter_transpose(ct, operand, indices, updates, *, update_jaxpr, update_consts, **params):
    if not params["unique_indices"]:
        raise NotImplementedError("scatter transpose is only implemented where unique_indices=True")
    args = as_arguments(params)
    operand_ct = update_ct = None
    if ad.is_undefined_primal(updates):
        shape = updates.aval.shape
        update_ct = _gather_at(
            ct,
            indices,
            shape,
            params["dimension_numbers"],
            params["mode"],
            fill_value=0,
            unique_indices=True,
            indices_are_sorted=params["indices_are_sorted"],
        )
    else:
        shape = np.shape(updates)
    if ad.is_undefined_primal(operand):
        zeros = lax.full(shape, 0, core.typeof(ct).dtype)
        operand_ct = scatters.scatter(ct, indices, zeros, **args)
    return [operand_ct, None, update_ct]
