"""Argument handling for `jax.numpy`: checks, conversion to arrays, promotion, broadcasting."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax._src import config, core, dtypes, traceback_util
from jax._src.array_impl import device_sharding
from jax._src.basearray import Array
from jax._src.core import ShapedArray
from jax._src.jit.library import inline_jit, nested_jit
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.lax.checks import broadcasting_sharding
from jax._src.lax.resharding import reshard
from jax._src.lib import Device
from jax._src.mesh import Mesh
from jax._src.named_sharding import NamedSharding
from jax._src.partition_spec import PartitionSpec
from jax._src.sharding import Sharding
from jax._src.sharding_impls import canonicalize_sharding
from jax._src.typing import ArrayLike, DTypeLike
from jax._src.util import set_module

export = set_module("jax.numpy")

_NUMBERS = (bool, int, float, complex)
_ARRAYLIKE = (Array, np.ndarray, np.generic, *_NUMBERS)
_PYTHON_NUMBERS = frozenset(_NUMBERS)
_FLOATS = frozenset([*dtypes.float_types])
_SHORT_FLOATS = _FLOATS - {np.dtype(np.float64)}
_INEXACT = frozenset([*dtypes.float_types, *dtypes.complex_types])
_scalar_dtypes = {float: dtypes.default_float_dtype, complex: dtypes.default_complex_dtype}

# Values


def known_bounds(x: Any, context: str) -> tuple[int, int]:
    """The smallest and the largest element of a nonempty array of integers that is not traced.

    Unlike all elements, they are also known to a process that has only a part of the array.

    Raises:
      ConcretizationTypeError: the array is traced; `context` says why that matters.
    """
    value = core.concrete_or_error(None, x, context)
    if isinstance(value, Array) and not value.is_fully_addressable:
        axes = tuple(range(value.ndim))
        return int(lax.reduce_min(value, axes)), int(lax.reduce_max(value, axes))
    value = np.asarray(value)
    return int(value.min()), int(value.max())


# Checks


def is_arraylike(x: Any) -> bool:
    if is_ref(x):
        return False
    return (
        isinstance(x, _ARRAYLIKE)
        or hasattr(x, "__jax_array__")
        or dtypes.is_weakly_typed(x)
        or type(x) in core.pytype_aval_mappings
    )


def is_ref(x: Any) -> bool:
    """Tests whether `x` is a mutable array (a reference), or a tracer of one."""
    if isinstance(x, core.Tracer):
        return isinstance(x.aval, core.AbstractRef)
    return isinstance(x, core.Ref)


def check_arraylike(fun_name: str, *args: Any, emit_warning: bool = False, stacklevel: int = 3):
    """Checks that all arguments of the function `fun_name` are arrays or scalars.

    Raises:
      TypeError: if one is not, naming its position; with `emit_warning`, a warning is issued
        instead.
    """
    for pos, arg in enumerate(args):
        if not is_arraylike(arg):
            kind = f"the reference {core.typeof(arg)}" if is_ref(arg) else str(type(arg))
            msg = f"{fun_name} requires ndarray or scalar arguments, got {kind} at position {pos}."
            if is_ref(arg):
                msg += " Read it first, with `ref[...]`."
            if not emit_warning:
                raise TypeError(msg)
            warnings.warn(
                msg + " In a future JAX release this will be an error.",
                category=DeprecationWarning,
                stacklevel=stacklevel,
            )


def arraylike(fun_name: str, *args: Any) -> list[Any]:
    """Checks the arguments and calls their `__jax_array__` methods; Python numbers are unchanged.

    Raises:
      TypeError: see `check_arraylike`.
    """
    check_arraylike(fun_name, *args)
    return [x if isinstance(x, _ARRAYLIKE) else lower_jax_array(x) for x in args]


def check_arraylike_or_none(fun_name: str, *args: Any) -> None:
    """Checks like `check_arraylike`, but allows None."""
    for pos, arg in enumerate(args):
        if arg is not None and not is_arraylike(arg):
            raise TypeError(
                f"{fun_name} requires ndarray, scalar, or None arguments, got {type(arg)} at position"
                f" {pos}."
            )


def check_no_float0s(fun_name: str, *args: Any) -> None:
    """Raises a TypeError if an argument has dtype float0."""
    if any(getattr(x, "dtype", None) == dtypes.float0 for x in args):
        raise TypeError(
            f"Called {fun_name} with a float0 array. float0s do not support any operations by design "
            "because they are not compatible with non-trivial vector spaces. No implicit dtype "
            "conversion is done. Use np.zeros(arr.shape, dtype=float) in place of a float0 array. \n"
            "If you didn't expect to get a float0 you might have accidentally taken a gradient with "
            "respect to an integer argument."
        )


def ensure_arraylike(fun_name: str, *args: Any) -> Any:
    """Converts the argument, or a tuple of several, to arrays.

    Raises:
      TypeError: see `check_arraylike`.
    """
    check_arraylike(fun_name, *args)
    if len(args) == 1:
        return to_array(args[0])
    return tuple([to_array(arg) for arg in args])


def ensure_arraylike_tuple(fun_name: str, tup: Sequence[Any]) -> tuple[Array, ...]:
    """Converts the elements of a sequence to a tuple of arrays.

    Raises:
      TypeError: see `check_arraylike`.
    """
    check_arraylike(fun_name, *tup)
    return tuple([to_array(arg) for arg in tup])


def to_array(x: Any) -> Any:
    """Converts what `check_arraylike` accepts to an array or tracer; Python numbers stay weak."""
    if isinstance(x, Array):
        return x
    if hasattr(x, "__jax_array__"):
        return to_array(x.__jax_array__())
    return late.to_array(x)


def lower_jax_array(x: Any) -> Any:
    """Returns `x.__jax_array__()`, or `x` if it has no such method."""
    return x.__jax_array__() if hasattr(x, "__jax_array__") else x


def is_extended(x: Any) -> bool:
    """Tests whether `x` has an extended dtype, such as that of random keys."""
    return isinstance(getattr(x, "dtype", None), dtypes.ExtendedDType)


def user_warning(message: str, category: type[Warning] = UserWarning) -> None:
    """Issues a warning that points to the user's line."""
    warnings.warn(message, category, stacklevel=traceback_util.user_stacklevel())


def reject_out(fun_name: str, out: Any) -> None:
    """Raises a NotImplementedError if `out` is given, since arrays are immutable."""
    if out is not None:
        raise NotImplementedError(
            f"The 'out' argument to jnp.{fun_name} is not supported. Use the result instead: arrays "
            "are immutable."
        )


# Dtypes


def promote_dtypes(*args: ArrayLike) -> list[Any]:
    """Converts the arguments to their common dtype."""
    to_dtype, weak_type = dtypes.lattice_result_type(*args)
    return [convert(x, to_dtype, weak_type) for x in args]


def promote_dtypes_inexact(*args: ArrayLike) -> list[Any]:
    """Converts the arguments to a common floating-point or complex dtype."""
    to_dtype, weak_type = dtypes.lattice_result_type(*args)
    to_dtype = dtypes.to_inexact_dtype(to_dtype)
    return [convert(x, to_dtype, weak_type) for x in args]


def promote_dtypes_numeric(*args: ArrayLike) -> list[Any]:
    """Converts the arguments to a common numeric dtype: booleans become integers."""
    to_dtype, weak_type = dtypes.lattice_result_type(*args)
    to_dtype = dtypes.to_numeric_dtype(to_dtype)
    return [convert(x, to_dtype, weak_type) for x in args]


def convert(x: Any, dtype: Any, weak_type: bool = False) -> Any:
    """Converts `x` to a dtype and weak type; Python and NumPy numbers need no traced operation."""
    kind = type(x)
    if kind in _PYTHON_NUMBERS:
        return _number(x, kind, dtype, weak_type)
    if kind is np.ndarray or isinstance(x, np.generic):
        own = x.dtype
        if own == dtype and not weak_type:
            return x
        if not weak_type and own.kind in "biuf" and own.kind == dtype.kind:
            return x.astype(dtype)
    else:
        aval = getattr(x, "aval", None)
        if type(aval) is ShapedArray and aval.dtype == dtype and aval.weak_type == weak_type:
            return x
    return lax.convert_type(x, dtype, weak_type)


def _number(x: Any, kind: type, dtype: Any, weak_type: bool) -> Any:
    if kind is int:
        dtypes.scalar_type_to_dtype(int, x)  # raises an OverflowError if it is too large
    if weak_type:
        default = _scalar_dtypes.get(kind)
        if kind is int and dtype == dtypes.default_int_dtype():
            return x
        if default is not None and dtype == default():
            return x
        if dtype == dtypes.default_float_dtype():
            return float(x)
        if dtype == dtypes.default_complex_dtype():
            return complex(x)
        return lax.convert_type(x, dtype, True)
    if isinstance(dtype, dtypes.ExtendedDType):
        return x
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype)


# Shapes


def promote_shapes(fun_name: str, *args: ArrayLike) -> list[Any]:
    """Prepends dimensions of size 1 until the ranks agree; scalars are left alone.

    Raises:
      ValueError: if ranks differ and jax_numpy_rank_promotion is 'raise'.
    """
    if len(args) < 2:
        return list(args)
    shapes = [np.shape(arg) for arg in args]
    ranks = {len(shape) for shape in shapes if shape}
    if len(ranks) < 2:
        return list(args)
    if config.numpy_rank_promotion.value != "allow":
        _rank_promotion_warning_or_error(fun_name, shapes)
    rank = len(lax.broadcast_shapes(*shapes))
    return [
        x if not shape or len(shape) == rank else lax.broadcast_to_rank(x, rank)
        for x, shape in zip(args, shapes)
    ]


def _rank_promotion_warning_or_error(fun_name: str, shapes: Sequence[tuple]) -> None:
    more = "; for more information, see https://docs.jax.dev/en/latest/rank_promotion_warning.html."
    names = " ".join(map(str, shapes))
    if config.numpy_rank_promotion.value == "warn":
        user_warning(
            f"Following NumPy automatic rank promotion for {fun_name} on shapes {names}. Set the "
            f"jax_numpy_rank_promotion config option to 'allow' to disable this warning{more}"
        )
        return
    raise ValueError(
        f"Operands could not be broadcast together for {fun_name} on shapes {names} and with the config "
        f"option jax_numpy_rank_promotion='raise'{more.replace('; for', '. For', 1)}"
    )


# Dtypes and shapes


def promote_args(fun_name: str, *args: Any) -> list[Any]:
    """Checks an operation's arguments, promotes their dtypes and makes their ranks agree.

    Raises:
      TypeError: if an argument is not an array.
    """
    check_arraylike(fun_name, *args)
    check_no_float0s(fun_name, *args)
    return promote_shapes(fun_name, *_promoted(fun_name, promote_dtypes, args))


def promote_args_numeric(fun_name: str, *args: Any) -> list[Any]:
    """Promotes like `promote_args`, and booleans to integers."""
    check_arraylike(fun_name, *args)
    check_no_float0s(fun_name, *args)
    return promote_shapes(fun_name, *_promoted(fun_name, promote_dtypes_numeric, args))


def promote_args_inexact(fun_name: str, *args: Any) -> list[Any]:
    """Promotes like `promote_args`, and booleans and integers to floating point."""
    check_arraylike(fun_name, *args)
    check_no_float0s(fun_name, *args)
    return promote_shapes(fun_name, *_promoted(fun_name, promote_dtypes_inexact, args))


def _promoted(fun_name: str, promote: Callable[..., list[Any]], args: Sequence[Any]) -> list[Any]:
    args = [lower_jax_array(x) for x in args]
    try:
        return promote(*args)
    except ValueError:
        if not any(map(is_extended, args)):
            raise
    names = ", ".join(str(dtypes.dtype(x)) for x in args)
    raise TypeError(f"{fun_name} does not accept dtype{'s' * (len(args) > 1)} {names}.")


def promote_inexact(fun_name: str, x: Any) -> Any:
    """Promotes one argument like `promote_args_inexact`, with a fast path for inexact arrays."""
    aval = getattr(x, "aval", None)
    if type(aval) is ShapedArray and aval.dtype in _INEXACT:
        return x
    return promote_args_inexact(fun_name, x)[0]


def promote_pair(fun_name: str, x: Any, y: Any) -> Any:
    """Promotes two arguments like `promote_args`, with fast paths for the common cases."""
    a, b = getattr(x, "aval", None), getattr(y, "aval", None)
    if type(a) is ShapedArray:
        if type(b) is ShapedArray:
            if (
                a.dtype == b.dtype
                and a.weak_type == b.weak_type
                and (len(a.shape) == len(b.shape) or not a.shape or not b.shape)
                and a.dtype is not dtypes.float0
            ):
                return x, y
        elif type(y) in (float, int) and not a.weak_type and _keeps_type(a.dtype):
            return x, _number(y, type(y), a.dtype, False)
    elif (
        type(b) is ShapedArray
        and type(x) in (float, int)
        and not b.weak_type
        and _keeps_type(b.dtype)
    ):
        return _number(x, type(x), b.dtype, False), y
    return promote_args(fun_name, x, y)


def _keeps_type(dtype: Any) -> bool:
    """Whether arrays of the type keep it when they meet a real number: float64 only with 64-bit types."""
    return dtype in _SHORT_FLOATS or (dtype in _FLOATS and config.enable_x64.value)


# Broadcasting and selection, for modules that jnp.broadcast_to and jnp.where depend on


def broadcast_arrays(*args: Any) -> list[Array]:
    """Broadcasts arrays like `jnp.broadcast_arrays`."""
    args = ensure_arraylike_tuple("broadcast_arrays", args)
    shapes = [arg.shape for arg in args]
    if any(core.typeof(arg)._sharding is not None for arg in args):
        return _broadcast_explicit(*args)
    if len(set(shapes)) <= 1:
        return list(args)
    shape = lax.broadcast_shapes(*shapes)
    return [broadcast_to(arg, shape) for arg in args]


# A scalar alone, differentiated outside a program, would not have the devices of the other operands.
@nested_jit
def _broadcast_explicit(*args: Any) -> list[Array]:
    shape = lax.broadcast_shapes(*[arg.shape for arg in args])
    return _broadcast_all("broadcast_arrays", args, shape)


def broadcast_to(arr: ArrayLike, shape: Any, sharding: Any = None) -> Array:
    """Broadcasts an array like `jnp.broadcast_to`; `sharding` is that of the result."""
    arr = ensure_arraylike("broadcast_to", arr)
    if not isinstance(shape, tuple):
        if isinstance(shape, (int, np.integer)) or core.is_symbolic_dim(shape):
            shape = (shape,)
    shape = core.canonicalize_shape(shape)
    if sharding is None and arr.shape == shape:
        return arr
    extra = len(shape) - len(arr.shape)
    if extra < 0 or any(
        not core.definitely_equal_one_of_dim(d, (1, s)) for d, s in zip(arr.shape, shape[extra:])
    ):
        raise ValueError(
            f"Incompatible shapes for broadcasting: {arr.shape} and requested shape {shape}"
        )
    # broadcast_in_dim repeats dimensions of size 1 itself, so they keep their place.
    return lax.broadcast_in_dim(arr, shape, tuple(range(extra, len(shape))), out_sharding=sharding)


# Implements `jnp.where` with three arguments. Operands of equal types take the first branch.
@inline_jit
def select_where(condition: Any, x: Any, y: Any) -> Array:
    c, a, b = (getattr(v, "aval", None) for v in (condition, x, y))
    if (
        type(a) is type(b) is type(c) is ShapedArray
        and a.shape == b.shape == c.shape
        and a.dtype == b.dtype
        and a.weak_type == b.weak_type
        and c.dtype == np.bool_
    ):
        return lax.select_n(condition, y, x)
    check_arraylike("where", condition, x, y)
    condition = lower_jax_array(condition)
    if dtypes.dtype(condition) != np.bool_:
        condition = lax.ne(condition, lax.const(condition, 0))
    if (
        type(a) is ShapedArray
        and type(y) in (float, int)
        and not a.weak_type
        and _keeps_type(a.dtype)
    ):
        y = _number(y, type(y), a.dtype, False)
    elif not (
        type(a) is type(b) is ShapedArray and a.dtype == b.dtype and a.weak_type == b.weak_type
    ):
        x, y = lower_jax_array(x), lower_jax_array(y)
        if any(getattr(v, "dtype", None) != dtypes.float0 for v in (x, y)):
            check_no_float0s("where", x, y)
            x, y = promote_dtypes(x, y)
    shapes = np.shape(condition), np.shape(x), np.shape(y)
    shape = lax.broadcast_shapes(*shapes)
    if any(s != shape for s in shapes):
        operands = condition, x, y
        condition, x, y = _broadcast_all("where", operands, shape, keeps_first=not shapes[0])
    return lax.select_n(condition, y, x)


def _broadcast_all(
    name: str, operands: Sequence[Any], shape: tuple, keeps_first: bool = False
) -> list[Any]:
    """Broadcasts operands, the first one only if not `keeps_first`, to `shape` in one sharding."""
    avals = [core.typeof(x) for x in operands]
    common = None
    if any(a._sharding is not None for a in avals):
        common = broadcasting_sharding(name, *[_padded(a, len(shape)) for a in avals])
    reduced = frozenset[Any]().union(*(_spec(a).reduced for a in avals))
    out = []
    for i, (x, aval) in enumerate(zip(operands, avals)):
        if i == 0 and keeps_first:
            out.append(x)
            continue
        sharding = common
        if common is not None:
            # Unreduced operands stay unreduced. Scalars take the reduced axes of the arrays.
            sharding = common.update(
                spec=common.spec.update(
                    unreduced=_spec(aval).unreduced,
                    reduced=_spec(aval).reduced if aval.shape else reduced,
                )
            )
        if aval.shape != shape:
            dims = tuple(range(len(shape) - len(aval.shape), len(shape)))
            x = lax.broadcast_in_dim(x, shape, dims, out_sharding=common)
        out.append(x if core.typeof(x)._sharding == sharding else reshard(x, sharding))
    return out


def _spec(aval: Any) -> PartitionSpec:
    return PartitionSpec() if aval._sharding is None else aval._sharding.spec


def _padded(aval: Any, ndim: int) -> Any:
    """Returns the aval with leading dimensions of size 1."""
    extra = ndim - len(aval.shape)
    if not extra or not aval.shape:
        return aval
    sharding = aval._sharding
    if sharding is not None:
        spec = sharding.spec
        sharding = sharding.update(
            spec=spec.update(partitions=(None,) * extra + tuple(spec.partitions))
        )
    return aval.update(shape=(1,) * extra + aval.shape, sharding=sharding)


def _where_or(number: float) -> Callable[[Any, Any], Array]:
    def where(condition: Any, x: Any) -> Array:
        return select_where.__wrapped__(condition, x, number)

    return inline_jit(where)


# Common fill values get a jitted function each, with the value as a constant: passing a scalar
# operand would cost a third of the time of a call.
where_or_number = {repr(n): _where_or(n) for n in (0, 0.0, -math.inf)}


def complex_elem_type(dtype: DTypeLike) -> Any:
    """Returns the real dtype of a complex dtype's parts; a real dtype is returned unchanged."""
    dtype = np.dtype(dtype)
    return np.finfo(dtype).dtype if dtype.kind == "c" else dtype


def check_one_placement(fun_name: str, device: Any, out_sharding: Any) -> None:
    """Raises a ValueError if both `device` and `out_sharding` are given."""
    if device is not None and out_sharding is not None:
        raise ValueError(
            f"Only one of `device` or `out_sharding` can be set. Got device={device} and"
            f" out_sharding={out_sharding} in jnp.{fun_name}."
        )


def target_of_type(fun_name: str, out_sharding: Any, ndim: int) -> Any:
    """Returns the `place` target for a result of rank `ndim` and the type `out_sharding`."""
    sharding = canonicalize_sharding(out_sharding, fun_name)
    if not sharding.mesh._any_axis_explicit:
        return out_sharding
    spec = sharding.spec._normalized_spec_for_aval(ndim)
    if isinstance(out_sharding, NamedSharding) and isinstance(out_sharding.mesh, Mesh):
        return out_sharding.update(spec=spec)
    return spec


def placement(fun_name: str, device: Any, out_sharding: Any) -> Any:
    """Returns the sharding that a creation function's `device` or `out_sharding` asks for."""
    check_one_placement(fun_name, device, out_sharding)
    if device is None:
        return canonicalize_sharding(out_sharding, f"jnp.{fun_name}")
    if isinstance(device, Device):
        return device_sharding(device)
    if not isinstance(device, Sharding):
        raise TypeError(
            f"{fun_name}: device must be a jax.Device or a jax.sharding.Sharding, got {device!r} of type"
            f" {type(device).__name__}"
        )
    return device
