"""Rotations of space: the implementation of `jax.scipy.spatial.transform`.

All functions take rotations in batches: quaternions are the last axis of an array.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.numpy.array_constructors import asarray
from jax._src.numpy.linalg import eigh
from jax._src.numpy.manipulation.joining import concatenate, stack
from jax._src.numpy.searching import searchsorted
from jax._src.numpy.selecting import clip
from jax._src.random.continuous import normal
from jax._src.typing import ArrayLike
from jax._src.util import set_module

export = set_module("jax.scipy.spatial.transform")

# ---------------------------------------------------------------------------------------------------
# Public classes


@export
class Rotation(NamedTuple):
    """Rotations in three dimensions: one, or a sequence of them.

    It is made by a function `from_...`, and is a tree of arrays: functions that are compiled, differentiated or
    batched take and return it. `len`, indices and slices work as for sequences, `r * s` first rotates by `s`, then by
    `r`; the product of one rotation and a sequence is a sequence.

    Attributes:
      quat: unit quaternions in the order x, y, z, w, of shape (4,) or (n, 4).

    >>> from jax.scipy.spatial.transform import Rotation
    >>> turn = Rotation.from_euler("z", 90.0, degrees=True)
    >>> bool(jnp.allclose(turn.apply(jnp.array([1.0, 0.0, 0.0])), jnp.array([0.0, 1.0, 0.0]), atol=1e-6))
    True
    >>> bool(jnp.allclose((turn * turn).magnitude(), jnp.pi))
    True
    """

    quat: Array

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """Rotations by quaternions x, y, z, w, of shape (4,) or (n, 4), which are normalized."""
        return cls(_normalized(_numbers("from_quat", quat, 4)))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """Rotations by orthogonal matrices, of shape (3, 3) or (n, 3, 3)."""
        matrix = _numbers("from_matrix", matrix, 3)
        if matrix.ndim < 2 or matrix.shape[-2] != 3:
            raise ValueError(
                f"Rotation.from_matrix: matrices must have shape (..., 3, 3), got {matrix.shape}."
            )
        return cls(_normalized(_quaternion_of_matrix(matrix)))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations around vectors of shape (3,) or (n, 3), by angles that are the vectors' lengths."""
        rotvec = _numbers("from_rotvec", rotvec, 3)
        return cls(_quaternion_of_vector(_radians(rotvec) if degrees else rotvec))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Rotations by modified Rodrigues parameters, of shape (3,) or (n, 3)."""
        mrp = _numbers("from_mrp", mrp, 3)
        square = (mrp * mrp).sum(axis=-1, keepdims=True)
        return cls(concatenate([2 * mrp, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations around one to three axes, one after the other.

        Args:
          seq: names of axes: "x", "y", "z" for axes that do not turn (extrinsic), "X", "Y", "Z" for those that turn
            with the object (intrinsic).
          angles: array of shape (len(seq),) or (n, len(seq)); for one axis also a number or a vector of n angles.
          degrees: whether angles are in degrees.
        """
        axes, intrinsic = _axes("from_euler", seq)
        angles = _numbers("from_euler", angles)
        if len(axes) == 1 and (not angles.ndim or (angles.ndim == 1 and angles.shape[0] != 1)):
            angles = angles[..., None]
        if not angles.ndim or angles.shape[-1] != len(axes):
            raise ValueError(
                f"Rotation.from_euler: for seq={seq!r} angles must have shape (..., {len(axes)}), got {angles.shape}."
            )
        angles = _radians(angles) if degrees else angles
        out = None
        for i, axis in enumerate(axes):
            half = angles[..., i] / 2
            parts = [lax.full_like(half, 0)] * 3 + [lax.cos(half)]
            parts[axis] = lax.sin(half)
            turn = stack(parts, axis=-1)
            out = turn if out is None else _product(*((out, turn) if intrinsic else (turn, out)))
        return cls(out)

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """One rotation by nothing, or `num` of them."""
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "Rotation.identity")
        quat = asarray(np.array([0, 0, 0, 1]), dtype)
        return cls(quat if num is None else util.broadcast_to(quat, (operator.index(num), 4)))

    @classmethod
    def random(cls, random_key: Array, num: int | None = None) -> Rotation:
        """One uniformly distributed random rotation, or `num` of them."""
        shape = (4,) if num is None else (operator.index(num), 4)
        return cls(_normalized(normal(random_key, shape)))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """The sequence of all rotations of a list, of which each is one or a sequence."""
        if not rotations:
            raise ValueError("Rotation.concatenate: there are no rotations.")
        for r in rotations:
            if not isinstance(r, Rotation):
                raise TypeError(
                    f"Rotation.concatenate takes a list of rotations, got {type(r).__name__} in it."
                )
        return cls(concatenate([r.quat[None] if r.single else r.quat for r in rotations]))

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not a sequence."""
        return self.quat.ndim == 1

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, indexer: Any) -> Rotation:  # type: ignore[override]
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __mul__(self, other: Rotation) -> Rotation:  # type: ignore[override]
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation(_normalized(_product(self.quat, other.quat)))

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """Rotates vectors of shape (3,) or (n, 3), or rotates them back if `inverse`.

        One vector and n rotations, one rotation and n vectors, or n of both give n vectors.
        """
        vectors = _numbers("apply", vectors, 3)
        axis, w = self.quat[..., :3], self.quat[..., 3:]
        if inverse:
            axis = -axis
        try:
            lax.broadcast_shapes(vectors.shape[:-1], axis.shape[:-1])
        except (TypeError, ValueError):
            raise ValueError(
                f"Rotation.apply: vectors of shape {vectors.shape} and {len(self)} rotations must be equally many, "
                "or one of them."
            ) from None
        turned = 2 * _cross(axis, vectors)
        return vectors + w * turned + _cross(axis, turned)

    def inv(self) -> Rotation:
        """The inverse rotations."""
        return Rotation(self.quat * np.array([-1, -1, -1, 1], self.quat.dtype))

    def magnitude(self) -> Array:
        """The angles of the rotations, between 0 and pi."""
        return 2 * lax.atan2(_length(self.quat[..., :3])[..., 0], abs(self.quat[..., 3]))

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation of least weighted sum of squared distances, measured by matrices.

        F. L. Markley et al., "Averaging quaternions" (2007): an eigenvector of the sum of the quaternions' products.
        """
        quat = self.quat.reshape(-1, 4)
        weights = lax.full(quat.shape[:1], 1, quat.dtype) if weights is None else asarray(weights)
        if weights.shape != quat.shape[:1]:
            raise ValueError(
                f"Rotation.mean: weights must have shape {quat.shape[:1]}, got {weights.shape}."
            )
        products = (weights[:, None, None] * quat[:, :, None] * quat[:, None, :]).sum(axis=0)
        _, vectors = eigh(products)
        return Rotation(vectors[:, -1])

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """The quaternions x, y, z, w.

        Args:
          canonical: whether to choose, of both quaternions of a rotation, the one whose w is positive. If w is zero,
            the first element that is not zero is positive.
          scalar_first: whether to put w first.
        """
        quat = _canonical(self.quat) if canonical else self.quat
        return concatenate([quat[..., 3:], quat[..., :3]], axis=-1) if scalar_first else quat

    def as_matrix(self) -> Array:
        """The matrices, of shape (3, 3) or (n, 3, 3)."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return stack([stack(row, axis=-1) for row in rows], axis=-2)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors along the axes, whose lengths are the angles; see `from_rotvec`."""
        vector = _vector_of_quaternion(self.quat)
        return vector * np.array(180 / np.pi, vector.dtype) if degrees else vector

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters, of length at most 1."""
        quat = _nonnegative(self.quat)
        return quat[..., :3] / (1 + quat[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles of rotations around three axes, of shape (3,) or (n, 3); see `from_euler`.

        E. Bernardes and S. Viollet, "Quaternion to Euler angles conversion" (2022). Where the first and the third
        axis coincide (gimbal lock), the third angle is zero.
        """
        axes, intrinsic = _axes("as_euler", seq)
        if len(axes) != 3:
            raise ValueError(f"Rotation.as_euler: seq must name three axes, got {seq!r}.")
        angles = _euler_angles(self.quat, axes, intrinsic)
        return angles * np.array(180 / np.pi, angles.dtype) if degrees else angles


@export
class Slerp(NamedTuple):
    """Interpolates rotations along the shortest turns between them.

    It is made by `Slerp.init`, and called with times.

    Attributes:
      times: vector of n times of the rotations.
      timedelta: the n - 1 differences of times.
      rotations: the first n - 1 rotations.
      rotvecs: the turns between rotations, as vectors of shape (n - 1, 3).

    >>> from jax.scipy.spatial.transform import Rotation, Slerp
    >>> ends = Rotation.from_euler("z", jnp.array([[0.0], [90.0]]), degrees=True)
    >>> middle = Slerp.init(jnp.array([0.0, 1.0]), ends)(0.5)
    >>> bool(jnp.allclose(middle.magnitude(), jnp.pi / 4))
    True
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """Makes an interpolation.

        Args:
          times: vector of n >= 2 ascending times.
          rotations: sequence of n rotations.

        Raises:
          TypeError: if `rotations` is not a `Rotation`.
          ValueError: if there are fewer than two, or not as many times; or if times that are known are not ascending.
        """
        if not isinstance(rotations, Rotation):
            raise TypeError(
                f"Slerp.init: rotations must be a Rotation, got {type(rotations).__name__}."
            )
        if rotations.single or len(rotations) < 2:
            raise ValueError("Slerp.init: rotations must be a sequence of at least 2 rotations.")
        times = asarray(times, rotations.quat.dtype)
        if times.shape != (len(rotations),):
            raise ValueError(
                f"Slerp.init: times must be a vector with one element for each of {len(rotations)} rotations, got "
                f"shape {times.shape}."
            )
        steps = times[1:] - times[:-1]
        if not isinstance(steps, core.Tracer) and not np.all(np.asarray(steps) > 0):
            raise ValueError("Slerp.init: times must be strictly ascending.")
        first = rotations[:-1]
        return cls(times, steps, first, (first.inv() * rotations[1:]).as_rotvec())

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotation at a time, or the rotations at a vector of times.

        The first and the last turn are continued before the first and after the last time, for which
        SciPy raises an error.

        Raises:
          ValueError: if `times` is not a number or a vector.
        """
        times = asarray(times, self.times.dtype)
        if times.ndim > 1:
            raise ValueError(f"Slerp: times must be a number or a vector, got shape {times.shape}.")
        i = clip(searchsorted(self.times, times) - 1, 0, self.timedelta.shape[0] - 1)
        part = (times - self.times[i]) / self.timedelta[i]
        turn = Rotation.from_rotvec(self.rotvecs[i] * part[..., None])
        return Rotation(self.rotations.quat[i]) * turn


# ---------------------------------------------------------------------------------------------------
# Computations


def _numbers(name: str, x: Any, size: int | None = None) -> Array:
    """An array of floating-point numbers, with `size` elements along the last axis."""
    (x,) = util.promote_dtypes_inexact(asarray(x))
    if size is not None and (not x.ndim or x.shape[-1] != size):
        raise ValueError(
            f"Rotation.{name}: the last axis must have {size} elements, got shape {x.shape}."
        )
    return x


def _radians(x: Array) -> Array:
    return x * np.array(np.pi / 180, x.dtype)


def _axes(name: str, seq: Any) -> tuple[list[int], bool]:
    """Numbers of axes, and whether they turn with the object."""
    if not isinstance(seq, str) or not 1 <= len(seq) <= 3:
        raise ValueError(f"Rotation.{name}: seq must be a string of 1 to 3 axes, got {seq!r}.")
    intrinsic = seq.isupper()
    names = "XYZ" if intrinsic else "xyz"
    if any(axis not in names for axis in seq):
        raise ValueError(
            f"Rotation.{name}: axes in seq must be from 'x', 'y', 'z' or from 'X', 'Y', 'Z', got {seq!r}."
        )
    if any(a == b for a, b in zip(seq, seq[1:])):
        raise ValueError(f"Rotation.{name}: consecutive axes in seq must differ, got {seq!r}.")
    return [names.index(axis) for axis in seq], intrinsic


def _length(x: Array) -> Array:
    """Lengths along the last axis, whose derivative at zero is zero."""
    square = (x * x).sum(axis=-1, keepdims=True)
    zero = square == 0
    root = lax.sqrt(util.select_where(zero, lax.full_like(square, 1), square))
    return util.select_where(zero, lax.full_like(root, 0), root)


def _normalized(quat: Array) -> Array:
    return quat / lax.sqrt((quat * quat).sum(axis=-1, keepdims=True))


def _nonnegative(quat: Array) -> Array:
    """Of both quaternions of a rotation the one whose w is not negative."""
    return util.select_where(quat[..., 3:] < 0, -quat, quat)


def _canonical(quat: Array) -> Array:
    sign = lax.sign(quat)
    first = sign[..., 3]
    for i in range(3):
        first = util.select_where(first == 0, sign[..., i], first)
    return util.select_where((first < 0)[..., None], -quat, quat)


def _cross(a: Array, b: Array) -> Array:
    parts = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return stack(parts, axis=-1)


def _product(p: Array, q: Array) -> Array:
    """The quaternion of the rotation by `q` and then by `p`."""
    p, q = util.promote_dtypes(p, q)
    first, second, v, w = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    vector = v * second + w * first + _cross(first, second)
    return concatenate([vector, v * w - (first * second).sum(axis=-1, keepdims=True)], axis=-1)


def _quaternion_of_matrix(m: Array) -> Array:
    """S. W. Shepperd, "Quaternion from rotation matrix" (1978): divides by the largest element only."""
    diagonal = [m[..., i, i] for i in range(3)]
    trace = sum(diagonal[1:], start=diagonal[0])
    out = stack(
        [m[..., k, j] - m[..., j, k] for j, k in ((1, 2), (2, 0), (0, 1))] + [1 + trace], axis=-1
    )
    largest = trace[..., None]
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        parts = [trace] * 4
        parts[i] = 1 - trace + 2 * m[..., i, i]
        parts[j] = m[..., j, i] + m[..., i, j]
        parts[k] = m[..., k, i] + m[..., i, k]
        parts[3] = m[..., k, j] - m[..., j, k]
        here = diagonal[i][..., None]
        out = util.select_where(here > largest, stack(parts, axis=-1), out)
        largest = lax.max(here, largest)
    return out


def _quaternion_of_vector(v: Array) -> Array:
    square = (v * v).sum(axis=-1, keepdims=True)
    small = square < 1e-3
    half = lax.sqrt(util.select_where(small, lax.full_like(square, 1), square)) / 2
    # Series in the square, which have derivatives at zero
    sine = 0.5 - square / 48 + square**2 / 3840 - square**3 / 645120
    cosine = 1 - square / 8 + square**2 / 384 - square**3 / 46080
    sine = util.select_where(small, sine, lax.sin(half) / (2 * half))
    cosine = util.select_where(small, cosine, lax.cos(half))
    return concatenate([v * sine, cosine], axis=-1)


def _vector_of_quaternion(quat: Array) -> Array:
    quat = _nonnegative(quat)
    v, w = quat[..., :3], quat[..., 3:]
    square = (v * v).sum(axis=-1, keepdims=True)
    small = square < 1e-5
    sine = lax.sqrt(util.select_where(small, lax.full_like(square, 1), square))
    # Twice the inverse sine of the root, divided by it
    series = 2 + square / 3 + 3 * square**2 / 20 + 5 * square**3 / 56
    return v * util.select_where(small, series, 2 * lax.atan2(sine, w) / sine)


def _euler_angles(quat: Array, axes: list[int], intrinsic: bool) -> Array:
    i, j, k = axes[::-1] if intrinsic else axes
    symmetric = i == k
    if symmetric:
        k = 3 - i - j
    sign = (i - j) * (j - k) * (k - i) // 2
    q = [quat[..., n] for n in range(4)]
    if symmetric:
        a, b, c, d = q[3], q[i], q[j], q[k] * sign
    else:
        a, b, c, d = q[3] - q[j], q[i] + q[k] * sign, q[j] + q[3], q[k] * sign - q[i]
    hypotenuse = lambda x, y: _length(stack([x, y], axis=-1))[..., 0]
    middle = 2 * lax.atan2(hypotenuse(c, d), hypotenuse(a, b))
    tolerance = max(1e-7, 4 * float(dtypes.finfo(quat.dtype).eps))
    low, high = abs(middle) <= tolerance, abs(middle - np.pi) <= tolerance
    half_sum, half_difference = lax.atan2(b, a), lax.atan2(d, c)
    first, third = half_sum - half_difference, half_sum + half_difference
    if intrinsic:
        first, third = third, first
    # If the outer axes coincide, all of the turn is around the first one.
    alone = util.select_where(low, 2 * half_sum, 2 * half_difference * (1 if intrinsic else -1))
    first = util.select_where(low | high, alone, first)
    third = util.select_where(low | high, lax.full_like(third, 0), third)
    if not symmetric:
        middle = middle - np.pi / 2
        if intrinsic:
            first = first * sign
        else:
            third = third * sign
    angles = stack([first, middle, third], axis=-1)
    turn = np.array(2 * np.pi, angles.dtype)
    angles = util.select_where(angles < -np.pi, angles + turn, angles)
    return util.select_where(angles > np.pi, angles - turn, angles)
