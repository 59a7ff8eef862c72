"""Runs the examples in the docstrings of the public API but for NumPy's, SciPy's and what is experimental."""

import docstring_examples
import pytest

MODULES = [
    "jax", "jax.ad_checkpoint", "jax.core", "jax.custom_batching", "jax.custom_derivatives", "jax.debug",
    "jax.dlpack", "jax.dtypes", "jax.errors", "jax.export", "jax.extend.core", "jax.flatten_util", "jax.lax",
    "jax.lax.linalg", "jax.monitoring", "jax.nn", "jax.nn.initializers", "jax.ops", "jax.profiler", "jax.random",
    "jax.sharding", "jax.stages", "jax.test_util", "jax.tools.jax_to_ir", "jax.tree", "jax.tree_util", "jax.typing",
]  # fmt: skip
EXAMPLES = docstring_examples.find(MODULES)


@pytest.mark.parametrize("path", EXAMPLES)
def test_docstring(path):
    docstring_examples.run(path, EXAMPLES[path])


def test_examples_were_found():
    assert len(EXAMPLES) > 400
