"""What kernels for GPUs are written with besides: masked access, atomic operations, assembly, hints.

All but assembly also run where kernels are interpreted.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from jax._src import debugging, dtypes, traceback_util
from jax._src.core import (
    AbstractRef,
    Primitive,
    ReadEffect,
    ShapedArray,
    WriteEffect,
    typeof,
)
from jax._src.indexing import Slice
from jax._src.interpreters import ad, batching, mlir
from jax._src.lax import lax, slicing
from jax._src.numpy import util as numpy_util
from jax._src.pallas.values import as_array
from jax._src.state.discharge import register_discharge_rule
from jax._src.state.indexing import NDIndexer
from jax._src.state.primitives import apply_transforms, update_view
from jax._src.state.types import ref_and_transforms, transform_type
from jax._src.tree_util import tree_flatten, tree_unflatten

traceback_util.register_exclusion(__file__)


class Atomic(enum.Enum):
    """What an atomic operation does with an element and an operand."""

    ADD = "add"
    MAX = "max"
    MIN = "min"
    AND = "and"
    OR = "or"
    XOR = "xor"
    XCHG = "xchg"


_COMBINE = {
    Atomic.ADD: lax.add,
    Atomic.MAX: lax.max,
    Atomic.MIN: lax.min,
    Atomic.AND: lax.bitwise_and,
    Atomic.OR: lax.bitwise_or,
    Atomic.XOR: lax.bitwise_xor,
    Atomic.XCHG: lambda old, x: x,
}


# Operands are the leaves of a tree: the reference, transforms from its array to the part that is
# accessed, and arrays of the shape of that part.

masked_load_p = Primitive("masked_load")
masked_store_p = Primitive("masked_store", multiple_results=True)
atomic_rmw_p = Primitive("atomic_rmw")
atomic_cas_p = Primitive("atomic_cas")


@traceback_util.api_boundary
def load(
    ref: Any, *, mask: Any = None, other: Any = None, cache_modifier: str | None = None,
    eviction_policy: str | None = None, volatile: bool = False,
) -> Any:  # fmt: skip
    """Read from a reference, where a mask says so.

    Args:
      ref: the reference, or a view of it: `ref.at[pl.ds(start, size)]`.
      mask: booleans of the shape of the view, or that can be broadcast to it: which elements to read.
        The others are not accessed, so that they may be beyond the end of the array.
      other: the value of elements that are not read, an array or a number; without it they have no
        meaningful value.
      cache_modifier: where compiled kernels cache what they read: `".ca"` in all caches, `".cg"` in the
        global one.
      eviction_policy: `"evict_first"` or `"evict_last"`.
      volatile: whether compiled kernels must read each time.

    Returns:
      An array of the shape and dtype of the view.

    Raises:
      ValueError: if the mask or `other` has another shape.

    >>> from jax.experimental.pallas import triton as plgpu
    >>> def kernel(x_ref, o_ref):
    ...   inside = jnp.arange(8) < 5
    ...   o_ref[...] = plgpu.load(x_ref.at[pl.ds(0, 8)], mask=inside, other=-1.)
    >>> x = jnp.arange(8.)
    >>> pl.pallas_call(kernel, x, interpret=True)(x)
    Array([ 0.,  1.,  2.,  3.,  4., -1., -1., -1.], dtype=float32)
    """
    ref, transforms, view = _viewed(ref, "load")
    mask = _mask(mask, view, "load")
    if other is not None:
        other = _like_view(other, view, "other", "load")
    args, tree = tree_flatten((ref, transforms, mask, other))
    return masked_load_p.bind(
        *args, tree=tree, cache_modifier=cache_modifier, eviction_policy=eviction_policy, volatile=volatile
    )  # fmt: skip


@traceback_util.api_boundary
def store(ref: Any, val: Any, *, mask: Any = None, eviction_policy: str | None = None) -> None:
    """Write to a reference, where a mask says so.

    Args:
      ref: the reference, or a view of it.
      val: the array to write, of the view's shape, or that can be broadcast to it.
      mask: which elements to write, as for `load`.
      eviction_policy: as for `load`.

    Raises:
      ValueError: if the mask or the array has another shape.

    >>> from jax.experimental.pallas import triton as plgpu
    >>> def kernel(x_ref, o_ref):
    ...   o_ref[...] = jnp.zeros(4)
    ...   plgpu.store(o_ref, x_ref[...], mask=jnp.arange(4) < 2)
    >>> x = jnp.ones(4)
    >>> pl.pallas_call(kernel, x, interpret=True)(x)
    Array([1., 1., 0., 0.], dtype=float32)
    """
    ref, transforms, view = _viewed(ref, "store")
    mask = _mask(mask, view, "store")
    args, tree = tree_flatten((ref, transforms, _like_view(val, view, "value", "store"), mask))
    masked_store_p.bind(*args, tree=tree, eviction_policy=eviction_policy)


def _viewed(ref: Any, name: str) -> tuple[Any, tuple[Any, ...], Any]:
    ref, transforms = ref_and_transforms(ref, name)
    aval: Any = typeof(ref)
    return ref, transforms, transform_type(transforms, aval.inner_aval)


def _mask(mask: Any, view: Any, name: str) -> Any:
    if mask is None:
        return None
    mask = as_array(mask)
    if mask.dtype != np.bool_:
        raise TypeError(f"plgpu.{name}: a mask has booleans, got {typeof(mask).str_short()}.")
    return _broadcast(mask, view, "mask", name)


def _like_view(x: Any, view: Any, what: str, name: str) -> Any:
    aval: Any = typeof(x)
    if aval.dtype != view.dtype:
        if not aval.weak_type:
            raise ValueError(
                f"plgpu.{name}: the {what} of type {aval.str_short()} must be of dtype {dtypes.dtype_name(view.dtype)}, that of "
                "the reference. Convert it with `.astype`."
            )
        x = lax.convert_element_type(x, view.dtype)
    return _broadcast(as_array(x), view, what, name)


def _broadcast(x: Any, view: Any, what: str, name: str) -> Any:
    if x.shape == view.shape:
        return x
    try:
        if np.broadcast_shapes(x.shape, view.shape) != tuple(view.shape):
            raise ValueError
    except ValueError:
        raise ValueError(
            f"Cannot broadcast {what} shape {x.shape} to {name} shape {view.shape}"
        ) from None
    return numpy_util.broadcast_to(x, view.shape)


def _atomic(kind: Atomic, ref: Any, idx: Any, val: Any, mask: Any) -> Any:
    name = f"atomic_{kind.value}"
    ref, transforms, view = _viewed(ref, name)
    if idx is not None and idx != () and idx is not ...:
        indexer = NDIndexer.from_indices_shape(idx, view.shape)
        transforms = (*transforms, indexer)
        view = transform_type((indexer,), view)
    bitwise = kind in (Atomic.AND, Atomic.OR, Atomic.XOR)
    if bitwise and not dtypes.issubdtype(view.dtype, np.integer):
        raise TypeError(
            f"plgpu.{name} is for integers, the reference is of dtype {dtypes.dtype_name(view.dtype)}."
        )
    val = _like_view(val, view, "value", name)
    args, tree = tree_flatten((ref, transforms, val, _mask(mask, view, name)))
    return atomic_rmw_p.bind(*args, tree=tree, kind=kind)


_ATOMIC_DOC = """{summary}

    Args:
      x_ref_or_view: the reference, or a view of it.
      idx: which elements, as for `ref[idx]`.
      val: the operand, of the shape of these elements, or that can be broadcast to it.
      mask: for which elements to do it; the others are not accessed.

    Returns:
      What the elements were before.
"""


def _atomic_function(kind: Atomic, summary: str) -> Any:
    def function(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any | None = None) -> Any:
        return _atomic(kind, x_ref_or_view, idx, val, mask)

    function.__name__ = function.__qualname__ = f"atomic_{kind.value}"
    function.__doc__ = _ATOMIC_DOC.format(summary=summary)
    return traceback_util.api_boundary(function)


atomic_add = _atomic_function(Atomic.ADD, "Add to elements, each at once.")
atomic_max = _atomic_function(
    Atomic.MAX, "Replace elements by their maxima with others, each at once."
)
atomic_min = _atomic_function(
    Atomic.MIN, "Replace elements by their minima with others, each at once."
)
atomic_and = _atomic_function(Atomic.AND, "Replace integers by `element & val`, each at once.")
atomic_or = _atomic_function(Atomic.OR, "Replace integers by `element | val`, each at once.")
atomic_xor = _atomic_function(Atomic.XOR, "Replace integers by `element ^ val`, each at once.")
atomic_xchg = _atomic_function(Atomic.XCHG, "Exchange elements, each at once.")


@traceback_util.api_boundary
def atomic_cas(ref: Any, cmp: Any, val: Any) -> Any:
    """Replace elements that have an expected value, each at once.

    Args:
      ref: the reference, or a view of it.
      cmp: the expected value.
      val: what replaces it.

    Returns:
      What the elements were before.

    >>> from jax.experimental.pallas import triton as plgpu
    >>> def kernel(x_ref, old_ref, new_ref):
    ...   new_ref[...] = x_ref[...]
    ...   old_ref[...] = plgpu.atomic_cas(new_ref, 3, 5)
    >>> scalar = jax.ShapeDtypeStruct((), jnp.int32)
    >>> print(*pl.pallas_call(kernel, (scalar, scalar), interpret=True)(jnp.int32(3)))
    3 5
    """
    ref, transforms, view = _viewed(ref, "atomic_cas")
    cmp = _like_view(cmp, view, "expected value", "atomic_cas")
    val = _like_view(val, view, "value", "atomic_cas")
    args, tree = tree_flatten((ref, transforms, cmp, val))
    return atomic_cas_p.bind(*args, tree=tree)


# Types, and how they run where kernels are interpreted


def _view_of(avals: Sequence[Any], tree: Any) -> Any:
    ref, transforms, *_ = tree_unflatten(tree, avals)
    if type(ref) is not AbstractRef:
        raise ValueError(f"expected a reference, got {ref}.")
    view = transform_type(transforms, ref.inner_aval)
    return ShapedArray(view.shape, view.dtype)


masked_load_p.def_effectful_abstract_eval(
    lambda *avals, tree, **_: (_view_of(avals, tree), {ReadEffect(0)})
)
masked_store_p.def_effectful_abstract_eval(lambda *avals, tree, **_: ([], {WriteEffect(0)}))
for _p in (atomic_rmw_p, atomic_cas_p):
    _p.def_effectful_abstract_eval(
        lambda *avals, tree, **_: (_view_of(avals, tree), {ReadEffect(0), WriteEffect(0)})
    )


def _unshifted(x: Any, transforms: Any) -> tuple[Any, Any]:
    """Make room behind an array for slices that reach beyond it.

    What is masked may be there; without room the slice would be moved.
    """
    if not transforms or not isinstance(transforms[0], NDIndexer):
        return x, transforms
    first = transforms[0]
    room = [
        (0, e.size * e.stride, 0) if type(e) is Slice and e.is_dynamic_start else (0, 0, 0)
        for e in first.indices
    ]
    if not any([r[1] for r in room]):
        return x, transforms
    wide = lax.pad(x, np.zeros((), x.dtype), room)
    return wide, (NDIndexer(first.indices, wide.shape, first.int_indexer_shape), *transforms[1:])


def _updated(x: Any, transforms: Any, old: Any, new: Any, mask: Any) -> Any:
    """Return the array after elements of a view are replaced, where a mask says so."""
    if mask is None:
        return update_view(x, transforms, new)
    wide, transforms = _unshifted(x, transforms)
    only = transforms[0] if len(transforms) == 1 else None
    if isinstance(only, NDIndexer) and only.has_arrays and mask.shape == only.int_indexer_shape:
        # Elements that are masked must not write, since another one may write to the same place.
        dropped = [
            e if type(e) is Slice else lax.select(mask, e, lax.full_like(e, n))
            for e, n in zip(only.indices, only.shape)
        ]
        indexer = NDIndexer(dropped, only.shape, only.int_indexer_shape)
        wide = update_view(wide, (indexer,), new)
    else:
        wide = update_view(wide, transforms, lax.select(mask, new, old))
    return wide if wide.shape == x.shape else slicing.slice(wide, [0] * x.ndim, x.shape)


def _read(x: Any, transforms: Any, mask: Any) -> Any:
    if mask is not None:
        x, transforms = _unshifted(x, transforms)
    return apply_transforms(x, transforms)


def _changed(args: Sequence[Any], new: Any) -> list[Any]:
    return [new, *[None] * (len(args) - 1)]


@register_discharge_rule(masked_load_p)
def _load_discharge(in_avals: Any, out_avals: Any, *args: Any, tree: Any, **_: Any) -> Any:
    x, transforms, mask, other = tree_unflatten(tree, args)
    out = _read(x, transforms, mask)
    if mask is not None and other is not None:
        out = lax.select(mask, out, other)
    return _changed(args, None), out


@register_discharge_rule(masked_store_p)
def _store_discharge(in_avals: Any, out_avals: Any, *args: Any, tree: Any, **_: Any) -> Any:
    x, transforms, val, mask = tree_unflatten(tree, args)
    old = None if mask is None else _read(x, transforms, mask)
    return _changed(args, _updated(x, transforms, old, val, mask)), []


@register_discharge_rule(atomic_rmw_p)
def _atomic_discharge(in_avals: Any, out_avals: Any, *args: Any, tree: Any, kind: Atomic) -> Any:
    x, transforms, val, mask = tree_unflatten(tree, args)
    old = _read(x, transforms, mask)
    if kind is Atomic.ADD and _has_arrays(transforms):
        # An element that is selected several times gets all that is added.
        added = val if mask is None else lax.select(mask, val, lax.full_like(val, 0))
        return _changed(args, update_view(x, transforms, added, True)), old
    new = _COMBINE[kind](old, val)
    return _changed(args, _updated(x, transforms, old, new, mask)), old


def _has_arrays(transforms: Any) -> bool:
    return any([isinstance(t, NDIndexer) and t.has_arrays for t in transforms])


@register_discharge_rule(atomic_cas_p)
def _cas_discharge(in_avals: Any, out_avals: Any, *args: Any, tree: Any) -> Any:
    x, transforms, expected, val = tree_unflatten(tree, args)
    old = apply_transforms(x, transforms)
    new = lax.select(lax.eq(old, expected), val, old)
    return _changed(args, update_view(x, transforms, new)), old


# Derivatives: reads and writes are linear.


def _load_jvp(primals: Any, tangents: Any, *, tree: Any, **params: Any) -> Any:
    out = masked_load_p.bind(*primals, tree=tree, **params)
    ref, transforms, mask, other = tree_unflatten(tree, tangents)
    if type(ref) is ad.Zero:
        return out, ad.zero_of(out)
    _, transforms, mask, other_primal = tree_unflatten(tree, primals)
    if other is not None:
        other = lax.full_like(other_primal, 0) if type(other) is ad.Zero else other
    args, tree = tree_flatten((ref, transforms, mask, other))
    return out, masked_load_p.bind(*args, tree=tree, **params)


def _store_jvp(primals: Any, tangents: Any, *, tree: Any, **params: Any) -> Any:
    masked_store_p.bind(*primals, tree=tree, **params)
    ref, _, val, _ = tree_unflatten(tree, tangents)
    if type(ref) is not ad.Zero:
        _, transforms, _, mask = tree_unflatten(tree, primals)
        args, tree = tree_flatten((ref, transforms, ad.instantiate_zeros(val), mask))
        masked_store_p.bind(*args, tree=tree, **params)
    return [], []


def _atomic_jvp(primals: Any, tangents: Any, *, tree: Any, kind: Atomic) -> Any:
    out = atomic_rmw_p.bind(*primals, tree=tree, kind=kind)
    ref, _, val, _ = tree_unflatten(tree, tangents)
    if type(ref) is ad.Zero:
        return out, ad.zero_of(out)
    if kind not in (Atomic.ADD, Atomic.XCHG):
        raise NotImplementedError(f"derivatives of plgpu.atomic_{kind.value}, in a kernel")
    _, transforms, _, mask = tree_unflatten(tree, primals)
    args, tree = tree_flatten((ref, transforms, ad.instantiate_zeros(val), mask))
    return out, atomic_rmw_p.bind(*args, tree=tree, kind=kind)


masked_load_p.jvp = _load_jvp
masked_store_p.jvp = _store_jvp
atomic_rmw_p.jvp = _atomic_jvp


# Products


def dot(
    a: Any, b: Any, trans_a: bool = False, trans_b: bool = False, allow_tf32: bool | None = None,
    precision: Any = None,
) -> Any:  # fmt: skip
    """Return a product of two matrices, added up in float32 or int32.

    Args:
      a, b: matrices.
      trans_a, trans_b: whether to multiply by the transpose.
      allow_tf32: whether elements of float32 may be rounded to ten bits of mantissa.
      precision: in place of allow_tf32, what `jax.lax.dot` takes.

    Returns:
      A matrix of float32; of int32 for integers, of float64 for float64.

    Raises:
      ValueError: if an operand is no matrix, or both allow_tf32 and precision are given.

    >>> from jax.experimental.pallas import triton as plgpu
    >>> plgpu.dot(jnp.ones((2, 3)), jnp.ones((2, 3)), trans_b=True)
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    if np.ndim(a) != 2 or np.ndim(b) != 2:
        raise ValueError("`a` and `b` must be 2D arrays.")
    if allow_tf32 is not None:
        if precision is not None:
            raise ValueError("Only one of allow_tf32 and precision can be specified")
        precision = lax.Precision.HIGH if allow_tf32 else lax.Precision.HIGHEST
    common = dtypes.result_type(a, b)
    out = np.float32
    if dtypes.issubdtype(common, np.integer):
        out = np.int32
    elif common == np.float64:
        out = np.float64
    contract = (((0 if trans_a else 1,), (1 if trans_b else 0,)), ((), ()))
    return lax.dot_general(a, b, contract, precision=precision, preferred_element_type=out)


# Others

approx_tanh_p = Primitive("approx_tanh")


def approx_tanh(x: Any) -> Any:
    """Return approximate hyperbolic tangents, by one instruction of the device where there is one.

    Args:
      x: array of float16, bfloat16 or float32; for float64, the result has the precision of float32.

    Returns:
      An array of the shape and dtype of `x`; exact where kernels are interpreted.

    >>> from jax.experimental.pallas import triton as plgpu
    >>> plgpu.approx_tanh(jnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    x = as_array(x)
    if x.dtype == np.float64:
        return lax.convert_element_type(
            approx_tanh_p.bind(lax.convert_element_type(x, np.float32)), np.float64
        )
    if x.dtype not in (np.float16, dtypes.bfloat16, np.float32):
        raise TypeError(
            f"approx_tanh does not accept dtype {dtypes.dtype_name(x.dtype)}, only float16, bfloat16, float32 and float64."
        )
    return approx_tanh_p.bind(x)


approx_tanh_p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
batching.defvectorized(approx_tanh_p)
mlir.register_lowering(approx_tanh_p, mlir.lower_fun(lax.tanh, multiple_results=False))
ad.defjvp2(
    approx_tanh_p, lambda t, out, x: lax.mul(t, lax.sub(lax.full_like(out, 1), lax.mul(out, out)))
)


max_contiguous_p = Primitive("max_contiguous")


def max_contiguous(x: Any, values: Any) -> Any:
    """Tell the compiler how many neighbours in an array of indices are consecutive.

    Args:
      x: array of integers.
      values: their number, for each dimension.

    Returns:
      `x`.
    """
    values = tuple(values) if isinstance(values, (list, tuple)) else (values,)
    return max_contiguous_p.bind(x, values=values)


max_contiguous_p.def_abstract_eval(lambda x, *, values: x)
max_contiguous_p.def_impl(lambda x, *, values: x)
max_contiguous_p.batch = lambda args, dims, *, values: (
    max_contiguous_p.bind(*args, values=values),
    dims[0],
)
mlir.register_lowering(max_contiguous_p, lambda ctx, x, *, values: [x])
ad.deflinear2(max_contiguous_p, lambda ct, x, *, values: [ct])


debug_barrier_p = Primitive("debug_barrier", multiple_results=True)


def debug_barrier() -> None:
    """Wait until all threads that run the kernel at this point of the grid are here.

    Where kernels are interpreted there is one thread, which does not wait.
    """
    debug_barrier_p.bind()


debug_barrier_p.def_effectful_abstract_eval(lambda: ([], {debugging.debug_effect}))
debug_barrier_p.def_impl(list)
debug_barrier_p.jvp = lambda primals, tangents: (debug_barrier_p.bind(), [])
mlir.register_lowering(debug_barrier_p, lambda ctx: [])


elementwise_inline_asm_p = Primitive("elementwise_inline_asm", multiple_results=True)


def elementwise_inline_asm(
    asm: str,
    *,
    args: Sequence[Any],
    constraints: str,
    pack: int,
    result_shape_dtypes: Sequence[Any],
) -> Sequence[Any]:
    """Apply assembly to each element of arrays, in compiled kernels.

    Args:
      asm: the instructions, PTX for GPUs of NVIDIA; `$0`, `$1`, … are results, then operands.
      args: arrays of one shape.
      constraints: LLVM's constraints of results and operands: "=f,f" for a float of a float.
      pack: how many elements of each array the instructions take at once.
      result_shape_dtypes: shapes and dtypes of the results.

    Returns:
      The results, a list of arrays.

    Raises:
      ValueError: if arguments or results have different shapes.
    """
    args = [as_array(x) for x in args]
    shapes = {tuple(x.shape) for x in (*args, *result_shape_dtypes)}
    if len(shapes) > 1:
        raise ValueError(
            f"elementwise_inline_asm takes arguments and results of one shape, got {sorted(shapes)}."
        )
    results = tuple([ShapedArray(tuple(r.shape), np.dtype(r.dtype)) for r in result_shape_dtypes])
    return elementwise_inline_asm_p.bind(
        *args, asm=asm, constraints=constraints, pack=pack, result_avals=results
    )


elementwise_inline_asm_p.def_abstract_eval(lambda *avals, result_avals, **_: list(result_avals))


def _assembly_interpreted(ctx: Any, *args: Any, asm: str, **_: Any) -> Any:
    raise NotImplementedError(
        f"the assembly {asm!r} runs in compiled kernels only: give pallas_call interpret=False, or leave "
        "elementwise_inline_asm out where kernels are interpreted."
    )


mlir.register_lowering(elementwise_inline_asm_p, _assembly_interpreted)
