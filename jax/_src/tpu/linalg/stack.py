"""A stack of bounded size for compiled programs."""

from jax._src.lax.linalg.stack import Stack as Stack
