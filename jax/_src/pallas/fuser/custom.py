"""Functions with rules of their own for what blocks they need and compute."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.fuser.calls import bind_call, call_primitive
from jax._src.pallas.fuser.pull import EvalContext, PullContext, eval_rules, pull_rules
from jax._src.pallas.fuser.push import push_rules
from jax._src.pallas.fuser.staging import stage
from jax._src.pallas.fuser.transforms import BlockIndexTransform, whole
from jax._src.tree_util import tree_flatten, tree_leaves, tree_unflatten

# The operands are what the function closes over, and its arguments.
custom_fusion_p = call_primitive("custom_fusion")


@dataclasses.dataclass(frozen=True)
class CustomEvalContext:
    """What a rule that computes a block knows.

    Attributes:
      out_block_specs: the specs of the results.
      out_block_indices: the indices of the blocks of the results.
    """

    out_block_specs: tuple[Any, ...]
    out_block_indices: tuple[Any, ...]


class custom_fusion:
    """A function that has rules for the blocks that it needs and computes, in place of its operations'.

    Args:
      fun: function of positional arguments, which are trees of arrays. Outside of fusions it is what is
        computed.

    >>> @fuser.custom_fusion
    ... def flipped(x):
    ...   return x.T
    >>> @flipped.def_pull_block_spec
    ... def _(transforms):
    ...   t, = transforms
    ...   index = lambda *at: t.block_index_transform(*at)[::-1]
    ...   return (t.replace(block_shape=t.block_shape[::-1], block_index_transform=index),)
    >>> @flipped.def_eval_rule
    ... def _(ctx, x):
    ...   return x.T
    >>> block = pl.BlockSpec((2, 4), lambda i, j: (i, j))
    >>> f, (spec,), _ = fuser.pull_block_spec(flipped, block, grid_len=2)(jnp.ones((8, 8)))
    >>> spec.block_shape, f((0, 0), (), jnp.ones((4, 2))).shape
    ((4, 2), (2, 4))
    """

    eval_rule: Callable[..., Any] | None = None
    pallas_impl: Callable[..., Any] | None = None
    pull_block_spec_rule: Callable[..., Any] | None = None
    push_block_spec_rule: Callable[..., Any] | None = None

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun

    def def_pull_block_spec(self, pull_block_spec_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule for the blocks that are needed.

        Args:
          pull_block_spec_rule: function of a tuple of `BlockIndexTransform`, one for each leaf of the
            result. It returns a sequence of such, one for each leaf of the arguments. Those of results that
            are not needed are of another type.
        """
        self.pull_block_spec_rule = pull_block_spec_rule
        return pull_block_spec_rule

    def def_push_block_spec(self, push_block_spec_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule for the blocks of results that come from blocks of arguments.

        Args:
          push_block_spec_rule: function of a tuple of `pl.BlockSpec`, one for each leaf of the arguments,
            that returns a sequence of such, one for each leaf of the result.
        """
        self.push_block_spec_rule = push_block_spec_rule
        return push_block_spec_rule

    def def_eval_rule(self, eval_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the function that computes a block.

        Args:
          eval_rule: function of an object with the attributes `out_block_specs` and `out_block_indices`,
            which have an item for each leaf of the result, and of the blocks of the leaves of the arguments.
        """
        self.eval_rule = eval_rule
        return eval_rule

    def def_pallas_impl(self, pallas_impl: Callable[..., Any]) -> Callable[..., Any]:
        """Set the function that kernels which are compiled have in place of the function.

        Args:
          pallas_impl: function of the same arguments. If there is no rule that computes a block, the function
            itself is applied to blocks.
        """
        self.pallas_impl = pallas_impl
        return pallas_impl

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = getattr(self.fun, "__name__", str(self.fun))
        if self.pull_block_spec_rule is None or (
            self.eval_rule is None and self.pallas_impl is None
        ):
            raise ValueError(
                f"The custom_fusion {name} needs a rule for its blocks, def_pull_block_spec, and one that computes a block: "
                "def_eval_rule or def_pallas_impl."
            )
        args = _positional(self.fun, name, args, kwargs)
        staged = stage(self.fun, args, {}, inline=False)
        return bind_call(custom_fusion_p, staged, tree_leaves(args), rules=self)


def _positional(fun: Any, name: str, args: Any, kwargs: Any) -> tuple[Any, ...]:
    try:
        bound = inspect.signature(fun).bind(*args, **kwargs)
    except ValueError:  # A function without a signature.
        bound = None
    if bound is not None:
        bound.apply_defaults()
        args, kwargs = bound.args, bound.kwargs
    if kwargs:
        raise TypeError(
            f"The arguments of the custom_fusion {name} must be positional; {', '.join(kwargs)} can be given by keyword only."
        )
    return tuple(args)


def _pull(ctx: PullContext, outs: Any, *, num_consts: int, rules: custom_fusion, **_: Any) -> Any:
    assert rules.pull_block_spec_rule is not None
    given = tuple([whole if t is None else t for t in outs])
    ins = tuple(rules.pull_block_spec_rule(given))
    n = len(ctx.avals_in) - num_consts
    if len(ins) != n or not all([t is whole or isinstance(t, BlockIndexTransform) for t in ins]):
        raise TypeError(
            f"The rule {rules.pull_block_spec_rule} must return a fuser.BlockIndexTransform for each of {n} arguments, got "
            f"{ins}."
        )
    return [*[whole] * num_consts, *ins]


def _eval(
    ctx: EvalContext, *xs: Any, num_consts: int, in_tree: Any, rules: custom_fusion, **_: Any
) -> Any:
    blocks = xs[num_consts:]
    if rules.eval_rule is None:
        args, _ = tree_unflatten(in_tree, blocks)
        return tree_leaves(rules(*args))
    specs = [_spec(t, at) for t, at in zip(ctx.out_transforms, ctx.out_block_indices)]
    context = CustomEvalContext(tuple(specs), tuple(ctx.out_block_indices))
    outs = tree_flatten(rules.eval_rule(context, *blocks))[0]
    if len(outs) != len(ctx.avals_out):
        raise TypeError(
            f"The rule {rules.eval_rule} must return {len(ctx.avals_out)} arrays, got {len(outs)}."
        )
    return outs


def _spec(t: Any, at: Any) -> Any:
    if not isinstance(t, BlockIndexTransform):
        return None
    index_map = None if t.block_shape is None else (lambda *_: at)
    return BlockSpec(
        t.block_shape, index_map, memory_space=t.memory_space, pipeline_mode=t.pipeline_mode
    )


def _push(eqn: Any, specs: Any, *, num_consts: int, rules: custom_fusion, **_: Any) -> Any:
    if rules.push_block_spec_rule is None:
        name = getattr(rules.fun, "__name__", str(rules.fun))
        raise ValueError(
            f"The custom_fusion {name} has no rule for the blocks of its result. Set one, def_push_block_spec."
        )
    outs = tuple(rules.push_block_spec_rule(tuple(specs[num_consts:])))
    if len(outs) != len(eqn.outvars):
        raise TypeError(
            f"The rule {rules.push_block_spec_rule} must return a pl.BlockSpec for each of {len(eqn.outvars)} results, got {outs}."
        )
    return outs


pull_rules["custom_fusion"] = _pull
eval_rules["custom_fusion"] = _eval
push_rules["custom_fusion"] = _push
