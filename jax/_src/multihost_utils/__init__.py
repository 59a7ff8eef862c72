"""Utilities for programs that run as several processes; see `jax.experimental.multihost_utils`."""
