"""Meshes: concrete or abstract devices on a grid with named axes."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import math
import operator
import threading
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from jax._src import config
from jax._src.lib import _jax, weakref_lru_cache

MeshAxisName = Hashable


class AxisType(enum.Enum):
    """How the sharding over a mesh axis is decided.

    - ``Auto``: by the compiler, with hints from ``with_sharding_constraint``.
    - ``Explicit``: it is part of each value's type (:func:`jax.typeof`); operations propagate it.
    - ``Manual``: by the program, which sees one shard, as in :func:`jax.shard_map`.

    Example:
      >>> import jax
      >>> jax.sharding.AxisType.Explicit
      Explicit
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self):
        return self.name


@dataclasses.dataclass(frozen=True, slots=True)
class AbstractDevice:
    """A kind of device: what an :class:`AbstractMesh` knows of its devices.

    Args:
      device_kind: as in ``jax.devices()[0].device_kind``.
      num_cores: number of cores of a TPU chip, or of multiprocessors of a GPU; None if unknown.
      platform: ``"cpu"``, ``"gpu"`` or ``"tpu"``.

    Example:
      >>> import jax
      >>> jax.sharding.AbstractDevice("cpu", None, "cpu")
      AbstractDevice(device_kind=cpu, num_cores=None, platform=cpu)
    """

    device_kind: str
    num_cores: int | None
    platform: str

    def __repr__(self):
        return f"AbstractDevice({self._repr()})"

    def _repr(self):
        return (
            f"device_kind={self.device_kind}, num_cores={self.num_cores}, platform={self.platform}"
        )


class BaseMesh:
    """Attributes common to concrete and abstract meshes."""

    axis_names: tuple[MeshAxisName, ...]
    axis_types: tuple[AxisType, ...]
    size: int

    @functools.cached_property
    def _name_to_type(self) -> Mapping[MeshAxisName, AxisType]:
        return dict(zip(self.axis_names, self.axis_types))

    def _axes_of_type(self, axis_type):
        return tuple(n for n, t in zip(self.axis_names, self.axis_types) if t is axis_type)

    @functools.cached_property
    def auto_axes(self) -> tuple[MeshAxisName, ...]:
        """Names of the axes of type Auto."""
        return self._axes_of_type(AxisType.Auto)

    @functools.cached_property
    def explicit_axes(self) -> tuple[MeshAxisName, ...]:
        """Names of the axes of type Explicit."""
        return self._axes_of_type(AxisType.Explicit)

    @functools.cached_property
    def manual_axes(self) -> tuple[MeshAxisName, ...]:
        """Names of the axes of type Manual."""
        return self._axes_of_type(AxisType.Manual)

    @functools.cached_property
    def are_all_axes_auto(self) -> bool:
        """Whether there are axes and all are of type Auto."""
        return all_axis_types_match(self.axis_types, AxisType.Auto)

    @functools.cached_property
    def are_all_axes_explicit(self) -> bool:
        """Whether there are axes and all are of type Explicit."""
        return all_axis_types_match(self.axis_types, AxisType.Explicit)

    @functools.cached_property
    def are_all_axes_manual(self) -> bool:
        """Whether there are axes and all are of type Manual."""
        return all_axis_types_match(self.axis_types, AxisType.Manual)

    @functools.cached_property
    def _are_all_axes_auto_or_manual(self) -> bool:
        return bool(self.axis_types) and AxisType.Explicit not in self.axis_types

    @functools.cached_property
    def _any_axis_auto(self) -> bool:
        return AxisType.Auto in self.axis_types

    @functools.cached_property
    def _any_axis_explicit(self) -> bool:
        return AxisType.Explicit in self.axis_types

    @functools.cached_property
    def _any_axis_manual(self) -> bool:
        return AxisType.Manual in self.axis_types

    def __setattr__(self, name, value):
        raise AttributeError(f"cannot assign to field {name!r}: a mesh is immutable")

    def __delattr__(self, name):
        raise AttributeError(f"cannot delete field {name!r}: a mesh is immutable")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


class Mesh(BaseMesh, contextlib.ContextDecorator):
    """Devices on a grid with named axes, over which arrays and computations are split.

    Args:
      devices: NumPy array of :class:`jax.Device` objects, or a nested sequence of them.
      axis_names: a name for each dimension of ``devices``.
      axis_types: an :class:`AxisType` per axis; Auto by default (:func:`jax.make_mesh`: Explicit).

    Raises:
      ValueError: the number of names or types is not the number of dimensions; a name is None or
        occurs twice.
      TypeError: an axis type is not an :class:`AxisType`.

    Meshes are interned: equal ones are the same object.

    Example:
      >>> import jax, numpy as np
      >>> mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("x", "y"))
      >>> mesh.shape["x"], mesh.size
      (1, 1)
    """

    devices: np.ndarray

    def __new__(
        cls,
        devices: np.ndarray | Sequence[_jax.Device],
        axis_names: str | Sequence[MeshAxisName],
        axis_types: tuple[AxisType, ...] | None = None,
    ):
        if not isinstance(devices, np.ndarray):
            devices = np.array(devices)
        axis_names = _normalize_axis_names(axis_names, "Mesh")
        if devices.ndim != len(axis_names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of its"
                f" second argument (`axis_names`), but got devices.ndim == {devices.ndim} and"
                f" len(axis_names) == {len(axis_names)}."
            )
        axis_types = _normalize_axis_types(axis_names, axis_types, "Mesh")
        flat = tuple(devices.flat)
        if not flat:
            return empty_concrete_mesh
        if flat != (None,):
            for d in flat:
                if not hasattr(d, "process_index"):
                    raise TypeError(
                        "Mesh requires its first argument (`devices`) to be an array of jax.Device"
                        f" objects, but it has {d!r} of type {type(d)}."
                    )
        return _intern_mesh(flat, devices.shape, axis_names, axis_types)

    def __reduce__(self):
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    @functools.cached_property
    def empty(self) -> bool:
        """Whether the mesh has no devices."""
        return self.size == 0

    @functools.cached_property
    def is_scalar(self) -> bool:
        """Whether the mesh is a single device without axes."""
        return not self.axis_names and not self.empty

    @functools.cached_property
    def axis_sizes(self) -> tuple[int, ...]:
        """The size of each axis."""
        return self.devices.shape

    @functools.cached_property
    def shape(self) -> collections.OrderedDict[MeshAxisName, int]:
        """A dictionary from axis names to sizes."""
        return collections.OrderedDict(self.shape_tuple)

    @functools.cached_property
    def shape_tuple(self) -> tuple[tuple[MeshAxisName, int], ...]:
        """Pairs of axis name and size."""
        return tuple(zip(self.axis_names, self.axis_sizes))

    @functools.cached_property
    def device_ids(self) -> np.ndarray:
        """Array of the devices' ids."""
        ids = [] if self.empty else [d.id for d in self._flat_devices_tuple]
        return np.array(ids, dtype=np.int64).reshape((0,) if self.empty else self.devices.shape)

    @functools.cached_property
    def _flat_devices_tuple(self) -> tuple[_jax.Device, ...]:
        return tuple(self.devices.flat)

    @functools.cached_property
    def _flat_devices_set(self) -> set[_jax.Device]:
        return set(self._flat_devices_tuple)

    @functools.cached_property
    def _internal_device_list(self) -> _jax.DeviceList:
        return _jax.DeviceList(self._flat_devices_tuple)

    @functools.cached_property
    def is_multi_process(self) -> bool:
        """Whether some devices belong to other processes."""
        return not self.empty and len(self.local_devices) != self.size

    @functools.cached_property
    def local_devices(self) -> list[_jax.Device]:
        """The devices of this process."""
        if self.empty:
            return []
        client = self._flat_devices_tuple[0].client
        return [d for d in self._flat_devices_tuple if d.process_index == client.process_index()]

    @functools.cached_property
    def _local_devices_set(self) -> set[_jax.Device]:
        return set(self.local_devices)

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh on this process's devices."""
        if self.empty:
            return self
        return self._local_mesh(self._flat_devices_tuple[0].client.process_index())

    def _local_mesh(self, process_index: int) -> Mesh:
        return _get_local_mesh(self, process_index)

    @functools.cached_property
    def abstract_mesh(self) -> AbstractMesh:
        """The same grid without devices."""
        if self.empty:
            return empty_abstract_mesh
        kinds = {(d.device_kind, _num_cores(d), d.platform) for d in self._flat_devices_tuple}
        device = AbstractDevice(*kinds.pop()) if len(kinds) == 1 and self.axis_names else None
        return AbstractMesh(
            self.axis_sizes, self.axis_names, self.axis_types, abstract_device=device
        )

    def update(self, devices=None, axis_names=None, axis_types=None) -> Mesh:
        """A copy with the given fields replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self):
        message = "`with mesh:` is deprecated: use `with jax.set_mesh(mesh):` instead."
        if config.disallow_mesh_context_manager.value:
            raise RuntimeError(f"{message} (jax_disallow_mesh_context_manager is set.)")
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        thread_resources.push(self)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        thread_resources.pop()
        return False

    def __str__(self):
        if self.empty:
            return "Mesh()"
        sizes = ", ".join(f"'{n}': {s}" for n, s in self.shape_tuple)
        return f"Mesh({sizes}, axis_types={_types_repr(self.axis_types)})"

    def __repr__(self):
        types = "" if self.empty else f", axis_types={_types_repr(self.axis_types)}"
        return f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names!r}{types})"


def _num_cores(device: _jax.Device) -> int | None:
    cores = getattr(device, "num_cores", None)  # of TPUs
    return getattr(device, "core_count", None) if cores is None else cores  # of absent GPUs


class AbstractMesh(BaseMesh):
    """A grid with named axes of given sizes, without particular devices.

    A function traced over an abstract mesh can be compiled for any concrete mesh of that shape.

    Args:
      axis_sizes: the size of each axis.
      axis_names: the name of each axis.
      axis_types: an :class:`AxisType` for each axis; Auto by default.
      abstract_device: an :class:`AbstractDevice`, the kind of device, if it is known.

    Raises:
      ValueError: the numbers of sizes, names and types differ, or a name occurs twice.
      TypeError: a size is not an integer, or a type is not an :class:`AxisType`.

    Meshes are interned: equal ones are the same object.

    Example:
      >>> import jax
      >>> jax.sharding.AbstractMesh((4, 2), ("x", "y"))
      AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto))
    """

    axis_sizes: tuple[int, ...]
    abstract_device: AbstractDevice | None

    def __new__(
        cls,
        axis_sizes: tuple[int, ...],
        axis_names: tuple[str, ...],
        axis_types: AxisType | tuple[AxisType, ...] | None = None,
        *,
        abstract_device=None,
    ):
        axis_names = _normalize_axis_names(axis_names, "AbstractMesh")
        try:
            axis_sizes = tuple(map(operator.index, axis_sizes))
        except TypeError as e:
            raise TypeError(
                f"axis_sizes passed to AbstractMesh must be a sequence of ints, got {axis_sizes!r}."
            ) from e
        if len(axis_sizes) != len(axis_names):
            raise ValueError(
                "Number of axis sizes should match the number of axis_names. Got"
                f" axis_sizes={axis_sizes} and axis_names={axis_names}"
            )
        axis_types = _normalize_axis_types(axis_names, axis_types, "AbstractMesh")
        return _intern_abstract_mesh(axis_sizes, axis_names, axis_types, abstract_device)

    def __reduce__(self):
        args = (self.axis_sizes, self.axis_names, self.axis_types, self.abstract_device)
        return _unpickle_abstract_mesh, args

    @functools.cached_property
    def empty(self) -> bool:
        """Whether the mesh has no axes."""
        return not self.axis_names

    @functools.cached_property
    def shape(self) -> collections.OrderedDict[MeshAxisName, int]:
        """A dictionary from axis names to sizes."""
        return collections.OrderedDict(self.shape_tuple)

    @functools.cached_property
    def shape_tuple(self) -> tuple[tuple[MeshAxisName, int], ...]:
        """Pairs of axis name and size."""
        return tuple(zip(self.axis_names, self.axis_sizes))

    @property
    def _internal_device_list(self):
        return None

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh itself."""
        return self

    def update(self, axis_sizes=None, axis_names=None, axis_types=None, **kwargs) -> AbstractMesh:
        """A copy with the given fields (also ``abstract_device``) replaced."""
        kwargs.setdefault("abstract_device", self.abstract_device)
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            **kwargs,
        )

    def update_axis_types(self, name_to_type: dict[MeshAxisName, AxisType]) -> AbstractMesh:
        """A copy with other types for the named axes."""
        types = tuple(name_to_type.get(n, t) for n, t in zip(self.axis_names, self.axis_types))
        return self.update(axis_types=types)

    @property
    def devices(self):
        """Raises ValueError: an abstract mesh has no devices."""
        raise _no_devices("devices")

    @property
    def device_ids(self):
        """Raises ValueError: an abstract mesh has no devices."""
        raise _no_devices("device_ids")

    @property
    def is_multi_process(self):
        """Raises ValueError: an abstract mesh has no devices."""
        raise _no_devices("is_multi_process")

    @property
    def local_devices(self):
        """Raises ValueError: an abstract mesh has no devices."""
        raise _no_devices("local_devices")

    @property
    def local_mesh(self):
        """Raises ValueError: an abstract mesh has no devices."""
        raise _no_devices("local_mesh")

    def __enter__(self):
        raise _no_devices("__enter__")

    def __exit__(self, exc_type, exc_value, traceback):
        raise _no_devices("__exit__")

    def __repr__(self):
        sizes = ", ".join(f"'{n}': {s}" for n, s in self.shape_tuple) if self.axis_names else "()"
        device = f", {self.abstract_device._repr()}" if self.abstract_device is not None else ""
        return f"AbstractMesh({sizes}, axis_types={_types_repr(self.axis_types)}{device})"


def _no_devices(name):
    return ValueError(
        f"AbstractMesh does not implement {name}: it has no devices. Use a concrete jax.sharding.Mesh."
    )


def _types_repr(axis_types):
    return repr(tuple(axis_types))


def _unpickle_abstract_mesh(axis_sizes, axis_names, axis_types, abstract_device):
    return AbstractMesh(axis_sizes, axis_names, axis_types, abstract_device=abstract_device)


@weakref_lru_cache.weak_value_interner
def _intern_mesh(flat, shape, axis_names, axis_types):
    devices = np.fromiter(flat, dtype=object, count=len(flat)).reshape(shape)
    devices.flags.writeable = False
    self = object.__new__(Mesh)
    size = 0 if flat == (None,) else devices.size
    vars(self).update(devices=devices, axis_names=axis_names, axis_types=axis_types, size=size)
    return self


@weakref_lru_cache.weak_value_interner
def _intern_abstract_mesh(axis_sizes, axis_names, axis_types, abstract_device):
    self = object.__new__(AbstractMesh)
    vars(self).update(
        axis_sizes=axis_sizes,
        axis_names=axis_names,
        axis_types=axis_types,
        abstract_device=abstract_device,
        size=math.prod(axis_sizes) if axis_names else 0,
    )
    return self


def _normalize_axis_names(axis_names, what) -> tuple[MeshAxisName, ...]:
    axis_names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    if None in axis_names:
        raise ValueError(f"{what} axis names cannot be None. Got: {axis_names}")
    if len(set(axis_names)) != len(axis_names):
        raise ValueError(f"{what} axis names must be different from each other. Got: {axis_names}")
    return axis_names


def _normalize_axis_types(axis_names, axis_types, what) -> tuple[AxisType, ...]:
    if axis_types is None:
        return (AxisType.Auto,) * len(axis_names)
    if isinstance(axis_types, (AxisType, dict)):
        axis_types = (axis_types,)
    axis_types = tuple(axis_types)
    if not all(isinstance(t, AxisType) for t in axis_types):
        raise TypeError(
            f"axis_types passed to {what} must be of type `jax.sharding.AxisType`. Got {axis_types}"
            f" of type {tuple(type(t) for t in axis_types)}"
        )
    if len(axis_names) != len(axis_types):
        raise ValueError(
            "Number of axis names should match the number of axis_types. Got"
            f" axis_names={axis_names} and axis_types={_types_repr(axis_types)}"
        )
    return axis_types


@functools.lru_cache(maxsize=128)
def _get_local_mesh(global_mesh: Mesh, process_index: int) -> Mesh:
    devices = global_mesh.devices
    is_local = np.array([d.process_index == process_index for d in devices.flat], dtype=bool)
    if is_local.all():
        return global_mesh
    is_local = is_local.reshape(devices.shape)
    if not is_local.any():
        raise ValueError(f"{global_mesh} has no devices of process {process_index}.")
    box = tuple(slice(i.min(), i.max() + 1) for i in is_local.nonzero())
    if not is_local[box].all():
        raise ValueError(
            f"The devices of process {process_index} do not form a contiguous box of the global mesh,"
            f" so there is no local mesh: local devices are\n{is_local}\nof\n{devices}"
        )
    return Mesh(devices[box], global_mesh.axis_names)


def all_axis_types_match(axis_types: Sequence[AxisType], ty: AxisType) -> bool:
    return bool(axis_types) and all(t is ty for t in axis_types)


def show_axes(axes: Sequence[MeshAxisName]) -> str:
    return ", ".join(f"`{a}`" for a in axes)


empty_abstract_mesh = AbstractMesh((), ())
empty_concrete_mesh = _intern_mesh((None,), (), (), ())


# The mesh in context. `set_mesh` sets both an abstract and a concrete mesh; while tracing, there
# may be only an abstract one. Both are part of the cache keys of jit and of tracing.


def get_abstract_mesh() -> AbstractMesh:
    """The abstract mesh in context: of :func:`jax.set_mesh`, ``use_abstract_mesh`` or shard_map.

    Returns:
      An :class:`AbstractMesh`; an empty one outside of any context.

    Example:
      >>> import jax
      >>> jax.sharding.get_abstract_mesh().empty
      True
    """
    mesh = config.abstract_mesh_context_manager.value
    return empty_abstract_mesh if mesh is None else mesh


def get_concrete_mesh() -> Mesh:
    """The mesh set by `set_mesh`, or an empty one."""
    mesh = config.device_context.value
    return empty_concrete_mesh if mesh is None else mesh


class use_abstract_mesh:
    """Context manager: sets the abstract mesh while tracing.

    Args:
      mesh: an :class:`AbstractMesh`.

    Raises:
      ValueError: ``mesh`` is not an AbstractMesh, or its size differs from that of the mesh in
        context.

    Example:
      >>> import jax
      >>> mesh = jax.sharding.AbstractMesh((2,), ("x",))
      >>> with jax.sharding.use_abstract_mesh(mesh):
      ...   print(jax.sharding.get_abstract_mesh())
      AbstractMesh('x': 2, axis_types=(Auto,))
    """

    __slots__ = ("mesh", "prev")

    def __init__(self, mesh: AbstractMesh):
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(
                f"Expected mesh of type `jax.sharding.AbstractMesh`. Got type: {type(mesh)}"
            )
        self.mesh = mesh

    def __enter__(self):
        prev = get_abstract_mesh()
        if not self.mesh.empty and not prev.empty and self.mesh.size != prev.size:
            raise ValueError(
                "use_abstract_mesh cannot change the size of the mesh. Got new mesh:"
                f" {self.mesh} with size={self.mesh.size} and prev mesh: {prev} with"
                f" size={prev.size}"
            )
        self.prev = swap_abstract_mesh(self.mesh)

    def __exit__(self, exc_type, exc_value, traceback):
        config.abstract_mesh_context_manager.set_local(self.prev)


def swap_abstract_mesh(mesh: AbstractMesh) -> Any:
    """Set the abstract mesh of this thread; `set_local` with the returned value restores it."""
    return config.abstract_mesh_context_manager.swap_local(None if mesh.empty else mesh)


def swap_concrete_mesh(mesh: Mesh) -> Any:
    """Set the concrete mesh of this thread; `set_local` with the returned value restores it."""
    return config.device_context.swap_local(None if mesh.empty else mesh)


class ResourceEnv(collections.namedtuple("ResourceEnv", ["physical_mesh"])):
    """The mesh of the innermost ``with mesh:``."""

    __slots__ = ()

    @property
    def empty(self) -> bool:
        return self.physical_mesh.empty

    @property
    def devices(self):
        return self.physical_mesh.devices

    def with_mesh(self, mesh: Mesh) -> ResourceEnv:
        return self._replace(physical_mesh=mesh)

    def __repr__(self):
        mesh = self.physical_mesh
        shape = ", ".join(f"{n!r}: {s}" for n, s in mesh.shape_tuple)
        return f"ResourceEnv(mesh=Mesh({shape}))"


EMPTY_ENV = ResourceEnv(empty_concrete_mesh)


class _ThreadResourcesLocalState(threading.local):
    def __init__(self):
        self.stack = [EMPTY_ENV]
        self.env = EMPTY_ENV

    def push(self, mesh):
        self.stack.append(ResourceEnv(mesh))
        self._changed()

    def pop(self):
        self.stack.pop()
        self._changed()

    def _changed(self):
        self.env = self.stack[-1]
        meshes = tuple(env.physical_mesh for env in self.stack[1:] if not env.empty)
        config.mesh_context_manager.set_local(meshes or config.unset)


thread_resources = _ThreadResourcesLocalState()

for _cls in (AxisType, AbstractDevice, Mesh, AbstractMesh, use_abstract_mesh):
    _cls.__module__ = "jax.sharding"
