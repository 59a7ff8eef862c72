"""Memory layouts of arrays."""

from jax._src.lax.layout_constraint import with_layout_constraint as with_layout_constraint
from jax._src.layout import Format as Format, Layout as Layout
