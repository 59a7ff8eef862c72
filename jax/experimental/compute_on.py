"""Placing computations on another part of a device, such as its host."""

from jax._src.compute_on import compute_on as compute_on, compute_on2 as compute_on2
