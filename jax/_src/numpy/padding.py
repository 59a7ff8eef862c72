"""`pad`: extends an array at its edges, in all of NumPy's modes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import api, core, dtypes
from jax._src.basearray import Array
from jax._src.jit.library import inline_jit, nested_jit
from jax._src.lax import lax, slicing
from jax._src.numpy import util
from jax._src.numpy.manipulation.flips import flip
from jax._src.numpy.manipulation.shape import operand
from jax._src.numpy.util import export
from jax._src.typing import ArrayLike

_KEYWORDS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",),
    "edge": (),
    "empty": (),
    "linear_ramp": ("end_values",),
    "maximum": ("stat_length",),
    "mean": ("stat_length",),
    "median": ("stat_length",),
    "minimum": ("stat_length",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "wrap": (),
}


@export
def pad(
    array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any
) -> Array:
    """Pads an array at its edges.

    Args:
      array: array.
      pad_width: number of elements to add: `((before, after), ...)` with one pair per dimension,
        `(before, after)` for all dimensions, or one int. A dict maps dimensions to ints or pairs.
      mode: values to pad with: "constant" (`constant_values`, by default 0), "edge", "empty" (0),
        "linear_ramp" (towards `end_values`), "maximum", "mean", "median" or "minimum" (of the
        `stat_length` elements at the edge, by default all), "reflect" or "symmetric" (with
        `reflect_type` "even" or "odd"), "wrap"; or a function.
      **kwargs: `constant_values`, `end_values`, `stat_length` or `reflect_type`, each for the modes
        that use it; the first three take the forms of `pad_width`. A function gets any keywords.

    A function is called as `fun(row, (before, after), axis, kwargs)` with each padded row along one
    dimension after the other, and returns the row with its ends filled in.

    Returns:
      An array whose size along each dimension is increased by `before + after`.

    Raises:
      ValueError: if `pad_width` has an invalid shape or negative entries, or a keyword does not
        apply to the mode.
      TypeError: if `pad_width` is not made of integers.

    >>> jnp.pad(jnp.array([1, 2, 3]), (1, 2)).tolist()
    [0, 1, 2, 3, 0, 0]
    >>> jnp.pad(jnp.array([1, 2, 3]), 2, mode="reflect").tolist()
    [3, 2, 1, 2, 3, 2, 1]
    """
    array = operand("pad", array)
    width = _widths(util.lower_jax_array(pad_width), array.ndim)
    if callable(mode):
        return _pad_by_function(array, width, mode, kwargs)
    if mode not in _KEYWORDS:
        raise NotImplementedError(f"Unimplemented padding mode '{mode}' for np.pad.")
    unsupported = set(kwargs) - set(_KEYWORDS[mode])
    if unsupported:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unsupported}")
    if mode == "constant":
        return _pad_constant(array, width, kwargs.get("constant_values", 0))
    if mode == "empty":
        return _pad_constant(array, width, 0)
    if mode in ("reflect", "symmetric"):
        reflect_type = kwargs.get("reflect_type", "even")
        if reflect_type not in ("even", "odd"):
            raise ValueError(f"jnp.pad: reflect_type must be 'even' or 'odd', got {reflect_type!r}")
        _check_not_empty(array, width, mode)
        return _pad_reflect(array, width=width, edge=mode == "symmetric", odd=reflect_type == "odd")
    if mode in ("edge", "wrap"):
        _check_not_empty(array, width, mode)
        return (_pad_edge if mode == "edge" else _pad_wrap)(array, width=width)
    if mode == "linear_ramp":
        ends = _pairs("end_values", kwargs.get("end_values", 0), array)
        return _pad_ramp(array, ends, width=width)
    length = kwargs.get("stat_length")
    if length is not None:
        length = _stat_lengths(length, array)
    else:
        length = ((None, None),) * array.ndim
    if mode in ("maximum", "minimum"):
        _check_not_empty(array, width, mode)
    return _pad_statistic(array, width=width, mode=mode, length=length)


def _widths(pad_width: Any, ndim: int) -> tuple[tuple[Any, Any], ...]:
    if type(pad_width) is int and pad_width >= 0:
        return ((pad_width, pad_width),) * ndim
    if isinstance(pad_width, dict):
        return _widths_of_dict(pad_width, ndim)
    flat = _leaves(pad_width)
    if any(core.is_symbolic_dim(w) for w in flat):
        shape: tuple = np.shape(np.asarray(pad_width, dtype=object))
        values = np.empty(shape, object)
        values[...] = np.asarray(pad_width, dtype=object)
    else:
        values = core.concrete_or_error(None, pad_width, "pad_width argument of jnp.pad")
        if not isinstance(values, np.ndarray):
            flat = [core.concrete_or_error(None, w, "pad_width argument of jnp.pad") for w in flat]
            try:
                values = np.asarray(pad_width)
            except ValueError:
                raise ValueError(f"jnp.pad: pad_width is ragged: {pad_width}") from None
        if values.size and values.dtype.kind not in "iu":
            raise TypeError("`pad_width` must be of integral type.")
    _check_shape("pad_width", values.shape, ndim)
    pairs = np.broadcast_to(values, (ndim, 2)).tolist()
    if any(type(w) is int and w < 0 for pair in pairs for w in pair):
        raise ValueError("index can't contain negative values")
    return tuple(map(tuple, pairs))


def _leaves(x: Any) -> list[Any]:
    if isinstance(x, (list, tuple)):
        return [leaf for part in x for leaf in _leaves(part)]
    return [x]


def _widths_of_dict(pad_width: dict, ndim: int) -> tuple[tuple[int, int], ...]:
    out = [(0, 0)] * ndim
    for axis, pair in pad_width.items():
        if not -ndim <= axis < ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
        (out[axis],) = _widths(pair, 1)
    return tuple(out)


def _check_shape(name: str, shape: tuple, nd: int) -> None:
    valid = [(nd, 2), (1, 2), (2,), (1,), ()]
    if shape not in valid:
        raise ValueError(
            f"jnp.pad: {name} with nd={nd} has unsupported shape {shape}. Valid shapes are "
            f"{', '.join(map(str, valid[:-1]))}, or ()."
        )


def _check_not_empty(array, width, mode):
    for size, pair in zip(array.shape, width):
        if size == 0 and any(pair):
            raise ValueError(f"Cannot apply '{mode}' padding to empty axis")


def _pairs(name: str, values: Any, array: Array) -> Array:
    """Converts `constant_values` or `end_values` to an array of shape `(ndim, 2)`."""
    if isinstance(values, (list, tuple)):
        values = _stacked(values)
    values = lax.convert_element_type(util.to_array(values), array.dtype)
    _check_shape(name, values.shape, array.ndim)
    return util.broadcast_to(values, (array.ndim, 2))


def _stacked(values: Any) -> Any:
    if not any(isinstance(v, Array) for v in _leaves(values)):
        return np.asarray(values)
    parts = [_stacked(v) if isinstance(v, (list, tuple)) else util.to_array(v) for v in values]
    return lax.stack([util.to_array(p) for p in util.promote_dtypes(*parts)])


def _stat_lengths(length: Any, array: Array) -> tuple[tuple[int | None, int | None], ...]:
    values = np.asarray(
        core.concrete_or_error(None, length, "stat_length argument of jnp.pad"), dtype=object
    )
    _check_shape("stat_length", values.shape, array.ndim)
    if any(n is not None and n < 0 for n in values.flat):
        raise ValueError("index can't contain negative values")
    if any(n is not None and n == 0 for n in values.flat):
        raise ValueError("stat_length of 0 yields no value for padding")
    return tuple(map(tuple, np.broadcast_to(values, (array.ndim, 2)).tolist()))


# ---------------------------------------------------------------------------------------------------
# Modes


def _pad_constant(array, width, values):
    if not array.ndim:
        return array
    if np.ndim(values) == 0 and not isinstance(values, (list, tuple)):
        if type(values) is int and values == 0:
            return _pad_zeros(array, width=width)
        return _pad_value(array, values, width=width)
    return _pad_constants(array, _pairs("constant_values", values, array), width=width)


def _pad_value(array, value, *, width):
    config = [(lo, hi, 0) for lo, hi in width]
    if not dtypes.issubdtype(array.dtype, dtypes.extended):
        value = lax.convert_element_type(value, array.dtype)
    return lax.convert_type(lax.pad(array, value, config), array.dtype, array.weak_type)


def _pad_zeros(array, *, width):
    if array.weak_type or dtypes.issubdtype(array.dtype, dtypes.extended):
        return _pad_value(array, 0, width=width)
    return lax.pad(array, np.zeros((), array.dtype), [(lo, hi, 0) for lo, hi in width])


_pad_value = inline_jit(_pad_value, static_argnames=("width",))
_pad_zeros = inline_jit(_pad_zeros, static_argnames=("width",))


def _pad_constants(array, values, *, width):
    out = array
    for d, (lo, hi) in enumerate(width):
        for side, amount in enumerate(((lo, 0, 0), (0, hi, 0))):
            config = [(0, 0, 0)] * array.ndim
            config[d] = amount
            value = lax.squeeze(slicing.slice(values, (d, side), (d + 1, side + 1)), (0, 1))
            out = lax.pad(out, value, config)
    return lax.convert_type(out, array.dtype, array.weak_type)


_pad_constants = nested_jit(_pad_constants, static_argnames=("width",))


def _part(x, start, stop, d):
    return slicing.slice_in_dim(x, start, stop, axis=d)


def _around(out, d, before, after):
    parts = [p for p in (before, out, after) if p is not None]
    return lax.concatenate(parts, d) if len(parts) > 1 else out


def _repeated(x, n, d):
    shape = list(x.shape)
    shape[d] = n
    return lax.broadcast_in_dim(x, shape, range(x.ndim))


def _pad_edge(array, *, width):
    for d, (lo, hi) in enumerate(width):
        n = array.shape[d]
        before = _repeated(_part(array, 0, 1, d), lo, d) if lo else None
        after = _repeated(_part(array, n - 1, n, d), hi, d) if hi else None
        array = _around(array, d, before, after)
    return array


_pad_edge = nested_jit(_pad_edge, static_argnames=("width",))


def _pad_wrap(array, *, width):
    for d, (lo, hi) in enumerate(width):
        n = array.shape[d]
        if not (lo or hi):
            continue
        copies = -(-lo // n), -(-hi // n)
        reps = [1] * array.ndim
        reps[d] = copies[0] + 1 + copies[1]
        start = copies[0] * n - lo
        array = _part(lax.tile(array, reps), start, start + lo + n + hi, d)
    return array


_pad_wrap = nested_jit(_pad_wrap, static_argnames=("width",))


def _pad_reflect(array, *, width, edge, odd):
    """Appends mirror images at both ends until there are enough elements."""
    for d, (lo, hi) in enumerate(width):
        n = array.shape[d]
        if not (lo or hi):
            continue
        if n == 1 and not edge:
            # A single element has nothing to mirror, so NumPy repeats it.
            before = _repeated(array, lo, d) if lo else None
            after = _repeated(array, hi, d) if hi else None
            array = _around(array, d, before, after)
            continue
        offset = 0 if edge else 1
        before = _mirrored(flip(array, d), lo, d, offset, odd) if lo else None
        after = _mirrored(array, hi, d, offset, odd) if hi else None
        array = _around(array, d, None if before is None else flip(before, d), after)
    return array


_pad_reflect = nested_jit(_pad_reflect, static_argnames=("width", "edge", "odd"))


def _mirrored(x, amount, d, offset, odd):
    """Returns the `amount` elements that follow `x` if it is repeatedly reflected at its end."""
    n = x.shape[d]
    parts = []
    while amount > 0:
        last = _part(x, n - 1, n, d)
        x = flip(x, d)
        if odd:
            x = lax.sub(lax.mul(lax.const(x, 2), last), x)
        count = min(amount, n - offset)
        parts.append(_part(x, offset, offset + count, d))
        amount -= count
    return lax.concatenate(parts, d)


def _pad_ramp(array, ends, *, width):
    out = array
    for d, (lo, hi) in enumerate(width):
        n = out.shape[d]
        first, last = ((0, 1), (n - 1, n)) if n else (None, None)
        if n == 0:
            raise ValueError("Cannot apply 'linear_ramp' padding to empty axis")
        before = _ramp(_part(out, *first, d), _end(ends, d, 0), lo, d) if lo else None
        after = _ramp(_part(out, *last, d), _end(ends, d, 1), hi, d) if hi else None
        out = _around(
            out, d, None if before is None else before, None if after is None else flip(after, d)
        )
    return out


def _end(ends, d, side):
    return lax.squeeze(slicing.slice(ends, (d, side), (d + 1, side + 1)), (0, 1))


def _ramp(edge, end, n, d):
    """Returns `n` values in linear steps from `end` towards `edge`, excluding `edge`."""
    dtype = edge.dtype
    if not dtypes.issubdtype(dtype, np.inexact):
        wide = dtypes.default_float_dtype()
        edge, end = lax.convert_element_type(edge, wide), lax.convert_element_type(end, wide)
    shape = list(edge.shape)
    shape[d] = n
    t = lax.div(
        lax.broadcasted_iota(util.complex_elem_type(edge.dtype), shape, d),
        lax.const(np.zeros((), util.complex_elem_type(edge.dtype)), n),
    )
    t = lax.convert_element_type(t, edge.dtype)
    end = lax.broadcast_in_dim(end, shape, ())
    edge = lax.broadcast_in_dim(edge, shape, range(edge.ndim))
    out = lax.add(end, lax.mul(t, lax.sub(edge, end)))
    if not dtypes.issubdtype(dtype, np.inexact):
        out = lax.floor(out)
    return lax.convert_element_type(out, dtype)


_pad_ramp = nested_jit(_pad_ramp, static_argnames=("width",))


def _pad_statistic(array, *, width, mode, length):
    for d, ((lo, hi), (len_lo, len_hi)) in enumerate(zip(width, length)):
        n = array.shape[d]
        before = after = None
        if lo:
            count = n if len_lo is None else min(n, len_lo)
            before = _repeated(_statistic(_part(array, 0, count, d), mode, d), lo, d)
        if hi:
            count = n if len_hi is None else min(n, len_hi)
            after = _repeated(_statistic(_part(array, n - count, n, d), mode, d), hi, d)
        array = _around(array, d, before, after)
    return array


_pad_statistic = nested_jit(_pad_statistic, static_argnames=("width", "mode", "length"))


def _statistic(x, mode, d):
    dtype, n = x.dtype, x.shape[d]
    if mode == "maximum":
        out = lax.reduce_max(x, axes=(d,))
    elif mode == "minimum":
        out = lax.reduce_min(x, axes=(d,))
    else:
        wide = (
            x
            if dtypes.issubdtype(dtype, np.inexact)
            else lax.convert_element_type(x, dtypes.default_float_dtype())
        )
        if mode == "mean" or n == 0:
            out = lax.div(lax.reduce_sum(wide, axes=(d,)), lax.const(wide, n))
        else:
            ordered = lax.sort(wide, dimension=d)
            mid = _part(ordered, (n - 1) // 2, n // 2 + 1, d)
            out = lax.div(lax.reduce_sum(mid, axes=(d,)), lax.const(wide, mid.shape[d]))
        if not dtypes.issubdtype(dtype, np.inexact):
            out = lax.round(out, lax.RoundingMethod.TO_NEAREST_EVEN)
    return lax.expand_dims(lax.convert_element_type(out, dtype), (d,))


def _pad_by_function(array, width, fun, kwargs):
    array = _pad_constant(array, width, 0)
    for d, pair in enumerate(width):
        rows = lax.transpose(array, [*[i for i in range(array.ndim) if i != d], d])
        shape = rows.shape
        flat = lax.reshape(rows, (math.prod(shape[:-1]), shape[-1]))
        flat = api.vmap(lambda row, pair=pair, d=d: fun(row, pair, d, kwargs))(flat)
        order = list(range(array.ndim - 1))
        order.insert(d, array.ndim - 1)
        array = lax.transpose(lax.reshape(flat, shape), order)
    return array
