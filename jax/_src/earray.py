"""`EArray`: a concrete array of an extended dtype, made of the array that represents it.

The rules of an extended dtype (`global_sharded_result_handler`) may return such arrays as results of
programs. Random keys have a class of their own (`jax._src.random.prng`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core, dtypes, sharding_impls
from jax._src.basearray import Array
from jax._src.device_put import agreement, values as placing
from jax._src.interpreters import mlir, pxla
from jax._src.layout import Format
from jax._src.lib import array_result_handler
from jax._src.sharding import Sharding
from jax._src.tree_util import dispatch_registry


class EArray(Array):
    """An array of an extended dtype.

    It has no arithmetic of its own: `jax.lax.convert_element_type` gives numbers, and functions of
    `jax.lax` that move elements work on it in compiled functions.

    Args:
      aval: the type, of an extended dtype.
      data: the array that represents the elements, with their dimensions as trailing ones.

    Raises:
      ValueError: if the array has another shape or dtype than the type says.
    """

    __slots__ = ("_aval", "_data")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]
    _committed = property(lambda self: self._data._committed)

    def __init__(self, aval: core.ShapedArray, data: Any):
        physical = core.physical_aval(aval)
        if tuple(data.shape) != physical.shape or data.dtype != physical.dtype:
            raise ValueError(
                f"an array of type {aval} is represented by one of type {physical}, got data of shape "
                f"{tuple(data.shape)} and dtype {data.dtype}"
            )
        self._aval = aval
        self._data = data

    # The type

    aval = property(lambda self: self._aval)
    shape = property(lambda self: self._aval.shape)
    dtype = property(lambda self: self._aval.dtype)
    ndim = property(lambda self: len(self._aval.shape))
    size = property(lambda self: math.prod(self._aval.shape))
    itemsize = property(lambda self: self._aval.dtype.itemsize)
    nbytes = property(lambda self: self._data.nbytes)
    weak_type = property(lambda self: False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        row = self._aval.update(shape=self.shape[1:])
        return (EArray(row, x) for x in self._data)

    def __repr__(self) -> str:
        return "E" + repr(self._data)

    __str__ = __repr__

    # Devices

    committed = property(lambda self: self._data.committed)
    device = property(lambda self: self._data.device)
    is_fully_addressable = property(lambda self: self._data.is_fully_addressable)
    is_fully_replicated = property(lambda self: self._data.is_fully_replicated)

    @property
    def sharding(self) -> Any:
        return sharding_impls.logical_sharding(self.shape, self.dtype, self._data.sharding)

    def devices(self) -> set[Any]:
        return self._data.devices()

    @property
    def addressable_shards(self) -> Sequence[Any]:
        return [self._shard(s) for s in self._data.addressable_shards]

    @property
    def global_shards(self) -> Sequence[Any]:
        return [self._shard(s) for s in self._data.global_shards]

    def _shard(self, shard: Any) -> Any:
        data = None if shard.data is None else self._part(shard.data)
        return type(shard)(shard.device, self.sharding, self.shape, data)

    def _part(self, data: Any) -> EArray:
        extra = self._data.ndim - self.ndim
        shape = data.shape[: data.ndim - extra]
        return EArray(self._aval.update(shape=shape, sharding=None), data)

    def addressable_data(self, index: int) -> EArray:
        return self._part(self._data.addressable_data(index))

    # Buffers

    def block_until_ready(self) -> EArray:
        self._data.block_until_ready()
        return self

    def copy_to_host_async(self) -> None:
        self._data.copy_to_host_async()

    def copy(self) -> EArray:
        return EArray(self._aval, self._data.copy())

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> EArray:
        return self.copy()

    def __reduce__(self) -> Any:
        return EArray, (self._aval, self._data)

    def delete(self) -> None:
        self._data.delete()

    def is_deleted(self) -> bool:
        return self._data.is_deleted()

    def on_device_size_in_bytes(self) -> int:
        return self._data.on_device_size_in_bytes()

    def unsafe_buffer_pointer(self) -> int:
        return self._data.unsafe_buffer_pointer()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            f"an array of the extended dtype {self.dtype} cannot be converted to a NumPy array: convert "
            "it to numbers first, by jax.lax.convert_element_type."
        )


def _shard_args(
    xs: Sequence[EArray], shardings: Sequence[Any], layouts: Any, copy_semantics: Any
) -> Any:
    physical = [
        s if s is None else sharding_impls.physical_sharding(x.aval, s)
        for x, s in zip(xs, shardings)
    ]
    return pxla.shard_args(physical, layouts, copy_semantics, [x._data for x in xs])


def _put(x: EArray, target: Any, copy_semantics: Any) -> EArray:
    physical: Callable[[Any], Any] = lambda s: sharding_impls.physical_sharding(x.aval, s)
    if isinstance(target, Format) and target.sharding is not None:
        target = Format(target.layout, physical(target.sharding))
    elif isinstance(target, Sharding):
        placing.check_sharding(x.aval, target)
        target = physical(target)
    return EArray(x.aval, placing.device_put_value(x._data, target, copy_semantics))


core.pytype_aval_mappings[EArray] = lambda x: x.aval
dtypes.canonicalize_value_handlers[EArray] = lambda x: x
pxla.shard_arg_handlers[EArray] = _shard_args
placing.device_put_handlers[EArray] = _put
agreement.underlying_arrays[EArray] = lambda x: x._data
mlir.register_constant_handler(
    EArray, lambda x, _: mlir.ir_constant(x._data, aval=core.physical_aval(x.aval))
)
# The native dispatch of compiled functions flattens it; in all other pytrees it is a leaf.
dispatch_registry.register_node(
    EArray, lambda x: ((x._data,), x._aval), lambda aval, data: EArray(aval, data[0])
)


def _result_handler(aval: core.ShapedArray, sharding: Any, committed: bool) -> Any:
    """Makes results of programs of the array that represents them."""
    physical = sharding_impls.physical_sharding(aval, sharding)
    handler = array_result_handler(core.physical_aval(aval), physical, committed)
    return handler.wrap(lambda data: EArray(aval, data))


dtypes.PrimalTangentDType._rules.global_sharded_result_handler = staticmethod(_result_handler)
