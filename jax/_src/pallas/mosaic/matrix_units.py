"""The units for products of a TPU, which a kernel feeds one operand at a time."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import Primitive, ShapedArray, typeof
from jax._src.debugging import debug_effect

traceback_util.register_exclusion(__file__)

SUBLANES = 8  # rows of an accumulator

matmul_push_rhs_p = Primitive("matmul_push_rhs", multiple_results=True)
matmul_acc_lhs_p = Primitive("matmul_acc_lhs", multiple_results=True)
matmul_pop_p = Primitive("matmul_pop")


def matmul_push_rhs(
    rhs: Any, staging_register: int, mxu_index: int, *, transpose: bool = False
) -> None:
    """Put the right operand of products into a staging register of a unit.

    Each unit has registers of its own. What is in one must be loaded, by `matmul_acc_lhs`, before the
    next operand is put there, and before the kernel ends.

    Args:
      rhs: array of 256x256 elements, on chips whose units are as wide.
      staging_register: which register.
      mxu_index: which unit.
      transpose: whether the array is transposed.

    Raises:
      ValueError, TypeError: if the array is no matrix, or a number is negative or traced.
    """
    _matrix(rhs, "matmul_push_rhs: rhs")
    matmul_push_rhs_p.bind(
        rhs,
        staging_register=_number(staging_register, "staging_register"),
        mxu_index=_number(mxu_index, "mxu_index"),
        transpose=bool(transpose),
    )


def matmul_acc_lhs(
    acc_addr: int, lhs: Any, mxu_index: int, load_staged_rhs: int | None = None
) -> None:
    """Multiply a left operand with the right one that a unit has, and add the product to accumulators.

    Args:
      acc_addr: the first accumulator. Each has 8 rows of the product.
      lhs: array of 256 columns; its rows are a multiple of 8 for 32 bits, of 16 for 16, of 32 for 8.
      mxu_index: which unit.
      load_staged_rhs: the staging register whose operand the unit loads before; None to use the last one
        again.

    Raises:
      ValueError, TypeError: if the array is no such matrix, or a number is negative or traced.
    """
    aval = _matrix(lhs, "matmul_acc_lhs: lhs")
    rows = SUBLANES * max(32 // int(dtypes.itemsize_bits(aval.dtype)), 1)
    if aval.shape[0] % rows:
        raise ValueError(
            f"matmul_acc_lhs takes a multiple of {rows} rows of {dtypes.dtype_name(aval.dtype)}, got {aval.str_short()}."
        )
    load = None if load_staged_rhs is None else _number(load_staged_rhs, "load_staged_rhs")
    matmul_acc_lhs_p.bind(
        lhs,
        acc_addr=_number(acc_addr, "acc_addr"),
        mxu_index=_number(mxu_index, "mxu_index"),
        load_staged_rhs=load,
    )


def matmul_pop(acc_addr: int, shape: tuple[int, int], dtype: Any, mxu_index: int) -> Any:
    """Return what accumulators of a unit hold, and set them to zero. The kernel waits for the product.

    Args:
      acc_addr: the first accumulator.
      shape: the rows and columns of the result; rows are a multiple of 8.
      dtype: float32, or int32.
      mxu_index: which unit. Its accumulators must be empty when the kernel ends.

    Raises:
      ValueError, TypeError: if there is no such result, or a number is negative or traced.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> def kernel(x_ref, y_ref, o_ref):
    ...   pltpu.matmul_push_rhs(y_ref[...], 0, 0)
    ...   pltpu.matmul_acc_lhs(0, x_ref[...], 0, load_staged_rhs=0)
    ...   o_ref[...] = pltpu.matmul_pop(0, (8, 256), jnp.float32, 0)
    >>> x, y = jnp.ones((8, 256)), jnp.eye(256)
    >>> bool((pl.pallas_call(kernel, x, interpret=pltpu.InterpretParams())(x, y) == x).all())
    True
    """
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "matmul_pop")
    if dtype not in (np.dtype(np.float32), np.dtype(np.int32)):
        raise ValueError(
            f"Only float32 and int32 accumulators are supported, got {dtypes.dtype_name(dtype)}"
        )
    sizes = tuple([_number(d, "shape") for d in shape])
    if len(sizes) != 2 or sizes[0] % SUBLANES:
        raise ValueError(
            f"matmul_pop returns two dimensions, with a multiple of {SUBLANES} rows, not {sizes}."
        )
    return matmul_pop_p.bind(
        acc_addr=_number(acc_addr, "acc_addr"),
        shape=sizes,
        dtype=dtype,
        mxu_index=_number(mxu_index, "mxu_index"),
    )


def _matrix(x: Any, what: str) -> Any:
    aval: Any = typeof(x)
    if len(aval.shape) != 2:
        raise ValueError(f"{what} must have two dimensions, got {aval.str_short()}.")
    return aval


def _number(x: Any, name: str) -> int:
    try:
        n = operator.index(x)
    except TypeError as e:
        raise TypeError(f"{name} must be an integer that is known, got {x!r}.") from e
    if n < 0:
        raise ValueError(f"{name} must not be negative, got {n}.")
    return n


@matmul_push_rhs_p.def_effectful_abstract_eval
@matmul_acc_lhs_p.def_effectful_abstract_eval
def _no_results(x: Any, **_: Any) -> Any:
    return [], {debug_effect}


@matmul_pop_p.def_effectful_abstract_eval
def _pop_types(*, shape: tuple[int, int], dtype: Any, **_: Any) -> Any:
    return ShapedArray(shape, dtype), {debug_effect}
