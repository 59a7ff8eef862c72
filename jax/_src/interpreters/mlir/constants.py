"""Conversion of Python, NumPy and array values to IR constants and attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from jax._src import core, dtypes, literals
from jax._src.abstract_arrays import is_masked_array, masked_array_error
from jax._src.array_impl import ArrayImpl
from jax._src.interpreters.mlir.types import IrValues, dtype_to_ir_type
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

# Attributes


def i32_attr(i: int) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), i)


def i64_attr(i: int) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), i)


def dense_int_array(xs: Sequence[int]) -> Any:
    """Returns `array<i64: …>`, the form of most dimension lists in StableHLO."""
    return ir.DenseI64ArrayAttr.get(xs)


def dense_int_elements(xs: Sequence[int]) -> Any:
    return ir.DenseIntElementsAttr.get(np.asarray(xs, np.int64))


def dense_bool_elements(xs: Sequence[bool]) -> Any:
    return ir.DenseElementsAttr.get(
        np.asarray(xs, np.bool_), type=ir.IntegerType.get_signless(1), shape=(len(xs),)
    )


def dense_bool_array(xs: Sequence[bool]) -> Any:
    return ir.DenseBoolArrayAttr.get(xs)


# Integer types with the bits of dtypes that the buffer protocol does not support, by item size.
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_PLAIN = frozenset(np.dtype(t) for t in "? b h i l B H I L e f d F D".split())
_INT1 = tuple(
    np.dtype(getattr(ml_dtypes, name)) for name in ("int1", "uint1") if hasattr(ml_dtypes, name)
)


def numpy_array_attribute(x: np.ndarray | np.generic) -> Any:
    """Converts `x` to an elements attribute, which is a splat if all elements are equal."""
    dtype = x.dtype
    shape = x.shape
    if not shape and dtype in _PLAIN:
        return ir.DenseElementsAttr.get(x, type=dtype_to_ir_type(dtype), shape=shape)
    element_type = dtype_to_ir_type(dtype)
    if not x.flags.c_contiguous:
        x = np.ascontiguousarray(x)  # this would make a 0-d array 1-d, but those are contiguous
    if dtype.kind == "V":
        if dtype == dtypes.float0:
            x = np.zeros(shape, np.bool_)
        elif dtype in _INT1:
            x = np.bitwise_and(x.view(np.uint8), 1).astype(np.bool_)
        else:
            x = x.view(_BITS[dtype.itemsize])
    return ir.DenseElementsAttr.get(x, type=element_type, shape=shape)


def _numpy_attribute_handler(x: np.ndarray | np.generic) -> Any:
    if not isinstance(x, np.ndarray):
        return _scalar_attribute(x.dtype, x)
    return numpy_array_attribute(x)


def _scalar_attribute(dtype: np.dtype, val: Any) -> Any:
    element_type = dtype_to_ir_type(dtype)
    if isinstance(element_type, ir.IntegerType):
        if dtype == np.bool_:
            return ir.BoolAttr.get(bool(val))
        if dtype == np.uint64:  # the bindings take a signed 64-bit number with the same bits
            val = np.uint64(val).view(np.int64)
        return ir.IntegerAttr.get(element_type, int(val))
    if isinstance(element_type, ir.FloatType):
        return ir.FloatAttr.get(element_type, float(val))
    raise TypeError(f"Unsupported scalar attribute type: {dtype}")


def _python_int_attribute(val: int) -> Any:
    return i64_attr(val)


def _dict_attribute(val: dict[str, Any]) -> Any:
    return ir.DictAttr.get({k: ir_attribute(v) for k, v in val.items()})


def _sequence_attribute(val: Sequence[Any]) -> Any:
    return ir.ArrayAttr.get([ir_attribute(v) for v in val])


AttributeHandler = Callable[[Any], Any]
_attribute_handlers: dict[type, AttributeHandler] = {
    bool: lambda val: ir.BoolAttr.get(val),
    int: _python_int_attribute,
    float: lambda val: ir.FloatAttr.get_f64(val),
    complex: lambda val: _scalar_attribute(np.dtype(np.complex128), val),
    str: lambda val: ir.StringAttr.get(val),
    bytes: lambda val: ir.StringAttr.get(val),
    dict: _dict_attribute,
    list: _sequence_attribute,
    tuple: _sequence_attribute,
    np.ndarray: _numpy_attribute_handler,
    np.generic: _numpy_attribute_handler,
    np.dtype: lambda val: ir.TypeAttr.get(dtype_to_ir_type(val)),
    ml_dtypes.bfloat16: _numpy_attribute_handler,
}


def register_attribute_handler(type_: type, handler_fun: AttributeHandler) -> None:
    """Sets how `ir_attribute` converts values of the class `type_`."""
    _attribute_handlers[type_] = handler_fun


def get_attribute_handler(type_: type) -> AttributeHandler | None:
    for cls in type_.__mro__:
        handler = _attribute_handlers.get(cls)
        if handler is not None:
            return handler
    return None


def ir_attribute(val: object) -> Any:
    """Converts a Python or NumPy value to an MLIR attribute.

    Numbers become integer or float attributes (of 64 bits for Python numbers), arrays become dense
    elements, lists and tuples become array attributes, and dicts with string keys become dictionary
    attributes.

    Raises:
      TypeError: if there is no attribute for values of this class.
    """
    handler = get_attribute_handler(type(val))
    if handler is None:
        if isinstance(val, ir.Type):
            return ir.TypeAttr.get(val)
        if isinstance(val, ir.Attribute):
            return val
        raise TypeError(f"No attribute handler defined for type: {type(val)}")
    return handler(val)


# Constants


def _constant(x: np.ndarray | np.generic) -> Any:
    attr = numpy_array_attribute(x)
    return ir.Operation.create("stablehlo.constant", [attr.type], None, {"value": attr}).result


def _ndarray_constant(val: np.ndarray, aval: Any) -> Any:
    if type(val) is not np.ndarray and is_masked_array(val):
        masked_array_error(val)
    dtype = val.dtype
    if aval is not None and aval.dtype is dtype and not val.shape:
        return _constant(val)
    if dtype.kind == "V" and dtype == dtypes.float0:
        return _constant(np.zeros(val.shape, np.bool_))
    if dtype.byteorder not in "=|" and not dtype.isnative:
        val = val.astype(dtype.newbyteorder("="))
        dtype = val.dtype
    canonical = dtypes.canonicalize_dtype(dtype) if aval is None else aval.dtype
    if canonical != dtype and not isinstance(canonical, dtypes.ExtendedDType):
        val = np.asarray(val).astype(canonical)
    if 0 in val.strides and val.size > 1:
        # In a broadcast array, emit only the distinct elements and broadcast them in the program.
        kept = tuple(
            i for i, (n, stride) in enumerate(zip(val.shape, val.strides)) if stride or n <= 1
        )
        if len(kept) < val.ndim:
            compact = val[tuple(slice(None) if i in kept else 0 for i in range(val.ndim))]
            operand = _constant(np.asarray(compact))
            out_type = ir.RankedTensorType.get(val.shape, dtype_to_ir_type(val.dtype))
            return hlo.broadcast_in_dim(out_type, operand, dense_int_array(kept))
    return _constant(val)


def _numpy_scalar_constant(val: np.generic, aval: object) -> Any:
    return _ndarray_constant(np.asarray(val), aval)


def _python_scalar_constant(val: Any, aval: Any) -> Any:
    if aval is None:
        dtype = dtypes.default_scalar_dtype(val)
    else:
        dtype = aval.dtype
    return _constant(_cast_scalar(val, dtype))


def _cast_scalar(val: object, dtype: np.dtype) -> np.ndarray:
    try:
        return np.asarray(val, dtype)
    except OverflowError:
        raise OverflowError(
            f"An overflow was encountered while lowering the constant {val} to {dtype}. Give it a "
            "wider dtype, or enable 64 bits with jax.config.update('jax_enable_x64', True)."
        ) from None


def _token_constant(val: Any, aval: object) -> Any:
    return hlo.create_token()


def _typed_array_constant(val: Any, aval: object) -> Any:
    return _ndarray_constant(np.asarray(val), aval)


def _typed_scalar_constant(val: Any, aval: Any) -> Any:
    return _constant(_cast_scalar(val, val.dtype if aval is None else aval.dtype))


def _array_constant(val: ArrayImpl, aval: object) -> Any:
    if not val.is_fully_addressable and not (val.is_fully_replicated and val.addressable_shards):
        raise RuntimeError(
            f"Closing over jax.Array that spans non-addressable (non process local) devices is not "
            f"allowed. Please pass such arrays as arguments to the function. Got jax.Array: "
            f"{val.aval.str_short()}"
        )
    return _ndarray_constant(np.asarray(val), aval)


class ConstantHandler(Protocol):
    """A function that emits constants as IR values; see `register_constant_handler`."""

    def __call__(self, val: Any, aval: core.AbstractValue | None) -> IrValues: ...


_constant_handlers: dict[type, ConstantHandler] = {
    np.ndarray: _ndarray_constant,
    np.generic: _numpy_scalar_constant,
    bool: _python_scalar_constant,
    int: _python_scalar_constant,
    float: _python_scalar_constant,
    complex: _python_scalar_constant,
    literals.TypedInt: _typed_scalar_constant,
    literals.TypedFloat: _typed_scalar_constant,
    literals.TypedComplex: _typed_scalar_constant,
    literals.TypedNdArray: _typed_array_constant,
    core.Token: _token_constant,
    ArrayImpl: _array_constant,
}
for _name in dir(ml_dtypes):
    _cls = getattr(ml_dtypes, _name)
    if isinstance(_cls, type) and np.dtype(_cls).kind in "Vfiu" and _cls.__module__ == "ml_dtypes":
        _constant_handlers.setdefault(_cls, _numpy_scalar_constant)
        _attribute_handlers.setdefault(_cls, _numpy_attribute_handler)


def register_constant_handler(type_: type, handler_fun: ConstantHandler) -> None:
    """Sets how constants of the class `type_` are emitted.

    Args:
      type_: the class of values.
      handler_fun: called with the value and its abstract value (or None) at an insertion point;
        returns the IR value, or a tuple of them.
    """
    _constant_handlers[type_] = handler_fun


def get_constant_handler(type_: type) -> ConstantHandler | None:
    handler = _constant_handlers.get(type_)
    if handler is None:
        for cls in type_.__mro__[1:]:
            handler = _constant_handlers.get(cls)
            if handler is not None:
                break
    return handler


def ir_constant(val: Any, *, const_lowering: dict[Any, Any] | None = None, aval: Any = None) -> Any:
    """Emits the constant `val` at the insertion point.

    Args:
      val: a Python or NumPy scalar or array, an array, or a value of a registered class.
      const_lowering: IR values of constants that are passed as arguments, by (id of value, aval).
      aval: its abstract value if known; it determines the dtype of Python scalars.

    Returns:
      The IR value, or a tuple of them if several IR values represent one value.

    Raises:
      TypeError: if there is no handler for values of this class.
    """
    if const_lowering:
        value = const_lowering.get((id(val), aval))
        if value is not None:
            return value
    handler = _constant_handlers.get(type(val)) or get_constant_handler(type(val))
    if handler is None:
        if hasattr(val, "__jax_array__"):
            return ir_constant(val.__jax_array__(), const_lowering=const_lowering, aval=aval)
        raise TypeError(f"No constant handler for type: {type(val)}")
    return handler(val, aval)


def ir_constants(
    val: Any, *, const_lowering: dict[Any, Any] | None = None, aval: object = None
) -> tuple[Any, ...]:
    """Like `ir_constant`, but always returns a tuple."""
    out = ir_constant(val, const_lowering=const_lowering, aval=aval)
    return out if isinstance(out, tuple) else (out,)


def ir_consts(consts: Sequence[Any], avals: Sequence[Any]) -> list[IrValues]:
    """Emits each distinct object in `consts` once, and returns their IR values."""
    unique: dict[int, IrValues] = {}
    out = []
    for val, aval in zip(consts, avals):
        value = unique.get(id(val))
        if value is None:
            value = unique[id(val)] = ir_constant(val, aval=aval)
        out.append(value)
    return out
