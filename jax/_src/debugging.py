"""Inspection of running programs: `jax.debug.print`, `jax.debug.callback`, shardings of values."""

from __future__ import annotations

import functools
import logging
import string
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dispatch, dtypes, effects, lib, source_info_util
from jax._src.ad_util import Zero
from jax._src.basearray import Array
from jax._src.callback import call_now, on_host
from jax._src.device_put import values as placing
from jax._src.interpreters import batching, mlir
from jax._src.late_binding import late
from jax._src.lax.control_flow import scan
from jax._src.mesh import AbstractMesh, Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.sharding import Sharding
from jax._src.sharding_impls import (
    GSPMDSharding,
    SingleDeviceSharding,
    SPMDAxisContext,
    parse_flatten_op_sharding,
)
from jax._src.tree_util import tree_flatten, tree_unflatten

logger = logging.getLogger(__name__)


class DebugEffect(effects.Effect):
    """Debugging output that may be repeated, dropped or reordered with other operations."""

    __slots__ = ()
    __str__ = lambda _: "Debug"


class OrderedDebugEffect(effects.Effect):
    """Debugging output in program order."""

    __slots__ = ()
    __str__ = lambda _: "OrderedDebug"


debug_effect = DebugEffect()
ordered_debug_effect = OrderedDebugEffect()
effects.allow_everywhere(DebugEffect, OrderedDebugEffect)
effects.ordered_effects.add_type(OrderedDebugEffect)


def _effect(ordered: bool) -> effects.Effect:
    return ordered_debug_effect if ordered else debug_effect


# Arguments: arrays become operands, other values become static parameters

Statics = tuple[tuple[int, Any], ...]


def _split(args: Any, kwargs: Any) -> tuple[list[Any], Any, Statics]:
    """Split arguments into operands, their tree, and static leaves with their positions."""
    leaves, tree = tree_flatten((args, kwargs))
    operands, statics = [], []
    for i, x in enumerate(leaves):
        if core.valid_jaxtype(x):
            operands.append(x)
        else:
            statics.append((i, x))
    return operands, tree, tuple(statics)


def _merge(operands: Sequence[Any], tree: Any, statics: Statics) -> Any:
    known = dict(statics)
    rest = iter(operands)
    leaves = [known[i] if i in known else next(rest) for i in range(tree.num_leaves)]
    return tree_unflatten(tree, leaves)


# Rules shared by the primitives: they only observe values, so derivatives are not affected


def _define(
    primitive: core.Primitive,
    effect_of: Callable[[dict[str, Any]], effects.Effect],
    host_function: Callable[..., Callable[..., Any]],
) -> None:
    """Gives a primitive its rules; `host_function(**params)` returns the function to call."""

    def types(*_, **params):
        return [], {effect_of(params)}

    def impl(*args, **params):
        outs = None
        if not params["partitioned"]:
            function = host_function(**params)
            call = lambda *values: function(*map(_as_given, args, values))
            outs = call_now("debug_callback", call, args, (), effect_of(params), wrap_errors=False)
        return dispatch.apply_primitive(primitive, *args, **params) if outs is None else outs

    def jvp(primals, tangents, **params):
        return primitive.bind(*primals, **params), []

    def transpose(cts, *args, **params):
        return [Zero(x.aval.to_ct_aval()) if hasattr(x, "aval") else None for x in args]

    def batch(axis_data, args, dims, **params):
        mapped = [d is not None for d in dims]
        if not any(mapped):
            return primitive.bind(*args, **params), []
        args = [x if d is None else batching.moveaxis(x, d, 0) for x, d in zip(args, dims)]

        def step(_, xs):
            rest = iter(xs)
            primitive.bind(*[next(rest) if m else x for x, m in zip(args, mapped)], **params)
            return None, None

        scan(step, None, [x for x, m in zip(args, mapped) if m], length=axis_data.size)
        return [], []

    def lower(ctx, *args, **params):
        ordered = effect_of(params) is ordered_debug_effect
        token = ctx.tokens_in.get(ordered_debug_effect) if ordered else None
        _, token, _ = mlir.emit_python_callback(
            ctx, host_function(**params), token, args, ctx.avals_in, [], has_side_effect=True,
            partitioned=params["partitioned"],
        )  # fmt: skip
        if ordered:
            ctx.set_tokens_out(mlir.TokenSet({ordered_debug_effect: token}))
        return []

    primitive.def_effectful_abstract_eval(types)
    primitive.def_impl(impl)
    primitive.jvp = jvp
    primitive.transpose = transpose
    primitive.axis_batch = batch
    mlir.register_lowering(primitive, lower)


def _as_given(x: Any, value: Any) -> Any:
    """Outside of compiled programs, an operand that says more than its NumPy array: a key, or a weak type."""
    aval = core.typeof(x)
    if isinstance(getattr(aval, "dtype", None), dtypes.ExtendedDType):
        return x
    return late.to_array(x) if getattr(aval, "weak_type", False) else value


def _shown(x: Any, put: Callable[[Any], Array]) -> Array:
    """An operand as an array. Guards concern the program's transfers, not those to look at it."""
    if not config.transfers_are_guarded():
        return put(x)
    with config.transfer_guard_host_to_device("allow"):
        return put(x)


class _HostFunction:
    """A function of trees as one of NumPy arrays, without results; equal for equal functions."""

    __slots__ = ("name", "fun", "tree", "statics")

    def __init__(self, name: str, fun: Callable[..., Any], tree: Any, statics: Statics):
        self.name, self.fun, self.tree, self.statics = name, fun, tree, statics

    def __call__(self, *operands: Any) -> Sequence[Any]:
        try:
            with on_host() as put:
                values = [x if isinstance(x, Array) else _shown(x, put) for x in operands]
                args, kwargs = _merge(values, self.tree, _plain(self.statics))
                self.fun(*args, **kwargs)
        except BaseException:
            logger.exception("%s failed", self.name)
            raise
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HostFunction) and (
            (self.fun, self.tree, self.statics) == (other.fun, other.tree, other.statics)
        )

    def __hash__(self) -> int:
        return hash((self.tree, self.statics))

    def __repr__(self) -> str:
        return repr(self.fun)


# Callbacks

debug_callback_p = core.Primitive("debug_callback", multiple_results=True)
_define(debug_callback_p, lambda params: params["effect"], lambda callback, **_: callback)


def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls a Python function with values of a program, for debugging.

    It interferes with the program as little as possible: a transformation that repeats, drops or
    reorders operations does the same with the call. Derivatives ignore it.
    `jax.debug.callback(ordered=True)(callback, x)` is the same as
    `jax.debug.callback(callback, x, ordered=True)`, for callbacks with arguments of these names.

    Args:
      callback: the function; its result is ignored.
      *args, **kwargs: its arguments: trees. Arrays are passed as arrays on the CPU, other leaves
        unchanged.
      ordered: whether it is called after earlier ordered callbacks; for programs on one device, and
        outside of jit in `shard_map`.
      partitioned: whether each device calls it with its shards, instead of one call with whole
        arrays.

    Raises:
      TypeError: `callback` is not callable.
      Exception: outside of compiled programs, what the callback raises.
      JaxRuntimeError: the callback raised an exception in a compiled program; its traceback is in
        the message.

    >>> f = jax.jit(lambda x: jax.debug.callback(lambda v: print("x is", v), x))
    >>> f(1.5), jax.effects_barrier()
    x is 1.5
    (None, None)
    """
    if callback is None and not args and not kwargs:
        return functools.partial(_debug_callback, ordered, partitioned)
    return _debug_callback(ordered, partitioned, callback, *args, **kwargs)


def _debug_callback(ordered: bool, partitioned: bool, callback: Any, /, *args, **kwargs) -> None:
    if not callable(callback):
        raise TypeError(
            "first argument to jax.debug.callback must be callable, but got an object of type "
            f"{type(callback)}"
        )
    operands, tree, statics = _split(args, kwargs)
    debug_callback_p.bind(
        *operands,
        callback=_HostFunction("jax.debug.callback", callback, tree, _hashable(statics)),
        effect=_effect(ordered),
        partitioned=bool(partitioned),
    )


class _Static:
    """A static value as part of a parameter. Unhashable values are compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


def _hashable(statics: Statics) -> Statics:
    out = []
    for i, x in statics:
        try:
            hash(x)
        except TypeError:
            x = _Static(x)
        out.append((i, x))
    return tuple(out)


def _plain(statics: Statics) -> Statics:
    return tuple((i, x.value if type(x) is _Static else x) for i, x in statics)


# Printing

debug_print_p = core.Primitive("debug_print", multiple_results=True)


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> Any:
    """Prints values of a program, also of a compiled one.

    The text is formatted when the values are known: pass a format string and values, not an
    f-string. `jax.debug.print(ordered=True)("{x}", x=x)` is the same as
    `jax.debug.print("{x}", x=x, ordered=True)`.

    Args:
      fmt: a format string as for `str.format`.
      *args, **kwargs: values to format: trees of arrays, or any other values.
      ordered: whether it is printed after earlier ordered prints; for programs on one device, and
        outside of jit in `shard_map`.
      partitioned: whether each device prints its shards, instead of one print of whole arrays.
      skip_format_check: whether arguments that `fmt` does not use are allowed; if it has no
        placeholders, they are printed after it.

    Raises:
      TypeError: `fmt` is not a string.
      IndexError, KeyError, AttributeError: `fmt` refers to a missing argument, item or attribute.
      ValueError: an argument is not used by `fmt`.

    >>> f = jax.jit(lambda x: jax.debug.print("x: {x:.1f}, {}", x.shape, x=x))
    >>> f(jnp.float32(0.25)), jax.effects_barrier()
    x: 0.2, ()
    (None, None)
    """
    if fmt is None and not args and not kwargs:
        return functools.partial(
            _debug_print, ordered, partitioned, skip_format_check, _use_logging
        )
    return _debug_print(ordered, partitioned, skip_format_check, _use_logging, fmt, *args, **kwargs)


def _debug_print(
    ordered: bool, partitioned: bool, skip_check: bool, use_logging: bool, fmt: Any, /, *args, **kwargs
) -> None:  # fmt: skip
    if not isinstance(fmt, str):
        raise TypeError(
            f"jax.debug.print: the first argument is the format string, got {fmt!r} of type {type(fmt)}"
        )
    if skip_check:
        has_placeholders = any(name is not None for _, name, *_ in string.Formatter().parse(fmt))
    else:
        has_placeholders = True
        _CheckedFormatter().vformat(fmt, args, kwargs)
    operands, tree, statics = _split(args, kwargs)
    record = _log_record() if use_logging else None
    debug_print_p.bind(
        *operands,
        fmt=fmt,
        has_placeholders=has_placeholders,
        in_tree=tree,
        logging_record=record,
        np_printoptions=_print_options(),
        ordered=bool(ordered),
        partitioned=bool(partitioned),
        static_args=_hashable(statics),
    )


class _CheckedFormatter(string.Formatter):
    """Checks that a format string matches the arguments; does not format them."""

    def get_field(self, field_name, args, kwargs):
        # Items of traced values are looked up later: indexing them would add operations.
        head = field_name.partition("[")[0]
        value, first = super().get_field(head, args, kwargs)
        if head != field_name and not isinstance(value, core.Tracer):
            return super().get_field(field_name, args, kwargs)
        return value, first

    def format_field(self, value, format_spec):
        return ""

    def convert_field(self, value, conversion):
        return value

    def check_unused_args(self, used_args, args, kwargs):
        unused = [a for i, a in enumerate(args) if i not in used_args]
        if unused:
            raise ValueError(f"Unused positional arguments to `jax.debug.print`: {unused}")
        unused = [name for name in kwargs if name not in used_args]
        if unused:
            raise ValueError(
                f"Unused keyword arguments to `jax.debug.print`: {unused}. You may be passing an "
                'f-string (i.e, `f"{x}"`) into `jax.debug.print` and instead should pass in a regular '
                "string."
            )


def _print_options() -> tuple[tuple[str, Any], ...]:
    """NumPy's print options at the call, which are applied when the text is printed."""
    options = np.get_printoptions()
    if options.get("formatter"):
        options["formatter"] = _Static(options["formatter"])
    return tuple(options.items())


def _log_record() -> Any:
    frame = source_info_util.user_frame(source_info_util.current().traceback)
    where = (
        ("", 0, "") if frame is None else (frame.file_name, frame.start_line, frame.function_name)
    )
    return _Static(where)


def _print_on_host(
    fmt, has_placeholders, in_tree, static_args, np_printoptions, logging_record, **_
):  # fmt: skip
    def show(*args, **kwargs):
        options = {k: v.value if type(v) is _Static else v for k, v in np_printoptions}
        with np.printoptions(**options):
            if has_placeholders:
                text = fmt.format(*args, **kwargs)
            else:
                text = " ".join([fmt, *map(str, args), *[f"{k}={v}" for k, v in kwargs.items()]])
        if logging_record is None:
            sys.stdout.write(text + "\n")
        else:
            path, line, function = logging_record.value
            record = logger.makeRecord(
                logger.name, logging.INFO, path, line, text, (), None, func=function
            )
            if logger.isEnabledFor(logging.INFO):
                logger.handle(record)

    return _HostFunction("jax.debug.print", show, in_tree, static_args)


_define(debug_print_p, lambda params: _effect(params["ordered"]), _print_on_host)


def debug_log(fmt: str | None = None, *args: Any, **kwargs: Any):
    """Like `jax.debug.print`, but logs with level INFO to the logger of this module."""
    return debug_print(fmt, *args, **{"_use_logging": True, **kwargs})


# Shardings

inspect_sharding_p = core.Primitive("inspect_sharding", multiple_results=True)


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], Any]) -> None:
    """Calls a function with the sharding of an array; in a program, the one the compiler chose.

    Args:
      value: a tree of arrays; `callback` is called for each.
      callback: called once: when the program is compiled, or immediately in eager execution.

    >>> jax.debug.inspect_array_sharding(jnp.ones(3), callback=lambda s: print(s.num_devices))
    1
    """
    for x in tree_flatten(value)[0]:
        inspect_sharding_p.bind(x, callback=callback)


@inspect_sharding_p.def_effectful_abstract_eval
def _inspect_types(aval, **_):
    return [], {debug_effect}


@inspect_sharding_p.def_impl
def _inspect_impl(x, *, callback):
    if not hasattr(x, "sharding"):
        x = placing.device_put_value(x, None, placing.REUSE)
    callback(x.sharding)
    return []


def _inspect_batch(args, dims, *, callback):
    return inspect_sharding_p.bind(*args, callback=callback), []


def _inspect_lower(ctx, x, *, callback):
    module_ctx = ctx.module_context
    axis_context = module_ctx.axis_context
    devices = axis_context.device_assignment
    if devices is None:
        raise NotImplementedError(
            "inspect_array_sharding needs to know the devices of the program, so it cannot be used in "
            "one for export or for an abstract mesh: compile it for a jax.sharding.Mesh, or leave the "
            "call out."
        )
    if len(devices) == 1:
        callback(SingleDeviceSharding(devices[0]))
        return []

    manual_axes = frozenset()
    if isinstance(axis_context, SPMDAxisContext):
        mesh, manual_axes = axis_context.mesh, axis_context.manual_axes
    else:
        mesh = axis_context.abstract_mesh

    def chosen(hlo_sharding):
        callback(_named(hlo_sharding, devices, mesh, manual_axes))

    module_ctx.add_keepalive(chosen)
    mlir.custom_call(
        "InspectSharding",
        result_types=[x.type],
        operands=[x],
        backend_config=lib._jax.encode_inspect_sharding_callback(chosen),
        has_side_effect=True,
        api_version=1,
    )
    return []


def _named(hlo_sharding: Any, devices: Any, mesh: Any, manual_axes: frozenset[Any]) -> Sharding:
    """The compiler's sharding over the axes of a mesh; in shard_map, over those it does not map."""
    if mesh is not None and not mesh.empty:
        mesh = Mesh(np.array(devices).reshape(mesh.axis_sizes), mesh.axis_names, mesh.axis_types)
        sizes = {n: size for n, size in mesh.shape.items() if n not in manual_axes}
        free = AbstractMesh(tuple(sizes.values()), tuple(sizes)) if manual_axes else mesh
        try:
            (spec,) = parse_flatten_op_sharding(hlo_sharding, free)
            return NamedSharding(mesh, spec)
        except (ValueError, NotImplementedError):
            pass
    return GSPMDSharding(devices, hlo_sharding)


def _inspect_jvp(primals, _, *, callback):
    return inspect_sharding_p.bind(*primals, callback=callback), []


inspect_sharding_p.jvp = _inspect_jvp
inspect_sharding_p.batch = _inspect_batch
mlir.register_lowering(inspect_sharding_p, _inspect_lower)
