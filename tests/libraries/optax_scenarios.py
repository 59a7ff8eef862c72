"""Optimizers, schedules and losses of optax."""

import numpy as np
import optax
from op_cases import Programs

import jax
import jax.numpy as jnp

CASES = Programs()
scenario = CASES.define


def start():
    rng = np.random.RandomState(0)
    return {"w": rng.randn(4, 3).astype(np.float32), "b": rng.randn(3).astype(np.float32)}


def valley(params):
    scales = jnp.arange(1.0, 13.0).reshape(4, 3)
    return jnp.sum(scales * params["w"] ** 2) + jnp.sum(jnp.cosh(params["b"] - 0.5))


def descend(optimizer, steps=5, params=None):
    params = start() if params is None else params
    state = optimizer.init(params)

    def step(carry, _):
        params, state = carry
        value, grads = jax.value_and_grad(valley)(params)
        updates, state = optimizer.update(grads, state, params)
        return (optax.apply_updates(params, updates), state), value

    (params, _), values = jax.jit(lambda c: jax.lax.scan(step, c, length=steps))((params, state))
    return params, values


OPTIMIZERS = {
    "adam": optax.adam(0.1),
    "adamw_nesterov": optax.adamw(0.1, weight_decay=0.01, nesterov=True),
    "adafactor": optax.adafactor(0.1, min_dim_size_to_factor=2),
    "adabelief": optax.adabelief(0.1),
    "lion": optax.lion(0.01),
    "lamb": optax.lamb(0.1),
    "rmsprop": optax.rmsprop(0.01, centered=True, momentum=0.9),
    "sgd": optax.sgd(optax.exponential_decay(0.05, 2, 0.5), momentum=0.9, nesterov=True),
    "yogi": optax.yogi(0.1),
    "novograd": optax.novograd(0.1),
    "sm3": optax.sm3(0.1),
    "adan": optax.adan(0.1),
    "muon": optax.contrib.muon(0.05),
    "prodigy": optax.contrib.prodigy(),
    "schedule_free": optax.contrib.schedule_free_adamw(0.1, warmup_steps=2),
}


@scenario
def optimizers():
    return {name: descend(optimizer) for name, optimizer in OPTIMIZERS.items()}


@scenario
def schedules():
    made = [
        optax.warmup_cosine_decay_schedule(0.0, 1.0, 5, 20, 0.1),
        optax.piecewise_constant_schedule(1.0, {4: 0.5, 9: 0.1}),
        optax.polynomial_schedule(1.0, 0.1, power=2, transition_steps=15, transition_begin=3),
        optax.cosine_onecycle_schedule(20, 0.5),
        optax.sgdr_schedule(
            [dict(init_value=0.0, peak_value=1.0, decay_steps=9, warmup_steps=2, end_value=0.1)] * 2
        ),
        optax.join_schedules(
            [optax.linear_schedule(0, 1, 5), optax.exponential_decay(1, 3, 0.8)], [5]
        ),
    ]
    steps = jnp.arange(22)
    return [jnp.stack([jnp.asarray(s(i), jnp.float32) for i in steps]) for s in made], [
        jax.jit(jax.vmap(s))(steps) for s in made
    ]


@scenario
def chains_of_transformations():
    labels = {"w": "matrix", "b": "vector"}
    parts = optax.multi_transform({"matrix": optax.adam(0.1), "vector": optax.sgd(0.01)}, labels)
    masked = optax.masked(optax.add_decayed_weights(0.1), {"w": True, "b": False})
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.zero_nans(), masked, parts)
    return descend(optimizer), descend(optax.MultiSteps(optimizer, every_k_schedule=2), steps=6)


@scenario
def injected_hyperparameters():
    optimizer = optax.inject_hyperparams(optax.adamw)(
        learning_rate=optax.linear_schedule(0.1, 0, 9)
    )
    params = start()
    state, rates = optimizer.init(params), []
    for _ in range(3):
        grads = jax.grad(valley)(params)
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        rates.append(state.hyperparams["learning_rate"])
    state.hyperparams["weight_decay"] = jnp.asarray(0.5)
    return params, rates, optimizer.update(jax.grad(valley)(params), state, params)[0]


@scenario
def lbfgs_with_line_search():
    solver = optax.lbfgs(memory_size=4)
    params = start()
    state = solver.init(params)
    value_and_grad = optax.value_and_grad_from_state(valley)

    @jax.jit
    def step(params, state):
        value, grad = value_and_grad(params, state=state)
        updates, state = solver.update(grad, state, params, value=value, grad=grad, value_fn=valley)
        return optax.apply_updates(params, updates), state, value

    values = []
    for _ in range(4):
        params, state, value = step(params, state)
        values.append(value)
    return params, values


@scenario
def losses():
    rng = np.random.RandomState(1)
    logits, targets = rng.randn(2, 6, 5).astype(np.float32)
    labels = np.array([0, 4, 1, 2, 2, 3])
    probabilities = jax.nn.softmax(targets)
    paddings = np.zeros((6, 5), np.float32)
    funs = {
        "cross_entropy": lambda x: optax.softmax_cross_entropy(x, probabilities),
        "integer_labels": lambda x: optax.softmax_cross_entropy_with_integer_labels(x, labels),
        "sigmoid": lambda x: optax.sigmoid_binary_cross_entropy(x, probabilities),
        "focal": lambda x: optax.sigmoid_focal_loss(x, probabilities, alpha=0.3),
        "huber": lambda x: optax.huber_loss(x, targets),
        "log_cosh": lambda x: optax.log_cosh(x, targets),
        "cosine": lambda x: optax.cosine_distance(x, targets),
        "kl": lambda x: optax.kl_divergence(jax.nn.log_softmax(x), probabilities),
        "hinge": lambda x: optax.hinge_loss(x, np.sign(targets)),
        "ctc": lambda x: optax.ctc_loss(
            x[None], paddings[None, :, 0], labels[None, :2], np.zeros((1, 2), np.float32)
        ),
    }
    sums = lambda f: lambda x: f(x).sum()
    return {name: (f(logits), jax.grad(sums(f))(logits)) for name, f in funs.items()}


@scenario
def projections_and_perturbations():
    x = np.random.RandomState(2).randn(7).astype(np.float32)
    projections = [
        optax.projections.projection_simplex(x),
        optax.projections.projection_l1_ball(x, 2.0),
        optax.projections.projection_l2_sphere(x),
        optax.projections.projection_hypercube(x),
    ]
    ranks = optax.perturbations.make_perturbed_fun(
        lambda v: jax.nn.one_hot(jnp.argmax(v), 7), num_samples=20, sigma=0.5
    )
    grad = jax.grad(lambda v: ranks(jax.random.key(0), v)[2])(x)
    return projections, ranks(jax.random.key(0), x), grad
