"""Singular value decomposition."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from jax._src import core
from jax._src.ad_util import Zero
from jax._src.interpreters import mlir
from jax._src.lax import lax, slicing
from jax._src.lax.linalg import kernels
from jax._src.lax.linalg.common import (
    along_columns,
    along_rows,
    columns,
    diagonal,
    eye,
    linalg_primitive,
    matmul,
    mH,
    real,
    real_dtype,
    rows,
    scale_columns,
)
from jax._src.lax.linalg.eigh import check_subset, eigh
from jax._src.lax.linalg.qdwh import qdwh
from jax._src.lax.linalg.qr import qr
from jax._src.lax.rules import COMPLEX, FLOAT
from jax._src.typing import ArrayLike


class SvdAlgorithm(enum.Enum):
    """Algorithms for the singular value decomposition.

    DEFAULT is the platform's choice. QR is available on CPU and GPU, JACOBI on GPU, POLAR on TPU
    and CUDA, DIVIDE_AND_CONQUER on CPU and ROCm.
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """Compute the decomposition `x = U @ diag(s) @ Vh`.

    The columns of U and the rows of Vh are orthonormal.

    Args:
      x: matrices of shape (..., m, n), floating point or complex.
      full_matrices: if true, U is (..., m, m) and Vh is (..., n, n); otherwise, with k = min(m, n),
        U is (..., m, k) and Vh is (..., k, n).
      compute_uv: whether to return U and Vh.
      subset_by_index: `(start, stop)`: return only the singular values with these indices. CPUs and
        GPUs compute all of them and drop the rest.
      algorithm: algorithm to use; None for the platform's default.

    Returns:
      `(U, s, Vh)`, or only `s`: real, of shape (..., k), in descending order. They are NaN if the
      decomposition does not converge.

    Raises:
      TypeError, ValueError: if dtypes, shapes or the subset are invalid.
      NotImplementedError: when compiled for a platform that does not support the algorithm.

    >>> lax.linalg.svd(jnp.array([[3.0, 0.0], [0.0, -4.0]]), compute_uv=False).tolist()
    [4.0, 3.0]
    """
    if subset_by_index is not None:
        subset_by_index = tuple(map(int, subset_by_index))
    out = svd_p.bind(
        x,
        full_matrices=bool(full_matrices),
        compute_uv=bool(compute_uv),
        subset_by_index=subset_by_index,
        algorithm=None if algorithm is None else SvdAlgorithm(algorithm),
    )
    if not compute_uv:
        return out[0]
    s, u, vh = out
    return u, s, vh


def _shape(x, *, full_matrices, compute_uv, subset_by_index, algorithm):
    m, n = x
    k = core.min_dim(m, n)
    if subset_by_index is not None:
        check_svd_subset(subset_by_index, k, full_matrices)
        k = subset_by_index[1] - subset_by_index[0]
    if not compute_uv:
        return [(k,)]
    return [(k,), (m, m if full_matrices else k), (n if full_matrices else k, n)]


def check_svd_subset(subset: tuple[int, int], k: Any, full_matrices: bool) -> None:
    """Raise ValueError unless `subset` is a range of indices below k; all if full_matrices."""
    check_subset(subset, k, "singular values")
    if full_matrices and subset != (0, k):
        raise ValueError(
            "full_matrices and subset_by_index cannot both be set: pass full_matrices=False"
        )


def _dtype(x, *, compute_uv, **_):
    return [real_dtype(x), x, x][: 3 if compute_uv else 1]


def _jvp(primals, tangents, *, full_matrices, compute_uv, subset_by_index, algorithm):
    (x,), (g,) = primals, tangents
    params = dict(full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithm)
    if type(g) is Zero:
        out = svd_p.bind(x, subset_by_index=subset_by_index, **params)
        return out, [Zero.from_primal_value(o) for o in out]
    if compute_uv and full_matrices and x.ndim >= 2 and x.shape[-1] != x.shape[-2]:
        raise NotImplementedError(
            "Singular value decomposition JVP not implemented for full matrices: those singular vectors that "
            "belong to no singular value are not determined. Use full_matrices=False."
        )
    params.update(full_matrices=False, compute_uv=True)
    s, u, vh = svd_p.bind(x, subset_by_index=None, **params)
    m, n = x.shape[-2:]
    # Giles, "An extended collection of matrix derivative results" (2008), section 3.2.
    inner = matmul(matmul(mH(u), g), mH(vh))
    ds = real(diagonal(inner))
    out, tangent = [s], [ds]
    if compute_uv:
        du, dvh = _vector_tangents(g, s, u, vh, inner)
        out, tangent = [s, u, vh], [ds, du, dvh]
    k = core.min_dim(m, n)
    if subset_by_index is not None and subset_by_index != (0, k):
        out, tangent = _subset(out, subset_by_index), _subset(tangent, subset_by_index)
    return out, tangent


def _vector_tangents(g, s, u, vh, inner):
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    shape = inner.shape
    across, down = (f(s, shape).astype(inner.dtype) for f in (along_rows, along_columns))
    one = lax.broadcast(eye(inner.dtype, k), shape[:-2])
    differences = lax.mul(lax.add(across, down), lax.sub(across, down))
    weights = lax.sub(lax.reciprocal(lax.add(differences, one)), one)
    by_columns, by_rows = lax.mul(inner, across), lax.mul(down, inner)
    # The skew-Hermitian part of the diagonal changes phases; half of it goes to each side.
    zero = lax.convert_element_type(lax.eq(s, lax.full_like(s, 0)), s.dtype)
    inverse = lax.sub(lax.reciprocal(lax.add(s, zero)), zero)
    turn = lax.mul(
        one, lax.mul(lax.sub(inner, mH(inner)), along_rows(inverse, shape).astype(inner.dtype))
    )
    turn = lax.mul(turn, np.array(0.5, turn.dtype))
    du = matmul(u, lax.add(lax.mul(weights, lax.add(by_columns, mH(by_columns))), turn))
    v = mH(vh)
    dv = matmul(v, lax.mul(weights, lax.add(by_rows, mH(by_rows))))
    if core.possibly_greater(m, n):
        gv = matmul(g, v)
        outside = _divide_columns(lax.sub(gv, matmul(u, matmul(mH(u), gv))), s)
        du = lax.add(du, _where_greater(m, n, outside))
    if core.possibly_greater(n, m):
        gu = matmul(mH(g), u)
        outside = _divide_columns(lax.sub(gu, matmul(v, matmul(vh, gu))), s)
        dv = lax.add(dv, _where_greater(n, m, outside))
    return du, mH(dv)


def _where_greater(m, n, x):
    """x if m > n, else zeros: symbolic sizes turn out to be so when the program is called."""
    if core.definitely_greater(m, n):
        return x
    greater = lax.gt(*[lax.convert_element_type(d, np.int32) for d in (m, n)])
    return lax.select(lax.broadcast(greater, x.shape), x, lax.full_like(x, 0))


def _divide_columns(x, s):
    return lax.div(x, along_rows(s, x.shape).astype(x.dtype))


def _subset(out, subset):
    s, *uv = out
    s = slicing.slice_in_dim(s, *subset, axis=s.ndim - 1)
    if not uv:
        return [s]
    u, vh = uv
    return [s, columns(u, *subset), rows(vh, *subset)]


# ---------------------------------------------------------------------------------------------------
# Lowering


def _with_subset(rule):
    """Wrap a rule to compute all singular values and select the requested subset."""

    def lower(ctx, x, *, full_matrices, compute_uv, subset_by_index, **params):
        (aval,) = ctx.avals_in
        k = min(aval.shape[-2:]) if core.is_constant_shape(aval.shape[-2:]) else None
        if core.is_empty_shape(aval.shape):
            return _lower_empty(ctx, x, full_matrices=full_matrices, compute_uv=compute_uv)
        params.update(full_matrices=full_matrices, compute_uv=compute_uv)
        if subset_by_index is None or subset_by_index == (0, k):
            return rule(ctx, x, **params)
        lead = aval.shape[:-2]
        shapes = _shape(
            aval.shape[-2:], full_matrices=False, compute_uv=compute_uv, subset_by_index=None,
            algorithm=None,
        )  # fmt: skip
        full = [core.ShapedArray((*lead, *s), o.dtype) for s, o in zip(shapes, ctx.avals_out)]
        out = rule(ctx.replace(avals_out=full), x, **params)
        take = mlir.lower_fun(lambda *a: _subset(a, subset_by_index), multiple_results=True)
        return take(ctx.replace(avals_in=full), *out)

    return lower


def _empty(x, *, full_matrices, compute_uv):
    *lead, m, n = x.shape
    s = lax.full((*lead, 0), 0, real_dtype(x.dtype))
    if m and n:  # the batch is empty
        s = lax.full((*lead, min(m, n)), 0, s.dtype)
    if not compute_uv:
        return [s]
    k = s.shape[-1]
    u = lax.broadcast(eye(x.dtype, m, m if full_matrices else k), lead)
    return [s, u, lax.broadcast(eye(x.dtype, n if full_matrices else k, n), lead)]


_lower_empty = mlir.lower_fun(_empty, multiple_results=True)


def _lower_cpu(ctx, x, *, full_matrices, compute_uv, algorithm):
    if algorithm in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
        raise NotImplementedError(
            "svd: the Jacobi and polar algorithms are not implemented on CPU. Use "
            "SvdAlgorithm.DIVIDE_AND_CONQUER, which is the default, or SvdAlgorithm.QR."
        )
    routine = "gesvd_ffi" if algorithm is SvdAlgorithm.QR else "gesdd_ffi"
    mode = ("A" if full_matrices else "S") if compute_uv else "N"
    full = full_matrices and compute_uv
    aval, s, u, vh, info = _avals(ctx, full, full)
    _, s_out, u_out, vh_out, status = kernels.call(
        ctx, kernels.lapack_target(ctx, routine), [x], [aval], [aval, s, u, vh, info],
        {"mode": kernels.char(mode)}, batch_dims=aval.ndim - 2, aliases={0: 0},
    )  # fmt: skip
    return _finish(ctx, status, [s_out, u_out, vh_out], [s, u, vh], compute_uv)


def _avals(ctx, full_u, full_v):
    (aval,) = ctx.avals_in
    *lead, m, n = aval.shape
    k = core.min_dim(m, n)
    return (
        aval,
        core.ShapedArray((*lead, k), real_dtype(aval.dtype)),
        core.ShapedArray((*lead, m, m if full_u else k), aval.dtype),
        core.ShapedArray((*lead, n if full_v else k, n), aval.dtype),
        kernels.info_aval(lead),
    )


def _finish(ctx, info, outputs, avals, compute_uv):
    count = 3 if compute_uv else 1
    return kernels.nan_unless(ctx, info, outputs[:count], avals[:count])


_JACOBI_LIMIT = 1024  # larger matrices use the QR algorithm by default


def _lower_gpu(ctx, x, *, full_matrices, compute_uv, algorithm, gpu):
    kernels.check_kernel_dtype(ctx, "GPU")
    (aval,) = ctx.avals_in
    m, n = aval.shape[-2:]
    if algorithm in (None, SvdAlgorithm.DEFAULT):
        small = core.is_constant_shape((m, n)) and max(m, n) <= _JACOBI_LIMIT
        algorithm = SvdAlgorithm.JACOBI if small else SvdAlgorithm.QR
    if algorithm is SvdAlgorithm.DIVIDE_AND_CONQUER and gpu == "cu":
        raise NotImplementedError(
            "svd: SvdAlgorithm.DIVIDE_AND_CONQUER is only supported on AMD (ROCm) GPUs, not on NVIDIA CUDA. "
            "Use SvdAlgorithm.QR, JACOBI or POLAR."
        )
    if algorithm in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
        return _gpu_with_v(ctx, x, full_matrices, compute_uv, algorithm, gpu)
    return _gpu_with_vh(ctx, x, full_matrices, compute_uv, algorithm, gpu)


def _gpu_with_v(ctx, x, full_matrices, compute_uv, algorithm, gpu):
    """Call kernels that return V instead of its adjoint."""
    jacobi = algorithm is SvdAlgorithm.JACOBI
    full = (full_matrices and compute_uv) or jacobi
    aval, s, u, vh, info = _avals(ctx, full, full)
    v = vh.update(shape=(*vh.shape[:-2], vh.shape[-1], vh.shape[-2]))
    _, s_out, u_out, v_out, status = kernels.call(
        ctx, f"{gpu}solver_{'gesvdj' if jacobi else 'gesvdp'}_ffi", [x], [aval], [aval, s, u, v, info],
        {"full_matrices": full, "compute_uv": compute_uv}, batch_dims=aval.ndim - 2, aliases={0: 0},
    )  # fmt: skip
    if not compute_uv:
        return _finish(ctx, status, [s_out], [s], False)
    wanted = [s, *_avals(ctx, full_matrices, full_matrices)[2:4]]

    def adjoint_and_crop(u, v):
        vh = mH(v)
        k = wanted[1].shape[-1]
        return [columns(u, 0, k), rows(vh, 0, wanted[2].shape[-2])]

    u_out, vh_out = mlir.lower_fun(adjoint_and_crop, multiple_results=True)(
        ctx.replace(avals_in=[u, v], avals_out=wanted[1:]), u_out, v_out
    )
    return _finish(ctx, status, [s_out, u_out, vh_out], wanted, True)


def _gpu_with_vh(ctx, x, full_matrices, compute_uv, algorithm, gpu):
    full = full_matrices and compute_uv
    aval, s, u, vh, info = _avals(ctx, full, full)
    m, n = aval.shape[-2:]
    # The QR algorithm does not support wide matrices. Reading one row-major transposes it, which
    # exchanges U and V.
    transposed = algorithm is SvdAlgorithm.QR and core.is_constant_shape((m, n)) and m < n
    first, second = (vh, u) if transposed else (u, vh)
    if not compute_uv:
        lead = core.ShapedArray(aval.shape[:-2], aval.dtype)
        first = second = lead
    name = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
    _, s_out, a, b, status = kernels.call(
        ctx, f"{gpu}solver_{name}_ffi", [x], [aval], [aval, s, first, second, info],
        {"full_matrices": full, "compute_uv": compute_uv, "transposed": transposed},
        batch_dims=aval.ndim - 2, aliases={0: 0}, row_major=transposed,
    )  # fmt: skip
    u_out, vh_out = (b, a) if transposed else (a, b)
    return _finish(ctx, status, [s_out, u_out, vh_out], [s, u, vh], compute_uv)


def svd_by_polar(
    x: Any,
    *,
    full_matrices: bool,
    compute_uv: bool,
    hermitian: bool = False,
    max_iterations: int | None = None,
    subset_by_index: tuple[int, int] | None = None,
) -> list[Any]:
    """Return [s, U, Vh] or [s], from the polar decomposition x = W H and the eigh of H.

    Nakatsukasa and Higham, "Stable and efficient spectral divide and conquer algorithms for the
    symmetric eigenvalue decomposition and the SVD" (2013).
    """
    m, n = x.shape[-2:]
    if m < n:
        out = svd_by_polar(
            mH(x),
            full_matrices=full_matrices,
            compute_uv=compute_uv,
            max_iterations=max_iterations,
            subset_by_index=subset_by_index,
        )
        return [out[0], mH(out[2]), mH(out[1])] if compute_uv else out
    q = None
    if m > n:
        q, x = qr(x, full_matrices=full_matrices and compute_uv)
        x = rows(x, 0, n)
    if subset_by_index is not None:  # eigenvalues come in ascending order
        subset_by_index = (n - subset_by_index[1], n - subset_by_index[0])
        if subset_by_index == (0, n):
            subset_by_index = None
    w, h, _, _ = qdwh(x, is_hermitian=hermitian, max_iterations=max_iterations)
    v, s = eigh(h, symmetrize_input=False, subset_by_index=subset_by_index)
    v, s = lax.rev(v, (v.ndim - 1,)), lax.rev(s, (s.ndim - 1,))
    # Rounding may yield small negative singular values.
    s = lax.max(s, lax.full_like(s, 0))
    if not compute_uv:
        return [s]
    u = _orthonormal(matmul(w, v))
    if q is not None:
        first = matmul(columns(q, 0, n), u)
        u = lax.concatenate([first, columns(q, n, m)], q.ndim - 1) if full_matrices else first
    return [s, u, mH(v)]


def _orthonormal(u):
    """Complete zero columns, which W @ V has for zero singular values, to an orthonormal basis."""
    q, r = qr(u, full_matrices=False)
    d = diagonal(r)
    size = lax.abs(d).astype(d.dtype)
    none = lax.eq(size, lax.full_like(size, 0))
    phase = lax.select(
        none, lax.full_like(d, 1), lax.div(d, lax.select(none, lax.full_like(d, 1), size))
    )
    return scale_columns(q, phase)


_polar_rule = mlir.lower_fun(svd_by_polar, multiple_results=True)


def _lower_tpu(ctx, x, *, algorithm, **params):
    if algorithm not in (None, SvdAlgorithm.DEFAULT, SvdAlgorithm.POLAR):
        raise NotImplementedError(
            "svd: only the POLAR algorithm, which is the default, is supported on TPU"
        )
    return _polar_rule(ctx, x, **params)


svd_p = linalg_primitive(
    "svd",
    FLOAT | COMPLEX,
    (2,),
    _shape,
    dtype=_dtype,
    multiple_results=True,
    lower={
        "cpu": _with_subset(_lower_cpu),
        "tpu": _with_subset(_lower_tpu),
        **kernels.on_gpus(_with_subset(_lower_gpu)),
    },
    jvp=_jvp,
)
