"""Derivatives with respect to the stored elements of sparse arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import tree_util
from jax._src.api_util import ensure_index_tuple
from jax._src.lax import lax
from jax._src.sparse.base import JAXSparse
from jax._src.transforms import derivatives, jacobians
from jax._src.util import set_module, wraps

MODULE = "jax.experimental.sparse.ad"


@set_module(MODULE)
def is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse array."""
    return isinstance(x, JAXSparse)


@set_module(MODULE)
def flatten_fun_for_sparse_ad(
    fun: Callable[..., Any], argnums: int | tuple[int, ...], args: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[int, ...], list[Any], Callable[..., Any]]:
    """Make a function of arrays of a function of trees with sparse arrays.

    Args:
      fun: function of positional arguments.
      argnums: the arguments to differentiate.
      args: its arguments.

    Returns:
      The flat function; the numbers of its arguments to differentiate, which are the elements of
      sparse arrays and the dense leaves; its arguments; and a function that makes, of the flat
      results, a tree like that of the arguments, in which sparse arrays have the given elements.

    >>> from jax.experimental import sparse
    >>> M = sparse.eye(2)
    >>> flat, argnums, args, rebuild = sparse.ad.flatten_fun_for_sparse_ad(lambda M: M.sum(), 0, (M,))
    >>> argnums, len(args), float(flat(*args))
    ((0,), 2, 2.0)
    """
    numbers = ensure_index_tuple(argnums)
    numbers = tuple(n + len(args) if n < 0 else n for n in numbers)
    if any(not 0 <= n < len(args) for n in numbers):
        raise ValueError(f"{argnums=} is out of range for {len(args)} positional arguments")
    flat_args, tree = tree_util.tree_flatten(args)
    leaf_numbers: list[int] = []
    builders: list[Any] = []
    at = 0
    chosen: dict[int, Any] = {}
    for n, arg in enumerate(args):
        leaves, arg_tree = tree_util.tree_flatten(arg, is_leaf=is_sparse)
        numbers_of_arg, makers = [], []
        for leaf in leaves:
            count = len(tree_util.tree_leaves(leaf))
            numbers_of_arg.append(at)
            makers.append(_maker(leaf))
            at += count
        chosen[n] = (numbers_of_arg, makers, arg_tree)
    for n in numbers:
        leaf_numbers += chosen[n][0]
        builders.append(chosen[n][1:])

    def flat_fun(*flat: Any, **kwargs: Any) -> Any:
        return fun(*tree_util.tree_unflatten(tree, flat), **kwargs)

    def rebuild(results: Any) -> Any:
        rest = iter(results)
        out = [
            tree_util.tree_unflatten(arg_tree, [make(next(rest)) for make in makers])
            for makers, arg_tree in builders
        ]
        return out[0] if isinstance(argnums, int) else tuple(out)

    return flat_fun, tuple(leaf_numbers), flat_args, rebuild


def _maker(leaf: Any) -> Callable[[Any], Any]:
    if not is_sparse(leaf):
        return lambda x: x
    (data, *buffers), info = leaf.tree_flatten()

    def make(x: Any) -> Any:
        outer = x.shape[: x.ndim - data.ndim]
        if not outer:
            return type(leaf).tree_unflatten(info, [x, *buffers])
        # A Jacobian: the dimensions of the result become batch dimensions.
        repeated = [
            lax.broadcast_in_dim(b, (*outer, *b.shape), range(len(outer), len(outer) + b.ndim))
            for b in buffers
        ]
        new_info = {**info, "shape": (*outer, *leaf.shape)}
        return type(leaf).tree_unflatten(new_info, [x, *repeated])

    return make


def _of_sparse(transform: Callable[..., Any], wrap: Callable[..., Any], doc: str) -> Any:
    def with_sparse(
        fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
    ) -> Callable:
        plain = transform(fun, argnums=argnums, has_aux=has_aux, **kwargs)

        @wraps(fun, docstr=doc, argnums=argnums)
        def derivative(*args: Any, **fun_kwargs: Any) -> Any:
            numbers = argnums if isinstance(argnums, int) else tuple(argnums)
            flat_fun, flat_numbers, flat_args, rebuild = flatten_fun_for_sparse_ad(
                fun, numbers, args
            )
            if not any(map(is_sparse, tree_util.tree_leaves(args, is_leaf=is_sparse))):
                return plain(*args, **fun_kwargs)
            out = transform(flat_fun, argnums=flat_numbers, has_aux=has_aux, **kwargs)
            return wrap(out(*flat_args, **fun_kwargs), rebuild, has_aux)

        return derivative

    return with_sparse


def _first(out: Any, rebuild: Callable[..., Any], has_aux: bool) -> Any:
    if has_aux:
        return rebuild(out[0]), out[1]
    return rebuild(out)


def _second(out: Any, rebuild: Callable[..., Any], has_aux: bool) -> Any:
    return out[0], rebuild(out[1])


def _leafwise(out: Any, rebuild: Callable[..., Any], has_aux: bool) -> Any:
    """Jacobians: the tuple of derivatives is at every leaf of the result."""
    out, *aux = out if has_aux else (out,)
    is_tuple = lambda x: type(x) is tuple and not any(type(y) is tuple for y in x)
    tree = tree_util.tree_map(rebuild, out, is_leaf=is_tuple)
    return (tree, *aux) if has_aux else tree


_grad = _of_sparse(derivatives.grad, _first, "Gradient of {fun}")
_value_and_grad = _of_sparse(derivatives.value_and_grad, _second, "Value and gradient of {fun}")
_jacfwd = _of_sparse(jacobians.jacfwd, _leafwise, "Jacobian of {fun}")
_jacrev = _of_sparse(jacobians.jacrev, _leafwise, "Jacobian of {fun}")


@set_module(MODULE)
def grad(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable:
    """`jax.grad` for functions of sparse arrays.

    Args:
      fun, argnums, has_aux, **kwargs: as for `jax.grad`.

    Returns:
      A function that returns, for a sparse argument, a sparse array with the same indices, whose
      elements are the derivatives with respect to the stored elements.

    >>> from jax.experimental import sparse
    >>> X = sparse.BCOO.fromdense(jnp.arange(6.))
    >>> sparse.grad(lambda X, y: X @ y)(X, jnp.ones(6))
    BCOO(float32[6], nse=5)
    """
    return _grad(fun, argnums, has_aux, **kwargs)


@set_module(MODULE)
def value_and_grad(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., tuple[Any, Any]]:
    """`jax.value_and_grad` for functions of sparse arrays; see `grad`.

    >>> from jax.experimental import sparse
    >>> X = sparse.BCOO.fromdense(jnp.arange(6.))
    >>> sparse.value_and_grad(lambda X, y: X @ y)(X, jnp.ones(6))
    (Array(15., dtype=float32), BCOO(float32[6], nse=5))
    """
    return _value_and_grad(fun, argnums, has_aux, **kwargs)


@set_module(MODULE)
def jacfwd(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable:
    """`jax.jacfwd` for functions of sparse arrays with dense results.

    Args:
      fun, argnums, has_aux, **kwargs: as for `jax.jacfwd`.

    Returns:
      A function that returns, for a sparse argument, a sparse array: dimensions of the result are
      batch dimensions in front of those of the argument.

    >>> from jax.experimental import sparse
    >>> X = sparse.BCOO.fromdense(jnp.array([[0., 2.], [3., 0.]]))
    >>> sparse.jacfwd(lambda X: X @ jnp.ones(2))(X)
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    return _jacfwd(fun, argnums, has_aux, **kwargs)


@set_module(MODULE)
def jacrev(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable:
    """`jax.jacrev` for functions of sparse arrays with dense results; see `jacfwd`.

    >>> from jax.experimental import sparse
    >>> X = sparse.BCOO.fromdense(jnp.array([[0., 2.], [3., 0.]]))
    >>> sparse.jacrev(lambda X: X @ jnp.ones(2))(X)
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    return _jacrev(fun, argnums, has_aux, **kwargs)


jacobian = jacrev
