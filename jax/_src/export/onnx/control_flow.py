"""Rules of loops and branches: ONNX's Loop and If."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.export.onnx.attributes import element_dtype, shape_of
from jax._src.export.onnx.graph import BOOL, INT64, Graph, Value, known
from jax._src.lib.mlir import ir


def _info(g: Graph, value: Value) -> Any:
    return g.onnx.helper.make_tensor_value_info(
        value.name, g.onnx_type(value.dtype), [None] * value.ndim
    )


def _outputs(g: Graph, values: Sequence[Value]) -> list[Any]:
    """The outputs of a body: names of nodes of the body itself, each once."""
    infos = []
    for value in values:
        name = g.fresh("out")
        g.nodes.append(
            g.onnx.helper.make_node("Identity", [g.whole(value).name], [name], name=name)
        )
        infos.append(_info(g, known(name, value.dtype, value.shape)))
    return infos


def _while(c: Any, op: Any, *operands: Value | None) -> list[Value | None]:
    g = c.graph
    condition, body = (r.blocks[0] for r in op.regions)
    arrays = [i for i, v in enumerate(operands) if v is not None]  # the others are tokens
    shapes = [shape_of(ir.RankedTensorType(op.results[i].type)) for i in arrays]
    initial = [g.whole(operands[i]) for i in arrays]
    (first,) = c.block(condition, operands)
    helper = g.onnx.helper
    step, going = g.fresh("step"), g.fresh("going")
    carried = [known(g.fresh("carried"), v.dtype, s) for v, s in zip(initial, shapes)]
    with g.subgraph() as nodes:
        inner: list[Value | None] = [None] * len(operands)
        for i, value in zip(arrays, carried):
            inner[i] = value
        results = c.block(body, inner)
        (again,) = c.block(condition, results)
        outputs = _outputs(g, [again, *[results[i] for i in arrays]])
        inputs = [_info(g, known(step, INT64, ())), _info(g, known(going, BOOL, ()))]
        graph = helper.make_graph(
            nodes, g.fresh("body"), [*inputs, *[_info(g, v) for v in carried]], outputs
        )
    names = g.node(
        "Loop", ["", g.whole(first).name, *[v.name for v in initial]], len(arrays), body=graph
    )
    names = [names] if len(arrays) == 1 else names
    found: list[Value | None] = [None] * len(operands)
    for i, name, value, shape in zip(arrays, names, initial, shapes):
        found[i] = known(name, value.dtype, shape)
    return found


def _case(c: Any, op: Any, index: Value) -> Any:
    """Nested Ifs; an index out of range takes the last branch."""
    branches = [r.blocks[0] for r in op.regions]
    return _branches(c, op, index, branches, 0)


def _branches(c: Any, op: Any, index: Value, branches: Sequence[Any], number: int) -> Any:
    if number == len(branches) - 1:
        return c.block(branches[number], [])
    g = c.graph
    which = g.constant(np.array(number, index.dtype))
    condition = g.map("Equal", index, which, dtype=bool)
    return _if(
        c, op, condition, lambda: c.block(branches[number], []),
        lambda: _branches(c, op, index, branches, number + 1),
    )  # fmt: skip


def _if(c: Any, op: Any, condition: Value, on_true: Any, on_false: Any) -> list[Value | None]:
    g = c.graph
    graphs, kept = [], []
    for convert in (on_true, on_false):
        with g.subgraph() as nodes:
            values = convert()
            kept = [i for i, v in enumerate(values) if v is not None]
            outputs = _outputs(g, [values[i] for i in kept])
            graphs.append(g.onnx.helper.make_graph(nodes, g.fresh("branch"), [], outputs))
    results: list[Value | None] = [None] * len(op.results)
    if not kept:
        return results
    names = g.node(
        "If", [g.whole(condition).name], len(kept), then_branch=graphs[0], else_branch=graphs[1]
    )
    for i, name in zip(kept, [names] if len(kept) == 1 else names):
        kind = ir.RankedTensorType(op.results[i].type)
        results[i] = known(name, element_dtype(kind), shape_of(kind))
    return results


def _stablehlo_if(c: Any, op: Any, condition: Value) -> Any:
    on_true, on_false = (r.blocks[0] for r in op.regions)
    return _if(c, op, condition, lambda: c.block(on_true, []), lambda: c.block(on_false, []))


RULES = {
    "stablehlo.case": _case,
    "stablehlo.if": _stablehlo_if,
    "stablehlo.while": _while,
}
