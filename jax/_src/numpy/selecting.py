"""Functions that select elements by conditions or positions, and `clip`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import api, core, dtypes, traceback_util
from jax._src.array import ArrayImpl
from jax._src.basearray import Array
from jax._src.device_put.functions import device_put
from jax._src.errors import NonConcreteBooleanIndexError
from jax._src.jit.library import eager_jit, inline_jit, nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import util
from jax._src.numpy.manipulation import broadcast_arrays, moveaxis, ravel, reshape
from jax._src.numpy.manipulation.shape import operand
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike
from jax._src.util import canonicalize_axis

# ---------------------------------------------------------------------------------------------------
# Elementwise choice


@export
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Selects elements from `x` where `condition` is true, and from `y` elsewhere.

    With `condition` alone it is `nonzero`.

    Args:
      condition: array; elements that are not boolean count as true if they are nonzero.
      x, y: arrays that broadcast with `condition`.
      size, fill_value: only with `condition` alone, as for `nonzero`.

    Returns:
      An array of the broadcast shape, or with `condition` alone a tuple of index vectors.

    Raises:
      TypeError: if only one of `x` and `y` is given.
      ValueError: if shapes are incompatible, or `size` is given together with `x` and `y`.

    Gradients flow to both `x` and `y`, multiplied by 1 or 0. A NaN derivative in the branch that is
    not selected still gives NaN (0 times NaN), so replace that branch's input by a harmless value
    too.

    >>> jnp.where(jnp.array([True, False]), jnp.array([1, 2]), 0).tolist()
    [1, 0]
    >>> jnp.where(jnp.array([0, 3, 5]))[0].tolist()
    [1, 2]
    """
    if x is not None and y is not None:
        if size is not None or fill_value is not None:
            raise ValueError(
                "size and fill_value arguments cannot be used in three-term where function."
            )
        if type(y) in (int, float):
            filled = util.where_or_number.get(repr(y))
            if filled is not None:
                return filled(condition, x)
        return util.select_where(condition, x, y)
    if x is None and y is None:
        util.check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    util.check_arraylike("where", condition, x, y)


@export
def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> Array:
    """Selects each element from the first choice whose condition is true.

    Args:
      condlist: sequence of boolean arrays that broadcast.
      choicelist: sequence of as many arrays.
      default: value where no condition is true.

    Returns:
      An array of the broadcast shape and promoted dtype of the choices.

    Raises:
      ValueError: if there are no conditions, or the sequences differ in length.

    >>> x = jnp.arange(5)
    >>> jnp.select([x < 2, x > 3], [-x, 10 * x], default=7).tolist()
    [0, -1, 7, 7, 40]
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})"
        )
    if not len(condlist):
        raise ValueError("condlist must be non-empty")
    condlist, choicelist = list(condlist), list(choicelist)
    n = len(condlist)
    arrays = util.arraylike("select", *condlist, *choicelist, default)
    condlist, choicelist, default = arrays[:n], arrays[n:-1], arrays[-1]
    return _select(condlist, choicelist, default)


def _select(condlist, choicelist, default):
    *choices, out = util.promote_dtypes(*choicelist, default)
    for condition, choice in zip(condlist[::-1], choices[::-1]):
        out = util.select_where(condition, choice, out)
    return out


_select = inline_jit(_select)


@export
def choose(
    a: ArrayLike, choices: Sequence[ArrayLike] | Array, out: None = None, mode: str = "raise"
) -> Array:
    """Selects each element from the choice with the given number.

    Args:
      a: integer array: the number of the choice.
      choices: arrays that broadcast with `a`.
      out: must be None.
      mode: treatment of out-of-bounds numbers: "raise" an error (not possible for traced `a`),
        "wrap" around, or "clip" to the first or last choice.

    Returns:
      An array of the broadcast shape and promoted dtype of the choices.

    Raises:
      ValueError: if `a` is not of integers, or out of bounds in mode "raise".

    >>> jnp.choose(jnp.array([1, 0, 1]), [jnp.array([1, 2, 3]), jnp.array([10, 20, 30])]).tolist()
    [10, 2, 30]
    """
    util.reject_out("choose", out)
    choices = list(choices)
    a, *choices = util.ensure_arraylike_tuple("choose", (a, *choices))
    if not dtypes.issubdtype(a.dtype, np.integer):
        raise ValueError("`a` array must be integer typed")
    n = len(choices)
    if mode == "raise":
        context = (
            "The error occurred because jnp.choose was jit-compiled with mode='raise'. Use mode='wrap' or "
            "mode='clip' instead."
        )
        least, most = util.known_bounds(a, context) if a.size else (0, -1)
        if least < 0 or most >= n:
            raise ValueError("invalid entry in choice array")
    elif mode not in ("wrap", "clip"):
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    return _choose(a, choices, wrap=mode == "wrap")


def _choose(a, choices, *, wrap):
    if dtypes.iinfo(a.dtype).bits < 32:
        a = lax.convert_element_type(a, np.int32)
    n = lax.const(a, len(choices))
    if wrap:
        a = lax.rem(lax.add(lax.rem(a, n), n), n)
    which = lax.clamp(lax.const(a, 0), a, lax.const(a, len(choices) - 1))
    dtype = dtypes.result_type(*choices)
    choices = [lax.convert_element_type(c, dtype) for c in choices]
    which, *choices = broadcast_arrays(which, *choices)
    return lax.select_n(lax.convert_element_type(which, np.int32), *choices)


_choose = nested_jit(_choose, static_argnames=("wrap",))


@export
@traceback_util.api_boundary
def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Evaluates a piecewise-defined function.

    Args:
      x: array.
      condlist: boolean arrays of the shape of `x`, or one boolean array with an additional leading
        dimension.
      funclist: a scalar function or a number per condition. One more may follow, the default where
        no condition is true; otherwise that is 0. If several conditions are true, the last one
        counts.
      *args, **kw: further arguments of the functions.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      ValueError: if `funclist` does not have as many entries as `condlist`, or one more.

    Differs from NumPy: the functions are traced and called on single elements.

    >>> x = jnp.array([-2., -1., 1., 3.])
    >>> jnp.piecewise(x, [x < 0, x > 2], [jnp.abs, 9., lambda v: v / 2]).tolist()
    [2.0, 1.0, 0.5, 9.0]
    """
    x = operand("piecewise", x)
    nc, nf = len(condlist), len(funclist)
    if nf == nc + 1:
        functions = [funclist[-1], *funclist[:-1]]
    elif nf == nc:
        functions = [0, *funclist]
    else:
        raise ValueError(
            f"with {nc} condition(s), either {nc} or {nc + 1} functions are expected; got {nf}"
        )
    out = util.broadcast_to(_piece(functions[0], x, args, kw), x.shape)
    for condition, fun in zip(list(condlist), functions[1:]):
        out = util.select_where(condition, _piece(fun, x, args, kw), out)
    return out


def _piece(fun, x, args, kw):
    if not callable(fun):
        return lax.convert_element_type(fun, x.dtype)

    def each(v):
        return lax.convert_element_type(fun(v, *args, **kw), x.dtype)

    if not x.ndim:
        return each(x)
    return reshape(api.vmap(each)(ravel(x)), x.shape)


@eager_jit()
def clip(
    arr: ArrayLike | None = None,
    /,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
) -> Array:
    """Limits elements to an interval.

    Args:
      arr: real array.
      min: lower bounds, or None.
      max: upper bounds, or None; they take precedence where they are less than the lower bounds.

    Returns:
      An array of the shape and dtype that the arguments promote to.

    Raises:
      ValueError: if an argument is complex, since complex numbers have no order.

    >>> jnp.clip(jnp.array([-1., 0.5, 3.]), 0, 1).tolist()
    [0.0, 0.5, 1.0]
    """
    if arr is None:
        raise ValueError("No input was provided to the clip function.")
    (arr,) = util.arraylike("clip", arr)
    min, max = (b if b is None else util.arraylike("clip", b)[0] for b in (min, max))
    for x in (arr, min, max):
        if x is not None and dtypes.issubdtype(dtypes.dtype(x), np.complexfloating):
            raise ValueError(
                "Clip received a complex value either through the input or the min/max keywords. Complex "
                "values have no ordering and cannot be clipped. Please convert to a real value or array by "
                "taking the real or imaginary components via jax.numpy.real/imag respectively."
            )
    out = arr
    if min is not None:
        out = lax.max(*util.promote_pair("maximum", min, out))
    if max is not None:
        out = lax.min(*util.promote_pair("minimum", max, out))
    return util.to_array(out)


clip = export(inline_jit(clip))


# ---------------------------------------------------------------------------------------------------
# Positions of elements


@export
def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """Finds the positions of nonzero elements.

    Args:
      a: array of at least one dimension.
      size: static number of positions to return: further ones are cut off, missing ones are padded
        with `fill_value`. It is required if `a` is traced.
      fill_value: an integer, or a tuple with one per dimension; None is 0.

    Returns:
      A tuple with an index vector per dimension.

    Raises:
      ValueError: if `a` is a scalar, or the number of fill values is not the rank of `a`.
      ConcretizationTypeError: if `a` is traced and `size` is None.

    >>> rows, columns = jnp.nonzero(jnp.array([[0, 5], [7, 0]]))
    >>> rows.tolist(), columns.tolist()
    ([0, 1], [1, 0])
    >>> jnp.nonzero(jnp.array([0, 5, 7]), size=4, fill_value=-1)[0].tolist()
    [1, 2, -1, -1]
    """
    a = operand("nonzero", a)
    if not a.ndim:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use jnp.atleast_1d(scalar).nonzero() instead."
        )
    if size is None:
        is_concrete = type(a) is ArrayImpl and core.trace_ctx.trace is core.eval_trace
        if fill_value is None and is_concrete and a.is_fully_addressable:
            return _nonzero_now(a)
        size = core.concrete_or_error(
            operator.index,
            _count_nonzero(a),
            "The size argument of jnp.nonzero must be statically specified to use jnp.nonzero within JAX "
            "transformations.",
        )
    else:
        size = core.concrete_dim_or_error(
            operator.index,
            size,
            "The size argument of jnp.nonzero must be statically specified.",
        )
    if core.definitely_greater(0, size):
        raise TypeError(f"jnp.nonzero: size must be nonnegative, got {size}")
    if fill_value is not None:
        if not isinstance(fill_value, tuple):
            fill_value = (fill_value,) * a.ndim
        if len(fill_value) != a.ndim or any(np.shape(v) for v in fill_value):
            raise ValueError(
                f"fill_value must be a scalar or a tuple of length {a.ndim}; got {fill_value}"
            )
    if not a.size or not size:
        # Where nothing is filled in, the positions stay integers.
        fills = (0,) * a.ndim if fill_value is None or not size else fill_value
        return tuple([util.broadcast_to(_filled(False, 0, v), (size,)) for v in fills])
    return _nonzero(a, fill_value, size=size)


def _nonzero_now(a: ArrayImpl) -> tuple[Array, ...]:
    """Finds positions on the host, since a result of unknown size cannot be compiled."""
    dtype = dtypes.default_int_dtype()
    found = [i.astype(dtype) for i in np.nonzero(np.asarray(a))]
    device = a.device if a.committed and len(a.devices()) == 1 else None
    return tuple(device_put(found, device))


def _as_mask(a):
    return a if a.dtype == np.bool_ else lax.ne(a, lax.const(a, 0))


def _count_nonzero(a):
    mask = lax.convert_element_type(_as_mask(a), np.int32)
    return lax.reduce_sum(mask, axes=tuple(range(a.ndim)))


_count_nonzero = inline_jit(_count_nonzero)


def _filled(exists, position, fill):
    """Replaces missing positions by `fill`; default integers, unless `fill` is not an integer."""
    dtype = dtypes.default_int_dtype()
    out = util.select_where(exists, lax.convert_element_type(position, dtype), fill)
    is_integer = dtypes.issubdtype(out.dtype, np.integer)
    return lax.convert_element_type(out, dtype) if is_integer else out


def _nonzero(a, fill_value, *, size):
    dtype = dtypes.default_int_dtype()
    index = np.dtype(np.int32) if type(a.size) is not int or a.size < 2**31 else np.dtype(np.int64)
    rank = lax.cumsum(lax.convert_element_type(ravel(_as_mask(a)), index))
    # Match k (from 0) is at the position that equals the number of elements with at most k matches
    # up to and including themselves.
    marks = slicing.scatter_add(
        lax.full((size,), 0, index),
        lax.expand_dims(rank, (1,)),
        lax.full(rank.shape, 1, index),
        slicing.ScatterDimensionNumbers((), (0,), (0,)),
        indices_are_sorted=True,
        mode=slicing.GatherScatterMode.FILL_OR_DROP,
    )
    place = lax.cumsum(marks)
    exists = lax.lt(place, lax.const(place, a.size))
    out = []
    stride = a.size
    for i, d in enumerate(a.shape):
        stride = stride // d
        position = lax.rem(lax.div(place, lax.const(place, stride)), lax.const(place, d))
        position = lax.convert_element_type(position, dtype)
        out.append(_filled(exists, position, 0 if fill_value is None else fill_value[i]))
    return tuple(out)


_nonzero = nested_jit(_nonzero, static_argnames=("size",))


@export
def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Finds nonzero elements of the flattened array; takes the arguments of `nonzero`.

    >>> jnp.flatnonzero(jnp.array([[0, 5], [7, 0]])).tolist()
    [1, 2]
    """
    return nonzero(ravel(operand("flatnonzero", a)), size=size, fill_value=fill_value)[0]


@export
def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Finds nonzero elements and returns one position per row; takes the arguments of `nonzero`.

    >>> jnp.argwhere(jnp.array([[0, 5], [7, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    a = operand("argwhere", a)
    found = nonzero(a if a.ndim else ravel(a), size=size, fill_value=fill_value)
    if not a.ndim:
        return lax.full((found[0].shape[0], 0), 0, found[0].dtype)
    return lax.stack(util.promote_dtypes(*found), 1)


# ---------------------------------------------------------------------------------------------------
# Elements selected by a mask


@export
def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """Returns the slices along an axis for which a condition is true.

    Args:
      condition: boolean vector; may be shorter than the axis.
      a: array.
      axis: axis along which to select; None for the flattened array.
      size: static size of the result along `axis`, padded with `fill_value`. It is required if
        `condition` is traced.
      fill_value: a scalar, or an array that broadcasts to `a` with `axis` first.
      out: must be None.

    Returns:
      An array like `a`, with the number of true conditions, or `size`, along `axis`.

    Raises:
      ValueError: if `condition` is not a vector, is true past the end (which is ignored with `size`),
        or `size` is larger than the axis.

    >>> jnp.compress(jnp.array([True, False, True]), jnp.array([1, 2, 3])).tolist()
    [1, 3]
    """
    util.reject_out("compress", out)
    util.check_arraylike("compress", condition)
    known = core.to_concrete_value(util.lower_jax_array(condition))
    condition, a, fill_value = util.ensure_arraylike("compress", condition, a, fill_value)
    if condition.ndim != 1:
        raise ValueError("condition must be a 1D array")
    if axis is None:
        axis, a = 0, ravel(a)
    axis = canonicalize_axis(axis, a.ndim)
    n = a.shape[axis]
    if core.definitely_greater(condition.shape[0], n):
        if known is None and size is None:
            raise core.ConcretizationTypeError(
                condition, "A condition of jnp.compress that is longer than the axis must be known."
            )
        if size is None and np.any(np.asarray(known)[n:]):
            raise ValueError("condition contains entries that are out of bounds")
        condition = slicing.slice_in_dim(condition, 0, n)
    mask = _as_mask(condition)
    if size is None:
        if known is None:
            raise NonConcreteBooleanIndexError(mask)
        return _rows(a, np.flatnonzero(np.asarray(known)).astype(np.int32)[:, None], axis=axis)
    if core.definitely_greater(0, size) or core.definitely_greater(size, mask.shape[0]):
        raise ValueError(
            "size must be positive and not greater than the size of the array axis; got "
            f"size={size} for a.shape[axis]={mask.shape[0]}"
        )
    size = core.canonicalize_shape((size,), "size argument of jnp.compress")[0]
    return _compress(mask, a, fill_value, axis=axis, size=size)


def _rows(a, positions, *, axis):
    if core.definitely_equal(positions.shape[0], 0):
        return lax.full((*a.shape[:axis], 0, *a.shape[axis + 1 :]), 0, a.dtype)
    kept = tuple([d for d in range(a.ndim) if d != axis])
    return slicing.gather(
        a,
        positions,
        slicing.GatherDimensionNumbers(kept, (axis,), (axis,)),
        (*a.shape[:axis], 1, *a.shape[axis + 1 :]),
        mode=slicing.GatherScatterMode.FILL_OR_DROP,
        fill_value=0,
    )


def _compress(mask, a, fill_value, *, axis, size):
    if fill_value.ndim:
        return _compress_with_array(mask, a, fill_value, axis, size)
    (place,) = nonzero(mask, size=size, fill_value=mask.shape[0])
    place = lax.convert_element_type(place, np.int32)
    chosen = _rows(a, lax.expand_dims(place, (1,)), axis=axis)
    exists = lax.lt(place, lax.const(place, mask.shape[0]))
    exists = lax.broadcast_in_dim(exists, chosen.shape, (axis,))
    fill = lax.convert_element_type(fill_value, a.dtype)
    return lax.select(exists, chosen, lax.broadcast_in_dim(fill, chosen.shape, ()))


def _compress_with_array(mask, a, fill_value, axis, size):
    """Pads with the entries of `fill_value` at the positions of the elements that are left out."""
    moved = slicing.slice_in_dim(moveaxis(a, axis, 0), 0, mask.shape[0])
    fill = util.broadcast_to(lax.convert_element_type(fill_value, a.dtype), moved.shape)
    exists = lax.broadcast_in_dim(mask, moved.shape, (0,))
    _, order = lax.sort_key_val(lax.bitwise_not(mask), lax.iota(np.int32, mask.shape[0]))
    order = lax.expand_dims(slicing.slice_in_dim(order, 0, size), (1,))
    return moveaxis(_rows(lax.select(exists, moved, fill), order, axis=0), 0, axis)


_compress = nested_jit(_compress, static_argnames=("axis", "size"))


@export
def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Array:
    """Returns the elements for which a condition is true, as a vector; see `compress`.

    >>> x = jnp.array([[1, 2], [3, 4]])
    >>> jnp.extract(x > 1, x).tolist()
    [2, 3, 4]
    """
    util.check_arraylike("extract", condition, arr, fill_value)
    known = core.to_concrete_value(util.lower_jax_array(condition))
    condition = ravel(condition) if known is None else np.ravel(known)
    return compress(condition, ravel(arr), size=size, fill_value=fill_value)


@export
def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """Replaces masked elements, in order, by values that are repeated as often as needed.

    Args:
      arr: array.
      mask: boolean array of the same size.
      vals: nonempty array of replacement values.
      inplace: must be False, since arrays are immutable.

    Returns:
      An array of the shape and dtype of `arr`.

    Raises:
      ValueError: if `inplace` is True, the sizes differ, or there are no values.

    >>> jnp.place(jnp.zeros(3), jnp.array([True, False, True]), jnp.array([1., 2.]), inplace=False).tolist()
    [1.0, 0.0, 2.0]
    """
    arr, mask, vals = util.ensure_arraylike("place", arr, mask, vals)
    if inplace:
        raise ValueError(
            "jax.numpy.place cannot modify arrays in-place, because JAX arrays are immutable. Pass "
            "inplace=False to instead return an updated array."
        )
    if arr.size != mask.size:
        raise ValueError("place: arr and mask must be the same size")
    if not vals.size:
        raise ValueError("Cannot place values from an empty array")
    if not arr.size:
        return arr
    return _place(arr, mask, vals)


def _place(arr, mask, vals):
    mask = ravel(_as_mask(mask))
    rank = lax.sub(lax.cumsum(lax.convert_element_type(mask, np.int32)), np.int32(1))
    rank = lax.rem(lax.max(rank, np.int32(0)), np.int32(vals.size))
    values = _rows(
        ravel(lax.convert_element_type(vals, arr.dtype)), lax.expand_dims(rank, (1,)), axis=0
    )
    return reshape(lax.select(mask, values, ravel(arr)), arr.shape)


_place = nested_jit(_place)
