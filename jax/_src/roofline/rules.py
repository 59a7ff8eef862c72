"""What each primitive costs, for `jax.experimental.roofline`.

A user's rule is stored on its primitive. The rules here are shared: a handful serve all primitives,
and the table of their names neither imports the modules of the primitives, nor do these import this.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core
from jax._src.roofline.results import (
    RooflineResult,
    RooflineRule,
    RooflineRuleContext,
    RooflineShape,
)

Context = RooflineRuleContext
Shape = RooflineShape


def register_roofline(prim: core.Primitive) -> Callable[[RooflineRule], RooflineRule]:
    """A decorator that makes a function the rule of a primitive.

    The rule is called with a `RooflineRuleContext`, a `RooflineShape` for each operand, and the
    parameters by keyword, and returns a `RooflineResult`.

    Args:
      prim: the primitive.

    >>> from jax.experimental import roofline
    >>> @roofline.register_roofline(jax.lax.tan_p)
    ... def tan_costs(ctx, x, **params):
    ...   return roofline.RooflineResult(unfused_flops=10 * x.size)
    >>> roofline.roofline(jnp.tan)(jnp.ones(3))[1].unfused_flops
    30
    """

    def register(rule: RooflineRule) -> RooflineRule:
        prim.roofline = rule
        return rule

    return register


def register_standard_roofline(prim: core.Primitive) -> None:
    """Makes a primitive one that costs nothing, as those do that only move data.

    Args:
      prim: the primitive.
    """
    prim.roofline = _nothing


def rule_of(primitive: core.Primitive) -> RooflineRule | None:
    """The rule of a primitive, or None."""
    return primitive.roofline or _RULES.get(primitive.name)


def _nothing(ctx: Context, *args: Any, **params: Any) -> RooflineResult:
    return RooflineResult.zeros()


def _bytes(avals: Sequence[Any]) -> int:
    return Shape.total_bytes([a for a in avals if isinstance(a, core.ShapedArray)])


def _all_bytes(ctx: Context) -> int:
    """What is read and written if the equation runs alone."""
    return _bytes(ctx.avals_in) + _bytes(ctx.avals_out)


def _out_size(ctx: Context) -> int:
    return Shape.from_aval(ctx.avals_out[0]).size


# Elementwise operations, reductions and scans


def _elementwise(ctx: Context, *args: Any, **params: Any) -> RooflineResult:
    return RooflineResult(unfused_flops=_out_size(ctx), unfused_hbm_bytes=_all_bytes(ctx))


def _select(ctx: Context, which: Shape, *cases: Shape, **params: Any) -> RooflineResult:
    # Of each element, only the case that is chosen is read.
    return RooflineResult(
        unfused_flops=_out_size(ctx), unfused_hbm_bytes=which.bytes + _bytes(ctx.avals_out)
    )


def _reduce_sum(ctx: Context, x: Shape, **params: Any) -> RooflineResult:
    return RooflineResult(unfused_flops=x.size - _out_size(ctx), unfused_hbm_bytes=_all_bytes(ctx))


def _cumulative(flops: int) -> RooflineRule:
    def rule(ctx: Context, x: Shape, *, axis: int, **params: Any) -> RooflineResult:
        return RooflineResult(
            unfused_flops=flops * x.shape[axis], unfused_hbm_bytes=_all_bytes(ctx)
        )

    return rule


# Contractions


def _dot_general(
    ctx: Context, lhs: Shape, rhs: Shape, *, dimension_numbers: Any, **params: Any
) -> RooflineResult:
    (lhs_contract, _), _ = dimension_numbers
    flops = 2 * _out_size(ctx) * math.prod([lhs.shape[i] for i in lhs_contract])
    # The results are where the left operands are.
    nbytes = 0 if ctx.pin_lhs_in_vmem else lhs.bytes + _bytes(ctx.avals_out)
    nbytes += 0 if ctx.pin_rhs_in_vmem else rhs.bytes
    return RooflineResult(
        flops=flops, unfused_flops=flops, hbm_bytes=nbytes, unfused_hbm_bytes=nbytes
    )


def _convolution(
    ctx: Context, lhs: Shape, rhs: Shape, *, dimension_numbers: Any, window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]], lhs_dilation: Sequence[int], rhs_dilation: Sequence[int],
    batch_group_count: int, **params: Any,
) -> RooflineResult:  # fmt: skip
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    out = Shape.from_aval(ctx.avals_out[0])
    products = lhs.shape[lhs_spec[0]] // batch_group_count
    products *= rhs.shape[rhs_spec[0]] * rhs.shape[rhs_spec[1]]
    for i, (low, _) in enumerate(padding):
        products *= _valid_positions(
            lhs.shape[lhs_spec[2 + i]], rhs.shape[rhs_spec[2 + i]], out.shape[out_spec[2 + i]], low,
            window_strides[i], lhs_dilation[i], rhs_dilation[i],
        )  # fmt: skip
    return RooflineResult(unfused_flops=2 * products, unfused_hbm_bytes=_all_bytes(ctx))


def _valid_positions(
    n: int, window: int, out: int, low: int, stride: int, dilation: int, window_dilation: int
) -> int:
    """How many pairs of an output and a window position have an element, not padding, of the input."""
    i = np.arange(out)[:, None] * stride + np.arange(window) * window_dilation - low
    return int(((i >= 0) & (i % dilation == 0) & (i // dilation < n)).sum())


# Gathers and scatters


def _gather(
    ctx: Context, x: Shape, indices: Shape, *, mode: Any, **params: Any
) -> RooflineResult:  # fmt: skip
    out = Shape.from_aval(ctx.avals_out[0])
    # In this mode, indices are compared with both bounds, and results are selected.
    flops = 4 * indices.size + out.size if getattr(mode, "name", "") == "FILL_OR_DROP" else 0
    return RooflineResult(unfused_flops=flops, unfused_hbm_bytes=indices.bytes + 2 * out.bytes)


def _scatter(
    ctx: Context,
    x: Shape,
    indices: Shape,
    updates: Shape,
    *,
    update_jaxpr: Any = None,
    **params: Any,
) -> RooflineResult:
    operations = 0 if update_jaxpr is None else len(update_jaxpr.eqns)
    return RooflineResult(
        unfused_flops=operations * updates.size,
        unfused_hbm_bytes=indices.bytes + 3 * updates.bytes,
    )


# Collectives, along rings or in a torus


def _axes(axes: Any) -> tuple[Any, ...]:
    return tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)


def _sizes(ctx: Context, axes: Sequence[Any], groups: Any = None) -> list[int]:
    """The sizes of mesh axes; they stand for the links between devices."""
    if groups is not None:
        raise NotImplementedError(
            f"roofline: {ctx.primitive} with axis_index_groups, which are no axes of the mesh."
        )
    if ctx.mesh is None:
        raise ValueError(
            f"roofline: {ctx.primitive} over the axes {tuple(axes)} needs a mesh: give roofline"
            " `mesh`, or call jax.shard_map in the function."
        )
    return [ctx.mesh.shape[axis] for axis in axes]


def _on_axes(axes: Sequence[Any], nbytes: float, hops: int) -> RooflineResult:
    return RooflineResult(
        ici_bytes={axis: int(nbytes) for axis in axes}, ici_latency={axis: hops for axis in axes}
    )


def _ring(ctx: Context, axes: Sequence[Any], nbytes: int, groups: Any = None) -> RooflineResult:
    """Each device sends all parts but its own, of `nbytes` together, around a ring along each axis."""
    sizes = _sizes(ctx, axes, groups)
    n = math.prod(sizes)
    if n == 1:
        return _on_axes(axes, 0, 0)
    return _on_axes(axes, nbytes * (n - 1) / n / len(axes), max(sizes) * len(axes))


def _psum(
    ctx: Context, *args: Shape, axes: Any, axis_index_groups: Any = None, **params: Any
) -> RooflineResult:
    total = RooflineResult.zeros()
    for x in args:  # a reduce_scatter and an all_gather
        ring = _ring(ctx, _axes(axes), x.bytes, axis_index_groups)
        total += ring + ring
    return total


def _scalar_reduction(
    ctx: Context, *args: Shape, axes: Any, axis_index_groups: Any = None, **params: Any
) -> RooflineResult:
    total = RooflineResult.zeros()
    for x in args:
        n = math.prod(_sizes(ctx, _axes(axes), axis_index_groups))
        total += _ring(ctx, _axes(axes), x.dtype.itemsize * n)
    return total


def _all_gather(
    ctx: Context, *args: Shape, axis_name: Any, axis_index_groups: Any = None, **params: Any
) -> RooflineResult:
    return _ring(ctx, _axes(axis_name), _bytes(ctx.avals_out), axis_index_groups)


def _reduce_scatter(
    ctx: Context, *args: Shape, axis_name: Any, axis_index_groups: Any = None, **params: Any
) -> RooflineResult:
    return _ring(ctx, _axes(axis_name), _bytes(ctx.avals_in), axis_index_groups)


def _all_to_all(
    ctx: Context, x: Shape, *, axis_name: Any, axis_index_groups: Any = None, **params: Any
) -> RooflineResult:
    axes = _axes(axis_name)
    sizes = _sizes(ctx, axes, axis_index_groups)
    n = math.prod(sizes)
    if n == 1:
        return _on_axes(axes, 0, 0)
    # Half of the data crosses the narrowest cut of the torus, in each direction.
    links = n // max(sizes) * (2 if min(sizes) > 2 else 1)
    return _on_axes(axes, x.bytes * n / 2 / links, sum(sizes) // 2)


def _ppermute(
    ctx: Context, *args: Shape, axis_name: Any, perm: Sequence[tuple[int, int]], **params: Any
) -> RooflineResult:
    axes = _axes(axis_name)
    sizes = _sizes(ctx, axes)
    used: dict[Any, int] = {}  # how often each link is
    hops = 0
    for source, target in perm:
        path = list(_links(source, target, sizes))
        hops = max(hops, len(path))
        for link in path:
            used[link] = used.get(link, 0) + 1
    nbytes = max(used.values(), default=0) * sum(x.bytes for x in args)
    return _on_axes(axes, nbytes, hops)


def _links(source: int, target: int, sizes: Sequence[int]) -> Any:
    """The links of a shortest path in a torus, one axis after the other."""
    place = list(np.unravel_index(source, sizes))
    for axis, (end, n) in enumerate(zip(np.unravel_index(target, sizes), sizes)):
        forwards = (end - place[axis]) % n
        step = 1 if forwards <= n - forwards else -1
        while place[axis] != end:
            before = tuple(map(int, place))
            place[axis] = (place[axis] + step) % n
            yield frozenset((before, tuple(map(int, place))))


# Callbacks


def _callback(ctx: Context, *args: Any, **params: Any) -> RooflineResult:
    return RooflineResult(unfused_hbm_bytes=_all_bytes(ctx))


_NAMES: tuple[tuple[RooflineRule, str], ...] = (
    (
        _elementwise,
        """abs acos asin atan bessel_i0e bessel_i1e cbrt ceil conj cos cosh digamma erf erf_inv erfc
        exp expm1 floor imag integer_pow is_finite lgamma log log1p logistic neg not real round rsqrt
        sign sin sinh sqrt square tan add and div eq ge gt le lt max min mul ne or rem sub xor""",
    ),
    (_select, "select_n"),
    (_reduce_sum, "reduce_sum"),
    (_cumulative(1), "cummax cummin cumprod cumsum"),
    (_cumulative(2), "cumlogsumexp"),
    (_dot_general, "dot_general"),
    (_convolution, "conv_general_dilated"),
    (_gather, "gather"),
    (
        _scatter,
        """scatter scatter-add scatter-max scatter-min scatter-mul scatter-sub scatter_add
        scatter_max scatter_min scatter_mul scatter_sub""",
    ),
    (_psum, "psum psum_invariant"),
    (_scalar_reduction, "pmax pmin"),
    (_all_gather, "all_gather all_gather_invariant all_gather_reduced"),
    (_reduce_scatter, "reduce_scatter"),
    (_all_to_all, "all_to_all"),
    (_ppermute, "ppermute"),
    (_callback, "debug_callback io_callback pure_callback"),
    (
        _nothing,
        """acosh add_any after_all approx_top_k argmax argmin asinh atan2 atanh axis_index
        bitcast_convert_type broadcast_in_dim cholesky cholesky_update clamp clz complex concatenate
        cond convert_element_type copy create_token custom_linear_solve debug_print det_3x3 device_put
        dynamic_slice dynamic_update_slice eig eigh empty empty2 eq_to erfinv exp2 fft geqp3 geqrf hessenberg
        householder_product igamma igamma_grad_a igammac iota le_to lt_to lu lu_pivots_to_permutation
        mulhi name nextafter optimization_barrier ormqr pad platform_index polygamma population_count
        positive_beta pow pvary qr ragged_dot_general random_bits random_clone random_fold_in random_gamma
        random_seed random_split random_unwrap random_wrap reduce reduce_and reduce_max reduce_min
        reduce_or reduce_precision reduce_prod reduce_window reduce_window_max reduce_window_min
        reduce_window_sum reduce_xor regularized_incomplete_beta reshape rev rng_bit_generator
        rng_uniform schur select_and_gather_add select_and_scatter select_and_scatter_add shard_map
        sharding_constraint shift_left shift_right_arithmetic shift_right_logical slice sort split
        squeeze stack stop_gradient svd symmetric_product tanh threefry2x32 tile top_k transpose
        triangular_solve tridiagonal tridiagonal_solve unstack while zeta""",
    ),
)
_RULES: dict[str, RooflineRule] = dict(
    itertools.chain.from_iterable(
        [(name, rule) for name in names.split()] for rule, names in _NAMES
    )
)
