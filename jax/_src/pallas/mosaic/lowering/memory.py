"""Rules of Mosaic's lowering: references, their views, and reading and writing them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.core import DropVar, ShapedArray
from jax._src.indexing import Slice
from jax._src.lax import lax
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, memref, vector
from jax._src.lib.mosaic import tpu
from jax._src.pallas.elementwise import BINARY
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic.lowering.arithmetic import operation
from jax._src.pallas.mosaic.lowering.kernel import (
    MemRef,
    TpuKernel,
    reshaped,
    rule,
    static_operands,
)
from jax._src.pallas.mosaic.meshes import CoreType
from jax._src.pallas.mosaic.packing import masked_load_p, masked_store_p
from jax._src.pallas.values import is_key
from jax._src.state.indexing import NDIndexer
from jax._src.state.primitives import addupdate_p, get_p, swap_p
from jax._src.state.types import BitcastTransform, ReshapeTransform, TransposeTransform
from jax._src.tree_util import tree_unflatten

# Views


def view(kernel: TpuKernel, ref: MemRef, transforms: Sequence[Any]) -> MemRef:
    """Return a view of a reference, as a reference whose dimensions are all seen."""
    for t in transforms:
        if isinstance(t, NDIndexer):
            ref = ref if t.is_trivial else _sliced(kernel, ref, t)
            continue
        ref = squeezed(kernel, ref)
        if isinstance(t, ReshapeTransform):
            ty = kernel.memref_type(t.shape, ref.dtype, ref.space)
            ref = _of(tpu.memref_reshape(ty, ref.value), t.shape, ref.dtype, ref.space)
        elif isinstance(t, BitcastTransform):
            shape = t.transform_type(ShapedArray(ref.shape, ref.dtype)).shape
            ty = kernel.memref_type(shape, t.dtype, ref.space)
            ref = _of(tpu.memref_bitcast(ty, ref.value), shape, t.dtype, ref.space)
        elif isinstance(t, TransposeTransform):
            raise NotImplementedError(
                f"Kernels for TPUs have no transposed references, here of shape {ref.shape}: read it, and transpose the array."
            )
        else:
            raise NotImplementedError(f"Kernels for TPUs have no views of references by {t}.")
    return ref


def _of(value: Any, shape: Sequence[Any], dtype: Any, space: str) -> MemRef:
    return MemRef(value, tuple(shape), dtype, space, (False,) * len(shape))


def squeezed(kernel: TpuKernel, ref: MemRef) -> MemRef:
    """Drop the dimensions that the kernel does not see."""
    if not any(ref.hidden):
        return ref
    shape = ref.visible_shape
    ty = kernel.memref_type(shape, ref.dtype, ref.space)
    return _of(tpu.memref_squeeze(ty, ref.value), shape, ref.dtype, ref.space)


def _sliced(kernel: TpuKernel, ref: MemRef, indexer: NDIndexer) -> MemRef:
    starts, sizes, strides, hidden = _positions(ref, indexer)
    if any([s != 1 for s in strides]):
        raise NotImplementedError(
            f"Kernels for TPUs have no views of references with strides, here {tuple(strides)} of shape {ref.shape}: index with a "
            "stride where you read or write."
        )
    dynamic = [as_i32(kernel, d) for d in sizes if not isinstance(d, int)]
    ty = kernel.memref_type(sizes, ref.dtype, ref.space)
    value = tpu.memref_slice(ty, ref.value, [as_i32(kernel, s) for s in starts], dynamic)
    return squeezed(kernel, MemRef(value, tuple(sizes), ref.dtype, ref.space, tuple(hidden)))


def _positions(ref: MemRef, indexer: NDIndexer | None) -> Any:
    """Return start, size and stride in each dimension, and whether the dimension is dropped."""
    starts: list[Any] = []
    sizes: list[Any] = []
    strides: list[int] = []
    hidden: list[bool] = []
    entries = iter(() if indexer is None else indexer.indices)
    if indexer is not None and indexer.int_indexer_shape:
        raise NotImplementedError(
            f"Kernels for TPUs index references by integers and slices, not by arrays of shape {indexer.int_indexer_shape}: read "
            "a slice, and use jnp.take_along_axis."
        )
    for d, h in zip(ref.shape, ref.hidden):
        e = 0 if h else Slice(0, d) if indexer is None else next(entries)
        if isinstance(e, Slice):
            starts.append(e.start)
            sizes.append(e.size)
            strides.append(e.stride)
            hidden.append(False)
        else:
            starts.append(e + d if isinstance(e, int) and e < 0 else e)
            sizes.append(1)
            strides.append(1)
            hidden.append(True)
    return starts, sizes, strides, hidden


def as_i32(kernel: TpuKernel, x: Any) -> Any:
    """Return an integer as a value of 32 bits."""
    if isinstance(x, (int, np.integer)):
        return kernel.i32(int(x))
    i32 = kernel.element_type(np.dtype(np.int32))
    if x.type == i32:
        return x
    return arith.trunci(i32, x) if x.type.width > 32 else arith.extsi(i32, x)


def as_index(kernel: TpuKernel, x: Any) -> Any:
    """Return an integer as an index."""
    if isinstance(x, (int, np.integer)):
        return kernel.index(int(x))
    return arith.index_cast(ir.IndexType.get(), x)


# Reading and writing


class Access:
    """A part of a reference that is read or written.

    Attributes:
      ref: the reference, after all views but the last index.
      starts: where the part starts in each dimension.
      sizes, strides: its shape in memory, and the strides.
    """

    def __init__(self, ctx: RuleContext, ref: MemRef, transforms: Sequence[Any]):
        kernel = self.kernel = ctx.kernel
        last = None
        if transforms and isinstance(transforms[-1], NDIndexer):
            *transforms, last = transforms
        self.ref = ref = view(kernel, ref, transforms)
        self.name = ctx.eqn.primitive.name
        starts, self.sizes, self.strides, _ = _positions(ref, last)
        if ref.space not in ("vmem", "smem"):
            raise ValueError(
                f"{self.name}: kernels for TPUs read and write references in VMEM and SMEM, this one of shape {ref.shape} is in "
                f"{ref.space.upper()}. Copy it to a scratch array, by pltpu.sync_copy or pltpu.make_async_copy."
            )
        if not all([isinstance(d, int) for d in self.sizes]):
            raise NotImplementedError(
                f"{self.name}: slices that are read or written have a size that is known, {self.sizes} is not. Copies may have others."
            )
        self.starts = [as_index(kernel, s) for s in starts]
        self.scalar = ref.space == "smem"

    def load(self, out: Any, mask: Any = None) -> Any:
        """Read an array of type `out`."""
        kernel, ref = self.kernel, self.ref
        self._check(out)
        if is_key(ref.dtype):
            return self._load_key()
        stored = np.dtype(np.int32) if ref.dtype == np.bool_ else ref.dtype
        if self.scalar:
            x = memref.load(ref.value, self.starts)
            return self._from_memory(x, out)
        ty = kernel.vector_type(self.sizes, stored)
        if mask is not None and kernel.core_type is CoreType.TC:
            raise NotImplementedError(
                f"{self.name}: kernels for TPUs read references whole, without a mask: select afterwards, by jnp.where."
            )
        if kernel.core_type is not CoreType.TC:
            if mask is not None:
                mask = reshaped(kernel, mask, out.shape, self.sizes, np.dtype(np.bool_))
            strides = self._unit_strides()
            x = tpu.vector_load(ty, ref.value, self.starts, strides=strides, mask=mask)
        elif any([s != 1 for s in self.strides]):
            x = tpu.strided_load(ty, ref.value, self.starts, self.strides)
        else:
            x = vector.load(ty, ref.value, self.starts)
        x = reshaped(kernel, x, self.sizes, out.shape, stored)
        return self._from_memory(x, out)

    def _load_key(self) -> tuple[Any, ...]:
        """Return the words of a key."""
        shape = self.ref.dtype._impl.key_shape
        at = [
            [self.kernel.index(i) for i in index] for index in itertools.product(*map(range, shape))
        ]
        return tuple([memref.load(self.ref.value, [*self.starts, *index]) for index in at])

    def _unit_strides(self) -> list[int]:
        if any([s != 1 for s in self.strides]):
            raise NotImplementedError(
                f"{self.name}: SparseCores have no strides, here {tuple(self.strides)}: use plsc.load_gather or plsc.store_scatter."
            )
        return []

    def store(self, x: Any, aval: Any, mask: Any = None, add: bool = False) -> None:
        """Write an array of type `aval`, or add to what is there, which SparseCores can."""
        kernel, ref = self.kernel, self.ref
        if is_key(ref.dtype):
            raise NotImplementedError(f"{self.name}: kernels for TPUs do not write keys.")
        self._check(aval)
        stored = np.dtype(np.int32) if ref.dtype == np.bool_ else ref.dtype
        if ref.dtype == np.bool_:
            x = arith.extui(kernel.type_of(aval.update(dtype=stored)), x)
        if self.scalar:
            memref.store(x, ref.value, self.starts)
            return
        if not aval.shape:
            raise ValueError(
                f"{self.name}: Cannot store scalars to VMEM, to a reference of shape {ref.shape}: write an array, or keep the "
                "number in SMEM."
            )
        x = reshaped(kernel, x, aval.shape, self.sizes, stored)
        if kernel.core_type is not CoreType.TC:
            self._unit_strides()
        if any([s != 1 for s in self.strides]):
            if mask is not None:
                raise NotImplementedError(f"{self.name}: a mask and strides at once.")
            tpu.strided_store(x, ref.value, self.starts, self.strides)
            return
        if mask is not None:
            mask = reshaped(kernel, mask, aval.shape, self.sizes, np.dtype(np.bool_))
        tpu.vector_store(x, ref.value, self.starts, mask=mask, add=add)

    def _check(self, aval: Any) -> None:
        if self.scalar and aval.shape:
            raise ValueError(
                f"{self.name}: Can only load scalars from SMEM, and store them there, not {aval.str_short()}: index the reference of "
                f"shape {self.ref.shape} with integers."
            )
        if not math.prod(self.sizes):
            raise ValueError(
                f"{self.name}: an array without elements, of shape {tuple(self.sizes)}."
            )

    def _from_memory(self, x: Any, out: Any) -> Any:
        if self.ref.dtype != np.bool_:
            return x
        zero = self.kernel.splat(0, out.shape, np.int32)
        return arith.cmpi(arith.CmpIPredicate.ne, x, zero)


def access(ctx: RuleContext, ref: MemRef, tree: Any, args: Sequence[Any], start: int) -> Access:
    """Return what an equation reads or writes; its operands from `start` on are leaves of views."""
    return Access(ctx, ref, tree_unflatten(tree, static_operands(ctx, args, start)))


@rule(get_p)
def _get(ctx: RuleContext, ref: MemRef, *args: Any, tree: Any) -> Any:
    return [access(ctx, ref, tree, args, 1).load(ctx.avals_out[0])]


@rule(swap_p)
def _swap(ctx: RuleContext, ref: MemRef, x: Any, *args: Any, tree: Any) -> Any:
    part = access(ctx, ref, tree, args, 2)
    used = type(ctx.eqn.outvars[0]) is not DropVar
    old = part.load(ctx.avals_out[0]) if used else None
    part.store(x, ctx.avals_in[1])
    return old


@rule(addupdate_p)
def _addupdate(ctx: RuleContext, ref: MemRef, x: Any, *args: Any, tree: Any) -> Any:
    part, aval = access(ctx, ref, tree, args, 2), ctx.avals_in[1]
    old = part.load(aval)
    part.store(operation(ctx, BINARY[lax.add_p], aval.dtype)(old, x), aval)
    return []


@rule(masked_load_p)
def _masked_load(ctx: RuleContext, ref: MemRef, mask: Any, *args: Any, tree: Any) -> Any:
    return access(ctx, ref, tree, args, 2).load(ctx.avals_out[0], mask)


@rule(masked_store_p)
def _masked_store(
    ctx: RuleContext, ref: MemRef, x: Any, mask: Any, *args: Any, tree: Any
) -> list[Any]:
    access(ctx, ref, tree, args, 3).store(x, ctx.avals_in[1], mask)
    return []
