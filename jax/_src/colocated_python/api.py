"""Functions that make functions and objects live beside devices, and find the CPUs beside devices."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import xla_bridge as xb
from jax._src.api_util import fun_signature
from jax._src.colocated_python.func import make_callable
from jax._src.colocated_python.obj import wrap_class
from jax._src.core.jaxpr import fun_source_info
from jax._src.lib import Device
from jax._src.mesh import Mesh


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """Return the CPU devices on the hosts of given devices.

    Args:
      devices_or_mesh: a sequence of devices, or a :class:`jax.sharding.Mesh`.

    Returns:
      A list of CPU devices in the same order, or a mesh of the same shape. A CPU device stands for
      itself.

    Raises:
      ValueError: a process has fewer CPU devices than other devices; set `jax_num_cpu_devices`.

    Example:
      >>> from jax.experimental.colocated_python import colocated_cpu_devices
      >>> colocated_cpu_devices(jax.devices("cpu")) == jax.devices("cpu")
      True
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        devices = _cpu_devices_beside(tuple(mesh.devices.flat))
        return Mesh(
            np.array(devices).reshape(mesh.axis_sizes), mesh.axis_names, axis_types=mesh.axis_types
        )
    try:
        devices = tuple(devices_or_mesh)
    except TypeError:
        devices = (None,)
    if not devices or not all(isinstance(d, Device) for d in devices):
        raise TypeError(
            "colocated_cpu_devices takes a mesh or a sequence of one or more devices, got"
            f" {devices_or_mesh!r}."
        )
    return _cpu_devices_beside(devices)


def _cpu_devices_beside(devices: Sequence[Device]) -> list[Device]:
    if all(d.platform == "cpu" for d in devices):
        return list(devices)
    # The n-th device of a process stands beside its n-th CPU device.
    cpus = collections.defaultdict(list)
    for d in xb.devices("cpu"):
        cpus[d.process_index].append(d)
    others: dict[int, list[Device]] = collections.defaultdict(list)
    for d in devices[0].client.devices():
        if d.platform != "cpu":
            others[d.process_index].append(d)
    out = []
    for d in devices:
        found = cpus[d.process_index]
        position = others[d.process_index].index(d)
        if position >= len(found):
            raise ValueError(
                f"Process {d.process_index} has {len(others[d.process_index])} devices of kind"
                f" {d.device_kind}, but only {len(found)} CPU devices: set the option"
                " jax_num_cpu_devices (JAX_NUM_CPU_DEVICES) to as many."
            )
        out.append(found[position])
    return out


def colocated_python(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Make a Python function run on the hosts of the devices of its arguments.

    The function and what it closes over are pickled, and the copy is called. Runtimes that have no
    remote hosts call it in this process.

    Args:
      fun: function of pytrees of arrays on CPU devices, which returns such pytrees.

    Returns:
      A function of such arguments. Its method `specialize(in_specs=None, out_specs_fn=None,
      devices=None)` returns it with known types of arguments and results, or for given devices.

    Raises:
      ModuleNotFoundError: when it is called, if the package cloudpickle is not installed.
      ValueError: when it is called, if the arguments or results are not arrays, the arguments are on
        different devices, or there is neither an argument nor a device.

    Example:
      >>> from jax.experimental.colocated_python import colocated_python
      >>> @colocated_python
      ... def add_one(x):
      ...   return x + 1
      >>> print(add_one(jax.device_put(2, jax.devices("cpu")[0])))
      3
    """
    if not callable(fun):
        raise TypeError(f"colocated_python takes a function, got {fun!r}.")
    return make_callable(fun, fun_source_info(fun), fun_signature(fun))


def colocated_python_class(cls: type[object]) -> type[object]:
    """Make a class whose objects live on the hosts of devices.

    An object is made where a method of it is called for the first time, and exists as long as the
    wrapper. Methods are colocated functions (see :func:`colocated_python`). Special methods other
    than `__init__`, properties and attributes are not available on the wrapper.

    Args:
      cls: a class that can be pickled, as can be the arguments of its constructor.

    Returns:
      A class with the same constructor.

    Example:
      >>> from jax.experimental.colocated_python import colocated_python_class
      >>> @colocated_python_class
      ... class Sum:
      ...   def __init__(self):
      ...     self.total = 0
      ...   def add(self, x):
      ...     self.total += x
      ...     return self.total
      >>> values, x = Sum(), jax.device_put(2, jax.devices("cpu")[0])
      >>> print(values.add(x), values.add(x))
      2 4
    """
    if not isinstance(cls, type):
        raise TypeError(f"colocated_python_class takes a class, got {cls!r}.")
    return wrap_class(cls, fun_source_info(cls))
