"""Operations with partitioning rules beside the reference, and what it does not tell or compute."""

import gc
import weakref

import numpy as np
import pytest
from custom_partitioning_scenarios import VALUES, make_mesh, operation, sharded, shardings_of, show
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax._src import config, custom_partitioning as implementation
from jax.errors import JaxRuntimeError, UnexpectedTracerError
from jax.experimental.custom_partitioning import (
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

reference, test_reference, _ = case_tests(__file__)


def test_wrapped_function_is_documented():
    @custom_partitioning
    def scale(x):
        """Scales."""
        return x

    assert scale.__name__ == "scale" and scale.__doc__ == "Scales."
    with pytest.raises(AttributeError, match="scale: call its def_partition"):
        scale(1.0)


@pytest.mark.parametrize("decode", [True, False])
def test_gspmd(decode):
    seen = []

    def infer(mesh, arg_shapes, result_type):
        seen.append((arg_shapes[0].sharding, result_type))
        return arg_shapes[0].sharding

    def propagate(mesh, shape):
        seen.append((shape.sharding, shape.shape))
        return shape.sharding

    op = operation(
        infer_sharding_from_operands=infer,
        propagate_user_sharding=propagate,
        decode_shardings=decode,
    )
    with config.use_shardy_partitioner(False):
        y = jax.jit(lambda x: jnp.cos(op(x)))(sharded("x", "y"))
    np.testing.assert_allclose(y, np.cos(np.sin(VALUES)), rtol=1e-5)
    assert y.sharding.spec == P("x", "y") and len(seen) > 1
    assert all(isinstance(sharding, NamedSharding) == decode for sharding, _ in seen)


def test_gspmd_several_results():
    op = operation(
        lambda x: (x, x * 2), rule="i j -> i j, i j",
        infer_sharding_from_operands=lambda mesh, args, result: (args[0].sharding,) * 2,
    )  # fmt: skip
    with config.use_shardy_partitioner(False):
        a, b = jax.jit(op)(sharded("x", "y"))
    np.testing.assert_array_equal(b, VALUES * 2)
    assert a.sharding.spec == b.sharding.spec == P("x", "y")


@pytest.mark.parametrize("which", ["infer_sharding_from_operands", "propagate_user_sharding"])
@pytest.mark.parametrize("results", [1, 2])
def test_errors_of_gspmds_rules(which, results):
    # In the reference they end the process.
    def fails(*args):
        raise KeyError("from the rule")

    as_is = lambda mesh, args, result: (args[0].sharding,) * 2 if results == 2 else args[0].sharding
    fun = (lambda x: (x * 2, x * 3)) if results == 2 else jnp.sin
    op = operation(
        fun, rule="i j -> i j" + ", i j" * (results - 1),
        **{"infer_sharding_from_operands": as_is, which: fails},
    )  # fmt: skip
    with config.use_shardy_partitioner(False):
        with pytest.raises(JaxRuntimeError, match="from the rule") as caught:
            jax.jit(lambda x: jax.tree.map(jnp.cos, op(x)))(sharded("x", "y"))
        assert isinstance(caught.value.__cause__, KeyError)


def test_errors_are_causes_of_the_compilers():
    fails = True

    def partition(mesh, args, result):
        if fails:
            raise KeyError("from the rule")
        return mesh, jnp.sin, result.sharding, shardings_of(args)

    lowered = jax.jit(operation(partition=partition)).lower(sharded("x", "y"))
    with pytest.raises(JaxRuntimeError, match="from the rule") as caught:
        lowered.compile()
    assert isinstance(caught.value.__cause__, KeyError)
    fails = False
    np.testing.assert_allclose(lowered.compile()(sharded("x", "y")), np.sin(VALUES), rtol=1e-6)


def test_gspmd_needs_infer_sharding():
    with config.use_shardy_partitioner(False):
        with pytest.raises(NotImplementedError, match="pass one to its def_partition"):
            jax.jit(operation())(sharded("x", "y"))


@pytest.mark.parametrize(
    "effect",
    [
        lambda x: (jax.debug.print("{}", x[0]), x)[1],
        lambda x: jax.pure_callback(lambda v: v * 2, x, x),
    ],
)
def test_functions_of_shards_cannot_call_python(effect):
    # In the reference the process crashes.
    def partition(mesh, args, result):
        return mesh, effect, result.sharding, shardings_of(args)

    with pytest.raises(JaxRuntimeError, match="which is not supported"):
        jax.jit(operation(partition=partition))(sharded("x", "y"))


def test_closed_over_values():
    constant = jnp.arange(8.0)
    op = operation(lambda x: x + constant)
    np.testing.assert_array_equal(op(VALUES), VALUES + constant)
    np.testing.assert_array_equal(jax.jit(op)(VALUES), VALUES + constant)
    with pytest.raises(UnexpectedTracerError, match="closes over a value"):
        jax.jit(lambda x: operation(lambda y: x + y)(x))(VALUES)

    def of_tracer(x):
        def partition(mesh, args, result):
            return mesh, lambda y: y + x[0, 0], result.sharding, shardings_of(args)

        return operation(partition=partition)(x)

    with pytest.raises(JaxRuntimeError, match="[Tt]racer"):
        jax.jit(of_tracer)(sharded("x", "y"))


def test_ordered_effects_are_rejected():
    def prints(x):
        jax.debug.print("{}", x, ordered=True)
        return x

    with pytest.raises(NotImplementedError, match="ordered effects"):
        operation(prints)(VALUES)


def test_keyword_only_parameters_are_rejected():
    with pytest.raises(TypeError, match="cannot have keyword-only arguments"):
        operation(lambda x, *, y=2: x)(x=VALUES)


def test_static_arguments_by_negative_positions_and_one_number():
    seen = []
    op = operation(lambda x, s: x * s, static_argnums=-1, log=seen)
    y = jax.jit(lambda x: op(x, 3))(sharded("x"))
    np.testing.assert_array_equal(y, VALUES * 3)
    assert seen and seen[0].startswith("(3, ")
    with pytest.raises(IndexError, match="out of range for a call with 1 arguments"):
        operation(lambda *args: args[0], static_argnums=2)(VALUES)


def test_settings_of_the_calling_thread():
    def partition(mesh, args, result):
        return (
            mesh,
            lambda x: x * np.float64(2) + jnp.arange(4.0),
            result.sharding,
            shardings_of(args),
        )

    with jax.enable_x64(True):
        x = jax.device_put(VALUES.astype(np.float64), NamedSharding(make_mesh(), P("x", "y")))
        y = jax.jit(operation(lambda x: x * 2.0, partition=partition))(x)
        assert y.dtype == np.float64


def test_rules_live_as_long_as_the_program():
    class Big:
        pass

    big = Big()
    alive = weakref.ref(big)

    def partition(mesh, args, result, big=big):
        return mesh, jnp.sin, result.sharding, shardings_of(args)

    f = jax.jit(operation(lambda x: jnp.sin(x), partition=partition))
    f(sharded("x", "y"))
    lowered = f.lower(sharded("x", "y"))
    del f, big, partition
    jax.clear_caches()
    gc.collect()
    assert alive() is not None  # the lowered program can be compiled
    lowered.compile()
    del lowered
    jax.clear_caches()
    gc.collect()
    assert alive() is None and not list(implementation._rules_by_key)


def test_modules_without_their_functions_do_not_compile():
    text = jax.jit(operation()).lower(sharded("x", "y")).as_text()
    gc.collect()
    key = text.split('backend_config = "')[1].split('"')[0]
    module = text.replace(f'"{key}"', '"missing"')
    client = jax.devices()[0].client
    lowered = jax.jit(jnp.sin).lower(sharded("x", "y"))
    options = jax._src.compiler.get_compile_options(num_replicas=1, num_partitions=8)
    options.executable_build_options.use_shardy_partitioner = True
    options.executable_build_options.use_spmd_partitioning = True
    from jax._src.lib import _jax

    with pytest.raises(JaxRuntimeError, match="do not exist any more"):
        client.compile_and_load(module, _jax.DeviceList(tuple(jax.devices()[:8])), options)
    assert lowered is not None


def test_partly_manual_meshes_give_named_shardings():
    # The reference has no mesh for them.
    seen = []
    op = operation(log=seen)
    mesh = make_mesh()
    f = jax.shard_map(op, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    y = jax.jit(f)(sharded("x", "y"))
    np.testing.assert_allclose(y, np.sin(VALUES), rtol=1e-6)
    assert "'y': 2" in seen[0] and "P(None, 'y')" in seen[0]


def test_rule_objects_show_their_contents():
    rule = SdyShardingRule((), (), reduction_factors=())
    assert repr(rule) == "SdyShardingRule((), (), {})"
    with pytest.raises(TypeError, match="operand_mappings must be a tuple"):
        SdyShardingRule("a", ())
    both = (ArrayMapping(CompoundFactor("a", "b")),)
    assert SdyShardingRule(both, both, a=np.int32(4), b=2).factor_sizes == {"a": 4, "b": 2}
    with pytest.raises(TypeError, match="The size of factor a must be an integer, but got '4'"):
        SdyShardingRule(both, both, a="4", b=2)


def test_bad_definitions():
    op = custom_partitioning(jnp.sin)
    with pytest.raises(TypeError, match="takes a function as partition"):
        op.def_partition(None)
    with pytest.raises(TypeError, match="custom_partitioning takes a function"):
        custom_partitioning(3)
    with pytest.raises(AttributeError, match="call its def_partition"):
        op(VALUES)


def test_explicit_axes_keep_their_types():
    x = sharded("x", "y", axis_type=AxisType.Explicit)
    assert show(jax.jit(operation())(x))[0] == "float32[8@x,8@y]"
