"""Cases for sorting and the largest elements."""

import numpy as np
from op_cases import Case, values

from jax import lax

CASES: list[Case] = []
REAL = ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32"]
WIDE = ["int64", "uint64", "float64", "complex128"]


def add(name, fun, *shapes, dtypes=("float32",), special=False, ties=False, x64=False, **kwargs):
    for dtype in dtypes:
        args = [values(s, dtype, f"{name}{i}", special, ties) for i, s in enumerate(shapes)]
        modes = {} if dtype in ("float32", "complex64") else {"diff": "", "vmap": False}
        CASES.append(Case(f"{name}_{dtype}", fun, args, x64=dtype in WIDE, **{**modes, **kwargs}))


add("sort", lambda x: lax.sort(x), (3, 7), dtypes=[*REAL, *WIDE, "complex64", "float8_e4m3fn", "int4"],
    numpy=lambda x: np.sort(x))  # fmt: skip
add("sort_first", lambda x: lax.sort(x, dimension=0), (7, 2))
add("sort_empty", lambda x: lax.sort(x), (2, 0))
add("sort_one", lambda x: lax.sort(x), (1,))
add("sort_special", lambda x: lax.sort(x), (8, 9), dtypes=["float32", "float16", "bfloat16", "float64"],
    special=True, diff="")  # fmt: skip
add(
    "sort_special_complex",
    lambda x: lax.sort(x),
    (8, 9),
    dtypes=["complex64"],
    special=True,
    diff="",
)
add("sort_ties", lambda x: lax.sort(x), (2, 9), ties=True)
add("sort_pair", lambda x, y: lax.sort((x, y)), (2, 9), (2, 9), ties=True)
add("sort_pair_first", lambda x, y: lax.sort((x, y), dimension=0), (9, 2), (9, 2), ties=True)
add("sort_two_keys", lambda x, y, z: lax.sort((x, y, z), num_keys=2), (9,), (9,), (9,), ties=True)
add("sort_two_keys_special", lambda x, y, z: lax.sort((x, y, z), num_keys=2), (9,), (9,), (9,),
    special=True, diff="")  # fmt: skip
add("sort_three_keys", lambda x, y, z: lax.sort((x, y, z), num_keys=3), (30,), (30,), (30,),
    dtypes=["int8", "float16", "complex64"], ties=True)  # fmt: skip
add("sort_list", lambda x: lax.sort([x]), (5,))
add("sort_unstable", lambda x: lax.sort(x, is_stable=False), (9,))
add("sort_key_val", lambda x, y: lax.sort_key_val(x, y), (3, 5), (3, 5), ties=True)
add("sort_key_val_first", lambda x, y: lax.sort_key_val(x, y, 0), (5, 2), (5, 2), ties=True)
CASES.append(
    Case("sort_mixed", lambda x, y: lax.sort((x, y)),
         [values((9,), "int32", "k"), values((9,), "float32", "v")])
)  # fmt: skip
CASES.append(
    Case("sort_mixed_float_key", lambda x, y: lax.sort((x, y)),
         [values((9,), "float32", "k"), values((9,), "bool", "v")])
)  # fmt: skip

add("top_k", lambda x: lax.top_k(x, 3), (2, 7), dtypes=[*REAL, "int64", "float64"])
add("top_k_ties", lambda x: lax.top_k(x, 5), (4, 9), ties=True)
add("top_k_special", lambda x: lax.top_k(x, 9), (8, 9), special=True, diff="")
add("top_k_first", lambda x: lax.top_k(x, 2, axis=0), (5, 2, 3))
add("top_k_middle", lambda x: lax.top_k(x, 2, axis=1), (2, 5, 3))
add("top_k_none", lambda x: lax.top_k(x, 0), (5,))
add("top_k_all", lambda x: lax.top_k(x, 5), (5,))
add(
    "approx_max_k",
    lambda x: lax.approx_max_k(x, 3),
    (2, 9),
    dtypes=["float32", "bfloat16", "float16"],
)
add("approx_min_k", lambda x: lax.approx_min_k(x, 3, reduction_dimension=0), (9, 2))
add("approx_max_k_candidates", lambda x: lax.approx_max_k(x, 3, aggregate_to_topk=False)[0].sum(), (9,),
    diff="")  # fmt: skip
add("approx_max_k_size", lambda x: lax.approx_max_k(x, 4, aggregate_to_topk=False)[0].shape[0] + x[0],
    (9000,), diff="", vmap=False)  # fmt: skip


# Large enough for the ways that CPUs take with long arrays.
LARGE = ["bool", "int8", "uint32", "int32", "float16", "bfloat16", "float8_e4m3fn", "float32", "complex64",
         "int64", "float64"]  # fmt: skip
add("sort_large", lambda x: lax.sort(x), (2, 1100), dtypes=LARGE, special=True, diff="", vmap=False)
add("sort_large_first", lambda x: lax.sort(x, dimension=0), (600, 3), special=True, diff="")
add("sort_large_pair", lambda x, y: lax.sort((x, y)), (2, 1100), (2, 1100), dtypes=LARGE, ties=True,
    diff="", vmap=False)  # fmt: skip
add("sort_large_two_keys", lambda x, y, z: lax.sort((x, y, z), 0, num_keys=2), (700, 2), (700, 2), (700, 2),
    dtypes=LARGE, ties=True, diff="", vmap=False)  # fmt: skip
add("sort_large_unstable", lambda x: lax.sort(x, is_stable=False), (3000,))
add("sort_large_grad", lambda x, y: lax.sort((x, y)), (1500,), (1500,))


def error(name, fun, *args):
    CASES.append(Case(f"error_{name}", fun, [np.asarray(a) for a in args], diff="", vmap=False))


f23 = np.zeros((2, 3), np.float32)
error("sort_num_keys", lambda x: lax.sort((x, x), num_keys=3), f23)
error("sort_num_keys_single", lambda x: lax.sort(x, num_keys=2), f23)
error("sort_dimension", lambda x: lax.sort(x, dimension=2), f23)
error("sort_scalar", lambda x: lax.sort(x), np.float32(1))
error("sort_shapes", lambda x: lax.sort((x, x[:1])), f23)
error("sort_none", lambda: lax.sort([]))
error("sort_key_val_shapes", lambda x: lax.sort_key_val(x, x[0]), f23)
error("top_k_large", lambda x: lax.top_k(x, 5), f23)
error("top_k_negative", lambda x: lax.top_k(x, -1), f23)
error("top_k_complex", lambda x: lax.top_k(x, 1), f23.astype(np.complex64))
error("top_k_scalar", lambda x: lax.top_k(x, 1), np.float32(1))
error("approx_int", lambda x: lax.approx_max_k(x, 1), f23.astype(np.int32))
error("approx_large", lambda x: lax.approx_max_k(x, 5), f23)
error("approx_zero", lambda x: lax.approx_max_k(x, 0), f23)
