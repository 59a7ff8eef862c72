"""Circuits, Markov chains, trees as text: pennylane, blackjax, treescope."""

import blackjax
import numpy as np
import optax
import pennylane as qml
import treescope
from op_cases import Programs

import jax
import jax.numpy as jnp

CASES = Programs()
scenario = CASES.define


@scenario
def pennylane_circuit():
    device = qml.device("default.qubit", wires=3)

    @qml.qnode(device, interface="jax", diff_method="backprop")
    def circuit(weights, x):
        qml.AngleEmbedding(x, wires=range(3))
        qml.StronglyEntanglingLayers(weights, wires=range(3))
        return qml.expval(qml.PauliZ(0) @ qml.PauliX(1)), qml.probs(wires=[2])

    weights = np.random.RandomState(0).rand(2, 3, 3).astype(np.float32)
    x = np.array([0.1, 0.5, -0.3], np.float32)
    energy = lambda w: circuit(w, x)[0]
    return circuit(weights, x), jax.jit(jax.value_and_grad(energy))(jnp.asarray(weights))


def density(x):
    return -0.5 * jnp.sum(x**2 * jnp.array([1.0, 4.0])) - 0.1 * jnp.sum(x**4)


@scenario(tol=1e-3)
def blackjax_nuts():
    kernel = blackjax.nuts(density, step_size=0.3, inverse_mass_matrix=jnp.ones(2))
    state = kernel.init(jnp.array([1.0, -1.0]))

    def step(state, key):
        state, info = kernel.step(key, state)
        return state, (state.position, info.num_integration_steps)

    return jax.jit(lambda s, k: jax.lax.scan(step, s, k)[1])(
        state, jax.random.split(jax.random.key(0), 8)
    )


@scenario(tol=1e-4)
def blackjax_variational_inference():
    log_density = lambda x: -2 * (x["a"] - 1) ** 2 - jnp.sum((x["b"] + 0.5) ** 2) / 2
    start = {"a": jnp.float32(0), "b": jnp.zeros(2)}
    meanfield = blackjax.meanfield_vi(log_density, optax.adam(0.05), 10)
    state, step, bounds = meanfield.init(start), jax.jit(meanfield.step), []
    for key in jax.random.split(jax.random.key(0), 10):
        state, info = step(key, state)
        bounds.append(info.elbo)
    stein = blackjax.svgd(jax.grad(log_density), optax.sgd(0.1))
    particles = stein.init({"a": jnp.linspace(-1, 1, 5), "b": jnp.arange(10.0).reshape(5, 2)})
    for _ in range(3):
        particles = stein.step(particles)
    return bounds, state.mu, meanfield.sample(jax.random.key(1), state, 2), particles.particles


@scenario(tol=1e-3)
def blackjax_random_walk():
    kernel = blackjax.rmh(density, blackjax.mcmc.random_walk.normal(0.5 * jnp.eye(2)))
    state = kernel.init(jnp.zeros(2))
    accepted = []
    step = jax.jit(kernel.step)
    for key in jax.random.split(jax.random.key(1), 10):
        state, info = step(key, state)
        accepted.append(info.is_accepted)
    return state.position, state.logdensity, accepted


@scenario
def treescope_text():
    tree = {"a": jnp.arange(6.0).reshape(2, 3), "b": [np.ones(2), None, "text"]}
    return treescope.render_to_text(tree)
