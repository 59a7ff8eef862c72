"""Conversions between extended dtypes and the dtypes of the arrays that represent them."""

from __future__ import annotations

from typing import Any

from jax._src import core, dtypes
from jax._src.interpreters import ad, batching
from jax._src.late_binding import late
from jax._src.lax.rules import dtype_name, linear_unreduced, standard_primitive, with_sharding
from jax._src.typing import Array


def convert_extended(operand: Any, new_dtype: Any) -> Array:
    """Convert `operand` to another dtype, if that or its own dtype is extended.

    Args:
      operand: array or scalar.
      new_dtype: dtype of the result.

    Returns:
      An array of that dtype.

    Raises:
      ValueError: if neither dtype represents the other one, the shape does not end with that of an
        element's representation, or the extended dtype does not allow conversions.
    """
    old_dtype = dtypes.dtype(operand)
    from_extended = isinstance(old_dtype, dtypes.ExtendedDType)
    to_extended = isinstance(new_dtype, dtypes.ExtendedDType)
    if from_extended and to_extended:
        steps = [
            dtype_name(core.physical_element_aval(dtype).dtype) for dtype in (old_dtype, new_dtype)
        ]
        path = " -> ".join([dtype_name(old_dtype), *steps, dtype_name(new_dtype)])
        raise ValueError(
            f"cannot convert from the extended dtype {dtype_name(old_dtype)} to the extended dtype "
            f"{dtype_name(new_dtype)}: convert to and from the dtypes that represent them, {path}."
        )
    if to_extended:
        return to_edtype_p.bind(operand, edtype=new_dtype)
    return from_edtype_p.bind(operand, dtype=new_dtype)


def _check_conversion(edtype: dtypes.ExtendedDType, dtype: Any, text: str) -> None:
    """Raise ValueError unless arrays of `edtype` are represented by arrays of `dtype`."""
    if not getattr(edtype._rules, "allow_conversion", False):
        hint = ""
        if dtypes.issubdtype(edtype, dtypes.prng_key):
            hint = ": use jax.random.key_data and jax.random.wrap_key_data for the data of random keys."
        raise ValueError(f"Cannot convert_element_type {text}{hint}")
    represented = core.physical_element_aval(edtype).dtype
    if dtype != represented:
        raise ValueError(
            f"the extended dtype {dtype_name(edtype)} converts to and from {dtype_name(represented)}, "
            f"which represents it, but not {text}: convert to {dtype_name(represented)} in between."
        )


# ---------------------------------------------------------------------------------------------------
# to_edtype


def _to_shape(x, *, edtype):
    element = core.physical_element_aval(edtype).shape
    n = len(x.shape) - len(element)
    if n < 0 or x.shape[n:] != element:
        raise ValueError(
            f"an array of the extended dtype {dtype_name(edtype)} is represented by one whose shape "
            f"ends with {element}, got shape {x.shape}."
        )
    return x.shape[:n]


def _to_dtype(x, *, edtype):
    _check_conversion(edtype, x.dtype, f"from {dtype_name(x.dtype)} to {dtype_name(edtype)}")
    return edtype


def _to_sharding(x, *, edtype):
    n = len(_to_shape(x, edtype=edtype))
    entries = tuple(x._sharding.spec)
    if any(entry is not None for entry in entries[n:]):
        raise core.ShardingTypeError(
            f"the dimensions of an element of the extended dtype {dtype_name(edtype)} must not be "
            f"sharded; got {x.str_short()}. Replicate them with `jax.sharding.reshard`."
        )
    return x._sharding.update(spec=x._sharding.spec.update(partitions=entries[:n]))


def _converted_tangent(t: Any, out: Any) -> Any:
    """Return the tangent of a conversion: the operand's, in the result's tangent dtype."""
    tangent_aval = core.typeof(out).to_tangent_aval()
    if type(t) is ad.Zero or tangent_aval.dtype == dtypes.float0:
        return ad.Zero(tangent_aval)
    return late.convert_element_type(t, tangent_aval.dtype)


def _to_jvp(primals, tangents, *, edtype):
    out = to_edtype_p.bind(*primals, edtype=edtype)
    return out, _converted_tangent(tangents[0], out)


def _from_jvp(primals, tangents, *, dtype):
    out = from_edtype_p.bind(*primals, dtype=dtype)
    return out, _converted_tangent(tangents[0], out)


def _transpose(ct, x, **_):
    # The cotangent has the dtype of a converted tangent, so convert it back.
    return [ct if type(ct) is ad.Zero else late.convert_element_type(ct, x.aval.dtype)]


def _to_batch(args, dims, *, edtype):
    (x,), (d,) = args, dims
    if d >= x.ndim - len(core.physical_element_aval(edtype).shape):
        x, d = batching.moveaxis(x, d, 0), 0  # the dimensions of an element must stay last
    return to_edtype_p.bind(x, edtype=edtype), d


to_edtype_p = standard_primitive(
    "to_edtype",
    # Check the dtypes first: their error is more informative than one about shapes.
    shape=lambda x, *, edtype: (_to_dtype(x, edtype=edtype), _to_shape(x, edtype=edtype))[1],
    dtype=_to_dtype,
    weak_type=lambda *_, **__: False,
    sharding=_to_sharding,
    unreduced=linear_unreduced("to_edtype"),
    lower=lambda ctx, x, **_: [with_sharding(ctx, x, ctx.avals_out[0])],
    jvp=_to_jvp,
    transpose=_transpose,
    batch=_to_batch,
)

# ---------------------------------------------------------------------------------------------------
# from_edtype


def _from_dtype(x, *, dtype):
    _check_conversion(x.dtype, dtype, f"from {dtype_name(x.dtype)} to {dtype_name(dtype)}")
    return dtype


def _from_sharding(x, *, dtype):
    element = core.physical_element_aval(x.dtype).shape
    entries = (*x._sharding.spec, *(None for _ in element))
    return x._sharding.update(spec=x._sharding.spec.update(partitions=entries))


from_edtype_p = standard_primitive(
    "from_edtype",
    shape=lambda x, *, dtype: (_from_dtype(x, dtype=dtype), core.physical_aval(x).shape)[1],
    dtype=_from_dtype,
    weak_type=lambda *_, **__: False,
    sharding=_from_sharding,
    unreduced=linear_unreduced("from_edtype"),
    lower=lambda ctx, x, **_: [with_sharding(ctx, x, ctx.avals_out[0])],
    jvp=_from_jvp,
    transpose=_transpose,
)
batching.defvectorized(from_edtype_p)
