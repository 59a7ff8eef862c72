"""What programs hold: constants that were captured, values that are kept for the backward pass, memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from jax._src import source_info_util
from jax._src.core import ClosedJaxpr, Jaxpr, Var, typeof
from jax._src.core.jaxpr import JaxprEqn, Literal, jaxprs_in_params
from jax._src.jaxpr_view.costs import nbytes
from jax._src.source_mapper.hlo import places_of_instructions


@dataclasses.dataclass(frozen=True)
class Held:
    """A value that a program holds.

    Attributes:
      function: the function's name.
      type: the value's type.
      nbytes: its size.
      what: the primitive that computes it; of a constant, the one that reads it.
      line: the user's line of that.
    """

    function: str
    type: str
    nbytes: int
    what: str
    line: str


@dataclasses.dataclass(frozen=True)
class ProgramMemory:
    """The memory of a compiled program in bytes, as the compiler plans it."""

    function: str
    arguments: int
    results: int
    temporary: int
    code: int

    @property
    def total(self) -> int:
        return self.arguments + self.results + self.temporary + self.code


def program_memory(function: str, executable: Any) -> ProgramMemory | None:
    """None if the platform does not tell."""
    try:
        stats = executable.get_compiled_memory_stats()
    except Exception:  # plugins that do not have it raise errors of several classes
        return None
    return ProgramMemory(
        function,
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
        stats.temp_size_in_bytes,
        stats.generated_code_size_in_bytes,
    )


def places_of_operations(executable: Any) -> dict[tuple[str, str], tuple[str, str]]:
    """Of the operations of a program, by the names of module and operation: the user's name of it, and the line."""
    found = {}
    try:
        modules = executable.hlo_modules()
    except Exception:  # plugins that do not have it raise errors of several classes
        return {}
    for module in modules:
        for name, (user_name, place) in places_of_instructions(module.to_string()).items():
            line = f"{place[0]}:{place[1]}" if place is not None else ""
            found[module.name, name] = user_name, line
    return found


def captured_constants(function: str, closed: ClosedJaxpr) -> list[Held]:
    """The arrays that are part of a program since the function captured them, also those of inner functions."""
    found = []
    for inner in _closed_jaxprs(closed):
        readers: dict[Var, JaxprEqn] = {}
        for eqn in inner.jaxpr.eqns:
            for v in eqn.invars:
                if type(v) is not Literal:
                    readers.setdefault(v, eqn)
        for v, value in zip(inner.jaxpr.constvars, inner.consts):
            reader = readers.get(v)
            what = reader.primitive.name if reader else "result"
            line = source_info_util.summarize(reader.source_info) if reader else ""
            size = getattr(value, "nbytes", 0)
            found.append(Held(function, _text(typeof(value)), size, what, line))
    return found


def _closed_jaxprs(closed: ClosedJaxpr) -> Iterator[ClosedJaxpr]:
    yield closed
    for eqn in closed.eqns:
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(inner, ClosedJaxpr):
                    yield from _closed_jaxprs(inner)


def kept_for_backward(function: str, jaxpr: Jaxpr) -> list[Held]:
    """Values that the forward pass computes and the backward pass reads: residuals.

    The equations of a backward pass are known by their names: `transpose(...)`. Arguments are left out, as they are in
    memory anyway.
    """
    found = []
    makers: dict[Var, JaxprEqn] = {}
    seen: set[Var] = set()
    for eqn in jaxpr.eqns:
        if not _is_backward(eqn):
            makers.update(dict.fromkeys(eqn.outvars, eqn))
            for inner in jaxprs_in_params(eqn.params):
                found += kept_for_backward(function, inner)
            continue
        for v in eqn.invars:
            if type(v) is Literal or v in seen or (maker := makers.get(v)) is None:
                continue
            seen.add(v)
            line = source_info_util.summarize(maker.source_info)
            found.append(
                Held(function, _text(v.aval), nbytes([v.aval]), maker.primitive.name, line)
            )
    return found


def _is_backward(eqn: JaxprEqn) -> bool:
    return "transpose(" in str(eqn.source_info.name_stack)


def _text(aval: Any) -> str:
    text: str = aval.str_short(short_dtypes=True)
    return text
