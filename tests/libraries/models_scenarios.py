"""Gaussian processes of gpjax, and networks of penzai."""

import gpjax as gpx
import numpy as np
import optax
from op_cases import Programs
from penzai import pz
from penzai.models import simple_mlp

import jax
import jax.numpy as jnp

CASES = Programs()
scenario = CASES.define


def sine():
    x = np.linspace(-2, 2, 12)[:, None]
    return gpx.Dataset(X=jnp.asarray(x), y=jnp.asarray(np.sin(2 * x) + 0.1 * np.cos(9 * x)))


@scenario(tol=1e-4, x64=True)
def gpjax_regression():
    data = sine()
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Constant(), kernel=gpx.kernels.RBF())
    posterior = prior * gpx.likelihoods.Gaussian()
    value = gpx.objectives.conjugate_mll(posterior, data)
    fitted, history = gpx.fit(
        model=posterior,
        objective=lambda p, d: -gpx.objectives.conjugate_mll(p, d),
        train_data=data,
        optim=optax.adam(0.05),
        num_iters=10,
        key=jax.random.key(0),
        verbose=False,
    )
    x = jnp.linspace(-1, 1, 4)[:, None]
    predicted = fitted.condition(data).predict(x)
    return value, history, predicted.mean, predicted.variance


@scenario(x64=True)
def gpjax_kernels():
    x = jnp.asarray(np.random.RandomState(0).randn(4, 2))
    kernels = [
        gpx.kernels.Matern32(),
        gpx.kernels.Matern52(),
        gpx.kernels.RationalQuadratic(),
        gpx.kernels.Periodic(),
        gpx.kernels.Linear(),
    ]
    return [k.gram(x).to_dense() if hasattr(k.gram(x), "to_dense") else k.gram(x) for k in kernels]


@scenario
def penzai_network():
    network = simple_mlp.MLP.from_config(
        name="mlp", init_base_rng=jax.random.key(0), feature_sizes=[3, 8, 2]
    )
    x = pz.nx.wrap(np.random.RandomState(0).randn(4, 3).astype(np.float32)).tag("batch", "features")
    return network(x).unwrap("batch", "features")


@scenario
def penzai_named_arrays():
    a = pz.nx.wrap(np.arange(6.0, dtype=np.float32).reshape(2, 3)).tag("row", "column")
    b = pz.nx.wrap(np.arange(3.0, dtype=np.float32)).tag("column")
    total = pz.nx.nmap(jnp.sum)(a.untag("column"))
    return (
        (a * b + 1).unwrap("column", "row"),
        total.unwrap("row"),
        jax.jit(lambda a: pz.nx.nmap(jnp.sin)(a) * 2)(a.untag("row").tag("line")).unwrap(
            "line", "column"
        ),
    )


@scenario
def penzai_training():
    network = simple_mlp.MLP.from_config(
        name="mlp", init_base_rng=jax.random.key(1), feature_sizes=[2, 4, 1]
    )
    x = np.random.RandomState(1).randn(6, 2).astype(np.float32)

    def loss(network):
        out = network(pz.nx.wrap(x).tag("batch", "features")).unwrap("batch", "features")
        return jnp.mean((out[:, 0] - x[:, 0]) ** 2)

    (unbound, variables) = pz.unbind_params(network, freeze=True)
    of_variables = lambda v: loss(pz.bind_variables(unbound, v))
    value, grads = jax.jit(jax.value_and_grad(of_variables))(variables)
    return value, grads


@scenario
def penzai_selectors():
    network = simple_mlp.MLP.from_config(
        name="mlp", init_base_rng=jax.random.key(0), feature_sizes=[3, 4, 2]
    )
    found = pz.select(network).at_instances_of(pz.nn.Affine)
    doubled = pz.select(network).at_instances_of(pz.nn.Elementwise).remove_from_parent()
    x = pz.nx.wrap(np.ones(3, np.float32)).tag("features")
    return found.count(), doubled(x).unwrap("features")
