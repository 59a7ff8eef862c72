"""Forward rules that are replaced by their function if the residuals are not used.

The forward pass inside `checkpoint` stores nothing, so `custom_vjp` functions with
`optimize_remat=True` run the function there instead of the forward rule. Such a rule is a separate
equation that also has the function; dead code elimination replaces it.
"""

from collections.abc import Callable
from typing import Any

from jax._src import core, dtypes
from jax._src.ad_util import Zero
from jax._src.core import ClosedJaxpr, Primitive, typeof
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.interpreters.split_rules import CallSplitRules
from jax._src.interpreters.splitting import keep_or_drop
from jax._src.jit.primitive import call_params, jit_p
from jax._src.late_binding import late
from jax._src.lax.control_flow.common import rearranged, share_consts

# Operands: closed-over values, then arguments. Results: residuals, then the function's results. The
# function takes the same operands, and returns its results only.
remat_opt_p = Primitive("remat_opt", multiple_results=True)


class OptimizedFwd:
    """A forward rule with flat arguments, as a single equation."""

    def __init__(self, fwd: Callable, fun: Callable, symbolic_zeros: bool):
        self.fwd, self.fun, self.symbolic_zeros = fwd, fun, symbolic_zeros

    def __getattr__(self, name):
        return getattr(self.__dict__["fwd"], name)

    def __call__(self, *args):
        flags, args = (), args
        if self.symbolic_zeros:
            n = len(args) // 2
            flags, args = args[:n], args[n:]
        avals = [typeof(x) for x in args]
        fun_jaxpr, _, fun_consts = pe.trace_to_jaxpr_dynamic(self.fun, avals, self.fun.debug_info)
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(lambda *xs: self.fwd(*flags, *xs), avals)
        (fwd, fun), consts = share_consts([jaxpr, fun_jaxpr], [consts, fun_consts])
        operands = [*consts, *args]
        fwd, forwarded = _forwarded(fwd, len(fwd.out_avals) - len(fun.out_avals))
        outs = iter(
            remat_opt_p.bind(
                *operands,
                fun_jaxpr_thunk=_Function(self.fwd.primal_name, lambda: fun),
                fwd_jaxpr=fwd,
                num_consts=len(consts),
                num_res=sum(i is None for i in forwarded),
            )
        )
        return [next(outs) if i is None else operands[i] for i in forwarded] + list(outs)


@core.cached_on_jaxpr
def _forwarded(fwd: ClosedJaxpr, num_res: int) -> Any:
    """Remove residuals that are operands; returns the rule and each residual's operand, or None."""
    jaxpr = fwd.jaxpr
    position = {v: i for i, v in enumerate(jaxpr.invars)}
    res, outs = jaxpr.outvars[:num_res], jaxpr.outvars[num_res:]
    which = [None if type(v) is core.Literal else position.get(v) for v in res]
    kept = [v for v, i in zip(res, which) if i is None]
    info = jaxpr.debug_info.with_unknown_names()
    return ClosedJaxpr(jaxpr.replace(outvars=[*kept, *outs], debug_info=info), fwd.consts), which


class _Function:
    """A jaxpr that is made when it is first needed."""

    __slots__ = ("name", "_make", "_jaxpr")

    def __init__(self, name: str, make: Callable[[], ClosedJaxpr]):
        self.name, self._make = name, make
        self._jaxpr: ClosedJaxpr | None = None

    def __call__(self) -> ClosedJaxpr:
        if self._jaxpr is None:
            self._jaxpr = self._make()
        return self._jaxpr

    def then(self, transform: Callable[[ClosedJaxpr], ClosedJaxpr]) -> "_Function":
        return _Function(self.name, lambda: transform(self()))

    def __repr__(self) -> str:
        return self.name


def _types(*_, fwd_jaxpr, **__):
    return fwd_jaxpr.out_avals, fwd_jaxpr.effects


def _apply(*args, fwd_jaxpr, **_):
    return [late.to_array(x) for x in core.jaxpr_as_fun(fwd_jaxpr)(*args)]


def _hoist(args, params):
    closed, tracers = pe.hoist_tracers(params["fwd_jaxpr"])
    if tracers:
        params = dict(
            params, fwd_jaxpr=closed, num_consts=params["num_consts"] + len(tracers),
            fun_jaxpr_thunk=params["fun_jaxpr_thunk"].then(
                lambda fun: _with_leading(fun, tuple(typeof(t) for t in tracers))
            ),
        )  # fmt: skip
        args = (*tracers, *args)
    return args, params


@core.cached_on_jaxpr
def _with_leading(fun: ClosedJaxpr, avals: tuple) -> ClosedJaxpr:
    jaxpr = fun.jaxpr
    info = jaxpr.debug_info.with_unknown_names()
    invars = [*[core.Var(a) for a in avals], *jaxpr.invars]
    return ClosedJaxpr(jaxpr.replace(invars=invars, debug_info=info), fun.consts)


def _jvp(primals, tangents, *, fun_jaxpr_thunk, fwd_jaxpr, num_consts, num_res):
    nonzeros = [type(t) is not Zero for t in tangents]
    n = len(fwd_jaxpr.out_avals)
    # The function and its rule must agree on which results have tangents.
    has_tangent = [a.to_tangent_aval().dtype != dtypes.float0 for a in fwd_jaxpr.out_avals]
    wanted = [i >= num_res and h for i, h in enumerate(has_tangent)]
    jvp, nz_outs = ad.jvp_jaxpr(fwd_jaxpr, nonzeros, wanted)
    num_res_t = sum(nz_outs[:num_res])
    order = [
        *range(num_res), *range(n, n + num_res_t), *range(num_res, n),
        *range(n + num_res_t, len(jvp.out_avals)),
    ]  # fmt: skip
    outs = remat_opt_p.bind(
        *primals,
        *[t for t in tangents if type(t) is not Zero],
        fun_jaxpr_thunk=fun_jaxpr_thunk.then(
            lambda fun: ad.jvp_jaxpr(fun, nonzeros, wanted[num_res:])[0]
        ),
        fwd_jaxpr=rearranged(jvp, tuple(range(len(jvp.in_avals))), tuple(order)),
        num_consts=num_consts,
        num_res=num_res + num_res_t,
    )
    in_place = dict(zip(order, outs))
    t_outs = iter([in_place[i] for i in range(n, len(outs))])
    return [in_place[i] for i in range(n)], [
        next(t_outs) if nz else Zero(a.to_tangent_aval())
        for a, nz in zip(fwd_jaxpr.out_avals, nz_outs)
    ]


def _transpose(cts, *args, fwd_jaxpr, **_):
    return ad.backward_pass(fwd_jaxpr.jaxpr, False, fwd_jaxpr.consts, args, cts)


def _batch(axis_data, args, dims, *, fun_jaxpr_thunk, fwd_jaxpr, num_consts, num_res):
    batched = tuple([d is not None for d in dims])

    def batch(closed):
        return batching.batch_jaxpr(closed, axis_data, batched, True)[0]

    outs = remat_opt_p.bind(
        *[x if d is None else batching.moveaxis(x, d, 0) for x, d in zip(args, dims)],
        fun_jaxpr_thunk=fun_jaxpr_thunk.then(batch),
        fwd_jaxpr=batch(fwd_jaxpr),
        num_consts=num_consts,
        num_res=num_res,
    )
    return outs, [0] * len(outs)


class _OptSplitRules(CallSplitRules):
    """The forward rule as a call of its jaxpr; without its residuals it is a call of the function."""

    depends_on_use = True

    def in_two(self, eqn, plan):
        return None  # the policy is asked about the rule as a whole

    def divide(self, eqn, marked, hoisting):
        if hoisting:
            return None, eqn
        # Tangents among the operands mean that the rule itself is differentiated: use it unchanged.
        fwd, name = eqn.params["fwd_jaxpr"], eqn.params["fun_jaxpr_thunk"].name
        call = eqn.replace(primitive=jit_p, params=call_params(fwd, name))
        return jit_p.split.divide(call, marked, hoisting)

    def dce(self, used_outputs, eqn):
        num_res = eqn.params["num_res"]
        if any(used_outputs[:num_res]) or not any(used_outputs) or pe.has_effects(eqn):
            return keep_or_drop(used_outputs, eqn)
        thunk = eqn.params["fun_jaxpr_thunk"]
        fun = thunk()
        call = eqn.replace(
            primitive=jit_p,
            outvars=eqn.outvars[num_res:],
            params=call_params(fun, thunk.name),
            effects=fun.effects,
        )
        return jit_p.split.dce(used_outputs[num_res:], call)


def _lowering(ctx, *args, fwd_jaxpr, **_):
    return mlir.lower_jaxpr_inline(ctx, fwd_jaxpr, "", *args)


remat_opt_p.def_effectful_abstract_eval(_types)
remat_opt_p.def_impl(_apply)
pe.def_hoisting(remat_opt_p, _hoist)
remat_opt_p.jvp = _jvp
remat_opt_p.split = _OptSplitRules("fwd_jaxpr")
remat_opt_p.transpose = _transpose
remat_opt_p.axis_batch = _batch
mlir.register_lowering(remat_opt_p, _lowering)
