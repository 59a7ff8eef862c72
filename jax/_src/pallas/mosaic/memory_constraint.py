"""In which memory of a TPU the operands of kernels are."""

from __future__ import annotations

from typing import Any

from jax._src import traceback_util
from jax._src.core import Primitive
from jax._src.interpreters import batching, mlir
from jax._src.pallas.memory import MemorySpace as AnyMemorySpace
from jax._src.pallas.mosaic.core import MemorySpace

traceback_util.register_exclusion(__file__)

with_memory_space_constraint_p = Primitive("with_memory_space_constraint")


def with_memory_space_constraint(x: Any, memory_space: Any) -> Any:
    """Say in which memory XLA must have an array, where it is the operand of a kernel.

    Its value is not changed, and no operation but a kernel that is compiled for TPUs heeds it.

    Args:
      x: array, in a function that is traced.
      memory_space: `pltpu.HBM`, `pltpu.VMEM`, `pltpu.SMEM`; or `pl.ANY`, which says nothing.

    Returns:
      The array, whose type says it.

    Raises:
      NotImplementedError: if it is another memory space.
      ValueError: if the array is not traced.

    >>> from jax.experimental.pallas import tpu as pltpu
    >>> jax.make_jaxpr(lambda x: pltpu.with_memory_space_constraint(x, pltpu.HBM))(jnp.ones(2))
    { lambda ; a:f32[2]. let
        b:f32<hbm>[2] = with_memory_space_constraint[memory_space=hbm] a
      in (b,) }
    """
    if memory_space is AnyMemorySpace.ANY:
        return x
    if memory_space not in (MemorySpace.HBM, MemorySpace.VMEM, MemorySpace.SMEM):
        raise NotImplementedError(
            f"with_memory_space_constraint only supports HBM, VMEM and SMEM, got {memory_space!r}."
        )
    return with_memory_space_constraint_p.bind(x, memory_space=memory_space)


@with_memory_space_constraint_p.def_abstract_eval
def _types(x: Any, *, memory_space: MemorySpace) -> Any:
    return x.update(memory_space=memory_space)


@with_memory_space_constraint_p.def_impl
def _eager(x: Any, *, memory_space: MemorySpace) -> Any:
    raise ValueError(
        "Cannot eagerly run with_memory_space_constraint: apply it in a function given to jax.jit, which has the kernel."
    )


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    return with_memory_space_constraint_p.bind(*primals, **params), tangents[0]


with_memory_space_constraint_p.jvp = _jvp
batching.defvectorized(with_memory_space_constraint_p)
mlir.register_lowering(with_memory_space_constraint_p, lambda ctx, x, *, memory_space: [x])
