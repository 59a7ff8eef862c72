"""Semaphores: counters that kernels on several cores and devices wait for.

A semaphore is a reference to an element of one of the dtypes below, in a memory of its own. It starts
at zero. Where kernels are run one after the other by XLA, a semaphore is an integer that is counted
up and down, and nothing waits.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes, pretty_printer as pp, traceback_util
from jax._src.core import Primitive, ReadEffect, ShapedArray, WriteEffect, typeof
from jax._src.dtypes import ExtendedDType
from jax._src.interpreters import ad
from jax._src.lax import lax
from jax._src.lax.parallel import all_gather, axis_index
from jax._src.mesh import get_abstract_mesh
from jax._src.state.primitives import apply_transforms, update_view
from jax._src.state.rules import ref_view_doc
from jax._src.state.types import ref_and_transforms, transform_type
from jax._src.tree_util import tree_flatten, tree_unflatten

traceback_util.register_exclusion(__file__)


# The types


class semaphore_dtype(dtypes.extended):
    """Scalar class of all semaphores."""


class semaphore(semaphore_dtype):
    """Scalar class of semaphores that kernels count with `semaphore_signal` and `semaphore_wait`."""


class barrier_semaphore(semaphore_dtype):
    """Scalar class of semaphores at which devices wait for each other."""


class _SemaphoreRules:
    # What a semaphore is where kernels are programs of XLA.
    stored_dtype = np.dtype(np.int32)
    allow_conversion = False

    @staticmethod
    def tangent_dtype(_: Any) -> Any:
        return dtypes.float0


class SemaphoreTy(ExtendedDType):
    """The dtype of a kind of semaphores: one for each scalar class.

    Args:
      scalar: the scalar class.
      name: as printed.
    """

    __slots__ = ("name", "type")
    _rules = _SemaphoreRules

    def __init__(self, scalar: type, name: str):
        self.type = scalar
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SemaphoreTy) and self.type is other.type

    def __hash__(self) -> int:
        return hash((SemaphoreTy, self.name))


SEMAPHORE = SemaphoreTy(semaphore, "semaphore")
BARRIER_SEMAPHORE = SemaphoreTy(barrier_semaphore, "barrier_semaphore")


def is_semaphore(aval: Any) -> bool:
    """Whether a type is that of semaphores, or of references to them."""
    return isinstance(getattr(aval, "dtype", None), SemaphoreTy)


# Devices


class DeviceIdType(enum.Enum):
    """How a device is named: by its coordinates in the mesh, or by its number in row-major order."""

    MESH = "mesh"
    LOGICAL = "logical"


# An integer, the coordinates in the mesh, or those along some named axes.
DeviceId = Any


def _unraveled(number: Any, sizes: Sequence[int]) -> list[Any]:
    if len(sizes) <= 1:
        return [number] * len(sizes)
    out: list[Any] = []
    rest = lax.convert_element_type(number, np.int32)
    for size in reversed(sizes):
        out.append(lax.rem(rest, np.int32(size)))
        rest = lax.div(rest, np.int32(size))
    return out[::-1]


def mesh_coordinates(
    device_id: DeviceId, device_id_type: DeviceIdType, sizes: Mapping[Any, int],
    position: Callable[[Any], Any] = axis_index,
    unraveled: Callable[[Any, Sequence[int]], list[Any]] = _unraveled,
) -> list[Any]:  # fmt: skip
    """Return the coordinates of a device in a mesh, for axes it does not name those of this device.

    Args:
      device_id: an integer, a tuple of coordinates, or a dictionary of coordinates by axis names.
      device_id_type: what an integer or a tuple means.
      sizes: the sizes of the mesh's axes by name.
      position: function from the name of an axis to this device's position.
      unraveled: function from a number and sizes to the coordinates of what has that number in row-major order.

    Raises:
      ValueError: if the mesh has no such axes.
    """
    names = list(sizes)
    if isinstance(device_id, Mapping):
        given: dict[Any, Any] = {}
        for name, value in device_id.items():
            group = name if isinstance(name, tuple) else (name,)
            unknown = [n for n in group if n not in sizes]
            if unknown:
                raise ValueError(f"device_id has axes {unknown}, the mesh has {names}.")
            given.update(zip(group, unraveled(value, [sizes[n] for n in group])))
        return [given[n] if n in given else position(n) for n in names]
    if device_id_type is DeviceIdType.LOGICAL:
        if isinstance(device_id, (tuple, list)):
            (device_id,) = device_id
        return unraveled(device_id, list(sizes.values()))
    coordinates = list(device_id) if isinstance(device_id, (tuple, list)) else [device_id]
    if len(coordinates) != len(names):
        raise ValueError(
            f"device_id has {len(coordinates)} coordinates, but the mesh has {len(names)} axes: {names}."
        )
    return coordinates


def logical_device_id(
    device_id: DeviceId, device_id_type: DeviceIdType, sizes: Mapping[Any, int]
) -> Any:
    """Return the number of a device in a mesh, in row-major order, as an int32 scalar."""
    out: Any = np.int32(0)
    for i, size in zip(mesh_coordinates(device_id, device_id_type, sizes), sizes.values()):
        i = lax.convert_element_type(i, np.int32)
        out = lax.add(lax.mul(out, np.int32(size)), i)
    return out


# Functions


def one_semaphore(ref: Any, what: str, countable: bool = True) -> tuple[Any, tuple[Any, ...]]:
    """Return the reference and the transforms of one semaphore.

    Args:
      ref: reference to a semaphore, or a view of one.
      what: what is done with it, for errors.
      countable: whether it must be one that kernels count.

    Raises:
      ValueError: if it is another reference.
    """
    ref, transforms = ref_and_transforms(ref, f"semaphore_{what}")
    aval: Any = transform_type(transforms, typeof(ref).inner_aval)  # type: ignore[attr-defined]
    if aval.shape:
        raise ValueError(f"Cannot {what} on a non-()-shaped semaphore: {tuple(aval.shape)}")
    if countable and aval.dtype not in (SEMAPHORE, BARRIER_SEMAPHORE):
        allowed = [SEMAPHORE.name, BARRIER_SEMAPHORE.name]
        raise ValueError(
            f"Must {what} semaphores of the following types: {', '.join(allowed)}. Got {aval.dtype}."
        )
    return ref, transforms


def _as_int32(x: Any, what: str) -> Any:
    aval: Any = typeof(x)
    if aval.shape:
        raise ValueError(f"{what} must be an integer scalar, got the type {aval.str_short()}.")
    return lax.convert_element_type(x, np.int32)


# The operands are the leaves of (reference, transforms).
semaphore_read_p = Primitive("semaphore_read")


def semaphore_read(sem_or_view: Any) -> Any:
    """Return the count of a semaphore, without waiting.

    Args:
      sem_or_view: reference to a semaphore, or a view of one.

    Returns:
      An int32 scalar.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> def kernel(o_ref, sem):
    ...   pl.semaphore_signal(sem, 3)
    ...   pl.semaphore_wait(sem, 2)
    ...   o_ref[...] = pl.semaphore_read(sem)
    ...   pl.semaphore_wait(sem, 1)
    >>> count = jax.ShapeDtypeStruct((), jnp.int32)
    >>> pl.pallas_call(kernel, count, scratch_shapes=[pltpu.SemaphoreType.REGULAR], interpret=True)()
    Array(1, dtype=int32)
    """
    ref, transforms = one_semaphore(sem_or_view, "read", countable=False)
    flat, tree = tree_flatten([ref, transforms])
    return semaphore_read_p.bind(*flat, args_tree=tree)


@semaphore_read_p.def_effectful_abstract_eval
def _read_types(*avals: Any, args_tree: Any) -> Any:
    return ShapedArray((), np.dtype(np.int32)), {ReadEffect(0)}


# The operands are the leaves of (reference, transforms, increment, device, core).
semaphore_signal_p = Primitive("semaphore_signal", multiple_results=True)


def semaphore_signal(
    sem_or_view: Any, inc: Any = 1, *, device_id: DeviceId = None,
    device_id_type: DeviceIdType = DeviceIdType.MESH, core_index: Any = None,
) -> None:  # fmt: skip
    """Add to the count of a semaphore.

    Args:
      sem_or_view: reference to a semaphore, or a view of one.
      inc: what to add, an integer scalar.
      device_id: the device whose semaphore is meant, which must exist there at this time: an integer,
        a tuple of coordinates in the mesh, or a dictionary of coordinates by axis names. None for
        this device.
      device_id_type: whether `device_id` is a position in the mesh or a number.
      core_index: the core whose semaphore is meant, on devices with several cores.

    Raises:
      ValueError: if it is not a single semaphore.
    """
    ref, transforms = one_semaphore(sem_or_view, "signal")
    inc = _as_int32(inc, "inc")
    if device_id is not None:
        flat_id, id_tree = tree_flatten(device_id)
        device_id = tree_unflatten(id_tree, [_as_int32(i, "device_id") for i in flat_id])
    if core_index is not None:
        core_index = _as_int32(core_index, "core_index")
    flat, tree = tree_flatten((ref, transforms, inc, device_id, core_index))
    semaphore_signal_p.bind(*flat, args_tree=tree, device_id_type=DeviceIdType(device_id_type))


@semaphore_signal_p.def_effectful_abstract_eval
def _signal_types(*avals: Any, args_tree: Any, device_id_type: Any) -> Any:
    return [], {WriteEffect(0)}


# The operands are the leaves of (reference, transforms, value).
semaphore_wait_p = Primitive("semaphore_wait", multiple_results=True)


def semaphore_wait(sem_or_view: Any, value: Any = 1, *, decrement: bool = True) -> None:
    """Wait until the count of a semaphore is at least a value, then subtract the value.

    Args:
      sem_or_view: reference to a semaphore, or a view of one.
      value: the count to wait for, an integer scalar.
      decrement: whether to subtract it.

    Raises:
      ValueError: if it is not a single semaphore.
    """
    ref, transforms = one_semaphore(sem_or_view, "wait")
    flat, tree = tree_flatten((ref, transforms, _as_int32(value, "value")))
    semaphore_wait_p.bind(*flat, args_tree=tree, decrement=bool(decrement))


@semaphore_wait_p.def_effectful_abstract_eval
def _wait_types(*avals: Any, args_tree: Any, decrement: bool) -> Any:
    return [], {WriteEffect(0)}


# Rules: semaphores have no tangents. Where kernels are programs of XLA, nothing waits.

ad.defjvp_zero(semaphore_read_p)
ad.defjvp_zero(semaphore_signal_p)
ad.defjvp_zero(semaphore_wait_p)
semaphore_signal_p.ref_primitive = True
semaphore_wait_p.ref_primitive = True


def _read_discharge(
    should: Any, in_avals: Any, out_avals: Any, x: Any, *rest: Any, args_tree: Any
) -> Any:
    _, transforms = tree_unflatten(args_tree, [None, *rest])
    count = lax.convert_element_type(apply_transforms(x, transforms), np.int32)
    return (None,) * (1 + len(rest)), [count]


def _signal_discharge(
    should: Any, in_avals: Any, out_avals: Any, x: Any, *rest: Any, args_tree: Any,
    device_id_type: DeviceIdType,
) -> Any:  # fmt: skip
    _, transforms, inc, device_id, core_index = tree_unflatten(args_tree, [None, *rest])
    if core_index is not None:
        raise NotImplementedError(
            "semaphore_signal with core_index, in a kernel that runs as a program of XLA, one core after the other: "
            "give pallas_call interpret=pltpu.InterpretParams()."
        )
    if device_id is None:
        new = update_view(x, transforms, inc, True)
    else:
        added = update_view(lax.full_like(x, 0), transforms, inc, True)
        new = lax.add(x, _received(added, device_id, device_id_type))
    return (new, *[None] * len(rest)), []


def _received(added: Any, device_id: DeviceId, device_id_type: DeviceIdType) -> Any:
    """Return what the devices of the mesh add to the semaphores of this one; each runs the same kernel."""
    sizes = mesh_axis_sizes()
    names = tuple(sizes)
    target = logical_device_id(device_id, device_id_type, sizes)
    if not names:
        return lax.select(lax.eq(target, np.int32(0)), added, lax.full_like(added, 0))
    targets = all_gather(target, names)
    everything = all_gather(added, names)
    here = lax.eq(targets, lax.convert_element_type(axis_index(names), np.int32))
    shape = (math.prod(sizes.values()), *added.shape)
    kept = lax.select(
        lax.broadcast_in_dim(here, shape, [0]), everything, lax.full_like(everything, 0)
    )
    return lax.reduce_sum(kept, [0])


def mesh_axis_sizes() -> dict[Any, int]:
    """Return the sizes of the axes of the mesh of devices that the kernel is run on, by name."""
    mesh = get_abstract_mesh()
    return {} if mesh.empty else dict(mesh.shape)


def _wait_discharge(
    should: Any, in_avals: Any, out_avals: Any, x: Any, *rest: Any, args_tree: Any, decrement: bool
) -> Any:
    _, transforms, value = tree_unflatten(args_tree, [None, *rest])
    new = update_view(x, transforms, lax.neg(value), True) if decrement else x
    return (new, *[None] * len(rest)), []


semaphore_read_p.discharge = _read_discharge
semaphore_signal_p.discharge = _signal_discharge
semaphore_wait_p.discharge = _wait_discharge

# Printing


def _pp_signal(eqn: Any, context: Any, settings: Any) -> Any:
    ref, transforms, inc, device_id, core_index = tree_unflatten(
        eqn.params["args_tree"], eqn.invars
    )
    doc = [pp.text("semaphore_signal "), ref_view_doc(context, ref, transforms)]
    doc.append(pp.text(f" {core.pp_var(inc, context)}"))
    if device_id is not None:
        doc.append(pp.text(f" {_pp_device(device_id, context)}"))
    if core_index is not None:
        doc.append(pp.text(f" core={core.pp_var(core_index, context)}"))
    return pp.concat(doc)


def _pp_device(device_id: DeviceId, context: Any) -> str:
    if isinstance(device_id, Mapping):
        items = [f"{k}: {core.pp_var(v, context)}" for k, v in device_id.items()]
        return "{" + ", ".join(items) + "}"
    if isinstance(device_id, (tuple, list)):
        return "(" + ", ".join([core.pp_var(v, context) for v in device_id]) + ")"
    return core.pp_var(device_id, context)


def _pp_wait(eqn: Any, context: Any, settings: Any) -> Any:
    ref, transforms, value = tree_unflatten(eqn.params["args_tree"], eqn.invars)
    name = "semaphore_wait[dec] " if eqn.params["decrement"] else "semaphore_wait "
    view = ref_view_doc(context, ref, transforms)
    return pp.concat([pp.text(name), view, pp.text(f" {core.pp_var(value, context)}")])


semaphore_signal_p.pp = _pp_signal
semaphore_wait_p.pp = _pp_wait
