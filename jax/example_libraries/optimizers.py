"""Optimizers, as triples of functions, and step size schedules.

An optimizer consists of `init_fn(params) -> state`, `update_fn(step, gradients, state) -> state`
and `params_fn(state) -> params`, for pytrees of parameters:

>>> from jax.example_libraries import optimizers
>>> init, update, params = optimizers.sgd(0.1)
>>> state = init({"w": jnp.array([1., 2.])})
>>> for step in range(3):
...   gradients = params(state)  # of half the squared norm
...   state = update(step, gradients, state)
>>> print(params(state)["w"])
[0.729 1.458]

A `step_size` is a number or a schedule, a function from the step to a number.
"""

from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax._src.util import safe_map, safe_zip, unzip2
from jax.tree_util import (
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_unflatten,
)

map = safe_map
zip = safe_zip

Step = int
Params = Any
State = Any
Updates = Any
InitFn = Callable[[Params], "OptimizerState"]
UpdateFn = Callable[[Step, Updates, "OptimizerState"], "OptimizerState"]
ParamsFn = Callable[["OptimizerState"], Params]
Schedule = Callable[[Step], float]

OptimizerState = namedtuple("OptimizerState", ["packed_state", "tree_def", "subtree_defs"])
OptimizerState.__doc__ = """State of an optimizer: for each parameter the list of leaves of its state.

Attributes:
  packed_state: the lists.
  tree_def: tree of the parameters.
  subtree_defs: tree of each parameter's state.
"""
register_pytree_node(
    OptimizerState,
    lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
    lambda trees, packed: OptimizerState(packed[0], *trees),
)


class Optimizer(NamedTuple):
    """An optimizer for pytrees of parameters; see the module's docstring."""

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


def optimizer(
    opt_maker: Callable[..., tuple[Callable, Callable, Callable]],
) -> Callable[..., Optimizer]:
    """Decorator that turns an optimizer of single arrays into one of pytrees.

    Args:
      opt_maker: function that returns `init(x) -> state`, `update(step, gradient, state) -> state`
        and `get_params(state) -> x` for an array x, where the state is a pytree of arrays.

    Returns:
      A function of the same arguments that returns an `Optimizer`.
    """

    def make(*args, **kwargs):
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(x0_tree):
            leaves, tree = tree_flatten(x0_tree)
            packed, subtrees = unzip2([tree_flatten(init(x)) for x in leaves])
            return OptimizerState(packed, tree, subtrees)

        def tree_update(i, grad_tree, opt_state):
            packed, tree, subtrees = opt_state
            grads, grad_structure = tree_flatten(grad_tree)
            if grad_structure != tree:
                raise TypeError(
                    "optimizer update function was passed a gradient tree that did not match the "
                    "parameter tree structure with which it was initialized: parameter tree "
                    f"{tree} and grad tree {grad_structure}."
                )
            states = map(tree_unflatten, subtrees, packed)
            new_packed, new_subtrees = unzip2(
                [tree_flatten(s) for s in map(partial(update, i), grads, states)]
            )
            for old, new in zip(subtrees, new_subtrees):
                if old != new:
                    raise TypeError(
                        "optimizer update function produced an output structure that did not match "
                        f"its input structure: input {old} and output {new}."
                    )
            return OptimizerState(new_packed, tree, subtrees)

        def tree_params(opt_state):
            packed, tree, subtrees = opt_state
            states = map(tree_unflatten, subtrees, packed)
            return tree_unflatten(tree, map(get_params, states))

        for tree_fun, fun in ((tree_init, init), (tree_update, update), (tree_params, get_params)):
            tree_fun.__name__, tree_fun.__qualname__ = fun.__name__, fun.__qualname__
        return Optimizer(tree_init, tree_update, tree_params)

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(make, name, getattr(opt_maker, name))
    make.__wrapped__ = opt_maker
    return make


# Optimizers


@optimizer
def sgd(step_size):
    """Stochastic gradient descent.

    Args:
      step_size: number or schedule.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0

    def update(i, g, x):
        return x - step_size(i) * g

    def get_params(x):
        return x

    return init, update, get_params


@optimizer
def momentum(step_size: Schedule, mass: float):
    """Gradient descent with momentum.

    Args:
      step_size: number or schedule.
      mass: decay factor of the velocity.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0)

    def update(i, g, state):
        x, velocity = state
        velocity = mass * velocity + g
        return x - step_size(i) * velocity, velocity

    return init, update, _first


@optimizer
def nesterov(step_size: Schedule, mass: float):
    """Gradient descent with Nesterov's momentum.

    Args:
      step_size: number or schedule.
      mass: decay factor of the velocity.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0)

    def update(i, g, state):
        x, velocity = state
        velocity = mass * velocity + g
        return x - step_size(i) * (mass * velocity + g), velocity

    return init, update, _first


@optimizer
def adagrad(step_size, momentum=0.9):
    """Adagrad (Duchi, Hazan, Singer, JMLR 12, 2011), with momentum.

    Args:
      step_size: number or schedule.
      momentum: decay factor of the direction.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0), jnp.zeros_like(x0)

    def update(i, g, state):
        x, squares, m = state
        squares += jnp.square(g)
        m = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * m
        return x - step_size(i) * m, squares, m

    return init, update, _first


@optimizer
def rmsprop(step_size, gamma=0.9, eps=1e-8):
    """RMSProp.

    Args:
      step_size: number or schedule.
      gamma: decay factor of the mean squared gradient.
      eps: added to that mean.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0)

    def update(i, g, state):
        x, mean_square = state
        mean_square = mean_square * gamma + jnp.square(g) * (1.0 - gamma)
        return x - step_size(i) * g / jnp.sqrt(mean_square + eps), mean_square

    return init, update, _first


@optimizer
def rmsprop_momentum(step_size, gamma=0.9, eps=1e-8, momentum=0.9):
    """RMSProp with momentum, which needs more state.

    Args:
      step_size: number or schedule.
      gamma: decay factor of the mean squared gradient.
      eps: added to that mean.
      momentum: decay factor of the step.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0), jnp.zeros_like(x0)

    def update(i, g, state):
        x, mean_square, last = state
        mean_square = mean_square * gamma + jnp.square(g) * (1.0 - gamma)
        last = momentum * last + step_size(i) * g / jnp.sqrt(mean_square + eps)
        return x - last, mean_square, last

    return init, update, _first


@optimizer
def adam(step_size, b1=0.9, b2=0.999, eps=1e-8):
    """Adam (Kingma, Ba, arXiv:1412.6980).

    Args:
      step_size: number or schedule.
      b1, b2: decay factors of the mean gradient and the mean squared gradient.
      eps: added to the root of the latter.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0), jnp.zeros_like(x0)

    def update(i, g, state):
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        m_hat = m / (1 - jnp.asarray(b1, m.dtype) ** (i + 1))
        v_hat = v / (1 - jnp.asarray(b2, m.dtype) ** (i + 1))
        return x - step_size(i) * m_hat / (jnp.sqrt(v_hat) + eps), m, v

    return init, update, _first


@optimizer
def adamax(step_size, b1=0.9, b2=0.999, eps=1e-8):
    """AdaMax: Adam with the decayed maximum of gradients instead of their mean square.

    Args:
      step_size: number or schedule.
      b1, b2: decay factors of the mean gradient and of the maximum.
      eps: added to the maximum.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        return x0, jnp.zeros_like(x0), jnp.zeros_like(x0)

    def update(i, g, state):
        x, m, u = state
        m = (1 - b1) * g + b1 * m
        u = jnp.maximum(b2 * u, jnp.abs(g))
        rate = step_size(i) / (1 - jnp.asarray(b1, m.dtype) ** (i + 1))
        return x - rate * m / (u + eps), m, u

    return init, update, _first


@optimizer
def sm3(step_size, momentum=0.9):
    """SM3 (Anil, Gupta, Koren, Singer, arXiv:1901.11150): Adagrad with an accumulator per index.

    Each index of each dimension has one accumulator, instead of each element.

    Args:
      step_size: number or schedule.
      momentum: decay factor of the direction.
    """
    step_size = make_schedule(step_size)

    def init(x0):
        shape = jnp.shape(x0)
        x0 = jnp.atleast_1d(x0)
        sums = [jnp.zeros(n, x0.dtype) for n in x0.shape]
        return x0, jnp.zeros_like(x0), sums, shape

    def update(i, g, state):
        x, m, sums, shape = state
        g = jnp.reshape(g, x.shape)
        along = [_as_dim(v, k, x.ndim) for k, v in enumerate(sums)]
        squares = jnp.square(g)
        least = along[0]
        for v in along[1:]:
            least = jnp.minimum(least, v)
        squares = least + squares
        m = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * m
        others = [tuple(d for d in range(x.ndim) if d != k) for k in range(x.ndim)]
        return x - step_size(i) * m, m, [squares.max(axes) for axes in others], shape

    def get_params(state):
        x, _, _, shape = state
        return jnp.reshape(x, shape)

    return init, update, get_params


def _first(state):
    return state[0]


def _inverse_root(x):
    return jnp.where(x > 0, 1.0 / jnp.sqrt(x), 0.0)


def _as_dim(v, dim, ndim):
    return jnp.reshape(v, [-1 if d == dim else 1 for d in range(ndim)])


# Schedules


def constant(step_size) -> Schedule:
    """Makes a schedule with a constant step size."""

    def schedule(i):
        return step_size

    return schedule


def exponential_decay(step_size, decay_steps, decay_rate):
    """Makes the schedule step_size * decay_rate ** (i / decay_steps)."""

    def schedule(i):
        return step_size * decay_rate ** (i / decay_steps)

    return schedule


def inverse_time_decay(step_size, decay_steps, decay_rate, staircase=False):
    """Makes the schedule step_size / (1 + decay_rate * i / decay_steps).

    With `staircase` the quotient i / decay_steps is rounded down.
    """

    def schedule(i):
        periods = i / decay_steps
        return step_size / (1 + decay_rate * (jnp.floor(periods) if staircase else periods))

    return schedule


def polynomial_decay(step_size, decay_steps, final_step_size, power=1.0):
    """Makes a schedule from `step_size` to `final_step_size`, reached after `decay_steps` steps."""

    def schedule(i):
        left = 1 - jnp.minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any):
    """Makes a schedule of values[k] for steps i with boundaries[k - 1] < i <= boundaries[k].

    Raises:
      ValueError: unless both are sequences and there is one more value than there are boundaries.
    """
    boundaries, values = jnp.array(boundaries), jnp.array(values)
    if not boundaries.ndim == values.ndim == 1:
        raise ValueError("boundaries and values must be sequences")
    if boundaries.shape[0] != values.shape[0] - 1:
        raise ValueError("boundaries length must be one shorter than values length")

    def schedule(i):
        return values[jnp.sum(i > boundaries)]

    return schedule


def make_schedule(scalar_or_schedule: float | Schedule) -> Schedule:
    """Converts a number to a constant schedule; a schedule is returned unchanged.

    Raises:
      TypeError: if the argument is neither.
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(type(scalar_or_schedule))


# Gradient clipping


def l2_norm(tree):
    """Computes the Euclidean norm of all arrays of a pytree together."""
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_leaves(tree)))


def clip_grads(grad_tree, max_norm):
    """Scales gradients so that their norm is at most `max_norm`."""
    norm = l2_norm(grad_tree)

    def clip(g):
        return jnp.where(norm < max_norm, g, g * (max_norm / norm))

    return tree_map(clip, grad_tree)


# Serialization of states


class JoinPoint:
    """A leaf of a pytree of parameters that holds another pytree, the parameter's state."""

    def __init__(self, subtree):
        self.subtree = subtree

    def __iter__(self):
        yield self.subtree


def unpack_optimizer_state(opt_state):
    """Converts a state to a pytree like the parameters, with `JoinPoint` leaves, for storage."""
    packed, tree, subtrees = opt_state
    return tree_unflatten(tree, [JoinPoint(s) for s in map(tree_unflatten, subtrees, packed)])


def pack_optimizer_state(marked_pytree):
    """Converts the result of `unpack_optimizer_state` back to a state."""
    leaves, tree = tree_flatten(marked_pytree)
    if not all(isinstance(x, JoinPoint) for x in leaves):
        raise TypeError("pack_optimizer_state takes a tree whose leaves are JoinPoints")
    packed, subtrees = unzip2([tree_flatten(x.subtree) for x in leaves])
    return OptimizerState(packed, tree, subtrees)
