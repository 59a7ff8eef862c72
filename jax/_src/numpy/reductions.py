"""Reductions over axes: sums, products, extrema, means, and those that ignore NaN."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.core import eval_trace, trace_ctx
from jax._src.lax import lax
from jax._src.library_jit import inline_jit, nested_jit
from jax._src.numpy import util
from jax._src.numpy.ufuncs_binary import _as_bool, _kind
from jax._src.numpy.ufuncs_unary import isnan, real, sqrt
from jax._src.numpy.util import (
    _where,
    check_arraylike,
    check_no_float0s,
    ensure_arraylike,
    export,
    promote_dtypes_inexact,
    reject_out,
    user_warning,
)
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import canonicalize_axis, canonicalize_axis_tuple

Axis = Any  # None, an int, or a sequence of ints

# How a reduction works


class _Reduction:
    """A reduction of NumPy on one of lax.

    Args:
      name: of the function in `jax.numpy`.
      reduce: `reduce(x, axes)`, of arrays that are not boolean if `combine` is not a logical operation.
      combine: the operation of two arrays.
      identity: of a dtype, the value that changes nothing.
      has_identity: whether the reduction of no elements is defined.
      logical: whether elements are taken as booleans.
      upcast: whether small floats are added up as float32.
    """

    def __init__(
        self,
        name: str,
        reduce: Callable,
        combine: Callable,
        identity: Callable[[np.dtype], Any],
        has_identity: bool = True,
        logical: bool = False,
        upcast: bool = False,
    ):
        self.name = name
        self.reduce = reduce
        self.combine = combine
        self.identity = identity
        self.has_identity = has_identity
        self.logical = logical
        self.upcast = upcast
        self.programs: dict[Any, Callable] = {}
        impl = partial(self.compute)
        impl.__name__ = impl.__qualname__ = f"_reduce_{name}"  # type: ignore[attr-defined]
        impl.__module__ = "jax.numpy"  # type: ignore[attr-defined]
        self.general = inline_jit(
            impl, static_argnames=("axis", "dtype", "keepdims", "promote_integers")
        )

    def __call__(
        self,
        a: ArrayLike,
        axis: Axis,
        dtype: Any,
        out: None,
        keepdims: bool,
        initial: Any = None,
        where: Any = None,
        promote_integers: bool = True,
    ) -> Array:
        if type(axis) is list:
            axis = tuple(axis)
        if dtype is not None:
            dtype = dtypes.check_and_canonicalize_user_dtype(dtype, self.name)
        reject_out(self.name, out)
        if axis is not None and not isinstance(axis, (int, tuple)):
            axis = _static_axis(axis, self.name)
        compute = self.general if trace_ctx.trace is eval_trace else self.compute
        return compute(
            a,
            initial,
            where,
            axis=axis,
            dtype=dtype,
            keepdims=bool(keepdims),
            promote_integers=bool(promote_integers),
        )

    def program(self, axis: Axis, keepdims: bool) -> Callable:
        """The reduction over some axes without further options, compiled."""
        name = self.name

        def run(a):
            return self.compute(a, None, None, axis=axis, dtype=None, keepdims=keepdims)

        run.__name__ = run.__qualname__ = f"_reduce_{name}"
        if len(self.programs) > 256:
            self.programs.clear()
        program = self.programs[axis, keepdims] = inline_jit(run)
        return program

    def compute(
        self, a, initial=None, where=None, *, axis=None, dtype=None, keepdims=False,
        promote_integers=True,
    ):  # fmt: skip
        name = self.name
        a = ensure_arraylike(name, a)
        check_no_float0s(name, a)
        if where is not None:
            where = _check_where(name, where)
            if not self.has_identity and initial is None:
                raise ValueError(
                    f"reduction operation {name} does not have an identity, so to use a where mask one has"
                    " to specify 'initial'"
                )
        axes = _axes(axis, a.ndim)
        if not self.has_identity and initial is None:
            for i in axes:
                if core.definitely_equal(a.shape[i], 0):
                    raise ValueError(
                        f"zero-size array to reduction operation {name} which has no identity"
                    )
        if self.logical:
            result_dtype = compute_dtype = np.dtype(bool)
        else:
            result_dtype = a.dtype if dtype is None else dtype
            if dtype is None and promote_integers and self.has_identity:
                result_dtype = promote_integer_dtype(result_dtype)
            compute_dtype = _upcast(result_dtype) if self.upcast else result_dtype
        if a.dtype != compute_dtype or a.weak_type:
            a = lax.convert_element_type(a, compute_dtype)
        reduce, combine = self.reduce, self.combine
        if compute_dtype == np.bool_ and not self.logical:
            reduce, combine = _of_bools[name]
        if where is not None:
            a = _where(where, a, np.asarray(self.identity(compute_dtype), compute_dtype)[()])
        out = reduce(a, axes)
        if initial is not None:
            if np.ndim(util.lower_jax_array(initial)):
                raise ValueError(
                    f"initial value must be a scalar. Got array of shape {np.shape(initial)}"
                )
            out = combine(util.convert(util.lower_jax_array(initial), compute_dtype), out)
        if keepdims and axes:
            out = lax.expand_dims(out, axes)
        if compute_dtype != result_dtype:
            out = lax.convert_element_type(out, result_dtype)
        return out


def _static_axis(axis: Any, name: str) -> Any:
    context = f"axis argument to jnp.{name}()."
    if isinstance(axis, (str, bytes)):
        raise TypeError(f"jnp.{name}: axis must be an integer or integers, got {axis!r}")
    if np.ndim(axis) == 0:
        return core.concrete_or_error(operator.index, axis, context)
    return tuple([core.concrete_or_error(operator.index, i, context) for i in axis])


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and 0 <= axis < ndim:
        return (axis,)
    axes = canonicalize_axis_tuple(axis, ndim, allow_duplicate=True)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return axes


def _check_where(name: str, where: Any) -> Any:
    check_arraylike(name, where)
    where = util.lower_jax_array(where)
    dtype = dtypes.dtype(where)
    if dtype != np.bool_:
        raise ValueError(f"jnp.{name}: where must be None or a boolean array; got where.{dtype=}.")
    return where


def promote_integer_dtype(dtype: Any) -> Any:
    """The dtype of sums of a dtype: of booleans and small integers the default integers."""
    if dtype == np.bool_:
        return dtypes.default_int_dtype()
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        default = dtypes.default_uint_dtype()
    elif dtypes.issubdtype(dtype, np.integer):
        default = dtypes.default_int_dtype()
    else:
        return dtype
    return default if dtypes.itemsize_bits(dtype) < dtypes.itemsize_bits(default) else dtype


def _upcast(dtype: Any) -> Any:
    """float32 for the floats with less bits, in which sums would lose too much."""
    if dtypes.issubdtype(dtype, np.floating) and dtypes.itemsize_bits(dtype) < 32:
        return dtype if config.allow_f16_reductions.value else np.dtype("float32")
    return dtype


def _least(dtype):
    if dtypes.issubdtype(dtype, np.inexact):
        info = dtypes.finfo(dtype)
        return -np.inf if dtypes.supports_inf(dtype) else info.min
    return False if dtype == np.bool_ else dtypes.iinfo(dtype).min


def _greatest(dtype):
    if dtypes.issubdtype(dtype, np.inexact):
        info = dtypes.finfo(dtype)
        return np.inf if dtypes.supports_inf(dtype) else info.max
    return True if dtype == np.bool_ else dtypes.iinfo(dtype).max


_sum = _Reduction("sum", lax.reduce_sum, lax.add, lambda d: 0, upcast=True)
_prod = _Reduction("prod", lax.reduce_prod, lax.mul, lambda d: 1, upcast=True)
_max = _Reduction("max", lax.reduce_max, lax.max, _least, has_identity=False)
_min = _Reduction("min", lax.reduce_min, lax.min, _greatest, has_identity=False)
_all = _Reduction("all", lax.reduce_and, lax.bitwise_and, lambda d: True, logical=True)
_any = _Reduction("any", lax.reduce_or, lax.bitwise_or, lambda d: False, logical=True)
_of_bools = {
    "sum": (lax.reduce_or, lax.bitwise_or),
    "prod": (lax.reduce_and, lax.bitwise_and),
    "max": (lax.reduce_max, lax.max),
    "min": (lax.reduce_min, lax.min),
}
_sum_programs = _sum.programs
_prod_programs = _prod.programs
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
    """Sums of elements over axes.

    Args:
      a: array.
      axis: an axis, a sequence of axes, or None for all.
      dtype: of the result; by default that of `a`, or the default integer for booleans and small integers.
        Small floats are added up as float32.
      out: not supported, must be None.
      keepdims: whether the axes stay, with size 1.
      initial: scalar to start from.
      where: boolean array that is broadcast to `a`: which elements take part.
      promote_integers: whether small integers are promoted.

    Returns:
      An array without the axes.

    Raises:
      ValueError: if axes repeat or do not exist.

    >>> jnp.sum(jnp.arange(6).reshape(2, 3), axis=1)
    Array([ 3, 12], dtype=int32)
    """
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
            program = _sum_programs.get((axis, keepdims)) or _sum.program(axis, keepdims)
        except TypeError:  # a list of axes
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
    """Products of elements over axes; arguments as for `sum`.

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
            program = programs.get((axis, keepdims)) or reduction.program(axis, keepdims)
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
    """Greatest elements over axes; NaN if one is NaN. Complex numbers compare lexicographically.

    Args:
      a: array.
      axis, out, keepdims: as for `sum`.
      initial: scalar that takes part; needed if there are no elements, or for `where`.
      where: boolean array that is broadcast to `a`: which elements take part.

    Raises:
      ValueError: if there are no elements and no `initial`.

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
    """Least elements over axes; arguments as for `max`.

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
    """Greatest elements over axes: alias of `max`.

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
    """Least elements over axes: alias of `min`.

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
    """Differences of the greatest and least elements over axes; arguments as for `max`.

    >>> jnp.ptp(jnp.array([3, 8, 5]))
    Array(5, dtype=int32)
    """
    reject_out("ptp", out)
    return _ptp(a, axis=_hashable_axis(axis), keepdims=bool(keepdims))


def _hashable_axis(axis):
    return tuple(axis) if isinstance(axis, (list, np.ndarray)) else axis


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
    """Whether all elements over axes are true, that is not zero.

    Args:
      a: array.
      axis, out, keepdims, where: as for `sum`.

    >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    return _extremum_like_logic(_all, a, axis, out, keepdims, where)


@export
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether any elements over axes are true, that is not zero; arguments as for `all`.

    >>> jnp.any(jnp.array([[True, False], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    return _extremum_like_logic(_any, a, axis, out, keepdims, where)


def _extremum_like_logic(reduction, a, axis, out, keepdims, where):
    return _extremum(reduction, reduction.programs, a, axis, out, keepdims, None, where)


def _count_nonzero_impl(a, *, axis, keepdims):
    a = ensure_arraylike("count_nonzero", a)
    return sum(_as_bool(a), axis=axis, dtype=dtypes.default_int_dtype(), keepdims=keepdims)


_count_nonzero_impl.__name__ = "count_nonzero"
_count_nonzero = nested_jit(_count_nonzero_impl, static_argnames=("axis", "keepdims"))


@export
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Numbers of elements over axes that are not zero.

    Args:
      a: array.
      axis, keepdims: as for `sum`.

    >>> jnp.count_nonzero(jnp.array([0, 3, 4]))
    Array(2, dtype=int32)
    """
    check_arraylike("count_nonzero", a)
    return _count_nonzero(a, axis=_hashable_axis(axis), keepdims=bool(keepdims))


# Means


def _count(shape, axes):
    return math.prod([shape[i] for i in axes])


def _mean_impl(a, where=None, *, axis, dtype, keepdims, upcast=True):
    a = ensure_arraylike("mean", a)
    axes = _axes(axis, a.ndim)
    if dtype is None:
        result_dtype = dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(a.dtype))
    else:
        result_dtype = dtype
    # Integers asked for are divided as floats: their mean is truncated at the end.
    compute_dtype = _upcast(dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(result_dtype)))
    if a.dtype == np.bool_:
        a = lax.convert_element_type(a, np.int32)
    total = sum(a, axis, dtype=compute_dtype, keepdims=keepdims, where=where)
    if where is None:
        count = _dim_as_value(_count(a.shape, axes), compute_dtype)
    else:
        where = util._broadcast_to(where, a.shape)
        count = sum(where, axis, dtype=compute_dtype, keepdims=keepdims)
    out = lax.div(total, count)
    return lax.convert_element_type(out, result_dtype) if compute_dtype != result_dtype else out


def _dim_as_value(size, dtype):
    if core.is_symbolic_dim(size):
        return lax.convert_element_type(core.dimension_as_value(size), dtype)
    return np.asarray(size, dtype)[()]


_mean_impl.__name__ = "_mean"
_mean_program = inline_jit(_mean_impl, static_argnames=("axis", "dtype", "keepdims"))
_mean_programs: dict[Any, Callable] = {}


@export
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Means of elements over axes.

    Args:
      a: array.
      axis, out, keepdims, where: as for `sum`.
      dtype: of the result; by default that of `a`, or floating point for integers.

    >>> jnp.mean(jnp.arange(6).reshape(2, 3), axis=1)
    Array([1., 4.], dtype=float32)
    """
    eager = trace_ctx.trace is eval_trace
    if eager and dtype is None and out is None and where is None and type(a) is ArrayImpl:
        try:
            program = _mean_programs.get((axis, keepdims)) or _new_mean_program(axis, keepdims)
        except TypeError:
            pass
        else:
            return program(a)
    check_arraylike("mean", a)
    reject_out("mean", out)
    if where is not None:
        where = _check_where("mean", where)
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "mean")
    compute = _mean_program if eager else _mean_impl
    return compute(a, where, axis=_hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


def _new_mean_program(axis, keepdims):
    def _mean(a):
        return _mean_impl(a, axis=axis, dtype=None, keepdims=keepdims)

    if len(_mean_programs) > 256:
        _mean_programs.clear()
    program = _mean_programs[axis, keepdims] = inline_jit(_mean)
    return program


@export
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Weighted means of elements over axes.

    Args:
      a: array.
      axis, keepdims: as for `sum`.
      weights: array of the shape of `a`, or of its size along `axis`; None for equal weights.
      returned: whether to return the sums of weights as well.

    Returns:
      An array, or `(array, sums of weights)`.

    Raises:
      ValueError: if the shape of the weights does not fit.

    >>> jnp.average(jnp.array([1., 2., 3.]), weights=jnp.array([3., 1., 0.]))
    Array(1.25, dtype=float32)
    """
    check_arraylike("average", a)
    if weights is not None:
        check_arraylike("average", weights)
    compute = _average_program if trace_ctx.trace is eval_trace else _average_impl
    out, total = compute(a, weights, axis=_hashable_axis(axis), keepdims=bool(keepdims))
    return (out, total) if returned else out


def _average_impl(a, weights, *, axis, keepdims):
    a = ensure_arraylike("average", a)
    if weights is None:
        (a,) = promote_dtypes_inexact(a)
        out = mean(a, axis=axis, keepdims=keepdims)
        count = a.size if axis is None else _count(a.shape, _axes(axis, a.ndim))
        return out, util._broadcast_to(_dim_as_value(count, out.dtype), out.shape)
    a, weights = promote_dtypes_inexact(a, util.to_array(weights))
    a_shape, a_ndim = a.shape, a.ndim
    if a_shape != weights.shape:
        if axis is None:
            raise ValueError("Axis must be specified when shapes of a and weights differ.")
        axes = _axes(axis, a_ndim)
        if tuple([a_shape[i] for i in axes]) != weights.shape:
            if len(axes) == 1 and weights.ndim != 1:
                raise ValueError("1D weights expected when shapes of a and weights differ.")
            raise ValueError(
                "Shape of weights must be consistent with shape of a along specified axis."
            )
        order = sorted(range(len(axes)), key=lambda i: axes[i])
        weights = lax.transpose(weights, order)
        weights = lax.reshape(weights, [d if i in axes else 1 for i, d in enumerate(a_shape)])
    total = sum(weights, axis=axis, keepdims=keepdims)
    out = lax.div(sum(lax.mul(a, weights), axis=axis, keepdims=keepdims), total)
    return out, util._broadcast_to(total, out.shape)


_average_impl.__name__ = "average"
_average_program = inline_jit(_average_impl, static_argnames=("axis", "keepdims"))


# Variances


@export
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """Variances of elements over axes.

    Args:
      a: array.
      axis, out, keepdims, where: as for `sum`.
      dtype: of the result; by default that of `a`, or floating point for integers.
      ddof: what is subtracted from the number of elements before dividing by it.
      mean: the means, if they are known, with the axes kept.
      correction: another name of `ddof`.

    Returns:
      An array, real for complex numbers. NaN if there are no more than `ddof` elements.

    Raises:
      ValueError: if both `ddof` and `correction` are given.

    >>> jnp.var(jnp.array([1., 2., 3., 4.]))
    Array(1.25, dtype=float32)
    """
    reject_out("var", out)
    ddof, args, dtype = _variance_arguments("var", a, where, mean, dtype, ddof, correction)
    return _var(*args, ddof, axis=_hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


@export
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: int | float | None = None,
) -> Array:
    """Standard deviations of elements over axes, the roots of variances; arguments as for `var`.

    >>> jnp.std(jnp.array([1., 2., 3., 4.]))
    Array(1.118034, dtype=float32)
    """
    reject_out("std", out)
    ddof, args, dtype = _variance_arguments("std", a, where, mean, dtype, ddof, correction)
    if dtype is not None and not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"dtype argument to jnp.std must be inexact; got {dtype}")
    return _std(*args, ddof, axis=_hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


def _variance_arguments(name, a, where, mean, dtype, ddof, correction):
    check_arraylike(name, a)
    if where is not None:
        where = _check_where(name, where)
    if mean is not None:
        check_arraylike(name, mean)
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, name)
    if correction is not None:
        if not isinstance(ddof, int) or ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    return ddof, (a, where, mean), dtype


def _var_impl(a, where, known_mean, ddof, *, axis, dtype, keepdims):
    a = ensure_arraylike("var", a)
    compute_dtype, dtype = _variance_dtypes("var", a.dtype, dtype)
    axes = _axes(axis, a.ndim)
    a = lax.convert_element_type(a, compute_dtype)
    if known_mean is None:
        center = mean(a, axis, dtype=compute_dtype, keepdims=True, where=where)
    else:
        center = lax.convert_element_type(util.to_array(known_mean), compute_dtype)
    centered = lax.sub(*util.promote_shapes("var", a, center))
    if _kind(centered) == "c":
        squared = lax.real(lax.mul(centered, lax.conj(centered)))
        compute_dtype = squared.dtype
    else:
        squared = lax.square(centered)
    if where is None:
        count = _dim_as_value(_count(a.shape, axes), compute_dtype)
    else:
        where = util._broadcast_to(where, a.shape)
        count = sum(where, axis, dtype=compute_dtype, keepdims=keepdims)
    count = lax.sub(count, lax.convert_element_type(ddof, compute_dtype))
    out = lax.div(sum(squared, axis, keepdims=keepdims, where=where), count)
    out = lax.convert_element_type(out, dtype)
    return _where(lax.gt(count, lax._zero(count)), out, np.asarray(np.nan, dtype)[()])


def _variance_dtypes(name, a_dtype, dtype):
    """The dtypes to compute in and to return."""
    if dtype is None:
        inexact = dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(a_dtype))
        return _upcast(inexact), util._complex_elem_type(inexact)
    if not dtypes.issubdtype(dtype, np.complexfloating) and dtypes.issubdtype(
        a_dtype, np.complexfloating
    ):
        raise ValueError(
            f"jax.numpy.{name} does not yet support real dtype parameters when computing the variance of an"
            " array of complex values. The semantics of numpy.var seem unclear in this case. Take the"
            " variance without dtype, and convert it."
        )
    inexact = dtypes.to_inexact_dtype(dtype)
    compute = dtypes.result_type(a_dtype, inexact)
    if not dtypes.issubdtype(compute, np.inexact):
        compute = dtypes.to_inexact_dtype(compute)
    return _upcast(compute), util._complex_elem_type(dtype)


def _std_impl(a, where, mean, ddof, *, axis, dtype, keepdims):
    return lax.sqrt(_var(a, where, mean, ddof, axis=axis, dtype=dtype, keepdims=keepdims))


_var_impl.__name__, _std_impl.__name__ = "_var", "_std"
_var = nested_jit(_var_impl, static_argnames=("axis", "dtype", "keepdims"))
_std = nested_jit(_std_impl, static_argnames=("axis", "dtype", "keepdims"))

# Without NaN


def _nan_reduction(a, name, reduction, fill, nan_if_all_nan, where, **kwargs):
    check_arraylike(name, a)
    a = util.to_array(a)
    if _kind(a) not in "fc":
        return reduction(a, where=where, **kwargs)
    fill_value = np.asarray(fill(a.dtype), a.dtype)[()]
    out = reduction(_where(isnan(a), fill_value, a), where=where, **kwargs)
    if not nan_if_all_nan:
        return out
    only_nan = all(isnan(a), axis=kwargs["axis"], keepdims=kwargs["keepdims"])
    return _where(only_nan, np.asarray(np.nan, a.dtype)[()], out)


def _nan_impl(name, reduction, fill, nan_if_all_nan, with_dtype):
    def impl(a, initial, where, *, axis, keepdims, dtype=None):
        kwargs = {"axis": axis, "keepdims": keepdims, "initial": initial}
        if with_dtype:
            kwargs["dtype"] = dtype
        return _nan_reduction(
            a, name, reduction, fill, nan_if_all_nan and initial is None, where, **kwargs
        )

    impl.__name__ = impl.__qualname__ = name
    return nested_jit(impl, static_argnames=("axis", "keepdims", "dtype"))


_nansum = _nan_impl("nansum", sum, lambda d: 0, False, True)
_nanprod = _nan_impl("nanprod", prod, lambda d: 1, False, True)
_nanmax = _nan_impl("nanmax", max, _least, True, False)
_nanmin = _nan_impl("nanmin", min, _greatest, True, False)


def _nan_call(name, program, a, axis, out, keepdims, initial, where, dtype=None):
    check_arraylike(name, a)
    reject_out(name, out)
    if where is not None:
        where = _check_where(name, where)
    kwargs = {"axis": _hashable_axis(axis), "keepdims": bool(keepdims)}
    if dtype is not None:
        kwargs["dtype"] = dtypes.check_and_canonicalize_user_dtype(dtype, name)
    return program(a, initial, where, **kwargs)


@export
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Sums of elements over axes, NaNs excepted; arguments as for `sum`.

    >>> jnp.nansum(jnp.array([1., jnp.nan, 2.]))
    Array(3., dtype=float32)
    """
    return _nan_call("nansum", _nansum, a, axis, out, keepdims, initial, where, dtype)


@export
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Products of elements over axes, NaNs excepted; arguments as for `sum`.

    >>> jnp.nanprod(jnp.array([3., jnp.nan, 2.]))
    Array(6., dtype=float32)
    """
    return _nan_call("nanprod", _nanprod, a, axis, out, keepdims, initial, where, dtype)


@export
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Greatest elements over axes, NaNs excepted; NaN if there are only NaNs. See `max`.

    >>> jnp.nanmax(jnp.array([1., jnp.nan, 2.]))
    Array(2., dtype=float32)
    """
    return _nan_call("nanmax", _nanmax, a, axis, out, keepdims, initial, where)


@export
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Least elements over axes, NaNs excepted; NaN if there are only NaNs. See `max`.

    >>> jnp.nanmin(jnp.array([1., jnp.nan, 2.]))
    Array(1., dtype=float32)
    """
    return _nan_call("nanmin", _nanmin, a, axis, out, keepdims, initial, where)


def _nanmean_impl(a, where, *, axis, dtype, keepdims):
    a = ensure_arraylike("nanmean", a)
    if _kind(a) not in "fc":
        return mean(a, axis, dtype, keepdims=keepdims, where=where)
    if dtype is None:
        dtype = a.dtype
    valid = lax.bitwise_not(isnan(a))
    count = sum(valid, axis=axis, dtype=dtype, keepdims=keepdims, where=where)
    total = nansum(a, axis, dtype=dtype, keepdims=keepdims, where=where)
    return lax.div(total, count)


_nanmean_impl.__name__ = "nanmean"
_nanmean = nested_jit(_nanmean_impl, static_argnames=("axis", "dtype", "keepdims"))


@export
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Means of elements over axes, NaNs excepted; arguments as for `mean`.

    >>> jnp.nanmean(jnp.array([1., jnp.nan, 2.]))
    Array(1.5, dtype=float32)
    """
    check_arraylike("nanmean", a)
    reject_out("nanmean", out)
    if where is not None:
        where = _check_where("nanmean", where)
    if dtype is not None:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "nanmean")
    return _nanmean(a, where, axis=_hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


@export
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Variances of elements over axes, NaNs excepted; arguments as for `var`.

    >>> jnp.nanvar(jnp.array([1., jnp.nan, 2.]))
    Array(0.25, dtype=float32)
    """
    reject_out("nanvar", out)
    ddof, args, dtype = _variance_arguments("nanvar", a, where, mean, dtype, ddof, None)
    return _nanvar(*args, ddof, axis=_hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


@export
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Standard deviations of elements over axes, NaNs excepted; arguments as for `var`.

    >>> jnp.nanstd(jnp.array([1., jnp.nan, 2.]))
    Array(0.5, dtype=float32)
    """
    reject_out("nanstd", out)
    ddof, args, dtype = _variance_arguments("nanstd", a, where, mean, dtype, ddof, None)
    return _nanstd(*args, ddof, axis=_hashable_axis(axis), dtype=dtype, keepdims=bool(keepdims))


def _nanvar_impl(a, where, known_mean, ddof, *, axis, dtype, keepdims):
    a = ensure_arraylike("nanvar", a)
    compute_dtype, dtype = _variance_dtypes("nanvar", a.dtype, dtype)
    a = lax.convert_element_type(a, compute_dtype)
    if known_mean is None:
        center = nanmean(a, axis, dtype=compute_dtype, keepdims=True, where=where)
    else:
        center = lax.convert_element_type(util.to_array(known_mean), compute_dtype)
    is_nan = isnan(a)
    centered = _where(is_nan, 0, lax.sub(*util.promote_shapes("nanvar", a, center)))
    if _kind(centered) == "c":
        squared = lax.real(lax.mul(centered, lax.conj(centered)))
    else:
        squared = lax.square(centered)
    count = sum(lax.bitwise_not(is_nan), axis=axis, keepdims=keepdims, where=where)
    count = lax.sub(count, lax.convert_element_type(ddof, count.dtype))
    too_few = lax.le(count, lax._zero(count))
    out = sum(squared, axis, keepdims=keepdims, where=where)
    out = _where(too_few, np.nan, out)
    divisor = lax.convert_element_type(_where(too_few, 1, count), out.dtype)
    return lax.convert_element_type(lax.div(out, divisor), dtype)


def _nanstd_impl(a, where, mean, ddof, *, axis, dtype, keepdims):
    return lax.sqrt(_nanvar(a, where, mean, ddof, axis=axis, dtype=dtype, keepdims=keepdims))


_nanvar_impl.__name__, _nanstd_impl.__name__ = "nanvar", "nanstd"
_nanvar = nested_jit(_nanvar_impl, static_argnames=("axis", "dtype", "keepdims"))
_nanstd = nested_jit(_nanstd_impl, static_argnames=("axis", "dtype", "keepdims"))
