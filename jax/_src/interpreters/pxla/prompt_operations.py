"""Operations of the library on some ten thousand elements, which run where they are called.

XLA splits an operation among threads if it reads and writes more than 256 KiB. To wake them takes longer than to compute
up to four times as much. So such programs become calls of a kernel, where `jaxlib-ext` is installed; nor does the CPU
client hand those to another thread, as it counts a call of a kernel as no operations.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from jax._src import compiler, config
from jax._src.interpreters.mlir.constants import dense_int_array
from jax._src.interpreters.mlir.custom_call import custom_call
from jax._src.lib import native_kernels
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func as func_dialect, hlo

_KERNEL = "jaxlib_ext_elementwise"
_FEWEST_BYTES, _MOST_BYTES = 1 << 18, 1 << 20  # of arrays that are read and written
_MOST_OPERANDS = _MOST_STEPS = 8  # of the kernel

# The kernel's numbers of operations (vector_elementwise.h), each of which computes exactly and rounds once.
_CODES = {
    "stablehlo." + name: code
    for code, name in enumerate(
        ("add", "subtract", "multiply", "divide", "maximum", "minimum", "negate", "abs", "sqrt")
    )
}
_SQUARE, _MULTIPLY, _DIVIDE = "chlo.square", "stablehlo.multiply", "stablehlo.divide"
_SUMS = ("stablehlo.add", "stablehlo.subtract")
_BROADCAST, _CONSTANT = "stablehlo.broadcast_in_dim", "stablehlo.constant"


def are_wanted(info: Any, placement: Any) -> bool:
    """Whether an operation of these layouts and devices is to run where it is called."""
    return (
        config.native_kernels.value
        and config.cpu_compile_profile.value != "original"
        and placement.num_devices == 1
        and placement.backend.platform == "cpu"
        and not compiler.is_compile_only(placement.backend)
        and not any(info.in_layouts)
        and not any(info.out_layouts)
    )


def as_kernel(module: Any) -> Any:
    """Returns a module that computes the same by a kernel, or the module itself if it is not one of these."""
    body = module.body.operations
    if len(body) != 1 or not isinstance(body[0], func_dialect.FuncOp):
        return module
    if _Elementwise.of(body[0]) is None or not native_kernels.has(_KERNEL):
        return module
    with module.context, ir.Location.unknown(module.context):
        called = ir.Module.create()
        for name, attribute in _attributes(module.operation).items():
            called.operation.attributes[name] = attribute
        with ir.InsertionPoint(called.body):
            copy: Any = body[0].operation.clone()
        whole = _Elementwise.of(copy)
        assert whole is not None
        whole.become_call()
    return called


class _Elementwise:
    """A function that computes each element of its result from those at the same place in its arguments.

    Attributes:
      type: of all arrays that are no scalars.
      operands: of the kernel: arrays, scalars, arrays that repeat a constant, and reciprocals of such.
      steps: what the kernel does: a code, and two operands or results of operations.
      operations: those that compute arrays.
    """

    def __init__(self, block: Any):
        self.block = block
        self.type: Any = None
        self.operands: list[Any] = []
        self.steps: list[tuple[int, Any, Any]] = []
        self.operations: list[Any] = []
        self._scalars: dict[Any, Any] = {}  # what arrays repeat
        self._computed: set[Any] = set()
        self._arrays = [a for a in block.arguments if not _is_scalar(a.type)]

    @classmethod
    def of(cls, function: Any) -> _Elementwise | None:
        """What a function computes, or None if it is no such function, or none for the kernel."""
        (block,) = function.regions[0].blocks
        if "arg_attrs" in function.attributes and any(
            len(a) for a in function.attributes["arg_attrs"]
        ):
            return None  # donated, say
        self = cls(block)
        if not (all(self._takes(a.type) for a in self._arrays) and self._takes_operations()):
            return None
        return self if self._suits_kernel() else None

    def _takes(self, type: Any) -> bool:
        """Whether it is the type of the arrays, which the first one determines."""
        if self.type is None and _is_of_floats(type):
            self.type = type
        return bool(type == self.type)

    def _takes_operations(self) -> bool:
        *operations, end = self.block.operations
        for operation in operations:
            types = [result.type for result in operation.results]
            if len(types) != 1:
                return False
            if not _is_scalar(types[0]) and not (
                self._takes(types[0]) and self._takes_array_of(operation)
            ):
                return False
        return len(end.operands) == 1 and end.operands[0] in self._computed

    def _takes_array_of(self, operation: Any) -> bool:
        name, operands = operation.operation.name, list(operation.operands)
        result = operation.results[0]
        self.operations.append(operation)
        if name == _CONSTANT:
            self._scalars[result] = result
            return bool(ir.DenseElementsAttr(operation.attributes["value"]).is_splat)
        if name == _BROADCAST:
            self._scalars[result] = operands[0]
            return _is_scalar(operands[0].type)
        if name == _SQUARE:
            name, operands = _MULTIPLY, operands * 2
        operands = [self._scalars.get(x, x) for x in operands]
        if name == _DIVIDE and operands[1] in self._scalars.values():
            name, operands[1] = _MULTIPLY, _Reciprocal(operands[1])  # as XLA does
        if name not in _CODES:
            return False
        for x in operands:
            if x not in self._computed and x not in self.operands:
                self.operands.append(x)
        self.steps.append((_CODES[name], operands[0], operands[-1]))
        self._computed.add(result)
        return True

    def _suits_kernel(self) -> bool:
        codes = [code for code, _, _ in self.steps]
        if _CODES[_MULTIPLY] in codes and any(_CODES[name] in codes for name in _SUMS):
            return False  # XLA may round a product and a sum once
        arrays = sum(x in self._arrays for x in self.operands) + 1
        size = 8 if isinstance(self.type.element_type, ir.F64Type) else 4
        return (
            _FEWEST_BYTES < arrays * math.prod(self.type.shape) * size <= _MOST_BYTES
            and len(self.operands) <= _MOST_OPERANDS
            and len(codes) <= _MOST_STEPS
        )

    def become_call(self) -> None:
        """Replaces the operations on arrays by a call of the kernel."""
        *_, end = self.block.operations
        results = [o.results[0] for o in self.operations if o.results[0] in self._computed]
        values = [*self.operands, *results]
        steps = [
            number for code, *xs in self.steps for number in (code, *(values.index(x) for x in xs))
        ]
        with ir.InsertionPoint(end):
            end.operation.operands[0] = custom_call(
                _KERNEL,
                result_types=[self.type],
                operands=[self._emitted(x) for x in self.operands],
                backend_config={"steps": dense_int_array(steps)},
                api_version=4,
            ).results[0]
        for operation in reversed(self.operations):
            operation.operation.erase()

    def _emitted(self, operand: Any) -> Any:
        if isinstance(operand, _Reciprocal):
            number = self._emitted(operand.number)
            return hlo.divide(_repeated(number.type, 1.0), number)
        if operand not in self._scalars:
            return operand
        value = ir.DenseElementsAttr(operand.owner.attributes["value"]).get_splat_value()
        return _repeated(ir.RankedTensorType.get((), self.type.element_type), value)


@dataclasses.dataclass(frozen=True)
class _Reciprocal:
    number: Any  # a scalar, or an array that repeats a constant


def _repeated(type: Any, value: Any) -> Any:
    if isinstance(value, float):
        value = ir.FloatAttr.get(type.element_type, value)
    return hlo.constant(ir.DenseElementsAttr.get_splat(type, value))


def _is_scalar(type: Any) -> bool:
    return isinstance(type, ir.RankedTensorType) and not type.rank


def _is_of_floats(type: Any) -> bool:
    return (
        isinstance(type, ir.RankedTensorType)
        and type.has_static_shape
        and type.encoding is None
        and isinstance(type.element_type, (ir.F32Type, ir.F64Type))
    )


def _attributes(operation: Any) -> dict[str, Any]:
    attributes = operation.attributes
    named = [attributes[i] for i in range(len(attributes))]
    return {a.name: a.attr for a in named}
