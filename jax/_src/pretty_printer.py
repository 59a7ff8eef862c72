"""Documents that are laid out to fit a width: Wadler's pretty printer, implemented in jaxlib.

`concat` joins `text` and `brk` (a space or a line break); `group` lays out its content on one line
if it fits; `nest` indents the lines that begin inside it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

from jax._src import config
from jax._src.lib import _pretty_printer

Doc: TypeAlias = _pretty_printer.Doc
Color = _pretty_printer.Color
Intensity = _pretty_printer.Intensity
OutputFormat = _pretty_printer.OutputFormat

nil = _pretty_printer.nil
text = _pretty_printer.text
concat = _pretty_printer.concat
brk = _pretty_printer.brk
group = _pretty_printer.group
nest = _pretty_printer.nest
color = _pretty_printer.color
source_map = _pretty_printer.source_map

type_annotation = functools.partial(color, intensity=Intensity.NORMAL, foreground=Color.MAGENTA)
keyword = functools.partial(color, intensity=Intensity.BRIGHT, foreground=Color.BLUE)


def join(sep: Doc, docs: Sequence[Doc]) -> Doc:
    """Concatenate the documents with `sep` between them."""
    parts: list[Doc] = []
    for doc in docs:
        if parts:
            parts.append(sep)
        parts.append(doc)
    return concat(parts)


def _format(
    self: Doc,
    width: int = 80,
    *,
    use_color: bool | None = None,
    output_format: OutputFormat | None = None,
    separable_lines: bool = False,
    annotation_prefix: str = " # ",
    source_map: list[list[tuple[int, int, Any]]] | None = None,
) -> str:
    """Lay out the document, in lines of at most `width` characters where possible.

    Args:
      width: the maximal number of characters per line.
      use_color: whether to use ANSI colour sequences; by default if stdout is a terminal or a
        notebook and `jax_pprint_use_color` is set.
      output_format: text by default, or HTML.
      separable_lines: whether each line sets and resets its colours by itself.
      annotation_prefix: precedes the annotations of texts, at the ends of lines.
      source_map: a list that receives, for each line, the (start, end, source) of marked parts.
    """
    if use_color is None:
        use_color = config.pprint_use_color.value and can_use_color()
    if output_format is None:
        output_format = OutputFormat.TEXT
    return self._format(
        width,
        use_color=use_color,
        output_format=output_format,
        separable_lines=separable_lines,
        annotation_prefix=annotation_prefix,
        source_map=source_map,
    )


def _add(self: Doc, other: Doc) -> Doc:
    return concat([self, other])


Doc.format = _format
Doc.__str__ = lambda self: self.format()
Doc.__add__ = _add


@functools.cache
def can_use_color() -> bool:
    """Whether stdout is a terminal or notebook that supports colours."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    if shell is not None:
        kind = type(shell).__name__
        if kind == "ZMQInteractiveShell":
            return True
        if kind == "TerminalInteractiveShell":
            return shell.colors != "NoColor"
    return bool(getattr(sys.stdout, "isatty", lambda: False)()) and sys.platform != "win32"
