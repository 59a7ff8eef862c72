"""The rules of `sparsify` for operations on BCOO arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import tree_util
from jax._src.core import Primitive
from jax._src.lax import lax, slicing, special
from jax._src.lax.convolution import conv_general_dilated_p
from jax._src.lax.special import quantiles
from jax._src.sparse.api import todense_p
from jax._src.sparse.bcoo import functions, gathers, products, shapes
from jax._src.sparse.bcoo.array import BCOO
from jax._src.sparse.bcsr import (
    BCSR,
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
    bcsr_sum_duplicates,
)
from jax._src.sparse.transform.interpreter import (
    DENSE,
    Rule,
    densifying,
    sparse_rules_bcoo,
    sparse_rules_bcsr,
)
from jax._src.sparse.transform.values import (
    SparsifyEnv,
    SparsifyValue,
    arrays_to_spvalues,
    is_sparse_array,
    spvalues_to_arrays,
)

Values = list[SparsifyValue]


def rule_for(
    *primitives: Primitive, bcoo: bool = True, bcsr: bool = False
) -> Callable[[Rule], Rule]:
    """Decorator: the function is the rule of these primitives for BCOO or BCSR operands."""

    def register(rule: Rule) -> Rule:
        if bcoo:
            sparse_rules_bcoo.update(dict.fromkeys(primitives, rule))
        if bcsr:
            sparse_rules_bcsr.update(dict.fromkeys(primitives, rule))
        return rule

    return register


def _arrays_rule(primitive: Primitive, fun: Callable[..., Any], **formats: bool) -> None:
    """The rule is `fun(*arrays, **params)`, which returns an array, or a list of arrays."""

    @rule_for(primitive, **formats)
    def rule(spenv: SparsifyEnv, *spvalues: SparsifyValue, **params: Any) -> Values:
        out = fun(*spvalues_to_arrays(spenv, spvalues), **params)
        outs: Values = arrays_to_spvalues(spenv, out if isinstance(out, list) else [out])
        return outs


# Functions of each element


def _distinct(spenv: SparsifyEnv, x: SparsifyValue) -> SparsifyValue:
    """The value with unique indices, which functions that are not linear need."""
    if x.unique_indices:
        return x
    mat = spvalues_to_arrays(spenv, x)
    summed = bcsr_sum_duplicates if x.is_bcsr() else functions.bcoo_sum_duplicates
    new: SparsifyValue = arrays_to_spvalues(spenv, summed(mat, nse=mat.nse))
    return new


def _elementwise(primitive: Primitive, linear: bool) -> None:
    @rule_for(primitive, bcsr=True)
    def rule(spenv: SparsifyEnv, x: SparsifyValue, **params: Any) -> Values:
        if not linear:
            x = _distinct(spenv, x)
        return [spenv.with_data(x, primitive.bind(spenv.data(x), **params))]


for _p in (lax.conj_p, lax.copy_p, lax.imag_p, lax.neg_p, lax.real_p, lax.stage_p,
           lax.stop_gradient_p):  # fmt: skip
    _elementwise(_p, True)
for _p in (lax.abs_p, lax.asin_p, lax.asinh_p, lax.atan_p, lax.atanh_p, lax.cbrt_p, lax.ceil_p,
           lax.expm1_p, lax.floor_p, lax.log1p_p, lax.round_p, lax.sign_p, lax.sin_p, lax.sinh_p,
           lax.sqrt_p, lax.square_p, lax.tan_p, lax.tanh_p, special.bessel_i1e_p, special.erf_p,
           special.erf_inv_p, quantiles.erfinv_p):  # fmt: skip
    _elementwise(_p, False)
densifying.update((lax.acos_p, lax.acosh_p, lax.cos_p, lax.cosh_p, lax.eq_p, lax.exp_p, lax.exp2_p,
                   lax.ge_p, lax.gt_p, lax.is_finite_p, lax.le_p, lax.log_p, lax.logistic_p,
                   lax.lt_p, lax.ne_p, lax.rsqrt_p, special.bessel_i0e_p, special.digamma_p,
                   special.erfc_p, special.lgamma_p))  # fmt: skip


@rule_for(lax.convert_element_type_p, bcsr=True)
def _convert(
    spenv: SparsifyEnv, x: SparsifyValue, *, new_dtype: Any, sharding: Any, **params: Any
) -> Values:
    # Conversions are not linear: they round or wrap.
    if np.dtype(new_dtype) != spenv.data(x).dtype:
        x = _distinct(spenv, x)
    out = lax.convert_element_type_p.bind(
        spenv.data(x), new_dtype=new_dtype, sharding=None, **params
    )
    return [spenv.with_data(x, out)]


@rule_for(lax.integer_pow_p, bcsr=True)
def _integer_pow(spenv: SparsifyEnv, x: SparsifyValue, *, y: int) -> Values:
    if y <= 0:
        raise NotImplementedError(
            f"sparse rule for integer_pow with non-positive exponent {y} is not implemented {DENSE} "
            "your argument to a dense array."
        )
    x = _distinct(spenv, x)
    return [spenv.with_data(x, lax.integer_pow(spenv.data(x), y))]


@rule_for(lax.optimization_barrier_p, bcsr=True)
def _barrier(spenv: SparsifyEnv, *spvalues: SparsifyValue) -> Values:
    refs = list(dict.fromkeys(r for v in spvalues for r in v.refs))
    outs = lax.optimization_barrier_p.bind(*[spenv.buffer(r) for r in refs])
    new = {r: spenv.dense(x).refs[0] for r, x in zip(refs, outs)}
    return [v.map_refs(new.__getitem__) for v in spvalues]


# Arithmetic


def _same_places(x: SparsifyValue, y: SparsifyValue) -> bool:
    return x[:1] + x[2:4] == y[:1] + y[2:4]


def _as_bcoo(x: Any) -> Any:
    return x.to_bcoo() if isinstance(x, BCSR) else x


def _joined(
    spenv: SparsifyEnv, fun: Callable[[BCOO, BCOO], BCOO], x: SparsifyValue, y: SparsifyValue
) -> Values:
    """A function of two BCOO arrays; its result is a BCSR array if both operands are."""
    out = fun(*map(_as_bcoo, spvalues_to_arrays(spenv, (x, y))))
    bcsr = x.is_bcsr() and y.is_bcsr()
    return [arrays_to_spvalues(spenv, BCSR.from_bcoo(out) if bcsr else out)]


def _scaled(spenv: SparsifyEnv, x: SparsifyValue, factor: Any) -> Values:
    """The product with a dense array, which has elements at the same places."""
    mat = _as_bcoo(spvalues_to_arrays(spenv, x))
    return [spenv.with_data(x, products.bcoo_multiply_dense(mat, factor))]


@rule_for(lax.mul_p, bcsr=True)
def _mul(spenv: SparsifyEnv, x: SparsifyValue, y: SparsifyValue, **params: Any) -> Values:
    if x.is_sparse() and y.is_sparse():
        same_layout = spenv.data(x).ndim == spenv.data(y).ndim and _same_places(x, y)
        if same_layout and (x.unique_indices or x.is_bcsr()):
            # What is summed and where it is stored depends on the indices alone.
            a, b = _distinct(spenv, x), _distinct(spenv, y)
            flags = bool(x.indices_sorted or y.indices_sorted)
            out = spenv.with_data(a, lax.mul(spenv.data(a), spenv.data(b)))
            return [out._replace(indices_sorted=flags)]
        return _joined(spenv, products.bcoo_multiply_sparse, x, y)
    if x.is_dense():
        x, y = y, x
    return _scaled(spenv, x, spenv.data(y))


@rule_for(lax.div_p, bcsr=True)
def _div(spenv: SparsifyEnv, x: SparsifyValue, y: SparsifyValue, **params: Any) -> Values:
    if y.is_sparse():
        raise NotImplementedError(
            f"Division by a sparse array is not implemented {DENSE} your arguments to a dense "
            "array."
        )
    data, divisor = spenv.data(x), spenv.data(y)
    if divisor.ndim and data.dtype.kind not in "fc":
        raise NotImplementedError(
            "Division of a sparse array of integers by a dense array is not implemented; convert its "
            "elements to a floating-point type."
        )
    if not divisor.ndim:
        if data.dtype.kind not in "fc":
            x = _distinct(spenv, x)
        return [spenv.with_data(x, lax.div(spenv.data(x), divisor))]
    return _scaled(spenv, x, lax.div(lax.full_like(divisor, 1), divisor))


@rule_for(lax.add_p, bcsr=True)
def _add(spenv: SparsifyEnv, x: SparsifyValue, y: SparsifyValue, **params: Any) -> Values:
    if x.is_sparse() and y.is_sparse():
        a, b = spenv.data(x), spenv.data(y)
        if _same_places(x, y) and a.shape == b.shape:
            flags = dict(
                indices_sorted=bool(x.indices_sorted or y.indices_sorted),
                unique_indices=bool(x.unique_indices or y.unique_indices),
            )
            return [spenv.with_data(x, lax.add(a, b))._replace(**flags)]
        return _joined(spenv, operator.add, x, y)
    if x.is_dense():
        x, y = y, x
    mat = _as_bcoo(spvalues_to_arrays(spenv, x))
    return [arrays_to_spvalues(spenv, mat + spenv.data(y))]


@rule_for(lax.sub_p, bcsr=True)
def _sub(spenv: SparsifyEnv, x: SparsifyValue, y: SparsifyValue, **params: Any) -> Values:
    if x.is_dense() or y.is_dense():
        raise NotImplementedError("Subtraction between sparse and dense array.")
    return list(_add(spenv, x, spenv.with_data(y, lax.neg(spenv.data(y)))))


# Products, shapes and places


def _reduce_sum(mat: Any, *, axes: Sequence[int], out_sharding: Any = None) -> Any:
    out = shapes.bcoo_reduce_sum(_as_bcoo(mat), axes=axes)
    return out if out.shape else out.todense()


def _dynamic_slice(mat: Any, *starts: Any, slice_sizes: Sequence[int]) -> Any:
    return shapes.bcoo_dynamic_slice(mat, starts, slice_sizes)


def _reshape(mat: BCOO, *, new_sizes: Any, dimensions: Any, sharding: Any) -> Any:
    return shapes.bcoo_reshape(mat, new_sizes=new_sizes, dimensions=dimensions)


def _broadcast(mat: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any = None) -> Any:
    fun = bcsr_broadcast_in_dim if isinstance(mat, BCSR) else shapes.bcoo_broadcast_in_dim
    return fun(mat, shape=shape, broadcast_dimensions=broadcast_dimensions)


def _conv(lhs: Any, rhs: Any, **params: Any) -> Any:
    return products.bcoo_conv_general_dilated(lhs, rhs, **params)


def _gather(
    mat: Any, starts: Any, *, dimension_numbers: Any, slice_sizes: Any, unique_indices: Any,
    indices_are_sorted: Any, mode: Any, fill_value: Any,
) -> Any:  # fmt: skip
    return gathers.bcoo_gather(
        mat, starts, dimension_numbers, slice_sizes, unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted, mode=mode, fill_value=fill_value,
    )  # fmt: skip


def _check_one_format(name: str, mats: Sequence[Any]) -> None:
    """Raise ValueError unless all arrays are sparse ones of the same format."""
    kinds = {type(m) for m in mats}
    if len(kinds) > 1 or not is_sparse_array(mats[0]):
        found = ", ".join(
            f"{type(m).__name__ if is_sparse_array(m) else 'dense'}{list(m.shape)}" for m in mats
        )
        raise ValueError(
            f"{name} of arrays of different formats is not implemented: got {found}. Convert dense "
            "arrays by fromdense, or sparse ones by todense()."
        )


def _concatenate(*mats: Any, dimension: int) -> Any:
    _check_one_format("concatenate", mats)
    join = bcsr_concatenate if isinstance(mats[0], BCSR) else shapes.bcoo_concatenate
    return join(mats, dimension=dimension)


def _stack(*mats: Any, axis: int) -> Any:
    _check_one_format("stack", mats)
    expanded = []
    for m in mats:
        kept = [d for d in range(m.ndim + 1) if d != axis]
        sizes = (*m.shape[:axis], 1, *m.shape[axis:])
        expanded.append(_broadcast(m, shape=sizes, broadcast_dimensions=kept))
    return _concatenate(*expanded, dimension=axis)


def _unstack(mat: BCOO, *, axis: int) -> list[Any]:
    def row(i: int) -> BCOO:
        starts = [i if d == axis else 0 for d in range(mat.ndim)]
        limits = [i + 1 if d == axis else n for d, n in enumerate(mat.shape)]
        out = shapes.bcoo_slice(mat, start_indices=starts, limit_indices=limits)
        return shapes.bcoo_squeeze(out, dimensions=(axis,))

    return [row(i) for i in range(mat.shape[axis])]


def _tile(mat: BCOO, *, reps: Sequence[int]) -> Any:
    for axis, count in enumerate(reps):
        if count < 1:
            raise NotImplementedError(f"tile of a sparse array {count} times along axis {axis}")
        if count > 1:
            mat = shapes.bcoo_concatenate([mat] * count, dimension=axis)
    return mat


_arrays_rule(lax.dot_general_p, products.bcoo_dot_general)
_arrays_rule(lax.dot_general_p, bcsr_dot_general, bcoo=False, bcsr=True)
_arrays_rule(lax.reduce_sum_p, _reduce_sum, bcsr=True)
_arrays_rule(lax.reshape_p, _reshape)
_arrays_rule(lax.broadcast_in_dim_p, _broadcast, bcsr=True)
_arrays_rule(lax.squeeze_p, shapes.bcoo_squeeze)
_arrays_rule(lax.rev_p, shapes.bcoo_rev)
_arrays_rule(lax.concatenate_p, _concatenate, bcsr=True)
_arrays_rule(lax.stack_p, _stack, bcsr=True)
_arrays_rule(lax.unstack_p, _unstack)
_arrays_rule(lax.tile_p, _tile)
_arrays_rule(slicing.slice_p, shapes.bcoo_slice)
_arrays_rule(slicing.dynamic_slice_p, _dynamic_slice)
_arrays_rule(slicing.gather_p, _gather)
_arrays_rule(conv_general_dilated_p, _conv)


@rule_for(lax.transpose_p)
def _transpose(spenv: SparsifyEnv, x: SparsifyValue, *, permutation: Sequence[int]) -> Values:
    mat = functions.bcoo_transpose(spvalues_to_arrays(spenv, x), permutation=permutation)
    return [arrays_to_spvalues(spenv, mat)]


@rule_for(todense_p, bcsr=True)
def _todense(spenv: SparsifyEnv, *spvalues: SparsifyValue, tree: Any) -> Values:
    arr = tree_util.tree_unflatten(tree, spvalues_to_arrays(spenv, spvalues))
    return [spenv.dense(arr.todense())]
