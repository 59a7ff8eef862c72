"""The rule of convolution."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.export.onnx.attributes import (
    attribute,
    elements,
    integer,
    ints,
    matrix,
    result_dtype,
    result_shape,
)
from jax._src.export.onnx.contractions import dot
from jax._src.export.onnx.graph import Graph, Shape, Unsupported, Value, known
from jax._src.export.onnx.shapes import apply_pad, pad, reverse
from jax._src.export.onnx.windows import window_slice
from jax._src.lib.mlir.dialects import hlo

_MAX_UNROLLED = 512  # elements of a kernel that are multiplied one by one


def _convolution(
    c: Any, op: Any, x: Value, kernel: Value, dynamic_padding: Value | None = None
) -> Value:
    """Brings the arrays into ONNX's layout: (batch, feature, spatial...), (out, in, spatial...)."""
    g, shape, dtype = c.graph, result_shape(op), result_dtype(op)
    d = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    spatial = list(d.input_spatial_dimensions)
    rank = len(spatial)
    x = g.transpose(g.whole(x), [d.input_batch_dimension, d.input_feature_dimension, *spatial])
    kernel = g.transpose(
        g.whole(kernel),
        [
            d.kernel_output_feature_dimension,
            d.kernel_input_feature_dimension,
            *d.kernel_spatial_dimensions,
        ],
    )
    strides, outer, inner = (
        ints(op, n, [1] * rank) for n in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    reversal = attribute(op, "window_reversal")
    if reversal is not None:
        flipped = [2 + i for i, r in enumerate(_bools(reversal, rank)) if r]
        kernel = reverse(g, kernel, flipped)
    if dynamic_padding is None:
        padding = matrix(op, "padding", rank)
    else:
        x, padding = _padded_by(g, x, outer, dynamic_padding), [(0, 0)] * rank
        outer = [1] * rank
    groups = integer(op, "feature_group_count")
    batch_groups = integer(op, "batch_group_count")
    if batch_groups > 1:
        x, groups = _batch_groups_as_features(g, x, batch_groups), batch_groups
    out_layout = [
        d.output_batch_dimension,
        d.output_feature_dimension,
        *d.output_spatial_dimensions,
    ]
    full = tuple(shape[i] for i in out_layout)
    if any(n != 1 for n in outer) or any(n < 0 for p in padding for n in p):
        x, padding = _padded(g, x, outer, padding), [(0, 0)] * rank
    if rank and dtype.name in ("float32", "float16", "bfloat16") and rank <= 3:
        kind = g.kernel_dtype("Conv", dtype)
        names = [g.cast(v, kind).name for v in (x, kernel)]
        pads = [p[side] for side in (0, 1) for p in padding]
        name = g.node("Conv", names, strides=strides, dilations=inner, pads=pads, group=groups)
        result = g.cast(known(name, kind, full), dtype)
    else:
        x = _padded(g, x, [1] * rank, padding)
        result = _unrolled(g, x, kernel, strides, inner, groups, dtype, full)
    return g.transpose(result, [out_layout.index(i) for i in range(len(shape))])


def _bools(attr: Any, count: int) -> list[bool]:
    text = str(attr)
    if text.startswith("dense"):
        return [bool(b) for b in elements(attr)]
    return [t == "true" for t in text[text.index(":") + 1 : -1].replace(" ", "").split(",")][:count]


def _batch_groups_as_features(g: Graph, x: Value, groups: int) -> Value:
    """(groups * n, features, ...) as (n, groups * features, ...)."""
    batch, features = x.shape[:2]
    if None in x.shape:
        raise Unsupported("a convolution of batch groups, of sizes that are not known")
    rest = x.shape[2:]
    x = g.reshape(x, (groups, batch // groups, features, *rest))
    x = g.transpose(x, [1, 0, *range(2, x.ndim)])
    return g.reshape(x, (batch // groups, groups * features, *rest))


def _padded(
    g: Graph, x: Value, between: Sequence[int], padding: Sequence[tuple[int, int]]
) -> Value:
    low, high = ([0, 0, *[p[side] for p in padding]] for side in (0, 1))
    interior = [0, 0, *[n - 1 for n in between]]
    shape = tuple(
        None if n is None else max(0, (n - 1) * (i + 1) + 1) + a + b
        for n, a, b, i in zip(x.shape, low, high, interior)
    )
    return pad(g, x, g.constant(np.zeros((), x.dtype)), low, high, interior, shape)


def _padded_by(g: Graph, x: Value, between: Sequence[int], padding: Value) -> Value:
    """The operand, padded at its edges by numbers that are not known."""
    x = _padded(g, x, between, [(0, 0)] * len(between))
    sides = g.transpose(g.whole(g.cast(padding, np.int64)), [1, 0])
    pads = _with_plain_dimensions(g, sides)
    shape = (*x.shape[:2], *[None] * len(between))
    zero = g.constant(np.zeros((), x.dtype))
    return apply_pad(g, x, zero, pads, shape)


def _with_plain_dimensions(g: Graph, sides: Value) -> str:
    """Paddings (low and high, dimension), with none of batch and features, as ONNX's vector."""
    name = g.node("Pad", [sides.name, g.ints([0, 2, 0, 0])], mode="constant")
    return g.node("Reshape", [name, g.ints([-1])])


def _unrolled(
    g: Graph,
    x: Value,
    kernel: Value,
    strides: Sequence[int],
    inner: Sequence[int],
    groups: int,
    dtype: np.dtype,
    shape: Shape,
) -> Value:
    """A sum of matrix products, one for each position in the kernel, for types that Conv lacks."""
    window = kernel.shape[2:]
    if math.prod(window) > _MAX_UNROLLED:
        raise Unsupported(f"a convolution of {dtype.name} by {math.prod(window)} positions")
    outputs, features = kernel.shape[:2]
    total = None
    for position in itertools.product(*[range(n) for n in window]):
        part = x
        for i, k in enumerate(position):
            span = (window[i] - 1) * inner[i] + 1
            part = window_slice(g, part, 2 + i, k * inner[i], strides[i], span)
        starts, limits = [0, 0, *position], [None, None, *[k + 1 for k in position]]
        weights = g.squeeze(g.slice(kernel, starts, limits), range(2, kernel.ndim))
        product = _grouped_product(g, part, weights, groups, dtype, (outputs, features), shape)
        total = product if total is None else g.map("Add", total, product)
    return total


def _grouped_product(
    g: Graph,
    x: Value,
    weights: Value,
    groups: int,
    dtype: np.dtype,
    sizes: tuple[int, int],
    shape: Shape,
) -> Value:
    """(batch, features, ...) times (outputs, features of a group)."""
    outputs, features = sizes
    if groups == 1:
        out = dot(g, x, weights, ([], []), ([1], [1]), dtype, (shape[0], *shape[2:], outputs))
        return g.transpose(out, [0, out.ndim - 1, *range(1, out.ndim - 1)])
    if None in x.shape:
        raise Unsupported(f"a grouped convolution of {dtype.name}, of sizes that are not known")
    x = g.reshape(x, (x.shape[0], groups, features, *x.shape[2:]))
    weights = g.reshape(weights, (groups, outputs // groups, features))
    full = (groups, shape[0], *shape[2:], outputs // groups)
    out = dot(g, x, weights, ([1], [0]), ([2], [2]), dtype, full)
    out = g.transpose(out, [1, 0, out.ndim - 1, *range(2, out.ndim - 1)])
    return g.reshape(out, tuple(shape))


RULES = {"stablehlo.convolution": _convolution, "stablehlo.dynamic_conv": _convolution}
