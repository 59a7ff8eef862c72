"""Random sparse arrays."""

# Also names of helpers, which the original's module has too.
from jax import (
    Array as Array,
    numpy as jnp,  # noqa: F401
    random as random,
    vmap as vmap,
)
from jax._src.sparse.random import random_bcoo as random_bcoo
from jax._src.util import split_list as split_list
from jax.experimental import sparse as sparse
