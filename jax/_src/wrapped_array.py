"""The base class of concrete arrays of extended dtypes, such as random keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from jax._src import sharding_impls
from jax._src.basearray import Array
from jax._src.device_put import values as placing
from jax._src.interpreters import pxla
from jax._src.layout import Format
from jax._src.sharding import Sharding


class WrappedArray(Array):
    """An array that wraps the array which represents its elements, `_base_array`.

    That has the dimensions of the elements as trailing ones. A subclass defines `aval`, `shape`,
    `dtype`, `copy` and `_part`.
    """

    __slots__ = ("_base_array",)
    __array_priority__ = 100

    _base_array: Any
    _committed = property(lambda self: self._base_array._committed)

    def _part(self, data: Any) -> Self:
        """The array whose elements `data`, a part of the wrapped array, represents."""
        raise NotImplementedError

    # The type

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    weak_type = property(lambda self: False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    # Devices

    committed = property(lambda self: self._base_array.committed)
    device = property(lambda self: self._base_array.device)
    is_fully_addressable = property(lambda self: self._base_array.is_fully_addressable)
    is_fully_replicated = property(lambda self: self._base_array.is_fully_replicated)

    @property
    def sharding(self) -> Any:
        return sharding_impls.logical_sharding(self.shape, self.dtype, self._base_array.sharding)

    def devices(self) -> set[Any]:
        return self._base_array.devices()

    @property
    def addressable_shards(self) -> Sequence[Any]:
        return [self._shard(s) for s in self._base_array.addressable_shards]

    @property
    def global_shards(self) -> Sequence[Any]:
        return [self._shard(s) for s in self._base_array.global_shards]

    def _shard(self, shard: Any) -> Any:
        data = None if shard.data is None else self._part(shard.data)
        return type(shard)(shard.device, self.sharding, self.shape, data)

    def addressable_data(self, index: int) -> Self:
        return self._part(self._base_array.addressable_data(index))

    # Buffers

    def block_until_ready(self) -> Self:
        self._base_array.block_until_ready()
        return self

    def copy_to_host_async(self) -> None:
        self._base_array.copy_to_host_async()

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Self:
        return self.copy()

    def delete(self) -> None:
        self._base_array.delete()

    def is_deleted(self) -> bool:
        return self._base_array.is_deleted()

    def on_device_size_in_bytes(self) -> int:
        return self._base_array.on_device_size_in_bytes()

    def unsafe_buffer_pointer(self) -> Any:
        return self._base_array.unsafe_buffer_pointer()


def shard_args(
    xs: Sequence[WrappedArray], shardings: Sequence[Any], layouts: Any, copy_semantics: Any
) -> Any:
    """The handler of such arguments, for `pxla.shard_arg_handlers`."""
    physical = [
        s if s is None else sharding_impls.physical_sharding(x.aval, s)
        for x, s in zip(xs, shardings)
    ]
    return pxla.shard_args(physical, layouts, copy_semantics, [x._base_array for x in xs])


def put_data(x: WrappedArray, target: Any, copy_semantics: Any) -> Any:
    """The wrapped array of `x`, put on the devices for which `target` says where `x` is to be."""
    if isinstance(target, Format) and target.sharding is not None:
        physical = sharding_impls.physical_sharding(x.aval, target.sharding)
        target = Format(target.layout, physical)
    elif isinstance(target, Sharding):
        placing.check_sharding(x.aval, target)
        target = sharding_impls.physical_sharding(x.aval, target)
    return placing.device_put_value(x._base_array, target, copy_semantics)
