"""`jax_cpu_compile_profile`: which options programs for CPUs are compiled with."""

import contextlib
import re

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import compiler, cpu_profile

FUSIONS = "xla_cpu_experimental_ynn_fusion_type"
CONVOLUTIONS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
PRODUCTS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
EMITTERS = "xla_cpu_use_fusion_emitters"
LEVEL = "xla_backend_optimization_level"
OLDER = {EMITTERS: False} if cpu_profile.has_emitters() else {}

has_library = pytest.mark.skipif(
    CONVOLUTIONS not in cpu_profile._fusions(),
    reason="this jaxlib has no library for convolutions",
)


@pytest.fixture
def profile():
    yield lambda name: jax.config.update("jax_cpu_compile_profile", name)
    jax.config.update("jax_cpu_compile_profile", "default")


def operations(f, *args):
    return cpu_profile.operations(jax.jit(f).lower(*args).compiler_ir())


def convolve(x, w):
    return lax.scan(lambda x, _: (lax.conv(x, w, (1, 1), "SAME"), None), x, None, length=2)[0]


ARGS = np.linspace(-1, 1, 256, dtype=np.float32).reshape(1, 1, 16, 16), np.ones((1, 1, 3, 3), "f4")


@has_library
def test_options_of_convolutions(profile, monkeypatch):
    conv, other = operations(convolve, *ARGS), operations(jnp.sin, 1.0)
    chosen = cpu_profile.options(conv, {})
    assert chosen.keys() == {FUSIONS}
    assert chosen[FUSIONS] and CONVOLUTIONS not in chosen[FUSIONS]
    assert cpu_profile.options(other, {"a": 1}) == {"a": 1}
    assert cpu_profile.options(conv, {FUSIONS: ""}) == {FUSIONS: ""}  # the user's wins
    profile("fast")
    assert cpu_profile.options(other, {}) == {"xla_cpu_enable_fast_math": True}
    assert cpu_profile.options(conv, {}).keys() == {FUSIONS, "xla_cpu_enable_fast_math"}
    profile("quick")
    other = operations(jnp.sin, 1.0)
    assert cpu_profile.options(other, {"a": 1}) == {"a": 1} | OLDER
    assert cpu_profile.options(operations(convolve, *ARGS), {}).keys() == {FUSIONS, *OLDER}
    profile("original")
    assert cpu_profile.options(conv, {}) == {}
    profile("default")
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to=a --{FUSIONS}={CONVOLUTIONS}")
    assert cpu_profile.options(conv, {}) == {}


@has_library
def test_each_profile_compiles_once_and_gives_the_same(profile):
    used = []
    listen = lambda name, executable: used.append(name)
    compiler.executable_listeners.append(listen)
    try:
        f, results = jax.jit(convolve), []
        for name in ("default", "original", "fast", "quick", "default"):
            profile(name)
            results.append(f(*ARGS))
    finally:
        compiler.executable_listeners.remove(listen)
    assert len([n for n in used if "convolve" in n]) == 4  # the last one is the first one
    for result in results[1:]:
        np.testing.assert_allclose(results[0], result, rtol=1e-5, atol=1e-5)


@has_library
def test_options_are_part_of_the_cache_key(profile, tmp_path):
    f = jax.jit(convolve)
    with enable_cache(tmp_path):
        for name, entries in (("default", 1), ("original", 2), ("default", 2)):
            profile(name)
            jax.clear_caches()
            f(*ARGS)
            assert len(list(tmp_path.iterdir())) == entries


@contextlib.contextmanager
def enable_cache(folder):
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0,
    }
    before = {name: jax.config.values[name] for name in settings}
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


SMALL_LOOP = "xla_cpu_small_while_loop_byte_threshold"


def rotate(x, angles):
    """A loop whose steps read and write 4 kB."""

    def step(x, angle):
        x = jnp.cos(angle) * x + jnp.sin(angle) * x[::-1]
        return x, x * 0.5

    return lax.scan(step, x, angles)


def while_positive(x):
    return lax.while_loop(lambda x: x.max() > 0, lambda x: x - 1, x)


ROTATED = np.linspace(-1, 1, 256, dtype=np.float32), np.linspace(0, 1, 8, dtype=np.float32)


def threshold(options):
    return re.findall(rf'{SMALL_LOOP}"\s*value: "(\d+)"', str(debug_options(options)))


def debug_options(options):
    return options.executable_build_options.debug_options


def test_options_of_loops(profile, monkeypatch):
    loop, other = operations(rotate, *ROTATED), operations(jnp.sin, 1.0)
    given = compiler.get_compile_options(
        2, 3, np.arange(6).reshape(2, 3), {"xla_cpu_enable_fast_math": True}, b"profile"
    )
    given.parameter_is_tupled_arguments = True
    before = given.SerializeAsString()
    for name in ("default", "fast"):
        profile(name)
        chosen = cpu_profile.with_small_loops(loop, given)
        assert threshold(chosen) == ["32768"]
        assert chosen.num_replicas == 2 and chosen.num_partitions == 3
        assert chosen.env_option_overrides == given.env_option_overrides
        assert chosen.executable_build_options.fdo_profile == b"profile"
        assert chosen.parameter_is_tupled_arguments
        assert str(chosen.device_assignment) == str(given.device_assignment)
        assert given.SerializeAsString() == before
        assert cpu_profile.with_small_loops(other, given) is given
    profile("original")
    assert cpu_profile.with_small_loops(loop, given) is given
    assert not operations(rotate, *ROTATED)
    profile("default")
    monkeypatch.setenv("XLA_FLAGS", f"--xla_backend_extra_options={SMALL_LOOP}=0")
    assert cpu_profile.with_small_loops(loop, given) is given


@has_library
def test_options_of_products_in_loops(profile):
    def power(x, w):
        return lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, None, length=3)[0]

    def batch(x, w):
        return lax.scan(lambda x, _: (jnp.einsum("bij,bjk->bik", x, w), None), x, None, length=3)[0]

    small, large = np.full((16, 16), 0.1, np.float32), np.ones((16, 17), np.float32)
    f = operations(power, small, small)
    assert PRODUCTS not in cpu_profile.options(f, {})[FUSIONS]
    assert CONVOLUTIONS in cpu_profile.options(f, {})[FUSIONS]
    assert cpu_profile.options(operations(power, large.T, small), {}) == {}
    assert cpu_profile.options(operations(jnp.dot, small, small), {}) == {}  # no loop
    cube = np.ones((4, 8, 8), np.float32)
    assert PRODUCTS not in cpu_profile.options(operations(batch, cube, cube), {})[FUSIONS]
    cube = np.ones((9, 8, 8), np.float32)
    assert cpu_profile.options(operations(batch, cube, cube), {}) == {}
    results = []
    for name in ("default", "original"):
        profile(name)
        results.append(jax.jit(power)(small, small))
    np.testing.assert_allclose(*results, rtol=1e-6)


@pytest.mark.parametrize("x64", [False, True])
def test_loops_compiled_to_one_function_give_the_same(profile, x64, jaxlib_of_results):
    def loss(*args):
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(rotate(*args)))

    def all_of_it(x, angles):
        return (
            rotate(x, angles),
            jax.grad(loss, (0, 1))(x, angles),
            jax.vmap(rotate, (None, 0))(x[:64], jnp.stack([angles, -angles])),
            while_positive(x),
        )

    with jax.enable_x64(x64):
        args = [jnp.asarray(x, float) for x in ROTATED]
        results, small = [], []
        for name in ("original", "default"):
            profile(name)
            compiled = jax.jit(all_of_it).lower(*args).compile()
            small.append(compiled.as_text().count("xla_cpu_small_call"))
            results.append(compiled(*args))
    # Later XLAs make a function of each of these loops without the option too.
    assert small[0] < small[1] if jaxlib_of_results else 0 < small[0] == small[1]
    tolerance = 1e-14 if x64 else 1e-5
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


has_both_generators = pytest.mark.skipif(not OLDER, reason="this jaxlib has one generator of code")


@has_both_generators
def test_options_of_the_generator_of_code(profile, monkeypatch):
    def choice(f, *args, **given):
        return cpu_profile.options(operations(f, *args), given).get(EMITTERS)

    profile("quick")
    x, indices = np.ones((2048, 2), np.float32), np.zeros(8, np.int32)
    add_rows = lambda x, i: x.at[i].add(1.0)
    adams = lambda x, y: [(a * y - a / y) * 2 + y for a in x]
    assert choice(jnp.sin, x) is False
    assert choice(add_rows, x, indices) is False
    assert choice(adams, x[:20], x[0]) is False
    for f, *args in (
        (jnp.tan, x),
        (jnp.arctan2, x, x),
        (jnp.sin, x + 1j),
        (lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), x),
        (lambda x: x.astype(jnp.float32), jnp.ones(3, jnp.float8_e4m3fn)),
        (lambda x: x.astype(jnp.int4), x),
        (lambda x: x.astype(jnp.float16) + 1, x),
        (lambda x: lax.reduce_precision(x, 1, 0), x),
        (lambda x: lax.clamp(False, x, True), x > 0),
        (add_rows, x, np.zeros(2048, np.int32)),
        (lambda x, i: lax.fori_loop(0, 3, lambda _, x: add_rows(x, i), x), x, indices),
        (adams, x[:100], x[0]),
        (lambda x: lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x @ x), x), np.ones((32, 32), "f4")),
    ):
        assert choice(f, *args) is None, (f, args)
    with jax.enable_x64(False):
        scatter = lambda x, i: lax.scatter_add(
            x, i, x[:8], lax.ScatterDimensionNumbers((1,), (0,), (0,))
        )
        assert choice(scatter, x, np.zeros((8, 1), np.int8)) is None
        assert choice(scatter, x, np.zeros((8, 1), np.int32)) is False
    assert choice(jnp.sin, x, **{EMITTERS: True}) is True
    for name in ("original", "default", "fast"):
        profile(name)
        assert choice(jnp.sin, x) is None
    profile("quick")
    monkeypatch.setenv("XLA_FLAGS", f"--{EMITTERS}=true")
    assert choice(jnp.sin, x) is None


@has_both_generators
def test_level_of_the_older_generator_of_code(profile):
    profile("quick")
    sine, tangent = operations(jnp.sin, 1.0), operations(jnp.tan, 1.0)
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        assert cpu_profile.options(sine, {}) == {EMITTERS: False, LEVEL: 2}
        assert cpu_profile.options(sine, {LEVEL: 1}) == {EMITTERS: False, LEVEL: 1}
        assert cpu_profile.options(sine, {EMITTERS: True}) == {EMITTERS: True}
        assert cpu_profile.options(tangent, {}) == {}
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


@has_both_generators
def test_generators_of_code_give_the_same(profile):
    rng = np.random.default_rng(0)
    names = (
        "exp exp2 expm1 log log1p sin cos sinh cosh tanh logistic sqrt rsqrt cbrt erf erfc"
        " erf_inv lgamma digamma asinh acosh atanh asin acos floor round"
    ).split()

    def all_of_them(x, y):
        results = [getattr(lax, name)(x) for name in names]
        results += [x + y, x * y, x / y, lax.rem(x, y), lax.max(x, y), lax.pow(x, y), x < y]
        results += [x.astype(jnp.int32), x.astype(jnp.bfloat16), x.astype(jnp.float16)]
        folded = x.reshape(8, -1)
        return [*results, folded.T, folded.max(0), jnp.sort(x), jnp.where(x > y, x, y)]

    x = np.concatenate(
        [
            rng.integers(0, 1 << 32, 4096, dtype=np.uint64).astype(np.uint32).view(np.float32),
            rng.standard_normal(4088).astype(np.float32),
            np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5]),
        ]
    )
    args = (x, rng.permutation(x))
    results = []
    for emitters in (True, False):
        options = {EMITTERS: emitters, LEVEL: 3 if emitters else 2}
        results.append(jax.jit(all_of_them, compiler_options=options)(*args))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(*(np.asarray(r.astype(jnp.float32)) for r in (a, b)))


def test_wrong_profile():
    with pytest.raises(ValueError, match="jax_cpu_compile_profile"):
        jax.config.update("jax_cpu_compile_profile", "slow")
