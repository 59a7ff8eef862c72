"""How values are placed, as texts with colours, and the graph of a jaxpr in these colours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jax._src.core import Jaxpr
from jax._src.core.jaxpr import JaxprEqn, Literal, Var
from jax._src.jaxpr_view.costs import MOVES, variables
from jax._src.named_sharding import NamedSharding, UnspecifiedValue
from jax._src.pages import Html, element, join
from jax._src.sharding import Sharding

_PALETTE = (
    "#a8c7fa", "#ffd08a", "#b7e1a1", "#f6aea9", "#d7aefb", "#a1e4e4", "#fdd663", "#e6c9a8",
    "#c5cae9", "#f8bbd0", "#c8e6c9", "#d7ccc8",
)  # fmt: skip
_NONE = "#e8eaed"

MOST_NODES = 400


class Colors:
    """A colour for each placement, in the order in which they are met."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def color(self, text: str) -> str:
        if not text:
            return _NONE
        return self.of.setdefault(text, _PALETTE[len(self.of) % len(_PALETTE)])

    def chip(self, text: str) -> Html:
        if not text:
            return Html("")
        return element("span", text, class_="chip code", style=f"background:{self.color(text)}")


def placement_of_type(aval: Any) -> str:
    """The placement that is part of a type: its partitions, and the axes over which it varies in a `shard_map`."""
    texts = []
    sharding = getattr(aval, "sharding", None)
    if isinstance(sharding, NamedSharding) and not sharding.mesh.empty:
        spec = sharding.spec
        if any(part is not None for part in spec):
            texts.append(_spec_text(spec))
        elif sharding.mesh._any_axis_explicit:
            texts.append("replicated")
    if varying := getattr(aval, "vma", None):
        texts.append(f"varies over {', '.join(sorted(map(str, varying)))}")
    return "; ".join(texts)


def _spec_text(spec: Iterable[Any]) -> str:
    parts = [
        "None" if part is None else "+".join(part) if isinstance(part, tuple) else str(part)
        for part in spec
    ]
    return f"P({', '.join(parts)})"


def placement_text(sharding: Any) -> str:
    """The text of a sharding, as a user gave it or as an array has it."""
    if isinstance(sharding, NamedSharding):
        return (
            _spec_text(sharding.spec) if any(p is not None for p in sharding.spec) else "replicated"
        )
    if isinstance(sharding, UnspecifiedValue) or not isinstance(sharding, Sharding):
        return ""
    return "" if len(sharding.device_set) == 1 else str(sharding)


def placements(eqn: JaxprEqn) -> list[str]:
    """The placements of the results of an equation; empty where the compiler chooses."""
    found = [placement_of_type(v.aval) for v in eqn.outvars]
    if eqn.primitive.name in ("sharding_constraint", "reshard"):
        given = [eqn.params.get("sharding", eqn.params.get("dst_sharding"))]
    elif eqn.primitive.name == "jit":
        given = list(eqn.params["out_shardings"])
    else:
        return found
    return [placement_text(s) or text for s, text in zip(given, found)]


class Graph:
    """The graph of the equations of a jaxpr, as SVG: coloured by placement, outlined where data moves.

    Args:
      jaxpr: the jaxpr.
      names: texts of variables.
      of_arguments: placements of the constants and arguments.
      of_results: returns the placements of the results of an equation, given its index.
      colors: shared with the rest of the page.
      link: returns the target of the link of an equation, given its index.
    """

    _ROW, _CHAR, _HEIGHT, _GAP = 52, 7, 22, 14

    def __init__(
        self,
        jaxpr: Jaxpr,
        names: Mapping[Var, str],
        of_arguments: Sequence[str],
        of_results: Callable[[int], list[str]],
        colors: Colors,
        link: Any,
    ):
        self._colors = colors
        # text, placement, type, moves, link
        self._nodes: list[tuple[str, str, str, bool, str | None]] = []
        self._edges: list[tuple[int, int, str, str]] = []
        makers: dict[Var, tuple[int, str]] = {}
        used = {v for eqn in jaxpr.eqns for v in variables(eqn.invars)}
        used.update(variables(jaxpr.outvars))
        for v, text in zip([*jaxpr.constvars, *jaxpr.invars], of_arguments):
            if v in used:
                text = text or placement_of_type(v.aval)
                makers[v] = self._add(names[v], text, v.aval, False, None), text
        for i, eqn in enumerate(jaxpr.eqns):
            texts = of_results(i)
            node = self._add(
                _node_text(eqn), texts[0] if texts else "", eqn.outvars[0].aval if eqn.outvars else "",
                eqn.primitive.name in MOVES or eqn.primitive.name == "shard_map", link(i),
            )  # fmt: skip
            self._connect(makers, variables(eqn.invars), node)
            makers.update(zip(eqn.outvars, [(node, text) for text in texts]))
        for i, v in enumerate(jaxpr.outvars):
            if type(v) is not Literal and v in makers:
                node = self._add(f"result {i}", makers[v][1], v.aval, False, None)
                self._connect(makers, [v], node)

    def _add(self, text: str, placement: str, aval: Any, moves: bool, link: str | None) -> int:
        kind = aval.str_short(short_dtypes=True) if hasattr(aval, "str_short") else ""
        self._nodes.append((text, placement, kind, moves, link))
        return len(self._nodes) - 1

    def _connect(self, makers: Mapping[Var, Any], variables: Iterable[Var], node: int) -> None:
        for v in dict.fromkeys(variables):
            if v in makers:
                source, placement = makers[v]
                self._edges.append((source, node, placement, v.aval.str_short(short_dtypes=True)))

    def svg(self) -> Html:
        places, width, height = self._layout()
        parts = [self._edge(places, *edge) for edge in self._edges]
        parts += [self._node(places[i], *node) for i, node in enumerate(self._nodes)]
        return element(
            "svg", join(parts), width=width, height=height, viewBox=f"0 0 {width} {height}"
        )

    def _layout(self) -> tuple[list[tuple[float, float, float]], int, int]:
        """The middle, top and width of each node; the size of all."""
        inputs: dict[int, list[int]] = {}
        for source, target, *_ in self._edges:
            inputs.setdefault(target, []).append(source)
        levels: list[int] = []
        for i in range(len(self._nodes)):  # sources have lower numbers
            levels.append(1 + max((levels[s] for s in inputs.get(i, ())), default=-1))
        rows: dict[int, list[int]] = {}
        for i, level in enumerate(levels):
            rows.setdefault(level, []).append(i)
        middle: dict[int, float] = {}
        for level in sorted(rows):
            row = rows[level]
            wish = {
                i: sum(middle[s] for s in inputs[i]) / len(inputs[i]) for i in row if i in inputs
            }
            row.sort(key=lambda i: wish.get(i, middle.get(i - 1, 0.0)))
            right = 0.0
            for i in row:
                half = self._width(i) / 2
                middle[i] = max(wish.get(i, right + half + self._GAP), right + half + self._GAP)
                right = middle[i] + half
        width = max((middle[i] + self._width(i) / 2 for i in middle), default=0.0) + self._GAP
        height = (max(rows, default=0) + 1) * self._ROW
        places = [
            (middle[i], levels[i] * self._ROW + 10.0, self._width(i))
            for i in range(len(self._nodes))
        ]
        return places, int(width) + 1, int(height)

    def _width(self, i: int) -> float:
        return max(len(self._nodes[i][0]) * self._CHAR + 16, 40)

    def _edge(self, places: Any, source: int, target: int, placement: str, kind: str) -> Html:
        x0, y0, _ = places[source]
        x1, y1, _ = places[target]
        y0 += self._HEIGHT
        bend = (y1 - y0) / 2
        path = f"M{x0:.0f},{y0:.0f} C{x0:.0f},{y0 + bend:.0f} {x1:.0f},{y1 - bend:.0f} {x1:.0f},{y1:.0f}"
        color = self._colors.color(placement) if placement else "#9aa0a6"
        title = element("title", f"{kind} {placement}".strip())
        return element("path", title, d=path, fill="none", stroke=color, stroke_width=2)

    def _node(
        self, place: tuple[float, float, float], text: str, placement: str, kind: str, moves: bool,
        link: str | None,
    ) -> Html:  # fmt: skip
        x, y, width = place
        box = element(
            "rect", "", x=f"{x - width / 2:.0f}", y=f"{y:.0f}", width=f"{width:.0f}", height=self._HEIGHT, rx=6,
            fill=self._colors.color(placement), stroke="#c5221f" if moves else "#80868b",
            stroke_width=2 if moves else 1,
        )  # fmt: skip
        label = element(
            "text", text, x=f"{x:.0f}", y=f"{y + 15:.0f}", text_anchor="middle", fill="#000"
        )
        title = element("title", f"{text}: {kind} {placement}".strip())
        node = element("g", join([title, box, label]))
        return node if link is None else element("a", node, href=link)


def _node_text(eqn: JaxprEqn) -> str:
    name = eqn.params.get("name")
    return f"{eqn.primitive.name} {name}" if isinstance(name, str) else eqn.primitive.name
