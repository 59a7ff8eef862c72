"""Cases for functions of jax.numpy that take arrays as sets."""

import numpy as np
from formula_cases import Formulas
from op_cases import values

import jax.numpy as jnp

CASES = Formulas()
add, same, given, error = CASES.add, CASES.same, CASES.given, CASES.error
ALL = dict(return_index=True, return_inverse=True, return_counts=True)
ROWS = np.array([[1, 2], [0, 1], [1, 2], [1, 0]], np.int32)
SPECIAL = np.array([1, np.nan, 0, -0.0, np.nan, np.inf], np.float32)
A, B = np.array([1, 5, 3, 3, 2], np.int32), np.array([5, 3, 8, 5], np.int32)
NONE = np.zeros(0, np.float32)


def unique(name, *args, sizes=(None, 2, 20), **options):
    """Eagerly as it is, and everywhere with some sizes."""
    for size in sizes:
        mode = {} if size == 2 else dict(diff="", vmap=False)
        fun = lambda x, size=size: jnp.unique(x, size=size, **options)
        given(f"unique_{name}_{size}", fun, *args, **mode)


for dtype in ["bool", "uint8", "int32", "bfloat16", "float32", "complex64"]:
    x = values((3, 7), dtype, "unique", special=True, ties=True)
    unique(dtype, x, sizes=(None, 20), **ALL)
unique("values", values((3, 7), "float32", "values", ties=True), sizes=(None, 0, 2))
same("unique_numpy", lambda m, x: m.unique(x), (30,), ties=True, vmap=False, diff="")
unique("special", SPECIAL, sizes=(None, 20), **ALL)
unique("unequal_nans", SPECIAL, sizes=(None, 20), equal_nan=False, **ALL)
unique("fill", A, sizes=(2, 20), fill_value=-3)
unique("rows", ROWS, axis=0, **ALL)
unique("columns", ROWS.astype(np.float32), axis=-1, **ALL)
unique("rows_fill", ROWS, axis=0, fill_value=np.array([8, 9]))
unique("slices", values((3, 2, 2), "float32", "slices", ties=True), axis=1)
unique("rows_nan", np.stack([SPECIAL, SPECIAL]), sizes=(None, 20), axis=0)
unique("empty_rows", np.zeros((2, 0), np.float32), sizes=(None,), axis=0, **ALL)
given("unique_none", lambda x: jnp.unique(x, **ALL), NONE, diff="", vmap=False)
given("unique_none_fill", lambda x: jnp.unique(x, size=3, fill_value=4), NONE, vmap=False)
given(
    "unique_no_rows", lambda x: jnp.unique(x, axis=0, **ALL), np.zeros((0, 2)), diff="", vmap=False
)
given("unique_scalar", lambda x: jnp.unique(x, **ALL), np.array(3), diff="", vmap=False)
for name in ["unique_all", "unique_counts", "unique_inverse", "unique_values"]:
    given(name, lambda x, name=name: getattr(jnp, name)(x), SPECIAL, diff="", vmap=False)
    given(f"{name}_rows", lambda x, name=name: getattr(jnp, name)(x, size=5, fill_value=7), ROWS)
error("unique_none_size", lambda x: jnp.unique(x, size=3), NONE)
error("unique_axis", lambda x: jnp.unique(x, axis=1), A)
error("unique_list", lambda: jnp.unique([1, 2]))
error("unique_size", lambda x: jnp.unique(x, size=-1), A)

SETS = {
    "union1d": lambda f, x, y, **options: f(x, y, **options),
    "intersect1d": lambda f, x, y, **options: f(x, y, return_indices=True, **options),
    "setdiff1d": lambda f, x, y, **options: f(x, y, **options),
    "setxor1d": lambda f, x, y, **options: f(x, y, **options),
}
for name, call in SETS.items():
    f = getattr(jnp, name)
    for inputs, x, y in [("ints", A, B), ("rows", ROWS, B), ("types", A, B.astype(np.float32)),
                         ("nans", SPECIAL, SPECIAL[:3])]:  # fmt: skip
        fun = lambda x, y, f=f, call=call: call(f, x, y)
        given(f"{name}_{inputs}", fun, x, y, diff="", vmap=False)
        for size, fill in [(1, None), (9, -7)] if inputs == "rows" else [(9, None)]:
            fun = lambda x, y, f=f, call=call, size=size, fill=fill: call(
                f, x, y, size=size, fill_value=fill
            )
            given(f"{name}_{inputs}_{size}_{fill}", fun, x, y, diff="", vmap=inputs == "rows")
    given(f"{name}_none", lambda x, y, f=f: f(x, y), NONE, NONE, diff="", vmap=False)
    fun = lambda x, y, f=f: f(x, y, size=2, fill_value=1)
    given(f"{name}_none_fill", fun, NONE, NONE, diff="", vmap=False)
    if name != "union1d":
        fun = lambda x, y, f=f: f(x, y, assume_unique=True)
        x, y = np.array([4, 1, 2]), np.array([2, 9])
        given(f"{name}_unique", fun, x, y, diff="", vmap=False, any_error=True)
given(
    "setdiff1d_order",
    lambda x, y: jnp.setdiff1d(x, y, assume_unique=True),
    A[::-1],
    B,
    diff="",
    vmap=False,
)

for method in ["auto", "compare_all", "binary_search", "sort"]:
    fun = lambda x, y, method=method: jnp.isin(x, y, method=method)
    numpys = lambda x, y: np.isin(x, y)
    given(f"isin_{method}", fun, ROWS, B, numpy=numpys)
    given(f"isin_special_{method}", fun, SPECIAL, SPECIAL, numpy=numpys)
    given(f"isin_types_{method}", fun, A, B.astype(np.float32), numpy=numpys)
    given(f"isin_none_{method}", fun, NONE, B, numpy=numpys, vmap=False)
    given(f"isin_in_none_{method}", fun, A, NONE, numpy=numpys, vmap=False)
    given(
        f"isin_many_{method}", fun, A, np.arange(3, 90, 2, dtype=np.int32), numpy=numpys, vmap=False
    )
given("isin_invert", lambda x, y: jnp.isin(x, y, invert=True), A, B)
error("isin_method", lambda x, y: jnp.isin(x, y, method="x"), A, B)
