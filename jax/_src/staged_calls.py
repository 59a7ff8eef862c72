"""Calls of a staged function whose results are in given memory spaces.

`compute_on2`, `xla_metadata_call` and `fused` are such calls: they compute what the function does,
and their equation tells the compiler how.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import api_util, config, core
from jax._src.api_util import check_callable, flatten_fun
from jax._src.core import ClosedJaxpr, Primitive, ShapedArray, typeof
from jax._src.device_put.functions import device_put
from jax._src.interpreters import ad, partial_eval as pe
from jax._src.interpreters.calls import CallRules
from jax._src.lax.control_flow.common import def_compiled_impl
from jax._src.memory import MemorySpace
from jax._src.state.discharge import discharge_written
from jax._src.tree_util import tree_flatten

Params = dict[str, Any]


def stage_call(
    kind: str, fun: Callable, args: tuple, kwargs: dict[str, Any], space: Any = None
) -> tuple[ClosedJaxpr, list[Any], Any]:
    """Stage a function of pytrees; repeated calls with arguments of the same types reuse the jaxpr.

    Args:
      kind: the name of the call in error messages.
      fun: the function.
      args, kwargs: its arguments.
      space: the memory space that the function sees its arguments in; None for their own.

    Returns:
      The jaxpr, whose first arguments are the values that the function closes over; the operands
      for the jaxpr; and the pytree structure of the results.
    """
    flat, in_tree = tree_flatten((args, kwargs))
    avals = [typeof(x) for x in flat]
    if space is not None:
        avals = [in_space(a, space) for a in avals]
    key = (kind, in_tree, tuple(avals), config.trace_context())
    table = api_util.trace_table(fun)
    staged = table.get(key)
    if staged is None or not api_util.all_valid(staged[1]):
        api_util.check_may_trace(fun, kind)
        flat_fun, out_tree = flatten_fun(fun, in_tree)
        info = api_util.debug_info(
            kind, fun, args, kwargs, result_paths_thunk=api_util.result_paths_thunk(out_tree)
        )
        closed, consts = pe.trace_to_closed(flat_fun, avals, info)
        staged = closed, consts, out_tree()
        if not (config.check_tracer_leaks.value and consts):
            table[key] = staged
    closed, consts, tree = staged
    return closed, [*consts, *flat], tree


def check_function(api: str, fun: Any) -> None:
    """Raise TypeError if `fun` is not callable."""
    if not callable(fun):
        raise TypeError(f"{api} takes a function, got {fun!r} of type {type(fun)}.")
    check_callable(fun)


def in_space(aval: Any, space: MemorySpace) -> Any:
    """Return the type of a value that is moved to a memory space."""
    return aval.update(memory_space=space) if isinstance(aval, ShapedArray) else aval


def _space(aval: Any) -> MemorySpace:
    """Return the memory space of a result that the user did not choose one for."""
    space = getattr(aval, "memory_space", MemorySpace.Device)
    return MemorySpace.Device if space is MemorySpace.Any else space


class StagedCallRules(CallRules):
    """The rules of a primitive that calls the jaxpr in its parameter `jaxpr`."""

    depends_on_use = True  # the compiler may keep what such a call computes for unused results

    def install(self) -> None:
        super().install()
        pe.def_hoisting(self.primitive, self.hoist)
        def_compiled_impl(self.primitive, "jaxpr", self.one_by_one)
        self.primitive.discharge = self.discharge
        self.primitive.ref_boundary = True

    def hoist(self, args: Sequence[Any], params: Params) -> tuple[Sequence[Any], Params]:
        closed, tracers = pe.hoist_tracers(params["jaxpr"])
        if tracers:
            ins = [*[None] * len(tracers), *range(len(args))]
            params = self.params_for(params, closed, ins, range(len(closed.out_avals)))
        return (*tracers, *args), params

    def one_by_one(self, *args: Any, jaxpr: ClosedJaxpr, **_: Any) -> Any:
        return core.jaxpr_as_fun(jaxpr)(*args)

    def discharge(
        self, should: Sequence[bool], in_avals: Any, out_avals: Sequence[Any], *args: Any,
        lower: bool, aliases: Any, **params: Any,
    ) -> tuple[list[Any], list[Any]]:  # fmt: skip
        """Return the new values of references, and the results; see `discharge_rules`."""
        closed, changed = discharge_written(params["jaxpr"], should, lower)
        n = len(out_avals)
        outs = self.call(
            args, params, closed, range(len(args)), [*range(n), *[None] * len(changed)]
        )
        new: list[Any] = [None] * len(args)
        for i, x in zip(changed, outs[n:]):
            new[i] = x
        return new, outs[:n]


class SpacedCallRules(StagedCallRules):
    """The rules of a call with a parameter that has the memory space of each result.

    Args:
      primitive: the primitive; `install` assigns its slots.
      spaces: the name of the parameter.
      hands_on: see `CallSplitRules`.
    """

    def __init__(self, primitive: Primitive, spaces: str, hands_on: bool = True):
        super().__init__(primitive, hands_on=hands_on)
        self.spaces = spaces

    def types(self, *avals: object, **params: Any) -> Any:
        closed = params["jaxpr"]
        out_avals = [in_space(a, s) for a, s in zip(closed.out_avals, params[self.spaces])]
        return out_avals, closed.effects

    def params_for(self, params: Params, closed: ClosedJaxpr, ins: Any, outs: Any) -> Params:
        old = params[self.spaces]
        spaces = [_space(a) if i is None else old[i] for i, a in zip(outs, closed.out_avals)]
        return dict(params, jaxpr=closed, **{self.spaces: tuple(spaces)})

    def transposed_params(self, params: Params) -> Params:
        # The cotangent of an argument is in the memory space of the argument.
        spaces = [_space(a) for a in params["jaxpr"].in_avals]
        return dict(params, **{self.spaces: tuple(spaces)})

    def transpose(self, cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        # The transposed function takes cotangents where the function computes the results.
        moved = []
        for ct, aval in zip(cts, params["jaxpr"].out_avals):
            if type(ct) is not ad.Zero and isinstance(aval, ShapedArray):
                space = aval.memory_space
                if space is not MemorySpace.Any and typeof(ct).memory_space is not space:
                    ct = device_put(ct, space)
            moved.append(ct)
        return super().transpose(moved, *args, **params)
