"""Complex functions on their branch cuts, where the sign of a zero tells the side."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import core, dtypes
from jax._src.interpreters import mlir
from jax._src.lax.lax.arithmetic import add, complex, imag, real
from jax._src.lax.rules import hlo_op, with_sharding
from jax._src.lax.utils import const
from jax._src.lib.mlir.dialects import hlo


def shifted(x: Any, constant: int) -> Any:
    """Return x + constant; of complex numbers with the imaginary part as it is, also a negative zero."""
    if dtypes.issubdtype(core.typeof(x).dtype, np.complexfloating):
        part = real(x)
        return complex(add(part, const(part, constant)), imag(x))
    return add(x, const(x, constant))


class mirrored:
    """Lower a function of complex numbers by its values where the parts are positive.

    The compiler's own expansions take a negative zero as a positive one, and so the value of the other
    side of a cut. The functions with this rule have f(conj(z)) = conj(f(z)), and `odd` ones f(-z) = -f(z).

    Args:
      op: the rule for real numbers, and for the complex ones with positive parts.
      odd: whether the real part's sign is the operand's, too; else the real part is any number.
      falling: whether the imaginary part's sign is that of the operand reversed.
    """

    __slots__ = ("op", "odd", "falling")

    def __init__(self, op: hlo_op, *, odd: bool = False, falling: bool = False):
        self.op, self.odd, self.falling = op, odd, falling

    def __call__(self, ctx: mlir.LoweringRuleContext, z: Any, **params: Any) -> Any:
        (aval_out,) = ctx.avals_out
        if not dtypes.issubdtype(aval_out.dtype, np.complexfloating):
            return self.op(ctx, z, **params)
        part = aval_out.update(dtype=dtypes.finfo(aval_out.dtype).dtype)
        re, im = hlo.real(z), hlo.imag(z)
        upper = hlo.complex(hlo.abs(re) if self.odd else re, hlo.abs(im))
        (out,) = self.op(ctx, upper, **params)
        out_re, out_im = hlo.real(out), _with_sign(ctx, hlo.imag(out), im, part, self.falling)
        if self.odd:
            out_re = _with_sign(ctx, out_re, re, part)
        return [with_sharding(ctx, hlo.complex(out_re, out_im), aval_out)]


def _with_sign(ctx, size, like, aval, reverse=False):
    """Return a number with the sign of another one, or the opposite sign; by bits, since processors may flush numbers to zero."""
    bits = aval.update(dtype=np.dtype(f"uint{aval.dtype.itemsize * 8}"))
    bits_type, top = mlir.aval_to_ir_type(ctx.module_context, bits), 8 * aval.dtype.itemsize - 1
    sign, rest = (mlir.full_like_aval(ctx, value, bits) for value in (1 << top, (1 << top) - 1))
    if reverse:
        like = hlo.negate(like)
    size, like = (hlo.bitcast_convert(bits_type, x) for x in (size, like))
    out = hlo.or_(hlo.and_(size, rest), hlo.and_(like, sign))
    return hlo.bitcast_convert(mlir.aval_to_ir_type(ctx.module_context, aval), out)
