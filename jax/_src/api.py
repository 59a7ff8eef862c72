"""The transformations users call: `jit`, `grad`, `vmap` and their kin."""

import functools
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jax._src import (
    api_util,
    config,
    core,
    dtypes,
    pjit,
    source_info_util,
    traceback_util,
)
from jax._src.ad_util import Zero
from jax._src.api_util import (
    argnums_partial,
    check_callable,
    ensure_index,
    flatten_axes,
    flatten_fun,
    flatten_fun_aux,
    flatten_fun_nokwargs,
)
from jax._src.core import ShapeDtypeStruct, Tracer, typeof
from jax._src.interpreters import ad, batching, partial_eval as pe
from jax._src.lax.control_flow.scan import vmap_hook
from jax._src.literals import TypedComplex, TypedFloat
from jax._src.sharding_impls import UNSPECIFIED
from jax._src.tree_util import (
    Partial,
    equality_errors_pytreedef,
    generate_key_paths,
    keystr,
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from jax._src.util import clear_all_caches, wraps

traceback_util.register_exclusion(__file__)
api_boundary = traceback_util.api_boundary


class NotSpecified:
    """The place of the function in `jit(static_argnums=...)`, used as a decorator."""

    def __repr__(self) -> str:
        return "<not-specified>"


_not_specified = NotSpecified()


def jit(
    fun: Callable = _not_specified, /, *, in_shardings: Any = UNSPECIFIED,
    out_shardings: Any = UNSPECIFIED, static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None, keep_unused: bool = False,
    device: Any = None, backend: str | None = None, inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
):  # fmt: skip
    """Compile a function with XLA, once for each type of its arguments.

    Args:
      fun: a pure function of arrays, numbers and pytrees of them. Without it, a decorator is returned.
      in_shardings: shardings of the arguments: a tree prefix of the tuple of arguments.
      out_shardings: shardings of the results: a tree prefix of the result.
      static_argnums: positions of arguments that are hashable Python values, not arrays; the function
        is compiled anew for each value.
      static_argnames: the same by name.
      donate_argnums: positions of arguments whose memory the call may use for its results; they are
        deleted.
      donate_argnames: the same by name.
      keep_unused: keep arguments that the function does not use in the compiled program.
      device: device to compile for (prefer `in_shardings`).
      backend: platform to compile for.
      inline: whether, inside other traced functions, the body is put in place of the call.
      compiler_options: XLA options by name.

    Returns:
      A function with the same meaning. It has `trace`, `lower`, `eval_shape` and `clear_cache`.

    Raises:
      TypeError: for an argument that is neither an array nor static.
      ValueError: for positions or names the function does not have.

    >>> @jax.jit
    ... def selu(x, alpha=1.67, scale=1.05):
    ...   return scale * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)
    >>> selu(jnp.array([1., 2.]))
    Array([1.05, 2.1 ], dtype=float32)
    """
    options = dict(
        in_shardings=in_shardings, out_shardings=out_shardings, static_argnums=static_argnums,
        static_argnames=static_argnames, donate_argnums=donate_argnums,
        donate_argnames=donate_argnames, keep_unused=keep_unused, device=device, backend=backend,
        inline=inline, compiler_options=compiler_options,
    )  # fmt: skip
    if isinstance(fun, NotSpecified):
        return lambda fun: jit(fun, **options)
    check_callable(fun)
    return pjit.make_jit(fun, **options)


@contextmanager
def disable_jit(disable: bool = True):
    """Context manager: run jitted functions (and control flow) operation by operation.

    >>> @jax.jit
    ... def f(x):
    ...   y = x * 2
    ...   print("y is", y)
    ...   return y + 3
    >>> with jax.disable_jit():
    ...   print(f(1))
    y is 2
    5
    """
    with config.disable_jit(disable):
        yield


# Reverse mode


def grad(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False, reduce_axes: Sequence = (),
) -> Callable:  # fmt: skip
    """The gradient of a scalar-valued function.

    Args:
      fun: function of arrays and pytrees, returning a scalar (or a pair with auxiliary data).
      argnums: which positional argument(s) to differentiate by.
      has_aux: whether `fun` returns a pair (scalar, auxiliary data).
      holomorphic: whether `fun` is promised to be holomorphic; arguments and result are then complex.
      allow_int: whether to allow integer arguments, whose gradients are of type `float0`.
      reduce_axes: must be empty.

    Returns:
      A function of the same arguments that returns the gradient: a tree like the argument, or a tuple
      of them; with `has_aux` a pair of that and the auxiliary data.

    Raises:
      TypeError: if the result is not a scalar, or an argument or result has the wrong dtype.

    >>> print(jax.grad(jnp.tanh)(0.2))
    0.961043
    """
    value_and_grad_f = value_and_grad(
        fun, argnums=argnums, has_aux=has_aux, holomorphic=holomorphic, allow_int=allow_int,
        reduce_axes=reduce_axes,
    )  # fmt: skip
    docstr = (
        "Gradient of {fun} with respect to positional argument(s) {argnums}. Takes the same arguments "
        "as {fun} but returns the gradient."
    )

    @wraps(fun, docstr=docstr, argnums=argnums)
    @api_boundary
    def grad_f(*args, **kwargs):
        _, g = value_and_grad_f(*args, **kwargs)
        return g

    @wraps(fun, docstr=docstr, argnums=argnums)
    @api_boundary
    def grad_f_aux(*args, **kwargs):
        (_, aux), g = value_and_grad_f(*args, **kwargs)
        return g, aux

    return grad_f_aux if has_aux else grad_f


def value_and_grad(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False, reduce_axes: Sequence = (),
) -> Callable:  # fmt: skip
    """A function that returns the value of `fun` and its gradient; arguments as for `grad`.

    >>> value, slope = jax.value_and_grad(jnp.square)(3.)
    >>> print(value, slope)
    9.0 6.0
    """
    _check_reduce_axes(reduce_axes)
    check_callable(fun)
    argnums = ensure_index(argnums)
    docstr = (
        "Value and gradient of {fun} with respect to positional argument(s) {argnums}. Takes the same "
        "arguments as {fun} but returns a two-element tuple where the first element is the value of "
        "{fun} and the second element is the gradient."
    )

    @wraps(fun, docstr=docstr, argnums=argnums)
    @api_boundary
    def value_and_grad_f(*args, **kwargs):
        max_argnum = argnums if isinstance(argnums, int) else max(argnums, default=-1)
        if max_argnum >= len(args):
            raise TypeError(
                f"differentiating with respect to argnums={argnums} requires at least "
                f"{max_argnum + 1} positional arguments to be passed by the caller, but got only "
                f"{len(args)} positional arguments."
            )
        f = functools.partial(fun, **kwargs) if kwargs else fun
        f_partial, dyn_args = argnums_partial(f, argnums, args)
        for leaf in tree_leaves(dyn_args):
            _check_input_dtype("grad", holomorphic, allow_int, leaf)
        flat, in_tree = tree_flatten(dyn_args)
        if has_aux:
            flat_fun, out_tree, get_aux = flatten_fun_aux(f_partial, in_tree)
        else:
            flat_fun, out_tree = flatten_fun_nokwargs(f_partial, in_tree)
        outs, lin = ad.linearize(flat_fun, flat)
        aux = get_aux() if has_aux else None
        answer = tree_unflatten(out_tree(), outs)
        _check_scalar(answer)
        _check_output_dtype("grad", holomorphic, answer)
        ct = _one(typeof(outs[0]))
        grads = lin.backward([ct])
        grads = [_finish_ct(g) for g in grads]
        g = tree_unflatten(in_tree, grads)
        g = g[0] if isinstance(argnums, int) else g
        return ((answer, aux), g) if has_aux else (answer, g)

    return value_and_grad_f


@functools.cache
def _one(aval):
    """The cotangent of a scalar: one, as a constant that jaxprs show in place."""
    if aval.weak_type and aval.dtype in (np.float32, np.float64):
        return TypedFloat(1.0, aval.dtype)
    if aval.weak_type and aval.dtype in (np.complex64, np.complex128):
        return TypedComplex(1.0, aval.dtype)
    return np.ones((), aval.dtype)


def _finish_ct(ct):
    """A cotangent as the array users get."""
    ct = ad.instantiate_zeros(ct)
    if (
        isinstance(ct, (float, np.ndarray, np.generic))
        and getattr(ct, "dtype", None) != dtypes.float0
    ):
        return core.hooks.to_array(ct)
    return ct


def _check_reduce_axes(reduce_axes) -> None:
    if reduce_axes:
        raise NotImplementedError("reduce_axes argument to grad is deprecated: it must be empty")


def _check_scalar(x) -> None:
    msg = "Gradient only defined for scalar-output functions. Output {}.".format
    try:
        aval = typeof(x)
    except TypeError as e:
        raise TypeError(msg(f"was {x}")) from e
    if not isinstance(aval, core.ShapedArray):
        raise TypeError(msg(f"had abstract value {aval}"))
    if aval.shape != ():
        raise TypeError(
            msg(f"had shape: {aval.shape}")
            + " Reduce it (jnp.sum, jnp.mean), or use jax.vjp or jax.jacrev."
        )


def _check_input_dtype(name, holomorphic, allow_int, x) -> None:
    try:
        aval = typeof(x)
    except TypeError:
        raise TypeError(
            f"{name} requires arguments that are arrays or numbers, got {x!r} of type {type(x)}. "
            "Differentiate by other arguments (argnums), or close over this one."
        ) from None
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(
                f"{name} with holomorphic=True requires inputs with complex dtype, but got "
                f"{dtypes.dtype_name(aval.dtype)}."
            )
    elif name == "jacfwd" and not dtypes.issubdtype(aval.dtype, np.floating):
        raise TypeError(
            f"{name} requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but "
            f"got {dtypes.dtype_name(aval.dtype)}. For holomorphic differentiation, pass "
            "holomorphic=True. For differentiation of non-holomorphic functions involving complex "
            "inputs or integer inputs, use jax.jvp directly."
        )
    if (
        dtypes.issubdtype(aval.dtype, dtypes.extended)
        or dtypes.issubdtype(aval.dtype, np.integer)
        or dtypes.issubdtype(aval.dtype, np.bool_)
    ):
        if not allow_int:
            raise TypeError(
                f"{name} requires real- or complex-valued inputs (input dtype that is a sub-dtype of "
                f"np.inexact), but got {dtypes.dtype_name(aval.dtype)}. If you want to use Boolean- or "
                "integer-valued inputs, use vjp or set allow_int to True."
            )
    elif not dtypes.issubdtype(aval.dtype, np.inexact):
        raise TypeError(
            f"{name} requires numerical-valued inputs (input dtype that is a sub-dtype of np.bool_ or "
            f"np.number), but got {dtypes.dtype_name(aval.dtype)}."
        )


def _check_output_dtype(name, holomorphic, x) -> None:
    aval = typeof(x)
    text = dtypes.dtype_name(aval.dtype)
    if dtypes.issubdtype(aval.dtype, dtypes.extended):
        raise TypeError(f"{name} with output element type {text}")
    if holomorphic:
        if not dtypes.issubdtype(aval.dtype, np.complexfloating):
            raise TypeError(
                f"{name} with holomorphic=True requires outputs with complex dtype, but got {text}."
            )
    elif dtypes.issubdtype(aval.dtype, np.complexfloating):
        raise TypeError(
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), "
            f"but got {text}. For holomorphic differentiation, pass holomorphic=True. For "
            "differentiation of non-holomorphic functions involving complex outputs, use jax.vjp "
            "directly."
        )
    elif not dtypes.issubdtype(aval.dtype, np.floating):
        raise TypeError(
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), "
            f"but got {text}. For differentiation of functions with integer outputs, use jax.vjp "
            "directly."
        )


class NotNeeded:
    """In `VJP.args_res`: the place of an argument whose value the backward pass does not need."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NotNeeded()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NotNeeded)

    def __hash__(self) -> int:
        return hash(NotNeeded)


register_pytree_node(NotNeeded, lambda _: ((), None), lambda *_: NotNeeded())


class VJP:
    """The function from cotangents to cotangents that `jax.vjp` returns.

    It is a pytree of the values it needs, so that traced functions can return and take it.

    Attributes:
      in_tree: tree of the arguments of the differentiated function.
      out_tree: tree of its result.
      args_res: for each flat argument its value, or `NotNeeded()`. Entries may be replaced, by arrays of
        the same type.
      opaque_residuals: the other values that are needed.
      jaxpr: the linear function from tangents to tangents, whose transpose this is.
    """

    def __init__(self, fun, lin, args, in_tree, out_tree, out_avals):
        self._fun = fun
        self._lin = lin  # a tape; None once the values are laid open
        self._args = args
        self._jaxpr = None
        self._slots: tuple = ()  # for each constant of the jaxpr the argument it is, or None
        self._args_res: list = []
        self._opaque: list = []
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.out_avals = out_avals

    @property
    def jaxpr(self):
        self._open()
        return self._jaxpr

    @property
    def args_res(self) -> list:
        self._open()
        return self._args_res

    @args_res.setter
    def args_res(self, values) -> None:
        self._open()
        self._args_res = list(values)

    @property
    def opaque_residuals(self) -> list:
        self._open()
        return self._opaque

    @opaque_residuals.setter
    def opaque_residuals(self, values) -> None:
        self._open()
        self._opaque = list(values)

    @property
    def fun(self) -> Callable:
        """The function of (flat cotangents) to flat cotangents."""
        return self._backward

    def _open(self) -> None:
        """Turn the tape into a jaxpr, and sort the values it needs."""
        if self._lin is None:
            return
        self._jaxpr, residuals = self._lin.to_jaxpr()
        index = {id(x): i for i, x in enumerate(self._args)}
        self._slots = tuple([index.get(id(r)) for r in residuals])
        self._opaque = [r for r, i in zip(residuals, self._slots) if i is None]
        self._args_res = [x if i in self._slots else NotNeeded() for i, x in enumerate(self._args)]
        self._lin = self._args = None

    def __call__(self, *args):
        if len(args) != 1:
            raise TypeError(
                f"The function returned by `jax.vjp` applied to {self._name()} was called with "
                f"{len(args)} arguments, but functions returned by `jax.vjp` must be called with a "
                "single argument: the cotangent of the result. The cotangent of a result that is a tuple "
                "is a tuple, f_vjp((ct1, ct2)), not f_vjp(ct1, ct2)."
            )
        cts, ct_tree = tree_flatten(args[0])
        if ct_tree != self.out_tree:
            raise ValueError(self._tree_mismatch(ct_tree))
        cts = [
            _checked_cotangent(ct, a, i, self) for i, (ct, a) in enumerate(zip(cts, self.out_avals))
        ]
        return tree_unflatten(self.in_tree, self._backward(cts))

    def _backward(self, cts):
        if self._lin is not None:
            grads = self._lin.backward(cts)
        else:
            opaque = iter(self._opaque)
            consts = [next(opaque) if i is None else self._args_res[i] for i in self._slots]
            primals = [ad.UndefinedPrimal(a) for a in self._jaxpr.in_avals]
            grads = ad.backward_pass(self._jaxpr, True, consts, primals, cts)
        return [_finish_ct(g) for g in grads]

    def _name(self) -> str:
        return "the function" if self._fun is None else core.fun_source_info(self._fun)

    def _tree_mismatch(self, ct_tree) -> str:
        lines = [
            f"  * result{keystr(path)} was a {was} in the original output, but a {now} here, so {why}"
            for path, was, now, why in equality_errors_pytreedef(self.out_tree, ct_tree)
        ]
        return (
            "unexpected tree structure: the argument of a function returned by `jax.vjp` must have the "
            f"tree structure of the result of {self._name()}, but they differ:\n" + "\n".join(lines)
        )

    def with_refs(self, *refs):
        """A function like this one that adds cotangents of some arguments to mutable arrays.

        Args:
          *refs: for each argument a tree like it of mutable arrays, or None where the cotangent is to be
            returned.

        Returns:
          A function of the cotangent, returning a tuple with None for the arguments that have `refs`.
        """

        def call(ct):
            grads = self(ct)
            if len(refs) != len(grads):
                raise TypeError(
                    f"with_refs takes one tree for each of the {len(grads)} arguments, got {len(refs)}"
                )
            return tuple([g if r is None else tree_map(_add_to, r, g) for r, g in zip(refs, grads)])

        return call

    def __repr__(self) -> str:
        return (
            f"VJP(jaxpr={self.jaxpr}, in_tree={self.in_tree}, out_tree={self.out_tree}, "
            f"args_res={self.args_res}, opaque_residuals={self.opaque_residuals})"
        )

    def _flatten(self):
        self._open()
        aux = (self._jaxpr, self._slots, self.in_tree, self.out_tree, tuple(self.out_avals))
        return (self._args_res, self._opaque), aux

    @classmethod
    def _unflatten(cls, aux, residuals):
        jaxpr, slots, in_tree, out_tree, out_avals = aux
        self = cls(None, None, None, in_tree, out_tree, out_avals)
        self._jaxpr, self._slots = jaxpr, slots
        self._args_res, self._opaque = residuals
        return self


register_pytree_node(VJP, VJP._flatten, VJP._unflatten)


def _add_to(ref, ct) -> None:
    ref[...] += ct


def _checked_cotangent(ct, aval, index: int, vjp_fun: VJP):
    """A cotangent of a result of type `aval`; `Zero` where there is none."""
    got, expected = typeof(ct), aval.to_ct_aval()
    if got.dtype == dtypes.float0 and got.shape == expected.shape:
        return Zero(expected)
    if expected.dtype == dtypes.float0 and got.dtype == aval.dtype and got.shape == aval.shape:
        return Zero(expected)  # whatever an integer's cotangent is, it does not count
    if got.dtype == expected.dtype and got.shape == expected.shape:
        return ct
    dummies = tree_unflatten(vjp_fun.out_tree, [0] * vjp_fun.out_tree.num_leaves)
    path = keystr([p for p, _ in generate_key_paths(dummies)][index])
    where = f" at path {path}" if path else ""
    raise ValueError(
        f"unexpected JAX type (e.g. shape/dtype) for argument to VJP function{where}: got "
        f"{got.str_short()}, but expected {expected.str_short()} because the corresponding "
        f"output of the differentiated function had JAX type {aval.str_short()}"
    )


@api_boundary
def vjp(fun: Callable, *primals, has_aux: bool = False, reduce_axes: Sequence = ()):
    """The value of a function and its vector-Jacobian product.

    Args:
      fun: function of arrays and pytrees.
      *primals: arguments, at which it is differentiated.
      has_aux: whether `fun` returns a pair (result, auxiliary data).
      reduce_axes: must be empty.

    Returns:
      (result, vjp_fun) or (result, vjp_fun, aux): `vjp_fun` takes a cotangent like the result and
      returns a tuple of cotangents like the arguments.

    >>> y, f_vjp = jax.vjp(jnp.sin, 0.)
    >>> print(f_vjp(1.)[0])
    1.0
    """
    _check_reduce_axes(reduce_axes)
    check_callable(fun)
    flat, in_tree = tree_flatten(primals)
    for x in flat:
        _check_arg(x)
    if has_aux:
        flat_fun, out_tree, get_aux = flatten_fun_aux(fun, in_tree)
    else:
        flat_fun, out_tree = flatten_fun_nokwargs(fun, in_tree)
    outs, lin = ad.linearize(flat_fun, flat)
    aux = get_aux() if has_aux else None
    answer = tree_unflatten(out_tree(), outs)
    vjp_fun = VJP(fun, lin, flat, in_tree, out_tree(), [typeof(x) for x in outs])
    return (answer, vjp_fun, aux) if has_aux else (answer, vjp_fun)


def _check_arg(x) -> None:
    if not core.valid_jaxtype(x):
        raise TypeError(f"Argument {x!r} of type {type(x)} is not a valid JAX type.")


def fwd_and_bwd(
    fun: Callable, argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable, Callable]:
    """Forward and backward passes of a function, as two functions.

    Args:
      fun: function of arrays and pytrees.
      argnums: which positional argument(s) to differentiate by.
      has_aux: whether `fun` returns a pair (result, auxiliary data).
      jitted: whether to compile both.

    Returns:
      (fwd, bwd): `fwd(*args)` gives (result, residuals), or (result, residuals, aux);
      `bwd(residuals, cotangent)` gives the cotangents of the arguments `argnums`.
    """
    check_callable(fun)

    def fwd(*args, **kwargs):
        f = functools.partial(fun, **kwargs) if kwargs else fun
        f_partial, dyn_args = argnums_partial(f, argnums, args)
        return vjp(f_partial, *dyn_args, has_aux=has_aux)

    def bwd(f_vjp, outgrad):
        g = f_vjp(outgrad)
        return g[0] if isinstance(argnums, int) else g

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


# Forward mode


@api_boundary
def jvp(fun: Callable, primals, tangents, has_aux: bool = False):
    """The value of a function and its Jacobian-vector product.

    Args:
      fun: function of arrays and pytrees.
      primals: tuple or list of arguments.
      tangents: tuple or list of tangents, one like each argument.
      has_aux: whether `fun` returns a pair (result, auxiliary data).

    Returns:
      (result, tangent), or (result, tangent, aux).

    Raises:
      TypeError: if trees, shapes or dtypes of primals and tangents do not fit.

    >>> y, dy = jax.jvp(jnp.sin, (0.1,), (0.2,))
    >>> print(dy)
    0.19900084
    """
    check_callable(fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must be tuples or lists; found "
            f"{type(primals).__name__} and {type(tangents).__name__}."
        )
    flat, tree = tree_flatten(tuple(primals))
    flat_t, tree_t = tree_flatten(tuple(tangents))
    if tree != tree_t:
        raise TypeError(
            "primal and tangent arguments to jax.jvp must have the same tree structure; primals have "
            f"tree structure {tree} whereas tangents have tree structure {tree_t}."
        )
    for p, t in zip(flat, flat_t):
        _check_tangent("jvp", p, t)
    if has_aux:
        flat_fun, out_tree, get_aux = flatten_fun_aux(fun, tree)
    else:
        flat_fun, out_tree = flatten_fun_nokwargs(fun, tree)
    outs, outs_t = ad.jvp(flat_fun, flat, flat_t)
    answer = tree_unflatten(out_tree(), outs)
    tangent = tree_unflatten(out_tree(), [_finish_ct(t) for t in outs_t])
    return (answer, tangent, get_aux()) if has_aux else (answer, tangent)


def _check_tangent(name: str, p, t) -> None:
    aval, t_aval = typeof(p), typeof(t)
    expected = core.primal_dtype_to_tangent_dtype(aval.dtype)
    if expected != t_aval.dtype:
        raise TypeError(
            f"primal and tangent arguments to jax.{name} do not match; dtypes must be equal, or in case "
            "of int/bool primal dtype the tangent dtype must be float0. Got primal dtype "
            f"{dtypes.dtype_name(aval.dtype)} and so expected tangent dtype {dtypes.dtype_name(expected)}, but got "
            f"tangent dtype {dtypes.dtype_name(t_aval.dtype)} instead."
        )
    if aval.shape != t_aval.shape:
        raise ValueError(
            f"jvp called with different primal and tangent shapes;Got primal shape {aval.shape} and "
            f"tangent shape as {t_aval.shape}"
        )


@api_boundary
def linearize(fun: Callable, *primals, has_aux: bool = False):
    """The value of a function and its linear approximation at a point.

    Args:
      fun: function of arrays and pytrees.
      *primals: arguments, at which it is linearized.
      has_aux: whether `fun` returns a pair (result, auxiliary data).

    Returns:
      (result, f_jvp), or (result, f_jvp, aux): `f_jvp(*tangents)` gives the tangent of the result,
      without evaluating `fun` again.

    >>> y, f_jvp = jax.linearize(lambda x: 3. * jnp.sin(x) + jnp.cos(x / 2.), 2.)
    >>> print(f_jvp(3.))
    -5.007528
    """
    check_callable(fun)
    flat, in_tree = tree_flatten(primals)
    for x in flat:
        _check_arg(x)
    if has_aux:
        flat_fun, out_tree, get_aux = flatten_fun_aux(fun, in_tree)
    else:
        flat_fun, out_tree = flatten_fun_nokwargs(fun, in_tree)
    outs, lin = ad.linearize(flat_fun, flat)
    aux = get_aux() if has_aux else None
    jaxpr, consts = lin.to_jaxpr(api_util.debug_info("linearize", fun, primals))
    in_avals = [typeof(x) for x in flat]
    lifted = _LinearizedFunction(jaxpr, in_tree, out_tree(), in_avals)
    f_jvp = Partial(lifted, consts)
    answer = tree_unflatten(out_tree(), outs)
    return (answer, f_jvp, aux) if has_aux else (answer, f_jvp)


class _LinearizedFunction:
    """Applies a linear jaxpr to tangents after checking their types."""

    def __init__(self, jaxpr, in_tree, out_tree, in_avals):
        self.jaxpr = jaxpr
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.in_avals = in_avals

    def __call__(self, consts, *tangents):
        flat, tree = tree_flatten(tangents)
        if tree != self.in_tree:
            raise TypeError(
                "linearized function called with tangents of tree structure "
                f"{tree}, but the primals have {self.in_tree}."
            )
        for aval, t in zip(self.in_avals, flat):
            expected, got = aval.to_tangent_aval(), typeof(t)
            if not core.typematch(expected, got):
                raise ValueError(
                    f"linearized function called on tangent values inconsistent with the original "
                    f"primal values: got tangent aval {got} for primal aval {aval} but expected {expected}"
                )
        closed = core.ClosedJaxpr(self.jaxpr, consts)
        outs = _apply_linear(closed, flat)
        return tree_unflatten(self.out_tree, outs)


def _apply_linear(closed, args):
    return core.eval_jaxpr(closed.jaxpr, closed.consts, *args)


def jacfwd(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """The Jacobian of a function, column by column with forward mode.

    Args:
      fun: function of arrays and pytrees.
      argnums: which positional argument(s) to differentiate by.
      has_aux: whether `fun` returns a pair (result, auxiliary data).
      holomorphic: whether `fun` is promised to be holomorphic.

    Returns:
      A function of the same arguments that returns a tree like the result, of trees like the argument:
      each leaf has the shape of the result's leaf followed by that of the argument's.

    >>> print(jax.jacfwd(lambda x: jnp.stack([x[0], x[0] * x[1]]))(jnp.array([2., 3.])))
    [[1. 0.]
     [3. 2.]]
    """
    check_callable(fun)
    argnums = ensure_index(argnums)
    docstr = (
        "Jacobian of {fun} with respect to positional argument(s) {argnums}. Takes the same arguments "
        "as {fun} but returns the jacobian of the output with respect to the arguments at positions "
        "{argnums}."
    )

    @wraps(fun, docstr=docstr, argnums=argnums)
    @api_boundary
    def jacfun(*args, **kwargs):
        f = functools.partial(fun, **kwargs) if kwargs else fun
        f_partial, dyn_args = argnums_partial(f, argnums, args)
        for leaf in tree_leaves(dyn_args):
            _check_input_dtype("jacfwd", holomorphic, False, leaf)
        basis = _std_basis(dyn_args)

        def push(tangents):
            out = jvp(f_partial, dyn_args, tangents, has_aux=has_aux)
            return (out[1], out[0], out[2]) if has_aux else (out[1], out[0])

        out = vmap(push, in_axes=0, out_axes=(-1, None, None) if has_aux else (-1, None))(basis)
        jac, y = out[0], out[1]
        for leaf in tree_leaves(y):
            _check_jac_output("jacfwd", holomorphic, leaf)
        example = dyn_args[0] if isinstance(argnums, int) else dyn_args
        jac_tree = tree_map(lambda j: _unravel(example, -1, j), jac)
        return (jac_tree, out[2]) if has_aux else jac_tree

    return jacfun


def _check_jac_output(name, holomorphic, x) -> None:
    dtype = typeof(x).dtype
    if holomorphic and not dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            f"{name} with holomorphic=True requires outputs with complex dtype, but got "
            f"{dtypes.dtype_name(dtype)}."
        )


def jacrev(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable:  # fmt: skip
    """The Jacobian of a function, row by row with reverse mode.

    Args:
      fun: function of arrays and pytrees.
      argnums: which positional argument(s) to differentiate by.
      has_aux: whether `fun` returns a pair (result, auxiliary data).
      holomorphic: whether `fun` is promised to be holomorphic.
      allow_int: whether to allow integer arguments.

    Returns:
      A function as of `jacfwd`.

    >>> print(jax.jacrev(lambda x: jnp.stack([x[0], x[0] * x[1]]))(jnp.array([2., 3.])))
    [[1. 0.]
     [3. 2.]]
    """
    check_callable(fun)
    argnums = ensure_index(argnums)
    docstr = (
        "Jacobian of {fun} with respect to positional argument(s) {argnums}. Takes the same arguments "
        "as {fun} but returns the jacobian of the output with respect to the arguments at positions "
        "{argnums}."
    )

    @wraps(fun, docstr=docstr, argnums=argnums)
    @api_boundary
    def jacfun(*args, **kwargs):
        f = functools.partial(fun, **kwargs) if kwargs else fun
        f_partial, dyn_args = argnums_partial(f, argnums, args)
        for leaf in tree_leaves(dyn_args):
            _check_input_dtype("jacrev", holomorphic, allow_int, leaf)
        if has_aux:
            y, pullback, aux = vjp(f_partial, *dyn_args, has_aux=True)
        else:
            y, pullback = vjp(f_partial, *dyn_args)
        for leaf in tree_leaves(y):
            _check_output_dtype("jacrev", holomorphic, leaf)
        jac = vmap(pullback)(_std_basis(y))
        jac = jac[0] if isinstance(argnums, int) else jac
        example = dyn_args[0] if isinstance(argnums, int) else dyn_args
        jac_tree = tree_map(lambda j: _unravel(y, 0, j), jac)
        jac_tree = tree_util_transpose(tree_structure(example), tree_structure(y), jac_tree)
        return (jac_tree, aux) if has_aux else jac_tree

    return jacfun


jacobian = jacrev


def tree_util_transpose(outer, inner, tree):
    """`tree_transpose` for trees whose inner leaves are arrays."""
    flat = outer.flatten_up_to(tree)
    columns = [inner.flatten_up_to(t) for t in flat]
    rows = [[c[i] for c in columns] for i in range(inner.num_leaves)]
    return tree_unflatten(inner, [tree_unflatten(outer, r) for r in rows])


def hessian(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """The Hessian of a function; arguments as for `jacfwd`.

    >>> print(jax.hessian(lambda x: x[0] ** 3 * x[1])(jnp.array([1., 2.])))
    [[12.  3.]
     [ 3.  0.]]
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums, has_aux=has_aux, holomorphic=holomorphic,
    )  # fmt: skip


def _std_basis(pytree):
    """The standard basis of the tree's space: each leaf with a leading axis over all entries."""
    leaves, tree = tree_flatten(pytree)
    sizes = [int(np.prod(np.shape(x), dtype=np.int64)) for x in leaves]
    total = sum(sizes)
    dtype = dtypes.result_type(*leaves)
    out, start = [], 0
    for x, n in zip(leaves, sizes):
        block = np.zeros((total, n), np.bool_)
        block[start : start + n] = np.eye(n, dtype=np.bool_)
        start += n
        tangent_dtype = typeof(x).to_tangent_aval().dtype
        if tangent_dtype == dtypes.float0:
            tangent_dtype = dtype
        block = core.hooks.convert_element_type(block, tangent_dtype, typeof(x).weak_type)
        out.append(core.hooks.reshape(block, (total, *np.shape(x))))
    return tree_unflatten(tree, out)


def _unravel(pytree, axis: int, arr):
    """Split dimension `axis` of `arr` into the leaves of a tree."""
    leaves, tree = tree_flatten(pytree)
    ndim = np.ndim(arr)
    axis = axis % ndim
    shape = np.shape(arr)
    parts, start = [], 0
    for x in leaves:
        n = int(np.prod(np.shape(x), dtype=np.int64))
        part = arr
        if len(leaves) > 1:
            part = core.hooks.slice_in_dim(arr, start, start + n, axis)
        start += n
        parts.append(core.hooks.reshape(part, (*shape[:axis], *np.shape(x), *shape[axis + 1 :])))
    return tree_unflatten(tree, parts)


# Batching


def vmap(
    fun: Callable, in_axes: Any = 0, out_axes: Any = 0, axis_name: Any = None,
    axis_size: int | None = None, spmd_axis_name: Any = None, sum_match: bool = False,
) -> Callable:  # fmt: skip
    """Map a function over an axis of its arguments.

    Args:
      fun: function of arrays and pytrees.
      in_axes: which axis of each positional argument to map: an int, None for arguments that are the
        same for all, or a tree prefix of the tuple of arguments.
      out_axes: where the mapped axis is in the results: an int, None or a tree prefix.
      axis_name: a name for the axis, for collectives such as `jax.lax.psum`.
      axis_size: size of the axis; needed only if nothing is mapped.
      spmd_axis_name: mesh axis (or axes) that the mapped axis is sharded over.
      sum_match: whether results with out_axes None are summed over the axis.

    Returns:
      A function of arguments with an additional axis; keyword arguments are mapped over their axis 0.

    Raises:
      ValueError: if sizes disagree, or axes do not fit the arguments, naming them.

    >>> print(jax.vmap(jnp.dot, in_axes=(0, None))(jnp.eye(2), jnp.array([1., 2.])))
    [1. 2.]
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or type(in_axes) in {int, tuple} or isinstance(in_axes, (tuple,))):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional "
            f"arguments passed to the function, but got {in_axes}."
        )
    if not all(_is_axis(leaf) for leaf in tree_leaves(in_axes)):
        raise TypeError(
            "vmap in_axes must be an int, None, or (nested) container with those types as leaves, but "
            f"got {in_axes}."
        )
    if not all(_is_axis(leaf) for leaf in tree_leaves(out_axes)):
        raise TypeError(
            "vmap out_axes must be an int, None, or (nested) container with those types as leaves, but "
            f"got {out_axes}."
        )
    spmd = spmd_axis_name
    if spmd is not None and not isinstance(spmd, tuple):
        spmd = (spmd,)
    docstr = (
        "Vectorized version of {fun}. Takes similar arguments as {fun} but with additional array axes "
        "over which {fun} is mapped."
    )
    name = core.no_axis_name if axis_name is None else axis_name

    @wraps(fun, docstr=docstr)
    @api_boundary
    def vmap_f(*args, **kwargs):
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                "positional arguments passed to the function, but got "
                f"len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        flat, in_tree = tree_flatten((args, kwargs))
        in_axes_flat = flatten_axes("vmap in_axes", in_tree, (in_axes, 0), kws=True)
        size = _mapped_axis_size(fun, in_tree, flat, in_axes_flat, axis_size)
        in_axes_flat = [
            None if a is None else a + np.ndim(x) if a < 0 else a
            for a, x in zip(in_axes_flat, flat)
        ]
        flat_fun, out_tree = flatten_fun(fun, in_tree)
        axis_data = batching.AxisData(name, size, spmd)

        def dests():
            return flatten_axes("vmap out_axes", out_tree(), out_axes)

        try:
            outs = batching.batch(flat_fun, axis_data, in_axes_flat, dests, sum_match)(*flat)
        except batching.SpecMatchError as err:
            raise ValueError(_out_axes_error(fun, out_tree(), err.index)) from None
        return tree_unflatten(out_tree(), outs)

    return vmap_f


def _is_axis(x) -> bool:
    return x is None or (isinstance(x, (int, np.integer)) and not isinstance(x, bool))


def _out_axes_error(fun, tree, index) -> str:
    paths = [keystr(p) for p, _ in generate_key_paths(tree_unflatten(tree, [0] * tree.num_leaves))]
    where = f" at tree path result{paths[index]}" if index is not None and paths[index] else ""
    return (
        f"vmap has mapped output but out_axes is None{where}: the result of "
        f"{getattr(fun, '__name__', fun)} varies over the mapped axis, so its out_axes must be an int."
    )


def _mapped_axis_size(fun, tree, vals, dims, given: int | None) -> int:
    """The one size of the mapped axes, checked."""
    sizes = []
    for i, (x, d) in enumerate(zip(vals, dims)):
        if d is None:
            continue
        try:
            shape = np.shape(x)
            sizes.append(shape[d])
        except (IndexError, TypeError):
            ndim = np.ndim(x)
            path = _arg_path(fun, tree, i)
            min_rank = d + 1 if d >= 0 else -d
            raise ValueError(
                "vmap was requested to map its argument along axis "
                f"{d}, which implies that its rank should be at least {min_rank}, but is only {ndim} "
                f"(its shape is {np.shape(x)}). The argument is {path}."
            ) from None
    if not sizes:
        if given is not None:
            return given
        if not vals:
            raise ValueError(
                "vmap wrapped function must be passed at least one argument containing an array or "
                "axis_size must be specified, got no arguments"
            )
        raise ValueError(
            "vmap must have at least one non-None value in in_axes or axis_size must be specified"
        )
    if given is not None:
        sizes.append(given)
    if len(set(sizes)) == 1:
        return sizes[0]
    if given is not None:
        sizes.pop()
    lines = ["vmap got inconsistent sizes for array axes to be mapped:"]
    groups: dict[int, list[str]] = {}
    for i, (x, d) in enumerate(zip(vals, dims)):
        if d is not None:
            text = f"axis {d} of {_arg_path(fun, tree, i)} of type {typeof(x).str_short()}"
            groups.setdefault(np.shape(x)[d], []).append(text)
    if given is not None:
        groups.setdefault(given, []).append("the argument axis_size")
    for size, items in sorted(groups.items(), key=lambda kv: -len(kv[1])):
        if len(items) == 1:
            lines.append(f"  * one axis had size {size}: {items[0]};")
        else:
            shown = items[:3] + (["..."] if len(items) > 3 else [])
            lines.append(
                f"  * most axes ({len(items)} of them) had size {size}, e.g. {', '.join(shown)};"
            )
    raise ValueError("\n".join(lines)[:-1] + ".")


def _arg_path(fun, tree, index: int) -> str:
    names = api_util.arg_names_thunk(fun, tree)()
    return f"argument {names[index]}" if names[index] else f"argument number {index}"


# Staging


def make_jaxpr(
    fun: Callable, static_argnums: int | Sequence[int] = (), axis_env: Sequence | None = None,
    return_shape: bool = False,
) -> Callable:  # fmt: skip
    """A function that returns the jaxpr of `fun` for given arguments.

    Args:
      fun: function of arrays and pytrees.
      static_argnums: positions of arguments that are not traced.
      axis_env: pairs of names and sizes of axes in scope.
      return_shape: whether to return the types of the results too.

    Returns:
      A function of the same arguments (values or `ShapeDtypeStruct`s) returning a `ClosedJaxpr`, or a
      pair of it and a tree of `ShapeDtypeStruct`.

    >>> jax.make_jaxpr(lambda x: jnp.sin(x) * 2.)(1.)
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }
    """
    check_callable(fun)
    static_argnums = api_util.ensure_index_tuple(static_argnums)

    @wraps(fun)
    @api_boundary
    def make_jaxpr_f(*args, **kwargs):
        statics = {i + len(args) if i < 0 else i for i in static_argnums}
        for i in statics:
            if i < len(args):
                api_util.check_hashable_static([args[i]])
        dyn = tuple(a for i, a in enumerate(args) if i not in statics)

        def call(*dyn_args, **kw):
            it = iter(dyn_args)
            return fun(*[args[i] if i in statics else next(it) for i in range(len(args))], **kw)

        flat, in_tree = tree_flatten((dyn, kwargs))
        flat_fun, out_tree = flatten_fun(call if statics else fun, in_tree)
        info = api_util.debug_info("make_jaxpr", fun, args, kwargs, static_argnums=static_argnums)
        avals = [typeof(x) for x in flat]
        with core.extend_axis_env_nd(axis_env or ()):
            jaxpr, out_avals, consts = pe.trace_to_jaxpr_dynamic(flat_fun, avals, info)
        tree = out_tree()
        jaxpr.debug_info = info.with_results(api_util.result_paths_thunk(lambda: tree))
        closed = core.ClosedJaxpr(jaxpr, consts)
        if return_shape:
            return closed, tree_unflatten(tree, [ShapeDtypeStruct.from_aval(a) for a in out_avals])
        return closed

    make_jaxpr_f.__name__ = f"make_jaxpr({getattr(fun, '__name__', 'fun')})"
    return make_jaxpr_f


@api_boundary
def eval_shape(fun: Callable, *args, **kwargs):
    """Shapes and dtypes of the result of a function, without computing it.

    Args:
      fun: function of arrays and pytrees.
      *args, **kwargs: arguments: arrays, or `ShapeDtypeStruct`s in their place.

    Returns:
      A tree like the result, of `ShapeDtypeStruct`.

    >>> jax.eval_shape(lambda a, x: jnp.dot(a, x), jnp.ones((20, 30)), jnp.ones(30))
    ShapeDtypeStruct(shape=(20,), dtype=float32)
    """
    if hasattr(fun, "eval_shape") and hasattr(fun, "_jit_state"):
        return fun.eval_shape(*args, **kwargs)
    check_callable(fun)
    flat, in_tree = tree_flatten((args, kwargs))
    avals = [typeof(x) for x in flat]
    try:
        key = (in_tree, tuple(avals), config.trace_context())
        table = api_util.trace_table(fun)
        cached = table.get(("eval_shape", key))
    except TypeError:
        table, cached = None, None
    if cached is None:
        flat_fun, out_tree = flatten_fun(fun, in_tree)
        info = api_util.debug_info("eval_shape", fun, args, kwargs)
        _, out_avals, consts = pe.trace_to_jaxpr_dynamic(flat_fun, avals, info)
        cached = (out_tree(), [ShapeDtypeStruct.from_aval(a) for a in out_avals])
        if table is not None and not any(isinstance(c, Tracer) for c in consts):
            table[("eval_shape", key)] = cached
    return tree_unflatten(*cached)


def linear_transpose(fun: Callable, *primals, reduce_axes=()) -> Callable:
    """The transpose of a function that is promised to be linear.

    Args:
      fun: a linear function.
      *primals: arguments, of which only shapes and dtypes matter.
      reduce_axes: must be empty.

    Returns:
      A function from a cotangent like the result to a tuple of cotangents like the arguments.

    >>> f_t = jax.linear_transpose(lambda x, y: 0.5 * x - 0.5 * y, 1., 2.)
    >>> print(*f_t(1.0))
    0.5 -0.5
    """
    _check_reduce_axes(reduce_axes)
    flat, in_tree = tree_flatten(primals)
    flat_fun, out_tree = flatten_fun_nokwargs(fun, in_tree)
    in_avals = [typeof(x) for x in flat]
    info = api_util.debug_info("linear_transpose", fun, primals)
    jaxpr, out_avals, consts = pe.trace_to_jaxpr_dynamic(flat_fun, in_avals, info)
    all_dtypes = [a.dtype for a in (*in_avals, *out_avals)]
    if not any(all(dtypes.issubdtype(d, k) for d in all_dtypes) for k in (np.inexact, np.integer)):
        ins, outs = ([dtypes.dtype_name(a.dtype) for a in avals] for avals in (in_avals, out_avals))
        raise TypeError(
            "linear_transpose only supports [float or complex] -> [float or complex], and integer -> "
            f"integer functions, but got {ins} -> {outs}."
        )
    jaxpr, _ = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), True)
    tree = out_tree()

    @api_boundary
    def transposed(ct):
        cts, ct_tree = tree_flatten(ct)
        if ct_tree != tree:
            raise TypeError(
                f"cotangent tree does not match function output, expected {tree} but got {ct_tree}"
            )
        got = [typeof(c) for c in cts]
        if not all(map(core.typecompat, out_avals, got)):
            raise TypeError(
                "cotangent type does not match function output, expected "
                f"{[a.str_short() for a in out_avals]} but got {[a.str_short() for a in got]}"
            )
        dummies = [ad.UndefinedPrimal(a) for a in in_avals]
        outs = ad.backward_pass(jaxpr, True, consts, dummies, cts)
        return tree_unflatten(in_tree, [_finish_ct(o) for o in outs])

    transposed.__name__ = getattr(fun, "__name__", "fun") + "_transpose"
    return transposed


# Names, caches


@contextmanager
def named_scope(name: str):
    """Context manager and decorator that adds `name` to the names of operations.

    The names show in profiles and in the compiled program.

    >>> @jax.jit
    ... def layer(w, x):
    ...   with jax.named_scope("dot_product"):
    ...     logits = w.dot(x)
    ...   return logits
    """
    if not isinstance(name, str):
        raise TypeError("named_scope name argument must be a string.")
    with source_info_util.extend_name_stack(name):
        yield


def named_call(fun: Callable, *, name: str | None = None) -> Callable:
    """`fun` with `name` (by default its own) added to the names of its operations."""
    check_callable(fun)
    name = getattr(fun, "__name__", "fun") if name is None else name
    return wraps(fun)(lambda *args, **kwargs: _in_scope(name, fun, args, kwargs))


def _in_scope(name, fun, args, kwargs):
    with source_info_util.extend_name_stack(name):
        return fun(*args, **kwargs)


def clear_caches() -> None:
    """Forget everything cached: traces, lowerings and compiled programs."""
    clear_all_caches()


# `lax.map` in batches is below this layer and needs `vmap`.
vmap_hook[0] = vmap
