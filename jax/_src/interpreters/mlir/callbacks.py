"""Calls of Python functions on the host, from lowered modules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jax._src import config, core, lib
from jax._src.host_functions import HostFunction
from jax._src.interpreters.mlir.constants import ir_constant
from jax._src.interpreters.mlir.context import LoweringRuleContext
from jax._src.interpreters.mlir.custom_call import custom_call
from jax._src.interpreters.mlir.host_transfers import emit_transfers
from jax._src.interpreters.mlir.shardings import (
    get_sharding_attr,
    is_single_device,
    set_sharding,
    wrap_with_sharding_op,
)
from jax._src.interpreters.mlir.types import aval_to_ir_type, token_type
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo, sdy
from jax._src.named_sharding import SdyArray, SdyDim
from jax._src.sharding_impls import (
    SdyArrayList,
    SingleDeviceSharding,
    SPMDAxisContext,
    replicated_hlo_sharding,
)

# These platforms use the same calling convention: an index into the executable's callbacks. On TPUs,
# values are transferred.
_TARGETS = {"cpu": "cpu", "cuda": "gpu", "rocm": "gpu"}


def emit_python_callback(
    ctx: LoweringRuleContext,
    callback: Callable[..., Sequence[Any]],
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[core.AbstractValue],
    result_avals: Sequence[core.AbstractValue],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: SingleDeviceSharding | None = None,
) -> tuple[Sequence[Any], Any, Any]:
    """Emits an operation that calls `callback` on the host.

    Args:
      callback: takes NumPy arrays, which are valid only during the call; returns a sequence of
        arrays.
      token: a token value that orders the call, or None.
      operands: IR values of types `operand_avals`.
      result_avals: types of the callback's results.
      has_side_effect: whether to keep the call even if its results are not used.
      returns_token: whether to return a token; only if `token` is given.
      partitioned: whether each device calls it with its shards. Then it cannot have results.
      sharding: the device that makes the call, in a program for several devices; the first device
        if None.

    Returns:
      IR values of the results, the token after the call, and the function that the runtime calls.

    In a shard_map over some of the axes of a mesh, a callback without results is called once for
    all indices of the other axes.

    Raises:
      NotImplementedError: if the module is for several platforms, or for one without callbacks; for
        a callback with effects and results in a shard_map over some of the axes of a mesh.
      ValueError: if a partitioned callback has results.
    """
    module_ctx = ctx.module_context
    platforms = module_ctx.platforms
    if len(platforms) != 1 or platforms[0] not in (*_TARGETS, "tpu"):
        raise NotImplementedError(
            f"Python callbacks can be lowered for one of the platforms {', '.join(_TARGETS)}, tpu, not "
            f"for {', '.join(platforms)}."
        )
    if partitioned and result_avals:
        raise ValueError("A partitioned callback, which every device calls, cannot return values.")
    operand_avals = [core.physical_aval(a) for a in operand_avals]
    result_avals = [core.physical_aval(a) for a in result_avals]
    if platforms[0] == "tpu":
        if partitioned:
            raise NotImplementedError("Partitioned callbacks are not implemented on TPUs.")
        call = _checked(callback, result_types_of(result_avals), False, False)
        values, after = emit_transfers(
            ctx, call, token, operands, operand_avals, result_avals,
            lambda n: _sharding_of_call(ctx, sharding, n),
        )  # fmt: skip
        return values, after if token is not None and returns_token else token, call
    operand_layouts = [_row_major(a) for a in operand_avals]
    result_layouts = [_row_major(a) for a in result_avals]
    result_types = [aval_to_ir_type(None, a) for a in result_avals]
    ordered = token is not None
    if ordered:
        operands = [token, *operands]
        operand_layouts = [(), *operand_layouts]
        if returns_token:
            result_types = [token_type(), *result_types]
            result_layouts = [(), *result_layouts]

    checked = _checked(callback, result_types_of(result_avals), ordered, ordered and returns_token)
    call_on_host = HostFunction(checked, has_side_effect)
    index = len(module_ctx.host_callbacks)
    module_ctx.add_host_callback(call_on_host)

    auto = _auto_axes(ctx) if has_side_effect else ()
    if auto:
        if result_types or ordered:
            raise NotImplementedError(
                "a callback with effects, and with results or in order, in a shard_map over some of the "
                f"axes of a mesh: the compiler decides which devices along {auto} would call it. Map over "
                "these axes too, with `axis_names`."
            )
        arguments = _first_along(ctx, auto, operands, operand_avals)
        operands = next(arguments)
    u64 = ir.IntegerType.get_unsigned(64)
    kind = "partitioned_python" if partitioned else "python"
    op = custom_call(
        f"xla_ffi_{kind}_{_TARGETS[platforms[0]]}_callback",
        result_types=result_types,
        operands=operands,
        backend_config={"index": ir.IntegerAttr.get(u64, index)},
        has_side_effect=has_side_effect,
        api_version=4,
        operand_layouts=operand_layouts,
        result_layouts=result_layouts,
    )
    if auto:
        next(arguments, None)
    where = _sharding_of_call(ctx, sharding, max(1, len(result_types)))
    if where is not None:
        set_sharding(module_ctx, op, where)
    results = list(op.results)
    if ordered and returns_token:
        token, *results = results
    if where is not None:  # only the calling device has the results, so replicate them
        results = [
            wrap_with_sharding_op(ctx, r, a, _replicated(a)) for r, a in zip(results, result_avals)
        ]
    return results, token, call_on_host


def _auto_axes(ctx: LoweringRuleContext) -> tuple[Any, ...]:
    """The axes of the mesh over which an enclosing shard_map is not mapped."""
    axis_context = ctx.module_context.axis_context
    if not isinstance(axis_context, SPMDAxisContext) or not axis_context.manual_axes:
        return ()
    return tuple(n for n in axis_context.mesh.axis_names if n not in axis_context.manual_axes)


def _first_along(
    ctx: LoweringRuleContext, axes: Sequence[Any], operands: Sequence[Any], avals: Sequence[Any]
) -> Iterator[Sequence[Any]]:
    """Yields operands for operations that only the first device along `axes` runs, then ends them."""
    mesh = ctx.module_context.axis_context.mesh
    replicated = [SdyArray(mesh_shape=mesh.shape_tuple, dim_shardings=_closed(a)) for a in avals]
    op = sdy.ManualComputationOp(
        [], operands, get_sharding_attr(ctx.module_context, SdyArrayList(tuple(replicated))),
        sdy.TensorShardingPerValueAttr.get([]),
        sdy.ManualAxesAttr.get([ir.StringAttr.get(str(n)) for n in axes]),
    )  # fmt: skip
    block = ir.Block.create_at_start(op.body, [x.type for x in operands])
    with ir.InsertionPoint(block):
        partition = hlo.partition_id(
            results=[ir.RankedTensorType.get([], ir.IntegerType.get_unsigned(32))]
        )
        is_first = ir_constant(np.array(True))
        zero = ir_constant(np.array(0, np.uint32))
        for i, (name, size) in enumerate(mesh.shape_tuple):
            if name in axes:
                inner = math.prod([n for _, n in mesh.shape_tuple[i + 1 :]])
                stride, length = (ir_constant(np.array(n, np.uint32)) for n in (inner, size))
                index = hlo.remainder(hlo.divide(partition, stride), length)
                equal = hlo.compare(index, zero, hlo.ComparisonDirectionAttr.get("EQ"))
                is_first = hlo.and_(is_first, equal)
        number = hlo.convert(ir.RankedTensorType.get([], ir.IntegerType.get_signless(32)), is_first)
        case = hlo.CaseOp([], index=number, num_branches=2)
        with ir.InsertionPoint(case.regions[0].blocks.append()):
            hlo.return_([])
        with ir.InsertionPoint(case.regions[1].blocks.append()):
            yield block.arguments
            hlo.return_([])
        sdy.ReturnOp([])


def _row_major(aval: core.AbstractValue) -> tuple[int, ...]:
    return tuple(range(aval.ndim - 1, -1, -1))


def _checked(
    callback: Callable[..., Sequence[Any]],
    expected: Sequence[tuple[Any, Any, bool]],
    token_in: bool,
    token_out: bool,
) -> Callable[..., Any]:
    """Wraps `callback` for the runtime: handles tokens, and checks and converts the results."""

    def call_on_host(*args: Any) -> Any:
        outs = as_results(callback(*args[token_in:]), expected)
        return (None, *outs) if token_out else outs

    return call_on_host


def result_types_of(avals: Sequence[core.AbstractValue]) -> list[tuple[Any, Any, bool]]:
    """Returns shapes and dtypes for `as_results`, and whether to narrow 64-bit values."""
    x64 = config.enable_x64.value  # read it now, since the callback may run on another thread
    return [(a.shape, a.dtype, not x64) for a in avals]


_NARROW = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}


def as_results(outs: Sequence[Any], expected: Sequence[tuple[Any, Any, bool]]) -> tuple[Any, ...]:
    """Converts results of a callback to NumPy arrays, checking shapes and dtypes.

    Raises:
      RuntimeError: if a shape, a dtype or the number of results is not as expected.
      TypeError: if a result is not numeric.
    """
    if len(outs) != len(expected):
        raise RuntimeError(
            f"Mismatched number of outputs from callback. Expected: {len(expected)}, Actual: "
            f"{len(outs)}. It must return a tree of arrays like result_shape_dtypes."
        )
    arrays = []
    for i, (out, (shape, dtype, narrow)) in enumerate(zip(outs, expected)):
        array = np.asarray(out)
        if array.dtype.kind in "OSUMm":
            raise TypeError(
                f"The callback returned {out!r} (return value #{i}), which is not an array."
            )
        if narrow and array.dtype.name in _NARROW:
            array = array.astype(_NARROW[array.dtype.name])
        if array.shape != shape:
            raise RuntimeError(
                f"Incorrect output shape for return value #{i}: Expected: {shape}, Actual: "
                f"{array.shape}"
            )
        if array.dtype != dtype:
            raise RuntimeError(
                f"Incorrect output dtype for return value #{i}: Expected: {dtype}, Actual: "
                f"{array.dtype}"
            )
        arrays.append(array)
    return tuple(arrays)


def _sharding_of_call(
    ctx: LoweringRuleContext, sharding: SingleDeviceSharding | None, num_results: int
) -> Any:
    """Returns a sharding that assigns the call to one device, in programs for several devices."""
    axis_context = ctx.module_context.axis_context
    if is_single_device(ctx.module_context):
        return None
    if isinstance(axis_context, SPMDAxisContext) and axis_context.manual_axes:
        return None  # in manual code, each device runs the call by itself
    device = 0
    if sharding is not None:
        (wanted,) = sharding.device_set
        assignment = getattr(axis_context, "device_assignment", None)
        if assignment is None or wanted not in assignment:
            raise ValueError(
                f"The callback is to run on {wanted}, which is not one of the devices of the program: "
                f"{assignment}"
            )
        device = assignment.index(wanted)
    if config.use_shardy_partitioner.value:
        one = SdyArray(mesh_shape=(), dim_shardings=(), logical_device_ids=(device,))
        return SdyArrayList((one,) * num_results)
    proto = lib.hlo.OpSharding()
    proto.type = lib.hlo.OpSharding.Type.MAXIMAL
    proto.tile_assignment_dimensions = [1]
    proto.tile_assignment_devices = [device]
    if num_results == 1:
        return proto
    return _tuple_of(proto, num_results)


def _replicated(aval: core.AbstractValue) -> Any:
    if config.use_shardy_partitioner.value:
        return SdyArray(mesh_shape=None, dim_shardings=_closed(aval))
    return replicated_hlo_sharding().to_proto()


def _closed(aval: core.AbstractValue) -> tuple[SdyDim, ...]:
    return (SdyDim((), False),) * aval.ndim


def _tuple_of(proto: Any, n: int) -> Any:
    out = lib.hlo.OpSharding()
    out.type = lib.hlo.OpSharding.Type.TUPLE
    out.tuple_shardings = [proto] * n
    return out
