"""Late binding: operations that a layer calls although a higher layer defines them.

Differentiation adds cotangents and batching moves axes, but the primitives for that are defined
above the interpreters. So the interpreters call `late.add_any(x, y)`, and the module that defines
the operation assigns the slot when it is imported:

    late.add_any = _add_any

Functions have no other way to call upwards. Methods of arrays and tracers that need a higher layer
are set on the classes by that layer (`numpy/array_methods.py`, `device_put/functions.py`). Each slot is documented with its callers and its meaning, and
is assigned exactly once; using an unassigned slot raises an error that says so. A module that can
import an operation must not use its slot: `tests/late_binding_test.py` checks all of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from jax._src.core import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive, ShapedArray
    from jax._src.named_sharding import NamedSharding

    Axes = Sequence[int]
    Shape = Sequence[Any]  # ints and symbolic dimensions


class BroadcastInDim(Protocol):
    def __call__(
        self, x: Any, shape: Shape, broadcast_dimensions: Axes, *, out_sharding: Any = None
    ) -> Any: ...


class Full(Protocol):
    def __call__(
        self, shape: Shape, fill_value: Any, dtype: Any = None, *, sharding: Any = None
    ) -> Any: ...


class ConvertElementType(Protocol):
    def __call__(self, x: Any, dtype: Any, weak_type: bool = False) -> Any: ...


class Slice(Protocol):
    def __call__(
        self, x: Any, start_indices: Axes, limit_indices: Axes, strides: Axes | None = None
    ) -> Any: ...


class Reshard(Protocol):
    def __call__(self, x: Any, sharding: NamedSharding, concrete_mesh: Any = None) -> Any: ...


class Discharge(Protocol):
    def __call__(
        self, closed: ClosedJaxpr, which: Sequence[bool] | None = None, lower: bool = True
    ) -> tuple[ClosedJaxpr, list[int]]: ...


class Functionalize(Protocol):
    def __call__(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any],
        which: Sequence[bool], internal: bool,
    ) -> list[Any] | None: ...  # fmt: skip


class CompileEager(Protocol):
    def __call__(
        self, fun: Callable[..., Any], name: str, **options: Any
    ) -> Callable[..., Any]: ...


class PrettyPrint(Protocol):
    def __call__(self, jaxpr: Jaxpr, **settings: Any) -> str: ...


class LateBound:
    """The slots. "Array" means a concrete array or a tracer.

    Types and printing, for the base layer and core:
      make_aval: (shape, dtype, weak_type) -> the type of an array.
      pretty_print, jaxpr_to_string, eqn_to_string: the text of a jaxpr or equation.

    Operations on arrays, for core, differentiation and batching:
      broadcast_in_dim, transpose, full, convert_element_type, reduce_sum, slice, index_in_dim,
        dynamic_slice_in_dim: as in `lax`, with positional arguments;
        `index_in_dim` removes the axis, and `dynamic_slice_in_dim` requires a start >= 0.
      pvary: (x, axes, role) -> array with the role ("varying" by default) for manual mesh axes.
      add_any: (x, y) -> the sum of two cotangents of the same type.
      take_along: (x, indices, axis) -> array; indices are in bounds, one per position along the
        axis.
      reshard: (x, sharding, concrete mesh) -> array with that sharding in its type.
      device_put: (x, memory space) -> array.
      to_array: number, NumPy array or array -> array.

    References to mutable arrays, for their tracers and for transformations:
      ref_get: (ref, index) -> array; ref_set, ref_swap, ref_addupdate: (ref, index, value).
      ref_view, ref_transposed, ref_reshaped, ref_bitcast: views, called as `(ref, *args)`.
      discharge: (closed jaxpr, which, lower) -> the jaxpr without references, and the positions of
        the references it writes.
      functionalize: apply a primitive that has jaxprs to the contents of the marked references.

    The part of an array on one device, for high types with such parts:
      shard_array, unshard_array, nospec_array: the methods `shard`, `unshard` and `nospec` of the
        type of arrays.

    Running programs:
      apply_primitive: (primitive, *args, **params) -> results, for primitives without `impl`.
      compile_eager: (fun, name, **jit options) -> native callable.
      device_put_value: (value, target, copy semantics) -> array on the target.
      runtime_tokens: the tokens of programs that have been started.
      native_call_check: (callable, args, kwargs, result), called after native calls while a debug
        option requires it.
      checking_trace: (parent trace) -> a trace for linearization that checks backward passes, while
        `jax.debug.nans(backward=True)` is entered.
      checked_sum: (cotangent, cotangent) -> their sum, which is checked as the former.
      use_keys: (parameters of jit_p, args) -> function of the results, or None: under
        `jax_debug_key_reuse`, before and after each program; filled in with `jax.random`.
    """

    __slots__ = (
        "make_aval", "pretty_print", "jaxpr_to_string", "eqn_to_string",
        "broadcast_in_dim", "transpose", "full", "add_any", "convert_element_type",
        "reduce_sum", "slice", "take_along", "index_in_dim",
        "dynamic_slice_in_dim", "reshard", "pvary", "device_put", "to_array",
        "ref_get", "ref_set", "ref_swap", "ref_addupdate", "ref_view", "ref_transposed",
        "ref_reshaped", "ref_bitcast", "discharge", "functionalize",
        "shard_array", "unshard_array", "nospec_array",
        "apply_primitive", "compile_eager", "device_put_value", "runtime_tokens",
        "native_call_check", "use_keys", "checking_trace", "checked_sum",
    )  # fmt: skip

    make_aval: Callable[[tuple[int, ...], np.dtype[Any], bool], ShapedArray]
    pretty_print: PrettyPrint
    jaxpr_to_string: Callable[[Jaxpr], str]
    eqn_to_string: Callable[[JaxprEqn], str]

    broadcast_in_dim: BroadcastInDim
    transpose: Callable[[Any, Axes], Any]
    full: Full
    add_any: Callable[[Any, Any], Any]
    convert_element_type: ConvertElementType
    reduce_sum: Callable[[Any, Axes], Any]
    slice: Slice
    take_along: Callable[[Any, Any, int], Any]
    index_in_dim: Callable[[Any, int, int], Any]
    dynamic_slice_in_dim: Callable[[Any, Any, int, int], Any]
    reshard: Reshard
    pvary: Callable[..., Any]
    device_put: Callable[[Any, Any], Any]
    to_array: Callable[[Any], Any]

    ref_get: Callable[[Any, Any], Any]
    ref_set: Callable[[Any, Any, Any], None]
    ref_swap: Callable[[Any, Any, Any], Any]
    ref_addupdate: Callable[[Any, Any, Any], None]
    ref_view: Callable[[Any], Any]
    ref_transposed: Callable[..., Any]
    ref_reshaped: Callable[..., Any]
    ref_bitcast: Callable[[Any, Any], Any]
    discharge: Discharge
    functionalize: Functionalize

    shard_array: Callable[..., ShapedArray]
    unshard_array: Callable[..., ShapedArray]
    nospec_array: Callable[..., Any]

    apply_primitive: Callable[..., Any]
    compile_eager: CompileEager
    device_put_value: Callable[[Any, Any, Any], Any]
    runtime_tokens: Any
    native_call_check: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any], None]
    checking_trace: Callable[[Any], Any]
    checked_sum: Callable[[Any, Any], Any]
    use_keys: Callable[[dict[str, Any], Sequence[Any]], Callable[[Sequence[Any]], None] | None]

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            object.__getattribute__(self, name)
        except AttributeError:
            object.__setattr__(self, name, value)  # raises AttributeError for an unknown name
            return
        raise AttributeError(f"the late-bound operation {name!r} has been filled in already")

    def __getattr__(self, name: str) -> Any:
        # Called only if the slot is not assigned.
        if name not in LateBound.__slots__:
            raise AttributeError(f"there is no late-bound operation {name!r}")
        raise AttributeError(
            f"the late-bound operation {name!r} is not filled in yet: import the module that has it"
        )


late = LateBound()
