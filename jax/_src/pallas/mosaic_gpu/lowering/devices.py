"""Other devices: where their memory is, which XLA tells a kernel where it starts.

A kernel that refers to other devices has one more operand, words of 64 bits: the number of the device, three that it does
not need, where each argument and result is on each device, and where each is on all devices at once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from jax._src.core import Jaxpr
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, llvm
from jax._src.mesh import Mesh
from jax._src.pallas.grid_values import axes_asked_for
from jax._src.pallas.mosaic_gpu.devices import reaches_other_devices
from jax._src.pallas.mosaic_gpu.lowering.indices import Index, integer, pointer_at, unraveled
from jax._src.pallas.semaphores import DeviceId, DeviceIdType, mesh_coordinates
from jax._src.sharding_impls import SPMDAxisContext

_TABLES = 4  # words before the tables
EVERYWHERE = "everywhere"  # in place of a device's number: all devices at once


@dataclasses.dataclass
class Devices:
    """The devices of the mesh that run a kernel. They are numbered in row-major order.

    Attributes:
      sizes: the sizes of the mesh's axes, by name.
      operands: how many arguments and results the kernel has.
      metadata: where the words are that XLA gives the kernel.
      number: this device's number.
      at: this device's position along each axis.
      at_once: the numbers of the operands that the kernel reaches on all devices at once.
    """

    sizes: Mapping[Hashable, int]
    operands: int
    metadata: Any = None
    number: Any = None
    at: Mapping[Hashable, Index] = dataclasses.field(default_factory=dict)
    at_once: set[int] = dataclasses.field(default_factory=set)

    @classmethod
    def of(
        cls,
        axis_context: Any,
        jaxpr: Jaxpr,
        own_axes: Iterable[Hashable],
        operands: int,
        where: str,
    ) -> Devices | None:
        """Return the devices that a kernel refers to; None if it refers to none, nor asks for its position among them.

        Args:
          axis_context: that of the lowering.
          jaxpr: the kernel.
          own_axes: the axes of threads and blocks.
          operands: how many arguments and results the kernel has.
          where: its name and line.

        Raises:
          ValueError: if there is no mesh.
          NotImplementedError: if the kernel does not run on each device of it by itself, or they are in another order.
        """
        reaches = reaches_other_devices(jaxpr)
        asked = axes_asked_for(jaxpr).difference(own_axes)
        mesh = axis_context.mesh if isinstance(axis_context, SPMDAxisContext) else None
        if mesh is None:
            if reaches:
                raise ValueError(
                    f"{where} refers to another device, but is compiled for one: call it in jax.shard_map over a mesh of the devices."
                )
            return None
        if not reaches and asked.isdisjoint(mesh.axis_names):
            return None
        automatic = [n for n in mesh.axis_names if n not in axis_context.manual_axes]
        if automatic:
            raise NotImplementedError(
                f"{where} refers to other devices of a mesh whose axes {automatic} are not manual: name all axes in axis_names of "
                "jax.shard_map."
            )
        numbers = [d.id for d in axis_context.device_assignment or ()]
        if not numbers and isinstance(mesh, Mesh):
            numbers = mesh.device_ids.flatten().tolist()
        if numbers and numbers != list(range(len(numbers))):
            raise NotImplementedError(
                f"{where} refers to other devices of a mesh of devices {numbers}: XLA knows where the memory of others is for meshes of all "
                f"devices from 0 in the order of their ids only. Make the mesh by jax.make_mesh or of jax.devices()."
            )
        return cls(dict(mesh.shape), operands)

    @property
    def count(self) -> int:
        return math.prod(self.sizes.values())

    def start(self, metadata: Any) -> None:
        """Emit this device's number and position, where a kernel begins.

        Args:
          metadata: pointer to the words.
        """
        self.metadata = metadata
        i32 = ir.IntegerType.get_signless(32)
        number = arith.trunci(i32, _word(metadata, 0))
        self.number = number
        self.at = dict(zip(self.sizes, unraveled(Index(0, number), list(self.sizes.values()))))

    def number_of(self, device_id: DeviceId, kind: DeviceIdType, index_of: Any) -> Any:
        """Emit the number of the device that a kernel names.

        Args:
          device_id: an integer, a tuple of coordinates, or a dictionary of coordinates by axis names.
          kind: what an integer or a tuple means.
          index_of: function that returns an operand as an `Index`.

        Raises:
          ValueError: if the mesh has no such axes.
        """
        if kind is DeviceIdType.LOGICAL and not isinstance(device_id, Mapping):
            (number,) = device_id if isinstance(device_id, (tuple, list)) else (device_id,)
            return index_of(number).value()
        at = mesh_coordinates(
            device_id, kind, self.sizes, self.at.__getitem__, lambda i, sizes: unraveled(index_of(i), sizes)
        )  # fmt: skip
        out = Index()
        for i, size in zip(at, self.sizes.values()):
            out = out * size + (i if isinstance(i, Index) else index_of(i))
        return out.value()

    def pointer(self, operand: int, own: Any, number: Any) -> Any:
        """Emit where something of an operand is on another device, or on all at once.

        Args:
          operand: the operand's number.
          own: pointer to where it is on this device.
          number: the device's number, or `EVERYWHERE`.
        """
        if number is EVERYWHERE:
            self.at_once.add(operand)
            there = _word(self.metadata, _TABLES + self.operands * self.count + operand)
        else:
            there = self._start_of(self.metadata, operand, number)
        return _moved(own, there, self._start_of(self.metadata, operand, self.number))

    def pointer_on_host(self, metadata: Any, operand: int, own: Any, number: int) -> Any:
        """Emit in the host's function where an operand is on another device.

        Args:
          metadata: pointer to the words, in the host's memory.
          operand: the operand's number.
          own: pointer to it on this device.
          number: the device's number.
        """
        i64 = ir.IntegerType.get_signless(64)
        here = self._start_of(metadata, operand, _word(metadata, 0))
        return _moved(own, self._start_of(metadata, operand, integer(number, i64)), here)

    def _start_of(self, metadata: Any, operand: int, number: Any) -> Any:
        i64 = ir.IntegerType.get_signless(64)
        return _word(pointer_at(metadata, _TABLES + operand * self.count, i64), number)


def _word(words: Any, i: Any) -> Any:
    i64 = ir.IntegerType.get_signless(64)
    return llvm.load(i64, pointer_at(words, i, i64), alignment=8)


def _moved(own: Any, there: Any, here: Any) -> Any:
    return pointer_at(own, arith.subi(there, here))
