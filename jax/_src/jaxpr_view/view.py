"""The page that shows a jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax._src import api, core, source_info_util, stages
from jax._src.core import ClosedJaxpr, Jaxpr
from jax._src.core.jaxpr import JaxprEqn, Literal
from jax._src.core.printing import JaxprPpContext
from jax._src.jaxpr_view import costs
from jax._src.jaxpr_view.propagation import Chosen, chosen_placements, placements_of_results
from jax._src.jaxpr_view.residuals import Residuals, find_residuals
from jax._src.jaxpr_view.shardings import (
    MOST_NODES,
    Colors,
    Graph,
    placement_of_type,
    placement_text,
    placements,
)
from jax._src.jit import jitted
from jax._src.mesh import AbstractMesh, Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.pages import (
    Html,
    Page,
    bytes_text,
    details,
    element,
    join,
    number_text,
    table,
)
from jax._src.util import set_module

export = set_module("jax.tools")

_COLUMNS = ("", "equation", "type", "placement", "line", "flops", "bytes", "kept for backward")
_LONGEST_PARAMS = 300


@export
def view(
    fun_or_jaxpr: Callable | ClosedJaxpr | Jaxpr | stages.Traced, *args, **kwargs
) -> JaxprView:
    """A page that shows a function's jaxpr: nested, each equation with its line, type, placement and costs.

    Notebooks show the result; elsewhere `save` it to a file, or `show` it in a browser. The page is one file, and
    loads nothing.

    Args:
      fun_or_jaxpr: a function, jitted or not, or what it was traced to: a jaxpr, or `jax.jit(f).trace(...)`.
      args, kwargs: the function's arguments; arrays or `jax.ShapeDtypeStruct`s. With a jaxpr there are none.

    Returns:
      A `JaxprView`, with `save(file)`, `show()`, and the text `html`.

    Raises:
      TypeError: `fun_or_jaxpr` is neither a function nor a jaxpr, or a jaxpr with arguments.

    >>> import jax.tools
    >>> def loss(w, x):
    ...     return jnp.sum(jnp.tanh(x @ w) ** 2)
    >>> jax.tools.view(loss, jnp.ones((4, 3)), jnp.ones((2, 4)))
    <JaxprView of loss: 4 equations, 66 flops, 136 B kept for the backward pass>
    """
    closed, name, arguments = _traced(fun_or_jaxpr, args, kwargs)
    return JaxprView(closed, name, arguments)


def _traced(what: Any, args: tuple, kwargs: dict) -> tuple[ClosedJaxpr, str, Sequence[Any]]:
    """The jaxpr, a name for it, and the values of its arguments so far as they are known."""
    if not isinstance(what, (ClosedJaxpr, Jaxpr, stages.Traced)):
        if not callable(what):
            raise TypeError(
                f"view takes a function or a jaxpr, got {what!r} of type {type(what).__name__}"
            )
        state = jitted.state_of(what) or jitted.state_of(api.jit(what))
        what = state.trace(*args, **kwargs)
    elif args or kwargs:
        raise TypeError("view takes arguments for a function only: a jaxpr has been traced already")
    if isinstance(what, stages.Traced):
        return what.jaxpr, what.fun_name, [*what._consts, *what._flat]
    if isinstance(what, Jaxpr):
        what = ClosedJaxpr(what.replace(constvars=[], invars=[*what.constvars, *what.invars]), [])
    return what, what.jaxpr.debug_info.func_name or "jaxpr", ()


class JaxprView(Page):
    """The page of a jaxpr; see `jax.tools.view`.

    Attributes:
      jaxpr: the jaxpr.
      html: the page's text.
    """

    def __init__(self, closed: ClosedJaxpr, name: str, arguments: Sequence[Any] = ()):
        self.jaxpr = closed
        kept, reason = find_residuals(closed)
        writer = _Writer(kept, chosen_placements(closed, arguments))
        body = writer.program(closed, arguments, reason)
        super().__init__(f"{name}: jaxpr", body)
        self._summary = f"{name}: {writer.summary(closed)}"

    def __repr__(self) -> str:
        return f"<JaxprView of {self._summary}>"


class _Writer:
    """Writes the parts of the page; has the names and colours that were given so far."""

    def __init__(self, kept: Residuals, chosen: Chosen):
        self._context = JaxprPpContext()
        self._colors = Colors()
        self._kept = kept
        self._chosen = chosen

    def summary(self, closed: ClosedJaxpr) -> str:
        kept = costs.nbytes(a for avals in self._kept.values() for a in avals)
        text = f"{_equations_text(closed.jaxpr)}, {_flops_text(closed.jaxpr)}"
        return f"{text}, {bytes_text(kept)} kept for the backward pass" if self._kept else text

    def program(self, closed: ClosedJaxpr, arguments: Sequence[Any], reason: str | None) -> Html:
        jaxpr = closed.jaxpr
        known = [placement_text(getattr(x, "sharding", None)) for x in arguments]
        known += [""] * (len(jaxpr.invars) - len(known))
        names = jaxpr.debug_info.safe_arg_names(len(jaxpr.invars))
        for v in [*jaxpr.constvars, *jaxpr.invars]:
            self._context.var_names[v]  # in the order of the printed jaxpr
        block = self._block(jaxpr, (), known)
        parts = [
            element("p", f"{self.summary(closed)}; defined at {_definition(jaxpr)}", class_="note"),
            _tools(),
            element("h2", "Arguments"),
            self._arguments(closed, names, known),
            element("h2", "Equations"),
            block,
            element("p", join(["results: ", self._atoms(jaxpr.outvars)]), class_="code note"),
            element("h2", "Kept for the backward pass"),
            element("p", f"nothing: {reason}", class_="note")
            if reason
            else self._biggest(jaxpr, names),
            element("h2", "Graph"),
            self._graphs(jaxpr, known),
            element("p", _NOTES, class_="note faint"),
        ]
        return join(parts)

    # Arguments

    def _arguments(self, closed: ClosedJaxpr, names: Sequence, known: Sequence[str]) -> Html:
        jaxpr = closed.jaxpr
        rows = []
        for i, v in enumerate(jaxpr.constvars):
            rows.append((self._var(v), "constant", v, "", ("constant", i)))
        for i, v in enumerate(jaxpr.invars):
            rows.append((self._var(v), names[i] or f"argument {i}", v, known[i], ("argument", i)))
        return table(
            ("", "name", "type", "placement", "bytes", "kept for backward"),
            [
                (
                    var,
                    element("code", name),
                    element("code", _type(v.aval)),
                    self._colors.chip(text or placement_of_type(v.aval)),
                    bytes_text(costs.nbytes([v.aval])),
                    self._kept_text(path),
                )
                for var, name, v, text, path in rows
            ],
            numbers=(4,),
        )

    # Equations

    def _block(self, jaxpr: Jaxpr, path: _Path, known: Sequence[str] = ()) -> Html:
        if not jaxpr.eqns:
            return element("p", "no equations", class_="faint")
        flops = [costs.flops(eqn) for eqn in jaxpr.eqns]
        traffic = [costs.traffic(eqn) for eqn in jaxpr.eqns]
        most = max(filter(None, flops), default=0) or 1, max(traffic, default=0) or 1
        rows = []
        for i, eqn in enumerate(jaxpr.eqns):
            rows += self._equation(eqn, (*path, i), flops[i], traffic[i], most)
        head = join(
            element("th", name, class_="number" if name in ("flops", "bytes") else None)
            for name in _COLUMNS
        )
        parts = [element("thead", element("tr", head)), element("tbody", join(rows))]
        return element(
            "div", element("table", join(parts), class_="rows equations"), class_="scroll"
        )

    def _equation(
        self, eqn: JaxprEqn, path: _Path, flops: float | None, traffic: int, most: Any
    ) -> list[Html]:
        inner = _inner_jaxprs(eqn)
        ins = self._atoms(eqn.invars)  # named before the results, as in printed jaxprs
        outs = self._atoms(eqn.outvars)
        name = element("b", eqn.primitive.name)
        equation = join([outs, " = " if eqn.outvars else "", name, _params(eqn), " ", ins])
        types = join([element("code", _type(v.aval)) for v in eqn.outvars], "<br>")
        chips = join(
            [
                self._colors.chip(text)
                for text in dict.fromkeys(self._placements(eqn, path))
                if text
            ],
            "<br>",
        )
        frame = source_info_util.user_frame(eqn.source_info.traceback)
        line = where = ""
        if frame is not None:
            file = source_info_util.canonical_file_name(frame.file_name)
            where = f"{file}:{frame.start_line} ({frame.function_name})"
            line = f"{file.rpartition('/')[2]}:{frame.start_line}"
        stack = str(eqn.source_info.name_stack)
        cells = [
            element("td", _path_text(path), class_="faint number"),
            element("td", equation, class_="code params"),
            element("td", types),
            element("td", chips),
            element("td", line, title=f"{where} {stack}".strip(), class_="code"),
            _number(number_text(flops) if flops is not None else "?", (flops or 0) / most[0]),
            _number(bytes_text(traffic), traffic / most[1]),
            element("td", self._kept_text(path), class_="kept"),
        ]
        words = f"{eqn.primitive.name} {where} {stack}"
        rows = [element("tr", join(cells), id=_id(path), data_text=words)]
        # What runs in place has the numbers of its equations in the paths of residuals.
        for i, (label, jaxpr) in enumerate(inner):
            letter = "abcdefghijklmnopqrstuvwxyz"[i % 26] if len(inner) > 1 else ""
            here = path if eqn.primitive.name == "jit" else (*path, letter)
            content = self._block(jaxpr, here)
            note = f"{label}: {_equations_text(jaxpr)}, {_flops_text(jaxpr)}"
            fold = details(note, content, is_open=len(path) < 3)
            rows.append(element("tr", join([element("td"), element("td", fold, colspan=len(_COLUMNS) - 1)])))  # fmt: skip
        return rows

    def _placements(self, eqn: JaxprEqn, path: Any) -> list[str]:
        """Those that the program gives to the results of an equation, or else those that are chosen."""
        given = placements(eqn)
        if path not in self._chosen:
            return given
        chosen = placements_of_results(eqn, self._chosen[path])
        return [text or other for text, other in zip(given, chosen, strict=True)]

    def _atoms(self, atoms: Sequence[Any]) -> Html:
        return join([self._var(v) for v in atoms], " ")

    def _var(self, v: Any) -> Html:
        if type(v) is Literal:
            return element("span", v.pretty_print(self._context, print_dtype=False), class_="faint")
        name = self._context.var_names[v]
        return element("span", name, class_="var code", data_var=name)

    # Residuals

    def _kept_text(self, path: tuple) -> str:
        avals = self._kept.get(path)
        if not avals:
            return ""
        return f"{bytes_text(costs.nbytes(avals))}: {', '.join(map(_type, avals))}"

    def _biggest(self, jaxpr: Jaxpr, names: Sequence[str | None]) -> Html:
        sizes = {path: costs.nbytes(avals) for path, avals in self._kept.items()}
        if not sizes:
            return element("p", "nothing", class_="note")
        most = max(sizes.values()) or 1
        rows = []
        for path in sorted(sizes, key=lambda p: -sizes[p])[:20]:
            if isinstance(path[0], str):
                kind, i = path
                known = names[i] if kind == "argument" else None
                what: object = f"{kind} {known or i}"
                line = ""
            else:
                eqn = _find(jaxpr, path)
                what = element(
                    "a", f"{_path_text(path)} {eqn.primitive.name}", href=f"#{_id(path)}"
                )
                line = source_info_util.summarize(eqn.source_info)
            types = ", ".join(map(_type, self._kept[path]))
            rows.append((what, types, (bytes_text(sizes[path]), sizes[path] / most), line))
        return table(("of", "types", "bytes", "line"), rows, numbers=(2,))

    # Shardings

    def _graphs(self, jaxpr: Jaxpr, known: Sequence[str]) -> Html:
        drawings = join(self._graphs_of(jaxpr, (), [""] * len(jaxpr.constvars) + list(known)))
        chips = [self._colors.chip(text) for text in self._colors.of]
        text = (
            "Colours: placements."
            if chips
            else "No placements are given: the compiler chooses them."
        )
        legend = [text, *chips, "Outlined in red: what moves data between devices."]
        if self._chosen:
            legend.append(
                "Placements that the program leaves open are those that Shardy propagates."
            )
        return join([element("p", join(legend, " "), class_="note"), drawings])

    def _graphs_of(self, jaxpr: Jaxpr, path: _Path, of_arguments: Sequence[str]) -> Iterator[Html]:
        """The graph of a jaxpr, and those of jitted functions and shard_maps in it."""
        if len(jaxpr.eqns) > MOST_NODES:
            message = f"not drawn: {len(jaxpr.eqns)} equations, of at most {MOST_NODES}"
            yield element("p", message, class_="note")
        else:
            names = self._context.var_names
            of_results = lambda i: self._placements(jaxpr.eqns[i], (*path, i))
            link = lambda i: f"#{_id((*path, i))}"
            graph = Graph(jaxpr, names, of_arguments, of_results, self._colors, link)
            yield element("div", graph.svg(), class_="scroll")
        for i, eqn in enumerate(jaxpr.eqns):
            if eqn.primitive.name not in ("jit", "shard_map"):
                continue
            ((label, inner),) = _inner_jaxprs(eqn)
            here = (*path, i) if eqn.primitive.name == "jit" else (*path, i, "")
            content = join(self._graphs_of(inner, here, [""] * len(inner.invars)))
            summary = f"{_path_text(here)} {eqn.primitive.name}: {label}"
            yield details(summary, content, is_open=False)


_NOTES = (
    "Flops are counted by XLA for each equation alone, before it optimizes; transcendental functions count as one each; a while"
    " loop counts as one iteration, cond as its most expensive branch, and a shard_map as one device's part. Bytes are those of operands"
    " and results: fusion avoids most of this traffic. What is kept for the backward pass is so before the compiler removes duplicates."
)


def _tools() -> Html:
    return element(
        "p",
        join([
            element("button", "fold all", data_fold="close", type="button"),
            " ",
            element("button", "unfold all", data_fold="open", type="button"),
            Html(' <input data-filter placeholder="filter by primitive, file or name" aria-label="filter">'),
        ]),
        class_="tools",
    )  # fmt: skip


def _number(text: str, share: float) -> Html:
    return element(
        "td", text, class_="number bar", style=f"background-size:{100 * min(share, 1):.1f}% 100%"
    )


def _type(aval: Any) -> str:
    return aval.str_short(short_dtypes=True)


# The path of an equation has its index, and those of the equations around it. An index is followed by a letter where one of
# several jaxprs is meant, such as a branch, and by an empty string where the only one is, except that of `jit`, whose
# equations are run in place.
_Path = tuple[int | str, ...]


def _id(path: _Path) -> str:
    return "e" + ".".join(map(str, path))


def _path_text(path: _Path) -> str:
    text = ""
    for part in path:
        text += f".{part}" if text and isinstance(part, int) else str(part)
    return text


def _definition(jaxpr: Jaxpr) -> str:
    return jaxpr.debug_info.func_src_info.partition(" at ")[2] or "an unknown place"


def _number_of_equations(jaxpr: Jaxpr) -> int:
    return len(jaxpr.eqns) + sum(map(_number_of_equations, core.subjaxprs(jaxpr)))


def _equations_text(jaxpr: Jaxpr) -> str:
    count = _number_of_equations(jaxpr)
    return f"{count} equation{'s' if count != 1 else ''}"


def _flops_text(jaxpr: Jaxpr) -> str:
    flops = costs.jaxpr_flops(jaxpr)
    return "an unknown number of flops" if flops is None else f"{number_text(flops)} flops"


def _find(jaxpr: Jaxpr, path: Any) -> JaxprEqn:
    eqn = jaxpr.eqns[path[0]]
    return eqn if len(path) == 1 else _find(eqn.params["jaxpr"].jaxpr, path[1:])


def _inner_jaxprs(eqn: JaxprEqn) -> list[tuple[str, Jaxpr]]:
    """The jaxprs of an equation's parameters, with labels."""
    found = []
    for key, value in eqn.params.items():
        inner = core.jaxprs_in_params({key: value})
        for i, jaxpr in enumerate(inner):
            label = key if not isinstance(value, (tuple, list)) else f"{key}[{i}]"
            name = eqn.params.get("name") or jaxpr.debug_info.func_name
            found.append((f"{label} {name}".strip(), jaxpr))
    return found


_HIDDEN = ("name", "in_layouts", "out_layouts", "in_shardings", "out_shardings", "donated_invars", "ctx_mesh", "compiler_options_kvs")  # fmt: skip


def _is_object(value: Any) -> bool:
    """Whether the text of a parameter would only be an address."""
    return (
        callable(value) and not isinstance(value, type) or type(value).__repr__ is object.__repr__
    )


def _value_text(value: Any) -> str:
    if isinstance(value, NamedSharding):
        return placement_text(value)
    if isinstance(value, (AbstractMesh, Mesh)):
        return f"mesh({', '.join(f'{name}={size}' for name, size in value.shape.items())})"
    return str(value)


def _params(eqn: JaxprEqn) -> Html:
    """The parameters that are not jaxprs, in brackets."""
    shown = []
    for key, value in eqn.params.items():
        if value is None or value is False or key in _HIDDEN or _is_object(value):
            continue
        if (
            isinstance(value, tuple)
            and not value
            or any(True for _ in core.jaxprs_in_params({key: value}))
        ):
            continue
        shown.append(f"{key}={_value_text(value)}")
    if not shown:
        return Html("")
    text = f"[{' '.join(shown)}]"
    if len(text) > _LONGEST_PARAMS:
        return element("span", text[:_LONGEST_PARAMS] + "…]", class_="faint", title=text)
    return element("span", text, class_="faint")
