"""Eigendecomposition of general matrices, Hessenberg reduction and Schur decomposition."""

from __future__ import annotations

import enum
import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import config, core, lib, traceback_util
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.errors import InconclusiveDimensionOperation
from jax._src.interpreters import mlir
from jax._src.lax import lax
from jax._src.lax.linalg import kernels
from jax._src.lax.linalg.common import (
    along_columns,
    along_rows,
    check_square,
    complex_dtype,
    conj,
    diagonal,
    eye,
    is_complex_dtype,
    linalg_primitive,
    matmul,
    mH,
    permute_rows,
    scale_columns,
)
from jax._src.lax.linalg.lu import lu
from jax._src.lax.linalg.triangular import triangular_solve
from jax._src.lax.rules import COMPLEX, FLOAT
from jax._src.typing import ArrayLike


class EigImplementation(enum.Enum):
    """Libraries for the eigendecomposition of general matrices on GPU; CPU supports LAPACK only."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Compute eigenvalues and eigenvectors of general matrices, on CPU and GPU.

    Args:
      x: matrices of shape (..., n, n), floating point or complex.
      compute_left_eigenvectors: whether to return vectors u with `u^H @ x = w u^H`.
      compute_right_eigenvectors: whether to return vectors v with `x @ v = w v`.
      enable_eigvec_derivs: whether eigenvectors may be differentiated. They have norm 1, and their
        largest component is real. The derivative is valid if all eigenvalues are distinct and the
        largest component of each vector is unique.
      implementation: library to use on GPU: LAPACK on the host, MAGMA, or CUSOLVER (CUDA 12.6.2 or
        newer, without left eigenvectors); None to choose automatically, considering
        `jax_use_magma`.
      use_magma: deprecated: True for MAGMA, False for LAPACK.

    Returns:
      A list of the eigenvalues (..., n), and the requested left and right eigenvectors, as the
      columns of arrays (..., n, n). All are complex, and NaN if the decomposition fails.

    Raises:
      TypeError, ValueError: if the dtype or shape is invalid.
      NotImplementedError: if eigenvectors are differentiated without `enable_eigvec_derivs`.

    >>> w, _, v = lax.linalg.eig(jnp.array([[0.0, 1.0], [-1.0, 0.0]]))
    >>> w.imag.tolist()
    [1.0, -1.0]
    """
    if use_magma is not None:
        warnings.warn(
            "use_magma is deprecated, please use implementation=EigImplementation.MAGMA (or LAPACK) "
            "instead.",
            DeprecationWarning,
            stacklevel=traceback_util.user_stacklevel(),
        )
        if implementation is not None:
            raise ValueError("eig takes implementation or use_magma, not both.")
        implementation = EigImplementation.MAGMA if use_magma else EigImplementation.LAPACK
    return eig_p.bind(
        x,
        compute_left_eigenvectors=bool(compute_left_eigenvectors),
        compute_right_eigenvectors=bool(compute_right_eigenvectors),
        enable_eigvec_derivs=bool(enable_eigvec_derivs),
        implementation=None if implementation is None else EigImplementation(implementation),
    )


def _eig_shape(x, *, compute_left_eigenvectors, compute_right_eigenvectors, **_):
    check_square("eig", x)
    return [(x[0],)] + [x] * (compute_left_eigenvectors + compute_right_eigenvectors)


def _eig_dtype(x, *, compute_left_eigenvectors, compute_right_eigenvectors, **_):
    return [complex_dtype(x)] * (1 + compute_left_eigenvectors + compute_right_eigenvectors)


def _eig_jvp(primals, tangents, *, compute_left_eigenvectors, compute_right_eigenvectors, **params):
    (x,), (g,) = primals, tangents
    left, right = compute_left_eigenvectors, compute_right_eigenvectors
    if type(g) is Zero:
        out = eig_p.bind(
            x, compute_left_eigenvectors=left, compute_right_eigenvectors=right, **params
        )
        return out, [Zero.from_primal_value(o) for o in out]
    if (left or right) and not params["enable_eigvec_derivs"]:
        raise NotImplementedError(
            "Derivatives of non-symmetric eigenvectors are only valid under assumptions on the input that "
            "JAX cannot check (see the enable_eigvec_derivs argument to jax.lax.linalg.eig). Pass "
            "enable_eigvec_derivs=True to jax.lax.linalg.eig to opt in. See "
            "https://github.com/jax-ml/jax/issues/2748 for discussion."
        )
    w, *vl, vr = eig_p.bind(
        x, compute_left_eigenvectors=left, compute_right_eigenvectors=True, **params
    )
    # Giles, "An extended collection of matrix derivative results" (2008), section 3.1.
    g = lax.convert_element_type(g, w.dtype)
    inner = _solve(vr, matmul(g, vr))
    out, tangent = [w], [diagonal(inner)]
    if left:
        # Left eigenvectors are right ones of the adjoint, whose eigenvalues are the conjugates.
        (u,) = vl
        out.append(u)
        tangent.append(_vector_tangent(conj(w), u, _solve(u, matmul(mH(g), u))))
    if right:
        out.append(vr)
        tangent.append(_vector_tangent(w, vr, inner))
    return out, tangent


def _solve(a, b):
    """Return a^-1 b."""
    factors, _, permutation = lu(a)
    b = permute_rows(b, permutation)
    b = triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
    return triangular_solve(factors, b, left_side=True, lower=False)


def _vector_tangent(w, v, inner):
    """Return tangents of eigenvectors whose norm stays 1 and whose largest component stays real."""
    n = v.shape[-1]
    one = lax.broadcast(eye(v.dtype, n), v.shape[:-2])
    differences = lax.sub(along_rows(w, v.shape), along_columns(w, v.shape))
    weights = lax.sub(lax.reciprocal(lax.add(differences, one)), one)
    dv = matmul(v, lax.mul(weights, inner))
    d = v.ndim - 2
    stretch = lax.real(lax.reduce_sum(lax.mul(conj(v), dv), (d,)))
    largest = lax.argmax(lax.abs(v), d, np.int32)
    here = lax.eq(
        lax.broadcasted_iota(np.int32, v.shape, d),
        lax.broadcast_in_dim(largest, v.shape, (*range(d), d + 1)),
    )

    def pick(a):
        return lax.reduce_sum(lax.select(here, a, lax.full_like(a, 0)), (d,))

    turn = lax.div(pick(lax.imag(dv)), pick(lax.real(v)))
    return lax.sub(dv, scale_columns(v, lax.complex(stretch, turn)))


def _eig_cpu(ctx, x, *, compute_left_eigenvectors, compute_right_eigenvectors, implementation, **_):
    if implementation not in (None, EigImplementation.LAPACK):
        raise ValueError("eig: only the LAPACK implementation is supported on CPU.")
    attributes = {
        "compute_left": kernels.char("V" if compute_left_eigenvectors else "N"),
        "compute_right": kernels.char("V" if compute_right_eigenvectors else "N"),
    }
    target = kernels.lapack_target(ctx, "geev_ffi")
    return _geev(ctx, x, target, attributes, compute_left_eigenvectors, compute_right_eigenvectors)


def _eig_gpu(
    ctx, x, *, compute_left_eigenvectors, compute_right_eigenvectors, implementation, gpu, **_
):
    kernels.check_kernel_dtype(ctx, "GPU")
    left, right = compute_left_eigenvectors, compute_right_eigenvectors
    if implementation is None:
        can = gpu == "cu" and not left and _cusolver_version() >= _CUSOLVER_GEEV
        if can and config.gpu_use_magma.value != "on":
            implementation = EigImplementation.CUSOLVER
    if implementation is EigImplementation.CUSOLVER:
        if gpu != "cu" or _cusolver_version() < _CUSOLVER_GEEV:
            raise RuntimeError("Nonsymmetric eigendecomposition requires cusolver 11.7.1 or newer")
        if left:
            raise NotImplementedError(
                "eig: cusolver does not compute left eigenvectors. Pass compute_left_eigenvectors=False, or "
                "another implementation."
            )
        attributes = {"left": left, "right": right}
        return _geev(ctx, x, f"{gpu}solver_geev_ffi", attributes, left, right)
    magma = config.gpu_use_magma.value
    if implementation is not None:
        magma = "on" if implementation is EigImplementation.MAGMA else "off"
    lib.gpu_solver.initialize_hybrid_kernels()
    kind = "comp" if is_complex_dtype(ctx.avals_in[0].dtype) else "real"
    attributes = {"magma": magma, "left": left, "right": right}
    return _geev(ctx, x, f"{gpu}hybrid_eig_{kind}", attributes, left, right)


_CUSOLVER_GEEV = 11701  # the version in CUDA 12.6 update 2


@functools.cache
def _cusolver_version() -> int:
    versions = lib.plugin_support.import_from_plugin("cuda", "_versions")
    return versions.cusolver_get_version() if versions is not None else 0


def _geev(ctx, x, target, attributes, left, right):
    (aval,) = ctx.avals_in
    lead, n = aval.shape[:-2], aval.shape[-1]
    w = core.ShapedArray((*lead, n), complex_dtype(aval.dtype))
    v = core.ShapedArray(aval.shape, w.dtype)
    parts = [w]
    if not is_complex_dtype(aval.dtype):
        parts = [core.ShapedArray(w.shape, aval.dtype)] * 2
    *values, vl, vr, info = kernels.call(
        ctx, target, [x], [aval], [*parts, v, v, kernels.info_aval(lead)], attributes,
        batch_dims=len(lead),
    )  # fmt: skip
    out, avals = [mlir.hlo.complex(*values) if len(values) == 2 else values[0]], [w]
    for vectors, wanted in ((vl, left), (vr, right)):
        if wanted:
            out.append(vectors)
            avals.append(v)
    return kernels.nan_unless(ctx, info, out, avals)


eig_p = linalg_primitive(
    "eig",
    FLOAT | COMPLEX,
    (2,),
    _eig_shape,
    dtype=_eig_dtype,
    multiple_results=True,
    lower={"cpu": _eig_cpu, **kernels.on_gpus(_eig_gpu)},
    jvp=_eig_jvp,
)

# ---------------------------------------------------------------------------------------------------
# Hessenberg reduction


def hessenberg(a: ArrayLike) -> list[Array]:
    """Reduce square matrices to upper Hessenberg form, on CPU.

    Args:
      a: matrices of shape (..., n, n), floating point or complex.

    Returns:
      A list `(a, taus)`: the Hessenberg form on and above the first subdiagonal of `a`, the vectors
      of Householder reflections below it, and their factors `taus`, of shape (..., n - 1).

    Raises:
      TypeError, ValueError: if the dtype or shape is invalid.

    >>> a, taus = lax.linalg.hessenberg(jnp.ones((3, 3)))
    >>> taus.shape
    (2,)
    """
    return hessenberg_p.bind(a)


def _hessenberg_shape(a):
    if a[0] != a[1]:
        raise ValueError(
            f"Argument to Hessenberg reduction must have shape [..., n, n], got shape {tuple(a)}"
        )
    return [a, (core.max_dim(a[0] - 1, 0),)]


def _hessenberg_cpu(ctx, a):
    (aval,) = ctx.avals_in
    lead = aval.shape[:-2]
    if core.is_symbolic_dim(size := aval.shape[-1]):
        raise InconclusiveDimensionOperation(
            f"hessenberg: the size of matrices must be constant, got the symbolic size {size}: the native "
            "routine has it as a constant. Export for a constant size; others may be symbolic."
        )
    attributes = {"low": np.int32(1), "high": np.int32(size)}
    a, taus, info = kernels.call(
        ctx, kernels.lapack_target(ctx, "gehrd_ffi"), [a], [aval],
        [*ctx.avals_out, kernels.info_aval(lead)], attributes, batch_dims=len(lead), aliases={0: 0},
    )  # fmt: skip
    return kernels.nan_unless(ctx, info, [a, taus], ctx.avals_out)


hessenberg_p = linalg_primitive(
    "hessenberg",
    FLOAT | COMPLEX,
    (2,),
    _hessenberg_shape,
    multiple_results=True,
    lower={"cpu": _hessenberg_cpu},
)

# ---------------------------------------------------------------------------------------------------
# Schur decomposition


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Array]:
    """Compute the Schur decomposition `x = Q @ T @ Q^H`, on CPU.

    Q is unitary, and T is upper triangular, or quasi upper triangular for a real matrix.

    Args:
      x: matrices of shape (..., n, n), floating point or complex. For a real matrix, T has blocks
        of size 2 for pairs of complex eigenvalues.
      compute_schur_vectors: whether to return Q.
      sort_eig_vals, select_callable: not implemented; they must not be set.

    Returns:
      A list `(T, Q)`, or `(T,)`; NaN if the decomposition fails.

    Raises:
      TypeError, ValueError: if the dtype or shape is invalid.
      NotImplementedError: if eigenvalues should be sorted.

    >>> t, q = lax.linalg.schur(jnp.array([[0.0, 2.0], [2.0, 0.0]]))
    >>> bool(jnp.allclose((q @ t @ q.T), jnp.array([[0.0, 2.0], [2.0, 0.0]]), atol=1e-2))
    True
    """
    if sort_eig_vals or select_callable is not None:
        raise NotImplementedError(
            "schur: sorting eigenvalues (sort_eig_vals, select_callable) is not implemented."
        )
    return schur_p.bind(
        x,
        compute_schur_vectors=bool(compute_schur_vectors),
        sort_eig_vals=False,
        select_callable=None,
    )


def _schur_shape(x, *, compute_schur_vectors, **_):
    check_square("schur", x)
    return [x] * (1 + compute_schur_vectors)


def _schur_cpu(ctx, x, *, compute_schur_vectors, **_):
    (aval,) = ctx.avals_in
    lead, n = aval.shape[:-2], aval.shape[-1]
    info = kernels.info_aval(lead)
    w = core.ShapedArray((*lead, n), aval.dtype)
    values = [w] if is_complex_dtype(aval.dtype) else [w, w]
    attributes = {
        "mode": kernels.char("V" if compute_schur_vectors else "N"),
        "sort": kernels.char("N"),
    }
    t, q, *_, status = kernels.call(
        ctx, kernels.lapack_target(ctx, "gees_ffi"), [x], [aval], [aval, aval, *values, info, info],
        attributes, batch_dims=len(lead), aliases={0: 0},
    )  # fmt: skip
    return kernels.nan_unless(ctx, status, [t, q][: len(ctx.avals_out)], ctx.avals_out)


schur_p = linalg_primitive(
    "schur",
    FLOAT | COMPLEX,
    (2,),
    _schur_shape,
    multiple_results=True,
    lower={"cpu": _schur_cpu},
)
