"""`cond`, `switch` and `platform_dependent`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import ad_util, config, core, dtypes, traceback_util
from jax._src.ad_util import Zero
from jax._src.core import ClosedJaxpr, Primitive, typeof
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.interpreters.split_rules import (
    Flow,
    JaxprSplitRules,
    TwoEqns,
    not_results,
    result_positions,
)
from jax._src.lax import lax
from jax._src.lax.control_flow.common import (
    as_text,
    check_effects,
    check_maskable,
    def_compiled_impl,
    difference,
    leaf_paths,
    make_vary,
    share_consts,
    stage,
    with_forwarded,
    without_results,
)
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax._src.tree_util import equality_errors_pytreedef, keystr, tree_flatten, tree_unflatten

traceback_util.register_exclusion(__file__)

_no_operand = object()


def _given_operands(operand: Any, operands: tuple) -> tuple:
    """Return the operands, which are given by position, or as one by the keyword `operand`."""
    if operand is _no_operand:
        return operands
    if operands:
        raise TypeError(
            "if 'operand' keyword is passed then no positional operands can be passed, got "
            f"operand={operand} and positional operands {operands}"
        )
    return (operand,)


@traceback_util.api_boundary
def switch(
    index: Any, branches: Sequence[Callable], *operands: Any, operand: Any = _no_operand
):  # fmt: skip
    """Apply one of several functions, selected by an index.

    Args:
      index: integer scalar that selects the function; it is clamped to the valid range.
      branches: functions of `operands` whose results have equal types.
      *operands: arguments, pytrees of arrays.
      operand: a single argument, as a keyword.

    Returns:
      The result of the chosen function.

    Raises:
      TypeError: if the results of the branches differ in structure or type; it names the leaf.

    >>> print(jax.lax.switch(1, [jnp.sin, jnp.cos], 0.))
    1.0
    """
    if not all(callable(b) for b in branches):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    operands = _given_operands(operand, operands)
    aval = typeof(index)
    if aval.shape:
        raise TypeError(f"Branch index must be scalar, got {index} of shape {aval.shape}.")
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"Index type must be an integer, got {dtypes.dtype_name(aval.dtype)}")
    branches = tuple(branches)
    if not branches:
        raise ValueError("Empty branch sequence")
    if len(branches) == 1:
        return branches[0](*operands)
    if isinstance(index, (int, np.generic)):
        index = np.int32(min(max(int(index), 0), len(branches) - 1))
    else:
        index = lax.convert_element_type(index, np.int32)
        index = lax.clamp(np.int32(0), index, np.int32(len(branches) - 1))
    if config.disable_jit.value and core.is_concrete(index):
        return branches[int(core.to_concrete_value(index))](*operands)
    return _bind("switch", index, branches, operands)


@traceback_util.api_boundary
def cond(
    pred: Any, true_fun: Callable, false_fun: Callable, *operands: Any, operand: Any = _no_operand
):  # fmt: skip
    """Apply one of two functions, selected by a predicate.

    Args:
      pred: boolean (or numeric) scalar.
      true_fun: function applied to `operands` if `pred` is true.
      false_fun: function applied otherwise; its result has the same type.
      *operands: arguments, pytrees of arrays.
      operand: a single argument, as a keyword.

    The older form `cond(pred, true_operand, true_fun, false_operand, false_fun)` gives each
    function its own operand.

    Returns:
      The result of the chosen function.

    Raises:
      TypeError: if `pred` is not a scalar, or the results differ in structure or type; it names the
        leaf.

    >>> print(jax.lax.cond(True, lambda x: x + 1, lambda x: x - 1, 10.))
    11.0
    """
    if (
        len(operands) == 2
        and callable(operands[1])
        and callable(false_fun)
        and not callable(true_fun)
    ):
        x_true, f_true, (x_false, f_false) = true_fun, false_fun, operands
        return cond(pred, lambda x, _: f_true(x), lambda _, x: f_false(x), x_true, x_false)
    if not (callable(true_fun) and callable(false_fun)):
        raise TypeError(
            "lax.cond: true_fun and false_fun arguments should be callable. "
            f"Got true_fun={true_fun!r}, false_fun={false_fun!r}."
        )
    operands = _given_operands(operand, operands)
    if pred is None:
        raise TypeError("cond predicate is None")
    if isinstance(pred, Sequence) or np.ndim(pred) != 0:
        shape = getattr(pred, "shape", None)
        raise TypeError(
            f"Pred must be a scalar, got {pred} of "
            + (f"type {type(pred)}" if shape is None else f"shape {tuple(shape)}.")
        )
    dtype = typeof(pred).dtype
    if not (dtypes.issubdtype(dtype, np.number) or dtype == np.bool_):
        raise TypeError(
            f"Pred type must be either boolean or number, got {dtypes.dtype_name(dtype)}."
        )
    if config.disable_jit.value and core.is_concrete(pred):
        return (true_fun if bool(core.to_concrete_value(pred)) else false_fun)(*operands)
    if dtype != np.bool_:
        pred = lax.ne(pred, lax.const(pred, 0))
    index = lax.convert_element_type(pred, np.int32)
    return _bind("cond", index, (false_fun, true_fun), operands)


def _bind(name: str, index, branches: Sequence[Callable], operands, **params):
    flat, in_tree = tree_flatten(tuple(operands))
    for x in flat:
        if not core.valid_jaxtype(x):
            raise TypeError(
                f"lax.{name} operands must be arrays, numbers or pytrees of them, got {x!r} of type "
                f"{type(x)}: close over other values."
            )
    avals = [typeof(x) for x in flat]
    # Stage the functions in the caller's order: `cond` has the one for true first.
    order = slice(None, None, -1 if name == "cond" else 1)
    staged = [stage(name, f, in_tree, avals, operands) for f in branches[order]][order]
    trees = [s[2] for s in staged]
    jaxprs = [s[0] for s in staged]
    _check_results(name, jaxprs, trees)
    closed, consts = share_consts(jaxprs[order], [s[1] for s in staged[order]])
    closed = closed[order]
    check_effects(name, *closed)
    operands = [*consts, *flat]
    branches, forwarded = _without_forwarded(closed[0], tuple(closed[1:]))
    outs = cond_p.bind(index, *operands, branches=branches, **params)
    if forwarded:
        outs = with_forwarded(outs, {i: operands[j] for i, j in forwarded.items()})
    return tree_unflatten(trees[0], outs)


@core.cached_on_jaxpr
def _without_forwarded(first: ClosedJaxpr, others: tuple):
    """Drop the results that are the same operand in all branches.

    Returns:
      The branches, and a dict from the positions of these results to those of the operands.
    """
    branches = (first, *others)
    places = [{v: i for i, v in enumerate(b.jaxpr.invars)} for b in branches]
    forwarded = {}
    for i, column in enumerate(zip(*[b.jaxpr.outvars for b in branches])):
        found = {at.get(v) if type(v) is core.Var else None for v, at in zip(column, places)}
        if len(found) == 1 and None not in found:
            (forwarded[i],) = found
    if not forwarded:
        return branches, forwarded
    return tuple([without_results(b, forwarded) for b in branches]), forwarded


def _check_results(name: str, jaxprs, trees) -> None:
    """Raise TypeError if results differ in more than weak types."""
    first = len(trees) - 1 if name == "cond" else 0
    for i, tree in enumerate(trees):
        if tree != trees[first]:
            what = _Pair(name, jaxprs, first, i)
            lines = [
                f"{what.first} output{keystr(path)} is a {x} but {what.other} output{keystr(path)} is a "
                f"{y}, so {why}"
                for path, x, y, why in equality_errors_pytreedef(trees[first], tree)
            ]
            raise TypeError(
                f"{name} branch outputs must have the same pytree structure, but they differ:\n\n"
                f"{what.sources}\n\n{as_text(lines)}\n\n"
                f"Revise {what.first} and/or {what.other} so that they have the same pytree structure."
            )
    outs = [j.out_avals for j in jaxprs]
    for i, avals in enumerate(outs):
        if not all(map(core.typematch, outs[first], avals)):
            what = _Pair(name, jaxprs, first, i)
            lines = [
                f"the output of {what.first}{f' at path {path}' if path else ''} has type {x.str_short()} "
                f"but the corresponding output of {what.other} has type {y.str_short()}, so "
                f"{difference(x, y)}"
                + make_vary(x, y, f"the output of {what.first}", f"the output of {what.other}")
                for path, x, y in zip(leaf_paths(trees[0]), outs[first], avals)
                if not core.typematch(x, y)
            ]
            raise TypeError(
                f"{name} branches must have equal output types but they differ.\n\n{what.sources}\n\n"
                f"{as_text(lines)}\n\nRevise {what.first} and/or {what.other} so that all output types "
                "match."
            )


class _Pair:
    """Names two functions whose results differ, for error messages."""

    def __init__(self, name: str, jaxprs, first: int, other: int):
        if name == "cond":
            self.first, self.other = "true_fun", "false_fun"
        else:
            self.first, self.other = f"branch {first}", f"branch {other}"
        self.sources = "\n".join(
            f"{name} is {jaxprs[i].debug_info.func_src_info}"
            for name, i in ((self.first, first), (self.other, other))
        )


# The `cond` primitive

cond_p = Primitive("cond", multiple_results=True)


def _cond_one_by_one(index, *ops, branches, **_):
    return core.jaxpr_as_fun(branches[int(index)])(*ops)


def_compiled_impl(cond_p, "branches", _cond_one_by_one)


def _cond_types(index, *avals, branches, **_):
    effects = core.join_effects(*[b.effects for b in branches])
    shifted = frozenset(
        e.replace(input_index=e.input_index + 1) if isinstance(e, core.JaxprInputEffect) else e
        for e in effects
    )
    return branches[0].out_avals, shifted


cond_p.def_effectful_abstract_eval(_cond_types)


def _hoist(args, params):
    hoisted = [pe.hoist_tracers(b) for b in params["branches"]]
    if not any(tracers for _, tracers in hoisted):
        return args, params
    branches = []
    for i, (b, _) in enumerate(hoisted):
        invars: list = []
        for j, (_, tracers) in enumerate(hoisted):
            own = b.jaxpr.invars[: len(tracers)]
            invars += own if i == j else [core.Var(typeof(x)) for x in tracers]
        rest = b.jaxpr.invars[len(hoisted[i][1]) :]
        info = b.jaxpr.debug_info.with_unknown_names()
        jaxpr = b.jaxpr.replace(invars=invars + rest, debug_info=info)
        branches.append(ClosedJaxpr(jaxpr, b.consts))
    index, *ops = args
    extra = [x for _, tracers in hoisted for x in tracers]
    return (index, *extra, *ops), dict(params, branches=tuple(branches))


pe.def_hoisting(cond_p, _hoist)


def _cond_typecheck(_, *atoms, branches, **params):
    index = atoms[0].aval
    if index.shape or index.dtype != np.int32:
        raise core.JaxprTypeError(f"cond called with an index of type {index}, expected int32[]")
    for i, b in enumerate(branches):
        if len(b.in_avals) != len(atoms) - 1:
            raise core.JaxprTypeError(
                f"cond branch {i} takes {len(b.in_avals)} arguments, got {len(atoms) - 1}"
            )
        for want, atom in zip(b.in_avals, atoms[1:]):
            if not core.typecompat(want, atom.aval):
                raise core.JaxprTypeError(
                    f"cond branch {i} takes an argument of type {want}, got {atom.aval}"
                )
        for a, b0 in zip(b.out_avals, branches[0].out_avals):
            if not core.typematch(a, b0):
                raise core.JaxprTypeError(
                    f"cond branches 0 and {i} have mismatching output types: {b0} vs {a}"
                )
    return _cond_types(index, *[a.aval for a in atoms[1:]], branches=branches)


cond_p.typecheck = _cond_typecheck


def _cond_jvp(primals, tangents, *, branches, **params):
    index, *ops = primals
    nonzeros = [type(t) is not Zero for t in tangents[1:]]
    nz_outs = [ad.jvp_jaxpr(b, nonzeros)[1] for b in branches]
    nz_out = [any(column) for column in zip(*nz_outs)] if nz_outs[0] else []
    jvps = tuple(ad.jvp_jaxpr(b, nonzeros, nz_out)[0] for b in branches)
    outs = cond_p.bind(
        index, *ops, *[t for t in tangents[1:] if type(t) is not Zero], branches=jvps, **params
    )
    return _pair_outputs(outs, branches[0].out_avals, nz_out)


def _pair_outputs(outs, out_avals, nz_out):
    n = len(out_avals)
    tangents = iter(outs[n:])
    return outs[:n], [
        next(tangents) if nz else Zero(a.to_tangent_aval()) for a, nz in zip(out_avals, nz_out)
    ]


cond_p.jvp = _cond_jvp


def _cond_linearize(primals, tangents, *, branches, **params):
    index, *ops = primals
    nonzeros = tuple([type(t) is not Zero for t in tangents[1:]])
    lins = [ad.linearize_jaxpr(b, nonzeros) for b in branches]
    nz_out = tuple([any(c) for c in zip(*[lin.nonzero_outs for lin in lins])])
    lins = [ad.linearize_jaxpr(b, nonzeros, nz_out, False) for b in branches]
    n = len(branches[0].out_avals)
    # All branches return the residuals of all branches; those of other branches are zeros.
    # Residuals that are references are operands instead.
    layout, total = _share_residuals([_residual_types(lin) for lin in lins])
    returned = [i for i, a in enumerate(total) if type(a) is not tuple]
    place = {slot: k for k, slot in enumerate(returned)}
    primal_branches = tuple(
        _with_padded_residuals(
            lin.primal,
            n,
            tuple([place[s] for s in slots if s in place]),
            tuple([total[i] for i in returned]),
        )  # fmt: skip
        for lin, slots in zip(lins, layout)
    )
    results = cond_p.bind(index, *ops, branches=primal_branches, **params)
    outs, values = results[:n], iter(results[n:])
    residuals = [ops[a[0]] if type(a) is tuple else next(values) for a in total]
    res_avals = tuple([a[1] if type(a) is tuple else a for a in total])
    tangent_branches = tuple(
        _with_selected_residuals(lin.tangent, slots, res_avals) for lin, slots in zip(lins, layout)
    )
    out_tangents = iter(())
    if any(nz_out):
        out_tangents = iter(
            cond_p.bind(
                index,
                *residuals,
                *[t for t in tangents[1:] if type(t) is not Zero],
                branches=tangent_branches,
                **params,
            )  # fmt: skip
        )
    return outs, [
        next(out_tangents) if nz else Zero(a.to_tangent_aval())
        for a, nz in zip(branches[0].out_avals, nz_out)
    ]


cond_p.linearize = _cond_linearize


def _residual_types(lin) -> list:
    """Return the avals of residuals; a pair (operand position, aval) for references."""
    return [
        (i, a) if kind == "in" else a.strip_weak_type()
        for (kind, i), a in zip(lin.residual_sources, lin.residual_avals)
    ]


def _share_residuals(res_avals):
    """Assign slots for the residuals of all branches; branches share slots of equal type.

    Returns:
      For each branch the slots of its residuals, and the avals of the slots.
    """
    total: list = []
    layout = []
    for avals in res_avals:
        free: dict = {}
        for i, a in enumerate(total):
            free.setdefault(a, []).append(i)
        slots = []
        for a in avals:
            if free.get(a):
                slots.append(free[a].pop(0))
            else:
                slots.append(len(total))
                total.append(a)
        layout.append(tuple(slots))
    return layout, total


@core.cached_on_jaxpr
def _with_padded_residuals(primal: ClosedJaxpr, n: int, slots: tuple, total: tuple) -> ClosedJaxpr:
    def run(*args):
        outs = core.eval_jaxpr(primal.jaxpr, primal.consts, *args)
        padded: list = [None] * len(total)
        for slot, r in zip(slots, outs[n:]):
            padded[slot] = lax.convert_type(r, weak_type=False) if typeof(r).weak_type else r
        return outs[:n] + [
            ad_util.zeros_like_aval(a) if p is None else p for p, a in zip(padded, total)
        ]

    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, primal.in_avals, primal.debug_info)
    return ClosedJaxpr(jaxpr, consts)


@core.cached_on_jaxpr
def _with_selected_residuals(tangent: ClosedJaxpr, slots: tuple, total: tuple) -> ClosedJaxpr:
    m = len(slots)
    jaxpr = tangent.jaxpr
    invars: list = [core.Var(a) for a in total]
    for slot, v in zip(slots, jaxpr.invars[:m]):
        invars[slot] = v
    return ClosedJaxpr(
        jaxpr.replace(
            invars=invars + jaxpr.invars[m:], debug_info=jaxpr.debug_info.with_unknown_names()
        ),
        tangent.consts,
    )


def _cond_transpose(cts, index, *ops, branches, **params):
    linear = tuple([ad.is_undefined_primal(x) for x in ops])
    ct_nonzero = tuple([type(ct) is not Zero for ct in cts])
    nz_each = [ad.transpose_jaxpr(b, linear, ct_nonzero)[1] for b in branches]
    nz = tuple([any(c) for c in zip(*nz_each)])
    transposed = tuple(_transpose_instantiated(b, linear, ct_nonzero, nz) for b in branches)
    outs = iter(
        cond_p.bind(
            index,
            *[x for x, lin in zip(ops, linear) if not lin],
            *[ct for ct in cts if type(ct) is not Zero],
            branches=transposed,
            **params,
        )
    )
    nonzero = iter(nz)
    return [None] + [
        (next(outs) if next(nonzero) else Zero(x.aval.to_ct_aval())) if lin else None
        for x, lin in zip(ops, linear)
    ]


@core.cached_on_jaxpr
def _transpose_instantiated(branch: ClosedJaxpr, linear: tuple, ct_nonzero: tuple, nz: tuple):
    """Transpose a branch, with zeros for cotangents that only other branches have."""
    transposed, own = ad.transpose_jaxpr(branch, linear, ct_nonzero)
    if own == nz:
        return transposed
    linear_avals = [a.to_ct_aval() for a, lin in zip(branch.in_avals, linear) if lin]

    def run(*args):
        outs = iter(core.eval_jaxpr(transposed.jaxpr, transposed.consts, *args))
        return [
            next(outs) if mine else ad_util.zeros_like_aval(a)
            for a, mine, wanted in zip(linear_avals, own, nz)
            if wanted
        ]

    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, transposed.in_avals, transposed.debug_info)
    return ClosedJaxpr(jaxpr, consts)


cond_p.transpose = _cond_transpose


def _cond_batch(axis_data, args, dims, *, branches, **params):
    index, *ops = args
    index_dim, *op_dims = dims
    if index_dim is not None:
        check_maskable("cond", *branches)
        # Every branch runs on the whole batch, and each element selects its own branch's result.
        index = batching.bdim_at_front(index, index_dim, axis_data.size)
        ops = [
            batching.bdim_at_front(x, d, axis_data.size) if d is not None else x
            for x, d in zip(ops, op_dims)
        ]
        in_batched = [d is not None for d in op_dims]
        batched = [batching.batch_jaxpr(b, axis_data, in_batched, True)[0] for b in branches]
        results = []
        for i, b in enumerate(batched):
            # The derivative of a branch that is not taken may be NaN: stop it for these elements.
            mask = lax.eq(index, lax.const(index, i))
            guarded = [
                lax.select(
                    lax.broadcast_in_dim(mask, typeof(x).shape, (0,)), x, lax.stop_gradient(x)
                )
                if d is not None and dtypes.issubdtype(typeof(x).dtype, np.inexact)
                else x
                for x, d in zip(ops, op_dims)
            ]
            results.append(core.eval_jaxpr(b.jaxpr, b.consts, *guarded))
        outs = [_select_n(index, column) for column in zip(*results)]
        return outs, [0] * len(outs)
    ops = [batching.moveaxis(x, d, 0) if d is not None else x for x, d in zip(ops, op_dims)]
    in_batched = [d is not None for d in op_dims]
    out_batched = [False] * len(branches[0].out_avals)
    for b in branches:
        _, ob = batching.batch_jaxpr(b, axis_data, in_batched)
        out_batched = [x or y for x, y in zip(out_batched, ob)]
    batched = tuple(
        batching.batch_jaxpr(b, axis_data, in_batched, out_batched)[0] for b in branches
    )
    outs = cond_p.bind(index, *ops, branches=batched, **params)
    return outs, [0 if b else None for b in out_batched]


def _select_n(index, column):
    which = lax.broadcast_in_dim(index, typeof(column[0]).shape, (0,))
    return lax.select_n(which, *column)


cond_p.axis_batch = _cond_batch


class _CondSplitRules(JaxprSplitRules):
    def flow(self, params):
        branches = params["branches"]
        n, m, k = len(branches[0].in_avals), len(branches[0].out_avals), len(branches)
        return Flow(branches, m, [range(1, n + 1)] * k, [range(m)] * k, deciding=(0,))

    def with_jaxprs(self, params, jaxprs, ins, outs):
        return dict(params, branches=tuple(jaxprs))

    def in_two(self, eqn, plan):
        branches = eqn.params["branches"]
        index, *ops = eqn.invars
        n = len(eqn.outvars)
        plans = [plan(b) for b in branches]
        # Results that every branch stores; all other stored values share slots.
        as_results = [
            i
            for i in range(n)
            if all(
                type(p.jaxpr.outvars[i]) is core.Literal or p.jaxpr.outvars[i] in p.saved
                for p in plans
            )
        ]
        results = [
            result_positions(p.saved, [p.jaxpr.outvars[i] for i in as_results]) for p in plans
        ]
        extra = [not_results(p.saved, rs) for p, rs in zip(plans, results)]
        layout, total = _share_residuals([[v.aval.strip_weak_type() for v in vs] for vs in extra])
        types = tuple(total)
        first = tuple(
            _with_padded_residuals(p.first_jaxpr(b, vs), n, slots, types)
            for p, b, vs, slots in zip(plans, branches, extra, layout)
        )
        stored = [*[eqn.outvars[i] for i in as_results], *[core.Var(a) for a in types]]
        stored = [core.Var(v.aval) if type(v) is core.DropVar else v for v in stored]
        m = len(as_results)
        again = []
        for p, b, rs, slots in zip(plans, branches, results, layout):
            rest = iter(slots)
            where = tuple([m + next(rest) if i is None else i for i in rs])
            all_types = tuple([v.aval for v in stored])
            again.append(_with_selected_residuals(p.again_jaxpr(b, p.arrived), where, all_types))

        def replaced(branches, invars, outvars):
            params = dict(eqn.params, branches=branches)
            effects = self.effects(eqn, params, invars)
            return eqn.replace(invars=invars, outvars=outvars, params=params, effects=effects)

        place = dict(zip(as_results, stored))
        first_outs = [place.get(i, v) for i, v in enumerate(eqn.outvars)]
        again_outs = [core.DropVar(v.aval) if i in place else v for i, v in enumerate(eqn.outvars)]
        eqn_first = replaced(first, eqn.invars, [*first_outs, *stored[m:]])
        eqn_again = replaced(tuple(again), [index, *stored, *ops], again_outs)
        return TwoEqns([eqn_first], eqn_again, stored)


cond_p.split = _CondSplitRules()


def _cond_lowering(ctx, index, *ops, branches, branches_platforms=None):
    if branches_platforms is not None:
        index, branches = _platform_branches(ctx, index, branches, branches_platforms)
    effects = [e for e in ctx.tokens_in.effects() if any(e in b.effects for b in branches)]
    tokens = ctx.tokens_in.subset(effects)
    out_types = [
        *[t for e in effects for t in [mlir.token_type()]],
        *mlir.flatten_ir_types(
            [mlir.aval_to_ir_type(ctx.module_context, a) for a in ctx.avals_out]
        ),
    ]
    if len(branches) == 1:
        return mlir.lower_jaxpr_inline(ctx, branches[0], "cond/branch_0_fun", *ops)
    case = hlo.CaseOp(out_types, index=index, num_branches=len(branches))
    for i, b in enumerate(branches):
        block = case.regions[i].blocks.append()
        with ir.InsertionPoint(block):
            consts = mlir.ir_consts(b.consts, [v.aval for v in b.jaxpr.constvars])
            outs, tokens_out = mlir.jaxpr_subcomp(
                ctx.module_context, b.jaxpr, ctx.name_stack.within(f"cond/branch_{i}_fun"), tokens,
                consts, *ops, dim_var_values=ctx.dim_var_values, const_lowering=ctx.const_lowering,
                outer_traceback=ctx.traceback,
            )  # fmt: skip
            hlo.return_([*[tokens_out.get(e) for e in effects], *mlir.flatten_ir_values(outs)])
    results = list(case.results)
    n = len(effects)
    if effects:
        ctx.set_tokens_out(mlir.TokenSet(zip(effects, results[:n])))
    values = mlir.unflatten_ir_values_like_types(
        results[n:], [mlir.aval_to_ir_type(ctx.module_context, a) for a in ctx.avals_out]
    )
    # Keep the results' shardings: the compiler would otherwise reduce unreduced values.
    return [mlir.lower_with_sharding_in_types(ctx, v, a) for v, a in zip(values, ctx.avals_out)]


mlir.register_lowering(cond_p, _cond_lowering)


def _cond_pp(eqn, context, settings):
    params = ["branches", *[p for p in sorted(eqn.params) if p != "branches"]]
    return core.default_pp_eqn(eqn, context, settings, params)


cond_p.pp = _cond_pp

# Platform-dependent code


def platform_dependent(*args: Any, default: Callable | None = None, **per_platform: Callable):
    """Apply the function for the platform that the program runs on.

    Args:
      *args: arguments of the functions.
      default: function for platforms that have no function of their own.
      **per_platform: functions by platform name: cpu, cuda, rocm, tpu.

    Returns:
      The result of the chosen function.
    """
    platforms = list(per_platform)
    if "gpu" in platforms:
        raise ValueError(
            "platform_dependent takes functions for 'cuda' and 'rocm', not for 'gpu': use one of these "
            "names, or both."
        )
    branches = [per_platform[p] for p in platforms] + ([default] if default is not None else [])
    known = tuple((p,) for p in platforms) + ((None,) if default is not None else ())
    if not branches:
        raise ValueError("platform_dependent needs at least one function")
    if len(branches) == 1 and default is not None:
        return default(*args)
    index = platform_index_p.bind(platforms=known)
    if core.is_concrete(index):
        return branches[int(index)](*args)
    return _bind("platform_dependent", index, branches, args, branches_platforms=known)


platform_index_p = Primitive("platform_index")
platform_index_p.def_abstract_eval(lambda *, platforms: core.ShapedArray((), np.int32))


def _platform_indices(ctx, platforms) -> list[int]:
    """Return the branch that each target platform takes."""

    def find(platform: str) -> int:
        for i, names in enumerate(platforms):
            if names is None or platform in names:
                return i
        raise NotImplementedError(
            f"translation rule for primitive 'platform_index' not found for platform {platform}: "
            f"platform_dependent has functions for {[n for n in platforms if n]} and no default"
        )

    return [find(p) for p in ctx.platforms or ctx.module_context.platforms]


def _platform_branches(ctx, index, branches, platforms):
    """Return the branches to lower, as others may not be lowerable, and the index among them."""
    used = sorted(set(_platform_indices(ctx, platforms)))
    if len(used) < len(branches) and len(used) > 1:
        table = [used.index(i) if i in used else 0 for i in range(len(branches))]
        table = mlir.ir_constant(np.array(table, np.int32))
        picked = hlo.dynamic_slice(table, [index], mlir.dense_int_array([1]))
        index = hlo.reshape(index.type, picked)
    return index, [branches[i] for i in used]


def _platform_index_lowering(ctx, *, platforms):
    indices = _platform_indices(ctx, platforms)
    if len(set(indices)) == 1:
        return [mlir.ir_constant(np.int32(indices[0]))]
    table = mlir.ir_constant(np.array(indices, np.int32))
    which = ctx.dim_var_values[0]
    picked = hlo.dynamic_slice(table, [which], mlir.dense_int_array([1]))
    return [hlo.reshape(mlir.aval_to_ir_type(ctx.module_context, ctx.avals_out[0]), picked)]


mlir.register_lowering(platform_index_p, _platform_index_lowering)
