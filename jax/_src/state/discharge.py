"""Discharge: rewrites programs with references into pure programs that thread arrays through.

An equation that uses references becomes equations on arrays: it takes the current values of its
reference operands, and yields the new values of those that it writes. Rules for primitives with
jaxpr parameters are in `jax._src.state.discharge_rules`. A reference can be kept: it stays an
operand, and the primitives that use it stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import ad_util, api_util, core, source_info_util, traceback_util
from jax._src.core import (
    AbstractRef,
    ClosedJaxpr,
    Jaxpr,
    Literal,
    Primitive,
    RefEffect,
    Trace,
    Var,
    cached_on_jaxpr,
    typeof,
)
from jax._src.device_put.functions import device_put
from jax._src.interpreters import mlir, partial_eval as pe
from jax._src.late_binding import late
from jax._src.memory import MemorySpace
from jax._src.state import primitives as prims
from jax._src.state.types import get_ref_aval_from_value, stored_aval
from jax._src.tree_util import tree_flatten, tree_unflatten, treedef_tuple

traceback_util.register_exclusion(__file__)

# rule(should_discharge, in_avals, out_avals, *args, **params) -> (new operand values, results).
# The new value of an operand is None, unless it is a discharged reference that is written.
DischargeRule = Callable[..., tuple[Sequence[Any], Sequence[Any]]]


def register_discharge_rule(primitive: Primitive) -> Callable[[DischargeRule], DischargeRule]:
    """Return a decorator that sets a primitive's rule for discharging all of its references.

    The rule takes the avals of operands and results, the operands (arrays in place of references),
    and the parameters. It returns a new value or None for each operand, and the results.
    """

    def register(rule: DischargeRule) -> DischargeRule:
        def full(should: Any, in_avals: Any, out_avals: Any, *args: Any, **params: Any) -> Any:
            refs = [isinstance(a, AbstractRef) for a in in_avals]
            if refs != list(should):
                raise NotImplementedError(
                    f"'{primitive.name}' cannot keep some of its references while others are discharged"
                )
            new, outs = rule(in_avals, out_avals, *args, **params)
            return new, outs if primitive.multiple_results else [outs]

        primitive.discharge = full
        return rule

    return register


def discharge_state(
    closed_jaxpr: ClosedJaxpr, *, should_discharge: bool | Sequence[bool] = True, lower: bool = True
) -> ClosedJaxpr:
    """Replace the reference arguments of a jaxpr by arrays.

    Args:
      closed_jaxpr: the jaxpr.
      should_discharge: whether to discharge references: for all, or for each argument.
      lower: whether the result will only be compiled, and not be differentiated any more.

    Returns:
      A jaxpr with arrays in place of the discharged references; their final values are additional
      results.
    """
    n = len(closed_jaxpr.in_avals)
    if isinstance(should_discharge, bool):
        should_discharge = (should_discharge,) * n
    which = tuple(
        [
            bool(s) and isinstance(a, AbstractRef)
            for s, a in zip(should_discharge, closed_jaxpr.in_avals)
        ]
    )
    return discharged_jaxpr(closed_jaxpr, which, tuple(i for i, w in enumerate(which) if w), lower)


@cached_on_jaxpr
def discharged_jaxpr(
    closed: ClosedJaxpr, which: tuple[Any, ...], finals: tuple[Any, ...], lower: bool
) -> ClosedJaxpr:
    in_avals = [stored_aval(a) if w else a for a, w in zip(closed.in_avals, which)]

    def run(*args: Any) -> Any:
        outs, env = eval_discharged(closed.jaxpr, closed.consts, args, which, lower)
        return [*outs, *[env[closed.jaxpr.invars[i]] for i in finals]]

    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, in_avals, closed.debug_info)
    jaxpr, _ = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), True)
    return ClosedJaxpr(jaxpr, consts)


def written(jaxpr: Jaxpr | ClosedJaxpr) -> set[int]:
    """Return the positions of the reference arguments that a jaxpr writes to."""
    return {
        e.input_index
        for e in jaxpr.effects
        if isinstance(e, RefEffect) and type(e) is not core.ReadEffect
    }


def discharge_written(
    closed: ClosedJaxpr, which: Sequence[bool], lower: bool, keeps_types: bool = False
) -> tuple[ClosedJaxpr, list[int]]:
    """Replace the marked references by arrays.

    Args:
      closed: the jaxpr.
      which: for each argument, whether it is a reference to replace.
      lower: whether the result is for lowering.
      keeps_types: whether final values must have the types of the references, as in loops.

    Returns:
      The new jaxpr, and the positions of the references that it writes, whose final values are its
      additional results.
    """
    found = written(closed)
    finals = tuple(i for i, w in enumerate(which) if w and i in found)
    new = discharged_jaxpr(closed, tuple(which), finals, lower)
    if keeps_types:
        check_finals(closed, new, finals)
    return new, list(finals)


def check_finals(closed: ClosedJaxpr, new: ClosedJaxpr, finals: Sequence[int]) -> None:
    """Raise an error if final values of references vary over more manual axes than their types say."""
    for i, aval in zip(finals, new.out_avals[len(closed.out_avals) :]):
        _check_varying(aval, closed.in_avals[i], "what is written to it")


def _check_varying(value: Any, expected: Any, what: str) -> None:
    """Raise an error if a value varies over more manual axes than the type says that it was traced with."""
    vma = lambda aval: getattr(getattr(aval, "inner_aval", aval), "vma", frozenset())
    extra = vma(value) - vma(expected)
    if extra:
        axes = ", ".join(sorted(map(repr, extra)))
        raise ValueError(
            f"A reference was made of a value that does not vary over the manual mesh axes ({axes}), but "
            f"{what} does: it has type {value.str_short()}, where {expected.str_short()} is expected. "
            f"Make the reference of a varying value, `jax.new_ref(jax.lax.pcast(value, ({axes},), to='varying'))`."
        )


def discharge_all(
    closed: ClosedJaxpr, which: Sequence[bool] | None = None, lower: bool = True
) -> tuple[ClosedJaxpr, list[int]]:
    """Discharge all references for compilation; returns the jaxpr and the positions written."""
    if which is None:
        which = [isinstance(a, AbstractRef) for a in closed.in_avals]
    return discharge_written(closed, which, lower)


def eval_discharged(
    jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], which: Sequence[bool], lower: bool
) -> tuple[list[Any], dict[Var, Any]]:
    """Evaluate a jaxpr with arrays in place of the marked references; the others are kept.

    Returns:
      The results, and the final values of all variables.
    """
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    refs = {v for v, w in zip(jaxpr.invars, which) if w}
    ended: set[Var] = set()
    name_stack = source_info_util.current_name_stack()
    for eqn in jaxpr.eqns:
        vals = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
        should = [type(v) is not Literal and v in refs for v in eqn.invars]
        p = eqn.primitive
        info = eqn.source_info
        with (
            source_info_util.user_context(info.traceback, name_stack=name_stack + info.name_stack),
            eqn.ctx.manager,
        ):
            if ended:
                for v in eqn.invars:
                    if type(v) is not Literal and v in ended:
                        raise ValueError(
                            f"`{p.name}` of a reference of type {v.aval} that has ended: it was given to "
                            "jax.freeze or jax.free_ref before."
                        )
            if p is prims.new_ref_p or p is prims.empty_ref_p:
                (out,) = eqn.outvars
                refs.add(out)
                env[out] = _initial(p, vals, eqn.params, out.aval)
                continue
            if p is prims.freeze_p or p is prims.free_ref_p:
                if should[0]:
                    ended.add(eqn.invars[0])  # type: ignore[arg-type]
                    if eqn.outvars:
                        env[eqn.outvars[0]] = vals[0]
                    continue
            if any(should) or core.internal_mutable_array_effect in eqn.effects:
                in_avals = [v.aval for v in eqn.invars]
                out_avals = [v.aval for v in eqn.outvars]
                aliases = _first_positions(eqn.invars)
                new, outs = discharge_eqn(
                    p, should, in_avals, out_avals, vals, eqn.params, lower, aliases
                )
                for v, s, x in zip(eqn.invars, should, new):
                    if s and x is not None:
                        env[v] = prims.like_ref(x, v.aval)  # type: ignore[index]
                for x, aval in zip(outs, out_avals):
                    _check_varying(typeof(x), aval, f"what `{p.name}` reads from it")
                env.update(zip(eqn.outvars, outs))
                continue
            out = p.bind(*vals, **p.get_bind_params(eqn.params))
        if p.multiple_results:
            env.update(zip(eqn.outvars, out))
        else:
            env[eqn.outvars[0]] = out
    outs = [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]
    return outs, env


def _first_positions(xs: Sequence[Any]) -> list[int]:
    """Return for each value the position of the first one that is identical to it."""
    first: dict[int, int] = {}
    return [first.setdefault(id(x), i) for i, x in enumerate(xs)]


def discharge_eqn(
    p: Primitive, should: Any, in_avals: Any, out_avals: Any, vals: Any, params: Any, lower: bool,
    aliases: Sequence[int],
) -> tuple[Sequence[Any], Sequence[Any]]:  # fmt: skip
    """Return the new operand values and the results of a primitive's discharge rule."""
    if p.discharge is None:
        raise NotImplementedError(
            f"No discharge rule for '{p.name}': it cannot have mutable array references as operands, or "
            "functions that make them as parameters."
        )
    if p.ref_boundary:
        params = dict(params, lower=lower, aliases=aliases)
    return p.discharge(should, in_avals, out_avals, *vals, **params)


def _initial(p: Primitive, vals: Any, params: Any, aval: Any) -> Any:
    if p is prims.new_ref_p:
        x = vals[0]
    else:
        x = ad_util.zeros_like_aval(aval.inner_aval)
    space = params["memory_space"]
    if isinstance(space, MemorySpace):
        x = device_put(x, space)
    return prims.like_ref(x, aval)


# Rules of the operations on references


def _get_discharge(should: Any, in_avals: Any, out_avals: Any, x: Any, *idx: Any, tree: Any) -> Any:
    out = prims.apply_transforms(x, tree_unflatten(tree, idx))
    return (None,) * (1 + len(idx)), [out]


def _swap_discharge(
    should: Any, in_avals: Any, out_avals: Any, x: Any, val: Any, *idx: Any, tree: Any
) -> Any:
    transforms = tree_unflatten(tree, idx)
    old = prims.apply_transforms(x, transforms)
    return (prims.update_view(x, transforms, val), *[None] * (1 + len(idx))), [old]


def _addupdate_discharge(
    should: Any, in_avals: Any, out_avals: Any, x: Any, val: Any, *idx: Any, tree: Any
) -> Any:
    new = prims.update_view(x, tree_unflatten(tree, idx), val, True)
    return (new, *[None] * (1 + len(idx))), []


prims.get_p.discharge = _get_discharge
prims.swap_p.discharge = _swap_discharge
prims.addupdate_p.discharge = _addupdate_discharge

# Discharge of one primitive, for traces that cannot handle some references


@cached_on_jaxpr
def _makes_refs(jaxpr: Jaxpr) -> bool:
    """Return whether a jaxpr creates references, outside of calls with custom derivative rules."""
    if core.internal_mutable_array_effect not in jaxpr.effects:
        return False
    for eqn in jaxpr.eqns:
        p = eqn.primitive
        if p is prims.new_ref_p or p is prims.empty_ref_p:
            return True
        if p.ref_boundary and not p.ref_opaque:
            if any(map(_makes_refs, core.jaxprs_in_params(eqn.params))):
                return True
    return False


def functionalize(
    primitive: Primitive, args: Sequence[Any], params: dict[str, Any], which: Sequence[bool],
    internal: bool,
) -> list[Any] | None:  # fmt: skip
    """Apply a primitive with jaxprs to the values of the marked references, then write them back.

    With `internal`, references that the jaxprs create are discharged as well. Returns None if there
    is nothing to discharge.
    """
    in_avals = [typeof(x) for x in args]
    if not any(which) and not (internal and any(map(_makes_refs, core.jaxprs_in_params(params)))):
        return None
    out_avals, _ = primitive.eval_types(in_avals, params)
    vals = [prims.ref_get(x) if w else x for x, w in zip(args, which)]
    aliases = _first_positions(
        [x.get_referent() if isinstance(x, core.Tracer) else x for x in args]
    )
    new, outs = discharge_eqn(primitive, which, in_avals, out_avals, vals, params, False, aliases)
    for x, w, value in zip(args, which, new):
        if w and value is not None:
            prims.ref_set(x, None, value)
    return list(outs)


late.discharge = discharge_all
late.functionalize = functionalize

# Functions of references as functions of arrays


def run_state(f: Callable[..., None]) -> Callable[[Any], Any]:
    """Turn a function of references into a function of arrays.

    Args:
      f: function of a pytree of references that returns None.

    Returns:
      A function that takes a pytree of arrays, runs `f` on references to them, and returns a pytree
      of their final values.

    >>> from jax._src.state.discharge import run_state
    >>> def double(ref):
    ...   ref[...] = ref[...] * 2
    >>> run_state(double)(jnp.arange(3.))
    Array([0., 2., 4.], dtype=float32)
    """

    @traceback_util.api_boundary
    def wrapped(init: Any) -> Any:
        flat, tree = tree_flatten(init)
        typed = [get_ref_aval_from_value(x) for x in flat]
        avals, flat = [a for a, _ in typed], [x for _, x in typed]
        closed, consts = _staged(f, treedef_tuple((tree,)), avals, (init,))
        outs = run_state_p.bind(
            *consts,
            *flat,
            jaxpr=closed,
            which_linear=(False,) * (len(consts) + len(flat)),
            is_initialized=(True,) * (len(consts) + len(flat)),
        )
        return tree_unflatten(tree, outs[len(consts) :])

    return wrapped


def _staged(f: Callable[..., Any], in_tree: Any, avals: Any, args: Any) -> Any:
    flat_fun, out_tree = api_util.flatten_fun_nokwargs(f, in_tree)
    info = api_util.debug_info("run_state", f, args, {})
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat_fun, avals, info)
    if out_tree().num_leaves:
        raise ValueError(
            f"the function {info.func_src_info} given to run_state must return None, got a result of "
            f"structure {out_tree()}: write results to references"
        )
    return pe.close_jaxpr(pe.convert_constvars_jaxpr(jaxpr)), consts


# Operands are arrays and references that the function closes over; there is one result for each: an
# array's final value, or the reference itself. The jaxpr takes references for the array operands,
# and arrays stay arrays where the function closes over them.
run_state_p = Primitive("run_state", multiple_results=True)


@run_state_p.def_effectful_abstract_eval
def _types(*avals: Any, jaxpr: ClosedJaxpr, **_: Any) -> Any:
    inner = _inner_references(avals, jaxpr)
    effects = {
        e for e in jaxpr.effects if not isinstance(e, core.RefEffect) or not inner[e.input_index]
    }
    return list(avals), frozenset(effects)


def _inner_references(outer: Sequence[Any], jaxpr: ClosedJaxpr) -> tuple[bool, ...]:
    """Mark the jaxpr's arguments that are references, where the operand is an array."""
    return tuple(
        [
            isinstance(a, AbstractRef) and not isinstance(o, AbstractRef)
            for a, o in zip(jaxpr.in_avals, outer)
        ]
    )


def _final_values(which: tuple[bool, ...], args: Any, jaxpr: ClosedJaxpr, lower: bool) -> list[Any]:
    """Run the function with arrays for the marked references; return the final operand values."""
    finals = tuple([i for i, w in enumerate(which) if w])
    pure = discharged_jaxpr(jaxpr, which, finals, lower)
    outs = list(args)
    for i, x in zip(finals, core.eval_jaxpr(pure.jaxpr, pure.consts, *args)):
        outs[i] = x
    return outs


def apply_run_state(*args: Any, jaxpr: ClosedJaxpr, **_: Any) -> Any:
    """Run the function of an application of `run_state` on arrays in place of its references."""
    inner = _inner_references([typeof(x) for x in args], jaxpr)
    return _final_values(inner, args, jaxpr, False)


def _bind_with_trace(trace: Trace, args: Any, params: Any) -> Any:
    if isinstance(trace, pe.DynamicJaxprTrace):
        return trace.process_primitive(run_state_p, args, params)
    with core.set_current_trace(trace):
        return apply_run_state(*args, **params)


run_state_p.def_bind_with_trace(_bind_with_trace)


def _discharge(
    should: Any, in_avals: Any, out_avals: Any, *args: Any, lower: bool, aliases: Any,
    jaxpr: ClosedJaxpr, **_: Any,
) -> Any:  # fmt: skip
    inner = _inner_references(in_avals, jaxpr)
    outs = _final_values(tuple([i or bool(s) for i, s in zip(inner, should)]), args, jaxpr, lower)
    return [x if s else None for x, s in zip(outs, should)], outs


# Compiled programs have no references, but control flow bodies may contain this primitive.
mlir.register_lowering(run_state_p, mlir.lower_fun(apply_run_state, multiple_results=True))
run_state_p.discharge = _discharge
run_state_p.ref_boundary = True
