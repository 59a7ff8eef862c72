"""A plugin of pytest (`-p require_kernels`) for tests with jaxlib-ext: without it, they do not run."""

import pytest


def pytest_sessionstart():
    # imported no sooner: conftest.py sets variables that jax reads then
    from jax._src.lib import native_kernels

    if native_kernels.extension() is None:
        raise pytest.UsageError(f"the kernels of jaxlib-ext: {native_kernels.problem()}")
