"""Ways to list cases of which many share a form."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from op_cases import Case, values

import jax.numpy as jnp

X64 = ("int64", "uint64", "float64", "complex128")


class Formulas(list[Case]):
    """Cases of functions of sampled arrays; of one real and one complex dtype also derivatives and batches."""

    def add(
        self,
        name: str,
        fun: Callable[..., Any],
        *shapes: Sequence[int],
        dtypes: Sequence[str] = ("float32",),
        special: bool = False,
        ties: bool = False,
        **kwargs: Any,
    ) -> None:
        for dtype in dtypes:
            args = [values(s, dtype, f"{name}{i}", special, ties) for i, s in enumerate(shapes)]
            modes = {} if dtype in ("float32", "complex64") else {"diff": "", "vmap": False}
            self.append(Case(f"{name}_{dtype}", fun, args, x64=dtype in X64, **(modes | kwargs)))

    def same(
        self, name: str, fun: Callable[..., Any], *shapes: Sequence[int], **kwargs: Any
    ) -> None:
        """A case that is the same formula in NumPy: `fun` takes the module first."""
        ours, numpys = (lambda *xs, m=m: fun(m, *xs) for m in (jnp, np))
        self.add(name, ours, *shapes, numpy=numpys, **kwargs)

    def given(self, name: str, fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """A case with arguments that are given as they are."""
        self.append(Case(name, fun, [np.asarray(a) for a in args], **kwargs))

    def error(self, name: str, fun: Callable[..., Any], *args: Any) -> None:
        self.given(f"error_{name}", fun, *args, diff="", vmap=False)


def general(shape: Sequence[int], dtype: str, key: str) -> np.ndarray:
    """Well-conditioned matrices with separate eigenvalues and singular values."""
    x = values(shape, dtype, key)
    n = min(shape[-2:])
    x[..., :n, :n] += np.diag(3.0 * np.arange(1, n + 1)).astype(x.dtype)
    return x


def definite(shape: Sequence[int], dtype: str, key: str) -> np.ndarray:
    """Hermitian matrices with positive eigenvalues."""
    x = values(shape, dtype, key)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + 4 * np.eye(shape[-1])).astype(x.dtype)


def gauge_free_schur(form: Any, vectors: Any) -> tuple[Any, ...]:
    """What of a Schur decomposition does not depend on the phases of its vectors, which differ between CPUs."""
    outer = vectors[..., :, None, :] * vectors.conj()[..., None, :, :]
    diagonal = jnp.diagonal(form, axis1=-2, axis2=-1)
    adjoint = jnp.swapaxes(vectors.conj(), -2, -1)
    return diagonal, abs(form), outer, vectors @ form @ adjoint
