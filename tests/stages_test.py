"""The ahead-of-time stages of `jit`, beside the reference (stages_scenarios.py)."""

import types

import numpy as np
import pytest
from absl.testing import absltest
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax._src import test_util as jtu
from jax.experimental import io_callback
from jax.experimental.layout import Format, Layout

jtu.request_cpu_devices(8)

reference, test_reference, _ = case_tests(__file__)


def test_formats_of_a_program_with_tokens():
    """PyPI's jax has no `out_info` and `output_formats` of programs with ordered effects."""

    def f(x):
        jax.debug.callback(lambda: None, ordered=True)
        return x, x.sum()

    compiled = jax.jit(f).lower(np.ones((2, 3), np.float32)).compile()
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    assert compiled.input_formats == ((Format(Layout((0, 1), ()), sharding),), {})
    formats = Format(Layout((0, 1), ()), sharding), Format(Layout((), ()), sharding)
    assert compiled.output_formats == formats
    assert [(o.shape, o.sharding) for o in compiled.out_info] == [
        ((2, 3), sharding),
        ((), sharding),
    ]


@pytest.mark.parametrize("num_devices", [1, 8])
def test_layouts_of_programs_with_tokens(num_devices):
    """PyPI's jax does not know them: compiled programs read transposed numbers, and write them."""
    mesh = jax.make_mesh((num_devices,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.NamedSharding(mesh, jax.P("a"))
    columns_first = Format(Layout((1, 0)), rows)
    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    seen = []

    def f(x, y):
        io_callback(lambda a: seen.append(float(a.sum())), None, x, ordered=True)
        return x * 2 + y, y.sum()

    for first in (columns_first, Format(Layout.AUTO, rows), Format(Layout((0, 1)), rows)):
        jitted = jax.jit(
            f, in_shardings=(first, rows), out_shardings=(Format(Layout.AUTO, rows), None)
        )
        compiled = jitted.lower(*[jax.ShapeDtypeStruct(x.shape, x.dtype)] * 2).compile()
        formats = [*compiled.input_formats[0], compiled.output_formats[0]]
        order = (1, 0) if first is columns_first else (0, 1)
        assert [f.layout.major_to_minor for f in formats] == [order, (0, 1), (0, 1)]
        args = [jax.device_put(x, f) for f in formats[:2]]
        for call in (compiled, *[jitted] * (2 if first.layout is not Layout.AUTO else 0)):
            out, total = call(*args)
            np.testing.assert_array_equal(out + 0, 3 * x)
            assert (out.format.layout.major_to_minor, total) == ((0, 1), x.sum())
    jax.effects_barrier()
    assert len(seen) == 7 and set(seen) == {x.sum()}
    transposed = jax.jit(f, out_shardings=(columns_first, None))
    if _reports_layouts(compiled):
        out, _ = transposed(x, x)
        np.testing.assert_array_equal(out + 0, 3 * x)
        assert out.format.layout.major_to_minor == (1, 0)
    else:
        with pytest.raises(
            NotImplementedError, match="results of programs with ordered effects in the def"
        ):
            transposed(x, x)


def _reports_layouts(compiled):
    """Whether the runtime knows the layouts of a program with tokens."""
    try:
        return bool(compiled.runtime_executable().get_output_layouts())
    except jax.errors.JaxRuntimeError:
        return False


def test_devices_of_compile():
    devices = jax.devices()
    x = np.arange(8, dtype=np.float32)
    mesh = jax.make_mesh((8,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.NamedSharding(mesh, jax.P("a"))
    one, eight = jax.jit(jnp.sin).lower(x), jax.jit(jnp.sin, in_shardings=rows).lower(x)
    np.testing.assert_allclose(one.compile(device_assignment=devices[:1])(x), np.sin(x), 1e-6)
    eight.compile(device_assignment=tuple(devices))
    for lowered, given in ((one, devices[3:4]), (eight, devices[::-1])):
        with pytest.raises(ValueError, match="must match the one calculated from the shardings"):
            lowered.compile(device_assignment=tuple(given))
    for lowered, given in ((one, devices[:2]), (eight, devices[:4]), (one, ())):
        with pytest.raises(ValueError, match="devices, the program is for"):
            lowered.compile(device_assignment=tuple(given))
    for given in (3, "x", (3,)):
        with pytest.raises(TypeError, match="must be a tuple of devices"):
            one.compile(device_assignment=given)


def test_devices_of_programs_for_abstract_meshes():
    mesh = jax.sharding.AbstractMesh((8,), ("a",), (jax.sharding.AxisType.Auto,))
    f = jax.jit(jnp.sin, in_shardings=jax.NamedSharding(mesh, jax.P("a")))
    x = jax.ShapeDtypeStruct((8,), np.float32)
    lowered = f.trace(x).lower(lowering_platforms=("cpu",))
    with pytest.raises(RuntimeError, match="give `compile` the devices"):
        lowered.compile()
    for devices in (jax.devices(), jax.devices()[::-1]):
        concrete = jax.sharding.Mesh(np.array(devices), ("a",))
        rows = jax.NamedSharding(concrete, jax.P("a"))
        compiled = lowered.compile(device_assignment=tuple(devices))
        assert compiled.input_shardings == ((rows,), {})
        out = compiled(jax.device_put(np.arange(8, dtype=np.float32), rows))
        assert out.sharding == rows
        np.testing.assert_allclose(out, np.sin(np.arange(8)), 1e-6)


def test_compiler_options():
    lowered = jax.jit(jnp.sin).lower(1.0)
    options = types.MappingProxyType({"xla_cpu_enable_fast_math": True})
    assert lowered.compile(options)(0.0) == 0 == jax.jit(jnp.sin, compiler_options=options)(0.0)
    for wrong in ("x", 3, [("xla_cpu_enable_fast_math", True)], (), False):
        with pytest.raises(TypeError, match="must be a dictionary of XLA options by name"):
            lowered.compile(wrong)
        with pytest.raises(TypeError, match="must be a dictionary of XLA options by name"):
            jax.jit(jnp.sin, compiler_options=wrong)


def test_calls_without_jit():
    """A compiled program runs as it is, with all its checks."""
    f = jax.jit(lambda x, *, y: x * y)
    compiled = f.lower(np.ones(2, np.float32), y=2.0).compile()
    for _ in range(2):  # the first call and native ones
        with jax.disable_jit():
            np.testing.assert_array_equal(compiled(np.ones(2, np.float32), y=3.0), [3, 3])
            with pytest.raises(TypeError, match="at kwargs, seen"):
                compiled(np.ones(2, np.float32))
        np.testing.assert_array_equal(compiled(np.ones(2, np.float32), y=3.0), [3, 3])


def test_jitted_functions_are_wrapped():
    f = jax.jit(jnp.sin)
    functions = (f, jnp.dot, jnp.sin, jnp.add, jax.pmap(f), jax.grad(f), jax.checkpoint(f))
    found = [isinstance(g, jax.stages.Wrapped) for g in functions]
    assert found == [True, True, True, False, False, False, False]


if __name__ == "__main__":
    absltest.main()
