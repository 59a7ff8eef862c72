"""Tools that look inside of programs, and command-line tools."""

from jax._src.jaxpr_view import view as view
