"""Cases for the functions of jax.numpy that make arrays."""

import numpy as np
from op_cases import Case, values

import jax
import jax.numpy as jnp

CASES: list[Case] = []


def case(name, fun, args=(), diff="", vmap=False, **kwargs):
    CASES.append(Case(name, fun, list(args), diff=diff, vmap=vmap, **kwargs))


def error(name, fun, args=(), ignore=("jit",), **kwargs):
    """An error of the plain call."""
    case(f"error_{name}", fun, args, ignore=ignore, **kwargs)


class WithJaxArray:
    def __jax_array__(self):
        return jnp.ones(3)


class WithArray:
    def __array__(self, dtype=None, copy=None):
        return np.ones(3)


def copied(x):
    return x.copy() if isinstance(x, np.ndarray) else x


# array and asarray

OBJECTS = {
    "int": 1, "float": 2.5, "bool": True, "complex": 2j, "list": [1, 2.5], "bools": [True, False],
    "mixed": [1, True], "empty": [], "nested_empty": [[], []], "tuple": ((1, 2), (3, 4)),
    "numpy_scalars": [np.float32(1), 2], "float64_scalars": [np.float64(1), 2], "int8_scalars": [np.int8(1), np.int8(2)],
    "arrays": [np.arange(3), [1, 2, 3.0]], "range": range(3), "buffer": memoryview(b"abc"),
    "with_array": WithArray(), "with_arrays": [WithArray(), WithArray()], "with_jax_array": WithJaxArray(),
    "with_jax_arrays": [WithJaxArray(), WithJaxArray()], "numpy": np.arange(6.0).reshape(2, 3),
    "numpy_int64": np.array([2**40, 1]), "numpy_bool": np.array([True]), "scalar": np.float16(2),
}  # fmt: skip
for name, value in OBJECTS.items():
    for x64 in (False, True):
        suffix = "_x64" if x64 else ""
        # copies, since the reference keeps what it made of an array of NumPy with other types
        case(
            f"array_{name}{suffix}",
            lambda v=value: (jnp.array(copied(v)), jnp.asarray(copied(v))),
            x64=x64,
        )
        case(
            f"array_{name}_dtype{suffix}", lambda v=value: jnp.array(v, dtype="complex64"), x64=x64
        )
for name, value in {
    "ragged": [[1, 2], [3]], "none": None, "nones": [None], "object": object(), "dict": {"a": 1},
    "large": 2**40, "large_list": [2**40], "set": {1, 2}, "bytes": b"abc", "date": np.datetime64("2020-01-01"),
}.items():  # fmt: skip
    error(f"array_{name}", lambda v=value: jnp.array(v))
error("array_str", lambda: jnp.array(["a"]), warns="alias 'a' was deprecated")  # a name of a dtype
error("array_order", lambda x: jnp.array(x, order="F"), [np.ones(3)])
error("array_dtype", lambda: jnp.array([1], dtype=object))
error("array_overflow", lambda: jnp.array([300], dtype="uint8"))
case("array_stack", lambda x: (jnp.array([x, x]), jnp.array([[x[0], 2], [3, x[1]]]), jnp.array(x, ndmin=3), jnp.array(x, dtype=int)),
     [values((3,), "float32", "a")], diff="both", vmap=True)  # fmt: skip
case(
    "array_weak",
    lambda: (
        jnp.array(jnp.asarray(2.0)),
        jnp.array(jnp.asarray(2.0), dtype="float32"),
        jnp.array([jnp.asarray(2.0), 2]),
    ),
)
case("array_many", lambda: jnp.array([jnp.float32(i) for i in range(300)]))
case("scalar_types", lambda: (jnp.float32(2**31), jnp.uint32(2**31), jnp.int32(2.5), jnp.bfloat16(2), jnp.bool_(2), jnp.complex64(1), jnp.int4(3)))  # fmt: skip
error("scalar_type", lambda: jnp.uint8(300))
case(
    "frombuffer",
    lambda: (
        jnp.frombuffer(b"abcd", dtype="uint8"),
        jnp.frombuffer(b"abcdefgh", dtype="float32", count=1, offset=4),
    ),
)
case("fromstring", lambda: jnp.fromstring("1 2 3", dtype=int, sep=" "))
error("fromfile", lambda: jnp.fromfile("x"))
error("fromiter", lambda: jnp.fromiter([1], int))

# Constants

for name in ("zeros", "ones", "empty"):
    make = getattr(jnp, name)
    case(
        f"{name}",
        lambda m=make: (
            m(3),
            m((2, 0)),
            m([2]),
            m(np.int32(2)),
            m((2, 3), int),
            m((), bool),
            m(2, "bfloat16"),
        ),
    )
    case(f"{name}_like", lambda x, m=getattr(jnp, name + "_like"): (m(x), m(1), m(2.5), m(x, int), m(x, shape=(2,)), m(jax.ShapeDtypeStruct((2,), "int8"))), [values((2, 3), "int16", name)])  # fmt: skip
    error(f"{name}_float", lambda m=make: m(2.5))
    error(f"{name}_negative", lambda m=make: m(-1))
    error(f"{name}_str", lambda m=make: m((2, "a")))
    error(f"{name}_like_list", lambda m=getattr(jnp, name + "_like"): m([1, 2]))
case("full", lambda x: (jnp.full((2, 3), x), jnp.full(2, 1), jnp.full(2, 1.5), jnp.full(2, 1.5, dtype=int), jnp.full((2, 3), x, int), jnp.full(2, True)),
     [values((3,), "float32", "f")], diff="both", vmap=True)  # fmt: skip
case("full_like", lambda x: (jnp.full_like(x, 2), jnp.full_like(x, x[0]), jnp.full_like(x, 1, shape=(2, 2)), jnp.full_like(1.5, 2), jnp.full_like(x, 1, int)),
     [values((3,), "float32", "f")], diff="both", vmap=True)  # fmt: skip
error("full_list", lambda: jnp.full(2, [1, 2]))
case(
    "eye",
    lambda: (
        jnp.eye(3),
        jnp.eye(2, 3, 1),
        jnp.eye(3, 2, -1, int),
        jnp.eye(2, dtype=bool),
        jnp.eye(3, k=5),
        jnp.identity(2),
        jnp.eye(0),
    ),
)
error("eye_negative", lambda: jnp.eye(-1))
error("eye_float", lambda: jnp.eye(2.5))

# Ranges

RANGES = [(3,), (3.0,), (1, 10, 2), (0, 1, 0.25), (5, 0, -1), (0,), (-3,), (2, 5), (1.5, 4), (0, 1, 0.1), (np.int8(4),), (np.float64(3),),
          (2**31 - 2, 2**31), (0, -5, -2), (1, 2, 5), (np.float16(2), 4)]  # fmt: skip
for i, args in enumerate(RANGES):
    for x64 in (False, True):
        case(f"arange_{i}{'_x64' if x64 else ''}", lambda a=args: jnp.arange(*a), x64=x64)
case("arange_dtype", lambda: (jnp.arange(3, dtype="float32"), jnp.arange(10, dtype="uint8"), jnp.arange(3, dtype=complex), jnp.arange(jnp.array(4)[()])), ignore=("jit",))  # fmt: skip
error("arange_step", lambda: jnp.arange(0, 5, 0))
error("arange_array", lambda: jnp.arange(jnp.ones(2)))
error("arange_complex", lambda: jnp.arange(3j))
error("arange_bool", lambda: jnp.arange(3, dtype=bool))
error("arange_traced", jnp.arange, [np.array(3)], ignore=("eager",))
for name in ("linspace", "logspace", "geomspace"):
    make = getattr(jnp, name)
    case(name, lambda m=make: (m(1, 2, 5), m(1, 2, 1), m(1, 2, 0), m(1, 2.5, 4, endpoint=False), m(1, 10, 4, dtype=int), m(1, 2, 3, dtype="float16"), m(1, 2, 1, endpoint=False)))  # fmt: skip
    case(
        f"{name}_x64",
        lambda m=make: (m(1, 2, 5), m(np.float32(1), 2.5, 4), m(1, 10, 4, dtype=int)),
        x64=True,
    )
    x = np.abs(values((3,), "float32", name)) + 1
    case(
        f"{name}_arrays",
        lambda x, m=make: (m(x, 4.0, 5), m(1.0, x, 3, axis=1), m(x, x[:, None] + 1, 4, axis=-1)),
        [x],
        diff="both",
    )
    case(f"{name}_complex", lambda m=make: m(1 + 1j, 2 + 2j, 4))
    error(f"{name}_negative", lambda m=make: m(0.5, 1, -1))
    error(f"{name}_float", lambda m=make: m(0.5, 1, 2.5))
case(
    "linspace_retstep",
    lambda: (
        jnp.linspace(0, 1, 3, retstep=True),
        jnp.linspace(0, 1, 1, retstep=True),
        jnp.linspace(0, 1, 0, retstep=True),
    ),
)
case("logspace_base", lambda: (jnp.logspace(0, 2, 3, base=2), jnp.logspace(0, 2, 3, base=2.5)))
case("geomspace_negative", lambda: jnp.geomspace(-1, -1000, 4))

# Grids and matrices

m = values((3, 4), "float32", "matrices")
case("meshgrid", lambda x, y: (jnp.meshgrid(x, y), jnp.meshgrid(x, y, indexing="ij"), jnp.meshgrid(x, y, sparse=True), jnp.meshgrid(x)),
     [values((3,), "float32", "g"), values((2,), "int32", "g")])  # fmt: skip
error("meshgrid_indexing", lambda x: jnp.meshgrid(x, x, indexing="a"), [m[0]])
error("meshgrid_copy", lambda x: jnp.meshgrid(x, copy=False), [m[0]])
error("meshgrid_shape", lambda x: jnp.meshgrid(x), [m])
case(
    "indices",
    lambda: (
        jnp.indices((2, 3)),
        jnp.indices((2, 3), sparse=True),
        jnp.indices((2,), dtype="float32"),
    ),
)
case(
    "fromfunction",
    lambda: (
        jnp.fromfunction(lambda i, j: i + 2 * j, (2, 3)),
        jnp.fromfunction(lambda i: i, (3,), dtype=int),
    ),
)
case(
    "grids",
    lambda: (
        jnp.mgrid[0:3, 0:2:2j],
        jnp.ogrid[0:3, 0:2:2j],
        jnp.mgrid[0:3],
        jnp.mgrid[0:1:0.25],
        jnp.mgrid[5:0:-2],
        jnp.ogrid[0:3],
    ),
)
case("concatenators", lambda x: (jnp.r_[1:3, 4, 5.0], jnp.r_["-1", [1, 2], [3]], jnp.c_[[1, 2], [3, 4]], jnp.r_[x, 1], jnp.r_["0,2", [1, 2], [3, 4]], jnp.r_["r", [1, 2]], jnp.r_["c", [1, 2]], jnp.r_[0:10:3j], jnp.r_["1,2,0", [1, 2], [3, 4]]), [m[0]])  # fmt: skip
error("concatenator", lambda: jnp.r_["a"])
case("ix", lambda x: jnp.asarray(x)[jnp.ix_(jnp.array([0, 2]), jnp.array([1, 3]))], [m])
error("ix_bool", lambda: jnp.ix_(jnp.array([True])))
for name in ("tril", "triu"):
    fun = getattr(jnp, name)
    case(name, lambda x, f=fun: (f(x), f(x, 1), f(x, -1), f(x, 10)), [m], diff="both", vmap=True)
    error(f"{name}", fun, [m[0]])
    case(
        f"{name}_indices",
        lambda n=name: (
            getattr(jnp, n + "_indices")(3),
            getattr(jnp, n + "_indices")(3, 1, 4),
            getattr(jnp, n + "_indices_from")(jnp.ones((2, 3)), -1),
        ),
    )
case("tri", lambda: (jnp.tri(3), jnp.tri(2, 4, 1, int), jnp.tri(3, k=-1)))
case(
    "mask_indices",
    lambda: (jnp.mask_indices(3, jnp.triu), jnp.mask_indices(3, jnp.tril, -1)),
    ignore=("jit",),
)
case(
    "diag_indices",
    lambda: (jnp.diag_indices(3), jnp.diag_indices(2, 3), jnp.diag_indices_from(jnp.ones((2, 2)))),
)
case("diag", lambda x, y: (jnp.diag(x), jnp.diag(x, 1), jnp.diag(x, -2), jnp.diag(y), jnp.diag(y, 1), jnp.diag(y, -2), jnp.diag(y, 7), jnp.diagflat(y)),
     [m[0], m], diff="both")  # fmt: skip
error("diag", lambda: jnp.diag(jnp.ones((2, 2, 2))))
case("diagonal", lambda x: (jnp.diagonal(x), jnp.diagonal(x, 1), jnp.diagonal(x, -1, 1, 2), jnp.diagonal(x, 0, -1, 0)), [values((2, 3, 4), "float32", "d")], diff="both", vmap=True)  # fmt: skip
case("trace", lambda x: (jnp.trace(x), jnp.trace(x, 1), jnp.trace(x, -1, 1, 2), jnp.trace(x, dtype="float16")), [values((2, 3, 4), "float32", "d")], diff="both", vmap=True)  # fmt: skip
case(
    "trace_ints",
    lambda *xs: tuple(jnp.trace(x) for x in xs),
    [values((3, 3), d, "t") for d in ("int8", "uint8", "bool", "float16")],
)
case(
    "fill_diagonal",
    lambda x: (
        jnp.fill_diagonal(x, 7, inplace=False),
        jnp.fill_diagonal(x, jnp.array([1, 2]), inplace=False),
    ),
    [m],
)
error("fill_diagonal", lambda x: jnp.fill_diagonal(x, 7), [m])
case(
    "vander",
    lambda x: (jnp.vander(x), jnp.vander(x, 2), jnp.vander(x, 5, increasing=True)),
    [m[0]],
    diff="both",
)
case("vander_ints", lambda x: jnp.vander(x, 3), [np.arange(4, dtype=np.int32)])
error("vander", jnp.vander, [m])
case("view", lambda x, i: (jnp.asarray(x).view("int32"), jnp.asarray(x).view("uint8"), jnp.asarray(x).view("complex64"), jnp.asarray(i).view("float32")),
     [m, values((2, 8), "uint8", "view")])  # fmt: skip
error("view", lambda x: jnp.asarray(x).view("float32"), [values((2, 3), "uint8", "view")])
