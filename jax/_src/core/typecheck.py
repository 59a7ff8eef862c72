"""Checks of jaxprs: variables are bound once, before use; equations have the types they claim."""

from __future__ import annotations

from typing import Any

from jax._src.core.avals import typematch, typeof
from jax._src.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, jaxprs_in_params
from jax._src.core.primitive import RuleView
from jax._src.core.printing import JaxprPpContext, JaxprPpSettings, pp_eqn, pp_jaxpr
from jax._src.errors import JaxprTypeError

custom_typechecks = RuleView("typecheck")


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Check a jaxpr.

    Raises:
      JaxprTypeError: names the first equation that is wrong, and the reason.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        for var, const in zip(jaxpr.constvars, jaxpr.consts):
            if not typematch(var.aval, typeof(const)):
                raise JaxprTypeError(
                    f"constant of type {typeof(const)} for a variable of type {var.aval}"
                )
        jaxpr = jaxpr.jaxpr
    bound = set()
    for v in (*jaxpr.constvars, *jaxpr.invars):
        if v in bound:
            raise JaxprTypeError(f"variable {v} is bound twice")
        bound.add(v)
    for i, eqn in enumerate(jaxpr.eqns):
        try:
            _check_eqn(eqn, bound)
        except JaxprTypeError as err:
            context, settings = JaxprPpContext(), JaxprPpSettings()
            whole = pp_jaxpr(jaxpr, context, settings).format()
            raise JaxprTypeError(
                f"{err}\n\nin equation {i}:\n\n  {pp_eqn(eqn, context, settings).format()}\n\nof:\n\n{whole}"
            ) from None
    for out in jaxpr.outvars:
        if type(out) is not Literal and out not in bound:
            raise JaxprTypeError(f"result {out} is not defined")


def _check_eqn(eqn: JaxprEqn, bound: set[Any]) -> None:
    for v in eqn.invars:
        if type(v) is Literal:
            if not typematch(v.aval, typeof(v.val)) and v.aval.shape != typeof(v.val).shape:
                raise JaxprTypeError(f"literal {v} does not have type {v.aval}")
        elif v not in bound:
            raise JaxprTypeError(f"variable {v} is read before it is defined")
    for sub in () if eqn.primitive.checks_jaxprs else jaxprs_in_params(eqn.params):
        check_jaxpr(sub)
    if eqn.primitive.typecheck is not None:
        out_avals, effects = eqn.primitive.typecheck(None, *eqn.invars, **eqn.params)
    else:
        out_avals, effects = eqn.primitive.eval_types([v.aval for v in eqn.invars], eqn.params)
        if not eqn.primitive.multiple_results:
            out_avals = [out_avals]
    if len(out_avals) != len(eqn.outvars):
        raise JaxprTypeError(f"{len(out_avals)} results for {len(eqn.outvars)} variables")
    for v, aval in zip(eqn.outvars, out_avals):
        if not isinstance(v, DropVar) and not typematch(v.aval, aval):
            raise JaxprTypeError(f"variable of type {v.aval} for a result of type {aval}")
        if v in bound:
            raise JaxprTypeError(f"variable {v} is bound twice")
        bound.add(v)
    if not set(effects) <= set(eqn.effects):
        raise JaxprTypeError(
            f"effects {set(effects)} are not among those declared, {set(eqn.effects)}"
        )
