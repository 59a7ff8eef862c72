"""Devices: how they come together to run a kernel, and how kernels name them."""

from __future__ import annotations

import collections
import math
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jax._src.callback import on_host
from jax._src.core import Primitive, ShapedArray
from jax._src.interpreters import mlir
from jax._src.lax.parallel import axis_index
from jax._src.mesh import get_abstract_mesh
from jax._src.pallas.semaphores import DeviceId, DeviceIdType
from jax._src.pallas.threaded.host import programs_in_this_thread
from jax._src.pallas.threaded.views import int_of
from jax._src.pallas.values import words_of

# Runs a kernel on the host. It is called once on each device, also if its results are not used.
_interpreted_p = Primitive("interpreted_kernel", multiple_results=True)
_interpreted_p.def_abstract_eval(lambda *avals, run, result_avals: list(result_avals))


def _lower(ctx: Any, *args: Any, run: Any, result_avals: Any) -> Any:
    results, _, _ = mlir.emit_python_callback(
        ctx, run, None, args, ctx.avals_in, ctx.avals_out, has_side_effect=True
    )
    return results


mlir.register_lowering(_interpreted_p, _lower)


def device_axes() -> dict[Any, int]:
    """Return the sizes of the axes of the mesh over which each device has arrays of its own."""
    mesh = get_abstract_mesh()
    if mesh.empty:
        return {}
    return {n: mesh.shape[n] for n in mesh.axis_names if n in mesh.manual_axes}


def run_together(
    run: Callable[[list[Any]], Sequence[Any]], axes: Mapping[Any, int], args: Sequence[Any],
    out_avals: Sequence[Any],
) -> list[Any]:  # fmt: skip
    """Run a kernel in a callback of the program of several devices, once for all of them.

    Args:
      run: function from a list of what each device brings, a sequence of arrays, to a list of the results of each.
      axes: the sizes of the axes of the mesh of devices, as `device_axes` returns them.
      args: what this device brings.
      out_avals: types of the results.

    Returns:
      The results of this device.
    """
    gathering = Gathering(math.prod(axes.values()), run)

    def call(*values: Any) -> Any:
        # The arrays are only lent.
        values = tuple([np.array(v) for v in values])
        with on_host(), programs_in_this_thread():
            return gathering(int_of(values[0]), values[1:])

    here = axis_index(tuple(axes)) if axes else np.int32(0)
    results = tuple([ShapedArray(a.shape, a.dtype) for a in out_avals])
    return _interpreted_p.bind(here, *map(words_of, args), run=call, result_avals=results)


class _Arrival:
    """What a device has brought, and what it is given back."""

    def __init__(self, args: Sequence[Any]):
        self.args = args
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None


class Gathering:
    """One application of a kernel in a program that several devices run, each with a thread of its own.

    The thread that comes last runs the kernel for all.

    Args:
      num_devices: the number of devices.
      run: function from a list of what each device brings to a list of what each gets.
    """

    def __init__(self, num_devices: int, run: Callable[[list[Any]], Sequence[Any]]):
        self.run = run
        # A device may come again for the next run before another has come for this one.
        self.waiting: list[collections.deque[_Arrival]] = [
            collections.deque() for _ in range(num_devices)
        ]
        self.lock = threading.Lock()
        _gatherings.add(self)

    def __call__(self, device: int, args: Sequence[Any]) -> Any:
        """Wait for the other devices, and return what this one gets."""
        own = _Arrival(args)
        with self.lock:
            self.waiting[device].append(own)
            together = all(self.waiting)
            arrivals = [w.popleft() for w in self.waiting] if together else []
        if together:
            try:
                for a, result in zip(arrivals, self.run([a.args for a in arrivals])):
                    a.result = result
            except BaseException as e:
                for a in arrivals:
                    a.error = e
            for a in arrivals:
                a.done.set()
        own.done.wait()
        if own.error is not None:
            raise own.error
        return own.result

    def forget(self) -> None:
        """Let the devices that wait end with an error."""
        with self.lock:
            for waiting in self.waiting:
                for a in waiting:
                    a.error = RuntimeError("The state of interpreted kernels was reset.")
                    a.done.set()
                waiting.clear()


_gatherings: weakref.WeakSet[Gathering] = weakref.WeakSet()


def forget_waiting() -> None:
    """Forget devices that wait for others."""
    for g in list(_gatherings):
        g.forget()


def position_of(
    device_id: DeviceId, device_id_type: DeviceIdType, sizes: Mapping[Any, int],
    all_sizes: Mapping[Any, int], here: Mapping[Any, int],
) -> dict[Any, int]:  # fmt: skip
    """Return the coordinates that a kernel names, along the axes of the mesh of devices and of that of cores.

    Args:
      device_id: an integer, a tuple of coordinates, or a dictionary of coordinates by axis names.
      device_id_type: what an integer or a tuple means.
      sizes: the sizes of the axes of the mesh of devices.
      all_sizes: those, and the sizes of the axes of the mesh of cores.
      here: the coordinates of the core that asks; axes that are not named have the same.

    Raises:
      ValueError: if there is no such device.
    """
    out = dict(here)
    if isinstance(device_id, Mapping):
        for name, value in device_id.items():
            group = name if isinstance(name, tuple) else (name,)
            unknown = [n for n in group if n not in here]
            if unknown:
                raise ValueError(f"device_id has axes {unknown}, the meshes have {list(here)}.")
            out.update(_unraveled(int_of(value), {n: all_sizes[n] for n in group}))
        return out
    given = list(device_id) if isinstance(device_id, (tuple, list)) else [device_id]
    if device_id_type is DeviceIdType.LOGICAL or (not sizes and len(given) == 1):
        (number,) = given
        return out | _unraveled(int_of(number), sizes)
    if len(given) != len(sizes):
        raise ValueError(
            f"device_id has {len(given)} coordinates, but the mesh has {len(sizes)} axes: {list(sizes)}."
        )
    return out | {n: int_of(i) for n, i in zip(sizes, given)}


def _unraveled(number: int, sizes: Mapping[Any, int]) -> dict[Any, int]:
    out: dict[Any, int] = {}
    rest = number
    for name, size in reversed(list(sizes.items())):
        rest, out[name] = divmod(rest, size)
    if rest:
        raise ValueError(f"There is no device {number} in a mesh of axes {dict(sizes)}.")
    return out
