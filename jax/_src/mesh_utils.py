"""Ordering of devices on logical meshes: neighbours in the mesh are neighbours in the network."""

from __future__ import annotations

import itertools
import logging
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jax._src import xla_bridge as xb

logger = logging.getLogger(__name__)

# Rings through small boards: consecutive devices are connected by a link.
_TRAY_2x2_RING_ORDER = (0, 1, 3, 2)
_TRAY_2x4_RING_ORDER = (0, 1, 2, 3, 7, 6, 5, 4)
_TRAY_4x4_RING_ORDER = (0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4)
_TRAY_2x2x2_RING_ORDER = (0, 1, 3, 2, 6, 7, 5, 4)
_TRAY_2x2x2_IOTA_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)
_TRAY_TWO_CORE_RING_ORDER = (0, 1, 2, 3, 6, 7, 4, 5)  # four chips with two cores each

# By physical and logical mesh: the transposition of the physical axes that keeps the devices of
# each process together.
_TRANSPOSE_TRICKS: dict[tuple[int, ...], dict[tuple[int, ...], tuple[int, ...]]] = {
    (2, 2, 1): {(2, 2): (0, 1, 2)},
    (2, 2, 4): {(4, 4): (0, 1, 2)},
    (4, 4, 4): {(16, 4): (0, 2, 1)},
    (4, 8, 8): {(64, 4): (0, 2, 1), (4, 64): (0, 2, 1)},
    (8, 8, 8): {(64, 8): (0, 2, 1)},
    (8, 16, 16): {(256, 8): (0, 2, 1), (8, 256): (0, 2, 1)},
}


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Arranges devices in the shape of a logical mesh, for fast collectives.

    Args:
      mesh_shape: the size of each logical axis; axes with the most communication come last.
      devices: the devices; all of :func:`jax.devices` by default.
      contiguous_submeshes: whether each process's devices must form a contiguous part of the mesh.
      allow_split_physical_axes: whether a physical axis may be split over several logical axes.

    Returns:
      An array of the devices, of shape ``mesh_shape``, for :class:`jax.sharding.Mesh`.

    Raises:
      ValueError: the number of devices is not the product of ``mesh_shape``, or there is no mesh
        with contiguous submeshes.
      NotImplementedError: logical axes are not products of whole physical axes; allow splitting
        them.

    Example:
      >>> import jax
      >>> from jax.experimental import mesh_utils
      >>> mesh_utils.create_device_mesh((1, 1), jax.devices()[:1]).shape
      (1, 1)
    """
    shape = canonicalize_axis_sizes(mesh_shape)
    if shape is None:
        raise ValueError(f"mesh_shape must be a sequence of integers, got {mesh_shape!r}")
    devices = list(xb.devices() if devices is None else devices)
    if math.prod(shape) != len(devices) or any(size < 0 for size in shape):
        raise ValueError(
            f"Number of devices {len(devices)} must equal the product of mesh_shape {shape}"
        )
    if not devices:
        return np.array(devices, dtype=object).reshape(shape)
    device = devices[-1]
    handler = device_kind_handler_dict.get(device.device_kind)
    if handler is not None:
        mesh = handler(shape, devices, contiguous_submeshes=contiguous_submeshes)
        if mesh is not None:
            return mesh
    if device.platform != "tpu":
        return _array(devices).reshape(shape)
    physical_mesh = _get_physical_tpu_mesh(devices)
    if contiguous_submeshes:
        physical_mesh = _transpose_trick(physical_mesh, shape)
    mesh, _ = _create_device_mesh_for_nd_torus(
        physical_mesh, shape, allow_split_physical_axes=allow_split_physical_axes
    )
    return mesh


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Arranges devices of several slices, with a fast network within and a slow one between them.

    Args:
      mesh_shape: the size of each logical axis within a slice.
      dcn_mesh_shape: the size of each logical axis across slices, one for each in ``mesh_shape``.
      devices: the devices; all of :func:`jax.devices` by default.
      process_is_granule: whether processes take the place of slices.
      should_sort_granules_by_key: whether slices (processes) are sorted by their index.
      allow_split_physical_axes: see :func:`create_device_mesh`.

    Returns:
      An array of devices, whose shape is the product of the two shapes, axis by axis.

    Raises:
      ValueError: the number of slices, or of devices in a slice, does not match the shapes.

    Example:
      >>> import jax
      >>> from jax.experimental import mesh_utils
      >>> mesh = mesh_utils.create_hybrid_device_mesh(
      ...     (1,), (1,), jax.devices()[:1], process_is_granule=True)
      >>> mesh.shape
      (1,)
    """
    devices = list(xb.devices() if devices is None else devices)
    attribute = "process_index" if process_is_granule else "slice_index"
    granules: dict[int, list[Any]] = {}
    for device in devices:
        if not hasattr(device, attribute):
            raise ValueError(
                f"Device {device} does not have attribute {attribute}. See `process_is_granule` option."
            )
        granules.setdefault(getattr(device, attribute), []).append(device)
    keys = sorted(granules) if should_sort_granules_by_key else list(granules)
    if math.prod(dcn_mesh_shape) != len(keys):
        raise ValueError(
            f"Number of slices {len(keys)} must equal the product of dcn_mesh_shape {dcn_mesh_shape}"
        )
    rank = max(len(mesh_shape), len(dcn_mesh_shape))
    inner = (1,) * (rank - len(mesh_shape)) + tuple(mesh_shape)
    outer = (1,) * (rank - len(dcn_mesh_shape)) + tuple(dcn_mesh_shape)
    per_granule = [
        create_device_mesh(
            inner, granules[key], allow_split_physical_axes=allow_split_physical_axes
        )
        for key in keys
    ]
    blocks = np.empty(len(keys), dtype=object)
    blocks[:] = per_granule
    out = np.empty(tuple(a * b for a, b in zip(outer, inner)), dtype=object)
    for position in np.ndindex(*outer):
        box = tuple(slice(p * n, (p + 1) * n) for p, n in zip(position, inner))
        out[box] = blocks.reshape(outer)[position]
    return out


def canonicalize_axis_sizes(axis_sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The sizes as integers; None if one is not a whole number."""
    out = []
    for size in axis_sizes:
        try:
            out.append(operator.index(size))
        except TypeError:
            if not isinstance(size, float) or not size.is_integer():
                return None
            out.append(int(size))
    return tuple(out)


def _array(devices: Sequence[Any]) -> np.ndarray:
    # assignment to a part of an array would look for sequences among the devices
    return np.fromiter(devices, dtype=object, count=len(devices))


# Small boards, by device kind


def _ring(order: Sequence[int], shape, devices) -> np.ndarray:
    """Devices board by board, each board in ring order."""
    boards = _array(devices).reshape(-1, len(order))
    return boards[:, list(order)].reshape(shape)


def _extents(devices) -> tuple[int, ...]:
    coords = np.array([getattr(d, "coords", (0, 0, 0)) for d in devices])
    return tuple((coords.max(0) - coords.min(0) + 1).tolist())


def _by_coordinates(devices):
    """The devices in order of their coordinates, the first of which varies fastest."""
    return sorted(devices, key=lambda d: tuple(d.coords)[::-1])


def _tpu_v2_v3_create_device_mesh(mesh_shape, devices, **unused_kwargs) -> np.ndarray:
    if len(devices) == 8 or mesh_shape[-1:] == (8,):
        return _ring(_TRAY_TWO_CORE_RING_ORDER, mesh_shape, devices)
    return _array(devices).reshape(mesh_shape)


def _v4i_v8i_create_device_mesh(mesh_shape, devices, **unused_kwargs) -> np.ndarray | None:
    return _ring(_TRAY_2x2_RING_ORDER, mesh_shape, devices) if len(devices) == 4 else None


def _v5e_create_device_mesh(mesh_shape, devices, **unused_kwargs) -> np.ndarray | None:
    devices = _by_coordinates(devices)
    last = tuple(devices[-1].coords)  # a board at the origin of the network
    match len(devices):
        case 4 if last == (1, 1, 0):
            return _ring(_TRAY_2x2_RING_ORDER, mesh_shape, devices)
        case 8:
            order = _TRAY_2x2x2_IOTA_ORDER if last == (1, 1, 1) else _TRAY_2x4_RING_ORDER
            return _ring(order, mesh_shape, devices)
        case 16 if 16 in mesh_shape and last == (3, 3, 0):
            return _ring(_TRAY_4x4_RING_ORDER, mesh_shape, devices)
    return None


def _v5p_create_device_mesh(mesh_shape, devices, **unused_kwargs) -> np.ndarray | None:
    devices = _by_coordinates(devices)
    if len(devices) == 8 and tuple(devices[-1].coords) == (1, 1, 1):
        return _ring(_TRAY_2x2x2_RING_ORDER, mesh_shape, devices)
    return None


def _7x_create_device_mesh(mesh_shape, devices, **unused_kwargs) -> np.ndarray | None:
    cores = max(getattr(d, "core_on_chip", 0) for d in devices) + 1
    sizes = [n for n in (*_extents(devices), cores) if n > 1]
    if sizes[:2] == [2, 2] and len(devices) % 8 == 0:
        return _ring(_TRAY_TWO_CORE_RING_ORDER, mesh_shape, devices)
    return None


device_kind_handler_dict: dict[str, Callable[..., np.ndarray | None]] = {
    "TPU v2": _tpu_v2_v3_create_device_mesh,
    "TPU v3": _tpu_v2_v3_create_device_mesh,
    "TPU v4 lite": _v4i_v8i_create_device_mesh,
    "TPU v5 lite": _v5e_create_device_mesh,
    "TPU v5p": _v5p_create_device_mesh,
    "TPU v6 lite": _v5e_create_device_mesh,
    "TPU7x": _7x_create_device_mesh,
    "TPU7": _7x_create_device_mesh,
    "TPU8i": _v4i_v8i_create_device_mesh,
}


# Larger networks: tori

_KINDS_WITH_CORES = {"TPU v5p", "TPU7x", "TPU7", "TPU8i"}  # may have two devices a chip


def _get_physical_tpu_mesh(jax_devices: Sequence[Any]) -> np.ndarray:
    """The devices as an array with the axes of the network, and of a chip's cores if it has two."""
    positions = np.array([d.coords for d in jax_devices])
    positions -= positions.min(0)
    dims = tuple((positions.max(0) + 1).tolist())
    of_core = np.array([d.core_on_chip for d in jax_devices])
    cores = int(of_core.max()) + 1
    if cores > 1 and jax_devices[0].device_kind not in _KINDS_WITH_CORES:
        raise ValueError(
            'Creating meshes for TPU >v3 requires one device per chip ("megacore" mode), but some'
            f" chips have {cores} devices of kind {jax_devices[0].device_kind}."
        )
    shape = dims if cores == 1 else (*dims, cores)
    if math.prod(shape) != len(jax_devices):
        raise ValueError(
            f"The devices do not fill their box in the network: {len(jax_devices)} devices, {dims=},"
            f" {cores=}. Give all devices of a slice, or a box of them."
        )
    if cores > 1:
        positions = np.column_stack([positions, of_core])
    out = np.empty(shape, dtype=object)
    out[tuple(positions.T)] = _array(jax_devices)
    return out


def _transpose_trick(physical_mesh: np.ndarray, mesh_shape: Sequence[int]) -> np.ndarray:
    """Transposes the physical axes to keep each process's devices together."""
    topology = physical_mesh.shape
    tricks = _TRANSPOSE_TRICKS.get(topology)
    if tricks is None:
        raise ValueError(
            "create_device_mesh cannot create contiguous submeshes for physical mesh topology"
            f" {topology}"
        )
    permutation = tricks.get(tuple(n for n in mesh_shape if n != 1))
    if permutation is None:
        raise ValueError(
            f"create_device_mesh cannot create contiguous submeshes for mesh_shape {mesh_shape} and"
            f" physical mesh topology {topology}. Available mesh_shapes: {list(tricks)}"
        )
    return physical_mesh.transpose(permutation)


def _create_device_mesh_for_nd_torus(
    physical_mesh: np.ndarray, mesh_shape: Sequence[int], *, allow_split_physical_axes: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Assigns logical axes to the axes of a torus.

    Logical axes are assigned from the last one, which has the most communication, to the first.
    Each one gets as many whole physical axes as possible, since the bandwidth of their links adds
    up. A physical axis is split only if that fails and splitting is allowed.

    Args:
      physical_mesh: the devices, in an array with the axes of the torus.
      mesh_shape: the size of each logical axis.
      allow_split_physical_axes: whether a physical axis may be split over several logical axes.

    Returns:
      The devices, of shape ``mesh_shape``; and an array with the factor of each physical axis (row)
      that is assigned to each logical axis (column).

    Raises:
      NotImplementedError: logical axes are not products of whole physical axes.
    """
    physical_shape = physical_mesh.shape
    assignment = np.ones((len(physical_shape), len(mesh_shape)), dtype=np.int64)
    remaining = list(physical_shape)
    for logical in reversed(range(len(mesh_shape))):
        size = mesh_shape[logical]
        split = _whole_axes(remaining, physical_shape, size)
        if split is None and allow_split_physical_axes:
            split = _parts_of_axes(remaining, physical_shape, size)
        if split is None:
            taken = [0 if r != p else p for r, p in zip(remaining, physical_shape)]
            raise NotImplementedError(
                f"Failed to find assignment for logical_axis_index {logical} of size {size} with"
                f" remaining assignable mesh {taken}. Each logical axis must be the product of some"
                f" physical axes: mesh_shape={tuple(mesh_shape)}, physical mesh {physical_shape}. Or"
                " pass allow_split_physical_axes=True."
            )
        assignment[:, logical] = split
        remaining = [r // s for r, s in zip(remaining, split)]
    return _generate_logical_mesh(physical_mesh, mesh_shape, assignment), assignment


def _whole_axes(remaining, physical_shape, size) -> tuple[int, ...] | None:
    """Unassigned physical axes, as many as possible, whose product is `size`."""
    free = [i for i, (r, p) in enumerate(zip(remaining, physical_shape)) if r == p and r > 1]
    for count in range(len(free), -1, -1):
        for axes in itertools.combinations(free, count):
            if math.prod(remaining[i] for i in axes) == size:
                return tuple(r if i in axes else 1 for i, r in enumerate(remaining))
    return None


def _parts_of_axes(remaining, physical_shape, size) -> tuple[int, ...] | None:
    """Factors of physical axes whose product is `size`.

    Prefers whole axes to splitting them, and axes that are split already to those that are not.
    """

    preference = lambda split: (*_preference(split, remaining, physical_shape), split)
    return max(_factorizations(remaining, size), key=preference, default=None)


def _preference(split, remaining, physical_shape) -> tuple[int, int, int]:
    whole = [s for s, r, p in zip(split, remaining, physical_shape) if s == r == p and s > 1]
    parts = [s for s, r, p in zip(split, remaining, physical_shape) if r < p]
    return math.prod(whole), len(whole), math.prod(parts)


def _factorizations(bounds: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """All tuples with product `size` whose elements divide the bounds."""
    if not bounds:
        if size == 1:
            yield ()
        return
    for divisor in range(1, min(bounds[0], size) + 1):
        if bounds[0] % divisor == 0 and size % divisor == 0:
            for rest in _factorizations(bounds[1:], size // divisor):
                yield (divisor, *rest)


def _generate_logical_mesh(
    physical_mesh: np.ndarray, logical_mesh_shape: Sequence[int], assignment: np.ndarray
) -> np.ndarray:
    """Splits each physical axis as assigned, and merges the parts of each logical axis."""
    num_physical, num_logical = assignment.shape
    parts = physical_mesh.reshape(assignment.ravel())
    order = np.arange(num_physical * num_logical).reshape(num_physical, num_logical).T.ravel()
    return parts.transpose(order).reshape(logical_mesh_shape)


# Names that outside code imports, to test and to change how meshes are made

_TPU_V2 = "TPU v2"
_TPU_V3 = "TPU v3"
_TPU_V4 = "TPU v4"
_TPU_V5_LITE = "TPU v5 lite"
_TPU_V5E = "TPU v5e"
_TPU_V5P = "TPU v5p"
_TPU_V6_LITE = "TPU v6 lite"
_TPU_7 = "TPU7"
_TPU_7X = "TPU7x"


def _create_device_mesh_for_nd_torus_splitting_axes(
    physical_mesh: np.ndarray, mesh_shape: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Like `_create_device_mesh_for_nd_torus`, but any physical axis may be split."""
    physical_shape = physical_mesh.shape
    if math.prod(physical_shape) != math.prod(mesh_shape):
        raise ValueError(
            f"The number of devices in physical mesh {physical_shape} does not match the number of"
            f" devices in logical mesh {tuple(mesh_shape)}."
        )
    assignment = np.ones((len(physical_shape), len(mesh_shape)), dtype=np.int64)
    remaining = list(physical_shape)
    for logical in reversed(range(len(mesh_shape))):
        split = _parts_of_axes(remaining, physical_shape, mesh_shape[logical])
        if split is None:
            raise NotImplementedError(
                f"Failed to find assignment for logical_axis_index {logical} of size"
                f" {mesh_shape[logical]} with remaining assignable mesh {remaining}."
            )
        assignment[:, logical] = split
        remaining = [r // s for r, s in zip(remaining, split)]
    return _generate_logical_mesh(physical_mesh, mesh_shape, assignment), assignment


def _unassigned(physical_mesh_shape: Sequence[int], assignment: np.ndarray) -> list[int]:
    taken = np.prod(assignment, axis=1, dtype=np.int64)
    return [int(size) // int(n) for size, n in zip(physical_mesh_shape, taken)]


def _enumerate_feasible_logical_axis_assignments(
    physical_mesh_shape: Sequence[int], assignment: np.ndarray, logical_axis_size: int
) -> Iterator[np.ndarray]:
    """The factors of physical axes that a logical axis of this size can get, beside the others."""
    remaining = _unassigned(physical_mesh_shape, assignment)
    for split in _factorizations(remaining, logical_axis_size):
        yield np.array(split, dtype=np.int64)


def _prefer_first_logical_axis_assignment(
    x: np.ndarray, y: np.ndarray, *, physical_mesh_shape: Sequence[int], assignment: np.ndarray
) -> bool:
    """Whether the factors `x` for a logical axis are better than `y`."""
    remaining = _unassigned(physical_mesh_shape, assignment)
    first, second = [_preference(s, remaining, physical_mesh_shape) for s in (x, y)]
    return (first, tuple(x)) > (second, tuple(y))


def _get_prime_factors(x: int) -> list[int]:
    """The prime factors of a positive number, in ascending order."""
    factors, divisor = [], 2
    while x > 1:
        while x % divisor == 0:
            factors.append(divisor)
            x //= divisor
        divisor += 1
    return factors
