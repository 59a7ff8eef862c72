"""Transforms of references that only GPUs know: how memory is arranged, and references to other blocks and devices."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes, pretty_printer as pp
from jax._src.core import AbstractRef, ShapedArray, typeof
from jax._src.lax import lax
from jax._src.pallas.semaphores import DeviceIdType
from jax._src.state.types import (
    Transform,
    TransformedRef,
    ref_and_transforms,
    transposed,
    view_type,
)
from jax._src.tree_util import PyTreeDef, register_pytree_node

SWIZZLES = (32, 64, 128)


def _with_shape(x: Any, shape: Sequence[int]) -> Any:
    """Return a type of array or reference with another shape."""
    if isinstance(x, AbstractRef):
        return x.update(inner_aval=ShapedArray(tuple(shape), x.dtype))
    return ShapedArray(tuple(shape), x.dtype)


class TilingTransform(Transform):
    """Memory that is tiled: an array of shape (M, N) is stored as (M // X, N // Y, X, Y).

    Args:
      tiling: the tile (X, Y), for the last dimensions.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> plgpu.TilingTransform((8, 32)).transform_type(jax.typeof(jnp.zeros((16, 256))))
    ShapedArray(float32[2,8,8,32])
    """

    __slots__ = ("tiling",)

    def __init__(self, tiling: tuple[int, ...]):
        self.tiling = tuple(tiling)

    def transform_type(self, x: Any) -> Any:
        """Return the type of what is stored.

        Raises:
          ValueError: if the tile does not divide the array.
        """
        n = len(self.tiling)
        head, tail = x.shape[: len(x.shape) - n], x.shape[len(x.shape) - n :]
        if len(tail) < n or any([t < 1 or d % t for d, t in zip(tail, self.tiling)]):
            raise ValueError(
                f"Tiling {self.tiling} does not divide an array of shape {tuple(x.shape)}."
            )
        counts = [d // t for d, t in zip(tail, self.tiling)]
        return _with_shape(x, (*head, *counts, *self.tiling))

    def undo(self, x: Any) -> Any:
        """Return the transform back."""
        return UntilingTransform(self.tiling)

    def pretty_print(self, context: Any) -> Any:
        return pp.text(f"{{tile({list(self.tiling)})}}")


class UntilingTransform(Transform):
    """A view of tiled memory as the array that is stored."""

    __slots__ = ("tiling",)

    def __init__(self, tiling: tuple[int, ...]):
        self.tiling = tuple(tiling)

    def transform_type(self, x: Any) -> Any:
        n = len(self.tiling)
        if len(x.shape) < 2 * n or tuple(x.shape[len(x.shape) - n :]) != self.tiling:
            raise ValueError(
                f"An array of shape {tuple(x.shape)} is not one that is tiled by {self.tiling}."
            )
        head = x.shape[: len(x.shape) - 2 * n]
        counts = x.shape[len(x.shape) - 2 * n : len(x.shape) - n]
        return _with_shape(x, (*head, *[c * t for c, t in zip(counts, self.tiling)]))

    def apply(self, x: Any) -> Any:
        return lax.reshape(
            lax.transpose(x, self._interleaved(x.ndim)), self.transform_type(typeof(x)).shape
        )

    def undo(self, x: Any) -> Any:
        return TilingTransform(self.tiling)

    def update(self, x: Any, value: Any, accumulate: bool = False) -> Any:
        n, shape = len(self.tiling), x.shape
        perm = self._interleaved(x.ndim)
        split = lax.reshape(value, tuple([shape[p] for p in perm]))
        stored = lax.transpose(split, tuple([int(i) for i in np.argsort(perm)]))
        return lax.add(x, stored) if accumulate and n else stored

    def _interleaved(self, ndim: int) -> tuple[int, ...]:
        n = len(self.tiling)
        k = ndim - 2 * n
        return (*range(k), *[k + j * n + i for i in range(n) for j in (0, 1)])

    def pretty_print(self, context: Any) -> Any:
        return pp.text(f"{{untile({list(self.tiling)})}}")


class SwizzleTransform(Transform):
    """Memory whose 16-byte pieces are permuted within each group of rows, so that reads do not conflict.

    Args:
      swizzle: the number of bytes in a row: 32, 64 or 128.

    Raises:
      ValueError: if it is another number.
    """

    __slots__ = ("swizzle",)

    def __init__(self, swizzle: int):
        if swizzle not in SWIZZLES:
            raise ValueError(
                f"Swizzle {swizzle} is not supported. Only 32, 64 and 128 are accepted."
            )
        self.swizzle = swizzle

    def transform_type(self, x: Any) -> Any:
        """Return the type, after checking that a row has that many bytes."""
        size = self.swizzle * 8 // dtypes.itemsize_bits(x.dtype)
        if not x.shape or x.shape[-1] != size:
            raise ValueError(
                f"Swizzle {self.swizzle} requires the trailing dimension to be of size {size}, but got shape: "
                f"{tuple(x.shape)}"
            )
        return x

    def undo(self, x: Any) -> Any:
        """Return the transform back."""
        return UnswizzleRef(self.swizzle)

    def pretty_print(self, context: Any) -> Any:
        return pp.text(f"{{swizzle({self.swizzle})}}")


class UnswizzleRef(Transform):
    """A view of swizzled memory as the array that is stored."""

    __slots__ = ("swizzle",)

    def __init__(self, swizzle: int):
        self.swizzle = swizzle

    def transform_type(self, x: Any) -> Any:
        return SwizzleTransform(self.swizzle).transform_type(x)

    def apply(self, x: Any) -> Any:
        return x  # how the pieces are permuted is seen by no operation

    def undo(self, x: Any) -> Any:
        return SwizzleTransform(self.swizzle)

    def update(self, x: Any, value: Any, accumulate: bool = False) -> Any:
        return lax.add(x, value) if accumulate else value

    def pretty_print(self, context: Any) -> Any:
        return pp.text(f"{{unswizzle({self.swizzle})}}")


class ExtractAliasedRef(Transform):
    """A view of one of the references that share memory, in `RefUnion`.

    Args:
      shape, dtype: those of the view.
      offset: where it begins: a number of bytes, or of columns in tensor memory.
      layout: how it is arranged in tensor memory.
      transforms: how it is arranged in shared memory.
    """

    __slots__ = ("shape", "dtype", "offset", "layout", "transforms")

    def __init__(
        self, shape: tuple[int, ...], dtype: Any, offset: int, layout: Any = None,
        transforms: Sequence[Transform] = (),
    ):  # fmt: skip
        self.transforms = tuple(transforms)
        self.shape = shape
        self.dtype = dtype
        self.offset = offset
        self.layout = layout

    def transform_type(self, x: Any) -> Any:
        return ShapedArray(self.shape, self.dtype)

    def pretty_print(self, context: Any) -> Any:
        return pp.text(f"{{alias({dtypes.dtype_name(self.dtype)}{list(self.shape)})}}")


class _SameShape(Transform):
    """A reference to an array of the same type elsewhere."""

    __slots__ = ()

    def transform_type(self, x: Any) -> Any:
        """Return the type itself."""
        return x

    def undo(self, x: Any) -> Any:
        raise ValueError(f"{self} has no inverse.")


class PeerMemRef(_SameShape):
    """The same reference on another device.

    Args:
      device_id: the device.
      device_id_type: how it is named.
    """

    __slots__ = ("device_id", "device_id_type")

    def __init__(self, device_id: Any, device_id_type: DeviceIdType):
        self.device_id = device_id
        self.device_id_type = device_id_type

    def commute_ndindexer(self, _: Any, indexer: Any) -> tuple[Any, PeerMemRef]:
        """Return what is the same as this one followed by an index."""
        return indexer, self

    def pretty_print(self, context: Any) -> Any:
        return pp.text(f"{{peer({_shown(self.device_id, context)})}}")


class MulticastRef(_SameShape):
    """The same reference on all devices along axes of the mesh."""

    __slots__ = ("collective_axes",)

    def __init__(self, collective_axes: tuple[Hashable, ...]):
        self.collective_axes = collective_axes

    def pretty_print(self, context: Any) -> Any:
        return pp.text(f"{{multicast({', '.join(map(str, self.collective_axes))})}}")


class ClusterRef(_SameShape):
    """The same reference in another block of the cluster."""

    __slots__ = ("axes", "positions")

    def __init__(self, axes: tuple[Hashable, ...], positions: tuple[Any, ...]):
        self.axes = axes
        self.positions = positions

    def pretty_print(self, context: Any) -> Any:
        parts = [f"{a}={_shown(p, context)}" for a, p in zip(self.axes, self.positions)]
        return pp.text(f"{{cluster({', '.join(parts)})}}")


def _shown(x: Any, context: Any) -> str:
    return context.name(x) if hasattr(context, "name") and hasattr(x, "aval") else str(x)


_STATIC: tuple[type[Transform], ...] = (
    TilingTransform, UntilingTransform, SwizzleTransform, UnswizzleRef, ExtractAliasedRef, MulticastRef,
)  # fmt: skip
for _cls in _STATIC:
    register_pytree_node(_cls, lambda t: ((), (type(t), t._key())), lambda aux, _: aux[0](*aux[1]))
register_pytree_node(
    PeerMemRef,
    lambda t: ((t.device_id,), t.device_id_type),
    lambda kind, children: PeerMemRef(children[0], kind),
)
register_pytree_node(
    ClusterRef,
    lambda t: ((t.positions,), t.axes),
    lambda axes, children: ClusterRef(axes, children[0]),
)


# Functions


def transform_ref(ref: Any, transform: Transform) -> TransformedRef:
    """Return a view of a reference through a transform.

    Args:
      ref: reference, or a view of one.
      transform: the transform, whose type must fit.
    """
    base, transforms = ref_and_transforms(ref, "transform_ref")
    out = TransformedRef(base, (*transforms, transform))
    view_type(out)  # checks that it fits
    return out


def transpose_ref(ref: Any, permutation: tuple[int, ...]) -> TransformedRef:
    """Return a view of a reference with permuted dimensions.

    Args:
      ref: reference, or a view of one.
      permutation: for each dimension of the view, that of the reference.
    """
    return transposed(ref, tuple(permutation))


def remote_ref(
    ref: Any, device_id: Any, device_id_type: DeviceIdType = DeviceIdType.MESH
) -> TransformedRef:
    """Return the same reference on another device.

    Args:
      ref: reference in global memory, or a view of one.
      device_id: the device: its coordinates in the mesh of `jax.shard_map`, a dictionary of those along some axes, or its number.
      device_id_type: whether integers are coordinates or a number.

    Raises:
      ValueError: if it is a reference to other devices already.
    """
    base, transforms = ref_and_transforms(ref, "remote_ref")
    if any(isinstance(t, (PeerMemRef, MulticastRef)) for t in transforms):
        raise ValueError("The reference is one to other devices already.")
    return TransformedRef(base, (*transforms, PeerMemRef(device_id, DeviceIdType(device_id_type))))


def multicast_ref(ref: Any, collective_axes: Hashable | tuple[Hashable, ...]) -> TransformedRef:
    """Return the same reference on all devices along axes of the mesh.

    Args:
      ref: reference in global memory, or a view of one.
      collective_axes: the axes.
    """
    axes = collective_axes if isinstance(collective_axes, tuple) else (collective_axes,)
    base, transforms = ref_and_transforms(ref, "multicast_ref")
    return TransformedRef(base, (*transforms, MulticastRef(axes)))


def cluster_ref(ref: Any, block_id: Mapping[Hashable, Any]) -> TransformedRef:
    """Return the same reference in another block of the cluster.

    Args:
      ref: reference in shared memory, or a view of one.
      block_id: positions along axes of the cluster; along others, that of this block.
    """
    base, transforms = ref_and_transforms(ref, "cluster_ref")
    axes = tuple(block_id)
    positions = tuple([block_id[a] for a in axes])
    return TransformedRef(base, (*transforms, ClusterRef(axes, positions)))


def refers_through(eqn: Any, *transforms: type[Transform]) -> bool:
    """Whether an operation has a reference that is a view through transforms of some types."""
    nodes = [eqn.params.get("tree"), eqn.params.get("args_tree")]
    while nodes:
        node = nodes.pop()
        if isinstance(node, PyTreeDef):
            data = node.node_data()
            if data is not None and data[0] in transforms:
                return True
            nodes += node.children()
    return False


def stored_type(shape: Sequence[int], dtype: Any, transforms: Sequence[Transform]) -> Any:
    """Return the type of what is stored of an array in memory with transforms.

    Raises:
      ValueError: if they do not fit.
    """
    aval: Any = ShapedArray(tuple(shape), dtype)
    for t in transforms:
        aval = t.transform_type(aval)
    return aval


def nbytes(shape: Sequence[int], dtype: Any) -> int:
    """Return how many bytes an array takes."""
    return -(-math.prod(shape) * dtypes.itemsize_bits(dtype) // 8)
