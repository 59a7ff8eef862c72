"""Pieces of HTML, and whole pages."""

from __future__ import annotations

import functools
import html
import importlib.resources
import os
import pathlib
import string
import tempfile
import webbrowser
from collections.abc import Iterable, Sequence


class Html(str):
    """Text that is HTML already. Any other string is escaped where it becomes part of a page."""

    __slots__ = ()


def escaped(text: object) -> Html:
    return text if isinstance(text, Html) else Html(html.escape(str(text)))


def element(name: str, content: object = "", **attributes: object) -> Html:
    """An element. Underscores at the end of attributes' names are dropped; those that are None are left out.

    >>> from jax._src.pages import element
    >>> element("b", "1 < 2", class_="x")
    '<b class="x">1 &lt; 2</b>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{escaped(content)}</{name}>")


def join(parts: Iterable[object], separator: str = "") -> Html:
    return Html(separator.join(escaped(part) for part in parts))


def details(
    summary: object, content: object, *, is_open: bool = True, id: str | None = None
) -> Html:
    """A part that can be folded."""
    return element(
        "details",
        join([element("summary", summary), content]),
        id=id,
        open="" if is_open else None,
    )


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Iterable[int] = ()
) -> Html:
    """A table.

    Args:
      columns: the headings.
      rows: the cells; one that is a pair `(text, share)` is shown with a bar of that share of its width.
      numbers: the indices of columns that are numbers, and aligned to the right.
    """
    numbers = frozenset(numbers)
    kind = lambda i: "number" if i in numbers else None
    head = join(element("th", name, class_=kind(i)) for i, name in enumerate(columns))
    body = join(
        element("tr", join(_cell(cell, kind(i)) for i, cell in enumerate(row))) for row in rows
    )
    return element(
        "table",
        join([element("thead", element("tr", head)), element("tbody", body)]),
        class_="rows",
    )


def _cell(cell: object, kind: str | None) -> Html:
    if isinstance(cell, tuple):
        text, share = cell
        bar = f"background-size:{100 * min(max(share, 0.0), 1.0):.1f}% 100%"
        return element("td", text, class_=f"{kind or ''} bar".strip(), style=bar)
    return element("td", cell, class_=kind)


@functools.cache
def _template() -> string.Template:
    file = importlib.resources.files("jax._src.pages") / "page.html"
    return string.Template(file.read_text(encoding="utf-8"))


class Page:
    """A page, as text, as a file, in a browser, or in a notebook.

    Attributes:
      title: the title.
      html: the page's text, which refers to nothing outside.
    """

    def __init__(self, title: str, body: Html):
        self.title = title
        self.html = _template().substitute(title=escaped(title), body=body)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes the page to a file, which is replaced if it exists."""
        pathlib.Path(file).write_text(self.html, encoding="utf-8")

    def show(self) -> None:
        """Opens the page in a browser."""
        with tempfile.NamedTemporaryFile(
            "w", suffix=".html", delete=False, encoding="utf-8"
        ) as file:
            file.write(self.html)
        webbrowser.open(pathlib.Path(file.name).as_uri())

    def _repr_html_(self) -> str:
        """What notebooks show: the page in a frame of its own, so that its style leaves theirs alone."""
        return element(
            "iframe",
            srcdoc=self.html,
            sandbox="allow-scripts",
            style="width:100%;height:600px;border:1px solid #ccc",
        )
