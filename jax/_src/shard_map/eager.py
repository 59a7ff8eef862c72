"""Eager evaluation of `shard_map`.

The function runs in Python on each call, on values that are recorded rather than computed: what it
does becomes a jaxpr, which runs as one compiled program when the function returns. Programs are
found again by the structure of the jaxpr, so a call that does the same compiles nothing. If Python
needs a value before that (to print it, or to branch on one that is the same on all devices), what is
recorded so far runs at once, and recording goes on from its results.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from jax._src import config, core, debugging, source_info_util, special_values
from jax._src.array_impl import ArrayImpl
from jax._src.core import Literal, Primitive, Tracer, eval_trace, trace_ctx
from jax._src.interpreters import lojax, partial_eval as pe
from jax._src.lax import lax
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map import checks, programs
from jax._src.shard_map.primitive import context_of, shard_map_p
from jax._src.shard_map.residuals import (
    has_new_dimension,
    returning_residuals,
    spec_of,
    taking_residuals,
    with_dimension,
)
from jax._src.sharding_impls import without_mesh


def run(
    body: Callable, args: Sequence[Any], in_avals: Sequence[Any], in_specs: Sequence[PartitionSpec],
    out_specs: list[PartitionSpec], params: dict[str, Any],
) -> list[Any]:  # fmt: skip
    """Run a function on the shards of arrays.

    Args:
      body: function of shards; it returns a list, and fills in `out_specs`.
      args: the arrays.
      in_avals: the types of their shards.
      in_specs, out_specs: how arrays are divided into shards.
      params: the other parameters of the primitive.

    Returns:
      The arrays that the shards of the results form.

    Raises:
      ClosesOverTracerError: the function closes over a tracer.
    """
    core.check_eval_args(args)
    trace = ShardTrace(params)
    trace.start(args, in_specs, in_avals)
    with trace.context, source_info_util.reset_name_stack(), core.set_current_trace(trace):
        try:
            outs = body(*trace.arguments())
            jaxpr, operands, specs = trace.recorded([trace.inner(x) for x in outs])
        finally:
            trace.end()
    if config.check_tracer_leaks.value:
        del outs
        ended = weakref.ref(trace)
        del trace
        core.check_leaks(ended)
    params = dict(params, jaxpr=jaxpr, in_specs=specs, out_specs=tuple(out_specs))
    with core.set_current_trace(eval_trace):
        return programs.run(params, operands)


_PRINTS = frozenset([debugging.debug_print_p, debugging.debug_callback_p])


class ClosesOverTracerError(Exception):
    """An eager function closes over a tracer, which no program can take as an argument."""


class ShardMapTracer(Tracer):
    """A value in an eager `shard_map`: each device has its own.

    Attributes:
      inner: the value in the jaxpr that is recorded.
    """

    __slots__ = ("inner",)
    _trace: ShardTrace

    def __init__(self, trace: ShardTrace, inner: Any):
        self._trace = trace
        self.aval = inner.aval
        self.inner = inner

    def to_concrete_value(self) -> Any:
        return self._trace.common_value(self)

    def _short_repr(self) -> str:
        return f"ShardMapTracer<{self.aval}>"

    _repr_inside = _short_repr

    def _origin_msg(self) -> str:
        if not config.check_tracer_leaks.value:
            return ""
        return self._created_on(getattr(self.inner, "source_info", None))

    def __repr__(self) -> str:
        if not self._trace.is_valid():
            raise core.escaped_tracer_error(self)
        if not isinstance(self.aval, core.ShapedArray):
            return self._short_repr()
        return self._trace.show(self)

    __str__ = __repr__

    def __format__(self, spec: Any) -> str:
        if spec:
            raise TypeError(
                f"format specification {spec!r} for a value in a shard_map, which can differ between "
                "devices: print it without one."
            )
        return str(self)

    def _no_method(self, name: str) -> NoReturn:
        raise AttributeError(
            f"The {name!r} method is not available on {self._error_repr()}: call it outside of the"
            " shard_map, on its result."
        )

    @property
    def block_until_ready(self) -> Any:
        self._no_method("block_until_ready")

    @property
    def copy_to_host_async(self) -> Any:
        self._no_method("copy_to_host_async")

    @property
    def sharding(self) -> Any:
        raise AttributeError  # makes Python call __getattr__, which explains it


core.register_tracer_class(ShardMapTracer)


class ShardTrace(core.Trace):
    """Records the operations of a body.

    Attributes:
      params: parameters of the primitive.
      context: the context of the body.
      builder: the jaxpr that is recorded.
      operands, specs: the arrays that are the arguments of the jaxpr, and their specs.
      tracers: the values in use.
      known: arrays with the values of variables, as far as they are known.
    """

    __slots__ = ("params", "context", "builder", "operands", "specs", "tracers", "known")

    def __init__(self, params: dict[str, Any]):
        self._valid = True
        self.params = params
        self.context = context_of(params)
        self.builder = pe.DynamicJaxprTrace(None, eval_trace)
        self.operands: list[Any] = []
        self.specs: list[PartitionSpec] = []
        self.tracers: list[weakref.ref[ShardMapTracer]] = []
        self.known: dict[Any, Any] = {}

    def start(
        self, operands: Sequence[Any], specs: Sequence[PartitionSpec], avals: Sequence[Any]
    ) -> list[Any]:
        """Begin a jaxpr whose arguments are these arrays."""
        self.builder = pe.DynamicJaxprTrace(None, eval_trace)
        self.operands, self.specs = list(operands), list(specs)
        return [self.builder.new_arg(a) for a in avals]

    def arguments(self) -> list[ShardMapTracer]:
        builder = self.builder
        return [
            self.tracer(pe.DynamicJaxprTracer(builder, v.aval, v, None)) for v in builder.invars
        ]

    def tracer(self, inner: Any) -> ShardMapTracer:
        tracer = ShardMapTracer(self, inner)
        self.tracers.append(weakref.ref(tracer))
        return tracer

    def inner(self, x: Any) -> Any:
        return x.inner if type(x) is ShardMapTracer and x._trace is self else x

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if primitive in _PRINTS and self.printed_in_order(primitive, args, params):
            return []
        if core.high_types_in_use.value and lojax.is_high(primitive, args, params):
            checks.check_not_mutable(map(core.typeof, args))
            return primitive.to_lojax(*args, **params)
        inner = [x.inner if type(x) is ShardMapTracer and x._trace is self else x for x in args]
        outer = trace_ctx.trace
        trace_ctx.set_trace(self.builder)
        try:
            outs = self.builder.process_primitive(primitive, inner, params)
        finally:
            trace_ctx.set_trace(outer)
        if primitive.multiple_results:
            return [self.outer(x) for x in outs]
        return self.outer(outs)

    def outer(self, x: Any) -> Any:
        return self.tracer(x) if type(x) is pe.DynamicJaxprTracer else x

    def stage_value(self, val: object) -> Any:
        if type(val) is ShardMapTracer and val._trace is self:
            return val
        return self.tracer(self.builder.to_jaxpr_tracer(val))

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, args: Any, *, symbolic_zeros: bool
    ) -> Any:
        return fun(*args)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Any, *, out_trees: Any,
        symbolic_zeros: bool,
    ) -> Any:  # fmt: skip
        return fun(*args)

    def recorded(self, outs: Sequence[Any]) -> tuple[core.Jaxpr, list[Any], tuple[Any, ...]]:
        """The jaxpr with these results, its operands, and their specs."""
        jaxpr, consts = self.builder.to_jaxpr(outs)
        for c in consts:
            if isinstance(c, Tracer):
                raise ClosesOverTracerError(c)
        jaxpr = pe.convert_constvars_jaxpr(jaxpr)
        specs = (*[PartitionSpec()] * len(consts), *self.specs)
        return jaxpr, [*consts, *self.operands], specs

    def end(self) -> None:
        self.invalidate()
        self.builder.finish()
        self.known, self.operands = {}, []

    # Values for Python

    def common_value(self, tracer: ShardMapTracer) -> Any:
        """The value of a tracer as an array, if types tell that all devices have the same."""
        aval = tracer.aval
        if (
            not self._valid
            or not self.params["check_vma"]
            or not isinstance(aval, core.ShapedArray)
        ):
            return None
        if aval.manual_axis_type.vur & self.params["newly_manual_axes"]:
            return None
        return self.value(tracer)

    def value(self, tracer: ShardMapTracer) -> Any:
        """The values of all devices as an array, with the spec of a residual; None if impossible."""
        atom = tracer.inner.val
        if type(atom) is Literal:
            return atom.val
        if atom not in self.known and not self.flush():
            return None
        return self.known[tracer.inner.val]

    def flush(self) -> bool:
        """Run what is recorded so far, and go on from its results."""
        tracers = [t for t in [ref() for ref in self.tracers] if t is not None]
        tracers = [t for t in tracers if type(t.inner.val) is not Literal]
        self.tracers = [weakref.ref(t) for t in tracers]
        live = {t.inner.val: t.inner for t in tracers}
        if not all(isinstance(v.aval, core.ShapedArray) for v in live):
            return False  # references cannot leave the body
        params = self.params
        outer = trace_ctx.trace
        trace_ctx.set_trace(self.builder)
        try:
            outs = [with_dimension(x, params) for x in live.values()]
            jaxpr, operands, in_specs = self.recorded(outs)
        finally:
            trace_ctx.set_trace(outer)
        self.builder.finish()
        specs = tuple([spec_of(v.aval, params) for v in live])
        params = dict(params, jaxpr=jaxpr, in_specs=in_specs, out_specs=specs)
        trace_ctx.set_trace(eval_trace)
        try:
            with self.context.outside():
                values = programs.run(params, operands)
        finally:
            trace_ctx.set_trace(outer)
        args = self.start(values, specs, [x.aval for x in outs])
        trace_ctx.set_trace(self.builder)
        try:
            new = [
                lax.squeeze(x, (0,)) if has_new_dimension(v.aval, self.params) else x
                for x, v in zip(args, live)
            ]
        finally:
            trace_ctx.set_trace(outer)
        where = dict(zip(live, new))
        for t in tracers:
            t.inner = where[t.inner.val]
        self.known = {x.val: value for x, value in zip(new, values)}
        return True

    def shards(self, tracer: ShardMapTracer) -> dict[Any, Any] | Any:
        """The values of the devices of this process; or a value that is no array; None if unknown."""
        value = self.value(tracer)
        if not isinstance(value, ArrayImpl):
            return value
        scalar = has_new_dimension(tracer.aval, self.params)
        with self.on_one_device():
            return {s.device: s.data[0] if scalar else s.data for s in value.addressable_shards}

    @contextlib.contextmanager
    def on_one_device(self) -> Iterator[None]:
        """A context for operations on the arrays of single devices."""
        with core.set_current_trace(eval_trace), self.context.outside(), without_mesh():
            yield

    def printed_in_order(self, primitive: Primitive, args: Sequence[Any], params: Any) -> bool:
        """Call an ordered debugging function now, for one device after the other.

        A compiled program on several devices cannot do that. False if the call is to be recorded.
        """
        ordered = params.get("ordered") or params.get("effect") is debugging.ordered_debug_effect
        if not ordered or params["partitioned"]:
            return False
        mesh = programs.concrete_mesh(self.params["mesh"], self.operands)
        if mesh.size == 1:
            return False
        values = [self.shards(x) if type(x) is ShardMapTracer else x for x in args]
        if any(x is None or isinstance(x, Tracer) for x in values):
            return False
        for device in mesh.devices.flat:
            if device.process_index != device.client.process_index():
                continue
            own = [x[device] if type(x) is dict else x for x in values]
            with self.on_one_device():
                primitive.bind(*own, **params)
        return True

    def show(self, tracer: ShardMapTracer) -> str:
        """The value of each device, in the order of the mesh."""
        shards = self.shards(tracer)
        if shards is None:
            return tracer._short_repr()
        mesh = programs.concrete_mesh(self.params["mesh"], self.operands)
        if type(shards) is not dict:
            return str(shards)
        names = ", ".join(map(str, mesh.axis_names))
        lines = []
        with self.on_one_device():
            for where in np.ndindex(mesh.devices.shape):
                device = mesh.devices[where]
                if device in shards:
                    text = str(shards[device])
                    lines.append(f"On {device} at mesh coordinates ({names},) = {where}:\n{text}\n")
        return "\n".join(lines)


def _impl(*args: Any, **params: Any) -> list[Any]:
    core.check_eval_args(args)
    if lojax.has_high_jaxpr(params):
        return shard_map_p.to_lojax(*args, **params)
    if config.disable_jit.value:
        return _one_by_one(args, params)
    return programs.run(params, args)


def _one_by_one(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Run each operation as a program of its own, and check its results if an option asks for it."""
    jaxpr = params["jaxpr"]
    env: dict[Any, tuple[Any, PartitionSpec, bool]] = {
        v: (x, s, False) for v, x, s in zip(jaxpr.invars, args, params["in_specs"])
    }

    def run(part: core.Jaxpr, outs: Sequence[PartitionSpec] | None) -> Any:
        """Run a part of the body; its results are residuals, unless their specs are given."""
        values, specs, stored = zip(*[env[v] for v in part.invars]) if part.invars else ((), (), ())
        closed = core.close_jaxpr(part)
        with context_of(params):
            closed = taking_residuals(closed, stored, params)
            if outs is None:
                outs = [spec_of(a, params) for a in part.out_avals]
                closed = returning_residuals(closed, 0, params)
        new = dict(params, jaxpr=closed.jaxpr, in_specs=specs, out_specs=tuple(outs))
        with config.disable_jit(False), config.debug_nans(False), config.debug_infs(False):
            return zip(programs.run(new, values, cached=False), outs)

    for eqn in jaxpr.eqns:
        invars = list(dict.fromkeys([v for v in eqn.invars if type(v) is not Literal]))
        part = jaxpr.replace(
            invars=invars, outvars=eqn.outvars, eqns=[eqn], effects=eqn.effects,
            debug_info=jaxpr.debug_info.with_unknown_names(),
        )  # fmt: skip
        operands = [v.val if type(v) is Literal else env[v][0] for v in eqn.invars]
        for v, (x, spec) in zip(eqn.outvars, run(part, None)):
            env[v] = x, spec, True
        results = [env[v][0] for v in eqn.outvars]
        if any(core.jaxprs_in_params(eqn.params)) and special_values.first_kind(results):
            own = jaxpr.replace(
                invars=invars, outvars=invars, eqns=[], effects=core.no_effects,
                debug_info=jaxpr.debug_info.with_unknown_names(),
            )  # fmt: skip
            _check_inside(eqn, dict(zip(invars, [x for x, _ in run(own, None)])), params)
        special_values.check_results(eqn.primitive.name, operands, results, eqn.source_info)
    results = [v for v in dict.fromkeys(jaxpr.outvars) if type(v) is not Literal]
    last = jaxpr.replace(
        invars=results, eqns=[], effects=core.no_effects,
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )  # fmt: skip
    return [x for x, _ in run(last, params["out_specs"])]


def _check_inside(eqn: core.JaxprEqn, values: dict[Any, Any], params: dict[str, Any]) -> None:
    """Run an operation that has functions on each device alone, so that errors name their parts.

    Args:
      eqn: the operation.
      values: its operands, as residuals.
      params: those of the `shard_map`.
    """
    shards = {
        v: {s.device: s.data[0] if has_new_dimension(v.aval, params) else s.data for s in shards}
        for v, shards in ((v, x.addressable_shards) for v, x in values.items())
    }
    for device in programs.concrete_mesh(params["mesh"], list(values.values())).devices.flat:
        if any(device not in x for x in shards.values()):
            continue
        names = list(shards)
        own = [shards[v][device] for v in names]
        with core.set_current_trace(eval_trace), without_mesh():
            try:
                core.eval_jaxpr(core.Jaxpr([], names, eqn.outvars, [eqn], eqn.effects), [], *own)
            except FloatingPointError:
                raise
            except Exception:  # a part needs the other devices: the whole is named
                return


shard_map_p.def_impl(_impl)
