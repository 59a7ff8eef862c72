"""`custom_partitioning`: operations that Python functions partition.

XLA's partitioner calls them while it compiles a module. The backend configuration of the operation's
custom call identifies the functions, which are kept alive with the module.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from jax._src import api_util, config, core, effects, lib, xla_bridge
from jax._src.core import ClosedJaxpr, Primitive, ShapedArray, ShapeDtypeStruct, typeof
from jax._src.custom_partitioning_sharding_rule import (
    SdyShardingRule,
    sdy_sharding_rule_to_mlir,
    str_to_sdy_sharding_rule,
)
from jax._src.errors import UnexpectedTracerError
from jax._src.interpreters import mlir, partial_eval as pe
from jax._src.interpreters.mlir.shardings import is_single_device
from jax._src.late_binding import late
from jax._src.mesh import AbstractMesh, Mesh, empty_concrete_mesh, get_concrete_mesh
from jax._src.shard_map.primitive import body_context
from jax._src.sharding import Sharding
from jax._src.sharding_impls import (
    GSPMDSharding,
    IndivisibleError,
    NamedSharding,
    SPMDAxisContext,
    parse_flatten_op_sharding,
)
from jax._src.traceback_util import api_boundary, register_exclusion
from jax._src.tree_util import PyTreeDef, tree_flatten, tree_unflatten
from jax._src.util import fun_name

register_exclusion(__file__)


class custom_partitioning:
    """An operation with rules for how it is partitioned.

    Call `def_partition` on it to define the rules. On one device, and inside `shard_map`, the
    function itself is compiled. The operation is neither differentiable nor batchable: call it in
    functions with rules from `jax.custom_vjp` or `jax.custom_batching.custom_vmap`.

    Args:
      fun: function of arrays and pytrees that defines the operation. It must not close over values
        that are being traced.
      static_argnums: positions of arguments that are hashable Python values. They are passed to the
        rules first.

    Example:
      >>> from jax.experimental.custom_partitioning import custom_partitioning
      >>> @custom_partitioning
      ... def scale_rows(x):
      ...   return x / jnp.sum(x, axis=1, keepdims=True)
      >>> def partition(mesh, arg_shapes, result_shape):
      ...   rows = arg_shapes[0].sharding.spec[:1]  # columns are not sharded
      ...   sharding = jax.NamedSharding(mesh, jax.P(*rows))
      ...   def on_shard(x):
      ...     return x / jnp.sum(x, axis=1, keepdims=True)
      ...   return mesh, on_shard, sharding, (sharding,)
      >>> _ = scale_rows.def_partition(
      ...     partition, sharding_rule="i j -> i j", need_replication_factors=("j",))
      >>> print(jax.jit(scale_rows)(jnp.ones((2, 4)))[0])
      [0.25 0.25 0.25 0.25]
    """

    def __init__(self, fun: Callable, static_argnums: int | Sequence[int] = ()):
        if not callable(fun):
            raise TypeError(f"custom_partitioning takes a function, got {fun!r}.")
        self.fun = fun
        self.static_argnums = api_util.ensure_index_tuple(static_argnums)
        self.partition: Callable | None = None  # this and the following: see `def_partition`
        self.infer_sharding_from_operands: Callable | None = None
        self.propagate_user_sharding: Callable | None = None
        self.decode_shardings = True
        self.sharding_rule: Any = None
        self._signature: inspect.Signature | None = None
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(fun, name):
                setattr(self, name, getattr(fun, name))

    def def_partition(
        self,
        partition: Callable,
        infer_sharding_from_operands: Callable | None = None,
        propagate_user_sharding: Callable | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> Callable:
        """Define how the operation is partitioned.

        Shapes are pytrees of `jax.ShapeDtypeStruct` with shardings. An error raised by a function
        is the cause of the `jax.errors.JaxRuntimeError` that ends the compilation.

        Args:
          partition: `(mesh, argument shapes, result shape)` -> a mesh, a function of the arguments'
            shards that computes the results' shards (with collectives along the mesh's axes), the
            results' shardings and a tuple of the arguments' shardings.
          infer_sharding_from_operands: `(mesh, argument shapes, result type)` -> the results'
            sharding. GSPMD needs it; Shardy does not use it.
          propagate_user_sharding: `(mesh, result shape)` -> a better sharding of the results, given
            the one that their user wants, for GSPMD.
          decode_shardings: whether shardings are `NamedSharding`s where the mesh can express them,
            instead of those of the compiler.
          sharding_rule: for Shardy, text such as "i k, k j -> i j" (see
            `jax.experimental.custom_partitioning.SdyShardingRule`), an `SdyShardingRule`, or a
            function `(mesh, operand types, result types)` -> one of these, of MLIR types.
          reduction_factors, need_replication_factors, permutation_factors, **factor_sizes: for a
            rule given as text, see `SdyShardingRule`.

        Returns:
          `partition`.

        Raises:
          ValueError: the rule is not valid.
        """
        kinds = dict(
            reduction_factors=reduction_factors,
            need_replication_factors=need_replication_factors,
            permutation_factors=permutation_factors,
        )
        given = {k: v for k, v in (kinds | factor_sizes).items() if v != ()}
        is_text = not (
            sharding_rule is None
            or isinstance(sharding_rule, SdyShardingRule)
            or callable(sharding_rule)
        )
        if given and not is_text:
            raise ValueError(
                f"Unknown keyword arguments: {given}: they are for a sharding_rule given as text."
            )
        if is_text:
            sharding_rule = str_to_sdy_sharding_rule(sharding_rule, **kinds, **factor_sizes)
        if not callable(partition):
            raise TypeError(f"def_partition takes a function as partition, got {partition!r}.")
        self.partition = partition
        self.infer_sharding_from_operands = infer_sharding_from_operands
        self.propagate_user_sharding = propagate_user_sharding
        self.decode_shardings = decode_shardings
        self.sharding_rule = sharding_rule
        return partition

    @api_boundary
    def __call__(self, *args, **kwargs):
        name = fun_name(self.fun)
        if self.partition is None:
            raise AttributeError(
                f"No partition rule is defined for the custom_partitioning function {name}: call its"
                " def_partition."
            )
        args = self._positional(name, args, kwargs)
        statics, dynamic = self._split(name, args)
        flat, in_tree = tree_flatten(tuple([args[i] for i in dynamic]))
        call, out_tree = self._stage(args, statics, dynamic, flat, in_tree)
        shardy = config.use_shardy_partitioner.value
        outs = custom_partitioning_p.bind(
            *flat,
            call=call,
            partition=self.partition,
            propagate_user_sharding=None if shardy else self.propagate_user_sharding,
            infer_sharding_from_operands=None if shardy else self.infer_sharding_from_operands,
            decode_shardings=self.decode_shardings,
            sharding_rule=self._shardy_rule() if shardy else None,
            in_tree=in_tree,
            out_tree=out_tree,
            static_args=tuple([args[i] for i in statics]),
        )
        return tree_unflatten(out_tree, outs)

    def _positional(self, name: str, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """Return all arguments by position, with defaults."""
        if self._signature is None:
            self._signature = inspect.signature(self.fun)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"custom_partitioning function {name} cannot have keyword-only arguments, got"
                f" {list(bound.kwargs)}."
            )
        return bound.args

    def _shardy_rule(self) -> Any:
        gspmd = (self.infer_sharding_from_operands, self.propagate_user_sharding)
        if self.sharding_rule is None and gspmd != (None, None):
            raise NotImplementedError(
                "Shardy is used, but sharding propagation callbacks instead of sharding_rule are"
                " provided. Need to provide sharding_rule to migrate to Shardy."
            )
        return self.sharding_rule

    def _split(self, name: str, args: Sequence[Any]) -> tuple[list[int], list[int]]:
        """Return the positions of static and of other arguments, after checking the former."""
        n = len(args)
        for i in self.static_argnums:
            if not -n <= i < n:
                raise IndexError(
                    f"static_argnums={self.static_argnums} of the custom_partitioning function"
                    f" {name} is out of range for a call with {n} arguments."
                )
        statics = [i + n if i < 0 else i for i in self.static_argnums]
        for i in statics:
            if any(isinstance(x, core.Tracer) for x in tree_flatten(args[i])[0]):
                raise UnexpectedTracerError(
                    f"Found a JAX Tracer object passed as argument {i} of the custom_partitioning"
                    f" function {name}, which static_argnums says is a Python value."
                )
            try:
                hash(args[i])
            except TypeError:
                raise TypeError(
                    f"Static argument {i} of the custom_partitioning function {name} must be"
                    f" hashable, got {args[i]!r} of type {type(args[i])}."
                ) from None
        return statics, [i for i in range(n) if i not in statics]

    def _stage(
        self, args: Any, statics: list[int], dynamic: list[int], flat: list[Any], in_tree: PyTreeDef
    ) -> tuple[ClosedJaxpr, PyTreeDef]:
        avals = [typeof(x) for x in flat]
        static_values = tuple([(i, args[i]) for i in statics])
        key = ("custom_partitioning", in_tree, tuple(avals), static_values, config.trace_context())
        table = api_util.trace_table(self.fun)
        staged = table.get(key)
        if staged is None:
            api_util.check_may_trace(self.fun, "custom_partitioning")
            fun, _ = api_util.argnums_partial(self.fun, dynamic, args)
            flat_fun, out_tree = api_util.flatten_fun_nokwargs(fun, in_tree)
            info = api_util.debug_info(
                "custom_partitioning", self.fun, args, {}, static_argnums=tuple(statics)
            )
            jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(flat_fun, avals, info)
            if any(core.is_tracer_or_ref(c) for c in consts):
                raise UnexpectedTracerError(
                    f"The custom_partitioning function {fun_name(self.fun)} closes over a value that"
                    " is involved in a JAX transformation, or over a reference. Pass it as an"
                    " argument."
                )
            if effects.ordered_effects.filter_in(jaxpr.effects):
                raise NotImplementedError(
                    f"The custom_partitioning function {fun_name(self.fun)} has ordered effects,"
                    f" which are not supported: {', '.join(map(str, jaxpr.effects))}."
                )
            staged = table[key] = ClosedJaxpr(jaxpr, consts), out_tree()
        return staged


# The primitive

custom_partitioning_p = Primitive("custom_partitioning", multiple_results=True)
custom_partitioning_p.def_effectful_abstract_eval(
    lambda *_, call, **__: (call.out_avals, call.effects)
)
custom_partitioning_p.def_impl(
    lambda *args, call, **_: [late.to_array(x) for x in core.jaxpr_as_fun(call)(*args)]
)


def _lowering(ctx: Any, *args: Any, call: ClosedJaxpr, sharding_rule: Any, **params: Any) -> Any:
    module_ctx = ctx.module_context
    axis_context = module_ctx.axis_context
    mesh = _mesh_of(axis_context)
    manual = isinstance(axis_context, SPMDAxisContext) and mesh.empty
    if manual or is_single_device(module_ctx):
        return mlir.lower_jaxpr_inline(ctx, call, "custom_partitioning", *args)
    operands = mlir.flatten_ir_values(args)
    types = [mlir.aval_to_ir_types(module_ctx, a) for a in ctx.avals_out]
    result_types = mlir.flatten_ir_types(types)
    rules = _Rules(call, mesh, axis_context, module_ctx.platforms, **params)
    module_ctx.add_keepalive(rules)
    attributes = {}
    if config.use_shardy_partitioner.value:
        rule = _evaluated(sharding_rule, rules, [x.type for x in operands], result_types)
        if rule is not None:
            attributes["sdy.sharding_rule"] = rule
    elif rules.infer is None:
        raise NotImplementedError(
            "GSPMD is used, but the custom_partitioning function has no"
            " infer_sharding_from_operands: pass one to its def_partition."
        )
    op = mlir.custom_call(
        _TARGET,
        result_types=result_types,
        operands=operands,
        backend_config=rules.key,
        has_side_effect=bool(call.effects),
        extra_attributes=attributes,
    )
    return mlir.unflatten_ir_values_like_types(op.results, types)


mlir.register_lowering(custom_partitioning_p, _lowering, cacheable=False)


def _evaluated(rule: Any, rules: _Rules, operand_types: Any, result_types: Any) -> Any:
    """Convert a rule, which may be a function, to Shardy's form."""
    if callable(rule):
        rule = rule(*rules.static_args, rules.mesh, list(operand_types), list(result_types))
        if isinstance(rule, str):
            rule = str_to_sdy_sharding_rule(rule)
        elif not isinstance(rule, SdyShardingRule):
            raise ValueError(
                "sharding_rule callable must produce either an SdyShardingRule object or an"
                f" Einsum-like notation string, got {rule!r}."
            )
    if rule is None:
        return None
    return sdy_sharding_rule_to_mlir(rule, operand_types, result_types)


def _mesh_of(axis_context: Any) -> Any:
    """Return the mesh that shardings refer to: the one in context, or that of the arguments."""
    if isinstance(axis_context, SPMDAxisContext):
        mesh = axis_context.mesh
        auto = [i for i, n in enumerate(mesh.axis_names) if n not in axis_context.manual_axes]
        sizes = tuple([mesh.axis_sizes[i] for i in auto])
        return AbstractMesh(sizes, tuple([mesh.axis_names[i] for i in auto]))
    mesh = get_concrete_mesh()
    if not mesh.empty:
        return mesh
    abstract, devices = axis_context.abstract_mesh, axis_context.device_assignment
    if abstract is None or abstract.empty or devices is None:
        return empty_concrete_mesh if abstract is None else abstract
    return Mesh(
        np.array(devices).reshape(abstract.axis_sizes), abstract.axis_names, abstract.axis_types
    )


# Partitioning

# Settings of the lowering thread under which the functions run, since XLA calls from another one.
_SETTINGS = (
    config.enable_x64,
    config.default_matmul_precision,
    config.numpy_dtype_promotion,
    config.numpy_rank_promotion,
    config.threefry_partitionable,
    config.use_shardy_partitioner,
)
_keys = itertools.count(1)
_rules_by_key: weakref.WeakValueDictionary[str, _Rules] = weakref.WeakValueDictionary()


class _Rules:
    """The functions that partition one operation of a module, and what they are called with."""

    def __init__(
        self,
        call: ClosedJaxpr,
        mesh: Any,
        axis_context: Any,
        platforms: Sequence[str],
        partition: Callable,
        propagate_user_sharding: Callable | None,
        infer_sharding_from_operands: Callable | None,
        decode_shardings: bool,
        in_tree: PyTreeDef,
        out_tree: PyTreeDef,
        static_args: tuple,
    ):
        self.in_avals = [core.physical_aval(a) for a in call.in_avals]
        self.out_avals = [core.physical_aval(a) for a in call.out_avals]
        self.mesh = mesh
        # Within shard_map, shardings are over the axes that are not manual, not over all devices.
        manual = isinstance(axis_context, SPMDAxisContext)
        self.devices = None if manual else axis_context.device_assignment
        self.platforms = platforms
        self.user_partition = partition
        self.propagate = propagate_user_sharding
        self.infer = infer_sharding_from_operands
        self.decode = decode_shardings
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.static_args = static_args
        self.settings = [(state, state.value) for state in _SETTINGS]
        self.pending: Exception | None = None  # of functions that must not raise
        self.compile_error: Exception | None = None  # the cause of the compiler's error
        self.key = str(next(_keys))
        self.keepalives: list[Any] = []
        _rules_by_key[self.key] = self

    def in_settings(self) -> ExitStack:
        stack = ExitStack()
        for state, value in self.settings:
            stack.enter_context(state(value))
        return stack

    # Shardings

    def decoded(self, hlo_sharding: Any, ndim: int) -> Sharding:
        """Return a sharding of the compiler as the user sees it."""
        if self.decode and not self.mesh.empty:
            try:
                (spec,) = parse_flatten_op_sharding(hlo_sharding, self.mesh)
                if len(spec):
                    spec = spec._normalized_spec_for_aval(ndim)
                return NamedSharding(self.mesh, spec)
            except (IndivisibleError, NotImplementedError):
                pass  # the axes of the mesh cannot describe it
        if self.devices is None:
            raise NotImplementedError(
                f"The sharding {hlo_sharding} of an argument or result of custom_partitioning cannot be"
                f" expressed over the mesh {self.mesh}: constrain that array with"
                " jax.lax.with_sharding_constraint."
            )
        return GSPMDSharding(self.devices, hlo_sharding)

    def shapes(self, tree: PyTreeDef, avals: Sequence[Any], shardings: Sequence[Any]) -> Any:
        return tree.unflatten(
            [
                ShapeDtypeStruct(a.shape, a.dtype, sharding=self.decoded(s, a.ndim))
                for a, s in zip(avals, shardings)
            ]
        )

    def operand_shapes(self, shardings: Sequence[Any]) -> Any:
        return self.shapes(self.in_tree, self.in_avals, shardings)

    def result_shapes(self, sharding: Any) -> Any:
        single = len(self.out_avals) == 1
        parts = [sharding] if single else sharding.tuple_elements()
        return self.shapes(self.out_tree, self.out_avals, parts)

    def checked(self, what: str, given: Any, tree: PyTreeDef, avals: Sequence[Any]) -> list[Any]:
        """Return the leaves of the user's shardings, which must be a sharding for each array."""
        try:
            leaves = tree.flatten_up_to(given)
        except ValueError as err:
            raise ValueError(
                f"The {what} shardings must have the structure of the {what}s, {tree}, got {given}:"
                f" {err}"
            ) from None
        for sharding, aval in zip(leaves, avals):
            if not isinstance(sharding, Sharding):
                raise ValueError(
                    "Custom Partitioning rules must return Sharding objects, got"
                    f" {sharding!r} of type {type(sharding)} for the {what} of type {aval}."
                )
        return leaves

    def result_hlo_sharding(self, shape: Any, shardings: Sequence[Sharding]) -> Any:
        parts = [s._to_xla_hlo_sharding(a.ndim) for s, a in zip(shardings, self.out_avals)]
        return parts[0] if len(parts) == 1 else lib.hlo.HloSharding.tuple_sharding(shape, parts)

    # Called by XLA

    def propagated(self, sharding: Any, shape: Any) -> Any:
        if self.propagate is None:
            return sharding
        given = self.propagate(*self.static_args, self.mesh, self.result_shapes(sharding))
        leaves = self.checked("result", given, self.out_tree, self.out_avals)
        return self.result_hlo_sharding(shape, leaves)

    def inferred(self, operand_shardings: Sequence[Any], shape: Any) -> Any:
        given = self.infer(  # type: ignore[misc]
            *self.static_args,
            self.mesh,
            self.operand_shapes(operand_shardings),
            self.out_tree.unflatten([ShapedArray(a.shape, a.dtype) for a in self.out_avals]),
        )
        leaves = self.checked("result", given, self.out_tree, self.out_avals)
        return self.result_hlo_sharding(shape, leaves)

    def partitioned(self, operand_shardings: Sequence[Any], shape: Any, sharding: Any) -> Any:
        if self.pending is not None:
            error, self.pending = self.pending, None
            raise error
        returned = self.user_partition(
            *self.static_args,
            self.mesh,
            self.operand_shapes(operand_shardings),
            self.result_shapes(sharding),
        )
        if not isinstance(returned, (tuple, list)) or len(returned) != 4:
            raise ValueError(
                "partition must return a mesh, a function, the results' shardings and a tuple of the"
                f" arguments' shardings, got {returned!r}"
            )
        mesh, fun, result_shardings, arg_shardings = returned
        if not isinstance(mesh, (Mesh, AbstractMesh)):
            raise TypeError(
                f"partition must return a mesh first, got {mesh!r} of type {type(mesh)}"
            )
        outs = self.checked("result", result_shardings, self.out_tree, self.out_avals)
        ins = self.checked("argument", arg_shardings, self.in_tree, self.in_avals)
        module = self.module_for_shards(mesh, fun, ins, outs)
        in_hlo = [s._to_xla_hlo_sharding(a.ndim) for s, a in zip(ins, self.in_avals)]
        return module, in_hlo, self.result_hlo_sharding(shape, outs)

    def module_for_shards(self, mesh: Any, fun: Callable, ins: Any, outs: Any) -> bytes:
        """Lower the function that one device runs on its shards."""
        in_avals = [_shard_aval(a, s) for a, s in zip(self.in_avals, ins)]
        out_avals = [_shard_aval(a, s) for a, s in zip(self.out_avals, outs)]
        axes = frozenset(mesh.axis_names)
        flat_fun, _ = api_util.flatten_fun_nokwargs(fun, self.in_tree)
        info = api_util.debug_info("custom_partitioning", fun, (), {})
        with body_context(mesh, axes, False):
            jaxpr, found, consts = pe.trace_to_jaxpr_dynamic(flat_fun, in_avals, info)
        if any(isinstance(c, core.Tracer) for c in consts):
            raise UnexpectedTracerError(
                f"The function {fun_name(fun)} returned by partition closes over a value that is"
                " involved in a JAX transformation."
            )
        if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in out_avals]:
            raise ValueError(
                f"Mismatch in result shapes: the function {fun_name(fun)} returned by partition gives"
                f" {', '.join(map(str, found))}, but the shards of the results are"
                f" {', '.join(map(str, out_avals))}."
            )
        others = [e for e in jaxpr.effects if not isinstance(e, core.NamedAxisEffect)]
        result = mlir.lower_jaxpr_to_module(
            "custom_partitioning",
            ClosedJaxpr(jaxpr.replace(effects=frozenset(others)), consts),
            num_const_args=0,
            in_avals=None,
            ordered_effects=(),
            platforms=self.platforms,
            backend=None,
            axis_context=SPMDAxisContext(mesh, axes),
            donated_args=None,
            lowering_parameters=None,
        )
        if result.host_callbacks or others:
            raise NotImplementedError(
                f"The function {fun_name(fun)} returned by partition calls Python functions or has"
                " other effects, which is not supported."
            )
        self.keepalives += result.keepalive or ()
        return mlir.module_to_bytecode(result.module)


def _shard_aval(aval: ShapedArray, sharding: Sharding) -> ShapedArray:
    return ShapedArray(sharding.shard_shape(aval.shape), aval.dtype)


# What XLA calls, with these arguments, for the operations of a module


def _on_propagate(sharding: Any, shape: Any, backend_config: bytes) -> Any:
    rules = _rules_by_key.get(backend_config.decode())
    if rules is not None:
        try:
            with rules.in_settings():
                return rules.propagated(sharding, shape)
        except Exception as err:  # `_on_partition` raises it: an error here would end the process
            rules.pending = rules.pending or err
    return sharding


def _on_infer(
    operand_shapes: Any, operand_shardings: Any, shape: Any, backend_config: bytes
) -> Any:
    rules = _rules_by_key.get(backend_config.decode())
    if rules is not None:
        try:
            with rules.in_settings():
                return rules.inferred(operand_shardings, shape)
        except Exception as err:
            rules.pending = rules.pending or err
    replicated = lib.hlo.HloSharding.replicate()
    if not shape.is_tuple():
        return replicated
    return lib.hlo.HloSharding.tuple_sharding(shape, [replicated] * len(shape.tuple_shapes()))


def _on_partition(
    operand_shapes: Any, operand_shardings: Any, shape: Any, sharding: Any, backend_config: bytes
) -> Any:
    rules = _rules_by_key.get(backend_config.decode())
    if rules is None:
        raise RuntimeError(
            "The functions that partition a custom_partitioning operation do not exist any more, or"
            " are those of another process: compile the module where it was made."
        )
    rules.compile_error = None  # of an earlier attempt
    try:
        with rules.in_settings():
            return rules.partitioned(operand_shardings, shape, sharding)
    except Exception as err:
        rules.compile_error = err
        raise


_TARGET = "CustomSPMDPartitioning"
xla_bridge.register_partitioner(_TARGET, _on_propagate, _on_partition, _on_infer)
