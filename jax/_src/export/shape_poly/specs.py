"""Symbolic shapes from texts, and specifications of arguments that have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import core, dtypes, tree_util
from jax._src.api_util import shaped_abstractify
from jax._src.export.shape_poly.parsing import Parser
from jax._src.export.shape_poly.scope import SymbolicScope


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """The symbolic shape that a text describes.

    Args:
      shape_spec: dimensions separated by commas, like 'batch, 2*n + 1, mod(n, 4), 3': sums and
        products of integers and names, max(x, y), min(x, y), mod(x, y), floordiv(x, y). The
        placeholders '_' and, at the end, '...' stand for sizes of `like`; None is '...'.
      constraints: what holds for the dimensions: 'a >= 2*b', 'a <= 8', 'mod(a, 4) == 0'.
      scope: the scope of the names; by default a new one with the constraints.
      like: a shape for the placeholders; a dimension that is None has no placeholder.

    Returns:
      A tuple of ints and symbolic dimensions.

    Raises:
      ValueError: if the text or a constraint cannot be read, a placeholder has no size, a constant
        differs from `like`, or both `scope` and `constraints` are given.

    >>> from jax import export
    >>> export.symbolic_shape("batch, 2*n, 3")
    (batch, 2*n, 3)
    """
    if shape_spec is not None and not isinstance(shape_spec, str):
        raise ValueError(
            f"polymorphic shape spec should be None or a string. Found {shape_spec!r}."
        )
    scope = _scope(scope, constraints)
    text = "..." if shape_spec is None else shape_spec
    return Parser(text, scope, like=None if like is None else tuple(like)).shape()


def _scope(scope: SymbolicScope | None, constraints: Sequence[str]) -> SymbolicScope:
    if scope is None:
        return SymbolicScope(constraints)
    if constraints:
        raise ValueError(
            "Cannot specify both a `scope` and `constraints`: a scope has its constraints from when it "
            "was made, by jax.export.SymbolicScope(constraints)."
        )
    return scope


def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """Specifications of arguments with symbolic shapes, for `jax.export.export`.

    Args:
      args: a tree of arrays or `jax.ShapeDtypeStruct`: the dtypes, and sizes for placeholders.
      shapes_specs: None (all shapes are those of `args`), a text (for all arguments), or a tree of
        these, of which `args` has the structure or a deeper one. See `symbolic_shape`.
      constraints: see `symbolic_shape`.
      scope: see `symbolic_shape`.

    Returns:
      `args` with each leaf a `jax.ShapeDtypeStruct`.

    Raises:
      ValueError: if the trees do not match, or as `symbolic_shape` does.

    >>> from jax import export
    >>> import numpy as np
    >>> export.symbolic_args_specs({"x": np.ones((4, 3))}, "batch, ...")
    {'x': ShapeDtypeStruct(shape=(batch, 3), dtype=float32)}
    """
    scope = _scope(scope, constraints)
    leaves, tree = tree_util.tree_flatten(args)
    if isinstance(shapes_specs, list) and isinstance(args, tuple):
        shapes_specs = tuple(shapes_specs)
    specs = tree_util.broadcast_prefix(shapes_specs, args, is_leaf=lambda x: x is None)
    structs = []
    for leaf, spec in zip(leaves, specs, strict=True):
        typed = (
            leaf if hasattr(leaf, "shape") and hasattr(leaf, "dtype") else shaped_abstractify(leaf)
        )
        shape = symbolic_shape(spec, scope=scope, like=typed.shape)
        dtype = typed.dtype
        if not isinstance(leaf, core.ShapeDtypeStruct):  # those of arrays become what jit takes
            dtype = dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
        structs.append(core.ShapeDtypeStruct(shape, dtype))
    return tree_util.tree_unflatten(tree, structs)
