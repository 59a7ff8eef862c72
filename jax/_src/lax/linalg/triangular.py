"""Linear systems with triangular matrices."""

from __future__ import annotations

from jax._src import core
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.lax.linalg import kernels
from jax._src.lax.linalg.common import (
    check_square,
    conj,
    is_complex,
    linalg_primitive,
    matmul,
    mT,
    tril,
    triu,
)
from jax._src.lax.rules import COMPLEX, FLOAT
from jax._src.typing import ArrayLike


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve triangular systems: `op(a) @ x = b` with `left_side`, otherwise `x @ op(a) = b`.

    Args:
      a: triangular matrices of shape (..., m, m); the other triangle is not read.
      b: matrices of the dtype of `a` and shape (..., m, n) with `left_side`, otherwise (..., n, m).
        If it has one dimension less, it is a batch of vectors.
      left_side: whether `a` is on the left side of x.
      lower: whether `a` is lower triangular.
      transpose_a, conjugate_a: whether op transposes and conjugates `a`.
      unit_diagonal: whether to assume that the diagonal of `a` is one, without reading it.

    Returns:
      Array of the shape and dtype of `b`.

    Raises:
      TypeError, ValueError: if dtypes or shapes are invalid.

    >>> a = jnp.array([[2.0, 0.0], [1.0, 4.0]])
    >>> lax.linalg.triangular_solve(a, jnp.array([2.0, 9.0]), left_side=True, lower=True).tolist()
    [1.0, 2.0]
    """
    a, b = late.to_array(a), late.to_array(b)
    vector = b.ndim == a.ndim - 1
    if vector:
        b = lax.expand_dims(b, (b.ndim if left_side else b.ndim - 1,))
    out = triangular_solve_p.bind(
        a,
        b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a) and is_complex(a),
        unit_diagonal=bool(unit_diagonal),
    )
    return lax.squeeze(out, (out.ndim - 1 if left_side else out.ndim - 2,)) if vector else out


def _shape(a, b, *, left_side, **_):
    check_square("triangular_solve", a, "The first input to")
    if a[0] != b[0 if left_side else 1]:
        raise ValueError(
            f"Incompatible shapes for arguments to triangular_solve: {tuple(a)} and {tuple(b)}. With "
            f"left_side={left_side} the {'rows' if left_side else 'columns'} of b must be as many as "
            "those of a."
        )
    return b


def _tangent_of_a(g, x, a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    # op(a) x = b gives op(a) dx = -op(da) x.
    g = tril(g, -unit_diagonal) if lower else triu(g, int(unit_diagonal))
    if transpose_a:
        g = mT(g)
    if conjugate_a:
        g = conj(g)
    rhs = matmul(g, x) if left_side else matmul(x, g)
    return triangular_solve_p.bind(
        a, lax.neg(rhs), left_side=left_side, lower=lower, transpose_a=transpose_a,
        conjugate_a=conjugate_a, unit_diagonal=unit_diagonal,
    )  # fmt: skip


def _tangent_of_b(g, x, a, b, **params):
    return triangular_solve_p.bind(a, g, **params)


def _transpose(ct, a, b, *, transpose_a, **params):
    assert not ad.is_undefined_primal(a) and ad.is_undefined_primal(b)
    if type(ct) is Zero:
        return [None, Zero(b.aval)]
    return [None, triangular_solve_p.bind(a, ct, transpose_a=not transpose_a, **params)]


def _batch(args, dims, *, left_side, **params):
    (a, b), (a_dim, b_dim) = args, dims
    if a_dim is not None:
        return batching.expand_dims_batcher(
            triangular_solve_p, args, dims, left_side=left_side, **params
        )
    # All systems share one matrix, so concatenate the right-hand sides.
    at = b.ndim - 1 if left_side else b.ndim - 3
    b = batching.moveaxis(b, b_dim, at)
    *lead, p, q, r = b.shape
    merged = lax.reshape(b, (*lead, p, q * r) if left_side else (*lead, p * q, r))
    out = triangular_solve_p.bind(a, merged, left_side=left_side, **params)
    return lax.reshape(out, b.shape), at


def _lower(ctx, a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    hlo = mlir.hlo
    if conjugate_a and not transpose_a:
        (a,) = _emit_conj(ctx.replace(avals_in=ctx.avals_in[:1], avals_out=ctx.avals_in[:1]), a)
    op = "ADJOINT" if conjugate_a else "TRANSPOSE"
    return [
        hlo.triangular_solve(
            a,
            b,
            left_side=left_side,
            lower=lower,
            unit_diagonal=unit_diagonal,
            transpose_a=hlo.TransposeAttr.get(op if transpose_a else "NO_TRANSPOSE"),
        )
    ]


def _lower_cpu(ctx, a, b, **params):
    a_aval, b_aval = ctx.avals_in
    if str(a_aval.dtype) not in kernels.KERNEL_DTYPES:
        return _lower(ctx, a, b, **params)
    if params["conjugate_a"] and not params["transpose_a"]:
        (a,) = _emit_conj(ctx.replace(avals_in=[a_aval], avals_out=[a_aval]), a)
    trans = ("C" if params["conjugate_a"] else "T") if params["transpose_a"] else "N"
    return kernels.call(
        ctx,
        kernels.lapack_target(ctx, "trsm_ffi"),
        [a, b],
        ctx.avals_in,
        ctx.avals_out,
        {
            "side": kernels.char("L" if params["left_side"] else "R"),
            "uplo": kernels.char("L" if params["lower"] else "U"),
            "trans_x": kernels.char(trans),
            "diag": kernels.char("U" if params["unit_diagonal"] else "N"),
        },
        batch_dims=a_aval.ndim - 2,
        aliases={1: 0},
    )


_emit_conj = mlir.lower_fun(lax.conj, multiple_results=False)


def _element_sharding(a, b, *, left_side, transpose_a, **_):
    """Return the spec of the product of inv(a) and b; contracted dimensions must be unsharded."""
    rows, columns = reversed(a) if transpose_a else a
    contracted, kept = (columns, rows) if left_side else (rows, columns)
    along, free = b if left_side else reversed(b)
    for operand, axes, spec in (("a", contracted, a), ("b", along, b)):
        if axes is not None:
            raise core.ShardingTypeError(
                f"triangular_solve: the dimension of `{operand}` that is contracted with left_side="
                f"{left_side} and transpose_a={transpose_a} must be unsharded, but the matrices are "
                f"sharded by {spec}. Replicate it first with `jax.sharding.reshard`."
            )
    return (kept, free) if left_side else (free, kept)


triangular_solve_p = linalg_primitive(
    "triangular_solve",
    FLOAT | COMPLEX,
    (2, 2),
    _shape,
    element_sharding=_element_sharding,
    lower={None: _lower, "cpu": _lower_cpu},
    jvp=(_tangent_of_a, _tangent_of_b),
    transpose=_transpose,
    batch=_batch,
)
