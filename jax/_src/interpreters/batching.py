"""Batching: `vmap` as a trace, one rule per primitive."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import config, core, source_info_util
from jax._src.ad_util import SymbolicZero, Zero
from jax._src.core import (
    ClosedJaxpr,
    Primitive,
    RuleView,
    Trace,
    Tracer,
    TraceTag,
    cached_on_jaxpr,
    mapped_aval,
    trace_ctx,
    typeof,
    unmapped_aval,
)
from jax._src.interpreters import partial_eval as pe
from jax._src.late_binding import late
from jax._src.util import canonicalize_axis, unzip2

primitive_batchers = RuleView("batch")
fancy_primitive_batchers = RuleView("axis_batch")


class _AxisRuleView(RuleView):
    """Rules of the older form `rule(axis_size, axis_name, trace_type, args, dims, **params)`."""

    def __setitem__(self, primitive: Primitive, rule: Callable[..., Any]) -> None:
        @functools.wraps(rule)
        def with_axis_data(
            axis_data: AxisData, args: Sequence[Any], dims: object, **params: object
        ) -> Any:
            return rule(axis_data.size, axis_data.name, None, args, dims, **params)

        super().__setitem__(primitive, with_axis_data)


axis_primitive_batchers = _AxisRuleView("axis_batch")

not_mapped = None


class ZeroIfMapped:
    """An output dimension: 0 if the output is mapped, None if it is not."""


zero_if_mapped = ZeroIfMapped()


class AxisData:
    """The axis being mapped: its name, size, and the mesh axes it is sharded over, if any.

    In the body of a `shard_map`, `size` is the number of elements on one device, and `manual_axes`
    are the mesh axes over which the devices have different elements.
    """

    __slots__ = ("name", "size", "spmd_name", "explicit_mesh_axis", "manual_axes")

    def __init__(
        self,
        name: Any,
        size: int,
        spmd_name: Any = None,
        explicit_mesh_axis: Any = None,
        manual_axes: tuple[Any, ...] = (),
    ) -> None:
        self.name = name
        self.size = size
        self.spmd_name = spmd_name
        self.explicit_mesh_axis = explicit_mesh_axis
        self.manual_axes = manual_axes

    def _key(self) -> tuple[Any, ...]:
        return (self.name, self.size, self.spmd_name, self.explicit_mesh_axis, self.manual_axes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AxisData) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"AxisData(name={self.name}, size={self.size}, spmd_name={self.spmd_name})"


class BatchTracer(Tracer):
    """One element of a batch: the whole batch `val`, and which of its dimensions is mapped."""

    __slots__ = ("val", "batch_dim", "source_info")
    _trace: BatchTrace

    def __init__(
        self, trace: BatchTrace, val: Any, batch_dim: Any, source_info: Any = None
    ) -> None:
        self._trace = trace
        self.val = val
        self.batch_dim = batch_dim
        self.aval = mapped_aval(trace.axis_data.size, batch_dim, typeof(val))
        if self.aval.is_high:
            self.batch_dim = core.high_axis(batch_dim, typeof(val))
        if trace.keeps_lines and source_info is None:
            source_info = source_info_util.current()
        self.source_info = source_info

    def to_concrete_value(self) -> Any:
        return core.to_concrete_value(self.val) if self.batch_dim is None else None

    def _origin_msg(self) -> str:
        # Recording a line for each operation is expensive, and done only to find leaks; a staged value
        # has one already.
        staged = self.val
        while isinstance(staged, BatchTracer):
            staged = staged.val
        return self._created_on(self.source_info or getattr(staged, "source_info", None))

    def _contents(self) -> Sequence[tuple[str, Any]]:
        return [("val", self.val), ("batch_dim", self.batch_dim)]

    def __repr__(self) -> str:
        batched = typeof(self.val)
        return f"VmapTracer(aval={self.aval}, batched={batched})"

    __str__ = __repr__


core.register_tracer_class(BatchTracer)


class BatchTrace(Trace):
    """A trace that applies each operation to whole batches."""

    __slots__ = ("parent", "axis_data", "tag", "keeps_lines")

    def __init__(self, parent: Trace, axis_data: AxisData, tag: TraceTag | None = None):
        self._valid = True
        self.parent = parent
        self.axis_data = axis_data
        self.tag = tag or TraceTag()
        self.keeps_lines = config.check_tracer_leaks.value

    @property
    def parent_trace(self) -> Trace:
        return self.parent

    def to_batch_info(self, x: object) -> tuple[Any, Any]:
        if type(x) is BatchTracer and x._trace.tag is self.tag:
            return x.val, x.batch_dim
        return x, None

    def cur_qdd(self, x: Any) -> Any:
        return self.parent.cur_qdd(self.to_batch_info(x)[0])

    def _pack(self, vals: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
        return [v if d is None else BatchTracer(self, v, d) for v, d in zip(vals, dims)]

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        vals, dims, batched = [], [], False
        for x in args:
            if type(x) is BatchTracer and x._trace.tag is self.tag:
                vals.append(x.val)
                dims.append(x.batch_dim)
                batched = True
            else:
                vals.append(x)
                dims.append(None)
        if batched and primitive.ref_boundary:
            refs = [
                d is not None and type(typeof(v)) is core.AbstractRef for v, d in zip(vals, dims)
            ]
            if any(refs):
                outs = late.functionalize(primitive, args, params, refs, False)
                if outs is not None:
                    return outs
        outer = trace_ctx.trace
        outer_mesh_axis = trace_ctx.batch_mesh_axis
        trace_ctx.set_trace(self.parent)
        trace_ctx.batch_mesh_axis = self.axis_data.explicit_mesh_axis
        try:
            axis_rule = primitive.axis_batch
            if axis_rule is not None and (
                batched or self.axis_data.name is not core.no_axis_name or primitive.ref_primitive
            ):
                out, out_dim = axis_rule(self.axis_data, tuple(vals), tuple(dims), **params)
            elif not batched:
                return primitive.bind_with_trace(self.parent, vals, params)
            else:
                rule = primitive.batch
                if rule is None:
                    raise NotImplementedError(
                        f"Batching rule for '{primitive.name}' not implemented: give the function "
                        "that uses it one with jax.custom_batching.custom_vmap, or call it in a loop, "
                        "as jax.lax.map does."
                    )
                out, out_dim = rule(tuple(vals), tuple(dims), **params)
        finally:
            trace_ctx.set_trace(outer)
            trace_ctx.batch_mesh_axis = outer_mesh_axis
        if primitive.multiple_results:
            if out_dim is None or type(out_dim) is int:
                out_dim = [out_dim] * len(out)
            return self._pack(out, out_dim)
        return out if out_dim is None else BatchTracer(self, out, out_dim)

    def process_custom_jvp_call(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        jvp: Callable[..., Any],
        args: Sequence[Any],
        *,
        symbolic_zeros: bool,
    ) -> Any:
        vals, dims = unzip2([self.to_batch_info(x) for x in args])
        batched = _BatchedFun(fun, self.tag, self.axis_data, dims)
        jvp = _BatchedJvp(jvp, self.tag, self.axis_data, dims, batched)
        with core.set_current_trace(self.parent):
            outs = primitive.bind_with_trace(
                self.parent, (batched, jvp, *vals), dict(symbolic_zeros=symbolic_zeros)
            )
        return self._pack(outs, batched.out_dims)

    def process_custom_vjp_call(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        args: Sequence[Any],
        *,
        out_trees: Callable[[], Any],
        symbolic_zeros: bool,
    ) -> Any:
        vals, dims = unzip2([self.to_batch_info(x) for x in args])
        batched = _BatchedFun(fun, self.tag, self.axis_data, dims)
        batched_fwd = _BatchedFwd(
            fwd, self.tag, self.axis_data, dims, batched, out_trees, symbolic_zeros
        )
        bwd = _BatchedBwd(bwd, self.tag, self.axis_data, dims)
        with core.set_current_trace(self.parent):
            outs = primitive.bind_with_trace(
                self.parent,
                (batched, batched_fwd, bwd, *vals),
                dict(out_trees=batched_fwd.out_trees, symbolic_zeros=symbolic_zeros),
            )
        return self._pack(outs, batched.out_dims)


class _Batched:
    """Wraps a function to run on batches, under the trace `tag`.

    Attributes that the wrapper does not have are looked up on the function.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        tag: Any,
        axis_data: AxisData,
        in_dims: Sequence[int | None] = (),
    ) -> None:
        self.fun, self.tag, self.axis_data, self.in_dims = fun, tag, axis_data, in_dims

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["fun"], name)

    def run(self, vals: Sequence[Any], dims: Sequence[int | None]) -> Any:
        """Return pairs of the function's results and their batch dimensions."""
        axis_data = self.axis_data
        trace = BatchTrace(trace_ctx.trace, axis_data, self.tag)
        args = []
        for v, d in zip(vals, dims):
            if d is not None:
                if type(v) is SymbolicZero:
                    v = SymbolicZero(mapped_aval(axis_data.size, d, v.aval))
                else:
                    v = BatchTracer(trace, v, d)
            args.append(v)
        with core.set_current_trace(trace), axis_in_scope(axis_data):
            outs = self.fun(*args)
        return [trace.to_batch_info(x) for x in outs]

    def match(self, x: object, src: int, dst: int) -> Any:
        return match_axis(self.axis_data, x, src, dst)


class _BatchedFun(_Batched):
    """Runs a function with custom derivatives on batches.

    Its rules must return results with the same batch dimensions as the function. To make this
    possible, all results are batched if any argument is.
    """

    out_dims: Any = None  # a list, set by the first call

    def __call__(self, *vals: Any) -> Any:
        pairs = self.run(vals, self.in_dims)
        return self.match_results(pairs)

    def match_results(self, pairs: Sequence[tuple[Any, Any]]) -> Any:
        if self.out_dims is None:
            any_batched = any(d is not None for d in self.in_dims)
            self.out_dims = [0 if d is None and any_batched else d for _, d in pairs]
        return [self.match(x, d, dst) for (x, d), dst in zip(pairs, self.out_dims)]


class _BatchedJvp(_Batched):
    """Runs the rule of a `custom_jvp` function on batches."""

    def __init__(
        self,
        jvp: Callable[..., Any],
        tag: Any,
        axis_data: AxisData,
        in_dims: Sequence[int | None],
        primal_fun: _BatchedFun,
    ) -> None:
        super().__init__(jvp, tag, axis_data, in_dims)
        self.primal_fun = primal_fun

    def __call__(self, *vals: Any) -> Any:
        pairs = self.run(vals, (*self.in_dims, *self.in_dims))
        n = len(pairs) // 2
        fun = self.primal_fun
        if fun.out_dims is None:
            any_batched = any(d is not None for d in self.in_dims)
            fun.out_dims = [
                pd if pd is not None else td if td is not None else 0 if any_batched else None
                for (_, pd), (_, td) in zip(pairs[:n], pairs[n:])
            ]
        outs = fun.match_results(pairs[:n])
        for p, (t, d), dst in zip(outs[:n], pairs[n:], fun.out_dims):
            if type(t) is SymbolicZero:
                outs.append(SymbolicZero(typeof(p).to_tangent_aval()))
            else:
                outs.append(self.match(t, d, dst))
        return outs


class _BatchedFwd(_Batched):
    """Runs the forward rule of a `custom_vjp` function on batches."""

    def __init__(
        self,
        fwd: Callable[..., Any],
        tag: Any,
        axis_data: AxisData,
        in_dims: Sequence[int | None],
        primal_fun: _BatchedFun,
        trees: Any,
        symbolic_zeros: bool,
    ) -> None:
        super().__init__(fwd, tag, axis_data, in_dims)
        self.primal_fun, self.inner_trees, self.symbolic_zeros = primal_fun, trees, symbolic_zeros
        self.trees: _BatchedTrees | None = None

    def __call__(self, *vals: Any) -> Any:
        dims = ((None,) * len(self.in_dims) if self.symbolic_zeros else ()) + tuple(self.in_dims)
        pairs = self.run(vals, dims)
        trees = self.inner_trees()
        res, outs = pairs[: trees.num_res], pairs[trees.num_res :]
        outs = self.primal_fun.match_results(outs)
        res_dims = [d for _, d in res]
        self.trees = _BatchedTrees(trees, (*res_dims, *self.primal_fun.out_dims))
        return [*[x for x, _ in res], *outs]

    def out_trees(self) -> Any:
        return self.trees


class _BatchedTrees:
    """Information on one call of the batched forward rule, for the batched backward rule."""

    __slots__ = ("inner", "dims", "num_res")

    def __init__(self, inner: Any, dims: Sequence[int | None]) -> None:
        self.inner, self.dims, self.num_res = inner, dims, inner.num_res


class _BatchedBwd(_Batched):
    """Runs the backward rule of a `custom_vjp` function on batches.

    The cotangent of an argument without a batch dimension is summed over the batch.
    """

    def __call__(self, trees: Any, *vals: Any) -> Any:
        bwd, axis_data = self.fun, self.axis_data
        run = _Batched(functools.partial(bwd, trees.inner), self.tag, axis_data).run
        pairs = run(vals, trees.dims)
        return _match_and_sum(axis_data, pairs, self.in_dims)


def batched_bwd(
    bwd: Callable[..., Any], axis_data: AxisData, in_dims: Sequence[Any], out_dims: Sequence[Any]
) -> Callable[..., Any]:
    """Return a backward rule on batches that sums over the batch where `out_dims` is None.

    The rule runs under a new batch trace, unlike `_BatchedBwd`.
    """

    def run(*vals: object) -> Any:
        pairs = _Batched(bwd, TraceTag(), axis_data).run(vals, in_dims)
        return _match_and_sum(axis_data, pairs, out_dims)

    return run


def _match_and_sum(
    axis_data: AxisData, pairs: Sequence[tuple[Any, Any]], dims: Sequence[int | None]
) -> list[Any]:
    return [
        x if x is None else match_axis(axis_data, x, d, dst, True)
        for (x, d), dst in zip(pairs, dims)
    ]


def axis_in_scope(axis_data: AxisData) -> Any:
    """A context in which the mapped axis is bound, and the mesh axes it is sharded over are in use."""
    spmd, explicit = axis_data.spmd_name, axis_data.explicit_mesh_axis
    if axis_data.name is core.no_axis_name and spmd is None and explicit is None:
        return contextlib.nullcontext()
    named = axis_data.name is not core.no_axis_name
    pairs = [(axis_data.name, axis_data.size)] if named else []
    return core.extend_axis_env(pairs, _as_tuple(spmd), _as_tuple(explicit), by_vmap=True)


def _as_tuple(names: Any) -> tuple[Any, ...]:
    return () if names is None else names if isinstance(names, tuple) else (names,)


def batch(
    fun: Callable[..., Any], axis_data: AxisData, in_dims: Sequence[Any], out_dim_dests: Sequence[Any] | Callable[..., Any],
    sum_match: bool | str = False,
) -> Callable[..., Any]:  # fmt: skip
    """Return the flat function `fun` mapped over `axis_data`.

    The batch dimensions of the results are placed at `out_dim_dests`. If the destination is an int,
    an unmapped output is broadcast. If the destination is None, a mapped output is summed over the
    batch with `sum_match=True`; with `sum_match="first"`, which is for outputs whose elements are
    known to be equal, the first element is taken; otherwise SpecMatchError is raised.
    """

    def run(*vals: object) -> Any:
        trace = BatchTrace(trace_ctx.trace, axis_data)
        args = [v if d is None else BatchTracer(trace, v, d) for v, d in zip(vals, in_dims)]
        with core.set_current_trace(trace, check_leaks=True), axis_in_scope(axis_data):
            outs = fun(*args)
            pairs = [trace.to_batch_info(x) for x in outs]
            del args, outs
        trace.invalidate()
        dests = out_dim_dests() if callable(out_dim_dests) else out_dim_dests
        return [
            match_axis(axis_data, v, d, dest, sum_match, i)
            for i, ((v, d), dest) in enumerate(zip(pairs, dests))
        ]

    return run


# Batching of jaxprs


def batch_jaxpr(
    closed: ClosedJaxpr, axis_data: AxisData, in_batched: Sequence[bool],
    instantiate: bool | Sequence[bool] = False,
) -> tuple[ClosedJaxpr, list[bool]]:  # fmt: skip
    """Map a jaxpr over an axis that is dimension 0 of all batched arguments and results.

    Args:
      closed: the jaxpr.
      axis_data: the axis.
      in_batched: which arguments are batched.
      instantiate: which results must be batched.

    Returns:
      The batched jaxpr, and which of its results are batched.
    """
    if type(instantiate) is bool:
        instantiate = (instantiate,) * len(closed.out_avals)
    dests = tuple(0 if inst else zero_if_mapped for inst in instantiate)
    dims = tuple(0 if b else None for b in in_batched)
    jaxpr, out_dims = batch_jaxpr_axes(closed, axis_data, dims, dests)
    return jaxpr, [d is not None for d in out_dims]


def batch_jaxpr2(closed: ClosedJaxpr, axis_data: AxisData, in_dims: Sequence[Any]) -> Any:
    """Map a jaxpr over `in_dims` of its arguments; return it with the results' batch dimensions."""
    return _batch_jaxpr_axes(closed, axis_data, tuple(in_dims), None)


def batch_jaxpr_axes(
    closed: ClosedJaxpr, axis_data: AxisData, in_dims: Sequence[Any], out_dests: Sequence[Any]
) -> Any:
    return _batch_jaxpr_axes(closed, axis_data, tuple(in_dims), tuple(out_dests))


@cached_on_jaxpr
def _batch_jaxpr_axes(
    closed: ClosedJaxpr,
    axis_data: AxisData,
    in_dims: tuple[Any, ...],
    out_dests: tuple[Any, ...] | None,
) -> Any:
    out_dims: list[Any] = []

    def run(*vals: object) -> Any:
        trace = BatchTrace(trace_ctx.trace, axis_data)
        args = [v if d is None else BatchTracer(trace, v, d) for v, d in zip(vals, in_dims)]
        with core.set_current_trace(trace), axis_in_scope(axis_data):
            outs = core.jaxpr_as_fun(closed)(*args)
        pairs = [trace.to_batch_info(x) for x in outs]
        if out_dests is None:
            out_dims[:] = [d for _, d in pairs]
            return [v for v, _ in pairs]
        results = []
        out_dims.clear()
        for (v, d), dest in zip(pairs, out_dests):
            if dest is zero_if_mapped:
                dest = None if d is None else 0
            out_dims.append(dest)
            results.append(match_axis(axis_data, v, d, dest))
        return results

    in_avals = [
        a if d is None else unmapped_aval(axis_data.size, d, a, axis_data.explicit_mesh_axis)
        for a, d in zip(closed.in_avals, in_dims)
    ]
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        run, in_avals, closed.debug_info.with_unknown_names()
    )
    return ClosedJaxpr(jaxpr, consts), list(out_dims)


# Moving and making batch dimensions


def moveaxis(x: object, src: int, dst: int) -> Any:
    """Move dimension `src` of `x` to `dst`."""
    if src == dst:
        return x
    aval = typeof(x)
    if aval.is_high:
        return _match_high(x, src, dst)
    ndim = aval.ndim
    src, dst = canonicalize_axis(src, ndim), canonicalize_axis(dst, ndim)
    if src == dst:
        return x
    perm = [i for i in range(ndim) if i != src]
    perm.insert(dst, src)
    return late.transpose(x, tuple(perm))


def broadcast(x: object, sz: int, axis: int, mesh_axis: object) -> Any:
    """Repeat `x` `sz` times along a new batch dimension `axis`.

    In explicit mode the new dimension is sharded over `mesh_axis`. None stands for the mesh axes of
    the mapped axis whose batching rule is running.
    """
    aval = typeof(x)
    shape = list(aval.shape)
    shape.insert(axis, sz)
    dims = tuple(i for i in range(len(shape)) if i != axis)
    sharding = None
    mesh_axis = mesh_axis or trace_ctx.batch_mesh_axis
    if mesh_axis is not None:
        sharding = unmapped_aval(sz, axis, aval, mesh_axis)._sharding
    return late.broadcast_in_dim(x, tuple(shape), dims, out_sharding=sharding)


def mapped_mesh_axis(vals: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """Return the mesh axes over which the mapped dimensions are sharded, in explicit mode.

    Raises:
      ValueError: if the values are sharded differently.
    """
    found = False
    entry: Any = None
    for x, d in zip(vals, dims):
        if d is None:
            continue
        sharding = getattr(typeof(x), "_sharding", None)
        e = None if sharding is None else sharding.spec.partitions[d]
        if found and e != entry:
            raise ValueError(
                "Mapped away dimension of inputs passed to vmap should be sharded the same. Got "
                f"inconsistent axis specs: {entry} vs {e}"
            )
        found, entry = True, e
    return entry


def bdim_at_front(x: object, bdim: int | None, size: int, mesh_axis: object = None) -> Any:
    """Move the batch dimension of `x` to the front, adding one by repetition if it has none."""
    return matchaxis(None, size, mesh_axis, bdim, 0, x)


def match_axis(
    axis_data: AxisData,
    x: Any,
    src: int | None,
    dst: int | None,
    sum_match: bool | str = False,
    index: int | None = None,
) -> Any:
    """Call `matchaxis` for the mapped axis `axis_data`."""
    if src == dst and type(x) not in (Zero, SymbolicZero):
        return x
    mesh_axis = axis_data.explicit_mesh_axis
    return matchaxis(axis_data.name, axis_data.size, mesh_axis, src, dst, x, sum_match, index)


def matchaxis(
    axis_name: object,
    size: int,
    mesh_axis: Any,
    src: int | None,
    dst: int | None,
    x: Any,
    sum_match: bool | str = False,
    index: int | None = None,
) -> Any:
    """Move the batch dimension of `x` from `src` to `dst`; None means no batch dimension.

    Args:
      axis_name: unused.
      size: the size of the mapped axis.
      mesh_axis: the mesh axes over which it is sharded, in explicit mode.
      src: the current position of the batch dimension.
      dst: its new position.
      x: a value or a symbolic zero.
      sum_match: how to remove a batch dimension when `dst` is None: True sums over it, "first"
        takes its first element.
      index: the index of the function's result that `x` is, for the error.

    Raises:
      SpecMatchError: if `x` has a batch dimension, `dst` is None and `sum_match` is false.
    """
    if type(x) in (Zero, SymbolicZero):
        aval = mapped_aval(size, src, x.aval)
        return type(x)(unmapped_aval(size, dst, aval, mesh_axis))
    if src == dst:
        return x
    if core.high_types_in_use.value and typeof(x).is_high:
        return _match_high(x, src, dst, index)
    if src is not None and dst is not None:
        return moveaxis(x, src, dst)
    if src is None and dst is not None:
        return broadcast(x, size, canonicalize_axis(dst, typeof(x).ndim + 1), mesh_axis)
    assert src is not None
    if not sum_match:
        raise SpecMatchError(src, dst, index)
    return late.index_in_dim(x, 0, src) if sum_match == "first" else late.reduce_sum(x, (src,))


def _match_high(x: Any, src: Any, dst: Any, index: int | None = None) -> Any:
    """A value of a high type whose axis specs must be equal, since only its type knows its axes."""
    aval = typeof(x)
    if type(aval) is core.AbstractRef:
        aval = aval.inner_aval
    exact = index is not None  # the user gave `dst`
    if src != dst if exact else core.high_axis(src, aval) != core.high_axis(dst, aval):
        raise SpecMatchError(src, dst, index)
    return x


class SpecMatchError(Exception):
    """Raised when a value is mapped where an unmapped one is required."""

    def __init__(self, src_spec: Any, dst_spec: Any, index: int | None = None) -> None:
        super().__init__(f"cannot match a batch dimension {src_spec} with {dst_spec}")
        self.index = index
        self.src_spec = src_spec
        self.dst_spec = dst_spec


# Helpers that define batching rules


def defvectorized(prim: Primitive) -> None:
    """Define the batching rule of an elementwise primitive with one operand."""
    prim.batch = functools.partial(vectorized_batcher, prim)


def vectorized_batcher(
    primitive: Primitive, args: Sequence[Any], dims: Sequence[int | None], **params: object
) -> Any:
    return primitive.bind(*args, **params), dims[0]


def defbroadcasting(prim: Primitive) -> None:
    """Define the batching rule of an elementwise primitive with several operands.

    The operands have equal shapes or are scalars.
    """
    prim.batch = functools.partial(broadcast_batcher, prim)


def broadcast_batcher(
    primitive: Primitive, args: Sequence[Any], dims: Sequence[int | None], **params: object
) -> Any:
    """Batch an elementwise operation by moving all batch dimensions to the same position."""
    first_dim, first_shape = None, None
    for x, d in zip(args, dims):
        if d is not None:
            shape = typeof(x).shape
            if first_shape is None:
                first_dim, first_shape = d, shape
            elif d != first_dim or len(shape) != len(first_shape):
                break
    else:
        # Operands without a batch dimension need no broadcasting if they are scalars.
        if all(d is not None or not typeof(x).shape for x, d in zip(args, dims)):
            out = primitive.bind(*args, **params)
            return out, ((first_dim,) * len(out) if primitive.multiple_results else first_dim)
    args = [x if d is None else moveaxis(x, d, 0) for x, d in zip(args, dims)]
    size = next(typeof(x).shape[0] for x, d in zip(args, dims) if d is not None)
    shapes = [typeof(x).shape[d is not None :] for x, d in zip(args, dims)]
    shape = (size, *core.broadcast_shapes(*shapes))
    args = [_to_full(x, d, shape) for x, d in zip(args, dims)]
    out = primitive.bind(*args, **params)
    return out, ((0,) * len(out) if primitive.multiple_results else 0)


def _to_full(x: object, d: int | None, shape: Sequence[Any]) -> Any:
    own = typeof(x).shape
    if own == shape or (d is None and own == ()):
        return x
    if d is None and len(own) == len(shape) - 1:
        return broadcast(x, shape[0], 0, None)
    trailing = len(own) - (d is not None)
    dims = (*([] if d is None else [0]), *range(len(shape) - trailing, len(shape)))
    return late.broadcast_in_dim(x, shape, dims)


def defreducer(prim: Primitive) -> None:
    """Define the batching rule of a reduction over the dimensions in its parameter `axes`."""
    prim.batch = functools.partial(reducer_batcher, prim)


def reducer_batcher(
    primitive: Primitive,
    args: Sequence[Any],
    dims: Sequence[int | None],
    axes: Any,
    **params: object,
) -> Any:
    (x,), (d,) = args, dims
    axes = tuple(a + (a >= d) for a in axes)
    out_dim = d - sum(a < d for a in axes)
    return primitive.bind(x, axes=axes, **params), out_dim


def expand_dims_batcher(
    primitive: Primitive, args: Sequence[Any], dims: Sequence[int | None], **params: object
) -> Any:
    """Batch a primitive that accepts leading dimensions, by giving one to every operand."""
    size = next(typeof(x).shape[d] for x, d in zip(args, dims) if d is not None)
    args = [bdim_at_front(x, d, size) for x, d in zip(args, dims)]
    out = primitive.bind(*args, **params)
    return out, ((0,) * len(out) if primitive.multiple_results else 0)
