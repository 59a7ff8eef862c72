"""Conversions between dtypes and precisions, and `stop_gradient`."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from jax._src import ad_util, core, dtypes, tree_util
from jax._src.basearray import Array
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.late_binding import late
from jax._src.lax.lax.extended_types import convert_extended
from jax._src.lax.rules import (
    ANY,
    FLOAT,
    LINEAR,
    ZERO,
    FullRule,
    check_dtypes,
    dtype_name,
    linear_unreduced,
    standard_primitive,
    unary_primitive,
    with_sharding,
)
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.named_sharding import NamedSharding
from jax._src.sharding import Sharding
from jax._src.typing import ArrayLike, DTypeLike


def dtype(x: Any) -> np.dtype:
    """Return the dtype of an array, or the dtype that a scalar would have as an array.

    Args:
      x: array, scalar, or a dtype-like object.

    Raises:
      TypeError: if `x` is none of these.

    >>> lax.dtype(1.0)
    dtype('float32')
    """
    return dtypes.dtype(x)


def stage(x: ArrayLike, /) -> Array:
    """Lift a value into the current trace; outside of a trace, convert it to an array.

    Args:
      x: array or scalar.

    Returns:
      The same value as a tracer of the trace, so that a Python number is traced under `jit`.

    >>> lax.stage(3)
    Array(3, dtype=int32, weak_type=True)
    """
    return stage_p.bind(x)


stage_p = unary_primitive(
    "stage",
    ANY,
    lower=lambda ctx, x: [x],
    jvp=LINEAR,
    transpose=lambda ct, x: [ct],
    unreduced=linear_unreduced("stage"),
    extended=True,
)
pe.custom_staging_rules[stage_p] = lambda trace, source_info, x: trace.to_jaxpr_tracer(
    x, source_info
)


# ---------------------------------------------------------------------------------------------------
# convert_element_type


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike | dtypes.ExtendedDType) -> Array:
    """Convert the elements of an array to another dtype.

    Floats are rounded to the nearest value, or towards zero for an integer dtype. Integers that are
    out of range wrap around; floats out of the range of an integer dtype are clamped to it (NaN
    becomes 0). Complex numbers lose their imaginary part, with a warning. As booleans, nonzero
    numbers are True.

    Args:
      operand: array or scalar.
      new_dtype: dtype of the result.

    Returns:
      An array of the operand's shape and the new dtype, never weakly typed.

    Raises:
      ValueError: if `new_dtype` is None.
      TypeError: if `new_dtype` is not a valid dtype, or `operand` is not an array.

    >>> lax.convert_element_type(jnp.array([0.5, 1.5, -2.7]), jnp.int32)
    Array([ 0,  1, -2], dtype=int32)
    """
    new_dtype = dtypes.check_and_canonicalize_user_dtype(new_dtype, "convert_element_type")
    return convert_type(operand, new_dtype, weak_type=False)


def convert_type(
    operand: Any,
    new_dtype: Any = None,
    weak_type: bool = False,
    sharding: Sharding | None = None,
    warn_on_complex_to_real_cast: bool = True,
) -> Array:
    """Like `convert_element_type`, with control of the result's weak type and sharding.

    `new_dtype` is canonicalized; None keeps the operand's dtype.
    """
    if hasattr(operand, "__jax_array__"):
        operand = operand.__jax_array__()
    if (
        new_dtype is not None
        and isinstance(new_dtype, dtypes.ExtendedDType)
        or isinstance(getattr(operand, "dtype", None), dtypes.ExtendedDType)
    ):
        return _convert_extended(operand, new_dtype, sharding)
    old_dtype = dtypes.dtype(operand)
    if new_dtype is None:
        new_dtype = old_dtype
    else:
        new_dtype = dtypes.canonicalize_dtype(np.dtype(new_dtype))
    is_array = isinstance(operand, Array)
    if new_dtype == old_dtype:
        if is_array and operand.weak_type == weak_type and sharding is None:
            return operand
    elif old_dtype.kind == "c" and new_dtype.kind != "c" and new_dtype.kind != "b":
        if warn_on_complex_to_real_cast:
            warnings.warn(
                "Casting complex values to real discards the imaginary part",
                np.exceptions.ComplexWarning,
                stacklevel=3,
            )
    if type(operand) is int or type(operand) is bool:
        # A Python integer may be too large for its default dtype, so convert it directly.
        operand = np.asarray(operand).astype(new_dtype)
    if (
        not is_array
        and not weak_type
        and sharding is None
        and getattr(operand, "dtype", None) == new_dtype
        and isinstance(operand, (np.ndarray, np.generic))
    ):
        if core.trace_ctx.trace is core.eval_trace:
            return late.to_array(operand)
        return stage_p.bind(operand)
    if not isinstance(sharding, NamedSharding):
        sharding = None
    return convert_element_type_p.bind(
        operand, new_dtype=new_dtype, weak_type=bool(weak_type), sharding=sharding
    )


def _convert_extended(operand, new_dtype, sharding):
    old_dtype = dtypes.dtype(operand)
    if new_dtype is None or new_dtype == old_dtype:
        if sharding is None:
            return operand
        return convert_element_type_p.bind(
            operand, new_dtype=old_dtype, weak_type=False, sharding=sharding
        )
    out = convert_extended(operand, new_dtype)
    return out if sharding is None else convert_type(out, sharding=sharding)


def _stage_convert(trace, source_info, operand, *, new_dtype, weak_type, sharding):
    """Staging rule: convert a literal scalar at trace time instead of recording an equation.

    A literal of an enclosing trace stays a constant of the jaxpr: the constants of a function that
    closes over a scalar must not depend on where the scalar was made (cond compares them).
    """
    value = operand
    is_own = type(operand) is pe.DynamicJaxprTracer and operand._trace is trace
    if is_own and type(operand.val) is core.Literal:
        value = operand.val.val
    if sharding is None and core.is_literalable(value):
        value = _converted_scalar(value, new_dtype, weak_type)
        if value is not None:
            return trace.to_jaxpr_tracer(value, source_info)
    return NotImplemented


def _converted_scalar(value: Any, new_dtype: Any, weak_type: bool) -> Any:
    """Convert a scalar in NumPy; return None if NumPy's result might differ from XLA's."""
    if new_dtype != dtypes.bfloat16 and getattr(new_dtype, "kind", "V") not in "biufc":
        return None
    value = np.asarray(value)
    if value.dtype.kind == "c" and new_dtype.kind not in "cb":
        value = value.real
    if new_dtype.kind in "iu" and not (
        value.dtype.kind in "iub"
        or (np.isfinite(value) and np.iinfo(new_dtype).min <= value < np.iinfo(new_dtype).max)
    ):
        return None
    with np.errstate(all="ignore"):
        value = value.astype(new_dtype)
    if not weak_type:
        return value
    value = value.item()
    return value if dtypes.dtype(value) == new_dtype else None


def _convert_jvp(primals, tangents, *, new_dtype, weak_type, sharding):
    (x,), (t,) = primals, tangents
    params = dict(new_dtype=new_dtype, weak_type=weak_type, sharding=sharding)
    out = convert_element_type_p.bind(x, **params)
    if type(t) is ad.Zero or not dtypes.issubdtype(new_dtype, np.inexact):
        return out, ad.Zero.from_primal_value(out)
    return out, convert_element_type_p.bind(t, **params)


def _convert_transpose(ct, x, *, new_dtype, weak_type, sharding):
    aval = x.aval
    if type(ct) is ad.Zero:
        return [ad.Zero(aval)]
    return [
        convert_element_type_p.bind(
            ct, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=aval._sharding
        )
    ]


def _convert_sharding(x, *, new_dtype, weak_type, sharding):
    return x._sharding if sharding is None else sharding


def _convert_lower(ctx, x, *, new_dtype, weak_type, sharding):
    (aval_in,), (aval_out,) = ctx.avals_in, ctx.avals_out
    if aval_in.dtype.kind == "c" and aval_out.dtype.kind not in "cb":
        x = hlo.real(x)
        aval_in = aval_in.update(dtype=np.finfo(aval_in.dtype).dtype)
    if aval_in.dtype != aval_out.dtype:
        x = mlir.convert_hlo(ctx, x, aval_in, aval_out)
    return [with_sharding(ctx, x, aval_out)]


def _convert_pp(eqn, context, settings):
    shown = [k for k in ("new_dtype", "weak_type", "sharding") if k != "sharding" or eqn.params[k]]
    return core.default_pp_eqn(eqn, context, settings, shown)


convert_element_type_p = standard_primitive(
    "convert_element_type",
    shape=lambda x, **_: x.shape,
    dtype=lambda x, *, new_dtype, **_: new_dtype,
    weak_type=lambda x, *, weak_type, **_: weak_type,
    sharding=_convert_sharding,
    unreduced=linear_unreduced("convert_element_type"),
    lower=_convert_lower,
    jvp=_convert_jvp,
    transpose=_convert_transpose,
    pp=_convert_pp,
)


pe.custom_staging_rules[convert_element_type_p] = _stage_convert


def _convert_batch(args, dims, *, new_dtype, weak_type, sharding):
    (x,), (d,) = args, dims
    if sharding is not None:
        entries = list(sharding.spec)
        batched = core.typeof(x)._sharding
        entries.insert(d, None if batched is None else batched.spec[d])
        sharding = sharding.update(spec=sharding.spec.update(partitions=tuple(entries)))
    out = convert_element_type_p.bind(
        x, new_dtype=new_dtype, weak_type=weak_type, sharding=sharding
    )
    return out, d


convert_element_type_p.batch = _convert_batch
# `convert_type` takes the result's weak type as well.
to_dtype = convert_type
late.convert_element_type = to_dtype

# ---------------------------------------------------------------------------------------------------
# bitcast_convert_type


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Reinterpret the bits of an array's elements as another dtype.

    If the new dtype is narrower, the result has a new last dimension for the parts of each element.
    If it is wider, the operand's last dimension is merged into one element, and must have that
    size.

    Args:
      operand: array or scalar.
      new_dtype: dtype of the result; it must not be boolean or complex, unless it is the operand's.

    Returns:
      An array of dtype `new_dtype`.

    Raises:
      TypeError: if the dtypes differ and one of them is boolean or complex.
      ValueError: if the last dimension does not have the required size.

    >>> lax.bitcast_convert_type(jnp.float32(1.0), jnp.uint32)
    Array(1065353216, dtype=uint32)
    """
    new_dtype = dtypes.check_and_canonicalize_user_dtype(new_dtype, "bitcast_convert_type")
    return bitcast_convert_type_p.bind(operand, new_dtype=new_dtype)


def _bitcast_shape(x, *, new_dtype):
    if x.dtype == new_dtype:
        return x.shape
    old_bits, new_bits = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    if old_bits == new_bits:
        return x.shape
    if old_bits > new_bits:
        return (*x.shape, old_bits // new_bits)
    last = x.shape[-1] if x.shape else 1
    if not x.shape or last * old_bits != new_bits:
        raise ValueError(
            f"Attempting to convert array of shape {x.shape} from {dtype_name(x.dtype)} of size "
            f"{old_bits} bits to {dtype_name(new_dtype)} of size {new_bits} bits, but {last} * "
            f"{old_bits} != {new_bits}: the last dimension must hold the bits of one element."
        )
    return x.shape[:-1]


def _bitcast_dtype(x, *, new_dtype):
    if x.dtype == new_dtype:
        return new_dtype
    for dtype in (x.dtype, new_dtype):
        if isinstance(dtype, dtypes.ExtendedDType) or dtype == dtypes.float0:
            raise ValueError(
                f"lax.bitcast_convert_type from {dtype_name(x.dtype)} to {dtype_name(new_dtype)}: the "
                f"elements of {dtype_name(dtype)} have no bits of their own."
            )
    if x.dtype.kind in "bc" or new_dtype.kind in "bc":
        raise TypeError(
            "lax.bitcast_convert_type does not support bool or complex values unless the operand and "
            f"destination types match. Got operand dtype={dtype_name(x.dtype)}, "
            f"new_dtype={dtype_name(new_dtype)}. Consider using the arr.view() method instead."
        )
    return new_dtype


def _bitcast_sharding(x, *, new_dtype):
    old_bits, new_bits = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    sharding = x._sharding
    entries = sharding.spec.partitions
    if old_bits == new_bits:
        return sharding
    if old_bits > new_bits:
        return sharding.update(spec=sharding.spec.update(partitions=(*entries, None)))
    if entries[-1] is not None:
        raise core.ShardingTypeError(
            "bitcast_convert_type merges the last dimension of its operand, which must not be sharded; "
            f"got {x.str_short()}. Replicate that dimension with `jax.sharding.reshard`."
        )
    return sharding.update(spec=sharding.spec.update(partitions=entries[:-1]))


def _bitcast_batch(args, dims, *, new_dtype):
    (x,), (d,) = args, dims
    x = batching.moveaxis(x, d, 0)  # the last dimension must stay last
    return bitcast_convert_type_p.bind(x, new_dtype=new_dtype), 0


def _bitcast_lower(ctx, x, *, new_dtype):
    (aval,), (aval_out,) = ctx.avals_in, ctx.avals_out
    if aval_out.ndim != aval.ndim and not core.is_constant_shape(aval.shape):
        x = _bits_of_other_size(ctx, x, aval, aval_out)
    out = hlo.bitcast_convert(mlir.aval_to_ir_type(ctx.module_context, aval_out), x)
    return [with_sharding(ctx, out, aval_out)]


def _bits_of_other_size(ctx, x, aval, aval_out):
    """The bits as unsigned integers of another size, by shifts: XLA does not refine such a bitcast's shape."""
    of_type = lambda a, dtype: mlir.aval_to_ir_type(ctx.module_context, a.update(dtype=dtype))
    size, size_out = dtypes.itemsize_bits(aval.dtype), dtypes.itemsize_bits(aval_out.dtype)
    uint, uint_out = (dtypes.dtype(f"uint{n}") for n in (size, size_out))
    larger, parts = (uint, aval_out) if size > size_out else (uint_out, aval)
    shifts = mlir.ir_constant(np.arange(parts.shape[-1]).astype(larger) * min(size, size_out))
    parts = parts.update(dtype=larger)
    shifts = mlir.broadcast_in_dim(ctx, shifts, parts, broadcast_dimensions=(parts.ndim - 1,))
    x = hlo.bitcast_convert(of_type(aval, uint), x)
    if size > size_out:
        x = mlir.broadcast_in_dim(ctx, x, parts, broadcast_dimensions=range(aval.ndim))
        return hlo.convert(of_type(aval_out, uint_out), hlo.shift_right_logical(x, shifts))
    x = hlo.shift_left(hlo.convert(of_type(aval, uint_out), x), shifts)
    zero = mlir.ir_constant(np.zeros((), uint_out))
    op = hlo.ReduceOp(
        [of_type(aval_out, uint_out)], [x], [zero], mlir.dense_int_array([aval_out.ndim])
    )
    block = op.regions[0].blocks.append(zero.type, zero.type)
    with ir.InsertionPoint(block):
        hlo.return_([hlo.or_(*block.arguments)])
    return op.result


bitcast_convert_type_p = standard_primitive(
    "bitcast_convert_type",
    # Check the dtypes first: that error is easier to understand than one about sizes in bits.
    shape=lambda x, *, new_dtype: (
        _bitcast_dtype(x, new_dtype=new_dtype),
        _bitcast_shape(x, new_dtype=new_dtype),
    )[1],
    dtype=_bitcast_dtype,
    weak_type=lambda *_, **__: False,
    sharding=_bitcast_sharding,
    lower=_bitcast_lower,
    jvp=ZERO,
    batch=_bitcast_batch,
)

# ---------------------------------------------------------------------------------------------------
# reduce_precision


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to the precision of a floating-point format with fewer bits, in the same dtype.

    Args:
      operand: floating-point array.
      exponent_bits: number of bits of the exponent, at least 1.
      mantissa_bits: number of bits of the mantissa, at least 0.

    Raises:
      TypeError: if `operand` is not floating point, or a number of bits is not an integer.
      ValueError: if a number of bits is out of range.

    >>> lax.reduce_precision(3.14159, exponent_bits=5, mantissa_bits=2)
    Array(3., dtype=float32, weak_type=True)
    """
    exponent_bits = core.concrete_or_error(
        operator.index, exponent_bits, "exponent_bits argument of lax.reduce_precision"
    )
    mantissa_bits = core.concrete_or_error(
        operator.index, mantissa_bits, "mantissa_bits argument of lax.reduce_precision"
    )
    return reduce_precision_p.bind(
        operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits
    )


def _reduce_precision_shape(x, *, exponent_bits, mantissa_bits):
    check_dtypes("reduce_precision", (FLOAT,), (x.dtype,))
    if exponent_bits < 1:
        raise ValueError(f"reduce_precision: exponent_bits must be positive; got {exponent_bits}")
    if mantissa_bits < 0:
        raise ValueError(
            f"reduce_precision: mantissa_bits must be non-negative; got {mantissa_bits}"
        )
    return x.shape


def _reduce_precision_lower(ctx, x, *, exponent_bits, mantissa_bits):
    (aval_out,) = ctx.avals_out
    out = hlo.reduce_precision(x, mlir.i32_attr(exponent_bits), mlir.i32_attr(mantissa_bits))
    return [with_sharding(ctx, out, aval_out)]


reduce_precision_p = standard_primitive(
    "reduce_precision",
    shape=_reduce_precision_shape,
    dtype=lambda x, **_: x.dtype,
    sharding=lambda x, **_: x._sharding,
    unreduced=lambda pairs, *_, **__: pairs[0],
    lower=_reduce_precision_lower,
    jvp=LINEAR,
    transpose=lambda ct, x, **params: [
        ad.Zero(x.aval) if type(ct) is ad.Zero else reduce_precision_p.bind(ct, **params)
    ],
)
batching.defvectorized(reduce_precision_p)

# ---------------------------------------------------------------------------------------------------
# stop_gradient


def stop_gradient(x: Any) -> Any:
    """Return `x`, but treat it as a constant in differentiation: no gradient flows through it.

    Args:
      x: pytree of arrays.

    Returns:
      The same pytree; scalars and NumPy arrays are of a type that carries their dtype in computations.

    Raises:
      TypeError: if a leaf is not an array or scalar.

    >>> jax.grad(lambda x: x * lax.stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return tree_util.tree_map(_stop_gradient, x)


def _stop_gradient(x):
    aval = core.typeof(x)
    if not isinstance(aval, core.ShapedArray) or dtypes.issubdtype(aval.dtype, dtypes.extended):
        return x
    return (
        x if aval.dtype == dtypes.float0 and isinstance(x, core.Tracer) else stop_gradient_p.bind(x)
    )


def _stop_gradient_jvp(primals, tangents):
    out = stop_gradient_p.bind(*primals)
    return out, ad.Zero.from_primal_value(out)


stop_gradient_p = unary_primitive(
    "stop_gradient",
    ANY,
    lower=lambda ctx, x: [x],
    jvp=FullRule(_stop_gradient_jvp),
    # A batched `cond` applies it to linear values: batch elements of other branches get no
    # cotangent.
    transpose=lambda ct, x: [ad.Zero(x.aval.to_ct_aval())],
    unreduced=linear_unreduced("stop_gradient"),
    extended=True,
)
stop_gradient_p.def_impl(dtypes.canonicalize_value)
ad_util.stop_gradient_p = stop_gradient_p  # libraries look it up here
