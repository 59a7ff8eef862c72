"""Products on the tensor core of Blackwell GPUs, whose results are in tensor memory. One lane starts them."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

from jax._src import dtypes
from jax._src.lib.mlir.dialects import arith
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.layouts import TMEMArrangement
from jax._src.pallas.mosaic_gpu.lowering.barriers import Barriers, barriers_of
from jax._src.pallas.mosaic_gpu.lowering.clusters import narrow
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer
from jax._src.pallas.mosaic_gpu.lowering.kernel import TABLE, GpuKernel, asm, only, rule
from jax._src.pallas.mosaic_gpu.lowering.memory import resolved
from jax._src.pallas.mosaic_gpu.lowering.mma import Operand
from jax._src.pallas.mosaic_gpu.lowering.tensor_memory import TensorView
from jax._src.pallas.mosaic_gpu.lowering.views import View
from jax._src.pallas.mosaic_gpu.mma import (
    async_copy_to_tmem_p,
    tcgen05_commit_arrive_p,
    tcgen05_mma_p,
)
from jax._src.pallas.mosaic_gpu.operations import operands_of

_STEP_BYTES = 32  # of a row that one instruction multiplies or copies
_MOST_COLUMNS = 256  # of a product of one instruction
_VERSION = 1 << 46  # of descriptors of matrices for this tensor core


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A kind of products.

    Attributes:
      name: in the names of instructions.
      operands: the codes of dtypes of operands.
      results: the codes of dtypes of accumulators.
    """

    name: str
    operands: dict[str, int]
    results: dict[str, int]


_KINDS = (
    _Kind("f16", {"float16": 0, "bfloat16": 1}, {"float16": 0, "float32": 1}),
    _Kind("tf32", {"float32": 2}, {"float32": 1}),
    _Kind("f8f6f4", {"float8_e4m3fn": 0, "float8_e5m2": 1}, {"float16": 0, "float32": 1}),
    _Kind("i8", {"uint8": 0, "int8": 1}, {"int32": 2}),
)


@dataclasses.dataclass(frozen=True)
class _Product:
    """What all instructions of a product have.

    Attributes:
      kind: the kind.
      group: the number of blocks that multiply together, in the names of instructions.
      code: the descriptor of the instruction but for the number of columns.
    """

    kind: _Kind
    group: str
    code: int


def _kind_of(a: Any, b: Any, acc: Any) -> _Kind:
    left, right, out = [dtypes.dtype_name(x.dtype) for x in (a, b, acc)]
    for kind in _KINDS:
        if left in kind.operands and right in kind.operands and out in kind.results:
            if out != "float16" or "bfloat16" not in (left, right):
                return kind
    known = "; ".join([f"{', '.join(k.operands)} in {' or '.join(k.results)}" for k in _KINDS])
    raise ValueError(
        f"The tensor core of Blackwell GPUs does not accumulate products of {left} and {right} in {out}. There are products of "
        f"{known}, but those of bfloat16 only in float32."
    )


def _check_shape(
    m: int, n: int, k: int, kind: _Kind, bits: int, is_pair: bool, halves: int
) -> None:
    """Check the shape of a product: the rows of one block, and the columns and the inner dimension of all."""
    columns = 32 if is_pair else halves * (8 if m == 64 and kind.name != "i8" else 16)
    # The columns of both blocks would not come after each other.
    too_wide = is_pair and n > _MOST_COLUMNS
    if m not in (64, 128) or n % columns or k % (_STEP_BYTES * 8 // bits) or too_wide:
        most = f", at most {_MOST_COLUMNS}," if is_pair else ""
        raise ValueError(
            f"tcgen05_mma of {m} rows{' of each of two blocks' if is_pair else ''}, {n} columns and an inner dimension of {k} elements of {bits} bits: "
            f"there are products of 64 or 128 rows, for these a multiple of {columns} columns{most} and of {_STEP_BYTES} bytes of the inner dimension."
        )


class _LeftInTensorMemory:
    """A left matrix in tensor memory."""

    is_transposed = False

    def __init__(self, view: TensorView):
        arrangement, packing = view.arrangement
        self.packing = packing
        self.view = view
        if (
            arrangement is not TMEMArrangement.LANES
            or packing * dtypes.itemsize_bits(view.dtype) != 32
        ):
            raise ValueError(
                f"tcgen05_mma takes from tensor memory a left matrix of 128 rows whose elements fill columns, got {dtypes.dtype_name(view.dtype)}{list(view.shape)}: "
                "give its plgpu.TMEM(...) packed=True, or take one of shared memory."
            )

    def at(self, outer: int, inner: int) -> Any:
        """Return the operand from a column on."""
        return (self.view.address + inner // self.packing).value()


class _InSharedMemory:
    """A matrix in shared memory."""

    def __init__(self, view: View, outer: int, inner: int, what: str):
        self.operand = Operand(view, outer, inner, _VERSION)
        self.is_transposed = self.operand.is_transposed
        bits = dtypes.itemsize_bits(view.dtype)
        if self.is_transposed and bits > 16:
            raise NotImplementedError(
                f"tcgen05_mma of {dtypes.dtype_name(view.dtype)} takes matrices whose elements are beside each other along the inner dimension, not the {what} "
                "one's: transpose it in global memory, and give plgpu.transpose_ref(ref, (1, 0))."
            )

    def at(self, outer: int, inner: int) -> Any:
        """Return the descriptor of the matrix from a position on."""
        if self.is_transposed and outer % self.operand.row:
            raise NotImplementedError(
                f"tcgen05_mma takes the columns of a right matrix from {outer} on for itself, where no tile of {self.operand.row} begins: take a multiple of "
                "twice as many columns, or a smaller swizzle."
            )
        (descriptor,) = self.operand.at(outer, inner)
        return descriptor


@rule(tcgen05_mma_p)
def _mma(ctx: RuleContext, *flat: Any, tree: Any, collective_axis: str | None) -> Any:
    acc, a, b, barrier, *more, accumulate = operands_of(tree, flat)
    if any(x is not None for x in more):
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have no tcgen05_mma with scales or of sparse matrices yet: multiply by scales outside of it."
        )
    kernel = ctx.kernel
    target, left, right = [resolved(x) for x in (acc, a, b)]
    _check_pair(kernel, collective_axis)
    with only(kernel.one_lane()):
        _multiply(kernel, target, left, right, accumulate.scalar)
        if barrier is not None:
            _commit(kernel, barriers_of(barrier), collective_axis)
    return []


def _check_pair(kernel: GpuKernel, axis: Hashable | None) -> None:
    """Check that an axis of the cluster is one of pairs of blocks that have tensor memory together."""
    if axis is not None:
        kernel.cluster.pair([axis])
    is_pair = kernel.tensor is not None and kernel.tensor.is_collective
    if is_pair != (axis is not None):
        raise ValueError(
            "Of tensor memory of plgpu.TMEM(..., collective=True) tcgen05 operations are those of two blocks together, with "
            f"collective_axis, and of no other: got collective_axis={axis!r}."
        )


def _multiply(
    kernel: GpuKernel, acc: TensorView, a: TensorView | View, b: View, accumulate: Any
) -> None:
    """Emit the instructions of a product, those of the same columns beside each other."""
    is_pair = kernel.tensor.is_collective
    kind = _kind_of(a, b, acc)
    arrangement, packing = acc.arrangement
    (m, n), k = acc.shape, b.shape[0]
    bits = dtypes.itemsize_bits(b.dtype)
    # In two halves where these are in different lanes.
    halves = 2 if arrangement is TMEMArrangement.HALVES else 1
    _check_shape(m, n, k, kind, bits, is_pair, halves)
    if packing != 1:
        raise ValueError(
            f"An accumulator of tcgen05_mma has an element in each column: give its plgpu.TMEM(...) packed=False, not packed=True, for {dtypes.dtype_name(acc.dtype)}."
        )
    if isinstance(a, TensorView):
        left: Any = _LeftInTensorMemory(a)
    else:
        left = _InSharedMemory(a, 0, 1, "left")
    right = _InSharedMemory(b, 1, 0, "right")
    rows = 2 * m if is_pair else m
    product = _Product(kind, kernel.tensor.group, _code(kind, a, b, acc, left, right, rows))
    step = _STEP_BYTES * 8 // bits
    true = arith.cmpi(arith.CmpIPredicate.eq, integer(0), integer(0))
    for half in range(halves):
        first, end = half * n // halves, (half + 1) * n // halves
        for j in range(first, end, _MOST_COLUMNS):
            columns = min(_MOST_COLUMNS, end - j)
            target = acc.address + (j - first + half * (16 << 16))
            for i in range(0, k, step):
                adds = accumulate if i == 0 else true
                mine = j // 2 if is_pair else j
                _emit(product, columns, target, left.at(0, i), right.at(mine, i), adds)


def _code(kind: _Kind, a: Any, b: Any, acc: Any, left: Any, right: Any, rows: int) -> int:
    name = lambda x: dtypes.dtype_name(x.dtype)
    out = kind.results[name(acc)] << 4
    out |= kind.operands[name(a)] << 7 | kind.operands[name(b)] << 10
    return out | int(left.is_transposed) << 15 | int(right.is_transposed) << 16 | rows >> 4 << 24


def _emit(product: _Product, columns: int, target: Index, left: Any, right: Any, adds: Any) -> None:
    in_memory = str(left.type) == "i64"
    operand, constraint = ("$1", "l") if in_memory else ("[$1]", "r")
    code = integer(product.code | columns >> 3 << 17)
    asm(
        f"tcgen05.mma.{product.group}.kind::{product.kind.name} [$0], {operand}, $2, $3, $4;",
        f"r,{constraint},l,r,b",
        [target.value(), left, right, code, adds],
    )


def _commit(kernel: GpuKernel, barrier: Barriers, axis: Hashable | None) -> None:
    """Emit an arrival that one lane causes when all is complete that it has started on the tensor core."""
    code = f"tcgen05.commit.{kernel.tensor.group}.mbarrier::arrive::one.shared::cluster"
    pointer = barrier.pointer(kernel)
    if axis is None:
        asm(f"{code}.b64 [$0];", "r", [pointer])
        return
    mask = narrow(kernel.cluster.mask([(axis,)]))
    asm(f"{code}.multicast::cluster.b64 [$0], $1;", "r,h", [pointer, mask])


@rule(tcgen05_commit_arrive_p)
def _commit_arrive(ctx: RuleContext, *flat: Any, tree: Any, collective_axis: str | None) -> Any:
    (barrier,) = operands_of(tree, flat)
    kernel = ctx.kernel
    if kernel.tensor is None:
        raise ValueError(
            f"tcgen05_commit_arrive in {kernel.name}, which has no tensor memory for products and copies: give it plgpu.TMEM(...)."
        )
    _check_pair(kernel, collective_axis)
    with only(kernel.one_lane()):
        _commit(kernel, barriers_of(barrier), collective_axis)
    return []


@rule(async_copy_to_tmem_p)
def _copy(ctx: RuleContext, *flat: Any, tree: Any, collective_axis: str | None, kind: str) -> Any:
    if kind != "values":
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have no async_copy_{kind}_to_tmem yet, as no tcgen05_mma with scales or of sparse matrices."
        )
    source, target = [resolved(x) for x in operands_of(tree, flat)]
    kernel = ctx.kernel
    _check_pair(kernel, collective_axis)
    arrangement, packing = target.arrangement
    bits = dtypes.itemsize_bits(target.dtype)
    matrix = Operand(source, 0, 1, _VERSION)
    step = _STEP_BYTES * 8 // bits
    fits = arrangement is TMEMArrangement.LANES and packing * bits == 32
    if not fits or matrix.is_transposed or target.shape[1] % step:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} copy to tensor memory 128 rows of a multiple of {step} elements that are beside each other, which fill columns "
            f"there, not {dtypes.dtype_name(target.dtype)}{list(target.shape)}: give its plgpu.TMEM(...) packed=True."
        )
    with only(kernel.one_lane()):
        for i in range(0, target.shape[1], step):
            (descriptor,) = matrix.at(0, i)
            at = (target.address + i // packing).value()
            asm(f"tcgen05.cp.{kernel.tensor.group}.128x256b [$0], $1;", "r,l", [at, descriptor])
    return []
