"""`jax.ds`: slices of a static size that may start at a traced position."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.tree_util import register_pytree_node


class Slice:
    """The `size` elements `start`, `start + stride`, ... of a dimension.

    Args:
      start: the first element; an integer or a traced integer scalar.
      size: the number of elements, a static integer.
      stride: the distance between two elements.

    Raises:
      ValueError: if the size or the stride is negative.
    """

    __slots__ = ("start", "size", "stride")

    def __init__(self, start: Any, size: Any, stride: int = 1):
        if isinstance(stride, int) and stride < 0:
            raise ValueError(f"slice must have a stride >= 0 (found: {stride})")
        if isinstance(size, int) and size < 0:
            raise ValueError(f"slice must have a size >= 0 (found: {size})")
        self.start = start
        self.size = size
        self.stride = stride

    @classmethod
    def from_slice(cls, slc: slice, size: int) -> Slice:
        """The elements that a Python slice selects in a dimension of the given size."""
        step = 1 if slc.step is None else slc.step
        if step < 1:
            raise ValueError(f"slice must have a step >= 1 (found: {step})")
        try:
            start, stop, step = slc.indices(size)
        except TypeError:
            raise TypeError(
                f"the bounds of {slc} must be concrete integers: use jax.ds(start, size) for a slice "
                "that starts at a traced position"
            ) from None
        return cls(start, max(-((start - stop) // step), 0), step)

    @property
    def is_dynamic_start(self) -> bool:
        """Whether the start is traced."""
        return not isinstance(self.start, (int, np.integer))

    @property
    def is_dynamic_size(self) -> bool:
        return not isinstance(self.size, (int, np.integer))

    @property
    def span(self) -> int:
        """The number of elements from the first to the last one, inclusive."""
        return (self.size - 1) * self.stride + 1 if self.size else 0

    def is_full(self, size: int) -> bool:
        """Whether it selects all elements of a dimension of the given size."""
        return (
            not self.is_dynamic_start
            and not self.is_dynamic_size
            and self.start == 0
            and self.size == size
            and (self.stride == 1 or size <= 1)
        )

    def tree_flatten(self) -> tuple[tuple[Any, Any], tuple[Any, Any, Any]]:
        """Return what is traced of the start and the size, and the rest; None stands for the other."""
        start = self.start if self.is_dynamic_start else None
        dynamic = self.is_dynamic_size and not core.is_symbolic_dim(self.size)
        size = self.size if dynamic else None
        static = lambda x, traced: x if traced is None else None
        return (start, size), (static(self.start, start), static(self.size, size), self.stride)

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> Slice:
        """Return the slice of which `tree_flatten` returned the parts."""
        start, size, stride = aux_data
        s = object.__new__(cls)
        s.start = children[0] if start is None else start
        s.size = children[1] if size is None else size
        s.stride = stride
        return s

    def _key(self) -> tuple[Any, ...]:
        return (self.start, self.size, self.stride)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slice) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Slice(start={self.start!r}, size={self.size!r}, stride={self.stride!r})"


register_pytree_node(Slice, Slice.tree_flatten, Slice.tree_unflatten)


def ds(start: Any, size: Any = None, stride: int | None = None) -> Slice | slice:
    """A slice with a static size whose start may be traced, for indexing arrays and references.

    Args:
      start: position of the first element. None selects all elements, whatever `size` is. If it is
        the only argument, it is the size of a slice that starts at 0.
      size: the number of elements. It is static, but for index maps of kernels (`pl.BoundedSlice`).
      stride: the distance between two elements; 1 if None.

    Returns:
      An index. If `x[ds(start, size)]` is out of bounds, the slice is shifted into bounds; an
      update `x.at[ds(start, size)].set(y)` drops the elements that are out of bounds.

    Raises:
      TypeError: if the start is not an integer scalar, or the size not a static integer.
      ValueError: if the size or the stride is negative.

    >>> x = jnp.arange(6)
    >>> x[jax.ds(2, 3)]
    Array([2, 3, 4], dtype=int32)
    >>> jax.vmap(lambda i: x[jax.ds(i, 2)])(jnp.array([0, 3]))
    Array([[0, 1],
           [3, 4]], dtype=int32)
    >>> x.at[jax.ds(1, 2, 3)].set(9)
    Array([0, 9, 2, 3, 9, 5], dtype=int32)
    >>> ref = jax.new_ref(x)
    >>> ref[jax.ds(2, 3)]
    Array([2, 3, 4], dtype=int32)
    """
    if start is None:
        return slice(None)
    if size is None:
        start, size = 0, start
    if not _is_traced_integer(size):
        try:
            size = core.canonicalize_dim(size)
        except TypeError:
            raise TypeError(
                f"the size of a slice must be an integer scalar, got {size!r}: write ds(start, size)"
            ) from None
    if not isinstance(start, (int, np.integer)) and not core.is_symbolic_dim(start):
        dtype = getattr(start, "dtype", None)
        if dtype is None or not dtypes.issubdtype(dtype, np.integer) or np.ndim(start):
            raise TypeError(f"the start of a slice must be an integer scalar, got {start!r}")
    if stride is None:
        stride = 1
    elif not isinstance(stride, (int, np.integer)):
        raise ValueError(f"the stride of a slice must be a static integer, got {stride!r}")
    return Slice(start, size, stride)


def _is_traced_integer(x: Any) -> bool:
    if not isinstance(x, core.Tracer):
        return False
    aval: Any = core.typeof(x)
    return aval.shape == () and dtypes.issubdtype(aval.dtype, np.integer)


def check_static_size(s: Slice) -> None:
    """Raise a TypeError if the size of a slice in an index of an array or a reference is traced."""
    if s.is_dynamic_size and not core.is_symbolic_dim(s.size):
        raise TypeError(f"the size of a slice in an index must be a static integer, got {s.size!r}")


dslice = ds
