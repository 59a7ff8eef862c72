"""Source maps of MLIR's text, by the locations at its end."""

from __future__ import annotations

import re
from typing import NamedTuple

from jax._src.source_mapper.passes import Place, source_map_of
from jax._src.sourcemap import SourceMap

# The forms of locations: `#loc2 = loc("file.py":4:8 to :18)`, `loc(callsite(#loc5 at #loc6))`,
# `loc("jit(f)/sin"(#loc8))`; and where an operation refers to one, `loc(#loc10)`.
SRC_REGEX = re.compile(r'#loc(?P<id>\d*) = loc\("(?P<file>[^"]+)":(?P<line>\d+):(?P<col>\d+)')
CALLSITE_REGEX = re.compile(r"#loc(?P<id>\d*) = loc\(callsite\(#loc(?P<callee>\d*) at ")
SCOPED_REGEX = re.compile(r'#loc(?P<id>\d*) = loc\("(?:[^"\\]|\\.)*"\(#loc(?P<tgt_id>\d*)\)\)')
LOC_REGEX = re.compile(r"loc\(#loc(?P<id>\d*)\)")


class Location(NamedTuple):
    """A place of the source; lines are counted from 1, columns from 0."""

    file: str
    line: int
    col: int


class Redirect(NamedTuple):
    """A location that stands for another one."""

    tgt_id: str


def parse_mlir_locations(mlir_dump: str) -> dict[str, Location | Redirect]:
    """Returns the locations that a text defines, by the numbers that follow `#loc`.

    A call is at the place of what is called: its innermost one.
    """
    found: dict[str, Location | Redirect] = {}
    for line in mlir_dump.splitlines():
        if match := SRC_REGEX.match(line):
            found[match["id"]] = Location(match["file"], int(match["line"]), int(match["col"]))
        elif match := CALLSITE_REGEX.match(line):
            found[match["id"]] = Redirect(match["callee"])
        elif match := SCOPED_REGEX.match(line):
            found[match["id"]] = Redirect(match["tgt_id"])
    return found


def create_mlir_sourcemap(mlir_dump: str) -> SourceMap:
    """Returns the source map of a text: each line with an operation comes from the operation's place."""
    locations = parse_mlir_locations(mlir_dump)
    lines: list[list[tuple[int, Place]]] = []
    for line in mlir_dump.splitlines():
        references = [] if line.startswith("#loc") else LOC_REGEX.findall(line)
        place = _resolved(locations, references[-1]) if references else None
        column = len(line) - len(line.lstrip())
        lines.append([] if place is None else [(column, tuple(place))])
    return source_map_of(lines)


def _resolved(locations: dict[str, Location | Redirect], number: str) -> Location | None:
    for _ in range(len(locations) + 1):  # a damaged text may have a cycle
        location = locations.get(number)
        if not isinstance(location, Redirect):
            return location
        number = location.tgt_id
    return None
