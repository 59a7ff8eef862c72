"""Rules of Mosaic's lowering: keys, and drawing with them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jax._src.lib.mlir.dialects import arith
from jax._src.lib.mosaic import tpu
from jax._src.pallas.kernel_rules import RuleContext
from jax._src.pallas.mosaic.lowering.kernel import TpuKernel, rule
from jax._src.pallas.mosaic.lowering.memory import as_i32
from jax._src.pallas.mosaic.packing import prng_random_bits_p
from jax._src.pallas.mosaic.random import folded, no_split, pallas_impl, stateful_impl
from jax._src.random import prng

rule(prng.random_split_p)(lambda ctx, key, **_: no_split())


def _checked(impl: Any, what: str) -> None:
    if impl is not pallas_impl and impl is not stateful_impl:
        raise NotImplementedError(
            f"Kernels for TPUs cannot have {what} with a key of {impl.name}: pass them pltpu.to_pallas_key(key)."
        )


@rule(prng.random_seed_p)
def _seed(ctx: RuleContext, seed: Any, *, impl: Any) -> Any:
    _checked(impl, "random_seed")
    if ctx.avals_in[0].shape:
        raise NotImplementedError("Kernels for TPUs make single keys, not arrays of keys.")
    return [(seed,) * (2 if impl is pallas_impl else 0)]


@rule(prng.random_fold_in_p)
def _fold_in(ctx: RuleContext, key: Any, data: Any) -> Any:
    _checked(ctx.avals_in[0].dtype._impl, "random_fold_in")
    if ctx.avals_out[0].shape:
        raise NotImplementedError("Kernels for TPUs fold one integer into one key, not arrays.")
    if not key:
        return [key]
    kernel = ctx.kernel
    word = lambda x: _Word(kernel, x)
    return [tuple([w.value for w in folded(*map(word, key), word(data), _rotated)])]


@rule(prng.random_clone_p)
def _clone(ctx: RuleContext, key: Any) -> Any:
    return [key]


@rule(prng.random_bits_p)
def _bits(ctx: RuleContext, key: Any, *, bit_width: int, shape: Any, consumer: Any = None) -> Any:
    _checked(ctx.avals_in[0].dtype._impl, "random_bits")
    if bit_width != 32 or ctx.avals_in[0].shape:
        raise NotImplementedError(
            f"Kernels for TPUs draw numbers of 32 bits with one key, not of {bit_width}: convert them afterwards."
        )
    if key:
        tpu.prng_set_seed_32([as_i32(ctx.kernel, w) for w in key])
    draw = ctx.kernel.rules.find(prng_random_bits_p)
    return [draw(ctx, shape=shape)]


@dataclasses.dataclass(frozen=True)
class _Word:
    """A word of a key, with the operations that derive others."""

    kernel: TpuKernel
    value: Any

    def __add__(self, other: _Word) -> _Word:
        return _Word(self.kernel, arith.addi(self.value, other.value))

    def __xor__(self, other: _Word) -> _Word:
        return _Word(self.kernel, arith.xori(self.value, other.value))


def _rotated(word: _Word, n: int) -> _Word:
    kernel, x = word.kernel, word.value
    bits = lambda k: kernel.scalar(k, np.dtype(np.int32))
    return _Word(kernel, arith.ori(arith.shli(x, bits(n)), arith.shrui(x, bits(32 - n))))
