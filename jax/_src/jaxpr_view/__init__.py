"""Pages that show a jaxpr: its equations with lines, types, costs and residuals, nested, and a graph of shardings."""

from jax._src.jaxpr_view.view import JaxprView as JaxprView, view as view
