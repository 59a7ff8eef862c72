"""Programs of `jax.experimental.ode`: see op_cases.py. What the reference refuses is in ode_test.py."""

import functools

import numpy as np
from op_cases import Programs

import jax
import jax.numpy as jnp
from jax.experimental import ode

CASES = Programs()
F = np.float32
T = np.linspace(0, 2, 5, dtype=F)
Y = np.array([1.0, -0.5], F)
add = functools.partial(CASES.add, tol=2e-5)
loose = functools.partial(ode.odeint, rtol=1e-5, atol=1e-6)


def pendulum(y, t, m, g):
    return jnp.stack([y[1], -m * y[1] - g * jnp.sin(y[0])])


def oscillator(state, t, k):
    return {"x": state["v"][0], "v": (-k["k"] * state["x"] + jnp.sin(t),)}


def linear(y, t):
    return -y


STATE = {"x": np.arange(3, dtype=F), "v": (np.ones(3, F),)}
add("default_tolerances", lambda: ode.odeint(pendulum, Y, T, 0.25, 9.8))
add("stiff", lambda: loose(lambda y, t: -50 * (y - jnp.cos(t)), F(0), T))
add("decay", lambda: ode.odeint(linear, 1.0, T), tol=1e-6)
add("one_time", lambda: ode.odeint(linear, 1.0, T[:1]))
add("pytree", lambda: loose(oscillator, STATE, T, {"k": F(2)}))
add("complex", lambda: loose(lambda y, t: 1j * y, np.array([1, 1j], "complex64"), T))
add("float64", lambda: ode.odeint(pendulum, Y.astype(float), T.astype(float), 0.25, 9.8), x64=True)
add("two_dtypes", x64=True, tol=1e-6, fun=lambda: loose(lambda y, t: jax.tree.map(jnp.negative, y), {"a": np.ones(2), "b": Y}, T.astype(float)))  # fmt: skip
add("hmax", lambda: loose(linear, 1.0, T, hmax=0.05))
add("mxstep", lambda: ode.odeint(linear, 1.0, T, mxstep=3))
add("no_steps", lambda: ode.odeint(linear, 1.0, T, mxstep=0))
add("in_jit", lambda: jax.jit(lambda y, t: loose(pendulum, y, t, 0.25, 9.8))(Y, T))
add("vmap", lambda: jax.vmap(lambda y, m: loose(pendulum, y, T, m, 9.8))(np.stack([Y, 2 * Y]), np.array([0.1, 1], F)))  # fmt: skip
add("constants", lambda: loose(lambda y, t: (jnp.zeros(2), -y[1]), (Y, F(1)), T))
add("integers_of_args", lambda: loose(lambda y, t, n: -n["n"] * y, 1.0, T, {"n": 2}))


def gradients(function, *operands):
    def loss(*operands):
        leaves = jax.tree.leaves(function(*operands))
        return sum(jnp.sum(jnp.abs(x) ** 2 * jnp.arange(1, 6)[(...,) + (None,) * (x.ndim - 1)]) for x in leaves)  # fmt: skip

    return jax.grad(loss, tuple(range(len(operands))))(*operands)


add("gradients", tol=1e-3, fun=lambda: gradients(functools.partial(loose, pendulum), Y, T, F(0.25), F(9.8)))  # fmt: skip
add("gradients_pytree", tol=1e-3, fun=lambda: gradients(lambda s, k: loose(oscillator, s, T, k), STATE, {"k": F(2)}))  # fmt: skip
add("gradients_closure", tol=1e-3, fun=lambda: gradients(lambda a: loose(lambda y, t: -a * y, 1.0, T), F(0.5)))  # fmt: skip
add("gradients_complex", tol=1e-3, fun=lambda: gradients(lambda y: loose(lambda y, t: 1j * y, y, T), np.array([1, 1j], "complex64")))  # fmt: skip
add("gradients_jit", tol=1e-3, fun=lambda: jax.jit(lambda y: gradients(lambda y: loose(linear, y, T), y))(Y))  # fmt: skip
add("gradients_x64", x64=True, tol=1e-7, fun=lambda: gradients(lambda *a: ode.odeint(pendulum, *a), Y.astype(float), T.astype(float), 0.25, 9.8))  # fmt: skip
add("second_gradients", tol=1e-2, fun=lambda: jax.grad(jax.grad(lambda a: loose(lambda y, t: -a * y, 1.0, T[:2])[-1]))(F(0.5)))  # fmt: skip

# Functions of one step
K = np.linspace(-1, 1, 14, dtype=F).reshape(7, 2)
add("step", lambda: ode.runge_kutta_step(lambda y, t: t * y, jnp.array(Y), jnp.array(Y), F(0.5), F(0.1)))  # fmt: skip
add("first_step", lambda: ode.initial_step_size(lambda y, t: t * y, F(0.5), Y, 4, 1e-3, 1e-4, Y))
add("no_first_step", lambda: ode.initial_step_size(lambda y, t: 0 * y, F(0.5), Y, 4, 1e-3, 1e-4, 0 * Y))  # fmt: skip
add("next_step", lambda: [ode.optimal_step_size(F(0.1), F(r)) for r in (0, 1e-4, 0.5, 1.5, 300)])
add("error", lambda: [ode.mean_error_ratio(e, 1e-3, 1e-4, Y, -Y) for e in (Y, 1j * Y)])
add("interpolation", lambda: ode.interp_fit_dopri(Y, 2 * Y, jnp.array(K), F(0.1)))
add("polynomial", lambda: ode.fit_4th_order_polynomial(Y, 2 * Y, 3 * Y, K[0], K[1], F(0.1)))
add("square", lambda: [ode.abs2(F(-2)), ode.abs2(jnp.array(3 - 4j, "complex64"))])

# Errors
error = functools.partial(CASES.add, any_error=True)
error("integer_times", lambda: ode.odeint(linear, 1.0, np.arange(3)))
error("list_of_times", lambda: ode.odeint(linear, 1.0, [0.0, 1.0]))
error("scalar_time", lambda: ode.odeint(linear, 1.0, jnp.array(0.0)))
error("no_times", lambda: ode.odeint(linear, 1.0, jnp.zeros(0)))
error("integer_state", lambda: ode.odeint(linear, 1, T))
error("function_argument", lambda: ode.odeint(lambda y, t, f: f(y), 1.0, T, jnp.sin))
error("other_shape", lambda: ode.odeint(lambda y, t: jnp.ones(2), 1.0, T))
error("other_structure", lambda: ode.odeint(lambda y, t: (y, y), 1.0, T))
error("other_dtype", lambda: ode.odeint(lambda y, t: 1j * y, 1.0, T))
error("traced_option", lambda: jax.jit(lambda r: ode.odeint(linear, 1.0, T, rtol=r))(1e-3))
error("forward_mode", lambda: jax.jvp(lambda y: ode.odeint(linear, y, T), (1.0,), (1.0,)))
