"""Drawings of how an array is distributed over devices, made with the library rich."""

from __future__ import annotations

import colorsys
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax._src.debugging import inspect_array_sharding
from jax._src.sharding import Sharding

Color = tuple[float, ...]
ColorMap = Callable[[float], Color]

_LINES = 10
_COLUMNS_PER_LINE = 2.5  # makes a square array look square on the screen


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: ColorMap | None = None,
) -> None:
    """Prints which part of a one- or two-dimensional array each device holds.

    Args:
      shape: the shape of the array.
      sharding: a Sharding.
      use_color: whether parts are drawn as colored areas, if the terminal has colors, or as boxes.
      scale: scales the height of 10 lines; the width follows from the proportions of the array.
      min_width, max_width: the minimal width of a part, and the width of the drawing unless
        `min_width` requires more; in columns.
      color_map: maps a number in [0, 1) to red, green, blue in [0, 1] (other components are
        ignored), like color maps of matplotlib; by default the hues.

    Raises:
      ImportError: rich is not installed.
      ValueError: the array does not have one or two dimensions, or the sharding does not fit.

    >>> s = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])
    >>> jax.debug.visualize_sharding((4,), s, use_color=False)
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    rich = _rich()
    shape = tuple(shape)
    if len(shape) not in (1, 2):
        raise ValueError(
            "`visualize_sharding` only works for shapes with 1 and 2 dimensions, got shape "
            f"{shape}; look at a part, such as `x[0]`, or at a reshaped array."
        )
    cells = _cells(shape, sharding)
    console = rich.console.Console()
    use_color = use_color and console.color_system is not None
    rows = sorted({row for row, _ in cells})
    columns = sorted({column for _, column in cells})
    height = int(_LINES * scale)
    width = int(height * (shape[1] if len(shape) == 2 else 1) / max(shape[0], 1))
    limit = max(min_width, max_width // len(columns))
    styles = _styles(len(cells), color_map) if use_color else iter(())

    table = rich.table.Table(
        show_header=False, show_lines=not use_color, padding=0, pad_edge=False,
        box=None if use_color else rich.box.SQUARE,
    )  # fmt: skip
    for _ in columns:
        table.add_column(no_wrap=True)
    needed = 1
    for row in rows:
        parts, total = [], 1
        for column in columns:
            label = cells[row, column]
            columns_here = int(_fraction(column, shape[-1]) * width * _COLUMNS_PER_LINE)
            columns_here = min(max(columns_here, min_width), limit)
            left, odd = divmod(max(columns_here - len(label) - 2, 0), 2)
            top, bottom = 0, 0
            if len(shape) == 2:
                top, odd_line = divmod(max(int(_fraction(row, shape[0]) * height) - 2, 0), 2)
                bottom = top + odd_line
            style = next(styles) if use_color else "none"
            parts.append(rich.padding.Padding(label, (top, left + odd, bottom, left), style=style))
            total += 2 * left + odd + len(label) + 1
        table.add_row(*parts)
        needed = max(needed, total)
    console.width = max(console.width, needed)
    console.print(table, highlight=False)


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Prints which part of an array each device holds; in a program, as the compiler chose.

    Args:
      arr: a one- or two-dimensional array. Inside a program, it prints when that is compiled.
      **kwargs: those of `jax.debug.visualize_sharding`.

    Raises:
      See `jax.debug.visualize_sharding`.

    >>> jax.debug.visualize_array_sharding(jnp.ones(4), use_color=False)
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    _rich()
    draw = functools.partial(visualize_sharding, arr.shape, **kwargs)
    inspect_array_sharding(arr, callback=draw)


def _rich() -> Any:
    try:
        import rich
        import rich.box
        import rich.console
        import rich.padding
        import rich.table
    except ImportError as e:
        raise ImportError(
            "jax.debug.visualize_sharding and visualize_array_sharding draw with the library rich, "
            "which is not installed: `pip install rich`."
        ) from e
    return rich


Interval = tuple[int, int]


def _cells(shape: tuple[int, ...], sharding: Sharding) -> dict[tuple[Interval, Interval], str]:
    """The labels of the parts, by rows and columns."""
    devices: dict[tuple[Interval, Interval], list[Any]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        part = tuple(s.indices(n)[:2] for s, n in zip(index, shape))
        row, column = ((0, 1), *part) if len(part) == 1 else part
        devices.setdefault((row, column), []).append(device)
    return {
        part: f"{held[0].platform.upper()} {','.join(str(d.id) for d in held)}"
        for part, held in devices.items()
    }


def _fraction(interval: Interval, size: int) -> float:
    return (interval[1] - interval[0]) / max(size, 1)


def _styles(n: int, color_map: ColorMap | None) -> Iterator[str]:
    """Colors for n parts, chosen to differ most between adjacent parts."""
    color_of = color_map or (lambda x: colorsys.hls_to_rgb(x, 0.6, 0.6))
    step = next(k for k in range(max(1, round(0.382 * n)), n + 1) if math.gcd(k, n) == 1)
    for i in range(n):
        red, green, blue = color_of(i * step % n / n)[:3]
        text = "black" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"
        rgb = ",".join(str(round(255 * c)) for c in (red, green, blue))
        yield f"{text} on rgb({rgb})"
