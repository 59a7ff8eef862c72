"""Module attributes that warn when they are read, and behaviour that can become an error."""

from __future__ import annotations

import dataclasses
import warnings
from types import ModuleType
from typing import Any


def deprecation_getattr(module: str, deprecations: dict[str, tuple[str, Any]]) -> Any:
    """Makes the `__getattr__` of a module with deprecated or removed names.

    Args:
      module: the module's name.
      deprecations: for each name, the message and the value, or None if the name is removed. A
        function as the value is returned, not called.

    Example:
      >>> __getattr__ = deprecation_getattr("jax.old", {"one": ("jax.old.one is 1: write 1.", 1)})
      >>> import warnings
      >>> with warnings.catch_warnings(record=True):
      ...   __getattr__("one")
      1
    """

    def __getattr__(name: str) -> Any:
        if name in deprecations:
            message, value = deprecations[name]
            if value is None:
                raise AttributeError(message)
            if is_accelerated(_attribute_id(module, name)):
                raise AttributeError(message)
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return value
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    for name in deprecations:
        register(_attribute_id(module, name), exist_ok=True)
    return __getattr__


def _attribute_id(module: str, name: str) -> str:
    return f"{module}.{name}".replace(".", "-")


def accelerate_getattr_deprecation(module: ModuleType, name: str) -> None:
    """Makes reading the deprecated name an error."""
    accelerate(_attribute_id(module.__name__, name))


@dataclasses.dataclass(slots=True)
class DeprecationState:
    accelerated: bool = False


_registered_deprecations: dict[str, DeprecationState] = {}


def register(deprecation_id: str, exist_ok: bool = False) -> None:
    """Registers a deprecated behaviour, of which `warn` warns until it is accelerated."""
    if deprecation_id in _registered_deprecations and not exist_ok:
        raise ValueError(f"deprecation {deprecation_id!r} is already registered")
    _registered_deprecations[deprecation_id] = DeprecationState()


def unregister(deprecation_id: str) -> None:
    _state(deprecation_id)
    del _registered_deprecations[deprecation_id]


def accelerate(deprecation_id: str) -> None:
    """Turns the warning into an error, to test code against the planned removal."""
    _state(deprecation_id).accelerated = True


def is_accelerated(deprecation_id: str) -> bool:
    return _state(deprecation_id).accelerated


def warn(
    deprecation_id: str,
    message: str,
    stacklevel: int,
    *,
    error_class: type[Exception] = ValueError,
) -> None:
    """Warns of the behaviour, or raises `error_class` if it is accelerated.

    Args:
      stacklevel: 1 for the caller of `warn`, 2 for its caller, …
    """
    if is_accelerated(deprecation_id):
        raise error_class(message)
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel + 1)


def _state(deprecation_id: str) -> DeprecationState:
    try:
        return _registered_deprecations[deprecation_id]
    except KeyError:
        raise ValueError(f"deprecation {deprecation_id!r} is not registered") from None
