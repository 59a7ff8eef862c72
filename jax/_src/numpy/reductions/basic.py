"""Sums, products, extrema and logical reductions over axes."""

from __future__ import annotations

from jax._src import dtypes
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.core import eval_trace, trace_ctx
from jax._src.jit.library import nested_jit
from jax._src.lax import lax
from jax._src.numpy.reductions.engine import Axis, Reduction, greatest, hashable_axis, least
from jax._src.numpy.ufuncs_binary import as_bool
from jax._src.numpy.util import arraylike, check_arraylike, ensure_arraylike, export, reject_out
from jax._src.typing import ArrayLike, DTypeLike

_or = (lax.reduce_or, lax.bitwise_or, "pmax")
_and = (lax.reduce_and, lax.bitwise_and, "pmin")
_sum = Reduction("sum", lax.reduce_sum, lax.add, lambda d: 0, "psum", arithmetic=True, of_bools=_or)
_prod = Reduction("prod", lax.reduce_prod, lax.mul, lambda d: 1, arithmetic=True, of_bools=_and)
_max = Reduction("max", lax.reduce_max, lax.max, least, "pmax", has_identity=False)
_min = Reduction("min", lax.reduce_min, lax.min, greatest, "pmin", has_identity=False)
_all = Reduction("all", lax.reduce_and, lax.bitwise_and, lambda d: True, "pmin", logical=True)
_any = Reduction("any", lax.reduce_or, lax.bitwise_or, lambda d: False, "pmax", logical=True)
_sum_programs = _sum.programs
_max_programs = _max.programs
_min_programs = _min.programs


# Sums and products


@export
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Sums elements over axes.

    Args:
      a: array.
      axis: an axis, a sequence of axes, or None for all. The name of a mapped axis, as in
        `jax.vmap(f, axis_name="i")`, is an axis too.
      dtype: dtype of the result; by default that of `a`, or the default integer for booleans and
        narrower integers. Unless it is given, float16 and bfloat16 are accumulated in float32.
      out: must be None.
      keepdims: whether the result keeps the axes with size 1.
      initial: scalar to start from.
      where: boolean mask that broadcasts to `a`: which elements to include.
      promote_integers: whether narrow integers are promoted.

    Returns:
      An array without the axes.

    Raises:
      ValueError: if an axis is out of range or repeated.

    >>> jnp.sum(jnp.arange(6).reshape(2, 3), axis=1)
    Array([ 3, 12], dtype=int32)
    """
    # Fast path of eager calls without options: one dictionary lookup and one compiled call.
    if (
        dtype is None
        and out is None
        and initial is None
        and where is None
        and promote_integers is True
        and type(a) is ArrayImpl
        and trace_ctx.trace is eval_trace
    ):
        try:
            program = _sum_programs[axis, keepdims]
        except TypeError:  # a list of axes is unhashable; the general path handles it
            pass
        else:
            return program(a)
    return _sum(a, axis, dtype, out, keepdims, initial, where, promote_integers)


@export
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Multiplies elements over axes; takes the arguments of `sum`.

    >>> jnp.prod(jnp.arange(1, 5))
    Array(24, dtype=int32)
    """
    return _prod(a, axis, dtype, out, keepdims, initial, where, promote_integers)


# Extrema


def _extremum(reduction, programs, a, axis, out, keepdims, initial, where):
    if (
        out is None
        and initial is None
        and where is None
        and type(a) is ArrayImpl
        and trace_ctx.trace is eval_trace
    ):
        try:
            program = programs[axis, keepdims]
        except TypeError:
            pass
        else:
            return program(a)
    return reduction(a, axis, None, out, keepdims, initial, where, False)


@export
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Computes the maximum over axes, propagating NaNs; complex numbers compare lexicographically.

    Args:
      a: array.
      axis, out, keepdims: as for `sum`.
      initial: scalar to start from; required if a reduced axis is empty, or with `where`.
      where: boolean mask that broadcasts to `a`: which elements to include.

    Returns:
      An array without the axes.

    Raises:
      ValueError: if a reduced axis is empty and there is no `initial`.

    >>> jnp.max(jnp.arange(6).reshape(2, 3), axis=1)
    Array([2, 5], dtype=int32)
    """
    return _extremum(_max, _max_programs, a, axis, out, keepdims, initial, where)


@export
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Computes the minimum over axes; takes the arguments of `max`.

    >>> jnp.min(jnp.arange(6).reshape(2, 3), axis=1)
    Array([0, 3], dtype=int32)
    """
    return _extremum(_min, _min_programs, a, axis, out, keepdims, initial, where)


@export
def amax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Computes the maximum over axes: alias of `max`.

    >>> jnp.amax(jnp.arange(3))
    Array(2, dtype=int32)
    """
    return max(a, axis, out, keepdims, initial, where)


@export
def amin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Computes the minimum over axes: alias of `min`.

    >>> jnp.amin(jnp.arange(3))
    Array(0, dtype=int32)
    """
    return min(a, axis, out, keepdims, initial, where)


def _ptp_impl(a, *, axis, keepdims):
    a = ensure_arraylike("ptp", a)
    return lax.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


_ptp_impl.__name__ = "_ptp"
_ptp = nested_jit(_ptp_impl, static_argnames=("axis", "keepdims"))


@export
def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Computes maximum minus minimum over axes; takes the arguments of `max`.

    >>> jnp.ptp(jnp.array([3, 8, 5]))
    Array(5, dtype=int32)
    """
    reject_out("ptp", out)
    (a,) = arraylike("ptp", a)
    return _ptp(a, axis=hashable_axis(axis), keepdims=bool(keepdims))


# Logic


@export
def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Tests whether all elements over axes are true, that is nonzero.

    Args:
      a: array.
      axis, out, keepdims, where: as for `sum`.

    Returns:
      A boolean array without the axes.

    >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    return _logical(_all, a, axis, out, keepdims, where)


@export
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Tests whether any element over axes is true, that is nonzero; takes the arguments of `all`.

    A complex number is nonzero if one of its parts is.

    >>> jnp.any(jnp.array([[True, False], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    return _logical(_any, a, axis, out, keepdims, where)


def _logical(reduction, a, axis, out, keepdims, where):
    return _extremum(reduction, reduction.programs, a, axis, out, keepdims, None, where)


def _count_nonzero_impl(a, *, axis, keepdims):
    a = ensure_arraylike("count_nonzero", a)
    return sum(as_bool(a), axis=axis, dtype=dtypes.default_int_dtype(), keepdims=keepdims)


_count_nonzero_impl.__name__ = "count_nonzero"
_count_nonzero = nested_jit(_count_nonzero_impl, static_argnames=("axis", "keepdims"))


@export
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Counts the nonzero elements over axes.

    Args:
      a: array.
      axis, keepdims: as for `sum`.

    Returns:
      An integer array without the axes.

    >>> jnp.count_nonzero(jnp.array([0, 3, 4]))
    Array(2, dtype=int32)
    """
    check_arraylike("count_nonzero", a)
    return _count_nonzero(a, axis=hashable_axis(axis), keepdims=bool(keepdims))
