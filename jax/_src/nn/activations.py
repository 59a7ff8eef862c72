"""Activation functions."""

import functools
from typing import Any

import numpy as np

import jax.numpy as jnp
from jax._src.api import jit
from jax._src.custom_derivatives import custom_jvp
from jax._src.lax import lax, special
from jax._src.numpy import util


def identity(x: Any):
    """The argument, as an array.

    >>> print(jax.nn.identity(jnp.array([1., 2.])))
    [1. 2.]
    """
    return jnp.asarray(x)


@custom_jvp
@jit
def relu(x: Any):
    """Rectified linear unit: max(x, 0); its derivative at 0 is 0.

    Args:
      x: array.

    >>> print(jax.nn.relu(jnp.array([-2., 0., 3.])))
    [0. 0. 3.]
    """
    return jnp.maximum(x, 0)


# Of the two choices at zero: sparse gradients.
relu.defjvps(lambda g, ans, x: lax.select(x > 0, g, lax.full_like(g, 0)))


@custom_jvp
@jit
def relu6(x: Any):
    """min(max(x, 0), 6); its derivatives at 0 and 6 are 0.

    >>> print(jax.nn.relu6(jnp.array([-2., 3., 9.])))
    [0. 3. 6.]
    """
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


relu6.defjvps(lambda g, ans, x: lax.select((x > 0) & (x < 6), g, lax.full_like(g, 0)))


@jit
def squareplus(x: Any, b: Any = 4):
    """(x + sqrt(x^2 + b)) / 2, a smooth `relu`.

    Args:
      x: array.
      b: smoothness.

    >>> print(jax.nn.squareplus(jnp.array(0.)))
    1.0
    """
    util.check_arraylike("squareplus", x, b)
    x, b = jnp.asarray(x), jnp.asarray(b)
    y = x + jnp.sqrt(jnp.square(x) + b)
    return y / 2


@jit
def softplus(x: Any):
    """log(1 + exp(x)).

    >>> print(jax.nn.softplus(jnp.array(0.)))
    0.6931472
    """
    return jnp.logaddexp(x, 0.0)


@jit
def sparse_plus(x: Any):
    """0 for x <= -1, x for x >= 1 and (x + 1)^2 / 4 between.

    >>> print(jax.nn.sparse_plus(jnp.array([-2., 0., 2.])))
    [0.   0.25 2.  ]
    """
    util.check_arraylike("sparse_plus", x)
    x = jnp.asarray(x)
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@jit
def soft_sign(x: Any):
    """x / (|x| + 1).

    >>> print(jax.nn.soft_sign(jnp.array([-1., 3.])))
    [-0.5   0.75]
    """
    util.check_arraylike("soft_sign", x)
    x = jnp.asarray(x)
    return x / (jnp.abs(x) + 1)


def sigmoid(x: Any):
    """1 / (1 + exp(-x)).

    >>> print(jax.nn.sigmoid(jnp.array(0.)))
    0.5
    """
    (x,) = util.promote_args_inexact("sigmoid", x)
    return lax.logistic(x)


def sparse_sigmoid(x: Any):
    """0 for x <= -1, 1 for x >= 1 and (x + 1) / 2 between.

    >>> print(jax.nn.sparse_sigmoid(jnp.array([-2., 0., 2.])))
    [0.  0.5 1. ]
    """
    return _sparse_sigmoid(x)


@jit
def _sparse_sigmoid(x):
    return 0.5 * jnp.clip(x + 1.0, 0.0, 2.0)


@jit
def silu(x: Any):
    """x * sigmoid(x), also called swish.

    >>> print(jax.nn.silu(jnp.array(1.)))
    0.7310586
    """
    util.check_arraylike("silu", x)
    x = jnp.asarray(x)
    return x * sigmoid(x)


swish = silu


@jit
def mish(x: Any):
    """x * tanh(softplus(x)). Misra, "Mish: a self regularized non-monotonic activation function", 2019.

    >>> print(jax.nn.mish(jnp.array(1.)))
    0.86509836
    """
    util.check_arraylike("mish", x)
    x = jnp.asarray(x)
    return x * jnp.tanh(softplus(x))


@jit
def log_sigmoid(x: Any):
    """log(sigmoid(x)) = -softplus(-x).

    >>> print(jax.nn.log_sigmoid(jnp.array(0.)))
    -0.6931472
    """
    util.check_arraylike("log_sigmoid", x)
    return -softplus(-jnp.asarray(x))


@jit
def elu(x: Any, alpha: Any = 1.0):
    """x for x > 0, alpha * (exp(x) - 1) otherwise. Clevert, Unterthiner and Hochreiter, 2015.

    Args:
      x: array.
      alpha: scalar or array.

    >>> print(jax.nn.elu(jnp.array([-1., 2.])))
    [-0.63212055  2.        ]
    """
    util.check_arraylike("elu", x)
    x = jnp.asarray(x)
    # The exponential only of what takes it, so that large x gives no infinite derivative.
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


@jit
def leaky_relu(x: Any, negative_slope: Any = 1e-2):
    """x for x >= 0, negative_slope * x otherwise.

    >>> print(jax.nn.leaky_relu(jnp.array([-1., 2.])))
    [-0.01  2.  ]
    """
    util.check_arraylike("leaky_relu", x)
    x = jnp.asarray(x)
    return jnp.where(x >= 0, x, negative_slope * x)


@jit
def hard_tanh(x: Any):
    """x between -1 and 1, and these beyond.

    >>> print(jax.nn.hard_tanh(jnp.array([-3., 0.5])))
    [-1.   0.5]
    """
    util.check_arraylike("hard_tanh", x)
    x = jnp.asarray(x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


@jit
def celu(x: Any, alpha: Any = 1.0):
    """x for x > 0, alpha * (exp(x / alpha) - 1) otherwise. Barron, 2017.

    >>> print(jax.nn.celu(jnp.array([-1., 2.])))
    [-0.63212055  2.        ]
    """
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


@jit
def selu(x: Any):
    """Scaled `elu` that keeps mean and variance. Klambauer et al., 2017.

    >>> print(jax.nn.selu(jnp.array(1.)))
    1.050701
    """
    alpha = 1.6732632423543772848170429916717
    scale = 1.0507009873554804934193349852946
    return scale * elu(x, alpha)


@functools.partial(jit, static_argnames=("approximate",), inline=True)
def gelu(x: Any, approximate: bool = True):
    """x times the normal distribution function of x. Hendrycks and Gimpel, 2016.

    Args:
      x: array.
      approximate: whether the distribution function is approximated with `tanh`.

    >>> print(jax.nn.gelu(jnp.array(1.)))
    0.841192
    """
    (x,) = util.promote_args_inexact("gelu", x)
    if approximate:
        sqrt_2_over_pi = np.sqrt(2 / np.pi).astype(x.dtype)
        cdf = 0.5 * (1.0 + jnp.tanh(sqrt_2_over_pi * (x + 0.044715 * (x**3))))
        return x * cdf
    sqrt_half = np.sqrt(0.5).astype(x.dtype)
    return jnp.array(0.5 * x * special.erfc(-x * sqrt_half), dtype=x.dtype)


@functools.partial(jit, static_argnames=("axis",))
def glu(x: Any, axis: int = -1):
    """The first half of an axis times the sigmoid of the second half.

    Args:
      x: array.
      axis: axis of even size.

    >>> print(jax.nn.glu(jnp.array([1., 0.])))
    [0.5]
    """
    util.check_arraylike("glu", x)
    x = jnp.asarray(x)
    size = x.shape[axis]
    if size % 2:
        raise ValueError(f"glu: axis {axis} of shape {x.shape} must have an even size, got {size}")
    x1, x2 = jnp.split(x, 2, axis)
    return x1 * sigmoid(x2)


@jit
def hard_sigmoid(x: Any):
    """relu6(x + 3) / 6.

    >>> print(jax.nn.hard_sigmoid(jnp.array(0.)))
    0.5
    """
    return relu6(x + 3.0) / 6.0


@jit
def hard_silu(x: Any):
    """x * hard_sigmoid(x), also called hard swish. Howard et al., 2019.

    >>> print(jax.nn.hard_silu(jnp.array(1.)))
    0.6666667
    """
    util.check_arraylike("hard_silu", x)
    x = jnp.asarray(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@custom_jvp
@jit
def log1mexp(x: Any):
    """log(1 - exp(-x)) for x > 0, accurate for small and large x.

    Source: Maechler, "Accurately computing log(1 - exp(-|a|))", 2012.

    >>> print(jax.nn.log1mexp(jnp.array(1.)))
    -0.45867515
    """
    (x,) = util.promote_args_inexact("log1mexp", x)
    c = jnp.log(2.0)
    return jnp.where(x < c, jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


log1mexp.defjvps(lambda g, ans, x: g / jnp.expm1(x))
