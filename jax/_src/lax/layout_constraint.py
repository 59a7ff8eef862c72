"""`with_layout_constraint`: constrains the memory layout of values, also inside `jax.jit`."""

from __future__ import annotations

from typing import Any

from jax._src import core
from jax._src.array_impl import ArrayImpl, default_sharding
from jax._src.device_put import values as placing
from jax._src.interpreters import ad, mlir
from jax._src.layout import AutoLayoutSingleton, Format, Layout, get_layout_for_vmap
from jax._src.tree_util import broadcast_prefix, prefix_errors, tree_flatten


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """Constrain the memory layout of arrays.

    Args:
      x: a pytree of arrays.
      layouts: a pytree prefix of `x` with `Layout` leaves.

    Returns:
      Arrays with the same elements. Results of a compiled function keep the layout.

    Raises:
      ValueError: if a leaf of `layouts` is not a `Layout` or has another rank, or the trees do not
        match.

    >>> from jax.experimental.layout import Layout, with_layout_constraint
    >>> by_columns = jax.jit(lambda x: with_layout_constraint(x * 2, Layout((1, 0))))
    >>> by_columns(jnp.ones((2, 3))).format.layout.major_to_minor
    (1, 0)
    """
    leaves, treedef = tree_flatten(x)
    is_leaf = lambda v: v is None or isinstance(v, (Layout, Format, AutoLayoutSingleton))
    name = "with_layout_constraint layouts"
    try:
        given = broadcast_prefix(layouts, x, is_leaf=is_leaf)
    except ValueError:
        if not (errors := prefix_errors(layouts, x, is_leaf=is_leaf)):
            raise
        details = "\n".join(str(error(name)) for error in errors)
        raise ValueError(
            f"{name} specification must be a tree prefix of the corresponding value;\n"
            f"Mismatch details ({len(errors)} found):\n{details}"
        ) from None
    if any(not isinstance(layout, Layout) for layout in given):
        raise ValueError(
            "layouts passed to `with_layout_constraint` must be of type `Layout`. Got"
            f" {[type(layout) for layout in given]}"
        )
    return treedef.unflatten([_constrain(leaf, layout) for leaf, layout in zip(leaves, given)])


def _constrain(x: Any, layout: Layout) -> Any:
    try:
        layout.check_compatible_aval(core.typeof(x).shape)
    except ValueError as err:
        raise ValueError(
            "One of with_layout_constraint arguments is incompatible with its layout annotation"
            f" {layout}: {err}"
        ) from None
    return layout_constraint_p.bind(x, layout=layout)


layout_constraint_p = core.Primitive("layout_constraint")
layout_constraint_p.def_abstract_eval(lambda aval, *, layout: aval)


@layout_constraint_p.def_impl
def _impl(x: Any, *, layout: Layout) -> Any:
    sharding = x._sharding if type(x) is ArrayImpl else default_sharding()
    return placing.device_put_value(x, Format(layout, sharding), placing.REUSE)


def _lower(ctx: Any, x: Any, *, layout: Layout) -> Any:
    (aval,) = ctx.avals_out
    return [mlir.wrap_with_layout_op(ctx, x, aval, layout, ctx.avals_in[0])]


def _batch(args: Any, dims: Any, *, layout: Layout) -> Any:
    (x,), (dim,) = args, dims
    return layout_constraint_p.bind(x, layout=get_layout_for_vmap(dim, layout)), dim


ad.deflinear2(layout_constraint_p, lambda ct, _, **params: [layout_constraint_p.bind(ct, **params)])
layout_constraint_p.batch = _batch
mlir.register_lowering(layout_constraint_p, _lower)
