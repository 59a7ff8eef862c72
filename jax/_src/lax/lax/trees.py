"""Reductions and scans by an arbitrary associative operation, as trees of logarithmic depth.

They serve as derivatives of such reductions, because transformations can trace through the
operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core
from jax._src.core.jaxpr import ClosedJaxpr
from jax._src.interpreters import batching
from jax._src.late_binding import late
from jax._src.lax.lax.create import broadcasted_iota, full_like
from jax._src.lax.lax.joining import concatenate, pad, split, stack, unstack
from jax._src.lax.lax.logical import ge
from jax._src.lax.lax.select import select
from jax._src.lax.lax.shape import reshape, rev, squeeze, transpose

# A function from the leaves of two values to the leaves of one, elementwise on arrays of any shape.
Combine = Callable[[list[Any], list[Any]], list[Any]]


def reduce_tree(combine: Combine, xs: Sequence[Any], dims: Sequence[int]) -> list[Any]:
    """Combine all elements along `dims`, neighbors first; there must be at least one.

    Args:
      combine: an associative operation.
      xs: arrays of one shape.
      dims: dimensions to reduce, which are removed.

    Returns:
      The reduced arrays.
    """
    shape = core.typeof(xs[0]).shape
    kept = [d for d in range(len(shape)) if d not in dims]
    kept_shape = [shape[d] for d in kept]
    n = math.prod(shape[d] for d in dims)
    perm = [*kept, *dims]
    xs = [reshape(transpose(x, perm), (*kept_shape, n)) for x in xs]
    axis = len(kept)
    if core.is_symbolic_dim(n):
        starts = [*[0] * axis, n - 1]
        xs = scan_by_distances(combine, xs, axis, n)
        return [squeeze(late.slice(x, starts, (*kept_shape, n)), (axis,)) for x in xs]
    while n > 1:
        left, right, rest = _pairs(xs, axis, n)
        xs = combine(left, right)
        if n % 2:
            xs = [concatenate([x, r], axis) for x, r in zip(xs, rest)]
        n = n // 2 + n % 2
    return [reshape(x, kept_shape) for x in xs]


def scan_tree(combine: Combine, xs: Sequence[Any], axis: int, reverse: bool = False) -> list[Any]:
    """Compute all partial results of combining elements along `axis`.

    Args:
      combine: an associative operation.
      xs: arrays of equal size along `axis`.
      axis: axis to scan.
      reverse: whether to start from the last element.

    Returns:
      Arrays of the shapes of `xs`.
    """
    if reverse:
        xs = [rev(x, (axis,)) for x in xs]
    n = core.typeof(xs[0]).shape[axis]
    scan = scan_by_distances if core.is_symbolic_dim(n) else _scan
    out = scan(combine, list(xs), axis, n)
    return [rev(x, (axis,)) for x in out] if reverse else out


def _scan(combine, xs, axis, n):
    if n < 2:
        return xs
    even, odd, last = _pairs(xs, axis, n)
    half = n // 2
    # First the partial results ending at odd positions, then those at even positions after the
    # first.
    ends_odd = _scan(combine, combine(even, odd), axis, half)
    firsts, evens = zip(*[split(x, (1, half - 1), axis) for x in even])
    if n % 2:
        evens = [concatenate([x, r], axis) for x, r in zip(evens, last)]
        before = ends_odd
    else:
        before = [split(x, (half - 1, 1), axis)[0] for x in ends_odd]
    if half - 1 + n % 2:
        evens = combine(list(before), list(evens))
    ends_even = [concatenate([f, x], axis) for f, x in zip(firsts, evens)]
    if n % 2 == 0:
        return [_interleave(a, b, axis) for a, b in zip(ends_even, ends_odd)]
    out = []
    for a, b in zip(ends_even, ends_odd):
        a, tail = split(a, (half, 1), axis)
        out.append(concatenate([_interleave(a, b, axis), tail], axis))
    return out


def scan_by_distances(combine, xs, axis, n):
    """Scan along a symbolic size: combine each element with the one 1, 2, 4, … places before.

    The steps are those for the largest size that the constraints allow. The compiler, which knows the
    size, leaves out those of distances beyond it.
    """
    xs = list(xs)
    distance = 1
    while distance < 2**31 and core.possibly_greater(n, distance):
        # Elements without one are combined with themselves: of other numbers, derivatives may be NaN.
        before = [_from(distance, axis, _shifted(x, axis, distance), x) for x in xs]
        xs = [_from(distance, axis, y, x) for x, y in zip(xs, combine(before, xs))]
        distance *= 2
    return xs


def _from(index, axis, x, y):
    """The elements of x from an index along the axis on, and those of y before."""
    shape = core.typeof(y).shape
    return select(ge(broadcasted_iota(np.int32, shape, axis), np.int32(index)), x, y)


def _shifted(x, axis, distance):
    """The elements `distance` places before, and zeros where there are none."""
    aval = core.typeof(x)
    config = [(distance, -distance, 0) if d == axis else (0, 0, 0) for d in range(aval.ndim)]
    return pad(x, full_like(x, 0, shape=()), config)


def _pairs(xs, axis, n):
    """Return the elements at even and at odd positions, and the last one if `n` is odd."""
    half, rest = n // 2, []
    if n % 2:
        xs, rest = zip(*[split(x, (n - 1, 1), axis) for x in xs])
    left, right = [], []
    for x in xs:
        shape = core.typeof(x).shape
        a, b = unstack(reshape(x, (*shape[:axis], half, 2, *shape[axis + 1 :])), axis + 1)
        left.append(a)
        right.append(b)
    return left, right, list(rest)


def _interleave(a, b, axis):
    shape = core.typeof(a).shape
    pairs = stack([a, b], axis + 1)
    return reshape(pairs, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))


def elementwise(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """Apply a jaxpr of scalars elementwise to arrays of one shape, by batching it."""

    def apply(*args):
        shape = core.typeof(args[0]).shape
        n = math.prod(shape)
        axis = batching.AxisData(core.no_axis_name, n, None, None)
        batched, _ = batching.batch_jaxpr(closed, axis, [True] * len(args), True)
        flat = [reshape(x, (n,)) for x in args]
        outs = core.eval_jaxpr(batched.jaxpr, batched.consts, *flat)
        return [reshape(x, shape) for x in outs]

    return apply


def combine_jaxpr(closed: ClosedJaxpr, n: int) -> Combine:
    """Return the `Combine` of a jaxpr that takes the `n` leaves of one value, then of the other."""
    apply = elementwise(closed)
    return lambda left, right: apply(*left, *right)


def combine_jvp(jvp_jaxpr: ClosedJaxpr, n: int) -> Combine:
    """Like `combine_jaxpr`, for a jvp: a value is `n` primal leaves followed by their tangents."""
    apply = elementwise(jvp_jaxpr)
    return lambda left, right: apply(*left[:n], *right[:n], *left[n:], *right[n:])
