"""Estimates of what a function costs: `jax.experimental.roofline`."""
