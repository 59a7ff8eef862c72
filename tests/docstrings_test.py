"""Runs the examples in the docstrings of the public API."""

import doctest
import importlib
import inspect

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import fuser

MODULES = [
    "jax", "jax.ad_checkpoint", "jax.core", "jax.custom_batching", "jax.custom_derivatives", "jax.debug", "jax.dlpack", "jax.dtypes",
    "jax.errors", "jax.export", "jax.example_libraries.optimizers", "jax.example_libraries.stax",
    "jax.experimental.colocated_python", "jax.experimental.compute_on", "jax.experimental.control_deps",
    "jax.experimental.custom_partitioning", "jax.experimental.fused", "jax.experimental.layout",
    "jax.experimental.scheduling_groups", "jax.experimental.serialize_executable", "jax.experimental.shard_alike", "jax.experimental.transfer", "jax.experimental.xla_metadata",
    "jax.experimental.jet", "jax.experimental.pallas", "jax.experimental.pallas.fuser", "jax.experimental.pallas.tpu", "jax.experimental.ode", "jax.experimental.random", "jax.experimental.rnn",
    "jax.experimental.buffer_callback", "jax.experimental.roofline", "jax.extend.core", "jax.flatten_util", "jax.lax", "jax.lax.linalg", "jax.monitoring", "jax.nn",
    "jax.nn.initializers", "jax.numpy", "jax.numpy.fft", "jax.numpy.linalg", "jax.ops", "jax.profiler",
    "jax.random", "jax.scipy.cluster.vq", "jax.scipy.fft", "jax.scipy.integrate",
    "jax.scipy.interpolate", "jax.scipy.linalg", "jax.scipy.ndimage", "jax.scipy.optimize", "jax.scipy.signal", "jax.scipy.sparse.linalg", "jax.scipy.spatial.transform",
    "jax.scipy.special", "jax.sharding", "jax.stages",
    "jax.test_util", "jax.tools.jax_to_ir", "jax.tree", "jax.tree_util", "jax.typing",
]  # fmt: skip
DISTRIBUTIONS = [
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gennorm", "geom", "gumbel_l", "gumbel_r",
    "laplace", "logistic", "multinomial", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy",
]  # fmt: skip
MODULES += [f"jax.scipy.stats.{name}" for name in DISTRIBUTIONS]


def _documented():
    """Public objects with examples, each once, by the first name they go by."""
    seen = set()
    for name in MODULES:
        module = importlib.import_module(name)
        objects = [(name, module)]
        for attr in sorted(a for a in dir(module) if not a.startswith("_")):
            value = getattr(module, attr, None)
            if not inspect.ismodule(value):
                objects.append((f"{name}.{attr}", value))
        for path, value in objects:
            doc = getattr(value, "__doc__", None)
            if not (getattr(value, "__module__", None) or "jax").startswith("jax"):
                continue  # re-exported from NumPy
            if isinstance(doc, str) and ">>>" in doc and id(doc) not in seen:
                seen.add(id(doc))
                yield path, doc
            if inspect.isclass(value) and (value.__module__ or "").startswith("jax"):
                for attr, member in vars(value).items():
                    doc = getattr(member, "__doc__", None)
                    if isinstance(doc, str) and ">>>" in doc and id(doc) not in seen:
                        seen.add(id(doc))
                        yield f"{path}.{attr}", doc


EXAMPLES = dict(_documented())


@pytest.mark.parametrize("path", list(EXAMPLES))
def test_docstring(path):
    namespace = {"jax": jax, "jnp": jnp, "np": np, "lax": lax, "pl": pl, "fuser": fuser}
    test = doctest.DocTestParser().get_doctest(EXAMPLES[path], namespace, path, None, 0)
    lines = []
    runner = doctest.DocTestRunner(
        optionflags=doctest.NORMALIZE_WHITESPACE
        | doctest.ELLIPSIS
        | doctest.IGNORE_EXCEPTION_DETAIL
    )
    runner.run(test, out=lines.append)
    assert not runner.failures, "".join(lines)


def test_examples_were_found():
    assert len(EXAMPLES) > 300
