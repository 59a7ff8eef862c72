"""Harnesses of decompositions, solvers and Fourier transforms."""

from functools import partial
from itertools import product

import numpy as np

import jax
from jax import lax, numpy as jnp
from jax._src import test_util as jtu
from jax._src.dtypes import bfloat16
from jax._src.internal_test_util.harness_tables.harness import (
    CustomArg,
    Harness,
    Limitation,
    RandArg,
    StaticArg,
)
from jax._src.internal_test_util.harness_tables.naming import named, shaped

_BOTH = (False, True)
_HALVES = [np.float16, bfloat16]


def _adjoint(matrices):
    return np.conj(np.swapaxes(matrices, -1, -2))


def cholesky():
    def positive(shape, dtype):
        def make(rng):
            factor = jtu.rand_default(rng)(shape, dtype)
            return np.matmul(factor, _adjoint(factor))

        return CustomArg(make)

    for dtype in jtu.dtypes.all_inexact:
        for shape in ((1, 1), (4, 4), (2, 5, 5), (200, 200), (1000, 0, 0)):
            yield Harness(
                "cholesky",
                f"shape={shaped(shape, dtype)}",
                lambda operand: lax.linalg.cholesky_p.bind(operand),
                [positive(shape, dtype)],
                dtype=dtype,
                jax_unimplemented=[
                    Limitation("unimplemented", dtypes=[np.float16], devices=("cpu", "gpu"))
                ],
                shape=shape,
            )


def qr():
    for dtype in jtu.dtypes.all_inexact:
        for shape in ((1, 1), (3, 3), (3, 4), (2, 10, 5), (2, 200, 100)):
            for full in _BOTH:
                yield Harness(
                    "qr",
                    named("multi_array", shape=shaped(shape, dtype), fullmatrices=full),
                    partial(lax.linalg.qr, full_matrices=full),
                    [RandArg(shape, dtype)],
                    dtype=dtype,
                    jax_unimplemented=[
                        Limitation("unimplemented", devices=("cpu", "gpu"), dtypes=_HALVES)
                    ],
                    shape=shape,
                    full_matrices=full,
                )


def _fft_case(head, shape, dtype, kind, lengths):
    return Harness(
        "fft",
        named(head, shape=shaped(shape, dtype), ffttype=int(kind), fftlengths=lengths),
        lambda operand, kind, lengths: lax.fft_p.bind(operand, fft_type=kind, fft_lengths=lengths),
        [RandArg(shape, dtype), StaticArg(kind), StaticArg(lengths)],
        dtype=dtype,
        shape=shape,
        fft_type=kind,
        fft_lengths=lengths,
    )


def fft():
    shape, empty = (14, 15, 16, 17), (14, 15, 0, 17)
    kinds = lax.FftType
    for kind in (kinds.FFT, kinds.IFFT, kinds.RFFT, kinds.IRFFT):
        dtypes = jtu.dtypes.floating if kind == kinds.RFFT else jtu.dtypes.complex
        lasts = (32, 33) if kind == kinds.IRFFT else (17,)
        for dtype, last in product(dtypes, lasts):
            yield _fft_case("dtypes", shape, dtype, kind, (last,))
            yield _fft_case("dtypes_zero", empty, dtype, kind, (last,))
        for dimensions in (1, 2, 3):
            lengths = (*shape[4 - dimensions : 3], lasts[0])
            yield _fft_case("dims", shape, dtypes[0], kind, lengths)


def svd():
    def decompose(operand, full_matrices, compute_uv, subset_by_index):
        # Singular values first, as the primitive has them.
        return lax.linalg.svd_p.bind(
            operand,
            full_matrices=full_matrices,
            compute_uv=compute_uv,
            subset_by_index=subset_by_index,
            algorithm=None,
        )

    shapes = ((2, 2), (2, 7), (29, 29), (2, 3, 53), (2, 3, 29, 7))
    for dtype, shape, full, vectors in product(jtu.dtypes.all_inexact, shapes, _BOTH, _BOTH):
        yield Harness(
            "svd",
            f"shape={shaped(shape, dtype)}_fullmatrices={full}_computeuv={vectors}",
            decompose,
            [RandArg(shape, dtype), *map(StaticArg, (full, vectors, None))],
            dtype=dtype,
            jax_unimplemented=[Limitation("unimplemented", dtypes=_HALVES)],
            shape=shape,
            full_matrices=full,
            compute_uv=vectors,
            subset_by_index=None,
        )


def eig():
    shapes = ((0, 0), (5, 5), (2, 6, 6))
    for dtype, shape, left, right in product(jtu.dtypes.all_inexact, shapes, _BOTH, _BOTH):
        vectors = {"compute_left_eigenvectors": left, "compute_right_eigenvectors": right}
        yield Harness(
            "eig",
            f"shape={shaped(shape, dtype)}_computelefteigenvectors={left}"
            f"_computerighteigenvectors={right}",
            partial(lax.linalg.eig, **vectors),
            [RandArg(shape, dtype)],
            dtype=dtype,
            jax_unimplemented=[
                Limitation("only supported on CPU in JAX", devices=("tpu", "gpu")),
                Limitation("unimplemented", devices="cpu", dtypes=_HALVES),
            ],
            shape=shape,
            **vectors,
        )


def eigh():
    def hermitian(shape, dtype):
        def make(rng):
            operand = jtu.rand_default(rng)(shape, dtype)
            return ((operand + _adjoint(operand)) / 2).astype(dtype)

        return CustomArg(make)

    def of_triangle(operand, lower, symmetrize_input):
        triangle = jnp.tril(operand) if lower else jnp.triu(operand)
        return lax.linalg.eigh(triangle, lower=lower, symmetrize_input=symmetrize_input)

    shapes = ((0, 0), (50, 50), (2, 20, 20))
    for dtype, shape, lower in product(jtu.dtypes.all_inexact, shapes, _BOTH):
        yield Harness(
            "eigh",
            f"shape={shaped(shape, dtype)}_lower={lower}",
            of_triangle,
            [hermitian(shape, dtype), StaticArg(lower), StaticArg(False)],
            dtype=dtype,
            jax_unimplemented=[Limitation("unimplemented", devices=("cpu", "gpu"), dtypes=_HALVES)],
            shape=shape,
            lower=lower,
        )


def lu():
    for dtype, shape in product(jtu.dtypes.all_inexact, ((5, 5), (3, 5, 5), (3, 5))):
        yield Harness(
            "lu",
            f"shape={shaped(shape, dtype)}",
            lax.linalg.lu,
            [RandArg(shape, dtype)],
            dtype=dtype,
            jax_unimplemented=[Limitation("unimplemented", dtypes=_HALVES)],
            shape=shape,
        )


def _triangular_case(
    head, dtype, shapes=((4, 4), (4, 1)), *, left=True, lower=False, transpose=False,
    conjugate=False, unit=False,
):  # fmt: skip
    a, b = shapes
    parameters = {
        "left_side": left,
        "lower": lower,
        "transpose_a": transpose,
        "conjugate_a": conjugate,
        "unit_diagonal": unit,
    }
    named_parameters = {key.replace("_", ""): value for key, value in parameters.items()}
    # Tests read the transposition under this name, which is misspelt.
    parameters_of_tests = {
        key.replace("transpose", "tranpose"): value for key, value in parameters.items()
    }
    return Harness(
        "triangular_solve",
        named(head, a=shaped(a, dtype), b=shaped(b, dtype), **named_parameters),
        lambda a, b: lax.linalg.triangular_solve(a, b, **parameters),
        [RandArg(a, dtype), RandArg(b, dtype)],
        dtype=dtype,
        jax_unimplemented=[Limitation("unimplemented", devices="gpu", dtypes=[np.float16])],
        a_shape=a,
        b_shape=b,
        **parameters_of_tests,
    )


def triangular_solve():
    for dtype, unit in product(jtu.dtypes.all_inexact, _BOTH):
        yield _triangular_case("dtypes", dtype, unit=unit)
    for shapes in (((4, 4), (1, 4)), ((2, 8, 8), (2, 10, 8))):
        yield _triangular_case("shapes_right", np.float32, shapes, left=False)
    for head, dtype, conjugates in (
        ("complex_transformations", np.complex64, _BOTH),
        ("real_transformations", np.float32, (False,)),
    ):
        for lower, transpose, conjugate in product(_BOTH, _BOTH, conjugates):
            yield _triangular_case(
                head, dtype, lower=lower, transpose=transpose, conjugate=conjugate
            )


def explicit_jacobian_solve(matvec, b):
    return lax.stop_gradient(jnp.linalg.solve(jax.jacobian(matvec)(b), b))


def custom_linear_solve():
    def linear_solve(a, b, solve, transpose_solve, symmetric):
        matvec = partial(jnp.dot, a, precision=lax.Precision.HIGHEST)
        return lax.custom_linear_solve(matvec, b, solve, transpose_solve, symmetric)

    def matrix(shape, dtype, symmetric):
        def make(rng):
            a = jtu.rand_default(rng)(shape, dtype)
            return a + a.T if symmetric else a

        return CustomArg(make)

    shape, solve = (4, 4), explicit_jacobian_solve
    cases = [("dtypes", dtype, solve, False) for dtype in jtu.dtypes.floating]
    cases += [("symmetric", np.float32, solve, True), ("transpose_solve", np.float32, None, False)]
    for head, dtype, transpose, symmetric in cases:
        yield Harness(
            "custom_linear_solve",
            named(
                head,
                a=shaped(shape, dtype),
                b=shaped(shape[:1], dtype),
                solve=solve.__name__,
                transposesolve=getattr(transpose, "__name__", None),
                symmetric=symmetric,
            ),
            linear_solve,
            [
                matrix(shape, dtype, symmetric),
                RandArg(shape[:1], dtype),
                *map(StaticArg, (solve, transpose, symmetric)),
            ],
            dtype=dtype,
            shape=shape,
            solve=solve,
            transpose_solve=transpose,
            symmetric=symmetric,
        )


def tridiagonal_solve():
    for dtype in (np.float32, np.float64):
        diagonals = ([0, 2, 3], [1, 1, 1], [1, 2, 0], [[1], [1], [1]])
        yield Harness(
            "tridiagonal_solve",
            f"shape={shaped((3,), dtype)}",
            lax.linalg.tridiagonal_solve,
            [np.array(values, dtype) for values in diagonals],
            dtype=dtype,
        )
