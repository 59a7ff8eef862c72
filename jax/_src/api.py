"""The transformations users call: `jit`, `make_jaxpr`, and by name those of the modules beside."""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from jax._src import api_util, config, core, pjit, source_info_util, traceback_util
from jax._src.api_util import check_callable, flatten_fun
from jax._src.core import ShapeDtypeStruct, Tracer
from jax._src.derivatives import (
    VJP as VJP,
    NotNeeded as NotNeeded,
    fwd_and_bwd as fwd_and_bwd,
    grad as grad,
    jvp as jvp,
    linear_transpose as linear_transpose,
    linearize as linearize,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from jax._src.interpreters import partial_eval as pe
from jax._src.jacobians import (
    hessian as hessian,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
)
from jax._src.sharding_impls import UNSPECIFIED
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.util import clear_all_caches, wraps
from jax._src.vmap import vmap as vmap

traceback_util.register_exclusion(__file__)
api_boundary = traceback_util.api_boundary


class NotSpecified:
    """The place of the function in `jit(static_argnums=...)`, used as a decorator."""

    def __repr__(self) -> str:
        return "<not-specified>"


_not_specified = NotSpecified()


def jit(
    fun: Callable = _not_specified, /, *, in_shardings: Any = UNSPECIFIED,
    out_shardings: Any = UNSPECIFIED, static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None, keep_unused: bool = False,
    device: Any = None, backend: str | None = None, inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
):  # fmt: skip
    """Compile a function with XLA, once for each type of its arguments.

    Args:
      fun: a pure function of arrays, numbers and pytrees of them. Without it, a decorator is returned.
      in_shardings: shardings of the arguments: a tree prefix of the tuple of arguments.
      out_shardings: shardings of the results: a tree prefix of the result.
      static_argnums: positions of arguments that are hashable Python values, not arrays; the function
        is compiled anew for each value.
      static_argnames: the same by name.
      donate_argnums: positions of arguments whose memory the call may use for its results; they are
        deleted.
      donate_argnames: the same by name.
      keep_unused: keep arguments that the function does not use in the compiled program.
      device: device to compile for (prefer `in_shardings`).
      backend: platform to compile for.
      inline: whether, inside other traced functions, the body is put in place of the call.
      compiler_options: XLA options by name.

    Returns:
      A function with the same meaning. It has `trace`, `lower`, `eval_shape` and `clear_cache`.

    Raises:
      TypeError: for an argument that is neither an array nor static.
      ValueError: for positions or names the function does not have.

    >>> @jax.jit
    ... def selu(x, alpha=1.67, scale=1.05):
    ...   return scale * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)
    >>> selu(jnp.array([1., 2.]))
    Array([1.05, 2.1 ], dtype=float32)
    """
    options = dict(
        in_shardings=in_shardings, out_shardings=out_shardings, static_argnums=static_argnums,
        static_argnames=static_argnames, donate_argnums=donate_argnums,
        donate_argnames=donate_argnames, keep_unused=keep_unused, device=device, backend=backend,
        inline=inline, compiler_options=compiler_options,
    )  # fmt: skip
    if isinstance(fun, NotSpecified):
        return lambda fun: jit(fun, **options)
    check_callable(fun)
    return pjit.make_jit(fun, **options)


@contextmanager
def disable_jit(disable: bool = True):
    """Context manager: run jitted functions (and control flow) operation by operation.

    >>> @jax.jit
    ... def f(x):
    ...   y = x * 2
    ...   print("y is", y)
    ...   return y + 3
    >>> with jax.disable_jit():
    ...   print(f(1))
    y is 2
    5
    """
    with config.disable_jit(disable):
        yield


# Staging


def make_jaxpr(
    fun: Callable, static_argnums: int | Sequence[int] = (), axis_env: Sequence | None = None,
    return_shape: bool = False,
) -> Callable:  # fmt: skip
    """A function that returns the jaxpr of `fun` for given arguments.

    Args:
      fun: function of arrays and pytrees.
      static_argnums: positions of arguments that are not traced.
      axis_env: pairs of names and sizes of axes in scope.
      return_shape: whether to return the types of the results too.

    Returns:
      A function of the same arguments (values or `ShapeDtypeStruct`s) returning a `ClosedJaxpr`, or a
      pair of it and a tree of `ShapeDtypeStruct`.

    >>> jax.make_jaxpr(lambda x: jnp.sin(x) * 2.)(1.)
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }
    """
    check_callable(fun)
    static_argnums = api_util.ensure_index_tuple(static_argnums)
    if static_argnums:
        sig = api_util.fun_signature(fun)
        api_util.check_argnums_names(fun, sig, static_argnums, (), "static")

    @wraps(fun)
    @api_boundary
    def make_jaxpr_f(*args, **kwargs):
        statics = {i + len(args) if i < 0 else i for i in static_argnums}
        for i in statics:
            if i < len(args):
                api_util.check_hashable_static([args[i]])
        dyn = tuple(a for i, a in enumerate(args) if i not in statics)

        def call(*dyn_args, **kw):
            it = iter(dyn_args)
            return fun(*[args[i] if i in statics else next(it) for i in range(len(args))], **kw)

        flat, in_tree = tree_flatten((dyn, kwargs))
        flat_fun, out_tree = flatten_fun(call if statics else fun, in_tree)
        api_util.check_may_trace(fun, "make_jaxpr")
        info = api_util.debug_info(
            "make_jaxpr", fun, args, kwargs, static_argnums=static_argnums,
            result_paths_thunk=api_util.result_paths_thunk(out_tree),
        )  # fmt: skip
        avals = [api_util.shaped_abstractify(x) for x in flat]
        with core.extend_axis_env_nd(axis_env or ()):
            jaxpr, out_avals, consts = pe.trace_to_jaxpr_dynamic(flat_fun, avals, info)
        tree = out_tree()
        closed = core.ClosedJaxpr(jaxpr, consts)
        if return_shape:
            return closed, tree_unflatten(tree, [ShapeDtypeStruct.from_aval(a) for a in out_avals])
        return closed

    make_jaxpr_f.__name__ = f"make_jaxpr({getattr(fun, '__name__', 'fun')})"
    return make_jaxpr_f


@api_boundary
def eval_shape(fun: Callable, *args, **kwargs):
    """Shapes and dtypes of the result of a function, without computing it.

    Args:
      fun: function of arrays and pytrees.
      *args, **kwargs: arguments: arrays, or `ShapeDtypeStruct`s in their place.

    Returns:
      A tree like the result, of `ShapeDtypeStruct`.

    >>> jax.eval_shape(lambda a, x: jnp.dot(a, x), jnp.ones((20, 30)), jnp.ones(30))
    ShapeDtypeStruct(shape=(20,), dtype=float32)
    """
    if hasattr(fun, "eval_shape") and hasattr(fun, "_jit_state"):
        return fun.eval_shape(*args, **kwargs)
    check_callable(fun)
    flat, in_tree = tree_flatten((args, kwargs))
    avals = [api_util.shaped_abstractify(x) for x in flat]
    try:
        key = (in_tree, tuple(avals), config.trace_context())
        table = api_util.trace_table(fun)
        cached = table.get(("eval_shape", key))
    except TypeError:
        table, cached = None, None
    if cached is None:
        api_util.check_may_trace(fun, "eval_shape")
        flat_fun, out_tree = flatten_fun(fun, in_tree)
        info = api_util.debug_info("eval_shape", fun, args, kwargs)
        _, out_avals, consts = pe.trace_to_jaxpr_dynamic(flat_fun, avals, info)
        cached = (out_tree(), [ShapeDtypeStruct.from_aval(a) for a in out_avals])
        if table is not None and not any(isinstance(c, Tracer) for c in consts):
            table[("eval_shape", key)] = cached
    return tree_unflatten(*cached)


# Names, caches


@contextmanager
def named_scope(name: str):
    """Context manager and decorator that adds `name` to the names of operations.

    The names show in profiles and in the compiled program.

    >>> @jax.jit
    ... def layer(w, x):
    ...   with jax.named_scope("dot_product"):
    ...     logits = w.dot(x)
    ...   return logits
    """
    if not isinstance(name, str):
        raise TypeError("named_scope name argument must be a string.")
    with source_info_util.extend_name_stack(name) as name_stack:
        yield name_stack


def named_call(fun: Callable, *, name: str | None = None) -> Callable:
    """`fun` with `name` (by default its own) added to the names of its operations."""
    check_callable(fun)
    name = getattr(fun, "__name__", "fun") if name is None else name
    return wraps(fun)(lambda *args, **kwargs: _in_scope(name, fun, args, kwargs))


def _in_scope(name, fun, args, kwargs):
    with source_info_util.extend_name_stack(name):
        return fun(*args, **kwargs)


def clear_caches() -> None:
    """Forget everything cached: traces, lowerings and compiled programs."""
    clear_all_caches()
