"""Kernels from the literature, with their derivatives, compiled for TPUs by Mosaic and for GPUs by Triton and Mosaic GPU."""

import functools

import literature_compilation
import pallas_literature_kernels as literature
import ptx_printing
import pytest

# Programs of several kernels are compiled in less time than as many of one each.
GROUP = 16
CASES = [
    pytest.param(backend, start, marks=pytest.mark.aot(*marks))
    for backend, marks in (
        ("mosaic_tpu", ("tpu",)),
        ("triton", ("cuda",)),
        ("mosaic_gpu", ("cuda", "mosaic_gpu")),
    )
    for start in range(0, len(literature.KERNELS), GROUP)
]
DEVICES = {"mosaic_tpu": "v5e", "triton": "h100", "mosaic_gpu": "h100"}


def suited(backend):
    return [n for n, k in literature.KERNELS.items() if backend not in k.unsuited]


@pytest.mark.parametrize("backend, start", CASES)
def test_compiles(backend, start):
    group = list(literature.KERNELS)[start : start + GROUP]
    names = [n for n in group if n in suited(backend)]
    assert literature_compilation.calls(backend, DEVICES[backend], names) >= 2 * len(names)


@functools.cache
def ptx_for_blackwell():
    """The PTX of all kernels: of a program of its own, since the compiler keeps the architecture of its first kernel."""
    return ptx_printing.printed(literature_compilation, suited("mosaic_gpu"), timeout=1800)


@pytest.mark.aot("cuda", "mosaic_gpu")
def test_compiles_for_blackwell():
    ptx = ptx_for_blackwell()
    assert ptx.count(".target sm_100a") >= 2 * len(suited("mosaic_gpu"))
    assert "error" not in ptx
