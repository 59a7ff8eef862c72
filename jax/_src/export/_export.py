"""`export` and `Exported`: lowering a jitted function to a module that other processes can call."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax._src import api, config, core, stages, traceback_util, xla_bridge as xb
from jax._src.array_impl import aval_with_sharding
from jax._src.export import derivatives, serialization
from jax._src.export.calling import (
    call,
    call_exported_p as call_exported_p,
    eager_program,
    flat_function,
    parse_module,
)
from jax._src.export.checks import DisabledSafetyCheck, argument_paths, check_custom_calls
from jax._src.export.shape_poly.assertions import add_shape_assertions
from jax._src.export.shape_poly.solving import check_one_scope
from jax._src.export.shardings import check_mesh, hlo_over_mesh, over_mesh, without_devices
from jax._src.export.versions import (
    maximum_supported_calling_convention_version as maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version as minimum_supported_calling_convention_version,
    requested_calling_convention,
    stablehlo_version,
)
from jax._src.interpreters import lojax, mlir, pxla
from jax._src.jit.jitted import state_of
from jax._src.lib import _jax
from jax._src.lib.mlir import ir
from jax._src.memory import SPACE_OF_KIND
from jax._src.mesh import AbstractMesh, Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.sharding import Sharding
from jax._src.sharding_impls import UNSPECIFIED
from jax._src.tree_util import PyTreeDef, tree_flatten, tree_structure, tree_unflatten

traceback_util.register_exclusion(__file__)

HloSharding = Any


@dataclasses.dataclass(frozen=True)
class Exported:
    """A function that was exported to StableHLO: call it, differentiate it, turn it into bytes.

    Attributes:
      fun_name: the name of the function, for error messages.
      in_tree: the tree of (args, kwargs).
      in_avals: types of the flat arguments; sizes of dimensions may be symbolic.
      out_tree: the tree of the result.
      out_avals: types of the flat results; their symbolic sizes use variables of `in_avals`.
      in_shardings_hlo, out_shardings_hlo: XLA's shardings of arguments and results, only in programs
        that were exported before March 2026. Use `in_shardings_jax` and `out_shardings_jax`.
      nr_devices: the number of devices that the program was exported for.
      platforms: the platforms that it was exported for.
      ordered_effects, unordered_effects: the effects of the program.
      disabled_safety_checks: checks that were disabled when it was exported.
      mlir_module_serialized: the module, as a portable artifact of StableHLO.
      calling_convention_version: how the module's function `main` is called.
      module_kept_var_idx: the arguments that `main` takes, in order. The others are not used.
      uses_global_constants: whether `main` depends on symbolic dimensions or on the platform, so that
        shapes have to be refined before the module is compiled.

    Values of high types (`jax.experimental.hijax`) are lists of the arrays that represent them. If
    some arguments, or some results, have one, the others are lists too, each of one array.

    Fields that start with an underscore may change.

    Example:
      >>> from jax import export
      >>> exported = export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((2,), jnp.float32))
      >>> exported.in_avals
      (ShapedArray(float32[2]),)
      >>> export.deserialize(exported.serialize()).call(jnp.zeros(2))
      Array([0., 0.], dtype=float32)
    """

    fun_name: str
    in_tree: PyTreeDef
    in_avals: tuple[core.ShapedArray, ...]
    out_tree: PyTreeDef
    out_avals: tuple[core.ShapedArray, ...]

    _has_named_shardings: bool
    _in_named_shardings: tuple[NamedSharding | None, ...]
    _out_named_shardings: tuple[NamedSharding | None, ...]

    in_shardings_hlo: tuple[HloSharding | None, ...]
    out_shardings_hlo: tuple[HloSharding | None, ...]
    nr_devices: int

    platforms: tuple[str, ...]
    ordered_effects: tuple[core.Effect, ...]
    unordered_effects: tuple[core.Effect, ...]
    disabled_safety_checks: Sequence[DisabledSafetyCheck]

    mlir_module_serialized: bytes
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool

    _get_vjp: Callable[[Exported], Exported] | None

    def __hash__(self) -> int:
        found = self.__dict__.get("_hash")
        if found is None:
            found = hash((self.fun_name, self.mlir_module_serialized, self.in_avals))
            object.__setattr__(self, "_hash", found)
        return found

    @functools.cached_property
    def _flat_function(self) -> Any:
        return flat_function(self)

    @functools.cached_property
    def _eager_program(self) -> Any:
        return eager_program(self)

    @functools.cached_property
    def _vjp(self) -> Exported:
        assert self._get_vjp is not None
        return self._get_vjp(self)

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    def mlir_module(self, serialized: bool = True) -> Any:
        """The StableHLO module.

        Args:
          serialized: whether to return text; otherwise an `ir.Module`, in the current MLIR context
            if there is one.
        """
        current = ir.Context.current
        module = parse_module(self, mlir.make_ir_context() if current is None else current)
        return mlir.module_to_string(module, enable_debug_info=True) if serialized else module

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, also within other functions that are transformed or exported.

        It can be differentiated in reverse mode, as often as `has_vjp` says.

        Args:
          *args, **kwargs: trees of arrays, as those that the function was exported for.

        Raises:
          ValueError: they have other types or trees, or are on another number of devices or on a
            platform that the function was not exported for.
        """
        return call(self, args, kwargs)

    def has_vjp(self) -> bool:
        """Whether the function can be differentiated."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The exported derivative.

        It takes the flat arguments, then a cotangent for each flat result, and returns a tuple of
        cotangents of the flat arguments.

        Raises:
          ValueError: the function was loaded from bytes that do not have it.
        """
        if self._get_vjp is None:
            raise ValueError(
                f"No VJP is available for '{self.fun_name}': it was loaded from bytes without one, or "
                "takes or returns values of high types. Serialize it with `vjp_order`, the number of times "
                "it can be differentiated; or export a function that calls jax.vjp and returns arrays."
            )
        return self._vjp

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The bytes of the exported function, for `jax.export.deserialize`.

        It needs the package `flatbuffers`.

        Args:
          vjp_order: how often the deserialized function can be differentiated.

        Raises:
          ValueError: `vjp` is not available to that order, or the types of arguments or results
            have no form in bytes.
        """
        return serialization.serialize(self, vjp_order)

    def in_shardings_jax(self, mesh: Mesh | AbstractMesh | None) -> Sequence[Sharding | None]:
        """Shardings of the flat arguments, over the given mesh; None where unspecified.

        Args:
          mesh: a mesh with axes of the same names and sizes as the one used for export; None for
            that one, an `AbstractMesh`.

        Raises:
          TypeError, ValueError: it is no mesh, or has other axes.
        """
        return self._over(mesh, self._in_named_shardings, self.in_shardings_hlo)

    def out_shardings_jax(self, mesh: Mesh | AbstractMesh | None) -> Sequence[Sharding | None]:
        """Shardings of the flat results, over the given mesh; see `in_shardings_jax`."""
        return self._over(mesh, self._out_named_shardings, self.out_shardings_hlo)

    def _over(
        self, mesh: Any, named: Sequence[NamedSharding | None], hlo_shardings: Sequence[Any]
    ) -> tuple[Sharding | None, ...]:
        if mesh is not None:
            check_mesh(mesh)
        if self._has_named_shardings:
            return tuple([over_mesh(s, mesh) for s in named])
        return tuple([hlo_over_mesh(s, mesh) for s in hlo_shardings])


def default_export_platform() -> str:
    """The platform that functions are exported for by default: `"cpu"`, `"cuda"`, `"rocm"`, `"tpu"`.

    >>> jax.export.default_export_platform() in ("cpu", "cuda", "rocm", "tpu")
    True
    """
    return xb.canonicalize_platform(xb.default_backend())


def export(
    fun_jit: stages.Wrapped,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
    _override_lowering_rules: Sequence[tuple[Any, Any]] | None = None,
) -> Callable[..., Exported]:
    """Exports a jitted function to StableHLO, for later calls in other processes.

    Args:
      fun_jit: the result of `jax.jit`, or a function of `jax.numpy`.
      platforms: the platforms to export for, such as `("cpu", "cuda", "rocm", "tpu")`; the default
        one if None. With several, the module takes their index as its first argument.
      disabled_checks: safety checks to skip.
      _override_lowering_rules: pairs of a primitive and the lowering rule to use for it.

    Returns:
      A function of arguments, arrays or `jax.ShapeDtypeStruct`, that returns the `Exported`.

    Raises:
      ValueError: the function is not jitted; or, when it is called, the program cannot be stored.

    Example:
      >>> from jax import export
      >>> exported = export.export(jax.jit(lambda x: 2 * x), platforms=("cpu", "tpu"))(1.)
      >>> exported.platforms
      ('cpu', 'tpu')
      >>> exported.call(3.)
      Array(6., dtype=float32, weak_type=True)
    """
    jitted = _jitted(fun_jit)
    if isinstance(platforms, str):
        raise ValueError(f"platforms must be a sequence of names, such as ({platforms!r},)")
    checks = tuple(disabled_checks)
    for check in checks:
        if not isinstance(check, DisabledSafetyCheck):
            raise TypeError(f"disabled_checks must hold DisabledSafetyChecks, got {check!r}")
    overrides = None if _override_lowering_rules is None else tuple(_override_lowering_rules)

    @traceback_util.api_boundary
    def do_export(*args, **kwargs) -> Exported:
        names = tuple(platforms) if platforms else (default_export_platform(),)
        names = tuple([xb.canonicalize_platform(p) for p in names])
        _check_scopes(args, kwargs)
        return _export_traced(jitted.trace(*args, **kwargs), names, checks, overrides)

    return do_export


def deserialize(blob: bytes | bytearray) -> Exported:
    """The exported function that `Exported.serialize` has turned into bytes.

    The bytes may come from anywhere: they are checked, and reading them runs no code but that of
    classes registered by `register_pytree_node_serialization`.

    Args:
      blob: the bytes.

    Raises:
      ValueError: the bytes are damaged, or refer to classes or effects that are not registered here.
    """
    return serialization.deserialize(blob, Exported)


def _check_scopes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Checks that dimensions have one scope, before the function compares those of several."""
    leaves, tree = tree_flatten((args, kwargs))
    shapes = [getattr(leaf, "shape", None) for leaf in leaves]
    sizes = [
        (d, i, axis)
        for i, shape in enumerate(shapes)
        if isinstance(shape, tuple)
        for axis, d in enumerate(shape)
        if core.is_symbolic_dim(d)
    ]
    if sizes:
        paths = argument_paths(tree)
        check_one_scope([(d, f"{paths[i]}.shape[{axis}]") for d, i, axis in sizes])


def _jitted(fun: Any) -> Any:
    state = state_of(fun)
    if state is not None and state.transform == "pmap":
        raise ValueError(
            f"Function to be exported must be the result of `jit` but is: {fun}, a result of `pmap`, "
            "whose devices are part of it. Use jax.jit of a jax.shard_map."
        )
    if getattr(fun, "trace", None) is not None and hasattr(fun, "lower"):
        return fun
    if callable(fun) and str(getattr(fun, "__module__", "")).startswith("jax."):
        return api.jit(fun)  # a library function
    raise ValueError(
        f"Function to be exported must be the result of `jit` but is: {fun}. Use "
        "jax.export.export(jax.jit(f)); arguments that are not arrays are static_argnames of jax.jit."
    )


def _export_traced(
    traced: stages.Traced,
    platforms: tuple[str, ...],
    checks: tuple[DisabledSafetyCheck, ...],
    overrides: tuple[tuple[Any, Any], ...] | None,
) -> Exported:
    version = requested_calling_convention()
    if traced._consts:
        raise ValueError(
            f"Cannot export '{traced.fun_name}': it closes over values that are being traced. Pass them "
            "as arguments."
        )
    signature = _signature(traced)
    parameters = mlir.LoweringParameters(
        override_lowering_rules=overrides,
        for_export=True,
        export_ignore_forward_compatibility=config.export_ignore_forward_compatibility.value,
    )
    lowered = traced.lower(lowering_platforms=platforms, _private_parameters=parameters)
    program: pxla.MeshComputation = lowered._lowering
    lowering, info = program.lowering_result, program.info
    if lowering.host_callbacks or lowering.keepalive:
        raise NotImplementedError(
            f"Cannot export '{traced.fun_name}': it calls Python functions (by jax.pure_callback, "
            "io_callback or jax.debug), and serialization of host_callbacks is not yet implemented. "
            "Leave them out of what is exported."
        )
    module = lowering.module
    uses_global_constants = lowering.shape_poly_state.uses_dim_vars
    _add_shape_assertions(module, signature, len(platforms) > 1, len(info.ordered_effects))
    with module.context:
        attribute = ir.BoolAttr.get(uses_global_constants)
        module.operation.attributes["jax.uses_shape_polymorphism"] = attribute
    data = _jax.mlir.serialize_portable_artifact(module, stablehlo_version(), True)
    check_custom_calls(module, data, checks)

    jaxpr = traced.jaxpr
    num_args = len(signature.in_avals)
    kept = tuple(range(num_args)) if info.kept_var_idx is None else tuple(info.kept_var_idx)
    in_shardings: list[Any] = [UNSPECIFIED] * num_args
    for i, sharding in zip(kept, info.in_shardings, strict=True):
        in_shardings[i] = sharding

    def get_vjp(_: Exported) -> Exported:
        fun, avals = derivatives.vjp_function(jaxpr, in_shardings, info.out_shardings)
        args = [core.ShapeDtypeStruct.from_aval(a) for a in avals]
        return _export_traced(fun.trace(*args), platforms, checks, overrides)

    return Exported(
        fun_name=traced.fun_name,
        in_tree=signature.in_tree,
        in_avals=tuple(map(aval_with_sharding, signature.in_avals, in_shardings)),
        out_tree=signature.out_tree,
        out_avals=tuple(map(_in_memory_of, signature.out_avals, info.out_shardings)),
        _has_named_shardings=True,
        _in_named_shardings=_without_devices(in_shardings, signature.in_avals),
        _out_named_shardings=_without_devices(info.out_shardings, signature.out_avals),
        in_shardings_hlo=(None,) * num_args,
        out_shardings_hlo=(None,) * len(signature.out_avals),
        nr_devices=program.num_devices,
        platforms=platforms,
        ordered_effects=tuple(info.ordered_effects),
        unordered_effects=tuple([e for e in info.unordered_effects if e.is_exported]),
        disabled_safety_checks=checks,
        mlir_module_serialized=data,
        calling_convention_version=version,
        module_kept_var_idx=kept,
        uses_global_constants=uses_global_constants,
        _get_vjp=None if signature.has_high_types else get_vjp,
    )


class _Signature(NamedTuple):
    """Trees and types of arguments and results. A value of a high type is a list of its arrays."""

    in_tree: PyTreeDef
    in_avals: tuple[core.ShapedArray, ...]
    out_tree: PyTreeDef
    out_avals: tuple[core.ShapedArray, ...]
    has_high_types: bool


def _signature(traced: stages.Traced) -> _Signature:
    in_types, out_types = traced.jaxpr.in_aval_qdds, traced.jaxpr.out_avals
    for aval in (*in_types, *out_types):
        if aval.has_qdd or not (aval.is_high or isinstance(aval, core.ShapedArray)):
            raise ValueError(
                f"Cannot export '{traced.fun_name}': a value of type {aval} has no form in another "
                "process. Arguments and results must be arrays, or values that arrays represent, not "
                "references."
            )
    in_tree, in_avals = _low_form(traced.in_tree, in_types)
    out_tree, out_avals = _low_form(traced.out_tree, out_types)
    has_high_types = any(aval.is_high for aval in (*in_types, *out_types))
    return _Signature(in_tree, in_avals, out_tree, out_avals, has_high_types)


def _low_form(tree: PyTreeDef, types: Sequence[Any]) -> tuple[PyTreeDef, tuple[Any, ...]]:
    """The tree and the types of arrays for those of values.

    If some types are high, each value is a list, that of the arrays that represent it.
    """
    if not any(t.is_high for t in types):
        return tree, tuple(types)
    parts = [list(lojax.lo_types(t)) for t in types]
    return tree_structure(tree_unflatten(tree, parts)), tuple([t for part in parts for t in part])


def _add_shape_assertions(
    module: Any, signature: _Signature, has_platform_index: bool, num_tokens: int
) -> None:
    """Makes `main` compute its dimension variables, if it has any, from the shapes of arguments."""
    avals = signature.in_avals
    if all(core.is_constant_shape(getattr(a, "shape", ())) for a in avals):
        return
    if "jax.uses_shape_polymorphism" in module.operation.attributes:
        return  # the module is kept, and has been exported before
    paths = argument_paths(signature.in_tree)
    add_shape_assertions(module, avals, paths, int(has_platform_index), num_tokens)


def _in_memory_of(aval: core.ShapedArray, sharding: Any) -> core.ShapedArray:
    """The type of a result that `out_shardings` has moved to another memory."""
    kind = None if sharding is UNSPECIFIED else sharding.memory_kind
    return aval.update(memory_space=SPACE_OF_KIND.get(kind, aval.memory_space))


def _without_devices(shardings: Sequence[Any], avals: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([without_devices(s, a.ndim) for s, a in zip(shardings, avals, strict=True)])
