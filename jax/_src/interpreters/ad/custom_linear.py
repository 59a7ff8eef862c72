"""The linear part of `custom_vjp` functions: an operation that can only be transposed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jax._src import core, dtypes
from jax._src.ad_util import (
    Zero,
    replace_internal_symbolic_zeros,
    replace_rule_output_symbolic_zeros,
)
from jax._src.core import (
    AbstractValue,
    JaxprEqn,
    JaxprPpContext,
    JaxprPpSettings,
    Primitive,
    typeof,
)
from jax._src.interpreters.ad.values import instantiate_zeros
from jax._src.util import split_list


def custom_vjp_linearize(
    fwd: Callable[..., Any],
    bwd: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    out_trees: Callable[[], Any],
    symbolic_zeros: bool,
) -> Any:
    """Return the results of a `custom_vjp` function, and tangents that can only be transposed.

    `fwd` returns the residuals, then the results. `out_trees()` returns information on the last
    call of `fwd`, which is passed to `bwd` as its first argument.
    """
    perturbed = [type(t) is not Zero for t in tangents]
    if any(perturbed[: getattr(fwd, "num_consts", 0)]):
        raise CustomVJPException(
            "Detected differentiation of a custom_vjp function with respect to a closed-over value. "
            "Its rule gives cotangents of the explicit arguments only: make the value an argument "
            "of the function and of its fwd rule, and return its cotangent from the bwd rule."
        )
    outs_and_res = fwd(*perturbed, *primals) if symbolic_zeros else fwd(*primals)
    trees = out_trees()
    res, outs = split_list(outs_and_res, [trees.num_res])
    out_avals = [typeof(x).to_tangent_aval() for x in outs]
    tangents_out = custom_lin_p.bind(
        *res,
        *[t for t in tangents if type(t) is not Zero],
        num_res=len(res),
        bwd=functools.partial(bwd, trees),
        out_avals=tuple(out_avals),
        in_zeros=tuple(t.aval if type(t) is Zero else None for t in tangents),
        symbolic_zeros=symbolic_zeros,
    )
    tangents_out = [
        Zero(a) if getattr(a, "dtype", None) == dtypes.float0 else t
        for a, t in zip(out_avals, tangents_out)
    ]
    return outs, tangents_out


custom_lin_p = Primitive("custom_lin", multiple_results=True)
custom_lin_p.def_abstract_eval(lambda *_, out_avals, **__: list(out_avals))


def raise_custom_vjp_error_on_jvp(*args: object, **params: object) -> NoReturn:
    raise TypeError(
        "can't apply forward-mode differentiation (jvp) to a custom_vjp function: it defines only a "
        "reverse-mode rule. Define the function with jax.custom_jvp for both modes."
    )


custom_lin_p.def_impl(raise_custom_vjp_error_on_jvp)
custom_lin_p.jvp = raise_custom_vjp_error_on_jvp


class CustomVJPException(Exception):
    """Raised when a `custom_vjp` function is differentiated by a value that it closes over."""


def _custom_lin_transpose(
    cts: Sequence[Any],
    *args: object,
    num_res: int,
    bwd: Callable[..., Any],
    out_avals: Sequence[AbstractValue],
    in_zeros: Sequence[AbstractValue | None],
    symbolic_zeros: bool,
) -> list[Any]:
    res = args[:num_res]
    if symbolic_zeros:
        cts = [replace_internal_symbolic_zeros(ct) for ct in cts]
    else:
        cts = [instantiate_zeros(ct) for ct in cts]
    cts_in = bwd(*res, *cts)
    cts_in = [replace_rule_output_symbolic_zeros(ct) for ct in cts_in]
    return [None] * num_res + [ct for ct, zero in zip(cts_in, in_zeros) if zero is None]


custom_lin_p.transpose = _custom_lin_transpose


def _custom_lin_pp(eqn: JaxprEqn, context: JaxprPpContext, settings: JaxprPpSettings) -> Any:
    params = dict(
        bwd=getattr(getattr(eqn.params["bwd"], "func", None), "name", "bwd"),
        in_zeros=[zero is not None for zero in eqn.params["in_zeros"]],
        num_res=eqn.params["num_res"],
        symbolic_zeros=eqn.params["symbolic_zeros"],
    )
    return core.default_pp_eqn(eqn.replace(params=params), context, settings)


custom_lin_p.pp = _custom_lin_pp
