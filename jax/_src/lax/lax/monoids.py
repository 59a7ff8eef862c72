"""The monoids that reductions, scans and windows have primitives for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, dtypes
from jax._src.interpreters import mlir
from jax._src.lax.checks import check_pure
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo


class Monoid(NamedTuple):
    """An associative operation on scalars, with an identity.

    Attributes:
      identity: function from a dtype to the identity, a NumPy scalar of that dtype.
      emit: function from two IR values to the IR value of their combination.
    """

    identity: Callable[[Any], Any]
    emit: Callable[[Any, Any], Any]


def sum_identity(dtype) -> Any:
    return np.array(0, dtype)


def prod_identity(dtype) -> Any:
    return np.array(1, dtype)


def max_identity(dtype) -> Any:
    return _extreme(dtype, least=True)


def min_identity(dtype) -> Any:
    return _extreme(dtype, least=False)


def and_identity(dtype) -> Any:
    if dtype == np.bool_:
        return np.array(True)
    return ~np.array(0, dtype)


def _extreme(dtype, least: bool) -> Any:
    sign = -1 if least else 1
    if dtypes.issubdtype(dtype, np.complexfloating):
        return np.array(sign * np.inf, dtype)
    if dtypes.issubdtype(dtype, np.floating):
        if dtypes.supports_inf(dtype):
            return np.array(sign * np.inf, dtype)
        info = dtypes.finfo(dtype)
        return np.array(info.min if least else info.max, dtype)
    if dtype == np.bool_:
        return np.array(not least)
    iinfo = dtypes.iinfo(dtype)
    return np.array(iinfo.min if least else iinfo.max, dtype)


sum_monoid = Monoid(sum_identity, lambda x, y: mlir.emit("stablehlo.add", [x, y]))
prod_monoid = Monoid(prod_identity, lambda x, y: hlo.multiply(x, y))
max_monoid = Monoid(max_identity, lambda x, y: mlir.max_hlo(x, y))
min_monoid = Monoid(min_identity, lambda x, y: mlir.min_hlo(x, y))
and_monoid = Monoid(and_identity, lambda x, y: hlo.and_(x, y))
or_monoid = Monoid(sum_identity, lambda x, y: hlo.or_(x, y))
xor_monoid = Monoid(sum_identity, lambda x, y: hlo.xor(x, y))


def constant(value: np.ndarray) -> Any:
    """Return a NumPy scalar as an IR value, in its own dtype even if 64-bit dtypes are disabled."""
    value = np.asarray(value)
    return mlir.ir_constant(value, aval=core.ShapedArray(value.shape, value.dtype))


def lower_reduce(ctx, monoid: Monoid, x: Any, axes) -> Any:
    """Reduce `x` over `axes` by a monoid, to the result type of `ctx`."""
    (aval_out,) = ctx.avals_out
    out_type = mlir.aval_to_ir_type(ctx.module_context, aval_out)
    scalar_aval = core.ShapedArray((), aval_out.dtype)
    scalar = mlir.aval_to_ir_type(ctx.module_context, scalar_aval)
    init = mlir.ir_constant(monoid.identity(aval_out.dtype), aval=scalar_aval)
    dims = ctx.module_context.attribute(mlir.dense_int_array, tuple(axes))
    op = ir.Operation.create(
        "stablehlo.reduce", [out_type], [x, init], {"dimensions": dims}, regions=1
    )
    block = op.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        a, b = block.arguments
        ir.Operation.create("stablehlo.return", operands=[monoid.emit(a, b)])
    return op.result


def emit_jaxpr(ctx, jaxpr, args) -> list[Any]:
    """Emit a closed jaxpr of scalars inside the body of an op."""
    consts = [mlir.ir_constant(c) for c in jaxpr.consts]
    outs, _ = mlir.jaxpr_subcomp(
        ctx.module_context,
        jaxpr.jaxpr,
        ctx.name_stack,
        mlir.TokenSet(),
        consts,
        *args,
        dim_var_values=ctx.dim_var_values,
        const_lowering=None,
        outer_traceback=None,
    )
    return mlir.flatten_ir_values(outs)


def check_computation(name: str, jaxpr, dtypes_in) -> None:
    """Raise unless a traced computation returns scalars of the dtypes that it takes, and does no more."""
    check_pure(name, jaxpr.effects)
    if any(isinstance(c, core.Tracer) for c in jaxpr.consts):
        raise ValueError(
            f"The computation of {name} uses a traced value of an enclosing function, which is not "
            "supported: pass such values as operands."
        )
    outs = jaxpr.out_avals
    if len(outs) != len(dtypes_in) or any(a.shape or a.dtype != d for a, d in zip(outs, dtypes_in)):
        raise TypeError(
            f"The computation of {name} must return scalars of the types it takes, "
            f"{', '.join(f'{d}[]' for d in dtypes_in)}, got "
            f"{', '.join(a.str_short() for a in outs)}."
        )
