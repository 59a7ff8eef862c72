"""Harnesses of operations on each element."""

import numpy as np

from jax import lax, numpy as jnp
from jax._src import test_util as jtu
from jax._src.internal_test_util.harness_tables.harness import (
    CustomArg,
    Harness,
    Limitation,
    RandArg,
    StaticArg,
)
from jax._src.internal_test_util.harness_tables.naming import named, shaped, sides
from jax._src.lax.lax import add_any_p, stop_gradient_p

_OF_INEXACT = (
    "acosh", "asinh", "atanh", "acos", "atan", "asin", "cos", "cosh", "exp", "expm1", "log",
    "log1p", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "logistic",
)  # fmt: skip
_OF_FLOATING = (
    "bessel_i0e", "bessel_i1e", "ceil", "erf", "erf_inv", "erfc", "floor", "is_finite", "lgamma",
    "digamma", "cbrt",
)  # fmt: skip
_BROADCASTS = [((20, 20), (1, 20)), ((1, 20), (20, 20))]


def _numeric():
    return [d for d in jtu.dtypes.all if d != np.bool_]


def _unary_case(name, dtype, shape=(20, 20)):
    primitive = getattr(lax, f"{name}_p")
    return Harness(
        str(primitive),
        f"shape={shaped(shape, dtype)}",
        getattr(lax, name),
        [RandArg(shape, dtype)],
        dtype=dtype,
        prim=primitive,
        shape=shape,
    )


def unary():
    for dtype in [*jtu.dtypes.all_floating, *jtu.dtypes.all_integer, *jtu.dtypes.complex]:
        yield _unary_case("abs", dtype)
    for dtype in jtu.dtypes.all_inexact:
        for name in _OF_INEXACT:
            yield _unary_case(name, dtype)
    for dtype in jtu.dtypes.all_floating:
        for name in _OF_FLOATING:
            yield _unary_case(name, dtype)


def signs():
    for dtype in _numeric():
        yield _unary_case("neg", dtype)
        yield _unary_case("sign", dtype)
        yield Harness(
            "sign",
            named("special_0", dtype=jtu.dtype_str(dtype)),
            lax.sign_p.bind,
            [StaticArg(np.zeros((2, 2), dtype))],
            dtype=dtype,
            prim=lax.sign_p,
        )


def _round_case(head, operand, shape, dtype, method):
    return Harness(
        "round",
        named(head, shape=shaped(shape, dtype), roundingmethod=int(method)),
        lax.round,
        [operand, StaticArg(method)],
        dtype=dtype,
        operand=operand,
        rounding_method=method,
    )


def rounding():
    away, to_even = lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN
    for dtype in jtu.dtypes.all_floating:
        yield _round_case("dtypes", RandArg((100, 100), dtype), (100, 100), dtype, away)
    halves = np.array([[0.5, 1.2, 1.5, 1.7, 2.5], [-0.5, -1.2, -1.5, -1.7, -2.5]], np.float32)
    for method in (away, to_even):
        yield _round_case("rounding_methods", halves, halves.shape, np.float32, method)


def _converts(old, new) -> bool:
    """Whether the conversion is one of the table's: none from floats to unsigned integers is."""
    return new not in jtu.dtypes.all_unsigned or old not in jtu.dtypes.all_inexact


def _retyped(function, head, shape, old, new, **parts):
    return Harness(
        function.__name__,
        named(head, shape=shaped(shape, old), **parts, newdtype=jtu.dtype_str(new)),
        lambda operand: function(operand, new),
        [RandArg(shape, old)],
        dtype=old,
        shape=shape,
        new_dtype=new,
    )


def conversions():
    for old in jtu.dtypes.all:
        for new in jtu.dtypes.all:
            if _converts(old, new):
                yield _retyped(
                    lax.convert_element_type, "dtypes_to_dtypes", (100, 100), old, new,
                    olddtype=jtu.dtype_str(old),
                )  # fmt: skip


def _same_bits(old, new) -> bool:
    """Whether the bits of a type are those of another: booleans and complex numbers have their own."""
    own = [np.bool_, *jtu.dtypes.complex]
    if old in own or new in own:
        return old == new
    return np.dtype(old).itemsize == np.dtype(new).itemsize


def bitcasts():
    for old in jtu.dtypes.all:
        for new in jtu.dtypes.all:
            if _same_bits(old, new):
                yield _retyped(lax.bitcast_convert_type, "dtypes_to_new_dtypes", (2, 3), old, new)


def _integer_pow_case(head, dtype, y, shape=(20, 30)):
    return Harness(
        "integer_pow",
        named(head, shape=shaped(shape, dtype), y=y),
        lax.integer_pow,
        [RandArg(shape, dtype), StaticArg(y)],
        dtype=dtype,
        shape=shape,
        y=y,
    )


def integer_powers():
    for dtype in _numeric():
        negative = () if dtype not in jtu.dtypes.all_inexact else (-3, -2, -1)
        for y in (*negative, 0, 1, 2, 3, 4):
            yield _integer_pow_case("dtypes", dtype, y)
    for dtype in jtu.dtypes.all_inexact:
        yield _integer_pow_case("negative_overflow", dtype, -3)


def powers():
    broadcasts = [
        ((), (4, 5, 6)), ((4, 5, 6), ()), ((4, 1, 6), (4, 5, 6)), ((4, 5, 6), (4, 1, 6)),
    ]  # fmt: skip
    cases = [("dtypes", d, ((20, 30), (20, 30))) for d in jtu.dtypes.all_inexact]
    cases += [("broadcast", np.float32, shapes) for shapes in broadcasts]
    for head, dtype, shapes in cases:
        lhs, rhs = (RandArg(shape, dtype) for shape in shapes)
        yield Harness(
            "pow", sides(head, shapes, dtype), lax.pow, [lhs, rhs], dtype=dtype, lhs=lhs, rhs=rhs
        )


def add_any():
    shapes = ((2,), (2,))
    for dtype in _numeric():
        operands = [RandArg(shape, dtype) for shape in shapes]
        yield Harness(
            "add_any", sides("dtypes", shapes, dtype), add_any_p.bind, operands, dtype=dtype,
            shapes=shapes,
        )  # fmt: skip


def stop_gradient():
    shape = (20, 20)
    for dtype in jtu.dtypes.all:
        yield Harness(
            "stop_gradient", shaped(shape, dtype), stop_gradient_p.bind, [RandArg(shape, dtype)],
            dtype=dtype, shape=shape,
        )  # fmt: skip


def comparisons():
    functions = {
        "eq": jnp.equal, "ne": jnp.not_equal, "ge": jnp.greater_equal, "gt": jnp.greater,
        "le": jnp.less_equal, "lt": jnp.less,
    }  # fmt: skip
    cases = [("dtypes", d, ((), ())) for d in jtu.dtypes.all]
    cases += [("broadcasting", np.float32, shapes) for shapes in (((), (2, 3)), ((1, 2), (3, 2)))]
    for name, function in functions.items():
        for head, dtype, shapes in cases:
            yield Harness(
                name,
                sides(head, shapes, dtype),
                function,
                [RandArg(shape, dtype) for shape in shapes],
                dtype=dtype,
                op=function,
                op_name=name,
                lhs_shape=shapes[0],
                rhs_shape=shapes[1],
            )


def population_count():
    for dtypes, values in (
        (jtu.dtypes.all_integer, [-1, -2, 0, 1]),
        (jtu.dtypes.all_unsigned, [0, 1, 2]),
    ):
        for dtype in dtypes:
            yield Harness(
                "population_count", jtu.dtype_str(dtype), lax.population_count,
                [np.array(values).astype(dtype)], dtype=dtype,
            )  # fmt: skip


def _division_case(primitive, head, shapes, dtype, lhs, rhs):
    return Harness(
        str(primitive), sides(head, shapes, dtype), primitive.bind, [lhs, rhs], dtype=dtype,
        lhs=lhs, rhs=rhs, prim=primitive,
    )  # fmt: skip


def _nonzero(shape, dtype):
    def make(rng):
        drawn = jtu.rand_default(rng)(shape, dtype)
        return np.where(drawn == 0, np.array(1, dtype), drawn)

    return CustomArg(make)


def divisions():
    broadcasts = [((2, 1, 3), (2, 4, 3)), ((2, 4, 3), (2, 1, 3))]
    singular = [
        ("positive_by_0", [1, 1], [0, 0]), ("negative_by_0", [-1, -1], [0, 0]),
        ("0_by_0", [0, 0], [0, 0]), ("inf_by_inf", [np.inf], [np.inf]),
    ]  # fmt: skip
    for primitive in (lax.div_p, lax.rem_p):
        types = [d for d in _numeric() if primitive is lax.div_p or d not in jtu.dtypes.complex]
        cases = [("dtypes", d, ((2,), (2,))) for d in types]
        cases += [("broadcast", np.float32, shapes) for shapes in broadcasts]
        for head, dtype, (lhs, rhs) in cases:
            operands = RandArg(lhs, dtype), _nonzero(rhs, dtype)
            yield _division_case(primitive, head, (lhs, rhs), dtype, *operands)
        for name, *values in singular:
            lhs, rhs = (np.array(value, np.float32) for value in values)
            yield _division_case(
                primitive, f"singularity_{name}", (lhs.shape, rhs.shape), np.float32, lhs, rhs
            )


def _binary_case(primitive, head, shapes, dtype):
    return Harness(
        str(primitive), sides(head, shapes, dtype), primitive.bind,
        [RandArg(shape, dtype) for shape in shapes], dtype=dtype, prim=primitive, shapes=shapes,
    )  # fmt: skip


def binary():
    integers = [*jtu.dtypes.all_integer, *jtu.dtypes.all_unsigned]
    bits = [*integers, *jtu.dtypes.boolean]
    for primitive, dtypes, broadcast in (
        (lax.add_p, _numeric(), np.float32),
        (lax.mul_p, _numeric(), np.float32),
        (lax.atan2_p, jtu.dtypes.all_floating, np.float32),
        (lax.igamma_p, jtu.dtypes.all_floating, np.float32),
        (lax.igammac_p, jtu.dtypes.all_floating, np.float32),
        (lax.nextafter_p, jtu.dtypes.all_floating, np.float32),
        (lax.and_p, bits, np.int32),
        (lax.or_p, bits, np.int32),
        (lax.xor_p, bits, np.int32),
        (lax.shift_left_p, integers, np.int32),
        (lax.shift_right_logical_p, integers, np.int32),
        (lax.shift_right_arithmetic_p, integers, np.int32),
        (lax.sub_p, _numeric(), np.float32),
    ):
        for dtype in dtypes:
            yield _binary_case(primitive, "dtypes", ((20, 20), (20, 20)), dtype)
        for shapes in _BROADCASTS:
            yield _binary_case(primitive, "broadcasting", shapes, broadcast)


def extrema():
    special = [[np.nan] * 3, [np.inf] * 3, [-np.inf] * 3]
    for primitive in (lax.min_p, lax.max_p):
        for dtype in jtu.dtypes.all:
            yield _binary_case(primitive, "dtypes", ((20, 20), (20, 20)), dtype)
        for shapes in _BROADCASTS:
            for dtype in (np.float32, np.complex64, np.complex128):
                yield _binary_case(primitive, "broadcasting", shapes, dtype)
        for dtype in jtu.dtypes.all_inexact:
            lhs = np.array(special, dtype)
            yield Harness(
                str(primitive), f"inf_nan_{jtu.dtype_str(dtype)}", primitive.bind, [lhs, lhs.T],
                dtype=dtype, prim=primitive,
            )  # fmt: skip


def incomplete_beta():
    operands = (
        [-1.6, -1.4, -1.0, 0.0, 0.1, 0.3, 1, 1.4, 1.6],
        [-1.6, 1.4, 1.0, 0.0, 0.2, 0.1, 1, 1.4, -1.6],
        [1.0, -1.0, 2.0, 1.0, 0.3, 0.3, -1.0, 2.4, 1.6],
    )
    for dtype in jtu.dtypes.all_floating:
        yield Harness(
            "regularized_incomplete_beta", f"_{jtu.dtype_str(dtype)}", lax.betainc,
            [np.array(values, dtype) for values in operands], dtype=dtype,
        )  # fmt: skip


def clamp():
    cases = [("dtypes", d, ((), (2, 3), ())) for d in jtu.dtypes.all]
    cases += [
        ("broadcasting", np.float32, shapes)
        for shapes in (((), (2, 3), (2, 3)), ((2, 3), (2, 3), ()), ((2, 3), (2, 3), (2, 3)))
    ]
    cases = [(*case, [RandArg(shape, case[1]) for shape in case[2]]) for case in cases]
    one, four = (np.array(value, np.float32) for value in (1, 4))
    for ordered, (low, high) in ((False, (four, one)), (True, (one, four))):
        operand = RandArg((2, 3), np.float32)
        cases.append((f"order={ordered}", np.float32, ((), (2, 3), ()), [low, operand, high]))
    for head, dtype, shapes, operands in cases:
        low, operand, high = shapes
        yield Harness(
            "clamp",
            named(
                head,
                min=shaped(low, dtype),
                operand=shaped(operand, dtype),
                max=shaped(high, dtype),
            ),
            lax.clamp,
            operands,
            dtype=dtype,
            jax_unimplemented=[
                Limitation("unimplemented", dtypes=[np.bool_, np.complex64, np.complex128])
            ],
            min_shape=low,
            operand_shape=operand,
            max_shape=high,
        )


def complex_numbers():
    cases = [("dtypes", d, ((3, 4), (3, 4))) for d in jtu.dtypes.floating]
    cases += [("broadcast", np.float32, s) for s in (((3, 2), (3, 1)), ((3, 1), (3, 2)))]
    for head, dtype, shapes in cases:
        operands = [RandArg(shape, dtype) for shape in shapes]
        yield Harness(
            "complex", sides(head, shapes, dtype), lax.complex_p.bind, operands, dtype=dtype,
            shapes=shapes,
        )  # fmt: skip
    conjugates = [("dtypes", d, {}) for d in jtu.dtypes.floating + jtu.dtypes.complex]
    conjugates.append(("kwargs", np.float32, {"_input_dtype": np.float32}))
    for head, dtype, keywords in conjugates:
        yield Harness(
            "conj",
            named(head, operand=shaped((3, 4), dtype), kwargs=keywords),
            lambda operand, keywords=keywords: lax.conj_p.bind(operand, **keywords),
            [RandArg((3, 4), dtype)],
            dtype=dtype,
            shape=(3, 4),
            **keywords,
        )
    for primitive in (lax.real_p, lax.imag_p):
        for dtype in jtu.dtypes.complex:
            yield Harness(
                str(primitive), named("dtypes", shape=shaped((2, 3), dtype)), primitive.bind,
                [RandArg((2, 3), dtype)], dtype=dtype, shape=(2, 3), prim=primitive,
            )  # fmt: skip


def reduce_precision():
    for dtype in jtu.dtypes.all_floating:
        for out in jtu.dtypes.all_floating:
            for shape in ((), (5, 7)):
                form = jnp.finfo(out)
                yield Harness(
                    "reduce_precision",
                    f"in={shaped(shape, dtype)}_out={shaped(shape, out)}",
                    lax.reduce_precision,
                    [RandArg(shape, dtype), StaticArg(form.nexp), StaticArg(form.nmant)],
                    dtype=dtype,
                    shape=shape,
                    out_dtype=out,
                )
