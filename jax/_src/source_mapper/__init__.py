"""Source maps of what a function is compiled to: jaxprs, StableHLO, and XLA's programs."""

from jax._src.source_mapper import hlo, jaxprs
from jax._src.source_mapper.passes import register_pass

for _pass in (*jaxprs.PASSES, *hlo.PASSES):
    register_pass(_pass)
