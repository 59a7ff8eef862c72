"""What sparse arrays with batch dimensions have in common; vmap maps over one of these dimensions."""

from __future__ import annotations

from typing import Any

from jax._src.interpreters.vmappables import register_vmappable
from jax._src.lax import lax
from jax._src.sparse.base import JAXSparse, SparseInfo


class BatchedSparse(JAXSparse):
    """Base class of sparse arrays that are pytrees of their buffers, with `SparseInfo` beside them."""

    indices_sorted: bool
    unique_indices: bool
    _buffer_names: tuple[str, ...]

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    @property
    def _bufs(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self._buffer_names])

    def tree_flatten(self) -> Any:
        """The buffers, and what else the array consists of."""
        return self._bufs, self._info._asdict()

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> Any:
        """The array of a pytree's children, which may be anything."""
        if set(aux_data) != set(SparseInfo._fields):
            raise ValueError(f"{cls.__name__}.tree_unflatten: invalid aux_data={aux_data}")
        self = object.__new__(cls)
        self.__dict__.update(zip(cls._buffer_names, children, strict=True), **aux_data)
        return self


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
