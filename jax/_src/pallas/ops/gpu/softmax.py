"""Softmax for GPUs, a row for each program, and its derivative."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.api import jit
from jax._src.core import ShapeDtypeStruct
from jax._src.custom_derivatives.jvp import custom_jvp
from jax._src.lax import lax
from jax._src.numpy import reductions
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.ops.gpu.access import padded, read, sum_dtype, write
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.triton.core import CompilerParams


def _kernel(x_ref: Any, o_ref: Any, n: int) -> None:
    x = read(x_ref, (0,), x_ref.shape, (n,), -np.inf)
    x = x.astype(sum_dtype(x.dtype))
    weights = lax.exp(x - lax.reduce_max(x, (0,)))
    write(o_ref, weights / lax.reduce_sum(weights, (0,)), (n,))


@functools.partial(custom_jvp, nondiff_argnums=(1, 2, 3))
def _rows(x: Any, num_warps: int, interpret: bool, debug: bool) -> Any:
    rows, n = x.shape
    if x.size == 0:
        return x
    spec = BlockSpec((None, padded(n)), lambda i: (i, 0))
    return pallas_call(
        functools.partial(_kernel, n=n),
        ShapeDtypeStruct(x.shape, x.dtype),
        grid=(rows,),
        in_specs=[spec],
        out_specs=spec,
        compiler_params=CompilerParams(num_warps=num_warps, num_stages=1),
        interpret=interpret,
        debug=debug,
        name="softmax",
    )(x)


@_rows.defjvp
def _rows_jvp(num_warps: int, interpret: bool, debug: bool, primals: Any, tangents: Any) -> Any:
    out = _rows(*primals, num_warps, interpret, debug)
    weighted = out * tangents[0]
    return out, weighted - out * reductions.sum(weighted, axis=-1, keepdims=True)


@functools.partial(jit, static_argnames=("axis", "num_warps", "interpret", "debug"))
def softmax(
    x: Any, *, axis: int = -1, num_warps: int = 4, interpret: bool = False, debug: bool = False
) -> Any:
    """Compute softmax along an axis.

    Args:
      x: an array of a floating-point type.
      axis: the axis along which exponentials are divided by their sum.
      num_warps: see `plgpu.CompilerParams`.
      interpret: whether to run the kernel as a program of XLA, which any device can.
      debug: whether to print the kernel.

    Returns:
      An array of the shape and dtype of x.

    Raises:
      TypeError: if x is not of a floating-point type.
      ValueError: if there is no such axis.
    """
    if not dtypes.issubdtype(x.dtype, np.floating):
        raise TypeError(f"softmax takes arrays of a floating-point type, got {x.dtype}.")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(
            f"softmax of an array of shape {x.shape} along axis {axis}, which it lacks."
        )
    swapped = x.swapaxes(axis, -1)
    rows = swapped.reshape(-1, swapped.shape[-1]) if x.size else swapped.reshape(0, 1)
    return _rows(rows, num_warps, interpret, debug).reshape(swapped.shape).swapaxes(axis, -1)
