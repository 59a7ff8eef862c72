"""`shard_map` and `smap`: functions of shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import api_util, core, traceback_util
from jax._src.core import trace_ctx, typeof
from jax._src.interpreters import partial_eval as pe
from jax._src.mesh import AbstractMesh, Mesh
from jax._src.partition_spec import PartitionSpec
from jax._src.shard_map import checks, eager, eager_derivatives
from jax._src.shard_map.primitive import body_context, shard_map_p
from jax._src.shard_map.specs import explicit_spec, shard_aval, spec_axes
from jax._src.shard_map.spmd import vary_over
from jax._src.tree_util import (
    PyTreeDef,
    broadcast_flattened_prefix_with_treedef,
    tree_flatten,
    tree_leaves,
    tree_unflatten,
)
from jax._src.util import fun_name, wraps

traceback_util.register_exclusion(__file__)


class InferFromArgs:
    """The type of `Infer`: specs are those of the arguments' types."""

    def __repr__(self) -> str:
        return "jax.sharding.Infer"

    def __reduce__(self) -> str:
        return "Infer"


Infer = InferFromArgs()
_MAX_CACHED = 1024  # calls of one function with arguments of different types
Specs = Any


@traceback_util.api_boundary
def shard_map(
    f: Callable | None = None, /, *, out_specs: Specs, in_specs: Specs = Infer,
    mesh: Mesh | AbstractMesh | None = None, axis_names: Any = frozenset(), check_vma: bool = True,
) -> Callable:  # fmt: skip
    """Map a function over shards of arrays: each device of a mesh runs it on its own shards.

    Args:
      f: function of shards. It can use the mesh's axis names in collectives, such as `jax.lax.psum`.
        Without it, returns a decorator.
      out_specs: how shards of the results form arrays: a tree prefix of the result with
        :class:`jax.P` leaves. Shards are concatenated along the mesh axes that a spec names; along
        other axes, all devices must have the same value.
      in_specs: how arguments are split into shards: a tree prefix of the tuple of arguments with
        :class:`jax.P` leaves. Arguments with None are passed to `f` unchanged. By default the
        specs are those of the arguments' types, whose mesh axes must be Explicit.
      mesh: the mesh; by default that of :func:`jax.set_mesh`.
      axis_names: the set of mesh axes over which `f` is mapped; all if empty. The others stay Auto
        or Explicit inside.
      check_vma: whether types track over which mesh axes values vary. This finds errors in
        `out_specs` and makes derivatives efficient.

    Returns:
      A function of positional arguments, like `f` but on whole arrays.

    Raises:
      ValueError: specs do not fit the arguments, the results or the mesh.
      TypeError: an argument has a wrong type.

    >>> mesh = jax.make_mesh((1,), ("x",), (jax.sharding.AxisType.Auto,))
    >>> f = jax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"))
    >>> print(f(jnp.arange(3.0)))
    [0. 2. 4.]
    """

    def mapped(f: Callable) -> Callable:
        return _Mapping(f, _Specs(in_specs, out_specs), mesh, axis_names, check_vma).wrapped()

    return mapped if f is None else mapped(f)


@traceback_util.api_boundary
def smap(
    f: Callable | None = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: Any
) -> Callable:
    """Map a function over one mesh axis: like `shard_map`, with axes of arrays in place of specs.

    Args:
      f: function of shards. Without it, returns a decorator.
      in_axes: which axis of each argument is split over the mesh axis: an integer or None (not
        split) for all arguments, or a tuple with an entry, possibly a tree prefix, for each
        argument. By default it is found from the arguments' types; the mesh axis must be Explicit.
      out_axes: along which axis shards of the results are concatenated: a tree prefix of the result
        with integers and None; for None all devices must have the same value.
      axis_name: the mesh axis of the mesh set by :func:`jax.set_mesh`.

    Returns:
      A function of positional arguments, like `f` but on whole arrays.

    Raises:
      ValueError: axes do not fit the arguments, the results or the mesh.
      TypeError: an argument has a wrong type.

    >>> with jax.set_mesh(jax.make_mesh((1,), ("x",), (jax.sharding.AxisType.Auto,))):
    ...   print(jax.smap(lambda x: x * 2, in_axes=0, out_axes=0, axis_name="x")(jnp.arange(3.0)))
    [0. 2. 4.]
    """
    checks.check_axes(in_axes, out_axes, axis_name, Infer)

    def mapped(f: Callable) -> Callable:
        specs = _Axes(in_axes, out_axes, axis_name)
        return _Mapping(f, specs, None, frozenset([axis_name]), True).wrapped()

    return mapped if f is None else mapped(f)


class _Specs:
    """The specs of a `shard_map`.

    Attributes:
      ins, outs: the trees that the user gave.
      api_name: the function that took them.
      must_match: whether they must agree with the types of arguments over Explicit axes.
    """

    api_name = "shard_map"
    must_match = True

    def __init__(self, ins: Specs, outs: Specs):
        self.ins, self.outs = ins, outs

    def check(self, manual_axes: frozenset[Any], mesh: Any) -> None:
        """Raise an error for leaves that are no specs over these axes."""
        if self.ins is Infer:
            checks.check_can_infer(self, manual_axes, mesh)
        else:
            checks.check_specs("in_specs", self.ins, manual_axes, mesh)
        checks.check_specs("out_specs", self.outs, manual_axes, mesh)

    def spec(self, leaf: Any, aval: Any, where: Callable[[], str]) -> Any:
        """The spec for a value, given the leaf of the tree; None for static arguments."""
        return leaf


class _Axes(_Specs):
    """The axes of an `smap`."""

    api_name = "smap"
    must_match = False

    def __init__(self, ins: Any, outs: Any, axis_name: Any):
        super().__init__(ins, outs)
        self.axis_name = axis_name

    def check(self, manual_axes: frozenset[Any], mesh: Any) -> None:
        if self.ins is Infer:
            checks.check_can_infer(self, manual_axes, mesh)

    def spec(self, leaf: Any, aval: Any, where: Callable[[], str]) -> PartitionSpec:
        if leaf is None:
            return PartitionSpec()
        if not -aval.ndim <= leaf < aval.ndim:
            hint = (
                "" if aval.ndim else " Give it a dimension (`x[None]`), or None if it is not split."
            )
            raise ValueError(
                f"smap: axis {leaf} is out of bounds for {where()}, which has type {aval.str_short()} "
                f"and rank {aval.ndim}.{hint}"
            )
        return PartitionSpec(*[None] * (leaf % aval.ndim), self.axis_name)


class _Mapping:
    """A function with the arguments of `shard_map`, and what is known of its calls."""

    def __init__(self, f: Callable, specs: _Specs, mesh: Any, axis_names: Any, check_vma: Any):
        checks.check_callable(f, specs.api_name)
        self.f = f
        self.specs = specs
        self.mesh = mesh
        self.axis_names = axis_names
        self.check_vma = bool(check_vma)
        # By mesh and manual axes: whether the specs fit them.
        self.fitting: set[Any] = set()
        # By types of arguments, mesh and manual axes: specs and types of shards.
        self.ins: dict[Any, Any] = {}
        # By tree of the result: leaves of the tree of specs.
        self.outs: dict[PyTreeDef, list[Any]] = {}

    def wrapped(self) -> Callable:
        @wraps(self.f)
        @traceback_util.api_boundary
        def wrapped(*args, **kwargs):
            if kwargs:
                raise TypeError(
                    f"{self.specs.api_name} of {fun_name(self.f)} got an unexpected keyword argument "
                    f"{next(iter(kwargs))!r}: pass all arguments by position, since in_specs has an "
                    "entry for each position."
                )
            return self.call(args)

        return wrapped

    def mesh_and_axes(self) -> tuple[Any, frozenset[Any]]:
        """The mesh, and the axes that the call makes Manual."""
        mesh = checks.mesh_of_call(self.mesh, self.specs.api_name)
        manual_axes = checks.manual_axes_of_call(self.axis_names, mesh, self.specs.api_name)
        key = mesh, manual_axes
        if key not in self.fitting:
            self.specs.check(manual_axes, mesh)
            self.fitting.add(key)
        return mesh, manual_axes

    def call(self, args: tuple) -> Any:
        mesh, manual_axes = self.mesh_and_axes()
        leaves, in_tree = tree_flatten(args)
        entries = self.in_entries(args, in_tree)
        static = [e is None for e in entries] if self.specs.must_match else [False] * len(leaves)
        flat = [x for x, s in zip(leaves, static) if not s]
        avals = [typeof(x) for x in flat]
        key = (in_tree, mesh, manual_axes, tuple(avals))
        found = self.ins.get(key)
        if found is None:
            entries = [e for e, s in zip(entries, static) if not s]
            if len(self.ins) > _MAX_CACHED:
                self.ins.clear()
            found = self.ins[key] = self.shards(args, static, entries, avals, mesh, manual_axes)
        in_specs, in_avals = found

        out_specs: list[PartitionSpec] = []
        trees: list[PyTreeDef] = []

        def body(*shards: Any) -> Any:
            given = iter(shards)
            values = [x if s else next(given) for x, s in zip(leaves, static)]
            result = self.f(*tree_unflatten(in_tree, values))
            outs, out_tree = tree_flatten(result)
            trees[:] = [out_tree]
            out_specs[:] = self.out_specs(result, outs, out_tree, mesh, manual_axes)
            return outs

        def finished(*shards: Any) -> Sequence[Any]:
            outs = body(*shards)
            if not self.check_vma:
                return outs
            return [
                x if isinstance(s, core.HiPspec) else vary_over(x, spec_axes(s))
                for x, s in zip(outs, out_specs)
            ]

        params = dict(mesh=mesh, check_vma=self.check_vma, newly_manual_axes=manual_axes)
        trace = trace_ctx.trace
        high = core.high_types_in_use.value and self.has_high_specs()
        if trace is core.eval_trace and not high:
            try:
                outs = eager.run(finished, flat, in_avals, in_specs, out_specs, params)
            except eager.ClosesOverTracerError as err:
                raise core.escaped_tracer_error(err.args[0]) from None
            except ValueError as err:
                if str(err).startswith("Received incompatible devices"):
                    checks.check_devices(self.f, flat, mesh, lambda: _names(self.f, args, static))
                raise
            return tree_unflatten(trees[0], outs)
        if not high and eager_derivatives.can_run(trace, flat, in_avals):
            try:
                outs = eager_derivatives.run(finished, flat, in_avals, in_specs, out_specs, params)
                return tree_unflatten(trees[0], outs)
            except eager.ClosesOverTracerError:  # so it has to run again
                pass
        info = api_util.debug_info("shard_map", self.f, args, {})
        with body_context(mesh, manual_axes, self.check_vma):
            jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(finished, in_avals, info)
        outs = shard_map_p.bind(
            *consts,
            *flat,
            jaxpr=pe.convert_constvars_jaxpr(jaxpr),
            in_specs=(*[PartitionSpec()] * len(consts), *in_specs),
            out_specs=tuple(out_specs),
            **params,
        )
        return tree_unflatten(trees[0], outs)

    # Specs of arguments and results

    def has_high_specs(self) -> bool:
        """Whether arguments or results have high types."""
        return any(
            [isinstance(s, core.HiPspec) for s in tree_leaves((self.specs.ins, self.specs.outs))]
        )

    def in_entries(self, args: tuple, in_tree: PyTreeDef) -> list[Any]:
        """The leaf of the tree of specs for each leaf of the arguments."""
        if self.specs.ins is Infer:
            return [Infer] * in_tree.num_leaves
        return _entries("in_specs", self.specs.ins, args, in_tree, lambda x: x is None)

    def shards(
        self, args: tuple, static: Sequence[bool], entries: Sequence[Any], avals: Sequence[Any],
        mesh: Any, manual_axes: frozenset[Any],
    ) -> tuple[tuple[PartitionSpec, ...], list[Any]]:  # fmt: skip
        """The specs of the arguments, and the types of their shards."""
        names = lambda: _names(self.f, args, static)
        inferred = self.specs.ins is Infer
        specs = [
            explicit_spec(a, manual_axes)
            if inferred
            else self.specs.spec(e, a, lambda i=i: f"argument {names()[i]}")
            for i, (e, a) in enumerate(zip(entries, avals))
        ]
        checks.check_arguments(self.f, specs, avals, mesh, names)
        if self.specs.must_match and not inferred:
            checks.check_explicit(specs, avals, mesh, manual_axes, names)
        in_avals = [
            shard_aval(mesh, manual_axes, self.check_vma, s, a) for s, a in zip(specs, avals)
        ]
        return tuple(specs), in_avals

    def out_specs(
        self, result: Any, outs: Sequence[Any], out_tree: PyTreeDef, mesh: Any,
        manual_axes: frozenset[Any],
    ) -> list[PartitionSpec]:  # fmt: skip
        """The spec of each leaf of the result."""
        entries = self.outs.get(out_tree)
        if entries is None:
            is_leaf = None if self.specs.must_match else lambda x: x is None
            entries = _entries("out_specs", self.specs.outs, result, out_tree, is_leaf)
            self.outs[out_tree] = entries
        avals = checks.types_of_results(self.f, outs, result)
        specs = entries
        if not self.specs.must_match:
            specs = [
                self.specs.spec(
                    e, a, lambda i=i: f"result {checks.path_of_result(self.f, result, i)}"
                )
                for i, (e, a) in enumerate(zip(entries, avals))
            ]
        checks.check_results(
            self.f, specs, avals, result, mesh, manual_axes, self.check_vma, self.specs.api_name
        )
        return specs


def _entries(name: str, prefix: Any, tree: Any, treedef: PyTreeDef, is_leaf: Any) -> list[Any]:
    leaves, prefix_def = tree_flatten(prefix, is_leaf)
    try:
        return broadcast_flattened_prefix_with_treedef(leaves, prefix_def, treedef)
    except ValueError:
        checks.raise_not_prefix(name, prefix, tree, is_leaf)


def _names(f: Callable, args: tuple, static: Sequence[bool]) -> list[str]:
    names = api_util.debug_info("shard_map", f, args, {}).arg_names or ()
    return [n or f"number {i}" for i, (n, s) in enumerate(zip(names, static)) if not s]
