"""`jit`: tracing, caching and calling compiled functions.

The callable a user holds is C++ (`_jax.pjit`): it finds a compiled program by the arguments' types and
runs it. Python runs on a miss: `_Jit.cache_miss` finds or makes the trace of the function (cached by the
function and the arguments' types), and under no transformation compiles and runs it; under one it binds
`jit_p`, whose rules are at the end of this file.
"""

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import (
    api_util,
    config,
    core,
    dispatch,
    sharding_impls,
    stages,
    trace_misses,
    traceback_util,
)
from jax._src.array_impl import ArrayImpl
from jax._src.core import ClosedJaxpr, Primitive, Tracer, eval_trace, trace_ctx, typeof
from jax._src.core.jaxpr import DebugInfo, fun_source_info
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe, pxla
from jax._src.lib import _jax, jax_jit
from jax._src.mesh import get_concrete_mesh
from jax._src.sharding import Sharding
from jax._src.sharding_impls import UNSPECIFIED, UnspecifiedValue
from jax._src.tree_util import (
    default_registry,
    dispatch_registry,
    tree_flatten,
    tree_structure,
    tree_unflatten,
    treedef_children,
)
from jax._src.util import fun_name, register_cache, wraps

traceback_util.register_exclusion(__file__)


class _TraceEntry:
    """What one trace of a function gave: parameters to bind with, and the shape of the result."""

    __slots__ = ("params", "consts", "out_tree", "in_tree")

    def __init__(self, params, consts, out_tree, in_tree):
        self.params: dict = params
        self.consts: list = consts  # tracers the function closes over
        self.out_tree = out_tree
        self.in_tree = in_tree

    def is_valid(self) -> bool:
        """Whether the tracers closed over are still alive."""
        return api_util.all_valid(self.consts)


_cpp_caches: "weakref.WeakKeyDictionary[Any, dict]" = weakref.WeakKeyDictionary()
_lock = threading.RLock()  # re-entrant: hashing a user's object can run anything


class _ClearTraces:
    @staticmethod
    def cache_clear() -> None:
        api_util.clear_trace_tables()
        _jax.PjitFunctionCache.clear_all()


register_cache(_ClearTraces, "jit traces")


class _Options:
    """The options of one `jit` call; hashable, since they are part of what is cached."""

    __slots__ = (
        "in_shardings", "out_shardings", "static_argnums", "static_argnames", "donate_argnums",
        "donate_argnames", "keep_unused", "inline", "compiler_options", "device", "backend",
        "in_shardings_key", "key",
    )  # fmt: skip


class _Jit:
    """The Python side of one jitted function."""

    def __init__(self, fun: Callable, options: _Options):
        self.fun = fun
        self.options = options
        self.traces = api_util.trace_table(fun)  # shared, so that jit(f) made twice traces once
        self.name = fun_name(fun)
        self.call: Callable[[], Any]  # the C++ callable, if it is still there

    # What the callable has besides being called

    @traceback_util.api_boundary
    def trace(self, *args, **kwargs) -> stages.Traced:
        """Trace the function for these arguments (values or `ShapeDtypeStruct`s)."""
        entry, flat = self.trace_call(args, kwargs)
        return stages.Traced(entry.params, entry.in_tree, entry.out_tree, entry.consts, flat, lower)

    @traceback_util.api_boundary
    def lower(self, *args, **kwargs) -> stages.Lowered:
        """Trace and lower the function for these arguments (values or `ShapeDtypeStruct`s)."""
        return self.trace(*args, **kwargs).lower()

    @traceback_util.api_boundary
    def eval_shape(self, *args, **kwargs):
        """Types of the results for these arguments."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget the function's traces and compiled programs."""
        call = self.call()
        if call is not None:
            call._clear_cache()
        self.traces.clear()

    # From a call to a trace

    def trace_call(self, args, kwargs, abstract: bool = False) -> tuple[_TraceEntry, list]:
        """The trace for a call, and the flat dynamic arguments."""
        opts = self.options
        try:
            signature, flat = jax_jit.parse_arguments(
                args, tuple(kwargs.values()), tuple(kwargs), opts.static_argnums,
                opts.static_argnames, default_registry,
            )  # fmt: skip
        except ValueError:
            api_util.check_hashable_static(
                [args[i] for i in _normalize_nums(opts.static_argnums, len(args)) if i < len(args)]
                + [kwargs[k] for k in opts.static_argnames if k in kwargs]
            )
            raise
        try:
            avals = tuple([typeof(x) for x in flat])
        except TypeError:
            _raise_bad_argument(self.fun, args, kwargs, opts)
            raise
        key = (signature, avals, opts.key, config.trace_context())
        entry = self.traces.get(key)
        if entry is not None and entry.is_valid():
            return entry, flat
        api_util.check_may_trace(self.fun, "jit")
        if config.explain_cache_misses.value:
            self._explain_miss(key, args, kwargs)
        entry = self._make_trace(args, kwargs, avals)
        if not (config.check_tracer_leaks.value and entry.consts):
            self.traces[key] = entry
        return entry, flat

    def _explain_miss(self, key, args, kwargs) -> None:
        opts = self.options

        def arg_names():
            statics = set(_normalize_nums(opts.static_argnums, len(args)))
            dyn_args = tuple(a for i, a in enumerate(args) if i not in statics)
            dyn_kwargs = {k: v for k, v in kwargs.items() if k not in opts.static_argnames}
            tree = tree_structure((dyn_args, dyn_kwargs))
            return api_util.arg_names_thunk(
                self.fun, tree, opts.static_argnums, opts.static_argnames
            )()

        previous = [k for k in self.traces.keys() if type(k[0]) is type(key[0])]
        trace_misses.explain_miss(self.fun, key, previous, arg_names)

    def _make_trace(self, args, kwargs, avals) -> _TraceEntry:
        opts, fun = self.options, self.fun
        statics = set(_normalize_nums(opts.static_argnums, len(args)))
        dyn_args = tuple(a for i, a in enumerate(args) if i not in statics)
        dyn_kwargs = {k: v for k, v in kwargs.items() if k not in opts.static_argnames}
        _, in_tree = tree_flatten((dyn_args, dyn_kwargs))
        static_kwargs = {k: v for k, v in kwargs.items() if k in opts.static_argnames}

        def call(*dyn_args, **dyn_kwargs):
            it = iter(dyn_args)
            full = [args[i] if i in statics else next(it) for i in range(len(args))]
            return fun(*full, **dyn_kwargs, **static_kwargs)

        flat_fun, out_tree = api_util.flatten_fun(
            call if statics or static_kwargs else fun, in_tree
        )
        info = DebugInfo(
            "jit",
            fun_source_info(fun),
            api_util.arg_names_thunk(fun, in_tree, opts.static_argnums, opts.static_argnames),
            None,
        )
        with dispatch.log_elapsed_time(
            "Finished tracing + transforming {fun_name} for jit in {elapsed_time:.9f} sec",
            self.name,
            dispatch.JAXPR_TRACE_EVENT,
        ):
            jaxpr, out_avals, consts = pe.trace_to_jaxpr_dynamic(flat_fun, avals, info)
        tree = out_tree()
        jaxpr.debug_info = info.with_results(api_util.result_paths_thunk(lambda: tree))
        if any(isinstance(c, Tracer) for c in consts):
            closed = pe.close_jaxpr(pe.convert_constvars_jaxpr(jaxpr))
        else:
            closed, consts = ClosedJaxpr(jaxpr, consts), []
        in_shardings = _flat_shardings(
            "jit in_shardings", opts.in_shardings, in_tree, is_input=True
        )
        out_shardings = _flat_shardings("jit out_shardings", opts.out_shardings, tree)
        in_shardings, in_layouts = _split_formats(in_shardings, avals)
        out_shardings, out_layouts = _split_formats(out_shardings, out_avals)
        n = len(consts)
        params = dict(
            jaxpr=closed,
            in_shardings=(UNSPECIFIED,) * n + in_shardings,
            out_shardings=out_shardings,
            in_layouts=(None,) * n + in_layouts,
            out_layouts=out_layouts,
            donated_invars=(False,) * n
            + api_util.donation_vector(
                [
                    i - sum(s < i for s in statics)
                    for i in _normalize_nums(opts.donate_argnums, len(args))
                ],
                opts.donate_argnames,
                in_tree,
            ),
            ctx_mesh=get_concrete_mesh(),
            name=self.name,
            keep_unused=opts.keep_unused,
            inline=opts.inline,
            compiler_options_kvs=opts.compiler_options,
        )
        return _TraceEntry(params, consts, tree, in_tree)

    # Calling

    @traceback_util.api_boundary
    def cache_miss(self, *args, **kwargs):
        """Called from C++ where it has no program for the arguments."""
        if config.disable_jit.value:
            return self.fun(*args, **kwargs), None, False
        entry, flat = self.trace_call(args, kwargs)
        flat = [*entry.consts, *flat]
        if trace_ctx.trace is not eval_trace:
            outs = jit_p.bind(*flat, **entry.params)
            return tree_unflatten(entry.out_tree, outs), None, False
        core.check_eval_args(flat)
        outs, executable = call_compiled(flat, entry.params)
        result = tree_unflatten(entry.out_tree, outs)
        fastpath = None
        if not entry.consts:
            fastpath = pxla.fastpath_data(executable, outs, entry.out_tree, flat)
        return result, fastpath, False


def _normalize_nums(nums, n: int) -> tuple[int, ...]:
    return tuple(i + n if i < 0 else i for i in nums)


def _raise_bad_argument(fun, args, kwargs, opts):
    """Raise the error that names the argument which is not an array."""
    statics = set(_normalize_nums(opts.static_argnums, len(args)))
    dyn = tuple(a for i, a in enumerate(args) if i not in statics)
    kw = {k: v for k, v in kwargs.items() if k not in opts.static_argnames}
    names = api_util.arg_names_thunk(
        fun, tree_structure((dyn, kw)), opts.static_argnums, opts.static_argnames
    )()
    leaves = tree_flatten((dyn, kw))[0]
    for name, x in zip(names, leaves):
        if not core.valid_jaxtype(x):
            raise TypeError(
                f"Error interpreting argument to {fun} as an abstract array. The problematic value is of "
                f"type {type(x)} and was passed to the function at path {name}.\n"
                "This typically means that a jit-wrapped function was called with a non-array argument, "
                "and this argument was not marked as static using the static_argnums or static_argnames "
                "parameters of jax.jit."
            ) from None


def _flat_shardings(name: str, tree: Any, value_tree, is_input: bool = False) -> tuple:
    """One sharding for each leaf of `value_tree` (for inputs: of its positional part, kwargs after)."""
    if isinstance(tree, UnspecifiedValue):
        return (UNSPECIFIED,) * value_tree.num_leaves
    if is_input:
        args_tree, kwargs_tree = treedef_children(value_tree)
        if isinstance(tree, Sharding) or tree is None or sharding_impls.is_leaf_sharding(tree):
            flat = [tree] * value_tree.num_leaves
        else:
            if kwargs_tree.num_leaves:
                raise ValueError(
                    "pjit does not support kwargs when in_shardings is specified: pass the arguments by "
                    "position."
                )
            flat = api_util.flatten_axes(name, args_tree, tree, tupled_args=True)
    else:
        flat = api_util.flatten_axes(name, value_tree, tree)
    return tuple(sharding_impls.canonicalize_jit_sharding(s, name) for s in flat)


def _split_formats(shardings, avals) -> tuple[tuple, tuple]:
    """Shardings and layouts from a mixture of shardings and `Format`s."""
    outs, layouts = [], []
    for s, aval in zip(shardings, avals):
        layout = None
        if hasattr(s, "layout") and hasattr(s, "sharding"):
            layout, s = s.layout, s.sharding
            s = UNSPECIFIED if s is None else s
        if isinstance(s, Sharding):
            s.check_compatible_aval(aval.shape)
        outs.append(s)
        layouts.append(layout)
    return tuple(outs), tuple(layouts)


# Compiling and running


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


dispatch.set_native_call_check(_check_native_call)


def _any_deleted(args) -> bool:
    return any(isinstance(x, ArrayImpl) and x.is_deleted() for x in args)


def _cannot_run_again(err: dispatch.InternalFloatingPointError) -> FloatingPointError:
    return FloatingPointError(
        f"{err}. Because an argument of {err.name} was donated, it cannot be run again to find the"
        " operation: run it without donation."
    )


def _hashable_params(params: dict) -> tuple:
    return tuple(v for k, v in params.items() if k != "jaxpr")


def _eager_call(params: dict):
    """A C++ callable for `jit_p` on concrete arguments, kept on the jaxpr."""
    cache = params["jaxpr"]._cache
    key = ("eager", _hashable_params(params))
    call = cache.get(key)
    if call is None:
        kept = dict(params)

        def cache_miss(*args):
            core.check_eval_args(args)
            outs, executable = call_compiled(list(args), kept)
            tree = tree_structure(list(outs))
            return list(outs), pxla.fastpath_data(executable, outs, tree, args), False

        call = cache[key] = _jax.pjit(
            params["name"], None, cache_miss, [], [], (), dispatch_registry, pxla.shard_arg_fallback
        )
    return call


def make_primitive_call(fun: Callable, name: str, **options):
    """A C++ callable that compiles `fun`, a function of arrays that binds one primitive."""
    state = _Jit(fun, make_options(None, fun=fun, **options) if options else _default_options())
    state.name = name
    return _cpp_callable(state)


# Making jitted functions


def _cpp_callable(state: _Jit):
    opts = state.options
    return _jax.pjit(
        state.name,
        state.fun,
        state.cache_miss,
        list(opts.static_argnums),
        list(opts.static_argnames),
        (),
        dispatch_registry,
        pxla.shard_arg_fallback,
        _cpp_cache(state),
    )


def _cpp_cache(state: _Jit):
    """Compiled programs of equal functions and options are shared."""
    try:
        with _lock:
            caches = _cpp_caches.setdefault(state.fun, {})
            if state.options.key not in caches:
                caches[state.options.key] = _jax.PjitFunctionCache(4096)
            return caches[state.options.key]
    except TypeError:
        return _jax.PjitFunctionCache(4096)


@functools.cache
def _default_options() -> _Options:
    return make_options(None)


def make_options(
    sig, *, in_shardings=UNSPECIFIED, out_shardings=UNSPECIFIED, static_argnums=None,
    static_argnames=None, donate_argnums=None, donate_argnames=None, keep_unused=False, device=None,
    backend=None, inline=False, compiler_options=None, fun=None,
) -> _Options:  # fmt: skip
    """Options of `jit`, checked.

    Raises:
      ValueError, TypeError: for arguments the function does not have, and options that exclude each other.
    """
    if device is not None or backend is not None:
        if not (
            isinstance(in_shardings, UnspecifiedValue)
            and isinstance(out_shardings, UnspecifiedValue)
        ):
            raise ValueError(
                "If backend or device is specified on jit, then in_shardings and out_shardings should "
                "not be specified."
            )
        if device is not None and backend is not None:
            raise ValueError(
                f"can't specify both a device and a backend for jit, got device={device} and "
                f"backend={backend}"
            )
        from_device = sharding_impls.sharding_of_device_or_backend(device, backend)
        in_shardings = out_shardings = from_device
    if compiler_options is not None and not isinstance(compiler_options, dict):
        raise TypeError(f"compiler_options must be a dictionary, got {compiler_options!r}")
    opts = _Options()
    opts.donate_argnums, opts.donate_argnames, opts.static_argnums, opts.static_argnames = (
        api_util.resolve_argnums(
            fun, sig, donate_argnums, donate_argnames, static_argnums, static_argnames
        )
    )
    opts.in_shardings = in_shardings
    opts.out_shardings = out_shardings
    opts.keep_unused = bool(keep_unused)
    opts.inline = bool(inline)
    opts.device = device
    opts.backend = backend
    opts.compiler_options = tuple(sorted(compiler_options.items())) if compiler_options else ()
    shardings = tuple(
        (tuple(tree_flatten(s, is_leaf=lambda x: x is None)[0]), str(tree_structure(s)))
        for s in (in_shardings, out_shardings)
    )
    opts.key = (
        shardings, opts.static_argnums, opts.static_argnames, opts.donate_argnums,
        opts.donate_argnames, opts.keep_unused, opts.inline, opts.compiler_options,
    )  # fmt: skip
    hash(opts.key)
    return opts


def make_jit(fun: Callable, **options):
    """The jitted form of `fun`; see `jax.jit`."""
    if any(v is not None for k, v in options.items() if "arg" in k):
        sig = api_util.fun_signature(fun)
    else:
        sig = None
    state = _Jit(fun, make_options(sig, fun=fun, **options))
    call = _cpp_callable(state)
    wrapped = wraps(fun)(call)
    _attach(wrapped, state)
    return wrapped


def _attach(call, state: _Jit) -> None:
    state.call = weakref.ref(call)
    call.trace = state.trace
    call.lower = state.lower
    call.eval_shape = state.eval_shape
    call.clear_cache = state.clear_cache
    call._fun = state.fun
    call._jit_state = state


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
    if params["inline"] and all(
        isinstance(s, UnspecifiedValue) for s in (*params["in_shardings"], *params["out_shardings"])
    ):
        return core.eval_jaxpr(closed.jaxpr, closed.consts, *args, propagate_source_info=False)
    return trace.add_eqn(
        jit_p, [trace.to_atom(x) for x in args], closed.out_avals, params, closed.effects
    )


pe.custom_staging_rules[jit_p] = _staging_rule


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
    if split.known.out_avals:
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


dispatch.jit_hook = make_primitive_call
