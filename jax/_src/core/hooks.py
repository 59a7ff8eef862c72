"""Operations of `lax` that core and the interpreters need, filled in by `lax` when it is imported.

The interpreters sit below the primitives, yet batching has to move axes and differentiation has to add
cotangents. `lax` assigns its functions here; nothing here is ever replaced by outside code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Hooks:
    """Late-bound operations: each attribute is one `lax` function."""

    __slots__ = (
        "broadcast_in_dim",  # (x, shape, broadcast_dimensions, *, out_sharding=None) -> array
        "transpose",  # (x, permutation) -> array
        "reshape",  # (x, new_sizes) -> array
        "full",  # (shape, fill_value, dtype, *, sharding=None) -> array
        "add_any",  # (x, y) -> array: add two cotangents of the same type
        "convert_element_type",  # (x, dtype, weak_type=False) -> array
        "reduce_sum",  # (x, axes) -> array
        "slice",  # (x, start_indices, limit_indices, strides=None) -> array
        "take_along",  # (x, indices, axis) -> array: indices in bounds, one each place along `axis`
        "select",  # (pred, on_true, on_false) -> array
        "index_in_dim",  # (x, index, axis) -> array without that axis
        "slice_in_dim",  # (x, start, stop, axis) -> array
        "dynamic_slice_in_dim",  # (x, start_index >= 0, slice_size, axis) -> array
        "reshard",  # (x, sharding) -> array with that sharding in its type
        "pvary",  # (x, axis_names) -> array
        "device_put",  # (x, memory_space) -> array
        "to_array",  # (python or numpy value) -> Array
        "discharge",  # (closed jaxpr) -> closed jaxpr without references, positions of those written
        "functionalize",  # (primitive, args, params, whether each is discharged) -> results, or None
    )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"operation {name!r} is not available before jax._src.lax is imported")


hooks = _Hooks()
