"""Random nestings of transformations: all ways to a derivative agree, with finite differences too."""

import numpy as np
import pytest
from random_programs import VECTOR, random_program

import jax
from jax._src import core, test_util as jtu


def has_custom_vjp(f) -> bool:
    """Whether forward mode fails for `f` as it must for `custom_vjp`."""
    try:
        jax.jvp(f, (VECTOR,), (VECTOR,))
    except TypeError as err:
        assert "forward-mode" in str(err), err
        return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_derivatives_agree(seed):
    with jax.enable_x64(True):
        f = random_program(seed)
        x, eps = VECTOR, 1e-6
        value = np.asarray(f(x))
        close = lambda a, b, tol=1e-9: np.testing.assert_allclose(a, b, rtol=tol, atol=tol)
        close(jax.jit(f)(x), value)
        batch = np.stack([x, x / 2])
        close(jax.vmap(f)(batch), np.stack([value, f(x / 2)]))
        close(jax.jit(jax.vmap(f))(batch), np.stack([value, f(x / 2)]))
        numeric = np.stack(
            [(np.asarray(f(x + e)) - np.asarray(f(x - e))) / (2 * eps) for e in eps * np.eye(3)], 1
        )
        try:
            backward = np.asarray(jax.jacrev(f)(x))
        except TypeError as err:  # forward mode inside of a function that has reverse mode only
            assert "forward-mode" in str(err), err
            return
        close(backward, numeric, 1e-6)
        close(jax.jit(jax.jacrev(f))(x), backward)
        close(jax.vmap(jax.jacrev(f))(batch)[0], backward)
        close(jax.jacrev(jax.checkpoint(f))(x), backward)
        ct = np.array([0.3, -0.7, 0.5])
        close(jax.vjp(jax.vmap(f), batch)[1](np.stack([ct, ct]))[0][0], ct @ backward)
        if not has_custom_vjp(f):
            close(jax.jacfwd(f)(x), backward)
            close(jax.linearize(f, x)[1](ct), backward @ ct)
            close(jax.jit(lambda x: jax.jvp(f, (x,), (ct,))[1])(x), backward @ ct)
        core.check_jaxpr(jax.make_jaxpr(jax.jacrev(f))(x))
        assert core.trace_state_clean()


@pytest.mark.parametrize("seed", range(100, 115))
def test_second_derivatives_agree(seed):
    with jax.enable_x64(True):
        f = random_program(seed, depth=2)
        total = lambda x: f(x).sum()
        try:
            reverse = np.asarray(jax.jacrev(jax.grad(total))(VECTOR))
            results = [jax.jacfwd(jax.grad(total))(VECTOR), jax.hessian(total)(VECTOR)]
            results += [jax.jit(jax.hessian(total))(VECTOR), jax.jacrev(jax.jacfwd(total))(VECTOR)]
        except TypeError as err:
            assert "forward-mode" in str(err), err
            return
        for result in results:
            np.testing.assert_allclose(result, reverse, rtol=1e-8, atol=1e-8)
        eps = 1e-6
        numeric = np.stack(
            [
                np.asarray(jax.grad(total)(VECTOR + e)) - np.asarray(jax.grad(total)(VECTOR - e))
                for e in eps * np.eye(3)
            ]
        )
        np.testing.assert_allclose(reverse, numeric / (2 * eps), rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    jtu.absltest.main()
