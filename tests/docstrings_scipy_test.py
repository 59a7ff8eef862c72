"""Runs the examples in the docstrings of `jax.scipy`."""

import docstring_examples
import pytest

MODULES = [
    "jax.scipy.cluster.vq", "jax.scipy.fft", "jax.scipy.integrate", "jax.scipy.interpolate", "jax.scipy.linalg",
    "jax.scipy.ndimage", "jax.scipy.optimize", "jax.scipy.signal", "jax.scipy.sparse.linalg",
    "jax.scipy.spatial.transform", "jax.scipy.special",
]  # fmt: skip
DISTRIBUTIONS = [
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gennorm", "geom", "gumbel_l", "gumbel_r",
    "laplace", "logistic", "multinomial", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy",
]  # fmt: skip
MODULES += [f"jax.scipy.stats.{name}" for name in DISTRIBUTIONS]
EXAMPLES = docstring_examples.find(MODULES)


@pytest.mark.parametrize("path", EXAMPLES)
def test_docstring(path):
    docstring_examples.run(path, EXAMPLES[path])


def test_examples_were_found():
    assert len(EXAMPLES) > 200
