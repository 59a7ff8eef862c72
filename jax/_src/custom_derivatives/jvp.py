"""`custom_jvp`: a function with a forward-mode rule of its own."""

from collections.abc import Callable, Sequence

from jax._src import api_util, core, dtypes, traceback_util
from jax._src.ad_util import SymbolicZero, Zero
from jax._src.api_util import check_callable, flatten_fun_nokwargs
from jax._src.core import Primitive, typeof
from jax._src.custom_derivatives.common import (
    BoundCustom,
    call_dce,
    call_lowering,
    call_transpose,
    call_types,
    check_leaves,
    copy_metadata,
    is_zero,
    nondiff_positions,
    resolve_kwargs,
    split_nondiff,
    with_nondiff,
)
from jax._src.interpreters import ad, mlir
from jax._src.tree_util import generate_key_paths, keystr, tree_flatten, tree_map, tree_unflatten
from jax._src.util import fun_name

traceback_util.register_exclusion(__file__)


class custom_jvp:
    """A function with a forward-mode rule of its own, used in place of differentiating its body.

    Args:
      fun: the function.
      nondiff_argnums: positions of arguments that are not differentiated (such as functions).
      nondiff_argnames: the same by name.

    Give the rule with `defjvp` (or `defjvps`).

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

    jvp: Callable | None = None
    symbolic_zeros = False

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ):
        check_callable(fun)
        copy_metadata(self, fun)
        self.fun = fun
        self.nondiff_argnums = nondiff_positions(fun, nondiff_argnums, nondiff_argnames)

    def __getattr__(self, name):
        if name == "fun":  # not yet initialised (unpickling)
            raise AttributeError(name)
        return getattr(self.fun, name)

    def __get__(self, obj, owner=None):
        if obj is None:
            return self
        return BoundCustom(self, obj)

    def defjvp(self, jvp: Callable, symbolic_zeros: bool = False) -> Callable:
        """Set the rule.

        Args:
          jvp: `jvp(*nondiff_args, primals, tangents) -> (result, tangent)`, tuples of the differentiable
            arguments and their tangents.
          symbolic_zeros: whether tangents that are zero come as `SymbolicZero` objects.

        Returns:
          `jvp`, so that this works as a decorator.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable | None) -> None:
        """Set one rule per argument: `jvp_i(tangent_i, result, *args) -> tangent`; None for zero."""
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def jvp(primals, tangents):
            out = self(*primals)
            zeros = tree_map(ad.zero_of, out)
            parts = [rule(t, out, *primals) if rule else zeros for t, rule in zip(tangents, jvps)]
            total = tree_map(_sum_tangents, out, *parts, is_leaf=lambda x: type(x) is Zero)
            return out, total

        self.defjvp(jvp)

    @traceback_util.api_boundary
    def __call__(self, *args, **kwargs):
        if self.jvp is None:
            raise AttributeError(
                f"No JVP defined for custom_jvp function {fun_name(self)} using defjvp."
            )
        try:
            args = resolve_kwargs(self.fun, args, kwargs)
        except TypeError as e:
            raise TypeError(
                "The input arguments to the custom_jvp-decorated function "
                f"{fun_name(self)} could not be resolved to positional-only arguments. {e}"
            ) from None
        nondiff, dyn = split_nondiff(self.nondiff_argnums, args)
        flat, in_tree = tree_flatten(dyn)
        check_leaves("custom_jvp", fun_name(self), flat)
        flat_fun, out_tree = flatten_fun_nokwargs(
            with_nondiff(self.fun, self.nondiff_argnums, nondiff), in_tree
        )
        flat_fun.debug_info = api_util.debug_info("custom_jvp fun", self.fun, dyn)
        store: list = []
        jvp = self.jvp
        flat_jvp = _flat_jvp(
            (lambda p, t: jvp(*nondiff, p, t)) if nondiff else jvp,
            fun_name(self), fun_name(jvp), in_tree, out_tree, store,
        )  # fmt: skip
        outs = custom_jvp_call_p.bind(flat_fun, flat_jvp, *flat, symbolic_zeros=self.symbolic_zeros)
        try:
            tree = out_tree()
        except IndexError:  # the function itself did not run
            tree = store[0]
        return tree_unflatten(tree, outs)


def _sum_tangents(_, x, *rest):
    for y in rest:
        x = ad.add_tangents(x, y)
    return ad.instantiate_zeros(x)


class _flat_jvp:
    """The user's rule as a function from flat primals and tangents to flat results and tangents."""

    def __init__(self, jvp, primal_name, jvp_name, in_tree, out_tree, store):
        self.jvp, self.primal_name, self.jvp_name = jvp, primal_name, jvp_name
        self.in_tree, self.out_tree, self.store = in_tree, out_tree, store

    def __call__(self, *args):
        primals_flat, tangents_flat = args[: len(args) // 2], args[len(args) // 2 :]
        primals = tree_unflatten(self.in_tree, primals_flat)
        tangents = tree_unflatten(self.in_tree, tangents_flat)
        pair = self.jvp(primals, tangents)
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"Custom JVP rule {self.jvp_name} for function {self.primal_name} must produce a pair "
                f"(list or tuple of length two) representing primal and tangent outputs, but got {pair}."
            )
        outs, tree = tree_flatten(pair[0])
        touts, ttree = tree_flatten(
            tree_map(lambda x: x, pair[1], is_leaf=is_zero), is_leaf=is_zero
        )
        if tree != ttree:
            raise TypeError(
                f"Custom JVP rule {self.jvp_name} for function {self.primal_name} must produce primal "
                f"and tangent outputs with equal container (pytree) structures, but got {tree} and "
                f"{ttree} respectively."
            )
        try:
            expected = self.out_tree()
        except IndexError:
            expected = None
        if expected is not None and expected != tree:
            raise TypeError(
                f"Custom JVP rule {self.jvp_name} for function {self.primal_name} must produce a pair "
                "(list or tuple of length two) where the first element represents the primal output "
                "(equal in value to the output of the custom_jvp-decorated function "
                f"{self.primal_name}, and in particular of the same container/pytree structure), but "
                f"instead the JVP rule output's first element had container/pytree structure:\n    "
                f"{tree}\nwhile the custom_jvp-decorated function had output container/pytree "
                f"structure:\n    {expected}"
            )
        self.store[:] = [tree]
        results = []
        paths = [keystr(p) for p, _ in generate_key_paths(tree_unflatten(tree, [0] * len(outs)))]
        for p, t, path in zip(outs, touts, paths):
            want = typeof(p).to_tangent_aval()
            if is_zero(t):
                results.append(SymbolicZero(want))
                continue
            got = typeof(t)
            if not core.typematch(want, got):
                if want.dtype == dtypes.float0 and getattr(got, "shape", None) == want.shape:
                    results.append(SymbolicZero(want))
                    continue
                raise TypeError(
                    f"Custom JVP rule {self.jvp_name} for function {self.primal_name} must produce "
                    "primal and tangent outputs with corresponding shapes and dtypes. Expected "
                    f"{want.str_short()} (tangent type of {typeof(p).str_short()}) but got "
                    f"{got.str_short()}{f' at path {path}' if path else ''}."
                )
            results.append(t)
        return [*outs, *results]


custom_jvp_call_p = Primitive("custom_jvp_call", multiple_results=True)


def _custom_jvp_bind_with_trace(trace, args, params):
    fun, jvp, *args = args
    return trace.process_custom_jvp_call(custom_jvp_call_p, fun, jvp, args, **params)


custom_jvp_call_p.def_bind_with_trace(_custom_jvp_bind_with_trace)


def _custom_jvp_bind_params(params):
    closed, n = params["call_jaxpr"], params["num_consts"]
    jvp = params["jvp_jaxpr_fun"]
    if n:
        jvp = _lifted_jvp(n, jvp)
    return (core.jaxpr_as_fun(closed), jvp), dict(symbolic_zeros=params["symbolic_zeros"])


custom_jvp_call_p.get_bind_params = _custom_jvp_bind_params


class _lifted_jvp:
    """The rule of a function whose first arguments are values it closed over."""

    def __init__(self, num_consts: int, rule: Callable):
        self.num_consts, self.rule = num_consts, rule

    def __getattr__(self, name):
        return getattr(self.__dict__["rule"], name)

    def __call__(self, *args):
        n, k = len(args) // 2, self.num_consts
        return self.rule(*args[k:n], *args[n + k :])


custom_jvp_call_p.def_effectful_abstract_eval(call_types)
custom_jvp_call_p.dce = call_dce
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
