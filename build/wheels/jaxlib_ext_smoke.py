"""Checks a new installation of the wheel `jaxlib-ext` together with that of `jax`."""

import jaxlib_ext
import numpy as np

import jax
import jax.numpy as jnp

assert jaxlib_ext.__version__ == jax.__version__
assert "site-packages" in jaxlib_ext.__file__
assert jaxlib_ext.handlers()
x = np.random.RandomState(0).randn(20000).astype(np.float32)
np.testing.assert_array_equal(jnp.sort(x), np.sort(x))
info = jax.print_environment_info(return_string=True)
assert f"jaxlib-ext: {jaxlib_ext.__version__}, vectors: " in str(info)
