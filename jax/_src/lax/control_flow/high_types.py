"""Rules of `scan`, `while` and `cond` for values of high types: the same on the arrays they stand for.

A mutable value that the body of a loop uses is carried: its state at the end of one step is that at
the start of the next. What a value that is only written to gets in the steps of a `scan` is stacked.
"""

from collections.abc import Sequence
from typing import Any

from jax._src import core
from jax._src.core import ClosedJaxpr
from jax._src.interpreters import lojax
from jax._src.lax.control_flow.bounded_scan import bounded_scan_p
from jax._src.lax.control_flow.common import rearranged, split_at
from jax._src.lax.control_flow.conditionals import cond_p
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.lax.control_flow.while_primitive import while_p


def _check_states(what: str, types: Sequence[Any], finals: Sequence[Any]) -> None:
    """Raise TypeError if a mutable value does not have the same arrays after a step as before."""
    for t, final in zip(types, finals):
        if not t.has_qdd or t.is_writer or t.qdd == final.qdd:
            continue
        if t.qdd.normalize() != final.qdd.normalize():
            raise TypeError(
                f"{what} must leave arrays of the same types in a mutable value of type {t.aval}: at"
                f" first it holds {t.lo_ty()}, at the end {final.lo_ty()}."
            )


def _check_not_carried(loop: str, types: Sequence[Any]) -> None:
    for t in types:
        if t.has_qdd:
            raise TypeError(
                f"a mutable value of type {t.aval} cannot be carried or scanned over by"
                f" {loop}: close over it in the body."
            )


def _stacked_type(length: int, type_: Any) -> Any:
    if not type_.is_high:
        return type_
    try:
        return core.unmapped_aval(length, 0, type_)
    except NotImplementedError:  # a type that does not depend on the shapes of its arrays
        return type_


def _scan_lojax(*args, jaxpr, length, num_consts, num_carry, **params):
    low = lojax.lower_jaxpr(jaxpr)
    _check_not_carried("lax.scan", low.in_types[num_consts:])
    _check_states("the body of lax.scan", low.in_types, low.final_types)
    const_args, carry_args, xs_args = split_at(args, num_consts, num_carry)
    arrays = [
        *lojax.lower_values(low.in_types[: num_consts + num_carry], [*const_args, *carry_args]),
        *lojax.lower_values([core.typeof(x) for x in xs_args], xs_args),
    ]  # fmt: skip
    kinds = [
        "state" if t.has_qdd else "const" if i < num_consts else
        "carry" if i < num_consts + num_carry else "xs"
        for i, t in enumerate(low.in_types)
    ]  # fmt: skip
    ins = {
        kind: [j for j, i in enumerate(low.in_sources) if kinds[i] == kind]
        for kind in ("const", "state", "carry", "xs")
    }
    states = range(low.num_states)
    writes = [j for j in states if low.in_types[low.state_sources[j]].is_writer]
    carried = [j for j in states if j not in writes]
    results = [low.num_states + j for j in range(len(low.out_sources))]
    carry_outs = [j for j, i in zip(results, low.out_sources) if i < num_carry]
    ys = [j for j, i in zip(results, low.out_sources) if i >= num_carry]
    order_in = (*ins["const"], *ins["state"], *ins["carry"], *ins["xs"])
    order_out = (*carried, *carry_outs, *writes, *ys)
    outs = scan_p.bind(
        *[arrays[j] for j in order_in], jaxpr=rearranged(low.closed, order_in, order_out),
        length=length, num_consts=len(ins["const"]), num_carry=len(carried) + len(carry_outs),
        **params,
    )  # fmt: skip
    by_place = dict(zip(order_out, outs))
    rest = low.set_states(args, [by_place[j] for j in range(len(order_out))])
    return _raise_stacked(low.out_types, num_carry, length, rest)


def _raise_stacked(
    types: Sequence[Any], num_carry: int, length: int, arrays: Sequence[Any]
) -> list[Any]:
    """The results of a loop, given the types of those of its body: carries, and ys to be stacked.

    A stacked value has as many arrays as one of a step.
    """
    it = iter(arrays)
    out = []
    for i, t in enumerate(types):
        parts = [next(it) for _ in lojax.lo_types(t)]
        out.append((t if i < num_carry else _stacked_type(length, t)).raise_val(*parts))
    return out


scan_p.to_lojax = _scan_lojax
scan_p.mutates = lambda jaxpr, **_: jaxpr.final_aval_qdds


def _bounded_scan_lojax(limit, *args, jaxpr, length, num_consts, num_carry, stops, **params):
    # There are no mutable values: the derivative of a `while`, which this is, refuses them.
    low = lojax.lower_jaxpr(jaxpr)
    part_of = lambda i: 0 if i < num_consts else 1 if i < num_consts + num_carry else 2
    parts = [part_of(i) for i in low.in_sources]
    outs = bounded_scan_p.bind(
        limit, *lojax.lower_values([core.typeof(x) for x in args], args), jaxpr=low.closed,
        length=length, num_consts=parts.count(0), num_carry=parts.count(1), stops=stops, **params,
    )  # fmt: skip
    steps, outs = split_at(outs, int(stops))
    return [*steps, *_raise_stacked(low.out_types, num_carry, length, outs)]


bounded_scan_p.to_lojax = _bounded_scan_lojax


def _while_lojax(*args, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, **bound):
    cond, body = lojax.lower_jaxpr(cond_jaxpr), lojax.lower_jaxpr(body_jaxpr)
    _check_not_carried("lax.while_loop", body.in_types[body_nconsts:])
    _check_states("the body of lax.while_loop", body.in_types, body.final_types)
    cconsts, bconsts, carry = split_at(args, cond_nconsts, body_nconsts)
    arrays = body.lower_args([*bconsts, *carry])
    state_ins = [j for j, i in enumerate(body.in_sources) if body.in_types[i].has_qdd]
    const_ins = [
        j for j, i in enumerate(body.in_sources) if i < body_nconsts and j not in state_ins
    ]
    carry_ins = [j for j, i in enumerate(body.in_sources) if i >= body_nconsts]
    order = (*const_ins, *state_ins, *carry_ins)
    body_low = rearranged(body.closed, order, tuple(range(len(body.closed.out_avals))))
    # The condition sees the present states of the mutable values that the body changes.
    place = {
        id(x): [j for j in state_ins if body.in_sources[j] == i]
        for i, x in enumerate(bconsts) if body.in_types[i].has_qdd
    }  # fmt: skip
    cond_arrays = lojax.lower_values(cond.in_types[:cond_nconsts], cconsts)
    own, shared = [], {}
    for i, x in enumerate(cconsts):
        parts = [j for j, source in enumerate(cond.in_sources) if source == i]
        if id(x) in place and cond.in_types[i].has_qdd:
            shared.update(zip(place[id(x)], parts))
        else:
            own.extend(parts)
    if any(
        v is not cond.closed.jaxpr.invars[j]
        for v, j in zip(
            cond.closed.jaxpr.outvars[: cond.num_states],
            [j for j, i in enumerate(cond.in_sources) if cond.in_types[i].has_qdd],
            strict=True,
        )
    ):
        raise TypeError("the condition of lax.while_loop must not change a mutable value")
    state_types = [body.closed.in_avals[j] for j in state_ins]
    cond_carry = [j for j, i in enumerate(cond.in_sources) if i >= cond_nconsts]
    cond_order = (
        *own, *[shared.get(j, a) for j, a in zip(state_ins, state_types)], *cond_carry,
    )  # fmt: skip
    cond_low = rearranged(cond.closed, cond_order, (cond.num_states,))
    outs = while_p.bind(
        *[cond_arrays[j] for j in own], *[arrays[j] for j in order], cond_jaxpr=cond_low,
        body_jaxpr=body_low, cond_nconsts=len(own), body_nconsts=len(const_ins), **bound,
    )  # fmt: skip
    return body.raise_outs(bconsts, outs)


while_p.to_lojax = _while_lojax
while_p.mutates = lambda cond_jaxpr, body_jaxpr, cond_nconsts, **_: [
    *cond_jaxpr.final_aval_qdds[:cond_nconsts], *body_jaxpr.final_aval_qdds
]  # fmt: skip


def _cond_finals(branches: Sequence[ClosedJaxpr], **_: Any) -> list[Any]:
    first = branches[0].final_aval_qdds
    for branch in branches[1:]:
        for a, b in zip(first, branch.final_aval_qdds):
            if a.has_qdd and not a.is_writer and a.qdd.normalize() != b.qdd.normalize():
                raise TypeError(
                    "the branches of lax.cond or lax.switch must leave arrays of the same types in a"
                    f" mutable value of type {a.aval}, but one leaves {a.lo_ty()} and another"
                    f" {b.lo_ty()}."
                )
    return [core.ShapedArray((), "int32"), *first]


def _trees(low: lojax.Lowered) -> list[Any]:
    return [state.tree for state in low.out_states if state is not None]


def _cond_lojax(index, *args, branches, **params):
    _cond_finals(branches)
    lowered = [lojax.lower_jaxpr(b) for b in branches]
    for low in lowered[1:]:
        if low.out_states != lowered[0].out_states:
            raise TypeError(
                "the branches of lax.cond or lax.switch must write values of the same structure to a"
                f" mutable value, but they write {_trees(lowered[0])} and {_trees(low)}."
            )
    arrays = lowered[0].lower_args(args)
    outs = cond_p.bind(index, *arrays, branches=tuple([low.closed for low in lowered]), **params)
    return lowered[0].raise_outs(args, outs)


cond_p.to_lojax = _cond_lojax
cond_p.mutates = _cond_finals
