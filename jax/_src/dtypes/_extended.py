"""Extended types: the rules they bring along, and those whose tangents have a type of their own."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from jax._src.dtypes._scalars import check_and_canonicalize_user_dtype
from jax._src.dtypes._types import (
    DType,
    ExtendedDType,
    extended,
    short_dtype_name,
)
from jax._src.typing import DTypeLike


def extended_rule(dtype: ExtendedDType, name: str) -> Any:
    """The rule `name` of an extended type.

    Raises:
      AttributeError: the type has no such rule.
    """
    rule = getattr(dtype._rules, name, None)
    if rule is None:
        uses = {
            "full": "arrays filled with one value (zeros, ones, zeros_like)",
            "global_sharded_result_handler": "arrays outside of jit: convert the results inside of it",
            "make_sharded_array": "arrays made of their shards",
            "add": "sums of cotangents",
        }
        raise AttributeError(
            f"the rules of the extended dtype {dtype} have no {name!r}, which is needed for "
            f"{uses.get(name, 'this operation')}."
        )
    return rule


class ElementType(NamedTuple):
    """Shape and dtype of the array that represents an element of an extended type."""

    shape: tuple[int, ...]
    dtype: DType


class primal_tangent_dtype_scalar(extended):
    """Scalar class of the types that `primal_tangent_dtype` makes."""


class _PrimalTangentRules:
    allow_conversion = True

    @staticmethod
    def physical_element_aval(dtype: PrimalTangentDType) -> ElementType:
        return ElementType((), dtype.primal_dtype)

    @staticmethod
    def tangent_dtype(dtype: PrimalTangentDType) -> DType:
        return dtype.tangent_dtype


@dataclasses.dataclass(frozen=True, repr=False)
class PrimalTangentDType(ExtendedDType):
    """An extended type with values of one type and tangents of another."""

    primal_dtype: Any
    tangent_dtype: Any
    name: str = ""  # type: ignore[assignment]

    _rules = _PrimalTangentRules
    type = primal_tangent_dtype_scalar

    def __repr__(self) -> str:
        return self.name


def primal_tangent_dtype(
    primal_dtype: DTypeLike, tangent_dtype: DTypeLike, name: str | None = None
) -> PrimalTangentDType:
    """An extended type whose values are represented by one type, and whose tangents have another.

    An example is a dtype of fixed-point numbers, integers that represent real numbers.
    `lax.convert_element_type` converts to and from `primal_dtype`, and functions with custom
    derivatives compute with the values.

    Args:
      primal_dtype: dtype of the representation.
      tangent_dtype: dtype of tangents and cotangents.
      name: as printed; by default it names both.

    Raises:
      TypeError: if one of the dtypes is none that arrays can have, or is extended itself.

    Example:
      >>> fixed = jax._src.dtypes.primal_tangent_dtype("int8", "float32", name="fixed8")
      >>> jax.eval_shape(lambda x: jax.lax.convert_element_type(x, fixed), jnp.zeros(3, "int8")).dtype
      fixed8
    """
    primal, tangent = (_number_type(d) for d in (primal_dtype, tangent_dtype))
    if name is None:
        name = f"PrimalTangentDType{{{short_dtype_name(primal)}/{short_dtype_name(tangent)}}}"
    return PrimalTangentDType(primal, tangent, name)


def _number_type(dtype: Any) -> DType:
    if isinstance(dtype, ExtendedDType):
        raise TypeError(
            f"primal_tangent_dtype takes dtypes of numbers, got the extended dtype {dtype}"
        )
    return check_and_canonicalize_user_dtype(dtype, "primal_tangent_dtype")
