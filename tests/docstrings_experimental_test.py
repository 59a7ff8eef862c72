"""Runs the examples in the docstrings of `jax.experimental` and of the libraries of examples."""

import docstring_examples
import pytest

from jax.experimental import pallas as pl
from jax.experimental.pallas import fuser

MODULES = [
    "jax.example_libraries.optimizers", "jax.example_libraries.stax", "jax.experimental.colocated_python",
    "jax.experimental.compute_on", "jax.experimental.control_deps", "jax.experimental.custom_partitioning",
    "jax.experimental.fused", "jax.experimental.layout", "jax.experimental.scheduling_groups",
    "jax.experimental.serialize_executable", "jax.experimental.shard_alike", "jax.experimental.transfer",
    "jax.experimental.xla_metadata", "jax.experimental.jet", "jax.experimental.pallas",
    "jax.experimental.pallas.fuser", "jax.experimental.pallas.tpu", "jax.experimental.ode", "jax.experimental.random",
    "jax.experimental.rnn", "jax.experimental.buffer_callback", "jax.experimental.roofline",
]  # fmt: skip
EXAMPLES = docstring_examples.find(MODULES)


@pytest.mark.parametrize("path", EXAMPLES)
def test_docstring(path):
    docstring_examples.run(path, EXAMPLES[path], pl=pl, fuser=fuser)


def test_examples_were_found():
    assert len(EXAMPLES) > 120
