"""`Reduction`: implements jax.numpy's reductions with lax's, handling dtypes, axes and masks."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.basearray import Array
from jax._src.core import eval_trace, trace_ctx
from jax._src.jit.library import Programs, inline_jit
from jax._src.lax import lax, parallel
from jax._src.numpy import util
from jax._src.numpy.util import (
    check_arraylike,
    check_no_float0s,
    ensure_arraylike,
    reject_out,
    select_where,
)
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis

_FLOAT32 = np.dtype("float32")
_HALF_PRECISION = (np.dtype("float16"), np.dtype(dtypes.bfloat16))

# None, an integer, the name of a mapped axis, or a sequence of integers and names
Axis = Any


class Reduction:
    """Implements a NumPy-style reduction with a reduction of lax.

    Args:
      name: name of the function in `jax.numpy`.
      reduce: called as `reduce(x, axes)`; gets no booleans if `of_bools` is given.
      combine: the corresponding operation on two arrays.
      identity: function from a dtype to its identity element, which replaces masked elements.
      collective: the name of the collective that reduces over mapped axes. Without it the values
        along those axes are gathered and reduced.
      has_identity: whether an empty reduction is defined.
      logical: whether elements are converted to booleans.
      arithmetic: whether booleans count as integers, and 16-bit floats are accumulated in float32
        unless a dtype is given.
      of_bools: replaces `reduce`, `combine` and `collective` for boolean elements.
    """

    def __init__(
        self,
        name: str,
        reduce: Callable,
        combine: Callable,
        identity: Callable[[np.dtype], Any],
        collective: str | None = None,
        *,
        has_identity: bool = True,
        logical: bool = False,
        arithmetic: bool = False,
        of_bools: tuple[Callable, Callable, str] | None = None,
    ):
        self.name = name
        self.operations = (reduce, combine, collective)
        self.of_bools = of_bools or self.operations
        self.identity = identity
        self.has_identity = has_identity
        self.logical = logical
        self.arithmetic = arithmetic
        self.programs = Programs(self._without_options)  # by axis and keepdims
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
        if axis is not None and type(axis) is not int:
            axis = hashable_axis(axis, self.name)
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

    def _without_options(self, key: tuple[Axis, bool]) -> Callable:
        axis, keepdims = key

        def run(a):
            return self.compute(a, None, None, axis=axis, dtype=None, keepdims=keepdims)

        run.__name__ = run.__qualname__ = f"_reduce_{self.name}"
        return run

    def compute(
        self, a, initial=None, where=None, *, axis=None, dtype=None, keepdims=False,
        promote_integers=True,
    ):  # fmt: skip
        name = self.name
        a = ensure_arraylike(name, a)
        check_no_float0s(name, a)
        if where is not None:
            where = check_where(name, where)
            if not self.has_identity and initial is None:
                raise ValueError(
                    f"reduction operation {name} does not have an identity, so to use a where mask one has"
                    " to specify 'initial'"
                )
        axes, names = split_axes(canonical_axes(axis, a.ndim))
        if not self.has_identity and initial is None:
            for i in axes:
                if core.definitely_equal(a.shape[i], 0):
                    raise ValueError(
                        f"zero-size array to reduction operation {name} which has no identity"
                    )
        if self.arithmetic and a.dtype == np.bool_:
            a = lax.convert_element_type(a, np.int32)
        if self.logical:
            result_dtype = compute_dtype = np.dtype(bool)
        elif dtype is not None:
            result_dtype = compute_dtype = dtype
        else:
            result_dtype = a.dtype
            if promote_integers and self.has_identity:
                result_dtype = promote_integer_dtype(result_dtype)
            compute_dtype = upcast(result_dtype) if self.arithmetic else result_dtype
        if a.dtype != compute_dtype or a.weak_type:
            a = lax.convert_element_type(a, compute_dtype)
        is_bool = compute_dtype == np.bool_
        reduce, combine, collective = self.of_bools if is_bool else self.operations
        if where is not None:
            a = select_where(where, a, np.asarray(self.identity(compute_dtype), compute_dtype)[()])
        out = reduce(a, axes)
        if names:
            if collective is None:
                out = reduce(parallel.all_gather(out, names), (0,))
            else:
                out = getattr(parallel, collective)(out, names)
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


# Axes


def static_axis(axis: Any, name: str) -> Any:
    """Converts an `axis` argument to static integers and names; raises an error if it is traced."""
    if isinstance(axis, (list, tuple)) or np.ndim(axis):
        return tuple([static_axis(i, name) for i in axis])
    if is_axis_name(axis):
        return axis
    return core.concrete_or_error(operator.index, axis, f"axis argument to jnp.{name}().")


def hashable_axis(axis: Any, name: str = "reduction") -> Any:
    """Converts an `axis` argument to a hashable form, which can be a static argument."""
    if axis is None or isinstance(axis, (int, str)):
        return axis
    if isinstance(axis, tuple):
        return tuple([i if type(i) is int else hashable_axis(i, name) for i in axis])
    return static_axis(axis, name)


def canonical_axes(axis: Any, ndim: int) -> tuple[Any, ...]:
    """Returns axes as a tuple of non-negative integers and of the names of mapped axes."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and 0 <= axis < ndim:
        return (axis,)
    given = axis if isinstance(axis, (tuple, list, range)) else (axis,)
    axes = tuple([i if is_axis_name(i) else canonicalize_axis(i, ndim) for i in given])
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return axes


def is_axis_name(axis: Any) -> bool:
    """Tests whether `axis` names a mapped axis: any object that is neither a number nor None."""
    return isinstance(axis, str) or not (
        hasattr(axis, "__index__") or axis is None or isinstance(axis, numbers.Number)
    )


def split_axes(axes: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Splits canonical axes into integers and names."""
    for axis in axes:
        if type(axis) is not int:
            names = tuple([i for i in axes if type(i) is not int])
            return tuple([i for i in axes if type(i) is int]), names
    return axes, ()


def element_count(shape: tuple, axes: tuple, dtype: Any) -> Any:
    """Returns the number of elements along canonical axes, as a scalar of the given dtype."""
    positions, names = split_axes(axes)
    size = math.prod([shape[i] for i in positions])
    if names:
        size *= parallel.axis_size(names)
    if core.is_symbolic_dim(size):
        return lax.convert_element_type(size, dtype)
    return np.asarray(size, dtype)[()]


# Operands and dtypes


def check_where(name: str, where: Any) -> Any:
    check_arraylike(name, where)
    where = util.lower_jax_array(where)
    dtype = dtypes.dtype(where)
    if dtype != np.bool_:
        raise ValueError(f"jnp.{name}: where must be None or a boolean array; got where.{dtype=}.")
    return where


def promote_integer_dtype(dtype: Any) -> Any:
    """Returns the dtype of sums: the default integer for booleans and narrower integers."""
    if dtype == np.bool_:
        return dtypes.default_int_dtype()
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        default = dtypes.default_uint_dtype()
    elif dtypes.issubdtype(dtype, np.integer):
        default = dtypes.default_int_dtype()
    else:
        return dtype
    return default if dtypes.itemsize_bits(dtype) < dtypes.itemsize_bits(default) else dtype


def upcast(dtype: Any) -> Any:
    """Returns float32 for 16-bit floats, whose sums would lose too much precision.

    Narrower floats are left alone, since their users scale values themselves.
    """
    return _FLOAT32 if dtype in _HALF_PRECISION else dtype


def least(dtype):
    if dtypes.issubdtype(dtype, np.inexact):
        info = dtypes.finfo(dtype)
        return -np.inf if dtypes.supports_inf(dtype) else info.min
    return False if dtype == np.bool_ else _integers(dtype).min


def greatest(dtype):
    if dtypes.issubdtype(dtype, np.inexact):
        info = dtypes.finfo(dtype)
        return np.inf if dtypes.supports_inf(dtype) else info.max
    return True if dtype == np.bool_ else _integers(dtype).max


def _integers(dtype):
    if not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(
            f"elements of dtype {dtypes.dtype_name(dtype)} have no order: they are not real numbers."
        )
    return dtypes.iinfo(dtype)
