"""Dot-product attention by a kernel of jaxlib-ext for CPUs, which never has the logits in memory.

`tiled_attention` is the attention and the log-sum-exps of its logits; its JVP is `tiled_attention_tangent`,
whose transpose is `tiled_attention_gradient`. The kernel computes the first and the last. Where it is not at
hand when the program is lowered (for other platforms, exported or partitioned in ways that it is not), and
for tangents and derivatives of higher order, they are what `attention_of_logits` gives.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jax._src import config, core, dtypes, xla_bridge
from jax._src.ad_util import Zero
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import lax, native_calls
from jax._src.lib import native_kernels
from jax._src.mesh import AxisType, get_abstract_mesh
from jax._src.nn.logits_attention import accumulator, attention_of_logits
from jax._src.transforms.derivatives import jvp, vjp

_KERNEL, _GRADIENT_KERNEL = "jaxlib_ext_attention", "jaxlib_ext_attention_gradient"
_DTYPES = frozenset(map(np.dtype, (dtypes.bfloat16, np.float32, np.float64)))
_MIN_PRODUCTS = 1 << 16


class Options(NamedTuple):
    """Static parameters of an attention.

    Its operands are query, key and value, then the lengths of queries, of keys, and a mask, as far as there
    are any.
    """

    scale: float
    is_causal: bool
    window: tuple[int, int] | None
    has_query_lengths: bool
    has_key_lengths: bool
    has_mask: bool

    @property
    def extra(self) -> tuple[bool, bool, bool]:
        """Which operands there are besides query, key and value."""
        return self.has_query_lengths, self.has_key_lengths, self.has_mask

    @property
    def num_operands(self) -> int:
        return 3 + sum(self.extra)


def suits_tiles(query: Any, key: Any, bias: Any, mask: Any, scale: Any, window: Any) -> bool:
    """Returns whether `tiled_attention` is for these arguments, and the kernel is there and not slower."""
    avals = [core.typeof(x) for x in (query, key, mask) if x is not None]
    if bias is not None or not all(core.is_constant_shape(a.shape) for a in avals):
        return False
    if isinstance(scale, core.Tracer) or np.ndim(scale) or not _are_numbers(window):
        return False
    if not set(get_abstract_mesh().axis_types) <= {AxisType.Auto}:
        return False
    return _suits_kernel(*avals[:2]) and _has_kernel()


def _are_numbers(window: Any) -> bool:
    return window is None or all(isinstance(w, int) and abs(w) < 1 << 31 for w in window)


def _suits_kernel(query: core.ShapedArray, key: core.ShapedArray) -> bool:
    queries, keys = query.shape[1], key.shape[1]
    # With few queries, arranging the keys takes longer than what is saved.
    enough = queries >= min(64, max(32, keys // 16)) and query.size * keys >= _MIN_PRODUCTS
    return enough and query.dtype in _DTYPES


def _has_kernel() -> bool:
    return (
        config.native_kernels.value
        and config.cpu_compile_profile.value != "original"
        and native_kernels.has(_KERNEL)
        and xla_bridge.default_backend() == "cpu"
    )


def tiled_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: None,
    mask: Any,
    scale: Any,
    query_lengths: Any,
    key_lengths: Any,
    *,
    is_causal: bool,
    window: tuple[int, int] | None,
    return_residual: bool,
) -> tuple[Any, Any]:
    """Returns what `attention_of_logits` does, if `suits_tiles` says so."""
    extra = (query_lengths, key_lengths, mask)
    has_extra = [x is not None for x in extra]
    options = Options(float(scale), is_causal, window and tuple(window), *has_extra)
    operands = [query, key, value, *[x for x in extra if x is not None]]
    out, sums = tiled_attention_p.bind(*operands, options=options)
    if not return_residual:
        return out, None
    return out, lax.convert_element_type(lax.transpose(sums, (0, 2, 1)), query.dtype)


# ---------------------------------------------------------------------------------------------------
# By ordinary operations


def _by_logits(query, key, value, *extra, options):
    given = iter(extra)
    query_lengths, key_lengths, mask = [next(given) if has else None for has in options.extra]
    out, sums = attention_of_logits(
        query, key, value, None, mask, np.asarray(options.scale), query_lengths, key_lengths,
        is_causal=options.is_causal, window=options.window, return_residual=True,
    )  # fmt: skip
    return out, lax.transpose(sums, (0, 2, 1))


def _attention_by_logits(*operands, options):
    out, sums = _by_logits(*operands, options=options)
    return out, lax.convert_element_type(sums, accumulator(out.dtype))


def _closed(extra, options):
    """The attention as a function of query, key and value."""
    return lambda *arrays: _by_logits(*arrays, *extra, options=options)[0]


def _split(operands: Sequence[Any], options: Options) -> list[Sequence[Any]]:
    """Parts of the operands of a derivative: arrays, others, results of the attention, and linear ones."""
    count = options.num_operands
    ends = [0, 3, count, count + 2, len(operands)]
    return [operands[a:b] for a, b in zip(ends, ends[1:])]


def _tangent_by_logits(*operands, options):
    arrays, extra, _, tangents = _split(operands, options)
    return jvp(_closed(extra, options), arrays, tangents)[1]


def _gradient_by_logits(*operands, options):
    arrays, extra, _, (cotangent,) = _split(operands, options)
    return vjp(_closed(extra, options), *arrays)[1](cotangent)


# ---------------------------------------------------------------------------------------------------
# Derivatives


def _attention_jvp(primals, tangents, *, options):
    out, sums = tiled_attention_p.bind(*primals, options=options)
    if all(type(t) is Zero for t in tangents[:3]):
        return (out, sums), (ad.zero_of(out), ad.zero_of(sums))
    tangents = map(ad.instantiate_zeros, tangents[:3])
    tangent = tiled_attention_tangent_p.bind(*primals, out, sums, *tangents, options=options)
    # Its users stop the gradient of the sums.
    return (out, sums), (tangent, ad.zero_of(sums))


def _derivative_jvp(primitive, by_logits, primals, tangents, *, options):
    """The JVP of a derivative, as a function of all but the results of the attention."""
    out = primitive.bind(*primals, options=options)
    differentiated = [i for i, t in enumerate(tangents) if type(t) is not Zero]
    results = range(options.num_operands, options.num_operands + 2)
    differentiated = [i for i in differentiated if i not in results]

    def of(*some):
        operands = list(primals)
        for i, x in zip(differentiated, some):
            operands[i] = x
        return by_logits(*operands, options=options)

    _, tangent = jvp(
        of, [primals[i] for i in differentiated], [tangents[i] for i in differentiated]
    )
    return out, tangent


def _tangent_transpose(cotangent, *operands, options):
    *known, tangents = _split(operands, options)
    if type(cotangent) is Zero:
        return [Zero(x.aval) if ad.is_undefined_primal(x) else None for x in operands]
    known = [x for part in known for x in part]
    gradients = tiled_attention_gradient_p.bind(*known, cotangent, options=options)
    wanted = [g if ad.is_undefined_primal(x) else None for g, x in zip(gradients, tangents)]
    return [*[None] * len(known), *wanted]


def _gradient_transpose(cotangents, *operands, options):
    *known, _ = _split(operands, options)
    if all(type(c) is Zero for c in cotangents):
        return [Zero(x.aval) if ad.is_undefined_primal(x) else None for x in operands]
    known = [x for part in known for x in part]
    tangents = map(ad.instantiate_zeros, cotangents)
    tangent = tiled_attention_tangent_p.bind(*known, *tangents, options=options)
    return [*[None] * len(known), tangent]


# ---------------------------------------------------------------------------------------------------
# Types and batching


def _types(query, *_, options):
    b, t, n, _ = query.shape
    out = query.update(weak_type=False)
    return [out, core.ShapedArray((b, n, t), accumulator(query.dtype))]


def _fold(x: Any, dim: int | None, size: int, batch: int) -> Any:
    """`x` of shape (batch or 1, ...) with a dimension to be mapped -> (size * batch or 1, ...)."""
    if dim is None:
        if x.shape[0] == 1 < batch or size * batch == 1:
            return x  # a mask, which is broadcast
        x = lax.broadcast_to(lax.expand_dims(x, (0,)), (size, *x.shape))
    else:
        x = batching.moveaxis(x, dim, 0)
    if x.shape[1] != batch:
        x = lax.broadcast_to(x, (size, batch, *x.shape[2:]))
    return lax.reshape(x, (size * batch, *x.shape[2:]))


def _batched(primitive, axis_data, args, dims, *, options):
    """Makes the mapped dimension part of the batch."""
    size = axis_data.size
    query, dim = args[0], dims[0]
    batch = int((query.shape if dim is None else np.delete(query.shape, dim))[0])
    folded = [_fold(x, d, size, batch) for x, d in zip(args, dims)]
    outs = primitive.bind(*folded, options=options)
    unfold = lambda x: lax.reshape(x, (size, batch, *x.shape[1:]))
    if primitive.multiple_results:
        return [unfold(x) for x in outs], [0] * len(outs)
    return unfold(outs), 0


# ---------------------------------------------------------------------------------------------------
# Lowering


def _lowering(target, by_logits):
    otherwise = mlir.lower_fun(by_logits)

    def rule(ctx, *operands, options):
        query, key = ctx.avals_in[:2]
        partitioned = native_calls.is_partitioned(ctx)
        # The compiler can partition a call along leading dimensions that all operands have.
        can_split = not any(options.extra) and query.shape[2] == key.shape[2]
        if (
            not _suits_kernel(query, key)
            or (partitioned and not can_split)
            or config.cpu_compile_profile.value == "original"
            or not native_calls.can_call(ctx, target)
        ):
            return otherwise(ctx, *operands, options=options)
        return _call(ctx, target, operands, options, heads_first=partitioned)

    return rule


def _call(ctx, target, operands, options, heads_first):
    before, after = options.window or (0, 0)
    numbers = [
        heads_first, options.is_causal, options.window is not None, before, after, *options.extra,
    ]  # fmt: skip
    attributes = {"options": np.array(numbers, np.int64), "scale": options.scale}
    ins, outs = [list(avals) for avals in (ctx.avals_in, ctx.avals_out)]
    operands = list(operands)
    if heads_first:
        for i, aval in enumerate(ins):
            if aval.ndim == 4:
                ins[i], operands[i] = _swapped(aval), _swap(operands[i])
    types = [_swapped(a) if heads_first and a.ndim == 4 else a for a in outs]
    results = native_calls.call(
        ctx, target, operands, ins, types, attributes, batch_dims=2 if heads_first else None
    )
    if not heads_first:
        return results
    return [_swap(x) if aval.ndim == 4 else x for x, aval in zip(results, outs)]


def _swapped(aval: core.ShapedArray) -> core.ShapedArray:
    b, t, n, h = aval.shape
    return aval.update(shape=(b, n, t, h), sharding=None)


def _swap(x: Any) -> Any:
    return native_calls.transpose(x, (0, 2, 1, 3))


tiled_attention_p = core.Primitive("tiled_attention")
tiled_attention_p.multiple_results = True
tiled_attention_p.def_abstract_eval(_types)
tiled_attention_p.jvp = _attention_jvp
mlir.register_lowering(tiled_attention_p, mlir.lower_fun(_attention_by_logits))
mlir.register_lowering(tiled_attention_p, _lowering(_KERNEL, _attention_by_logits), platform="cpu")

tiled_attention_tangent_p = core.Primitive("tiled_attention_tangent")
tiled_attention_tangent_p.def_abstract_eval(
    lambda query, *_, options: query.update(weak_type=False)
)
tiled_attention_tangent_p.jvp = functools.partial(
    _derivative_jvp, tiled_attention_tangent_p, _tangent_by_logits
)
tiled_attention_tangent_p.transpose = _tangent_transpose
mlir.register_lowering(
    tiled_attention_tangent_p, mlir.lower_fun(_tangent_by_logits, multiple_results=False)
)

tiled_attention_gradient_p = core.Primitive("tiled_attention_gradient")
tiled_attention_gradient_p.multiple_results = True
tiled_attention_gradient_p.def_abstract_eval(
    lambda *operands, options: [a.update(weak_type=False) for a in operands[:3]]
)
tiled_attention_gradient_p.jvp = functools.partial(
    _derivative_jvp, tiled_attention_gradient_p, _gradient_by_logits
)
tiled_attention_gradient_p.transpose = _gradient_transpose
mlir.register_lowering(tiled_attention_gradient_p, mlir.lower_fun(_gradient_by_logits))
mlir.register_lowering(
    tiled_attention_gradient_p, _lowering(_GRADIENT_KERNEL, _gradient_by_logits), platform="cpu"
)

for _primitive in (tiled_attention_p, tiled_attention_tangent_p, tiled_attention_gradient_p):
    _primitive.axis_batch = functools.partial(_batched, _primitive)
