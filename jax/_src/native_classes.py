"""Python methods of native classes."""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

# What a class statement adds by itself.
_NOT_MOVED = {"__dict__", "__weakref__", "__annotations__", "__qualname__", "__firstlineno__"}


def use_cpp_class(cpp_cls: type[Any]) -> Callable[[type[Any]], Any]:
    """Class decorator: moves the attributes of a class to a native class, which replaces it.

    Methods marked by `use_cpp_method` stay those of the native class, and so does its docstring if
    the class has none.
    """

    def move(cls: type[Any]) -> Any:
        for name, value in vars(cls).items():
            marked = getattr(getattr(value, "fget", value), "_use_cpp", False)
            if name in _NOT_MOVED or marked or (name == "__doc__" and value is None):
                continue
            setattr(cpp_cls, name, value)
        return cpp_cls

    return move


def use_cpp_method(is_enabled: bool = True) -> Callable[[T], T]:
    """Marks a method that `use_cpp_class` leaves to the native class."""

    def mark(method: Any) -> Any:
        if is_enabled:
            method._use_cpp = True
        return method

    return mark
