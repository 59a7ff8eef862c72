"""Cases for functions of jax.numpy that sort, search and count, and for those of sampled functions."""

import numpy as np
from formula_cases import Formulas
from op_cases import values

import jax
import jax.numpy as jnp

CASES = Formulas()
add, same, given, error = CASES.add, CASES.same, CASES.given, CASES.error
REAL = ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32"]
X64 = ["int64", "uint64", "float64", "complex128"]


# Sorting

same("sort", lambda m, x: m.sort(x), (3, 7), dtypes=[*REAL, *X64, "complex64"])
same("sort_first", lambda m, x: m.sort(x, axis=0), (3, 7))
same("sort_flat", lambda m, x: m.sort(x, axis=None), (3, 4))
add(
    "sort_descending",
    lambda x: jnp.sort(x, descending=True),
    (3, 7),
    dtypes=["float32", "uint8", "bool"],
)
add("sort_special", lambda x: jnp.sort(x), (5, 9), special=True, diff="")
add("sort_unstable", lambda x: jnp.sort(x, stable=False), (7,))
same(
    "argsort",
    lambda m, x: m.argsort(x, stable=True),
    (3, 7),
    dtypes=[*REAL, "complex64"],
    ties=True,
)
same("argsort_flat", lambda m, x: m.argsort(x, axis=None, stable=True), (3, 4), ties=True)
add("argsort_descending", lambda x: jnp.argsort(x, descending=True), (9,), dtypes=["float32", "int32", "uint8"],
    ties=True)  # fmt: skip
add("argsort_dtype", lambda x: jnp.argsort(x, dtype="int8"), (5,))
add("argsort_special", lambda x: jnp.argsort(x), (5, 9), special=True, diff="")
same("lexsort", lambda m, x, y: m.lexsort((x, y)), (9,), (9,), ties=True)
same("lexsort_axis", lambda m, x, y: m.lexsort((x, y), axis=0), (5, 2), (5, 2), ties=True)
same("lexsort_array", lambda m, x: m.lexsort(x), (2, 9), ties=True)
add(
    "sort_complex",
    lambda x: jnp.sort_complex(x),
    (7,),
    dtypes=["float32", "complex64", "int32"],
    diff="",
)
add(
    "partition",
    lambda x: jnp.partition(x, 3),
    (2, 7),
    dtypes=["float32", "int32", "uint8", "float16"],
)
add("partition_first", lambda x: jnp.partition(x, 1, axis=0), (5, 2))
add("partition_last", lambda x: jnp.partition(x, -1), (5,))
add("argpartition", lambda x: jnp.argpartition(x, 2), (2, 7))
add("argpartition_ties", lambda x: jnp.argpartition(x, 2), (2, 7), ties=True)
for name in ["argmax", "argmin"]:
    same(name, lambda m, x, n=name: getattr(m, n)(x), (3, 5), dtypes=REAL, ties=True)
    same(
        f"{name}_axis",
        lambda m, x, n=name: getattr(m, n)(x, axis=1, keepdims=True),
        (3, 5),
        ties=True,
    )
    same(
        f"{name}_keepdims", lambda m, x, n=name: getattr(m, n)(x, keepdims=True), (3, 5), ties=True
    )
    same(
        f"{name}_special",
        lambda m, x, n=name: getattr(m, n)(x, axis=0),
        (3, 9),
        special=True,
        diff="",
    )
    add(
        f"nan{name}",
        lambda x, n=name: getattr(jnp, "nan" + n)(x, axis=1),
        (5, 9),
        special=True,
        diff="",
    )
    add(
        f"nan{name}_all",
        lambda x, n=name: getattr(jnp, "nan" + n)(x * jnp.nan, keepdims=True),
        (2, 3),
        diff="",
    )
    add(f"nan{name}_int", lambda x, n=name: getattr(jnp, "nan" + n)(x), (2, 3), dtypes=["int32"])
error("sort_kind", lambda x: jnp.sort(x, kind="stable"), np.zeros(3))
error("sort_order", lambda x: jnp.argsort(x, order="a"), np.zeros(3))
error("sort_axis", lambda x: jnp.sort(x, axis=1), np.zeros(3))
error("sort_list", lambda: jnp.sort([2, 1]))
error("lexsort_none", lambda: jnp.lexsort(()))
error("lexsort_shapes", lambda x: jnp.lexsort((x, x[:1])), np.zeros(3))
error("partition_bounds", lambda x: jnp.partition(x, 3), np.zeros(3))
error("partition_complex", lambda x: jnp.partition(x, 1), np.zeros(3, np.complex64))
error("argmax_empty", lambda x: jnp.argmax(x), np.zeros(0))
error("argmax_complex", lambda x: jnp.argmax(x), np.zeros(3, np.complex64))

# Searching and counting

GRID = np.array([-2.0, -0.5, -0.5, 0.0, 1.0, 3.0], np.float32)
for method in ["scan", "scan_unrolled", "sort", "compare_all"]:
    for side in ["left", "right"]:
        same_ = {"numpy": lambda a, v, s=side: np.searchsorted(a, v, side=s)}
        fun = lambda a, v, s=side, m=method: jnp.searchsorted(a, v, side=s, method=m)
        given(
            f"searchsorted_{method}_{side}",
            fun,
            GRID,
            np.array([[-3, -0.5, 0.2], [1, 3, 4]], np.float32),
            **same_,
        )
        given(f"searchsorted_special_{method}_{side}", fun, np.array([-np.inf, 0, 1, np.inf, np.nan, np.nan], np.float32),
              np.array([np.nan, np.inf, -np.inf, 1, -0.0], np.float32), **same_)  # fmt: skip
        given(f"searchsorted_int_{method}_{side}", fun, np.array([1, 2, 2, 5], np.uint8), np.array([0, 2, 6], np.int32),
              **same_)  # fmt: skip
given("searchsorted_scalar", lambda a: jnp.searchsorted(a, 0.2), GRID)
given(
    "searchsorted_empty",
    lambda a, v: jnp.searchsorted(a, v),
    np.zeros(0, np.float32),
    GRID,
    vmap=False,
)
given(
    "searchsorted_sorter",
    lambda a, v: jnp.searchsorted(a, v, sorter=jnp.argsort(a)),
    GRID[::-1],
    GRID,
)
for right in [False, True]:
    for name, bins in [("up", GRID), ("down", GRID[::-1])]:
        given(f"digitize_{name}_{right}", lambda x, b, r=right: jnp.digitize(x, b, right=r), values((9,), "float32", "d"),
              bins, numpy=lambda x, b, r=right: np.digitize(x, b, right=r), vmap=False)  # fmt: skip
given("digitize_none", lambda x: jnp.digitize(x, jnp.array([])), GRID)
given("bincount", lambda x: jnp.bincount(x, length=5), [1, 1, 4, 0, 7, -1])
given("bincount_now", lambda x: jnp.bincount(x, minlength=3), [1, 1, 4, 0], vmap=False, ignore=["jit"],
      numpy=lambda x: np.bincount(x, minlength=3))  # fmt: skip
given(
    "bincount_weights",
    lambda x, w: jnp.bincount(x, w, length=5),
    [1, 1, 4],
    values((3,), "float32", "b"),
)
same("histogram", lambda m, x: m.histogram(x, bins=4), (3, 7), diff="", vmap=False)
same(
    "histogram_range",
    lambda m, x: m.histogram(x, bins=4, range=(-1, 2)),
    (20,),
    diff="",
    vmap=False,
)
same(
    "histogram_density",
    lambda m, x: m.histogram(x, bins=4, density=True),
    (20,),
    diff="",
    vmap=False,
)
given(
    "histogram_edges",
    lambda x, e: jnp.histogram(x, e),
    values((20,), "float32", "h"),
    GRID,
    diff="",
    vmap=False,
)
given("histogram_weights", lambda x, w: jnp.histogram(x, 3, weights=w), values((20,), "float32", "h"),
      values((20,), "float32", "w"), diff="", vmap=False)  # fmt: skip
add("histogram_int", lambda x: jnp.histogram(x, bins=4), (20,), dtypes=["int32", "uint8"])
given(
    "histogram_one_value",
    lambda x: jnp.histogram(x, bins=2),
    np.ones(4, np.float32),
    diff="",
    vmap=False,
)
same("histogram_bin_edges", lambda m, x: m.histogram_bin_edges(x, bins=4), (20,))
same(
    "histogram2d",
    lambda m, x, y: m.histogram2d(x, y, bins=(3, 2)),
    (20,),
    (20,),
    diff="",
    vmap=False,
)
same("histogramdd", lambda m, x: m.histogramdd(x, bins=(3, 2))[0], (20, 2), diff="", vmap=False)
same(
    "histogramdd_density",
    lambda m, x: m.histogramdd(x, bins=3, density=True)[0],
    (20, 2),
    diff="",
    vmap=False,
)
error("searchsorted_side", lambda a: jnp.searchsorted(a, a, side="foo"), GRID)
error("searchsorted_method", lambda a: jnp.searchsorted(a, a, method="foo"), GRID)
error("searchsorted_matrix", lambda a: jnp.searchsorted(a[None], a), GRID)
error("digitize_matrix", lambda a: jnp.digitize(a, a[None]), GRID)
error("bincount_float", lambda a: jnp.bincount(a), GRID)
error("bincount_matrix", lambda a: jnp.bincount(a), np.ones((2, 2), np.int32))
error("bincount_jit", lambda a: jax.jit(jnp.bincount)(a), np.ones(2, np.int32))
error("histogram_weights", lambda a: jnp.histogram(a, weights=a[1:]), GRID)
error(
    "histogramdd_range",
    lambda a: jnp.histogramdd(a, 2, range=[(0, 1)]),
    np.zeros((5, 2), np.float32),
)
error("histogramdd_bins", lambda a: jnp.histogramdd(a, (2, 3, 4)), np.zeros((5, 2), np.float32))

# Sampled functions

same(
    "diff",
    lambda m, x: m.diff(x),
    (3, 5),
    dtypes=["float32", "int32", "uint8", "bool", "complex64"],
)
same("diff_axis", lambda m, x: m.diff(x, n=2, axis=0), (5, 2))
same("diff_more", lambda m, x: m.diff(x, n=9), (5,), vmap=False)
same("diff_ends", lambda m, x: m.diff(x, prepend=0, append=m.ones((3, 2))), (3, 5), tol=1e-5)
same("ediff1d", lambda m, x: m.ediff1d(x, to_end=7, to_begin=m.arange(2.0)), (2, 3))
same("gradient", lambda m, x: m.gradient(x), (4, 5))
same("gradient_axis", lambda m, x: m.gradient(x, 2.0, axis=1), (4, 5))
same("gradient_int", lambda m, x: m.gradient(x), (5,), dtypes=["int32"])
given("gradient_grid", lambda x, h: jnp.gradient(x, h), values((6,), "float32", "g"), np.array([0, 1, 3, 4, 6, 9.0]),
      numpy=lambda x, h: np.gradient(x, h))  # fmt: skip
same("trapezoid", lambda m, x: m.trapezoid(x, dx=0.5, axis=0), (4, 5))
same("trapezoid_grid", lambda m, y, x: m.trapezoid(y, x), (4, 5), (5,))
same("trapezoid_grids", lambda m, y, x: m.trapezoid(y, x, axis=0), (4, 5), (4, 5))
add("trapezoid_int", lambda x: jnp.trapezoid(x), (4, 5), dtypes=["int32"])
same("unwrap", lambda m, x: m.unwrap(x * 4), (3, 9))
same("unwrap_axis", lambda m, x: m.unwrap(x * 4, axis=0, discont=4.0), (9, 3))
same("unwrap_period", lambda m, x: m.unwrap(x, period=4), (9,), dtypes=["float32", "int32"])
XP, FP = np.array([-1.0, 0.0, 0.5, 2.0], np.float32), np.array([1.0, 3.0, 2.0, -1.0], np.float32)
interp_numpy = {"numpy": lambda x, xp, fp: np.interp(x, xp, fp)}
given(
    "interp",
    lambda x, xp, fp: jnp.interp(x, xp, fp),
    values((3, 4), "float32", "i"),
    XP,
    FP,
    **interp_numpy,
)
given(
    "interp_ends",
    lambda x, xp, fp: jnp.interp(x, xp, fp, left=-7, right=9),
    values((9,), "float32", "i"),
    XP,
    FP,
)
given("interp_extrapolate", lambda x, xp, fp: jnp.interp(x, xp, fp, left="extrapolate", right="extrapolate"),
      values((9,), "float32", "i"), XP, FP)  # fmt: skip
given("interp_period", lambda x, xp, fp: jnp.interp(x, xp, fp, period=2.5), values((9,), "float32", "i"), XP, FP,
      diff="jvp")  # fmt: skip
given(
    "interp_int",
    lambda x, xp, fp: jnp.interp(x, xp, fp),
    [0, 1, 5],
    [0, 1, 2],
    [3, 1, 2],
    vmap=False,
)
for kwargs in [{}, {"bias": True}, {"ddof": 0}, {"rowvar": False}]:
    name = "_".join(f"{k}_{v}" for k, v in kwargs.items())
    same(
        f"cov_{name}",
        lambda m, x, k=kwargs: m.cov(x, **k),
        (3, 5),
        dtypes=["float32", "complex64"],
        tol=1e-4,
    )
same("cov_vector", lambda m, x: m.cov(x), (5,))
same("cov_two", lambda m, x, y: m.cov(x, y), (2, 5), (3, 5), tol=1e-4)
given("cov_weights", lambda x, f, a: jnp.cov(x, fweights=f, aweights=a), values((2, 4), "float32", "c"), [1, 2, 3, 1],
      np.array([1, 0.5, 2, 3], np.float32), numpy=lambda x, f, a: np.cov(x, fweights=f, aweights=a), tol=1e-4)  # fmt: skip
add("cov_int", lambda x: jnp.cov(x), (2, 5), dtypes=["int32"])
same("corrcoef", lambda m, x: m.corrcoef(x), (3, 5), dtypes=["float32", "complex64"], tol=1e-4)
for mode in ["full", "same", "valid"]:
    for m, n in [(7, 3), (3, 7), (4, 4)]:
        for name in ["convolve", "correlate"]:
            same(f"{name}_{mode}_{m}_{n}", lambda np_, x, y, f=name, mode=mode: getattr(np_, f)(x, y, mode),
                 (m,), (n,), dtypes=["float32", "complex64"], tol=1e-4)  # fmt: skip
add(
    "convolve_int",
    lambda x, y: jnp.convolve(x, y),
    (5,),
    (3,),
    dtypes=["int32", "uint8", "float16"],
)
same("apply_along_axis", lambda m, x: m.apply_along_axis(lambda r: r[:2] * 3, 1, x), (2, 3, 4))
same("apply_over_axes", lambda m, x: m.apply_over_axes(m.sum, x, [0, 2]), (2, 3, 4), tol=1e-5)
error("diff_scalar", lambda x: jnp.diff(x), np.float32(1))
error("diff_negative", lambda x: jnp.diff(x, n=-1), np.zeros(3))
error("gradient_small", lambda x: jnp.gradient(x), np.zeros(1))
error("gradient_spacing", lambda x: jnp.gradient(x, 1.0, 2.0), np.zeros(3))
error("gradient_edge_order", lambda x: jnp.gradient(x, edge_order=2), np.zeros(3))
error("unwrap_complex", lambda x: jnp.unwrap(x), np.zeros(3, np.complex64))
error("interp_sizes", lambda x: jnp.interp(x, x, x[1:]), np.zeros(3))
error("interp_left", lambda x: jnp.interp(x, x, x, left="foo"), np.zeros(3))
error("cov_rank", lambda x: jnp.cov(x), np.zeros((2, 2, 2)))
error("cov_fweights", lambda x: jnp.cov(x, fweights=x[0]), np.zeros((2, 2)))
error("cov_aweights", lambda x: jnp.cov(x, aweights=x), np.zeros((2, 2)))
error("cov_dtype", lambda x: jnp.cov(x, dtype=int), np.zeros((2, 2)))
error("convolve_mode", lambda x: jnp.convolve(x, x, "foo"), np.zeros(3))
error("convolve_empty", lambda x: jnp.convolve(x, x[:0]), np.zeros(3))
error("convolve_matrix", lambda x: jnp.convolve(x, x), np.zeros((3, 3)))

# Positions and bits

given("unravel_index", lambda i: jnp.unravel_index(i, (2, 3)), [0, 5, -1, 9, -9])
for order in "CF":
    for mode in ["wrap", "clip", "ignore"]:
        given(f"ravel_multi_index_{mode}_{order}", lambda i, j, o=order, m=mode: jnp.ravel_multi_index((i, j), (2, 3), m, o),
              [0, 1, 5], [2, -1, 1])  # fmt: skip
given(
    "packbits",
    lambda x: jnp.packbits(x),
    [[1, 0, 2], [0, 0, 1], [1, 1, 1]],
    numpy=lambda x: np.packbits(x),
)
for bitorder in ["big", "little"]:
    given(f"packbits_{bitorder}", lambda x, b=bitorder: jnp.packbits(x, axis=1, bitorder=b), np.eye(9, dtype=bool),
          numpy=lambda x, b=bitorder: np.packbits(x, axis=1, bitorder=b))  # fmt: skip
    for count in [None, 5, 30, -3]:
        given(f"unpackbits_{bitorder}_{count}", lambda x, b=bitorder, c=count: jnp.unpackbits(x, 1, c, b),
              np.array([[1, 255], [130, 7]], np.uint8),
              numpy=lambda x, b=bitorder, c=count: np.unpackbits(x, 1, c, b))  # fmt: skip
error(
    "ravel_multi_index_bounds",
    lambda: jnp.ravel_multi_index((np.array([0, 5]), np.array([1, 2])), (2, 3)),
)
error("packbits_float", lambda x: jnp.packbits(x), np.zeros(3))
error("unpackbits_int", lambda x: jnp.unpackbits(x), np.zeros(3, np.int32))
error("unpackbits_order", lambda x: jnp.unpackbits(x, bitorder="x"), np.zeros(3, np.uint8))
