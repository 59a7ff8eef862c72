"""Products of matrices by blocks."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.api import jit
from jax._src.core import ShapeDtypeStruct
from jax._src.lax import lax
from jax._src.numpy.array_creation import zeros
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.grids import GridSpec
from jax._src.pallas.helpers import cdiv, when
from jax._src.pallas.mosaic.core import CompilerParams, MemorySpace
from jax._src.pallas.ops.differentiable import product, turned
from jax._src.pallas.ops.tpu.tiles import before_end
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.primitives import num_programs, program_id


@functools.partial(jit, static_argnames=("block_shape", "block_k", "debug", "out_dtype"))
def matmul(
    x: Any, y: Any, *, block_shape: tuple[int, int], block_k: int = 256, out_dtype: Any = None, debug: bool = False
) -> Any:  # fmt: skip
    """Multiply two matrices by blocks; blocks may be cut off by the ends of the arrays.

    Args:
      x: [m, k].
      y: [k, n].
      block_shape: numbers of rows and of columns in a block of the results.
      block_k: over how many products an element is summed at a time.
      out_dtype: the dtype of the results; by default that of both matrices.
      debug: whether to print the kernel.

    Returns:
      [m, n]. Sums are in float32, or int32 of integers. Derivatives are products by the same blocks.

    Raises:
      ValueError: if shapes do not fit.
      TypeError: if the matrices have different dtypes and `out_dtype` is not given.
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        raise ValueError(f"matmul takes [m, k] and [k, n], but got {x.shape} and {y.shape}")
    if out_dtype is None:
        if x.dtype != y.dtype:
            raise TypeError(
                f"Cannot deduce output dtype for different input dtypes: {x.dtype}, {y.dtype}"
            )
        out_dtype = x.dtype
    run = functools.partial(_product, blocks=(*block_shape, block_k), debug=debug)
    return product(run, x, y, (False, False), out_dtype)


# Which of the sizes m, n and k of the first product the rows, columns and inner dimension of a product have, by which of
# its matrices are transposed: those with one that is are its derivatives.
_SIZES = {(False, False): (0, 1, 2), (False, True): (0, 2, 1), (True, False): (2, 1, 0)}


def _product(
    x: Any, y: Any, transposed: tuple[bool, bool], out_dtype: Any, *, blocks: tuple[int, int, int], debug: bool
) -> Any:  # fmt: skip
    """Return a product of matrices, each of which may be transposed before.

    Args:
      x, y, transposed, out_dtype: as of `jax._src.pallas.ops.differentiable.product`.
      blocks: the sizes of blocks along m, n and k of the first product.
      debug: whether to print the kernel.
    """
    (m, k), (_, n) = [turned(a.shape, t) for a, t in zip((x, y), transposed)]
    if k == 0:
        # No step of the grid would write the results.
        return zeros((m, n), out_dtype)
    rows, columns, inner = [blocks[i] for i in _SIZES[transposed]]
    integers = all(dtypes.issubdtype(a.dtype, np.integer) for a in (x, y))
    sums = np.dtype(np.int32 if integers else np.float32)
    # The dimensions that are summed over.
    dims = (0 if transposed[0] else 1, 1 if transposed[1] else 0)

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, acc_ref: Any) -> None:
        step, last = program_id(2), num_programs(2) - 1

        @when(step == 0)
        def _() -> None:
            acc_ref[...] = zeros(acc_ref.shape, sums)

        tiles = [x_ref[...], y_ref[...]]
        if k % inner:
            left = k - step * inner
            tiles = [before_end(b, left, d) for b, d in zip(tiles, dims)]
        if not integers and x.dtype != y.dtype:
            tiles = [b.astype(np.float32) for b in tiles]
        contracted = (((dims[0],), (dims[1],)), ((), ()))
        acc_ref[...] += lax.dot_general(*tiles, contracted, preferred_element_type=sums)

        @when(step == last)
        def _() -> None:
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    def spec(
        shape: tuple[int, int], axes: tuple[int, int], is_transposed: bool = False
    ) -> BlockSpec:
        shape, axes = turned(shape, is_transposed), turned(axes, is_transposed)
        return BlockSpec(shape, lambda *at: (at[axes[0]], at[axes[1]]))

    grid = GridSpec(
        (cdiv(m, rows), cdiv(n, columns), cdiv(k, inner)),
        [spec((rows, inner), (0, 2), transposed[0]), spec((inner, columns), (2, 1), transposed[1])],
        spec((rows, columns), (0, 1)),
        [MemorySpace.VMEM((rows, columns), sums)],
    )
    params = CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary"))
    out = ShapeDtypeStruct((m, n), out_dtype)
    call = pallas_call(
        kernel, out, grid_spec=grid, compiler_params=params, debug=debug, name="matmul"
    )
    return call(x, y)
