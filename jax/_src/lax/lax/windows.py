"""Arithmetic of windows: paddings by name, and shapes of reductions and convolutions over windows."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from jax._src import core


class PaddingType(enum.Enum):
    """Paddings that depend on the operand's shape."""

    VALID = 1
    SAME = 2
    SAME_LOWER = 3


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | PaddingType,
) -> list[tuple[int, int]]:
    """The amounts of padding before and after each dimension that a name stands for.

    Args:
      in_shape: sizes of the (dilated) operand.
      window_shape: sizes of the (dilated) window.
      window_strides: its steps.
      padding: "VALID": none. "SAME": so that the result has `in_shape / window_strides` elements
        (rounded up), the odd one at the end; "SAME_LOWER": at the start.

    Raises:
      RuntimeError: if the name is none of these.

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
    """The shape of a reduction over windows: one element for each position of the window."""
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
    """As `reduce_window_shape_tuple`, after checks of all lengths and sizes.

    Raises:
      TypeError: naming the operation, the parameter and the shapes.
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
    """Raises TypeError unless a window's parameters have one entry a dimension and are in range."""
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
