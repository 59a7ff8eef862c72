"""The public transformations: `jit`, `make_jaxpr` and, by name, those of `jax._src.transforms`."""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from jax._src import api_util, config, core, dtypes, source_info_util, traceback_util
from jax._src.api_util import check_callable
from jax._src.core import ShapeDtypeStruct
from jax._src.device_put.functions import device_put as device_put
from jax._src.jit import jitted
from jax._src.lazy_names import lazy_names
from jax._src.lib import jax_jit
from jax._src.sharding_impls import UNSPECIFIED
from jax._src.transforms.derivatives import (
    VJP as VJP,
    GradRef as GradRef,
    NotNeeded as NotNeeded,
    fwd_and_bwd as fwd_and_bwd,
    grad as grad,
    jvp as jvp,
    linear_transpose as linear_transpose,
    linearize as linearize,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from jax._src.transforms.jacobians import (
    hessian as hessian,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
    std_basis,
)
from jax._src.transforms.vmap import vmap as vmap
from jax._src.tree_util import default_registry, tree_unflatten
from jax._src.util import clear_all_caches, wraps

traceback_util.register_exclusion(__file__)
api_boundary = traceback_util.api_boundary


class NotSpecified:
    """The default of `fun` in `jit(static_argnums=...)`, which is used as a decorator."""

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
      fun: a pure function of arrays, numbers and pytrees of them. Without it, returns a decorator.
      in_shardings: shardings of the arguments: a tree prefix of the tuple of arguments.
      out_shardings: shardings of the results: a tree prefix of the result.
      static_argnums: positions of arguments that are hashable Python values, not arrays; the function
        is compiled again for each distinct value.
      static_argnames: the same, by name.
      donate_argnums: positions of arguments whose memory may be reused for the results; they are
        deleted.
      donate_argnames: the same, by name.
      keep_unused: whether the compiled program keeps arguments that the function does not use.
      device: device to compile for (prefer `in_shardings`).
      backend: platform to compile for.
      inline: whether the body replaces the call when another function that calls it is traced.
      compiler_options: XLA options by name.

    Returns:
      A function with the same semantics. It has `trace`, `lower`, `eval_shape` and `clear_cache`.

    Raises:
      TypeError: for an argument that is neither an array nor static.
      ValueError: for positions or names that are not parameters of the function.

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
    return jitted.make_jit(fun, **options)


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
    """Return a function that computes the jaxpr of `fun` for given arguments.

    Args:
      fun: function of arrays and pytrees.
      static_argnums: positions of arguments that are not traced.
      axis_env: pairs of names and sizes of axes in scope.
      return_shape: whether to return the types of the results as well.

    Returns:
      A function of the same arguments (values or `ShapeDtypeStruct`s) returning a `ClosedJaxpr`, or a
      pair of it and a tree of `ShapeDtypeStruct`s.

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
        statics = api_util.normalize_argnums(static_argnums, len(args))
        api_util.check_hashable_static([args[i] for i in statics if i < len(args)])
        with core.extend_axis_env_nd(axis_env or ()):
            traced = _trace(fun, args, kwargs, static_argnums)
        tree, out_avals = traced.out_tree, traced.jaxpr.out_avals
        closed = core.ClosedJaxpr(traced.jaxpr, traced.consts)
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
      A tree like the result, with a `ShapeDtypeStruct` for each array.

    >>> jax.eval_shape(lambda a, x: jnp.dot(a, x), jnp.ones((20, 30)), jnp.ones(30))
    ShapeDtypeStruct(shape=(20,), dtype=float32)
    """
    if (state := jitted.state_of(fun)) is not None:
        return state.eval_shape(*args, **kwargs)
    check_callable(fun)
    traced = _trace(fun, args, kwargs)
    return tree_unflatten(
        traced.out_tree, [ShapeDtypeStruct.from_aval(a) for a in traced.jaxpr.out_avals]
    )


def _trace(fun: Callable, args: tuple, kwargs: dict, static_argnums: Sequence[int] = ()):
    """Trace a call as `jit` does; the arguments may be values or types."""
    signature, flat = jax_jit.parse_arguments(
        args, tuple(kwargs.values()), tuple(kwargs), static_argnums, (), default_registry
    )
    avals = tuple([api_util.shaped_abstractify(x) for x in flat])
    if core.high_types_in_use.value:
        avals = core.with_qdds(avals, flat)
    return jitted.trace_function(fun, args, kwargs, signature, avals, static_argnums, explains=True)


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
    """Add `name` (by default that of `fun`) to the names of the operations of `fun`."""
    check_callable(fun)
    name = getattr(fun, "__name__", "fun") if name is None else name
    run = lambda *args, **kwargs: _in_scope(name, fun, args, kwargs)
    return wraps(fun)(traceback_util.api_boundary(run))


def _in_scope(name, fun, args, kwargs):
    with source_info_util.extend_name_stack(name):
        return fun(*args, **kwargs)


def clear_caches() -> None:
    """Forget everything cached: traces, lowerings and compiled programs."""
    clear_all_caches()


# Names that outside code imports; `device_put` and `GradRef` above are two more.
_dtype, _std_basis = dtypes.dtype, std_basis
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax._src.stacked_arrays": ("device_put_replicated", "device_put_sharded"),
        "jax._src.xla_bridge": ("clear_backends",),
    },
)
