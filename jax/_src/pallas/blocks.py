"""Blocks: the parts of arrays that one run of a kernel sees, and where they are."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import api_util, core, dtypes
from jax._src.core import AbstractRef, ClosedJaxpr, ShapedArray, typeof
from jax._src.indexing import Slice
from jax._src.interpreters import partial_eval as pe
from jax._src.pallas.memory import MemorySpace
from jax._src.tree_util import PyTreeDef, tree_flatten


@dataclasses.dataclass(frozen=True)
class Blocked:
    """A dimension in blocks of equal size: the index map gives the number of the block.

    Args:
      block_size: the number of elements in a block; the last block may reach beyond the array.
    """

    block_size: int


@dataclasses.dataclass(frozen=True)
class Element:
    """A dimension of which a block is taken from any element on: the index map gives the first one.

    Args:
      block_size: the number of elements in a block.
      padding: the numbers of elements without a value before and after the array's, which blocks may
        have; the index map counts those before.
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class Squeezed:
    """A dimension that a kernel does not see: the index map gives the position in it."""


@dataclasses.dataclass(frozen=True)
class BoundedSlice:
    """A dimension of which the index map gives a slice (`pl.ds`), of traced size.

    Where kernels are interpreted, they see a dimension of the greatest size: elements after the slice
    have no value, and what is written to them is dropped.

    Args:
      block_size: the greatest size of a slice.
    """

    block_size: int


@dataclasses.dataclass(frozen=True)
class Indirect:
    """A dimension of which the index map gives an array of positions.

    Positions out of bounds are those of elements without a value; what is written to them is dropped.

    Args:
      block_size: the number of positions.
    """

    block_size: int


BlockDim = Element | Squeezed | Blocked | BoundedSlice | Indirect
squeezed = Squeezed()


class RevisitMode(enum.Enum):
    """When the block of a result may be visited again: in the next run only, or in any later one."""

    IMMEDIATE = "immediate"
    ANY = "any"


@dataclasses.dataclass(frozen=True)
class Buffered:
    """How many buffers a pipeline has for the blocks of an array.

    Args:
      buffer_count: the number of buffers.
      use_lookahead: whether to fetch the next block that is another one as soon as a buffer is free.
      revisit: when the block of a result may be visited again; None for `RevisitMode.IMMEDIATE`.
    """

    buffer_count: int
    use_lookahead: bool = False
    revisit: RevisitMode | None = None


class NoBlockSpec:
    """Stands for block specs that are not given: every block is the whole array."""

    def __repr__(self) -> str:
        return "NoBlockSpec"


no_block_spec = NoBlockSpec()


@dataclasses.dataclass
class BlockSpec:
    """How an array is divided into blocks, and which block a run of the kernel sees.

    Args:
      block_shape: for each dimension the size of a block, None for a dimension that the kernel does
        not see, or one of the classes `Blocked`, `Element`, `Squeezed`, `BoundedSlice`, `Indirect`.
        None for the whole array.
      index_map: function from the grid's indices to the block's index: an integer, or what the class
        says, for each dimension. None for the first block.
      pipeline_mode: how a pipeline buffers the blocks.
      memory_space: where the kernel finds the block; None for where the back end puts it.
    """

    block_shape: Sequence[BlockDim | int | None] | None = None
    index_map: Callable[..., Any] | None = None
    pipeline_mode: Buffered | None = None
    _: dataclasses.KW_ONLY
    memory_space: Any | None = None

    def __post_init__(self) -> None:
        if self.index_map is not None and not callable(self.index_map):
            raise TypeError(
                "The index map of a BlockSpec must be a function from the grid's indices to a block's, got "
                f"{self.index_map!r} of type {type(self.index_map)}. The shape comes first: BlockSpec(block_shape, index_map)."
            )

    def replace(self, **changes: Any) -> BlockSpec:
        """Return a copy with some fields replaced."""
        return dataclasses.replace(self, **changes)

    def mapping(self, block: ShapedArray, **fields: Any) -> BlockMapping:
        """Return a block mapping of this spec. Back ends whose specs say more derive from both.

        Args:
          block: the type of what the kernel sees of the array.
          **fields: the attributes of `BlockMapping` but `block_aval` and `pipeline_mode`.
        """
        space = MemorySpace.DEFAULT if self.memory_space is None else self.memory_space
        return BlockMapping(
            block_aval=AbstractRef(block, space), pipeline_mode=self.pipeline_mode, **fields
        )

    def to_block_mapping(
        self, origin: str, array_aval: ShapedArray, *, index_map_avals: Sequence[Any],
        index_map_tree: PyTreeDef, grid: Sequence[Any], vmapped_dims: tuple[int, ...],
        debug: bool = False, allow_captured_consts: bool = False,
    ) -> BlockMapping:  # fmt: skip
        """Stage the index map for an array of known type, and check what it returns.

        Args:
          origin: which argument or result it is, for errors.
          array_aval: the array's type.
          index_map_avals: types of what index maps take: the grid's indices, then references.
          index_map_tree: their structure, a tuple and a dictionary.
          grid: the grid's sizes.
          vmapped_dims: dimensions of the grid that index maps do not see.
          debug: whether to print the index map's jaxpr.
          allow_captured_consts: whether the index map may close over arrays.

        Raises:
          ValueError: if the spec does not match the array.
        """
        hidden = set(vmapped_dims)
        if len(index_map_avals) < len([i for i in range(len(grid)) if i not in hidden]):
            raise ValueError(f"Index maps take the indices of the grid {tuple(grid)}")
        mapping = block_mapping(
            self, array_aval, origin, index_map_avals, index_map_tree, allow_captured_consts
        )
        if debug:
            print(f"The index map of {origin}:\n{mapping.index_map_jaxpr}")
        return mapping


def block_dims(spec: BlockSpec, shape: Sequence[Any], origin: str) -> tuple[BlockDim, ...]:
    """Return what a spec says of each dimension of an array of this shape."""
    if spec.block_shape is None:
        return tuple([Blocked(d) for d in shape])
    if not isinstance(spec.block_shape, Sequence):
        raise TypeError(
            f"Block shape for {origin} must be a tuple of a size for each dimension of the array shape {tuple(shape)}, got "
            f"{spec.block_shape!r} of type {type(spec.block_shape)}."
        )
    dims = tuple([_block_dim(d, origin) for d in spec.block_shape])
    if len(dims) != len(shape):
        raise ValueError(
            f"Block shape for {origin} (= {dims}) must have the same number of dimensions as the array "
            f"shape {tuple(shape)}. Give a size for each dimension, and None for those that the kernel does not see."
        )
    for i, (d, n) in enumerate(zip(dims, shape)):
        _check_size(d, n, f"dimension {i} of {tuple(spec.block_shape)}, for an array of shape {tuple(shape)}", origin)  # fmt: skip
    return dims


def _check_size(d: BlockDim, array_size: Any, where: str, origin: str) -> None:
    """Check that a block has elements; a dimension without elements may be a block of its own."""
    size = getattr(d, "block_size", 1)
    if core.is_symbolic_dim(size):
        return
    if not isinstance(size, (int, np.integer)) or isinstance(size, bool):
        raise ValueError(
            f"Block shape for {origin} must have sizes that are integers, got {size!r} in {where}."
        )
    if size < 1 and not (size == 0 and array_size == 0):
        raise ValueError(
            f"Block shape for {origin} must have positive sizes, got {size} in {where}. Give the number of elements that the "
            f"kernel sees at once, {array_size} for all of them, or None for a dimension that it does not see."
        )


def _block_dim(d: Any, origin: str) -> BlockDim:
    if d is None:
        return squeezed
    if isinstance(d, (Blocked, Element, Squeezed, BoundedSlice, Indirect)):
        return d
    if isinstance(d, (int, np.integer)) and not isinstance(d, bool):
        return Blocked(int(d))
    if core.is_symbolic_dim(d):
        return Blocked(d)
    raise ValueError(
        f"Unsupported block dim type in the block shape for {origin}: {type(d)}. Give an integer, None or one of "
        "pl.Blocked, pl.Element, pl.Squeezed."
    )


@dataclasses.dataclass(frozen=True)
class BlockMapping:
    """A `BlockSpec` of an array of known type, with its index map staged.

    Attributes:
      block_shape: what it says of each dimension.
      block_aval: the type of the reference that the kernel gets.
      index_map_jaxpr: takes the grid's indices and references to the operands of index maps. It has one
        result for each dimension, for a `BoundedSlice` two: the first position and the size.
      array_aval: type of the array.
      origin: which argument or result of the kernel it is.
      pipeline_mode: how a pipeline buffers the blocks.
    """

    block_shape: tuple[BlockDim, ...]
    block_aval: AbstractRef
    index_map_jaxpr: ClosedJaxpr
    array_aval: ShapedArray
    origin: str
    pipeline_mode: Buffered | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of elements along each dimension of the array, including those not seen."""
        return tuple([getattr(d, "block_size", 1) for d in self.block_shape])

    def has_trivial_window(self) -> bool:
        """Whether the block is the whole array, whatever the grid's indices."""
        whole = self.sizes == tuple(self.array_aval.shape)
        return whole and all(
            [type(v) is core.Literal and v.val == 0 for v in self.index_map_jaxpr.jaxpr.outvars]
        )

    def replace(self, **changes: Any) -> BlockMapping:
        return dataclasses.replace(self, **changes)

    def __repr__(self) -> str:
        return f"BlockMapping(block_shape={self.block_shape})"


def block_mapping(
    spec: BlockSpec, aval: ShapedArray, origin: str, index_avals: Sequence[Any], index_tree: PyTreeDef,
    allow_consts: bool = False,
) -> BlockMapping:  # fmt: skip
    """Stage a spec's index map for an array of type `aval`, and check what it returns."""
    dims = block_dims(spec, aval.shape, origin)
    seen = [d.block_size for d in dims if type(d) is not Squeezed]
    n = len(dims)
    index_map = spec.index_map or (lambda *_: (0,) * n)

    def run(*flat: Any) -> list[Any]:
        args, kwargs = index_tree.unflatten(flat)
        n = len([a for a in index_avals if type(a) is not AbstractRef])
        takes = f"{n} indices of the grid"
        if n < len(args):
            takes += f", and {len(args) - n} references to operands of index maps"
        index = call_with(index_map, args, kwargs, f"{where} is called with {takes}")
        found = tree_flatten(index, is_leaf=lambda x: isinstance(x, (Slice, slice)))[0]
        return _index_of_block(where, dims, found)

    args = index_tree.unflatten(list(index_avals))[0]
    info = api_util.debug_info("pallas_call index_map", index_map, args, {})
    where = f"Index map function {info.func_src_info} for {origin}"
    jaxpr, out_avals, consts = pe.trace_to_jaxpr_dynamic(run, index_avals, info)
    if consts and not allow_consts:
        raise ValueError(
            f"{where} must not capture constants: {[typeof(c) for c in consts]}. Compute the index from its "
            "arguments, or pass the array as an operand of index maps (PrefetchScalarGridSpec)."
        )
    if jaxpr.effects:
        writes = [e for e in jaxpr.effects if not isinstance(e, core.ReadEffect)]
        if writes:
            raise ValueError(f"{where} must not have effects, it has {writes}.")
    return spec.mapping(
        ShapedArray(tuple(seen), aval.dtype), block_shape=dims,
        index_map_jaxpr=core.ClosedJaxpr(jaxpr, consts), array_aval=aval, origin=origin,
    )  # fmt: skip


def call_with(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], what: str
) -> Any:
    """Call a user's function; if its parameters are not what it is called with, the error says so.

    Args:
      function: the function.
      args, kwargs: its arguments.
      what: a sentence without its end: which function is called with what.
    """
    try:
        return function(*args, **kwargs)
    except TypeError as e:
        # An error of the function itself has a frame of it.
        if e.__traceback__ is None or e.__traceback__.tb_next is not None:
            raise
        raise TypeError(f"{what}, but {e}. Give it a parameter for each.") from e


def _index_of_block(where: str, dims: Sequence[BlockDim], found: Sequence[Any]) -> list[Any]:
    """Return what an index map returned, as scalars and arrays of integers.

    Raises:
      ValueError: if it is not what the dimensions of the block take.
    """
    if len(found) != len(dims):
        raise ValueError(
            f"{where} must return {len(dims)} values to match block_shape={tuple(dims)}. Currently returning "
            f"{len(found)} values. Return an index for each dimension of the array."
        )
    out = []
    for i, (d, x) in enumerate(zip(dims, found)):
        if isinstance(d, BoundedSlice):
            if not isinstance(x, Slice) or x.stride != 1:
                raise ValueError(
                    f"{where} must return a slice for {d}: pl.ds(start, size). Output[{i}] is {x!r}."
                )
            out += [_integers(where, i, x.start, ()), _integers(where, i, x.size, ())]
        elif isinstance(d, Indirect):
            out.append(_integers(where, i, x, (d.block_size,)))
        else:
            out.append(_integers(where, i, x, ()))
    return out


def _integers(where: str, i: int, x: Any, shape: tuple[int, ...]) -> Any:
    if not core.valid_jaxtype(x):
        raise ValueError(f"{where} must return integer scalars. Output[{i}] is {x!r}.")
    aval: Any = typeof(x)
    if tuple(aval.shape) != shape or not dtypes.issubdtype(aval.dtype, np.integer):
        what = f"an array of {shape[0]} integers" if shape else "integer scalars"
        raise ValueError(f"{where} must return {what}. Output[{i}] has type {aval.str_short()}.")
    return np.int32(x) if isinstance(x, (int, np.integer)) else x


def leaves_with_none(tree: Any) -> tuple[list[Any], PyTreeDef]:
    """Flatten a tree of specs, of which None is a leaf that stands for no spec."""
    return tree_flatten(tree, is_leaf=lambda x: x is None or isinstance(x, BlockSpec))
