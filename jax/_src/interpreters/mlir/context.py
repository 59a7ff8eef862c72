"""The state of lowering a module or an operation, and the tokens that order effects."""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from jax._src.interpreters.mlir.locations import TracebackCaches
from jax._src.lib.mlir import dialects, ir, jax_mlir_ext
from jax._src.lib.mlir.dialects import chlo, func, hlo, sdy

# The channel id of collective operations that do not need their own.
COLLECTIVE_CHANNEL_ID = 1
# The numbers of channel types in StableHLO.
DEVICE_TO_DEVICE_TYPE = 1
SEND_TO_HOST_TYPE = 2
RECV_FROM_HOST_TYPE = 3

_registry_lock = threading.Lock()
_registry: Any = None
# Additional dialects that modules may contain if Python code has imported their bindings.
_OPTIONAL_DIALECTS = ("arith", "cf", "math", "memref", "mhlo", "scf", "vector")


def upstream_dialects() -> Any:
    """Returns the registry of the dialects that are part of MLIR."""
    global _registry
    if _registry is None:
        with _registry_lock:
            if _registry is None:
                registry = ir.DialectRegistry()
                jax_mlir_ext.register_dialects(registry)
                _registry = registry
    return _registry


@functools.cache
def ir_context_class() -> Any:
    """Returns the class of MLIR contexts for lowered modules."""

    base: Any = ir.Context

    class JaxIrContext(base):  # type: ignore[misc]
        """An MLIR context without a thread pool."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.enable_multithreading(False)

    return JaxIrContext


def make_ir_context() -> Any:
    """Creates an MLIR context for lowering, with registered dialects and without a thread pool."""
    context = ir_context_class()()
    # A registered dialect is loaded when a parsed module uses it, but building an operation
    # requires a loaded dialect. Loading takes time, so load only dialects that imported code can
    # use.
    context.append_dialect_registry(upstream_dialects())
    hlo.register_dialect(context)
    chlo.register_dialect(context)
    sdy.register_dialect(context)
    context.get_dialect_descriptor(func._Dialect.DIALECT_NAMESPACE)
    for name in _OPTIONAL_DIALECTS:
        if getattr(dialects, name)._target in sys.modules:
            if name == "mhlo":
                dialects.mhlo.register_mhlo_dialect(context)
            else:
                context.get_dialect_descriptor(name)
    return context


class TokenSet:
    """The tokens that order effects in a computation, by effect.

    Args:
      tokens: effect to IR value.
    """

    __slots__ = ("_tokens",)

    def __init__(self, tokens: dict[Any, Any] | None = None):
        self._tokens = {} if tokens is None else dict(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def get(self, effect: object) -> Any:
        return self._tokens[effect]

    @classmethod
    def create(cls, effects: Iterable[Any]) -> TokenSet:
        """Creates a set with a new token for each of `effects`."""
        return cls({eff: hlo.create_token() for eff in effects})

    def items(self) -> Sequence[tuple[Any, Any]]:
        return tuple(self._tokens.items())

    def effects(self) -> set[Any]:
        return set(self._tokens)

    def tokens(self) -> list[Any]:
        return list(self._tokens.values())

    def subset(self, effects: Iterable[Any]) -> TokenSet:
        return TokenSet({eff: self._tokens[eff] for eff in effects})

    def update_tokens(self, tokens: TokenSet) -> TokenSet:
        """Returns this set with its tokens replaced by those in `tokens`, where there is one."""
        return TokenSet({eff: tokens._tokens.get(eff, tok) for eff, tok in self._tokens.items()})


empty_token_set = TokenSet()


class LoweringParameters:
    """Options of a lowering.

    Args:
      override_lowering_rules: pairs (primitive, rule) that take precedence over registered rules.
      global_constant_computation: whether platform index and dimension variables are arguments
        of the module (marked `jax.global_constant`), as in exported modules.
      for_export: whether other versions must be able to load the module.
      export_ignore_forward_compatibility: whether to allow features newer than the compatibility
        window.
      hoist_constants_as_args: whether large constants become arguments of the module.
    """

    __slots__ = (
        "override_lowering_rules",
        "global_constant_computation",
        "for_export",
        "export_ignore_forward_compatibility",
        "hoist_constants_as_args",
    )

    def __init__(
        self,
        override_lowering_rules: tuple[tuple[Any, Any], ...] | None = None,
        global_constant_computation: bool = False,
        for_export: bool = False,
        export_ignore_forward_compatibility: bool = False,
        hoist_constants_as_args: bool = False,
    ):
        self.override_lowering_rules = override_lowering_rules
        self.global_constant_computation = global_constant_computation
        self.for_export = for_export
        self.export_ignore_forward_compatibility = export_ignore_forward_compatibility
        self.hoist_constants_as_args = hoist_constants_as_args

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def replace(self, **kw: object) -> LoweringParameters:
        return LoweringParameters(**{**dict(zip(self.__slots__, self._key())), **kw})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoweringParameters) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"LoweringParameters({fields})"


class ShapePolyLoweringState:
    """Symbolic dimensions and the platform index, which a module takes as leading arguments.

    Args:
      dim_vars: names of the dimension variables.
      lowering_platforms: the platforms; if there are several, the first argument is an index of
        them.
    """

    __slots__ = ("dim_vars", "has_platform_index_argument", "uses_dim_vars")

    def __init__(self, dim_vars: tuple[str, ...], lowering_platforms: tuple[str, ...] | None):
        self.has_platform_index_argument = (
            lowering_platforms is not None and len(lowering_platforms) > 1
        )
        if self.has_platform_index_argument:
            dim_vars = ("_platform_index", *dim_vars)
        self.dim_vars = tuple(dim_vars)
        self.uses_dim_vars = len(self.dim_vars) > 0


class ModuleContext:
    """The state of lowering one module, shared by all its operations."""

    __slots__ = (
        "context",
        "module",
        "ip",
        "symbol_table",
        "platforms",
        "backend",
        "axis_context",
        "keepalives",
        "channel_iterator",
        "host_callbacks",
        "lowering_parameters",
        "shape_poly_state",
        "all_default_mem_kind",
        "lowering_cache",
        "cached_primitive_lowerings",
        "traceback_caches",
        "sharding_attr_cache",
        "meshes",
        "aval_to_ir_types_cache",
        "pallas_lowering_cache",
        "attribute_cache",
        "rules",
    )

    def __init__(
        self,
        *,
        platforms: Sequence[str],
        backend: Any = None,
        axis_context: Any = None,
        keepalives: list[Any] | None = None,
        channel_iterator: Iterator[int] | None = None,
        host_callbacks: list[Any] | None = None,
        lowering_parameters: LoweringParameters | None = None,
        context: Any = None,
        module: Any = None,
        ip: Any = None,
        symbol_table: Any = None,
        shape_poly_state: ShapePolyLoweringState | None = None,
        all_default_mem_kind: bool = True,
        lowering_cache: dict[Any, Any] | None = None,
        cached_primitive_lowerings: dict[Any, Any] | None = None,
        traceback_caches: TracebackCaches | None = None,
        sharding_attr_cache: dict[Any, Any] | None = None,
        meshes: dict[Any, Any] | None = None,
        aval_to_ir_types_cache: dict[Any, Any] | None = None,
        pallas_lowering_cache: dict[Any, Any] | None = None,
        attribute_cache: dict[Any, Any] | None = None,
        rules: dict[Any, Any] | None = None,
    ):
        self.context = make_ir_context() if context is None else context
        if module is None:
            module = ir.Module.create(loc=ir.Location.unknown(self.context))
        self.module = module
        self.ip = ir.InsertionPoint(module.body) if ip is None else ip
        self.symbol_table = (
            ir.SymbolTable(module.operation) if symbol_table is None else symbol_table
        )
        self.platforms = tuple(platforms)
        self.backend = backend
        self.axis_context = axis_context
        self.keepalives = [] if keepalives is None else keepalives
        # Collectives share the channel 1.
        self.channel_iterator = itertools.count(2) if channel_iterator is None else channel_iterator
        self.host_callbacks = [] if host_callbacks is None else host_callbacks
        self.lowering_parameters = (
            LoweringParameters() if lowering_parameters is None else lowering_parameters
        )
        self.shape_poly_state = (
            ShapePolyLoweringState((), self.platforms)
            if shape_poly_state is None
            else shape_poly_state
        )
        self.all_default_mem_kind = all_default_mem_kind
        # Functions of the module, by the jaxprs that they were lowered from.
        self.lowering_cache = {} if lowering_cache is None else lowering_cache
        self.cached_primitive_lowerings = (
            {} if cached_primitive_lowerings is None else cached_primitive_lowerings
        )
        self.traceback_caches = (
            TracebackCaches(self.context) if traceback_caches is None else traceback_caches
        )
        self.sharding_attr_cache = {} if sharding_attr_cache is None else sharding_attr_cache
        # Names of the `sdy.mesh` operations, by mesh shape.
        self.meshes = {} if meshes is None else meshes
        self.aval_to_ir_types_cache = (
            {} if aval_to_ir_types_cache is None else aval_to_ir_types_cache
        )
        self.pallas_lowering_cache = {} if pallas_lowering_cache is None else pallas_lowering_cache
        # Attributes that lowering rules use often, by the rules' own keys.
        self.attribute_cache = {} if attribute_cache is None else attribute_cache
        # The lowering rule for this module's platforms and parameters, by primitive.
        self.rules = {} if rules is None else rules

    def replace(self, **kw: object) -> ModuleContext:
        """Returns a context of the same module with some fields replaced."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        if "platforms" in kw or "lowering_parameters" in kw:
            fields["rules"] = None
            fields["lowering_cache"] = None
        if "axis_context" in kw:
            fields["lowering_cache"] = None
            fields["sharding_attr_cache"] = None
        fields.update(kw)
        return ModuleContext(**fields)

    def attribute(self, make: Callable[..., Any], *args: object) -> Any:
        """Returns the attribute or type `make(*args)`, cached for this module by hashable `args`."""
        key = (make, args)
        attr = self.attribute_cache.get(key)
        if attr is None:
            attr = self.attribute_cache[key] = make(*args)
        return attr

    def new_channel(self) -> int:
        """Returns a channel id that no other operation of the module has."""
        return next(self.channel_iterator)

    def add_host_callback(self, host_callback: object) -> None:
        self.host_callbacks.append(host_callback)

    def add_keepalive(self, keepalive: object) -> None:
        """Keeps `keepalive` alive as long as the compiled module."""
        self.keepalives.append(keepalive)

    def get_backend(self, optional: bool = False) -> Any:
        """Returns the backend that the module is lowered for.

        Raises:
          NotImplementedError: if there are several platforms or no backend, unless `optional`.
        """
        if len(self.platforms) > 1:
            if optional:
                return None
            raise NotImplementedError(
                "accessing .backend in multi-lowering setting. This can occur when lowering a "
                "primitive that has not been adapted to multi-platform lowering"
            )
        if self.backend is None and not optional:
            raise NotImplementedError("this lowering has no backend: it is for an absent platform")
        return self.backend

    def is_forward_compat(self) -> bool:
        """Whether the module must be readable by an older compiler."""
        params = self.lowering_parameters
        return params.for_export and not params.export_ignore_forward_compatibility


class LoweringRuleContext:
    """Information for a lowering rule about the operation that it lowers.

    Attributes:
      module_context: the `ModuleContext`.
      name_stack, traceback: where the operation comes from.
      primitive: the primitive, or None.
      avals_in, avals_out: abstract values of operands and results.
      tokens_in: tokens of the operation's ordered effects.
      tokens_out: the tokens after the operation, set by `set_tokens_out`.
      const_lowering: IR values of constants that are arguments of the module.
      axis_size_env: sizes of dynamic axes.
      dim_var_values: IR values of the dimension variables of shape polymorphism.
      jaxpr_eqn_ctx: settings under which the operation was traced.
      platforms: the platforms of this rule, if it is one branch for several platforms.
    """

    __slots__ = (
        "module_context",
        "name_stack",
        "traceback",
        "primitive",
        "avals_in",
        "avals_out",
        "tokens_in",
        "tokens_out",
        "const_lowering",
        "axis_size_env",
        "dim_var_values",
        "jaxpr_eqn_ctx",
        "platforms",
    )

    def __init__(
        self,
        module_context: ModuleContext,
        name_stack: Any = None,
        traceback: Any = None,
        primitive: Any = None,
        avals_in: Sequence[Any] = (),
        avals_out: Any = None,
        tokens_in: TokenSet = empty_token_set,
        tokens_out: TokenSet | None = None,
        const_lowering: dict[Any, Any] | None = None,
        axis_size_env: dict[Any, Any] | None = None,
        dim_var_values: Sequence[Any] = (),
        jaxpr_eqn_ctx: Any = None,
        platforms: Sequence[str] | None = None,
    ):
        self.module_context = module_context
        self.name_stack = name_stack
        self.traceback = traceback
        self.primitive = primitive
        self.avals_in = avals_in
        self.avals_out = avals_out
        self.tokens_in = tokens_in
        self.tokens_out = tokens_out
        self.const_lowering = const_lowering
        self.axis_size_env = axis_size_env
        self.dim_var_values = dim_var_values
        self.jaxpr_eqn_ctx = jaxpr_eqn_ctx
        self.platforms = platforms

    def set_tokens_out(self, tokens_out: TokenSet) -> None:
        if self.tokens_out is not None:
            raise ValueError("the lowering rule has already set its tokens")
        self.tokens_out = tokens_out

    def replace(self, **kw: object) -> LoweringRuleContext:
        """Returns a context with some fields replaced; `tokens_out` is always reset."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields["tokens_out"] = None
        fields.update(kw)
        return LoweringRuleContext(**fields)

    def is_forward_compat(self) -> bool:
        return self.module_context.is_forward_compat()
