"""Argument conversion and checks for the functions of `jax.numpy.linalg`."""

from __future__ import annotations

from typing import Any

from jax._src.numpy import util
from jax._src.util import set_module

export = set_module("jax.numpy.linalg")


def inexact(name: str, *args: Any) -> Any:
    """Promotes the arguments to floating-point or complex arrays of one dtype."""
    arrays = util.ensure_arraylike(f"jnp.linalg.{name}", *args)
    if len(args) == 1:
        return util.promote_dtypes_inexact(arrays)[0]
    return util.promote_dtypes_inexact(*arrays)


def check_square(name: str, a: Any) -> None:
    """Raises a ValueError unless `a` has shape (..., n, n)."""
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Argument to {name}() must have shape [..., n, n], got {a.shape}")


def check_matrix(name: str, a: Any) -> None:
    """Raises a ValueError unless `a` has at least two dimensions."""
    if a.ndim < 2:
        raise ValueError(
            f"jnp.linalg.{name}: input array must be at least 2D; got arr.shape={a.shape}"
        )
