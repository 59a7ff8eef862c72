"""Walks the functions of a StableHLO module and applies the rule of each operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src.export.onnx import (
    bits,
    contractions,
    control_flow,
    convolutions,
    elementwise,
    indexing,
    reductions,
    shapes,
    sorting,
    windows,
)
from jax._src.export.onnx.attributes import (
    element_dtype,
    elements,
    location_name,
    shape_of,
    source,
)
from jax._src.export.onnx.graph import Graph, Unsupported, Value, known
from jax._src.lib.mlir import ir

Rule = Callable[..., Any]

# The rules by the names of operations: `rule(converter, op, *operands)` returns the results.
RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **bits.RULES,
    **shapes.RULES,
    **contractions.RULES,
    **convolutions.RULES,
    **reductions.RULES,
    **windows.RULES,
    **indexing.RULES,
    **sorting.RULES,
    **control_flow.RULES,
}
# Rules of functions that are known by their names, as a composite or a function of the module; they
# return NotImplemented if what the function is made of is better.
NAMED: dict[str, Rule] = {**elementwise.NAMED, **sorting.NAMED}
_COPY = re.compile(r"_\d+$")  # what is added to names that are taken

# A constant of Threefry-2x32, the generator of `jax.random`, which is written out in integer operations.
_THREEFRY_PARITY = 0x1BD11BDA


class _Random(Unsupported):
    """An operation that draws random numbers."""

    def __init__(self) -> None:
        super().__init__(
            "random numbers are not converted: draw them outside and pass them as an argument, or leave "
            "them out (dropout) of what is served"
        )


_IDENTITY = {"annotate_device_placement", "Sharding", "mhlo.sharding", "LayoutConstraint"}


class Converter:
    """Converts the operations of a module into nodes of a graph.

    Attributes:
      graph: the graph.
      skipped: results of operations that a rule converts in another way.
      unsupported: what could not be converted, with its source line, in order of appearance.
    """

    def __init__(self, module: Any, graph: Graph):
        self.graph = graph
        self.functions = {
            ir.StringAttr(f.attributes["sym_name"]).value: f.operation
            for f in module.body.operations
            if f.operation.name == "func.func"
        }
        self.environment: dict[Any, Value | None] = {}
        self.unsupported: list[str] = []
        self.skipped: set[Any] = set()
        self._location = ""  # of the operation, or of the call around it if it has none

    def call(self, name: str, operands: Sequence[Value | None]) -> list[Value | None]:
        """Converts the body of a function, for given arguments."""
        return self.block(self.functions[name].regions[0].blocks[0], operands)

    def block(self, block: Any, operands: Sequence[Value | None]) -> list[Value | None]:
        """Converts the operations of a block; returns what it returns."""
        self.environment.update(zip(block.arguments, operands, strict=True))
        for op in block.operations:
            op = op.operation
            if op.name in ("func.return", "stablehlo.return", "sdy.return"):
                return [self.environment.get(v) for v in op.operands]
            if not (len(op.results) == 1 and op.results[0] in self.skipped):
                self.operation(op)
        return []

    def elementwise_block(self, block: Any, operands: Sequence[Value]) -> list[Value]:
        """Converts the function of numbers of a reduction, for arrays of one shape."""
        failed = len(self.unsupported)
        results = self.block(block, operands)
        if len(self.unsupported) > failed:
            raise Unsupported("its body cannot be converted")
        return results

    def operation(self, op: Any) -> None:
        operands = [self.environment[v] for v in op.operands]
        failed = len(self.unsupported)
        outer, scope = self._location, self.graph.scope
        location = str(op.location)
        if location_name(location):
            self._location, self.graph.scope = location, f"{location_name(location)}/"
        try:
            results = self.apply(op, operands)
        except Unsupported as error:
            results = None
            if failed == len(self.unsupported):  # else the reasons are those of the body
                what = "jax.random" if isinstance(error, _Random) else None
                self.unsupported.append(f"{source(op, self._line(op), what)}: {error}")
        except Exception:
            if not self.unsupported:
                raise
            results = None  # a consequence of a stand-in
        self._location, self.graph.scope = outer, scope
        if results is None:
            results = [_unknown(v.type) for v in op.results]
        elif isinstance(results, Value):
            results = [results]
        for value, result in zip(op.results, results, strict=True):
            self.environment[value] = result

    def _line(self, op: Any) -> str:
        """The location of an operation; of a constant, which has none, that of what uses it."""
        if op.name != "stablehlo.constant":
            return self._location
        found = (str(use.owner.location) for use in op.results[0].uses)
        return next((location for location in found if location_name(location)), self._location)

    def apply(self, op: Any, operands: Sequence[Value | None]) -> Any:
        name = op.name
        if name in ("func.call", "stablehlo.composite"):
            return self._call(op, operands)
        for value in (*op.operands, *op.results):
            if isinstance(value.type, ir.RankedTensorType):
                element_dtype(ir.RankedTensorType(value.type))
        if name == "stablehlo.constant":
            return self.graph.constant(elements(op.attributes["value"]))
        if name == "stablehlo.custom_call":
            return self._custom_call(op, operands)
        if name in ("sdy.sharding_constraint", "stablehlo.optimization_barrier"):
            return operands
        if name in ("stablehlo.create_token", "stablehlo.after_all"):
            return [None]
        if name in ("stablehlo.rng_bit_generator", "stablehlo.rng"):
            raise _Random
        if name == "stablehlo.xor" and any(map(_is_parity, operands)):
            raise _Random
        rule = RULES.get(name)
        if rule is None:
            raise Unsupported("there is no rule for this operation")
        return rule(self, op, *operands)

    def _call(self, op: Any, operands: Sequence[Value | None]) -> Any:
        if op.name == "func.call":
            function = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            name = _COPY.sub("", function)
        else:
            function = ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value
            name = ir.StringAttr(op.attributes["name"]).value
        rule = NAMED.get(name)
        if rule is not None:
            results = rule(self, op, *operands)
            if results is not NotImplemented:
                return results
        return self.call(function, operands)

    def _custom_call(self, op: Any, operands: Sequence[Value | None]) -> Any:
        target = ir.StringAttr(op.attributes["call_target_name"]).value
        if target == "shape_assertion":
            return []  # ONNX has none; the declared shapes of the inputs say what is expected
        if target in _IDENTITY:
            return operands
        rule = RULES.get(target)
        if rule is not None:
            return rule(self, op, *operands)
        if "threefry" in target:
            raise _Random
        raise Unsupported(f"it calls the native function '{target}'")


def _is_parity(value: Value | None) -> bool:
    if value is None or value.constant is None or value.dtype != np.uint32:
        return False
    return bool((value.constant == _THREEFRY_PARITY).any())


def _unknown(mlir_type: Any) -> Value | None:
    """A stand-in for the result of an operation that was not converted, to go on to the others."""
    if not isinstance(mlir_type, ir.RankedTensorType):
        return None
    kind = ir.RankedTensorType(mlir_type)
    try:
        dtype = element_dtype(kind)
    except Unsupported:
        dtype = np.dtype(np.float32)
    return known("", dtype, shape_of(kind))
