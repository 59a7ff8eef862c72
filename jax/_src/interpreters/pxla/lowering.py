"""Lowering a jaxpr, with what is known of its arguments, to a module that can be compiled."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jax._src import (
    config,
    core,
    effects as effects_lib,
    lib,
    source_info_util,
    util,
    xla_bridge as xb,
)
from jax._src.compiler import (
    JAXPR_TO_MLIR_MODULE_EVENT,
    check_compiler_options,
    config_key,
    is_compile_only,
    log_elapsed_time,
)
from jax._src.interpreters import mlir, partial_eval as pe
from jax._src.interpreters.pxla import prompt_operations, tiers
from jax._src.interpreters.pxla.executable import MeshExecutable, ProgramInfo, compile_lowered
from jax._src.interpreters.pxla.lowered_modules import LoweredModule, find_or_lower
from jax._src.interpreters.pxla.placement import (
    Placement,
    check_divisible,
    concretize,
    find_placement,
    jaxpr_memory_kinds,
    resolve_in_layouts,
    resolve_in_shardings,
)
from jax._src.late_binding import late
from jax._src.layout import AutoLayout
from jax._src.lib import Device, _jax
from jax._src.memory import DEVICE_KIND, MemorySpace
from jax._src.mesh import Mesh
from jax._src.sharding_impls import UNSPECIFIED, ShardingContext, UnspecifiedValue

if TYPE_CHECKING:
    from jax._src.core.avals import AbstractValue

logger = logging.getLogger("jax._src.interpreters.pxla")


# Called with each jaxpr that is lowered, and the name of the program.
lowering_listeners: list[Callable[[core.ClosedJaxpr, str], None]] = []


class NoDevicesError(RuntimeError, ValueError):
    """A program for an abstract mesh has no devices.

    JAX raises RuntimeError where such a program is compiled, and ValueError where it is called.
    """


class MeshComputation:
    """A program lowered to StableHLO, with the information for compiling it.

    Attributes:
      out_avals: types of the results.
      in_avals: types of the arguments that the module takes.
    """

    __slots__ = (
        "_name", "_module", "_lowered", "_hlo", "_info", "_placement", "_platforms", "_compiler_options_kvs",
    )  # fmt: skip

    def __init__(
        self,
        name: Any,
        module: Any,
        lowered: Any,
        info: Any,
        placement: Any,
        platforms: Any,
        compiler_options_kvs: Any,
    ) -> None:
        self._name: str = name
        self._module: LoweredModule = module
        self._lowered: mlir.LoweringResult = lowered
        self._hlo = lowered.module
        self._info: ProgramInfo = info
        self._placement: Placement = placement
        self._platforms: tuple[str, ...] = platforms
        self._compiler_options_kvs = tuple(compiler_options_kvs)

    in_avals = property(lambda self: self._info.in_avals)
    out_avals = property(lambda self: self._info.out_avals[: self._info.num_outs])
    const_args = property(lambda self: self._info.const_args)

    @property
    def lowering_result(self) -> mlir.LoweringResult:
        """The module, and what belongs to it."""
        return self._lowered

    @property
    def info(self) -> ProgramInfo:
        return self._info

    @property
    def num_devices(self) -> int:
        return self._placement.num_devices

    def stablehlo(self) -> Any:
        """Returns the module, an `ir.Module`."""
        return self._hlo

    def hlo(self) -> Any:
        """Returns the program as an `XlaComputation`."""
        return _jax.mlir.mlir_module_to_xla_computation(
            mlir.module_to_bytecode(self._hlo), use_tuple_args=False
        )

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Returns the program as text.

        Args:
          dialect: "stablehlo" (the default) or "hlo".
          debug_info: whether to print locations.

        Raises:
          ValueError: if the dialect is unknown.
        """
        if dialect is None or dialect == "stablehlo":
            return mlir.module_to_string(self._hlo, enable_debug_info=debug_info)
        if dialect == "hlo":
            options = lib.hlo.HloPrintOptions.short_parsable()
            options.print_metadata = debug_info
            return str(self.hlo().get_hlo_module().to_string(options))
        raise ValueError(f"unknown dialect: {dialect}")

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """Returns the program as an `ir.Module`, or for "hlo" as an `XlaComputation`."""
        if dialect is None or dialect == "stablehlo":
            return self.stablehlo()
        if dialect == "hlo":
            return self.hlo()
        raise ValueError(f"unknown dialect: {dialect}")

    def cost_analysis(self) -> dict[str, float] | None:
        """Returns cost estimates for the program before optimization; None for absent devices."""
        backend = self._placement.backend
        if backend is None:
            raise NotImplementedError("cost_analysis: the program is for devices that are not here")
        if is_compile_only(backend):
            return None
        costs: dict[str, float] = _jax.hlo_module_cost_analysis(
            backend, self.hlo().get_hlo_module()
        )
        return costs

    @property
    def mesh(self) -> Any:
        """The mesh that the program is lowered for, or None."""
        return self._placement.mesh

    def compile(
        self,
        compiler_options: dict[str, Any] | None = None,
        *,
        device_assignment: Any = None,
        pgle_profiler: object = None,
        may_improve: bool = False,
        is_prompt: bool = False,
    ) -> MeshExecutable:
        """Compiles the program.

        Args:
          compiler_options: XLA options by name, which override those given to `jit`.
          device_assignment: the devices, if the program was lowered for abstract ones.
          pgle_profiler: what measures its runs, for `jax_enable_pgle`.
          may_improve: whether a quick compilation will do at first, for `jax_cpu_tiered_compilation`.
          is_prompt: whether it is to run in the thread that calls it if that is faster, see
            `prompt_operations`.

        Raises:
          ValueError: if the program was lowered for several platforms or for other devices.
          NoDevicesError: if it was lowered for an abstract mesh, and there are no devices.
        """
        options = dict(self._compiler_options_kvs)
        if compiler_options is not None:
            options.update(check_compiler_options(compiler_options))
        placement, info = self._placement, self._info
        if device_assignment is not None:
            placement = _placed_on(placement, device_assignment)
            if self._placement.devices is None:
                info = info.over(placement.mesh)
        if placement.devices is None:
            raise NoDevicesError(
                "The program was lowered for an abstract mesh: call it in the context of a mesh "
                "of devices (`jax.set_mesh`), or give `compile` the devices, by device_assignment."
            )
        if len(self._platforms) > 1:
            raise ValueError(
                f"The program was lowered for several platforms, {self._platforms}: lower it for one "
                "to compile it, or use jax.export."
            )
        lowered = self._lowered
        is_prompt = is_prompt and prompt_operations.are_wanted(info, placement)
        with self._module.compiling:
            tiered = may_improve and tiers.are_wanted(lowered.module, info, placement, options)
            if info.const_args or lowered.keepalive or lowered.host_callbacks:
                return compile_lowered(
                    lowered, info, placement, options, pgle_profiler, tiered, is_prompt
                )
            key = (is_prompt, *self._executable_key(info, placement, options))
            executable: MeshExecutable | None = self._module.executables.get(key)
            if executable is not None and not (executable.is_final or tiered):
                executable = None  # who asks for it now wants the better one
            if executable is None:
                executable = compile_lowered(
                    lowered, info, placement, options, pgle_profiler, tiered, is_prompt
                )
                self._module.executables[key] = executable
            return executable

    def is_compiled(self) -> bool:
        """Whether `compile` without arguments would find an executable that was made before."""
        options = dict(self._compiler_options_kvs)
        key = self._executable_key(self._info, self._placement, options)
        executables = self._module.executables
        return (False, *key) in executables or (True, *key) in executables

    def _executable_key(
        self, info: ProgramInfo, placement: Placement, options: dict[str, Any]
    ) -> tuple[Any, ...]:
        return (
            placement, info.in_shardings, info.out_shardings, info.kept_var_idx, info.written_refs,
            frozenset(options.items()), config_key(),
        )  # fmt: skip


def _placed_on(placement: Placement, device_assignment: Any) -> Placement:
    """The placement on devices that `compile` was given.

    Raises:
      TypeError: they are no devices.
      ValueError: they are not those that the program was lowered for.
    """
    try:
        devices = tuple(device_assignment)
    except TypeError:
        devices = (device_assignment,)
    for d in devices:
        if not isinstance(d, Device):
            raise TypeError(
                f"device_assignment must be a tuple of devices, got {device_assignment!r}"
            )
    if len(devices) != placement.num_devices:
        raise ValueError(
            f"device_assignment has {len(devices)} devices, the program is for {placement.num_devices}."
        )
    if placement.devices is not None and devices != tuple(placement.devices):
        given, computed = [d.id for d in devices], [d.id for d in placement.devices]
        raise ValueError(
            "device_assignment passed to `.compile` must match the one calculated from the shardings of "
            f"arguments and results. Got device ids {given} on platform {devices[0].platform.upper()}, "
            f"but those calculated are {computed} on platform {placement.devices[0].platform.upper()}. "
            "Place the arguments on the devices before the function is lowered, or lower it for a "
            "jax.sharding.AbstractMesh."
        )
    if placement.devices is not None:
        return placement
    abstract = placement.mesh
    grid = np.array(devices, dtype=object).reshape(abstract.axis_sizes)
    mesh = Mesh(grid, abstract.axis_names, abstract.axis_types)
    return placement._replace(devices=devices, backend=devices[0].client, mesh=mesh)


class Request(NamedTuple):
    """How a program is called, and with which arguments.

    Attributes:
      name: the name of the function.
      api_name: the function that the user called, such as "pjit", for errors.
      args: the arguments, as values or types; committed arrays determine the devices.
      in_shardings, out_shardings: as given by the user, or unspecified.
      in_layouts, out_layouts: as given by the user, or None.
      donated: which arguments' buffers may be reused.
      keep_unused: whether to keep arguments that the results do not depend on.
      ctx_mesh: the current mesh, or None.
      compiler_options_kvs: XLA options, as pairs of name and value.
    """

    name: str
    args: Sequence[Any]
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    in_layouts: Sequence[Any]
    out_layouts: Sequence[Any]
    donated: Sequence[bool]
    keep_unused: bool = False
    ctx_mesh: Any = None
    compiler_options_kvs: Sequence[tuple[str, Any]] = ()
    api_name: str = "jit"

    @property
    def fun_name(self) -> str:
        """The name of the program, also in logs."""
        return util.wrap_name("jit", self.name)

    @property
    def module_name(self) -> str:
        return f"jit_{self.name}"


def lower(
    closed: core.ClosedJaxpr,
    request: Request,
    *,
    platforms: Sequence[str] | None = None,
    lowering_parameters: mlir.LoweringParameters | None = None,
) -> MeshComputation:
    """Lowers a jaxpr.

    Args:
      closed: the jaxpr.
      request: how it is called.
      platforms: the platforms to lower for; the devices' platform if None.
      lowering_parameters: see `mlir.LoweringParameters`.

    Raises:
      ValueError: if arguments are on different devices, or have other shardings than requested.
    """
    for listener in lowering_listeners:
        listener(closed, request.fun_name)
    parameters = lowering_parameters or mlir.LoweringParameters()
    const_args: list[Any] = []
    if closed.consts and parameters.hoist_constants_as_args:
        const_args = list(closed.consts)
        closed, request = _consts_as_args(closed, request)
    arg_types = closed.in_avals
    written: list[int] = []
    if core.has_ref_effects(closed.effects) or core.AbstractRef in map(type, arg_types):
        closed, written = late.discharge(closed)
        request = _written_as_results(request, arg_types, written)
    request = _resolved(closed, request, written)
    whole = closed
    closed, kept = prune_unused(whole, request.keep_unused)
    if kept is not None:  # the placement of unused arguments is irrelevant
        request = request._replace(
            in_shardings=tuple([request.in_shardings[i] for i in kept]),
            in_layouts=tuple([request.in_layouts[i] for i in kept]),
            donated=tuple([request.donated[i] for i in kept]),
        )
    request, placement = _placed(closed, request)
    _report(closed, request)
    ordered, unordered = _effects_of(closed, request, placement)
    platforms = (_platform_of(placement),) if platforms is None else tuple(platforms)
    module, lowered = _find_or_lower(closed, request, placement, platforms, ordered, parameters)
    mlir.dump_module_to_file(lowered.module, "compile")
    mlir.dump_jaxpr_to_file(closed, request.fun_name)
    info = ProgramInfo(
        name=request.fun_name,
        const_args=const_args,
        all_in_avals=arg_types,
        written_refs=tuple(written),
        in_avals=closed.in_avals,
        out_avals=closed.out_avals,
        in_shardings=request.in_shardings,
        out_shardings=request.out_shardings,
        in_layouts=request.in_layouts,
        out_layouts=request.out_layouts,
        kept_var_idx=kept,
        ordered_effects=ordered,
        unordered_effects=unordered,
        debug_info=whole.jaxpr.debug_info,
    )
    return MeshComputation(
        request.fun_name, module, lowered, info, placement, platforms, request.compiler_options_kvs
    )


def _consts_as_args(closed: core.ClosedJaxpr, request: Request) -> tuple[core.ClosedJaxpr, Request]:
    """Turns the constants of the program into leading arguments."""
    n = len(closed.consts)
    request = request._replace(
        args=[*closed.consts, *request.args],
        in_shardings=(UNSPECIFIED,) * n + tuple(request.in_shardings),
        in_layouts=(None,) * n + tuple(request.in_layouts),
        donated=(False,) * n + tuple(request.donated),
    )
    return pe.close_jaxpr(pe.convert_constvars_jaxpr(closed.jaxpr)), request


def _written_as_results(
    request: Request, arg_types: Sequence[core.AbstractValue], written: Sequence[int]
) -> Request:
    """Adds the new contents of references to the results, and donates the references' buffers."""
    donated = [
        i in written if type(a) is core.AbstractRef else d
        for i, (a, d) in enumerate(zip(arg_types, request.donated))
    ]
    return request._replace(
        donated=tuple(donated),
        out_layouts=(*request.out_layouts, *[None] * len(written)),
        out_shardings=(*request.out_shardings, *[UNSPECIFIED] * len(written)),
    )


def _resolved(closed: core.ClosedJaxpr, request: Request, written: Sequence[int]) -> Request:
    """Fills in the shardings and layouts that follow from arguments and types."""
    jaxpr, in_avals = closed.jaxpr, closed.in_avals
    in_shardings = resolve_in_shardings(
        request.args, request.in_shardings, in_avals, request.api_name, _arg_names_of(jaxpr)
    )
    in_layouts = resolve_in_layouts(request.args, request.in_layouts, in_avals, request.api_name)
    out_shardings = tuple([
        _sharding_of_type(a) if isinstance(s, UnspecifiedValue) or s is None else s
        for a, s in zip(closed.out_avals, request.out_shardings, strict=True)
    ])  # fmt: skip
    if written:  # a reference keeps its sharding
        out_shardings = (
            *out_shardings[: -len(written)],
            *[
                in_shardings[i] if s is UNSPECIFIED else s
                for i, s in zip(written, out_shardings[-len(written) :])
            ],
        )
    return request._replace(
        in_shardings=in_shardings,
        in_layouts=in_layouts,
        out_shardings=out_shardings,
        out_layouts=tuple(_constrained_layouts(jaxpr, request.out_layouts)),
    )


def _arg_names_of(jaxpr: core.Jaxpr) -> Callable[[], tuple[str | None, ...]]:
    return lambda: jaxpr.debug_info.safe_arg_names(len(jaxpr.invars))


def _placed(closed: core.ClosedJaxpr, request: Request) -> tuple[Request, Placement]:
    """Determines the devices; returns the request with shardings on them, and the placement."""
    in_shardings, out_shardings = request.in_shardings, request.out_shardings
    names = _arg_names_of(closed.jaxpr)
    placement = find_placement(
        closed.jaxpr, in_shardings, out_shardings, request.ctx_mesh, request.name, names
    )
    in_shardings = concretize(in_shardings, placement.mesh)
    out_shardings = concretize(out_shardings, placement.mesh)
    if placement.num_devices > 1:
        out_avals = closed.out_avals
        paths = lambda: closed.jaxpr.debug_info.safe_result_paths(len(out_avals))
        check_divisible(in_shardings, closed.in_avals, f"{request.api_name} arguments", names)
        check_divisible(out_shardings, out_avals, f"{request.api_name} outputs", paths)
    request = request._replace(in_shardings=in_shardings, out_shardings=out_shardings)
    return request, placement


def _report(closed: core.ClosedJaxpr, request: Request) -> None:
    if closed.consts:
        _warn_of_large_constants(closed, request.fun_name)
    level = logging.WARNING if config.log_compiles.value is True else logging.DEBUG
    if logger.isEnabledFor(level):
        logger.log(
            level,
            "Compiling %s with global shapes and types %s. Argument mapping: %s.",
            request.fun_name,
            tuple(closed.in_avals),
            request.in_shardings,
        )


def _effects_of(
    closed: core.ClosedJaxpr, request: Request, placement: Placement
) -> tuple[list[core.Effect], list[core.Effect]]:
    """Returns the ordered effects of a program, in the order of their tokens, and the others."""
    effects = closed.jaxpr.effects
    if not effects:
        return [], []
    ordered = sorted(effects_lib.ordered_effects.filter_in(effects), key=str)
    if ordered and placement.num_devices > 1:
        unsupported = effects_lib.shardable_ordered_effects.filter_not_in(ordered)
        if unsupported:
            raise ValueError(
                f"The following ordered effects are not supported for more than 1 device: "
                f"{', '.join(map(str, unsupported))}, in {request.fun_name}. Pass ordered=False to the "
                "callback or debug.print, or run the program on one device."
            )
    return ordered, effects_lib.ordered_effects.filter_not_in(effects)


def _find_or_lower(
    closed: core.ClosedJaxpr,
    request: Request,
    placement: Placement,
    platforms: tuple[str, ...],
    ordered: Sequence[core.Effect],
    parameters: mlir.LoweringParameters,
) -> tuple[LoweredModule, mlir.LoweringResult]:
    out_avals = closed.out_avals
    default_memory = (
        _all_default_memory(request.in_shardings)
        and _all_default_memory(request.out_shardings)
        and all(_memory_kind_of_type(a) is None for a in out_avals)
        and jaxpr_memory_kinds(closed.jaxpr) <= {DEVICE_KIND}
    )
    annotate = placement.num_devices > 1 or placement.mesh is not None or not default_memory

    def lower_to_module() -> mlir.LoweringResult:
        info = closed.jaxpr.debug_info
        with log_elapsed_time(
            "Finished jaxpr to MLIR module conversion {fun_name} in {elapsed_time:.9f} sec",
            request.fun_name,
            JAXPR_TO_MLIR_MODULE_EVENT,
        ):
            return mlir.lower_jaxpr_to_module(
                request.module_name,
                closed,
                num_const_args=0,
                in_avals=None,
                platforms=platforms,
                backend=placement.backend,
                axis_context=ShardingContext(
                    placement.num_devices, placement.devices, _abstract(placement)
                ),
                ordered_effects=ordered,
                donated_args=request.donated,
                arg_shardings=_specified(request.in_shardings) if annotate else None,
                result_shardings=_specified(request.out_shardings) if annotate else None,
                in_layouts=request.in_layouts,
                out_layouts=request.out_layouts,
                arg_names=info.safe_arg_names(len(closed.in_avals)),
                result_names=info.safe_result_paths(len(out_avals)),
                num_partitions=placement.num_devices,
                all_default_mem_kind=default_memory,
                propagated_out_mem_kinds=None
                if default_memory
                else [_memory_kind_of_type(a) or DEVICE_KIND for a in out_avals],
                lowering_parameters=parameters,
            )

    choices = (
        request.module_name, platforms, placement.backend, placement.num_devices,
        _abstract(placement), tuple(request.donated), annotate, default_memory,
        tuple(request.in_layouts), tuple(request.out_layouts), parameters,
    )  # fmt: skip
    return find_or_lower(
        closed, placement.devices, request.in_shardings, request.out_shardings, choices,
        lower_to_module,
    )  # fmt: skip


def prune_unused(
    closed: core.ClosedJaxpr, keep_unused: bool
) -> tuple[core.ClosedJaxpr, tuple[int, ...] | None]:
    """Removes dead equations and unused arguments from a jaxpr.

    Returns:
      The new jaxpr, and the positions of the remaining arguments; None if all remain.
    """
    jaxpr = closed.jaxpr
    # Effects on arguments refer to their positions, so such jaxprs are not changed.
    if keep_unused or any(isinstance(e, core.JaxprInputEffect) for e in jaxpr.effects):
        return closed, None
    # The shapes of unused arguments may give dimension variables their values.
    if not all(core.is_constant_shape(getattr(v.aval, "shape", ())) for v in jaxpr.invars):
        return closed, None
    pruned: tuple[core.ClosedJaxpr, tuple[int, ...] | None]
    if prune_unused in closed._cache:
        pruned = core.with_owner(closed._cache[prune_unused], closed)
        return pruned
    Literal = core.Literal
    live = {v for v in jaxpr.outvars if type(v) is not Literal}
    add = live.add
    eqns = []
    changed = False
    for eqn in reversed(jaxpr.eqns):
        if not eqn.effects:
            for v in eqn.outvars:
                if v in live:
                    break
            else:
                continue
        rules = eqn.primitive.split
        if rules is not None and rules.depends_on_use:
            _, smaller = rules.dce([v in live for v in eqn.outvars], eqn)
            changed = True
            if smaller is None:
                continue
            eqn = smaller
        eqns.append(eqn)
        for x in eqn.invars:
            if type(x) is not Literal:
                add(x)
    kept = tuple([i for i, v in enumerate(jaxpr.invars) if v in live])
    if len(eqns) == len(jaxpr.eqns) and len(kept) == len(jaxpr.invars) and not changed:
        pruned = closed, None
    else:
        eqns.reverse()
        info = jaxpr.debug_info
        names = info.safe_arg_names(len(jaxpr.invars))
        consts = [i for i, v in enumerate(jaxpr.constvars) if v in live]
        new = jaxpr.replace(
            constvars=[jaxpr.constvars[i] for i in consts],
            invars=[jaxpr.invars[i] for i in kept],
            eqns=eqns,
            debug_info=info._replace(arg_names=[names[i] for i in kept]),
        )
        pruned = (
            core.ClosedJaxpr(new, [closed.consts[i] for i in consts]),
            None if len(kept) == len(jaxpr.invars) else kept,
        )
    closed._cache[prune_unused] = core.without_owner(pruned, closed)
    return pruned


_MAX_REPORTED_CONSTANTS = 5


def _warn_of_large_constants(closed: core.ClosedJaxpr, fun_name: str) -> None:
    limit = config.captured_constants_warn_bytes.value
    if limit < 0:
        return
    sizes = [getattr(c, "nbytes", 0) for c in closed.consts]
    if sum(sizes) < limit:
        return
    largest = sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True)
    message = (
        f"A large amount of constants were captured during lowering of {fun_name} "
        f"({util.pprint_bytes(sum(sizes))} total, the largest of type "
        f"{core.typeof(closed.consts[largest[0]]).str_short()}). They become part of the program: "
        "pass them as arguments instead. If this is intended, set "
        "jax_captured_constants_warn_bytes to -1."
    )
    frames = config.captured_constants_report_frames.value
    if not frames:
        message += " Set jax_captured_constants_report_frames to see where they were captured."
    else:
        where = {}
        for eqn in reversed(closed.jaxpr.eqns):
            where.update({v: eqn.source_info for v in eqn.invars if type(v) is core.Var})
        message += "\nThe largest of them:"
        for i in largest[:_MAX_REPORTED_CONSTANTS]:
            aval = core.typeof(closed.consts[i])
            message += f"\n  {aval.str_short()}, {util.pprint_bytes(sizes[i])}, captured at:"
            info = where.get(closed.jaxpr.constvars[i])
            if info is not None:
                text = source_info_util.summarize(info, num_frames=frames if frames > 0 else None)
                message += "".join(f"\n    {line}" for line in text.splitlines())
    warnings.warn(message, stacklevel=2)


def _constrained_layouts(jaxpr: core.Jaxpr, out_layouts: Sequence[Any]) -> Sequence[Any]:
    """Lets the compiler choose the layout of results that the program constrains itself."""
    constrained = {
        v for eqn in jaxpr.eqns if eqn.primitive.name == "layout_constraint" for v in eqn.outvars
    }
    if not constrained:
        return out_layouts
    return [
        AutoLayout if layout is None and type(v) is core.Var and v in constrained else layout
        for v, layout in zip(jaxpr.outvars, out_layouts)
    ]


def _sharding_of_type(aval: AbstractValue) -> Any:
    """Returns the sharding in a result's type, if all axes of its mesh are explicit."""
    sharding = getattr(aval, "_sharding", None)
    if sharding is None or not sharding.mesh.are_all_axes_explicit:
        return UNSPECIFIED
    kind = _memory_kind_of_type(aval)
    return sharding if kind is None else sharding.with_memory_kind(kind)


def _specified(shardings: Sequence[Any]) -> list[Any]:
    return [None if isinstance(s, UnspecifiedValue) else s for s in shardings]


def _all_default_memory(shardings: Sequence[Any]) -> bool:
    for s in shardings:
        if isinstance(s, UnspecifiedValue) or s is None:
            continue
        kind = s.memory_kind
        if kind is None:
            continue
        devices = s._internal_device_list if s._is_concrete else None
        if devices is None or kind != devices.default_memory_kind:
            return False
    return True


def _memory_kind_of_type(aval: AbstractValue) -> str | None:
    space = getattr(aval, "memory_space", MemorySpace.Device)
    return "pinned_host" if space is MemorySpace.Host else None


def _abstract(placement: Placement) -> Any:
    mesh = placement.mesh
    return None if mesh is None else getattr(mesh, "abstract_mesh", mesh)


def _platform_of(placement: Placement) -> str:
    backend = placement.backend
    if backend is None:
        device = getattr(placement.mesh, "abstract_device", None)
        if device is not None and getattr(device, "platform", None):
            return str(device.platform)
        backend = xb.get_backend()
    return str(getattr(backend, "_raw_platform", None) or backend.platform)
