"""Rules that write to, and read from, the memory of all devices at once, which the switch between them does (NVLink SHARP)."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

from jax._src import dtypes
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import llvm, vector
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic_gpu.lowering.fragments import (
    Fragment,
    elements,
    first_of_copies,
    from_elements,
    layout_of,
)
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, pointer_at
from jax._src.pallas.mosaic_gpu.lowering.kernel import TABLE, GpuKernel, asm, only, rule
from jax._src.pallas.mosaic_gpu.lowering.memory import resolved
from jax._src.pallas.mosaic_gpu.lowering.views import (
    View,
    alignment,
    everywhere,
    from_stored,
    load,
    stored_type,
    stores,
)
from jax._src.pallas.mosaic_gpu.memory_operations import multimem_load_reduce_p, multimem_store_p
from jax._src.pallas.mosaic_gpu.operations import operands_of

_WORD = 4  # bytes, the least that one instruction moves
_MOST = 16


def _piece(size: int, aligned: int, dtype: Any, what: str) -> int:
    """Return how many bytes beside each other one instruction moves.

    Raises:
      NotImplementedError: if they are too few.
    """
    out = min(size, aligned, _MOST)
    if out < _WORD or size % out:
        raise NotImplementedError(
            f"Kernels for {TABLE.target} cannot reach all devices at once so ({what}): lanes have {size} bytes of {dtypes.dtype_name(dtype)} beside each "
            f"other, at multiples of {aligned}, but instructions move 4, 8 or 16. Give the array a layout such as plgpu.Layout.WG_STRIDED with "
            "vec_size, and parts that begin at multiples of that."
        )
    return out


def _words(value: Any, size: int) -> list[Any]:
    """Return elements that are beside each other as numbers of 32 bits."""
    if not isinstance(value.type, ir.VectorType):
        value = from_elements([value])
    i32 = ir.IntegerType.get_signless(32)
    return elements(vector.bitcast(ir.VectorType.get([size // _WORD], i32), value))


def _further(address: Any, away: int) -> Any:
    return pointer_at(address, away) if away else address


@rule(multimem_store_p)
def _store(ctx: RuleContext, *flat: Any, tree: Any) -> Any:
    x, target = operands_of(tree, flat)
    store_everywhere(ctx.kernel, resolved(target), x)
    return []


def store_everywhere(kernel: GpuKernel, view: View, x: Fragment) -> None:
    """Emit stores of an array on all devices at once, between barriers that keep accesses of other lanes apart."""
    if x.is_splat and x.shape:
        x = x.with_layout(layout_of(x.shape, x.dtype))
    own = first_of_copies(kernel, x.layout)
    with kernel.between_barriers(), only(own):
        _emit_stores(kernel, view, x)


def _emit_stores(kernel: GpuKernel, view: View, x: Fragment) -> None:
    bits = dtypes.itemsize_bits(x.dtype)
    for address, value, aligned in stores(kernel, view, x):
        n = ir.VectorType(value.type).shape[0] if isinstance(value.type, ir.VectorType) else 1
        size = n * max(8, bits) // 8
        piece = _piece(size, aligned, x.dtype, "multimem_store")
        words, count = _words(value, size), piece // _WORD
        for i in range(0, len(words), count):
            store_words(_further(address, i * _WORD), words[i : i + count])


def store_words(address: Any, words: list[Any]) -> None:
    """Emit a store of 1, 2 or 4 numbers of 32 bits on all devices at once."""
    n = len(words)
    names = ", ".join([f"${i + 1}" for i in range(n)])
    kind, values = (f"v{n}.f32", f"{{{names}}}") if n > 1 else ("b32", names)
    constraints = ",".join(["l", *["r"] * n])
    asm(f"multimem.st.relaxed.sys.global.{kind} [$0], {values};", constraints, [address, *words])


# What the switch calls pairs and quadruples of elements of 32 bits.
_PACKED = {"float32": "f32", "float16": "f16x2", "bfloat16": "bf16x2", "float8_e5m2": "e5m2x4", "float8_e4m3fn": "e4m3x4"}  # fmt: skip


@rule(multimem_load_reduce_p)
def _load_reduce(
    ctx: RuleContext,
    *flat: Any,
    tree: Any,
    collective_axes: tuple[Hashable, ...],
    reduction_op: str,
) -> Any:
    (source,) = operands_of(tree, flat)
    kernel = ctx.kernel
    view = everywhere(resolved(source), collective_axes, "multimem_load_reduce")
    if dtypes.itemsize_bits(view.dtype) == 8:
        kernel.require(
            "multimem_load_reduce of floating-point numbers of 8 bits", "take bfloat16", 10, 11
        )
    read = functools.partial(_reduced, op=reduction_op)
    return load(kernel, view, kernel.layouts.get(ctx.eqn.outvars[0]), read)


def _reduced(view: View, offset: Index, n: int, op: str) -> Any:
    """Emit the reduction of elements beside each other of all devices; return it as `load_vector` returns elements."""
    dtype, address = view.dtype, view.address(offset)
    of_element = dtypes.itemsize_bits(dtype) // 8
    size = n * of_element
    piece = _piece(size, alignment(view, offset, n), dtype, "multimem_load_reduce")
    if is_float(dtype):
        of_instruction, name = piece, _PACKED[dtypes.dtype_name(dtype)]
        if op == "add" and of_element < _WORD:
            # sums of numbers of 16 bits are rounded once; those of 8 bits after each
            op = "add.acc::f32" if of_element == 2 else "add.acc::f16"
    else:
        of_instruction, name = of_element, _integer_name(dtype, op)
    words = []
    for start in range(0, size, of_instruction):
        words += _load_words(_further(address, start), of_instruction, op, name)
    kind = ir.VectorType.get([n], stored_type(dtype))
    out = from_stored(vector.bitcast(kind, from_elements(words)), dtype)
    return out if n > 1 else elements(out)[0]


def _integer_name(dtype: Any, op: str) -> str:
    bits = dtypes.itemsize_bits(dtype)
    if op in ("and", "or", "xor"):
        return f"b{bits}"
    # sums are the same with and without signs
    return f"s{bits}" if is_signed(dtype) and (op != "add" or bits == 32) else f"u{bits}"


def _load_words(address: Any, size: int, op: str, name: str) -> list[Any]:
    code = f"multimem.ld_reduce.relaxed.sys.global.{op}"
    if name.endswith("64"):
        i64 = ir.IntegerType.get_signless(64)
        return [asm(f"{code}.{name} $0, [$1];", "=l,l", [address], i64)]
    n = size // _WORD
    i32 = ir.IntegerType.get_signless(32)
    if n == 1:
        return [asm(f"{code}.{name} $0, [$1];", "=r,l", [address], i32)]
    names = ", ".join([f"${i}" for i in range(n)])
    struct = ir.Type.parse(f"!llvm.struct<({', '.join(['i32'] * n)})>")
    constraints = ",".join([*["=r"] * n, "l"])
    out = asm(f"{code}.v{n}.{name} {{{names}}}, [${n}];", constraints, [address], struct)
    return [llvm.extractvalue(i32, out, [i]) for i in range(n)]
