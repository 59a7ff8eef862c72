"""Meshes of the cores of a TPU."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from jax._src.pallas.memory import MemorySpace as AnyMemorySpace
from jax._src.pallas.mosaic.core import GridDimensionSemantics, MemorySpace


class CoreType(enum.Enum):
    """The kinds of cores that a kernel can run on."""

    TC = "tc"
    SC_SCALAR_SUBCORE = "sc_scalar_subcore"
    SC_VECTOR_SUBCORE = "sc_vector_subcore"

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class TensorCore:
    """A core of a TPU with its number on the device."""

    id: int


@dataclasses.dataclass(frozen=True)
class TensorCoreMesh:
    """The TensorCores of a device, along one named axis.

    Args:
      devices: the cores.
      axis_names: the name of the axis.
    """

    devices: tuple[TensorCore, ...]
    axis_names: tuple[str, ...]

    core_type = CoreType.TC
    default_memory_space = AnyMemorySpace.ANY
    supported_memory_spaces = (
        MemorySpace.VMEM,
        MemorySpace.SMEM,
        MemorySpace.CMEM,
        MemorySpace.SEMAPHORE,
    )
    dimension_semantics = (GridDimensionSemantics.PARALLEL,)

    @property
    def shape(self) -> collections.OrderedDict[str, int]:
        """The number of cores by the axis's name."""
        return collections.OrderedDict([(self.axis_names[0], len(self.devices))])

    def check_is_compatible_with(self, other_mesh: Any) -> None:
        """Raise a ValueError: no other kernel runs beside one on the TensorCores."""
        raise ValueError(f"Mesh {self} is not compatible with {other_mesh}.")


def create_tensorcore_mesh(
    axis_name: str, devices: Sequence[Any] | None = None, num_cores: int | None = None
) -> TensorCoreMesh:
    """Return the mesh of the TensorCores of a device, for `pl.core_map` and `pl.kernel`.

    Args:
      axis_name: the name of its axis.
      devices: devices of a kind, of which the first says how many cores there are.
      num_cores: how many there are, in place of `devices`.

    Raises:
      ValueError: if both are given, or neither says it.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> dict(pltpu.create_tensorcore_mesh("core", num_cores=2).shape)
    {'core': 2}
    """
    if devices is not None and num_cores is not None:
        raise ValueError("create_tensorcore_mesh takes devices or num_cores, got both.")
    if num_cores is None:
        if not devices:
            raise ValueError("create_tensorcore_mesh takes devices or num_cores, got neither.")
        num_cores = getattr(devices[0], "num_cores", None)
        if num_cores is None:
            raise ValueError(
                f"The device {devices[0]} does not say how many TensorCores it has: give num_cores."
            )
    return TensorCoreMesh(tuple([TensorCore(i) for i in range(num_cores)]), (axis_name,))
