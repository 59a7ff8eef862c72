"""The derivative of attention of one query for each sequence: one kernel, which adds to the derivatives of keys in place."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.core import ShapeDtypeStruct
from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop
from jax._src.numpy import reductions, ufuncs
from jax._src.numpy.array_creation import zeros
from jax._src.numpy.selecting import where
from jax._src.pallas.ops.gpu.access import (
    LOG2_E,
    along,
    matmul,
    read,
    rows_left,
    sum_dtype,
    write,
)
from jax._src.pallas.ops.gpu.decoding import (
    Call,
    KeyBlocks,
    Keys,
    Settings,
    Shape,
    decode,
    normalized,
)
from jax._src.pallas.primitives import program_id
from jax._src.pallas.triton import primitives as triton


def attend(q: Any, keys: Keys, settings: Settings) -> Any:
    """Return attention, with its derivatives by queries, keys, values and their scales."""
    arrays = keys._asdict()
    return _attend(settings, arrays.pop("page_size"), q, arrays)


@functools.partial(custom_vjp, nondiff_argnums=(0, 1))
def _attend(settings: Settings, page_size: int, q: Any, arrays: dict[str, Any]) -> Any:
    return _forward(settings, page_size, q, arrays)[0]


def _forward(settings: Settings, page_size: int, q: Any, arrays: dict[str, Any]) -> Any:
    out, total, greatest = decode(q, Keys(**arrays, page_size=page_size), settings)
    out = normalized(out, total).astype(q.dtype)
    # Queries without keys have no weights.
    lse = where(total == 0, np.inf, greatest + ufuncs.log(total))
    return out, (q, arrays, out, lse)


def _backward(settings: Settings, page_size: int, residuals: tuple[Any, ...], do: Any) -> Any:
    q, arrays, out, lse = residuals
    keys = Keys(**arrays, page_size=page_size)
    dtype = sum_dtype(q.dtype)
    call = Call(q, keys, settings)
    delta = reductions.sum(out.astype(dtype) * do.astype(dtype), axis=-1)
    for name, x in (("do", do), ("lse", lse), ("delta", delta)):
        call.add_queries(name, x)
    # Programs of blocks of heads, and of sequences that share pages, add to the same keys.
    shared = keys.pages is not None or call.grid[2] > 1
    results = {"dq": call.partial(dtype, True)}
    for name in ("k", "v"):
        x = getattr(keys, name)
        whole = shared or keys.k_scales is not None or not dtypes.issubdtype(x.dtype, np.floating)
        like = ShapeDtypeStruct(x.shape, dtype if whole else x.dtype)
        call.operands[f"d{name}_start"] = zeros(like.shape, like.dtype), call.of_keys
        results[f"d{name}"] = like, call.of_keys
    dq, dk, dv = call(
        functools.partial(_kernel, shared=shared), f"{settings.name}_backward", results,
        {"dk_start": "dk", "dv_start": "dv"},
    )  # fmt: skip
    dq = reductions.sum(dq, axis=1).reshape(q.shape).astype(q.dtype)
    cotangents = dict.fromkeys(arrays)
    for name, dx in (("k", dk), ("v", dv)):
        x, scales = arrays[name], arrays[f"{name}_scales"]
        if scales is not None:
            of_scales = reductions.sum(dx * x.astype(dtype), axis=-1)
            cotangents[f"{name}_scales"] = of_scales.astype(scales.dtype)
            dx = dx * scales[..., None].astype(dtype)
        if dtypes.issubdtype(x.dtype, np.floating):
            cotangents[name] = dx.astype(x.dtype)
    return dq, cotangents


_attend.defvjp(_forward, _backward)


def _kernel(refs: dict[str, Any], s: Shape, settings: Settings, shared: bool) -> None:
    left = rows_left(s.group, s.block_h, program_id(2) * s.block_h)
    sizes = (s.block_h, s.width)
    q, do = [read(refs[name], (0, 0), sizes, (left, s.depth)) for name in ("q", "do")]
    # Rows that are not there have no weights.
    lse = read(refs["lse"], (0,), sizes[:1], (left,), np.inf)
    delta = read(refs["delta"], (0,), sizes[:1], (left,))
    dtype = sum_dtype(q.dtype)
    blocks = KeyBlocks(refs, s, settings, dtype)

    def step(i: Any, dq: Any) -> Any:
        rows, mask = blocks.rows(i)
        k, v = [blocks.read(name, rows, mask).astype(q.dtype) for name in ("k", "v")]
        scores, slope = blocks.scores(q, k, mask)
        p = lax.exp2((scores - along(lse, 0, scores.shape)) * dtype.type(LOG2_E))
        change = p * (matmul(do, v, 1, 1) - along(delta, 0, p.shape))
        if slope is not None:
            change = change * slope
        change = (change * dtype.type(settings.sm_scale)).astype(q.dtype)
        for name, x in (
            ("dk", matmul(change, q, 0, 0)),
            ("dv", matmul(p.astype(do.dtype), do, 0, 0)),
        ):
            view, elements = refs[name].at[rows, ds(0, s.width)], blocks.elements(mask)
            if shared:
                triton.atomic_add(view, (), x, mask=elements)
            else:
                triton.store(view, x.astype(refs[name].dtype), mask=elements)
        return dq + matmul(change, k)

    dq = fori_loop(blocks.lower, blocks.upper, step, lax.full(sizes, 0, dtype))
    write(refs["dq"], dq, (left, s.depth))
