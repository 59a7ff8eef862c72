"""Names that outside code imports from `jax._src.interpreters.pxla`; our own code does not use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src.core import Jaxpr
from jax._src.core.avals import AbstractValue
from jax._src.interpreters.partial_eval import dce_jaxpr_consts
from jax._src.interpreters.pxla.transfers import global_aval_to_result_handler, shard_arg_fallback
from jax._src.mesh import Mesh as Mesh
from jax._src.sharding import Sharding
from jax._src.xla_bridge import (
    clear_in_memory_compilation_cache as clear_in_memory_compilation_cache,
)

cc_shard_arg = shard_arg_fallback


def prune_unused_inputs(jaxpr: Jaxpr) -> tuple[Jaxpr, set[int], set[int]]:
    """Removes dead equations and unused arguments.

    Returns:
      The new jaxpr, and the positions of the constants and of the arguments that remain.
    """
    new, *used = dce_jaxpr_consts(jaxpr, [True] * len(jaxpr.outvars))
    consts, args = [{i for i, kept in enumerate(flags) if kept} for flags in used]
    return new, consts, args


class ResultsHandler:
    """Makes arrays of the buffers of a program's results: `handler([buffers of a result, ...])`."""

    __slots__ = ("handlers", "out_shardings", "out_avals")

    def __init__(
        self,
        handlers: Sequence[Callable[..., Any]],
        out_shardings: Sequence[Sharding],
        out_avals: Sequence[AbstractValue],
    ):
        self.handlers = handlers
        self.out_shardings = out_shardings
        self.out_avals = out_avals

    def __call__(self, out_bufs: Sequence[Any]) -> list[Any]:
        return [handler(bufs) for handler, bufs in zip(self.handlers, out_bufs, strict=True)]


def global_avals_to_results_handler(
    global_out_avals: Sequence[AbstractValue], shardings: Sequence[Sharding], committed: bool
) -> ResultsHandler:
    """Returns the handler of results of these types, with these shardings.

    Args:
      global_out_avals: the types of the whole results.
      shardings: how they are laid out across devices.
      committed: whether the arrays are committed to their devices.
    """
    handlers = [
        global_aval_to_result_handler(aval, sharding, committed)
        for aval, sharding in zip(global_out_avals, shardings, strict=True)
    ]
    return ResultsHandler(handlers, shardings, global_out_avals)
