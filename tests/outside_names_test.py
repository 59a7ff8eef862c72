"""Names under `jax._src` that published libraries and their tests import: that they exist, and what they do.

Expected values that NumPy does not define are those of the reference build.
"""

import dataclasses
import importlib
import warnings

import numpy as np
import pytest

import jax
import jax.numpy as jnp
from jax._src import (
    api,
    api_util,
    blocked_sampler,
    call_primitives,
    checkify,
    config,
    core,
    custom_derivatives,
    error_check,
    pjit,
    test_util,
    xla_bridge,
)
from jax._src.cudnn import (
    cudnn_fusion,
    fused_attention_stablehlo as attention,
    scaled_matmul_stablehlo,
)
from jax._src.hijax import custom_vjp3
from jax._src.interpreters import partial_eval as pe, pxla
from jax._src.numpy import error as numpy_error, hijax
from jax._src.random import prng
from jax._src.tree_util.flat_tree import FlatTree
from jax.interpreters import ad
from jax.sharding import AxisType, PartitionSpec as P

if not xla_bridge.backends_are_initialized():
    jax.config.update("jax_num_cpu_devices", 8)

NAMES = """
jax._src.api.clear_backends jax._src.api.device_put jax._src.api.GradRef
jax._src.callback.emit_python_callback jax._src.checkify.Out
jax._src.config.jax_xla_profile_version jax._src.core.call_p
jax._src.core.new_ref jax._src.cudnn.fused_attention_stablehlo.paged_attention jax._src.custom_derivatives.optimize_remat_of_custom_vjp_fwd
jax._src.dtypes.bool_ jax._src.hijax.custom_vjp3 jax._src.hijax.hijax_method jax._src.interpreters.mlir._platforms_with_donation
jax._src.interpreters.partial_eval.PartialVal jax._src.interpreters.pxla.Mesh
jax._src.lax.index_in_dim jax._src.lib.cuda_versions jax._src.pjit.make_jit_cpp_cache
jax._src.random.clone jax._src.random.default_prng_impl jax._src.random.random_clone_p
jax._src.random.rbg.rbg_prng_impl jax._src.scipy.special._xlogx
jax._src.state.types._ref_type_aval_mappings jax._src.test_util._check_dtypes_match
jax._src.test_util.count_pjit_cpp_cache_miss jax._src.test_util.count_subjaxpr_to_hlo_conversion
jax._src.util.Mutex jax._src.util.install_failure_signal_handler
jax.experimental.key_reuse._core.consume_p jax.lib.__version__
jax._src.lax_reference.conv_general_dilated jax._src.lax_reference.reduce_window
jax._src.internal_test_util.test_harnesses.Harness jax._src.internal_test_util.lax_test_util.lax_ops
jax._src.internal_test_util.export_back_compat_test_util.CompatTestBase
jax._src.numpy.hijax.searchsorted jax._src.test_util.count_aot_jit_cpp_cache_miss
jax._src.test_util.count_internal_device_puts jax._src.test_util.count_device_put_fast_path_hit
""".split()

# Names that test suites of the original import and that are not here, with the reason.
ABSENT = {
    "jax._src.ad_checkpoint.custom_remat": "a rule of the original's rematerialization, used nowhere else",
    "jax._src.export.shape_poly_decision": "the original's own procedure to compare symbolic sizes",
    "jax._src.internal_test_util.export_back_compat_test_data": "programs that the original has exported:"
    " its own test data, which CompatTestBase runs where they are",
    "jax._src.interpreters.mlir._lowerings": "lowering rules are kept on their primitives",
    "jax._src.interpreters.pxla._cached_lowering_to_hlo": "programs are kept on their jaxprs",
    "jax._src.lax.eval_jaxpr": "calls of jaxprs are `closed_call_p`",
    "jax._src.numpy.indexing.IndexingStrategy": "a choice among the original's ways to lower an index",
    "jax._src.pjit._pjit_lower": "programs are kept on their jaxprs",
    "jax._src.state.primitives.pin": "no runtime has the custom call that it becomes",
    "jax._src.state.primitives.unpin": "no runtime has the custom call that it becomes",
}


@pytest.mark.parametrize("name", ABSENT)
def test_absent_names_are_listed(name):
    """A name that is there now has to leave the list."""
    module, attribute = name.rsplit(".", 1)
    with pytest.raises((ImportError, AttributeError)):
        getattr(importlib.import_module(module), attribute)
        pytest.fail(f"{name} is there")


@pytest.mark.parametrize("name", NAMES)
def test_exists(name):
    module, attribute = name.rsplit(".", 1)
    getattr(importlib.import_module(module), attribute)


def test_platforms_with_donation_can_be_added_to():
    platforms = importlib.import_module("jax._src.interpreters.mlir")._platforms_with_donation
    lower = lambda: jax.jit(lambda x: x + 1, donate_argnums=0).trace(jnp.ones(3)).lower().as_text()
    assert isinstance(platforms, list) and "aliasing_output" in lower()
    platforms.remove("cpu")
    try:
        with pytest.warns(UserWarning, match="onation"):
            assert "aliasing_output" not in lower()
    finally:
        platforms.insert(0, "cpu")


def test_referents():
    seen = []
    jax.jit(lambda x: seen.append(core.get_referent(x) is x) or x)(1.0)
    assert seen == [True] and core.get_referent(3) == 3


def test_checks_of_errors():
    """What is found, by category, is as with the reference."""

    def found(check, *args):
        check(*args)
        try:
            error_check.raise_if_error()
        except error_check.JaxValueError as e:
            return str(e).splitlines()[0]

    nan, zero = jnp.array([1.0, np.nan]), jnp.array([0, 1])
    gather = lambda *i: found(numpy_error._check_precondition_oob_gather, (3, 5), jnp.array(i))
    for chosen in ({}, {"nan": "raise"}, {"divide": "raise"}, {"oob": "raise"}):
        with numpy_error.error_checking_behavior(**chosen):
            outcomes = [
                found(numpy_error._set_error_if_nan, nan),
                found(numpy_error._set_error_if_divide_by_zero, zero),
                gather(2, 3),
                found(numpy_error._set_error_if_with_category, nan > 0, "words", "oob"),
            ]
            raised = [o is not None for o in outcomes]
            assert raised == ["nan" in chosen, "divide" in chosen, *["oob" in chosen] * 2]
            assert found(numpy_error._set_error_if_with_category, nan > 0, "words") == "words"
    with numpy_error.error_checking_behavior(all="raise"):
        assert found(numpy_error._set_error_if_nan, zero) is None and gather(2, -3) is None
        assert found(numpy_error._set_error_if_divide_by_zero, nan) is None
        assert gather(-4) == "Out of bounds encountered before calling `lax.gather`"
    for category in ("nan", "other"):
        with pytest.raises(ValueError, match=category):
            numpy_error._is_category_disabled(category)


def test_specs_keep_the_explicit_axes():
    types = (AxisType.Explicit, AxisType.Auto, AxisType.Manual, AxisType.Explicit)
    mesh = jax.sharding.AbstractMesh((2, 2, 2, 2), tuple("abcd"), axis_types=types)
    spec = P(("a", "b"), None, unreduced={"c", "d"})
    assert core.modify_spec_for_auto_manual(spec, mesh) == P("a", None, unreduced={"d"})
    assert core.modify_spec_for_auto_manual(P("c", ("a", "d")), mesh) == P(None, ("a", "d"))


def test_other_names_of_the_same():
    assert core.call == call_primitives.call_p.bind
    assert config._read("jax_enable_x64") is jax.config.jax_enable_x64
    assert jax.version._get_version_string() == jax.version._get_version_for_build()


def test_arguments_by_position_and_axes_by_leaf():
    def fun(a, b=3):
        return a, b

    assert api_util.resolve_kwargs(fun, (1,), {"b": 2}) == (1, 2)
    with pytest.raises(TypeError, match="unexpected keyword"):
        api_util.resolve_kwargs(fun, (1,), {"z": 2})
    tree = jax.tree.structure((1, {"a": 2, "b": 3}))
    assert api_util.flatten_axis_resources("what", tree, (None, "x"), True) == (None, "x", "x")
    with pytest.raises(ValueError, match="what specification must be a tree prefix"):
        api_util.flatten_axis_resources("what", tree, ("x",), True)


def test_types_and_bases_of_trees():
    assert api._dtype(1.0) == np.float32
    blocks = api._std_basis((jnp.ones(2), jnp.ones(())))
    np.testing.assert_array_equal(np.column_stack(blocks), np.eye(3))


@pytest.mark.parametrize("what", ["arrays", "keys"])
def test_values_of_devices(what):
    devices = jax.devices()[:2]
    values = [jnp.arange(3.0) + i for i in range(len(devices))]
    if what == "keys":
        values = list(jax.random.split(jax.random.key(0), len(devices)))
    same = lambda x, y: np.testing.assert_array_equal(x == y, True)
    stacked = api.device_put_sharded(values, devices)
    same(stacked, jnp.stack(values))
    assert stacked.sharding.spec == P("_device_put_sharded")
    copies = api.device_put_replicated({"a": values[0]}, devices)["a"]
    same(copies, jnp.stack([values[0]] * len(devices)))
    with pytest.raises(ValueError, match="must equal len"):
        api.device_put_sharded([*values, values[0]], devices)
    with pytest.raises(ValueError, match="non-empty sequence"):
        api.device_put_replicated(values[0], [])


def test_maybe_perturbed():
    seen = []

    def fun(x):
        seen.append(custom_derivatives._maybe_perturbed(x))
        return x

    fun(1.0)
    jax.grad(fun)(1.0)
    jax.vmap(fun)(jnp.ones(2))
    jax.grad(lambda x: jax.vmap(fun)(x).sum())(jnp.ones(2))
    assert seen == [False, True, False, True]


def test_forward_rule_without_residuals():
    def fun(x, n):
        return jnp.sin(x) * n

    def fwd(x, n):
        return jnp.cos(x), (x * 2.0,)

    rule = custom_derivatives.optimize_remat_of_custom_vjp_fwd(fun, None, fwd, None, (1,))
    out, (residual,) = jax.jit(lambda x: rule(x, n=3.0))(2.0)
    np.testing.assert_allclose([out, residual], [np.cos(2.0), 4.0], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x: rule(x, 3.0)[0])(2.0), 3 * np.sin(2.0), 1e-6)
    with pytest.raises(NotImplementedError, match="symbolic zeros"):
        custom_derivatives.optimize_remat_of_custom_vjp_fwd(fun, None, fwd, None, (), True)


def test_staging_rules():
    twice_p = core.Primitive("twice")
    twice_p.def_abstract_eval(lambda x, **_: x)

    def by_equation(trace, source_info, x):
        eqn, (out,) = trace.make_eqn([x], [x.aval], twice_p, {}, core.no_effects, source_info)
        trace.frame.add_eqn(eqn)
        return out

    def by_fields(trace, source_info, x):
        var = trace.frame.newvar(x.aval)
        context = core.current_jaxpr_eqn_context()
        eqn = pe.TracingEqn([x], [var], twice_p, {"n": 2}, frozenset(), source_info, context)
        trace.frame.add_eqn(eqn)
        assert trace.frame.get_eqns()[-1].invars == eqn.invars
        return pe.DynamicJaxprTracer(trace, x.aval, var, source_info)

    for rule, params in ((by_equation, {}), (by_fields, {"n": 2})):
        pe.custom_staging_rules[twice_p] = rule
        jaxpr = jax.make_jaxpr(lambda x: twice_p.bind(x) + 1.0)(2.0)
        assert [e.primitive.name for e in jaxpr.eqns] == ["twice", "add"]
        assert jaxpr.eqns[0].params == params
        core.check_jaxpr(jaxpr.jaxpr)
    assert pe.custom_staging_rules[pjit.jit_p] is pjit.pjit_staging_rule


def test_searches_of_batches():
    a = np.sort(np.random.RandomState(0).randint(0, 9, (2, 5, 3)).astype(np.float32), axis=1)
    v = np.arange(8, dtype=np.float32).reshape(2, 4)
    for side in ("left", "right"):
        found = hijax.searchsorted(a, v, side=side, dimension=1, batch_dims=1, dtype="int8")
        want = [[np.searchsorted(x, q, side) for x in rows.T] for rows, q in zip(a, v)]
        assert found.dtype == np.int8
        np.testing.assert_array_equal(found, want)
    many = np.arange(200, dtype=np.float32)
    assert hijax.searchsorted(many, np.float32(150), dtype="uint8") == 150
    with pytest.raises(OverflowError, match="200 elements do not fit in dtype=int8"):
        hijax.searchsorted(many, np.float32(150), dtype="int8")
    with pytest.raises(ValueError, match="integer type; got float32"):
        hijax.searchsorted(many, np.float32(150), dtype="float32")
    with pytest.raises(ValueError, match="dtypes of sorted_arr and query must match"):
        hijax.searchsorted(many, 150)


def test_inputs_that_are_not_used():
    jaxpr = jax.make_jaxpr(lambda x, y, z: y + 1.0)(1.0, 2.0, 3.0).jaxpr
    pruned, consts, args = pxla.prune_unused_inputs(jaxpr)
    assert (len(pruned.invars), consts, args) == (1, set(), {1})


def test_results_from_buffers():
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    array = pxla.cc_shard_arg(x=np.ones(2, np.float32), sharding=sharding, layout=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make = jax.interpreters.pxla.global_avals_to_results_handler
    assert "deprecated" in str(caught[0].message)
    handler = make([core.typeof(array)], [sharding], True)
    (result,) = handler([[array]])
    np.testing.assert_array_equal(result, array)
    assert result.sharding == sharding and handler.out_shardings == [sharding]


def test_counters():
    fun = jax.jit(lambda x: x + 1)
    with test_util.count_pjit_cpp_cache_miss() as misses:
        fun(1.0), fun(2.0), fun(1)
    assert misses() == 2

    @jax.jit
    def inner(x):
        return x * 2

    with test_util.count_subjaxpr_to_hlo_conversion("inner") as count:
        jax.jit(lambda x: inner(x) + inner(x + 1.0)).lower(1.0)
    assert count() == 1
    events = []
    with test_util.register_event_duration_listener(lambda *args, **_: events.append(args)):
        jax.jit(lambda x: x - 2)(1.0)
    assert events and isinstance(events[0][1], float)
    test_util._check_dtypes_match((1.0, np.ones(2, np.float32)), (2.0, jnp.ones(3)))
    with pytest.raises(AssertionError, match="int32"):
        test_util._check_dtypes_match(1, 2.0)


def test_generators_by_module():
    for name in ("threefry2x32", "threefry4x32", "philox2x32", "philox4x32"):
        module = importlib.import_module(f"jax._src.random.{name}")
        short = name.removesuffix("2x32") if name == "threefry2x32" else name
        seed, bits = (getattr(module, f"{short}_{f}") for f in ("seed", "random_bits"))
        raw = seed(seed=jnp.int32(5))
        expected = jax.random.key_data(jax.random.key(5, impl=name))
        for five in (5, np.int8(5), np.int64(5)):
            np.testing.assert_array_equal(seed(five), expected)
        np.testing.assert_array_equal(raw, expected)
        for wrong, error in (
            (True, TypeError),
            (5.0, TypeError),
            ([5], TypeError),
            (2**31, OverflowError),
        ):
            with pytest.raises(error):
                seed(wrong)
        with pytest.raises(TypeError, match="8, 16, 32 or 64 bits, not 5"):
            bits(raw, 5, (2,))
        assert bits is prng.find_impl(name).random_bits


def test_what_generators_refuse():
    """Integers and scalar arrays are folded into keys; anything else the reference refuses too."""
    for name in ("threefry2x32", "threefry4x32", "philox2x32", "philox4x32"):
        module = importlib.import_module(f"jax._src.random.{name}")
        short = name.removesuffix("2x32") if name == "threefry2x32" else name
        fold_in, bits = (getattr(module, f"{short}_{f}") for f in ("fold_in", "random_bits"))
        key = jax.random.key_data(jax.random.key(5, impl=name))
        expected = jax.random.key_data(jax.random.fold_in(jax.random.key(5, impl=name), 2**32 - 3))
        for data in (-3, np.int8(-3), jnp.uint32(2**32 - 3), np.int64(-3)):
            np.testing.assert_array_equal(fold_in(key, data), expected)
        for data in (5.0, 1j, [5], None, "5", np.arange(2), jnp.zeros((1,), jnp.uint32)):
            with pytest.raises(TypeError, match="fold_in accepts"):
                fold_in(key, data)
        for wrong in (np.zeros(9, np.uint32), np.float32(key), jnp.int32(key), jax.random.key(0)):
            for call in (lambda k: fold_in(k, 1), lambda k: bits(k, 32, (1000,))):
                with pytest.raises(TypeError, match="a raw key must be a uint32 array of shape"):
                    call(wrong)


def test_classes_without_further_attributes():
    effect = checkify.ErrorEffect(checkify.NaNError, ())
    config = scaled_matmul_stablehlo.BlockScaleConfig("mxfp8", 32, None, None, None, False)
    for instance in (effect, config):
        fields = [f.name for f in dataclasses.fields(instance)]
        assert all(hasattr(type(instance), name) for name in fields)
        with pytest.raises((AttributeError, TypeError)):
            instance.another = 1
    config.infer_only = True
    assert hash(effect) == hash(checkify.ErrorEffect(checkify.NaNError, ()))
    assert custom_vjp3(f=jnp.sin, nondiff_argnums=0).static_argnums == {0}


def test_floats_of_words():
    to_float = importlib.import_module("jax._src.random.core")._safe_int_to_float
    words = [(0, 0), (0, 2), (2**32 - 1, 2**32 - 1), (2**31 + 384, 0), (1, 513), (12345, 678)]
    found = to_float(np.array(words, np.uint32).T, np.dtype(np.float32))
    expected = [
        2.0**-65,
        2.0**-63,
        1 - 2.0**-24,
        0.5 + 2.0**-24,
        (1 + 2.0**-23) * 2.0**-32,
        12345 * 2.0**-32,
    ]
    np.testing.assert_array_equal(np.asarray(found, np.float64), expected)
    with pytest.raises(TypeError, match="uint32 to float16"):
        to_float(np.zeros((2, 1), np.uint32), np.dtype(np.float16))


@pytest.mark.parametrize("block", [(2, 3), (4, 3), (4, 6)])
def test_blocks_of_random_numbers(block):
    key, tile, total = jax.random.key(0), (1, 3), (4, 6)

    def draw(*index):
        keys = blocked_sampler.blocked_fold_in(key, total, block, tile, index)
        return blocked_sampler.sample_block(
            jax.random.uniform, keys, block_size=block, tile_size=tile
        )

    last = [n // b - 1 for n, b in zip(total, block)]
    for out in (draw(*last), jax.jit(draw)(*last)):
        np.testing.assert_allclose(
            out[-2:, -3:],
            [[0.73806036, 0.62536097, 0.8977374], [0.47504628, 0.07194722, 0.18572855]],
            rtol=1e-6,
        )
    with pytest.raises(ValueError, match="must divide"):
        blocked_sampler.blocked_fold_in(key, total, (3, 3), (2, 3), (0, 0))


def test_cudnn_fusion():
    @cudnn_fusion
    def fused(x, y, scale=1.0):
        return {"out": jnp.float32(jax.lax.batch_matmul(jnp.bfloat16(x), y)) * scale}

    x, y = jnp.ones((1, 2, 8), jnp.int8), jnp.ones((1, 8, 2), jnp.bfloat16)
    np.testing.assert_array_equal(fused(x, y, scale=2.0)["out"], np.full((1, 2, 2), 16.0))
    text = fused.trace(x, y).lower(lowering_platforms=("cuda",)).as_text()
    assert "@__cudnn$fusion(" in text and "called_computations = [@fused.impl]" in text


def struct(*shape, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(shape, dtype)


BTNH = attention.AttentionLayout.BTNH
Q, LENGTHS = struct(2, 128, 4, 64), struct(2, dtype=np.int32)
LAYOUT_ERRORS = {
    "Q must have a rank of 4": (struct(2, 128, 4), Q, Q),
    "QKV batch must be same": (struct(3, 128, 4, 64), Q, Q),
    "QKV dtype must be same": (Q, struct(2, 128, 4, 64, dtype=np.float16), Q),
    "QK must have same head dim": (Q, struct(2, 128, 4, 32), Q),
    "KV must have same number of heads": (Q, struct(2, 128, 2, 64), Q),
    "KV must have same seq length": (Q, Q, struct(2, 64, 4, 64)),
    "Bias must have same seq length": (Q, Q, Q, struct(1, 4, 128, 1)),
    "q_seqlen must have int32": (Q, Q, Q, None, struct(2, dtype=np.int64)),
    "kv_seqlen must have a rank of 1": (Q, Q, Q, None, None, struct(2, 1, dtype=np.int32)),
    "q_seqlen must have same batch": (Q, Q, Q, None, struct(3, dtype=np.int32)),
    "page_table_k must have same number of blocks": (
        Q, *[struct(40, 64, 4, 64)] * 2, None, LENGTHS, LENGTHS, None, None,
        *[struct(2, 1, 3, 1, dtype=np.int32)] * 2,
    ),
}  # fmt: skip


def test_attention_checks(monkeypatch):
    assert attention._normalize_layout("bsnh") == BTNH
    attention.check_layout(Q, Q, Q, None, LENGTHS, LENGTHS, None, None, None, None, BTNH)
    for message, operands in LAYOUT_ERRORS.items():
        with pytest.raises(ValueError, match=message):
            attention.check_layout(*operands, *[None] * (10 - len(operands)), layout=BTNH)
    check = attention.check_is_flash_attention
    large, odd = struct(2, 128, 4, 256), struct(2, 127, 4, 64)
    check(Q, Q, Q, BTNH, 90600, True, True)
    check(odd, odd, odd, BTNH, 90600, False, True)
    for message, operands, options in (
        ("head dim must be <= 128", [large] * 3, {}),
        ("Unsupported sequence length Q 127, KV 127", [odd] * 3, {}),
        ("Hopper", [Q] * 3, {"is_packed": True}),
        ("at least hopper", [Q, Q, struct(2, 128, 4, 128)], {}),
        ("for FP8", [Q] * 3, {"is_fp8": True}),
    ):
        with pytest.raises(NotImplementedError, match=message):
            check(*operands, BTNH, 90600, True, True, **options)
    monkeypatch.setattr(attention, "check_compute_capability", lambda _: True)
    check(*[large] * 3, BTNH, 90600, True, True, is_packed=True)


def test_gpus_that_are_not_there():
    if "cuda" in xla_bridge.backends():
        pytest.skip("there are GPUs")
    assert not attention.check_compute_capability("8.0")
    with pytest.raises(RuntimeError, match="cuDNN is not detected"):
        attention.check_cudnn_version()


def test_attention_by_cudnn():
    kinds = attention.MaskType

    def call(layout, **options):
        def fun(x):
            return attention.dot_product_attention(x, x, x, qkv_layout=layout, **options)

        shape = (2, 128, 4, 64) if layout == "BTNH" else (2, 4, 128, 64)
        traced = jax.jit(fun).trace(struct(*shape))
        return traced.out_info, traced.lower(lowering_platforms=("cuda",)).as_text()

    (out, sums), text = call(
        "BNTH", mask_type=kinds.CAUSAL, sliding_window_length=5, return_residual=True, scale=0.5
    )
    assert out.shape == (2, 4, 128, 64) and (sums.shape, sums.dtype) == ((2, 4, 128), np.float32)
    for part in (
        "fmhaSoftmax",
        "22CAUSAL",
        "sliding_window_length\\22: 5",
        "fmha_scale\\22: 0.5",
    ):
        assert part in text, part
    for error, message, options in (
        (ValueError, "q_seqlen and kv_seqlen", {"mask_type": kinds.PADDING}),
        (ValueError, "sliding_window_length > 0", {"sliding_window_length": 0}),
        (NotImplementedError, "without fp8_params, use_fp8", {"fp8_params": {}, "use_fp8": True}),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            call("BTNH", **options)


def test_products_of_scaled_matrices():
    x = jnp.arange(24.0).reshape(2, 3, 4)
    normalize = scaled_matmul_stablehlo.shape_normalization
    assert normalize(x, ((1, 2), ())).shape == (1, 2, 12)
    np.testing.assert_array_equal(normalize(x, ((0,), (2,))), x.transpose(2, 1, 0))
    config = jax.nn.get_scaled_dot_general_config("mxfp8")
    assert isinstance(config, scaled_matmul_stablehlo.BlockScaleConfig)
    product = scaled_matmul_stablehlo.scaled_dot_general_wrapper
    operands = struct(2, 32, dtype=np.float32), struct(3, 32, dtype=np.float32)
    out = jax.eval_shape(
        lambda x, y: product(x, y, (((1,), (1,)), ((), ())), configs=[config] * 3), *operands
    )
    assert (out.shape, out.dtype) == ((2, 3), np.float32)


def test_factors_of_fourier_transforms():
    fft = importlib.import_module("jax._src.numpy.fft")
    np.testing.assert_allclose(fft._fft_norm(np.array([2, 3]), "ifft", "forward"), 6.0)
    np.testing.assert_allclose(fft._fft_norm(np.array([2, 3]), "fft", "ortho"), 6**-0.5)


def test_remaining_items():
    lax = importlib.import_module("jax._src.lax.lax")
    assert lax.remaining([1, 2, 3, 4, 2], [2], [3]) == [1, 4]


def test_folders_of_dumps(tmp_path, monkeypatch):
    path = importlib.import_module("jax._src.path")
    assert path.make_jax_dump_dir("") is None
    assert path.make_jax_dump_dir(str(tmp_path / "a" / "b")).is_dir()
    monkeypatch.delenv("TEST_UNDECLARED_OUTPUTS_DIR", raising=False)
    with pytest.raises(ValueError, match="TEST_UNDECLARED_OUTPUTS_DIR"):
        path.make_jax_dump_dir("sponge")


def test_elements_gathered_where_others_are_selected():
    windows = importlib.import_module("jax._src.lax.windowed_reductions")
    window = dict(
        window_dimensions=(2,), window_strides=(1,), padding=((0, 0),), base_dilation=(1,),
        window_dilation=(1,),
    )  # fmt: skip
    gathered = windows._select_and_gather_add(
        jnp.arange(4.0), jnp.array([1.0, 3.0, 2.0, 5.0]), jax.lax.ge_p, **window
    )
    np.testing.assert_array_equal(gathered, [1, 1, 3])
    scattered = windows._select_and_scatter_add(
        jnp.array([1.0, 2.0, 3.0]),
        jnp.array([1.0, 3.0, 2.0, 5.0]),
        jax.lax.ge_p,
        (2,),
        (1,),
        ((0, 0),),
    )
    np.testing.assert_array_equal(scattered, [0, 3, 0, 3])


def test_lu_by_operations():
    """The results are those of kernels; they also exist for types that no kernel takes."""
    lu_python = importlib.import_module("jax._src.lax.linalg")._lu_python
    rng = np.random.RandomState(0)
    for shape in ((4, 4), (3, 5), (2, 5, 3), (2, 0, 3)):
        real = rng.randn(*shape).astype(np.float32)
        for x in (jnp.array(real), jnp.array(real + 1j * rng.randn(*shape).astype(np.float32))):
            for ours, kernel in zip(lu_python(x), jax.lax.linalg.lu(x), strict=True):
                np.testing.assert_allclose(ours, kernel, rtol=1e-5, atol=1e-5)
                assert ours.dtype == kernel.dtype
    half, pivots, permutation = lu_python(jnp.array([[1, 2], [4, 2], [2, 4]], jnp.float16))
    np.testing.assert_array_equal(half, np.array([[4, 2], [0.5, 3], [0.25, 0.5]], np.float16))
    assert (pivots.tolist(), permutation.tolist()) == ([1, 2], [1, 2, 0])
    # What the reference gives for matrices without a factorization, or with NaNs.
    singular = lu_python(jnp.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]))
    np.testing.assert_allclose(singular[0], [[0, 1], [0, 3], [0, 2 / 3]], rtol=1e-6)
    assert singular[1].tolist() == [0, 2]
    nans = lu_python(jnp.array([[np.nan, 1.0], [2.0, 3.0]]))
    np.testing.assert_array_equal(nans[0], [[np.nan, 1.0], [np.nan, np.nan]])
    with pytest.raises(TypeError, match="int32"):
        lu_python(jnp.ones((3, 3), jnp.int32))


def test_taylor_series_of_the_logistic_function():
    jet = importlib.import_module("jax.experimental.jet")
    out, (first, second) = jet._logistic_taylor((0.5,), ([1.0, 0.0],))
    np.testing.assert_allclose([out, first, second], [0.62245935, 0.23500371, -0.0287784], 1e-5)


def test_modules_with_deprecated_and_late_names():
    module = importlib.import_module("jax._src.internal_test_util.deprecation_module")
    with pytest.warns(DeprecationWarning, match="Please use x"):
        assert module.y == 101
    with pytest.raises(AttributeError, match="Please do not use z"):
        getattr(module, "z")  # noqa: B009
    late = importlib.import_module("jax._src.internal_test_util.lazy_loader_module")
    assert dir(late) == ["lazy_test_submodule"]
    assert callable(late.lazy_test_submodule.a_function)


def test_linearize_of_trees():
    """The results are those of the reference."""
    args = FlatTree.flatten(({"p": 1.0}, 2.0))
    fun = lambda x, y: (jnp.sin(x["p"]) * y, 3, y)
    out, zeros, jaxpr, consts = ad.linearize(fun, args)
    np.testing.assert_allclose(out.unflatten()[0], 1.682942, rtol=1e-6)
    assert out.unflatten()[1:] == (3, 2.0) and zeros == [False, True, False]
    tangents = core.eval_jaxpr(jaxpr, consts, 1.0, 10.0)
    np.testing.assert_allclose(tangents, [9.495314, 10.0], rtol=1e-6)
    *_, aux = ad.linearize(lambda x: (x, {"twice": 2 * x}), FlatTree.flatten((1.5,)), has_aux=True)
    assert aux == {"twice": 3.0}
    consts_of = lambda x: ad.linearize(jnp.sin, FlatTree.flatten((x,)))[3]
    np.testing.assert_allclose(jax.jit(consts_of)(1.0), [0.540302], rtol=1e-6)


def test_ranges_of_axes():
    """Libraries reduce over the last dimensions by `range(-n, 0)`."""
    x = jnp.arange(6.0).reshape(2, 3)
    for axes in (range(-1, 0), range(2), range(0)):
        for reduce in (jnp.sum, jnp.max, jnp.mean, jnp.prod, jnp.any, jnp.var):
            np.testing.assert_array_equal(reduce(x, axis=axes), reduce(x, axis=tuple(axes)))
    assert x.sum(range(-1, 0)).tolist() == [3.0, 12.0]
