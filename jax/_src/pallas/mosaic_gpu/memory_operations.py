"""Loads, atomic updates, semaphores, and what a thread asks of the GPU besides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal

import numpy as np

from jax._src import dtypes, traceback_util
from jax._src.core import AbstractRef, Primitive, ShapedArray, WriteEffect, typeof
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import lax
from jax._src.pallas.effects import kernel_effect, launch_effect
from jax._src.pallas.mosaic_gpu.copies import (
    ATOMICS,
    check_atomic,
    check_value,
)
from jax._src.pallas.mosaic_gpu.core import MemorySpace
from jax._src.pallas.mosaic_gpu.layouts import SomeLayout
from jax._src.pallas.mosaic_gpu.operations import (
    apply,
    barrier_view,
    first_view_type,
    operation,
    view,
)
from jax._src.pallas.mosaic_gpu.transforms import multicast_ref
from jax._src.pallas.semaphores import (
    DeviceIdType,
    one_semaphore,
    semaphore_signal as any_semaphore_signal,
)
from jax._src.state.types import TransformedRef, view_type
from jax._src.tree_util import tree_flatten, tree_unflatten

traceback_util.register_exclusion(__file__)
GMEM, SMEM = MemorySpace.GMEM, MemorySpace.SMEM

# Layouts of values

layout_cast_p = Primitive("layout_cast")
layout_cast_p.def_abstract_eval(lambda x, *, new_layout: x)
layout_cast_p.def_impl(lambda x, *, new_layout: x)
mlir.register_lowering(layout_cast_p, lambda ctx, x, *, new_layout: [x])
batching.defvectorized(layout_cast_p)
ad.deflinear2(layout_cast_p, lambda ct, x, *, new_layout: [ct])


def layout_cast(x: Any, new_layout: SomeLayout) -> Any:
    """Return an array in another layout.

    Args:
      x: the array.
      new_layout: the layout, such as `plgpu.Layout.WGMMA`.

    Raises:
      TypeError: if it is no layout.
    """
    if not isinstance(new_layout, SomeLayout):
        raise TypeError(
            f"layout_cast takes a layout such as plgpu.Layout.WGMMA, got {new_layout!r}."
        )
    return layout_cast_p.bind(x, new_layout=new_layout)


def broadcasted_iota(
    dtype: Any, shape: Sequence[int], dimension: int, *, layout: SomeLayout | None = None
) -> Any:
    """Return an array of the positions along a dimension.

    Args:
      dtype, shape: those of the array.
      dimension: the dimension.
      layout: its layout; None for any.

    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> plgpu.broadcasted_iota(jnp.int32, (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    if not 0 <= dimension < len(shape):
        raise ValueError(
            f"iota dimension must be between 0 and len(shape), got dimension={dimension} for shape={tuple(shape)}"
        )
    out = lax.broadcasted_iota(dtype, tuple(shape), dimension)
    return out if layout is None else layout_cast(out, layout)


print_layout_p = operation("print_layout")


def print_layout(fmt: str, x: Any) -> None:
    """Print the layout of an array, or of a reference in tensor memory, when the kernel is compiled.

    Args:
      fmt: format string with a placeholder for the layout.
      x: the array or reference.
    """
    apply(print_layout_p, x, fmt=fmt)


# Loads and atomic updates


load_p = operation("load", first_view_type)


def load(src: Any, idx: Any, *, layout: SomeLayout | None = None, optimized: bool = True) -> Any:
    """Return a part of a reference as an array with a layout.

    Args:
      src: reference in shared or global memory.
      idx: the index of the part.
      layout: the array's layout; None for any.
      optimized: whether loads that are not coalesced, or conflict, are errors.
    """
    indexed = src.at[idx] if idx is not ... and idx != () else src
    source = view(indexed, "load", "src", (GMEM, SMEM))
    out = apply(load_p, source, optimized=bool(optimized))
    return out if layout is None else layout_cast(out, layout)


atomic_p = operation("mgpu_atomic_store")


def _atomic(op: str) -> Callable[[Any, Any], None]:
    def update(ref: Any, val: Any) -> None:
        target = view(ref, f"atomic_{op}")
        aval = view_type(target)
        check_atomic(op, aval.dtype)
        if not hasattr(val, "dtype"):
            val = lax.full((), val, aval.dtype)
        check_value(val, aval, f"atomic_{op}")
        apply(atomic_p, target, lax.convert_element_type(val, aval.dtype), op=op)

    update.__name__ = update.__qualname__ = f"atomic_{op}"
    combined = {"add": "sum", "max": "maximum", "min": "minimum"}.get(op, f"bitwise {op}")
    update.__doc__ = f"""Replace each element of a reference by its {combined} with a value, undivided.

    Threads that do the same at the same time do not lose each other's updates, but their order is not
    determined.

    Args:
      ref: reference in global or shared memory, or a view of one.
      val: array of its shape and dtype.

    Raises:
      ValueError: if shapes or dtypes differ, or there is no such operation on the dtype.
    """
    return update


atomic_add, atomic_max, atomic_min, atomic_and, atomic_or, atomic_xor = map(_atomic, ATOMICS)

# Several devices

MULTIMEM_REDUCTIONS = ("add", "min", "max", "and", "or", "xor")
_MULTIMEM_DTYPES = (
    "float32 float16 bfloat16 float8_e5m2 float8_e4m3fn int32 int64 uint32 uint64".split()
)

multimem_store_p = operation("multimem_store")
multimem_load_reduce_p = operation("multimem_load_reduce", first_view_type)


def multimem_store(source: Any, ref: Any, collective_axes: Hashable | tuple[Hashable, ...]) -> None:
    """Store an array in the global memory of all devices along axes of the mesh at once.

    Args:
      source: the array.
      ref: reference in global memory, of the same shape and dtype.
      collective_axes: the axes.
    """
    target = view(ref, "multimem_store", "ref", (GMEM,))
    check_value(source, view_type(target), "multimem_store")
    apply(multimem_store_p, source, multicast_ref(target, collective_axes))


def multimem_load_reduce(
    ref: Any, *, collective_axes: Hashable | tuple[Hashable, ...],
    reduction_op: Literal["add", "min", "max", "and", "or", "xor"],
) -> Any:  # fmt: skip
    """Return the reduction of what all devices along axes of the mesh have in global memory.

    Args:
      ref: reference in global memory.
      collective_axes: the axes.
      reduction_op: `"add"`; for other dtypes than float32 also `"min"` and `"max"`; and for integers
        `"and"`, `"or"` and `"xor"`.

    Raises:
      ValueError: if there is no such reduction of the dtype.
    """
    source = view(ref, "multimem_load_reduce", "ref", (GMEM,))
    dtype = view_type(source).dtype
    name = dtypes.dtype_name(dtype)
    if reduction_op not in MULTIMEM_REDUCTIONS or name not in _MULTIMEM_DTYPES:
        raise ValueError(f"There is no reduction {reduction_op} of {name} by multimem_load_reduce.")
    integer = dtypes.issubdtype(dtype, np.integer)
    if (reduction_op in ("and", "or", "xor") and not integer) or (
        reduction_op in ("min", "max") and name == "float32"
    ):
        raise ValueError(f"There is no reduction {reduction_op} of {name} by multimem_load_reduce.")
    axes = collective_axes if isinstance(collective_axes, tuple) else (collective_axes,)
    return apply(
        multimem_load_reduce_p, source, collective_axes=axes, reduction_op=reduction_op
    )  # fmt: skip


# Semaphores

signal_p = operation("semaphore_signal")
wait_p = operation("semaphore_wait")
signal_multicast_p = operation("semaphore_signal_multicast")
_SCOPES = ("sys", "gpu")


def _semaphore(ref: Any, what: str) -> TransformedRef:
    return TransformedRef(*one_semaphore(ref, what))


def _check_scope(scope: str) -> None:
    if scope not in _SCOPES:
        raise ValueError(f"memory_scope must be 'sys' or 'gpu', got {scope!r}.")


def _int32(x: Any) -> Any:
    return lax.convert_element_type(x, np.int32)


def semaphore_signal(
    semaphore: Any, inc: Any = 1, *, device_id: Any = None,
    memory_scope: Literal["sys", "gpu"] = "sys",
) -> None:  # fmt: skip
    """Add to the count of a semaphore.

    Args:
      semaphore: reference to a semaphore.
      inc: what to add.
      device_id: the device whose semaphore is meant; None for this one.
      memory_scope: who sees what was done before: all devices, or this one.

    Raises:
      ValueError: if it is no single semaphore, or there is no such scope.
    """
    _check_scope(memory_scope)
    ref = _semaphore(semaphore, "signal")
    ids, tree = tree_flatten(device_id)
    device_id = tree_unflatten(tree, list(map(_int32, ids)))
    apply(signal_p, ref, _int32(inc), device_id, memory_scope=memory_scope)


def semaphore_wait(
    semaphore: Any, value: Any = 1, *, decrement: bool = True,
    memory_scope: Literal["sys", "gpu"] = "sys",
) -> None:  # fmt: skip
    """Wait until the count of a semaphore is at least a value.

    Args:
      semaphore: reference to a semaphore.
      value: the count to wait for.
      decrement: whether to subtract it then.
      memory_scope: whose doings are seen after it: those of all devices, or of this one.

    Raises:
      ValueError: if it is no single semaphore, or there is no such scope.
    """
    _check_scope(memory_scope)
    ref = _semaphore(semaphore, "wait")
    apply(wait_p, ref, _int32(value), decrement=bool(decrement), memory_scope=memory_scope)


def semaphore_signal_multicast(
    semaphore: Any, value: Any = 1, *, collective_axes: Hashable | tuple[Hashable, ...]
) -> None:
    """Add to the count of a semaphore on all devices.

    Args:
      semaphore: reference to a semaphore.
      value: what to add.
      collective_axes: the axes of the mesh, all of them.
    """
    ref = _semaphore(semaphore, "signal")
    apply(signal_multicast_p, multicast_ref(ref, collective_axes), _int32(value))


@dataclasses.dataclass(frozen=True)
class SemaphoreSignal:
    """One of the signals of `semaphore_signal_parallel`.

    Args:
      ref: reference to the semaphore.
      device_id: the device whose semaphore is meant; None for this one.
      inc: what to add.
    """

    ref: Any
    _: dataclasses.KW_ONLY
    device_id: Any
    inc: Any = 1


def semaphore_signal_parallel(*signals: SemaphoreSignal) -> None:
    """Add to the counts of semaphores, in any order.

    What was done before is seen by whoever sees any of them.

    Args:
      *signals: what to add to which.
    """
    for s in signals:
        any_semaphore_signal(s.ref, s.inc, device_id=s.device_id, device_id_type=DeviceIdType.MESH)


# What a thread asks of the GPU

set_max_registers_p = operation("set_max_registers")
griddepcontrol_wait_p = operation("griddepcontrol_wait")
griddepcontrol_launch_dependents_p = operation("griddepcontrol_launch_dependents")
try_cluster_cancel_p = operation("try_cluster_cancel")


def set_max_registers(n: int, *, action: Literal["increase", "decrease"]) -> None:
    """Set how many registers each lane of this thread may use.

    Args:
      n: the number, a multiple of 8 from 24 to 256.
      action: whether that is more or less than before.

    Raises:
      ValueError: if it is another number or action.
    """
    if action not in ("increase", "decrease"):
        raise ValueError(f"action must be 'increase' or 'decrease', got {action!r}.")
    if not isinstance(n, (int, np.integer)) or n % 8 or not 24 <= n <= 256:
        raise ValueError(f"set_max_registers takes a multiple of 8 from 24 to 256, got {n!r}.")
    apply(set_max_registers_p, n=int(n), action=action)


def griddepcontrol_wait() -> None:
    """Wait for the kernels that this one depends on."""
    apply(griddepcontrol_wait_p)


def griddepcontrol_launch_dependents() -> None:
    """Say that kernels that depend on this one can be started."""
    apply(griddepcontrol_launch_dependents_p)


def try_cluster_cancel(result_ref: Any, barrier: Any) -> None:
    """Ask for a cluster of the grid that has not been started, to do its work in this one.

    All threads of the block must call it, and arrive at the barrier each.

    Args:
      result_ref: reference to where the answer is put: see `TryClusterCancelResult`.
      barrier: the barrier at which the answer arrives.
    """
    result = view(result_ref, "try_cluster_cancel", "result_ref", (SMEM,))
    aval = view_type(result)
    if aval.shape != (16,) or aval.dtype != np.dtype(np.int8):
        raise ValueError(
            f"try_cluster_cancel puts 16 bytes in result_ref, got a reference of type {aval.str_short()}."
        )
    apply(try_cluster_cancel_p, result, barrier_view(barrier, "try_cluster_cancel"))


query_cluster_cancel_p = Primitive("query_cluster_cancel", multiple_results=True)
query_cluster_cancel_p.ref_primitive = True


@query_cluster_cancel_p.def_effectful_abstract_eval
def _query_types(*avals: Any, tree: Any, grid_names: Any) -> Any:
    int32 = ShapedArray((), np.dtype(np.int32))
    return [int32] * len(grid_names) + [ShapedArray((), np.dtype(bool))], {launch_effect}


def query_cluster_cancel(
    result_ref: Any, grid_names: Sequence[Hashable]
) -> tuple[tuple[Any, ...], Any]:
    """Return what the answer to `try_cluster_cancel` says.

    Args:
      result_ref: reference to the answer.
      grid_names: axes of the grid.

    Returns:
      The position along the axes of the cluster whose work is to be done, and whether there is one.
    """
    result = view(result_ref, "query_cluster_cancel", "result_ref", (SMEM,))
    *indices, success = apply(query_cluster_cancel_p, result, grid_names=tuple(grid_names))
    return tuple(indices), success


# Code of the back end


@dataclasses.dataclass(frozen=True)
class RefType:
    """In the types of arguments of `inline_mgpu`: a reference, given as it is after these transforms."""

    transforms: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class ShapeDtypeStruct:
    """In the type of what a function of `inline_mgpu` returns: an array in registers.

    Args:
      shape, dtype: those of the array.
      layout: its layout.
    """

    shape: tuple[int, ...]
    dtype: Any
    layout: Any


inline_mgpu_p = Primitive("inline_mgpu", multiple_results=True)
inline_mgpu_p.ref_primitive = True


@inline_mgpu_p.def_effectful_abstract_eval
def _inline_types(*avals: Any, out_types: Any, **_: Any) -> Any:
    # Which references it reads or writes is not known.
    effects: set[Any] = {WriteEffect(i) for i, a in enumerate(avals) if isinstance(a, AbstractRef)}
    out = [ShapedArray(tuple(t.shape), np.dtype(t.dtype)) for t in out_types]
    return out, effects | {kernel_effect}


def inline_mgpu(*, arg_types: Any = (), return_type: Any = None) -> Any:
    """Return a decorator of functions that emit operations of MLIR into a kernel.

    The decorated function is called when the kernel is compiled, with a context and what stands for the
    arguments: memrefs of MLIR for references, and `jax.experimental.mosaic.gpu.FragmentedArray` for arrays.
    Interpreted kernels cannot have such functions.

    Args:
      arg_types: a sequence of trees of `RefType`, for references, and layouts, for arrays.
      return_type: a tree of `plgpu.ShapeDtypeStruct`; None for a function that returns nothing.

    Raises:
      TypeError: if the types are others; when the function is called, if an argument is not what its type says.
      ValueError: if the arguments or what the function returns are other trees, or arrays of other types.

    >>> import jax.numpy as jnp
    >>> from jax.experimental.mosaic import gpu as mgpu
    >>> from jax.experimental.pallas import mosaic_gpu as plgpu
    >>> layout = plgpu.Layout.WG_STRIDED((128, 128), vec_size=4)
    >>> @plgpu.inline_mgpu(
    ...     arg_types=(plgpu.RefType(),), return_type=plgpu.ShapeDtypeStruct((128, 128), jnp.float32, layout)
    ... )
    ... def load_and_add_one(ctx, ref):
    ...     return mgpu.FragmentedArray.load_strided(ref, vec_size=4) + 1
    """
    flat_types, types_tree = tree_flatten(tuple(arg_types))
    for t in flat_types:
        if not isinstance(t, (RefType, SomeLayout)):
            raise TypeError(
                f"arg_types of inline_mgpu are plgpu.RefType() and layouts such as plgpu.Layout.WGMMA, got {t!r}."
            )
    is_struct = lambda x: isinstance(x, ShapeDtypeStruct)
    out_types, out_tree = tree_flatten(return_type, is_leaf=is_struct)
    if not all(map(is_struct, out_types)):
        raise TypeError(
            f"return_type of inline_mgpu has plgpu.ShapeDtypeStruct(shape, dtype, layout), got {return_type!r}."
        )

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            is_leaf = lambda x: hasattr(x, "transforms")
            flat, tree = tree_flatten(args, is_leaf=is_leaf)
            if tree != types_tree:
                raise ValueError(
                    f"The arguments of a function of inline_mgpu are {tree}, arg_types {types_tree}."
                )
            outs = apply(
                inline_mgpu_p, *map(_inline_operand, flat, flat_types), fun=f, args_tree=types_tree,
                arg_types=tuple(flat_types), out_types=tuple(out_types), out_tree=out_tree,
            )  # fmt: skip
            return tree_unflatten(out_tree, outs)

        return run

    return decorate


def _inline_operand(x: Any, t: Any) -> Any:
    is_reference = isinstance(typeof(x.ref if hasattr(x, "transforms") else x), AbstractRef)
    if isinstance(t, RefType):
        if not is_reference:
            raise TypeError(
                f"A function of inline_mgpu with arg_types of plgpu.RefType() takes a reference, got {typeof(x)}: give its layout."
            )
        return view(x, "inline_mgpu")
    if is_reference:
        raise TypeError(
            f"A function of inline_mgpu with arg_types of {t} takes an array, got {typeof(x)}: give plgpu.RefType(), or read it."
        )
    return layout_cast(x, t)
