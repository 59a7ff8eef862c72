"""Functions of sparse arrays in any format."""

from jax._src.sparse.api import (
    empty as empty,
    eye as eye,
    todense as todense,
    todense_p as todense_p,
)
from jax._src.sparse.base import JAXSparse as JAXSparse
from jax._src.sparse.bcoo.array import BCOO as BCOO
