"""What functions cost: operations, transcendental ones, and bytes that they read and write."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

from jax._src import api_util, core
from jax._src.core import Jaxpr
from jax._src.interpreters import partial_eval as pe
from jax._src.jaxpr_view.costs import nbytes
from jax._src.tree_util import tree_flatten


@dataclasses.dataclass(frozen=True)
class CostEstimate:
    """What a kernel costs.

    Args:
      flops: the number of arithmetic operations.
      transcendentals: the number of transcendental functions that are computed.
      bytes_accessed: the number of bytes that are read and written.
      remote_bytes_transferred: the number of bytes that are sent to other devices.
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not isinstance(getattr(self, field.name), int):
                raise ValueError(
                    f"All fields in CostEstimate must be ints. {field.name} is not: {getattr(self, field.name)!r}"
                )

    def to_json(self) -> bytes:
        """Return the numbers as JSON."""
        return json.dumps(dataclasses.asdict(self)).encode("ascii")

    def __add__(self, other: CostEstimate) -> CostEstimate:
        return CostEstimate(
            *[a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other))]
        )

    def __mul__(self, times: int) -> CostEstimate:
        return CostEstimate(*[a * times for a in dataclasses.astuple(self)])


# The conventions of JAX's estimate: 2 m n k for a product, n multiplications for a power of n, and
# nothing for reductions. XLA, which `jaxpr_view` asks, counts otherwise.
_ARITHMETIC = frozenset(
    "add sub mul div max min neg abs sign floor ceil round rem and or xor not select_n"
    " clamp add_any".split()
)  # fmt: skip
_TRANSCENDENTAL = frozenset(
    "exp exp2 expm1 log log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh logistic erf erfc"
    " erf_inv rsqrt sqrt cbrt pow atan2 lgamma digamma".split()
)  # fmt: skip


def estimate_cost(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CostEstimate:
    """Estimate what a function costs, from its jaxpr.

    Args:
      fun: the function.
      *args, **kwargs: trees of arrays or of `jax.ShapeDtypeStruct`.

    Returns:
      The sum over its operations; those of loops are counted as often as they run, if that is known,
      and once otherwise. The bytes are those of the arguments and the results.

    >>> pl.estimate_cost(lambda x: jnp.sin(x @ x), jnp.ones((4, 4)))
    CostEstimate(flops=128, transcendentals=16, bytes_accessed=128, remote_bytes_transferred=0)
    """
    flat, tree = tree_flatten((args, kwargs))
    flat_fun, _ = api_util.flatten_fun(fun, tree)
    avals = [api_util.shaped_abstractify(x) for x in flat]
    info = api_util.debug_info("estimate_cost", fun, args, kwargs)
    jaxpr, out_avals, _ = pe.trace_to_jaxpr_dynamic(flat_fun, avals, info)
    cost = cost_of_jaxpr(jaxpr)
    return cost + CostEstimate(0, 0, nbytes([*avals, *out_avals]))


def cost_of_jaxpr(jaxpr: Jaxpr) -> CostEstimate:
    """Return the cost of a jaxpr's operations, without bytes."""
    total = CostEstimate(0, 0, 0)
    for eqn in jaxpr.eqns:
        total = total + _cost_of_eqn(eqn)
    return total


def _cost_of_eqn(eqn: core.JaxprEqn) -> CostEstimate:
    name = eqn.primitive.name
    nested = [cost_of_jaxpr(j) for j in core.jaxprs_in_params(eqn.params)]
    if name == "pallas_call":
        estimate = eqn.params["cost_estimate"]
        return estimate if estimate is not None else CostEstimate(0, 0, 0)
    if name == "cond":
        return max(nested, key=lambda c: (c.flops, c.transcendentals))
    if nested:
        times = eqn.params["length"] if name == "scan" else 1
        total = CostEstimate(0, 0, 0)
        for cost in nested:
            total = total + cost
        return total * times
    size = max([math.prod(getattr(v.aval, "shape", ())) for v in eqn.outvars], default=0)
    if name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        depth = math.prod([eqn.invars[0].aval.shape[i] for i in contracted])
        return CostEstimate(2 * size * depth, 0, 0)
    if name in ("integer_pow", "square"):
        return CostEstimate(size * abs(eqn.params.get("y", 2)), 0, 0)
    if name in _ARITHMETIC:
        return CostEstimate(size, 0, 0)
    if name in _TRANSCENDENTAL:
        return CostEstimate(0, size, 0)
    return CostEstimate(0, 0, 0)
