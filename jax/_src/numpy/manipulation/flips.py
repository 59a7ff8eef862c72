"""Functions that flip, rotate and roll arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import eager_jit, nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import util
from jax._src.numpy.manipulation.shape import operand, ravel, reshape
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis, canonicalize_axis_tuple


@export
@eager_jit("axis")
def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Reverses the order of elements along dimensions.

    Args:
      m: array.
      axis: dimension or dimensions; None for all.

    Returns:
      An array of the shape of `m`.

    Raises:
      ValueError: if an axis is out of range.

    >>> jnp.flip(jnp.array([[1, 2], [3, 4]]), axis=1).tolist()
    [[2, 1], [4, 3]]
    """
    m = operand("flip", m)
    return lax.rev(m, canonicalize_axis_tuple(axis, m.ndim, allow_duplicate=True))


@export
def fliplr(m: ArrayLike) -> Array:
    """Reverses the order of elements along the second dimension.

    Args:
      m: array of at least two dimensions.

    >>> jnp.fliplr(jnp.array([[1, 2], [3, 4]])).tolist()
    [[2, 1], [4, 3]]
    """
    return flip(operand("fliplr", m), 1)


@export
def flipud(m: ArrayLike) -> Array:
    """Reverses the order of elements along the first dimension.

    Args:
      m: array of at least one dimension.

    >>> jnp.flipud(jnp.array([[1, 2], [3, 4]])).tolist()
    [[3, 4], [1, 2]]
    """
    return flip(operand("flipud", m), 0)


@export
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotates an array by multiples of 90 degrees in the plane of two dimensions.

    Args:
      m: array of two or more dimensions.
      k: number of rotations, from the first of `axes` towards the second.
      axes: the two dimensions that span the plane.

    Returns:
      An array; for odd `k` the sizes of `axes` are exchanged.

    Raises:
      ValueError: if `m` has fewer than two dimensions, or the axes are equal or out of range.

    >>> jnp.rot90(jnp.array([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    m = operand("rot90", m)
    if m.ndim < 2:
        raise ValueError(
            "rot90 requires its first argument to have ndim at least two, but got first argument of "
            f"shape {m.shape}, which has ndim {m.ndim}"
        )
    i, j = (canonicalize_axis(a, m.ndim) for a in axes)
    if i == j:
        raise ValueError("Axes must be different")
    return _rot90(m, k=operator.index(k) % 4, axes=(i, j))


def _rot90(m, *, k, axes):
    i, j = axes
    if k == 0:
        return m
    if k == 2:
        return lax.rev(m, axes)
    perm = list(range(m.ndim))
    perm[i], perm[j] = j, i
    return (
        lax.transpose(lax.rev(m, (j,)), perm) if k == 1 else lax.rev(lax.transpose(m, perm), (j,))
    )


_rot90 = nested_jit(_rot90, static_argnames=("k", "axes"))


@export
@eager_jit("shift", "axis")
def roll(
    a: ArrayLike, shift: ArrayLike | Sequence[int], axis: int | Sequence[int] | None = None
) -> Array:
    """Shifts elements cyclically along dimensions.

    Args:
      a: array.
      shift: number of positions: an integer, or one per entry of `axis`. It may be traced.
        Fractions are truncated.
      axis: dimension or dimensions; None rolls the flattened array.

    Returns:
      An array of the shape of `a`.

    Raises:
      ValueError: if an axis is out of range, or the numbers of shifts and axes differ.

    >>> jnp.roll(jnp.arange(5), 2).tolist()
    [3, 4, 0, 1, 2]
    """
    a = operand("roll", a)
    shift = util.lower_jax_array(shift)
    if not isinstance(shift, (int, np.integer)):
        shift = _static_ints(tuple(shift) if isinstance(shift, list) else shift)
    if np.ndim(shift) > 1 or np.ndim(axis) > 1:
        raise ValueError("'shift' and 'axis' arguments to roll must be scalars or 1D arrays")
    if axis is None:
        shape = a.shape
        if isinstance(shift, Array):
            return reshape(_roll_by(ravel(a), shift, axes=(0,)), shape)
        if np.ndim(shift):
            shift = int(np.sum(shift))
        return reshape(_roll(ravel(a), shifts=(int(shift),), axes=(0,)), shape)
    axes = canonicalize_axis_tuple(axis, a.ndim, allow_duplicate=True)
    if isinstance(shift, Array):
        return _roll_by(a, shift, axes=axes)
    shifts, pairs = np.broadcast_arrays(np.asarray(shift), np.asarray(axes))
    return _roll(a, shifts=tuple(map(int, shifts.flat)), axes=tuple(map(int, pairs.flat)))


def _static_ints(shift: Any) -> Any:
    """Returns the shifts as a NumPy array if they are known, else as one traced array."""
    if isinstance(shift, Array):
        return shift
    if core.is_symbolic_dim(shift):
        return shift.dimension_as_value()
    if isinstance(shift, tuple) and any(
        isinstance(s, Array) or core.is_symbolic_dim(s) for s in shift
    ):
        return lax.concatenate(
            [lax.expand_dims(lax.convert_element_type(s, np.int32), (0,)) for s in shift], 0
        )
    out = np.asarray(shift)
    if out.dtype.kind not in "iub" and out.size:
        if out.dtype.kind != "f" or not np.isfinite(out).all():
            raise TypeError(f"roll requires integer shifts, got {shift}")
        out = np.trunc(out).astype(np.int64)
    return out


def _roll(a, *, shifts, axes):
    for shift, axis in zip(shifts, axes):
        n = a.shape[axis]
        k = shift % core.max_dim(n, 1)  # a symbolic size may be 0
        if k:
            parts = [
                slicing.slice_in_dim(a, n - k, n, axis=axis),
                slicing.slice_in_dim(a, 0, n - k, axis=axis),
            ]
            a = lax.concatenate(parts, axis)
    return a


_roll = nested_jit(_roll, static_argnames=("shifts", "axes"))


def _roll_by(a, shift, *, axes):
    if dtypes.issubdtype(shift.dtype, np.complexfloating) or util.is_extended(shift):
        raise TypeError(f"roll requires integer shifts, got an array of dtype {shift.dtype}")
    if shift.ndim > 1 or (shift.ndim and len(axes) not in (1, shift.shape[0])):
        if not (shift.ndim == 1 and shift.shape[0] == 1):
            raise ValueError(
                f"roll: shift of shape {shift.shape} does not fit axis={axes}: give one shift, or one for "
                "each axis"
            )
    if shift.ndim and shift.shape[0] != len(axes) and len(axes) == 1:
        axes = axes * shift.shape[0]
    if not dtypes.issubdtype(shift.dtype, np.signedinteger):
        shift = lax.convert_element_type(shift, np.int32)
    for i, axis in enumerate(axes):
        n = a.shape[axis]
        if not n:
            continue
        by = (
            shift
            if not shift.ndim
            else slicing.index_in_dim(shift, min(i, shift.shape[0] - 1), keepdims=False)
        )
        # A remainder by 0 ends the process, where a symbolic size turns out to be that.
        size = lax.const(by, core.max_dim(n, 1))
        # The shift is traced: take a slice of static size from two copies of the array.
        start = lax.rem(lax.sub(size, lax.rem(by, size)), size)
        a = slicing.dynamic_slice_in_dim(lax.concatenate([a, a], axis), start, n, axis)
    return a


_roll_by = nested_jit(_roll_by, static_argnames=("axes",))


# ---------------------------------------------------------------------------------------------------
# Copies
