"""From jaxprs with values of high types to jaxprs of arrays.

Transformations work on jaxprs with high types; only what is compiled or run has none. Here a jaxpr is
evaluated on the arrays that represent its arguments: each operation on high types is replaced by those
that its rule `to_lojax` applies, and all others are staged again as they are.

A mutable argument becomes arguments for the arrays that represent its state at first, and results for
those of its state at the end, which come before the other results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.core import ClosedJaxpr, Primitive, cached_on_jaxpr, typeof
from jax._src.interpreters import partial_eval as pe


def is_high(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether an application needs the rule `to_lojax`."""
    return primitive.is_high(*[typeof(x) for x in args], **params) or has_high_jaxpr(params)


def has_high_jaxpr(params: dict[str, Any]) -> bool:
    """Whether there is a jaxpr with values of high types among the parameters."""
    if not core.high_types_in_use.value:
        return False
    return any([j.is_high for j in core.jaxprs_in_params(params)])


class LoweringTrace(pe.DynamicJaxprTrace):
    """A trace that records operations on arrays: those on high types are replaced."""

    __slots__ = ()
    requires_low = True

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if is_high(primitive, args, params):
            return primitive.to_lojax(*args, **params)
        return super().process_primitive(primitive, args, params)

    def cur_qdd(self, x: Any) -> Any:
        return core.eval_trace.cur_qdd(x)

    # Nothing is differentiated any more.

    def process_custom_jvp_call(
        self, primitive: Primitive, fun: Callable[..., Any], jvp: Any, args: Any, **_: Any
    ) -> Any:
        return fun(*args)

    def process_custom_vjp_call(
        self, primitive: Primitive, fun: Callable[..., Any], fwd: Any, bwd: Any, args: Any, **_: Any
    ) -> Any:
        return fun(*args)


class Lowered:
    """A jaxpr of arrays, and how it corresponds to the one with high types.

    Attributes:
      closed: the jaxpr of arrays.
      in_types: the types of arguments; of mutable ones with their data at first (`AvalQDD`).
      final_types: the same, with their data at the end.
      out_types: the types of results.
      in_sources: for each argument of `closed`, the argument of which it is a part.
      out_sources: for each result of `closed` after the states, the result of which it is a part.
      num_states: the number of results that are states of mutable arguments.
      state_sources: for each of these, the argument of which it is a part.
      out_states: for each argument the structure of its state at the end, a `FlatTree`; or None.
    """

    __slots__ = (
        "closed", "in_types", "final_types", "out_types", "in_sources", "out_sources",
        "num_states", "state_sources", "out_states",
    )  # fmt: skip

    closed: ClosedJaxpr
    out_sources: list[int]
    state_sources: list[int]
    num_states: int
    out_states: list[Any]

    def __init__(self, in_types: list[Any], final_types: list[Any], out_types: list[Any]) -> None:
        self.in_types, self.final_types, self.out_types = in_types, final_types, out_types
        self.in_sources = _sources([lo_types(t) for t in in_types])

    def result_sources(self) -> list[int | None]:
        """For each result of `closed`, the result of which it is a part; None for a state."""
        return [*[None] * self.num_states, *self.out_sources]

    def lower_args(self, args: Sequence[Any]) -> list[Any]:
        """The arrays that represent the arguments."""
        return lower_values(self.in_types, args)

    def lower_args_or_types(self, args: Sequence[Any]) -> list[Any]:
        """Like `lower_args`, for arguments some of which may be types."""
        out: list[Any] = []
        for t, x in zip(self.in_types, args, strict=True):
            out.extend(lo_types(t) if isinstance(x, core.AbstractValue) else lower_values([t], [x]))
        return out

    def parts_of_args(self, values: Sequence[Any]) -> list[Any]:
        """For each argument what `values` has for it: a tuple, if arrays represent it."""
        return _grouped(self.in_types, self.in_sources, values)

    def parts_of_outs(self, values: Sequence[Any]) -> list[Any]:
        """For each result what `values` has for it: a tuple, if arrays represent it."""
        return _grouped(self.out_types, self.out_sources, values[self.num_states :])

    def raise_outs(self, args: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """Set the states of mutable arguments, and return the results that the arrays represent."""
        outs = self.set_states(args, outs)
        return raise_values(self.out_types, outs)

    def set_states(self, args: Sequence[Any], outs: Sequence[Any]) -> Sequence[Any]:
        """Set the states of mutable arguments from the leading results; return the other results."""
        it = iter(outs)
        for x, type_, state in zip(args, self.final_types, self.out_states):
            if state is not None:
                lovals = state.update([next(it) for _ in range(len(state))])
                type_.aval.update_from_loval2(type_.qdd, x, lovals)
        return list(it)


def lo_types(type_: Any) -> list[Any]:
    """The types of the arrays that represent a value of this type, or a mutable one (`AvalQDD`)."""
    types: list[Any] = type_.lo_ty()
    return types


def lower_values(types: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The arrays that represent values of these types."""
    out: list[Any] = []
    for t, x in zip(types, values, strict=True):
        out.extend(t.read_loval_in(x) if t.has_qdd else t.lower_val(x) if t.is_high else (x,))
    return out


def raise_values(types: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """The values that arrays represent, the inverse of `lower_values`."""
    it = iter(arrays)
    out = []
    for t in types:
        if not t.is_high:
            out.append(next(it))
            continue
        parts = [next(it) for _ in lo_types(t)]
        out.append(t.new_from_loval(*parts) if t.has_qdd else t.raise_val(*parts))
    return out


def _grouped(types: Sequence[Any], sources: Sequence[int], values: Sequence[Any]) -> list[Any]:
    groups: list[list[Any]] = [[] for _ in types]
    for source, value in zip(sources, values, strict=True):
        groups[source].append(value)
    return [tuple(g) if t.is_high else g[0] for t, g in zip(types, groups)]


def _sources(parts: Sequence[Sequence[Any]]) -> list[int]:
    return [i for i, part in enumerate(parts) for _ in part]


@cached_on_jaxpr
def lower_jaxpr(closed: ClosedJaxpr) -> Lowered:
    """Replace a jaxpr with high types by one of arrays."""
    low = Lowered(closed.in_aval_qdds, closed.final_aval_qdds, closed.out_avals)
    out_states: list[Any] = []

    def run(*arrays: Any) -> list[Any]:
        args = raise_values(low.in_types, arrays)
        outs = core.eval_jaxpr(closed.jaxpr, closed.consts, *args)
        states: list[Any] = []
        for x, type_ in zip(args, low.final_types):
            if type_.has_qdd:
                state = type_.read_loval_out(x)
                states.append(state.vals)
                out_states.append(state.update([None] * len(state)))
            else:
                states.append(())
                out_states.append(None)
        low.state_sources = _sources(states)
        low.num_states = len(low.state_sources)
        parts = [lower_values([t], [x]) for t, x in zip(low.out_types, outs)]
        low.out_sources = _sources(parts)
        return [x for group in (*states, *parts) for x in group]

    in_avals = [t for type_ in low.in_types for t in lo_types(type_)]
    info = closed.debug_info
    names = info.safe_arg_names(len(low.in_types))
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        run, in_avals, info.with_unknown_names(), LoweringTrace
    )
    paths = info.safe_result_paths(len(low.out_types))
    new_info = info._replace(
        arg_names=tuple([names[i] for i in low.in_sources]),
        result_paths=("",) * low.num_states + tuple([paths[i] for i in low.out_sources]),
    )
    low.out_states = out_states
    low.closed = ClosedJaxpr(jaxpr.replace(debug_info=new_info), consts)
    return low
