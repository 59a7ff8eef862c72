"""Copies between memories and devices, which kernels for TPUs start and wait for.

A copy counts on the semaphores that it is given. Where kernels are run by XLA, a copy is done when it
is started, and waiting subtracts what it counted.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from jax._src import core, dtypes, pretty_printer as pp, traceback_util
from jax._src.core import Primitive, ReadEffect, WriteEffect, typeof
from jax._src.lax import lax, slicing
from jax._src.lax.parallel import all_gather, axis_index
from jax._src.pallas.mosaic.semaphore_types import SemaphoreType
from jax._src.pallas.mosaic.sparse_core.indices import with_arrays
from jax._src.pallas.mosaic.traced_sizes import read, shape_and_dtype, view_shape, written
from jax._src.pallas.primitives import run_scoped
from jax._src.pallas.semaphores import (
    DeviceId,
    DeviceIdType,
    SemaphoreTy,
    logical_device_id,
    mesh_axis_sizes,
)
from jax._src.state.primitives import apply_transforms, update_view
from jax._src.state.rules import ref_view_doc
from jax._src.state.types import ref_and_transforms
from jax._src.tree_util import PyTreeDef, tree_flatten, tree_leaves, tree_unflatten

traceback_util.register_exclusion(__file__)

# The operands of both are the leaves of (source, target, target's semaphore, source's semaphore, device): of
# each reference the pair of reference and transforms; the last two are None for copies on this device.
dma_start_p = Primitive("dma_start", multiple_results=True)
dma_wait_p = Primitive("dma_wait", multiple_results=True)


@dataclasses.dataclass(frozen=True)
class AsyncCopyDescriptor:
    """A copy that can be started, and waited for.

    Attributes:
      src_ref, dst_ref: references, or views of some, of the same shape and dtype.
      dst_sem: counts what arrives.
      src_sem: counts what is sent; None for copies on this device.
      device_id: where `dst_ref` and `dst_sem` are; None for this device.
      device_id_type: what `device_id` means.
    """

    src_ref: Any
    dst_ref: Any
    dst_sem: Any
    src_sem: Any = None
    device_id: DeviceId = None
    device_id_type: DeviceIdType = DeviceIdType.MESH

    @property
    def is_remote(self) -> bool:
        """Whether the copy is to another device."""
        return self.src_sem is not None

    def start(self, priority: int = 0, *, add: bool = False) -> None:
        """Start the copy.

        Args:
          priority: one of the queues of copies, 0 or 1.
          add: whether to add to what the target holds.
        """
        flat, tree = self._operands()
        dma_start_p.bind(
            *flat, tree=tree, device_id_type=self.device_id_type, priority=priority, add=add
        )

    def wait(self) -> None:
        """Wait until the copy is done; that to another device, until it is sent and one has arrived."""
        if self.is_remote:
            self.wait_send()
        self.wait_recv()

    def wait_recv(self) -> None:
        """Wait until what is copied to `dst_ref` has arrived, also from another device."""
        self._wait(self.src_ref, self.dst_ref, self.dst_sem, False)

    def wait_send(self) -> None:
        """Wait until `src_ref` is sent, and can be written to.

        Raises:
          ValueError: if the copy is not to another device.
        """
        if not self.is_remote:
            raise ValueError("wait_send is for copies to other devices: use wait.")
        # What was sent is counted as what arrives: by its size.
        self._wait(self.dst_ref, self.src_ref, self.src_sem, True)

    def _wait(self, src: Any, dst: Any, sem: Any, sent: bool) -> None:
        flat, tree = tree_flatten((_pair(src), _pair(dst), _pair(sem), None, self.device_id))
        dma_wait_p.bind(*flat, tree=tree, device_id_type=self.device_id_type, sent=sent)

    def _operands(self) -> tuple[list[Any], PyTreeDef]:
        src_sem = None if self.src_sem is None else _pair(self.src_sem)
        parts = _pair(self.src_ref), _pair(self.dst_ref), _pair(self.dst_sem), src_sem
        return tree_flatten((*parts, self.device_id))


def _pair(ref: Any) -> tuple[Any, tuple[Any, ...]]:
    return ref_and_transforms(ref, "make_async_copy")


def _type(ref: Any) -> tuple[tuple[Any, ...], Any]:
    ref, transforms = _pair(ref)
    return shape_and_dtype(transforms, typeof(ref).inner_aval)  # type: ignore[attr-defined]


def _shown(ty: tuple[tuple[Any, ...], Any]) -> str:
    shape, dtype = ty
    sizes = ",".join([str(d) if isinstance(d, int) else "?" for d in shape])
    return f"{dtypes.dtype_name(dtype)}[{sizes}]"


def _checked(copy: AsyncCopyDescriptor) -> AsyncCopyDescriptor:
    src, dst = _type(copy.src_ref), _type(copy.dst_ref)
    if src[1] != dst[1]:
        raise ValueError(
            f"DMA source and target must have the same dtype, got {_shown(src)} and {_shown(dst)}: a copy does not convert."
        )
    sizes = zip(src[0], dst[0])
    differ = any([isinstance(a, int) and isinstance(b, int) and a != b for a, b in sizes])
    if len(src[0]) != len(dst[0]) or differ:
        raise ValueError(
            f"DMA source and target must have the same shape, got {_shown(src)} and {_shown(dst)}: index one of them by .at[...]."
        )
    for sem in (copy.dst_sem, copy.src_sem):
        if sem is None:
            continue
        shape, dtype = _type(sem)
        if not isinstance(dtype, SemaphoreTy) or shape:
            raise ValueError(
                f"A copy counts on one semaphore of type pltpu.SemaphoreType.DMA, got {_shown((shape, dtype))}: index it by .at[i]."
            )
    return copy


def make_async_copy(src_ref: Any, dst_ref: Any, sem: Any) -> AsyncCopyDescriptor:
    """Return a copy on this device that is not started yet.

    Args:
      src_ref, dst_ref: references or views of the same shape and dtype, in any memory spaces.
      sem: a semaphore of type `pltpu.SemaphoreType.DMA`.

    Raises:
      ValueError: if shapes or dtypes differ, or it is no such semaphore.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> def kernel(x_ref, o_ref, sem):
    ...   copy = pltpu.make_async_copy(x_ref, o_ref, sem)
    ...   copy.start()
    ...   copy.wait()
    >>> x = jnp.arange(4.)
    >>> pl.pallas_call(kernel, x, scratch_shapes=[pltpu.SemaphoreType.DMA], interpret=True)(x)
    Array([0., 1., 2., 3.], dtype=float32)
    """
    return _checked(AsyncCopyDescriptor(src_ref, dst_ref, sem))


def async_copy(
    src_ref: Any, dst_ref: Any, sem: Any, *, priority: int = 0, add: bool = False
) -> AsyncCopyDescriptor:
    """Start a copy on this device, and return it.

    Args:
      src_ref, dst_ref, sem: as for `make_async_copy`.
      priority: one of the queues of copies, 0 or 1.
      add: whether to add to what the target holds.
    """
    copy = make_async_copy(src_ref, dst_ref, sem)
    copy.start(priority, add=add)
    return copy


def make_async_remote_copy(
    src_ref: Any, dst_ref: Any, send_sem: Any, recv_sem: Any, device_id: DeviceId,
    device_id_type: DeviceIdType = DeviceIdType.MESH,
) -> AsyncCopyDescriptor:  # fmt: skip
    """Return a copy to another device that is not started yet.

    Args:
      src_ref: reference or view on this device.
      dst_ref: reference or view on the other device.
      send_sem: a semaphore on this device, which counts what is sent.
      recv_sem: a semaphore on the other device, which counts what arrives.
      device_id: the other device: an integer, a tuple of coordinates in the mesh, or a dictionary of
        coordinates by axis names.
      device_id_type: whether `device_id` is a position in the mesh or a number.

    Raises:
      ValueError: if shapes or dtypes differ, or they are no semaphores of copies.
    """
    kind = DeviceIdType(device_id_type)
    return _checked(AsyncCopyDescriptor(src_ref, dst_ref, recv_sem, send_sem, device_id, kind))


def async_remote_copy(
    src_ref: Any, dst_ref: Any, send_sem: Any, recv_sem: Any, device_id: DeviceId,
    device_id_type: DeviceIdType = DeviceIdType.MESH,
) -> AsyncCopyDescriptor:  # fmt: skip
    """Start a copy to another device, and return it.

    Args:
      src_ref, dst_ref, send_sem, recv_sem, device_id, device_id_type: as for `make_async_remote_copy`.
    """
    copy = make_async_remote_copy(src_ref, dst_ref, send_sem, recv_sem, device_id, device_id_type)
    copy.start()
    return copy


def sync_copy(src_ref: Any, dst_ref: Any, *, add: bool = False) -> None:
    """Copy on this device, and wait until it is done.

    Args:
      src_ref, dst_ref: references or views of the same shape and dtype, in any memory spaces.
      add: whether to add to what the target holds.
    """
    run = lambda sem: async_copy(src_ref, dst_ref, sem, add=add).wait()
    run_scoped(run, SemaphoreType.DMA)


# Types


def _positions(tree: PyTreeDef) -> list[int | None]:
    """Return the numbers of the operands that are references: source, target and semaphores."""
    numbered = tree_unflatten(tree, range(tree.num_leaves))
    return [None if part is None else part[0] for part in numbered[:4]]


@dma_start_p.def_effectful_abstract_eval
def _start_types(*avals: Any, tree: PyTreeDef, **_: Any) -> Any:
    _, *written = _positions(tree)
    # The source, and references to positions, are read.
    references = {i for i, a in enumerate(avals) if isinstance(a, core.AbstractRef)}
    return [], {
        *[WriteEffect(i) for i in written if i is not None],
        *[ReadEffect(i) for i in references - {*written}],
    }


@dma_wait_p.def_effectful_abstract_eval
def _wait_types(*avals: Any, tree: PyTreeDef, **_: Any) -> Any:
    _, dst, sem, _ = _positions(tree)
    return [], {WriteEffect(dst), WriteEffect(sem)}


dma_start_p.ref_primitive = True
dma_wait_p.ref_primitive = True


# Copies in programs of XLA


def _amount(shape: tuple[Any, ...]) -> Any:
    """Return what a copy counts: its elements."""
    count: Any = np.int32(math.prod([d for d in shape if isinstance(d, int)]))
    for d in shape:
        if not isinstance(d, int):
            count = lax.mul(count, lax.convert_element_type(d, np.int32))
    return count


def _start_discharge(
    should: Any, in_avals: Any, out_avals: Any, *args: Any, tree: PyTreeDef,
    device_id_type: DeviceIdType, priority: int, add: bool,
) -> Any:  # fmt: skip
    src, dst, recv, send, device_id = tree_unflatten(tree, args)
    places = _positions(tree)
    new: list[Any] = [None] * len(args)
    transforms, copied = with_arrays(src[1])
    src, dst = (src[0], transforms), (dst[0], with_arrays(dst[1])[0])
    value = read(src, dst)
    if copied is not None:
        old = lax.full_like(value, 0) if add else apply_transforms(*dst)
        value = lax.select(
            lax.broadcast_in_dim(copied, value.shape, range(copied.ndim)), value, old
        )
    count = _amount(view_shape(src))
    if send is None:
        new[places[1]] = written(dst, value, add, src)
        new[places[2]] = update_view(*recv, count, True)
        return tuple(new), []
    sizes = mesh_axis_sizes()
    arrives, value = _arriving(value, device_id, device_id_type, sizes)
    updated = written(dst, value, add, src)
    new[places[1]] = lax.select(lax.broadcast(arrives, updated.shape), updated, dst[0])
    arrived = lax.select(arrives, count, np.int32(0))
    new[places[2]] = update_view(*recv, arrived, True)
    # The same array of semaphores may count both.
    if places[3] == places[2]:
        new[places[2]] = update_view(new[places[2]], send[1], count, True)
    else:
        new[places[3]] = update_view(*send, count, True)
    return tuple(new), []


def _arriving(value: Any, device_id: Any, device_id_type: Any, sizes: Any) -> tuple[Any, Any]:
    """Return whether another device copies to this one, and what."""
    names = tuple(sizes)
    target = logical_device_id(device_id, device_id_type, sizes)
    if not names:
        return lax.eq(target, np.int32(0)), value
    here = lax.convert_element_type(axis_index(names), np.int32)
    is_mine = lax.eq(all_gather(target, names), here)
    sender = lax.argmax(lax.convert_element_type(is_mine, np.int32), 0, np.int32)
    everything = all_gather(value, names)
    return lax.reduce_or(is_mine, (0,)), slicing.dynamic_index_in_dim(
        everything, sender, 0, keepdims=False
    )


def _wait_discharge(
    should: Any, in_avals: Any, out_avals: Any, *args: Any, tree: PyTreeDef, **_: Any
) -> Any:
    _, dst, sem, _, _ = tree_unflatten(tree, args)
    new: list[Any] = [None] * len(args)
    new[_positions(tree)[2]] = update_view(*sem, lax.neg(_amount(view_shape(dst))), True)  # type: ignore[call-overload]
    return tuple(new), []


dma_start_p.discharge = _start_discharge
dma_wait_p.discharge = _wait_discharge


# The barrier's semaphore

get_barrier_semaphore_p = Primitive("get_barrier_semaphore")


def get_barrier_semaphore() -> Any:
    """Return the semaphore that kernels with the same `collective_id` have on all devices.

    `pltpu.CompilerParams(collective_id=...)` says which.
    """
    return get_barrier_semaphore_p.bind()


@get_barrier_semaphore_p.def_abstract_eval
def _barrier_types() -> Any:
    return SemaphoreType.BARRIER.get_ref_aval()


# Printing


def _pp_start(eqn: Any, context: Any, settings: Any) -> Any:
    src, dst, recv, send, device_id = tree_unflatten(eqn.params["tree"], eqn.invars)
    doc = [pp.text("dma_start "), ref_view_doc(context, *src), pp.text(" -> ")]
    doc += [ref_view_doc(context, *dst), pp.text(" "), ref_view_doc(context, *recv)]
    if send is not None:
        names = [core.pp_var(v, context) for v in tree_leaves(device_id)]
        doc += [pp.text(" "), ref_view_doc(context, *send), pp.text(f" device={','.join(names)}")]
    return pp.concat(doc)


def _pp_wait(eqn: Any, context: Any, settings: Any) -> Any:
    _, dst, sem, _, _ = tree_unflatten(eqn.params["tree"], eqn.invars)
    doc = [
        pp.text("dma_wait "),
        ref_view_doc(context, *dst),
        pp.text(" "),
        ref_view_doc(context, *sem),
    ]
    return pp.concat(doc)


dma_start_p.pp = _pp_start
dma_wait_p.pp = _pp_wait
