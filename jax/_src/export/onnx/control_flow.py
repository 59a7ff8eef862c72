"""Rules of loops and branches: ONNX's Loop and If."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.export.onnx.attributes import element_dtype, elements, enum, owner, shape_of
from jax._src.export.onnx.graph import Value, known
from jax._src.export.onnx.shapes import reverse
from jax._src.lib.mlir import ir


def _while(c: Any, op: Any, *operands: Value | None) -> list[Value | None]:
    """A Loop. Arrays whose rows are written one in each iteration, as by scans, are joined at its end."""
    g = c.graph
    condition, body = (r.blocks[0] for r in op.regions)
    (first,) = c.block(condition, operands)
    rows = _written_rows(c, condition, body, operands)
    arrays = [
        i for i, v in enumerate(operands) if v is not None and i not in rows
    ]  # others: tokens
    shapes = [shape_of(ir.RankedTensorType(v.type)) for v in op.results]
    initial = [g.whole(operands[i]) for i in arrays]

    def iteration(carried: list[Value]) -> tuple[Value, list[Value], list[Value]]:
        inner: list[Value | None] = [None] * len(operands)
        for i, value in zip(arrays, carried):
            inner[i] = value
        c.skipped.update(row.result for row in rows.values())
        results = c.block(body, inner)
        written = [g.squeeze(g.whole(c.environment[r.update]), [0]) for r in rows.values()]
        (again,) = c.block(condition, results)
        return again, [results[i] for i in arrays], written

    names = g.loop(first, initial, [shapes[i] for i in arrays], iteration)
    found: list[Value | None] = [None] * len(operands)
    for i, name in zip([*arrays, *rows], names):
        found[i] = known(name, operands[i].dtype, shapes[i])
        if i in rows and rows[i].reverse:
            found[i] = reverse(g, found[i], [0])
    return found


@dataclasses.dataclass
class _Row:
    """A carried array that gets one row in each iteration: the row, what has it, and the order."""

    update: Any
    result: Any
    reverse: bool


def _written_rows(
    c: Any, condition: Any, body: Any, operands: Sequence[Value | None]
) -> dict[int, _Row]:
    """The carried arrays of which a loop that counts from 0 writes all rows, and reads none."""
    counter, count = _counter(c, condition, body, operands)
    if counter is None:
        return {}
    *_, last = [op.operation for op in body.operations]
    position = body.arguments[counter]
    rows = {}
    for i, array in enumerate(body.arguments):
        result = last.operands[i]
        update = owner(result)
        if getattr(update, "name", "") != "stablehlo.dynamic_update_slice" or i == counter:
            continue
        only = update.operands[0] == array and len(list(array.uses)) == 1
        if not only or len(list(result.uses)) != 1 or list(condition.arguments[i].uses):
            continue
        shape, row = (shape_of(ir.RankedTensorType(v.type)) for v in update.operands[:2])
        if None in shape or shape[0] != count or row != (1, *shape[1:]):
            continue
        start, *rest = update.operands[2:]
        if any(_number(c, v) != 0 for v in rest):
            continue
        if start == position:
            rows[i] = _Row(update.operands[1], result, False)
        elif _is_op(start, "stablehlo.subtract", count - 1, position, c):
            rows[i] = _Row(update.operands[1], result, True)
    return rows


def _counter(
    c: Any, condition: Any, body: Any, operands: Sequence[Value | None]
) -> tuple[int | None, int]:
    """Which carried value counts the iterations from 0 on, and how many there are."""
    *_, last = [op.operation for op in condition.operations]
    test = owner(last.operands[0])
    if (
        getattr(test, "name", "") != "stablehlo.compare"
        or enum(test, "comparison_direction") != "LT"
    ):
        return None, 0
    count = _number(c, test.operands[1])
    *_, end = [op.operation for op in body.operations]
    for i, argument in enumerate(condition.arguments):
        if count is None or test.operands[0] != argument or operands[i] is None:
            continue
        initial, following = operands[i].constant, end.operands[i]
        if initial is None or initial.reshape(-1)[0] != 0:
            continue
        if _is_op(following, "stablehlo.add", body.arguments[i], 1, c):
            return i, count
    return None, 0


def _is_op(value: Any, name: str, a: Any, b: Any, c: Any) -> bool:
    """Whether a value is a binary operation on these two operands; numbers stand for constants."""
    op = owner(value)
    if getattr(op, "name", "") != name:
        return False
    return all(
        _number(c, v) == w if isinstance(w, int) else v == w for v, w in zip(op.operands, (a, b))
    )


def _number(c: Any, value: Any) -> int | None:
    """A scalar, if it is known."""
    found = c.environment.get(value)
    if found is not None and found.constant is not None:
        return int(found.constant.reshape(-1)[0]) if found.constant.size == 1 else None
    op = owner(value)
    if getattr(op, "name", "") == "stablehlo.constant":
        return int(elements(op.attributes["value"]).reshape(-1)[0])
    return None


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
            outputs = g.outputs([values[i] for i in kept])
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
