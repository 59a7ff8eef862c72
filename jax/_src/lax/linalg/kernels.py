"""Calls of native linear algebra kernels: LAPACK on CPU, vendor libraries on GPU.

Kernels treat leading dimensions as a batch. Matrices are column-major; the vectors and scalars of a
batch are contiguous. Kernels are registered with XLA when a program that needs them is lowered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, cpu_threads, dtypes, lib, xla_bridge
from jax._src.interpreters import mlir
from jax._src.interpreters.mlir.constants import ir_attribute
from jax._src.lax.batch_partitioning import batch_attributes
from jax._src.lib.mlir import ir

# ---------------------------------------------------------------------------------------------------
# Names and registration

KERNEL_DTYPES = ("float32", "float64", "complex64", "complex128")
GPU_PREFIXES = {"cuda": "cu", "rocm": "hip"}


def lapack_target(ctx: Any, routine: str) -> str:
    """Return the kernel of a LAPACK routine for the operands' dtype, such as `lapack_spotrf_ffi`.

    Args:
      ctx: lowering context.
      routine: name of the routine without the dtype's letter, with the suffix `_ffi`.

    Raises:
      NotImplementedError: if LAPACK does not support the dtype.
    """
    dtype = ctx.avals_in[0].dtype
    check_kernel_dtype(ctx, "CPU")
    _register_lapack()
    target = lib.lapack.prepare_lapack_call(routine, dtype)
    _bound_blas()
    return target


def prepare_lapack_target(target: str) -> None:
    """Register LAPACK's kernels and load LAPACK, for a user's own custom call of `target`."""
    _register_lapack()
    dtypes_by_letter = {letter: dtype for dtype, letter in lib.lapack.LAPACK_DTYPE_PREFIX.items()}
    letter, routine = target.removeprefix("lapack_")[:1], target.removeprefix("lapack_")[1:]
    if letter in dtypes_by_letter:
        lib.lapack.prepare_lapack_call(routine, dtypes_by_letter[letter])
    _bound_blas()


@functools.cache
def _bound_blas() -> None:
    cpu_threads.bound_blas()  # now that it has been loaded


def check_kernel_dtype(ctx: Any, where: str) -> None:
    """Raise NotImplementedError unless the kernels support the dtype of the operands."""
    name = str(ctx.avals_in[0].dtype)
    if name not in KERNEL_DTYPES:
        raise NotImplementedError(
            f"{ctx.primitive.name} is not implemented on {where} for dtype {name}, only for "
            f"{', '.join(KERNEL_DTYPES)}. Convert its operands with `x.astype(jnp.float32)`."
        )


@functools.cache
def _register_lapack() -> None:
    _register(lib.lapack)


@functools.cache
def register_gpu_kernels() -> None:
    """Register the kernels of the installed GPU plugins."""
    for module in (lib.gpu_solver, lib.gpu_linalg, lib.gpu_sparse):
        _register(module)


def _register(module: Any) -> None:
    for platform, targets in module.registrations().items():
        platform = "Host" if platform == "cpu" else platform
        for name, capsule, api_version in targets:
            xla_bridge.register_custom_call_target(
                name, capsule, platform=platform, api_version=api_version
            )
    for name in module.batch_partitionable_targets():
        xla_bridge.register_batch_partitionable(name)


def on_gpus(rule: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return CUDA and ROCm lowering rules from a rule that takes a keyword `gpu`, "cu" or "hip"."""
    return {platform: _gpu_rule(rule, prefix) for platform, prefix in GPU_PREFIXES.items()}


def _gpu_rule(rule, prefix):
    def lower(ctx, *operands, **params):
        register_gpu_kernels()
        return rule(ctx, *operands, gpu=prefix, **params)

    return lower


# ---------------------------------------------------------------------------------------------------
# Calls


def call(
    ctx: Any,
    target: str,
    operands: Sequence[Any],
    avals_in: Sequence[core.ShapedArray],
    avals_out: Sequence[core.ShapedArray],
    attributes: dict[str, Any] | None = None,
    *,
    batch_dims: int | None,
    aliases: dict[int, int] | None = None,
    row_major: bool = False,
) -> Sequence[Any]:
    """Emit a call of a kernel.

    Args:
      ctx: lowering context.
      target: name of the kernel.
      operands: IR values.
      avals_in, avals_out: avals of operands and results.
      attributes: NumPy scalars, strings and bools for the kernel.
      batch_dims: number of leading batch dimensions; None if the kernel does not support batches.
      aliases: maps an operand to the result that may overwrite it.
      row_major: whether matrices are row-major.

    Returns:
      The IR values of the results.
    """
    if core.is_empty_shape(avals_in[0].shape) or core.is_empty_shape(avals_out[0].shape):
        # LAPACK routines fail for size zero. There is nothing to compute; status 0 means success.
        return [mlir.full_like_aval(ctx, 0, a) for a in avals_out]
    extra = {} if batch_dims is None else batch_attributes(batch_dims, avals_in, avals_out)
    shapes = None
    if not all(core.is_constant_shape(a.shape) for a in avals_out):
        shapes = [mlir.eval_dynamic_shape_as_tensor(ctx, a.shape) for a in avals_out]
    layouts = [
        [_layout(a.ndim, batch_dims or 0, row_major) for a in avals]
        for avals in (avals_in, avals_out)
    ]
    config = {k: ir_attribute(v) for k, v in (attributes or {}).items()}
    return mlir.custom_call(
        target,
        result_types=[mlir.aval_to_ir_type(ctx.module_context, a) for a in avals_out],
        operands=operands,
        backend_config=config,
        api_version=4,
        operand_output_aliases=aliases,
        operand_layouts=layouts[0],
        result_layouts=layouts[1],
        result_shapes=shapes,
        extra_attributes=extra,
    ).results


def _layout(ndim: int, batch_dims: int, row_major: bool) -> tuple[int, ...]:
    order = list(range(ndim - 1, -1, -1))
    if not row_major and ndim - batch_dims >= 2:
        order[:2] = order[1], order[0]
    return tuple(order)


# ---------------------------------------------------------------------------------------------------
# Results of failed factorizations


def info_aval(batch: Sequence[Any]) -> core.ShapedArray:
    """Return the aval of the kernels' status: an int32 for each batch element."""
    return core.ShapedArray(tuple(batch), np.dtype(np.int32))


def nan_unless(ctx: Any, info: Any, outputs: Sequence[Any], avals: Sequence[Any], compare="EQ"):
    """Replace `outputs` by NaN in batch elements unless `info` compares with 0 as given."""
    batch = avals[0].shape[: ir.RankedTensorType(info.type).rank]
    zero = mlir.full_like_aval(ctx, 0, info_aval(batch))
    ok = mlir.compare_hlo(info, zero, compare, "SIGNED")
    return [_select_or_nan(ctx, ok, len(batch), x, aval) for x, aval in zip(outputs, avals)]


def _select_or_nan(ctx, ok, batch_dims, x, aval):
    nan = np.nan
    if dtypes.issubdtype(aval.dtype, np.complexfloating):
        nan = complex(np.nan, np.nan)
    mask = core.ShapedArray(aval.shape, np.dtype(np.bool_))
    ok = mlir.broadcast_in_dim(ctx, ok, mask, broadcast_dimensions=range(batch_dims))
    return mlir.hlo.select(ok, x, mlir.full_like_aval(ctx, nan, aval))


def subtract_one(ctx: Any, x: Any, aval: core.ShapedArray) -> Any:
    """Convert Fortran's indices, which start at one, to indices that start at zero."""
    return mlir.hlo.subtract(x, mlir.full_like_aval(ctx, 1, aval))


def char(letter: str) -> np.uint8:
    """Encode a letter as LAPACK's kernels expect it."""
    return np.uint8(ord(letter))


def expanded_call(
    ctx: Any, target: str, operands: Sequence[Any], out_avals: Sequence[Any], **kwargs: Any
) -> Any:
    """Emits a custom call that XLA expands, whose results may have symbolic sizes."""
    types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in out_avals]
    shapes = None
    if not all(core.is_constant_shape(a.shape) for a in out_avals):
        shapes = [mlir.eval_dynamic_shape_as_tensor(ctx, a.shape) for a in out_avals]
    kwargs = {"api_version": 1} | kwargs
    return mlir.custom_call(
        target, result_types=types, operands=operands, result_shapes=shapes, **kwargs
    ).results
