"""Parts of libraries that the other programs do not use: layers, wrappers, optimizers, samplers, adjoints."""

import diffrax
import equinox as eqx
import flax.linen as nn
import haiku as hk
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from flax import nnx
from numpyro.infer import MCMC, NUTS, DiscreteHMCGibbs
from op_cases import Programs

import jax
import jax.numpy as jnp

CASES = Programs()
scenario = CASES.define
KEY = jax.random.key(0)


def image(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


@scenario
def linen_layers():
    x, out = image(2, 4, 4, 3), []
    for layer in (
        nn.GroupNorm(num_groups=3),
        nn.WeightNorm(nn.Dense(2)),
        nn.ConvTranspose(2, (3, 3), strides=(2, 2)),
        nn.DenseGeneral((2, 3), axis=(-1, -2)),
    ):
        params = layer.init(KEY, x)
        out.append((params, jax.jit(layer.apply)(params, x)))
    layer = nn.SpectralNorm(nn.Dense(2))
    params = layer.init(KEY, x, update_stats=False)
    out.append(layer.apply(params, x, update_stats=True, mutable=["batch_stats"]))
    return out


class Repeated(nn.Module):
    @nn.compact
    def __call__(self, x):
        rotation = self.param("rotation", nn.initializers.orthogonal(), (3, 3))
        small = lambda module, x: jnp.sum(jnp.abs(x)) < 100
        x = nn.while_loop(
            small, lambda module, x: x * 2, self, x @ rotation,
            carry_variables=[], broadcast_variables="params",
        )  # fmt: skip
        dense = lambda module, x: nn.Dense(2)(x)
        x = nn.cond(x.sum() > 0, dense, lambda module, x: -nn.Dense(2)(x), self, x)
        self.sow("intermediates", "result", x)
        return x


@scenario
def linen_control_flow():
    model, x = Repeated(), image(2, 3, seed=1)
    params = {"params": model.init(KEY, x)["params"]}
    out, sown = model.apply(params, x, mutable=["intermediates"])
    return params, out, sown, jax.jvp(lambda p: model.apply(p, x), (params,), (params,))


@scenario
def nnx_low_rank_adapters():
    layer, x = nnx.LoRALinear(4, 5, lora_rank=2, rngs=nnx.Rngs(0)), image(3, 4, seed=2)
    only_adapters = nnx.DiffState(0, nnx.LoRAParam)
    loss = lambda layer: jnp.sum(nnx.remat(lambda layer, x: layer(x))(layer, x) ** 2)
    grads = nnx.jit(nnx.grad(loss, argnums=only_adapters))(layer)
    chosen = nnx.cond(x.sum() > 0, lambda m, x: m(x), lambda m, x: 2 * m(x), layer, x)
    recurrent = nnx.RNN(nnx.GRUCell(4, 3, rngs=nnx.Rngs(1)))(x[None])
    return nnx.to_pure_dict(grads), chosen, recurrent


@scenario
def equinox_layers():
    x, out = image(3, 6, 6, seed=3), []
    for layer in (
        eqx.nn.ConvTranspose2d(3, 2, 3, stride=2, key=KEY),
        eqx.nn.AdaptiveAvgPool2d((3, 5)),
        eqx.nn.GroupNorm(3, 3),
        eqx.nn.WeightNorm(eqx.nn.Conv2d(3, 2, 3, key=KEY)),
        eqx.nn.PReLU(),
    ):
        out.append(eqx.filter_jit(layer)(x))
    out.append(eqx.nn.RotaryPositionalEmbedding(4)(jnp.ones((5, 4))))
    norm, state = eqx.nn.make_with_state(eqx.nn.SpectralNorm)(
        eqx.nn.Linear(3, 4, key=KEY), weight_name="weight", key=KEY
    )
    out.append(norm(jnp.ones(3), state)[0])
    converted = eqx.filter_closure_convert(lambda v: jnp.sin(v) * x[0, 0, :3], jnp.ones(3))
    return out, converted(jnp.ones(3))


@scenario
def haiku_layers():
    def network(x):
        y = hk.GroupNorm(2)(hk.Conv2D(4, 3)(x))
        y = hk.DepthwiseConv2D(2, 3)(hk.Conv2DTranspose(3, 3, stride=2)(y))
        tokens = hk.Embed(7, 3)(jnp.arange(4))
        codes = hk.nets.VectorQuantizer(3, 5, 0.2)(tokens, is_training=False)["quantize"]
        return hk.max_pool(y, (2, 2, 1), (2, 2, 1), "SAME"), codes

    x = image(2, 4, 4, 3, seed=4)
    model = hk.transform_with_state(network)
    params, state = model.init(jax.random.PRNGKey(0), x)
    return params, jax.jit(model.apply)(params, state, None, x)[0]


@scenario
def optax_wrappers_and_line_search():
    params = jnp.ones(3)
    loss = lambda x: jnp.sum(jnp.array([1.0, 5.0, 2.0]) * (x - jnp.arange(3.0)) ** 2)
    out = []
    for optimizer in (
        optax.chain(optax.sgd(1.0), optax.scale_by_zoom_linesearch(10)),
        optax.chain(optax.adaptive_grad_clip(0.1), optax.contrib.dadapt_adamw(1.0)),
        optax.apply_if_finite(optax.contrib.ademamix(0.1), 3),
        optax.chain(optax.rprop(0.1), optax.ema(0.9)),
    ):
        optimizer, x = optax.with_extra_args_support(optimizer), params
        state = optimizer.init(x)
        for _ in range(3):
            value, grads = jax.value_and_grad(loss)(x)
            updates, state = optimizer.update(
                grads, state, x, value=value, grad=grads, value_fn=loss
            )
            x = optax.apply_updates(x, updates)
        out.append(x)
    return out


@scenario(tol=1e-3)
def numpyro_discrete_gibbs():
    def model(y):
        shifted = numpyro.sample("shifted", dist.Bernoulli(0.4))
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mean + shifted, 1.0), obs=y)

    sampler = MCMC(DiscreteHMCGibbs(NUTS(model)), num_warmup=10, num_samples=5, progress_bar=False)
    sampler.run(jax.random.PRNGKey(0), image(8, seed=5))
    return sampler.get_samples()


@scenario
def diffrax_adjoints_and_interpolation():
    decay = diffrax.ODETerm(lambda t, y, rate: -rate * y)

    def solve(rate, **options):
        return diffrax.diffeqsolve(
            decay, diffrax.Tsit5(), 0.0, 1.0, 0.1, jnp.ones(2), args=rate, **options
        )

    backsolve = lambda rate: solve(rate, adjoint=diffrax.BacksolveAdjoint()).ys.sum()
    forward = lambda rate: solve(rate, adjoint=diffrax.ForwardMode()).ys.sum()
    dense = solve(2.0, saveat=diffrax.SaveAt(dense=True))
    ts = jnp.linspace(0, 1, 5)
    spline = diffrax.CubicInterpolation(ts, diffrax.backward_hermite_coefficients(ts, jnp.cos(ts)))
    return (
        jax.grad(backsolve)(2.0),
        jax.jvp(forward, (2.0,), (1.0,)),
        (dense.evaluate(0.77), dense.derivative(0.3)),
        (spline.evaluate(0.3), spline.derivative(0.3)),
    )
