"""Operations of the library on arrays of some thousand elements, which the CPU client runs where they are called.

The client runs a program in the thread that calls it if XLA counts fewer than a thousand operations, and hands others
to another thread. That takes as long as an addition of ten thousand numbers. XLA counts a loop as one of its
steps, so these programs become loops, whose steps compute less than that of the result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src import compiler, config
from jax._src.interpreters.mlir.constants import dense_int_array, ir_constant
from jax._src.interpreters.mlir.ops import emit
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func as func_dialect, hlo

# From how many operations on does the client use another thread; and how many a loop needs by itself.
_MANY_OPERATIONS, _OF_A_LOOP = 1000, 60
_MOST_ELEMENTS = 4096  # more take as long as it takes to wake a thread
_VECTOR = 16  # elements; steps are multiples of it, which leaves no rest to loops without vectors

# Operations whose results do not depend on where in an array the elements are: each is computed exactly, then
# rounded once.
_ELEMENTWISE = frozenset(
    "stablehlo." + name
    for name in (
        "abs add and ceil clamp compare convert divide floor is_finite maximum minimum multiply negate not or"
        " round_nearest_afz round_nearest_even select sign sqrt subtract xor"
    ).split()
) | {"chlo.square"}
# Numbers of other types are computed as those of float32 or in parts, which are more operations.
_TYPES = frozenset("i1 i8 i16 i32 i64 ui8 ui16 ui32 ui64 f32 f64".split())
_NOT_COUNTED = "stablehlo.sqrt"  # by XLA
_BROADCAST, _CONSTANT = "stablehlo.broadcast_in_dim", "stablehlo.constant"


def are_wanted(info: Any, placement: Any) -> bool:
    """Whether an operation of these layouts and devices is to run where it is called."""
    return (
        config.cpu_compile_profile.value != "original"
        and config.cpu_enable_async_dispatch.value
        and not config.disable_most_optimizations.value
        and placement.num_devices == 1
        and placement.backend.platform == "cpu"
        and not compiler.is_compile_only(placement.backend)
        and not any(info.in_layouts)
        and not any(info.out_layouts)
    )


def as_loop(module: Any) -> Any:
    """Returns a module that computes the same in a loop, or the module itself if it is not one of these."""
    body = module.body.operations
    if len(body) != 1 or not isinstance(body[0], func_dialect.FuncOp):
        return module
    found = _Elementwise.of(body[0])
    if found is None:
        return module
    with module.context, ir.Location.unknown(module.context):
        looped = ir.Module.create()
        for name, attribute in _attributes(module.operation).items():
            looped.operation.attributes[name] = attribute
        with ir.InsertionPoint(looped.body):
            copy: Any = body[0].operation.clone()
        whole = _Elementwise.of(copy)
        assert whole is not None
        whole.become_loop()
    return looped


class _Elementwise:
    """A function that computes each element of its results from those at the same place in its arguments.

    Attributes:
      shape: of all arrays that are no scalars.
      repeated: the operations that make such arrays of scalars.
      operations: those that compute arrays.
    """

    def __init__(self, block: Any):
        self.block = block
        self.shape: tuple[int, ...] | None = None
        self.repeated: list[Any] = []
        self.operations: list[Any] = []

    @classmethod
    def of(cls, function: Any) -> _Elementwise | None:
        """What a function computes, or None if it is no such function, or not one to run as a loop."""
        (block,) = function.regions[0].blocks
        if "arg_attrs" in function.attributes and any(
            len(a) for a in function.attributes["arg_attrs"]
        ):
            return None  # donated, say
        self = cls(block)
        if not (all(self._takes(a.type) for a in block.arguments) and self._takes_operations()):
            return None
        count = self.counted * self.size
        is_one = count >= _MANY_OPERATIONS and self.size <= _MOST_ELEMENTS and self.step > 0
        return self if is_one else None

    @property
    def counted(self) -> int:
        return sum(op.operation.name != _NOT_COUNTED for op in self.operations)

    @property
    def size(self) -> int:
        return math.prod(self.shape or ())

    @property
    def step(self) -> int:
        """How many elements a step of the loop computes."""
        most = (_MANY_OPERATIONS - _OF_A_LOOP) // self.counted // _VECTOR * _VECTOR
        if most <= 0:
            return 0
        steps = -(-self.size // most)
        return -(-self.size // steps // _VECTOR) * _VECTOR

    def _takes(self, type: Any) -> bool:
        """Whether it is the type of a scalar, or of an array of the one shape."""
        if not isinstance(type, ir.RankedTensorType) or not type.has_static_shape:
            return False
        if type.encoding is not None or str(type.element_type) not in _TYPES:
            return False
        if type.rank and self.shape is None:
            self.shape = tuple(type.shape)
        return not type.rank or tuple(type.shape) == self.shape

    def _takes_operations(self) -> bool:
        *operations, end = self.block.operations
        computed = set()
        for operation in operations:
            name, operands = operation.operation.name, operation.operands
            types = [result.type for result in operation.results]
            if len(types) != 1 or not self._takes(types[0]):
                return False
            if name == _CONSTANT:
                if types[0].rank:
                    if not ir.DenseElementsAttr(operation.attributes["value"]).is_splat:
                        return False
                    self.repeated.append(operation)
            elif name == _BROADCAST and types[0].rank:
                if operands[0].type.rank:
                    return False
                self.repeated.append(operation)
            elif name not in _ELEMENTWISE:
                return False
            elif types[0].rank:
                self.operations.append(operation)
                computed.add(operation.results[0])
        return bool(self.operations) and all(value in computed for value in end.operands)

    def become_loop(self) -> None:
        """Replaces the operations on arrays by a loop."""
        *_, end = self.block.operations
        with ir.InsertionPoint(end):
            results = self._loop(list(end.operands))
            for i, result in enumerate(results):
                end.operation.operands[i] = result
        for operation in reversed([*self.repeated, *self.operations]):
            operation.operation.erase()

    def _loop(self, ends: list[Any]) -> list[Any]:
        arguments = [a for a in self.block.arguments if a.type.rank]
        arrays = [_reshaped(a, (self.size,)) for a in arguments]
        scalars = self._scalars()
        blank = [self._blank(v.type.element_type) for v in ends]
        first = [ir_constant(np.int32(0)), *arrays, *scalars, *blank]
        types = [v.type for v in first]
        loop = hlo.WhileOp(types, first)
        condition = loop.regions[0].blocks.append(*types)
        with ir.InsertionPoint(condition):
            end = ir_constant(np.int32(self.size))
            before = hlo.ComparisonDirectionAttr.get("LT")
            hlo.return_([hlo.compare(condition.arguments[0], end, before)])
        step = loop.regions[1].blocks.append(*types)
        with ir.InsertionPoint(step):
            place, *carried = step.arguments
            kept, outs = carried[: -len(ends)], carried[-len(ends) :]
            # The last slice begins earlier, if the end is near: its first elements are computed twice.
            sizes = dense_int_array([self.step])
            inside = {a: hlo.dynamic_slice(x, [place], sizes) for a, x in zip(arguments, kept)}
            inside.update(zip(scalars, kept[len(arrays) :]))
            for operation in self.block.operations:
                if operation in self.repeated or operation in self.operations:
                    with operation.location:
                        inside[operation.results[0]] = self._of_a_step(operation, inside)
            outs = [hlo.dynamic_update_slice(x, inside[v], [place]) for x, v in zip(outs, ends)]
            hlo.return_([hlo.add(place, ir_constant(np.int32(self.step))), *kept, *outs])
        return [_reshaped(v, self.shape or ()) for v in list(loop.results)[-len(ends) :]]

    def _scalars(self) -> list[Any]:
        """The scalars that operations on arrays use."""
        used = [
            v for op in (*self.repeated, *self.operations) for v in op.operands if not v.type.rank
        ]
        return list(dict.fromkeys(used))

    def _of_a_step(self, operation: Any, inside: dict[Any, Any]) -> Any:
        """The operation on the elements of a step, by the values that are known in it."""
        name, old = operation.operation.name, operation.results[0].type
        type = ir.RankedTensorType.get((self.step,), old.element_type)
        attributes = _attributes(operation)
        if name == _CONSTANT:
            value = ir.DenseElementsAttr(attributes["value"]).get_splat_value()
            attributes = {"value": ir.DenseElementsAttr.get_splat(type, value)}
        operands = [inside.get(v, v) for v in operation.operands]
        return emit(name, operands, type, attributes)

    def _blank(self, element_type: Any) -> Any:
        """An array for a result, of zeros."""
        type = ir.RankedTensorType.get((self.size,), element_type)
        return hlo.constant(ir.DenseElementsAttr.get_splat(type, _zero(element_type)))


def _attributes(operation: Any) -> dict[str, Any]:
    attributes = operation.attributes
    named = [attributes[i] for i in range(len(attributes))]
    return {a.name: a.attr for a in named}


def _zero(element_type: Any) -> Any:
    if isinstance(element_type, ir.IntegerType):
        return ir.IntegerAttr.get(element_type, 0)
    return ir.FloatAttr.get(element_type, 0.0)


def _reshaped(value: Any, shape: tuple[int, ...]) -> Any:
    type = ir.RankedTensorType.get(shape, value.type.element_type)
    return value if value.type == type else hlo.reshape(type, value)
