"""Constructors of primitives that state every rule of a primitive beside its name.

    tanh_p = unary_primitive(
        "tanh", FLOAT | COMPLEX,
        lower=hlo_op("tanh"),
        jvp=lambda g, y, x: mul(add(g, mul(g, y)), sub(_one(x), y)),
    )

Families share the rules that follow from their structure: elementwise operations broadcast scalars
and dimensions of size 1, and propagate sharding, manual axes and memory space from their operands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core
from jax._src.config import abstract_mesh_context_manager as context_mesh
from jax._src.core.avals import ShapedArray
from jax._src.core.manual_axis_type import ManualAxisType, empty_mat
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lax.checks import (
    ANY as ANY,
    BOOL as BOOL,
    COMPLEX as COMPLEX,
    FLOAT as FLOAT,
    INEXACT as INEXACT,
    INT as INT,
    NUMERIC as NUMERIC,
    SIGNED as SIGNED,
    UNSIGNED as UNSIGNED,
    bilinear_unreduced as bilinear_unreduced,
    broadcasting_shape as broadcasting_shape,
    broadcasting_sharding as broadcasting_sharding,
    check_context_mesh as check_context_mesh,
    check_dtypes as check_dtypes,
    check_no_float0 as check_no_float0,
    check_same_dtypes as check_same_dtypes,
    common_memory_space as common_memory_space,
    common_mesh as common_mesh,
    common_vma as common_vma,
    dtype_name as dtype_name,
    kind_names as kind_names,
    linear_unreduced as linear_unreduced,
    nonlinear_unreduced as nonlinear_unreduced,
)
from jax._src.memory import Space as MemorySpace
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec


class _Kind:
    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name


# How to differentiate a primitive that needs no derivative rule of its own:
ZERO = _Kind("ZERO")  # every tangent is zero, as for integer results and step functions
LINEAR = _Kind("LINEAR")  # linear in all operands together: bind on the tangents
BILINEAR = _Kind("BILINEAR")  # linear in each operand: the product rule


# ---------------------------------------------------------------------------------------------------
# Any primitive on arrays


def standard_primitive(
    name: str,
    *,
    shape: Callable[..., Any],
    dtype: Callable[..., Any],
    weak_type: Callable[..., Any] | None = None,
    sharding: Callable[..., Any] | None = None,
    vma: Callable[..., frozenset] | None = None,
    unreduced: Callable[..., tuple[frozenset, frozenset]] | None = None,
    memory_space: Callable[..., Any] | None = None,
    lower: Any = None,
    multiple_results: bool = False,
    jvp: Any = None,
    transpose: Callable[..., Sequence[Any]] | None = None,
    batch: Callable[..., Any] | None = None,
    axis_batch: Callable[..., Any] | None = None,
    linearize: Callable[..., Any] | None = None,
    pp: Callable[..., Any] | None = None,
) -> core.Primitive:
    """Define a primitive on arrays, with all its rules.

    Args:
      name: name of the primitive, as jaxprs print it.
      shape, dtype: `(*avals, **params)` -> the result's shape and dtype (lists of them with
        `multiple_results`).
      weak_type: `(*avals, **params)` -> a bool (or list); by default the result is weakly typed if
        all operands are.
      sharding: `(*avals, **params)` -> a NamedSharding (or list) or None. It is called only if an
        operand is sharded over explicit mesh axes; without this rule such operands are an error.
      vma: `(*avals, **params)` -> the manual axes over which results vary; by default those of the
        operands, which must agree.
      unreduced: `(pairs, *avals, **params)` -> two frozensets of mesh axes, over which results are
        unreduced and reduced; `pairs` has these two sets for each operand. It is called only if an
        operand has such axes; without this rule such operands are an error.
      memory_space: `(*avals, **params)` -> the results' memory space; by default that of the
        operands.
      lower: a lowering rule, or a dict from platforms (None for all others) to rules.
      jvp: None (not differentiable), ZERO, LINEAR, BILINEAR, a tuple with one rule
        `(tangent, out, *operands, **params)` -> tangent (or None) for each operand, or a full rule
        `(primals, tangents, **params)` -> `(out, tangent_out)`.
      transpose, batch, axis_batch, linearize, pp: rules, see `core.Primitive`.

    Returns:
      The primitive.
    """
    p = core.Primitive(name, multiple_results=multiple_results)
    p.operands_vary_alike = vma is None
    weak_type = weak_type or _all_weak

    def abstract_eval(*avals, **params):
        plain = True
        for a in avals:
            if not isinstance(a, ShapedArray):
                raise _not_an_array(name, a)
            if (
                a._sharding is not None
                or a.manual_axis_type is not empty_mat
                or a.memory_space is not MemorySpace.Device
            ):
                plain = False
        out_shape = shape(*avals, **params)
        out_dtype = dtype(*avals, **params)
        out_weak = weak_type(*avals, **params)
        if plain and sharding_free(params):
            mesh = context_mesh.value
            if mesh is not None and mesh._any_axis_explicit:
                replicated = functools.partial(_replicated, mesh)
            elif not multiple_results:
                return ShapedArray(out_shape, out_dtype, out_weak)
            else:
                replicated = _no_sharding
            if not multiple_results:
                return ShapedArray(out_shape, out_dtype, out_weak, sharding=replicated(out_shape))
            weak = _as_list(out_weak, len(out_shape))
            return [
                ShapedArray(s, d, w, sharding=replicated(s))
                for s, d, w in zip(out_shape, out_dtype, weak)
            ]
        check_context_mesh(name, avals)
        if sharding is None and sharding_free(params) and _all_replicated(avals):
            mesh = next(a._sharding.mesh for a in avals if a._sharding is not None)
            shapes = out_shape if multiple_results else [out_shape]
            sharded = [_replicated(mesh, s) for s in shapes]
            sharded = sharded if multiple_results else sharded[0]
        else:
            sharded = _out_shardings(name, sharding, unreduced, avals, params)
        mat = _out_manual_axes(name, vma, unreduced, avals, params)
        space = (
            memory_space(*avals, **params) if memory_space else common_memory_space(name, *avals)
        )
        if not multiple_results:
            return ShapedArray(
                out_shape,
                out_dtype,
                out_weak,
                sharding=sharded,
                manual_axis_type=mat,
                memory_space=space,
            )
        n = len(out_shape)
        return [
            ShapedArray(s, d, w, sharding=sh, manual_axis_type=mat, memory_space=space)
            for s, d, w, sh in zip(
                out_shape, out_dtype, _as_list(out_weak, n), _as_list(sharded, n)
            )
        ]

    p.def_abstract_eval(abstract_eval)
    _set_rules(p, lower, jvp, transpose, batch, axis_batch, linearize, pp)
    return p


def sharding_free(params: dict[str, Any]) -> bool:
    """Return whether no parameter requests a sharding of the result."""
    return params.get("sharding") is None and params.get("out_sharding") is None


def _set_rules(p, lower, jvp, transpose, batch, axis_batch, linearize, pp) -> None:
    if lower is not None:
        for platform, rule in (lower if isinstance(lower, dict) else {None: lower}).items():
            mlir.register_lowering(p, rule, platform=platform)
    if jvp is not None:
        set_jvp(p, jvp)
    if transpose is not None:
        p.transpose = transpose
    if batch is not None:
        p.batch = batch
    if axis_batch is not None:
        p.axis_batch = axis_batch
    if linearize is not None:
        p.linearize = linearize
    if pp is not None:
        p.pp = pp


def _not_an_array(name: str, aval: Any) -> TypeError | ValueError:
    msg = f"{name} got an operand of type {aval}, but takes arrays only."
    if getattr(aval, "inner_aval", None) is not None:
        return ValueError(msg + " Read the reference first, with `ref[...]`.")
    return TypeError(msg)


def _all_weak(*avals, **_) -> bool:
    for a in avals:
        if not a.weak_type:
            return False
    return bool(avals)


def _as_list(x: Any, n: int) -> Sequence[Any]:
    return x if isinstance(x, (list, tuple)) else [x] * n


def _replicated(mesh, shape) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*[None] * len(shape)))


def _all_replicated(avals) -> bool:
    """Return whether some operands have shardings, all of which are trivial."""
    specs = [a._sharding.spec for a in avals if a._sharding is not None]
    return bool(specs) and all(
        not s.unreduced and not s.reduced and all(e is None for e in s.partitions) for s in specs
    )


def _no_sharding(shape) -> None:
    return None


def _out_shardings(name, sharding, unreduced, avals, params):
    if all(a._sharding is None for a in avals) and sharding_free(params):
        return None
    if sharding is None:
        raise core.ShardingTypeError(
            f"{name} has no rule for operands sharded over explicit mesh axes, got "
            f"{', '.join(a.str_short() for a in avals)}. Run it under `jax.sharding.auto_axes`, or "
            "replicate its operands first with `jax.sharding.reshard`."
        )
    partial = any(a._sharding is not None and any(_partial_axes(a._sharding.spec)) for a in avals)
    if partial and unreduced is None:
        raise NotImplementedError(
            f"{name} does not take operands that are unreduced or reduced over mesh axes, got "
            f"{', '.join(str(a._sharding and a._sharding.spec) for a in avals)}. "
            "Reduce them first with `jax.sharding.reshard`."
        )
    out = sharding(*avals, **params)
    if not partial:
        return out
    pairs = [_partial_axes(a._sharding.spec) if a._sharding is not None else _NONE for a in avals]
    u, r = unreduced(pairs, *avals, **params)
    if isinstance(out, (list, tuple)):
        return [_with_partial_axes(s, u, r) for s in out]
    return _with_partial_axes(out, u, r)


def _with_partial_axes(sharding, unreduced, reduced):
    if sharding is None:
        return None
    # An array that is sharded over a mesh axis is not replicated over it, so drop the axis from
    # `reduced`.
    split = {a for e in sharding.spec.partitions for a in (e if isinstance(e, tuple) else (e,))}
    return sharding.update(spec=sharding.spec.update(unreduced=unreduced, reduced=reduced - split))


_NONE = (frozenset(), frozenset())


def _partial_axes(spec) -> tuple[frozenset, frozenset]:
    return frozenset(spec.unreduced), frozenset(spec.reduced)


def _out_manual_axes(name, vma, unreduced, avals, params) -> ManualAxisType:
    mats = [a.manual_axis_type for a in avals]
    if all(m is empty_mat for m in mats):
        return empty_mat
    varying = vma(*avals, **params) if vma else common_vma(name, *avals)
    u = r = frozenset()
    if any(m.unreduced or m.reduced for m in mats):
        if unreduced is None:
            raise ValueError(
                f"{name} does not take operands that are unreduced or reduced over manual mesh axes, "
                f"got {', '.join(map(str, mats))}. Reduce them first, with `jax.lax.psum`."
            )
        u, r = unreduced([(m.unreduced, m.reduced) for m in mats], *avals, **params)
    return (
        ManualAxisType(varying=varying, unreduced=u, reduced=r) if varying or u or r else empty_mat
    )


# ---------------------------------------------------------------------------------------------------
# Differentiation


def set_jvp(p: core.Primitive, jvp: Any) -> None:
    """Set the jvp rule of `p` to the one that `jvp` describes (see `standard_primitive`)."""
    if jvp is ZERO:
        ad.defjvp_zero(p)
    elif jvp is LINEAR:
        p.jvp = functools.partial(ad.linear_jvp, p)
    elif jvp is BILINEAR:
        p.jvp = ad.operand_jvp(p, (ad.replacing(p, 0), ad.replacing(p, 1)))
    elif isinstance(jvp, tuple):
        p.jvp = ad.operand_jvp(p, jvp)
    else:
        p.jvp = jvp


# ---------------------------------------------------------------------------------------------------
# Elementwise primitives


def unary_primitive(
    name: str,
    accepts: frozenset,
    *,
    lower: Any,
    jvp: Any = None,
    transpose: Callable[..., Sequence[Any]] | None = None,
    out_dtype: Any = None,
    weak_type: Callable[..., bool] | None = None,
    unreduced: Callable[..., tuple[frozenset, frozenset]] | None = None,
    extended: bool = False,
    linearize: Callable[..., Any] | None = None,
    pp: Callable[..., Any] | None = None,
) -> core.Primitive:
    """Define an elementwise primitive with one operand.

    Args:
      name: name of the primitive, as jaxprs print it.
      accepts: accepted kinds of dtypes, for example `FLOAT | COMPLEX`.
      lower: lowering, see `standard_primitive`.
      jvp: `(tangent, out, x, **params)` -> tangent of the result, or as for `standard_primitive`.
      out_dtype: the result's dtype, a function `(dtype, **params)` -> dtype, or None for the
        operand's dtype.
      extended: whether extended dtypes are accepted.

    Returns:
      The primitive.
    """
    return nary_primitive(
        name,
        (accepts,),
        lower=lower,
        jvp=jvp if jvp is None or isinstance(jvp, (_Kind, tuple, FullRule)) else (jvp,),
        transpose=transpose,
        out_dtype=out_dtype,
        weak_type=weak_type,
        unreduced=unreduced,
        extended=extended,
        linearize=linearize,
        pp=pp,
    )


def binary_primitive(name: str, accepts: Any, **rules: Any) -> core.Primitive:
    """Define an elementwise primitive with two operands.

    Args:
      name: name of the primitive, as jaxprs print it.
      accepts: accepted kinds of dtypes, for both operands or one frozenset for each.
      **rules: keyword arguments of `nary_primitive`; `jvp` is a tuple with one rule
        `(tangent, out, x, y, **params)` for each operand.

    Returns:
      The primitive.
    """
    return nary_primitive(
        name, accepts if isinstance(accepts, tuple) else (accepts, accepts), **rules
    )


class FullRule:
    """Marks a full rule `(primals, tangents, **params)` where rules per operand are expected."""

    __slots__ = ("rule",)

    def __init__(self, rule: Callable[..., Any]):
        self.rule = rule


def nary_primitive(
    name: str,
    accepts: tuple[frozenset, ...],
    *,
    lower: Any,
    jvp: Any = None,
    transpose: Callable[..., Sequence[Any]] | None = None,
    out_dtype: Any = None,
    same_dtypes: bool = True,
    weak_type: Callable[..., bool] | None = None,
    unreduced: Callable[..., tuple[frozenset, frozenset]] | None = None,
    extended: bool = False,
    linearize: Callable[..., Any] | None = None,
    pp: Callable[..., Any] | None = None,
) -> core.Primitive:
    """Define an elementwise primitive.

    Operands are scalars or have one common rank; dimensions of size 1 are broadcast.

    Args:
      name: name of the primitive, as jaxprs print it.
      accepts: for each operand, the accepted kinds of dtypes.
      lower: lowering, see `standard_primitive`.
      jvp: derivative, see `standard_primitive`; a full rule must be wrapped in `FullRule`.
      out_dtype: the result's dtype, a function `(*dtypes, **params)` -> dtype, or None for the
        dtype of the first operand.
      same_dtypes: whether operands must have equal dtypes.
      extended: whether extended dtypes are accepted.

    Returns:
      The primitive.
    """
    p = core.Primitive(name)
    p.operands_vary_alike = len(accepts) > 1
    unreduced = _as_other_operands(unreduced or nonlinear_unreduced(name))
    checked: set[Any] = set()  # tuples of dtypes that passed the check
    n = len(accepts)
    is_rule = callable(out_dtype) and not isinstance(out_dtype, type)
    fixed_dtype = None if out_dtype is None or is_rule else np.dtype(out_dtype)
    dtype_of = out_dtype if is_rule else None

    def check(in_dtypes):
        if len(in_dtypes) != n:
            raise TypeError(f"{name} takes {n} operand{'s' * (n > 1)}, got {len(in_dtypes)}.")
        check_dtypes(name, accepts, in_dtypes, same_dtypes, extended)
        checked.add(in_dtypes)

    def abstract_eval(*avals, **params):
        # Fast path: all operands have the same (interned) plain aval.
        x = avals[0]
        for a in avals:
            if a is not x:
                return general(*avals, **params)
        if (
            type(x) is not ShapedArray
            or x._sharding is not None
            or x.manual_axis_type is not empty_mat
            or weak_type is not None
            or (n > 1 and context_mesh.value is not None)
        ):
            return general(*avals, **params)
        in_dtypes = (x.dtype,) * len(avals)
        if in_dtypes not in checked:
            check(in_dtypes)
        if dtype_of is not None:
            return x.update(dtype=dtype_of(*in_dtypes, **params))
        return x if fixed_dtype is None else x.update(dtype=fixed_dtype)

    def general(*avals, **params):
        plain = True
        for a in avals:
            if not isinstance(a, ShapedArray):
                raise _not_an_array(name, a)
            if (
                a._sharding is not None
                or a.manual_axis_type is not empty_mat
                or a.memory_space is not MemorySpace.Device
            ):
                plain = False
        in_dtypes = tuple([a.dtype for a in avals])
        if in_dtypes not in checked:
            check(in_dtypes)
        shape = broadcasting_shape(name, *avals)
        dtype = fixed_dtype
        if dtype is None:
            dtype = in_dtypes[0] if dtype_of is None else dtype_of(*in_dtypes, **params)
        weak = (weak_type or _all_weak)(*avals, **params)
        if plain:
            mesh = context_mesh.value if n > 1 else None
            if mesh is None or not mesh._any_axis_explicit:
                return ShapedArray(shape, dtype, weak)
            return ShapedArray(shape, dtype, weak, sharding=_replicated(mesh, shape))
        check_context_mesh(name, avals)
        return ShapedArray(
            shape,
            dtype,
            weak,
            sharding=_out_shardings(name, _sharding, unreduced, avals, params),
            manual_axis_type=_out_manual_axes(name, None, unreduced, avals, params),
            memory_space=common_memory_space(name, *avals),
        )

    def _sharding(*avals, **params):
        return broadcasting_sharding(name, *avals)

    p.def_abstract_eval(abstract_eval)
    full = jvp.rule if isinstance(jvp, FullRule) else jvp
    _set_rules(p, lower, full, transpose, None, None, linearize, pp)
    if n == 1:
        batching.defvectorized(p)
    else:
        p.batch = _broadcasting_batch(p)
    return p


def _as_other_operands(rule):
    """Wrap an unreduced rule so that scalars have the reduced axes of the array operands."""

    def with_scalars(pairs, *avals, **params):
        if not any(u for u, _ in pairs):
            reduced = next((p for p in pairs if any(p)), None)
            if reduced is not None:
                pairs = [p if a.shape or any(p) else reduced for p, a in zip(pairs, avals)]
        return rule(pairs, *avals, **params)

    return with_scalars


def _broadcasting_batch(p):
    """Return a batching rule that aligns the batch dimensions; the primitive broadcasts size 1."""

    def batch(args, dims, **params):
        ranks = [core.typeof(x).ndim - (d is not None) for x, d in zip(args, dims)]
        rank = max(ranks)
        at = next((d for d, r in zip(dims, ranks) if d is not None and r == rank), 0)
        for d, r in zip(dims, ranks):
            if (r != 0) if d is None else (d != at or r != rank):
                args = [_with_batch_dim(x, d, at, rank + 1) for x, d in zip(args, dims)]
                break
        return p.bind(*args, **params), at

    return batch


def _with_batch_dim(x, bdim, d, ndim):
    shape = core.typeof(x).shape
    if bdim is None:
        if not shape:
            return x
        return late.broadcast_in_dim(
            x, (*shape[:d], 1, *shape[d:]), tuple(i for i in range(ndim) if i != d)
        )
    if len(shape) == ndim:
        return batching.moveaxis(x, bdim, d)
    full = [1] * ndim  # a batch of scalars
    full[d] = shape[0]
    return late.broadcast_in_dim(x, tuple(full), (d,))


# ---------------------------------------------------------------------------------------------------
# Lowering


class hlo_op:
    """A lowering rule that emits one op; the dialect is imported on first use.

    Operands are first broadcast to the result's shape, because ops do not broadcast implicitly.

    Args:
      name: name of the op's builder in the dialect.
      dialect: `"hlo"` (StableHLO) or `"chlo"`.
      attrs: None, or `(ctx, **params)` -> dict of keyword arguments for the builder.
    """

    __slots__ = ("name", "dialect", "attrs", "full_name", "_op")

    def __init__(self, name: str, dialect: str = "hlo", attrs: Callable[..., dict] | None = None):
        self.name = name
        self.dialect = dialect
        self.attrs = attrs
        self.full_name = f"{'stablehlo' if dialect == 'hlo' else dialect}.{name.rstrip('_')}"
        self._op = None

    @property
    def op(self) -> Callable[..., Any]:
        op = self._op
        if op is None:
            op = self._op = getattr(getattr(mlir, self.dialect), self.name)
        return op

    def __call__(self, ctx, *args, **params):
        (aval_out,) = ctx.avals_out
        args = broadcast_operands(ctx, args, aval_out)
        kwargs = self.attrs(ctx, **params) if self.attrs else None
        out = self.op(*args, **kwargs) if kwargs else mlir.emit(self.full_name, args)
        return [with_sharding(ctx, out, aval_out)]

    def __repr__(self) -> str:
        return f"hlo_op({self.name!r}, {self.dialect!r})"


def broadcast_operands(ctx, args: Sequence[Any], aval_out: ShapedArray) -> Sequence[Any]:
    """Broadcast the operands of an elementwise op to the result's shape and sharding."""
    shape = aval_out.shape
    for a in ctx.avals_in:
        if a.shape != shape:
            return mlir.multi_broadcast_in_dim(
                ctx, args, ctx.avals_in, shape, aval_out._sharding and aval_out.sharding
            )
    return args


def with_sharding(ctx, op: Any, aval_out: ShapedArray) -> Any:
    """Annotate `op` with the explicit sharding of its result, if there is one."""
    if aval_out._sharding is None:
        return op
    return mlir.lower_with_sharding_in_types(ctx, op, aval_out)
