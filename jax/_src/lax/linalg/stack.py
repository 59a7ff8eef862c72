"""A stack of bounded capacity for use in compiled programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core
from jax._src.basearray import Array
from jax._src.lax import lax, slicing
from jax._src.tree_util import (
    register_pytree_node,
    tree_flatten,
    tree_map,
    tree_unflatten,
)  # fmt: skip


class Stack:
    """A stack whose operations return a new stack, so that loops can carry it.

    Elements are pytrees of arrays with the same structure, shapes and dtypes. Pushing to a full
    stack replaces the top element; it is not checked, because the size is traced.
    """

    __slots__ = ("_data", "_size")

    def __init__(self, size: Any, data: Any):
        self._size = size
        self._data = data

    def __repr__(self) -> str:
        return f"Stack({self._size}, {self._data})"

    @staticmethod
    def create(capacity: int, prototype: Any) -> Stack:
        """Create an empty stack of up to `capacity` elements with the structure of `prototype`."""

        def empty(x: Any) -> Array:
            aval = core.typeof(x)
            return lax.full((capacity, *aval.shape), 0, aval.dtype)

        return Stack(lax.full((), 0, np.int32), tree_map(empty, prototype))

    def empty(self) -> Array:
        """Return whether there are no elements, as a scalar."""
        return lax.eq(self._size, np.int32(0))

    def push(self, elem: Any) -> Stack:
        """Return the stack with one more element."""
        put = lambda x, data: slicing.dynamic_update_index_in_dim(data, x, self._size, 0)
        return Stack(lax.add(self._size, np.int32(1)), tree_map(put, elem, self._data))

    def pop(self) -> tuple[Any, Stack]:
        """Return the top element, and the stack without it."""
        size = lax.sub(self._size, np.int32(1))
        take = lambda data: slicing.dynamic_index_in_dim(data, size, 0, keepdims=False)
        return tree_map(take, self._data), Stack(size, self._data)

    def flatten(self) -> tuple[list[Any], Any]:
        """Return the size and the leaves of the data, and the structure of the data."""
        leaves, structure = tree_flatten(self._data)
        return [self._size, *leaves], structure

    @staticmethod
    def unflatten(structure: Any, leaves: Sequence[Any]) -> Stack:
        """Return the stack of what `flatten` has returned."""
        size, *data = leaves
        return Stack(size, tree_unflatten(structure, data))


register_pytree_node(Stack, Stack.flatten, Stack.unflatten)
