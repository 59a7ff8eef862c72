"""Control flow: `cond`, `switch`, `while_loop`, `fori_loop`, `scan`, `map`."""

from jax._src.lax.control_flow.associative import associative_scan
from jax._src.lax.control_flow.conditionals import (
    cond,
    cond_p,
    platform_dependent,
    platform_index_p,
    switch,
)
from jax._src.lax.control_flow.loops import fori_loop, while_loop
from jax._src.lax.control_flow.scan import map, scan
from jax._src.lax.control_flow.scan_primitive import scan_p
from jax._src.lax.control_flow.solves import custom_linear_solve, custom_root, linear_solve_p
from jax._src.lax.control_flow.while_primitive import while_p
