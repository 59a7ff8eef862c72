"""Objects that live beside devices: their methods run there."""

from __future__ import annotations

import inspect
import random
import threading
import weakref
from typing import Any

from jax._src.colocated_python import func, obj_backend
from jax._src.core.jaxpr import fun_source_info
from jax._src.lib import DeviceList
from jax._src.traceback_util import register_exclusion
from jax._src.tree_util import tree_leaves

register_exclusion(__file__)


class _InstanceRegistry:
    """The devices beside which each object exists."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._devices: dict[int, set[Any]] = {}

    def new_instance(self) -> int:
        """Return a new identifier."""
        uid = random.getrandbits(63)
        with self._lock:
            self._devices[uid] = set()
        return uid

    def update_devices(self, uid: int, device_set: set[Any]) -> None:
        """Add devices to those of an object."""
        with self._lock:
            self._devices[uid] |= device_set

    def pop_instance(self, uid: int) -> set[Any]:
        """Forget an object; return its devices."""
        with self._lock:
            return self._devices.pop(uid)


SINGLETON_INSTANCE_REGISTRY = _InstanceRegistry()


class _Instance:
    """An object for this process: it exists as long as its wrapper or a method of it."""

    def __init__(self) -> None:
        self.uid = SINGLETON_INSTANCE_REGISTRY.new_instance()
        weakref.finalize(self, _destroy, self.uid).atexit = False


class _Method:
    """A method of a colocated object, with the attributes of a colocated function."""

    def __init__(self, call: Any, instance: _Instance, devices: Any = None):
        self._call = call
        self._instance = instance
        self._devices = devices
        self.__name__ = call.__name__
        self.__qualname__ = call.__qualname__
        self.__doc__ = call.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = set() if self._devices is None else set(self._devices)
        for leaf in tree_leaves((args, kwargs)):
            sharding = getattr(leaf, "sharding", None)
            found |= getattr(sharding, "device_set", set())
        SINGLETON_INSTANCE_REGISTRY.update_devices(self._instance.uid, found)
        return self._call(*args, **kwargs)

    def specialize(
        self, in_specs: Any = None, out_specs_fn: Any = None, devices: Any = None
    ) -> _Method:
        """Return the method with more known about its calls; see `colocated_python`."""
        call = self._call.specialize(in_specs, out_specs_fn, devices)
        devices = self._devices if devices is None else tuple(devices)
        return _Method(call, self._instance, devices)


def _make_method(
    cls: type[object], cls_sourceinfo: str | None, instance: _Instance, init_args: tuple,
    init_kwargs: dict[str, Any], name: str,
) -> _Method:  # fmt: skip
    """Make a function that calls a method where the object is, after making the object there."""
    original = getattr(cls, name)
    is_static = isinstance(inspect.getattr_static(cls, name), staticmethod)
    uid = instance.uid  # what is pickled must not keep the instance alive

    def initialize() -> Any:
        return cls(*init_args, **init_kwargs)

    def method(*args: Any, **kwargs: Any) -> Any:
        obj = obj_backend.SINGLETON_OBJECT_STORE.get_or_create(uid, initialize)
        return original(*args, **kwargs) if is_static else original(obj, *args, **kwargs)

    method.__name__ = original.__name__
    method.__qualname__ = original.__qualname__
    method.__doc__ = original.__doc__
    source = f"{fun_source_info(original)} (a method of {cls_sourceinfo or cls.__qualname__})"
    return _Method(func.make_callable(method, source, None), instance)


def wrap_class(cls: type[object], cls_sourceinfo: str | None) -> type[object]:
    """Make a class whose objects live beside devices; see `colocated_python_class`."""
    names = [
        name
        for name, _ in inspect.getmembers(cls, inspect.isfunction)
        if not (name.startswith("__") and name.endswith("__"))
    ]

    class WrappedClass:
        def __init__(self, *init_args: Any, **init_kwargs: Any) -> None:
            instance = _Instance()
            self._colocated_python_uid = instance.uid
            for name in names:
                method = _make_method(cls, cls_sourceinfo, instance, init_args, init_kwargs, name)
                setattr(self, name, method)

    WrappedClass.__name__ = cls.__name__
    WrappedClass.__qualname__ = cls.__qualname__
    WrappedClass.__doc__ = cls.__doc__
    WrappedClass.__module__ = cls.__module__
    return WrappedClass


def _destroy(uid: int) -> None:
    """Drop an object wherever it exists."""
    devices = SINGLETON_INSTANCE_REGISTRY.pop_instance(uid)
    if not devices:
        return

    def remove() -> None:
        obj_backend.SINGLETON_OBJECT_STORE.remove(uid)

    ordered = DeviceList(tuple(sorted(devices, key=lambda d: d.id)))
    call: Any = func.make_callable(remove, None, None)
    call.specialize(out_specs_fn=lambda: None, devices=ordered)()
