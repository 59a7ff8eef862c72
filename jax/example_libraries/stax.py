"""Neural network layers, as pairs of functions.

A layer is a pair `(init_fun, apply_fun)` of `init_fun(rng, input_shape) -> (output_shape, params)`
and `apply_fun(params, inputs, **kwargs) -> outputs`. Some layers require the keyword `rng`, a
random key.

>>> from jax.example_libraries import stax
>>> init, apply = stax.serial(stax.Dense(8), stax.Relu, stax.Dense(2), stax.LogSoftmax)
>>> shape, params = init(jax.random.key(0), (-1, 4))
>>> shape, apply(params, jnp.ones((3, 4))).shape
((-1, 2), (3, 2))
"""

import functools
import operator as op

import jax.numpy as jnp
from jax import lax, random
from jax.nn import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    selu,
    sigmoid,
    softmax,
    softplus,
    standardize,
)
from jax.nn.initializers import glorot_normal, normal, ones, zeros

randn = normal
glorot = glorot_normal
logsoftmax = log_softmax
_default_W, _default_b, _small_b = glorot_normal(), normal(), normal(1e-6)


def Dense(out_dim, W_init=_default_W, b_init=_default_b):
    """Makes a dense layer: inputs (..., n) times a matrix (n, out_dim), plus a bias."""

    def init_fun(rng, input_shape):
        k1, k2 = random.split(rng)
        params = W_init(k1, (input_shape[-1], out_dim)), b_init(k2, (out_dim,))
        return (*input_shape[:-1], out_dim), params

    def apply_fun(params, inputs, **kwargs):
        W, b = params
        return jnp.dot(inputs, W) + b

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers, out_chan, filter_shape, strides=None, padding="VALID", W_init=None,
    b_init=_small_b,
):  # fmt: skip
    """Makes a convolution layer.

    Args:
      dimension_numbers: layouts of the inputs, the kernel and the outputs, as ('NHWC', 'HWIO',
        'NHWC').
      out_chan: number of output channels.
      filter_shape: spatial sizes of the kernel.
      strides: strides of the kernel; ones by default.
      padding: 'VALID', 'SAME' or a pair for each spatial dimension.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    strides = strides or (1,) * len(filter_shape)
    W_init = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))

    def init_fun(rng, input_shape):
        kernel_shape, bias_shape = _conv_shapes(
            dimension_numbers, out_chan, filter_shape, input_shape
        )
        output_shape = lax.conv_general_shape_tuple(
            input_shape, kernel_shape, strides, padding, dimension_numbers
        )
        k1, k2 = random.split(rng)
        return output_shape, (W_init(k1, kernel_shape), b_init(k2, bias_shape))

    def apply_fun(params, inputs, **kwargs):
        W, b = params
        one = (1,) * len(filter_shape)
        out = lax.conv_general_dilated(
            inputs, W, strides, padding, one, one, dimension_numbers=dimension_numbers
        )
        return out + b

    return init_fun, apply_fun


def _conv_shapes(dimension_numbers, out_chan, filter_shape, input_shape):
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    sizes = iter(filter_shape)
    channels = {"O": out_chan, "I": input_shape[lhs_spec.index("C")]}
    kernel = tuple([channels[c] if c in channels else next(sizes) for c in rhs_spec])
    return kernel, tuple([out_chan if c == "C" else 1 for c in out_spec])


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))


def GeneralConvTranspose(
    dimension_numbers, out_chan, filter_shape, strides=None, padding="VALID", W_init=None,
    b_init=_small_b,
):  # fmt: skip
    """Makes a transposed convolution layer; takes the arguments of `GeneralConv`."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    strides = strides or (1,) * len(filter_shape)
    W_init = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))

    def init_fun(rng, input_shape):
        kernel_shape, bias_shape = _conv_shapes(
            dimension_numbers, out_chan, filter_shape, input_shape
        )
        output_shape = lax.conv_transpose_shape_tuple(
            input_shape, kernel_shape, strides, padding, dimension_numbers
        )
        k1, k2 = random.split(rng)
        return output_shape, (W_init(k1, kernel_shape), b_init(k2, bias_shape))

    def apply_fun(params, inputs, **kwargs):
        W, b = params
        out = lax.conv_transpose(inputs, W, strides, padding, dimension_numbers=dimension_numbers)
        return out + b

    return init_fun, apply_fun


Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis=(0, 1, 2), epsilon=1e-5, center=True, scale=True, beta_init=zeros, gamma_init=ones
):
    """Makes a layer that standardizes over the dimensions `axis`, then scales and shifts."""
    axis = (axis,) if jnp.isscalar(axis) else axis

    def init_fun(rng, input_shape):
        shape = tuple([d for i, d in enumerate(input_shape) if i not in axis])
        k1, k2 = random.split(rng)
        beta = beta_init(k1, shape) if center else ()
        gamma = gamma_init(k2, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply_fun(params, x, **kwargs):
        beta, gamma = params
        index = tuple([None if i in axis else slice(None) for i in range(x.ndim)])
        z = standardize(x, axis, epsilon=epsilon)
        if scale:
            z = gamma[index] * z
        return z + beta[index] if center else z

    return init_fun, apply_fun


def elementwise(fun, **fun_kwargs):
    """Makes a layer without parameters that applies `fun` to its inputs."""

    def init_fun(rng, input_shape):
        return input_shape, ()

    def apply_fun(params, inputs, **kwargs):
        return fun(inputs, **fun_kwargs)

    return init_fun, apply_fun


Tanh = elementwise(jnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)


def _pooling_layer(reducer, init_val, rescaler=None):
    def layer(window_shape, strides=None, padding="VALID", spec=None):
        """Makes a layer that takes the maximum, sum or mean of the inputs in each window.

        Args:
          window_shape: sizes of the window in the spatial dimensions.
          strides: strides of the window; ones by default.
          padding: 'VALID' or 'SAME'.
          spec: layout of the inputs, in which 'N' and 'C' name the batch and channel dimensions; by
            default the first and the last one.
        """
        window = tuple(window_shape)
        strides = tuple(strides or (1,) * len(window))
        rescale = rescaler(window, strides, padding) if rescaler else None
        batch, channel = (0, len(window) + 1) if spec is None else map(spec.index, "NC")
        dims = window, strides
        for i in sorted((batch, channel)):
            dims = tuple([(*d[:i], 1, *d[i:]) for d in dims])
        full_window, full_strides = dims

        def init_fun(rng, input_shape):
            pads = lax.padtype_to_pads(input_shape, full_window, full_strides, padding)
            one = (1,) * len(full_window)
            shape = lax.reduce_window_shape_tuple(
                input_shape, full_window, full_strides, pads, one, one
            )
            return shape, ()

        def apply_fun(params, inputs, **kwargs):
            out = lax.reduce_window(inputs, init_val, reducer, full_window, full_strides, padding)
            return rescale(out, inputs, batch, channel) if rescale else out

        return init_fun, apply_fun

    return layer


def _normalize_by_window_size(window, strides, padding):
    def rescale(outputs, inputs, batch, channel):
        shape = [d for i, d in enumerate(inputs.shape) if i not in (batch, channel)]
        sizes = lax.reduce_window(
            jnp.ones(shape, inputs.dtype), 0.0, lax.add, window, strides, padding
        )
        return outputs / jnp.expand_dims(sizes, (batch, channel))

    return rescale


MaxPool = _pooling_layer(lax.max, -jnp.inf)
SumPool = _pooling_layer(lax.add, 0.0)
AvgPool = _pooling_layer(lax.add, 0.0, _normalize_by_window_size)
for _name, _layer in (("MaxPool", MaxPool), ("SumPool", SumPool), ("AvgPool", AvgPool)):
    _layer.__name__ = _layer.__qualname__ = _name


def Flatten():
    """Makes a layer that reshapes inputs (n, ...) to a matrix with n rows."""

    def init_fun(rng, input_shape):
        return (input_shape[0], functools.reduce(op.mul, input_shape[1:], 1)), ()

    def apply_fun(params, inputs, **kwargs):
        return jnp.reshape(inputs, (inputs.shape[0], -1))

    return init_fun, apply_fun


Flatten = Flatten()


def Identity():
    """Makes a layer that returns its inputs."""
    return lambda rng, input_shape: (input_shape, ()), lambda params, inputs, **kwargs: inputs


Identity = Identity()


def FanOut(num):
    """Makes a layer that returns `num` copies of its inputs."""
    return (
        lambda rng, input_shape: ([input_shape] * num, ()),
        lambda params, inputs, **kwargs: [inputs] * num,
    )


def FanInSum():
    """Makes a layer that sums a sequence of inputs."""
    return (
        lambda rng, input_shape: (input_shape[0], ()),
        lambda params, inputs, **kwargs: sum(inputs),
    )


FanInSum = FanInSum()


def FanInConcat(axis=-1):
    """Makes a layer that concatenates a sequence of inputs along `axis`."""

    def init_fun(rng, input_shape):
        k = axis % len(input_shape[0])
        size = sum(shape[k] for shape in input_shape)
        return (*input_shape[0][:k], size, *input_shape[0][k + 1 :]), ()

    def apply_fun(params, inputs, **kwargs):
        return jnp.concatenate(inputs, axis)

    return init_fun, apply_fun


def Dropout(rate, mode="train"):
    """Makes a dropout layer, which in mode 'train' keeps inputs with probability `rate`, rescaled.

    Raises:
      ValueError: if the layer is applied without the keyword `rng`.
    """

    def init_fun(rng, input_shape):
        return input_shape, ()

    def apply_fun(params, inputs, **kwargs):
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout layer requires apply_fun to be called with a PRNG key argument: instead of "
                "apply_fun(params, inputs), call apply_fun(params, inputs, rng=key), with a key from "
                "jax.random.key."
            )
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return jnp.where(keep, inputs / rate, 0)

    return init_fun, apply_fun


# Combinators of layers


def serial(*layers):
    """Composes layers sequentially.

    Returns:
      A layer whose parameters are the list of those layers' parameters.
    """
    init_funs, apply_funs = zip(*layers) if layers else ((), ())

    def init_fun(rng, input_shape):
        params = []
        for init in init_funs:
            rng, layer_rng = random.split(rng)
            input_shape, param = init(layer_rng, input_shape)
            params.append(param)
        return input_shape, params

    def apply_fun(params, inputs, **kwargs):
        rng = kwargs.pop("rng", None)
        rngs = [None] * len(layers) if rng is None else random.split(rng, len(layers))
        for fun, param, rng in zip(apply_funs, params, rngs):
            inputs = fun(param, inputs, rng=rng, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers):
    """Composes layers in parallel: each is applied to one of a sequence of inputs.

    Returns:
      A layer from a sequence of inputs to a list of outputs. `FanOut` makes such a sequence, and
      `FanInSum` and `FanInConcat` accept one.
    """
    init_funs, apply_funs = zip(*layers) if layers else ((), ())

    def init_fun(rng, input_shape):
        rngs = random.split(rng, len(layers))
        pairs = [init(rng, shape) for init, rng, shape in zip(init_funs, rngs, input_shape)]
        return tuple([shape for shape, _ in pairs]), tuple([param for _, param in pairs])

    def apply_fun(params, inputs, **kwargs):
        rng = kwargs.pop("rng", None)
        rngs = [None] * len(layers) if rng is None else random.split(rng, len(layers))
        return [f(p, x, rng=r, **kwargs) for f, p, x, r in zip(apply_funs, params, inputs, rngs)]

    return init_fun, apply_fun


def shape_dependent(make_layer):
    """Makes a layer whose definition depends on the shape of its inputs.

    Args:
      make_layer: function from the input shape to a layer.
    """

    def init_fun(rng, input_shape):
        return make_layer(input_shape)[0](rng, input_shape)

    def apply_fun(params, inputs, **kwargs):
        return make_layer(inputs.shape)[1](params, inputs, **kwargs)

    return init_fun, apply_fun
