"""Automatic checks of operations: NaN as a result, division by zero, indices out of bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.checkify.exceptions import DivisionByZeroError, NaNError, OOBError
from jax._src.checkify.record import Record
from jax._src.checkify.transform import bind
from jax._src.core import JaxprEqn, Var, typeof
from jax._src.lax import lax, windowed_reductions
from jax._src.lax.convolution.primitive import conv_general_dilated_p
from jax._src.lax.fft import fft_p
from jax._src.lax.lax import cumulative
from jax._src.lax.linalg.cholesky import cholesky_p
from jax._src.lax.linalg.determinants import det_3x3_p
from jax._src.lax.linalg.triangular import triangular_solve_p
from jax._src.lax.parallel.sums import psum_p
from jax._src.lax.slicing import bounds, gathers, scatters, slices
from jax._src.lax.special import basic, beta, incomplete, quantiles


def any_true(x: Any) -> Any:
    """Whether any element of a boolean array is true."""
    ndim = typeof(x).ndim
    return lax.reduce_or(x, tuple(range(ndim))) if ndim else x


def check_nan(record: Record, eqn: JaxprEqn, out: Any) -> None:
    """Record an error if a result of an equation has a NaN."""
    if NaNError not in record.enabled:
        return
    outs = out if eqn.primitive.multiple_results else [out]
    pred = None
    for x, v in zip(outs, eqn.outvars):
        if dtypes.issubdtype(v.aval.dtype, np.inexact):
            found = any_true(lax.ne(x, x))
            pred = found if pred is None else lax.bitwise_or(pred, found)
    if pred is not None:
        record.add(pred, NaNError(eqn.source_info.traceback, eqn.primitive.name))
        record.nan_checked.update(eqn.outvars)


def floating(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    """The rule of operations that can make NaNs."""
    out = bind(eqn, args)
    check_nan(record, eqn, out)
    return out


def _propagating(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    """The rule of functions whose result is NaN for a NaN only: it is found where that is made."""
    (x,) = eqn.invars
    if type(x) is Var and x in record.nan_checked and x.aval.dtype.kind != "c":
        record.nan_checked.update(eqn.outvars)
        return bind(eqn, args)
    return floating(record, eqn, args)


def _division(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    if DivisionByZeroError in record.enabled:
        divisor = args[1]
        zero = lax.eq(divisor, lax.full_like(divisor, 0))
        record.add(any_true(zero), DivisionByZeroError(eqn.source_info.traceback))
    return floating(record, eqn, args)


# Indices out of bounds


def _check_bounds(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> None:
    if OOBError not in record.enabled:
        return
    indexing = bounds.indexing_of(eqn.primitive.name, args, eqn.params)
    if indexing is None:
        return
    indices, axes, sizes = indexing
    shape = eqn.invars[0].aval.shape
    found = bounds.first_outside(indices, shape, axes, sizes)
    if found is not None:
        pred, payload = found
        record.add(pred, OOBError(eqn.source_info.traceback, eqn.primitive.name, shape, payload))


def _indexing(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    _check_bounds(record, eqn, args)
    return bind(eqn, args)


def _scatter(record: Record, eqn: JaxprEqn, args: Sequence[Any]) -> Any:
    _check_bounds(record, eqn, args)
    return floating(record, eqn, args)


# The rules of all operations that can find errors

for _primitive in (
    *(lax.add_p, lax.sub_p, lax.mul_p, lax.rem_p, lax.add_any_p, lax.integer_pow_p, lax.pow_p),
    *(lax.sqrt_p, lax.rsqrt_p, lax.log_p, lax.log1p_p, lax.sin_p, lax.cos_p, lax.tan_p),
    *(lax.asin_p, lax.acos_p, lax.atan2_p, lax.acosh_p, lax.atanh_p, lax.pad_p, fft_p),
    *(lax.dot_general_p, conv_general_dilated_p, lax.rng_uniform_p, psum_p),
    *(lax.reduce_p, lax.reduce_sum_p, lax.reduce_prod_p, cumulative.cumsum_p),
    *(cumulative.cumprod_p, cumulative.cummax_p, cumulative.cummin_p),
    *(cumulative.cumlogsumexp_p, triangular_solve_p, cholesky_p, det_3x3_p),
    *(windowed_reductions.reduce_window_p, windowed_reductions.reduce_window_sum_p),
    *(basic.lgamma_p, basic.digamma_p, basic.polygamma_p, basic.zeta_p, basic.erf_inv_p),
    *(basic.bessel_i0e_p, basic.bessel_i1e_p, incomplete.igamma_p, incomplete.igammac_p),
    *(incomplete.igamma_grad_a_p, incomplete.regularized_incomplete_beta_p, beta.positive_beta_p),
    quantiles.erfinv_p,
):
    _primitive.error_check = floating
for _primitive in (
    *(lax.exp_p, lax.exp2_p, lax.expm1_p, lax.logistic_p, lax.tanh_p, lax.atan_p, lax.sinh_p),
    *(lax.cosh_p, lax.asinh_p, lax.cbrt_p, lax.square_p, basic.erf_p, basic.erfc_p),
):
    _primitive.error_check = _propagating
lax.div_p.error_check = _division
for _primitive in (slices.dynamic_slice_p, slices.dynamic_update_slice_p, gathers.gather_p):
    _primitive.error_check = _indexing
for _primitive in (
    scatters.scatter_p, scatters.scatter_add_p, scatters.scatter_sub_p, scatters.scatter_mul_p,
    scatters.scatter_min_p, scatters.scatter_max_p,
):  # fmt: skip
    _primitive.error_check = _scatter
