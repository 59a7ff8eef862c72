"""Arguments and results of `pmap` in programs of several processes.

Each process passes and receives arrays on its own devices. Outside of transformations the mapped
axis goes over the devices of all processes: the arrays are parts of arrays that are sharded over
them. Inside of transformations, it goes over the devices of the process.

The functions take the mesh of the devices of all processes, and the spec of the array over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import core, host_local_arrays
from jax._src.api_util import shaped_abstractify
from jax._src.array_impl import ArrayImpl
from jax._src.mesh import Mesh
from jax._src.partition_spec import PartitionSpec


def is_global(x: Any) -> bool:
    """Whether an argument is an array that is sharded over several processes already."""
    return isinstance(x, ArrayImpl) and not x.is_fully_addressable


def local_types(flat: Sequence[Any], in_axes: Sequence[int | None], mesh: Mesh) -> list[Any]:
    """The types of the parts of arguments on devices of this process."""
    ratio = mesh.size // mesh.local_mesh.size
    types = []
    for x, axis in zip(flat, in_axes):
        aval = shaped_abstractify(x)
        if is_global(x) and axis is not None:
            shape = list(aval.shape)
            shape[axis] //= ratio
            aval = aval.update(shape=tuple(shape), sharding=None)
        types.append(aval)
    return types


def to_global(x: Any, mesh: Mesh, spec: PartitionSpec) -> Any:
    """The array over all processes whose part on this process is `x`."""
    return host_local_arrays.host_local_array_to_global_array_impl(x, global_mesh=mesh, pspec=spec)


def to_global_type(x: Any, mesh: Mesh, spec: PartitionSpec) -> core.ShapeDtypeStruct:
    """The type of what `to_global` returns for a value or type."""
    aval = shaped_abstractify(x)
    if not is_global(x):
        aval = _with_shape(aval, host_local_arrays.scaled(aval.shape, mesh, spec, True))
    return core.ShapeDtypeStruct.from_aval(aval)


def to_local(x: Any) -> Any:
    """The part of a result on devices of this process."""
    if not is_global(x):
        return x
    mesh, spec = x.sharding.mesh, x.sharding.spec
    return host_local_arrays.global_array_to_host_local_array_impl(x, global_mesh=mesh, pspec=spec)


def to_local_type(aval: Any, mesh: Mesh, spec: PartitionSpec) -> Any:
    """The type of what `to_local` returns for an array of type `aval`."""
    return _with_shape(aval, host_local_arrays.scaled(aval.shape, mesh, spec, False))


def _with_shape(aval: Any, shape: tuple[int, ...]) -> Any:
    return aval.update(shape=shape, sharding=None)
