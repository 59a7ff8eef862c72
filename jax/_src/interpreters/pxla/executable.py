"""Compiled programs: compiling a module, calling the program, and inspecting it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from jax._src import compiler, config, core, cpu_profile, dtypes, host_functions, lib
from jax._src.array_impl import ArrayImpl, aval_with_sharding, device_sharding
from jax._src.errors import JaxRuntimeError
from jax._src.interpreters import mlir
from jax._src.interpreters.pxla import prompt_operations, tiers
from jax._src.interpreters.pxla.layouts import is_unimplemented, reported_layouts
from jax._src.interpreters.pxla.placement import Placement, concretize, layouts_equal
from jax._src.interpreters.pxla.transfers import (
    global_aval_to_result_handler,
    shard_arg_fallback,
    shard_args,
)
from jax._src.late_binding import late
from jax._src.layout import Format, Layout
from jax._src.lib import DeviceList, _jax
from jax._src.memory import MemorySpace
from jax._src.mesh import Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.sharding import Sharding
from jax._src.sharding_impls import (
    GSPMDSharding,
    UnspecifiedValue,
    logical_sharding,
    parse_flatten_op_sharding,
    physical_sharding,
)
from jax._src.tree_util import dispatch_registry, tree_flatten
from jax._src.xla_bridge.clients import distributed_state

if TYPE_CHECKING:
    from jax._src.core.avals import AbstractValue


class ProgramInfo:
    """A description of a program, apart from its module.

    Fields about arguments, except `all_in_avals`, concern only those that the module takes. These
    are the constants in `const_args`, which come first, and the arguments in `kept_var_idx` (all if
    None).
    """

    __slots__ = (
        "name", "const_args", "all_in_avals", "in_avals", "out_avals", "in_shardings",
        "out_shardings", "in_layouts", "out_layouts", "kept_var_idx", "ordered_effects",
        "unordered_effects", "debug_info", "written_refs",
    )  # fmt: skip
    name: str
    const_args: list[Any]
    all_in_avals: Sequence[Any]
    in_avals: Sequence[Any]
    out_avals: Sequence[Any]
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    in_layouts: Sequence[Any]
    out_layouts: Sequence[Any]
    kept_var_idx: tuple[int, ...] | None
    ordered_effects: Sequence[Any]
    unordered_effects: Sequence[Any]
    debug_info: Any
    written_refs: tuple[int, ...]  # references, whose new contents are the last results

    def __init__(self, **fields: Any):
        for name in self.__slots__:
            setattr(self, name, fields.pop(name))
        if fields:
            raise TypeError(f"unknown fields {list(fields)}")

    def over(self, mesh: Mesh) -> ProgramInfo:
        """The description of the program for the devices of `mesh`, if it was for abstract ones."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields["in_shardings"] = concretize(self.in_shardings, mesh)
        fields["out_shardings"] = concretize(self.out_shardings, mesh)
        return ProgramInfo(**fields)

    @property
    def num_outs(self) -> int:
        """The number of results that the caller receives."""
        return len(self.out_avals) - len(self.written_refs)


class MeshExecutableFastpathData(NamedTuple):
    """The data for running a program without Python, with the fields that native code reads."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[Any]
    const_args: Sequence[Any]


def compile_lowered(
    lowered: Any,
    info: ProgramInfo,
    placement: Placement,
    compiler_options: dict[str, Any],
    pgle_profiler: object = None,
    tiered: bool = False,
    is_prompt: bool = False,
) -> MeshExecutable:
    """Compiles a lowered module for the devices of `placement`.

    If it is `tiered`, and its better form is not in the cache, quickly; it becomes the better one in time.
    If it `is_prompt`, and that is faster, it runs in the thread that calls it, see `prompt_operations`.
    """
    devices, n = placement.devices, placement.num_devices
    device_list = DeviceList(tuple(devices))
    grid = np.fromiter(devices, dtype=object, count=n)
    backend = placement.backend
    tokens = (False,) * len(info.ordered_effects)
    module = lowered.module
    if lowered.shape_poly_state.uses_dim_vars:  # a function it calls was exported for any shape
        module = mlir.refine_polymorphic_shapes(module)
    if is_prompt:
        module = prompt_operations.as_kernel(module)

    def options_with(more: dict[str, Any]) -> Any:
        return create_compile_options(
            module,
            False,
            tokens + tuple(isinstance(s, UnspecifiedValue) for s in info.in_shardings),
            tokens + tuple(isinstance(s, UnspecifiedValue) for s in info.out_shardings),
            backend,
            grid.reshape(1, n),
            compiler_options | more,
        )

    def compile_with(options: Any, module: Any, is_kept: bool = True) -> Any:
        try:
            return compiler.compile_or_get_cached(
                backend,
                module,
                grid,
                options,
                lowered.host_callbacks,
                device_list,
                pgle_profiler,
                fun_name=info.name,
                is_kept=is_kept,
            )
        except JaxRuntimeError as err:
            # Functions that the compiler has called say what went wrong in them.
            for called in lowered.keepalive or ():
                if (cause := getattr(called, "compile_error", None)) is not None:
                    raise err from cause
            raise

    options = options_with({})
    tiered = tiered and not compiler.is_in_cache(backend, module, grid, options)
    if tiered:
        xla_executable = compile_with(options_with(tiers.QUICK), module, is_kept=False)
    else:
        xla_executable = compile_with(options, module)
    in_shardings, out_shardings = _final_shardings(xla_executable, info, placement, device_list)
    executable = MeshExecutable(
        xla_executable, info, placement, device_list, in_shardings, out_shardings, lowered
    )
    if tiered:
        executable.is_final = False
        code = mlir.module_to_bytecode(module)  # its context has no locks, see `LoweredModule`
        # The options are those of this thread's configuration.
        tiers.add(executable, lambda: compile_with(options, mlir.module_from_bytecode(code)))
    return executable


def create_compile_options(
    computation: object,
    tuple_args: bool,
    allow_prop_to_inputs: Sequence[bool],
    allow_prop_to_outputs: Sequence[bool],
    backend: str | None,
    np_dev: np.ndarray,
    compiler_options: dict[str, Any] | None,
) -> Any:
    """Returns the options for compiling a module.

    Args:
      computation: the module.
      tuple_args: whether the arguments are passed as one tuple.
      allow_prop_to_inputs, allow_prop_to_outputs: for which arguments and results the compiler
        chooses the sharding.
      backend: the client.
      np_dev: the devices, with dimensions (replicas, partitions) or (partitions,).
      compiler_options: XLA options by name; "fdo_profile" is a profile of earlier runs.
    """
    if np_dev.ndim == 1:
        np_dev = np_dev.reshape(1, -1)
    num_replicas, num_partitions = np_dev.shape
    given = dict(compiler_options or {})
    fdo_profile = given.pop("fdo_profile", None)
    on_cpu = getattr(backend, "platform", None) == "cpu"
    if on_cpu:
        operations = cpu_profile.operations(computation)
        given = cpu_profile.options(operations, given)
    options = compiler.get_compile_options(
        num_replicas=num_replicas,
        num_partitions=num_partitions,
        device_assignment=np_dev,
        env_options_overrides=given or None,
        fdo_profile=fdo_profile,
        detailed_logging=compiler.use_detailed_logging(computation),
        backend=backend,
    )
    if on_cpu:
        options = cpu_profile.with_small_loops(operations, options)
    options.parameter_is_tupled_arguments = tuple_args
    if num_partitions > 1:
        build = options.executable_build_options
        build.allow_spmd_sharding_propagation_to_parameters = list(allow_prop_to_inputs)
        build.allow_spmd_sharding_propagation_to_output = list(allow_prop_to_outputs)
    return options


def _final_shardings(xla_executable: Any, info: Any, placement: Any, device_list: Any) -> Any:
    """Returns the shardings of arguments and results, including those chosen by the compiler."""
    if placement.num_devices == 1 and not isinstance(placement.mesh, Mesh):
        default = device_sharding(placement.devices[0])
        ins = tuple([_or_default(s, default) for s in info.in_shardings])
        outs = tuple([_or_default(s, default) for s in info.out_shardings])
        kinds = None
        if any(
            getattr(a, "memory_space", None) is not None
            and a.memory_space is not MemorySpace.Device
            for a in info.out_avals
        ) or any(not isinstance(s, UnspecifiedValue) for s in info.out_shardings):
            kinds = xla_executable.get_output_memory_kinds()[0][len(info.ordered_effects) :]
        if kinds is not None:
            outs = tuple([
                s if s.memory_kind == k or not isinstance(o, UnspecifiedValue) else s.with_memory_kind(k)
                for s, k, o in zip(outs, kinds, info.out_shardings)
            ])  # fmt: skip
        return ins, outs
    skip = len(info.ordered_effects)
    ins, outs = info.in_shardings, info.out_shardings
    meshes = (placement.mesh, *placement.more_meshes)
    if any(isinstance(s, UnspecifiedValue) for s in ins):
        chosen = xla_executable.get_parameter_shardings()
        ins = _fill_in(ins, chosen, skip, info.in_avals, device_list, meshes, None)
    if any(isinstance(s, UnspecifiedValue) for s in outs):
        chosen = xla_executable.get_output_shardings()
        kinds = xla_executable.get_output_memory_kinds()[0][skip:]
        filled = _fill_in(outs, chosen, skip, info.out_avals, device_list, meshes, kinds)
        outs = tuple([
            _as_argument(s, a, info) if isinstance(o, UnspecifiedValue) else s
            for s, o, a in zip(filled, outs, info.out_avals)
        ])  # fmt: skip
    return tuple(ins), tuple(outs)


def _as_argument(chosen: Any, aval: Any, info: ProgramInfo) -> Any:
    """Replaces the chosen sharding of a result by that of the first argument, if equivalent.

    The compiler does not report how it sharded over a mesh of one device. There, any sharding of a
    value with as many dimensions is equivalent.
    """
    if not isinstance(chosen, NamedSharding) or not isinstance(aval, core.ShapedArray):
        return chosen
    if chosen.mesh.abstract_mesh._any_axis_explicit:  # the type determines the sharding
        return chosen
    if not info.in_shardings:
        return chosen
    s, a = info.in_shardings[0], info.in_avals[0]
    if (
        isinstance(s, NamedSharding)
        and getattr(a, "ndim", None) == aval.ndim
        and s.mesh == chosen.mesh
        and s.memory_kind == chosen.memory_kind
        and len(s.spec) <= aval.ndim
        and (s.spec == chosen.spec or s.is_equivalent_to(chosen, aval.ndim))
    ):
        return s
    return chosen


def _or_default(sharding: Sharding | None, default: object) -> Any:
    return default if isinstance(sharding, UnspecifiedValue) else sharding


def _fill_in(
    shardings: Any,
    chosen: Any,
    skip: Any,
    avals: Sequence[core.AbstractValue],
    device_list: object,
    meshes: Sequence[Any],
    kinds: Any,
) -> Any:
    replicated = lib.hlo.HloSharding.replicate()
    if chosen is None:
        chosen = [None] * len(shardings)
    elif len(chosen) == 1 and len(shardings) + skip != 1:
        tuples = chosen[0].tuple_shardings
        chosen = (tuples or chosen * (len(shardings) + skip))[skip:]
    else:
        chosen = chosen[skip:]
    out = []
    for i, (s, op, aval) in enumerate(zip(shardings, chosen, avals, strict=True)):
        if isinstance(s, UnspecifiedValue):
            hlo_sharding = replicated if op is None else lib.hlo.HloSharding.from_proto(op)
            kind = kinds[i] if kinds is not None else None
            s = GSPMDSharding(device_list, hlo_sharding, memory_kind=kind)
            if isinstance(aval, core.ShapedArray):
                if core.physical_aval(aval) is not aval:
                    s = logical_sharding(aval.shape, aval.dtype, s)
                s = _named(s, meshes, aval)
        out.append(s)
    return out


def _named(s: Any, meshes: Sequence[Any], aval: Any) -> Any:
    """Converts a sharding of the compiler to one over the first of `meshes` that can express it."""
    for mesh in meshes:
        if not isinstance(mesh, Mesh) or not isinstance(s, GSPMDSharding):
            continue
        try:
            (spec,) = parse_flatten_op_sharding(s._hlo_sharding, mesh)
        except (ValueError, NotImplementedError):
            continue
        typed = aval.sharding is not None and aval.sharding.mesh._any_axis_explicit
        if typed or isinstance(aval.dtype, dtypes.ExtendedDType):
            # Types, and the representations of keys, have a spec entry for each dimension.
            spec = spec._normalized_spec_for_aval(aval.ndim)
        return NamedSharding(mesh, spec, memory_kind=s.memory_kind)
    return s


class MeshExecutable:
    """A compiled program for one or more devices.

    Attributes:
      unsafe_call: runs it on flat arguments, without checking their types.
      in_avals, out_avals: types of the arguments that the module takes, and of the results.
      xla_executable: the native executable.
      is_final: whether it stays what it is; a program that was compiled quickly is to become another.
    """

    __slots__ = (
        "xla_executable", "_info", "_placement", "_device_list", "_in_shardings", "_out_shardings",
        "_keepalive", "_has_host_callbacks", "_has_impure_callbacks", "_unsafe_call", "_layouts",
        "_in_device_layouts", "is_final", "__weakref__",
    )  # fmt: skip

    def __init__(
        self,
        xla_executable: Any,
        info: Any,
        placement: Any,
        device_list: Any,
        in_shardings: Any,
        out_shardings: Any,
        lowered: Any,
    ) -> None:
        self.xla_executable = xla_executable
        self._info: ProgramInfo = info
        self._placement: Placement = placement
        self._device_list = device_list
        self._in_shardings = in_shardings
        self._out_shardings = out_shardings
        self._has_host_callbacks = bool(lowered.host_callbacks)
        self._has_impure_callbacks = not host_functions.are_pure(lowered.host_callbacks)
        # Keeps the callbacks alive, since the program calls them by address.
        self._keepalive = (lowered.keepalive, lowered.host_callbacks)
        self._layouts: tuple[list[Any], list[Any]] | None = None
        self._in_device_layouts = self._layouts_to_ask_for()
        self._unsafe_call: ExecuteReplicated | None = None
        self.is_final = True

    name = property(lambda self: self._info.name)
    in_avals = property(lambda self: self._info.in_avals)
    out_avals = property(lambda self: self._info.out_avals[: self._info.num_outs])
    const_args = property(lambda self: self._info.const_args)

    @property
    def unsafe_call(self) -> ExecuteReplicated:
        call = self._unsafe_call
        if call is None:
            if compiler.is_compile_only(self._placement.backend):
                raise _no_devices(self)
            call = self._unsafe_call = ExecuteReplicated(self)
        return call

    def call(self, *args: Any) -> Any:
        """Runs the program on flat arguments.

        Raises:
          TypeError: if their types differ from those it was compiled for.
          ValueError: if arrays are committed to other devices or have other layouts.
        """
        info = self._info
        offset = len(info.const_args)
        kept = info.kept_var_idx
        positions = range(offset, offset + len(args)) if kept is None else kept
        check_arg_avals_for_call(info.all_in_avals[offset:], args, info.debug_info, offset)
        names = info.debug_info.safe_arg_names(len(info.all_in_avals))
        used = [(k, i) for k, i in enumerate(positions) if i >= offset]
        if kept is None:
            used = [(i, i) for i in positions]
        check_placement(
            [args[i - offset] for _, i in used],
            [self._in_shardings[k] for k, _ in used],
            [self._in_device_layouts[k] for k, _ in used],
            [names[i] for _, i in used],
        )
        return self.unsafe_call(*args)

    def become_final(self, xla_executable: Any) -> None:
        """Runs another compilation of the same program from now on; None if there is none after all."""
        if xla_executable is not None:
            self.xla_executable = xla_executable
        self.is_final = True

    # Inspection

    def input_shardings(self) -> list[Any]:
        """Returns the sharding of each argument; None for unused arguments."""
        return self._for_all_args(self._in_shardings)

    def output_shardings(self) -> list[Any]:
        """Returns the sharding of each result."""
        return list(self._out_shardings[: self._info.num_outs])

    def input_formats(self) -> list[Format]:
        """Returns layout and sharding of each argument; empty formats for unused arguments."""
        formats = [
            Format(layout, s) for layout, s in zip(self._xla_layouts()[0], self._in_shardings)
        ]
        return [Format() if f is None else f for f in self._for_all_args(formats)]

    def output_formats(self) -> list[Format]:
        """Returns layout and sharding of each result."""
        layouts = self._xla_layouts()[1]
        return [Format(layout, s) for layout, s in zip(layouts, self.output_shardings())]

    def as_text(self) -> str:
        """Returns the text of the optimized program."""
        modules = self.xla_executable.hlo_modules()
        return "\n\n".join(m.to_string() for m in modules)

    def cost_analysis(self) -> Any:
        """Returns estimates, such as flops and bytes accessed, by name; None if there are none."""
        try:
            return self.xla_executable.cost_analysis()
        except _jax.JaxRuntimeError as err:
            if not is_unimplemented(err):
                raise
        if compiler.is_compile_only(self._placement.backend):
            return None
        # Some runtimes have no estimates. The compiler can derive them from the program.
        (module,) = self.xla_executable.hlo_modules()
        return _jax.hlo_module_cost_analysis(self._placement.backend, module)

    def memory_analysis(self) -> Any:
        """Returns estimates of the memory that the program needs; None if the runtime has none."""
        try:
            return self.xla_executable.get_compiled_memory_stats()
        except _jax.JaxRuntimeError as err:
            if not is_unimplemented(err):
                raise
            return None

    def runtime_executable(self) -> Any:
        """Returns the native executable."""
        return self.xla_executable

    def _for_all_args(self, values: Sequence[Any]) -> list[Any]:
        kept = self._info.kept_var_idx
        if kept is None:
            return list(values)
        out = [None] * len(self._info.all_in_avals)
        for i, v in zip(kept, values):
            out[i] = v
        return out

    def _xla_layouts(self) -> tuple[list[Any], list[Any]]:
        """Returns layouts of arguments and results, as reported by the runtime."""
        if self._layouts is None:
            self._layouts = reported_layouts(self.xla_executable, self._info)
        return self._layouts

    def _layouts_to_ask_for(self) -> list[Any]:
        """Returns the layout that each argument must have; None for the default layout."""
        asked = self._info.in_layouts
        if self._info.ordered_effects and any(self._info.out_layouts):
            self._xla_layouts()  # which checks them
        if all(layout is None for layout in asked):
            return [None] * len(asked)
        actual = self._xla_layouts()[0]
        return [None if layout is None else found for layout, found in zip(asked, actual)]

    # Native calls

    def create_cpp_call(self, params: Any, check: Any = None, run: Any = None) -> Any:
        """Returns a native callable of unflattened arguments; None if each call needs Python.

        Args:
          params: with attributes `no_kwargs`, `in_tree` (of arguments, or of arguments and
            keywords), `out_tree`, and `executable`.
          check: `check(args, kwargs, flat, tree)` raises an error for unsuitable arguments.
          run: what a call that is not native runs on the flat arguments, instead of `call`.
        """
        if self.needs_python() or self._info.const_args:
            return None
        in_tree, out_tree, no_kwargs = params.in_tree, params.out_tree, params.no_kwargs

        def cache_miss(*args: Any, **kwargs: Any) -> Any:
            flat, tree = tree_flatten(args if no_kwargs else (args, kwargs))
            if no_kwargs and kwargs:
                raise NotImplementedError(f"call with keyword arguments {', '.join(kwargs)}")
            if check is not None:
                check(args, kwargs, flat, tree)
            elif tree != in_tree:
                raise TypeError(
                    "Function compiled with input pytree does not match the input pytree it was "
                    f"called with. Compiled for {in_tree}, called with {tree}."
                )
            outs = (run or self.call)(*flat)
            return out_tree.unflatten(outs), fastpath_data(self, outs, out_tree, flat), False

        def call_slowly(*args: Any, **kwargs: Any) -> Any:
            return cache_miss(*args, **kwargs)[0]

        return _jax.pjit(
            self._info.name,
            call_slowly,  # while jax_disable_jit is set
            cache_miss,
            [],
            [],
            (),
            dispatch_registry,
            shard_arg_fallback,
        )

    def needs_python(self) -> bool:
        """Whether every call must go through Python.

        This is the case for effects with tokens, for functions on the host with side effects, for
        values that are not plain arrays, for programs whose runs are counted
        (`ExecuteReplicated.before_run`), and for those that are to become others.
        """
        info = self._info
        is_counted = self._unsafe_call is not None and self._unsafe_call.before_run is not None
        return bool(
            not self.is_final
            or is_counted
            or info.ordered_effects
            or info.unordered_effects
            or self._has_impure_callbacks
            or not all(type(a) is core.ShapedArray for a in info.out_avals)
            or any(a.dtype == dtypes.float0 for a in info.out_avals)
            or core.AbstractRef in map(type, info.all_in_avals)
        )


def _no_devices(executable: MeshExecutable) -> Exception:
    placement = executable._placement
    kind = placement.devices[0].device_kind
    error: Exception = _jax.JaxRuntimeError(
        f"{executable._info.name} cannot run: it is compiled for {placement.num_devices} absent devices"
        f" of kind {kind}, of a topology description. Inspect it (as_text, cost_analysis,"
        " memory_analysis, input_shardings, ...), or compile it for the devices of jax.devices()."
    )
    return error


class ExecuteReplicated:
    """Runs an executable: places arguments, passes tokens of effects and wraps results."""

    __slots__ = (
        "name", "in_shardings", "in_layouts", "handlers", "kept", "const_args", "ordered_effects",
        "has_unordered_effects", "has_impure_callbacks", "devices", "executable", "written_refs",
        "before_run", "__weakref__",
    )  # fmt: skip

    def __init__(self, executable: MeshExecutable):
        info, placement = executable._info, executable._placement
        self.executable = executable  # whose native executable may become another
        self.name = info.name
        self.in_shardings = executable._in_shardings
        self.in_layouts = executable._in_device_layouts
        self.handlers = [
            global_aval_to_result_handler(aval, s, placement.committed)
            for aval, s in zip(_result_types(executable), executable._out_shardings)
        ]
        self.kept = info.kept_var_idx
        self.written_refs = info.written_refs
        self.const_args = info.const_args
        self.ordered_effects = list(info.ordered_effects)
        self.has_unordered_effects = bool(info.unordered_effects)
        self.has_impure_callbacks = executable._has_impure_callbacks
        if executable._has_host_callbacks and not self.has_impure_callbacks:
            host_functions.wait_at_exit(executable.xla_executable.client)
        self.devices = tuple(placement.devices)
        self.before_run: Callable[[], None] | None = None
        if (observe := distributed_state.observe_program) is not None:
            self.before_run = observe(self.name, self.devices, executable.xla_executable)

    def __call__(self, *values: Any) -> Any:
        args: Sequence[Any] = values
        if config.no_execution.value:
            raise_no_execution(self.name)
        if self.const_args:
            args = (*self.const_args, *args)
        if self.written_refs:
            return self._call_writing(args)
        return self._call(args)

    def _call_writing(self, args: Sequence[Any]) -> Any:
        outs = self._call(args)
        n = len(outs) - len(self.written_refs)
        for i, x in zip(self.written_refs, outs[n:]):
            args[i]._buffer = x
        return outs[:n]

    def _call(self, args: Sequence[Any]) -> Any:
        if self.kept is not None:
            args = [args[i] for i in self.kept]
        buffers = shard_args(self.in_shardings, self.in_layouts, None, args)
        if self.before_run is not None:
            self.before_run()
        if self.ordered_effects or self.has_unordered_effects or self.has_impure_callbacks:
            return self._call_with_tokens(buffers)
        results = self.executable.xla_executable.execute_sharded(buffers)
        return results.consume_with_handlers(self.handlers)

    def _call_with_tokens(self, buffers: list[Any]) -> Any:
        tokens = late.runtime_tokens
        if self.ordered_effects:
            buffers = [
                tokens.get_token_input(eff, self.devices)._buf for eff in self.ordered_effects
            ] + buffers
        xla_executable = self.executable.xla_executable
        results: Any = xla_executable.execute_sharded(buffers, with_tokens=True)
        n = len(self.ordered_effects)
        token_buffers = results.disassemble_prefix_into_single_device_arrays(n) if n else ()
        sharded_token = results.consume_token()
        for eff, bufs in zip(self.ordered_effects, token_buffers):
            tokens.set_token_result(eff, core.Token(_assemble_token(bufs, self.devices)))
        for i, device in enumerate(xla_executable.local_devices()):
            tokens.set_output_runtime_token(device, sharded_token.get_token(i))
        return results.consume_with_handlers(self.handlers)


def raise_no_execution(name: str) -> NoReturn:
    name = name if name.startswith("jit(") else f"jit({name})"
    raise RuntimeError(
        f"JAX tried to execute function {name}, but the no_execution config option is set"
    )


_token_aval = core.ShapedArray((0,), np.dtype(np.bool_))


def _assemble_token(bufs: Sequence[Any], devices: Sequence[Any]) -> Any:
    if len(devices) == 1:
        sharding = device_sharding(devices[0])
    else:
        sharding = GSPMDSharding.get_replicated(tuple(devices))
    return ArrayImpl(_token_aval, sharding, list(bufs), committed=True, _skip_checks=True)


def _result_types(executable: MeshExecutable) -> list[Any]:
    """Returns the types of the results, with their sharding if a mesh has explicit axes."""
    info = executable._info
    return [
        _result_type(a, asked, s)
        for a, asked, s in zip(info.out_avals, info.out_shardings, executable._out_shardings)
    ]


def _result_type(aval: AbstractValue, asked: object, sharding: Sharding | None) -> Any:
    typed = getattr(aval, "_sharding", None)
    if typed is None:
        return aval_with_sharding(aval, sharding)
    if isinstance(asked, UnspecifiedValue):  # the compiler's sharding has less detail than the type
        return aval_with_sharding(aval.update(sharding=None), sharding).update(sharding=typed)
    return aval_with_sharding(aval.update(sharding=None), sharding)


# The native call path


def fastpath_data(
    executable: MeshExecutable | None, outs: Sequence[Any], out_tree: Any, args_flat: Sequence[Any]
) -> MeshExecutableFastpathData | None:
    """Returns the data for native calls of `executable`; None if calls must go through Python.

    Args:
      executable: the program that was just run, or None if it was for that call only.
      outs: its flat results.
      out_tree: the tree of results.
      args_flat: its flat arguments.
    """
    if executable is None or executable.needs_python():
        return None
    info = executable._info
    out_avals, out_shardings = _result_types(executable), executable._out_shardings
    for x in outs:
        if type(x) is not ArrayImpl:
            # Native code passes plain arrays to the tree, where arrays of extended dtypes are
            # nodes.
            outs, out_tree = dispatch_registry.flatten(out_tree.unflatten(outs))
            if len(outs) != len(out_avals) or not all(type(x) is ArrayImpl for x in outs):
                return None
            out_shardings = _physical_shardings(out_avals, out_shardings)
            out_avals = [
                a if core.physical_aval(a) is a else aval_with_sharding(core.physical_aval(a), s)
                for a, s in zip(out_avals, out_shardings)
            ]
            break
    for x in args_flat:
        if isinstance(x, core.Tracer) or type(x) in _python_only_types:
            return None
    n = len(info.const_args) + len(args_flat)
    bitvec = [info.kept_var_idx is None] * n
    for i in info.kept_var_idx or ():
        bitvec[i] = True
    return MeshExecutableFastpathData(
        executable.xla_executable,
        out_tree,
        _physical_shardings(info.in_avals, executable._in_shardings),
        out_shardings,
        out_avals,
        [x._committed for x in outs],
        bitvec,
        executable._in_device_layouts,
        dispatch_registry.flatten(info.const_args)[0] if info.const_args else info.const_args,
    )


def _physical_shardings(avals: Sequence[Any], shardings: Sequence[Any]) -> Sequence[Any]:
    """Returns the shardings of the physical arrays of values of these types."""
    for a in avals:
        if core.physical_aval(a) is not a:
            return [
                s if core.physical_aval(a) is a else physical_sharding(a, s)
                for a, s in zip(avals, shardings, strict=True)
            ]
    return shardings


# Classes of values that only Python code can convert to buffers.
_python_only_types: set[type] = {core.Token}


# Checks of arguments


def check_arg_avals_for_call(
    ref_avals: Sequence[Any], args: Sequence[Any], debug_info: Any, offset: int = 0
) -> None:
    """Raises TypeError unless the arguments have the types that a program was compiled for."""
    if len(ref_avals) != len(args):
        raise TypeError(
            f"Computation compiled for {len(ref_avals)} inputs but called with {len(args)}"
        )
    mismatches = []
    for i, (ref, arg) in enumerate(zip(ref_avals, args)):
        aval = arg.aval if type(arg) is ArrayImpl else core.typeof(arg)
        if aval is ref or core.typematch(ref, aval) or _differ_in_memory_only(ref, aval):
            continue
        name = debug_info.safe_arg_names(len(ref_avals) + offset)[i + offset]
        label = f"Argument '{name}'" if name else f"Argument at flat index {i}"
        mismatches.append(
            f"{label} compiled with {ref.str_short()} and called with {aval.str_short()}"
        )
    if mismatches:
        shown = "\n".join(mismatches[:_MAX_SHOWN])
        if len(mismatches) > _MAX_SHOWN:
            shown += f"\nand {len(mismatches) - _MAX_SHOWN} more"
        raise TypeError(
            "Argument types differ from the types for which this computation was compiled. Perhaps you "
            "are calling the compiled executable with a different enable_x64 mode than when it was AOT "
            f"compiled? The mismatches are:\n{shown}"
        )


def _differ_in_memory_only(ref: object, aval: AbstractValue) -> bool:
    """Whether types differ only in the memory space, which shardings of arguments specify."""
    if type(ref) is not core.ShapedArray or type(aval) is not core.ShapedArray:
        return False
    return core.typematch(ref, aval.update(memory_space=ref.memory_space))


_MAX_SHOWN = 5


def check_placement(
    args: Sequence[Any],
    in_shardings: Sequence[Any],
    in_layouts: Sequence[Any],
    names: Sequence[str | None],
) -> None:
    """Raises ValueError if committed arrays do not have the shardings and layouts of a program."""
    wrong: dict[str, list[str]] = {"sharding": [], "layout": []}
    for i, (arg, sharding, layout) in enumerate(zip(args, in_shardings, in_layouts)):
        has = getattr(arg, "sharding", None)
        if not isinstance(has, Sharding) or not getattr(arg, "_committed", True):
            continue
        aval = core.typeof(arg)
        label = names[i] or f"number {i}"
        if has is not sharding and not has.is_equivalent_to(sharding, aval.ndim):
            wrong["sharding"].append(
                f"Argument {label} with shape {aval.str_short()}:\n"
                f"  Passed sharding: {has}\n  Required sharding: {sharding}"
            )
        elif aval.ndim >= 2 and isinstance(arg, ArrayImpl):
            passed: Any = arg.format.layout
            if layout is None:
                fits = passed.major_to_minor == tuple(range(aval.ndim))
                required = Layout(tuple(range(aval.ndim)), passed.tiling)
            else:
                fits, required = layouts_equal(layout, passed), layout
            if not fits:
                wrong["layout"].append(
                    f"Argument {label} with shape {aval.str_short()}:\n"
                    f"  Passed layout: {passed}\n  Required layout: {required}"
                )
    for what, lines in wrong.items():
        if lines:
            shown = "\n".join(lines[:_MAX_SHOWN])
            if len(lines) > _MAX_SHOWN:
                shown += f"\nand {len(lines) - _MAX_SHOWN} more"
            raise ValueError(
                f"Computation was compiled for input {what}s that disagree with the {what}s of arguments "
                f"passed to it. Here are the {len(lines)} mismatches:\n{shown}"
            )
