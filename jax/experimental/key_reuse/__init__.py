"""Checks for random keys that are used twice: `jax.debug_key_reuse`; see the documentation."""
