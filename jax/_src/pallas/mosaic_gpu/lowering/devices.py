"""Other devices: where their memory is, which XLA tells a kernel where it starts.

A kernel that refers to other devices has one more operand, words of 64 bits: the number of the device, three that it does
not need, where each argument and result is on each device, and where each is on all devices at once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping
from typing import Any

from jax._src.core import Jaxpr
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import arith, llvm
from jax._src.pallas.grid_values import axes_asked_for
from jax._src.pallas.mosaic_gpu.devices import reaches_other_devices
from jax._src.pallas.mosaic_gpu.lowering.indices import DYNAMIC, Index, integer, unraveled
from jax._src.pallas.semaphores import DeviceId, DeviceIdType
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
        cls, axis_context: Any, jaxpr: Jaxpr, own_axes: set[Any], operands: int, where: str
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
        asked = axes_asked_for(jaxpr) - own_axes
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
        known = axis_context.device_assignment or getattr(mesh, "_flat_devices_tuple", ())
        numbers = [d.id for d in known]
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
        names, at = list(self.sizes), dict(self.at)
        if isinstance(device_id, Mapping):
            for name, value in device_id.items():
                group = name if isinstance(name, tuple) else (name,)
                unknown = [n for n in group if n not in self.sizes]
                if unknown:
                    raise ValueError(f"device_id has axes {unknown}, the mesh has {names}.")
                at.update(zip(group, unraveled(index_of(value), [self.sizes[n] for n in group])))
        else:
            given = list(device_id) if isinstance(device_id, (tuple, list)) else [device_id]
            if kind is DeviceIdType.LOGICAL:
                (number,) = given
                return index_of(number).value()
            if len(given) != len(names):
                raise ValueError(
                    f"device_id has {len(given)} coordinates, but the mesh has {len(names)} axes: {names}."
                )
            at.update(zip(names, map(index_of, given)))
        out = Index()
        for name, size in self.sizes.items():
            out = out * size + at[name]
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
        table = _at(metadata, [], [_TABLES + operand * self.count])
        return _word(_at(table, [number], [DYNAMIC]), 0)


def _at(words: Any, dynamic: list[Any], static: list[int]) -> Any:
    i64 = ir.IntegerType.get_signless(64)
    return llvm.GEPOp(words.type, words, dynamic, static, i64, None).result


def _word(words: Any, i: int) -> Any:
    return llvm.load(ir.IntegerType.get_signless(64), _at(words, [], [i]), alignment=8)


def _moved(own: Any, there: Any, here: Any) -> Any:
    i8 = ir.IntegerType.get_signless(8)
    away = arith.subi(there, here)
    return llvm.GEPOp(own.type, own, [away], [DYNAMIC], i8, None).result
