"""Reductions over sliding windows, and the primitives for their derivatives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.ad_util import Zero
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.lax import lax, rules, slicing
from jax._src.lax.lax import monoids, sharding as shardings
from jax._src.lax.lax.reductions import like_operand, trace_computation
from jax._src.lax.lax.trees import combine_jaxpr, combine_jvp
from jax._src.lax.lax.windows import (
    PaddingType,
    check_window,
    padtype_to_pads,
    reduce_window_shape_tuple,
    windowed_shape,
)
from jax._src.lax.rules import ANY, LINEAR, NUMERIC, standard_primitive
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.util import split_list, tuple_insert

# ---------------------------------------------------------------------------------------------------
# Public API


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Reduce the elements in each position of a window that slides over the operand.

    Args:
      operand: array, or a pytree of arrays of one shape.
      init_value: the identity of `computation`: a scalar, or a pytree of scalars like `operand`.
      computation: associative function of two scalars (or pytrees of scalars like `operand`).
      window_dimensions: size of the window in each dimension.
      window_strides: steps between windows; None means 1.
      padding: "VALID", "SAME", "SAME_LOWER", or (low, high) for each dimension.
      base_dilation: spacing of the operand's elements; None means 1.
      window_dilation: spacing of the window's elements; None means 1.

    Returns:
      An array (or pytree of arrays) with one element for each window position.

    Raises:
      TypeError, ValueError: if lengths, sizes, structures or dtypes do not match.

    >>> lax.reduce_window(jnp.arange(5.), 1., lax.mul, (2,)).tolist()
    [0.0, 2.0, 6.0, 12.0]
    """
    operands, tree = tree_flatten(operand)
    inits, init_tree = tree_flatten(init_value)
    if tree != init_tree:
        raise ValueError(
            f"reduce_window: operand and init_value must have the same tree structure: {tree} vs. "
            f"{init_tree}"
        )
    if not operands:
        raise ValueError("reduce_window must have at least one operand")
    window = _window(
        core.typeof(operands[0]).shape,
        window_dimensions,
        window_strides,
        padding,
        base_dilation,
        window_dilation,
    )
    avals = [core.typeof(x) for x in operands]
    inits = [like_operand(i, x, computation) for i, x in zip(inits, avals)]
    if len(operands) == 1:
        known = _known_reducer(computation, operands[0], inits[0])
        if known is not None:
            return tree_unflatten(tree, [known.bind(operands[0], **window)])
    jaxpr = trace_computation("reduce_window", computation, tree, [x.dtype for x in avals])
    outs = reduce_window_p.bind(*operands, *inits, jaxpr=jaxpr, **window)
    return tree_unflatten(tree, outs)


def _window(shape, dimensions, strides, padding, base_dilation, window_dilation) -> dict[str, Any]:
    """Return a window's parameters, with defaults filled in and named paddings resolved."""
    dimensions = core.canonicalize_shape(dimensions)
    ones = (1,) * len(dimensions)
    strides = ones if strides is None else core.canonicalize_shape(strides)
    base_dilation = ones if base_dilation is None else core.canonicalize_shape(base_dilation)
    window_dilation = ones if window_dilation is None else core.canonicalize_shape(window_dilation)
    if isinstance(padding, (str, PaddingType)):
        no_padding = [(0, 0)] * len(dimensions)
        check_window(
            "reduce_window", shape, dimensions, strides, no_padding, base_dilation, window_dilation
        )
        dilated_shape = [core.dilate_dim(d, r) for d, r in zip(shape, base_dilation)]
        dilated_window = [core.dilate_dim(d, r) for d, r in zip(dimensions, window_dilation)]
        padding = padtype_to_pads(dilated_shape, dilated_window, strides, padding)
    return dict(
        window_dimensions=dimensions,
        window_strides=strides,
        padding=tuple((lo, hi) for lo, hi in padding),
        base_dilation=base_dilation,
        window_dilation=window_dilation,
    )


def _known_reducer(computation, operand, init):
    """Return the primitive that reduces by a known operation from its identity, or None."""
    if np.ndim(init) or isinstance(init, core.Tracer):
        return None
    dtype = core.typeof(operand).dtype
    for known, accepted, primitive, identity in _KNOWN:
        if known is computation and any(dtypes.issubdtype(dtype, kind) for kind in accepted):
            return primitive if np.asarray(init) == identity(dtype) else None
    return None


# The window parameters that all primitives below have, and their batching


def _add_dim(window: dict[str, Any], at: int) -> dict[str, Any]:
    """Extend a window to one more dimension, in which its size is 1."""
    more = {k: tuple_insert(v, at, 1) for k, v in window.items() if k != "padding"}
    return dict(more, padding=tuple_insert(window["padding"], at, (0, 0)))


def _window_sharding(name):
    def rule(*avals, **params):
        window = {k: v for k, v in params.items() if k in _WINDOW}
        shape = reduce_window_shape_tuple(avals[0].shape, **window)
        return shardings.resized(name, shardings.common(name, avals), shape)

    return rule


_WINDOW = {
    "window_dimensions",
    "window_strides",
    "padding",
    "base_dilation",
    "window_dilation",
}


def _reduce_known(name: str, accepted, monoid: monoids.Monoid, **rules_of_kind: Any):
    def shape(x, **window):
        return windowed_shape(name, x.shape, **window)

    def dtype(x, **window):
        rules.check_dtypes(name, (accepted,), (x.dtype,))
        return x.dtype

    def batch(args, bdims, **window):
        return p.bind(*args, **_add_dim(window, bdims[0])), bdims[0]

    def lower(ctx, x, **window):
        (aval_out,) = ctx.avals_out
        (out,) = mlir.reduce_window(
            ctx,
            reducer_name=f"{name}_reducer",
            reducer_body=lambda block: [monoid.emit(*block.arguments)],
            operands=[x],
            init_values=[monoids.constant(monoid.identity(aval_out.dtype))],
            init_values_avals=[core.ShapedArray((), aval_out.dtype)],
            out_avals=[aval_out],
            **window,
        )
        return [rules.with_sharding(ctx, out, aval_out)]

    p = standard_primitive(
        name,
        shape=shape,
        dtype=dtype,
        sharding=_window_sharding(name),
        lower=lower,
        batch=batch,
        **rules_of_kind,
    )
    return p


# ---------------------------------------------------------------------------------------------------
# Sums


def _window_sum_transpose(
    ct, x, *, window_dimensions, window_strides, padding, base_dilation, window_dilation
):
    """Transpose a window sum: the windows that contain an element form a cotangent window."""
    config = []
    for d, w, s, (lo, _), base, dilation, out in zip(
        x.aval.shape, window_dimensions, window_strides, padding, base_dilation, window_dilation,
        core.typeof(ct).shape,
    ):  # fmt: skip
        window = core.dilate_dim(w, dilation)
        low = window - 1 - lo
        high = core.dilate_dim(d, base) + window - 1 - core.dilate_dim(out, s) - low
        config.append((low, high, s - 1))
    padded = lax.pad(ct, np.zeros((), ct.dtype), config)
    ones = (1,) * len(config)
    out = reduce_window_sum_p.bind(
        padded,
        window_dimensions=window_dimensions,
        window_strides=base_dilation,
        padding=((0, 0),) * len(config),
        base_dilation=ones,
        window_dilation=window_dilation,
    )
    return [out]


reduce_window_sum_p = _reduce_known(
    "reduce_window_sum", NUMERIC, monoids.sum_monoid, jvp=LINEAR, transpose=_window_sum_transpose
)


# ---------------------------------------------------------------------------------------------------
# Extrema. The tangent of an extremum is that of the first element that attains it:
# `select_and_gather_add` gathers it, and its transpose `select_and_scatter_add` scatters
# cotangents.


def _extremum_jvp(select_prim):
    return lambda g, out, x, **window: select_and_gather_add_p.bind(
        g, x, select_prim=select_prim, **window
    )


def _gather_shape(tangents, operand, *, select_prim, **window):
    if tangents.shape != operand.shape:
        raise TypeError(
            "select_and_gather_add tangents and operand shapes must match, got "
            f"{tangents.shape} and {operand.shape}."
        )
    return windowed_shape("select_and_gather_add", operand.shape, **window)


def _gather_transpose(ct, tangents, operand, *, select_prim, **window):
    if any(d != 1 for d in window["window_dilation"]):
        return [_scatter_unrolled(ct, operand, select_prim, window), None]
    base = window["base_dilation"]
    dilated = operand
    dilate = [(0, 0, d - 1) for d in base]
    has_base_dilation = any(d != 1 for d in base)
    if has_base_dilation:
        dilated = lax.pad(operand, _least(select_prim, operand.dtype), dilate)
    out = select_and_scatter_add_p.bind(
        ct,
        dilated,
        select_prim=select_prim,
        **_without_dilations(window),
    )
    if has_base_dilation:
        zeros = [0] * len(base)
        out = slicing.slice(out, zeros, out.shape, base)
    return [out, None]


def _scatter_unrolled(ct, operand, select_prim, window):
    """Transpose `select_and_gather_add` for dilated windows, with one slice per window position."""
    operand = _padded(operand, _least(select_prim, operand.dtype), window)
    places = list(_places(operand.shape, core.typeof(ct).shape, window))
    best = slicing.slice(operand, *places[0])
    chosen = lax.full_like(best, 0, np.int32)
    for k, place in enumerate(places[1:], start=1):
        x = slicing.slice(operand, *place)
        keep = select_prim.bind(best, x)
        best = lax.select(keep, best, x)
        chosen = lax.select(keep, chosen, lax.full_like(chosen, k))
    zero = lax.full_like(ct, 0)
    total = None
    for k, (start, limit, strides) in enumerate(places):
        part = lax.select(lax.eq(chosen, lax.full_like(chosen, k)), ct, zero)
        config = [
            (lo, size - hi, s - 1) for lo, hi, s, size in zip(start, limit, strides, operand.shape)
        ]
        part = lax.pad(part, np.zeros((), ct.dtype), config)
        total = part if total is None else lax.add(total, part)
    undo = [(-lo, -hi, 0) for lo, hi in window["padding"]]
    total = lax.pad(total, np.zeros((), ct.dtype), undo)
    return slicing.slice(total, [0] * total.ndim, total.shape, window["base_dilation"])


def _padded(x, value, window):
    """Pad and dilate `x` explicitly."""
    config = [(lo, hi, d - 1) for (lo, hi), d in zip(window["padding"], window["base_dilation"])]
    return lax.pad(x, value, config)


def _places(padded_shape, out_shape, window):
    """Yield the (start, limit, strides) of the elements at each position in the window."""
    strides = window["window_strides"]
    for place in itertools.product(*map(range, window["window_dimensions"])):
        start = [k * d for k, d in zip(place, window["window_dilation"])]
        # The limit is one past the last element taken, or `start` if there is none.
        limit = [lo + (n - 1) * s + 1 if n else lo for lo, n, s in zip(start, out_shape, strides)]
        yield start, limit, strides


def _least(select_prim, dtype):
    return (monoids.max_identity if select_prim is lax.ge_p else monoids.min_identity)(dtype)


def _batch_pair(bind):
    """Return the batching rule of a primitive with two arrays and one window."""

    def batch(args, bdims, **params):
        size = next(x.shape[b] for x, b in zip(args, bdims) if b is not None)
        x, y = [batching.bdim_at_front(a, b, size) for a, b in zip(args, bdims)]
        window = {k: v for k, v in params.items() if k in _WINDOW}
        return bind(x, y, **dict(params, **_add_dim(window, 0))), 0

    return batch


def _gather_lower_pairs(ctx, tangents, operand, *, select_prim, **window):
    """Lower to a reduction of (value, tangent) pairs."""
    (aval_out,) = ctx.avals_out
    scalar = core.ShapedArray((), aval_out.dtype)
    direction = "GE" if select_prim is lax.ge_p else "LE"

    def body(block):
        x, tx, y, ty = block.arguments
        keep = mlir.compare_hlo(x, y, direction)
        return [hlo.select(keep, x, y), hlo.select(keep, tx, ty)]

    _, out = mlir.reduce_window(
        ctx,
        reducer_name="select_and_gather_add_reducer",
        reducer_body=body,
        operands=[operand, tangents],
        init_values=[
            monoids.constant(_least(select_prim, aval_out.dtype)),
            monoids.constant(np.zeros((), aval_out.dtype)),
        ],
        init_values_avals=[scalar, scalar],
        out_avals=[aval_out, aval_out],
        **window,
    )
    return [rules.with_sharding(ctx, out, aval_out)]


def _gather_lower_packed(ctx, tangents, operand, *, select_prim, **window):
    """Lower to a reduction of words of twice the width that hold the value and the tangent.

    The compilers for accelerators only reduce windows of single arrays.
    """
    (aval_out,) = ctx.avals_out
    bits = dtypes.itemsize_bits(aval_out.dtype)
    if bits not in (8, 16, 32):
        return _gather_lower_pairs(ctx, tangents, operand, select_prim=select_prim, **window)
    word, pair = np.dtype(f"uint{bits}"), np.dtype(f"uint{2 * bits}")
    direction = "GE" if select_prim is lax.ge_p else "LE"

    def cast(op, x, dtype):
        shape = ir.RankedTensorType(x.type).shape
        return op(ir.RankedTensorType.get(shape, mlir.dtype_to_ir_type(dtype)), x)

    def shift(op, x):
        shape = tuple(ir.RankedTensorType(x.type).shape)
        amount = monoids.constant(np.array(bits, pair))
        aval = core.ShapedArray(shape, pair)
        return op(x, mlir.broadcast_in_dim(ctx, amount, aval, broadcast_dimensions=()))

    def pack(high, low):
        high, low = [
            cast(hlo.convert, cast(hlo.bitcast_convert, x, word), pair) for x in (high, low)
        ]
        return hlo.or_(shift(hlo.shift_left, high), low)

    def high(x):
        x = cast(hlo.convert, shift(hlo.shift_right_logical, x), word)
        return cast(hlo.bitcast_convert, x, aval_out.dtype)

    def body(block):
        x, y = block.arguments
        return [hlo.select(mlir.compare_hlo(high(x), high(y), direction), x, y)]

    init = pack(
        monoids.constant(_least(select_prim, aval_out.dtype)),
        monoids.constant(np.zeros((), aval_out.dtype)),
    )
    (out,) = mlir.reduce_window(
        ctx,
        reducer_name="select_and_gather_add_reducer",
        reducer_body=body,
        operands=[pack(operand, tangents)],
        init_values=[init],
        init_values_avals=[core.ShapedArray((), pair)],
        out_avals=[aval_out.update(dtype=pair)],
        **window,
    )
    out = cast(hlo.bitcast_convert, cast(hlo.convert, out, word), aval_out.dtype)
    return [rules.with_sharding(ctx, out, aval_out)]


select_and_gather_add_p = standard_primitive(
    "select_and_gather_add",
    shape=_gather_shape,
    dtype=lambda tangents, operand, **_: tangents.dtype,
    sharding=_window_sharding("select_and_gather_add"),
    lower={None: _gather_lower_packed, "cpu": _gather_lower_pairs},
    jvp=(
        lambda g, out, tangents, operand, **params: select_and_gather_add_p.bind(
            g, operand, **params
        ),
        lambda g, out, tangents, operand, **params: Zero.from_primal_value(out),
    ),
    transpose=_gather_transpose,
    batch=_batch_pair(lambda *args, **params: select_and_gather_add_p.bind(*args, **params)),
)

reduce_window_max_p = _reduce_known(
    "reduce_window_max", ANY, monoids.max_monoid, jvp=(_extremum_jvp(lax.ge_p),)
)
reduce_window_min_p = _reduce_known(
    "reduce_window_min", ANY, monoids.min_monoid, jvp=(_extremum_jvp(lax.le_p),)
)


def _without_dilations(window):
    return {n: window[n] for n in ("window_dimensions", "window_strides", "padding")}


def _undilated(window):
    ones = (1,) * len(window["window_dimensions"])
    return dict(window, base_dilation=ones, window_dilation=ones)


def _scatter_add_shape(source, operand, *, select_prim, **window):
    expected = windowed_shape("select_and_scatter_add", operand.shape, **_undilated(window))
    if source.shape != expected:
        raise TypeError(
            f"select_and_scatter_add source must have shape {expected}, one element for each window, "
            f"got {source.shape} for operand shape {operand.shape}."
        )
    return operand.shape


def _scatter_add_transpose(ct, source, operand, *, select_prim, **window):
    if not ad.is_undefined_primal(source):
        return [None, None]
    out = select_and_gather_add_p.bind(ct, operand, select_prim=select_prim, **_undilated(window))
    return [out, None]


def _scatter_add_batch(args, bdims, *, select_prim, window_dimensions, window_strides, padding):
    size = next(x.shape[b] for x, b in zip(args, bdims) if b is not None)
    source, operand = [batching.bdim_at_front(a, b, size) for a, b in zip(args, bdims)]
    out = select_and_scatter_add_p.bind(
        source,
        operand,
        select_prim=select_prim,
        window_dimensions=(1, *window_dimensions),
        window_strides=(1, *window_strides),
        padding=((0, 0), *padding),
    )
    return out, 0


def _emit_select_and_scatter(ctx, operand, source, init, select, scatter, window, fill):
    """Emit select-and-scatter after an explicit pad, as backends disagree on its own padding."""
    (aval_out,) = ctx.avals_out
    padding = window["padding"]
    if not padding:
        return [scatter(init, source)]
    padded = any(lo or hi for lo, hi in padding)
    out_aval = aval_out
    if padded:
        low, high = zip(*padding)
        shape = [lo + d + hi for d, (lo, hi) in zip(aval_out.shape, padding)]
        out_aval = core.ShapedArray(shape, aval_out.dtype)
        operand = mlir.pad(ctx, out_aval, operand, fill, low, high, [0] * len(low))
    ndim = len(padding)
    op = hlo.SelectAndScatterOp(
        mlir.aval_to_ir_type(ctx.module_context, out_aval),
        operand,
        source,
        init,
        window_dimensions=mlir.dense_int_array(window["window_dimensions"]),
        window_strides=mlir.dense_int_array(window["window_strides"]),
        padding=ir.DenseIntElementsAttr.get(np.zeros((ndim, 2), np.int64), shape=[ndim, 2]),
    )
    scalar = mlir.aval_to_ir_type(ctx.module_context, core.ShapedArray((), aval_out.dtype))
    for region, body in ((op.select, select), (op.scatter, scatter)):
        with ir.InsertionPoint(region.blocks.append(scalar, scalar)):
            hlo.return_([body(*region.blocks[0].arguments)])
    out = op.result
    if padded:
        limits = [lo + d for d, lo in zip(aval_out.shape, low)]
        out = mlir.slice_op(
            ctx, out, aval_out, start_indices=low, limit_indices=limits, strides=[1] * ndim
        )
    return [rules.with_sharding(ctx, out, aval_out)]


def _scatter_add_lower(ctx, source, operand, *, select_prim, **window):
    (aval_out,) = ctx.avals_out
    direction = "GE" if select_prim is lax.ge_p else "LE"
    return _emit_select_and_scatter(
        ctx,
        operand,
        source,
        monoids.constant(np.zeros((), aval_out.dtype)),
        lambda x, y: mlir.compare_hlo(x, y, direction),
        lambda x, y: hlo.add(x, y),
        window,
        monoids.constant(_least(select_prim, aval_out.dtype)),
    )


def _scatter_sharding(name, position):
    return lambda *avals, **_: shardings.with_entries(
        avals[position], shardings.entries(shardings.common(name, avals[:2]))
    )


select_and_scatter_add_p = standard_primitive(
    "select_and_scatter_add",
    shape=_scatter_add_shape,
    dtype=lambda source, operand, **_: source.dtype,
    sharding=_scatter_sharding("select_and_scatter_add", 1),
    lower=_scatter_add_lower,
    jvp=(
        lambda g, out, source, operand, **params: select_and_scatter_add_p.bind(
            g, operand, **params
        ),
        lambda g, out, source, operand, **params: Zero.from_primal_value(out),
    ),
    transpose=_scatter_add_transpose,
    batch=_scatter_add_batch,
)


# ---------------------------------------------------------------------------------------------------
# Any monoid


def _split_pairs(values):
    return split_list(values, [len(values) // 2])


def _generic_shape(*avals, jaxpr, **window):
    operands, inits = _split_pairs(avals)
    if any(a.shape != operands[0].shape for a in operands):
        raise TypeError(
            "All reduce_window operands must have the same shape, got "
            f"{', '.join(str(a.shape) for a in operands)}"
        )
    if any(a.shape for a in inits):
        raise TypeError(
            f"reduce_window expected init_values to be scalars but got "
            f"{', '.join(str(a.shape) for a in inits)}"
        )
    return [windowed_shape("reduce_window", a.shape, **window) for a in operands]


def _generic_dtype(*avals, jaxpr, **window):
    operands, inits = _split_pairs(avals)
    if any(a.dtype != b.dtype for a, b in zip(operands, inits)):
        raise TypeError(
            "reduce_window got mismatched element types of operands and initial values: "
            f"{[a.str_short() for a in operands]} and {[a.str_short() for a in inits]}"
        )
    return [a.dtype for a in operands]


def _generic_sharding(*avals, jaxpr, **window):
    operands, _ = _split_pairs(avals)
    return [_window_sharding("reduce_window")(*operands, **window)] * len(operands)


def _unrolled(combine, operands, inits, window):
    """Reduce by elementwise operations, one position in the window after the other."""
    padded = [_padded(x, i, window) for x, i in zip(operands, inits)]
    shape = padded[0].shape
    out_shape = reduce_window_shape_tuple(core.typeof(operands[0]).shape, **window)
    acc = [lax.broadcast_in_dim(i, out_shape, ()) for i in inits]
    if core.is_empty_shape(out_shape):
        return acc
    for place in _places(shape, out_shape, window):
        acc = combine(acc, [slicing.slice(x, *place) for x in padded])
    return acc


def _generic_jvp(primals, tangents, *, jaxpr, **window):
    """Forward mode: reduce primals and tangents together."""
    n = len(primals) // 2
    if all(type(t) is Zero for t in tangents):
        outs = reduce_window_p.bind(*primals, jaxpr=jaxpr, **window)
        return outs, [Zero.from_primal_value(o) for o in outs]
    tangents = [ad.instantiate_zeros(t) for t in tangents]
    pairs = _jvp_of_pairs(jaxpr)
    outs = reduce_window_p.bind(
        *primals[:n], *tangents[:n], *primals[n:], *tangents[n:], jaxpr=pairs, **window
    )
    return outs[:n], outs[n:]


@core.cached_on_jaxpr
def _jvp_of_pairs(jaxpr):
    """Return the jvp of a computation as one that combines (primals, tangents) tuples."""
    n = len(jaxpr.out_avals)
    jvp, _ = ad.jvp_jaxpr(jaxpr, [True] * (2 * n), True)

    def combine(*args):
        left, right = _split_pairs(args)
        return core.jaxpr_as_fun(jvp)(*left[:n], *right[:n], *left[n:], *right[n:])

    avals = [core.ShapedArray((), a.dtype) for a in jvp.out_avals] * 2
    new, _, consts = pe.trace_to_jaxpr_dynamic(combine, avals)
    return core.ClosedJaxpr(new, consts)


def _generic_linearize(primals, tangents, *, jaxpr, **window):
    """Reverse mode: unroll the window into operations that can be linearized and transposed."""
    n = len(primals) // 2
    outs = reduce_window_p.bind(*primals, jaxpr=jaxpr, **window)
    if all(type(t) is Zero for t in tangents):
        return outs, [Zero.from_primal_value(o) for o in outs]
    tangents = [ad.instantiate_zeros(t) for t in tangents]
    jvp, _ = ad.jvp_jaxpr(jaxpr, [True] * (2 * n), True)
    operands, inits = [*primals[:n], *tangents[:n]], [*primals[n:], *tangents[n:]]
    return outs, _unrolled(combine_jvp(jvp, n), operands, inits, window)[n:]


def _generic_batch(args, bdims, *, jaxpr, **window):
    n = len(args) // 2
    size = next(x.shape[b] for x, b in zip(args, bdims) if b is not None)
    operands = [batching.bdim_at_front(x, b, size) for x, b in zip(args[:n], bdims[:n])]
    inits, init_dims = args[n:], bdims[n:]
    window = _add_dim(window, 0)
    if all(b is None for b in init_dims):
        return reduce_window_p.bind(*operands, *inits, jaxpr=jaxpr, **window), [0] * n
    # The initial values are batched, but lowering needs scalars: unroll the window instead.
    inits = [batching.bdim_at_front(x, b, size) for x, b in zip(inits, init_dims)]
    return _unrolled_batch(combine_jaxpr(jaxpr, n), operands, inits, window), [0] * n


def _unrolled_batch(combine, operands, inits, window):
    out_shape = reduce_window_shape_tuple(operands[0].shape, **window)
    acc = [lax.broadcast_in_dim(i, out_shape, (0,)) for i in inits]
    if core.is_empty_shape(out_shape):
        return acc
    inside = _padded(lax.full(operands[0].shape, True), np.False_, window)
    padded = []
    for x, i in zip(operands, inits):
        x = _padded(x, np.zeros((), x.dtype), window)
        padded.append(lax.select(inside, x, lax.broadcast_in_dim(i, x.shape, (0,))))
    for place in _places(padded[0].shape, out_shape, window):
        acc = combine(acc, [slicing.slice(x, *place) for x in padded])
    return acc


def _generic_lower(ctx, *values, jaxpr, **window):
    operands, inits = _split_pairs(values)
    outs = mlir.reduce_window(
        ctx,
        reducer_name="reduce_window_reducer",
        reducer_body=lambda block: monoids.emit_jaxpr(ctx, jaxpr, block.arguments),
        operands=operands,
        init_values=inits,
        init_values_avals=[core.ShapedArray((), a.dtype) for a in ctx.avals_out],
        out_avals=ctx.avals_out,
        **window,
    )
    return [rules.with_sharding(ctx, o, a) for o, a in zip(outs, ctx.avals_out)]


reduce_window_p = standard_primitive(
    "reduce_window",
    shape=_generic_shape,
    dtype=_generic_dtype,
    weak_type=lambda *avals, **_: False,
    sharding=_generic_sharding,
    lower=_generic_lower,
    multiple_results=True,
    jvp=_generic_jvp,
    linearize=_generic_linearize,
    batch=_generic_batch,
)


# ---------------------------------------------------------------------------------------------------
# Selection and scattering with arbitrary functions


def select_and_scatter(
    operand, select, window_dimensions, window_strides, padding, source, init_value, scatter
):
    """Select one element in each window, and combine that window's `source` into its position.

    Args:
      operand: array.
      select: function of two scalars that returns whether the first one is preferred.
      window_dimensions, window_strides, padding: see `reduce_window`.
      source: array with one element for each window.
      init_value: scalar, the initial value of all elements of the result.
      scatter: associative function of two scalars.

    Returns:
      An array of the operand's shape.
    """
    shape, dtype = core.typeof(operand).shape, core.typeof(operand).dtype
    window = _without_dilations(
        _window(shape, window_dimensions, window_strides, padding, None, None)
    )
    if (
        scatter is lax.add
        and select in (lax.ge, lax.le)
        and not isinstance(init_value, core.Tracer)
    ):
        if np.ndim(init_value) == 0 and np.asarray(init_value) == 0:
            prim = lax.ge_p if select is lax.ge else lax.le_p
            return select_and_scatter_add_p.bind(source, operand, select_prim=prim, **window)
    scalars = [core.ShapedArray((), dtype)] * 2
    jaxprs = []
    for fun, out_dtype in ((select, np.dtype(bool)), (scatter, dtype)):
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(lambda x, y, f=fun: [f(x, y)], scalars)
        jaxpr = core.ClosedJaxpr(jaxpr, consts)
        monoids.check_computation("select_and_scatter", jaxpr, [out_dtype])
        jaxprs.append(jaxpr)
    return select_and_scatter_p.bind(
        operand,
        source,
        like_operand(init_value, core.typeof(operand)),
        select_jaxpr=jaxprs[0],
        scatter_jaxpr=jaxprs[1],
        **window,
    )


def _scatter_shape(operand, source, init_value, *, select_jaxpr, scatter_jaxpr, **window):
    if init_value.shape:
        raise TypeError(f"select_and_scatter init_value must be a scalar, got {init_value.shape}.")
    return _scatter_add_shape(source, operand, select_prim=None, **window)


def _scatter_dtype(operand, source, init_value, **_):
    rules.check_same_dtypes("select_and_scatter", operand.dtype, source.dtype, init_value.dtype)
    return operand.dtype


def _scatter_lower(ctx, operand, source, init, *, select_jaxpr, scatter_jaxpr, **window):
    def emit(jaxpr):
        return lambda *args: monoids.emit_jaxpr(ctx, jaxpr, args)[0]

    select, scatter = emit(select_jaxpr), emit(scatter_jaxpr)
    return _emit_select_and_scatter(ctx, operand, source, init, select, scatter, window, init)


def _scatter_batch(args, bdims, **params):
    operand, source, init = args
    if bdims[2] is not None:
        raise NotImplementedError("select_and_scatter with a batch of initial values")
    size = next(x.shape[b] for x, b in zip(args, bdims) if b is not None)
    operand = batching.bdim_at_front(operand, bdims[0], size)
    source = batching.bdim_at_front(source, bdims[1], size)
    window = {k: v for k, v in params.items() if k in _WINDOW}
    params = dict(params, **_add_dim(window, 0))
    return select_and_scatter_p.bind(operand, source, init, **params), 0


select_and_scatter_p = standard_primitive(
    "select_and_scatter",
    shape=_scatter_shape,
    dtype=_scatter_dtype,
    sharding=_scatter_sharding("select_and_scatter", 0),
    lower=_scatter_lower,
    batch=_scatter_batch,
)

# Compared by identity, because functions that users pass may be unhashable.
_KNOWN = (
    (lax.add, NUMERIC, reduce_window_sum_p, monoids.sum_identity),
    (lax.max, ANY, reduce_window_max_p, monoids.max_identity),
    (lax.min, ANY, reduce_window_min_p, monoids.min_identity),
)


# Names that outside code imports


def _select_and_gather_add(
    tangents, operand, select_prim, window_dimensions, window_strides, padding, base_dilation, window_dilation
):  # fmt: skip
    shape, dilations = core.typeof(operand).shape, (base_dilation, window_dilation)
    window = _window(shape, window_dimensions, window_strides, padding, *dilations)
    return select_and_gather_add_p.bind(tangents, operand, select_prim=select_prim, **window)


def _select_and_scatter_add(
    source, operand, select_prim, window_dimensions, window_strides, padding
):  # fmt: skip
    shape = core.typeof(operand).shape
    window = _window(shape, window_dimensions, window_strides, padding, None, None)
    return select_and_scatter_add_p.bind(
        source, operand, select_prim=select_prim, **_without_dilations(window)
    )
