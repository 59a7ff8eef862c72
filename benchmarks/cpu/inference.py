"""Statistics and dynamics: loops whose steps are small."""

import math

import numpy as np
from cpu.frameworks import compiled, jax, jnp, lax, torch
from cpu.programs import normal, program


@program("k-means, 10 iterations", flop=10 * 2 * 10_000 * 64 * 16)
class KMeans:
    def inputs(rng):
        points = normal(rng, 10_000, 16)
        return points, points[:64].copy()

    def jax(points, centers):
        def step(_, centers):
            distances = jnp.sum(centers**2, 1) - 2 * points @ centers.T
            nearest = jnp.argmin(distances, axis=1)
            sums = jax.ops.segment_sum(points, nearest, 64)
            counts = jax.ops.segment_sum(jnp.ones(len(points)), nearest, 64)
            return sums / jnp.maximum(counts, 1)[:, None]

        return lax.fori_loop(0, 10, step, centers)

    def torch(points, centers):
        def call():
            found = centers
            for _ in range(10):
                nearest = ((found**2).sum(1) - 2 * points @ found.T).argmin(1)
                sums = torch.zeros(64, 16).index_add_(0, nearest, points)
                counts = torch.bincount(nearest, minlength=64)
                found = sums / counts.clamp(min=1)[:, None]
            return found

        return call


@program("HMC, logistic regression", flop=20 * 10 * 4 * 500 * 20)
class HMC:
    """20 samples of 10 leapfrog steps each."""

    def inputs(rng):
        return normal(rng, 500, 20), rng.integers(0, 2, 500).astype("float32"), normal(rng, 20)

    def jax(x, y, start):
        def energy(w):
            z = x @ w
            return jnp.sum(jnp.logaddexp(0, z) - y * z) + 0.5 * jnp.sum(w**2)

        gradient = jax.grad(energy)

        def sample(w, key):
            first, second = jax.random.split(key)
            p = jax.random.normal(first, w.shape)

            def leapfrog(_, state):
                w, p = state
                p = p - 0.005 * gradient(w)
                w = w + 0.01 * p
                return w, p - 0.005 * gradient(w)

            new, q = lax.fori_loop(0, 10, leapfrog, (w, p))
            change = energy(w) + 0.5 * p @ p - energy(new) - 0.5 * q @ q
            accept = jnp.log(jax.random.uniform(second)) < change
            w = jnp.where(accept, new, w)
            return w, w

        return lax.scan(sample, start, jax.random.split(jax.random.key(0), 20))

    def numpy(x, y, start):
        rng = np.random.default_rng(0)

        def energy(w):
            z = x @ w
            return np.sum(np.logaddexp(0, z) - y * z) + 0.5 * np.sum(w**2)

        def gradient(w):
            return x.T @ (1 / (1 + np.exp(-(x @ w))) - y) + w

        def call():
            w, samples = start, []
            for _ in range(20):
                p = rng.standard_normal(20, dtype=np.float32)
                new, q = w, p
                for _ in range(10):
                    q = q - 0.005 * gradient(new)
                    new = new + 0.01 * q
                    q = q - 0.005 * gradient(new)
                change = energy(w) + 0.5 * p @ p - energy(new) - 0.5 * q @ q
                if math.log(rng.random()) < change:
                    w = new
                samples.append(w)
            return samples

        return call


@compiled
def lorenz_steps(state, steps):
    """Numba's equivalent of the program below."""
    x, y, z = state[0], state[1], state[2]
    h = np.float32(0.01)
    path = np.empty((steps, 3), np.float32)
    for i in range(steps):
        a = x
        b = y
        c = z
        sx = sy = sz = np.float32(0)
        for stage in range(4):
            dx = np.float32(10) * (b - a)
            dy = a * (np.float32(28) - c) - b
            dz = a * b - np.float32(2.6666667) * c
            weight = np.float32(1) if stage in (0, 3) else np.float32(2)
            sx, sy, sz = sx + weight * dx, sy + weight * dy, sz + weight * dz
            part = h if stage == 2 else h / np.float32(2)
            a, b, c = x + part * dx, y + part * dy, z + part * dz
        sixth = h / np.float32(6)
        x, y, z = x + sixth * sx, y + sixth * sy, z + sixth * sz
        path[i, 0], path[i, 1], path[i, 2] = x, y, z
    return path


@program("ODE, 1,000 steps of RK4")
class RungeKutta:
    def inputs(rng):
        return (normal(rng, 3),)

    def jax(start):
        def field(s):
            x, y, z = s
            return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 2.6666667 * z])

        def step(s, _):
            h = 0.01
            a = field(s)
            b = field(s + h / 2 * a)
            c = field(s + h / 2 * b)
            d = field(s + h * c)
            s = s + h / 6 * (a + 2 * b + 2 * c + d)
            return s, s

        return lax.scan(step, start, None, length=1000)

    def numpy(start):
        return lambda: lorenz_steps(start, 1000)


@program("ODE, 1,000 steps of RK4, gradient")
class RungeKuttaGradient:
    inputs = RungeKutta.inputs

    def jax(start):
        return jax.grad(lambda start: jnp.mean(RungeKutta.jax(start)[1]))(start)


@program("scalars, 1,000 steps of 20 operations")
class Scalars:
    def inputs(rng):
        return np.float32(0.5), np.float32(0.25)

    def jax(x, y):
        def step(_, state):
            x, y = state
            for _ in range(5):
                x = x * 0.99 + y * 0.01
                y = y * 0.98
            return x, y

        return lax.fori_loop(0, 1000, step, (x, y))

    def numpy(x, y):
        return lambda: scalar_steps(x, y, 1000)


@compiled
def scalar_steps(x, y, steps):
    for _ in range(steps):
        for _ in range(5):
            x = x * np.float32(0.99) + y * np.float32(0.01)
            y = y * np.float32(0.98)
    return x, y


@program("scalars, 1,000 steps of 20 operations, gradient")
class ScalarsGradient:
    inputs = Scalars.inputs

    def jax(x, y):
        return jax.grad(lambda x, y: sum(Scalars.jax(x, y)), (0, 1))(x, y)


@program("Kalman filter, 1,000 steps of 3x3")
class Kalman:
    def inputs(rng):
        move = np.array([[1, 0.1, 0.005], [0, 1, 0.1], [0, 0, 1]], np.float32)
        return move, np.eye(3, dtype=np.float32) * 0.01, normal(rng, 1000, 1)

    def jax(move, noise, observed):
        look = jnp.array([[1.0, 0.0, 0.0]])

        def step(state, z):
            m, p = state
            m, p = move @ m, move @ p @ move.T + noise
            s = look @ p @ look.T + 0.1
            gain = p @ look.T / s
            m = m + gain @ (z - look @ m)
            p = p - gain @ look @ p
            return (m, p), m

        return lax.scan(step, (jnp.zeros(3), jnp.eye(3)), observed)

    def numpy(move, noise, observed):
        return lambda: kalman_steps(move, noise, observed)


@compiled
def kalman_steps(move, noise, observed):
    m, p = np.zeros(3, np.float32), np.eye(3).astype(np.float32)
    found = np.empty((len(observed), 3), np.float32)
    look = np.array([[1.0, 0.0, 0.0]], np.float32)
    for i in range(len(observed)):
        m, p = move @ m, move @ p @ move.T.copy() + noise
        s = look @ p @ look.T.copy() + np.float32(0.1)
        gain = p @ look.T.copy() / s[0, 0]
        m = m + gain @ (observed[i] - look @ m)
        p = p - gain @ (look @ p)
        found[i] = m
    return found


@program("Kalman filter, 1,000 steps of 3x3, gradient")
class KalmanGradient:
    inputs = Kalman.inputs

    def jax(move, noise, observed):
        loss = lambda *inputs: jnp.mean(Kalman.jax(*inputs)[1] ** 2)
        return jax.value_and_grad(loss, (0, 1))(move, noise, observed)


@program("Kalman filters, 1,000 steps of 32 times 3x3")
class Kalmans:
    """A batch by `vmap`."""

    def inputs(rng):
        move, noise, _ = Kalman.inputs(rng)
        return move, noise, normal(rng, 32, 1000, 1)

    def jax(move, noise, observed):
        return jax.vmap(Kalman.jax, (None, None, 0))(move, noise, observed)


@program("particle filter, 50 steps of 1,000")
class Particles:
    """Moves, weights and resamples particles."""

    def inputs(rng):
        return normal(rng, 1000), normal(rng, 50)

    def jax(particles, observed):
        def step(particles, given):
            z, key = given
            first, second = jax.random.split(key)
            particles = 0.9 * particles + 0.3 * jax.random.normal(first, particles.shape)
            weights = jax.nn.softmax(-0.5 * ((z - particles) / 0.5) ** 2)
            places = (jnp.arange(1000) + jax.random.uniform(second)) / 1000
            chosen = jnp.searchsorted(jnp.cumsum(weights), places)
            particles = particles[jnp.minimum(chosen, 999)]
            return particles, particles.mean()

        return lax.scan(step, particles, (observed, jax.random.split(jax.random.key(0), 50)))

    def numpy(particles, observed):
        rng = np.random.default_rng(0)

        def call():
            found, means = particles, []
            for z in observed:
                found = 0.9 * found + 0.3 * rng.standard_normal(1000, dtype=np.float32)
                weights = np.exp(-0.5 * ((z - found) / 0.5) ** 2)
                sums = np.cumsum(weights / weights.sum())
                chosen = np.searchsorted(sums, (np.arange(1000) + rng.random()) / 1000)
                found = found[np.minimum(chosen, 999)]
                means.append(found.mean())
            return means

        return call
