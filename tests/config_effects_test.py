"""Each option does what it says: none is accepted and ignored."""

import logging
import warnings

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import config, lib

X = np.arange(3, dtype=np.float32)
NAN = np.float32(np.nan)


@pytest.fixture
def log(caplog):
    with caplog.at_level(logging.WARNING):
        yield lambda: "\n".join(r.getMessage() for r in caplog.records)


def test_options_of_missing_parts_warn():
    before = config.scan3.value
    try:
        with pytest.warns(UserWarning, match="jax_scan3 has no effect"):
            jax.config.update("jax_scan3", not before)
    finally:
        config.scan3.set_global(before)
    with pytest.warns(UserWarning, match="jax_disable_vmap_shmap_error has no effect") as caught:
        with config.disable_vmap_shmap_error(True):
            pass
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.config.update("jax_scan3", before)


@pytest.mark.parametrize(
    "name, value",
    [
        ("jax_enable_compilation_cache", False),
        ("jax_persistent_cache_min_compile_time_secs", 0.5),
        ("jax_use_magma", "off"),
        ("jax_cuda_visible_devices", "0"),
        ("jax_rocm_visible_devices", "0"),
    ],
)
def test_no_warning_where_the_option_is_read_or_changes_nothing(name, value):
    before = jax.config.values[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            jax.config.update(name, value)
    finally:
        jax.config.update(name, before)


# NaNs and infinities


@pytest.mark.parametrize("flag, value", [("debug_nans", np.nan), ("debug_infs", np.inf)])
def test_debug_checks_calls_that_skip_python(flag, value):
    value = np.float32(value)
    f = jax.jit(lambda x: lax.neg(lax.mul(x, x)))
    one = jnp.float32(1)
    for _ in range(2):  # compiled, with a native call path, before anyone looks for NaNs
        f(one), lax.mul(one, one), lax.neg(one)
    bad = jax.device_put(value)
    name = "nan" if np.isnan(value) else "inf"
    with getattr(jax, flag)(True):
        for _ in range(2):
            with pytest.raises(FloatingPointError, match=rf"\({name}\) encountered in mul"):
                f(bad)
            with pytest.raises(FloatingPointError, match=rf"\({name}\) encountered in neg"):
                lax.neg(bad)
        with getattr(jax, flag)(False):
            f(bad)
        assert f(one) == -1
    f(bad)
    jax.config.update("jax_" + flag, True)
    try:
        with pytest.raises(FloatingPointError, match="encountered in mul"):
            f(bad)
    finally:
        jax.config.update("jax_" + flag, False)
    f(bad)
    assert config.post_hook.value is None


def test_debug_nans_tells_that_a_jitted_function_runs_again(capsys):
    log = jax.jit(lambda x: jnp.sin(jnp.log(x)))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="in log"):
        log(-1.0)
    assert "the jitted function <lambda> has an invalid value (nan)" in capsys.readouterr().out


def test_debug_nans_inside_control_flow():
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="in div"):
        lax.scan(lambda c, x: (c * x / 0, c), 1.0, X)


@pytest.mark.parametrize("transform", [jax.jit, lambda f: f])
def test_debug_nans_inside_checkpoint(transform):
    f = transform(jax.grad(jax.checkpoint(lambda x: lax.sqrt(x) * 0.0)))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="in mul"):
        f(0.0)


def test_calls_after_debugging_are_native_again():
    f = jax.jit(lambda x: lax.neg(x))
    x = jnp.float32(1)
    with jax.debug_nans(True):
        f(x)
    f(x)
    calls = []
    with config.UserContext(config.post_hook, lambda *a: calls.append(a)):
        f(x)
    assert len(calls) == 1  # jaxlib calls the hook after native calls only


# What may be traced and run


def test_no_execution():
    f = jax.jit(lambda x: x * 2)
    f(X)
    compiled = f.lower(X).compile()
    with jax.no_execution(True):
        for call in (f, compiled, lambda x: lax.neg(jnp.asarray(x)), lambda x: jnp.asarray(x)[0]):
            with pytest.raises(RuntimeError, match="tried to execute function jit"):
                call(X)
        assert f.lower(X).compile() is not None
        assert jax.eval_shape(f, X).shape == (3,)
    assert f(X)[2] == 4


def test_no_tracing():
    f = jax.jit(lambda x: x * 2)
    f(X)
    with jax.no_tracing(True):
        f(X)
        f.lower(X)
        for call in (
            jax.make_jaxpr(lambda x: x),
            lambda x: jax.eval_shape(lambda y: y, x),
            lambda x: jax.jit(lambda y: y)(x),
            jax.checkpoint(lambda x: x),
            lambda x: lax.fori_loop(0, 2, lambda i, c: c, x),
            lambda x: f(x.astype(np.int32)),
        ):
            with pytest.raises(RuntimeError, match="re-tracing function.*'no_tracing' is set"):
                call(X)


def test_eager_constant_folding():
    def f(x):
        if jnp.sin(1.0) > 0:
            return x + jnp.sin(1.0) * 2
        return x

    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(f)(X)
    with config.eager_constant_folding(True):
        np.testing.assert_allclose(jax.jit(f)(X), X + 2 * np.sin(1.0), rtol=1e-6)
        jaxpr = jax.make_jaxpr(lambda x: x + jax.jit(jnp.sin)(1.0))(X)
        assert [e.primitive.name for e in jaxpr.eqns] == ["add"]
        named = jax.vmap(lambda x: x + lax.axis_index("i"), axis_name="i")
        assert jax.jit(named)(X).tolist() == [0, 2, 4]


def test_enable_checks(monkeypatch):
    from jax._src import core

    checked = []
    monkeypatch.setattr(core, "check_jaxpr", checked.append)
    with config.enable_checks(True):
        jax.make_jaxpr(lambda x: x + 1)(X)
    assert len(checked) == 1


# Types and indices


def test_allow_f16_reductions():
    half = jnp.ones(3, jnp.float16)
    assert lax.reduce_sum(half, (0,)) == 3
    with jax.allow_f16_reductions(False):
        with pytest.raises(ValueError, match="jax_allow_f16_reductions=False"):
            lax.reduce_sum(half, (0,))
        assert jnp.sum(half) == 3
    assert lax.reduce_sum(half, (0,)) == 3


def test_check_static_indices():
    x, y = jnp.asarray(X), jnp.ones((2, 3))
    with config.check_static_indices(True):
        for bad in (
            lambda: x[5],
            lambda: jax.jit(lambda x: x[5])(x),
            lambda: y[..., 3],
            lambda: y[0, np.int32(7)],
            lambda: y[jnp.array([0]), 3],
        ):
            with pytest.raises(IndexError, match=r"index \d out of bounds for axis \d with size 3"):
                bad()
        with pytest.raises(IndexError, match="index -4 out of bounds for axis 0 with size 3"):
            x[-4]
        assert x[-1] == 2 and x[1:9].shape == (2,) and x.at[7].set(1).tolist() == [0, 1, 2]
        assert x.at[5].get(mode="clip") == 2
    assert x[5] == 2


def test_rank_promotion_leaves_where_alone():
    with jax.numpy_rank_promotion("raise"):
        assert jnp.where(X > 0, jnp.ones((2, 3)), X).shape == (2, 3)
        with pytest.raises(ValueError, match="jax_numpy_rank_promotion"):
            jnp.add(X, jnp.ones((2, 3)))


# Random numbers


def test_random_seed_offset():
    with config.random_seed_offset(3):
        assert jax.random.PRNGKey(0).tolist() == [0, 3]
        assert jax.random.PRNGKey(2**31 - 2).tolist() == [0, 2**31 + 1]
        assert jax.jit(jax.random.PRNGKey)(1).tolist() == [0, 4]
    assert jax.jit(jax.random.PRNGKey)(1).tolist() == [0, 1]


def test_enable_custom_prng():
    with jax.enable_custom_prng(True):
        key = jax.random.PRNGKey(0)
    assert jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ()


def test_softmax_custom_jvp():
    def slope(x):
        return jax.jacobian(jax.nn.softmax)(x)

    plain = slope(X)
    mask = np.array([True, False, True])
    masked = jax.jacobian(lambda x: jax.nn.softmax(x, where=mask))(X)
    with jax.softmax_custom_jvp(True):
        assert "custom_jvp_call" in str(jax.make_jaxpr(jax.nn.softmax)(X))
        np.testing.assert_allclose(slope(X), plain, rtol=1e-5)
        got = jax.jacobian(lambda x: jax.nn.softmax(x, where=mask))(X)
        np.testing.assert_allclose(got, masked, rtol=1e-5, atol=1e-7)


def test_disable_bwd_checks():
    @jax.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (f(x), None), lambda _, g: (jnp.ones((1,)),))
    with pytest.raises(ValueError, match="bwd"):
        jax.grad(f)(1.0)
    with config.disable_bwd_checks(True):
        assert jax.grad(f)(1.0).shape == (1,)


# Explanations


def test_explain_cache_misses(log):
    @jax.jit
    def f(x, y=None):
        return x

    def explained(call):
        before = len(log())
        call()
        return log()[before:]

    with jax.explain_cache_misses(True):
        text = explained(lambda: f(X))
        assert "TRACING CACHE MISS at" in text and "config_effects_test.py" in text
        assert "never seen function" in text
        assert "now f32[2] and before f32[3]" in explained(lambda: f(X[:2]))
        assert "now i32[3] and before f32[3]" in explained(lambda: f(X.astype(np.int32)))
        text = explained(lambda: f({"a": X}))
        assert "different input pytree" in text and "their Python types differ" in text
        assert "now 2 and before 1 positional arguments" in explained(lambda: f(X, X))
        with jax.numpy_rank_promotion("raise"):
            text = explained(lambda: f(X))
        assert "jax_numpy_rank_promotion differs: now raise and before allow" in text
        assert explained(lambda: f(X)) == ""
        g = jax.jit(lambda x, n: x, static_argnums=1)
        g(X, 1)
        assert "now 2 and before 1" in explained(lambda: g(X, 2))
        for _ in range(2):
            text = explained(lambda: jax.jit(lambda x: x)(X))
        assert "another function defined on the same line" in text


def test_log_checkpoint_residuals(log):
    f = jax.checkpoint(
        lambda x: jnp.sin(jnp.sin(x)), policy=jax.checkpoint_policies.everything_saveable
    )
    with config.log_checkpoint_residuals(True):
        jax.grad(f)(1.0)
        jax.grad(jax.checkpoint(lambda x: x * x))(1.0)
    assert "saving these intermediates:\n  float32[] from output of " in log()
    assert "saving inputs with shapes:\n  float32[]" in log()


def test_report_of_captured_constants():
    big = jnp.ones(30)

    def f(x):
        return x + big

    with config.captured_constants_warn_bytes(100):
        with pytest.warns(UserWarning, match="report_frames to see where"):
            jax.jit(f).lower(1.0)
        with config.captured_constants_report_frames(1):
            with pytest.warns(UserWarning, match=r"float32\[30\], 120.00B, captured at:\n.*f\)"):
                jax.jit(f).lower(1.0)


def test_frames_of_leaked_tracers():
    def leak():
        leaks = []

        def outer(x):
            return inner(x)

        def inner(x):
            leaks.append(x + 1)
            return x

        jax.jit(outer)(X)
        return leaks[0]

    def frames():
        with pytest.raises(jax.errors.UnexpectedTracerError) as err:
            jnp.sin(leak())
        return str(err.value).split("excluding JAX-internal frames were:\n")[1].split("\n---")[0]

    before = jax.config.jax_tracer_error_num_traceback_frames
    assert "inner)" in frames() and "outer)" in frames()
    jax.config.update("jax_tracer_error_num_traceback_frames", 1)
    try:
        assert "inner)" in frames() and "outer)" not in frames()
    finally:
        jax.config.update("jax_tracer_error_num_traceback_frames", before)


# Compilation


def test_compile_options_of_options():
    from jax._src.compiler import get_compile_options

    def options():
        return get_compile_options(1, 1).executable_build_options

    assert not options().debug_options.xla_disable_hlo_passes
    with config.enable_remat_opt_pass(False):
        assert options().debug_options.xla_disable_hlo_passes == "rematerialization"
    if lib.has_efforts:
        with config.exec_time_optimization_effort(0.5), config.memory_fitting_effort(0.25):
            assert options().exec_time_optimization_effort == 0.5
            assert options().memory_fitting_effort == 0.25
    else:
        for option in (config.exec_time_optimization_effort, config.memory_fitting_effort):
            with pytest.warns(UserWarning, match="no numbers for XLA's effort"), option(0.5):
                assert not hasattr(options(), "exec_time_optimization_effort")
    with config.optimization_level("O1"), config.memory_fitting_level("O3"):
        assert options().optimization_level == 19
        assert options().memory_fitting_level == 39
    before = jax.config.jax_disable_most_optimizations
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        assert options().debug_options.xla_backend_optimization_level == 0
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


def test_explained_misses_are_of_user_functions_and_name_the_closest_call(caplog):
    f = jax.jit(lambda x, y: x)
    x4 = np.ones(4, np.float32)
    with jax.explain_cache_misses(True), caplog.at_level(logging.WARNING):
        f(X, 1.0)
        f(1.0, X)
        f(x4, 1.0)
        jax.lax.while_loop(lambda c: c[0] < 0, lambda c: c, jax.lax.exp(np.ones(7, np.float32)))
    misses = caplog.messages
    assert not any("_src" in m for m in misses), misses
    assert "* at x, now f32[4] and before f32[3]" in misses[2]
    assert "at y" not in misses[2]


def test_explained_misses_name_static_arguments(caplog):
    f = jax.jit(lambda x, s=1, *, k=2: x * s * k, static_argnums=1, static_argnames="k")
    f(X, 1, k=2)
    with jax.explain_cache_misses(True), caplog.at_level(logging.WARNING):
        f(X, 2, k=2)
        f(X, 1, k=3)
        f(X, k=2)
    assert "now 2 and before 1" in caplog.text
    assert "now 3 and before 2 for 'k'" in caplog.text
    assert "now 2 and before 3 for 'k'" in caplog.text  # the default of s is 1
