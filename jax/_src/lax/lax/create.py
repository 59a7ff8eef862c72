"""Creation of arrays (full, iota, empty), and operations that only impose an order on others."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.array import ArrayImpl, make_array_from_callback
from jax._src.basearray import Array
from jax._src.interpreters import ad, mlir
from jax._src.late_binding import late
from jax._src.lax import rules
from jax._src.lax.lax.convert import to_dtype
from jax._src.lax.lax.shape import broadcast_in_dim
from jax._src.lax.rules import ZERO, standard_primitive
from jax._src.lib.mlir.dialects import hlo
from jax._src.mesh import Mesh, get_abstract_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.sharding import Sharding
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.typing import ArrayLike, DTypeLike, Shape

# ---------------------------------------------------------------------------------------------------
# Constant arrays


def full(
    shape: Shape,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    sharding: Sharding | None = None,
) -> Array:
    """Create an array whose elements all equal `fill_value`.

    Args:
      shape: shape of the result: integers, or one integer.
      fill_value: scalar.
      dtype: dtype of the result; None for that of `fill_value`, weakly typed if that is a Python
        number.
      sharding: sharding of the result; None for the default device. In a traced function, where the
        compiler decides, only a sharding over Explicit axes of the mesh in context has an effect.

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: if `fill_value` is not a scalar, or `shape` does not consist of integers.

    >>> lax.full((2, 3), 1.5).tolist()
    [[1.5, 1.5, 1.5], [1.5, 1.5, 1.5]]
    """
    shape = _shape_tuple(shape)
    if np.ndim(fill_value):
        raise TypeError(
            f"full must be called with scalar fill_value, got fill_value.shape {np.shape(fill_value)}."
        )
    if sharding is not None and not isinstance(sharding, Sharding):
        raise TypeError(
            f"lax.full: sharding must be a jax.sharding.Sharding, got {sharding!r} of type"
            f" {type(sharding).__name__}. For a PartitionSpec give jax.NamedSharding(mesh, spec), for a"
            " device jax.sharding.SingleDeviceSharding(device)."
        )
    if dtypes.issubdtype(dtype, dtypes.extended):
        return dtypes.extended_rule(dtype, "full")(shape, fill_value, dtype)
    traced = core.trace_ctx.trace is not core.eval_trace or isinstance(fill_value, core.Tracer)
    only_places = traced and sharding is not None and _only_places(sharding)
    weak_type = dtype is None and dtypes.is_weakly_typed(fill_value)
    weak_type = weak_type and (sharding is None or only_places)
    dtype = dtypes.check_and_canonicalize_user_dtype(
        dtypes.dtype(fill_value) if dtype is None else dtype, "full"
    )
    scalar = _as_scalar(fill_value, dtype, weak_type)
    if sharding is None or not sharding._is_concrete and _is_auto(sharding):
        if not shape:
            return scalar if isinstance(scalar, Array) else late.to_array(scalar)
        return broadcast_in_dim(scalar, shape, ())
    if only_places:
        out = broadcast_in_dim(scalar, shape, ())
        return out if isinstance(out, core.Tracer) else _place(scalar, shape, dtype, sharding)
    if not isinstance(scalar, core.Tracer) and (_is_auto(sharding) or _is_placed_now(sharding)):
        return _place(scalar, shape, dtype, sharding)
    return broadcast_in_dim(scalar, shape, (), out_sharding=sharding)


def full_like(
    x: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Shape | None = None,
    sharding: Sharding | None = None,
) -> Array:
    """Create an array like `x` whose elements all equal `fill_value`.

    Args:
      x: array, or an object with shape and dtype.
      fill_value: scalar.
      dtype: dtype of the result; None for that of `x`.
      shape: shape of the result; None for that of `x`.
      sharding: sharding of the result; None for that of `x`, if the result has its shape.

    Returns:
      An array of that shape and dtype.

    >>> lax.full_like(jnp.zeros((2,), jnp.int8), 3)
    Array([3, 3], dtype=int8)
    """
    same_shape = shape is None or _shape_tuple(shape) == np.shape(x)
    fill_shape = np.shape(x) if shape is None else _shape_tuple(shape)
    weak_type = dtype is None and dtypes.is_weakly_typed(x)
    dtype = dtype or dtypes.dtype(x)
    if dtypes.issubdtype(dtype, dtypes.extended):
        return dtypes.extended_rule(dtype, "full")(fill_shape, fill_value, dtype)
    if sharding is None and same_shape:
        sharding = _sharding_to_keep(x, weak_type)
    if np.ndim(fill_value):
        raise TypeError(
            f"full must be called with scalar fill_value, got fill_value.shape {np.shape(fill_value)}."
        )
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "full_like")
    scalar = _as_scalar(fill_value, dtype, weak_type)
    if sharding is None:
        out = broadcast_in_dim(scalar, fill_shape, ())
        return core.vary_like(out, x) if isinstance(x, core.Tracer) else out
    return full(fill_shape, scalar, None if weak_type else dtype, sharding=sharding)


def _sharding_to_keep(x: Any, weak_type: bool) -> Sharding | None:
    """Return the sharding of a committed array, or of an aval in explicit mode."""
    if isinstance(x, core.Tracer):
        aval = core.typeof(x)
        return getattr(aval, "_sharding", None)
    if isinstance(x, ArrayImpl) and x.committed and not weak_type:
        return x.sharding
    return None


def _is_auto(sharding: Any) -> bool:
    """Return whether a sharding only places a result, without being part of its type."""
    if not isinstance(sharding, Sharding):
        return False
    return not isinstance(sharding, NamedSharding) or not (
        sharding.mesh._any_axis_explicit or sharding.mesh._any_axis_manual
    )


def _only_places(sharding: Any) -> bool:
    """Return whether a sharding cannot be part of the type of a traced result.

    In a `shard_map`, that is of a shard: the sharding is over the mesh as it is around the map.
    """
    context_mesh = get_abstract_mesh()
    return _is_auto(sharding) or (
        isinstance(sharding.mesh, Mesh) and (context_mesh.empty or bool(context_mesh.manual_axes))
    )


def _is_placed_now(sharding: Any) -> bool:
    """Return whether a result is created now, outside of traces, on the devices of a sharding."""
    return (
        core.trace_ctx.trace is core.eval_trace
        and isinstance(sharding, NamedSharding)
        and not sharding.mesh._any_axis_manual
        and not sharding.mesh.empty
        and isinstance(sharding.mesh, Mesh)
    )


def _place(scalar, shape, dtype, sharding):
    value = np.asarray(scalar).astype(dtype)
    shard = np.broadcast_to(value, sharding.shard_shape(shape))
    return make_array_from_callback(shape, sharding, lambda _: shard, dtype=dtype)


def _as_scalar(value: Any, dtype: Any, weak_type: bool) -> Any:
    """Convert `value` to a scalar of `dtype`, if possible to a Python or NumPy number."""
    real = dtype != np.bool_ and not dtypes.issubdtype(dtype, np.complexfloating)
    if real and isinstance(value, complex):
        raise TypeError(f"a complex fill_value, {value}, cannot fill an array of dtype {dtype}")
    if isinstance(value, (bool, int, float, complex, np.generic)):
        number = np.asarray(value)
        if number.dtype != object and _converts(number, dtype):
            if not weak_type:
                return number.astype(dtype)
            python = dtypes.scalar_type_of(np.empty((), dtype))(number.astype(dtype))
            if dtypes.dtype(python) == dtype:
                return python
    return to_dtype(value, dtype, weak_type=weak_type)


def _converts(number: np.ndarray, dtype: Any) -> bool:
    """Return whether NumPy converts a number as XLA does: not if it exceeds the integer range."""
    if number.dtype.kind != "f" or not dtypes.issubdtype(dtype, np.integer):
        return True
    info = dtypes.iinfo(dtype)
    return bool(info.min <= number <= info.max)


def _shape_tuple(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, (int, np.integer)) or core.is_symbolic_dim(shape):
        shape = (shape,)
    return core.canonicalize_shape(shape)


# ---------------------------------------------------------------------------------------------------
# iota


def iota(dtype: DTypeLike, size: int) -> Array:
    """Return the numbers 0, 1, ..., `size - 1`.

    Args:
      dtype: numeric dtype.
      size: number of elements.

    Returns:
      An array of shape `(size,)`.

    Raises:
      TypeError: if `dtype` is not numeric or `size` is negative.

    >>> lax.iota(jnp.int32, 3)
    Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: DTypeLike, shape: Shape, dimension: int, *, out_sharding=None) -> Array:
    """Return an array of `shape` whose elements are their index along `dimension`.

    Args:
      dtype: numeric dtype.
      shape: shape of the result.
      dimension: dimension to count along.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of that shape and dtype.

    Raises:
      ValueError: if `dimension` is out of range.
      TypeError: if `dtype` is not numeric or a size is negative.

    >>> lax.broadcasted_iota(jnp.int32, (2, 3), 1).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "iota")
    shape = core.canonicalize_shape(shape)
    sharding = canonicalize_sharding(out_sharding, "broadcasted_iota")
    return iota_p.bind(dtype=dtype, shape=shape, dimension=int(dimension), sharding=sharding)


def _iota_shape(*, dtype, shape, dimension, sharding):
    if any(d < 0 for d in shape):
        raise TypeError(f"iota shape must have every element be nonnegative, got {shape}.")
    if not 0 <= dimension < len(shape):
        raise ValueError(
            "iota dimension must be between 0 and len(shape), got "
            f"dimension={dimension} for shape={shape}"
        )
    return shape


def _iota_dtype(*, dtype, shape, dimension, sharding):
    if not any(dtypes.issubdtype(dtype, t) for t in (np.integer, np.inexact)):
        raise TypeError(
            f"iota does not accept dtype {rules.dtype_name(dtype)}. Accepted dtypes are subtypes of "
            "integer, floating, complexfloating."
        )
    return dtype


def _iota_lower(ctx, *, dtype, shape, dimension, sharding):
    (aval_out,) = ctx.avals_out
    return [rules.with_sharding(ctx, mlir.iota(ctx, aval_out, dimension=dimension), aval_out)]


iota_p = standard_primitive(
    "iota",
    shape=_iota_shape,
    dtype=_iota_dtype,
    sharding=lambda **params: params["sharding"],
    lower=_iota_lower,
    jvp=ZERO,
)


# ---------------------------------------------------------------------------------------------------
# Uninitialized arrays


def empty(shape, dtype, *, out_sharding=None) -> Array:
    """Create an array with unspecified contents, which need not be written on some devices.

    Args:
      shape: shape of the result: integers, or one integer.
      dtype: dtype of the result.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of that shape and dtype.

    >>> lax.empty((2, 3), jnp.float32).shape
    (2, 3)
    """
    shape = _shape_tuple(shape)
    if not dtypes.issubdtype(dtype, dtypes.extended):
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "empty")
    sharding = canonicalize_sharding(out_sharding, "empty")
    return empty_p.bind(shape=shape, dtype=dtype, out_sharding=sharding)


def _empty_shape(*, shape, dtype, out_sharding):
    if any(d < 0 for d in shape):
        raise TypeError(f"empty shape must have every element be nonnegative, got {shape}.")
    return shape


def _empty_lower(ctx, *, shape, dtype, out_sharding):
    (aval_out,) = ctx.avals_out
    physical = core.physical_aval(aval_out)
    zero_aval = core.ShapedArray((), physical.dtype)
    zero = mlir.ir_constant(np.zeros((), physical.dtype), aval=zero_aval)
    out = mlir.broadcast_in_dim(ctx, zero, physical, broadcast_dimensions=())
    return [rules.with_sharding(ctx, out, aval_out)]


empty_p = standard_primitive(
    "empty",
    shape=_empty_shape,
    dtype=lambda *, shape, dtype, out_sharding: dtype,
    sharding=lambda **params: params["out_sharding"],
    lower=_empty_lower,
    jvp=ZERO,
)


# A scalar in a memory space, which is broadcast to an array there.
empty2_p = core.Primitive("empty2")
empty2_p.def_abstract_eval(
    lambda *, dtype, memory_space: core.ShapedArray((), dtype, memory_space=memory_space)
)
ad.defjvp_zero(empty2_p)


def _empty2_lower(ctx, *, dtype, memory_space):
    return [mlir.full_like_aval(ctx, 0, ctx.avals_out[0])]


mlir.register_lowering(empty2_p, _empty2_lower)


# ---------------------------------------------------------------------------------------------------
# Barriers and tokens


def optimization_barrier(operand: Any, /) -> Any:
    """Return `operand` unchanged, and prevent the compiler from moving operations across.

    An operation that depends on an output runs after all inputs have been computed. The compiler
    does not fuse operations on both sides, and does not eliminate common subexpressions among them.

    Args:
      operand: pytree of arrays.

    Returns:
      A pytree like `operand`.

    >>> float(lax.optimization_barrier(jnp.sin(0.)))
    0.0
    """
    flat, tree = tree_flatten(operand)
    return tree_unflatten(tree, optimization_barrier_p.bind(*flat))


def _barrier_jvp(primals, tangents):
    outs = optimization_barrier_p.bind(*primals)
    nonzero = [i for i, t in enumerate(tangents) if type(t) is not ad.Zero]
    tangents_out = list(tangents)
    if nonzero:
        for i, t in zip(nonzero, optimization_barrier_p.bind(*[tangents[i] for i in nonzero])):
            tangents_out[i] = t
    return outs, tangents_out


def _barrier_transpose(cts, *operands):
    out = [None] * len(operands)
    nonzero = [i for i, ct in enumerate(cts) if type(ct) is not ad.Zero]
    for i, ct in zip(nonzero, optimization_barrier_p.bind(*[cts[i] for i in nonzero])):
        out[i] = ct
    return out


def _barrier_lower(ctx, *xs):
    flat = mlir.flatten_ir_values(xs)
    if not flat:
        return []
    outs = hlo.OptimizationBarrierOp(flat).results
    types = [mlir.aval_to_ir_types(ctx.module_context, a) for a in ctx.avals_out]
    return mlir.unflatten_ir_values_like_types(outs, types)


optimization_barrier_p = core.Primitive("optimization_barrier", multiple_results=True)
optimization_barrier_p.def_abstract_eval(lambda *avals: list(avals))
optimization_barrier_p.jvp = _barrier_jvp
optimization_barrier_p.transpose = _barrier_transpose
optimization_barrier_p.batch = lambda args, bdims: (optimization_barrier_p.bind(*args), list(bdims))
mlir.register_lowering(optimization_barrier_p, _barrier_lower)


def create_token(_=None):
    """Create a token, which orders the operations that take and return it."""
    return create_token_p.bind()


def after_all(*operands):
    """Return a token that comes after all of the given tokens."""
    return after_all_p.bind(*operands)


def _after_all_abstract_eval(*operands):
    for x in operands:
        if x is not core.abstract_token:
            raise TypeError(f"Arguments to after_all must be tokens, got {x}")
    return core.abstract_token


create_token_p = core.Primitive("create_token")
create_token_p.def_abstract_eval(lambda *_: core.abstract_token)
mlir.register_lowering(create_token_p, lambda ctx: [hlo.create_token()])

after_all_p = core.Primitive("after_all")
after_all_p.def_abstract_eval(_after_all_abstract_eval)
mlir.register_lowering(after_all_p, lambda ctx, *operands: [hlo.after_all(operands)])


late.full = full
