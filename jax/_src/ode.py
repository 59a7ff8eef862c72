"""Integrates ordinary differential equations by an adaptive Runge-Kutta method.

The method is that of J. R. Dormand and P. J. Prince, "A family of embedded Runge-Kutta formulae" (1980), of
order 5 with an error estimate of order 4; between steps, the solution is the quartic polynomial through
the value that L. F. Shampine, "Some practical Runge-Kutta formulas" (1986), gives for the middle of a step.
The first step is chosen as in E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential
Equations I" (1993), section II.4. Gradients integrate the adjoint equation backwards (L. S. Pontryagin;
R. T. Q. Chen et al., "Neural ordinary differential equations", 2018).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from jax._src import api, core, dtypes
from jax._src.basearray import Array
from jax._src.custom_derivatives import closure_convert, custom_vjp
from jax._src.flatten_util import ravel_pytree
from jax._src.lax import control_flow, lax
from jax._src.linear_util import WrappedFun, wrap_init
from jax._src.numpy import ufuncs_binary as binary, ufuncs_unary as unary
from jax._src.numpy.array_constructors import array, asarray
from jax._src.numpy.array_creation import arange, zeros, zeros_like
from jax._src.numpy.dtype_utils import iscomplexobj
from jax._src.numpy.linalg.norms import norm
from jax._src.numpy.manipulation.joining import concatenate, stack
from jax._src.numpy.polynomial import polyval
from jax._src.numpy.reductions.means import mean
from jax._src.numpy.selecting import clip, where
from jax._src.numpy.tensor_products import dot
from jax._src.numpy.util import promote_dtypes_inexact
from jax._src.tree_util import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten
from jax._src.util import set_module, weakref_lru_cache

# The method's tableau: times of the stages 2 to 7, their coefficients, those of the result, of the
# error estimate, and of the value in the middle.
_TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1, 0])
_STAGES = np.array([
    [1 / 5, 0, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
])  # fmt: skip
_RESULT = np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0])
_ERROR = np.array([
    35 / 384 - 1951 / 21600, 0, 500 / 1113 - 22642 / 50085, 125 / 192 - 451 / 720,
    -2187 / 6784 + 12231 / 42400, 11 / 84 - 649 / 6300, -1 / 60,
])  # fmt: skip
_MIDDLE = np.array([
    6025192743 / 30085553152 / 2, 0, 51252292925 / 65400821598 / 2, -2691868925 / 45128329728 / 2,
    187940372067 / 1594534317056 / 2, -1776094331 / 19743644256 / 2, 11237099 / 235043384 / 2,
])  # fmt: skip

_dot = functools.partial(dot, precision=lax.Precision.HIGHEST)


class _Options(NamedTuple):
    rtol: Any
    atol: Any
    mxstep: Any
    hmax: Any


@set_module("jax.experimental.ode")
def odeint(
    func: Callable,
    y0: Any,
    t: Array,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """Solves dy/dt = func(y, t, *args) for the initial value y(t[0]) = y0.

    Args:
      func: function of a state like `y0`, a scalar time and `args`; it returns the derivative, a pytree
        of the structure, shapes and dtypes of the state.
      y0: the state at time `t[0]`: a pytree of floating-point or complex arrays.
      t: vector of floating-point times, all increasing or all decreasing.
      *args: further arguments of `func`: pytrees of arrays.
      rtol, atol: relative and absolute tolerance of the local errors.
      mxstep: largest number of steps between two times. If it is reached, the last step's polynomial
        is continued.
      hmax: largest step.

    Returns:
      The states at the times `t`: a pytree like `y0` with one more leading axis, of t's length.

    Raises:
      TypeError: if the times are not floating-point numbers, an argument is not an array or scalar, an
        option is traced, or the derivative is not of the state's type.
      ValueError: if `t` is not a vector, or is empty.

    Gradients with regard to `y0`, `t` and `args`, and to values that `func` closes over, solve the adjoint
    equation backwards, with the same tolerances and in constant memory.

    >>> from jax.experimental.ode import odeint
    >>> ys = odeint(lambda y, t: -y, jnp.array([1.0, 2.0]), jnp.array([0.0, 1.0]))
    >>> bool(jnp.allclose(ys[1], jnp.exp(-1.0) * ys[0]))
    True
    """
    for arg in tree_leaves(args):
        if not (isinstance(arg, core.Tracer) or core.valid_jaxtype(arg)):
            raise TypeError(
                f"The contents of odeint *args must be arrays or scalars, but got {arg!r}. "
                "Close over other objects instead, as in odeint(lambda y, t: func(y, t, obj), y0, t)."
            )
    options = _Options(
        _option("rtol", rtol),
        _option("atol", atol),
        _option("mxstep", mxstep),
        _option("hmax", hmax),
    )
    _check_times(t)
    _check_state(func, y0, t, args)
    if core.trace_state_clean() and not _closes_over_tracers(func, y0, t, args):
        converted, consts = func, []
    else:
        converted, consts = closure_convert(func, y0, t[0], *args)
    return _odeint_wrapper(converted, options, y0, t, *args, *consts)


def _option(name: str, value: Any) -> Any:
    if isinstance(value, core.Tracer):
        raise TypeError(
            f"odeint: {name} must be a number that is known when the function is traced, got {value}. "
            "Under jax.jit, mark the argument it depends on as static (static_argnames)."
        )
    if isinstance(value, Hashable) and not isinstance(value, Array):
        return value
    if np.ndim(value):
        raise TypeError(f"odeint: {name} must be a number, got an array of shape {np.shape(value)}")
    return np.asarray(value).item()


def _check_times(t):
    if not hasattr(t, "dtype"):
        raise TypeError(f"t must be an array of floats, but got {t!r}. Use jnp.asarray(t).")
    if not dtypes.issubdtype(t.dtype, np.floating):
        raise TypeError(f"t must be an array of floats, but got {t}.")
    if t.ndim != 1 or not t.shape[0]:
        raise ValueError(f"odeint: t must be a vector of at least one time, got shape {t.shape}")


def _check_state(func, y0, t, args):
    """Raises an error unless func's result is like the state."""
    leaves, tree = tree_flatten(y0)
    state = [core.typeof(leaf) for leaf in leaves]
    for leaf in state:
        if not dtypes.issubdtype(leaf.dtype, np.inexact):
            raise TypeError(
                f"odeint: y0 must have floating-point or complex arrays, got {leaf.str_short()}. "
                "Convert it, for example by jnp.asarray(y0, float)."
            )
    out = api.eval_shape(func, y0, t[0], *args)
    got = tree_leaves(out)
    if tree_structure(out) != tree or any(
        np.shape(g) != s.shape or not _converts(g.dtype, s.dtype) for g, s in zip(got, state)
    ):
        have, want = (
            tree_unflatten(tr, [f"{dtypes.dtype_name(x.dtype)}{list(x.shape)}" for x in xs])
            for tr, xs in ((tree_structure(out), got), (tree, state))
        )
        raise TypeError(
            f"odeint: func must return a derivative of the structure, shapes and dtypes of y0, {want}, "
            f"but returned {have}."
        )


def _converts(derivative, state):
    """Whether a derivative of the one dtype can be added to a state of the other."""
    return np.promote_types(derivative, state) == state if derivative != state else True


@weakref_lru_cache
def _traced_consts(func, tree, avals):
    values = [core.ShapedArray(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]
    consts = api.make_jaxpr(func)(*tree_unflatten(tree, values)).consts
    return any(isinstance(c, core.Tracer) for c in consts)


def _closes_over_tracers(func, y0, t, args):
    leaves, tree = tree_flatten((y0, t[0], *args))
    return _traced_consts(func, tree, tuple([core.typeof(x) for x in leaves]))


@functools.partial(api.jit, static_argnums=(0, 1))
def _odeint_wrapper(func, options, y0, ts, *args):
    flat, unravel = ravel_pytree(y0)
    out = _odeint(_of_vector(func, unravel), options, flat, ts, *args)
    return api.vmap(unravel)(out)


@set_module("jax.experimental.ode")
def ravel_first_arg(f: Callable, unravel: Callable, debug_info: Any) -> WrappedFun:
    """Returns `f` as a function from a vector, which `unravel` unpacks, to a vector.

    Args:
      f: function of a pytree and further arguments, whose result is a pytree.
      unravel: function from a vector to the pytree, as `ravel_pytree` gives.
      debug_info: what the function is traced for (see `jax.api_util.debug_info`).
    """
    return wrap_init(_of_vector(f, unravel), debug_info=debug_info)


def _of_vector(f, unravel):
    return lambda y, *args: ravel_pytree(f(unravel(y), *args))[0]


# Integration.


@functools.partial(custom_vjp, nondiff_argnums=(0, 1))
def _odeint(func, options, y0, ts, *args):
    # Times that decrease are those of the equation for -t.
    sign = where(ts[-1] < ts[0], -1, 1).astype(ts.dtype)

    def derivative(y, t):
        return _scale(sign, func(y, sign * t, *args))

    ts = sign * ts
    f0 = derivative(y0, ts[0])
    first = initial_step_size(derivative, ts[0], y0, 4, options.rtol, options.atol, f0)
    first = clip(first.astype(ts.dtype), 0.0, options.hmax)
    carry = y0, f0, ts[0], first, ts[0], stack([y0] * 5)

    def to_time(carry, target):
        def unfinished(state):
            i, _, _, t, dt, *_ = state
            return (t < target) & (i < options.mxstep) & (dt > 0)

        def step(state):
            return _step(derivative, options, *state)

        _, *carry = control_flow.while_loop(unfinished, step, (0, *carry))
        _, _, t, _, last, polynomial = carry
        # Without any step, only the initial value is known.
        known = where(target == t, 0, np.nan).astype(t.dtype)
        relative = where(t == last, known, (target - last) / (t - last))
        return tuple(carry), polyval(polynomial, _like(relative, y0))

    _, ys = control_flow.scan(to_time, carry, ts[1:])
    return concatenate([y0[None], ys])


def _step(derivative, options, i, y, f, t, dt, last, polynomial):
    """Tries one step; if its error is too large, only the step's size changes."""
    next_y, next_f, error, k = runge_kutta_step(derivative, y, f, t, dt)
    ratio = mean_error_ratio(error, options.rtol, options.atol, y, next_y)
    next_dt = optimal_step_size(dt, ratio.astype(dt.dtype))
    next_dt = clip(next_dt, 0.0, options.hmax)
    accepted = ratio <= 1
    new = next_y, next_f, t + dt, next_dt, t, interp_fit_dopri(y, next_y, k, dt)
    old = y, f, t, next_dt, last, polynomial
    return i + 1, *[where(accepted, a, b) for a, b in zip(new, old)]


def _like(factor, y):
    """Converts a real factor to the dtype of the real parts of y."""
    return lax.convert_element_type(factor, dtypes.finfo(y.dtype).dtype)


def _scale(factor, y):
    return _like(factor, y) * y


@set_module("jax.experimental.ode")
def runge_kutta_step(func: Callable, y0: Any, f0: Any, t0: Any, dt: Any) -> tuple:
    """Makes one step of the method for dy/dt = func(y, t), from y0 with the derivative f0.

    Returns:
      The next state and its derivative, the estimated error, and the derivatives of all stages.
    """
    f0 = asarray(f0)
    times = asarray(_TIMES, dtypes.to_floating_dtype(dtypes.result_type(t0, dt)))
    stages, result, error = (asarray(x, f0.dtype) for x in (_STAGES, _RESULT, _ERROR))

    def stage(i, k):
        y = y0 + _scale(dt, _dot(stages[i - 1], k))
        return k.at[i].set(func(y, t0 + dt * times[i - 1]))

    k = zeros((7, *f0.shape), f0.dtype).at[0].set(f0)
    k = control_flow.fori_loop(1, 7, stage, k)
    y1 = _scale(dt, _dot(result, k)) + y0
    return y1, k[-1], _scale(dt, _dot(error, k)), k


@set_module("jax.experimental.ode")
def interp_fit_dopri(y0: Any, y1: Any, k: Any, dt: Any) -> Array:
    """Fits a polynomial of degree 4 to a step's ends and middle; `k` are the stages' derivatives."""
    middle = y0 + _scale(dt, _dot(asarray(_MIDDLE, k.dtype), k))
    return asarray(fit_4th_order_polynomial(y0, y1, middle, k[0], k[-1], dt))


@set_module("jax.experimental.ode")
def fit_4th_order_polynomial(y0: Any, y1: Any, y_mid: Any, dy0: Any, dy1: Any, dt: Any) -> tuple:
    """Returns the coefficients of the polynomial of (t - t0) / dt with these values and derivatives."""
    dt = _like(dt, asarray(y0))
    a = -2.0 * dt * dy0 + 2.0 * dt * dy1 - 8.0 * y0 - 8.0 * y1 + 16.0 * y_mid
    b = 5.0 * dt * dy0 - 3.0 * dt * dy1 + 18.0 * y0 + 14.0 * y1 - 32.0 * y_mid
    c = -4.0 * dt * dy0 + dt * dy1 - 11.0 * y0 - 5.0 * y1 + 16.0 * y_mid
    return a, b, c, dt * dy0, y0


# Sizes of steps.


@set_module("jax.experimental.ode")
def initial_step_size(
    fun: Callable, t0: Any, y0: Any, order: int, rtol: Any, atol: Any, f0: Any
) -> Array:
    """Guesses the first step of a method of this order (Hairer, Norsett and Wanner, II.4)."""
    scale = atol + unary.abs(y0) * rtol
    d0 = norm(y0 / scale)
    d1 = norm(f0 / scale)
    h0 = where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
    f1 = fun(y0 + h0.astype(d0.dtype) * f0, t0 + h0)
    d2 = norm((f1 - f0) / scale) / h0
    h1 = where(
        (d1 <= 1e-15) & (d2 <= 1e-15),
        binary.maximum(1e-6, h0 * 1e-3),
        (0.01 / binary.maximum(d1, d2)) ** (1.0 / (order + 1.0)),
    )
    return binary.minimum(100.0 * h0, h1)


@set_module("jax.experimental.ode")
def mean_error_ratio(error_estimate: Any, rtol: Any, atol: Any, y0: Any, y1: Any) -> Array:
    """Returns the root mean square of the errors in units of the tolerances."""
    tolerance = atol + rtol * binary.maximum(unary.abs(y0), unary.abs(y1))
    return unary.sqrt(mean(abs2(error_estimate / tolerance)))


@set_module("jax.experimental.ode")
def abs2(x: Any) -> Any:
    """Returns abs(x) ** 2."""
    if iscomplexobj(x):
        return x.real**2 + x.imag**2
    return x**2


@set_module("jax.experimental.ode")
def optimal_step_size(
    last_step: Any,
    mean_error_ratio: Any,
    safety: float = 0.9,
    ifactor: float = 10.0,
    dfactor: float = 0.2,
    order: float = 5.0,
) -> Array:
    """Returns the step to try after one of this error; an accepted step is never followed by a smaller one."""
    last_step, mean_error_ratio = promote_dtypes_inexact(
        asarray(last_step), asarray(mean_error_ratio)
    )
    dfactor = where(mean_error_ratio < 1, 1.0, dfactor)
    factor = binary.minimum(
        ifactor, binary.maximum(mean_error_ratio ** (-1.0 / order) * safety, dfactor)
    )
    return where(mean_error_ratio == 0, last_step * ifactor, last_step * factor)


# Gradients.


def _odeint_fwd(func, options, y0, ts, *args):
    ys = _odeint(func, options, y0, ts, *args)
    return ys, (ys, ts, args)


def _odeint_rev(func, options, residuals, g):
    ys, ts, args = residuals
    leaves, tree = tree_flatten(args)
    smooth = [dtypes.issubdtype(core.typeof(x).dtype, np.inexact) for x in leaves]
    variables = [asarray(x) for x, s in zip(leaves, smooth) if s]
    fixed = [x for x, s in zip(leaves, smooth) if not s]
    n = len(variables)

    def call(y, t, *values):
        given, rest = iter(values[:n]), iter(values[n:])
        return func(y, t, *tree_unflatten(tree, [next(given if s else rest) for s in smooth]))

    def adjoint(state, t, *values):
        """The derivatives of state, cotangents and gradients, by -t."""
        y, y_bar, *_ = state
        y_dot, pull = api.vjp(lambda y, t, *v: call(y, t, *v, *values[n:]), y, -t, *values[:n])
        return -y_dot, *pull(y_bar)

    def to_previous(carry, i):
        y_bar, t0_bar, *bars = carry
        t_bar = unary.real(_dot(call(ys[i], ts[i], *variables, *fixed), g[i])).astype(ts.dtype)
        t0_bar = t0_bar - t_bar
        state = ys[i], y_bar, t0_bar, *bars
        _, y_bar, t0_bar, *bars = odeint(
            adjoint, state, array([-ts[i], -ts[i - 1]]), *variables, *fixed, **options._asdict()
        )
        y_bar, t0_bar, *bars = tree_map(lambda x: x[1], (y_bar, t0_bar, *bars))
        return (y_bar + g[i - 1], t0_bar, *bars), t_bar

    start = g[-1], zeros((), ts.dtype), *[zeros_like(x) for x in variables]
    (y_bar, t0_bar, *bars), t_bars = control_flow.scan(
        to_previous, start, arange(len(ts) - 1, 0, -1)
    )
    bars = iter(bars)
    args_bar = [
        next(bars) if s else np.zeros(np.shape(x), dtypes.float0) for x, s in zip(leaves, smooth)
    ]
    ts_bar = concatenate([t0_bar[None], t_bars[::-1]])
    return y_bar, ts_bar, *tree_unflatten(tree, args_bar)


_odeint.defvjp(_odeint_fwd, _odeint_rev)
