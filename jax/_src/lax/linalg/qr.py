"""QR decomposition by Householder reflections."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import config, core, lib
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import ad, mlir
from jax._src.lax import lax, slicing
from jax._src.lax.control_flow import fori_loop
from jax._src.lax.linalg import kernels
from jax._src.lax.linalg.common import (
    columns,
    conj,
    diagonal,
    eye,
    eye_like,
    is_complex,
    linalg_primitive,
    matmul,
    mH,
    mT,
    pad_to,
    permute_columns,
    permute_rows,
    rows,
    tril,
    triu,
)
from jax._src.lax.linalg.lu import lu
from jax._src.lax.linalg.triangular import triangular_solve
from jax._src.lax.rules import COMPLEX, FLOAT
from jax._src.typing import ArrayLike

_INT32 = np.dtype(np.int32)


def qr(
    x: ArrayLike,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> Any:
    """Compute the decomposition `x = Q @ R`: Q has orthonormal columns, R is upper triangular.

    Args:
      x: matrices of shape (..., m, n), floating point or complex.
      pivoting: whether to permute columns so that the diagonal of R decreases in magnitude:
        `x[..., p] = Q @ R`. It is not supported on TPU.
      full_matrices: if true, Q is (..., m, m) and R is (..., m, n); otherwise, with k = min(m, n),
        Q is (..., m, k) and R is (..., k, n).
      use_magma: whether pivoting on GPU uses MAGMA (True), or LAPACK on the host (False); None for
        the value of `jax_use_magma`.

    Returns:
      `(Q, R)`, or with pivoting `(Q, R, p)`, where `p` is int32 of shape (..., n).

    Raises:
      TypeError: if the dtype or shape is invalid.

    >>> q, r = lax.linalg.qr(jnp.array([[3.0, 1.0], [4.0, 2.0]]))
    >>> bool(jnp.allclose(jnp.abs(r), jnp.array([[5.0, 2.2], [0.0, 0.4]]), atol=1e-2))
    True
    """
    return tuple(
        qr_p.bind(
            x, pivoting=bool(pivoting), full_matrices=bool(full_matrices), use_magma=use_magma
        )
    )


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """Compute the first columns of a product of Householder reflections in the format of `geqrf`.

    Args:
      a: matrices of shape (..., m, n), m >= n. Column i has below its diagonal the vector of
        reflection i, which is 1 at the diagonal.
      taus: factors of the reflections, of shape (..., k), k <= n.

    Returns:
      The first n columns of Q, of shape (..., m, n).

    Raises:
      TypeError, ValueError: if dtypes or shapes are invalid.

    >>> h, taus = jnp.linalg.qr(jnp.array([[3.0, 1.0], [4.0, 2.0]]), mode="raw")
    >>> want = jnp.array([[0.6, 0.8], [0.8, 0.6]])
    >>> bool(jnp.allclose(jnp.abs(lax.linalg.householder_product(h.mT, taus)), want, atol=1e-2))
    True
    """
    return householder_product_p.bind(a, taus)


def ormqr(
    a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False
) -> Array:
    """Compute `Q @ c` or `c @ Q` for the Q of a QR decomposition, without forming Q.

    Args:
      a, taus: Householder reflections of shapes (..., m, n) and (..., k), see
        `householder_product`.
      c: matrices of shape (..., m, p) with `left`, otherwise (..., p, m).
      left: whether Q is on the left side.
      transpose: whether to use the (conjugate) transpose of Q.

    Returns:
      Array of the shape and dtype of `c`.

    Raises:
      TypeError, ValueError: if dtypes or shapes are invalid.

    >>> a = jnp.array([[3.0, 1.0], [4.0, 2.0]])
    >>> h, taus = jnp.linalg.qr(a, mode="raw")
    >>> want = jnp.array([[5.0, 2.2], [0.0, 0.4]])
    >>> got = jnp.abs(lax.linalg.ormqr(h.mT, taus, a, transpose=True))
    >>> bool(jnp.allclose(got, want, atol=1e-2))
    True
    """
    return ormqr_p.bind(a, taus, c, left=bool(left), transpose=bool(transpose))


def geqrf(a: ArrayLike) -> tuple[Array, Array]:
    """Compute a QR decomposition in terms of Householder reflections.

    Args:
      a: matrices of shape (..., m, n), floating point or complex.

    Returns:
      `(a, taus)`: R on and above the diagonal of `a`, the vectors of Householder reflections below
      it, and their factors, of shape (..., min(m, n)).
    """
    a, taus = geqrf_p.bind(a)
    return a, taus


def geqp3(a: ArrayLike, jpvt: ArrayLike, *, use_magma: bool | None = None) -> Any:
    """Compute a column-pivoted QR decomposition in terms of Householder reflections.

    Args:
      a: matrices of shape (..., m, n), floating point or complex.
      jpvt: int32 of shape (..., n); columns with a nonzero entry are moved to the front.
      use_magma: see `qr`.

    Returns:
      `(a, jpvt, taus)`: `a` and `taus` as for `geqrf`, and the column permutation, counted from
      one.
    """
    return tuple(geqp3_p.bind(a, jpvt, use_magma=use_magma))


# ---------------------------------------------------------------------------------------------------
# QR


def _qr_shape(x, *, pivoting, full_matrices, use_magma):
    m, n = x
    k = m if full_matrices else core.min_dim(m, n)
    return [(m, k), (k, n), (n,)][: 3 if pivoting else 2]


def _qr_dtype(x, *, pivoting, **_):
    return [x, x, _INT32][: 3 if pivoting else 2]


def _qr(x, *, pivoting, full_matrices, use_magma):
    *lead, m, n = x.shape
    if not pivoting and core.is_empty_shape((m, n)):  # also for dtypes that XLA cannot decompose
        k = m if full_matrices else 0
        return lax.broadcast(eye(x.dtype, m, k), lead), rows(x, 0, k)
    if pivoting:
        a, p, taus = geqp3(x, lax.full((*x.shape[:-2], n), 0, np.int32), use_magma=use_magma)
        p = lax.sub(p, lax.full_like(p, 1))
        if core.definitely_equal(m, 0):  # LAPACK leaves the permutation as it is.
            p = lax.broadcasted_iota(np.int32, p.shape, p.ndim - 1)
    else:
        a, taus = geqrf(x)
    if m < n:
        q = householder_product(columns(a, 0, m), taus)
    elif full_matrices and m > n:
        q = householder_product(pad_to(a, m, m), taus)
    else:
        q = householder_product(a, taus)
        a = rows(a, 0, n)
    return (q, triu(a), p) if pivoting else (q, triu(a))


def _qr_jvp(primals, tangents, **params):
    # Walter, Lehmann and Lamour, "On evaluating higher-order derivatives of the QR decomposition of
    # tall matrices with full column rank in forward and reverse mode algorithmic differentiation",
    # 2012.
    (x,), (dx,) = primals, tangents
    q, r, *p = qr_p.bind(x, **params)
    zeros = [Zero.from_primal_value(i) for i in p]
    if type(dx) is Zero:
        return [q, r, *p], [Zero.from_primal_value(q), Zero.from_primal_value(r), *zeros]
    if p:
        dx = permute_columns(dx, p[0])
    m, n = x.shape[-2:]
    k = core.min_dim(m, n)
    q1, r1 = columns(q, 0, k), columns(rows(r, 0, k), 0, k)
    dx_rinv = triangular_solve(r1, columns(dx, 0, k), left_side=False, lower=False)
    omega = matmul(mH(q), dx_rinv)  # k columns, and as many rows as Q has columns
    top = rows(omega, 0, k)
    skew = tril(top, -1)
    skew = lax.sub(skew, mH(skew))
    if is_complex(x):
        # The diagonal of R stays real: an imaginary part changes the phases of Q's columns instead.
        turn = lax.sub(top, lax.complex(lax.real(top), lax.full_like(lax.real(top), 0)))
        skew = lax.add(skew, lax.mul(eye_like(turn), turn))
    dr1 = matmul(lax.sub(top, skew), r1)
    is_reduced = core.definitely_equal(q.shape[-1], k)
    if is_reduced:
        dq = lax.add(matmul(q1, lax.sub(skew, top)), dx_rinv)
    else:
        dq1 = lax.add(matmul(q1, lax.sub(skew, top)), matmul(q1, top))
        dq1 = lax.add(dq1, matmul(columns(q, k, m), rows(omega, k, m)))
        dq = lax.concatenate([dq1, _complement_tangent(q, dq1, rows(omega, k, m))], q.ndim - 1)
    dr = dr1
    # A rest that turns out to have no columns does no harm where Q is reduced; else it has to be known.
    has_rest = core.possibly_greater(n, k) if is_reduced else n > k
    if has_rest:
        rest = columns(r, k, n)
        moved = matmul(mH(q), matmul(dq, rest))
        dr = lax.concatenate([dr1, lax.sub(matmul(mH(q), columns(dx, k, n)), moved)], dr1.ndim - 1)
    elif r.shape[-2] > k:
        dr = pad_to(dr1, r.shape[-2], n)
    return [q, r, *p], [dq, triu(dr), *zeros]


def _complement_tangent(q, dq1, low):
    """Return the tangent of the columns of Q beyond the first k.

    A product of k Householder reflections is determined by its first k columns: for
    Q = [[Q11, Q12], [Q21, Q22]] the other columns are E2 + (E1 - Q1) K^H, with
    K = Q21 (1 - Q11)^-1. If a reflection is missing, the inverse does not exist; then these columns
    only rotate along with the first ones.
    """
    m, k = dq1.shape[-2:]
    q1 = columns(q, 0, k)
    rest = lax.sub(eye_like(rows(q1, 0, k)), rows(q1, 0, k))
    factors, _, permutation = lu(mT(rest))
    pivots = lax.abs(diagonal(factors))
    none = lax.reduce_or(lax.eq(pivots, lax.full_like(pivots, 0)), (pivots.ndim - 1,))

    def where_none(x, y):
        return lax.select(lax.broadcast_in_dim(none, x.shape, range(none.ndim)), x, y)

    factors = where_none(eye_like(factors), factors)

    def divide(x):
        """Return x (1 - Q11)^-1."""
        x = permute_rows(mT(x), permutation)
        x = triangular_solve(factors, x, left_side=True, lower=True, unit_diagonal=True)
        return mT(triangular_solve(factors, x, left_side=True, lower=False))

    K = divide(rows(q1, k, m))
    dK = divide(lax.add(rows(dq1, k, m), matmul(K, rows(dq1, 0, k))))
    e1 = lax.sub(pad_to(eye_like(rest), m, k), q1)
    out = lax.sub(matmul(e1, mH(dK)), matmul(dq1, mH(K)))
    return where_none(lax.neg(matmul(q1, mH(low))), out)


qr_p = linalg_primitive(
    "qr",
    FLOAT | COMPLEX,
    (2,),
    _qr_shape,
    dtype=_qr_dtype,
    multiple_results=True,
    lower=mlir.lower_fun(_qr, multiple_results=True),
    jvp=_qr_jvp,
)

# ---------------------------------------------------------------------------------------------------
# Householder reflections


def _geqrf_shape(a):
    m, n = a
    return [(m, n), (core.min_dim(m, n),)]


def _geqrf_cpu(ctx, a):
    return _geqrf_call(ctx, a, kernels.lapack_target(ctx, "geqrf_ffi"))


def _geqrf_gpu(ctx, a, *, gpu):
    kernels.check_kernel_dtype(ctx, "GPU")
    return _geqrf_call(ctx, a, f"{gpu}solver_geqrf_ffi")


def _geqrf_call(ctx, a, target):
    return kernels.call(
        ctx, target, [a], ctx.avals_in, ctx.avals_out,
        batch_dims=ctx.avals_in[0].ndim - 2, aliases={0: 0},
    )  # fmt: skip


def _geqrf_default(ctx, a):
    return kernels.expanded_call(ctx, "Qr", [a], ctx.avals_out)


geqrf_p = linalg_primitive(
    "geqrf",
    FLOAT | COMPLEX,
    (2,),
    _geqrf_shape,
    multiple_results=True,
    lower={None: _geqrf_default, "cpu": _geqrf_cpu, **kernels.on_gpus(_geqrf_gpu)},
)


def _geqp3_shape(a, jpvt, *, use_magma):
    m, n = a
    return [(m, n), (n,), (core.min_dim(m, n),)]


def _geqp3_cpu(ctx, a, jpvt, *, use_magma):
    return _geqp3_call(ctx, a, jpvt, kernels.lapack_target(ctx, "geqp3_ffi"), {})


def _geqp3_gpu(ctx, a, jpvt, *, use_magma, gpu):
    kernels.check_kernel_dtype(ctx, "GPU")
    lib.gpu_solver.initialize_hybrid_kernels()
    magma = config.gpu_use_magma.value
    if use_magma is not None:
        magma = "on" if use_magma else "off"
    return _geqp3_call(ctx, a, jpvt, f"{gpu}hybrid_geqp3", {"magma": magma})


def _geqp3_call(ctx, a, jpvt, target, attributes):
    return kernels.call(
        ctx, target, [a, jpvt], ctx.avals_in, ctx.avals_out, attributes,
        batch_dims=ctx.avals_in[0].ndim - 2, aliases={0: 0, 1: 1},
    )  # fmt: skip


geqp3_p = linalg_primitive(
    "geqp3",
    FLOAT | COMPLEX | frozenset({np.int32}),
    (2, 1),
    _geqp3_shape,
    dtype=lambda a, jpvt, *, use_magma: [a, jpvt, a],
    multiple_results=True,
    same_dtypes=False,
    lower={"cpu": _geqp3_cpu, **kernels.on_gpus(_geqp3_gpu)},
)


def _product_shape(a, taus):
    m, n = a
    if m < n:
        raise ValueError(
            "The first argument to householder_product must have at least as many rows as columns, got "
            f"shape {tuple(a)}"
        )
    if taus[0] > core.min_dim(m, n):
        raise ValueError(
            "The second argument to householder_product must not have more rows than the minimum of the "
            f"first argument's rows and columns. Got shapes {tuple(taus)} and {tuple(a)}."
        )
    return a


def _product_cpu(ctx, a, taus):
    routine = "ungqr_ffi" if is_complex(ctx.avals_in[0]) else "orgqr_ffi"
    return _product_call(ctx, a, taus, kernels.lapack_target(ctx, routine))


def _product_gpu(ctx, a, taus, *, gpu):
    kernels.check_kernel_dtype(ctx, "GPU")
    return _product_call(ctx, a, taus, f"{gpu}solver_orgqr_ffi")


def _product_call(ctx, a, taus, target):
    return kernels.call(
        ctx, target, [a, taus], ctx.avals_in, ctx.avals_out,
        batch_dims=ctx.avals_in[0].ndim - 2, aliases={0: 0},
    )  # fmt: skip


def _product_default(ctx, a, taus):
    target = "ProductOfElementaryHouseholderReflectors"
    return kernels.expanded_call(ctx, target, [a, taus], ctx.avals_out)


def _product_jvp(primals, tangents):
    def product(a, taus):
        return [_reflect(a, taus, eye_like(a), left=True, transpose=False)]

    return householder_product_p.bind(*primals), ad.jvp(product, primals, tangents)[1][0]


householder_product_p = linalg_primitive(
    "householder_product",
    FLOAT | COMPLEX,
    (2, 1),
    _product_shape,
    jvp=_product_jvp,
    lower={None: _product_default, "cpu": _product_cpu, **kernels.on_gpus(_product_gpu)},
)


def _ormqr_shape(a, taus, c, *, left, transpose):
    if c[0 if left else 1] != a[0]:
        raise ValueError(
            f"ormqr with left={left} expects c to have the same number of "
            f"{'rows' if left else 'columns'} as the Householder matrix a has rows. Got a shape "
            f"{tuple(a)} and c shape {tuple(c)}."
        )
    if taus[0] > core.min_dim(*a):
        raise ValueError(
            f"ormqr takes at most min(m, n) factors for a matrix a of shape (m, n). Got shapes "
            f"{tuple(taus)} and {tuple(a)}."
        )
    return c


def _ormqr_cpu(ctx, a, taus, c, **params):
    routine = "unmqr_ffi" if is_complex(ctx.avals_in[0]) else "ormqr_ffi"
    return _ormqr_call(ctx, a, taus, c, kernels.lapack_target(ctx, routine), params)


def _ormqr_gpu(ctx, a, taus, c, *, gpu, **params):
    kernels.check_kernel_dtype(ctx, "GPU")
    return _ormqr_call(ctx, a, taus, c, f"{gpu}solver_ormqr_ffi", params)


def _ormqr_call(ctx, a, taus, c, target, params):
    return kernels.call(
        ctx, target, [a, taus, c], ctx.avals_in, ctx.avals_out, params,
        batch_dims=ctx.avals_in[0].ndim - 2, aliases={2: 0},
    )  # fmt: skip


def _reflect(a, taus, c, *, left, transpose):
    """Apply the reflections one after the other, by differentiable operations."""
    k = taus.shape[-1]
    d = a.ndim - 1
    below = tril(a, -1)

    def vector(i):
        v = slicing.dynamic_index_in_dim(below, i, d)
        one = lax.eq(lax.broadcasted_iota(np.int32, v.shape, d - 1), lax.broadcast(i, v.shape))
        return lax.add(v, lax.convert_element_type(one, v.dtype))

    def step(j, c):
        # Q = H_0 H_1 ..., so Q c applies the last reflection first.
        j = lax.convert_element_type(j, np.int32)
        i = j if left == transpose else lax.sub(np.int32(k - 1), j)
        v = vector(i)
        tau = lax.expand_dims(slicing.dynamic_index_in_dim(taus, i, d - 1), (d,))
        if transpose:
            tau = conj(tau)
        if left:
            return lax.sub(c, lax.mul(tau, matmul(v, matmul(mH(v), c))))
        return lax.sub(c, lax.mul(tau, matmul(matmul(c, v), mH(v))))

    return fori_loop(np.int32(0), np.int32(k), step, c) if k else c


def _ormqr_jvp(primals, tangents, **params):
    def reflect(*args):
        return [_reflect(*args, **params)]

    return ormqr_p.bind(*primals, **params), ad.jvp(reflect, primals, tangents)[1][0]


ormqr_p = linalg_primitive(
    "ormqr",
    FLOAT | COMPLEX,
    (2, 1, 2),
    _ormqr_shape,
    jvp=_ormqr_jvp,
    lower={
        None: mlir.lower_fun(_reflect, multiple_results=False),
        "cpu": _ormqr_cpu,
        **kernels.on_gpus(_ormqr_gpu),
    },
)
