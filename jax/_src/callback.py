"""Python functions called by compiled programs: `pure_callback` and `io_callback`."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import (
    config,
    core,
    dispatch,
    dtypes,
    effects,
    special_values,
    traceback_util,
    xla_bridge as xb,
)
from jax._src.array_impl import ArrayImpl, device_sharding
from jax._src.device_put import values as placing
from jax._src.errors import JaxRuntimeError
from jax._src.interpreters import mlir
from jax._src.interpreters.mlir.callbacks import (
    as_results,
    emit_python_callback as emit_python_callback,  # a name that outside code imports
    result_types_of,
)
from jax._src.interpreters.pxla.placement import ignore_shardings_of
from jax._src.sharding_impls import SingleDeviceSharding
from jax._src.transforms.vmap_methods import batch_by_method, check_vmap_method
from jax._src.tree_util import tree_flatten, tree_leaves, tree_unflatten

logger = logging.getLogger(__name__)


# Effects


class IOEffect(effects.Effect):
    """A callback with side effects: it is called exactly as often as the program says."""

    __slots__ = ()
    __str__ = lambda _: "IO"


class OrderedIOEffect(effects.Effect):
    """A callback with side effects that is called after all earlier ordered callbacks."""

    __slots__ = ()
    __str__ = lambda _: "OrderedIO"


_io_effect = IOEffect()
_ordered_io_effect = OrderedIOEffect()
for _kinds in (
    effects.lowerable_effects,
    effects.control_flow_allowed_effects,
    effects.custom_derivatives_allowed_effects,
    effects.exact_effects,
):
    _kinds.add_type(IOEffect)
    _kinds.add_type(OrderedIOEffect)
effects.ordered_effects.add_type(OrderedIOEffect)
effects.shardable_ordered_effects.add_type(OrderedIOEffect)


# The functions called on the host


class FlatCallback:
    """A user's function with flat arguments and a flat result; equal for equal functions."""

    __slots__ = ("callback_func", "in_tree", "name", "_hash")

    def __init__(self, callback_func: Callable[..., Any], in_tree: Any, name: str):
        self.callback_func = callback_func
        self.in_tree = in_tree
        self.name = name
        try:
            self._hash = hash((callback_func, in_tree))
        except TypeError:
            self._hash = id(callback_func)

    def __call__(self, *args: Any) -> list[Any]:
        """Calls the function; NumPy arrays are converted to arrays on the CPU."""
        try:
            with on_host() as put:
                args, kwargs = tree_unflatten(self.in_tree, [put(x) for x in args])
                # Read the results inside the context, where nothing is being traced.
                return [np.asarray(x) for x in tree_leaves(self.callback_func(*args, **kwargs))]
        except BaseException:
            logger.exception("%s failed", self.name)
            raise

    def _key(self) -> tuple[Any, ...]:
        return (self.callback_func, self.in_tree, self.name)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, FlatCallback) and self._key() == other._key())

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"FlatCallback(callback_func={self.callback_func}, in_tree={self.in_tree})"


class on_host:
    """Context of a callback: eager evaluation, with the CPU as the default device.

    It yields a function that copies an array of the runtime, whose memory is only borrowed, into an
    array that the callback may keep.
    """

    __slots__ = ("_contexts",)

    def __enter__(self) -> Callable[[Any], ArrayImpl]:
        device = xb.local_devices(backend="cpu")[0]
        self._contexts = (
            core.eval_context(),
            config.default_device(device),
            config.UserContext(config.abstract_mesh_context_manager, None),
            config.UserContext(config.device_context, None),
        )
        for context in self._contexts:
            context.__enter__()
        sharding = device_sharding(device)
        return lambda x: _put(np.array(x), sharding)

    def __exit__(self, *exc: Any) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*exc)


def _put(x: Any, target: Any) -> ArrayImpl:
    """Put what a callback takes or returns on a device: the user has asked for that."""
    if config.transfers_are_guarded():
        with config.explicit_device_put_scope():
            return placing.device_put_value(x, target, placing.REUSE)
    return placing.device_put_value(x, target, placing.REUSE)


def call_now(
    name: str,
    callback: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    result_avals: Sequence[Any],
    effect: effects.Effect | None = None,
    wrap_errors: bool = True,
) -> list[Any] | None:
    """Calls a callback on concrete arguments directly, without a compiled program.

    `name` is that of the primitive, for errors.
    If `effect` is ordered, it first waits for all earlier callbacks. With `wrap_errors`, an exception
    of the callback becomes a JaxRuntimeError, as in compiled programs.

    Returns:
      Arrays on the device of the arguments; or None if the arguments are on several devices, where
      a compiled program is needed to call it.
    """
    arrays = [x for x in args if type(x) is ArrayImpl]
    shardings = {x._sharding for x in arrays if x._committed}
    if len(shardings) > 1 or any(len(x._sharding.device_set) > 1 for x in arrays):
        return None
    if effect is not None and effects.ordered_effects.contains(effect):
        token = dispatch.runtime_tokens.current_tokens.get(effect)
        if token is not None:
            token.block_until_ready()
    values = [_physical(x) for x in args]
    try:
        outs = as_results(callback(*values), result_types_of(result_avals))
    except Exception as err:
        if not wrap_errors:
            raise
        text = "".join(traceback.format_exception(err))
        raise JaxRuntimeError(f"INTERNAL: CpuCallback error calling callback: {text}") from err
    target = next(iter(shardings), None)
    results = [_put(x, target) for x in outs]
    special_values.check_results(name, args, results)
    return results


def _physical(x: Any) -> np.ndarray:
    aval = core.typeof(x)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        x = x._base_array
    return np.asarray(x, None if type(x) is ArrayImpl else core.physical_aval(aval).dtype)


def _result_avals(result_shape_dtypes: Any) -> tuple[list[core.ShapedArray], Any]:
    leaves, tree = tree_flatten(result_shape_dtypes)
    return [_result_aval(x) for x in leaves], tree


def _result_aval(x: Any) -> core.ShapedArray:
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise TypeError(
            "result_shape_dtypes must be a tree of objects with shape and dtype, as "
            f"jax.ShapeDtypeStruct, got {x!r} of type {type(x)}."
        )
    dtype = x.dtype if isinstance(x.dtype, dtypes.ExtendedDType) else np.dtype(x.dtype)
    if isinstance(dtype, dtypes.ExtendedDType):
        raise TypeError(f"result_shape_dtypes: a callback cannot return arrays of dtype {dtype}.")
    if not config.enable_x64.value and dtypes.canonicalize_dtype(dtype) != dtype:
        raise ValueError(
            f"result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled, got "
            f"{dtype}."
        )
    return core.ShapedArray(tuple(x.shape), dtype)


def _flat_args(name: str, callback: Any, args: Any, kwargs: Any, sharding: Any) -> Any:
    if not callable(callback):
        raise TypeError(f"{name}: callback must be callable, got {callback!r}.")
    if sharding is not None and not isinstance(sharding, SingleDeviceSharding):
        raise NotImplementedError(
            f"{name} supports a SingleDeviceSharding as `sharding`, the device that calls the callback; "
            f"got {sharding}."
        )
    flat, in_tree = tree_flatten((args, kwargs))
    for x in flat:
        if not core.valid_jaxtype(x):
            raise TypeError(
                f"{name}: arguments of the callback must be arrays, numbers or trees of them, got {x!r} "
                f"of type {type(x)}. Close over other values."
            )
    return flat, FlatCallback(callback, in_tree, name)


# Pure callbacks

pure_callback_p = core.Primitive("pure_callback", multiple_results=True)


@traceback_util.api_boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: SingleDeviceSharding | None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a Python function without side effects, also from compiled programs.

    The program may call it more than once, or not at all if its result is not used.

    Args:
      callback: a function from trees of arrays on the CPU to a tree of arrays (NumPy or JAX).
      result_shape_dtypes: the type of its result: a tree whose leaves have `shape` and `dtype`.
      *args, **kwargs: its arguments: trees of arrays.
      sharding: the device that calls it, in a program for several devices.
      vmap_method: how `vmap` calls it for a batch. "sequential": once per example, in a loop;
        "sequential_unrolled": the same without a loop; "expand_dims": once, with a leading
        dimension on all arguments, of size 1 on those that are not mapped; "broadcast_all": once,
        with all arguments broadcast to the batch dimension. None: `vmap` raises an error.

    Returns:
      What the callback returns, as arrays.

    Raises:
      TypeError: an argument is not an array, or a leaf of `result_shape_dtypes` has no shape and dtype.
      ValueError: `vmap_method` is unknown, a result is 64-bit without `jax_enable_x64`, or the
        callback is differentiated (use `jax.custom_jvp` to give it a derivative).
      JaxRuntimeError: the callback raised an exception, whose traceback is in the message, or it
        returned a result of another type.

    >>> f = jax.jit(lambda x: jax.pure_callback(np.sort, x, x, vmap_method="expand_dims"))
    >>> print(f(jnp.array([3., 1., 2.])))
    [1. 2. 3.]
    """
    check_vmap_method(vmap_method)
    flat, flat_callback = _flat_args("jax.pure_callback", callback, args, kwargs, sharding)
    avals, out_tree = _result_avals(result_shape_dtypes)
    outs = pure_callback_p.bind(
        *flat,
        callback=flat_callback,
        result_avals=tuple(avals),
        sharding=sharding,
        vmap_method=vmap_method,
    )
    return tree_unflatten(out_tree, outs)


@pure_callback_p.def_impl
def _pure_impl(*args, callback, result_avals, **params):
    outs = call_now("pure_callback", callback, args, result_avals)
    if outs is None:
        params.update(callback=callback, result_avals=result_avals)
        return dispatch.apply_primitive(pure_callback_p, *args, **params)
    return outs


@pure_callback_p.def_abstract_eval
def _pure_types(*_, result_avals, **__):
    return list(result_avals)


def _pure_jvp(*_, **__):
    raise ValueError(
        "Pure callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks while taking "
        "gradients."
    )


def _pure_transpose(*_, **__):
    raise ValueError(
        "Pure callbacks do not support transpose. Please use `jax.custom_vjp` to use callbacks while "
        "taking gradients."
    )


def _pure_batch(axis_data, args, dims, *, result_avals, vmap_method, **params):
    def call(*xs):
        return pure_callback_p.bind(
            *xs, result_avals=result_avals, vmap_method=vmap_method, **params
        )

    def call_batch(xs, is_mapped, avals):
        return pure_callback_p.bind(
            *xs, result_avals=tuple(avals), vmap_method=vmap_method, **params
        )

    if all(d is None for d in dims):
        return call(*args), [None] * len(result_avals)
    return batch_by_method(
        "pure_callback", vmap_method, axis_data.size, args, dims, result_avals, call, call_batch
    )


def _pure_lower(ctx, *args, callback, sharding, **_):
    results, _, _ = mlir.emit_python_callback(
        ctx, callback, None, args, ctx.avals_in, ctx.avals_out, has_side_effect=False,
        sharding=sharding,
    )  # fmt: skip
    return results


pure_callback_p.jvp = _pure_jvp
pure_callback_p.transpose = _pure_transpose
pure_callback_p.axis_batch = _pure_batch
mlir.register_lowering(pure_callback_p, _pure_lower)
ignore_shardings_of(pure_callback_p)


# Callbacks with side effects

io_callback_p = core.Primitive("io_callback", multiple_results=True)


@traceback_util.api_boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: SingleDeviceSharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls a Python function that may have side effects, also from compiled programs.

    It is called exactly as often as the program says, whether or not its result is used.

    Args:
      callback: a function from trees of arrays on the CPU to a tree of arrays (NumPy or JAX).
      result_shape_dtypes: the type of its result: a tree whose leaves have `shape` and `dtype`, or
        None.
      *args, **kwargs: its arguments: trees of arrays.
      sharding: the device that calls it, in a program for several devices.
      ordered: whether it is called after all earlier ordered callbacks, both of this program and of
        programs that ran before.

    Returns:
      What the callback returns, as arrays.

    Raises:
      TypeError: an argument is not an array, or a leaf of `result_shape_dtypes` has no shape and dtype.
      ValueError: a result is 64-bit without `jax_enable_x64`; or the callback is differentiated, or
        it is ordered and mapped.
      JaxRuntimeError: the callback raised an exception, whose traceback is in the message, or it
        returned a result of another type.

    >>> from jax.experimental import io_callback
    >>> seen = []
    >>> f = jax.jit(lambda x: io_callback(lambda v: seen.append(int(v)), None, x, ordered=True))
    >>> f(1), f(2), jax.effects_barrier(), seen
    (None, None, None, [1, 2])
    """
    flat, flat_callback = _flat_args("jax.io_callback", callback, args, kwargs, sharding)
    avals, out_tree = _result_avals(result_shape_dtypes)
    outs = io_callback_p.bind(
        *flat,
        callback=flat_callback,
        ordered=bool(ordered),
        result_avals=tuple(avals),
        sharding=sharding,
    )
    return tree_unflatten(out_tree, outs)


@io_callback_p.def_impl
def _io_impl(*args, callback, ordered, result_avals, sharding):
    effect = _ordered_io_effect if ordered else _io_effect
    outs = call_now("io_callback", callback, args, result_avals, effect)
    if outs is None:
        return dispatch.apply_primitive(
            io_callback_p, *args, callback=callback, ordered=ordered, result_avals=result_avals,
            sharding=sharding,
        )  # fmt: skip
    return outs


@io_callback_p.def_effectful_abstract_eval
def _io_types(*_, ordered, result_avals, **__):
    return list(result_avals), {_ordered_io_effect if ordered else _io_effect}


def _io_jvp(*_, **__):
    raise ValueError(
        "IO callbacks do not support JVP. Please use `jax.custom_jvp` to use callbacks while taking "
        "gradients, or `jax.lax.stop_gradient` on their arguments."
    )


def _io_transpose(*_, **__):
    raise ValueError("IO callbacks do not support transpose.")


def _io_batch(axis_data, args, dims, *, ordered, result_avals, **params):
    def call(*xs):
        return io_callback_p.bind(*xs, ordered=ordered, result_avals=result_avals, **params)

    if all(d is None for d in dims):
        return call(*args), [None] * len(result_avals)
    if ordered:
        raise ValueError("Cannot `vmap` ordered IO callback: there is no order of the examples.")
    return batch_by_method(
        "io_callback", "sequential", axis_data.size, args, dims, result_avals, call, None
    )


def _io_lower(ctx, *args, callback, ordered, sharding, **_):
    token = ctx.tokens_in.get(_ordered_io_effect) if ordered else None
    results, token, _ = mlir.emit_python_callback(
        ctx, callback, token, args, ctx.avals_in, ctx.avals_out, has_side_effect=True,
        sharding=sharding,
    )  # fmt: skip
    if ordered:
        ctx.set_tokens_out(mlir.TokenSet({_ordered_io_effect: token}))
    return results


io_callback_p.jvp = _io_jvp
io_callback_p.transpose = _io_transpose
io_callback_p.axis_batch = _io_batch
mlir.register_lowering(io_callback_p, _io_lower)
ignore_shardings_of(io_callback_p)
