"""Products on the tensor core of Hopper GPUs, whose results are in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, llvm, nvvm, vector
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.layouts import Layout
from jax._src.pallas.mosaic_gpu.lowering.exchange import in_layout
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    elements,
    from_elements,
    splat,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer
from jax._src.pallas.mosaic_gpu.lowering.kernel import (
    TABLE,
    GpuKernel,
    number,
    rule,
)
from jax._src.pallas.mosaic_gpu.lowering.views import View, transformed
from jax._src.pallas.mosaic_gpu.mma import wgmma_accumulator_load_p, wgmma_p, wgmma_wait_p
from jax._src.pallas.mosaic_gpu.operations import operands_of

_ROWS = 64  # of a product of one instruction
_K_BYTES = 32  # of a row of the left matrix that an instruction multiplies
_SWIZZLE_CODES = {128: 1, 64: 2, 32: 3, None: 0}


class Accumulator:
    """An accumulator in registers: a reference whose value is replaced by each product."""

    def __init__(self, value: Fragment):
        self.value = value

    @classmethod
    def zeros(cls, shape: Sequence[int], dtype: Any) -> Accumulator:
        zeros = splat(number(0, dtype), shape, dtype)
        return cls(zeros.with_layout(Layout.WGMMA.to_mgpu()))

    @classmethod
    def of(cls, kernel: GpuKernel, value: Fragment) -> Accumulator:
        """Return one that starts with a value."""
        return cls(in_layout(kernel, value, Layout.WGMMA.to_mgpu()))

    def final(self) -> Fragment:
        """Return its value when all products are complete."""
        _wait(self, 0)
        return self.value


@rule(wgmma_accumulator_load_p)
def _load(ctx: RuleContext, *flat: Any, tree: Any, wait_n: int | None) -> Any:
    (operand,) = operands_of(tree, flat)
    accumulator, transforms = _reference(operand)
    if transforms:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} read accumulators of wgmma whole: index the array that is read."
        )
    if wait_n is not None:
        _wait(accumulator, wait_n)
    else:  # a wait before this one must come before what uses the value
        accumulator.value = _pinned(accumulator.value)
    return accumulator.value


@rule(wgmma_wait_p)
def _wgmma_wait(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    (n,) = operands_of(tree, flat)
    owner = n.scalar.owner
    count = ir.IntegerAttr(owner.attributes["value"]).value
    nvvm.wgmma_wait_group_sync_aligned(count)
    return []


def _wait(accumulator: Accumulator, n: int) -> None:
    nvvm.wgmma_wait_group_sync_aligned(n)
    accumulator.value = _pinned(accumulator.value)


def _pinned(x: Fragment) -> Fragment:
    """Return an array that the compiler must have computed at this point, register by register."""
    flat = [e for r in x.registers.flat for e in elements(r)]
    outs = _with_registers("", [], flat, [])
    return _packed(x, outs)


def _packed(like: Fragment, values: Sequence[Any]) -> Fragment:
    n = ir.VectorType(like.registers.flat[0].type).shape[0]
    registers = np.empty(like.registers.shape, dtype=object)
    groups = [values[i : i + n] for i in range(0, len(values), n)]
    for at, group in zip(np.ndindex(registers.shape), groups):
        registers[at] = from_elements(group)
    return like.with_registers(registers)


_CONSTRAINTS = {"f32": "f", "f16": "h", "i32": "r"}


def _with_registers(
    code: str, constraints: Sequence[str], registers: Sequence[Any], operands: Sequence[Any]
) -> list[Any]:
    """Emit instructions that replace the values of registers, and have other operands."""
    kind = str(registers[0].type)
    letter = _CONSTRAINTS[kind]
    n = len(registers)
    everything = [f"={letter}"] * n + [str(i) for i in range(n)] + list(constraints)
    out_type = ir.Type.parse(f"!llvm.struct<({', '.join([kind] * n)})>")
    asm = llvm.InlineAsmOp(
        out_type, [*registers, *operands], code, ",".join(everything), has_side_effects=True
    ).result
    return [llvm.extractvalue(registers[0].type, asm, [i]) for i in range(n)]


def _reference(operand: Any) -> tuple[Any, Any]:
    if hasattr(operand, "ref"):
        return operand.ref, operand.transforms
    return operand, ()


@rule(wgmma_p)
def _wgmma(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    target, a, b = operands_of(tree, flat)
    accumulator, transforms = _reference(target)
    if transforms:
        raise NotImplementedError(f"Kernels for {TABLE.target} add to whole accumulators of wgmma.")
    right = transformed(*_reference(b))
    left = a if isinstance(a, Fragment) else transformed(*_reference(a))
    accumulator.value = product(ctx.kernel, accumulator.value, left, right)
    nvvm.wgmma_commit_group_sync_aligned()
    return []


_NAMES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "tf32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "int8": "s8", "uint8": "u8",
}  # fmt: skip
_RESULTS = {"float32": "f32", "float16": "f16", "int32": "s32"}


def product(kernel: GpuKernel, acc: Fragment, a: View | Fragment, b: View) -> Fragment:
    """Start to add a product to an accumulator, and return it.

    Raises:
      NotImplementedError: if the matrices are arranged in shared memory so that the tensor core cannot
        read them.
    """
    kernel.require("wgmma", "take plgpu.tcgen05_mma, and plgpu.TMEM for its results", 9)
    m, n = acc.shape
    k = b.shape[0]
    bits = dtypes.itemsize_bits(b.dtype)
    step = _K_BYTES * 8 // bits
    if n > 256 and n % 256 or k % step:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} have wgmma for at most 256 columns or a multiple, and a multiple of {step} rows of the right "
            f"matrix, got {n} columns and {k} rows."
        )
    acc = _pinned(acc)
    columns = min(n, 256)
    right = Operand(b, 1, 0)
    left = InRegisters(kernel, a) if isinstance(a, Fragment) else Operand(a, 0, 1)
    nvvm.wgmma_fence_aligned()
    registers = np.empty(acc.registers.shape, dtype=object)
    registers[...] = acc.registers
    per_tile = registers.reshape(m // _ROWS, n // 8, 2)
    for i in range(m // _ROWS):
        for j in range(n // columns):
            part = per_tile[i, j * columns // 8 : (j + 1) * columns // 8]
            values = [e for r in part.reshape(-1) for e in elements(r)]
            for kk in range(0, k, step):
                values = _instruction(
                    acc.dtype, b.dtype, columns, values, left.at(i * _ROWS, kk),
                    *right.at(j * columns, kk), left.is_transposed, right.is_transposed,
                )  # fmt: skip
            for at, r in zip(np.ndindex(part.shape), range(0, len(values), 2)):
                part[at] = from_elements(values[r : r + 2])
    return acc.with_registers(registers)


def _instruction(
    out: Any, dtype: Any, columns: int, values: Sequence[Any], a: Sequence[Any], b: Any, a_turned: bool, b_turned: bool
) -> list[Any]:  # fmt: skip
    name, result = _NAMES[dtypes.dtype_name(dtype)], _RESULTS[dtypes.dtype_name(out)]
    halves = result == "f16"
    if halves:  # two to a register of 32 bits
        values = [_pair(values[i : i + 2]) for i in range(0, len(values), 2)]
    n = len(values)
    bits = dtypes.itemsize_bits(dtype)
    floats = "" if name in ("s8", "u8") else ", 1, 1"
    # A left matrix in registers is never transposed.
    turned = [b_turned] if len(a) > 1 else [a_turned, b_turned]
    turns = "".join([f", {int(t)}" for t in turned]) if bits == 16 else ""
    if bits != 16 and (a_turned or b_turned):
        raise NotImplementedError(
            f"wgmma of {dtypes.dtype_name(dtype)} takes a left matrix whose rows, and a right matrix whose columns, are beside each other: "
            "transpose the right one in global memory, and give plgpu.transpose_ref(ref, (1, 0))."
        )
    k = _K_BYTES * 8 // bits
    in_memory = len(a) == 1
    constraints = ["l" if in_memory else "r"] * len(a)
    names = ", ".join([f"${2 * n + i}" for i in range(len(a))])
    left = names if in_memory else f"{{{names}}}"
    outs = ", ".join([f"${i}" for i in range(n)])
    code = (
        "{ .reg .pred p; setp.ne.b32 p, 1, 0; "
        f"wgmma.mma_async.sync.aligned.m64n{columns}k{k}.{result}.{name}.{name} "
        f"{{{outs}}}, {left}, ${2 * n + len(a)}, p{floats}{turns}; }}"
    )
    outs = _with_registers(code, [*constraints, "l"], values, [*a, b])
    if halves:
        return [h for x in outs for h in _halves(x)]
    return outs


def _pair(values: Sequence[Any]) -> Any:
    return _as_integer(from_elements(values))


def _as_integer(register: Any) -> Any:
    """Return two elements of 16 bits as an integer."""
    i32 = ir.IntegerType.get_signless(32)
    return vector.extract(vector.bitcast(ir.VectorType.get([1], i32), register), [], [0])


def _halves(x: Any) -> list[Any]:
    f16 = ir.F16Type.get()
    return elements(vector.bitcast(ir.VectorType.get([2], f16), from_elements([x])))


class InRegisters:
    """A left matrix in registers, in the layout of `wgmma`."""

    is_transposed = False

    def __init__(self, kernel: GpuKernel, x: Fragment):
        if dtypes.itemsize_bits(x.dtype) != 16:
            raise NotImplementedError(
                f"Kernels for {TABLE.target} have products of wgmma with a left matrix in registers for dtypes of 16 bits only, not "
                f"for {dtypes.dtype_name(x.dtype)}: write it to shared memory."
            )
        x = in_layout(kernel, x, Layout.WGMMA.to_mgpu())
        m, k = x.shape
        flat = np.empty(x.registers.size, dtype=object)
        flat[:] = [_as_integer(r) for r in x.registers.flat]
        self.registers = flat.reshape(m // _ROWS, k // 8, 2)

    def at(self, outer: int, inner: int) -> list[Any]:
        """Return the registers of the part that an instruction multiplies."""
        i, k = outer // _ROWS, inner // 8
        return list(self.registers[i, k : k + 2].flat)


class Operand:
    """A matrix in shared memory that the tensor core reads.

    Args:
      view: the matrix.
      outer: the dimension that the product keeps.
      inner: the dimension that is summed over.
      flags: what descriptors have besides.
    """

    def __init__(self, view: View, outer: int, inner: int, flags: int = 0):
        self.view = view
        self.flags = flags
        self.bits = dtypes.itemsize_bits(view.dtype)
        unit = lambda d: view.dims[d].factors[-1][1] == 1 and view.dims[d].step == 1
        if view.is_remote:
            raise NotImplementedError(
                "The tensor core does not read memory of another block: copy it."
            )
        if unit(inner):
            self.is_transposed = False
        elif unit(outer):
            self.is_transposed = True
        else:
            raise self._refused()
        self.outer, self.inner = outer, inner
        fast, slow = (outer, inner) if self.is_transposed else (inner, outer)
        self._check(fast, slow)

    def _refused(self) -> NotImplementedError:
        return NotImplementedError(
            f"The tensor core cannot read a matrix of shape {self.view.shape} that is arranged so: give its plgpu.SMEM(...) "
            "transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)), of rows of 128 bytes, or of 64 or 32 "
            "with that swizzle."
        )

    def _check(self, fast: int, slow: int) -> None:
        view = self.view
        swizzle = view.swizzle
        if swizzle is None:
            raise self._refused()
        row = swizzle * 8 // self.bits
        (n, _), (m, stride) = view.dims[fast].factors[-1], view.dims[slow].factors[-1]
        if n != row or m != 8 or stride != row:
            raise self._refused()
        for d in (fast, slow):
            dim = view.dims[d]
            if dim.step != 1 or dim.start.divisor % dim.factors[-1][0]:
                raise NotImplementedError(
                    f"The tensor core reads whole tiles: a part of a matrix that begins at {dim.start} does not begin with one."
                )
            if dim.size % dim.factors[-1][0]:
                raise self._refused()
        self.row, self.fast, self.slow = row, fast, slow

    def _tile_stride(self, d: int) -> int:
        factors = self.view.dims[d].factors
        return factors[-2][1] if len(factors) > 1 else 0

    def at(self, outer: int, inner: int) -> list[Any]:
        """Return the descriptor of the matrix from a position on."""
        view = self.view
        at = [Index(), Index()]
        at[self.outer], at[self.inner] = Index(outer), Index(inner)
        offset = view.element_offset(at)
        return [descriptor(view.replace(swizzle=None).address(offset), self._constant())]

    def _constant(self) -> int:
        to_bytes = lambda n: n * self.bits // 8
        groups = to_bytes(self._tile_stride(self.slow))  # from eight rows to the next
        beside = to_bytes(self._tile_stride(self.fast))
        leading = beside if self.is_transposed else 0  # not read
        code = _SWIZZLE_CODES[self.view.swizzle]
        out = ((leading >> 4) << 16) | ((groups >> 4) << 32) | (code << 62) | self.flags
        return out - 2**64 if out >= 2**63 else out


def descriptor(pointer: Any, constant: int) -> Any:
    """Return what instructions are given of a matrix in shared memory: where it begins, and what is known of it."""
    i64 = ir.IntegerType.get_signless(64)
    address = arith.andi(llvm.ptrtoint(i64, pointer), integer(0x3FFFF, i64))
    return arith.ori(arith.shrui(address, integer(4, i64)), integer(constant, i64))
