"""Callbacks on TPUs: operands are sent to the host, and results are received from it.

Each transfer has a channel of the module. A token orders the transfers of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, lib
from jax._src.interpreters.mlir.constants import ir_constant
from jax._src.interpreters.mlir.context import LoweringRuleContext
from jax._src.interpreters.mlir.shardings import set_sharding
from jax._src.interpreters.mlir.types import aval_to_ir_type, token_type
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

_TO_HOST, _FROM_HOST = 2, 3  # types of channels
# Stands for missing operands, since a call starts when something is sent; and for missing results.
_NOTHING_TO_SEND = core.ShapedArray((1,), np.dtype(np.float32))
_NOTHING_TO_RECEIVE = core.ShapedArray((), np.dtype(np.float32))


def emit_transfers(
    ctx: LoweringRuleContext,
    call: Callable[..., Sequence[Any]],
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[core.AbstractValue],
    result_avals: Sequence[core.AbstractValue],
    sharding: Callable[[int], Any],
) -> tuple[list[Any], Any]:
    """Emits the transfers of a call on the host, and registers the call with the module.

    Args:
      call: takes NumPy arrays, returns a sequence of arrays of types `result_avals`.
      token: a token that orders the call, or None.
      operands: IR values of types `operand_avals`.
      sharding: the sharding of an operation with so many results, or None.

    Returns:
      IR values of the results, and the token after the call.
    """
    module_ctx = ctx.module_context
    if token is None:
        token = hlo.create_token()
    sent = [(x, a) for x, a in zip(operands, operand_avals) if 0 not in a.shape]
    if not sent:
        zero = ir_constant(np.zeros(_NOTHING_TO_SEND.shape, np.float32))
        sent = [(zero, _NOTHING_TO_SEND)]
    received = [a for a in result_avals if 0 not in a.shape]
    empty = len(received) < len(result_avals)
    if not result_avals:
        received = [_NOTHING_TO_RECEIVE]

    send_channels, receive_channels, results = [], [], []
    for x, _ in sent:
        send_channels.append(module_ctx.new_channel())
        op = hlo.SendOp([x], token, _channel(send_channels[-1], _TO_HOST), is_host_transfer=True)
        _to_host(module_ctx, op, send_channels[-1], sharding(1))
        token = op.result
    for aval in received:
        receive_channels.append(module_ctx.new_channel())
        op = hlo.RecvOp(
            [aval_to_ir_type(None, aval), token_type()], token,
            _channel(receive_channels[-1], _FROM_HOST), is_host_transfer=True,
        )  # fmt: skip
        _to_host(module_ctx, op, receive_channels[-1], sharding(2))
        value, token = op.results
        results.append(value)
    if not result_avals:
        results = []
    if empty:
        values = iter(results)
        results = [
            ir_constant(np.zeros(a.shape, a.dtype)) if 0 in a.shape else next(values)
            for a in result_avals
        ]
    _register(
        module_ctx, _of_transfers(call, operand_avals, result_avals),
        [a for _, a in sent], received, send_channels, receive_channels,
    )  # fmt: skip
    return results, token


def _channel(handle: int, kind: int) -> Any:
    return hlo.ChannelHandle.get(handle, kind)


def _to_host(module_ctx: Any, op: Any, channel: int, sharding: Any) -> None:
    op.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(
        {
            "_xla_host_transfer_handler_name": ir.StringAttr.get("pjrt_rendezvous"),
            "_xla_host_transfer_rendezvous": ir.StringAttr.get(str(channel)),
        }
    )
    if sharding is not None:
        set_sharding(module_ctx, op, sharding)


def _of_transfers(
    call: Callable[..., Sequence[Any]],
    operand_avals: Sequence[core.AbstractValue],
    result_avals: Sequence[core.AbstractValue],
) -> Callable[..., tuple[Any, ...]]:
    """Adds the operands that are not sent to a call, and leaves out results that are not received."""

    def call_on_host(*sent: Any) -> tuple[Any, ...]:
        values = iter(sent)
        args = [np.zeros(a.shape, a.dtype) if 0 in a.shape else next(values) for a in operand_avals]
        outs = call(*args)
        if not result_avals:
            return (np.zeros((), np.float32),)
        return tuple(x for x, a in zip(outs, result_avals) if 0 not in a.shape)

    return call_on_host


def _register(
    module_ctx: Any,
    call: Callable[..., Any],
    sent: Sequence[core.AbstractValue],
    received: Sequence[core.AbstractValue],
    send_channels: Sequence[int],
    receive_channels: Sequence[int],
) -> None:
    backend = module_ctx.get_backend(optional=True)
    if backend is None or backend.platform != "tpu":  # lowered for a platform that is not there
        module_ctx.add_host_callback(call)
        return
    shape = lib.hlo.Shape.array_shape
    module_ctx.add_host_callback(
        backend.make_python_callback_from_host_send_and_recv(
            call,
            [shape(np.dtype(a.dtype), a.shape) for a in sent],
            [shape(np.dtype(a.dtype), a.shape) for a in received],
            send_channels,
            receive_channels,
            _serialized,
        )
    )


def _serialized(call: Callable[..., Any]) -> bytes:
    """The bytes of a call, which remote runtimes ask for."""
    import cloudpickle  # imported here: only such runtimes need it

    data: bytes = cloudpickle.dumps(call)
    return data
