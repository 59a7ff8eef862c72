"""Cases for the polynomials of jax.numpy."""

import numpy as np
from formula_cases import Formulas
from op_cases import values

import jax
import jax.numpy as jnp

CASES = Formulas()
add, same, given, error = CASES.add, CASES.same, CASES.given, CASES.error
ALL = ("bool", "int8", "uint8", "int32", "bfloat16", "float16", "float32", "complex64")
NUMBERS = ALL[1:]
WIDE = ("int64", "float64", "complex128")
NONE = np.zeros(0, np.float32)
VALUES = dict(diff="", vmap=False)


# Arithmetic
for name in ("polyadd", "polysub", "polymul"):
    f = lambda m, x, y, name=name: getattr(m, name)(x, y)
    dtypes = NUMBERS if name != "polymul" else ALL
    for sizes in ((3, 5), (5, 3), (4, 4), (1, 6)):
        ours = lambda x, y, f=f: f(jnp, x, y)
        add(f"{name}_{sizes}", ours, *[(n,) for n in sizes], dtypes=(*dtypes, *WIDE))
    same(f"{name}_numpy", f, (3,), (5,))
    mixed = np.array([1, 2, 3], np.uint8), np.array([2.5, 1], np.float16)
    given(f"{name}_mixed", lambda x, y, f=f: f(jnp, x, y), *mixed, diff="")
    error(f"{name}_list", lambda x, f=f: f(jnp, [1, 2], x), np.ones(2))
    error(f"{name}_none", lambda x, f=f: f(jnp, x, None), np.ones(2))
    error(f"{name}_ranks", lambda x, y, f=f: f(jnp, x, y), np.ones((2, 2)), np.ones(3))
for name in ("polyadd", "polysub"):
    add(f"{name}_rows", getattr(jnp, name), (3, 2), (3, 2))
error("polysub_bool", jnp.polysub, np.array([True, False]), np.array([True]))
given("polymul_empty", jnp.polymul, NONE, np.ones(3, np.float32), vmap=False)
given("polymul_empties", jnp.polymul, NONE, NONE, vmap=False)
for i, xs in enumerate(([[0, 0, 1, 2], [0, 1, 1]], [[0, 0], [1, 2]], [[0], [0, 0]], [[1, 0], [2]])):
    trimmed = lambda x, y: jnp.polymul(x, y, trim_leading_zeros=True)
    given(f"polymul_trimmed_{i}", trimmed, *[np.array(x, np.float32) for x in xs], **VALUES)

# Division: the divisors begin with a large coefficient.
for sizes in ((6, 3), (4, 4), (5, 1), (3, 5), (20, 4)):
    fun = lambda m, x, y: m.polydiv(x, y + m.asarray([20] + [0] * (y.shape[0] - 1), y.dtype))
    ours = lambda x, y, fun=fun: fun(jnp, x, y)
    add(f"polydiv_{sizes}", ours, *[(n,) for n in sizes], dtypes=("float32", "complex64"))
    narrow = ("int8", "int32", "float16", "bfloat16", *WIDE)
    add(f"polydiv_{sizes}", ours, *[(n,) for n in sizes], dtypes=narrow, tol=0.05)
given("polydiv_bool", jnp.polydiv, np.array([True, True, False]), np.array([True, True]))
given("polydiv_empty", jnp.polydiv, NONE, np.ones(3, np.float32), vmap=False)
given("polydiv_leading_zero", jnp.polydiv, np.array([1.0, 3, 3]), np.array([0.0, 1]), **VALUES)
given("polydiv_zero", jnp.polydiv, np.array([1.0, 3, 3]), np.array([0.0, 0]), **VALUES)
for i, (u, v) in enumerate(
    [([1, 3, 3, 1], [1, 1]), ([1, 3, 3, 2], [1, 1]), ([1, 3, 3, 1 + 1e-5], [1, 1]),
     ([1, 2], [1, 2, 3]), ([0, 0, 1e-3], [1, 2, 3, 4]), ([0, 0, 1e-4], [1, 2, 3, 4])]
):  # fmt: skip
    trimmed = lambda u, v: jnp.polydiv(u, v, trim_leading_zeros=True)
    given(f"polydiv_trimmed_{i}", trimmed, np.float32(u), np.float32(v), **VALUES)
error("polydiv_by_nothing", jnp.polydiv, np.ones(3), NONE)
error("polydiv_list", lambda x: jnp.polydiv(x, [1]), np.ones(2))

# Derivatives and integrals
for m in (0, 1, 2, 4, 5, 7):
    add(f"polyder_{m}", lambda p, m=m: jnp.polyder(p, m), (5,), dtypes=(*ALL, *WIDE))
    same(f"polyder_numpy_{m}", lambda mod, p, m=m: mod.polyder(p, m), (5,))
for m in (0, 1, 2, 3):
    dtypes = ALL if m else NUMBERS
    add(f"polyint_{m}", lambda p, m=m: jnp.polyint(p, m), (4,), dtypes=(*dtypes, *WIDE))
    same(f"polyint_numpy_{m}", lambda mod, p, m=m: mod.polyint(p, m), (4,))
    add(f"polyint_constants_{m}", lambda p, k: jnp.polyint(p, k.size, k), (4,), (max(m, 1),))
    same(f"polyint_one_constant_{m}", lambda mod, p, m=m: mod.polyint(p, m, k=3), (4,))
add("polyder_m", lambda p: jnp.polyder(p, m=np.int64(2)), (5,))
add("polyint_2d_constants", lambda p, k: jnp.polyint(p, 2, k), (4,), (1, 2))
given("polyint_complex_constant", lambda p: jnp.polyint(p, 1, 3 + 1j), values((3,), "float32", "c"))
given(
    "polyint_wide_constant",
    lambda p, k: jnp.polyint(p, 1, k),
    np.ones(3, np.float16),
    np.float32(2),
)
given("polyder_empty", jnp.polyder, NONE, vmap=False)
given("polyint_empty", lambda p: jnp.polyint(p, 2, jnp.array([1, 2])), NONE, vmap=False)
for name in ("polyder", "polyint"):
    f = getattr(jnp, name)
    error(f"{name}_negative", lambda p, f=f: f(p, -1), np.ones(3))
    error(f"{name}_float", lambda p, f=f: f(p, 1.0), np.ones(3))
    error(f"{name}_scalar", f, np.float32(1))
    error(f"{name}_list", lambda f=f: f([1, 2]))
error("polyint_sizes", lambda p: jnp.polyint(p, 2, jnp.ones(3)), np.ones(3))
error("polyint_constants_list", lambda p: jnp.polyint(p, 2, [1, 2]), np.ones(3))

# Values
for dtype in (*ALL, *WIDE):
    add("polyval", jnp.polyval, (5,), (3,), dtypes=(dtype,))
    add("polyval_scalar", jnp.polyval, (4,), (), dtypes=(dtype,))
same("polyval_numpy", lambda m, p, x: m.polyval(p, x), (6,), (2, 3))
same("polyval_long", lambda m, p, x: m.polyval(p, m.tanh(x)), (40,), (4,))
add("polyval_columns", jnp.polyval, (3, 2), (4, 1))
add("polyval_more_axes", jnp.polyval, (3, 4, 2), (2,))
for unroll in (0, 1, 3, True, 100):
    add(f"polyval_unroll_{unroll}", lambda p, x, u=unroll: jnp.polyval(p, x, unroll=u), (7,), (2,))
for x in (True, 2, 2.5, 1 - 2j):
    for dtype in ("bool", "int8", "bfloat16", "float32"):
        add(f"polyval_at_{x}", lambda p, x=x: jnp.polyval(p, x), (3,), dtypes=(dtype,))
given("polyval_mixed", jnp.polyval, np.ones(3, np.int8), np.ones(2, np.uint8))
given("polyval_empty", jnp.polyval, NONE, np.ones((2, 2), np.float32), vmap=False)
given("polyval_empty_ints", jnp.polyval, NONE, np.ones((2, 2), np.int32), vmap=False)
given("polyval_nowhere", jnp.polyval, np.ones(3, np.float32), NONE, vmap=False)
error("polyval_unroll", lambda p: jnp.polyval(p, 2.0, unroll=-1), np.ones(3))
error("polyval_float_unroll", lambda p: jnp.polyval(p, 2.0, unroll=2.5), np.ones(3))
error("polyval_list", lambda p: jnp.polyval([1, 2], p), np.ones(3))
error("polyval_at_list", lambda p: jnp.polyval(p, [1, 2]), np.ones(3))
error("polyval_shapes", jnp.polyval, np.ones((3, 2)), np.ones(3))

# Roots. Eigenvalues have no order: compare sums of powers of them.
POLYNOMIALS = {
    "real": [1.0, -6, 11, -6], "complex_roots": [2.0, 1, 3, -1], "leading_zeros": [0.0, 0, 1, -3, 2],
    "trailing_zero": [1.0, -3, 2, 0], "linear": [2.0, 3], "ints": [1, -3, 2], "complex": [1, 2j, 3 - 1j, 1],
}  # fmt: skip


def power_sums(x):
    # Zeros, of which the reference has more than one only inexactly, add nothing.
    return tuple(jnp.nansum(x**k) for k in range(1, 5))


for name, p in POLYNOMIALS.items():
    p = np.array(p)
    p = p.astype({"i": np.int32, "f": np.float32, "c": np.complex64}[p.dtype.kind])
    eager = dict(vmap=False, ignore=("jit", "jvp", "vjp"), tol=1e-4)
    given(f"roots_{name}", lambda p: power_sums(jnp.roots(p)), p, **eager)
    # The reference's derivatives are infinite beside leading zeros.
    any_p = lambda p: power_sums(jnp.roots(p, strip_zeros=False))
    mode = dict(diff="") if name == "leading_zeros" else {}
    given(f"roots_{name}_any_zeros", any_p, p, tol=1e-3, **mode)
    numbers = lambda p: (jnp.roots(p).size, jnp.isnan(jnp.roots(p, strip_zeros=False)))
    given(f"roots_{name}_sizes", numbers, p, vmap=False, ignore=("jit", "jvp", "vjp"))
for dtype in ("bool", "int8", *WIDE):
    p = np.array([1, 1, 0, 1], dtype)
    given(
        f"roots_{dtype}",
        lambda p: power_sums(jnp.roots(p)),
        p,
        x64=dtype in WIDE,
        tol=1e-4,
        **VALUES | dict(ignore=("jit",)),
    )
for name, p in {
    "none": NONE,
    "zeros": np.zeros(3),
    "one": np.ones(1),
    "scalar": np.float32(2),
}.items():
    given(f"roots_{name}", jnp.roots, p, vmap=False, diff="", ignore=("jit",))
    given(
        f"roots_{name}_any_zeros", lambda p: jnp.roots(p, strip_zeros=False), p, vmap=False, diff=""
    )
error("roots_matrix", jnp.roots, np.ones((2, 2)))
error("roots_matrix_any_zeros", lambda p: jnp.roots(p, strip_zeros=False), np.ones((2, 2)))
error("roots_list", lambda: jnp.roots([1, 2]))
error("roots_traced", lambda p: jax.jit(jnp.roots)(p), np.ones(3))

# Coefficients from roots
for dtype in (*ALL, *WIDE):
    add("poly", jnp.poly, (4,), dtypes=(dtype,))
same("poly_numpy", lambda m, r: m.poly(r), (7,))
for n in (1, 3):
    add(f"poly_matrix_{n}", jnp.poly, (n, n), dtypes=("float32", "complex64"), tol=1e-3, diff="")
    add(f"poly_matrix_{n}", jnp.poly, (n, n), dtypes=("int32", "float64", "complex128"), tol=1e-4)
given("poly_symmetric", jnp.poly, np.array([[2.0, 1], [1, 3]], np.float32))
given("poly_scalar", jnp.poly, np.float32(2), vmap=False)
given("poly_number", lambda: jnp.poly(2))
given("poly_empty", jnp.poly, NONE, vmap=False)
for shape in ((2, 3), (2, 2, 2), (0, 0)):
    error(f"poly_{shape}", jnp.poly, np.ones(shape))
error("poly_list", lambda: jnp.poly([1, 2]))

# Fits
X = np.array([-2, -1, 0, 1, 2, 3.5], np.float32)
Y, Y2 = values((6,), "float32", "y"), values((6, 2), "float32", "y")
W = np.array([1, 2, 1, 0.5, 3, 1], np.float32)
OPTIONS = {
    "": {}, "full": dict(full=True), "cov": dict(cov=True), "unscaled": dict(cov="unscaled"),
    "rcond": dict(rcond=0.5, full=True), "int_rcond": dict(rcond=1, full=True), "both": dict(full=True, cov=True),
}  # fmt: skip
for name, options in OPTIONS.items():
    tol = dict(tol=2e-3)
    for deg in (0, 1, 2):
        fit = lambda x, y, w=None, deg=deg, options=options: jnp.polyfit(x, y, deg, w=w, **options)
        # The derivative of a truncated decomposition is as inexact as the rank.
        mode = tol | (dict(diff="") if "rcond" in name or deg == 1 else {})
        given(f"polyfit_{name}_{deg}", fit, X, Y, **mode)
        if deg == 2 or not options:
            given(f"polyfit_{name}_{deg}_columns", fit, X, Y2, **mode)
            given(f"polyfit_{name}_{deg}_weights", fit, X, Y, W, **mode)
    given(f"polyfit_{name}_columns_weights", fit, X, Y2, W, **tol | dict(diff=""))
    for dtype in ("float64", "complex64", "complex128"):
        x64 = dtype in WIDE
        args = X.astype(dtype), Y.astype(dtype)
        given(f"polyfit_{name}_{dtype}", fit, *args, x64=x64, tol=1e-8 if x64 else 2e-3, diff="")
for deg in (0, 1, 3):
    ours, numpys = (lambda x, y, m=m, deg=deg: m.polyfit(x, y, deg) for m in (jnp, np))
    x, y = X.astype(np.float64), Y.astype(np.float64)
    given(f"polyfit_numpy_{deg}", ours, x, y, numpy=numpys, x64=True, tol=1e-9)
    ours, numpys = (
        lambda x, y, m=m, deg=deg: m.polyfit(x, y, deg, w=W, cov=True) for m in (jnp, np)
    )
    given(f"polyfit_numpy_cov_{deg}", ours, x, y, numpy=numpys, x64=True, tol=1e-9, diff="")
given("polyfit_int_weights", lambda x, y: jnp.polyfit(x, y, 1, w=jnp.arange(1, 7)), X, Y, tol=1e-3)
given("polyfit_float_degree", lambda x, y: jnp.polyfit(x, y, 2.0), X, Y, tol=1e-3)
given("polyfit_underdetermined", lambda x, y: jnp.polyfit(x[:2], y[:2], 3), X, Y, tol=1e-3, diff="")
given("polyfit_few", lambda x, y: jnp.polyfit(x[:2], y[:2], 1, cov="unscaled"), X, Y, tol=1e-3)
error("polyfit_negative", lambda x: jnp.polyfit(x, x, -1), X)
error("polyfit_no_degree", lambda x: jnp.polyfit(x, x, None), X)
error("polyfit_lengths", lambda x: jnp.polyfit(x, x[1:], 1), X)
error("polyfit_cube", lambda x: jnp.polyfit(x, x[:, None, None], 1), X)
error("polyfit_matrix_x", lambda x: jnp.polyfit(x[:, None], x, 1), X)
error("polyfit_empty", lambda x: jnp.polyfit(x, x, 1), NONE)
error("polyfit_scalar", lambda x: jnp.polyfit(x, x, 1), np.float32(1))
error("polyfit_list", lambda x: jnp.polyfit([1, 2], x[:2], 1), X)
error("polyfit_list_weights", lambda x: jnp.polyfit(x, x, 1, w=[1] * 6), X)
error("polyfit_few_weights", lambda x: jnp.polyfit(x, x, 1, w=x[1:]), X)
error("polyfit_matrix_weights", lambda x: jnp.polyfit(x, x, 1, w=x[:, None]), X)
error("polyfit_too_few", lambda x: jnp.polyfit(x[:2], x[:2], 1, cov=True), X)
error("polyfit_text_rcond", lambda x: jnp.polyfit(x, x, 1, rcond="a"), X)
