"""`EArray`: a concrete array of an extended dtype, made of the array that represents it.

The rules of an extended dtype (`global_sharded_result_handler`) may return such arrays as results of
programs. Random keys have a class of their own (`jax._src.random.prng`).
"""

from __future__ import annotations

from typing import Any

from jax._src import core, dtypes, sharding_impls, wrapped_array
from jax._src.device_put import agreement, values as placing
from jax._src.interpreters import mlir, pxla
from jax._src.lib import array_result_handler
from jax._src.tree_util import dispatch_registry
from jax._src.wrapped_array import WrappedArray


class EArray(WrappedArray):
    """An array of an extended dtype.

    It has no arithmetic of its own: `jax.lax.convert_element_type` gives numbers, and functions of
    `jax.lax` that move elements work on it in compiled functions.

    Args:
      aval: the type, of an extended dtype.
      data: the array that represents the elements, with their dimensions as trailing ones.

    Raises:
      ValueError: if the array has another shape or dtype than the type says.
    """

    __slots__ = ("_aval",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, aval: core.ShapedArray, data: Any):
        physical = core.physical_aval(aval)
        if tuple(data.shape) != physical.shape or data.dtype != physical.dtype:
            raise ValueError(
                f"an array of type {aval} is represented by one of type {physical}, got data of shape "
                f"{tuple(data.shape)} and dtype {data.dtype}"
            )
        self._aval = aval
        self._base_array = data

    aval = property(lambda self: self._aval)
    shape = property(lambda self: self._aval.shape)
    dtype = property(lambda self: self._aval.dtype)
    nbytes = property(lambda self: self._base_array.nbytes)
    _data = property(lambda self: self._base_array)

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        row = self._aval.update(shape=self.shape[1:])
        return (EArray(row, x) for x in self._data)

    def __repr__(self) -> str:
        return "E" + repr(self._data)

    __str__ = __repr__

    def _part(self, data: Any) -> EArray:
        extra = self._data.ndim - self.ndim
        shape = data.shape[: data.ndim - extra]
        return EArray(self._aval.update(shape=shape, sharding=None), data)

    def copy(self) -> EArray:
        return EArray(self._aval, self._data.copy())

    def __reduce__(self) -> Any:
        return EArray, (self._aval, self._data)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            f"an array of the extended dtype {self.dtype} cannot be converted to a NumPy array: convert "
            "it to numbers first, by jax.lax.convert_element_type."
        )


def _put(x: EArray, target: Any, copy_semantics: Any) -> EArray:
    return EArray(x.aval, wrapped_array.put_data(x, target, copy_semantics))


core.pytype_aval_mappings[EArray] = lambda x: x.aval
dtypes.canonicalize_value_handlers[EArray] = lambda x: x
pxla.shard_arg_handlers[EArray] = wrapped_array.shard_args
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
