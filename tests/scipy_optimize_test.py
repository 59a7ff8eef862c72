"""`jax.scipy.optimize`, compared with known solutions and SciPy."""

import numpy as np
import pytest
import scipy.optimize

import jax
import jax.numpy as jnp
from jax.scipy.optimize import OptimizeResults, minimize


def bfgs(fun, x0, *args, **kwargs):
    return minimize(fun, x0, *args, method="BFGS", **kwargs)


LIMITED = "l-bfgs-experimental-do-not-rely-on-this"


def lbfgs(fun, x0, *args, **kwargs):
    return minimize(fun, x0, *args, method=LIMITED, **kwargs)


def rosenbrock(np):
    return lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(np):
    return lambda p: (p[0] ** 2 + p[1] - 11) ** 2 + (p[0] + p[1] ** 2 - 7) ** 2


def matyas(np):
    return lambda p: 0.26 * (p[0] ** 2 + p[1] ** 2) - 0.48 * p[0] * p[1]


def eggholder(np):
    return lambda p: (
        -(p[1] + 47) * np.sin(np.sqrt(np.abs(p[0] / 2 + p[1] + 47)))
        - p[0] * np.sin(np.sqrt(np.abs(p[0] - p[1] - 47)))
    )


def powell(np):
    return lambda x: (
        (x[0] + 10 * x[1]) ** 2
        + 5 * (x[2] - x[3]) ** 2
        + (x[1] - 2 * x[2]) ** 4
        + 10 * (x[0] - x[3]) ** 4
    )


PROBLEMS = {
    "rosenbrock": (rosenbrock, [0.0, 0.0]),
    "rosenbrock_5": (rosenbrock, [-1.2, 1.0, 0.3, 2.0, -0.5]),
    "himmelblau": (himmelblau, [1.0, 1.0]),
    "matyas": (matyas, [5.0, -7.0]),
    "eggholder": (eggholder, [100.0, 100.0]),
    "powell": (powell, [3.0, -1.0, 0.0, 1.0]),
}


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_solutions(name):
    problem, x0 = PROBLEMS[name]
    with jax.enable_x64(True):
        ours = jax.device_get(jax.jit(lambda x: bfgs(problem(jnp), x))(np.array(x0)))
    want = scipy.optimize.minimize(problem(np), x0, method="BFGS", options={"gtol": 1e-7})
    assert bool(ours.success) and ours.status == 0
    assert abs(ours.jac).max() <= 1e-5
    np.testing.assert_allclose(ours.x, want.x, atol=0.02 if name == "powell" else 1e-4)
    np.testing.assert_allclose(ours.fun, want.fun, rtol=1e-8, atol=1e-6)
    assert ours.nfev == ours.njev and ours.nit <= 1.5 * want.nit + 5
    assert ours.x.dtype == ours.hess_inv.dtype == np.float64


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_solutions_with_limited_memory(name):
    problem, x0 = PROBLEMS[name]
    solve = lambda x: lbfgs(problem(jnp), x, options={"ftol": 0.0, "maxcor": 4})
    with jax.enable_x64(True):
        ours = jax.device_get(jax.jit(solve)(np.array(x0)))
    options = {"gtol": 1e-7, "ftol": 0, "maxcor": 4}
    want = scipy.optimize.minimize(problem(np), x0, method="L-BFGS-B", options=options)
    assert bool(ours.success) and ours.status == 0 and ours.hess_inv is None
    assert abs(ours.jac).max() <= 1e-5
    np.testing.assert_allclose(ours.x, want.x, atol=0.02 if name == "powell" else 1e-4)
    np.testing.assert_allclose(ours.fun, want.fun, rtol=1e-8, atol=1e-6)
    assert ours.nfev == ours.njev and ours.nit <= 1.5 * want.nit + 5


def test_options_of_limited_memory():
    """Status codes as PyPI's build has them."""
    fun, x = rosenbrock(jnp), np.array([1.3, 0.7, 0.8, 1.9, 1.2], np.float32)

    @jax.jit
    def run():
        return {
            "maxiter": lbfgs(fun, x, options={"maxiter": 3}),
            "none": lbfgs(fun, x, options={"maxiter": 0}),
            "maxfun": lbfgs(fun, x, options={"maxfun": 5}),
            "maxgrad": lbfgs(fun, x, options={"maxgrad": 5}),
            "ftol": lbfgs(fun, x, options={"ftol": 0.1}),
            "gtol": lbfgs(fun, x, options={"gtol": 1.0}),
            "tol": lbfgs(fun, x, tol=1e5),
            "search": lbfgs(fun, x, options={"maxls": 0}),
            "steepest": lbfgs(lambda x: (x**2).sum(), x, options={"maxcor": 0}),
            "unbounded": lbfgs(lambda x: x[0], x),
            "nan": lbfgs(lambda x: x.sum() * jnp.nan, x),
        }

    out = run()
    assert {name: int(o.status) for name, o in out.items()} == {
        "maxiter": 1, "none": 1, "maxfun": 2, "maxgrad": 3, "ftol": 4, "gtol": 0, "tol": 0, "search": 5,
        "steepest": 0, "unbounded": 5, "nan": -1,
    }  # fmt: skip
    assert [name for name, o in out.items() if o.success] == ["gtol", "steepest", "tol"]
    assert int(out["maxiter"].nit) == 3 and int(out["none"].nfev) == int(out["tol"].nfev) == 1
    assert 5 <= out["maxfun"].nfev < 25 and out["maxiter"].fun < 100
    np.testing.assert_allclose(out["steepest"].x, 0, atol=1e-5)
    np.testing.assert_array_equal(out["search"].x, x)


def test_batches_with_limited_memory():
    fun = lambda x, a: ((x - a) ** 2 * np.arange(1, 4)).sum() + (x**4).sum()
    solve = lambda x, a: lbfgs(fun, x, (a,)).x
    starts = np.float32([[0.0, 1.0, 2.0], [2.0, 1.0, -1.0]])
    many = jax.jit(jax.vmap(solve, (0, None)))(starts, 1.0)
    np.testing.assert_allclose(many[0], many[1], atol=2e-4)
    empty = lbfgs(lambda x: (x**2).sum(), np.zeros(0, np.float32))
    assert bool(empty.success) and empty.x.shape == (0,)


def test_results():
    out = jax.jit(lambda x: bfgs(lambda x: ((x - jnp.array([3.0, -2.0])) ** 2).sum(), x))(
        np.zeros(2, np.float32)
    )
    assert isinstance(out, OptimizeResults)
    assert [v.dtype.name for v in out] == [
        "float32", "bool", "int32", "float32", "float32", "float32", "int32", "int32", "int32"
    ]  # fmt: skip
    assert [v.shape for v in out] == [(2,), (), (), (), (2,), (2, 2), (), (), ()]
    np.testing.assert_allclose(out.x, [3, -2], atol=1e-5)
    # Along the only direction that was searched, the inverse of the Hessian is known.
    np.testing.assert_allclose(out.hess_inv @ out.x, out.x / 2, rtol=1e-3)


def test_inverse_hessian():
    curvature = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
    fun = lambda x: x @ curvature @ x / 2 - x.sum()
    with jax.enable_x64(True):
        out = jax.jit(lambda x: bfgs(fun, x, tol=1e-10))(np.array([1.0, 2.0, 3.0]))
    assert bool(out.success)
    np.testing.assert_allclose(out.x, np.linalg.solve(curvature, np.ones(3)), atol=1e-9)
    np.testing.assert_allclose(out.hess_inv, np.linalg.inv(curvature), rtol=0.05, atol=0.05)


def test_batches_and_arguments():
    fun = lambda x, a, scale: scale["s"] * ((x - a) ** 2).sum() + (x**4).sum()
    solve = lambda x, a: bfgs(fun, x, (a, {"s": 3.0}), tol=1e-3)
    starts = np.array([[0.0, 1.0], [2.0, 1.0], [-3.0, 0.5]], np.float32)
    many = jax.jit(jax.vmap(solve, (0, None)))(starts, 1.0)
    one = jax.jit(solve)
    for i, x in enumerate(starts):
        for batched, single in zip(many, one(x, 1.0)):
            np.testing.assert_allclose(batched[i], single, rtol=1e-3, atol=1e-4)
    assert np.all(many.success)


def test_options():
    fun = rosenbrock(jnp)
    x = np.array([-1.2, 1.0], np.float32)

    @jax.jit
    def run(maxiter):
        return (
            bfgs(fun, x, options={"maxiter": maxiter}),
            bfgs(fun, x, tol=1e3),
            bfgs(fun, x, tol=0.0, options={"gtol": 1e3, "norm": 2}),
            bfgs(fun, x, options={"line_search_maxiter": 0}),
            bfgs(fun, x, options={"gtol": 1e-2}),
        )

    few, loose, both, none, usual = run(3)
    assert (int(few.status), int(few.nit), bool(few.success)) == (1, 3, False)
    assert few.fun < fun(x)
    for out in (loose, both):
        assert (int(out.status), int(out.nit), int(out.nfev)) == (0, 0, 1)
    assert (int(none.status), bool(none.success)) == (5, False)
    np.testing.assert_allclose(usual.x, 1, atol=0.05)


def test_failures():
    x = np.ones(2, np.float32)

    @jax.jit
    def run():
        return (
            bfgs(lambda x: x.sum(), x),  # has no minimum
            bfgs(lambda x: x.sum() * jnp.nan, x),
            bfgs(lambda x: jnp.where(x.sum() > 1, x.sum(), jnp.nan), x),
        )

    unbounded, nan, edge = run()
    assert unbounded.fun < -1e3 and not bool(unbounded.success)
    assert (int(nan.status), bool(nan.success)) == (-1, False)
    assert 1 < edge.fun < 1.2 and int(edge.status) == 3


def test_types():
    square = lambda x: ((x - 1) ** 2).sum()
    out = bfgs(square, np.zeros(2, int))
    assert out.x.dtype == np.float32 and bool(out.success)
    out = bfgs(square, np.zeros(2, np.float16), tol=1e-2)
    assert out.x.dtype == out.fun.dtype == np.float16
    np.testing.assert_allclose(out.x, 1, atol=0.01)
    empty = bfgs(square, np.zeros(0, np.float32))
    assert bool(empty.success) and empty.x.shape == (0,)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda f, x: bfgs(f, x, 1.0), TypeError, r"args must be a tuple, got 1.0. Pass \(1.0,\)"),
        (lambda f, x: bfgs(f, x[None]), ValueError, r"x0 must be a vector, got shape \(1, 2\)"),
        (lambda f, x: minimize(f, x, method="CG"), ValueError, "one of .*'BFGS'.*, got 'CG'"),
        (lambda f, x: bfgs(f, x, options={"ftol": 1}), TypeError, "'ftol'.* are unknown"),
        (lambda f, x: lbfgs(f, x, options={"eps": 1}), TypeError, "'eps'.* has .*'maxcor'"),
        (lambda f, x: bfgs(lambda x: x, x), TypeError, "scalar"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(lambda x: x.sum(), np.zeros(2, np.float32))
