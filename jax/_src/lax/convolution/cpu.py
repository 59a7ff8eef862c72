"""Convolutions in the forms that XLA's CPU backend computes fast.

XLA has fast routines, for float32 and narrower types, for convolutions of one or two spatial
dimensions with one group and the features last. Grouped ones it computes by a plain loop over each result; those with other orders of
dimensions it brings into that form, but not in the bodies of loops. The difference is 5 to 200
times. So in programs for one CPU device, unless
they are exported,

- depthwise convolutions are sums of shifted products, one for each position of the kernel;
- their gradients by the kernel, whose results have few positions, are sums over rows;
- other grouped convolutions are one convolution per group;
- dilated inputs with kernels that are larger than the input, as the gradients of transposed
  convolutions have, are one convolution for each remainder of the result's positions by the dilation;
- the dimensions of all others are transposed to that order, which changes no result.

The sums are in another order than XLA's, so that the last bits may differ.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.interpreters import mlir
from jax._src.lax import control_flow, lax, slicing
from jax._src.lax.convolution.shapes import ConvDimensionNumbers
from jax._src.lax.native_calls import is_partitioned

# A convolution of fewer products is XLA's: it takes less than 10 ms (grouped) or 0.1 ms (others), and
# compiles faster.
_FEWEST_GROUPED, _FEWEST = 1 << 20, 1 << 14
# More terms, or convolutions, would make programs too large.
_MOST_TERMS = 64
_MOST_PHASES = 16
# The numbers that the sums over rows may occupy to stay in a core's cache.
_IN_CACHE = 1 << 16


def form(ctx: mlir.LoweringRuleContext, params: dict[str, Any]) -> Any:
    """Returns the function that computes a convolution faster than XLA's, or None.

    Args:
      ctx: the context of the lowering.
      params: the parameters of the convolution.
    """
    lhs, rhs = ctx.avals_in
    (out,) = ctx.avals_out
    shapes = (*lhs.shape, *rhs.shape, *out.shape)
    if is_partitioned(ctx) or ctx.module_context.lowering_parameters.for_export:
        return None
    if not core.is_constant_shape(shapes) or 0 in shapes:
        return None
    if not all(dtypes.issubdtype(a.dtype, np.floating) for a in (lhs, rhs, out)):
        return None
    if not core.is_constant_shape([p for pair in params["padding"] for p in pair]):
        return None
    numbers = params["dimension_numbers"]
    space = len(numbers.lhs_spec) - 2
    if space == 0:
        return None
    sizes = lambda aval, spec: math.prod(aval.shape[d] for d in spec)
    positions, window = sizes(out, numbers.out_spec[2:]), sizes(rhs, numbers.rhs_spec[2:])
    products = math.prod(out.shape) * sizes(rhs, numbers.rhs_spec[1:])
    if params["feature_group_count"] > 1:
        if products < _FEWEST_GROUPED:
            return None
        is_depthwise = rhs.shape[numbers.rhs_spec[1]] == 1 and window <= _MOST_TERMS
        return _depthwise if is_depthwise else _each_group
    if (groups := params["batch_group_count"]) > 1:
        if products < _FEWEST_GROUPED:
            return None
        of_depthwise = lhs.shape[numbers.lhs_spec[0]] == groups and positions <= _MOST_TERMS
        return _kernel_gradient if of_depthwise else _each_group
    if space > 2 or products < _FEWEST or out.dtype == np.float64:
        return None
    if products >= _FEWEST_GROUPED and _has_long_kernel(lhs.shape, rhs.shape, params):
        return _each_phase
    return None if numbers == _last(space) else _features_last


def reads_beyond(params: dict[str, Any]) -> bool:
    """Whether XLA's fast routines would read beyond the input: padding crops it in front, and adds behind."""
    padding = params["padding"]
    return (
        core.is_constant_shape([p for pair in padding for p in pair])
        and set(params["lhs_dilation"]) == {1}
        and any(low < 0 < high for low, high in padding)
    )


def crop(
    bind: Any, lhs: Any, rhs: Any, *, padding: Any, dimension_numbers: Any, **params: Any
) -> Any:
    """The convolution of the input without what padding crops in front of it."""
    left = list(padding)
    for i, (d, (low, high)) in enumerate(zip(dimension_numbers.lhs_spec[2:], padding)):
        if low < 0 < high:
            start = min(-low, lhs.shape[d]) if core.is_constant_dim(lhs.shape[d]) else -low
            lhs = slicing.slice_in_dim(lhs, start, None, axis=d)
            left[i] = (0, high + low + start)
    return bind(lhs, rhs, padding=tuple(left), dimension_numbers=dimension_numbers, **params)


def _has_long_kernel(lhs_shape: Any, rhs_shape: Any, params: dict[str, Any]) -> bool:
    """Whether a kernel is larger than an input that is dilated: XLA has no fast routine then."""
    numbers, dilation = params["dimension_numbers"], params["lhs_dilation"]
    if {*params["window_strides"], *params["rhs_dilation"]} != {1}:
        return False
    lhs = [lhs_shape[d] for d in numbers.lhs_spec[2:]]
    rhs = [rhs_shape[d] for d in numbers.rhs_spec[2:]]
    return (
        1 < math.prod(dilation) <= _MOST_PHASES
        and all(k >= step for k, step in zip(rhs, dilation))
        and any(k > n and step > 1 for n, k, step in zip(lhs, rhs, dilation))
    )


def _last(space: int) -> ConvDimensionNumbers:
    """The order of dimensions of XLA's fast routines."""
    spatial = tuple(range(1, space + 1))
    features_last = (0, space + 1, *spatial)
    return ConvDimensionNumbers(features_last, (space + 1, space, *range(space)), features_last)


def _features_last(bind: Any, lhs: Any, rhs: Any, *, dimension_numbers: Any, **params: Any) -> Any:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    lhs = lax.transpose(lhs, (lhs_spec[0], *lhs_spec[2:], lhs_spec[1]))
    rhs = lax.transpose(rhs, (*rhs_spec[2:], rhs_spec[1], rhs_spec[0]))
    out = bind(lhs, rhs, dimension_numbers=_last(lhs.ndim - 2), **params)
    return _put_back(out, out_spec)


def _each_phase(
    bind: Any,
    lhs: Any,
    rhs: Any,
    *,
    padding: Any,
    lhs_dilation: Any,
    dimension_numbers: Any,
    **params: Any,
) -> Any:
    """Convolutions of the input as it is, one for each phase: a position modulo the dilation.

    Results of a phase need only every n-th element of the kernel, as the other ones meet zeros.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    x = lax.transpose(lhs, (lhs_spec[0], *lhs_spec[2:], lhs_spec[1]))
    kernel = lax.transpose(rhs, (*rhs_spec[2:], rhs_spec[1], rhs_spec[0]))
    space = x.ndim - 2
    sizes = [
        (n - 1) * step + sum(pads) - k + 2
        for n, k, step, pads in zip(x.shape[1:], kernel.shape, lhs_dilation, padding)
    ]
    counts = [-(-size // step) for size, step in zip(sizes, lhs_dilation)]
    outs = []
    for phase in itertools.product(*map(range, lhs_dilation)):
        # In a dimension, the result at `step * q + r` is the sum over t of the input at
        # `q + t - before` times the kernel at `step * t + first`.
        shifts = [low - r for r, (low, _) in zip(phase, padding)]
        firsts = [shift % step for shift, step in zip(shifts, lhs_dilation)]
        part = slicing.slice(kernel, (*firsts, 0, 0), kernel.shape, (*lhs_dilation, 1, 1))
        befores = [shift // step for shift, step in zip(shifts, lhs_dilation)]
        pads = [
            (before, count - 1 + k - n - before)
            for before, count, k, n in zip(befores, counts, part.shape, x.shape[1:])
        ]
        out = bind(
            x,
            part,
            padding=tuple(pads),
            lhs_dilation=(1,) * space,
            dimension_numbers=_last(space),
            **params,
        )
        outs.append(lax.reshape(out, (1, *out.shape)))
    batch, features = outs[0].shape[1], outs[0].shape[-1]
    together = lax.reshape(lax.concatenate(outs, 0), (*lhs_dilation, batch, *counts, features))
    interleaved = [d for i in range(space) for d in (space + 1 + i, i)]
    together = lax.transpose(together, (space, *interleaved, 2 * space + 1))
    all_sizes = [count * step for count, step in zip(counts, lhs_dilation)]
    out = lax.reshape(together, (batch, *all_sizes, features))
    out = slicing.slice(out, [0] * out.ndim, (batch, *sizes, features))
    return _put_back(out, out_spec)


def _put_back(out: Any, out_spec: Any) -> Any:
    """Reorders dimensions from (batch, space, features) to those of `out_spec`."""
    places = (out_spec[0], *out_spec[2:], out_spec[1])
    return lax.transpose(out, tuple(int(i) for i in np.argsort(places)))


def _each_group(
    bind: Any,
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **params: Any,
) -> Any:
    """A loop over the groups: one convolution is compiled, whatever their number."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    groups = max(feature_group_count, batch_group_count)
    xs = _groups_first(lhs, lhs_spec[1 if feature_group_count > 1 else 0], groups)
    kernels = _groups_first(rhs, rhs_spec[0], groups)

    def step(_: None, operands: Any) -> Any:
        out = bind(
            *operands,
            dimension_numbers=dimension_numbers,
            feature_group_count=1,
            batch_group_count=1,
            **params,
        )
        return None, out

    _, outs = control_flow.scan(step, None, (xs, kernels))
    features = out_spec[1]
    order = (*range(1, features + 1), 0, *range(features + 1, outs.ndim))
    shape = list(outs.shape[1:])
    shape[features] *= groups
    return lax.reshape(lax.transpose(outs, order), shape)


def _groups_first(x: Any, dimension: int, groups: int) -> Any:
    """Splits a dimension, ordered (group, element), and makes the groups the first dimension."""
    shape = list(x.shape)
    shape[dimension : dimension + 1] = (groups, x.shape[dimension] // groups)
    order = (dimension, *(d for d in range(x.ndim + 1) if d != dimension))
    return lax.transpose(lax.reshape(x, shape), order)


def _depthwise(
    bind: Any,
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    preferred_element_type: Any,
    **params: Any,
) -> Any:
    """The sum, over positions in the kernel, of the shifted input times the kernel there."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    dtype, result = _dtypes(lhs, rhs, preferred_element_type)
    x = _padded(lhs, lhs_spec[2:], padding, lhs_dilation)
    kernel = lax.transpose(rhs, (*rhs_spec[2:], rhs_spec[1], rhs_spec[0]))
    window, features = kernel.shape[:-2], kernel.shape[-1]
    kernel = _as(dtype, lax.reshape(kernel, (*window, features)))
    x = _repeated(x, lhs_spec[1], features // x.shape[lhs_spec[1]])
    total = None
    for position in itertools.product(*map(range, window)):
        starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
        for i, d in enumerate(lhs_spec[2:]):
            size = (x.shape[d] - (window[i] - 1) * rhs_dilation[i] - 1) // window_strides[i] + 1
            starts[d] = position[i] * rhs_dilation[i]
            limits[d] = starts[d] + (size - 1) * window_strides[i] + 1
            strides[d] = window_strides[i]
        shifted = _as(dtype, slicing.slice(x, starts, limits, strides))
        there = [p + 1 for p in position]
        weights = slicing.slice(kernel, (*position, 0), (*there, features))
        weights = lax.broadcast_in_dim(
            lax.reshape(weights, (features,)), shifted.shape, (lhs_spec[1],)
        )
        term = lax.mul(shifted, weights)
        total = term if total is None else lax.add(total, term)
    order = [0] * x.ndim
    for place, d in zip(out_spec, lhs_spec):
        order[place] = d
    return _as(result, lax.transpose(total, order))


def _kernel_gradient(
    bind: Any,
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    preferred_element_type: Any,
    **params: Any,
) -> Any:
    """For each position of the result, a loop that adds up the products of rows.

    The kernel is large here, and the result has few positions. The sums stay separate along the
    row until the end, so that all is elementwise.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    dtype, result = _dtypes(lhs, rhs, preferred_element_type)
    # In the order (space except its last dimension, features, last dimension, batch or channels).
    order = lambda spec, last: (*spec[2:-1], spec[1 - last], spec[-1], spec[last])
    x = lax.transpose(_padded(lhs, lhs_spec[2:], padding, lhs_dilation), order(lhs_spec, 0))
    kernel = lax.transpose(rhs, (*rhs_spec[2:-1], rhs_spec[1], rhs_spec[-1], rhs_spec[0]))
    channels = kernel.shape[-1]
    x = _repeated(x, x.ndim - 1, channels // x.shape[-1])
    rows, (features, length) = kernel.shape[:-3], kernel.shape[-3:-1]
    sizes = [
        (x.shape[d] - (k - 1) * dilation - 1) // stride + 1
        for d, k, dilation, stride in zip(
            (*range(len(rows)), x.ndim - 2), (*rows, length), rhs_dilation, window_strides
        )
    ]
    count = math.prod(sizes)
    together = features if features * length * channels <= _IN_CACHE else 1
    loops = (*rows, features // together)
    shape = (together, length, channels)
    span = (together, (length - 1) * rhs_dilation[-1] + 1, channels)
    every = (1, rhs_dilation[-1], 1)
    zero = np.int32(0)

    def at_position(_: None, p: Any) -> Any:
        *above, along = [
            lax.mul(q, np.int32(n)) for q, n in zip(_unraveled(p, sizes), window_strides)
        ]

        def add_row(i: Any, total: Any) -> Any:
            *row, feature = _unraveled(_as(np.dtype(np.int32), i), loops)
            start = (*row, feature, zero, zero)
            weights = slicing.dynamic_slice(kernel, start, (*[1] * len(row), *shape))
            shifted = [
                lax.add(lax.mul(r, np.int32(n)), q) for r, n, q in zip(row, rhs_dilation, above)
            ]
            start = (*shifted, feature, along, zero)
            inputs = slicing.dynamic_slice(x, start, (*[1] * len(row), *span))
            inputs = slicing.slice(lax.reshape(inputs, span), (0, 0, 0), span, every)
            product = lax.mul(_as(dtype, inputs), _as(dtype, lax.reshape(weights, shape)))
            return lax.add(total, product)

        zeros = lax.full(shape, 0, dtype)
        total = control_flow.fori_loop(zero, np.int32(math.prod(loops)), add_row, zeros)
        return None, lax.reduce_sum(total, (0, 1))

    _, sums = control_flow.scan(at_position, None, lax.iota(np.dtype(np.int32), count))
    return _as(result, _put_back(lax.reshape(sums, (1, *sizes, channels)), out_spec))


def _dtypes(lhs: Any, rhs: Any, preferred: Any) -> tuple[Any, Any]:
    """The types to add in, and of the result."""
    result = np.dtype(lhs.dtype if preferred is None else preferred)
    return (np.dtype(np.float32) if result.itemsize < 4 else result), result


def _as(dtype: Any, x: Any) -> Any:
    return x if x.dtype == dtype else lax.convert_element_type(x, dtype)


def _padded(x: Any, dimensions: Any, padding: Any, dilation: Any) -> Any:
    config = [(0, 0, 0)] * x.ndim
    for d, (low, high), step in zip(dimensions, padding, dilation):
        config[d] = (low, high, step - 1)
    return lax.pad(x, lax.full((), 0, x.dtype), config)


def _repeated(x: Any, dimension: int, times: int) -> Any:
    """Repeats each element along a dimension."""
    if times == 1:
        return x
    shape = list(x.shape)
    shape.insert(dimension + 1, times)
    dims = tuple(d for d in range(len(shape)) if d != dimension + 1)
    repeated = lax.broadcast_in_dim(x, shape, dims)
    merged = list(x.shape)
    merged[dimension] *= times
    return lax.reshape(repeated, merged)


def _unraveled(i: Any, sizes: Any) -> list[Any]:
    """The indices in an array of these sizes of its element number `i`."""
    found = []
    for size in reversed(sizes):
        found.append(lax.rem(i, lax.full_like(i, size)))
        i = lax.div(i, lax.full_like(i, size))
    return found[::-1]
