"""The benchmarks of the system itself, of sorting and of checkpoints.

One process runs this file with this checkout's jax, another one with PyPI's, so nothing here may
depend on which jax it is. registry.py says how to add a benchmark.
"""

import dataclasses
import gc
import math
import os
import resource
import sys
import tempfile
from collections.abc import Callable

import numpy as np
import several_processes
import transformer
from registry import BENCHMARKS, Benchmark, measured, timed

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import checkify
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # devices are there already
    pass


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


@timed(
    "eager", "x * x of 256x256, waited for", mark=1
)  # by a kernel of jaxlib-ext where it is installed
def eager_multiply():
    x = jnp.ones((256, 256))
    return lambda: (x * x).block_until_ready()


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


def checked_gradient():
    """The gradient of the MLP with all checks."""
    return checkify.checkify(jax.grad(MLP.new()), errors=checkify.all_checks)


@timed("tracing", "make_jaxpr of the MLP's checkified gradient", mark=0.6)
def trace_checkified_gradient():
    arguments = MLP.arguments()
    return lambda: jax.make_jaxpr(checked_gradient())(*arguments)


def lowering(program):
    arguments = program.arguments()
    return lambda: jax.jit(jax.grad(program.new())).lower(*arguments)


@timed("lowering", "lower the MLP's gradient", mark=0.55)
def lower_mlp():
    return lowering(MLP)


@timed("lowering", "lower the MLP's checkified gradient", mark=0.6)
def lower_checkified_gradient():
    arguments = MLP.arguments()
    return lambda: jax.jit(checked_gradient()).lower(*arguments)


@timed("lowering", "lower the gradient of a scan", mark=0.6)
def lower_scan():
    return lowering(SCAN)


@timed("lowering", "lower the gradient of attention", mark=0.6)
def lower_attention():
    return lowering(ATTENTION)


@timed("lowering", "lower the gradient of cond in fori_loop in scan", mark=0.6)
def lower_nested():
    return lowering(NESTED)


@timed("many devices", "lower a pjit'ed transformer block's gradient", mark=0.5)
def lower_annotated_block():
    mesh = transformer.new_mesh()
    arguments = transformer.arguments(mesh)
    return lambda: transformer.new_annotated(mesh).lower(*arguments)


@timed("many devices", "lower a shard_map'ed transformer block's gradient", mark=0.5)
def lower_mapped_block():
    mesh = transformer.new_mesh()
    arguments = transformer.arguments(mesh)
    return lambda: transformer.new_mapped(mesh).lower(*arguments)


@timed("many devices", "make_jaxpr of 100 collectives in a shard_map", mark=0.5)
def trace_collectives():
    mesh = AbstractMesh((2, 4), ("x", "y"), (AxisType.Auto,) * 2)
    x = np.ones((8, 8), np.float32)

    def make():
        def body(x):
            for _ in range(20):
                x = lax.psum(x, "y") + lax.axis_index("x")
                x = lax.all_gather(x, "x", tiled=True)
                x = lax.psum_scatter(x, "x", tiled=True)
                x = lax.ppermute(x, "x", [(0, 1), (1, 0)])
            return x

        return jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))

    return lambda: jax.make_jaxpr(make())(x)


# Calls and transfers on 8 devices


def eight_devices():
    """A sharding of the leading dimension."""
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    return NamedSharding(mesh, P("x"))


@timed("many devices", "jit call on 8 devices", mark=1.05)
def call_jit_on_8_devices():
    x = jax.device_put(np.ones((8, 16), np.float32), eight_devices())
    f = jax.jit(lambda x: x + 1)
    return lambda: f(x)


def one_collective():
    """A sum over 8 devices, and its argument."""
    sharding = eight_devices()
    f = jax.shard_map(
        lambda x: lax.psum(x, "x"), mesh=sharding.mesh, in_specs=P("x"), out_specs=P()
    )
    return f, jax.device_put(np.ones((8, 16), np.float32), sharding)


# Programs with collectives must not queue up: on the CPU their threads would wait for each other.


@timed("many devices", "eager shard_map of one collective", mark=0.5)
def call_shard_map():
    f, x = one_collective()
    return lambda: f(x).block_until_ready()


@timed("many devices", "jit(shard_map) call on 8 devices", mark=1.05)
def call_jit_of_shard_map():
    f, x = one_collective()
    f = jax.jit(f)
    return lambda: f(x).block_until_ready()


@timed("many devices", "pmap call on 8 devices", mark=1.05)
def call_pmap():
    f = jax.pmap(lambda x: x + 1)
    x = f(np.ones((8, 16), np.float32))
    return lambda: f(x)


@timed("many devices", "pmap call, tree of 13 leaves and an array of NumPy", mark=1.05)
def call_pmap_tree():
    f = jax.pmap(lambda x, y: jax.tree.map(lambda x: x + y, x), in_axes=(0, None))
    layers = [{"w": np.ones((8, 4, 4)), "b": np.ones((8, 4))} for _ in range(6)]
    x, y = f([*layers, np.ones(8)], 1.0), np.float32(1)
    return lambda: f(x, y)


@timed("many devices", "device_put of NumPy's array to 8 shards", mark=1.0)
def put_numpy_to_8_shards():
    sharding, x = eight_devices(), np.ones((8, 1024), np.float32)
    return lambda: jax.device_put(x, sharding)


@timed("many devices", "device_put of an array to 8 shards", mark=1.0)
def put_array_to_8_shards():
    sharding, x = eight_devices(), jnp.ones((8, 1024))
    return lambda: jax.device_put(x, sharding)


@timed("many devices", "row of an array on 8 devices", mark=0.5)
def row_on_8_devices():
    x = jax.device_put(np.ones((8, 16), np.float32), eight_devices())
    return lambda: jax.block_until_ready(x[3])


# Compiled loops


@timed("running", "a scan of 1,000 steps", mark=1.0)
def run_scan():
    xs, w = jnp.ones((1000, 8)), jnp.full((8, 8), 0.1)

    @jax.jit
    def f(w, xs):
        return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), jnp.sum(h)), jnp.zeros(8), xs)

    return lambda: f(w, xs)


@timed("running", "a checkified scan of 1,000 steps", mark=1.0)
def run_checkified_scan():
    xs, w = jnp.ones((1000, 8)), jnp.full((8, 8), 0.1)

    def f(w, xs):
        return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), jnp.sum(h)), jnp.zeros(8), xs)

    f = jax.jit(checkify.checkify(f, errors=checkify.all_checks))
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


# Compiled programs that outlive their process


@timed(
    "compiled programs", "first call of the MLP's gradient, from the compilation cache", mark=0.8
)
def call_cached():
    from jax.experimental.compilation_cache import compilation_cache  # few programs need it

    arguments = MLP.arguments()
    folder = tempfile.TemporaryDirectory()

    def call():
        previous = jax.config.jax_persistent_cache_min_compile_time_secs
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_compilation_cache_dir", folder.name)
        compilation_cache.reset_cache()
        try:
            return jax.jit(jax.grad(MLP.new()))(*arguments)
        finally:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", previous)
            jax.config.update("jax_compilation_cache_dir", None)
            compilation_cache.reset_cache()

    call()
    assert os.listdir(folder.name)
    return call


@timed("compiled programs", "load a serialized gradient of the MLP and call it", mark=1.0)
def load_executable():
    from jax.experimental import serialize_executable

    arguments = MLP.arguments()
    compiled = jax.jit(jax.grad(MLP.new())).lower(*arguments).compile()
    serialized = serialize_executable.serialize(compiled)
    devices = jax.devices()[:1]

    def call():
        loaded = serialize_executable.deserialize_and_load(*serialized, execution_devices=devices)
        return loaded(*arguments)

    return call


# Checkpoints


def gigabyte():
    """A pytree of 1 GB on 8 devices, and the sharding of its arrays."""
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, P("x"))
    large = np.random.RandomState(0).rand(8192, 2048).astype(np.float32)
    tree = {f"w{i}": jax.device_put(large + i, rows) for i in range(16)}
    return tree | {f"b{i}": jax.device_put(large[0] + i, rows) for i in range(16)}, rows


@timed("checkpoints", "save a sharded pytree of 1 GB", mark=1.0)
def save_gigabyte():
    from jax.experimental.array_serialization import pytree_serialization  # few programs need it

    tree, _ = gigabyte()
    folder = tempfile.TemporaryDirectory()
    return lambda: pytree_serialization.save(tree, os.path.join(folder.name, "checkpoint"))


@timed("checkpoints", "load a sharded pytree of 1 GB", mark=1.0, new_workers=True)
def load_gigabyte():
    from jax.experimental.array_serialization import pytree_serialization

    tree, rows = gigabyte()
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "0")
    pytree_serialization.save(tree, path)
    del tree

    def call():
        nonlocal path
        # A program loads a checkpoint once. Under another name it is not in the caches.
        new_path = os.path.join(folder.name, str(int(os.path.basename(path)) + 1))
        os.rename(path, new_path)
        path = new_path
        return pytree_serialization.load(path, rows)

    return call


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


# Absent devices: only where the TPU's compiler is


def pod():
    """A mesh of 16 x 256 chips."""
    from jax.experimental import topologies

    topology = topologies.get_topology_desc("v5p:16x16x16", "tpu")
    return topologies.make_mesh(topology, (16, 256), ("x", "y"))


def struct(mesh, shape, *spec):
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))


def new_block():
    """A transformer block, as a new function."""

    def norm(x):
        return (x - jnp.mean(x, -1, keepdims=True)) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + 1e-5)

    def block(p, x):
        h = norm(x)
        q, k, v = (jnp.tensordot(h, p[n], 1).transpose(0, 2, 1, 3) for n in "qkv")
        weights = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1]), axis=-1)
        x = x + jnp.tensordot((weights @ v).transpose(0, 2, 1, 3), p["o"], 2)
        return jnp.sum(x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"])

    return block


def block_for_pod():
    mesh = pod()
    heads = {n: struct(mesh, (512, 256, 128), None, "y") for n in "qkv"}
    params = heads | {
        "o": struct(mesh, (256, 128, 512), "y"),
        "up": struct(mesh, (512, 32768), None, "y"),
        "down": struct(mesh, (32768, 512), "y"),
    }
    return params, struct(mesh, (32, 64, 512), "x")


def add_absent_devices(packages):
    sys.path.append(packages)
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # by both sides

    @timed("absent devices", "arrange 4,096 chips", mark=1.0)
    def arrange():
        return pod

    @timed("absent devices", "lower a block's gradient for 4,096 chips", mark=0.5)
    def lower():
        arguments = block_for_pod()
        return lambda: jax.jit(jax.grad(new_block())).lower(*arguments)

    @timed("absent devices", "compile a block's gradient for 4,096 chips", mark=1.0)
    def compile():
        arguments = block_for_pod()
        return lambda: jax.jit(jax.grad(new_block())).lower(*arguments).compile()


# Programs of several processes


@timed("processes", "start a program of 4 processes", mark=0.7)
def start_processes():
    return lambda: several_processes.run()


if packages := os.environ.get("JAX_AOT_PACKAGES"):
    add_absent_devices(packages)
