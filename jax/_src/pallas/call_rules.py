"""Derivative, batching and checking rules of applications of kernels."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from jax._src import core, dtypes, traceback_util
from jax._src.ad_util import Zero
from jax._src.core import ClosedJaxpr, Jaxpr, ShapedArray, typeof
from jax._src.interpreters import ad, batching
from jax._src.lax import slicing
from jax._src.lax.control_flow import scan
from jax._src.lax.control_flow.common import split_at
from jax._src.pallas.blocks import BlockMapping, BoundedSlice, squeezed
from jax._src.pallas.effects import launch_effect
from jax._src.pallas.grids import GridMapping
from jax._src.pallas.pallas_call import pallas_call_p
from jax._src.tree_util import tree_structure

traceback_util.register_exclusion(__file__)


def _jvp(
    primals: Any, tangents: Any, *, jaxpr: Jaxpr, grid_mapping: GridMapping,
    input_output_aliases: Any, out_avals: Any, cost_estimate: Any, **params: Any,
) -> Any:  # fmt: skip
    """Run a kernel that computes tangents besides: it has references for those of each reference."""
    m = grid_mapping
    num_sizes, num_scalars = m.num_dynamic_grid_bounds, m.num_index_operands
    sizes, scalars, inputs = split_at(primals, num_sizes, num_scalars)
    _, scalar_tangents, input_tangents = split_at(tangents, num_sizes, num_scalars)
    for x, t in zip(scalars, scalar_tangents):
        if type(t) is not Zero:
            raise NotImplementedError(
                f"derivatives of a kernel with respect to an operand of index maps, of type {typeof(x)}"
            )
    aliased = {i - num_scalars for i, _ in input_output_aliases}
    input_tangents = [
        ad.instantiate_zeros(t) if i in aliased and _is_differentiable(x) else t
        for i, (x, t) in enumerate(zip(inputs, input_tangents))
    ]
    has_in = [type(t) is not Zero and _is_differentiable(x) for x, t in zip(inputs, input_tangents)]
    has_out = [_is_differentiable(a) for a in out_avals]
    has_scratch = [_is_differentiable(a) for a in m.scratch_avals]
    with m.trace_env():
        both, _ = ad.jvp_jaxpr(
            ClosedJaxpr(jaxpr), [*[False] * num_scalars, *has_in, *has_out, *has_scratch]
        )
    parts = split_at(
        both.jaxpr.invars, num_scalars, m.num_inputs, m.num_outputs, len(m.scratch_avals),
        sum(has_in), sum(has_out),
    )  # fmt: skip
    of_scalars, ins, outs, scratch, in_ts, out_ts, scratch_ts = parts
    order = [*of_scalars, *ins, *in_ts, *outs, *out_ts, *scratch, *scratch_ts]
    info = both.jaxpr.debug_info.with_unknown_names()
    kernel = both.jaxpr.replace(invars=order, debug_info=info)
    chosen = lambda items, which: [x for x, w in zip(items, which) if w]
    in_maps, out_maps = m.in_block_mappings, m.block_mappings_output
    mapping = m.replace(
        block_mappings=(
            *in_maps, *chosen(in_maps, has_in), *out_maps, *chosen(out_maps, has_out)
        ),
        num_inputs=m.num_inputs + sum(has_in),
        num_outputs=m.num_outputs + sum(has_out),
        scratch_avals=(*m.scratch_avals, *chosen(m.scratch_avals, has_scratch)),
    )  # fmt: skip
    results = pallas_call_p.bind(
        *sizes, *scalars, *inputs, *chosen(input_tangents, has_in),
        jaxpr=kernel,
        grid_mapping=mapping,
        input_output_aliases=_with_tangents(input_output_aliases, num_scalars, has_in, has_out),
        out_avals=(*out_avals, *chosen(out_avals, has_out)),
        cost_estimate=cost_estimate and cost_estimate * 2,
        **params,
    )  # fmt: skip
    n = m.num_outputs
    rest = iter(results[n:])
    return results[:n], [next(rest) if h else ad.zero_of(x) for x, h in zip(results, has_out)]


def _is_differentiable(x: Any) -> bool:
    return dtypes.issubdtype(x.dtype, np.inexact)


def _with_tangents(
    aliases: Sequence[tuple[int, int]],
    num_scalars: int,
    has_in: Sequence[bool],
    has_out: Sequence[bool],
) -> tuple[tuple[int, int], ...]:
    """Return the aliases, and those of the tangents of the same operands and results."""
    out = list(aliases)
    for i, o in aliases:
        k = i - num_scalars
        if k >= 0 and has_in[k] and has_out[o]:
            operand = num_scalars + len(has_in) + sum(has_in[:k])
            out.append((operand, len(has_out) + sum(has_out[:o])))
    return tuple(sorted(out))


def _transpose(*args: Any, jaxpr: Jaxpr, **params: Any) -> NoReturn:
    raise ValueError(
        f"A kernel has no reverse-mode derivative: the pallas_call of {jaxpr.debug_info.func_src_info}. Give the "
        "function that applies it one, with jax.custom_vjp."
    )


def _batch(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
    """Add a dimension to the grid, along which the blocks of batched arrays change."""
    m: GridMapping = params["grid_mapping"]
    first = m.num_dynamic_grid_bounds + m.num_index_operands
    if any(d is not None for d in dims[:first]) or launch_effect in params["jaxpr"].effects:
        return _batch_in_loop(axis_data, args, dims, **params)
    size = axis_data.size
    args, dims = list(args), list(dims)
    for i, _ in params["input_output_aliases"]:
        k = m.num_dynamic_grid_bounds + i
        if dims[k] is None:
            args[k] = batching.broadcast(args[k], size, 0, None)
            dims[k] = 0
    in_dims = dims[first:]
    mappings = [
        _batched_mapping(b, size, d)
        for b, d in zip(m.block_mappings, [*in_dims, *[0] * m.num_outputs])
    ]
    index = ShapedArray((), np.dtype(np.int32))
    index_avals = (index, *m.index_map_avals)
    mapping = m.replace(
        grid=(size, *m.grid),
        grid_names=None if m.grid_names is None else (None, *m.grid_names),
        block_mappings=tuple(mappings),
        index_map_tree=tree_structure((index_avals, {}), is_leaf=lambda x: x in index_avals),
        index_map_avals=index_avals,
        vmapped_dims=(0, *[d + 1 for d in m.vmapped_dims]),
    )
    out_avals = tuple(core.unmapped_aval(size, 0, a) for a in params["out_avals"])
    estimate = params["cost_estimate"]
    outs = pallas_call_p.bind(
        *args,
        **dict(
            params,
            grid_mapping=mapping,
            out_avals=out_avals,
            cost_estimate=estimate and estimate * size,
        ),
    )
    return outs, [0] * len(outs)


def _batched_mapping(b: BlockMapping, size: int, dim: int | None) -> BlockMapping:
    """Return the blocks of an array with a batch dimension, for a grid with another first dimension."""
    jaxpr = b.index_map_jaxpr.jaxpr
    element = core.Var(ShapedArray((), np.dtype(np.int32)))
    outs = list(jaxpr.outvars)
    dims, aval = list(b.block_shape), b.array_aval
    if dim is not None:
        # A bounded slice has two results.
        before = sum([2 if isinstance(d, BoundedSlice) else 1 for d in dims[:dim]])
        outs.insert(before, element)
        dims.insert(dim, squeezed)
        aval = core.unmapped_aval(size, dim, aval)
    info = jaxpr.debug_info.with_unknown_names()
    index_map = jaxpr.replace(invars=[element, *jaxpr.invars], outvars=outs, debug_info=info)
    return b.replace(
        block_shape=tuple(dims),
        array_aval=aval,
        index_map_jaxpr=ClosedJaxpr(index_map, b.index_map_jaxpr.consts),
    )


def _batch_in_loop(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
    """Apply the kernel to one element after the other: the grid differs, or is to be that of each alone."""
    args = [x if d is None else batching.moveaxis(x, d, 0) for x, d in zip(args, dims)]

    def body(i: Any, _: Any) -> Any:
        element = [
            x if d is None else slicing.dynamic_index_in_dim(x, i, keepdims=False)
            for x, d in zip(args, dims)
        ]
        return i + np.int32(1), pallas_call_p.bind(*element, **params)

    _, outs = scan(body, np.int32(0), None, length=axis_data.size)
    return outs, [0] * len(outs)


def _record_errors(record: Any, eqn: Any, args: Any) -> Any:
    # Only programs that are checked need checkify.
    rule: Any = importlib.import_module("jax._src.pallas.error_checks").record_errors
    return rule(record, eqn, args)


pallas_call_p.error_check = _record_errors
pallas_call_p.jvp = _jvp
pallas_call_p.transpose = _transpose
pallas_call_p.axis_batch = _batch
