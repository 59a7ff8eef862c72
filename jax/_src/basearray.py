"""`jax.Array`: the class for instance checks and annotations, and its interface."""

from __future__ import annotations

from typing import Any

from jax._src.typing import (
    Array as Array,
    ArrayLike as ArrayLike,
    StaticScalar as StaticScalar,
)

_ARRAY_DOC = """An array, of concrete or of traced values.

:class:`jax.Array` is for instance checks and annotations; arrays are made by functions such as
:func:`jax.numpy.array`, :func:`jax.numpy.zeros` and :func:`jax.device_put`. Inside a transformed
function, traced values are instances too.

Example:
  >>> isinstance(jnp.arange(3), jax.Array)
  True
  >>> isinstance(np.arange(3), jax.Array)
  False
"""

_PROPERTIES = {
    "shape": "The sizes of the dimensions, a tuple of ints.",
    "dtype": "The type of the elements, a :class:`numpy.dtype` or an extended type.",
    "ndim": "The number of dimensions.",
    "size": "The number of elements.",
    "sharding": "The :class:`jax.sharding.Sharding`: on which devices lies which part of the array.",
    "device": "The device of an array on one device; the sharding of any other.",
    "committed": """Whether the array was put on its devices explicitly.

Computations run where their committed arguments are, and their results are committed too.
Arguments committed to different devices are an error; uncommitted ones follow the others.

Example:
  >>> jax.device_put(1.).committed, jax.device_put(1., jax.devices()[0]).committed
  (False, True)
""",
    "is_fully_addressable": "Whether all devices of the array belong to this process.",
    "is_fully_replicated": "Whether each device of the array has all of it.",
    "addressable_shards": "The parts on devices of this process, a list of :class:`jax.Shard`.",
    "global_shards": (
        "The parts on all devices, a list of :class:`jax.Shard`; those of other processes have no data."
    ),
}

_METHODS = {
    "addressable_data": """The part of the array on a device of this process.

Args:
  index: which of the addressable devices, in the sharding's order. Any is the same for an array
    that is fully replicated.

Returns:
  An array on that device alone.
""",
    "copy_to_host_async": """Starts to copy the array to the host, and does not wait for it.

A later ``np.asarray(x)`` finds the value there, or waits for the rest of the copy.
""",
}


def _abstract_property(name: str, doc: str) -> property:
    def getter(self: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define the property {name}.")

    getter.__name__ = name
    return property(getter, doc=doc)


def _abstract_method(name: str, doc: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define the method {name}.")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    return method


Array.__module__ = "jax"
Array.__doc__ = _ARRAY_DOC
for _name, _doc in _PROPERTIES.items():
    setattr(Array, _name, _abstract_property(_name, _doc))
for _name, _doc in _METHODS.items():
    setattr(Array, _name, _abstract_method(_name, _doc))
