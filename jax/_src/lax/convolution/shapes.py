"""Dimension numbers, padding and shapes of convolutions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

from jax._src import core
from jax._src.lax.lax.windows import padtype_to_pads


class ConvDimensionNumbers(NamedTuple):
    """The batch, feature and spatial dimensions of a convolution's arrays.

    Attributes:
      lhs_spec: (batch dimension, feature dimension, spatial dimensions...).
      rhs_spec: (output feature dimension, input feature dimension, spatial dimensions...).
      out_spec: (batch dimension, feature dimension, spatial dimensions...).
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


def unknown_padding(padding: str) -> RuntimeError:
    return RuntimeError(
        f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding}."
    )


# ---------------------------------------------------------------------------------------------------
# Dimension numbers and shapes


def conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers) -> ConvDimensionNumbers:
    """Parse dimension numbers given as three strings, or None for batch, features, space.

    Raises:
      TypeError: if they do not match the shapes.

    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return ConvDimensionNumbers(*[tuple([int(d) for d in s]) for s in dimension_numbers])
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(
            "convolution requires lhs and rhs ndim to be equal, got "
            f"{len(lhs_shape)} and {len(rhs_shape)}."
        )
    if len(lhs_shape) < 2:
        raise TypeError(
            f"convolution requires arrays of at least two dimensions, got shapes {tuple(lhs_shape)} and "
            f"{tuple(rhs_shape)}."
        )
    if dimension_numbers is None:
        iota = tuple(range(len(lhs_shape)))
        return ConvDimensionNumbers(iota, iota, iota)
    if not isinstance(dimension_numbers, (list, tuple)):
        raise TypeError(
            "convolution dimension_numbers must be tuple/list or None, got "
            f"{type(dimension_numbers)}."
        )
    if len(dimension_numbers) != 3:
        raise TypeError(
            "convolution dimension_numbers list/tuple must be length 3, got "
            f"{len(dimension_numbers)}."
        )
    for i, spec in enumerate(dimension_numbers):
        if not isinstance(spec, str):
            raise TypeError(
                f"convolution dimension_numbers elements must be strings, got {type(spec)} at position {i}."
            )
        if len(spec) != len(lhs_shape):
            raise TypeError(
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs and rhs, got "
                f"{len(spec)} for lhs and rhs shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def conv_general_permutations(dimension_numbers):
    """Return the (batch or output, features or input, spatial...) dimensions for three strings.

    Raises:
      TypeError: if a string has wrong or repeated letters.

    >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    for i, (spec, (a, b)) in enumerate(zip(dimension_numbers, ("NC", "OI", "NC"))):
        if len(set(spec)) != len(spec):
            raise TypeError(
                f"convolution dimension_numbers[{i}] cannot have duplicate characters, got {spec}."
            )
        if a not in spec or b not in spec:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must contain the characters '{a}' and '{b}' exactly "
                f"once, got {spec}."
            )
    lhs, rhs, out = dimension_numbers
    space = [c for c in rhs if c not in "OI"]
    if set(space) != set(lhs) - set("NC") or set(space) != set(out) - set("NC"):
        raise TypeError(
            "convolution dimension_numbers elements must each have the same set of spatial characters, got "
            f"{dimension_numbers}."
        )
    return (
        tuple([lhs.index(c) for c in ("N", "C", *space)]),
        tuple([rhs.index(c) for c in ("O", "I", *space)]),
        tuple([out.index(c) for c in ("N", "C", *space)]),
    )


def conv_shape_tuple(lhs_shape, rhs_shape, strides, pads, batch_group_count=1):
    """Return the shape of a convolution of shapes in the order batch, features, space.

    >>> lax.conv_shape_tuple((1, 2, 8, 8), (4, 2, 3, 3), (1, 1), "SAME")
    (1, 4, 8, 8)
    """
    if isinstance(pads, str):
        pads = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    if len(pads) != len(lhs_shape) - 2:
        raise TypeError(
            "Wrong number of explicit pads for convolution: expected "
            f"{len(lhs_shape) - 2}, got {len(pads)}."
        )
    space = []
    for size, window, stride, (lo, hi) in zip(lhs_shape[2:], rhs_shape[2:], strides, pads):
        padded = size + lo + hi
        if core.is_constant_dim(padded) and padded < 0:
            raise ValueError(
                "Negative padding is larger than the size of the corresponding dimension: got "
                f"padding={tuple(pads)} for lhs_shape[2:]={tuple(lhs_shape[2:])}"
            )
        space.append(core.stride_dim(padded, window, stride))
    if batch_group_count == 0 or lhs_shape[0] % batch_group_count:
        raise ValueError(
            "conv_general_dilated batch_group_count must divide lhs batch dimension size, but "
            f"{batch_group_count} does not divide {lhs_shape[0]}."
        )
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *space)


def conv_general_shape_tuple(lhs_shape, rhs_shape, window_strides, padding, dimension_numbers):
    """Return the result shape of a convolution whose dimension order is given by three strings.

    >>> dims = ("NHWC", "HWIO", "NHWC")
    >>> lax.conv_general_shape_tuple((1, 8, 8, 2), (3, 3, 2, 4), (1, 1), "SAME", dims)
    (1, 8, 8, 4)
    """
    lhs_perm, rhs_perm, out_perm = conv_general_permutations(dimension_numbers)
    out = conv_shape_tuple(
        [lhs_shape[d] for d in lhs_perm], [rhs_shape[d] for d in rhs_perm], window_strides, padding
    )
    return tuple([out[out_perm.index(d)] for d in range(len(out))])


def conv_transpose_shape_tuple(lhs_shape, rhs_shape, window_strides, padding, dimension_numbers):
    """Return the result shape of a transposed convolution with dimension order given by strings.

    >>> dims = ("NHWC", "HWIO", "NHWC")
    >>> lax.conv_transpose_shape_tuple((1, 8, 8, 2), (3, 3, 2, 4), (2, 2), "SAME", dims)
    (1, 16, 16, 4)
    """
    lhs_perm, rhs_perm, out_perm = conv_general_permutations(dimension_numbers)
    lhs_shape = [lhs_shape[d] for d in lhs_perm]
    rhs_shape = [rhs_shape[d] for d in rhs_perm]
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise unknown_padding(padding)
        padding = [
            transpose_padding(k, s, padding.upper()) for k, s in zip(rhs_shape[2:], window_strides)
        ]
    space = [
        (size - 1) * s + 1 + lo + hi - k + 1 if size else 0
        for size, k, s, (lo, hi) in zip(lhs_shape[2:], rhs_shape[2:], window_strides, padding)
    ]
    out = (lhs_shape[0], rhs_shape[0], *space)
    return tuple([out[out_perm.index(d)] for d in range(len(out))])


def integers(what: str, values) -> tuple[int, ...]:
    try:
        return tuple([operator.index(v) for v in values])
    except TypeError:
        raise TypeError(
            f"convolution {what} must be a sequence of integers, got {values}"
        ) from None


def pairs(padding) -> list[tuple[int, int]]:
    try:
        return [core.canonicalize_shape((lo, hi)) for lo, hi in padding]
    except (TypeError, ValueError):
        raise ValueError(
            "padding argument to conv_general_dilated should be a string or a sequence of (low, high) "
            f"pairs, got {padding}"
        ) from None


def check_window(name, n, strides, lhs_dilation, rhs_dilation) -> None:
    for what, values in (
        ("window_strides", strides),
        ("lhs_dilation", lhs_dilation),
        ("rhs_dilation", rhs_dilation),
    ):
        if len(values) != n:
            raise ValueError(
                f"{name} window and {what} must have the same number of dimensions, but got {n} and "
                f"{len(values)}"
            )
        if any(v <= 0 for v in values):
            noun = "strides" if what == "window_strides" else "dilations"
            raise TypeError(f"All {noun} must be positive, got {values} for {what}.")


def transpose_padding(k: int, s: int, padding: str) -> tuple[int, int]:
    """Return the padding of the dilated input, for kernel size `k` and stride `s`."""
    if padding == "SAME":
        total = k + s - 2
        before = k - 1 if s > k - 1 else -(-total // 2)
    else:
        total = k + s - 2 + max(k - s, 0)
        before = k - 1
    return before, total - before
