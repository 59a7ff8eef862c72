"""Programs: where they run, donation, layouts, checks of arguments, what can be asked of them."""

import logging
import types
import warnings
import weakref

import numpy as np
import pytest
from absl.testing import absltest, parameterized

import jax
from jax import lax
from jax._src import core
from jax._src.interpreters import mlir, partial_eval as pe, pxla
from jax._src.layout import Format, Layout
from jax._src.sharding_impls import UNSPECIFIED, SingleDeviceSharding
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:  # some other test module has started the CPU already
    pass


def ones(*shape):
    return np.ones(shape, np.float32)


def mesh_of(shape=(4, 2), names=("x", "y"), axis_type=AxisType.Auto):
    return jax.make_mesh(shape, names, axis_types=(axis_type,) * len(names))


class MultiDeviceTest(parameterized.TestCase):
    def setUp(self):
        super().setUp()
        if len(jax.devices()) < 8:
            self.skipTest("needs 8 devices")
        self.devices = jax.devices()
        self.mesh = mesh_of()
        self.sharding = NamedSharding(self.mesh, P("x", None))
        self.x = jax.device_put(ones(8, 8), self.sharding)

    def test_shardings_of_arguments(self):
        f = jax.jit(lambda x, y: lax.add(x, y))
        text = f.lower(self.x, ones(8, 8)).as_text()
        self.assertIn('sdy.mesh @mesh = <["x"=4, "y"=2]>', text)
        self.assertIn(
            '%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}', text
        )
        self.assertIn("%arg1: tensor<8x8xf32>)", text)
        self.assertIn("mhlo.num_partitions = 8 : i32", text)

    def test_compiler_chooses(self):
        f = jax.jit(lambda x: (lax.add(x, x), lax.transpose(x, (1, 0)), lax.reduce_sum(x, (0,))))
        outs = f(self.x)
        self.assertEqual(
            [o.sharding for o in outs],
            [self.sharding, NamedSharding(self.mesh, P(None, "x")), NamedSharding(self.mesh, P())],
        )
        np.testing.assert_array_equal(outs[2], np.full(8, 8))
        again = f(self.x)
        self.assertEqual([o.sharding for o in again], [o.sharding for o in outs])
        self.assertEqual(f._cache_size(), 1)

    def test_asked_shardings(self):
        out_sharding = NamedSharding(self.mesh, P(None, "y"))
        f = jax.jit(lambda x: lax.add(x, x), in_shardings=self.sharding, out_shardings=out_sharding)
        out = f(ones(8, 8))
        self.assertEqual(out.sharding, out_sharding)
        self.assertLen(out.addressable_shards, 8)
        np.testing.assert_array_equal(out, np.full((8, 8), 2))
        compiled = f.lower(ones(8, 8)).compile()
        self.assertEqual(compiled.input_shardings, ((self.sharding,), {}))
        self.assertEqual(compiled.output_shardings, out_sharding)
        self.assertEqual(compiled(self.x).sharding, out_sharding)

    def test_explicit_axes(self):
        mesh = mesh_of(axis_type=AxisType.Explicit)
        with jax.set_mesh(mesh):
            x = jax.device_put(ones(8, 8), NamedSharding(mesh, P("x", "y")))
            f = jax.jit(lambda x: lax.reduce_sum(lax.sin(x), (0,)))
            text = f.lower(x).as_text()
            self.assertEqual(text.count("sdy.sharding_constraint"), 2)
            self.assertIn('sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>', text)
            self.assertEqual(f(x).sharding, NamedSharding(mesh, P("y")))

    def test_mesh_in_context(self):
        with jax.set_mesh(self.mesh):
            out = jax.jit(lambda x: lax.add(x, x))(ones(8, 8))
            self.assertEqual(out.sharding, NamedSharding(self.mesh, P()))
            with self.assertRaisesRegex(ValueError, "and jit's context mesh with device ids"):
                jax.jit(lambda x: lax.add(x, x))(jax.device_put(ones(8, 8), self.devices[0]))

    def test_gspmd(self):
        with jax._src.config.use_shardy_partitioner(False):
            f = jax.jit(
                lambda x: lax.add(x, x), out_shardings=NamedSharding(self.mesh, P(None, "y"))
            )
            text = f.lower(self.x).as_text()
            self.assertIn('mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"', text)
            np.testing.assert_array_equal(f(self.x), np.full((8, 8), 2))

    def test_donation(self):
        f = jax.jit(lambda x, y: lax.add(x, y), donate_argnums=0)
        self.assertIn("jax.buffer_donor = true", f.lower(self.x, ones(8, 8)).as_text())
        f = jax.jit(lambda x, y: lax.add(x, y), donate_argnums=0, out_shardings=self.sharding)
        self.assertIn("tf.aliasing_output = 0", f.lower(self.x, ones(8, 8)).as_text())
        f(self.x, ones(8, 8))
        self.assertTrue(self.x.is_deleted())

    def test_donation_to_another_sharding(self):
        other = NamedSharding(self.mesh, P(None, "y"))
        f = jax.jit(lambda x: lax.add(x, x), donate_argnums=0, out_shardings=other)
        with self.assertWarnsRegex(UserWarning, r"donated buffers were not usable: float32\[2,8\]"):
            f.lower(self.x)

    def test_incompatible_devices(self):
        d = self.devices

        def foo(a, *, b):
            return lax.add(a, b["k"])

        a, b = jax.device_put(ones(3), d[0]), jax.device_put(ones(3), d[1])
        message = (
            r"Received incompatible devices for jitted computation. Got argument a of .*foo with shape "
            r"float32\[3\] and with device ids \[0\] on platform CPU and argument b\['k'\] of .*foo with "
            r"shape float32\[3\] and with device ids \[1\] on platform CPU"
        )
        with self.assertRaisesRegex(ValueError, message):
            jax.jit(foo)(a, b={"k": b})
        with self.assertRaisesRegex(
            ValueError, r"and explicit output sharding with device ids \[1\]"
        ):
            jax.jit(foo, out_shardings=SingleDeviceSharding(d[1]))(a, b={"k": a})
        np.testing.assert_array_equal(jax.jit(foo)(a, b={"k": a}), np.full(3, 2))

    def test_order_of_devices(self):
        reverse = NamedSharding(
            Mesh(np.array(self.devices[::-1]).reshape(4, 2), ("x", "y")), P("x")
        )
        with self.assertRaisesRegex(ValueError, r"device ids \[7, 6, 5, 4, 3, 2, 1, 0\]"):
            jax.jit(lax.add)(self.x, jax.device_put(ones(8, 8), reverse))

    def test_other_sharding_than_asked(self):
        f = jax.jit(lambda x: lax.add(x, x), in_shardings=NamedSharding(self.mesh, P(None, "y")))
        with self.assertRaisesRegex(
            ValueError, "Sharding passed to jit does not match the sharding"
        ):
            f(self.x)
        with self.assertRaisesRegex(
            ValueError, "Sharding passed to jit does not match the sharding"
        ):
            f(jax.device_put(ones(8, 8), self.devices[0]))
        with self.assertRaisesRegex(
            ValueError, "axis 1 is partitioned 2 times.* size is 3.*path x"
        ):
            f(ones(8, 3))

    def test_indivisible_result(self):
        f = jax.jit(lambda x: x, out_shardings=NamedSharding(self.mesh, P("x")))
        with self.assertRaisesRegex(ValueError, "partitioned 4 times.*one of jit outputs.*result"):
            f(ones(6))

    def test_moves_from_one_device_to_another(self):
        f = jax.jit(lambda x: lax.add(x, x), in_shardings=SingleDeviceSharding(self.devices[1]))
        out = f(jax.device_put(ones(3), self.devices[0]))
        self.assertEqual(out.devices(), {self.devices[1]})

    def test_compiled_for_another_device(self):
        compiled = jax.jit(lambda x: lax.add(x, x)).lower(ones(3)).compile()
        with self.assertRaisesRegex(
            ValueError,
            r"(?s)input shardings that disagree.*1 mismatches:\nArgument x with shape float32",
        ):
            compiled(jax.device_put(ones(3), self.devices[1]))

    def test_default_device(self):
        with jax.default_device(self.devices[3]):
            out = jax.jit(lambda x: lax.add(x, x))(ones(3))
        self.assertEqual(out.devices(), {self.devices[3]})
        self.assertFalse(out._committed)

    def test_closed_over_arrays_do_not_decide(self):
        c = jax.device_put(ones(3), self.devices[1])
        out = jax.jit(lambda x: lax.add(x, c))(ones(3))
        self.assertEqual(out.devices(), {self.devices[0]})


class OneDeviceTest(parameterized.TestCase):
    def test_no_shardings(self):
        x = jax.device_put(ones(3), jax.devices()[0])
        text = jax.jit(lambda x: lax.add(x, x)).lower(x).as_text()
        self.assertNotIn("sdy", text)

    def test_donation(self):
        f = jax.jit(lambda x, y: (lax.add(x, y), lax.sub(x, y)), donate_argnums=(0, 1))
        text = f.lower(ones(3), ones(3)).as_text()
        self.assertIn("%arg0: tensor<3xf32> {tf.aliasing_output = 0 : i32}", text)
        self.assertIn("%arg1: tensor<3xf32> {tf.aliasing_output = 1 : i32}", text)
        x = jax.device_put(ones(3))
        f(x, ones(3))
        self.assertTrue(x.is_deleted())
        with self.assertRaisesRegex((RuntimeError, ValueError), "(?i)deleted"):
            f(x, ones(3))

    def test_donation_of_no_use(self):
        with self.assertWarnsRegex(
            UserWarning, r"Some donated buffers were not usable: float32\[3\]"
        ):
            jax.jit(lambda x: lax.reduce_sum(x, (0,)), donate_argnums=0).lower(ones(3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            jax.jit(lambda x, y: lax.sin(y), donate_argnums=0).lower(ones(3), ones(3))

    def test_committed(self):
        f = jax.jit(lambda x: lax.add(x, x))
        self.assertFalse(f(ones(3))._committed)
        self.assertTrue(f(jax.device_put(ones(3), jax.devices()[0]))._committed)
        self.assertTrue(
            jax.jit(lambda x: x, out_shardings=SingleDeviceSharding(jax.devices()[0]))(
                ones(3)
            )._committed
        )

    def test_types_of_arguments(self):
        def f(a, b):
            return lax.add(a, b["k"])

        compiled = jax.jit(f).lower(ones(3), {"k": ones(3)}).compile()
        np.testing.assert_array_equal(compiled(ones(3), {"k": ones(3)}), np.full(3, 2))
        message = (
            r"(?s)Argument types differ from the types for which this computation was compiled.*"
            r"Argument 'a' compiled with float32\[3\] and called with float32\[4\]"
            r".*Argument 'b\['k'\]' compiled with float32\[3\] and called with int32\[3\]"
        )
        with self.assertRaisesRegex(TypeError, message):
            compiled(ones(4), {"k": np.ones(3, np.int32)})
        with self.assertRaisesRegex(TypeError, "input pytree does not match"):
            compiled(ones(3))
        np.testing.assert_array_equal(compiled(ones(3), {"k": ones(3)}), np.full(3, 2))

    def test_many_mismatches(self):
        n = 9
        with self.assertRaisesRegex(TypeError, "and 4 more"):
            pxla.check_arg_avals_for_call(
                [core.ShapedArray((3,), np.dtype(np.float32))] * n, [ones(4)] * n, core.DebugInfo()
            )
        with self.assertRaisesRegex(TypeError, "compiled for 2 inputs but called with 1"):
            pxla.check_arg_avals_for_call([core.abstract_token] * 2, [1], core.DebugInfo())

    def test_stages(self):
        lowered = jax.jit(lambda x, y: lax.sin(x)).lower(ones(3), 2.0)
        self.assertIn("stablehlo.sine", lowered.as_text())
        self.assertIn("ROOT sin", lowered.as_text("hlo"))
        self.assertIn("op_name", lowered.as_text("hlo", debug_info=True))
        with self.assertRaisesRegex(ValueError, "unknown dialect: foo"):
            lowered.as_text("foo")
        with self.assertRaisesRegex(ValueError, "unknown dialect: foo"):
            lowered.compiler_ir("foo")
        self.assertEqual(str(lowered.compiler_ir().operation.name), "builtin.module")
        self.assertIn("HloModule", lowered.compiler_ir("hlo").as_hlo_text())
        self.assertEqual(lowered.cost_analysis()["transcendentals"], 3.0)
        compiled = lowered.compile()
        self.assertIn("HloModule", compiled.as_text())
        self.assertEqual(compiled.cost_analysis()["bytes accessed"], 24.0)
        self.assertEqual(compiled.memory_analysis().argument_size_in_bytes, 12)
        self.assertIsNotNone(compiled.runtime_executable().fingerprint)
        here = SingleDeviceSharding(jax.devices()[0])
        self.assertEqual(compiled.input_shardings, ((here, None), {}))
        self.assertEqual(compiled.output_shardings, here)
        ((first, second), _) = compiled.input_formats
        self.assertEqual(first.layout.major_to_minor, (0,))
        self.assertEqual(second, Format())
        self.assertEqual(compiled.output_formats.sharding, here)

    def test_layouts(self):
        here = SingleDeviceSharding(jax.devices()[0])
        column = Format(Layout((1, 0)), here)
        f = jax.jit(lambda x: lax.add(x, x), in_shardings=column, out_shardings=column)
        text = f.lower(ones(2, 3)).as_text()
        self.assertEqual(text.count('mhlo.layout_mode = "{0,1}"'), 2)
        out = f(ones(2, 3))
        self.assertEqual(out.format.layout.major_to_minor, (1, 0))
        np.testing.assert_array_equal(out, np.full((2, 3), 2))
        self.assertEqual(f(out).format.layout.major_to_minor, (1, 0))
        # an array's own layout is taken over
        g = jax.jit(lambda x: lax.add(x, x))
        self.assertIn('mhlo.layout_mode = "{0,1', g.lower(out).as_text())
        np.testing.assert_array_equal(g(out), np.full((2, 3), 4))
        with self.assertRaisesRegex(ValueError, "Layout passed to jit does not match the layout"):
            jax.jit(lambda x: x, in_shardings=Format(Layout((0, 1)), here))(out)
        with self.assertRaisesRegex(ValueError, "Layout.AUTO"):
            jax.jit(lambda x: lax.add(x, x), in_shardings=Format(Layout.AUTO))(out)
        compiled = g.lower(ones(2, 3)).compile()
        with self.assertRaisesRegex(ValueError, "input layouts that disagree"):
            compiled(out)

    def test_annotations_of_other_ranks(self):
        here = SingleDeviceSharding(jax.devices()[0])
        layout = Format(Layout((1, 0, 2)), here)
        sharding = NamedSharding(Mesh(jax.devices()[:1], "x"), P("x", None, None))
        for annotation, kind in ((layout, "layout"), (sharding, "sharding")):
            given = f"key path y is incompatible with its {kind} annotation"
            with self.assertRaisesRegex(ValueError, given):
                jax.jit(lambda x, y: x, in_shardings=(None, annotation))(ones(2, 3), ones(2, 3))
            given = rf"key path result\['a'\] is incompatible with its {kind} annotation"
            with self.assertRaisesRegex(ValueError, given):
                jax.jit(lambda x: {"a": x}, out_shardings=annotation)(ones(2, 3))

    def test_layouts_need_a_format(self):
        for bad in (Layout((1, 0)), Layout.AUTO):
            with self.assertRaisesRegex(ValueError, "does not accept device-local layouts"):
                jax.jit(lambda x: x, in_shardings=bad)(ones(2, 3))
            with self.assertRaisesRegex(ValueError, "does not accept device-local layouts"):
                lax.with_sharding_constraint(ones(2, 3), bad)

    def test_vmap_of_a_constraint_with_a_layout(self):
        column = Format(Layout((1, 0)), NamedSharding(Mesh(jax.devices()[:1], "x"), P("x")))
        constrain = lambda x: lax.with_sharding_constraint(x, column)
        for axis, expected in ((0, (0, 2, 1)), (1, (1, 2, 0)), (2, (2, 1, 0))):
            f = jax.vmap(constrain, in_axes=axis, out_axes=axis)
            (eqn,) = jax.make_jaxpr(f)(ones(2, 3, 4)).eqns
            self.assertEqual(eqn.params["layout"].major_to_minor, expected)
            np.testing.assert_array_equal(jax.jit(f)(ones(2, 3, 4)), ones(2, 3, 4))

    def test_memory_kinds(self):
        host = SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
        f = jax.jit(lambda x: lax.add(x, x), out_shardings=host)
        self.assertIn('mhlo.memory_kind = "pinned_host"', f.lower(ones(3)).as_text())
        self.assertEqual(f(ones(3)).sharding.memory_kind, "pinned_host")

    def test_compiler_options(self):
        f = jax.jit(lax.sin)
        f.lower(1.0).compile({"xla_embed_ir_in_executable": True})
        with self.assertRaisesRegex(RuntimeError, "No such compile option: 'xla_foo'"):
            f.lower(1.0).compile({"xla_foo": 1})
        with self.assertRaisesRegex(RuntimeError, "No such compile option"):
            jax.jit(lax.sin, compiler_options={"xla_foo": 1})(1.0)
        inner = jax.jit(lax.sin, compiler_options={"xla_embed_ir_in_executable": True})
        with self.assertRaisesRegex(ValueError, "can only be passed to top-level `jax.jit`"):
            jax.jit(lambda x: inner(x))(1.0)
        inner(1.0)

    def test_logs(self):
        with (
            jax.log_compiles(True),
            self.assertLogs("jax._src.interpreters.pxla", logging.WARNING) as logs,
        ):
            jax.jit(lambda x: lax.add(x, x))(ones(3))
        self.assertRegex(
            logs.output[0],
            r"Compiling jit\(<lambda>\) with global shapes and types \(ShapedArray\(float32\[3\]\),\). "
            r"Argument mapping: \(UnspecifiedValue,\)",
        )

    def test_constants_as_arguments(self):
        c = jax.device_put(np.arange(3, dtype=np.float32))
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
            lambda x, y: [lax.add(y, c)], [core.ShapedArray((3,), np.dtype(np.float32))] * 2
        )
        computation = pxla.lower(
            core.ClosedJaxpr(jaxpr, consts),
            pxla.Request(
                name="f",
                args=[ones(3), ones(3)],
                in_shardings=(UNSPECIFIED,) * 2,
                out_shardings=(UNSPECIFIED,),
                in_layouts=(None,) * 2,
                out_layouts=(None,),
                donated=(False,) * 2,
            ),
            lowering_parameters=mlir.LoweringParameters(hoist_constants_as_args=True),
        )
        self.assertNotIn("dense<", computation.as_text())
        executable = computation.compile()
        (out,) = executable.call(ones(3), ones(3))
        np.testing.assert_array_equal(out, [1, 2, 3])
        with self.assertRaisesRegex(TypeError, "called with float32.4"):
            executable.call(ones(3), ones(4))

    def test_native_call_of_a_compiled_program(self):
        executable = jax.jit(lambda x, y: lax.sin(x)).lower(ones(3), 2.0).compile()._executable
        leaf = jax.tree_util.tree_structure(0)
        params = types.SimpleNamespace(
            executable=executable,
            no_kwargs=True,
            in_tree=jax.tree_util.tree_structure((0, 0)),
            out_tree=leaf,
        )
        call = executable.create_cpp_call(params)
        for _ in range(3):
            np.testing.assert_allclose(call(ones(3), 2.0), np.sin(ones(3)), rtol=1e-6)
        with self.assertRaisesRegex(TypeError, "input pytree does not match"):
            call(ones(3), 2.0, 3)
        with self.assertRaisesRegex(TypeError, "Argument types differ"):
            call(ones(4), 2.0)

    def test_large_constants(self):
        c = jax.device_put(np.arange(1000, dtype=np.float32))
        jax.config.update("jax_captured_constants_warn_bytes", 4000)
        try:
            with self.assertWarnsRegex(UserWarning, r"large amount of constants.*float32\[1000\]"):
                jax.jit(lambda x: lax.add(x, c)).lower(ones(1000))
        finally:
            jax.config.update("jax_captured_constants_warn_bytes", 2_000_000_000)

    def test_prune(self):
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
            lambda x, y, z: [lax.sin(z), (lax.cos(y), lax.tan(x))[1]],
            [core.ShapedArray((), np.dtype(np.float32))] * 3,
        )
        closed = core.ClosedJaxpr(jaxpr, consts)
        pruned, kept = pxla.prune_unused(closed, keep_unused=False)
        self.assertEqual(kept, (0, 2))
        self.assertEqual([e.primitive.name for e in pruned.eqns], ["sin", "tan"])
        core.check_jaxpr(pruned.jaxpr)
        same, kept = pxla.prune_unused(closed, keep_unused=True)
        self.assertIs(same, closed)
        self.assertIsNone(kept)

    def test_failed_lowering_leaves_nothing(self):
        p = core.Primitive("sometimes")
        p.def_abstract_eval(lambda x: x)
        fails = [True]

        def rule(ctx, x):
            if fails:
                raise KeyboardInterrupt
            return [x]

        mlir.register_lowering(p, rule)
        f = jax.jit(lambda x: p.bind(x))
        with self.assertRaises(KeyboardInterrupt):
            f(1.0)
        fails.clear()
        self.assertEqual(float(f(1.0)), 1.0)


X3 = np.arange(3, dtype=np.float32)


class TestCompiled:
    compiled = jax.jit(lambda x, *, k: {"a": x + k}).lower(X3, k=np.float32(1)).compile()

    def test_calls(self):
        for _ in range(3):
            np.testing.assert_array_equal(self.compiled(X3, k=np.float32(2))["a"], X3 + 2)
        with jax.disable_jit():
            np.testing.assert_array_equal(self.compiled(X3, k=np.float32(2))["a"], X3 + 2)

    @pytest.mark.parametrize(
        "text,args,kwargs",
        [
            ("at kwargs, seen", (X3,), {}),
            ("at args, seen tuple of length 1", (X3, X3), {"k": np.float32(1)}),
            (r"at args\[0\], seen pytree leaf", ((X3,),), {"k": np.float32(1)}),
            ("float32", (np.arange(3),), {"k": np.float32(1)}),
            (r"float32\[4\]", (np.arange(4, dtype=np.float32),), {"k": np.float32(1)}),
        ],
    )
    def test_errors(self, text, args, kwargs):
        for _ in range(2):
            with pytest.raises(TypeError, match=text):
                self.compiled(*args, **kwargs)

    def test_transformations(self):
        with pytest.raises(TypeError, match="Cannot apply JAX transformations"):
            jax.grad(lambda x: self.compiled(x, k=np.float32(1))["a"].sum())(X3)

    @pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap, jax.checkpoint, jax.pmap])
    def test_transformations_of_itself(self, transform):
        compiled = jax.jit(lax.sin).lower(X3).compile()
        with pytest.raises(TypeError, match="Cannot apply JAX transformations"):
            transform(compiled)(np.ones((1, 3), np.float32))

    def test_weak_references(self):
        traced = jax.jit(lax.sin).trace(X3)
        lowered = traced.lower()
        for stage in (traced, lowered, lowered.compile()):
            assert weakref.ref(stage)() is stage

    def test_wrapped(self):
        assert isinstance(jax.jit(lax.sin), jax.stages.Wrapped)
        assert not isinstance(len, jax.stages.Wrapped)


if __name__ == "__main__":
    absltest.main()
