"""Why the backward pass of an operation is not finite, and what to do: for `backward_nans`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import dtypes

SUM = "a value that is used several times"  # whose cotangents are summed


def remedy(
    name: str,
    operands: Sequence[np.ndarray],
    given: Sequence[np.ndarray],
    made: np.ndarray,
    index: tuple[int, ...],
) -> str:
    """Return lines about the cause, and the remedy.

    Args:
      name: the name of the operation.
      operands: its operands of inexact types.
      given: cotangents of its results, which are finite.
      made: the cotangent that is not finite.
      index: where it is not.
    """
    xs = [element(x, made.shape, index) for x in operands]
    finite = all(np.isfinite(x).all() for x in operands)
    if finite and name in _MATRICES:
        return _MATRICES[name](_matrix(operands[0], made, index))
    if name.startswith("custom_"):
        return _CUSTOM.format(rule="bwd" if name.startswith("custom_vjp") else "jvp")
    known = all(x is not None for x in xs)
    singular = _SINGULAR.get(name)
    if finite and (singular is None or (known and not singular(*xs))):
        return _overflow(name, operands, made)
    if name == "pow" and known and len(xs) == 2 and _is_negative(xs[0]):
        return _NEGATIVE_BASE
    zero = any(x.shape == made.shape and not x[index] for x in given)
    return (_UNUSED if zero else f"{_NOT_FINITE}.") + _WHERE


def element(x: np.ndarray, shape: tuple[int, ...], index: tuple[int, ...]) -> Any:
    """The element of `x` at an index in an array of this shape, or None.

    `x` may lack dimensions of a batch, which are the first ones.
    """
    if x.size == 1:
        return x.reshape(-1)[0]
    missing = len(shape) - x.ndim
    if missing >= 0 and x.shape == shape[missing:]:
        return x[index[missing:]]
    return None


_NOT_FINITE = "  The derivative is not finite there"
_WHERE = (
    " The usual remedy is a second `jnp.where`, before the operation, that puts a harmless "
    "number in place of such operands:\n"
    "    jnp.where(ok, f(jnp.where(ok, x, 1.0)), 0.0)  # instead of jnp.where(ok, f(x), 0.0)"
)
_UNUSED = (
    "  The result does not depend on this element, as behind a `jnp.where` that selects something "
    "else; but zero times an infinite derivative is nan."
)
_NEGATIVE_BASE = (
    "  The derivative with respect to the exponent has the logarithm of the base, which is negative. "
    "If the exponent is a constant, let it be a number of Python or of an integer type:\n"
    "    x**2  # instead of x ** jnp.float32(2); or x ** jax.lax.stop_gradient(y)"
)
_CUSTOM = (
    "  The function's own rule ({rule}) computes it: `jax.debug_nans(True)` names the operation of the "
    "rule. If it divides by something that vanishes, the usual remedy is a `jnp.where` in the rule, "
    "before the division:\n"
    "    ct / jnp.where(x == 0, 1.0, x)  # instead of ct / x"
)


# Operands for which derivatives of elementwise operations are not finite. Those of other operations
# are finite for finite operands, or overflow.


def _is_zero(x: Any) -> bool:
    # Subnormal numbers count as zero on many devices.
    return bool(abs(x) < dtypes.finfo(np.asarray(x).dtype).tiny)


def _is_negative(x: Any) -> bool:
    return not np.iscomplexobj(x) and bool(x < 0)


def _not_positive(x: Any, *_: Any) -> bool:
    return _is_zero(x) or _is_negative(x)


def _not_inside(x: Any) -> bool:
    """Whether x is not in (-1, 1)."""
    return bool(abs(x) == 1 if np.iscomplexobj(x) else abs(x) >= 1)


def _any_not_positive(*xs: Any) -> bool:
    return any(map(_not_positive, xs))


_SINGULAR: dict[str, Callable[..., bool]] = {
    "sqrt": _not_positive,
    "rsqrt": _not_positive,
    "cbrt": lambda x: _is_zero(x),
    "log": _not_positive,
    "log1p": lambda x: _not_positive(x + type(x)(1)),
    "pow": _not_positive,
    "integer_pow": lambda x: _is_zero(x),
    "div": lambda x, y: _is_zero(y),
    "rem": lambda x, y: _is_zero(y),
    "atan2": lambda x, y: _is_zero(x) and _is_zero(y),
    "acos": _not_inside,
    "asin": _not_inside,
    "atanh": _not_inside,
    "erf_inv": _not_inside,
    "acosh": lambda x: abs(x) == 1 if np.iscomplexobj(x) else x <= 1,
    "atan": lambda x: np.iscomplexobj(x) and x in (1j, -1j),
    "asinh": lambda x: np.iscomplexobj(x) and x in (1j, -1j),
    "lgamma": lambda x: _not_positive(x) and x == np.rint(x),
    "digamma": lambda x: _not_positive(x) and x == np.rint(x),
    "polygamma": lambda m, x: _not_positive(x),
    "zeta": lambda x, q: x <= 1 or _not_positive(q),
    "igamma": _any_not_positive,
    "igammac": _any_not_positive,
    "igamma_grad_a": _any_not_positive,
    "random_gamma_grad": _any_not_positive,
    "regularized_incomplete_beta": lambda a, b, x: _any_not_positive(a, b, x) or x >= 1,
}


# Overflow


def _overflow(name: str, operands: Sequence[np.ndarray], made: np.ndarray) -> str:
    infos = [dtypes.finfo(x.dtype) for x in (made, *operands)]
    info = min(infos, key=lambda info: float(info.max))
    narrow = np.dtype(info.dtype).name
    wide = _WIDER.get(narrow)
    lines = [
        "  The derivative exists there, but a number of its computation is out of the range of "
        f"{narrow}, whose largest is {float(info.max):.6g}. The remedy is a type with a wider range, or "
        "a smaller loss:"
    ]
    if wide:
        enable = "" if narrow == "float16" else ", with jax_enable_x64"
        what = name if name == SUM else f"the operands of {name}"
        lines.append(f"    x.astype(jnp.{wide})  # for {what}{enable}")
    afterwards = f", as {wide}, " if wide else " "
    lines.append(
        "    jax.grad(lambda *args: loss(*args) / 1024)(*args)"
        f"  # and multiply the gradients{afterwards}by 1024"
    )
    if name in _NEAR_ZERO:
        lines.append(
            "    jnp.where(jnp.abs(x) > eps, x, eps)  # an operand that is not that near to 0"
        )
    return "\n".join(lines)


_WIDER = {"float16": "float32", "bfloat16": "float64", "float32": "float64"}
_NEAR_ZERO = ("div", "rem", "log", "sqrt", "rsqrt", "cbrt", "pow", "integer_pow")


# Operations on matrices


def _matrix(x: np.ndarray, made: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
    """The matrix, of double precision, that the element belongs to."""
    num_batch = x.ndim - 2
    same = x.shape[:num_batch] == made.shape[:num_batch]
    batch = index[:num_batch] if same else (0,) * num_batch
    return x[batch].astype(np.complex128 if np.iscomplexobj(x) else np.float64)


# Numbers that differ by less, relative to the largest, may be equal in single precision.
_EPS = 1e-6


def _equal_values(values: np.ndarray) -> tuple[int, int] | None:
    """Return the places of two numbers that are equal but for rounding errors."""
    order = np.lexsort((values.imag, values.real))
    gaps = np.abs(np.diff(values[order]))
    if not len(gaps) or gaps.min() > _EPS * np.abs(values).max():
        return None
    i = int(np.argmin(gaps))
    a, b = sorted((int(order[i]), int(order[i + 1])))
    return a, b


def _vectors(kind: str, values: np.ndarray, values_alone: str) -> str:
    pair = _equal_values(values)
    if pair is None:
        return f"{_NOT_FINITE}: the matrix is too large, or nearly has equal {kind}."
    return (
        f"  The {kind} {pair[0]} and {pair[1]} of the matrix are equal, {values[pair[0]]:.6g}: their "
        "vectors are not unique, so that no derivative of them exists there. The remedies: use only "
        "the values, or what does not depend on the choice of vectors (the inverse, determinant or norm "
        "of the matrix); take the vectors as constants; or make the values differ:\n"
        f"    {values_alone}  # the values have a derivative\n"
        "    jax.lax.stop_gradient(vectors)\n"
        "    a + eps * jnp.diag(jnp.arange(n))  # instead of a"
    )


def _svd(a: np.ndarray) -> str:
    values = np.linalg.svd(a, compute_uv=False)
    alone = "jnp.linalg.svd(a, compute_uv=False)"
    zero = values <= _EPS * values.max()
    if a.shape[0] == a.shape[1] or zero.sum() != 1 or _equal_values(values[~zero]):
        return _vectors("singular values", values, alone)
    return (
        f"  The singular value {int(np.argmax(zero))} of the matrix, which is not square, is zero: its "
        "vectors are not unique, so that no derivative of them exists there. The remedies: use only the "
        "values, or a matrix of full rank:\n"
        f"    {alone}  # the values have a derivative\n"
        "    a + eps * jnp.eye(m, n)  # instead of a"
    )


def _singular_matrix(consequence: str) -> Callable[[np.ndarray], str]:
    def text(a: np.ndarray) -> str:
        values = np.linalg.svd(a, compute_uv=False)
        rank = int(np.sum(values > _EPS * values.max()))
        if rank == min(a.shape):
            return f"{_NOT_FINITE}: the matrix is too large, or nearly singular."
        return (
            f"  The matrix has rank {rank} instead of {min(a.shape)}{consequence}. The remedy is a "
            "matrix of full rank:\n"
            "    a + eps * jnp.eye(*a.shape)  # instead of a"
        )

    return text


_MATRICES: dict[str, Callable[[np.ndarray], str]] = {
    "svd": _svd,
    "eigh": lambda a: _vectors("eigenvalues", np.linalg.eigvalsh(a), "jnp.linalg.eigvalsh(a)"),
    "eig": lambda a: _vectors("eigenvalues", np.linalg.eigvals(a), "jnp.linalg.eigvals(a)"),
    "qr": _singular_matrix(": no derivative of its factors exists there"),
    "lu": _singular_matrix(": no derivative of its factors exists there"),
    "cholesky": _singular_matrix(": no derivative of its factor exists there"),
    "triangular_solve": _singular_matrix(", and has no inverse"),
    "custom_jvp linear_solve": _singular_matrix(", and has no inverse"),
    "custom_jvp _slogdet_by_lu": _singular_matrix(": the logarithm of its determinant is infinite"),
}
