"""The IR types of dtypes and abstract values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from jax._src import core, dtypes
from jax._src.lib import pytree
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

# One IR type or value; a tuple where several IR values represent one value.
IrTypes = Any
IrValues = Any


def _float(name: str) -> Callable[[], Any]:
    return lambda: getattr(ir, name).get()


def _int(bits: int, signed: bool = True) -> Callable[[], Any]:
    if signed:
        return lambda: ir.IntegerType.get_signless(bits)
    return lambda: ir.IntegerType.get_unsigned(bits)


def _complex(name: str) -> Callable[[], Any]:
    return lambda: ir.ComplexType.get(getattr(ir, name).get())


_dtype_to_ir_type: dict[np.dtype, Callable[[], Any]] = {
    np.dtype(dtypes.float0): _int(1),
    np.dtype(np.bool_): _int(1),
    np.dtype(ml_dtypes.int2): _int(2),
    np.dtype(ml_dtypes.int4): _int(4),
    np.dtype(np.int8): _int(8),
    np.dtype(np.int16): _int(16),
    np.dtype(np.int32): _int(32),
    np.dtype(np.int64): _int(64),
    np.dtype(ml_dtypes.uint2): _int(2, False),
    np.dtype(ml_dtypes.uint4): _int(4, False),
    np.dtype(np.uint8): _int(8, False),
    np.dtype(np.uint16): _int(16, False),
    np.dtype(np.uint32): _int(32, False),
    np.dtype(np.uint64): _int(64, False),
    np.dtype(ml_dtypes.float4_e2m1fn): _float("Float4E2M1FNType"),
    np.dtype(ml_dtypes.float6_e2m3fn): _float("Float6E2M3FNType"),
    np.dtype(ml_dtypes.float6_e3m2fn): _float("Float6E3M2FNType"),
    np.dtype(ml_dtypes.float8_e3m4): _float("Float8E3M4Type"),
    np.dtype(ml_dtypes.float8_e4m3): _float("Float8E4M3Type"),
    np.dtype(ml_dtypes.float8_e4m3b11fnuz): _float("Float8E4M3B11FNUZType"),
    np.dtype(ml_dtypes.float8_e4m3fn): _float("Float8E4M3FNType"),
    np.dtype(ml_dtypes.float8_e4m3fnuz): _float("Float8E4M3FNUZType"),
    np.dtype(ml_dtypes.float8_e5m2): _float("Float8E5M2Type"),
    np.dtype(ml_dtypes.float8_e5m2fnuz): _float("Float8E5M2FNUZType"),
    np.dtype(ml_dtypes.float8_e8m0fnu): _float("Float8E8M0FNUType"),
    np.dtype(ml_dtypes.bfloat16): _float("BF16Type"),
    np.dtype(np.float16): _float("F16Type"),
    np.dtype(np.float32): _float("F32Type"),
    np.dtype(np.float64): _float("F64Type"),
    np.dtype(np.complex64): _complex("F32Type"),
    np.dtype(np.complex128): _complex("F64Type"),
}
for _name, _signed in (("int1", True), ("uint1", False)):
    if hasattr(ml_dtypes, _name):  # since ml_dtypes 0.5.4
        _dtype_to_ir_type[np.dtype(getattr(ml_dtypes, _name))] = _int(1, _signed)


def dtype_to_ir_type(dtype: np.dtype[Any]) -> Any:
    """Returns the element type for `dtype`, in the current MLIR context."""
    make = _dtype_to_ir_type.get(dtype)
    if make is None:
        if isinstance(dtype, dtypes.ExtendedDType):
            raise TypeError(
                f"the extended dtype {dtype} has no element type: lower its physical representation"
            )
        make = _dtype_to_ir_type.get(np.dtype(dtype))
        if make is None:
            raise TypeError(f"No dtype_to_ir_type handler for dtype: {dtype}")
    return make()


def _array_ir_type(logical_aval: core.ShapedArray) -> Any:
    aval = core.physical_aval(logical_aval)
    shape: Sequence[int] = aval.shape
    if not core.is_constant_shape(shape):
        dynamic = ir.ShapedType.get_dynamic_size()
        shape = [d if core.is_constant_dim(d) else dynamic for d in shape]
    elif aval.size * aval.dtype.itemsize >= 1 << 63:  # the compiler would abort the process
        raise ValueError(
            f"an array of type {aval.str_short()} has more bytes than can be addressed: give it a "
            "smaller shape."
        )
    return ir.RankedTensorType.get_unchecked(shape, dtype_to_ir_type(aval.dtype))


def token_type() -> Any:
    return hlo.TokenType.get()


# From classes of abstract values to functions that return their IR type or types.
ir_type_handlers: dict[type, Callable[[Any], IrTypes]] = {
    core.ShapedArray: _array_ir_type,
    core.AbstractToken: lambda _: token_type(),
}


def aval_to_ir_types(ctx: Any, aval: Any) -> IrTypes:
    """Returns the IR type of values of type `aval`, or a tuple if several IR values represent one.

    Args:
      ctx: the `ModuleContext`, which caches types, or None.
      aval: the abstract value.
    """
    if ctx is None:
        return _lookup(aval)(aval)
    cache = ctx.aval_to_ir_types_cache
    types = cache.get(aval)
    if types is None:
        types = cache[aval] = _lookup(aval)(aval)
    return types


def aval_to_ir_type(ctx: object, aval: Any) -> Any:
    """Like `aval_to_ir_types`, for an abstract value that one IR value represents."""
    types = aval_to_ir_types(ctx, aval)
    if isinstance(types, tuple):
        raise TypeError(f"values of type {aval} have {len(types)} IR types, where one is expected")
    return types


def _lookup(aval: object) -> Callable[[Any], IrTypes]:
    for cls in type(aval).__mro__:
        handler = ir_type_handlers.get(cls)
        if handler is not None:
            return handler
    raise TypeError(f"No ir_type_handler for aval type: {type(aval)}")


def flatten_ir_values(xs: Iterable[IrValues]) -> list[Any]:
    """Flattens a list of IR values and tuples of them."""
    out: list[Any] = []
    for x in xs:
        if type(x) is tuple:
            out.extend(x)
        else:
            out.append(x)
    return out


flatten_ir_types = flatten_ir_values


def len_ir_types(x: IrTypes) -> int:
    return len(x) if isinstance(x, tuple) else 1


def unflatten_ir_values_like_types(xs: Iterable[Any], ys: Sequence[IrTypes]) -> list[IrValues]:
    """Inverts `flatten_ir_values`, for values of the types `ys`."""
    xs = list(xs)
    out: list[IrValues] = []
    i = 0
    for t in ys:
        if isinstance(t, tuple):
            out.append(tuple(xs[i : i + len(t)]))
            i += len(t)
        else:
            out.append(xs[i])
            i += 1
    if i != len(xs):
        raise ValueError(f"got {len(xs)} IR values for {i} IR types")
    return out


@functools.cache
def make_ir_tree_registry() -> Any:
    """Returns a pytree registry for IR values, where None is a leaf and result lists are nodes."""
    registry = pytree.PyTreeRegistry(
        enable_none=False,
        enable_tuple=True,
        enable_namedtuple=True,
        enable_list=True,
        enable_dict=True,
    )
    registry.register_node(
        ir.OpResultList, lambda results: (tuple(results), None), lambda _, results: list(results)
    )
    return registry
