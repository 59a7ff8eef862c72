"""High types: types of a user's values, each of which arrays represent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from jax._src.core import (
    AbstractValue,
    HiPspec as HiPspec,
    MappingSpec as MappingSpec,
    QuasiDynamicData,
    aval_method,
    cur_qdd,
    pytype_aval_mappings,
)
from jax._src.tree_util.flat_tree import FlatTree

AxisName = Any
HiVal = Any
LoVal = Any
LoType = AbstractValue
PyTreeOfAvals = Any
QDD = QuasiDynamicData
Ty = AbstractValue


def must_define(obj: object, method: str, what: str) -> NoReturn:
    """Raise the error of a method that every subclass that uses it must define."""
    raise NotImplementedError(f"{type(obj).__name__} must define `{method}`: {what}")


class _HighType(AbstractValue):
    """What immutable and mutable types have in common."""

    is_high = True

    def __hash__(self) -> int:
        raise NotImplementedError(
            f"{type(self).__name__} must define `__hash__`: types are keys of caches"
        )

    def __eq__(self, other: object) -> bool:
        must_define(self, "__eq__", "types are compared")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def to_tangent_aval(self) -> AbstractValue:
        """The type of tangents."""
        must_define(self, "to_tangent_aval", "the type of tangents")

    def to_ct_aval(self) -> AbstractValue:
        """The type of cotangents: that of tangents, unless a subclass says otherwise."""
        return self.to_tangent_aval()


class HiType(_HighType):
    """The base class of types of values that arrays represent, but that are not arrays.

    A subclass must be hashable and comparable (a frozen dataclass, for example) and say how a value
    is made of arrays: `lo_ty`, `lower_val` and `raise_val`. For derivatives it also defines
    `to_tangent_aval` (and `to_ct_aval`, if cotangents have another type), and if tangents are of a
    high type, that type defines `vspace_zero` and `vspace_add`. For `vmap` and `scan` it defines
    `dec_rank`, `inc_rank` and `leading_axis_spec`; for `shard_map`, `shard` and `unshard`.
    `register_hitype` gives the type of values of a class.

    >>> from dataclasses import dataclass
    >>> from jax.experimental.hijax import HiType, HiPrimitive, ShapedArray, register_hitype
    >>> @dataclass(frozen=True)
    ... class Pair:
    ...   first: jax.Array
    ...   second: jax.Array
    >>> @dataclass(frozen=True)
    ... class PairTy(HiType):
    ...   part: ShapedArray
    ...   def lo_ty(self): return [self.part, self.part]
    ...   def lower_val(self, pair): return [pair.first, pair.second]
    ...   def raise_val(self, first, second): return Pair(first, second)
    >>> register_hitype(Pair, lambda pair: PairTy(jax.typeof(pair.first)))
    >>> class Swap(HiPrimitive):
    ...   def abstract_eval(self, pair): return pair, set()
    ...   def to_lojax(self, pair): return Pair(pair.second, pair.first)
    >>> jax.jit(Swap('swap').bind)(Pair(jnp.array(1), jnp.array(2))).first
    Array(2, dtype=int32)
    """

    # How a value is made of arrays

    def lo_ty(self) -> list[AbstractValue]:
        """The types of the arrays that represent a value."""
        must_define(self, "lo_ty", "the types of the arrays that represent a value")

    def lower_val(self, hi_val: HiVal) -> list[LoVal]:
        """The arrays that represent a value."""
        must_define(self, "lower_val", "the arrays that represent a value")

    def raise_val(self, *lo_vals: LoVal) -> HiVal:
        """The value that arrays represent."""
        must_define(self, "raise_val", "the value that arrays represent")

    # Differentiation

    def vspace_zero(self) -> HiVal:
        """The zero of a type of tangents."""
        must_define(self, "vspace_zero", "the zero of a type of tangents")

    def vspace_add(self, x: HiVal, y: HiVal) -> HiVal:
        """The sum of two values of a type of tangents."""
        must_define(self, "vspace_add", "the sum of values of a type of tangents")

    # Batching

    def dec_rank(self, size: int | None, spec: Any) -> HiType:
        """The type of one element of a value that `spec` maps; `size` is the number of elements."""
        must_define(self, "dec_rank", "the type of one element of a mapped value")

    def inc_rank(self, size: int | None, spec: Any) -> HiType:
        """The type of `size` values of this type together, mapped as `spec` says."""
        must_define(self, "inc_rank", "the type of several values together")

    def leading_axis_spec(self) -> Any:
        """The spec that `scan` uses: elements are slices along the leading axes."""
        must_define(self, "leading_axis_spec", "the spec of slices along leading axes")

    # Sharding

    def shard(self, mesh: Any, manual_axes: frozenset[Any], check_vma: bool, spec: Any) -> HiType:
        """The type of one device's part of a value that `shard_map` divides as `spec` says."""
        must_define(self, "shard", "the type of one device's part of a value")

    def unshard(self, mesh: Any, check_vma: bool, spec: Any) -> HiType:
        """The type of the value whose parts, divided as `spec` says, have this type."""
        must_define(self, "unshard", "the type of a value, given that of its parts")

    def nospec(self, mesh: Any, check_vma: bool, all_names: tuple[AxisName, ...]) -> HiPspec:
        """The spec of residuals of this type that a differentiated `shard_map` passes on."""
        must_define(self, "nospec", "the spec of residuals")


class MutableHiType(_HighType):
    """The base class of types of mutable values: arrays represent the state of a value.

    The number and types of these arrays may change while a function runs. What is known of them, the
    quasi-dynamic data (qdd) `state`, is returned by the method `cur_qdd` of a value, and by
    `jax.experimental.cur_qdd` of a value or a tracer. The rule `abstract_eval` of a `HiPrimitive` gets an
    operand's type as an `AvalMutableQDD`, whose `mutable_qdd` it updates.
    """

    has_qdd = True
    is_writer = False

    type_state = aval_method(cur_qdd)

    def dec_rank(self, size: int | None, spec: Any) -> NoReturn:
        raise TypeError(
            f"a mutable value of type {self} has no slices: close over it, instead of mapping or"
            " scanning over it."
        )

    def inc_rank(self, size: int | None, spec: Any) -> NoReturn:
        raise TypeError(f"mutable values of type {self} cannot be stacked: return what they hold.")

    def lo_ty(self) -> list[AbstractValue]:
        raise TypeError(f"which arrays represent a value of type {self} depends on its state")

    def lo_ty_qdd(self, state: QDD, /) -> list[AbstractValue]:
        """The types of the arrays that represent a value in this state."""
        must_define(self, "lo_ty_qdd", "the types of the arrays that represent a state")

    def new_from_loval(self, state: QDD, /, *vals: LoVal) -> HiVal:
        """A new value, in the state that the arrays represent."""
        must_define(self, "new_from_loval", "a new value in the state that arrays represent")

    def read_loval(self, state: QDD, val: HiVal, /) -> list[LoVal]:
        """The arrays that represent the state of a value."""
        must_define(self, "read_loval", "the arrays that represent the state of a value")

    def read_loval_in(self, state: QDD, val: HiVal, /) -> list[LoVal]:
        """The arrays that a function is given for the state of a value."""
        return self.read_loval(state, val)

    def read_loval_out(self, state: QDD, val: HiVal, /) -> FlatTree:
        """The arrays that a function returns for the state of a value, a pytree."""
        return FlatTree.flatten(self.read_loval(state, val))

    def update_from_loval(self, state: QDD, val: HiVal, /, *lo_vals: LoVal) -> None:
        """Give a value the state that arrays represent."""
        must_define(self, "update_from_loval", "gives a value the state that arrays represent")

    def update_from_loval2(self, state: QDD, val: HiVal, lo_vals_ft: FlatTree, /) -> None:
        """Give a value the state that a pytree of arrays represents."""
        self.update_from_loval(state, val, *lo_vals_ft.unflatten())


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Declare the type of values of a class.

    Args:
      val_cls: the class of the values.
      typeof_fn: a function from a value to its type, a `HiType` or a `MutableHiType`.
    """
    pytype_aval_mappings[val_cls] = typeof_fn
