"""`ManualAxisType`: how a value varies over the mesh axes that `shard_map` has made manual."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax._src.mesh import Mesh


class ManualAxisType:
    """How a value varies over the manual mesh axes of an enclosing `shard_map`.

    Args:
      varying: a set of axes over which it differs.
      unreduced: a set of axes over which it is a partial sum.
      reduced: a set of axes over which its cotangent is a partial sum.

    Raises:
      TypeError: an argument is not a set.
      ValueError: an axis is varying and also unreduced or reduced.

    Example:
      >>> import jax
      >>> jax.sharding.ManualAxisType(varying={"x"}).varying
      frozenset({'x'})
    """

    __slots__ = ("varying", "unreduced", "reduced", "_hash")
    varying: frozenset[Any]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]
    _hash: int

    def __init__(
        self,
        *,
        varying: Any = frozenset(),
        unreduced: Any = frozenset(),
        reduced: Any = frozenset(),
    ) -> None:
        for name, axes in (("varying", varying), ("unreduced", unreduced), ("reduced", reduced)):
            if not isinstance(axes, (frozenset, set)):
                raise TypeError(
                    f"{name} of ManualAxisType must be a set of mesh axes, got {axes!r} of type"
                    f" {type(axes)}."
                )
            if axes and name != "varying" and varying & axes:
                raise ValueError(
                    f"varying and {name} cannot have common mesh axes. Got varying={set(varying)} and"
                    f" {name}={set(axes)}"
                )
            object.__setattr__(self, name, frozenset(axes))
        object.__setattr__(self, "_hash", hash((self.varying, self.unreduced, self.reduced)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to field {name!r}: a ManualAxisType is immutable")

    def __reduce__(self) -> Any:
        return _restored_mat, (self.varying, self.unreduced, self.reduced)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, ManualAxisType)
            and self.varying == other.varying
            and self.unreduced == other.unreduced
            and self.reduced == other.reduced
        )

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return bool(self.varying or self.unreduced or self.reduced)

    @property
    def empty(self) -> bool:
        """Whether the value is the same along all manual mesh axes."""
        return not self

    @property
    def vur(self) -> frozenset[Any]:
        """The axes that have any role: varying, unreduced or reduced."""
        return self.varying | self.unreduced | self.reduced

    def invarying(self, mesh: Mesh) -> frozenset[Any]:
        """The manual axes of `mesh` along which the value is the same."""
        return frozenset(mesh.manual_axes) - self.vur

    def update(self, **kwargs: Any) -> ManualAxisType:
        """A copy with the given fields replaced."""
        args = dict(varying=self.varying, unreduced=self.unreduced, reduced=self.reduced)
        return ManualAxisType(**{**args, **kwargs})

    def to_ct_mat(self) -> ManualAxisType:
        """How a cotangent varies: unreduced and reduced axes are swapped."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def __repr__(self) -> str:
        return (
            f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced}, "
            f"reduced={self.reduced})"
        )


def _restored_mat(
    varying: frozenset[Any], unreduced: frozenset[Any], reduced: frozenset[Any]
) -> ManualAxisType:
    return ManualAxisType(varying=varying, unreduced=unreduced, reduced=reduced)


empty_mat = ManualAxisType()
