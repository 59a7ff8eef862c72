"""Symbolic dimensions beside the reference (export_shapes_scenarios.py), and where they are decided better."""

import gc
import itertools
import operator
import random
import weakref

import numpy as np
import pytest
from export_shapes_functions import ARGUMENTS, FUNCTIONS, MORE_FUNCTIONS
from op_testing import case_tests

import jax
import jax.numpy as jnp
from jax import export
from jax._src.export.shape_poly import solving
from jax._src.export.shape_poly.linear_program import minimize
from jax.errors import InconclusiveDimensionOperation

reference, test_reference, _ = case_tests(__file__)

symbolic_shape = export.symbolic_shape


def decided(text, constraints=()):
    a, b, c = symbolic_shape("a, b, c", constraints=constraints)
    return eval(text, {"max": jax.core.max_dim, "min": jax.core.min_dim}, {"a": a, "b": b, "c": c})


class TestDecisions:
    @pytest.mark.parametrize(
        "text",
        [
            "a*a >= a",
            "a*b >= a",
            "a - a%3 >= 0",
            "5 % a <= 5",
            "a*a - 2*a + 1 >= 0",
            "a*b + 1 >= a + b",
            "min(a, 5) >= min(a, 2)",
            "max(a - b, 0) + min(a, b) >= a",
        ],
    )
    def test_more_than_the_reference(self, text):
        assert decided(text) is True

    @pytest.mark.parametrize(
        "text", ["a*a >= b", "a >= b", "a*b >= 2", "a%2 >= 1", "a//b >= 1", "max(a, b) > a"]
    )
    def test_inconclusive(self, text):
        with pytest.raises(InconclusiveDimensionOperation):
            decided(text)

    def test_quotients_of_sizes_with_a_known_sign(self):
        assert decided("((c//2) - c)//b <= 0") and decided(
            "((b//5) - c)//b <= b", ["max(a, b) <= 6"]
        )
        assert not decided("(b//5 - 6)//c >= a", ["max(a, b) <= 6"])
        assert not decided("(b - 4*a)//c >= b + c - min(a, b)", ["a >= b"])

    def test_limits_that_follow_from_several_constraints(self):
        text = "max(4*a, 2 - b) - max(min(5, a), b%2) >= min(max(a, 6), b)"
        assert decided(text, ["b >= c", "a >= 2*c"])

    def test_constraints_decide(self):
        assert decided("b >= a", ["a*a == b"])
        assert decided("a + b >= 10", ["a >= 4", "b >= 6"])
        assert decided("a >= c", ["a >= b", "b >= c"])
        assert decided("4*(a//4) == a", ["mod(a, 4) == 0"])
        assert decided("a - 2*b == 0", ["a == 2*b"])
        assert decided("a == c", ["a == b", "b == c"])

    def test_after_decisions_about_parts(self):
        """The remainder is taken to be unknown only while the sign of its dividend is looked for."""
        constraint = "4*floordiv(a - b, 4) + mod(a - b, 4) >= 0"
        assert decided("a - b >= 0", [constraint])
        assert decided("(a - b) % 4 <= 3 and a >= b", [constraint])

    def test_sound(self):
        """What is decided holds for all values that fulfil the constraints."""
        rng = random.Random(0)
        atoms = ["a", "b", "2", "3", "1", "5"]
        operations = [
            "({} + {})",
            "({} - {})",
            "({} * {})",
            "({} // {})",
            "({} % {})",
            "max({}, {})",
            "min({}, {})",
        ]

        def expression(depth):
            if depth == 0:
                return rng.choice(atoms)
            return rng.choice(operations).format(
                expression(depth - 1), expression(rng.randrange(depth))
            )

        decisions = 0
        for _ in range(250):
            x, y = expression(2), expression(2)
            constraints = rng.choice(
                [
                    (),
                    ("a >= b",),
                    ("a <= 4",),
                    ("a + b >= 6", "mod(a, 2) == 0"),
                    ("a == 2*b",),
                    ("mod(b, 4) == 0",),
                ]
            )
            values = [
                (a, b) for a, b in itertools.product(range(1, 9), repeat=2)
                if all(eval(c, {"mod": operator.mod}, {"a": a, "b": b}) for c in constraints)
            ]  # fmt: skip
            try:
                result = decided(f"{x} >= {y}", constraints)
                exact = str(decided(x, constraints))
            except (InconclusiveDimensionOperation, ZeroDivisionError):
                continue
            decisions += 1
            for a, b in values:
                try:
                    left, right = (
                        eval(t, {"max": max, "min": min}, {"a": a, "b": b}) for t in (x, y)
                    )
                except ZeroDivisionError:
                    continue
                assert (left >= right) is bool(result), (x, y, constraints, a, b, exact)
        assert decisions > 100

    def test_linear_programs(self):
        # Least x0 + x1 with x0 - x2 = 2, x1 - x3 = 3, all variables not negative.
        assert minimize([[1, 0, -1, 0], [0, 1, 0, -1]], [2, 3], [1, 1, 0, 0]) == 5
        assert minimize([[1, 1]], [-1], [1, 1]) == np.inf  # no solution
        assert minimize([[1, -1]], [0], [-1, 0]) == -np.inf  # no bound
        assert minimize([[1, 1], [2, 2]], [2, 4], [3, 1]) == 2  # dependent equations


class TestErrors:
    def test_inconclusive(self):
        with pytest.raises(
            InconclusiveDimensionOperation, match=r"'a' >= 'b' is inconclusive"
        ) as info:
            decided("a >= b", ["a >= 2"])
        assert "constraints=['a >= b']" in str(info.value) and "  a >= 2" in str(info.value)
        assert "if it never holds, constraints=['a <= b - 1']" in str(info.value)

    def test_unsatisfiable(self):
        for constraints in (
            ["a >= 3", "a <= 2"],
            ["a <= 0"],
            ["a == 0"],
            ["a >= b", "b >= a + 1"],
            ["2*a == 3"],
        ):
            with pytest.raises(ValueError, match="Unsatisfiable constraint"):
                symbolic_shape("a, b", constraints=constraints)

    def test_scopes(self):
        (a,), (other,) = symbolic_shape("a"), symbolic_shape("a")
        assert a != other
        with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes") as info:
            a + other
        assert "export_shapes_test.py" in str(info.value)
        with pytest.raises(ValueError, match="both a `scope` and `constraints`"):
            symbolic_shape("a", scope=a.scope, constraints=["a >= 2"])
        assert symbolic_shape("a", scope=a.scope) == (a,)

    def test_syntax(self):
        with pytest.raises(ValueError, match=r"'a b' in dimension 0: .* found 'b' at position 2"):
            symbolic_shape("a b")
        with pytest.raises(ValueError, match="division by zero"):
            symbolic_shape("mod(a, 0)")
        with pytest.raises(ValueError, match="deeper than"):
            symbolic_shape("(" * 1000 + "a" + ")" * 1000 + "+1")
        with pytest.raises(ValueError, match="exponent"):
            symbolic_shape("a^1000000")
        with pytest.raises(ValueError, match="smaller number"):
            symbolic_shape("9" * 1000)
        with pytest.raises(ValueError, match="at most 5000 factors"):
            symbolic_shape("max(((((a^64)^64)^64)^64)^64, 2)")

    def test_short_texts_of_much_work(self):
        nested = "a"
        for _ in range(20):
            nested = f"mod(({nested} + 1)^2, b)"
        with pytest.raises(ValueError, match="at most 5000 factors"):
            symbolic_shape(nested)
        divided = f"floordiv({2**60}*h^20, 8*h - a - b - c - d - e - f - g)"
        assert str(symbolic_shape(divided)[0]).startswith("floordiv(")
        assert str(symbolic_shape("a" + " " * 100_000)[0]) == "a"

    def test_dimensions_of_files_take_limited_work(self):
        nested = "a"
        for i in range(30):
            nested = f"mod({nested} + {i}*b, b + {i})"
        scope = export.SymbolicScope()
        scope._decision.limit_work(100_000)
        assert str(symbolic_shape("max(mod(a, b), floordiv(a + 3, 4))", scope=scope)[0])
        with pytest.raises(ValueError, match="too many nested operations"):
            symbolic_shape(nested, scope=scope)

    def test_large_numbers(self):
        (a,) = symbolic_shape("a")
        for fun in (
            lambda x: x.shape[0] + 2**31,
            lambda x: x * (x.shape[0] * 2**70),
            lambda x: jnp.zeros(x.shape[0] % 2**32),
        ):
            with pytest.raises(ValueError, match="is too large: exported programs compute sizes"):
                export.export(jax.jit(fun))(jax.ShapeDtypeStruct((a,), np.float32))

    def test_outside_of_a_trace(self):
        (a,) = symbolic_shape("a")
        with pytest.raises(NotImplementedError, match="'a' is not known outside"):
            jnp.asarray(a)
        with pytest.raises(InconclusiveDimensionOperation, match="constant is required"):
            int(a)

    def test_unsolvable(self):
        a, b = symbolic_shape("a, b")
        avals = [jax.core.ShapedArray((a, a * b), np.dtype("float32"))]
        with pytest.raises(
            ValueError, match=r"Cannot solve for values of dimension variables \{'b'\}"
        ):
            solving.DimensionSolver(avals, ["args[0]"])


class TestSolving:
    def solve(self, specs, sizes, constraints=()):
        scope = export.SymbolicScope(constraints)
        avals = [
            jax.core.ShapedArray(symbolic_shape(s, scope=scope), np.dtype("float32")) for s in specs
        ]
        return solving.solve_for_sizes(avals, [f"args[{i}]" for i in range(len(avals))], sizes)

    def test_values(self):
        assert self.solve(["a, 2*b + 1"], [(3, 7)]) == {"a": 3, "b": 3}
        assert self.solve(["3*a - 2*b, b"], [(5, 2)]) == {"a": 3, "b": 2}
        assert self.solve(["mod(a, 2)", "a"], [(1,), (3,)]) == {"a": 3}
        assert self.solve(["a + b", "b"], [(5,), (2,)]) == {"a": 3, "b": 2}

    def test_symbolic_values(self):
        (n,) = symbolic_shape("n")
        assert self.solve(["2*a, a"], [(2 * n, n)]) == {"a": n}
        assert self.solve(["a, a"], [(2 * n, n + 1)]) == {"a": 2 * n}  # may be equal
        with pytest.raises(ValueError, match=r"\(= n \+ 1\) and the specification 'a' \(= n\)"):
            self.solve(["a, a"], [(n, n + 1)])

    def test_braces_in_names(self):
        (a,) = symbolic_shape("2*a")
        aval = jax.core.ShapedArray((a,), np.dtype("float32"))
        with pytest.raises(
            ValueError, match=r"remainder 1 .* args\[0\]\['{x}'\].shape\[0\] \(= 3\)"
        ):
            solving.solve_for_sizes([aval], ["args[0]['{x}']"], [(3,)])

    def test_braces_in_messages_of_programs(self):
        (n,), (p, q) = symbolic_shape("n"), symbolic_shape("p, q")
        struct = lambda size: jax.ShapeDtypeStruct((size,), np.dtype("float32"))
        tree = lambda a, b: {"{a}": struct(a), "b": struct(b)}
        inner = export.export(jax.jit(lambda x: x["{a}"].sum()))(tree(2 * n, n))
        outer = export.export(jax.jit(inner.call))(tree(q, p))
        with pytest.raises(ValueError, match=r"\['{a}'\].shape\[0\] \(= 3\)"):
            outer.call({"{a}": np.ones(3, np.float32), "b": np.ones(2, np.float32)})

    @pytest.mark.parametrize(
        "specs, sizes, constraints, message",
        [
            (["2*a"], [(3,)], (), "Division had remainder 1 when computing the value of 'a'"),
            (
                ["a, a"],
                [(3, 4)],
                (),
                r"inconsistency .* args\[0\].shape\[1\] \(= 4\) .* 'a' \(= 3\)",
            ),
            (["a"], [(0,)], (), "Expected value >= 1 for dimension variable 'a', which is 0"),
            (["a, b"], [(2, 3)], ["a >= b"], "constraint a >= b: .* found -1"),
            (["a"], [(3,)], ["mod(a, 2) == 0"], "constraint mod"),
        ],
    )
    def test_mismatches(self, specs, sizes, constraints, message):
        with pytest.raises(ValueError, match=message):
            self.solve(specs, sizes, constraints)


def specs_of(names):
    a, b = symbolic_shape("a, b", constraints=["a >= 4", "b >= 4"])
    sizes = {"a": a, "b": b}
    return [
        jax.ShapeDtypeStruct(tuple(sizes.get(d, d) for d in shape), dtype)
        for shape, dtype in (ARGUMENTS[x] for x in names)
    ]


@pytest.mark.parametrize("name", [*FUNCTIONS, *MORE_FUNCTIONS])
def test_lowering(name):
    fun, *args = {**FUNCTIONS, **MORE_FUNCTIONS}[name]
    text = jax.jit(fun).lower(*specs_of(args)).as_text()
    assert "jax.global_constant" in text


@pytest.mark.parametrize(
    "fun, argument, error",
    [
        (lambda x: jax.vmap(lambda row: jnp.convolve(row, row))(x), "x", NotImplementedError),
        (lambda v: jax.scipy.fft.dct(v), "v", NotImplementedError),
        (lambda v: jax.scipy.signal.fftconvolve(v, v), "v", NotImplementedError),
        (lambda x: jnp.unique(x, size=2, axis=0), "x", InconclusiveDimensionOperation),
        (lambda x: x[: x.shape[0] - 9], "x", InconclusiveDimensionOperation),
        (lambda x: x.reshape(5, -1), "x", InconclusiveDimensionOperation),
        (lambda x: x if x.shape[0] > x.shape[1] else x.T, "x", InconclusiveDimensionOperation),
        (
            lambda x: jax.lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "SAME"),
            "heads",
            InconclusiveDimensionOperation,
        ),
    ],
)
def test_unsupported(fun, argument, error):
    with pytest.raises(error):
        jax.eval_shape(fun, *specs_of([argument]))


# The order of elements in the parts of `partition` is not specified.
ALL_FUNCTIONS = {k: f for k, f in {**FUNCTIONS, **MORE_FUNCTIONS}.items() if k != "partition"}
VALUES = {
    "x": np.linspace(0.1, 4, 48, dtype=np.float32).reshape(8, 6),
    "v": np.linspace(0.2, 3, 8, dtype=np.float32),
    "i": np.arange(8, dtype=np.int32) * 3 % 4,
    "square": 3 * np.eye(8, dtype=np.float32) + 0.1,
    "squares": np.stack([k * np.eye(8, dtype=np.float32) + 0.1 for k in (1, 2, 3)]),
    "heads": np.linspace(-1, 1, 512, dtype=np.float32).reshape(2, 8, 4, 8),
}


@pytest.mark.parametrize("start", range(0, len(ALL_FUNCTIONS), 24))
def test_calls(start):
    """A program with symbolic shapes, stored and loaded, has the results of one with known shapes."""
    chosen = list(ALL_FUNCTIONS.values())[start : start + 24]

    @jax.jit
    def all_of(*arguments):
        given = dict(zip(ARGUMENTS, arguments))
        return [jax.tree.leaves(fun(*(given[x] for x in args))) for fun, *args in chosen]

    exported = export.export(all_of)(*specs_of(ARGUMENTS))
    loaded = export.deserialize(exported.serialize())
    arguments = [VALUES[x] for x in ARGUMENTS]
    results, wants = jax.tree.leaves(loaded.call(*arguments)), jax.tree.leaves(all_of(*arguments))
    for got, want in zip(results, wants, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_call_with_other_symbolic_sizes():
    a, b = symbolic_shape("a, b", constraints=["a >= b"])
    inner = export.export(jax.jit(lambda x: x.sum(0)))(jax.ShapeDtypeStruct((a, b), np.float32))
    inner = export.deserialize(inner.serialize(vjp_order=2))
    (n,) = symbolic_shape("n")
    outer = export.export(jax.jit(lambda y: 2 * inner.call(y)))(
        jax.ShapeDtypeStruct((2 * n, 3), np.float32)
    )
    assert str(outer.out_avals[0]) == "float32[3]"
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(outer.call(x), 2 * x.sum(0))
    np.testing.assert_array_equal(
        jax.grad(lambda x: (inner.call(x) ** 2).sum())(x)[3], 2 * x.sum(0)
    )
    with pytest.raises(ValueError, match="constraint a >= b: .* found -1"):
        outer.call(x[:2])


@pytest.mark.parametrize(
    "fun, constraint, shape, match",
    [
        (lambda x: x[:, :2] @ jnp.ones((2, 3)), "b >= 2", (5, 1), "constraint b >= 2: .* found -1"),
        (
            lambda x: x.reshape(x.shape[0] // 2, 2, x.shape[1]),
            "mod(a, 2) == 0",
            (3, 1),
            "equal to 0, but found 1",
        ),
        (lambda x: x[: x.shape[0] - 3] + 1, "a >= 4", (1, 2), r"would have the shape \(-2, 2\)"),
    ],
)
def test_constraints_come_before_operations_that_need_them(fun, constraint, shape, match):
    """The constraints are in the module, not in the types that a file has."""
    sizes = symbolic_shape("a, b", constraints=[constraint])
    exported = export.export(jax.jit(fun))(jax.ShapeDtypeStruct(sizes, np.float32))
    loaded = export.deserialize(exported.serialize())
    with pytest.raises(ValueError, match=f"Input shapes do not match .*{match}"):
        loaded.call(np.zeros(shape, np.float32))
    with pytest.raises(ValueError, match=f"Input shapes do not match .*{match}"):
        jax.jit(lambda x: 2 * loaded.call(x) + 1)(np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: jnp.zeros(x.shape[0] - 5).sum(),
        lambda x: jax.lax.iota(np.int32, x.shape[0] - 5).sum(),
        lambda x: jnp.empty(x.shape[0] - 5).sum(),
        lambda x: jnp.tile(x, x.shape[0] - 5).sum(),
        lambda x: jax.lax.pad(x, 0.0, [(-2, -3, 0)]).sum(),
        lambda x: jax.lax.rng_bit_generator(jnp.zeros(4, "uint32"), (x.shape[0] - 5,))[1].sum(),
    ],
    ids=["zeros", "iota", "empty", "tile", "pad", "rng_bit_generator"],
)
def test_sizes_that_may_be_negative(fun):
    with pytest.raises(InconclusiveDimensionOperation, match=r"\['b - 5 >= 0'\]"):
        export.export(jax.jit(fun))(jax.ShapeDtypeStruct(symbolic_shape("b"), np.float32))
    sizes = symbolic_shape("b", constraints=["b >= 5"])
    exported = export.export(jax.jit(fun))(jax.ShapeDtypeStruct(sizes, np.float32))
    x = np.ones(7, np.float32)
    np.testing.assert_array_equal(exported.call(x), fun(x))
    with pytest.raises(ValueError, match="constraint b >= 5"):
        exported.call(x[:3])


def test_scopes_are_checked_before_the_function_is_traced():
    struct = lambda: jax.ShapeDtypeStruct(symbolic_shape("n"), np.float32)
    with pytest.raises(
        ValueError, match=r"mixing of symbolic scopes: 'n' of args\[0\]\['x'\].shape\[0\]"
    ):
        export.export(jax.jit(lambda tree, y: tree["x"] + y))({"x": struct()}, struct())


def test_cumulative_sum_of_no_elements():
    (n,) = symbolic_shape("n")
    f = jax.jit(lambda x: jnp.cumsum(x[1:]))
    exported = export.export(f)(jax.ShapeDtypeStruct((n,), np.float32))
    assert exported.call(np.ones(1, np.float32)).shape == (0,)
    np.testing.assert_array_equal(exported.call(np.ones(3, np.float32)), [1, 2])


@pytest.mark.parametrize(
    "fun", [jnp.squeeze, jnp.cov, jnp.corrcoef, lambda x: jnp.array_equal(x, x.T)]
)
def test_results_that_depend_on_equality(fun):
    """They are known where constraints decide it."""
    struct = lambda *constraints: jax.ShapeDtypeStruct(
        symbolic_shape("a, b", constraints=constraints), np.float32
    )
    with pytest.raises(InconclusiveDimensionOperation, match="constraints="):
        jax.eval_shape(fun, struct())
    jax.eval_shape(fun, struct("a >= 2", "b >= a + 1"))


def test_slices_of_all_sizes():
    """Also where they turn out to be empty."""
    starts, stops = ("5", "-2", "b"), ("2", "-3", "a//2")
    texts = [
        f"x[{i}:{j}:{k}]" for i, j, k in itertools.product(starts, stops, (-1, -2, -3))
    ]  # fmt: skip

    def slices(x):
        a, b = x.shape
        return [eval(text, {"x": x, "a": a, "b": b}) for text in texts]

    struct = jax.ShapeDtypeStruct(symbolic_shape("a, b"), np.float32)
    exported = export.export(jax.jit(slices))(struct)
    for shape in ((2, 5), (9, 4)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        for text, got, want in zip(texts, exported.call(x), slices(x), strict=True):
            np.testing.assert_array_equal(got, want, text)


def test_division_by_sizes_that_turn_out_to_be_zero():
    """The compiler would end the process."""
    (n,) = symbolic_shape("n")
    f = jax.jit(lambda x: (x.sum() + 7 % (x.shape[0] - 1), x.sum() + 7 // (x.shape[0] - 1)))
    exported = export.export(f)(jax.ShapeDtypeStruct((n,), np.float32))
    np.testing.assert_array_equal(exported.call(np.ones(5, np.float32)), (8, 6))
    assert np.isfinite(exported.call(np.ones(1, np.float32))).all()
    f = jax.jit(lambda x: jnp.unravel_index(3, (x.shape[0] - 1, 2)))
    exported = export.export(f)(jax.ShapeDtypeStruct((n,), np.float32))
    assert exported.call(np.ones(5, np.float32)) == (1, 1)
    assert exported.call(np.ones(1, np.float32))[0] == 0


def test_division_of_integers_by_zero():
    """The compiler would end the process where it knows the numbers once it has refined shapes."""
    div, rem = jax.lax.div, jax.lax.rem
    (n,) = symbolic_shape("n")

    def f(x):
        zero = jnp.asarray(x.shape[0] - 1)
        return [
            div(7, zero), rem(7, zero), div(7, zero + 2), rem(np.uint8(7), zero.astype(np.uint8)),
            div(np.array([7, 8]), jnp.stack([zero, zero + 3])), rem(np.array([7, 8]), np.array([0, 3])),
        ]  # fmt: skip

    exported = export.export(jax.jit(f))(jax.ShapeDtypeStruct((n,), np.float32))
    results = jax.jit(lambda x: [*exported.call(x), div(7, jnp.asarray(x.size - 1))])(np.ones(1))
    for got, want in zip(results, [-1, 7, 3, 7, [-1, 2], [7, 2], -1], strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.usefixtures("fusion_emitters")
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32])
def test_indices_of_other_dtypes(dtype):
    """Sizes may be larger than indices can be, and indices than sizes, which are 32-bit integers."""
    rows = jax.lax.GatherDimensionNumbers((1,), (0,), (0,))
    updates = jax.lax.ScatterDimensionNumbers((1,), (0,), (0,))

    def f(x, i):
        several, one = i[:, None], i[1]
        ones, size = jnp.ones((i.shape[0], x.shape[1])), (1, x.shape[1])
        take = lambda mode: lambda x: jax.lax.gather(x, several, rows, size, mode=mode)
        return [
            [jax.vjp(take(mode), x)[1](ones) for mode in ("clip", "fill")],
            [take(mode)(x) for mode in ("clip", "fill")],
            [jax.lax.scatter(x, several, ones, updates, mode=m) for m in ("clip", "fill")],
            jax.lax.dynamic_slice_in_dim(x, one, 2),
            jax.lax.dynamic_slice(x, (one, -2), (2, 2)),
            jax.lax.dynamic_slice(x, (x.shape[0] - 3, one), (2, 2)),
            jax.lax.dynamic_update_slice_in_dim(x, ones[:2], one, 0),
        ]

    a, b, c = symbolic_shape("a, b, c", constraints=["a >= 4", "b >= 2", "c >= 2"])
    specs = jax.ShapeDtypeStruct((a, b), np.float32), jax.ShapeDtypeStruct((c,), dtype)
    exported = export.export(jax.jit(f))(*specs)
    for size in (4, 200):
        x = np.arange(3 * size, dtype=np.float32).reshape(size, 3)
        indices = np.array([0, 2, 3, 120], dtype)
        jax.tree.map(
            np.testing.assert_array_equal, exported.call(x, indices), jax.jit(f)(x, indices)
        )


def test_hessenberg_of_a_symbolic_size():
    a, b = symbolic_shape("a, b", constraints=["a >= 2"])
    exporting = export.export(jax.jit(jax.lax.linalg.hessenberg))
    x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(3, 4, 4)
    exported = exporting(jax.ShapeDtypeStruct((b, 4, 4), np.float32))
    jax.tree.map(np.testing.assert_array_equal, exported.call(x), jax.lax.linalg.hessenberg(x))
    with pytest.raises(InconclusiveDimensionOperation, match="must be constant, got the symbolic"):
        exporting(jax.ShapeDtypeStruct((a, a), np.float32))


@pytest.mark.parametrize("x64", [False, True])
def test_dtypes_of_specifications(x64):
    """Those of arrays are the ones that `jit` takes; a specification keeps its own."""
    given = [np.ones(3), np.ones(3, np.int64), np.float64(2), jax.random.key(0)]
    with jax.enable_x64(x64):
        specs = export.symbolic_args_specs([*given, jax.ShapeDtypeStruct((3,), "int64")], None)
    names = ["float64", "int64", "float64", "key<fry>", "int64"]
    if not x64:
        names[:3] = ["float32", "int32", "float32"]
    assert [str(s.dtype) for s in specs] == names


@pytest.mark.parametrize(
    "fun", [jax.lax.linalg.lu, jnp.linalg.eigh, jnp.linalg.qr], ids=["lu", "eigh", "qr"]
)
def test_decompositions_for_tpus(fun):
    """XLA knows the sizes of results of custom calls from operands, which hold them."""
    (b,) = symbolic_shape("b")
    for shape in ((b, 4, 4), (b, b)):
        exported = export.export(jax.jit(fun), platforms=("tpu",))(
            jax.ShapeDtypeStruct(shape, np.float32)
        )
        calls = [
            line
            for line in exported.mlir_module().splitlines()
            if "stablehlo.custom_call" in line and "@shape_assertion" not in line
        ]
        assert calls and all("indices_of_shape_operands" in line for line in calls)


def test_types_end_with_their_scope():
    """A process that reads programs again and again does not keep their symbolic dimensions."""
    (a,) = symbolic_shape("a")
    data = export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((a, 3), np.float32)).serialize()
    exported = export.deserialize(data)
    (aval,) = exported.in_avals
    scope = weakref.ref(aval.shape[0].scope)
    del exported, aval
    gc.collect()
    assert scope() is None


def test_results_have_the_sizes_that_users_write():
    def f(x):
        n = x.shape[0]
        triangle = jnp.zeros(n * (n + 1) // 2) + jnp.triu_indices(n)[0] - jnp.tril_indices(n)[1]
        columns = jnp.tril_indices(n, 4, 1)[0] + jnp.arange(n), jnp.triu_indices(n, 4, 1)
        strict = (
            jnp.zeros(n * (n - 1) // 2) + jnp.triu_indices(n, 1)[1] + jnp.tril_indices(n, -1)[0]
        )
        rows = jnp.triu_indices(3, -9, n)[0] + jnp.zeros(3 * n), jnp.tril_indices(3, -9, n)
        return jnp.fft.fftfreq(n) * x, jnp.fft.fftfreq(n - 1), triangle, columns, strict, rows

    (b,) = symbolic_shape("b", constraints=["b >= 2"])
    exported = export.export(jax.jit(f))(jax.ShapeDtypeStruct((b,), np.float32))
    for size in (2, 5, 8):
        x = np.ones(size, np.float32)
        jax.tree.map(np.testing.assert_array_equal, exported.call(x), f(x))


def test_rolls_of_no_elements():
    (n,) = symbolic_shape("n")
    f = jax.jit(lambda x: (jnp.fft.fftshift(x[1:]), jnp.roll(x[1:], jnp.int32(x.shape[0]))))
    exported = export.export(f)(jax.ShapeDtypeStruct((n,), np.float32))
    for size in (0, 3):
        x = np.arange(size + 1, dtype=np.float32)
        for got, want in zip(exported.call(x), (np.fft.fftshift(x[1:]), np.roll(x[1:], size + 1))):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace_of_a_size_that_may_be_one(endpoint):
    (n,) = symbolic_shape("n")

    def numbers(size):
        return jnp.linspace(jnp.array([0.0, 2.0]), 5, size, endpoint, retstep=True, axis=-1)

    f = jax.jit(lambda x: numbers(x.shape[0] - 1))
    exported = export.export(f)(jax.ShapeDtypeStruct((n,), np.float32))
    for size in (0, 1, 2, 4):
        results = exported.call(np.ones(size + 1, np.float32))
        for got, want in zip(results, numbers(size), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_permutations():
    """The size decides how often they sort."""
    (n,) = symbolic_shape("n")
    f = jax.jit(lambda x: jax.random.permutation(jax.random.key(3), x))
    exported = export.export(f)(jax.ShapeDtypeStruct((n,), np.int32))
    for size in (1, 2, 1625, 1626):
        x = np.arange(size, dtype=np.int32)
        np.testing.assert_array_equal(exported.call(x), f(x))


def test_derivatives_along_sizes_that_turn_out_to_be_small():
    (n,) = symbolic_shape("n", constraints=["n <= 4"])

    def f(x):
        y = x[1:]
        grad = jax.grad(lambda y: (jnp.cumprod(y) ** 2).sum() + jax.lax.cummax(y).sum())(y)
        scanned = jax.lax.associative_scan(jnp.multiply, y, reverse=True)
        product = jax.grad(lambda y: jax.lax.reduce(y, 1.0, lambda p, q: p * q + 0, (0,)))(y)
        return grad, scanned, product, jax.hessian(jnp.prod)(x)

    exported = export.export(jax.jit(f))(jax.ShapeDtypeStruct((n,), np.float32))
    for size in (1, 4):
        x = np.linspace(0.5, 2, size, dtype=np.float32)
        for got, want in zip(exported.call(x), jax.jit(f)(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)


def test_grids_of_one_point():
    def f(grid, values, x):
        return jax.scipy.interpolate.RegularGridInterpolator((grid,), values)(x)

    n, m = symbolic_shape("n, m")
    struct = lambda size: jax.ShapeDtypeStruct((size,), np.float32)
    exported = export.export(jax.jit(f))(struct(n), struct(n), struct(m))
    for grid in ([1.0], [1.0, 2.0, 4.0]):
        arguments = np.float32(grid), np.float32(grid) + 3, np.float32([1, 3, 5])
        np.testing.assert_allclose(exported.call(*arguments), f(*arguments))


def test_factors_that_divide_products():
    assert decided("a*b//2*2 == a*b and (3*a*b + 5) % 2 == 1", ["mod(b, 2) == 0"])
    assert decided("(a*b*c) // (4*a) * 4 == b*c", ["mod(b, 4) == 0"])
    (a, b) = symbolic_shape("a, b", constraints=["mod(b, 2) == 0"])
    x = jax.ShapeDtypeStruct((a, b), np.float32)
    assert str(jax.eval_shape(lambda x: x.reshape(2, -1), x).shape) == "(2, a*floordiv(b, 2))"


def test_compile_without_export():
    (n,) = symbolic_shape("n")
    lowered = jax.jit(jnp.sin).lower(jax.ShapeDtypeStruct((n,), np.float32))
    with pytest.raises(ValueError, match="Error refining shapes: .* Export it"):
        lowered.compile()


def test_platforms_and_dimensions():
    (n,) = symbolic_shape("n")
    f = jax.jit(lambda x, unused: jnp.sort(x) / x.shape[0])
    specs = jax.ShapeDtypeStruct((n,), np.float32), jax.ShapeDtypeStruct((3,), np.float32)
    exported = export.export(f, platforms=("cpu", "tpu", "cuda"))(*specs)
    assert exported.module_kept_var_idx == (0, 1) and exported.uses_global_constants
    x = np.array([3, 1, 2], np.float32)
    np.testing.assert_array_equal(exported.call(x, x), np.float32([1, 2, 3]) / np.float32(3))


def test_composites_of_symbolic_sizes():
    """The reference does not export them."""
    (n,) = symbolic_shape("n")

    def shifted(x, *, by):
        return jnp.sin(x) + by * x.shape[0]

    named = jax.lax.composite(shifted, name="test.shifted")
    exported = export.export(jax.jit(lambda x: 2 * named(x, by=3)))(
        jax.ShapeDtypeStruct((n, 2), np.float32)
    )
    x = np.ones((5, 2), np.float32)
    loaded = export.deserialize(exported.serialize())
    np.testing.assert_allclose(loaded.call(x), 2 * shifted(x, by=3), rtol=1e-6)
