"""Kernels from the literature, forward and backward: interpreted in two ways, and compiled for TPUs and GPUs."""

import zlib

import numpy as np
import pallas_literature_kernels as literature
import pytest

import jax
import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu

INTERPRETERS = {"generic": True, "tpu": pltpu.InterpretParams()}


def value_and_gradients(function, args):
    """Return the results, and the gradients of a weighted sum of them."""
    varied = tuple(i for i, x in enumerate(args) if literature.is_float(x))

    def weighted(*args):
        results = function(*args)
        leaves = jax.tree.leaves(results)
        weights = [jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape) for x in leaves]
        return sum(jnp.vdot(w, x) for w, x in zip(weights, leaves)), results

    return jax.value_and_grad(weighted, varied, has_aux=True)(*args)


@pytest.mark.parametrize("interpreter", INTERPRETERS)
@pytest.mark.parametrize("name", literature.KERNELS)
def test_kernel(name, interpreter):
    kernel = literature.KERNELS[name]
    args = kernel.inputs(np.random.default_rng(zlib.crc32(name.encode())))
    function = kernel.make(INTERPRETERS[interpreter])
    (_, got), gradients = jax.jit(lambda *args: value_and_gradients(function, args))(*args)
    (_, want), expected = jax.jit(lambda *args: value_and_gradients(kernel.plain, args))(*args)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves((got, gradients)), jax.tree.leaves((want, expected))):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * max(1, np.abs(b).max()))


def test_there_are_enough():
    assert len(literature.KERNELS) >= 60
