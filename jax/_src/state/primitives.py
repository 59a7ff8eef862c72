"""The primitives on references, and the functions that bind them.

Derivative, batching and printing rules of reads and writes are in `jax._src.state.rules`. There are
no lowering rules: references are discharged before lowering (`jax._src.state.discharge`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import (
    ad_util,
    config,
    core,
    dtypes,
    special_values,
    traceback_util,
)
from jax._src.ad_util import Zero
from jax._src.core import (
    AbstractRef,
    AccumEffect,
    Primitive,
    ReadEffect,
    Ref,
    ShapedArray,
    WriteEffect,
    eval_trace,
    internal_mutable_array_effect,
    trace_ctx,
    typeof,
)
from jax._src.device_put import values as placing
from jax._src.device_put.functions import device_put
from jax._src.interpreters import ad, batching, partial_eval as pe
from jax._src.jit.jitted import make_primitive_call
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.memory import MemorySpace
from jax._src.state.indexing import NDIndexer
from jax._src.state.types import (
    BitcastTransform,
    ref_and_transforms,
    stored_aval,
    transform_type,
)
from jax._src.tree_util import tree_flatten, tree_unflatten
from jax._src.util import register_cache

traceback_util.register_exclusion(__file__)

NO_GRAD = "no_grad_no_remat"

# Views of arrays


def apply_transforms(x: Any, transforms: Sequence[Any]) -> Any:
    """Apply transforms to an array, one after the other."""
    for t in transforms:
        x = t.apply(x)
    return x


def update_view(x: Any, transforms: Sequence[Any], value: Any, accumulate: bool = False) -> Any:
    """Replace a view of an array by `value`, or add `value` to the view."""
    if not transforms:
        return lax.add(x, value) if accumulate else value
    first, *rest = transforms
    if not rest:
        return first.update(x, value, accumulate)
    return first.update(x, update_view(first.apply(x), rest, value, accumulate))


# Public functions


def _get_operands(ref: Any, idx: Any, name: str) -> tuple[Any, tuple[Any, ...]]:
    ref, transforms = ref_and_transforms(ref, name)
    if isinstance(ref, tuple):
        raise NotImplementedError(
            f"{name} of a reference chosen by select_ref, which only copies between memories take."
        )
    if idx is None or idx is ... or (isinstance(idx, tuple) and not idx):
        return ref, transforms
    if isinstance(idx, tuple) and len(idx) == 1 and idx[0] is ...:
        return ref, transforms
    aval: Any = typeof(ref)
    if aval.is_high:
        raise TypeError(f"a reference of type {aval} holds no array: read and write it by ref[...]")
    shape = transform_type(transforms, aval.inner_aval).shape
    indexer = NDIndexer.from_indices_shape(idx, shape)
    return ref, (*transforms, indexer)


@traceback_util.api_boundary
def ref_get(ref: Any, idx: Any = None) -> Any:
    """Read from a reference: `ref[idx]` as a function.

    Args:
      ref: reference, or a view of one (`ref.at[...]`).
      idx: NumPy-style index of integers, slices with positive steps, `jax.ds`, integer arrays and
        masks; None or `...` selects all elements.

    Returns:
      The selected elements as an array. Traced indices out of bounds are clamped.

    Raises:
      ValueError, TypeError: if `ref` is not a reference, or `idx` does not match its shape.

    >>> ref = jax.new_ref(jnp.arange(5))
    >>> jax.ref.get(ref, slice(1, 3))
    Array([1, 2], dtype=int32)
    """
    ref, transforms = _get_operands(ref, idx, "ref_get")
    flat, tree = tree_flatten(transforms)
    return get_p.bind(ref, *flat, tree=tree)


@traceback_util.api_boundary
def ref_set(ref: Any, idx: Any, value: Any) -> None:
    """Write to a reference: `ref[idx] = value` as a function.

    Args:
      ref: reference, or a view of one.
      idx: index, as for `jax.ref.get`.
      value: array of the shape and dtype of the view; weakly typed values are converted, and
        integers to other integer dtypes.

    Raises:
      ValueError: if `value` has another shape or dtype.

    >>> ref = jax.new_ref(jnp.zeros(3))
    >>> jax.ref.set(ref, 1, 10.)
    >>> ref
    Ref([ 0., 10.,  0.], dtype=float32)
    """
    _swap(ref, idx, value, "ref_set")


@traceback_util.api_boundary
def ref_swap(ref: Any, idx: Any, value: Any, _function_name: str = "ref_swap") -> Any:
    """Write to a reference, and return the old value of the elements written.

    Args:
      ref: reference, or a view of one.
      idx: index, as for `jax.ref.get`.
      value: array of the shape and dtype of the view; weakly typed values are converted, and
        integers to other integer dtypes.

    Returns:
      Array of the shape and dtype of the view.

    Raises:
      ValueError: if `value` has another shape or dtype.

    >>> ref = jax.new_ref(jnp.arange(3))
    >>> jax.ref.swap(ref, 1, 10)
    Array(1, dtype=int32)
    >>> ref
    Ref([ 0, 10,  2], dtype=int32)
    """
    return _swap(ref, idx, value, _function_name)


def _swap(ref: Any, idx: Any, value: Any, name: str) -> Any:
    ref, transforms = _get_operands(ref, idx, name)
    flat, tree = tree_flatten(transforms)
    value = _cast(value, typeof(ref), transforms, True)
    eager = trace_ctx.trace is eval_trace and type(ref) is Ref
    if name == "ref_set" and eager and not ref._aval.is_high:
        return _write(ref, value, flat, tree, "set")
    return swap_p.bind(ref, value, *flat, tree=tree)


@traceback_util.api_boundary
def ref_addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Add to the value of a reference: `ref[idx] += x` as one operation.

    If `idx` selects an element more than once, all of its values are added.

    Args:
      ref: reference, or a view of one.
      idx: index, as for `jax.ref.get`.
      x: array of the shape and dtype of the view.

    Raises:
      ValueError: if `x` has another shape or dtype.

    >>> ref = jax.new_ref(jnp.arange(3))
    >>> jax.ref.addupdate(ref, 2, 10)
    >>> ref
    Ref([ 0,  1, 12], dtype=int32)
    """
    ref, transforms = _get_operands(ref, idx, "ref_addupdate")
    flat, tree = tree_flatten(transforms)
    addupdate_p.bind(ref, _cast(x, typeof(ref), transforms, False), *flat, tree=tree)


def _cast(value: Any, ref_aval: Any, transforms: Sequence[Any], integers: bool) -> Any:
    """Convert a value to the dtype of the reference, if it may be written there without a cast.

    Weakly typed values are converted if they promote to that dtype; with `integers`, integers also
    to integers of any other width or sign (they wrap around).
    """
    if type(value) is list:
        value = np.asarray(value)
        if value.dtype == np.float64 or value.dtype == np.int64:
            value = value.astype(dtypes.canonicalize_dtype(value.dtype))
    aval = typeof(value)
    if isinstance(aval, AbstractRef):
        raise TypeError(
            f"cannot write a reference of type {aval} to a reference: write what it holds, ref[...]"
        )
    if aval.is_high or ref_aval.is_high:
        return value
    dtype = ref_aval.inner_aval.dtype
    if transforms and isinstance(transforms[-1], BitcastTransform):
        dtype = transforms[-1].dtype
    if aval.weak_type:
        if aval.dtype != dtype and not isinstance(dtype, dtypes.ExtendedDType):
            target, _ = dtypes.lattice_result_type(value, np.dtype(dtype))
            if target != dtype:
                return value
        return lax.convert_type(value, dtype, False)
    if integers and aval.dtype != dtype:
        if dtypes.issubdtype(aval.dtype, np.integer) and dtypes.issubdtype(dtype, np.integer):
            return lax.convert_type(value, dtype, False)
    return value


@traceback_util.api_boundary
def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Any:
    """Create a reference to a new mutable array.

    Args:
      init_val: initial value, an array or a number; it is copied.
      memory_space: memory space of the array; None for the default.
      kind: `"no_grad_no_remat"` for a reference that differentiation ignores: what is written to it
        counts as a constant. None otherwise.

    Returns:
      The reference: `ref[idx]` reads, `ref[idx] = value` and `ref[idx] += value` write.

    Raises:
      TypeError: if `init_val` is not an array.
      ValueError: if `kind` is unknown.

    >>> ref = jax.new_ref(jnp.zeros(3))
    >>> @jax.jit
    ... def step(x):
    ...   ref[0] += x
    >>> step(2.); step(3.)
    >>> ref
    Ref([5., 0., 0.], dtype=float32)
    """
    try:
        aval = typeof(init_val)
    except TypeError:
        raise TypeError(
            f"new_ref takes an array or a number, got {init_val!r} of type {type(init_val)}: convert it "
            "with jnp.asarray; for a tree of arrays make a tree of references, jax.tree.map(jax.new_ref, "
            "tree)"
        ) from None
    if isinstance(aval, AbstractRef):
        raise TypeError(f"new_ref takes an array, got a reference of type {aval}: pass ref[...]")
    if kind not in (None, NO_GRAD):
        raise ValueError(f"kind must be None or {NO_GRAD!r}, got {kind!r}")
    return new_ref_p.bind(init_val, memory_space=memory_space, kind=kind)


@traceback_util.api_boundary
def empty_ref(ty: Any, memory_space: Any = None) -> Any:
    """Create a reference to a new mutable array with undefined contents.

    Args:
      ty: an object with the shape and the dtype of the array.
      memory_space: memory space of the array; None for the default.

    Returns:
      The reference.

    >>> ref = jax.empty_ref(jax.ShapeDtypeStruct((2, 3), 'float32'))
    >>> ref.shape
    (2, 3)
    """
    if not isinstance(ty, core.AbstractValue):
        ty = typeof(ty) if core.valid_jaxtype(ty) else ShapedArray(ty.shape, ty.dtype)
    return empty_ref_p.bind(ty=ty, memory_space=memory_space)


@traceback_util.api_boundary
def freeze(ref: Any) -> Any:
    """End the lifetime of a reference, and return its value.

    Args:
      ref: reference, which must not be used afterwards.

    Returns:
      The array that the reference holds.

    Raises:
      ValueError: if `ref` is not a reference.

    >>> ref = jax.new_ref(jnp.arange(3))
    >>> ref[1] = 10
    >>> jax.freeze(ref)
    Array([ 0, 10,  2], dtype=int32)
    """
    return freeze_p.bind(_whole_ref(ref, "freeze"))


@traceback_util.api_boundary
def free_ref(ref: Any) -> None:
    """End the lifetime of a reference, so that its memory can be reused.

    Args:
      ref: reference, which must not be used afterwards.

    Raises:
      ValueError: if `ref` is not a reference.

    >>> ref = jax.new_ref(jnp.arange(3))
    >>> jax.free_ref(ref)
    >>> ref
    Ref(<ended>, Ref{int32[3]})
    """
    free_ref_p.bind(_whole_ref(ref, "free_ref"))


def _whole_ref(ref: Any, name: str) -> Any:
    if not isinstance(ref, Ref):
        raise ValueError(f"Can only call `{name}` on a `Ref`: {ref}.")
    return ref


late.ref_get = ref_get
late.ref_set = ref_set
late.ref_swap = ref_swap
late.ref_addupdate = ref_addupdate

# Creating and ending references

new_ref_p = Primitive("new_ref")
new_ref_p.ref_allocating = True
new_ref_p.ref_primitive = True


def _def_impl(p: Primitive) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the rule `impl` of a primitive, for arrays; for high types it applies to their arrays."""

    def define(impl: Callable[..., Any]) -> Callable[..., Any]:
        def run(first: Any, *args: Any, **params: Any) -> Any:
            aval = first._aval if type(first) is Ref else typeof(first)
            if aval.is_high:
                return p.to_lojax(first, *args, **params)
            return impl(first, *args, **params)

        p.def_impl(run)
        return impl

    return define


@_def_impl(new_ref_p)
def _new_ref_impl(x: Any, *, memory_space: Any, kind: Any) -> Ref:
    aval = typeof(x)
    value = _place(_copied(x), memory_space)
    special_values.check_results("new_ref", [x], [value])
    return Ref(AbstractRef(aval, memory_space, kind), value)


def _copied(x: Any) -> Any:
    # A guard takes what the runtime does for a transfer.
    if isinstance(typeof(x).dtype, dtypes.ExtendedDType) or config.transfers_are_guarded():
        return lax.copy_p.bind(x)
    return placing.device_put_value(x, None, placing.ALWAYS_COPY)


def _place(x: Any, memory_space: Any) -> Any:
    return device_put(x, memory_space) if isinstance(memory_space, MemorySpace) else x


@new_ref_p.def_effectful_abstract_eval
def _new_ref_types(aval: Any, *, memory_space: Any, kind: Any) -> Any:
    return AbstractRef(aval, memory_space, kind), {internal_mutable_array_effect}


def _new_ref_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (x,), (t,) = primals, tangents
    ref = new_ref_p.bind(x, **params)
    if params["kind"] == NO_GRAD or not _has_tangent(t):
        return ref, ad.zero_of(ref)
    return ref, new_ref_p.bind(ad.instantiate_zeros(t), **params)


def _has_tangent(t: Any) -> bool:
    aval = t.aval if type(t) is Zero else typeof(t)
    return getattr(aval, "dtype", None) != dtypes.float0


def _new_ref_linearize(primals: Any, tangents: Any, **params: Any) -> Any:
    (x,), (t,) = primals, tangents
    tape = trace_ctx.trace
    with core.set_current_trace(tape.parent):  # type: ignore[attr-defined]
        ref = new_ref_p.bind(x, **params)
        if params["kind"] == NO_GRAD or not _has_tangent(t):
            return ref, ad.zero_of(ref)
    # Record it even if the tangent is zero: nonzero tangents may be written to it later.
    return ref, _recorded(tape, new_ref_p, [t], params, ref)


def _recorded(tape: Any, primitive: Primitive, inputs: Any, params: Any, ref: Any) -> Any:
    """Record the creation of a reference's tangent on the tape."""
    aval, ctx = typeof(ref).to_tangent_aval(), core.current_jaxpr_eqn_context()
    (out,) = tape.add_eqn(primitive, inputs, params, [aval], tape.source_info(), ctx)
    return out


def _new_ref_batch(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
    x = batching.bdim_at_front(args[0], dims[0], axis_data.size)
    return new_ref_p.bind(x, **params), 0


new_ref_p.jvp = _new_ref_jvp
new_ref_p.linearize = _new_ref_linearize
new_ref_p.axis_batch = _new_ref_batch

empty_ref_p = Primitive("empty_ref")
empty_ref_p.ref_primitive = True


@empty_ref_p.def_impl
def _empty_ref_impl(*, ty: Any, memory_space: Any) -> Ref:
    zeros = late.to_array(ad_util.zeros_like_aval(ty))
    return Ref(AbstractRef(ty, memory_space), _place(_copied(zeros), memory_space))


@empty_ref_p.def_effectful_abstract_eval
def _empty_ref_types(*, ty: Any, memory_space: Any) -> Any:
    return AbstractRef(ty, memory_space), {internal_mutable_array_effect}


def _empty_ref_jvp(primals: Any, tangents: Any, *, ty: Any, memory_space: Any) -> Any:
    ref = empty_ref_p.bind(ty=ty, memory_space=memory_space)
    tangent = ty.to_tangent_aval()
    if tangent.dtype == dtypes.float0:
        return ref, ad.zero_of(ref)
    return ref, empty_ref_p.bind(ty=tangent, memory_space=memory_space)


def _empty_ref_linearize(primals: Any, tangents: Any, *, ty: Any, memory_space: Any) -> Any:
    tape = trace_ctx.trace
    with core.set_current_trace(tape.parent):  # type: ignore[attr-defined]
        ref = empty_ref_p.bind(ty=ty, memory_space=memory_space)
    tangent = ty.to_tangent_aval()
    if tangent.dtype == dtypes.float0:
        return ref, ad.zero_of(ref)
    params = dict(ty=tangent, memory_space=memory_space)
    return ref, _recorded(tape, empty_ref_p, [], params, ref)


def _empty_ref_batch(axis_data: Any, args: Any, dims: Any, *, ty: Any, memory_space: Any) -> Any:
    ty = core.unmapped_aval(axis_data.size, 0, ty)
    return empty_ref_p.bind(ty=ty, memory_space=memory_space), 0


empty_ref_p.jvp = _empty_ref_jvp
empty_ref_p.linearize = _empty_ref_linearize
empty_ref_p.axis_batch = _empty_ref_batch


def _ending(name: str, result: Callable[[Any], Any] | None) -> Primitive:
    """Define a primitive that ends a reference; `result` gives its result type, if it has one."""
    p = Primitive(name, multiple_results=result is None)

    def types(ref_aval: Any) -> Any:
        if not isinstance(ref_aval, AbstractRef):
            raise ValueError(f"`{name}` must be called on `Ref` types: {ref_aval}.")
        out = [] if result is None else result(ref_aval)
        return out, {internal_mutable_array_effect, ReadEffect(0)}

    def impl(ref: Any) -> Any:
        if type(ref) is not Ref:
            raise ValueError(f"`{name}` must be called on `Ref` types: {typeof(ref)}.")
        x, ref._buffer = ref._array(), None
        return [] if result is None else x

    def jvp(primals: Any, tangents: Any) -> Any:
        out = p.bind(*primals)
        (t,) = tangents
        if type(t) is Zero:
            return out, [] if result is None else ad.zero_of(out)
        return out, p.bind(t)

    _def_impl(p)(impl)
    p.def_effectful_abstract_eval(types)
    p.jvp = jvp
    p.batch = lambda args, dims: (p.bind(*args), [] if result is None else dims[0])
    return p


freeze_p = _ending("freeze", lambda ref_aval: ref_aval.inner_aval)
free_ref_p = _ending("free_ref", None)

# Reading and writing


def _view_type(ref_aval: Any, idx_avals: Sequence[Any], tree: Any, name: str) -> Any:
    if not isinstance(ref_aval, AbstractRef):
        raise ValueError(f"`{name}` must be called on `Ref` types: {ref_aval}.")
    inner = ref_aval.inner_aval
    transforms = tree_unflatten(tree, idx_avals)
    if not transforms:
        return inner
    if getattr(inner, "_sharding", None) is not None or getattr(inner, "vma", None):
        fun = lambda x, *idx: [apply_transforms(x, tree_unflatten(tree, idx))]
        return pe.abstract_eval_fun(fun, inner, *idx_avals)[0]
    return transform_type(transforms, inner)


def _check_value(ref_aval: Any, view: Any, val: Any, transforms: Any, name: str) -> None:
    if view.is_high or val.is_high:
        if not core.typematch(view, val):
            raise ValueError(f"`{name}` of a value of type {val} to a reference of type {ref_aval}")
        return
    if tuple(val.shape) != tuple(view.shape):
        raise ValueError(
            f"Invalid shape for `{name}`. Ref shape: {ref_aval.shape}. Expected shape: {view.shape}. "
            f"Value shape: {val.shape}. Transforms: {transforms}. Values are not broadcast: give the "
            "value the expected shape."
        )
    if val.dtype != view.dtype:
        raise ValueError(
            f"Invalid dtype for `{name}`. Ref dtype: {dtypes.dtype_name(view.dtype)}. Value dtype: "
            f"{dtypes.dtype_name(val.dtype)}. Convert the value with `.astype`."
        )


get_p = Primitive("get")


@get_p.def_effectful_abstract_eval
def _get_types(ref_aval: Any, *idx: Any, tree: Any) -> Any:
    return _view_type(ref_aval, idx, tree, "get"), {ReadEffect(0)}


@_def_impl(get_p)
def _get_impl(ref: Any, *idx: Any, tree: Any) -> Any:
    _check_concrete_ref(ref, "get")
    x = ref._array()
    if not tree_unflatten(tree, [None] * tree.num_leaves):
        return _copied(x)
    return _compiled("get", tree, ref._aval)(x, *idx)


def _check_concrete_ref(ref: Any, name: str) -> None:
    if type(ref) is not Ref:
        core.check_eval_args((ref,))
        raise ValueError(f"`{name}` must be called on `Ref` types: {typeof(ref)}.")


_programs: dict[Any, Callable[..., Any]] = {}


class _Programs:
    cache_clear = staticmethod(_programs.clear)


register_cache(_Programs, "operations on references")


def _compiled(name: str, tree: Any, ref_aval: AbstractRef) -> Callable[..., Any]:
    """Return the compiled operation on a reference's array, which it may overwrite (donation)."""
    dtype, weak_type = ref_aval.dtype, ref_aval.weak_type
    key = (name, tree, dtype, weak_type)
    call = _programs.get(key)
    if call is None:

        def get(x, *idx):
            return apply_transforms(x, tree_unflatten(tree, idx))

        def swap(x, value, *idx):
            transforms = tree_unflatten(tree, idx)
            new = update_view(x, transforms, value)
            return like_ref(new, ref_aval), apply_transforms(x, transforms)

        def set(x, value, *idx):
            return like_ref(update_view(x, tree_unflatten(tree, idx), value), ref_aval)

        def addupdate(x, value, *idx):
            new = update_view(x, tree_unflatten(tree, idx), value, True)
            return like_ref(new, ref_aval)

        fun = dict(get=get, swap=swap, set=set, addupdate=addupdate)[name]
        options = {} if name == "get" else {"donate_argnums": (0,)}
        if len(_programs) > 4096:
            _programs.clear()
        call = _programs[key] = make_primitive_call(fun, _printed_name(name), **options)
    return call


def like_ref(x: Any, ref_aval: Any) -> Any:
    """Convert an array to the dtype and weak type of what a reference holds."""
    aval: Any = typeof(x)
    inner = stored_aval(ref_aval)
    if aval.weak_type == inner.weak_type and aval.dtype == inner.dtype:
        return x
    return lax.convert_type(x, inner.dtype, inner.weak_type)


def _write(ref: Ref, value: Any, idx: Any, tree: Any, name: str) -> Any:
    """Write to a concrete reference, eagerly."""
    _check_concrete_ref(ref, name)
    aval = ref._aval
    x = ref._array()
    types = [typeof(i) for i in idx]
    view = _view_type(aval, types, tree, name)
    _check_value(aval, view, typeof(value), tree_unflatten(tree, types), _printed_name(name))
    if not tree_unflatten(tree, [None] * tree.num_leaves) and name != "addupdate":
        core.check_eval_args((value,))
        new = _like_buffer(like_ref(value, aval), x)
        special_values.check_results("swap", [value], [new])
        ref._buffer = new
        return x if name == "swap" else None
    out = _compiled(name, tree, aval)(x, value, *idx)
    new, old = out if name == "swap" else (out, None)
    if new.sharding != x.sharding:
        new = device_put(new, x.sharding)
    ref._buffer = new
    return old


def _printed_name(name: str) -> str:
    return "swap" if name == "set" else name


def _like_buffer(value: Any, x: Any) -> Any:
    """Copy `value`, with the sharding of `x` if that is committed."""
    value = late.to_array(value)
    if value.sharding != x.sharding and x.committed:
        return placing.device_put_value(value, x.sharding, placing.ALWAYS_COPY)
    return _copied(value)


swap_p = Primitive("swap")
swap_p.ref_primitive = True


@swap_p.def_effectful_abstract_eval
def _swap_types(ref_aval: Any, val: Any, *idx: Any, tree: Any) -> Any:
    view = _view_type(ref_aval, idx, tree, "swap")
    _check_value(ref_aval, view, val, tree_unflatten(tree, idx), "swap")
    return view, {WriteEffect(0)}


@_def_impl(swap_p)
def _swap_impl(ref: Any, value: Any, *idx: Any, tree: Any) -> Any:
    return _write(ref, value, idx, tree, "swap")


addupdate_p = Primitive("addupdate", multiple_results=True)
addupdate_p.ref_primitive = True


@addupdate_p.def_effectful_abstract_eval
def _addupdate_types(ref_aval: Any, val: Any, *idx: Any, tree: Any) -> Any:
    view = _view_type(ref_aval, idx, tree, "addupdate")
    _check_value(ref_aval, view, val, tree_unflatten(tree, idx), "addupdate")
    return [], {AccumEffect(0)}


@addupdate_p.def_impl
def _addupdate_impl(ref: Any, value: Any, *idx: Any, tree: Any) -> Any:
    _write(ref, value, idx, tree, "addupdate")
    return []


def zeros_like_ref(aval: AbstractRef) -> Any:
    """Create a reference to zeros."""
    zeros = ad_util.zeros_like_aval(aval.inner_aval)
    return new_ref_p.bind(zeros, memory_space=aval.memory_space, kind=None)


ad_util.aval_zeros_likers[AbstractRef] = zeros_like_ref
