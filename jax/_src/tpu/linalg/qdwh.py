"""Polar decomposition; see `jax.lax.linalg.qdwh`."""

from jax._src.lax.linalg.qdwh import qdwh as qdwh
