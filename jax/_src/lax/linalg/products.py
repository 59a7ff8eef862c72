"""Products with symmetric results."""

from __future__ import annotations

from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import ad, mlir
from jax._src.lax import lax
from jax._src.lax.linalg import kernels
from jax._src.lax.linalg.common import linalg_primitive, matmul, mT, tril
from jax._src.lax.rules import FLOAT
from jax._src.typing import ArrayLike


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """Compute `alpha * A @ A^T + beta * C`; it is differentiable.

    Args:
      a_matrix: A, floating-point matrices of shape (..., m, n).
      c_matrix: C, symmetric matrices of shape (..., m, m).
      alpha, beta: Python numbers.
      symmetrize_output: whether to fill both triangles of the result. If false, only the lower
        triangle is the same on all platforms.

    Returns:
      Array of shape (..., m, m).

    Raises:
      TypeError, ValueError: if dtypes or shapes are invalid.

    >>> lax.linalg.symmetric_product(jnp.eye(2), jnp.ones((2, 2)), beta=2.0).tolist()
    [[3.0, 2.0], [2.0, 3.0]]
    """
    out = symmetric_product_p.bind(a_matrix, c_matrix, alpha=float(alpha), beta=float(beta))
    if symmetrize_output:
        out = lax.add(tril(out), mT(tril(out, -1)))
    return out


def _shape(a, c, *, alpha, beta):
    if c != (a[0], a[0]):
        raise ValueError(
            "symmetric_product expects a rectangular matrix of shape (m, n) and a square matrix of shape "
            f"(m, m). Got shapes {tuple(a)} and {tuple(c)}."
        )
    return c


def _compute(a, c, *, alpha, beta):
    out = lax.mul(lax.full_like(c, alpha), matmul(a, mT(a)))
    return lax.add(out, lax.mul(lax.full_like(c, beta), c))


def _jvp(primals, tangents, *, alpha, beta):
    (a, c), (da, dc) = primals, tangents
    out = symmetric_product_p.bind(a, c, alpha=alpha, beta=beta)
    total = Zero.from_primal_value(out)
    if type(da) is not Zero:
        half = matmul(da, mT(a))
        total = lax.mul(lax.full_like(half, alpha), lax.add(half, mT(half)))
    if type(dc) is not Zero:
        total = ad.add_tangents(total, lax.mul(lax.full_like(dc, beta), dc))
    return out, total


def _lower_cuda(ctx, a, c, *, alpha, beta):
    a_aval, c_aval = ctx.avals_in
    if c_aval.ndim != 2 or str(c_aval.dtype) not in ("float32", "float64"):
        return _default(ctx, a, c, alpha=alpha, beta=beta)
    kernels.register_gpu_kernels()
    scalar = c_aval.update(shape=())
    numbers = [mlir.full_like_aval(ctx, x, scalar) for x in (alpha, beta)]
    return kernels.call(
        ctx, "cusolver_syrk_ffi", [a, c, *numbers], [a_aval, c_aval, scalar, scalar], ctx.avals_out,
        {"transpose": False}, batch_dims=None, aliases={1: 0}, row_major=True,
    )  # fmt: skip


_default = mlir.lower_fun(_compute, multiple_results=False)

symmetric_product_p = linalg_primitive(
    "symmetric_product",
    FLOAT,
    (2, 2),
    _shape,
    lower={None: _default, "cuda": _lower_cuda},
    jvp=_jvp,
)
