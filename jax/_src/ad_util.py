"""Symbolic zeros: tangents and cotangents known to be zero, so that nothing computes with them."""

from typing import Any

import numpy as np

from jax._src import config, dtypes
from jax._src.core import (
    AbstractValue,
    Primitive,
    ShapedArray,
    Tracer,
    eval_context,
    high_types_in_use,
    is_constant_shape,
    typeof,
)
from jax._src.core.primitive import sorted_axes
from jax._src.late_binding import late
from jax._src.memory import MemorySpace


class Zero:
    """A tangent or cotangent of type `aval` that is known to be zero."""

    __slots__ = ("aval",)

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    @staticmethod
    def from_primal_value(val: Any) -> "Zero":
        """The zero tangent of a primal value."""
        return Zero(typeof(val).to_tangent_aval())

    def instantiate(self):
        return zeros_like_aval(self.aval)

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


def zeros_like_aval(aval: AbstractValue) -> Any:
    """An array of zeros of type `aval`."""
    handler = aval_zeros_likers.get(type(aval))
    if handler is None:
        if aval.is_high:
            with eval_context():  # a value of a high type must not contain values of a trace
                return aval.vspace_zero()
        raise TypeError(f"no zeros of type {aval}")
    return handler(aval)


def _zeros_like_shaped_array(aval: ShapedArray):
    zeros = _invariant_zeros(aval)
    if aval.memory_space is not MemorySpace.Device:
        zeros = late.device_put(zeros, aval.memory_space)
    return with_manual_type(zeros, aval.manual_axis_type)


def with_manual_type(x: Any, mat: Any) -> Any:
    """`x` with the roles that `mat` says for manual mesh axes, along which it is the same."""
    for role in ("varying", "unreduced", "reduced") if mat else ():
        axes = getattr(mat, role)
        if axes:
            x = late.pvary(x, sorted_axes(axes), role)
    return x


def manual_type_remedy(got: Any, want: Any, value: str, primal: str | None = None) -> str:
    """A sentence that says how a value of type `got` gets the manual axis type of `want`, or "".

    `value` is the code for the value, a cotangent; or a tangent, if `primal` describes its primal
    value.
    """
    have, need = getattr(got, "manual_axis_type", None), getattr(want, "manual_axis_type", None)
    if have is None or need is None or have == need:
        return ""
    more, fewer = have.varying - need.varying, need.varying - have.varying
    names = ", ".join(sorted(map(repr, more or fewer)))
    axes = names if len(more or fewer) == 1 else f"({names})"
    if more and primal:
        return f" Apply `jax.lax.pcast(..., {axes}, to='varying')` to {primal}."
    if more:
        return f" Sum it over the axes with `jax.lax.psum({value}, {axes})`."
    if fewer:
        return f" Use `jax.lax.pcast({value}, {axes}, to='varying')`."
    return f" `jax.lax.pcast` and `jax.lax.psum` change over which mesh axes {value} is unreduced or reduced."


def _invariant_zeros(aval: ShapedArray):
    """Zeros that are the same along all manual mesh axes."""
    if aval.dtype == dtypes.float0:
        if is_constant_shape(aval.shape):
            return np.zeros(aval.shape, dtypes.float0)
        return late.broadcast_in_dim(np.zeros((), dtypes.float0), aval.shape, ())
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        return (
            aval.dtype._rules.zero(aval)
            if hasattr(aval.dtype._rules, "zero")
            else late.full(aval.shape, 0, aval.dtype)
        )
    sharding = aval._sharding
    if aval.weak_type:
        if aval.dtype == dtypes.canonicalize_dtype(np.float64):
            if not aval.shape:
                return 0.0
            return late.broadcast_in_dim(0.0, aval.shape, (), out_sharding=sharding)
        zeros = late.full(aval.shape, 0, aval.dtype, sharding=sharding)
        return late.convert_element_type(zeros, aval.dtype, True)
    if not aval.shape:
        return np.zeros((), aval.dtype)
    return late.full(aval.shape, 0, aval.dtype, sharding=sharding)


aval_zeros_likers: dict[type, Any] = {ShapedArray: _zeros_like_shaped_array}


def instantiate(z: Any) -> Any:
    """`z`, or an array of zeros if it is a symbolic zero."""
    return zeros_like_aval(z.aval) if type(z) is Zero else z


def is_zero(z: Any) -> bool:
    return type(z) is Zero


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents (or cotangents) of the same type."""
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    return add_jaxvals(x, y)


def add_cotangents(x: Any, y: Any) -> Any:
    """The sum of the cotangents of two uses of a value, where a backward pass collects them."""
    if config.debug_backward_nans.value and type(x) is not Zero and type(y) is not Zero:
        return late.checked_sum(x, y)
    return add_tangents(x, y)


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two cotangents; zeros of dtype float0 stay as they are."""
    if getattr(x, "dtype", None) == dtypes.float0:
        return x
    if high_types_in_use.value and typeof(x).is_high:
        return typeof(x).vspace_add(x, y)
    return late.add_any(x, y)


class SymbolicZero:
    """The zero that custom rules get for arguments that are not perturbed (`symbolic_zeros=True`).

    It has the type of the zero (`aval`, `shape`, `dtype`) but no data.
    """

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)

    @staticmethod
    def from_primal_value(val: Any) -> "SymbolicZero":
        return SymbolicZero(typeof(val).to_tangent_aval())

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.str_short()})"


def replace_internal_symbolic_zeros(x: Any) -> Any:
    return SymbolicZero(x.aval) if type(x) is Zero else x


def replace_rule_output_symbolic_zeros(x: Any) -> Any:
    return Zero(x.aval) if type(x) is SymbolicZero else x


def is_tracer(x: Any) -> bool:
    return isinstance(x, Tracer)


stop_gradient_p: Primitive  # assigned by `lax`, together with its rules
