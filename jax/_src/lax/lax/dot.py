"""Dot products: `dot`, `dot_general`, `batch_matmul`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.basearray import Array
from jax._src.interpreters import ad, mlir
from jax._src.lax import rules
from jax._src.lax.lax import sharding as shardings
from jax._src.lax.lax.convert import convert_type
from jax._src.lax.lax.merged_products import is_mergeable, product_of_matrices
from jax._src.lax.lax.precision import (
    DotAlgorithm,
    DotAlgorithmPreset,
    PrecisionLike,
    canonicalize_precision,
    precision_attr,
)
from jax._src.lax.lax.shape import transpose
from jax._src.lax.lax.small_products import is_small_product, lower_small_product
from jax._src.lax.rules import BILINEAR, standard_primitive
from jax._src.lib.mlir.dialects import hlo
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.typing import ArrayLike, DTypeLike

DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding=None,
) -> Array:
    """Multiply vectors or matrices; with `dimension_numbers`, compute a general dot product.

    Args:
      lhs, rhs: arrays. Without `dimension_numbers` they have rank 1 or 2, and the last dimension of
        `lhs` is contracted with the first dimension of `rhs`.
      dimension_numbers, precision, preferred_element_type, out_sharding: see `dot_general`.

    Returns:
      The product, an array.

    Raises:
      ValueError: if shapes are incompatible and `dimension_numbers` is None.
      TypeError: if shapes do not match `dimension_numbers`.

    >>> lax.dot(jnp.ones((2, 3)), jnp.ones(3)).tolist()
    [3.0, 3.0]
    """
    if dimension_numbers is None:
        lhs_shape, rhs_shape = np.shape(lhs), np.shape(rhs)
        n = len(lhs_shape)
        if not (
            1 <= n <= 2
            and 1 <= len(rhs_shape) <= 2
            and (
                lhs_shape[-1] is rhs_shape[0] or core.definitely_equal(lhs_shape[-1], rhs_shape[0])
            )
        ):
            raise ValueError(
                "jax.lax.dot: dimension_numbers must be specified when not performing simple un-batched "
                "matrix-matrix, matrix-vector, or vector-vector products; got "
                f"lhs_shape={lhs_shape} rhs_shape={rhs_shape}"
            )
        dimension_numbers = _MATMUL if n == 2 else _VECMUL
    return dot_general(
        lhs,
        rhs,
        dimension_numbers,
        precision,
        preferred_element_type,
        out_sharding=out_sharding,
    )


_MATMUL = (((1,), (0,)), ((), ()))
_VECMUL = (((0,), (0,)), ((), ()))


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    *,
    out_sharding=None,
) -> Array:
    """Contract dimensions of two arrays, for each index of their batch dimensions.

    Args:
      lhs, rhs: arrays.
      dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`, tuples of
        dimensions, which are paired in order and have equal sizes.
      precision: precision of the products, see `Precision` and `DotAlgorithmPreset`. None means the
        value of `jax.default_matmul_precision`.
      preferred_element_type: dtype of the accumulation and the result, if the hardware supports it.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array with the batch dimensions, then the other dimensions of `lhs`, then those of `rhs`.

    Raises:
      TypeError: if dimensions or dtypes are incompatible.
      ValueError: if the precision is unknown.

    >>> x, y = jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))
    >>> lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))).shape
    (5, 2, 4)
    """
    if precision is not None or config.default_matmul_precision.value is not None:
        precision = canonicalize_precision(precision)
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_and_canonicalize_user_dtype(
            preferred_element_type, "dot_general"
        )
    if out_sharding is not None:
        out_sharding = canonicalize_sharding(out_sharding, "dot_general")
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=_canonical_dims(dimension_numbers),
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def _canonical_dims(dims: DotDimensionNumbers):
    if dims is _MATMUL or dims is _VECMUL:
        return dims
    try:
        (lc, rc), (lb, rb) = dims
        index = operator.index
        return (
            (tuple([index(d) for d in lc]), tuple([index(d) for d in rc])),
            (tuple([index(d) for d in lb]), tuple([index(d) for d in rb])),
        )
    except (TypeError, ValueError):
        raise TypeError(
            "dot_general dimension_numbers must be ((lhs_contracting, rhs_contracting), (lhs_batch, "
            f"rhs_batch)) with sequences of integers, got {dims}"
        ) from None


def batch_matmul(lhs: Array, rhs: Array, precision: PrecisionLike = None) -> Array:
    """Multiply matrices, for each index of the leading dimensions.

    Args:
      lhs: array of shape `(*batch, m, k)`.
      rhs: array of shape `(*batch, k, n)`.
      precision: see `dot_general`.

    Returns:
      An array of shape `(*batch, m, n)`.

    Raises:
      ValueError: if an operand has fewer than two dimensions, or the ranks differ.

    >>> lax.batch_matmul(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    ndim = np.ndim(lhs)
    if min(ndim, np.ndim(rhs)) < 2:
        raise ValueError(
            f"Arguments to batch_matmul must be at least 2D, got {ndim}, {np.ndim(rhs)}"
        )
    if ndim != np.ndim(rhs):
        raise ValueError(
            f"Arguments to batch_matmul must have same ndim, got {ndim}, {np.ndim(rhs)}"
        )
    batch = tuple(range(ndim - 2))
    return dot_general(lhs, rhs, (((ndim - 1,), (ndim - 2,)), (batch, batch)), precision=precision)


# ---------------------------------------------------------------------------------------------------
# Shape, dtype and sharding rules


def _dot_general_shape(
    lhs, rhs, *, dimension_numbers, precision, preferred_element_type, out_sharding
):
    (lc, rc), (lb, rb) = dimension_numbers
    check_dot_dimensions("dot_general", lhs.shape, rhs.shape, dimension_numbers)
    return (
        *[lhs.shape[d] for d in lb],
        *[n for d, n in enumerate(lhs.shape) if d not in lc and d not in lb],
        *[n for d, n in enumerate(rhs.shape) if d not in rc and d not in rb],
    )


def check_dot_dimensions(name: str, lhs_shape, rhs_shape, dimension_numbers) -> None:
    """Raise TypeError unless the dimensions exist, are distinct, and have equal sizes in pairs."""
    (lc, rc), (lb, rb) = dimension_numbers
    for side, shape, contracting, batch in (("lhs", lhs_shape, lc, lb), ("rhs", rhs_shape, rc, rb)):
        if not all(0 <= d < len(shape) for d in (*contracting, *batch)):
            raise TypeError(
                f"{name} requires {side} dimension numbers to be nonnegative and less than the number of "
                f"axes of the {side} value, got {side}_batch of {batch} and {side}_contracting of "
                f"{contracting} for {side} of rank {len(shape)}"
            )
    for kind, ld, rd in (("batch", lb, rb), ("contracting", lc, rc)):
        if len(ld) != len(rd):
            lhs_sizes = tuple([lhs_shape[d] for d in ld])
            rhs_sizes = tuple([rhs_shape[d] for d in rd])
            raise TypeError(
                f"{name} requires equal numbers of lhs_{kind} and rhs_{kind} dimensions, got lhs_{kind} "
                f"{ld} and rhs_{kind} {rd}: they must be of the same shape, got {lhs_sizes} and "
                f"{rhs_sizes}."
            )
        for side, dims in (("lhs", ld), ("rhs", rd)):
            if len(set(dims)) != len(dims):
                raise TypeError(
                    f"{name} requires {side} {kind} dimensions to be distinct, got {side}_{kind} {dims}."
                )
    for side, batch, contracting in (("lhs", lb, lc), ("rhs", rb, rc)):
        if set(batch) & set(contracting):
            raise TypeError(
                f"{name} requires {side} batch dimensions to be disjoint from contracting dimensions, got "
                f"{side}_batch {batch} and {side}_contracting {contracting}."
            )
    for what, ld, rd in (
        ("lhs batch dimensions and rhs batch dimensions", lb, rb),
        ("contracting dimensions", lc, rc),
    ):
        for l, r in zip(ld, rd):
            a, b = lhs_shape[l], rhs_shape[r]
            if a is not b and not core.definitely_equal(a, b):
                lhs_sizes = tuple([lhs_shape[d] for d in ld])
                rhs_sizes = tuple([rhs_shape[d] for d in rd])
                raise TypeError(
                    f"{name} requires {what} to have the same shape, got {lhs_sizes} and {rhs_sizes}."
                )


def _dot_general_dtype(
    lhs, rhs, *, dimension_numbers, precision, preferred_element_type, out_sharding
):
    dtype = product_dtype("dot_general", lhs.dtype, rhs.dtype)
    if preferred_element_type is None or preferred_element_type == dtype:
        return dtype
    check_preferred_element_type(dtype, preferred_element_type)
    return preferred_element_type


# XLA's order of preference for the result of a product of two dtypes: the later one wins.
_DTYPE_ORDER = (
    "bool uint2 int2 uint4 int4 uint8 int8 uint16 int16 uint32 int32 uint64 int64 float4_e2m1fn "
    "float8_e3m4 float8_e4m3b11fnuz float8_e4m3|float8_e4m3fnuz float8_e4m3fn float8_e5m2|float8_e5m2fnuz "
    "float16 float8_e8m0fnu bfloat16 float32 float64 complex64 complex128"
)
_NUMBERS = frozenset(dtypes.jax_types)
_DTYPE_RANK = {name: i for i, names in enumerate(_DTYPE_ORDER.split()) for name in names.split("|")}


def product_dtype(name: str, lhs: Any, rhs: Any) -> Any:
    """Return the result dtype of a product of two dtypes."""
    if lhs == rhs and lhs in _NUMBERS:
        return lhs
    rules.check_dtypes(name, (rules.ANY, rules.ANY), (lhs, rhs), same=False)
    if lhs == rhs:
        return lhs
    i, j = (_DTYPE_RANK.get(rules.dtype_name(d)) for d in (lhs, rhs))
    if i is None or j is None or i == j:
        raise TypeError(
            f"lax.{name} argument type error: {rules.dtype_name(lhs)}, {rules.dtype_name(rhs)}"
        )
    return lhs if i > j else rhs


def check_preferred_element_type(dtype: Any, preferred: Any) -> None:
    """Raise TypeError if a product of type `dtype` cannot be returned as `preferred`."""
    is_complex = dtypes.issubdtype(dtype, np.complexfloating)
    if is_complex and not dtypes.issubdtype(preferred, np.complexfloating):
        raise TypeError(
            "`preferred_element_type` must be complex for complex operands, got "
            f"preferred_element_type of {rules.dtype_name(preferred)} for result type of "
            f"{rules.dtype_name(dtype)}."
        )
    if dtypes.issubdtype(dtype, np.floating):
        return
    if dtype_bits(preferred) < dtype_bits(dtype):
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got "
            f"preferred_element_type of {rules.dtype_name(preferred)} for result type of "
            f"{rules.dtype_name(dtype)}."
        )


def dtype_bits(dtype: Any) -> int:
    if dtype == np.bool_:
        return 1
    if dtypes.issubdtype(dtype, np.integer):
        return dtypes.iinfo(dtype).bits
    return dtypes.finfo(dtype).bits


def _dot_general_sharding(
    lhs, rhs, *, dimension_numbers, precision, preferred_element_type, out_sharding
):
    return sharding_of_product("dot_general", lhs, rhs, dimension_numbers, out_sharding)


def sharding_of_product(name, lhs, rhs, dimension_numbers, out_sharding=None, remedy=None):
    """Return the sharding of a product of two operands, at least one of which is sharded.

    Args:
      name: name of the operation, for errors.
      lhs, rhs: avals.
      dimension_numbers: see `dot_general`.
      out_sharding: sharding that the user requests, or None.
      remedy: what a user can do if the operands do not determine the sharding of the result.

    Returns:
      A NamedSharding.

    Raises:
      ShardingTypeError: if paired dimensions are sharded differently, or the operands do not
        determine the sharding of the result.
    """
    remedy = remedy or "Please specify the output sharding via the `out_sharding` parameter."
    (lc, rc), (lb, rb) = dimension_numbers
    lhs_spec, rhs_spec = shardings.entries(lhs), shardings.entries(rhs)
    for l, r in zip(lb, rb):
        a, b = lhs_spec[l], rhs_spec[r]
        if a is not None and b is not None and a != b:
            raise core.ShardingTypeError(
                f"{name} requires lhs batch dimensions and rhs batch dimensions to have the consistent "
                f"sharding, got {a} and {b} for dimension {l} of {lhs.str_short()} and {r} of "
                f"{rhs.str_short()}. Make them agree with `jax.sharding.reshard`."
            )
    if out_sharding is not None:
        # The compiler then chooses how to bring the contracting dimensions together.
        if out_sharding.spec.unreduced:
            _check_unreduced(
                name, out_sharding, [lhs_spec[d] for d in lc], [rhs_spec[d] for d in rc]
            )
        return out_sharding
    for l, r in zip(lc, rc):
        a, b = lhs_spec[l], rhs_spec[r]
        if a is None or b is None:
            continue
        if a != b:
            raise core.ShardingTypeError(
                f"{name} requires contracting dimensions to have consistent sharding, got {a} and {b} for "
                f"dimension {l} of {lhs.str_short()} and {r} of {rhs.str_short()}. Make them agree with "
                "`jax.sharding.reshard`, or request the sharding of the result with `out_sharding`."
            )
        raise core.ShardingTypeError(
            "Contracting dimensions are sharded and it is ambiguous how the output should be sharded. "
            f"{remedy} Got lhs_contracting spec {[lhs_spec[d] for d in lc]} and rhs_contracting spec "
            f"{[rhs_spec[d] for d in rc]}."
        )
    spec = [
        *[lhs_spec[l] for l in lb],
        *[e for d, e in enumerate(lhs_spec) if d not in lc and d not in lb],
        *[e for d, e in enumerate(rhs_spec) if d not in rc and d not in rb],
    ]
    used = [n for e in spec if e is not None for n in (e if isinstance(e, tuple) else (e,))]
    if len(used) != len(set(used)):
        raise core.ShardingTypeError(
            f"{name} operation with inputs: {lhs.str_short()}, {rhs.str_short()} produces an illegally "
            f"sharded result: one mesh axis would shard two dimensions, {spec}. {remedy}"
        )
    return shardings.with_entries(lhs if lhs._sharding is not None else rhs, spec)


def _check_unreduced(name, out_sharding, lhs_entries, rhs_entries):
    """Check that a result is unreduced over the axes that shard the contracted dimensions."""
    if lhs_entries != rhs_entries:
        raise core.ShardingTypeError(
            f"lhs and rhs contracting dims should be sharded identically when out_sharding provided to"
            f" {name} mentions unreduced axes. Got {out_sharding.spec} and contracting dimensions"
            f" sharded as {lhs_entries} and {rhs_entries}."
        )
    axes = [n for e in lhs_entries if e is not None for n in (e if isinstance(e, tuple) else (e,))]
    if frozenset(axes) != frozenset(out_sharding.spec.unreduced):
        raise core.ShardingTypeError(
            f"out_sharding's unreduced axes should be those of the contracting dimensions of {name}. Got"
            f" unreduced axes {sorted(out_sharding.spec.unreduced)} and contracting dimensions sharded"
            f" as {lhs_entries}."
        )


def _dot_general_unreduced(pairs, lhs, rhs, *, out_sharding, **params):
    if any(u for u, _ in pairs):
        raise core.ShardingTypeError(
            f"lhs or rhs passed to dot_general cannot be unreduced, got {lhs.str_short()} and"
            f" {rhs.str_short()}. Reduce them first with `jax.sharding.reshard`."
        )
    return out_sharding.spec.unreduced if out_sharding is not None else frozenset(), frozenset()


# ---------------------------------------------------------------------------------------------------
# Differentiation and batching


def others(n: int, *used: Sequence[int]) -> list[int]:
    return [d for d in range(n) if all(d not in u for u in used)]


def _inverse(permutation: Sequence[int]) -> list[int]:
    out = [0] * len(permutation)
    for i, d in enumerate(permutation):
        out[d] = i
    return out


def transpose_to(x, dims: Sequence[int]):
    """Transpose `x` such that its dimension `i` becomes dimension `dims[i]`."""
    order = _inverse(dims)
    return x if order == list(range(len(order))) else transpose(x, order)


def _dot_general_transpose(
    ct, lhs, rhs, *, dimension_numbers, precision, preferred_element_type, out_sharding
):
    (lc, rc), (lb, rb) = dimension_numbers
    lhs_aval, rhs_aval = aval_of(lhs), aval_of(rhs)
    lhs_kept, rhs_kept = others(lhs_aval.ndim, lc, lb), others(rhs_aval.ndim, rc, rb)
    nb, nl = len(lb), len(lhs_kept)
    batch = tuple(range(nb))
    ct_lhs, ct_rhs = range(nb, nb + nl), range(nb + nl, nb + nl + len(rhs_kept))
    out: list[Any] = [None, None]
    for (
        i,
        this,
        aval,
        other,
        contracting,
        kept,
        my_batch,
        other_contracting,
        other_kept,
        ct_dims,
        other_batch,
    ) in (
        (0, lhs, lhs_aval, rhs, lc, lhs_kept, lb, rc, rhs_kept, ct_rhs, rb),
        (1, rhs, rhs_aval, lhs, rc, rhs_kept, rb, lc, lhs_kept, ct_lhs, lb),
    ):
        if not ad.is_undefined_primal(this):
            continue
        dims = ((tuple(ct_dims), tuple(other_kept)), (batch, other_batch))
        g = dot_general_p.bind(
            ct,
            other,
            dimension_numbers=dims,
            precision=precision,
            preferred_element_type=preferred_element_type,
            out_sharding=_sharding_of_product(aval, my_batch, kept, contracting, other_contracting),
        )
        order = sorted(range(len(contracting)), key=other_contracting.__getitem__)
        g = transpose_to(g, [*my_batch, *kept, *[contracting[j] for j in order]])
        if core.typeof(g).dtype != aval.dtype:
            g = convert_type(g, aval.dtype, warn_on_complex_to_real_cast=False)
        out[i] = g
    return out


def aval_of(x):
    return x.aval if ad.is_undefined_primal(x) else core.typeof(x)


def _sharding_of_product(aval, batch, kept, contracting, other_contracting):
    """Return the sharding of a cotangent before its dimensions are permuted."""
    if aval._sharding is None:
        return None
    spec = shardings.entries(aval)
    order = sorted(range(len(contracting)), key=other_contracting.__getitem__)
    dims = [*batch, *kept, *[contracting[j] for j in order]]
    out = shardings.with_entries(aval, [spec[d] for d in dims])
    # The cotangent of an operand that is reduced over mesh axes is unreduced over them.
    return out.update(spec=out.spec.update(unreduced=aval._sharding.spec.reduced))


def _dot_general_batch(
    args, bdims, *, dimension_numbers, precision, preferred_element_type, out_sharding
):
    (lhs, rhs), (l, r) = args, bdims
    dims, out_dim = batched_dot_dimensions((np.ndim(lhs), np.ndim(rhs)), bdims, dimension_numbers)
    if out_sharding is not None:
        operand, bdim = (lhs, l) if l is not None else (rhs, r)
        out_sharding = shardings.batched(out_sharding, operand, bdim, at=out_dim)
    out = dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=dims,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )
    return out, out_dim


def batched_dot_dimensions(ndims, bdims, dimension_numbers):
    """Return the batched dimension numbers, and the position of the result's batch dimension.

    If both operands are batched, the batch dimension becomes the leading batch dimension of the
    product. If only one is, it is one more free dimension of that operand.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    l, r = bdims

    def up(dims, bdim):
        return dims if bdim is None else tuple([d + (d >= bdim) for d in dims])

    lc, lb, rc, rb = up(lc, l), up(lb, l), up(rc, r), up(rb, r)
    if l is not None and r is not None:
        return ((lc, rc), ((l, *lb), (r, *rb))), 0
    if l is not None:
        out_dim = len(lb) + others(ndims[0], lc, lb).index(l)
    else:
        out_dim = len(lb) + ndims[0] - len(lc) - len(lb) + others(ndims[1], rc, rb).index(r)
    return ((lc, rc), (lb, rb)), out_dim


# ---------------------------------------------------------------------------------------------------
# Lowering and printing


def _dot_general_lower(platform):
    def rule(ctx, lhs, rhs, *, dimension_numbers, precision, preferred_element_type, out_sharding):
        (lhs_aval, rhs_aval), (aval_out,) = ctx.avals_in, ctx.avals_out
        lhs_dtype, rhs_dtype, out_dtype = lhs_aval.dtype, rhs_aval.dtype, aval_out.dtype
        algorithm = None
        if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
            if platform == "cpu" and not precision.runs_on_cpu:
                raise ValueError(
                    f"The precision '{precision}' is not supported by dot_general on CPU"
                )
            if isinstance(precision, DotAlgorithmPreset):
                lhs_dtype = _nearest(precision.supported_lhs_types, lhs_dtype)
                rhs_dtype = _nearest(precision.supported_rhs_types, rhs_dtype)
                outputs = precision.supported_output_types(lhs_dtype, rhs_dtype)
                out_dtype = _nearest(outputs, out_dtype)
            algorithm = precision._convert_to_hlo_attr(lhs_dtype, rhs_dtype)
        elif lhs_dtype != rhs_dtype and not (_is_small(lhs_dtype) and _is_small(rhs_dtype)):
            lhs_dtype = rhs_dtype = out_dtype
        lhs = _convert(ctx, lhs, lhs_aval, lhs_dtype)
        rhs = _convert(ctx, rhs, rhs_aval, rhs_dtype)
        (lc, rc), (lb, rb) = dimension_numbers
        product = aval_out if out_dtype == aval_out.dtype else aval_out.update(dtype=out_dtype)
        module = ctx.module_context
        attrs = {
            "dot_dimension_numbers": module.attribute(_dimension_numbers_attr, lc, rc, lb, rb),
            "precision_config": module.attribute(precision_attr, precision),
        }
        if algorithm is not None:
            attrs["algorithm"] = algorithm
        out_type = mlir.aval_to_ir_type(module, product)
        out = mlir.emit("stablehlo.dot_general", [lhs, rhs], out_type, attrs)
        out = rules.with_sharding(ctx, out, product)
        return [_convert(ctx, out, product, aval_out.dtype)]

    return rule


def _dot_general_cpu_lower(ctx, lhs, rhs, *, dimension_numbers, precision, **params):
    rule = _dot_general_on_cpu
    if is_small_product(ctx, dimension_numbers, precision):
        rule = lower_small_product
    elif is_mergeable(ctx, dimension_numbers):
        rule = _lower_product_of_matrices
    return rule(ctx, lhs, rhs, dimension_numbers=dimension_numbers, precision=precision, **params)


_dot_general_on_cpu = _dot_general_lower("cpu")


def _product_of_matrices(lhs, rhs, **params):
    return product_of_matrices(dot_general_p.bind, lhs, rhs, **params)


_lower_product_of_matrices = mlir.lower_fun(_product_of_matrices, multiple_results=False)


def _dimension_numbers_attr(lc, rc, lb, rb):
    return hlo.DotDimensionNumbers.get(
        lhs_batching_dimensions=list(lb),
        rhs_batching_dimensions=list(rb),
        lhs_contracting_dimensions=list(lc),
        rhs_contracting_dimensions=list(rc),
    )


def _nearest(supported: Any, dtype: Any) -> Any:
    """Return `dtype` if it is supported, otherwise the first supported dtype."""
    if supported is None:
        return dtype
    supported = [np.dtype(d) for d in supported]
    return dtype if dtype in supported else supported[0]


def _is_small(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, np.floating) and dtypes.finfo(dtype).bits <= 8


def _convert(ctx, x, aval, dtype):
    if aval.dtype == dtype:
        return x
    return mlir.convert_hlo(ctx, x, aval, aval.update(dtype=dtype))


def _dot_general_pp(eqn, context, settings):
    # The result's type shows the sharding, so it need not be printed.
    params = {k: v for k, v in eqn.params.items() if v is not None and k != "out_sharding"}
    (lc, rc), (lb, rb) = params["dimension_numbers"]
    params["dimension_numbers"] = (([*lc], [*rc]), ([*lb], [*rb]))
    return core.default_pp_eqn(eqn.replace(params=params), context, settings)


dot_general_p = standard_primitive(
    "dot_general",
    shape=_dot_general_shape,
    dtype=_dot_general_dtype,
    sharding=_dot_general_sharding,
    unreduced=_dot_general_unreduced,
    lower={
        None: _dot_general_lower("default"),
        "cpu": _dot_general_cpu_lower,
    },
    jvp=BILINEAR,
    transpose=_dot_general_transpose,
    batch=_dot_general_batch,
    pp=_dot_general_pp,
)
