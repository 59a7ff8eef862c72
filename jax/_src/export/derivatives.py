"""The exported derivatives of exported programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import api, core
from jax._src.sharding_impls import UNSPECIFIED


def vjp_function(
    closed: core.ClosedJaxpr, in_shardings: Sequence[Any], out_shardings: Sequence[Any]
) -> tuple[Callable[..., Any], list[core.ShapeDtypeStruct]]:
    """The derivative of a program, to be exported, and the types of its arguments.

    It takes the flat arguments and the cotangents of the flat results, and returns the cotangents of
    the arguments.

    Args:
      closed: the program.
      in_shardings, out_shardings: shardings of its arguments and results, or unspecified.
    """
    flat_function = core.jaxpr_as_fun(closed)
    num_args = len(closed.in_avals)

    def fun_vjp_jax(*args_and_out_cts_flat_jax):
        args = args_and_out_cts_flat_jax[:num_args]
        cts = args_and_out_cts_flat_jax[num_args:]
        _, pullback = api.vjp(lambda *args: tuple(flat_function(*args)), *args)
        return pullback(cts)

    in_avals = [*closed.in_avals, *[a.to_tangent_aval() for a in closed.out_avals]]
    shardings = dict(
        in_shardings=(*in_shardings, *out_shardings), out_shardings=tuple(in_shardings)
    )
    if all(s is UNSPECIFIED for s in (*in_shardings, *out_shardings)):
        shardings = {}
    return api.jit(fun_vjp_jax, **shardings), in_avals
