"""Cases of unusual arguments of jax.numpy functions: what they give, or which error they raise."""

import numpy as np
from op_cases import Case, values

import jax
import jax.numpy as jnp

CASES: list[Case] = []
X = values((3, 4), "float32", "arguments")
MASK = np.array([True, False, True])


def case(name, fun, args=(), ignore=(), **kwargs):
    """A case without derivatives; errors, and what has no arguments, are of plain calls only."""
    ignore = ignore or (() if args and not name.startswith("error_") else ("jit",))
    CASES.append(Case(name, fun, list(args), diff="", vmap=False, ignore=ignore, **kwargs))


# Axes

for name in "take take_along_axis round split".split():
    call = {
        "take": lambda x: jnp.take(x, np.array([0]), axis=1.5),
        "take_along_axis": lambda x: jnp.take_along_axis(x, np.zeros((3, 1), int), axis=1.0),
        "round": lambda x: jnp.round(x, 1.5),
        "split": lambda x: jnp.split(x, [1.0, 2.0]),
    }[name]
    case(f"error_{name}_float", call, [X])
case("error_take_axis_str", lambda x: jnp.take(x, np.array([0]), axis="i"), [X])
case("error_split_float_array", lambda x: jnp.split(x, np.array([1.0, 2.0])), [X])
case("axis_of_arrays", lambda x: (jnp.ptp(x, axis=jnp.array(0)), jnp.std(x, axis=np.array(1)), jnp.sum(x, axis=np.int8(1))), [X], ignore=("jit",))  # fmt: skip
case("expand_dims_array", lambda x: jnp.expand_dims(x, np.array([0, 2])), [X])
case(
    "roll_array",
    lambda x: (jnp.roll(x, np.array([1, 2]), (0, 1)), jnp.roll(x, [1, 2], (0, 1))),
    [X],
)
case("error_roll_matrix", lambda x: jnp.roll(x, np.ones((2, 2), int)), [X])
case("error_roll_nested", lambda x: jnp.roll(x, [[1]], 0), [X])
case("error_tile", lambda x: jnp.tile(x, np.ones(2, np.float16) * 0.5), [X])

# Dtypes

case("trace_bool", lambda x: jnp.trace(x, dtype=bool), [X])
case("gcd_of_bools", lambda x: (jnp.gcd(x, True), jnp.lcm(np.ones(4, bool), x)), [np.arange(4, dtype=np.int8)])  # fmt: skip
case("error_gcd_of_bools", lambda: jnp.gcd(True, True))
case("spaces_of_small_integers", lambda: (jnp.linspace(0, 3, 4, dtype="int4"), jnp.logspace(0, 0.5, 3, dtype="uint4"), jnp.geomspace(1, 4, 3, dtype="int4")))  # fmt: skip
case("nan_to_num_weak", lambda: (jnp.nan_to_num(1), jnp.nan_to_num(2.5), jnp.nan_to_num(True), jnp.nan_to_num(np.int8(1))))  # fmt: skip
for fill in (True, np.uint32(3), 2.5, np.float16(2), 1j):
    case(
        f"nonzero_fill_{type(fill).__name__}",
        lambda x, v=fill: (
            jnp.nonzero(x, size=4, fill_value=v),
            jnp.argwhere(x, size=4, fill_value=v),
        ),
        [np.array([[1.0, 0], [0, 1]], np.float32)],
    )
case("argwhere_fills", lambda x: jnp.argwhere(x, size=9, fill_value=(1, 2.5)), [X[:2, :3] * 0])
for dtype in ("float32", "bool"):
    case(
        f"error_ravel_multi_index_{dtype}",
        lambda d=dtype: jnp.ravel_multi_index((np.array([0]), np.array([1])), (2, 3), dtype=d),
    )
case("error_kaiser_complex", lambda: jnp.kaiser(4, 1j))
case("scalar_type_of_str", lambda: (jnp.float32("1.5"), jnp.int32("7"), jnp.float16("nan")))
case("frombuffer_of_array", lambda: jnp.frombuffer(np.arange(3, dtype=np.int16), dtype=np.int16, count=2, offset=2))  # fmt: skip

# No elements, and masks

EMPTY = np.zeros((0, 3), np.float32)
case("take_of_no_indices", lambda x: jnp.take(x, np.array([]), axis=1), [X])
case("error_take_of_floats", lambda x: jnp.take(x, np.array([0.0])), [X])
case("partition_empty", lambda x: jnp.partition(x, 1, axis=1), [EMPTY])
case("extract_empty", lambda x: (jnp.extract(np.zeros((0, 3), bool), x), jnp.compress(np.zeros(0, bool), x, axis=0)), [EMPTY], ignore=("jit",))  # fmt: skip
case("known_masks", lambda x: (jnp.compress(MASK, x, axis=0), jnp.compress(np.array([True, False, True, False, False]), x, axis=1), jnp.extract(np.eye(3, 4) > 0, x)), [X], ignore=("jit",))  # fmt: skip
case("error_compress_beyond", lambda x: jnp.compress(np.ones(5, bool), x, axis=1), [X])
case("reduce_of_nothing", lambda x: jnp.frompyfunc(lambda a, b: a * b, 2, 1, identity=1).reduce(x), [EMPTY])  # fmt: skip

# Other arguments

case("piecewise_of_rows", lambda x: jnp.piecewise(x, [x[0] > 0, x[0] < -1], [1.0, 2.0]), [X])
case("piecewise_numbers", lambda x: jnp.piecewise(x, [x > 0], [1.5]), [X])
case("like_on_device", lambda x: (jnp.zeros_like(x, device=jax.devices()[0]), jnp.full_like(x, 2, device=jax.devices()[0]), jnp.zeros(3, device=jax.devices()[0])), [X])  # fmt: skip
case("error_accumulate_axis", lambda x: jnp.frompyfunc(lambda a, b: a - b, 2, 1).accumulate(x, axis=None), [X])  # fmt: skip
case("accumulate_flat", lambda x: jnp.add.accumulate(x, axis=None), [X])
case("error_at_without_operand", lambda x: jnp.frompyfunc(lambda a, b: a - b, 2, 1).at(x, 0, inplace=False), [X])  # fmt: skip

# Text

case("printing", lambda: [np.frombuffer(s.encode(), np.uint8) for s in _texts()])
VECTORIZED = jnp.vectorize(lambda a, b: a @ b, signature="(n,m),(m)->(n)")
case("vectorize", lambda x: (VECTORIZED(jnp.stack([x, x]), x[0]), VECTORIZED(x, jnp.stack([x[0], x[1]]))), [X])  # fmt: skip
case("error_vectorize_core", lambda x: VECTORIZED(x, x[0, :2]), [X])
case("error_vectorize_rank", lambda x: VECTORIZED(x[0], x[0]), [X])
case("error_vectorize_count", lambda x: VECTORIZED(x), [X])
case("error_vectorize_out", lambda x: jnp.vectorize(lambda a: (a, a), signature="(n)->(n)")(x), [X])
case("error_vectorize_excluded", lambda x: jnp.vectorize(lambda a: a, excluded={-1})(x), [X])
case("vectorize_excluded", lambda x: jnp.vectorize(lambda a, b: a + len(b), excluded={1})(x, "abc"), [X])  # fmt: skip
case("vectorize_none", lambda x: jnp.vectorize(lambda a, b: a if b is None else a + b)(x, None), [X])  # fmt: skip


def _texts():
    x = jnp.arange(6.0).reshape(2, 3) / 3
    with jnp.printoptions(precision=1, threshold=4):
        yield repr(x)
        yield str(x)
    yield jnp.array_repr(x, max_line_width=20, precision=2)
    yield jnp.array_str(x, precision=2, suppress_small=True)
    for y in (jnp.zeros((0, 3)), jnp.zeros(2000), jnp.array(1), jnp.asarray(1.0), jnp.array([1], jnp.bfloat16)):  # fmt: skip
        yield repr(y)
    yield f"{jnp.array(1.5):.3f}"
