"""What `jax.numpy` supports of the Python array API standard."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import config, dtypes
from jax._src.lib import xla_client as xc
from jax._src.sharding import Sharding
from jax._src.xla_bridge import devices

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_ALL = _KINDS["bool"] + _KINDS["numeric"]
_ONLY_64_BITS = frozenset({"int64", "uint64", "float64", "complex128"})


def _check_device(method: str, device: Any) -> None:
    if device is not None and not isinstance(device, (xc.Device, Sharding)):
        raise TypeError(
            f"{method}: device must be a jax.Device, a jax.sharding.Sharding or None, got {device!r}."
        )


class ArrayNamespaceInfo:
    """Metadata of the namespace `jax.numpy`: the class of `jax.numpy.__array_namespace_info__()`.

    >>> info = jnp.__array_namespace_info__()
    >>> sorted(info.dtypes(kind="complex floating"))
    ['complex64']
    """

    def capabilities(self) -> dict[str, Any]:
        """Which optional features work, within compiled functions also, and the largest rank."""
        return {
            "boolean indexing": False,
            "data-dependent shapes": False,
            "max dimensions": 64,
        }

    def default_device(self) -> None:
        """Returns None: arrays are on no particular device until one is asked for."""
        return None

    def devices(self) -> list[Any]:
        """What functions accept as `device`: None and the devices of the default backend."""
        return [None, *devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """Returns the dtypes of arrays that are made without one, by kind.

        Args:
          device: a device, a sharding or None; the dtypes are the same on all.
        """
        _check_device("default_dtypes", device)
        integer = dtypes.canonicalize_dtype(dtypes.default_int_dtype())
        return {
            "real floating": dtypes.canonicalize_dtype(dtypes.default_float_dtype()),
            "complex floating": dtypes.canonicalize_dtype(dtypes.default_complex_dtype()),
            "integral": integer,
            "indexing": integer,
        }

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, Any]:
        """Returns the standard's dtypes by name, those of 64 bits only if they are enabled.

        Args:
          device: a device, a sharding or None; the dtypes are the same on all.
          kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex
            floating", "numeric", or a tuple of them; None for all.

        Raises:
          ValueError: if a kind is unknown.
        """
        _check_device("dtypes", device)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        for k in kinds:
            if not (k is None and kind is None or isinstance(k, str) and k in _KINDS):
                known = ", ".join(map(repr, _KINDS))
                raise ValueError(f"dtypes: unknown kind {k!r}; the kinds are {known}, and tuples.")
        names = _ALL if kind is None else {name for k in kinds for name in _KINDS[k]}
        enabled = config.enable_x64.value
        return {n: np.dtype(n) for n in _ALL if n in names and (enabled or n not in _ONLY_64_BITS)}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Returns what this namespace supports of the Python array API standard.

    >>> jnp.__array_namespace_info__().capabilities()["max dimensions"]
    64
    """
    return ArrayNamespaceInfo()


__array_namespace_info__.__module__ = "jax.numpy"
