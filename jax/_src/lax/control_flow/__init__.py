"""Control flow: `cond`, `switch`, `while_loop`, `fori_loop`, `scan`, `map`."""

from typing import TYPE_CHECKING

from jax._src.lazy_names import lazy_names

if TYPE_CHECKING:
    from jax._src.lax.control_flow.associative import (
        associative_scan as associative_scan,
    )
    from jax._src.lax.control_flow.conditionals import (
        cond as cond,
        cond_p as cond_p,
        platform_dependent as platform_dependent,
        platform_index_p as platform_index_p,
        switch as switch,
    )
    from jax._src.lax.control_flow.loops import (
        fori_loop as fori_loop,
        while_loop as while_loop,
    )
    from jax._src.lax.control_flow.scan_primitive import (
        scan_p as scan_p,
    )
    from jax._src.lax.control_flow.scans import (
        map as map,
        scan as scan,
    )
    from jax._src.lax.control_flow.solves import (
        custom_linear_solve as custom_linear_solve,
        custom_root as custom_root,
        linear_solve_p as linear_solve_p,
    )
    from jax._src.lax.control_flow.while_primitive import (
        while_p as while_p,
    )


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax._src.lax.control_flow.associative": (
            "associative_scan",
        ),
        "jax._src.lax.control_flow.conditionals": (
            "cond", "cond_p", "platform_dependent", "platform_index_p", "switch",
        ),
        "jax._src.lax.control_flow.loops": (
            "fori_loop", "while_loop",
        ),
        "jax._src.lax.control_flow.scans": (
            "map", "scan",
        ),
        "jax._src.lax.control_flow.scan_primitive": (
            "scan_p",
        ),
        "jax._src.lax.control_flow.solves": (
            "custom_linear_solve", "custom_root", "linear_solve_p",
        ),
        "jax._src.lax.control_flow.while_primitive": (
            "while_p",
        ),
    },
)  # fmt: skip
