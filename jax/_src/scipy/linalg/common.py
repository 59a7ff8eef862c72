"""Argument conversion and checks for the functions of `jax.scipy.linalg`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.numpy.array_constructors import asarray
from jax._src.util import set_module

export = set_module("jax.scipy.linalg")


def inexact(*args: Any) -> Any:
    """Converts arguments, lists included, to floating-point or complex arrays of one dtype."""
    arrays = util.promote_dtypes_inexact(*map(asarray, args))
    return arrays[0] if len(args) == 1 else arrays


def check_square(name: str, a: Any) -> None:
    """Raises a ValueError unless `a` has shape (..., n, n)."""
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(
            f"jax.scipy.linalg.{name} takes square matrices (..., n, n), got shape {a.shape}"
        )


def solve_batches(
    name: str,
    solve: Callable[..., Any],
    matrices: tuple[Any, ...],
    ranks: tuple[int, ...],
    b: Any,
    vectors: bool = True,
) -> Any:
    """Calls `solve(*matrices, b)` after broadcasting the batch dimensions; `b` becomes matrices.

    Args:
      name: name of the function, for errors.
      solve: function of arrays of equal batch shape.
      matrices: arrays that describe the linear system; the first has shape (..., n, n).
      ranks: the rank of each of `matrices` without batch dimensions.
      b: right-hand side of shape (n,) or (..., n, k).
      vectors: whether `b` may also have shape (..., n), which is deprecated, with as many batch
        dimensions as the matrix.
    """
    a = matrices[0]
    vector = b.ndim == 1
    if vectors and not vector and b.ndim == a.ndim - 1 and b.shape[-1] == a.shape[-1]:
        util.user_warning(
            f"jax.scipy.linalg.{name}: batched 1D solves with b.ndim > 1 are deprecated, and in the future "
            f"will be treated as a batched 2D solve. Use {name}(a, b[..., None])[..., 0] to keep the "
            "present behavior.",
            FutureWarning,
        )
        vector = True
    if vector:
        b = lax.expand_dims(b, (b.ndim,))
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise ValueError(
            f"jax.scipy.linalg.{name}: b must have shape ({a.shape[-1]},) or (..., {a.shape[-1]}, k) for "
            f"matrices of shape {a.shape}, got {b.shape[:-1] if vector else b.shape}. Pass a batch of vectors as "
            "b[..., None]."
        )
    lead = lax.broadcast_shapes(
        b.shape[:-2], *[m.shape[: m.ndim - r] for m, r in zip(matrices, ranks)]
    )
    full = [util.broadcast_to(m, (*lead, *m.shape[m.ndim - r :])) for m, r in zip(matrices, ranks)]
    x = solve(*full, util.broadcast_to(b, (*lead, *b.shape[-2:])))
    return lax.squeeze(x, (x.ndim - 1,)) if vector else x
