"""Jaxprs: the intermediate representation, immutable once built."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast, final

import numpy as np

from jax._src import config, dtypes, source_info_util
from jax._src.core.avals import AbstractValue, typeof
from jax._src.core.effects import (
    Effect,
    Effects,
    JaxprInputEffect,
    effects_of_eqns,
    no_effects,
)
from jax._src.core.high import AvalQDD, high_types_in_use
from jax._src.core.primitive import Primitive
from jax._src.late_binding import late
from jax._src.literals import TypedComplex, TypedFloat, TypedInt

if TYPE_CHECKING:
    from jax._src.core.printing import JaxprPpContext
    from jax._src.mesh import AbstractMesh
    from jax._src.source_info_util import SourceInfo

F = TypeVar("F", bound=Callable[..., Any])


class InitialResultPaths:
    """Stands for the path strings of results of a function that has not run."""


initial_result_paths = InitialResultPaths()


class DebugInfo:
    """Where a jaxpr comes from: transformation, function, and names of arguments and results.

    Attributes:
      traced_for: the transformation: `'jit'`, `'grad'`, `'scan'`, ...
      func_src_info: `'name at file:line'`.
      arg_names: a path string for each flat argument, or None.
      result_paths: a path string for each flat result, or None.
    """

    __slots__ = ("traced_for", "func_src_info", "_arg_names", "_result_paths")

    def __init__(
        self,
        traced_for: str = "",
        func_src_info: str = "",
        arg_names: Sequence[str | None] | None = None,
        result_paths: tuple[str, ...] | None = None,
    ) -> None:
        self.traced_for = traced_for
        self.func_src_info = func_src_info
        self._arg_names = arg_names
        self._result_paths = result_paths
        # The names are strings, or functions that compute them only when they are asked for.

    @property
    def arg_names(self) -> Any:
        names = self._arg_names
        if callable(names):
            self._arg_names = names = names()
        return names

    @property
    def result_paths(self) -> Any:
        paths = self._result_paths
        if callable(paths):
            self._result_paths = paths = paths()
        return paths

    @property
    def func_name(self) -> str:
        return self.func_src_info.split(" ")[0]

    def with_unknown_names(self) -> DebugInfo:
        return DebugInfo(self.traced_for, self.func_src_info)

    def safe_arg_names(self, n: int) -> tuple[Any, ...]:
        names = self.arg_names
        return tuple(names) if names is not None and len(names) == n else (None,) * n

    def safe_result_paths(self, n: int) -> tuple[Any, ...]:
        paths = self.result_paths
        return tuple(paths) if paths is not None and len(paths) == n else ("",) * n

    def _replace(self, **kwargs: Any) -> DebugInfo:
        fields = dict(
            traced_for=self.traced_for,
            func_src_info=self.func_src_info,
            arg_names=self._arg_names,
            result_paths=self._result_paths,
        )
        return DebugInfo(**{**fields, **kwargs})

    def __reduce__(self) -> tuple[Any, ...]:
        names = (self.arg_names, self.result_paths)  # no functions
        return DebugInfo, (self.traced_for, self.func_src_info, *names)

    def __repr__(self) -> str:
        return (
            f"DebugInfo(traced_for={self.traced_for!r}, func_src_info={self.func_src_info!r}, "
            f"arg_names={self.arg_names!r}, result_paths={self.result_paths!r})"
        )


unknown_debug_info = DebugInfo()


class Var:
    """A variable of a jaxpr."""

    __slots__ = ("aval", "initial_qdd", "final_qdd", "__weakref__")

    def __init__(self, aval: AbstractValue, initial_qdd: Any = None, final_qdd: Any = None) -> None:
        self.aval = aval
        self.initial_qdd = initial_qdd
        self.final_qdd = final_qdd

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"

    def pretty_print(self, context: JaxprPpContext, *, print_dtype: bool = True) -> str:
        return f"{context.var_names[self]}"


class DropVar(Var):
    """A result that no equation reads; it is printed as `_`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


@final
class Literal:
    """A constant written in place as the operand of an equation."""

    __slots__ = ("val", "aval", "_hash")

    def __init__(self, val: Any, aval: AbstractValue | None = None):
        self.val = val
        self.aval = typeof(val) if aval is None else aval

    @property
    def hash(self) -> Any:
        try:
            return hash(self.val)
        except TypeError:
            return None

    def pretty_print(self, context: object, *, print_dtype: bool = True) -> str:
        """The text in jaxprs, like `1.0:f32[]`."""
        val, aval = self.val, self.aval
        dtype = getattr(aval, "dtype", None)
        if isinstance(dtype, np.dtype) and not aval.shape:
            is_float0 = dtype == dtypes.float0
            text = "float0" if is_float0 else str(np.asarray(val, dtype=dtype).item())
        else:
            text = str(val)
        return f"{text}:{aval.str_short(short_dtypes=True)}" if print_dtype else text

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Literal({self.val})"


Atom = Var | Literal

# Types of scalars written as literals rather than hoisted as constants.
literalable_types: set[type] = {
    bool, int, float, complex, TypedInt, TypedFloat, TypedComplex, np.bool_,
}  # fmt: skip


class JaxprEqnContext:
    """The settings in force when an equation was traced; its lowering must use the same ones."""

    __slots__ = (
        "compute_type",
        "threefry_partitionable",
        "cur_abstract_mesh",
        "remove_size_one_mesh_axis",
        "xla_metadata",
    )

    def __init__(
        self,
        compute_type: str | None,
        threefry_partitionable: bool,
        cur_abstract_mesh: AbstractMesh | None,
        remove_size_one_mesh_axis: bool = False,
        xla_metadata: Any = None,
    ) -> None:
        self.compute_type = compute_type
        self.threefry_partitionable = threefry_partitionable
        self.cur_abstract_mesh = cur_abstract_mesh
        self.remove_size_one_mesh_axis = remove_size_one_mesh_axis
        self.xla_metadata = xla_metadata

    @property
    def manager(self) -> JaxprEqnContextManager:
        return JaxprEqnContextManager(self)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__)
        return f"JaxprEqnContext({fields})"

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, JaxprEqnContext) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())


_CONTEXT_FLAGS = (
    config.compute_on_context_manager,
    config.threefry_partitionable,
    config.abstract_mesh_context_manager,
    config.remove_size_one_mesh_axis_from_type,
    config.xla_metadata_context_manager,
)


class JaxprEqnContextManager:
    """Context manager that restores the settings an equation was traced with."""

    __slots__ = ("ctx", "prev", "prev_mesh")

    def __init__(self, ctx: JaxprEqnContext):
        self.ctx = ctx

    def __enter__(self) -> None:
        self.prev = self.prev_mesh = None
        if self.ctx is current_jaxpr_eqn_context():
            return
        self.prev = [flag.swap_local(v) for flag, v in zip(_CONTEXT_FLAGS, self.ctx._key())]
        # A concrete mesh in context must match it: inside `auto_axes` its axes have other types.
        mesh, concrete = self.ctx.cur_abstract_mesh, config.device_context.value
        if mesh is None or mesh.empty or concrete is None or concrete.empty:
            return
        if concrete.axis_types != mesh.axis_types or concrete.shape_tuple != mesh.shape_tuple:
            same = concrete.shape_tuple == mesh.shape_tuple
            self.prev_mesh = concrete
            config.device_context.set_local(
                concrete.update(axis_types=mesh.axis_types) if same else None
            )

    def __exit__(self, *exc: object) -> None:
        if self.prev_mesh is not None:
            config.device_context.set_local(self.prev_mesh)
        if self.prev is not None:
            for flag, v in zip(_CONTEXT_FLAGS, self.prev):
                flag.set_local(v)


_eqn_contexts: dict[tuple[Any, ...], JaxprEqnContext] = {}
_flag_compute, _flag_threefry, _flag_mesh, _flag_size_one, _flag_metadata = _CONTEXT_FLAGS


def current_jaxpr_eqn_context() -> JaxprEqnContext:
    """The settings in force now; equal settings are represented by the same object."""
    key = (
        _flag_compute.value,
        _flag_threefry.value,
        _flag_mesh.value,
        _flag_size_one.value,
        _flag_metadata.value,
    )
    ctx = _eqn_contexts.get(key)
    if ctx is None:
        ctx = _eqn_contexts[key] = JaxprEqnContext(*key)
    return ctx


class JaxprEqn:
    """One operation: `outvars = primitive[params] invars`."""

    __slots__ = ("invars", "outvars", "primitive", "params", "effects", "source_info", "ctx")

    def __init__(
        self,
        invars: list[Atom],
        outvars: list[Var],
        primitive: Primitive,
        params: dict[str, Any],
        effects: Effects,
        source_info: SourceInfo,
        ctx: JaxprEqnContext,
    ) -> None:
        self.invars = invars
        self.outvars = outvars
        self.primitive = primitive
        self.params = params
        self.effects = effects
        self.source_info = source_info
        self.ctx = ctx

    def replace(self, **kwargs: Any) -> JaxprEqn:
        """A copy with some fields replaced."""
        get = kwargs.get
        return JaxprEqn(
            get("invars", self.invars),
            get("outvars", self.outvars),
            get("primitive", self.primitive),
            get("params", self.params),
            get("effects", self.effects),
            get("source_info", self.source_info),
            get("ctx", self.ctx),
        )

    def __repr__(self) -> str:
        return late.eqn_to_string(self)


def new_jaxpr_eqn(
    invars: Sequence[Atom],
    outvars: Sequence[Var],
    primitive: Primitive,
    params: dict[str, Any],
    effects: Iterable[Effect],
    source_info: SourceInfo | None = None,
    ctx: JaxprEqnContext | None = None,
) -> JaxprEqn:
    """Make an equation, by default with the current settings and an unknown source."""
    return JaxprEqn(
        list(invars),
        list(outvars),
        primitive,
        params,
        frozenset(effects),
        source_info or source_info_util.new_source_info(),
        ctx or current_jaxpr_eqn_context(),
    )


class Jaxpr:
    """A function of typed variables: equations in order, and the variables that are its results.

    Args:
      constvars: variables for constants.
      invars: variables for arguments.
      outvars: results: variables or literals.
      eqns: equations.
      effects: the union of the equations' effects, as a caller sees them.
      debug_info: what the jaxpr was traced for.
    """

    __slots__ = (
        "constvars", "invars", "outvars", "eqns", "effects", "debug_info", "_cache", "_is_high",
        "__weakref__",
    )  # fmt: skip

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[JaxprEqn],
        effects: Iterable[Effect] = no_effects,
        debug_info: DebugInfo | None = None,
        is_high: bool = False,
    ) -> None:
        self.constvars: list[Var] = list(constvars)
        self.invars: list[Var] = list(invars)
        self.outvars: list[Atom] = list(outvars)
        self.eqns: list[JaxprEqn] = list(eqns)
        self.effects: Effects = frozenset(effects)
        self.debug_info: DebugInfo = debug_info or unknown_debug_info
        self._is_high: bool | None = True if is_high else None  # None: not known yet
        self._cache: dict[Any, Any] = {}

    @property
    def in_avals(self) -> list[AbstractValue]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[AbstractValue]:
        return [v.aval for v in self.outvars]

    @property
    def in_aval_qdds(self) -> list[Any]:
        """The types of arguments; of mutable ones with their quasi-dynamic data at first."""
        return [AvalQDD(v.aval, v.initial_qdd) if v.aval.has_qdd else v.aval for v in self.invars]

    @property
    def final_aval_qdds(self) -> list[Any]:
        """The types of arguments; of mutable ones with their quasi-dynamic data at the end."""
        return [AvalQDD(v.aval, v.final_qdd) if v.aval.has_qdd else v.aval for v in self.invars]

    @property
    def is_high(self) -> bool:
        """Whether there is a value of a high type or an operation on such values."""
        if not high_types_in_use.value:
            return False
        if self._is_high is None:
            self._is_high = any(
                [v.aval.is_high for v in (*self.constvars, *self.invars, *self.outvars)]
            ) or any(map(_is_high_eqn, self.eqns))
        return self._is_high

    def replace(self, **kwargs: object) -> Jaxpr:
        """A copy with some fields replaced."""
        fields = {name: getattr(self, name) for name in self.__slots__[:6]}
        fields.update(kwargs)
        if self.effects and "effects" not in kwargs and ("invars" in kwargs or "eqns" in kwargs):
            if any(isinstance(e, JaxprInputEffect) for e in self.effects):
                fields["effects"] = effects_of_eqns(
                    fields["constvars"], fields["invars"], fields["eqns"]
                )
        return Jaxpr(**fields)

    def pretty_print(self, **kwargs: object) -> str:
        return late.pretty_print(self, **kwargs)

    def __str__(self) -> str:
        return late.jaxpr_to_string(self)

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(late.pretty_print(self, use_color=True))

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Jaxpr cannot be pickled; use jax.export to store a traced function")


def _is_high_eqn(eqn: JaxprEqn) -> bool:
    avals = [v.aval for v in eqn.invars]
    return eqn.primitive.is_high(*avals, **eqn.params) or any(
        [j.is_high for j in jaxprs_in_params(eqn.params)]
    )


class ClosedJaxpr:
    """A jaxpr with values for its constants: a function of its arguments alone.

    Args:
      jaxpr: the jaxpr.
      consts: one value for each of `jaxpr.constvars`.
    """

    __slots__ = ("jaxpr", "consts", "_cache", "__weakref__")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()):
        self.jaxpr = jaxpr
        self.consts = list(consts)
        if len(self.consts) != len(jaxpr.constvars):
            raise ValueError(
                f"ClosedJaxpr got {len(self.consts)} constants for {len(jaxpr.constvars)} constvars"
            )
        # Without constants, every ClosedJaxpr of the jaxpr is the same function: share the cache.
        self._cache: dict[Any, Any] = {} if self.consts else jaxpr._cache

    in_avals = property(lambda self: self.jaxpr.in_avals)
    out_avals = property(lambda self: self.jaxpr.out_avals)
    in_aval_qdds = property(lambda self: self.jaxpr.in_aval_qdds)
    final_aval_qdds = property(lambda self: self.jaxpr.final_aval_qdds)
    constvars = property(lambda self: self.jaxpr.constvars)
    invars = property(lambda self: self.jaxpr.invars)
    outvars = property(lambda self: self.jaxpr.outvars)
    eqns = property(lambda self: self.jaxpr.eqns)
    effects = property(lambda self: self.jaxpr.effects)
    debug_info = property(lambda self: self.jaxpr.debug_info)
    is_high = property(lambda self: self.jaxpr.is_high)
    literals = property(lambda self: self.consts)

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        return ClosedJaxpr(f(self.jaxpr), self.consts)

    def replace(
        self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Any] | None = None
    ) -> ClosedJaxpr:
        return ClosedJaxpr(
            self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts
        )

    def pretty_print(self, **kwargs: object) -> str:
        return late.pretty_print(self.jaxpr, **kwargs)

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        self.jaxpr._repr_pretty_(printer, cycle)


class _Owner:
    """Stands in a cached result for the jaxpr that owns the cache.

    A reference cycle from a jaxpr to itself would keep alive the arrays that functions close over,
    until the garbage collector runs. So neither keys nor values of a cache may refer to its owner.
    """


_owner = _Owner()


class _WithOwner:
    """A cached tuple or list in which `_owner` replaces the jaxpr that owns the cache."""

    __slots__ = ("items",)

    def __init__(self, items: Any):
        self.items = items


def _is_owner(x: object, owner: Jaxpr | ClosedJaxpr) -> bool:
    if x is owner or type(x) is not ClosedJaxpr or type(owner) is not ClosedJaxpr:
        return x is owner
    return x.jaxpr is owner.jaxpr and not x.consts


def _replace_items(old: Any, new: list[Any]) -> Any:
    return type(old)(*new) if hasattr(old, "_fields") else type(old)(new)


def without_owner(result: object, owner: Jaxpr | ClosedJaxpr) -> Any:
    """`result` as stored in the cache of `owner`, without references to it; see `with_owner`."""
    if isinstance(result, (tuple, list)):
        places = [_is_owner(x, owner) for x in result]
        if any(places):
            items = [_owner if is_owner else x for x, is_owner in zip(result, places)]
            return _WithOwner(_replace_items(result, items))
        return result
    return _owner if _is_owner(result, owner) else result


def with_owner(cached: Any, owner: Jaxpr | ClosedJaxpr) -> Any:
    """The result that `without_owner` prepared for the cache of `owner`."""
    if cached is _owner:
        return owner
    if type(cached) is _WithOwner:
        items = cached.items
        return _replace_items(items, [owner if x is _owner else x for x in items])
    return cached


def owner_and_key(params: dict[str, Any]) -> tuple[Jaxpr | ClosedJaxpr | None, tuple[Any, ...]]:
    """The first jaxpr among the parameters, and a key of the parameters that does not refer to it.

    What is computed for these parameters is cached on that jaxpr, under this key.
    """
    owner: Jaxpr | ClosedJaxpr | None = None
    items = []
    for name, value in params.items():
        if isinstance(value, (ClosedJaxpr, Jaxpr)):
            owner = owner or value
            value = without_owner(value, owner)
        elif isinstance(value, tuple):
            if owner is None:
                owner = next((x for x in value if isinstance(x, (ClosedJaxpr, Jaxpr))), None)
            if owner is not None:
                value = tuple([without_owner(x, owner) for x in value])
        items.append((name, value))
    return owner, tuple(items)


def cached_on_jaxpr(fun: F) -> F:
    """Memoize `fun(jaxpr, *hashable_args)` on the jaxpr itself, so that it is freed with it."""

    @functools.wraps(fun)
    def wrapper(jaxpr: Jaxpr | ClosedJaxpr, *args: object) -> Any:
        key = (fun, config.trace_context(), args)
        try:
            cached = jaxpr._cache[key]
        except KeyError:
            result = fun(jaxpr, *args)
            jaxpr._cache[key] = without_owner(result, jaxpr)
            return result
        return with_owner(cached, jaxpr)

    return cast("F", wrapper)


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """The closed form of a jaxpr without constants; the same object for as long as it is used."""
    found = jaxpr._cache.get(close_jaxpr)
    closed: ClosedJaxpr | None = None if found is None else found()
    if closed is None:
        closed = ClosedJaxpr(jaxpr, ())
        jaxpr._cache[close_jaxpr] = weakref.ref(closed)
    return closed


def weak_jaxpr(closed: ClosedJaxpr) -> Callable[[], ClosedJaxpr | None]:
    """A weak reference to a jaxpr, as a function.

    It serves objects in the jaxpr's cache, and those that must not keep its constants.
    """
    if closed.consts:
        return weakref.ref(closed)
    ref = weakref.ref(closed.jaxpr)

    def jaxpr() -> ClosedJaxpr | None:
        found = ref()
        return None if found is None else close_jaxpr(found)

    return jaxpr


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The jaxprs in the parameters of the equations of `jaxpr`."""
    for eqn in jaxpr.eqns:
        yield from jaxprs_in_params(eqn.params)


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs among the values of `params` (also inside tuples and lists)."""
    for value in params.values():
        for v in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(v, Jaxpr):
                yield v
            elif isinstance(v, ClosedJaxpr):
                yield v.jaxpr


def eval_jaxpr(
    jaxpr: Jaxpr, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True
) -> list[Any]:
    """Evaluate a jaxpr: bind each equation's primitive in the current trace.

    Args:
      jaxpr: the jaxpr.
      consts: values for `jaxpr.constvars`.
      *args: values for `jaxpr.invars`.
      propagate_source_info: whether errors and new equations name the lines of the equations; if
        not, they name the line of the caller.

    Returns:
      A list of results.
    """
    if len(args) != len(jaxpr.invars):
        raise TypeError(f"eval_jaxpr expected {len(jaxpr.invars)} arguments, got {len(args)}")
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    name_stack = source_info_util.current_name_stack()
    outer = source_info_util.replaced_traceback()
    last_use = last_used(jaxpr)
    for eqn in jaxpr.eqns:
        params = eqn.primitive.get_bind_params(eqn.params)
        vals = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
        info = eqn.source_info
        with (
            source_info_util.user_context(
                info.traceback if propagate_source_info else outer,
                name_stack=name_stack + info.name_stack,
            ),
            eqn.ctx.manager,
        ):
            out = eqn.primitive.bind(*vals, **params)
        if eqn.primitive.multiple_results:
            env.update(zip(eqn.outvars, out))
        else:
            env[eqn.outvars[0]] = out
        for v in eqn.invars:
            if type(v) is not Literal and last_use[v] is eqn:
                env.pop(v, None)
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def last_used(jaxpr: Jaxpr) -> dict[Var, JaxprEqn | None]:
    """The last equation that reads each variable; None for variables that are results."""
    uses: dict[Var, JaxprEqn | None] = {v: None for v in jaxpr.outvars if type(v) is not Literal}
    for eqn in reversed(jaxpr.eqns):
        for v in eqn.invars:
            if type(v) is not Literal and v not in uses:
                uses[v] = eqn
    return uses


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr, *args: object) -> Callable[..., Any]:
    """The flat function that a jaxpr represents; it returns a list of results.

    `args` are values for the leading arguments, if they are already known.
    """

    def run(*rest: object) -> Any:
        return eval_jaxpr(closed_jaxpr.jaxpr, closed_jaxpr.consts, *args, *rest)

    return run


def gensym() -> Callable[[AbstractValue], Var]:
    """A function that makes new variables."""
    return Var


def fun_source_info(fun: Callable[..., Any]) -> str:
    """`'name at file:line'` of a function."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    fun = inspect.unwrap(fun)
    name = getattr(fun, "__name__", None) or type(fun).__name__
    code = getattr(fun, "__code__", None)
    if code is None:
        code = getattr(inspect.getattr_static(type(fun), "__call__", None), "__code__", None)
    if code is None:
        return str(name)
    return f"{name} at {code.co_filename}:{code.co_firstlineno}"


def join_effects(*effects: Effects) -> Effects:
    return frozenset().union(*effects) if effects else no_effects


def is_literalable(x: Any) -> bool:
    """Whether `x` is written in place in a jaxpr: a scalar of a Python or NumPy type."""
    t = type(x)
    if t in literalable_types:
        return True
    return isinstance(x, np.generic) or (t is np.ndarray and not x.shape)
