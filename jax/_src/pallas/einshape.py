"""Splits, transposes and merges of dimensions, written as an equation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import typeof
from jax._src.lax import lax
from jax._src.pallas.grids import current_grid

traceback_util.register_exclusion(__file__)

# The names that one dimension has.
_Group = tuple[str, ...]


def _groups(side: str, equation: str) -> list[_Group]:
    """Return the names of each dimension on a side of an equation."""
    out: list[_Group] = []
    inside: list[str] | None = None
    for c in side.replace(" ", ""):
        if c == "(" and inside is None:
            inside = []
        elif c == ")" and inside is not None:
            out.append(tuple(inside))
            inside = None
        elif c.isalpha():
            if inside is None:
                out.append((c,))
            else:
                inside.append(c)
        else:
            raise ValueError(
                f"Unexpected {c!r} in the equation {equation!r}: a side is letters, and groups of them in parentheses."
            )
    if inside is not None:
        raise ValueError(f"Unmatched parenthesis in the equation {equation!r}.")
    return out


def _parsed(equation: str) -> tuple[list[_Group], list[_Group]]:
    sides = equation.split("->")
    if len(sides) != 2:
        raise ValueError(f"An equation has one '->', got {equation!r}.")
    left, right = [_groups(s, equation) for s in sides]
    names, new = [[n for g in side for n in g] for side in (left, right)]
    if len(set(names)) != len(names) or len(set(new)) != len(new):
        raise ValueError(f"A name is twice on a side of the equation {equation!r}.")
    if set(names) != set(new):
        raise ValueError(
            f"Both sides of the equation {equation!r} must have the same names, got {sorted(set(names) ^ set(new))} on one."
        )
    return left, right


def _sizes(
    left: list[_Group], shape: tuple[int, ...], given: dict[str, int], equation: str
) -> dict[str, int]:
    """Return the size of each name."""
    if len(left) != len(shape):
        raise ValueError(
            f"The equation {equation!r} is for {len(left)} dimensions, got an array of shape {shape}."
        )
    known = {n for g in left for n in g}
    if unknown := sorted(set(given) - known):
        raise ValueError(f"Sizes of {unknown} are given, which the equation {equation!r} has not.")
    sizes = dict(given)
    for group, size in zip(left, shape):
        missing = [n for n in group if n not in given]
        product = math.prod([given[n] for n in group if n in given])
        if len(missing) > 1:
            raise ValueError(
                f"The sizes of {missing} in {equation!r} are not known for an array of shape {shape}: give all but one by name."
            )
        if missing and product and size % product == 0:
            sizes[missing[0]] = size // product
        elif missing or product != size:
            raise ValueError(
                f"A dimension of size {size} is not divided into {''.join(group)} of {equation!r} with sizes {given}."
            )
    return sizes


def _check_tiles(
    left: list[_Group], right: list[_Group], sizes: dict[str, int], x: Any, equation: str
) -> None:
    """Check that tiles of the last two dimensions stay whole, in kernels."""
    if current_grid() is None:
        return
    rows = 8 * max(32 // dtypes.itemsize_bits(typeof(x).dtype), 1)
    for axis, unit in ((-1, 128), (-2, rows)):
        old, new = [tuple(side[axis]) if len(side) >= -axis else () for side in (left, right)]
        if old == new or old and new and old[-1] == new[-1] and sizes[old[-1]] % unit == 0:
            continue
        raise ValueError(
            f"The equation {equation!r} moves elements of tiles, for an array of shape {np.shape(x)}: dimension {axis} must stay, "
            f"or its last name must, with a multiple of {unit} elements."
        )


def einshape(equation: str, x: Any, assert_is_tile_preserving: bool = False, **sizes: int) -> Any:
    """Split, transpose and merge the dimensions of an array.

    Args:
      equation: names of the array's dimensions and of those of the result, such as `"ab(cd)->cabd"`; names in
        parentheses are dimensions that one is split into, or that are merged.
      x: the array.
      assert_is_tile_preserving: whether to raise an error, in kernels, if elements are moved within or
        between the tiles that the last two dimensions are stored in.
      **sizes: sizes of names that do not follow from the array's shape.

    Raises:
      ValueError: if the equation is not for arrays of this shape, or moves elements of tiles.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> pltpu.einshape("a(bc)->bac", jnp.zeros((2, 6)), b=3).shape
    (3, 2, 2)
    """
    left, right = _parsed(equation)
    found = _sizes(left, np.shape(x), sizes, equation)
    names = [n for g in left for n in g]
    order = [names.index(n) for g in right for n in g]
    if assert_is_tile_preserving:
        _check_tiles(left, right, found, x, equation)
    out = lax.reshape(x, [found[n] for n in names])
    if order != list(range(len(order))):
        out = lax.transpose(out, order)
    return lax.reshape(out, [math.prod([found[n] for n in g]) for g in right])
