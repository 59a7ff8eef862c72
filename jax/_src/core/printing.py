"""Printing of jaxprs in the documented format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import pretty_printer as pp, source_info_util
from jax._src.core.avals import AbstractValue
from jax._src.core.effects import JaxprInputEffect
from jax._src.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    jaxprs_in_params,
)
from jax._src.late_binding import late

# The address in the `repr` of an object is masked, so that equal jaxprs have equal texts.
_ADDRESS = re.compile(r"(?<= at 0x)[0-9a-f]+")


class JaxprPpSettings:
    """How to print: which parts, and how types are shown."""

    __slots__ = (
        "print_shapes",
        "source_info",
        "name_stack",
        "custom_pp_eqn_rules",
        "print_effects",
    )

    def __init__(
        self,
        print_shapes: bool = True,
        source_info: bool = False,
        name_stack: bool = False,
        custom_pp_eqn_rules: bool = True,
        print_effects: bool = False,
    ) -> None:
        self.print_shapes = print_shapes
        self.source_info = source_info
        self.name_stack = name_stack
        self.custom_pp_eqn_rules = custom_pp_eqn_rules
        self.print_effects = print_effects


class _VarNames(dict[Any, Any]):
    """Names of variables, in the order of their first use: a, b, ..., z, ba, bb, ..."""

    count = 0

    def __missing__(self, var: Var) -> str:
        if isinstance(var, DropVar):
            return "_"
        n, name = self.count, ""
        self.count += 1
        while True:
            name = chr(ord("a") + n % 26) + name
            n = n // 26
            if n == 0:
                break
        self[var] = name
        return name


class JaxprPpContext:
    """The names given so far: to variables, and to jaxprs that are printed once and referred to."""

    def __init__(self) -> None:
        self.var_names = _VarNames()
        self.shared_jaxprs: dict[Jaxpr, str] = {}
        self.used_names: Counter[str] = Counter()

    def suggest_same_var_names(self, for_vars: Sequence[Atom], like_vars: Sequence[Atom]) -> None:
        """Print new variables of `for_vars` under the names of their peers in `like_vars`."""
        used = {
            self.var_names[v] for v in for_vars if type(v) is not Literal and v in self.var_names
        }
        for v, like in zip(for_vars, like_vars):
            if type(v) is Literal or type(like) is Literal or v in self.var_names:
                continue
            name = self.var_names[like]
            if name not in used:
                used.add(name)
                self.var_names[v] = name


def pp_var(v: object, context: JaxprPpContext, *, print_dtype: bool = True) -> str:
    if type(v) is Literal:
        return v.pretty_print(context, print_dtype=print_dtype)
    name: str = context.var_names[v]
    return name


def pp_aval(aval: AbstractValue, context: JaxprPpContext) -> str:
    return aval.str_short(short_dtypes=True)


def pp_vars(
    vs: Sequence[Atom], context: JaxprPpContext, *, print_shapes: bool = False, separator: str = ""
) -> pp.Doc:
    if print_shapes:
        items = [
            pp.text(pp_var(v, context))
            + pp.type_annotation(pp.text(":" + pp_aval(v.aval, context)))
            for v in vs
        ]
    else:
        items = [pp.text(pp_var(v, context)) for v in vs]
    return pp.nest(2, pp.group(pp.join(pp.text(separator) + pp.group(pp.brk()), items)))


def pp_kv_pair(k: str, v: object, context: JaxprPpContext, settings: JaxprPpSettings) -> pp.Doc:
    if type(v) is tuple and all(isinstance(j, (ClosedJaxpr, Jaxpr)) for j in v):
        doc = _pp_jaxprs(v, context, settings)
    elif isinstance(v, Jaxpr):
        doc = pp_jaxpr(v, context, settings)
    elif isinstance(v, ClosedJaxpr):
        doc = pp_jaxpr(v.jaxpr, context, settings)
    elif isinstance(v, (set, frozenset)):  # sorted: the iteration order depends on hashes
        doc = pp.text(f"{type(v).__name__}({{{', '.join(sorted(map(repr, v)))}}})")
    elif isinstance(v, str):
        doc = pp.text(v)
    else:
        doc = pp.text(_ADDRESS.sub(lambda m: "X" * len(m[0]), str(v)))
    return pp.text(f"{k}=") + doc


def _pp_jaxprs(
    jaxprs: Sequence[Jaxpr | ClosedJaxpr], context: JaxprPpContext, settings: JaxprPpSettings
) -> pp.Doc:
    docs = [
        pp_jaxpr(j.jaxpr if isinstance(j, ClosedJaxpr) else j, context, settings) for j in jaxprs
    ]
    return pp.group(
        pp.concat(
            [
                pp.nest(2, pp.concat([pp.text("("), pp.brk(""), pp.join(pp.brk(), docs)])),
                pp.brk(""),
                pp.text(")"),
            ]
        )
    )


def pp_kv_pairs(
    kv_pairs: Sequence[tuple[str, Any]], context: JaxprPpContext, settings: JaxprPpSettings
) -> pp.Doc:
    if not kv_pairs:
        return pp.nil()
    return pp.group(
        pp.concat(
            [
                pp.nest(
                    2,
                    pp.concat(
                        [
                            pp.text("["),
                            pp.brk(""),
                            pp.join(
                                pp.brk(), [pp_kv_pair(k, v, context, settings) for k, v in kv_pairs]
                            ),
                        ]
                    ),
                ),
                pp.brk(""),
                pp.text("]"),
            ]
        )
    )


def pp_eqn(eqn: JaxprEqn, context: JaxprPpContext, settings: JaxprPpSettings) -> pp.Doc:
    rule = eqn.primitive.pp if settings.custom_pp_eqn_rules else None
    doc = (rule or default_pp_eqn)(eqn, context, settings)
    # Annotations are comments at the end of the line where the equation begins.
    if settings.name_stack:
        doc = pp.text("", f"[{eqn.source_info.name_stack}]") + doc
    if settings.source_info:
        doc = pp.text("", source_info_util.summarize(eqn.source_info)) + doc
    return pp.source_map(doc, eqn.source_info)


def default_pp_eqn(
    eqn: JaxprEqn,
    context: JaxprPpContext,
    settings: JaxprPpSettings,
    params: dict[str, Any] | None = None,
) -> pp.Doc:
    """`outs = primitive[k=v ...] ins`; `params` limits the parameters shown."""
    names = sorted(eqn.params) if params is None else params
    lhs = pp_vars(eqn.outvars, context, print_shapes=settings.print_shapes)
    rhs = [
        pp.text(eqn.primitive.name),
        pp_kv_pairs([(p, eqn.params[p]) for p in names], context, settings),
        pp.text(" ") + pp_vars(eqn.invars, context),
    ]
    if not eqn.outvars:
        return pp.concat(rhs)
    return pp.concat([lhs, pp.text(" = "), *rhs])


def _effect_names(jaxpr: Jaxpr, context: JaxprPpContext) -> list[str]:
    """The effects as text; an effect on an argument or constant names the variable: `Read<a>`."""
    names = []
    for eff in jaxpr.effects:
        if isinstance(eff, JaxprInputEffect):
            i = eff.input_index  # negative for constants
            var = jaxpr.invars[i] if i >= 0 else jaxpr.constvars[i]
            kind = type(eff).__name__.removesuffix("Effect")
            names.append(f"{kind}<{pp_var(var, context)}>")
        else:
            names.append(str(eff))
    return sorted(names)


def _drop_unused(jaxpr: Jaxpr, context: JaxprPpContext) -> None:
    """Print as `_` the results of outermost equations that nothing reads."""
    used = {v for v in jaxpr.outvars if type(v) is not Literal}
    for eqn in jaxpr.eqns:
        used.update(v for v in eqn.invars if type(v) is not Literal)
    for eqn in jaxpr.eqns:
        for v in eqn.outvars:
            if v not in used:
                dict.__setitem__(context.var_names, v, "_")


def pp_eqns(eqns: Sequence[JaxprEqn], context: JaxprPpContext, settings: JaxprPpSettings) -> pp.Doc:
    docs = [pp_eqn(e, context, settings) for e in eqns]
    return pp.join(pp.brk("; "), docs)


def pp_jaxpr_skeleton(
    jaxpr: Jaxpr,
    eqns_fn: Callable[[], list[JaxprEqn]],
    context: JaxprPpContext,
    settings: JaxprPpSettings,
) -> pp.Doc:
    constvars = pp_vars(jaxpr.constvars, context, print_shapes=settings.print_shapes)
    invars = pp_vars(jaxpr.invars, context, print_shapes=settings.print_shapes)
    eqns = eqns_fn()
    outs = pp.concat(
        [pp.text("("), pp_vars(jaxpr.outvars, context, separator=","),
         pp.text(")" if len(jaxpr.outvars) != 1 else ",)")]
    )  # fmt: skip
    head = pp.concat([pp.text("{ lambda "), constvars, pp.text("; "), invars, pp.text(". ")])
    head = pp.nest(2, head)  # in all 4, like equations
    effects = pp.nil()
    if settings.print_effects and jaxpr.effects:
        effects = pp.text(f" : {{ {', '.join(_effect_names(jaxpr, context))} }}")
    return pp.group(
        pp.concat(
            [
                pp.group(head),
                pp.concat(
                    [
                        pp.nest(2, pp.concat([pp.text("let"), pp.nest(2, pp.brk() + eqns)])),
                        pp.nest(2, pp.concat([pp.brk(), pp.text("in "), outs])),
                    ]
                ),
                effects,
                pp.text(" }"),
            ]
        )
    )


def pp_jaxpr(jaxpr: Jaxpr, context: JaxprPpContext, settings: JaxprPpSettings) -> pp.Doc:
    name = context.shared_jaxprs.get(jaxpr)
    if name is not None:
        return pp.text(name)
    return pp_jaxpr_skeleton(
        jaxpr, lambda: pp_eqns(jaxpr.eqns, context, settings), context, settings
    )


_MAX_INLINE_EQNS = 10


def _shared_jaxprs(jaxpr: Jaxpr) -> list[tuple[Jaxpr, str]]:
    """Jaxprs that are printed once, by name, since they recur or are long; inner ones first."""
    counts: Counter[Jaxpr] = Counter()
    names: dict[Jaxpr, str] = {}
    order: list[Jaxpr] = []

    def visit(j: Jaxpr) -> None:
        for eqn in j.eqns:
            for sub in jaxprs_in_params(eqn.params):
                counts[sub] += 1
                if counts[sub] == 1:
                    names[sub] = str(eqn.params.get("name") or "jaxpr")
                    visit(sub)
                    order.append(sub)

    visit(jaxpr)
    return [(j, names[j]) for j in order if counts[j] > 1 or len(j.eqns) > _MAX_INLINE_EQNS]


def pp_toplevel_jaxpr(
    jaxpr: Jaxpr,
    *,
    source_info: bool = False,
    print_shapes: bool = True,
    custom_pp_eqn_rules: bool = True,
    name_stack: bool = False,
    print_effects: bool = False,
) -> pp.Doc:
    context = JaxprPpContext()
    settings = JaxprPpSettings(
        print_shapes, source_info, name_stack, custom_pp_eqn_rules, print_effects
    )
    _drop_unused(jaxpr, context)
    lets = []
    for shared, suggestion in _shared_jaxprs(jaxpr):
        name = _plain_name(suggestion)
        context.used_names[name] += 1
        if context.used_names[name] > 1:
            name = f"{name}{context.used_names[name] - 1}"
        doc = pp_jaxpr(shared, context, settings)
        context.shared_jaxprs[shared] = name
        lets.append(pp.concat([pp.text(f"let {name} = "), doc, pp.text(" in"), pp.brk()]))
    return pp.concat([*lets, pp_jaxpr(jaxpr, context, settings)])


def _plain_name(name: str) -> str:
    return name.removeprefix("<").removesuffix(">") or "fun"


def pretty_print(
    jaxpr: Jaxpr,
    *,
    width: int | None = None,
    use_color: bool = False,
    source_map: list[list[tuple[int, int, Any]]] | None = None,
    **kwargs: Any,
) -> str:
    """The text of a jaxpr; for the keywords see `ClosedJaxpr.pretty_print`.

    `source_map` receives, for each line, the (start, end, source info) of the equations in it.
    """
    doc = pp_toplevel_jaxpr(jaxpr, **kwargs)
    format_kwargs: dict[str, Any] = {} if width is None else {"width": width}
    if source_map is not None:
        format_kwargs["source_map"] = source_map
    return str(doc.format(use_color=use_color, **format_kwargs))


def jaxpr_to_string(jaxpr: Jaxpr) -> str:
    return pretty_print(jaxpr, use_color=False)


def _eqn_string(eqn: JaxprEqn) -> str:
    return str(pp_eqn(eqn, JaxprPpContext(), JaxprPpSettings()).format(use_color=False))


late.pretty_print = pretty_print
late.jaxpr_to_string = jaxpr_to_string
late.eqn_to_string = _eqn_string
