"""The primitive of `jit`: how a call is compiled and run, and its rules."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import config, core, dispatch, sharding_impls, source_info_util, traceback_util
from jax._src.array_impl import ArrayImpl
from jax._src.core import ClosedJaxpr, Primitive
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe, pxla
from jax._src.interpreters.known_part import divide_closed
from jax._src.late_binding import late
from jax._src.lib import _jax
from jax._src.sharding_impls import UNSPECIFIED, UnspecifiedValue
from jax._src.tree_util import dispatch_registry, tree_flatten, tree_structure

traceback_util.register_exclusion(__file__)


def lower(params: dict, args: Sequence[Any], *, platforms=None, private_parameters=None):
    """Lower a call of `jit_p`: `args` are values or types."""
    return pxla.lower(
        params["jaxpr"],
        args=args,
        in_shardings=params["in_shardings"],
        out_shardings=params["out_shardings"],
        in_layouts=params["in_layouts"],
        out_layouts=params["out_layouts"],
        donated=params["donated_invars"],
        name=params["name"],
        keep_unused=params["keep_unused"],
        ctx_mesh=params["ctx_mesh"],
        compiler_options_kvs=params["compiler_options_kvs"],
        platforms=platforms,
    )


def call_compiled(args: list, params: dict):
    """Run a call of `jit_p` on concrete arguments: results and the executable."""
    if config.no_execution.value:  # before compiling for nothing
        pxla.raise_no_execution(params["name"])
    cache = params["jaxpr"]._cache
    key = ("executable", pxla.placement_key(args), _hashable_params(params), config.trace_context())
    executable = cache.get(key)
    if executable is None:
        executable = cache[key] = lower(params, args).compile()
    if config.debug_nans.value or config.debug_infs.value:
        return _call_checked(executable, args, params), executable
    return executable.unsafe_call(*args), executable


def _call_checked(executable, args, params):
    """Run and look for NaNs; on finding one, run again operation by operation to say where."""
    try:
        outs = executable.unsafe_call(*args)
        dispatch.check_special(params["name"], outs)
        return outs
    except dispatch.InternalFloatingPointError as err:
        jaxpr = params["jaxpr"].jaxpr
        if len(jaxpr.eqns) == 1 and not any(core.subjaxprs(jaxpr)):  # nothing smaller to run
            err.name = jaxpr.eqns[0].primitive.name
            raise FloatingPointError(str(err)) from None
        if _any_deleted(args):
            raise _cannot_run_again(err) from None
        print(
            f"A result of the jitted function {params['name']} has an invalid value ({err.ty}). "
            "Running its operations one by one, to find the first that gives one."
        )
        with config.disable_jit(True):
            core.jaxpr_as_fun(params["jaxpr"])(*args)
        raise FloatingPointError(str(err)) from None


def _check_native_call(call, args: tuple, kwargs: dict, result: Any) -> None:
    """What jaxlib calls after each native call while NaNs or infinities are looked for."""
    try:
        name = getattr(call, "__name__", "a compiled function")  # programs of primitives have none
        dispatch.check_special(name, tree_flatten(result)[0])
    except dispatch.InternalFloatingPointError as err:
        if _any_deleted(tree_flatten((args, kwargs))[0]):
            raise _cannot_run_again(err) from None
        call._cache_miss(*args, **kwargs)
        raise FloatingPointError(str(err)) from None


late.native_call_check = _check_native_call


def _any_deleted(args) -> bool:
    return any(type(x) is core.Ref or isinstance(x, ArrayImpl) and x.is_deleted() for x in args)


def _cannot_run_again(err: dispatch.InternalFloatingPointError) -> FloatingPointError:
    return FloatingPointError(
        f"{err}. Because an argument of {err.name} was donated, it cannot be run again to find the"
        " operation: run it without donation."
    )


def _hashable_params(params: dict) -> tuple:
    return tuple(v for k, v in params.items() if k != "jaxpr")


def _weak(closed: ClosedJaxpr) -> Callable[[], ClosedJaxpr]:
    """A function that gives the jaxpr while it lives: for what is kept in its cache."""
    if closed.consts:
        return weakref.ref(closed)  # type: ignore[return-value]
    ref = weakref.ref(closed.jaxpr)
    return lambda: pe.close_jaxpr(ref())


def _eager_call(params: dict):
    """A C++ callable for `jit_p` on concrete arguments, kept on the jaxpr."""
    cache = params["jaxpr"]._cache
    key = ("eager", _hashable_params(params))
    call = cache.get(key)
    if call is None:
        kept = dict(params, jaxpr=None)
        jaxpr = _weak(params["jaxpr"])  # which holds on to this callable

        def cache_miss(*args):
            core.check_eval_args(args)
            outs, executable = call_compiled(list(args), dict(kept, jaxpr=jaxpr()))
            tree = tree_structure(list(outs))
            return list(outs), pxla.fastpath_data(executable, outs, tree, args), False

        call = cache[key] = _jax.pjit(
            params["name"], None, cache_miss, [], [], (), dispatch_registry, pxla.shard_arg_fallback
        )
    return call


# The primitive

jit_p = Primitive("jit", multiple_results=True)
pjit_p = jit_p


def _jit_impl(*args, **params):
    if config.disable_jit.value:
        return core.eval_jaxpr(params["jaxpr"].jaxpr, params["jaxpr"].consts, *args)
    return _eager_call(params)(*args)


jit_p.def_impl(_jit_impl)


def _jit_types(*avals, jaxpr, **_):
    return jaxpr.out_avals, jaxpr.effects


jit_p.def_effectful_abstract_eval(_jit_types)


def _hoist(args, params):
    if params["jaxpr"].consts:
        closed, tracers = pe.hoist_tracers(params["jaxpr"])
        if tracers:
            n, outs = len(args), range(len(closed.out_avals))
            params = _with(params, closed, [*[None] * len(tracers), *range(n)], outs)
            args = (*tracers, *args)
    return args, params


pe.def_hoisting(jit_p, _hoist)


def _staging_rule(trace, source_info, *args, **params):
    closed = params["jaxpr"]
    if params["compiler_options_kvs"]:
        raise ValueError(
            "`compiler_options` can only be passed to top-level `jax.jit`. Got compiler_options="
            f"{dict(params['compiler_options_kvs'])} specified on a nested jit with name: "
            f"{params['name']} and source info: {source_info_util.summarize(source_info)}"
        )
    if params["inline"] and all(
        isinstance(s, UnspecifiedValue) for s in (*params["in_shardings"], *params["out_shardings"])
    ):
        return core.eval_jaxpr(closed.jaxpr, closed.consts, *args, propagate_source_info=False)
    return trace.add_eqn(
        jit_p, [trace.to_atom(x) for x in args], closed.out_avals, params, closed.effects
    )


pe.custom_staging_rules[jit_p] = _staging_rule


def call_params(jaxpr: ClosedJaxpr, name: str) -> dict:
    """Parameters of a plain call of a function."""
    n, m = len(jaxpr.in_avals), len(jaxpr.out_avals)
    return dict(
        jaxpr=jaxpr,
        in_shardings=(UNSPECIFIED,) * n,
        out_shardings=(UNSPECIFIED,) * m,
        in_layouts=(None,) * n,
        out_layouts=(None,) * m,
        donated_invars=(False,) * n,
        ctx_mesh=None,
        name=name,
        keep_unused=False,
        inline=False,
        compiler_options_kvs=(),
    )


def _with(params: dict, jaxpr: ClosedJaxpr, in_kept: Sequence, out_kept: Sequence) -> dict:
    """Parameters for a jaxpr made from the given inputs and outputs of another (by index), then extras."""
    in_sh, out_sh = params["in_shardings"], params["out_shardings"]
    in_lay, out_lay = params["in_layouts"], params["out_layouts"]
    donated = params["donated_invars"]
    return dict(
        params,
        jaxpr=jaxpr,
        in_shardings=tuple(in_sh[i] if i is not None else UNSPECIFIED for i in in_kept),
        out_shardings=tuple(out_sh[i] if i is not None else UNSPECIFIED for i in out_kept),
        in_layouts=tuple(in_lay[i] if i is not None else None for i in in_kept),
        out_layouts=tuple(out_lay[i] if i is not None else None for i in out_kept),
        donated_invars=tuple(donated[i] if i is not None else False for i in in_kept),
    )


def _jit_jvp(primals, tangents, **params):
    closed = params["jaxpr"]
    nonzeros = tuple([type(t) is not ad.Zero for t in tangents])
    jvp, nonzero_outs = ad.jvp_jaxpr(closed, nonzeros)
    ins = [*range(len(primals)), *[i for i, nz in enumerate(nonzeros) if nz]]
    outs = [*range(len(closed.out_avals)), *[i for i, nz in enumerate(nonzero_outs) if nz]]
    results = jit_p.bind(
        *primals, *[t for t in tangents if type(t) is not ad.Zero], **_with(params, jvp, ins, outs)
    )
    n = len(closed.out_avals)
    out_tangents = iter(results[n:])
    return results[:n], [
        next(out_tangents) if nz else ad.Zero(a.to_tangent_aval())
        for a, nz in zip(closed.out_avals, nonzero_outs)
    ]


jit_p.jvp = _jit_jvp


def _jit_linearize(primals, tangents, **params):
    closed = params["jaxpr"]
    nonzeros = tuple([type(t) is not ad.Zero for t in tangents])
    lin = ad.linearize_jaxpr(closed, nonzeros)
    kept_args = {i for kind, i in lin.residual_sources if kind == "in"}
    params["donated_invars"] = tuple(
        [d and i not in kept_args for i, d in enumerate(params["donated_invars"])]
    )
    n = len(closed.out_avals)
    extra = len(lin.primal.out_avals) - n
    results = jit_p.bind(
        *primals,
        **_with(params, lin.primal, range(len(primals)), [*range(n), *[None] * extra]),
    )
    residuals = lin.residuals(primals, results)
    kept = [i for i, nz in enumerate(nonzeros) if nz]
    tangent_params = _with(
        dict(params, donated_invars=(False,) * len(primals)),
        lin.tangent,
        [*[None] * len(residuals), *kept],
        [i for i, nz in enumerate(lin.nonzero_outs) if nz],
    )
    out_tangents = iter(
        jit_p.bind(*residuals, *[tangents[i] for i in kept], **tangent_params)
        if any(lin.nonzero_outs)
        else ()
    )
    return results[:n], [
        next(out_tangents) if nz else ad.Zero(a.to_tangent_aval())
        for a, nz in zip(closed.out_avals, lin.nonzero_outs)
    ]


jit_p.linearize = _jit_linearize


def _jit_record(tape, args, params):
    """Record a call with tangents among its arguments: what is known is computed by a call now."""
    closed = params["jaxpr"]
    linear = tuple([tape.is_linear(x) for x in args])
    if pe.all_dependent(closed, linear):
        return tape.record_eqn(jit_p, args, params)
    split = ad.split_jaxpr(closed, linear)
    known_idx = [i for i, lin in enumerate(linear) if not lin]
    linear_idx = [i for i, lin in enumerate(linear) if lin]
    known_outs = [i for i, dep in enumerate(split.depends) if not dep]
    linear_outs = [i for i, dep in enumerate(split.depends) if dep]
    known_args = [args[i] for i in known_idx]
    results: list = []
    if split.known.out_avals or split.known.effects:
        extra = [None] * (len(split.known.out_avals) - len(known_outs))
        with core.set_current_trace(tape.parent):
            results = jit_p.bind(
                *known_args,
                **_with(
                    dict(params, donated_invars=(False,) * len(args)), split.known, known_idx,
                    [*known_outs, *extra],
                ),
            )  # fmt: skip
    where = {"in": known_args, "res": results[len(known_outs) :]}
    residuals = [where[kind][i] for kind, i in split.residual_sources]
    tangents: list = []
    if linear_outs:
        tangent_params = _with(
            dict(params, donated_invars=(False,) * len(args)), split.tangent,
            [*[None] * len(residuals), *linear_idx], linear_outs,
        )  # fmt: skip
        tangents = tape.record_eqn(
            jit_p, *_hoist((*residuals, *[args[i] for i in linear_idx]), tangent_params)
        )
    known, dependent = iter(results), iter(tangents)
    return [next(dependent) if dep else next(known) for dep in split.depends]


jit_p.record = _jit_record
jit_p.dependence = pe.dependence_of("jaxpr")


def _jit_divide(eqn, known):
    parts = divide_closed(eqn.params["jaxpr"], tuple(known))
    if parts is None:
        return None, eqn
    params = dict(eqn.params, donated_invars=(False,) * len(known))
    known_ins = [i for i, k in enumerate(known) if k]
    known_outs = [i for i, k in enumerate(parts.known_outs) if k]
    rest_ins = [i for i, k in enumerate(parts.rest_ins) if k]
    rest_outs = [i for i, k in enumerate(parts.known_outs) if not k]
    handed = [core.Var(a) for a in parts.known.out_avals[len(known_outs) :]]
    unknown = [None] * len(handed)
    before = eqn.replace(
        invars=[eqn.invars[i] for i in known_ins],
        outvars=[*[eqn.outvars[i] for i in known_outs], *handed],
        params=_with(params, parts.known, known_ins, [*known_outs, *unknown]),
    )
    rest = eqn.replace(
        invars=[*handed, *[eqn.invars[i] for i in rest_ins]],
        outvars=[eqn.outvars[i] for i in rest_outs],
        params=_with(params, parts.rest, [*unknown, *rest_ins], rest_outs),
    )
    return before, rest


jit_p.divide = _jit_divide


def _jit_transpose(cts, *args, **params):
    closed = params["jaxpr"]
    linear = tuple([ad.is_undefined_primal(x) for x in args])
    ct_nonzero = tuple([type(ct) is not ad.Zero for ct in cts])
    transposed, nonzero_outs = ad.transpose_jaxpr(closed, linear, ct_nonzero)
    nonlinear_idx = [i for i, lin in enumerate(linear) if not lin]
    linear_idx = [i for i, lin in enumerate(linear) if lin]
    # A cotangent of a result has the result's sharding; of an argument, the argument's.
    swapped = dict(
        params,
        in_shardings=params["in_shardings"] + params["out_shardings"],
        in_layouts=params["in_layouts"] + params["out_layouts"],
        donated_invars=(False,) * (len(linear) + len(ct_nonzero)),
        out_shardings=params["in_shardings"],
        out_layouts=params["in_layouts"],
    )
    ins = nonlinear_idx + [len(linear) + i for i, nz in enumerate(ct_nonzero) if nz]
    outs = [i for i, nz in zip(linear_idx, nonzero_outs) if nz]
    results = iter(
        jit_p.bind(
            *[args[i] for i in nonlinear_idx],
            *[ct for ct in cts if type(ct) is not ad.Zero],
            **_with(swapped, transposed, ins, outs),
        )
    )
    nonzero = iter(nonzero_outs)
    return [
        (next(results) if next(nonzero) else ad.Zero(x.aval.to_ct_aval())) if lin else None
        for x, lin in zip(args, linear)
    ]


jit_p.transpose = _jit_transpose


def _jit_batch(axis_data, args, dims, **params):
    closed = params["jaxpr"]
    batched, out_dims = batching.batch_jaxpr2(closed, axis_data, dims)
    if axis_data.spmd_name is not None or any(
        not isinstance(s, UnspecifiedValue)
        for s in (*params["in_shardings"], *params["out_shardings"])
    ):
        params = dict(
            params,
            in_shardings=tuple(
                sharding_impls.batched_sharding(s, d, axis_data)
                for s, d in zip(params["in_shardings"], dims)
            ),
            out_shardings=tuple(
                sharding_impls.batched_sharding(s, d, axis_data)
                for s, d in zip(params["out_shardings"], out_dims)
            ),
        )
    return jit_p.bind(*args, **dict(params, jaxpr=batched)), list(out_dims)


jit_p.axis_batch = _jit_batch


def _jit_dce(used_outputs, eqn):
    if not any(used_outputs) and not pe.has_effects(eqn):
        return [False] * len(eqn.invars), None
    closed = eqn.params["jaxpr"]
    jaxpr, used_inputs = pe.dce_jaxpr(closed.jaxpr, used_outputs)
    if jaxpr is closed.jaxpr:
        return used_inputs, eqn
    ins = [i for i, u in enumerate(used_inputs) if u]
    outs = [i for i, u in enumerate(used_outputs) if u]
    if not jaxpr.constvars:
        new_closed = pe.close_jaxpr(jaxpr)
    else:
        key = ("dce closed", jaxpr)
        new_closed = closed._cache.get(key)
        if new_closed is None:
            new_closed = closed._cache[key] = ClosedJaxpr(jaxpr, closed.consts)
    new_eqn = eqn.replace(
        invars=[eqn.invars[i] for i in ins],
        outvars=[eqn.outvars[i] for i in outs],
        params=_with(eqn.params, new_closed, ins, outs),
        effects=jaxpr.effects,
    )
    return used_inputs, new_eqn


jit_p.dce = _jit_dce

_HIDDEN_IF_DEFAULT = {
    "keep_unused": False,
    "inline": False,
    "compiler_options_kvs": (),
}


def _jit_pp(eqn, context, settings):
    params = dict(eqn.params)
    for name, default in _HIDDEN_IF_DEFAULT.items():
        if params[name] == default:
            del params[name]
    for name in ("in_shardings", "out_shardings"):
        if all(isinstance(s, UnspecifiedValue) for s in params[name]):
            del params[name]
    for name in ("in_layouts", "out_layouts"):
        if all(v is None for v in params[name]):
            del params[name]
    if not any(params["donated_invars"]):
        del params["donated_invars"]
    if params["ctx_mesh"] is None or params["ctx_mesh"].empty:
        del params["ctx_mesh"]
    jaxpr = params["jaxpr"].jaxpr
    if jaxpr not in context.shared_jaxprs:
        for v in eqn.outvars:
            context.var_names[v]  # name results before the body, which shares their names
        context.suggest_same_var_names(jaxpr.invars, eqn.invars)
        context.suggest_same_var_names(jaxpr.outvars, eqn.outvars)
    names = ["name"] + [n for n in sorted(params) if n != "name"]
    return core.default_pp_eqn(eqn, context, settings, names)


jit_p.pp = _jit_pp


def _jit_lowering(ctx, *args, name, jaxpr, **params):
    return mlir.lower_jit_call(ctx, name, jaxpr, args, **params)


mlir.register_lowering(jit_p, _jit_lowering)
