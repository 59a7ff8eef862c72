"""Primitives on values of high types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.core import Primitive
from jax._src.hijax.types import must_define
from jax._src.interpreters import partial_eval as pe


def _with_tuples(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda args, dims, **params: rule(tuple(args), tuple(dims), **params)


class HiPrimitive(Primitive):
    """The base class of primitives whose operands or results have high types.

    A subclass defines its rules as methods, and an instance is bound to values. If
    `multiple_results` is true, as an attribute of the subclass, results are lists.

    - `abstract_eval(*arg_avals, **params)` returns the type of the result, and a set of effects.
    - `to_lojax(*args, **params)` computes the result by operations on arrays. It gets values as the
      user's classes represent them, and may also apply other primitives on high types.
    - `jvp(primals, tangents, **params)` and `transpose(ct, *args, **params)` differentiate.
    - The rule of `vmap` is registered in `jax.interpreters.batching.primitive_batchers`, or as
      `batch`.

    Args:
      name: the name in jaxprs.
    """

    multiple_results = False

    def __init__(self, name: str):
        super().__init__(name, type(self).multiple_results)
        for rule in ("abstract_eval", "jvp", "transpose", "batch"):
            if callable(getattr(type(self), rule, None)):  # the method, instead of "no rule"
                self.__dict__.pop(rule, None)
        self.impl = lambda *args, **params: self.to_lojax(*args, **params)
        pe.custom_staging_rules[self] = self._stage

    # Rules of batching keep the dimensions in types, which must be hashable: they get tuples.

    @property
    def batch(self) -> Any:  # type: ignore[override]
        return self._batch_rule and _with_tuples(self._batch_rule)

    @batch.setter
    def batch(self, rule: Any) -> None:
        self._batch_rule = rule

    def is_high(self, *avals: Any, **params: Any) -> bool:
        """Whether `to_lojax` is applied before programs are compiled."""
        return True

    def is_effectful(self, params: dict[str, Any]) -> bool:
        """Whether an application has effects."""
        return False

    def abstract_eval(self, *arg_avals: Any, **params: Any) -> tuple[Any, Any]:  # type: ignore[override]
        """The type of the result (a list, of several), and the set of effects."""
        must_define(self, "abstract_eval", "the types of results, and effects")

    def to_lojax(self, *lotypes_wrapped_in_hitypes: Any, **params: Any) -> Any:
        """The result, computed by operations on arrays."""
        must_define(self, "to_lojax", "the results, by operations on arrays")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:  # type: ignore[override]
        """The result and its tangent."""
        must_define(self, "jvp", "the result and its tangent")

    def transpose(self, *args: Any, **params: Any) -> Any:  # type: ignore[override]
        """The cotangents of operands, from that of the result (the first argument) and the operands."""
        must_define(self, "transpose", "the cotangents of operands")

    def eval_types(self, avals: Sequence[Any], params: dict[str, Any]) -> Any:
        return self.abstract_eval(*avals, **params)

    def _stage(self, trace: Any, source_info: Any, *args: Any, **params: Any) -> Any:
        if trace.requires_low and self.is_high(*[core.typeof(x) for x in args], **params):
            return NotImplemented
        atoms = [trace.to_atom(x) for x in args]
        avals = [trace.aval_mutable_qdd(atom) for atom in atoms]
        out, effects = self.abstract_eval(*avals, **params)
        types = out if self.multiple_results else [out]
        plain = [t.aval if type(t) is core.AvalQDD else t for t in types]
        outs = trace.add_eqn(self, atoms, plain, params, frozenset(effects))
        for x, t in zip(outs, types):
            if type(t) is core.AvalQDD:
                trace.declare_mutable(x.val, t.qdd)
        return outs if self.multiple_results else outs[0]
