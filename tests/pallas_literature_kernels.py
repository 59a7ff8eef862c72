"""Kernels from the literature, forward and backward, with what they should compute.

Most of them work on rows: `f(*rows, *shared)` computes rows of results from the same rows of the arguments and from
arguments that all rows share. `by_rows` makes a kernel of such a function, over blocks of rows, and one of its derivative;
what blocks contribute to the derivatives by shared arguments is summed afterwards, since blocks run in any order on GPUs.
`BACKENDS` has what back ends have of their own. Each kernel is compiled by all of them but those for which it says why not.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu, tpu as pltpu

ROWS, BLOCK, COLUMNS = 16, 8, 128


def _call(kernel, out, in_order, **options):
    return pl.pallas_call(kernel, out, **options)


def _call_of_mosaic_gpu(kernel, out, in_order, **options):
    n = np.size(options["grid"])
    semantics = ["parallel"] * (n - in_order) + ["sequential"] * in_order
    params = plgpu.CompilerParams(dimension_semantics=semantics)
    return pl.pallas_call(kernel, out, compiler_params=params, **options)


@dataclasses.dataclass(frozen=True)
class Backend:
    """What kernels for a back end have of their own.

    Attributes:
      call: `pl.pallas_call`, given how many of the last dimensions of the grid are in order.
      tile: the side of square blocks.
      scratch: makes the type of scratch memory of a shape and a dtype.
      shared: makes the specification of an array, of a shape, that all blocks read.
    """

    call: Callable = _call
    tile: int = 128
    scratch: Callable = pltpu.VMEM
    shared: Callable = lambda shape: pl.BlockSpec(shape, lambda *_: (0,) * len(shape))


ANY = Backend()
BACKENDS = {
    "mosaic_tpu": ANY,
    "triton": ANY,
    # A block's shared memory has no room for matrices of weights.
    "mosaic_gpu": Backend(
        _call_of_mosaic_gpu, 64, plgpu.SMEM, lambda _: plgpu.BlockSpec(memory_space=plgpu.GMEM)
    ),
}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel.

    Attributes:
      plain: the function in `jax.numpy`.
      make: makes the kernel's function, which has a derivative, for an argument `interpret` and a back end.
      inputs: makes the arguments with a generator of random numbers.
      unsuited: why back ends do not compile it, by their names.
    """

    plain: Callable
    make: Callable[..., Callable]
    inputs: Callable[[Any], tuple]
    unsuited: dict[str, str] = dataclasses.field(default_factory=dict)


NO_PARTS = {"triton": "values have no parts, nor the derivatives of such"}
IN_ORDER = {"triton": "blocks of a grid run in any order, and cannot carry sums"}
KERNELS: dict[str, Kernel] = {}


def is_float(x):
    return jnp.issubdtype(x.dtype, jnp.floating)


def value_and_gradients(function, args):
    """Return a weighted sum of results, the results, and the gradients of the sum."""
    varied = tuple(i for i, x in enumerate(args) if is_float(x))

    def weighted(*args):
        results = function(*args)
        leaves = jax.tree.leaves(results)
        weights = [jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape) for x in leaves]
        return sum(jnp.vdot(w, x) for w, x in zip(weights, leaves)), results

    return jax.value_and_grad(weighted, varied, has_aux=True)(*args)


def check(kernel, found, args):
    """Compare what `value_and_gradients` has found with what the plain function gives."""
    (_, got), gradients = found
    plain = jax.jit(lambda *args: value_and_gradients(kernel.plain, args))
    (_, want), expected = plain(*args)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves((got, gradients)), jax.tree.leaves((want, expected))):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * max(1, np.abs(b).max()))


def by_rows(f, num_shared, interpret, backend=ANY):
    """Make a function of `f` that runs on blocks of rows, with its derivative by kernels."""

    def specs(args):
        n = len(args) - num_shared
        rows = [pl.BlockSpec((BLOCK, x.shape[1]), lambda i: (i, 0)) for x in args[:n]]
        return rows + [backend.shared(x.shape) for x in args[n:]]

    def call(kernel, args, in_specs, out, out_specs):
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in out]
        run = backend.call(
            kernel, shapes, 0, grid=ROWS // BLOCK, in_specs=in_specs, out_specs=out_specs,
            interpret=interpret,
        )  # fmt: skip
        return run(*args)

    def forward(*args):
        out = jax.eval_shape(f, *args)

        def kernel(*refs):
            results = f(*[ref[...] for ref in refs[: len(args)]])
            for ref, result in zip(refs[len(args) :], jax.tree.leaves(results)):
                ref[...] = result

        leaves = jax.tree.leaves(out)
        out_specs = [pl.BlockSpec((BLOCK, x.shape[1]), lambda i: (i, 0)) for x in leaves]
        return jax.tree.unflatten(
            jax.tree.structure(out), call(kernel, args, specs(args), leaves, out_specs)
        )

    def backward(args, cotangents):
        cotangents = jax.tree.leaves(cotangents)
        varied = [i for i, x in enumerate(args) if is_float(x)]
        n = len(args) - num_shared

        def kernel(*refs):
            xs = [ref[...] for ref in refs[: len(args)]]
            given = [ref[...] for ref in refs[len(args) : len(args) + len(cotangents)]]
            outs = refs[len(args) + len(cotangents) :]

            def of_varied(*values):
                everything = list(xs)
                for i, value in zip(varied, values):
                    everything[i] = value
                return jax.tree.leaves(f(*everything))

            found = jax.vjp(of_varied, *[xs[i] for i in varied])[1](given)
            for ref, value in zip(outs, found):
                ref[...] = value

        in_specs = specs(args)
        rows = [pl.BlockSpec((BLOCK, x.shape[1]), lambda i: (i, 0)) for x in cotangents]
        out, out_specs = [], []
        for i in varied:
            x = args[i]
            if i < n:
                out.append(x)
                out_specs.append(in_specs[i])
            else:
                out.append(jax.ShapeDtypeStruct((ROWS // BLOCK, *x.shape), x.dtype))
                out_specs.append(pl.BlockSpec((None, *x.shape), lambda i: (i, 0, 0)))
        found = call(kernel, (*args, *cotangents), in_specs + rows, out, out_specs)
        gradients = [None] * len(args)
        for i, x in zip(varied, found):
            gradients[i] = x if i < n else x.sum(0)
        return tuple(gradients)

    function = jax.custom_vjp(forward)
    function.defvjp(lambda *args: (forward(*args), args), backward)
    return function


def normal(*shape, scale=1.0, shift=0.0):
    return lambda rng: (rng.standard_normal(shape) * scale + shift).astype(np.float32)


def positive(*shape):
    return lambda rng: rng.uniform(0.1, 2.0, shape).astype(np.float32)


def integers(high, *shape):
    return lambda rng: rng.integers(0, high, shape).astype(np.int32)


WIDE = normal(ROWS, COLUMNS)
COLUMN = normal(ROWS, 1)


def rows_kernel(*inputs, shared=(), unsuited=()):
    """Register a function of rows."""

    def register(f):
        KERNELS[f.__name__] = Kernel(
            f, functools.partial(by_rows, f, len(shared)),
            lambda rng: tuple(make(rng) for make in (*inputs, *shared)), dict(unsuited),
        )  # fmt: skip
        return f

    return register


def one_hot(labels, n=COLUMNS):
    return (lax.broadcasted_iota(jnp.int32, (labels.shape[0], n), 1) == labels).astype(jnp.float32)


# Normalizations


@rows_kernel(WIDE)
def softmax(x):
    """Milakov and Gimelshein 2018 (arXiv:1805.02867)."""
    e = jnp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@rows_kernel(WIDE)
def log_softmax(x):
    y = x - x.max(1, keepdims=True)
    return y - jnp.log(jnp.exp(y).sum(1, keepdims=True))


@rows_kernel(WIDE, shared=(normal(1, COLUMNS), normal(1, COLUMNS)))
def layer_norm(x, scale, shift):
    """Ba, Kiros and Hinton 2016 (arXiv:1607.06450)."""
    y = x - x.mean(1, keepdims=True)
    return y * lax.rsqrt((y * y).mean(1, keepdims=True) + 1e-5) * scale + shift


@rows_kernel(WIDE, shared=(normal(1, COLUMNS),))
def rms_norm(x, scale):
    """Zhang and Sennrich 2019 (arXiv:1910.07467)."""
    return x * lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-6) * scale


@rows_kernel(WIDE)
def l2_normalize(x):
    return x * lax.rsqrt((x * x).sum(1, keepdims=True) + 1e-12)


@rows_kernel(WIDE, WIDE, shared=(normal(1, COLUMNS),))
def add_and_norm(x, residual, scale):
    """The sum of a residual and its norm in one pass."""
    y = x + residual
    return y, y * lax.rsqrt((y * y).mean(1, keepdims=True) + 1e-6) * scale


@rows_kernel(WIDE)
def squash(x):
    """Capsules: Sabour, Frosst and Hinton 2017 (arXiv:1710.09829)."""
    n = (x * x).sum(1, keepdims=True)
    return x * (n / (1 + n)) * lax.rsqrt(n + 1e-9)


@rows_kernel(WIDE, shared=(normal(1, 1), normal(1, COLUMNS), normal(1, COLUMNS)))
def dynamic_tanh(x, alpha, scale, shift):
    """Zhu et al. 2025 (arXiv:2503.10622)."""
    return jnp.tanh(alpha * x) * scale + shift


# Activations


@rows_kernel(WIDE)
def gelu(x):
    """Hendrycks and Gimpel 2016 (arXiv:1606.08415)."""
    return 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


@rows_kernel(WIDE)
def silu(x):
    return x / (1 + jnp.exp(-x))


@rows_kernel(WIDE)
def mish(x):
    """Misra 2019 (arXiv:1908.08681)."""
    return x * jnp.tanh(jnp.log1p(jnp.exp(-jnp.abs(x))) + jnp.maximum(x, 0))


@rows_kernel(WIDE, WIDE)
def swiglu(gate, x):
    """Shazeer 2020 (arXiv:2002.05202)."""
    return gate / (1 + jnp.exp(-gate)) * x


@rows_kernel(WIDE, WIDE)
def geglu(gate, x):
    return 0.5 * gate * (1 + lax.erf(gate * 0.70710678)) * x


@rows_kernel(WIDE, WIDE)
def reglu(gate, x):
    return jnp.maximum(gate, 0) * x


@rows_kernel(WIDE)
def squared_relu(x):
    """So et al. 2021 (arXiv:2109.08668)."""
    return jnp.square(jnp.maximum(x, 0))


@rows_kernel(WIDE)
def selu(x):
    """Klambauer et al. 2017 (arXiv:1706.02515)."""
    return 1.0507 * jnp.where(x > 0, x, 1.67326 * (jnp.exp(jnp.minimum(x, 0)) - 1))


@rows_kernel(WIDE, shared=(normal(1, COLUMNS),))
def prelu(x, slope):
    """He et al. 2015 (arXiv:1502.01852)."""
    return jnp.where(x > 0, x, slope * x)


@rows_kernel(WIDE, shared=(normal(1, COLUMNS, scale=0.2, shift=1.0),))
def snake(x, frequency):
    """Ziyin, Hartwig and Ueda 2020 (arXiv:2006.08195)."""
    return x + jnp.square(jnp.sin(frequency * x)) / frequency


@rows_kernel(WIDE, shared=(normal(1, COLUMNS),))
def swish_with_slope(x, beta):
    """Ramachandran, Zoph and Le 2017 (arXiv:1710.05941)."""
    return x * jax.nn.sigmoid(beta * x)


# Losses


@rows_kernel(WIDE, integers(COLUMNS, ROWS, 1))
def cross_entropy(logits, labels):
    y = logits - logits.max(1, keepdims=True)
    total = jnp.log(jnp.exp(y).sum(1, keepdims=True))
    return total - (y * one_hot(labels)).sum(1, keepdims=True)


@rows_kernel(WIDE, integers(COLUMNS, ROWS, 1))
def label_smoothing(logits, labels):
    """Szegedy et al. 2016 (arXiv:1512.00567)."""
    y = logits - logits.max(1, keepdims=True)
    y = y - jnp.log(jnp.exp(y).sum(1, keepdims=True))
    return -(y * (0.9 * one_hot(labels) + 0.1 / COLUMNS)).sum(1, keepdims=True)


@rows_kernel(WIDE, integers(COLUMNS, ROWS, 1))
def focal_loss(logits, labels):
    """Lin et al. 2017 (arXiv:1708.02002)."""
    y = logits - logits.max(1, keepdims=True)
    y = ((y - jnp.log(jnp.exp(y).sum(1, keepdims=True))) * one_hot(labels)).sum(1, keepdims=True)
    return -jnp.square(1 - jnp.exp(y)) * y


@rows_kernel(WIDE, integers(COLUMNS, ROWS, 1))
def z_loss(logits, labels):
    """Cross-entropy with the square of the logarithm of the sum: PaLM, 2022 (arXiv:2204.02311)."""
    top = logits.max(1, keepdims=True)
    total = top + jnp.log(jnp.exp(logits - top).sum(1, keepdims=True))
    picked = (logits * one_hot(labels)).sum(1, keepdims=True)
    return total - picked + 1e-2 * total * total


@rows_kernel(WIDE, WIDE)
def huber_loss(x, target):
    """Huber 1964."""
    d = jnp.abs(x - target)
    return jnp.where(d < 1, 0.5 * d * d, d - 0.5).mean(1, keepdims=True)


@rows_kernel(WIDE, WIDE)
def log_cosh_loss(x, target):
    d = jnp.abs(x - target)
    return (d + jnp.log1p(jnp.exp(-2 * d)) - 0.6931472).sum(1, keepdims=True)


@rows_kernel(WIDE, WIDE)
def divergence(p_logits, q_logits):
    """Kullback-Leibler."""
    p, q = (x - x.max(1, keepdims=True) for x in (p_logits, q_logits))
    p, q = (x - jnp.log(jnp.exp(x).sum(1, keepdims=True)) for x in (p, q))
    return (jnp.exp(p) * (p - q)).sum(1, keepdims=True)


@rows_kernel(WIDE, WIDE, WIDE)
def triplet_loss(anchor, near, far):
    """Schroff, Kalenichenko and Philbin 2015 (arXiv:1503.03832)."""
    close, apart = (jnp.square(anchor - x).sum(1, keepdims=True) for x in (near, far))
    return jnp.maximum(close - apart + 0.2, 0)


@rows_kernel(WIDE, WIDE)
def cosine_similarity(x, y):
    xx, yy = ((v * v).sum(1, keepdims=True) for v in (x, y))
    return (x * y).sum(1, keepdims=True) * lax.rsqrt(xx * yy + 1e-12)


@rows_kernel(WIDE, WIDE)
def gaussian_likelihood(mean, log_scale):
    return (-0.5 * jnp.square(mean) * jnp.exp(-2 * log_scale) - log_scale).sum(1, keepdims=True)


# Attention's parts


@rows_kernel(WIDE, positive(ROWS, 64), unsuited=NO_PARTS)
def rotary(x, angles):
    """Su et al. 2021 (arXiv:2104.09864), the halves of the features as pairs."""
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    a, b = x[:, :64], x[:, 64:]
    return a * cos - b * sin, b * cos + a * sin


@rows_kernel(WIDE, integers(COLUMNS, ROWS, 1))
def causal_softmax(scores, position):
    key = lax.broadcasted_iota(jnp.int32, scores.shape, 1)
    scores = jnp.where(key <= position, scores, -1e30)
    e = jnp.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@rows_kernel(WIDE, integers(COLUMNS, ROWS, 1), shared=(positive(1, 1),))
def linear_bias_softmax(scores, position, slope):
    """Press, Smith and Lewis 2021 (arXiv:2108.12409)."""
    key = lax.broadcasted_iota(jnp.int32, scores.shape, 1)
    scores = scores - slope * jnp.abs(position - key).astype(jnp.float32)
    e = jnp.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@rows_kernel(WIDE)
def soft_cap(x):
    """Gemma 2, 2024 (arXiv:2408.00118)."""
    return 30 * jnp.tanh(x / 30)


@rows_kernel(WIDE, shared=(normal(64, COLUMNS), normal(64, 32)))
def attention_of_rows(q, k, v):
    """Rows of queries and all keys."""
    s = lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32) * 0.1
    e = jnp.exp(s - s.max(1, keepdims=True))
    return lax.dot(e / e.sum(1, keepdims=True), v, preferred_element_type=jnp.float32)


@rows_kernel(WIDE, shared=(normal(64, COLUMNS), normal(64, 32)))
def sigmoid_attention(q, k, v):
    """Ramapuram et al. 2024 (arXiv:2409.04431)."""
    s = lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32) * 0.1
    return lax.dot(jax.nn.sigmoid(s - 4.0), v, preferred_element_type=jnp.float32)


# Layers


@rows_kernel(WIDE, shared=(normal(COLUMNS, 64, scale=0.1), normal(1, 64)))
def dense(x, w, b):
    return lax.dot(x, w, preferred_element_type=jnp.float32) + b


@rows_kernel(
    WIDE,
    shared=(normal(COLUMNS, 64, scale=0.1), normal(COLUMNS, 64, scale=0.1), normal(64, COLUMNS, scale=0.1)),
)  # fmt: skip
def gated_feed_forward(x, gate, up, down):
    """The feed-forward layer of Llama (arXiv:2302.13971), without its hidden layer in memory."""
    g = lax.dot(x, gate, preferred_element_type=jnp.float32)
    y = g * jax.nn.sigmoid(g) * lax.dot(x, up, preferred_element_type=jnp.float32)
    return lax.dot(y, down, preferred_element_type=jnp.float32)


@rows_kernel(WIDE, shared=(normal(COLUMNS, 16, scale=0.1), normal(16, COLUMNS, scale=0.1)))
def low_rank_adapter(x, down, up):
    """Hu et al. 2021 (arXiv:2106.09685)."""
    y = lax.dot(x, down, preferred_element_type=jnp.float32)
    return x + 2 * lax.dot(y, up, preferred_element_type=jnp.float32)


@rows_kernel(
    WIDE,
    normal(ROWS, 32),
    shared=(normal(COLUMNS, 32, scale=0.1), normal(32, 32, scale=0.1), normal(1, 32)),
)
def gated_unit(x, h, w, u, b):
    """Minimal gated unit: Zhou et al. 2016 (arXiv:1603.09420), with one product each."""
    z = lax.dot(x, w, preferred_element_type=jnp.float32) + b
    f = jax.nn.sigmoid(z + lax.dot(h, u, preferred_element_type=jnp.float32))
    return (1 - f) * h + f * jnp.tanh(z + f * h)


@rows_kernel(*[normal(ROWS, COLUMNS)] * 5)
def lstm_gates(i, f, g, o, c):
    """Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000."""
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


@rows_kernel(*[normal(ROWS, COLUMNS)] * 4)
def gru_gates(r, z, n, h):
    """Cho et al. 2014 (arXiv:1406.1078)."""
    n = jnp.tanh(n + jax.nn.sigmoid(r) * h)
    z = jax.nn.sigmoid(z)
    return (1 - z) * n + z * h


@rows_kernel(WIDE, positive(ROWS, COLUMNS), WIDE, WIDE, shared=(normal(1, COLUMNS),))
def state_space_step(x, step, state, b, a):
    """A step of a selective state space: Gu and Dao 2023 (arXiv:2312.00752)."""
    return jnp.exp(-step * jnp.exp(a)) * state + step * b * x


@rows_kernel(WIDE, WIDE, WIDE, positive(ROWS, COLUMNS))
def highway(x, h, gate, bias):
    """Srivastava, Greff and Schmidhuber 2015 (arXiv:1505.00387)."""
    t = jax.nn.sigmoid(gate - bias)
    return t * h + (1 - t) * x


@rows_kernel(WIDE, WIDE, WIDE)
def film(x, scale, shift):
    """Perez et al. 2017 (arXiv:1709.07871)."""
    return (1 + scale) * x + shift


@rows_kernel(WIDE, integers(2, ROWS, COLUMNS))
def dropout(x, kept):
    """Srivastava et al. 2014."""
    return jnp.where(kept > 0, 2 * x, 0.0)


@rows_kernel(WIDE, positive(ROWS, COLUMNS))
def gumbel_softmax(logits, uniform):
    """Jang, Gu and Poole 2016 (arXiv:1611.01144)."""
    y = (logits - jnp.log(-jnp.log(uniform / 2.1))) / 0.7
    e = jnp.exp(y - y.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@rows_kernel(WIDE, WIDE, WIDE)
def reparameterized_normal(mean, log_scale, noise):
    """Kingma and Welling 2013 (arXiv:1312.6114), with the divergence from a standard normal."""
    y = mean + jnp.exp(log_scale) * noise
    d = 0.5 * (jnp.exp(2 * log_scale) + mean * mean - 1) - log_scale
    return y, d.sum(1, keepdims=True)


# Numerics


@rows_kernel(WIDE, WIDE, unsuited=NO_PARTS)
def complex_product(x, y):
    """Of numbers whose real parts are the first half of a row."""
    a, b, c, d = x[:, :64], x[:, 64:], y[:, :64], y[:, 64:]
    return a * c - b * d, a * d + b * c


@rows_kernel(normal(ROWS, COLUMNS, scale=0.5))
def horner(x):
    total = jnp.zeros_like(x)
    for c in (1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0):
        total = total * x + c
    return total


@rows_kernel(*[normal(ROWS, COLUMNS)] * 2)
def logistic_map(x, r):
    """Four steps of a chaotic recursion."""
    x, r = jax.nn.sigmoid(x), 3.5 + 0.3 * jnp.tanh(r)
    for _ in range(4):
        x = r * x * (1 - x)
    return x


@rows_kernel(*[normal(ROWS, COLUMNS)] * 2)
def pendulum_step(angle, speed):
    """Runge and Kutta's step of a pendulum."""
    h = 0.1

    def slope(a, s):
        return s, -jnp.sin(a)

    a1, s1 = slope(angle, speed)
    a2, s2 = slope(angle + h / 2 * a1, speed + h / 2 * s1)
    a3, s3 = slope(angle + h / 2 * a2, speed + h / 2 * s2)
    a4, s4 = slope(angle + h * a3, speed + h * s3)
    return angle + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4), speed + h / 6 * (s1 + 2 * s2 + 2 * s3 + s4)


@rows_kernel(*[positive(ROWS, COLUMNS)] * 3)
def black_scholes(spot, strike, time):
    """Black and Scholes 1973: the price of a call."""
    v = 0.3 * jnp.sqrt(time)
    d = (jnp.log(spot / strike) + 0.045 * time) / v
    cdf = lambda x: 0.5 * (1 + lax.erf(x * 0.70710678))
    return spot * cdf(d) - strike * cdf(d - v)


@rows_kernel(WIDE, shared=(normal(1, COLUMNS),))
def gaussian_kernel(x, center):
    d = jnp.square(x - center).sum(1, keepdims=True)
    return jnp.exp(-0.01 * d)


@rows_kernel(*[normal(ROWS, COLUMNS)] * 3)
def lennard_jones(x, y, z):
    """Energies of pairs at a distance: Jones 1924."""
    r2 = x * x + y * y + z * z + 1.0
    s = 1 / (r2 * r2 * r2)
    return 4 * (s * s - s)


# Optimizers, whose derivatives are those of learned optimizers


@rows_kernel(WIDE, WIDE, WIDE, positive(ROWS, COLUMNS))
def adam(p, g, m, v):
    """Kingma and Ba 2014 (arXiv:1412.6980)."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-2 * m / (jnp.sqrt(v) + 1e-8), m, v


@rows_kernel(WIDE, WIDE, WIDE)
def momentum(p, g, m):
    """Nesterov 1983."""
    m = 0.9 * m + g
    return p - 1e-2 * (0.9 * m + g), m


@rows_kernel(WIDE, WIDE, positive(ROWS, COLUMNS))
def adagrad(p, g, v):
    """Duchi, Hazan and Singer 2011."""
    v = v + g * g
    return p - 1e-2 * g * lax.rsqrt(v), v


@rows_kernel(WIDE, WIDE, positive(ROWS, COLUMNS), positive(ROWS, COLUMNS))
def adadelta(p, g, v, u):
    """Zeiler 2012 (arXiv:1212.5701)."""
    v = 0.9 * v + 0.1 * g * g
    d = g * jnp.sqrt(u + 1e-6) * lax.rsqrt(v + 1e-6)
    return p - d, v, 0.9 * u + 0.1 * d * d


@rows_kernel(WIDE, WIDE)
def trust_ratio(p, update):
    """You et al. 2017 (arXiv:1708.03888), for a layer in each row."""
    of = lambda x: (x * x).sum(1, keepdims=True)
    return p - 1e-2 * jnp.sqrt(of(p)) * lax.rsqrt(of(update) + 1e-12) * update


# Kernels with grids of their own


def product_by_tiles(interpret, backend=ANY):
    """A product whose sums are along the last dimension of the grid."""
    tile = backend.tile

    def call(x, y):
        m, k, n = *x.shape, y.shape[1]
        bm, bk, bn = (min(tile, size) for size in (m, k, n))

        def kernel(x_ref, y_ref, o_ref):
            @pl.when(pl.program_id(2) == 0)
            def _():
                o_ref[...] = jnp.zeros_like(o_ref)

            o_ref[...] += lax.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        return backend.call(
            kernel,
            jax.ShapeDtypeStruct((m, n), jnp.float32),
            in_order=1,
            grid=(m // bm, n // bn, k // bk),
            in_specs=[
                pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
                pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
            ],
            out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
            interpret=interpret,
        )(x, y)

    function = jax.custom_vjp(call)
    function.defvjp(
        lambda x, y: (call(x, y), (x, y)), lambda xs, d: (call(d, xs[1].T), call(xs[0].T, d))
    )
    return function


def running_sum(interpret, backend=ANY):
    """Sums of the rows so far: the last one is carried from block to block."""

    def call(x, reverse):
        n = x.shape[0] // BLOCK
        at = (lambda i: (n - 1 - i, 0)) if reverse else (lambda i: (i, 0))

        def kernel(x_ref, o_ref, carry_ref):
            @pl.when(pl.program_id(0) == 0)
            def _():
                carry_ref[...] = jnp.zeros_like(carry_ref)

            row, column = (lax.broadcasted_iota(jnp.int32, (BLOCK, BLOCK), d) for d in (0, 1))
            upto = (row <= column) if reverse else (row >= column)
            x = x_ref[...]
            o_ref[...] = carry_ref[...] + lax.dot(upto.astype(jnp.float32), x, precision="highest")
            carry_ref[...] += x.sum(0, keepdims=True)

        spec = pl.BlockSpec((BLOCK, COLUMNS), at)
        return backend.call(
            kernel,
            jax.ShapeDtypeStruct(x.shape, x.dtype),
            in_order=1,
            grid=n,
            in_specs=[spec],
            out_specs=spec,
            scratch_shapes=[backend.scratch((1, COLUMNS), jnp.float32)],
            interpret=interpret,
        )(x)

    function = jax.custom_vjp(lambda x: call(x, False))
    function.defvjp(lambda x: (call(x, False), None), lambda _, d: (call(d, True),))
    return function


def transposition(interpret, backend=ANY):
    tile = backend.tile

    def call(x):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...].T

        return backend.call(
            kernel,
            jax.ShapeDtypeStruct(x.shape[::-1], x.dtype),
            in_order=0,
            grid=(x.shape[0] // tile, x.shape[1] // tile),
            in_specs=[pl.BlockSpec((tile, tile), lambda i, j: (i, j))],
            out_specs=pl.BlockSpec((tile, tile), lambda i, j: (j, i)),
            interpret=interpret,
        )(x)

    function = jax.custom_vjp(call)
    function.defvjp(lambda x: (call(x), None), lambda _, d: (call(d),))
    return function


def inputs_of(*makers):
    return lambda rng: tuple(make(rng) for make in makers)


KERNELS["product_by_tiles"] = Kernel(
    lambda x, y: x @ y, product_by_tiles, inputs_of(normal(128, 256), normal(256, 128)), IN_ORDER
)
KERNELS["running_sum"] = Kernel(
    lambda x: jnp.cumsum(x, 0), running_sum, inputs_of(normal(32, COLUMNS)), IN_ORDER
)
KERNELS["transposition"] = Kernel(lambda x: x.T, transposition, inputs_of(normal(256, 128)))
