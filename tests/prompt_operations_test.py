"""Operations of the library that run in the thread that calls them, as loops."""

import contextlib

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src.interpreters.pxla import executable, prompt_operations
from jax._src.lib import _jax

jax.config.parse_flags_with_absl()

pytestmark = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="only the CPU client uses other threads"
)

SHAPES = [(7, 163), (64, 64), (2, 3, 5, 7, 11)]
FLOATS = {
    "add": jnp.add,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "a scalar": lambda x, y: x * 2.5,
    "a scalar before": lambda x, y: 1 - x,
    "an array of no dimension": lambda x, y: x + jnp.float32(3),
    "maximum": jnp.maximum,
    "minimum": lambda x, y: jnp.minimum(x, 0),
    "compare": lambda x, y: x < y,
    "not equal": lambda x, y: x != y,
    "where": lambda x, y: jnp.where(x > y, x, 0.0),
    "clip": lambda x, y: jnp.clip(x, -1, 1),
    "cube": lambda x, y: x**3,
    "sixth power": lambda x, y: x**-6,
    "square": lambda x, y: jnp.square(x),
    "negate": lambda x, y: -x,
    "absolute": lambda x, y: abs(x),
    "sign": lambda x, y: jnp.sign(x),
    "floor": lambda x, y: jnp.floor(x),
    "round": lambda x, y: jnp.round(x),
    "is finite": lambda x, y: jnp.isfinite(x),
    "is NaN": lambda x, y: jnp.isnan(x),
    "to integers": lambda x, y: x.astype(jnp.int32),
    "to bytes": lambda x, y: x.astype(jnp.uint8),
    "to another size": lambda x, y: x.astype(np.float16 if x.dtype == np.float32 else np.float32),
    "relu": lambda x, y: jax.nn.relu(x),
    "several results": lambda x, y: jnp.divmod(x, y),
    "primitive": lax.sub,
    "clamp": lambda x, y: lax.clamp(-1.0, x, 1.0),
}
INTEGERS = {
    "add": jnp.add,
    "multiply": lambda x, y: x * y,
    "floor_divide": lambda x, y: x // y,
    "and": lambda x, y: x & y,
    "invert": lambda x, y: ~x,
    "compare": lambda x, y: x >= y,
    "where": lambda x, y: jnp.where(x > y, x, y),
    "power": lambda x, y: x**5,
    "absolute": lambda x, y: jnp.abs(x),
    "to float32": lambda x, y: x.astype(jnp.float32),
}


def _floats(shape, seed, dtype=np.float32):
    x = np.random.RandomState(seed).standard_normal(shape) * 3
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 2.5]
    np.put(x, np.arange(0, x.size, 7), special)
    return x.astype(dtype)


def _integers(shape, seed, dtype=np.int32):
    x = np.random.RandomState(seed).randint(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype)
    np.put(x, np.arange(0, x.size, 5), [0, 1, np.iinfo(dtype).min, np.iinfo(dtype).max])
    return x


@contextlib.contextmanager
def _set(name, value):
    before = jax.config.values[name]
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)


@pytest.fixture(autouse=True)
def with_optimizations():
    with _set("jax_disable_most_optimizations", False):
        yield


@pytest.fixture
def looped(monkeypatch):
    """The names of the programs that are made loops."""
    names = []

    def as_loop(module):
        loop = prompt_operations.as_loop(module)
        if loop is not module:
            loop.operation.verify()
            names.append(str(loop.operation.attributes["sym_name"]).strip('"'))
        return loop

    fake = type("fake", (), {"as_loop": staticmethod(as_loop)})
    monkeypatch.setattr(executable, "prompt_operations", fake)
    jax.clear_caches()
    return names


def _same_as_without(fun, *args):
    ours = jax.tree.leaves(fun(*args))
    with _set("jax_cpu_compile_profile", "original"):
        plain = jax.tree.leaves(fun(*args))
    for a, b in zip(ours, plain, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.weak_type == b.weak_type
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_floats_are_the_same_to_the_bit(name, shape):
    _same_as_without(FLOATS[name], jnp.asarray(_floats(shape, 0)), jnp.asarray(_floats(shape, 1)))


@pytest.mark.parametrize("name", FLOATS)
def test_float64_is_the_same_to_the_bit(name):
    with jax.enable_x64(True):
        x, y = [jnp.asarray(_floats((37, 41), seed, np.float64)) for seed in (0, 1)]
        _same_as_without(FLOATS[name], x, y)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("dtype", [np.int32, np.uint8], ids=lambda t: t.__name__)
def test_integers_are_the_same_to_the_bit(name, dtype):
    x, y = [jnp.asarray(_integers((37, 41), seed, dtype)) for seed in (0, 1)]
    _same_as_without(INTEGERS[name], x, y)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x * x,
        lambda x: 2 * x,
        lambda x: x**2,
        lambda x: jnp.maximum(x, 0),
        lambda x: jnp.add(x, x),
        lambda x: lax.mul(x, x),
        lambda x: jnp.where(x > 0, x, 1),
    ],
)
def test_operations_of_some_thousand_elements_are_loops(fun, looped):
    fun(jnp.ones((64, 64)))
    assert looped


@pytest.mark.parametrize(
    "fun, shape",
    [
        (lambda x: x + x, (31, 32)),  # XLA runs these as they are
        (lambda x: x + x, (65, 64)),
        (lambda x: x + x, ()),
        (lambda x: x + x, (0, 64)),
        (lambda x: x + x[:1], (64, 64)),
        (lambda x: x.T, (64, 64)),
        (lambda x: x @ x, (64, 64)),
        (jnp.sqrt, (64, 64)),
        (jnp.tanh, (64, 64)),
        (lambda x: x.sum(), (64, 64)),
        (lambda x: lax.convert_element_type(x, jnp.bfloat16), (64, 64)),
        (jax.jit(lambda x: x * x), (64, 64)),  # a function of the user's
    ],
)
def test_others_are_not(fun, shape, looped):
    x = jnp.ones(shape)
    looped.clear()
    fun(x)
    assert not [name for name in looped if name not in ("jit_dynamic_slice", "jit_gather")]


def test_the_steps_cover_the_array(looped):
    # A count of elements that no multiple of the vectors divides.
    x = jnp.arange(4001, dtype=jnp.float32)
    np.testing.assert_array_equal(x + 1, np.arange(1, 4002))
    assert "jit_add" in looped


def test_the_client_counts_few_operations():
    computation = jax.jit(lambda x: x * x - x).lower(jnp.ones((64, 64)))._lowering

    def count(executable):
        (module,) = executable.xla_executable.hlo_modules()
        return _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, module)["flops"]

    assert count(computation.compile(is_prompt=True)) < 1000
    assert count(computation.compile()) >= 1000


def test_options_leave_programs_as_they_are(looped):
    x = jnp.ones((64, 64))
    with _set("jax_cpu_compile_profile", "original"):
        x + x
    assert not looped


def test_several_devices_are_left_as_they_are(looped):
    if jax.device_count() < 2:
        pytest.skip("needs two devices")
    mesh = jax.make_mesh((2,), ("x",))
    x = jax.device_put(np.ones((64, 64)), jax.NamedSharding(mesh, jax.P("x")))
    looped.clear()
    np.testing.assert_array_equal(x + x, 2 * np.ones((64, 64)))
    assert not looped


def test_derivatives_and_batches():
    x = jnp.linspace(-2, 2, 1600).reshape(40, 40)
    out, pull = jax.vjp(lambda x: x * x + 1, x)
    np.testing.assert_array_equal(out, np.asarray(x) * np.asarray(x) + 1)
    np.testing.assert_array_equal(pull(out)[0], 2 * np.asarray(out) * np.asarray(x))
    np.testing.assert_array_equal(jax.vmap(lambda x: x * 2)(x), np.asarray(x) * 2)
