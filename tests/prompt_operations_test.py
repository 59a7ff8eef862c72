"""Operations of the library that run in the thread that calls them, by a kernel of jaxlib-ext."""

import contextlib

import native
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

SHAPES = [(7, 6553), (256, 192), (2, 3, 5, 7, 211)]
BY_KERNEL = {
    "add": jnp.add,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "a scalar": lambda x, y: x * 2.5,
    "a divisor": lambda x, y: x / 3,
    "a scalar before": lambda x, y: 1 - x,
    "a reciprocal": lambda x, y: 1 / x,
    "an array of no dimension": lambda x, y: x + jnp.asarray(3, x.dtype),
    "maximum with a scalar": lambda x, y: jnp.maximum(x, -0.0),
    "minimum with a scalar": lambda x, y: jnp.minimum(x, 0),
    "clip": lambda x, y: jnp.clip(x, -1, 1),
    "cube": lambda x, y: x**3,
    "sixth power": lambda x, y: x**-6,
    "square": lambda x, y: jnp.square(x),
    "negate": lambda x, y: -x,
    "absolute": lambda x, y: abs(x),
    "relu": lambda x, y: jax.nn.relu(x),
    "primitive": lax.sub,
    "square root": lambda x, y: jnp.sqrt(x),
    "with itself": lambda x, y: x / x,
}
OTHERS = {
    "less": lambda x, y: x < y,
    "where": lambda x, y: jnp.where(x > y, x, 0.0),
    "sign": lambda x, y: jnp.sign(x),
    "several results": lambda x, y: jnp.divmod(x, y),
    "broadcast": lambda x, y: x + y[..., :1],
    "a function of the user's": jax.jit(lambda x, y: x * y),
    "a product and a sum": jax.jit(lambda x, y: x * y + x),
    "integers": lambda x, y: x.astype(jnp.int32) + 1,
    "another precision": lambda x, y: x.astype(jnp.float16) * y.astype(jnp.float16),
}


@pytest.fixture(scope="module", autouse=True)
def extension():
    yield from native.extension_in_use()


def _floats(shape, seed, dtype=np.float32):
    x = np.random.RandomState(seed).standard_normal(shape) * 3
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 2.5]
    np.put(x, np.arange(0, x.size, 7 + seed), special)
    return x.astype(dtype)


@contextlib.contextmanager
def _set(name, value):
    before = jax.config.values[name]
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)


@pytest.fixture
def called(monkeypatch):
    """The names of the programs that become calls of the kernel."""
    names = []

    def as_kernel(module):
        call = prompt_operations.as_kernel(module)
        if call is not module:
            call.operation.verify()
            names.append(str(call.operation.attributes["sym_name"]).strip('"'))
        return call

    fake = type("fake", (), {"as_kernel": staticmethod(as_kernel)})
    monkeypatch.setattr(executable, "prompt_operations", fake)
    jax.clear_caches()
    return names


def _same_as_without(fun, *args):
    ours = jax.tree.leaves(fun(*args))
    with _set("jax_cpu_compile_profile", "original"):
        plain = jax.tree.leaves(fun(*args))
    for a, b in zip(ours, plain, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.weak_type == b.weak_type
        a, b = (np.where(np.isnan(x), np.abs(x), x) for x in (np.asarray(a), np.asarray(b)))
        assert a.tobytes() == b.tobytes()  # but for signs of NaNs, which depend on where they are


@pytest.mark.parametrize("name", [*BY_KERNEL, *OTHERS])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_are_the_same_to_the_bit(name, shape):
    fun = {**BY_KERNEL, **OTHERS}[name]
    _same_as_without(fun, jnp.asarray(_floats(shape, 0)), jnp.asarray(_floats(shape, 1)))


@pytest.mark.parametrize("name", BY_KERNEL)
def test_float64_is_the_same_to_the_bit(name):
    with jax.enable_x64(True):
        x, y = [jnp.asarray(_floats((137, 141), seed, np.float64)) for seed in (0, 1)]
        _same_as_without(BY_KERNEL[name], x, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extrema_of_special_values_are_the_same(dtype):
    tiny = np.finfo(dtype).tiny
    special = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, tiny, -tiny, tiny / 4, -tiny / 4]
    x, y = np.repeat(np.array(special, dtype), 2200), np.tile(np.array(special, dtype), 2200)
    with jax.enable_x64(True):
        _same_as_without(jnp.maximum, jnp.asarray(x), jnp.asarray(y))
        _same_as_without(jnp.minimum, jnp.asarray(x), jnp.asarray(y))


@pytest.mark.parametrize("name", BY_KERNEL)
def test_operations_of_some_ten_thousand_elements_are_calls(name, called):
    x = jnp.ones((200, 200))
    BY_KERNEL[name](x, x)
    assert called


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_not(name, called):
    x = jnp.ones((200, 200))
    called.clear()
    OTHERS[name](x, x)
    assert not called


@pytest.mark.parametrize("shape", [(64, 64), (181, 181), (363, 362), (), (0, 64)], ids=str)
def test_sizes_that_are_left_to_xla(shape, called):
    x = jnp.ones(shape)
    called.clear()
    assert (-x).shape == shape
    assert not called


def test_the_client_counts_few_operations():
    computation = jax.jit(lambda x: x + x - x).lower(jnp.ones((200, 200)))._lowering

    def count(executable):
        (module,) = executable.xla_executable.hlo_modules()
        return _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, module)["flops"]

    assert count(computation.compile(is_prompt=True)) < 1000
    assert count(computation.compile()) >= 1000


@pytest.mark.parametrize(
    "name, value", [("jax_cpu_compile_profile", "original"), ("jax_native_kernels", False)]
)
def test_options_leave_programs_as_they_are(name, value, called):
    x = jnp.ones((200, 200))
    with _set(name, value):
        x + x
    assert not called


def test_several_devices_are_left_as_they_are(called):
    if jax.device_count() < 2:
        pytest.skip("needs two devices")
    mesh = jax.make_mesh((2,), ("x",))
    x = jax.device_put(np.ones((200, 200)), jax.NamedSharding(mesh, jax.P("x")))
    called.clear()
    np.testing.assert_array_equal(x + x, 2 * np.ones((200, 200)))
    assert not called


def test_donated_arrays_are_left_to_xla(called):
    x = jnp.ones((200, 200))
    called.clear()
    jax.jit(jnp.negative, donate_argnums=0)(x)
    assert x.is_deleted() and not called


def test_derivatives_and_batches():
    x = jnp.linspace(-2, 2, 40_000).reshape(200, 200)
    out, pull = jax.vjp(lambda x: x * x + 1, x)
    np.testing.assert_array_equal(out, np.asarray(x) * np.asarray(x) + 1)
    np.testing.assert_array_equal(pull(out)[0], 2 * np.asarray(out) * np.asarray(x))
    np.testing.assert_array_equal(jax.vmap(lambda x: x * 2)(x), np.asarray(x) * 2)
