"""The primitive of `jit`: compilation and execution of a call, and the rules."""

from collections.abc import Sequence
from typing import Any

from jax._src import (
    cache_misses,
    config,
    core,
    sharding_impls,
    source_info_util,
    special_values,
    traceback_util,
)
from jax._src.core import ClosedJaxpr, Primitive
from jax._src.interpreters import lojax, mlir, partial_eval as pe, pxla
from jax._src.interpreters.calls import CallRules
from jax._src.interpreters.operand_meshes import mesh_of_operands
from jax._src.late_binding import late
from jax._src.layout import Layout, get_layout_for_vmap
from jax._src.lib import _jax
from jax._src.sharding_impls import UNSPECIFIED, UnspecifiedValue
from jax._src.sharding_impls.meshes import use_concrete_mesh
from jax._src.tree_util import dispatch_registry, tree_flatten, tree_structure

traceback_util.register_exclusion(__file__)


def lower(
    params: dict, args: Sequence[Any], *, platforms=None, private_parameters=None, transform="jit"
):  # fmt: skip
    """Lower a call of `jit_p`; `args` may be values or types.

    `transform` is the name of the function that the user called, for errors.
    """
    if params["jaxpr"].is_high:
        low = lojax.lower_jaxpr(params["jaxpr"])
        params = with_jaxpr(params, low.closed, low.in_sources, low.result_sources())
        args = low.lower_args_or_types(args)
    donated = params["donated_invars"]
    if special_values.needs_check_special():  # a program that gives NaNs runs again
        donated = (False,) * len(donated)
    request = pxla.Request(
        name=params["name"],
        args=args,
        in_shardings=params["in_shardings"],
        out_shardings=params["out_shardings"],
        in_layouts=params["in_layouts"],
        out_layouts=params["out_layouts"],
        donated=donated,
        keep_unused=params["keep_unused"],
        ctx_mesh=params["ctx_mesh"],
        compiler_options_kvs=params["compiler_options_kvs"],
        api_name=transform,
    )
    return pxla.lower(
        params["jaxpr"], request, platforms=platforms, lowering_parameters=private_parameters
    )


def call_compiled(
    args: list,
    params: dict,
    transform: str = "jit",
    is_operation: bool = False,
    is_prompt: bool = False,
) -> tuple[list, Any]:
    """Run a call of `jit_p` on concrete arguments; returns the results and the executable.

    `transform` is the name of the function that the user called, for errors, and `is_operation`
    says that this is an operation such as a primitive, `is_prompt` that it runs in this thread if
    that is faster. The executable is None if it is for this call only, whose devices are those of the
    functions that are running, or if every call has to come here.
    """
    if config.no_execution.value:  # raise before compiling
        pxla.raise_no_execution(params["name"])
    ran = None
    if config.debug_key_reuse.value and hasattr(late, "use_keys"):  # else there are no keys yet
        ran = late.use_keys(params, args)
    cache = params["jaxpr"]._cache
    checks = special_values.needs_check_special()
    kind = "checked" if checks else "prompt" if is_prompt else "executable"
    key = (kind, pxla.placement_key(args), _hashable_params(params), config.trace_context())
    executable = cache.get(key)
    if executable is None:
        computation = lower(params, args, transform=transform)
        mesh = mesh_of_operands(computation.mesh, args)
        if mesh is not None:
            with use_concrete_mesh(mesh):
                params = dict(params, ctx_mesh=mesh)
                return call_compiled(args, params, transform, is_operation, is_prompt)[0], None
        if cache_misses.are_wanted() and not computation.is_compiled():
            cache_misses.explain_compilation(params, key, list(cache))
        if config.enable_pgle.value:
            profiler = cache["latencies", key] = _latencies().new_profiler()
            executable = computation.compile(pgle_profiler=profiler)
        else:
            executable = computation.compile(may_improve=not is_operation, is_prompt=is_prompt)
        cache[key] = executable
    if checks:
        run, closed, name = executable.unsafe_call, params["jaxpr"], params["name"]
        outs = special_values.run_checked(run, args, closed, name, is_operation)
    elif config.enable_pgle.value:
        outs, executable = _run_measured(executable, args, params, key)
    else:
        outs = executable.unsafe_call(*args)
    if ran is not None:  # uses of keys are counted in Python, at every call
        ran(outs)
        return outs, None
    return outs, executable


def _run_measured(executable: Any, args: list, params: dict, key: tuple) -> tuple[list, Any]:
    """Run a program for `jax_enable_pgle`: measure the first runs, then compile it with the latencies.

    Returns the results, and the executable, or None as long as runs are measured.
    """
    cache = params["jaxpr"]._cache
    profiler = cache["latencies", key]
    if not profiler.is_fdo_consumed() and (profile := profiler.consume_fdo_profile()) is not None:
        devices = executable.unsafe_call.devices
        if profile := _latencies().shared_profile(profile, params["name"], devices):
            options = {"fdo_profile": profile}
            executable = lower(params, args).compile(options, pgle_profiler=profiler)
            cache[key] = executable
    with profiler.trace(profiler):
        outs = executable.unsafe_call(*args)
        if profiler.is_running():
            for out in outs:
                if hasattr(out, "block_until_ready"):  # values of float0 are not on devices
                    out.block_until_ready()
    return outs, None if profiler.is_enabled() and not profiler.is_fdo_consumed() else executable


def native_call_data(
    executable: Any, outs: list, tree: Any, args: Any, may_be_native: bool = True
) -> tuple[Any, bool]:
    """What a native callable needs to run a program by itself, after a run of it.

    Args:
      executable: the program, or None if it was for that call only.
      outs: its flat results.
      tree: the tree of results.
      args: its flat arguments.
      may_be_native: whether these arguments could be those of a native call.

    Returns:
      The data, or None, and whether the callable is to ask for them again at the next call.
    """
    # Read first: the program may become final before the data are made, which then are None for good.
    is_final = executable is None or executable.is_final
    data = pxla.fastpath_data(executable, outs, tree, args) if may_be_native else None
    return data, data is None and (not is_final or config.enable_pgle.value)


def _latencies() -> Any:
    """The module that measures runs, which most programs do not use."""
    from jax._src.profiler import latencies

    return latencies


def _check_native_call(call, args: tuple, kwargs: dict, result: Any) -> None:
    """Called by jaxlib after each native call while checks for NaNs or infinities are enabled.

    Arguments are lost only if the program was compiled ahead of time, while no check was enabled:
    other programs are compiled again, without donation.
    """
    if special_values.first_kind(tree_flatten(result)[0]) is None:
        return
    flat = tree_flatten((args, kwargs))[0]
    if any(map(special_values.is_deleted, flat)):
        # Programs of primitives have no name
        name = getattr(call, "__name__", "a compiled function")
        special_values.run_checked(lambda *_: tree_flatten(result)[0], flat, None, name)
    call._cache_miss(*args, **kwargs)


late.native_call_check = _check_native_call


def _hashable_params(params: dict) -> tuple:
    return tuple(v for k, v in params.items() if k != "jaxpr")


def _eager_call(params: dict):
    """A native callable for `jit_p` on concrete arguments, cached on the jaxpr."""
    cache = params["jaxpr"]._cache
    key = ("eager", _hashable_params(params))
    call = cache.get(key)
    if call is None:
        if params["jaxpr"].is_high:
            return lambda *args: jit_p.to_lojax(*args, **params)
        kept = dict(params, jaxpr=None)
        jaxpr = core.weak_jaxpr(params["jaxpr"])  # its cache refers to this callable

        def cache_miss(*args):
            core.check_eval_args(args)
            outs, executable = call_compiled(list(args), dict(kept, jaxpr=jaxpr()))
            tree = tree_structure(list(outs))
            return list(outs), *native_call_data(executable, outs, tree, args)

        call = cache[key] = _jax.pjit(
            params["name"], None, cache_miss, [], [], (), dispatch_registry, pxla.shard_arg_fallback
        )
    return call


# The primitive

jit_p = Primitive("jit", multiple_results=True)
pjit_p = jit_p


def _jit_impl(*args, **params):
    if config.disable_jit.value:
        return special_values.run_one_by_one(params["jaxpr"], args)
    return _eager_call(params)(*args)


jit_p.def_impl(_jit_impl)


def _hoist(args, params):
    if params["jaxpr"].consts:
        closed, tracers = pe.hoist_tracers(params["jaxpr"])
        if tracers:
            n, outs = len(args), range(len(closed.out_avals))
            params = with_jaxpr(params, closed, [*[None] * len(tracers), *range(n)], outs)
            args = (*tracers, *args)
    return args, params


pe.def_hoisting(jit_p, _hoist)


def staging_rule(trace, source_info, *args, **params):
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
    if trace.requires_low and closed.is_high:
        return NotImplemented
    return trace.add_eqn(
        jit_p, [trace.to_atom(x) for x in args], closed.out_avals, params, closed.effects
    )


pe.custom_staging_rules[jit_p] = staging_rule


def call_params(jaxpr: ClosedJaxpr, name: str) -> dict:
    """The parameters of a call without options."""
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


def with_jaxpr(params: dict, jaxpr: ClosedJaxpr, in_kept: Sequence, out_kept: Sequence) -> dict:
    """Parameters for a jaxpr, given the index of each input and output in the old one, or None."""
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


class _JitRules(CallRules):
    def params_for(self, params, closed, ins, outs):
        return with_jaxpr(params, closed, ins, outs)

    def keeping_args(self, params, kept=None):
        donated = params["donated_invars"]
        kept = range(len(donated)) if kept is None else kept
        return dict(
            params, donated_invars=tuple([d and i not in kept for i, d in enumerate(donated)])
        )

    def transposed_params(self, params):
        # A cotangent of a result has the sharding of the result; one of an argument, the
        # argument's.
        n = len(params["in_shardings"]) + len(params["out_shardings"])
        return dict(
            params,
            in_shardings=params["in_shardings"] + params["out_shardings"],
            in_layouts=params["in_layouts"] + params["out_layouts"],
            donated_invars=(False,) * n,
            out_shardings=params["in_shardings"],
            out_layouts=params["in_layouts"],
        )

    def batched_params(self, params, axis_data, dims, out_dims):
        shardings = params["in_shardings"], params["out_shardings"]
        if axis_data.spmd_name is None and all(
            isinstance(s, UnspecifiedValue) for group in shardings for s in group
        ):
            return params
        in_shardings, out_shardings = [
            tuple([sharding_impls.batched_sharding(s, d, axis_data) for s, d in zip(group, where)])
            for group, where in zip(shardings, (dims, out_dims))
        ]
        in_layouts, out_layouts = [
            tuple([_batched_layout(layout, d) for layout, d in zip(group, where)])
            for group, where in zip((params["in_layouts"], params["out_layouts"]), (dims, out_dims))
        ]
        return dict(
            params,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            in_layouts=in_layouts,
            out_layouts=out_layouts,
        )


def _batched_layout(layout: Any, dim: int | None) -> Any:
    return (
        get_layout_for_vmap(dim, layout)
        if isinstance(layout, Layout) and dim is not None
        else layout
    )


_JitRules(jit_p).install()

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
            context.var_names[v]  # results are named first, since the body reuses their names
        context.suggest_same_var_names(jaxpr.invars, eqn.invars)
        context.suggest_same_var_names(jaxpr.outvars, eqn.outvars)
    names = ["name"] + [n for n in sorted(params) if n != "name"]
    return core.default_pp_eqn(eqn, context, settings, names)


jit_p.pp = _jit_pp


def _jit_lowering(ctx, *args, name, jaxpr, **params):
    return mlir.lower_jit_call(ctx, name, jaxpr, args, **params)


mlir.register_lowering(jit_p, _jit_lowering)
