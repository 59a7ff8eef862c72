"""Mutable arrays: the type of references, the concrete reference `Ref`, and effects on references.

The operations on references are in `jax._src.state`, which fills in the slots `ref_*` of `late`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jax._src.core.avals import (
    AbstractValue,
    aval_mapping_handlers,
    mapped_aval,
    pytype_aval_mappings,
    unmapped_aval,
)
from jax._src.core.effects import (
    Effect,
    JaxprInputEffect,
    control_flow_allowed_effects,
    custom_derivatives_allowed_effects,
    remat_allowed_effects,
)
from jax._src.core.trace import Tracer, aval_method, aval_property
from jax._src.late_binding import late

if TYPE_CHECKING:
    pass

# Effects


class RefEffect(JaxprInputEffect):
    """An effect on a reference that is an operand; the operand is named by its position."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{type(self).__name__.removesuffix('Effect')}<{self.input_index}>"


class ReadEffect(RefEffect):
    """A reference is read."""

    __slots__ = ()


class WriteEffect(RefEffect):
    """A reference is written, or read and written."""

    __slots__ = ()


class AccumEffect(RefEffect):
    """A value is added to the contents of a reference."""

    __slots__ = ()


class InternalMutableArrayEffect(Effect):
    """References are created and freed within the equation."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "InternalMutableArrayEffect()"


internal_mutable_array_effect = InternalMutableArrayEffect()
for _allowed in (
    control_flow_allowed_effects,
    custom_derivatives_allowed_effects,
    remat_allowed_effects,
):
    _allowed.add_type(RefEffect)
    _allowed.add_type(InternalMutableArrayEffect)


class AbstractRef(AbstractValue):
    """The type of a reference to a mutable array.

    Args:
      inner_aval: the type of the array.
      memory_space: where it lives; None for the default.
      kind: `"no_grad_no_remat"` for a reference that differentiation ignores, or None.

    >>> jax.typeof(jax.new_ref(jnp.zeros((2, 3))))
    Ref{float32[2,3]}
    """

    __slots__ = ("inner_aval", "memory_space", "kind")

    def __init__(self, inner_aval: AbstractValue, memory_space: Any = None, kind: Any = None):
        self.inner_aval = inner_aval
        self.memory_space = memory_space
        self.kind = kind

    # A reference to a value of a high type is represented by references to its arrays.

    @property
    def is_high(self) -> bool:  # type: ignore[override]
        return self.inner_aval.is_high

    def lo_ty(self) -> list[AbstractValue]:
        if not self.is_high:
            return [self]
        return [self.update(inner_aval=a) for a in self.inner_aval.lo_ty()]

    def lower_val(self, ref: Any) -> list[Any]:
        return self.inner_aval.lower_val(ref._array()) if self.is_high else [ref]

    def raise_val(self, *vals: Any) -> Any:
        return Ref(self, self.inner_aval.raise_val(*vals)) if self.is_high else vals[0]

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.inner_aval.shape

    @property
    def dtype(self) -> Any:
        return self.inner_aval.dtype

    @property
    def weak_type(self) -> bool:
        return getattr(self.inner_aval, "weak_type", False)

    @property
    def ndim(self) -> int:
        return len(self.inner_aval.shape)

    @property
    def size(self) -> int:
        return self.inner_aval.size

    @property
    def sharding(self) -> Any:
        return self.inner_aval.sharding

    @property
    def _sharding(self) -> Any:
        return getattr(self.inner_aval, "_sharding", None)

    @property
    def manual_axis_type(self) -> Any:
        return self.inner_aval.manual_axis_type  # type: ignore[attr-defined]

    mat = manual_axis_type

    @property
    def vma(self) -> Any:
        return self.inner_aval.vma  # type: ignore[attr-defined]

    # Properties and methods that tracers of this type get

    at = aval_property(lambda tracer: late.ref_view(tracer))
    T = aval_property(lambda tracer: late.ref_transposed(tracer))
    get = aval_method(lambda tracer, idx=(): late.ref_get(tracer, idx))
    set = aval_method(lambda tracer, value, idx=(): late.ref_set(tracer, idx, value))
    swap = aval_method(lambda tracer, value, idx=(): late.ref_swap(tracer, idx, value))
    addupdate = aval_method(lambda tracer, value, idx=(): late.ref_addupdate(tracer, idx, value))
    reshape = aval_method(lambda tracer, *shape: late.ref_reshaped(tracer, *shape))
    transpose = aval_method(lambda tracer, *perm: late.ref_transposed(tracer, *perm))
    bitcast = aval_method(lambda tracer, dtype: late.ref_bitcast(tracer, dtype))

    def _getitem(self, tracer: Tracer, idx: object) -> Any:
        return late.ref_get(tracer, idx)

    def _iter(self, tracer: Tracer) -> Iterator[Any]:
        return (self._getitem(tracer, i) for i in range(self.shape[0]))

    def _setitem(self, tracer: Tracer, idx: object, value: object) -> None:
        late.ref_set(tracer, idx, value)

    # Types derived from this one

    def update(  # type: ignore[override]
        self, inner_aval: Any = None, memory_space: Any = None, kind: Any = None
    ) -> AbstractRef:
        """A copy with some fields replaced."""
        return AbstractRef(
            self.inner_aval if inner_aval is None else inner_aval,
            self.memory_space if memory_space is None else memory_space,
            self.kind if kind is None else kind,
        )

    def update_weak_type(self, weak_type: bool) -> AbstractRef:
        return self.update(inner_aval=self.inner_aval.update_weak_type(weak_type))

    def update_manual_axis_type(self, mat: Any) -> AbstractRef:
        return self.update(inner_aval=self.inner_aval.update_manual_axis_type(mat))

    def strip_weak_type(self) -> AbstractRef:
        inner = self.inner_aval.strip_weak_type()
        return self if inner is self.inner_aval else self.update(inner_aval=inner)

    def normalize(self) -> AbstractRef:
        return self.strip_weak_type()

    def dec_rank(self, size: int, spec: Any) -> AbstractValue:
        return mapped_aval(size, spec, self)

    def inc_rank(self, size: int, spec: Any) -> AbstractValue:
        return unmapped_aval(size, spec, self)

    def to_tangent_aval(self) -> AbstractRef:
        return AbstractRef(self.inner_aval.to_tangent_aval(), self.memory_space, self.kind)

    def to_ct_aval(self) -> AbstractRef:
        return AbstractRef(self.inner_aval.to_ct_aval(), self.memory_space, self.kind)

    def _key(self) -> tuple[Any, ...]:
        return (self.inner_aval, self.memory_space, self.kind)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is AbstractRef and self._key() == other._key())

    def __hash__(self) -> int:
        return hash((AbstractRef, *self._key()))

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        space = "" if self.memory_space is None else f"<{self.memory_space}>"
        return f"Ref{space}{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __repr__(self) -> str:
        return self.str_short()

    __str__ = __repr__


aval_mapping_handlers[AbstractRef] = (
    lambda size, axis, aval: aval.update(mapped_aval(size, axis, aval.inner_aval)),
    lambda size, axis, mesh_axis, aval: aval.update(
        unmapped_aval(size, axis, aval.inner_aval, mesh_axis)
    ),
)


class RefLike:
    """An object that is read and written by indexing: a reference, or a view of part of one."""

    __slots__ = ()
    shape: Any

    def get(self, idx: object = ()) -> Any:
        """Return `ref[idx]`; see `jax.ref.get`."""
        return late.ref_get(self, idx)

    def set(self, value: object, idx: object = ()) -> None:
        """Assign `ref[idx] = value`; see `jax.ref.set`."""
        late.ref_set(self, idx, value)

    def swap(self, value: object, idx: object = ()) -> Any:
        """Write `value` and return the previous contents; see `jax.ref.swap`."""
        return late.ref_swap(self, idx, value)

    def addupdate(self, value: object, idx: object = ()) -> None:
        """Add `value` to the contents; see `jax.ref.addupdate`."""
        late.ref_addupdate(self, idx, value)

    @property
    def at(self) -> Any:
        """Views: `ref.at[idx]` is a part of the array, read and written like a reference."""
        return late.ref_view(self)

    def __getitem__(self, idx: object) -> Any:
        return late.ref_get(self, idx)

    def __setitem__(self, idx: object, value: object) -> None:
        late.ref_set(self, idx, value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


class _RefMeta(type):
    """Lets `isinstance(x, jax.Ref)` hold for tracers of references."""

    def __instancecheck__(cls, x: object) -> bool:
        if type(x) is cls:
            return True
        return isinstance(x, Tracer) and isinstance(x.aval, AbstractRef)


class Ref(RefLike, metaclass=_RefMeta):
    """A reference to a mutable array, made by `jax.new_ref`.

    It is read by `ref[idx]` and written by `ref[idx] = value` and `ref[idx] += value`; `ref[...]` is the
    whole array. Functions transformed by JAX can take references as arguments and close over them.

    >>> ref = jax.new_ref(jnp.arange(3))
    >>> ref[0] = 10
    >>> ref
    Ref([10,  1,  2], dtype=int32)
    """

    __slots__ = ("_aval", "_buffer", "__weakref__")
    _aval: AbstractRef

    def __init__(self, aval: AbstractRef, buffer: Any):
        self._aval = aval
        # The array, to which there is no other reference, so that writes can reuse its buffer; None
        # after `freeze` or `free_ref`.
        self._buffer = buffer

    @property
    def aval(self) -> AbstractRef:
        """The type of the reference."""
        return self._aval

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of the array."""
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the array."""
        return self._aval.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._aval.size

    def _array(self) -> Any:
        """The array that the reference holds now; the next write may reuse its buffer."""
        if self._buffer is None:
            raise RuntimeError(
                f"The reference of type {self._aval} has ended: it was given to jax.freeze or "
                "jax.free_ref. Read it before, or make a new one with jax.new_ref."
            )
        return self._buffer

    @property
    def sharding(self) -> Any:
        """The sharding of the array."""
        return self._array().sharding

    @property
    def committed(self) -> bool:
        """Whether the array is committed to its devices."""
        return bool(self._array().committed)

    _committed = committed

    @property
    def format(self) -> Any:
        """Layout and sharding of the array."""
        return self._array().format

    def unsafe_buffer_pointer(self) -> int:
        """The address of the buffer, valid until the next write."""
        return int(self._array().unsafe_buffer_pointer())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self._array(), dtype=dtype)

    def __reduce__(self) -> Any:
        raise TypeError("a mutable array reference cannot be pickled or copied: read it, ref[...]")

    def __repr__(self) -> str:
        if self._buffer is None:
            return f"Ref(<ended>, {self._aval})"
        if self._aval.is_high:
            return f"Ref({self._buffer!r})"
        return "Ref" + repr(self._buffer).removeprefix("Array")


pytype_aval_mappings[Ref] = lambda ref: ref._aval


def is_tracer_or_ref(x: object) -> bool:
    """Whether a value that a function closes over must become an operand of its jaxpr.

    Mutable values of high types, which have quasi-dynamic data, must, too.
    """
    return isinstance(x, Tracer) or type(x) is Ref or hasattr(type(x), "cur_qdd")


def has_ref_effects(effects: Iterable[Effect]) -> bool:
    """Whether the effects include uses of references: of operands, or of references made inside."""
    return any(isinstance(e, (RefEffect, InternalMutableArrayEffect)) for e in effects)
