"""Window arithmetic: named paddings, and result shapes of window reductions and convolutions."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from jax._src import core


class PaddingType(enum.Enum):
    """Named paddings, whose amounts depend on the operand's shape."""

    VALID = 1
    SAME = 2
    SAME_LOWER = 3


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | PaddingType,
) -> list[tuple[int, int]]:
    """Return the padding before and after each dimension for a named padding.

    Args:
      in_shape: shape of the (dilated) operand.
      window_shape: shape of the (dilated) window.
      window_strides: strides of the window.
      padding: "VALID": none. "SAME": so that the result has `in_shape / window_strides` elements,
        rounded up; if the total is odd, the extra element is added at the end. "SAME_LOWER": the
        same with the extra element at the start.

    Returns:
      A list of pairs (low, high).

    Raises:
      RuntimeError: if the name is unknown.

    >>> lax.padtype_to_pads((5,), (3,), (2,), "SAME")
    [(1, 1)]
    """
    if isinstance(padding, str):
        try:
            padding = PaddingType[padding.upper()]
        except KeyError:
            raise RuntimeError(
                "Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got "
                f"{padding!r}."
            ) from None
    if padding is PaddingType.VALID:
        return [(0, 0)] * len(in_shape)
    if padding not in (PaddingType.SAME, PaddingType.SAME_LOWER):
        raise TypeError(f"Unknown padding type: {padding}.")
    pads = []
    for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        out = -(-size // stride)
        total = core.max_dim(0, (out - 1) * stride + window - size)
        low = total // 2 if padding is PaddingType.SAME else total - total // 2
        pads.append((low, total - low))
    return pads


def reduce_window_shape_tuple(
    operand_shape,
    window_dimensions,
    window_strides,
    padding,
    base_dilation=None,
    window_dilation=None,
) -> tuple[Any, ...]:
    """Return the shape of a window reduction: one element for each position of the window."""
    if base_dilation is not None:
        operand_shape = [core.dilate_dim(d, r) for d, r in zip(operand_shape, base_dilation)]
    if window_dilation is not None:
        window_dimensions = [
            core.dilate_dim(d, r) for d, r in zip(window_dimensions, window_dilation)
        ]
    return tuple(
        core.stride_dim(lo + d + hi, w, s)
        for d, w, s, (lo, hi) in zip(operand_shape, window_dimensions, window_strides, padding)
    )


def windowed_shape(
    name: str,
    operand_shape,
    window_dimensions,
    window_strides,
    padding,
    base_dilation,
    window_dilation,
) -> tuple[Any, ...]:
    """Check the parameters of a window reduction, and return its shape.

    Raises:
      TypeError: if a length or size is invalid.
    """
    check_window(
        name,
        operand_shape,
        window_dimensions,
        window_strides,
        padding,
        base_dilation,
        window_dilation,
    )
    return reduce_window_shape_tuple(
        operand_shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )


def check_window(
    name: str,
    operand_shape,
    window_dimensions,
    window_strides,
    padding,
    base_dilation,
    window_dilation,
) -> None:
    """Raise TypeError unless all window parameters have the operand's rank and are in range."""
    if len(operand_shape) != len(window_dimensions):
        raise TypeError(
            f"{name} got the wrong number of window_dimensions for operand: got operand shape "
            f"{tuple(operand_shape)} with window_dimensions {tuple(window_dimensions)}."
        )
    _check_positive(name, "window_dimensions", window_dimensions)
    for what, values in [
        ("window_strides", window_strides),
        ("base_dilation", base_dilation),
        ("window_dilation", window_dilation),
        ("padding", padding),
    ]:
        if len(values) != len(window_dimensions):
            raise TypeError(
                f"{name} got inconsistent {what} and window_dimensions: got {what} {tuple(values)} and "
                f"window_dimensions {tuple(window_dimensions)}."
            )
        if what != "padding":
            _check_positive(name, what, values)


def _check_positive(name: str, what: str, values) -> None:
    if any(type(v) is int and v <= 0 for v in values):
        raise TypeError(
            f"{name} {what} must have every element be strictly positive, got {tuple(values)}."
        )
