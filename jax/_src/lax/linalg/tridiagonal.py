"""Tridiagonal reduction of Hermitian matrices, and tridiagonal systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import ad, mlir
from jax._src.lax import lax
from jax._src.lax.control_flow import scan
from jax._src.lax.linalg import kernels
from jax._src.lax.linalg.common import (
    along_columns,
    is_complex_dtype,
    linalg_primitive,
    real_dtype,
)
from jax._src.lax.rules import COMPLEX, FLOAT
from jax._src.typing import ArrayLike


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> list[Array]:
    """Reduce Hermitian matrices to tridiagonal form, on CPU and GPU.

    Args:
      a: matrices of shape (..., n, n), n > 0, floating point or complex.
      lower: whether to read the lower triangle, otherwise the upper one.

    Returns:
      A list `(a, d, e, taus)`. `d` (..., n) and `e` (..., n - 1) are the diagonal and the first
      off-diagonal of the form, both real; `taus` (..., n - 1) are the factors of Householder
      reflections. The triangle of `a` has these diagonals and the vectors of the reflections. All
      are NaN if the reduction fails.

    Raises:
      TypeError, ValueError: if the dtype or shape is invalid.

    >>> _, d, e, _ = lax.linalg.tridiagonal(jnp.array([[1.0, 2.0], [2.0, 3.0]]))
    >>> d.tolist(), e.tolist()
    ([1.0, 3.0], [2.0])
    """
    return tridiagonal_p.bind(a, lower=bool(lower))


def _tridiagonal_shape(a, *, lower):
    if a[0] != a[1] or a[1] == 0:
        raise ValueError(f"The input to tridiagonal must be a square matrix. Got shape {tuple(a)}.")
    return [a, (a[0],), (a[0] - 1,), (a[0] - 1,)]


def _tridiagonal_dtype(a, *, lower):
    return [a, real_dtype(a), real_dtype(a), a]


def _tridiagonal_cpu(ctx, a, *, lower):
    routine = "hetrd_ffi" if is_complex_dtype(ctx.avals_in[0].dtype) else "sytrd_ffi"
    attributes = {"uplo": kernels.char("L" if lower else "U")}
    return _sytrd(ctx, a, kernels.lapack_target(ctx, routine), attributes)


def _tridiagonal_gpu(ctx, a, *, lower, gpu):
    kernels.check_kernel_dtype(ctx, "GPU")
    return _sytrd(ctx, a, f"{gpu}solver_sytrd_ffi", {"lower": lower})


def _sytrd(ctx, a, target, attributes):
    (aval,) = ctx.avals_in
    lead = aval.shape[:-2]
    *out, info = kernels.call(
        ctx, target, [a], [aval], [*ctx.avals_out, kernels.info_aval(lead)], attributes,
        batch_dims=len(lead), aliases={0: 0},
    )  # fmt: skip
    return kernels.nan_unless(ctx, info, out, ctx.avals_out)


tridiagonal_p = linalg_primitive(
    "tridiagonal",
    FLOAT | COMPLEX,
    (2,),
    _tridiagonal_shape,
    dtype=_tridiagonal_dtype,
    multiple_results=True,
    lower={"cpu": _tridiagonal_cpu, **kernels.on_gpus(_tridiagonal_gpu)},
)

# ---------------------------------------------------------------------------------------------------
# Linear systems


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """Solve tridiagonal systems `A @ x = b`.

    Args:
      dl, d, du: diagonals of shape (..., m): A[i, i - 1] = dl[i], A[i, i] = d[i] and
        A[i, i + 1] = du[i]; dl[0] and du[m - 1] are not read.
      b: right-hand sides of shape (..., m, n) and the same dtype.
      perturb_singular: whether to move pivots away from zero by about the machine epsilon, so that
        the result is finite (CPU and GPU only). Otherwise a singular A yields NaN or infinity.

    Returns:
      Array of the shape and dtype of `b`.

    Raises:
      TypeError: if dtypes or shapes are invalid.

    >>> d = jnp.array([2.0, 2.0])
    >>> e = jnp.array([1.0, 1.0])
    >>> want = jnp.array([[1.0], [1.0]])
    >>> got = lax.linalg.tridiagonal_solve(e, d, e, jnp.array([[3.0], [3.0]]))
    >>> bool(jnp.allclose(got, want, atol=1e-2))
    True
    """
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=bool(perturb_singular))


def _solve_shape(dl, d, du, b, *, perturb_singular):
    if not dl == d == du:
        raise TypeError(
            "tridiagonal_solve requires that all diagonal arguments have the same shape. Got "
            f"{tuple(dl)}, {tuple(d)} and {tuple(du)}."
        )
    if d[0] != b[0]:
        raise TypeError(
            "tridiagonal_solve requires that the leading ndim-1 dimensions of b equal the dimensions of the "
            f"diagonal arguments. Got {tuple(b)} and {tuple(d)}."
        )
    return b


def _shifted(x: Any, by: int) -> Any:
    """Shift the last dimension: y[i] = x[i - by], zero outside of `x`."""
    zero = np.zeros((), x.dtype)
    low, high = (by, -by)
    return lax.pad(x, zero, [(0, 0, 0)] * (x.ndim - 1) + [(low, high, 0)])


def _solve_jvp(primals, tangents, **params):
    out = tridiagonal_solve_p.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        return out, Zero.from_primal_value(out)
    *d_diagonals, db = tangents
    # A dx = db - dA x.
    rhs = None if type(db) is Zero else db
    for t, by in zip(d_diagonals, (1, 0, -1)):
        if type(t) is Zero:
            continue
        x = out
        if by:
            zero = np.zeros((), x.dtype)
            config = [(0, 0, 0)] * (x.ndim - 2) + [(by, -by, 0), (0, 0, 0)]
            x = lax.pad(x, zero, config)
        part = lax.mul(along_columns(t, x.shape), x)
        rhs = lax.neg(part) if rhs is None else lax.sub(rhs, part)
    return out, tridiagonal_solve_p.bind(*primals[:3], rhs, **params)


def _solve_transpose(ct, dl, d, du, b, **params):
    assert ad.is_undefined_primal(b) and not any(map(ad.is_undefined_primal, (dl, d, du)))
    if type(ct) is Zero:
        return [None, None, None, Zero(b.aval)]
    out = tridiagonal_solve_p.bind(_shifted(du, 1), d, _shifted(dl, -1), ct, **params)
    return [None, None, None, out]


def _solve_cpu(ctx, dl, d, du, b, *, perturb_singular):
    avals = ctx.avals_in
    lead = avals[3].shape[:-2]
    if perturb_singular:
        kernels.lapack_target(ctx, "gtsv_ffi")  # register the kernels
        return kernels.call(
            ctx, "tridiagonal_solve_perturbed_ffi", [dl, d, du, b], avals, ctx.avals_out,
            batch_dims=len(lead),
        )  # fmt: skip
    *_, out, info = kernels.call(
        ctx, kernels.lapack_target(ctx, "gtsv_ffi"), [dl, d, du, b], avals,
        [*avals, kernels.info_aval(lead)], batch_dims=len(lead), aliases={i: i for i in range(4)},
    )  # fmt: skip
    return kernels.nan_unless(ctx, info, [out], ctx.avals_out)


def _solve_gpu(ctx, dl, d, du, b, *, perturb_singular, gpu):
    kernels.check_kernel_dtype(ctx, "GPU")
    target = f"{gpu}_tridiagonal_solve_perturbed" if perturb_singular else f"{gpu}sparse_gtsv2_ffi"
    return kernels.call(
        ctx, target, [dl, d, du, b], ctx.avals_in, ctx.avals_out,
        batch_dims=ctx.avals_in[3].ndim - 2, aliases=None if perturb_singular else {3: 0},
    )  # fmt: skip


def eliminate(dl, d, du, b, *, perturb_singular):
    """Solve by elimination without pivoting, and back substitution."""
    if perturb_singular:
        raise NotImplementedError(
            "tridiagonal_solve: perturb_singular=True is not supported on this platform."
        )
    if not b.shape[-2]:
        return b
    axis = b.ndim - 2

    def first(x):
        return lax.transpose(x, (axis, *[i for i in range(x.ndim) if i != axis]))

    def scaled(x, by):
        return lax.div(x, along_columns(by, x.shape))

    dl, d, du, b = map(first, (dl, d, du, b))

    def forward(carry, row):
        ratio, y = carry
        dl, d, du, b = row
        pivot = lax.sub(d, lax.mul(dl, ratio))
        ratio = lax.div(du, pivot)
        y = scaled(lax.sub(b, lax.mul(along_columns(dl, b.shape), y)), pivot)
        return (ratio, y), (ratio, y)

    def backward(x, row):
        ratio, y = row
        x = lax.sub(y, lax.mul(along_columns(ratio, y.shape), x))
        return x, x

    dl = lax.concatenate([lax.full_like(dl[:1], 0), dl[1:]], 0)
    zero = lax.full(d.shape[1:], 0, d.dtype), lax.full(b.shape[1:], 0, b.dtype)
    _, (ratios, ys) = scan(forward, zero, (dl, d, du, b))
    ratios = lax.concatenate([ratios[:-1], lax.full_like(ratios[:1], 0)], 0)
    _, x = scan(backward, zero[1], (ratios, ys), reverse=True)
    return lax.transpose(x, (*range(1, axis + 1), 0, axis + 1))


tridiagonal_solve_p = linalg_primitive(
    "tridiagonal_solve",
    FLOAT | COMPLEX,
    (1, 1, 1, 2),
    _solve_shape,
    lower={
        None: mlir.lower_fun(eliminate, multiple_results=False),
        "cpu": _solve_cpu,
        **kernels.on_gpus(_solve_gpu),
    },
    jvp=_solve_jvp,
    transpose=_solve_transpose,
)
