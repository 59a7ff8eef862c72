"""`compute_on`: where on a device the compiler places computations, such as on its host."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from jax._src import config, core
from jax._src.core import ClosedJaxpr, Primitive
from jax._src.device_put.values import memory_space_to_kind
from jax._src.interpreters import mlir
from jax._src.memory import MemorySpace
from jax._src.staged_calls import SpacedCallRules, check_function, stage_call
from jax._src.traceback_util import api_boundary, register_exclusion
from jax._src.tree_util import broadcast_prefix, prefix_errors, tree_unflatten
from jax._src.util import wraps

register_exclusion(__file__)


@contextmanager
def compute_on(compute_type: str) -> Iterator[None]:
    """Place the operations of a block, or of a function, on another part of each device.

    The placement is part of a compiled program: use it inside :func:`jax.jit`. Operations of the
    block's derivatives are placed there too. A backend without the part, such as the CPU, computes
    everything in its only place.

    Args:
      compute_type: "device_host" (the host's processor), "device" (the device itself),
        "tpu_sparsecore", or "gpu_stream:" and the number of a stream.

    Returns:
      A context manager, which is also a decorator.

    Raises:
      TypeError: `compute_type` is not a string.
      ValueError: there is no such compute type.

    Example:
      >>> from jax.experimental.compute_on import compute_on
      >>> @jax.jit
      ... def f(x):
      ...   with compute_on("device_host"):
      ...     y = jnp.sin(x)
      ...   return y * 2
      >>> print(f(1.0))
      1.6829419
    """
    _check_type(compute_type)
    prev = config.compute_on_context_manager.swap_local(compute_type)
    try:
        yield
    finally:
        config.compute_on_context_manager.set_local(prev)


def compute_on2(
    f: Callable | None = None,
    *,
    compute_type: str,
    out_memory_spaces: Any,
    compiler_options: Mapping[str, Any] | None = None,
) -> Callable:
    """Make a function run as a whole on another part of each device.

    Args:
      f: function of arrays and pytrees; if it is missing, a decorator is returned.
      compute_type: see :func:`compute_on`.
      out_memory_spaces: a pytree prefix of the results with :class:`jax.memory.Space` leaves: where
        the results are stored.
      compiler_options: options for compiling the function, which can be written as JSON.

    Returns:
      A function with the same values and derivatives; its results are in `out_memory_spaces`.

    Raises:
      TypeError: an argument has the wrong type.
      ValueError: there is no such compute type; the trees do not match; or the function is used in
        another one with another compute type.

    Example:
      >>> from jax.experimental.compute_on import compute_on2
      >>> @compute_on2(compute_type="device_host", out_memory_spaces=jax.memory.Space.Device)
      ... def f(x):
      ...   return jnp.cos(x) * x
      >>> print(jax.jit(f)(1.0))
      0.5403023
    """
    options = dict(
        compute_type=compute_type,
        out_memory_spaces=out_memory_spaces,
        compiler_options=compiler_options,
    )
    if f is None:
        return partial(compute_on2, **options)
    check_function("compute_on2", f)
    json_options = None if compiler_options is None else json.dumps(compiler_options)

    @wraps(f)
    @api_boundary
    def wrapped(*args, **kwargs):
        with compute_on(compute_type):
            closed, operands, out_tree = stage_call("compute_on2", f, args, kwargs)
        spaces = _spaces_of_results(out_memory_spaces, out_tree)
        outs = compute_on_p.bind(
            *operands,
            jaxpr=closed,
            compute_type=compute_type,
            out_memory_spaces=spaces,
            compiler_options_json=json_options,
        )
        return tree_unflatten(out_tree, outs)

    return wrapped


def _check_type(compute_type: Any) -> None:
    if not isinstance(compute_type, str):
        raise TypeError(
            "`compute_on`'s compute_type argument must be a string, for example 'device_host'; got"
            f" {compute_type!r} of type {type(compute_type)}."
        )
    if not compute_type.startswith("gpu_stream:"):
        mlir.map_compute_type(compute_type)


def _spaces_of_results(given: Any, out_tree: Any) -> tuple[MemorySpace, ...]:
    """Broadcast the memory spaces that the user gave over the results."""
    name = "compute_on2 out_memory_spaces"
    is_leaf = lambda x: x is None
    results = tree_unflatten(out_tree, [0] * out_tree.num_leaves)
    try:
        spaces = broadcast_prefix(given, results, is_leaf=is_leaf)
    except ValueError:
        details = "\n".join(str(error(name)) for error in prefix_errors(given, results))
        raise ValueError(
            f"{name} must be a tree prefix of the function's results:\n{details}"
        ) from None
    for space in spaces:
        if space not in (MemorySpace.Device, MemorySpace.Host):
            raise TypeError(
                f"The leaves of {name} must be jax.memory.Space.Device or jax.memory.Space.Host, got"
                f" {space!r} of type {type(space)}."
            )
    return tuple(spaces)


# The primitive

compute_on_p = Primitive("compute_on", multiple_results=True)
SpacedCallRules(compute_on_p, "out_memory_spaces").install()


def _lowering(
    ctx: Any,
    *args: Any,
    jaxpr: ClosedJaxpr,
    compute_type: str,
    out_memory_spaces: tuple[MemorySpace, ...],
    compiler_options_json: str | None,
) -> Any:
    outer = None if ctx.jaxpr_eqn_ctx is None else ctx.jaxpr_eqn_ctx.compute_type
    if outer is not None and outer != compute_type:
        raise ValueError(
            f"Nesting `compute_on` with different compute types is not allowed: {compute_type!r} is"
            f" used inside {outer!r}."
        )
    attrs = mlir.compute_type_attributes(compute_type)
    if compute_type == "device":
        attrs["inlineable"] = "false"  # a computation of its own, although it is in its usual place
    if compiler_options_json is not None:
        attrs["backend_config"] = compiler_options_json
    results = mlir.lower_call_with_attributes(
        ctx, *args, name="compute_on", call_jaxpr=jaxpr, frontend_attributes=attrs
    )
    return [
        mlir.wrap_with_memory_kind(ctx, x, memory_space_to_kind(space), aval)
        if isinstance(aval, core.ShapedArray)
        else x
        for x, space, aval in zip(results, out_memory_spaces, ctx.avals_out)
    ]


mlir.register_lowering(compute_on_p, _lowering)
