"""Derivative, batching and printing rules of reads and writes.

The tangent of a reference is a reference. In reverse mode its cotangent is a reference as well: the
transpose of a read adds to it; the transpose of a write takes what is there and leaves zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import core, pretty_printer as pp
from jax._src.ad_util import Zero
from jax._src.core import Primitive, typeof
from jax._src.indexing import Slice
from jax._src.interpreters import ad, batching
from jax._src.state.indexing import NDIndexer
from jax._src.state.primitives import (
    NO_GRAD,
    addupdate_p,
    apply_transforms,
    empty_ref_p,
    free_ref_p,
    freeze_p,
    get_p,
    new_ref_p,
    swap_p,
    update_view,
)
from jax._src.state.types import BitcastTransform, ReshapeTransform, TransposeTransform
from jax._src.tree_util import tree_flatten, tree_unflatten

# Derivatives


def _get_jvp(primals: Any, tangents: Any, *, tree: Any) -> Any:
    ref, *idx = primals
    out = get_p.bind(ref, *idx, tree=tree)
    t = tangents[0]
    return out, ad.zero_of(out) if type(t) is Zero else get_p.bind(t, *idx, tree=tree)


def _check_no_tangent(ref: Any, t: Any, what: str) -> None:
    if type(t) is not Zero and typeof(ref).kind != NO_GRAD:  # type: ignore[attr-defined]
        raise ValueError(
            f"performing {what} operation with a differentiated value on a non-differentiated array "
            f"reference of type {typeof(ref)}. Move the array reference to be an argument of the "
            "differentiated function? Or write jax.lax.stop_gradient of the value, or make the reference "
            f"with kind={NO_GRAD!r}."
        )


def _swap_jvp(primals: Any, tangents: Any, *, tree: Any) -> Any:
    ref, val, *idx = primals
    t_ref, t_val, *_ = tangents
    if type(t_ref) is Zero:
        _check_no_tangent(ref, t_val, "a set/swap")
        out = swap_p.bind(ref, val, *idx, tree=tree)
        return out, ad.zero_of(out)
    out = swap_p.bind(ref, val, *idx, tree=tree)
    return out, swap_p.bind(t_ref, ad.instantiate_zeros(t_val), *idx, tree=tree)


def _addupdate_jvp(primals: Any, tangents: Any, *, tree: Any) -> Any:
    ref, val, *idx = primals
    t_ref, t_val, *_ = tangents
    if type(t_ref) is Zero:
        _check_no_tangent(ref, t_val, "an addupdate")
    addupdate_p.bind(ref, val, *idx, tree=tree)
    if type(t_ref) is not Zero and type(t_val) is not Zero:
        addupdate_p.bind(t_ref, t_val, *idx, tree=tree)
    return [], []


get_p.jvp = _get_jvp
swap_p.jvp = _swap_jvp
addupdate_p.jvp = _addupdate_jvp


# Transpose rules: `rule(ct_ref, ct, *args, **params)` returns the cotangent of the written value.
# `ct_ref(make)` returns the reference that accumulates the cotangent of the operand; if there is
# none yet, it creates one if `make` is true, and otherwise returns None.


def _new_ref_transpose(ct_ref: Any, ct: Any, x: Any, **params: Any) -> Any:
    acc = ct_ref(False)
    return None if acc is None else freeze_p.bind(acc)


def _get_transpose(ct_ref: Any, ct: Any, ref: Any, *idx: Any, tree: Any) -> Any:
    if type(ct) is not Zero:
        addupdate_p.bind(ct_ref(True), ct, *idx, tree=tree)


def _swap_transpose(ct_ref: Any, ct: Any, ref: Any, val: Any, *idx: Any, tree: Any) -> Any:
    acc = ct_ref(type(ct) is not Zero)
    if acc is None:
        return None
    if type(ct) is Zero:
        ct = Zero(ct.aval.strip_weak_type())
    return swap_p.bind(acc, ad.instantiate_zeros(ct), *idx, tree=tree)


def _addupdate_transpose(ct_ref: Any, ct: Any, ref: Any, val: Any, *idx: Any, tree: Any) -> Any:
    acc = ct_ref(False)
    return None if acc is None else get_p.bind(acc, *idx, tree=tree)


def _freeze_transpose(ct_ref: Any, ct: Any, ref: Any) -> Any:
    if type(ct) is not Zero:
        addupdate_p.bind(ct_ref(True), ct, tree=_whole)


_whole = tree_flatten(())[1]
new_ref_p.ref_transpose = _new_ref_transpose
empty_ref_p.ref_transpose = lambda ct_ref, ct, **params: None
get_p.ref_transpose = _get_transpose
swap_p.ref_transpose = _swap_transpose
addupdate_p.ref_transpose = _addupdate_transpose
freeze_p.ref_transpose = _freeze_transpose
free_ref_p.ref_transpose = lambda ct_ref, ct, ref: None

# Batching


def _lifted(tree: Any, idx: Sequence[Any], dim: int) -> tuple[list[Any], int] | None:
    """Batch transforms whose indices are unbatched; return None if there is no equivalent.

    Returns:
      The transforms of an array with a batch dimension `dim`, and the batch dimension of the view.
    """
    out: list[Any] = []
    for t in tree_unflatten(tree, idx):
        if type(t) is NDIndexer:
            shape = list(t.shape)
            indices = list(t.indices)
            places = [i for i, e in enumerate(indices) if type(e) is not Slice and np.ndim(e)]
            if places and places[0] < dim <= places[-1]:
                return None
            slices_before = sum(type(e) is Slice for e in indices[:dim])
            shape.insert(dim, 1)  # replaced by the batch size in `with_size`
            indices.insert(dim, None)
            out.append(_PendingIndexer(indices, shape, t.int_indexer_shape, dim))
            if places and (places[-1] - places[0] != len(places) - 1 or places[0] < dim):
                slices_before += len(t.int_indexer_shape)  # the arrays' dimensions come first
            dim = slices_before
        elif type(t) is TransposeTransform:
            out.append(TransposeTransform((dim, *[p + (p >= dim) for p in t.permutation])))
            dim = 0
        elif type(t) is ReshapeTransform and dim == 0:
            out.append(t)
        elif type(t) is BitcastTransform and dim == 0:
            out.append(t)
        else:
            return None
    return out, dim


class _PendingIndexer:
    """An indexer of a batched array whose batch size is not yet known."""

    __slots__ = ("indices", "shape", "int_shape", "dim")

    def __init__(self, indices: Any, shape: Any, int_shape: Any, dim: int):
        self.indices, self.shape, self.int_shape, self.dim = indices, shape, int_shape, dim

    def with_size(self, size: int) -> NDIndexer:
        self.shape[self.dim] = size
        self.indices[self.dim] = Slice(0, size)
        return NDIndexer(self.indices, self.shape, self.int_shape)


def _batched_transforms(tree: Any, idx: Any, dim: int, size: int) -> Any:
    lifted = _lifted(tree, idx, dim)
    if lifted is None:
        return None
    transforms, out_dim = lifted
    done: list[Any] = []
    for t in transforms:
        if type(t) is _PendingIndexer:
            t = t.with_size(size)
        elif type(t) is ReshapeTransform:
            t = ReshapeTransform((size, *t.shape), (size, *t.own_shape))
        done.append(t)
    flat, new_tree = tree_flatten(tuple(done))
    return flat, new_tree, out_dim


def _run_batched(axis_data: Any, fun: Callable[..., Any], args: Any, dims: Any) -> Any:
    return batching.batch(lambda *xs: [fun(*xs)], axis_data, dims, [0])(*args)[0]


def _get_batch(axis_data: Any, args: Any, dims: Any, *, tree: Any) -> Any:
    ref, *idx = args
    dim, *idx_dims = dims
    if all(d is None for d in dims):
        return get_p.bind(*args, tree=tree), None
    if all(d is None for d in idx_dims):
        lifted = _batched_transforms(tree, idx, dim, axis_data.size)
        if lifted is not None:
            flat, new_tree, out_dim = lifted
            return get_p.bind(ref, *flat, tree=new_tree), out_dim
    x = get_p.bind(ref, tree=_whole)
    fun = lambda x, *idx: apply_transforms(x, tree_unflatten(tree, idx))
    return _run_batched(axis_data, fun, [x, *idx], dims), 0


def _raise_unbatched(ref: Any, what: str) -> None:
    raise ValueError(
        f"performing {what} operation with vmapped value on an unbatched array reference of type "
        f"{typeof(ref)}. Move the array reference to be an argument to the vmapped function?"
    )


def _write_batch(primitive: Primitive, what: str, axis_data: Any, args: Any, dims: Any, tree: Any):
    ref, val, *idx = args
    dim, val_dim, *idx_dims = dims
    if dim is None:
        _raise_unbatched(ref, what)
    size = axis_data.size
    if all(d is None for d in idx_dims):
        lifted = _batched_transforms(tree, idx, dim, size)
        if lifted is not None:
            flat, new_tree, out_dim = lifted
            if val_dim is None:
                val = batching.broadcast(val, size, out_dim, None)
            else:
                val = batching.moveaxis(val, val_dim, out_dim)
            return primitive.bind(ref, val, *flat, tree=new_tree), out_dim
    # The index is batched, or has no batched form: update the whole batch as an array.
    x = get_p.bind(ref, tree=_whole)
    accumulate = primitive is addupdate_p

    def change(x, val, *idx):
        return update_view(x, tree_unflatten(tree, idx), val, accumulate)

    new = _run_batched(axis_data, change, [x, val, *idx], [dim, val_dim, *idx_dims])
    swap_p.bind(ref, batching.moveaxis(new, 0, dim), tree=_whole)
    if accumulate:
        return [], 0
    old = lambda x, *idx: apply_transforms(x, tree_unflatten(tree, idx))
    return _run_batched(axis_data, old, [x, *idx], [dim, *idx_dims]), 0


def _swap_batch(axis_data: Any, args: Any, dims: Any, *, tree: Any) -> Any:
    return _write_batch(swap_p, "a set/swap", axis_data, args, dims, tree)


def _addupdate_batch(axis_data: Any, args: Any, dims: Any, *, tree: Any) -> Any:
    return _write_batch(addupdate_p, "an addupdate", axis_data, args, dims, tree)


get_p.axis_batch = _get_batch
swap_p.axis_batch = _swap_batch
addupdate_p.axis_batch = _addupdate_batch

# Printing


def ref_view_doc(context: Any, ref: Any, transforms: Sequence[Any]) -> Any:
    """Return the document of a view of a reference, as it is printed in jaxprs."""
    doc = pp.text(core.pp_var(ref, context))
    if not transforms:
        return doc + pp.text("[...]")
    for t in transforms:
        doc = doc + t.pretty_print(context)
    return doc if type(transforms[-1]) is NDIndexer else doc + pp.text("[...]")


def _get_pp(eqn: Any, context: Any, settings: Any) -> Any:
    ref, *idx = eqn.invars
    lhs = core.pp_vars(eqn.outvars, context, print_shapes=settings.print_shapes)
    view = ref_view_doc(context, ref, tree_unflatten(eqn.params["tree"], idx))
    return pp.concat([lhs, pp.text(" <- "), view])


def _swap_pp(eqn: Any, context: Any, settings: Any) -> Any:
    (out,) = eqn.outvars
    ref, val, *idx = eqn.invars
    view = ref_view_doc(context, ref, tree_unflatten(eqn.params["tree"], idx))
    value = pp.text(core.pp_var(val, context))
    if type(out) is core.DropVar or context.var_names[out] == "_":
        return pp.concat([view, pp.text(" <- "), value])
    lhs = core.pp_vars([out], context, print_shapes=settings.print_shapes)
    return pp.concat([lhs, pp.text(", "), view, pp.text(" <- "), view, pp.text(", "), value])


def _addupdate_pp(eqn: Any, context: Any, settings: Any) -> Any:
    ref, val, *idx = eqn.invars
    view = ref_view_doc(context, ref, tree_unflatten(eqn.params["tree"], idx))
    return pp.concat([view, pp.text(" += "), pp.text(core.pp_var(val, context))])


get_p.pp = _get_pp
swap_p.pp = _swap_pp
addupdate_p.pp = _addupdate_pp
