"""Placeholders for linear arguments, zeros, and views of the rules of differentiation."""

from __future__ import annotations

from typing import Any

from jax._src.ad_util import Zero, zeros_like_aval
from jax._src.core import AbstractValue, Primitive, RuleView, typeof
from jax._src.late_binding import late
from jax._src.tree_util import register_pytree_node

primitive_jvps = RuleView("jvp")
primitive_linearizations = RuleView("linearize")
primitive_transposes = RuleView("transpose")


class UndefinedPrimal:
    """A placeholder for a linear argument in a transpose rule, with only its type."""

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


register_pytree_node(UndefinedPrimal, lambda x: ((), x.aval), lambda aval, _: UndefinedPrimal(aval))
register_pytree_node(Zero, lambda z: ((), z.aval), lambda aval, _: Zero(aval))


def is_undefined_primal(x: object) -> bool:
    """Whether `x` stands for a linear argument in a transpose rule."""
    return type(x) is UndefinedPrimal


def instantiate_zeros(tangent: object) -> Any:
    """Replace a symbolic zero by an array of zeros; return other tangents unchanged."""
    return zeros_like_aval(tangent.aval) if type(tangent) is Zero else tangent


def zero_of(x: object) -> Zero:
    """Return the zero tangent of a value."""
    return Zero(typeof(x).to_tangent_aval())


p2tz = zero_of


def p2cz(x: object) -> Zero:
    """Return the zero cotangent of a value."""
    return Zero(typeof(x).to_ct_aval())


def as_cotangent(ct: object, aval: AbstractValue) -> Any:
    """Give a cotangent the sharding of cotangents of a value of type `aval`, in explicit mode."""
    sharding = aval.to_ct_aval()._sharding
    has = getattr(typeof(ct), "_sharding", None)
    if has is None or sharding is None or has == sharding or has.mesh != sharding.mesh:
        return ct
    return late.reshard(ct, sharding)


def no_rule(what: str, primitive: Primitive) -> NotImplementedError:
    return NotImplementedError(
        f"{what} for '{primitive.name}' not implemented: give the function that uses it a derivative "
        "with jax.custom_jvp or jax.custom_vjp, or apply jax.lax.stop_gradient to its operands."
    )
