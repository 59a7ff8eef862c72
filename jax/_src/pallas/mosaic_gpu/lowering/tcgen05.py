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
from jax._src.pallas.mosaic_gpu.lowering.mma import Operand, descriptor
from jax._src.pallas.mosaic_gpu.lowering.tensor_memory import COPIED_COLUMNS, TensorView
from jax._src.pallas.mosaic_gpu.lowering.views import View
from jax._src.pallas.mosaic_gpu.mma import (
    async_copy_to_tmem_p,
    tcgen05_commit_arrive_p,
    tcgen05_mma_p,
)
from jax._src.pallas.mosaic_gpu.mma_formats import (
    ROWS,
    SCALES,
    Arrangement,
    arrangement_of,
    block_size,
)
from jax._src.pallas.mosaic_gpu.operations import operands_of

_STEP_BYTES = 32  # of a row that one instruction multiplies or copies
_MOST_COLUMNS = 256  # of a product of one instruction
_VERSION = 1 << 46  # of descriptors of matrices for this tensor core
_IS_SPARSE = 1 << 2  # of descriptors of instructions


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
# Those with scales, which are all accumulated in float32: by the dtype of scales and the bits of operands.
_SCALED_KINDS = {
    ("float8_e8m0fnu", 8): _Kind("mxf8f6f4", {"float8_e4m3fn": 0, "float8_e5m2": 1}, {}),
    ("float8_e8m0fnu", 4): _Kind("mxf4", {"float4_e2m1fn": 1}, {}),
    ("float8_e4m3fn", 4): _Kind("mxf4nvf4", {"float4_e2m1fn": 1}, {}),
}


@dataclasses.dataclass(frozen=True)
class _Product:
    """What all instructions of a product have.

    Attributes:
      name: the name of the instructions.
      code: the descriptor of the instruction but for the number of columns.
      scales: the scales; None for a product without.
      positions: the positions of the elements of a sparse matrix; None for another one.
    """

    name: str
    code: int
    scales: _Scales | None
    positions: _Positions | None


@dataclasses.dataclass(frozen=True)
class _Scales:
    """The scales of both matrices.

    Attributes:
      a, b: where they are.
      each: how many of a row an instruction reads.
    """

    a: TensorView
    b: TensorView
    each: int

    def at(self, step: int) -> tuple[list[Any], int]:
        """Return where those of an instruction are, and which of the four that are copied at once: in its descriptor."""
        part, first = divmod(step * self.each, SCALES)
        places = [
            x.address + part * (x.shape[0] // ROWS * COPIED_COLUMNS) for x in (self.a, self.b)
        ]
        return [p.value() for p in places], first << 4 | first << 29


@dataclasses.dataclass(frozen=True)
class _Positions:
    """Which elements of a sparse matrix are there.

    Attributes:
      view: where that is.
      each: how many instructions have the same two columns of it.
    """

    view: TensorView
    each: int

    def at(self, step: int) -> tuple[Any, int]:
        """Return where that of an instruction is, and which part of it: in its descriptor."""
        pair, part = divmod(step, self.each)
        return (self.view.address + 2 * pair).value(), part


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


def _check_shape(m: int, n: int, k: int, name: str, bits: int, is_pair: bool, halves: int) -> None:
    """Check the shape of a product: the rows of one block, the columns of all, and the elements of a row of the left matrix."""
    columns = 32 if is_pair else halves * (8 if m == 64 and name != "i8" else 16)
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
        if dtypes.itemsize_bits(view.dtype) < 8:
            raise NotImplementedError(
                f"tcgen05_mma takes a left matrix of {dtypes.dtype_name(view.dtype)} from shared memory only."
            )
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
        if self.is_transposed and bits not in (8, 16):
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
        (out,) = self.operand.at(outer, inner)
        return out


@rule(tcgen05_mma_p)
def _mma(ctx: RuleContext, *flat: Any, tree: Any, collective_axis: str | None) -> Any:
    acc, a, b, barrier, *more, accumulate = operands_of(tree, flat)
    kernel = ctx.kernel
    operands = [resolved(x) for x in (acc, a, b)]
    others = [None if x is None else resolved(x) for x in more]
    _check_pair(kernel, collective_axis)
    with only(kernel.one_lane()):
        _multiply(kernel, *operands, accumulate.scalar, *others)
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
    kernel: GpuKernel, acc: TensorView, a: TensorView | View, b: View, accumulate: Any,
    a_scale: TensorView | None, b_scale: TensorView | None, metadata: TensorView | None,
) -> None:  # fmt: skip
    """Emit the instructions of a product, those of the same columns beside each other."""
    is_pair = kernel.tensor.is_collective
    arrangement, packing = acc.arrangement
    (m, n), k = acc.shape, a.shape[1]
    bits = dtypes.itemsize_bits(b.dtype)
    if a_scale is None:
        kind = _kind_of(a, b, acc)
    else:
        kind = _SCALED_KINDS[dtypes.dtype_name(a_scale.dtype), bits]
    # In two halves where these are in different lanes.
    halves = 2 if arrangement is TMEMArrangement.HALVES else 1
    _check_shape(m, n, k, kind.name, bits, is_pair, halves)
    if packing != 1:
        raise ValueError(
            f"An accumulator of tcgen05_mma has an element in each column: give its plgpu.TMEM(...) packed=False, not packed=True, for {dtypes.dtype_name(acc.dtype)}."
        )
    left, right = _matrices(a, b, metadata is not None)
    step = _STEP_BYTES * 8 // bits
    scales = positions = None
    if a_scale is not None and b_scale is not None:
        scales = _Scales(a_scale, b_scale, step // block_size(a.dtype, a_scale.dtype))
    if metadata is not None:
        positions = _Positions(metadata, bits // 8)
    code = _code(kind, a, b, acc, left, right, 2 * m if is_pair else m, a_scale)
    product = _Product(_name(kernel, kind, scales, positions), code, scales, positions)
    true = arith.cmpi(arith.CmpIPredicate.eq, integer(0), integer(0))
    sparsity = 1 if metadata is None else 2
    for half in range(halves):
        first, end = half * n // halves, (half + 1) * n // halves
        for j in range(first, end, _MOST_COLUMNS):
            columns = min(_MOST_COLUMNS, end - j)
            target = acc.address + (j - first + half * (16 << 16))
            mine = j // 2 if is_pair else j
            for i in range(k // step):
                adds = accumulate if i == 0 else true
                matrices = left.at(0, i * step), right.at(mine, i * step * sparsity)
                _emit(product, i, columns, target, *matrices, adds)


def _matrices(a: TensorView | View, b: View, is_sparse: bool) -> tuple[Any, Any]:
    """Return both matrices of a product as instructions take them."""
    if isinstance(a, TensorView):
        left: Any = _LeftInTensorMemory(a)
    else:
        left = _InSharedMemory(a, 0, 1, "left")
    right = _InSharedMemory(b, 1, 0, "right")
    if is_sparse and not right.is_transposed and b.swizzle == _STEP_BYTES:
        raise NotImplementedError(
            f"tcgen05_mma of a sparse matrix reads {2 * _STEP_BYTES} bytes of a column of the right one at once: give its plgpu.SMEM(...) "
            f"plgpu.SwizzleTransform({2 * _STEP_BYTES}), or more, in place of {_STEP_BYTES}."
        )
    return left, right


def _name(
    kernel: GpuKernel, kind: _Kind, scales: _Scales | None, positions: _Positions | None
) -> str:
    sparse = "" if positions is None else ".sp"
    out = f"tcgen05.mma{sparse}.{kernel.tensor.group}.kind::{kind.name}"
    return out if scales is None else f"{out}.block_scale.scale_vec::{scales.each}X"


def _code(
    kind: _Kind, a: Any, b: Any, acc: Any, left: Any, right: Any, rows: int, scales: Any
) -> int:  # fmt: skip
    """Return the descriptor of instructions, but for columns and what differs between steps."""
    name = lambda x: dtypes.dtype_name(x.dtype)
    out = kind.operands[name(a)] << 7 | kind.operands[name(b)] << 10
    out |= int(left.is_transposed) << 15 | int(right.is_transposed) << 16
    if scales is None:
        return out | kind.results[name(acc)] << 4 | rows >> 4 << 24
    return out | int(name(scales) == "float8_e8m0fnu") << 23 | rows >> 7 << 27


def _emit(
    product: _Product, step: int, columns: int, target: Index, left: Any, right: Any, adds: Any
) -> None:
    in_memory = str(left.type) == "i64"
    code = product.code | columns >> 3 << 17
    operands = [("[{}]", "r", target.value()), ("{}", "l", left) if in_memory else ("[{}]", "r", left), ("{}", "l", right)]  # fmt: skip
    after = []
    if product.positions is not None:
        place, part = product.positions.at(step)
        operands.append(("[{}]", "r", place))
        code |= _IS_SPARSE | part
    if product.scales is not None:
        places, first = product.scales.at(step)
        after = [("[{}]", "r", p) for p in places]
        code |= first
    code = code - 2**32 if code >= 2**31 else code
    operands += [("{}", "r", integer(code)), *after, ("{}", "b", adds)]
    names = ", ".join([text.format(f"${i}") for i, (text, _, _) in enumerate(operands)])
    constraints = ",".join([c for _, c, _ in operands])
    asm(f"{product.name} {names};", constraints, [x for *_, x in operands])


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
    source, target = [resolved(x) for x in operands_of(tree, flat)]
    kernel = ctx.kernel
    _check_pair(kernel, collective_axis)
    if kind != "values":
        _copy_pieces(kernel, source, target, arrangement_of(kind, target.layout))
        return []
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
            at = (target.address + i // packing).value()
            code = f"tcgen05.cp.{kernel.tensor.group}.128x256b [$0], $1;"
            asm(code, "r,l", [at, *matrix.at(0, i)])
    return []


_COPIES = {32: "32x128b.warpx4", 64: "64x128b.warpx2::01_23", 128: "128x128b"}
_ROW_GROUP = 8 * 16  # bytes


def _copy_pieces(
    kernel: GpuKernel, source: View, target: TensorView, arrangement: Arrangement
) -> None:
    """Emit the copies of scales or positions, of those of some rows at a time."""
    inner = [(n, d) for n, d in zip((arrangement.lanes, arrangement.width), source.dims[-2:])]
    strides = arrangement.width, 1
    as_is = [
        d.step == 1 and d.factors == ((n, s),) and d.start.divisor == 0 and d.size == n
        for (n, d), s in zip(inner, strides)
    ]
    if not all(as_is) or source.swizzle is not None or source.is_remote:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} copy scales and positions from shared memory in the order of their rows: give its plgpu.SMEM(...) no transforms."
        )
    rows, parts, *_ = source.shape
    constant = _ROW_GROUP >> 4 << 32 | _VERSION
    with only(kernel.one_lane()):
        for i in range(rows):
            for j in range(parts):
                offset = source.element_offset([Index(i), Index(j), Index(), Index()])
                matrix = descriptor(source.address(offset), constant)
                at = target.address + (j * rows + i) * COPIED_COLUMNS
                name = f"tcgen05.cp.{kernel.tensor.group}.{_COPIES[arrangement.lanes]}"
                asm(f"{name} [$0], $1;", "r,l", [at.value(), matrix])
