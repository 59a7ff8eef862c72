"""The rules of `sparsify` for calls and control flow: their jaxprs become jaxprs of buffers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jax._src import core
from jax._src.ad_checkpoint import remat_p
from jax._src.core import ClosedJaxpr, typeof
from jax._src.custom_derivatives.jvp import custom_jvp_call_p
from jax._src.jit.primitive import jit_p, with_jaxpr
from jax._src.lax.control_flow.conditionals import cond_p
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.lax.control_flow.while_primitive import while_p
from jax._src.sparse.bcoo import places
from jax._src.sparse.transform.interpreter import eval_sparse, sparse_jaxpr
from jax._src.sparse.transform.rules import rule_for
from jax._src.sparse.transform.values import (
    SparsifyEnv,
    SparsifyValue,
    spvalues_to_arrays,
)

Values = list[SparsifyValue]

# Calls: values that share buffers do so in the called function, too


def _call_operands(
    spenv: SparsifyEnv, spvalues: Sequence[SparsifyValue]
) -> tuple[list[int], tuple[SparsifyValue, ...]]:
    """The references of all buffers, each once, and the values with positions among them."""
    refs = list(dict.fromkeys(r for v in spvalues for r in v.refs))
    return refs, tuple([v.map_refs(refs.index) for v in spvalues])


def _call_results(
    spenv: SparsifyEnv, refs: Sequence[int], buffers: Iterable[Any], outs: Sequence[SparsifyValue]
) -> Values:
    all_refs = [*refs, *[spenv.dense(x).refs[0] for x in buffers]]
    return [v.map_refs(all_refs.__getitem__) for v in outs]


@rule_for(jit_p, bcsr=True)
def _jit(spenv: SparsifyEnv, *spvalues: SparsifyValue, **params: Any) -> Values:
    refs, inner = _call_operands(spenv, spvalues)
    operands = [spenv.buffer(r) for r in refs]
    closed, outs = sparse_jaxpr(params["jaxpr"], inner, tuple(map(typeof, operands)))
    # Shardings and donations of dense arrays are also those of their buffers.
    of_dense = {v.data_ref: i for i, v in enumerate(inner) if v.is_dense()}
    dense_outs = {v.data_ref: i for i, v in enumerate(outs) if v.is_dense()}
    shared = {r for v in inner if v.is_sparse() for r in v.refs} | {r for v in outs for r in v.refs}
    params = with_jaxpr(
        params,
        closed,
        [of_dense.get(i) for i in range(len(refs))],
        [dense_outs.get(i + len(refs)) for i in range(len(closed.out_avals))],
    )
    donated = [d and i not in shared for i, d in enumerate(params["donated_invars"])]
    params["donated_invars"] = tuple(donated)
    return _call_results(spenv, refs, jit_p.bind(*operands, **params), outs)


@rule_for(remat_p, bcsr=True)
def _remat(spenv: SparsifyEnv, *spvalues: SparsifyValue, jaxpr: Any, **params: Any) -> Values:
    refs, inner = _call_operands(spenv, spvalues)
    operands = [spenv.buffer(r) for r in refs]
    is_closed = isinstance(jaxpr, ClosedJaxpr)
    closed = jaxpr if is_closed else core.ClosedJaxpr(jaxpr, ())
    new, outs = sparse_jaxpr(closed, inner, tuple(map(typeof, operands)))
    buffers = remat_p.bind(*operands, jaxpr=new if is_closed else new.jaxpr, **params)
    return _call_results(spenv, refs, buffers, outs)


@rule_for(custom_jvp_call_p, bcsr=True)
def _custom_jvp(
    spenv: SparsifyEnv, *spvalues: SparsifyValue, call_jaxpr: ClosedJaxpr, **params: Any
) -> Values:
    # The rule for derivatives is one of dense arrays; those of the function itself are used.
    return eval_sparse(call_jaxpr.jaxpr, call_jaxpr.consts, spvalues, spenv)


# Control flow: the values of carries and branches have buffers of their own


class _Layout:
    """How values are stored in a list of buffers, one after the other."""

    def __init__(self, spvalues: Sequence[SparsifyValue], avals: Sequence[Any]):
        at = 0
        values = []
        for v in spvalues:
            refs = iter(range(at, at + len(v.refs)))
            values.append(v.map_refs(lambda _, refs=refs: next(refs)))  # type: ignore[misc]
            at += len(v.refs)
        self.values = tuple(values)
        self.avals = tuple(avals)

    @property
    def count(self) -> int:
        return len(self.avals)

    def describe(self, i: int) -> str:
        v = self.values[i]
        kind = "BCSR" if v.is_bcsr() else "BCOO" if v.is_bcoo() else "dense"
        types = ", ".join(self.avals[r].str_short() for r in v.refs)
        return f"{kind}{list(v.shape)} with buffers {types}"


def _stored(spenv: SparsifyEnv, spvalues: Sequence[SparsifyValue]) -> tuple[list[Any], _Layout]:
    buffers = [spenv.buffer(r) for v in spvalues for r in v.refs]
    return buffers, _Layout(spvalues, list(map(typeof, buffers)))


def _values(spenv: SparsifyEnv, buffers: Iterable[Any], values: Sequence[SparsifyValue]) -> Values:
    refs = [spenv.dense(x).refs[0] for x in buffers]
    return [v.map_refs(refs.__getitem__) for v in values]


def _joined(*layouts: _Layout) -> _Layout:
    return _Layout([v for l in layouts for v in l.values], [a for l in layouts for a in l.avals])


def _stored_jaxpr(closed: ClosedJaxpr, layout: _Layout) -> tuple[ClosedJaxpr, _Layout]:
    """A jaxpr of buffers all of whose results have buffers of their own."""
    new, outs = sparse_jaxpr(closed, layout.values, layout.avals)
    jaxpr = new.jaxpr
    atoms = [*jaxpr.invars, *jaxpr.outvars]
    outvars = [atoms[r] for v in outs for r in v.refs]
    avals = [x.aval for x in outvars]
    info = jaxpr.debug_info.with_unknown_names()
    return (
        core.ClosedJaxpr(jaxpr.replace(outvars=outvars, debug_info=info), new.consts),
        _Layout(outs, avals),
    )


def _mismatch(a: _Layout, b: _Layout) -> int | None:
    """The first value that is stored otherwise in `b`, apart from promises."""
    for i, (x, y) in enumerate(zip(a.values, b.values)):
        same = x.shape == y.shape and len(x.refs) == len(y.refs)
        if not same or not all(
            core.typematch(a.avals[r], b.avals[s]) for r, s in zip(x.refs, y.refs)
        ):
            return i
    return None


def _weaker(x: SparsifyValue, y: SparsifyValue) -> SparsifyValue:
    """`x` with the promises that both values give."""
    return x._replace(
        indices_sorted=bool(x.indices_sorted and y.indices_sorted),
        unique_indices=bool(x.unique_indices and y.unique_indices),
    )


def _carried(
    body: ClosedJaxpr, consts: _Layout, carry: _Layout, xs: _Layout
) -> tuple[ClosedJaxpr, _Layout, _Layout]:
    """The body of a loop as a jaxpr of buffers, its carry, and its results.

    The carry gives only the promises that the body keeps.

    Raises:
      TypeError: if the body returns a carry that is stored otherwise.
    """
    while True:
        new, outs = _stored_jaxpr(body, _joined(consts, carry, xs))
        n = len(carry.values)
        bad = _mismatch(carry, _Layout(outs.values[:n], outs.avals))
        if bad is not None:
            raise TypeError(
                "loop with sparse arrays: the carry must be stored in the same way before and "
                f"after each iteration, but component {bad} is {carry.describe(bad)} before and "
                f"{outs.describe(bad)} after. Where the number of elements differs, "
                "bcoo_sum_duplicates(..., nse=...) makes it the same."
            )
        weakened = tuple([_weaker(x, y) for x, y in zip(carry.values, outs.values)])
        if weakened == carry.values:
            return new, carry, outs
        carry = _Layout(weakened, carry.avals)


@rule_for(while_p, bcsr=True)
def _while(
    spenv: SparsifyEnv, *spvalues: SparsifyValue, cond_nconsts: int, cond_jaxpr: ClosedJaxpr,
    body_nconsts: int, body_jaxpr: ClosedJaxpr, **bound: int,
) -> Values:  # fmt: skip
    at = cond_nconsts + body_nconsts
    cond_consts, cond_layout = _stored(spenv, spvalues[:cond_nconsts])
    body_consts, body_layout = _stored(spenv, spvalues[cond_nconsts:at])
    init, carry = _stored(spenv, spvalues[at:])
    body, carry, _ = _carried(body_jaxpr, body_layout, carry, _Layout((), ()))
    cond, outs = _stored_jaxpr(cond_jaxpr, _joined(cond_layout, carry))
    if outs.values[0].is_sparse():
        raise TypeError("while_loop with sparse arrays: the condition must be dense, use todense()")
    results = while_p.bind(
        *cond_consts, *body_consts, *init, cond_nconsts=len(cond_consts), cond_jaxpr=cond,
        body_nconsts=len(body_consts), body_jaxpr=body, **bound,
    )  # fmt: skip
    return _values(spenv, results, carry.values)


@rule_for(cond_p, bcsr=True)
def _cond(
    spenv: SparsifyEnv, index: SparsifyValue, *spvalues: SparsifyValue, branches: Any, **params: Any
) -> Values:
    if index.is_sparse():
        raise TypeError("cond with sparse arrays: the predicate must be dense, use todense()")
    operands, layout = _stored(spenv, spvalues)
    new, outs = zip(*[_stored_jaxpr(b, layout) for b in branches])
    values = outs[0].values
    for k, other in enumerate(outs[1:], 1):
        bad = _mismatch(outs[0], other)
        if bad is not None:
            raise TypeError(
                "cond with sparse arrays: branches must return arrays that are stored in the same "
                f"way, but result {bad} is {outs[0].describe(bad)} of branch 0 and "
                f"{other.describe(bad)} of branch {k}. Use todense(), update_layout() or bcoo_sum_duplicates(..., nse=...)."
            )
        values = tuple([_weaker(x, y) for x, y in zip(values, other.values)])
    results = cond_p.bind(spenv.data(index), *operands, branches=tuple(new), **params)
    return _values(spenv, results, values)


@rule_for(scan_p, bcsr=True)
def _scan(
    spenv: SparsifyEnv, *spvalues: SparsifyValue, jaxpr: ClosedJaxpr, num_consts: int,
    num_carry: int, length: int, **params: Any,
) -> Values:  # fmt: skip
    consts, consts_layout = _stored(spenv, spvalues[:num_consts])
    init, carry = _stored(spenv, spvalues[num_consts : num_consts + num_carry])
    scanned = [_scannable(spenv, v) for v in spvalues[num_consts + num_carry :]]
    xs, stacked = _stored(spenv, scanned)
    rows = [core.mapped_aval(length, 0, a) for a in stacked.avals]
    items = _Layout([v._replace(shape=v.shape[1:]) for v in stacked.values], rows)
    body, carry, outs = _carried(jaxpr, consts_layout, carry, items)
    results = scan_p.bind(
        *consts, *init, *xs, jaxpr=body, num_consts=len(consts), num_carry=carry.count,
        length=length, **params,
    )  # fmt: skip
    ys = [v._replace(shape=(length, *v.shape)) for v in outs.values[num_carry:]]
    return _values(spenv, results, [*carry.values, *ys])


def _scannable(spenv: SparsifyEnv, x: SparsifyValue) -> SparsifyValue:
    """A value of which each buffer has the dimension that is scanned over."""
    if x.is_dense():
        return x
    mat = spvalues_to_arrays(spenv, x)
    if not mat.n_batch:
        raise NotImplementedError(
            f"scan over a sparse array without batch dimensions: got {mat}. Use "
            "update_layout(n_batch=1), or index it in the body."
        )
    buffers = [places.full_batch(b, x.shape[: mat.n_batch]) for b in mat.tree_flatten()[0]]
    return spenv.sparse(
        x.shape,
        *buffers,
        indices_sorted=bool(x.indices_sorted),
        unique_indices=bool(x.unique_indices),
    )
