"""The pass that maps a jaxpr: each equation comes from a line of the function."""

from __future__ import annotations

from typing import Any

from jax._src import api, source_info_util
from jax._src.source_info_util import canonical_file_name
from jax._src.source_mapper.passes import (
    Pass,
    Place,
    SourceMapDump,
    source_map_of,
)

NAME = "jaxpr"


def compile_jaxpr(work_dir: Any, f: Any, f_args: Any, f_kwargs: Any, **_: Any) -> Any:
    """Traces a function."""
    return api.make_jaxpr(lambda *args, **kwargs: f(*args, **kwargs))(*f_args, **f_kwargs)


def make_jaxpr_dump(jaxpr: Any, **_: Any) -> SourceMapDump:
    """Prints a jaxpr, and maps its equations, also those of inner jaxprs."""
    marks: list[list[tuple[int, int, Any]]] = []
    text = jaxpr.pretty_print(use_color=False, source_map=marks)
    lines = [
        [(start, place) for start, _, info in line if (place := _place(info)) is not None]
        for line in marks
    ]
    return SourceMapDump(source_map_of(lines), text, NAME)


def _place(info: Any) -> Place | None:
    frame = source_info_util.user_frame(info.traceback)
    if frame is None:
        return None
    return canonical_file_name(frame.file_name), frame.start_line, frame.start_column


PASSES = (Pass(NAME, compile_jaxpr, make_jaxpr_dump),)
