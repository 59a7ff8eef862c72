"""Functions with derivative rules of their own: `custom_jvp`, `custom_vjp`, `custom_gradient`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import api_util, core, dtypes, traceback_util
from jax._src.ad_util import SymbolicZero, Zero
from jax._src.api_util import check_callable, flatten_fun_nokwargs
from jax._src.core import Primitive, Tracer, typeof
from jax._src.interpreters import ad, batching, mlir, partial_eval as pe
from jax._src.interpreters.batching import not_mapped
from jax._src.tree_util import (
    generate_key_paths,
    keystr,
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from jax._src.util import fun_name, split_list

traceback_util.register_exclusion(__file__)


def resolve_kwargs(fun: Callable, args, kwargs) -> tuple:
    """Positional arguments for a call, defaults applied.

    Raises:
      TypeError: if an argument can only be passed by keyword.
    """
    if isinstance(fun, custom_jvp | custom_vjp):
        fun = fun.__wrapped__
    sig = api_util.fun_signature(fun)
    if sig is None:
        if kwargs:
            raise TypeError(
                f"keyword arguments {sorted(kwargs)} could not be resolved to positions"
            )
        return tuple(args)
    bound = sig.bind(*args, **kwargs)
    bound.apply_defaults()
    if by_keyword := sorted(k for k in bound.kwargs if k in kwargs):
        raise TypeError(f"keyword arguments {by_keyword} could not be resolved to positions")
    return bound.args


def _nondiff_positions(fun, argnums, argnames) -> tuple[int, ...]:
    sig = api_util.fun_signature(fun)
    n = len(sig.parameters) if sig is not None else None
    nums = set()
    for i in api_util.ensure_index_tuple(argnums):
        if (
            n is not None
            and not any(p.kind == p.VAR_POSITIONAL for p in sig.parameters.values())
            and not -n <= i < n
        ):
            raise ValueError(
                f"nondiff_argnums {argnums} contains {i}, but the function has {n} arguments"
            )
        nums.add(i + n if i < 0 and n is not None else i)
    for name in api_util.ensure_str_tuple(argnames):
        if sig is None or name not in sig.parameters:
            raise ValueError(f"nondiff_argnames: the function has no argument named {name!r}")
        nums.add(list(sig.parameters).index(name))
    return tuple(sorted(nums))


def _split_nondiff(nums: Sequence[int], args: Sequence[Any]) -> tuple[tuple, tuple]:
    nums_set = set(nums)
    return (
        tuple(a for i, a in enumerate(args) if i in nums_set),
        tuple(a for i, a in enumerate(args) if i not in nums_set),
    )


def _with_nondiff(fun: Callable, nums: Sequence[int], nondiff: Sequence[Any]) -> Callable:
    """`fun` as a function of its differentiable arguments."""
    if not nums:
        return fun

    def call(*dyn):
        fixed, rest = dict(zip(nums, nondiff)), iter(dyn)
        return fun(*[fixed[i] if i in fixed else next(rest) for i in range(len(dyn) + len(fixed))])

    return call


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
        _copy_metadata(self, fun)
        self.fun = fun
        self.nondiff_argnums = _nondiff_positions(fun, nondiff_argnums, nondiff_argnames)

    def __getattr__(self, name):
        if name == "fun":  # not yet initialised (unpickling)
            raise AttributeError(name)
        return getattr(self.fun, name)

    def __get__(self, obj, owner=None):
        if obj is None:
            return self
        return _BoundCustom(self, obj)

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
        nondiff, dyn = _split_nondiff(self.nondiff_argnums, args)
        flat, in_tree = tree_flatten(dyn)
        _check_leaves("custom_jvp", fun_name(self), flat)
        flat_fun, out_tree = flatten_fun_nokwargs(
            _with_nondiff(self.fun, self.nondiff_argnums, nondiff), in_tree
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


class _BoundCustom:
    """A `custom_jvp` or `custom_vjp` function used as a method."""

    def __init__(self, custom, obj):
        self._custom, self._obj = custom, obj
        self.__wrapped__ = custom

    def __call__(self, *args, **kwargs):
        return self._custom(self._obj, *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._custom, name)


def _copy_metadata(custom, fun) -> None:
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            object.__setattr__(custom, name, getattr(fun, name))
        except AttributeError:
            pass
    custom.__wrapped__ = fun


def _sum_tangents(_, x, *rest):
    for y in rest:
        x = ad.add_tangents(x, y)
    return ad.instantiate_zeros(x)


def _check_leaves(what: str, name: str, flat) -> None:
    for x in flat:
        if not core.valid_jaxtype(x):
            raise TypeError(
                f"{what} function {name} was called with an argument {x!r} of type {type(x)}, which is "
                "not a valid JAX type. Mark it with nondiff_argnums."
            )


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
            tree_map(lambda x: x, pair[1], is_leaf=_is_zero), is_leaf=_is_zero
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
            if _is_zero(t):
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


def _is_zero(x) -> bool:
    return type(x) in (Zero, SymbolicZero)


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


def _call_types(*avals, call_jaxpr, **_):
    return call_jaxpr.out_avals, call_jaxpr.effects


custom_jvp_call_p.def_effectful_abstract_eval(_call_types)


def _call_dce(used_outputs, eqn):
    if not any(used_outputs) and not pe.has_effects(eqn):
        return [False] * len(eqn.invars), None
    return [True] * len(eqn.invars), eqn


custom_jvp_call_p.dce = _call_dce


def _call_transpose(cts, *args, call_jaxpr, **_):
    # Where a function is used linearly, it is its own rule.
    return ad.backward_pass(call_jaxpr.jaxpr, False, call_jaxpr.consts, args, cts)


custom_jvp_call_p.transpose = _call_transpose


def _call_lowering(ctx, *args, call_jaxpr, **_):
    return mlir.lower_jaxpr_inline(ctx, call_jaxpr, "", *args)


mlir.register_lowering(custom_jvp_call_p, _call_lowering)


def _custom_jvp_pp(eqn, context, settings):
    params = dict(
        eqn.params,
        name=eqn.params["call_jaxpr"].debug_info.func_name or "fun",
        jvp=getattr(eqn.params["jvp_jaxpr_fun"], "jvp_name", "jvp"),
    )
    names = ["name", "call_jaxpr", "jvp", "symbolic_zeros"]
    return core.default_pp_eqn(eqn.replace(params=params), context, settings, names)


custom_jvp_call_p.pp = _custom_jvp_pp


# Reverse mode


class CustomVJPPrimal:
    """What a forward rule with `symbolic_zeros` gets for each argument: its value, and whether it is
    perturbed."""

    __slots__ = ("value", "perturbed")

    def __init__(self, value, perturbed: bool):
        self.value = value
        self.perturbed = perturbed


class custom_vjp:
    """A function with a reverse-mode rule of its own, used in place of differentiating its body.

    Args:
      fun: the function.
      nondiff_argnums: positions of arguments that are not differentiated (such as functions).
      nondiff_argnames: the same by name.

    Give the rule with `defvjp(fwd, bwd)`.

    >>> @jax.custom_vjp
    ... def f(x, y):
    ...   return jnp.sin(x) * y
    >>> def f_fwd(x, y):
    ...   return f(x, y), (jnp.cos(x), jnp.sin(x), y)
    >>> def f_bwd(res, g):
    ...   cos_x, sin_x, y = res
    ...   return cos_x * g * y, sin_x * g
    >>> f.defvjp(f_fwd, f_bwd)
    >>> print(jax.grad(f)(0., 2.))
    2.0
    """

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ):
        check_callable(fun)
        _copy_metadata(self, fun)
        self.fun = fun
        self.nondiff_argnums = _nondiff_positions(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable | None = None
        self.bwd: Callable | None = None
        self.symbolic_zeros = False
        self.optimize_remat = False

    def __getattr__(self, name):
        if name == "fun":
            raise AttributeError(name)
        return getattr(self.fun, name)

    def __get__(self, obj, owner=None):
        if obj is None:
            return self
        return _BoundCustom(self, obj)

    def defvjp(
        self,
        fwd: Callable,
        bwd: Callable,
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rule.

        Args:
          fwd: function of the arguments of `fun` returning (result, residuals).
          bwd: `bwd(*nondiff_args, residuals, cotangent)`, returning a tuple of cotangents of the
            differentiable arguments; None stands for zeros.
          symbolic_zeros: whether `fwd` gets `CustomVJPPrimal` objects and `bwd` `SymbolicZero`
            cotangents.
          optimize_remat: whether the forward pass may be recomputed without its unused results.
        """
        self.fwd = fwd
        self.bwd = bwd
        self.symbolic_zeros = symbolic_zeros
        self.optimize_remat = optimize_remat

    @traceback_util.api_boundary
    def __call__(self, *args, **kwargs):
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"No VJP defined for custom_vjp function {fun_name(self)} using defvjp."
            )
        try:
            args = resolve_kwargs(self.fun, args, kwargs)
        except TypeError as e:
            raise TypeError(
                "The input arguments to the custom_vjp-decorated function "
                f"{fun_name(self)} could not be resolved to positional-only arguments. {e}"
            ) from None
        nums = self.nondiff_argnums
        nondiff, dyn = _split_nondiff(nums, args)
        for x in nondiff:
            _check_nondiff(fun_name(self), x)
        flat, in_tree = tree_flatten(dyn)
        _check_leaves("custom_vjp", fun_name(self), flat)
        flat_fun, out_tree = flatten_fun_nokwargs(_with_nondiff(self.fun, nums, nondiff), in_tree)
        flat_fun.debug_info = api_util.debug_info("custom_vjp fun", self.fun, dyn)
        in_avals = [typeof(x) for x in flat]
        fwd = _flat_fwd(
            _with_nondiff(self.fwd, nums, nondiff), fun_name(self), fun_name(self.fwd), in_tree,
            out_tree, self.symbolic_zeros,
        )  # fmt: skip
        bwd = _flat_bwd(self.bwd, nondiff, fun_name(self.bwd), in_tree, in_avals)
        outs = custom_vjp_call_p.bind(
            flat_fun, fwd, bwd, *flat, out_trees=fwd.out_trees, symbolic_zeros=self.symbolic_zeros
        )
        try:
            tree = out_tree()
        except IndexError:
            tree = fwd.trees.out_tree
        return tree_unflatten(tree, outs)


def _check_nondiff(name: str, x: Any) -> None:
    for leaf in tree_leaves(x):
        if isinstance(leaf, Tracer) and isinstance(leaf, (ad.JVPTracer, ad.LinearizeTracer)):
            raise UnexpectedTracerErrorForNondiff(
                f"Found a JAX Tracer object passed as an argument to a custom_vjp function {name} in a "
                "position indicated by nondiff_argnums as non-differentiable. Tracers cannot be passed "
                "as non-differentiable arguments to custom_vjp functions; instead, nondiff_argnums "
                "should only be used for arguments that can't be or contain JAX tracers, e.g. "
                "function-valued arguments. In particular, array-valued arguments should typically not "
                "be indicated as nondiff_argnums."
            )


UnexpectedTracerErrorForNondiff = core.UnexpectedTracerError
CustomVJPException = ad.CustomVJPException


class _flat_fwd:
    """The user's forward rule: flat arguments to (residuals, results)."""

    def __init__(self, fwd, primal_name, fwd_name, in_tree, out_tree, symbolic_zeros):
        self.fwd, self.primal_name, self.fwd_name = fwd, primal_name, fwd_name
        self.in_tree, self.out_tree, self.symbolic_zeros = in_tree, out_tree, symbolic_zeros
        self.trees: _Trees | None = None

    def out_trees(self):
        return self.trees

    def __call__(self, *args):
        if self.symbolic_zeros:
            n = len(args) // 2
            flags, values = args[:n], args[n:]
            wrapped = [CustomVJPPrimal(v, bool(f)) for v, f in zip(values, flags)]
        else:
            wrapped = list(args)
        pair = self.fwd(*tree_unflatten(self.in_tree, wrapped))
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"Custom VJP fwd rule {self.fwd_name} for function {self.primal_name} must produce a "
                "pair (list or tuple of length two) where the first element represents the primal "
                "output (equal to those of the custom_vjp-decorated function "
                f"{self.primal_name}) and the second element represents residuals (i.e. values stored "
                f"from the forward pass for use on the backward pass), but instead of a pair the fwd "
                f"rule {self.fwd_name} produced {pair}."
            )
        outs, out_tree = tree_flatten(pair[0])
        res, res_tree = tree_flatten(pair[1])
        try:
            expected = self.out_tree()
        except IndexError:
            expected = None
        if expected is not None and expected != out_tree:
            raise TypeError(
                f"Custom VJP fwd rule {self.fwd_name} for function {self.primal_name} must produce a "
                "pair (list or tuple of length two) where the first element represents the primal "
                "output (equal to the output of the custom_vjp-decorated function "
                f"{self.primal_name}), but instead the fwd rule output's first element had "
                f"container/pytree structure:\n    {out_tree}\nwhile the custom_vjp-decorated function "
                f"{self.primal_name} had output container/pytree structure:\n    {expected}."
            )
        for x in res:
            if not core.valid_jaxtype(x):
                raise TypeError(
                    f"Custom VJP fwd rule {self.fwd_name} returned a residual {x!r} of type {type(x)}, "
                    "which is not a valid JAX type."
                )
        self.trees = _Trees(out_tree, res_tree)
        return [*res, *outs]


class _Trees:
    """The trees of the results and of the residuals of one call of a forward rule."""

    __slots__ = ("out_tree", "res_tree", "num_res")

    def __init__(self, out_tree, res_tree):
        self.out_tree, self.res_tree, self.num_res = out_tree, res_tree, res_tree.num_leaves


class _flat_bwd:
    """The user's backward rule: (trees, residuals, cotangents) to one cotangent per flat argument."""

    def __init__(self, bwd, nondiff, name, in_tree, in_avals):
        self.bwd, self.nondiff, self.name = bwd, nondiff, name
        self.in_tree, self.in_avals = in_tree, in_avals

    def __call__(self, trees, *args):
        res, cts = split_list(args, [trees.num_res])
        result = self.bwd(
            *self.nondiff, tree_unflatten(trees.res_tree, res), tree_unflatten(trees.out_tree, cts)
        )
        if isinstance(result, list) and self.in_tree != tree_structure(result):
            result = tuple(result)
        dummy = tree_unflatten(self.in_tree, list(range(self.in_tree.num_leaves)))
        flat = self._match(result, dummy)
        out = []
        for i, (ct, aval) in enumerate(zip(flat, self.in_avals)):
            want = aval.to_ct_aval()
            if ct is None or _is_zero(ct) or want.dtype == dtypes.float0:
                out.append(SymbolicZero(want))
                continue
            got = typeof(ct)
            real = (
                dtypes.issubdtype(want.dtype, np.floating),
                dtypes.issubdtype(got.dtype, np.floating),
            )
            if got.shape != want.shape or (got.dtype != want.dtype and not all(real)):
                path = keystr(list(generate_key_paths(dummy))[i][0])
                raise ValueError(
                    f"Custom VJP bwd rule {self.name} must produce a cotangent of the same shape and "
                    f"dtype as the argument at path args{path}: expected {want.str_short()} but got "
                    f"{got.str_short()}."
                )
            # A rule may compute in another precision than its argument has.
            out.append(
                ct if got.dtype == want.dtype else core.hooks.convert_element_type(ct, want.dtype)
            )
        return out

    def _match(self, result, dummy):
        """Cotangents for each flat argument; a None covers a whole subtree."""
        out: list = [None] * self.in_tree.num_leaves

        def walk(ct, tree):
            if ct is None or _is_zero(ct):
                return
            leaves, structure = tree_flatten(tree)
            if structure.num_leaves == 1 and structure == tree_structure(0):
                out[leaves[0]] = ct
                return
            children, node = _one_level(tree)
            ct_children, ct_node = _one_level(ct)
            if node != ct_node:
                raise TypeError(
                    f"Custom VJP bwd rule {self.name} must produce an output with the same container "
                    "(pytree) structure as the args tuple of the primal function, and in particular "
                    f"must produce a tuple of length {len(dummy)}, but got bwd output structure "
                    f"{tree_structure(result)} for primal input structure {self.in_tree}."
                )
            for c, t in zip(ct_children, children):
                walk(c, t)

        walk(result, dummy)
        return out


def _one_level(tree):
    leaves, structure = tree_flatten(tree, is_leaf=lambda x: x is not tree)
    return leaves, structure


custom_vjp_call_p = Primitive("custom_vjp_call", multiple_results=True)


def _custom_vjp_bind_with_trace(trace, args, params):
    fun, fwd, bwd, *args = args
    return trace.process_custom_vjp_call(custom_vjp_call_p, fun, fwd, bwd, args, **params)


custom_vjp_call_p.def_bind_with_trace(_custom_vjp_bind_with_trace)
custom_vjp_call_p.def_effectful_abstract_eval(_call_types)
custom_vjp_call_p.dce = _call_dce
custom_vjp_call_p.transpose = _call_transpose
mlir.register_lowering(custom_vjp_call_p, _call_lowering)


def _custom_lin_lowering(ctx, *args, **params):
    ad.raise_custom_vjp_error_on_jvp()


mlir.register_lowering(ad.custom_lin_p, _custom_lin_lowering)


def _custom_lin_batch(axis_data, args, dims, *, bwd, out_avals, in_zeros, num_res, **params):
    tangent_dims = iter(dims[num_res:])
    # Cotangents of arguments without a tangent are ignored.
    in_dims = [next(tangent_dims) if zero is None else None for zero in in_zeros]
    res_and_ct_dims = (*dims[:num_res], *[0] * len(out_avals))
    batched_avals = [core.unmapped_aval(axis_data.size, 0, a) for a in out_avals]
    outs = ad.custom_lin_p.bind(
        *args, bwd=batching.batched_bwd(bwd, axis_data, res_and_ct_dims, in_dims),
        out_avals=tuple(batched_avals), in_zeros=in_zeros, num_res=num_res, **params,
    )  # fmt: skip
    return outs, [0] * len(outs)


ad.custom_lin_p.axis_batch = _custom_lin_batch


def _custom_vjp_bind_params(params):
    closed, n = params["call_jaxpr"], params["num_consts"]
    fwd, bwd = params["fwd_jaxpr_thunk"], params["bwd"]
    if n:
        fwd, bwd = _lifted_fwd(n, fwd, params["symbolic_zeros"]), _lifted_bwd(n, bwd)
    funs = (core.jaxpr_as_fun(closed), fwd, bwd)
    return funs, dict(out_trees=params["out_trees"], symbolic_zeros=params["symbolic_zeros"])


custom_vjp_call_p.get_bind_params = _custom_vjp_bind_params


class _lifted:
    """A rule of a function whose first arguments are values it closed over."""

    def __init__(self, num_consts: int, rule: Callable, symbolic_zeros: bool = False):
        self.num_consts, self.rule, self.symbolic_zeros = num_consts, rule, symbolic_zeros

    def __getattr__(self, name):
        return getattr(self.__dict__["rule"], name)


class _lifted_fwd(_lifted):
    def __call__(self, *args):
        k = self.num_consts
        if self.symbolic_zeros:
            n = len(args) // 2
            return self.rule(*args[k:n], *args[n + k :])
        return self.rule(*args[k:])


class _lifted_bwd(_lifted):
    def __call__(self, trees, *args):
        return [None] * self.num_consts + list(self.rule(trees, *args))


def _custom_vjp_pp(eqn, context, settings):
    params = dict(
        eqn.params,
        name=eqn.params["call_jaxpr"].debug_info.func_name or "fun",
        fwd=getattr(eqn.params["fwd_jaxpr_thunk"], "fwd_name", "fwd"),
        bwd=getattr(eqn.params["bwd"], "name", "bwd"),
    )
    names = ["name", "bwd", "call_jaxpr", "fwd", "symbolic_zeros"]
    return core.default_pp_eqn(eqn.replace(params=params), context, settings, names)


custom_vjp_call_p.pp = _custom_vjp_pp


# Other ways to give derivatives


def custom_gradient(fun: Callable) -> custom_vjp:
    """A function that returns its result and the function from cotangent to cotangents.

    Args:
      fun: function returning (result, vjp_fun).

    Returns:
      A function that returns the result and is differentiated with `vjp_fun`.

    >>> @jax.custom_gradient
    ... def f(x):
    ...   return x ** 2, lambda g: (g * x,)
    >>> print(f(3.), jax.grad(f)(3.))
    9.0 3.0
    """

    @custom_vjp
    def wrapped(*args, **kwargs):
        result, _ = fun(*args, **kwargs)
        return result

    def fwd(*args, **kwargs):
        result, rule = fun(*args, **kwargs)
        _, out_tree = tree_flatten(result)
        out_avals = [typeof(x).to_ct_aval() for x in tree_leaves(result)]
        flat_rule, in_tree = flatten_fun_nokwargs(lambda ct: rule(ct), tree_structure((result,)))
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat_rule, out_avals)
        return result, _Residuals(jaxpr, in_tree(), out_tree, consts)

    def bwd(res, ct):
        cts = core.eval_jaxpr(res.jaxpr, res.consts, *tree_leaves(ct))
        out = tree_unflatten(res.in_tree, cts)
        return (
            out if isinstance(out, tuple) else (out,) if not isinstance(out, list) else tuple(out)
        )

    wrapped.defvjp(fwd, bwd)
    _copy_metadata(wrapped, fun)
    wrapped.__wrapped__ = wrapped.fun
    return wrapped


class _Residuals:
    """A staged backward function as a pytree of its constants."""

    def __init__(self, jaxpr, in_tree, out_tree, consts):
        self.jaxpr, self.in_tree, self.out_tree, self.consts = jaxpr, in_tree, out_tree, consts


register_pytree_node(
    _Residuals,
    lambda r: (r.consts, (r.jaxpr, r.in_tree, r.out_tree)),
    lambda aux, consts: _Residuals(*aux, list(consts)),
)


def closure_convert(fun: Callable, *example_args) -> tuple[Callable, list]:
    """Make the traced values a function closes over into explicit arguments.

    Args:
      fun: function of arrays and pytrees, maybe closing over values that are being differentiated.
      *example_args: arguments of the types `fun` will be called with.

    Returns:
      (converted, consts): `converted(*args, *consts)` is `fun(*args)`; `consts` are the floating-point
      tracers it closed over.
    """
    flat, in_tree = tree_flatten(example_args)
    flat_fun, out_tree_fn = flatten_fun_nokwargs(fun, in_tree)
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        flat_fun,
        [typeof(x) for x in flat],
        api_util.debug_info("closure_convert", fun, example_args),
    )
    out_tree = out_tree_fn()
    hoist = [
        isinstance(c, Tracer) and dtypes.issubdtype(typeof(c).dtype, np.inexact) for c in consts
    ]
    hoisted = [c for c, h in zip(consts, hoist) if h]
    kept = [c for c, h in zip(consts, hoist) if not h]
    n = len(hoisted)

    def converted(*args_and_consts):
        args = args_and_consts[: len(args_and_consts) - n]
        given = iter(args_and_consts[len(args_and_consts) - n :])
        fixed = iter(kept)
        values = [next(given) if h else next(fixed) for h in hoist]
        leaves, tree = tree_flatten(tuple(args))
        if tree != in_tree:
            raise TypeError(
                f"The inputs to the closure produced by closure_convert must have the structure of the "
                f"example arguments, {in_tree}, but got {tree}."
            )
        return tree_unflatten(out_tree, core.eval_jaxpr(jaxpr, values, *leaves))

    return converted, hoisted


def zero_from_primal(val: Any, symbolic_zeros: bool = False):
    """The zero tangent of a value, as an array or (with `symbolic_zeros`) as a `SymbolicZero`."""
    if symbolic_zeros:
        return SymbolicZero.from_primal_value(val)
    return ad.instantiate_zeros(ad.zero_of(val))


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """A tree with the values of its `CustomVJPPrimal` leaves."""
    return tree_map(
        lambda leaf: leaf.value if isinstance(leaf, CustomVJPPrimal) else leaf,
        tree,
        is_leaf=lambda x: isinstance(x, CustomVJPPrimal),
    )
