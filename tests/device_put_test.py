"""Placing arrays: `device_put` and related functions, the primitive and its rules, eager primitives."""

import logging
import re

import ml_dtypes
import numpy as np
import pytest

import jax
from jax import lax
from jax._src import array, config, core, dispatch, sharding_impls, xla_bridge
from jax._src.device_put import values as placing
from jax._src.device_put.primitive import device_put_p
from jax._src.layout import Format, Layout
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

if not xla_bridge.backends_are_initialized():
    jax.config.update("jax_num_cpu_devices", 8)

put = jax.device_put
N = np.arange(8, dtype=np.float32)


@pytest.fixture
def devices():
    out = jax.devices()
    if len(out) < 4:
        pytest.skip("needs 4 devices")
    return out[:4]


@pytest.fixture
def mesh(devices):
    return Mesh(np.array(devices), ("x",))


@pytest.fixture
def mesh2(devices):
    return Mesh(np.array(devices).reshape(2, 2), ("x", "y"))


@pytest.fixture
def x():
    return put(N)


def total(x):
    return lax.reduce_sum(x, (0,))


def check(x, value, sharding, committed=True):
    assert type(x) is array.ArrayImpl
    assert x.sharding == sharding and x.committed is committed
    np.testing.assert_array_equal(np.asarray(x), value)
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), np.asarray(value)[shard.index])


# Sources

SOURCES = [
    (1, np.int32, True),
    (1.5, np.float32, True),
    (1j, np.complex64, True),
    (True, np.bool_, False),
    (np.float64(1), np.float32, False),
    (np.int64(1), np.int32, False),
    (np.bool_(1), np.bool_, False),
    (np.arange(3.0), np.float32, False),
    (np.arange(3), np.int32, False),
    (np.arange(6.0)[::2], np.float32, False),
    (np.arange(6.0)[::-1], np.float32, False),
    (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.float32, False),
    (np.zeros((0, 3)), np.float32, False),
    (np.broadcast_to(np.float32(2), (3, 2)), np.float32, False),
    (ml_dtypes.bfloat16(1.5), ml_dtypes.bfloat16, False),
    (np.arange(3).astype(ml_dtypes.int4), ml_dtypes.int4, False),
    (np.arange(3).astype(ml_dtypes.float8_e5m2), ml_dtypes.float8_e5m2, False),
]


@pytest.mark.parametrize("value, dtype, weak", SOURCES)
@pytest.mark.parametrize("target", ["none", "device", "sharding"])
def test_sources(value, dtype, weak, target, devices, mesh):
    where = {
        "none": None,
        "device": devices[1],
        "sharding": NamedSharding(mesh, P()),
    }[target]
    x = put(value, where)
    assert x.dtype == dtype and x.weak_type == weak and x.shape == np.shape(value)
    assert x.committed == (where is not None)
    np.testing.assert_array_equal(np.asarray(x), np.asarray(value).astype(dtype))


def test_64_bit_types():
    with config.enable_x64(True):
        assert put(np.arange(3.0)).dtype == np.float64
        assert put(2**40).tolist() == 2**40


def test_float0_stays_on_the_host():
    zeros = np.zeros(3, jax.float0)
    assert put(zeros).dtype == jax.float0


@pytest.mark.parametrize(
    "value, error, text",
    [
        ("a", TypeError, "is not a valid JAX type"),
        (object(), TypeError, "is not a valid JAX type"),
        (np.array("a"), TypeError, "Only arrays of numeric types"),
        (np.array([1], "M8[s]"), TypeError, "Only arrays of numeric types"),
        (2**40, OverflowError, "too large to convert to int32"),
        (jax.ShapeDtypeStruct((2,), np.float32), TypeError, "is not a valid JAX type"),
    ],
)
def test_bad_values(value, error, text, devices):
    for target in (None, devices[1]):
        with pytest.raises(error, match=text):
            put(value, target)
        with pytest.raises(error, match=text):
            put([1.0, value], target)


def test_huge_array_is_an_error():
    huge = np.broadcast_to(np.float32(0), (1 << 20, 1 << 20, 1 << 10))
    with pytest.raises((RuntimeError, MemoryError, ValueError)):
        put(huge).block_until_ready()
    assert put(1.0).tolist() == 1.0


# Targets


def test_none_leaves_arrays_where_they_are(x, devices, mesh):
    assert put(x) is x
    y = put(x, devices[2])
    assert put(y) is y
    z = put(x, NamedSharding(mesh, P("x")))
    assert put(z) is z


def test_devices(x, devices):
    for source in (N, x, put(x, devices[2])):
        for d in devices:
            check(put(source, d), N, SingleDeviceSharding(d))
    assert put(x, devices[0]).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()


SPECS = [P(), P("x"), P("y"), P(("x", "y")), P(("y", "x")), P(None, "x"), P("x", "y"), P("y", "x")]


@pytest.mark.parametrize("target", SPECS, ids=str)
@pytest.mark.parametrize("source", [None, 1, *SPECS], ids=str)
def test_shardings(source, target, mesh2, devices):
    value = np.arange(32, dtype=np.float32).reshape(8, 4)
    x = value if source is None else put(value, devices[1])
    if isinstance(source, P):
        x = put(value, NamedSharding(mesh2, source))
    sharding = NamedSharding(mesh2, target)
    check(put(x, sharding), value, sharding)
    other = NamedSharding(Mesh(np.array(devices[::-1]).reshape(2, 2), ("x", "y")), target)
    check(put(x, other), value, other)
    half = NamedSharding(Mesh(np.array(devices[1:3]), ("x",)), P("x"))
    check(put(x, half), value, half)
    check(put(x, devices[3]), value, SingleDeviceSharding(devices[3]))


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [4, 5, 6, 7]], ids=str)
@pytest.mark.parametrize("spec", [P(), P("x"), P("y", "x"), P(None, ("x", "y"))], ids=str)
def test_how_processes_move_arrays(spec, order, named, mesh2):
    # Nothing here needs several processes, but nothing looks at the value either.
    if len(jax.devices()) < 8:
        pytest.skip("needs 8 devices")
    devices = np.array(jax.devices())[order].reshape(2, 2)
    sharding = NamedSharding(Mesh(devices, ("x", "y")), spec)
    if not named:
        hlo_sharding = sharding._to_xla_hlo_sharding(2)
        sharding = sharding_impls.GSPMDSharding(sharding._internal_device_list, hlo_sharding)
    value = np.arange(32, dtype=np.float32).reshape(8, 4)
    for source in (P("x"), P(None, "x")):
        x = put(value, NamedSharding(mesh2, source))
        y = placing._move_between_processes(x, x.aval, sharding, placing.REUSE)
        check(y, value, sharding)


def test_uneven_or_too_many_dimensions(mesh):
    sharding = NamedSharding(mesh, P("x"))
    for source in (np.arange(9), put(np.arange(9))):
        with pytest.raises(
            ValueError, match="array axis 0 is partitioned 4 times, but the dimension size is 9"
        ):
            put(source, sharding)
    for source in (1.0, put(1.0), np.float32(1)):
        with pytest.raises(ValueError, match="device_put args is incompatible with its sharding"):
            put(source, sharding)


def test_partition_specs(mesh):
    with pytest.raises(ValueError, match="jax.set_mesh"):
        put(N, P("x"))
    with jax.set_mesh(mesh):
        assert put(N, P("x")).sharding == NamedSharding(mesh, P("x"))


def test_explicit_meshes(devices):
    explicit = NamedSharding(
        Mesh(np.array(devices), ("x",), axis_types=(AxisType.Explicit,)), P("x")
    )
    for source in (N, put(N)):
        assert str(jax.typeof(put(source, explicit))) == "float32[8@x]"
    jaxpr = jax.make_jaxpr(lambda x: put(x, explicit))(N)
    assert str(jaxpr.out_avals[0]) == "float32[8@x]"


def test_formats(x, devices):
    one = SingleDeviceSharding(devices[0])
    m = put(np.arange(6.0, dtype=np.float32).reshape(2, 3))
    turned = put(m, Format(Layout((1, 0)), one))
    assert turned.format.layout.major_to_minor == (1, 0)
    np.testing.assert_array_equal(np.asarray(turned), np.asarray(m))
    check(put(x, Format(None, one)), N, one)
    assert put(x, Format()) is x
    with pytest.raises(ValueError, match="should be concrete"):
        put(x, Format(Layout.AUTO, one))
    with pytest.raises(ValueError, match=r"major_to_minor=\(1, 0, 2\) and shape=\(8,\)"):
        put(x, Format(Layout((1, 0, 2)), one))


def test_memory_spaces(x, devices):
    host = put(x, jax.memory.Space.Host)
    assert host.sharding.memory_kind == "pinned_host" and host.tolist() == N.tolist()
    back = put(host, jax.memory.Space.Device)
    assert back.sharding.memory_kind == "device"
    assert put(N, jax.memory.Space.Host).sharding.memory_kind == "pinned_host"
    other = SingleDeviceSharding(devices[1], memory_kind="unpinned_host")
    check(put(x, other), N, other)
    with pytest.raises(ValueError, match="Space.Device or Space.Host"):
        put(x, jax.memory.Space.Any)


@pytest.mark.parametrize("bad", ["cpu", 1, Layout((0,)), ["cpu"]])
def test_bad_targets(bad):
    with pytest.raises(ValueError, match="`jax.device_put` only accepts"):
        put([N] if isinstance(bad, list) else N, bad)


# Trees


def test_trees(devices):
    a, b = put({"a": N, "b": [1, 2.0], "c": None}, devices[1])["b"]
    assert a.devices() == b.devices() == {devices[1]}
    out = put([N, (N, N)], [devices[0], devices[1]])
    assert out[0].devices() == {devices[0]} and out[1][1].devices() == {devices[1]}
    p, q = put([N, N], [devices[0], None])
    assert p.committed and not q.committed
    assert put(None) is None and put([]) == []


@pytest.mark.parametrize("name", ["device", "source", "donate", "may_alias"])
def test_prefix_errors(name, x):
    values = {
        "device": jax.devices()[0],
        "source": jax.devices()[0],
        "donate": True,
        "may_alias": True,
    }
    argument = "src" if name == "source" else name
    message = f"device_put {name} specification must be a tree prefix of the corresponding value"

    def call(xs, prefix):
        return jax.make_jaxpr(lambda xs: put(xs, **{argument: prefix}))(xs)

    with pytest.raises(ValueError, match=message):
        call([x, x], [values[name]])
    with pytest.raises(ValueError, match=message):
        call([x, x], (values[name],) * 2)
    with pytest.raises(ValueError, match=f"device_put {name}"):
        call({"a": x}, {"b": values[name]})


# Aliasing and donation


def test_aliasing(x, devices):
    def aliased(*args, **kwargs):
        return put(x, *args, **kwargs).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()

    assert aliased(devices[0]) and aliased(devices[0], may_alias=True) and aliased(may_alias=True)
    assert not aliased(devices[0], may_alias=False) and not aliased(may_alias=False)
    assert not put(x, may_alias=False).committed
    same, copied = put([x, x], may_alias=[True, False])
    assert same is x and copied is not x
    with pytest.raises(ValueError, match="may_alias and donate cannot be True at the same time"):
        put(x, donate=True, may_alias=True)


def test_numpy_memory_is_not_shared_if_it_must_not_be():
    memory = np.zeros(4096 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    value = memory[start : start + 4096].view(np.float32)
    x = put(value, may_alias=False)
    value[:] = 1
    assert not np.asarray(x).any()


def test_donation(x, devices):
    y = put(x, devices[1], donate=True)
    np.testing.assert_array_equal(np.asarray(y), N)
    assert put([put(N), put(N)], devices[1], donate=[True, False])[1].tolist() == N.tolist()


def test_default_device(x, devices):
    with jax.default_device(devices[2]):
        assert put(N).devices() == put(1.0).devices() == {devices[2]}
        assert not put(N).committed
        assert put(x).devices() == x.devices()
    with jax.default_device("cpu"):
        assert put(N).devices() == {jax.devices("cpu")[0]}


def test_transfer_guards(x, devices):
    with jax.transfer_guard("disallow"):
        assert put(N, devices[1]).tolist() == N.tolist()
        assert put([N, 1.0])[1].tolist() == 1.0
        jax.device_get(x)
        with pytest.raises(RuntimeError, match="Disallowed host-to-device transfer"):
            array.array_from_numpy(N)
        with pytest.raises(RuntimeError, match="Disallowed host-to-device transfer"):
            jax.jit(lambda y: y)(N)
    with jax.transfer_guard("disallow_explicit"), pytest.raises(RuntimeError, match="Disallowed"):
        put(N)
    put(N)


# Transformations


def show(fun, *args):
    return re.sub(r"\s+", " ", str(jax.make_jaxpr(fun)(*args)))


def test_printed(x, devices):
    d = devices[0]
    assert show(lambda x: put(x, d), x) == (
        "{ lambda ; a:f32[8]. let b:f32[8] = device_put["
        " copy_semantics=(ArrayCopySemantics.REUSE_INPUT,) devices=(CpuDevice(id=0),) srcs=(None,)"
        " ] a in (b,) }"
    )
    assert "DONATE_INPUT" in show(lambda x: put(x, d, donate=True), x)
    assert "ALWAYS_COPY" in show(lambda x: put(x, d, may_alias=False), x)
    assert "f32<host>[8] = device_put" in show(lambda x: put(x, jax.memory.Space.Host), x)
    assert show(lambda x: put([x, x], d), x).count("device_put") == 1


def test_jit(x, devices, mesh):
    for target in (None, devices[0], devices[1], NamedSharding(mesh, P("x"))):
        y = jax.jit(lambda x, target=target: put(x, target))(x)
        np.testing.assert_array_equal(np.asarray(y), N)
    assert jax.jit(lambda: put(N, devices[0]))().tolist() == N.tolist()
    with pytest.raises(TypeError, match="is not a valid JAX type"):
        jax.jit(lambda: put("a"))()
    with pytest.raises(ValueError, match="partitioned 4 times"):
        jax.jit(lambda x: put(x, NamedSharding(mesh, P("x"))))(np.ones(9))


def test_jvp(x, devices):
    out, tangent = jax.jvp(lambda x: put([x, 1.0], devices[1]), (x,), (x,))
    assert out[0].devices() == tangent[0].devices() == {devices[1]}
    assert tangent[0].tolist() == N.tolist() and tangent[1].tolist() == 0.0
    _, tangent = jax.jvp(lambda x: put(N, devices[1]), (x,), (x,))
    assert not np.asarray(tangent).any()


def test_gradients_come_back(devices, x):
    def loss(x, to=devices[1]):
        return total(put(lax.mul(x, x), to))

    assert jax.grad(loss)(x).devices() == x.devices()
    y = put(x, devices[2])
    g = jax.grad(loss)(y)
    assert g.devices() == {devices[2]} and g.tolist() == (2 * N).tolist()
    assert jax.grad(lambda x: total(put(x, None)))(y).devices() == {devices[2]}
    g = jax.jit(jax.grad(lambda x: total(put(x, jax.memory.Space.Device))))(x)
    assert g.tolist() == [1] * 8


def test_gradient_of_some_results(x, devices):
    def loss(x, k):
        a, b = put([x, k], devices[1])
        return total(a)

    assert jax.grad(loss)(x, 3).tolist() == [1] * 8


def test_donation_is_not_transposed(x, devices):
    with pytest.raises(ValueError, match="donate"):
        jax.grad(lambda x: total(put(x, devices[1], donate=True)))(x)


def test_second_derivatives(x, devices):
    def loss(x):
        return total(lax.integer_pow(put(x, devices[1]), 3))

    hvp = jax.jvp(jax.grad(loss), (x,), (put(np.ones(8, np.float32)),))[1]
    np.testing.assert_allclose(np.asarray(hvp), 6 * N)


def test_vmap(x, devices, mesh):
    out = jax.vmap(lambda x: put([x, N], devices[1]))(x)
    assert out[0].devices() == {devices[1]} and out[1].shape == (8, 8)
    m = put(np.arange(32.0).reshape(4, 8))
    y = jax.vmap(lambda row: put(row, NamedSharding(mesh, P("x"))))(m)
    assert y.sharding == NamedSharding(mesh, P(None, "x"))
    np.testing.assert_array_equal(np.asarray(y), np.asarray(m))
    z = jax.vmap(lambda row: put(row, NamedSharding(mesh, P("x"))), in_axes=1, out_axes=1)(
        lax.transpose(m, (1, 0))
    )
    np.testing.assert_array_equal(np.asarray(z), np.asarray(m).T)


def test_dead_code(x, devices):
    def f(x):
        a, b = put([x, lax.neg(x)], devices[0])
        return a

    from jax._src.interpreters import partial_eval as pe

    jaxpr = jax.make_jaxpr(f)(x).jaxpr
    clean, _ = pe.dce_jaxpr(jaxpr, [True])
    [eqn] = clean.eqns
    assert eqn.primitive is device_put_p and len(eqn.invars) == 1
    assert eqn.params["devices"] == (devices[0],)


# To the host and waiting


def test_device_get(x, mesh):
    out = jax.device_get([x, 1, "a", None, N, 2.0])
    assert type(out[0]) is np.ndarray and out[0].dtype == np.float32
    assert out[1:4] == [1, "a", None] and out[4] is N and out[5] == 2.0
    np.testing.assert_array_equal(jax.device_get(put(N, NamedSharding(mesh, P("x")))), N)
    assert jax.device_get(x).flags.writeable is False
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.jit(lambda x: jax.device_get(x))(x)


def test_waiting(x):
    tree = {"a": x, "b": [1, "c", put(N)]}
    assert jax.block_until_ready(tree) is tree and jax.block_until_ready("a") == "a"
    assert jax.copy_to_host_async(tree) is tree
    jax.effects_barrier()
    x.delete()
    for tree in (x, [x], [x, put(1.0)]):
        with pytest.raises(RuntimeError):
            jax.block_until_ready(tree)


def test_live_arrays(x):
    assert any(a is x for a in jax.live_arrays())
    assert any(a is x for a in jax.live_arrays(x.platform()))
    with pytest.raises(RuntimeError, match="Unknown backend foo"):
        jax.live_arrays("foo")


def test_to_device(x, devices, mesh):
    assert x.to_device(devices[1]).devices() == {devices[1]}
    assert x.to_device(NamedSharding(mesh, P("x"))).sharding.num_devices == 4
    with pytest.raises(NotImplementedError, match="stream"):
        x.to_device(devices[1], stream=1)
    with pytest.raises(ValueError, match="only accepts"):
        x.to_device("cpu")


# Eager primitives


def test_one_program_for_each_parameter():
    p = core.Primitive("test_scale")
    p.def_abstract_eval(lambda x, *, by: x)
    traced = []

    def lower(ctx, x, *, by):
        traced.append(by)
        from jax._src.interpreters import mlir

        return mlir.lower_fun(lambda x: lax.mul(x, np.float32(by)), multiple_results=False)(ctx, x)

    from jax._src.interpreters import mlir

    mlir.register_lowering(p, lower)
    x = put(N)
    for _ in range(3):
        assert p.bind(x, by=2).tolist() == (2 * N).tolist()
        assert p.bind(x, by=3).tolist() == (3 * N).tolist()
    assert traced == [2, 3]
    assert dispatch.apply_primitive(p, x, by=2).tolist() == (2 * N).tolist()


def test_eager_primitives_are_compiled_also_without_jit(x):
    with jax.disable_jit():
        assert lax.neg(x).tolist() == (-N).tolist()
        assert lax.cumsum(x).shape == (8,)


def test_leaked_tracers(x):
    leaks = []
    jax.jit(lambda y: leaks.append(y) or y)(x)
    for fun in (lax.neg, put, lambda y: put(y, jax.devices()[0]), lambda y: lax.add(x, y)):
        with pytest.raises(jax.errors.UnexpectedTracerError):
            fun(leaks[0])
    assert lax.neg(x).tolist() == (-N).tolist()


def test_incompatible_devices(x, devices):
    with pytest.raises(ValueError, match="incompatible devices"):
        lax.add(put(x, devices[0]), put(x, devices[1]))


@pytest.mark.parametrize("flag, value", [("debug_nans", np.nan), ("debug_infs", np.inf)])
def test_debug(flag, value, x):
    name = "nan" if np.isnan(value) else "inf"
    with getattr(jax, flag)(True):
        assert lax.neg(x).tolist() == (-N).tolist()
        put(value)
        with pytest.raises(
            FloatingPointError, match=rf"invalid value \({name}\) encountered in mul"
        ):
            lax.mul(put(np.float32(value)), np.float32(1))
        with pytest.raises(
            FloatingPointError, match=rf"invalid value \({name}\) encountered in mul"
        ):
            jax.jit(lambda y: lax.neg(lax.mul(y, y)))(np.float32(value))
    assert lax.neg(x).tolist() == (-N).tolist()


def test_logs(x, caplog):
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        jax.jit(lambda y: lax.sub(lax.neg(y), y))(x)
    text = caplog.text
    assert "for jit in" in text and "XLA compilation" in text


def test_elapsed_time_events():
    seen = []

    def listen(event, duration, **kwargs):
        seen.append((event, kwargs.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        with dispatch.log_elapsed_time("{fun_name} took {elapsed_time}", "f", "/my/event"):
            pass
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert ("/my/event", "f") in seen


def test_clear_caches(x):
    lax.neg(x)
    jax.clear_caches()
    assert lax.neg(x).tolist() == (-N).tolist()
    assert [float(v) for v in x] == N.tolist()
    assert put(N).devices() == {jax.local_devices()[0]}
