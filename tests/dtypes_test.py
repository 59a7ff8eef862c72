"""Types: defaults, canonicalization, promotion (beside the oracle in dtypes_scenarios.py), classes, names."""

import copy
import enum
import itertools
import pickle
import warnings

import ml_dtypes
import numpy as np
from absl.testing import absltest, parameterized
from op_testing import case_tests

from jax._src import (
    config,
    core as core,  # gives typed literals their avals
    dtypes,
    literals,
)
from jax._src.lib import _jax

reference, test_reference, _ = case_tests(__file__)


class Color(enum.IntEnum):
    RED = 1


class DtypesTest(parameterized.TestCase):
    @parameterized.parameters(False, True)
    def test_promotion_is_commutative_and_idempotent(self, x64):
        types = [*dtypes.jax_types, int, float, complex]
        if not x64:
            types = [t for t in types if t not in dtypes.dtype_to_32bit_dtype]

        def combine(a, b):
            try:
                return dtypes.jax_type(*dtypes.lattice_result_type(a, b))
            except dtypes.TypePromotionError:
                return None

        with config.enable_x64(x64):
            for a, b in itertools.product(types, repeat=2):
                self.assertEqual(combine(a, b), combine(b, a))
            for a in types:
                self.assertEqual(combine(a, a), a)

    @parameterized.parameters(
        (True, "bool", "bool"),
        (1, "int32", "int64"),
        (1.0, "float32", "float64"),
        (1j, "complex64", "complex128"),
        (2**70, "int32", "int64"),
        (int, "int32", "int64"),
        (float, "float32", "float64"),
        (np.ones(2), "float32", "float64"),
        (np.int64(1), "int32", "int64"),
        (np.ones(2, np.uint64), "uint32", "uint64"),
        (np.ones(2, ml_dtypes.bfloat16), "bfloat16", "bfloat16"),
        (np.ones(2, ml_dtypes.int4), "int4", "int4"),
        (Color.RED, "int32", "int64"),
        ("float16", "float16", "float16"),
    )
    def test_dtype(self, x, narrow, wide):
        self.assertEqual(dtypes.dtype(x), np.dtype(narrow))
        with config.enable_x64(True):
            self.assertEqual(dtypes.dtype(x), np.dtype(wide))

    @parameterized.parameters(
        ([1, 2], TypeError, "Cannot determine dtype"),
        (None, ValueError, "None"),
        ("number", TypeError, "number"),
        (np.array(["a"]), TypeError, "not a valid JAX array type"),
        (np.array([None]), TypeError, "not a valid JAX array type"),
        (np.ones(2, ">f4"), TypeError, "not a valid JAX array type"),
        (np.floating, TypeError, "abstract class"),
        (np.generic, TypeError, "abstract class"),
    )
    def test_dtype_errors(self, x, error, message):
        with self.assertRaisesRegex(error, message):
            dtypes.dtype(x)

    def test_canonicalize(self):
        for name in ("float64", "int64", "uint64", "complex128"):
            narrow = dtypes.dtype_to_32bit_dtype[np.dtype(name)]
            self.assertEqual(dtypes.canonicalize_dtype(name), narrow)
            with config.enable_x64(True):
                self.assertEqual(dtypes.canonicalize_dtype(name), np.dtype(name))
        self.assertEqual(dtypes.canonicalize_dtype(None), np.dtype("float32"))
        with self.assertRaisesRegex(TypeError, "not understood"):
            dtypes.canonicalize_dtype("nothing")

    def test_explicit_64_bit_types(self):
        ask = dtypes.check_and_canonicalize_user_dtype
        with self.assertWarnsRegex(
            UserWarning, "float64 requested in zeros is not available.*f"
        ) as w:
            self.assertEqual(ask("float64", "zeros"), np.dtype("float32"))
        self.assertEqual(w.filename, __file__)
        with config.explicit_x64_dtypes("error"):
            with self.assertRaisesRegex(ValueError, "int64.*jax_enable_x64"):
                ask(np.int64, "ones")
        with config.explicit_x64_dtypes("allow"):
            self.assertEqual(ask(np.int64), np.dtype("int64"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(ask(float, "zeros"), np.dtype("float32"))
            with config.enable_x64(True):
                self.assertEqual(ask("float64", "zeros"), np.dtype("float64"))

    @parameterized.parameters(
        (None, ValueError, "must be given"),
        (np.str_, TypeError, "only supports number"),
        ("O", TypeError, "only supports number"),
        (np.floating, TypeError, "abstract class"),
        ("foo", TypeError, "foo"),
        (3, TypeError, "3"),
    )
    def test_user_dtype_errors(self, x, error, message):
        with self.assertRaisesRegex(error, message):
            dtypes.check_and_canonicalize_user_dtype(x, "f")

    def test_promotion_errors(self):
        with self.assertRaisesRegex(dtypes.TypePromotionError, "8-bit floats.*x.astype"):
            dtypes.result_type(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
        with self.assertRaisesRegex(dtypes.TypePromotionError, "4-bit integers.*x.astype"):
            dtypes.result_type(np.dtype("int4"), np.dtype("int8"))
        with config.numpy_dtype_promotion("strict"):
            with self.assertRaisesRegex(dtypes.TypePromotionError, "promotion=strict"):
                dtypes.result_type(np.float32, np.int32)
            self.assertEqual(dtypes.result_type(np.float32, 1), np.dtype("float32"))
        with self.assertRaisesRegex(ValueError, "at least one array or dtype"):
            dtypes.result_type()
        with self.assertRaisesRegex(ValueError, "not a valid dtype for JAX type promotion"):
            dtypes.result_type(dtypes.float0, np.float32)
        self.assertEqual(dtypes.result_type(dtypes.float0, dtypes.float0), dtypes.float0)

    def test_result_type_flag(self):
        result = dtypes.result_type
        self.assertEqual(result(1, return_weak_type_flag=True), (np.dtype("int32"), True))
        self.assertEqual(
            result(np.int8, 1.0, return_weak_type_flag=True), (np.dtype("float32"), True)
        )
        self.assertEqual(
            result(np.int8, np.float16, return_weak_type_flag=True), (np.dtype("float16"), False)
        )

    def test_small_integers_compute_in_float32(self):
        for name in ("int2", "uint2", "int4", "uint4", "int8", "bool"):
            self.assertEqual(dtypes.to_inexact_dtype(name), np.dtype("float32"))
            self.assertEqual(dtypes.to_floating_dtype(name), np.dtype("float32"))
        self.assertEqual(dtypes.to_inexact_dtype("int64"), np.dtype("float64"))
        self.assertEqual(dtypes.to_floating_dtype("complex64"), np.dtype("float32"))
        self.assertEqual(dtypes.to_complex_dtype("float64"), np.dtype("complex128"))

    def test_supports_inf(self):
        for t in [*dtypes.float_types, *dtypes.complex_types]:
            if t == np.dtype(ml_dtypes.float8_e8m0fnu):
                self.assertFalse(dtypes.supports_inf(t))
                continue
            with np.errstate(all="ignore"):
                has_inf = bool(np.isinf(np.array(np.inf).astype(t).astype("complex128")))
            self.assertEqual(dtypes.supports_inf(t), has_inf, t)

    def test_finfo_and_iinfo(self):
        self.assertEqual(dtypes.finfo(ml_dtypes.bfloat16).bits, 16)
        self.assertEqual(dtypes.finfo("float32").max, np.finfo("float32").max)
        self.assertEqual(dtypes.iinfo("int4").max, 7)
        self.assertEqual(dtypes.iinfo("int64").min, -(2**63))

    def test_itemsize_errors(self):
        for bad in (dtypes.float0, "S", np.dtype("M8")):
            with self.assertRaisesRegex(ValueError, "itemsize_bits"):
                dtypes.itemsize_bits(bad)

    def test_scalar_type_to_dtype(self):
        self.assertEqual(dtypes.scalar_type_to_dtype(int, 5), np.dtype("int32"))
        with self.assertRaisesRegex(OverflowError, "too large to convert to int32"):
            dtypes.scalar_type_to_dtype(int, 2**40)
        with config.enable_x64(True):
            self.assertEqual(dtypes.scalar_type_to_dtype(int, 2**40), np.dtype("int64"))
        self.assertEqual(dtypes.coerce_to_array(1).dtype, np.dtype("int32"))

    def test_isdtype_errors(self):
        with self.assertRaisesRegex(ValueError, "kind must be a type, one of"):
            dtypes.isdtype("float32", "number of sorts")

    def test_extended_types(self):
        class Money(dtypes.ExtendedDType):
            type = dtypes.extended
            name = "money"

            def __repr__(self):
                return "money"

        money, other = Money(), Money()
        self.assertTrue(dtypes.issubdtype(money, dtypes.extended))
        self.assertFalse(dtypes.issubdtype(money, dtypes.prng_key))
        self.assertFalse(dtypes.issubdtype(money, np.floating))
        self.assertFalse(dtypes.issubdtype(money, np.dtype("float32")))
        self.assertTrue(dtypes.issubdtype(money, money))
        self.assertFalse(dtypes.issubdtype(money, other))
        self.assertEqual(dtypes.short_dtype_name(money), "money")
        with self.assertRaisesRegex(ValueError, "extended type money"):
            dtypes.canonicalize_dtype(money)
        self.assertIs(dtypes.canonicalize_dtype(money, allow_extended_dtype=True), money)
        with self.assertRaisesRegex(ValueError, "itemsize_bits"):
            dtypes.itemsize_bits(money)

    def test_names(self):
        self.assertEqual(dtypes.short_dtype_name(dtypes.float0), "float0")
        self.assertEqual(dtypes.dtype_name(dtypes.float0), "float0")
        self.assertEqual(dtypes.dtype_name(np.dtype(ml_dtypes.bfloat16)), "bfloat16")


class LiteralsTest(parameterized.TestCase):
    @parameterized.parameters(
        (1, literals.TypedInt, "int32", "int64"),
        (1.5, literals.TypedFloat, "float32", "float64"),
        (1j, literals.TypedComplex, "complex64", "complex128"),
    )
    def test_scalars(self, x, cls, narrow, wide):
        for x64, name in ((False, narrow), (True, wide)):
            with config.enable_x64(x64):
                typed = _jax.canonicalize_value(x)
                self.assertIs(type(typed), cls)
                self.assertEqual(typed, x)
                self.assertEqual(typed.dtype, np.dtype(name))
                self.assertTrue(dtypes.is_weakly_typed(typed))
                self.assertEqual(str(typed.aval), str(core.ShapedArray((), typed.dtype, True)))
                for other in (copy.deepcopy(typed), pickle.loads(pickle.dumps(typed))):
                    self.assertIs(type(other), cls)
                    self.assertEqual((other, other.dtype), (typed, typed.dtype))
                self.assertEqual(repr(typed), f"{cls.__name__}({x}, dtype={name})")
                self.assertEqual(str(typed), str(x))
                self.assertIs(type(typed + 1), type(x + 1))
                # The type they were given stays, whatever the option says later.
                with config.enable_x64(not x64):
                    self.assertEqual(dtypes.dtype(typed), np.dtype(name))

    @parameterized.parameters(
        (np.ones(2), "float32"),
        (np.float64(1), "float32"),
        (np.array(3), "int32"),
        (np.ones(2, ml_dtypes.bfloat16), "bfloat16"),
        (np.ones((0, 3), "int8"), "int8"),
    )
    def test_arrays(self, x, name):
        typed = _jax.canonicalize_value(x)
        self.assertIs(type(typed), literals.TypedNdArray)
        self.assertEqual(typed.dtype, np.dtype(name))
        self.assertEqual(typed.shape, x.shape)
        self.assertFalse(typed.weak_type)
        self.assertIs(type(typed.val), np.ndarray)
        self.assertIs(type(typed + 1) in (np.ndarray, np.dtype(name).type), True)
        np.testing.assert_array_equal(np.asarray(typed), x)
        again = pickle.loads(pickle.dumps(typed))
        np.testing.assert_array_equal(again, typed)
        self.assertEqual(again.dtype, typed.dtype)
        self.assertEqual(typed.aval, core.ShapedArray(x.shape, np.dtype(name)))

    def test_bad_values(self):
        for bad in ([1], "a", object()):
            self.assertTrue(issubclass(dtypes.InvalidInputException, TypeError))
            with self.assertRaisesRegex(dtypes.InvalidInputException, "not a valid JAX type"):
                _jax.canonicalize_value(bad)
        for bad in (np.array(["a"]), np.array([None])):
            with self.assertRaisesRegex(TypeError, "not a valid JAX array type"):
                _jax.canonicalize_value(bad)
        with self.assertRaisesRegex(OverflowError, "too large"):
            _jax.canonicalize_value(2**40)

    def test_handlers(self):
        class Boxed:
            def __init__(self, x):
                self.x = x

        dtypes.canonicalize_value_handlers[Boxed] = lambda box: _jax.canonicalize_value(box.x)
        self.assertIn(Boxed, dtypes.canonicalize_value_handlers)
        self.assertEqual(_jax.canonicalize_value(Boxed(2)), 2)


if __name__ == "__main__":
    absltest.main()
