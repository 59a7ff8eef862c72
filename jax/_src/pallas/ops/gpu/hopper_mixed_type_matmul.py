"""Products of matrices of two dtypes on Hopper GPUs: the left one is converted in registers, and multiplied from there."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.lax import lax
from jax._src.pallas.ops.differentiable import linear, product
from jax._src.pallas.ops.gpu.hopper_matmul import (
    Plan,
    TuningConfig,
    check_matrices,
    multiply_by,
    run_product,
)

traceback_util.register_exclusion(__file__)
_LEFT = ("int8", "uint8", "float8_e4m3fn", "float8_e5m2")
_RIGHT = ("bfloat16", "float16")
_OUT = ("bfloat16", "float16", "float32")


def mixed_matmul_kernel(
    a: Any, b: Any, *, out_dtype: Any, config: TuningConfig, interpret: Any = None
) -> Any:
    """Return the product of two matrices, of which the left one has elements of 8 bits, on a Hopper GPU.

    It is `(a.astype(b.dtype) @ b).astype(out_dtype)`; products are added in float32.

    Args:
      a: array of shape (m, k), of int8, uint8, float8_e4m3fn or float8_e5m2.
      b: array of shape (k, n), of bfloat16 or float16.
      out_dtype: the dtype of the result: bfloat16, float16 or float32.
      config: how the product is divided.
      interpret: `plgpu.InterpretParams()` to run it without a GPU.

    Returns:
      An array of shape (m, n). Derivatives are products of cotangents in the dtype of `b`; there is one by `a` if it is of
      floating-point numbers.

    Raises:
      ValueError: if shapes, dtypes and tiles do not match.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> from jax.experimental.pallas.ops.gpu.hopper_mixed_type_matmul_mgpu import TuningConfig, mixed_matmul_kernel
    >>> config = TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=2)
    >>> a, b = jnp.ones((64, 64), jnp.int8), jnp.ones((64, 128), jnp.bfloat16)
    >>> run = dict(out_dtype=jnp.float32, config=config, interpret=plgpu.InterpretParams())
    >>> float(mixed_matmul_kernel(a, b, **run)[0, 0])
    64.0
    """
    check_matrices(a, b, "mixed_matmul_kernel")
    left, right = dtypes.dtype_name(a.dtype), dtypes.dtype_name(b.dtype)
    if left == right:
        raise ValueError(
            f"mixed_matmul_kernel takes matrices of two dtypes, got {left} of both: take hopper_matmul_mgpu.matmul."
        )
    if left not in _LEFT or right not in _RIGHT:
        raise ValueError(
            f"mixed_matmul_kernel takes a left matrix of {', '.join(_LEFT)}, and a right one of {' or '.join(_RIGHT)}, got {left} and "
            f"{right}."
        )
    out_dtype = np.dtype(out_dtype)
    if dtypes.dtype_name(out_dtype) not in _OUT:
        raise ValueError(
            f"out_dtype of mixed_matmul_kernel is {', '.join(_OUT)}, got {dtypes.dtype_name(out_dtype)}."
        )
    # Converted elements are in registers that the next step needs: each product is waited for.
    plan = Plan.of(a, b, out_dtype, config, delay=0)
    multiply = functools.partial(multiply_by, config=config, interpret=interpret)

    def by_a(g: Any, b: Any) -> Any:
        return product(multiply, g, b, (False, True), a.dtype)

    def by_b(g: Any, a: Any) -> Any:
        # Transposed matrices are multiplied from memory: there they are of one dtype.
        return product(multiply, lax.convert_element_type(a, b.dtype), g, (True, False), b.dtype)

    run = lambda a, b: run_product(plan, a, b, None, interpret)
    return linear(run, (by_a, by_b), a, b)


def reference(a: Any, b: Any, *, out_dtype: Any) -> Any:
    """Return the product of two matrices of two dtypes, by XLA: see `mixed_matmul_kernel`."""
    left = lax.convert_element_type(a, b.dtype)
    dims = (((1,), (0,)), ((), ()))
    out = lax.dot_general(left, b, dims, preferred_element_type=np.float32)
    return lax.convert_element_type(out, out_dtype)
