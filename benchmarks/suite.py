"""The benchmarks, and the mark that each ratio ours/oracle should not exceed.

One process runs this file with this checkout's jax, another one with PyPI's, so nothing here may
depend on which jax it is. A timed benchmark is a function that prepares data and returns the call
to be timed. A measured benchmark returns a number. To add one, define it here; with `mark=None` its
ratio is shown but not judged. A benchmark with `numpy` is compared with NumPy, which the other
process runs instead of PyPI's jax.
"""

import dataclasses
import gc
import resource
from collections.abc import Callable
from typing import Any

import numpy as np

import jax
import jax.numpy as jnp
from jax import lax


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """One row of the table.

    Attributes:
      name: what is timed or measured.
      group: the group that it is listed under.
      mark: the greatest acceptable ratio ours/oracle, or None.
      unit: "s" for a time, or the unit of the number that `make` returns.
      make: prepares data, and returns the call to be timed (or the number).
      numpy: for a comparison with NumPy, prepares NumPy's fastest equivalent and returns that call.
    """

    name: str
    group: str
    mark: float | None
    unit: str
    make: Callable[[], Any]
    numpy: Callable[[], Any] | None = None

    @property
    def beside(self) -> str:
        """The other side of the comparison: "oracle" or "NumPy"."""
        return "oracle" if self.numpy is None else "NumPy"


BENCHMARKS: dict[str, Benchmark] = {}


def timed(group: str, name: str, mark: float | None = None):
    def register(make):
        BENCHMARKS[name] = Benchmark(name, group, mark, "s", make)
        return make

    return register


def measured(group: str, name: str, unit: str, mark: float | None = None):
    def register(make):
        BENCHMARKS[name] = Benchmark(name, group, mark, unit, make)
        return make

    return register


# Dispatch of a compiled function


@timed("dispatch", "jit call, one array", mark=1.1)
def jit_one_array():
    x = jnp.arange(8.0)
    f = jax.jit(lambda x: x + 1)
    return lambda: f(x)


@timed("dispatch", "jit call, tree of 13 leaves", mark=1.1)
def jit_tree():
    layers = [{"w": jnp.ones((4, 4)) * i, "b": jnp.ones(4) * i} for i in range(6)]
    tree = {"layers": layers, "scale": jnp.float32(2)}
    f = jax.jit(lambda tree: jax.tree.map(lambda x: x + 1, tree))
    return lambda: f(tree)


# Eager operations on small arrays, where Python takes nearly all of the time


def matrix():
    return jnp.asarray(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8))


@timed("eager", "x + x", mark=1.05)
def eager_add():
    x = matrix()
    return lambda: x + x


@timed("eager", "jnp.sin(x)", mark=1.05)
def eager_sin():
    x = matrix()
    return lambda: jnp.sin(x)


@timed("eager", "jnp.sum(x)", mark=1.05)
def eager_sum():
    x = matrix()
    return lambda: jnp.sum(x)


@timed("eager", "jnp.dot(x, x)", mark=0.8)
def eager_dot():
    x = matrix()
    return lambda: jnp.dot(x, x)


@timed("eager", "x[3]", mark=0.4)
def eager_int_index():
    x = matrix()
    return lambda: x[3]


@timed("eager", "x.at[3].set(1.0)", mark=0.4)
def eager_at_set():
    x = matrix()
    return lambda: x.at[3].set(1.0)


@timed("eager", "x[indices]", mark=0.4)
def eager_array_index():
    x, indices = matrix(), jnp.array([1, 5, 2])
    return lambda: x[indices]


@timed("eager", "jnp.einsum('ij,jk->ik', x, x)", mark=0.4)
def eager_einsum():
    x = matrix()
    return lambda: jnp.einsum("ij,jk->ik", x, x)


@timed("eager", "x[2:5]", mark=0.6)
def eager_slice():
    x = matrix()
    return lambda: x[2:5]


@timed("eager", "jnp.concatenate([x, x])", mark=0.6)
def eager_concatenate():
    x = matrix()
    return lambda: jnp.concatenate([x, x])


@timed("eager", "jnp.reshape(x, (4, 16))", mark=0.5)
def eager_reshape():
    x = matrix()
    return lambda: jnp.reshape(x, (4, 16))


@timed("eager", "jnp.where(mask, x, 0)", mark=0.7)
def eager_where():
    x = matrix()
    mask = x > 0
    return lambda: jnp.where(mask, x, 0)


# Transformations without jit


def small_model(w, x):
    return jnp.sum(jnp.tanh(x @ w) ** 2)


@timed("eager transformations", "jax.grad(f)(w, x)", mark=0.5)
def eager_grad():
    w = x = matrix()
    return lambda: jax.grad(small_model)(w, x)


@timed("eager transformations", "jax.vmap(f, (None, 0))(w, xs)", mark=0.5)
def eager_vmap():
    w, xs = matrix(), jnp.ones((5, 8, 8))
    return lambda: jax.vmap(small_model, (None, 0))(w, xs)


@timed("eager transformations", "jax.jvp(f, (w, x), (w, x))", mark=0.6)
def eager_jvp():
    w = x = matrix()
    return lambda: jax.jvp(small_model, (w, x), (w, x))


# Programs to trace, lower and compile. Each call of `new` makes a new function, so no cache has it.


@dataclasses.dataclass(frozen=True)
class Program:
    new: Callable[[], Callable]
    arguments: Callable[[], tuple]


def new_mlp():
    def loss(params, x):
        for w, b in params:
            x = jnp.tanh(jnp.dot(x, w) + b)
        return jnp.mean(x**2)

    return loss


def mlp_arguments(layers=50, width=64):
    params = [(jnp.ones((width, width)), jnp.zeros(width)) for _ in range(layers)]
    return params, jnp.ones((32, width))


def new_recurrent():
    def loss(params, xs):
        def cell(state, x):
            candidate = jnp.tanh(x @ params["in"] + state @ params["state"] + params["bias"])
            gate = jax.nn.sigmoid(x @ params["gate"])
            state = gate * state + (1 - gate) * candidate
            return state, jnp.sum(state**2)

        _, losses = lax.scan(cell, jnp.zeros(xs.shape[1:]), xs)
        return losses.mean()

    return loss


def recurrent_arguments(steps=20, width=32):
    params = {key: jnp.ones((width, width)) for key in ("in", "state", "gate")}
    return params | {"bias": jnp.zeros(width)}, jnp.ones((steps, 8, width))


def new_attention(heads=4):
    def loss(params, x):
        batch, length, width = x.shape
        mean = x.mean(axis=-1, keepdims=True)
        y = (x - mean) * lax.rsqrt(x.var(axis=-1, keepdims=True) + 1e-6) * params["scale"]
        q, k, v = (
            jnp.reshape(y @ params[key], (batch, length, heads, width // heads)) for key in "qkv"
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads)
        causal = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
        hidden = jax.nn.gelu((x + mixed @ params["out"]) @ params["up"])
        return jnp.mean((hidden @ params["down"]) ** 2)

    return loss


def attention_arguments(length=32, width=64):
    shapes = dict.fromkeys(("q", "k", "v", "out"), (width, width))
    shapes |= {"up": (width, 4 * width), "down": (4 * width, width), "scale": (width,)}
    params = {key: jnp.full(shape, 0.1) for key, shape in shapes.items()}
    return params, jnp.ones((2, length, width))


def new_nested_control_flow():
    def loss(w, xs):
        def outer(total, x):
            def inner(i, carry):
                step = lambda c: jnp.tanh(c @ w) + x
                return lax.cond(jnp.sum(carry) > i, step, lambda c: c * 0.5, carry)

            return total + jnp.sum(lax.fori_loop(0, 4, inner, x)), None

        return lax.scan(outer, 0.0, xs)[0]

    return loss


def nested_control_flow_arguments():
    return jnp.full((8, 8), 0.1), jnp.ones((5, 8, 8))


def new_thousand_equations():
    def f(x):
        for _ in range(250):
            x = jnp.where(jnp.sin(x) > 0.5, x * 1.5, x)
        return x

    return f


MLP = Program(new_mlp, mlp_arguments)
NESTED = Program(new_nested_control_flow, nested_control_flow_arguments)
SCAN = Program(new_recurrent, recurrent_arguments)
ATTENTION = Program(new_attention, attention_arguments)


@timed("tracing", "make_jaxpr of a 50-layer MLP", mark=0.6)
def trace_mlp():
    arguments = MLP.arguments()
    return lambda: jax.make_jaxpr(MLP.new())(*arguments)


@timed("tracing", "make_jaxpr of its gradient", mark=0.5)
def trace_mlp_grad():
    arguments = MLP.arguments()
    return lambda: jax.make_jaxpr(jax.grad(MLP.new()))(*arguments)


@timed("tracing", "make_jaxpr of 1,000 equations", mark=0.5)
def trace_thousand_equations():
    x = jnp.ones(8)
    return lambda: jax.make_jaxpr(new_thousand_equations())(x)


@timed("tracing", "make_jaxpr of a vmap of a scan", mark=0.6)
def trace_vmap_of_scan():
    params, xs = recurrent_arguments()
    batch = jnp.stack([xs, xs])
    return lambda: jax.make_jaxpr(jax.vmap(new_recurrent(), (None, 0)))(params, batch)


@timed("tracing", "make_jaxpr of jacfwd", mark=0.6)
def trace_jacfwd():
    x, w = jnp.ones((1, 8)), jnp.ones((8, 8))
    f = lambda x: jnp.tanh(jnp.tanh(x @ w) @ w)
    return lambda: jax.make_jaxpr(jax.jacfwd(lambda x: f(x)))(x)


@timed("tracing", "make_jaxpr of a hessian", mark=0.6)
def trace_hessian():
    params = [(jnp.ones((8, 8)), jnp.zeros(8)) for _ in range(3)]
    x = jnp.ones((2, 8))
    return lambda: jax.make_jaxpr(jax.hessian(new_mlp()))(params, x)


def lowering(program):
    arguments = program.arguments()
    return lambda: jax.jit(jax.grad(program.new())).lower(*arguments)


@timed("lowering", "lower the MLP's gradient", mark=0.55)
def lower_mlp():
    return lowering(MLP)


@timed("lowering", "lower the gradient of a scan", mark=0.6)
def lower_scan():
    return lowering(SCAN)


@timed("lowering", "lower the gradient of attention", mark=0.6)
def lower_attention():
    return lowering(ATTENTION)


@timed("lowering", "lower the gradient of cond in fori_loop in scan", mark=0.6)
def lower_nested():
    return lowering(NESTED)


# Compiled loops


@timed("running", "a scan of 1,000 steps", mark=1.0)
def run_scan():
    xs, w = jnp.ones((1000, 8)), jnp.full((8, 8), 0.1)

    @jax.jit
    def f(w, xs):
        return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), jnp.sum(h)), jnp.zeros(8), xs)

    return lambda: f(w, xs)


@timed("running", "1,000 products of 8×8 matrices", mark=0.5)
def run_small_products():
    x = jnp.full((8, 8), 0.1)
    f = jax.jit(lambda x: lax.fori_loop(0, 1000, lambda i, y: jnp.tanh(y @ x), x))
    return lambda: f(x)


@timed("running", "1,000 products of 6×6 matrices, batched", mark=0.5)
def run_small_batches():
    x = jnp.full((1000, 6, 6), 0.1)
    return lambda: x @ x


# Sorting a million elements, with the kernels of jaxlib-ext where it is installed

MILLION = 1_000_000


def million(dtype="float32"):
    random = np.random.default_rng(0)
    if dtype == "int32":
        return jnp.asarray(random.integers(-(2**31), 2**31, MILLION, np.int32))
    return jnp.asarray(random.standard_normal(MILLION, np.float32))


def sorting(name, f, mark, make=million, numpy=None):
    """Adds a benchmark beside the oracle, and one beside NumPy if `numpy` does the same as `f`."""

    def prepare():
        args, compiled = _tuple(make()), jax.jit(f)
        return lambda: compiled(*args)

    _sorting(name, prepare, mark, make, numpy)


def _sorting(name, prepare, mark, make, numpy):
    def prepare_numpy():
        args = [np.asarray(x) for x in _tuple(make())]
        return lambda: numpy(*args)

    timed("sorting", name, mark=mark)(prepare)
    if numpy is not None:
        beside = f"{name}, beside NumPy"
        BENCHMARKS[beside] = Benchmark(beside, "sorting", 1.5, "s", prepare, prepare_numpy)


def _tuple(args):
    return args if isinstance(args, tuple) else (args,)


def square():
    return million().reshape(1000, -1)


def with_few_values():
    return million(), million("int32") % 100


def with_sorted():
    x = million()
    return jnp.sort(x), x[::-1]


# NumPy's fastest equivalents


def np_unique(x):
    x = np.sort(x)
    is_first = np.empty(x.size, bool)
    is_first[0] = True
    np.not_equal(x[1:], x[:-1], out=is_first[1:])
    return x[is_first]


def np_top_100(x):
    least = np.partition(x, -100)[-100]
    places = np.flatnonzero(x >= least)
    places = places[np.argsort(-x[places], kind="stable")[:100]]
    return x[places], places


def np_permutation(x):
    return np.random.default_rng(0).permutation(x)


FRACTIONS = np.float32([0.1, 0.5, 0.9])

sorting("sort, float32", jnp.sort, 0.03, numpy=np.sort)
sorting("sort, int32", jnp.sort, 0.1, lambda: million("int32"), numpy=np.sort)
sorting("sort, rows of 1000x1000", jnp.sort, 0.06, square, numpy=np.sort)
sorting(
    "sort, columns of 1000x1000",
    lambda x: jnp.sort(x, axis=0),
    0.15,
    square,
    numpy=lambda x: np.sort(x, axis=0),
)
sorting("argsort", jnp.argsort, 0.1, numpy=np.argsort)
sorting("median", jnp.median, 0.05, numpy=np.median)
sorting(
    "quantile",
    lambda x: jnp.quantile(x, FRACTIONS),
    1.0,
    numpy=lambda x: np.quantile(x, FRACTIONS),
)
sorting("percentile", lambda x: jnp.percentile(x, 30), 1.0, numpy=lambda x: np.percentile(x, 30))
sorting(
    "lexsort",
    lambda *keys: jnp.lexsort(keys),
    1.0,
    with_few_values,
    numpy=lambda *keys: np.lexsort(keys),
)
sorting(
    "searchsorted, by sorting",
    lambda a, x: jnp.searchsorted(a, x, method="sort"),
    1.0,
    with_sorted,
    numpy=np.searchsorted,
)
sorting(
    "random permutation",
    lambda x: jax.random.permutation(jax.random.key(0), x),
    0.15,
    numpy=np_permutation,
)
sorting(
    "random permutation of a range",
    lambda data: jax.random.permutation(jax.random.wrap_key_data(data), MILLION),
    0.15,
    lambda: jax.random.key_data(jax.random.key(0)),
    numpy=lambda data: np_permutation(MILLION),
)
sorting("top_k, 100 of a million", lambda x: lax.top_k(x, 100), 1.0, numpy=np_top_100)
sorting("sort, 16 elements", jnp.sort, 1.0, lambda: million()[:16])
sorting("sort, 256 elements", jnp.sort, 1.0, lambda: million()[:256])
sorting("argsort, 256 elements", jnp.argsort, 1.0, lambda: million()[:256])


def unique():
    x = million("int32")
    return lambda: jnp.unique(x)


_sorting("unique", unique, 0.1, lambda: million("int32"), np_unique)


# Memory that is not freed after many functions were created and dropped


@measured("memory", "left by 1,000 jitted functions", "B")
def left_by_dropped_functions():
    def churn(count):
        x = jnp.ones(4)
        for _ in range(count):
            jax.block_until_ready(jax.jit(lambda x: jnp.sin(x) + 1)(x))
        gc.collect()

    churn(1500)  # fill allocators and bounded caches first
    before = resident_bytes()
    churn(1000)
    return float(max(resident_bytes() - before, 0))


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


# Costs of compiled programs, which should not exceed the oracle's


def cost(program, key):
    analysis = lowering(program)().compile().cost_analysis()
    return float(analysis[key])


@measured("compiled", "MLP's gradient: operations", "FLOP", mark=1.0)
def mlp_flops():
    return cost(MLP, "flops")


@measured("compiled", "MLP's gradient: memory traffic", "B", mark=1.0)
def mlp_bytes():
    return cost(MLP, "bytes accessed")


@measured("compiled", "scan's gradient: operations", "FLOP", mark=1.0)
def scan_flops():
    return cost(SCAN, "flops")


@measured("compiled", "scan's gradient: memory traffic", "B", mark=1.0)
def scan_bytes():
    return cost(SCAN, "bytes accessed")


@measured("compiled", "attention's gradient: operations", "FLOP", mark=1.0)
def attention_flops():
    return cost(ATTENTION, "flops")


@measured("compiled", "attention's gradient: memory traffic", "B", mark=1.0)
def attention_bytes():
    return cost(ATTENTION, "bytes accessed")
