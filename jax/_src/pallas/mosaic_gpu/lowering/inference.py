"""Which layouts the arrays of a kernel have.

Arrays that elementwise operations, loops and branches connect have one layout. It is that of an operation
that makes arrays in one layout only, such as the read of an accumulator; otherwise one that an operation
wants; otherwise that in which arrays of their shape are read from memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jax._src import dtypes
from jax._src.core import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params
from jax._src.lax import lax, slicing
from jax._src.lax.control_flow import cond_p, scan_p, while_p
from jax._src.pallas.mosaic_gpu.core import WGMMAAbstractAccumulatorRef
from jax._src.pallas.mosaic_gpu.layouts import (
    FragmentedLayout,
    Layout,
    TiledLayout,
    tmem_register_layouts,
)
from jax._src.pallas.mosaic_gpu.lowering.fragments import default_layout, slice_of_registers
from jax._src.pallas.mosaic_gpu.lowering.warp_products import warp_product_layout
from jax._src.pallas.mosaic_gpu.memory_operations import inline_mgpu_p, layout_cast_p
from jax._src.pallas.mosaic_gpu.mma import (
    async_load_tmem_p,
    async_store_tmem_p,
    tmem_layout,
    wgmma_accumulator_load_p,
    wgmma_p,
)
from jax._src.pallas.mosaic_gpu.operations import operands_of
from jax._src.pallas.primitives import run_scoped_p
from jax._src.state.discharge import run_state_p

_REDUCTIONS = tuple(
    [lax.reduce_sum_p, lax.reduce_max_p, lax.reduce_min_p, lax.reduce_prod_p, lax.reduce_and_p, lax.reduce_or_p, lax.reduce_xor_p]
)  # fmt: skip


class Layouts:
    """The layouts of variables.

    Args:
      jaxpr: the kernel.
    """

    def __init__(self, jaxpr: Jaxpr):
        self._parent: dict[Any, Any] = {}
        self._made: dict[Any, FragmentedLayout] = {}
        self._wanted: dict[Any, FragmentedLayout] = {}
        self._in_tensor_memory: list[tuple[Any, Any]] = []  # copied from or to it, and its type
        self._smaller: list[tuple[Any, Any, tuple[int, ...]]] = []  # reduced, and over which axes
        self._parts: list[Any] = []  # slices
        self._visit(jaxpr)
        self._prefer()
        self._reduce()
        self._choose()

    def get(self, v: Any) -> FragmentedLayout | None:
        """Return the layout of a variable; None for any."""
        if v not in self._parent:
            return None
        root = self._root(v)
        return self._made.get(root) or self._wanted.get(root)

    # Classes of variables with one layout

    def _root(self, v: Any) -> Any:
        while (parent := self._parent.setdefault(v, v)) is not v:
            self._parent[v] = self._parent[parent]
            v = parent
        return v

    def _same(self, a: Any, b: Any) -> None:
        if isinstance(a, Literal) or isinstance(b, Literal) or not _is_array(a):
            return
        if a.aval.shape != b.aval.shape:
            return
        x, y = self._root(a), self._root(b)
        if x is y:
            return
        self._parent[y] = x
        for table in (self._made, self._wanted):
            if y in table:
                table.setdefault(x, table.pop(y))

    def _make(self, v: Any, layout: FragmentedLayout) -> None:
        self._made.setdefault(self._root(v), layout)

    def _want(self, v: Any, layout: FragmentedLayout) -> None:
        if not isinstance(v, Literal):
            self._wanted.setdefault(self._root(v), layout)

    # What operations say

    def _visit(self, jaxpr: Jaxpr) -> None:
        for eqn in jaxpr.eqns:
            p, params = eqn.primitive, eqn.params
            if p is layout_cast_p:
                layout = params["new_layout"].to_mgpu()
                self._make(eqn.outvars[0], layout)
                self._want(eqn.invars[0], layout)
            elif p is inline_mgpu_p:
                for v, t in zip(eqn.outvars, params["out_types"]):
                    self._make(v, t.layout.to_mgpu())
            elif p is wgmma_accumulator_load_p:
                self._make(eqn.outvars[0], Layout.WGMMA.to_mgpu())
            elif p is wgmma_p:
                left = operands_of(params["tree"], eqn.invars)[1]
                if not hasattr(left, "ref") and _is_array(left):
                    self._want(left, Layout.WGMMA.to_mgpu())
            elif p is async_load_tmem_p:
                (source,) = operands_of(params["tree"], eqn.invars)
                self._in_tensor_memory.append((eqn.outvars[0], source))
            elif p is async_store_tmem_p:
                target, x = operands_of(params["tree"], eqn.invars)
                if not isinstance(x, Literal):
                    self._in_tensor_memory.append((x, target))
            elif p is run_state_p:
                inner = params["jaxpr"]
                for x, out, a in zip(eqn.invars, eqn.outvars, inner.in_avals):
                    if isinstance(a, WGMMAAbstractAccumulatorRef) and _is_array(out):
                        self._want(x, Layout.WGMMA.to_mgpu())
                        self._make(out, Layout.WGMMA.to_mgpu())
                self._visit(inner.jaxpr)
            elif p in _REDUCTIONS:
                axes = tuple(params["axes"])
                if not isinstance(eqn.invars[0], Literal):
                    self._smaller.append((eqn.invars[0], eqn.outvars[0], axes))
            elif p is lax.broadcast_in_dim_p:
                self._broadcast(eqn)
            elif p is lax.dot_general_p:
                types = [v.aval for v in eqn.invars]
                layout = warp_product_layout(*types, params["dimension_numbers"])
                if layout is None:
                    self._general(eqn)
                else:
                    self._want(eqn.outvars[0], layout)
            elif p is slicing.slice_p:
                self._parts.append(eqn)
            else:
                self._general(eqn)

    def _broadcast(self, eqn: Any) -> None:
        x, out = eqn.invars[0], eqn.outvars[0]
        if isinstance(x, Literal) or not _is_array(x):
            return
        dims = tuple(eqn.params["broadcast_dimensions"])
        axes = tuple([d for d in range(len(out.aval.shape)) if d not in dims])
        kept = tuple([out.aval.shape[d] for d in dims])
        if kept == tuple(x.aval.shape):
            self._smaller.append((out, x, axes))

    def _general(self, eqn: Any) -> None:
        p, params = eqn.primitive, eqn.params
        nested = list(jaxprs_in_params(params))
        if not nested:
            if not p.multiple_results and len(eqn.outvars) == 1:
                self._elementwise(eqn.invars, eqn.outvars)
            elif p is lax.optimization_barrier_p:
                self._pairs(eqn.invars, eqn.outvars)
            return
        for inner in nested:
            self._visit(_open(inner))
        if p is scan_p:
            body = _open(params["jaxpr"])
            n, m = params["num_consts"], params["num_carry"]
            self._pairs(eqn.invars[: n + m], body.invars[: n + m])
            self._pairs(body.invars[n : n + m], body.outvars[:m])
            self._pairs(eqn.outvars[:m], body.invars[n : n + m])
        elif p is while_p:
            test, body = _open(params["cond_jaxpr"]), _open(params["body_jaxpr"])
            n, m = params["cond_nconsts"], params["body_nconsts"]
            carry = body.invars[m:]
            self._pairs(eqn.invars[:n], test.invars[:n])
            self._pairs(eqn.invars[n : n + m], body.invars[:m])
            for others in (eqn.invars[n + m :], test.invars[n:], body.outvars, eqn.outvars):
                self._pairs(carry, others)
        elif p is cond_p:
            for inner in nested:
                self._pairs(eqn.invars[1:], _open(inner).invars)
                self._pairs(eqn.outvars, _open(inner).outvars)
        else:
            (inner, *_) = nested
            taken = _open(inner).invars
            if p is run_scoped_p:
                taken = taken[: len(eqn.invars)]
            self._pairs(eqn.invars, taken)
            self._pairs(eqn.outvars, _open(inner).outvars)

    def _pairs(self, xs: Sequence[Any], ys: Iterable[Any]) -> None:
        for x, y in zip(xs, ys):
            if not isinstance(x, Literal) and not isinstance(y, Literal):
                self._same(x, y)

    def _elementwise(self, xs: Sequence[Any], outs: Sequence[Any]) -> None:
        (out,) = outs
        if not _is_array(out):
            return
        for x in xs:
            if isinstance(x, Literal) or not _is_array(x):
                continue
            self._same(out, x)
            missing = len(out.aval.shape) - len(x.aval.shape)
            if missing and out.aval.shape[missing:] == x.aval.shape:
                self._smaller.append((out, x, tuple(range(missing))))

    def _reduce(self) -> None:
        """Give arrays that others are reduced to the reduced layouts, those the layouts of which these are known, and parts that of the whole."""
        changed = True
        while changed:
            changed = False
            for whole, part, axes in self._smaller:
                layout = self.get(whole)
                if isinstance(layout, TiledLayout) and _is_array(part) and self.get(part) is None:
                    self._want(part, layout.reduce(axes))
                    changed = True
            for eqn in self._parts:
                (whole,), (part,) = eqn.invars, eqn.outvars
                if isinstance(whole, Literal) or self.get(part) is not None:
                    continue
                layout, params = self.get(whole), eqn.params
                at = (params["start_indices"], params["limit_indices"], params["strides"])
                if layout is not None and slice_of_registers(layout, *at) is not None:
                    self._want(part, layout)
                    changed = True

    def _prefer(self) -> None:
        """Give arrays of tensor memory its layouts, and those that are reduced over some axes one whose lanes share rows."""
        for v, memory in self._in_tensor_memory:
            layout = tmem_layout(memory.ref.aval, memory.transforms)
            known = tmem_register_layouts(layout, v.aval.shape[-1], v.aval.dtype)
            if known and self.get(v) is None:
                self._want(v, known[0])
        for whole, part, _ in self._smaller:
            shape = whole.aval.shape
            fits = len(shape) == 2 and shape[0] % 64 == 0 and shape[1] % 8 == 0
            if fits and part.aval.shape and self.get(whole) is None:
                self._want(whole, Layout.WGMMA.to_mgpu())

    def _choose(self) -> None:
        """Give the others the layout in which the widest of them is read from memory."""
        widest: dict[Any, Any] = {}
        for v in list(self._parent):
            root = self._root(v)
            if _is_array(v) and self.get(root) is None:
                before = widest.get(root)
                if before is None or _bits(v) > _bits(before):
                    widest[root] = v
        for root, v in widest.items():
            layout = default_layout(v.aval.shape, v.aval.dtype)
            if layout is not None:
                self._wanted[root] = layout


def _bits(v: Any) -> int:
    return dtypes.itemsize_bits(v.aval.dtype)


def _is_array(v: Any) -> bool:
    aval = getattr(v, "aval", None)
    return bool(getattr(aval, "shape", ())) and not hasattr(aval, "inner_aval")


def _open(jaxpr: Any) -> Jaxpr:
    return jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
