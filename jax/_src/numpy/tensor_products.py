"""Products of vectors, matrices and tensors."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import eager_jit, inline_jit, nested_jit
from jax._src.lax import lax
from jax._src.numpy import util
from jax._src.numpy.contraction import contract, plan
from jax._src.numpy.manipulation.shape import moveaxis, ravel
from jax._src.numpy.ufuncs_binary import multiply
from jax._src.numpy.util import export
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import canonicalize_axis, canonicalize_axis_tuple

_STATIC = ("precision", "preferred_element_type", "out_sharding")


def operands(name: str, a: Any, b: Any, preferred: Any = None) -> tuple[Any, Any, Any, bool]:
    """Returns both operands as arrays, their product's dtype, and whether it is weakly typed.

    The arrays keep their dtypes: dot_general accepts mixed dtypes, which hardware may support
    directly.
    """
    util.check_arraylike(name, a, b)
    x, y = getattr(a, "aval", None), getattr(b, "aval", None)
    if (
        x is not None
        and y is not None
        and x.dtype == y.dtype
        and x.weak_type is y.weak_type is False
    ):
        if preferred is None:
            return a, b, x.dtype, False
    a, b = util.to_array(util.lower_jax_array(a)), util.to_array(util.lower_jax_array(b))
    if preferred is not None:
        return a, b, dtypes.check_and_canonicalize_user_dtype(preferred, name), False
    dtype, weak_type = dtypes.result_type(a, b, return_weak_type_flag=True)
    return a, b, dtype, weak_type


def _finish(out, dtype, weak_type):
    """Converts the product to its dtype and weak type."""
    aval = getattr(out, "aval", None)
    if aval is not None and aval.dtype == dtype and aval.weak_type == weak_type:
        return out
    return lax.convert_type(out, dtype, weak_type)


# ---------------------------------------------------------------------------------------------------
# Matrix products


def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Dot product over the last dimension of `a` and the second-to-last (or only) one of `b`.

    Args:
      a, b: arrays; a scalar multiplies the other operand.
      precision: precision of the multiplications on accelerators: None, a `lax.Precision`, a pair
        of them, or a `lax.DotAlgorithmPreset`.
      preferred_element_type: dtype for accumulation and for the result.
      out_sharding: sharding of the result, in explicit mode.

    Returns:
      An array of shape `(*a.shape[:-1], *b.shape[:-2], b.shape[-1])`, where the last size is
      missing if `b` is a vector.

    Raises:
      TypeError: if the contracted sizes differ.

    >>> jnp.dot(jnp.array([[1, 2], [3, 4]]), jnp.array([5, 6])).tolist()
    [17, 39]
    """
    a, b, dtype, weak_type = operands("dot", a, b, preferred_element_type)
    m, n = np.ndim(a), np.ndim(b)
    if m == 0 or n == 0:
        dims: Any = (((), ()), ((), ()))
    else:
        dims = (((m - 1,), (max(n - 2, 0),)), ((), ()))
    out = lax.dot_general(a, b, dims, precision, dtype, out_sharding=out_sharding)
    return _finish(out, dtype, weak_type)


dot = export(inline_jit(dot, static_argnames=_STATIC))


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Matrix product, `a @ b`.

    Args:
      a: array of shape `(*batch, m, k)`, or a vector `(k,)`.
      b: array of shape `(*batch, k, n)`, or a vector `(k,)`. Batch dimensions broadcast.
      precision, preferred_element_type, out_sharding: as for `dot`.

    Returns:
      An array of shape `(*batch, m, n)`; without m or n for a vector operand.

    Raises:
      ValueError: if an operand is a scalar, or batch dimensions do not broadcast.
      TypeError: if the contracted sizes differ.

    >>> jnp.matmul(jnp.ones((5, 2, 3)), jnp.ones((3, 4))).shape
    (5, 2, 4)
    """
    a, b, dtype, weak_type = operands("matmul", a, b, preferred_element_type)
    m, n = np.ndim(a), np.ndim(b)
    if m == 0 or n == 0:
        raise ValueError(
            f"matmul input operand {int(m != 0)} must have ndim at least 1, but it has ndim 0"
        )
    if m <= 2 and n <= 2:
        dims = _MATMUL[m, n]
        out = lax.dot_general(a, b, dims, precision, dtype, out_sharding=out_sharding)
    else:
        out = _batched(
            "matmul", a, b, ("m", "k")[2 - min(m, 2) :], ("k", "n")[: min(n, 2)],
            precision, dtype, out_sharding,
        )  # fmt: skip
    return _finish(out, dtype, weak_type)


_MATMUL = {(m, n): (((m - 1,), (0,)), ((), ())) for m in (1, 2) for n in (1, 2)}

matmul = export(inline_jit(matmul, static_argnames=_STATIC))


def _batched(name, a, b, core_a, core_b, precision=None, dtype=None, out_sharding=None):
    """Contracts arrays whose trailing dimensions are labelled and whose leading ones broadcast.

    Labels in both `core_a` and `core_b` are summed over; the others are the result's last
    dimensions.
    """
    shape_a, shape_b = np.shape(a), np.shape(b)
    labels_a, labels_b, labels_out = _batched_labels(name, shape_a, shape_b, core_a, core_b)
    p = plan(labels_a, shape_a, labels_b, shape_b, labels_out)
    return contract(a, b, p, precision, dtype, out_sharding)


@functools.lru_cache(4096)
def _batched_labels(name, a, b, core_a, core_b):
    if core_a and "k" in core_a and "k" in core_b:
        i, j = len(a) - len(core_a) + core_a.index("k"), len(b) - len(core_b) + core_b.index("k")
        if not core.definitely_equal(a[i], b[j]):
            raise TypeError(
                "dot_general requires contracting dimensions to have the same shape, got "
                f"({a[i]},) and ({b[j]},): {name} of arrays of shapes {a} and {b}."
            )
    batch_a, batch_b = a[: len(a) - len(core_a)], b[: len(b) - len(core_b)]
    try:
        rank = len(lax.broadcast_shapes(batch_a, batch_b))
    except ValueError:
        raise ValueError(
            f"Incompatible shapes for {name} arguments: {a} and {b}: the batch dimensions {batch_a} and "
            f"{batch_b} do not broadcast"
        ) from None
    names = tuple(range(rank))
    labels_a = (*names[rank - len(batch_a) :], *core_a)
    labels_b = (*names[rank - len(batch_b) :], *core_b)
    free = [label for label in (*core_a, *core_b) if not (label in core_a and label in core_b)]
    return labels_a, labels_b, (*names, *free)


def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Dot product of the flattened arrays, conjugating the first.

    Args:
      a, b: arrays with the same number of elements.
      precision, preferred_element_type: as for `dot`.

    Returns:
      A scalar.

    >>> jnp.vdot(jnp.array([1j, 2.]), jnp.array([1j, 1.]))
    Array(3.+0.j, dtype=complex64)
    """
    a, b, dtype, weak_type = operands("vdot", a, b, preferred_element_type)
    a, b = _conj(a), util.to_array(b)
    dims = (((0,), (0,)), ((), ()))
    out = lax.dot_general(ravel(a), ravel(b), dims, precision, dtype)
    return _finish(out, dtype, weak_type)


def _conj(x):
    x = util.to_array(x)
    return lax.conj(x) if dtypes.issubdtype(x.dtype, np.complexfloating) else x


vdot = export(inline_jit(vdot, static_argnames=_STATIC[:2]))


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
    """Dot products of vectors along an axis, conjugating the first; other dimensions broadcast.

    Args:
      x1, x2: arrays of the same size along `axis`.
      axis: the axis to sum over.
      precision, preferred_element_type: as for `dot`.

    Returns:
      An array of the broadcast shape without `axis`.

    Raises:
      ValueError: if the sizes differ.

    >>> jnp.vecdot(jnp.ones((5, 3)), jnp.ones(3)).shape
    (5,)
    """
    util.check_arraylike("vecdot", x1, x2)
    x1, x2 = util.to_array(x1), util.to_array(x2)
    i, j = canonicalize_axis(axis, x1.ndim), canonicalize_axis(axis, x2.ndim)
    if not core.definitely_equal(x1.shape[i], x2.shape[j]):
        raise ValueError(f"axes must match; got shapes {x1.shape} and {x2.shape} with {axis=}")
    return _vecdot(
        x1, x2, i=i, j=j, precision=precision, preferred_element_type=preferred_element_type
    )


def _vecdot(x1, x2, *, i, j, precision, preferred_element_type):
    a, b, dtype, weak_type = operands("vecdot", x1, x2, preferred_element_type)
    a, b = moveaxis(_conj(a), i, -1), moveaxis(b, j, -1)
    out = _batched("vecdot", a, b, ("k",), ("k",), precision, dtype)
    return _finish(out, dtype, weak_type)


_vecdot = inline_jit(_vecdot, static_argnames=("i", "j", *_STATIC[:2]))


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrix-vector products; batch dimensions broadcast.

    Args:
      x1: array of shape `(*batch, m, n)`.
      x2: array of shape `(*batch, n)`.

    Returns:
      An array of shape `(*batch, m)`.

    >>> jnp.matvec(jnp.ones((2, 3)), jnp.ones((5, 3))).shape
    (5, 2)
    """
    a, b, dtype, weak_type = operands("matvec", x1, x2)
    _check_core("matvec", a, b, 2, 1)
    return _finish(_batched("matvec", a, b, ("m", "k"), ("k",), None, dtype), dtype, weak_type)


matvec = export(inline_jit(matvec))


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Vector-matrix products, conjugating the vectors; batch dimensions broadcast.

    Args:
      x1: array of shape `(*batch, n)`.
      x2: array of shape `(*batch, n, m)`.

    Returns:
      An array of shape `(*batch, m)`.

    >>> jnp.vecmat(jnp.ones((5, 2)), jnp.ones((2, 3))).shape
    (5, 3)
    """
    a, b, dtype, weak_type = operands("vecmat", x1, x2)
    _check_core("vecmat", a, b, 1, 2)
    out = _batched("vecmat", _conj(a), b, ("k",), ("k", "n"), None, dtype)
    return _finish(out, dtype, weak_type)


vecmat = export(inline_jit(vecmat))


def _check_core(name, a, b, m, n):
    for x, rank in ((a, m), (b, n)):
        if np.ndim(x) < rank:
            raise ValueError(
                f"{name}: input with shape {np.shape(x)} does not have enough dimensions: at least {rank} "
                "needed"
            )
    size, other = np.shape(a)[-1], np.shape(b)[-n]
    if not core.definitely_equal(size, other):
        raise ValueError(
            f"{name}: inconsistent sizes {size} and {other} to sum over, of arrays of shapes "
            f"{np.shape(a)} and {np.shape(b)}"
        )


# ---------------------------------------------------------------------------------------------------
# Other products


def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Inner product: sums products over the last dimensions of both arrays.

    Args:
      a, b: arrays; a scalar multiplies the other operand.
      precision, preferred_element_type: as for `dot`.

    Returns:
      An array of shape `(*a.shape[:-1], *b.shape[:-1])`.

    >>> jnp.inner(jnp.ones((2, 3)), jnp.ones((4, 3))).shape
    (2, 4)
    """
    a, b, dtype, weak_type = operands("inner", a, b, preferred_element_type)
    m, n = np.ndim(a), np.ndim(b)
    if m == 0 or n == 0:
        if preferred_element_type is not None:
            a, b = lax.convert_element_type(a, dtype), lax.convert_element_type(b, dtype)
        return multiply(a, b)
    dims = (((m - 1,), (n - 1,)), ((), ()))
    return _finish(lax.dot_general(a, b, dims, precision, dtype), dtype, weak_type)


inner = export(inline_jit(inner, static_argnames=_STATIC[:2]))


@export
@eager_jit("out")
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Outer product of two flattened arrays.

    Args:
      a: array of `m` elements.
      b: array of `n` elements.
      out: must be None.

    Returns:
      An array of shape `(m, n)`.

    >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4, 5])).tolist()
    [[3, 4, 5], [6, 8, 10]]
    """
    util.reject_out("outer", out)
    a, b = util.arraylike("outer", a, b)
    return _outer(a, b)


def _outer(a, b):
    a, b = util.promote_dtypes(a, b)
    a, b = ravel(a), ravel(b)
    return _product(lax.expand_dims(a, (1,)), lax.expand_dims(b, (0,)))


def _product(a, b):
    return lax.bitwise_and(a, b) if dtypes.dtype(a) == np.bool_ else lax.mul(a, b)


_outer = inline_jit(_outer)


@export
@eager_jit("axes", "precision", "out_sharding", direct=("preferred_element_type",))
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Sums products over pairs of dimensions of two arrays.

    Args:
      a, b: arrays.
      axes: an int n to contract the last n dimensions of `a` with the first n of `b`; or a pair of
        sequences: dimensions of `a`, and of `b`.
      precision, preferred_element_type, out_sharding: as for `dot`.

    Returns:
      An array with the remaining dimensions of `a`, then those of `b`.

    Raises:
      TypeError: if the axes or the contracted sizes are incompatible.

    >>> jnp.tensordot(jnp.ones((2, 3, 4)), jnp.ones((4, 3, 5)), axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    a, b = util.arraylike("tensordot", a, b)
    pairs = _tensordot_axes(np.shape(a), np.shape(b), axes)
    if out_sharding is not None:
        out_sharding = canonicalize_sharding(out_sharding, "tensordot")
    return _tensordot(
        a, b, pairs=pairs, precision=precision, preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )  # fmt: skip


def _tensordot_axes(a_shape, b_shape, axes):
    m, n = len(a_shape), len(b_shape)
    if isinstance(axes, (int, np.integer)) or (hasattr(axes, "__index__") and np.ndim(axes) == 0):
        axes = operator.index(axes)
        if axes < 0:
            raise TypeError(f"tensordot: the number of axes must not be negative, got {axes}")
        if axes > min(m, n):
            raise TypeError(
                f"Number of tensordot axes (axes {axes}) exceeds input ranks ({a_shape} and {b_shape})"
            )
        return tuple(range(m - axes, m)), tuple(range(axes))
    if isinstance(axes, (tuple, list, np.ndarray)) and len(axes) == 2:
        i, j = axes
        both = [isinstance(v, (tuple, list)) or np.ndim(v) == 1 for v in (i, j)]
        if all(both):
            if len(i) != len(j):
                raise TypeError(
                    f"tensordot requires axes lists to have equal length, got {i} and {j}."
                )
            return (
                canonicalize_axis_tuple(tuple(map(int, i)), m, allow_duplicate=True),
                canonicalize_axis_tuple(tuple(map(int, j)), n, allow_duplicate=True),
            )
        if not any(both) and all(hasattr(v, "__index__") for v in (i, j)):
            return (canonicalize_axis(i, m),), (canonicalize_axis(j, n),)
    raise TypeError(
        "tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples of ints."
    )


def _tensordot(a, b, *, pairs, precision, preferred_element_type, out_sharding):
    a, b, dtype, weak_type = operands("tensordot", a, b, preferred_element_type)
    out = lax.dot_general(a, b, (pairs, ((), ())), precision, dtype, out_sharding=out_sharding)
    return _finish(out, dtype, weak_type)


_tensordot = inline_jit(_tensordot, static_argnames=("pairs", *_STATIC))


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Kronecker product: an array of blocks, each of which is `b` times one element of `a`.

    Args:
      a, b: arrays; dimensions of size 1 are prepended to the one of lower rank.

    Returns:
      An array whose sizes are the products of the operands' sizes.

    >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2, 3])).tolist()
    [1, 2, 3, 10, 20, 30]
    """
    util.check_arraylike("kron", a, b)
    a, b = util.promote_dtypes(a, b)
    rank = max(np.ndim(a), np.ndim(b))
    a, b = (lax.broadcast_to_rank(x, rank) for x in (a, b))
    shape = [m * n for m, n in zip(a.shape, b.shape)]
    a = lax.expand_dims(a, range(1, 2 * rank, 2))
    b = lax.expand_dims(b, range(0, 2 * rank, 2))
    return lax.reshape(_product(a, b), shape)


kron = export(nested_jit(kron))


@export
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Cross product of vectors with 2 or 3 components; the other dimensions broadcast.

    Args:
      a, b: arrays.
      axisa, axisb: the dimensions of `a` and `b` that hold the components.
      axisc: the one of the result; if all vectors have 2 components, there is none.
      axis: sets all three of them.

    Returns:
      An array of the broadcast shape, with the components at `axisc`.

    Raises:
      ValueError: if vectors have neither 2 nor 3 components.

    >>> jnp.cross(jnp.array([1., 0., 0.]), jnp.array([0., 1., 0.])).tolist()
    [0.0, 0.0, 1.0]
    """
    a, b = util.arraylike("cross", a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    return _cross(a, b, axisa=axisa, axisb=axisb, axisc=axisc)


def _cross(a, b, *, axisa, axisb, axisc):
    a, b = util.promote_dtypes(a, b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    u, v = _components(a), _components(b)
    shape = lax.broadcast_shapes(u[0].shape, v[0].shape)
    u, v = ([None if p is None else util.broadcast_to(p, shape) for p in parts] for parts in (u, v))
    z = _minor(u, v, 0, 1)
    if u[2] is None and v[2] is None:
        return z
    parts = [_minor(u, v, 1, 2), _minor(u, v, 2, 0), z]
    return moveaxis(lax.stack(parts, len(shape)), -1, axisc)


def _components(x):
    parts = list(lax.unstack(x, -1))
    return parts if len(parts) == 3 else [*parts, None]


def _minor(u, v, i, j):
    """Computes `u[i] * v[j] - u[j] * v[i]`, where a missing component (None) is zero."""
    if u[i] is None or v[j] is None:
        return lax.neg(lax.mul(u[j], v[i])) if u[j] is not None and v[i] is not None else None
    if u[j] is None or v[i] is None:
        return lax.mul(u[i], v[j])
    return lax.sub(lax.mul(u[i], v[j]), lax.mul(u[j], v[i]))


_cross = nested_jit(_cross, static_argnames=("axisa", "axisb", "axisc"))
