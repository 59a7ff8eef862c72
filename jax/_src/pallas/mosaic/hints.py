"""What kernels for TPUs tell the compiler and profilers; where kernels are interpreted, it does nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import Primitive, ReadEffect, ShapedArray, WriteEffect, typeof
from jax._src.debugging import debug_effect
from jax._src.interpreters import ad, mlir
from jax._src.lax import lax
from jax._src.state.types import ref_and_transforms

traceback_util.register_exclusion(__file__)

touch_p = Primitive("touch", multiple_results=True)
touch_p.ref_primitive = True


def touch(ref: Any) -> None:
    """Make what comes before and after in a kernel wait for each other, as if it read and wrote a reference.

    Args:
      ref: the reference, or a view of one.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> def kernel(x_ref, o_ref):
    ...   pltpu.touch(o_ref)
    ...   o_ref[...] = x_ref[...]
    >>> x = jnp.arange(2.)
    >>> pl.pallas_call(kernel, x, interpret=True)(x)
    Array([0., 1.], dtype=float32)
    """
    ref, _ = ref_and_transforms(ref, "touch")
    for r in ref if isinstance(ref, tuple) else (ref,):
        touch_p.bind(r)


@touch_p.def_effectful_abstract_eval
def _touch_types(ref: Any) -> Any:
    return [], {ReadEffect(0), WriteEffect(0)}


touch_p.discharge = lambda should, in_avals, out_avals, x: ((None,), [])
ad.defjvp_zero(touch_p)

trace_value_p = Primitive("trace_value", multiple_results=True)


def trace_value(label: str, value: Any) -> None:
    """Show a number in profiles, at the part of the kernel that is being run.

    Args:
      label: its name there.
      value: a scalar of type int32 or float32.

    Raises:
      ValueError: if it is no such number.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> def kernel(x_ref, o_ref):
    ...   pltpu.trace_value("total", jnp.sum(x_ref[...]))
    ...   o_ref[...] = x_ref[...]
    >>> x = jnp.arange(2.)
    >>> pl.pallas_call(kernel, x, interpret=True)(x)
    Array([0., 1.], dtype=float32)
    """
    aval: Any = typeof(value)
    dtype = dtypes.canonicalize_dtype(aval.dtype)
    if aval.shape or dtype not in (np.dtype(np.int32), np.dtype(np.float32)):
        raise ValueError(
            f"trace_value takes a scalar of type int32 or float32, got {aval.str_short()} for {label!r}."
        )
    trace_value_p.bind(lax.convert_element_type(value, dtype), label=label)


@trace_value_p.def_effectful_abstract_eval
def _trace_value_types(x: ShapedArray, *, label: str) -> Any:
    return [], {debug_effect}


trace_value_p.def_impl(lambda x, *, label: [])
mlir.register_lowering(trace_value_p, lambda ctx, x, *, label: [])
