"""Random programs with references: values and derivatives are those of programs without them."""

import numpy as np
import pytest
from random_programs import VECTOR
from random_ref_programs import random_ref_program

import jax
from jax._src import core, test_util as jtu

DIRECTION = np.array([0.3, -0.7, 0.5])
BATCH = np.stack([VECTOR, VECTOR / 2])


def results(f):
    """Results by name: the value, derivatives and batches, transformed in several orders."""
    total = lambda x: f(x).sum()
    return {
        "value": f(VECTOR),
        "vjp": jax.vjp(f, VECTOR)[1](DIRECTION)[0],
        "jvp": jax.jvp(f, (VECTOR,), (DIRECTION,))[1],
        "linearize": jax.linearize(f, VECTOR)[1](DIRECTION),
        "vmap": jax.vmap(f)(BATCH),
        "of_jit": jax.jacrev(jax.jit(f))(VECTOR),
        "of_checkpoint": jax.jacrev(jax.checkpoint(f))(VECTOR),
        "vmap_of_grad": jax.vmap(jax.grad(total))(BATCH),
        "grad_of_vmap": jax.jacrev(jax.vmap(f))(BATCH),
        "hessian": jax.jacfwd(jax.grad(total))(VECTOR),
    }


@pytest.mark.parametrize("seed", range(6))
def test_references_change_nothing(seed):
    with jax.enable_x64(True):
        f, without = random_ref_program(seed, depth=2)
        core.check_jaxpr(jax.make_jaxpr(jax.grad(lambda x: f(x).sum()))(VECTOR))
        got, want = jax.jit(lambda: (results(f), results(without)))()
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-8, atol=1e-10, err_msg=name)
        np.testing.assert_allclose(f(VECTOR), want["value"], rtol=1e-8, atol=1e-10)
        assert core.trace_state_clean()


if __name__ == "__main__":
    jtu.absltest.main()
