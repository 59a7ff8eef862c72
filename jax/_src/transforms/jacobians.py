"""Matrices of derivatives: `jacfwd`, `jacrev`, `hessian`."""

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from jax._src import core, dtypes, traceback_util
from jax._src.ad_util import with_manual_type
from jax._src.api_util import argnums_partial, check_callable, ensure_index
from jax._src.core import typeof
from jax._src.interpreters.operand_meshes import on_devices_of_arguments
from jax._src.lax import lax, slicing
from jax._src.lax.lax.convert import to_dtype
from jax._src.lax.resharding import bind_reshard
from jax._src.transforms.derivatives import (
    check_input_dtype,
    check_output_dtype,
    in_memory_of,
    jvp,
    vjp,
)
from jax._src.transforms.vmap import vmap
from jax._src.tree_util import (
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from jax._src.util import wraps

# A small basis is a constant of the traced program, which is one equation. The compiler takes long over
# large constants: the program computes those.
_LARGEST_CONSTANT = 2**14

traceback_util.register_exclusion(__file__)
api_boundary = traceback_util.api_boundary

_JACOBIAN_DOC = (
    "Jacobian of {fun} with respect to positional argument(s) {argnums}. Takes the same arguments "
    "as {fun} but returns the jacobian of the output with respect to the arguments at positions "
    "{argnums}."
)


def jacfwd(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """Compute the Jacobian of a function column by column, in forward mode.

    Args:
      fun: function of arrays and pytrees.
      argnums: the positional argument(s) to differentiate with respect to.
      has_aux: whether `fun` returns a pair (result, auxiliary data).
      holomorphic: whether `fun` is promised to be holomorphic.

    Returns:
      A function of the same arguments that returns a tree like the result, whose leaves are trees
      like the argument: a leaf has the shape of the result's leaf followed by that of the
      argument's leaf.

    >>> print(jax.jacfwd(lambda x: jnp.stack([x[0], x[0] * x[1]]))(jnp.array([2., 3.])))
    [[1. 0.]
     [3. 2.]]
    """
    check_callable(fun)
    argnums = ensure_index(argnums)

    @wraps(fun, docstr=_JACOBIAN_DOC, argnums=argnums)
    @api_boundary
    @on_devices_of_arguments
    def jacfun(*args, **kwargs):
        f = functools.partial(fun, **kwargs) if kwargs else fun
        f_partial, dyn_args = argnums_partial(f, argnums, args)
        for leaf in tree_leaves(dyn_args):
            check_input_dtype("jacfwd", holomorphic, False, leaf)
        basis = std_basis(dyn_args)

        def push(tangents):
            out = jvp(f_partial, dyn_args, tangents, has_aux=has_aux)
            tangent = tree_map(_without_float0, out[1], out[0])
            return (tangent, out[0], out[2]) if has_aux else (tangent, out[0])

        # If results pass through mapped references they look batched, but all examples are equal.
        out_axes = (-1, None, None) if has_aux else (-1, None)
        out = vmap(push, in_axes=0, out_axes=out_axes, sum_match="first")(basis)  # type: ignore[arg-type]
        jac, y = out[0], out[1]
        for leaf in tree_leaves(y):
            _check_jac_output("jacfwd", holomorphic, leaf)
        example = dyn_args[0] if isinstance(argnums, int) else dyn_args
        jac_tree = tree_map(lambda j, of: _unravel(example, -1, _typed_like(of, j)), jac, y)
        return (jac_tree, out[2]) if has_aux else jac_tree

    return jacfun


def _without_float0(derivative, value):
    """Replace float0 derivatives (of or by integers) with zeros of the value's dtype."""
    if getattr(derivative, "dtype", None) != dtypes.float0:
        return derivative
    aval = typeof(value)
    return to_dtype(np.zeros(aval.shape, np.bool_), aval.dtype, aval.weak_type)


def _check_jac_output(name, holomorphic, x) -> None:
    dtype = typeof(x).dtype
    if holomorphic and not dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            f"{name} with holomorphic=True requires outputs with complex dtype, but got "
            f"{dtypes.dtype_name(dtype)}."
        )


def jacrev(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable:  # fmt: skip
    """Compute the Jacobian of a function row by row, in reverse mode.

    Args:
      fun: function of arrays and pytrees.
      argnums: the positional argument(s) to differentiate with respect to.
      has_aux: whether `fun` returns a pair (result, auxiliary data).
      holomorphic: whether `fun` is promised to be holomorphic.
      allow_int: whether to allow integer arguments.

    Returns:
      A function like the one returned by `jacfwd`.

    >>> print(jax.jacrev(lambda x: jnp.stack([x[0], x[0] * x[1]]))(jnp.array([2., 3.])))
    [[1. 0.]
     [3. 2.]]
    """
    check_callable(fun)
    argnums = ensure_index(argnums)

    @wraps(fun, docstr=_JACOBIAN_DOC, argnums=argnums)
    @api_boundary
    @on_devices_of_arguments
    def jacfun(*args, **kwargs):
        f = functools.partial(fun, **kwargs) if kwargs else fun
        f_partial, dyn_args = argnums_partial(f, argnums, args)
        for leaf in tree_leaves(dyn_args):
            check_input_dtype("jacrev", holomorphic, allow_int, leaf)
        if has_aux:
            y, pullback, aux = vjp(f_partial, *dyn_args, has_aux=True)
        else:
            y, pullback = vjp(f_partial, *dyn_args)
        for leaf in tree_leaves(y):
            check_output_dtype("jacrev", holomorphic, leaf)
        pull = lambda ct: tree_map(_without_float0, pullback(ct), dyn_args)
        jac = vmap(pull)(std_basis(y, of_cotangents=True))
        jac = jac[0] if isinstance(argnums, int) else jac
        example = dyn_args[0] if isinstance(argnums, int) else dyn_args
        jac_tree = tree_map(lambda j, by: _unravel(y, 0, _typed_like(by, j)), jac, example)
        jac_tree = tree_util_transpose(tree_structure(example), tree_structure(y), jac_tree)
        return (jac_tree, aux) if has_aux else jac_tree

    return jacfun


jacobian = jacrev


def tree_util_transpose(outer, inner, tree):
    """`tree_transpose` for trees whose inner leaves are arrays."""
    flat = outer.flatten_up_to(tree)
    columns = [inner.flatten_up_to(t) for t in flat]
    rows = [[c[i] for c in columns] for i in range(inner.num_leaves)]
    return tree_unflatten(inner, [tree_unflatten(outer, r) for r in rows])


def hessian(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """Compute the Hessian of a function; arguments as for `jacfwd`.

    >>> print(jax.hessian(lambda x: x[0] ** 3 * x[1])(jnp.array([1., 2.])))
    [[12.  3.]
     [ 3.  0.]]
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums, has_aux=has_aux, holomorphic=holomorphic,
    )  # fmt: skip


def std_basis(pytree, of_cotangents: bool = False):
    """The standard basis of the tree's space: leaves have a leading axis over all entries."""
    leaves, tree = tree_flatten(pytree)
    sizes = [math.prod(np.shape(x)) for x in leaves]
    total = sum(sizes)
    dtype = dtypes.result_type(*leaves)
    out, start = [], 0
    for x, n in zip(leaves, sizes):
        block = _shifted_eye(total, n, start)
        start += n
        tangent_dtype = typeof(x).to_tangent_aval().dtype
        if tangent_dtype == dtypes.float0:
            tangent_dtype = dtype
        block = to_dtype(block, tangent_dtype, typeof(x).weak_type)
        block = lax.reshape(block, (total, *np.shape(x)))
        aval = typeof(x).to_ct_aval() if of_cotangents else typeof(x)
        if (sharding := getattr(aval, "_sharding", None)) is not None:
            spec = sharding.spec.update(partitions=(None, *sharding.spec.partitions))
            block = bind_reshard(block, sharding.update(spec=spec))
        if of_cotangents:  # `jvp` moves and casts tangents itself
            block = with_manual_type(in_memory_of(aval, block), aval.manual_axis_type)
        out.append(block)
    return tree_unflatten(tree, out)


def _shifted_eye(rows: int, columns: int, start: int):
    """A boolean matrix that is an identity matrix from row `start` on."""
    if core.is_constant_shape((rows, columns)) and rows * columns <= _LARGEST_CONSTANT:
        block = np.zeros((rows, columns), np.bool_)
        block[start : start + columns] = np.eye(columns, dtype=np.bool_)
        return block
    row = lax.broadcasted_iota(np.int32, (rows, columns), 0)
    column = lax.broadcasted_iota(np.int32, (rows, columns), 1)
    return lax.eq(row, lax.add(column, lax.const(column, start)) if start != 0 else column)


def _typed_like(value, derivative):
    """The derivative with the weak type of the value."""
    aval, weak_type = typeof(derivative), typeof(value).weak_type
    if aval.weak_type == weak_type:
        return derivative
    return to_dtype(derivative, aval.dtype, weak_type)


def _unravel(pytree, axis: int, arr):
    """Split dimension `axis` of `arr` into the leaves of a tree."""
    leaves, tree = tree_flatten(pytree)
    ndim = np.ndim(arr)
    axis = axis % ndim
    shape = np.shape(arr)
    parts, start = [], 0
    for x in leaves:
        n = math.prod(np.shape(x))
        part = arr
        if len(leaves) > 1:
            part = slicing.slice_in_dim(arr, start, start + n, axis=axis)
        start += n
        parts.append(lax.reshape(part, (*shape[:axis], *np.shape(x), *shape[axis + 1 :])))
    return tree_unflatten(tree, parts)
