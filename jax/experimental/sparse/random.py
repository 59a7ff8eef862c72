"""Random sparse arrays."""

from jax._src.sparse.random import random_bcoo as random_bcoo
