"""How arrays are laid out in memory."""

from jax._src.layout import Format as Format, Layout as Layout
