"""Equations, linear and nonlinear and differential: lineax, optimistix, diffrax, jaxopt."""

import diffrax
import jaxopt
import lineax as lx
import numpy as np
import optax
import optimistix as optx
from op_cases import Programs

import jax
import jax.numpy as jnp

CASES = Programs()
scenario = CASES.define


def rows(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


# lineax


def positive():
    a = rows(4, 4)
    return a @ a.T + 4 * np.eye(4, dtype=np.float32)


@scenario
def lineax_solvers():
    matrix, vector = positive(), rows(4, seed=1)
    operator = lx.MatrixLinearOperator(matrix, lx.positive_semidefinite_tag)
    solvers = {
        "auto": lx.AutoLinearSolver(well_posed=True),
        "lu": lx.LU(),
        "qr": lx.QR(),
        "svd": lx.SVD(),
        "cholesky": lx.Cholesky(),
        "cg": lx.CG(1e-6, 1e-6),
        "gmres": lx.GMRES(1e-6, 1e-6),
        "bicgstab": lx.BiCGStab(1e-6, 1e-6),
    }
    return {name: lx.linear_solve(operator, vector, s).value for name, s in solvers.items()}


@scenario
def lineax_least_squares_and_derivatives():
    matrix, vector = rows(5, 3, seed=2), rows(5, seed=3)

    def fit(matrix, vector):
        operator = lx.MatrixLinearOperator(matrix)
        return jnp.sum(lx.linear_solve(operator, vector, lx.QR()).value ** 2)

    def tridiagonal(d):
        operator = lx.TridiagonalLinearOperator(d, d[1:] * 0.1, d[1:] * 0.2)
        return lx.linear_solve(operator, jnp.ones(4)).value

    batched = jax.vmap(lambda v: lx.linear_solve(lx.MatrixLinearOperator(positive()), v).value)
    grads = jax.jit(jax.grad(fit, (0, 1)))(matrix, vector)
    return grads, batched(rows(3, 4, seed=4)), jax.jacfwd(tridiagonal)(jnp.arange(2.0, 6.0))


@scenario
def lineax_jacobians_as_operators():
    function = lambda y, _: {"a": jnp.sin(y["a"]) + y["b"], "b": 2 * y["b"] - 0.1 * y["a"] ** 2}
    y = {"a": jnp.asarray(rows(2, seed=5)), "b": jnp.asarray(rows(2, seed=6))}
    operator = lx.JacobianLinearOperator(function, y)
    solution = lx.linear_solve(operator, y, lx.GMRES(1e-5, 1e-5))
    return solution.value, operator.as_matrix(), lx.materialise(operator).mv(y)


# optimistix


@scenario
def optimistix_roots_and_fixed_points():
    cubic = lambda y, c: y**3 + y - c
    solvers = {
        "newton": optx.Newton(1e-5, 1e-5),
        "dogleg": optx.Dogleg(1e-5, 1e-5),
    }
    roots = {n: optx.root_find(cubic, s, 0.5, 2.0).value for n, s in solvers.items()}
    bisection = optx.root_find(
        cubic, optx.Bisection(1e-5, 1e-5), 0.5, 2.0, options=dict(lower=0.0, upper=2.0)
    )
    root = lambda c: optx.root_find(cubic, optx.Newton(1e-5, 1e-5), 0.5, c).value
    fixed = optx.fixed_point(
        lambda y, a: jnp.cos(a * y), optx.FixedPointIteration(1e-5, 1e-5), jnp.ones(2), 0.7
    )
    return roots, bisection.value, jax.value_and_grad(root)(2.0), fixed.value


@scenario(tol=1e-4)
def optimistix_minimization_and_least_squares():
    rosenbrock = lambda y, a: jnp.sum((a - y[:-1]) ** 2 + 5 * (y[1:] - y[:-1] ** 2) ** 2)
    bfgs = optx.minimise(rosenbrock, optx.BFGS(1e-5, 1e-5), jnp.zeros(3), 1.0)
    x = np.linspace(0, 1, 9, dtype=np.float32)
    y = 2.0 * np.exp(-1.5 * x)
    residuals = lambda p, xy: p["scale"] * jnp.exp(-p["rate"] * xy[0]) - xy[1]
    start = {"scale": jnp.array(1.0), "rate": jnp.array(1.0)}
    fits = [
        optx.least_squares(residuals, solver, start, (x, y)).value
        for solver in (optx.LevenbergMarquardt(1e-5, 1e-5), optx.GaussNewton(1e-5, 1e-5))
    ]
    return bfgs.value, fits


@scenario(tol=1e-4)
def optimistix_limited_memory_and_derivatives():
    hill = lambda y, a: (y["a"] - a) ** 2 + 10 * (y["b"] - y["a"] ** 2) ** 2
    start = {"a": jnp.array(-0.5), "b": jnp.array(0.3)}
    fits = [
        optx.minimise(hill, solver, start, 1.2, throw=False, max_steps=100).value
        for solver in (
            optx.LBFGS(1e-5, 1e-5),
            optx.LBFGS(1e-5, 1e-5, use_inverse=False),
            optx.NonlinearCG(1e-5, 1e-5),
        )
    ]
    curve = lambda y, a: jnp.array([y[0] ** 2 + a * y[1] - 3, jnp.sin(y[0]) - y[1] * a])
    root = lambda a: optx.root_find(curve, optx.Newton(1e-6, 1e-6), jnp.array([1.5, 0.5]), a).value
    return fits, jax.jacrev(root)(1.3), jax.jacfwd(root)(1.3)


# jaxopt


@scenario(tol=1e-4)
def jaxopt_solvers():
    matrix, vector = rows(6, 3, seed=7), rows(6, seed=8)
    ridge = lambda w, l2: jnp.mean((matrix @ w - vector) ** 2) + l2 * jnp.sum(w**2)
    fitted = lambda l2: jaxopt.LBFGS(ridge, maxiter=20, tol=1e-5).run(jnp.zeros(3), l2).params
    simplex = jaxopt.ProjectedGradient(ridge, jaxopt.projection.projection_simplex, maxiter=20)
    lasso = jaxopt.ProximalGradient(
        lambda w: jnp.mean((matrix @ w - vector) ** 2), jaxopt.prox.prox_lasso, maxiter=20
    )
    return (
        fitted(0.1),
        jax.jacobian(fitted)(0.1),
        simplex.run(jnp.ones(3) / 3, l2=0.1).params,
        lasso.run(jnp.zeros(3), hyperparams_prox=0.05).params,
    )


# diffrax


def orbit(t, y, args):
    return jnp.array([y[1], -args * y[0]])


@scenario
def diffrax_ordinary_equation():
    @jax.jit
    def solve(y, spring):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(orbit),
            diffrax.Tsit5(),
            0.0,
            3.0,
            0.1,
            y,
            spring,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 3.0, 5)),
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-5),
        )
        return solution.ys, solution.stats["num_steps"]

    y = jnp.array([1.0, 0.0])
    return solve(y, 2.0), jax.jit(jax.grad(lambda s: solve(y, s)[0][-1, 0]))(2.0)


@scenario
def diffrax_stochastic_equation():
    drift = lambda t, y, args: -0.5 * y
    diffusion = lambda t, y, args: 0.3 * jnp.ones((2, 2)) + jnp.eye(2)

    @jax.jit
    def path(key):
        noise = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-2, (2,), key)
        terms = diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(diffusion, noise))
        saveat = diffrax.SaveAt(ts=jnp.linspace(0, 1, 4))
        return diffrax.diffeqsolve(
            terms, diffrax.Euler(), 0.0, 1.0, 0.05, jnp.ones(2), saveat=saveat
        ).ys

    return path(jax.random.key(0)), jax.vmap(path)(jax.random.split(jax.random.key(1), 3))


@scenario
def diffrax_neural_equation():
    weights = {"in": rows(2, 6, seed=9) * 0.3, "out": rows(6, 2, seed=10) * 0.3}
    field = lambda t, y, w: jnp.tanh(y @ w["in"]) @ w["out"]
    optimizer = optax.adam(1e-2)

    def loss(w):
        ys = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Heun(),
            0.0,
            1.0,
            0.2,
            jnp.array([1.0, -1.0]),
            w,
            adjoint=diffrax.RecursiveCheckpointAdjoint(),
        ).ys
        return jnp.sum((ys - jnp.array([0.5, 0.5])) ** 2)

    @jax.jit
    def step(w, state):
        value, grads = jax.value_and_grad(loss)(w)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(w, updates), state, value

    state, losses = optimizer.init(weights), []
    for _ in range(3):
        weights, state, value = step(weights, state)
        losses.append(value)
    return weights, losses


@scenario(tol=1e-4)
def diffrax_stiff_equation_with_an_event():
    field = lambda t, y, k: -k * (y - jnp.cos(t))
    event = diffrax.Event(lambda t, y, args, **_: y[0] - 0.5)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Kvaerno3(),
        0.0,
        3.0,
        0.01,
        jnp.array([0.0]),
        20.0,
        stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-4),
        event=event,
    )
    return solution.ts, solution.ys, str(solution.result == diffrax.RESULTS.event_occurred)
