"""Views of references: a reference, and transforms from its array to the part that is viewed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import core, dtypes, pretty_printer as pp
from jax._src.core import (
    AbstractRef as AbstractRef,
    AccumEffect as AccumEffect,
    ReadEffect as ReadEffect,
    RefEffect as RefEffect,
    ShapedArray,
    WriteEffect as WriteEffect,
    typeof,
)
from jax._src.core.refs import RefLike
from jax._src.indexing import Slice
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.state.indexing import NDIndexer
from jax._src.tree_util import register_pytree_node
from jax._src.util import canonicalize_axis

StateEffect = RefEffect

# Filled by outside code: functions that return what `get_ref_aval_from_value` does, by the class of value.
_ref_type_aval_mappings: dict[type, Any] = {}


def shaped_array_ref(shape: Sequence[int], dtype: Any, weak_type: bool = False) -> AbstractRef:
    """Return the aval of a reference to an array of this shape and dtype."""
    return AbstractRef(ShapedArray(tuple(shape), dtype, weak_type))


def get_ref_aval_from_value(x: Any) -> tuple[AbstractRef, Any]:
    """Return the aval of a reference that holds `x`, and its initial value."""
    if (make := _ref_type_aval_mappings.get(type(x))) is not None:
        return make(x)
    return AbstractRef(typeof(x)), x


def stored_aval(ref_aval: Any) -> Any:
    """Return the type of the array that a reference is discharged to.

    It is that of what the reference holds, or, for an extended dtype whose rules have a `stored_dtype`,
    an array of that dtype.
    """
    inner = ref_aval.inner_aval
    dtype = getattr(inner, "dtype", None)
    if isinstance(dtype, dtypes.ExtendedDType):
        stored = getattr(dtype._rules, "stored_dtype", None)
        if stored is not None:
            return ShapedArray(inner.shape, np.dtype(stored))
    return inner


class Transform:
    """A step from an array to a view of it.

    `transform_type(aval)` returns the aval of the view, `apply(x)` the view of an array, and
    `update(x, value, accumulate)` the array after its view is replaced or added to.
    """

    __slots__ = ()

    def transform_type(self, aval: Any) -> Any:
        raise NotImplementedError

    def apply(self, x: Any) -> Any:
        raise NotImplementedError

    def undo(self, view: Any) -> Any:
        """Return the array that has this view."""
        raise NotImplementedError

    def update(self, x: Any, value: Any, accumulate: bool = False) -> Any:
        return lax.add(x, self.undo(value)) if accumulate else self.undo(value)

    def pretty_print(self, context: Any) -> Any:
        raise NotImplementedError

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class ReshapeTransform(Transform):
    """A view with another shape."""

    __slots__ = ("shape", "own_shape")

    def __init__(self, shape: tuple[int, ...], own_shape: tuple[int, ...]):
        self.shape = shape
        self.own_shape = own_shape

    def transform_type(self, aval: Any) -> Any:
        return ShapedArray(self.shape, aval.dtype, aval.weak_type)

    def apply(self, x: Any) -> Any:
        return lax.reshape(x, self.shape)

    def undo(self, view: Any) -> Any:
        return lax.reshape(view, self.own_shape)

    def pretty_print(self, context: Any) -> Any:
        return pp.text(f".reshape({', '.join(map(str, self.shape))})")


class TransposeTransform(Transform):
    """A view with permuted dimensions."""

    __slots__ = ("permutation",)

    def __init__(self, permutation: tuple[int, ...]):
        self.permutation = permutation

    def transform_type(self, aval: Any) -> Any:
        shape = tuple(aval.shape[i] for i in self.permutation)
        return ShapedArray(shape, aval.dtype, aval.weak_type)

    def apply(self, x: Any) -> Any:
        return lax.transpose(x, self.permutation)

    def undo(self, view: Any) -> Any:
        return lax.transpose(view, tuple(int(i) for i in np.argsort(self.permutation)))

    def pretty_print(self, context: Any) -> Any:
        return pp.text(f".transpose({', '.join(map(str, self.permutation))})")


class BitcastTransform(Transform):
    """A view of the bits as another dtype; a different width changes the number of rows."""

    __slots__ = ("dtype", "own_dtype")

    def __init__(self, dtype: Any, own_dtype: Any):
        self.dtype = dtype
        self.own_dtype = own_dtype

    def transform_type(self, aval: Any) -> Any:
        shape = _bitcast_shape(aval.shape, aval.dtype, self.dtype)
        return ShapedArray(shape, self.dtype)

    def apply(self, x: Any) -> Any:
        return bitcast_array(x, self.dtype)

    def undo(self, view: Any) -> Any:
        return bitcast_array(view, self.own_dtype)

    def update(self, x: Any, value: Any, accumulate: bool = False) -> Any:
        return self.undo(lax.add(self.apply(x), value) if accumulate else value)

    def pretty_print(self, context: Any) -> Any:
        return pp.text(f".bitcast({dtypes.dtype_name(self.dtype)})")


class SelectTransform(Transform):
    """The one of several references whose position is a traced number."""

    __slots__ = ("idx",)

    def __init__(self, idx: Any):
        self.idx = idx

    def transform_type(self, aval: Any) -> Any:
        return aval

    def pretty_print(self, context: Any) -> Any:
        name = core.pp_var(self.idx, context) if isinstance(self.idx, core.Var) else str(self.idx)
        return pp.text(f"{{select({name})}}")


register_pytree_node(
    SelectTransform, lambda t: ((t.idx,), None), lambda _, children: SelectTransform(*children)
)

for _cls in (ReshapeTransform, TransposeTransform, BitcastTransform):
    register_pytree_node(_cls, lambda t: ((), (type(t), t._key())), lambda aux, _: aux[0](*aux[1]))


def _bitcast_shape(shape: Sequence[int], dtype: Any, new: Any) -> tuple[int, ...]:
    bits, new_bits = dtypes.itemsize_bits(dtype), dtypes.itemsize_bits(new)
    if bits == new_bits:
        return tuple(shape)
    if len(shape) < 2:
        raise NotImplementedError(
            f"a bitcast from {dtypes.dtype_name(dtype)} to {dtypes.dtype_name(new)}, of another width, "
            f"needs 2 dimensions, got shape {tuple(shape)}"
        )
    rows = shape[-2] * bits
    if rows % new_bits:
        raise ValueError(
            f"cannot bitcast shape {tuple(shape)} from {dtypes.dtype_name(dtype)} to "
            f"{dtypes.dtype_name(new)}: the second last dimension does not divide"
        )
    return (*shape[:-2], rows // new_bits, shape[-1])


def bitcast_array(x: Any, dtype: Any) -> Any:
    """Reinterpret the bits of an array as another dtype, whose width determines the rows."""
    aval = typeof(x)
    shape = _bitcast_shape(aval.shape, aval.dtype, dtype)
    bits, new_bits = dtypes.itemsize_bits(aval.dtype), dtypes.itemsize_bits(dtype)
    if bits == new_bits:
        return lax.bitcast_convert_type(x, dtype)
    ndim = len(shape)
    lead = tuple(range(ndim - 2))
    if new_bits < bits:  # (..., r, c) -> (..., r, c, k) -> (..., r, k, c)
        x = lax.bitcast_convert_type(x, dtype)
        return lax.reshape(lax.transpose(x, (*lead, ndim - 2, ndim, ndim - 1)), shape)
    k = new_bits // bits
    x = lax.reshape(x, (*shape[:-1], k, shape[-1]))
    return lax.bitcast_convert_type(lax.transpose(x, (*lead, ndim - 2, ndim, ndim - 1)), dtype)


def transform_type(transforms: Sequence[Any], aval: Any) -> Any:
    """Return the aval of a view, after all transforms."""
    for t in transforms:
        aval = t.transform_type(aval)
    return aval


class RefIndexer:
    """`ref.at`: indexing it returns a view."""

    __slots__ = ("ref_or_view",)

    def __init__(self, ref_or_view: Any):
        self.ref_or_view = ref_or_view

    def __getitem__(self, idx: Any) -> TransformedRef:
        ref, transforms = ref_and_transforms(self.ref_or_view)
        if isinstance(ref, tuple):
            raise NotImplementedError("A view of a selected reference: select among views instead.")
        if idx is ... or (isinstance(idx, tuple) and not idx):
            return TransformedRef(ref, transforms)
        shape = transform_type(transforms, typeof(ref).inner_aval).shape  # type: ignore[attr-defined]
        return TransformedRef(ref, (*transforms, NDIndexer.from_indices_shape(idx, shape)))

    def __repr__(self) -> str:
        return f"RefIndexer(ref_or_view={self.ref_or_view})"


class TransformedRef(RefLike):
    """A view of a part of a reference; it is read and written like a reference.

    Attributes:
      ref: the reference.
      transforms: the steps from its array to the view.
    """

    __slots__ = ("ref", "transforms")

    def __init__(self, ref: Any, transforms: Sequence[Any]):
        self.ref = ref
        self.transforms = tuple(transforms)

    @property
    def type(self) -> Any:
        """The aval of the view."""
        if self.multiref:
            return transform_type(self.transforms, view_type(self.ref[0]))
        return transform_type(self.transforms, typeof(self.ref).inner_aval)  # type: ignore[attr-defined]

    shape = property(lambda self: self.type.shape)
    dtype = property(lambda self: self.type.dtype)
    ndim = property(lambda self: len(self.type.shape))
    size = property(lambda self: math.prod(self.type.shape))
    T = property(lambda self: transposed(self))

    @property
    def is_dynamic_size(self) -> bool:
        """Whether the size of a slice is traced, as it may be in kernels."""
        return any(
            isinstance(i, Slice) and i.is_dynamic_size
            for t in self.transforms
            if isinstance(t, NDIndexer)
            for i in t.indices
        )

    @property
    def multiref(self) -> bool:
        """Whether it is a view of several references."""
        return isinstance(self.ref, (tuple, list))

    def reshape(self, *shape: Any) -> TransformedRef:
        """Return a view with another shape, given as ints or as a sequence; one size may be -1."""
        return reshaped(self, *shape)

    def transpose(self, *permutation: Any) -> TransformedRef:
        """Return a view with permuted dimensions, by default reversed."""
        return transposed(self, *permutation)

    def bitcast(self, dtype: Any) -> TransformedRef:
        """Return a view of the same bits as another dtype."""
        return bitcast(self, dtype)

    def __repr__(self) -> str:
        return f"TransformedRef(ref={self.ref}, transforms={self.transforms})"


register_pytree_node(
    TransformedRef,
    lambda x: ((x.ref, x.transforms), None),
    lambda _, children: TransformedRef(*children),
)


def view_type(x: Any) -> Any:
    """Return the aval of a view, or of what a reference holds."""
    return x.type if isinstance(x, TransformedRef) else typeof(x).inner_aval  # type: ignore[attr-defined]


def ref_and_transforms(x: Any, function_name: str = "") -> tuple[Any, tuple[Any, ...]]:
    """Return the reference and the transforms of a reference or a view.

    Raises:
      ValueError: if `x` is neither a reference nor a view.
    """
    if isinstance(x, TransformedRef):
        return x.ref, x.transforms
    if isinstance(x, core.Ref):
        return x, ()
    raise ValueError(f"Can only call `{function_name or 'at'}` on a `Ref`: {x}.")


def _sequence(args: Sequence[Any]) -> tuple[int, ...]:
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = args[0]
    return tuple(map(core.canonicalize_dim, args))


def reshaped(x: Any, *shape: Any) -> TransformedRef:
    ref, transforms = ref_and_transforms(x)
    own = transform_type(transforms, typeof(ref).inner_aval).shape  # type: ignore[attr-defined]
    new = list(_sequence(shape))
    if new.count(-1) == 1:
        rest = math.prod(d for d in new if d != -1)
        if rest:
            new[new.index(-1)] = math.prod(own) // rest
    if math.prod(new) != math.prod(own) or any(d < 0 for d in new):
        raise TypeError(f"cannot reshape a reference of shape {own} into shape {_sequence(shape)}")
    return TransformedRef(ref, (*transforms, ReshapeTransform(tuple(new), tuple(own))))


def transposed(x: Any, *permutation: Any) -> TransformedRef:
    ref, transforms = ref_and_transforms(x)
    ndim = len(transform_type(transforms, typeof(ref).inner_aval).shape)  # type: ignore[attr-defined]
    perm = _sequence(permutation) or tuple(reversed(range(ndim)))
    perm = tuple(canonicalize_axis(p, ndim) for p in perm)
    if sorted(perm) != list(range(ndim)):
        raise ValueError(f"{perm} is not a permutation of the {ndim} dimensions of the reference")
    return TransformedRef(ref, (*transforms, TransposeTransform(perm)))


def bitcast(x: Any, dtype: Any) -> TransformedRef:
    ref, transforms = ref_and_transforms(x)
    aval = transform_type(transforms, typeof(ref).inner_aval)  # type: ignore[attr-defined]
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "bitcast")
    _bitcast_shape(aval.shape, aval.dtype, dtype)
    return TransformedRef(ref, (*transforms, BitcastTransform(dtype, aval.dtype)))


late.ref_view = RefIndexer
late.ref_transposed = transposed
late.ref_reshaped = reshaped
late.ref_bitcast = bitcast
