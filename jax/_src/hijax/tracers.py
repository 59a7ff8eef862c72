"""Operators and attributes of tracers of high types, which their types define.

An operator, such as `x + y`, is the method `_add(tracer, y)` of the type of `x`; any other attribute is
that of the type, with `aval_method` and `aval_property` for methods and properties of values.
Importing this module installs them: until then, no tracer looks whether its type is a high one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jax._src.core import AbstractRef, Tracer

_OPERATORS = """
    neg pos abs invert eq ne lt le gt ge add radd sub rsub mul rmul truediv rtruediv floordiv
    rfloordiv divmod rdivmod mod rmod pow rpow matmul rmatmul and rand or ror xor rxor lshift rlshift
    rshift rrshift getitem setitem len iter reversed contains bool int float complex index hex oct
    round
""".split()

_ATTRIBUTES = """
    shape dtype ndim size weak_type sharding device nbytes itemsize T mT at real imag flat all any
    argmax argmin argpartition argsort astype byteswap choose clip compress conj conjugate copy cumprod
    cumsum diagonal dot flatten item max mean min nonzero prod ptp ravel repeat reshape round
    searchsorted sort squeeze std sum swapaxes take to_device trace transpose var view get set swap
    addupdate
""".split()


def _is_high(aval: Any) -> bool:
    return aval.is_high and type(aval) is not AbstractRef


def _operator(name: str, of_array: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(of_array)
    def call(self: Any, *args: Any) -> Any:
        aval = self.aval
        if not _is_high(aval):
            return of_array(self, *args)
        method = getattr(aval, f"_{name}", None)
        if method is None:
            raise TypeError(
                f"values of type {aval} have no operator `__{name}__`: their type may define it as the"
                f" method `_{name}(tracer, ...)`."
            )
        return method(self, *args)

    return call


class _Attribute:
    """A descriptor: the attribute of arrays, or that which a high type defines."""

    def __init__(self, name: str, of_array: Any):
        self.name, self.of_array = name, of_array
        self.__doc__ = of_array.__doc__

    def __get__(self, tracer: Any, owner: Any = None) -> Any:
        if tracer is None:
            return self.of_array
        if _is_high(tracer.aval):
            return tracer.__getattr__(self.name)
        return self.of_array.__get__(tracer, owner)


def _install() -> None:
    for name in _OPERATORS:
        of_array = getattr(Tracer, f"__{name}__", None)
        if of_array is not None:
            setattr(Tracer, f"__{name}__", _operator(name, of_array))
    for name in _ATTRIBUTES:
        if name in vars(Tracer):
            setattr(Tracer, name, _Attribute(name, vars(Tracer)[name]))


_install()
