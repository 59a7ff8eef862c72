"""`jit`: tracing, caching and calling compiled functions.

The callable that a user gets is native (`_jax.pjit`): it finds a compiled program by the types of
the arguments and runs it. On a miss it calls Python: `Jitted.cache_miss` finds or makes the trace of
the function (cached by the function and the types of the arguments). In eager execution it then
compiles the trace and runs it; inside a transformation it binds `jit_p` (see `jit.primitive`).
"""

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax._src import (
    api_util,
    cache_misses,
    config,
    core,
    dispatch,
    sharding_impls,
    stages,
    traceback_util,
    util,
)
from jax._src.compiler import check_compiler_options
from jax._src.core import (
    ClosedJaxpr,
    ShapeDtypeStruct,
    Tracer,
    eval_trace,
    trace_ctx,
    typeof,
)
from jax._src.core.jaxpr import DebugInfo, fun_source_info
from jax._src.interpreters import partial_eval as pe, pxla
from jax._src.jit.primitive import call_compiled, jit_p, lower, native_call_data, pjit_p as pjit_p
from jax._src.late_binding import late
from jax._src.layout import Format, Layout
from jax._src.lib import _jax, jax_jit
from jax._src.mesh import get_concrete_mesh
from jax._src.sharding import Sharding
from jax._src.sharding_impls import UNSPECIFIED, UnspecifiedValue
from jax._src.tree_util import (
    default_registry,
    dispatch_registry,
    paths_of,
    tree_flatten,
    tree_leaves,
    tree_structure,
    tree_unflatten,
    treedef_children,
)
from jax._src.util import JITTED_METHODS, fun_name, register_cache, wraps

traceback_util.register_exclusion(__file__)


class TraceEntry:
    """One trace of a function: what a call of it binds.

    Attributes:
      params: the parameters to bind `jit_p` with.
      consts: the tracers that the function closes over; they come before the other arguments.
      out_tree: the tree of the result.
      in_tree: the tree of the dynamic arguments.
    """

    __slots__ = ("params", "consts", "out_tree", "in_tree")

    def __init__(self, params, consts, out_tree, in_tree):
        self.params: dict = params
        self.consts: list = consts
        self.out_tree = out_tree
        self.in_tree = in_tree

    def arg_names(self) -> tuple:
        """Names of the flat arguments, from the function's signature."""
        avals = self.params["jaxpr"].in_avals
        return self.params["jaxpr"].debug_info.safe_arg_names(len(avals))[len(self.consts) :]

    def is_valid(self) -> bool:
        """Whether the traces of the closed-over tracers are still in progress."""
        return api_util.all_valid(self.consts)


_cpp_caches: "weakref.WeakKeyDictionary[Any, dict]" = weakref.WeakKeyDictionary()
_lock = threading.RLock()  # re-entrant: hashing a user's object can run any code


class _ClearTraces:
    @staticmethod
    def cache_clear() -> None:
        api_util.clear_trace_tables()
        _jax.PjitFunctionCache.clear_all()  # those of live jitted functions
        with _lock:
            for caches in list(_cpp_caches.values()):
                for cache in caches.values():
                    cache.clear()


register_cache(_ClearTraces, "jit traces")


class OptionsKey(NamedTuple):
    """What of the options of `jit` is part of cache keys; shardings are given by leaves and tree."""

    in_shardings: tuple[tuple, str]
    out_shardings: tuple[tuple, str]
    static_argnums: tuple[int, ...]
    static_argnames: tuple[str, ...]
    donate_argnums: tuple[int, ...]
    donate_argnames: tuple[str, ...]
    keep_unused: bool
    inline: bool
    compiler_options: tuple
    of_transform: tuple = ()  # what `pjit` and `pmap` add


class Options:
    """The options of a `jit` call, normalized; `key` is what of them is part of cache keys."""

    __slots__ = (
        "in_shardings", "out_shardings", "static_argnums", "static_argnames", "donate_argnums",
        "donate_argnames", "keep_unused", "inline", "compiler_options", "device", "backend", "key",
    )  # fmt: skip


class Jitted:
    """The Python side of one jitted function: what the native callable calls on a miss.

    `pjit`, `pmap` and the library's own jitted functions subclass it; `callable_of` makes the
    callable of an instance. A subclass may override the class attributes below, and

      make_trace: makes the `TraceEntry` of a call that has none yet.
      trace_call: finds or makes it.
      cache_miss: runs a call for which the native callable has no program.
      trace, lower, eval_shape: the methods of the callable.

    What determines its programs besides the function and the options, it adds to `options.key`, as
    `of_transform`.

    Args:
      fun: the function.
      options: those of the call of `jit`, from `make_options`.

    Attributes:
      transform: the name of the function that made it, for error messages.
      static_options: the options of that function that mark arguments as static.
      canonicalize: converts one of the user's shardings.
      uncompiled: what is called while `jax_disable_jit` is set; `fun` by default.
      is_operation: whether it is an operation of the library, such as a primitive.
      is_prompt: whether it runs in the thread that calls it if that is faster, see `pxla.prompt_operations`.
      without: the methods that the callable does not have.
    """

    transform = "jit"
    is_operation = False
    is_prompt = False
    without: tuple[str, ...] = ()
    static_options = "static_argnums or static_argnames parameters of jax.jit"
    canonicalize = staticmethod(sharding_impls.canonicalize_jit_sharding)

    def __init__(self, fun: Callable, options: Options):
        self.fun = fun
        self.options = options
        self.traces = api_util.trace_table(fun)  # shared by all jitted forms of `fun`
        self.name = fun_name(fun)
        self.uncompiled = fun
        self.call: Callable[[], Any]  # returns the native callable, or None if it was collected

    # Attributes of the jitted function

    @traceback_util.api_boundary
    def trace(self, *args, **kwargs) -> stages.Traced:
        """Trace the function for these arguments (values or `ShapeDtypeStruct`s)."""
        entry, flat = self.trace_call(args, kwargs, abstract=True)
        lower_call = functools.partial(lower, transform=self.transform)
        return stages.Traced(
            entry.params, entry.in_tree, entry.out_tree, entry.consts, flat, lower_call
        )

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

    # Tracing

    def trace_call(self, args, kwargs, abstract: bool = False) -> tuple[TraceEntry, list]:
        """The trace for a call, and its flat dynamic arguments; they may be types if `abstract`."""
        opts = self.options
        try:
            signature, flat = jax_jit.parse_arguments(
                args, tuple(kwargs.values()), tuple(kwargs), opts.static_argnums,
                opts.static_argnames, default_registry,
            )  # fmt: skip
        except ValueError:
            api_util.check_hashable_static(
                [args[i] for i in opts.static_argnums if -len(args) <= i < len(args)]
                + [kwargs[k] for k in opts.static_argnames if k in kwargs]
            )
            raise
        try:
            if abstract:
                avals = tuple([api_util.shaped_abstractify(x) for x in flat])
            else:
                avals = tuple([typeof(x) for x in flat])
                if ShapeDtypeStruct in map(type, flat):
                    raise TypeError("a type where a value is needed")
        except (TypeError, OverflowError):
            self.check_arguments(args, kwargs)
            raise
        if core.high_types_in_use.value:
            avals = core.with_qdds(avals, flat)
        key = (signature, avals, opts.key, config.trace_context())
        entry = self.traces.get(key)
        if entry is not None and entry.is_valid():
            return entry, flat
        api_util.check_can_be_key(self.fun)
        if cache_misses.are_wanted():
            names = lambda: _arg_names(self.fun, args, kwargs, opts)
            cache_misses.explain_trace(self.fun, key, self.traces.keys(), names)
        entry = self.make_trace(args, kwargs, signature, avals)
        if not (config.check_tracer_leaks.value and entry.consts):
            self.traces[key] = entry
        return entry, flat

    def check_arguments(self, args, kwargs) -> None:
        """Raise an error that names the argument that is not an array, if there is one."""
        fun, opts = self.fun, self.options
        statics = set(_normalize_nums(opts.static_argnums, len(args)))
        dyn = tuple(a for i, a in enumerate(args) if i not in statics)
        kw = {k: v for k, v in kwargs.items() if k not in opts.static_argnames}
        for name, x in zip(_arg_names(fun, args, kwargs, opts), tree_leaves((dyn, kw))):
            if type(x) is ShapeDtypeStruct:
                raise TypeError(
                    f"Argument {name!r} of shape {typeof(x).str_short()} of type {type(x)} is not a valid JAX "
                    "type: it is only a type. Pass a value, or use the function's `lower`, `trace` or "
                    "`eval_shape`."
                ) from None
            try:
                typeof(x)
            except OverflowError as err:
                raise OverflowError(
                    "An overflow was encountered while parsing an argument to a jitted computation, "
                    f"whose argument path is {name}. {err}"
                ) from None
            except TypeError:
                raise TypeError(
                    f"Error interpreting argument to {fun} as an abstract array. The problematic value is "
                    f"of type {type(x)} and was passed to the function at path {name}.\n"
                    f"This typically means that a {self.transform}-wrapped function was called with a non-array "
                    "argument, and this argument was not marked as static using the "
                    f"{self.static_options}."
                ) from None

    def make_trace(self, args, kwargs, signature, avals) -> TraceEntry:
        """Trace the function for a call.

        Args:
          args, kwargs: the arguments.
          signature: their trees and the static values, from `jax_jit.parse_arguments`.
          avals: the types of the flat dynamic arguments.
        """
        opts = self.options
        traced = trace_function(
            self.fun, args, kwargs, signature, avals, opts.static_argnums, opts.static_argnames
        )
        closed, consts, tree = traced.closed, traced.hoisted, traced.out_tree
        in_shardings = _flat_shardings(
            f"{self.transform} in_shardings",
            opts.in_shardings,
            traced.in_tree,
            self.canonicalize,
            is_input=True,
        )
        out_shardings = _flat_shardings(
            f"{self.transform} out_shardings", opts.out_shardings, tree, self.canonicalize
        )
        n = len(consts)
        info, out_avals = traced.jaxpr.debug_info, traced.jaxpr.out_avals
        in_shardings, in_layouts = _split_formats(
            in_shardings,
            avals,
            f"{self.transform} arguments",
            lambda: info.safe_arg_names(len(avals)),
        )
        out_shardings, out_layouts = _split_formats(
            out_shardings,
            out_avals,
            f"{self.transform} outputs",
            lambda: info.safe_result_paths(len(out_avals)),
        )
        statics = set(_normalize_nums(opts.static_argnums, len(args)))
        donated = [
            i - sum(s < i for s in statics)
            for i in _normalize_nums(opts.donate_argnums, len(args))
            if i not in statics
        ]
        params = dict(
            jaxpr=closed,
            in_shardings=(UNSPECIFIED,) * n + in_shardings,
            out_shardings=out_shardings,
            in_layouts=(None,) * n + in_layouts,
            out_layouts=out_layouts,
            donated_invars=(False,) * n
            + api_util.donation_vector(donated, opts.donate_argnames, traced.in_tree),
            ctx_mesh=get_concrete_mesh(),
            name=self.name,
            keep_unused=opts.keep_unused,
            inline=opts.inline,
            compiler_options_kvs=opts.compiler_options,
        )
        return TraceEntry(params, consts, tree, traced.in_tree)

    # Calling

    @traceback_util.api_boundary
    def cache_miss(self, *args, **kwargs):
        """Called by the native callable if it has no program for the arguments."""
        util.test_event("jit_cpp_cache_miss")
        if config.disable_jit.value:
            return self.fun(*args, **kwargs), None, False
        entry, flat = self.trace_call(args, kwargs)
        if core.AbstractRef in map(type, entry.params["jaxpr"].in_avals):
            pe.check_ref_aliasing(
                self.transform, self.fun, flat, entry.consts, lambda: entry.arg_names()
            )
        flat = [*entry.consts, *flat]
        if trace_ctx.trace is not eval_trace:
            outs = jit_p.bind(*flat, **entry.params)
            return tree_unflatten(entry.out_tree, outs), None, False
        core.check_eval_args(flat)
        if entry.params["jaxpr"].is_high:
            outs = jit_p.to_lojax(*flat, **entry.params)
            return tree_unflatten(entry.out_tree, outs), None, False
        outs, executable = call_compiled(
            flat, entry.params, self.transform, self.is_operation, self.is_prompt
        )
        result = tree_unflatten(entry.out_tree, outs)
        return result, *native_call_data(executable, outs, entry.out_tree, flat, not entry.consts)


class TracedFunction:
    """The result of tracing a function: jaxpr, constants, and trees of arguments and results."""

    __slots__ = ("jaxpr", "consts", "in_tree", "out_tree", "_closed")

    def __init__(self, jaxpr, consts, in_tree, out_tree):
        self.jaxpr: core.Jaxpr = jaxpr
        self.consts: list = consts
        self.in_tree = in_tree
        self.out_tree = out_tree
        self._closed: ClosedJaxpr | None = None

    @property
    def hoisted(self) -> list:
        """The constants that are arguments of `closed`: all, if there is a tracer among them."""
        return self.consts if any(map(core.is_tracer_or_ref, self.consts)) else []

    @property
    def closed(self) -> ClosedJaxpr:
        """The jaxpr that `jit` calls, closed over concrete values only; always the same object."""
        if self._closed is None:
            if self.hoisted:
                self._closed = pe.close_jaxpr(pe.convert_constvars_jaxpr(self.jaxpr))
            else:
                self._closed = ClosedJaxpr(self.jaxpr, self.consts)
        return self._closed


def trace_function(
    fun: Callable, args: tuple, kwargs: dict, signature, avals: tuple, static_argnums=(),
    static_argnames=(), explains: bool = False,
) -> TracedFunction:  # fmt: skip
    """Trace a function for a call, or find its trace, which `jit` and `make_jaxpr` share.

    Args:
      fun: the function.
      args, kwargs: the arguments.
      signature: their trees and the static values, from `jax_jit.parse_arguments`.
      avals: the types of the flat dynamic arguments.
      static_argnums, static_argnames: the arguments that are not traced.
      explains: whether to tell why there is no trace, if somebody wants to know.
    """
    statics = api_util.normalize_argnums(static_argnums, len(args))
    table = api_util.trace_table(fun)
    key = ("traced", signature, avals, statics, config.trace_context())
    traced = table.get(key)
    if traced is not None and api_util.all_valid(traced.consts):
        return traced
    if explains and cache_misses.are_wanted():
        names = lambda: (
            api_util.debug_info(
                "jit", fun, args, kwargs, static_argnums=statics, static_argnames=static_argnames
            ).arg_names
        )
        options = _default_options().key
        as_of_call = lambda k: (k[1], k[2], options._replace(static_argnums=k[3]), k[4])
        keys = [as_of_call(k) for k in list(table.keys()) if k[0] == "traced"]
        cache_misses.explain_trace(fun, as_of_call(key), keys, names)
    api_util.check_may_trace(fun, "jit")
    flat_fun, in_tree, out_tree, info = flat_function(
        "jit", fun, args, kwargs, statics, static_argnames
    )
    with log_tracing(fun, "jit"):
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat_fun, avals, info)
    traced = TracedFunction(jaxpr, consts, in_tree, out_tree())
    if not (config.check_tracer_leaks.value and any(isinstance(c, Tracer) for c in consts)):
        table[key] = traced
    return traced


def flat_function(
    transform: str, fun: Callable, args: tuple, kwargs: dict, statics: Sequence[int],
    static_argnames: Sequence[str] = (),
) -> tuple[Callable, Any, Callable[[], Any], DebugInfo]:  # fmt: skip
    """A function of the flat arguments of a call that are not static.

    Args:
      transform: the name of the function that traces, such as "jit".
      fun: the function.
      args, kwargs: the arguments.
      statics: the positions of static arguments, not negative.
      static_argnames: their names.

    Returns:
      The flat function; the tree of its arguments; a function that returns the tree of the result,
      once the flat function has been called; and the names of arguments and results.
    """
    dyn_args = tuple(a for i, a in enumerate(args) if i not in statics)
    dyn_kwargs = {k: v for k, v in kwargs.items() if k not in static_argnames}
    static_kwargs = {k: v for k, v in kwargs.items() if k in static_argnames}
    _, in_tree = tree_flatten((dyn_args, dyn_kwargs))

    def call(*dyn_args, **dyn_kwargs):
        it = iter(dyn_args)
        full = [args[i] if i in statics else next(it) for i in range(len(args))]
        return fun(*full, **dyn_kwargs, **static_kwargs)

    flat_fun, out_tree = api_util.flatten_fun(call if statics or static_kwargs else fun, in_tree)
    info = DebugInfo(
        transform,
        fun_source_info(fun),
        api_util.arg_names_thunk(
            fun, in_tree, statics, paths=paths_of((dyn_args, dyn_kwargs), in_tree)
        ),
        api_util.result_paths_thunk(out_tree),
    )
    return flat_fun, in_tree, out_tree, info


def log_tracing(fun: Callable, transform: str) -> Any:
    """Context manager: log and record how long it takes to trace a function.

    What is traced while another function is, is part of its time.
    """
    trace = trace_ctx.trace
    while trace is not None:
        if isinstance(trace, pe.DynamicJaxprTrace):
            return contextlib.nullcontext()
        trace = getattr(trace, "parent", None)
    return dispatch.log_elapsed_time(
        "Finished tracing + transforming {fun_name} for "
        + transform
        + " in {elapsed_time:.9f} sec",
        fun_name(fun),
        dispatch.JAXPR_TRACE_EVENT,
    )


def _normalize_nums(nums, n: int) -> tuple[int, ...]:
    return tuple(i + n if i < 0 else i for i in nums)


def _arg_names(fun, args, kwargs, opts) -> tuple[str | None, ...]:
    """Names of the flat dynamic arguments of a call, from the function's signature."""
    info = api_util.debug_info(
        "jit", fun, args, kwargs, static_argnums=opts.static_argnums,
        static_argnames=opts.static_argnames,
    )  # fmt: skip
    return info.arg_names


def _flat_shardings(
    name: str, tree: Any, value_tree, canonicalize: Callable, is_input: bool = False
) -> tuple:
    """One sharding per leaf of `value_tree`; for inputs, `tree` is a prefix of the args tuple."""
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
            if type(tree) is list:
                tree = tuple(tree)
            flat = api_util.flatten_axes(name, args_tree, tree, tupled_args=True)
    else:
        flat = api_util.flatten_axes(name, value_tree, tree)
    return tuple(canonicalize(s, name) for s in flat)


def _split_formats(shardings, avals, what: str, names: Callable) -> tuple[tuple, tuple]:
    """Separate the layouts of `Format`s from shardings; `names` returns those of the values."""
    outs, layouts = [], []
    for i, (s, aval) in enumerate(zip(shardings, avals)):
        layout = None
        if isinstance(s, Format):
            layout, s = s.layout, s.sharding
            s = UNSPECIFIED if s is None else s
        if isinstance(s, Sharding):
            _check_fits(s, "sharding", aval, what, names, i)
            pxla.check_divisible((s,), (aval,), what, lambda i=i: [names()[i]])
        if isinstance(layout, Layout):
            _check_fits(layout, "layout", aval, what, names, i)
        outs.append(s)
        layouts.append(layout)
    return tuple(outs), tuple(layouts)


def _check_fits(annotation, kind: str, aval, what: str, names: Callable, i: int) -> None:
    """Raise ValueError if a sharding or layout is for values of another rank."""
    try:
        annotation.check_compatible_aval(aval.shape)
    except ValueError as err:
        name = names()[i]
        path = f" with pytree key path {name}" if name else ""
        raise ValueError(
            f"One of {what}{path} is incompatible with its {kind} annotation {annotation}: {err}"
        ) from None


# Making jitted functions


def _native_callable(state: Jitted):
    opts = state.options
    return _jax.pjit(
        state.name,
        state.uncompiled,
        state.cache_miss,
        list(opts.static_argnums),
        list(opts.static_argnames),
        (),
        dispatch_registry,
        pxla.shard_arg_fallback,
        _cpp_cache(state),
    )


def _cpp_cache(state: Jitted):
    """The cache of compiled programs, shared by jitted forms of equal functions and options."""
    if "_own_traces" in getattr(state.fun, "__dict__", ()):
        return _jax.PjitFunctionCache(4096)
    try:
        with _lock:
            caches = _cpp_caches.setdefault(state.fun, {})
            if state.options.key not in caches:
                caches[state.options.key] = _jax.PjitFunctionCache(4096)
            return caches[state.options.key]
    except TypeError:
        return _jax.PjitFunctionCache(4096)


@functools.cache
def _default_options() -> Options:
    return make_options(None)


def make_options(
    sig, *, in_shardings=UNSPECIFIED, out_shardings=UNSPECIFIED, static_argnums=None,
    static_argnames=None, donate_argnums=None, donate_argnames=None, keep_unused=False, device=None,
    backend=None, inline=False, compiler_options=None, fun=None, transform="jit",
) -> Options:  # fmt: skip
    """Check and normalize the options of `jit`.

    Raises:
      ValueError, TypeError: for arguments that the function does not have, and for conflicting
        options.
    """
    if device is not None or backend is not None:
        if not all(
            s is None or isinstance(s, UnspecifiedValue) for s in (in_shardings, out_shardings)
        ):
            raise ValueError(
                f"If backend or device is specified on {transform}, then in_shardings and "
                "out_shardings should not be specified."
            )
        if device is not None and backend is not None:
            raise ValueError(
                f"can't specify both a device and a backend for {transform}, got device={device} and "
                f"backend={backend}"
            )
        from_device = sharding_impls.sharding_of_device_or_backend(device, backend)
        in_shardings = out_shardings = from_device
    if compiler_options is not None:
        check_compiler_options(compiler_options)
    opts = Options()
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
    opts.key = OptionsKey(
        *shardings, opts.static_argnums, opts.static_argnames, opts.donate_argnums,
        opts.donate_argnames, opts.keep_unused, opts.inline, opts.compiler_options,
    )  # fmt: skip
    hash(opts.key)  # raises TypeError here, not in the first call
    return opts


def make_jit(fun: Callable, python_side: type[Jitted] = Jitted, **options):
    """The jitted form of `fun`; see `jax.jit`."""
    if any(v is not None for k, v in options.items() if "arg" in k):
        sig = api_util.fun_signature(fun)
    else:
        sig = None
    made = make_options(sig, fun=fun, transform=python_side.transform, **options)
    return callable_of(python_side(fun, made))


def callable_of(state: Jitted):
    """The native callable that a user gets: named as the function, with the methods of `jit`."""
    call = wraps(state.fun)(_native_callable(state))
    give_methods(call, state)
    call._fun = state.fun
    return call


def give_methods(call: Any, state: Jitted) -> None:
    """Gives a native callable the methods of jitted functions."""
    state.call = weakref.ref(call)
    call._jit_state = state


def state_of(fun: Any) -> Jitted | None:
    """The Python side of a jitted function; None of other functions, also of those that wrap one."""
    state: Jitted | None = getattr(fun, "_jit_state", None)
    return state if state is not None and state.call() is fun else None


# The methods of jitted functions belong to the native class: a wrapper such as `jax.grad(jax.jit(f))`
# gets the attributes of the function that it wraps, but must not lower that one in its place.
def _method(name: str) -> property:
    def get(call: Any) -> Any:
        state = state_of(call)
        if state is None or name in state.without:
            # of an operation, or of `custom_jvp` and the like; or of `pmap`, which has no `trace`
            raise AttributeError(f"{call!r} has no attribute {name!r}: it is not a result of jit")
        return getattr(state, name)

    return property(get)


for _name in JITTED_METHODS:
    setattr(_jax.PjitFunction, _name, _method(_name))


class _Operation(Jitted):
    is_operation = True
    is_prompt = True


def make_primitive_call(fun: Callable, name: str, **options):
    """A native callable that compiles `fun`, a function of arrays that binds a primitive."""
    options = make_options(None, fun=fun, **options) if options else _default_options()
    state = _Operation(fun, options)
    state.name = name
    return _native_callable(state)


late.compile_eager = make_primitive_call
