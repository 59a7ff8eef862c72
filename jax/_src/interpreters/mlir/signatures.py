"""Signatures of functions in a module: types and attributes of arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import config, core
from jax._src.interpreters.mlir.constants import i32_attr
from jax._src.interpreters.mlir.context import ModuleContext
from jax._src.interpreters.mlir.shardings import (
    contains_unconstrained,
    get_sharding_attr,
    needs_no_shardings,
    to_ir_sharding,
    to_xla_layout,
)
from jax._src.interpreters.mlir.types import aval_to_ir_types, flatten_ir_types
from jax._src.layout import Layout
from jax._src.lib.mlir import ir
from jax._src.sharding import Sharding

Attributes = list[dict[str, Any]]
_dim_aval = core.ShapedArray((), np.dtype(np.int32))


class ArgSpecs(NamedTuple):
    """The arguments of a function. Each field has an entry per argument, or is None.

    Attributes:
      avals: types.
      names: names for error messages and profiles.
      replicated: whether an argument is the same on all replicas.
      shardings: None where unspecified.
      memory_kinds, layouts: None where default.
      donated: whether the compiler may use an argument's buffer for any result.
      aliases: the result that reuses an argument's buffer, or None.
    """

    avals: Sequence[core.AbstractValue]
    names: Sequence[str | None] | None = None
    replicated: Sequence[bool] | None = None
    shardings: Sequence[Sharding | None] | None = None
    memory_kinds: Sequence[str | None] | None = None
    layouts: Sequence[Layout | None] | None = None
    donated: Sequence[bool] | None = None
    aliases: Sequence[int | None] | None = None


class ResultSpecs(NamedTuple):
    """The results of a function. Each field has an entry per result, or is None.

    Attributes:
      avals: types.
      names: names for error messages and profiles.
      shardings: None where unspecified.
      memory_kinds, layouts: None where default.
      known_memory_kinds: memory kinds according to the types in the jaxpr.
    """

    avals: Sequence[core.AbstractValue]
    names: Sequence[str] | None = None
    shardings: Sequence[Sharding | None] | None = None
    memory_kinds: Sequence[str | None] | None = None
    layouts: Sequence[Layout | None] | None = None
    known_memory_kinds: Sequence[str | None] | None = None


class _Values:
    """The types of arguments or results, and of the IR values that represent them.

    Attributes:
      avals: types, starting with those of `pad` leading dimension variables and tokens.
      types: the IR type of each value; a tuple if several IR values represent it.
      flat_types: all IR types.
      plain: whether each value is represented by one IR value.
    """

    __slots__ = ("avals", "types", "flat_types", "pad", "plain")

    def __init__(
        self,
        ctx: ModuleContext,
        first: Sequence[core.AbstractValue],
        avals: Sequence[core.AbstractValue],
    ):
        self.pad = len(first)
        self.avals = [*first, *avals]
        self.types = [aval_to_ir_types(ctx, a) for a in self.avals]
        self.flat_types = flatten_ir_types(self.types)
        self.plain = len(self.flat_types) == len(self.types)

    def flat(self, values: Sequence[Any] | None) -> list[Any] | None:
        """Returns an entry for each IR value, None for leading ones; None if `values` is None."""
        if values is None:
            return None
        values = [*[None] * self.pad, *values]
        if self.plain:
            return values
        out = []
        for v, t in zip(values, self.types, strict=True):
            out.extend([v] * (len(t) if type(t) is tuple else 1))
        return out

    def shardings(self, shardings: Sequence[Sharding | None] | None) -> list[Any] | None:
        """Converts the shardings to the compiler's form, with an entry for each IR value."""
        if shardings is None:
            return None
        avals = self.avals[self.pad :]
        return self.flat([to_ir_sharding(a, s) for a, s in zip(avals, shardings, strict=True)])

    def starts(self) -> Sequence[int]:
        """Returns the index of each value's first IR value."""
        sizes = [len(t) if type(t) is tuple else 1 for t in self.types]
        return [int(i) for i in np.cumsum([0, *sizes])]


class Signature:
    """The IR form of a function's arguments and results.

    The arguments are the dimension variables, a token for each effect, then those of `args`. The
    results are the tokens, then those of `results`.

    Args:
      ctx: the module.
      num_tokens: the number of ordered effects.
      args: the arguments.
      results: the results.
      annotated: whether to express shardings as attributes, instead of only as operations.
    """

    def __init__(
        self,
        ctx: ModuleContext,
        num_tokens: int,
        args: ArgSpecs,
        results: ResultSpecs,
        annotated: bool,
    ):
        self.ctx = ctx
        self.num_tokens = num_tokens
        self.args = args
        self.results = results
        self.annotated = annotated
        tokens = [core.abstract_token] * num_tokens
        self.num_dims = len(ctx.shape_poly_state.dim_vars)
        self.ins = _Values(ctx, [*[_dim_aval] * self.num_dims, *tokens], args.avals)
        self.outs = _Values(ctx, tokens, results.avals)
        self.unsharded = needs_no_shardings(ctx)
        self.arg_shardings = None if self.unsharded else self.ins.shardings(args.shardings)
        self.result_shardings = None if self.unsharded else self.outs.shardings(results.shardings)

    def arg_attrs(self, main_function: bool) -> Attributes | None:
        """Returns the attributes of each IR argument; None if all are empty."""
        args, flat, ctx = self.args, self.ins.flat, self.ctx
        if not (
            self.ins.pad or self.arg_shardings or args.replicated or args.aliases or args.donated
            or args.memory_kinds or args.layouts
        ):  # fmt: skip
            return None
        all_attrs: Attributes = [{} for _ in self.ins.flat_types]
        if ctx.lowering_parameters.global_constant_computation or main_function:
            for attrs, dim_var in zip(all_attrs, ctx.shape_poly_state.dim_vars):
                attrs["jax.global_constant"] = ir.StringAttr.get(dim_var)
        for attrs in all_attrs[self.num_dims : self.ins.pad]:
            attrs["jax.token"] = ir.BoolAttr.get(True)
        for attrs, replicated in zip(all_attrs, flat(args.replicated) or ()):
            if replicated:
                attrs["mhlo.is_same_data_across_replicas"] = ir.BoolAttr.get(True)
        if self.annotated:
            for attrs, sharding in zip(all_attrs, self.arg_shardings or ()):
                if sharding is not None:
                    attrs[_sharding_key()] = get_sharding_attr(ctx, sharding)
        _set_memory_kinds(all_attrs, flat(args.memory_kinds))
        _set_layouts(all_attrs, flat(args.layouts), self.ins)
        for attrs, donated in zip(all_attrs, flat(args.donated) or ()):
            if donated:
                attrs["jax.buffer_donor"] = ir.BoolAttr.get(True)
        if args.aliases is not None:
            starts = self.outs.starts()
            for attrs, alias in zip(all_attrs, flat(args.aliases) or ()):
                if alias is not None:
                    attrs["tf.aliasing_output"] = i32_attr(starts[self.num_tokens + alias])
        return all_attrs if any(all_attrs) else None

    def result_attrs(self) -> Attributes | None:
        """Returns the attributes of each IR result; None if all are empty."""
        results, flat = self.results, self.outs.flat
        if not (
            self.num_tokens or results.names or self.result_shardings or results.memory_kinds
            or results.layouts
        ):  # fmt: skip
            return None
        all_attrs: Attributes = [{} for _ in self.outs.flat_types]
        for attrs in all_attrs[: self.num_tokens]:
            attrs["jax.token"] = ir.BoolAttr.get(True)
        for attrs, name in zip(all_attrs, flat(results.names) or ()):
            if name:
                attrs["jax.result_info"] = ir.StringAttr.get(name)
        if self.annotated and self.result_shardings is not None:
            given = flat(results.shardings) or ()
            for attrs, sharding, s in zip(all_attrs, self.result_shardings, given):
                if sharding is not None and not contains_unconstrained(s):
                    attrs[_sharding_key()] = get_sharding_attr(self.ctx, sharding)
        _set_memory_kinds(all_attrs, flat(results.memory_kinds))
        _set_layouts(all_attrs, flat(results.layouts), self.outs)
        return all_attrs if any(all_attrs) else None


def _sharding_key() -> str:
    return "sdy.sharding" if config.use_shardy_partitioner.value else "mhlo.sharding"


def _set_memory_kinds(all_attrs: Attributes, kinds: Sequence[str | None] | None) -> None:
    for attrs, kind in zip(all_attrs, kinds or ()):
        if kind is not None:
            attrs["mhlo.memory_kind"] = ir.StringAttr.get(kind)


def _set_layouts(
    all_attrs: Attributes, layouts: Sequence[Layout | None] | None, values: _Values
) -> None:
    if layouts is not None:
        avals = values.flat(values.avals[values.pad :]) or ()
        for attrs, layout, aval in zip(all_attrs, layouts, avals):
            if layout is not None:
                attrs["mhlo.layout_mode"] = ir.StringAttr.get(to_xla_layout(layout, aval))
