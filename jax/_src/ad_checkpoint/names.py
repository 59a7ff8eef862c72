"""Names for values, by which policies of `checkpoint` can select them."""

from typing import Any

from jax._src.core import Primitive, typeof
from jax._src.interpreters import mlir
from jax._src.tree_util import tree_flatten, tree_unflatten

name_p = Primitive("name")


def checkpoint_name(x: Any, name: str) -> Any:
    """Name a value (or every leaf of a tree), for policies of `checkpoint`.

    Args:
      x: array or tree.
      name: the name.

    Returns:
      `x`.
    """
    leaves, tree = tree_flatten(x)
    for leaf in leaves:
        typeof(leaf)
    return tree_unflatten(tree, [name_p.bind(leaf, name=name) for leaf in leaves])


name_p.def_impl(lambda x, *, name: x)
name_p.def_abstract_eval(lambda aval, *, name: aval)


def _name_jvp(primals, tangents, *, name):
    (x,), (t,) = primals, tangents
    return name_p.bind(x, name=name), t


name_p.jvp = _name_jvp
name_p.batch = lambda args, dims, *, name: (name_p.bind(args[0], name=name), dims[0])
mlir.register_lowering(name_p, lambda ctx, x, *, name: [x])
