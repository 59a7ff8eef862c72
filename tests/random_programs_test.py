"""Random nestings of transformations: all ways to a derivative agree, with finite differences too."""

import numpy as np
import pytest
from random_programs import VECTOR, random_program

import jax
from jax._src import core, test_util as jtu


def needs_reverse_mode(err: TypeError) -> bool:
    """Whether an error is the one of forward mode through a `custom_vjp` function."""
    return "forward-mode" in str(err)


def central_differences(f, x, eps=1e-6):
    steps = eps * np.eye(3)
    return np.stack([(np.asarray(f(x + e)) - np.asarray(f(x - e))) / (2 * eps) for e in steps], 1)


def close(a, b, tol=1e-9):
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


@pytest.mark.parametrize("seed", range(14))
def test_derivatives_agree(seed):
    with jax.enable_x64(True):
        f = random_program(seed, depth=3)
        x, ct = VECTOR, np.array([0.3, -0.7, 0.5])
        batch = np.stack([x, x / 2])
        try:
            jaxpr = jax.make_jaxpr(jax.jacrev(f))(x)
        except TypeError as err:  # a linearized `custom_vjp` function that is applied
            assert needs_reverse_mode(err), err
            return
        core.check_jaxpr(jaxpr)
        compiled = jax.jit(f)
        value = np.asarray(compiled(x))
        close(f(x), value)
        backward = central_differences(compiled, x)
        close(jax.vjp(f, x)[1](ct)[0], ct @ backward, 1e-6)

        def reverse(x, batch):
            return (
                jax.jacrev(f)(x),
                jax.jacrev(jax.checkpoint(f))(x),
                jax.vmap(jax.jacrev(f))(batch)[0],
                jax.vjp(jax.vmap(f), batch)[1](np.stack([ct, ct]))[0][0],
                jax.vmap(f)(batch),
            )

        first, again, batched, product, values = jax.jit(reverse)(x, batch)
        close(first, backward, 1e-6)
        close(again, first)
        close(batched, first)
        close(product, ct @ first)
        close(values, np.stack([value, compiled(x / 2)]))

        def forward(x):
            return (
                jax.jacfwd(f)(x),
                jax.linearize(f, x)[1](ct),
                jax.vmap(lambda t: jax.jvp(f, (x,), (t,))[1])(np.stack([ct, ct]))[0],
            )

        try:
            columns, linear, mapped = jax.jit(forward)(x)
            close(jax.jvp(f, (x,), (ct,))[1], first @ ct)
        except TypeError as err:
            assert needs_reverse_mode(err), err
        else:
            close(columns, first)
            close(linear, first @ ct)
            close(mapped, first @ ct)
        assert core.trace_state_clean()


@pytest.mark.parametrize("seed", range(100, 104))
def test_second_derivatives_agree(seed):
    with jax.enable_x64(True):
        f = random_program(seed, depth=2)
        total = lambda x: f(x).sum()
        try:
            reverse = np.asarray(jax.jit(jax.jacrev(jax.grad(total)))(VECTOR))
            ways = [jax.jacfwd(jax.grad(total)), jax.jacrev(jax.jacfwd(total))]
            results = jax.jit(lambda x: [way(x) for way in ways])(VECTOR)
        except TypeError as err:
            assert needs_reverse_mode(err), err
            return
        for result in results:
            close(result, reverse, 1e-8)
        close(central_differences(jax.jit(jax.grad(total)), VECTOR), reverse, 1e-5)


if __name__ == "__main__":
    jtu.absltest.main()
