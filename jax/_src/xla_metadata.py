"""Metadata of operations for the compiler, and hints in which order it runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from functools import partial
from typing import Any

from jax._src import config, core
from jax._src.core import ClosedJaxpr, JaxprEqn, Primitive
from jax._src.ffi import ffi_call
from jax._src.interpreters import ad, batching, mlir
from jax._src.late_binding import late
from jax._src.lib.mlir import ir
from jax._src.staged_calls import StagedCallRules, check_function, stage_call
from jax._src.traceback_util import api_boundary, register_exclusion
from jax._src.tree_util import tree_map, tree_unflatten
from jax._src.util import wraps

register_exclusion(__file__)


class XlaMetadata:
    """A hashable dictionary of metadata."""

    __slots__ = ("val", "_hash")

    def __init__(self, val: dict[str, Any]):
        self.val = val
        self._hash = hash(frozenset(val.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, XlaMetadata) and self.val == other.val

    def __repr__(self) -> str:
        return repr(self.val)


def _check_hashable(metadata: dict[str, Any]) -> None:
    for key, value in metadata.items():
        try:
            hash(value)
        except TypeError:
            raise TypeError(
                f"set_xla_metadata got {key}={value!r}, which is not hashable: metadata consists of"
                " strings, numbers and bools."
            ) from None


class XlaMetadataContextManager(ContextDecorator):
    """Adds metadata to operations that are traced inside it; see `set_xla_metadata`."""

    def __init__(self, metadata: dict[str, Any]):
        _check_hashable(metadata)
        self.metadata = metadata
        self._previous: list[Any] = []

    def _recreate_cm(self) -> XlaMetadataContextManager:
        return XlaMetadataContextManager(self.metadata)  # one for each call of the function

    def __enter__(self) -> None:
        state = config.xla_metadata_context_manager
        previous = state.value
        merged = {**({} if previous is None else previous.val), **self.metadata}
        merged = {k: v for k, v in merged.items() if v is not None}
        self._previous.append(state.swap_local(XlaMetadata(merged) if merged else None))

    def __exit__(self, *exc: object) -> None:
        config.xla_metadata_context_manager.set_local(self._previous.pop())


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Attach metadata to operations, for the compiler: their frontend attributes in HLO.

    Args:
      x: a pytree of arrays: the operations that compute them get the metadata. If it is missing, a
        context manager, which is also a decorator, is returned: it applies to all operations that
        are traced inside it.
      **kwargs: names and values: strings, numbers or bools, which are converted to text. Contexts
        inside each other add up; the value None removes a name that an outer one has set.

    Returns:
      Arrays with the same elements, or a context manager.

    Raises:
      TypeError: a value is not hashable, or a leaf of `x` is not an array.

    Example:
      >>> from jax.experimental.xla_metadata import set_xla_metadata
      >>> @jax.jit
      ... def f(x):
      ...   with set_xla_metadata(stage="first"):
      ...     y = jnp.sin(x)
      ...   return set_xla_metadata(y * 2, stage="second")
      >>> print(f(0.0))
      0.0
    """
    if x is None:
        return XlaMetadataContextManager(kwargs)
    _check_hashable(kwargs)
    kvs = tuple(sorted(kwargs.items()))
    return tree_map(lambda leaf: xla_metadata_value_p.bind(leaf, xla_metadata_kvs=kvs), x)


xla_metadata_value_p = Primitive("xla_metadata_value")
xla_metadata_value_p.def_impl(lambda x, *, xla_metadata_kvs: late.to_array(x))
xla_metadata_value_p.def_abstract_eval(lambda aval, *, xla_metadata_kvs: aval)
ad.deflinear2(xla_metadata_value_p, lambda ct, _, **params: [ct])
batching.defvectorized(xla_metadata_value_p)


def _value_lowering(ctx: Any, x: Any, *, xla_metadata_kvs: tuple) -> Any:
    for value in mlir.flatten_ir_values([x]):
        owner = value.owner
        if not isinstance(owner, ir.Block):  # the argument of a function has no attributes
            attributes = mlir.metadata_attributes(dict(xla_metadata_kvs))
            mlir.update_frontend_attributes(owner.operation, attributes)
    return [x]


# Operations of one function may share an operation in the module with others, so never cache.
mlir.register_lowering(xla_metadata_value_p, _value_lowering, cacheable=False)


# Calls with metadata


def xla_metadata_call(f: Callable | None = None, **meta: Any) -> Callable:
    """Make calls of a function carry metadata for the compiler.

    Args:
      f: function of arrays and pytrees; if it is missing, a decorator is returned.
      **meta: names and values: strings, numbers or bools. None leaves a name out.

    Returns:
      A function with the same values and derivatives. In a compiled program it is one call, with
      the metadata as its frontend attributes; calls of derivatives have the same metadata.

    Raises:
      TypeError: a value is not hashable.

    Example:
      >>> from jax.experimental.scheduling_groups import xla_metadata_call
      >>> f = xla_metadata_call(lambda x: jnp.sin(x) * 2, stage="first")
      >>> print(jax.jit(f)(0.0))
      0.0
    """
    if f is None:
        return partial(xla_metadata_call, **meta)
    check_function("xla_metadata_call", f)
    if "jaxpr" in meta:
        raise TypeError("xla_metadata_call cannot use the name 'jaxpr' for metadata.")
    _check_hashable(meta)
    given = {k: v for k, v in meta.items() if v is not None}

    @wraps(f)
    @api_boundary
    def wrapped(*args, **kwargs):
        closed, operands, out_tree = stage_call("xla_metadata_call", f, args, kwargs)
        return tree_unflatten(out_tree, xla_metadata_call_p.bind(*operands, jaxpr=closed, **given))

    return wrapped


def scheduling_group(name: Any) -> Callable:
    """Make a decorator that asks the compiler to schedule a function's operations together.

    Args:
      name: the name of the group.

    Returns:
      A decorator for functions of arrays and pytrees; see :func:`xla_metadata_call`.

    Example:
      >>> from jax.experimental.scheduling_groups import scheduling_group
      >>> @scheduling_group("first")
      ... def f(x):
      ...   return jnp.sin(x) * 2
      >>> print(jax.jit(f)(0.0))
      0.0
    """
    if name is None:
        raise TypeError("scheduling_group takes the name of the group, got None.")
    return xla_metadata_call(scheduling_group=name)


xla_metadata_call_p = Primitive("xla_metadata_call", multiple_results=True)
_call_rules = StagedCallRules(xla_metadata_call_p)
_call_rules.install()


def dce_jaxpr_xla_metadata_rule(
    used_outputs: Sequence[bool], eqn: JaxprEqn
) -> tuple[list[bool], JaxprEqn | None]:
    """Remove dead code from a call; see `dce_jaxpr_closed_call_rule`."""
    return _call_rules.dce(used_outputs, eqn)


def _call_lowering(ctx: Any, *args: Any, jaxpr: ClosedJaxpr, **meta: Any) -> Any:
    attributes = mlir.metadata_attributes(meta)
    return mlir.lower_call_with_attributes(
        ctx, *args, name="xla_metadata_call", call_jaxpr=jaxpr, frontend_attributes=attributes
    )


mlir.register_lowering(xla_metadata_call_p, _call_lowering)


def attr_get(x: Any) -> Any:
    """Convert a Python or NumPy value to an MLIR attribute; see `jax.interpreters.mlir.ir_attribute`."""
    return mlir.ir_attribute(x)


# Control dependencies


def control_dep(src: Any, dst: Any) -> Any:
    """Make the compiler run the operation that computes `src` before the one that computes `dst`.

    The functions that call it can be neither differentiated nor batched. In programs for several
    devices, it is for the functions of `jax.shard_map`: the compiler cannot partition it.

    Args:
      src, dst: arrays of any types.

    Returns:
      An empty tuple.

    Example:
      >>> from jax.experimental.control_deps import control_dep
      >>> @jax.jit
      ... def f(x):
      ...   a, b = jnp.sin(x), jnp.cos(x)
      ...   control_dep(a, b)
      ...   return a + b
      >>> print(f(0.0))
      1.0
    """
    for name, x in (("src", src), ("dst", dst)):
        if not core.valid_jaxtype(x):
            raise TypeError(f"control_dep takes arrays, got {name}={x!r} of type {type(x)}.")
    return tuple(ffi_call("control_dep", (), has_side_effect=True)(src, dst))


def schedule(ops: Sequence[Any]) -> None:
    """Make the compiler run the operations that compute some arrays in the given order.

    Args:
      ops: a sequence of arrays.

    Example:
      >>> from jax.experimental.control_deps import schedule
      >>> @jax.jit
      ... def f(x):
      ...   a, b, c = jnp.sin(x), jnp.cos(x), jnp.tan(x)
      ...   schedule([a, b, c])
      ...   return a + b + c
      >>> print(f(0.0))
      1.0
    """
    ops = list(ops)
    for src, dst in zip(ops, ops[1:]):
        control_dep(src, dst)
