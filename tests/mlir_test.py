"""Lowering to StableHLO: types, constants, attributes, rules, functions, locations, tokens."""

import gc
import importlib
import os
import pathlib
import shutil
import sys
import tempfile
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from absl.testing import absltest, parameterized

import jax
from jax import lax
from jax._src import core, dtypes, source_info_util
from jax._src.core import effects as effects_lib
from jax._src.interpreters import mlir, partial_eval as pe
from jax._src.lib.mlir import dialects, ir
from jax._src.lib.mlir._lazy import LazyModule
from jax._src.lib.mlir.dialects import hlo

f32 = np.dtype(np.float32)


def aval(shape=(), dtype=f32):
    return core.ShapedArray(shape, np.dtype(dtype))


def text_of(fun, *args, **options):
    return jax.jit(fun, **options).lower(*args).as_text()


def new_primitive(name, lowering=None, **kwargs):
    p = core.Primitive(name)
    p.def_abstract_eval(lambda *avals, **_: avals[0])
    if lowering is not None:
        mlir.register_lowering(p, lowering, **kwargs)
    return p


def module_of(fun, *avals, **kwargs):
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(lambda *xs: fun(*xs), avals)
    closed = core.ClosedJaxpr(jaxpr, consts)
    defaults = dict(
        num_const_args=0, in_avals=None, ordered_effects=(), platforms=("cpu",), backend=None,
        axis_context=None, donated_args=None, lowering_parameters=None,
    )  # fmt: skip
    return mlir.lower_jaxpr_to_module("jit_f", closed, **defaults | kwargs)


DTYPES = {
    np.bool_: "i1",
    np.int8: "i8",
    np.int16: "i16",
    np.int32: "i32",
    np.int64: "i64",
    np.uint8: "ui8",
    np.uint16: "ui16",
    np.uint32: "ui32",
    np.uint64: "ui64",
    np.float16: "f16",
    np.float32: "f32",
    np.float64: "f64",
    np.complex64: "complex<f32>",
    np.complex128: "complex<f64>",
    ml_dtypes.bfloat16: "bf16",
    ml_dtypes.int2: "i2",
    ml_dtypes.int4: "i4",
    ml_dtypes.uint2: "ui2",
    ml_dtypes.uint4: "ui4",
    ml_dtypes.float4_e2m1fn: "f4E2M1FN",
    ml_dtypes.float8_e3m4: "f8E3M4",
    ml_dtypes.float8_e4m3: "f8E4M3",
    ml_dtypes.float8_e4m3b11fnuz: "f8E4M3B11FNUZ",
    ml_dtypes.float8_e4m3fn: "f8E4M3FN",
    ml_dtypes.float8_e4m3fnuz: "f8E4M3FNUZ",
    ml_dtypes.float8_e5m2: "f8E5M2",
    ml_dtypes.float8_e5m2fnuz: "f8E5M2FNUZ",
    ml_dtypes.float8_e8m0fnu: "f8E8M0FNU",
}


class TypesTest(parameterized.TestCase):
    @parameterized.parameters(*DTYPES.items())
    def test_dtype(self, dtype, expected):
        with mlir.make_ir_context(), ir.Location.unknown():
            self.assertEqual(str(mlir.dtype_to_ir_type(np.dtype(dtype))), expected)
            self.assertEqual(str(mlir.dtype_to_ir_type(dtype)), expected)
            array = core.ShapedArray((2, 0), np.dtype(dtype))
            self.assertEqual(str(mlir.aval_to_ir_type(None, array)), f"tensor<2x0x{expected}>")

    def test_other_dtypes(self):
        with mlir.make_ir_context(), ir.Location.unknown():
            self.assertEqual(str(mlir.dtype_to_ir_type(dtypes.float0)), "i1")
            with self.assertRaisesRegex(TypeError, "No dtype_to_ir_type handler for dtype: object"):
                mlir.dtype_to_ir_type(np.dtype(object))

    def test_token(self):
        with mlir.make_ir_context(), ir.Location.unknown():
            self.assertEqual(
                str(mlir.aval_to_ir_type(None, core.abstract_token)), "!stablehlo.token"
            )

    def test_types_are_remembered(self):
        context = mlir.make_ir_context()
        with context, ir.Location.unknown():
            ctx = mlir.ModuleContext(context=context, platforms=("cpu",))
            a = aval((3,))
            self.assertIs(mlir.aval_to_ir_type(ctx, a), mlir.aval_to_ir_type(ctx, a))

    def test_unknown_aval(self):
        class Unknown(core.AbstractValue):
            pass

        with self.assertRaisesRegex(TypeError, "No ir_type_handler"):
            mlir.aval_to_ir_types(None, Unknown())

    def test_several_values(self):
        values = [1, (2, 3), (), 4]
        flat = mlir.flatten_ir_values(values)
        self.assertEqual(flat, [1, 2, 3, 4])
        types = ["t", ("t", "t"), (), "t"]
        self.assertEqual(mlir.unflatten_ir_values_like_types(flat, types), values)
        with self.assertRaises(ValueError):
            mlir.unflatten_ir_values_like_types(flat, types[:-1])


@pytest.mark.usefixtures("fusion_emitters")
class ConstantsTest(parameterized.TestCase):
    @parameterized.product(
        dtype=list(DTYPES),
        values=[[0, 1], [], [1, 1, 1], [[1, 0, 1], [0, 0, 1]], 1],
    )
    def test_array(self, dtype, values):
        with jax.enable_x64(True):
            x = np.array(values, np.float32).astype(dtype)
            out = jax.jit(lambda: x)()
            self.assertEqual(out.dtype, x.dtype)
            self.assertEqual(out.shape, x.shape)
            np.testing.assert_array_equal(
                np.asarray(out).astype(np.complex64), x.astype(np.complex64)
            )

    @parameterized.parameters(
        (lambda: np.arange(24, dtype=np.int32).reshape(2, 3, 4).transpose(2, 0, 1),),
        (lambda: np.arange(12, dtype=np.float32)[::-2],),
        (lambda: np.asfortranarray(np.arange(6.0, dtype=np.float32).reshape(2, 3)),),
        (lambda: np.array([True, False, True] * 7),),
        (lambda: np.array([np.nan, -0.0, np.inf], np.float32),),
    )
    def test_layouts_of_numpy(self, make):
        x = make()
        out = np.asarray(jax.jit(lambda: x)())
        np.testing.assert_array_equal(out, x)
        if x.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(out), np.signbit(x))

    @parameterized.parameters(
        ((7, 3), (3,)), ((2, 5), (2, 1)), ((4, 4), ()), ((2, 3, 4), (2, 1, 4))
    )
    def test_broadcast_array_stores_what_differs(self, shape, small):
        x = np.broadcast_to(
            np.arange(max(1, int(np.prod(small))), dtype=np.float32).reshape(small), shape
        )
        text = text_of(lambda: x)
        self.assertIn("stablehlo.broadcast_in_dim", text)
        np.testing.assert_array_equal(np.asarray(jax.jit(lambda: x)()), x)

    def test_splat_is_one_value(self):
        self.assertIn(
            "stablehlo.constant dense<2.000000e+00> : tensor<100x100xf32>",
            text_of(lambda: np.full((100, 100), 2, np.float32)),
        )

    def test_scalars(self):
        text = text_of(lambda x: lax.add(x, np.float32(3)), np.float32(1))
        self.assertIn("dense<3.000000e+00> : tensor<f32>", text)
        with mlir.make_ir_context(), ir.Location.unknown():
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                for value, dtype, shown in (
                    (True, np.bool_, "true"),
                    (3, np.int8, "3"),
                    (3, np.float32, "3.000000e+00"),
                    (1.5, ml_dtypes.bfloat16, "1.500000e+00"),
                    (2j, np.complex64, "(0.000000e+00,2.000000e+00)"),
                ):
                    out = mlir.ir_constant(value, aval=aval((), dtype))
                    self.assertIn(f"dense<{shown}>", str(out.owner))
                (out,) = mlir.ir_constants(np.int16(4))
                self.assertIn("dense<4> : tensor<i16>", str(out.owner))
                a = np.arange(3)
                x, y = mlir.ir_consts([a, a], [None, None])
                self.assertEqual(x, y)
                with self.assertRaisesRegex(OverflowError, "lowering the constant 1000"):
                    mlir.ir_constant(1000, aval=aval((), np.int8))
                with self.assertRaisesRegex(TypeError, "No constant handler for type"):
                    mlir.ir_constant(object())
                with self.assertRaisesRegex(ValueError, "masked arrays are not supported"):
                    mlir.ir_constant(np.ma.array([1, 2], mask=[0, 1]))

    def test_array_of_jax(self):
        c = jax.device_put(np.arange(3, dtype=np.float32))
        np.testing.assert_array_equal(
            jax.jit(lambda x: lax.add(x, c))(np.ones(3, np.float32)), [1, 2, 3]
        )

    def test_registered_class(self):
        class Mine:
            pass

        mlir.register_constant_handler(Mine, lambda val, aval: mlir.ir_constant(np.float32(7)))
        with mlir.make_ir_context(), ir.Location.unknown():
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                self.assertIn("7.0", str(mlir.ir_constant(Mine()).owner))


class AttributesTest(parameterized.TestCase):
    @parameterized.parameters(
        (3, "3 : i64"),
        (3.0, "3.000000e+00 : f64"),
        (True, "true"),
        ("a", '"a"'),
        (b"x", '"x"'),
        (np.int32(3), "3 : i32"),
        (np.uint8(3), "3 : ui8"),
        (np.float32(2), "2.000000e+00 : f32"),
        (ml_dtypes.bfloat16(2), "2.000000e+00 : bf16"),
        (np.arange(3), "dense<[0, 1, 2]> : tensor<3xi64>"),
        (np.array([True, False]), "dense<[true, false]> : tensor<2xi1>"),
        ([1, 2], "[1, 2]"),
        ((1.0,), "[1.000000e+00]"),
        ({"a": 1}, "{a = 1 : i64}"),
        (np.dtype("float32"), "f32"),
    )
    def test_value(self, value, expected):
        with mlir.make_ir_context(), ir.Location.unknown():
            attr = mlir.ir_attribute(value)
            self.assertEqual(str(attr), expected)
            self.assertEqual(str(mlir.ir_attribute(attr)), expected)

    def test_no_handler(self):
        with mlir.make_ir_context(), ir.Location.unknown():
            with self.assertRaisesRegex(TypeError, "No attribute handler defined for type"):
                mlir.ir_attribute(None)
            with self.assertRaisesRegex(TypeError, "Unsupported scalar attribute type"):
                mlir.ir_attribute(1j)

    def test_helpers(self):
        with mlir.make_ir_context(), ir.Location.unknown():
            self.assertEqual(str(mlir.dense_int_array([1, 2])), "array<i64: 1, 2>")
            self.assertEqual(str(mlir.dense_int_elements([1, 2])), "dense<[1, 2]> : tensor<2xi64>")
            self.assertEqual(str(mlir.dense_bool_array([True])), "array<i1: true>")
            self.assertEqual(str(mlir.i32_attr(1)), "1 : i32")
            self.assertEqual(str(mlir.i64_attr(1)), "1 : i64")


class RulesTest(parameterized.TestCase):
    def test_result_forms(self):
        for rule in (
            lambda ctx, x: [x],
            lambda ctx, x: x,
            lambda ctx, x: (x,),
            lambda ctx, x: hlo.AddOp(x, x).results,
        ):
            p = new_primitive("p", rule)
            self.assertIn("return", text_of(p.bind, 1.0))

    @parameterized.parameters(
        (lambda ctx, x: [x, x], "must return 1 IR value.*got 2"),
        (lambda ctx, x: None, "must return 1 IR value.*got None"),
        (lambda ctx, x: [], "must return 1 IR value.*got 0"),
    )
    def test_wrong_number_of_results(self, rule, message):
        p = new_primitive("odd", rule)
        with self.assertRaisesRegex(ValueError, f"Lowering rule for 'odd' {message}"):
            jax.jit(p.bind).lower(1.0)

    def test_wrong_type_fails_verification(self):
        p = new_primitive("wrong", lambda ctx, x: [mlir.ir_constant(np.ones(3, np.float32))])
        with self.assertRaisesRegex(
            ValueError, "(?s)Cannot lower jaxpr with verifier errors.*JAX_DUMP_IR_TO"
        ):
            jax.jit(p.bind).lower(1.0)

    def test_errors_show_where_the_operation_was_written(self):
        def fail(ctx, x):
            raise RuntimeError("not today")

        p = new_primitive("failing", fail)
        with self.assertRaisesRegex(RuntimeError, "not today") as raised:
            jax.jit(lambda x: p.bind(x)).lower(1.0)
        self.assertIn("JaxStackTraceBeforeTransformation", str(type(raised.exception.__cause__)))
        # and the next lowering works
        self.assertIn("sine", text_of(lax.sin, 1.0))

    def test_missing_rule(self):
        p = new_primitive("bar")
        with self.assertRaisesRegex(
            NotImplementedError,
            "MLIR translation rule for primitive 'bar' not found for platform cpu",
        ):
            jax.jit(p.bind).lower(1.0)
        mlir.register_lowering(p, lambda ctx, x: [x], platform="tpu")
        with self.assertRaisesRegex(NotImplementedError, "platform cpu"):
            jax.jit(p.bind).lower(1.0)
        self.assertIn(
            "main", jax.jit(p.bind).trace(1.0).lower(lowering_platforms=("tpu",)).as_text()
        )
        with self.assertRaisesRegex(NotImplementedError, r"platforms \['cpu'\]"):
            jax.jit(p.bind).trace(1.0).lower(lowering_platforms=("tpu", "cpu"))

    def test_unknown_platform(self):
        with self.assertRaisesRegex(
            NotImplementedError, "unknown platform vax. Known platforms are: .*cpu.*tpu"
        ):
            mlir.register_lowering(new_primitive("p"), lambda ctx, x: [x], platform="vax")

    def test_platform_rule_comes_first(self):
        p = new_primitive("p", lambda ctx, x: [hlo.sine(x)])
        mlir.register_lowering(p, lambda ctx, x: [hlo.cosine(x)], platform="cpu")
        mlir.register_lowering(p, lambda ctx, x: [hlo.tan(x)], platform="gpu")
        trace = jax.jit(p.bind).trace(1.0)
        self.assertIn("cosine", trace.lower().as_text())
        self.assertIn("sine", trace.lower(lowering_platforms=("tpu",)).as_text())
        for platform in ("cuda", "rocm"):
            self.assertIn("stablehlo.tan ", trace.lower(lowering_platforms=(platform,)).as_text())

    def test_several_platforms(self):
        p = new_primitive("p", lambda ctx, x: [hlo.sine(x)])
        mlir.register_lowering(p, lambda ctx, x: [hlo.cosine(x)], platform="tpu")
        seen = []
        mlir.register_lowering(
            p, lambda ctx, x: seen.append(list(ctx.platforms)) or [hlo.tan(x)], platform="gpu"
        )
        trace = jax.jit(lambda x: lax.add(p.bind(x), x)).trace(1.0)
        text = trace.lower(lowering_platforms=("cpu", "tpu", "cuda", "rocm")).as_text()
        self.assertIn('%arg0: tensor<i32> {jax.global_constant = "_platform_index"}', text)
        for op in ("stablehlo.case", "stablehlo.sine", "stablehlo.cosine", "stablehlo.tan "):
            self.assertIn(op, text)
        self.assertEqual(text.count("stablehlo.tan "), 1)
        self.assertEqual(seen, [["cuda", "rocm"]])
        same = jax.jit(lax.sin).trace(1.0).lower(lowering_platforms=("tpu", "cuda")).as_text()
        self.assertNotIn("case", same)
        with self.assertRaisesRegex(ValueError, "several platforms"):
            trace.lower(lowering_platforms=("cpu", "tpu")).compile()

    def test_override(self):
        p = new_primitive("p", lambda ctx, x: [hlo.sine(x)])
        params = mlir.LoweringParameters(
            override_lowering_rules=((p, lambda ctx, x: [hlo.cosine(x)]),)
        )
        result = module_of(lambda x: [p.bind(x)], aval(), lowering_parameters=params)
        self.assertIn("cosine", str(result.module))

    def test_context(self):
        seen = []
        p = core.Primitive("p")
        p.def_abstract_eval(lambda x, y, *, k: aval((2,)))
        mlir.register_lowering(
            p,
            lambda ctx, x, y, *, k: (
                seen.append((ctx, k)) or [mlir.full_like_aval(ctx, k, *ctx.avals_out)]
            ),
        )
        text = text_of(lambda x: p.bind(x, 2.0, k=3), np.ones(4, np.float32), keep_unused=True)
        ((ctx, k),) = seen
        self.assertEqual(k, 3)
        self.assertEqual([str(a) for a in ctx.avals_in], ["float32[4]", "~float32[]"])
        self.assertEqual([str(a) for a in ctx.avals_out], ["float32[2]"])
        self.assertIs(ctx.primitive, p)
        self.assertEqual(ctx.module_context.platforms, ("cpu",))
        self.assertIn("dense<3.000000e+00>", text)
        replaced = ctx.replace(platforms=("tpu",))
        self.assertEqual(replaced.platforms, ("tpu",))
        self.assertIs(replaced.module_context, ctx.module_context)
        self.assertFalse(ctx.is_forward_compat())

    def test_lower_fun(self):
        traced = []

        def fun(x, *, k):
            traced.append(x)
            return lax.mul(lax.sin(x), np.float32(k))

        p = new_primitive("p", mlir.lower_fun(fun, multiple_results=False))
        f = lambda x: p.bind(lax.add(p.bind(x, k=2), p.bind(x, k=2)), k=3)
        text = text_of(f, 1.0)
        self.assertEqual(text.count("stablehlo.sine"), 3)
        self.assertLen(traced, 2)  # once for each k
        np.testing.assert_allclose(f(1.0), 3 * np.sin(4 * np.sin(1.0)), rtol=1e-6)
        many = core.Primitive("many", multiple_results=True)
        many.def_abstract_eval(lambda x: [x, x])
        mlir.register_lowering(many, mlir.lower_fun(lambda x: [lax.sin(x), x]))
        self.assertIn("sine", text_of(lambda x: many.bind(x), 1.0))

    def test_delegate(self):
        sine = lambda ctx, x: [hlo.sine(x)]
        p = new_primitive(
            "p",
            lambda ctx, x: mlir.delegate_lowering(
                ctx, sine, x, avals_in=[aval()], avals_out=[aval()]
            ),
        )
        self.assertIn("sine", text_of(p.bind, 1.0))

    def test_not_inlined(self):
        p = new_primitive("heavy", lambda ctx, x, *, k: [hlo.sine(x)], inline=False)
        text = text_of(
            lambda x: lax.add(lax.add(p.bind(x, k=1), p.bind(x, k=1)), p.bind(x, k=2)), 1.0
        )
        self.assertEqual(text.count("call @heavy"), 3)
        self.assertEqual(text.count("func.func private @heavy"), 2)
        self.assertEqual(text.count("stablehlo.sine"), 2)

    def test_rules_live_on_the_primitive(self):
        rule = lambda ctx, x: [x]
        p = new_primitive("p", rule)
        self.assertIs(p.lowerings[None], rule)


class FunctionsTest(parameterized.TestCase):
    def test_nested_jit_is_one_function(self):
        g = jax.jit(lax.sin)
        text = text_of(lambda x: lax.add(g(x), g(lax.mul(x, x))), 1.0)
        self.assertEqual(text.count("func.func private @sin"), 1)
        self.assertEqual(text.count("call @sin"), 2)

    def test_names_are_unique(self):
        def inner(x):
            return lax.sin(x)

        first = jax.jit(inner)

        def inner(x):
            return lax.cos(x)

        second = jax.jit(inner)
        text = text_of(lambda x: lax.add(first(x), second(x)), 1.0)
        self.assertIn("@inner(", text)
        self.assertIn("@inner_0(", text)

    def test_names(self):
        @jax.jit
        def f(x, y):
            return {"a": x, "b": [y]}

        text = f.lower(np.ones((2, 3), np.float32), 1.0).as_text()
        self.assertIn("module @jit_f ", text)
        self.assertIn("func.func public @main(", text)
        self.assertIn("jax.result_info = \"result['a']\"", text)
        self.assertIn("jax.result_info = \"result['b'][0]\"", text)
        self.assertIn("mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32", text)
        self.assertIn("module @jit__lambda", text_of(lambda x: x, 1.0))
        self.assertEqual(mlir.sanitize_name("<lambda> f.b(c)/é"), "_lambda__f.b_c__é")

    def test_locations(self):
        @jax.jit
        def f(x):
            with jax.named_scope("layer"):
                return lax.sin(x)

        text = f.lower(1.0).as_text(debug_info=True)
        self.assertIn('loc("x")', text)
        self.assertIn('"jit(f)/layer/sin"', text)
        self.assertIn("mlir_test.py", text)
        self.assertNotIn("/jax/_src/", text)
        self.assertNotIn("mlir_test.py", f.lower(1.0).as_text())

    def test_only_the_innermost_frame(self):
        def inner(x):
            return lax.sin(x)

        def outer(x):
            return inner(x)

        with_all = jax.jit(lambda x: outer(x)).lower(1.0).as_text(debug_info=True)
        self.assertIn("callsite", with_all)
        previous = jax.config.jax_include_full_tracebacks_in_locations
        jax.config.update("jax_include_full_tracebacks_in_locations", False)
        try:
            text = jax.jit(lambda x: outer(x)).lower(1.0).as_text(debug_info=True)
        finally:
            jax.config.update("jax_include_full_tracebacks_in_locations", previous)
        self.assertNotIn("callsite", text)
        self.assertIn("mlir_test.py", text)

    def test_unused_arguments(self):
        f = lambda x, y, z: lax.sin(y)
        text = text_of(f, 1.0, np.ones(2, np.float32), 2)
        self.assertIn("@main(%arg0: tensor<2xf32>)", text)
        text = text_of(f, 1.0, np.ones(2, np.float32), 2, keep_unused=True)
        self.assertIn("%arg2: tensor<i32>", text)
        self.assertNotIn("cosine", text_of(lambda x: (lax.cos(x), lax.sin(x))[1], 1.0))

    def test_jaxpr_of_wrong_length(self):
        with self.assertRaisesRegex(ValueError, "1 arguments got 0 and 0 values"):
            jaxpr, _, _ = pe.trace_to_jaxpr_dynamic(lambda x: [x], [aval()])
            context = mlir.make_ir_context()
            with context, ir.Location.unknown():
                ctx = mlir.ModuleContext(context=context, platforms=("cpu",))
                mlir.jaxpr_subcomp(
                    ctx, jaxpr, source_info_util.new_name_stack(), mlir.TokenSet(), (),
                    dim_var_values=(), const_lowering=None, outer_traceback=None,
                )  # fmt: skip

    def test_merge_modules(self):
        first = module_of(lambda x: [jax.jit(lax.sin)(x)], aval()).module
        second = module_of(lambda x: [jax.jit(lax.sin)(lax.cos(x))], aval()).module
        name = mlir.merge_mlir_modules(first, "other", second)
        text = str(first)
        self.assertEqual(name, "other")
        self.assertIn("func.func private @other", text)
        self.assertIn("@sin_0", text)
        self.assertTrue(first.operation.verify())

    def test_helper_module(self):
        jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(lambda x: [lax.sin(x)], [aval()])
        module = mlir.build_mlir_module_helper(
            core.ClosedJaxpr(jaxpr, consts), name="mine", platforms=["cpu"], backend=None
        )
        self.assertIn("module @mine", mlir.module_to_string(module))
        self.assertStartsWith(mlir.module_to_bytecode(module), b"ML\xefR")

    def test_dump(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        jax.config.update("jax_dump_ir_to", folder)
        try:
            jax.jit(lax.sin).lower(1.0)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        (name,) = os.listdir(folder)
        self.assertRegex(name, r"jax_ir\d+_jit_sin_compile.mlir")
        with open(os.path.join(folder, name)) as file:
            self.assertIn("stablehlo.sine", file.read())


class OrderedEffect(effects_lib.Effect):
    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(type(self))


class UnlowerableEffect(effects_lib.Effect):
    pass


effects_lib.ordered_effects.add_type(OrderedEffect)
effects_lib.lowerable_effects.add_type(OrderedEffect)
effects_lib.control_flow_allowed_effects.add_type(OrderedEffect)


def effectful(lowering, effect):
    p = core.Primitive("effectful")
    p.def_effectful_abstract_eval(lambda x: (x, {effect}))
    mlir.register_lowering(p, lowering)
    return p


class EffectsTest(parameterized.TestCase):
    def test_token_set(self):
        a, b = OrderedEffect(), "b"
        tokens = mlir.TokenSet({a: 1, b: 2})
        self.assertLen(tokens, 2)
        self.assertEqual(tokens.get(a), 1)
        self.assertEqual(tokens.effects(), {a, b})
        self.assertEqual(tokens.subset([b]).items(), ((b, 2),))
        self.assertEqual(tokens.update_tokens(mlir.TokenSet({b: 3})).items(), ((a, 1), (b, 3)))

    def test_unlowerable(self):
        p = effectful(lambda ctx, x: [x], UnlowerableEffect())
        with self.assertRaisesRegex(ValueError, "Cannot lower jaxpr with effects"):
            jax.jit(p.bind).lower(1.0)

    def test_tokens_must_be_set(self):
        p = effectful(lambda ctx, x: [x], OrderedEffect())
        with self.assertRaisesRegex(ValueError, "'effectful' needs to set `tokens_out`"):
            jax.jit(p.bind).lower(1.0)

    def test_tokens_are_threaded(self):
        def lowering(ctx, x):
            ((eff, token),) = ctx.tokens_in.items()
            ctx.set_tokens_out(mlir.TokenSet({eff: hlo.after_all([token])}))
            return [x]

        p = effectful(lowering, OrderedEffect())
        f = jax.jit(lambda x: p.bind(jax.jit(p.bind)(p.bind(x))))
        text = f.lower(1.0).as_text()
        self.assertIn("%arg0: !stablehlo.token {jax.token = true}, %arg1: tensor<f32>", text)
        self.assertEqual(text.count("stablehlo.after_all"), 3)
        self.assertIn("call @", text)
        self.assertIn("-> (!stablehlo.token, tensor<f32>)", text)
        self.assertEqual(float(f(2.0)), 2.0)
        self.assertEqual(float(f(3.0)), 3.0)
        jax.effects_barrier()


class OperationsTest(parameterized.TestCase):
    def run_rule(self, rule, out, *args):
        p = core.Primitive("p")
        p.def_abstract_eval(lambda *avals: out)
        mlir.register_lowering(p, rule)
        return np.asarray(jax.jit(lambda *xs: p.bind(*xs))(*args))

    def test_minimum_of_complex_numbers_is_lexicographic(self):
        x = np.array([1 + 2j, 1 + 3j, 0 + 9j], np.complex64)
        y = np.array([1 + 3j, 1 + 2j, 1 + 0j], np.complex64)
        out = aval((3,), np.complex64)
        low = self.run_rule(lambda ctx, x, y: [mlir.min_hlo(x, y)], out, x, y)
        high = self.run_rule(lambda ctx, x, y: [mlir.max_hlo(x, y)], out, x, y)
        np.testing.assert_array_equal(low, [1 + 2j, 1 + 2j, 9j])
        np.testing.assert_array_equal(high, [1 + 3j, 1 + 3j, 1])

    @parameterized.parameters(np.float32, np.int32, np.uint8, np.complex64)
    def test_convert_to_bool(self, dtype):
        x = np.array([0, 1, 2], dtype)
        out = self.run_rule(
            lambda ctx, x: [mlir.convert_hlo(ctx, x, *ctx.avals_in, *ctx.avals_out)],
            aval((3,), bool),
            x,
        )
        np.testing.assert_array_equal(out, [False, True, True])

    def test_shapes(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        full = self.run_rule(
            lambda ctx, x: [mlir.full_like_aval(ctx, 5, *ctx.avals_out)], aval((2, 2)), x
        )
        np.testing.assert_array_equal(full, np.full((2, 2), 5))
        iota = self.run_rule(
            lambda ctx, x: [mlir.iota(ctx, *ctx.avals_out, dimension=1)], aval((2, 3), np.int32), x
        )
        np.testing.assert_array_equal(iota, [[0, 1, 2]] * 2)
        cut = self.run_rule(
            lambda ctx, x: [
                mlir.slice_op(
                    ctx,
                    x,
                    *ctx.avals_out,
                    start_indices=(0, 1),
                    limit_indices=(2, 3),
                    strides=(1, 1),
                )
            ],
            aval((2, 2)),
            x,
        )
        np.testing.assert_array_equal(cut, x[:, 1:])
        flat = self.run_rule(lambda ctx, x: [mlir.reshape(ctx, x, *ctx.avals_out)], aval((6,)), x)
        np.testing.assert_array_equal(flat, x.ravel())
        wide = self.run_rule(
            lambda ctx, x, y: [mlir.multi_broadcast_in_dim(ctx, [x, y], ctx.avals_in, (2, 3))[1]],
            aval((2, 3)),
            x,
            np.arange(3, dtype=np.float32),
        )
        np.testing.assert_array_equal(wide, [[0, 1, 2]] * 2)
        padded = self.run_rule(
            lambda ctx, x: [
                mlir.pad(
                    ctx, *ctx.avals_out, x, mlir.ir_constant(np.float32(9)), (1, 0), (0, -1), (0, 0)
                )
            ],
            aval((3, 2)),
            x,
        )
        np.testing.assert_array_equal(padded, [[9, 9], [0, 1], [3, 4]])

    def test_dynamic_slices(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        index = lambda i: mlir.ir_constant(np.int32(i))
        out = self.run_rule(
            lambda ctx, x: [
                mlir.dynamic_slice(ctx, *ctx.avals_out, x, start_indices=[index(1), index(1)])
            ],
            aval((1, 2)),
            x,
        )
        np.testing.assert_array_equal(out, x[1:, 1:])
        out = self.run_rule(
            lambda ctx, x, y: [
                mlir.dynamic_update_slice(
                    ctx, *ctx.avals_out, x, y, start_indices=[index(0), index(2)]
                )
            ],
            aval((2, 3)),
            x,
            np.full((2, 1), 9, np.float32),
        )
        np.testing.assert_array_equal(out, [[0, 1, 9], [3, 4, 9]])

    def test_reduce_window(self):
        def rule(ctx, x):
            return mlir.reduce_window(
                ctx,
                reducer_name="add",
                reducer_body=lambda block: [hlo.add(*block.arguments)],
                operands=[x],
                init_values=[mlir.ir_constant(np.float32(0))],
                init_values_avals=[aval()],
                out_avals=ctx.avals_out,
                window_dimensions=(2,),
                window_strides=(1,),
                padding=((1, 0),),
                base_dilation=(1,),
                window_dilation=(1,),
            )

        out = self.run_rule(rule, aval((4,)), np.arange(4, dtype=np.float32))
        np.testing.assert_array_equal(out, [0, 1, 3, 5])

    def test_custom_call(self):
        def rule(ctx, x):
            types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in ctx.avals_out]
            return mlir.custom_call(
                "my_target",
                result_types=types,
                operands=[x],
                backend_config={"k": mlir.i32_attr(3)},
                api_version=4,
                has_side_effect=True,
                operand_output_aliases={0: 0},
                operand_layouts=[(1, 0)],
                result_layouts=[(0, 1)],
                extra_attributes={"note": ir.StringAttr.get("hi")},
            ).results

        p = new_primitive("p", rule)
        text = text_of(p.bind, np.ones((2, 3), np.float32))
        for part in (
            "custom_call @my_target",
            "api_version = 4",
            "mhlo.backend_config = {k = 3 : i32}",
            "has_side_effect = true",
            'note = "hi"',
            "operand_layouts = [dense<[1, 0]> : tensor<2xindex>]",
            "result_layouts = [dense<[0, 1]> : tensor<2xindex>]",
            "#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0",
        ):
            self.assertIn(part.replace("mhlo.", "") if "backend_config" in part else part, text)

    @parameterized.parameters(
        (dict(backend_config={"a": 1}), "needs api_version 4"),
        (dict(backend_config=3), "must be a string, bytes or a dict"),
        (dict(operand_layouts=[(0,)]), "without result_layouts"),
        (dict(result_layouts=[(0,)]), "without operand_layouts"),
    )
    def test_custom_call_errors(self, options, message):
        with mlir.make_ir_context(), ir.Location.unknown():
            options = {
                k: {n: mlir.i32_attr(v) for n, v in x.items()} if isinstance(x, dict) else x
                for k, x in options.items()
            }
            with self.assertRaisesRegex(ValueError, message):
                mlir.custom_call("t", result_types=[], operands=[], **options)

    def test_emit(self):
        p = new_primitive("p", lambda ctx, x: [mlir.emit("stablehlo.sine", [x])])
        self.assertIn("stablehlo.sine", text_of(p.bind, 1.0))

    def test_bindings_are_imported_without_garbage_collections(self):
        source = "import gc\ncollects = gc.isenabled()\nif fails: 0 / 0\n"
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "native_part.py").write_text("attribute = 1")
        for name, fails in (("good_bindings", False), ("bad_bindings", True)):
            (folder / f"{name}.py").write_text(f"fails = {fails}\n{source}")
        with mock.patch.object(sys, "path", [str(folder), *sys.path]):
            good = LazyModule("good", "good_bindings", native="native_part")
            self.assertEqual(good.attribute, 1)
            self.assertNotIn("good_bindings", sys.modules)
            self.assertFalse(good.collects)
            self.assertTrue(gc.isenabled())
            with self.assertRaises(ZeroDivisionError):
                _ = LazyModule("bad", "bad_bindings").collects
            self.assertTrue(gc.isenabled())
            gc.disable()
            try:
                with self.assertRaises(ZeroDivisionError):
                    _ = LazyModule("bad", "bad_bindings").collects
                self.assertFalse(gc.isenabled())
            finally:
                gc.enable()

    def test_native_parts_of_dialects_have_what_the_dialects_have(self):
        for name in ("chlo", "sdy"):
            # As in programs, the native part is imported first.
            self.assertTrue(callable(getattr(dialects, name).register_dialect))
            native = importlib.import_module(f"jaxlib.mlir._mlir_libs._{name}")
            whole = importlib.import_module(f"jaxlib.mlir.dialects.{name}")
            for attribute in dir(native):
                if not attribute.startswith("_"):
                    self.assertIs(getattr(whole, attribute), getattr(native, attribute))


if __name__ == "__main__":
    absltest.main()
