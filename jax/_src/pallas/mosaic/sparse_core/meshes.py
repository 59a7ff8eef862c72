"""Meshes of the SparseCores of a TPU, and of their subcores."""

from __future__ import annotations

import collections
import dataclasses
import math
import operator
from typing import Any

from jax._src.pallas.mosaic.core import GridDimensionSemantics, MemorySpace
from jax._src.pallas.mosaic.meshes import CoreType
from jax._src.pallas.mosaic.tpu_info import SparseCoreInfo, get_tpu_info


def get_sparse_core_info() -> SparseCoreInfo:
    """Return what the SparseCores of the default device have; or those of the mesh in use, if it says so.

    Raises:
      RuntimeError: if the device has no SparseCores.
      ValueError: if it is no TPU of a known kind.
    """
    info = get_tpu_info()
    if info.sparse_core is None:
        raise RuntimeError(f"A TPU {info.chip_version} has no SparseCores.")
    return info.sparse_core


def _num_cores() -> int:
    return get_sparse_core_info().num_cores


def _num_subcores() -> int:
    return get_sparse_core_info().num_subcores


class _SparseCores:
    """What both kinds of meshes have."""

    default_memory_space = MemorySpace.HBM

    def _axes(self) -> list[tuple[str, int]]:
        raise NotImplementedError

    def __post_init__(self) -> None:
        axes = self._axes()
        if len({name for name, _ in axes}) < len(axes):
            raise ValueError(f"The axes of {self} must have different names.")
        if any([operator.index(size) < 1 for _, size in axes]):
            raise ValueError(f"The axes of {self} must have positive sizes.")

    @property
    def shape(self) -> collections.OrderedDict[str, int]:
        """The sizes of the axes by name."""
        return collections.OrderedDict(self._axes())

    @property
    def axis_names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(self.shape)

    @property
    def size(self) -> int:
        """The number of cores that run the kernel."""
        return math.prod(self.shape.values())

    def check_is_compatible_with(self, other_mesh: Any) -> None:
        """Raise a ValueError if kernels on both meshes cannot run together."""
        if type(other_mesh) is type(self) and other_mesh != self:
            raise ValueError(f"You can't use two different {type(self).__name__}es.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorSubcoreMesh(_SparseCores):
    """The vector subcores of the SparseCores of a device, for `pl.kernel` and `pl.core_map`.

    Each subcore has `pltpu.VMEM` and `pltpu.SMEM` of its own; those of a core share `pltpu.VMEM_SHARED`.

    Args:
      core_axis_name, subcore_axis_name: the names of the axes of cores, and of subcores.
      num_cores, num_subcores: their sizes; by default those of the device.

    >>> from jax.experimental.pallas import tpu_sc as plsc
    >>> axes = dict(core_axis_name="c", subcore_axis_name="s")
    >>> plsc.VectorSubcoreMesh(**axes, num_cores=2, num_subcores=16).shape
    OrderedDict([('c', 2), ('s', 16)])
    """

    core_axis_name: str
    subcore_axis_name: str
    num_cores: int = dataclasses.field(default_factory=_num_cores)
    num_subcores: int = dataclasses.field(default_factory=_num_subcores)

    core_type = CoreType.SC_VECTOR_SUBCORE
    supported_memory_spaces = (
        MemorySpace.VMEM,
        MemorySpace.VMEM_SHARED,
        MemorySpace.SMEM,
        MemorySpace.SEMAPHORE,
    )
    dimension_semantics = (
        GridDimensionSemantics.CORE_PARALLEL,
        GridDimensionSemantics.SUBCORE_PARALLEL,
    )

    def _axes(self) -> list[tuple[str, int]]:
        return [(self.core_axis_name, self.num_cores), (self.subcore_axis_name, self.num_subcores)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScalarSubcoreMesh(_SparseCores):
    """The scalar subcores of the SparseCores of a device, one a core, for `pl.kernel` and `pl.core_map`.

    Args:
      axis_name: the name of the axis of cores.
      num_cores: its size; by default that of the device.
    """

    axis_name: str
    num_cores: int = dataclasses.field(default_factory=_num_cores)

    core_type = CoreType.SC_SCALAR_SUBCORE
    supported_memory_spaces = (MemorySpace.VMEM_SHARED, MemorySpace.SMEM, MemorySpace.SEMAPHORE)
    dimension_semantics = (GridDimensionSemantics.CORE_PARALLEL,)

    def _axes(self) -> list[tuple[str, int]]:
        return [(self.axis_name, self.num_cores)]
