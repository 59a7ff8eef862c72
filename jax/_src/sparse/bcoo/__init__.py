"""BCOO, the batched coordinate format: buffers and their primitives, and functions of arrays."""

from jax._src.sparse.bcoo import operators as operators
