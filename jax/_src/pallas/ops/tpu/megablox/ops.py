"""Grouped products, with their derivatives."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.numpy.array_creation import zeros_like
from jax._src.numpy.selecting import where
from jax._src.pallas.ops.tpu.megablox import kernels
from jax._src.pallas.ops.tpu.megablox.kernels import Tiling


@functools.partial(custom_vjp, nondiff_argnums=(3, 4, 7, 8))
def gmm(
    lhs: Any, rhs: Any, group_sizes: Any, preferred_element_type: Any = np.float32,
    tiling: Tiling = (128, 128, 128), group_offset: Any = None, existing_out: Any = None,
    transpose_rhs: bool = False, interpret: bool = False,
) -> Any:  # fmt: skip
    """Multiply the rows of each group by the matrix of the group, with a derivative.

    Args:
      lhs, rhs, group_sizes, preferred_element_type, tiling, group_offset, existing_out, transpose_rhs, interpret:
        as in `jax.experimental.pallas.ops.tpu.megablox.gmm.gmm`.

    Returns:
      [m, n].
    """
    return kernels.gmm(
        lhs, rhs, group_sizes, preferred_element_type, tiling, group_offset, existing_out, transpose_rhs,
        interpret,
    )  # fmt: skip


def _forward(
    lhs: Any, rhs: Any, group_sizes: Any, preferred_element_type: Any = np.float32,
    tiling: Tiling = (128, 128, 128), group_offset: Any = None, existing_out: Any = None,
    transpose_rhs: bool = False, interpret: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    out = kernels.gmm(
        lhs, rhs, group_sizes, preferred_element_type, tiling, group_offset, existing_out, transpose_rhs,
        interpret,
    )  # fmt: skip
    return out, (lhs, rhs, group_sizes, group_offset, existing_out is not None)


def _backward(
    preferred_element_type: Any, tiling: Tiling, transpose_rhs: bool, interpret: bool,
    residuals: tuple[Any, ...], g: Any,
) -> tuple[Any, ...]:  # fmt: skip
    lhs, rhs, group_sizes, group_offset, has_existing = residuals
    d_lhs = kernels.gmm(
        g, rhs, group_sizes, lhs.dtype, tiling, group_offset, None, not transpose_rhs, interpret
    )
    d_rhs = kernels.tgmm(
        lhs.T, g, group_sizes, rhs.dtype, tiling, group_offset, rhs.shape[0], None, interpret
    )
    if transpose_rhs:
        d_rhs = d_rhs.swapaxes(1, 2)
    d_existing = None
    if has_existing:
        # Rows that are computed do not depend on what was there.
        start = 0 if group_offset is None else group_offset
        computed = kernels.rows_computed(group_sizes, start, rhs.shape[0], lhs.shape[0])
        d_existing = where(computed, zeros_like(g), g)
    return d_lhs, d_rhs, None, None, d_existing


gmm.defvjp(_forward, _backward)
