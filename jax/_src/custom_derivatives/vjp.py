"""`custom_vjp`: a function with a reverse-mode rule of its own."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import api_util, config, core, dtypes, traceback_util
from jax._src.ad_util import SymbolicZero
from jax._src.api_util import check_callable, flatten_fun_nokwargs
from jax._src.core import Primitive, Tracer, typeof
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
from jax._src.interpreters import ad, batching, mlir
from jax._src.tree_util import (
    generate_key_paths,
    keystr,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from jax._src.util import fun_name, split_list

traceback_util.register_exclusion(__file__)


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
        copy_metadata(self, fun)
        self.fun = fun
        self.nondiff_argnums = nondiff_positions(fun, nondiff_argnums, nondiff_argnames)
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
        return BoundCustom(self, obj)

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
        nondiff, dyn = split_nondiff(nums, args)
        for x in nondiff:
            _check_nondiff(fun_name(self), x)
        flat, in_tree = tree_flatten(dyn)
        check_leaves("custom_vjp", fun_name(self), flat)
        flat_fun, out_tree = flatten_fun_nokwargs(with_nondiff(self.fun, nums, nondiff), in_tree)
        flat_fun.debug_info = api_util.debug_info("custom_vjp fun", self.fun, dyn)
        in_avals = [typeof(x) for x in flat]
        fwd = _flat_fwd(
            with_nondiff(self.fwd, nums, nondiff), fun_name(self), fun_name(self.fwd), in_tree,
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
            if ct is None or is_zero(ct) or want.dtype == dtypes.float0:
                out.append(SymbolicZero(want))
                continue
            got = typeof(ct)
            real = (
                dtypes.issubdtype(want.dtype, np.floating),
                dtypes.issubdtype(got.dtype, np.floating),
            )
            if config.disable_bwd_checks.value:
                out.append(ct)
                continue
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
            if ct is None or is_zero(ct):
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
custom_vjp_call_p.def_effectful_abstract_eval(call_types)
custom_vjp_call_p.dce = call_dce
custom_vjp_call_p.transpose = call_transpose
mlir.register_lowering(custom_vjp_call_p, call_lowering)


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
    closed_over = ["num_consts"] if eqn.params["num_consts"] else []
    names = ["name", "bwd", "call_jaxpr", "fwd", *closed_over, "symbolic_zeros"]
    return core.default_pp_eqn(eqn.replace(params=params), context, settings, names)


custom_vjp_call_p.pp = _custom_vjp_pp


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """A tree with the values of its `CustomVJPPrimal` leaves."""
    return tree_map(
        lambda leaf: leaf.value if isinstance(leaf, CustomVJPPrimal) else leaf,
        tree,
        is_leaf=lambda x: isinstance(x, CustomVJPPrimal),
    )
