"""The convolution primitive and its rules."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.interpreters import ad, mlir
from jax._src.lax import lax, rules
from jax._src.lax.convolution import cpu
from jax._src.lax.convolution.shapes import (
    ConvDimensionNumbers,
    check_window,
    conv_shape_tuple,
)
from jax._src.lax.lax import sharding as shardings
from jax._src.lax.rules import BILINEAR, standard_primitive
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo


def _conv_shape(
    lhs,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    **kwargs,
):
    name = "conv_general_dilated"
    if lhs.ndim != rhs.ndim:
        raise TypeError(
            f"{name} lhs and rhs must have the same number of dimensions, but got {lhs.shape} and "
            f"{rhs.shape}."
        )
    for what, count in (
        ("feature_group_count", feature_group_count),
        ("batch_group_count", batch_group_count),
    ):
        if not count > 0:
            raise ValueError(f"{name} {what} must be a positive integer, got {count}.")
    if feature_group_count > 1 and batch_group_count > 1:
        raise ValueError(
            "At most one of batch_group_count and feature_group_count may be > 1, got "
            f"batch_group_count={batch_group_count} and feature_group_count={feature_group_count}"
        )
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    features, kernel_features = lhs.shape[lhs_spec[1]], rhs.shape[rhs_spec[1]]
    if features % feature_group_count:
        raise ValueError(
            f"{name} feature_group_count must divide lhs feature dimension size, but "
            f"{feature_group_count} does not divide {features}."
        )
    if features // feature_group_count != kernel_features:
        raise ValueError(
            f"{name} lhs feature dimension size divided by feature_group_count must equal the rhs input "
            f"feature dimension size, but {features} // {feature_group_count} != {kernel_features}."
        )
    out_features = rhs.shape[rhs_spec[0]]
    for what, count in (
        ("feature_group_count", feature_group_count),
        ("batch_group_count", batch_group_count),
    ):
        if out_features % count:
            raise ValueError(
                f"{name} rhs output feature dimension size must be a multiple of {what}, but "
                f"{out_features} is not a multiple of {count}."
            )
    n = lhs.ndim - 2
    check_window(name, n, window_strides, lhs_dilation, rhs_dilation)
    lhs_shape = [lhs.shape[d] for d in lhs_spec]
    rhs_shape = [rhs.shape[d] for d in rhs_spec]
    lhs_shape[2:] = [core.dilate_dim(d, k) for d, k in zip(lhs_shape[2:], lhs_dilation)]
    rhs_shape[2:] = [core.dilate_dim(d, k) for d, k in zip(rhs_shape[2:], rhs_dilation)]
    out = conv_shape_tuple(lhs_shape, rhs_shape, window_strides, padding, batch_group_count)
    return tuple([out[out_spec.index(d)] for d in range(n + 2)])


def _conv_dtype(lhs, rhs, *, preferred_element_type, **kwargs):
    kinds = (rules.ANY, rules.ANY)
    rules.check_dtypes("conv_general_dilated", kinds, (lhs.dtype, rhs.dtype))
    if preferred_element_type is None or preferred_element_type == lhs.dtype:
        return lhs.dtype
    _check_preferred(lhs.dtype, preferred_element_type)
    return preferred_element_type


def _check_preferred(dtype, preferred) -> None:
    if dtype == np.bool_:
        return
    names = f"{rules.dtype_name(dtype)} and preferred_element_type={rules.dtype_name(preferred)}"
    kinds = (np.integer, np.floating, np.complexfloating)
    i, j = (
        next((i for i, k in enumerate(kinds) if dtypes.issubdtype(d, k)), None)
        for d in (dtype, preferred)
    )
    if (i, j) not in ((0, 0), (0, 1), (1, 1), (2, 2)):
        raise TypeError(
            "Input type is incompatible with `preferred_element_type`. The compatible combinations of "
            "(input_type, preferred_element_type) are (integral, integral), (integral, floating), "
            f"(floating, floating), (complex, complex); got {names}."
        )
    if lax.dtype_bits(preferred) < lax.dtype_bits(dtype):
        raise TypeError(
            f"`preferred_element_type` must not be narrower than the original type; got {names}."
        )
    if dtypes.issubdtype(dtype, np.signedinteger) and dtypes.issubdtype(
        preferred, np.unsignedinteger
    ):
        raise TypeError(
            "`preferred_element_type` must have the same signedness as the original type; got "
            f"{names}."
        )


def _conv_sharding(lhs, rhs, *, dimension_numbers, out_sharding, **params):
    if out_sharding is not None:
        return out_sharding
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    l, r = shardings.entries(lhs), shardings.entries(rhs)
    summed = [l[lhs_spec[1]]] + [r[d] for d in rhs_spec[1:]]
    grouped = params["feature_group_count"] > 1 or params["batch_group_count"] > 1
    batch, features = l[lhs_spec[0]], r[rhs_spec[0]]
    if any(e is not None for e in summed) or (
        grouped and (batch is not None or features is not None)
    ):
        raise core.ShardingTypeError(
            "conv_general_dilated cannot tell the sharding of its result where input features, groups or "
            "spatial dimensions of rhs are sharded: give it as `out_sharding`. Got "
            f"{lhs.str_short()} and {rhs.str_short()}."
        )
    entries: list[Any] = [None] * len(out_spec)
    entries[out_spec[0]], entries[out_spec[1]] = batch, features
    aval = lhs if lhs._sharding is not None else rhs
    shape = _conv_shape(lhs, rhs, dimension_numbers=dimension_numbers, **params)
    for d, out in zip(lhs_spec[2:], out_spec[2:]):
        if l[d] is not None and shape[out] % shardings.axes_size(aval.sharding, l[d]):
            raise core.ShardingTypeError(
                f"conv_general_dilated: size {shape[out]} of dimension {out} of the result cannot be "
                f"sharded as dimension {d} of {lhs.str_short()} is. Use `jax.sharding.reshard` first."
            )
        entries[out] = l[d]
    return shardings.with_entries(aval, entries)


# ---------------------------------------------------------------------------------------------------
# Differentiation


def _conv_transpose_rule(
    ct,
    lhs,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    precision,
    preferred_element_type,
    out_sharding,
):
    lhs_aval, rhs_aval = lax.aval_of(lhs), lax.aval_of(rhs)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    sizes = [
        (
            core.dilate_dim(lhs_aval.shape[l], ld),
            core.dilate_dim(rhs_aval.shape[r], rd),
            core.dilate_dim(np.shape(ct)[o], s),
            lo,
        )
        for l, r, o, ld, rd, s, (lo, _) in zip(
            lhs_spec[2:],
            rhs_spec[2:],
            out_spec[2:],
            lhs_dilation,
            rhs_dilation,
            window_strides,
            padding,
        )
    ]
    common = {
        "precision": precision,
        "preferred_element_type": preferred_element_type,
    }

    if ad.is_undefined_primal(lhs):
        # Convolve the cotangent, dilated by the strides, with the flipped kernel, features swapped.
        pads = [(k - lo - 1, size - out + lo) for size, k, out, lo in sizes]
        groups = max(feature_group_count, batch_group_count)
        kernel = rhs
        if groups > 1:
            kernel = _split(rhs_spec[0], groups, kernel)
            kernel = _merge(rhs_spec[0], rhs_spec[1], kernel)
        out = conv_general_dilated_p.bind(
            ct,
            _like(lax.rev(kernel, rhs_spec[2:]), ct),
            window_strides=lhs_dilation,
            padding=tuple(pads),
            lhs_dilation=window_strides,
            rhs_dilation=rhs_dilation,
            dimension_numbers=ConvDimensionNumbers(out_spec, _swapped(rhs_spec), lhs_spec),
            feature_group_count=groups,
            batch_group_count=1,
            out_sharding=lhs_aval._sharding if batch_group_count == 1 else None,
            **common,
        )
        if batch_group_count > 1:
            out = _split(lhs_spec[1], batch_group_count, out)
            out = _merge(lhs_spec[1], lhs_spec[0], out)
        return [_as_type(out, lhs_aval), None]

    # Convolve the input with the cotangent as the kernel: batch and features swap roles, as do the
    # two kinds of groups.
    pads = [(lo, out + k - size - 1 - lo) for size, k, out, lo in sizes]
    out = conv_general_dilated_p.bind(
        _like(lhs, ct),
        ct,
        window_strides=rhs_dilation,
        padding=tuple(pads),
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        dimension_numbers=ConvDimensionNumbers(
            _swapped(lhs_spec), _swapped(out_spec), _swapped(rhs_spec)
        ),
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        out_sharding=rhs_aval._sharding,
        **common,
    )
    return [None, _as_type(out, rhs_aval)]


def _swapped(spec):
    a, b, *space = spec
    return (b, a, *space)


def _like(x, y):
    return _as_type(x, core.typeof(y))


def _as_type(x, aval):
    return x if core.typeof(x).dtype == aval.dtype else lax.convert_element_type(x, aval.dtype)


# ---------------------------------------------------------------------------------------------------
# Batching


def _conv_batch(
    args,
    bdims,
    *,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    out_sharding,
    **params,
):
    (lhs, rhs), (l, r) = args, bdims
    if 0 in (x.shape[d] for x, d in zip(args, bdims) if d is not None):
        return _empty_batch(
            args, bdims, params, feature_group_count, batch_group_count, dimension_numbers
        )
    if out_sharding is not None:
        raise NotImplementedError(
            "vmap of a convolution with `out_sharding`: use `jax.sharding.reshard` on the result"
        )
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    params |= {"dimension_numbers": dimension_numbers, "out_sharding": None}
    if l is not None and r is not None:
        # Make one more group for each batch element.
        size = lhs.shape[l]
        if not core.is_constant_dim(size):
            raise NotImplementedError(
                f"vmap, along the symbolic size {size}, of a convolution whose operands are both batched: it "
                "is one of as many groups, and their number must be constant. Use jax.lax.map."
            )
        if batch_group_count > 1:
            lhs = _merge(l, lhs_spec[0], lhs)
            batch_group_count *= size
        else:
            lhs = _merge(l, lhs_spec[1], lhs)
            feature_group_count *= size
        rhs = _merge(r, rhs_spec[0], rhs)
        split_at = out_spec[1]
    elif l is not None:
        # Merge the batch dimension into the convolution's own batch.
        size, split_at = lhs.shape[l], out_spec[0]
        lhs = _merge_into_groups(l, lhs_spec[0], batch_group_count, lhs)
    else:
        # Merge the batch dimension into the output features.
        size, split_at = rhs.shape[r], out_spec[1]
        groups = max(feature_group_count, batch_group_count)
        rhs = _merge_into_groups(r, rhs_spec[0], groups, rhs)
    out = conv_general_dilated_p.bind(
        lhs,
        rhs,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        **params,
    )
    if l is None and groups > 1:
        # Reorder the features from (group, batch, feature) to (batch, group, feature).
        out = _split(split_at, groups, out)
        out = _split(split_at + 1, size, out)
        return _merge(split_at, split_at + 1, out), split_at
    return _split(split_at, size, out), split_at


def _empty_batch(args, bdims, params, feature_group_count, batch_group_count, dimension_numbers):
    lhs, rhs = (
        core.ShapedArray([n for i, n in enumerate(x.shape) if i != d], x.dtype)
        for x, d in zip(args, bdims)
    )
    out = conv_general_dilated_p.abstract_eval(
        lhs,
        rhs,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        dimension_numbers=dimension_numbers,
        out_sharding=None,
        **params,
    )
    return lax.full((0, *out.shape), 0, out.dtype), 0


def _split(d: int, size: int, x):
    """Split dimension `d` into `size` and the rest."""
    shape = x.shape
    return lax.reshape(x, (*shape[:d], size, shape[d] // size, *shape[d + 1 :]))


def _merge(src: int, dst: int, x):
    """Merge dimension `src` into dimension `dst` of the remaining ones, as the major part."""
    order = [d for d in range(x.ndim) if d != src]
    shape = [x.shape[d] for d in order]
    shape[dst] *= x.shape[src]
    order.insert(dst, src)
    return lax.reshape(x, shape, None if order == list(range(x.ndim)) else order)


def _merge_into_groups(src: int, dst: int, groups: int, x):
    """Like `_merge`, but `dst` is ordered (group, element); make it (group, src, element)."""
    if groups == 1:
        return _merge(src, dst, x)
    x = _split(dst + (src <= dst), groups, x)
    if src > dst:
        src += 1
    x = _merge(src, dst + 1, x)
    shape = x.shape
    return lax.reshape(x, (*shape[:dst], shape[dst] * shape[dst + 1], *shape[dst + 2 :]))


# ---------------------------------------------------------------------------------------------------
# Lowering


def _conv_lower(
    ctx,
    lhs,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    precision,
    preferred_element_type,
    out_sharding,
):
    (aval_out,) = ctx.avals_out
    if any(d == 0 for aval in ctx.avals_in for d in aval.shape):  # all sums are empty
        return [mlir.full_like_aval(ctx, 0, aval_out)]
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    n = len(window_strides)
    result = mlir.aval_to_ir_type(ctx.module_context, aval_out)
    operands: tuple[Any, ...] = (result, lhs, rhs)
    options: dict[str, Any] = {}
    if core.is_constant_shape([p for pair in padding for p in pair]):
        convolution = hlo.convolution
        options["padding"] = mlir.dense_int_elements(np.array(padding, np.int64).reshape(n, 2))
    else:
        convolution = hlo.dynamic_conv
        sizes = mlir.eval_dynamic_shape(ctx, [p for pair in padding for p in pair])
        flat = mlir.shape_tensor(ctx, sizes)
        kind = ir.RankedTensorType(flat.type).element_type
        operands += (hlo.reshape(ir.RankedTensorType.get((n, 2), kind), flat),)
    out = convolution(
        *operands,
        dimension_numbers=hlo.ConvDimensionNumbers.get(
            input_batch_dimension=lhs_spec[0],
            input_feature_dimension=lhs_spec[1],
            input_spatial_dimensions=list(lhs_spec[2:]),
            kernel_output_feature_dimension=rhs_spec[0],
            kernel_input_feature_dimension=rhs_spec[1],
            kernel_spatial_dimensions=list(rhs_spec[2:]),
            output_batch_dimension=out_spec[0],
            output_feature_dimension=out_spec[1],
            output_spatial_dimensions=list(out_spec[2:]),
        ),
        feature_group_count=mlir.i64_attr(feature_group_count),
        batch_group_count=mlir.i64_attr(batch_group_count),
        window_strides=mlir.dense_int_array(window_strides),
        lhs_dilation=mlir.dense_int_array(lhs_dilation),
        rhs_dilation=mlir.dense_int_array(rhs_dilation),
        window_reversal=mlir.dense_bool_array([False] * n),
        precision_config=lax.precision_attr(precision),
        **options,
    )
    return [rules.with_sharding(ctx, out, aval_out)]


def _conv_lower_cpu(ctx, lhs, rhs, **params):
    """Lower to what XLA's CPU backend computes fast; see `cpu`."""
    compute = cpu.crop if cpu.reads_beyond(params) else cpu.form(ctx, params)
    if compute is None:
        return _conv_lower_by_parts(ctx, lhs, rhs, **params)
    fun = partial(compute, conv_general_dilated_p.bind)
    params = {**params, "out_sharding": None}
    (out,) = mlir.lower_fun(fun, multiple_results=False)(ctx, lhs, rhs, **params)
    return [rules.with_sharding(ctx, out, ctx.avals_out[0])]


def _conv_lower_by_parts(ctx, lhs, rhs, **params):
    """Lower complex convolutions to three real ones, for platforms without complex convolutions."""
    if not dtypes.issubdtype(ctx.avals_in[0].dtype, np.complexfloating):
        return _conv_lower(ctx, lhs, rhs, **params)
    (aval_out,) = ctx.avals_out
    (out,) = _lower_parts(ctx, lhs, rhs, **{**params, "out_sharding": None})
    return [rules.with_sharding(ctx, out, aval_out)]


def _conv_by_parts(lhs, rhs, *, preferred_element_type, **params):
    if preferred_element_type is not None:
        preferred_element_type = np.zeros((), preferred_element_type).real.dtype

    def real_conv(x, y):
        return conv_general_dilated_p.bind(
            x, y, preferred_element_type=preferred_element_type, **params
        )

    a, b, c, d = lax.real(lhs), lax.imag(lhs), lax.real(rhs), lax.imag(rhs)
    k1 = real_conv(lax.add(a, b), c)
    k2 = real_conv(a, lax.sub(d, c))
    k3 = real_conv(b, lax.add(c, d))
    return lax.complex(lax.sub(k1, k3), lax.add(k1, k2))


_lower_parts = mlir.lower_fun(_conv_by_parts, multiple_results=False)

conv_general_dilated_p = standard_primitive(
    "conv_general_dilated",
    shape=_conv_shape,
    dtype=_conv_dtype,
    sharding=_conv_sharding,
    lower={
        None: _conv_lower,
        "cpu": _conv_lower_cpu,
        "cuda": _conv_lower_by_parts,
        "rocm": _conv_lower_by_parts,
    },
    jvp=BILINEAR,
    transpose=_conv_transpose_rule,
    batch=_conv_batch,
)
