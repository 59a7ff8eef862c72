"""Ways to give a primitive its differentiation rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jax._src.ad_util import Zero, add_tangents
from jax._src.core import Primitive
from jax._src.interpreters.ad.values import instantiate_zeros, is_undefined_primal, no_rule, zero_of


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """A primitive linear in all its arguments: `transpose_rule(ct, **params) -> cts`."""
    primitive.jvp = functools.partial(linear_jvp, primitive)
    primitive.transpose = functools.partial(_linear_transpose, transpose_rule)


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """As `deflinear`, with `transpose_rule(ct, *args, **params)`."""
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
    """JVP from one rule per operand: `rule(tangent, *primals, **params) -> tangent of the result`."""
    primitive.jvp = functools.partial(standard_jvp, jvprules, primitive)


def standard_jvp(
    rules: Sequence[Callable[..., Any] | None],
    primitive: Primitive,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    **params: object,
) -> Any:
    """As `standard_jvp2`, for rules that do not get the result."""
    with_result = [rule and _without_result(rule) for rule in rules]
    return standard_jvp2(with_result, primitive, primals, tangents, **params)


def _without_result(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda g, _, *primals, **params: rule(g, *primals, **params)


def defjvp2(primitive: Primitive, *jvprules: Callable[..., Any] | None) -> None:
    """As `defjvp`; the rules get the result too: `rule(tangent, result, *primals, **params)`."""
    primitive.jvp = functools.partial(standard_jvp2, jvprules, primitive)


def standard_jvp2(
    rules: Sequence[Callable[..., Any] | None],
    primitive: Primitive,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    **params: object,
) -> Any:
    """A JVP rule as the sum of what the operands' rules give; there is no tangent where a rule is None."""
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
    """The JVP rule made of one `(tangent, result, *primals, **params)` to tangent per operand.

    A tangent of an operand whose rule is None is an error.
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
            f"Differentiation rule for '{primitive.name}' not implemented with respect to operand {i}"
        )

    return rule


def replacing(primitive: Primitive, i: int) -> Callable[..., Any]:
    """The rule for operand `i` of a primitive that is linear in it: the tangent in its place."""

    def rule(g: object, out: object, *operands: object, **params: object) -> Any:
        return primitive.bind(*operands[:i], g, *operands[i + 1 :], **params)

    return rule


def defjvp_zero(primitive: Primitive) -> None:
    """A primitive whose results do not vary with its arguments."""
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
    """A primitive linear in each of two arguments.

    `lhs_rule(ct, x, y, **params)` and `rhs_rule(ct, x, y, **params)` give the cotangent of one
    argument, which is then an `UndefinedPrimal`.
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
