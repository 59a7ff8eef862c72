"""Iterative solvers of linear systems: the implementation of `jax.scipy.sparse.linalg`.

Vectors are trees of arrays of any shapes. Solutions are differentiated implicitly, by further solves.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import api, dtypes
from jax._src.basearray import Array
from jax._src.lax import lax, slicing
from jax._src.lax.control_flow import custom_linear_solve, fori_loop, while_loop
from jax._src.numpy import util
from jax._src.numpy.linalg import lstsq
from jax._src.scipy.linalg import solve_triangular
from jax._src.tree_util import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten
from jax._src.typing import ArrayLike
from jax._src.util import set_module

export = set_module("jax.scipy.sparse.linalg")

Vector = Any  # a tree of arrays
Map = Callable[[Vector], Vector]

# ---------------------------------------------------------------------------------------------------
# Public functions


@export
def cg(
    A: ArrayLike | Map,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    maxiter: ArrayLike | None = None,
    M: ArrayLike | Map | None = None,
) -> tuple[Any, None]:
    """Solves `A x = b` by the method of conjugate gradients, for Hermitian positive definite `A`.

    M. R. Hestenes and E. Stiefel, "Methods of conjugate gradients for solving linear systems" (1952), with a
    preconditioner. Derivatives are those of the exact solution; they take a further solve each.

    Args:
      A: square matrix, object with a method `__matmul__`, or linear function of trees like `b`.
      b: tree of arrays of any shapes, which together are one vector. Integers are converted to floating point.
      x0: starting point, a tree like `b`; by default zero.
      tol, atol: the solver stops when the norm of `b - A x` is at most `max(tol * norm(b), atol)`.
      maxiter: largest number of iterations; by default ten times the number of elements of `b`.
      M: approximate inverse of `A`, Hermitian positive definite too, given like `A`.

    Returns:
      The solution, a tree like `b`, and None. Whether it was found within `maxiter` is not reported.

    Raises:
      TypeError: if `A` or `M` is neither a matrix nor a function.
      ValueError: if a matrix is not square, or trees or shapes of `x0`, `A x` or `M x` are not those of `b`.

    >>> A = jnp.array([[4.0, 1.0], [1.0, 3.0]])
    >>> x, _ = jax.scipy.sparse.linalg.cg(A, jnp.array([5.0, 4.0]))
    >>> bool(jnp.allclose(x, 1.0, atol=1e-4))
    True
    """
    return _call("cg", _cg, A, b, x0, tol, atol, maxiter, M), None


@export
def bicgstab(
    A: ArrayLike | Map,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    maxiter: ArrayLike | None = None,
    M: ArrayLike | Map | None = None,
) -> tuple[Any, None]:
    """Solves `A x = b` by the stabilized method of biconjugate gradients, for any regular `A`.

    H. A. van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG" (1992). Takes the arguments of
    `cg` and has its results; `M` need not be Hermitian. Derivatives in reverse mode solve the transposed system,
    with the transpose of `M` if that is a matrix, and with `M` if it is a function.

    >>> A = jnp.array([[4.0, 1.0], [0.0, 3.0]])
    >>> x, _ = jax.scipy.sparse.linalg.bicgstab(A, jnp.array([5.0, 3.0]))
    >>> bool(jnp.allclose(x, 1.0, atol=1e-4))
    True
    """
    return _call("bicgstab", _bicgstab, A, b, x0, tol, atol, maxiter, M), None


@export
def gmres(
    A: ArrayLike | Map,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    restart: int = 20,
    maxiter: ArrayLike | None = None,
    M: ArrayLike | Map | None = None,
    solve_method: str = "batched",
) -> tuple[Any, Array]:
    """Solves `A x = b` by the method of generalized minimal residuals, for any regular `A`.

    Y. Saad and M. H. Schultz, "GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear
    systems" (1986). Takes the arguments of `bicgstab`, and further ones.

    Args:
      restart: size of the Krylov space. When it is complete, the solver starts again from the solution within it.
      maxiter: largest number of Krylov spaces; by default ten times the number of elements of `b`.
      solve_method: "batched" solves one least-squares problem for each Krylov space. "incremental" updates its
        solution with Givens rotations after each vector, so that the solver can stop within a Krylov space.

    Returns:
      The solution, and 0, or -1 if the solution is NaN.

    Raises:
      ValueError: as for `cg`, and if `restart` is not positive or `solve_method` is unknown.

    >>> A = jnp.array([[4.0, 1.0], [0.0, 3.0]])
    >>> x, info = jax.scipy.sparse.linalg.gmres(A, jnp.array([5.0, 3.0]))
    >>> bool(jnp.allclose(x, 1.0, atol=1e-4)), int(info)
    (True, 0)
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(
            f"gmres: solve_method must be 'batched' or 'incremental', got {solve_method!r}."
        )
    restart = operator.index(restart)
    if restart < 1:
        raise ValueError(f"gmres: restart must be positive, got {restart}.")
    solver = functools.partial(_gmres, restart=restart, incremental=solve_method == "incremental")
    x = _call("gmres", solver, A, b, x0, tol, atol, maxiter, M)
    failed = functools.reduce(
        lax.bitwise_or, [lax.reduce_or(v != v, tuple(range(v.ndim))) for v in tree_leaves(x)], False
    )
    return x, util.select_where(failed, -1, 0)


# ---------------------------------------------------------------------------------------------------
# Arguments


def _call(name, solver, A, b, x0, tol, atol, maxiter, M):
    matvec = _linear_map(name, "A", A)
    leaves, tree = tree_flatten(b)
    leaves = list(util.ensure_arraylike_tuple(name, leaves))
    if not sum(v.size for v in leaves):
        return tree_unflatten(tree, leaves)
    b = tree_unflatten(tree, leaves)
    if x0 is None:
        starts = [lax.full_like(v, 0) for v in leaves]
    else:
        _check_like(name, "x0", x0, leaves, tree)
        starts = list(util.ensure_arraylike_tuple(name, tree_leaves(x0)))
    images = api.eval_shape(matvec, b)
    _check_like(name, "the result of A", images, leaves, tree)
    kinds = [_dtype(*triple) for triple in zip(leaves, starts, tree_leaves(images))]
    convert = lambda values: tree_unflatten(
        tree, [lax.convert_type(v, kind, False) for v, kind in zip(values, kinds)]
    )
    within = lambda fun: lambda x: convert(tree_leaves(fun(x)))
    b = convert(leaves)
    x0 = tree_map(lax.stop_gradient, convert(starts))
    if maxiter is None:
        maxiter = 10 * sum(v.size for v in leaves)
    if M is None:
        forward = backward = None
    else:
        # A matrix that approximates the inverse has a transpose that approximates the inverse of the transpose.
        forward = backward = _linear_map(name, "M", M)
        _check_like(name, "the result of M", api.eval_shape(forward, b), leaves, tree)
        if not callable(M) and hasattr(M, "T"):
            backward = within(_linear_map(name, "M", lax.stop_gradient(M).T))
            forward = _linear_map(name, "M", lax.stop_gradient(M))
        forward, backward = within(forward), within(backward)

    def solve(preconditioner, start, matvec, b):
        bound = lax.max(*util.promote_dtypes_inexact(tol * _norm(b), atol))
        bound = lax.convert_element_type(bound, _norm(b).dtype)
        return solver(matvec, b, start, bound, maxiter, preconditioner)

    # The transpose of a Hermitian matrix is another one, unless it is real.
    real = not any(dtypes.issubdtype(kind, np.complexfloating) for kind in kinds)
    return custom_linear_solve(
        within(matvec),
        b,
        functools.partial(solve, forward, x0),
        functools.partial(solve, backward, x0),
        symmetric=real and name == "cg",
    )


def _linear_map(name: str, argument: str, value: Any) -> Map:
    if callable(value):
        return value
    shape = getattr(value, "shape", None)
    if not hasattr(value, "__matmul__"):
        raise TypeError(
            f"{name}: {argument} must be a function, a square matrix or an object with a method __matmul__, got "
            f"{type(value).__name__}."
        )
    if shape is not None and (len(shape) != 2 or shape[0] != shape[1]):
        raise ValueError(f"{name}: {argument} must be a square matrix, got shape {tuple(shape)}.")
    if isinstance(value, np.ndarray):
        value = util.to_array(value)
    return lambda x: value @ x


def _check_like(name, what, values, leaves, tree):
    found = tree_structure(values)
    if found != tree:
        raise ValueError(f"{name}: {what} must have the tree structure of b, {tree}, got {found}.")
    shapes, others = [np.shape(v) for v in leaves], [np.shape(v) for v in tree_leaves(values)]
    if shapes != others:
        raise ValueError(f"{name}: {what} must have the shapes of b, {shapes}, got {others}.")


def _dtype(*values: Any) -> Any:
    return dtypes.canonicalize_dtype(dtypes.to_inexact_dtype(dtypes.result_type(*values)))


# ---------------------------------------------------------------------------------------------------
# Vectors


def _add(x: Vector, y: Vector) -> Vector:
    return tree_map(lax.add, x, y)


def _subtract(x: Vector, y: Vector) -> Vector:
    return tree_map(lax.sub, x, y)


def _scale(a: Any, x: Vector) -> Vector:
    """`x` times a scalar, in the dtypes of `x`."""

    def scaled(v):
        factor = a
        if not dtypes.issubdtype(v.dtype, np.complexfloating) and dtypes.issubdtype(
            dtypes.dtype(a), np.complexfloating
        ):
            factor = lax.real(a)
        return v * lax.convert_element_type(factor, v.dtype)

    return tree_map(scaled, x)


def _dot(x: Vector, y: Vector) -> Array:
    """The inner product, linear in `y`."""
    products = []
    for v, w in zip(tree_leaves(x), tree_leaves(y)):
        v = lax.conj(v) if dtypes.issubdtype(v.dtype, np.complexfloating) else v
        products.append(lax.reduce_sum(v * w, tuple(range(v.ndim))))
    return functools.reduce(lambda a, b: lax.add(*util.promote_dtypes(a, b)), products)


def _real_dot(x: Vector, y: Vector) -> Array:
    out = _dot(x, y)
    return lax.real(out) if dtypes.issubdtype(out.dtype, np.complexfloating) else out


def _norm(x: Vector) -> Array:
    return lax.sqrt(_real_dot(x, x))


def _quotient(a: Array, b: Array) -> Array:
    """`a / b`, and zero where `b` is zero."""
    zero = b == 0
    return util.select_where(zero, 0, a / util.select_where(zero, 1, b)).astype(a.dtype)


# ---------------------------------------------------------------------------------------------------
# Conjugate gradients


def _cg(matvec, b, x, bound, maxiter, M):
    def unfinished(state):
        _, r, gamma, _, k = state
        error = gamma if M is None else _real_dot(r, r)
        return (error > bound * bound) & (k < maxiter)

    def step(state):
        x, r, gamma, p, k = state
        image = matvec(p)
        alpha = gamma / _real_dot(p, image)
        x = _add(x, _scale(alpha, p))
        r = _subtract(r, _scale(alpha, image))
        z = r if M is None else M(r)
        following = _real_dot(r, z)
        p = _add(z, _scale(following / gamma, p))
        return x, r, following, p, k + 1

    r = _subtract(b, matvec(x))
    z = r if M is None else M(r)
    return while_loop(unfinished, step, (x, r, _real_dot(r, z), z, np.int32(0)))[0]


def _bicgstab(matvec, b, x, bound, maxiter, M):
    M = M or (lambda x: x)
    r = _subtract(b, matvec(x))
    shadow = r

    def unfinished(state):
        _, r, *_, k, broken = state
        return (_real_dot(r, r) > bound * bound) & (k < maxiter) & ~broken

    def step(state):
        x, r, p, q, rho, alpha, omega, k, _ = state
        following = _dot(shadow, r)
        beta = following / rho * (alpha / omega)
        p = _add(r, _scale(beta, _subtract(p, _scale(omega, q))))
        direction = M(p)
        q = matvec(direction)
        alpha = following / _dot(shadow, q)
        s = _subtract(r, _scale(alpha, q))
        second = M(s)
        t = matvec(second)
        # If s is small enough, t may be zero.
        done = _real_dot(s, s) <= bound * bound
        square = lax.convert_element_type(_real_dot(t, t), omega.dtype)
        omega = util.select_where(done, lax.full_like(omega, 0), _dot(t, s) / square)
        x = _add(x, _add(_scale(alpha, direction), _scale(omega, second)))
        r = tree_map(lambda a, b: util.select_where(done, a, b), s, _subtract(s, _scale(omega, t)))
        broken = (following == 0) | (alpha == 0) | (omega == 0)
        return x, r, p, q, following, alpha, omega, k + 1, broken

    one = lax.full_like(_dot(r, r), 1)
    zeros = tree_map(lambda v: lax.full_like(v, 0), r)
    state = (x, r, zeros, zeros, one, one, one, np.int32(0), np.bool_(False))
    return while_loop(unfinished, step, state)[0]


# ---------------------------------------------------------------------------------------------------
# Generalized minimal residuals
#
# The basis of a Krylov space is a tree of arrays with an axis of vectors in front. Row k of `columns` has the
# coefficients of the image of vector k, that is, column k of the Hessenberg matrix.


def _gmres(matvec, b, x, bound, maxiter, M, *, restart, incremental):
    M = M or (lambda x: x)
    restart = min(restart, sum(math.prod(v.shape) for v in tree_leaves(b)))
    cycle = _incremental_cycle if incremental else _batched_cycle
    # Residuals are those of the preconditioned system, and so is the bound.
    scale = _norm(b)
    bound = _quotient(_norm(M(b)) * bound, scale)

    def unfinished(state):
        _, _, error, k = state
        return (error > bound) & (k < maxiter)

    def step(state):
        x, r, error, k = state
        x = _add(x, cycle(lambda v: M(matvec(v)), r, error, bound, restart))
        r = M(_subtract(b, matvec(x)))
        return x, r, _norm(r), k + 1

    r = M(_subtract(b, matvec(x)))
    return while_loop(unfinished, step, (x, r, _norm(r), np.int32(0)))[0]


def _first_basis(r, error, restart):
    """A basis with the unit vector along `r`, and zeros."""

    def first(v):
        padding = [(0, restart, 0)] + [(0, 0, 0)] * v.ndim
        return lax.pad(lax.expand_dims(v, (0,)), np.zeros((), v.dtype), padding)

    return tree_map(first, _scale(_quotient(lax.full_like(error, 1), error), r))


def _arnoldi(apply, basis, k):
    """Extends a basis by the normalized part of the image of vector k that is orthogonal to it.

    Returns the basis, the image's coefficients, and whether the image was in the space already.
    """
    image = apply(tree_map(lambda rows: slicing.dynamic_index_in_dim(rows, k, 0, False), basis))
    size = _norm(image)
    total = None
    # Twice is enough for orthogonality in floating point: L. Giraud et al. (2005).
    for _ in range(2):
        parts = _projections(basis, image)
        image = _subtract(image, _combined(basis, parts))
        total = parts if total is None else total + parts
    rest = _norm(image)
    dependent = rest <= dtypes.finfo(rest.dtype).eps * size
    rest = util.select_where(dependent, lax.full_like(rest, 0), rest)
    image = _scale(_quotient(lax.full_like(rest, 1), rest), image)
    basis = tree_map(
        lambda rows, v: slicing.dynamic_update_index_in_dim(rows, v, k + 1, 0), basis, image
    )
    column = slicing.dynamic_update_index_in_dim(
        total, lax.convert_element_type(rest, total.dtype), k + 1, 0
    )
    return basis, column, dependent


def _projections(basis: Vector, x: Vector) -> Array:
    """Inner products of all vectors of a basis with `x`."""
    return api.vmap(_dot, in_axes=(0, None))(basis, x)


def _combined(basis: Vector, coefficients: Array) -> Vector:
    """The sum of the first vectors of a basis with coefficients."""
    scaled = api.vmap(_scale)(
        coefficients, tree_map(lambda rows: rows[: coefficients.shape[0]], basis)
    )
    return tree_map(lambda rows: lax.reduce_sum(rows, (0,)), scaled)


def _unit_rows(restart, dtype):
    return lax.convert_element_type(np.eye(restart, restart + 1), dtype)


def _batched_cycle(apply, r, error, bound, restart):
    basis = _first_basis(r, error, restart)
    columns = _unit_rows(restart, _dot(r, r).dtype)

    def step(state):
        basis, columns, k, _ = state
        basis, column, dependent = _arnoldi(apply, basis, k)
        columns = slicing.dynamic_update_index_in_dim(columns, column, k, 0)
        return basis, columns, k + 1, dependent

    state = (basis, columns, np.int32(0), np.bool_(False))
    basis, columns, _, _ = while_loop(lambda s: (s[2] < restart) & ~s[3], step, state)
    right = lax.pad(
        error.astype(columns.dtype)[None], np.zeros((), columns.dtype), [(0, restart, 0)]
    )
    wide = dtypes.itemsize_bits(columns.dtype) >= 32
    dtype = columns.dtype if wide else np.dtype(np.float32)
    coefficients, *_ = lstsq(columns.astype(dtype).T, right.astype(dtype))
    return _combined(basis, coefficients.astype(columns.dtype))


def _incremental_cycle(apply, r, error, bound, restart):
    """Rotations turn the Hessenberg matrix into a triangular one, whose rows here are columns of it."""
    basis = _first_basis(r, error, restart)
    dtype = _dot(r, r).dtype
    columns = _unit_rows(restart, dtype)
    cosines = lax.full((restart,), 1, dtype)
    sines = lax.full((restart,), 0, dtype)
    right = lax.pad(error.astype(dtype)[None], np.zeros((), dtype), [(0, restart, 0)])

    def rotated(i, vector, cosine, sine):
        a, b = vector[i], vector[i + 1]
        conj = lax.conj(sine) if dtypes.issubdtype(dtype, np.complexfloating) else sine
        return vector.at[i].set(cosine * a + sine * b).at[i + 1].set(cosine * b - conj * a)

    def unfinished(state):
        _, _, _, _, right, k, dependent = state
        return (k < restart) & (abs(right[k]) > bound) & ~dependent

    def step(state):
        basis, columns, cosines, sines, right, k, _ = state
        basis, column, dependent = _arnoldi(apply, basis, k)
        column = fori_loop(0, k, lambda i, v: rotated(i, v, cosines[i], sines[i]), column)
        cosine, sine = _rotation(column[k], column[k + 1])
        column, right = (rotated(k, v, cosine, sine) for v in (column, right))
        columns = columns.at[k].set(column)
        return (
            basis,
            columns,
            cosines.at[k].set(cosine),
            sines.at[k].set(sine),
            right,
            k + 1,
            dependent,
        )

    state = (basis, columns, cosines, sines, right, np.int32(0), np.bool_(False))
    basis, columns, _, _, right, k, _ = while_loop(unfinished, step, state)
    used = lax.iota(np.int32, restart) < k
    right = util.select_where(used, right[:restart], lax.full((restart,), 0, dtype))
    wide = dtype if dtypes.itemsize_bits(dtype) >= 32 else np.dtype(np.float32)
    triangle = columns[:, :restart].astype(wide).T
    # A zero on the diagonal is that of the last column, of a singular system.
    diagonal = lax.convert_element_type(np.eye(restart), wide)
    singular = (triangle == 0) & (diagonal == 1)
    triangle = util.select_where(singular, lax.full_like(triangle, 1), triangle)
    right = util.select_where(singular.any(axis=1), lax.full_like(right, 0), right)
    return _combined(basis, solve_triangular(triangle, right.astype(wide)).astype(dtype))


def _rotation(a: Array, b: Array) -> tuple[Array, Array]:
    """Cosine and sine of the rotation that makes the second element of `(a, b)` zero."""
    size = abs(a)
    radius = lax.sqrt(size * size + abs(b) * abs(b))
    cosine = util.select_where(radius == 0, lax.full_like(radius, 1), _quotient(size, radius))
    phase = util.select_where(size == 0, lax.full_like(a, 1), _quotient(a, size.astype(a.dtype)))
    conj = lax.conj(b) if dtypes.issubdtype(b.dtype, np.complexfloating) else b
    return cosine.astype(a.dtype), phase * _quotient(conj, radius.astype(a.dtype))
