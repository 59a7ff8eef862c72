"""Functions that `jax.interpreters.ad` has in a form of their own; our own code does not use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax._src.ad_util import is_zero
from jax._src.interpreters.ad.linearize import linearize as linearize_flat
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.tree_util.flat_tree import FlatTree


def linearize(
    traceable: Callable[..., Any], primals_ft: FlatTree, has_aux: bool = False, is_vjp: bool = False
) -> tuple[Any, ...]:
    """Compute the result of a function of pytrees, and its linear part as a jaxpr.

    Args:
      traceable: the function.
      primals_ft: its arguments, `FlatTree.flatten(args)`. All are differentiated.
      has_aux: whether it returns a pair whose second element, of values, is not differentiated.
      is_vjp: whether the jaxpr is to be transposed; any is transposable, so that it is the same.

    Returns:
      The result, a `FlatTree`; for each of its leaves whether the tangent is zero; the jaxpr from
      tangents of the arguments to the tangents that are not zero; its constants; and with `has_aux`
      the second element.

    >>> from jax.experimental.scheduling_groups import FlatTree
    >>> from jax.interpreters import ad
    >>> out, zeros, jaxpr, consts = ad.linearize(lambda x: (x * x, 1), FlatTree.flatten((3.0,)))
    >>> out.unflatten(), zeros
    ((Array(9., dtype=float32, weak_type=True), 1), [False, True])
    """
    trees: list[Any] = []

    def flat(*args: Any) -> list[Any]:
        out = traceable(*tree_unflatten(primals_ft.tree, args))
        out, aux = out if has_aux else (out, ())
        (leaves, tree), (aux_leaves, aux_tree) = tree_flatten(out), tree_flatten(aux)
        trees.extend((tree, aux_tree))
        return [*leaves, *aux_leaves]

    values, linear = linearize_flat(flat, primals_ft.vals)
    tree, aux_tree = trees
    n = tree.num_leaves
    zeros = [is_zero(t) for t in linear.outs[:n]]
    linear.outs = linear.outs[:n]
    jaxpr, consts = linear.to_jaxpr(nonzero_outs=True)
    found = FlatTree(values[:n], tree), zeros, jaxpr, consts
    return (*found, tree_unflatten(aux_tree, values[n:])) if has_aux else found
