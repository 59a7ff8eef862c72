"""Networks of haiku, agents' losses of rlax, graphs of jraph, distributions of distrax, checks of chex."""

import chex
import distrax
import haiku as hk
import jraph
import numpy as np
import optax
import rlax
from op_cases import Programs

import jax
import jax.numpy as jnp

CASES = Programs()
scenario = CASES.define


def rows(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


# haiku


@scenario
def haiku_network_with_statistics():
    def network(x, training):
        x = hk.nets.MLP([6, 4], activation=jnp.tanh, activate_final=True)(x)
        x = hk.BatchNorm(True, True, 0.9)(x, training)
        if training:
            x = hk.dropout(hk.next_rng_key(), 0.2, x)
        return hk.Linear(2, w_init=hk.initializers.Orthogonal())(x)

    model = hk.transform_with_state(network)
    x = rows(8, 3)
    params, state = model.init(jax.random.key(0), x, True)
    optimizer = optax.sgd(0.1)
    opt_state = optimizer.init(params)

    def loss(params, state, key):
        out, state = model.apply(params, state, key, x, True)
        return jnp.mean((out - x[:, :2]) ** 2), state

    @jax.jit
    def step(params, state, opt_state, key):
        (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params, state, key)
        updates, opt_state = optimizer.update(grads, opt_state)
        return optax.apply_updates(params, updates), state, opt_state, value

    losses = []
    for key in jax.random.split(jax.random.key(1), 3):
        params, state, opt_state, value = step(params, state, opt_state, key)
        losses.append(value)
    return losses, params, state, model.apply(params, state, None, x, False)[0]


@scenario
def haiku_recurrent_network():
    def network(xs):
        core = hk.DeepRNN([hk.LSTM(4), jax.nn.relu, hk.Linear(2)])
        return hk.dynamic_unroll(core, xs, core.initial_state(xs.shape[1]))

    model = hk.without_apply_rng(hk.transform(network))
    xs = rows(5, 2, 3)
    params = model.init(jax.random.key(2), xs)
    loss = lambda p: jnp.sum(model.apply(p, xs)[0] ** 2)
    return jax.jit(jax.value_and_grad(loss))(params)


@scenario
def haiku_layers_and_lifted_transformations():
    def network(x):
        block = lambda v: v + jax.nn.silu(hk.Linear(4)(hk.LayerNorm(-1, True, True)(v)))
        deep = hk.experimental.layer_stack(3)(block)(x)
        attended = hk.MultiHeadAttention(2, 2, w_init=hk.initializers.VarianceScaling(1.0))(
            deep, deep, deep
        )
        again = hk.remat(hk.Linear(3, name="last"))(attended)
        return hk.vmap(lambda v: hk.get_parameter("bias", [3], init=jnp.ones) * v, split_rng=False)(
            again
        )

    model = hk.transform(network)
    x = rows(5, 4)
    params = model.init(jax.random.key(3), x)
    shapes = jax.tree.map(lambda p: str(p.shape), params)
    return model.apply(params, None, x), shapes


@scenario
def haiku_table_and_averages():
    """The table is made while `jit` is disabled."""

    def network(x):
        x = jax.nn.relu(hk.Conv2D(4, 3)(x))
        hk.ExponentialMovingAverage(0.9)(x.mean())
        x = hk.dropout(hk.next_rng_key(), 0.3, x)
        return hk.nets.MLP([8, 3])(hk.Flatten()(x))

    model, x = hk.transform_with_state(network), rows(2, 5, 5, 2)
    params, state = model.init(jax.random.key(0), x)
    table = hk.experimental.tabulate(model)(x).splitlines()
    remembered = hk.transform(lambda x: hk.remat(lambda z: jnp.sin(hk.Linear(4)(z)))(x).sum())
    weights = remembered.init(jax.random.key(1), x[0, 0])
    gradients = jax.grad(remembered.apply)(weights, None, x[0, 0])
    return model.apply(params, state, jax.random.key(2), x), [len(r) for r in table], gradients


# rlax


@scenario
def rlax_losses():
    q, next_q = rows(2, 6, 4, seed=1)
    actions, rewards = np.array([0, 1, 2, 3, 0, 1]), rows(6, seed=2)
    discounts = np.array([0.9, 0.9, 0.0, 0.9, 0.9, 0.5], np.float32)
    values = rows(7, seed=3)

    def of_q(q):
        td = jax.vmap(rlax.q_learning)(q, actions, rewards, discounts, next_q)
        double = jax.vmap(rlax.double_q_learning)(q, actions, rewards, discounts, next_q, q)
        sarsa = jax.vmap(rlax.sarsa)(q, actions, rewards, discounts, next_q, actions)
        return jnp.mean(rlax.l2_loss(td) + rlax.huber_loss(double) + sarsa**2)

    def of_policy(logits):
        advantages = rlax.truncated_generalized_advantage_estimation(
            rewards, discounts, 0.9, values
        )
        gradient = rlax.policy_gradient_loss(logits, actions, advantages, jnp.ones(6))
        return gradient + 0.1 * rlax.entropy_loss(logits, jnp.ones(6))

    returns = rlax.lambda_returns(rewards, discounts, values[1:], 0.8)
    corrected = rlax.vtrace(values[:-1], values[1:], rewards, discounts, jnp.exp(rewards), 0.9)
    return (
        jax.jit(jax.value_and_grad(of_q))(q),
        jax.jit(jax.value_and_grad(of_policy))(q),
        returns,
        corrected,
    )


@scenario
def rlax_agent():
    """Q-learning of a walk to the right end of a line."""
    places, epsilon = 5, 0.2

    def act(table, place, key):
        return rlax.epsilon_greedy(epsilon).sample(key, table[place])

    def step(carry, key):
        table, place = carry
        action = act(table, place, key)
        reached = jnp.clip(place + 2 * action - 1, 0, places - 1)
        reward = (reached == places - 1).astype(jnp.float32)
        error = rlax.q_learning(table[place], action, reward, 0.9 * (1 - reward), table[reached])
        table = table.at[place, action].add(0.5 * error)
        return (table, jnp.where(reward > 0, 0, reached)), reward

    start = jnp.zeros((places, 2)), jnp.array(0)
    (table, _), rewards = jax.lax.scan(step, start, jax.random.split(jax.random.key(4), 60))
    return table, rewards


# jraph


@scenario
def jraph_message_passing():
    graphs = [
        jraph.GraphsTuple(
            nodes=rows(n, 3, seed=n),
            edges=rows(n, 2, seed=n + 1),
            senders=np.arange(n),
            receivers=(np.arange(n) + 1) % n,
            n_node=np.array([n]),
            n_edge=np.array([n]),
            globals=rows(1, 2, seed=n + 2),
        )
        for n in (3, 4)
    ]
    batch = jraph.pad_with_graphs(jraph.batch(graphs), n_node=10, n_edge=12, n_graph=4)
    weights = {"e": rows(10, 2, seed=5), "n": rows(9, 3, seed=6), "g": rows(7, 2, seed=7)}

    def run(weights):
        concatenated = lambda w: jraph.concatenated_args(lambda x: jnp.tanh(x @ w))
        network = jraph.GraphNetwork(
            update_edge_fn=concatenated(weights["e"]),
            update_node_fn=concatenated(weights["n"]),
            update_global_fn=concatenated(weights["g"]),
        )
        out = network(batch)
        mask = jraph.get_graph_padding_mask(batch)
        return jnp.sum(jnp.where(mask[:, None], out.globals**2, 0)), out

    (value, out), grads = jax.jit(jax.value_and_grad(run, has_aux=True))(weights)
    parts = jraph.unbatch(jraph.unpad_with_graphs(jax.tree.map(np.asarray, out)))
    return value, grads, [p.nodes for p in parts]


@scenario
def jraph_graph_attention():
    senders, receivers = np.array([0, 1, 2, 2, 3]), np.array([1, 2, 0, 3, 3])
    logits = rows(5, seed=8)
    softmax = jraph.segment_softmax(logits, receivers, 4)
    convolution = jraph.GraphConvolution(lambda x: x @ rows(3, 2, seed=9), add_self_edges=True)
    graph = jraph.GraphsTuple(
        rows(4, 3), None, receivers, senders, None, np.array([4]), np.array([5])
    )
    statistics = [
        jraph.segment_mean(logits, receivers, 4),
        jraph.segment_variance(logits, receivers, 4),
        jraph.segment_max_or_constant(logits, receivers, 4),
        jraph.segment_normalize(logits, receivers, 4),
    ]
    return softmax, convolution(graph).nodes, statistics


# distrax


@scenario
def distrax_distributions():
    key = jax.random.key(5)
    made = {
        "normal": distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.array([1.0, 2.0])),
        "gamma": distrax.Gamma(2.0, 3.0),
        "categorical": distrax.Categorical(logits=jnp.array([0.0, 1.0, 2.0])),
        "mixture": distrax.MixtureSameFamily(
            distrax.Categorical(probs=jnp.array([0.4, 0.6])),
            distrax.Normal(jnp.array([-2.0, 1.0]), jnp.array([0.5, 1.0])),
        ),
        "squashed": distrax.Transformed(distrax.Normal(0.0, 1.0), distrax.Tanh()),
        "independent": distrax.Independent(distrax.Laplace(jnp.zeros(3), 1.0), 1),
    }
    out = {name: d.sample_and_log_prob(seed=key, sample_shape=4) for name, d in made.items()}
    entropies = [made[n].entropy() for n in ("normal", "categorical")]
    kl = distrax.Normal(0.0, 1.0).kl_divergence(distrax.Normal(1.0, 2.0))
    return out, entropies, kl


@scenario
def distrax_flow():
    mask = np.array([True, False, True])
    x = rows(4, 3, seed=10)

    def density(weights):
        conditioner = lambda v: (v @ weights).reshape(*v.shape, 7)
        spline = lambda p: distrax.RationalQuadraticSpline(p, -3.0, 3.0)
        layers = [distrax.MaskedCoupling(mask, conditioner, spline)]
        layers.append(distrax.MaskedCoupling(~mask, conditioner, spline))
        base = distrax.MultivariateNormalDiag(jnp.zeros(3), jnp.ones(3))
        flow = distrax.Transformed(base, distrax.Inverse(distrax.Chain(layers)))
        return flow.log_prob(x).mean()

    return jax.jit(jax.value_and_grad(density))(rows(3, 21, seed=11))


@scenario
def distrax_hidden_markov_model():
    model = distrax.HMM(
        init_dist=distrax.Categorical(probs=jnp.array([0.6, 0.4])),
        trans_dist=distrax.Categorical(probs=jnp.array([[0.7, 0.3], [0.2, 0.8]])),
        obs_dist=distrax.Normal(jnp.array([-1.0, 1.0]), jnp.array([0.5, 0.7])),
    )
    states, observed = model.sample(seed=jax.random.key(6), seq_len=6)
    return states, observed, model.forward_backward(observed), model.viterbi(observed)


# chex


@chex.dataclass(frozen=True)
class Particles:
    place: chex.Array
    speed: chex.Array

    def moved(self, time):
        return self.replace(place=self.place + time * self.speed)


@scenario
def chex_dataclasses_and_assertions():
    particles = Particles(place=jnp.zeros((2, 3)), speed=jnp.asarray(rows(2, 3, seed=12)))
    moved = jax.jit(lambda p: p.moved(0.5))(particles)
    chex.assert_tree_all_finite(moved)
    chex.assert_trees_all_equal_shapes_and_dtypes(moved, particles)
    stacked = jax.vmap(lambda p: p.moved(1.0))(particles)
    counted = jax.jit(chex.assert_max_traces(lambda x: x + 1, n=1))
    caught = []
    for check in (
        lambda: chex.assert_shape(moved.place, (3, 2)),
        lambda: chex.assert_trees_all_close(moved, particles),
        lambda: [counted(jnp.ones(n)) for n in (1, 2)],
    ):
        try:
            check()
        except AssertionError:
            caught.append(True)
    return moved, stacked, caught


@scenario
def chex_assertions_on_values():
    @chex.chexify
    @jax.jit
    def logarithm(x):
        chex.assert_tree_all_finite(x)
        chex.assert_scalar_positive(1)
        return jnp.log(x)

    out = logarithm(jnp.array([1.0, 2.0]))
    logarithm.wait_checks()
    try:
        logarithm(jnp.array([1.0, jnp.nan]))
        logarithm.wait_checks()
    except AssertionError:
        return out, "caught"
