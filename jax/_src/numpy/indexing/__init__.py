"""NumPy-style indexing: `x[...]`, `x.at[...]`, `jnp.take` and similar functions."""

from jax._src.numpy.indexing.at import _IndexUpdateHelper, _IndexUpdateRef
from jax._src.numpy.indexing.functions import (
    put,
    put_along_axis,
    take,
    take_along_axis,
)
from jax._src.numpy.indexing.getting import getitem, rewriting_take
from jax._src.numpy.indexing.parse import parse_index
from jax._src.numpy.indexing.setting import scatter_update
