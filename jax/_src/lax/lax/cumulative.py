"""Cumulative reductions: sums, products, extrema and log-sum-exp."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import mlir
from jax._src.lax import native_calls, rules
from jax._src.lax.lax import arithmetic, monoids, sharding as shardings
from jax._src.lax.lax.convert import convert_element_type
from jax._src.lax.lax.create import full_like
from jax._src.lax.lax.elementary import exp, log1p
from jax._src.lax.lax.joining import pad, split
from jax._src.lax.lax.logical import eq, ne
from jax._src.lax.lax.select import select
from jax._src.lax.lax.shape import broadcast_in_dim, reshape, rev, squeeze, transpose
from jax._src.lax.lax.trees import scan_tree
from jax._src.lax.rules import INEXACT, LINEAR, NUMERIC, standard_primitive
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

# ---------------------------------------------------------------------------------------------------
# Public functions


def cumsum(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Sum all elements up to each element along `axis`, or from each element on with `reverse`.

    Args:
      operand: numeric array of at least one dimension.
      axis: dimension to sum along, not negative.
      reverse: whether to start at the end.

    Returns:
      An array of the operand's shape and dtype.

    >>> lax.cumsum(jnp.arange(4)).tolist()
    [0, 1, 3, 6]
    """
    return _bind(cumsum_p, operand, axis, reverse)


def cumprod(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Multiply all elements up to each element along `axis`; arguments as for `cumsum`.

    >>> lax.cumprod(jnp.arange(1, 5)).tolist()
    [1, 2, 6, 24]
    """
    return _bind(cumprod_p, operand, axis, reverse)


def cummax(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Take the maximum of all elements up to each element along `axis`; arguments as for `cumsum`.

    >>> lax.cummax(jnp.array([1, 3, 2, 5])).tolist()
    [1, 3, 3, 5]
    """
    return _bind(cummax_p, operand, axis, reverse)


def cummin(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Take the minimum of all elements up to each element along `axis`; arguments as for `cumsum`.

    >>> lax.cummin(jnp.array([3, 4, 1, 2])).tolist()
    [3, 3, 1, 1]
    """
    return _bind(cummin_p, operand, axis, reverse)


def cumlogsumexp(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Compute log-sum-exp of all elements up to each element along `axis`, without overflow.

    The operand has a float or complex dtype; the other arguments are those of `cumsum`.

    >>> jnp.exp(lax.cumlogsumexp(jnp.zeros(3))).round().tolist()
    [1.0, 2.0, 3.0]
    """
    return _bind(cumlogsumexp_p, operand, axis, reverse)


def _bind(primitive, operand, axis, reverse):
    return primitive.bind(operand, axis=operator.index(axis), reverse=bool(reverse))


# ---------------------------------------------------------------------------------------------------
# Rules


def _cumulative_primitive(
    name: str,
    accepts: frozenset,
    op: Callable[[Any, Any], Any],
    identity: Callable[[Any], Any],
    *,
    costly: bool = False,
    kernel: int | None = None,
    combine: Callable[..., Any] | None = None,
    transpose: Callable[..., Any] | None = None,
) -> core.Primitive:
    """Define a scan by an associative operation.

    Args:
      name, accepts: see `nary_primitive`.
      op: the operation, elementwise on two arrays.
      identity: function from a dtype to the operation's identity.
      costly: whether the operation takes many instructions.
      kernel: the number of the operation for the native kernel, if that knows it.
      combine: the operation on (value, tangent) pairs of arrays, for the derivative; None if the
        scan is linear, in which case `transpose` is the transpose rule.
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

    windows = _window_lowering(op, identity)
    p = standard_primitive(
        name,
        shape=shape,
        dtype=dtype,
        sharding=_cumulative_sharding,
        lower={
            None: mlir.outlined(windows),
            "cpu": mlir.outlined(
                _kernel_lowering(kernel, _cpu_lowering(op, identity, windows, costly))
            ),
        },
        jvp=LINEAR if combine is None else jvp,
        transpose=transpose,
        batch=batch,
    )
    return p


def _cumulative_sharding(x, *, axis, reverse):
    return shardings.unsharded_over(
        x, (axis,), "Input should be unsharded over the axis being reduced."
    )


def _window_lowering(op, identity):
    """Lower to a reduction over windows up to the array's end, a pattern that XLA optimizes."""
    emit = mlir.lower_fun(op, multiple_results=False)

    def lower(ctx, x, *, axis, reverse):
        (aval,) = ctx.avals_out
        n, ndim = aval.shape[axis], len(aval.shape)
        if core.is_empty_shape(aval.shape):
            return [x]
        scalar = core.ShapedArray((), aval.dtype)
        body_ctx = ctx.replace(avals_in=[scalar, scalar], avals_out=[scalar])
        window, padding, ones = [1] * ndim, [(0, 0)] * ndim, [1] * ndim
        n = core.max_dim(n, 1)  # a symbolic size may turn out to be zero
        window[axis] = n
        padding[axis] = (0, n - 1) if reverse else (n - 1, 0)
        (out,) = mlir.reduce_window(
            ctx,
            reducer_name=f"{ctx.primitive.name}_reducer",
            reducer_body=lambda block: emit(body_ctx, *block.arguments),
            operands=[x],
            init_values=[monoids.constant(identity(aval.dtype))],
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


# The native kernel accumulates float32 in double precision, so that only the result is rounded.

_KERNEL = "jaxlib_ext_cumulative"
_MIN_KERNEL_SIZE = 256


def _kernel_lowering(operation, otherwise):
    """Lower to a call of the native kernel where there is one."""

    def lower(ctx, x, *, axis, reverse):
        (aval,) = ctx.avals_out
        low_precision = aval.dtype in (np.float16, dtypes.bfloat16)
        wide = aval.update(dtype=np.dtype(np.float32)) if low_precision else aval
        if (
            operation is None
            or not native_calls.is_number(wide.dtype)
            or not native_calls.can_call(ctx, _KERNEL)
            or aval.size < _MIN_KERNEL_SIZE
        ):
            return otherwise(ctx, x, axis=axis, reverse=reverse)
        if low_precision:
            x = hlo.convert(mlir.aval_to_ir_type(ctx.module_context, wide), x)
        attributes = dict(operation=np.int64(operation), reverse=np.int64(reverse))
        (out,) = native_calls.call_along(ctx, _KERNEL, [x], [wide], axis, attributes)
        if low_precision:
            out = hlo.convert(mlir.aval_to_ir_type(ctx.module_context, aval), out)
        return [rules.with_sharding(ctx, out, aval)]

    return lower


# On CPU XLA reduces such windows in a dozen passes over the array, and computes elements several
# times. If rows are long, a loop over rows needs only one pass. If rows are short and the operation
# is costly, split the array into enough blocks to make a long row, scan the blocks side by side,
# and finally combine the result before each block into it.

_MIN_LOOP_SIZE = 4096
_VECTOR = 256


def _cpu_lowering(op, identity, windows, costly):
    def scan(x, *, axis, reverse):
        if reverse:
            return rev(scan(rev(x, (axis,)), axis=axis, reverse=False), (axis,))
        dtype, shape = x.dtype, x.shape
        if dtypes.issubdtype(dtype, np.floating) and dtypes.itemsize_bits(dtype) < 32:
            x = convert_element_type(x, np.float32)  # long sums in low precision would stop growing
        n, rest = shape[axis], math.prod(shape) // shape[axis]
        perm = [axis, *[d for d in range(len(shape)) if d != axis]]
        x = reshape(transpose(x, perm), (n, rest))
        if rest >= _VECTOR and n <= _MIN_LOOP_SIZE:
            x = loop(x)
        else:
            x = in_blocks(x)
        x = reshape(x, [shape[d] for d in perm])
        return convert_element_type(transpose(x, [perm.index(d) for d in range(len(perm))]), dtype)

    def in_blocks(x):
        n, rest = x.shape
        blocks = max(-(-_VECTOR // rest), math.isqrt(n))
        size = -(-n // blocks)
        neutral = identity(x.dtype)
        x = pad(x, neutral, [(0, blocks * size - n, 0), (0, 0, 0)])
        x = transpose(reshape(x, (blocks, size, rest)), (1, 0, 2))
        x = reshape(loop(reshape(x, (size, blocks * rest))), (size, blocks, rest))
        totals = squeeze(split(x, (size - 1, 1))[1], (0,))
        before = loop(pad(totals, neutral, [(1, -1, 0), (0, 0, 0)]))
        x = op(broadcast_in_dim(before, x.shape, (1, 2)), x)
        x = reshape(transpose(x, (1, 0, 2)), (blocks * size, rest))
        return split(x, (n, blocks * size - n))[0]

    def loop(x):
        return loop_p.bind(x)

    loop_p = standard_primitive(
        "cumulative_loop",
        shape=lambda x: x.shape,
        dtype=lambda x: x.dtype,
        lower=_loop_lowering(op, identity),
    )
    loops = mlir.lower_fun(scan, multiple_results=False)

    def lower(ctx, x, *, axis, reverse):
        (aval,) = ctx.avals_out
        fits = (
            core.is_constant_shape(aval.shape)
            and aval.size >= _MIN_LOOP_SIZE
            and aval.shape[axis] > 1
            and (costly or aval.size >= _VECTOR * aval.shape[axis])
            and aval._sharding is None
        )
        return (loops if fits else windows)(ctx, x, axis=axis, reverse=reverse)

    return lower


def _loop_lowering(op, identity):
    """Lower to a loop that scans the rows of a matrix in place."""
    emit = mlir.lower_fun(op, multiple_results=False)

    def lower(ctx, x):
        (aval,) = ctx.avals_out
        n, width = aval.shape
        row = core.ShapedArray((1, width), aval.dtype)
        body_ctx = ctx.replace(avals_in=[row, row], avals_out=[row])
        i32 = mlir.aval_to_ir_type(ctx.module_context, core.ShapedArray((), np.dtype(np.int32)))
        row_type = mlir.aval_to_ir_type(ctx.module_context, row)
        zero, one = monoids.constant(np.int32(0)), monoids.constant(np.int32(1))
        neutral = monoids.constant(identity(aval.dtype))
        first = mlir.broadcast_in_dim(ctx, neutral, row, broadcast_dimensions=())
        types = [i32, row_type, x.type]
        while_op = hlo.WhileOp(types, [zero, first, x])
        cond = while_op.regions[0].blocks.append(*types)
        with ir.InsertionPoint(cond):
            end = monoids.constant(np.int32(n))
            hlo.return_([mlir.compare_hlo(cond.arguments[0], end, "LT")])
        body = while_op.regions[1].blocks.append(*types)
        with ir.InsertionPoint(body):
            i, total, rows = body.arguments
            here = hlo.dynamic_slice(rows, [i, zero], mlir.dense_int_array([1, width]))
            (total,) = emit(body_ctx, total, here)
            rows = hlo.dynamic_update_slice(rows, total, [i, zero])
            hlo.return_([hlo.add(i, one), total, rows])
        return [while_op.results[2]]

    return lower


# The operations on (value, tangent) pairs of arrays


def _prod_combine(a, b):
    (x, tx), (y, ty) = a, b
    return [arithmetic.mul(x, y), arithmetic.add(arithmetic.mul(tx, y), arithmetic.mul(x, ty))]


def _extremum_combine(op):
    def combine(a, b):
        (x, tx), (y, ty) = a, b
        out = op(x, y)
        zero, half, one = full_like(x, 0), full_like(x, 0.5), full_like(x, 1)
        is_x, is_y = eq(x, out), eq(y, out)
        # Equal elements each get half of the tangent.
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
    """Return exp(x - total), with infinity replaced by 0 to avoid inf - inf."""
    return exp(arithmetic.sub(_no_inf(x), _no_inf(total)))


def _no_inf(x):
    return select(eq(x, full_like(x, np.inf)), full_like(x, 0), x)


def logaddexp(x: Any, y: Any) -> Any:
    """Compute log(exp(x) + exp(y)) elementwise without overflow, in an inexact dtype."""
    if np.issubdtype(x.dtype, np.complexfloating):
        return _complex_logaddexp(x, y)
    # Use min - max instead of -|x - y|: its derivative is right also where x and y are equal.
    largest = arithmetic.max(x, y)
    delta = arithmetic.sub(arithmetic.min(x, y), largest)
    special = ne(delta, delta)  # equal infinities, NaN
    delta = select(special, full_like(delta, 0), delta)
    return select(special, arithmetic.add(x, y), arithmetic.add(largest, log1p(exp(delta))))


def _complex_logaddexp(x, y):
    largest = arithmetic.max(x, y)  # complex numbers are ordered by real part first
    delta = select(eq(largest, y), arithmetic.sub(x, y), arithmetic.sub(y, x))
    out = arithmetic.add(largest, log1p(exp(delta)))
    # Wrap the imaginary part to (-pi, pi].
    re, im = arithmetic.real(out), arithmetic.imag(out)
    two_pi, half = full_like(im, 2 * np.pi), full_like(im, 0.5)
    turns = arithmetic.ceil(arithmetic.sub(arithmetic.div(im, two_pi), half))
    wrapped = arithmetic.complex(re, arithmetic.sub(im, arithmetic.mul(two_pi, turns)))
    return select(ne(delta, delta), arithmetic.add(x, y), wrapped)


cumsum_p = _cumulative_primitive(
    "cumsum",
    NUMERIC,
    arithmetic.add,
    monoids.sum_identity,
    kernel=0,
    transpose=lambda ct, x, *, axis, reverse: [cumsum(ct, axis, not reverse)],
)
cumprod_p = _cumulative_primitive(
    "cumprod", NUMERIC, arithmetic.mul, monoids.prod_identity, kernel=1, combine=_prod_combine
)
cummax_p = _cumulative_primitive(
    "cummax",
    NUMERIC,
    arithmetic.max,
    monoids.max_identity,
    kernel=2,
    combine=_extremum_combine(arithmetic.max),
)
cummin_p = _cumulative_primitive(
    "cummin",
    NUMERIC,
    arithmetic.min,
    monoids.min_identity,
    kernel=3,
    combine=_extremum_combine(arithmetic.min),
)
cumlogsumexp_p = _cumulative_primitive(
    "cumlogsumexp",
    INEXACT,
    logaddexp,
    monoids.max_identity,
    costly=True,
    combine=_logaddexp_combine,
)
