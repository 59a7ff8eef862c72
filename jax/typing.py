"""Types for annotations of functions that take arrays.

`ArrayLike` is what functions take: JAX and NumPy arrays and Python's scalars. They return
`jax.Array`. `DTypeLike` is what stands for a type of elements.
"""

from jax._src.typing import ArrayLike as ArrayLike, DTypeLike as DTypeLike
