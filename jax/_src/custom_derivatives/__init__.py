"""Functions with custom derivative rules: `custom_jvp`, `custom_vjp`, `custom_gradient`."""

from typing import TYPE_CHECKING

from jax._src.ad_util import SymbolicZero
from jax._src.api_util import resolve_kwargs
from jax._src.core import Tracer
from jax._src.custom_derivatives.jvp import custom_jvp, custom_jvp_call_p
from jax._src.interpreters.batching import BatchTracer
from jax._src.lazy_names import lazy_names

if TYPE_CHECKING:
    from jax._src.custom_derivatives.gradient import (
        closure_convert as closure_convert,
        custom_gradient as custom_gradient,
        zero_from_primal as zero_from_primal,
    )
    from jax._src.custom_derivatives.remat_opt import (
        remat_opt_p as remat_opt_p,
    )
    from jax._src.custom_derivatives.vjp import (
        CustomVJPException as CustomVJPException,
        CustomVJPPrimal as CustomVJPPrimal,
        custom_vjp as custom_vjp,
        custom_vjp_call_p as custom_vjp_call_p,
        custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
        optimize_remat_of_custom_vjp_fwd as optimize_remat_of_custom_vjp_fwd,
    )


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax._src.custom_derivatives.gradient": (
            "closure_convert", "custom_gradient", "zero_from_primal",
        ),
        "jax._src.custom_derivatives.remat_opt": (
            "remat_opt_p",
        ),
        "jax._src.custom_derivatives.vjp": (
            "CustomVJPException", "CustomVJPPrimal", "custom_vjp", "custom_vjp_call_p",
            "custom_vjp_primal_tree_values", "optimize_remat_of_custom_vjp_fwd",
        ),
    },
)  # fmt: skip

# Names that outside code imports; `optimize_remat_of_custom_vjp_fwd` above is another.


def _maybe_perturbed(x: object) -> bool:
    """Whether `x` may have a tangent: being differentiated, or an argument of what is traced."""
    while isinstance(x, BatchTracer):
        x = x.val
    return isinstance(x, Tracer)
