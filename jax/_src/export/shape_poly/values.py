"""Values of symbolic dimensions: in Python, in modules that are lowered, and as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.interpreters import mlir
from jax._src.lib.mlir.dialects import hlo


class UnexpectedDimVar(Exception):
    """A dimension variable has no value: no argument's shape has it."""


class Algebra:
    """Evaluates dimension sizes for given values of the variables.

    Args:
      env: values by name of the variable.
    """

    def __init__(self, env: Mapping[str, Any]):
        self._env = env
        self._known: dict[Any, Any] = {}

    # What a value is; here an int or a size of another scope.

    def constant(self, k: int) -> Any:
        return k

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def mul(self, x: Any, y: Any) -> Any:
        return x * y

    def divisor(self, y: Any) -> Any:
        """A divisor that may be 0, which Python refuses."""
        return y

    def floordiv(self, x: Any, y: Any) -> Any:
        return x // y

    def mod(self, x: Any, y: Any) -> Any:
        return x % y

    def max(self, x: Any, y: Any) -> Any:
        return core.max_dim(x, y)

    def min(self, x: Any, y: Any) -> Any:
        return core.min_dim(x, y)

    def size(self, x: Any) -> Any:
        """The value of an int or symbolic dimension."""
        if type(x) is int:
            return self.constant(x)
        total = None
        for term, k in x._terms:
            value = self._term(term, k)
            total = value if total is None else self.add(total, value)
        return total

    def _term(self, term: Any, k: int) -> Any:
        value = None
        for factor, exponent in term.factors:
            f = self._factor(factor)
            for _ in range(exponent):
                value = f if value is None else self.mul(value, f)
        if value is None:
            return self.constant(k)
        return value if k == 1 else self.mul(value, self.constant(k))

    def _factor(self, factor: Any) -> Any:
        if factor.operation is None:
            name = factor.operands[0]
            if name not in self._env:
                raise UnexpectedDimVar(
                    f"The dimension variable {name!r} has no value: it appears in no shape of the "
                    f"arguments of the function. Variables that do: {sorted(self._env)}."
                )
            return self._env[name]
        if factor not in self._known:
            x, y = (self.size(v) for v in factor.operands)
            if factor.operation in ("floordiv", "mod") and _may_be_zero(factor.operands[1]):
                y = self.divisor(y)
            self._known[factor] = getattr(self, factor.operation)(x, y)
        return self._known[factor]


def _may_be_zero(d: Any) -> bool:
    return not (core.definitely_greater(d, 0) or core.definitely_greater(0, d))


class IrAlgebra(Algebra):
    """Evaluates dimension sizes to 0-d int32 values of the module that is being lowered."""

    def constant(self, k: int) -> Any:
        if not -(2**31) <= k < 2**31:
            raise ValueError(
                f"The number {k} in a symbolic dimension is too large: exported programs compute sizes as "
                "32-bit integers. Take it out of the shape, or multiply arrays by it."
            )
        return mlir.ir_constant(np.int32(k))

    def add(self, x: Any, y: Any) -> Any:
        return hlo.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        return hlo.multiply(x, y)

    def max(self, x: Any, y: Any) -> Any:
        return hlo.maximum(x, y)

    def min(self, x: Any, y: Any) -> Any:
        return hlo.minimum(x, y)

    def divisor(self, y: Any) -> Any:
        """1 in place of 0: the compiler, when it refines shapes, ends the process if it divides by 0."""
        return hlo.select(
            mlir.compare_hlo(y, self.constant(0), "EQ", "SIGNED"), self.constant(1), y
        )

    def floordiv(self, x: Any, y: Any) -> Any:
        return self._floor(x, y, lambda r, off: hlo.select(
            off, hlo.subtract(hlo.divide(x, y), self.constant(1)), hlo.divide(x, y)
        ))  # fmt: skip

    def mod(self, x: Any, y: Any) -> Any:
        return self._floor(x, y, lambda r, off: hlo.select(off, hlo.add(r, y), r))

    def _floor(self, x: Any, y: Any, result: Callable[[Any, Any], Any]) -> Any:
        """Calls `result` with the remainder and whether it has not the sign of the divisor."""
        zero = self.constant(0)
        r = hlo.remainder(x, y)
        negative = mlir.compare_hlo(r, zero, "LT", "SIGNED")
        differs = mlir.compare_hlo(
            negative, mlir.compare_hlo(y, zero, "LT", "SIGNED"), "NE", "UNSIGNED"
        )
        return result(r, hlo.and_(mlir.compare_hlo(r, zero, "NE", "SIGNED"), differs))


# A dimension as an array

dimension_as_value_p = core.Primitive("dim_as_value")


def value_aval() -> core.ShapedArray:
    """The type of dimensions as arrays: a weakly typed default integer."""
    return core.ShapedArray((), dtypes.default_int_dtype(), weak_type=True)


def _abstract_eval(*, dim: Any) -> core.ShapedArray:
    return value_aval()


def _impl(*, dim: Any) -> Any:
    raise NotImplementedError(
        f"The value of the symbolic dimension '{dim}' is not known outside of a function that is "
        "traced for jax.export. Use the size of an array's shape inside of such a function."
    )


def _lowering(ctx: Any, *, dim: Any) -> list[Any]:
    (value,) = mlir.eval_dynamic_shape(ctx, (dim,))
    out_type = mlir.aval_to_ir_type(ctx.module_context, ctx.avals_out[0])
    return [value if value.type == out_type else hlo.convert(out_type, value)]


dimension_as_value_p.def_abstract_eval(_abstract_eval)
dimension_as_value_p.def_impl(_impl)
mlir.register_lowering(dimension_as_value_p, _lowering)
