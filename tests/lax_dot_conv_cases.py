"""Cases for dot products and convolutions."""

import numpy as np
from op_cases import Case, dtype_of, values

from jax import lax

ALL = ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]
WIDE = ["int64", "uint64", "float64", "complex128"]
CASES: list[Case] = []


def add(name, fun, *args, dtypes=("float32",), **kwargs):
    """A case for each dtype (or pair of dtypes); arguments are shapes or arrays."""
    for dtype in dtypes:
        pair = dtype if isinstance(dtype, tuple) else (dtype, dtype)
        arrays = [
            values(a, pair[min(i, 1)], f"{name}{i}") if isinstance(a, tuple) else a
            for i, a in enumerate(args)
        ]
        main = dtype in ("float32", "complex64")
        modes = {} if main else {"diff": "", "vmap": False}
        modes.update(kwargs)
        label = dtype if isinstance(dtype, str) else "_".join(dtype)
        modes.setdefault("x64", bool({*pair} & {*WIDE}))
        CASES.append(Case(f"{name}_{label}", fun, arrays, **modes))


# dot
for i, (a, b) in enumerate(
    [
        ((5,), (5,)),
        ((4, 5), (5,)),
        ((5,), (5, 3)),
        ((4, 5), (5, 3)),
        ((0, 5), (5, 3)),
        ((4, 0), (0, 3)),
    ]
):
    add(
        f"dot{i}",
        lambda x, y: lax.dot(x, y),
        a,
        b,
        dtypes=ALL + WIDE if i == 3 else ["float32"],
        numpy=(lambda x, y: np.dot(x, y)) if i != 3 else None,
    )
add(
    "dot_dims",
    lambda x, y: lax.dot(x, y, dimension_numbers=(((0,), (0,)), ((), ()))),
    (4, 5),
    (4, 3),
)
DIMS = [
    ((4, 5), (3, 5), (((1,), (1,)), ((), ()))),
    ((2, 3, 4), (2, 3, 4), (((2,), (2,)), ((0,), (0,)))),
    ((2, 3, 4), (4, 2, 5), (((2,), (0,)), ((0,), (1,)))),
    ((2, 3, 4), (3, 4), (((1, 2), (0, 1)), ((), ()))),
    ((2, 3, 4), (4, 3, 5), (((2, 1), (0, 1)), ((), ()))),
    ((2, 3, 4, 5), (5, 3, 6, 2), (((3,), (0,)), ((1, 0), (1, 3)))),
    ((3,), (4,), (((), ()), ((), ()))),
    ((), (4,), (((), ()), ((), ()))),
    ((2, 3), (2, 3), (((), ()), ((0, 1), (0, 1)))),
    ((2, 0, 4), (2, 4, 3), (((2,), (1,)), ((0,), (0,)))),
]
for i, (a, b, dims) in enumerate(DIMS):
    add(
        f"dot_general{i}",
        lambda x, y, d=dims: lax.dot_general(x, y, d),
        a,
        b,
        dtypes=["float32", "complex64"] if i in (2, 4) else ["float32"],
    )
for p in ["default", "high", "highest", "float32", ("high", "default"), "F32_F32_F32"]:
    add(f"precision_{p}", lambda x, y, p=p: lax.dot(x, y, precision=p), (4, 5), (5, 3))
add("algorithm_f64", lambda x, y: lax.dot(x, y, precision="F64_F64_F64"), (4, 5), (5, 3), x64=True)
for dtype, preferred in [
    ("bfloat16", "float32"),
    ("float16", "float32"),
    ("int8", "int32"),
    ("uint8", "uint32"),
    ("int32", "float32"),
    ("float32", "float64"),
    ("float32", "bfloat16"),
    ("bool", "int32"),
    ("complex64", "complex128"),
]:
    add(
        f"preferred_{preferred}",
        lambda x, y, p=preferred: lax.dot(x, y, preferred_element_type=dtype_of(p)),
        (4, 5),
        (5, 3),
        dtypes=[dtype],
        diff="both",
        x64=preferred.endswith(("64", "128")),
        tol=2e-2 if "16" in dtype + preferred else None,
    )
add(
    "mixed",
    lambda x, y: lax.dot(x, y),
    (4, 5),
    (5, 3),
    dtypes=[
        ("bfloat16", "float32"),
        ("int8", "float32"),
        ("int8", "uint8"),
        ("float16", "float32"),
        ("float32", "complex64"),
    ],
    diff="both",
    tol=2e-2,
)
add("batch_matmul", lambda x, y: lax.batch_matmul(x, y), (2, 3, 4, 5), (2, 3, 5, 2))
CASES.append(Case("dot_weak", lambda: lax.dot_general(2.0, 3.0, (((), ()), ((), ()))), []))

# ragged dots
R = lax.RaggedDotDimensionNumbers
sizes = np.array([2, 0, 3], np.int32)
add("ragged_dot", lambda x, y, s: lax.ragged_dot(x, y, s), (6, 4), (3, 4, 2), sizes, vmap=False)
add(
    "ragged_dot_vmap",
    lambda x, y: lax.ragged_dot(x, y, np.array([[2, 0, 3]] * 3, np.int32)[0]),
    (6, 4),
    (3, 4, 2),
    vmap=False,
)
add("ragged_dot_bfloat16", lambda x, y, s: lax.ragged_dot(x, y, s, preferred_element_type=np.float32),
    (6, 4), (3, 4, 2), sizes, dtypes=["bfloat16"])  # fmt: skip
RAGGED = [
    ((4, 6), (6, 2), sizes, R((((1,), (0,)), ((), ())), [1], [])),
    (
        (5, 6, 4),
        (3, 5, 4, 2),
        np.array([[1, 2, 3]] * 5, np.int32),
        R((((2,), (2,)), ((0,), (1,))), [1], [0]),
    ),
    ((5, 4, 6), (5, 6, 2), sizes, R((((2,), (1,)), ((0,), (0,))), [2], [])),
    ((5, 4, 6), (5, 6, 2), np.array([2, 3], np.int32), R((((2,), (1,)), ((0,), (0,))), [0], [])),
]
for i, (a, b, s, dims) in enumerate(RAGGED):
    # The reference build has no cotangents where there is no group dimension.
    add(
        f"ragged_dot_general{i}",
        lambda x, y, s, d=dims: lax.ragged_dot_general(x, y, s, d),
        a,
        b,
        s,
        vmap=False,
        diff="both" if dims.rhs_group_dimensions else "jvp",
    )

# Convolutions
CONVS = [
    # lhs, rhs, strides, padding, keyword arguments
    ((2, 3, 8), (4, 3, 3), (1,), "VALID", {}),
    ((2, 3, 8), (4, 3, 3), (2,), "SAME", {}),
    ((2, 3, 9), (4, 3, 4), (3,), "SAME_LOWER", {}),
    ((2, 3, 8), (4, 3, 3), (2,), [(1, 2)], {"lhs_dilation": (2,), "rhs_dilation": (2,)}),
    ((2, 3, 8), (4, 3, 3), (1,), [(-1, 3)], {}),
    ((2, 3, 5, 6), (4, 3, 2, 3), (1, 2), [(1, 2), (0, 1)], {"rhs_dilation": (2, 1)}),
    ((2, 4, 5, 6), (6, 2, 2, 3), (1, 1), "SAME", {"feature_group_count": 2}),
    ((2, 4, 5, 6), (4, 1, 2, 3), (2, 1), "VALID", {"feature_group_count": 4}),
    ((4, 3, 5, 6), (6, 3, 2, 3), (1, 1), "SAME", {"batch_group_count": 2}),
    ((2, 5, 6, 3), (2, 3, 3, 4), (1, 2), "SAME", {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}),
    ((5, 2, 3, 6), (3, 2, 4, 3), (1, 1), "SAME", {"dimension_numbers": ("HNCW", "WHOI", "CWNH")}),
    ((2, 3), (4, 3), (), [], {}),
    ((2, 3, 4, 4, 3), (2, 3, 2, 2, 2), (1, 2, 1), "SAME", {}),
    ((2, 3, 4), (4, 3, 6), (1,), "VALID", {}),
    ((0, 3, 8), (4, 3, 3), (1,), "VALID", {}),
]
for i, (a, b, strides, padding, kwargs) in enumerate(CONVS):
    add(
        f"conv{i}",
        lambda x, y, s=strides, p=padding, k=kwargs: lax.conv_general_dilated(x, y, s, p, **k),
        a,
        b,
        dtypes=[
            "bool",
            "int8",
            "uint8",
            "int32",
            "float16",
            "bfloat16",
            "float32",
            "float64",
            "complex64",
        ]
        if i == 3
        else ["float32"],
        tol=1e-4 if i != 3 else None,
    )
for dtype, preferred in [("bfloat16", "float32"), ("int8", "int32"), ("float16", "float32")]:
    add(
        f"conv_preferred_{preferred}",
        lambda x, y, p=preferred: lax.conv(x, y, (1,), "SAME", preferred_element_type=dtype_of(p)),
        (2, 3, 8),
        (4, 3, 3),
        dtypes=[dtype],
        diff="both",
        tol=2e-2,
    )
add("conv", lambda x, y: lax.conv(x, y, (1, 2), "SAME"), (2, 3, 5, 6), (4, 3, 2, 3))
add(
    "conv_precision",
    lambda x, y: lax.conv(x, y, (1,), "SAME", precision="highest"),
    (2, 3, 5),
    (4, 3, 2),
)
add(
    "conv_with_general_padding",
    lambda x, y: lax.conv_with_general_padding(x, y, (1,), [(1, 0)], (2,), (1,)),
    (2, 3, 5),
    (4, 3, 2),
)
TRANSPOSES = [
    ((2, 4, 3), (3, 3, 5), (2,), "SAME", {}),
    ((2, 4, 3), (2, 3, 5), (3,), "SAME", {}),
    ((2, 4, 3), (3, 3, 5), (2,), "VALID", {}),
    ((2, 4, 3), (2, 3, 5), (3,), "VALID", {}),
    ((2, 4, 3), (4, 3, 5), (2,), [(1, 2)], {}),
    ((2, 4, 3), (4, 3, 5), (2,), [(1, 2)], {"use_consistent_padding": True}),
    ((2, 4, 3), (3, 3, 5), (2,), "SAME", {"rhs_dilation": (2,)}),
    ((2, 4, 5, 3), (3, 2, 5, 3), (2, 1), "SAME", {"transpose_kernel": True}),
    ((2, 3, 4), (5, 3, 3), (2,), "SAME", {"dimension_numbers": ("NCH", "OIH", "NCH")}),
]
for i, (a, b, strides, padding, kwargs) in enumerate(TRANSPOSES):
    add(
        f"conv_transpose{i}",
        lambda x, y, s=strides, p=padding, k=kwargs: lax.conv_transpose(x, y, s, p, **k),
        a,
        b,
        diff="jvp",
        vmap=False,
    )
for i, (shape, window, strides, padding, kwargs) in enumerate(
    [
        ((2, 3, 6), (3,), (1,), "SAME", {}),
        ((2, 3, 5, 6), (2, 3), (1, 2), "VALID", {}),
        ((2, 5, 6, 3), (2, 3), (1, 2), "SAME", {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}),
        ((2, 5, 6, 3), (2, 3), (1, 2), "SAME", {"dimension_numbers": ("NHWC", "OIHW", "NCHW")}),
        ((2, 3, 6), (2,), (1,), [(1, 1)], {"lhs_dilation": (2,), "rhs_dilation": (2,)}),
    ]
):
    add(
        f"patches{i}",
        lambda x, w=window, s=strides, p=padding, k=kwargs: lax.conv_general_dilated_patches(
            x, w, s, p, **k
        ),
        shape,
        dtypes=["float32", "bfloat16"] if i == 0 else ["float32"],
    )
add(
    "local",
    lambda x, y: lax.conv_general_dilated_local(x, y, (1, 1), "SAME", (2, 3)),
    (2, 3, 4, 5),
    (7, 18, 4, 5),
)
add(
    "local_nhwc",
    lambda x, y: lax.conv_general_dilated_local(
        x, y, (1, 1), "VALID", (2, 3), dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    (2, 4, 5, 3),
    (3, 3, 18, 7),
)


# Errors
def error(name, fun, *args, **kwargs):
    add(f"error_{name}", fun, *args, diff="", vmap=False, ignore=("jit",), **kwargs)


d = lax.dot_general
error("dot", lambda x: lax.dot(x, x), (4, 5))
error("dot_rank", lambda x: lax.dot(x, x), (2, 3, 4))
for i, dims in enumerate(
    [
        (((0,), (1,)), ((), ())),
        (((0, 1), (1,)), ((), ())),
        (((0,), (0,)), ((0,), (0,))),
        (((7,), (0,)), ((), ())),
        (((0, 0), (0, 0)), ((), ())),
        (((-1,), (-1,)), ((), ())),
    ]
):
    error(f"dims{i}", lambda x, d=dims: lax.dot_general(x, x, d), (4, 5))
error("batch", lambda x, y: d(x, y, (((0,), (0,)), ((1,), (1,)))), (2, 3, 4), (2, 5))
M = (((0,), (0,)), ((), ()))
error(
    "preferred_narrow",
    lambda x: d(x, x, M, preferred_element_type=np.int8),
    (4, 5),
    dtypes=["int32"],
)
for p in ["foo", ("foo", "bar"), 3, ("high",)]:
    error(f"precision_{p}", lambda x, p=p: d(x, x, M, precision=p), (4, 5))
error("algorithm_cpu", lambda x: d(x, x, M, precision="TF32_TF32_F32"), (4, 5))
error("batch_matmul_rank", lambda x: lax.batch_matmul(x, x), (4,))
error("batch_matmul_ranks", lambda x, y: lax.batch_matmul(x, y), (4, 5), (2, 5, 3))
error("ragged_contracting", lambda x, y, s: lax.ragged_dot(x, y, s), (6, 3), (3, 4, 5), sizes)
error("ragged_groups", lambda x, y, s: lax.ragged_dot(x, y, s), (6, 3), (2, 3, 5), sizes)
error("ragged_dtype", lambda x, y, s: lax.ragged_dot(x, y, s), (6, 3), (3, 3, 5), (3,))
IM, K = (2, 3, 8, 8), (4, 3, 3, 3)
for name, fun in {
    "features": lambda x, k: lax.conv(x, k[:, :2], (1, 1), "SAME"),
    "strides_length": lambda x, k: lax.conv(x, k, (1,), "SAME"),
    "padding": lambda x, k: lax.conv(x, k, (1, 1), "FOO"),
    "padding_length": lambda x, k: lax.conv_general_dilated(x, k, (1, 1), [(0, 0)]),
    "padding_negative": lambda x, k: lax.conv_general_dilated(x, k, (1, 1), [(-9, 0), (0, 0)]),
    "dilation": lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", rhs_dilation=(0, 1)),
    "same_dilated": lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", lhs_dilation=(2, 1)),
    "dims_length": lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW")),
    "dims_letters": lambda x, k: lax.conv_general_dilated(
        x, k, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHX", "NCHW")
    ),
    "dims_repeated": lambda x, k: lax.conv_general_dilated(
        x, k, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCXX")
    ),
    "dims_type": lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=3),
    "feature_groups": lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", feature_group_count=2),
    "feature_groups0": lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", feature_group_count=0),
    "batch_groups": lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", batch_group_count=3),
    "transpose_padding": lambda x, k: lax.conv_transpose(x, k, (1, 1), "FOO"),
}.items():  # fmt: skip
    error(f"conv_{name}", fun, IM, K)
error("conv_rank", lambda x, k: lax.conv(x, k, (1, 1), "SAME"), IM, K[1:])
error("conv_dtype", lambda x, k: lax.conv(x, k, (1, 1), "SAME"), IM, np.ones(K, np.float16))
for a, b in [
    ("int32", "int8"),
    ("int8", "uint8"),
    ("float32", "int32"),
    ("float32", "bfloat16"),
    ("complex64", "float32"),
]:
    error(
        f"conv_preferred_{b}",
        lambda x, k, b=b: lax.conv(x, k, (1, 1), "SAME", preferred_element_type=dtype_of(b)),
        IM,
        K,
        dtypes=[a],
    )


# Shapes and dimension numbers
def static(name, fun):
    CASES.append(Case(f"static_{name}", lambda: [np.asarray(v) for v in fun()], []))


NHWC = ("NHWC", "HWIO", "NHWC")
static(
    "conv_dimension_numbers", lambda: lax.conv_dimension_numbers((1, 2, 3, 4), (1, 2, 3, 4), NHWC)
)
static(
    "conv_dimension_numbers_none",
    lambda: lax.conv_dimension_numbers((1, 2, 3, 4), (1, 2, 3, 4), None),
)
static("conv_general_permutations", lambda: lax.conv_general_permutations(("HNCW", "WHOI", "CWNH")))
for padding in ["SAME", "SAME_LOWER", "VALID"]:
    static(
        f"padtype_{padding}",
        lambda p=padding: lax.padtype_to_pads((8, 9, 7), (3, 2, 4), (2, 1, 3), p),
    )
    static(
        f"conv_shape_{padding}",
        lambda p=padding: lax.conv_shape_tuple((2, 3, 8, 9), (4, 3, 3, 2), (2, 1), p),
    )
    static(
        f"conv_general_shape_{padding}",
        lambda p=padding: lax.conv_general_shape_tuple((2, 8, 9, 3), (3, 2, 3, 4), (2, 1), p, NHWC),
    )
    if padding != "SAME_LOWER":
        static(
            f"conv_transpose_shape_{padding}",
            lambda p=padding: lax.conv_transpose_shape_tuple(
                (2, 8, 9, 3), (3, 2, 3, 4), (2, 3), p, NHWC
            ),
        )
static("conv_shape_groups", lambda: lax.conv_shape_tuple((4, 3, 8), (4, 3, 3), (2,), [(1, 2)], 2))
static(
    "conv_transpose_shape_pads",
    lambda: lax.conv_transpose_shape_tuple(
        (2, 8, 9, 3), (3, 2, 3, 4), (2, 3), [(1, 2), (0, 1)], NHWC
    ),
)
