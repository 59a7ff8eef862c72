"""Matrix products, powers, diagonals and transposes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from jax._src import core
from jax._src.basearray import Array
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.lax.linalg.common import eye
from jax._src.numpy import matrices, tensor_products, util
from jax._src.numpy.linalg.common import export
from jax._src.numpy.linalg.solving import inv
from jax._src.numpy.manipulation import shape as shapes
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import canonicalize_axis


@export
def matrix_power(a: ArrayLike, n: int) -> Array:
    """Raises square matrices to an integer power.

    Args:
      a: array of shape (..., m, m).
      n: exponent; a negative one gives powers of the inverse.

    Returns:
      Array of shape (..., m, m).

    Raises:
      TypeError: if `n` is not an integer or `a` is not square.

    >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [0, 1]]), 3).tolist()
    [[1, 3], [0, 1]]
    """
    a = util.ensure_arraylike("jnp.linalg.matrix_power", a)
    if a.ndim < 2:
        raise TypeError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    if a.shape[-2] != a.shape[-1]:
        raise TypeError(f"Last 2 dimensions of the array must be square, got shape {a.shape}")
    try:
        n = operator.index(n)
    except TypeError as err:
        raise TypeError(f"exponent must be an integer, got {n}") from err
    if n < 0:
        a, n = inv(a), -n
    return _matrix_power(a, n=n)


def _matrix_power_impl(a, *, n):
    if n == 0:
        return lax.broadcast(eye(a.dtype, a.shape[-1]), a.shape[:-2])
    # Exponentiation by squaring.
    out = None
    while True:
        if n % 2:
            out = a if out is None else tensor_products.matmul(out, a)
        n //= 2
        if not n:
            return out
        a = tensor_products.matmul(a, a)


_matrix_power_impl.__name__ = "matrix_power"
_matrix_power = nested_jit(_matrix_power_impl, static_argnames=("n",))


@export
def multi_dot(arrays: Sequence[ArrayLike], *, precision: Any = None) -> Array:
    """Multiplies two or more matrices in the order that takes the fewest multiplications.

    Args:
      arrays: matrices whose adjacent dimensions match; the first and the last may be vectors.
      precision: precision of the products; see `jax.numpy.dot`.

    Returns:
      Array with the first dimension of the first matrix and the last one of the last.

    Raises:
      ValueError: if there are fewer than two arrays or their shapes are incompatible.

    >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)]).tolist()
    [12.0, 12.0]
    """
    util.check_arraylike("jnp.linalg.multi_dot", *arrays)
    arrays = [util.to_array(a) for a in arrays]
    if len(arrays) < 2:
        raise ValueError(f"multi_dot requires at least two arrays; got len(arrays)={len(arrays)}")
    all_shapes = [a.shape for a in arrays]
    ends = (0, len(arrays) - 1)
    if any(a.ndim not in ((1, 2) if i in ends else (2,)) for i, a in enumerate(arrays)):
        raise ValueError(
            "multi_dot: input arrays must all be two-dimensional, except for the first and last array which "
            f"may be 1 or 2 dimensional. Got array shapes {all_shapes}"
        )
    if any(a.shape[-1] != b.shape[0] for a, b in zip(arrays, arrays[1:])):
        raise ValueError(
            "multi_dot: last dimension of each array must match first dimension of following array. Got "
            f"array shapes {all_shapes}"
        )
    return _multi_dot(arrays, precision=precision)


def _multi_dot_impl(arrays, *, precision):
    first, last = arrays[0], arrays[-1]
    rows = [1 if first.ndim == 1 else first.shape[0]]
    sizes = [*rows, *[a.shape[0] for a in arrays[1:]], 1 if last.ndim == 1 else last.shape[1]]
    split = _best_splits(sizes)

    def product(i, j):
        if i == j:
            return arrays[i]
        k = split[i, j]
        return tensor_products.dot(product(i, k), product(k + 1, j), precision=precision)

    return product(0, len(arrays) - 1)


def _best_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Returns for each range (i, j) of factors the factor after which to split it.

    Factor i has shape (sizes[i], sizes[i + 1]). Dynamic programming over ranges of growing length.
    Symbolic sizes are taken to be large, and one as large as another.
    """
    sizes = [d if core.is_constant_dim(d) else _LARGE for d in sizes]
    n = len(sizes) - 1
    cost, split = {(i, i): 0 for i in range(n)}, {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return split


_LARGE = 1 << 16

_multi_dot_impl.__name__ = "multi_dot"
_multi_dot = nested_jit(_multi_dot_impl, static_argnames=("precision",))


@export
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Cross products of three-dimensional vectors along `axis`.

    Args:
      x1, x2: arrays of size 3 along `axis`; their shapes broadcast.
      axis: the axis of the components.

    Raises:
      ValueError: if the size along `axis` is not 3.

    >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    x1, x2 = util.ensure_arraylike("jnp.linalg.cross", x1, x2)
    sizes = [x.shape[canonicalize_axis(axis, x.ndim)] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they have "
            f"x1.shape[axis]={sizes[0]} and x2.shape[axis]={sizes[1]}"
        )
    return tensor_products.cross(x1, x2, axis=axis)


@export
def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Outer product of two vectors.

    Args:
      x1, x2: arrays of shapes (m,) and (n,).

    Returns:
      Array of shape (m, n).

    Raises:
      ValueError: if an argument is not one-dimensional.

    >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    x1, x2 = util.ensure_arraylike("jnp.linalg.outer", x1, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={x1.ndim} x2.ndim={x2.ndim}"
        )
    return tensor_products.outer(x1, x2)


@export
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Dot products of vectors along `axis`, conjugating the first; see `jax.numpy.vecdot`.

    >>> jnp.linalg.vecdot(jnp.ones((2, 3)), jnp.ones(3)).tolist()
    [3.0, 3.0]
    """
    util.check_arraylike("jnp.linalg.vecdot", x1, x2)
    return tensor_products.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


@export
def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Matrix product; see `jax.numpy.matmul`.

    >>> jnp.linalg.matmul(jnp.ones((2, 3)), jnp.ones(3)).tolist()
    [3.0, 3.0]
    """
    util.check_arraylike("jnp.linalg.matmul", x1, x2)
    return tensor_products.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


@export
def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Sum of products over pairs of axes; see `jax.numpy.tensordot`.

    >>> float(jnp.linalg.tensordot(jnp.ones((2, 3)), jnp.ones((2, 3))))
    6.0
    """
    util.check_arraylike("jnp.linalg.tensordot", x1, x2)
    return tensor_products.tensordot(
        x1,
        x2,
        axes=axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


@export
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Transposes the last two dimensions.

    Args:
      x: array of shape (..., m, n).

    Returns:
      Array of shape (..., n, m).

    Raises:
      ValueError: if `x` has fewer than two dimensions.

    >>> jnp.linalg.matrix_transpose(jnp.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = util.ensure_arraylike("jnp.linalg.matrix_transpose", x)
    return shapes.matrix_transpose(x)


@export
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Extracts diagonals of matrices.

    Args:
      x: array of shape (..., m, n).
      offset: which diagonal; positive offsets are above the main diagonal.

    Returns:
      Array of shape (..., k), where k is the length of the diagonal.

    Raises:
      ValueError: if `x` has fewer than two dimensions.

    >>> jnp.linalg.diagonal(jnp.arange(4).reshape(2, 2)).tolist()
    [0, 3]
    """
    x = util.ensure_arraylike("jnp.linalg.diagonal", x)
    return matrices.diagonal(x, offset=offset, axis1=-2, axis2=-1)


@export
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Sums the diagonals of matrices.

    Args:
      x: array of shape (..., m, n).
      offset: which diagonal; positive offsets are above the main diagonal.
      dtype: dtype of the sum.

    Returns:
      Array of shape (...).

    Raises:
      ValueError: if `x` has fewer than two dimensions.

    >>> int(jnp.linalg.trace(jnp.arange(4).reshape(2, 2)))
    3
    """
    x = util.ensure_arraylike("jnp.linalg.trace", x)
    return matrices.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)
