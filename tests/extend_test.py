"""The public modules for libraries that extend JAX: jax.core, jax.extend, jax.custom_derivatives."""

import importlib
import pkgutil
import warnings

import numpy as np
import pytest
from absl.testing import absltest, parameterized

import jax
import jax.extend
import jax.numpy as jnp
from jax._src import test_util as jtu
from jax.custom_derivatives import linear_call
from jax.extend import core, linear_util as lu, source_info_util
from jax.extend.core import primitives
from jax.interpreters import ad, batching, mlir, partial_eval


def divide(x, y):
    """x / y, linear in x, with a transpose that tells itself from the true one."""
    return linear_call(lambda y, x: x / y, lambda y, ct: 10 * ct / y, y, x)


class LinearCallTest(jtu.JaxTestCase):
    def test_value_and_transpose(self):
        self.assertAllClose(divide(6.0, 3.0), 2.0, check_dtypes=False)
        (ct,) = jax.linear_transpose(lambda x: divide(x, 4.0), 1.0)(8.0)
        self.assertAllClose(ct, 20.0, check_dtypes=False)

    def test_transpose_of_the_transpose_is_the_function(self):
        def transpose(f):
            return lambda ct: jax.linear_transpose(f, 1.0)(ct)[0]

        f = lambda x: divide(x, 4.0)
        self.assertAllClose(transpose(transpose(f))(8.0), 2.0, check_dtypes=False)
        self.assertAllClose(transpose(transpose(transpose(f)))(8.0), 20.0, check_dtypes=False)

    def test_differentiation_by_linear_arguments(self):
        f = lambda x: divide(x, 4.0)
        y, t = jax.jvp(f, (8.0,), (2.0,))
        self.assertAllClose((y, t), (2.0, 0.5), check_dtypes=False)
        for grad in (jax.grad(f), jax.jit(jax.grad(f)), jax.grad(jax.jit(f))):
            self.assertAllClose(grad(8.0), 2.5, check_dtypes=False)

    def test_differentiation_by_residuals(self):
        self.assertAllClose(jax.grad(lambda y: divide(8.0, y))(4.0), -0.5, check_dtypes=False)
        closed_over = lambda y: linear_call(lambda _, x: x / y, lambda _, ct: ct, (), 8.0)
        self.assertAllClose(jax.grad(closed_over)(4.0), -0.5, check_dtypes=False)

    def test_differentiation_by_both(self):
        out, t = jax.jvp(divide, (8.0, 4.0), (2.0, 1.0))
        self.assertAllClose((out, t), (2.0, 0.5 - 0.5), check_dtypes=False)
        of_both = jax.grad(lambda x: divide(x, x) + x)
        self.assertAllClose(of_both(4.0), 2.5 - 0.25 + 1, check_dtypes=False)

    def test_second_derivatives(self):
        # by the residual of the transpose
        f = lambda y: jax.grad(lambda x: divide(x, y) ** 2)(3.0)  # 20 x / y^2
        self.assertAllClose(jax.jit(jax.jacfwd(f))(4.0), -40 * 3 / 4**3, check_dtypes=False)

    def test_vmap(self):
        x, y = np.arange(3.0, dtype=np.float32), np.arange(1.0, 4.0, dtype=np.float32)
        for axes, expected in [((0, 0), x / y), ((0, None), x / 2), ((None, 0), 6 / y)]:
            args = (x if axes[0] == 0 else 6.0, y if axes[1] == 0 else 2.0)
            self.assertAllClose(jax.vmap(divide, axes)(*args), expected, check_dtypes=False)
        mapped_grad = jax.vmap(jax.grad(divide), (None, 0))(1.0, y)
        self.assertAllClose(mapped_grad, 10 / y, check_dtypes=False)
        grad_of_mapped = jax.grad(lambda x: jax.vmap(divide)(x, y).sum())(x)
        self.assertAllClose(grad_of_mapped, 10 / y, check_dtypes=False)

    def test_trees(self):
        def f(res, x):
            return {"sum": res[0] * x[0] + x[1]}

        def t(res, ct):
            return [res[0] * ct["sum"], ct["sum"]]

        fun = lambda x: linear_call(f, t, (3.0,), x)["sum"]
        self.assertAllClose(jax.grad(fun)([1.0, 2.0]), [3.0, 1.0], check_dtypes=False)

    def test_transpose_with_wrong_result(self):
        x = jnp.ones(3)
        wrong_tree = lambda x: linear_call(lambda _, x: x.sum(), lambda _, ct: (ct,), (), x)
        with self.assertRaisesRegex(TypeError, "fun_transpose must have the tree structure"):
            jax.grad(wrong_tree)(x)
        wrong_type = lambda x: linear_call(lambda _, x: x.sum(), lambda _, ct: ct, (), x)
        with self.assertRaisesRegex(TypeError, r"fun_transpose.*float32\[\] for float32\[3\]"):
            jax.grad(wrong_type)(x)


class LinearUtilTest(jtu.JaxTestCase):
    def test_transformations(self):
        @lu.transformation2
        def scaled(f, factor, *args):
            return factor * f(*args)

        @lu.transformation
        def shifted(shift, *args):
            yield (yield args, {}) + shift

        f = lu.wrap_init(lambda x, y: x + y, {"y": 1})
        self.assertEqual(shifted(scaled(f, 10), 5).call_wrapped(2), 35)
        self.assertEqual(scaled(shifted(f, 5), 10).call_wrapped(2), 80)

    def test_auxiliary_results(self):
        @lu.transformation_with_aux2
        def counted(f, store, *args):
            store.store(len(args))
            return f(*args)

        @lu.transformation_with_aux
        def named(name, *args):
            yield (yield args, {}), name

        f = lu.wrap_init(lambda *args: sum(args))
        g, count = counted(f)
        g, name = named(g, "sum")
        with self.assertRaises(lu.StoreException):
            count()
        self.assertEqual((g.call_wrapped(1, 2, 3), count(), name()), (6, 3, "sum"))
        with self.assertRaises(lu.StoreException):
            g.call_wrapped(1, 2, 3)

    def test_merge_linear_aux(self):
        def aux(value):
            if value is None:
                raise lu.StoreException("empty")
            return value

        self.assertEqual(lu.merge_linear_aux(lambda: aux(1), lambda: aux(None)), (True, 1))
        self.assertEqual(lu.merge_linear_aux(lambda: aux(None), lambda: aux(2)), (False, 2))
        for both in (None, 1):
            with self.assertRaises(lu.StoreException):
                lu.merge_linear_aux(lambda both=both: aux(both), lambda both=both: aux(both))

    def test_equality_and_cache(self):
        @lu.transformation_with_aux2
        def doubled(f, store, *args):
            store.store("aux")
            return 2 * f(*args)

        calls = []

        @lu.cache
        def run(fun, x):
            calls.append(x)
            return fun.call_wrapped(x)

        base = lambda x: x + 1
        f, aux_f = doubled(lu.wrap_init(base))
        g, aux_g = doubled(lu.wrap_init(base))
        self.assertEqual(f, g)
        self.assertEqual(hash(f), hash(g))
        self.assertEqual((run(f, 3), run(g, 3)), (8, 8))
        self.assertEqual((aux_f(), aux_g()), ("aux", "aux"))
        self.assertEqual(calls, [3])
        self.assertNotEqual(f, lu.wrap_init(base))
        jax.clear_caches()
        run(doubled(lu.wrap_init(base))[0], 3)
        self.assertEqual(calls, [3, 3])

    def test_errors_reach_generators(self):
        seen = []

        @lu.transformation
        def watched(*args):
            try:
                yield (yield args, {})
            except ZeroDivisionError as err:
                seen.append(err)
                raise

        with self.assertRaises(ZeroDivisionError):
            watched(lu.wrap_init(lambda x: 1 / x)).call_wrapped(0)
        self.assertLen(seen, 1)

    def test_flatten_fun_and_argnums_partial(self):
        from jax import api_util

        tree = jax.tree.structure((({"a": 0}, 0), {"k": 0}))
        fun = lu.wrap_init(lambda d, x, *, k: {"r": d["a"] + x * k})
        flat, out_tree = api_util.flatten_fun(fun, tree)
        self.assertEqual(flat.call_wrapped(1, 2, 3), [7])
        self.assertEqual(out_tree(), jax.tree.structure({"r": 0}))
        part, args = api_util.argnums_partial(
            lu.wrap_init(lambda x, y, z: (x, y, z)), (0, -1), "xyz"
        )
        self.assertEqual(args, ("x", "z"))
        self.assertEqual(part.call_wrapped(1, 3), (1, "y", 3))
        with self.assertRaisesRegex(ValueError, "Non-hashable"):
            api_util.argnums_partial(lu.wrap_init(max), 0, (1, [2]))
        part, _ = api_util.argnums_partial(lu.wrap_init(lambda x, y: y), 0, (1, [2]), False)
        self.assertEqual(part.call_wrapped(1), [2])

    def test_donation(self):
        from jax import api_util

        self.assertEqual(api_util.rebase_donate_argnums((3, 4), (0, 1)), (1, 2))
        with self.assertRaises(ValueError):
            api_util.rebase_donate_argnums((0, 1), (0,))
        args = jax.tree.structure(((1, 2), 3))
        both = jax.tree.structure((((1, 2), 3), {"k": 4}))
        self.assertEqual(api_util.donation_vector((0,), (), args, kws=False), (True, True, False))
        self.assertEqual(api_util.donation_vector((-1,), ("k",), both), (False, False, True, True))


class PrimitiveTest(jtu.JaxTestCase):
    """A primitive made outside, with all rules given through the public registries."""

    def setUp(self):
        super().setUp()
        mul_add = core.Primitive("mul_add")

        @mul_add.def_impl
        def impl(x, y, z):
            return x * y + z

        @mul_add.def_abstract_eval
        def types(x, y, z):
            return x

        def jvp(primals, tangents):
            x, y, _ = primals
            dx, dy, dz = map(ad.instantiate_zeros, tangents)
            return mul_add.bind(*primals), dx * y + x * dy + dz

        ad.primitive_jvps[mul_add] = jvp
        batching.primitive_batchers[mul_add] = lambda args, dims: (
            mul_add.bind(*[batching.bdim_at_front(x, d, 3) for x, d in zip(args, dims)]),
            0,
        )
        mlir.register_lowering(
            mul_add, mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False)
        )
        self.p = mul_add

    def test_everywhere(self):
        args = (2.0, 3.0, 4.0)
        self.assertAllClose(self.p.bind(*args), 10.0, check_dtypes=False)
        self.assertAllClose(jax.jit(self.p.bind)(*args), 10.0, check_dtypes=False)
        self.assertAllClose(
            jax.grad(self.p.bind, (0, 1, 2))(*args), (3.0, 2.0, 1.0), check_dtypes=False
        )
        x = jnp.arange(3.0)
        batched = jax.vmap(self.p.bind, (0, None, 0))(x, 2.0 * jnp.ones(()), x)
        self.assertAllClose(batched, 3 * x)
        self.assertIn("mul_add", str(jax.make_jaxpr(self.p.bind)(*args)))
        self.assertIs(ad.primitive_jvps[self.p], self.p.jvp)
        self.assertIn(self.p, batching.primitive_batchers)

    def test_primitives_of_jaxprs(self):
        jaxpr = jax.make_jaxpr(lambda x: jnp.sin(x) + 1)(1.0)
        self.assertEqual([e.primitive for e in jaxpr.eqns], [primitives.sin_p, primitives.add_p])
        self.assertIs(primitives.add_jaxvals_p, ad.add_jaxvals_p)


class QueriesTest(jtu.JaxTestCase):
    @parameterized.parameters(
        (lambda f: f(1.0), False, False),
        (lambda f: jax.jit(f)(1.0), True, False),
        (lambda f: jax.vmap(f)(np.ones(3)), False, True),
        (lambda f: jax.jit(jax.vmap(f))(np.ones(3)), True, True),
        (lambda f: jax.vmap(jax.jit(f))(np.ones(3)), True, True),
        (lambda f: jax.grad(f)(1.0), False, False),
    )
    def test_transformations_in_progress(self, run, under_jit, under_vmap):
        seen = []

        def f(x):
            seen.append(
                (
                    core.unsafe_am_i_under_a_jit_DO_NOT_USE(),
                    core.unsafe_am_i_under_a_vmap_DO_NOT_USE(),
                    core.nonempty_axis_env_DO_NOT_USE(),
                )
            )
            return x

        run(f)
        self.assertEqual(seen, [(under_jit, under_vmap, under_vmap)])

    def test_axis_names(self):
        names = []

        def f(x):
            names.append(core.unsafe_get_axis_names_DO_NOT_USE())
            return x

        jax.vmap(jax.vmap(jax.vmap(f, axis_name="j")), axis_name="i")(np.ones((2, 2, 2)))
        self.assertEqual(names, [["i", "j"]])
        self.assertEqual(core.unsafe_get_axis_names_DO_NOT_USE(), [])

    def test_trace_state(self):
        states = []

        def f(x):
            states.append(core.get_opaque_trace_state())
            return x

        outer = core.get_opaque_trace_state()
        self.assertEqual(outer, core.get_opaque_trace_state())
        jax.jit(f)(1.0)
        self.assertNotEqual(outer, states[0])

    def test_call_impl_runs_at_once(self):
        @jax.jit
        def f(x):
            y = core.call_impl(jnp.sin, 1.0)
            self.assertNotIsInstance(y, jax.core.Tracer)
            return x + y

        self.assertAllClose(f(0.0), np.sin(1.0), check_dtypes=False)

    def test_array_types(self):
        self.assertIn(np.ndarray, core.array_types)
        self.assertIn(np.float32, core.array_types)
        self.assertNotIn(float, core.array_types)


class MembersTest(jtu.JaxTestCase):
    """Members of core classes and keywords of functions, as the reference has them."""

    def test_types(self):
        aval = jax.core.ShapedArray((2, 3), np.float32, weak_type=True)
        x = jnp.ones((2, 3))
        self.assertEqual((aval.lo_ty(), aval.lower_val(x), aval.is_high), ([aval], [x], False))
        self.assertIs(aval.raise_val(x), x)
        row = aval.dec_rank(2, aval.leading_axis_spec())
        self.assertEqual((row.shape, row.inc_rank(2, 0)), ((3,), aval))
        self.assertFalse(aval.normalize().weak_type)
        self.assertEqual(jax.typeof(3).at_least_vspace().dtype, jax.dtypes.float0)
        self.assertAllClose(aval.vspace_add(x, x), 2 * x)
        token = core.AbstractToken()
        self.assertEqual(token.lo_ty(), [token])
        closed = jax.make_jaxpr(jnp.sin)(1.0)
        self.assertEqual(closed.in_aval_qdds, closed.jaxpr.final_aval_qdds)
        (eqn,) = closed.eqns
        self.assertFalse(eqn.primitive.is_high(*closed.in_avals))
        (eqn,) = jax.make_jaxpr(lambda x: (jax.new_ref(x), None)[1])(1.0).eqns
        self.assertTrue(eqn.primitive.ref_allocating)
        self.assertEqual(core.Literal(1.0, jax.typeof(1.0)).pretty_print(None), "1.0:f32[]")
        self.assertEqual(
            core.Literal(2, jax.typeof(np.int8(2))).pretty_print(None, print_dtype=False), "2"
        )

    def test_traces(self):
        def f(x):
            trace = x._trace
            self.assertIs(trace.full_raise(x), x)
            self.assertIs(trace.stage_value(x), x)
            self.assertFalse(trace.requires_low)
            self.assertRaises(jax.errors.ConcretizationTypeError, getattr, x, "traceback")
            return x * trace.stage_value(2.0)

        self.assertEqual(jax.jit(f)(3.0), 6.0)
        self.assertEqual(jax.grad(f)(3.0), 2.0)
        self.assertIn("mul a 2.0:f32[]", str(jax.make_jaxpr(f)(3.0)))

    def test_jvp(self):
        with_data = lambda x, y: ((x * y, jnp.float32(3.0)), {"y": y})
        outs, tangents, data = ad.jvp(
            with_data, (2.0, 5.0), (1.0, 0.0), has_aux=True, instantiate=[True, False]
        )
        self.assertEqual((outs[0], tangents[0], data), (10.0, 5.0, {"y": 5.0}))
        self.assertIsInstance(tangents[1], ad.Zero)
        _, tangents = ad.jvp(lambda x: [np.float32(3)], (2.0,), (1.0,), instantiate=True)
        self.assertEqual(tangents, [0.0])
        text = jax.jit(
            lambda x: ad.jvp(lambda x: [jnp.sin(x)], (x,), (x,), transform_stack=True)[1]
        )
        self.assertIn("jvp(", text.lower(1.0).as_text(debug_info=True))

    def test_constants_as_arguments_of_functions(self):
        table = np.arange(3, dtype=np.float32)
        closed = jax.make_jaxpr(lambda x: x + jnp.asarray(table))(table)
        options = dict(
            ordered_effects=[], platforms=("cpu",), backend=None, axis_context=None,
            donated_args=None, lowering_parameters=mlir.LoweringParameters(),
        )  # fmt: skip
        for count in (0, len(closed.consts)):
            avals = [jax.typeof(table)] * (count + 1)
            result = mlir.lower_jaxpr_to_module(
                "m", closed, num_const_args=count, in_avals=avals, **options
            )
            text = str(result.module)
            self.assertEqual(text.count("%arg"), text.count("%arg0") + text.count("%arg1"))
            self.assertEqual("%arg1: tensor<3xf32>" in text, count == 1)
            self.assertEqual("dense<[0.0" in text, count == 0)
        with self.assertRaisesRegex(ValueError, "num_const_args is 2"):
            mlir.lower_jaxpr_to_module("m", closed, num_const_args=2, in_avals=None, **options)
        with self.assertRaisesRegex(ValueError, "in_avals has 0 types for 1"):
            mlir.lower_jaxpr_to_module("m", closed, num_const_args=0, in_avals=[], **options)

    def test_staging(self):
        fun = lu.wrap_init(
            lambda x: [(x + 1, x * 2)[1]], debug_info=jax.api_util.debug_info("t", len, (1,), {})
        )
        aval = jax.typeof(1.0)
        jaxpr, avals, consts = partial_eval.trace_to_jaxpr_dynamic(
            fun, [aval, aval], keep_inputs=[False, True], auto_dce=True, lower=True
        )
        self.assertEqual((len(jaxpr.eqns), avals, consts), (1, [aval], []))


class ModulesTest(jtu.JaxTestCase):
    def test_moved_names_warn(self):
        for name in ("Effect", "check_jaxpr", "valid_jaxtype", "new_jaxpr_eqn", "gensym"):
            with pytest.warns(DeprecationWarning, match=f"jax.core.{name} is deprecated"):
                value = getattr(jax.core, name)
            self.assertIs(value, getattr(core, name))

    def test_removed_names_say_what_to_use(self):
        with self.assertRaisesRegex(AttributeError, "jax.typeof"):
            jax.core.get_aval  # noqa: B018
        with self.assertRaisesRegex(AttributeError, "use jax.checkpoint"):
            importlib.import_module("jax.ad_checkpoint").checkpoint  # noqa: B018
        with self.assertRaisesRegex(AttributeError, "has no attribute 'nonsense'"):
            jax.core.nonsense  # noqa: B018

    def test_importing_everything_warns_of_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for module in pkgutil.walk_packages(jax.extend.__path__, "jax.extend."):
                importlib.import_module(module.name)

    def test_one_class_of_errors(self):
        self.assertIs(
            core.InconclusiveDimensionOperation, jax.errors.InconclusiveDimensionOperation
        )
        self.assertIs(core.JaxprTypeError, jax.errors.JaxprTypeError)

    def test_lazy_names(self):
        self.assertIs(jax.reshard, jax.sharding.reshard)
        self.assertIn("print_environment_info", dir(jax))
        with self.assertRaisesRegex(AttributeError, "has no attribute 'nonsense'"):
            jax.nonsense  # noqa: B018

    def test_environment_info(self):
        text = jax.print_environment_info(return_string=True)
        for part in (f"jax:    {jax.__version__}", "jaxlib: ", "numpy:  ", "device info: "):
            self.assertIn(part, text)

    def test_source_info(self):
        with source_info_util.extend_name_stack("outer"), source_info_util.extend_name_stack("in"):
            self.assertEqual(str(source_info_util.current_name_stack()), "outer/in")
            with source_info_util.reset_name_stack():
                self.assertEqual(str(source_info_util.current_name_stack()), "")
        self.assertIn("extend_test.py", source_info_util.summarize(source_info_util.current()))

    def test_mlir_and_backends(self):
        from jax.extend import backend, mlir as extend_mlir, sharding
        from jax.extend.mlir.dialects import stablehlo

        self.assertTrue(hasattr(stablehlo, "AddOp"))
        lowered = jax.jit(jnp.sin).lower(1.0)
        artifact = extend_mlir.serialize_portable_artifact(lowered.as_text(), "1.9.0")
        self.assertIsInstance(artifact, bytes)
        self.assertIs(backend.get_backend(), backend.backends()[jax.default_backend()])
        self.assertEqual(backend.get_default_device(), jax.devices()[0])
        hlo = sharding.get_hlo_sharding_from_serialized_proto(b"")
        self.assertTrue(hlo.is_replicated())
        self.assertEqual(sharding.get_serialized_proto_from_hlo_sharding(hlo), b"")


@pytest.mark.parametrize(
    "rules",
    [
        batching.primitive_batchers,
        batching.axis_primitive_batchers,
        batching.fancy_primitive_batchers,
    ],
)
def test_rules_get_tuples(rules):
    given = []

    def rule(*args):
        given.append(args[-2:])
        return args[-2], args[-1]

    def differentiate(primals, tangents):
        given.append((primals, tangents))
        return primals, tangents

    same = core.Primitive("same")
    same.multiple_results = True
    same.def_impl(lambda *xs: list(xs))
    rules[same] = rule
    ad.primitive_jvps[same] = differentiate
    x = jnp.ones((3, 2))
    jax.vmap(lambda x, y: same.bind(x, y), (0, None))(x, 1.0)
    jax.jvp(lambda x: same.bind(x, 1.0), (x,), (x,))
    assert [type(x) for pair in given for x in pair] == [tuple] * 4
    assert given[0][1] == (0, None)


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
