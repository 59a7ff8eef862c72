"""Derivatives of operations that are linear in their arguments, by kernels that are such operations themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import dtypes
from jax._src.ad_util import SymbolicZero
from jax._src.api import eval_shape
from jax._src.custom_derivatives.jvp import custom_jvp
from jax._src.lax import lax
from jax._src.transforms.linear_call import linear_call


def linear(fun: Callable[..., Any], transposes: tuple[Callable[..., Any], ...], *args: Any) -> Any:
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
        return f(*primals), tangent(f, transposes, primals, tangents)

    return f(*args)


def tangent(
    fun: Callable[..., Any], transposes: tuple[Callable[..., Any], ...], primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> Any:  # fmt: skip
    """Return the tangent of what a function returns that is linear in each of its first arguments.

    Args:
      fun, transposes: as of `linear`, but that `fun` must have derivatives.
      primals: the arguments.
      tangents: their tangents, of which those by which there are derivatives count; they may be `SymbolicZero`.
    """
    terms = []
    for i, (transpose, t) in enumerate(zip(transposes, tangents)):
        if type(t) is SymbolicZero or t.dtype == dtypes.float0:
            continue
        others = (*primals[:i], *primals[i + 1 :])
        apply = lambda r, t, i=i: fun(*r[:i], t, *r[i:])
        back = lambda r, ct, transpose=transpose: transpose(ct, *r)
        terms.append(linear_call(apply, back, others, t))
    if terms:
        return functools.reduce(lax.add, terms)
    out = eval_shape(fun, *primals)
    return lax.full(out.shape, 0, out.dtype)


Multiply = Callable[[Any, Any, tuple[bool, bool], Any], Any]


def product(multiply: Multiply, a: Any, b: Any, transposed: tuple[bool, bool], dtype: Any) -> Any:
    """Return the product of two matrices, with derivatives that are such products too.

    If no matrix is transposed, at most one is in all derivatives, of any order.

    Args:
      multiply: function of two matrices, of whether each is transposed before, and of the dtype of the result.
      a, b: the matrices.
      transposed: whether each is transposed before.
      dtype: the dtype of the result.
    """
    apply = lambda a, b: multiply(a, b, transposed, np.dtype(dtype))
    return linear(apply, transposes(multiply, a, b, transposed), a, b)


def turned(pair: tuple[Any, ...], is_transposed: bool) -> tuple[Any, Any]:
    """Return what belongs to rows and to columns of a matrix in the order in which its memory has them."""
    return (pair[1], pair[0]) if is_transposed else (pair[0], pair[1])


def transposes(
    multiply: Multiply, a: Any, b: Any, transposed: tuple[bool, bool]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the functions that compute cotangents of two matrices from that of their product: see `product`."""
    (left, right), of_a, of_b = transposed, a.dtype, b.dtype

    def by_a(g: Any, b: Any) -> Any:
        if left:
            return product(multiply, b, g, (right, True), of_a)
        return product(multiply, g, b, (False, not right), of_a)

    def by_b(g: Any, a: Any) -> Any:
        if right:
            return product(multiply, g, a, (True, left), of_b)
        return product(multiply, a, g, (not left, False), of_b)

    return by_a, by_b
