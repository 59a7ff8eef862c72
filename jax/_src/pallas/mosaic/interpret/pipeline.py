"""The grid of an interpreted kernel: which core runs which points, and the blocks that it has at each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src.pallas.blocks import BlockMapping, BoundedSlice, Element, Indirect, Squeezed
from jax._src.pallas.mosaic.interpret.clocks import Actor
from jax._src.pallas.mosaic.interpret.memory import Buffer, Memory
from jax._src.pallas.mosaic.interpret.params import InterpretParams
from jax._src.pallas.threaded.programs import Rules, run_index_map
from jax._src.pallas.values import is_key

Point = tuple[int, ...]

_PARALLEL = ("parallel", "core_parallel")


def _num_parallel(semantics: Sequence[Any] | None) -> int:
    names = [getattr(s, "value", s) for s in semantics or ()]
    return sum([n in _PARALLEL for n in names])


def check_semantics(semantics: Sequence[Any] | None, where: str) -> None:
    """Raise a ValueError if parallel dimensions of the grid of a kernel come after others."""
    if _num_parallel(semantics) != _num_parallel((semantics or ())[: _num_parallel(semantics)]):
        raise ValueError(
            "Dimensions with parallel semantics must form a prefix of the grid, where kernels for TPUs are interpreted; "
            f"dimension_semantics is {semantics}, in {where}."
        )


def points_of_cores(
    grid: Sequence[int], semantics: Sequence[Any] | None, params: InterpretParams
) -> list[list[Point]]:
    """Return the points of a grid that each core runs, in order.

    Args:
      grid: the sizes.
      semantics: the semantics of each dimension.
      params: the number of cores, and the seed of the order along parallel dimensions.
    """
    n = _num_parallel(semantics)
    num_cores = params.num_cores_or_threads
    orders: list[Any] = [range(d) for d in grid]
    if params.random_seed is not None or num_cores > 1:
        random = np.random.default_rng(params.random_seed or 0)
        orders[:n] = [random.permutation(d).tolist() for d in grid[:n]]
    outer = list(itertools.product(*orders[:n]))
    size = -(-len(outer) // num_cores)
    inner = list(itertools.product(*orders[n:]))
    return [
        [(*a, *b) for a in outer[i * size : (i + 1) * size] for b in inner]
        for i in range(num_cores)
    ]


class Window:
    """The block of an array that a core has, and where it is.

    Args:
      mapping: the array's blocks.
      array: the array, in HBM.
      block: the core's buffer for blocks.
      is_out: whether the array is a result.
    """

    def __init__(self, mapping: BlockMapping, array: Buffer, block: Buffer, is_out: bool):
        self.mapping = mapping
        self.array = array
        self.block = block
        self.is_out = is_out
        self.at: Any = None

    def leave(self, memory: Memory, actor: Actor, index: Any) -> None:
        """Write the block of a result back, unless the next one has the same index; None for no next one."""
        if self.is_out and self.at is not None and index != self.at:
            places = _places(self.mapping, self.at)
            kept = [_inside(p, n) for p, n in zip(places, self.array.array.shape)]
            block = self.block.array.reshape([len(p) for p in places])
            memory.note(actor, self.array, _bounds(self.array.array, places), True, None)
            target = self.array.array
            if target.ndim:
                target[np.ix_(*[p[k] for p, k in zip(places, kept)])] = block[np.ix_(*kept)]
            else:
                target[...] = block

    def enter(self, memory: Memory, actor: Actor, index: Any) -> None:
        """Read the block of an argument, unless the last one has the same index."""
        if not self.is_out and index != self.at:
            places = _places(self.mapping, index)
            memory.note(actor, self.array, _bounds(self.array.array, places), False, None)
            memory.note(actor, self.block, self.block.array, True, None)
            self.block.array[...] = self._read(memory, places).reshape(self.block.array.shape)
        self.at = index

    def _read(self, memory: Memory, places: Sequence[np.ndarray]) -> np.ndarray:
        source = self.array.array
        if not source.ndim:
            return source
        kept = [_inside(p, n) for p, n in zip(places, source.shape)]
        out = memory.empty([len(p) for p in places], source.dtype)
        out[np.ix_(*kept)] = source[np.ix_(*[p[k] for p, k in zip(places, kept)])]
        return out


def _inside(positions: np.ndarray, size: int) -> np.ndarray:
    return np.nonzero((positions >= 0) & (positions < size))[0]


def _bounds(array: np.ndarray, places: Sequence[np.ndarray]) -> np.ndarray:
    """Return a view of the part of an array that has some positions along each dimension."""
    index = []
    for p, n in zip(places, array.shape):
        inside = p[_inside(p, n)]
        index.append(slice(inside.min(), inside.max() + 1) if inside.size else slice(0, 0))
    return array[tuple(index)] if index else array


def index_of_block(
    rules: Rules, b: BlockMapping, at: Sequence[int], scalars: Sequence[np.ndarray]
) -> tuple[Any, ...]:
    """Return what an index map says of a point: integers, and tuples for arrays of positions."""
    closed = b.index_map_jaxpr
    operands = [Buffer(s, "an operand of index maps", None) for s in scalars]
    args = [*[np.int32(i) for i in at], *operands]
    found = run_index_map(rules, closed.jaxpr, closed.consts, args[: len(closed.jaxpr.invars)])
    return tuple([tuple(x.tolist()) if x.ndim else int(x) for x in found])


def _places(b: BlockMapping, index: Sequence[Any]) -> list[np.ndarray]:
    """Return the positions of a block's elements along each dimension of the array; -1 for those without."""
    values = iter(index)
    out = []
    for d in b.block_shape:
        i = next(values)
        if isinstance(d, Squeezed):
            out.append(np.array([i]))
        elif isinstance(d, Indirect):
            out.append(np.array(i))
        elif isinstance(d, Element):
            out.append(np.arange(d.block_size) + i - d.padding[0])
        elif isinstance(d, BoundedSlice):
            steps = np.arange(d.block_size)
            out.append(np.where(steps < next(values), steps + i, -1))
        else:
            out.append(np.arange(d.block_size) + i * d.block_size)
    dtype = b.array_aval.dtype
    return out + [np.arange(n) for n in (dtype._impl.key_shape if is_key(dtype) else ())]
