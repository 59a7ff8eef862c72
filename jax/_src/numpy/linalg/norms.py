"""Norms of vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import eager_jit, nested_jit
from jax._src.lax import lax, linalg as lax_linalg
from jax._src.lax.linalg.common import real_dtype
from jax._src.numpy import reductions
from jax._src.numpy.checks import check_nan
from jax._src.numpy.linalg.common import export, inexact
from jax._src.numpy.manipulation.shape import moveaxis
from jax._src.numpy.ufuncs_binary import power
from jax._src.numpy.util import ensure_arraylike
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis_tuple

Axis = Any


@export
@eager_jit("ord", "axis", "keepdims")
def norm(x: ArrayLike, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """Computes the norm of vectors or matrices.

    Args:
      x: array.
      ord: for vectors: 2 (or None), inf, -inf, 0 (the number of nonzero elements), or another p for
        `sum(abs(x)**p)**(1/p)`. For matrices: "fro" (or None), "nuc" (the sum of the singular
        values), 2 and -2 (the largest and smallest singular value), 1 and -1 (the largest and
        smallest absolute column sum), inf and -inf (the largest and smallest absolute row sum).
      axis: an int for vectors, a pair of ints for matrices; None for all of `x`, which must then
        have one or two dimensions unless `ord` is None.
      keepdims: whether the result keeps `axis` with size 1.

    Returns:
      Real array.

    Raises:
      ValueError: if `ord` is unknown or there are more than two axes.

    >>> float(jnp.linalg.norm(jnp.array([3.0, 4.0])))
    5.0
    """
    x = inexact("norm", x)
    ord = _order(ord)
    if axis is None:
        axes = tuple(range(x.ndim))
    else:
        axes = canonicalize_axis_tuple(axis, x.ndim)
    flat = axis is None and ord is None
    if len(axes) not in (1, 2) and not flat:
        raise ValueError(
            f"Improper number of axes for norm: axis={axes}. Pass one axis to compute a vector-norm, or two "
            "axes to compute a matrix-norm."
        )
    if len(axes) == 2 and not flat:
        out = _matrix_norm(x, ord=ord, axes=axes, keepdims=bool(keepdims))
    else:
        out = _norm(x, ord=2 if ord is None else ord, axes=axes, keepdims=bool(keepdims))
    check_nan(out)
    return out


def _order(ord):
    """Converts `ord`, which may be an array of one element, to a hashable value."""
    if ord is None or isinstance(ord, (str, int, float)):
        return ord
    ord = core.concrete_or_error(np.asarray, ord, "The argument 'ord' of jnp.linalg.norm.")
    if ord.size != 1:
        raise ValueError(
            f"norm: the argument ord must be one number, got an array of shape {ord.shape}"
        )
    return float(ord.item())


@export
def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2
) -> Array:
    """Computes the norm of vectors along one or more axes, or of all of `x` as one vector.

    Args:
      x: array.
      axis: an int, a tuple of ints, or None for all axes.
      keepdims: whether the result keeps `axis` with size 1.
      ord: the norm's order; see `norm`.

    Returns:
      Real array of the shape of `x` without `axis`.

    Raises:
      ValueError: if `ord` is unknown.

    >>> jnp.linalg.vector_norm(jnp.array([[3.0, 4.0], [0.0, 1.0]]), axis=1).tolist()
    [5.0, 1.0]
    """
    x = ensure_arraylike("vector_norm", x)
    if not dtypes.issubdtype(x.dtype, np.inexact):
        x = lax.convert_element_type(x, dtypes.default_float_dtype())
    ord = _order(ord)
    axes = canonicalize_axis_tuple(axis, x.ndim)
    return _norm(x, ord=2 if ord is None else ord, axes=axes, keepdims=bool(keepdims))


@export
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Computes the norm of matrices over the last two dimensions.

    Args:
      x: array of shape (..., m, n).
      keepdims: whether the result has shape (..., 1, 1).
      ord: the norm's order; see `norm`.

    Returns:
      Real array of shape (...), or (..., 1, 1) with `keepdims`.

    >>> float(jnp.linalg.matrix_norm(jnp.array([[3.0, 0.0], [0.0, 4.0]])))
    5.0
    """
    x = inexact("matrix_norm", x)
    return norm(x, ord, (-2, -1), keepdims)


def _norm_impl(x, *, ord, axes, keepdims):
    kw = dict(axis=axes, keepdims=keepdims)
    real = real_dtype(x.dtype)
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm.")
    if ord == 2:
        return lax.sqrt(_squares(x, **kw))
    if ord == np.inf:
        return reductions.max(lax.abs(x), initial=0, **kw)
    if ord == -np.inf:
        return reductions.min(lax.abs(x), **kw)
    if ord == 0:
        return reductions.sum(lax.ne(x, lax.zero(x)), dtype=real, **kw)
    if ord == 1:
        return reductions.sum(lax.abs(x), **kw)
    p = np.array(ord, real)
    total = reductions.sum(power(lax.abs(x), p), **kw)
    return power(total, np.array(1 / ord, real))


def _squares(x, **kw):
    if np.iscomplexobj(x):
        x = lax.real(lax.mul(x, lax.conj(x)))
    else:
        x = lax.mul(x, x)
    return reductions.sum(x, **kw)


_norm_impl.__name__ = "norm"
_norm = nested_jit(_norm_impl, static_argnames=("ord", "axes", "keepdims"))


def _matrix_norm_impl(x, *, ord, axes, keepdims):
    if ord in (None, "fro"):
        return lax.sqrt(_squares(x, axis=axes, keepdims=keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        first, second = axes if abs(ord) == 1 else axes[::-1]
        sums = reductions.sum(lax.abs(x), axis=first, keepdims=True)
        pick = reductions.max if ord > 0 else reductions.min
        out = pick(sums, axis=second, keepdims=True, initial=0 if ord > 0 else None)
        return out if keepdims else lax.squeeze(out, axes)
    if ord in (2, -2, "nuc"):
        s = lax_linalg.svd(moveaxis(x, axes, (-2, -1)), compute_uv=False)
        if ord == "nuc":
            out = reductions.sum(s, axis=-1)
        elif ord == 2:
            out = reductions.max(s, axis=-1, initial=0)
        else:
            out = reductions.min(s, axis=-1, initial=np.inf)
        return lax.expand_dims(out, axes) if keepdims else out
    raise ValueError(f"Invalid order '{ord}' for matrix norm.")


_matrix_norm_impl.__name__ = "norm"
_matrix_norm = nested_jit(_matrix_norm_impl, static_argnames=("ord", "axes", "keepdims"))
