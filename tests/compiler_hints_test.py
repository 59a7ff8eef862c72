"""Programs with hints for the compiler beside the reference, and what it does not tell or compute."""

import gc
import re
import warnings
import weakref

import numpy as np
import pytest
from compiler_hints_scenarios import groups, hints, on_host, one_kernel, sharded
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax._src.interpreters import mlir
from jax.experimental import scheduling_groups
from jax.experimental.compute_on import compute_on, compute_on2
from jax.experimental.fused import fused
from jax.experimental.shard_alike import shard_alike
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import AxisType, PartitionSpec as P

reference, test_reference, _ = case_tests(__file__)

DEVICE, HOST = jax.memory.Space.Device, jax.memory.Space.Host
X = np.arange(4, dtype=np.float32)


def test_functions_keep_their_names_and_keyword_arguments():
    def compute(x, *, scale):
        """Scales."""
        return x * scale

    for wrapped in (
        on_host(compute),
        scheduling_groups.xla_metadata_call(compute, a="b"),
        fused(out_spaces=(DEVICE,))(compute),
    ):
        assert wrapped.__name__ == "compute" and wrapped.__doc__ == "Scales."
        assert (
            "module @jit_compute "
            in jax.jit(wrapped).trace(X, scale=2.0).lower(lowering_platforms=("cuda",)).as_text()
        )


def test_derivatives_of_functions_with_results_in_host_memory():
    # The reference raises an error: the cotangent is in another memory than the result.
    to_host = on_host(lambda x: jnp.sin(x) * 2, HOST)
    grad = jax.grad(lambda x: jax.device_put(to_host(x), DEVICE).sum())
    np.testing.assert_allclose(jax.jit(grad)(X), 2 * np.cos(X), rtol=1e-6)
    from_host = lambda x: on_host(lambda y: jnp.sin(y) * 2)(jax.device_put(x, HOST)).sum()
    np.testing.assert_allclose(jax.jit(jax.grad(from_host))(X), 2 * np.cos(X), rtol=1e-6)
    assert " = device_put" in str(jax.make_jaxpr(grad)(X))


def test_equal_compute_types_may_be_nested():
    outer = on_host(lambda x: on_host(jnp.sin)(x) + 1)
    np.testing.assert_allclose(jax.jit(outer)(X), np.sin(X) + 1, rtol=1e-6)
    with pytest.raises(ValueError, match="'device_host' is used inside 'device'"):
        jax.jit(compute_on("device")(on_host(jnp.sin))).lower(X)


def test_contexts_are_part_of_cache_keys():
    fun = jax.jit(lambda x: jnp.sin(x) * 2)
    fun(X)
    assert hints(lambda x: fun(x), X) == []
    with compute_on("device_host"):
        assert any("host" in line for line in hints(lambda x: fun(x), X))
    with set_xla_metadata(k="v"):
        assert any('k = "v"' in line for line in hints(lambda x: fun(x), X))
    assert hints(lambda x: fun(x), X) == []


def test_the_same_context_manager_can_be_entered_again():
    metadata = set_xla_metadata(k="v")

    def fun(x):
        with metadata:
            with metadata:
                y = jnp.sin(x)
            return jnp.cos(y)

    assert len(hints(fun, X)) == 2 and hints(lambda x: jnp.sin(fun(x)), X) == hints(fun, X)


def test_functions_with_metadata_may_be_recursive():
    # In the reference, the metadata stays in force afterwards.
    @set_xla_metadata(k="v")
    def recursive(x, n):
        return jnp.sin(x) if n == 0 else recursive(jnp.cos(x), n - 1)

    assert len(hints(lambda x: jnp.tan(recursive(x, 2)), X)) == 3
    assert hints(jnp.exp, X) == []


def test_metadata_in_compiled_program():
    def fun(x):
        return set_xla_metadata(jnp.sin(x), place="here")

    assert 'place="here"' in jax.jit(fun).lower(X).compile().as_text()


def test_values_of_call_metadata_become_text():
    fun = scheduling_groups.xla_metadata_call(jnp.sin, a=1, b=True, c=2.5)
    assert '{a = "1", b = "true", c = "2.5"}' in hints(fun, X)[0]
    with pytest.raises(TypeError, match="not hashable"):
        scheduling_groups.xla_metadata_call(jnp.sin, a=[])
    with pytest.raises(TypeError, match="'jaxpr'"):
        scheduling_groups.xla_metadata_call(jnp.sin, jaxpr=1)
    with pytest.raises(TypeError, match="the name of the group"):
        scheduling_groups.scheduling_group(None)


@pytest.mark.parametrize(
    "wrap", [on_host, lambda f: scheduling_groups.scheduling_group("g")(f)], ids=["compute", "call"]
)
def test_references_in_calls(wrap):
    ref = jax.new_ref(X)

    @jax.jit
    def fun(x):
        def body(x):
            ref[0] += x[1]
            return x * 2

        return wrap(body)(x)

    np.testing.assert_array_equal(fun(X), X * 2)
    np.testing.assert_array_equal(ref[...], [1, 1, 2, 3])


def test_fused_is_for_nvidia_gpus():
    f = jax.jit(fused(out_spaces=(DEVICE,))(jnp.sin))
    with pytest.raises(NotImplementedError, match=r"NVIDIA.* platform cpu: .*platform_dependent"):
        f(1.0)
    branches = dict(cuda=f, default=jnp.sin)
    chosen = jax.jit(lambda x: jax.lax.platform_dependent(x, **branches))
    assert chosen(0.0) == 0.0
    assert "fused" in chosen.trace(0.0).lower(lowering_platforms=("cuda",)).as_text()


def test_fused_differentiates_inside_its_kernel():
    jaxpr = jax.make_jaxpr(jax.grad(lambda x: one_kernel(x)[0].sum()))(X)
    forward, *_, backward = jaxpr.eqns
    assert len(forward.outvars) == 1 and len(backward.invars) == 2  # no residuals
    assert [e.primitive.name for e in backward.params["jaxpr"].eqns] == ["cos", "mul", "mul"]


@pytest.mark.parametrize("bad", [3, None, "device", (3,), {"a": DEVICE}, DEVICE])
def test_fused_checks_spaces(bad):
    with pytest.raises(TypeError, match="memory space"):
        fused(out_spaces=bad)


@pytest.mark.parametrize("bad", [3, None, "device", jax.memory.Space.Any])
def test_compute_on_checks_spaces(bad):
    with pytest.raises(TypeError, match="Space.Device or jax.memory.Space.Host"):
        on_host(jnp.sin, bad)(X)


def test_calls_take_functions():
    for make in (
        lambda f: compute_on2(f, compute_type="device", out_memory_spaces=DEVICE),
        lambda f: scheduling_groups.xla_metadata_call(f, a=1),
        lambda f: fused(out_spaces=())(f),
    ):
        with pytest.raises(TypeError, match="takes a function"):
            make(3)


def test_each_shard_alike_is_a_group_of_its_own():
    # The reference puts all four into one group.
    x = sharded()
    pairs = lambda a, b, c, d: (shard_alike(a, b), shard_alike(c, d))
    assert groups(pairs, x, x, x, x) == [2, 2]


def test_shard_alike_with_gspmd():
    with jax._src.config.use_shardy_partitioner(False):
        text = jax.jit(lambda x: shard_alike(x * 2, jnp.ones((8, 8)))).lower(sharded()).as_text()
    assert len(re.findall("unknown shard_as", text)) == 2


def test_traces_are_freed_with_their_functions():
    class Big:
        pass

    big = Big()
    alive = weakref.ref(big)

    def fun(x, big=big):
        return x * 2

    jax.jit(on_host(fun)).lower(X)
    jax.jit(scheduling_groups.xla_metadata_call(fun)).lower(X)
    del fun, big
    jax.clear_caches()
    gc.collect()
    assert alive() is None


def test_pjit_is_jit():
    import jax.experimental.pjit as module

    with pytest.warns(DeprecationWarning, match="use `jax.jit`"):
        pjit = module.pjit
    assert pjit(lambda x, n: x * n, None, None, 1)(2.0, 3) == 6.0
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = module.other
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from jax._src.pjit import pjit
    assert pjit(lambda x: x + 1, out_shardings=None)(1) == 2


def test_pjit_is_named_in_errors():
    from jax._src.pjit import pjit

    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    rows, identity = jax.NamedSharding(mesh, P("x")), lambda x: x
    for fun, arg, error, message in (
        (pjit(identity, P("x")), X, RuntimeError, "pjit in_shardings requires a non-empty mesh"),
        (pjit(identity, rows), 1.0, ValueError, "One of pjit arguments with .* path x is"),
        (pjit(lambda x: x[0], None, rows), X, ValueError, "One of pjit outputs .* path result is"),
        (pjit(identity, (rows, rows)), X, ValueError, "pjit in_shardings specification"),
        (pjit(identity), "a", TypeError, "a pjit-wrapped .* of jax.experimental.pjit.pjit"),
        (
            pjit(identity, rows),
            X[:3],
            ValueError,
            "partitioned 4 times.* one of pjit arguments .* path x",
        ),
        (
            pjit(identity, rows).lower,
            X[:3],
            ValueError,
            "partitioned 4 times.* one of pjit arguments",
        ),
        (
            pjit(identity, None, rows),
            X[:3],
            ValueError,
            "partitioned 4 times.* one of pjit outputs",
        ),
        (
            pjit(identity, rows),
            jax.device_put(X, jax.devices()[1]),
            ValueError,
            "passed to pjit does",
        ),
    ):
        with pytest.raises(error, match=f"(?s){message}"):
            fun(arg)


def test_attributes_of_text():
    with mlir.make_ir_context(), mlir.ir.Location.unknown():
        assert str(scheduling_groups.attr_get("a b")) == '"a b"'


def test_metadata_of_derivatives_of_a_scan():
    def fun(x):
        with set_xla_metadata(group="a"):
            return jax.lax.scan(lambda c, x: (jnp.sin(c) * x, None), 1.0, x)[0]

    text = jax.jit(jax.grad(fun)).lower(X).as_text()
    operations = re.findall(r"^ +%.* = .*", text, re.MULTILINE)
    unmarked = [line for line in operations if 'group = "a"' not in line]
    assert len(unmarked) < len(operations)
    assert all("stablehlo.constant" in line or "stablehlo.while" in line for line in unmarked)


def test_pjit_beside_jit_and_in_shard_map():
    from jax._src.pjit import pjit

    def double(x):
        return x * 2

    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(pjit(double), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    with pytest.warns(DeprecationWarning, match="`with mesh:` is deprecated"), mesh:
        on_one, on_all = jax.jit(double)(X), pjit(double)(X)
        assert [len(y.sharding.device_set) for y in (on_one, on_all, jax.jit(double)(X))] == [
            1,
            4,
            1,
        ]
        np.testing.assert_array_equal(jax.jit(mapped)(X), X * 2)
