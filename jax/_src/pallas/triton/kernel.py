"""What the rules for Triton share: types, constants, and indices, each emitted once per kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.core import Jaxpr, Primitive, Var, jaxprs_in_params
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith
from jax._src.lib.triton import dialect as tt
from jax._src.pallas.element_types import (
    gpu_element_type,
    gpu_number_attribute,
    is_float,
    only_number,
)
from jax._src.pallas.kernel_rules import KernelContext, Rule, RuleContext, RuleTable

rules = RuleTable("GPUs (Triton)")

# Triton's own bound.
_MAX_SIZE = 2**20


class Constant:
    """A number that is not emitted yet: operations want it as a scalar, or an array of equal elements."""

    __slots__ = ("dtype", "value")

    def __init__(self, value: Any, dtype: Any):
        self.value = value
        self.dtype = dtype


class Kernel(KernelContext):
    """A kernel that is being compiled.

    Args:
      name: its name and line, for errors.
      context: the MLIR context.
      platform: "cuda" or "rocm".
    """

    def __init__(self, name: str, context: Any, platform: str):
        super().__init__(rules, name, context)
        self.platform = platform
        self.unused: set[Any] = set()
        self.program_ids: list[Any] = []
        self.grid: tuple[int, ...] = ()
        self._types: dict[Any, Any] = {}
        self._constants: dict[Any, Any] = {}
        self._offsets: dict[Any, Any] = {}
        self.i32 = ir.IntegerType.get_signless(32)
        self.i64 = ir.IntegerType.get_signless(64)

    def start(self, block: Any) -> None:
        """Emit constants and indices, which all operations can use, at the beginning of a block."""
        self._unknown = ir.Location.unknown()
        zero = ir.IntegerAttr.get(self.i32, 0)
        with ir.InsertionPoint(block):
            first = arith.ConstantOp(self.i32, zero, loc=self._unknown)
        self.at_start = ir.InsertionPoint(first)

    def is_used(self, var: Any) -> bool:
        """Whether the kernel uses a result of an operation."""
        return var not in self.unused

    # Types

    def element_type(self, dtype: Any) -> Any:
        """Return MLIR's type of elements."""
        found = self._types.get(dtype)
        if found is None:
            found = self._types[dtype] = gpu_element_type(dtype, rules.target, _INTEGERS)
        return found

    def type_of(self, shape: Sequence[int], dtype: Any) -> Any:
        """Return MLIR's type of arrays: that of elements, if there are no dimensions."""
        key = shape, dtype
        found = self._types.get(key)
        if found is None:
            element = self.element_type(dtype)
            found = self._types[key] = self.array_type(shape, element)
        return found

    def array_type(self, shape: Sequence[int], element: Any) -> Any:
        if not shape:
            return element
        check_shape(shape)
        return ir.RankedTensorType.get(shape, element)

    # Constants

    def constant(self, value: Any, aval: Any) -> Any:
        x = only_number(value, aval, rules.target, "jax.lax.broadcasted_iota")
        return Constant(x.item() if x.dtype.kind in "biuf" else float(x), aval.dtype)

    def value(self, x: Any, aval: Any) -> Any:
        """Return an operand as a value of MLIR."""
        if type(x) is Constant:
            return self.full(x.value, aval.shape, aval.dtype)
        return x

    def full(self, value: Any, shape: Sequence[int], dtype: Any) -> Any:
        """Return a scalar or an array whose elements are a number."""
        # Numbers that compare equal need not be equal: 0.0 and -0.0, 1 and True.
        key = repr(value), tuple(shape), dtype
        found = self._constants.get(key)
        if found is None:
            attribute = gpu_number_attribute(value, dtype, self.element_type(dtype))
            kind = self.type_of(tuple(shape), dtype)
            if shape:
                attribute = ir.DenseElementsAttr.get_splat(kind, attribute)
            found = arith.constant(kind, attribute, loc=self._unknown, ip=self.at_start)
            self._constants[key] = found
        return found

    # Shapes

    def splat(self, x: Any, shape: Sequence[int]) -> Any:
        """Return an array of a scalar."""
        return tt.splat(self.array_type(tuple(shape), x.type), x) if shape else x

    def broadcast(self, x: Any, shape: Sequence[int]) -> Any:
        """Return a scalar, or an array with dimensions of size one, as an array of a shape."""
        if not isinstance(x.type, ir.RankedTensorType):
            return self.splat(x, shape)
        kind = ir.RankedTensorType(x.type)
        if list(kind.shape) == list(shape):
            return x
        return tt.broadcast(self.array_type(tuple(shape), kind.element_type), x)

    def join(self, x: Any, y: Any) -> Any:
        """Return an array of two arrays, along a new last dimension."""
        kind = ir.RankedTensorType(x.type)
        return tt.join(self.array_type((*kind.shape, 2), kind.element_type), x, y)

    # Indices

    def offsets(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
        """Return how far the elements of a block are from its first one: an array of a shape, emitted once.

        Args:
          shape: the block's shape, of one dimension at least.
          strides: how far neighbours along each dimension are.
          dtype: int32 or int64.
        """
        key = shape, strides, dtype
        found = self._offsets.get(key)
        if found is None:
            with self.at_start, self._unknown:
                terms = [
                    self._broadcast_range(shape, i, s, dtype)
                    for i, s in enumerate(strides)
                    if shape[i] > 1 and s
                ]
                found = terms[0] if terms else self.full(0, shape, dtype)
                for t in terms[1:]:
                    found = arith.addi(found, t)
            self._offsets[key] = found
        return found

    def _broadcast_range(self, shape: tuple[int, ...], axis: int, stride: int, dtype: Any) -> Any:
        key = shape, axis, stride, dtype
        found = self._offsets.get(key)
        if found is None:
            x = self._range(shape[axis], dtype)
            if stride != 1:
                x = arith.muli(x, self.full(stride, (shape[axis],), dtype))
            found = self._offsets[key] = self.broadcast(
                with_unit_dims(x, [i for i in range(len(shape)) if i != axis]), shape
            )
        return found

    def _range(self, size: int, dtype: Any) -> Any:
        key = size, dtype
        found = self._offsets.get(key)
        if found is None:
            found = tt.make_range(self.array_type((size,), self.i32), 0, size)
            if dtype != np.int32:
                found = arith.extsi(self.type_of((size,), dtype), found)
            self._offsets[key] = found
        return found

    def iota(self, shape: tuple[int, ...], axis: int) -> Any:
        """Return the positions along an axis, as an int32 array of a shape, emitted once."""
        with self.at_start, self._unknown:
            return self._broadcast_range(shape, axis, 1, np.dtype(np.int32))


def unused_results(jaxpr: Jaxpr) -> set[Any]:
    """Return the results of operations of a jaxpr, and of those in it, that nothing uses."""
    used = {v for v in jaxpr.outvars if type(v) is Var}
    made: set[Any] = set()
    inner: set[Any] = set()
    for eqn in jaxpr.eqns:
        made.update(eqn.outvars)
        used.update([v for v in eqn.invars if type(v) is Var])
        for nested in jaxprs_in_params(eqn.params):
            inner |= unused_results(nested)
    return (made - used) | inner


def with_unit_dims(x: Any, axes: Sequence[int]) -> Any:
    """Insert dimensions of size one at positions of the result."""
    for axis in sorted(axes):
        x = tt.expand_dims(x, axis)
    return x


def check_shape(shape: Sequence[int]) -> None:
    """Check that Triton has arrays of a shape.

    Raises:
      ValueError: if not.
    """
    shape = tuple(shape)
    if any([d < 1 or d & (d - 1) for d in shape]):
        padded = tuple([1 << (d - 1).bit_length() if d > 0 else 1 for d in shape])
        raise ValueError(
            f"Kernels for {rules.target} have arrays whose sizes are powers of 2, but one is of shape {shape}. Give the "
            f"BlockSpec, or the part of the reference that is read, a shape like {padded}, and mask what is "
            "beyond the array: plgpu.load(ref.at[pl.ds(0, n)], mask=..., other=...)."
        )
    if math.prod(shape) > _MAX_SIZE:
        raise ValueError(
            f"Kernels for {rules.target} have arrays of at most {_MAX_SIZE} elements, but one is of shape {shape}, of "
            f"{math.prod(shape)} elements. Divide the array into smaller blocks: a BlockSpec and a larger grid."
        )


_INTEGERS = ("int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8", "int4", "uint4")  # fmt: skip


def is_bool(dtype: Any) -> bool:
    return bool(dtype == np.bool_)


def is_float8(dtype: Any) -> bool:
    return is_float(dtype) and dtypes.itemsize_bits(dtype) == 8


def rule(*primitives: Primitive) -> Callable[[Rule], Rule]:
    """Make a function the rule of primitives; it is given values of MLIR and references."""

    def register(function: Rule) -> Rule:
        def with_values(ctx: RuleContext, *args: Any, **params: Any) -> Any:
            value = ctx.kernel.value
            return function(ctx, *[value(x, a) for x, a in zip(args, ctx.avals_in)], **params)

        rules.rule(*primitives)(with_values)
        return function

    return register
