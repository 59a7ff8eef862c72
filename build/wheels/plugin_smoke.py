"""Checks a new installation of a plugin's wheel, on a machine without devices for it.

The plugin must be found, and jax must use the CPU.
"""

import importlib.metadata

import jax
import jax.numpy as jnp

(point,) = importlib.metadata.entry_points(group="jax_plugins")
module = point.load()
assert module.__name__ == f"jax_plugins.{point.name}"
assert "site-packages" in module.__file__
assert callable(module.initialize)
assert {d.platform for d in jax.devices()} == {"cpu"}
assert jax.default_backend() == "cpu"
assert float(jax.jit(jnp.sum)(jnp.ones(3))) == 3
