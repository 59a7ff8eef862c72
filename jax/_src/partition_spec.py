"""`PartitionSpec`: the mesh axes that each dimension of an array is split over."""

from __future__ import annotations

from typing import Any

from jax._src.lib import _jax, weakref_lru_cache

_EMPTY = frozenset()
_canonicalize_partitions = _jax.canonicalize_partitions


class UnconstrainedSingleton:
    """The type of `PartitionSpec.UNCONSTRAINED`: the compiler chooses how to split a dimension."""

    __slots__ = ()

    def __repr__(self):
        return "UNCONSTRAINED"

    def __reduce__(self):
        return _get_default_unconstrained, ()


_UNCONSTRAINED_PARTITION = UnconstrainedSingleton()
_jax.set_pspec_unconstrained(_UNCONSTRAINED_PARTITION)


def _get_default_unconstrained():
    return _UNCONSTRAINED_PARTITION


class PartitionSpec:
    """The axes of a device mesh that each dimension of an array is split over.

    Args:
      *partitions: for each dimension a mesh axis name, a tuple of names (split over all, the first
        one is the slowest), None (not split) or ``PartitionSpec.UNCONSTRAINED`` (left to the
        compiler). Dimensions without an entry are not split.
      unreduced: mesh axes over which each device holds a summand of the value.
      reduced: mesh axes over which the value is replicated while its cotangent is unreduced.

    Raises:
      TypeError: ``unreduced`` or ``reduced`` is not a set.
      ValueError: an axis has two roles.

    Specifications are interned: equal ones are the same object. They are leaves of pytrees.

    Example:
      >>> import jax
      >>> jax.P("batch", None, ("x", "y"))
      P('batch', None, ('x', 'y'))
    """

    __slots__ = ("_partitions", "unreduced", "reduced", "__weakref__")

    _partitions: tuple[Any, ...]
    unreduced: frozenset
    reduced: frozenset

    UNCONSTRAINED = _UNCONSTRAINED_PARTITION

    def __new__(
        cls, *partitions: Any, unreduced: Any = _EMPTY, reduced: Any = _EMPTY
    ) -> PartitionSpec:
        partitions = _canonicalize_partitions(partitions)
        if unreduced or reduced or unreduced is not _EMPTY or reduced is not _EMPTY:
            unreduced = _check_axes("unreduced", unreduced)
            reduced = _check_axes("reduced", reduced)
            _check_overlaps(partitions, unreduced, reduced)
        return _intern(partitions, unreduced, reduced)

    def __init_subclass__(cls, **kwargs):
        raise TypeError("Subclassing `jax.P` is prohibited.")

    @property
    def partitions(self) -> tuple[Any, ...]:
        """The entries, as a tuple."""
        return self._partitions

    def __repr__(self):
        args = [repr(p) for p in self._partitions]
        sets = [
            f"{name}={{{', '.join(sorted(map(repr, axes)))}}}"
            for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if axes
        ]
        trailing = "," if len(args) == 1 and not sets else ""
        return f"P({', '.join(args + sets)}{trailing})"

    def __len__(self):
        return len(self._partitions)

    def __iter__(self):
        if self.unreduced or self.reduced:
            raise ValueError(
                f"Iterating over {self} would drop its unreduced and reduced axes;"
                " iterate over spec.partitions."
            )
        return iter(self._partitions)

    def __getitem__(self, i):
        if self.unreduced or self.reduced:
            raise ValueError(
                f"Indexing {self} would drop its unreduced and reduced axes; index spec.partitions."
            )
        return self._partitions[i]

    def __add__(self, other):
        if isinstance(other, PartitionSpec):
            return PartitionSpec(
                *self._partitions,
                *other._partitions,
                unreduced=self.unreduced | other.unreduced,
                reduced=self.reduced | other.reduced,
            )
        if isinstance(other, tuple):
            return self.update(partitions=self._partitions + other)
        return NotImplemented

    def __radd__(self, other):
        if isinstance(other, tuple):
            return self.update(partitions=other + self._partitions)
        return NotImplemented

    def index(self, value) -> int:
        """The first position of an entry. Raises ValueError if there is none."""
        return self._partitions.index(_jax.canonicalize_partition(value))

    def count(self, value) -> int:
        """The number of occurrences of an entry."""
        return self._partitions.count(_jax.canonicalize_partition(value))

    def update(self, partitions=None, unreduced=None, reduced=None) -> PartitionSpec:
        """A copy with the given fields replaced.

        Args:
          partitions: a sequence of entries.
          unreduced, reduced: sets of mesh axis names.
        """
        return PartitionSpec(
            *(self._partitions if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )

    def to_lo(self) -> list[PartitionSpec]:
        """The specifications of the arrays that represent a value with this one, in a list."""
        return [self]

    def to_tangent_spec(self) -> PartitionSpec:
        """The specification of a tangent, which is the same."""
        return self

    def to_ct_spec(self) -> PartitionSpec:
        """The specification of a cotangent: unreduced and reduced axes are swapped."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def _normalized_spec_for_aval(self, ndim: int) -> PartitionSpec:
        """The spec with one entry per dimension; unconstrained becomes None, as in types."""
        fitted = self._fitted_to(ndim)._partitions
        partitions = [None if p is _UNCONSTRAINED_PARTITION else p for p in fitted]
        partitions += [None] * (ndim - len(partitions))
        return self.update(partitions=partitions)

    def _fitted_to(self, ndim: int) -> PartitionSpec:
        """The spec without entries of None for dimensions that an array of rank `ndim` lacks."""
        size = len(self._partitions)
        while size > ndim and self._partitions[size - 1] is None:
            size -= 1
        if size == len(self._partitions):
            return self
        return self.update(partitions=self._partitions[:size])

    def _check_compatible_wrt_shape(self, shape) -> None:
        if len(shape) < len(self._partitions):
            hint = " For scalars the PartitionSpec should be P()." if not shape else ""
            raise ValueError(
                f"PartitionSpec {self} is only valid for values of rank at least"
                f" {len(self._partitions)}, but was applied to a value of rank {len(shape)}.{hint}"
            )

    def __setattr__(self, name, value):
        raise AttributeError(f"cannot assign to field {name!r}: a PartitionSpec is immutable")

    def __delattr__(self, name):
        raise AttributeError(f"cannot delete field {name!r}: a PartitionSpec is immutable")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _unpickle_partition_spec, (self._partitions, self.unreduced, self.reduced)


def _unpickle_partition_spec(partitions, unreduced, reduced):
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


# Interned weakly, in C++: a specification lives only as long as it is used elsewhere.
@weakref_lru_cache.weak_value_interner
def _intern(partitions, unreduced, reduced):
    self = object.__new__(PartitionSpec)
    object.__setattr__(self, "_partitions", partitions)
    object.__setattr__(self, "unreduced", unreduced)
    object.__setattr__(self, "reduced", reduced)
    return self


def _check_axes(name, axes) -> frozenset:
    if not isinstance(axes, (set, frozenset)):
        raise TypeError(
            f"{name} argument of PartitionSpec should be of type `frozenset` or `set`."
            f" Got {axes!r} of type {type(axes)}."
        )
    if None in axes:
        raise ValueError(
            f"{name} cannot contain None: all its elements should be mesh axis names. Got {axes}."
        )
    return frozenset(axes)


def _check_overlaps(partitions, unreduced, reduced):
    used = set()
    for p in partitions:
        used.update(p if isinstance(p, tuple) else (p,))
    for name, axes in (("unreduced", unreduced), ("reduced", reduced)):
        if not used.isdisjoint(axes):
            raise ValueError(
                f"partitions cannot overlap with {name} axes passed to PartitionSpec. Got"
                f" partitions: {partitions} and {name} axes: {_show(axes)}"
            )
    if not unreduced.isdisjoint(reduced):
        raise ValueError(
            "`unreduced` and `reduced` argument to PartitionSpec cannot overlap. Got"
            f" unreduced: {_show(unreduced)} and reduced: {_show(reduced)}"
        )


def _show(axes):
    return f"{{{', '.join(sorted(map(repr, axes)))}}}"


PartitionSpec.__module__ = "jax.sharding"
P = PartitionSpec
