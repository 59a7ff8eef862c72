"""`custom_vjp`: a function with a custom reverse-mode rule."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from jax._src import api_util, config, core, dtypes, traceback_util
from jax._src.ad_util import SymbolicZero, manual_type_remedy
from jax._src.core import Primitive, Tracer, typeof
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
from jax._src.custom_derivatives.remat_opt import OptimizedFwd
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lax.lax.convert import convert_element_type
from jax._src.literals import TypedNdArray, typed_scalar_types
from jax._src.tree_util import (
    keystr,
    leaf_key_paths,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
    treedef_children,
)
from jax._src.util import fun_name, split_list, wraps

traceback_util.register_exclusion(__file__)


class CustomVJPPrimal:
    """An argument of a forward rule with `symbolic_zeros`: a value, and whether it is perturbed."""

    __slots__ = ("value", "perturbed")

    def __init__(self, value, perturbed: bool):
        self.value = value
        self.perturbed = perturbed


class custom_vjp(CustomFunction):
    """A function with a custom reverse-mode rule, used instead of differentiating its body.

    Args:
      fun: the function.
      nondiff_argnums: positions of arguments that are not differentiated (such as functions).
      nondiff_argnames: the same, by name.

    Set the rule with `defvjp(fwd, bwd)`.

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

    kind = "custom_vjp"
    fwd: Any = None
    bwd: Any = None
    symbolic_zeros = False
    optimize_remat = False

    def defvjp(
        self,
        fwd: Callable,
        bwd: Callable,
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rule.

        Args:
          fwd: function of the arguments of `fun` that returns (result, residuals).
          bwd: `bwd(*nondiff_args, residuals, cotangent)`, which returns a tuple of cotangents of
            the differentiable arguments; None stands for zeros.
          symbolic_zeros: whether `fwd` gets `CustomVJPPrimal` objects and `bwd` `SymbolicZero`
            cotangents.
          optimize_remat: whether the forward pass runs `fun` instead of `fwd` if the residuals are
            not used, as inside `jax.checkpoint`: for functions and rules that XLA cannot simplify.
        """
        self.fwd = fwd
        self.bwd = bwd
        self.symbolic_zeros = symbolic_zeros
        self.optimize_remat = optimize_remat
        self.ready = fwd is not None and bwd is not None

    def bind(self, args: tuple):
        name, fun, fwd = fun_name(self), self.fun, self.fwd
        nondiff, dyn = (), args
        if self.nondiff_argnums:
            nondiff, dyn = split_nondiff(self.nondiff_argnums, args)
            for x in nondiff:
                _check_nondiff(name, x)
            fun, fwd = (with_nondiff(f, self.nondiff_argnums, nondiff) for f in (fun, fwd))
        flat, in_tree = tree_flatten(dyn)
        check_leaves("custom_vjp", name, flat)
        flat_fun = FlatFun("custom_vjp", fun, self.fun, in_tree, dyn)
        flat_fwd = _flat_fwd(fwd, name, fun_name(self.fwd), flat_fun, self.symbolic_zeros)
        run_fwd: Any = flat_fwd
        if self.optimize_remat:
            run_fwd = OptimizedFwd(flat_fwd, flat_fun, self.symbolic_zeros)
        in_avals = [typeof(x) for x in flat]
        flat_bwd = _flat_bwd(self.bwd, nondiff, fun_name(self.bwd), in_tree, in_avals)
        outs = custom_vjp_call_p.bind(
            flat_fun, run_fwd, flat_bwd, *flat, out_trees=flat_fwd.out_trees,
            symbolic_zeros=self.symbolic_zeros,
        )  # fmt: skip
        # Either the function has run, or its forward rule.
        tree = flat_fwd.trees.out_tree if flat_fun.out_tree is None else flat_fun.out_tree
        return tree_unflatten(tree, outs)


def _check_nondiff(name: str, x: Any) -> None:
    for leaf in tree_leaves(x):
        if isinstance(leaf, Tracer):
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
    """The user's forward rule, as a function from flat arguments to (residuals, results)."""

    def __init__(self, fwd, primal_name: str, fwd_name: str, fun: FlatFun, symbolic_zeros: bool):
        self.fwd, self.primal_name, self.fwd_name = fwd, primal_name, fwd_name
        self.fun, self.symbolic_zeros = fun, symbolic_zeros
        self.trees: Any = None

    def out_trees(self):
        return self.trees

    def __call__(self, *args):
        args = typed(args)
        if self.symbolic_zeros:
            n = len(args) // 2
            args = [CustomVJPPrimal(v, bool(f)) for f, v in zip(args[:n], args[n:])]
        pair = self.fwd(*tree_unflatten(self.fun.in_tree, args))
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            self._fail(
                "the first element represents the primal output (equal to those of the custom_vjp-"
                f"decorated function {self.primal_name}) and the second element represents residuals "
                "(i.e. values stored from the forward pass for use on the backward pass), but instead of "
                f"a pair the fwd rule {self.fwd_name} produced {pair}."
            )
        outs, out_tree = tree_flatten(pair[0])
        res, res_tree = tree_flatten(pair[1])
        if problem := self.fun.mismatch(out_tree, [typeof(x) for x in outs]):
            self._fail(f"{problem}.")
        for x in res:
            if not core.valid_jaxtype(x):
                raise TypeError(
                    f"Custom VJP fwd rule {self.fwd_name} returned a residual {x!r} of type {type(x)}, "
                    "which is not a valid JAX type."
                )
        self.trees = _Trees(out_tree, res_tree)
        return [*res, *outs]

    def _fail(self, what: str) -> NoReturn:
        raise TypeError(
            f"Custom VJP fwd rule {self.fwd_name} for function {self.primal_name} must produce a pair "
            f"(list or tuple of length two) where {what}"
        )


class _Trees:
    """The trees of the results and of the residuals of a call of a forward rule."""

    __slots__ = ("out_tree", "res_tree", "num_res")

    def __init__(self, out_tree, res_tree):
        self.out_tree, self.res_tree, self.num_res = out_tree, res_tree, res_tree.num_leaves


_HOST_TYPES = frozenset({np.ndarray, float, complex, *typed_scalar_types, TypedNdArray})


def _as_array(ct: Any):
    """A constant cotangent as an array, since rules expect the methods of arrays."""
    return ct if typeof(ct).dtype == dtypes.float0 else late.to_array(ct)


class _flat_bwd:
    """The user's backward rule, from (trees, residuals, cotangents) to a cotangent per argument."""

    def __init__(self, bwd, nondiff, name, in_tree, in_avals):
        self.bwd, self.nondiff, self.name = bwd, nondiff, name
        self.in_tree, self.in_avals = in_tree, in_avals

    def __call__(self, trees, *args):
        res, cts = split_list(args, [trees.num_res])
        cts = [_as_array(ct) if type(ct) in _HOST_TYPES else ct for ct in cts]
        result = self.bwd(
            *self.nondiff,
            tree_unflatten(trees.res_tree, typed(res)),
            tree_unflatten(trees.out_tree, cts),
        )
        if isinstance(result, list) and self.in_tree != tree_structure(result):
            result = tuple(result)
        flat, tree = tree_flatten(result)
        if tree != self.in_tree:
            flat = self._match(result)
        return [self._checked(i, ct) for i, ct in enumerate(flat)]

    def _checked(self, i: int, ct):
        """Convert a cotangent to its argument's type: a rule may compute in another precision."""
        aval = self.in_avals[i]
        want = aval.to_ct_aval()
        if ct is None or want.dtype == dtypes.float0:
            return SymbolicZero(want)
        got = ct.aval if is_zero(ct) else typeof(ct)
        if got is want and not is_zero(ct):
            return ct
        if is_zero(ct) or got.dtype == dtypes.float0:
            if got.shape == want.shape and got.dtype in (want.dtype, dtypes.float0):
                return SymbolicZero(want)
            self._refuse(i, want, got)
        if config.check_vma.value and got.manual_axis_type != want.manual_axis_type:
            if config.disable_bwd_checks.value:
                return ct
            self._refuse_axes(i, want, got)
        shardings = getattr(got, "_sharding", None), getattr(want, "_sharding", None)
        if None in shardings or shardings[0] == shardings[1]:
            if core.typematch(got, want):
                return ct
            is_complex = (dtypes.issubdtype(a.dtype, np.complexfloating) for a in (got, want))
            if got.shape == want.shape and (got.dtype == want.dtype or not any(is_complex)):
                return convert_element_type(ct, want.dtype)
        if config.disable_bwd_checks.value:
            return ct
        self._refuse(i, want, got)

    def _refuse(self, i: int, want, got) -> NoReturn:
        path = keystr(leaf_key_paths(self.in_tree)[i])
        raise ValueError(
            f"Custom VJP bwd rule {self.name} must produce a cotangent of the same shape, dtype and sharding "
            f"as the argument at path args{path}: expected {want.str_short()} but got {got.str_short()}."
        )

    def _refuse_axes(self, i: int, want, got) -> NoReturn:
        path = keystr(leaf_key_paths(self.in_tree)[i])
        remedy = manual_type_remedy(got, want, "ct")
        raise ValueError(
            f"Custom VJP bwd rule {self.name} must produce a cotangent that varies over the same manual "
            f"mesh axes as the argument at path args{path}: expected {want.str_short()} but got "
            f"{got.str_short()}, so the manual axis types do not match.{remedy}"
        )

    def _match(self, result):
        """One cotangent per flat argument; None or one cotangent may stand for a whole subtree."""
        out: list = [None] * self.in_tree.num_leaves

        def fail():
            raise TypeError(
                f"Custom VJP bwd rule {self.name} must produce an output with the same container (pytree) "
                "structure as the args tuple of the primal function, and in particular must produce a "
                f"tuple of length {len(treedef_children(self.in_tree))}, but got bwd output structure {tree_structure(result)} for "
                f"primal input structure {self.in_tree}."
            )

        def walk(ct, tree, start):
            if ct is None or is_zero(ct):
                return
            if core.valid_jaxtype(ct) and tree is not self.in_tree:
                out[start : start + tree.num_leaves] = [ct] * tree.num_leaves
                return
            node = tree.node_data()
            if node is None:
                fail()
            children = treedef_children(tree)
            ct_children, ct_tree = tree_flatten(ct, is_leaf=lambda x: x is not ct)
            if node != ct_tree.node_data() or len(children) != len(ct_children):
                fail()
            for c, t in zip(ct_children, children):
                walk(c, t, start)
                start += t.num_leaves

        if result is None:
            fail()
        walk(result, self.in_tree, 0)
        return out


custom_vjp_call_p = Primitive("custom_vjp_call", multiple_results=True)


def _custom_vjp_bind_with_trace(trace, args, params):
    args, params = core.with_subfuns(args, params)
    fun, fwd, bwd, *args = args
    return trace.process_custom_vjp_call(custom_vjp_call_p, fun, fwd, bwd, args, **params)


custom_vjp_call_p.def_bind_with_trace(_custom_vjp_bind_with_trace)
custom_vjp_call_p.def_effectful_abstract_eval(call_types)
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
    funs = (Subfun(closed), OnArrays(fwd), bwd)
    return dict(
        subfuns=funs, out_trees=params["out_trees"], symbolic_zeros=params["symbolic_zeros"]
    )


custom_vjp_call_p.get_bind_params = _custom_vjp_bind_params


class _lifted:
    """A rule of a function whose leading arguments are closed-over values."""

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
    """A tree with the `CustomVJPPrimal` leaves replaced by their values."""
    return tree_map(
        lambda leaf: leaf.value if isinstance(leaf, CustomVJPPrimal) else leaf,
        tree,
        is_leaf=lambda x: isinstance(x, CustomVJPPrimal),
    )


# Names that outside code imports


def optimize_remat_of_custom_vjp_fwd(
    fun: Callable, debug_fun: Any, fwd: Callable, debug_fwd: Any,
    nondiff_argnums: Sequence[int] = (), symbolic_zeros: bool = False,
) -> Callable:  # fmt: skip
    """The forward rule of `defvjp(optimize_remat=True)`, as a function that returns what `fwd` returns.

    Args:
      fun: the function.
      debug_fun, debug_fwd: descriptions of both functions; ours are made where they are called.
      fwd: its forward rule.
      nondiff_argnums: positions of arguments that are not differentiated.
      symbolic_zeros: not supported.
    """
    if symbolic_zeros:
        raise NotImplementedError(
            "remat optimization for custom_vjp does not support symbolic zeros here: use "
            "custom_vjp.defvjp(fwd, bwd, symbolic_zeros=True, optimize_remat=True)"
        )

    @wraps(fwd)
    def rule(*args, **kwargs):
        args = api_util.resolve_kwargs(fun, args, kwargs)
        nondiff, dyn = split_nondiff(nondiff_argnums, args)
        primal, forward = (with_nondiff(f, nondiff_argnums, nondiff) for f in (fun, fwd))
        flat, in_tree = tree_flatten(dyn)
        flat_fun = FlatFun("custom_vjp", primal, fun, in_tree, dyn)
        flat_fwd = _flat_fwd(forward, fun_name(fun), fun_name(fwd), flat_fun, False)
        outs = OptimizedFwd(flat_fwd, flat_fun, False)(*flat)
        trees = flat_fwd.trees
        res, outs = split_list(outs, [trees.num_res])
        return tree_unflatten(trees.out_tree, outs), tree_unflatten(trees.res_tree, res)

    return rule
