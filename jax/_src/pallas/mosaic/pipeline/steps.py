"""The steps of a pipeline: its grid, and the part of it that one of several cores runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.lax import lax
from jax._src.lax.parallel import axis_index, axis_size
from jax._src.pallas.mosaic.core import GridDimensionSemantics
from jax._src.pallas.primitives import num_programs, program_id


def as_int32(x: Any) -> Any:
    return lax.convert_element_type(x, np.int32)


def all_of(*conditions: Any) -> Any:
    """Return whether all conditions hold: a boolean where that is known."""
    traced = [c for c in conditions if not isinstance(c, (bool, np.bool_))]
    if not all([c for c in conditions if isinstance(c, (bool, np.bool_))]):
        return False
    out: Any = True
    for c in traced:
        out = c if out is True else lax.bitwise_and(out, c)
    return out


def any_of(*conditions: Any) -> Any:
    """Return whether any condition holds: a boolean where that is known."""
    out: Any = False
    for c in conditions:
        if isinstance(c, (bool, np.bool_)):
            if c:
                return True
        else:
            out = c if out is False else lax.bitwise_or(out, c)
    return out


class Grid:
    """The steps that one core runs, in row-major order.

    Args:
      sizes: the sizes of the grid, integers or int32 scalars.
      offsets: what is added to the indices of each dimension.
    """

    def __init__(self, sizes: Sequence[Any], offsets: Sequence[Any] | None = None):
        self.sizes = tuple(
            [int(d) if isinstance(d, (int, np.integer)) else as_int32(d) for d in sizes]
        )
        self.offsets = tuple(offsets) if offsets is not None else (0,) * len(self.sizes)
        if any([isinstance(d, int) and d <= 0 for d in self.sizes]):
            raise ValueError(
                f"All elements in the grid must be strictly positive, but got grid={self.sizes}"
            )

    @property
    def steps(self) -> Any:
        """The number of steps."""
        if all([isinstance(d, int) for d in self.sizes]):
            return math.prod(self.sizes)
        out: Any = np.int32(1)
        for d in self.sizes:
            out = lax.mul(out, lax.max(as_int32(d), np.int32(0)))
        return out

    @property
    def first(self) -> tuple[Any, ...]:
        """The position of the first step, without offsets."""
        return (np.int32(0),) * len(self.sizes)

    def indices(self, position: Sequence[Any]) -> tuple[Any, ...]:
        """Return the indices in the whole grid of a position."""
        return tuple(
            [
                p if isinstance(o, int) and o == 0 else lax.add(as_int32(p), as_int32(o))
                for p, o in zip(position, self.offsets)
            ]
        )

    def after(self, position: Sequence[Any], wrap: bool = True) -> tuple[Any, ...]:
        """Return the position of the next step; that after the last one is the first one.

        Args:
          position: the position.
          wrap: whether it is; otherwise the first index is then the size of the grid.
        """
        out: list[Any] = []
        carry: Any = True
        for axis in reversed(range(len(self.sizes))):
            d = self.sizes[axis]
            more = lax.add(position[axis], _number(carry))
            if axis == 0 and not wrap:
                out.append(more)
                continue
            carry = lax.eq(more, as_int32(d))
            out.append(lax.select(carry, np.int32(0), more))
        return tuple(reversed(out))

    def before(self, position: Sequence[Any]) -> tuple[Any, ...]:
        """Return the position of the step before; that before the first one is the last one."""
        out: list[Any] = []
        borrow: Any = True
        for axis in reversed(range(len(self.sizes))):
            less = lax.sub(position[axis], _number(borrow))
            borrow = lax.lt(less, np.int32(0))
            out.append(lax.select(borrow, lax.sub(as_int32(self.sizes[axis]), np.int32(1)), less))
        return tuple(reversed(out))


def _number(condition: Any) -> Any:
    return np.int32(1) if condition is True else as_int32(condition)


def grid_of_core(
    sizes: Sequence[Any], semantics: Sequence[Any] | None, core_axis: Any, core_axis_name: Any
) -> Grid:
    """Return the part of a grid that this core runs.

    It is a part of one parallel dimension: of the first that the number of cores divides, else of the
    longest, of which the first cores have one more.

    Args:
      sizes: the sizes of the grid.
      semantics: those of each dimension; None for `ARBITRARY`.
      core_axis: numbers of dimensions of the kernel's grid over cores, or one; None for a single core.
      core_axis_name: names of the axes of cores, or one, in place of their numbers.

    Raises:
      ValueError: if there are not as many semantics as dimensions, or both numbers and names are given.
      NotImplementedError: if no dimension is parallel, or all are shorter than the number of cores.
    """
    sizes = tuple(sizes)
    if core_axis is not None and core_axis_name is not None:
        raise ValueError("core_axis and core_axis_name cannot both be provided.")
    count, core = _core(core_axis, core_axis_name)
    if count == 1:
        return Grid(sizes)
    if semantics is None:
        semantics = (GridDimensionSemantics.ARBITRARY,) * len(sizes)
    if len(semantics) != len(sizes):
        raise ValueError(
            f"dimension_semantics must be the same length as grid: {semantics} for the grid {sizes}."
        )
    kinds = [GridDimensionSemantics(s) for s in semantics]
    parallel = [i for i, k in enumerate(kinds) if k is GridDimensionSemantics.PARALLEL]
    if not parallel:
        raise NotImplementedError(
            f"Cannot partition over cores without parallel grid dimensions: dimension_semantics={tuple(kinds)} for {count} cores."
        )
    known = [i for i in parallel if isinstance(sizes[i], (int, np.integer))]
    whole = [i for i in known if isinstance(count, int) and sizes[i] % count == 0]
    offsets: list[Any] = [0] * len(sizes)
    own: list[Any] = list(sizes)
    if whole:
        axis = whole[0]
        own[axis] = sizes[axis] // count
        offsets[axis] = lax.mul(as_int32(core), np.int32(own[axis]))
        return Grid(own, offsets)
    axis = max(known, key=lambda i: sizes[i]) if known else parallel[0]
    if axis in known and isinstance(count, int) and sizes[axis] < count:
        raise NotImplementedError(
            f"The grid {sizes} has no parallel dimension of at least {count} steps, one for each core."
        )
    size, n = as_int32(sizes[axis]), as_int32(count)
    least, more = lax.div(size, n), lax.rem(size, n)
    core = as_int32(core)
    own[axis] = lax.add(least, as_int32(lax.lt(core, more)))
    offsets[axis] = lax.add(lax.mul(core, least), lax.min(core, more))
    return Grid(own, offsets)


def _core(core_axis: Any, core_axis_name: Any) -> tuple[Any, Any]:
    """Return the number of cores, and the number of this one."""
    if core_axis is None and core_axis_name is None:
        return 1, 0
    if core_axis_name is not None:
        names = core_axis_name if isinstance(core_axis_name, tuple) else (core_axis_name,)
        pairs = [(axis_size(a), axis_index(a)) for a in names]
    else:
        axes = core_axis if isinstance(core_axis, (tuple, list)) else (core_axis,)
        pairs = [(num_programs(a), program_id(a)) for a in axes]
    count: Any = 1
    core: Any = np.int32(0)
    for n, i in pairs:
        known = isinstance(n, int) and isinstance(count, int)
        count = count * n if known else lax.mul(as_int32(count), as_int32(n))
        core = lax.add(lax.mul(core, as_int32(n)), as_int32(i))
    return count, core
