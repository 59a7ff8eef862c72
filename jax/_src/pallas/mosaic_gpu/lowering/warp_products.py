"""Products of arrays of 16 bits by the tensor cores of single warps (`mma.sync`).

An instruction multiplies 16 rows by 8 columns, with 16 elements of each: what a lane has of its result is what it
has of an array in the layout of `wgmma`. Warps share out rows, and columns where there are fewer rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, llvm, scf, vector
from jax._src.pallas.mosaic_gpu.core import NUM_WARPS
from jax._src.pallas.mosaic_gpu.layouts import TiledLayout
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    elements,
    flat_registers,
    from_elements,
    from_registers,
    splat,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer
from jax._src.pallas.mosaic_gpu.lowering.kernel import GpuKernel, asm, number
from jax._src.pallas.mosaic_gpu.lowering.views import View, load_vector
from jax._src.pallas.mosaic_gpu.tilings import Tiling

_M, _N, _K = 16, 8, 16  # of an instruction
_NAMES = {"float16": "f16", "bfloat16": "bf16"}
_float32 = np.dtype(np.float32)


def warp_product_layout(a: Any, b: Any, dimension_numbers: Any) -> TiledLayout | None:
    """Return the layout of the product that warps compute of arrays of two types; None if they cannot."""
    (a_summed, b_summed), (a_batch, _) = dimension_numbers
    names = {dtypes.dtype_name(a.dtype), dtypes.dtype_name(b.dtype)}
    if len(a.shape) != 2 or len(b.shape) != 2 or len(a_summed) != 1 or a_batch:
        return None
    m, n, k = a.shape[1 - a_summed[0]], b.shape[1 - b_summed[0]], a.shape[a_summed[0]]
    if len(names) != 1 or not names <= _NAMES.keys() or k % _K or not k:
        return None
    for rows in (4, 2, 1):
        columns = NUM_WARPS // rows
        if m and n and m % (_M * rows) == 0 and n % (_N * columns) == 0:
            tiles = ((_M * rows, _N * columns), (_M, _N), (8, 8), (2,))
            warps = tuple([d for d, n in ((-7, rows), (-6, columns)) if n > 1])
            return TiledLayout(Tiling(tiles), warps, (-3, -2), -1)
    return None


def warp_product(kernel: GpuKernel, a: View, b: View, layout: TiledLayout) -> Fragment:
    """Return a product in float32.

    Args:
      kernel: the kernel.
      a: the left matrix of shape (m, k), in shared memory.
      b: the right matrix of shape (n, k), in shared memory.
      layout: the layout of the product.
    """
    rows, columns = layout.tiling.tiles[0]
    (m, k), n = a.shape, b.shape[0]
    across = integer(columns // _N)
    warp_row, warp_column = arith.divui(kernel.warp, across), arith.remui(kernel.warp, across)
    row = Index(0, arith.divui(kernel.lane, integer(4)))
    first = Index(0, arith.muli(arith.remui(kernel.lane, integer(4)), integer(2)), 2)
    at_row = row + Index(0, arith.muli(warp_row, integer(_M)), _M)
    at_column = row + Index(0, arith.muli(warp_column, integer(_N)), _N)
    name = _NAMES[dtypes.dtype_name(a.dtype)]
    zeros = splat(number(0, _float32), (m, n), _float32).with_layout(layout)
    loop = scf.ForOp(integer(0), integer(k // _K), integer(1), flat_registers(zeros))
    with ir.InsertionPoint(loop.body):
        now = from_registers(zeros, iter(loop.inner_iter_args))
        registers = now.registers.reshape(m // rows, n // columns, 2)
        start = Index(0, arith.muli(loop.induction_variable, integer(_K)), _K) + first
        halves = [(r, s) for s in (0, 8) for r in (0, 8)]
        left = [
            [_pair(a, at_row + (i * rows + r), start + s) for r, s in halves] for i in range(m // rows)
        ]  # fmt: skip
        for j in range(n // columns):
            right = [_pair(b, at_column + j * columns, start + s) for s in (0, 8)]
            for i, of_rows in enumerate(left):
                registers[i, j] = _multiply(name, of_rows, right, registers[i, j])
        scf.yield_(list(registers.flat))
    return from_registers(zeros, iter(loop.results))


def _pair(view: View, at: Index, k: Index) -> Any:
    """Return two elements beside each other along the last dimension, as an integer."""
    if view.contiguous(1, 2):
        pair = load_vector(view, view.element_offset([at, k]), 2)
    else:
        pair = from_elements(
            [load_vector(view, view.element_offset([at, k + i]), 1) for i in range(2)]
        )
    i32 = ir.IntegerType.get_signless(32)
    return vector.extract(vector.bitcast(ir.VectorType.get([1], i32), pair), [], [0])


def _multiply(name: str, left: Any, right: Any, sums: Any) -> Any:
    """Return the registers of sums to which a product has been added."""
    kind = ir.F32Type.get()
    code = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    values = [*left, *right, *[e for r in sums for e in elements(r)]]
    struct = ir.Type.parse("!llvm.struct<(f32, f32, f32, f32)>")
    out = asm(code, ",".join(["=f"] * 4 + ["r"] * 6 + ["0", "1", "2", "3"]), values, struct)
    new = [llvm.extractvalue(kind, out, [i]) for i in range(4)]
    result = np.empty(2, dtype=object)
    result[:] = [from_elements(new[:2]), from_elements(new[2:])]
    return result
