"""What vmap does with sparse arrays that have batch dimensions: it maps over one of these."""

from __future__ import annotations

from typing import Any

from jax._src.interpreters.vmappables import register_vmappable
from jax._src.lax import lax


def map_over_batch(kind: Any) -> None:
    """Let vmap map over batch dimensions of a class of sparse arrays.

    In its buffers these are the leading dimensions; those of size 1 are broadcast.
    """
    name = kind.__name__

    def with_buffers(arr: Any, buffers: Any, shape: tuple[int, ...]) -> Any:
        info = {**arr.tree_flatten()[1], "shape": shape}
        return kind(tuple(buffers), **info)

    def to_elt(cont: Any, _: Any, arr: Any, axis: int | None) -> Any:
        if axis is None:
            return arr
        at = axis + arr.ndim if axis < 0 else axis
        if not 0 <= at < arr.n_batch:
            raise ValueError(
                f"Cannot map in_axis={axis} for {name} array with n_batch={arr.n_batch}. "
                f"in_axes for batched {name} operations must correspond to a batch dimension."
            )
        size = arr.shape[at]

        def part(x: Any) -> Any:
            # A dimension of size 1 is the same for all elements.
            return lax.squeeze(x, [at]) if x.shape[at] != size else cont(x, at)

        shape = (*arr.shape[:at], *arr.shape[at + 1 :])
        return with_buffers(arr, map(part, arr.tree_flatten()[0]), shape)

    def from_elt(cont: Any, size: int, arr: Any, axis: int | None) -> Any:
        if axis is None:
            return arr
        if not 0 <= axis <= arr.n_batch:
            raise ValueError(
                f"{name}: cannot add out_axis={axis} for {name} array with n_batch={arr.n_batch}. "
                f"{name} batch axes must be a contiguous block of leading dimensions."
            )
        buffers = (cont(size, x, axis) for x in arr.tree_flatten()[0])
        return with_buffers(arr, buffers, (*arr.shape[:axis], size, *arr.shape[axis:]))

    register_vmappable(kind, int, int, to_elt, from_elt, None)
