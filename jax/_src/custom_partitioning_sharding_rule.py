"""Shardy's sharding rules for operations of `custom_partitioning`.

A rule names the dimensions of operands and results. Dimensions with the same name, a *factor*, are
sharded in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import sdy

# The name of the leading dimensions that "..." stands for; a number may follow it.
BATCHING = "…"

_KINDS = ("reduction_factors", "need_replication_factors", "permutation_factors")


def _is_batching(name: Any) -> bool:
    return isinstance(name, str) and name.startswith(BATCHING)


def _check_factor(name: str) -> None:
    if not name[:1].isalpha():
        raise ValueError(f"Factor names have to start with a letter, but got '{name[:1]}'")
    for char in name:
        if not (char.isalnum() or char == "_"):
            raise ValueError(f"Unknown character '{char}'")


class CompoundFactor(tuple):
    """Factors that are combined in one dimension, the most major one first.

    Args:
      *factors: two or more names.

    Raises:
      ValueError: there are fewer factors, or one is not a valid name.

    Example:
      >>> from jax.experimental.custom_partitioning import CompoundFactor
      >>> CompoundFactor("b", "c")
      ('b', 'c')
    """

    def __new__(cls, *factors):
        if len(factors) < 2:
            raise ValueError("A compound factor should contain at least two factors")
        for factor in factors:
            if not isinstance(factor, str):
                raise ValueError(
                    f"Each element of CompoundFactor must be a str, but got {type(factor)}"
                )
            if _is_batching(factor):
                raise ValueError("Ellipsis can't be used in a compound factor")
            _check_factor(factor)
        return tuple.__new__(cls, factors)

    def __getnewargs__(self):
        return tuple(self)


class ArrayMapping(tuple):
    """The factors of an operand or result.

    Args:
      *dim_mappings: a factor's name or a `CompoundFactor` for each dimension. The first one may be
        `BATCHING`, which stands for any number of dimensions.

    Raises:
      ValueError: an element is something else.

    Example:
      >>> from jax.experimental.custom_partitioning import ArrayMapping, BATCHING, CompoundFactor
      >>> ArrayMapping(BATCHING, "i", CompoundFactor("j", "k"))
      ('…', 'i', ('j', 'k'))
    """

    def __new__(cls, *dim_mappings):
        for i, dim in enumerate(dim_mappings):
            if not isinstance(dim, (str, CompoundFactor)):
                raise ValueError(
                    "Each element of ArrayMapping must be a str or CompoundFactor, but got"
                    f" {type(dim)}"
                )
            if _is_batching(dim):
                if i > 0:
                    raise ValueError("Ellipsis can only be used at the beginning of a dimension")
            elif isinstance(dim, str):
                _check_factor(dim)
        return tuple.__new__(cls, dim_mappings)

    def __getnewargs__(self):
        return tuple(self)


class SdyShardingRule:
    """How the shardings of the operands and results of an operation depend on each other.

    Args:
      operand_mappings, result_mappings: an `ArrayMapping` for each operand and result.
      reduction_factors: factors over which the operation sums: if one is sharded, the results are
        summed over devices.
      need_replication_factors: factors that must not be sharded.
      permutation_factors: factors that, if sharded, need communication between devices.
      **factor_sizes: the sizes of factors that only compound factors contain.

    Raises:
      ValueError: a factor is not used, is of several kinds, or its size is missing or redundant.
      TypeError: a size is not an integer.

    Example:
      >>> from jax.experimental.custom_partitioning import ArrayMapping, SdyShardingRule
      >>> operands = ArrayMapping("i", "k"), ArrayMapping("k", "j")
      >>> SdyShardingRule(operands, (ArrayMapping("i", "j"),), reduction_factors=("k",))
      SdyShardingRule((('i', 'k'), ('k', 'j')), (('i', 'j'),), {} reduction_factors=('k',))
    """

    def __init__(
        self,
        operand_mappings: tuple[ArrayMapping, ...],
        result_mappings: tuple[ArrayMapping, ...],
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ):
        for name, mappings in (("operand", operand_mappings), ("result", result_mappings)):
            if not isinstance(mappings, (tuple, list)):
                raise TypeError(
                    f"{name}_mappings must be a tuple of ArrayMapping, got {mappings!r}"
                )
        self.operand_mappings = operand_mappings
        self.result_mappings = result_mappings
        self.factor_sizes = factor_sizes
        self.reduction_factors = reduction_factors
        self.need_replication_factors = need_replication_factors
        self.permutation_factors = permutation_factors
        whole, parts = self._used_factors()
        self._check_kinds(whole | parts)
        self._check_sizes(whole, parts)

    def _mappings(self) -> Sequence[Sequence[Any]]:
        return (*self.operand_mappings, *self.result_mappings)

    def _used_factors(self) -> tuple[set[str], set[str]]:
        """Return the factors that are whole dimensions, and those in compound factors."""
        dims = [dim for mapping in self._mappings() for dim in mapping]
        whole = {dim for dim in dims if isinstance(dim, str) and not _is_batching(dim)}
        return whole, {f for dim in dims if isinstance(dim, CompoundFactor) for f in dim}

    def _check_kinds(self, used: set[str]) -> None:
        seen: set[str] = set()
        for kind in _KINDS:
            factors = getattr(self, kind)
            if not isinstance(factors, tuple):
                raise ValueError(f"{kind} must be a tuple of factors")
            for factor in factors:
                if factor not in used:
                    raise ValueError(f"Factor {factor} in {kind} is not used in the rule")
                if factor in seen:
                    raise ValueError(
                        f"Factor {factor} can only be in one of the reduction, need replication, or"
                        " permutation factor sets."
                    )
            if len(set(factors)) != len(factors):
                raise ValueError(f"{kind} contains duplicated factors")
            seen.update(factors)

    def _check_sizes(self, whole: set[str], parts: set[str]) -> None:
        for factor, size in self.factor_sizes.items():
            if not isinstance(size, (int, np.integer)):
                raise TypeError(f"The size of factor {factor} must be an integer, but got {size!r}")
            if factor in whole:
                raise ValueError(
                    f"Factor {factor} represents a whole dimension; do not specify its size"
                )
            if factor not in parts:
                raise ValueError(f"Factor {factor} is not used in the rule, but size is provided")
        for factor in sorted(parts - whole - self.factor_sizes.keys()):
            raise ValueError(
                f"Factor {factor} is only used in compound factors; must specify its size"
            )

    def __repr__(self) -> str:
        kinds = "".join(f" {kind}={getattr(self, kind)}" for kind in _KINDS if getattr(self, kind))
        return (
            f"SdyShardingRule({self.operand_mappings}, {self.result_mappings},"
            f" {self.factor_sizes}{kinds})"
        )


# Rules as text

_TOKENS = re.compile(r"\.\.\.(\d*)|[()]|[^\s().]+|\.")


def str_to_sdy_sharding_rule(
    rule: str,
    *,
    reduction_factors: tuple[str, ...] = (),
    need_replication_factors: tuple[str, ...] = (),
    permutation_factors: tuple[str, ...] = (),
    **factor_sizes: int,
) -> SdyShardingRule:
    """Parse a rule such as "... i k, k j -> ... i j".

    Args:
      rule: operands and results, separated by commas; factors by spaces, compound factors in
        brackets; an ellipsis, maybe with a number, for leading dimensions.
      reduction_factors, need_replication_factors, permutation_factors, **factor_sizes: see
        `SdyShardingRule`.

    Raises:
      TypeError: the rule is not text.
      ValueError: it has another form.
    """
    if not isinstance(rule, str):
        raise TypeError(f"rule must be a str, but got {type(rule)}")
    sides = rule.split("->")
    if len(sides) != 2:
        raise ValueError(f"There is no -> in rule: '{rule}'")
    operands, results = [tuple(_parse_arrays(side)) for side in sides]
    return SdyShardingRule(
        operands,
        results,
        reduction_factors=reduction_factors,
        need_replication_factors=need_replication_factors,
        permutation_factors=permutation_factors,
        **factor_sizes,
    )


def _parse_arrays(text: str) -> Iterator[ArrayMapping]:
    for part in text.split(","):
        yield ArrayMapping(*_parse_dims(part))


def _parse_dims(text: str) -> Iterator[str | CompoundFactor]:
    if BATCHING in text:
        raise ValueError(f"Unknown character '{BATCHING}'")
    compound: list[str] | None = None
    for i, match in enumerate(_TOKENS.finditer(text)):
        token = match.group()
        if token == "(":
            if compound is not None:
                raise ValueError(
                    "Compound factors should be one level, nested brackets are not allowed"
                )
            compound = []
        elif token == ")":
            if compound is None:
                raise ValueError("Brackets are not balanced")
            if len(compound) < 2:
                raise ValueError("Brackets should contain at least two factors")
            yield CompoundFactor(*compound)
            compound = None
        elif token.startswith("..."):
            if i > 0:
                raise ValueError("Ellipsis can only be used at the beginning of a dimension")
            yield BATCHING + (match.group(1) or "0")
        elif token == ".":
            raise ValueError("Character '.' must be used inside ellipsis '...'")
        elif compound is None:
            yield token
        else:
            compound.append(token)
    if compound is not None:
        raise ValueError(f"Brackets are not balanced in rule: '{text}'")


# Rules for the compiler


def sdy_sharding_rule_to_mlir(
    rule: SdyShardingRule, operand_types: list[ir.Type], result_types: list[ir.Type]
) -> ir.Attribute:
    """Convert a rule to Shardy's form.

    Args:
      rule: the rule.
      operand_types, result_types: tensor types of the operands and results.

    Raises:
      ValueError: the rule does not fit their number, ranks or sizes.
    """
    factors = _Factors(rule)
    operands = factors.of_arrays("operand", rule.operand_mappings, operand_types)
    results = factors.of_arrays("result", rule.result_mappings, result_types)
    factors.check_compounds()
    index = {name: i for i, name in enumerate(factors.sizes)}
    tensors = [
        [sdy.TensorMappingAttr.get([_dim_attr(dim, index) for dim in dims]) for dims in arrays]
        for arrays in (operands, results)
    ]
    kinds = [[index[name] for name in getattr(rule, kind)] for kind in _KINDS]
    return sdy.OpShardingRuleAttr.get(
        list(factors.sizes.values()),
        *tensors,
        reduction_factors=kinds[0],
        need_replication_factors=kinds[1],
        permutation_factors=kinds[2],
        is_custom=True,
    )


def _dim_attr(names: Sequence[str], index: dict[str, int]) -> Any:
    return sdy.DimMappingAttr.get(factor_indices=[index[name] for name in names])


class _Factors:
    """The sizes of a rule's factors, in the order of their first use."""

    def __init__(self, rule: SdyShardingRule):
        self.rule = rule
        self.sizes: dict[str, int] = {}
        self.batch_ranks: dict[str, int] = {}
        self.compounds: list[tuple[str, CompoundFactor, int]] = []

    def of_arrays(
        self, kind: str, mappings: Sequence[ArrayMapping], types: Sequence[Any]
    ) -> list[list[tuple[str, ...]]]:
        """Return the names of the factors in each dimension of each array."""
        if len(mappings) != len(types):
            raise ValueError(
                f"Sharding rule has {len(mappings)} {kind}s, but the operation has {len(types)}"
                f" {kind}s"
            )
        out = []
        for i, (mapping, type_) in enumerate(zip(mappings, types)):
            shape = ir.ShapedType(type_).shape
            out.append(self.of_array(f"{i}th {kind}", mapping, shape))
        return out

    def of_array(
        self, name: str, mapping: Sequence[Any], shape: Sequence[int]
    ) -> list[tuple[str, ...]]:
        batching = next((dim for dim in mapping if _is_batching(dim)), None)
        dims = list(mapping) if batching is None else list(mapping[1:])
        batch_rank = len(shape) - len(dims)
        if batch_rank < 0 or (batching is None and batch_rank):
            raise ValueError(
                f"Sharding rule {name} has rank {len(dims)}, but the operation {name} has rank"
                f" {len(shape)}"
            )
        if batching is not None:
            known = self.batch_ranks.setdefault(batching, batch_rank)
            if known != batch_rank:
                raise ValueError(
                    "Ellipsis represents different number of leading dimensions"
                    f" {known} and {batch_rank}"
                )
        out: list[tuple[str, ...]] = []
        for i in range(batch_rank):
            self.add_batching(f"{batching}_{i}", shape[i])
            out.append((f"{batching}_{i}",))
        for dim, size in zip(dims, shape[batch_rank:]):
            if isinstance(dim, CompoundFactor):
                for factor in dim:
                    self.sizes.setdefault(factor, self.rule.factor_sizes.get(factor, 0))
                self.compounds.append((name, dim, size))
                out.append(tuple(dim))
            else:
                # Where sizes differ, the smaller one bounds how far the factor can be sharded.
                known = self.sizes.get(dim, 0)
                self.sizes[dim] = min(known, size) if known else size
                out.append((dim,))
        return out

    def add_batching(self, name: str, size: int) -> None:
        known = self.sizes.setdefault(name, size)
        if known != size:
            raise ValueError(
                f"Batching dimension {name[len(BATCHING) :]} corresponds to two sizes: {known} and"
                f" {size}"
            )

    def check_compounds(self) -> None:
        for name, factors, size in self.compounds:
            product = 1
            for factor in factors:
                product *= self.sizes[factor]
            if product != size:
                raise ValueError(
                    f"{name} actual size {size} doesn't match the size {product} derived from the"
                    f" compound factors {tuple(factors)}"
                )
