"""Kernels from the literature, forward and backward: interpreted in two ways, and compiled for TPUs and GPUs."""

import zlib

import numpy as np
import pallas_literature_kernels as literature
import pytest

import jax
from jax.experimental.pallas import tpu as pltpu

INTERPRETERS = {"generic": True, "tpu": pltpu.InterpretParams()}


@pytest.mark.parametrize("interpreter", INTERPRETERS)
@pytest.mark.parametrize("name", literature.KERNELS)
def test_kernel(name, interpreter):
    kernel = literature.KERNELS[name]
    args = kernel.inputs(np.random.default_rng(zlib.crc32(name.encode())))
    function = kernel.make(INTERPRETERS[interpreter])
    run = jax.jit(lambda *args: literature.value_and_gradients(function, args))
    literature.check(kernel, run(*args), args)


def test_there_are_enough():
    assert len(literature.KERNELS) >= 60


def test_says_why_back_ends_do_not_compile_kernels():
    for kernel in literature.KERNELS.values():
        assert set(kernel.unsuited) < set(literature.BACKENDS)
        assert all(kernel.unsuited.values())
