"""The passes that map StableHLO, and XLA's programs before and after optimization."""

from __future__ import annotations

import enum
import re
from typing import Any

from jax._src import api, lib
from jax._src.source_mapper.mlir_locations import create_mlir_sourcemap
from jax._src.source_mapper.passes import (
    Pass,
    Place,
    SourceMapDump,
    source_map_of,
)
from jax._src.sourcemap import SourceMap


class HloPass(enum.Enum):
    """The stages that are mapped, by the names of their passes."""

    STABLE_HLO = "hlo:stable-hlo"
    ORIGINAL = "hlo:original"
    OPTIMIZED = "hlo:optimized"


# Where an instruction comes from: a frame of the tables at the start of the text, or, by other
# versions of the compiler, the place itself.
METADATA_REGEX = re.compile(
    r'metadata=\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*?'
    r'(?:stack_frame_id=(?P<frame>\d+)|source_file="(?P<file>[^"]*)" source_line=(?P<line>\d+))'
)
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_FIELD = re.compile(r"(\w+)=(\d+)")


def trace_and_lower(work_dir: Any, f: Any, f_args: Any, f_kwargs: Any, **_: Any) -> Any:
    """Lowers a function."""
    return api.jit(lambda *args, **kwargs: f(*args, **kwargs)).lower(*f_args, **f_kwargs)


def stable_hlo_generate_dump(args: Any, **_: Any) -> SourceMapDump:
    """Makes a dump of the StableHLO of what `trace_and_lower` returned."""
    text = args.as_text("stablehlo", debug_info=True)
    return SourceMapDump(create_mlir_sourcemap(text), text, HloPass.STABLE_HLO.value)


def original_hlo_generate_dump(args: Any, **_: Any) -> SourceMapDump:
    """Makes a dump of XLA's program before optimization."""
    module = args.compiler_ir("hlo").get_hlo_module()
    text = module.to_string(lib.hlo.HloPrintOptions())
    return SourceMapDump(parse_hlo_dump(text), text, HloPass.ORIGINAL.value)


def optimized_generate_dump(
    args: Any, xla_compiler_flags: dict[str, Any] | None = None, **_: Any
) -> SourceMapDump:
    """Compiles with options of the compiler, and makes a dump of XLA's program after optimization."""
    text = args.compile(xla_compiler_flags).as_text()
    return SourceMapDump(parse_hlo_dump(text), text, HloPass.OPTIMIZED.value)


def parse_hlo_dump(text: str) -> SourceMap:
    """Returns the source map of an HLO module's text: each instruction comes from its innermost frame."""
    lines = text.splitlines()
    frames = _frames(lines)
    mapped: list[list[tuple[int, Place]]] = []
    for line in lines:
        match = METADATA_REGEX.search(line)
        place = None
        if match is not None and match["frame"] is not None:
            place = frames.get(match["frame"])
        elif match is not None:
            place = (match["file"], int(match["line"]), 0)
        column = len(line) - len(line.lstrip())
        mapped.append([] if place is None else [(column, place)])
    return source_map_of(mapped)


_INSTRUCTION = re.compile(r"\s*(?:ROOT )?%?([\w.-]+) = ")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')


def places_of_instructions(text: str) -> dict[str, tuple[str, Place | None]]:
    """The names that instructions of an HLO module have in the user's program, such as `jit(f)/sin`, and their places."""
    lines = text.splitlines()
    frames = _frames(lines)
    found: dict[str, tuple[str, Place | None]] = {}
    for line in lines:
        instruction, metadata = _INSTRUCTION.match(line), METADATA_REGEX.search(line)
        if instruction is None or metadata is None:
            continue
        if metadata["frame"] is not None:
            place = frames.get(metadata["frame"])
        else:
            place = (metadata["file"], int(metadata["line"]), 0)
        name = _OP_NAME.search(line)
        found[instruction[1]] = (name[1] if name else "", place)
    return found


def _frames(lines: list[str]) -> dict[str, Place]:
    """The places of the frames in the tables of a text, by their numbers."""
    tables: dict[str, dict[str, str]] = {name: {} for name in _TABLES}
    current = None
    for line in lines:
        if line in tables:
            current = tables[line]
        elif not line.strip():
            current = None
        elif current is not None:
            number, _, entry = line.partition(" ")
            current[number] = entry
    frames = {}
    for number, entry in tables["StackFrames"].items():
        location = dict(_FIELD.findall(entry)).get("file_location_id", "")
        fields = dict(_FIELD.findall(tables["FileLocations"].get(location, "")))
        file = tables["FileNames"].get(fields.get("file_name_id", ""))
        if file is not None and "line" in fields:
            frames[number] = (file.strip('"'), int(fields["line"]), int(fields.get("column", 0)))
    return frames


PASSES = (
    Pass(HloPass.STABLE_HLO.value, trace_and_lower, stable_hlo_generate_dump),
    Pass(HloPass.ORIGINAL.value, trace_and_lower, original_hlo_generate_dump),
    Pass(HloPass.OPTIMIZED.value, trace_and_lower, optimized_generate_dump),
)
