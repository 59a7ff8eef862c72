"""Cumulative sums, products, extrema and log-sum-exps."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import mlir
from jax._src.lax import rules
from jax._src.lax.lax import arithmetic, monoids
from jax._src.lax.lax import sharding as shardings
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.elementary import exp, log1p
from jax._src.lax.lax.logical import eq, ne
from jax._src.lax.lax.select import select
from jax._src.lax.lax.trees import scan_tree
from jax._src.lax.rules import INEXACT, LINEAR, NUMERIC, standard_primitive
from jax._src.lib.mlir.dialects import hlo

# ---------------------------------------------------------------------------------------------------
# Public functions


def cumsum(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Sums of all elements up to each along `axis`; of all from it on with `reverse`.

    Args:
      operand: numeric array of at least one dimension.
      axis: along which to sum, counted from the front.
      reverse: whether to start at the end.

    Returns:
      An array of the operand's shape and dtype.

    >>> lax.cumsum(jnp.arange(4)).tolist()
    [0, 1, 3, 6]
    """
    return _bind(cumsum_p, operand, axis, reverse)


def cumprod(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Products of all elements up to each along `axis`; arguments as of `cumsum`.

    >>> lax.cumprod(jnp.arange(1, 5)).tolist()
    [1, 2, 6, 24]
    """
    return _bind(cumprod_p, operand, axis, reverse)


def cummax(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Largest elements up to each along `axis`; arguments as of `cumsum`.

    >>> lax.cummax(jnp.array([1, 3, 2, 5])).tolist()
    [1, 3, 3, 5]
    """
    return _bind(cummax_p, operand, axis, reverse)


def cummin(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Smallest elements up to each along `axis`; arguments as of `cumsum`.

    >>> lax.cummin(jnp.array([3, 4, 1, 2])).tolist()
    [3, 3, 1, 1]
    """
    return _bind(cummin_p, operand, axis, reverse)


def cumlogsumexp(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Logarithms of the sums of exponentials up to each element along `axis`, without overflow.

    The operand is inexact; the other arguments are those of `cumsum`.

    >>> lax.cumlogsumexp(jnp.log(jnp.array([1., 2., 3.]))).round(3).tolist()
    [0.0, 1.0989999771118164, 1.7920000553131104]
    """
    return _bind(cumlogsumexp_p, operand, axis, reverse)


def _bind(primitive, operand, axis, reverse):
    return primitive.bind(operand, axis=operator.index(axis), reverse=bool(reverse))


# ---------------------------------------------------------------------------------------------------
# Rules


def _cumulative_primitive(
    name: str,
    accepts: frozenset,
    identity: Callable[[Any], Any],
    emit: Callable[..., Any],
    *,
    combine: Callable[..., Any] | None = None,
    transpose: Callable[..., Any] | None = None,
) -> core.Primitive:
    """A scan by an associative operation.

    Args:
      name, accepts: as of `nary_primitive`.
      identity: dtype to the operation's neutral element.
      emit: `(ctx, x, y)`, two scalars as IR values, to the IR value of their combination.
      combine: the operation on (value, tangent) pairs of arrays, for its derivative; None if the scan is
        linear, and then `transpose` is its transpose rule.
    """

    def shape(x, *, axis, reverse):
        if axis < 0:
            raise ValueError(
                f"{name}: axis must be counted from the front, got {axis} for an array of shape "
                f"{x.shape}"
            )
        if axis >= len(x.shape):
            raise ValueError(f"{name}: axis {axis} is out of bounds for array of shape {x.shape}")
        return x.shape

    def dtype(x, *, axis, reverse):
        rules.check_dtypes(name, (accepts,), (x.dtype,))
        return x.dtype

    def jvp(primals, tangents, *, axis, reverse):
        (x,), (t,) = primals, tangents
        out = p.bind(x, axis=axis, reverse=reverse)
        if type(t) is Zero:
            return out, Zero.from_primal_value(out)
        _, t_out = scan_tree(combine, [x, t], axis, reverse)
        return out, t_out

    def batch(args, bdims, *, axis, reverse):
        (x,), (bdim,) = args, bdims
        return p.bind(x, axis=axis + (axis >= bdim), reverse=reverse), bdim

    p = standard_primitive(
        name,
        shape=shape,
        dtype=dtype,
        sharding=_cumulative_sharding,
        lower=mlir.outlined(_window_lowering(identity, emit)),
        jvp=LINEAR if combine is None else jvp,
        transpose=transpose,
        batch=batch,
    )
    return p


def _cumulative_sharding(x, *, axis, reverse):
    return shardings.unsharded_over(
        x, (axis,), "Input should be unsharded over the axis being reduced."
    )


def _window_lowering(identity, emit):
    """A scan as a reduction over windows that reach to the array's end: XLA knows this pattern."""

    def lower(ctx, x, *, axis, reverse):
        (aval,) = ctx.avals_out
        n, ndim = aval.shape[axis], len(aval.shape)
        if core.is_empty_shape(aval.shape):
            return [x]
        scalar = core.ShapedArray((), aval.dtype)
        body_ctx = ctx.replace(avals_in=[scalar, scalar], avals_out=[scalar])
        window, padding, ones = [1] * ndim, [(0, 0)] * ndim, [1] * ndim
        window[axis] = n
        padding[axis] = (0, n - 1) if reverse else (n - 1, 0)
        (out,) = mlir.reduce_window(
            ctx,
            reducer_name=f"{ctx.primitive.name}_reducer",
            reducer_body=lambda block: [emit(body_ctx, *block.arguments)],
            operands=[x],
            init_values=[mlir.ir_constant(identity(aval.dtype))],
            init_values_avals=[scalar],
            out_avals=[aval],
            window_dimensions=window,
            window_strides=ones,
            padding=padding,
            base_dilation=ones,
            window_dilation=ones,
        )
        return [rules.with_sharding(ctx, out, aval)]

    return lower


# The operations on (value, tangent) pairs


def _prod_combine(a, b):
    (x, tx), (y, ty) = a, b
    return [arithmetic.mul(x, y), arithmetic.add(arithmetic.mul(tx, y), arithmetic.mul(x, ty))]


def _extremum_combine(op):
    def combine(a, b):
        (x, tx), (y, ty) = a, b
        out = op(x, y)
        zero, half, one = full_like(x, 0), full_like(x, 0.5), full_like(x, 1)
        is_x, is_y = eq(x, out), eq(y, out)
        # Of two equal elements each gets half of the tangent.
        part_x = select(is_x, select(is_y, half, one), zero)
        part_y = select(is_y, select(is_x, half, one), zero)
        return [out, arithmetic.add(arithmetic.mul(tx, part_x), arithmetic.mul(ty, part_y))]

    return combine


def _logaddexp_combine(a, b):
    (x, tx), (y, ty) = a, b
    out = logaddexp(x, y)
    return [
        out,
        arithmetic.add(arithmetic.mul(tx, _share(x, out)), arithmetic.mul(ty, _share(y, out))),
    ]


def _share(x, total):
    """exp(x - total), where infinite values count as zero so that none is subtracted from another."""
    return exp(arithmetic.sub(_no_inf(x), _no_inf(total)))


def _no_inf(x):
    return select(eq(x, full_like(x, np.inf)), full_like(x, 0), x)


def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)), elementwise on inexact arrays of one dtype, without overflow."""
    if np.issubdtype(x.dtype, np.complexfloating):
        return _complex_logaddexp(x, y)
    # The distance as a difference of extrema: its derivative at ties is right, that of |x - y| is not.
    largest = arithmetic.max(x, y)
    delta = arithmetic.sub(arithmetic.min(x, y), largest)
    special = ne(delta, delta)  # equal infinities, NaN
    delta = select(special, full_like(delta, 0), delta)
    return select(special, arithmetic.add(x, y), arithmetic.add(largest, log1p(exp(delta))))


def _complex_logaddexp(x, y):
    largest = arithmetic.max(x, y)  # by real part
    delta = select(eq(largest, y), arithmetic.sub(x, y), arithmetic.sub(y, x))
    out = arithmetic.add(largest, log1p(exp(delta)))
    # The imaginary part is brought to (-pi, pi].
    re, im = arithmetic.real(out), arithmetic.imag(out)
    two_pi, half = full_like(im, 2 * np.pi), full_like(im, 0.5)
    turns = arithmetic.ceil(arithmetic.sub(arithmetic.div(im, two_pi), half))
    wrapped = arithmetic.complex(re, arithmetic.sub(im, arithmetic.mul(two_pi, turns)))
    return select(ne(delta, delta), arithmetic.add(x, y), wrapped)


_lower_logaddexp = mlir.lower_fun(logaddexp, multiple_results=False)

cumsum_p = _cumulative_primitive(
    "cumsum",
    NUMERIC,
    monoids.sum_identity,
    lambda ctx, x, y: hlo.add(x, y),
    transpose=lambda ct, x, *, axis, reverse: [cumsum(ct, axis, not reverse)],
)
cumprod_p = _cumulative_primitive(
    "cumprod",
    NUMERIC,
    monoids.prod_identity,
    lambda ctx, x, y: hlo.multiply(x, y),
    combine=_prod_combine,
)
cummax_p = _cumulative_primitive(
    "cummax",
    NUMERIC,
    monoids.max_identity,
    lambda ctx, x, y: mlir.max_hlo(x, y),
    combine=_extremum_combine(arithmetic.max),
)
cummin_p = _cumulative_primitive(
    "cummin",
    NUMERIC,
    monoids.min_identity,
    lambda ctx, x, y: mlir.min_hlo(x, y),
    combine=_extremum_combine(arithmetic.min),
)
cumlogsumexp_p = _cumulative_primitive(
    "cumlogsumexp",
    INEXACT,
    monoids.max_identity,
    lambda ctx, x, y: _lower_logaddexp(ctx, x, y)[0],
    combine=_logaddexp_combine,
)
