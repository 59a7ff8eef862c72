"""Runs the examples in the docstrings of `jax.numpy`."""

import docstring_examples
import pytest

MODULES = [
    "jax.numpy", "jax.numpy.fft", "jax.numpy.linalg",
]  # fmt: skip
EXAMPLES = docstring_examples.find(MODULES)


@pytest.mark.parametrize("path", EXAMPLES)
def test_docstring(path):
    docstring_examples.run(path, EXAMPLES[path])


def test_examples_were_found():
    assert len(EXAMPLES) > 350
