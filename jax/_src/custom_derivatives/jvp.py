"""`custom_jvp`: a function with a custom forward-mode rule."""

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from jax._src import core, dtypes, traceback_util
from jax._src.ad_util import SymbolicZero, Zero, manual_type_remedy
from jax._src.core import Primitive, typeof
from jax._src.custom_derivatives.common import (
    CustomFunction,
    FlatFun,
    OnArrays,
    Subfun,
    call_lowering,
    call_transpose,
    call_types,
    check_leaves,
    is_zero,
    split_nondiff,
    typed,
    with_nondiff,
)
from jax._src.interpreters import ad, mlir
from jax._src.lax import lax
from jax._src.tree_util import generate_key_paths, keystr, tree_flatten, tree_map, tree_unflatten
from jax._src.util import fun_name

traceback_util.register_exclusion(__file__)


class custom_jvp(CustomFunction):
    """A function with a custom forward-mode rule, used instead of differentiating its body.

    Args:
      fun: the function.
      nondiff_argnums: positions of arguments that are not differentiated (such as functions).
      nondiff_argnames: the same, by name.

    Set the rule with `defjvp` (or `defjvps`).

    >>> @jax.custom_jvp
    ... def f(x, y):
    ...   return jnp.sin(x) * y
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...   x, y = primals
    ...   x_dot, y_dot = tangents
    ...   return f(x, y), jnp.cos(x) * x_dot * y + jnp.sin(x) * y_dot
    >>> print(jax.grad(f)(0., 2.))
    2.0
    """

    kind = "custom_jvp"
    jvp: Any = None
    symbolic_zeros = False

    def defjvp(self, jvp: Callable, symbolic_zeros: bool = False) -> Callable:
        """Set the rule.

        Args:
          jvp: `jvp(*nondiff_args, primals, tangents) -> (result, tangent)`, with tuples of the
            differentiable arguments and their tangents.
          symbolic_zeros: whether zero tangents are passed as `SymbolicZero` objects.

        Returns:
          `jvp`, so that this method works as a decorator.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        self.ready = jvp is not None
        return jvp

    def defjvps(self, *jvps: Callable | None) -> None:
        """Set a rule per argument: `jvp_i(tangent_i, result, *args) -> tangent`, or None (zero)."""
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals, tangents):
            if len(jvps) != len(primals):
                raise ValueError(
                    f"defjvps of {fun_name(self)} got {len(jvps)} rules, but the function was called with "
                    f"{len(primals)} arguments."
                )
            out = self(*primals)
            zeros = tree_map(ad.zero_of, out)
            parts = [rule(t, out, *primals) if rule else zeros for t, rule in zip(tangents, jvps)]
            total = tree_map(_sum_tangents, out, *parts, is_leaf=lambda x: type(x) is Zero)
            return out, total

        self.defjvp(jvp)

    def bind(self, args: tuple):
        name, jvp = fun_name(self), self.jvp
        fun, dyn = self.fun, args
        if self.nondiff_argnums:
            nondiff, dyn = split_nondiff(self.nondiff_argnums, args)
            nondiff = tree_map(_constant, nondiff)
            fun = with_nondiff(fun, self.nondiff_argnums, nondiff)
            jvp = functools.partial(jvp, *nondiff)
        flat, in_tree = tree_flatten(dyn)
        check_leaves("custom_jvp", name, flat)
        flat_fun = FlatFun("custom_jvp", fun, self.fun, in_tree, dyn)
        flat_jvp = _flat_jvp(jvp, name, fun_name(self.jvp), flat_fun)
        outs = custom_jvp_call_p.bind(flat_fun, flat_jvp, *flat, symbolic_zeros=self.symbolic_zeros)
        # Either the function has run, or its rule.
        tree = flat_jvp.out_tree if flat_fun.out_tree is None else flat_fun.out_tree
        return tree_unflatten(tree, outs)


def _constant(x):
    """A nondifferentiable argument, without the tangent it may have."""
    return lax.stop_gradient(x) if isinstance(x, core.Tracer) else x


def _sum_tangents(_, x, *rest):
    for y in rest:
        x = ad.add_tangents(x, y)
    return ad.instantiate_zeros(x)


class _flat_jvp:
    """The user's rule as a function from flat primals and tangents to flat results and tangents."""

    def __init__(self, jvp, primal_name: str, jvp_name: str, fun: FlatFun):
        self.jvp, self.primal_name, self.jvp_name = jvp, primal_name, jvp_name
        self.fun = fun
        self.out_tree: Any = None

    def __call__(self, *args):
        args = typed(args)
        in_tree, n = self.fun.in_tree, len(args) // 2
        pair = self.jvp(tree_unflatten(in_tree, args[:n]), tree_unflatten(in_tree, args[n:]))
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            self._fail(
                "a pair (list or tuple of length two) representing primal and tangent outputs, but got "
                f"{pair}."
            )
        outs, tree = tree_flatten(pair[0])
        touts, ttree = tree_flatten(pair[1], is_leaf=is_zero)
        if tree != ttree:
            self._fail(
                "primal and tangent outputs with equal container (pytree) structures, but got "
                f"{tree} and {ttree} respectively."
            )
        avals = [typeof(x) for x in outs]
        if problem := self.fun.mismatch(tree, avals):
            self._fail(f"a pair (list or tuple of length two) where {problem}.")
        self.out_tree = tree
        tangents = []
        for i, (aval, t) in enumerate(zip(avals, touts)):
            want = aval.to_tangent_aval()
            if is_zero(t):
                t = SymbolicZero(want)
            else:
                got = typeof(t)
                no_tangent = want.dtype == got.dtype == dtypes.float0 and want.shape == got.shape
                if not (got is want or no_tangent or core.typematch(want, got)):
                    path = keystr(list(generate_key_paths(pair[0]))[i][0])
                    self._fail(
                        "primal and tangent outputs with corresponding shapes and dtypes. Expected "
                        f"{want.str_short()} (tangent type of {aval.str_short()}) but got "
                        f"{got.str_short()}{f' at path {path}' if path else ''}."
                        + manual_type_remedy(got, want, "tangent_out", "the primal output")
                    )
                if want.dtype == dtypes.float0:
                    t = SymbolicZero(want)
            tangents.append(t)
        return [*outs, *tangents]

    def _fail(self, what: str) -> NoReturn:
        raise TypeError(
            f"Custom JVP rule {self.jvp_name} for function {self.primal_name} must produce {what}"
        )


custom_jvp_call_p = Primitive("custom_jvp_call", multiple_results=True)


def _custom_jvp_bind_with_trace(trace, args, params):
    args, params = core.with_subfuns(args, params)
    fun, jvp, *args = args
    return trace.process_custom_jvp_call(custom_jvp_call_p, fun, jvp, args, **params)


custom_jvp_call_p.def_bind_with_trace(_custom_jvp_bind_with_trace)


def _custom_jvp_bind_params(params):
    closed, n = params["call_jaxpr"], params["num_consts"]
    jvp = params["jvp_jaxpr_fun"]
    if n:
        jvp = lift_jvp(n, jvp)
    return dict(
        subfuns=(Subfun(closed), OnArrays(jvp)),
        symbolic_zeros=params["symbolic_zeros"],
    )


custom_jvp_call_p.get_bind_params = _custom_jvp_bind_params


class lift_jvp:
    """The rule of a function whose leading arguments are closed-over values."""

    def __init__(self, num_consts, jvp_jaxpr_fun):
        self.num_consts, self.rule = num_consts, jvp_jaxpr_fun

    def __getattr__(self, name):
        return getattr(self.__dict__["rule"], name)

    def __call__(self, *args):
        n, k = len(args) // 2, self.num_consts
        return self.rule(*args[k:n], *args[n + k :])


custom_jvp_call_p.def_effectful_abstract_eval(call_types)
custom_jvp_call_p.transpose = call_transpose
mlir.register_lowering(custom_jvp_call_p, call_lowering)


def _custom_jvp_pp(eqn, context, settings):
    params = dict(
        eqn.params,
        name=eqn.params["call_jaxpr"].debug_info.func_name or "fun",
        jvp=getattr(eqn.params["jvp_jaxpr_fun"], "jvp_name", "jvp"),
    )
    closed_over = ["num_consts"] if eqn.params["num_consts"] else []
    names = ["name", "call_jaxpr", "jvp", *closed_over, "symbolic_zeros"]
    return core.default_pp_eqn(eqn.replace(params=params), context, settings, names)


custom_jvp_call_p.pp = _custom_jvp_pp
