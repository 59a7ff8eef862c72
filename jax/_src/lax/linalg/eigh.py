"""Eigendecomposition of Hermitian matrices."""

from __future__ import annotations

import enum
import functools
import math
from typing import Any

import numpy as np

from jax._src import core
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import mlir
from jax._src.late_binding import late
from jax._src.lax import lax, slicing
from jax._src.lax.control_flow import map as map_over_first
from jax._src.lax.linalg import kernels
from jax._src.lax.linalg.common import (
    diagonal,
    eye,
    is_complex_dtype,
    linalg_primitive,
    matmul,
    mH,
    real,
    real_dtype,
    symmetrize,
    tril,
    triu,
)
from jax._src.lax.linalg.spectral import sorted_by_value, spectral_eigh
from jax._src.lax.rules import COMPLEX, FLOAT
from jax._src.typing import ArrayLike


class EighImplementation(enum.Enum):
    """Algorithms for the eigendecomposition of Hermitian matrices."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Compute eigenvectors and eigenvalues of Hermitian matrices.

    Args:
      x: matrices of shape (..., n, n), floating point or complex.
      lower: whether to read the lower triangle, otherwise the upper one; with `symmetrize_input`
        both are used.
      symmetrize_input: whether to decompose (x + x^H) / 2.
      sort_eigenvalues: whether eigenvalues must be in ascending order.
      subset_by_index: `(start, stop)`: return only the eigenvalues with these indices. CPUs and
        GPUs compute all of them and drop the rest.
      implementation: QR (CPU and GPU), JACOBI (GPU and TPU) or QDWH (TPU); None for the platform's
        default.

    Returns:
      `(v, w)`: eigenvectors, as the columns of an array (..., n, d), and real eigenvalues (..., d).
      They are NaN if the decomposition does not converge.

    Raises:
      TypeError, ValueError: if dtypes, shapes or the subset are invalid.
      NotImplementedError: when compiled for a platform that does not support the implementation.

    >>> v, w = lax.linalg.eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> bool(jnp.allclose(w, jnp.array([1.0, 3.0]), atol=1e-2))
    True
    """
    x = late.to_array(x)
    if implementation is not None:
        implementation = EighImplementation(implementation)
    if symmetrize_input:
        _check(x.shape)
        x = symmetrize(x)
    if subset_by_index is not None:
        subset_by_index = tuple(map(int, subset_by_index))
    v, w = eigh_p.bind(
        x,
        lower=bool(lower),
        sort_eigenvalues=bool(sort_eigenvalues),
        subset_by_index=subset_by_index,
        algorithm=implementation,
    )
    return v, w


def _check(shape):
    if len(shape) < 2:
        raise TypeError(f"Input 0 to eigh must have rank at least 2, but got shape={shape}")
    if shape[-1] != shape[-2]:
        raise ValueError(
            f"Argument to symmetric eigendecomposition must have shape [..., n, n], got shape {shape}"
        )


def check_subset(subset: tuple[int, int], n: Any, what: str) -> None:
    """Raise ValueError unless `subset` is a range of indices below n."""
    start, stop = subset
    if not 0 <= start <= stop <= n:
        raise ValueError(
            f"subset_by_index must be (start, stop) with 0 <= start <= stop <= {n}, the number of {what}. "
            f"Got {subset}."
        )


def _shape(x, *, subset_by_index, **_):
    _check(x)
    n = d = x[0]
    if subset_by_index is not None:
        check_subset(subset_by_index, n, "eigenvalues")
        d = subset_by_index[1] - subset_by_index[0]
    return [(n, d), (d,)]


def _jvp(primals, tangents, *, subset_by_index, **params):
    (x,), (g,) = primals, tangents
    n = x.shape[-1]
    if type(g) is Zero:
        v, w = eigh_p.bind(x, subset_by_index=subset_by_index, **params)
        return [v, w], [Zero.from_primal_value(v), Zero.from_primal_value(w)]
    # Giles, "An extended collection of matrix derivative results" (2008), section 3.1.
    v, w = eigh_p.bind(x, subset_by_index=None, **params)
    inner = matmul(mH(v), matmul(g, v))
    shape = inner.shape
    w_full = w.astype(v.dtype)
    across = lax.broadcast_in_dim(w_full, shape, (*range(len(shape) - 2), len(shape) - 1))
    down = lax.broadcast_in_dim(w_full, shape, tuple(range(len(shape) - 1)))
    one = lax.broadcast(eye(v.dtype, n), shape[:-2])
    weights = lax.sub(lax.reciprocal(lax.add(one, lax.sub(across, down))), one)
    dv = matmul(v, lax.mul(weights, inner))
    dw = real(diagonal(inner))
    out = [v, w, dv, dw]
    if subset_by_index is not None and subset_by_index != (0, n):
        out = [slicing.slice_in_dim(a, *subset_by_index, axis=a.ndim - 1) for a in out]
    return out[:2], out[2:]


def _lower_cpu(ctx, x, *, lower, algorithm, **params):
    if algorithm is EighImplementation.JACOBI:
        raise NotImplementedError("eigh: the Jacobi implementation is not supported on CPU")
    _reject_qdwh(algorithm)
    routine = "heevd_ffi" if is_complex_dtype(ctx.avals_in[0].dtype) else "syevd_ffi"
    attributes = {"mode": kernels.char("V"), "uplo": kernels.char("L" if lower else "U")}
    return _syevd(ctx, x, kernels.lapack_target(ctx, routine), attributes, **params)


def _lower_gpu(ctx, x, *, lower, algorithm, gpu, **params):
    kernels.check_kernel_dtype(ctx, "GPU")
    _reject_qdwh(algorithm)
    code = {None: 0, EighImplementation.QR: 1, EighImplementation.JACOBI: 2}[algorithm]
    attributes = {"lower": lower, "algorithm": np.uint8(code)}
    return _syevd(ctx, x, f"{gpu}solver_syevd_ffi", attributes, **params)


def _reject_qdwh(algorithm):
    if algorithm is EighImplementation.QDWH:
        raise NotImplementedError("eigh: the QDWH implementation is only supported on TPU")


def _syevd(ctx, x, target, attributes, *, sort_eigenvalues, subset_by_index):
    (aval,) = ctx.avals_in
    lead, n = aval.shape[:-2], aval.shape[-1]
    w_aval = core.ShapedArray((*lead, n), real_dtype(aval.dtype))
    v, w, info = kernels.call(
        ctx, target, [x], [aval], [aval, w_aval, kernels.info_aval(lead)], attributes,
        batch_dims=len(lead), aliases={0: 0},
    )  # fmt: skip
    out = kernels.nan_unless(ctx, info, [v, w], [aval, w_aval])
    if subset_by_index is None or subset_by_index == (0, n):
        return out
    return [
        _take_last(ctx, a, av, subset_by_index, o)
        for a, av, o in zip(out, [aval, w_aval], ctx.avals_out)
    ]


def _take_last(ctx, x, aval, subset, out):
    (y,) = mlir.lower_fun(
        lambda a: slicing.slice_in_dim(a, *subset, axis=a.ndim - 1), multiple_results=False
    )(ctx.replace(avals_in=[aval], avals_out=[out]), x)
    return y


# By default, larger matrices are split by polar decompositions into blocks of this size.
_JACOBI_LIMIT = 256


def _lower_tpu(ctx, x, *, algorithm, **params):
    (aval,) = ctx.avals_in
    n = aval.shape[-1]
    if algorithm is EighImplementation.QR:
        raise NotImplementedError("eigh: the QR algorithm is not supported on TPU")
    if algorithm is EighImplementation.QDWH and not core.is_constant_shape((n,)):
        raise NotImplementedError(
            f"eigh: the QDWH implementation needs matrices of known size, got shape {aval.shape}"
        )
    small = not core.is_constant_shape((n,)) or n <= _JACOBI_LIMIT
    if algorithm is EighImplementation.JACOBI or (algorithm is None and small):
        return _jacobi_call(ctx, x, **params)
    rule = mlir.lower_fun(functools.partial(eigh_by_polar, **params), multiple_results=True)
    return rule(ctx, x)


def _jacobi_call(ctx, x, *, lower, sort_eigenvalues, subset_by_index):
    (aval,) = ctx.avals_in
    full = [aval, core.ShapedArray(aval.shape[:-1], real_dtype(aval.dtype))]
    options = f"{int(lower)},{int(sort_eigenvalues)},100,1e-6"
    out = kernels.expanded_call(ctx, "Eigh", [x], full, backend_config=options)
    if subset_by_index is None or subset_by_index == (0, aval.shape[-1]):
        return out
    return [
        _take_last(ctx, a, av, subset_by_index, o) for a, av, o in zip(out, full, ctx.avals_out)
    ]


def eigh_by_polar(
    x: Any,
    *,
    lower: bool,
    sort_eigenvalues: bool,
    subset_by_index: tuple[int, int] | None,
    termination_size: int = _JACOBI_LIMIT,
) -> tuple[Any, Any]:
    """Decompose Hermitian matrices (..., n, n) into (eigenvectors, eigenvalues), see `spectral`."""
    n = x.shape[-1]
    subset = (0, n) if subset_by_index is None else subset_by_index

    def of_one(h):
        half = tril(h, -1) if lower else triu(h, 1)
        h = lax.add(lax.add(half, mH(half)), lax.mul(real(h).astype(h.dtype), eye(h.dtype, n)))
        w, v = spectral_eigh(
            h,
            lambda block: eigh(block, symmetrize_input=False),
            termination_size=min(termination_size, n),
            subset=subset,
        )
        w, v = (slicing.slice_in_dim(a, *subset, axis=a.ndim - 1) for a in (w, v))
        return sorted_by_value(w, v)[::-1] if sort_eigenvalues else (v, w)

    lead = x.shape[:-2]
    if not lead:
        return of_one(x)
    v, w = map_over_first(of_one, lax.reshape(x, (math.prod(lead), n, n)))
    return lax.reshape(v, (*lead, *v.shape[1:])), lax.reshape(w, (*lead, *w.shape[1:]))


eigh_p = linalg_primitive(
    "eigh",
    FLOAT | COMPLEX,
    (2,),
    _shape,
    dtype=lambda x, **_: [x, real_dtype(x)],
    multiple_results=True,
    lower={"cpu": _lower_cpu, "tpu": _lower_tpu, **kernels.on_gpus(_lower_gpu)},
    jvp=_jvp,
)
