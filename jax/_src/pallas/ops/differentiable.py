"""Derivatives of operations that are linear in their arguments, by kernels that are such operations themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.ad_util import SymbolicZero
from jax._src.custom_derivatives.jvp import custom_jvp
from jax._src.lax import lax
from jax._src.transforms.linear_call import linear_call


def linear(
    fun: Callable[..., Any], transposes: tuple[Callable[..., Any], ...], *args: Any
) -> Any:
    """Return a function of arrays that is linear in each of the first ones, with derivatives in both modes.

    Kernels compute the derivatives too: tangents by `fun`, and cotangents by the transposes. If these have derivatives,
    there are higher ones.

    Args:
      fun: function of the arrays.
      transposes: for each array by which there are derivatives, the function of the cotangent of the result and of all other
        arrays, in their order, that returns the array's cotangent.
      *args: the arrays. By those beyond `transposes` there are no derivatives.
    """
    f = custom_jvp(fun)

    @functools.partial(f.defjvp, symbolic_zeros=True)
    def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        out = f(*primals)
        terms = []
        for i, (transpose, t) in enumerate(zip(transposes, tangents)):
            if type(t) is SymbolicZero or t.dtype == dtypes.float0:
                continue
            others = (*primals[:i], *primals[i + 1 :])
            apply = lambda r, t, i=i: f(*r[:i], t, *r[i:])
            back = lambda r, ct, transpose=transpose: transpose(ct, *r)
            terms.append(linear_call(apply, back, others, t))
        return out, functools.reduce(lax.add, terms) if terms else lax.full_like(out, 0)

    return f(*args)


Product = Callable[[Any, Any, tuple[bool, bool], Any], Any]


def product(multiply: Product, a: Any, b: Any, transposed: tuple[bool, bool], dtype: Any) -> Any:
    """Return the product of two matrices, with derivatives that are such products too.

    Args:
      multiply: function of two matrices, of whether each is transposed before, and of the dtype of the result.
      a, b: the matrices.
      transposed: whether each is transposed before.
      dtype: the dtype of the result.
    """
    left, right = transposed

    def apply(a: Any, b: Any) -> Any:
        return multiply(a, b, transposed, np.dtype(dtype))

    def by_a(g: Any, b: Any) -> Any:
        if left:
            return product(multiply, b, g, (right, True), a.dtype)
        return product(multiply, g, b, (False, not right), a.dtype)

    def by_b(g: Any, a: Any) -> Any:
        if right:
            return product(multiply, g, a, (True, left), b.dtype)
        return product(multiply, a, g, (not left, False), b.dtype)

    return linear(apply, (by_a, by_b), a, b)
