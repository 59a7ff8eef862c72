"""How kernels for GPUs refer to other devices of the mesh that `jax.shard_map` runs them on."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from jax._src.core import Jaxpr, subjaxprs
from jax._src.pallas.mosaic_gpu.memory_operations import multimem_load_reduce_p, signal_p
from jax._src.pallas.mosaic_gpu.operations import operands_of
from jax._src.pallas.mosaic_gpu.transforms import MulticastRef, PeerMemRef, refers_through
from jax._src.pallas.semaphores import semaphore_signal_p
from jax._src.tree_util import tree_unflatten


def reaches_other_devices(jaxpr: Jaxpr) -> bool:
    """Whether a kernel reads or writes the memory of other devices, or signals their semaphores."""
    for eqn in jaxpr.eqns:
        if eqn.primitive is multimem_load_reduce_p or refers_through(eqn, PeerMemRef, MulticastRef):
            return True
        if eqn.primitive is signal_p and operands_of(eqn.params["tree"], eqn.invars)[2] is not None:
            return True
        if eqn.primitive is semaphore_signal_p:
            _, _, _, device, _ = tree_unflatten(eqn.params["args_tree"], eqn.invars)
            if device is not None:
                return True
    return any(map(reaches_other_devices, subjaxprs(jaxpr)))


def check_all_axes(axes: Iterable[Hashable], of_mesh: Iterable[Hashable], what: str) -> None:
    """Check that an operation on several devices at once is one on all devices of the mesh.

    Args:
      axes: the axes along which it is.
      of_mesh: those of the mesh.
      what: the operation, for errors.

    Raises:
      ValueError: if it is another number of devices.
    """
    axes, of_mesh = tuple(axes), tuple(of_mesh)
    if set(axes) != set(of_mesh) or len(axes) != len(of_mesh):
        where = f"has the axes {of_mesh}" if of_mesh else "is missing"
        raise ValueError(
            f"{what} is for all devices of the mesh that jax.shard_map runs the kernel on, which {where}, but collective_axes are {axes}: "
            "name all of the mesh's axes, or make a mesh of these devices only."
        )
