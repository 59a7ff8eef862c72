"""Functions mapped by `pmap`: jitted functions of a `shard_map` over one axis.

The callable that a user gets is native, as that of `jit`: once a program for the types of the
arguments is compiled, calls of it do not run Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import api_util, core, traceback_util, xla_bridge as xb
from jax._src.array_impl import ArrayImpl
from jax._src.core import eval_trace, trace_ctx
from jax._src.device_put.values import REUSE, device_put_value
from jax._src.interpreters import batching, partial_eval as pe
from jax._src.jit import jitted
from jax._src.jit.primitive import call_compiled, jit_p, native_call_data
from jax._src.lax import lax, slicing
from jax._src.mesh import Mesh, get_abstract_mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.pmap import axes, processes
from jax._src.shard_map import eager
from jax._src.shard_map.primitive import body_context, shard_map_p
from jax._src.shard_map.specs import shard_aval
from jax._src.sharding_impls import UNSPECIFIED
from jax._src.transforms.vmap import vmap
from jax._src.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten
from jax._src.util import wraps

traceback_util.register_exclusion(__file__)

_UNNAMED = "_internal_pmap_axis_name"


def make_pmap(
    fun: Callable, axis_name: Any, in_axes: Any, out_axes: Any, static_argnums: Any,
    devices: tuple[Any, ...] | None, backend: str | None, axis_size: int | None, donate_argnums: Any,
) -> Callable:  # fmt: skip
    """The mapped form of `fun`; see `jax.pmap`."""
    static_argnums = api_util.ensure_index_tuple(static_argnums)
    donate_argnums = api_util.ensure_index_tuple(donate_argnums)
    api_util.rebase_donate_argnums(donate_argnums, static_argnums)  # no argument may be both
    options = jitted.make_options(
        None, static_argnums=static_argnums, donate_argnums=donate_argnums, fun=fun
    )
    return jitted.callable_of(
        _Pmap(fun, options, axis_name, in_axes, out_axes, devices, backend, axis_size)
    )


class _Pmap(jitted.Jitted):
    """The Python side of one mapped function."""

    transform = "pmap"
    without = ("trace",)  # so that `jax.stages.Wrapped` is a jitted function only
    static_options = "static_broadcasted_argnums parameter of jax.pmap"

    def __init__(
        self, fun: Callable, options: jitted.Options, axis_name: Any, in_axes: Any, out_axes: Any,
        devices: tuple[Any, ...] | None, backend: str | None, axis_size: int | None,
    ):  # fmt: skip
        super().__init__(fun, options)
        self.axis_name = axis_name
        self.in_axes, self.out_axes = in_axes, out_axes
        self.devices, self.backend = devices, backend
        self.axis_size = axis_size
        key = ("pmap", axis_name, _key(in_axes), _key(out_axes), devices, backend, axis_size)
        options.key = options.key._replace(of_transform=key)
        hash(options.key)  # raises TypeError here, not in the first call
        self.uncompiled = wraps(fun)(lambda *args, **kwargs: self._call_uncompiled(args, kwargs))

    @traceback_util.api_boundary
    def eval_shape(self, *args, **kwargs):
        """Types of the results for these arguments."""
        traced = self.trace(*args, **kwargs)
        avals = traced.jaxpr.out_avals
        mesh = self._spanning_mesh()
        if mesh is not None:
            specs = [s.sharding.spec for s in tree_leaves(traced.out_info)]
            avals = [processes.to_local_type(a, mesh, s) for a, s in zip(avals, specs)]
        structs = [core.ShapeDtypeStruct.from_aval(a) for a in avals]
        return tree_unflatten(traced.out_tree, structs)

    @traceback_util.api_boundary
    def trace(self, *args, **kwargs):
        """Trace the function for these arguments (values or `ShapeDtypeStruct`s)."""
        mesh = self._spanning_mesh()
        if mesh is not None:
            args, kwargs = self._over_processes(mesh, args, kwargs, processes.to_global_type)
        return super().trace(*args, **kwargs)

    # Tracing

    def trace_call(self, args, kwargs, abstract: bool = False):
        self._check_static(args)
        return super().trace_call(args, kwargs, abstract)

    def _check_static(self, args) -> None:
        static = self.options.static_argnums
        if static and not all(-len(args) <= i < len(args) for i in static):
            plural = "" if len(args) == 1 else "s"
            raise ValueError(
                f"pmapped function has static_broadcasted_argnums={static} but was called with only "
                f"{len(args)} positional argument{plural}. All static broadcasted arguments must be passed "
                "positionally."
            )

    def make_trace(self, args, kwargs, signature, avals):
        api_util.check_may_trace(self.fun, "pmap")
        statics = api_util.normalize_argnums(self.options.static_argnums, len(args))
        flat_fun, in_tree, out_tree, info = jitted.flat_function(
            "pmap", self.fun, args, kwargs, statics
        )
        mapping = self._mapping(*self._axes_and_size(in_tree, avals, statics), avals)
        with jitted.log_tracing(self.fun, "pmap"):
            jaxpr, out_specs, consts = mapping.trace(flat_fun, info, self._flat_out_axes(out_tree))
        traced = jitted.TracedFunction(jaxpr, consts, in_tree, out_tree())
        consts, closed = traced.hoisted, traced.closed
        mesh, n = mapping.mesh, len(consts)
        donated = api_util.rebase_donate_argnums(
            [i for i in self.options.donate_argnums if i < len(args)], statics
        )
        params = dict(
            jaxpr=closed,
            in_shardings=(UNSPECIFIED,) * n
            + tuple([NamedSharding(mesh, s) for s in mapping.in_specs]),
            out_shardings=tuple([NamedSharding(mesh, s) for s in out_specs]),
            in_layouts=(None,) * (n + len(avals)),
            out_layouts=(None,) * len(out_specs),
            donated_invars=(False,) * n + api_util.donation_vector(donated, (), in_tree),
            ctx_mesh=None,
            name=self.name,
            keep_unused=False,
            inline=False,
            compiler_options_kvs=(),
        )
        return _Entry(params, consts, traced.out_tree, in_tree)

    def _axes_and_size(
        self, in_tree: Any, avals: Sequence[Any], statics: Sequence[int]
    ) -> tuple[list[int | None], int]:
        """The mapped axis of each flat argument, and their size."""
        in_axes = axes.flat_in_axes(self.in_axes, in_tree, statics)
        size = axes.mapped_size(self.fun, in_tree, avals, in_axes, self.axis_size)
        return [a if a is None else axes.positive(a, x.ndim) for a, x in zip(in_axes, avals)], size

    def _mapping(self, in_axes: Sequence[int | None], size: int, avals: Sequence[Any]) -> _Mapping:
        name = self._name_of_axis()
        mesh = axes.make_mesh(self.fun, name, size, self.devices, self.backend)
        return _Mapping(mesh, name, in_axes, avals)

    def _name_of_axis(self) -> Any:
        return _UNNAMED if self.axis_name is None else self.axis_name

    def _flat_out_axes(self, out_tree: Callable[[], Any]) -> Callable[[Sequence[Any]], list]:
        def flat_out_axes(outs: Sequence[Any]) -> list[int | None]:
            ndims = [core.typeof(x).ndim if core.valid_jaxtype(x) else 0 for x in outs]
            return axes.flat_out_axes(self.fun, self.out_axes, out_tree(), ndims)

        return flat_out_axes

    # Calling

    @traceback_util.api_boundary
    def cache_miss(self, *args, **kwargs):
        if get_abstract_mesh().manual_axes:
            return self._call_vmap(args, kwargs), None, False
        if trace_ctx.trace is not eval_trace:
            entry, flat = self.trace_call(args, kwargs)
            outs = jit_p.bind(*entry.consts, *flat, **entry.traced_params())
            return tree_unflatten(entry.out_tree, outs), None, False
        mesh = self._spanning_mesh()
        if mesh is not None:  # each call needs Python, to convert arguments and results
            args, kwargs = self._over_processes(mesh, args, kwargs, processes.to_global)
            return tree_map(processes.to_local, self._call(args, kwargs)[0]), None, False
        return self._call(args, kwargs)

    def _call(self, args, kwargs) -> tuple[Any, Any, bool]:
        """Run the compiled program.

        Returns:
          The result, the data for native calls or None, and whether to ask for them again.
        """
        entry, flat = self.trace_call(args, kwargs)
        core.check_eval_args([*entry.consts, *flat])
        params = entry.params
        placed = [_placed(x, s) for x, s in zip(flat, params["in_shardings"][len(entry.consts) :])]
        outs, executable = call_compiled([*entry.consts, *placed], params, self.transform)
        result = tree_unflatten(entry.out_tree, outs)
        # Native code cannot move arrays between devices.
        may_be_native = not entry.consts and all([x is y for x, y in zip(flat, placed)])
        return result, *native_call_data(executable, outs, entry.out_tree, flat, may_be_native)

    @traceback_util.api_boundary
    def _call_uncompiled(self, args, kwargs) -> Any:
        """Called while `jax_disable_jit` is set."""
        if get_abstract_mesh().manual_axes:
            return self._call_vmap(args, kwargs)
        if trace_ctx.trace is not eval_trace:
            return self.cache_miss(*args, **kwargs)[0]
        mesh = self._spanning_mesh()
        if mesh is not None:
            args, kwargs = self._over_processes(mesh, args, kwargs, processes.to_global)
        flat_fun, flat, out_tree, in_axes, size = self._flat_call(args, kwargs)
        mapping = self._mapping(in_axes, size, [core.typeof(x) for x in flat])
        specs = mapping.in_specs
        flat = [_placed(x, NamedSharding(mapping.mesh, s)) for x, s in zip(flat, specs)]
        outs = mapping.run(flat_fun, flat, self._flat_out_axes(out_tree))
        return tree_unflatten(out_tree(), [processes.to_local(x) for x in outs])

    def _spanning_mesh(self) -> Mesh | None:
        """The mesh of the devices of several processes, outside of transformations; else None."""
        if trace_ctx.trace is not eval_trace or xb.process_count() == 1:
            return None
        return axes.spanning_mesh(self._name_of_axis(), self.devices, self.backend)

    def _over_processes(self, mesh: Mesh, args, kwargs, convert: Callable) -> tuple[tuple, dict]:
        """Convert the arguments of one process to those of the program of all processes.

        Args:
          mesh: the mesh of the devices of all processes.
          args, kwargs: the arguments.
          convert: function of an argument, the mesh and a spec.

        Raises:
          ValueError: if the mapped axis does not have the size of the devices of this process.
        """
        statics, dynamic = self._split_static(args)
        flat, in_tree = tree_flatten((dynamic, kwargs))
        in_axes = axes.flat_in_axes(self.in_axes, in_tree, statics)
        avals = processes.local_types(flat, in_axes, mesh)
        size = axes.mapped_size(self.fun, in_tree, avals, in_axes, None)
        axes.check_local_size(self.fun, size, mesh, self.axis_size)
        specs = [
            axes.spec_of_axis(axes.positive(a, x.ndim), mesh.axis_names[0])
            for a, x in zip(in_axes, avals)
        ]
        dynamic, kwargs = tree_unflatten(
            in_tree, [convert(x, mesh, s) for x, s in zip(flat, specs)]
        )
        rest = iter(dynamic)
        return tuple([x if i in statics else next(rest) for i, x in enumerate(args)]), kwargs

    def _split_static(self, args) -> tuple[tuple[int, ...], tuple]:
        """The positions of static arguments, and the other arguments."""
        self._check_static(args)
        statics = api_util.normalize_argnums(self.options.static_argnums, len(args))
        return statics, tuple([a for i, a in enumerate(args) if i not in statics])

    def _call_vmap(self, args, kwargs) -> Any:
        """Each device that runs this computes all positions of the mapped axis."""
        flat_fun, flat, out_tree, in_axes, size = self._flat_call(args, kwargs)
        mapped = vmap(flat_fun, in_axes=tuple(in_axes), axis_name=self.axis_name, axis_size=size)
        outs = mapped(*flat)
        ndims = [x.ndim - 1 for x in outs]
        out_axes = axes.flat_out_axes(self.fun, self.out_axes, out_tree(), ndims)
        outs = [
            slicing.index_in_dim(x, 0, keepdims=False) if a is None else batching.moveaxis(x, 0, a)
            for x, a in zip(outs, out_axes)
        ]
        return tree_unflatten(out_tree(), outs)

    def _flat_call(self, args, kwargs) -> tuple[Callable, list, Callable, list[int | None], int]:
        """For a call: flat function, arguments, tree of the result, mapped axes and their size."""
        statics, dynamic = self._split_static(args)
        flat_fun, in_tree, out_tree, _ = jitted.flat_function(
            "pmap", self.fun, args, kwargs, statics
        )
        flat, _ = tree_flatten((dynamic, kwargs))
        try:
            avals = [core.typeof(x) for x in flat]
        except TypeError:
            self.check_arguments(args, kwargs)
            raise
        return flat_fun, flat, out_tree, *self._axes_and_size(in_tree, avals, statics)


def _key(tree: Any) -> tuple[Any, ...]:
    leaves, treedef = tree_flatten(tree, is_leaf=lambda x: x is None)
    return (tuple(leaves), treedef)


def _without_axis(x: Any, axis: int) -> Any:
    if isinstance(core.typeof(x), core.AbstractRef):
        return x.at[(slice(None),) * axis + (0,)]
    return lax.squeeze(x, (axis,))


def _placed(x: Any, sharding: NamedSharding) -> Any:
    """`x`, or a copy of it on the devices if it is committed to others or is cut otherwise."""
    if isinstance(x, ArrayImpl) and x._committed and x._sharding is not sharding:
        if not x._sharding.is_equivalent_to(sharding, x.ndim):
            return device_put_value(x, sharding, REUSE)
    return x


class _Entry(jitted.TraceEntry):
    """One trace of a mapped function."""

    __slots__ = ()

    def traced_params(self) -> dict[str, Any]:
        """The parameters inside a transformation, where the body alone determines the sharding."""
        params = self.params
        return dict(
            params,
            in_shardings=(UNSPECIFIED,) * len(params["in_shardings"]),
            out_shardings=(UNSPECIFIED,) * len(params["out_shardings"]),
        )


class _Mapping:
    """A mapping over the axis of a mesh, for arguments of given types."""

    def __init__(self, mesh: Any, name: Any, in_axes: Sequence[int | None], avals: Sequence[Any]):
        self.mesh = mesh
        self.name = name
        self.manual_axes = frozenset([name])
        self.in_axes = in_axes
        self.in_specs = tuple([axes.spec_of_axis(a, name) for a in in_axes])
        self.avals = [
            a.update(sharding=None) if isinstance(a, core.ShapedArray) else a for a in avals
        ]

    def trace(
        self,
        flat_fun: Callable,
        info: Any,
        out_axes_of: Callable[[Sequence[Any]], list[int | None]],
    ) -> tuple[core.Jaxpr, list[PartitionSpec], list[Any]]:
        """Trace the mapped function.

        Args:
          flat_fun: the function, on flat arguments.
          info: the names of its arguments and results.
          out_axes_of: returns the position of the mapped axis in each flat result.

        Returns:
          A jaxpr with one equation, the specs of the results, and constants.
        """
        body, out_specs = self.body(flat_fun, out_axes_of)
        with body_context(self.mesh, self.manual_axes, False):
            jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(body, self.shard_avals(), info)
        jaxpr = pe.convert_constvars_jaxpr(jaxpr)

        def whole(*args: Any) -> Any:
            return shard_map_p.bind(
                *consts,
                *args,
                jaxpr=jaxpr,
                in_specs=(*[PartitionSpec()] * len(consts), *self.in_specs),
                out_specs=tuple(out_specs),
                **self.params(),
            )

        with body_context(self.mesh, frozenset(), False):
            outer, _, outer_consts = pe.trace_to_jaxpr_dynamic(whole, self.avals, info)
        return outer, out_specs, outer_consts

    def run(
        self, flat_fun: Callable, args: Sequence[Any], out_axes_of: Callable[[Sequence[Any]], Any]
    ) -> list[Any]:
        """Run the mapped function on arrays, without compiling it first."""
        body, out_specs = self.body(flat_fun, out_axes_of)
        params = self.params()
        try:
            return eager.run(body, args, self.shard_avals(), self.in_specs, out_specs, params)
        except eager.ClosesOverTracerError as err:
            raise core.escaped_tracer_error(err.args[0]) from None

    def body(
        self, flat_fun: Callable, out_axes_of: Callable[[Sequence[Any]], list[int | None]]
    ) -> tuple[Callable, list[PartitionSpec]]:
        """The function of shards, and the specs of its results: known after it has been called."""
        out_specs: list[PartitionSpec] = []

        def body(*shards: Any) -> list[Any]:
            args = [x if a is None else _without_axis(x, a) for x, a in zip(shards, self.in_axes)]
            outs = flat_fun(*args)
            out_axes = out_axes_of(outs)
            out_specs[:] = [axes.spec_of_axis(a, self.name) for a in out_axes]
            return [
                x if a is None or not core.valid_jaxtype(x) else lax.expand_dims(x, (a,))
                for x, a in zip(outs, out_axes)
            ]

        return body, out_specs

    def params(self) -> dict[str, Any]:
        """Parameters of the primitive, except the body and the specs."""
        return dict(mesh=self.mesh, check_vma=False, newly_manual_axes=self.manual_axes)

    def shard_avals(self) -> list[Any]:
        """The types of the shards of arguments."""
        return [
            shard_aval(self.mesh, self.manual_axes, False, s, a)
            for s, a in zip(self.in_specs, self.avals)
        ]
