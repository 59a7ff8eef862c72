"""`linear_call`: a linear function with a custom transpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax._src import ad_util, api_util, core, traceback_util
from jax._src.core import ClosedJaxpr, Primitive, typeof
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.late_binding import late
from jax._src.tree_util import tree_flatten, tree_unflatten

traceback_util.register_exclusion(__file__)


@traceback_util.api_boundary
def linear_call(
    fun: Callable, fun_transpose: Callable, residual_args: Any, linear_args: Any
) -> Any:
    """Calls a linear function with a custom transpose.

    Args:
      fun: (residual_args, linear_args) -> result, linear in its second argument.
      fun_transpose: (residual_args, cotangent like the result) -> cotangent like `linear_args`,
        linear in its second argument.
      residual_args: tree of arrays. Derivatives by them are those of `fun`.
      linear_args: tree of arrays.

    Returns:
      `fun(residual_args, linear_args)`. Its transpose is a `linear_call` of `fun_transpose`, whose
      transpose is `fun` again.

    >>> from jax.custom_derivatives import linear_call
    >>> def divide(x, y):
    ...   return linear_call(lambda y, x: x / y, lambda y, ct: ct / y, y, x)
    >>> jax.linear_transpose(lambda x: divide(x, 4.), 1.)(8.)[0]
    Array(2., dtype=float32, weak_type=True)
    """
    residuals, res_tree = tree_flatten(residual_args)
    operands, lin_tree = tree_flatten(linear_args)
    res_avals = [typeof(x) for x in residuals]
    lin_avals = [typeof(x) for x in operands]
    info = api_util.debug_info("linear_call fun", fun, (residual_args, linear_args), {})
    callee, consts, out_tree = _trace(fun, info, res_tree, res_avals, lin_tree, lin_avals)
    info_t = api_util.debug_info("linear_call fun_transpose", fun_transpose, (), {})
    store: list[ClosedJaxpr] = []

    def transpose_thunk() -> ClosedJaxpr:
        if not store:
            ct_avals = [a.to_ct_aval() for a in callee.out_avals]
            closed, t_consts, ct_tree = _trace(
                fun_transpose, info_t, res_tree, res_avals, out_tree, ct_avals
            )
            if t_consts:
                raise TypeError(
                    f"linear_call: fun_transpose ({info_t.func_src_info}) closes over a traced value. "
                    "Pass it in residual_args."
                )
            _check_transpose(ct_tree, closed.out_avals, lin_tree, lin_avals)
            # It also takes the constants of `fun`, so that both functions have the same residuals.
            store.append(_with_leading_args(closed, [typeof(c) for c in consts]))
        return store[0]

    outs = linear_call_p.bind(
        *consts,
        *residuals,
        *operands,
        callee=callee,
        num_callee_consts=len(consts),
        num_res=len(residuals),
        transpose_thunk=transpose_thunk,
    )
    return tree_unflatten(out_tree, outs)


def _trace(fun, info, res_tree, res_avals, lin_tree, lin_avals):
    """Trace `fun` to a jaxpr of (closed-over tracers, residuals, operands); those, its out tree."""
    n = res_tree.num_leaves
    trees = []

    def flat(*args):
        out, tree = tree_flatten(
            fun(tree_unflatten(res_tree, args[:n]), tree_unflatten(lin_tree, args[n:]))
        )
        trees.append(tree)
        return out

    closed, consts = pe.trace_to_closed(flat, [*res_avals, *lin_avals], info)
    return closed, consts, trees[0]


def _check_transpose(tree, avals, lin_tree, lin_avals) -> None:
    if tree != lin_tree:
        raise TypeError(
            "linear_call: the result of fun_transpose must have the tree structure of linear_args, "
            f"{lin_tree}, got {tree}."
        )
    for got, lin in zip(avals, lin_avals):
        want = lin.to_ct_aval()
        if not core.typematch(got, want):
            raise TypeError(
                "linear_call: the result of fun_transpose must have the types of linear_args, got "
                f"{got.str_short()} for {want.str_short()}."
            )


def _with_leading_args(closed: ClosedJaxpr, avals: list) -> ClosedJaxpr:
    """Add leading arguments to a jaxpr, which it does not use."""
    if not avals:
        return closed
    jaxpr = closed.jaxpr
    invars = [*(core.Var(a) for a in avals), *jaxpr.invars]
    info = jaxpr.debug_info.with_unknown_names()
    return ClosedJaxpr(jaxpr.replace(invars=invars, debug_info=info), closed.consts)


linear_call_p = Primitive("linear_call", multiple_results=True)


def _types(*avals, callee, **_):
    return callee.out_avals, callee.effects


linear_call_p.def_effectful_abstract_eval(_types)


def _impl(*args, callee, **_):
    return [late.to_array(x) for x in core.jaxpr_as_fun(callee)(*args)]


linear_call_p.def_impl(_impl)


def _jvp(primals, tangents, *, callee, num_callee_consts, num_res, transpose_thunk):
    n = num_callee_consts + num_res
    params = dict(
        callee=callee, num_callee_consts=num_callee_consts, num_res=num_res, transpose_thunk=transpose_thunk
    )  # fmt: skip
    zero = lambda t: type(t) is ad.Zero
    if all(map(zero, tangents[:n])):
        outs = linear_call_p.bind(*primals, **params)
        of_residuals = [ad.zero_of(x) for x in outs]
    else:
        # By what it is linear in no derivative of `fun` is taken, whose transpose would not be the custom one.
        nonzeros = [not zero(t) for t in tangents[:n]] + [False] * (len(primals) - n)
        both, _ = ad.jvp_jaxpr(callee, nonzeros, True)
        given = [t for t in tangents[:n] if not zero(t)]
        results = core.jaxpr_as_fun(both)(*primals, *given)
        count = len(callee.out_avals)
        outs, of_residuals = results[:count], results[count:]
    if all(map(zero, tangents[n:])):
        return outs, of_residuals
    lin = [ad.instantiate_zeros(t) for t in tangents[n:]]
    of_linear = linear_call_p.bind(*primals[:n], *lin, **params)
    return outs, [ad_util.add_tangents(a, b) for a, b in zip(of_linear, of_residuals)]


linear_call_p.jvp = _jvp


def _transpose(cts, *args, callee, num_callee_consts, num_res, transpose_thunk):
    n = num_callee_consts + num_res
    outs = linear_call_p.bind(
        *args[:n],
        *map(ad.instantiate_zeros, cts),
        callee=transpose_thunk(),
        num_callee_consts=num_callee_consts,
        num_res=num_res,
        transpose_thunk=lambda: callee,
    )
    return [None] * n + [ct if ad.is_undefined_primal(x) else None for ct, x in zip(outs, args[n:])]


linear_call_p.transpose = _transpose


def _batch(axis_data, args, dims, *, callee, num_callee_consts, num_res, transpose_thunk):
    n = num_callee_consts + num_res
    args = [
        x if i < n and d is None else batching.bdim_at_front(x, d, axis_data.size)
        for i, (x, d) in enumerate(zip(args, dims))
    ]
    res_batched = [d is not None for d in dims[:n]]

    def batched(closed):
        num_linear = len(closed.in_avals) - n
        return batching.batch_jaxpr(closed, axis_data, res_batched + [True] * num_linear, True)[0]

    outs = linear_call_p.bind(
        *args,
        callee=batched(callee),
        num_callee_consts=num_callee_consts,
        num_res=num_res,
        transpose_thunk=lambda: batched(transpose_thunk()),
    )
    return outs, [0] * len(outs)


linear_call_p.axis_batch = _batch


def _lowering(ctx, *args, callee, **_):
    return mlir.lower_jaxpr_inline(ctx, callee, "", *args)


mlir.register_lowering(linear_call_p, _lowering)
