"""Positions in arrays: sums of what is known when a kernel is compiled and of what a lane computes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, llvm

_DYNAMIC = -(2**31)  # in place of an index of llvm.getelementptr that is a value


def integer(value: int, type_: Any = None) -> Any:
    """Return a constant of MLIR, of type i32 unless another is given."""
    type_ = ir.IntegerType.get_signless(32) if type_ is None else type_
    return arith.constant(type_, ir.IntegerAttr.get(type_, value))


@dataclasses.dataclass(frozen=True, slots=True)
class Index:
    """An integer that is not negative.

    Attributes:
      static: the part that is known.
      dynamic: the other part, a value of MLIR; None for zero.
      multiple: a divisor of the other part.
    """

    static: int = 0
    dynamic: Any = None
    multiple: int = 1

    @property
    def divisor(self) -> int:
        """A divisor of the whole; zero for zero."""
        return self.static if self.dynamic is None else math.gcd(self.static, self.multiple)

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            other = Index(other)
        static = self.static + other.static
        if other.dynamic is None:
            return Index(static, self.dynamic, self.multiple)
        if self.dynamic is None:
            return Index(static, other.dynamic, other.multiple)
        x, y = self.dynamic, other.dynamic
        if x.type != y.type:
            x, y = _wide(x), _wide(y)
        return Index(static, arith.addi(x, y), math.gcd(self.multiple, other.multiple))

    def __mul__(self, n: int) -> Index:
        if self.dynamic is None or n == 1:
            return Index(self.static * n, self.dynamic, self.multiple)
        if n == 0:
            return Index()
        product = arith.muli(self.dynamic, integer(n, self.dynamic.type))
        return Index(self.static * n, product, self.multiple * n)

    def divmod(self, n: int) -> tuple[Index, Index]:
        """Return quotient and remainder of a division by a number."""
        if n == 1:
            return self, Index()
        if self.dynamic is None:
            return Index(self.static // n), Index(self.static % n)
        if self.multiple % n == 0:
            quotient = arith.divui(self.dynamic, integer(n, self.dynamic.type))
            return Index(self.static // n, quotient, self.multiple // n), Index(self.static % n)
        whole = self.value()
        divisor = integer(n, whole.type)
        common = math.gcd(self.divisor, n)
        return Index(0, arith.divui(whole, divisor)), Index(0, arith.remui(whole, divisor), common)

    def value(self, type_: Any = None) -> Any:
        """Return the whole as a value of MLIR."""
        if self.dynamic is None:
            return integer(self.static, type_)
        out = self.dynamic
        if type_ is not None and out.type != type_:
            out = _wide(out)
        return out if self.static == 0 else arith.addi(out, integer(self.static, out.type))

    def wide(self) -> Index:
        """Return it with 64 bits."""
        if self.dynamic is None:
            return self
        return Index(self.static, _wide(self.dynamic), self.multiple)


def pointer_at(start: Any, offset: Any, kind: Any = None) -> Any:
    """Return a pointer to what is at an offset from another pointer.

    Args:
      start: the other pointer.
      offset: the offset, an int or a value of MLIR.
      kind: the type of the elements that it counts; None for bytes.
    """
    kind = ir.IntegerType.get_signless(8) if kind is None else kind
    dynamic, static = ([], [offset]) if isinstance(offset, int) else ([offset], [_DYNAMIC])
    return llvm.GEPOp(start.type, start, dynamic, static, kind, None).result


def _wide(x: Any) -> Any:
    i64 = ir.IntegerType.get_signless(64)
    return x if x.type == i64 else arith.extui(i64, x)


def unraveled(flat: Index, shape: Sequence[int]) -> list[Index]:
    """Return the position along each dimension of the element with a number in row-major order."""
    out = []
    for size in reversed(shape[1:]):
        flat, remainder = flat.divmod(size)
        out.append(remainder)
    return [*([flat] if shape else []), *reversed(out)]
