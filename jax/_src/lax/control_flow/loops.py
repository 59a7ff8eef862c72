"""`while_loop` and `fori_loop`."""

import itertools
import operator
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from jax._src import api_util, config, core, dtypes, traceback_util
from jax._src.core import ClosedJaxpr, typeof
from jax._src.interpreters import partial_eval as pe
from jax._src.late_binding import late
from jax._src.lax import lax
from jax._src.lax.control_flow.bounded import as_bound, counted, with_invariants_outside
from jax._src.lax.control_flow.common import (
    check_effects,
    check_initial,
    check_same_carry,
    hoist,
    promote_weak_types,
    stage,
    with_forwarded,
    without_results,
)
from jax._src.lax.control_flow.progress import (
    bar_of,
    finish,
    first_device,
    first_step,
    of_range,
    with_progress,
    with_step,
)
from jax._src.lax.control_flow.scans import carry_name, scan
from jax._src.lax.control_flow.while_primitive import while_p
from jax._src.literals import TypedInt
from jax._src.tree_util import tree_flatten, tree_structure, tree_unflatten, treedef_tuple
from jax._src.util import without_keywords

traceback_util.register_exclusion(__file__)


@without_keywords("max_steps", "progress")
@traceback_util.api_boundary
def while_loop(
    cond_fun: Callable, body_fun: Callable, init_val: Any, *, max_steps: int | None = None,
    progress: bool | str = False,
):  # fmt: skip
    """Apply a function repeatedly, while a condition holds.

    Args:
      cond_fun: function of the carried value that returns a boolean scalar.
      body_fun: function of the carried value that returns its next value, of the same type.
      init_val: initial value, a pytree of arrays.
      max_steps: the greatest number of steps, or None for any number. The loop ends after that many
        steps even if the condition still holds. It makes the loop differentiable in reverse mode:
        the forward pass keeps at most 64 values (or, of at most 16 steps, all that is needed), and
        the backward pass computes the others again, at most 64 at a time on each of
        `ceil(log(max_steps) / log(64))` levels, at least two. PyPI's jax does not have this argument.
      progress: whether to show the number of steps while the loop runs, or a description of it, as
        in `scan`.

    Returns:
      The final value: the first one for which the condition does not hold, or that after
      `max_steps` steps.

    Raises:
      TypeError: if the condition is not a boolean scalar, the value changes its type, or
        `max_steps` is not an integer.
      ValueError: if `max_steps` is negative.

    >>> print(jax.lax.while_loop(lambda x: x < 100, lambda x: x * 2, 3))
    192
    >>> root = lambda a: jax.lax.while_loop(
    ...     lambda x: abs(x * x - a) > 1e-5, lambda x: (x + a / x) / 2, a, max_steps=20)
    >>> print(round(jax.grad(root)(4.0), 4))
    0.25
    """
    if not (callable(body_fun) and callable(cond_fun)):
        raise TypeError("lax.while_loop: body_fun and cond_fun arguments should be callable.")
    bound = {} if max_steps is None else {"max_steps": as_bound(max_steps)}
    bar = bar_of(progress, None)
    if config.disable_jit.value:
        try:
            return _while_eagerly(cond_fun, body_fun, init_val, bar, **bound)
        except core.ConcretizationTypeError:
            pass  # under another transformation: stage the loop instead
    init_flat, tree = tree_flatten(init_val)
    check_initial("while_loop", "value", "init_val", init_flat, tree)
    avals = [typeof(x) for x in init_flat]
    in_tree = treedef_tuple((tree,))

    def trace(avals):
        c = stage("while_cond", cond_fun, in_tree, avals, (init_val,))
        b = stage("while_body", body_fun, in_tree, avals, (init_val,))
        return c, b

    (cond_jaxpr, cond_consts, cond_tree), (body_jaxpr, body_consts, body_tree) = trace(avals)
    if cond_tree != tree_structure(0) or len(cond_jaxpr.out_avals) != 1:
        raise TypeError(f"cond_fun must return a boolean scalar, but got pytree {cond_tree}.")
    pred = cond_jaxpr.out_avals[0]
    if not (pred.shape == () and pred.dtype == np.bool_):
        raise TypeError(f"cond_fun must return a boolean scalar, but got output type(s) [{pred}].")
    if body_tree == tree:
        new = promote_weak_types(avals, body_jaxpr.out_avals)
        if new is not None:
            init_flat = [
                x if a is b else lax.convert_type(x, b.dtype, b.weak_type)
                for x, a, b in zip(init_flat, avals, new)
            ]
            avals = new
            (cond_jaxpr, cond_consts, _), (body_jaxpr, body_consts, body_tree) = trace(avals)
    check_same_carry(
        "while_loop body", tree, avals, body_tree, body_jaxpr.out_avals, carry_name(body_fun)
    )
    cond_closed, body_closed = hoist(cond_jaxpr), hoist(body_jaxpr)
    check_effects("while_loop", cond_closed, body_closed)
    num_consts = len(cond_consts), len(body_consts)
    cond_closed, body_closed, fixed = _without_forwarded(body_closed, cond_closed, *num_consts)
    carry = init_flat
    if fixed:
        body_consts = [*[init_flat[i] for i in fixed], *body_consts]
        carry = [x for i, x in enumerate(init_flat) if i not in fixed]
    if bound:
        if pred.vma:
            body_closed, body_consts = with_invariants_outside(body_closed, body_consts)
        num_consts = len(cond_consts), len(body_consts)
        body_closed, cond_closed = counted(
            body_closed, cond_closed, *num_consts, bound["max_steps"]
        )
        carry = [np.int32(0), *carry]
    if bar is not None:
        here = first_device()
        body_closed = with_progress(
            body_closed, len(body_consts), bar, tuple([typeof(x) for x in here])
        )
        cond_closed = with_step(cond_closed, len(cond_consts))
        body_consts, carry = [*here, *body_consts], [first_step(), *carry]
    outs = while_p.bind(
        *cond_consts, *body_consts, *carry, cond_nconsts=len(cond_consts), cond_jaxpr=cond_closed,
        body_nconsts=len(body_consts), body_jaxpr=body_closed, **bound,
    )  # fmt: skip
    if bar is not None:
        steps, *outs = outs
        finish(bar, steps, here)
    outs = outs[len(bound) :]  # without the number of steps
    if fixed:
        outs = with_forwarded(outs, {i: init_flat[i] for i in fixed})
    return tree_unflatten(body_tree, outs)


def _while_eagerly(cond_fun, body_fun, init_val, bar, max_steps: int | None = None):
    """Run the loop in Python, under `disable_jit`."""
    leaves, tree = tree_flatten(init_val)
    val = tree_unflatten(tree, [late.to_array(x) for x in leaves])
    for _ in of_range(bar, itertools.count() if max_steps is None else range(max_steps)):
        if not cond_fun(val):
            break
        val = body_fun(val)
    return val


@core.cached_on_jaxpr
def _without_forwarded(body: ClosedJaxpr, cond: ClosedJaxpr, cond_nconsts: int, body_nconsts: int):
    """Turn values that never change, and that the condition does not use, into body constants.

    Returns:
      The condition, the body, and the positions of the values that are now leading body constants.
    """
    outvars, carry = body.jaxpr.outvars, body.jaxpr.invars[body_nconsts:]
    if not any(map(operator.is_, outvars, carry)):
        return cond, body, ()
    used = pe.dce_jaxpr(cond.jaxpr, [True])[1][cond_nconsts:]
    fixed = [i for i, v in enumerate(carry) if outvars[i] is v and not used[i]]
    if not fixed:
        return cond, body, ()
    changing = [i for i in range(len(carry)) if i not in fixed]
    order = [
        *[body_nconsts + i for i in fixed], *range(body_nconsts),
        *[body_nconsts + i for i in changing],
    ]  # fmt: skip
    cond_order = [*range(cond_nconsts), *[cond_nconsts + i for i in changing]]
    # Unused equations may read values that are now body constants, so remove them.
    cond = ClosedJaxpr(pe.dce_jaxpr(cond.jaxpr, [True], True)[0], cond.consts)
    return without_results(cond, (), cond_order), without_results(body, fixed, order), tuple(fixed)


@without_keywords("progress")
@traceback_util.api_boundary
def fori_loop(
    lower: Any, upper: Any, body_fun: Callable, init_val: Any, *, unroll: int | bool | None = None,
    progress: bool | str = False,
):  # fmt: skip
    """Apply a function for each integer in a range.

    Args:
      lower: first number, a real scalar.
      upper: exclusive upper bound, of the same dtype (a Python integer takes the dtype of the other
        integer). If both bounds are concrete, fractions are dropped, and the loop is a `scan`,
        which is differentiable in reverse mode; its numbers are weakly typed integers. Otherwise
        its numbers have the dtype of the bounds.
      body_fun: function `(i, val) -> val`, whose result has the type of `val`.
      init_val: initial value, a pytree of arrays.
      unroll: number of steps in one iteration; it requires concrete bounds.
      progress: whether to show a progress bar, or its description, as in `scan`.

    Returns:
      The final value.

    >>> print(jax.lax.fori_loop(0, 4, lambda i, x: x + i, 0))
    6
    """
    if not callable(body_fun):
        raise TypeError("lax.fori_loop: body_fun argument should be callable.")
    first, last = typeof(lower), typeof(upper)
    for name, aval in (("lower", first), ("upper", last)):
        if not (
            aval.dtype == np.bool_
            or dtypes.issubdtype(aval.dtype, np.integer)
            or dtypes.issubdtype(aval.dtype, np.floating)
        ):
            raise TypeError(f"fori_loop {name} bound must be a real number, got {aval}")
        if aval.shape:
            raise TypeError(f"fori_loop {name} bound must be a scalar, got shape {aval.shape}")
    if first.dtype != last.dtype and not (
        (first.weak_type or last.weak_type)
        and dtypes.issubdtype(first.dtype, np.signedinteger)
        and dtypes.issubdtype(last.dtype, np.signedinteger)
    ):
        raise TypeError(
            "lower and upper arguments to fori_loop must have equal types, got "
            f"{first.dtype.name} and {last.dtype.name}: convert one of them."
        )
    dtype = dtypes.result_type(lower, upper)
    weak = first.weak_type and first.dtype == dtype  # the index has the type of the lower bound
    lower, upper = core.dimension_as_value(lower), core.dimension_as_value(upper)
    if core.is_concrete(lower) and core.is_concrete(upper):
        lo, hi = int(core.to_concrete_value(lower)), int(core.to_concrete_value(upper))
        length = max(hi - lo, 0)
        if config.disable_jit.value:
            val = init_val
            for i in of_range(bar_of(progress, length), range(lo, hi)):
                val = body_fun(late.to_array(_bound(i, dtype, weak)), val)
            return val
        counter = dtypes.result_type(0)  # regardless of the bounds' dtypes, if they fit
        if np.iinfo(counter).min <= lo and hi <= np.iinfo(counter).max:
            dtype, weak = counter, True
        body = _step_function(body_fun, "scan", dtype, weak)
        init = (_bound(lo, dtype, weak), init_val)
        unroll = 1 if unroll is None else unroll
        (_, result), _ = scan(body, init, None, length=length, unroll=unroll, progress=progress)
        return result
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError(
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically known."
        )
    last_weak = last.weak_type and last.dtype == dtype
    init = (_bound(lower, dtype, weak), _bound(upper, dtype, last_weak), init_val)
    body = _step_function(body_fun, "while", dtype, weak)
    _, _, result = while_loop(_is_before_end, body, init, progress=progress)
    return result


def _is_before_end(state):
    i, end, _ = state
    return lax.lt(i, end)


def _step_function(body_fun: Callable, loop: str, dtype, weak: bool) -> Callable:
    """Return the body of the `scan` or `while` for `fori_loop`, cached on `body_fun`."""
    table = api_util.trace_table(body_fun)
    key = ("fori_loop", loop, dtype, weak)
    step_function = table.get(key)
    if step_function is not None:
        return step_function
    try:
        body_ref = weakref.ref(body_fun)  # a cache entry must not keep its function alive
    except TypeError:
        body_ref = lambda: body_fun
    step = _bound(1, dtype, weak)

    def scan_step(carry, _):
        i, x = carry
        return (lax.add(i, step), body_ref()(i, x)), None

    def while_step(state):
        i, end, x = state
        return lax.add(i, step), end, body_ref()(i, x)

    step_function = scan_step if loop == "scan" else while_step
    step_function.__name__ = getattr(body_fun, "__name__", "body")
    step_function._of_function = body_ref  # the user's, for explanations
    table[key] = step_function
    return step_function


def _bound(x, dtype, weak: bool):
    """Convert a loop bound to the loop's integer type; Python integers become literals."""
    if not isinstance(x, (int, np.generic)):
        return lax.convert_type(x, dtype, weak)
    return TypedInt(x, np.dtype(dtype)) if weak else np.dtype(dtype).type(x)
