"""Which blocks of the arguments of a function are needed for a block of its result, and that block."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes, source_info_util
from jax._src.core import Jaxpr, JaxprEqn, Literal, ShapedArray
from jax._src.interpreters import partial_eval as pe
from jax._src.pallas.blocks import BlockSpec, NoBlockSpec, no_block_spec
from jax._src.pallas.fuser.staging import bind, stage
from jax._src.pallas.fuser.transforms import (
    BlockIndexTransform,
    Transform,
    is_key,
    key_transform,
    same_dims,
    seen_shape,
    whole,
)
from jax._src.pallas.fuser.values import FusedFunction, scalar_variables
from jax._src.tree_util import tree_flatten, tree_structure, tree_unflatten


class _Active(threading.local):
    def __init__(self) -> None:
        self.scalars: list[Any] = []


class Scalars:
    """Values that are computed from the operands of index maps, in index maps and in kernels.

    Args:
      jaxpr: of the function.
      operands: those of its arguments that are operands of index maps.
      handler: finds them among all operands of index maps of the kernel.
    """

    def __init__(self, jaxpr: Jaxpr, operands: Sequence[Any], handler: Any):
        self.operands = tuple(operands)
        self._positions = {v: i for i, v in enumerate(operands)}
        self._defined = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        self._handler = handler
        self._active = _Active()

    def knows(self, v: Any) -> bool:
        """Whether a value depends on operands of index maps and on constants only."""
        if type(v) is Literal or v in self._positions:
            return True
        eqn = self._defined.get(v)
        return eqn is not None and all(map(self.knows, eqn.invars))

    @contextlib.contextmanager
    def given(self, operands: Sequence[Any], are_own: bool = False) -> Iterator[None]:
        """Make operands, references or arrays, those from which values are computed.

        Args:
          operands: all of the kernel's.
          are_own: whether they are only those of the function.
        """
        self._active.scalars.append((operands, are_own))
        try:
            yield
        finally:
            self._active.scalars.pop()

    def value(self, v: Any) -> Any:
        """Compute a value."""
        if type(v) is Literal:
            return v.val
        i = self._positions.get(v)
        if i is None:
            eqn = self._defined[v]
            outs = bind(eqn, [self.value(x) for x in eqn.invars])
            return outs[eqn.outvars.index(v)]
        operands, are_own = self._active.scalars[-1] if self._active.scalars else ((), False)
        if self._handler is None and not are_own:
            raise ValueError(
                "The function has dynamic slices, whose starts are operands of index maps. Give pull_block_spec "
                "scalar_prefetch_handler=fuser.make_scalar_prefetch_handler(...), and the kernel and its index maps the operands."
            )
        operand = (operands if are_own else self._handler(*operands))[i]
        # Operands of index maps may need a dimension where a scalar has none.
        ndim = len(v.aval.shape)
        return operand[(0,) * (len(operand.shape) - ndim) + (slice(None),) * ndim]


@dataclasses.dataclass
class PullContext:
    """What a rule knows of the equation for whose operands it gives transforms."""

    eqn: JaxprEqn
    scalars: Scalars

    @property
    def avals_in(self) -> list[Any]:
        return [v.aval for v in self.eqn.invars]

    @property
    def avals_out(self) -> list[Any]:
        return [v.aval for v in self.eqn.outvars]

    def refuse(self, why: str, remedy: str) -> NotImplementedError:
        """Return the error that says that blocks cannot be pulled through the equation."""
        types = ", ".join([a.str_short() for a in self.avals_in])
        return NotImplementedError(
            f"Blocks cannot be pulled through {self.eqn.primitive.name} of ({types}), at "
            f"{source_info_util.summarize(self.eqn.source_info)}: {why}. {remedy}"
        )


@dataclasses.dataclass
class EvalContext(PullContext):
    """What a rule knows of the equation that it computes for a block.

    Attributes:
      out_transforms: those of the results; None where a result is not needed.
      out_block_indices: the indices of the blocks of the results.
      in_transforms: those of the operands.
    """

    out_transforms: Sequence[Any]
    out_block_indices: Sequence[Any]
    in_transforms: Sequence[Any]


PullRule = Callable[..., Sequence[Any]]
pull_rules: dict[str, PullRule] = {}
eval_rules: dict[str, Callable[..., Any]] = {}


def pull_block_spec(
    f: Callable[..., Any], out_block_specs: Any, *, scalar_prefetch_handler: Any = None,
    grid_len: int | None = None, strict_mode: bool = True,
) -> Callable[..., Any]:  # fmt: skip
    """Find the blocks of arguments that are needed for blocks of results.

    Args:
      f: the function, such as `get_fusion_values` returns.
      out_block_specs: a `pl.BlockSpec` for each result, or one for all.
      scalar_prefetch_handler: function from the operands of a kernel's index maps to those of `f`; see
        `make_scalar_prefetch_handler`. A scalar operand may have one dimension more, of size 1. A
        dynamic slice must start at a multiple of the size of the blocks along each dimension.
      grid_len: the number of dimensions of the grid: what index maps take further are operands. By default
        they take no operands.
      strict_mode: whether blocks that several operations need of one array must be proved to be the
        same; otherwise those of the same shape are taken to be.

    Returns:
      A function of the arguments of `f`, or of types like them. It returns a function that computes the
      block of the result, and the specs of the arguments: a tuple of those of positional arguments, and a
      dictionary of those of keyword arguments; `pl.no_block_spec` for scalars and what is not used. The
      function takes the point of the grid, a sequence of the operands of index maps, and blocks.

    Raises:
      ValueError: if an array is needed in two kinds of blocks.
      NotImplementedError: if blocks of an operation's result are not computed from blocks.

    >>> block = pl.BlockSpec((2, 4), lambda i, j: (i, j))
    >>> kernel_fn, (spec,), _ = fuser.pull_block_spec(lambda x: x.T * 2, block, grid_len=2)(jnp.ones((8, 8)))
    >>> spec.block_shape, spec.index_map(0, 1)
    ((4, 2), (1, 0))
    >>> kernel_fn((0, 1), (), jnp.ones((4, 2))).shape
    (2, 4)
    """

    def wrapped(*args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        flat, in_tree = tree_flatten((tuple(args), dict(kwargs)))
        if isinstance(f, FusedFunction):
            values, *rest = args
            f.flat_arguments(values, rest, kwargs)
            jaxpr, n, result = f.jaxpr, len(f.scalars), f.result
        else:
            staged = stage(f, args, kwargs)
            jaxpr, n = staged.jaxpr, len(staged.consts)
            result = lambda outs: tree_unflatten(staged.out_tree, outs)
        specs = _specs_of_results(out_block_specs, result, len(jaxpr.outvars))
        scalars = Scalars(jaxpr, jaxpr.invars[:n], scalar_prefetch_handler)
        puller = _Puller(jaxpr, scalars, specs, grid_len, strict_mode)
        pulled = puller.transforms()
        in_specs = [puller.spec(pulled.get(v)) for v in jaxpr.invars[n:]]

        def kernel_fn(program_ids: Any, scalar_prefetch: Any, *args: Any, **kwargs: Any) -> Any:
            blocks, tree = tree_flatten((tuple(args), dict(kwargs)))
            if tree != in_tree:
                raise TypeError(
                    f"The function takes blocks of the structure {in_tree}, got {tree}."
                )
            if scalar_prefetch is None:
                scalar_prefetch = ()
            outs = puller.run(pulled, tuple(program_ids), scalar_prefetch, blocks, n)
            return result(outs)

        spec_args, spec_kwargs = tree_unflatten(in_tree, in_specs)
        return kernel_fn, spec_args, spec_kwargs

    return wrapped


def _specs_of_results(specs: Any, result: Callable[..., Any], n: int) -> list[BlockSpec]:
    leaf = lambda s: isinstance(s, (BlockSpec, NoBlockSpec))
    flat = [specs] * n if leaf(specs) else tree_flatten(specs, is_leaf=leaf)[0]
    for s in flat:
        if not isinstance(s, BlockSpec):
            raise TypeError(
                f"out_block_specs must be a pl.BlockSpec or a tuple of such, got {s!r} of type {type(s)}."
            )
    if len(flat) != n:
        tree = tree_structure(result(list(range(n))))
        raise ValueError(
            f"out_block_specs must have a pl.BlockSpec for each of {n} results of the function, a tree {tree}, got "
            f"{len(flat)}."
        )
    return flat


class _Puller:
    """Pulls blocks of results back to the arguments of a jaxpr."""

    def __init__(
        self, jaxpr: Jaxpr, scalars: Scalars, specs: Sequence[BlockSpec], grid_len: int | None, strict: bool
    ):  # fmt: skip
        self.jaxpr = jaxpr
        self.scalars = scalars
        self.specs = specs
        self.grid_len = grid_len
        self.strict = strict
        self._scalar_variables = scalar_variables(jaxpr)

    # The way back

    def transforms(self) -> dict[Any, Transform]:
        """Return the transform of each variable that is needed."""
        found: dict[Any, Transform] = {}
        for k, (v, spec) in enumerate(zip(self.jaxpr.outvars, self.specs)):
            first = BlockIndexTransform(
                None if spec.block_shape is None else tuple(spec.block_shape),
                _selected(k),
                memory_space=spec.memory_space,
                pipeline_mode=spec.pipeline_mode,
            )
            if spec.block_shape is not None and len(spec.block_shape) != len(v.aval.shape):
                raise ValueError(
                    f"The block shape {tuple(spec.block_shape)} of result {k} must have as many dimensions as the "
                    f"result, which is of type {v.aval.str_short()}."
                )
            self._need(found, v, first, None)
        for eqn in reversed(self.jaxpr.eqns):
            outs = [found.get(v) for v in eqn.outvars]
            if all([t is None for t in outs]):
                continue
            for v, t in zip(eqn.invars, self._pull(eqn, outs), strict=True):
                if t is not None:
                    self._need(found, v, t, eqn)
        return found

    def _pull(self, eqn: JaxprEqn, outs: Sequence[Any]) -> Sequence[Any]:
        ctx = PullContext(eqn, self.scalars)
        name = eqn.primitive.name
        given = [t for t in outs if t is not None]
        is_random = name in ("random_bits", "random_gamma")
        if all([is_whole(t) for t in given]) and not is_random and name != "custom_fusion":
            return [
                key_transform if _is_key_array(v.aval) and not v.aval.shape else whole
                for v in eqn.invars
            ]
        rule = pull_rules.get(name)
        if rule is None:
            raise ctx.refuse(
                "there is no rule for it",
                "Compute its result before the function that is fused, or in the kernel.",
            )
        return rule(ctx, tuple(outs), **eqn.params)

    def _need(self, found: dict[Any, Transform], v: Any, t: Transform, eqn: Any) -> None:
        if type(v) is Literal or (v in self._scalar_variables and self.scalars.knows(v)):
            return
        if not v.aval.shape and not is_key(t):
            t = whole
        old = found.get(v)
        if old is None:
            found[v] = t
        elif not self._same(old, t):
            where = "" if eqn is None else f" at {source_info_util.summarize(eqn.source_info)}"
            raise ValueError(
                "Fusion contains a DAG, cannot uniquely pull block specs: an array of type "
                f"{v.aval.str_short()} is used{where} in {_shown(t)}, and elsewhere in {_shown(old)}. Pass the "
                "array to the function twice, compute one of the uses before the function that is fused, or choose blocks "
                f"for which both are the same.\n{self.jaxpr}"
            )

    def _same(self, a: Transform, b: Transform) -> bool:
        if not isinstance(a, BlockIndexTransform) or not isinstance(b, BlockIndexTransform):
            return a is b
        if not same_dims(a.block_shape, b.block_shape) or a.memory_space != b.memory_space:
            return False
        if a.block_shape is None or not self.strict:
            return True
        return self._same_index(a, b)

    def _same_index(self, a: BlockIndexTransform, b: BlockIndexTransform) -> bool:
        """Whether two transforms give the same index, as far as their operations tell."""
        ids = [_index] * (self.grid_len or 0)
        scalars = [v.aval for v in self.scalars.operands]
        opaque = [[_index] * len(s.block_shape or ()) for s in self.specs]
        widths = [len(o) for o in opaque]

        def run(*xs: Any) -> list[Any]:
            grid, xs = xs[: len(ids)], xs[len(ids) :]
            operands, xs = xs[: len(scalars)], xs[len(scalars) :]
            indices: list[Any] = []
            by_map: dict[int, Any] = {}
            for spec, width in zip(self.specs, widths):
                own, xs = xs[:width], xs[width:]
                key = id(spec.index_map)
                if key not in by_map:
                    by_map[key] = self._index_on_grid(spec, grid, own)
                indices.append(by_map[key])
            with self.scalars.given(operands, are_own=True):
                both = [t.block_index_transform(*indices) for t in (a, b)]
            return [np.int32(i) if isinstance(i, (int, np.integer)) else i for t in both for i in t]

        avals = [*ids, *scalars, *[x for o in opaque for x in o]]
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, avals)
        numbers = _numbers_of_outputs(jaxpr, consts)
        n = len(numbers) // 2
        return numbers[:n] == numbers[n:]

    def _index_on_grid(self, spec: BlockSpec, grid: Sequence[Any], opaque: Sequence[Any]) -> Any:
        """Return the index at a point of the grid; unknown indices if it needs operands."""
        if spec.index_map is None:
            return (0,) * len(opaque)
        if self.grid_len is None:
            return tuple(opaque)
        try:
            return _as_tuple(spec.index_map(*grid))
        except Exception:  # It takes operands, whose types are not known here.
            return tuple(opaque)

    # Specs of arguments

    def spec(self, t: Any) -> Any:
        """Return the block spec of an argument."""
        if t is None or not isinstance(t, BlockIndexTransform):
            return no_block_spec
        index_map = None if t.block_shape is None else self._index_map(t)
        return BlockSpec(
            t.block_shape, index_map, memory_space=t.memory_space, pipeline_mode=t.pipeline_mode
        )

    def _index_map(self, t: BlockIndexTransform) -> Callable[..., Any]:
        def index_map(*ids: Any) -> Any:
            n = len(ids) if self.grid_len is None else self.grid_len
            with self.scalars.given(ids[n:]):
                return t.block_index_transform(*self.out_indices(ids))

        return index_map

    def out_indices(self, ids: Sequence[Any]) -> list[Any]:
        """Return the indices of the blocks of the results."""
        return [_as_tuple(s.index_map(*ids)) if s.index_map else _zeros(s) for s in self.specs]

    # The way forth, in a kernel

    def run(
        self, found: dict[Any, Transform], ids: tuple[Any, ...], scalars: Any, blocks: Sequence[Any], n: int
    ) -> list[Any]:  # fmt: skip
        """Compute the blocks of the results."""
        operands = tuple(scalars)
        env: dict[Any, Any] = {}
        for v, x in zip(self.jaxpr.invars[n:], blocks, strict=True):
            self._check_block(v, found.get(v), x)
            env[v] = x

        def read(v: Any) -> Any:
            if type(v) is Literal:
                return v.val
            return env[v] if v in env else self.scalars.value(v)

        with self.scalars.given(operands):
            indices = self.out_indices((*ids, *operands))
            for eqn in self.jaxpr.eqns:
                ts = [found.get(v) for v in eqn.outvars]
                if any([t is not None for t in ts]):
                    env.update(zip(eqn.outvars, self._eval(eqn, ts, found, read, indices)))
            return [read(v) for v in self.jaxpr.outvars]

    def _eval(
        self, eqn: JaxprEqn, ts: Sequence[Any], found: Any, read: Any, indices: Any
    ) -> Sequence[Any]:
        # The starts of dynamic slices are read in index maps only.
        m = 1 if eqn.primitive.name == "dynamic_slice" else len(eqn.invars)
        blocked = not all([t is None or is_whole(t) for t in ts])
        xs = [read(v) for v in eqn.invars[: m if blocked else None]]
        rule = eval_rules.get(eqn.primitive.name)
        with eqn.ctx.manager:
            if rule is None or not blocked:
                return bind(eqn, xs)
            at = [
                t.block_index_transform(*indices)
                if isinstance(t, BlockIndexTransform) and t.block_shape is not None
                else None
                for t in ts
            ]
            ins = [None if type(v) is Literal else found.get(v) for v in eqn.invars]
            ctx = EvalContext(eqn, self.scalars, ts, at, ins)
            out = rule(ctx, *xs, **eqn.params)
        return out if eqn.primitive.multiple_results else [out]

    def _check_block(self, v: Any, t: Any, x: Any) -> None:
        if t is None or is_key(t) or not hasattr(x, "shape"):
            return
        blocked = isinstance(t, BlockIndexTransform) and t.block_shape is not None
        expected = seen_shape(t.block_shape) if blocked else v.aval.shape
        if tuple(x.shape) != tuple(expected):
            raise ValueError(
                f"The function takes a block of shape {tuple(expected)} of an array of type {v.aval.str_short()}, got an "
                f"array of shape {tuple(x.shape)}."
            )


_index = ShapedArray((), np.dtype(np.int32))


def _selected(k: int) -> Callable[..., Any]:
    return lambda *indices: indices[k]


def _as_tuple(index: Any) -> tuple[Any, ...]:
    return tuple(index) if isinstance(index, (tuple, list)) else (index,)


def _zeros(spec: BlockSpec) -> tuple[int, ...]:
    return (0,) * len(spec.block_shape or ())


def is_whole(t: Any) -> bool:
    """Whether all of an array is needed."""
    return not isinstance(t, BlockIndexTransform) or t.block_shape is None


def _is_key_array(aval: Any) -> bool:
    return isinstance(aval.dtype, dtypes.ExtendedDType)


def _shown(t: Transform) -> str:
    if not isinstance(t, BlockIndexTransform) or t.block_shape is None:
        return "a block that is the whole array"
    return f"blocks {tuple(t.block_shape)}"


def _numbers_of_outputs(jaxpr: Jaxpr, consts: Sequence[Any]) -> list[Any]:
    """Number the results of a jaxpr so that equal numbers mean equal values."""
    numbers: dict[Any, Any] = {v: ("arg", i) for i, v in enumerate(jaxpr.invars)}
    numbers.update({v: ("const", id(c)) for v, c in zip(jaxpr.constvars, consts)})
    of = lambda v: ("literal", str(v.val)) if type(v) is Literal else numbers[v]
    known: dict[Any, int] = {}
    for eqn in jaxpr.eqns:
        key = (
            eqn.primitive.name,
            tuple(map(of, eqn.invars)),
            str(sorted(eqn.params.items(), key=str)),
        )
        number = known.setdefault(key, len(known))
        numbers.update({v: (number, i) for i, v in enumerate(eqn.outvars)})
    return [of(v) for v in jaxpr.outvars]
