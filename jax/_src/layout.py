"""`Layout` and `Format`: the order of an array's elements in memory."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jax._src import dtypes, lib
from jax._src.lib import _jax
from jax._src.named_sharding import NamedSharding, UnspecifiedValue
from jax._src.sharding import Sharding

Shape = tuple[int, ...]


# Bits per element of the dtypes whose elements tiled layouts pack.
_PACKED_BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}


class AutoLayoutSingleton:
    """The type of `Layout.AUTO`: the compiler chooses the layout."""

    __slots__ = ()

    def __str__(self):
        return "AUTO"

    __repr__ = __str__

    def __reduce__(self):
        return _get_auto_layout, ()


AutoLayout = AutoLayoutSingleton()


def _get_auto_layout():
    return AutoLayout


class Layout:
    """The order of an array's elements in a device's memory.

    Args:
      major_to_minor: the dimensions, slowest varying first.
      tiling: sizes of tiles, as the device defines them; None for the device's default.
      sub_byte_element_size_in_bits: bits per packed element; 0 for the default.

    Raises:
      ValueError: ``major_to_minor`` is not a permutation.

    Example:
      >>> from jax.experimental.layout import Layout
      >>> Layout((1, 0))  # a matrix column by column
      Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)
    """

    AUTO = AutoLayout

    def __init__(
        self,
        major_to_minor: tuple[int, ...],
        tiling: tuple[tuple[int, ...], ...] | None = None,
        sub_byte_element_size_in_bits: int = 0,
    ):
        self.major_to_minor = tuple(map(operator.index, major_to_minor))
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits
        if sorted(self.major_to_minor) != list(range(len(self.major_to_minor))):
            raise ValueError(
                "major_to_minor must have each dimension from 0 once, got"
                f" major_to_minor={self.major_to_minor}."
            )

    @staticmethod
    def from_pjrt_layout(pjrt_layout: _jax.PjRtLayout) -> Layout:
        """The layout that the runtime reports."""
        return Layout.from_xla_layout(pjrt_layout._xla_layout())

    @staticmethod
    def from_xla_layout(xla_layout: Any) -> Layout:
        """The layout in the compiler's form."""
        return Layout(
            xla_layout.minor_to_major()[::-1],
            tuple(map(tuple, xla_layout.tiling())),
            xla_layout.element_size_in_bits(),
        )

    def __repr__(self):
        return (
            f"Layout(major_to_minor={self.major_to_minor}, tiling={self.tiling},"
            f" sub_byte_element_size_in_bits={self.sub_byte_element_size_in_bits})"
        )

    def _key(self):
        return (self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits)

    def __hash__(self):
        return hash(self._key())

    def __eq__(self, other):
        if not isinstance(other, Layout):
            return NotImplemented
        return self._key() == other._key()

    def update(self, **kwargs) -> Layout:
        """A copy with the given fields replaced."""
        args = dict(
            major_to_minor=self.major_to_minor,
            tiling=self.tiling,
            sub_byte_element_size_in_bits=self.sub_byte_element_size_in_bits,
        )
        if unknown := kwargs.keys() - args.keys():
            raise TypeError(f"Layout.update() got unexpected arguments {sorted(unknown)}")
        return Layout(**{**args, **kwargs})

    def _to_xla_layout(self, dtype):
        minor_to_major = self.major_to_minor[::-1]
        sub_byte_size = self.sub_byte_element_size_in_bits
        if self.tiling is None:
            if not sub_byte_size:
                return lib.hlo.Layout(minor_to_major)
            return lib.hlo.Layout(minor_to_major, [], sub_byte_size)
        if not sub_byte_size and not isinstance(dtype, dtypes.ExtendedDType):
            sub_byte_size = _PACKED_BITS.get(np.dtype(dtype).name, 0)
        return lib.hlo.Layout(minor_to_major, list(self.tiling), sub_byte_size)

    def check_compatible_aval(self, aval_shape: Shape) -> None:
        """Raises ValueError if the layout does not match the rank of the shape."""
        if len(self.major_to_minor) != len(aval_shape):
            raise ValueError(
                "Length of major_to_minor and the rank of the value should match. Got"
                f" major_to_minor={self.major_to_minor} and shape={aval_shape}"
            )


LayoutOptions = Layout | None | AutoLayoutSingleton
ShardingOptions = Sharding | None


class Format:
    """A layout together with a sharding: how an array is stored, and where.

    Args:
      layout: a :class:`Layout`, ``Layout.AUTO`` or None (not specified).
      sharding: a :class:`jax.sharding.Sharding` or None (not specified).

    Raises:
      TypeError: an argument is not one of these.
      ValueError: ``layout`` is a :class:`Layout`, but ``sharding`` does not specify the devices.

    Example:
      >>> from jax.experimental.layout import Format
      >>> Format()
      Format(layout=None, sharding=None)
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: LayoutOptions = None, sharding: ShardingOptions = None):
        if not isinstance(layout, (Layout, type(None), AutoLayoutSingleton)):
            raise TypeError(
                "Invalid value received for the layout argument. Expected values are `None`,"
                f" `Layout.AUTO` or an instance of `Layout`. Got {layout} of type {type(layout)}"
            )
        if not isinstance(sharding, (Sharding, type(None))):
            raise TypeError(
                "Invalid value received for the sharding argument. Expected values are `None` or an"
                f" instance of `jax.sharding.Sharding`. Got {sharding} of type {type(sharding)}"
            )
        concrete = (
            isinstance(sharding, Sharding)
            and not isinstance(sharding, UnspecifiedValue)
            and not (isinstance(sharding, NamedSharding) and not sharding._is_concrete)
        )
        if isinstance(layout, Layout) and not concrete:
            raise ValueError(
                f"Sharding has to be concrete when layout is of type {type(layout)}. Please pass a"
                " `jax.sharding.NamedSharding` or `jax.sharding.SingleDeviceSharding` to the sharding"
                f" argument. Got sharding {sharding}"
            )
        self.layout = layout
        self.sharding = sharding

    def __repr__(self):
        return f"Format(layout={self.layout}, sharding={self.sharding})"

    def __hash__(self):
        return hash((self.layout, self.sharding))

    def __eq__(self, other: Any):
        if not isinstance(other, Format):
            return NotImplemented
        return self.layout == other.layout and self.sharding == other.sharding


def get_layout_for_vmap(dim: int, layout: Layout) -> Layout:
    """The layout of arrays stacked along a new dimension, which becomes the most major one."""
    others = [d + (d >= dim) for d in layout.major_to_minor]
    return layout.update(major_to_minor=(dim, *others))
