"""Types for annotating functions of arrays.

`ArrayLike` covers what JAX functions accept: JAX and NumPy arrays and Python scalars. They return
`jax.Array`. `DTypeLike` covers what they accept as a dtype.
"""

from jax._src.typing import ArrayLike as ArrayLike, DTypeLike as DTypeLike
