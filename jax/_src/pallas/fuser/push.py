"""Which blocks of the result of a function come from blocks of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import source_info_util
from jax._src.core import JaxprEqn, Literal
from jax._src.pallas.blocks import BlockSpec, NoBlockSpec, no_block_spec
from jax._src.pallas.fuser.pull_rules import n_ary, unary
from jax._src.pallas.fuser.reshaping import reshaped
from jax._src.pallas.fuser.staging import stage
from jax._src.pallas.fuser.transforms import BlockIndexTransform, is_squeezed, same_dims, size_of
from jax._src.tree_util import tree_flatten, tree_unflatten

push_rules: dict[str, Callable[..., Any]] = {}


def push_block_spec(
    f: Callable[..., Any], *in_spec_args: Any, **in_spec_kwargs: Any
) -> Callable[..., Any]:
    """Find the blocks of the results of a function that come from blocks of its arguments.

    Args:
      f: the function.
      in_spec_args, in_spec_kwargs: trees of `pl.BlockSpec` for its arguments; `pl.no_block_spec` for
        arguments that are the same for all blocks, such as scalars.

    Returns:
      A function of the arguments, or of types like them, that returns a tree of the specs of the results.

    Raises:
      ValueError: if an operation has operands with different specs.
      NotImplementedError: if an operation's result is not computed by blocks.

    >>> block = pl.BlockSpec((2, 4), lambda i, j: (i, j))
    >>> spec = fuser.push_block_spec(lambda x: x.T * 2, block)(jnp.ones((8, 8)))
    >>> spec.block_shape, spec.index_map(0, 1)
    ((4, 2), (1, 0))
    """

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        staged = stage(f, args, kwargs)
        leaf = lambda s: isinstance(s, (BlockSpec, NoBlockSpec)) or s is None
        specs, tree = tree_flatten((in_spec_args, in_spec_kwargs), is_leaf=leaf)
        if tree != staged.in_tree:
            raise ValueError(
                f"push_block_spec was given specs of the structure {tree}, and arguments of {staged.in_tree}. They must be "
                "the same: give a pl.BlockSpec, or pl.no_block_spec, for each array."
            )
        for s in specs:
            if s is None or not leaf(s):
                raise TypeError(f"push_block_spec takes pl.BlockSpec, got {s!r} of type {type(s)}.")
        n = len(staged.consts)
        found: dict[Any, Any] = dict(zip(staged.jaxpr.invars[n:], specs))
        read = lambda v: no_block_spec if type(v) is Literal else found.get(v, no_block_spec)
        for eqn in staged.jaxpr.eqns:
            found.update(zip(eqn.outvars, _push(eqn, [read(v) for v in eqn.invars]), strict=True))
        return tree_unflatten(staged.out_tree, [read(v) for v in staged.jaxpr.outvars])

    return wrapped


def _push(eqn: JaxprEqn, specs: Sequence[Any]) -> Sequence[Any]:
    name = eqn.primitive.name
    if not any([isinstance(s, BlockSpec) for s in specs]) and name != "custom_fusion":
        return [no_block_spec] * len(eqn.outvars)
    rule = push_rules.get(name)
    if rule is None:
        raise _refuse(eqn, "there is no rule for it")
    return rule(eqn, tuple(specs), **eqn.params)


def _refuse(eqn: JaxprEqn, why: str) -> NotImplementedError:
    types = ", ".join([v.aval.str_short() for v in eqn.invars])
    return NotImplementedError(
        f"Block specs cannot be pushed through {eqn.primitive.name} of ({types}), at "
        f"{source_info_util.summarize(eqn.source_info)}: {why}. Compute it after the kernel, outside of the function that is "
        "fused."
    )


def _pushes(*names: str) -> Callable[[Any], Any]:
    def register(rule: Any) -> Any:
        push_rules.update(dict.fromkeys(names, rule))
        return rule

    return register


def _then(s: BlockSpec, block_shape: Sequence[Any], of_index: Callable[[Any], Any]) -> BlockSpec:
    """Return the spec of an array whose block's index is a function of that of another array's."""
    own = s.index_map
    n = len(s.block_shape or ())
    index_map = lambda *ids: tuple(of_index(tuple(own(*ids)) if own else (0,) * n))
    return s.replace(block_shape=tuple(block_shape), index_map=index_map)


@_pushes(*unary, *n_ary, "optimization_barrier")
def _push_elementwise(eqn: JaxprEqn, specs: Any, **_: Any) -> list[Any]:
    if eqn.primitive.name == "optimization_barrier":
        return list(specs)
    given = [(v, s) for v, s in zip(eqn.invars, specs) if isinstance(s, BlockSpec)]
    shape = eqn.outvars[0].aval.shape
    for v, s in given:
        if s.block_shape is not None and v.aval.shape != shape:
            raise _refuse(eqn, "an operand with blocks is repeated along a dimension")
    first = given[0][1]
    for _, s in given[1:]:
        if not same_dims(s.block_shape, first.block_shape) or s.index_map is not first.index_map:
            raise ValueError(
                f"The operands of {eqn.primitive.name} at {source_info_util.summarize(eqn.source_info)} have different "
                f"block specs, {first} and {s}. Give all but one pl.no_block_spec, or use one pl.BlockSpec, with one index map, for "
                "all."
            )
    return [first]


@_pushes("transpose")
def _push_transpose(eqn: JaxprEqn, specs: Any, *, permutation: Any) -> list[Any]:
    (s,) = specs
    if s.block_shape is None:
        return [s]
    return [
        _then(s, [s.block_shape[p] for p in permutation], lambda at: [at[p] for p in permutation])
    ]


@_pushes("broadcast_in_dim")
def _push_broadcast(
    eqn: JaxprEqn, specs: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any
) -> list[Any]:
    s = specs[0]
    if s.block_shape is None:
        return [s]
    small = eqn.invars[0].aval.shape
    of = {j: k for k, j in enumerate(broadcast_dimensions) if small[k] == shape[j]}
    dims = [s.block_shape[of[j]] if j in of else n for j, n in enumerate(shape)]
    return [_then(s, dims, lambda at: [at[of[j]] if j in of else 0 for j in range(len(shape))])]


@_pushes("reshape")
def _push_reshape(eqn: JaxprEqn, specs: Any, **_: Any) -> list[Any]:
    s = specs[0]
    if s.block_shape is None:
        return [s]
    old, new = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    t = reshaped(old, new, BlockIndexTransform(tuple(s.block_shape), lambda at: tuple(at)))
    if t is None:
        raise _refuse(eqn, f"blocks {tuple(s.block_shape)} are not blocks of {new}")
    return [_then(s, t.block_shape or (), t.block_index_transform)]


@_pushes("squeeze")
def _push_squeeze(eqn: JaxprEqn, specs: Any, *, dimensions: Any, **_: Any) -> list[Any]:
    (s,) = specs
    if s.block_shape is None:
        return [s]
    without = lambda xs: [x for k, x in enumerate(xs) if k not in dimensions]
    return [_then(s, without(s.block_shape), without)]


@_pushes(
    "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor",
    "argmax", "argmin",
)  # fmt: skip
def _push_reduction(eqn: JaxprEqn, specs: Any, *, axes: Any, **_: Any) -> list[Any]:
    (s,) = specs
    if s.block_shape is None:
        return [s]
    shape = eqn.invars[0].aval.shape
    for k in axes:
        d = s.block_shape[k]
        if is_squeezed(d) or size_of(d) != shape[k]:
            raise _refuse(eqn, f"a block has not all {shape[k]} elements along dimension {k}")
    without = lambda xs: [x for k, x in enumerate(xs) if k not in axes]
    return [_then(s, without(s.block_shape), without)]
