"""Grids: how often a kernel runs, and with which blocks."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.core import AbstractRef, ShapedArray, ShapeDtypeStruct, typeof
from jax._src.pallas.blocks import (
    BlockMapping,
    BlockSpec,
    NoBlockSpec,
    block_mapping,
    leaves_with_none,
    no_block_spec,
)
from jax._src.pallas.memory import MemorySpace, ref_avals_of
from jax._src.tree_util import (
    PyTreeDef,
    equality_errors_pytreedef,
    keystr,
    tree_flatten_with_path,
    tree_structure,
)


class DynamicGridDim:
    """Stands in a grid for a size that is an operand."""

    def __repr__(self) -> str:
        return "DynamicGridDim"


dynamic_grid_dim = DynamicGridDim()


@dataclasses.dataclass(init=False)
class GridSpec:
    """What a kernel runs over: the grid, and the blocks of its arguments and results.

    Args:
      grid: the sizes of the grid, integers or traced integers, or pairs of a name and a size. Those
        less than 0 are as 0.
      in_specs: a tree of `BlockSpec`, of the structure of the arguments.
      out_specs: the same of the results.
      scratch_shapes: a tree of types of references that the kernel gets besides.
    """

    grid: tuple[Any, ...]
    grid_names: tuple[Any, ...] | None
    in_specs: Any
    out_specs: Any
    scratch_shapes: Any = ()

    def __init__(
        self,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ):
        self.grid, self.grid_names = _grid_and_names(grid)
        self.in_specs = tuple(in_specs) if isinstance(in_specs, list) else in_specs
        self.out_specs = tuple(out_specs) if isinstance(out_specs, list) else out_specs
        self.scratch_shapes = (
            tuple(scratch_shapes) if isinstance(scratch_shapes, list) else scratch_shapes
        )

    # The first arguments may be operands of index maps, in back ends that have such.
    num_scalar_prefetch = 0

    def scalar_ref_aval(self, aval: Any) -> AbstractRef:
        """The type of the reference to an operand of index maps."""
        return AbstractRef(ShapedArray(aval.shape, aval.dtype), MemorySpace.INDEX)


def _grid_and_names(grid: Any) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    names = None
    if sizes and all([isinstance(d, (tuple, list)) and len(d) == 2 for d in sizes]):
        names, sizes = zip(*sizes)
    if not all(map(_is_size, sizes)):
        raise ValueError(f"Grid must be a tuple of integers or jax.Array, got {sizes}")
    return tuple([max(int(d), 0) if isinstance(d, (int, np.integer)) else d for d in sizes]), names


def _is_size(d: Any) -> bool:
    if isinstance(d, (bool, np.bool_)) or not core.valid_jaxtype(d):
        return False
    aval: Any = typeof(d)
    return not aval.shape and dtypes.issubdtype(aval.dtype, np.integer)


@dataclasses.dataclass(frozen=True, repr=False)
class GridMapping:
    """A `GridSpec` for arguments and results of known types.

    The operands of the application are the traced sizes of the grid, the operands of index maps, and
    the arguments. The kernel takes references to the operands of index maps, to blocks of the
    arguments and of the results, and to scratch arrays.

    Attributes:
      grid: sizes; `dynamic_grid_dim` where the size is an operand.
      grid_names: names of the grid's dimensions, or None.
      block_mappings: those of the arguments, then those of the results.
      index_map_tree: structure of the arguments of index maps, a tuple and a dictionary.
      index_map_avals: types of what index maps take: the grid's indices, then references.
      num_index_operands: the number of operands of index maps.
      num_inputs, num_outputs: the numbers of arguments and of results.
      scratch_avals: types of the scratch references.
      vmapped_dims: dimensions of the grid that `vmap` added, which the kernel does not see.
    """

    grid: tuple[Any, ...]
    grid_names: tuple[Any, ...] | None
    block_mappings: tuple[BlockMapping, ...]
    index_map_tree: PyTreeDef
    index_map_avals: tuple[Any, ...]
    num_index_operands: int
    num_inputs: int
    num_outputs: int
    scratch_avals: tuple[AbstractRef, ...]
    vmapped_dims: tuple[int, ...] = ()

    @property
    def num_dynamic_grid_bounds(self) -> int:
        return sum([d is dynamic_grid_dim for d in self.grid])

    @property
    def in_block_mappings(self) -> tuple[BlockMapping, ...]:
        return self.block_mappings[: self.num_inputs]

    @property
    def block_mappings_output(self) -> tuple[BlockMapping, ...]:
        return self.block_mappings[self.num_inputs :]

    @property
    def static_grid(self) -> tuple[int, ...]:
        """The grid's sizes, none of which may be an operand."""
        if self.num_dynamic_grid_bounds:
            raise ValueError(f"The grid has sizes that are operands: {self}")
        return self.grid

    @property
    def in_shapes(self) -> list[ShapeDtypeStruct]:
        """Shapes and dtypes of the operands of index maps and of the arguments."""
        scalars = self.index_map_avals[len(self.grid) :]
        arrays = [m.array_aval for m in self.in_block_mappings]
        return [ShapeDtypeStruct(a.shape, a.dtype) for a in [*scalars, *arrays]]

    @property
    def out_shapes(self) -> list[ShapeDtypeStruct]:
        """Shapes and dtypes of the results."""
        arrays = [m.array_aval for m in self.block_mappings_output]
        return [ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]

    @property
    def num_scratch_operands(self) -> int:
        return len(self.scratch_avals)

    @property
    def slice_index_ops(self) -> slice:
        """Where the kernel's arguments are that refer to operands of index maps."""
        return slice(0, self.num_index_operands)

    @property
    def slice_block_ops(self) -> slice:
        """Where the kernel's arguments are that refer to blocks."""
        start = self.num_index_operands
        return slice(start, start + len(self.block_mappings))

    @property
    def slice_scratch_ops(self) -> slice:
        """Where the kernel's arguments are that refer to scratch arrays."""
        return slice(self.num_index_operands + len(self.block_mappings), None)

    def trace_env(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which `program_id` and axis names refer to this grid."""
        return grid_in_scope(self.grid, self.grid_names, self.vmapped_dims)

    def check_invariants(self) -> None:
        """Raise a ValueError if the numbers of things do not fit together."""
        counts = {
            "block_mappings": (len(self.block_mappings), self.num_inputs + self.num_outputs),
            "index_map_avals": (
                len(self.index_map_avals),
                len(self.grid) + self.num_index_operands,
            ),
            "index_map_tree": (self.index_map_tree.num_leaves, len(self.index_map_avals)),
        }
        for name, (found, expected) in counts.items():
            if found != expected:
                raise ValueError(f"A GridMapping with {found} {name} where {expected} are expected")

    @property
    def kernel_axes(self) -> tuple[int, ...]:
        """The dimensions of the grid that the kernel sees."""
        return tuple([i for i in range(len(self.grid)) if i not in self.vmapped_dims])

    def replace(self, **changes: Any) -> GridMapping:
        return dataclasses.replace(self, **changes)

    def __repr__(self) -> str:
        grid = tuple(["None" if d is dynamic_grid_dim else d for d in self.grid])
        return f"GridMapping(grid={grid}, block_mappings={self.block_mappings})"


_scalar = ShapedArray((), np.dtype(np.int32))


def grid_mapping(
    spec: GridSpec, in_avals: Sequence[Any], in_tree: PyTreeDef, in_names: Sequence[str],
    out_avals: Sequence[Any], out_tree: PyTreeDef, out_names: Sequence[str],
) -> GridMapping:  # fmt: skip
    """Stage the index maps of a spec.

    Args:
      spec: the spec.
      in_avals: types of the arguments, of which the first are operands of index maps.
      in_tree: structure of the tuple of arguments, without the operands of index maps.
      in_names, out_names: names of the leaves for errors.
      out_avals, out_tree: types and structure of the results.
    """
    k = spec.num_scalar_prefetch
    scalars = [spec.scalar_ref_aval(a) for a in in_avals[:k]]
    index_avals = (*[_scalar] * len(spec.grid), *scalars)
    index_tree = tree_structure((tuple(index_avals), {}), is_leaf=lambda x: x in index_avals)
    in_specs = _flat_specs(spec.in_specs, in_tree, "in_specs", "inputs")
    out_specs = _flat_specs(spec.out_specs, out_tree, "out_specs", "out_shape")
    stage = lambda s, aval, name: block_mapping(s, aval, name, index_avals, index_tree)
    with grid_in_scope(spec.grid, spec.grid_names, ()):
        mappings = [
            stage(s, a, n)
            for s, a, n in zip(
                [*in_specs, *out_specs], [*in_avals[k:], *out_avals], [*in_names[k:], *out_names]
            )
        ]
    scratch_avals, _ = ref_avals_of(spec.scratch_shapes, "scratch_shapes")
    return GridMapping(
        grid=tuple([d if isinstance(d, int) else dynamic_grid_dim for d in spec.grid]),
        grid_names=spec.grid_names,
        block_mappings=tuple(mappings),
        index_map_tree=index_tree,
        index_map_avals=index_avals,
        num_index_operands=k,
        num_inputs=len(in_specs),
        num_outputs=len(out_specs),
        scratch_avals=tuple(scratch_avals),
    )


def _flat_specs(specs: Any, tree: PyTreeDef, what: str, of: str) -> list[BlockSpec]:
    if specs is no_block_spec or isinstance(specs, NoBlockSpec):
        return [BlockSpec()] * tree.num_leaves
    if what == "in_specs" and not isinstance(specs, (tuple, list)):
        raise ValueError(
            f"`in_specs` must be a tuple or a list of a BlockSpec for each argument. Found: {specs!r}."
        )
    flat, own = leaves_with_none(specs)
    if own.num_leaves == tree.num_leaves and own == tree:
        return [BlockSpec() if s is None else _checked(s, what) for s in flat]
    # An argument that is None has no leaf, and its spec, if it has one, is not used.
    given = leaves_with_none(tree.unflatten(range(tree.num_leaves)))
    if given[1] == own:
        pairs = zip(flat, given[0])
        return [BlockSpec() if s is None else _checked(s, what) for s, x in pairs if x is not None]
    problems = list(equality_errors_pytreedef(own, tree))
    lines = "\n".join(
        f"    * `{what}{keystr(path)}` is {a} but `{of}{keystr(path)}` is {b}, so {why}"
        for path, a, b, why in problems
    )
    raise ValueError(
        f"Pytree for `{what}` and `{of}` do not match. There are {len(problems)} mismatches, including:\n{lines}"
    )


def _checked(spec: Any, what: str) -> BlockSpec:
    if isinstance(spec, NoBlockSpec):
        return BlockSpec()
    if not isinstance(spec, BlockSpec):
        raise TypeError(
            f"`{what}` must be a tree of pl.BlockSpec, got {spec!r} of type {type(spec)}."
        )
    return spec


def names_of_leaves(prefix: str, tree: Any) -> list[str]:
    """Return a name for each leaf: the prefix and the path."""
    return [prefix + keystr(path) for path, _ in tree_flatten_with_path(tree)[0]]


# The grid of the kernel that is being staged


class _Scope(threading.local):
    def __init__(self) -> None:
        self.grids: list[tuple[Any, ...]] = []


_scope = _Scope()


@contextlib.contextmanager
def grid_in_scope(
    grid: Sequence[Any], names: Sequence[Any] | None, hidden: Sequence[int]
) -> Iterator[None]:
    """Make a grid the one that `program_id` and `num_programs` refer to; its names are axis names."""
    sizes = tuple([d for i, d in enumerate(grid) if i not in hidden])
    _scope.grids.append(sizes)
    try:
        with contextlib.ExitStack() as stack:
            for name, size in zip(names or (), grid):
                if isinstance(size, int):
                    stack.enter_context(core.extend_axis_env_nd([(name, size)]))
            yield
    finally:
        _scope.grids.pop()


def current_grid() -> tuple[Any, ...] | None:
    """The sizes of the grid of the kernel that is being staged; None outside of kernels."""
    return _scope.grids[-1] if _scope.grids else None
