"""The `vmap_method` of callbacks and FFI calls: how to batch calls of opaque code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import core
from jax._src.interpreters import batching
from jax._src.lax import lax
from jax._src.lax.control_flow import scan

VECTORIZED = ("expand_dims", "broadcast_all", "legacy_vectorized")
SEQUENTIAL = ("sequential", "sequential_unrolled")
METHODS = (*SEQUENTIAL, *VECTORIZED)


def check_vmap_method(vmap_method: str | None) -> None:
    """Raises ValueError if there is no such method."""
    if vmap_method is not None and vmap_method not in METHODS:
        raise ValueError(
            f"vmap_method must be None or one of {', '.join(map(repr, METHODS))}, got {vmap_method!r}"
        )


def batch_by_method(
    name: str,
    vmap_method: str | None,
    size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    result_avals: Sequence[Any],
    call: Callable[..., Sequence[Any]],
    call_batch: Callable[..., Sequence[Any]],
) -> tuple[Sequence[Any], Sequence[int]]:
    """The batching rule of an opaque call.

    Args:
      name: the primitive's name, for errors.
      vmap_method: how the batch is computed.
      size: the size of the batch.
      args, dims: the operands and the positions of their batch axes.
      result_avals: the types of the results of one call.
      call: binds the primitive for one example: `call(*args)`.
      call_batch: binds it for the batch, `call_batch(args, is_mapped, avals)`, with leading batch
        axes.

    Returns:
      The results, and the positions of their batch axes.

    Raises:
      NotImplementedError: `vmap_method` is None.
    """
    is_mapped = [dim is not batching.not_mapped for dim in dims]
    args = [
        batching.moveaxis(x, dim, 0) if mapped else x
        for x, dim, mapped in zip(args, dims, is_mapped)
    ]
    if vmap_method is None:
        raise NotImplementedError(
            f"vmap of {name} needs to know how it takes a batch: give it a vmap_method, one of "
            f"{', '.join(map(repr, METHODS))}."
        )
    if vmap_method in VECTORIZED:
        if vmap_method != "legacy_vectorized":
            length = 1 if vmap_method == "expand_dims" else size
            args = [
                x if mapped else lax.broadcast(x, (length,)) for x, mapped in zip(args, is_mapped)
            ]
            is_mapped = [True] * len(args)
        avals = [core.unmapped_aval(size, 0, aval) for aval in result_avals]
        outs = call_batch(args, is_mapped, avals)
    else:
        shared = [x for x, mapped in zip(args, is_mapped) if not mapped]

        def step(_: Any, xs: Any) -> Any:
            mapped_args, rest = iter(xs), iter(shared)
            return (), tuple(call(*(next(mapped_args if m else rest) for m in is_mapped)))

        _, outs = scan(
            step,
            (),
            tuple(x for x, mapped in zip(args, is_mapped) if mapped),
            length=size,
            unroll=size if vmap_method == "sequential_unrolled" else 1,
        )
    return outs, [0] * len(outs)
