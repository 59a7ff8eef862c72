"""Solutions of sparse systems by all solvers, in each type that has them: see op_cases.py."""

import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax.experimental.sparse import BCOO, BCSR, CSR
from jax.experimental.sparse.linalg import spsolve
from jax.scipy.sparse.linalg import bicgstab, cg, gmres

CASES = Programs()


def solutions(dtype):
    rng = np.random.RandomState(2)
    A = rng.rand(6, 6) + 6 * np.eye(6)
    b = rng.rand(6)
    if np.dtype(dtype).kind == "c":
        A, b = A + 0.5j * rng.rand(6, 6), b + 1j
    A, b, H = A.astype(dtype), b.astype(dtype), (A + A.conj().T).astype(dtype)
    S = CSR.fromdense(A)
    tol = dict(tol=1e-6)
    return {
        "cg": cg(BCOO.fromdense(H), b, **tol)[0],
        "bicgstab": bicgstab(BCSR.fromdense(A), b, **tol)[0],
        "gmres": gmres(S, b, **tol)[0],
        "incremental": gmres(A, b, solve_method="incremental", **tol)[0],
        "preconditioned": bicgstab(A, b, M=np.diag(1 / np.diag(A)), x0=b, **tol)[0],
        "direct": spsolve(S.data, S.indices, S.indptr, jnp.asarray(b)),
        "slope": jax.grad(lambda b: jnp.abs(cg(H, b, **tol)[0]).sum())(jnp.asarray(b)),
    }


for _dtype in ("float32", "complex64", "float64", "complex128"):
    CASES.add(
        f"solutions_{_dtype}",
        functools.partial(solutions, _dtype),
        x64=_dtype in ("float64", "complex128"),
        tol=1e-4,
    )
