"""Containers that `vmap` maps over by registered rules, with their own axis specifications."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes
from jax._src.core import trace_ctx
from jax._src.interpreters import batching
from jax._src.late_binding import late
from jax._src.tree_util import tree_flatten

# From the class of a container to the classes of its axis specification and of its axis size.
vmappables: dict[type, tuple[type, type]] = {}
spec_types: set[type] = set()
to_elt_handlers: dict[type, Callable[..., Any]] = {}
from_elt_handlers: dict[type, Callable[..., Any]] = {}
make_iota_handlers: dict[type, Callable[..., Any]] = {}


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Callable[..., Any],
    from_elt: Callable[..., Any],
    make_iota: Callable[..., Any] | None,
) -> None:
    """Register a container class that `jax.vmap` can map over.

    Args:
      data_type: the class of the containers, which `vmap` treats as leaves from now on.
      spec_type: the class of their axis specifications in `in_axes` and `out_axes`.
      axis_size_type: the class of sizes of the mapped axis; `int` if it is an ordinary axis.
      to_elt: `to_elt(cont, get_idx, container, spec)` returns one element. `cont(x, axis)` returns
        the element of a part of the container, and `get_idx()` its index.
      from_elt: `from_elt(cont, axis_size, element, spec)` returns the container of all elements.
        `cont(axis_size, x, axis)` returns the container for a part of the element.
      make_iota: `make_iota(axis_size)` returns the indices of all elements; None for 0, 1, 2, ...
    """
    vmappables[data_type] = (spec_type, axis_size_type)
    spec_types.add(spec_type)
    to_elt_handlers[data_type] = to_elt
    from_elt_handlers[data_type] = from_elt
    if make_iota is not None:
        make_iota_handlers[axis_size_type] = make_iota


def unregister_vmappable(data_type: type) -> None:
    """Undo `register_vmappable`."""
    spec_type, axis_size_type = vmappables.pop(data_type)
    if all(spec is not spec_type for spec, _ in vmappables.values()):
        spec_types.discard(spec_type)
    del to_elt_handlers[data_type], from_elt_handlers[data_type]
    if all(size is not axis_size_type for _, size in vmappables.values()):
        make_iota_handlers.pop(axis_size_type, None)


def is_vmappable(x: object) -> bool:
    """Whether `x` is a container of a registered class."""
    return type(x) in vmappables


def flatten(tree: Any, roots: int) -> tuple[list[Any], Any]:
    """Flatten a tree in which containers of registered classes are leaves.

    `roots` is the number of nodes at its root that are known to be no containers. If it has no other
    nodes, which is the usual case, no node has to be looked at.
    """
    flat, treedef = tree_flatten(tree)
    if treedef.num_nodes - treedef.num_leaves <= roots:
        return flat, treedef
    return tree_flatten(tree, is_leaf=is_vmappable)  # type: ignore[no-any-return]


def flatten_result(tree: Any) -> tuple[list[Any], Any]:
    """Flatten the result of a function, in which containers are leaves."""
    return flatten(tree, type(tree) in (tuple, list, dict))


def any_in(flat: Sequence[Any]) -> bool:
    """Whether there are containers of registered classes among leaves."""
    return not vmappables.keys().isdisjoint(map(type, flat))


def is_array(x: object) -> bool:
    """Whether `x` is a container of a registered class that has ordinary axes and a shape."""
    return vmappables.get(type(x)) == (int, int) and hasattr(x, "shape")


def is_spec(x: object) -> bool:
    """Whether `x` is an axis specification of a registered class."""
    return type(x) in spec_types


def batch(
    fun: Callable[..., Any], axis_data: batching.AxisData, in_axes: Sequence[Any], out_axes: Callable[..., Any],
    sum_match: bool | str = False,
) -> Callable[..., Any]:  # fmt: skip
    """Return `fun` (flat, of arrays and containers) mapped over `axis_data`.

    `out_axes` is called after `fun` has run, since the output axes depend on the output tree.
    `sum_match` is as for `batching.batch`.
    """

    def run(*args: object) -> Any:
        trace = batching.BatchTrace(trace_ctx.trace, axis_data)
        with core.set_current_trace(trace):
            elements = _elements(trace, args, in_axes)
            with batching.axis_in_scope(axis_data):
                outs = fun(*elements)
        axes = out_axes()
        results = [
            _from_elt(trace, axis_data.size, i, x, axis, sum_match)
            for i, (x, axis) in enumerate(zip(outs, axes))
        ]
        trace.invalidate()
        if config.check_tracer_leaks.value:
            ended = weakref.ref(trace)
            del trace, elements, outs
            core.check_leaks(ended)
        return results

    return run


def _elements(trace: batching.BatchTrace, args: Sequence[Any], axes: Sequence[Any]) -> list[Any]:
    if not any_in(args):
        return [_element(trace, x, axis) for x, axis in zip(args, axes)]
    get_idx = functools.lru_cache(1)(lambda: _element_numbers(trace))
    return [_to_elt(trace, get_idx, x, axis) for x, axis in zip(args, axes)]


def _element(trace: batching.BatchTrace, x: Any, axis: Any) -> Any:
    if axis is None:
        return x
    element = batching.BatchTracer(trace, x, from_front(axis, x))
    axis_data = trace.axis_data
    if axis_data.explicit_mesh_axis is None:
        # Of containers it is known only now.
        dims = [element.batch_dim]
        axis_data.explicit_mesh_axis = batching.mapped_mesh_axis([x], dims)
    return element


def from_front(axis: Any, x: Any) -> Any:
    """The axis of `x`, counted from the front if it is a number; others are None, or axis specs."""
    return axis + np.ndim(x) if isinstance(axis, (int, np.integer)) and axis < 0 else axis


def _element_numbers(trace: batching.BatchTrace) -> Any:
    size = trace.axis_data.size
    make = make_iota_handlers.get(type(size))
    with core.set_current_trace(trace.parent):
        numbers: Any = np.arange(size, dtype=dtypes.default_int_dtype())
        numbers = late.to_array(numbers) if make is None else make(size)
    return batching.BatchTracer(trace, numbers, 0)


def _to_elt(trace: batching.BatchTrace, get_idx: Callable[..., Any], x: Any, axis: Any) -> Any:
    handler = to_elt_handlers.get(type(x))
    if handler is not None:
        return handler(functools.partial(_to_elt, trace, get_idx), get_idx, x, axis)
    return _element(trace, x, axis)


def _from_elt(
    trace: batching.BatchTrace, axis_size: object, index: int, x: object, axis: Any,
    sum_match: bool | str,
) -> Any:  # fmt: skip
    handler = from_elt_handlers.get(type(x))
    if handler is not None:

        def cont(axis_size: object, element: object, axis: object) -> Any:
            return _from_elt(trace, axis_size, index, element, axis, sum_match)

        return handler(cont, axis_size, x, axis)
    val, dim = trace.to_batch_info(x)
    return batching.match_axis(trace.axis_data, val, dim, axis, sum_match, index)
