"""Checks a new installation of the wheel `jax`."""

import jax
import jax.numpy as jnp
import jax.tools

assert jax.__version__ == jax.version.__version__
assert [d.platform for d in jax.devices()] == ["cpu"]
x = jnp.arange(4.0)
assert jax.jit(jax.grad(lambda x: (x**2).sum()))(x).tolist() == [0.0, 2.0, 4.0, 6.0]
assert jax.vmap(jnp.sort)(-x.reshape(2, 2)).tolist() == [[-1.0, 0.0], [-3.0, -2.0]]
assert jax.tools.view(jnp.sin, x).html.startswith("<!DOCTYPE html>")  # the page's template is there
assert "site-packages" in jax.__file__
