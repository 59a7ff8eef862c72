"""Reductions and scans by an arbitrary associative operation, as trees of logarithmic depth.

They serve as derivatives of such reductions, because transformations can trace through the
operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.core.jaxpr import ClosedJaxpr
from jax._src.interpreters import batching
from jax._src.lax.lax.joining import concatenate, split, stack, unstack
from jax._src.lax.lax.shape import reshape, rev, transpose

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
    out = _scan(combine, list(xs), axis, n)
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
