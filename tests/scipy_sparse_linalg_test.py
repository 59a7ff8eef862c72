"""`jax.scipy.sparse.linalg`: solutions and their derivatives, compared with dense solvers."""

import functools

import numpy as np
import pytest
import scipy.sparse.linalg

import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import bicgstab, cg, gmres

RNG = np.random.RandomState(0)
B = RNG.randn(6).astype(np.float32)
GENERAL = (RNG.randn(6, 6) / 3 + 3 * np.eye(6)).astype(np.float32)
TWIST = RNG.randn(6, 6)
TWIST = TWIST - TWIST.T
POSITIVE = (GENERAL @ GENERAL.T).astype(np.float32)
INCREMENTAL = functools.partial(gmres, solve_method="incremental")
SOLVERS = {"cg": cg, "bicgstab": bicgstab, "gmres": gmres, "incremental": INCREMENTAL}
solvers = pytest.mark.parametrize("name", list(SOLVERS))


def matrix(name):
    return POSITIVE if name == "cg" else GENERAL


def close(x, y, tol=2e-4):
    np.testing.assert_allclose(x, y, rtol=tol, atol=tol)


@solvers
def test_solutions(name):
    """In one program: matrices, functions, trees, batches, starts and preconditioners."""
    A, solver = matrix(name), SOLVERS[name]

    @jax.jit
    def program(A, b):
        near = jnp.linalg.inv(A + 0.1)
        tree = solver(lambda t: {"u": A @ t["u"], "v": 2 * t["v"]}, {"u": b, "v": jnp.ones((2, 2))})
        return (
            solver(A, b)[0],
            solver(A, b, x0=jnp.ones(6))[0],
            solver(lambda x: A @ x, b, tol=1e-6, M=lambda x: near @ x)[0],
            solver(A, b, M=near)[0],
            jax.vmap(lambda b: solver(A, b)[0])(jnp.stack([b, 2 * b])),
            tree[0]["u"],
        ), tree[0]["v"]  # fmt: skip

    outs, second = program(A, B)
    for out in outs:
        out = out[1] / 2 if out.ndim == 2 else out
        close(out, np.linalg.solve(A, B))
    close(second, np.full((2, 2), 0.5))


@solvers
def test_derivatives(name):
    A, solver = matrix(name), SOLVERS[name]
    tangent = RNG.randn(6, 6).astype(np.float32)
    tangent = tangent + tangent.T

    def program(fun):
        loss = lambda A, b: (fun(A, b) ** 3).sum()
        push = jax.jvp(fun, (A, B), (tangent, B[::-1]))
        return push, jax.grad(loss, (0, 1))(A, B), jax.hessian(loss, 1)(A, B)

    ours = jax.jit(lambda: program(lambda A, b: solver(A, b, tol=1e-7)[0]))()
    want = jax.jit(lambda: program(jnp.linalg.solve))()
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(want)):
        close(x, y, 2e-3)


@solvers
def test_complex_numbers(name):
    A = (matrix(name) + 0.3j * TWIST).astype(np.complex64)
    b, solver = (B + 1j * B[::-1]).astype(np.complex64), SOLVERS[name]

    @jax.jit
    def program(A, b):
        out, pull = jax.vjp(lambda A, b: solver(A, b, tol=1e-6)[0], A, b)
        want, pull_solve = jax.vjp(jnp.linalg.solve, A, b)
        real = solver(A, B)[0]  # The solution for a real right side is complex.
        return out, real, pull(b), want, jnp.linalg.solve(A, B.astype(A.dtype)), pull_solve(b)

    outs = jax.tree.leaves(program(A, b))
    for x, y in zip(outs[:4], outs[4:]):
        assert x.dtype == np.complex64
        close(x, y, 1e-3)


@pytest.mark.parametrize("name", ["cg", "bicgstab"])
def test_iterations_are_those_of_scipy(name):
    A, ours, scipys = matrix(name), SOLVERS[name], getattr(scipy.sparse.linalg, name)
    near = np.diag(1 / np.diag(A)).astype(np.float32)
    steps = range(4)
    run = jax.jit(
        lambda: [(ours(A, B, maxiter=k)[0], ours(A, B, maxiter=k, M=near)[0]) for k in steps]
    )
    for k, (plain, conditioned) in zip(steps, run()):
        close(plain, scipys(A.astype(float), B, rtol=0, maxiter=k)[0])
        close(conditioned, scipys(A.astype(float), B, rtol=0, maxiter=k, M=near)[0])


def test_restarts():
    """Each Krylov space gives the best solution within it."""
    run = jax.jit(
        lambda: [
            f(GENERAL, B, restart=r, maxiter=n)[0]
            for f in (gmres, INCREMENTAL)
            for r, n in ((1, 1), (2, 1), (2, 3), (6, 1), (9, 1))
        ]
    )
    outs = run()
    half = len(outs) // 2
    for x, y in zip(outs[:half], outs[half:]):
        close(x, y)
    space = np.stack([B, GENERAL @ B], 1).astype(float)
    best = space @ np.linalg.lstsq(GENERAL @ space, B, rcond=None)[0]
    close(outs[1], best)
    for out in outs[half - 2 : half]:
        close(out, np.linalg.solve(GENERAL, B))
    want, _ = scipy.sparse.linalg.gmres(GENERAL.astype(float), B, rtol=0, restart=2, maxiter=3)
    close(outs[2], want)


@pytest.mark.parametrize("name", ["cg", "gmres"])
def test_tolerances(name):
    A, solver = matrix(name), SOLVERS[name]
    loose, none, start, nan = jax.jit(
        lambda: [
            solver(A, B, tol=0.5)[0],
            solver(A, B, atol=1e3)[0],
            solver(A, B, x0=B, maxiter=0)[0],
            solver(A, 0 * B)[0],
        ]
    )()
    assert np.linalg.norm(A @ loose - B) <= 0.5 * np.linalg.norm(B)
    assert not none.any() and not nan.any()
    np.testing.assert_array_equal(start, B)


@pytest.mark.parametrize("solver", [gmres, INCREMENTAL])
def test_singular_systems(solver):
    """The image of a vector may be within the Krylov space."""
    A = np.diag(np.float32([2, 2, 0]))
    outs = jax.jit(
        lambda: [
            solver(A, np.float32([1, 1, 0])),
            solver(np.eye(3, dtype=np.float32), B[:3]),
            solver(A, np.float32([np.nan, 1, 0]), maxiter=2, x0=np.full(3, np.nan, np.float32)),
        ]
    )()
    close(outs[0][0], [0.5, 0.5, 0])
    close(outs[1][0], B[:3])
    assert [int(info) for _, info in outs] == [0, 0, -1]


@pytest.mark.parametrize("name", ["bicgstab", "gmres"])
def test_types(name):
    A, solver = matrix(name), SOLVERS[name]
    narrow, whole, mixed = jax.jit(
        lambda: [
            solver(A.astype(np.float16), B.astype(np.float16), tol=1e-2)[0],
            solver(A, np.arange(6))[0],
            solver(A, B, x0=np.zeros(6, np.float16))[0],
        ]
    )()
    assert (narrow.dtype, whole.dtype, mixed.dtype) == (np.float16, np.float32, np.float32)
    close(narrow, np.linalg.solve(A, B), 0.05)
    close(whole, np.linalg.solve(A, np.arange(6)), 1e-3)
    close(mixed, np.linalg.solve(A, B))
    with jax.enable_x64(True):
        out, _ = solver(A.astype(float), B.astype(float), tol=1e-13)
    assert out.dtype == np.float64
    close(out, np.linalg.solve(A.astype(float), B.astype(float)), 1e-11)
    assert solver(lambda x: x, {})[0] == {} and solver(A[:0, :0], B[:0])[0].shape == (0,)


def test_objects_with_matmul():
    class Twice:
        def __matmul__(self, x):
            return 2 * x

    close(cg(Twice(), B)[0], B / 2)


def test_gradients_of_starts_and_preconditioners_are_zero():
    fun = lambda d, x0: cg(POSITIVE, B, x0=x0, M=lambda x: x * d)[0].sum()
    for slope in jax.jit(jax.grad(fun, (0, 1)))(np.float32(1), B):
        assert not np.any(slope)


def test_sharded_vectors():
    n = 8 * len(jax.devices())
    mesh = jax.make_mesh((len(jax.devices()),), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    b = np.cos(np.arange(n, dtype=np.float32))
    put = jax.device_put(b, jax.NamedSharding(mesh, jax.P("i")))
    apply = lambda x: 3 * x - jnp.roll(x, 1) - jnp.roll(x, -1)
    solve = jax.jit(lambda b: [f(apply, b)[0] for f in SOLVERS.values()])
    for x, y in zip(solve(put), solve(b)):
        close(apply(x), b)
        close(x, y)
    explicit = jax.make_mesh(mesh.axis_sizes, ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(explicit):
        put = jax.device_put(b, jax.P("i"))
        for f in SOLVERS.values():
            x, _ = jax.jit(lambda b, f=f: f(lambda x: 3 * x, b))(put)
            assert jax.typeof(x) == jax.typeof(put)
            close(x, b / 3)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: cg("A", B), TypeError, "A must be a function, a square matrix or an object"),
        (lambda: cg(POSITIVE[:2], B), ValueError, r"A must be a square matrix, got shape \(2, 6\)"),
        (lambda: cg(POSITIVE, B, M=B), ValueError, r"M must be a square matrix, got shape \(6,\)"),
        (lambda: cg(POSITIVE, B, x0=[B]), ValueError, "x0 must have the tree structure of b"),
        (lambda: gmres(POSITIVE, B, x0=B[:2]), ValueError, "x0 must have the shapes of b"),
        (lambda: cg(lambda x: x[:2], B), ValueError, "the result of A must have the shapes of b"),
        (
            lambda: cg(POSITIVE, B, M=lambda x: (x,)),
            ValueError,
            "the result of M must have the tree",
        ),
        (lambda: gmres(POSITIVE, B, solve_method="x"), ValueError, "'batched' or 'incremental'"),
        (lambda: gmres(POSITIVE, B, restart=0), ValueError, "restart must be positive, got 0"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
