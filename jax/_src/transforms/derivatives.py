"""Derivatives: `grad`, `vjp`, `jvp`, `linearize` and related functions."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from jax._src import api_util, core, dtypes, traceback_util
from jax._src.ad_util import Zero, manual_type_remedy, with_manual_type
from jax._src.api_util import (
    argnums_partial,
    check_callable,
    ensure_index,
    flatten_fun_aux,
    flatten_fun_nokwargs,
)
from jax._src.core import typeof
from jax._src.device_put.functions import device_put
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.interpreters.operand_meshes import operands
from jax._src.jit.jitted import make_jit
from jax._src.late_binding import late
from jax._src.literals import TypedComplex, TypedFloat, plain_scalar
from jax._src.memory import KIND_OF_SPACE, MemorySpace
from jax._src.tree_util import (
    Partial,
    equality_errors_pytreedef,
    keystr,
    leaf_key_paths,
    register_pytree_node,
    register_static,
    tree_flatten,
    tree_leaves,
    tree_unflatten,
)
from jax._src.util import wraps

traceback_util.register_exclusion(__file__)
api_boundary = traceback_util.api_boundary


# Reverse mode


def grad(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    allow_int: bool = False, reduce_axes: Sequence = (),
) -> Callable:  # fmt: skip
    """Differentiate a scalar-valued function.

    Args:
      fun: function of arrays and pytrees, returning a scalar (or a pair with auxiliary data).
      argnums: the positional argument(s) to differentiate with respect to.
      has_aux: whether `fun` returns a pair (scalar, auxiliary data).
      holomorphic: whether `fun` is promised to be holomorphic; arguments and result are then complex.
      allow_int: whether to allow integer arguments, whose gradients have dtype `float0`.
      reduce_axes: must be empty.

    Returns:
      A function of the same arguments that returns the gradient: a tree like the argument, or a
      tuple of them; with `has_aux`, a pair of the gradient and the auxiliary data.

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
    """Return a function that computes the value of `fun` and its gradient; arguments as for `grad`.

    >>> value, slope = jax.value_and_grad(jnp.square)(3.)
    >>> print(value, slope)
    9.0 6.0
    """
    _check_reduce_axes("grad", reduce_axes)
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
            check_input_dtype("grad", holomorphic, allow_int, leaf)
        flat, in_tree = tree_flatten(dyn_args)
        if has_aux:
            flat_fun, out_tree, get_aux = flatten_fun_aux(f_partial, in_tree)
        else:
            flat_fun, out_tree = flatten_fun_nokwargs(f_partial, in_tree)
        with operands((args, kwargs)):
            outs, lin = ad.linearize(flat_fun, flat)
        aux = get_aux() if has_aux else None
        answer = tree_unflatten(out_tree(), outs)
        _check_scalar(answer)
        check_output_dtype("grad", holomorphic, answer)
        aval = typeof(outs[0])
        ct = with_manual_type(_one(aval), aval.to_ct_aval().manual_axis_type)
        if aval.memory_space is not MemorySpace.Device:
            ct = in_memory_of(aval, ct)
        with operands((args, kwargs, outs)):
            grads = [_finish_ct(g) for g in lin.backward([ct])]
        g = tree_unflatten(in_tree, grads)
        g = g[0] if isinstance(argnums, int) else g
        return ((answer, aux), g) if has_aux else (answer, g)

    return value_and_grad_f


@functools.cache
def _one(aval):
    """The cotangent of a scalar: one, as a constant that jaxprs print in place."""
    if aval.weak_type and aval.dtype in (np.float32, np.float64):
        return TypedFloat(1.0, aval.dtype)
    if aval.weak_type and aval.dtype in (np.complex64, np.complex128):
        return TypedComplex(1.0, aval.dtype)
    return np.ones((), aval.dtype)


def in_memory_of(aval, x):
    """`x`, or a copy of it in the memory space of values of type `aval`, if that is another one."""
    space, own = getattr(aval, "memory_space", None), getattr(typeof(x), "memory_space", None)
    if space is own or space not in KIND_OF_SPACE or own not in KIND_OF_SPACE:
        return x
    return device_put(x, space)


def _finish_ct(ct, given=()):
    """A (co)tangent as returned to the user: an array, or one of `given` if it is unchanged."""
    ct = ad.instantiate_zeros(ct)
    if (
        isinstance(ct, (float, np.ndarray, np.generic))
        and getattr(ct, "dtype", None) != dtypes.float0
        and not any(ct is x for x in given)
    ):
        return late.to_array(ct)
    return ct


def _check_reduce_axes(name: str, reduce_axes) -> None:
    if reduce_axes:
        raise NotImplementedError(f"reduce_axes argument to {name} is deprecated: it must be empty")


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


def check_input_dtype(name, holomorphic, allow_int, x) -> None:
    try:
        aval = typeof(x)
    except TypeError:
        raise TypeError(
            f"{name} requires arguments that are arrays or numbers, got {x!r} of type {type(x)}. "
            "Differentiate by other arguments (argnums), or close over this one."
        ) from None
    if aval.is_high:  # says itself what its tangents are
        return
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


def check_output_dtype(name, holomorphic, x) -> None:
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


class _Marker:
    """Stands for an array; all instances of a class are equal."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class GradValue(_Marker):
    """Passed to `VJP.with_refs` for a cotangent that is to be returned."""

    __slots__ = ()


class DontWant(_Marker):
    """Passed to `VJP.with_refs` for a cotangent that is not needed."""

    __slots__ = ()


@register_static
class DidntWant(_Marker):
    """Returned in place of a cotangent that was not needed."""

    __slots__ = ()


@register_static
class GradRef(_Marker):
    """Returned in place of a cotangent that was added to a mutable array."""

    __slots__ = ()


class NotNeeded(_Marker):
    """In `VJP.args_res`: stands for an argument whose value the backward pass does not need."""

    __slots__ = ()


register_pytree_node(NotNeeded, lambda _: ((), None), lambda *_: NotNeeded())


class VJP:
    """The function from cotangents to cotangents that `jax.vjp` returns.

    It is a pytree whose leaves are the values it needs, so traced functions can return and accept
    it.

    Attributes:
      in_tree: the tree of the arguments of the differentiated function.
      out_tree: the tree of its result.
      args_res: for each flat argument its value, or `NotNeeded()`. Entries may be replaced by
        arrays of the same type.
      opaque_residuals: the other values that are needed.
      jaxpr: the linear function from tangents to tangents of which this is the transpose.
    """

    def __init__(self, fun, lin, args, in_tree, out_tree, out_avals):
        self._fun = fun
        self._lin = lin  # the tape of linearization; None once it is converted to a jaxpr
        self._args = args
        self._jaxpr = None
        # For each constant of the jaxpr, the index of the argument, or None
        self._slots: tuple = ()
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
        """The function from flat cotangents to flat cotangents."""
        return self._backward

    def _open(self) -> None:
        """Convert the tape to a jaxpr, and split its constants into arguments and residuals."""
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
        with operands((cts, self._args, self._args_res, self._opaque)):
            return tree_unflatten(self.in_tree, self._backward(cts))

    def _backward(self, cts):
        if self._lin is not None:
            grads = self._lin.backward(cts)
        else:
            opaque = iter(self._opaque)
            consts = [next(opaque) if i is None else self._args_res[i] for i in self._slots]
            primals = [ad.UndefinedPrimal(a) for a in self._jaxpr.in_avals]
            grads = ad.backward_pass(self._jaxpr, True, consts, primals, cts)
        return [_finish_ct(g, cts) for g in grads]

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

    def with_refs(self, *wanted):
        """A function like this one for which each argument specifies where its cotangent goes.

        Args:
          *wanted: trees like the arguments. A leaf is `jax.ad.GradValue()` to return the cotangent,
            `jax.ad.DontWant()` if it is not needed, or a mutable array to add the cotangent to.

        Returns:
          A function of the cotangent of the result. In its result, `jax.ad.DidntWant()` and
          `jax.ad.GradRef()` stand for the cotangents that are not returned.

        Raises:
          TypeError: for trees or leaves other than these.
        """
        leaves, tree = tree_flatten(wanted)
        if tree != self.in_tree:
            raise TypeError(
                f"with_refs takes trees like the arguments of {self._name()}, {self.in_tree}, whose leaves "
                "are jax.ad.GradValue(), jax.ad.DontWant() or mutable arrays; got "
                f"{tree}."
            )
        for x in leaves:
            if type(x) not in (GradValue, DontWant) and not _is_mutable(x):
                raise TypeError(
                    "with_refs takes jax.ad.GradValue(), jax.ad.DontWant() or mutable arrays "
                    f"(jax.new_ref), got {x!r}."
                )

        def call(ct):
            grads = tree_flatten(self(ct))[0]
            return tree_unflatten(tree, [_deliver(want, g) for want, g in zip(leaves, grads)])

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


def _is_mutable(x) -> bool:
    try:
        return not isinstance(typeof(x), core.ShapedArray)
    except TypeError:
        return False


def _deliver(want, ct):
    """Handle a cotangent as `want` says; returns the entry for the result of the function."""
    if type(want) is GradValue:
        return ct
    if type(want) is DontWant:
        return DidntWant()
    want[...] += ct
    return GradRef()


def _checked_cotangent(ct, aval, index: int, vjp_fun: VJP):
    """Check a cotangent of a result of type `aval`; `Zero` if the result has no derivative."""
    got, expected = typeof(ct), aval.to_ct_aval()
    remedy = ""
    if got.is_high or expected.is_high or aval.is_high:
        if core.typematch(got, expected):
            return ct
    elif got.dtype == dtypes.float0 and got.shape == expected.shape:
        return Zero(expected)
    elif expected.dtype == dtypes.float0 and got.shape == aval.shape:
        return Zero(expected)  # a cotangent of an integer is ignored, whatever its value
    elif got.dtype == expected.dtype and got.shape == expected.shape:
        shardings = getattr(got, "_sharding", None), getattr(expected, "_sharding", None)
        spaces = getattr(got, "memory_space", None), getattr(expected, "memory_space", None)
        if spaces[0] is spaces[1] and (None in shardings or shardings[0] == shardings[1]):
            remedy = manual_type_remedy(got, expected, "ct")
            if not remedy:
                return ct
    path = keystr(leaf_key_paths(vjp_fun.out_tree)[index])
    where = f" at path {path}" if path else ""
    raise ValueError(
        f"unexpected JAX type (e.g. shape/dtype) for argument to VJP function{where}: got "
        f"{got.str_short()}, but expected {expected.str_short()} because the corresponding "
        f"output of the differentiated function had JAX type {aval.str_short()}.{remedy}"
    )


@api_boundary
def vjp(fun: Callable, *primals, has_aux: bool = False, reduce_axes: Sequence = ()):
    """Compute the value of a function and its vector-Jacobian product.

    Args:
      fun: function of arrays and pytrees.
      *primals: the arguments at which to differentiate.
      has_aux: whether `fun` returns a pair (result, auxiliary data).
      reduce_axes: must be empty.

    Returns:
      (result, vjp_fun) or (result, vjp_fun, aux): `vjp_fun` takes a cotangent like the result and
      returns a tuple of cotangents like the arguments.

    >>> y, f_vjp = jax.vjp(jnp.sin, 0.)
    >>> print(f_vjp(1.)[0])
    1.0
    """
    _check_reduce_axes("vjp", reduce_axes)
    check_callable(fun)
    flat, in_tree = tree_flatten(primals)
    for x in flat:
        _check_arg(x)
    if has_aux:
        flat_fun, out_tree, get_aux = flatten_fun_aux(fun, in_tree)
    else:
        flat_fun, out_tree = flatten_fun_nokwargs(fun, in_tree)
    with operands(flat):
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
    """Split the derivative of a function into two functions: the forward and the backward pass.

    Args:
      fun: function of arrays and pytrees.
      argnums: the positional argument(s) to differentiate with respect to.
      has_aux: whether `fun` returns a pair (result, auxiliary data).
      jitted: whether to compile both.

    Returns:
      (fwd, bwd): `fwd(*args)` returns (result, residuals), or (result, residuals, aux);
      `bwd(residuals, cotangent)` returns the cotangents of the arguments `argnums`.
    """
    check_callable(fun)

    def fwd(*args, **kwargs):
        f = functools.partial(fun, **kwargs) if kwargs else fun
        f_partial, dyn_args = argnums_partial(f, argnums, args)
        return vjp(f_partial, *dyn_args, has_aux=has_aux)

    def bwd(f_vjp, outgrad):
        g = f_vjp(outgrad)
        return g[0] if isinstance(argnums, int) else g

    return (make_jit(fwd), make_jit(bwd)) if jitted else (fwd, bwd)


# Forward mode


@api_boundary
def jvp(fun: Callable, primals, tangents, has_aux: bool = False):
    """Compute the value of a function and its Jacobian-vector product.

    Args:
      fun: function of arrays and pytrees.
      primals: tuple or list of arguments.
      tangents: tuple or list of tangents, each one like its argument; one that is in another memory
        space is moved to that of its argument.
      has_aux: whether `fun` returns a pair (result, auxiliary data).

    Returns:
      (result, tangent), or (result, tangent, aux).

    Raises:
      TypeError: if trees, shapes or dtypes of primals and tangents do not match.

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
    flat, tree = tree_flatten(primals)
    flat_t, tree_t = tree_flatten(tangents)
    if tree != tree_t:
        raise TypeError(
            "primal and tangent arguments to jax.jvp must have the same tree structure; primals have "
            f"tree structure {tree} whereas tangents have tree structure {tree_t}."
        )
    if type(primals) is not tuple:
        _, tree = tree_flatten(tuple(primals))
    moved = [_checked_tangent(p, t) for p, t in zip(flat, flat_t)]
    if has_aux:
        flat_fun, out_tree, get_aux = flatten_fun_aux(fun, tree)
    else:
        flat_fun, out_tree = flatten_fun_nokwargs(fun, tree)

    def finished(out, t):
        # An argument that is returned unchanged has its tangent returned unchanged as well. Others
        # that rules of primitives pass on become arrays, as what they compute is.
        passed_on = [(x, given) for x, given, m in zip(flat, flat_t, moved) if m is t]
        unchanged = [given for x, given in passed_on if x is out]
        if unchanged:
            return unchanged[0]
        return _finish_ct(t) if passed_on or type(t) is Zero else plain_scalar(t)

    with operands(flat):
        outs, outs_t = ad.jvp(flat_fun, flat, moved, instantiate=False)
        tangents = list(map(finished, outs, outs_t))
    answer, tangent = [tree_unflatten(out_tree(), xs) for xs in (outs, tangents)]
    return (answer, tangent, get_aux()) if has_aux else (answer, tangent)


def _checked_tangent(p, t):
    """The tangent `t` of an argument `p` of `jvp`, after its type is checked.

    It is moved to the memory of `p`, and made to vary over the same mesh axes.
    """
    aval, t_aval = typeof(p), typeof(t)
    if aval.is_high or t_aval.is_high:
        if core.typematch(expected := aval.to_tangent_aval(), t_aval):
            return t
        raise TypeError(f"a tangent for jax.jvp of {aval} must have type {expected}, got {t_aval}.")
    expected = core.primal_dtype_to_tangent_dtype(aval.dtype)
    if expected != t_aval.dtype:
        raise TypeError(
            "primal and tangent arguments to jax.jvp do not match; dtypes must be equal, or in case "
            "of int/bool primal dtype the tangent dtype must be float0. Got primal dtype "
            f"{dtypes.dtype_name(aval.dtype)} and so expected tangent dtype {dtypes.dtype_name(expected)}, but got "
            f"tangent dtype {dtypes.dtype_name(t_aval.dtype)} instead."
        )
    if aval.shape != t_aval.shape:
        raise ValueError(
            f"jvp called with different primal and tangent shapes;Got primal shape {aval.shape} and "
            f"tangent shape as {t_aval.shape}"
        )
    return t if t_aval is aval else core.vary_like(in_memory_of(aval, t), p)


@api_boundary
def linearize(fun: Callable, *primals, has_aux: bool = False):
    """Compute the value of a function and its linear approximation at a point.

    Args:
      fun: function of arrays and pytrees.
      *primals: the arguments at which to linearize.
      has_aux: whether `fun` returns a pair (result, auxiliary data).

    Returns:
      (result, f_jvp), or (result, f_jvp, aux): `f_jvp(*tangents)` returns the tangent of the
        result, without evaluating `fun` again.

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
    with operands(flat):
        outs, lin = ad.linearize(flat_fun, flat)
        jaxpr, consts = lin.to_jaxpr(api_util.debug_info("linearize", fun, primals, {}))
    aux = get_aux() if has_aux else None
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
                    f"primal values: got tangent aval {got} for primal aval {aval} but expected "
                    f"{expected}." + manual_type_remedy(got, expected, "t", "the primal value")
                )
        closed = core.ClosedJaxpr(self.jaxpr, consts)
        with operands((flat, consts)):
            outs = core.jaxpr_as_fun(closed)(*flat)
        return tree_unflatten(self.out_tree, [_finish_ct(o, flat) for o in outs])


def linear_transpose(fun: Callable, *primals, reduce_axes=()) -> Callable:
    """Transpose a function that is promised to be linear.

    Args:
      fun: a linear function.
      *primals: arguments, of which only shapes and dtypes are used.
      reduce_axes: must be empty.

    Returns:
      A function from a cotangent like the result to a tuple of cotangents like the arguments.

    >>> f_t = jax.linear_transpose(lambda x, y: 0.5 * x - 0.5 * y, 1., 2.)
    >>> print(*f_t(1.0))
    0.5 -0.5
    """
    _check_reduce_axes("linear_transpose", reduce_axes)
    check_callable(fun)
    flat, in_tree = tree_flatten(primals)
    flat_fun, out_tree = flatten_fun_nokwargs(fun, in_tree)
    in_avals = [api_util.shaped_abstractify(x) for x in flat]
    info = api_util.debug_info("linear_transpose", fun, primals, {})
    jaxpr, out_avals, consts = pe.trace_to_jaxpr_dynamic(flat_fun, in_avals, info)
    all_dtypes = [a.dtype for a in (*in_avals, *out_avals) if not a.is_high]
    if not any(all(dtypes.issubdtype(d, k) for d in all_dtypes) for k in (np.inexact, np.integer)):
        ins, outs = ([a.str_short() for a in avals] for avals in (in_avals, out_avals))
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
            remedies = [manual_type_remedy(g, a, "ct") for g, a in zip(got, out_avals)]
            raise TypeError(
                "cotangent type does not match function output, expected "
                f"{[a.str_short() for a in out_avals]} but got {[a.str_short() for a in got]}."
                + next(filter(None, remedies), "")
            )
        dummies = [ad.UndefinedPrimal(a) for a in in_avals]
        outs = ad.backward_pass(jaxpr, True, consts, dummies, cts)
        return tree_unflatten(in_tree, [_finish_ct(o, cts) for o in outs])

    transposed.__name__ = getattr(fun, "__name__", "fun") + "_transpose"
    return transposed
