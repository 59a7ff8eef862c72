"""Traces and tracers.

Tracing is stackless: each thread has one current trace, and `Primitive.bind` hands every operation to
it. A transformation makes a trace that remembers the trace it was made in (its parent), makes it
current while it runs the user's function, and processes each operation with the parent current.
"""

from __future__ import annotations

import functools
import gc
import operator
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import numpy as np

from jax._src import config, dtypes, source_info_util
from jax._src.core.avals import (
    AbstractValue,
    ShapedArray,
    is_symbolic_dim,
    pytype_aval_mappings,
)
from jax._src.core.axis_env import AxisEnv, empty_axis_env, no_axis_name as no_axis_name
from jax._src.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from jax._src.late_binding import late
from jax._src.lib import _jax, config_ext

if TYPE_CHECKING:
    from jax._src.core.primitive import Primitive

# Whether a trace is current, as part of every jit cache key: while tracing, a call with only
# concrete arguments must reach Python too instead of executing a cached program directly.
_trace_state = config_ext.Config("trace_state", False, include_in_jit_key=True)


class CallsFunction(Protocol):
    """A primitive that calls a function: `jax._src.call_primitives.CallPrimitive`."""

    def call_in(
        self, trace: Trace, fun: Callable[..., Any], args: Sequence[Any], params: dict[str, Any]
    ) -> Any: ...


class Trace:
    """An interpretation of operations: what happens to each one while a function is transformed."""

    __slots__ = ("__weakref__", "_valid")
    requires_low = False

    def __init__(self) -> None:
        self._valid = True

    def full_raise(self, x: object) -> Any:
        """`x` as a tracer of this trace, for traces that require tracers as operands."""
        return x

    def stage_value(self, val: object) -> Any:
        """`val` as if an operation of this trace had returned it."""
        return val if isinstance(val, Tracer) else late.to_array(val)

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Apply `primitive` to `args` in this trace."""
        raise NotImplementedError(f"{type(self).__name__} cannot process {primitive}")

    def bind_here(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Bind `primitive` with this trace as the current one."""
        with set_current_trace(self):
            return primitive.bind_with_trace(self, args, params)

    def process_call(
        self,
        call_primitive: CallsFunction,
        f: Callable[..., Any],
        tracers: Sequence[Any],
        params: dict[str, Any],
        /,
    ) -> Any:
        """Apply a primitive that calls the function `f`, a `CallPrimitive`."""
        return call_primitive.call_in(self, f, tracers, params)

    def process_custom_jvp_call(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        jvp: Callable[..., Any],
        args: Sequence[Any],
        *,
        symbolic_zeros: bool,
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot process {primitive}")

    def process_custom_vjp_call(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        args: Sequence[Any],
        *,
        out_trees: Callable[[], Any],
        symbolic_zeros: bool,
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot process {primitive}")

    def cur_qdd(self, x: Any) -> Any:
        """The present quasi-dynamic data of a mutable value; see `core.cur_qdd`."""
        with set_current_trace(eval_trace):
            return x.cur_qdd()

    @property
    def main(self) -> Any:
        """The identity shared by all traces of one transformation."""
        return getattr(self, "tag", None) or self

    def invalidate(self) -> None:
        """Mark the trace as ended: a tracer of it that is used from now on has leaked."""
        self._valid = False

    def is_valid(self) -> bool:
        return self._valid

    def __repr__(self) -> str:
        return type(self).__name__


class TraceTag:
    """An identity shared by the traces of one transformation."""

    __slots__ = ("__weakref__",)


class EvalTrace(Trace):
    """The trace of eager execution."""

    __slots__ = ()

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        return primitive.impl(*args, **params)

    def process_custom_jvp_call(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        jvp: Callable[..., Any],
        args: Sequence[Any],
        *,
        symbolic_zeros: bool,
    ) -> Any:
        check_eval_args(args)
        return fun(*args)

    def process_custom_vjp_call(
        self,
        primitive: Primitive,
        fun: Callable[..., Any],
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        args: Sequence[Any],
        *,
        out_trees: Callable[[], Any],
        symbolic_zeros: bool,
    ) -> Any:
        check_eval_args(args)
        return fun(*args)


eval_trace = EvalTrace()


class _TraceContext(threading.local):
    """The current trace and the named axes of one thread."""

    def __init__(self) -> None:
        self.trace: Trace = eval_trace
        self.axis_env: AxisEnv = empty_axis_env
        # In explicit mode: the mesh axes that the batch axis of the running batching rule is
        # sharded over.
        self.batch_mesh_axis: Any = None

    def set_trace(self, trace: Trace) -> None:
        """Make `trace` current; the caller puts the previous one back."""
        tracing = trace is not eval_trace
        if (self.trace is not eval_trace) is not tracing:
            _trace_state.set_local(tracing)
        self.trace = trace

    def set_axis_env(self, axis_env: AxisEnv) -> None:
        self.axis_env = axis_env
        config.axis_env_state.set_local(axis_env.key())

    def is_top_level(self) -> bool:
        return self.trace is eval_trace and not self.axis_env.sizes


trace_ctx = _TraceContext()


class set_current_trace:
    """Context manager: make `trace` the current one.

    With `check_leaks`, raises at exit if tracers of it are still alive (`jax.checking_leaks`).
    """

    __slots__ = ("trace", "check_leaks", "prev")

    def __init__(self, trace: Trace, check_leaks: bool = False):
        self.trace = trace
        self.check_leaks = check_leaks

    def __enter__(self) -> Trace:
        self.prev = trace_ctx.trace
        trace_ctx.set_trace(self.trace)
        return self.trace

    def __exit__(self, *exc: object) -> None:
        trace_ctx.set_trace(self.prev)
        if self.check_leaks and exc[0] is None and config.check_tracer_leaks.value:
            trace = weakref.ref(self.trace)
            del self.trace, self.prev
            check_leaks(trace)


class take_current_trace:
    """Context manager: make eager evaluation current; yields the previously current trace."""

    __slots__ = ("prev",)

    def __enter__(self) -> Any:
        self.prev = trace_ctx.trace
        trace_ctx.set_trace(eval_trace)
        return self.prev

    def __exit__(self, *exc: object) -> None:
        trace_ctx.set_trace(self.prev)


class extend_axis_env:
    """Context manager: bring named axes into scope, given as pairs of name and size.

    `spmd` and `explicit` are the mesh axes over which a mapped axis is sharded; `by_vmap` says that
    the axes are of `vmap`.
    """

    __slots__ = ("pairs", "spmd", "explicit", "by_vmap", "prev")

    def __init__(
        self,
        pairs: Sequence[tuple[Any, Any]],
        spmd: Sequence[Any] = (),
        explicit: Sequence[Any] = (),
        by_vmap: bool = False,
    ) -> None:
        self.pairs = tuple(pairs)
        self.spmd, self.explicit = spmd, explicit
        self.by_vmap = by_vmap

    def __enter__(self) -> None:
        self.prev = trace_ctx.axis_env
        trace_ctx.set_axis_env(self.prev.extend(self.pairs, self.spmd, self.explicit, self.by_vmap))

    def __exit__(self, *exc: object) -> None:
        trace_ctx.set_axis_env(self.prev)


extend_axis_env_nd = extend_axis_env


def get_axis_env() -> AxisEnv:
    return trace_ctx.axis_env


def eval_context() -> Any:
    """Context manager in which operations are executed eagerly, whatever trace is current."""
    return set_current_trace(eval_trace)


def trace_state_clean() -> bool:
    """Whether no transformation is in progress in this thread."""
    return trace_ctx.is_top_level()


def reset_trace_state() -> bool:
    """Make eager evaluation current again; returns whether it already was."""
    clean = trace_state_clean()
    trace_ctx.set_trace(eval_trace)
    trace_ctx.set_axis_env(empty_axis_env)
    return clean


class OpaqueTraceState:
    """A token for the current tracing state, to compare with another one."""

    __slots__ = ("_trace", "_axes")

    def __init__(self) -> None:
        trace = trace_ctx.trace
        self._trace = trace if trace is eval_trace else weakref.ref(trace)
        self._axes = trace_ctx.axis_env.key()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, OpaqueTraceState)
            and self._trace == other._trace
            and self._axes == other._axes
        )

    def __hash__(self) -> int:
        return hash(self._axes)


def get_opaque_trace_state(convention: object | None = None) -> OpaqueTraceState:
    """A token for the transformations in progress: equal tokens mean the same ones.

    `convention` names the calling library; the token does not depend on it.
    """
    return OpaqueTraceState()


_ON_THE_RESULT = "Call it outside of the transformed function, on its result."
_OF_THE_TYPE = "Use jax.typeof(x).sharding for the sharding of its type."
_MISSING = object()
_ONLY_ON_ARRAYS = {
    "block_until_ready": _ON_THE_RESULT,
    "copy_to_host_async": _ON_THE_RESULT,
    "device": _OF_THE_TYPE,
    "sharding": _OF_THE_TYPE,
    "__cuda_array_interface__": _ON_THE_RESULT,
}


class Tracer:
    """A value in a trace: it has a type, and usually no concrete value."""

    __slots__ = ("_trace", "aval", "__weakref__")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: Trace, aval: AbstractValue):
        self._trace = trace
        self.aval = aval

    @staticmethod
    def _is_traced_array_class() -> bool:
        return True

    def _is_traced_array(self) -> bool:
        """Whether `isinstance(self, jax.Array)`; called by the native class."""
        return isinstance(self.aval, ShapedArray)

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> Any:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    def __len__(self) -> int:
        shape = self.aval.shape
        if not shape:
            raise TypeError("len() of unsized object")
        return int(shape[0])

    def to_concrete_value(self) -> Any:
        """The concrete value behind this tracer, or None."""
        return None

    def full_lower(self) -> Any:
        return self

    def get_referent(self) -> Any:
        return self

    def _created_on(self, info: source_info_util.SourceInfo | None) -> str:
        """Text about where this value was made; empty if `info` is None."""
        if info is None:
            return ""
        return (
            f"\nThis {type(self).__name__} with object id {id(self)} was created on line:\n"
            f"  {source_info_util.summarize(info)}"
        )

    def _origin_msg(self) -> str:
        """A sentence on where the value comes from, for error messages."""
        return ""

    def _contents(self) -> Sequence[tuple[str, Any]]:
        return ()

    def cur_qdd(self) -> Any:
        """The present quasi-dynamic data of a mutable value."""
        return trace_ctx.trace.cur_qdd(self)

    type_state = cur_qdd

    def __bool__(self) -> bool:
        value = self.to_concrete_value()
        if value is None:
            check_bool_conversion(self)
            raise TracerBoolConversionError(self)
        return bool(value)

    def __int__(self) -> int:
        value: int = self._to_scalar(int)
        return value

    def __float__(self) -> float:
        value: float = self._to_scalar(float)
        return value

    def __complex__(self) -> complex:
        value: complex = self._to_scalar(complex)
        return value

    def _to_scalar(self, cast: type) -> Any:
        value = self.to_concrete_value()
        if value is None:
            self._refuse_scalar(cast)
        return cast(value)

    def _refuse_scalar(self, cast: type, why: str = "") -> NoReturn:
        check_scalar_conversion(self)
        raise ConcretizationTypeError(
            self,
            f"The problem arose with the `{cast.__name__}` function. If trying to convert the data "
            f"type of a value, try using `x.astype({cast.__name__})` or "
            f"`jnp.array(x, {cast.__name__})` instead.{why}",
        )

    def __index__(self) -> int:
        value = self.to_concrete_value()
        if value is None:
            check_integer_conversion(self)
            raise TracerIntegerConversionError(self)
        return operator.index(value)

    def __hex__(self) -> str:
        return hex(self.__index__())

    def __oct__(self) -> str:
        return oct(self.__index__())

    def __round__(self, ndigits: object = None) -> NoReturn:
        raise ConcretizationTypeError(self, "The problem arose with the `round` function. ")

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TracerArrayConversionError(self)

    def __dlpack__(self, *args: object, **kwargs: object) -> NoReturn:
        raise ConcretizationTypeError(
            self, f"The __dlpack__() method was called on {self._error_repr()}."
        )

    def tolist(self) -> NoReturn:
        raise ConcretizationTypeError(
            self, f"The tolist() method was called on {self._error_repr()}."
        )

    def tobytes(self, order: str = "C") -> NoReturn:
        raise ConcretizationTypeError(
            self, f"The tobytes() method was called on {self._error_repr()}."
        )

    def item(self, *args: Any) -> Any:
        value = self.to_concrete_value()
        if value is None:
            raise ConcretizationTypeError(
                self, f"The item() method was called on {self._error_repr()}."
            )
        return np.asarray(value).item(*args)

    @property
    def block_until_ready(self) -> Any:
        """The method that waits for the value; missing on tracers without one, as in `jit`."""
        value = self._value_for("block_until_ready")
        return lambda: (value.block_until_ready(), self)[1]

    @property
    def copy_to_host_async(self) -> Any:
        return self._value_for("copy_to_host_async").copy_to_host_async

    def _value_for(self, method: str) -> Any:
        value = self.to_concrete_value()
        if value is None or not hasattr(value, method):
            raise AttributeError
        return value

    def _no_buffer(self, what: str) -> NoReturn:
        raise ConcretizationTypeError(self, f"The {what} was called on {self._error_repr()}.")

    def delete(self) -> None:
        self._no_buffer("delete() method")

    def is_deleted(self) -> None:
        self._no_buffer("is_deleted() method")

    def devices(self) -> None:
        self._no_buffer("devices() method")

    def unsafe_buffer_pointer(self) -> None:
        self._no_buffer("unsafe_buffer_pointer() method")

    def on_device_size_in_bytes(self) -> None:
        self._no_buffer("on_device_size_in_bytes() method")

    def addressable_data(self, index: int) -> None:
        self._no_buffer("addressable_data() method")

    @property
    def addressable_shards(self) -> None:
        self._no_buffer("addressable_shards attribute")

    @property
    def global_shards(self) -> None:
        self._no_buffer("global_shards attribute")

    @property
    def is_fully_addressable(self) -> None:
        self._no_buffer("is_fully_addressable attribute")

    @property
    def is_fully_replicated(self) -> None:
        self._no_buffer("is_fully_replicated attribute")

    @property
    def __cuda_array_interface__(self) -> NoReturn:
        raise AttributeError  # not ConcretizationTypeError: libraries test with hasattr

    @property
    def sharding(self) -> Any:
        value = self.to_concrete_value()
        if value is not None:
            return value.sharding
        if getattr(self.aval, "_sharding", None) is not None:
            return self.aval.sharding
        raise AttributeError  # makes Python call __getattr__, which raises it with an explanation

    @property
    def device(self) -> NoReturn:
        raise AttributeError  # as for `sharding`

    # Outside code asks any value whether it is a dimension; no traced one is.
    dimension_as_value: Callable[[], Any] | None = None

    @property
    def traceback(self) -> NoReturn:
        raise ConcretizationTypeError(
            self, f"The 'traceback' attribute is not available on {self._error_repr()}."
        )

    @property
    def committed(self) -> NoReturn:
        raise ConcretizationTypeError(
            self, f"The 'committed' attribute is not available on {self._error_repr()}."
        )

    def __getattr__(self, name: str) -> Any:
        # Called only when normal lookup fails or a property raises AttributeError.
        aval = object.__getattribute__(self, "aval")
        if not name.startswith("__") and not isinstance(aval, ShapedArray):
            attr = getattr(aval if aval.is_high else type(aval), name, _MISSING)
            if isinstance(attr, aval_property):
                return attr.fget(self)
            if isinstance(attr, aval_method):
                return functools.partial(attr.fun, self)
            if aval.is_high and attr is not _MISSING:
                return attr
        if name in _ONLY_ON_ARRAYS:
            raise AttributeError(
                f"The {name!r} attribute is not available on {self._error_repr()}."
                f" {_ONLY_ON_ARRAYS[name]}"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")

    def _error_repr(self) -> str:
        if self.aval is None:
            return f"traced array with aval {self.aval}"
        return f"traced array with shape {self.aval.str_short()}"

    def _short_repr(self) -> str:
        return f"{type(self).__name__}({self.aval})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.aval}>"

    __str__ = __repr__

    def _repr_inside(self) -> str:
        """The text in that of a tracer that contains this one, or of a leaked one."""
        return repr(self)

    def __format__(self, spec: Any) -> str:
        if spec == "":
            return str(self)
        value = self.to_concrete_value()
        if value is None:
            raise ConcretizationTypeError(self, f"The format specification {spec!r} needs a value.")
        return format(value, spec)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise ConcretizationTypeError(
            self, f"The error occurred in the pickling of {self._error_repr()}."
        )


def repr_inside(x: object) -> str:
    """The text of a value in that of a tracer that contains it."""
    return x._repr_inside() if isinstance(x, Tracer) else str(x)


class aval_property(NamedTuple):
    """A property that an abstract value gives to its tracers: `prop = aval_property(fget)`."""

    fget: Callable[..., Any]


class aval_method(NamedTuple):
    """A method that an abstract value gives to its tracers: `method = aval_method(fun)`."""

    fun: Callable[..., Any]


_jax.set_tracer_class(Tracer)


def _tracer_aval(x: Tracer) -> AbstractValue:
    return x.aval


def register_tracer_class(cls: type) -> type:
    """Register `cls`, so that `typeof` returns the aval of its instances."""
    pytype_aval_mappings[cls] = _tracer_aval
    return cls


register_tracer_class(Tracer)


def check_bool_conversion(x: Any) -> None:
    """Raise NumPy's error for the truth value of an array that is not a scalar."""
    shape = x.shape
    if not shape:
        return
    if 0 in shape:
        raise ValueError("The truth value of an empty array is ambiguous. Use `array.size > 0`.")
    if any(d != 1 for d in shape):
        raise ValueError(
            "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
        )
    raise TypeError(
        f"Only scalar arrays can be converted to Python scalars; got array of shape {shape}."
    )


def check_scalar_conversion(x: Any) -> None:
    if x.shape:
        raise TypeError(
            f"Only scalar arrays can be converted to Python scalars; got x.ndim={len(x.shape)}"
        )


def check_integer_conversion(x: Any) -> None:
    if not (x.shape == () and dtypes.issubdtype(x.dtype, np.integer)):
        raise TypeError("Only integer scalar arrays can be converted to a scalar index.")


def escaped_tracer_error(tracer: Tracer, detail: str | None = None) -> UnexpectedTracerError:
    """The error for a tracer used after its transformation has ended."""
    what = getattr(tracer, "_leak_description", None)
    msg = (
        "Encountered an unexpected tracer. A function transformed by JAX had a side effect, allowing "
        f"for a reference to an intermediate value with type {tracer.aval.str_short()} wrapped in a "
        f"{type(tracer).__name__} to escape the scope of the transformation.\n"
        "JAX transformations require that functions explicitly return their outputs, and disallow "
        "saving intermediate values to global state."
    )
    if what is not None:
        msg += what()
    if detail:
        msg += f"\nDetail: {detail}"
    msg += (
        "\nTo catch the leak earlier, try setting the environment variable JAX_CHECK_TRACER_LEAKS or "
        "using the `jax.checking_leaks` context manager."
    )
    return UnexpectedTracerError(msg)


def check_eval_args(args: Sequence[Any]) -> None:
    """Raise if an argument of an eager operation is a tracer, which has then escaped its trace."""
    for arg in args:
        if isinstance(arg, Tracer):
            raise escaped_tracer_error(arg)


def check_leaks(trace_ref: weakref.ref[Any]) -> None:
    """Raise if tracers of an ended trace (given as a weak reference) are still alive."""
    trace = trace_ref()
    if trace is None:
        return
    gc.collect()
    leaked = [x for x in gc.get_referrers(trace) if isinstance(x, Tracer) and x._trace is trace]
    if not leaked:
        return
    names = "\n".join(
        f"  {x._repr_inside()}{x._origin_msg()}{_who_refers_to(x, leaked)}" for x in leaked
    )
    what = f"Leaked trace {trace}. Leaked tracer(s):\n{names}\n"
    line = source_info_util.summarize(source_info_util.current())
    if line:
        what += f"The transformed function was called at {line}.\n"
    del trace
    raise Exception(
        what + "A value of a traced function was stored where it outlives the call (a global, an "
        "attribute, a closure, a cache). Return it from the function instead."
    )


def _who_refers_to(x: object, leaked: Sequence[object]) -> str:
    from jax._src.core.leaks import describe_referrer  # which most programs do not use

    referrer = describe_referrer(x, (leaked,))
    return f"\n  It is kept as {referrer}" if referrer else ""


def is_concrete(x: object) -> bool:
    """Whether a concrete value is known for `x`."""
    return to_concrete_value(x) is not None


def to_concrete_value(x: object) -> Any:
    """The concrete value of `x`, or None if only its type is known."""
    if isinstance(x, Tracer):
        return x.to_concrete_value()
    return x


def concrete_or_error(force: Callable[[Any], Any] | None, val: object, context: str = "") -> Any:
    """Apply `force` to the concrete value of `val`.

    Raises:
      ConcretizationTypeError: if only the type of `val` is known; `context` says why that matters.
    """
    if force is None:
        force = lambda x: x
    concrete = to_concrete_value(val)
    if concrete is None and val is not None:
        raise ConcretizationTypeError(val, context)
    if force is operator.index and is_symbolic_dim(concrete):
        force = int  # says that a constant is required, and of which dimension
    return force(concrete)


def concrete_dim_or_error(force: Any, val: Any, context: str = "") -> Any:
    """`concrete_or_error` for the size of a dimension, which may be symbolic."""
    return val if is_symbolic_dim(val) else concrete_or_error(force, val, context)


def full_lower(x: object) -> Any:
    return x


def find_top_trace(_: object) -> Trace:
    """The current trace, whatever the arguments are."""
    return trace_ctx.trace


def unsafe_get_axis_names() -> list[Any]:
    return [name for name in trace_ctx.axis_env.axis_names() if name is not no_axis_name]


def nonempty_axis_env() -> bool:
    return bool(trace_ctx.axis_env.sizes)
