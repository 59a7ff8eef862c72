"""Bisection of a sorted vector for many values: one operation that a native kernel can do."""

from __future__ import annotations

import functools

import numpy as np

from jax._src import core, dtypes
from jax._src.api import vmap
from jax._src.core import Primitive, ShapedArray
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import control_flow, lax, native_calls, slicing


def elements_at(a, places):
    """Gathers elements of a vector at in-bounds indices of any shape."""
    return slicing.gather(
        a,
        lax.expand_dims(places, (places.ndim,)),
        slicing.GatherDimensionNumbers((), (0,), (0,)),
        (1,),
        mode=slicing.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def before(x, y, strictly):
    """Tests whether `x` sorts before `y` or, unless `strictly`, is equal; NaNs sort last."""
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        (xr, yr), (xi, yi) = (lax.real(x), lax.real(y)), (lax.imag(x), lax.imag(y))
        same = lax.bitwise_or(lax.eq(xr, yr), lax.bitwise_and(lax.ne(xr, xr), lax.ne(yr, yr)))
        return lax.bitwise_or(before(xr, yr, True), lax.bitwise_and(same, before(xi, yi, strictly)))
    result = lax.lt(x, y) if strictly else lax.le(x, y)
    if dtypes.issubdtype(x.dtype, np.floating):
        nan = lax.ne(y, y)
        if strictly:
            nan = lax.bitwise_and(nan, lax.eq(x, x))
        result = lax.bitwise_or(result, nan)
    return result


# The places are found by a loop, or, if that is installed, by the kernel, which finds the same ones.

_KERNEL = "jaxlib_ext_search_sorted"
_MIN_KERNEL_SIZE = 256
_MAX_KERNEL_ELEMENTS = 1 << 16  # in larger vectors the loop, which XLA vectorizes, is faster
bisect_p = Primitive("bisect")


def bisect(a, v, side, dtype, unrolled):
    """Finds the places of values in a sorted vector, which is not empty, as `searchsorted` does.

    Args:
      a, v: arrays of one dtype.
      side: "left" or "right".
      dtype: of the result.
      unrolled: whether to unroll the loop over the steps.
    """
    can_be_kernel = (
        dtype == np.int32
        and core.is_constant_shape(a.shape)
        and native_calls.is_number(a.dtype)
        and core.is_constant_shape(v.shape)
        and v.size >= _MIN_KERNEL_SIZE
        and a.shape[0] <= _MAX_KERNEL_ELEMENTS
        and all(core.typeof(x)._sharding is None for x in (a, v))
    )
    # Where the number of steps is not known, reverse mode could not go through the loop.
    is_primitive = can_be_kernel or not core.is_constant_shape(a.shape)
    search = bisect_p.bind if is_primitive else _bisect
    return search(*core.vary_alike([a, v]), side=side, dtype=dtype, unrolled=unrolled)


def _bisect(a, v, *, side, dtype, unrolled):
    n = a.shape[0]
    wide = np.dtype(np.uint64) if core.definitely_greater(n, 2**31 - 1) else np.dtype(np.uint32)
    if core.is_constant_dim(n):
        steps, n = n.bit_length(), np.array(n, wide)
    else:
        n = lax.convert_element_type(n, wide)
        steps = lax.convert_element_type(
            lax.sub(np.array(wide.itemsize * 8, wide), lax.clz(n)), np.int32
        )
        unrolled = False
    alike = functools.partial(lax.broadcast, sizes=v.shape, out_sharding=core.typeof(v)._sharding)

    def halve(step, low):
        # All intervals have the same size, n halved `step` times and rounded down, so that `low`
        # is the whole state: what compares less than the midpoint of an interval of even size
        # goes on in the upper half together with the midpoint. Every midpoint is in bounds.
        step = lax.convert_element_type(step, wide)
        size = lax.shift_right_logical(n, step)
        half = lax.shift_right_logical(size, np.array(1, wide))
        mid = lax.add(low, alike(half))
        smaller = before(elements_at(a, mid), v, side == "left")
        above = lax.add(low, alike(lax.sub(size, half)))
        return lax.select(smaller, above, low)

    low, *_ = core.vary_alike([lax.full_like(v, 0, wide), a, v])
    low = control_flow.fori_loop(0, steps, halve, low, unroll=steps if unrolled else 1)
    return lax.convert_element_type(low, dtype)


def _bisect_type(a, v, *, side, dtype, unrolled):
    return ShapedArray(v.shape, dtype, manual_axis_type=v.manual_axis_type)


def _bisect_batch(args, dims, **params):
    (a, v), (a_dim, v_dim) = args, dims
    if a_dim is None:
        return bisect_p.bind(a, v, **params), v_dim
    search = functools.partial(_bisect, **params)
    return vmap(search, in_axes=(a_dim, v_dim))(a, v), 0


_lower_bisect = mlir.lower_fun(_bisect, multiple_results=False)


def _lower_bisect_cpu(ctx, a, v, *, side, dtype, unrolled):
    known = all(core.is_constant_shape(x.shape) for x in ctx.avals_in)
    if not (known and native_calls.can_call_whole(ctx, _KERNEL)):
        return _lower_bisect(ctx, a, v, side=side, dtype=dtype, unrolled=unrolled)
    attributes = dict(right=np.int64(side == "right"))
    return native_calls.call(ctx, _KERNEL, [a, v], ctx.avals_in, ctx.avals_out, attributes)


bisect_p.def_abstract_eval(_bisect_type)
bisect_p.jvp = functools.partial(ad.zero_jvp, bisect_p)
batching.primitive_batchers[bisect_p] = _bisect_batch
mlir.register_lowering(bisect_p, _lower_bisect)
mlir.register_lowering(bisect_p, _lower_bisect_cpu, platform="cpu")
