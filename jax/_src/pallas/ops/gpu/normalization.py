"""Layer normalization (Ba et al., 2016, arXiv:1607.06450) and RMS normalization (Zhang and Sennrich, 2019, arXiv:1910.07467).

Forward, and for the derivative by the operand, a program has a row; the derivatives by weights and biases are sums over rows,
for which a program has a block of columns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jax._src.api import jit, vjp
from jax._src.core import ShapeDtypeStruct
from jax._src.custom_derivatives.vjp import custom_vjp
from jax._src.indexing import ds
from jax._src.lax import lax
from jax._src.numpy import reductions
from jax._src.pallas.blocks import BlockSpec
from jax._src.pallas.ops.gpu.access import (
    along,
    cdiv,
    check_backward_pass_impl,
    loop,
    multiple,
    padded,
    read,
    rows_left,
    sum_dtype,
    within,
    write,
)
from jax._src.pallas.pallas_call import pallas_call
from jax._src.pallas.primitives import program_id
from jax._src.pallas.triton import primitives as triton
from jax._src.pallas.triton.core import CompilerParams

# Longer rows are read in parts.
_MAX_BYTES = 65536


class _Options(NamedTuple):
    num_warps: int | None
    num_stages: int | None
    eps: float
    backward_pass_impl: str
    interpret: bool
    # Whether the mean is taken off: layer normalization.
    centered: bool


class _Row(NamedTuple):
    """How a row is read: in how many parts, of which size."""

    size: int
    part: int
    dtype: Any

    @classmethod
    def of(cls, x: Any) -> _Row:
        most = _MAX_BYTES // x.dtype.itemsize
        return cls(x.shape[-1], min(padded(x.shape[-1]), most), sum_dtype(x.dtype))

    @property
    def spec(self) -> BlockSpec:
        """The blocks of an array of rows."""
        return BlockSpec((None, multiple(self.size, self.part)), lambda i: (i, 0))

    @property
    def vector(self) -> BlockSpec:
        """The block of weights or biases."""
        return BlockSpec((multiple(self.size, self.part),), lambda i: (0,))

    def left(self, start: Any) -> Any:
        return rows_left(self.size, self.part, start)

    def read(self, ref: Any, i: Any) -> Any:
        start = i * self.part
        return read(ref, (start,), (self.part,), (self.left(start),)).astype(self.dtype)

    def write(self, ref: Any, i: Any, x: Any) -> None:
        start = i * self.part
        mask = within((self.part,), (self.left(start),))
        triton.store(ref.at[ds(start, self.part)], x.astype(ref.dtype), mask=mask)

    def mean(self, f: Callable[[Any], Any]) -> Any:
        """Return the mean of what f computes of a part."""
        add = lambda i, total: total + lax.reduce_sum(f(i), (0,))
        total = loop(0, cdiv(self.size, self.part), add, self.dtype.type(0))
        return total * self.dtype.type(1 / self.size)

    def each(self, f: Callable[[Any], None]) -> None:
        def step(i: Any, carry: Any) -> Any:
            f(i)
            return carry

        loop(0, cdiv(self.size, self.part), step, ())

    def less(self, i: Any, x: Any, mean: Any) -> Any:
        """Take off the mean; elements beyond the row stay zero."""
        mask = within((self.part,), (self.left(i * self.part),))
        x = x - mean
        return x if mask is None else lax.select(mask, x, lax.full_like(x, 0))


def _forward_kernel(
    x_ref: Any, w_ref: Any, b_ref: Any, o_ref: Any, *statistics: Any, row: _Row, options: _Options
) -> None:
    mean = None
    if options.centered:
        mean = row.mean(lambda i: row.read(x_ref, i))

    def part(i: Any) -> Any:
        x = row.read(x_ref, i)
        return x if mean is None else row.less(i, x, mean)

    rstd = lax.rsqrt(row.mean(lambda i: lax.square(part(i))) + row.dtype.type(options.eps))
    row.each(
        lambda i: row.write(o_ref, i, part(i) * rstd * row.read(w_ref, i) + row.read(b_ref, i))
    )
    for ref, x in zip(statistics, (rstd, mean)):
        ref[...] = x


def _operand_kernel(
    x_ref: Any, w_ref: Any, do_ref: Any, rstd_ref: Any, *refs: Any, row: _Row, options: _Options
) -> None:
    """Write the derivative by a row of the operand."""
    rstd = rstd_ref[...]
    mean = refs[0][...] if options.centered else None

    def part(i: Any) -> Any:
        x = row.read(x_ref, i)
        return x if mean is None else row.less(i, x, mean)

    weighted = lambda i: row.read(do_ref, i) * row.read(w_ref, i)
    slope = row.mean(lambda i: weighted(i) * part(i)) * rstd * rstd
    shift = row.mean(weighted) if options.centered else None

    def write_part(i: Any) -> None:
        dx = weighted(i) - part(i) * slope
        row.write(refs[-1], i, (dx if shift is None else dx - shift) * rstd)

    row.each(write_part)


def _weights_kernel(
    x_ref: Any, do_ref: Any, rstd_ref: Any, *refs: Any, shape: tuple[int, int], block: tuple[int, int], dtype: Any, centered: bool
) -> None:  # fmt: skip
    """Write the derivatives by a block of weights and biases."""
    dw_ref, db_ref = refs[-2:]
    rows, columns = shape
    right = rows_left(columns, block[1], program_id(0) * block[1])

    def step(i: Any, carry: Any) -> Any:
        dw, db = carry
        top = i * block[0]
        left = rows_left(rows, block[0], top)
        x, do = [read(ref, (top, 0), block, (left, right)).astype(dtype) for ref in (x_ref, do_ref)]
        numbers = lambda ref: along(read(ref, (top,), block[:1], (left,)), 0, block)
        if centered:
            x = x - numbers(refs[0])
        return dw + do * x * numbers(rstd_ref), db + do

    zeros = lax.full(block, 0, dtype)
    sums = loop(0, cdiv(rows, block[0]), step, (zeros, zeros))
    for ref, x in zip((dw_ref, db_ref), sums):
        write(ref, lax.reduce_sum(x, (0,)), (right,))


def _call(options: _Options, kernel: Any, name: str, grid: int, warps: int, **specs: Any) -> Any:
    name = f"{'layer' if options.centered else 'rms'}_norm_{name}"
    params = CompilerParams(options.num_warps or warps, options.num_stages)
    return pallas_call(
        kernel, grid=(grid,), compiler_params=params, interpret=options.interpret, name=name, **specs
    )  # fmt: skip


def _warps(row: _Row) -> int:
    return min(max(row.part // 256, 1), 8)


def _check(x: Any, weight: Any, bias: Any) -> None:
    if x.ndim == 0 or weight.shape != x.shape[-1:] or bias.shape != x.shape[-1:]:
        raise ValueError(
            f"Weights and biases have the size of the operand's last dimension, got {x.shape=}, {weight.shape=} and {bias.shape=}."
        )


def _forward(options: _Options, x: Any, weight: Any, bias: Any) -> tuple[Any, list[Any]]:
    """Return the normalized array, and for each row the inverse of its deviation and, if centered, its mean."""
    _check(x, weight, bias)
    *batch, n = x.shape
    x = x.reshape(int(np.prod(batch)), n)
    row = _Row.of(x)
    count = 1 + options.centered
    statistics = ShapeDtypeStruct((len(x),), row.dtype)
    if x.size == 0:
        empty = [lax.full(batch, 0, row.dtype) for _ in range(count)]
        return x.reshape(*batch, n), empty
    number = BlockSpec((None,), lambda i: (i,))
    out, *numbers = _call(
        options,
        functools.partial(_forward_kernel, row=row, options=options),
        "forward",
        len(x),
        _warps(row),
        in_specs=[row.spec, row.vector, row.vector],
        out_specs=[row.spec, *[number] * count],
        out_shape=[ShapeDtypeStruct(x.shape, x.dtype), *[statistics] * count],
    )(x, weight, bias)
    return out.reshape(*batch, n), [s.reshape(batch) for s in numbers]


def _backward(options: _Options, x: Any, weight: Any, bias: Any, statistics: Any, do: Any) -> Any:
    check_backward_pass_impl(options.backward_pass_impl)
    if options.backward_pass_impl == "xla" or x.size == 0:
        plain = layer_norm_reference if options.centered else rms_norm_reference
        same = lambda x, w, b: plain(x, w, b, eps=options.eps).astype(x.dtype)
        return vjp(same, x, weight, bias)[1](do)
    shape, n = x.shape, x.shape[-1]
    x, do = x.reshape(-1, n), do.reshape(-1, n)
    statistics = [s.reshape(-1) for s in statistics]
    row = _Row.of(x)
    number = BlockSpec((None,), lambda i: (i,))
    dx = _call(
        options,
        functools.partial(_operand_kernel, row=row, options=options),
        "backward_operand",
        len(x),
        _warps(row),
        in_specs=[row.spec, row.vector, row.spec, *[number] * len(statistics)],
        out_specs=row.spec,
        out_shape=ShapeDtypeStruct(x.shape, x.dtype),
    )(x, weight, do, *statistics)
    block = min(padded(len(x)), 32), min(padded(n), 32)
    rows = multiple(len(x), block[0])
    columns = BlockSpec((rows, block[1]), lambda i: (0, i))
    numbers = BlockSpec((rows,), lambda i: (0,))
    vector = BlockSpec(block[1:], lambda i: (i,))
    dw, db = _call(
        options,
        functools.partial(
            _weights_kernel, shape=x.shape, block=block, dtype=row.dtype, centered=options.centered
        ),
        "backward_weights",
        cdiv(n, block[1]),
        max(block[0] * block[1] // 64, 1),
        in_specs=[columns, columns, *[numbers] * len(statistics)],
        out_specs=[vector, vector],
        out_shape=[ShapeDtypeStruct((n,), weight.dtype), ShapeDtypeStruct((n,), bias.dtype)],
    )(x, do, *statistics)
    return dx.reshape(shape), dw, db


def _make(name: str, title: str, centered: bool) -> tuple[Any, Any, Any]:
    """Make a normalization, its forward and its backward pass."""
    static = tuple(range(3, 8))

    def norm(
        x: Any, weight: Any, bias: Any, num_warps: int | None = None, num_stages: int | None = 3,
        eps: float = 1e-5, backward_pass_impl: str = "triton", interpret: bool = False,
    ) -> Any:  # fmt: skip
        options = _Options(num_warps, num_stages, eps, backward_pass_impl, interpret, centered)
        return _forward(options, x, weight, bias)[0]

    def forward(
        x: Any, weight: Any, bias: Any, num_warps: int | None = None, num_stages: int | None = 3,
        eps: float = 1e-5, backward_pass_impl: str = "triton", interpret: bool = False,
    ) -> Any:  # fmt: skip
        options = _Options(num_warps, num_stages, eps, backward_pass_impl, interpret, centered)
        out, statistics = _forward(options, x, weight, bias)
        return out, (x, weight, bias, *statistics[::-1])

    def backward(
        num_warps: int | None, num_stages: int | None, eps: float, backward_pass_impl: str, interpret: bool,
        res: Any, do: Any,
    ) -> Any:  # fmt: skip
        options = _Options(num_warps, num_stages, eps, backward_pass_impl, interpret, centered)
        x, weight, bias, *statistics = res
        return _backward(options, x, weight, bias, statistics[::-1], do)

    norm.__doc__ = f"""{title} over the last dimension, with weights and biases.

    Args:
      x: an array with one dimension at least.
      weight, bias: a factor and a summand for each element of a row.
      num_warps, num_stages: see `plgpu.CompilerParams`.
      eps: what is added to the mean of squares.
      backward_pass_impl: `"triton"`: derivatives are kernels, too; `"xla"`: they are those of
        `{name}_reference`.
      interpret: whether to run the kernels as programs of XLA, which any device can.

    Returns:
      An array of the shape and dtype of x.

    Raises:
      ValueError: if shapes do not match.
    """
    forward.__doc__ = f"Return what `{name}` does, and what its derivative needs."
    backward.__doc__ = f"Return the derivatives of `{name}` by the operand, weights and biases."
    for f, suffix in ((norm, ""), (forward, "_forward"), (backward, "_backward")):
        f.__name__ = f.__qualname__ = name + suffix
    differentiable = custom_vjp(jit(norm, static_argnums=static), nondiff_argnums=static)
    differentiable.defvjp(forward, backward)
    return differentiable, forward, backward


layer_norm, layer_norm_forward, layer_norm_backward = _make("layer_norm", "Layer normalization", True)  # fmt: skip
rms_norm, rms_norm_forward, rms_norm_backward = _make("rms_norm", "RMS normalization", False)


def _reference(x: Any, weight: Any, bias: Any, eps: float, centered: bool) -> Any:
    _check(x, weight, bias)
    x = x.astype(sum_dtype(x.dtype))
    if centered:
        x = x - reductions.mean(x, axis=-1, keepdims=True)
    scale = lax.rsqrt(reductions.mean(lax.square(x), axis=-1, keepdims=True) + eps)
    return x * scale * weight + bias


@functools.partial(jit, static_argnames=("eps",))
def layer_norm_reference(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """Compute what `layer_norm` does, by operations of whole arrays."""
    return _reference(x, weight, bias, eps, True)


@functools.partial(jit, static_argnames=("eps",))
def rms_norm_reference(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """Compute what `rms_norm` does, by operations of whole arrays."""
    return _reference(x, weight, bias, eps, False)
