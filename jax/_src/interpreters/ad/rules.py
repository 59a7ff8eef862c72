"""Helpers that define the differentiation rules of primitives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jax._src.ad_util import Zero, add_tangents
from jax._src.core import Primitive
from jax._src.interpreters.ad.values import instantiate_zeros, is_undefined_primal, no_rule, zero_of


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """Define the rules of a linear primitive; the transpose is `transpose_rule(ct, **params)`."""
    primitive.jvp = functools.partial(linear_jvp, primitive)
    primitive.transpose = functools.partial(_linear_transpose, transpose_rule)


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """Define rules like `deflinear`, with `transpose_rule(ct, *args, **params)`."""
    primitive.jvp = functools.partial(linear_jvp, primitive)
    primitive.transpose = transpose_rule


def _linear_transpose(
    transpose_rule: Callable[..., Any], ct: object, *args: Any, **params: object
) -> Sequence[Any]:
    if type(ct) is Zero:
        return [Zero(x.aval) if is_undefined_primal(x) else None for x in args]
    cts: Sequence[Any] = transpose_rule(ct, **params)
    return cts


def linear_jvp(
    primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any], **params: object
) -> Any:
    """The JVP rule of a linear primitive: apply it to the tangents."""
    out = primitive.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        if primitive.multiple_results:
            return out, [zero_of(x) for x in out]
        return out, zero_of(out)
    return out, primitive.bind(*map(instantiate_zeros, tangents), **params)


def defjvp(primitive: Primitive, *jvprules: Callable[..., Any] | None) -> None:
    """Define the JVP rule by rules for each operand: `rule(tangent, *primals, **params)`.

    Each returns the tangent of the result that is due to its operand.
    """
    primitive.jvp = functools.partial(standard_jvp, jvprules, primitive)


def standard_jvp(
    rules: Sequence[Callable[..., Any] | None],
    primitive: Primitive,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    **params: object,
) -> Any:
    """Apply `standard_jvp2` with rules that do not take the result."""
    with_result = [rule and _without_result(rule) for rule in rules]
    return standard_jvp2(with_result, primitive, primals, tangents, **params)


def _without_result(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda g, _, *primals, **params: rule(g, *primals, **params)


def defjvp2(primitive: Primitive, *jvprules: Callable[..., Any] | None) -> None:
    """Define rules like `defjvp`, which also take the result.

    Their signature is `rule(tangent, result, *primals, **params)`.
    """
    primitive.jvp = functools.partial(standard_jvp2, jvprules, primitive)


def standard_jvp2(
    rules: Sequence[Callable[..., Any] | None],
    primitive: Primitive,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    **params: object,
) -> Any:
    """Sum the tangents that the operands' rules return; a rule of None contributes nothing."""
    out = primitive.bind(*primals, **params)
    total = None
    for rule, t in zip(rules, tangents):
        if rule is not None and type(t) is not Zero:
            part = rule(t, out, *primals, **params)
            if part is not None and type(part) is not Zero:
                total = part if total is None else add_tangents(total, part)
    return out, zero_of(out) if total is None else total


def operand_jvp(
    primitive: Primitive, rules: Sequence[Callable[..., Any] | None]
) -> Callable[..., Any]:
    """Make a JVP rule of one rule per operand: `(tangent, result, *primals, **params) -> tangent`.

    If an operand whose rule is None has a tangent, the JVP rule raises an error.
    """
    if len(rules) == 1 and rules[0] is not None:
        rule = rules[0]

        def unary_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> Any:
            (x,), (t,) = primals, tangents
            out = primitive.bind(x, **params)
            tangent = None if type(t) is Zero else rule(t, out, x, **params)
            return out, zero_of(out) if tangent is None else tangent

        return unary_jvp
    checked = [_missing_rule(primitive, i) if r is None else r for i, r in enumerate(rules)]
    return functools.partial(standard_jvp2, checked, primitive)


def _missing_rule(primitive: Primitive, i: int) -> Callable[..., Any]:
    def rule(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(
            f"Differentiation rule for '{primitive.name}' not implemented with respect to operand {i}: "
            "give the function that uses it a derivative with jax.custom_jvp or jax.custom_vjp, or the "
            "operand to jax.lax.stop_gradient first."
        )

    return rule


def replacing(primitive: Primitive, i: int) -> Callable[..., Any]:
    """Return the rule for operand `i` of a primitive linear in it: substitute the tangent."""

    def rule(g: object, out: object, *operands: object, **params: object) -> Any:
        return primitive.bind(*operands[:i], g, *operands[i + 1 :], **params)

    return rule


def defjvp_zero(primitive: Primitive) -> None:
    """Define the JVP rule of a primitive whose results have zero tangents."""
    primitive.jvp = functools.partial(zero_jvp, primitive)


def zero_jvp(
    primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any], **params: object
) -> Any:
    out = primitive.bind(*primals, **params)
    if primitive.multiple_results:
        return out, [zero_of(x) for x in out]
    return out, zero_of(out)


def defbilinear(
    prim: Primitive, lhs_rule: Callable[..., Any], rhs_rule: Callable[..., Any]
) -> None:
    """Define the rules of a primitive that is linear in each of two operands.

    `lhs_rule(ct, x, y, **params)` and `rhs_rule(ct, x, y, **params)` return the cotangent of one
    operand, which is passed as an `UndefinedPrimal`.
    """
    prim.jvp = operand_jvp(prim, (replacing(prim, 0), replacing(prim, 1)))
    prim.transpose = functools.partial(bilinear_transpose, lhs_rule, rhs_rule)


def bilinear_transpose(
    lhs_rule: Callable[..., Any],
    rhs_rule: Callable[..., Any],
    ct: object,
    x: Any,
    y: Any,
    **params: object,
) -> Any:
    if is_undefined_primal(x) == is_undefined_primal(y):
        raise TypeError("a bilinear operation is transposed in exactly one of its arguments")
    if type(ct) is Zero:
        return (Zero(x.aval), None) if is_undefined_primal(x) else (None, Zero(y.aval))
    if is_undefined_primal(x):
        out = lhs_rule(ct, x, y, **params)
        return (Zero(x.aval) if out is Zero else out), None
    out = rhs_rule(ct, x, y, **params)
    return None, (Zero(y.aval) if out is Zero else out)


def get_primitive_transpose(p: Primitive) -> Callable[..., Any]:
    if p.transpose is None:
        raise no_rule("Transpose rule (for reverse-mode differentiation)", p)
    return p.transpose
