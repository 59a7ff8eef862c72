"""Published libraries: importing them, and the first and the later calls of programs that use them.

The rows are there if JAX_LIBRARIES_PACKAGES is the folder of the libraries' packages, which
`build.py bench --libraries` sets. As a program, this module prints the milliseconds that one
program's first trace and lowering take in a new process, or the number of programs it compiles.
"""

import functools
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from registry import measured, timed

import jax
import jax.numpy as jnp

PACKAGES = os.environ.get("JAX_LIBRARIES_PACKAGES")
if PACKAGES:
    sys.path.append(PACKAGES)

IMPORTED = ("flax", "optax", "equinox", "numpyro")
# New processes of each side, of which the fastest counts.
PROCESSES = 5


def transformer_step():
    """A training step of a small decoder, with flax and optax."""
    import flax.linen as nn
    import optax

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
            y = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=4)(y, y, mask=mask)
            y = nn.Dense(256)(nn.LayerNorm()(x))
            return x + nn.Dense(64)(nn.gelu(y))

    class Decoder(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(100, 64)(tokens) + nn.Embed(32, 64)(jnp.arange(tokens.shape[1]))
            for _ in range(4):
                x = Block()(x)
            return nn.Dense(100)(nn.LayerNorm()(x))

    model, optimizer = Decoder(), optax.adamw(1e-3)
    tokens = np.arange(8 * 32).reshape(8, 32) % 100
    variables = model.init(jax.random.key(0), tokens)

    def step(variables, state, tokens):
        def loss(variables):
            logits = model.apply(variables, tokens)[:, :-1]
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

        value, gradients = jax.value_and_grad(loss)(variables)
        updates, state = optimizer.update(gradients, state, variables)
        return optax.apply_updates(variables, updates), state, value

    return step, (variables, optimizer.init(variables), tokens)


def nuts_step():
    """A step of NUTS on a regression, with numpyro."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import NUTS

    x = np.linspace(-1, 1, 200).reshape(50, 4).astype(np.float32)
    y = x.sum(1)

    def model(x, y):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([4]).to_event(1))
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        numpyro.sample("y", dist.Normal(x @ w, scale), obs=y)

    kernel = NUTS(model)
    state = kernel.init(jax.random.PRNGKey(0), 100, None, (x, y), {})
    return lambda state: kernel.sample(state, (x, y), {}), (state,)


def ode_solution():
    """An oscillator, solved with adaptive steps by diffrax."""
    import diffrax

    def solve(y0):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: jnp.stack([y[1], -y[0]])),
            diffrax.Tsit5(),
            t0=0.0,
            t1=10.0,
            dt0=0.1,
            y0=y0,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 10.0, 50)),
            stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
        ).ys

    return solve, (jnp.array([1.0, 0.0]),)


PROGRAMS = {
    "a flax transformer's train step": transformer_step,
    "a numpyro NUTS step": nuts_step,
    "a diffrax solve": ode_solution,
}


def first_call(name: str) -> float:
    """The milliseconds of tracing and lowering one program, before anything like it was traced."""
    function, args = PROGRAMS[name]()
    start = time.perf_counter()
    jax.jit(function).lower(*args)
    return (time.perf_counter() - start) * 1e3


def compilations(name: str) -> int:
    """The number of programs that the first two calls compile."""
    function, args = PROGRAMS[name]()
    compiled = 0

    def count(event, *_, **__):
        nonlocal compiled
        compiled += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(count)
    jitted = jax.jit(function)
    for _ in range(2):
        jax.block_until_ready(jitted(*args))
    return compiled


def in_new_process(do: str, name: str) -> float:
    run = subprocess.run(
        [sys.executable, os.path.abspath(__file__), do, name],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"{do} of {name} failed:\n{run.stderr}")
    return float(run.stdout.split()[-1])


def import_library(library: str):
    def call():
        with tempfile.TemporaryDirectory() as elsewhere:
            subprocess.run(
                [
                    sys.executable,
                    "-c",
                    f"import sys; sys.path.append({PACKAGES!r}); import {library}",
                ],
                cwd=elsewhere,
                check=True,
            )

    return call


def adam_update():
    import optax

    optimizer = optax.adam(1e-3)
    parameters = {f"layer{i}": {"w": jnp.ones((64, 64)), "b": jnp.ones(64)} for i in range(4)}
    state = optimizer.init(parameters)
    return lambda: optimizer.update(parameters, state, parameters)


def steady_state(make):
    function, args = make()
    jitted = jax.jit(function)
    return lambda: jitted(*args)


if PACKAGES and __name__ != "__main__":
    for library in IMPORTED:
        timed("libraries", f"import {library}", mark=0.7)(
            functools.partial(import_library, library)
        )
    for name, make in PROGRAMS.items():
        measured("libraries", f"first trace and lowering of {name}", "ms", mark=0.5)(
            lambda name=name: min(in_new_process("first_call", name) for _ in range(PROCESSES))
        )
        measured("libraries", f"programs compiled by two calls of {name}", "", mark=1.0)(
            functools.partial(in_new_process, "compilations", name)
        )
        timed("libraries", f"steady state of {name}", mark=1.0)(
            functools.partial(steady_state, make)
        )
    timed("libraries", "optax.adam update, eager", mark=0.5)(adam_update)

if __name__ == "__main__":
    print({"first_call": first_call, "compilations": compilations}[sys.argv[1]](sys.argv[2]))
