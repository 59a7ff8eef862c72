"""The placements that the compiler chooses where a program leaves them open: what Shardy propagates from the arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from jax._src import config, source_info_util
from jax._src.array_impl import ArrayImpl
from jax._src.core import ClosedJaxpr, Jaxpr
from jax._src.core.jaxpr import JaxprEqn
from jax._src.jit.primitive import call_params, lower
from jax._src.lib.mlir import passmanager

_MARK = "jaxpr_view:"
_MARKED = re.compile(re.escape(_MARK) + r"([\d.]+)")
_SHARDING = re.compile(r"<@[^,<]*, \[([^\]]*)\]")
_DIMENSION = re.compile(r"\{([^}]*)\}")

# Of the equation with a path (as those of residuals): for each result the axes of each of its dimensions.
Chosen = dict[tuple[int, ...], list[tuple[str, ...]]]


def chosen_placements(closed: ClosedJaxpr, arguments: Sequence[Any]) -> Chosen:
    """The placements that propagation gives to the results of equations.

    Args:
      closed: the jaxpr.
      arguments: values of its arguments; where none is split over devices, there is nothing to propagate.
    """
    split = any(isinstance(x, ArrayImpl) and len(x.sharding.device_set) > 1 for x in arguments)
    if not split or not config.use_shardy_partitioner.value:
        return {}
    marked = ClosedJaxpr(_marked(closed.jaxpr, ()), closed.consts)
    try:
        module = lower(call_params(marked, "view"), list(arguments)).stablehlo()
        program = module.operation.clone()
        with program.context:
            pipeline = passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)")
            pipeline.run(program)
    except Exception:  # programs that cannot be lowered for these devices have no placements
        return {}
    found: Chosen = {}
    for operation in _operations(program):
        mark = _MARKED.search(str(operation.location))
        if mark is not None and "sdy.sharding" in operation.attributes:
            # of the operations of one equation the last one makes its result
            path = tuple(map(int, mark[1].strip(".").split(".")))
            found[path] = placements_in(str(operation.attributes["sdy.sharding"]))
    return found


def placements_in(attribute: str) -> list[tuple[str, ...]]:
    """The axes of the dimensions of each value, in the text of a Shardy attribute.

    >>> from jax._src.jaxpr_view.propagation import placements_in
    >>> placements_in('#sdy.sharding_per_value<[<@mesh, [{"a", "b"}, {}]>, <@mesh, [{?}]>]>')
    [('a+b', ''), ('',)]
    """
    return [
        tuple("+".join(re.findall(r'"([^"]*)"', part)) for part in _DIMENSION.findall(dimensions))
        for dimensions in _SHARDING.findall(attribute)
    ]


def placements_of_results(eqn: JaxprEqn, found: list[tuple[str, ...]]) -> list[str]:
    """Texts for the results of an equation, the last ones of its operation; empty where they do not fit."""
    n = len(eqn.outvars)
    if len(found) < n:
        return [""] * n
    texts = []
    for v, parts in zip(eqn.outvars, found[len(found) - n :]):
        names = ", ".join(part or "None" for part in parts)
        fits = len(parts) == getattr(v.aval, "ndim", -1)
        texts.append("" if not fits else f"P({names})" if any(parts) else "replicated")
    return texts


def _marked(jaxpr: Jaxpr, path: tuple[int, ...]) -> Jaxpr:
    """The jaxpr, with the path of each equation as its name; also in jitted functions, which have no other place."""
    eqns = []
    for i, eqn in enumerate(jaxpr.eqns):
        here = (*path, i)
        stack = source_info_util.new_name_stack(_MARK + ".".join(map(str, here)))
        eqn = eqn.replace(source_info=eqn.source_info.replace(name_stack=stack))
        if eqn.primitive.name == "jit":
            inner = eqn.params["jaxpr"]
            marked = ClosedJaxpr(_marked(inner.jaxpr, here), inner.consts)
            eqn = eqn.replace(params=dict(eqn.params, jaxpr=marked))
        eqns.append(eqn)
    return jaxpr.replace(eqns=eqns)


def _operations(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region:
            for inner in block:
                yield from _operations(inner.operation)
                yield inner.operation
