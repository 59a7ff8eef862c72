"""The named axes in scope."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from jax._src import config


class AxisEnv:
    """The named axes in scope.

    Attributes:
      sizes: by name.
      spmd_axis_names: mesh axes over which `vmap` splits its axis.
      explicit_mesh_axis_names: those of them that are explicit.
      vmap_axis_names: names that `vmap` bound last, also where they are those of mesh axes.
    """

    __slots__ = (
        "sizes",
        "spmd_axis_names",
        "explicit_mesh_axis_names",
        "vmap_axis_names",
        "_key",
    )

    def __init__(
        self,
        sizes: dict[Hashable, int],
        spmd_axis_names: frozenset[Hashable] = frozenset(),
        explicit_mesh_axis_names: frozenset[Hashable] = frozenset(),
        vmap_axis_names: frozenset[Hashable] = frozenset(),
    ) -> None:
        self.sizes = sizes
        self.spmd_axis_names = spmd_axis_names
        self.explicit_mesh_axis_names = explicit_mesh_axis_names
        self.vmap_axis_names = vmap_axis_names
        self._key = (
            tuple((k, v) for k, v in sizes.items() if k is not no_axis_name),
            spmd_axis_names,
            explicit_mesh_axis_names,
            vmap_axis_names,
        )

    @property
    def axis_sizes(self) -> dict[Hashable, int]:
        return self.sizes

    def axis_size(self, name: Hashable) -> int:
        """The size of an axis; raises NameError if it is not in scope."""
        if name not in self.sizes:
            mesh = config.abstract_mesh_context_manager.value
            if mesh is not None and name in mesh.axis_names:
                remedy = (
                    f"This axis of the mesh in context is of type {mesh._name_to_type[name].name}: map over "
                    "it with `jax.shard_map`, by `axis_names` if these are given."
                )
            else:
                remedy = "Name the axis in an enclosing vmap(..., axis_name=...) or shard_map."
            raise NameError(
                f"unbound axis name: {name}. Axes in scope are {tuple(self.sizes) or 'none'}. {remedy}"
            )
        return self.sizes[name]

    def axis_names(self) -> list[Hashable]:
        return list(self.sizes)

    def extend(
        self,
        pairs: Sequence[tuple[Hashable, int]],
        spmd: Sequence[Hashable] = (),
        explicit: Sequence[Hashable] = (),
        by_vmap: bool = False,
    ) -> AxisEnv:
        """The named axes with more of them in scope.

        Args:
          pairs: names and sizes.
          spmd, explicit: the mesh axes over which a mapped axis is sharded, and the explicit ones.
          by_vmap: whether the axes are of `vmap`.
        """
        sizes = dict(self.sizes)
        sizes.update(pairs)
        names = [name for name, _ in pairs]
        vmapped = self.vmap_axis_names
        return AxisEnv(
            sizes,
            self.spmd_axis_names.union(spmd),
            self.explicit_mesh_axis_names.union(explicit),
            vmapped.union(names) if by_vmap else vmapped.difference(names),
        )

    def key(self) -> Any:
        """What of the axes is part of cache keys."""
        return self._key


class _NoAxisName:
    def __repr__(self) -> str:
        return "<no axis name>"


no_axis_name = _NoAxisName()
empty_axis_env = AxisEnv({})
