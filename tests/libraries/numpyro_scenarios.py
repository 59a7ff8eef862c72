"""Models of numpyro: sampling, variational inference, prediction, distributions."""

import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.distributions import transforms
from numpyro.infer import (
    HMC,
    MCMC,
    NUTS,
    SVI,
    Predictive,
    Trace_ELBO,
    TraceMeanField_ELBO,
    autoguide,
    init_to_median,
    log_likelihood,
)
from numpyro.infer.reparam import LocScaleReparam
from op_cases import Programs

import jax
import jax.numpy as jnp

CASES = Programs()
scenario = CASES.define


def observations(seed=0):
    rng = np.random.RandomState(seed)
    x = rng.randn(20, 2).astype(np.float32)
    return x, (x @ [1.5, -0.7] + 0.3 * rng.randn(20)).astype(np.float32)


def regression(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([2]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("data", len(x)):
        return numpyro.sample("y", dist.Normal(x @ weights, noise), obs=y)


def sample(kernel, *args, **options):
    mcmc = MCMC(kernel, num_warmup=12, num_samples=8, progress_bar=False, **options)
    mcmc.run(jax.random.key(0), *args)
    return mcmc


@scenario(tol=1e-3)
def nuts_regression():
    x, y = observations()
    mcmc = sample(NUTS(regression), x, y)
    draws = mcmc.get_samples()
    predicted = Predictive(regression, draws)(jax.random.key(1), x[:3])
    return draws, predicted, log_likelihood(regression, draws, x, y)


def schools(sigma, y):
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(y)):
        effect = numpyro.sample("effect", dist.Normal(mean, spread))
        numpyro.sample("y", dist.Normal(effect, sigma), obs=y)


@scenario(tol=1e-3)
def nuts_of_chains_without_centers():
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)
    model = handlers.reparam(schools, config={"effect": LocScaleReparam(0)})
    kernel = NUTS(model, init_strategy=init_to_median, dense_mass=True)
    mcmc = sample(kernel, sigma, y, num_chains=2, chain_method="vectorized")
    return mcmc.get_samples(group_by_chain=True)


@scenario(tol=1e-3)
def hmc_of_a_potential():
    potential = lambda z: 0.5 * jnp.sum(z["x"] ** 2 * jnp.arange(1.0, 4.0))
    kernel = HMC(potential_fn=potential, step_size=0.2, num_steps=5)
    mcmc = MCMC(kernel, num_warmup=10, num_samples=10, progress_bar=False)
    mcmc.run(jax.random.key(2), init_params={"x": jnp.ones(3)})
    return mcmc.get_samples()


@scenario
def svi_with_guides():
    x, y = observations()
    out = {}
    for name, guide in {
        "diagonal": autoguide.AutoNormal(regression),
        "full": autoguide.AutoMultivariateNormal(regression),
        "laplace": autoguide.AutoLaplaceApproximation(regression),
        "delta": autoguide.AutoDelta(regression),
    }.items():
        svi = SVI(regression, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
        result = svi.run(jax.random.key(3), 15, x, y, progress_bar=False)
        draws = guide.sample_posterior(jax.random.key(4), result.params, sample_shape=(3,))
        out[name] = result.losses, result.params, draws
    return out


@scenario
def svi_with_a_guide_of_ones_own():
    def guide(x, y=None):
        loc = numpyro.param("loc", jnp.zeros(2))
        scale = numpyro.param("scale", jnp.ones(2), constraint=dist.constraints.positive)
        numpyro.sample("weights", dist.Normal(loc, scale).to_event(1))
        rate = numpyro.param("rate", 1.0, constraint=dist.constraints.interval(0.1, 9.0))
        numpyro.sample("noise", dist.LogNormal(jnp.log(rate), 0.1))

    x, y = observations(1)
    optimizer = numpyro.optim.ClippedAdam(0.05)
    svi = SVI(regression, guide, optimizer, TraceMeanField_ELBO(num_particles=3))
    state = svi.init(jax.random.key(5), x, y)
    losses = []
    for _ in range(4):
        state, loss = jax.jit(svi.update)(state, x, y)
        losses.append(loss)
    return losses, svi.get_params(state), svi.evaluate(state, x, y)


@scenario
def time_series_and_handlers():
    def walk(y):
        drift = numpyro.sample("drift", dist.Normal(0, 1))

        def step(level, observed):
            level = numpyro.sample("level", dist.Normal(level + drift, 0.5))
            numpyro.sample("y", dist.StudentT(3, level, 0.2), obs=observed)
            return level, level

        return scan(step, 0.0, y)[1]

    y = np.cumsum(np.random.RandomState(2).randn(6)).astype(np.float32)
    seeded = handlers.seed(walk, jax.random.key(6))
    trace = handlers.trace(handlers.condition(seeded, {"drift": jnp.array(0.1)})).get_trace(y)
    values = {name: site["value"] for name, site in trace.items()}
    density = lambda drift: numpyro.infer.util.log_density(
        walk, (y,), {}, {"drift": drift, "level": values["level"]}
    )[0]
    return values, jax.value_and_grad(density)(0.2)


DISTRIBUTIONS = {
    "beta": dist.Beta(2.0, 3.0),
    "gamma": dist.Gamma(jnp.array([0.5, 4.0]), 2.0),
    "dirichlet": dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])),
    "student": dist.StudentT(3.0, 1.0, 2.0),
    "von_mises": dist.VonMises(0.5, 2.0),
    "multivariate": dist.MultivariateNormal(jnp.zeros(2), jnp.array([[2.0, 0.3], [0.3, 1.0]])),
    "low_rank": dist.LowRankMultivariateNormal(jnp.zeros(3), jnp.ones((3, 1)), jnp.ones(3)),
    "lkj": dist.LKJCholesky(3, 2.0),
    "poisson": dist.Poisson(4.0),
    "binomial": dist.Binomial(10, 0.3),
    "categorical": dist.Categorical(logits=jnp.array([0.1, 1.0, -1.0])),
    "negative_binomial": dist.NegativeBinomial2(3.0, 2.0),
    "mixture": dist.MixtureSameFamily(
        dist.Categorical(probs=jnp.array([0.3, 0.7])), dist.Normal(jnp.array([-1.0, 2.0]), 0.5)
    ),
    "transformed": dist.TransformedDistribution(
        dist.Normal(0, 1), [transforms.AffineTransform(1, 2), transforms.ExpTransform()]
    ),
    "truncated": dist.TruncatedNormal(0.0, 1.0, low=-0.5, high=2.0),
    "inflated": dist.ZeroInflatedPoisson(0.3, 2.0),
}


@scenario
def samples_and_densities():
    out = {}
    for i, (name, d) in enumerate(DISTRIBUTIONS.items()):
        draws = d.sample(jax.random.key(i), (4,))
        out[name] = draws, d.log_prob(draws)
    kl = dist.kl_divergence(dist.Normal(0.0, 1.0), dist.Normal(1.0, 2.0))
    return out, kl
