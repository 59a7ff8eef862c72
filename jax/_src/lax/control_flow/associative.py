"""`associative_scan`: prefixes of an associative operation, in logarithmic depth.

Ladner and Fischer, "Parallel prefix computation", 1980.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import core, traceback_util
from jax._src.core import typeof
from jax._src.late_binding import late
from jax._src.lax import lax, slicing
from jax._src.lax.lax.trees import scan_by_distances
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.util import canonicalize_axis


@traceback_util.api_boundary
def associative_scan(fn: Callable, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Combine all prefixes of arrays along an axis by an associative operation.

    Args:
      fn: associative function of two pytrees like `elems`, elementwise along `axis`.
      elems: pytree of arrays whose sizes along `axis` are equal.
      reverse: whether to combine suffixes instead.
      axis: axis to scan.

    Returns:
      A pytree like `elems`. Along the axis, element k combines the elements 0 to k.

    Raises:
      TypeError: if `fn` is not callable.
      ValueError: if the axes differ in size.

    >>> print(jax.lax.associative_scan(jnp.add, jnp.arange(4)))
    [0 1 3 6]
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    flat, tree = tree_flatten(elems)
    if not flat:
        return elems
    flat = [late.to_array(x) for x in flat]
    axis = canonicalize_axis(axis, typeof(flat[0]).ndim)
    sizes = {typeof(x).shape[axis] for x in flat}
    if len(sizes) > 1:
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension. "
            f"(saw: {[typeof(x).shape for x in flat]})"
        )
    (size,) = sizes
    if reverse:
        flat = [lax.rev(x, (axis,)) for x in flat]

    def combine(a, b):
        out = fn(tree_unflatten(tree, a), tree_unflatten(tree, b))
        return tree_flatten(out)[0]

    def part(xs, start, stop, stride=1):
        return [slicing.slice_in_dim(x, start, stop, stride, axis) for x in xs]

    def scan(xs, n):
        if n < 2:
            return xs
        pairs = combine(part(xs, 0, n - 1, 2), part(xs, 1, n, 2))
        odd = scan(pairs, n // 2)
        left = part(odd, 0, n // 2 - 1) if n % 2 == 0 else odd
        even = combine(left, part(xs, 2, n, 2))
        even = [lax.concatenate([a, b], axis) for a, b in zip(part(xs, 0, 1), even)]
        return [_interleave(a, b, axis) for a, b in zip(even, odd)]

    if core.is_symbolic_dim(size):
        out = scan_by_distances(combine, flat, axis, size)
    else:
        out = scan(flat, size)
    if reverse:
        out = [lax.rev(x, (axis,)) for x in out]
    return tree_unflatten(tree, out)


def _interleave(a, b, axis: int):
    """Interleave along the axis: elements of `a` at even positions, of `b` at odd ones."""
    n, m = a.shape[axis], b.shape[axis]
    if a.dtype == np.bool_:
        zero = np.False_
        join = lax.bitwise_or
    else:
        zero = lax.const(a, 0)
        join = lax.add
    config = [(0, 0, 0)] * a.ndim
    config_a, config_b = list(config), list(config)
    config_a[axis] = (0, int(n == m), 1)
    config_b[axis] = (1, int(n != m), 1)
    return join(lax.pad(a, zero, config_a), lax.pad(b, zero, config_b))
