"""Rules of what reads and writes references: blocks of arrays in the device's memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.indexing import Slice
from jax._src.lib import triton
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith
from jax._src.lib.triton import dialect as tt
from jax._src.pallas.element_types import is_float, is_signed
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.triton.conversions import convert
from jax._src.pallas.triton.elementwise import add
from jax._src.pallas.triton.kernel import Constant, Kernel, is_bool, rules, with_unit_dims
from jax._src.pallas.triton.primitives import (
    Atomic,
    atomic_cas_p,
    atomic_rmw_p,
    masked_load_p,
    masked_store_p,
)
from jax._src.state.indexing import NDIndexer
from jax._src.state.primitives import addupdate_p, get_p, swap_p
from jax._src.state.types import BitcastTransform, TransposeTransform
from jax._src.tree_util import tree_unflatten

_int8 = np.dtype(np.int8)
_int32 = np.dtype(np.int32)


@dataclasses.dataclass(frozen=True)
class View:
    """Elements of an array in memory.

    Attributes:
      pointer: pointer to the array, or to the first element of a block of it.
      dtype: that of the elements.
      index_dtype: int32, or int64 for arrays that need it.
      dims: size and stride, in elements, of each dimension, without those of index arrays.
      start: how far the first element is from `pointer`, as far as it is known.
      starts: what is added to that: values of MLIR, and what they are multiplied with.
      arrays: index arrays, their shapes, and what they are multiplied with.
      arrays_at: the position of the dimensions of index arrays among the others.
      origin: which argument or result it is of, for errors.
    """

    pointer: Any
    dtype: Any
    index_dtype: Any
    dims: tuple[tuple[int, int], ...]
    start: int = 0
    starts: tuple[tuple[Any, int], ...] = ()
    arrays: tuple[tuple[Any, tuple[int, ...], int], ...] = ()
    arrays_at: int = 0
    arrays_shape: tuple[int, ...] = ()
    origin: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        sizes = tuple([size for size, _ in self.dims])
        return (*sizes[: self.arrays_at], *self.arrays_shape, *sizes[self.arrays_at :])

    def replace(self, **changes: Any) -> View:
        return dataclasses.replace(self, **changes)

    def first(self, kernel: Kernel) -> Any:
        """Return a pointer to the first element, not counting what index arrays add."""
        offset = None
        for value, stride in self.starts:
            if stride != 1:
                value = arith.muli(value, kernel.full(stride, (), self.index_dtype))
            offset = value if offset is None else arith.addi(offset, value)
        if self.start:
            known = kernel.full(self.start, (), self.index_dtype)
            offset = known if offset is None else arith.addi(offset, known)
        if offset is None:
            return self.pointer
        return tt.addptr(self.pointer.type, self.pointer, offset)

    def pointers(self, kernel: Kernel) -> Any:
        """Return pointers to all elements: an array of them, or one, if there are no dimensions."""
        pointer, shape = self.first(kernel), self.shape
        if not shape:
            return pointer
        target = kernel.array_type(shape, pointer.type)
        return tt.addptr(target, tt.splat(target, pointer), self._offsets(kernel))

    def _offsets(self, kernel: Kernel) -> Any:
        shape, n = self.shape, len(self.arrays_shape)
        strides = [stride for _, stride in self.dims]
        strides[self.arrays_at : self.arrays_at] = [0] * n
        offsets = None
        if self.dims or not self.arrays:
            offsets = kernel.offsets(shape, tuple(strides), self.index_dtype)
        own = range(self.arrays_at, self.arrays_at + n)
        for array, array_shape, stride in self.arrays:
            if stride != 1:
                array = arith.muli(array, kernel.full(stride, array_shape, self.index_dtype))
            wide = with_unit_dims(array, [i for i in range(len(shape)) if i not in own])
            wide = kernel.broadcast(wide, shape)
            offsets = wide if offsets is None else arith.addi(offsets, wide)
        return offsets


def view_of_block(
    kernel: Kernel, pointer: Any, array: Any, sizes: Sequence[int | None], starts: Sequence[Any], origin: str
) -> View:  # fmt: skip
    """Return the block of an array that starts at `starts`; dimensions whose size is None are not seen."""
    strides, stride = [], 1
    for d in reversed(array.shape):
        strides.append(stride)
        stride *= d
    strides.reverse()
    index_dtype = _int32 if stride < 2**31 else np.dtype(np.int64)
    view = View(
        pointer=pointer,
        dtype=array.dtype,
        index_dtype=index_dtype,
        dims=tuple([(n, s) for n, s in zip(sizes, strides) if n is not None]),
        origin=origin,
    )
    for start, s in zip(starts, strides):
        view = _moved(kernel, view, start, _int32, s)
    return view


def _moved(kernel: Kernel, view: View, index: Any, dtype: Any, stride: int) -> View:
    """Add an index, which is a number or a scalar, times a stride to where the first element is."""
    if type(index) is Constant:
        index = index.value
    if isinstance(index, (int, np.integer)):
        return view.replace(start=view.start + int(index) * stride)
    index = convert(kernel, index, (), dtype, view.index_dtype)
    return view.replace(starts=(*view.starts, (index, stride)))


def _transformed(kernel: Kernel, view: View, transforms: Any, avals: Any) -> View:
    for t, aval in zip(transforms, avals):
        if isinstance(t, NDIndexer):
            view = _indexed(kernel, view, t, aval)
        elif isinstance(t, TransposeTransform) and not view.arrays:
            view = view.replace(dims=tuple([view.dims[i] for i in t.permutation]))
        elif isinstance(t, BitcastTransform) and _same_width(t.dtype, view.dtype):
            target = tt.PointerType.get(kernel.element_type(t.dtype), 1)
            view = view.replace(pointer=tt.bitcast(target, view.pointer), dtype=np.dtype(t.dtype))
        else:
            raise NotImplementedError(
                f"Kernels for {rules.target} cannot read or write {view.origin} through {t}: read it, and transform the array."
            )
    return view


def _same_width(a: Any, b: Any) -> bool:
    widths = [8 if is_bool(d) else dtypes.itemsize_bits(d) for d in (a, b)]
    return widths[0] == widths[1] >= 8


def _indexed(kernel: Kernel, view: View, indexer: NDIndexer, avals: NDIndexer) -> View:
    if view.arrays:
        raise NotImplementedError(
            f"Kernels for {rules.target} cannot index {view.origin} again after an index array: use one index."
        )
    dims, arrays = [], []
    has_arrays = avals.has_arrays
    for index, aval, (_, stride) in zip(indexer.indices, avals.indices, view.dims):
        if type(index) is Slice:
            start_dtype = getattr(aval.start, "dtype", _int32)
            view = _moved(kernel, view, index.start, start_dtype, stride)
            dims.append((index.size, stride * index.stride))
        elif has_arrays:
            shape = tuple(aval.shape)
            array = kernel.value(index, aval)
            arrays.append((convert(kernel, array, shape, aval.dtype, view.index_dtype), shape, stride))  # fmt: skip
        else:
            view = _moved(kernel, view, index, getattr(aval, "dtype", _int32), stride)
    at = avals.array_dims_position() if has_arrays else 0
    shape = tuple(avals.int_indexer_shape) if has_arrays else ()
    return view.replace(dims=tuple(dims), arrays=tuple(arrays), arrays_at=at, arrays_shape=shape)


# Access


def _load(kernel: Kernel, view: View, mask: Any = None, other: Any = None, **options: Any) -> Any:
    bits = 8 if is_bool(view.dtype) else dtypes.itemsize_bits(view.dtype)
    if bits < 8:
        if mask is not None:
            raise NotImplementedError(
                f"Kernels for {rules.target} cannot mask {dtypes.dtype_name(view.dtype)}, two of which are in a byte: mask what is read."
            )
        return _load_halves(kernel, view, options)
    pointers, shape = view.pointers(kernel), view.shape
    if is_bool(view.dtype):
        if other is not None:
            other = convert(kernel, other, shape, np.dtype(np.bool_), _int8)
        x = tt.load(pointers, mask=mask, other=other, **options)
        return arith.cmpi(arith.CmpIPredicate.ne, x, kernel.full(0, shape, _int8))
    return tt.load(pointers, mask=mask, other=other, **options)


def _store(kernel: Kernel, view: View, x: Any, mask: Any = None, **options: Any) -> None:
    if is_bool(view.dtype):
        x = convert(kernel, x, view.shape, view.dtype, _int8)
    elif dtypes.itemsize_bits(view.dtype) < 8:
        view, x = _joined_halves(kernel, view, x, mask)
    tt.store(view.pointers(kernel), x, mask=mask, **options)


def _in_bytes(view: View) -> View:
    """Return the bytes of elements of which two are in each."""
    strides = [s for _, s in view.dims[:-1]] + [s for _, s in view.starts]
    if (
        not view.dims
        or view.arrays
        or view.dims[-1][1] != 1
        or view.dims[-1][0] % 2
        or view.start % 2
        or any([s % 2 for s in strides])
    ):
        raise NotImplementedError(
            f"Kernels for {rules.target} read and write even numbers of neighbours of {dtypes.dtype_name(view.dtype)}, from even positions "
            f"on, of which two are in a byte: not what is asked for of {view.origin}. Take whole blocks."
        )
    *dims, (size, _) = view.dims
    return view.replace(
        dtype=_int8,
        dims=(*[(n, s // 2) for n, s in dims], (size // 2, 1)),
        start=view.start // 2,
        starts=tuple([(x, s // 2) for x, s in view.starts]),
    )


def _load_halves(kernel: Kernel, view: View, options: Any) -> Any:
    packed = _in_bytes(view)
    low = tt.load(packed.pointers(kernel), **options)
    high = arith.shrui(low, kernel.full(4, packed.shape, _int8))
    both = tt.reshape(kernel.type_of(view.shape, _int8), kernel.join(low, high))
    return arith.trunci(kernel.type_of(view.shape, view.dtype), both)


def _joined_halves(kernel: Kernel, view: View, x: Any, mask: Any) -> tuple[View, Any]:
    if mask is not None:
        raise NotImplementedError(
            f"Kernels for {rules.target} cannot mask {dtypes.dtype_name(view.dtype)}, two of which are in a byte."
        )
    packed = _in_bytes(view)
    wide = arith.extui(kernel.type_of(view.shape, _int8), x)
    low, high = tt.split(tt.reshape(kernel.type_of((*packed.shape, 2), _int8), wide))
    high = arith.shli(high, kernel.full(4, packed.shape, _int8))
    return packed, arith.ori(low, high)


def _view(ctx: RuleContext, ref: View, tree: Any, idx: Sequence[Any], avals: Sequence[Any]) -> View:
    return _transformed(ctx.kernel, ref, tree_unflatten(tree, idx), tree_unflatten(tree, avals))


def _view_and_operands(ctx: RuleContext, args: Sequence[Any], tree: Any) -> list[Any]:
    """Return what is accessed, and the values of the arrays that follow a reference and its transforms."""
    ref, transforms, *arrays = tree_unflatten(tree, args)
    _, avals, *array_avals = tree_unflatten(tree, ctx.avals_in)
    values = [None if x is None else ctx.kernel.value(x, a) for x, a in zip(arrays, array_avals)]
    return [_transformed(ctx.kernel, ref, transforms, avals), *values]


@rules.rule(get_p)
def _get(ctx: RuleContext, ref: View, *idx: Any, tree: Any) -> Any:
    return _load(ctx.kernel, _view(ctx, ref, tree, idx, ctx.avals_in[1:]))


@rules.rule(swap_p)
def _swap(ctx: RuleContext, ref: View, x: Any, *idx: Any, tree: Any) -> Any:
    view = _view(ctx, ref, tree, idx, ctx.avals_in[2:])
    # Most writes do not use what was there.
    used = ctx.kernel.is_used(ctx.eqn.outvars[0])
    old = _load(ctx.kernel, view) if used else None
    _store(ctx.kernel, view, ctx.kernel.value(x, ctx.avals_in[1]))
    return [old]


@rules.rule(addupdate_p)
def _add_to(ctx: RuleContext, ref: View, x: Any, *idx: Any, tree: Any) -> Any:
    kernel = ctx.kernel
    view = _view(ctx, ref, tree, idx, ctx.avals_in[2:])
    x = kernel.value(x, ctx.avals_in[1])
    if view.arrays:
        # An element that is selected several times gets all that is added.
        kind = tt.RMWOp.FADD if is_float(view.dtype) else tt.RMWOp.ADD
        _rmw(kind, view.pointers(kernel), x, None)
    else:
        _store(kernel, view, add((_load(kernel, view), x), view.dtype))
    return []


_CACHE_MODIFIERS = {None: None, ".ca": "CA", ".cg": "CG"}
_EVICTION_POLICIES = {None: None, "evict_last": "EVICT_LAST", "evict_first": "EVICT_FIRST"}


def _eviction(name: Any) -> str | None:
    if name not in _EVICTION_POLICIES:
        raise ValueError(
            f"unsupported eviction policy: {name}; there are {', '.join([str(p) for p in _EVICTION_POLICIES])}"
        )
    return _EVICTION_POLICIES[name]


@rules.rule(masked_load_p)
def _masked_load(
    ctx: RuleContext, *args: Any, tree: Any, cache_modifier: Any, eviction_policy: Any, volatile: bool
) -> Any:  # fmt: skip
    view, mask, other = _view_and_operands(ctx, args, tree)
    if cache_modifier not in _CACHE_MODIFIERS:
        raise ValueError(
            f"unsupported cache modifier: {cache_modifier}; there are {', '.join([str(m) for m in _CACHE_MODIFIERS])}"
        )
    modifier = _CACHE_MODIFIERS[cache_modifier]
    return _load(
        ctx.kernel,
        view,
        mask,
        None if mask is None else other,
        is_volatile=True if volatile else None,
        **triton.cache_options(modifier, _eviction(eviction_policy)),
    )


@rules.rule(masked_store_p)
def _masked_store(ctx: RuleContext, *args: Any, tree: Any, eviction_policy: Any) -> Any:
    view, x, mask = _view_and_operands(ctx, args, tree)
    _store(ctx.kernel, view, x, mask, **triton.cache_options(None, _eviction(eviction_policy)))
    return []


# Atomic operations


def _rmw(kind: Any, pointers: Any, x: Any, mask: Any) -> Any:
    return tt.atomic_rmw(
        x.type, kind, pointers, x, tt.MemSemantic.ACQUIRE_RELEASE, tt.MemSyncScope.GPU, mask=mask
    )


@rules.rule(atomic_rmw_p)
def _atomic(ctx: RuleContext, *args: Any, tree: Any, kind: Atomic) -> Any:
    kernel = ctx.kernel
    view, x, mask = _view_and_operands(ctx, args, tree)
    if is_bool(view.dtype) or dtypes.itemsize_bits(view.dtype) < 16:
        raise NotImplementedError(
            f"Kernels for {rules.target} have no atomic operations on {dtypes.dtype_name(view.dtype)}, only on wider types."
        )
    pointers = view.pointers(kernel)
    if kind in (Atomic.MAX, Atomic.MIN):
        if is_float(view.dtype):
            return _atomic_extremum(kernel, kind, view, pointers, x, mask)
        name = kind.name if is_signed(view.dtype) else f"U{kind.name}"
        return _rmw(getattr(tt.RMWOp, name), pointers, x, mask)
    name = "FADD" if kind is Atomic.ADD and is_float(view.dtype) else kind.name
    return _rmw(getattr(tt.RMWOp, name), pointers, x, mask)


def _atomic_extremum(
    kernel: Kernel, kind: Atomic, view: View, pointers: Any, x: Any, mask: Any
) -> Any:
    """Floats that are not negative are ordered as signed integers, the others in reverse as unsigned."""
    if view.dtype.itemsize < 4:
        raise NotImplementedError(
            f"Kernels for {rules.target} have atomic maxima and minima of float32 and float64, not of {dtypes.dtype_name(view.dtype)}."
        )
    shape = view.shape
    integer = np.dtype(np.int32 if view.dtype.itemsize == 4 else np.int64)
    as_integer = kernel.type_of(shape, integer)
    element = tt.PointerType.get(kernel.element_type(integer), 1)
    pointers = tt.bitcast(kernel.array_type(shape, element), pointers)
    bits = tt.bitcast(as_integer, x)
    zero = kernel.full(0, shape, integer)
    positive = arith.cmpi(arith.CmpIPredicate.sge, bits, zero)
    negative = arith.cmpi(arith.CmpIPredicate.slt, bits, zero)
    if kind is Atomic.MAX:
        of_positive, of_negative = tt.RMWOp.MAX, tt.RMWOp.UMIN
    else:
        of_positive, of_negative = tt.RMWOp.MIN, tt.RMWOp.UMAX
    both = lambda m: m if mask is None else arith.andi(m, mask)
    a = _rmw(of_positive, pointers, bits, both(positive))
    b = _rmw(of_negative, pointers, bits, both(negative))
    return tt.bitcast(kernel.type_of(shape, view.dtype), arith.select(positive, a, b))


@rules.rule(atomic_cas_p)
def _compare_and_swap(ctx: RuleContext, *args: Any, tree: Any) -> Any:
    view, expected, x = _view_and_operands(ctx, args, tree)
    return tt.atomic_cas(
        x.type, view.pointers(ctx.kernel), expected, x, tt.MemSemantic.ACQUIRE_RELEASE, tt.MemSyncScope.GPU
    )  # fmt: skip


def pointer_type(kernel: Kernel, dtype: Any) -> Any:
    """Return the type of pointers to the elements of an array; booleans and pairs of int4 are bytes."""
    small = is_bool(dtype) or dtypes.itemsize_bits(dtype) < 8
    element = ir.IntegerType.get_signless(8) if small else kernel.element_type(dtype)
    return tt.PointerType.get(element, 1)
