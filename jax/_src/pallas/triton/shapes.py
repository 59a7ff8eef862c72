"""Rules of primitives that change shapes, or make arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.lax import lax, slicing
from jax._src.lib.triton import dialect as tt
from jax._src.pallas.element_types import is_float
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.triton.conversions import convert
from jax._src.pallas.triton.kernel import Constant, Kernel, is_bool, rule, rules, with_unit_dims


@rules.rule(lax.broadcast_in_dim_p)
def _broadcast(
    ctx: RuleContext, x: Any, *dynamic: Any, shape: Any, broadcast_dimensions: Any, **_: Any
) -> Any:
    (aval,) = ctx.avals_out
    if type(x) is Constant:
        return Constant(x.value, x.dtype) if not aval.shape else ctx.kernel.full(x.value, aval.shape, aval.dtype)  # fmt: skip
    if not ctx.avals_in[0].shape:
        return ctx.kernel.splat(x, aval.shape)
    new = [i for i in range(len(shape)) if i not in broadcast_dimensions]
    return ctx.kernel.broadcast(with_unit_dims(x, new), aval.shape)


@rule(lax.reshape_p, lax.squeeze_p)
def _reshape(ctx: RuleContext, x: Any, **_: Any) -> Any:
    return reshape(ctx.kernel, x, ctx.avals_in[0], ctx.avals_out[0].shape)


def reshape(kernel: Kernel, x: Any, aval: Any, shape: tuple[int, ...]) -> Any:
    """Return the elements of an array, in order, as one of another shape."""
    if aval.shape == shape:
        return x
    if not aval.shape:
        return kernel.splat(x, shape)
    if not shape:
        flat = x if len(aval.shape) == 1 else reshape(kernel, x, aval, (1,))
        return tt.unsplat(flat)
    maker = getattr(x.owner, "opview", None)
    if isinstance(maker, tt.ExpandDimsOp) and list(maker.src.type.shape) == list(shape):
        return maker.src
    new = _inserted_dims(aval.shape, shape)
    if new is not None:
        return with_unit_dims(x, new)
    return tt.reshape(kernel.type_of(shape, aval.dtype), x)


def _inserted_dims(old: tuple[int, ...], new: tuple[int, ...]) -> list[int] | None:
    """Return which dimensions of the new shape, all of size one, the old one does not have."""
    inserted, i = [], 0
    for k, size in enumerate(new):
        if i < len(old) and old[i] == size:
            i += 1
        elif size == 1:
            inserted.append(k)
        else:
            return None
    return inserted if i == len(old) else None


@rule(lax.transpose_p)
def _transpose(ctx: RuleContext, x: Any, *, permutation: Any) -> Any:
    if tuple(permutation) == tuple(range(len(permutation))):
        return x
    return tt.trans(x, [int(i) for i in permutation])


@rule(lax.iota_p)
def _iota(ctx: RuleContext, *dynamic: Any, dimension: int, dtype: Any, shape: Any, **_: Any) -> Any:
    kernel = ctx.kernel
    if shape[dimension] == 1:
        return kernel.full(0.0 if is_float(dtype) else 0, tuple(shape), dtype)
    int32 = np.dtype(np.int32)
    if np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize == 4:
        return kernel.iota(tuple(shape), dimension)
    size = (shape[dimension],)
    x = convert(kernel, kernel.iota(size, 0), size, int32, dtype)
    return kernel.broadcast(
        with_unit_dims(x, [i for i in range(len(shape)) if i != dimension]), shape
    )


@rule(lax.empty_p)
def _empty(ctx: RuleContext, **_: Any) -> Any:
    (aval,) = ctx.avals_out
    value = False if is_bool(aval.dtype) else 0.0 if is_float(aval.dtype) else 0
    return ctx.kernel.full(value, aval.shape, aval.dtype)


# Joining and splitting: Triton does it for two arrays, along a new last dimension.


@rule(lax.stack_p)
def _stack(ctx: RuleContext, *xs: Any, axis: int) -> Any:
    return stack(ctx.kernel, xs, ctx.avals_in[0], axis)


def stack(kernel: Kernel, xs: Any, aval: Any, axis: int) -> Any:
    """Stack arrays, whose number is a power of two, along a new axis."""
    shape = tuple(aval.shape)
    n = len(xs)
    if n & (n - 1):
        raise NotImplementedError(
            f"Kernels for {rules.target} join arrays whose number is a power of 2, not {n}: repeat one of them."
        )
    if n == 1:
        return reshape(kernel, xs[0], aval, (*shape[:axis], 1, *shape[axis:]))
    # Arrays whose numbers differ in the highest bit are joined first: the new dimensions are those bits.
    rank = len(shape)
    rest = list(xs)
    while len(rest) > 1:
        half = len(rest) // 2
        rest = [kernel.join(a, b) for a, b in zip(rest[:half], rest[half:])]
    (x,) = rest
    bits = n.bit_length() - 1
    order = [*range(axis), *range(rank, rank + bits), *range(axis, rank)]
    if order != list(range(rank + bits)):
        x = tt.trans(x, order)
    if bits == 1:
        return x
    return tt.reshape(kernel.type_of((*shape[:axis], n, *shape[axis:]), aval.dtype), x)


@rule(lax.concatenate_p)
def _concatenate(ctx: RuleContext, *xs: Any, dimension: int) -> Any:
    avals = ctx.avals_in
    if len(xs) == 1:
        return xs[0]
    if any([a.shape != avals[0].shape for a in avals]):
        raise NotImplementedError(
            f"Kernels for {rules.target} concatenate arrays of one shape, not of {', '.join([a.str_short() for a in avals])}: pad "
            "them, or write them to slices of a reference."
        )
    joined = stack(ctx.kernel, xs, avals[0], dimension)
    (out,) = ctx.avals_out
    return tt.reshape(ctx.kernel.type_of(out.shape, out.dtype), joined)


@rule(lax.split_p)
def _split(ctx: RuleContext, x: Any, *, sizes: Any, axis: int) -> Any:
    (aval,) = ctx.avals_in
    if len(set(sizes)) > 1:
        raise NotImplementedError(
            f"Kernels for {rules.target} split arrays into parts of one size, not of {tuple(sizes)}: read slices of a reference."
        )
    return _parts(ctx.kernel, x, aval, axis, len(sizes))


def _parts(kernel: Kernel, x: Any, aval: Any, axis: int, n: int) -> list[Any]:
    """Split an array into a number of equal parts, a power of two."""
    if n == 1:
        return [x]
    shape = list(aval.shape)
    half = shape[axis] // 2
    x = tt.reshape(kernel.type_of((*shape[:axis], 2, half, *shape[axis + 1 :]), aval.dtype), x)
    rank = len(shape)
    x = tt.trans(x, [*range(axis), *range(axis + 1, rank + 1), axis])
    shape[axis] = half
    part = aval.update(shape=tuple(shape))
    return [p for side in tt.split(x) for p in _parts(kernel, side, part, axis, n // 2)]  # fmt: skip


@rule(slicing.slice_p)
def _slice(
    ctx: RuleContext, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any
) -> Any:
    (aval,), (out,) = ctx.avals_in, ctx.avals_out
    for axis, (start, size) in enumerate(zip(start_indices, out.shape)):
        whole = aval.shape[axis]
        stride = 1 if strides is None else strides[axis]
        if size == whole:
            continue
        if stride == 1 and start % size == 0 and whole % size == 0:
            x = _parts(ctx.kernel, x, aval, axis, whole // size)[start // size]
        elif stride * size == whole:
            # Every so manieth element: a part of an array with one dimension more.
            shape = (*aval.shape[:axis], size, stride, *aval.shape[axis + 1 :])
            wide = aval.update(shape=shape)
            x = tt.reshape(ctx.kernel.type_of(shape, aval.dtype), x)
            x = _parts(ctx.kernel, x, wide, axis + 1, stride)[start]
            x = tt.reshape(ctx.kernel.type_of((*shape[: axis + 1], *shape[axis + 2 :]), aval.dtype), x)  # fmt: skip
        else:
            raise NotImplementedError(
                f"Kernels for {rules.target} cannot take elements {start}, {start + stride}, ... of dimension {axis} of an array of "
                f"type {aval.str_short()}: read them from the reference, ref[pl.ds(start, size)], or take an aligned "
                "part whose size is a power of 2."
            )
        shape_now = list(aval.shape)
        shape_now[axis] = size
        aval = aval.update(shape=tuple(shape_now))
    return x
