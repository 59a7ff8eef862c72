"""Attributes that let the compiler partition calls of native kernels along batch dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax._src import core
from jax._src.lib.mlir import ir


def batch_attributes(
    batch_dims: int, avals_in: Sequence[core.ShapedArray], avals_out: Sequence[core.ShapedArray]
) -> dict[str, Any]:
    """Return attributes of a call whose operands and results share leading batch dimensions.

    The call target must be registered as partitionable along the batch.
    """
    number = ir.StringAttr.get(str(batch_dims))
    attributes = {"mhlo.frontend_attributes": ir.DictAttr.get({"num_batch_dims": number})}
    if all(core.is_constant_shape(a.shape) for a in (*avals_in, *avals_out)):
        rule = _sharding_rule(batch_dims, avals_in, avals_out)
        attributes["sdy.sharding_rule"] = ir.Attribute.parse(rule)
    return attributes


def _sharding_rule(batch_dims: int, avals_in, avals_out) -> str:
    """Return a Shardy rule in which batch dimensions correspond and all others are independent."""
    sizes: list[int] = []

    def factors(aval):
        out = []
        for d, size in enumerate(aval.shape):
            if d < batch_dims and len(sizes) > d:
                out.append(d)
            else:
                out.append(len(sizes))
                sizes.append(size)
        return f"[{', '.join(map(_factor_name, out))}]"

    ins, outs = ", ".join(map(factors, avals_in)), ", ".join(map(factors, avals_out))
    named = ", ".join(f"{_factor_name(i)}={size}" for i, size in enumerate(sizes))
    return f"#sdy.op_sharding_rule<({ins})->({outs}) {{{named}}}, custom>"


def _factor_name(i: int) -> str:
    return chr(ord("i") + i) if i < 18 else f"z_{i - 17}"
