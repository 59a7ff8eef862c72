"""Records of the operations of `jax.lax` with the dtypes, inputs and tolerances to test them with."""

import collections
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jax import lax
from jax._src import test_util as jtu

# The dtypes under test, which depend on whether 64-bit types are enabled when this is imported.
float_dtypes = jtu.dtypes.all_floating
complex_elem_dtypes = jtu.dtypes.floating
complex_dtypes = jtu.dtypes.complex
inexact_dtypes = jtu.dtypes.all_inexact
int_dtypes = jtu.dtypes.all_integer
uint_dtypes = jtu.dtypes.all_unsigned
bool_dtypes = jtu.dtypes.boolean
default_dtypes = float_dtypes + int_dtypes
all_dtypes = float_dtypes + complex_dtypes + int_dtypes + uint_dtypes + bool_dtypes
python_scalar_types = [bool, int, float, complex]

compatible_shapes = [[(3,)], [(3, 4), (3, 1), (1, 4)], [(2, 3, 4), (2, 1, 4)]]

OpRecord = collections.namedtuple("OpRecord", ["op", "nargs", "dtypes", "rng_factory", "tol"])
ReducerOpRecord = collections.namedtuple(
    "ReducerOpRecord", ["op", "reference_op", "init_val", "dtypes", "primitive"]
)
NamedReducerOpRecord = collections.namedtuple(
    "NamedReducerOpRecord", ["op", "reference_op", "dtypes"]
)


def op_record(op, nargs, dtypes, rng_factory, tol=None) -> OpRecord:
    """An operation by name, its number of operands, dtypes, random inputs and tolerance."""
    return OpRecord(op, nargs, dtypes, rng_factory, tol)


def lax_ops() -> list[OpRecord]:
    """The elementwise operations."""
    return _unary_ops() + _special_functions() + _complex_ops() + _integer_ops() + _binary_ops()


def _unary_ops() -> list[OpRecord]:
    f, c, x = float_dtypes, complex_dtypes, float_dtypes + complex_dtypes
    small, default, positive = jtu.rand_small, jtu.rand_default, jtu.rand_positive
    return [
        op_record("neg", 1, default_dtypes + c, small),
        op_record("sign", 1, default_dtypes + uint_dtypes, small),
        op_record("floor", 1, f, small),
        op_record("ceil", 1, f, small),
        op_record("round", 1, f, default),
        op_record(
            "nextafter", 2, [d for d in f if d is not jtu.dtypes.custom_floats[0]], default, 0
        ),
        op_record("is_finite", 1, f, small),
        op_record("exp", 1, x, small),
        op_record("exp2", 1, x, small),
        op_record("expm1", 1, x, small, {np.float64: 1e-8}),
        op_record("log", 1, x, positive),
        op_record("log1p", 1, x, positive),
        op_record("tanh", 1, x, small, {np.float64: 1e-9, np.complex128: 1e-7}),
        op_record("logistic", 1, x, default),
        op_record("sin", 1, x, default),
        op_record("cos", 1, x, default),
        op_record("atan2", 2, f, default),
        op_record("sqrt", 1, f, positive),
        op_record("sqrt", 1, c, default),
        op_record("rsqrt", 1, f, positive),
        op_record("rsqrt", 1, c, default),
        op_record("cbrt", 1, f, default),
        op_record("square", 1, x, default),
        op_record("reciprocal", 1, x, positive),
        op_record("tan", 1, x, default, {np.float32: 3e-5}),
        op_record("asin", 1, x, small, {np.complex128: 5e-12}),
        op_record("acos", 1, x, small),
        op_record("atan", 1, x, small),
        op_record("asinh", 1, x, default, {np.complex64: 1e-4, np.complex128: 1e-5}),
        op_record("acosh", 1, x, positive),
        op_record("atanh", 1, x, small, {np.float64: 1e-9}),
        op_record("sinh", 1, x, default),
        op_record("cosh", 1, x, default),
    ]


def _special_functions() -> list[OpRecord]:
    f, single_or_double = float_dtypes, complex_elem_dtypes
    small, positive = jtu.rand_small, jtu.rand_positive
    return [
        op_record("lgamma", 1, f, positive, {np.float32: 1e-5, np.float64: 1e-14}),
        op_record("digamma", 1, f, positive, {np.float64: 1e-14}),
        op_record("betainc", 3, f, jtu.rand_uniform, {np.float32: 2e-5, np.float64: 1e-12}),
        op_record("igamma", 2, single_or_double, positive, {np.float64: 1e-14}),
        op_record("igammac", 2, single_or_double, positive, {np.float64: 1e-14}),
        op_record("erf", 1, f, small),
        op_record("erfc", 1, f, small),
        op_record("erf_inv", 1, f, small, {np.float64: 1e-9}),
        op_record("bessel_i0e", 1, f, jtu.rand_default),
        op_record("bessel_i1e", 1, f, jtu.rand_default),
    ]


def _complex_ops() -> list[OpRecord]:
    default = jtu.rand_default
    return [
        op_record("real", 1, complex_dtypes, default),
        op_record("imag", 1, complex_dtypes, default),
        op_record("complex", 2, complex_elem_dtypes, default),
        op_record("conj", 1, complex_elem_dtypes + complex_dtypes, default),
        op_record("abs", 1, default_dtypes + complex_dtypes, default),
        op_record("pow", 2, float_dtypes + complex_dtypes, jtu.rand_positive),
    ]


def _integer_ops() -> list[OpRecord]:
    integers, bools, small = int_dtypes + uint_dtypes, bool_dtypes, jtu.rand_small
    return [
        op_record("bitwise_and", 2, bools, small),
        op_record("bitwise_not", 1, bools, small),
        op_record("bitwise_or", 2, bools, small),
        op_record("bitwise_xor", 2, bools, small),
        op_record("population_count", 1, integers, jtu.rand_int),
        op_record("clz", 1, integers, jtu.rand_int),
    ]


def _binary_ops() -> list[OpRecord]:
    numbers, small, nonzero = default_dtypes + complex_dtypes, jtu.rand_small, jtu.rand_nonzero
    return [
        op_record("add", 2, numbers, small),
        op_record("sub", 2, numbers, small),
        op_record("mul", 2, numbers, small),
        op_record("mulhi", 2, int_dtypes + uint_dtypes, jtu.rand_fullrange),
        op_record("div", 2, numbers, nonzero),
        op_record("rem", 2, default_dtypes, nonzero),
        op_record("max", 2, all_dtypes, small),
        op_record("min", 2, all_dtypes, small),
        op_record("eq", 2, all_dtypes, jtu.rand_some_equal),
        op_record("ne", 2, all_dtypes, small),
        *[op_record(name, 2, default_dtypes, small) for name in ("ge", "gt", "le", "lt")],
    ]


def lax_out_dtype_ops() -> list[OpRecord]:
    """The elementwise operations that take `out_dtype`."""
    return [op_record("mul", 2, default_dtypes + complex_dtypes, jtu.rand_small)]


def lax_reduce_ops() -> list[ReducerOpRecord]:
    """Operations that `lax.reduce` combines elements with, and the values that it starts with."""
    integers = int_dtypes + uint_dtypes + bool_dtypes
    least = {d: np.iinfo(d).min for d in (np.int32, np.int64)}
    greatest = {d: np.iinfo(d).max for d in (np.int32, np.int64, np.uint32, np.uint64)}
    r = ReducerOpRecord
    return [
        r(lax.add, np.add, 0, default_dtypes, lax.reduce_sum_p),
        r(lax.mul, np.multiply, 1, default_dtypes, lax.reduce_prod_p),
        r(lax.max, np.maximum, 0, uint_dtypes + bool_dtypes, lax.reduce_max_p),
        r(lax.max, np.maximum, -np.inf, float_dtypes, lax.reduce_max_p),
        *[r(lax.max, np.maximum, v, [d], lax.reduce_max_p) for d, v in least.items()],
        r(lax.min, np.minimum, np.inf, float_dtypes, lax.reduce_min_p),
        *[r(lax.min, np.minimum, v, [d], lax.reduce_min_p) for d, v in greatest.items()],
        r(lax.bitwise_and, np.bitwise_and, -1, integers, lax.reduce_and_p),
        r(lax.bitwise_or, np.bitwise_or, 0, integers, lax.reduce_or_p),
        r(lax.bitwise_xor, np.bitwise_xor, 0, integers, lax.reduce_xor_p),
    ]


def lax_named_reduce_ops() -> list[NamedReducerOpRecord]:
    """Reductions that are operations of their own."""
    numbers = float_dtypes + complex_dtypes + int_dtypes + uint_dtypes
    integers = bool_dtypes + int_dtypes + uint_dtypes
    r = NamedReducerOpRecord
    return [
        r(lax.reduce_sum, np.sum, numbers),
        r(lax.reduce_prod, np.prod, numbers),
        r(lax.reduce_max, np.max, all_dtypes),
        r(lax.reduce_min, np.min, all_dtypes),
        r(lax.reduce_and, np.bitwise_and.reduce, integers),
        r(lax.reduce_or, np.bitwise_or.reduce, integers),
        r(lax.reduce_xor, np.bitwise_xor.reduce, integers),
    ]


# Batches: `bdim` is the position of the batch axis, or None


def all_bdims(*shapes) -> Iterator[tuple[int | None, ...]]:
    """All positions of a batch axis in arrays of these shapes, of which at least one has it."""
    positions = ([None, *range(len(shape) + 1)] for shape in shapes)
    return (b for b in itertools.product(*positions) if any(i is not None for i in b))


def add_bdim(bdim_size: int, bdim: int | None, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape with a batch axis."""
    sizes = list(shape)
    if bdim is not None:
        sizes.insert(bdim, bdim_size)
    return tuple(sizes)


def slicer(x: Any, bdim: int | None) -> Callable[[int], Any]:
    """A function that returns an element of the batch."""
    if bdim is None:
        return lambda _: x
    return functools.partial(lax.index_in_dim, x, axis=bdim, keepdims=False)


def args_slicer(args: Sequence[Any], bdims: Sequence[int | None]) -> Callable[[int], list[Any]]:
    """A function that returns the arguments for an element of the batch."""
    slicers = [slicer(x, bdim) for x, bdim in zip(args, bdims)]
    return lambda i: [s(i) for s in slicers]
