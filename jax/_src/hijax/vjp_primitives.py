"""Primitives on pytrees whose derivatives are given by methods of a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jax._src import api_util, core
from jax._src.ad_util import Zero, is_zero
from jax._src.core import Primitive, mapped_aval, typeof
from jax._src.core.effects import no_effects
from jax._src.hijax.accumulators import NullAccum, ValAccum
from jax._src.hijax.primitives import HiPrimitive
from jax._src.interpreters import ad
from jax._src.interpreters.splitting import SplitRules, keep_or_drop
from jax._src.transforms.vmap import vmap
from jax._src.tree_util import tree_flatten, tree_map, tree_unflatten


class VJPHiPrimitive:
    """The base class of operations on pytrees with derivatives of their own.

    An instance is an operation on arguments of given types; it is called on them. The method
    `__init__` of a subclass sets

    - `in_avals`: a tuple of the types of the arguments, each a pytree of types;
    - `out_aval`: the type of the result, a pytree of types;
    - `params`: a dict of hashable parameters, which become attributes;

    and then calls `super().__init__()`. Methods of a subclass:

    - `expand(*args)` computes the result by other operations.
    - `vjp_fwd(nzs_in, *args)` returns the result and residuals; `nzs_in` says which leaves of the
      arguments are differentiated. `vjp_bwd_retval(res, outgrad)` returns a tuple with the cotangent
      of each argument, or `vjp_bwd(res, outgrad, *arg_accums)` adds them, by the method `accum`,
      to one accumulator for each leaf of an argument. A zero cotangent is a `Zero`.
    - `jvp(primals, tangents)` returns the result and its tangent, for forward mode.
    - `lin(nzs_in, *primals)` returns the result and residuals, and `linearized(residuals, *tangents)`
      the tangent of the result, for `jax.linearize`; and for reverse mode if there is no `vjp_fwd`.
    - `transpose(out_ct, *maybe_accums)` makes an operation that is linear transposable: arguments
      that it is linear in are given as accumulators, the others as they are.
    - `dce(used_outs)` makes a smaller operation where some leaves of the result are not used. It
      returns which arguments that one takes, which results it has, and itself (None if nothing is
      left to do). Where one value stands for a part of a tree, it is that of all its leaves.
    - `remat(policy, *args)` decides what `jax.checkpoint` keeps, also against its policy: it returns
      the result, and a function of `args` that computes it again for the backward pass. What that
      function captures is kept.
    - `batch_dim_rule(axis_data, dims)` returns the batch dimensions of the result for those of the
      arguments, or `batch(axis_data, args, dims)` returns the result and its dimensions, for `vmap`.

    >>> from jax.experimental.hijax import VJPHiPrimitive
    >>> class Square(VJPHiPrimitive):
    ...   def __init__(self, aval):
    ...     self.in_avals, self.out_aval, self.params = (aval,), aval, {}
    ...     super().__init__()
    ...   def expand(self, x): return x * x
    ...   def vjp_fwd(self, nzs_in, x): return self(x), x
    ...   def vjp_bwd_retval(self, x, g): return (2 * x * g,)
    >>> square = lambda x: Square(jax.typeof(x))(x)
    >>> print(square(3.), jax.grad(square)(3.))
    9.0 6.0
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Any]
    effects: Any = no_effects

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(
                    f"subclass __init__ should set `self.{name}`: {type(self).__name__} does not"
                )
        self.in_avals_flat, self.in_tree = tree_flatten(self.in_avals)
        self.out_avals_flat, self.out_tree = tree_flatten(self.out_aval)
        self.__dict__.update(self.params)

    def __call__(self, *args: Any) -> Any:
        """Apply the operation."""
        flat, tree = tree_flatten(args)
        if tree != self.in_tree:
            raise TypeError(
                f"{self} takes arguments of the structure {self.in_tree}, but got {tree}."
            )
        types = [typeof(x) for x in flat]
        for want, got in zip(self.in_avals_flat, types):
            if not core.typecompat(want, got):
                raise TypeError(f"{self} takes arguments of types {self.in_avals}, but got {got}.")
        self.check(*tree_unflatten(tree, types))
        return tree_unflatten(self.out_tree, call_hi_primitive_p.bind(*flat, _prim=self))

    def _key(self) -> Any:
        types = (tuple(self.in_avals_flat), self.in_tree, tuple(self.out_avals_flat), self.out_tree)
        return (type(self), types, tuple(sorted(self.params.items())))

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    # Methods of subclasses

    def _missing(self, what: str, methods: str) -> NoReturn:
        raise NotImplementedError(f"for {what}, subclass {type(self)} must implement {methods}")

    def check(self, *arg_tys: Any) -> None:
        """Raise an error if the operation cannot be applied to arguments of these types."""

    def expand(self, *args: Any) -> Any:
        """The result, computed by other operations."""
        raise NotImplementedError(f"subclass {type(self)} must implement `expand`")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """The result, and residuals for the backward pass."""
        self._missing("grad support", "`vjp_fwd`")

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Add the cotangents of the arguments to accumulators."""
        cts = self.vjp_bwd_retval(res, outgrad)
        try:
            flat = self.in_tree.flatten_up_to(tuple(cts))
            for ct in flat:
                if ct is not None and not is_zero(ct):
                    typeof(ct)  # raises an error for a container
        except (TypeError, ValueError) as err:
            raise TypeError(
                f"{self}: `vjp_bwd_retval` must return a tuple with a cotangent for each argument, of"
                f" the structure {self.in_tree}, but returned {tree_flatten(cts)[1]}."
            ) from err
        for accum, ct in zip(tree_flatten(arg_accums)[0], flat):
            accum.accum(ct)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """A tuple of the cotangents of the arguments."""
        self._missing("grad support", "`vjp_bwd` or `vjp_bwd_retval`")

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """The result and its tangent."""
        self._missing("jvp support", "`jvp`")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """The result, and residuals for `linearized`."""
        self._missing("linearize support", "`lin` and `linearized`")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """The tangent of the result."""
        self._missing("linearize support", "`lin` and `linearized`")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        """Add the cotangents of arguments that the operation is linear in to accumulators."""
        self._missing("transpose support", "`transpose`")

    def dce(self, used_outs: Any) -> tuple[Any, Any, VJPHiPrimitive | None]:
        """Which arguments and results remain if some results are not used, and the operation on them."""
        if self.effects or any(tree_flatten(used_outs)[0]):
            return True, True, self
        return False, False, None

    def remat(self, _policy: Any, *args: Any) -> tuple[Any, Callable[..., Any]]:
        """The result, and a function that computes it again."""
        return self(*args), self

    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        """The result for a batch of arguments, and its batch dimensions."""
        out_dim = self.batch_dim_rule(axis_data, dims)
        return VmapOf(self, axis_data, dims, out_dim)(*args), out_dim

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        """The batch dimensions of the result, given those of the arguments."""
        self._missing("vmap support", "`batch` or `batch_dim_rule`")

    def staging(self, trace: Any, source_info: Any, *args: Any) -> Any:
        """Record the operation on flat arguments in a trace; returns the flat results."""
        atoms = [trace.to_atom(x) for x in args]
        params = dict(_prim=self)
        return trace.add_eqn(
            call_hi_primitive_p, atoms, self.out_avals_flat, params, frozenset(self.effects)
        )

    def defines(self, method: str) -> bool:
        """Whether the class overrides a method."""
        return getattr(type(self), method) is not getattr(VJPHiPrimitive, method)


class _CallHiPrimitive(HiPrimitive):
    """Applies a `VJPHiPrimitive`, the parameter `_prim`, to flat arguments."""

    multiple_results = True

    def abstract_eval(self, *avals: Any, _prim: VJPHiPrimitive) -> Any:
        return _prim.out_avals_flat, _prim.effects

    def _stage(self, trace: Any, source_info: Any, *args: Any, **params: Any) -> Any:
        if trace.requires_low:
            return NotImplemented
        return params["_prim"].staging(trace, source_info, *args)

    def to_lojax(self, *args: Any, _prim: VJPHiPrimitive) -> Any:
        out = _prim.expand(*tree_unflatten(_prim.in_tree, args))
        return _flat_result(_prim, "expand", out)

    def jvp(self, primals: Any, tangents: Any, *, _prim: VJPHiPrimitive) -> Any:
        out, out_t = _prim.jvp(
            tree_unflatten(_prim.in_tree, primals), tree_unflatten(_prim.in_tree, tangents)
        )
        return _flat_result(_prim, "jvp", out), _flat_tangents(_prim, "jvp", out_t)

    def transpose(self, cts: Any, *args: Any, _prim: VJPHiPrimitive) -> Any:
        maybe = [ValAccum(x.aval.to_ct_aval()) if ad.is_undefined_primal(x) else x for x in args]
        _prim.transpose(tree_unflatten(_prim.out_tree, cts), *tree_unflatten(_prim.in_tree, maybe))
        return [x.freeze() if type(x) is ValAccum else None for x in maybe]


def _flat_result(prim: VJPHiPrimitive, method: str, out: Any) -> list[Any]:
    flat, tree = tree_flatten(out)
    if tree != prim.out_tree:
        raise TypeError(
            f"{prim}: `{method}` must return a result of the structure of `out_aval`,"
            f" {prim.out_tree}, but it returned {tree}."
        )
    return flat


def _flat_tangents(prim: VJPHiPrimitive, method: str, out_t: Any) -> list[Any]:
    flat, tree = tree_flatten(out_t, is_leaf=is_zero)
    if tree != prim.out_tree:
        raise TypeError(
            f"{prim}: `{method}` must return a tangent of the structure of `out_aval`,"
            f" {prim.out_tree}, but it returned {tree}."
        )
    return flat


call_hi_primitive_p = _CallHiPrimitive("call_hi_primitive")


class _HiSplitRules(SplitRules):
    def dce(self, used_outputs: Sequence[bool], eqn: Any) -> tuple[list[bool], Any]:
        prim: VJPHiPrimitive = eqn.params["_prim"]
        if not prim.defines("dce"):
            return keep_or_drop(used_outputs, eqn)
        found = prim.dce(tree_unflatten(prim.out_tree, used_outputs))
        if not isinstance(found, (tuple, list)) or len(found) != 3:
            raise TypeError(
                f"{prim}: `dce` must return a triple (used arguments, results, primitive), got {found!r}."
            )
        ins, outs, smaller = found
        if smaller is None:
            if any(used_outputs):
                raise ValueError(f"{prim}: `dce` returned no primitive, but results are used.")
            return [False] * len(eqn.invars), None
        used_ins = list(api_util.flatten_axes("used arguments of dce", prim.in_tree, ins))
        kept_outs = list(api_util.flatten_axes("results of dce", prim.out_tree, outs))
        invars = [v for v, used in zip(eqn.invars, used_ins) if used]
        outvars = [v for v, kept in zip(eqn.outvars, kept_outs) if kept]
        types = [v.aval for v in invars], [v.aval for v in outvars]
        if types != (list(smaller.in_avals_flat), list(smaller.out_avals_flat)) or any(
            used and not kept for used, kept in zip(used_outputs, kept_outs)
        ):
            raise TypeError(
                f"{prim}: `dce` must return a primitive from the used arguments to the used results, of"
                f" the types {types}, but {smaller} is of the types"
                f" {(smaller.in_avals_flat, smaller.out_avals_flat)}."
            )
        params, effects = dict(eqn.params, _prim=smaller), frozenset(smaller.effects)
        kept = eqn.replace(invars=invars, outvars=outvars, params=params, effects=effects)
        return used_ins, kept


call_hi_primitive_p.split = _HiSplitRules()


def _remat(policy: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    prim: VJPHiPrimitive = params["_prim"]
    if not prim.defines("remat"):
        return None
    found = prim.remat(policy, *tree_unflatten(prim.in_tree, args))
    if not isinstance(found, (tuple, list)) or len(found) != 2 or not callable(found[1]):
        raise TypeError(f"{prim}: `remat` must return a pair (result, function), got {found!r}.")
    out, again = found

    def flat_again(*args: Any) -> list[Any]:
        return _flat_result(prim, "remat", again(*tree_unflatten(prim.in_tree, args)))

    return _flat_result(prim, "remat", out), flat_again


call_hi_primitive_p.remat = _remat


def _linearize(primals: Sequence[Any], tangents: Sequence[Any], *, _prim: VJPHiPrimitive) -> Any:
    nonzero = tuple([not is_zero(t) for t in tangents])
    nzs = tree_unflatten(_prim.in_tree, nonzero)
    args = tree_unflatten(_prim.in_tree, primals)
    if _prim.defines("vjp_fwd"):
        out, residuals = _result_and_residuals(_prim, "vjp_fwd", _prim.vjp_fwd(nzs, *args))
        res, res_tree = tree_flatten(residuals)
        kept = list(primals) if _prim.defines("lin") else []
        tangents_out = call_hi_primitive_linearized_p.bind(
            *res, *kept, *[t for t in tangents if not is_zero(t)],
            _prim=_prim, res_tree=res_tree, nonzero=nonzero,
            zero_avals=tuple([t.aval if is_zero(t) else None for t in tangents]),
        )  # fmt: skip
        return _flat_result(_prim, "vjp_fwd", out), tangents_out
    if _prim.defines("lin"):
        out, residuals = _result_and_residuals(_prim, "lin", _prim.lin(nzs, *args))
        out_t = _prim.linearized(residuals, *tree_unflatten(_prim.in_tree, tangents))
        return _flat_result(_prim, "lin", out), _flat_tangents(_prim, "linearized", out_t)
    if _prim.defines("jvp"):
        return call_hi_primitive_p.jvp(primals, tangents, _prim=_prim)
    _prim._missing("grad support", "`vjp_fwd`, `lin` or `jvp`")


def _result_and_residuals(prim: VJPHiPrimitive, method: str, pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"{prim}: `{method}` must return a pair (result, residuals), got {pair!r}.")
    return pair[0], pair[1]


call_hi_primitive_p.linearize = _linearize


def _batch(axis_data: Any, args: Any, dims: Any, *, _prim: VJPHiPrimitive) -> Any:
    out, out_dims = _prim.batch(
        axis_data, tree_unflatten(_prim.in_tree, args), tree_unflatten(_prim.in_tree, dims)
    )
    return (
        _flat_result(_prim, "batch", out),
        list(api_util.flatten_axes("batch dimensions", _prim.out_tree, out_dims)),
    )


call_hi_primitive_p.axis_batch = _batch


# The linear part, which is transposed by `vjp_bwd`

call_hi_primitive_linearized_p = Primitive("call_hi_primitive_linearized", multiple_results=True)


def _linearized_types(*avals: Any, _prim: VJPHiPrimitive, **_: Any) -> Any:
    return [a.to_tangent_aval() for a in _prim.out_avals_flat]


call_hi_primitive_linearized_p.def_abstract_eval(_linearized_types)


def _apply_linearized(
    *args: Any, _prim: VJPHiPrimitive, res_tree: Any, nonzero: Any, zero_avals: Any
) -> Any:
    if not _prim.defines("lin"):
        _prim._missing("linearize support", "`lin` and `linearized`")
    n, m = res_tree.num_leaves, len(nonzero)
    primals = tree_unflatten(_prim.in_tree, args[n : n + m])
    rest = iter(args[n + m :])
    tangents = [next(rest) if a is None else Zero(a) for a in zero_avals]
    _, residuals = _prim.lin(tree_unflatten(_prim.in_tree, nonzero), *primals)
    out_t = _prim.linearized(residuals, *tree_unflatten(_prim.in_tree, tangents))
    flat = _flat_tangents(_prim, "linearized", out_t)
    return [ad.instantiate_zeros(t) for t in flat]


call_hi_primitive_linearized_p.def_impl(_apply_linearized)
call_hi_primitive_linearized_p.is_high = lambda *_, **__: True  # type: ignore[method-assign]
call_hi_primitive_linearized_p.to_lojax = _apply_linearized  # type: ignore[method-assign]


def _transpose_linearized(
    cts: Sequence[Any], *args: Any, _prim: VJPHiPrimitive, res_tree: Any, nonzero: Any,
    zero_avals: Any,
) -> Any:  # fmt: skip
    residuals = tree_unflatten(res_tree, args[: res_tree.num_leaves])
    outgrad = tree_unflatten(_prim.out_tree, cts)
    found = cotangents(_prim, residuals, outgrad, nonzero)
    linear = [ct for ct, nz in zip(found, nonzero) if nz]
    return [*[None] * (len(args) - len(linear)), *linear]


call_hi_primitive_linearized_p.transpose = _transpose_linearized


def cotangents(prim: VJPHiPrimitive, residuals: Any, outgrad: Any, nonzero: Any) -> list[Any]:
    """The cotangents of the flat arguments; `Zero` of those that are not differentiated."""
    accums = [
        (ValAccum if nz else NullAccum)(a.to_ct_aval())
        for a, nz in zip(prim.in_avals_flat, nonzero)
    ]
    prim.vjp_bwd(residuals, outgrad, *tree_unflatten(prim.in_tree, accums))
    return [accum.freeze() for accum in accums]


# Batches


class VmapOf(VJPHiPrimitive):
    """An operation applied to each element of a batch.

    Args:
      prim: the operation.
      axis_data: the mapped axis.
      in_dims: a tuple with the batch dimensions of the arguments, each a pytree.
      out_dim: the batch dimensions of the result, a pytree.
    """

    prim: VJPHiPrimitive
    axis_data: Any
    in_dims: Any
    out_dim: Any

    def __init__(self, prim: VJPHiPrimitive, axis_data: Any, in_dims: Any, out_dim: Any) -> None:
        size, mesh_axis = axis_data.size, axis_data.explicit_mesh_axis
        self._in_dims = api_util.flatten_axes("in_dims", prim.in_tree, in_dims)
        self._out_dims = api_util.flatten_axes("out_dim", prim.out_tree, out_dim)
        unmap = lambda a, d: a if d is None else core.unmapped_aval(size, d, a, mesh_axis)
        in_avals = [unmap(a, d) for a, d in zip(prim.in_avals_flat, self._in_dims)]
        out_avals = [unmap(a, d) for a, d in zip(prim.out_avals_flat, self._out_dims)]
        self.in_avals = tree_unflatten(prim.in_tree, in_avals)
        self.out_aval = tree_unflatten(prim.out_tree, out_avals)
        self.effects = prim.effects
        self.params = dict(prim=prim, axis_data=axis_data, in_dims=in_dims, out_dim=out_dim)
        super().__init__()

    def _key(self) -> Any:
        dims = (tuple(self._in_dims), tuple(self._out_dims))
        return (VmapOf, self.prim, self.axis_data, dims)

    def _mapped(self, fun: Any, in_axes: Any, out_axes: Any) -> Any:
        axis = self.axis_data
        name = None if axis.name is core.no_axis_name else axis.name
        return vmap(
            fun, in_axes, out_axes, axis_name=name, axis_size=axis.size,
            spmd_axis_name=axis.spmd_name, sum_match=True,
        )  # fmt: skip

    def _slice_zeros(self, tree: Any, dims: Sequence[Any], structure: Any) -> tuple[list, Any]:
        """The leaves that are not `Zero`, and a function that puts zeros of elements back."""
        flat = structure.flatten_up_to(tree)
        size = self.axis_data.size
        zeros = [
            Zero(mapped_aval(size, d, x.aval)) if is_zero(x) else None for x, d in zip(flat, dims)
        ]

        def rebuild(leaves: Sequence[Any]) -> Any:
            it = iter(leaves)
            return tree_unflatten(structure, [next(it) if z is None else z for z in zeros])

        return [(x, d) for x, d in zip(flat, dims) if not is_zero(x)], rebuild

    def expand(self, *args: Any) -> Any:
        return self._mapped(self.prim.expand, self.in_dims, self.out_dim)(*args)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        kept, rebuild = self._slice_zeros(tuple(tangents), self._in_dims, self.in_tree)

        def run(primals: Any, leaves: Any) -> Any:
            out, out_t = self.prim.jvp(tuple(primals), rebuild(leaves))
            return out, tree_map(ad.instantiate_zeros, out_t, is_leaf=is_zero)

        dims = [d for _, d in kept]
        mapped = self._mapped(run, (tuple(self.in_dims), dims), (self.out_dim, self.out_dim))
        return mapped(tuple(primals), [x for x, _ in kept])

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        run = lambda *args: self.prim.vjp_fwd(nzs_in, *args)
        return self._mapped(run, self.in_dims, (self.out_dim, 0))(*args)

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        accums = tree_flatten(arg_accums)[0]
        nonzero = [type(a) is not NullAccum for a in accums]
        kept, rebuild = self._slice_zeros(outgrad, self._out_dims, self.out_tree)

        def run(res: Any, leaves: Any) -> Any:
            found = cotangents(self.prim, res, rebuild(leaves), nonzero)
            return [ad.instantiate_zeros(ct) for ct, nz in zip(found, nonzero) if nz]

        out_dims = [d for d, nz in zip(self._in_dims, nonzero) if nz]
        cts = self._mapped(run, (0, [d for _, d in kept]), out_dims)(res, [x for x, _ in kept])
        for accum, ct in zip([a for a, nz in zip(accums, nonzero) if nz], cts):
            accum.accum(ct)

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        outer = api_util.flatten_axes("dims", self.in_tree, dims)
        inner = [d if d is None or o is None else d - (o < d) for d, o in zip(outer, self._in_dims)]
        out = self.prim.batch_dim_rule(axis_data, tree_unflatten(self.in_tree, inner))
        flat = api_util.flatten_axes("batch dimensions", self.out_tree, out)
        moved = [
            d if d is None or o is None else d + (o <= d) for d, o in zip(flat, self._out_dims)
        ]
        return tree_unflatten(self.out_tree, moved)
