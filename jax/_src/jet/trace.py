"""The trace of Taylor mode, which propagates truncated Taylor series through a function.

A value is paired with its coefficients: the terms y[1], ..., y[n] of y(t) = y[0] + y[1] t + ... +
y[n] t**n. Common primitives have recurrences. The rules of all others follow from their JVP rules,
since the derivative of f(x(t)) with respect to t is the tangent for x'(t), a series with one term
less.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import api_util, config, core, dtypes, traceback_util
from jax._src.ad_util import (
    Zero,
    replace_internal_symbolic_zeros,
    replace_rule_output_symbolic_zeros,
    zeros_like_aval,
)
from jax._src.core import Primitive, Trace, Tracer, trace_ctx, typeof
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.lax.special import lgamma
from jax._src.lax.utils import const
from jax._src.tree_util import register_static, tree_flatten, tree_unflatten, treedef_is_leaf

traceback_util.register_exclusion(__file__)


@traceback_util.api_boundary
def jet(
    fun: Callable, primals: Sequence[Any], series: Sequence[Any], factorial_scaled: bool = True, **_
) -> tuple[Any, Any]:
    """Taylor-mode differentiation: computes the series of fun(x(t)) from that of x(t).

    Args:
      fun: function of arrays returning a tree of arrays.
      primals: a sequence of floating-point arrays, the arguments at t = 0.
      series: for each argument a sequence of arrays of its shape: its first, second, ...
        derivatives with respect to t at t = 0, or with `factorial_scaled=False` the coefficients of
        t, t**2, ... Their number, the same for all arguments, is the order.
      factorial_scaled: whether terms are derivatives instead of coefficients, in arguments and
        results.

    Returns:
      The result of `fun`, and a pytree of the same structure with a list of terms for each array.

    Raises:
      ValueError: if the numbers of arguments or terms are inconsistent, or an argument is not an
        array.
      TypeError: if an argument is not of a floating-point or complex dtype.

    Differs from the original: control flow, `jax.checkpoint` and functions with custom derivatives
    are supported; a `custom_jvp` function is differentiated by its rule, a `custom_vjp` function by
    its definition. Further keyword arguments are accepted for compatibility and have no effect.

    >>> from jax.experimental.jet import jet
    >>> y, (y1, y2) = jet(jnp.sin, (0.5,), ((1., 0.),))
    >>> print(y1 == jnp.cos(0.5), y2 == -jnp.sin(0.5))
    True True
    """
    api_util.check_callable(fun)
    for name, arg in (("primals", primals), ("series", series)):
        if not isinstance(arg, (tuple, list)):
            raise TypeError(f"jet: {name} must be a tuple or a list, got {type(arg)}")
    if len(primals) != len(series):
        raise ValueError(f"jet got {len(primals)} primals but {len(series)} series, one for each")
    lengths = {len(terms) for terms in series}
    if len(lengths) > 1:
        raise ValueError("jet terms have inconsistent lengths for different arguments")
    order = lengths.pop() if lengths else 0
    for i, x in enumerate(primals):
        if not treedef_is_leaf(tree_flatten(x)[1]):
            raise ValueError(f"primal value at position {i} is not an array")
        _check_primal(i, x)
    series = [[_term(i, x, t) for t in terms] for i, (x, terms) in enumerate(zip(primals, series))]
    if factorial_scaled:
        series = [[over(t, math.factorial(k)) for k, t in count_terms(terms)] for terms in series]
    trees = []

    def flat_fun(*args):
        leaves, tree = tree_flatten(fun(*args))
        trees.append(tree)
        return leaves

    outs, series_out = jet_flat(flat_fun, primals, series, order)
    results = []
    for y, terms in zip(outs, series_out):
        terms = instantiate(y, terms, order)
        if factorial_scaled:
            terms = [times(t, math.factorial(k)) for k, t in count_terms(terms)]
        results.append([late.to_array(t) for t in terms])
    outs = [late.to_array(y) for y in outs]
    return tree_unflatten(trees[0], outs), tree_unflatten(trees[0], results)


def _check_primal(i: int, x) -> None:
    aval = typeof(x)
    if not dtypes.issubdtype(getattr(aval, "dtype", np.float32), np.inexact):
        raise TypeError(
            f"jet needs floating-point or complex arguments, got {aval.str_short()} for the argument at "
            f"position {i}. Close over arguments that do not vary."
        )


def _term(i: int, x, term):
    """Converts a term to the dtype and shape of the argument."""
    aval, got = typeof(x), typeof(term)
    if got.shape != aval.shape:
        if core.broadcast_shapes(got.shape, aval.shape) != aval.shape:
            raise ValueError(
                f"jet: terms of the argument at position {i} must have its shape {aval.shape}, got "
                f"{got.shape}"
            )
        dims = tuple(range(aval.ndim - got.ndim, aval.ndim))
        term = lax.broadcast_in_dim(term, aval.shape, dims)
    return term if got.dtype == aval.dtype else lax.convert_element_type(term, aval.dtype)


@register_static
class ZeroTerm:
    """Represents a coefficient that is zero."""


@register_static
class ZeroSeries:
    """Represents the coefficients of a value that does not vary."""


zero_term = ZeroTerm()
zero_series = ZeroSeries()


def fact(n):
    """Computes n! of a number or an array."""
    if isinstance(n, (int, np.integer)):
        return lax.full((), float(math.factorial(int(n))))
    return lax.exp(lgamma(lax.add(n, const(n, 1))))


# Arithmetic of coefficients


def count_terms(terms):
    return enumerate(terms, 1)


def times(x, c):
    return x if c == 1 else lax.mul(x, const(x, c))


def over(x, c):
    return x if c == 1 else lax.div(x, const(x, c))


def total(terms):
    return functools.reduce(lax.add, terms)


def product(x, y, k: int, mul=lax.mul):
    """Returns coefficient k of the product of two series."""
    return total([mul(x[j], y[k - j]) for j in range(k + 1)])


def derivative(terms):
    """Returns the series of x', given the terms of x."""
    return [times(t, k) for k, t in count_terms(terms)]


def integral(coefficients):
    """Returns the terms of x, given the series of x'."""
    return [over(t, k) for k, t in count_terms(coefficients)]


def instantiate(x, terms, order: int) -> list:
    """Returns a list of terms in which symbolic zeros are replaced by arrays."""
    zero = None
    if isinstance(terms, ZeroSeries):
        terms = [zero_term] * order
    out = []
    for t in terms:
        if isinstance(t, ZeroTerm):
            if zero is None:
                zero = zeros_like_aval(typeof(x))
            t = zero
        out.append(t)
    return out


# The trace


class JetTracer(Tracer):
    """A tracer of a value and its series coefficients."""

    __slots__ = ("primal", "terms")

    def __init__(self, trace: JetTrace, primal: Any, terms: Sequence[Any]) -> None:
        self._trace = trace
        self.aval = typeof(primal)
        self.primal = primal
        self.terms = terms

    def to_concrete_value(self) -> Any:
        return core.to_concrete_value(self.primal)

    def get_referent(self) -> Any:
        return self.primal.get_referent() if isinstance(self.primal, Tracer) else self

    def _contents(self):
        return [("primal", self.primal), ("terms", self.terms)]

    def __repr__(self) -> str:
        return f"JetTracer(primal={self.primal}, terms={self.terms})"

    __str__ = __repr__


core.register_tracer_class(JetTracer)


class JetTrace(Trace):
    """Applies operations to series of `order` terms."""

    __slots__ = ("tag", "parent", "order")

    def __init__(self, tag: Any, parent_trace: Trace, order: int) -> None:
        self._valid = True
        self.tag = tag
        self.parent = parent_trace
        self.order = order

    @property
    def parent_trace(self) -> Trace:
        return self.parent

    def to_primal_terms_pair(self, x: Any) -> tuple[Any, Any]:
        if type(x) is JetTracer and x._trace is self:
            return x.primal, x.terms
        return x, zero_series

    def pack(self, primal, terms):
        varies = not isinstance(terms, ZeroSeries) and self.order
        return JetTracer(self, primal, terms) if varies else primal

    def _unpack(self, args):
        pairs = [self.to_primal_terms_pair(x) for x in args]
        series = [terms for _, terms in pairs]
        return [x for x, _ in pairs], series, any(terms is not zero_series for terms in series)

    def process_primitive(self, primitive: Primitive, args, params):
        primals, series, varies = self._unpack(args)
        with core.set_current_trace(self.parent):
            if not varies:
                return primitive.bind_with_trace(self.parent, primals, params)
            rule = jet_rules.get(primitive)
            if rule is None:
                outs, out_series = _by_jvp(primitive, self.order, primals, series, params)
            else:
                if rule not in _rules_of_zeros:
                    series = [
                        instantiate(x, s, self.order) if _may_vary(x) else s
                        for x, s in zip(primals, series)
                    ]
                outs, out_series = rule(primals, series, **params)
        if primitive.multiple_results:
            return [self.pack(x, s) for x, s in zip(outs, out_series)]
        return self.pack(outs, out_series)

    def process_custom_jvp_call(self, primitive, fun, jvp, args, *, symbolic_zeros):
        primals, series, varies = self._unpack(args)
        with core.set_current_trace(self.parent):
            if not varies:
                return primitive.bind_with_trace(
                    self.parent, (fun, jvp, *primals), dict(symbolic_zeros=symbolic_zeros)
                )
            prepare = replace_internal_symbolic_zeros if symbolic_zeros else ad.instantiate_zeros
            zeros = [prepare(ad.zero_of(x)) for x in primals]

            def run(*args):
                given = iter(args[len(primals) :])
                tangents = [z if s is zero_series else next(given) for z, s in zip(zeros, series)]
                outs = jvp(*args[: len(primals)], *tangents)
                n = len(outs) // 2
                tangents = [replace_rule_output_symbolic_zeros(t) for t in outs[n:]]
                nonzero[:] = [type(t) is not Zero for t in tangents]
                return [*outs[:n], *[t for t in tangents if type(t) is not Zero]]

            nonzero: list[bool] = []
            outs, out_series = _jet_of_derivative(run, self.order, primals, series)
        n = len(nonzero)
        given = iter(zip(outs[n:], out_series[n:]))
        return [
            self.pack(x, _integrated(*next(given), self.order) if nz else zero_series)
            for x, nz in zip(outs[:n], nonzero)
        ]

    def process_custom_vjp_call(self, primitive, fun, fwd, bwd, args, *, out_trees, symbolic_zeros):
        primals, _, varies = self._unpack(args)
        if not varies:
            with core.set_current_trace(self.parent):
                return primitive.bind_with_trace(
                    self.parent,
                    (fun, fwd, bwd, *primals),
                    dict(out_trees=out_trees, symbolic_zeros=symbolic_zeros),
                )
        return fun(*args)


def _may_vary(x) -> bool:
    return getattr(typeof(x).to_tangent_aval(), "dtype", dtypes.float0) != dtypes.float0


def jet_flat(fun: Callable, primals, series, order: int) -> tuple[list, list]:
    """Calls a function of flat arguments; returns its results and their terms."""
    trace = JetTrace(core.TraceTag(), trace_ctx.trace, order)
    args = [trace.pack(x, terms) for x, terms in zip(primals, series)]
    with core.set_current_trace(trace, check_leaks=True):
        outs = fun(*args)
        pairs = [trace.to_primal_terms_pair(x) for x in outs]
        del args, outs
    trace.invalidate()
    return [x for x, _ in pairs], [terms for _, terms in pairs]


def _jet_of_derivative(fun: Callable, order: int, primals, series) -> tuple[list, list]:
    """Computes series, shorter by one term, of a function of x and of x' for those x that vary."""
    rates = [derivative(terms) for terms in series if terms is not zero_series]
    primals = [*primals, *[r[0] for r in rates]]
    series = [terms if terms is zero_series else terms[:-1] for terms in series]
    return jet_flat(fun, primals, [*series, *[r[1:] for r in rates]], order - 1)


def _integrated(x, terms, order: int) -> list:
    return integral([x, *instantiate(x, terms, order - 1)])


# Rules


Rule = Callable[..., tuple[Any, Any]]
jet_rules: dict[Primitive, Rule] = {}  # rule(primals, series, **params) -> (results, their terms)
call_param_updaters: dict[Primitive, Callable] = {}
_rules_of_zeros: set[Rule] = set()  # rules that accept `zero_series`


def rule_for(*primitives: Primitive) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _rules_of_zeros.add(rule)
        for p in primitives:
            jet_rules[p] = rule
        return rule

    return register


def _by_jvp(primitive: Primitive, order: int, primals, series, params) -> tuple[Any, Any]:
    """Propagates series through any primitive, by means of its JVP rule."""
    outs = primitive.bind(*primals, **params)
    many = primitive.multiple_results
    varies = tuple([terms is not zero_series for terms in series])
    avals = tuple([typeof(x) for x in primals])
    jaxpr, consts, used, nonzero = _tangent_jaxpr(primitive, avals, varies, params)
    given = [terms for terms in series if terms is not zero_series]

    def run(*args):
        return core.eval_jaxpr(jaxpr, consts, *[x for x, u in zip(args, used) if u])

    if not any(nonzero):
        out_series: list = []
    elif not any(u and v for u, v in zip(used, varies)):
        # The tangents do not depend on the primal values: the operation is linear.
        out_series = list(zip(*[run(*primals, *[s[k] for s in given]) for k in range(order)]))
    else:
        ts, t_series = _jet_of_derivative(run, order, primals, series)
        out_series = [_integrated(t, terms, order) for t, terms in zip(ts, t_series)]
    results = iter(out_series)
    all_series = [list(next(results)) if nz else zero_series for nz in nonzero]
    return (outs, all_series) if many else (outs, all_series[0])


def _tangent_jaxpr(primitive: Primitive, avals, varies, params):
    """Traces a JVP rule to a jaxpr from primals and varying tangents to nonzero output tangents.

    Returns:
      The jaxpr, its constants, which of the arguments it uses, and which results have a nonzero
      tangent.
    """
    try:
        key = (_tangent_jaxpr, avals, varies, tuple(params.items()), config.trace_context())
        found = primitive.aval_cache.get(key)
    except TypeError:
        key = found = None
    if any(True for _ in core.jaxprs_in_params(params)):
        key = None  # the cache entry would keep the jaxpr alive
    if found is None:
        rule = primitive.jvp
        if rule is None:
            raise NotImplementedError(
                f"jet has no rule for the primitive '{primitive.name}', and it has no forward-mode "
                "differentiation rule that one could follow from. Set jax.experimental.jet.jet_rules."
            )
        nonzero: list[bool] = []

        def run(*args):
            given = iter(args[len(avals) :])
            tangents = [
                next(given) if v else Zero(a.to_tangent_aval()) for a, v in zip(avals, varies)
            ]
            _, ts = rule(args[: len(avals)], tangents, **params)
            ts = list(ts) if primitive.multiple_results else [ts]
            nonzero[:] = [
                type(t) is not Zero and getattr(typeof(t), "dtype", None) != dtypes.float0
                for t in ts
            ]
            return [t for t, nz in zip(ts, nonzero) if nz]

        tangent_avals = [a.to_tangent_aval() for a, v in zip(avals, varies) if v]
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(run, [*avals, *tangent_avals])
        jaxpr, used = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
        found = jaxpr, consts, used, tuple(nonzero)
        if key is not None and not any(isinstance(c, Tracer) for c in consts):
            primitive.aval_cache[key] = found
    return found


# Registration functions for users


def def_deriv(prim: Primitive, deriv: Callable) -> None:
    """Sets the rule of an elementwise primitive of one operand from its derivative.

    `deriv(x, **params)` computes the derivative at the operand.
    """
    jet_rules[prim] = functools.partial(deriv_prop, prim, deriv)


def deriv_prop(prim: Primitive, deriv: Callable, primals_in, series_in, **params):
    """The rule that `def_deriv` registers."""
    ((x,), (terms,)) = primals_in, series_in
    run = lambda x, rate: [lax.mul(rate, deriv(x, **params))]
    (t,), (t_terms,) = _jet_of_derivative(run, len(terms), [x], [terms])
    return prim.bind(x, **params), _integrated(t, t_terms, len(terms))


def def_comp(prim: Primitive, comp: Callable, **kwargs) -> None:
    """Sets a primitive's rule from a composition `comp(*operands, **params)` of simpler ones."""

    def rule(primals, series, **params):
        run = lambda *xs: tree_flatten(comp(*xs, **{**kwargs, **params}))[0]
        order = len(next(s for s in series if isinstance(s, (list, tuple))))
        outs, out_series = jet_flat(run, primals, series, order)
        return (outs, out_series) if prim.multiple_results else (outs[0], out_series[0])

    jet_rules[prim] = rule


def deflinear(prim: Primitive) -> None:
    """Sets the rule of a primitive that is jointly linear in all operands."""
    jet_rules[prim] = functools.partial(linear_prop, prim)


def linear_prop(prim: Primitive, primals_in, series_in, **params):
    """The rule that `deflinear` registers."""
    out = prim.bind(*primals_in, **params)
    results = [prim.bind(*terms, **params) for terms in zip(*series_in)]
    if prim.multiple_results:
        return out, [list(terms) for terms in zip(*results)]
    return out, results


def defzero(prim: Primitive) -> None:
    """Sets the rule of a primitive whose results do not vary."""
    jet_rules[prim] = functools.partial(zero_prop, prim)


def zero_prop(prim: Primitive, primals_in, series_in, **params):
    """The rule that `defzero` registers."""
    out = prim.bind(*primals_in, **params)
    return out, [zero_series] * len(out) if prim.multiple_results else zero_series
