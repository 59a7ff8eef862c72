"""Types of results that the Python array API standard, 2024.12, prescribes: of all pairs of dtypes, and with Python's numbers.

Nothing is computed here: types are those of `jax.eval_shape`. NumPy, which follows the standard, gives the type of a pair.
"""

import itertools

import numpy as np
import pytest

import jax
import jax.numpy as jnp

BOOL = ["bool"]
SIGNED = ["int8", "int16", "int32", "int64"]
INT = [*SIGNED, "uint8", "uint16", "uint32", "uint64"]
REAL = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
FLOAT = REAL + COMPLEX
NUMERIC = INT + FLOAT
ORDERED = INT + REAL
ALL = BOOL + NUMERIC
# The standard promotes within a kind and between these kinds. Mixed integers need a signed one that holds both.
PAIRS = [
    (a, b)
    for group in (BOOL, INT, FLOAT)
    for a, b in itertools.product(group, group)
    if not ("uint64" in (a, b) and {a, b} & set(SIGNED))
]
NUMBERS = {True: ALL[:1], 2: NUMERIC, 2.5: FLOAT, 1j: COMPLEX}
SAME, TRUTH = (lambda *dtypes: np.result_type(*dtypes)), (lambda *dtypes: np.dtype(bool))

# Functions of two arrays and their operators: dtypes, the type of the result.
ELEMENTWISE = {
    "add +": (NUMERIC, SAME),
    "subtract -": (NUMERIC, SAME),
    "multiply *": (NUMERIC, SAME),
    "divide /": (FLOAT, SAME),
    "floor_divide //": (ORDERED, SAME),
    "remainder %": (ORDERED, SAME),
    "pow **": (NUMERIC, SAME),
    "bitwise_and &": (BOOL + INT, SAME),
    "bitwise_or |": (BOOL + INT, SAME),
    "bitwise_xor ^": (BOOL + INT, SAME),
    "bitwise_left_shift <<": (INT, SAME),
    "bitwise_right_shift >>": (INT, SAME),
    "equal ==": (ALL, TRUTH),
    "not_equal !=": (ALL, TRUTH),
    "less <": (ORDERED, TRUTH),
    "less_equal <=": (ORDERED, TRUTH),
    "greater >": (ORDERED, TRUTH),
    "greater_equal >=": (ORDERED, TRUTH),
    "logical_and": (BOOL, TRUTH),
    "logical_or": (BOOL, TRUTH),
    "logical_xor": (BOOL, TRUTH),
    "atan2": (REAL, SAME),
    "copysign": (REAL, SAME),
    "hypot": (REAL, SAME),
    "logaddexp": (REAL, SAME),
    "maximum": (ORDERED, SAME),
    "minimum": (ORDERED, SAME),
    "nextafter": (REAL, SAME),
}
# Other functions of two arrays, `x` and `y`, in terms of two square matrices.
JOINT = {
    "matmul": (NUMERIC, lambda x, y: (jnp.matmul(x, y), x @ y, jnp.linalg.matmul(x, y))),
    "vecdot": (NUMERIC, lambda x, y: (jnp.vecdot(x, y), jnp.linalg.vecdot(x, y, axis=-2))),
    "tensordot": (NUMERIC, lambda x, y: (jnp.tensordot(x, y), jnp.linalg.tensordot(x, y, axes=0))),
    "outer": (NUMERIC, lambda x, y: jnp.linalg.outer(x[0], y[0])),
    "cross": (NUMERIC, lambda x, y: jnp.linalg.cross(x, y, axis=1)),
    "solve": (FLOAT, lambda x, y: jnp.linalg.solve(x, y)),
    "concat": (ALL, lambda x, y: (jnp.concat([x, y]), jnp.concat([x, y], axis=None))),
    "stack": (ALL, lambda x, y: jnp.stack([x, y], axis=1)),
    "where": (ALL, lambda x, y: jnp.where(jnp.ones((3, 1), bool), x, y)),
    "diff": (NUMERIC, lambda x, y: jnp.diff(x, prepend=y, append=y)),
}  # fmt: skip
INDEX, DEFAULT = (lambda d: np.dtype("int64")), (lambda d: np.dtype(d))
WIDE = lambda d: np.dtype({"i": "int64", "u": "uint64"}.get(d[0], d))
PART = lambda d: np.empty(0, d).real.dtype
WITH_IMAGINARY = lambda d: np.result_type(d, "complex64")
# Functions of one matrix: dtypes, the type of the result or, for several results, of each of them.
SINGLE = {
    "abs": (NUMERIC, PART),
    "real": (NUMERIC, PART),
    "imag": (COMPLEX, PART),
    "conj negative positive sign square round": (NUMERIC, DEFAULT),
    "ceil floor trunc": (ORDERED, DEFAULT),
    "acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal sin sinh sqrt tan tanh mean":
        (FLOAT, DEFAULT),
    "bitwise_invert": (BOOL + INT, DEFAULT),
    "isfinite isinf isnan": (NUMERIC, TRUTH),
    "signbit": (REAL, TRUTH),
    "logical_not": (BOOL, TRUTH),
    "all any": (ALL, TRUTH),
    "argmax argmin argsort": (ORDERED, INDEX),
    "count_nonzero": (ALL, INDEX),
    "max min sort": (ORDERED, DEFAULT),
    "diff": (NUMERIC, DEFAULT),
    "sum prod cumulative_sum linalg.trace": (NUMERIC, WIDE),
    "std var": (REAL, DEFAULT),
    "flip matrix_transpose tril triu zeros_like ones_like empty_like linalg.diagonal": (ALL, DEFAULT),
    "linalg.cholesky linalg.det linalg.inv linalg.pinv": (FLOAT, DEFAULT),
    "linalg.eigvalsh linalg.matrix_norm linalg.svdvals linalg.vector_norm": (FLOAT, PART),
    "linalg.matrix_rank": (FLOAT, INDEX),
    "linalg.eigh": (FLOAT, (PART, DEFAULT)),
    "linalg.qr": (FLOAT, (DEFAULT, DEFAULT)),
    "linalg.slogdet": (FLOAT, (DEFAULT, PART)),
    "linalg.svd": (FLOAT, (DEFAULT, PART, DEFAULT)),
    "fft.fft fft.ifft fft.fftn fft.ifftn": (FLOAT, WITH_IMAGINARY),
    "fft.rfft fft.rfftn fft.ihfft": (REAL, WITH_IMAGINARY),
    "fft.irfft fft.irfftn fft.hfft": (COMPLEX, PART),
    "fft.fftshift fft.ifftshift": (FLOAT, DEFAULT),
}  # fmt: skip


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def matrix(dtype):
    return jax.ShapeDtypeStruct((3, 3), dtype)


def check_types(fun, dtypes, want):
    """All results of `fun` of square matrices are of type `want`, or the leaves are of types `want`."""
    out = jax.tree.leaves(jax.eval_shape(fun, *map(matrix, dtypes)))
    wanted = want if isinstance(want, tuple) else (want,) * len(out)
    assert tuple(x.dtype for x in out) == wanted, dtypes
    assert not any(x.weak_type for x in out), dtypes


def operations(name):
    """Functions of two arguments: the one of that name, and the operator."""
    name, *operator = name.split()
    funs = [getattr(jnp, name), *[eval(f"lambda x, y: x {o} y") for o in operator]]
    return lambda x, y: [f(x, y) for f in funs]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_pairs(name):
    dtypes, want = ELEMENTWISE[name]
    for a, b in PAIRS:
        if a in dtypes and b in dtypes:
            check_types(operations(name), (a, b), want(a, b))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_python_numbers(name):
    dtypes, want = ELEMENTWISE[name]
    run = operations(name)
    for number, allowed in NUMBERS.items():
        for dtype in set(dtypes) & set(allowed):
            check_types(lambda x, n=number: (run(x, n), run(n, x)), (dtype,), want(dtype))


@pytest.mark.parametrize("name", JOINT)
def test_pairs_of_matrices(name):
    dtypes, fun = JOINT[name]
    for a, b in PAIRS:
        if a in dtypes and b in dtypes:
            check_types(fun, (a, b), SAME(a, b))


@pytest.mark.parametrize("names", SINGLE, ids=lambda names: names.split()[0])
def test_functions_of_one_array(names):
    dtypes, want = SINGLE[names]
    for name in names.split():
        fun = jnp
        for part in name.split("."):
            fun = getattr(fun, part)
        options = {"axis": 0} if name.startswith("cumulative") else {}
        for dtype in dtypes:
            wanted = tuple(w(dtype) for w in want) if isinstance(want, tuple) else want(dtype)
            check_types(lambda x, f=fun, o=options: f(x, **o), (dtype,), wanted)


@pytest.mark.parametrize("name", ["unique_all", "unique_counts", "unique_inverse", "nonzero"])
def test_functions_with_data_dependent_shapes(name):
    for dtype in ALL:
        first, *others = jax.eval_shape(
            lambda x: tuple(getattr(jnp, name)(x, size=9)), matrix(dtype)
        )
        assert first.dtype == (np.int64 if name == "nonzero" else dtype)
        assert {x.dtype for x in others} == {np.dtype(np.int64)}


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_dtype_of_reductions(name):
    options = {"axis": 0} if name.startswith("cumulative") else {}
    for a, b in PAIRS:
        if a != "bool" and (a not in COMPLEX or b in COMPLEX):
            fun = lambda x, b=b: getattr(jnp, name)(x, dtype=b, **options)
            check_types(fun, (a,), np.dtype(b))


def test_dtypes_of_conversions():
    for a, b in itertools.product(ALL, ALL):
        assert jnp.isdtype(np.dtype(a), np.dtype(b)) == (a == b)
        if a not in COMPLEX or b in COMPLEX:
            check_types(
                lambda x, b=b: (jnp.astype(x, b), jnp.asarray(x, dtype=b)), (a,), np.dtype(b)
            )
        if (a, b) in PAIRS:
            want = SAME(a, b)
            assert jnp.result_type(np.dtype(a), np.empty(1, b)) == want
            assert jnp.can_cast(np.dtype(a), np.dtype(b)) == (want == b)
            check_types(lambda x, y: jnp.broadcast_arrays(x, y), (a, b), (np.dtype(a), np.dtype(b)))
            check_types(lambda x, b=b: jnp.full_like(x, 1, dtype=b), (a,), np.dtype(b))
        if b in INT:
            take = lambda x, i: (x[i], jnp.take(x, i, axis=0), jnp.take_along_axis(x, i, axis=1))
            check_types(take, (a, b), np.dtype(a))


def test_python_numbers_of_other_functions():
    for number, allowed in NUMBERS.items():
        for dtype in allowed:
            check_types(
                lambda x, n=number: (
                    jnp.where(x == x, x, n),
                    jnp.where(x == x, n, x),
                    jnp.full_like(x, n),
                    jnp.full(2, n, dtype=x.dtype),
                    jnp.asarray([n], dtype=x.dtype),
                    jnp.asarray(n, dtype=x.dtype),
                ),
                (dtype,),
                np.dtype(dtype),
            )
            assert jnp.result_type(np.empty(1, dtype), number) == dtype
            assert jnp.result_type(number, np.dtype(dtype)) == dtype
            if dtype in ORDERED:
                clips = lambda x, n=number: (jnp.clip(x, n, n), jnp.clip(x, None, n))
                check_types(clips, (dtype,), np.dtype(dtype))


def test_dtypes_of_new_arrays():
    made = lambda: {
        "float64": [jnp.zeros(2), jnp.empty(2), jnp.eye(2), jnp.linspace(0, 1, 3), jnp.arange(3.0)],
        "int64": [jnp.arange(3), jnp.asarray([True, 2]), jnp.full(2, 3)],
        "complex128": [jnp.linspace(0, 1j, 3), jnp.asarray([1, 2j]), jnp.full(2, 1j)],
        "bool": [jnp.full(2, True), jnp.asarray(True), jnp.full(2, 1j, dtype=bool)],
        "float32": [jnp.fft.fftfreq(4, dtype=jnp.float32), jnp.eye(2, dtype="float32")],
    }
    for want, arrays in jax.eval_shape(made).items():
        assert {x.dtype for x in arrays} == {np.dtype(want)}
    for dtype in ALL:
        made = lambda dtype=dtype: [f(2, dtype=dtype) for f in (jnp.eye, jnp.ones, jnp.empty)]
        assert {x.dtype for x in jax.eval_shape(made)} == {np.dtype(dtype)}


@pytest.mark.parametrize("dtype", NUMERIC)
def test_limits(dtype):
    info, want = (m.iinfo if dtype in INT else m.finfo for m in (jnp, np))
    names = ("bits", "max", "min", *(("eps", "smallest_normal") if dtype in FLOAT else ()))
    for given in (dtype, np.dtype(dtype), jnp.ones(2, dtype)):
        assert [getattr(info(given), n) for n in names] == [getattr(want(dtype), n) for n in names]
        assert info(given).dtype == PART(dtype)


def test_kinds():
    kinds = {
        "bool": BOOL, "signed integer": SIGNED, "unsigned integer": INT[4:], "integral": INT,
        "real floating": REAL, "complex floating": COMPLEX, "numeric": NUMERIC, ("bool", "integral"): BOOL + INT,
        (np.dtype("float32"), "bool"): ["float32", "bool"],
    }  # fmt: skip
    for kind, members in kinds.items():
        assert [d for d in ALL if jnp.isdtype(np.dtype(d), kind)] == [
            d for d in ALL if d in members
        ]
