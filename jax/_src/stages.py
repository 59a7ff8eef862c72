"""Ahead-of-time stages of `jit`: traced, lowered, compiled.

jitted.trace(*args) -> Traced, .lower() -> Lowered, .compile() -> Compiled
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Protocol, runtime_checkable

from jax._src import core, special_values, util
from jax._src.api_util import shaped_abstractify
from jax._src.interpreters import lojax
from jax._src.layout import Format, Layout
from jax._src.memory import KIND_OF_SPACE, MemorySpace
from jax._src.mesh import Mesh
from jax._src.named_sharding import NamedSharding, UnspecifiedValue
from jax._src.tree_util import (
    PyTreeDef,
    equality_errors_pytreedef,
    keystr,
    tree_flatten,
    tree_unflatten,
    treedef_children,
)

CompilerOptions = dict[str, str | bool | int | float]


class ArgInfo:
    """The type of an argument of a stage, and whether it is donated."""

    __slots__ = ("_aval", "donated")

    def __init__(self, _aval: core.AbstractValue, donated: bool):
        self._aval = _aval
        self.donated = donated

    @property
    def shape(self):
        return self._aval.shape

    @property
    def dtype(self):
        return self._aval.dtype

    def __eq__(self, other):
        return (
            isinstance(other, ArgInfo)
            and self._aval == other._aval
            and self.donated == other.donated
        )

    def __hash__(self):
        return hash((self._aval, self.donated))

    def __repr__(self) -> str:
        return f"ArgInfo(_aval={self._aval!r}, donated={self.donated})"


class _Stage:
    __slots__ = ("in_tree", "_infos", "__weakref__")

    def __init__(self, in_tree: PyTreeDef, infos: Sequence[ArgInfo]):
        self.in_tree = in_tree  # of (args, kwargs)
        self._infos = infos

    @property
    def args_info(self) -> Any:
        """Types of the arguments and whether they are donated, as a tree of (args, kwargs)."""
        return tree_unflatten(self.in_tree, self._infos)

    @property
    def in_avals(self):
        """Types of the arguments, as a tree of (args, kwargs)."""
        return tree_unflatten(self.in_tree, [x._aval for x in self._infos])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Flat positions of donated arguments."""
        return tuple(i for i, x in enumerate(self._infos) if x.donated)


class Traced(_Stage):
    """A function that has been traced to a jaxpr, for arguments of given types.

    >>> jax.jit(jnp.sin).trace(1.).jaxpr
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """

    __slots__ = (
        "_params",
        "_out_tree",
        "_consts",
        "_flat",
        "_lower",
        "fun_name",
    )

    def __init__(self, params, in_tree, out_tree, consts, flat, lower):
        donated = params["donated_invars"][len(consts) :]
        infos = [ArgInfo(shaped_abstractify(x), d) for x, d in zip(flat, donated)]
        super().__init__(in_tree, infos)
        self._params = params
        self._out_tree = out_tree
        self._consts = consts
        self._flat = flat
        self._lower = lower
        self.fun_name = params["name"]

    @property
    def jaxpr(self) -> core.ClosedJaxpr:
        """The jaxpr, with flat arguments and results."""
        return self._params["jaxpr"]

    @property
    def lojax(self) -> core.ClosedJaxpr:
        """The jaxpr of arrays only, which is compiled; see `jax.experimental.hijax`."""
        return lojax.lower_jaxpr(self.jaxpr).closed if self.jaxpr.is_high else self.jaxpr

    @property
    def out_tree(self):
        return self._out_tree

    @property
    def out_avals(self):
        """Types of the results, as a tree."""
        return tree_unflatten(self._out_tree, self.jaxpr.out_avals)

    @property
    def out_info(self):
        """Types of the results, as a tree of `ShapeDtypeStruct`, with `out_shardings` of `jit`."""
        structs = _out_structs(self.jaxpr.out_avals, _out_placements(self._params))
        return tree_unflatten(self._out_tree, structs)

    def lower(self, *, lowering_platforms: tuple[str, ...] | None = None, _private_parameters=None):
        """Lower to StableHLO.

        Args:
          lowering_platforms: platforms to lower for; by default that of the arguments.
          _private_parameters: `LoweringParameters`; only `jax.export` gives them.
        """
        lowering = self._lower(
            self._params,
            [*self._consts, *self._flat],
            platforms=lowering_platforms,
            private_parameters=_private_parameters,
        )
        placements = _out_placements(self._params)
        high = lojax.lower_jaxpr(self.jaxpr) if self.jaxpr.is_high else None
        return Lowered(
            lowering,
            self.in_tree,
            self._infos,
            self._out_tree,
            self._consts,
            placements,
            core.weak_jaxpr(self.jaxpr if high is None else high.closed),
            high,
        )


def _out_placements(params):
    """The shardings of results, with layouts if these are known."""
    return [
        Format(layout, s) if isinstance(layout, Layout) else s
        for s, layout in zip(params["out_shardings"], params["out_layouts"], strict=True)
    ]


def _out_structs(avals, out_shardings):
    structs = [core.ShapeDtypeStruct.from_aval(a) for a in avals]
    if out_shardings is None:
        return structs
    return [
        struct if isinstance(s, UnspecifiedValue) else struct.update(sharding=s)
        for struct, s in zip(structs, out_shardings)
    ]


def _on_devices(struct, aval, mesh):
    """`struct` with a sharding over the concrete mesh instead of its abstract mesh."""
    sharding = struct.sharding
    if isinstance(sharding, NamedSharding) and sharding.mesh is mesh.abstract_mesh:
        on_host = getattr(aval, "memory_space", None) is MemorySpace.Host
        kind = KIND_OF_SPACE[MemorySpace.Host] if on_host else None
        return struct.update(sharding=NamedSharding(mesh, sharding.spec, memory_kind=kind))
    return struct


class Lowered(_Stage):
    """A function that has been lowered to StableHLO and can be compiled."""

    __slots__ = ("_lowering", "out_tree", "_consts", "_out_shardings", "_jaxpr", "_high")

    def __init__(
        self, lowering, in_tree, infos, out_tree, consts=(), out_shardings=None, jaxpr=None,
        high=None,
    ):  # fmt: skip
        super().__init__(in_tree, infos)
        self._jaxpr = jaxpr  # a weak reference
        self._lowering = lowering
        self._high = high
        self._out_shardings = out_shardings
        self.out_tree = out_tree
        self._consts = list(consts)

    @property
    def out_info(self):
        """Types of the results, as a tree of `ShapeDtypeStruct`, with `out_shardings` of `jit`."""
        if self._high is not None:
            structs = _out_structs(self._high.out_types, None)
            return tree_unflatten(self.out_tree, structs)
        avals = [a.strip_weak_type() for a in self._lowering.out_avals]
        structs = _out_structs(avals, self._out_shardings)
        mesh = self._lowering.mesh
        if isinstance(mesh, Mesh):
            structs = [_on_devices(s, a, mesh) for s, a in zip(structs, avals)]
        return tree_unflatten(self.out_tree, structs)

    def compile(self, compiler_options: CompilerOptions | None = None, *, device_assignment=None):
        """Compile the program.

        Args:
          compiler_options: XLA options by name, which override those given to `jit`.
          device_assignment: a tuple of the devices, for a program that was lowered for an
            `AbstractMesh`. Of other programs, shardings and arguments have determined the devices.

        Raises:
          ValueError: the devices are others than those that the program was lowered for, or more or
            fewer.
          RuntimeError: the program was lowered for an `AbstractMesh`, and no devices are given.
        """
        kwargs = {} if device_assignment is None else {"device_assignment": device_assignment}
        return Compiled(
            self._lowering.compile(compiler_options, **kwargs),
            self.in_tree,
            self._infos,
            self.out_tree,
            self._consts,
            self._jaxpr,
            self._high,
        )

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The lowered program as text; `dialect` is 'stablehlo' (the default) or 'hlo'."""
        return self._lowering.as_text(dialect, debug_info=debug_info)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The lowered program as an object of the compiler; None if it has no such form."""
        return self._lowering.compiler_ir(dialect)

    def cost_analysis(self) -> Any:
        """Estimates of the cost of the unoptimized program, as a dictionary.

        None for absent devices (`jax.experimental.topologies`): compile the program, then ask it.
        """
        return self._lowering.cost_analysis()


class Compiled(_Stage):
    """A compiled function: call it with arguments of the types it was compiled for."""

    __slots__ = ("_executable", "out_tree", "_consts", "_call", "_jaxpr", "_high")

    def __init__(self, executable, in_tree, infos, out_tree, consts=(), jaxpr=None, high=None):
        super().__init__(in_tree, infos)
        self._high = high
        self._executable = executable
        self._jaxpr = jaxpr  # to find the operation that gives a NaN
        self.out_tree = out_tree
        self._consts = list(consts)
        self._call = None

    def as_text(self) -> str | None:
        """The optimized program as text."""
        return self._executable.as_text()

    def cost_analysis(self) -> Any:
        """Estimates of the cost of the program (flops, bytes accessed, ...), as a dictionary."""
        return self._executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """Estimates of the memory the program needs."""
        return self._executable.memory_analysis()

    def runtime_executable(self) -> Any:
        """The native executable."""
        return self._executable.runtime_executable()

    @property
    def out_info(self):
        """Types and shardings of the results, as a tree of `ShapeDtypeStruct`."""
        if self._high is not None:
            return tree_unflatten(self.out_tree, _out_structs(self._high.out_types, None))
        from_aval = core.ShapeDtypeStruct.from_aval
        structs = [from_aval(a.strip_weak_type()) for a in self._executable.out_avals]
        formats = self._executable.output_formats()
        structs = [s.update(sharding=f) for s, f in zip(structs, formats)]
        return tree_unflatten(self.out_tree, structs)

    def _flat_inputs(self, values):
        n = len(self._consts)
        values = list(values)
        if self._high is not None:
            values = self._high.parts_of_args(values)
        return tree_unflatten(self.in_tree, values[n:])

    def _flat_outputs(self, values):
        if self._high is not None:
            values = self._high.parts_of_outs(list(values))
        return tree_unflatten(self.out_tree, values)

    @property
    def input_shardings(self):
        """Shardings of the arguments, as a tree of (args, kwargs); None for unused ones."""
        return self._flat_inputs(self._executable.input_shardings())

    @property
    def output_shardings(self):
        """Shardings of the results, as a tree."""
        return self._flat_outputs(self._executable.output_shardings())

    @property
    def input_formats(self):
        """Layouts and shardings of the arguments, as a tree of (args, kwargs)."""
        return self._flat_inputs(self._executable.input_formats())

    @property
    def output_formats(self):
        """Layouts and shardings of the results, as a tree."""
        return self._flat_outputs(self._executable.output_formats())

    def __call__(self, *args, **kwargs):
        """Run the program on arguments of the types it was compiled for.

        Raises:
          TypeError: if the trees or types of the arguments differ; the message names the argument.
        """
        call = self._call
        if call is None:
            call = self._call = self._native_call() or self._python_call
        return call(*args, **kwargs) if kwargs else call(*args)  # the latter is faster

    call = __call__

    def _native_call(self):
        if self._consts or self._high is not None:
            return None
        params = SimpleNamespace(no_kwargs=False, in_tree=self.in_tree, out_tree=self.out_tree)
        return self._executable.create_cpp_call(params, self._check, self._run)

    def _python_call(self, *args, **kwargs):
        flat, tree = tree_flatten((args, kwargs))
        self._check(args, kwargs, flat, tree)
        flat = [*self._consts, *flat]
        if self._high is None:
            return tree_unflatten(self.out_tree, self._run(*flat))
        outs = self._run(*self._high.lower_args(flat))
        return tree_unflatten(self.out_tree, self._high.raise_outs(flat, outs))

    def _run(self, *flat):
        executable = self._executable
        if special_values.needs_check_special():
            jaxpr = None if self._jaxpr is None else self._jaxpr()
            return special_values.run_checked(executable.call, flat, jaxpr, executable.name)
        return executable.call(*flat)

    def _check(self, args, kwargs, flat, tree) -> None:
        util.test_event("compiled_call_cache_miss")
        if tree != self.in_tree:
            raise TypeError(self._tree_mismatch(args, kwargs, tree))
        for x in flat:
            if isinstance(x, core.Tracer):
                raise TypeError(
                    "Cannot apply JAX transformations to a function lowered and compiled for a "
                    f"particular signature. Detected argument of Tracer type {type(x)}."
                )

    def _tree_mismatch(self, args, kwargs, tree) -> str:
        pairs = zip(("args", "kwargs"), treedef_children(self.in_tree), treedef_children(tree))
        lines = [
            f"  * at {name}{keystr(path)}, seen {was} but now given {now}, so {why}"
            for name, seen, given in pairs
            for path, was, now, why in equality_errors_pytreedef(seen, given)
        ]
        return (
            "Function compiled with input pytree does not match the input pytree it was called with. "
            f"There are {len(lines)} mismatches:\n" + "\n".join(lines)
        )


class _WrappedMeta(type(Protocol)):  # type: ignore[misc]
    """Looks at the object: other functions are of the native class of jitted functions, too."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is not Wrapped:
            return super().__instancecheck__(instance)
        return callable(instance) and hasattr(instance, "trace") and hasattr(instance, "lower")


@runtime_checkable
class Wrapped(Protocol, metaclass=_WrappedMeta):
    """A jitted function: callable, with ahead-of-time stages."""

    def __call__(self, *args, **kwargs):
        """Run the function, after compiling it if necessary."""

    def trace(self, *args, **kwargs) -> Traced:
        """Trace for arguments of these types."""

    def lower(self, *args, **kwargs) -> Lowered:
        """Trace and lower for arguments of these types."""


def flatten_args(args: Sequence[Any], kwargs: dict) -> tuple[list, Any]:
    return tree_flatten((args, kwargs))
