"""Minimization of functions: the implementation of `jax.scipy.optimize`.

J. Nocedal and S. J. Wright, "Numerical Optimization" (2nd edition, 2006): the method of Broyden, Fletcher, Goldfarb
and Shanno is algorithm 6.1, its variant of limited memory algorithms 7.4 and 7.5, the line search algorithms 3.5 and
3.6, with cubic interpolation (3.59).
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jax._src import api
from jax._src.basearray import Array
from jax._src.lax import lax
from jax._src.lax.control_flow import fori_loop, while_loop
from jax._src.numpy import util
from jax._src.numpy.linalg import norm as vector_norm
from jax._src.numpy.manipulation.joining import concatenate
from jax._src.numpy.tensor_products import dot
from jax._src.tree_util import tree_map
from jax._src.typing import ArrayLike
from jax._src.util import set_module

export = set_module("jax.scipy.optimize")

# Status codes
_CONVERGED, _MAXITER, _ZOOM_FAILED, _SEARCH_FAILED, _UNDEFINED = 0, 1, 3, 5, -1
# Those of limited memory alone
_MAXFUN, _MAXGRAD, _NO_PROGRESS = 2, 3, 4
# Constants of the conditions of Wolfe: sufficient decrease, and curvature.
_DECREASE, _CURVATURE = 1e-4, 0.9


@export
class OptimizeResults(NamedTuple):
    """Results of `minimize`.

    Attributes:
      x: the solution, a vector.
      success: whether the solver converged.
      status: 0 if it converged, 1 after the largest number of iterations, 3 or 5 if no step was found within a
        bracketed interval or in the whole direction, -1 if values are NaN. With limited memory, 2 or 3 after the
        largest number of evaluations of the function or the gradient, 4 if an iteration made too little progress, 5 if
        no step was found.
      fun, jac: value and gradient at the solution.
      hess_inv: estimate of the inverse of the Hessian there; None with limited memory.
      nfev, njev: numbers of evaluations of the function and of its gradient.
      nit: number of iterations.
    """

    x: Array
    success: bool | Array
    status: int | Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: int | Array
    njev: int | Array
    nit: int | Array


@export
def minimize(
    fun: Callable,
    x0: ArrayLike,
    args: tuple = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Minimizes a scalar function of a vector, whose gradient is computed by differentiation.

    Can be compiled and batched; not differentiated in reverse mode.

    Args:
      fun: differentiable function `fun(x, *args)` of a vector, whose result is a real number.
      x0: starting point, a vector. Integers are converted to floating point.
      args: tuple of further arguments.
      method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this", which keeps a few vectors instead of a matrix; in
        lower or upper case.
      tol: largest norm of the gradient at a solution; by default 1e-5.
      options: further options by name. Of both methods: "norm", the order of the gradient's norm (by default
        infinity); "gtol", instead of `tol`; and "maxiter", the largest number of iterations (by default 200
        for each element of x, with limited memory 15000). Of BFGS: "line_search_maxiter", the largest number of steps to
        try in a direction (10) and within an interval (again). With limited memory: "maxls", the same (20); "maxcor",
        the number of steps kept (10); "ftol", the least progress of an iteration, by which the value has to decrease,
        relative to itself or 1 (2.2e-9); "maxfun" and "maxgrad", the largest numbers of evaluations (15000).

    Returns:
      An `OptimizeResults`.

    Raises:
      TypeError: if `args` is not a tuple, an option is unknown, or `fun` does not return a real number.
      ValueError: if `x0` is not a vector, or `method` is unknown.

    >>> solution = jax.scipy.optimize.minimize(
    ...     lambda x: (1 - x[0]) ** 2 + (x[1] - x[0]) ** 2, jnp.array([3.0, 0.0]), method="BFGS")
    >>> bool(solution.success), bool(jnp.allclose(solution.x, 1.0, atol=1e-4))
    (True, True)
    """
    if not isinstance(args, tuple):
        raise TypeError(f"minimize: args must be a tuple, got {args!r}. Pass ({args!r},).")
    solver = _SOLVERS.get(method.lower()) if isinstance(method, str) else None
    if solver is None:
        raise ValueError(f"minimize: method must be one of {list(_METHODS)}, got {method!r}.")
    settings = {} if options is None else dict(options)
    known = list(inspect.signature(solver).parameters)[2:]
    if unknown := sorted(set(settings) - set(known)):
        raise TypeError(f"minimize: options {unknown} are unknown; method {method!r} has {known}.")
    x = util.ensure_arraylike("minimize", x0)
    if x.ndim != 1:
        raise ValueError(f"minimize: x0 must be a vector, got shape {x.shape}.")
    (x,) = util.promote_dtypes_inexact(x)
    x = lax.convert_type(util.to_array(x), x.dtype, False)
    if tol is not None:
        settings.setdefault("gtol", tol)
    return solver(api.value_and_grad(lambda x: fun(x, *args)), x, **settings)


class _State(NamedTuple):
    x: Array
    f: Array
    g: Array
    inverse: Array  # of the Hessian
    previous: Array  # the function's value before the last step
    k: Any
    evaluations: Any
    status: Any  # _UNDEFINED as long as the solver runs


def _bfgs(
    evaluate: Callable,
    x: Array,
    norm: Any = np.inf,
    gtol: ArrayLike = 1e-5,
    maxiter: ArrayLike | None = None,
    line_search_maxiter: ArrayLike = 10,
) -> OptimizeResults:
    (size,) = x.shape
    maxiter = 200 * size if maxiter is None else maxiter
    small = _test_of_gradients(size, norm, gtol)

    def unfinished(state):
        return (state.status == _UNDEFINED) & (state.k < maxiter) & ~small(state.g)

    def step(state):
        direction = -_dot(state.inverse, state.g)
        search = _line_search(evaluate, state, direction, line_search_maxiter)
        moved = search.a * direction
        change = search.g - state.g
        curvature = _dot(change, moved)
        rho = util.select_where(
            curvature > 0, 1 / util.select_where(curvature > 0, curvature, 1), 0
        )
        image = rho * _dot(state.inverse, change)
        # The update (6.17), multiplied out; it leaves the matrix as it is if rho is zero.
        inverse = (
            state.inverse
            - image[:, None] * moved
            - moved[:, None] * image
            + rho * (1 + _dot(change, image)) * moved[:, None] * moved
        )
        # A step that decreases the function is of use, even if it is not as long as it should be.
        status = util.select_where(search.f < state.f, _UNDEFINED, search.status)
        return _State(
            state.x + moved, search.f, search.g, inverse.astype(x.dtype), state.f, state.k + 1,
            state.evaluations + search.evaluations, status,
        )  # fmt: skip

    f, g, previous = _first(evaluate, x)
    start = _State(x, f, g, lax.eye(x.dtype, (size, size), 0), previous, 0, 1, _UNDEFINED)
    end = while_loop(unfinished, step, _arrays(start))
    converged = small(end.g)
    status = util.select_where(end.status == _UNDEFINED, _MAXITER, end.status)
    status = _final_status(end, converged, status)
    return OptimizeResults(
        end.x, converged, status, end.f, end.g, end.inverse, end.evaluations, end.evaluations, end.k
    )


def _first(evaluate, x):
    """The value and the gradient at the start, and a previous value, which makes a guess for the length of the first step."""
    f, g = evaluate(x)
    f = lax.convert_type(f, f.dtype, False)
    return f, g, f + (vector_norm(g) / 2).astype(f.dtype) if x.size else f


def _test_of_gradients(size, norm, gtol):
    return lambda g: (vector_norm(g, ord=norm) if size else np.float32(0)) <= gtol


def _final_status(end, converged, status):
    finite = (end.f == end.f) & (end.g == end.g).all()
    status = util.select_where(finite, status, _UNDEFINED)
    return util.select_where(converged, _CONVERGED, status)


class _Memory(NamedTuple):
    """The last steps, the changes of the gradient in them, and the inverses of their products, the newest last."""

    moves: Array
    changes: Array
    rho: Array  # 0 where there is no step


class _LimitedState(NamedTuple):
    x: Array
    f: Array
    g: Array
    memory: _Memory
    previous: Array  # the function's value before the last step
    k: Any
    evaluations: Any
    status: Any  # _UNDEFINED as long as the solver runs


def _lbfgs(
    evaluate: Callable,
    x: Array,
    norm: Any = np.inf,
    gtol: ArrayLike = 1e-5,
    maxiter: ArrayLike | None = None,
    maxcor: int = 10,
    ftol: ArrayLike = 2.220446049250313e-09,
    maxfun: ArrayLike | None = None,
    maxgrad: ArrayLike | None = None,
    maxls: ArrayLike = 20,
) -> OptimizeResults:
    (size,) = x.shape
    maxiter, maxfun, maxgrad = (15000 if n is None else n for n in (maxiter, maxfun, maxgrad))
    small = _test_of_gradients(size, norm, gtol)

    def unfinished(state):
        return (state.status == _UNDEFINED) & ~small(state.g)

    def step(state):
        direction = _two_loops(state.memory, state.g)
        search = _line_search(evaluate, state, direction, maxls)
        moved = search.a * direction
        evaluations = state.evaluations + search.evaluations
        scale = lax.max(lax.max(abs(state.f), abs(search.f)), lax.full_like(search.f, 1))
        # Of two reasons the first one counts, except that nothing follows a failed search.
        status = _first_of(
            ((search.status != _UNDEFINED) & ~(search.f < state.f), _SEARCH_FAILED),
            (state.f - search.f <= ftol * scale, _NO_PROGRESS),
            (evaluations >= maxgrad, _MAXGRAD),
            (evaluations >= maxfun, _MAXFUN),
            (state.k + 1 >= maxiter, _MAXITER),
        )
        return _LimitedState(
            state.x + moved, search.f, search.g, _remembered(state.memory, moved, search.g - state.g),
            state.f, state.k + 1, evaluations, status,
        )  # fmt: skip

    f, g, previous = _first(evaluate, x)
    count = operator.index(maxcor)
    table = lax.full((count, size), 0, x.dtype)
    memory = _Memory(table, table, lax.full((count,), 0, x.dtype))
    status = util.select_where(util.to_array(maxiter) > 0, _UNDEFINED, _MAXITER)
    start = _LimitedState(x, f, g, memory, previous, 0, 1, status)
    end = while_loop(unfinished, step, tree_map(util.to_array, start))
    converged = small(end.g)
    status = _final_status(end, converged, end.status)
    return OptimizeResults(
        end.x, converged, status, end.f, end.g, None, end.evaluations, end.evaluations, end.k
    )


def _first_of(*cases):
    """The value of the first condition that holds, or _UNDEFINED."""
    out = _UNDEFINED
    for condition, value in reversed(cases):
        out = util.select_where(condition, value, out)
    return out


def _two_loops(memory: _Memory, g: Array) -> Array:
    """The direction -H g (algorithm 7.4), where H is the inverse of the Hessian that the memory describes."""
    count = memory.rho.shape[0]
    if not count:
        return -g

    def down(i, carry):
        q, factors = carry
        k = count - 1 - i
        factor = memory.rho[k] * _dot(memory.moves[k], q)
        return q - factor * memory.changes[k], factors.at[k].set(factor)

    def up(k, r):
        return r + memory.moves[k] * (factors[k] - memory.rho[k] * _dot(memory.changes[k], r))

    q, factors = fori_loop(0, count, down, (g, lax.full_like(memory.rho, 0)))
    # (7.20): the Hessian along the last step
    last = memory.changes[-1]
    product = memory.rho[-1] * _dot(last, last)
    q = q / util.select_where(product > 0, product, 1)
    return -fori_loop(0, count, up, q)


def _remembered(memory: _Memory, moved: Array, change: Array) -> _Memory:
    curvature = _dot(change, moved)
    if not memory.rho.shape[0]:
        return memory
    new = _Memory(moved, change, 1 / util.select_where(curvature > 0, curvature, 1))
    after = tree_map(lambda old, x: concatenate([old[1:], x[None]]), memory, new)
    # A step without curvature would make the matrix indefinite.
    return _select(curvature > 0, after, memory)


def _dot(a: Array, b: Array) -> Array:
    return dot(a, b, precision=lax.Precision.HIGHEST)


def _arrays(state):
    return type(state)(*map(util.to_array, state))


class _Point(NamedTuple):
    """A point of a line: its position, the function's value and derivative along the line, and the gradient."""

    a: Array
    f: Array
    slope: Array
    g: Array


class _Search(NamedTuple):
    a: Array  # the position to try
    low: _Point  # the best one so far: of the interval, or the one before
    high: _Point  # the other end of the interval, if there is one
    zooming: Array
    tries: Any  # within a direction or an interval
    total: Any
    done: Array


class _Step(NamedTuple):
    a: Array
    f: Array
    g: Array
    evaluations: Array
    status: Array


def _line_search(evaluate, state, direction, maxiter) -> _Step:
    """Finds a step that satisfies the strong conditions of Wolfe.

    Each iteration of the one loop tries a position: at first longer and longer ones (algorithm 3.5), then ones in an
    interval that contains a solution (algorithm 3.6).
    """
    dtype = state.x.dtype
    first_slope = _dot(state.g, direction)

    def unfinished(s):
        return ~s.done & (s.tries < maxiter)

    def step(s):
        f, g = evaluate(state.x + s.a * direction)
        new = _Point(s.a, f.astype(state.f.dtype), _dot(g, direction), g)
        # Negated, so that NaN counts as too large.
        high = ~(new.f <= state.f + (_DECREASE * s.a * first_slope).astype(f.dtype))
        high = high | (~(new.f < s.low.f) & (s.zooming | (s.total > 0)))
        done = ~high & (abs(new.slope) <= -_CURVATURE * first_slope)
        # The minimum is between the new position and the one before, or the other end of the interval.
        turned = util.select_where(s.zooming, new.slope * (s.high.a - s.low.a) >= 0, new.slope >= 0)
        low = _select(high, s.low, new)
        other = _select(high, new, _select(turned, s.low, s.high))
        zooming = s.zooming | high | turned
        a = util.select_where(zooming, _between(low, other), 2 * s.a)
        entered = zooming & ~s.zooming
        tries = util.select_where(entered, 0, s.tries + 1)
        # An interval may be too small to have a number inside.
        stuck = zooming & ((a == low.a) | (a == other.a))
        tries = util.select_where(stuck & ~done, maxiter, tries)
        return _Search(a.astype(dtype), low, other, zooming, tries, s.total + 1, done)

    zero = lax.full((), 0, dtype)
    origin = _Point(zero, state.f, first_slope, state.g)
    guess = 2.02 * (state.f - state.previous).astype(dtype) / first_slope
    a = util.select_where((guess > 0) & (guess < 1), guess, lax.full((), 1, dtype))
    no = np.bool_(False)
    start = _Search(a, origin, origin, no, 0, 0, no)
    # Not a descent direction: there is nothing to find.
    start = start._replace(tries=util.select_where(first_slope < 0, 0, maxiter))
    end = while_loop(unfinished, step, tree_map(util.to_array, start))
    status = util.select_where(end.zooming, _ZOOM_FAILED, _SEARCH_FAILED)
    status = util.select_where(end.done, _UNDEFINED, status)
    return _Step(end.low.a, end.low.f, end.low.g, end.total, status)


def _select(condition, x, y):
    return tree_map(lambda a, b: util.select_where(condition, a, b), x, y)


def _between(low: _Point, high: _Point) -> Array:
    """The minimum of the cubic polynomial through both points, or the middle if that is near an end."""
    width = high.a - low.a
    secant = (high.f - low.f).astype(width.dtype) / width
    d1 = low.slope + high.slope - 3 * secant
    root = d1 * d1 - low.slope * high.slope
    d2 = lax.sign(width) * lax.sqrt(lax.max(root, lax.full_like(root, 0)))
    a = high.a - width * (high.slope + d2 - d1) / (high.slope - low.slope + 2 * d2)
    part = (a - low.a) / width
    return util.select_where((part >= 0.1) & (part <= 0.9), a, low.a + width / 2)


_METHODS = {"BFGS": _bfgs, "l-bfgs-experimental-do-not-rely-on-this": _lbfgs}
_SOLVERS = {name.lower(): solver for name, solver in _METHODS.items()}
