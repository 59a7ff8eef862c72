"""Harnesses of products of matrices and convolutions."""

import numpy as np

from jax import lax
from jax._src import test_util as jtu
from jax._src.dtypes import bfloat16
from jax._src.internal_test_util.harness_tables.harness import (
    Harness,
    Limitation,
    RandArg,
    StaticArg,
    all_types,
    preferred_type_combinations,
)
from jax._src.internal_test_util.harness_tables.naming import named, shaped

_INEXACT = [np.float16, bfloat16, np.float32, np.float64, np.complex64, np.complex128]
_INTEGERS = [
    np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64,
]  # fmt: skip
_PRECISIONS = (None, lax.Precision.DEFAULT, lax.Precision.HIGH, lax.Precision.HIGHEST)


def _preferred():
    supported = jtu.dtypes.all
    return [(t, u) for t, u in preferred_type_combinations if t in supported and u in supported]


def _dot_case(
    head, lhs, rhs, numbers, lhs_dtype, rhs_dtype, *, precision=None, preferred=None,
    enable_xla=True,
):  # fmt: skip
    parts = {"lhs": shaped(lhs, lhs_dtype), "rhs": shaped(rhs, rhs_dtype)}
    parts["dimensionnumbers"] = str(numbers).replace(" ", "")
    if precision is not None:
        parts["precision"] = repr(precision)
    if preferred is not None:
        parts["preferred"] = jtu.dtype_str(preferred)
    return Harness(
        "dot_general",
        named(head, **parts, enable_xla=enable_xla),
        lax.dot_general,
        [
            RandArg(lhs, lhs_dtype),
            RandArg(rhs, rhs_dtype),
            *map(StaticArg, (numbers, precision, preferred)),
        ],
        dtype=lhs_dtype,
        jax_unimplemented=[
            Limitation(
                "preferred_element_type must match dtype for floating point",
                devices="gpu",
                dtypes=_INEXACT,
                enabled=preferred is not None and preferred != lhs_dtype,
            ),
            Limitation(
                "preferred_element_type must be floating for integer dtype",
                devices="gpu",
                dtypes=_INTEGERS,
                enabled=preferred in _INEXACT,
                skip_run=True,
            ),
        ],
        rhs_dtype=rhs_dtype,
        lhs_shape=lhs,
        rhs_shape=rhs,
        dimension_numbers=numbers,
        precision=precision,
        preferred_element_type=preferred,
        enable_xla=enable_xla,
    )


def dot_general():
    matrices = ((1,), (0,)), ((), ())
    for dtype in jtu.dtypes.all:
        for precision in _PRECISIONS:
            for case in (
                ((3, 4), (4, 2), matrices),
                ((1, 3, 4), (1, 4, 3), (((2, 1), (1, 2)), ((0,), (0,)))),
                ((7, 3, 4), (7, 4), (((2,), (1,)), ((0,), (0,)))),
            ):
                yield _dot_case("dtypes_and_precision", *case, dtype, dtype, precision=precision)
    for head, *case in (
        (
            "batch_dimensions",
            (4, 4, 3, 3, 4),
            (4, 4, 3, 4, 2),
            (((4,), (3,)), ((0, 1, 2), (0, 1, 2))),
        ),
        (
            "batch_dimensions",
            (8, 4, 3, 3, 4),
            (4, 8, 3, 4, 2),
            (((4, 3), (3, 2)), ((0, 1), (1, 0))),
        ),
        ("squeeze", (4,), (4, 4), (((0,), (0,)), ((), ()))),
        ("squeeze", (4, 4), (4,), (((1,), (0,)), ((), ()))),
        ("squeeze", (4,), (4,), (((0,), (0,)), ((), ()))),
    ):
        yield _dot_case(head, *case, np.float32, np.float32)
    for dtype, preferred in _preferred():
        yield _dot_case("preferred", (4, 3), (3, 6), matrices, dtype, dtype, preferred=preferred)
    for i, lhs in enumerate(all_types):
        for rhs in all_types[i + 1 :]:
            for enable_xla in (True, False):
                yield _dot_case(
                    "different_dtypes", (4, 3), (3, 6), matrices, lhs, rhs, enable_xla=enable_xla
                )


def _conv_case(
    head,
    lhs,
    rhs,
    dtype=np.float32,
    *,
    strides=None,
    padding=None,
    lhs_dilation=None,
    rhs_dilation=None,
    layout=("NCHW", "OIHW", "NCHW"),
    features=1,
    batches=1,
    precision=None,
    preferred=None,
    enable_xla=True,
):
    spatial = len(lhs) - 2
    ones = (1,) * spatial
    parameters = {
        "window_strides": strides or ones,
        "padding": padding or ((0, 0),) * spatial,
        "lhs_dilation": lhs_dilation or ones,
        "rhs_dilation": rhs_dilation or ones,
        "dimension_numbers": layout,
        "feature_group_count": features,
        "batch_group_count": batches,
        "precision": precision,
    }
    names = {key.replace("_", ""): value for key, value in parameters.items()}
    names["precision"] = repr(precision)
    return Harness(
        "conv_general_dilated",
        named(
            head,
            lhs=shaped(lhs, dtype),
            rhs=shaped(rhs, dtype),
            **names,
            # So are they named, also where no type is preferred.
            preferred=jtu.dtype_str(preferred or np.float64),
            enablexla=enable_xla,
        ),
        lax.conv_general_dilated,
        [
            RandArg(lhs, dtype),
            RandArg(rhs, dtype),
            *map(StaticArg, (*parameters.values(), preferred)),
        ],
        dtype=dtype,
        jax_unimplemented=[
            Limitation(
                "preferred_element_type not implemented for integers",
                devices="gpu",
                dtypes=[np.int8, np.int16, np.int32, np.int64],
                enabled=preferred in (np.int16, np.int32, np.int64),
            )
        ],
        lhs_shape=lhs,
        rhs_shape=rhs,
        **parameters,
        preferred_element_type=preferred,
        enable_xla=enable_xla,
    )


_IMAGES, _KERNEL = (2, 3, 9, 10), (3, 3, 4, 5)
_SEQUENCES = {"layout": ("NCH", "OIH", "NCH")}
_CHANNELS_LAST = {"layout": ("NHWC", "HWIO", "NHWC")}
_SEQUENCES_CHANNELS_LAST = {"layout": ("NHC", "HIO", "NHC")}

# Convolutions that converters have without XLA's: name, shapes and parameters.
_TWICE = [
    ("conv1d", (2, 3, 10), (3, 3, 5), _SEQUENCES),
    ("depthwise2d", (2, 3, 9, 9), (12, 1, 3, 3), {"features": 3}),
    ("depthwise2d_dilated", (2, 3, 9, 9), (12, 1, 3, 3), {"features": 3, "rhs_dilation": (2, 1)}),
    ("depthwise1d", (2, 3, 9), (12, 1, 3), {**_SEQUENCES, "features": 3}),
    (
        "depthwise1d_dilated",
        (2, 3, 9),
        (12, 1, 3),
        {**_SEQUENCES, "features": 3, "rhs_dilation": (2,)},
    ),
    ("window_strides", _IMAGES, _KERNEL, {"strides": (2, 3)}),
    ("padding", _IMAGES, _KERNEL, {"padding": ((1, 2), (0, 0))}),
    ("padding", _IMAGES, _KERNEL, {"padding": ((1, 2), (2, 1))}),
    ("dilations", _IMAGES, _KERNEL, {"rhs_dilation": (2, 2)}),
    # Transposed convolutions; the heads of the names are spelt so.
    (
        "conv_tranpose2d_valid_padding",
        (1, 16, 16, 2),
        (2, 3, 2, 2),
        {**_CHANNELS_LAST, "lhs_dilation": (2, 2), "padding": ((1, 1), (2, 2))},
    ),
    (
        "conv_tranpose1d_valid_padding",
        (1, 16, 2),
        (3, 2, 2),
        {**_SEQUENCES_CHANNELS_LAST, "lhs_dilation": (2,), "padding": ((2, 2),)},
    ),
    (
        "conv_tranpose1d_same_padding",
        (1, 16, 2),
        (3, 2, 2),
        {**_SEQUENCES_CHANNELS_LAST, "lhs_dilation": (2,), "padding": ((2, 1),)},
    ),
    (
        "conv_tranpose2d_same_padding",
        (1, 16, 16, 2),
        (2, 3, 2, 2),
        {**_CHANNELS_LAST, "lhs_dilation": (2, 2), "padding": ((1, 1), (2, 1))},
    ),
    ("rhs_oob", _IMAGES, (3, 3, 10, 5), {}),
    ("rhs_oob_after_dilation", _IMAGES, _KERNEL, {"rhs_dilation": (2, 3)}),
    (
        "rhs_oob_after_pading",
        (1, 3, 2, 2),
        (64, 3, 7, 7),
        {"strides": (2, 2), "padding": ((3, 3), (3, 3))},
    ),
    (
        "rhs_oob_same_padding",
        (1, 1, 16, 1),
        (4, 1, 1, 2),
        {**_CHANNELS_LAST, "padding": "SAME"},
    ),
    ("dimension_numbers", (2, 9, 10, 3), (4, 5, 3, 3), _CHANNELS_LAST),
    ("dimension_numbers", _IMAGES, (4, 5, 3, 3), {"layout": ("NCHW", "HWIO", "NHWC")}),
]


def _conversion_cases():
    """Paddings and dilations that converters treat by cases: name, shapes and parameters."""
    for padding, dilation in (
        ("VALID", (1, 1)),
        ("SAME", (1, 1)),
        ("VALID", (1, 2)),
        ("SAME", (1, 2)),
        ([(1, 2), (0, 1)], (1, 2)),
    ):
        for lhs, layout in (
            ((1, 28, 28, 1), ("NHWC", "HWIO", "NHWC")),
            ((1, 1, 28, 28), ("NCHW", "HWIO", "NCHW")),
        ):
            parameters = {"padding": padding, "rhs_dilation": dilation, "layout": layout}
            yield "tf_conversion_path_2d", lhs, (3, 3, 1, 16), parameters
    for padding, dilation in (("VALID", 1), ("SAME", 1), ("VALID", 2), ("SAME", 2)):
        parameters = {
            "padding": padding,
            "rhs_dilation": (dilation,),
            "layout": ("NWC", "WIO", "NWC"),
        }
        yield "tf_conversion_path_1d", (1, 28, 1), (3, 1, 16), parameters


def convolutions():
    for dtype in jtu.dtypes.all_inexact:
        for precision in _PRECISIONS:
            yield _conv_case("dtype_precision", _IMAGES, _KERNEL, dtype, precision=precision)
    for dtype, preferred in _preferred():
        for enable_xla in (True, False) if dtype == preferred == np.float32 else (True,):
            yield _conv_case(
                "preferred", _IMAGES, _KERNEL, dtype, preferred=preferred, enable_xla=enable_xla
            )
    yield _conv_case("group_counts", (2, 6, 9, 10), (6, 3, 4, 5), features=2)
    yield _conv_case("group_counts", (4, 3, 9, 10), (6, 3, 4, 5), batches=2)
    for head, lhs, rhs, parameters in [*_TWICE, *_conversion_cases()]:
        for enable_xla in (True, False):
            yield _conv_case(head, lhs, rhs, enable_xla=enable_xla, **parameters)
    for parameters in ({}, {"rhs_dilation": (3, 2)}):
        dilation = (2, 3) if parameters else (2, 2)
        yield _conv_case("dilations", _IMAGES, _KERNEL, lhs_dilation=dilation, **parameters)
    for padding, dilation in (("VALID", 1), ("SAME", 1), ("VALID", 2), ("SAME", 2)):
        yield _conv_case(
            "tf_conversion_path_3d", (1, 4, 28, 28, 1), (2, 3, 3, 1, 16), padding=padding,
            rhs_dilation=(1, 1, dilation), layout=("NDHWC", "DHWIO", "NDHWC"),
        )  # fmt: skip
