"""Functions that outside code imports from `jax._src.core`; our own code does not use them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from jax._src.core.trace import Tracer
from jax._src.mesh import AbstractMesh, AxisType, Mesh
from jax._src.partition_spec import PartitionSpec


def get_referent(x: object) -> object:
    """The value that a tracer stands for, if it is the same value outside: used to find aliases."""
    return x.get_referent() if isinstance(x, Tracer) else x


def modify_spec_for_auto_manual(spec: PartitionSpec, mesh: Mesh | AbstractMesh) -> PartitionSpec:
    """Keep only the Explicit axes of a mesh in a spec, and the reductions over them."""
    kinds = dict(zip(mesh.axis_names, mesh.axis_types))

    def explicit(names: Iterable[Hashable]) -> list[Hashable]:
        return [name for name in names if kinds[name] == AxisType.Explicit]

    entries: list[Any] = []
    for entry in spec.partitions:
        if isinstance(entry, tuple):
            kept = explicit(entry)
            entries.append(None if not kept else kept[0] if len(kept) == 1 else tuple(kept))
        else:
            entries.append(None if entry is None or not explicit([entry]) else entry)
    return PartitionSpec(
        *entries,
        unreduced=frozenset(explicit(spec.unreduced)),
        reduced=frozenset(explicit(spec.reduced)),
    )
