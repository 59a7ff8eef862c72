"""Moving arguments to where a program takes them, and making arrays of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src import core, dtypes
from jax._src.array_impl import ArrayImpl
from jax._src.late_binding import late
from jax._src.layout import Format
from jax._src.lib import _jax, array_result_handler

if TYPE_CHECKING:
    from jax._src.core.avals import AbstractValue
    from jax._src.layout import Layout
    from jax._src.sharding import Sharding

_REUSE = _jax.ArrayCopySemantics.REUSE_INPUT


# From classes of arguments to functions of (values, shardings, layouts, copy semantics) that return
# arrays; for classes that `device_put` does not handle itself.
ShardArgHandler = Callable[
    [Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]
]
shard_arg_handlers: dict[type, ShardArgHandler] = {}


def shard_args(
    shardings: Sequence[Any],
    layouts: Sequence[Any],
    copy_semantics: Sequence[Any] | None,
    args: Sequence[Any],
) -> list[Any]:
    """Makes arrays of `args` with the given shardings and layouts.

    Args:
      shardings: a sharding for each argument.
      layouts: a layout for each, or None for any.
      copy_semantics: for each, whether an array's buffers may be reused; None to reuse all.
      args: arrays, NumPy arrays, scalars, or values of registered classes.

    Raises:
      TypeError: if a value cannot be an argument.
    """
    out = []
    for i, arg in enumerate(args):
        sharding, layout = shardings[i], layouts[i]
        copy = _REUSE if copy_semantics is None else copy_semantics[i]
        if type(arg) is ArrayImpl and arg._sharding is sharding and layout is None:
            if copy is _REUSE:
                arg._check_if_deleted()
                out.append(arg)
                continue
        handler = shard_arg_handlers.get(type(arg))
        if handler is not None:
            out.extend(handler([arg], [sharding], [layout], [copy]))
            continue
        target = sharding if layout is None else Format(layout, sharding)
        value = late.device_put_value(arg, target, copy)
        if getattr(value, "dtype", None) == dtypes.float0:
            value = late.device_put_value(np.zeros(value.shape, np.bool_), target, copy)
        out.append(value)
    return out


def shard_arg_fallback(x: object, sharding: Sharding | None, layout: Layout | None = None) -> Any:
    """Places one argument as a program takes it; called by the native call path."""
    return shard_args([sharding], [layout], None, [x])[0]


def _shard_token(xs: Any, shardings: Any, layouts: Any, copy_semantics: Any) -> Any:
    return shard_args(shardings, layouts, copy_semantics, [x._buf for x in xs])


shard_arg_handlers[core.Token] = _shard_token


def _shard_ref(xs: Any, shardings: Any, layouts: Any, copy_semantics: Any) -> Any:
    return shard_args(shardings, layouts, copy_semantics, [x._array() for x in xs])


shard_arg_handlers[core.Ref] = _shard_ref


# Results. A handler takes the buffers of one result, one per device, and returns the value.

# From classes of abstract values to functions of (aval, sharding, committed) that return a handler.
global_result_handlers: dict[type, Callable[[Any, Any, bool], Any]] = {}


def global_aval_to_result_handler(
    aval: AbstractValue, sharding: Sharding | None, committed: bool
) -> Any:
    """Returns the handler of a result of type `aval`.

    Args:
      aval: the type of the whole result.
      sharding: how it is laid out across devices.
      committed: whether the array is committed to its devices.
    """
    make = global_result_handlers.get(type(aval))
    if make is None:
        raise TypeError(f"a compiled function cannot return values of type {type(aval)}: {aval}")
    return make(aval, sharding, committed)


def _array_result_handler(
    aval: core.AbstractValue, sharding: Sharding | None, committed: bool
) -> Any:
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        make = dtypes.extended_rule(aval.dtype, "global_sharded_result_handler")
        return make(aval, sharding, committed)
    if aval.dtype == dtypes.float0:
        return lambda _: np.zeros(aval.shape, dtypes.float0)
    return array_result_handler(aval, sharding, committed)


def _token_result_handler(
    aval: core.AbstractValue, sharding: Sharding | None, committed: bool
) -> Any:
    aval = core.ShapedArray((0,), np.dtype(np.bool_))
    array = array_result_handler(aval, sharding, committed)
    return lambda bufs: core.Token(array(bufs))


global_result_handlers[core.ShapedArray] = _array_result_handler
global_result_handlers[core.AbstractToken] = _token_result_handler
